/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commit, third step: the i-th send of a (source, destination, tag) meets the i-th receive of the same three. Both ends
 * hold both lists and sort them alike, so both come to the same answer without another message, and both can say what
 * is wrong in terms of their own packets.
 */
#include <stdlib.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "kernels/kernels.h"
#include "pipeline/pipe_commit.h"
#include "pipeline/route.h"

/* One packet of one end: sorted by tag, then by order of declaration. */
typedef struct entry {
    uint32_t tag, order;
    uint64_t bytes;
    void *packet;              /* ours: sv_send_t or sv_recv_t */
    const void *descriptor;    /* theirs */
} entry_t;

static int compare_match_entries(const void *a, const void *b)
{
    const entry_t *x = a, *y = b;
    if (x->tag != y->tag)
        return x->tag < y->tag ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static const sv_handshake_head_t *match_head_of(const sv_peer_t *peer)
{
    return (const sv_handshake_head_t *)(const void *)peer->handshake_in;
}

static const sv_handshake_send_t *sends_of(const sv_peer_t *peer)
{
    return (const sv_handshake_send_t *)(const void *)(peer->handshake_in + sizeof(sv_handshake_head_t));
}

static void record_identity(sv_packet_t *p, bool is_send)
{
    const selvage_comm_t *comm = p->x->comm;
    uint32_t own = (uint32_t)comm->wire->rank, other = (uint32_t)p->peer->rank;
    p->declared_bytes = p->bytes;
    p->identity = (sv_record_t){.magic = SV_RECORD_MAGIC,
                                .version = SV_RECORD_VERSION,
                                .kind = SV_RECORD_PACKET,
                                .exchange = p->peer->exchange_id,
                                .index = p->index,
                                .tag = (uint32_t)p->tag,
                                .source = is_send ? own : other,
                                .destination = is_send ? other : own,
                                .bytes = p->bytes,
                                .salt = (uint64_t)p->index + 1000 * (uint64_t)(uint32_t)p->tag};
}

/* What a receiver may say of how a packet travels; what it says of memory is bounded once that is mapped. */
static selvage_status_t bound_way(const sv_peer_t *peer, const entry_t *ours, const entry_t *theirs)
{
    const selvage_exchange_t *x = ((const sv_send_t *)ours->packet)->p.x;
    const sv_wire_t *wire = x->comm->wire;
    const sv_handshake_recv_t *recv = theirs->descriptor;
    const bool known = recv->route >= SELVAGE_ROUTE_SELF && recv->route <= SELVAGE_ROUTE_DIRECT;
    const sv_route_ops_t *ops = sv_route_ops_of(known ? (selvage_route_t)recv->route : SELVAGE_ROUTE_DEFAULT);
    const bool tags = ((!ops->messaged && !x->neighbors) || recv->wire_tag <= (uint32_t)wire->tag_max) &&
                      (!ops->from_user_memory || recv->record_tag <= (uint32_t)wire->tag_max);
    if (!known || !tags || (ops->within_rank && peer->rank != wire->rank) || recv->in_place > 1 ||
        recv->kernel_copy > 1)
        return sv_error(SELVAGE_ERR_MISMATCH, "receive %u of rank %d asks for a route that there is not", theirs->order,
                        peer->rank);
    return SELVAGE_SUCCESS;
}

static selvage_status_t report_single(const sv_peer_t *peer, const entry_t *ours, const entry_t *theirs,
                                      const char *our_kind, const char *their_kind)
{
    if (ours)
        return sv_error(SELVAGE_ERR_MISMATCH, "%s %u (tag %u, %llu bytes) of this rank has no matching %s on rank %d",
                        our_kind, ours->order, ours->tag, (unsigned long long)ours->bytes, their_kind, peer->rank);
    return sv_error(SELVAGE_ERR_MISMATCH, "%s %u (tag %u, %llu bytes) of rank %d has no matching %s on this rank",
                    their_kind, theirs->order, theirs->tag, (unsigned long long)theirs->bytes, peer->rank, our_kind);
}

static selvage_status_t join_lists(const sv_peer_t *peer, entry_t *ours, uint32_t nours, entry_t *theirs,
                                   uint32_t ntheirs, bool we_send)
{
    const char *our_kind = we_send ? "send" : "receive", *their_kind = we_send ? "receive" : "send";
    qsort(ours, nours, sizeof *ours, compare_match_entries);
    qsort(theirs, ntheirs, sizeof *theirs, compare_match_entries);
    for (uint32_t i = 0; i < nours || i < ntheirs; i++) {
        if (i >= ntheirs || (i < nours && ours[i].tag < theirs[i].tag))
            return report_single(peer, &ours[i], NULL, our_kind, their_kind);
        if (i >= nours || ours[i].tag > theirs[i].tag)
            return report_single(peer, NULL, &theirs[i], our_kind, their_kind);
        if (ours[i].bytes != theirs[i].bytes)
            return sv_error(SELVAGE_ERR_MISMATCH, "bytes of %s %u (tag %u) is %llu here and %llu in %s %u of rank %d",
                            our_kind, ours[i].order, ours[i].tag, (unsigned long long)ours[i].bytes,
                            (unsigned long long)theirs[i].bytes, their_kind, theirs[i].order, peer->rank);
        if (we_send) {
            SV_TRY(bound_way(peer, &ours[i], &theirs[i]));
            sv_send_t *send = ours[i].packet;
            const sv_handshake_recv_t *recv = theirs[i].descriptor;
            send->p.index = send->p.own_index;
            send->p.wire_tag = (int)recv->wire_tag;
            send->p.record_tag = (int)recv->record_tag;
            send->p.in_place = recv->in_place;
            sv_packet_set_route(&send->p, (selvage_route_t)recv->route);
            send->p.kernel_copy = send->p.ops->messaged ? sv_commit_is_small(&send->p) : recv->kernel_copy != 0;
            send->target_stride = recv->target_stride;
            send->match = recv;
            sv_commit_cut(&send->p);
            record_identity(&send->p, true);
        } else {
            sv_recv_t *recv = ours[i].packet;
            const sv_handshake_send_t *send = theirs[i].descriptor;
            recv->p.index = send->index;
            recv->match = send;
            record_identity(&recv->p, false);
        }
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t match_peer(selvage_exchange_t *x, sv_peer_t *peer, entry_t *ours, entry_t *theirs)
{
    const sv_handshake_head_t *head = match_head_of(peer);
    const sv_handshake_send_t *sends = sends_of(peer);
    const sv_handshake_recv_t *recvs = (const sv_handshake_recv_t *)(const void *)(sends + head->nsends);
    uint32_t count = 0;
    for (uint32_t i = 0; i < x->nsends; i++)
        if (x->sends[i].p.peer == peer)
            ours[count++] = (entry_t){(uint32_t)x->sends[i].p.tag, i, x->sends[i].p.bytes, &x->sends[i], NULL};
    for (uint32_t i = 0; i < head->nrecvs; i++)
        theirs[i] = (entry_t){recvs[i].tag, i, recvs[i].bytes, NULL, &recvs[i]};
    SV_TRY(join_lists(peer, ours, count, theirs, head->nrecvs, true));

    count = 0;
    for (uint32_t i = 0; i < x->nrecvs; i++)
        if (x->recvs[i].p.peer == peer)
            ours[count++] = (entry_t){(uint32_t)x->recvs[i].p.tag, i, x->recvs[i].p.bytes, &x->recvs[i], NULL};
    for (uint32_t i = 0; i < head->nsends; i++)
        theirs[i] = (entry_t){sends[i].tag, sends[i].index, sends[i].bytes, NULL, &sends[i]};
    return join_lists(peer, ours, count, theirs, head->nsends, false);
}

selvage_status_t sv_commit_match(selvage_exchange_t *x)
{
    x->id = x->comm->nonce + x->number;
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (!peer->handshake_known)
            return sv_error(SELVAGE_ERR_MISMATCH, "rank %d has no packet for or from this rank, which declares %u "
                            "sends to and %u receives from it", peer->rank, peer->nsends, peer->nrecvs);
        /* Of all ranks both numbers are the same. */
        peer->exchange_id = x->comm->nonce + (x->comm->wire->rank <= peer->rank ? x->number : peer->number);
        const sv_handshake_head_t *head = match_head_of(peer);
        const size_t wanted_bytes = sizeof *head + (size_t)head->nsends * sizeof(sv_handshake_send_t) +
                                    (size_t)head->nrecvs * sizeof(sv_handshake_recv_t);
        if (head->version != SV_HANDSHAKE_VERSION || wanted_bytes != peer->handshake_in_bytes)
            return sv_error(SELVAGE_ERR_MISMATCH, "rank %d runs another version of Selvage", peer->rank);
        if (head->policy != (uint32_t)x->policy)
            return sv_error(SELVAGE_ERR_MISMATCH, "rank %d has another checksum policy for this exchange", peer->rank);
        if ((head->varying != 0) != x->varying)
            return sv_error(SELVAGE_ERR_MISMATCH, "this exchange has params.varying %s rank %d, but not %s",
                            x->varying ? "here and not on" : "on", peer->rank, x->varying ? "there" : "here");

        const uint32_t our_room = peer->nsends > peer->nrecvs ? peer->nsends : peer->nrecvs;
        const uint32_t their_room = head->nsends > head->nrecvs ? head->nsends : head->nrecvs;
        entry_t *entries;
        SV_TRY(sv_calloc((size_t)our_room + their_room, sizeof *entries, &entries));
        selvage_status_t status = match_peer(x, peer, entries, entries + our_room);
        sv_free(entries);
        SV_TRY(status);
    }
    return SELVAGE_SUCCESS;
}
