/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pulls that a waiting host launches before their packets are there.
 *
 * The host has nothing else to do in a wait, so it launches the pulls now, and they wait for the packets on the device,
 * for some tens of microseconds at most. A launch costs as much as the whole way of a small packet, and this one is
 * over by the time the packet comes. A packet that comes later is pulled as usual.
 *
 * A kernel that waits holds no other kernel up for ever: what it waits for was, at every rank, enqueued before anything
 * that waits for this rank. Ranks that share a GPU could hold each other up, so nothing is launched early there.
 * Engine thread, which is the application's here: with a progress thread there are no such pulls.
 */
#include "base/base_clock.h"
#include "base/base_status.h"
#include "pipeline/pipe_batch.h"
#include "pipeline/pipe_phases.h"
#include "pipeline/route.h"

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

/* Only where nothing else of the exchange could queue up after a pull that waits. */
void sv_prelaunch_decide(selvage_exchange_t *x)
{
    const selvage_comm_t *comm = x->comm;
    bool all_pushed = x->batch.reach == SV_KERNELS_PULL_ALL && !comm->fault.armed;
    x->batch.early_wait_ns = 0;
    if (all_pushed && comm->dev->kernels_wait && !comm->topology.shares_gpu && !comm->progress.threaded)
        x->batch.early_wait_ns = comm->config.early_wait_us < 0 ? comm->dev->early_wait_ns
                                                                : (uint64_t)(comm->config.early_wait_us * 1000);
    for (uint32_t i = 0; i < x->nsends; i++)
        all_pushed &= x->sends[i].p.kernel_copy && !x->sends[i].p.ops->messaged;
    if (all_pushed)
        x->batch.reach = SV_KERNELS_MOVE_ALL;
}

/*
 * What kernels move is soon here. What copy engines move takes its time, and a kernel that waits all of it would be in
 * the way of others: it is launched shortly before the packet came in the epoch before.
 */
static bool may_pull_early(const sv_recv_t *recv, uint64_t now_ns)
{
    enum { AHEAD_NS = 12000 };
    const sv_packet_t *p = &recv->p;
    if (recv->state != SV_RECV_WAITING || recv->prelaunched_epoch == p->x->epoch ||
        (p->in_place && !p->fused && (p->x->policy == SV_CONFIG_CHECKSUM_OFF || !p->x->comm->dev->shows_stores)))
        return false;
    return p->kernel_copy || (recv->took_ns && now_ns + AHEAD_NS > p->started_ns + recv->took_ns);
}

void sv_prelaunch_pulls(selvage_exchange_t *x, void *stream)
{
    enum { BYTES_IN_NS = 64 }; /* what is longer may take longer: the slowest link that kernels store through */
    /* Where nothing of the epoch is on a stream of the exchange's own, and nothing of the caller's came after its
       start, his stream has the pulls without any order between streams. */
    const bool on_caller_stream = x->unordered && x->enqueued.waited_immediately && stream == x->streams.caller;
    uint64_t bytes = 0;
    if (x->batch.early_wait_ns == 0 || !(on_caller_stream || sv_batch_is_after_start(x)))
        return;
    for (uint32_t i = 0; i < x->nactive_sends; i++) /* nothing of this rank's may still wait to leave */
        if (x->active_sends[i]->state == SV_SEND_MOVING && !x->active_sends[i]->p.ops->messaged)
            return;

    const uint64_t now_ns = sv_clock_ns();
    for (uint32_t i = 0; i < x->nactive_recvs; i++) {
        sv_recv_t *recv = x->active_recvs[i];
        if (!may_pull_early(recv, now_ns))
            continue;
        recv->prelaunched_epoch = x->epoch;
        if (recv->p.ops->messaged)
            recv->pull_prelaunched = true; /* the message must be received all the same */
        else
            recv->state = SV_RECV_VERIFYING;
        sv_batch_pull_later(recv);
    }
    if (x->batch.npull_due == 0)
        return;

    for (uint32_t i = 0; i < x->batch.npull_due; i++)
        bytes += x->recvs[x->batch.pull_due[i]].p.bytes;
    const sv_batch_how_t how = {.stream = on_caller_stream ? stream : x->streams.kernel,
                                .wait_ns = x->batch.early_wait_ns + bytes / BYTES_IN_NS};
    selvage_status_t status = on_caller_stream ? SELVAGE_SUCCESS : sv_exchange_order(x);
    if (status == SELVAGE_SUCCESS)
        status = sv_batch_pull_how(x, &how);
    if (status != SELVAGE_SUCCESS)
        sv_exchange_poison(x, status, true);
}
