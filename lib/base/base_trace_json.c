/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timeline as a Chrome trace, the JSON that Perfetto and chrome://tracing read: one process per rank, one thread
 * per lane. Numbers are written from integers, so that no locale puts a comma into them. All texts are our own and need
 * no escaping. This runs once, when a communicator is destroyed, on the rank that gathered the records.
 */
#include "base/base_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/base_file.h"
#include "base/base_status.h"
#include "base/base_trace_text.h"

/* The first element is written here, so that every later one can begin with a comma. */
selvage_status_t sv_trace_json_begin(const char *path, FILE **file_out)
{
    int fd = sv_file_create(path, O_TRUNC);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file) {
        selvage_status_t status = sv_error(SELVAGE_ERR_SYSTEM, "the timeline %s cannot be written: %s", path,
                                           strerror(errno));
        if (fd >= 0)
            close(fd);
        return status;
    }
    fprintf(file, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
                  "{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":0,\"tid\":0,\"args\":{\"sort_index\":0}}");
    *file_out = file;
    return SELVAGE_SUCCESS;
}

/* Nanoseconds as microseconds with three decimals. */
static void write_us(FILE *file, const char *key, int64_t ns)
{
    uint64_t size = ns < 0 ? UINT64_C(0) - (uint64_t)ns : (uint64_t)ns;
    fprintf(file, ",\"%s\":%s%" PRIu64 ".%03u", key, ns < 0 ? "-" : "", size / 1000, (unsigned)(size % 1000));
}

void sv_trace_json_records(FILE *file, int rank, int64_t offset_ns, const sv_trace_record_t *records, uint64_t count)
{
    /* The names of the process and of its lanes, and their order. */
    fprintf(file, ",\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":\"rank %d\"}}",
            rank, rank);
    if (rank != 0)
        fprintf(file, ",\n{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,"
                      "\"args\":{\"sort_index\":%d}}", rank, rank);
    for (unsigned lane = 0; lane < SV_TRACE_LANES; lane++) {
        fprintf(file, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%u,\"args\":{\"name\":\"%s\"}}",
                rank, lane, sv_trace_lane_text(lane));
        fprintf(file, ",\n{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":%d,\"tid\":%u,"
                      "\"args\":{\"sort_index\":%u}}", rank, lane, lane);
    }
    for (uint64_t i = 0; i < count; i++) {
        const sv_trace_record_t *record = &records[i];
        const bool is_phase = record->kind == SV_TRACE_PHASE && record->value < SV_TRACE_PHASES;
        fprintf(file, ",\n{\"name\":\"%s%s%s\",\"cat\":\"selvage\",\"ph\":\"%s\",\"pid\":%d,\"tid\":%u",
                sv_trace_kind_text(record->kind), is_phase ? " " : "",
                is_phase ? sv_trace_phase_text(record->value) : "", record->end_ns ? "X" : "i", rank,
                sv_trace_kind_lane(record->kind) + (is_phase ? (unsigned)record->value : 0));
        write_us(file, "ts", (int64_t)record->begin_ns + offset_ns);
        if (record->end_ns)
            write_us(file, "dur", record->end_ns > record->begin_ns ? (int64_t)(record->end_ns - record->begin_ns) : 0);
        else
            fprintf(file, ",\"s\":\"t\"");
        fprintf(file, ",\"args\":{\"packet\":%" PRId64 ",\"peer\":%" PRId32 ",\"epoch\":%" PRIu64 ",\"%s\":%" PRIu64
                      ",\"route\":\"%s\",\"exchange\":%" PRIu32 "}}",
                record->packet == UINT32_MAX ? -1 : (int64_t)record->packet, record->peer, record->epoch,
                sv_trace_value_text(record->kind), record->value, sv_trace_route_text(record->route),
                record->exchange);
    }
}

selvage_status_t sv_trace_json_end(FILE *file, const char *path)
{
    fprintf(file, "\n]}\n");
    int failed = ferror(file);
    if (fclose(file) != 0 || failed)
        return sv_error(SELVAGE_ERR_SYSTEM, "the timeline %s could not be written completely: %s", path,
                        strerror(errno));
    return SELVAGE_SUCCESS;
}
