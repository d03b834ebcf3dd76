/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Epochs that end on the device, by an enqueued wait (selvage_exchange_enqueue_wait).
 *
 * Pushes wait for credit and pulls for packets on the caller's stream, up to the deadline, and the host is out of it:
 * the epoch is over here as far as the engine is concerned. What fails is kept by the device, first failure first, and
 * found by the next call; it also makes every later kernel of the exchange stop waiting. With a progress thread the
 * engine advances the epoch as ever, and only the caller's stream is held until it is over.
 *
 * A kernel that waits holds no other kernel up for ever: what it waits for was, at every rank, enqueued before anything
 * that waits for this rank. Ranks that share a GPU could hold each other up, so there the host waits instead.
 *
 * Application thread for the calls; run_enqueue() and the checks run where the engine lives.
 */
#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_status.h"
#include "pipeline/pipe_batch.h"
#include "pipeline/pipe_graph.h"
#include "pipeline/pipe_phases.h"
#include "pipeline/pipe_session.h"
#include "pipeline/pipe_varying.h"
#include "pipeline/route.h"

uint64_t sv_enqueued_deadline_ns(const selvage_exchange_t *x)
{
    static const double LONGEST_S = 86400; /* no deadline still is one for the device */
    double timeout_s = x->comm->timeout_s;
    return (uint64_t)((timeout_s > 0 && timeout_s < LONGEST_S ? timeout_s : LONGEST_S) * 1e9);
}

selvage_status_t sv_enqueued_refuse(const selvage_exchange_t *x, const char *call)
{
    for (uint32_t i = 0; i < x->nsends; i++)
        if (!sv_packet_is_device_driven(&x->sends[i].p))
            return sv_error(SELVAGE_ERR_UNSUPPORTED, "%s: send %u goes to rank %d by route %s through the host%s", call,
                            i, x->sends[i].p.peer->rank,
                            selvage_route_name(x->sends[i].p.route),
                            x->sends[i].p.ops->maps_device ? "'s care: its receiver should register the "
                                                                        "buffer" : "");
    for (uint32_t i = 0; i < x->nrecvs; i++)
        if (!sv_packet_is_device_driven(&x->recvs[i].p))
            return sv_error(SELVAGE_ERR_UNSUPPORTED, "%s: receive %u comes from rank %d by route %s through the "
                            "host%s", call, i, x->recvs[i].p.peer->rank,
                            selvage_route_name(x->recvs[i].p.route),
                            x->recvs[i].p.ops->maps_device ? "'s care: register its buffer" : "");
    return SELVAGE_SUCCESS;
}

/* Enqueues everything that has not left, each packet after the credit of its receiver. In a run it is launched with the
   pulls. */
static selvage_status_t push_rest(selvage_exchange_t *x, void *stream, uint64_t now_ns)
{
    sv_batch_how_t how = {.stream = stream, .wait_ns = sv_enqueued_deadline_ns(x), .sticky = true};
    for (uint32_t i = 0; i < x->nactive_sends; i++) {
        sv_send_t *send = x->active_sends[i];
        if (send->state != SV_SEND_MOVING)
            continue;
        if (send->fault) { /* only damage and loss can be injected here: nobody could repair anything else any better */
            if (!send->fault_decided)
                sv_fault_decide(send, now_ns);
            if (send->fault_kind == SV_FAULT_DROP)
                continue;
            if (send->fault_kind == SV_FAULT_FLIP)
                how.corrupted = send->p.own_index + 1;
        }
        send->next_stage = send->p.nsegments;
        send->state = SV_SEND_VERDICT;
        sv_batch_push_later(send);
        sv_packet_trace(&send->p, SV_TRACE_READY, now_ns, 0, send->next_stage);
    }
    return x->batch.npush_due && !x->enqueued.in_run ? sv_batch_push_how(x, &how) : SELVAGE_SUCCESS;
}

selvage_status_t sv_enqueued_push(selvage_exchange_t *x, uint64_t now_ns)
{
    bool first = sv_batch_goes_first(x, x->send_bytes);
    x->enqueued.kernel_stream_busy |= !first;
    return push_rest(x, first ? x->streams.caller : x->streams.kernel, now_ns);
}

/* Packets whose pull is under way already end by it; all others are pulled after their arrival. */
static selvage_status_t pull_rest(selvage_exchange_t *x, void *stream)
{
    sv_device_t *dev = x->comm->dev;
    const sv_batch_how_t how = {.stream = stream, .wait_ns = sv_enqueued_deadline_ns(x), .sticky = true};
    for (uint32_t i = 0; i < x->nactive_recvs; i++) {
        sv_recv_t *recv = x->active_recvs[i];
        const sv_packet_t *p = &recv->p;
        if (recv->state != SV_RECV_WAITING && p->pulled) {
            x->enqueued.results_pending = true; /* its pull tells nobody else of a failure */
            continue;
        }
        /* What was verified of a packet in pieces was in vain: the pull begins with the first byte. */
        if (!p->pulled && recv->arrived_count > 0)
            SV_TRY(SV_DEVICE_CALL(dev, fill_async, p->scratch, 0, sizeof *p->scratch, stream));
        /* Where ordinary memory does not show a running kernel what others store, the one that sums a packet in the
           user's memory must not run before it is there: one that reads nothing but the word is launched ahead of it,
           and gives up as it would. */
        if (p->in_place && p->ops->maps_device && !dev->shows_stores &&
            x->policy != SV_CONFIG_CHECKSUM_OFF) {
            const sv_await_arg_t arg = {.word = sv_shared_device_address(&x->memory.segment, &recv->words->arrived),
                                        .abort = x->abort,
                                        .epoch = sv_word(x->epoch, p->attempt, p->nsegments),
                                        .wait_ns = how.wait_ns};
            SV_TRY(SV_DEVICE_CALL(dev, launch, &sv_kernel_await, &arg, sizeof arg, 1, stream));
        }
        sv_batch_pull_later(recv);
    }
    if (x->enqueued.in_run)
        return sv_batch_run_how(x, &how);
    return x->batch.npull_due ? sv_batch_pull_how(x, &how) : SELVAGE_SUCCESS;
}

/* The caller's stream goes on when everything of this epoch that runs elsewhere is through. */
static selvage_status_t join_exchange_streams(selvage_exchange_t *x, void *stream)
{
    sv_device_t *dev = x->comm->dev;
    void *other[] = {x->enqueued.kernel_stream_busy ? x->streams.kernel : NULL, x->streams.peer};
    x->enqueued.joined = false;
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        if (!other[i])
            continue;
        SV_TRY(SV_DEVICE_CALL(dev, event_record, x->streams.cross_event, other[i]));
        SV_TRY(SV_DEVICE_CALL(dev, stream_wait_event, stream, x->streams.cross_event));
        x->enqueued.joined = true;
    }
    x->enqueued.kernel_stream_busy = false;
    return SELVAGE_SUCCESS;
}

/* Puts the rest of the epoch on the caller's stream. */
static selvage_status_t enqueue_epoch(selvage_exchange_t *x, void *stream, uint64_t now_ns)
{
    sv_exchange_order_others(x);
    /* First, as what began on the exchange's streams may use record and scratch of the same packets. In a run nothing
       has. */
    x->enqueued.joined = false;
    if (!x->enqueued.in_run)
        SV_TRY(join_exchange_streams(x, stream));
    SV_TRY(push_rest(x, stream, now_ns));
    SV_TRY(pull_rest(x, stream));
    SV_TRY(sv_layouts_unpack(x, stream, true));
    /* No word tells of a digest: a rank that only sends would be called complete while one still reads. */
    return x->enqueued.joined ? SV_DEVICE_CALL(x->comm->dev, event_record, x->enqueued.gate_event, stream)
                              : SELVAGE_SUCCESS;
}

typedef struct enqueue_call {
    selvage_exchange_t *x;
    void *stream;
} enqueue_call_t;

static void run_enqueue(void *arg)
{
    const enqueue_call_t *call = arg;
    selvage_exchange_t *x = call->x;
    selvage_stats_t *stats = &x->comm->stats;
    uint64_t now_ns = sv_clock_ns();
    if (sv_exchange_state(x) != SV_EXCHANGE_RUNNING)
        return;
    selvage_status_t status = enqueue_epoch(x, call->stream, now_ns);
    if (status != SELVAGE_SUCCESS) {
        sv_exchange_poison(x, status, true);
        return;
    }
    /* For the engine the epoch is over; what the device finds out is asked for by sv_enqueued_check(). */
    for (uint32_t i = 0; i < x->nactive_sends; i++) {
        sv_send_t *send = x->active_sends[i];
        send->state = SV_SEND_IDLE;
        stats->packets_sent++;
        stats->bytes_sent += send->p.bytes;
        stats->packets_by_route[send->p.route]++;
    }
    for (uint32_t i = 0; i < x->nactive_recvs; i++) {
        x->active_recvs[i]->state = SV_RECV_IDLE;
        stats->packets_received++;
        stats->bytes_received += x->active_recvs[i]->p.bytes;
    }
    x->nactive_sends = x->nactive_recvs = 0;
    x->enqueued.epoch = x->epoch;
    sv_exchange_join(x, now_ns);
}

/* With a progress thread the caller's stream only has to be held until the engine says that the epoch is over. */
static selvage_status_t gate_stream(selvage_exchange_t *x, void *stream)
{
    const sv_await_arg_t arg = {.word = x->abort + 1,
                                .abort = x->abort,
                                .late = x->abort + 2,
                                .epoch = x->started,
                                .wait_ns = sv_enqueued_deadline_ns(x)};
    x->enqueued.gated_epoch = x->started;
    SV_TRY(SV_DEVICE_CALL(x->comm->dev, launch, &sv_kernel_await, &arg, sizeof arg, 1, stream));
    SV_TRY(sv_layouts_unpack(x, stream, true));
    return SV_DEVICE_CALL(x->comm->dev, event_record, x->enqueued.gate_event, stream);
}

static selvage_status_t enqueue_wait(selvage_exchange_t *x, void *stream)
{
    if (sv_exchange_state(x) != SV_EXCHANGE_RUNNING) {
        selvage_status_t status = sv_exchange_test(x, stream);
        /* What a graph does on this stream is ahead of what comes later there. An epoch of the host's, or a session,
           that is under way may be on another stream. */
        const bool here = x->numbers.shared && sv_enqueued_query(x) == SELVAGE_SUCCESS;
        return status == SELVAGE_IN_PROGRESS && here ? SELVAGE_SUCCESS : status;
    }
    if (x->comm->topology.shares_gpu || !x->comm->dev->kernels_wait)
        return sv_exchange_wait(x, stream);
    if (x->comm->progress.threaded)
        return gate_stream(x, stream);
    SV_TRY(sv_enqueued_refuse(x, "selvage_exchange_enqueue_wait"));
    sv_prelaunch_note_end(x, stream, true);
    enqueue_call_t call = {x, stream};
    sv_progress_call(&x->comm->progress, run_enqueue, &call);
    return sv_exchange_state(x) == SV_EXCHANGE_POISONED ? sv_exchange_first_error(x) : SELVAGE_SUCCESS;
}

selvage_status_t sv_exchange_enqueue_wait(selvage_exchange_t *x, void *stream)
{
    return SV_DEVICE_CALL(x->comm->dev, stream_is_capturing, stream) ? sv_graph_enqueue_wait(x, stream)
                                                                     : enqueue_wait(x, stream);
}

/* Else an enqueued wait is a wait, or the progress thread's. */
static bool ends_on_device(const selvage_exchange_t *x)
{
    return x->comm->dev->kernels_wait && !x->comm->topology.shares_gpu && !x->comm->progress.threaded;
}

/* Whether the kernels of an epoch can be one: they move all there is, and none has to stand between them
   (pull_rest()). */
static bool may_run_at_once(const selvage_exchange_t *x)
{
    const sv_device_t *dev = x->comm->dev;
    bool one = ends_on_device(x) && x->batch.reach == SV_KERNELS_MOVE_ALL && x->nsends > 0 && x->nrecvs > 0;
    for (uint32_t i = 0; i < x->nrecvs && one; i++)
        one = !x->recvs[i].p.in_place || dev->shows_stores;
    return one;
}

/* The push is held back in start, and launched together with the pull. */
static selvage_status_t run_epoch(selvage_exchange_t *x, void *stream)
{
    const sv_exchange_state_t state = sv_exchange_state(x);
    if (state == SV_EXCHANGE_IDLE && ends_on_device(x))
        SV_TRY(sv_enqueued_refuse(x, "selvage_exchange_run"));
    /* With a progress thread the flag is that thread's. */
    const bool at_once = state == SV_EXCHANGE_IDLE && may_run_at_once(x);
    if (at_once)
        x->enqueued.in_run = true;
    selvage_status_t status = sv_exchange_start_eager(x, stream);
    if (status == SELVAGE_SUCCESS)
        status = enqueue_wait(x, stream);
    if (at_once) /* how this epoch was waited for says nothing of others */
        x->enqueued.in_run = x->enqueued.waited_immediately = false;
    return status;
}

selvage_status_t sv_exchange_run(selvage_exchange_t *x, void *stream)
{
    return SV_DEVICE_CALL(x->comm->dev, stream_is_capturing, stream) ? sv_graph_run(x, stream) : run_epoch(x, stream);
}

/* --- what the device found out ------------------------------------------------------------------------------------ */

static selvage_status_t report_recv(selvage_exchange_t *x, const sv_recv_t *recv)
{
    const sv_packet_t *p = &recv->p;
    const sv_verify_result_t *result = recv->result;
    x->failure.expected = result->expected;
    x->failure.found = result->found;
    x->failure.index = p->index;
    x->failure.source = (uint32_t)p->peer->rank;
    x->enqueued.found_epoch = result->epoch;
    if (result->record_ok == SV_RESULT_ABSENT)
        return sv_error(SELVAGE_ERR_TIMEOUT, "packet %u (tag %d) from rank %d to rank %d, epoch %llu, %zu bytes: did "
                        "not come within %g s of its enqueued wait", p->index, p->tag, p->peer->rank,
                        x->comm->wire->rank, (unsigned long long)result->epoch, p->bytes, x->comm->timeout_s);
    if (result->record_ok)
        x->comm->stats.bad_digests++;
    else
        x->comm->stats.bad_records++;
    if (sv_varying_is_other(p, recv->record, result->epoch))
        return sv_varying_report(x, p, recv->record);
    return sv_error(SELVAGE_ERR_CHECKSUM, "packet %u (tag %d) from rank %d to rank %d, epoch %llu, %zu bytes, salt "
                    "%llu, route %s: expected digest %016llx, found %016llx, by an enqueued wait, which cannot ask "
                    "again", p->index, p->tag, p->peer->rank, x->comm->wire->rank, (unsigned long long)result->epoch,
                    p->bytes, (unsigned long long)p->identity.salt, selvage_route_name(p->route),
                    (unsigned long long)result->expected, (unsigned long long)result->found);
}

static selvage_status_t find_failure(selvage_exchange_t *x)
{
    /* The first epoch counts, and in it what came damaged: others may be absent because of that. */
    const sv_recv_t *first = NULL;
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        const sv_verify_result_t *result = x->recvs[i].result;
        uint64_t epoch = __atomic_load_n(&result->epoch, __ATOMIC_ACQUIRE);
        if (!epoch || (first && epoch > first->result->epoch))
            continue;
        if (!first || epoch < first->result->epoch || first->result->record_ok == SV_RESULT_ABSENT)
            first = &x->recvs[i];
    }
    if (first)
        return report_recv(x, first);
    for (uint32_t i = 0; i < x->nsends; i++) {
        /* Partner: the release in push_close() of this rank's kernel. */
        uint64_t epoch = __atomic_load_n(x->sends[i].failed, __ATOMIC_ACQUIRE);
        x->enqueued.found_epoch = epoch;
        if (epoch)
            return sv_error(SELVAGE_ERR_TIMEOUT, "packet %u (tag %d) to rank %d, epoch %llu: its receiver was not "
                            "ready within %g s of an enqueued wait", i, x->sends[i].p.tag, x->sends[i].p.peer->rank,
                            (unsigned long long)epoch, x->comm->timeout_s);
    }
    return SELVAGE_SUCCESS;
}

static void check_enqueued(void *arg)
{
    selvage_exchange_t *x = arg;
    if (sv_exchange_state(x) != SV_EXCHANGE_IDLE)
        return;
    /* Partner: the release of the kernel that failed; what it wrote to the result came before. */
    if (!__atomic_load_n(x->abort, __ATOMIC_ACQUIRE) && !x->enqueued.results_pending)
        return;
    bool settled = sv_batch_query(x) == SELVAGE_SUCCESS;
    selvage_status_t status = find_failure(x);
    if (status == SELVAGE_SUCCESS) {
        x->enqueued.results_pending &= !settled;
        return;
    }
    if (x->policy == SV_CONFIG_CHECKSUM_ABORT && status == SELVAGE_ERR_CHECKSUM)
        sv_recovery_abort(x);
    sv_exchange_poison(x, status, true);
}

/* The epoch in which a held stream went on at the deadline; 0: none. What came later came too late for it. */
static uint64_t late_epoch(const selvage_exchange_t *x)
{
    /* Partner: the release of the kernel that held it (sv_await). */
    return x->enqueued.gated_epoch ? __atomic_load_n(x->abort + 2, __ATOMIC_ACQUIRE) : 0;
}

static void check_gated(void *arg)
{
    selvage_exchange_t *x = arg;
    if (sv_exchange_state(x) == SV_EXCHANGE_POISONED)
        return;
    x->enqueued.found_epoch = late_epoch(x);
    if (sv_exchange_state(x) == SV_EXCHANGE_RUNNING)
        sv_exchange_poison(x, sv_exchange_report_deadline(x, x->comm->timeout_s), true);
    else
        sv_exchange_poison(x, sv_error(SELVAGE_ERR_TIMEOUT, "epoch %llu was not complete within %g s of its enqueued "
                                       "wait", (unsigned long long)x->enqueued.found_epoch, x->comm->timeout_s), true);
}

void sv_enqueued_check(selvage_exchange_t *x)
{
    sv_session_check(x);
    if (late_epoch(x) && sv_exchange_state(x) != SV_EXCHANGE_POISONED)
        sv_progress_call(&x->comm->progress, check_gated, x);
    if ((x->enqueued.epoch || x->numbers.shared) && sv_exchange_state(x) == SV_EXCHANGE_IDLE)
        sv_progress_call(&x->comm->progress, check_enqueued, x);
}

selvage_status_t sv_enqueued_query(selvage_exchange_t *x)
{
    if (sv_session_is_last(x))
        return sv_session_query(x);
    return x->enqueued.epoch == 0 || x->enqueued.epoch != x->started ? SELVAGE_SUCCESS : sv_batch_query(x);
}
