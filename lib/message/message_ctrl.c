/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control messages out and in. They go by the wire, all with one tag, into receives that their reader has posted ahead,
 * and are taken as they come. To this rank itself they go by a list.
 * A control message that does not verify is dropped and said on the log: its sender sends it again (message_unacked.c).
 */
#include <string.h>

#include "base/base_log.h"
#include "message/message_engine.h"
#include "message/message_pool.h"
#include "message/message_shm.h"
#include "message/message_unacked.h"

enum { CTRL_TAG = 0, CTRL_PER_POLL = 64 };

static uint64_t header_check(const sv_message_engine_t *engine, const sv_ctrl_header_t *header, int destination)
{
    const uint64_t *word = (const uint64_t *)(const void *)header;
    const size_t words = offsetof(sv_ctrl_header_t, record) / sizeof *word;
    uint64_t check = sv_digest_mix(engine->exchange + (uint64_t)destination + 1);
    for (size_t i = 1; i < words; i++)
        check = sv_digest_mix(check + word[i]);
    return check;
}

size_t sv_ctrl_bytes(const sv_ctrl_header_t *header)
{
    const bool has_payload = header->kind == SV_CTRL_EAGER && header->value[0] == 0;
    return sizeof *header + (has_payload ? header->bytes : 0);
}

/* In the place of a DEFERRED the message itself will lie. */
bool sv_ctrl_is_header_only(const sv_ctrl_header_t *header)
{
    return sv_ctrl_bytes(header) == sizeof *header && header->kind != SV_CTRL_DEFERRED;
}

/* What fails is still the caller's. */
static selvage_status_t start_wire_send(sv_message_engine_t *engine, sv_ctrl_desc_t *desc, int rank)
{
    const sv_ctrl_header_t *header = desc->header;
    sv_fault_t *fault = &engine->comm->fault;
    sv_ctrl_finalize(engine, desc, rank);
    /* A fault of a test's: a small message is damaged on its way, and whole again when it has left. */
    if (fault->armed && header->kind == SV_CTRL_EAGER && header->bytes > 0 &&
        sv_fault_packet(fault, (uint32_t)header->number, header->attempt) == SV_FAULT_FLIP) {
        desc->corrupted = sv_fault_random(fault, header->bytes) + 1;
        sv_ctrl_payload(desc)[desc->corrupted - 1] ^= 1;
    }
    SV_TRY(sv_wire_send(engine->wire, SV_WIRE_MESSAGE, header, sv_ctrl_bytes(header), rank, CTRL_TAG, &desc->request));
    desc->in_flight = true;
    sv_list_append(&engine->in_flight, &desc->link);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_ctrl_send_wire(sv_message_engine_t *engine, sv_ctrl_desc_t *desc, int rank)
{
    selvage_status_t status = start_wire_send(engine, desc, rank);
    if (status == SELVAGE_SUCCESS)
        return status;
    if (!desc->unacked)
        sv_ctrl_free(engine, desc);
    sv_message_break(engine, status);
    return status;
}

/* What must arrive is remembered until it has. */
static selvage_status_t send_by_wire(sv_message_engine_t *engine, sv_ctrl_desc_t *desc, int rank)
{
    const bool numbered = desc->header->kind != SV_CTRL_SEQUENCE_ACK;
    bool may_send = true;
    sv_message_peer_t *peer;
    selvage_status_t status = sv_message_peer(engine, rank, &peer);
    if (status == SELVAGE_SUCCESS && numbered)
        status = sv_unacked_add(engine, peer, desc, &may_send);
    if (status != SELVAGE_SUCCESS) {
        sv_ctrl_free(engine, desc);
        sv_message_break(engine, status);
        return status;
    }
    peer->wrote |= numbered;
    if (!may_send) {
        if (!desc->unacked && !desc->retained)
            sv_ctrl_free(engine, desc);
        return SELVAGE_SUCCESS;
    }
    if (numbered)
        sv_unacked_piggyback(peer, desc->header);
    return sv_ctrl_send_wire(engine, desc, rank);
}

void sv_ctrl_finalize(sv_message_engine_t *engine, sv_ctrl_desc_t *desc, int rank)
{
    desc->header->source = engine->wire->rank;
    desc->header->check = header_check(engine, desc->header, rank);
}

selvage_status_t sv_ctrl_send(sv_message_engine_t *engine, sv_ctrl_desc_t *desc, int rank)
{
    if (!desc->shm && rank != engine->wire->rank)
        return send_by_wire(engine, desc, rank);
    sv_ctrl_finalize(engine, desc, rank);
    if (desc->shm) {
        __atomic_store_n(desc->word, desc->stamp, __ATOMIC_RELEASE); /* partner: the acquire in sv_shm_poll() */
        return SELVAGE_SUCCESS;
    }
    desc->retained = false;
    sv_list_append(&engine->loopback, &desc->link);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_ctrl_send_header(sv_message_engine_t *engine, int rank, const sv_ctrl_header_t *header)
{
    sv_ctrl_desc_t *desc;
    SV_TRY(sv_ctrl_alloc_to(engine, rank, sv_ctrl_is_header_only(header), &desc));
    *desc->header = *header;
    return sv_ctrl_send(engine, desc, rank);
}

selvage_status_t sv_ctrl_ack(sv_message_engine_t *engine, int rank, uint64_t number)
{
    sv_message_peer_t *peer;
    SV_TRY(sv_message_peer(engine, rank, &peer));
    peer->acks[peer->nacks++] = number;
    if (peer->nacks < SV_CTRL_ACKS)
        return SELVAGE_SUCCESS;
    sv_ctrl_header_t header = {.kind = SV_CTRL_ACK};
    memcpy(header.value, peer->acks, sizeof peer->acks);
    peer->nacks = 0;
    return sv_ctrl_send_header(engine, rank, &header);
}

selvage_status_t sv_ctrl_consumed(sv_message_engine_t *engine, sv_ctrl_desc_t *desc)
{
    const int source = desc->header->source;
    const uint64_t number = desc->header->number;
    const bool from_wire = desc->from_wire;
    sv_ctrl_free(engine, desc);
    return from_wire ? sv_ctrl_ack(engine, source, number) : SELVAGE_SUCCESS;
}

/* --- in ----------------------------------------------------------------------------------------------------------- */

static selvage_status_t post_receive(sv_message_engine_t *engine, unsigned slot)
{
    sv_ctrl_desc_t *desc;
    SV_TRY(sv_ctrl_alloc(engine, false, &desc));
    selvage_status_t status = sv_wire_recv(engine->wire, SV_WIRE_MESSAGE, desc->header, engine->desc_bytes,
                                           SV_WIRE_ANY_SOURCE, CTRL_TAG, &desc->request);
    if (status != SELVAGE_SUCCESS) {
        sv_ctrl_free(engine, desc);
        return status;
    }
    engine->ring.desc[slot] = desc;
    return SELVAGE_SUCCESS;
}

bool sv_ctrl_is_valid(const sv_message_engine_t *engine, const sv_ctrl_header_t *header)
{
    return header->check == header_check(engine, header, engine->wire->rank) &&
           sv_ctrl_bytes(header) <= engine->desc_bytes && header->source >= 0 && header->source < engine->wire->size;
}

/* Takes what is new. A repeat, or a control message that only acknowledges, moves nothing and so puts no deadline
   off. */
static selvage_status_t take_ctrl(sv_message_engine_t *engine, sv_ctrl_desc_t *desc, bool *moved)
{
    const int source = desc->header->source;
    sv_ctrl_desc_t *copy;
    sv_message_peer_t *peer;
    bool is_new = false;
    selvage_status_t status = sv_message_peer(engine, source, &peer);
    if (status == SELVAGE_SUCCESS)
        status = sv_unacked_receive(engine, peer, desc->header, &is_new);
    if (!is_new) {
        sv_ctrl_free(engine, desc);
        return status;
    }
    *moved = true;
    SV_TRY(sv_shm_advertise(engine, source));
    /* A control message alone may lie here for long, before a receive matches it. So it moves to a descriptor that has
       no room for a payload. */
    if (sv_ctrl_is_header_only(desc->header) && sv_ctrl_alloc(engine, true, &copy) == SELVAGE_SUCCESS) {
        *copy->header = *desc->header;
        copy->from_wire = desc->from_wire;
        sv_ctrl_free(engine, desc);
        desc = copy;
    }
    return sv_message_arrive(engine, desc);
}

/* The receive in this place from the oldest on, if it is filled, is posted anew as the youngest. */
static selvage_status_t poll_ring_slot(sv_message_engine_t *engine, unsigned newer, bool *moved)
{
    const unsigned head = engine->ring.head;
    sv_ctrl_desc_t *desc = engine->ring.desc[(head + newer) % SV_CTRL_RING];
    size_t bytes = 0;
    SV_TRY(sv_wire_test(engine->wire, &desc->request, &bytes));
    for (unsigned i = newer; i > 0; i--)
        engine->ring.desc[(head + i) % SV_CTRL_RING] = engine->ring.desc[(head + i - 1) % SV_CTRL_RING];
    engine->ring.desc[head] = NULL;
    SV_TRY(post_receive(engine, head));
    engine->ring.head = (head + 1) % SV_CTRL_RING;
    const sv_ctrl_header_t *header = desc->header;
    desc->from_wire = header->kind == SV_CTRL_EAGER;
    if (bytes >= sizeof *header && sv_ctrl_is_valid(engine, header) && bytes == sv_ctrl_bytes(header) &&
        (header->kind != SV_CTRL_EAGER || header->value[0] == 0)) /* else its bytes would be in a slot */
        return take_ctrl(engine, desc, moved);
    sv_log(SV_LOG_WARN, "message",
           "a control message of %zu bytes came that does not verify; its sender sends it again", bytes);
    sv_ctrl_free(engine, desc);
    return SELVAGE_SUCCESS;
}

/* The oldest receive is the next to be filled, unless the wire is in the middle of it and its sender stands still. Then
   those after it may be filled before, and are polled now and then. */
static selvage_status_t poll_ring(sv_message_engine_t *engine, bool *moved)
{
    enum { STUCK_POLLS = 4096 }; /* each look lets MPI do all that it has to do, and takes up to a microsecond */
    selvage_status_t status = SELVAGE_SUCCESS;
    for (unsigned i = 0; i < SV_CTRL_RING && !engine->ring.posted && status == SELVAGE_SUCCESS; i++)
        status = post_receive(engine, i);
    engine->ring.posted |= status == SELVAGE_SUCCESS;
    for (int i = 0; i < CTRL_PER_POLL && status == SELVAGE_SUCCESS; i++) {
        status = poll_ring_slot(engine, 0, moved);
        if (status == SELVAGE_SUCCESS)
            engine->ring.polls = 0;
    }
    if (status != SELVAGE_IN_PROGRESS || ++engine->ring.polls % STUCK_POLLS != 0)
        return status == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : status;
    for (unsigned newer = 1; newer < SV_CTRL_RING; newer++) {
        status = poll_ring_slot(engine, newer, moved);
        if (status != SELVAGE_SUCCESS && status != SELVAGE_IN_PROGRESS)
            return status;
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t poll_loopback(sv_message_engine_t *engine, bool *moved)
{
    for (int i = 0; i < CTRL_PER_POLL && !sv_list_is_empty(&engine->loopback); i++) {
        sv_ctrl_desc_t *desc = SV_CONTAINER_OF(engine->loopback.next, sv_ctrl_desc_t, link);
        sv_list_remove(&desc->link);
        *moved = true;
        SV_TRY(sv_message_arrive(engine, desc));
    }
    return SELVAGE_SUCCESS;
}

/* --- out ---------------------------------------------------------------------------------------------------------- */

/* A send that has left is no progress: repeats and acknowledgements leave, too, and must not put a deadline off. */
static selvage_status_t reap_sends(sv_message_engine_t *engine)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &engine->in_flight)
    {
        sv_ctrl_desc_t *desc = SV_CONTAINER_OF(it, sv_ctrl_desc_t, link);
        selvage_status_t status = sv_wire_test(engine->wire, &desc->request, NULL);
        if (status == SELVAGE_IN_PROGRESS)
            continue;
        SV_TRY(status);
        desc->in_flight = false;
        if (desc->corrupted)
            sv_ctrl_payload(desc)[desc->corrupted - 1] ^= 1;
        desc->corrupted = 0;
        if (desc->retained || desc->unacked)
            sv_list_remove(&desc->link);
        else
            sv_ctrl_free(engine, desc);
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_ctrl_poll(sv_message_engine_t *engine, bool *moved)
{
    enum { TURNS = 4 };
    SV_TRY(sv_shm_poll(engine, moved));
    /* A query to the wire takes longer than all polls of shared segments, and control messages of the node do not come
       by it. Where nothing is open, polls may be rare. */
    if (sv_list_is_empty(&engine->shm_peers) || !engine->ring.posted || engine->open == 0 ||
        engine->polls++ % TURNS == 0)
        SV_TRY(poll_ring(engine, moved));
    SV_TRY(poll_loopback(engine, moved));
    SV_TRY(reap_sends(engine));
    return sv_unacked_poll(engine);
}

void sv_ctrl_cancel(sv_message_engine_t *engine)
{
    sv_list_t *it, *safe;
    /* Youngest first: a late control message must not move into a receive that was just about to be withdrawn. */
    for (unsigned i = SV_CTRL_RING; i-- > 0;) {
        sv_ctrl_desc_t *desc = engine->ring.desc[(engine->ring.head + i) % SV_CTRL_RING];
        if (desc && sv_wire_cancel(engine->wire, &desc->request) != SELVAGE_SUCCESS)
            engine->quarantined = true;
        if (desc)
            desc->withdrawn = true;
        engine->ring.desc[(engine->ring.head + i) % SV_CTRL_RING] = NULL;
    }
    SV_LIST_FOR_EACH(it, safe, &engine->in_flight)
    {
        sv_ctrl_desc_t *desc = SV_CONTAINER_OF(it, sv_ctrl_desc_t, link);
        if (sv_wire_cancel(engine->wire, &desc->request) != SELVAGE_SUCCESS)
            engine->quarantined = true;
        desc->in_flight = false;
        desc->withdrawn = true;
        sv_list_remove(&desc->link);
    }
}

/* --- what is left to do ------------------------------------------------------------------------------------------- */

/* Retired requests are not open: what was lent to them is looked after at the end. */
bool sv_message_has_work(const sv_message_engine_t *engine)
{
    return engine->broken == SELVAGE_SUCCESS &&
           (engine->open > 0 || !sv_list_is_empty(&engine->in_flight) || !sv_list_is_empty(&engine->loopback) ||
            !sv_list_is_empty(&engine->unacked.peers) || !sv_list_is_empty(&engine->unacked.ack_due));
}

bool sv_message_is_idle(sv_message_engine_t *engine)
{
    if (pthread_mutex_trylock(&engine->lock) != 0)
        return false;
    const bool idle = !sv_message_has_work(engine);
    pthread_mutex_unlock(&engine->lock);
    return idle;
}
