/* SPDX-License-Identifier: BSD-3-Clause */
/* How the host's count of epochs and the device's follow each other; see pipe_epoch.h. */
#include "pipeline/pipe_epoch.h"

#include "base/base_clock.h"
#include "base/base_status.h"
#include "pipeline/pipe_phases.h"
#include "pipeline/route.h"

/* The last epoch that launches of a kind have begun. */
static uint64_t launched_epoch(const selvage_exchange_t *x, uint32_t word)
{
    /* Partner: the store in epoch_begin(). What kernels did is ordered by the stream that was waited for. */
    return __atomic_load_n(x->numbers.words + word, __ATOMIC_ACQUIRE);
}

/* Slots that take turns have leave for the first epochs from the host's first start, which may never come. */
static void give_first_leave(selvage_exchange_t *x)
{
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        sv_recv_t *recv = &x->recvs[i];
        const sv_packet_t *p = &recv->p;
        if (sv_packet_stays_on_device(p) && p->kernel_copy && !p->in_place) /* partner: batch_await() of a push */
            __atomic_store_n(&recv->remote->credit, sv_word(p->nslots, 0, 1), __ATOMIC_RELEASE);
    }
}

selvage_status_t sv_epoch_ready(selvage_exchange_t *x, const char *call)
{
    sv_exchange_finish_gated(x);
    switch (sv_exchange_state(x)) {
    case SV_EXCHANGE_BUILDING:
        return sv_error(SELVAGE_ERR_STATE, "%s: the exchange is not committed", call);
    case SV_EXCHANGE_RUNNING:
        return sv_error(SELVAGE_ERR_STATE, "%s: epoch %llu is not complete; wait for it first", call,
                        (unsigned long long)x->started);
    case SV_EXCHANGE_POISONED:
        return sv_exchange_first_error(x);
    case SV_EXCHANGE_IDLE:
        break;
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_epoch_share(selvage_exchange_t *x, const char *call, sv_epoch_state_t **state_out)
{
    SV_TRY(sv_epoch_ready(x, call));
    *state_out = x->numbers.state;
    if (x->numbers.shared)
        return SELVAGE_SUCCESS;
    if (x->started == 0)
        give_first_leave(x);
    /* Partner: the load in epoch_begin(): nobody has been given a kernel that asks before this call returns. */
    __atomic_store_n(x->numbers.words + SV_EPOCH_TOLD, x->started, __ATOMIC_RELEASE);
    x->numbers.shared = true;
    return SELVAGE_SUCCESS;
}

static void count_epochs(void *arg)
{
    selvage_exchange_t *x = arg;
    selvage_stats_t *stats = &x->comm->stats;
    const uint64_t over = launched_epoch(x, SV_EPOCH_ENDING), more = over > x->epoch ? over - x->epoch : 0;
    if (sv_exchange_state(x) != SV_EXCHANGE_IDLE)
        return;
    stats->epochs += more;
    for (uint32_t i = 0; i < x->nsends; i++) {
        stats->packets_sent += more;
        stats->bytes_sent += more * x->sends[i].p.bytes;
        stats->packets_by_route[x->sends[i].p.route] += more;
    }
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        stats->packets_received += more;
        stats->bytes_received += more * x->recvs[i].p.bytes;
    }
    x->epoch += more;
    x->started = x->epoch;
    /* As after an enqueued wait: the neighbours may not have verified yet what was sent, so that nothing leaves in the
       next epoch before its receiver says so (choose_epoch_mode()). */
    if (more > 0) {
        x->enqueued.epoch = x->epoch;
        x->enqueued.joined = x->enqueued.waited_immediately = false;
    }
    sv_recovery_begin_lost(x);
}

/* Once its stream is idle. The enqueued wait may be in another graph that comes yet, so that nothing is poisoned. */
static selvage_status_t refuse_half(const selvage_exchange_t *x)
{
    const uint64_t begun = launched_epoch(x, SV_EPOCH_BEGUN);
    if (sv_exchange_state(x) != SV_EXCHANGE_IDLE || begun <= x->started)
        return SELVAGE_SUCCESS;
    return sv_error(SELVAGE_ERR_STATE, "a graph was launched with the start of epoch %llu, and none yet with its "
                    "selvage_exchange_enqueue_wait", (unsigned long long)begun);
}

selvage_status_t sv_epoch_catch_up(selvage_exchange_t *x, void *stream, bool waits)
{
    sv_backoff_t backoff = {.max_sleep_us = 100, .oversubscribed = x->comm->topology.oversubscribed};
    selvage_status_t status;
    if (!x->numbers.shared)
        return SELVAGE_SUCCESS;
    if (SV_DEVICE_CALL(x->comm->dev, stream_is_capturing, stream))
        return sv_error(SELVAGE_ERR_STATE, "a call that waits for an exchange cannot be captured in a graph");
    x->numbers.start_captured = false;
    if (sv_exchange_state(x) != SV_EXCHANGE_IDLE)
        return SELVAGE_SUCCESS;
    /* Kernels have the deadline. Whom they wait for may wait for another exchange of this rank. */
    while ((status = SV_DEVICE_CALL(x->comm->dev, stream_query, stream)) == SELVAGE_IN_PROGRESS && waits)
        if (!sv_progress_poll(&x->comm->progress))
            sv_backoff(&backoff);
    if (status != SELVAGE_SUCCESS)
        return status;
    (void)sv_progress_poll(&x->comm->progress); /* a neighbour may have told that a replay failed there */
    sv_progress_call(&x->comm->progress, count_epochs, x);
    sv_enqueued_check(x);
    return refuse_half(x);
}

selvage_status_t sv_epoch_tell(const selvage_exchange_t *x, uint64_t epoch, void *stream)
{
    return x->numbers.shared ? SV_DEVICE_CALL(x->comm->dev, signal_async, &x->numbers.state->epoch, epoch, stream)
                             : SELVAGE_SUCCESS;
}

uint64_t sv_epoch_count(const selvage_exchange_t *x)
{
    const uint64_t ending = x->numbers.shared ? launched_epoch(x, SV_EPOCH_ENDING) : 0;
    return ending > x->started ? ending : x->started;
}

static selvage_status_t inject_fault(const selvage_exchange_t *x, uint64_t epoch, uint32_t send, uint32_t kind)
{
    sv_device_t *dev = x->comm->dev;
    sv_epoch_state_t *state = x->numbers.state;
    /* The words of a pair lie beside each other, and in the byte order that all these devices have. */
    SV_TRY(SV_DEVICE_CALL(dev, fill_async, &state->fault_kind, (int)kind, 1, x->streams.kernel));
    SV_TRY(SV_DEVICE_CALL(dev, signal_async, (uint64_t *)(void *)&state->fault_packet, send, x->streams.kernel));
    SV_TRY(SV_DEVICE_CALL(dev, signal_async, &state->fault_epoch, epoch, x->streams.kernel));
    return SV_DEVICE_CALL(dev, stream_sync, x->streams.kernel);
}

selvage_status_t sv_epoch_arm_fault(const selvage_exchange_t *x)
{
    static const uint32_t kind_of[SV_FAULT_KINDS] = {[SV_FAULT_FLIP] = SV_EPOCH_FLIPS, [SV_FAULT_DROP] = SV_EPOCH_DROPS,
                                                     [SV_FAULT_REPLAY] = SV_EPOCH_REPEATS,
                                                     [SV_FAULT_SWAP] = SV_EPOCH_SWAPS};
    const sv_fault_t *fault = &x->comm->fault;
    uint32_t kind = SV_EPOCH_SOUND;
    for (int k = 0; k < SV_FAULT_KINDS && kind == SV_EPOCH_SOUND; k++)
        if (fault->probability[k] > 0)
            kind = kind_of[k];
    if (!fault->graph_epoch || kind == SV_EPOCH_SOUND)
        return SELVAGE_SUCCESS;
    return inject_fault(x, fault->graph_epoch, fault->only_index < 0 ? 0 : (uint32_t)fault->only_index, kind);
}
