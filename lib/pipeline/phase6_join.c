/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Phase 6, join: everything landed and verified, as the host has seen. Work that the caller enqueues from now on finds
 * the halos in place on any stream; the interior computation that runs since phase 1 was never waited for.
 */
#include "pipeline/pipe_phases.h"

static void trace_phases(selvage_exchange_t *x, uint64_t now_ns)
{
    sv_trace_record_t record = {.packet = UINT32_MAX, .peer = -1, .epoch = x->epoch, .exchange = (uint32_t)x->id};
    x->phase_end_ns[4] = x->phase_end_ns[4] ? x->phase_end_ns[4] : now_ns;
    x->phase_end_ns[5] = x->phase_end_ns[6] = now_ns;
    x->phase_begin_ns[6] = x->phase_end_ns[1];
    for (unsigned phase = 0; phase < 7; phase++) {
        record.kind = SV_TRACE_PHASE;
        record.begin_ns = x->phase_begin_ns[phase];
        record.end_ns = x->phase_end_ns[phase] > record.begin_ns ? x->phase_end_ns[phase] : record.begin_ns + 1;
        record.value = phase;
        sv_trace_add(&x->comm->trace, &record);
    }
    record.kind = SV_TRACE_EPOCH;
    record.begin_ns = x->phase_begin_ns[0];
    record.end_ns = now_ns;
    record.value = 0;
    sv_trace_add(&x->comm->trace, &record);
}

/* The measured policy keeps the best time of either way and uses the better one from then on. */
static void record_measurement(selvage_exchange_t *x, uint64_t now_ns)
{
    uint64_t took_ns = now_ns - x->phase_begin_ns[0], *best = &x->measured_ns[x->defer_peer];
    if (*best == 0 || took_ns < *best)
        *best = took_ns;
    x->measured_count++;
}

void sv_phase6_join(selvage_exchange_t *x, uint64_t now_ns)
{
    trace_phases(x, now_ns);
    record_measurement(x, now_ns);
    x->comm->stats.epochs++;
    sv_list_remove(&x->active_link);
    /* Partner: the acquire of a kernel that holds the caller's stream (sv_await). */
    __atomic_store_n(x->abort + 1, x->epoch, __ATOMIC_RELEASE);
    sv_exchange_moved(x, now_ns);
    sv_exchange_set_state(x, SV_EXCHANGE_IDLE);
}
