/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file drives what goes between nodes. A call is a number of rows. In a row each rail carries one piece of the
 * vector, and each rank describes what it does with its piece:
 *
 *   collect   kernels of the node      its ranks' shares -> the rank whose rail carries the piece
 *   up        device -> host           own share; sums from other nodes are added to it, and it goes on
 *   down      host -> device           the result, from another node or from `up`, goes on and is put in its place
 *   spread    kernels of the node      the rank that got the piece -> all ranks
 *
 * Up to SV_COLL_RAIL_SLOTS rows are in each of up and down at a time, so that copies, both ways of the wire, sums and
 * the node's kernels overlap. A row takes slot row % SV_COLL_RAIL_SLOTS.
 *
 * Why it ends. All ranks of a node enqueue the same kernels in one order: collect(row) for `ahead` rows, then by turns
 * spread and collect. Copies have streams of their own, and never wait for a kernel of a later row. What a row waits
 * for is an earlier step of its own, or its slot, which is free when a step of the row SLOTS before it has ended. A
 * kernel spread(row) comes after collect(row + ahead - 1) on the stream, which waits for up(row + ahead - 1 - SLOTS),
 * and that for down of the same row, which waits for no kernel: results lie where the user wants them, and are spread
 * from there. Where they lie in the slot, down(row) waits for spread(row - SLOTS). Then `ahead` is SLOTS, so that the
 * kernel spread(row) waits for spread(row - 1 - SLOTS) at most, and down has SLOTS rows under way; with more ahead it
 * would have fewer, down to one with 2 * SLOTS. So every wait is for something lower in a fixed order. Where there are
 * no more rows than slots, nothing waits for a slot: kernels wait for other ranks' launches only, which all come, and
 * one stream has copies and kernels.
 *
 * Nothing here waits: who has a call under way drives it (coll_nodes_run.c). The arena owns the slots; one call at a
 * time is in them. It runs where the engine lives.
 */
#include <string.h>

#include "base/base_status.h"
#include "collective/coll_nodes_run.h"
#include "collective/coll_parts.h"
#include "kernels/coll_pass_host.h"

enum { SLOTS = SV_COLL_RAIL_SLOTS, AHEAD = SV_COLL_RAIL_AHEAD };
_Static_assert(AHEAD <= 2 * SLOTS, "else rows may wait for each other");

static sv_device_t *device_of(const sv_coll_rails_t *run)
{
    return run->coll->comm->dev;
}

/* --- up ----------------------------------------------------------------------------------------------------------- */

/* Whether the slot's last copy is complete. A kernel before it may have failed, and then it is worth nothing. Copies of
   one way share a stream: in a turn one that is late is asked for, and none after it. */
static selvage_status_t poll_copy(const sv_coll_rails_t *run, const sv_coll_rail_slot_t *slot, bool *late)
{
    if (*late)
        return SELVAGE_IN_PROGRESS;
    const selvage_status_t status = SV_DEVICE_CALL(device_of(run), event_query, slot->copied);
    *late = status == SELVAGE_IN_PROGRESS;
    return status == SELVAGE_SUCCESS ? sv_coll_check(run->coll) : status;
}

/* In a turn, a message that is late from a rank is asked for, and none after it from that rank: to ask MPI is most of
   what a turn costs that finds nothing. */
selvage_status_t sv_coll_rails_poll(const sv_coll_rails_t *run, sv_coll_rail_slot_t *slot, int *late)
{
    if (slot->taking.rank == *late)
        return SELVAGE_IN_PROGRESS;
    const selvage_status_t status = sv_coll_taking_drive(run->coll, &slot->taking);
    if (status == SELVAGE_IN_PROGRESS)
        *late = slot->taking.rank;
    return status;
}

selvage_status_t sv_coll_rails_take(const sv_coll_rails_t *run, sv_coll_rail_slot_t *slot, uint8_t *message,
                                    uint64_t bytes, int rank)
{
    return sv_coll_taking_start(run->coll, &slot->taking, run->plan->call, message, slot->row.at, bytes, rank,
                                slot->tags);
}

static selvage_status_t take_rail_piece(const sv_coll_rails_t *run, sv_coll_rail_slot_t *slot, uint8_t *message,
                                        int rank)
{
    return sv_coll_rails_take(run, slot, message, slot->row.bytes, rank);
}

selvage_status_t sv_coll_rails_send(const sv_coll_rails_t *run, sv_coll_rail_slot_t *slot, const uint8_t *message,
                                    int rank)
{
    return sv_coll_sending_start(run->coll, &slot->sending[slot->nsendings++], message, rank, slot->tags);
}

/* To the rail's ranks on all other nodes. */
static selvage_status_t send_to_all_nodes(const sv_coll_rails_t *run, sv_coll_rail_slot_t *slot, const uint8_t *message)
{
    const sv_coll_node_set_t *node_set = run->coll->node_set;
    for (int k = 1; k < node_set->nnodes; k++) {
        const int node = (node_set->mine + k) % node_set->nnodes;
        SV_TRY(sv_coll_rails_send(run, slot, message, sv_coll_plan_rank(run->plan, node, run->plan->mine)));
    }
    return SELVAGE_SUCCESS;
}

void sv_coll_rails_await(sv_coll_rails_t *run, int rank)
{
    if (run->awaited == SV_COLL_NO_RANK)
        run->awaited = rank;
}

/* SUCCESS: all of them have taken it. */
static selvage_status_t drive_rail_pieces(sv_coll_rails_t *run, sv_coll_rail_slot_t *slot)
{
    unsigned taken = 0;
    for (unsigned i = 0; i < slot->nsendings; i++) {
        selvage_status_t status = sv_coll_sending_drive(run->coll, &slot->sending[i]);
        if (status != SELVAGE_SUCCESS && status != SELVAGE_IN_PROGRESS)
            return status;
        if (status == SELVAGE_IN_PROGRESS)
            sv_coll_rails_await(run, slot->sending[i].rank);
        else
            taken++;
    }
    run->moved |= taken > slot->nsent;
    slot->nsent = taken;
    return taken == slot->nsendings ? SELVAGE_SUCCESS : SELVAGE_IN_PROGRESS;
}

static void *up_stream_of(const sv_coll_rails_t *run)
{
    return run->is_short ? run->coll->arena->stream : run->staging->up_stream;
}

/* The own share of a row, out of the device. */
static selvage_status_t fetch_share(const sv_coll_rails_t *run, sv_coll_rail_slot_t *slot)
{
    sv_device_t *dev = device_of(run);
    void *stream = up_stream_of(run);
    SV_TRY(SV_DEVICE_CALL(dev, copy_async, slot->out + SV_COLL_HEAD_BYTES, slot->row.own, slot->row.bytes, SV_COPY_D2H,
                          stream));
    return SV_DEVICE_CALL(dev, event_record, slot->copied, stream);
}

selvage_status_t sv_coll_rails_fetch(sv_coll_rails_t *run)
{
    for (; run->fetched < SLOTS && run->fetched < run->plan->rows; run->fetched++) {
        sv_coll_rail_slot_t *slot = &run->staging->up[run->fetched];
        run->plan->describe(run->plan, run->fetched, &slot->row);
        if (slot->row.bytes > 0 && slot->row.own)
            SV_TRY(fetch_share(run, slot));
    }
    return SELVAGE_SUCCESS;
}

/* The row's kernels are enqueued: its own share is copied after them, and a sum may come meanwhile. */
static selvage_status_t begin_up(sv_coll_rails_t *run, uint64_t row)
{
    sv_coll_rail_slot_t *slot = &run->staging->up[row % SLOTS];
    sv_coll_row_t *what = &slot->row;
    run->plan->describe(run->plan, row, what);
    if (what->bytes == 0 || !what->own)
        return SELVAGE_SUCCESS;
    slot->tags = (unsigned)(row % SLOTS);
    slot->sum = NULL;
    slot->node = 0;
    slot->nsendings = slot->nsent = 0;
    if (what->from >= 0)
        SV_TRY(take_rail_piece(run, slot, slot->in, what->from));
    if (what->from == SV_COLL_ALL_NODES)
        SV_TRY(take_rail_piece(run, slot, slot->in,
                               sv_coll_plan_rank(run->plan, run->coll->node_set->mine == 0 ? 1 : 0, run->plan->mine)));
    slot->state = SV_COLL_SLOT_COPY;
    if (row < run->fetched)
        return SELVAGE_SUCCESS;
    if (run->plan->collect && !run->is_short)
        SV_TRY(SV_DEVICE_CALL(device_of(run), stream_wait_event, up_stream_of(run),
                              run->staging->collected[row % AHEAD]));
    return fetch_share(run, slot);
}

/* Adds a message to what there is, in its place: what there is comes first. */
static void add_share(const sv_coll_rails_t *run, sv_coll_rail_slot_t *slot, uint8_t *message, bool is_last)
{
    const sv_coll_call_t *call = run->plan->call;
    const unsigned divisor = is_last && (call->flags & SV_COLL_DIVIDE) ? (unsigned)run->coll->size : 0;
    if (slot->sum)
        sv_coll_pass_host(message + SV_COLL_HEAD_BYTES, slot->sum + SV_COLL_HEAD_BYTES, slot->row.bytes, call->type,
                          call->op, divisor);
    slot->sum = message;
}

/* The shares of all nodes, in their order; while one comes, the sum so far is in another message. */
static selvage_status_t add_all_shares(sv_coll_rails_t *run, sv_coll_rail_slot_t *slot)
{
    const int mine = run->coll->node_set->mine, end = run->coll->node_set->nnodes;
    for (; slot->node < end; slot->node++) {
        if (slot->node == mine) {
            add_share(run, slot, slot->out, mine == end - 1);
            continue;
        }
        sv_coll_rails_await(run, slot->taking.rank);
        SV_TRY(sv_coll_rails_poll(run, slot, &run->up_late));
        SV_TRY(sv_coll_taking_drain(run->coll, &slot->taking));
        add_share(run, slot, slot->taking.message, slot->node == end - 1);
        run->moved = true;
        const int after = slot->node + 1 == mine ? mine + 1 : slot->node + 1;
        if (after < end)
            SV_TRY(take_rail_piece(run, slot, slot->sum == slot->in ? slot->other : slot->in,
                                   sv_coll_plan_rank(run->plan, after, run->plan->mine)));
    }
    return SELVAGE_SUCCESS;
}

/* SUCCESS: the sum is there, or all that goes on to the next node. */
static selvage_status_t add_shares(sv_coll_rails_t *run, sv_coll_rail_slot_t *slot)
{
    const sv_coll_row_t *what = &slot->row;
    if (what->from == SV_COLL_TREE || what->from == SV_COLL_ALL_NODES) {
        const selvage_status_t status =
            what->from == SV_COLL_TREE ? sv_coll_tree_step(run, slot) : add_all_shares(run, slot);
        if (status != SELVAGE_IN_PROGRESS)
            return status;
        /* What this rank has sent may have come damaged, and what it waits for may wait for that to come again. */
        const selvage_status_t sent = drive_rail_pieces(run, slot);
        return sent == SELVAGE_SUCCESS ? status : sent;
    }
    if (what->from >= 0) {
        sv_coll_rails_await(run, what->from);
        SV_TRY(sv_coll_rails_poll(run, slot, &run->up_late));
        slot->sum = slot->in;
    }
    add_share(run, slot, slot->out, what->ends);
    return SELVAGE_SUCCESS;
}

/* The own share goes to all nodes as it is: from a message of its own, since the sum is made in the place of the other.
   Down has that to spare, where results come from no other rank. */
static selvage_status_t share_own(sv_coll_rails_t *run, sv_coll_rail_slot_t *slot)
{
    const sv_coll_row_t *what = &slot->row;
    uint8_t *message = run->staging->down[slot - run->staging->up].in;
    memcpy(message + SV_COLL_HEAD_BYTES, slot->out + SV_COLL_HEAD_BYTES, what->bytes);
    sv_coll_message_write(run->coll, run->plan->call, message, what->at, what->bytes);
    return send_to_all_nodes(run, slot, message);
}

/* SUCCESS: the state is the next one. */
static selvage_status_t step_up(sv_coll_rails_t *run, sv_coll_rail_slot_t *slot)
{
    const sv_coll_row_t *what = &slot->row;
    switch (slot->state) {
    case SV_COLL_SLOT_COPY:
        SV_TRY(poll_copy(run, slot, &run->fetch_late));
        slot->state = SV_COLL_SLOT_TAKE;
        if (what->from == SV_COLL_TREE)
            return sv_coll_tree_begin(run, slot);
        return what->to == SV_COLL_ALL_NODES ? share_own(run, slot) : SELVAGE_SUCCESS;
    case SV_COLL_SLOT_TAKE:
        SV_TRY(add_shares(run, slot));
        if (what->to >= 0) {
            const uint64_t shares = what->from == SV_COLL_TREE ? (uint64_t)slot->node : 1;
            sv_coll_message_write(run->coll, run->plan->call, slot->sum, what->at, shares * what->bytes);
            SV_TRY(sv_coll_rails_send(run, slot, slot->sum, what->to));
        }
        slot->state = what->ends ? SV_COLL_SLOT_RESULT : SV_COLL_SLOT_SEND;
        return SELVAGE_SUCCESS;
    case SV_COLL_SLOT_SEND:
        SV_TRY(drive_rail_pieces(run, slot));
        SV_TRY(sv_coll_taking_drain(run->coll, &slot->taking));
        slot->state = SV_COLL_SLOT_DONE;
        return SELVAGE_SUCCESS;
    default: /* the result is down's, which says when it is done with it */
        return SELVAGE_IN_PROGRESS;
    }
}

/* --- down --------------------------------------------------------------------------------------------------------- */

/* Its slot is free: of the row that had it before, everything is done, on the device too. */
static selvage_status_t may_begin_down(const sv_coll_rails_t *run, uint64_t row)
{
    if (row >= run->down_begin + SLOTS)
        return SELVAGE_IN_PROGRESS;
    if (!run->plan->spreads_received || row < SLOTS)
        return SELVAGE_SUCCESS;
    if (row - SLOTS >= run->spreads)
        return SELVAGE_IN_PROGRESS;
    return SV_DEVICE_CALL(device_of(run), event_query, run->staging->spread[row % SLOTS]);
}

static selvage_status_t begin_down(sv_coll_rails_t *run, uint64_t row)
{
    sv_coll_rail_slot_t *slot = &run->staging->down[row % SLOTS];
    sv_coll_row_t *what = &slot->row;
    run->plan->describe(run->plan, row, what);
    if (what->bytes == 0 || (what->source < 0 && !what->ends && !what->handed))
        return SELVAGE_SUCCESS;
    slot->state = SV_COLL_SLOT_TAKE;
    slot->is_handed = false;
    slot->putting = what->put != NULL;
    slot->tags = SLOTS + (unsigned)(row % SLOTS);
    slot->nsendings = slot->nsent = 0;
    return what->source < 0 ? SELVAGE_SUCCESS : take_rail_piece(run, slot, slot->in, what->source);
}

/* A row that is a collective of MPI's, which starts after those of all rows before it. */
static selvage_status_t drive_handed(sv_coll_rails_t *run, sv_coll_rail_slot_t *slot, uint64_t row,
                                     uint8_t **message_out)
{
    const sv_coll_rail_slot_t *above = &run->staging->up[row % SLOTS];
    if (run->handed_late)
        return SELVAGE_IN_PROGRESS;
    if (!slot->is_handed) {
        run->handed_late = slot->row.own && !(row < run->collects && above->state == SV_COLL_SLOT_RESULT);
        if (run->handed_late)
            return SELVAGE_IN_PROGRESS;
        SV_TRY(sv_coll_handed_start(run, above, slot));
        slot->is_handed = run->moved = true;
    }
    sv_coll_rails_await(run, SV_COLL_RAIL_RANKS);
    return sv_coll_handed_drive(run, above, slot, message_out);
}

/* SUCCESS: the result is there, in that message. */
static selvage_status_t find_result(sv_coll_rails_t *run, sv_coll_rail_slot_t *slot, uint64_t row,
                                    uint8_t **message_out)
{
    sv_coll_rail_slot_t *above = &run->staging->up[row % SLOTS];
    if (slot->row.handed)
        return drive_handed(run, slot, row, message_out);
    if (slot->row.source >= 0) {
        sv_coll_rails_await(run, slot->row.source);
        *message_out = slot->in;
        return sv_coll_rails_poll(run, slot, &run->down_late);
    }
    *message_out = above->sum;
    return row < run->collects && above->state == SV_COLL_SLOT_RESULT ? SELVAGE_SUCCESS : SELVAGE_IN_PROGRESS;
}

/* The result, as this rank's message: its head says who sent it. */
static selvage_status_t pass_on(sv_coll_rails_t *run, sv_coll_rail_slot_t *slot, uint8_t *message)
{
    const sv_coll_row_t *what = &slot->row;
    if (what->next == -1)
        return SELVAGE_SUCCESS;
    if (what->next == SV_COLL_TREE)
        return sv_coll_tree_pass(run, slot, message);
    sv_coll_message_write(run->coll, run->plan->call, message, what->at, what->bytes);
    return what->next >= 0 ? sv_coll_rails_send(run, slot, message, what->next) : send_to_all_nodes(run, slot, message);
}

static selvage_status_t step_down(sv_coll_rails_t *run, sv_coll_rail_slot_t *slot, uint64_t row)
{
    const sv_coll_row_t *what = &slot->row;
    sv_device_t *dev = device_of(run);
    uint8_t *message;
    switch (slot->state) {
    case SV_COLL_SLOT_TAKE:
        SV_TRY(find_result(run, slot, row, &message));
        SV_TRY(pass_on(run, slot, message));
        if (what->put) {
            void *stream = run->is_short ? run->coll->arena->stream : run->staging->down_stream;
            SV_TRY(SV_DEVICE_CALL(dev, copy_async, what->put, message + SV_COLL_HEAD_BYTES, what->bytes, SV_COPY_H2D,
                                  stream));
            slot->putting = !run->is_short; /* else its end is that of the stream */
            if (slot->putting)
                SV_TRY(SV_DEVICE_CALL(dev, event_record, slot->copied, stream));
        }
        slot->state = SV_COLL_SLOT_SEND;
        return SELVAGE_SUCCESS;
    case SV_COLL_SLOT_SEND:
        if (slot->putting) {
            SV_TRY(poll_copy(run, slot, &run->put_late));
            slot->putting = false;
            run->moved = true;
        }
        SV_TRY(drive_rail_pieces(run, slot));
        SV_TRY(sv_coll_taking_drain(run->coll, &slot->taking));
        if (what->source < 0 && what->own) {
            sv_coll_rail_slot_t *above = &run->staging->up[row % SLOTS];
            SV_TRY(drive_rail_pieces(run, above));
            SV_TRY(sv_coll_taking_drain(run->coll, &above->taking));
            above->state = SV_COLL_SLOT_DONE;
        }
        slot->state = SV_COLL_SLOT_DONE;
        return SELVAGE_SUCCESS;
    default:
        return SELVAGE_IN_PROGRESS;
    }
}

/* --- kernels of the node ------------------------------------------------------------------------------------------ */

/* The work of a row has room in the FIFO: waiting for it there, this rank would not go on with others' messages. */
static bool may_launch(const sv_coll_rails_t *run)
{
    return sv_coll_fifo_has_room(run->coll->arena, 2 * (unsigned)run->plan->rails);
}

/* How many rows are collected before the first is spread. */
static uint64_t count_ahead(const sv_coll_rails_t *run)
{
    return run->plan->spreads_received ? SLOTS : AHEAD;
}

/* Its kernels, in an order that all ranks of the node keep; then the row is up. */
static selvage_status_t try_collect(sv_coll_rails_t *run)
{
    const sv_coll_plan_t *plan = run->plan;
    const uint64_t row = run->collects;
    sv_device_t *dev = device_of(run);
    if (row == plan->rows || row >= run->up_begin + SLOTS || (plan->spread && row >= run->spreads + count_ahead(run)) ||
        !may_launch(run))
        return SELVAGE_IN_PROGRESS;
    if (plan->collect) {
        sv_event_t *event = run->staging->collected[row % AHEAD];
        if (row >= AHEAD)
            SV_TRY(SV_DEVICE_CALL(dev, event_query, event));
        SV_TRY(plan->collect(plan, row));
        if (!run->is_short)
            SV_TRY(SV_DEVICE_CALL(dev, event_record, event, run->coll->arena->stream));
    }
    run->collects++;
    return begin_up(run, row);
}

/* The order of kernels: collect as far ahead as may be, then by turns. */
static bool is_spread_next(const sv_coll_rails_t *run)
{
    return run->spreads < run->plan->rows &&
           (run->collects == run->plan->rows || run->collects == run->spreads + count_ahead(run));
}

static selvage_status_t try_spread(sv_coll_rails_t *run)
{
    const uint64_t row = run->spreads;
    const sv_coll_rail_slot_t *slot = &run->staging->down[row % SLOTS];
    if (!is_spread_next(run) || row >= run->down_end || !may_launch(run))
        return SELVAGE_IN_PROGRESS;
    if (row >= run->down_begin && slot->state != SV_COLL_SLOT_DONE &&
        (slot->state == SV_COLL_SLOT_TAKE || slot->putting))
        return SELVAGE_IN_PROGRESS;
    if (!run->is_short && row >= SLOTS) /* no more kernels than that are enqueued ahead of the device */
        SV_TRY(SV_DEVICE_CALL(device_of(run), event_query, run->staging->spread[row % SLOTS]));
    SV_TRY(run->plan->spread(run->plan, row));
    run->spreads++;
    return run->is_short ? SELVAGE_SUCCESS
                         : SV_DEVICE_CALL(device_of(run), event_record, run->staging->spread[row % SLOTS],
                                          run->coll->arena->stream);
}

/* What needs no kernel and no message. It goes after the shares that other nodes wait for. */
static selvage_status_t keep_own_part(sv_coll_rails_t *run)
{
    const sv_coll_plan_t *plan = run->plan;
    run->kept = true;
    if (plan->keep_bytes == 0)
        return SELVAGE_SUCCESS;
    return SV_DEVICE_CALL(device_of(run), copy_async, plan->keep_to, plan->keep_from, plan->keep_bytes, SV_COPY_D2D,
                          run->coll->arena->stream);
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

/* Notes what has happened: progress, or an error. */
static selvage_status_t note_step(sv_coll_rails_t *run, selvage_status_t status)
{
    run->moved |= status == SELVAGE_SUCCESS;
    return status == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : status;
}

static selvage_status_t drive_slots(sv_coll_rails_t *run)
{
    for (uint64_t row = run->up_begin; row < run->collects; row++)
        SV_TRY(note_step(run, step_up(run, &run->staging->up[row % SLOTS])));
    for (uint64_t row = run->down_begin; row < run->down_end; row++)
        SV_TRY(note_step(run, step_down(run, &run->staging->down[row % SLOTS], row)));
    while (run->up_begin < run->collects && run->staging->up[run->up_begin % SLOTS].state == SV_COLL_SLOT_DONE)
        run->up_begin++;
    while (run->down_begin < run->down_end &&
           run->staging->down[run->down_begin % SLOTS].state == SV_COLL_SLOT_DONE)
        run->down_begin++;
    return SELVAGE_SUCCESS;
}

static selvage_status_t drive_rows(sv_coll_rails_t *run)
{
    selvage_status_t status;
    /* 1. Kernels, as far as slots and their order allow. */
    do {
        status = run->plan->spread && is_spread_next(run) ? try_spread(run) : try_collect(run);
        SV_TRY(note_step(run, status));
    } while (status == SELVAGE_SUCCESS);
    if (!run->kept)
        SV_TRY(keep_own_part(run));
    /* 2. Rows whose results may come. */
    while (run->down_end < run->plan->rows) {
        status = may_begin_down(run, run->down_end);
        if (status == SELVAGE_IN_PROGRESS)
            break;
        SV_TRY(status);
        SV_TRY(begin_down(run, run->down_end));
        run->down_end++;
        run->moved = true;
    }
    /* 3. What is under way. */
    return drive_slots(run);
}

static bool is_through(const sv_coll_rails_t *run)
{
    const uint64_t rows = run->plan->rows;
    return run->up_begin == rows && run->down_begin == rows && (!run->plan->spread || run->spreads == rows);
}

void sv_coll_rails_begin(sv_coll_rails_t *run, const sv_coll_plan_t *plan)
{
    *run = (sv_coll_rails_t){.plan = plan, .coll = plan->coll, .staging = plan->coll->arena->staging,
                             .is_short = plan->rows <= SLOTS};
    run->staging->comparison = (sv_coll_comparison_t){0};
}

selvage_status_t sv_coll_rails_step(sv_coll_rails_t *run)
{
    run->moved = run->fetch_late = run->put_late = false;
    run->handed_late = false;
    run->awaited = run->up_late = run->down_late = SV_COLL_NO_RANK;
    if (!is_through(run))
        SV_TRY(drive_rows(run));
    if (!is_through(run))
        return SELVAGE_IN_PROGRESS;
    sv_coll_rails_await(run, SV_COLL_RAIL_RANKS);
    return sv_coll_handed_compare(run);
}
