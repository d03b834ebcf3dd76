/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selvage-halos: the halo of a periodic cube of cells on every rank, six faces, some widths and numbers of fields, by
 * selvage_halo_*() and, in the same run, by its rivals: packing by hand with NCCL's or RCCL's grouped send and receive,
 * as they are and with some numbers of channels, and MPI datatypes on copies on the host. In four modes: until the host
 * knows (wait), and back to back on the stream, by two calls (stream), by one (run), and replayed by a graph (graph).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/tool_options.h"
#include "tools/halos/halo_bench.h"

enum { EXIT_USAGE = 2, EDGE_MAX = 1290, WIDTH_MAX = 8, CHECK_CELLS_MAX = 140 * 140 * 140 };

/* --- a case ------------------------------------------------------------------------------------------------------- */

static size_t pitch_of(const halo_bench_t *bench)
{
    return bench->hand.edge + 2 * bench->hand.width;
}

static void open_halo(halo_bench_t *bench, bool checksum)
{
    selvage_field_t fields[HAND_FIELDS_MAX];
    const selvage_halo_params_t params = {SELVAGE_HALO_PARAMS_INIT,
                                          .checksum = checksum ? SELVAGE_CHECKSUM_DEFAULT : SELVAGE_CHECKSUM_OFF};
    const int width = (int)bench->hand.width;
    for (size_t f = 0; f < bench->hand.fields; f++)
        fields[f] = (selvage_field_t){SELVAGE_FIELD_INIT, .data = bench->hand.field[f],
                                      .element_bytes = sizeof(double), .order = SELVAGE_ORDER_FIRST,
                                      .width_lo = {width, width, width}, .width_hi = {width, width, width}};
    tool_try(&bench->job, "halo",
             selvage_halo_create(bench->grid, &params, fields, (int)bench->hand.fields, &bench->halo));
}

void halo_case_open(halo_bench_t *bench, const halo_case_t *what)
{
    const size_t edge = (size_t)what->edge, width = (size_t)what->width;
    selvage_grid_params_t params = {SELVAGE_GRID_PARAMS_INIT, .ndims = 3, .periodic = {1, 1, 1},
                                    .reorder = bench->options.reorder};
    int blocks[3] = {0};
    MPI_Dims_create(bench->job.size, 3, blocks);
    for (int d = 0; d < 3; d++) {
        params.blocks[d] = blocks[d];
        params.global_extent[d] = (int64_t)blocks[d] * what->edge;
    }
    tool_try(&bench->job, "grid", selvage_grid_create(bench->comm, &params, &bench->grid));
    bench->place = (selvage_grid_info_t){SELVAGE_GRID_INFO_INIT};
    tool_try(&bench->job, "grid", selvage_grid_describe(bench->grid, &bench->place));
    bench->hand = (hand_faces_t){.edge = edge, .width = width, .fields = (size_t)what->fields,
                                 .n = HALO_FACES * (size_t)what->fields * width * edge * edge};
    const size_t bytes = pitch_of(bench) * pitch_of(bench) * pitch_of(bench) * sizeof(double);
    for (int f = 0; f < what->fields; f++)
        tool_try(&bench->job, "memory", selvage_device_malloc(bench->device, bytes, (void **)&bench->hand.field[f]));
    open_halo(bench, what->checksum);
}

void halo_case_close(halo_bench_t *bench)
{
    selvage_halo_destroy(bench->halo);
    selvage_grid_destroy(bench->grid);
    for (size_t f = 0; f < bench->hand.fields; f++)
        selvage_device_free(bench->device, bench->hand.field[f]);
}

/* --- right or wrong ----------------------------------------------------------------------------------------------- */

/* What the cell of the whole domain holds that lies at these indices of this rank's array. */
static double value_at(const halo_bench_t *bench, size_t field, const size_t index[3])
{
    double value = (double)field;
    for (int d = 0; d < 3; d++) {
        const int64_t whole = bench->place.global_extent[d];
        const int64_t at = bench->place.local_first[d] + (int64_t)index[d] - (int64_t)bench->hand.width;
        value = value * 4096 + (double)((at + whole) % whole);
    }
    return value;
}

/* How many dimensions of an index lie outside of the own cells: 0 is an own cell, 1 one of a face's halo. */
static int outside(const halo_bench_t *bench, const size_t index[3])
{
    int count = 0;
    for (int d = 0; d < 3; d++)
        count += index[d] < bench->hand.width || index[d] >= bench->hand.width + bench->hand.edge;
    return count;
}

typedef long (*visit_t)(const halo_bench_t *bench, size_t field, const size_t index[3], double *cell);

static long set_cell(const halo_bench_t *bench, size_t field, const size_t index[3], double *cell)
{
    *cell = outside(bench, index) == 0 ? value_at(bench, field, index) : -1;
    return 0;
}

static long check_cell(const halo_bench_t *bench, size_t field, const size_t index[3], double *cell)
{
    const int out = outside(bench, index);
    return *cell != (out < 2 ? value_at(bench, field, index) : -1);
}

static long visit(const halo_bench_t *bench, size_t field, double *cells, visit_t function)
{
    const size_t pitch = pitch_of(bench);
    size_t index[3];
    long sum = 0;
    for (index[2] = 0; index[2] < pitch; index[2]++)
        for (index[1] = 0; index[1] < pitch; index[1]++)
            for (index[0] = 0; index[0] < pitch; index[0]++)
                sum += function(bench, field, index, cells++);
    return sum;
}

/* Through pinned memory and back, if the cube is small enough to be looked at. */
static long visit_all(halo_bench_t *bench, visit_t function, bool back)
{
    const size_t cells = pitch_of(bench) * pitch_of(bench) * pitch_of(bench), bytes = cells * sizeof(double);
    void *host;
    long sum = 0;
    if (cells > CHECK_CELLS_MAX)
        return -1;
    tool_try(&bench->job, "pinned memory", selvage_device_host_malloc(bench->device, bytes, &host));
    for (size_t f = 0; f < bench->hand.fields; f++) {
        double *field = bench->hand.field[f];
        tool_try(&bench->job, "copy", selvage_device_copy(bench->device, host, field, bytes,
                                                          SELVAGE_COPY_DEVICE_TO_HOST, bench->traffic.stream));
        tool_try(&bench->job, "copy", selvage_stream_synchronize(bench->device, bench->traffic.stream));
        sum += visit(bench, f, host, function);
        if (back)
            tool_try(&bench->job, "copy", selvage_device_copy(bench->device, field, host, bytes,
                                                              SELVAGE_COPY_HOST_TO_DEVICE, bench->traffic.stream));
        tool_try(&bench->job, "copy", selvage_stream_synchronize(bench->device, bench->traffic.stream));
    }
    selvage_device_host_free(bench->device, host);
    return sum;
}

void halo_fill(halo_bench_t *bench)
{
    (void)visit_all(bench, set_cell, true);
}

long halo_wrong(halo_bench_t *bench)
{
    long bad = visit_all(bench, check_cell, false);
    tool_reduce(&bench->job, bench->job.comm, &bad, 1, MPI_LONG, MPI_SUM);
    return bad < 0 ? -1 : bad;
}

/* --- times -------------------------------------------------------------------------------------------------------- */

static void wait_halo(void *context)
{
    halo_bench_t *bench = context;
    tool_try(&bench->job, "exchange", selvage_halo_exchange(bench->halo, bench->traffic.stream));
    tool_try(&bench->job, "synchronize", selvage_stream_synchronize(bench->device, bench->traffic.stream));
}

static void enqueue_halo(void *context)
{
    halo_bench_t *bench = context;
    tool_try(&bench->job, "start", selvage_halo_start(bench->halo, bench->traffic.stream));
    tool_try(&bench->job, "enqueue_wait", selvage_halo_enqueue_wait(bench->halo, bench->traffic.stream));
}

static void run_halo(void *context)
{
    halo_bench_t *bench = context;
    tool_try(&bench->job, "run", selvage_halo_run(bench->halo, bench->traffic.stream));
}

static bool capture_halo(void *context)
{
    const halo_bench_t *bench = context;
    return selvage_halo_run(bench->halo, bench->traffic.stream) == SELVAGE_SUCCESS;
}

static void finish_halo(void *context)
{
    halo_bench_t *bench = context;
    tool_try(&bench->job, "wait", selvage_halo_wait(bench->halo, bench->traffic.stream));
    tool_try(&bench->job, "synchronize", selvage_stream_synchronize(bench->device, bench->traffic.stream));
}

/* Whether the routes allow epochs that end on the stream: not between nodes, nor where one is forced that needs the
   host, which is found by trying. Collective; ends one epoch. */
static bool can_enqueue(halo_bench_t *bench)
{
    if (selvage_comm_node_size(bench->comm) < bench->job.size)
        return false;
    tool_try(&bench->job, "start", selvage_halo_start(bench->halo, bench->traffic.stream));
    selvage_status_t status = selvage_halo_enqueue_wait(bench->halo, bench->traffic.stream);
    if (status != SELVAGE_ERR_UNSUPPORTED)
        tool_try(&bench->job, "enqueue_wait", status);
    finish_halo(bench);
    return bench_all(&bench->job, status == SELVAGE_SUCCESS);
}

static void measure_row(halo_bench_t *bench, halo_row_t *row)
{
    const bench_work_t works[BENCH_MODES] = {
        [BENCH_WAIT] = {wait_halo, NULL, bench},
        [BENCH_STREAM] = {enqueue_halo, finish_halo, bench},
        [BENCH_RUN] = {run_halo, finish_halo, bench},
        [BENCH_GRAPH] = {run_halo, finish_halo, bench}};
    bench_work_t work = works[row->what.mode];
    bench_graph_t graph = {&bench->job, bench->device, bench->traffic.stream, NULL, {0}};
    halo_case_open(bench, &row->what);
    row->info = (selvage_halo_info_t){SELVAGE_HALO_INFO_INIT};
    tool_try(&bench->job, "halo", selvage_halo_describe(bench->halo, &row->info));
    bool possible = row->what.mode == BENCH_WAIT || can_enqueue(bench);
    if (row->what.mode == BENCH_GRAPH)
        possible = possible && bench_graph_open(&graph, capture_halo, &works[BENCH_GRAPH], &work);
    if (possible) {
        const bench_times_t times = bench_measure(&bench->job, row->what.mode, bench->options.seconds,
                                                  bench->options.repetitions, &work);
        row->seconds = times.median_s;
        row->noisy = bench_times_noisy(&times);
    }
    bench_graph_close(&graph);
    halo_fill(bench);
    wait_halo(bench);
    row->bad = halo_wrong(bench);
    halo_baselines(bench, row);
    halo_case_close(bench);
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

static void print_time(double seconds, bool noisy)
{
    char text[24];
    if (seconds > 0)
        printf(" %10s", tool_figure_text(text, sizeof text, 1, seconds * 1e6, noisy));
    else
        printf(" %10s", "-");
}

static void print_ratio(double baseline, double seconds)
{
    if (baseline > 0 && seconds > 0)
        printf(" %7.2f", baseline / seconds);
    else
        printf(" %7s", "-");
}

static void print_header(const halo_bench_t *bench)
{
    char device[128];
    printf("selvage-halos: %d ranks, %s, blocks %d x %d x %d\n", bench->job.size,
           tool_device_words(bench->device, device, sizeof device),
           bench->place.blocks[0], bench->place.blocks[1], bench->place.blocks[2]);
    printf("face cells: %lld cross blocks, %lld of them cross nodes (%lld with ranks in order)\n",
           (long long)bench->place.surface_cells, (long long)bench->place.surface_cells_between_nodes,
           (long long)bench->place.surface_cells_in_rank_order);
    if (!bench->nccl.ready)
        printf("no NCCL or RCCL: %s\n", bench->nccl.why_not);
    printf("times in us, rival / selvage in the last columns; ~: noise of more than a tenth\n");
    printf("%5s %5s %6s %8s %6s %6s %10s %8s %10s %10s %10s %7s %7s "
           "%7s\n", "edge", "width", "fields", "MiB", "check", "mode", "selvage", "GB/s", "by hand", "tuned", "on host",
           "hand", "tuned", "host");
}

static void print_row(const halo_row_t *row)
{
    const double gbs = row->seconds > 0 ? (double)row->info.bytes_sent / row->seconds * 1e-9 : 0;
    printf("%5d %5d %6d %8.2f %6s %6s", row->what.edge, row->what.width, row->what.fields,
           (double)row->info.bytes_sent / (1 << 20), row->what.checksum ? "on" : "off",
           bench_mode_name(row->what.mode));
    print_time(row->seconds, row->noisy);
    printf(" %8.1f", gbs);
    print_time(row->nccl_s, false);
    print_time(row->tuned_s, false);
    print_time(row->host_s, false);
    print_ratio(row->nccl_s, row->seconds);
    print_ratio(row->tuned_s, row->seconds);
    print_ratio(row->host_s, row->seconds);
    printf("%s\n", row->bad > 0 ? "  WRONG" : "");
    fflush(stdout);
}

static void write_json(FILE *file, const halo_row_t *row, bool first)
{
    fprintf(file, "%s  {\"edge\": %d, \"width\": %d, \"fields\": %d, \"checksum\": %s, \"mode\": \"%s\", "
                  "\"bytes\": %zu, \"seconds\": %.9g, \"nccl_seconds\": %.9g, \"tuned_seconds\": %.9g, "
                  "\"tuned_channels\": %d, \"host_seconds\": %.9g, \"bad\": %ld}", first ? "[\n" : ",\n",
            row->what.edge, row->what.width, row->what.fields, row->what.checksum ? "true" : "false",
            bench_mode_name(row->what.mode), row->info.bytes_sent, row->seconds, row->nccl_s, row->tuned_s,
            row->tuned_channels, row->host_s, row->bad);
}

/* --- options ------------------------------------------------------------------------------------------------------ */

static void usage(FILE *stream)
{
    fputs("usage: mpirun -n N selvage-halos [options]\n"
          "  --edges LIST    cells of an edge of every rank's cube (default 64,128,256,512)\n"
          "  --widths LIST   of the halo (default 1,3)\n"
          "  --fields LIST   numbers of fields (default 1,4)\n"
          "  --seconds S     spent on each figure (default 0.1)\n"
          "  --repetitions N a fixed number of repetitions instead\n"
          "  --host-bytes B  fields larger than this have no rival on the host (default 1073741824)\n"
          "  --reorder       blocks that are neighbours go to ranks of one node, where that helps\n"
          "  --nccl FILE     library to compare with; no: none\n"
          "  --json FILE     write the rows as JSON too\n"
          "  --help --version\n", stream);
}

static bool parse(int argc, char **argv, halo_options_t *options, char *error_text, size_t error_bytes)
{
    double host_bytes = 1 << 30;
    *options = (halo_options_t){.edges = {64, 128, 256, 512}, .edge_count = 4, .widths = {1, 3}, .width_count = 2,
                                .fields = {1, 4}, .field_count = 2, .seconds = 0.1,
                                .nccl = {.nccl_tuned = {4, 8, 16, 32}, .nccl_tuned_count = 4}};
    const tool_option_t table[] = {
        {"edges", TOOL_WHOLES, .value = options->edges, .low = 1, .high = EDGE_MAX,
         .count = &options->edge_count, .room = HALO_LIST_MAX},
        {"widths", TOOL_WHOLES, .value = options->widths, .low = 1, .high = WIDTH_MAX,
         .count = &options->width_count, .room = HALO_LIST_MAX},
        {"fields", TOOL_WHOLES, .value = options->fields, .low = 1, .high = HAND_FIELDS_MAX,
         .count = &options->field_count, .room = HALO_LIST_MAX},
        {"seconds", TOOL_NUMBER, .value = &options->seconds, .low = 0, .high = 60},
        {"repetitions", TOOL_WHOLE, .value = &options->repetitions, .low = 1, .high = BENCH_REPETITIONS_MAX},
        {"repeats", TOOL_WHOLE, .value = &options->repetitions, .low = 1,
         .high = BENCH_REPETITIONS_MAX}, /* its former name */
        {"host-bytes", TOOL_NUMBER, .value = &host_bytes, .low = 0, .high = 1e12},
        {"reorder", TOOL_FLAG, .value = &options->reorder},
        {"nccl", TOOL_TEXT, .value = &options->nccl.nccl},
        {"json", TOOL_TEXT, .value = &options->json},
        {"help", TOOL_FLAG, .value = &options->help},
        {"version", TOOL_FLAG, .value = &options->version},
    };
    const bool understood =
        tool_options_parse(argc, argv, table, sizeof table / sizeof *table, NULL, error_text, error_bytes);
    options->host_bytes = (size_t)host_bytes;
    return understood;
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

static size_t largest_message(const halo_options_t *options)
{
    size_t largest = 1;
    for (int e = 0; e < options->edge_count; e++)
        for (int w = 0; w < options->width_count && options->widths[w] <= options->edges[e]; w++)
            for (int f = 0; f < options->field_count; f++) {
                size_t bytes = sizeof(double) * HALO_FACES * (size_t)options->edges[e] * (size_t)options->edges[e] *
                               (size_t)options->widths[w] * (size_t)options->fields[f];
                largest = bytes > largest ? bytes : largest;
            }
    return largest;
}

static long measure_case(halo_bench_t *bench, int edge, int width, int fields, FILE *json, bool *first)
{
    long bad = 0;
    for (int mode = BENCH_WAIT; mode < BENCH_MODES; mode++)
        for (int checksum = 1; checksum >= 0; checksum--) {
            halo_row_t row = {.what = {edge, width, fields, checksum, (bench_mode_t)mode}};
            measure_row(bench, &row);
            if (bench->job.rank == 0) {
                if (*first)
                    print_header(bench);
                print_row(&row);
                if (json)
                    write_json(json, &row, *first);
            }
            *first = false;
            bad += row.bad > 0;
        }
    return bad;
}

static long measure_all(halo_bench_t *bench, FILE *json)
{
    const halo_options_t *options = &bench->options;
    bool first = true;
    long bad = 0;
    for (int e = 0; e < options->edge_count; e++)
        for (int w = 0; w < options->width_count; w++)
            for (int f = 0; f < options->field_count; f++)
                if (options->widths[w] <= options->edges[e])
                    bad += measure_case(bench, options->edges[e], options->widths[w], options->fields[f], json,
                                        &first);
    if (json)
        fputs(first ? "[]\n" : "\n]\n", json);
    return bad;
}

static int run(halo_bench_t *bench)
{
    FILE *json = NULL;
    if (bench->options.json && bench->job.rank == 0 && !(json = fopen(bench->options.json, "w")))
        tool_die_text(&bench->job, "the JSON file cannot be written");
    tool_try(&bench->job, "communicator", selvage_comm_create(bench->job.comm, NULL, &bench->comm));
    bench->device = selvage_comm_device(bench->comm);
    tool_traffic_init(&bench->traffic, &bench->job, bench->comm, largest_message(&bench->options));
    bench_nccl_init(&bench->nccl, &bench->traffic, &bench->options.nccl);
    long bad = measure_all(bench, json);
    bench_nccl_fini(&bench->nccl);
    tool_traffic_fini(&bench->traffic);
    selvage_comm_destroy(bench->comm);
    if (json)
        fclose(json);
    if (bench->job.rank == 0)
        printf(bad ? "%ld cases with wrong halo cells\n" : "every halo cell that was looked at was right\n", bad);
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int answer_without_mpi(const halo_options_t *options)
{
    if (tool_launcher_rank() != 0)
        return EXIT_SUCCESS;
    if (options->help)
        usage(stdout);
    else
        printf("selvage-halos %s\n", selvage_version(NULL, NULL, NULL));
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static halo_bench_t bench;
    char error[160];
    int code = EXIT_USAGE;
    const bool understood = parse(argc, argv, &bench.options, error, sizeof error);
    if (understood && (bench.options.help || bench.options.version))
        return answer_without_mpi(&bench.options);
    if (tool_launcher_rank() == 0 && !understood) {
        usage(stderr);
        fprintf(stderr, "\nselvage-halos: %s\n", error);
    }
    if (!understood && !tool_is_launched())
        return EXIT_USAGE;
    tool_job_init(&bench.job, "selvage-halos", &argc, &argv);
    if (understood)
        code = run(&bench);
    tool_job_fini(&bench.job);
    return code;
}
