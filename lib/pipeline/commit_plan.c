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

enum { LINE = 64, SLOT_ALIGN = 256, NEAR_LINES = 2 /* a record, and a word for each */ };

static size_t round_up_slot_bytes(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

sv_peer_t *sv_exchange_peer(selvage_exchange_t *x, int rank)
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

static selvage_status_t find_peers(selvage_exchange_t *x)
{
    for (uint32_t i = 0; i < x->nsends; i++) {
        SV_TRY(sv_commit_peer(x, x->sends[i].p.peer_rank, false, &x->sends[i].p.peer));
        x->sends[i].p.peer->nsends++;
    }
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        SV_TRY(sv_commit_peer(x, x->recvs[i].p.peer_rank, false, &x->recvs[i].p.peer));
        x->recvs[i].p.peer->nrecvs++;
    }
    return SELVAGE_SUCCESS;
}

/* The next best route that mappings allow, unless the exchange asked for the one that they do not. */
static selvage_status_t fall_back_to(const selvage_exchange_t *x, const sv_peer_t *peer, selvage_route_t wanted,
                                     selvage_route_t *route_out)
{
    bool limited = wanted < peer->fallback;
    if (limited && wanted == x->forced_route)
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "route %s was asked for, but memory of rank %d could not be mapped "
                        "before", selvage_route_name(wanted), peer->rank);
    *route_out = limited ? peer->fallback : wanted;
    return SELVAGE_SUCCESS;
}

/* The route of a packet between this rank and peer. A packet to the rank itself is self unless staged is asked for. */
static selvage_status_t choose_route(const selvage_exchange_t *x, const sv_peer_t *peer, selvage_route_t *route_out)
{
    bool forced_here = x->forced_route != SELVAGE_ROUTE_DEFAULT;
    selvage_route_t wanted = forced_here ? x->forced_route : (selvage_route_t)x->comm->config.route;
    if (peer->rank == x->comm->wire->rank) {
        bool staged = wanted == SELVAGE_ROUTE_STAGED || peer->fallback != SELVAGE_ROUTE_PEER;
        *route_out = staged ? SELVAGE_ROUTE_STAGED : SELVAGE_ROUTE_SELF;
        return SELVAGE_SUCCESS;
    }
    if (forced_here && wanted == SELVAGE_ROUTE_SELF)
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "route self was asked for, but a packet goes to or comes from rank %d",
                        peer->rank);
    if (!peer->on_node && forced_here && sv_route_is_one_sided(wanted))
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "route %s was asked for, but rank %d is on another node",
                        selvage_route_name(wanted), peer->rank);
    if (!peer->on_node && sv_route_is_one_sided(wanted)) /* DEFAULT is, too */
        wanted = x->comm->config.direct == SV_CONFIG_DIRECT_OFF ? SELVAGE_ROUTE_STAGED : SELVAGE_ROUTE_DIRECT;
    if (wanted == SELVAGE_ROUTE_DEFAULT || wanted == SELVAGE_ROUTE_SELF)
        wanted = SELVAGE_ROUTE_PEER;
    if (!sv_route_is_one_sided(wanted)) {
        *route_out = wanted; /* nothing is mapped for it */
        return SELVAGE_SUCCESS;
    }
    return fall_back_to(x, peer, wanted, route_out);
}

/* Up to so many segments' worth one kernel looks at all of a packet that came straight to its place. */
enum { PULLED_SEGMENTS = 16 };

/*
 * What a copy engine brings straight to its place comes in pieces, so that one is verified while the next one comes;
 * but a piece costs the engine more than a start, so only long packets are cut, in two as a rule. The second is short,
 * because it is verified when nothing comes any more; but still takes longer to come than the first to be read.
 */
static size_t piece_of_direct(const sv_packet_t *p)
{
    enum { FIRST_EIGHTHS = 7, LARGEST = 128 };
    size_t segment = p->x->comm->config.segment_bytes, most = LARGEST * segment;
    if (p->x->policy == SV_CONFIG_CHECKSUM_OFF || p->bytes <= PULLED_SEGMENTS * segment)
        return p->bytes; /* without digests there is nothing to verify */
    size_t piece = round_up_slot_bytes(p->bytes / 8 * FIRST_EIGHTHS + 1, LINE);
    return piece > most ? most : piece;
}

static bool is_pulled(const sv_packet_t *p)
{
    bool on_device = p->route == SELVAGE_ROUTE_PEER || p->route == SELVAGE_ROUTE_SELF;
    return p->kernel_copy ||
           (p->in_place && on_device && p->bytes <= PULLED_SEGMENTS * p->x->comm->config.segment_bytes);
}

/*
 * Through the host: short enough that the legs of a packet overlap, long enough that a segment costs little: to MPI,
 * whose messages cost most, more than to copy engines, which move more in its time, too.
 */
static size_t piece_through_host(const sv_packet_t *p)
{
    enum { PIECES = 4, LONGER = 4 };
    bool shared = p->route == SELVAGE_ROUTE_SHARED;
    size_t segment = p->x->comm->config.segment_bytes, piece = round_up_slot_bytes(p->bytes / PIECES + 1, LINE);
    size_t least = round_up_slot_bytes(shared ? segment / 2 : segment, LINE),
           most = shared ? LONGER * segment : segment;
    return piece < least ? least : piece > most ? most : piece;
}

/* Words count segments in 24 bits (sv_word()), so very long packets get larger ones; both ends compute the same. */
static size_t segment_bytes_of(const sv_packet_t *p)
{
    enum { SEGMENTS_MAX = 1 << 23 };
    size_t segment_bytes = p->x->comm->config.segment_bytes;
    if (p->in_place)
        segment_bytes = piece_of_direct(p);
    else if (p->route != SELVAGE_ROUTE_PEER)
        segment_bytes = piece_through_host(p);
    while (segment_bytes && p->bytes / segment_bytes >= SEGMENTS_MAX)
        segment_bytes *= 2;
    return segment_bytes;
}

/* Kernels move what is small: less than the copy engine's start costs, or on `peer` than its whole way does. */
bool sv_commit_is_small(const sv_packet_t *p)
{
    const selvage_comm_t *comm = p->x->comm;
    bool by_host = p->route == SELVAGE_ROUTE_STAGED || p->route == SELVAGE_ROUTE_SHARED;
    uint64_t fallback = by_host ? comm->config.kernel_copy_max_bytes : comm->config.kernel_peer_max_bytes;
    if (fallback == SV_CONFIG_BYTES_AUTO)
        fallback = by_host                                  ? comm->dev->kernel_host_bytes
                   : p->x->policy == SV_CONFIG_CHECKSUM_OFF ? comm->dev->kernel_peer_bytes
                                                            : comm->dev->kernel_summed_bytes;
    if (p->route == SELVAGE_ROUTE_DIRECT)
        return false;
    /* Each end of a staged packet decides for itself, so it must be one message whatever either decides. */
    return p->bytes <= fallback && (p->route != SELVAGE_ROUTE_STAGED || p->bytes <= piece_through_host(p));
}

/* No staging: as few messages as the wire allows, and one more for the record. */
static void cut_direct(sv_packet_t *p, size_t most_bytes)
{
    p->segment_bytes = p->bytes < most_bytes ? p->bytes : most_bytes;
    p->nsegments = p->bytes ? (uint32_t)((p->bytes + p->segment_bytes - 1) / p->segment_bytes) : 1;
    p->nslots = p->nsegments + 1;
    p->kernel_copy = false;
}

void sv_commit_cut(sv_packet_t *p)
{
    enum { TURNS = 2 }; /* one slot is written while the other is emptied */
    const sv_config_t *config = &p->x->comm->config;
    if (p->route == SELVAGE_ROUTE_DIRECT) {
        cut_direct(p, config->direct_message_bytes);
        return;
    }
    bool whole = p->kernel_copy && sv_route_is_one_sided(p->route);
    p->segment_bytes = whole ? p->bytes : segment_bytes_of(p);
    p->nsegments = 1;
    if (!whole && p->bytes > p->segment_bytes)
        p->nsegments = (uint32_t)((p->bytes + p->segment_bytes - 1) / p->segment_bytes);
    if (p->nsegments == 1)
        p->segment_bytes = p->bytes;
    p->nslots = p->nsegments < (uint32_t)config->segment_slots ? p->nsegments : (uint32_t)config->segment_slots;
    p->pulled = is_pulled(p);
    if (p->in_place)
        p->nslots = p->nsegments; /* no slots at all: all of it may come at once */
    else if (whole && sv_route_is_one_sided(p->route))
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
    SV_TRY(choose_route(p->x, p->peer, &p->route));
    if (sv_route_is_messaged(p->route))
        SV_TRY(sv_exchange_tag_get(p->x->comm, &p->wire_tag));
    if (p->route == SELVAGE_ROUTE_DIRECT)
        SV_TRY(sv_exchange_tag_get(p->x->comm, &p->record_tag));
    p->kernel_copy = sv_commit_is_small(p) || sv_layouts_by_kernel(p);
    if (p->route == SELVAGE_ROUTE_PEER && !p->layout)
        recv->buffer = sv_buffer_find(&p->x->comm->buffers, recv->buf, p->bytes);
    p->in_place =
        p->route == SELVAGE_ROUTE_SELF || p->route == SELVAGE_ROUTE_DIRECT || (recv->buffer && !p->kernel_copy);
    if (recv->buffer)
        recv->buffer->users++; /* partner: free_recv() in pipe_exchange.c */
    sv_commit_cut(p);
    if (p->route == SELVAGE_ROUTE_PEER && !p->in_place)
        *slab_bytes += p->nslots * sv_commit_slot_bytes(p);
    return SELVAGE_SUCCESS;
}

static size_t count_on_node(const selvage_exchange_t *x)
{
    size_t count = 0;
    for (const sv_list_t *it = x->peers.next; it != &x->peers; it = it->next)
        count += SV_CONTAINER_OF(it, sv_peer_t, link)->on_node;
    return count;
}

static size_t shared_slots_bytes(const selvage_exchange_t *x)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < x->nrecvs; i++)
        if (x->recvs[i].p.route == SELVAGE_ROUTE_SHARED)
            bytes += x->recvs[i].p.nslots * sv_commit_slot_bytes(&x->recvs[i].p);
    return bytes;
}

/* Gives every word and slot its place; the same walk that sized the segment. */
static void lay_out_segment(selvage_exchange_t *x)
{
    uint8_t *at = sv_shared_base(&x->memory.segment);
    x->memory.head = (sv_segment_head_t *)(void *)at;
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
    x->memory.shared_slots =
        sv_shared_base(&x->memory.segment) +
        round_up_slot_bytes((size_t)(at - sv_shared_base(&x->memory.segment)) + sizeof(sv_shared_header_t),
                            SLOT_ALIGN) -
        sizeof(sv_shared_header_t);
}

static selvage_status_t make_segment(selvage_exchange_t *x)
{
    size_t on_node = count_on_node(x);
    if (on_node == 0)
        return SELVAGE_SUCCESS;
    size_t bytes = LINE * (1 + on_node) + x->nsends * sizeof(sv_send_words_t) + x->nrecvs * sizeof(sv_recv_words_t) +
                   SLOT_ALIGN + shared_slots_bytes(x);
    x->memory.segment_token =
        sv_digest_mix(x->comm->nonce + x->create_number * 65537 + (uint64_t)x->comm->wire->rank) | 1;
    bool device_line = sv_topology_memory_begin(&x->comm->topology);
    selvage_status_t status = sv_shared_create(x->comm->dev, bytes, x->memory.segment_token, &x->memory.segment);
    sv_topology_memory_end(&x->comm->topology, device_line);
    SV_TRY(status);
    x->memory.segment_open = true;
    x->memory.pinned_bytes += bytes;
    lay_out_segment(x);
    return SELVAGE_SUCCESS;
}

/* Packets to the rank itself have no slot for record and word to lie in. */
static bool has_device_line(const sv_packet_t *p)
{
    return p->route == SELVAGE_ROUTE_SELF && p->kernel_copy;
}

static size_t device_line_bytes(const selvage_exchange_t *x)
{
    size_t lines = 0;
    for (uint32_t i = 0; i < x->nrecvs; i++)
        lines += has_device_line(&x->recvs[i].p) ? NEAR_LINES : 0;
    for (uint32_t i = 0; i < x->nsends; i++)
        lines += x->sends[i].p.route == SELVAGE_ROUTE_PEER;
    return lines * LINE;
}

/* Who receives by peer has a token there for its senders, if nothing else. */
static bool needs_slab(const selvage_exchange_t *x)
{
    for (uint32_t i = 0; i < x->nrecvs; i++)
        if (x->recvs[i].p.route == SELVAGE_ROUTE_PEER)
            return true;
    return device_line_bytes(x) > 0;
}

/* Words for kernels that wait, after the receive slots. What nobody can map nobody writes. */
static void place_device_words(selvage_exchange_t *x, uint8_t *at)
{
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        bool has = has_device_line(&x->recvs[i].p);
        x->recvs[i].device_line = has ? at : NULL;
        at += has ? NEAR_LINES * LINE : 0;
    }
    for (uint32_t i = 0; i < x->nsends; i++) {
        bool has = x->memory.slab_exported && x->sends[i].p.route == SELVAGE_ROUTE_PEER;
        x->sends[i].credit_device = has ? (uint64_t *)(void *)at : NULL;
        at += has ? LINE : 0;
    }
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

/* Landing slots, words, and the token after them. Memory that cannot be exported is found to be so by the peers. */
static selvage_status_t make_slab(selvage_exchange_t *x, size_t slot_bytes)
{
    size_t near_at = round_up_slot_bytes(slot_bytes, LINE), token_at = near_at + device_line_bytes(x);
    if (!needs_slab(x))
        return SELVAGE_SUCCESS;
    SV_TRY(allocate_slab(x, token_at + LINE));
    x->memory.slab_bytes = token_at;
    x->memory.device_bytes += token_at + LINE;
    x->memory.slab_token_offset = x->memory.slab_offset + token_at;
    place_device_words(x, x->memory.slab + near_at);
    return x->memory.slab_exported ? sv_slab_mark(x, x->memory.slab + token_at) : SELVAGE_SUCCESS;
}

/* Where every receive lands: fixed before the handshakes say so, whatever falls back to staged later. */
static void place_recv_slots(selvage_exchange_t *x)
{
    uint8_t *shared_at = x->memory.shared_slots, *slab_at = x->memory.slab;
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        sv_packet_t *p = &x->recvs[i].p;
        uint8_t **at = p->route == SELVAGE_ROUTE_SHARED ? &shared_at : &slab_at;
        if (p->in_place || !sv_route_is_one_sided(p->route))
            continue;
        x->recvs[i].recv_slots = *at;
        *at += p->nslots * sv_commit_slot_bytes(p);
    }
}

selvage_status_t sv_commit_plan(selvage_exchange_t *x)
{
    size_t slab_bytes = 0;
    SV_TRY(sv_commit_check_overlap(x));
    SV_TRY(find_peers(x));
    for (uint32_t i = 0; i < x->nrecvs; i++)
        SV_TRY(plan_recv(&x->recvs[i], &slab_bytes));
    for (uint32_t i = 0; i < x->nsends; i++)
        SV_TRY(choose_route(x, x->sends[i].p.peer, &x->sends[i].p.route));
    SV_TRY(sv_layouts_place_recvs(x));
    SV_TRY(make_segment(x));
    SV_TRY(make_slab(x, slab_bytes));
    place_recv_slots(x);
    return SELVAGE_SUCCESS;
}
