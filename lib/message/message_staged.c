/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages in pieces over the wire. A piece of device memory goes through a chunk of pinned memory, to and fro by
 * copy engines, with a word after each copy; of host memory the wire itself reads or writes. Pieces are sent and taken
 * in order, with a tag that is the receiver's request and attempt, so that they need no heads. One that the wire loses
 * moves those after it up, and the last one never comes; one that comes twice moves them down, and is longer than the
 * last one may be, which is therefore never received where only that has room. The digest finds both.
 *
 *   next    pieces begun: copied down, or receives posted
 *   fired   pieces given to the wire, or come by it
 *   landed  pieces over: they have left, or they are in place
 */
#include <string.h>

#include "base/base_clock.h"
#include "message/message_engine.h"
#include "message/message_pool.h"

static size_t piece_offset(const selvage_request_t *request, uint32_t piece)
{
    return (size_t)piece * request->engine->segment_bytes;
}

static size_t piece_bytes(const selvage_request_t *request, uint32_t piece)
{
    const uint64_t left = request->bytes - piece_offset(request, piece);
    return left < request->engine->segment_bytes ? (size_t)left : request->engine->segment_bytes;
}

static sv_message_piece_t *piece_slot(selvage_request_t *request, uint32_t piece)
{
    return &request->piece[piece % request->nslots];
}

/* What a use of the request or an attempt has left under way, the next ones are not to take for theirs. */
static int pieces_tag(const selvage_request_t *request)
{
    enum { EIGHT_BITS = 3, WIDE_MAX = 1 << 26, MIDDLE_MAX = 1 << 22 };
    const uint64_t recv_id = request->is_send ? request->other_id : sv_message_id(request);
    const uint32_t tag_max = (uint32_t)request->engine->wire->tag_max, index = (uint32_t)recv_id;
    const uint32_t attempt = request->attempt % 8, use = (uint32_t)(recv_id >> 33) % 8; /* two generations a use */
    if (tag_max >= WIDE_MAX)
        return (int)(1 + (index % (tag_max >> 2 * EIGHT_BITS) << 2 * EIGHT_BITS | use << EIGHT_BITS | attempt));
    if (tag_max >= MIDDLE_MAX)
        return (int)(1 + (index % (tag_max >> EIGHT_BITS) << EIGHT_BITS | attempt));
    return (int)(1 + index % tag_max); /* 0 is that of control messages */
}

static void take_chunks(selvage_request_t *request, uint32_t wanted)
{
    for (; request->nslots < wanted; request->nslots++) {
        sv_message_piece_t *piece = &request->piece[request->nslots];
        *piece = (sv_message_piece_t){.state = SV_PIECE_FREE};
        if (request->place.on_device &&
            !(piece->chunk = sv_message_take_chunk(request->engine, request->is_send, request->nslots == 0)))
            break;
    }
}

/* A receive whose sender is not there yet, since its stream is not, is not to hold what others need: where little is
   left it begins with one chunk, and takes more when the first piece has come. No other one is under way then. */
static void take_more_chunks(selvage_request_t *recv)
{
    if (recv->nslots == 1 && recv->issued == 1 && recv->next == 1)
        take_chunks(recv, recv->npieces < SV_MESSAGE_WINDOW ? recv->npieces : SV_MESSAGE_WINDOW);
}

bool sv_message_pieces_begin(selvage_request_t *request)
{
    sv_message_engine_t *engine = request->engine;
    const uint64_t pieces = (request->bytes + engine->segment_bytes - 1) / engine->segment_bytes;
    const uint32_t wanted = pieces < SV_MESSAGE_WINDOW ? (uint32_t)pieces : SV_MESSAGE_WINDOW;
    const bool few = !request->is_send && request->place.on_device && !sv_message_has_chunks(engine, false);
    request->npieces = (uint32_t)pieces;
    request->next = request->issued = request->finished = request->nslots = 0;
    request->sum = 0;
    request->lacks = request->place.on_device ? SV_LACKS_CHUNK : SV_LACKS_TURN;
    if (sv_message_left(engine, request->is_send, request->lacks) == 0)
        return false;
    take_chunks(request, few ? 1 : wanted);
    if (request->nslots == 0) /* no memory */
        return false;
    request->in_pieces_by_host = !request->place.on_device;
    engine->host_transfers[request->is_send] += request->in_pieces_by_host;
    request->lacks = SV_LACKS_NOTHING;
    return true;
}

/* The wire may be at the memory of what it does not give back: that is nobody else's from then on. */
static void set_chunk_aside(selvage_request_t *request, sv_message_chunk_t **chunk)
{
    request->engine->quarantined = true;
    request->stuck |= !*chunk;
    if (*chunk) {
        sv_list_append(&request->engine->chunk_retired, &(*chunk)->link);
        request->engine->chunks_used[request->is_send]--;
    }
    *chunk = NULL;
}

void sv_message_pieces_withdraw(selvage_request_t *request)
{
    for (uint32_t i = 0; i < request->nslots; i++) {
        sv_message_piece_t *piece = &request->piece[i];
        if (piece->state == SV_PIECE_IN_FLIGHT &&
            sv_wire_cancel(request->engine->wire, &piece->request) != SELVAGE_SUCCESS) {
            if (request->chunk) /* a last piece may be in it */
                set_chunk_aside(request, &request->chunk);
            set_chunk_aside(request, &piece->chunk);
        }
        if (piece->state == SV_PIECE_IN_FLIGHT)
            piece->state = SV_PIECE_FREE;
    }
}

void sv_message_pieces_end(selvage_request_t *request)
{
    sv_message_pieces_withdraw(request);
    for (uint32_t i = 0; i < request->nslots; i++)
        if (request->piece[i].chunk)
            sv_message_put_chunk(request, request->piece[i].chunk);
    request->nslots = 0;
    request->engine->host_transfers[request->is_send] -= request->in_pieces_by_host;
    request->in_pieces_by_host = false;
}

/* After a copy of the piece in this place. */
static selvage_status_t mark_piece(selvage_request_t *request, uint32_t number, void *stream)
{
    sv_message_piece_t *piece = piece_slot(request, number);
    piece->stamp = ++request->engine->stamps;
    piece->state = SV_PIECE_COPYING;
    /* Partner: the acquire in is_piece_copied(). */
    return SV_DEVICE_CALL(request->engine->dev, signal_async, &request->line->word[number % request->nslots],
                          piece->stamp, stream);
}

static bool is_piece_copied(const selvage_request_t *request, uint32_t number)
{
    const uint32_t slot = number % request->nslots;
    return sv_word_is(&request->line->word[slot], request->piece[slot].stamp);
}

/* --- out ---------------------------------------------------------------------------------------------------------- */

static selvage_status_t send_piece(selvage_request_t *send, uint32_t number, const uint8_t *data)
{
    sv_message_piece_t *piece = piece_slot(send, number);
    SV_TRY(sv_wire_send(send->engine->wire, SV_WIRE_MESSAGE, data, piece_bytes(send, number), send->peer,
                        pieces_tag(send), &piece->request));
    piece->state = SV_PIECE_IN_FLIGHT;
    send->issued = number + 1;
    return SELVAGE_SUCCESS;
}

static selvage_status_t begin_copy_down(selvage_request_t *send, uint32_t number)
{
    sv_message_engine_t *engine = send->engine;
    SV_TRY(SV_DEVICE_CALL(engine->dev, copy_async, piece_slot(send, number)->chunk->pinned,
                          send->place.data + piece_offset(send, number), piece_bytes(send, number), SV_COPY_D2H,
                          engine->out_stream));
    return mark_piece(send, number, engine->out_stream);
}

static selvage_status_t begin_piece_send(selvage_request_t *send)
{
    const uint32_t number = send->next++;
    const uint8_t *data = send->place.data + piece_offset(send, number);
    if (send->place.on_device)
        return begin_copy_down(send, number);
    if (sv_message_checks(send->engine))
        send->sum += sv_digest_sum(send->key, piece_offset(send, number) / 8, data, piece_bytes(send, number));
    return send_piece(send, number, data);
}

/* A fault of a test's: a byte of the message is changed on its way. */
static void corrupt_piece(selvage_request_t *send)
{
    if (send->corrupted)
        *piece_slot(send, send->issued)->chunk->pinned ^= 1;
    send->corrupted = false;
}

static selvage_status_t send_copied_pieces(selvage_request_t *send, bool *moved)
{
    while (send->place.on_device && send->issued < send->next && is_piece_copied(send, send->issued)) {
        corrupt_piece(send);
        SV_TRY(send_piece(send, send->issued, piece_slot(send, send->issued)->chunk->pinned));
        *moved = true;
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t reap_pieces(selvage_request_t *send, bool *moved)
{
    for (uint32_t i = 0; i < send->nslots; i++) {
        sv_message_piece_t *piece = &send->piece[i];
        if (piece->state != SV_PIECE_IN_FLIGHT)
            continue;
        selvage_status_t status = sv_wire_test(send->engine->wire, &piece->request, NULL);
        if (status == SELVAGE_IN_PROGRESS)
            continue;
        SV_TRY(status);
        piece->state = SV_PIECE_FREE;
        send->finished++;
        *moved = true;
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_message_pieces_send(selvage_request_t *send, bool *moved)
{
    SV_TRY(send_copied_pieces(send, moved));
    SV_TRY(reap_pieces(send, moved));
    while (send->next < send->npieces && piece_slot(send, send->next)->state == SV_PIECE_FREE) {
        SV_TRY(begin_piece_send(send));
        *moved = true;
    }
    return send->finished == send->npieces ? SELVAGE_SUCCESS : SELVAGE_IN_PROGRESS;
}

/* --- in ----------------------------------------------------------------------------------------------------------- */

/* A last piece for host memory, which is shorter than others; alone, if it costs little to move it twice. */
static bool is_tail(const selvage_request_t *recv, uint32_t number)
{
    enum { LITTLE_BYTES = 1 << 16 };
    return !recv->place.on_device && number + 1 == recv->npieces &&
           piece_bytes(recv, number) < recv->engine->segment_bytes && (number > 0 || recv->bytes <= LITTLE_BYTES);
}

/* Where a piece is received: as much as any piece has fits there, so that a wrong one is damage and not cut. */
static uint8_t *find_piece_buffer(selvage_request_t *recv, uint32_t number, size_t *capacity_out)
{
    sv_message_chunk_t *chunk = piece_slot(recv, number)->chunk;
    if (is_tail(recv, number))
        chunk = recv->chunk;
    *capacity_out = chunk ? recv->engine->segment_bytes : piece_bytes(recv, number);
    return chunk ? chunk->pinned : recv->place.data + piece_offset(recv, number);
}

static bool may_expect(selvage_request_t *recv)
{
    const uint32_t number = recv->next;
    if (number == recv->npieces || piece_slot(recv, number)->state != SV_PIECE_FREE)
        return false;
    if (is_tail(recv, number) && !recv->chunk)
        recv->chunk = sv_message_take_chunk(recv->engine, false, true);
    return !is_tail(recv, number) || recv->chunk;
}

static selvage_status_t expect_piece(selvage_request_t *recv)
{
    const uint32_t number = recv->next++;
    sv_message_piece_t *piece = piece_slot(recv, number);
    size_t capacity;
    uint8_t *to = find_piece_buffer(recv, number, &capacity);
    SV_TRY(
        sv_wire_recv(recv->engine->wire, SV_WIRE_MESSAGE, to, capacity, recv->peer, pieces_tag(recv), &piece->request));
    piece->state = SV_PIECE_IN_FLIGHT;
    return SELVAGE_SUCCESS;
}

/* Without checksums nobody else finds it. */
static selvage_status_t check_length(const selvage_request_t *recv, uint32_t number, size_t bytes)
{
    if (bytes == piece_bytes(recv, number) || sv_message_checks(recv->engine))
        return SELVAGE_SUCCESS;
    return sv_error(SELVAGE_ERR_MISMATCH, "piece %u of message %llu from rank %d came with %zu bytes; wanted %zu",
                    number, (unsigned long long)recv->number, recv->peer, bytes, piece_bytes(recv, number));
}

static selvage_status_t begin_copy_up(selvage_request_t *recv, uint32_t number)
{
    sv_message_engine_t *engine = recv->engine;
    SV_TRY(SV_DEVICE_CALL(engine->dev, copy_async, recv->place.data + piece_offset(recv, number),
                          piece_slot(recv, number)->chunk->pinned, piece_bytes(recv, number), SV_COPY_H2D,
                          engine->in_stream));
    return mark_piece(recv, number, engine->in_stream);
}

static void sum_piece(selvage_request_t *recv, uint32_t number)
{
    if (is_tail(recv, number) && recv->chunk)
        memcpy(recv->place.data + piece_offset(recv, number), recv->chunk->pinned, piece_bytes(recv, number));
    if (sv_message_checks(recv->engine))
        recv->sum += sv_digest_sum(recv->key, piece_offset(recv, number) / 8,
                                   recv->place.data + piece_offset(recv, number), piece_bytes(recv, number));
    piece_slot(recv, number)->state = SV_PIECE_FREE;
    recv->finished++;
}

static selvage_status_t take_arrived_pieces(selvage_request_t *recv, bool *moved)
{
    while (recv->issued < recv->next) {
        size_t bytes = 0;
        selvage_status_t status = sv_wire_test(recv->engine->wire, &piece_slot(recv, recv->issued)->request, &bytes);
        if (status == SELVAGE_IN_PROGRESS)
            break;
        SV_TRY(status);
        const uint32_t number = recv->issued++;
        *moved = true;
        SV_TRY(check_length(recv, number, bytes));
        if (recv->place.on_device)
            SV_TRY(begin_copy_up(recv, number));
        else
            sum_piece(recv, number);
    }
    return SELVAGE_SUCCESS;
}

static void free_finished_pieces(selvage_request_t *recv, bool *moved)
{
    for (uint32_t i = 0; i < recv->nslots; i++) {
        sv_message_piece_t *piece = &recv->piece[i];
        if (piece->state != SV_PIECE_COPYING || !is_piece_copied(recv, i))
            continue;
        piece->state = SV_PIECE_FREE;
        recv->finished++;
        *moved = true;
    }
}

/* Only time in which this rank looks counts, so that one that computes for a while, or was stopped, loses nothing. Who
   is not to ask again waits for what may only be late. */
bool sv_message_pieces_are_lost(selvage_request_t *recv, bool moved)
{
    enum { QUIET_NS = 500000000, A_LOOK_NS = 1000000, DOUBLED_MOST = 10 };
    if (!recv->record_here || recv->finished < recv->issued || recv->engine->policy != SV_CONFIG_CHECKSUM_RETRY)
        return false;
    const uint64_t now_ns = sv_clock_ns(), since_ns = now_ns - recv->silent_polled_ns;
    const unsigned doubled = recv->losses < DOUBLED_MOST ? recv->losses : DOUBLED_MOST;
    recv->silent_polled_ns = now_ns;
    recv->silent_ns = moved ? 0 : recv->silent_ns + (since_ns < A_LOOK_NS ? since_ns : A_LOOK_NS);
    return recv->silent_ns > (uint64_t)QUIET_NS << doubled;
}

/* The youngest first: what the wire has matched are the oldest. */
bool sv_message_pieces_take_back(selvage_request_t *recv)
{
    recv->silent_ns = 0;
    for (; recv->next > recv->issued; recv->next--) {
        sv_message_piece_t *piece = piece_slot(recv, recv->next - 1);
        if (sv_wire_cancel(recv->engine->wire, &piece->request) != SELVAGE_SUCCESS)
            return false;
        piece->state = SV_PIECE_FREE;
    }
    return true;
}

selvage_status_t sv_message_pieces_recv(selvage_request_t *recv, bool *moved)
{
    SV_TRY(take_arrived_pieces(recv, moved));
    free_finished_pieces(recv, moved);
    if (recv->place.on_device)
        take_more_chunks(recv);
    while (may_expect(recv))
        SV_TRY(expect_piece(recv));
    return recv->finished == recv->npieces ? SELVAGE_SUCCESS : SELVAGE_IN_PROGRESS;
}
