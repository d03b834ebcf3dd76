/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every rank sends its records to rank 0, one rank after the other so that rank 0 holds one rank's records at a time.
 * Clocks of different machines have different origins, and go apart: each rank compares its clock with that of rank 0
 * at the beginning and at the end, and sends its records by rank 0's.
 */
#include "comm/comm_timeline.h"

#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "comm/comm_stamps.h"

enum { HEAD_TAG = 1, RECORDS_TAG = 2, ASK_TAG = 3, ANSWER_TAG = 4, ASKS = 16 };
static const uint64_t CHUNK_BYTES = 64 << 20;

typedef struct timeline_head {
    uint64_t count, dropped;
    uint64_t has_blocks;         /* whether kernels took stamps */
    sv_trace_blocks_head_t blocks;
} timeline_head_t;

/* What a rank gives to the file. */
typedef struct timeline_part {
    timeline_head_t head;
    sv_trace_blocks_t *blocks;   /* owned */
} timeline_part_t;

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

static selvage_status_t send_whole(selvage_comm_t *comm, const void *data, size_t bytes, int destination, int tag)
{
    sv_wire_request_t request = {{0}};
    SV_TRY(sv_wire_send(comm->wire, SV_WIRE_SETUP, data, bytes, destination, tag, &request));
    return complete_timeline_request(comm, &request);
}

static selvage_status_t receive_whole(selvage_comm_t *comm, void *data, size_t bytes, int source, int tag)
{
    sv_wire_request_t request = {{0}};
    SV_TRY(sv_wire_recv(comm->wire, SV_WIRE_SETUP, data, bytes, source, tag, &request));
    return complete_timeline_request(comm, &request);
}

/* --- clocks ------------------------------------------------------------------------------------------------------- */

static selvage_status_t ask_rank_zero(selvage_comm_t *comm, sv_clock_sample_t *sample)
{
    for (int i = 0; i < ASKS; i++) {
        uint64_t asked_ns = sv_clock_ns(), other_ns = 0;
        SV_TRY(send_whole(comm, &asked_ns, sizeof asked_ns, 0, ASK_TAG));
        SV_TRY(receive_whole(comm, &other_ns, sizeof other_ns, 0, ANSWER_TAG));
        sv_clocks_compare(sample, asked_ns, other_ns, sv_clock_ns());
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t answer_all_ranks(selvage_comm_t *comm)
{
    for (int source = 1; source < comm->wire->size; source++)
        for (int i = 0; i < ASKS; i++) {
            uint64_t asked_ns, now_ns;
            SV_TRY(receive_whole(comm, &asked_ns, sizeof asked_ns, source, ASK_TAG));
            now_ns = sv_clock_ns();
            SV_TRY(send_whole(comm, &now_ns, sizeof now_ns, source, ANSWER_TAG));
        }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_timeline_compare_clocks(selvage_comm_t *comm, sv_clock_sample_t *sample_inout)
{
    if (comm->wire->rank != 0)
        return ask_rank_zero(comm, sample_inout);
    *sample_inout = (sv_clock_sample_t){.taken = true, .at_ns = sv_clock_ns()};
    return answer_all_ranks(comm);
}

/* --- the part of a rank ------------------------------------------------------------------------------------------- */

/* Puts this rank's records on rank 0's clock. */
static void shift_part(selvage_comm_t *comm, timeline_part_t *part, const sv_clock_sample_t *last)
{
    sv_trace_t *trace = &comm->trace;
    for (uint64_t i = 0; i < part->head.count; i++) {
        sv_trace_record_t *record = &trace->timeline[i];
        const uint64_t ahead_ns = (uint64_t)sv_clocks_ahead_ns(&comm->clock_first, last, record->begin_ns);
        record->begin_ns += ahead_ns;
        record->end_ns += record->end_ns ? ahead_ns : 0;
    }
    for (uint64_t i = 0; i < part->head.blocks.count; i++) {
        sv_trace_blocks_t *group = &part->blocks[i];
        const uint64_t ahead_ns =
            (uint64_t)sv_clocks_ahead_ns(&comm->clock_first, last, group->at_ns[SV_TRACE_STAMP_BEGAN]);
        group->last_began_ns += ahead_ns;
        for (unsigned s = 0; s < SV_TRACE_STAMPS; s++)
            group->at_ns[s] += group->at_ns[s] ? ahead_ns : 0;
    }
}

/* A rank whose stamps cannot be read has a part without them. */
static selvage_status_t make_own_part(selvage_comm_t *comm, timeline_part_t *part)
{
    sv_clock_sample_t last = {0};
    const sv_trace_t *trace = &comm->trace;
    part->head = (timeline_head_t){.count = trace->timeline_count, .dropped = trace->timeline_dropped};
    if (comm->stamps) {
        selvage_status_t status = sv_stamps_collect(comm, &part->blocks, &part->head.blocks);
        part->head.has_blocks = status == SELVAGE_SUCCESS;
        if (status != SELVAGE_SUCCESS)
            sv_log(SV_LOG_ERROR, "timeline", "the time stamps of kernels cannot be read: %s",
                   selvage_status_string(status));
    }
    SV_TRY(sv_timeline_compare_clocks(comm, &last));
    if (comm->topology.host_ranks[0] != 0) /* else it is one clock, however long the answers took */
        part->head.blocks.host_error_ns =
            comm->clock_first.error_ns > last.error_ns ? comm->clock_first.error_ns : last.error_ns;
    shift_part(comm, part, &last);
    return SELVAGE_SUCCESS;
}

/* How many elements of that size go in the next message. */
static uint64_t chunk_of(uint64_t count, uint64_t done, size_t element_bytes)
{
    const uint64_t most = CHUNK_BYTES / element_bytes;
    return count - done < most ? count - done : most;
}

static selvage_status_t send_array(selvage_comm_t *comm, const void *array, uint64_t count, size_t element_bytes)
{
    for (uint64_t done = 0; done < count; done += chunk_of(count, done, element_bytes))
        SV_TRY(send_whole(comm, (const uint8_t *)array + done * element_bytes,
                          chunk_of(count, done, element_bytes) * element_bytes, 0, RECORDS_TAG));
    return SELVAGE_SUCCESS;
}

static selvage_status_t send_part(selvage_comm_t *comm, const timeline_part_t *part)
{
    SV_TRY(send_whole(comm, &part->head, sizeof part->head, 0, HEAD_TAG));
    SV_TRY(send_array(comm, comm->trace.timeline, part->head.count, sizeof *comm->trace.timeline));
    return send_array(comm, part->blocks, part->head.blocks.count, sizeof *part->blocks);
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

/* Where records of other ranks are received. */
typedef struct timeline_file {
    FILE *file;                  /* NULL: the records are thrown away, so that the others get through */
    void *room;                  /* owned */
    uint64_t room_bytes;
    uint64_t lanes[SV_TRACE_BLOCK_LANES];
} timeline_file_t;

/* What another rank has, this one's settings do not say. */
static selvage_status_t receive_chunk(selvage_comm_t *comm, timeline_file_t *out, uint64_t bytes, int source)
{
    if (bytes > out->room_bytes) {
        sv_free(out->room);
        out->room = NULL;
        out->room_bytes = 0;
        SV_TRY(sv_calloc(bytes, 1, &out->room));
        out->room_bytes = bytes;
    }
    return receive_whole(comm, out->room, bytes, source, RECORDS_TAG);
}

static void write_blocks_head(timeline_file_t *out, int rank, const timeline_head_t *head)
{
    memset(out->lanes, 0, sizeof out->lanes);
    if (out->file && head->has_blocks)
        sv_trace_json_blocks_head(out->file, rank, &head->blocks);
    if (head->dropped)
        sv_log(SV_LOG_WARN, "timeline", "rank %d dropped %llu records; SELVAGE_TRACE_EVENTS can be larger", rank,
               (unsigned long long)head->dropped);
    if (head->blocks.lost)
        sv_log(SV_LOG_WARN, "timeline", "rank %d lost the stamps of %llu blocks; SELVAGE_TRACE_EVENTS can be larger",
               rank, (unsigned long long)head->blocks.lost);
}

static selvage_status_t receive_part(selvage_comm_t *comm, timeline_file_t *out, int source)
{
    timeline_head_t head;
    SV_TRY(receive_whole(comm, &head, sizeof head, source, HEAD_TAG));
    write_blocks_head(out, source, &head);
    for (uint64_t done = 0, now; done < head.count; done += now) {
        now = chunk_of(head.count, done, sizeof(sv_trace_record_t));
        SV_TRY(receive_chunk(comm, out, now * sizeof(sv_trace_record_t), source));
        if (out->file)
            sv_trace_json_records(out->file, source, 0, out->room, now);
    }
    for (uint64_t done = 0, now; done < head.blocks.count; done += now) {
        now = chunk_of(head.blocks.count, done, sizeof(sv_trace_blocks_t));
        SV_TRY(receive_chunk(comm, out, now * sizeof(sv_trace_blocks_t), source));
        if (out->file)
            sv_trace_json_blocks(out->file, source, out->room, now, out->lanes);
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t collect_timeline(selvage_comm_t *comm, const timeline_part_t *own)
{
    timeline_file_t out = {0};
    selvage_status_t written = sv_trace_json_begin(comm->config.trace, &out.file), status = SELVAGE_SUCCESS;
    write_blocks_head(&out, 0, &own->head);
    if (written == SELVAGE_SUCCESS) {
        sv_trace_json_records(out.file, 0, 0, comm->trace.timeline, own->head.count);
        sv_trace_json_blocks(out.file, 0, own->blocks, own->head.blocks.count, out.lanes);
    }
    for (int source = 1; source < comm->wire->size && status == SELVAGE_SUCCESS; source++)
        status = receive_part(comm, &out, source);
    if (out.file)
        written = sv_trace_json_end(out.file, comm->config.trace);
    sv_free(out.room);
    return status != SELVAGE_SUCCESS ? status : written;
}

void sv_timeline_write(selvage_comm_t *comm)
{
    timeline_part_t part = {.blocks = NULL};
    selvage_status_t status = make_own_part(comm, &part);
    if (status == SELVAGE_SUCCESS)
        status = comm->wire->rank == 0 ? collect_timeline(comm, &part) : send_part(comm, &part);
    sv_free(part.blocks);
    if (status != SELVAGE_SUCCESS)
        sv_log(SV_LOG_ERROR, "timeline", "the timeline %s is incomplete: %s", comm->config.trace,
               selvage_status_string(status));
}
