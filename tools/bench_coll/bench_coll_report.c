/* SPDX-License-Identifier: BSD-3-Clause */
/* The table and the CSV of `selvage-bench coll`. */
#include "tools/bench_coll/bench_coll_report.h"

#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench_report.h"

double bench_coll_ratio(const bench_coll_row_t *row, int baseline)
{
    const double theirs = row->baselines.times[baseline].median_s;
    return row->available && theirs > 0 ? theirs / row->times.median_s : -1;
}

const char *bench_coll_algo(const bench_coll_row_t *row)
{
    if (row->available && row->way.algo[0])
        return row->way.algo;
    return row->algo ? row->algo : "auto";
}

const char *bench_coll_proto(const bench_coll_row_t *row)
{
    if (row->available && row->way.proto[0])
        return row->way.proto;
    return row->proto ? row->proto : "auto";
}

int bench_coll_channels(const bench_coll_row_t *row)
{
    if (row->available && row->way.channels)
        return row->way.channels;
    return row->channels ? atoi(row->channels) : 0;
}

void bench_coll_report_title(const bench_coll_run_t *run)
{
    const tool_job_t *job = &run->job;
    printf("selvage-bench %s: coll: %s, on %d host%s, %d core%s a host%s\n", selvage_version(NULL, NULL, NULL),
           run->machine, job->hosts, job->hosts == 1 ? "" : "s", job->host_cores, job->host_cores == 1 ? "" : "s",
           job->oversubscribed ? ", fewer than ranks: times say little" : "");
}

static void print_baseline(const bench_coll_run_t *run)
{
    const bench_nccl_t *nccl = &run->nccl.base;
    if (!nccl->ready) {
        printf("nccl: n/a, %s\n", nccl->why_not[0] ? nccl->why_not : "another rank could not");
        return;
    }
    printf("nccl: version %d, channels %d (0: its own choice); tuned, with buffers registered: the best of",
           nccl->version, run->options.nccl.nccl_channels);
    for (int i = 1; i < nccl->comm_count; i++)
        printf(" %d", nccl->comms[i].channels);
    printf(nccl->comm_count > 1 ? " channels\n" : " none%s%s\n", nccl->why_not[0] ? ", " : "", nccl->why_not);
}

void bench_coll_report_head(const bench_coll_run_t *run)
{
    bench_coll_report_title(run);
    printf("back to back on the stream%s; medians of the slowest rank in %d run%s; p99: the slowest batch;\n"
           "algbw: size by time; busbw: what nccl-tests makes of it for the call; times: NCCL's by ours; cost: what\n"
           "checksums add; ~: noise, the runs differ by more than a tenth\n",
           run->options.graph ? ", replayed by graphs of 20" : "", run->options.runs,
           run->options.runs == 1 ? "" : "s");
    print_baseline(run);
    if (run->options.host)
        printf("host: the host's time in a call, p50 and p99; a bare launch takes %.2f and %.2f us\n",
               run->launch.p50_s * 1e6, run->launch.p99_s * 1e6);
    printf("\n%-14s %9s %11s %-11s %-6s %-5s %-3s %-4s %-10s %-6s %3s %10s %10s %8s %8s %6s %10s %6s %10s %6s", "call",
           "size", "count", "type", "op", "place", "reg", "sums", "algo", "proto", "ch", "median us", "p99 us", "algbw",
           "busbw", "wrong", "nccl us", "times", "tuned us", "times");
    if (run->options.checksum[1])
        printf(" %8s %7s", "cost us", "cost");
    if (run->options.host)
        printf(" %8s %8s", "host us", "p99 us");
    printf("\n");
    fflush(stdout);
}

static void print_baselines(const bench_coll_row_t *row)
{
    for (int baseline = 0; baseline < BENCH_COLL_BASELINES; baseline++) {
        const double ratio = bench_coll_ratio(row, baseline);
        const bench_times_t *times = &row->baselines.times[baseline];
        char text[24];
        if (ratio > 0)
            printf(" %10s %6.2f",
                   tool_figure_text(text, sizeof text, 2, times->median_s * 1e6, bench_times_noisy(times)), ratio);
        else
            printf(" %10s %6s", "n/a", "n/a");
    }
}

static void print_extras(const bench_coll_run_t *run, const bench_coll_row_t *row)
{
    if (row->cost_known)
        printf(" %8.2f %6.1f%%", row->cost_s * 1e6, 100 * row->cost_s / (row->times.median_s - row->cost_s));
    else if (run->options.checksum[1])
        printf(" %8s %7s", row->checksum ? "n/a" : "", row->checksum ? "n/a" : "");
    if (run->options.host)
        printf(" %8.2f %8.2f", row->host.p50_s * 1e6, row->host.p99_s * 1e6);
}

void bench_coll_report_row(const bench_coll_run_t *run, const bench_coll_row_t *row)
{
    const bench_case_t *what = &row->what;
    char median[24];
    if (run->job.rank != 0)
        return;
    printf("%-14s %9zu %11zu %-11s %-6s %-5s %-3s %-4s ", bench_call_name(what->call), what->bytes, what->count,
           selvage_type_name(what->type), bench_op_name(what->op), what->in_place ? "in" : "out",
           row->registered ? "yes" : "no", row->checksum ? "on" : "off");
    if (!row->available) {
        printf("%-10s %-6s n/a: %s\n", bench_coll_algo(row), bench_coll_proto(row), row->reason);
        return;
    }
    tool_figure_text(median, sizeof median, 2, row->times.median_s * 1e6, bench_times_noisy(&row->times));
    printf("%-10s %-6s %3d %10s %10.2f %8.3f %8.3f %6ld", bench_coll_algo(row), bench_coll_proto(row),
           bench_coll_channels(row), median, row->times.p99_s * 1e6, row->algbw_gbs, row->busbw_gbs, row->wrong);
    print_baselines(row);
    print_extras(run, row);
    printf("%s\n", row->wrong ? "  WRONG ELEMENTS" : "");
    fflush(stdout);
}

static void write_cell(FILE *file, double value)
{
    if (value > 0)
        fprintf(file, ",%.6g", value);
    else
        fprintf(file, ",");
}

static void write_line(FILE *file, const bench_coll_run_t *run, const bench_coll_row_t *row)
{
    const bench_case_t *what = &row->what;
    fprintf(file, "%s,%zu,%zu,%s,%s,%s,%d,%s,%s,%s,%s,%d,%d,%d", bench_call_name(what->call), what->bytes, what->count,
            selvage_type_name(what->type), bench_op_name(what->op), what->in_place ? "in" : "out", what->root,
            row->registered ? "yes" : "no", row->checksum ? "on" : "off", bench_coll_algo(row), bench_coll_proto(row),
            bench_coll_channels(row), run->job.size, row->times.repetitions);
    write_cell(file, row->times.median_s);
    write_cell(file, row->times.p99_s);
    write_cell(file, row->algbw_gbs);
    write_cell(file, row->busbw_gbs);
    for (int baseline = 0; baseline < BENCH_COLL_BASELINES; baseline++) {
        write_cell(file, row->baselines.times[baseline].median_s);
        write_cell(file, row->baselines.times[baseline].p99_s);
        write_cell(file, bench_coll_ratio(row, baseline));
    }
    fprintf(file, ",");
    if (row->cost_known)
        fprintf(file, "%.6g", row->cost_s);
    write_cell(file, row->host.p50_s);
    write_cell(file, row->host.p99_s);
    fprintf(file, ",");
    if (row->available)
        fprintf(file, "%ld", row->wrong);
    fprintf(file, "\n");
}

bool bench_coll_report_csv(const bench_coll_run_t *run, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    fprintf(file, "call,bytes,count,type,op,place,root,registered,checksum,algo,proto,channels,ranks,repetitions,"
                  "median_s,p99_s,algbw_gbs,busbw_gbs,nccl_s,nccl_p99_s,times_nccl,nccl_tuned_s,nccl_tuned_p99_s,"
                  "times_nccl_tuned,cost_s,host_p50_s,host_p99_s,wrong\n");
    for (int i = 0; i < run->row_count; i++)
        write_line(file, run, &run->rows[i]);
    return bench_report_close(file);
}

void bench_coll_figures(const bench_coll_run_t *run, bench_figures_t *figures_out)
{
    bench_figure_t *figure = tool_malloc(&run->job, (size_t)run->row_count * sizeof *figure);
    *figures_out = (bench_figures_t){.job = &run->job, .machine = run->machine, .figure = figure};
    for (int i = 0; i < run->row_count; i++) {
        const bench_coll_row_t *row = &run->rows[i];
        const bench_case_t *what = &row->what;
        if (!bench_call_moves(what->call))
            continue;
        bench_figure_t *next = &figure[figures_out->count++];
        *next = (bench_figure_t){.gbs = row->algbw_gbs, .available = row->available};
        snprintf(next->key, sizeof next->key, "%s/%s/%s/%s/%s/%s/%zu%s%s%s%s%s%s", bench_call_name(what->call),
                 selvage_type_name(what->type), bench_op_name(what->op), what->in_place ? "in" : "out",
                 row->registered ? "registered" : "plain", row->checksum ? "on" : "off", what->bytes,
                 row->algo ? "/" : "", row->algo ? row->algo : "", row->proto ? "/" : "", row->proto ? row->proto : "",
                 row->channels ? "/" : "", row->channels ? row->channels : "");
    }
}
