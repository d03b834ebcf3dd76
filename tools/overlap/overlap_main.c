/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selvage-overlap: how well the exchange hides its legs after each other, and after the computation.
 *
 * Two ratios come out: the exchange over its slowest leg alone, and a step (exchange, with a modelled interior kernel
 * as long on the caller's stream) over the longer of the two alone. Every epoch's data are verified. On the software
 * device there are two ranks and modelled links, so that the answer depends on the engine's order of events and hardly
 * on the machine: copies take the modelled time without using a core. On GPUs the links are the machine's own.
 */
#define _GNU_SOURCE

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/smoke_legs.h"
#include "tools/common/tool_options.h"

enum { REPEATS_MAX = 200, EXIT_USAGE = 2, RANKS = 2, ROUTES = 8 };
static const double exchange_target = 1.20, step_target = 1.10;

typedef struct overlap_options {
    const char *d2h_gbs, *h2d_gbs; /* as text, because they go into the environment */
    int packets, repeats;
    size_t bytes;
    selvage_route_t route;
    bool judge, help, version;
    const char *json;
} overlap_options_t;

typedef struct overlap {
    tool_job_t job;
    overlap_options_t options;
    selvage_device_t *device;
    selvage_comm_t *comm;
    tool_traffic_t traffic;
    bench_peer_t peer;
    selvage_buffer_t *registered;
    selvage_exchange_t *ex;
    bool modelled; /* links, on the software device */
    smoke_legs_t legs;
    double exchange, interior, step; /* seconds */
    double sequence_ratio, exchange_ratio, step_ratio;
    int bad; /* packets, of both ranks */
} overlap_t;

static void usage(FILE *stream)
{
    fputs("usage: mpirun -n N selvage-overlap [options]\n"
          "N is 2 on the software device, and any number from 2 on GPUs.\n"
          "  --d2h-gbs X   modelled bandwidth device to host, GB/s, of the software device (default 0.25)\n"
          "  --h2d-gbs X   modelled bandwidth host to device (default 0.25)\n"
          "  --routes R    one of peer, shared, staged (the default) or what else there is\n"
          "  --packets P   packets each way (default 8)\n"
          "  --sizes B     of a packet, one size (default 4M)\n"
          "  --repetitions N  of which the median counts (default 5)\n"
          "  --json FILE   write the figures as JSON; - is standard output instead of the table\n"
          "  --judge       exit with 1 if a ratio misses its target\n"
          "  --help --version\n",
          stream);
}

static bool take_route(void *value, const char *word)
{
    for (int route = SELVAGE_ROUTE_PEER; route < ROUTES; route++) {
        *(selvage_route_t *)value = (selvage_route_t)route;
        if (strcmp(word, selvage_route_name((selvage_route_t)route)) == 0 && strcmp(word, "unknown") != 0)
            return true;
    }
    return false;
}

static bool take_link_speed(void *value, const char *word)
{
    char *end;
    *(const char **)value = word;
    return strtod(word, &end) > 0 && end != word && !*end;
}

static bool parse(int argc, char **argv, overlap_options_t *options, char *error_text, size_t error_bytes)
{
    *options = (overlap_options_t){.d2h_gbs = "0.25",
                                   .h2d_gbs = "0.25",
                                   .packets = 8,
                                   .repeats = 5,
                                   .bytes = (size_t)4 << 20,
                                   .route = SELVAGE_ROUTE_STAGED};
    const tool_option_t table[] = {
        {"d2h-gbs", TOOL_WORD, .value = &options->d2h_gbs, .take = take_link_speed},
        {"h2d-gbs", TOOL_WORD, .value = &options->h2d_gbs, .take = take_link_speed},
        {"packets", TOOL_WHOLE, .value = &options->packets, .low = 1, .high = SMOKE_PATTERN_PACKETS_MAX},
        {"sizes", TOOL_SIZE, .value = &options->bytes},
        {"bytes", TOOL_SIZE, .value = &options->bytes}, /* its former name */
        {"routes", TOOL_WORD, .value = &options->route, .take = take_route},
        {"repetitions", TOOL_WHOLE, .value = &options->repeats, .low = 1, .high = REPEATS_MAX},
        {"repeats", TOOL_WHOLE, .value = &options->repeats, .low = 1, .high = REPEATS_MAX}, /* its former name */
        {"json", TOOL_TEXT, .value = &options->json},
        {"judge", TOOL_FLAG, .value = &options->judge},
        {"help", TOOL_FLAG, .value = &options->help},
        {"version", TOOL_FLAG, .value = &options->version},
    };
    return tool_options_parse(argc, argv, table, sizeof table / sizeof *table, NULL, error_text, error_bytes);
}

/* The number of ranks is as the model of two wants it, or there are GPUs. */
static bool open_device(overlap_t *overlap)
{
    tool_job_t *job = &overlap->job;
    tool_try(job, "device_open", selvage_device_open_local(NULL, &overlap->device));
    overlap->modelled = strcmp(selvage_device_name(overlap->device), "soft") == 0;
    if (strcmp(selvage_device_name(overlap->device), job->gpu.kind) != 0)
        job->gpu.index = -1; /* a GPU that the library does not use */
    return overlap->modelled ? job->size == RANKS : job->size >= RANKS;
}

static void set_up(overlap_t *overlap)
{
    const tool_job_t *job = &overlap->job;
    const overlap_options_t *options = &overlap->options;
    tool_traffic_t *traffic = &overlap->traffic;
    tool_ring_t ring;
    selvage_comm_params_t comm_params = {SELVAGE_COMM_PARAMS_INIT, .device = overlap->device};
    tool_try(job, "comm_create", selvage_comm_create(job->comm, &comm_params, &overlap->comm));
    tool_traffic_init(traffic, job, overlap->comm, options->bytes * (size_t)options->packets);
    if (selvage_buffer_register(overlap->comm, traffic->device_recv, traffic->capacity, &overlap->registered) !=
        SELVAGE_SUCCESS)
        overlap->registered = NULL;
    bench_peer_init(&overlap->peer, traffic);
    tool_ring_world(job, &ring);
    tool_traffic_shape(traffic, &ring, options->packets, options->bytes, false, false);
    const selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = options->route};
    tool_try(job, "exchange_commit", tool_traffic_commit(traffic, &params, &overlap->ex));
}

static void tear_down(overlap_t *overlap)
{
    selvage_exchange_destroy(overlap->ex);
    (void)selvage_buffer_unregister(overlap->registered);
    bench_peer_fini(&overlap->peer);
    tool_traffic_fini(&overlap->traffic);
    selvage_comm_destroy(overlap->comm);
}

static double run_interior(overlap_t *overlap)
{
    tool_traffic_t *traffic = &overlap->traffic;
    tool_barrier(&overlap->job);
    const double start = tool_seconds();
    tool_try(&overlap->job, "delay",
             selvage_device_delay_us(traffic->device, overlap->exchange * 1e6, traffic->stream));
    tool_try(&overlap->job, "delay", selvage_stream_synchronize(traffic->device, traffic->stream));
    return tool_seconds() - start;
}

static double run_exchange(overlap_t *overlap)
{
    tool_traffic_fill(&overlap->traffic);
    const double seconds = tool_traffic_epoch(&overlap->traffic, overlap->ex);
    overlap->bad += tool_traffic_check(&overlap->traffic);
    return seconds;
}

/* What an application does in a time step: the interior goes after start on the same stream. */
static double run_step(overlap_t *overlap)
{
    tool_traffic_t *traffic = &overlap->traffic;
    const tool_job_t *job = &overlap->job;
    tool_traffic_fill(traffic);
    tool_barrier(job);
    const double start = tool_seconds();
    tool_try(job, "exchange_start", selvage_exchange_start(overlap->ex, traffic->stream));
    tool_try(job, "delay", selvage_device_delay_us(traffic->device, overlap->exchange * 1e6, traffic->stream));
    tool_try(job, "exchange_wait", selvage_exchange_wait(overlap->ex, traffic->stream));
    tool_try(job, "synchronize", selvage_stream_synchronize(traffic->device, traffic->stream));
    const double seconds = tool_seconds() - start;
    overlap->bad += tool_traffic_check(traffic);
    return seconds;
}

static double measure(overlap_t *overlap, double (*run)(overlap_t *))
{
    double seconds[REPEATS_MAX];
    run(overlap);
    for (int i = 0; i < overlap->options.repeats; i++)
        seconds[i] = run(overlap);
    return tool_median_of_slowest(&overlap->job, seconds, overlap->options.repeats);
}

static void measure_all(overlap_t *overlap)
{
    smoke_legs_measure(&overlap->traffic, &overlap->peer, overlap->options.route, overlap->options.repeats,
                       &overlap->legs);
    overlap->exchange = measure(overlap, run_exchange);
    overlap->interior = measure(overlap, run_interior);
    overlap->step = measure(overlap, run_step);
    tool_reduce(&overlap->job, overlap->job.comm, &overlap->bad, 1, MPI_INT, MPI_SUM);
    const double slowest = smoke_legs_slowest(&overlap->legs)->seconds;
    const double longer = overlap->interior > overlap->exchange ? overlap->interior : overlap->exchange;
    double sum = 0;
    for (int i = 0; i < overlap->legs.count; i++)
        sum += overlap->legs.leg[i].seconds;
    overlap->sequence_ratio = sum / slowest;
    overlap->exchange_ratio = overlap->exchange / slowest;
    overlap->step_ratio = overlap->step / longer;
}

/* How near to its slowest leg an exchange comes is the machine's affair where links are not modelled. */
static bool on_target(const overlap_t *overlap)
{
    if (!overlap->modelled)
        return overlap->step_ratio <= step_target;
    return overlap->exchange_ratio <= exchange_target && overlap->step_ratio <= step_target;
}

static void print_table(const overlap_t *overlap)
{
    const overlap_options_t *options = &overlap->options;
    char size[32], device[128];
    printf("selvage-overlap: %d ranks, %s, %s, %d packets of %s each way", overlap->job.size,
           tool_device_words(overlap->device, device, sizeof device), selvage_route_name(options->route),
           options->packets, tool_size_text(size, sizeof size, options->bytes));
    if (overlap->modelled)
        printf(", modelled links %s GB/s down, %s up", options->d2h_gbs, options->h2d_gbs);
    printf("\n");
    for (int i = 0; i < overlap->legs.count; i++)
        printf("  %-34s %10.3f ms\n", overlap->legs.leg[i].name, 1e3 * overlap->legs.leg[i].seconds);
    printf("  %-34s %10.3f ms\n", "exchange", 1e3 * overlap->exchange);
    printf("  %-34s %10.3f ms\n", "interior kernel", 1e3 * overlap->interior);
    printf("  %-34s %10.3f ms\n", "step: exchange with interior", 1e3 * overlap->step);
    printf("  %-34s %8.2f\n", "legs in sequence / slowest leg", overlap->sequence_ratio);
    printf("  %-34s %8.2f", "exchange / slowest leg", overlap->exchange_ratio);
    if (overlap->modelled)
        printf("  target %.2f %s", exchange_target, overlap->exchange_ratio <= exchange_target ? "met" : "missed");
    printf("\n");
    printf("  %-34s %8.2f  target %.2f %s\n", "step / longer of both", overlap->step_ratio, step_target,
           overlap->step_ratio <= step_target ? "met" : "missed");
    printf("%s\n", overlap->bad ? "FAILED: wrong data was delivered" : "every packet was right");
}

static bool write_json(const overlap_t *overlap)
{
    const bool on_stdout = strcmp(overlap->options.json, "-") == 0;
    FILE *file = on_stdout ? stdout : fopen(overlap->options.json, "w");
    if (!file)
        return false;
    fprintf(file,
            "{\"tool\": \"selvage-overlap\", \"version\": \"%s\", \"device\": \"%s\", \"ranks\": %d, "
            "\"route\": \"%s\", \"packets\": %d, \"bytes\": %zu,\n",
            selvage_version(NULL, NULL, NULL), selvage_device_name(overlap->device), overlap->job.size,
            selvage_route_name(overlap->options.route), overlap->options.packets, overlap->options.bytes);
    fprintf(file, " \"d2h_gbs\": %g, \"h2d_gbs\": %g, \"legs\": {", atof(overlap->options.d2h_gbs),
            atof(overlap->options.h2d_gbs));
    for (int i = 0; i < overlap->legs.count; i++)
        fprintf(file, "%s\"%s\": %.6g", i ? ", " : "", overlap->legs.leg[i].label, overlap->legs.leg[i].seconds);
    fprintf(file, "},\n \"exchange_seconds\": %.6g, \"interior_seconds\": %.6g, \"step_seconds\": %.6g,\n",
            overlap->exchange, overlap->interior, overlap->step);
    fprintf(file, " \"sequence_ratio\": %.4f, \"exchange_ratio\": %.4f, \"step_ratio\": %.4f,\n",
            overlap->sequence_ratio, overlap->exchange_ratio, overlap->step_ratio);
    fprintf(file, " \"exchange_target\": %.2f, \"step_target\": %.2f, \"on_target\": %s, \"bad_packets\": %d}\n",
            exchange_target, step_target, on_target(overlap) ? "true" : "false", overlap->bad);
    bool stored = fflush(file) == 0 && !ferror(file);
    if (!on_stdout)
        stored = fclose(file) == 0 && stored;
    return stored;
}

static int report(const overlap_t *overlap)
{
    int stored = 1;
    const overlap_options_t *options = &overlap->options;
    if (overlap->job.rank == 0) {
        if (!options->json || strcmp(options->json, "-") != 0)
            print_table(overlap);
        fflush(stdout);
        if (options->json)
            stored = write_json(overlap);
        if (!stored)
            fprintf(stderr, "selvage-overlap: the JSON file could not be written\n");
    }
    tool_bcast(&overlap->job, &stored, 1, MPI_INT);
    if (overlap->bad || !stored || (options->judge && !on_target(overlap)))
        return EXIT_FAILURE;
    return EXIT_SUCCESS;
}

static int answer_without_mpi(const overlap_options_t *options)
{
    if (tool_launcher_rank() != 0)
        return EXIT_SUCCESS;
    if (options->help)
        usage(stdout);
    else
        printf("selvage-overlap %s\n", selvage_version(NULL, NULL, NULL));
    return EXIT_SUCCESS;
}

static int explain(const char *text)
{
    usage(stderr);
    fprintf(stderr, "\nselvage-overlap: %s\n", text);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    overlap_t overlap = {0};
    char error[160];
    int code = EXIT_USAGE;
    const bool understood = parse(argc, argv, &overlap.options, error, sizeof error);
    if (understood && (overlap.options.help || overlap.options.version))
        return answer_without_mpi(&overlap.options);
    if (!understood && !tool_is_launched())
        return explain(error);
    setenv("SELVAGE_SOFT_D2H_GBS", overlap.options.d2h_gbs, 1);
    setenv("SELVAGE_SOFT_H2D_GBS", overlap.options.h2d_gbs, 1);
    tool_job_init(&overlap.job, "selvage-overlap", &argc, &argv);
    if (understood && open_device(&overlap)) {
        set_up(&overlap);
        measure_all(&overlap);
        code = report(&overlap);
        tear_down(&overlap);
    } else if (overlap.job.rank == 0) {
        (void)explain(understood ? "needs 2 ranks, on GPUs 2 or more" : error);
    }
    tool_barrier(&overlap.job);
    selvage_device_close(overlap.device);
    tool_job_fini(&overlap.job);
    return code;
}
