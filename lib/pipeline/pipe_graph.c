/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Epochs in graphs. Each node is a launch of sv_replay (kernel_replay.h): a push, a pull, or both, of the epoch that
 * the device is at when it is replayed. Nothing of the host's is in it, neither event nor word nor other stream. So all
 * of an epoch is on the stream that is captured, and its packets are those that kernels move.
 *
 *   run:                    [ leave, push, pull, count ]
 *   start ... enqueue_wait: [ leave, push ] ... [ pull, count ]
 *
 * More than 32 packets one way, or packets in pieces beside others, take several launches, of which the last one
 * counts. No push waits before all leave is given: the neighbour's pushes may wait for that, and mine for theirs.
 *
 * What is wrong is found when it is replayed, and stays in pinned memory (SV_BATCH_STICKY) until the next call of the
 * host's looks (sv_epoch_catch_up()).
 */
#include "pipeline/pipe_graph.h"

#include "base/base_status.h"
#include "pipeline/pipe_batch.h"
#include "pipeline/pipe_epoch.h"
#include "pipeline/pipe_phases.h"
#include "pipeline/pipe_varying.h"
#include "pipeline/route.h"

/* One launch in the making. */
typedef struct graph_node {
    selvage_exchange_t *x;
    void *stream;
    bool in_pieces;
    uint64_t push_bytes, pull_bytes; /* of a share */
    sv_run_arg_t arg;
} graph_node_t;

static void begin_node(graph_node_t *node)
{
    selvage_exchange_t *x = node->x;
    const sv_batch_how_t how = {.wait_ns = sv_enqueued_deadline_ns(x), .sticky = true};
    sv_batch_begin(x, &how, x->batch.push_items, &node->arg.push);
    sv_batch_begin(x, &how, x->batch.pull_items, &node->arg.pull);
    node->arg.push.state = node->arg.pull.state = x->numbers.state;
    node->arg.push.flags |= SV_BATCH_UNHEARD;
}

static void make_node(graph_node_t *node, selvage_exchange_t *x, void *stream)
{
    const unsigned most = sv_batch_run_blocks(x);
    uint64_t recv_bytes = 0;
    for (uint32_t i = 0; i < x->nrecvs; i++)
        recv_bytes += x->recvs[i].p.bytes;
    *node = (graph_node_t){.x = x, .stream = stream};
    node->push_bytes = sv_batch_share_bytes(x->send_bytes, x->nsends + (x->nsends == 0), most);
    node->pull_bytes = sv_batch_share_bytes(recv_bytes, x->nrecvs + (x->nrecvs == 0), most);
    begin_node(node);
}

/* Enqueues what has been put into the node, and begins the next one. */
static selvage_status_t enqueue_node(graph_node_t *node, uint32_t flags)
{
    sv_run_arg_t *arg = &node->arg;
    const uint32_t push_shares = arg->push.first_block[arg->push.npackets];
    const uint32_t pull_shares = arg->pull.first_block[arg->pull.npackets];
    const uint32_t shares = push_shares > pull_shares ? push_shares : pull_shares, most = sv_batch_run_blocks(node->x);
    const uint32_t blocks = shares < most ? shares : most;
    arg->push.attempt = arg->pull.attempt = 0; /* not what was asked for again in the host's last epoch */
    if (pull_shares > 0) /* else the push is the last that waits */
        arg->push.flags |= SV_BATCH_HOLDS_NEXT;
    arg->pull.flags |= flags;
    SV_TRY(SV_DEVICE_CALL(node->x->comm->dev, launch, node->in_pieces ? &sv_kernel_replay_pieces : &sv_kernel_replay,
                          arg, sizeof *arg, blocks > 0 ? blocks : 1, node->stream));
    begin_node(node);
    return SELVAGE_SUCCESS;
}

static bool needs_leave(const sv_recv_t *recv)
{
    return recv->p.in_place;
}

/* A packet that is only given leave has no share. */
static void add_leave(sv_batch_arg_t *arg, const sv_recv_t *recv)
{
    const uint32_t n = arg->npackets++;
    arg->index[n] = recv->p.own_index;
    arg->first_block[n + 1] = arg->first_block[n];
}

/* Leave that does not fit into one launch goes ahead. *left_out: what is left is in the node. */
static selvage_status_t give_leave(graph_node_t *node, bool *left_out)
{
    const selvage_exchange_t *x = node->x;
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        if (!needs_leave(&x->recvs[i]))
            continue;
        if (node->arg.pull.npackets == SV_BATCH_PACKETS)
            SV_TRY(enqueue_node(node, SV_BATCH_GRANTS));
        add_leave(&node->arg.pull, &x->recvs[i]);
    }
    *left_out = node->arg.pull.npackets > 0;
    return SELVAGE_SUCCESS;
}

static selvage_status_t capture_pushes(graph_node_t *node)
{
    const selvage_exchange_t *x = node->x;
    bool leave;
    SV_TRY(give_leave(node, &leave));
    for (int in_pieces = 0; in_pieces < 2; in_pieces++) {
        node->in_pieces = in_pieces;
        for (uint32_t i = 0; i < x->nsends; i++) {
            if (x->sends[i].p.fused != (bool)in_pieces)
                continue;
            if (node->arg.push.npackets == SV_BATCH_PACKETS) {
                SV_TRY(enqueue_node(node, leave ? SV_BATCH_GRANTS : 0));
                leave = false;
            }
            sv_batch_add(&node->arg.push, &x->sends[i].p, node->push_bytes);
        }
        if (node->arg.push.npackets > 0) {
            SV_TRY(enqueue_node(node, leave ? SV_BATCH_GRANTS : 0));
            leave = false;
        }
    }
    return leave ? enqueue_node(node, SV_BATCH_GRANTS) : SELVAGE_SUCCESS;
}

/* The last launch ends the epoch, also if there is nothing to pull. */
static selvage_status_t capture_pulls(graph_node_t *node)
{
    const selvage_exchange_t *x = node->x;
    uint32_t left = x->nrecvs;
    for (int in_pieces = 0; in_pieces < 2; in_pieces++) {
        for (uint32_t i = 0; i < x->nrecvs; i++) {
            if (x->recvs[i].p.fused != (bool)in_pieces)
                continue;
            node->in_pieces = in_pieces;
            sv_batch_add(&node->arg.pull, &x->recvs[i].p, node->pull_bytes);
            if (--left > 0 && node->arg.pull.npackets == SV_BATCH_PACKETS)
                SV_TRY(enqueue_node(node, 0));
        }
        if (left > 0 && node->arg.pull.npackets > 0)
            SV_TRY(enqueue_node(node, 0));
    }
    return enqueue_node(node, SV_BATCH_ENDS_EPOCH);
}

/* Whether one launch takes all there is. */
static bool is_one_node(const selvage_exchange_t *x)
{
    if (x->nsends == 0 || x->nrecvs == 0 || x->nsends > SV_BATCH_PACKETS || x->nrecvs > SV_BATCH_PACKETS)
        return false;
    const bool in_pieces = x->sends[0].p.fused;
    for (uint32_t i = 0; i < x->nsends; i++)
        if (x->sends[i].p.fused != in_pieces)
            return false;
    for (uint32_t i = 0; i < x->nrecvs; i++)
        if (x->recvs[i].p.fused != in_pieces)
            return false;
    return true;
}

static selvage_status_t capture_run(graph_node_t *node)
{
    const selvage_exchange_t *x = node->x;
    bool leave = false;
    node->in_pieces = x->sends[0].p.fused;
    for (uint32_t i = 0; i < x->nsends; i++)
        sv_batch_add(&node->arg.push, &x->sends[i].p, node->push_bytes);
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        leave |= needs_leave(&x->recvs[i]);
        sv_batch_add(&node->arg.pull, &x->recvs[i].p, node->pull_bytes);
    }
    return enqueue_node(node, SV_BATCH_ENDS_EPOCH | (leave ? SV_BATCH_GRANTS : 0));
}

/* --- what may be captured ----------------------------------------------------------------------------------------- */

static selvage_status_t refuse_capture(const selvage_exchange_t *x, const char *call)
{
    const selvage_comm_t *comm = x->comm;
    if (comm->topology.shares_gpu)
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "%s in a graph: ranks share a GPU, where no kernel may wait for "
                        "another rank", call);
    if (!comm->dev->kernels_wait)
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "%s in a graph: on this device no kernel may wait", call);
    SV_TRY(sv_varying_refuse(x, call));
    SV_TRY(sv_enqueued_refuse(x, call));
    for (uint32_t i = 0; i < x->nrecvs; i++)
        if (x->recvs[i].p.in_place && x->recvs[i].p.ops->maps_device && !comm->dev->shows_stores)
            return sv_error(SELVAGE_ERR_UNSUPPORTED, "%s in a graph: receive %u from rank %d lies in registered "
                            "memory, where this device does not show a kernel what others store", call, i,
                            x->recvs[i].p.peer->rank);
    return SELVAGE_SUCCESS;
}

/* Whatever is not fit for a graph is refused before anything is enqueued. */
static selvage_status_t enter_capture(selvage_exchange_t *x, const char *call)
{
    sv_epoch_state_t *state;
    SV_TRY(sv_epoch_ready(x, call));
    SV_TRY(refuse_capture(x, call));
    if (x->layouts.due)
        return sv_error(SELVAGE_ERR_STATE, "%s in a graph: epoch %llu is not complete; wait for it first", call,
                        (unsigned long long)x->started);
    if (x->numbers.start_captured)
        return sv_error(SELVAGE_ERR_STATE, "%s in a graph: the start captured before has no "
                        "selvage_exchange_enqueue_wait in a graph yet; any call that is not captured forgets it", call);
    return sv_epoch_share(x, call, &state); /* last: what is refused leaves the exchange as it was */
}

selvage_status_t sv_graph_start(selvage_exchange_t *x, void *stream)
{
    graph_node_t node;
    SV_TRY(enter_capture(x, "selvage_exchange_start"));
    make_node(&node, x, stream);
    SV_TRY(sv_layouts_capture_pack(x, stream));
    SV_TRY(capture_pushes(&node));
    x->numbers.start_captured = true;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_graph_enqueue_wait(selvage_exchange_t *x, void *stream)
{
    graph_node_t node;
    if (sv_exchange_state(x) == SV_EXCHANGE_POISONED)
        return sv_exchange_first_error(x);
    if (!x->numbers.start_captured)
        return sv_error(SELVAGE_ERR_STATE, "selvage_exchange_enqueue_wait in a graph: no start was captured before it");
    x->numbers.start_captured = false;
    make_node(&node, x, stream);
    SV_TRY(capture_pulls(&node));
    return sv_layouts_capture_unpack(x, stream);
}

selvage_status_t sv_graph_run(selvage_exchange_t *x, void *stream)
{
    graph_node_t node;
    SV_TRY(enter_capture(x, "selvage_exchange_run"));
    make_node(&node, x, stream);
    SV_TRY(sv_layouts_capture_pack(x, stream));
    if (is_one_node(x)) {
        SV_TRY(capture_run(&node));
    } else {
        SV_TRY(capture_pushes(&node));
        SV_TRY(capture_pulls(&node));
    }
    return sv_layouts_capture_unpack(x, stream);
}
