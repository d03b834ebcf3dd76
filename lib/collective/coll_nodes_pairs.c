/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file does all sends and receives of a group between nodes. Those with ranks of the own node are one launch. It
 * comes first, so that no kernel waits for a host that waits for a message. The others go in an order that all ranks
 * keep, as in coll_pairs.c: the j-th send to rank me + k with the j-th receive from rank me - k, by j, then k, and
 * chunk by chunk. Up to SV_COLL_RAIL_SLOTS chunks are on their way out, and as many on their way in, so that copies and
 * both ways of the wire overlap.
 *
 * Of all chunks that are not through, take the first in that order. Nothing before it holds a slot at either end, so it
 * is on its way, and ends. So everything ends. The chunks from one rank to another are numbered, over all calls, since
 * the two ends may group them in other ways. Number i has the tags of slot i % SV_COLL_RAIL_SLOTS, which the one with
 * the same tags before it has left: a chunk that is sent again is not taken for another.
 *
 * A receiver answers each chunk, so that both ends learn of it if they do not match. Nothing here waits: who has the
 * group under way drives it (coll_nodes_run.c). The lists live as long as the group, and the arena owns the slots.
 */
#include "base/base_memory.h"
#include "base/base_status.h"
#include "collective/coll_names.h"
#include "collective/coll_nodes_run.h"

enum { SLOTS = SV_COLL_RAIL_SLOTS };

/* --- the order ---------------------------------------------------------------------------------------------------- */

/* A rank's block of an all-to-all as a message to it, or from it. */
static sv_coll_call_t make_block_message(const sv_coll_call_t *whole, int rank, bool sends)
{
    const uint64_t at = (uint64_t)rank * whole->count * selvage_type_bytes(whole->type);
    sv_coll_call_t block = {.call = SV_COLL_PAIR, .type = whole->type, .root = rank, .is_send = sends,
                            .count = whole->count, .stream = whole->stream};
    if (sends)
        block.send = (const uint8_t *)whole->send + at;
    else
        block.recv = (uint8_t *)whole->recv + at;
    return block;
}

/* The same message, whose rank is at this distance; none if that is on this node. */
static bool begin_block(const selvage_coll_t *coll, sv_coll_pair_queue_t *queue)
{
    const int way = queue->sends ? coll->rank + queue->distance : coll->rank - queue->distance + coll->size;
    const int rank = way % coll->size;
    if (sv_coll_is_near(coll, rank))
        return false;
    queue->block = make_block_message(queue->whole, rank, queue->sends);
    queue->piece.call = &queue->block;
    queue->left--;
    return true;
}

/* The next message, of the rank at the next distance that has one; none: call is NULL. */
static void begin_message(const selvage_coll_t *coll, sv_coll_pair_queue_t *queue)
{
    queue->piece = (sv_coll_pair_piece_t){0};
    while (queue->left > 0) {
        queue->distance = queue->distance + 1 < queue->size ? queue->distance + 1 : 1;
        if (queue->whole && begin_block(coll, queue))
            return;
        if (queue->whole)
            continue;
        const unsigned number = queue->head[queue->distance];
        if (number == 0)
            continue;
        queue->head[queue->distance] = queue->next[number - 1];
        queue->left--;
        queue->piece.call = &queue->calls[number - 1];
        return;
    }
}

static void measure_piece(const selvage_coll_t *coll, sv_coll_pair_queue_t *queue)
{
    sv_coll_pair_piece_t *piece = &queue->piece;
    if (!piece->call)
        return;
    const uint64_t all = piece->call->count * selvage_type_bytes(piece->call->type);
    const uint64_t room = sv_coll_chunk_bytes(coll->arena->staging, all, 0); /* the same at both ends */
    piece->bytes = all - piece->at < room ? all - piece->at : room;
    piece->slot = queue->npieces[piece->call->root] % SLOTS;
}

static void advance_queue(const selvage_coll_t *coll, sv_coll_pair_queue_t *queue)
{
    sv_coll_pair_piece_t *piece = &queue->piece;
    queue->npieces[piece->call->root]++;
    queue->begun++;
    piece->at += piece->bytes;
    if (piece->at >= piece->call->count * selvage_type_bytes(piece->call->type))
        begin_message(coll, queue);
    measure_piece(coll, queue);
}

static selvage_status_t fill_queue(const selvage_coll_t *coll, const sv_coll_call_t *calls, unsigned ncalls,
                                   bool sends, sv_coll_pair_queue_t *queue)
{
    const size_t size = (size_t)coll->size;
    *queue = (sv_coll_pair_queue_t){.calls = calls, .size = coll->size,
                       .npieces = sends ? coll->node_set->sent : coll->node_set->received};
    SV_TRY(sv_calloc(ncalls + 2 * size, sizeof *queue->next, &queue->next));
    queue->head = queue->next + ncalls;
    queue->tail = queue->head + size;
    for (unsigned i = 0; i < ncalls; i++) {
        if (calls[i].call != SV_COLL_PAIR || calls[i].is_send != sends || sv_coll_is_near(coll, calls[i].root))
            continue;
        const int way = sends ? calls[i].root - coll->rank : coll->rank - calls[i].root;
        const int distance = way < 0 ? way + coll->size : way;
        if (queue->head[distance] == 0)
            queue->head[distance] = i + 1;
        else
            queue->next[queue->tail[distance] - 1] = i + 1;
        queue->tail[distance] = i + 1;
        queue->left++;
    }
    begin_message(coll, queue);
    measure_piece(coll, queue);
    return SELVAGE_SUCCESS;
}

/* All blocks of an all-to-all but those of this node's ranks. */
static void fill_queue_of_blocks(const selvage_coll_t *coll, const sv_coll_call_t *whole, bool sends,
                                 sv_coll_pair_queue_t *queue)
{
    *queue = (sv_coll_pair_queue_t){.whole = whole, .sends = sends, .size = coll->size,
                       .left = (unsigned)coll->size - coll->dev.n,
                       .npieces = sends ? coll->node_set->sent : coll->node_set->received};
    begin_message(coll, queue);
    measure_piece(coll, queue);
}

/* --- chunks ------------------------------------------------------------------------------------------------------- */

/* Copies have streams of their own: what the calls' streams had is over, and on the arena's a launch may wait for ranks
   that come late. */
static selvage_status_t start_copy(const sv_coll_pairs_run_t *run, sv_coll_rail_slot_t *slot, void *to,
                                   const void *from, sv_copy_kind_t kind, void *stream)
{
    sv_device_t *dev = run->coll->comm->dev;
    if (slot->row.bytes > 0)
        SV_TRY(SV_DEVICE_CALL(dev, copy_async, to, from, slot->row.bytes, kind, stream));
    return SV_DEVICE_CALL(dev, event_record, slot->copied, stream);
}

static void fill_slot_row(sv_coll_rail_slot_t *slot, const sv_coll_pair_piece_t *piece)
{
    slot->row = (sv_coll_row_t){.at = piece->at, .bytes = piece->bytes, .from = -1, .to = -1, .source = -1, .next = -1};
    slot->pair = *piece->call;
    slot->call = &slot->pair;
    slot->tags = piece->slot;
    slot->nsendings = slot->nsent = 0;
}

/* The other end of the oldest chunk is what this rank waits for. */
static void note_peer(sv_coll_pairs_run_t *run, const sv_coll_rail_slot_t *slot)
{
    if (run->awaited < 0)
        run->awaited = slot->call->root;
}

static selvage_status_t begin_out(sv_coll_pairs_run_t *run)
{
    const sv_coll_pair_piece_t piece = run->out.piece; /* its call may be another one after advance_queue() */
    sv_coll_staging_t *staging = run->coll->arena->staging;
    sv_coll_rail_slot_t *slot = &staging->up[run->out.begun % SLOTS];
    fill_slot_row(slot, &piece);
    slot->state = SV_COLL_SLOT_COPY;
    advance_queue(run->coll, &run->out);
    return start_copy(run, slot, slot->out + SV_COLL_HEAD_BYTES, (const uint8_t *)slot->call->send + piece.at,
                      SV_COPY_D2H, staging->up_stream);
}

static selvage_status_t step_out(sv_coll_pairs_run_t *run, sv_coll_rail_slot_t *slot)
{
    switch (slot->state) {
    case SV_COLL_SLOT_COPY:
        SV_TRY(SV_DEVICE_CALL(run->coll->comm->dev, event_query, slot->copied));
        sv_coll_message_write(run->coll, slot->call, slot->out, slot->row.at, slot->row.bytes);
        slot->nsendings = 1;
        slot->state = SV_COLL_SLOT_SEND;
        return sv_coll_sending_start(run->coll, &slot->sending[0], slot->out, slot->call->root, slot->tags);
    case SV_COLL_SLOT_SEND:
        note_peer(run, slot);
        SV_TRY(sv_coll_sending_drive(run->coll, &slot->sending[0]));
        slot->state = SV_COLL_SLOT_DONE;
        return SELVAGE_SUCCESS;
    default:
        return SELVAGE_IN_PROGRESS;
    }
}

static selvage_status_t begin_in(sv_coll_pairs_run_t *run)
{
    const sv_coll_pair_piece_t piece = run->in.piece;
    sv_coll_rail_slot_t *slot = &run->coll->arena->staging->down[run->in.begun % SLOTS];
    fill_slot_row(slot, &piece);
    slot->state = SV_COLL_SLOT_TAKE;
    advance_queue(run->coll, &run->in);
    return sv_coll_taking_start(run->coll, &slot->taking, slot->call, slot->in, piece.at, piece.bytes, slot->call->root,
                                slot->tags);
}

static selvage_status_t step_in(sv_coll_pairs_run_t *run, sv_coll_rail_slot_t *slot)
{
    switch (slot->state) {
    case SV_COLL_SLOT_TAKE:
        note_peer(run, slot);
        SV_TRY(sv_coll_taking_drive(run->coll, &slot->taking));
        slot->state = SV_COLL_SLOT_COPY;
        return start_copy(run, slot, (uint8_t *)slot->call->recv + slot->row.at, slot->in + SV_COLL_HEAD_BYTES,
                          SV_COPY_H2D, run->coll->arena->staging->down_stream);
    case SV_COLL_SLOT_COPY:
        SV_TRY(SV_DEVICE_CALL(run->coll->comm->dev, event_query, slot->copied));
        SV_TRY(sv_coll_taking_drain(run->coll, &slot->taking));
        slot->state = SV_COLL_SLOT_DONE;
        return SELVAGE_SUCCESS;
    default:
        return SELVAGE_IN_PROGRESS;
    }
}

static bool is_failure(selvage_status_t status)
{
    return status != SELVAGE_SUCCESS && status != SELVAGE_IN_PROGRESS;
}

/* A rank that gives up says why in the answer to one chunk, and then only that, in place of all other answers. That one
   is older, and has come meanwhile if it had not when it was looked for. */
static selvage_status_t find_older_failure(const sv_coll_pair_queue_t *queue, sv_coll_pairs_run_t *run,
                                           sv_coll_rail_slot_t *slots,
                                           selvage_status_t (*step)(sv_coll_pairs_run_t *, sv_coll_rail_slot_t *),
                                           uint64_t at, selvage_status_t failure)
{
    for (uint64_t i = queue->through; i < at; i++) {
        const selvage_status_t status = step(run, &slots[i % SLOTS]);
        if (is_failure(status))
            return status;
    }
    return failure;
}

/* A turn of one direction: begins what has a slot, and drives what is under way. */
static selvage_status_t drive_queue(sv_coll_pairs_run_t *run, sv_coll_pair_queue_t *queue, sv_coll_rail_slot_t *slots,
                                    selvage_status_t (*begin)(sv_coll_pairs_run_t *),
                                    selvage_status_t (*step)(sv_coll_pairs_run_t *, sv_coll_rail_slot_t *))
{
    while (queue->piece.call && queue->begun < queue->through + SLOTS) {
        SV_TRY(begin(run));
        run->moved = true;
    }
    for (uint64_t i = queue->through; i < queue->begun; i++) {
        const selvage_status_t status = step(run, &slots[i % SLOTS]);
        if (is_failure(status))
            return find_older_failure(queue, run, slots, step, i, status);
        run->moved |= status == SELVAGE_SUCCESS;
    }
    while (queue->through < queue->begun && slots[queue->through % SLOTS].state == SV_COLL_SLOT_DONE)
        queue->through++;
    return SELVAGE_SUCCESS;
}

static bool is_queue_over(const sv_coll_pair_queue_t *queue)
{
    return !queue->piece.call && queue->through == queue->begun;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

/* Those with ranks of this node. */
static selvage_status_t launch_within_node(selvage_coll_t *coll, const sv_coll_call_t *calls, unsigned ncalls)
{
    sv_coll_call_t *near;
    unsigned count = 0;
    SV_TRY(sv_calloc(ncalls, sizeof *near, &near));
    for (unsigned i = 0; i < ncalls; i++)
        if (calls[i].call == SV_COLL_PAIR && sv_coll_is_near(coll, calls[i].root)) {
            near[count] = calls[i];
            near[count].root = coll->node_set->inner[calls[i].root];
            near[count++].stream = coll->arena->stream;
        }
    selvage_status_t status = sv_coll_launch(coll->node_set->part, near, count);
    sv_free(near);
    return status;
}

/* Those with ranks of other nodes. */
static selvage_status_t begin_queues(sv_coll_pairs_run_t *run, const sv_coll_call_t *calls, unsigned ncalls)
{
    SV_TRY(fill_queue(run->coll, calls, ncalls, true, &run->out));
    SV_TRY(fill_queue(run->coll, calls, ncalls, false, &run->in));
    run->coll->arena->staging->pairs = true;
    return SELVAGE_SUCCESS;
}

/* A block to itself, of a rank that is alone on its node: no kernel has to meet another. */
static selvage_status_t copy_own_block(const selvage_coll_t *coll, const sv_coll_call_t *call, uint64_t block)
{
    const uint64_t at = (uint64_t)coll->rank * block;
    return SV_DEVICE_CALL(coll->comm->dev, copy_async, (uint8_t *)call->recv + at, (const uint8_t *)call->send + at,
                          block, SV_COPY_D2D, coll->arena->stream);
}

selvage_status_t sv_coll_pairs_run_begin(sv_coll_pairs_run_t *run, selvage_coll_t *coll, const sv_coll_call_t *calls,
                                         unsigned ncalls)
{
    *run = (sv_coll_pairs_run_t){.coll = coll};
    SV_TRY(launch_within_node(coll, calls, ncalls));
    return begin_queues(run, calls, ncalls);
}

selvage_status_t sv_coll_pairs_run_step(sv_coll_pairs_run_t *run)
{
    sv_coll_staging_t *staging = run->coll->arena->staging;
    run->moved = false;
    run->awaited = -1;
    if (is_queue_over(&run->in) && is_queue_over(&run->out))
        return SELVAGE_SUCCESS;
    SV_TRY(drive_queue(run, &run->in, staging->down, begin_in, step_in));
    SV_TRY(drive_queue(run, &run->out, staging->up, begin_out, step_out));
    if (!is_queue_over(&run->in) || !is_queue_over(&run->out))
        return SELVAGE_IN_PROGRESS;
    staging->pairs = false;
    return SELVAGE_SUCCESS;
}

void sv_coll_pairs_run_end(sv_coll_pairs_run_t *run)
{
    sv_free(run->out.next);
    sv_free(run->in.next);
    *run = (sv_coll_pairs_run_t){0};
}

/* The blocks of this node's ranks: sends and receives among them. */
static selvage_status_t launch_near_blocks(selvage_coll_t *coll, const sv_coll_call_t *call)
{
    const sv_coll_node_set_t *node_set = coll->node_set;
    const int *ranks = &node_set->rank_at[node_set->first[node_set->mine]];
    const unsigned n = coll->dev.n;
    sv_coll_call_t *near;
    SV_TRY(sv_calloc((size_t)n * 2, sizeof *near, &near));
    for (unsigned i = 0; i < 2 * n; i++) {
        near[i] = make_block_message(call, ranks[i / 2], i % 2 != 0);
        near[i].root = (int)(i / 2);
        near[i].stream = coll->arena->stream;
    }
    const selvage_status_t status = sv_coll_launch(node_set->part, near, 2 * n);
    sv_free(near);
    return status;
}

selvage_status_t sv_coll_pairs_run_begin_blocks(sv_coll_pairs_run_t *run, selvage_coll_t *coll,
                                                const sv_coll_call_t *call)
{
    const uint64_t block = call->count * selvage_type_bytes(call->type);
    *run = (sv_coll_pairs_run_t){.coll = coll};
    if (coll->dev.n > 1)
        SV_TRY(launch_near_blocks(coll, call));
    else
        SV_TRY(copy_own_block(coll, call, block));
    fill_queue_of_blocks(coll, call, true, &run->out);
    fill_queue_of_blocks(coll, call, false, &run->in);
    coll->arena->staging->pairs = true;
    return SELVAGE_SUCCESS;
}
