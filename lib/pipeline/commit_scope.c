/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commit by neighbours only: the steps of pipe_commit.h for an exchange of scope SELVAGE_SCOPE_NEIGHBORS. Where a
 * commit of all ranks agrees, each rank hears from its own peers, so the cost is that of the peers. Nobody begins
 * again: what cannot be mapped concerns one pair, and both ends of that pair send their packets staged. Engine thread.
 */
#include <string.h>

#include "base/base_status.h"
#include "comm/comm.h"
#include "pipeline/pipe_commit.h"
#include "pipeline/route.h"

/* No memory of the peer's is mapped for it any more. */
static void fall_to_staged(sv_packet_t *p)
{
    if (p->ops->messaged)
        return;
    p->fallen = true;
    sv_commit_stage_instead(p);
}

/* Packets of a pair whose memory cannot be mapped, at one end or both. */
static selvage_status_t fall_back_with(selvage_exchange_t *x, sv_peer_t *peer, selvage_route_t best)
{
    SV_TRY(sv_commit_limit_pair(x, peer, best));
    sv_commit_unmap_peer(x, peer);
    for (uint32_t i = 0; i < x->nsends; i++) {
        sv_send_t *send = &x->sends[i];
        if (send->p.peer != peer)
            continue;
        send->device_line = NULL;
        send->credit_device = NULL;
        send->remote = NULL;
        send->target = NULL;
        fall_to_staged(&send->p);
    }
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        sv_recv_t *recv = &x->recvs[i];
        if (recv->p.peer != peer)
            continue;
        recv->device_line = NULL;
        recv->credit_device = NULL;
        recv->remote = NULL;
        recv->recv_slots = NULL;
        fall_to_staged(&recv->p);
    }
    peer->one_sided = false;
    return SELVAGE_SUCCESS;
}

/* Both ends of a pair take the worse of what each says, so they come to the same route. */
static selvage_status_t fall_back_where_needed(selvage_exchange_t *x)
{
    bool any = false;
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        const uint64_t theirs = peer->talk.heard_value[SV_STAGE_PROVED], ours = peer->talk.said_value[SV_STAGE_PROVED];
        const uint64_t best = theirs > ours ? theirs : ours;
        if (!peer->one_sided || best <= SELVAGE_ROUTE_PEER)
            continue;
        any = true;
        SV_TRY(fall_back_with(x, peer, best == SELVAGE_ROUTE_SHARED ? SELVAGE_ROUTE_SHARED : SELVAGE_ROUTE_STAGED));
    }
    return any ? sv_layouts_place_fallen(x) : SELVAGE_SUCCESS;
}

static selvage_status_t prove_pairs(selvage_exchange_t *x)
{
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (peer->one_sided)
            peer->talk.said_value[SV_STAGE_PROVED] = (uint64_t)sv_commit_reach_of_pair(peer);
    }
    return sv_neighbors_agree(x, SV_STAGE_PROVED);
}

static selvage_status_t commit_with_neighbors(selvage_exchange_t *x)
{
    bool unused;
    if (x->comm->broken != SELVAGE_SUCCESS)
        return sv_error(x->comm->broken, "selvage_exchange_commit: an earlier collective call failed on this "
                        "communicator: %s", sv_comm_broken_text(x->comm));
    SV_TRY(sv_commit_plan(x));
    SV_TRY(sv_neighbors_begin_turns(x));
    SV_TRY(sv_neighbors_meet(x));
    SV_TRY(sv_commit_match(x));
    SV_TRY(sv_commit_map(x, &unused));
    SV_TRY(sv_neighbors_agree(x, SV_STAGE_MAPPED));
    SV_TRY(prove_pairs(x));
    SV_TRY(fall_back_where_needed(x));
    SV_TRY(sv_commit_probe_direct(x));
    SV_TRY(sv_commit_alloc(x));
    return sv_neighbors_agree(x, SV_STAGE_READY);
}

/* Also those that a plan which failed did not come to: they wait for this rank. */
static void name_all_peers(selvage_exchange_t *x)
{
    sv_peer_t *peer;
    for (uint32_t i = 0; i < x->nsends; i++)
        (void)sv_commit_peer(x, x->sends[i].p.peer_rank, false, &peer);
    for (uint32_t i = 0; i < x->nrecvs; i++)
        (void)sv_commit_peer(x, x->recvs[i].p.peer_rank, false, &peer);
}

selvage_status_t sv_neighbors_commit(selvage_exchange_t *x)
{
    sv_exchange_set_t *set = x->comm->exchanges;
    x->number = SV_NEIGHBOR_NUMBER | ++set->neighbor_commits;
    set->committing = x;
    const selvage_status_t status = commit_with_neighbors(x);
    if (status == SELVAGE_SUCCESS) {
        sv_neighbors_end_turns(x, status);
        return status;
    }
    char text[SV_DETAIL_BYTES];
    memcpy(text, sv_thread_detail(), sizeof text);
    sv_commit_unmap(x);
    name_all_peers(x);
    (void)sv_neighbors_begin_turns(x); /* of those, too */
    sv_neighbors_leave(x, status);
    sv_neighbors_end_turns(x, status);
    memcpy(sv_thread_detail(), text, sizeof text);
    return status;
}
