/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commit, fourth step: the memory of node peers. This rank maps the segment of every peer with which it has one-sided
 * packets, reads the token there and leaves an answer; the peer does the same here. A pair is proved when both hold,
 * and both ends know both facts once agreement 2 is through, so both fall back to staged together if it is not.
 */
#include <stdatomic.h>

#include "base/base_log.h"
#include "base/base_status.h"
#include "pipeline/pipe_commit.h"
#include "pipeline/pipe_phases.h"

static const sv_hello_head_t *head_of(const sv_peer_t *peer)
{
    return (const sv_hello_head_t *)(const void *)peer->hello_in;
}

/* Proves to the peer that its segment is mapped here. */
static void leave_answer(sv_peer_t *peer)
{
    uint64_t *answer = (uint64_t *)(void *)(sv_shared_base(&peer->segment) + head_of(peer)->answer_offset);
    peer->answer_there = answer;
    /* Partner: the acquire in is_answered(). */
    __atomic_store_n(answer, head_of(peer)->answer_token, __ATOMIC_RELEASE);
}

static bool is_answered(const sv_peer_t *peer)
{
    /* Partner: the release in leave_answer() of the peer. */
    return peer->answer_here && __atomic_load_n(peer->answer_here, __ATOMIC_ACQUIRE) == peer->answer_token;
}

static void mark_one_sided(selvage_exchange_t *x)
{
    for (uint32_t i = 0; i < x->nsends; i++) {
        sv_send_t *send = &x->sends[i];
        send->p.peer->one_sided |= sv_route_is_one_sided(send->p.route);
    }
    for (uint32_t i = 0; i < x->nrecvs; i++)
        x->recvs[i].p.peer->one_sided |= sv_route_is_one_sided(x->recvs[i].p.route);
}

static selvage_status_t open_segment(selvage_exchange_t *x, sv_peer_t *peer)
{
    const sv_hello_head_t *head = head_of(peer);
    if (!head->has_segment)
        return sv_error(SELVAGE_ERR_SYSTEM, "rank %d has no segment to map", peer->rank);
    SV_TRY(sv_shared_open(x->comm->dev, &head->segment, head->token, &peer->segment));
    peer->segment_open = true;
    return SELVAGE_SUCCESS;
}

/* The memory that a send on a one-sided route writes, by kernels and copies only: device addresses. */
static selvage_status_t find_target(sv_send_t *send)
{
    const sv_hello_recv_t *match = send->match;
    const sv_shared_segment_t *segment = &send->p.peer->segment;
    uint8_t *base = sv_shared_device_address(segment, sv_shared_base(segment));
    send->remote = (sv_recv_words_t *)(void *)(base + match->words_offset);
    if (send->p.route == SELVAGE_ROUTE_SELF) {
        send->target = (uint8_t *)(uintptr_t)match->own_pointer;
    } else if (send->p.route == SELVAGE_ROUTE_SHARED) {
        send->target = base + match->target_offset;
    } else {
        selvage_comm_t *comm = send->p.x->comm;
        SV_TRY(sv_opened_get(&comm->opened, comm->dev, send->p.peer->rank, &match->handle, &send->opened));
        send->target = (uint8_t *)send->opened->base + match->target_offset;
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t find_targets(selvage_exchange_t *x, sv_peer_t *peer)
{
    for (uint32_t i = 0; i < x->nsends; i++)
        if (x->sends[i].p.peer == peer && sv_route_is_one_sided(x->sends[i].p.route))
            SV_TRY(find_target(&x->sends[i]));
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        sv_recv_t *recv = &x->recvs[i];
        if (recv->p.peer == peer && sv_route_is_one_sided(recv->p.route))
            recv->remote = (sv_send_words_t *)(void *)(sv_shared_base(&peer->segment) + recv->match->words_offset);
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t attach_peer(selvage_exchange_t *x, sv_peer_t *peer)
{
    SV_TRY(open_segment(x, peer));
    SV_TRY(find_targets(x, peer));
    leave_answer(peer);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_commit_attach(selvage_exchange_t *x, bool *all_mapped_out)
{
    *all_mapped_out = true;
    mark_one_sided(x);
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (!peer->one_sided)
            continue;
        selvage_status_t status = attach_peer(x, peer);
        if (status == SELVAGE_ERR_MEMORY)
            return status;
        if (status != SELVAGE_SUCCESS)
            *all_mapped_out = false;
    }
    return SELVAGE_SUCCESS;
}

void sv_commit_stage_instead(sv_packet_t *p)
{
    p->route = SELVAGE_ROUTE_STAGED;
    p->direct = false;
    p->kernel_copy = sv_commit_is_small(p);
    sv_commit_cut(p);
}

static void stage_pair(selvage_exchange_t *x, sv_peer_t *peer)
{
    for (uint32_t i = 0; i < x->nsends; i++)
        if (x->sends[i].p.peer == peer && sv_route_is_one_sided(x->sends[i].p.route))
            sv_commit_stage_instead(&x->sends[i].p);
    for (uint32_t i = 0; i < x->nrecvs; i++)
        if (x->recvs[i].p.peer == peer && sv_route_is_one_sided(x->recvs[i].p.route))
            sv_commit_stage_instead(&x->recvs[i].p);
    peer->one_sided = false;
}

/* Sends any of whose pairs did not prove their mappings through the host; says so in one line per peer. */
selvage_status_t sv_commit_fall_back(selvage_exchange_t *x)
{
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (!peer->one_sided || (peer->answer_there && is_answered(peer)))
            continue;
        if (x->forced_route != SELVAGE_ROUTE_DEFAULT)
            return sv_error(SELVAGE_ERR_UNSUPPORTED, "route %s was asked for, but memory of rank %d cannot be mapped",
                            selvage_route_name(x->forced_route), peer->rank);
        sv_log(SV_LOG_WARN, "commit", "memory of rank %d cannot be mapped here or ours not there: packets are staged",
               peer->rank);
        stage_pair(x, peer);
    }
    return SELVAGE_SUCCESS;
}
