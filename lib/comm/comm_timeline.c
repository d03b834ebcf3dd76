/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every rank sends its records to rank 0, one rank after the other so that rank 0 holds one rank's records at a time.
 * Monotonic clocks of different machines have different origins: each rank sends the distance to the wall clock too.
 */
#include "comm/comm_timeline.h"

#include <time.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"

enum { HEAD_TAG = 1, RECORDS_TAG = 2 };
static const uint64_t CHUNK_RECORDS = 1 << 20;

typedef struct timeline_head {
    uint64_t count, dropped;
    int64_t wall_offset_ns;
} timeline_head_t;

static int64_t wall_offset_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - (int64_t)sv_clock_ns();
}

static selvage_status_t complete_timeline_request(selvage_comm_t *comm, sv_wire_request_t *request)
{
    sv_deadline_t deadline;
    sv_deadline_begin(&deadline, comm, comm->timeout_s);
    for (;;) {
        selvage_status_t status = sv_wire_test(comm->wire, request, NULL);
        if (status != SELVAGE_IN_PROGRESS)
            return status;
        SV_TRY(sv_deadline_poll(&deadline));
    }
}

static selvage_status_t send_to_zero(selvage_comm_t *comm, const void *data, size_t bytes, int tag)
{
    sv_wire_request_t request = {{0}};
    SV_TRY(sv_wire_send(comm->wire, SV_WIRE_SETUP, data, bytes, 0, tag, &request));
    return complete_timeline_request(comm, &request);
}

static selvage_status_t receive_records(selvage_comm_t *comm, void *data, size_t bytes, int source, int tag)
{
    sv_wire_request_t request = {{0}};
    SV_TRY(sv_wire_recv(comm->wire, SV_WIRE_SETUP, data, bytes, source, tag, &request));
    return complete_timeline_request(comm, &request);
}

static uint64_t record_chunk_of(uint64_t count, uint64_t done)
{
    return count - done < CHUNK_RECORDS ? count - done : CHUNK_RECORDS;
}

static selvage_status_t send_records(selvage_comm_t *comm)
{
    const sv_trace_t *trace = &comm->trace;
    timeline_head_t head = {trace->timeline_count, trace->timeline_dropped, wall_offset_ns()};
    SV_TRY(send_to_zero(comm, &head, sizeof head, HEAD_TAG));
    for (uint64_t done = 0; done < head.count; done += record_chunk_of(head.count, done))
        SV_TRY(send_to_zero(comm, trace->timeline + done, record_chunk_of(head.count, done) * sizeof *trace->timeline,
                            RECORDS_TAG));
    return SELVAGE_SUCCESS;
}

/* Without a file the records of the others are thrown away, so that they get through. */
static selvage_status_t collect_timeline(selvage_comm_t *comm)
{
    sv_trace_record_t *chunk = NULL;
    FILE *file = NULL;
    uint64_t room = 0;
    selvage_status_t written = sv_trace_json_begin(comm->config.trace, &file), status = SELVAGE_SUCCESS;
    if (written == SELVAGE_SUCCESS)
        sv_trace_json_records(file, 0, 0, comm->trace.timeline, comm->trace.timeline_count);
    for (int source = 1; source < comm->wire->size; source++) {
        timeline_head_t head;
        SV_TRY_GOTO(status, receive_records(comm, &head, sizeof head, source, HEAD_TAG), end);
        for (uint64_t done = 0; done < head.count;) {
            const uint64_t now = record_chunk_of(head.count, done);
            if (now > room) { /* what another rank has, this one's settings do not say */
                sv_free(chunk);
                chunk = NULL;
                room = now;
                SV_TRY_GOTO(status, sv_calloc(room, sizeof *chunk, &chunk), end);
            }
            SV_TRY_GOTO(status, receive_records(comm, chunk, now * sizeof *chunk, source, RECORDS_TAG), end);
            if (file)
                sv_trace_json_records(file, source, head.wall_offset_ns - wall_offset_ns(), chunk, now);
            done += now;
        }
        if (head.dropped)
            sv_log(SV_LOG_WARN, "timeline", "rank %d dropped %llu records; SELVAGE_TRACE_EVENTS can be larger", source,
                   (unsigned long long)head.dropped);
    }
end:
    if (file)
        written = sv_trace_json_end(file, comm->config.trace);
    sv_free(chunk);
    return status != SELVAGE_SUCCESS ? status : written;
}

void sv_timeline_write(selvage_comm_t *comm)
{
    selvage_status_t status = comm->wire->rank == 0 ? collect_timeline(comm) : send_records(comm);
    if (status != SELVAGE_SUCCESS)
        sv_log(SV_LOG_ERROR, "timeline", "the timeline %s is incomplete: %s", comm->config.trace,
               selvage_status_string(status));
}
