/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages in pieces over the wire, by the verbs of transfer_slot.h. A piece of device memory goes through a slot
 * with a staging buffer; of host memory the wire itself reads or writes. Pieces are sent and taken in order, with a tag
 * that is the receiver's request and attempt, so that they need no heads. One that the wire loses moves those after it
 * up, and the last one never comes. One that comes twice moves them down, and is longer than the last one may be, which
 * is therefore never received where only that has room. The digest finds both.
 *
 *   next      pieces begun: copied down, or receives posted
 *   issued    pieces given to the wire, or come by it
 *   finished  pieces over: they have left, or they are in place
 */
#include <string.h>

#include "base/base_clock.h"
#include "message/message_engine.h"
#include "message/message_pool.h"

static size_t piece_offset(const selvage_request_t *request, uint32_t piece)
{
    return sv_segment_offset(piece, request->engine->segment_bytes);
}

static size_t piece_bytes(const selvage_request_t *request, uint32_t piece)
{
    return sv_segment_length(piece, request->engine->segment_bytes, (size_t)request->bytes);
}

static sv_slot_t *piece_slot(selvage_request_t *request, uint32_t piece)
{
    return &request->staged.window->slot[piece % request->staged.nslots];
}

/* What a use of the request or an attempt has left under way, the next ones are not to take for theirs. */
static sv_wire_path_t path_of_pieces(const selvage_request_t *request)
{
    enum { EIGHT_BITS = 3, WIDE_MAX = 1 << 26, MIDDLE_MAX = 1 << 22 };
    const uint64_t recv_id = request->is_send ? request->other_id : sv_message_id(request);
    const uint32_t tag_max = (uint32_t)request->engine->wire->tag_max, index = (uint32_t)recv_id;
    const uint32_t attempt = request->attempt % 8, use = (uint32_t)(recv_id >> 33) % 8; /* two generations a use */
    int tag = (int)(1 + index % tag_max); /* 0 is that of control messages */
    if (tag_max >= WIDE_MAX)
        tag = (int)(1 + (index % (tag_max >> 2 * EIGHT_BITS) << 2 * EIGHT_BITS | use << EIGHT_BITS | attempt));
    else if (tag_max >= MIDDLE_MAX)
        tag = (int)(1 + (index % (tag_max >> EIGHT_BITS) << EIGHT_BITS | attempt));
    return (sv_wire_path_t){.wire = request->engine->wire, .channel = SV_WIRE_MESSAGE, .peer = request->peer,
                            .tag = tag};
}

/* As many as there are, and at least one: else the status says why. */
static selvage_status_t take_slots(selvage_request_t *request, uint32_t wanted)
{
    sv_request_staged_t *staged = &request->staged;
    sv_message_window_t *window = staged->window;
    for (; staged->nslots < wanted; staged->nslots++) {
        sv_pinned_t *chunk = NULL;
        selvage_status_t status = SELVAGE_SUCCESS;
        if (request->place.on_device)
            status = sv_message_take_chunk(request->engine, request->is_send, staged->nslots == 0, &chunk);
        if (status != SELVAGE_SUCCESS)
            return staged->nslots > 0 ? SELVAGE_SUCCESS : status;
        /* A word has stamps of the line's earlier uses: those of this one are greater. */
        window->slot[staged->nslots] = (sv_slot_t){.stage = chunk ? chunk->bytes : NULL,
                                                   .word = &request->line->word[staged->nslots],
                                                   .stamp = ++request->engine->stamps << 32};
        window->chunk[staged->nslots] = chunk;
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_message_pieces_begin(selvage_request_t *request)
{
    sv_message_engine_t *engine = request->engine;
    const uint64_t pieces = (request->bytes + engine->segment_bytes - 1) / engine->segment_bytes;
    const uint32_t wanted = pieces < SV_MESSAGE_WINDOW ? (uint32_t)pieces : SV_MESSAGE_WINDOW;
    const bool few = !request->is_send && request->place.on_device && !sv_message_has_chunks(engine, false);
    request->staged.npieces = (uint32_t)pieces;
    request->staged.next = request->staged.issued = request->staged.finished = request->staged.nslots = 0;
    request->staged.sum = 0;
    request->lacks = request->place.on_device ? SV_LACKS_CHUNK : SV_LACKS_TURN;
    if (sv_message_left(engine, request->is_send, request->lacks) == 0)
        return SELVAGE_IN_PROGRESS;
    SV_TRY(sv_message_take_window(request));
    const selvage_status_t status = take_slots(request, few ? 1 : wanted);
    if (status != SELVAGE_SUCCESS) {
        sv_message_put_window(request);
        return status;
    }
    request->staged.by_host = !request->place.on_device;
    engine->pieces.host_transfers[request->is_send] += request->staged.by_host;
    request->lacks = SV_LACKS_NOTHING;
    return SELVAGE_SUCCESS;
}

/* The wire may be at the memory of what it does not give back: that is nobody else's from then on. */
static void set_chunk_aside(selvage_request_t *request, sv_pinned_t **chunk)
{
    request->engine->quarantined = true;
    request->stuck |= !*chunk;
    if (*chunk)
        sv_pinned_retire(&request->engine->pieces.pool[request->is_send], *chunk);
    *chunk = NULL;
}

void sv_message_pieces_withdraw(selvage_request_t *request)
{
    for (uint32_t i = 0; i < request->staged.nslots; i++) {
        sv_slot_t *slot = &request->staged.window->slot[i];
        const bool on_wire = slot->state == SV_SLOT_IN_FLIGHT || slot->state == SV_SLOT_POSTED;
        if (on_wire && sv_slot_cancel(slot, request->engine->wire) != SELVAGE_SUCCESS) {
            if (request->eager.chunk) /* a last piece may be in it */
                set_chunk_aside(request, &request->eager.chunk);
            set_chunk_aside(request, &request->staged.window->chunk[i]);
            slot->state = SV_SLOT_FREE;
        }
    }
}

void sv_message_pieces_end(selvage_request_t *request)
{
    sv_message_pieces_withdraw(request);
    for (uint32_t i = 0; i < request->staged.nslots; i++)
        if (request->staged.window->chunk[i])
            sv_message_put_chunk(request, request->staged.window->chunk[i]);
    sv_message_put_window(request);
    request->staged.nslots = 0;
    request->engine->pieces.host_transfers[request->is_send] -= request->staged.by_host;
    request->staged.by_host = false;
}

/* --- out ---------------------------------------------------------------------------------------------------------- */

static selvage_status_t send_piece(selvage_request_t *send, uint32_t number, const uint8_t *data)
{
    const sv_wire_path_t path = path_of_pieces(send);
    SV_TRY(sv_slot_send(piece_slot(send, number), &path, data, piece_bytes(send, number)));
    send->staged.issued = number + 1;
    return SELVAGE_SUCCESS;
}

/* Copies a piece of device memory down; or sums and sends one of host memory. */
static selvage_status_t begin_piece_send(selvage_request_t *send)
{
    sv_message_engine_t *engine = send->engine;
    const uint32_t number = send->staged.next++;
    const uint8_t *data = send->place.data + piece_offset(send, number);
    if (send->place.on_device) {
        const sv_copy_lane_t lane = {.dev = engine->dev, .stream = engine->streams.out};
        return sv_slot_stage(piece_slot(send, number), &lane, data, piece_bytes(send, number));
    }
    if (sv_message_checks(engine))
        send->staged.sum += sv_digest_sum(send->key, piece_offset(send, number) / 8, data, piece_bytes(send, number));
    return send_piece(send, number, data);
}

selvage_status_t sv_message_pieces_send(selvage_request_t *send, bool *moved)
{
    sv_request_staged_t *staged = &send->staged;
    /* 1. What has come down leaves. */
    while (send->place.on_device && staged->issued < staged->next &&
           sv_slot_is_copied(piece_slot(send, staged->issued))) {
        uint8_t *pinned = piece_slot(send, staged->issued)->stage;
        if (send->corrupted) /* a fault of a test's: a byte of the message is changed on its way */
            *pinned ^= 1;
        send->corrupted = false;
        SV_TRY(send_piece(send, staged->issued, pinned));
        *moved = true;
    }
    /* 2. What has left makes room. */
    for (uint32_t i = 0; i < staged->nslots; i++) {
        sv_slot_t *slot = &staged->window->slot[i];
        if (slot->state != SV_SLOT_IN_FLIGHT)
            continue;
        selvage_status_t status = sv_slot_test(slot, send->engine->wire, NULL);
        if (status == SELVAGE_IN_PROGRESS)
            continue;
        SV_TRY(status);
        staged->finished++;
        *moved = true;
    }
    /* 3. The next ones begin. */
    while (staged->next < staged->npieces && piece_slot(send, staged->next)->state == SV_SLOT_FREE) {
        SV_TRY(begin_piece_send(send));
        *moved = true;
    }
    return staged->finished == staged->npieces ? SELVAGE_SUCCESS : SELVAGE_IN_PROGRESS;
}

/* --- in ----------------------------------------------------------------------------------------------------------- */

/* A last piece for host memory, which is shorter than others; alone, if it costs little to move it twice. */
static bool is_tail(const selvage_request_t *recv, uint32_t number)
{
    enum { LITTLE_BYTES = 1 << 16 };
    return !recv->place.on_device && number + 1 == recv->staged.npieces &&
           piece_bytes(recv, number) < recv->engine->segment_bytes && (number > 0 || recv->bytes <= LITTLE_BYTES);
}

/* Posts the receive of the next piece, if there is room for it. */
static selvage_status_t expect_piece(selvage_request_t *recv, bool *expected_out)
{
    const uint32_t number = recv->staged.next;
    *expected_out = false;
    if (number == recv->staged.npieces || piece_slot(recv, number)->state != SV_SLOT_FREE)
        return SELVAGE_SUCCESS;
    const bool tail = is_tail(recv, number);
    if (tail && !recv->eager.chunk) {
        const selvage_status_t status = sv_message_take_chunk(recv->engine, false, true, &recv->eager.chunk);
        if (status != SELVAGE_SUCCESS)
            return status == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : status;
    }
    /* As much as any piece fits there, so that a wrong one is damage and not cut. */
    const sv_wire_path_t path = path_of_pieces(recv);
    sv_slot_t *slot = piece_slot(recv, number);
    uint8_t *stage = tail ? recv->eager.chunk->bytes : slot->stage;
    const size_t capacity = stage ? recv->engine->segment_bytes : piece_bytes(recv, number);
    recv->staged.next++;
    SV_TRY(sv_slot_post(slot, &path, stage ? stage : recv->place.data + piece_offset(recv, number), capacity));
    *expected_out = true;
    return SELVAGE_SUCCESS;
}

/* A piece has come: of device memory it is copied up; of host memory it is summed, and in place. */
static selvage_status_t take_piece(selvage_request_t *recv, uint32_t number, size_t bytes)
{
    sv_message_engine_t *engine = recv->engine;
    const size_t wanted_bytes = piece_bytes(recv, number);
    uint8_t *place = recv->place.data + piece_offset(recv, number);
    uint8_t *stage = is_tail(recv, number) && recv->eager.chunk ? recv->eager.chunk->bytes
                                                               : piece_slot(recv, number)->stage;
    if (bytes != wanted_bytes && !sv_message_checks(engine)) /* nobody else finds it */
        return sv_error(SELVAGE_ERR_MISMATCH, "piece %u of message %llu from rank %d came with %zu bytes; wanted %zu",
                        number, (unsigned long long)recv->number, recv->peer, bytes, wanted_bytes);
    if (bytes < wanted_bytes && stage) /* damaged, as its digest will say: nobody is to see what lay there before */
        memset(stage + bytes, 0, wanted_bytes - bytes);
    if (recv->place.on_device) {
        const sv_copy_lane_t lane = {.dev = engine->dev, .stream = engine->streams.in};
        SV_TRY(sv_slot_unstage(piece_slot(recv, number), &lane, place, wanted_bytes, SV_COPY_H2D));
        return sv_slot_mark(piece_slot(recv, number), &lane);
    }
    if (is_tail(recv, number) && recv->eager.chunk)
        memcpy(place, recv->eager.chunk->bytes, wanted_bytes);
    if (sv_message_checks(engine))
        recv->staged.sum += sv_digest_sum(recv->key, piece_offset(recv, number) / 8, place, wanted_bytes);
    recv->staged.finished++;
    return SELVAGE_SUCCESS;
}

/* Only time in which this rank looks counts, so that one that computes for a while, or was stopped, loses nothing. Who
   is not to ask again waits for what may only be late. */
bool sv_message_pieces_are_lost(selvage_request_t *recv, bool moved)
{
    enum { QUIET_NS = 500000000, A_LOOK_NS = 1000000, DOUBLED_MOST = 10 };
    sv_request_staged_t *staged = &recv->staged;
    if (!staged->record_here || staged->finished < staged->issued || recv->engine->policy != SV_CONFIG_CHECKSUM_RETRY)
        return false;
    const uint64_t now_ns = sv_clock_ns(), since_ns = now_ns - staged->silent_polled_ns;
    const unsigned doubled = staged->losses < DOUBLED_MOST ? staged->losses : DOUBLED_MOST;
    staged->silent_polled_ns = now_ns;
    staged->silent_ns = moved ? 0 : staged->silent_ns + (since_ns < A_LOOK_NS ? since_ns : A_LOOK_NS);
    return staged->silent_ns > (uint64_t)QUIET_NS << doubled;
}

/* The youngest first: what the wire has matched are the oldest. */
bool sv_message_pieces_take_back(selvage_request_t *recv)
{
    recv->staged.silent_ns = 0;
    for (; recv->staged.next > recv->staged.issued; recv->staged.next--) {
        if (sv_slot_cancel(piece_slot(recv, recv->staged.next - 1), recv->engine->wire) != SELVAGE_SUCCESS)
            return false;
    }
    return true;
}

selvage_status_t sv_message_pieces_recv(selvage_request_t *recv, bool *moved)
{
    sv_request_staged_t *staged = &recv->staged;
    /* 1. What has come goes to its place. */
    while (staged->issued < staged->next) {
        size_t bytes = 0;
        selvage_status_t status = sv_slot_test(piece_slot(recv, staged->issued), recv->engine->wire, &bytes);
        if (status == SELVAGE_IN_PROGRESS)
            break;
        SV_TRY(status);
        *moved = true;
        SV_TRY(take_piece(recv, staged->issued++, bytes));
    }
    /* 2. What is in its place makes room. */
    for (uint32_t i = 0; i < staged->nslots; i++) {
        if (staged->window->slot[i].state != SV_SLOT_UNSTAGING || !sv_slot_is_copied(&staged->window->slot[i]))
            continue;
        staged->window->slot[i].state = SV_SLOT_FREE;
        staged->finished++;
        *moved = true;
    }
    /* 3. A receive whose sender was not there yet, since its stream was not, was not to hold what others need: where
       little is left it began with one chunk, and takes more when the first piece has come. No other one is under way
       then. */
    if (recv->place.on_device && staged->nslots == 1 && staged->issued == 1 && staged->next == 1)
        (void)take_slots(recv, staged->npieces < SV_MESSAGE_WINDOW ? staged->npieces : SV_MESSAGE_WINDOW);
    /* 4. The next ones are expected. */
    bool expected = true;
    while (expected)
        SV_TRY(expect_piece(recv, &expected));
    return staged->finished == staged->npieces ? SELVAGE_SUCCESS : SELVAGE_IN_PROGRESS;
}
