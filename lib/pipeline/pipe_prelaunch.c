/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pulls that are launched before their packets are there. Two uses:
 *
 *   wait           The host has nothing else to do, so it launches the pulls now; they wait for the packets on the
 *                  device, for some tens of microseconds at most. A launch costs as much as a small packet's whole
 *                  way, and this one is over by the time the packet comes. One that comes later is pulled as usual.
 *
 *   enqueue_wait   Pushes wait for leave and pulls for packets on the caller's stream, up to the deadline, and the host
 *                  is out of it: the epoch is over here as far as the engine is concerned. What fails is kept by the
 *                  device, first failure first, and found by the next call; it also makes every later kernel of the
 *                  exchange stop waiting.
 *
 * A kernel that waits holds no other kernel up for ever: what it waits for was, at every rank, enqueued before anything
 * that waits for this rank. Ranks that share a GPU could hold each other up, so there the host waits instead.
 */
#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_status.h"
#include "pipeline/pipe_batch.h"
#include "pipeline/pipe_phases.h"

/* --- at once ------------------------------------------------------------------------------------------------------ */

/*
 * An epoch that is waited for at once has nothing after its start that the caller's stream could do meanwhile: no
 * kernel is launched in so short a time. Then that stream is the soonest for everything. What was so in one epoch is
 * taken to be so in the next; where it is not, pulls go on the exchange's own stream, once a push of start is seen to
 * be through, because no event was recorded between that and the caller's work.
 */
void sv_prelaunch_note_end(selvage_exchange_t *x, void *stream, bool waits)
{
    enum { AT_ONCE_NS = 1500 };
    if (x->comm->progress.threaded || !x->enqueued.left_start_ns)
        return;
    x->enqueued.waited_immediately =
        waits && stream == x->streams.caller && sv_clock_ns() - x->enqueued.left_start_ns < AT_ONCE_NS;
    x->enqueued.left_start_ns = 0;
}

/* --- wait --------------------------------------------------------------------------------------------------------- */

static uint64_t wait_limit_ns(const selvage_comm_t *comm)
{
    return comm->config.early_wait_us < 0 ? comm->dev->early_wait_ns : (uint64_t)(comm->config.early_wait_us * 1000);
}

/* Only where nothing else of the exchange could queue up after a pull that waits. */
void sv_prelaunch_decide(selvage_exchange_t *x)
{
    const selvage_comm_t *comm = x->comm;
    bool may = x->batch.all_pulled && comm->dev->kernels_wait && !comm->topology.shares_gpu && !comm->fault.armed &&
               !comm->progress.threaded;
    x->batch.early_wait_ns = may ? wait_limit_ns(comm) : 0;
    x->batch.by_kernels = x->batch.all_pulled && !comm->fault.armed;
    for (uint32_t i = 0; i < x->nsends; i++)
        x->batch.by_kernels &= x->sends[i].p.kernel_copy && sv_route_is_one_sided(x->sends[i].p.route);
}

/* Nothing of this rank's waits to leave. */
static bool has_nothing_to_send(const selvage_exchange_t *x)
{
    for (uint32_t i = 0; i < x->nactive_sends; i++)
        if (x->active_sends[i]->state == SV_SEND_MOVING && sv_route_is_one_sided(x->active_sends[i]->p.route))
            return false;
    return true;
}

/*
 * What kernels move is soon here. What copy engines move takes its time, and a kernel that waits all of it would be in
 * the way of others: it is launched shortly before the packet came in the epoch before.
 */
static bool is_device_visible(const sv_recv_t *recv, uint64_t now_ns)
{
    enum { AHEAD_NS = 12000 };
    const sv_packet_t *p = &recv->p;
    if (recv->state != SV_RECV_WAITING || recv->prelaunched_epoch == p->x->epoch ||
        (p->in_place && !p->fused && (p->x->policy == SV_CONFIG_CHECKSUM_OFF || !p->x->comm->dev->shows_stores)))
        return false;
    return p->kernel_copy || (recv->took_ns && now_ns + AHEAD_NS > p->started_ns + recv->took_ns);
}

static void prelaunch_pull(sv_recv_t *recv)
{
    recv->prelaunched_epoch = recv->p.x->epoch;
    if (recv->p.route == SELVAGE_ROUTE_STAGED)
        recv->pull_prelaunched = true; /* the message must be received all the same */
    else
        recv->state = SV_RECV_VERIFYING;
    sv_batch_pull_later(recv);
}

/* Where nothing of the epoch is on a stream of the exchange's own, and nothing of the caller's came after its start,
   his stream has them without any order between streams. */
static bool is_on_caller_stream(const selvage_exchange_t *x, const void *stream)
{
    return x->unordered && x->enqueued.waited_immediately && stream == x->streams.caller;
}

static selvage_status_t prelaunch(selvage_exchange_t *x, void *stream)
{
    enum { BYTES_IN_NS = 64 }; /* what is longer may take longer: the slowest link that kernels store through */
    const bool stays = is_on_caller_stream(x, stream);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < x->batch.npull_due; i++)
        bytes += x->recvs[x->batch.pull_due[i]].p.bytes;
    const sv_batch_how_t how = {.stream = stays ? stream : x->streams.kernel,
                                .wait_ns = x->batch.early_wait_ns + bytes / BYTES_IN_NS};
    if (!stays)
        SV_TRY(sv_exchange_order(x));
    return sv_batch_pull_how(x, &how);
}

void sv_prelaunch_pulls(selvage_exchange_t *x, void *stream)
{
    if (x->batch.early_wait_ns == 0 || !has_nothing_to_send(x) ||
        !(is_on_caller_stream(x, stream) || sv_batch_is_after_start(x)))
        return;
    uint64_t now_ns = sv_clock_ns();
    for (uint32_t i = 0; i < x->nactive_recvs; i++)
        if (is_device_visible(x->active_recvs[i], now_ns))
            prelaunch_pull(x->active_recvs[i]);
    if (x->batch.npull_due == 0)
        return;
    selvage_status_t status = prelaunch(x, stream);
    if (status != SELVAGE_SUCCESS)
        sv_exchange_poison(x, status, true);
}

/* --- enqueue_wait ------------------------------------------------------------------------------------------------- */

uint64_t sv_enqueued_deadline_ns(const selvage_exchange_t *x)
{
    static const double LONGEST_S = 86400; /* no deadline still is one for the device */
    double timeout_s = x->comm->timeout_s;
    return (uint64_t)((timeout_s > 0 && timeout_s < LONGEST_S ? timeout_s : LONGEST_S) * 1e9);
}

/* SELVAGE_ERR_UNSUPPORTED with the first packet that the device cannot bring to its end alone. */
static selvage_status_t refuse_enqueue(const selvage_exchange_t *x)
{
    for (uint32_t i = 0; i < x->nsends; i++)
        if (!sv_packet_is_device_driven(&x->sends[i].p))
            return sv_error(SELVAGE_ERR_UNSUPPORTED, "selvage_exchange_enqueue_wait: send %u goes to rank %d by route "
                            "%s through the host%s", i, x->sends[i].p.peer->rank,
                            selvage_route_name(x->sends[i].p.route),
                            x->sends[i].p.route == SELVAGE_ROUTE_PEER ? "'s care: its receiver should register the "
                                                                        "buffer" : "");
    for (uint32_t i = 0; i < x->nrecvs; i++)
        if (!sv_packet_is_device_driven(&x->recvs[i].p))
            return sv_error(SELVAGE_ERR_UNSUPPORTED, "selvage_exchange_enqueue_wait: receive %u comes from rank %d by "
                            "route %s through the host%s", i, x->recvs[i].p.peer->rank,
                            selvage_route_name(x->recvs[i].p.route),
                            x->recvs[i].p.route == SELVAGE_ROUTE_PEER ? "'s care: register its buffer" : "");
    return SELVAGE_SUCCESS;
}

/* Only damage and loss can be injected here: nobody could repair anything else any better. */
static bool is_lost_by_fault(sv_send_t *send, uint64_t now_ns, uint32_t *corrupted)
{
    if (!send->fault)
        return false;
    if (!send->fault_decided)
        sv_fault_decide(send, now_ns);
    if (send->fault_kind == SV_FAULT_FLIP)
        *corrupted = send->p.own_index + 1;
    return send->fault_kind == SV_FAULT_DROP;
}

/* Everything that has not left, after the leave of its receiver. */
static selvage_status_t push_rest(selvage_exchange_t *x, void *stream, uint64_t now_ns)
{
    sv_batch_how_t how = {.stream = stream, .wait_ns = sv_enqueued_deadline_ns(x), .sticky = true};
    for (uint32_t i = 0; i < x->nactive_sends; i++) {
        sv_send_t *send = x->active_sends[i];
        if (send->state != SV_SEND_MOVING || is_lost_by_fault(send, now_ns, &how.corrupted))
            continue;
        send->next_stage = send->p.nsegments;
        send->state = SV_SEND_VERDICT;
        sv_batch_push_later(send);
        sv_packet_trace(&send->p, SV_TRACE_READY, now_ns, 0, send->next_stage);
    }
    return x->batch.npush_due ? sv_batch_push_how(x, &how) : SELVAGE_SUCCESS;
}

selvage_status_t sv_prelaunch_pushes(selvage_exchange_t *x, uint64_t now_ns)
{
    bool first = sv_batch_goes_first(x, x->send_bytes);
    x->enqueued.kernel_stream_busy |= !first;
    return push_rest(x, first ? x->streams.caller : x->streams.kernel, now_ns);
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

/* What was verified of a packet in pieces was in vain: the pull begins with the first byte. */
static selvage_status_t reset_pieces(const sv_recv_t *recv, void *stream)
{
    const sv_packet_t *p = &recv->p;
    if (p->pulled || recv->arrived_count == 0)
        return SELVAGE_SUCCESS;
    return SV_DEVICE_CALL(p->x->comm->dev, fill_async, p->scratch, 0, sizeof *p->scratch, stream);
}

/*
 * Where ordinary memory does not show a running kernel what others store, the one that sums a packet in the user's
 * memory must not run before it is there: one that reads nothing but the word is launched ahead of it, and gives up as
 * it would.
 */
static selvage_status_t await_in_place(const sv_recv_t *recv, void *stream)
{
    const sv_packet_t *p = &recv->p;
    const selvage_exchange_t *x = p->x;
    if (!p->in_place || p->route != SELVAGE_ROUTE_PEER || x->comm->dev->shows_stores ||
        x->policy == SV_CONFIG_CHECKSUM_OFF)
        return SELVAGE_SUCCESS;
    const sv_await_arg_t arg = {.word = sv_shared_device_address(&x->memory.segment, &recv->words->arrived),
                                .abort = x->abort,
                                .epoch = sv_word(x->epoch, p->attempt, p->nsegments),
                                .wait_ns = sv_enqueued_deadline_ns(x)};
    return SV_DEVICE_CALL(x->comm->dev, launch, &sv_kernel_await, &arg, sizeof arg, 1, stream);
}

/* Packets whose pull is under way already end by it; all others are pulled after their arrival. */
static selvage_status_t pull_rest(selvage_exchange_t *x, void *stream)
{
    for (uint32_t i = 0; i < x->nactive_recvs; i++) {
        sv_recv_t *recv = x->active_recvs[i];
        if (recv->state != SV_RECV_WAITING && recv->p.pulled) {
            x->enqueued.results_pending = true; /* its pull tells nobody else of a failure */
            continue;
        }
        SV_TRY(reset_pieces(recv, stream));
        SV_TRY(await_in_place(recv, stream));
        sv_batch_pull_later(recv);
    }
    const sv_batch_how_t how = {.stream = stream, .wait_ns = sv_enqueued_deadline_ns(x), .sticky = true};
    return x->batch.npull_due ? sv_batch_pull_how(x, &how) : SELVAGE_SUCCESS;
}

/* For the engine the epoch is over; what the device finds out is asked for by sv_enqueued_check(). */
static void close_epoch(selvage_exchange_t *x, uint64_t now_ns)
{
    selvage_stats_t *stats = &x->comm->stats;
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

typedef struct enqueue_call {
    selvage_exchange_t *x;
    void *stream;
} enqueue_call_t;

static selvage_status_t enqueue_epoch(selvage_exchange_t *x, void *stream, uint64_t now_ns)
{
    sv_exchange_order_others(x);
    SV_TRY(join_exchange_streams(x, stream)); /* first: what began there may use record and scratch of the same
                                                 packets */
    SV_TRY(push_rest(x, stream, now_ns));
    SV_TRY(pull_rest(x, stream));
    SV_TRY(sv_layouts_unpack(x, stream, true));
    /* No word tells of a digest: a rank that only sends would be called complete while one still reads. */
    return x->enqueued.joined ? SV_DEVICE_CALL(x->comm->dev, event_record, x->enqueued.gate_event, stream)
                              : SELVAGE_SUCCESS;
}

static void run_enqueue(void *arg)
{
    const enqueue_call_t *call = arg;
    selvage_exchange_t *x = call->x;
    uint64_t now_ns = sv_clock_ns();
    if (sv_exchange_state(x) != SV_EXCHANGE_RUNNING)
        return;
    selvage_status_t status = enqueue_epoch(x, call->stream, now_ns);
    if (status != SELVAGE_SUCCESS)
        sv_exchange_poison(x, status, true);
    else
        close_epoch(x, now_ns);
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

selvage_status_t sv_exchange_enqueue_wait(selvage_exchange_t *x, void *stream)
{
    if (sv_exchange_state(x) != SV_EXCHANGE_RUNNING)
        return sv_exchange_test(x, stream);
    if (x->comm->topology.shares_gpu || !x->comm->dev->kernels_wait)
        return sv_exchange_wait(x, stream);
    if (x->comm->progress.threaded)
        return gate_stream(x, stream);
    SV_TRY(refuse_enqueue(x));
    sv_prelaunch_note_end(x, stream, true);
    enqueue_call_t call = {x, stream};
    sv_progress_call(&x->comm->progress, run_enqueue, &call);
    return sv_exchange_state(x) == SV_EXCHANGE_POISONED ? sv_exchange_first_error(x) : SELVAGE_SUCCESS;
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
    return sv_error(SELVAGE_ERR_CHECKSUM, "packet %u (tag %d) from rank %d to rank %d, epoch %llu, %zu bytes, salt "
                    "%llu, route %s: expected digest %016llx, found %016llx, by an enqueued wait, which cannot ask "
                    "again", p->index, p->tag, p->peer->rank, x->comm->wire->rank, (unsigned long long)result->epoch,
                    p->bytes, (unsigned long long)p->identity.salt, selvage_route_name(p->route),
                    (unsigned long long)result->expected, (unsigned long long)result->found);
}

/* The first epoch counts, and in it what came damaged: others may be absent because of that. */
static const sv_recv_t *first_failed(const selvage_exchange_t *x)
{
    const sv_recv_t *first = NULL;
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        const sv_verify_result_t *result = x->recvs[i].result;
        uint64_t epoch = __atomic_load_n(&result->epoch, __ATOMIC_ACQUIRE);
        if (!epoch || (first && epoch > first->result->epoch))
            continue;
        if (!first || epoch < first->result->epoch || first->result->record_ok == SV_RESULT_ABSENT)
            first = &x->recvs[i];
    }
    return first;
}

static selvage_status_t find_failure(selvage_exchange_t *x)
{
    const sv_recv_t *recv = first_failed(x);
    if (recv)
        return report_recv(x, recv);
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
    if (late_epoch(x) && sv_exchange_state(x) != SV_EXCHANGE_POISONED)
        sv_progress_call(&x->comm->progress, check_gated, x);
    if (x->enqueued.epoch && sv_exchange_state(x) == SV_EXCHANGE_IDLE)
        sv_progress_call(&x->comm->progress, check_enqueued, x);
}

selvage_status_t sv_enqueued_query(selvage_exchange_t *x)
{
    return x->enqueued.epoch == 0 || x->enqueued.epoch != x->started ? SELVAGE_SUCCESS : sv_batch_query(x);
}
