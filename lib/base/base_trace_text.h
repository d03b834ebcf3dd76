/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words for trace records, shared by the flight recorder and the timeline. All of them take any number, because a
 * record read in a signal handler may be torn, and return static text: safe in a handler.
 */
#ifndef SV_BASE_TRACE_TEXT_H
#define SV_BASE_TRACE_TEXT_H

#include <stdint.h>

enum { SV_TRACE_LANES = 17, SV_TRACE_PHASES = 7 };

/* "send" for SV_TRACE_SEND. */
const char *sv_trace_kind_text(unsigned kind);

/* The lane of the timeline that the kind belongs to, 0 to SV_TRACE_LANES-1. */
unsigned sv_trace_kind_lane(unsigned kind);

/* What the record's value is called: "bytes", "phase" or "code". */
const char *sv_trace_value_text(unsigned kind);

/* "began" and "wait" for SV_TRACE_STAMP_BEGAN and SV_TRACE_STAMP_SAW. */
const char *sv_trace_stamp_text(unsigned stamp);
const char *sv_trace_part_text(unsigned stamp);

/* "push" for SV_TRACE_BLOCKS_PUSH. */
const char *sv_trace_blocks_text(unsigned kind);

const char *sv_trace_lane_text(unsigned lane);

/* "prepare", "post" and so on, of a phase from 0. */
const char *sv_trace_phase_text(uint64_t phase);
const char *sv_trace_route_text(unsigned route);

#endif
