/* SPDX-License-Identifier: BSD-3-Clause */
/* The JSON of `selvage-bench coll`. */
#include <string.h>

#include "tools/bench_coll/bench_coll_report.h"
#include "tools/bench/bench_report.h"
#include "tools/common/tool_json.h"

void bench_coll_report_json_head(FILE *file, const bench_coll_run_t *run)
{
    char mpi[256];
    tool_mpi_name(mpi, sizeof mpi);
    fprintf(file, "{\n  \"tool\": \"selvage-bench\",\n  \"command\": \"coll\",\n  \"version\": ");
    tool_json_text(file, selvage_version(NULL, NULL, NULL));
    fprintf(file, ",\n  \"mpi\": ");
    tool_json_text(file, mpi);
    fprintf(file, ",\n  \"machine\": ");
    tool_json_text(file, run->machine);
    fprintf(file, ",\n  \"device\": ");
    tool_json_text(file, selvage_device_name(run->ground.device));
    fprintf(file, ",\n  \"ranks\": %d,\n  \"hosts\": %d,\n  \"crowded\": %s,\n  \"seconds\": %.6g,\n  \"runs\": %d,\n",
            run->job.size, run->job.hosts, run->job.oversubscribed ? "true" : "false", run->options.seconds,
            run->options.runs);
}

static void write_known(FILE *file, const char *name, double value)
{
    if (value > 0)
        fprintf(file, ", \"%s\": %.6g", name, value);
    else
        fprintf(file, ", \"%s\": null", name);
}

static void write_figures(FILE *file, const bench_coll_run_t *run, const bench_coll_row_t *row)
{
    static const char *const baselines[BENCH_COLL_BASELINES] = {"nccl", "nccl_tuned"};
    const bench_coll_baselines_t *theirs = &row->baselines;
    char name[32];
    fprintf(file,
            ", \"repetitions\": %d, \"median_s\": %.6g, \"p99_s\": %.6g, \"algbw_gbs\": %.6g, \"busbw_gbs\": %.6g",
            row->times.repetitions, row->times.median_s, row->times.p99_s, row->algbw_gbs, row->busbw_gbs);
    fprintf(file, ", \"median_low_s\": %.6g, \"median_high_s\": %.6g", row->times.interval.low,
            row->times.interval.high);
    for (int baseline = 0; baseline < BENCH_COLL_BASELINES; baseline++) {
        snprintf(name, sizeof name, "%s_s", baselines[baseline]);
        write_known(file, name, theirs->times[baseline].median_s);
        snprintf(name, sizeof name, "%s_p99_s", baselines[baseline]);
        write_known(file, name, theirs->times[baseline].p99_s);
        snprintf(name, sizeof name, "times_%s", baselines[baseline]);
        write_known(file, name, bench_coll_ratio(row, baseline));
    }
    if (theirs->tuned_channels)
        fprintf(file, ", \"nccl_tuned_channels\": %d", theirs->tuned_channels);
    if (row->cost_known)
        fprintf(file, ", \"cost_s\": %.6g", row->cost_s);
    if (run->options.host)
        fprintf(file, ", \"host_p50_s\": %.6g, \"host_p99_s\": %.6g", row->host.p50_s, row->host.p99_s);
    fprintf(file, ", \"wrong\": %ld}", row->wrong);
}

static void write_row(FILE *file, const bench_coll_run_t *run, const bench_coll_row_t *row)
{
    const bench_case_t *what = &row->what;
    fprintf(file,
            "    {\"call\": \"%s\", \"size\": %zu, \"count\": %zu, \"type\": \"%s\", \"op\": \"%s\", \"in_place\": %s, "
            "\"root\": %d, \"registered\": %s, \"checksum\": %s, \"algo\": \"%s\", \"proto\": \"%s\", "
            "\"channels\": %d, \"available\": %s",
            bench_call_name(what->call), what->bytes, what->count, selvage_type_name(what->type),
            bench_op_name(what->op), what->in_place ? "true" : "false", what->root, row->registered ? "true" : "false",
            row->checksum ? "true" : "false", bench_coll_algo(row), bench_coll_proto(row), bench_coll_channels(row),
            row->available ? "true" : "false");
    if (row->available) {
        write_figures(file, run, row);
        return;
    }
    fprintf(file, ", \"reason\": ");
    tool_json_text(file, row->reason);
    fprintf(file, "}");
}

bool bench_coll_report_json(const bench_coll_run_t *run, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    bench_coll_report_json_head(file, run);
    if (run->options.host)
        fprintf(file, "  \"launch_p50_s\": %.6g,\n  \"launch_p99_s\": %.6g,\n", run->launch.p50_s, run->launch.p99_s);
    fprintf(file, "  \"nccl_version\": %d,\n  \"nccl_channels\": %d,\n  \"rows\": [\n", run->nccl.base.version,
            run->options.nccl.nccl_channels);
    for (int i = 0; i < run->row_count; i++) {
        write_row(file, run, &run->rows[i]);
        fprintf(file, "%s\n", i + 1 < run->row_count ? "," : "");
    }
    fprintf(file, "  ]\n}\n");
    return bench_report_close(file);
}
