/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Running an exchange: start, poll, test, wait. start records the caller's stream and hands over; run_begin() and poll
 * run where the engine lives (inline: the same thread). A poll walks the packets that are not done, newest list
 * position last, and drops the done ones from the list, so that its cost follows the active packets.
 */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_status.h"
#include "pipeline/pipe_batch.h"
#include "pipeline/pipe_epoch.h"
#include "pipeline/pipe_graph.h"
#include "pipeline/pipe_phases.h"
#include "pipeline/pipe_session.h"
#include "pipeline/route.h"

void sv_packet_trace(const sv_packet_t *p, sv_trace_kind_t kind, uint64_t begin_ns, uint64_t end_ns, uint64_t value)
{
    const selvage_exchange_t *x = p->x;
    sv_trace_add(&x->comm->trace, &(sv_trace_record_t){.begin_ns = begin_ns,
                                                       .end_ns = end_ns,
                                                       .epoch = x->epoch,
                                                       .value = value,
                                                       .packet = p->index,
                                                       .peer = p->peer->rank,
                                                       .kind = (uint16_t)kind,
                                                       .route = (uint16_t)p->route,
                                                       .exchange = sv_exchange_trace_id(x)});
}

/* --- beginning an epoch: phases 0 and 1 --------------------------------------------------------------------------- */

static selvage_status_t order_streams(selvage_exchange_t *x)
{
    sv_device_t *dev = x->comm->dev;
    void *stream[] = {x->streams.kernel, x->streams.out, x->streams.in, x->streams.peer};
    for (size_t i = 0; i < sizeof stream / sizeof stream[0]; i++)
        if (stream[i])
            SV_TRY(SV_DEVICE_CALL(dev, stream_wait_event, stream[i], x->streams.start_event));
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_exchange_order(selvage_exchange_t *x)
{
    if (!x->unordered)
        return SELVAGE_SUCCESS;
    x->unordered = false;
    if (sv_batch_start_is_passed(x))
        return SELVAGE_SUCCESS;
    SV_TRY(SV_DEVICE_CALL(x->comm->dev, event_record, x->streams.start_event, x->streams.caller));
    return order_streams(x);
}

void sv_exchange_order_others(const selvage_exchange_t *x)
{
    sv_list_t *it, *safe;
    if (x->comm->progress.threaded)
        return; /* none of them has left its order for later, and the list is that thread's */
    SV_LIST_FOR_EACH(it, safe, &x->comm->exchanges->active) {
        selvage_exchange_t *other = SV_CONTAINER_OF(it, selvage_exchange_t, active_link);
        selvage_status_t status = other == x ? SELVAGE_SUCCESS : sv_exchange_order(other);
        if (status != SELVAGE_SUCCESS)
            sv_exchange_poison(other, status, true);
    }
}

/* The last epoch tells most likely how this one ends. Epochs that are waited for at once, and repeated enqueued waits
   with little to send, happen on the caller's stream alone. */
static sv_epoch_mode_t choose_epoch_mode(const selvage_exchange_t *x)
{
    /* With a progress thread another thread would use the caller's stream; without a push nothing would tell that
       start is passed there. */
    if (x->enqueued.in_run)
        return SV_EPOCH_DEVICE_ONE_STREAM;
    const bool may_stay = !x->comm->progress.threaded && x->batch.reach != SV_KERNELS_MOVE_SOME && x->nsends > 0;
    if (x->enqueued.epoch && x->enqueued.epoch == x->started)
        return may_stay && (x->enqueued.waited_immediately || x->send_bytes <= SV_CALLER_STREAM_MAX_BYTES)
                   ? SV_EPOCH_DEVICE_ONE_STREAM
                   : SV_EPOCH_DEVICE;
    return may_stay && x->enqueued.waited_immediately && x->batch.reach == SV_KERNELS_MOVE_ALL
               ? SV_EPOCH_HOST_ONE_STREAM
               : SV_EPOCH_HOST;
}

/* Whether copies within the node wait for the copies down. Measured: three epochs of each way, then the better. */
static bool choose_defer(const selvage_exchange_t *x)
{
    enum { TRIALS = 6 };
    int policy = x->comm->config.intranode;
    if (!x->streams.out || !x->streams.peer || policy == SV_CONFIG_INTRANODE_IMMEDIATE)
        return false;
    if (policy == SV_CONFIG_INTRANODE_DEFERRED)
        return true;
    return x->timing.measured_count < TRIALS ? x->timing.measured_count & 1
                                             : x->timing.measured_ns[1] <= x->timing.measured_ns[0];
}

/* Phases 0 and 1 of every packet: what its last epoch left is cleared, then its route begins it. */
static selvage_status_t begin_epoch(selvage_exchange_t *x)
{
    /* 1. The exchange. */
    sv_exchange_timing_t *timing = &x->timing;
    uint64_t now_ns = sv_clock_ns();
    memset(timing->phase_begin_ns, 0, sizeof timing->phase_begin_ns);
    memset(timing->phase_end_ns, 0, sizeof timing->phase_end_ns);
    timing->phase_begin_ns[0] = timing->phase_begin_ns[1] = now_ns;
    x->nactive_recvs = x->nactive_sends = 0;
    x->batch.npush_due = x->batch.npull_due = 0;
    x->enqueued.kernel_stream_busy = x->enqueued.host_ends = false;
    x->start_copies = 0;
    x->batch.first_push = NULL;
    timing->defer_peer = choose_defer(x);
    x->verdicts_due = 0;
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        peer->staged_left = peer->nstaged_recvs;
        peer->verdict_due = false;
        if (peer->nstaged_recvs && x->policy != SV_CONFIG_CHECKSUM_OFF)
            x->verdicts_due++;
    }
    if (!x->unordered)
        SV_TRY(order_streams(x));

    /* 2. Receives, so that they are posted before anything arrives. */
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        sv_recv_t *recv = &x->recvs[i];
        sv_packet_t *p = &recv->p;
        recv->state = SV_RECV_WAITING;
        recv->arrived_count = recv->consumed = 0;
        recv->requested_attempt = recv->damaged = 0;
        recv->request_due = recv->between_attempts = recv->pull_prelaunched = false;
        memset(recv->arrived_segments, 0, (p->nsegments + 63) / 64 * sizeof *recv->arrived_segments);
        p->attempt = p->requests = 0;
        p->identity.epoch = x->epoch;
        p->key = sv_digest_key(&p->identity);
        p->started_ns = p->moved_ns = now_ns;
        SV_TRY(p->ops->post(recv, now_ns));
        x->active_recvs[x->nactive_recvs++] = recv;
    }

    /* 3. Sends. Those that go by messages first: their way is the longest, and copies within the node may wait for
       them. */
    for (int one_sided = 0; one_sided < 2; one_sided++) {
        for (uint32_t i = 0; i < x->nsends; i++) {
            sv_send_t *send = &x->sends[i];
            if (send->p.ops->messaged == (bool)one_sided)
                continue;
            send->state = SV_SEND_MOVING;
            send->next_stage = send->next_send = send->reaped = 0;
            send->wanted_attempt = send->ahead_epoch == x->epoch ? send->ahead_attempt : 0;
            send->p.attempt = send->p.requests = 0;
            send->silent = send->fault_decided = false;
            send->fault_kind = SV_FAULT_NONE;
            send->delay_until_ns = 0;
            if (!send->outlives_epoch) /* else phase 2 begins it, when its slots are free */
                SV_TRY(send->p.ops->begin(send, now_ns));
            x->active_sends[x->nactive_sends++] = send;
        }
        if (!one_sided && x->streams.out && timing->defer_peer)
            SV_TRY(SV_DEVICE_CALL(x->comm->dev, event_record, x->streams.last_out_event, x->streams.out));
    }

    /* 4. The kernels that these packets share, and the end of the two phases. */
    SV_TRY(sv_batch_flush(x));
    if (sv_epoch_is_on_device(x) && !x->enqueued.in_run)
        SV_TRY(sv_enqueued_push(x, now_ns));
    now_ns = sv_clock_ns();
    timing->phase_end_ns[0] = timing->phase_end_ns[1] = now_ns;
    for (int phase = 2; phase <= 5; phase++)
        timing->phase_begin_ns[phase] = now_ns;
    return SELVAGE_SUCCESS;
}

static void run_begin(void *arg)
{
    selvage_exchange_t *x = arg;
    const sv_fault_t *fault = &x->comm->fault;
    x->epoch++;
    if (fault->stop_epoch == x->epoch && fault->stop_ms)
        usleep(fault->stop_ms * 1000);
    sv_recovery_begin_lost(x);
    if (sv_exchange_state(x) != SV_EXCHANGE_RUNNING)
        return; /* a neighbour's failure came first */
    sv_list_append(&x->comm->exchanges->active, &x->active_link);
    selvage_status_t status = begin_epoch(x);
    if (status == SELVAGE_SUCCESS && !sv_epoch_is_on_device(x))
        sv_exchange_poll(x, sv_clock_ns());
    /* Without a push that has left, nothing would tell later where start was. A run needs no such place. */
    if (status == SELVAGE_SUCCESS && !x->batch.first_push && !x->enqueued.in_run &&
        sv_exchange_state(x) == SV_EXCHANGE_RUNNING)
        status = sv_exchange_order(x);
    if (status != SELVAGE_SUCCESS)
        sv_exchange_poison(x, status, true);
}

/* --- polling ------------------------------------------------------------------------------------------------------ */

static void note_phase_end(selvage_exchange_t *x, int phase, bool ended, uint64_t now_ns)
{
    if (ended && !x->timing.phase_end_ns[phase])
        x->timing.phase_end_ns[phase] = now_ns;
}

/* One walk over the packets that are not done. */
static selvage_status_t advance_packets(selvage_exchange_t *x, uint64_t now_ns, bool *moved)
{
    selvage_stats_t *stats = &x->comm->stats;
    bool all_landing = true, all_sent = true;
    /* Phases 3 and 5. */
    for (uint32_t i = 0; i < x->nactive_recvs;) {
        sv_recv_t *recv = x->active_recvs[i];
        SV_TRY(recv->p.ops->receive(recv, now_ns, moved));
        if (recv->state == SV_RECV_VERIFYING)
            SV_TRY(recv->p.ops->land(recv, now_ns, moved));
        all_landing &= recv->state != SV_RECV_WAITING;
        if (recv->state == SV_RECV_IDLE)
            x->active_recvs[i] = x->active_recvs[--x->nactive_recvs];
        else
            i++;
    }
    /* Phases 2 and 4. */
    for (uint32_t i = 0; i < x->nactive_sends;) {
        sv_send_t *send = x->active_sends[i];
        if (send->state == SV_SEND_MOVING)
            SV_TRY(send->p.ops->send(send, now_ns, moved));
        if (send->state == SV_SEND_VERDICT)
            SV_TRY(send->p.ops->drain(send, now_ns, moved));
        all_sent &= send->state != SV_SEND_MOVING;
        if (send->state != SV_SEND_IDLE) {
            i++;
            continue;
        }
        x->active_sends[i] = x->active_sends[--x->nactive_sends];
        stats->packets_sent++;
        stats->bytes_sent += send->p.bytes;
        stats->packets_by_route[send->p.route]++;
        sv_packet_trace(&send->p, SV_TRACE_VERDICT_SEEN, now_ns, 0, send->p.attempt);
    }
    SV_TRY(sv_batch_flush(x));
    if (x->verdicts_due)
        SV_TRY(sv_exchange_send_verdicts(x, moved));
    note_phase_end(x, 2, all_sent, now_ns);
    note_phase_end(x, 3, all_landing, now_ns);
    note_phase_end(x, 4, x->nactive_sends == 0, now_ns);
    return SELVAGE_SUCCESS;
}

static void trace_phases(selvage_exchange_t *x, uint64_t now_ns)
{
    sv_trace_record_t record = {.packet = UINT32_MAX, .peer = -1, .epoch = x->epoch,
                                .exchange = sv_exchange_trace_id(x)};
    x->timing.phase_end_ns[4] = x->timing.phase_end_ns[4] ? x->timing.phase_end_ns[4] : now_ns;
    x->timing.phase_end_ns[5] = x->timing.phase_end_ns[6] = now_ns;
    x->timing.phase_begin_ns[6] = x->timing.phase_end_ns[1];
    for (unsigned phase = 0; phase < 7; phase++) {
        record.kind = SV_TRACE_PHASE;
        record.begin_ns = x->timing.phase_begin_ns[phase];
        record.end_ns =
            x->timing.phase_end_ns[phase] > record.begin_ns ? x->timing.phase_end_ns[phase] : record.begin_ns + 1;
        record.value = phase;
        sv_trace_add(&x->comm->trace, &record);
    }
    record.kind = SV_TRACE_EPOCH;
    record.begin_ns = x->timing.phase_begin_ns[0];
    record.end_ns = now_ns;
    record.value = 0;
    sv_trace_add(&x->comm->trace, &record);
}

/*
 * Phase 6, join: everything landed and verified, as the host has seen. Work that the caller enqueues from now on finds
 * the halos in place on any stream; the interior computation that runs since phase 1 was never waited for.
 */
void sv_exchange_join(selvage_exchange_t *x, uint64_t now_ns)
{
    trace_phases(x, now_ns);
    /* The measured policy keeps the best time of either way and uses the better one from then on. */
    uint64_t took_ns = now_ns - x->timing.phase_begin_ns[0], *best = &x->timing.measured_ns[x->timing.defer_peer];
    if (*best == 0 || took_ns < *best)
        *best = took_ns;
    x->timing.measured_count++;
    x->comm->stats.epochs++;
    sv_list_remove(&x->active_link);
    /* Partner: the acquire of a kernel that holds the caller's stream (sv_await). */
    __atomic_store_n(x->abort + 1, x->epoch, __ATOMIC_RELEASE);
    sv_exchange_moved(x, now_ns);
    sv_exchange_set_state(x, SV_EXCHANGE_IDLE);
}

bool sv_exchange_poll(selvage_exchange_t *x, uint64_t now_ns)
{
    bool moved = false;
    if (sv_exchange_state(x) != SV_EXCHANGE_RUNNING)
        return false;
    if (x->memory.head)
        __atomic_store_n(&x->memory.head->heartbeat_ns, now_ns, __ATOMIC_RELAXED);
    selvage_status_t status = advance_packets(x, now_ns, &moved);
    if (status != SELVAGE_SUCCESS) {
        sv_exchange_poison(x, status, true);
        return true;
    }
    if (moved)
        sv_exchange_moved(x, now_ns);
    if (x->nactive_recvs == 0 && x->nactive_sends == 0 && x->verdicts_due == 0)
        sv_exchange_join(x, now_ns);
    return moved;
}

/* --- the application's side --------------------------------------------------------------------------------------- */

selvage_status_t sv_exchange_first_error(const selvage_exchange_t *x)
{
    return sv_error_quiet(x->failure.status, "%s", x->failure.text);
}

typedef struct failed_call {
    selvage_exchange_t *x;
    selvage_status_t status;
    char detail[SV_DETAIL_BYTES];
} failed_call_t;

static void poison_by_call(void *arg)
{
    failed_call_t *failed = arg;
    memcpy(sv_thread_detail(), failed->detail, sizeof failed->detail);
    sv_exchange_poison(failed->x, failed->status, true);
}

/* The neighbours will wait for this epoch or the next, so they are told. */
selvage_status_t sv_exchange_fail_call(selvage_exchange_t *x, selvage_status_t status)
{
    failed_call_t failed = {.x = x, .status = status};
    memcpy(failed.detail, sv_thread_detail(), sizeof failed.detail);
    sv_progress_call(&x->comm->progress, poison_by_call, &failed);
    return sv_exchange_first_error(x);
}

/* A call that nobody may capture does not harm the exchange. */
static selvage_status_t fail_unless_captured(selvage_exchange_t *x, selvage_status_t status)
{
    return status == SELVAGE_ERR_STATE ? status : sv_exchange_fail_call(x, status);
}

static void init_backoff(const selvage_comm_t *comm, sv_backoff_t *backoff)
{
    *backoff = (sv_backoff_t){.max_sleep_us = 100};
    backoff->oversubscribed = comm->config.spin == SV_CONFIG_SPIN_YIELD ||
                              (comm->config.spin == SV_CONFIG_SPIN_AUTO && comm->topology.oversubscribed);
}

void sv_exchange_finish_gated(selvage_exchange_t *x)
{
    sv_backoff_t backoff;
    init_backoff(x->comm, &backoff);
    while (x->enqueued.gated_epoch && x->enqueued.gated_epoch == x->started &&
           sv_exchange_state(x) == SV_EXCHANGE_RUNNING) {
        sv_enqueued_check(x); /* it has the deadline */
        sv_backoff(&backoff);
    }
}

/* A progress thread may just have poisoned the exchange, and its word must not be overwritten. */
static bool enter_running(selvage_exchange_t *x)
{
    int idle = SV_EXCHANGE_IDLE;
    /* Partner: the acquire in sv_exchange_state(), and its releases on failure. */
    return atomic_compare_exchange_strong_explicit(&x->state, &idle, SV_EXCHANGE_RUNNING, memory_order_acq_rel,
                                                   memory_order_acquire);
}

selvage_status_t sv_exchange_start_eager(selvage_exchange_t *x, void *stream)
{
    /* Waits for messages of this thread drive exchanges, too. */
    atomic_store_explicit(&x->comm->exchange_thread, (uintptr_t)sv_thread_binding(), memory_order_relaxed);
    sv_exchange_finish_gated(x);
    sv_session_seek_lost(x);
    sv_enqueued_check(x);
    selvage_status_t status = sv_epoch_catch_up(x, stream, true);
    if (status != SELVAGE_SUCCESS)
        return fail_unless_captured(x, status);
    switch (sv_exchange_state(x)) {
    case SV_EXCHANGE_BUILDING:
        return sv_error(SELVAGE_ERR_STATE, "selvage_exchange_start: the exchange is not committed");
    case SV_EXCHANGE_RUNNING:
        return sv_error(SELVAGE_ERR_STATE, "selvage_exchange_start: epoch %llu is not complete; wait for it first",
                        (unsigned long long)x->started);
    case SV_EXCHANGE_POISONED:
        return sv_exchange_first_error(x);
    case SV_EXCHANGE_IDLE:
        break;
    }
    status = sv_exchange_check_memory(x);
    if (status != SELVAGE_SUCCESS)
        return sv_exchange_fail_call(x, status);
    x->streams.caller = stream;
    x->mode = choose_epoch_mode(x);
    x->unordered = x->mode == SV_EPOCH_HOST_ONE_STREAM || x->mode == SV_EPOCH_DEVICE_ONE_STREAM;
    sv_exchange_order_others(x);
    status = sv_epoch_tell(x, x->started + 1, stream);
    if (status == SELVAGE_SUCCESS && x->layouts.packets)
        status = sv_layouts_pack(x, stream);
    if (status == SELVAGE_SUCCESS && !x->unordered)
        status = SV_DEVICE_CALL(x->comm->dev, event_record, x->streams.start_event, stream);
    if (status != SELVAGE_SUCCESS)
        return sv_exchange_fail_call(x, status);
    sv_exchange_moved(x, sv_clock_ns());
    if (!enter_running(x))
        return sv_exchange_first_error(x);
    x->started++;
    x->start_work.run = run_begin;
    x->start_work.arg = x;
    x->in_start = !x->comm->progress.threaded; /* else another thread would use the caller's stream */
    sv_progress_post(&x->comm->progress, &x->start_work);
    if (x->in_start) {
        x->in_start = false;
        x->enqueued.left_start_ns = sv_clock_ns();
    }
    return sv_exchange_state(x) == SV_EXCHANGE_POISONED ? sv_exchange_first_error(x) : SELVAGE_SUCCESS;
}

selvage_status_t sv_exchange_start(selvage_exchange_t *x, void *stream)
{
    return SV_DEVICE_CALL(x->comm->dev, stream_is_capturing, stream) ? sv_graph_start(x, stream)
                                                                     : sv_exchange_start_eager(x, stream);
}

static selvage_status_t end_epoch_call(selvage_exchange_t *x, void *stream, const char *call)
{
    const sv_exchange_state_t state = sv_exchange_state(x);
    if (state == SV_EXCHANGE_RUNNING)
        return SELVAGE_IN_PROGRESS;
    if (state == SV_EXCHANGE_POISONED)
        return sv_exchange_first_error(x);
    if (state == SV_EXCHANGE_BUILDING || x->started == 0)
        return sv_error(SELVAGE_ERR_STATE, "%s: the exchange was never started", call);
    /* All of it was verified: what is not in its place yet is brought there, ahead of later work on the stream. */
    selvage_status_t status = x->layouts.packets ? sv_layouts_finish(x, stream) : SELVAGE_SUCCESS;
    return status == SELVAGE_SUCCESS ? status : sv_exchange_fail_call(x, status);
}

/* With a progress thread nobody looks at it, and the flag is that thread's. */
static void note_host_ends(selvage_exchange_t *x)
{
    if (!x->comm->progress.threaded)
        x->enqueued.host_ends = true;
}

selvage_status_t sv_exchange_test(selvage_exchange_t *x, void *stream)
{
    note_host_ends(x);
    sv_prelaunch_note_end(x, stream, false);
    selvage_status_t queried = sv_enqueued_query(x);
    if (queried == SELVAGE_SUCCESS)
        queried = sv_epoch_catch_up(x, stream, false);
    if (queried == SELVAGE_IN_PROGRESS || sv_exchange_state(x) == SV_EXCHANGE_RUNNING)
        sv_progress_poll(&x->comm->progress);
    if (queried != SELVAGE_SUCCESS)
        return queried == SELVAGE_IN_PROGRESS ? queried : fail_unless_captured(x, queried);
    sv_enqueued_check(x);
    return end_epoch_call(x, stream, "selvage_exchange_test");
}

static void run_expire(void *arg)
{
    selvage_exchange_t *x = arg;
    if (sv_exchange_state(x) == SV_EXCHANGE_RUNNING)
        sv_exchange_poison(x, sv_exchange_report_deadline(x, x->comm->timeout_s), true);
}

static bool has_epoch_ended(const void *arg)
{
    const selvage_exchange_t *x = arg;
    return sv_exchange_state(x) != SV_EXCHANGE_RUNNING;
}

selvage_status_t sv_exchange_wait(selvage_exchange_t *x, void *stream)
{
    uint64_t entered_ns = sv_clock_ns();
    sv_backoff_t backoff;
    init_backoff(x->comm, &backoff);
    note_host_ends(x);
    sv_prelaunch_note_end(x, stream, true);
    while (sv_exchange_state(x) == SV_EXCHANGE_RUNNING) {
        sv_prelaunch_pulls(x, stream);
        if (sv_progress_poll(&x->comm->progress)) {
            if (x->comm->config.spin != SV_CONFIG_SPIN_BUSY)
                sv_backoff_reset(&backoff);
            continue;
        }
        if (x->comm->config.spin != SV_CONFIG_SPIN_BUSY)
            sv_progress_pause(&x->comm->progress, &backoff, has_epoch_ended, x);
        /* The deadline counts from the last progress, and not from before this wait. */
        const uint64_t moved_ns = atomic_load_explicit(&x->timing.progress_ns, memory_order_relaxed);
        const uint64_t since_ns = moved_ns > entered_ns ? moved_ns : entered_ns, now_ns = sv_clock_ns();
        if (x->comm->timeout_s > 0 && now_ns > since_ns && (double)(now_ns - since_ns) > x->comm->timeout_s * 1e9)
            sv_progress_call(&x->comm->progress, run_expire, x);
    }
    selvage_status_t queried;
    while ((queried = sv_enqueued_query(x)) == SELVAGE_IN_PROGRESS) { /* its kernels have the deadline */
        if (!sv_progress_poll(&x->comm->progress)) /* whom they wait for may wait for another exchange of this rank */
            sv_backoff(&backoff);
    }
    if (queried == SELVAGE_SUCCESS)
        queried = sv_epoch_catch_up(x, stream, true);
    if (queried != SELVAGE_SUCCESS)
        return fail_unless_captured(x, queried);
    sv_enqueued_check(x);
    return end_epoch_call(x, stream, "selvage_exchange_wait");
}
