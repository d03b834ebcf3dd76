/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commit, first step: what one rank can decide alone. The receiver decides the route of a packet, because it owns the
 * memory in which the packet lands; the sender follows. The rule looks only at what both ends know alike (the route
 * asked for, the node), so a forced route that is impossible fails at both.
 *
 * The segment of an exchange:
 *
 *   [ header of memory_shared.h | head | answers | send words | receive words | shared slots ]
 */
#include <stdlib.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "kernels/kernels.h"
#include "pipeline/pipe_commit.h"
#include "pipeline/pipe_phases.h"
#include "pipeline/pipe_varying.h"
#include "pipeline/route.h"

enum { LINE = 64, SLOT_ALIGN = 256, NEAR_LINES = 2 /* a record, and a word for each */ };

static size_t round_up_slot_bytes(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

sv_peer_t *sv_exchange_peer(const selvage_exchange_t *x, int rank)
{
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (peer->rank == rank)
            return peer;
    }
    return NULL;
}

selvage_status_t sv_commit_peer(selvage_exchange_t *x, int rank, bool unmatched, sv_peer_t **peer_out)
{
    sv_peer_t *peer = sv_exchange_peer(x, rank);
    if (!peer) {
        SV_TRY(sv_calloc(1, sizeof *peer, &peer));
        peer->x = x;
        sv_list_init(&peer->pair_link);
        peer->rank = rank;
        peer->unmatched = unmatched;
        peer->on_node = sv_topology_node_index(&x->comm->topology, rank) >= 0;
        peer->fallback = sv_fallback_find(x->comm, rank);
        sv_list_append(&x->peers, &peer->link);
        x->npeers++;
    }
    *peer_out = peer;
    return SELVAGE_SUCCESS;
}

/*
 * The route of a packet between this rank and its peer. A packet to the rank itself is self unless staged is asked for.
 * Where memory could not be mapped before, it is the best route that mappings leave, unless the exchange asked for the
 * one that they do not allow.
 */
static selvage_status_t choose_route(sv_packet_t *p)
{
    const selvage_exchange_t *x = p->x;
    const sv_peer_t *peer = p->peer;
    const bool forced_here = x->forced_route != SELVAGE_ROUTE_DEFAULT;
    selvage_route_t wanted = forced_here ? x->forced_route : (selvage_route_t)x->comm->config.route;
    if (peer->rank == x->comm->wire->rank) {
        const bool staged = wanted == SELVAGE_ROUTE_STAGED || peer->fallback != SELVAGE_ROUTE_PEER;
        sv_packet_set_route(p, staged ? SELVAGE_ROUTE_STAGED : SELVAGE_ROUTE_SELF);
        return SELVAGE_SUCCESS;
    }
    if (forced_here && wanted == SELVAGE_ROUTE_SELF)
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "route self was asked for, but a packet goes to or comes from rank %d",
                        peer->rank);
    if (wanted == SELVAGE_ROUTE_DEFAULT || wanted == SELVAGE_ROUTE_SELF)
        wanted = SELVAGE_ROUTE_PEER;
    if (!peer->on_node && !sv_route_ops_of(wanted)->messaged) {
        if (forced_here)
            return sv_error(SELVAGE_ERR_UNSUPPORTED, "route %s was asked for, but rank %d is on another node",
                            selvage_route_name(wanted), peer->rank);
        wanted = x->comm->config.direct == SV_CONFIG_DIRECT_OFF ? SELVAGE_ROUTE_STAGED : SELVAGE_ROUTE_DIRECT;
    }
    if (wanted == SELVAGE_ROUTE_DIRECT && x->varying)
        wanted = SELVAGE_ROUTE_STAGED;
    if (!sv_route_ops_of(wanted)->messaged && wanted < peer->fallback) {
        if (wanted == x->forced_route)
            return sv_error(SELVAGE_ERR_UNSUPPORTED, "route %s was asked for, but memory of rank %d could not be "
                            "mapped before", selvage_route_name(wanted), peer->rank);
        wanted = peer->fallback;
    }
    sv_packet_set_route(p, wanted);
    return SELVAGE_SUCCESS;
}

/* Up to so many segments' worth one kernel looks at all of a packet that came straight to its place. */
enum { PULLED_SEGMENTS = 16 };

/*
 * Through the host: short enough that the legs of a packet overlap, long enough that a segment costs little: to MPI,
 * whose messages cost most, more than to copy engines, which move more in its time, too.
 */
static size_t piece_through_host(const sv_packet_t *p)
{
    enum { PIECES = 4, LONGER = 4 };
    const bool shared = p->ops->segment_slots;
    size_t segment = p->x->comm->config.segment_bytes, piece = round_up_slot_bytes(p->bytes / PIECES + 1, LINE);
    size_t least = round_up_slot_bytes(shared ? segment / 2 : segment, LINE),
           most = shared ? LONGER * segment : segment;
    return piece < least ? least : piece > most ? most : piece;
}

/* Words count segments in 24 bits (sv_word()), so very long packets get larger ones; both ends compute the same. */
static size_t segment_bytes_of(const sv_packet_t *p)
{
    enum { SEGMENTS_MAX = 1 << 23, FIRST_EIGHTHS = 7, LARGEST = 128 };
    const size_t unit = p->x->comm->config.segment_bytes;
    size_t segment_bytes = unit;
    /*
     * What a copy engine brings straight to its place comes in pieces, so that one is verified while the next one
     * comes; but a piece costs the engine more than a start, so only long packets are cut, in two as a rule. The second
     * is short, because it is verified when nothing comes any more; but still takes longer to come than the first to be
     * read. Without digests there is nothing to verify.
     */
    if (p->in_place && (p->x->policy == SV_CONFIG_CHECKSUM_OFF || p->bytes <= PULLED_SEGMENTS * unit)) {
        segment_bytes = p->bytes;
    } else if (p->in_place) {
        segment_bytes = round_up_slot_bytes(p->bytes / 8 * FIRST_EIGHTHS + 1, LINE);
        if (segment_bytes > LARGEST * unit)
            segment_bytes = LARGEST * unit;
    } else if (!p->ops->maps_device) {
        segment_bytes = piece_through_host(p);
    }
    while (segment_bytes && p->bytes / segment_bytes >= SEGMENTS_MAX)
        segment_bytes *= 2;
    return segment_bytes;
}

/* Kernels move what is small: less than the copy engine's start costs, or on `peer` than its whole way does. */
bool sv_commit_is_small(const sv_packet_t *p)
{
    const selvage_comm_t *comm = p->x->comm;
    const bool by_host = p->ops->through_host;
    uint64_t fallback = by_host ? comm->config.kernel_copy_max_bytes : comm->config.kernel_peer_max_bytes;
    if (fallback == SV_CONFIG_BYTES_AUTO)
        fallback = by_host                                  ? comm->dev->kernel_host_bytes
                   : p->x->policy == SV_CONFIG_CHECKSUM_OFF ? comm->dev->kernel_peer_bytes
                                                            : comm->dev->kernel_summed_bytes;
    if (p->ops->from_user_memory)
        return false;
    /* Each end of a staged packet decides for itself, so it must be one message whatever either decides. */
    return p->bytes <= fallback && (!p->ops->own_slots || p->bytes <= piece_through_host(p));
}

void sv_commit_cut(sv_packet_t *p)
{
    enum { TURNS = 2 }; /* one slot is written while the other is emptied */
    const sv_config_t *config = &p->x->comm->config;
    if (p->ops->from_user_memory) { /* as few messages as the wire allows, and one more for the record */
        const size_t most_bytes = config->direct_message_bytes;
        p->segment_bytes = p->bytes < most_bytes ? p->bytes : most_bytes;
        p->nsegments = p->bytes ? (uint32_t)((p->bytes + p->segment_bytes - 1) / p->segment_bytes) : 1;
        p->nslots = p->nsegments + 1;
        p->kernel_copy = false;
        return;
    }
    const bool whole = p->kernel_copy && !p->ops->messaged;
    p->segment_bytes = whole ? p->bytes : segment_bytes_of(p);
    p->nsegments = 1;
    if (!whole && p->bytes > p->segment_bytes)
        p->nsegments = (uint32_t)((p->bytes + p->segment_bytes - 1) / p->segment_bytes);
    if (p->nsegments == 1)
        p->segment_bytes = p->bytes;
    p->nslots = p->nsegments < (uint32_t)config->segment_slots ? p->nsegments : (uint32_t)config->segment_slots;
    p->pulled = p->kernel_copy || (p->in_place && sv_packet_stays_on_device(p) &&
                                   p->bytes <= PULLED_SEGMENTS * config->segment_bytes);
    if (p->in_place)
        p->nslots = p->nsegments; /* no slots at all: all of it may come at once */
    else if (whole)
        p->nslots = TURNS;
}

size_t sv_commit_trailer(const sv_packet_t *p)
{
    return round_up_slot_bytes(p->segment_bytes, LINE);
}

size_t sv_commit_slot_bytes(const sv_packet_t *p)
{
    return round_up_slot_bytes(sv_commit_trailer(p) + SV_RECORD_BYTES + LINE, SLOT_ALIGN);
}

static selvage_status_t plan_recv(sv_recv_t *recv, size_t *slab_bytes)
{
    sv_packet_t *p = &recv->p;
    SV_TRY(choose_route(p));
    const sv_route_ops_t *ops = p->ops;
    /* Between neighbours a pair alone falls back to staged, when the sender knows the tag already. */
    if (ops->messaged || p->x->neighbors)
        SV_TRY(sv_exchange_tag_get(p->x->comm, &p->wire_tag));
    if (ops->from_user_memory)
        SV_TRY(sv_exchange_tag_get(p->x->comm, &p->record_tag));
    p->kernel_copy = sv_commit_is_small(p) || sv_layouts_by_kernel(p);
    if (ops->maps_device && !p->layout)
        recv->buffer = sv_buffer_find(&p->x->comm->buffers, recv->buf, p->bytes);
    p->in_place = ops->within_rank || ops->from_user_memory || (recv->buffer && !p->kernel_copy);
    if (recv->buffer)
        recv->buffer->users++; /* partner: free_resources() in pipe_exchange.c */
    sv_commit_cut(p);
    if (ops->maps_device && !p->in_place)
        *slab_bytes += p->nslots * sv_commit_slot_bytes(p);
    return SELVAGE_SUCCESS;
}

/* Makes the segment, and gives every word and slot in it its place. */
static selvage_status_t make_segment(selvage_exchange_t *x)
{
    sv_exchange_memory_t *memory = &x->memory;
    size_t on_node = 0, slots_bytes = 0;
    for (const sv_list_t *it = x->peers.next; it != &x->peers; it = it->next)
        on_node += SV_CONTAINER_OF(it, sv_peer_t, link)->on_node;
    if (on_node == 0)
        return SELVAGE_SUCCESS;
    for (uint32_t i = 0; i < x->nrecvs; i++)
        if (x->recvs[i].p.ops->segment_slots)
            slots_bytes += x->recvs[i].p.nslots * sv_commit_slot_bytes(&x->recvs[i].p);
    const size_t bytes = LINE * (1 + on_node) + x->nsends * sizeof(sv_send_words_t) +
                         x->nrecvs * sizeof(sv_recv_words_t) + SLOT_ALIGN + slots_bytes;
    memory->segment_token =
        sv_digest_mix(x->comm->nonce + x->create_number * 65537 + (uint64_t)x->comm->wire->rank) | 1;
    const bool device_line = sv_topology_memory_begin(&x->comm->topology);
    selvage_status_t status = sv_shared_create(x->comm->dev, bytes, memory->segment_token, &memory->segment);
    sv_topology_memory_end(&x->comm->topology, device_line);
    SV_TRY(status);
    memory->segment_open = true;
    memory->pinned_bytes += bytes;

    uint8_t *const base = sv_shared_base(&memory->segment), *at = base;
    memory->head = (sv_segment_head_t *)(void *)at;
    at += LINE;
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (!peer->on_node)
            continue;
        peer->proof_here = (const uint64_t *)(void *)at;
        peer->proof_token = sv_digest_mix(x->create_number * 1000003 + (uint64_t)peer->rank) | 1;
        at += LINE;
    }
    for (uint32_t i = 0; i < x->nsends; i++, at += sizeof(sv_send_words_t))
        x->sends[i].words = (sv_send_words_t *)(void *)at;
    for (uint32_t i = 0; i < x->nrecvs; i++, at += sizeof(sv_recv_words_t))
        x->recvs[i].words = (sv_recv_words_t *)(void *)at;
    memory->shared_slots = base + round_up_slot_bytes((size_t)(at - base) + sizeof(sv_shared_header_t), SLOT_ALIGN) -
                           sizeof(sv_shared_header_t);
    return SELVAGE_SUCCESS;
}

/* Packets to the rank itself have no slot for record and word to lie in. */
static bool has_device_line(const sv_packet_t *p)
{
    return p->ops->within_rank && p->kernel_copy;
}

/* Exported memory for the slab. Others store there while kernels poll it, so it is fine-grained; where that cannot be
   exported, plain memory does, if that shows a kernel such stores. */
static selvage_status_t allocate_slab(selvage_exchange_t *x, size_t bytes)
{
    const sv_device_ops_t *ops = x->comm->dev->ops;
    const int kinds = x->comm->dev->shows_stores ? 2 : 1;
    for (int plain = 0; plain < kinds && !x->memory.slab_exported; plain++) {
        void *slab;
        if (x->memory.slab)
            ops->free(x->comm->dev, x->memory.slab);
        x->memory.slab = NULL;
        SV_TRY((plain ? ops->malloc : ops->malloc_fine)(x->comm->dev, bytes, &slab));
        x->memory.slab = slab;
        selvage_status_t status =
            ops->export_memory(x->comm->dev, slab, bytes, &x->memory.slab_handle, &x->memory.slab_offset);
        x->memory.slab_exported = status == SELVAGE_SUCCESS;
        if (status == SELVAGE_ERR_MEMORY)
            return status;
    }
    return SELVAGE_SUCCESS;
}

/*
 * Landing slots, words for kernels that wait, and the token after them. Who receives by peer has a token there for its
 * senders, if nothing else. Memory that cannot be exported is found to be so by the peers; what nobody can map nobody
 * writes.
 */
static selvage_status_t make_slab(selvage_exchange_t *x, size_t slot_bytes)
{
    size_t lines = 0;
    bool needed = false;
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        lines += has_device_line(&x->recvs[i].p) ? NEAR_LINES : 0;
        needed |= x->recvs[i].p.ops->maps_device;
    }
    for (uint32_t i = 0; i < x->nsends; i++)
        lines += x->sends[i].p.ops->maps_device;
    if (!needed && lines == 0)
        return SELVAGE_SUCCESS;
    const size_t near_at = round_up_slot_bytes(slot_bytes, LINE), token_at = near_at + lines * LINE;
    SV_TRY(allocate_slab(x, token_at + LINE));
    x->memory.slab_bytes = token_at;
    x->memory.device_bytes += token_at + LINE;
    x->memory.slab_token_offset = x->memory.slab_offset + token_at;

    uint8_t *at = x->memory.slab + near_at;
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        const bool has = has_device_line(&x->recvs[i].p);
        x->recvs[i].device_line = has ? at : NULL;
        at += has ? NEAR_LINES * LINE : 0;
    }
    for (uint32_t i = 0; i < x->nsends; i++) {
        const bool has = x->memory.slab_exported && x->sends[i].p.ops->maps_device;
        x->sends[i].credit_device = has ? (uint64_t *)(void *)at : NULL;
        at += has ? LINE : 0;
    }
    return x->memory.slab_exported ? sv_slab_mark(x, x->memory.slab + token_at) : SELVAGE_SUCCESS;
}

selvage_status_t sv_commit_plan(selvage_exchange_t *x)
{
    size_t slab_bytes = 0;
    SV_TRY(sv_varying_check(x));
    SV_TRY(sv_rebind_prepare(x));
    SV_TRY(sv_commit_check_overlap(x, x->rebind.now ? x->rebind.now->base : NULL));

    /* Peers. */
    for (uint32_t i = 0; i < x->nsends; i++) {
        SV_TRY(sv_commit_peer(x, x->sends[i].p.peer_rank, false, &x->sends[i].p.peer));
        x->sends[i].p.peer->nsends++;
    }
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        SV_TRY(sv_commit_peer(x, x->recvs[i].p.peer_rank, false, &x->recvs[i].p.peer));
        x->recvs[i].p.peer->nrecvs++;
    }
    /* Routes. */
    for (uint32_t i = 0; i < x->nrecvs; i++)
        SV_TRY(plan_recv(&x->recvs[i], &slab_bytes));
    for (uint32_t i = 0; i < x->nsends; i++)
        SV_TRY(choose_route(&x->sends[i].p));
    /* Memory that others write to. */
    SV_TRY(sv_layouts_place_recvs(x));
    SV_TRY(make_segment(x));
    SV_TRY(make_slab(x, slab_bytes));
    /* Where every receive lands: fixed before the handshakes say so, whatever falls back to staged later. */
    uint8_t *shared_at = x->memory.shared_slots, *slab_at = x->memory.slab;
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        sv_packet_t *p = &x->recvs[i].p;
        uint8_t **at = p->ops->segment_slots ? &shared_at : &slab_at;
        if (p->in_place || p->ops->messaged)
            continue;
        x->recvs[i].recv_slots = *at;
        *at += p->nslots * sv_commit_slot_bytes(p);
    }
    return SELVAGE_SUCCESS;
}
