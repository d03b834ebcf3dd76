/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of kernels in the Chrome trace. A group of blocks is a span in a lane of its rank, and its parts are spans
 * within it. A viewer shows spans of one lane that overlap wrongly, so a lane is taken only if it is free: at first the
 * one that has the group's number. Numbers are written from integers, as in base_trace_json.c.
 */
#include "base/base_trace.h"

#include <inttypes.h>

#include "base/base_trace_text.h"

static void write_stamp_us(FILE *file, const char *key, uint64_t ns)
{
    fprintf(file, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

void sv_trace_json_blocks_head(FILE *file, int rank, const sv_trace_blocks_head_t *head)
{
    fprintf(file, ",\n{\"name\":\"selvage_kernels\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"args\":{\"groups\":%" PRIu64
                  ",\"lost\":%" PRIu64 ",\"unfinished\":%" PRIu64 ",\"overwritten\":%" PRIu64
                  ",\"resolution_ns\":%" PRIu64 ",\"device_error_ns\":%" PRIu64 ",\"host_error_ns\":%" PRIu64 "}}",
            rank, head->count, head->lost, head->unfinished, head->overwritten, head->resolution_ns,
            head->device_error_ns, head->host_error_ns);
}

static void begin_block_span(FILE *file, const char *name, const char *category, int rank, unsigned lane,
                             uint64_t begin_ns, uint64_t end_ns)
{
    fprintf(file, ",\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%u", name, category, rank,
            SV_TRACE_FIRST_BLOCK_LANE + lane);
    write_stamp_us(file, "ts", begin_ns);
    write_stamp_us(file, "dur", end_ns - begin_ns);
}

/* The lane of that number or the next that is free; if none is, the one that is free first. */
static unsigned find_free_lane(const uint64_t lanes[SV_TRACE_BLOCK_LANES], unsigned wanted, uint64_t begin_ns)
{
    unsigned soonest = 0;
    for (unsigned i = 0; i < SV_TRACE_BLOCK_LANES; i++) {
        const unsigned lane = (wanted + i) % SV_TRACE_BLOCK_LANES;
        if (lanes[lane] <= begin_ns)
            return lane;
        if (lanes[lane] < lanes[soonest])
            soonest = lane;
    }
    return soonest;
}

static void name_block_lane(FILE *file, int rank, unsigned lane)
{
    const unsigned tid = SV_TRACE_FIRST_BLOCK_LANE + lane;
    fprintf(file, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%u,\"args\":{\"name\":\"blocks %u\"}}",
            rank, tid, lane);
    fprintf(file, ",\n{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":%d,\"tid\":%u,"
                  "\"args\":{\"sort_index\":%u}}", rank, tid, tid);
}

/* The stamp that comes next after that time; SV_TRACE_STAMPS for none. Of two at one time, that which comes first in
   the list. */
static unsigned next_stamp(const sv_trace_blocks_t *blocks, uint64_t after_ns, unsigned after_stamp)
{
    unsigned next = SV_TRACE_STAMPS;
    for (unsigned s = SV_TRACE_STAMP_BEGAN + 1; s < SV_TRACE_STAMPS; s++) {
        const uint64_t at_ns = blocks->at_ns[s];
        const bool later = at_ns > after_ns || (at_ns == after_ns && s > after_stamp);
        if (at_ns && later && (next == SV_TRACE_STAMPS || at_ns < blocks->at_ns[next]))
            next = s;
    }
    return next;
}

static void write_block_parts(FILE *file, int rank, unsigned lane, const sv_trace_blocks_t *blocks)
{
    uint64_t since_ns = blocks->at_ns[SV_TRACE_STAMP_BEGAN];
    unsigned stamp = SV_TRACE_STAMP_BEGAN;
    while ((stamp = next_stamp(blocks, since_ns, stamp)) < SV_TRACE_STAMPS) {
        begin_block_span(file, sv_trace_part_text(stamp), "selvage-part", rank, lane, since_ns, blocks->at_ns[stamp]);
        fprintf(file, "}");
        since_ns = blocks->at_ns[stamp];
    }
}

void sv_trace_json_blocks(FILE *file, int rank, const sv_trace_blocks_t *blocks, uint64_t count,
                          uint64_t lanes[SV_TRACE_BLOCK_LANES])
{
    for (uint64_t i = 0; i < count; i++) {
        const sv_trace_blocks_t *group = &blocks[i];
        const uint64_t begin_ns = group->at_ns[SV_TRACE_STAMP_BEGAN], end_ns = group->at_ns[SV_TRACE_STAMP_LEFT];
        const unsigned lane = find_free_lane(lanes, group->first / SV_TRACE_GROUP_BLOCKS, begin_ns);
        if (lanes[lane] == 0)
            name_block_lane(file, rank, lane);
        lanes[lane] = end_ns;
        begin_block_span(file, sv_trace_blocks_text(group->kind), "selvage-blocks", rank, lane, begin_ns, end_ns);
        fprintf(file, ",\"args\":{\"packet\":%" PRId64 ",\"peer\":%" PRId32 ",\"epoch\":%" PRIu64 ",\"bytes\":%" PRIu64
                      ",\"route\":\"%s\",\"exchange\":%" PRIu32 ",\"launch\":%" PRIu32 ",\"first\":%" PRIu32
                      ",\"blocks\":%" PRIu32 ",\"times\":%" PRIu32,
                group->packet == UINT32_MAX ? -1 : (int64_t)group->packet, group->peer, group->epoch, group->bytes,
                sv_trace_route_text(group->route), group->exchange, group->launch, group->first, group->count,
                group->times);
        write_stamp_us(file, "last_began", group->last_began_ns);
        for (unsigned s = 0; s < SV_TRACE_STAMPS; s++)
            if (group->at_ns[s])
                write_stamp_us(file, sv_trace_stamp_text(s), group->at_ns[s]);
        fprintf(file, "}}");
        write_block_parts(file, rank, lane, group);
    }
}
