/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commit, second step: handshakes. A control message announces the size, the descriptors follow on the set-up channel
 * with the commit's number as tag. A handshake from a rank that this one does not know makes a "unmatched" peer: it is
 * received like any other, and matching then says what that rank wanted. Descriptors have a check word over all of
 * them, their kind, both ranks and the commit; those that come damaged, or not at all, are asked for again, a few
 * times.
 */
#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "comm/comm_control.h"
#include "kernels/kernels.h"
#include "pipeline/pipe_commit.h"
#include "pipeline/route.h"
#include "pipeline/pipe_phases.h"

enum { REPEATS_MAX = 8 };

#define FIRST_REPEAT_NS UINT64_C(20000000) /* then twice as long each time */

int sv_commit_setup_tag(const selvage_comm_t *comm, uint64_t number)
{
    enum { RESERVED_TAGS = 40, KINDS = 4, OF_NEIGHBORS = 2 }; /* of the timeline, of gatherings, of collectives */
    const uint64_t turns = (uint64_t)((comm->wire->tag_max - RESERVED_TAGS) / KINDS);
    const int tag = RESERVED_TAGS + KINDS * (int)((number & ~SV_NEIGHBOR_NUMBER) % turns);
    return number & SV_NEIGHBOR_NUMBER ? tag + OF_NEIGHBORS : tag;
}

int sv_commit_probe_tag(const selvage_comm_t *comm, uint64_t number)
{
    return sv_commit_setup_tag(comm, number) + 1;
}

static selvage_status_t send_ack(selvage_comm_t *comm, int peer, uint64_t commit)
{
    sv_wire_control_t message = {.word = {SV_CONTROL_HANDSHAKE_ACK, commit}};
    return sv_control_send_wait(comm, peer, &message);
}

selvage_status_t sv_commit_accept_handshake(selvage_exchange_t *x, sv_peer_t *peer, uint64_t number, uint64_t bytes)
{
    const int source = peer->rank;
    if (peer->handshake_known)
        return SELVAGE_SUCCESS; /* said again, because the ack was lost */
    peer->number = number;
    if (bytes < sizeof(sv_handshake_head_t))
        return sv_error(SELVAGE_ERR_MISMATCH, "rank %d runs another version of Selvage", source);
    SV_TRY(sv_calloc(bytes, 1, &peer->handshake_in));
    peer->handshake_in_bytes = bytes;
    SV_TRY(sv_wire_recv(x->comm->wire, SV_WIRE_SETUP, peer->handshake_in, bytes, source,
                        sv_commit_setup_tag(x->comm, peer->number), &peer->handshake_in_request));
    peer->handshake_known = true;
    peer->request_next_ns = sv_clock_ns() + FIRST_REPEAT_NS;
    return SELVAGE_SUCCESS;
}

/* A handshake for the commit of all ranks under way, of a rank that this one may not know. */
static selvage_status_t accept_handshake(selvage_exchange_t *x, int source, uint64_t bytes)
{
    sv_peer_t *peer;
    SV_TRY(sv_commit_peer(x, source, true, &peer));
    return sv_commit_accept_handshake(x, peer, x->number, bytes);
}

selvage_status_t sv_commit_receive_handshake(selvage_comm_t *comm, int source, const sv_wire_control_t *message)
{
    const uint64_t commit = message->word[1], bytes = message->word[2];
    selvage_exchange_t *x = comm->exchanges->committing;
    sv_list_t *const pending = &comm->exchanges->pending_handshakes;
    sv_pending_handshake_t *early = NULL;
    if (commit & SV_NEIGHBOR_NUMBER) {
        SV_TRY(sv_neighbors_take_handshake(comm, source, message));
        return send_ack(comm, source, commit);
    }
    if (x && commit == x->number) {
        selvage_status_t status = accept_handshake(x, source, bytes);
        if (x->failure.status == SELVAGE_SUCCESS)
            x->failure.status = status; /* agreed on in its turn; the sender must not wait for the ack */
        return send_ack(comm, source, commit);
    }
    if (commit <= comm->exchanges->commits)
        return send_ack(comm, source, commit); /* said again; or of a commit that has failed here, as it will learn */
    /* Of a commit to come: kept once, however often it is said. */
    for (const sv_list_t *it = pending->next; it != pending; it = it->next) {
        early = SV_CONTAINER_OF(it, sv_pending_handshake_t, link);
        if (early->source == source && early->commit == commit)
            return send_ack(comm, source, commit);
    }
    SV_TRY(sv_calloc(1, sizeof *early, &early));
    early->source = source;
    early->commit = commit;
    early->bytes = bytes;
    sv_list_append(pending, &early->link);
    return send_ack(comm, source, commit);
}

void sv_commit_receive_ack(selvage_comm_t *comm, int source, uint64_t commit)
{
    selvage_exchange_t *x = comm->exchanges->committing;
    sv_peer_t *peer = x && commit == x->number ? sv_exchange_peer(x, source) : NULL;
    if (peer)
        peer->handshake_acked = true;
}

static void fill_head(const selvage_exchange_t *x, const sv_peer_t *peer, sv_handshake_head_t *head)
{
    *head = (sv_handshake_head_t){.kind = SV_HANDSHAKE_KIND,
                                  .version = SV_HANDSHAKE_VERSION,
                                  .source = (uint32_t)x->comm->wire->rank,
                                  .destination = (uint32_t)peer->rank,
                                  .nonce = x->comm->nonce,
                                  .commit = x->number,
                                  .policy = (uint32_t)x->policy,
                                  .varying = x->varying,
                                  .nsends = peer->nsends,
                                  .nrecvs = peer->nrecvs,
                                  .create_number = x->create_number,
                                  .direct_able = sv_commit_direct_is_able(x->comm)};
    if (!x->memory.segment_open || !peer->on_node)
        return;
    head->has_segment = 1;
    head->token = x->memory.segment_token;
    head->segment = x->memory.segment.mapping.handle;
    head->proof_offset = (uint64_t)((const uint8_t *)peer->proof_here - sv_shared_base(&x->memory.segment));
    head->proof_token = peer->proof_token;
    head->has_slab = x->memory.slab_exported;
    head->slab_token_offset = x->memory.slab_token_offset;
    head->slab = x->memory.slab_handle;
}

static uint64_t segment_offset_of(const selvage_exchange_t *x, const void *place)
{
    return x->memory.segment_open ? (uint64_t)((const uint8_t *)place - sv_shared_base(&x->memory.segment)) : 0;
}

static void fill_recv(const selvage_exchange_t *x, const sv_recv_t *recv, uint64_t shared_at, uint64_t slab_at,
                      sv_handshake_recv_t *out)
{
    const sv_packet_t *p = &recv->p;
    *out = (sv_handshake_recv_t){.bytes = p->bytes,
                                 .words_offset = segment_offset_of(x, recv->words),
                                 .target_stride = sv_commit_slot_bytes(p),
                                 .own_pointer = (uint64_t)(uintptr_t)recv->buf,
                                 .tag = (uint32_t)p->tag,
                                 .wire_tag = (uint32_t)p->wire_tag,
                                 .route = p->route,
                                 .in_place = p->in_place,
                                 .nslots = p->nslots,
                                 .kernel_copy = p->kernel_copy,
                                 .record_tag = (uint32_t)p->record_tag};
    if (p->ops->within_rank) {
        out->target_offset = (uint64_t)(uintptr_t)recv->device_line;
    } else if (p->ops->segment_slots) {
        out->target_offset = shared_at;
    } else if (p->in_place && recv->buffer) {
        out->handle = recv->buffer->handle;
        out->target_offset = recv->buffer->offset + (uint64_t)(recv->buf - recv->buffer->ptr);
    } else if (p->ops->maps_device) {
        out->handle = x->memory.slab_handle;
        out->target_offset = x->memory.slab_offset + slab_at;
    }
}

/* Of a handshake whose first word is the check word itself. */
static uint64_t check_handshake(const uint8_t *handshake, size_t bytes)
{
    uint64_t chain = sv_digest_mix(bytes + 1);
    for (size_t at = sizeof(uint64_t); at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, handshake + at, sizeof word);
        chain = sv_digest_mix(chain ^ word) + at;
    }
    return chain;
}

bool sv_commit_handshake_is_whole(const selvage_comm_t *comm, const sv_peer_t *peer, size_t bytes)
{
    const sv_handshake_head_t *head = (const sv_handshake_head_t *)(const void *)peer->handshake_in;
    return bytes == peer->handshake_in_bytes && bytes >= sizeof *head &&
           head->check == check_handshake(peer->handshake_in, bytes) && head->kind == SV_HANDSHAKE_KIND &&
           head->source == (uint32_t)peer->rank && head->destination == (uint32_t)comm->wire->rank &&
           head->nonce == comm->nonce && head->commit == peer->number;
}

selvage_status_t sv_commit_send_descriptors(selvage_exchange_t *x, sv_peer_t *peer)
{
    SV_TRY(sv_wire_send(x->comm->wire, SV_WIRE_SETUP, peer->handshake_out, peer->handshake_out_bytes, peer->rank,
                        sv_commit_setup_tag(x->comm, x->number), &peer->handshake_out_request));
    peer->handshake_sent = true;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_commit_write_descriptors(selvage_exchange_t *x, sv_peer_t *peer)
{
    const sv_exchange_memory_t *memory = &x->memory;
    peer->handshake_out_bytes = sizeof(sv_handshake_head_t) + peer->nsends * sizeof(sv_handshake_send_t) +
                                peer->nrecvs * sizeof(sv_handshake_recv_t);
    SV_TRY(sv_calloc(peer->handshake_out_bytes, 1, &peer->handshake_out));
    sv_handshake_head_t *head = (sv_handshake_head_t *)(void *)peer->handshake_out;
    fill_head(x, peer, head);

    sv_handshake_send_t *send_out = (sv_handshake_send_t *)(void *)(head + 1);
    for (uint32_t i = 0; i < x->nsends; i++) {
        const sv_send_t *send = &x->sends[i];
        if (send->p.peer != peer)
            continue;
        *send_out = (sv_handshake_send_t){.bytes = send->p.bytes,
                                          .words_offset = segment_offset_of(x, send->words),
                                          .has_credit = send->credit_device != NULL,
                                          .index = send->p.own_index,
                                          .tag = (uint32_t)send->p.tag};
        if (send->credit_device)
            send_out->credit_offset = memory->slab_offset +
                                      (uint64_t)((const uint8_t *)send->credit_device - memory->slab);
        send_out++;
    }
    sv_handshake_recv_t *recv_out = (sv_handshake_recv_t *)(void *)send_out;
    uint64_t shared_at = segment_offset_of(x, memory->shared_slots), slab_at = 0;
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        const sv_packet_t *p = &x->recvs[i].p;
        if (p->peer == peer)
            fill_recv(x, &x->recvs[i], shared_at, slab_at, recv_out++);
        if (p->ops->segment_slots)
            shared_at += p->nslots * sv_commit_slot_bytes(p);
        else if (p->ops->maps_device && !p->in_place)
            slab_at += p->nslots * sv_commit_slot_bytes(p);
    }
    head->check = check_handshake(peer->handshake_out, peer->handshake_out_bytes);
    return SELVAGE_SUCCESS;
}

static sv_wire_control_t announce_handshake(const selvage_exchange_t *x, const sv_peer_t *peer)
{
    return (sv_wire_control_t){.word = {SV_CONTROL_HANDSHAKE, x->number, peer->handshake_out_bytes}};
}

/* Writes the descriptors for a peer, and sends them and their announcement. */
static selvage_status_t send_handshake(selvage_exchange_t *x, sv_peer_t *peer)
{
    SV_TRY(sv_commit_write_descriptors(x, peer));
    SV_TRY(sv_commit_send_descriptors(x, peer));
    sv_wire_control_t message = announce_handshake(x, peer);
    return sv_control_send_wait(x->comm, peer->rank, &message);
}

/* Descriptors are kept until the commit ends, so that they can be sent again. */
selvage_status_t sv_commit_receive_resend(selvage_comm_t *comm, int source, uint64_t commit)
{
    selvage_exchange_t *x = comm->exchanges->committing;
    sv_peer_t *peer = x && commit == x->number ? sv_exchange_peer(x, source) : NULL;
    if (!peer || !peer->handshake_sent || !peer->handshake_out)
        return SELVAGE_SUCCESS;
    if (!peer->setup_sent) {
        selvage_status_t status = sv_wire_test(comm->wire, &peer->handshake_out_request, NULL);
        if (status != SELVAGE_SUCCESS) /* it is on its way still */
            return status == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : status;
    }
    peer->setup_sent = false;
    return sv_commit_send_descriptors(x, peer);
}

static const sv_peer_t *unacked_peer(const selvage_exchange_t *x)
{
    for (const sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        const sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (peer->handshake_sent && !peer->handshake_acked)
            return peer;
    }
    return NULL;
}

static selvage_status_t await_acks(selvage_exchange_t *x)
{
    sv_deadline_t deadline;
    uint64_t repeat_ns = sv_clock_ns() + FIRST_REPEAT_NS;
    unsigned repeats = 0;
    sv_deadline_begin(&deadline, x->comm, x->comm->timeout_s);
    for (const sv_peer_t *peer; (peer = unacked_peer(x)) != NULL && !sv_agree_is_lost(x->comm);) {
        selvage_status_t status = sv_deadline_poll(&deadline);
        if (status == SELVAGE_ERR_TIMEOUT)
            return sv_error(status, "selvage_exchange_commit: rank %d has not answered for %g s: it did not commit",
                            peer->rank, x->comm->timeout_s);
        SV_TRY(status);
        if (repeats < REPEATS_MAX && sv_clock_ns() > repeat_ns) {
            /* Handshakes that nobody has answered are said again: they, or the answers, were lost. */
            for (const sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
                const sv_peer_t *silent = SV_CONTAINER_OF(it, sv_peer_t, link);
                sv_wire_control_t message = announce_handshake(x, silent);
                if (silent->handshake_sent && !silent->handshake_acked)
                    (void)sv_wire_control_send(x->comm->wire, silent->rank, &message);
            }
            repeat_ns = sv_clock_ns() + (FIRST_REPEAT_NS << ++repeats);
        }
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_commit_handshake(selvage_exchange_t *x, selvage_status_t status)
{
    uint64_t unused = 0;
    sv_list_t *it, *safe;
    /* 1. Handshakes that came before this commit began. They are taken whatever has failed. */
    selvage_status_t adopted = SELVAGE_SUCCESS;
    SV_LIST_FOR_EACH(it, safe, &x->comm->exchanges->pending_handshakes) {
        sv_pending_handshake_t *early = SV_CONTAINER_OF(it, sv_pending_handshake_t, link);
        if (early->commit != x->comm->exchanges->commits)
            continue;
        sv_list_remove(it);
        if (adopted == SELVAGE_SUCCESS)
            adopted = accept_handshake(x, early->source, early->bytes);
        sv_free(early);
    }
    if (status == SELVAGE_SUCCESS)
        status = adopted;
    /* 2. This rank's, to all that it knows. */
    SV_LIST_FOR_EACH(it, safe, &x->peers) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (status == SELVAGE_SUCCESS && !peer->unmatched)
            status = send_handshake(x, peer);
    }
    /* 3. All are answered, and nobody leaves the agreement with a handshake unseen. */
    if (status == SELVAGE_SUCCESS)
        status = await_acks(x);
    if (status == SELVAGE_SUCCESS)
        status = x->failure.status;
    return sv_agree(x->comm, "selvage_exchange_commit (every rank commits the same exchange, in order of creation)",
                    x->create_number, status, &unused, x->comm->timeout_s);
}

static void request_descriptors(const selvage_comm_t *comm, sv_peer_t *peer)
{
    sv_wire_control_t message = {.word = {SV_CONTROL_RESEND_HANDSHAKE, peer->number}};
    if (peer->descriptor_requests < REPEATS_MAX)
        (void)sv_wire_control_send(comm->wire, peer->rank, &message);
    peer->descriptor_requests += peer->descriptor_requests < REPEATS_MAX;
    peer->request_next_ns = sv_clock_ns() + (FIRST_REPEAT_NS << peer->descriptor_requests);
}

selvage_status_t sv_commit_test_descriptors(selvage_exchange_t *x, sv_peer_t *peer, bool *through)
{
    sv_wire_t *wire = x->comm->wire;
    *through = true;
    if (peer->handshake_sent && !peer->setup_sent) {
        selvage_status_t status = sv_wire_test(wire, &peer->handshake_out_request, NULL);
        peer->setup_sent = status == SELVAGE_SUCCESS;
        if (status < 0)
            return status;
    }
    if (peer->handshake_known && !peer->setup_received) {
        size_t bytes = 0;
        selvage_status_t status = sv_wire_test(wire, &peer->handshake_in_request, &bytes);
        if (status < 0)
            return status;
        peer->setup_received = status == SELVAGE_SUCCESS && sv_commit_handshake_is_whole(x->comm, peer, bytes);
        if (status == SELVAGE_SUCCESS && !peer->setup_received) {
            if (peer->descriptor_requests >= REPEATS_MAX)
                return sv_error(SELVAGE_ERR_CHECKSUM, "selvage_exchange_commit: the packet list from rank %d came "
                                "damaged, and again after it was asked for %u times", peer->rank,
                                peer->descriptor_requests);
            SV_TRY(sv_wire_recv(wire, SV_WIRE_SETUP, peer->handshake_in, peer->handshake_in_bytes, peer->rank,
                                sv_commit_setup_tag(x->comm, peer->number), &peer->handshake_in_request));
            request_descriptors(x->comm, peer);
        } else if (status == SELVAGE_IN_PROGRESS && sv_clock_ns() > peer->request_next_ns) {
            request_descriptors(x->comm, peer);
        }
    }
    *through = (!peer->handshake_sent || peer->setup_sent) && (!peer->handshake_known || peer->setup_received);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_commit_handshake_drain(selvage_exchange_t *x, double timeout_s)
{
    sv_deadline_t deadline;
    sv_deadline_begin(&deadline, x->comm, timeout_s);
    sv_list_t *it = x->peers.next;
    while (it != &x->peers) {
        bool through;
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        SV_TRY(sv_commit_test_descriptors(x, peer, &through));
        if (through) {
            it = it->next;
            continue;
        }
        selvage_status_t status = sv_deadline_poll(&deadline);
        if (status == SELVAGE_ERR_TIMEOUT)
            return sv_error(status, "selvage_exchange_commit: the packet list to or from rank %d did not get through "
                            "in %g s", peer->rank, timeout_s);
        SV_TRY(status);
    }
    return SELVAGE_SUCCESS;
}

/* Memory that the wire may still read or write is left alone: setting it aside costs a few hundred bytes. */
void sv_commit_forget_handshakes(selvage_exchange_t *x)
{
    sv_wire_t *wire = x->comm->wire;
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (peer->handshake_known && !peer->setup_received &&
            sv_wire_cancel(wire, &peer->handshake_in_request) != SELVAGE_SUCCESS)
            peer->handshake_in = NULL;
        if (peer->handshake_sent && !peer->setup_sent &&
            sv_wire_test(wire, &peer->handshake_out_request, NULL) != SELVAGE_SUCCESS)
            peer->handshake_out = NULL;
        sv_free(peer->handshake_in);
        sv_free(peer->handshake_out);
        peer->handshake_in = peer->handshake_out = NULL;
        peer->handshake_known = peer->handshake_sent = false;
    }
}
