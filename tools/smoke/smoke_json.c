/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The run as JSON, for scripts. Names keep their unit in them; what is unknown or does not apply is null, never a
 * number that could be averaged by mistake.
 */
#include "tools/smoke/smoke_report.h"

#include <inttypes.h>

#include "tools/common/tool_json.h"

/* A number, or null if it is below the lowest that makes sense. */
static void write_known(FILE *file, double value, double lowest)
{
    if (value >= lowest)
        fprintf(file, "%.6g", value);
    else
        fprintf(file, "null");
}

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

static void write_head(FILE *file, const smoke_run_t *run)
{
    char mpi[128];
    const tool_job_t *job = &run->job;
    tool_mpi_name(mpi, sizeof mpi);
    fprintf(file, "{\n  \"tool\": \"selvage-smoke\",\n  \"version\": ");
    tool_json_text(file, selvage_version(NULL, NULL, NULL));
    fprintf(file, ",\n  \"mpi\": ");
    tool_json_text(file, mpi);
    fprintf(file, ",\n  \"device\": ");
    tool_json_text(file, selvage_device_name(selvage_comm_device(run->comm)));
    fprintf(file, ",\n  \"ranks\": %d,\n  \"hosts\": %d,\n  \"ranks_per_host\": %d,\n  \"node_size\": %d,\n", job->size,
            job->hosts, job->host_size, selvage_comm_node_size(run->comm));
    fprintf(file, "  \"cores_per_host\": %d,\n  \"crowded\": %s,\n  \"speed_judges\": %s,\n  \"checksum_off\": %s,\n",
            job->host_cores, truth(job->oversubscribed), truth(run->speed_judges), truth(run->options.no_checksum));
    fprintf(file, "  \"wire\": ");
    tool_json_text(file, selvage_comm_wire(run->comm));
    fprintf(file, ",\n  \"wire_gbs\": ");
    write_known(file, run->wire.gbs > 0 ? run->wire.gbs : -1, 0);
    fprintf(file, ",\n  \"wire_source\": ");
    tool_json_text(file, run->wire.source);
}

static void write_legs(FILE *file, const smoke_row_t *row)
{
    fprintf(file, ", \"legs\": [");
    for (int i = 0; i < row->legs.count; i++) {
        const smoke_leg_t *leg = &row->legs.leg[i];
        const double bytes = (double)row->bytes * row->packets;
        fprintf(file, "%s{\"name\": \"%s\", \"seconds\": %.6g, \"gbs\": ", i ? ", " : "", leg->name, leg->seconds);
        write_known(file, bytes > 0 && leg->seconds > 0 ? bytes / leg->seconds * 1e-9 : -1, 0);
        fprintf(file, "}");
    }
    fprintf(file, "]");
}

static void write_row(FILE *file, const smoke_row_t *row)
{
    const smoke_leg_t *slowest = smoke_legs_slowest(&row->legs);
    fprintf(file, "    {\"route\": \"%s\", \"available\": %s", selvage_route_name(row->route), truth(row->available));
    if (!row->available) {
        fprintf(file, ", \"reason\": ");
        tool_json_text(file, row->reason);
        fprintf(file, "}");
        return;
    }
    fprintf(file, ", \"size\": %zu, \"packets\": %d, \"epochs\": %d, \"seconds\": %.6g, \"gbs\": %.6g", row->bytes,
            row->packets, row->epochs, row->seconds, row->gbs);
    write_legs(file, row);
    fprintf(file, ", \"slowest_leg\": ");
    if (slowest)
        tool_json_text(file, slowest->name);
    else
        fprintf(file, "null");
    fprintf(file, ", \"share_of_slowest_leg\": ");
    write_known(file, row->share_of_leg, 0);
    fprintf(file, ", \"bound_seconds\": ");
    write_known(file, row->bound_s > 0 ? row->bound_s : -1, 0);
    fprintf(file, ", \"share_of_bound\": ");
    write_known(file, row->share_of_bound, 0);
    fprintf(file, ", \"share_of_wire\": ");
    write_known(file, row->share_of_wire, 0);
    fprintf(file, ", \"packets_checked\": %" PRIu64 ", \"bad_packets\": %" PRIu64 ", \"verdict\": \"%s\"}",
            row->checked, row->bad, smoke_verdict_name(row->verdict));
}

static void write_memory(FILE *file, const char *name, const smoke_memory_t *memory)
{
    fprintf(file, "\"%s\": {\"resident_peak_bytes\": %.0f, \"proportional_bytes\": %.0f, \"selvage_bytes\": %.0f}",
            name, memory->peak, memory->share, memory->library);
}

static void write_suite(FILE *file, const smoke_suite_t *suite)
{
    fprintf(file, ",\n  \"collectives\": [");
    for (int i = 0; i < suite->row_count; i++) {
        const smoke_call_row_t *row = &suite->rows[i];
        fprintf(file, "%s\n    {\"call\": \"%s\", \"results\": %" PRIu64 ", \"bad_results\": %" PRIu64
                ", \"size\": %zu, \"seconds\": %.6g}", i ? "," : "", smoke_call_name(row->call), row->cases, row->bad,
                row->bytes, row->seconds);
    }
    fprintf(file, "%s]", suite->row_count ? "\n  " : "");
    if (suite->reason[0]) {
        fprintf(file, ",\n  \"collectives_reason\": ");
        tool_json_text(file, suite->reason);
    }
}

void smoke_json_write(FILE *file, const smoke_run_t *run)
{
    const smoke_totals_t *totals = &run->totals;
    write_head(file, run);
    fprintf(file, ",\n  \"rows\": [\n");
    for (int i = 0; i < run->row_count; i++) {
        write_row(file, &run->rows[i]);
        fprintf(file, "%s\n", i + 1 < run->row_count ? "," : "");
    }
    fprintf(file, "  ],\n  \"totals\": {\"packets_checked\": %" PRIu64 ", \"bad_packets\": %" PRIu64, totals->checked,
            totals->bad);
    fprintf(file, ", \"resends\": %" PRIu64 ", \"bad_digests\": %" PRIu64 ", \"bad_records\": %" PRIu64,
            totals->resends, totals->bad_digests, totals->bad_records);
    fprintf(file, ", \"stale_discarded\": %" PRIu64 ", \"asked_again\": %" PRIu64 ", \"faults_injected\": %" PRIu64 "}",
            totals->stale_discarded, totals->asked_again, totals->faults_injected);
    if (run->options.memory) {
        fprintf(file, ",\n  \"memory\": {");
        write_memory(file, "max", &run->memory_max);
        fprintf(file, ", ");
        write_memory(file, "mean", &run->memory_mean);
        fprintf(file, "}");
    }
    if (run->options.suite)
        write_suite(file, &run->suite);
    fprintf(file, ",\n  \"ok\": %s\n}\n", truth(smoke_totals_right(totals)));
}
