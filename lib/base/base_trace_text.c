/* SPDX-License-Identifier: BSD-3-Clause */
/* Words for trace records: constant tables made from the one in base_trace.h, with bounds checked. */
#include "base/base_trace_text.h"

#include "base/base_trace.h"

const char *sv_trace_kind_text(unsigned kind)
{
    static const char *const texts[SV_TRACE_KINDS] = {
#define KIND_TEXT(name, text, lane, is_span) text,
        SV_TRACE_TABLE(KIND_TEXT)
#undef KIND_TEXT
    };
    return kind < SV_TRACE_KINDS ? texts[kind] : "unknown";
}

unsigned sv_trace_kind_lane(unsigned kind)
{
    static const unsigned char lanes[SV_TRACE_KINDS] = {
#define KIND_LANE(name, text, lane, is_span) lane,
        SV_TRACE_TABLE(KIND_LANE)
#undef KIND_LANE
    };
#define CHECK_LANE(name, text, lane, is_span) \
    _Static_assert((lane) < SV_TRACE_LANES, "the lane of " text " has no name");
    SV_TRACE_TABLE(CHECK_LANE)
#undef CHECK_LANE
    return kind < SV_TRACE_KINDS ? lanes[kind] : 0;
}

const char *sv_trace_stamp_text(unsigned stamp)
{
    static const char *const texts[SV_TRACE_STAMPS] = {
#define STAMP_TEXT(name, text, part) text,
        SV_TRACE_STAMPS_TABLE(STAMP_TEXT)
#undef STAMP_TEXT
    };
    return stamp < SV_TRACE_STAMPS ? texts[stamp] : "unknown";
}

const char *sv_trace_part_text(unsigned stamp)
{
    static const char *const texts[SV_TRACE_STAMPS] = {
#define PART_TEXT(name, text, part) part,
        SV_TRACE_STAMPS_TABLE(PART_TEXT)
#undef PART_TEXT
    };
    return stamp < SV_TRACE_STAMPS ? texts[stamp] : "unknown";
}

const char *sv_trace_blocks_text(unsigned kind)
{
    static const char *const texts[SV_TRACE_BLOCKS_KINDS] = {
        [SV_TRACE_BLOCKS_PUSH] = "push",        [SV_TRACE_BLOCKS_GATHER] = "gather",
        [SV_TRACE_BLOCKS_PULL] = "pull",        [SV_TRACE_BLOCKS_SCATTER] = "scatter",
        [SV_TRACE_BLOCKS_COLL + 1] = "all-reduce", [SV_TRACE_BLOCKS_COLL + 2] = "reduce-scatter",
        [SV_TRACE_BLOCKS_COLL + 3] = "all-gather", [SV_TRACE_BLOCKS_COLL + 4] = "broadcast",
        [SV_TRACE_BLOCKS_COLL + 5] = "reduce",     [SV_TRACE_BLOCKS_COLL + 6] = "all-to-all",
        [SV_TRACE_BLOCKS_COLL + 7] = "send and receive", [SV_TRACE_BLOCKS_COLL + 8] = "barrier"};
    return kind < SV_TRACE_BLOCKS_KINDS && texts[kind] ? texts[kind] : "unknown";
}

const char *sv_trace_value_text(unsigned kind)
{
    switch (kind) {
    case SV_TRACE_PHASE:
        return "phase";
    case SV_TRACE_BAD:
    case SV_TRACE_FAULT:
    case SV_TRACE_POISON:
        return "code";
    default:
        return "bytes";
    }
}

const char *sv_trace_lane_text(unsigned lane)
{
    static const char *const texts[SV_TRACE_LANES] = {
        [0] = "exchange",
        [8] = "packets: prepare",        [9] = "packets: device to host", [10] = "packets: send",
        [11] = "packets: receive",       [12] = "packets: host to device", [13] = "packets: device to device",
        [14] = "packets: verify",        [15] = "ready, verdicts, trouble", [16] = "wait"};
    const unsigned first_phase = sv_trace_kind_lane(SV_TRACE_PHASE);
    if (lane >= first_phase && lane < first_phase + SV_TRACE_PHASES)
        return sv_trace_phase_text(lane - first_phase);
    return lane < SV_TRACE_LANES ? texts[lane] : "unknown";
}

const char *sv_trace_phase_text(uint64_t phase)
{
    static const char *const texts[SV_TRACE_PHASES] = {"prepare", "post", "send", "receive", "drain", "verify", "join"};
    return phase < SV_TRACE_PHASES ? texts[phase] : "unknown";
}

/* In the order of selvage_route_t, whose header needs MPI's and is not included here for that reason. */
const char *sv_trace_route_text(unsigned route)
{
    static const char *const texts[] = {"-", "self", "peer", "shared", "staged", "direct"};
    return route < sizeof texts / sizeof texts[0] ? texts[route] : "unknown";
}
