/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables with the sizes down and the ways across, the cliffs, the JSON and the CSV of selvage-bench-mpi. */
#include "tools/bench_mpi/bench_mpi_report.h"

#include <stdio.h>
#include <string.h>

#include "config.h"
#include "tools/bench_mpi/bench_mpi_cliffs.h"
#include "tools/common/tool_figures.h"
#include "tools/common/tool_json.h"
#include "tools/common/tool_launch.h"

bool bench_mpi_report_writable(const char *path)
{
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file)
        fclose(file);
    return !path || file;
}

static const char *device_of(const bench_mpi_run_t *run)
{
    return bench_mpi_run_needs_device(&run->options) ? bench_mpi_device_name(&run->job.device) : "no device";
}

void bench_mpi_report_head(const bench_mpi_run_t *run)
{
    char mpi[256];
    tool_mpi_name(mpi, sizeof mpi);
    printf("selvage-bench mpi %s: %d ranks, %s, %s\n", SELVAGE_VERSION_TEXT, run->job.size, device_of(run), mpi);
    printf(
        "host: host memory; device: device pointers given to MPI; hand: device memory staged by hand, a window by\n"
        "one copy; each: by a copy for each message; mixed: device memory at one end, host memory at the other;\n"
        "hand_mixed: that staged by hand; medians of %d, the slowest rank's; each cell's data compared; ~: noise, the\n"
        "repetitions differ by more than a tenth\n",
        run->options.repetitions);
    if (bench_mpi_run_needs_device(&run->options) && !run->takes_device)
        printf("device, mixed: not measured, this MPI does not say that it takes device pointers\n");
    if (run->ways[BENCH_MPI_NCCL] && !run->nccl.ready)
        printf("nccl: not measured, %s\n", run->nccl.why_not);
    fflush(stdout);
}

void bench_mpi_report_title(const bench_mpi_run_t *run, int which)
{
    const bench_mpi_kind_t *kind = bench_mpi_kind((bench_mpi_which_t)which);
    printf("\n%s, %s\n%10s", kind->name, bench_mpi_unit_name(kind->unit), "bytes");
    for (int way = 0; way < BENCH_MPI_WAYS; way++) {
        if (run->ways[way])
            printf(" %11s", bench_mpi_way_name(way));
    }
    printf("\n");
}

void bench_mpi_report_row(const bench_mpi_run_t *run, int which, int row)
{
    char text[32];
    printf("%10zu", bench_mpi_row_bytes(run, which, row));
    for (int way = 0; way < BENCH_MPI_WAYS; way++) {
        const bench_mpi_result_t *result = &run->results[which][row][way];
        if (!run->ways[way])
            continue;
        if (result->state == BENCH_MPI_RIGHT)
            printf(" %11s",
                   tool_figure_text(text, sizeof text, result->value < 1 ? 4 : 2, result->value, result->noisy));
        else
            printf(" %11s", result->state == BENCH_MPI_WRONG ? "WRONG" : "-");
    }
    printf("\n");
    fflush(stdout);
}

static void tell_cliff(const bench_mpi_run_t *run, const bench_mpi_cliff_t *cliff, void *context)
{
    const bench_mpi_kind_t *kind = bench_mpi_kind((bench_mpi_which_t)cliff->which);
    char size[24];
    (void)context;
    printf("%s, %s: %s %.4g %s, %s %.4g\n", kind->name,
           tool_size_text(size, sizeof size, bench_mpi_row_bytes(run, cliff->which, cliff->row)),
           bench_mpi_way_name(cliff->way), run->results[cliff->which][cliff->row][cliff->way].value,
           bench_mpi_unit_name(kind->unit), cliff->by_hand ? "by hand" : "as its neighbours have it", cliff->expected);
}

int bench_mpi_report_cliffs(const bench_mpi_run_t *run)
{
    if (run->job.refused[0])
        printf("\nput, get: not measured where MPI makes no window: %s\n", run->job.refused);
    printf("\ncliffs: device slower than hand, or a size with less than half the speed its neighbours let expect\n");
    const int count = bench_mpi_cliffs(run, tell_cliff, NULL);
    printf("%d cliffs\n", count);
    return count;
}

/* --- files -------------------------------------------------------------------------------------------------------- */

typedef struct output {
    FILE *file;
    const char *between; /* before the next entry of a list of JSON: a comma, after the first */
} output_t;

typedef void (*write_cell_t)(output_t *out, const bench_mpi_run_t *run, int which, int row, int way);

static void write_row(output_t *out, const bench_mpi_run_t *run, int which, int row, write_cell_t write)
{
    for (int way = 0; way < BENCH_MPI_WAYS; way++) {
        if (run->ways[way])
            write(out, run, which, row, way);
    }
}

static void write_cells(output_t *out, const bench_mpi_run_t *run, write_cell_t write)
{
    for (int which = 0; which < BENCH_MPI_KINDS; which++) {
        for (int row = 0; row < bench_mpi_row_count(run, which) && run->options.benchmarks[which]; row++)
            write_row(out, run, which, row, write);
    }
}

static void write_csv_cell(output_t *out, const bench_mpi_run_t *run, int which, int row, int way)
{
    const bench_mpi_kind_t *kind = bench_mpi_kind((bench_mpi_which_t)which);
    const bench_mpi_result_t *result = &run->results[which][row][way];
    fprintf(out->file, "%s,%s,%zu,%s,", kind->name, bench_mpi_unit_name(kind->unit),
            bench_mpi_row_bytes(run, which, row), bench_mpi_way_name(way));
    if (result->state == BENCH_MPI_NOT_MEASURED)
        fprintf(out->file, ",,,\n");
    else
        fprintf(out->file, "%.6g,%.6g,%d,%s\n", result->value, result->seconds, result->iterations,
                result->state == BENCH_MPI_RIGHT ? "right" : "wrong");
}

static void write_record(output_t *out, const bench_mpi_run_t *run, int which, int row, int way)
{
    fputs(BENCH_MPI_RECORD, out->file);
    write_csv_cell(out, run, which, row, way);
}

static void begin_entry(output_t *out, const char *benchmark, size_t bytes, int way)
{
    fprintf(out->file, "%s\n    {\"benchmark\": \"%s\", \"bytes\": %zu, \"way\": \"%s\"", out->between, benchmark,
            bytes, bench_mpi_way_name(way));
    out->between = ",";
}

static void write_json_cell(output_t *out, const bench_mpi_run_t *run, int which, int row, int way)
{
    const bench_mpi_result_t *result = &run->results[which][row][way];
    const bench_mpi_kind_t *kind = bench_mpi_kind((bench_mpi_which_t)which);
    begin_entry(out, kind->name, bench_mpi_row_bytes(run, which, row), way);
    fprintf(out->file, ", \"unit\": \"%s\", \"measured\": %s", bench_mpi_unit_name(kind->unit),
            result->state != BENCH_MPI_NOT_MEASURED ? "true" : "false");
    if (result->state != BENCH_MPI_NOT_MEASURED)
        fprintf(out->file, ", \"value\": %.6g, \"seconds\": %.6g, \"iterations\": %d, \"wrong\": %s", result->value,
                result->seconds, result->iterations, result->state == BENCH_MPI_RIGHT ? "false" : "true");
    fprintf(out->file, "}");
}

static void write_json_cliff(const bench_mpi_run_t *run, const bench_mpi_cliff_t *cliff, void *context)
{
    output_t *out = context;
    begin_entry(out, bench_mpi_kind_name(cliff->which), bench_mpi_row_bytes(run, cliff->which, cliff->row), cliff->way);
    fprintf(out->file, ", \"value\": %.6g, \"expected\": %.6g, \"from\": \"%s\"}",
            run->results[cliff->which][cliff->row][cliff->way].value, cliff->expected,
            cliff->by_hand ? "hand" : "neighbours");
}

static bool close_file(FILE *file)
{
    const bool written = !ferror(file);
    return fclose(file) == 0 && written;
}

bool bench_mpi_report_json(const bench_mpi_run_t *run, const char *path)
{
    char mpi[256];
    FILE *file = fopen(path, "w");
    output_t rows = {file, ""}, cliffs = {file, ""};
    if (!file)
        return false;
    tool_mpi_name(mpi, sizeof mpi);
    fprintf(file, "{\n  \"tool\": \"selvage-bench\",\n  \"command\": \"mpi\",\n  \"version\": \"%s\",\n  \"mpi\": ",
            SELVAGE_VERSION_TEXT);
    tool_json_text(file, mpi);
    fprintf(file, ",\n  \"device\": ");
    tool_json_text(file, device_of(run));
    fprintf(file, ",\n  \"ranks\": %d,\n  \"window\": %d,\n  \"repetitions\": %d,\n  \"rows\": [", run->job.size,
            run->options.window, run->options.repetitions);
    write_cells(&rows, run, write_json_cell);
    fprintf(file, "\n  ],\n  \"cliffs\": [");
    (void)bench_mpi_cliffs(run, write_json_cliff, &cliffs);
    fprintf(file, "\n  ]\n}\n");
    return close_file(file);
}

bool bench_mpi_report_csv(const bench_mpi_run_t *run, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    output_t out = {file, ""};
    fprintf(file, "benchmark,unit,bytes,way,value,seconds,iterations,verdict\n");
    write_cells(&out, run, write_csv_cell);
    return close_file(file);
}

void bench_mpi_report_records(const bench_mpi_run_t *run, int which, int row)
{
    output_t out = {stdout, ""};
    write_row(&out, run, which, row, write_record);
    fflush(stdout);
}
