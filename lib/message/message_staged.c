/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages in pieces over the wire. A piece of device memory goes through a chunk of pinned memory, to and fro by
 * copy engines, with a word behind each copy; of host memory the wire itself reads or writes. Pieces are sent and taken
 * in order, with a tag that is the receiver's request, so that they need no heads.
 *
 *   next    pieces begun: copied down, or receives posted
 *   fired   pieces given to the wire, or come by it
 *   landed  pieces over: they have left, or they are in place
 */
#include "message/message_engine.h"

static size_t offset_of(const selvage_request_t *request, uint32_t piece)
{
    return (size_t)piece * request->engine->segment_bytes;
}

static size_t bytes_of(const selvage_request_t *request, uint32_t piece)
{
    const uint64_t left = request->bytes - offset_of(request, piece);
    return left < request->engine->segment_bytes ? (size_t)left : request->engine->segment_bytes;
}

static sv_message_piece_t *piece_at(selvage_request_t *request, uint32_t piece)
{
    return &request->piece[piece % request->nslots];
}

static int tag_of(const selvage_request_t *request)
{
    const uint64_t recv_id = request->is_send ? request->other_id : sv_message_id(request);
    return (int)(uint32_t)recv_id + 1; /* 0 is that of letters */
}

bool sv_message_pieces_begin(selvage_request_t *request)
{
    sv_message_engine_t *engine = request->engine;
    const uint64_t pieces = (request->bytes + engine->segment_bytes - 1) / engine->segment_bytes;
    const uint32_t wanted = pieces < SV_MESSAGE_WINDOW ? (uint32_t)pieces : SV_MESSAGE_WINDOW;
    request->npieces = (uint32_t)pieces;
    request->next = request->fired = request->landed = request->nslots = 0;
    request->sum = 0;
    for (; request->nslots < wanted; request->nslots++) {
        sv_message_piece_t *piece = &request->piece[request->nslots];
        *piece = (sv_message_piece_t){.state = SV_PIECE_FREE};
        if (request->place.on_device && !(piece->chunk = sv_message_take_chunk(engine, request->is_send)))
            break;
    }
    return request->nslots > 0;
}

void sv_message_pieces_end(selvage_request_t *request)
{
    sv_message_engine_t *engine = request->engine;
    for (uint32_t i = 0; i < request->nslots; i++) {
        sv_message_piece_t *piece = &request->piece[i];
        if (piece->state == SV_PIECE_FLYING && sv_wire_cancel(engine->wire, &piece->request) != SELVAGE_SUCCESS)
            engine->quarantined = true;
        if (piece->chunk)
            sv_message_put_chunk(request, piece->chunk);
    }
    request->nslots = 0;
}

void sv_message_pieces_withdraw(selvage_request_t *recv)
{
    for (uint32_t i = 0; i < recv->nslots; i++) {
        sv_message_piece_t *piece = &recv->piece[i];
        if (piece->state != SV_PIECE_FLYING)
            continue;
        const bool quiet = sv_wire_cancel(recv->engine->wire, &piece->request) == SELVAGE_SUCCESS;
        recv->engine->quarantined |= !quiet;
        recv->stuck |= !quiet && !piece->chunk;
        piece->state = SV_PIECE_FREE;
    }
}

/* Behind a copy of the piece in this place. */
static selvage_status_t mark(selvage_request_t *request, uint32_t number, void *stream)
{
    sv_message_piece_t *piece = piece_at(request, number);
    piece->stamp = ++request->engine->stamps;
    piece->state = SV_PIECE_COPYING;
    /* Partner: the acquire in is_through(). */
    return SV_DEVICE_CALL(request->engine->dev, signal_async, &request->line->word[number % request->nslots],
                          piece->stamp, stream);
}

static bool is_through(const selvage_request_t *request, uint32_t number)
{
    const uint32_t slot = number % request->nslots;
    return sv_word_is(&request->line->word[slot], request->piece[slot].stamp);
}

/* --- out ---------------------------------------------------------------------------------------------------------- */

static selvage_status_t fire(selvage_request_t *send, uint32_t number, const uint8_t *data)
{
    sv_message_piece_t *piece = piece_at(send, number);
    SV_TRY(sv_wire_send(send->engine->wire, SV_WIRE_MESSAGE, data, bytes_of(send, number), send->peer, tag_of(send),
                        &piece->request));
    piece->state = SV_PIECE_FLYING;
    send->fired = number + 1;
    return SELVAGE_SUCCESS;
}

static selvage_status_t begin_copy_down(selvage_request_t *send, uint32_t number)
{
    sv_message_engine_t *engine = send->engine;
    SV_TRY(SV_DEVICE_CALL(engine->dev, copy_async, piece_at(send, number)->chunk->pinned,
                          send->place.data + offset_of(send, number), bytes_of(send, number), SV_COPY_D2H,
                          engine->out_stream));
    return mark(send, number, engine->out_stream);
}

static selvage_status_t begin_send(selvage_request_t *send)
{
    const uint32_t number = send->next++;
    const uint8_t *data = send->place.data + offset_of(send, number);
    if (send->place.on_device)
        return begin_copy_down(send, number);
    if (sv_message_checks(send->engine))
        send->sum += sv_digest_sum(send->key, offset_of(send, number) / 8, data, bytes_of(send, number));
    return fire(send, number, data);
}

/* A fault of a test's: a byte of the message is changed on its way. */
static void hurt(selvage_request_t *send)
{
    if (send->hurt)
        *piece_at(send, send->fired)->chunk->pinned ^= 1;
    send->hurt = false;
}

static selvage_status_t fire_what_is_full(selvage_request_t *send, bool *moved)
{
    while (send->place.on_device && send->fired < send->next && is_through(send, send->fired)) {
        hurt(send);
        SV_TRY(fire(send, send->fired, piece_at(send, send->fired)->chunk->pinned));
        *moved = true;
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t reap(selvage_request_t *send, bool *moved)
{
    for (uint32_t i = 0; i < send->nslots; i++) {
        sv_message_piece_t *piece = &send->piece[i];
        if (piece->state != SV_PIECE_FLYING)
            continue;
        selvage_status_t status = sv_wire_test(send->engine->wire, &piece->request, NULL);
        if (status == SELVAGE_IN_PROGRESS)
            continue;
        SV_TRY(status);
        piece->state = SV_PIECE_FREE;
        send->landed++;
        *moved = true;
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_message_pieces_send(selvage_request_t *send, bool *moved)
{
    SV_TRY(fire_what_is_full(send, moved));
    SV_TRY(reap(send, moved));
    while (send->next < send->npieces && piece_at(send, send->next)->state == SV_PIECE_FREE) {
        SV_TRY(begin_send(send));
        *moved = true;
    }
    return send->landed == send->npieces ? SELVAGE_SUCCESS : SELVAGE_IN_PROGRESS;
}

/* --- in ----------------------------------------------------------------------------------------------------------- */

static selvage_status_t expect(selvage_request_t *recv)
{
    const uint32_t number = recv->next++;
    sv_message_piece_t *piece = piece_at(recv, number);
    uint8_t *to = piece->chunk ? piece->chunk->pinned : recv->place.data + offset_of(recv, number);
    SV_TRY(sv_wire_recv(recv->engine->wire, SV_WIRE_MESSAGE, to, bytes_of(recv, number), recv->peer, tag_of(recv),
                        &piece->request));
    piece->state = SV_PIECE_FLYING;
    return SELVAGE_SUCCESS;
}

static selvage_status_t begin_copy_up(selvage_request_t *recv, uint32_t number)
{
    sv_message_engine_t *engine = recv->engine;
    SV_TRY(SV_DEVICE_CALL(engine->dev, copy_async, recv->place.data + offset_of(recv, number),
                          piece_at(recv, number)->chunk->pinned, bytes_of(recv, number), SV_COPY_H2D,
                          engine->in_stream));
    return mark(recv, number, engine->in_stream);
}

static void sum_up(selvage_request_t *recv, uint32_t number)
{
    if (sv_message_checks(recv->engine))
        recv->sum += sv_digest_sum(recv->key, offset_of(recv, number) / 8, recv->place.data + offset_of(recv, number),
                                   bytes_of(recv, number));
    piece_at(recv, number)->state = SV_PIECE_FREE;
    recv->landed++;
}

static selvage_status_t take_what_came(selvage_request_t *recv, bool *moved)
{
    while (recv->fired < recv->next) {
        size_t bytes = 0;
        selvage_status_t status = sv_wire_test(recv->engine->wire, &piece_at(recv, recv->fired)->request, &bytes);
        if (status == SELVAGE_IN_PROGRESS)
            break;
        SV_TRY(status);
        const uint32_t number = recv->fired++;
        *moved = true;
        if (recv->place.on_device)
            SV_TRY(begin_copy_up(recv, number));
        else
            sum_up(recv, number);
    }
    return SELVAGE_SUCCESS;
}

static void free_what_landed(selvage_request_t *recv, bool *moved)
{
    for (uint32_t i = 0; i < recv->nslots; i++) {
        sv_message_piece_t *piece = &recv->piece[i];
        if (piece->state != SV_PIECE_COPYING || !is_through(recv, i))
            continue;
        piece->state = SV_PIECE_FREE;
        recv->landed++;
        *moved = true;
    }
}

selvage_status_t sv_message_pieces_recv(selvage_request_t *recv, bool *moved)
{
    SV_TRY(take_what_came(recv, moved));
    free_what_landed(recv, moved);
    while (recv->next < recv->npieces && piece_at(recv, recv->next)->state == SV_PIECE_FREE)
        SV_TRY(expect(recv));
    return recv->landed == recv->npieces ? SELVAGE_SUCCESS : SELVAGE_IN_PROGRESS;
}
