/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table. Rows are printed one by one, because a run may take minutes and the first row already tells much.
 * The progress line is rewritten in place and wiped before anything else is printed.
 */
#include "tools/smoke/smoke_report.h"

#include <inttypes.h>
#include <string.h>

#include "tools/smoke/smoke_terminal.h"

/* A short row needs no progress line, and a launcher needs a moment to print the row before. */
static const double first_progress_s = 0.5, next_progress_s = 0.1;

bool smoke_report_open(smoke_report_t *report, int rank, const char *json_path)
{
    *report = (smoke_report_t){0};
    if (rank != 0)
        return true;
    const bool json_on_stdout = json_path && strcmp(json_path, "-") == 0;
    report->table = json_on_stdout ? stderr : stdout;
    report->terminal = smoke_terminal_open();
    if (json_path)
        report->json = json_on_stdout ? stdout : fopen(json_path, "w");
    return !json_path || report->json;
}

bool smoke_report_close(smoke_report_t *report)
{
    bool stored = true;
    if (report->json)
        stored = fflush(report->json) == 0 && !ferror(report->json);
    if (report->json && report->json != stdout)
        stored = fclose(report->json) == 0 && stored;
    smoke_terminal_close(report->terminal);
    *report = (smoke_report_t){0};
    return stored;
}

static void print_notes(FILE *out, const smoke_run_t *run)
{
    const tool_job_t *job = &run->job;
    if (!run->speed_judges)
        fprintf(out, "note: speed informs and does not judge here: %s%s%s\n", run->soft ? "software device" : "",
                run->soft && job->oversubscribed ? ", " : "", job->oversubscribed ? "more ranks than cores" : "");
    if (run->wire.gbs > 0)
        fprintf(out, "wire: %.4g GB/s per host, says %s\n", run->wire.gbs, run->wire.source);
    else
        fprintf(out, "wire: unknown; --wire-gbs gives its peak\n");
    fprintf(out, "host messages go by %s\n", selvage_comm_wire(run->comm));
    if (run->sizes_dropped)
        fprintf(out, "note: the largest %d of the usual sizes left out, the host has not enough memory for %d ranks\n",
                run->sizes_dropped, job->host_size);
}

void smoke_report_head(smoke_report_t *report, const smoke_run_t *run)
{
    char mpi[128], device[128];
    const tool_job_t *job = &run->job;
    if (!report->table)
        return;
    report->soft = run->soft;
    tool_mpi_name(mpi, sizeof mpi);
    fprintf(report->table, "selvage-smoke %s: %d rank%s on %d host%s, %d core%s a host, device %s, %s%s\n",
            selvage_version(NULL, NULL, NULL), job->size, job->size == 1 ? "" : "s", job->hosts,
            job->hosts == 1 ? "" : "s", job->host_cores, job->host_cores == 1 ? "" : "s",
            tool_device_words(selvage_comm_device(run->comm), device, sizeof device), mpi,
            run->options.no_checksum ? ", verification off" : "");
    print_notes(report->table, run);
    fprintf(report->table, "\n%10s  %-7s %7s %9s  %16s %9s %6s  %s\n", "size", "route", "packets", "GB/s",
            "of slowest leg", "of wire", "bad", "verdict");
    fflush(report->table);
}

void smoke_report_progress(smoke_report_t *report, const smoke_row_t *row, int epoch)
{
    char size[32];
    const double now = report->terminal ? tool_seconds() : 0;
    if (epoch == 0)
        report->quiet_until_s = now + first_progress_s;
    if (!report->terminal || now < report->quiet_until_s)
        return;
    fprintf(report->terminal, "\r%s, %s: exchange %d of %d\033[K", tool_size_text(size, sizeof size, row->bytes),
            selvage_route_name(row->route), epoch, row->epochs);
    fflush(report->terminal);
    report->quiet_until_s = now + next_progress_s;
    report->progress_shown = true;
}

static void wipe_progress(smoke_report_t *report)
{
    if (report->progress_shown) {
        fprintf(report->terminal, "\r\033[K");
        fflush(report->terminal);
    }
    report->progress_shown = false;
}

static const char *share_text(char *text, size_t text_bytes, double share)
{
    if (share < 0)
        return "unknown";
    snprintf(text, text_bytes, "%.0f %%", 100 * share);
    return text;
}

void smoke_report_row(smoke_report_t *report, const smoke_row_t *row)
{
    char size[32], leg[32] = "-", wire[32];
    const smoke_leg_t *slowest = smoke_legs_slowest(&row->legs);
    if (!report->table)
        return;
    wipe_progress(report);
    if (!row->available) {
        fprintf(report->table, "%10s  %-7s %7s %9s  %16s %9s %6s  n/a: %s\n", "-", selvage_route_name(row->route), "-",
                "-", "-", "-", "-", row->reason[0] ? row->reason : "not available here");
    } else {
        if (slowest && row->share_of_leg >= 0 && !report->soft)
            snprintf(leg, sizeof leg, "%.0f %% of %s", 100 * row->share_of_leg, slowest->label);
        fprintf(report->table, "%10s  %-7s %7d %9.3f  %16s %9s %6" PRIu64 "  %s\n",
                tool_size_text(size, sizeof size, row->bytes), selvage_route_name(row->route), row->packets, row->gbs,
                leg, row->uses_wire ? share_text(wire, sizeof wire, row->share_of_wire) : "-", row->bad,
                smoke_verdict_name(row->verdict));
    }
    fflush(report->table);
}

void smoke_report_suite(smoke_report_t *report, const smoke_run_t *run)
{
    if (!report->table)
        return;
    if (run->suite.coll)
        fprintf(report->table, "\n%-16s %9s %10s %14s %6s  %s\n", "collective", "results", "size", "time, us", "bad",
                "verdict");
    else
        fprintf(report->table, "\ncollectives: n/a: %s\n", run->suite.reason);
    fflush(report->table);
}

void smoke_report_call(smoke_report_t *report, const smoke_call_row_t *row)
{
    char size[32];
    if (!report->table)
        return;
    fprintf(report->table, "%-16s %9" PRIu64 " %10s %14.1f %6" PRIu64 "  %s\n", smoke_call_name(row->call), row->cases,
            tool_size_text(size, sizeof size, row->bytes), row->seconds * 1e6, row->bad, row->bad ? "WRONG" : "OK");
    fflush(report->table);
}

static void print_memory(FILE *out, const smoke_run_t *run)
{
    const double mib = 1024.0 * 1024;
    fprintf(out, "memory per rank, MiB (largest, mean): resident at most %.1f, %.1f; ", run->memory_max.peak / mib,
            run->memory_mean.peak / mib);
    if (run->memory_max.share > 0)
        fprintf(out, "proportional share %.1f, %.1f; ", run->memory_max.share / mib, run->memory_mean.share / mib);
    fprintf(out, "held by Selvage %.2f, %.2f\n", run->memory_max.library / mib, run->memory_mean.library / mib);
}

void smoke_report_end(smoke_report_t *report, const smoke_run_t *run)
{
    const smoke_totals_t *totals = &run->totals;
    if (!report->table)
        return;
    fprintf(report->table,
            "\n%" PRIu64 " packets checked element by element, %" PRIu64 " bad; %" PRIu64 " resends, %" PRIu64
            " bad digests",
            totals->checked, totals->bad, totals->resends, totals->bad_digests);
    if (totals->faults_injected)
        fprintf(report->table, ", %" PRIu64 " faults injected on purpose", totals->faults_injected);
    fprintf(report->table, "\n");
    if (run->options.memory)
        print_memory(report->table, run);
    if (totals->results)
        fprintf(report->table, "%" PRIu64 " results of collectives checked element by element, %" PRIu64 " bad\n",
                totals->results, totals->bad_results);
    fprintf(report->table, "%s%s\n", smoke_totals_right(totals) ? "every packet was right" :
            "FAILED: wrong data was delivered",
            smoke_totals_right(totals) && totals->results ? ", and every result" : "");
    fflush(report->table);
    if (report->json)
        smoke_json_write(report->json, run);
}
