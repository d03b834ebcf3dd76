/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commit, fourth step: the memory of node peers. This rank maps the segment of every peer with which it has one-sided
 * packets, reads the token there and leaves an answer; the peer does the same here. A pair is proved when both hold,
 * and both ends know both facts once agreement 2 is through, so both fall back together if it is not: to shared where
 * only device memory could not be mapped, else to staged.
 */
#include <stdio.h>

#include "base/base_log.h"
#include "base/base_status.h"
#include "base/base_thread.h"
#include "pipeline/pipe_batch.h"
#include "pipeline/pipe_commit.h"
#include "pipeline/route.h"
#include "pipeline/pipe_phases.h"

enum { SEGMENT_ONLY = 2 }; /* tokens are odd, so that no answer is 0 */

static const sv_handshake_head_t *map_head_of(const sv_peer_t *peer)
{
    return (const sv_handshake_head_t *)(const void *)peer->handshake_in;
}

/* Says in the peer's segment how much of its memory is mapped here: the token, with a bit flipped for less than all. */
static void write_proof(sv_peer_t *peer)
{
    uint64_t *answer = (uint64_t *)(void *)(sv_shared_base(&peer->segment) + map_head_of(peer)->proof_offset);
    uint64_t word = map_head_of(peer)->proof_token;
    if (peer->reach != SELVAGE_ROUTE_PEER)
        word = peer->reach == SELVAGE_ROUTE_SHARED ? word ^ SEGMENT_ONLY : 0;
    /* Partner: the acquire in proof_of(). */
    __atomic_store_n(answer, word, __ATOMIC_RELEASE);
}

/* The best route for which the peer mapped this rank's memory. */
static selvage_route_t proof_of(const sv_peer_t *peer)
{
    /* Partner: the release in write_proof() of the peer. */
    uint64_t word = peer->proof_here ? __atomic_load_n(peer->proof_here, __ATOMIC_ACQUIRE) : 0;
    if (word == peer->proof_token)
        return SELVAGE_ROUTE_PEER;
    return word == (peer->proof_token ^ SEGMENT_ONLY) ? SELVAGE_ROUTE_SHARED : SELVAGE_ROUTE_STAGED;
}

/* --- the token in a slab: proves that its handle leads to it ------------------------------------------------------ */

/* Copies one word and waits for it. The streams of the exchange are not there yet. */
static selvage_status_t copy_slab_word(selvage_exchange_t *x, void *dst, const void *src, sv_copy_kind_t kind)
{
    sv_device_t *dev = x->comm->dev;
    void *stream;
    SV_TRY(SV_DEVICE_CALL(dev, stream_create, &stream));
    selvage_status_t status = SV_DEVICE_CALL(dev, copy_async, dst, src, sizeof(uint64_t), kind, stream);
    if (status == SELVAGE_SUCCESS)
        status = SV_DEVICE_CALL(dev, stream_sync, stream);
    SV_DEVICE_CALL(dev, stream_destroy, stream);
    return status;
}

selvage_status_t sv_slab_mark(selvage_exchange_t *x, void *place)
{
    x->memory.head->slab_token = sv_transfer_token(x->memory.segment_token);
    return copy_slab_word(x, place, sv_shared_device_address(&x->memory.segment, &x->memory.head->slab_token),
                          SV_COPY_H2D);
}

/* Reads the peer's token through the mapping, by the copy engine that will write there later; the word in between lies
   in the segment. */
static selvage_status_t check_slab(selvage_exchange_t *x, sv_peer_t *peer)
{
    const sv_handshake_head_t *head = map_head_of(peer);
    sv_transfer_mapping_t *mapping;
    if (!head->has_slab)
        return sv_error(SELVAGE_ERR_DEVICE, "rank %d could not export device memory", peer->rank);
    const sv_transfer_memory_t place = {.peer = peer->rank, .handle = &head->slab, .offset = head->slab_token_offset,
                                        .bytes = sizeof(uint64_t)};
    SV_TRY(sv_transfer_map(&x->comm->mappings, x->comm->dev, &place, &mapping));
    selvage_status_t status =
        copy_slab_word(x, sv_shared_device_address(&x->memory.segment, &x->memory.head->slab_read),
                       (const uint8_t *)mapping->base + head->slab_token_offset, SV_COPY_D2H);
    if (status == SELVAGE_SUCCESS && x->memory.head->slab_read != sv_transfer_token(head->token))
        status = sv_error(SELVAGE_ERR_DEVICE, "the handle of device memory of rank %d leads to other memory",
                          peer->rank);
    sv_transfer_unmap(mapping);
    return status;
}

/* --- segments and targets ----------------------------------------------------------------------------------------- */

static selvage_status_t open_segment(selvage_exchange_t *x, sv_peer_t *peer)
{
    const sv_handshake_head_t *head = map_head_of(peer);
    if (!head->has_segment)
        return sv_error(SELVAGE_ERR_SYSTEM, "rank %d has no segment to map", peer->rank);
    SV_TRY(sv_shared_open(x->comm->dev, &head->segment, head->token, &peer->segment));
    selvage_status_t status = sv_commit_bound_segment(peer);
    if (status != SELVAGE_SUCCESS)
        sv_shared_close(&peer->segment);
    peer->segment_open = status == SELVAGE_SUCCESS;
    return status;
}

/* The memory that a send on a one-sided route writes, by kernels and copies only: device addresses. */
static selvage_status_t find_target(sv_send_t *send)
{
    const sv_handshake_recv_t *match = send->match;
    const sv_shared_segment_t *segment = &send->p.peer->segment;
    uint8_t *base = sv_shared_device_address(segment, sv_shared_base(segment));
    SV_TRY(sv_commit_bound_send(send));
    send->remote = (sv_recv_words_t *)(void *)(base + match->words_offset);
    if (send->p.ops->within_rank) {
        send->target = (uint8_t *)(uintptr_t)match->own_pointer;
        send->device_line = (uint8_t *)(uintptr_t)match->target_offset;
    } else if (send->p.ops->segment_slots) {
        send->target = base + match->target_offset;
    } else {
        selvage_comm_t *comm = send->p.x->comm;
        const sv_transfer_memory_t target = {.peer = send->p.peer->rank, .handle = &match->handle,
                                             .offset = match->target_offset,
                                             .bytes = sv_commit_target_bytes(&send->p)};
        SV_TRY(sv_transfer_map(&comm->mappings, comm->dev, &target, &send->mapping));
        send->target = (uint8_t *)send->mapping->base + match->target_offset;
    }
    return SELVAGE_SUCCESS;
}

/* The words that a receive on a one-sided route writes: in the sender's segment, and for kernels there in its slab. */
static selvage_status_t find_credit(sv_recv_t *recv)
{
    selvage_comm_t *comm = recv->p.x->comm;
    const sv_handshake_send_t *match = recv->match;
    sv_peer_t *peer = recv->p.peer;
    SV_TRY(sv_commit_bound_recv(recv));
    recv->remote = (sv_send_words_t *)(void *)(sv_shared_base(&peer->segment) + match->words_offset);
    if (!sv_batch_has_device_record(&recv->p) || recv->p.in_place || !match->has_credit)
        return SELVAGE_SUCCESS;
    const sv_transfer_memory_t credit = {.peer = peer->rank, .handle = &map_head_of(peer)->slab,
                                         .offset = match->credit_offset, .bytes = sizeof(uint64_t)};
    SV_TRY(sv_transfer_map(&comm->mappings, comm->dev, &credit, &recv->mapping));
    recv->credit_device = (uint64_t *)(void *)((uint8_t *)recv->mapping->base + match->credit_offset);
    return SELVAGE_SUCCESS;
}

static selvage_status_t find_targets(selvage_exchange_t *x, sv_peer_t *peer)
{
    bool by_peer = false;
    for (uint32_t i = 0; i < x->nsends; i++) {
        if (x->sends[i].p.peer != peer || x->sends[i].p.ops->messaged)
            continue;
        SV_TRY(find_target(&x->sends[i]));
        by_peer |= x->sends[i].p.ops->maps_device;
    }
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        sv_recv_t *recv = &x->recvs[i];
        if (recv->p.peer == peer && !recv->p.ops->messaged)
            SV_TRY(find_credit(recv));
        by_peer |= recv->p.peer == peer && recv->credit_device;
    }
    return by_peer ? check_slab(x, peer) : SELVAGE_SUCCESS;
}

/* Segment first, because it carries the answer: what of device memory cannot be mapped may still go by shared. */
static selvage_status_t map_peer(selvage_exchange_t *x, sv_peer_t *peer)
{
    peer->reach = SELVAGE_ROUTE_STAGED;
    SV_TRY(open_segment(x, peer));
    peer->reach = SELVAGE_ROUTE_SHARED;
    selvage_status_t status = find_targets(x, peer);
    if (status == SELVAGE_SUCCESS)
        peer->reach = SELVAGE_ROUTE_PEER;
    write_proof(peer);
    return status;
}

selvage_status_t sv_commit_map(selvage_exchange_t *x, bool *all_mapped_out)
{
    *all_mapped_out = true;
    for (uint32_t i = 0; i < x->nsends; i++)
        x->sends[i].p.peer->one_sided |= !x->sends[i].p.ops->messaged;
    for (uint32_t i = 0; i < x->nrecvs; i++)
        x->recvs[i].p.peer->one_sided |= !x->recvs[i].p.ops->messaged;
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (!peer->one_sided)
            continue;
        /* What fails here is no error yet: it is told later, in one line with what is done about it. */
        const int level = sv_thread_binding()->log_level;
        sv_thread_binding()->log_level = 0;
        selvage_status_t status = map_peer(x, peer);
        sv_thread_binding()->log_level = level;
        if (status != SELVAGE_SUCCESS)
            snprintf(peer->why, sizeof peer->why, "%.*s", (int)sizeof peer->why - 1, sv_thread_detail());
        if (status == SELVAGE_ERR_MEMORY || status == SELVAGE_ERR_MISMATCH)
            return sv_error(status, "memory of rank %d: %s", peer->rank, peer->why);
        if (status != SELVAGE_SUCCESS)
            *all_mapped_out = false;
    }
    return SELVAGE_SUCCESS;
}

bool sv_commit_is_proved(selvage_exchange_t *x)
{
    bool all = true;
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (!peer->one_sided || proof_of(peer) == SELVAGE_ROUTE_PEER)
            continue;
        all = false;
        peer->reach = SELVAGE_ROUTE_STAGED;
        snprintf(peer->why, sizeof peer->why, "it mapped other memory than that of this rank");
        write_proof(peer);
    }
    return all;
}

selvage_route_t sv_commit_reach_of_pair(const sv_peer_t *peer)
{
    const selvage_route_t theirs = proof_of(peer);
    return theirs > peer->reach ? theirs : peer->reach;
}

selvage_status_t sv_commit_limit_pair(selvage_exchange_t *x, sv_peer_t *peer, selvage_route_t best)
{
    const bool failed_here = peer->reach > SELVAGE_ROUTE_PEER, failed_there = proof_of(peer) > SELVAGE_ROUTE_PEER;
    const char *why = failed_here ? peer->why : "that rank says why";
    if (x->forced_route != SELVAGE_ROUTE_DEFAULT && x->forced_route < best)
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "route %s was asked for, but memory of rank %d cannot be mapped here "
                        "or ours not there (%s)", selvage_route_name(x->forced_route), peer->rank, why);
    /* One warning for the pair: by the end where it failed; by the lower rank, if it failed at both. */
    const bool warns = failed_here && (!failed_there || x->comm->wire->rank <= peer->rank);
    sv_log(warns ? SV_LOG_WARN : SV_LOG_INFO, "commit", "memory of rank %d cannot be mapped (%s): its packets go by "
           "route %s from now on; SELVAGE_ROUTE=%s chooses that without this line, doc/memory.md says what can be done",
           peer->rank, why, selvage_route_name(best), selvage_route_name(best));
    return sv_fallback_set(x->comm, peer->rank, best);
}

static selvage_status_t fall_back_for_peer(selvage_exchange_t *x, sv_peer_t *peer, int attempt)
{
    enum { ATTEMPTS_PATIENT = 2 }; /* mappings that come and go are not trusted for ever */
    const selvage_route_t best = sv_commit_reach_of_pair(peer);
    if (best <= SELVAGE_ROUTE_PEER)
        return SELVAGE_SUCCESS;
    return sv_commit_limit_pair(x, peer, attempt >= ATTEMPTS_PATIENT ? SELVAGE_ROUTE_STAGED : best);
}

selvage_status_t sv_commit_fall_back(selvage_exchange_t *x, int attempt)
{
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (peer->one_sided)
            SV_TRY(fall_back_for_peer(x, peer, attempt));
    }
    return SELVAGE_SUCCESS;
}

void sv_commit_unmap_peer(selvage_exchange_t *x, sv_peer_t *peer)
{
    for (uint32_t i = 0; i < x->nsends; i++) {
        if (x->sends[i].p.peer != peer)
            continue;
        sv_transfer_unmap(x->sends[i].mapping);
        x->sends[i].mapping = NULL;
    }
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        if (x->recvs[i].p.peer != peer)
            continue;
        sv_transfer_unmap(x->recvs[i].mapping);
        x->recvs[i].mapping = NULL;
    }
    if (peer->segment_open)
        sv_shared_close(&peer->segment);
    peer->segment_open = false;
}

void sv_commit_unmap(selvage_exchange_t *x)
{
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next)
        sv_commit_unmap_peer(x, SV_CONTAINER_OF(it, sv_peer_t, link));
}
