/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commit: what a handshake says of memory, held against what is really there. A check word says that the handshake is
 * the one that was sent; these bounds say that nothing in it leads outside of the segment as it is mapped here, of the
 * slots that both ends cut alike, or, on the route to the rank itself, of the receives that it declared. Pure
 * functions.
 */
#include "base/base_status.h"
#include "pipeline/pipe_batch.h"
#include "pipeline/pipe_commit.h"
#include "pipeline/route.h"

static selvage_status_t refuse_handshake(const sv_peer_t *peer, const char *what)
{
    return sv_error(SELVAGE_ERR_MISMATCH, "the packet list of rank %d leads outside of its memory: %s", peer->rank,
                    what);
}

/* Whether that many bytes at an offset from the segment's base lie in the mapping; words want 8-byte places. */
static bool lies_inside(const sv_shared_segment_t *segment, uint64_t offset, uint64_t bytes)
{
    uint64_t room = segment->mapping.bytes - sizeof(sv_shared_header_t);
    return bytes <= room && offset <= room - bytes && offset % sizeof(uint64_t) == 0;
}

selvage_status_t sv_commit_bound_segment(const sv_peer_t *peer)
{
    const sv_handshake_head_t *head = (const sv_handshake_head_t *)(const void *)peer->handshake_in;
    if (!lies_inside(&peer->segment, head->proof_offset, sizeof(uint64_t)))
        return refuse_handshake(peer, "the place of the answer");
    return SELVAGE_SUCCESS;
}

/* A packet to the rank itself goes into a buffer that this exchange declared, its words where this rank said. */
static bool is_own_receive(const sv_send_t *send)
{
    const selvage_exchange_t *x = send->p.x;
    const sv_handshake_recv_t *match = send->match;
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        const sv_recv_t *recv = &x->recvs[i];
        if ((uint64_t)(uintptr_t)recv->buf == match->own_pointer && recv->p.bytes == send->p.bytes &&
            recv->p.peer == send->p.peer && (uint64_t)(uintptr_t)recv->device_line == match->target_offset)
            return true;
    }
    return false;
}

uint64_t sv_commit_target_bytes(const sv_packet_t *p)
{
    return p->in_place ? p->bytes : p->nslots * (uint64_t)sv_commit_slot_bytes(p);
}

selvage_status_t sv_commit_bound_send(const sv_send_t *send)
{
    const sv_handshake_recv_t *match = send->match;
    const sv_packet_t *p = &send->p;
    const sv_peer_t *peer = p->peer;
    if (!lies_inside(&peer->segment, match->words_offset, sizeof(sv_recv_words_t)))
        return refuse_handshake(peer, "the words of a receive");
    if (p->ops->within_rank)
        return is_own_receive(send) ? SELVAGE_SUCCESS : refuse_handshake(peer, "the buffer of a receive");
    if (!p->in_place && (match->nslots != p->nslots || match->target_stride != sv_commit_slot_bytes(p)))
        return refuse_handshake(peer, "the slots of a receive");
    if (p->ops->segment_slots && !lies_inside(&peer->segment, match->target_offset, sv_commit_target_bytes(p)))
        return refuse_handshake(peer, "the landing place of a receive");
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_commit_bound_recv(const sv_recv_t *recv)
{
    const sv_handshake_send_t *match = recv->match;
    return lies_inside(&recv->p.peer->segment, match->words_offset, sizeof(sv_send_words_t))
               ? SELVAGE_SUCCESS
               : refuse_handshake(recv->p.peer, "the words of a send");
}
