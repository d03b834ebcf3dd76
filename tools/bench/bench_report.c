/* SPDX-License-Identifier: BSD-3-Clause */
/* The table, the JSON and the CSV of selvage-bench. */
#include "tools/bench/bench_report.h"
#include "tools/common/tool_json.h"

#include <stdio.h>
#include <string.h>

double bench_row_share(const bench_row_t *row)
{
    return row->available && row->bound_s > 0 ? row->bound_s / row->times.median_s : -1;
}

double bench_row_ratio(const bench_row_t *row, bench_baseline_t baseline)
{
    return row->available && row->baseline_s[baseline] > 0 ? row->baseline_s[baseline] / row->times.median_s : -1;
}

double bench_row_cost(const bench_row_t *row)
{
    return row->cost_s / (row->times.median_s - row->cost_s);
}

bool bench_report_writable(const char *path)
{
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file)
        fclose(file);
    return !path || file;
}

static void print_nccl(const bench_run_t *run)
{
    const bench_nccl_t *nccl = &run->nccl;
    if (!nccl->ready) {
        printf("nccl: n/a, %s\n", nccl->why_not[0] ? nccl->why_not : "another rank could not");
        return;
    }
    printf("nccl: version %d, channels %d (0: its own choice); tuned: the best of", nccl->version,
           run->options.nccl_channels);
    for (int i = 1; i < nccl->comm_count; i++)
        printf(" %d", nccl->comms[i].channels);
    printf(nccl->comm_count > 1 ? " channels\n" : " none%s%s\n", nccl->why_not[0] ? ", " : "", nccl->why_not);
}

void bench_report_title(const bench_run_t *run)
{
    const tool_job_t *job = &run->job;
    printf("selvage-bench %s: %s: %s, on %d host%s, %d core%s a host%s\n", selvage_version(NULL, NULL, NULL),
           bench_command_name(run->options.command), run->machine, job->hosts, job->hosts == 1 ? "" : "s",
           job->host_cores, job->host_cores == 1 ? "" : "s",
           job->oversubscribed ? ", fewer than ranks: times say little" : "");
}

void bench_report_head(const bench_run_t *run)
{
    bench_report_title(run);
    printf(
        "wait: start to landed and seen by the host; stream: back to back, the host waits once; slowest rank; GB/s of\n"
        "payload sent per rank; bound: share of the raw copies of the route, all ranks at once; naive, aware, nccl,\n"
        "tuned: how many times faster than all down, MPI, all up; than device pointers through MPI; than NCCL's\n"
        "grouped send and receive, as it is and tuned; cost: what checksums add; ~: noise, the 95 %% interval of the\n"
        "median is wider than a tenth of it\n");
    if (!run->peer.ready)
        printf("bound of peer: n/a, no copies between GPUs of one host here\n");
    if (!run->aware)
        printf("aware: n/a, not asked for, or the MPI does not say that it takes device pointers\n");
    print_nccl(run);
    printf("\n%-7s %-6s %8s %-4s %-6s %6s %10s %10s %9s %6s %6s %6s %6s %6s %8s %6s\n", "pattern", "route", "size",
           "sums", "mode", "times", "median us", "p99 us", "GB/s", "bound", "naive", "aware", "nccl", "tuned",
           "cost us", "cost");
    fflush(stdout);
}

static const char *ratio_text(char text[16], double value, double factor, const char *unit)
{
    if (value < 0)
        return "n/a";
    snprintf(text, 16, "%.*f%s", value * factor < 10 ? 2 : 0, value * factor, unit);
    return text;
}

/* The cost may be below zero, where noise is larger. */
static void print_cost(const bench_row_t *row)
{
    if (row->cost_known)
        printf(" %8.1f %5.1f%%", row->cost_s * 1e6, 100 * bench_row_cost(row));
    else
        printf(" %8s %6s", row->checksum ? "n/a" : "", row->checksum ? "n/a" : "");
}

void bench_report_row(const bench_run_t *run, const bench_row_t *row)
{
    char size[24], share[16], ratio[16], median[24];
    if (run->job.rank != 0)
        return;
    printf("%-7s %-6s %8s %-4s ", bench_pattern_name(row->pattern), selvage_route_name(row->route),
           tool_size_text(size, sizeof size, row->bytes), row->checksum ? "on" : "off");
    if (!row->available) {
        printf("n/a: %s\n", row->reason);
        return;
    }
    tool_figure_text(median, sizeof median, 1, row->times.median_s * 1e6, bench_times_noisy(&row->times));
    printf("%-6s %6d %10s %10.1f %9.3f %6s", bench_mode_name(row->mode), row->times.repetitions, median,
           row->times.p99_s * 1e6, row->gbs,
           ratio_text(share, bench_row_share(row), 100, "%"));
    for (int baseline = 0; baseline < BENCH_BASELINES; baseline++)
        printf(" %6s", ratio_text(ratio, bench_row_ratio(row, (bench_baseline_t)baseline), 1, ""));
    print_cost(row);
    printf("%s\n", row->bad ? "  WRONG PACKETS" : "");
    fflush(stdout);
}

static void write_known(FILE *file, const char *name, double value)
{
    if (value > 0)
        fprintf(file, ", \"%s\": %.6g", name, value);
    else
        fprintf(file, ", \"%s\": null", name);
}

static void write_row(FILE *file, const bench_row_t *row)
{
    fprintf(file,
            "    {\"pattern\": \"%s\", \"route\": \"%s\", \"size\": %zu, \"packets\": %d, \"checksum\": %s, "
            "\"mode\": \"%s\", \"available\": %s",
            bench_pattern_name(row->pattern), selvage_route_name(row->route), row->bytes, row->packets,
            row->checksum ? "true" : "false", bench_mode_name(row->mode), row->available ? "true" : "false");
    if (!row->available) {
        fprintf(file, ", \"reason\": ");
        tool_json_text(file, row->reason);
        fprintf(file, "}");
        return;
    }
    fprintf(file, ", \"repetitions\": %d, \"median_s\": %.6g, \"p99_s\": %.6g, \"gbs\": %.6g", row->times.repetitions,
            row->times.median_s, row->times.p99_s, row->gbs);
    fprintf(file, ", \"median_low_s\": %.6g, \"median_high_s\": %.6g", row->times.interval.low,
            row->times.interval.high);
    write_known(file, "bound_s", row->bound_s);
    write_known(file, "share_of_bound", bench_row_share(row));
    for (int baseline = 0; baseline < BENCH_BASELINES; baseline++) {
        char name[32];
        snprintf(name, sizeof name, "%s_s", bench_baseline_name((bench_baseline_t)baseline));
        write_known(file, name, row->baseline_s[baseline]);
        snprintf(name, sizeof name, "times_%s", bench_baseline_name((bench_baseline_t)baseline));
        write_known(file, name, bench_row_ratio(row, (bench_baseline_t)baseline));
    }
    if (row->tuned_channels)
        fprintf(file, ", \"nccl_tuned_channels\": %d", row->tuned_channels);
    if (row->cost_known)
        fprintf(file, ", \"cost_s\": %.6g, \"cost_share\": %.6g", row->cost_s, bench_row_cost(row));
    fprintf(file, ", \"packets_checked\": %ld, \"bad_packets\": %ld}", row->checked, row->bad);
}

bool bench_report_close(FILE *file)
{
    const bool written = !ferror(file);
    return fclose(file) == 0 && written;
}

void bench_report_json_head(FILE *file, const bench_run_t *run)
{
    char mpi[256];
    tool_mpi_name(mpi, sizeof mpi);
    fprintf(file, "{\n  \"tool\": \"selvage-bench\",\n  \"command\": \"%s\",\n  \"version\": ",
            bench_command_name(run->options.command));
    tool_json_text(file, selvage_version(NULL, NULL, NULL));
    fprintf(file, ",\n  \"mpi\": ");
    tool_json_text(file, mpi);
    fprintf(file, ",\n  \"machine\": ");
    tool_json_text(file, run->machine);
    fprintf(file, ",\n  \"device\": ");
    tool_json_text(file, selvage_device_name(run->traffic.device));
    fprintf(file, ",\n  \"ranks\": %d,\n  \"hosts\": %d,\n  \"crowded\": %s,\n  \"seconds\": %.6g,\n", run->job.size,
            run->job.hosts, run->job.oversubscribed ? "true" : "false", run->options.seconds);
}

bool bench_report_json(const bench_run_t *run, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    bench_report_json_head(file, run);
    fprintf(file, "  \"nccl_version\": %d,\n  \"nccl_channels\": %d,\n  \"rows\": [\n", run->nccl.version,
            run->options.nccl_channels);
    for (int i = 0; i < run->row_count; i++) {
        write_row(file, &run->rows[i]);
        fprintf(file, "%s\n", i + 1 < run->row_count ? "," : "");
    }
    fprintf(file, "  ]\n}\n");
    return bench_report_close(file);
}

static void write_cell(FILE *file, double value)
{
    if (value > 0)
        fprintf(file, ",%.6g", value);
    else
        fprintf(file, ",");
}

bool bench_report_csv(const bench_run_t *run, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    fprintf(file,
            "pattern,route,checksum,mode,bytes,packets,ranks,repetitions,median_s,p99_s,gbs,bound_s,share_of_bound,"
            "naive_s,times_naive,aware_s,times_aware,nccl_s,times_nccl,nccl_tuned_s,times_nccl_tuned,"
            "cost_s,cost_share,packets_checked,bad_packets\n");
    for (int i = 0; i < run->row_count; i++) {
        const bench_row_t *row = &run->rows[i];
        fprintf(file, "%s,%s,%s,%s,%zu,%d,%d,%d", bench_pattern_name(row->pattern), selvage_route_name(row->route),
                row->checksum ? "on" : "off", bench_mode_name(row->mode), row->bytes, row->packets, run->job.size,
                row->times.repetitions);
        write_cell(file, row->times.median_s);
        write_cell(file, row->times.p99_s);
        write_cell(file, row->gbs);
        write_cell(file, row->bound_s);
        write_cell(file, bench_row_share(row));
        for (int baseline = 0; baseline < BENCH_BASELINES; baseline++) {
            write_cell(file, row->available ? row->baseline_s[baseline] : -1);
            write_cell(file, bench_row_ratio(row, (bench_baseline_t)baseline));
        }
        if (row->cost_known)
            fprintf(file, ",%.6g,%.6g", row->cost_s, bench_row_cost(row));
        else
            fprintf(file, ",,");
        fprintf(file, ",%ld,%ld\n", row->checked, row->bad);
    }
    return bench_report_close(file);
}

void bench_report_figures(const bench_run_t *run, bench_figures_t *figures_out)
{
    static const char *const suffixes[BENCH_MODES] = {"", "/stream", "/run", "/graph"};
    bench_figure_t *figure = tool_malloc(&run->job, (size_t)run->row_count * sizeof *figure);
    for (int r = 0; r < run->row_count; r++) {
        const bench_row_t *row = &run->rows[r];
        figure[r] = (bench_figure_t){.gbs = row->gbs, .available = row->available};
        snprintf(figure[r].key, sizeof figure[r].key, "%s/%s/%s/%zu%s", bench_pattern_name(row->pattern),
                 selvage_route_name(row->route), row->checksum ? "on" : "off", row->bytes,
                 suffixes[row->mode]);
    }
    *figures_out = (bench_figures_t){&run->job, run->machine, figure, run->row_count};
}
