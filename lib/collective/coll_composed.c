/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that are made of others, and of kernels which are this rank's alone: exact sums (coll_exact.c), and reductions
 * that the kernels of collectives do not know (coll_fold.c). What is between their steps lies in memory of the arena,
 * the room, which is made with the first communicator. Calls on several streams take turns in it: each waits for the
 * event of the one before. In a graph the program orders them, as it orders collectives anyway.
 *
 * All of a call is enqueued at once on the user's stream, and serves every algorithm, protocol and way between nodes.
 * One that does not come to its end on this rank ends collectives here, because other ranks may have taken part in the
 * steps so far.
 *
 * The application's thread makes calls; where the room is made and mapped, the engine lives.
 */
#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "collective/coll_parts.h"
#include "collective/coll_setup.h"

/* Bytes of the room. With exact sums an element takes 17 at most: a million of them stay in the L2 of a GPU, and are
   many enough for its bandwidth. */
enum { ROOM_EXACT_GPU = 17 << 20, ROOM_EXACT_SOFT = 17 << 16, ROOM_GPU = 8 << 20, ROOM_SOFT = 1 << 19,
       ROOM_OF_RANK = 17 * 16 };

/* --- the room ----------------------------------------------------------------------------------------------------- */

static uint64_t bytes_of_room(const sv_device_t *dev, int ranks, bool exact)
{
    const uint64_t usual = sv_coll_is_soft(dev) ? (exact ? ROOM_EXACT_SOFT : ROOM_SOFT)
                                                : (exact ? ROOM_EXACT_GPU : ROOM_GPU);
    const uint64_t least = (uint64_t)ranks * ROOM_OF_RANK; /* blocks of a chunk have a unit each */
    return (usual < least ? least : usual) + SV_COLL_ROOM_UNIT;
}

selvage_status_t sv_coll_room_make(sv_coll_arena_t *arena, int ranks, bool exact)
{
    sv_device_t *dev = arena->comm->dev;
    sv_coll_room_t *room;
    void *ptr;
    if (arena->room)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_calloc(1, sizeof *room, &room));
    arena->room = room; /* from here on freed with the arena */
    selvage_status_t status;
    SV_TRY_GOTO(status, SV_DEVICE_CALL(dev, event_create, &room->used), fail);
    SV_TRY_GOTO(status, SV_DEVICE_CALL(dev, event_create, &room->joined), fail);
    if (ranks == 1) /* whose groups need an event, and no memory */
        return SELVAGE_SUCCESS;
    room->bytes = bytes_of_room(dev, ranks, exact);
    SV_TRY_GOTO(status, SV_DEVICE_CALL(dev, malloc, room->bytes, &ptr), fail);
    room->memory = ptr;
    sv_log(SV_LOG_INFO, "collective", "calls made of others: %llu bytes of device memory",
           (unsigned long long)room->bytes);
    return SELVAGE_SUCCESS;
fail:
    sv_coll_room_free(arena, true);
    return status;
}

void sv_coll_room_free(sv_coll_arena_t *arena, bool unmapped)
{
    sv_device_t *dev = arena->comm->dev;
    sv_coll_room_t *room = arena->room;
    if (!room)
        return;
    if (room->used)
        SV_DEVICE_CALL(dev, event_destroy, room->used);
    if (room->joined)
        SV_DEVICE_CALL(dev, event_destroy, room->joined);
    if (unmapped && room->memory)
        SV_DEVICE_CALL(dev, free, room->memory);
    sv_free(room);
    arena->room = NULL;
}

selvage_status_t sv_coll_room_map(selvage_coll_t *coll)
{
    const sv_coll_room_t *room = coll->arena->room;
    if (!room || coll->dev.n == 1)
        return SELVAGE_SUCCESS;
    return sv_coll_window_own(coll, room->memory, room->bytes);
}

bool sv_coll_room_drain(sv_coll_arena_t *arena, double timeout_s)
{
    const sv_coll_room_t *room = arena->room;
    sv_backoff_t backoff = {.max_sleep_us = 100, .oversubscribed = arena->comm->topology.oversubscribed};
    const uint64_t begin_ns = sv_clock_ns();
    while (room && SV_DEVICE_CALL(arena->comm->dev, event_query, room->used) == SELVAGE_IN_PROGRESS) {
        if (timeout_s >= 0 && (double)(sv_clock_ns() - begin_ns) * 1e-9 > timeout_s)
            return false;
        sv_backoff(&backoff);
    }
    return true;
}

/* --- a call ------------------------------------------------------------------------------------------------------- */

sv_coll_call_t sv_coll_part_of(const sv_coll_call_t *whole, unsigned call, unsigned type, const void *send, void *recv,
                               uint64_t count)
{
    sv_coll_call_t part = {.call = (uint8_t)call, .type = (uint8_t)type, .root = -1, .send = send, .recv = recv,
                           .count = count, .stream = whole->stream, .captured = whole->captured,
                           .whole = whole->whole};
    if (!part.whole.type)
        part.whole = (sv_coll_whole_t){.call = whole->call, .type = whole->type,
                                       .op = (uint8_t)(SV_COLL_SIGNED_EXACT | sv_coll_signed_operation(whole)),
                                       .root = whole->root, .count = whole->count};
    return part;
}

static selvage_status_t enqueue_steps(selvage_coll_t *coll, const sv_coll_call_t *call)
{
    if (!call->captured)
        SV_TRY(SV_DEVICE_CALL(coll->comm->dev, stream_wait_event, call->stream, coll->arena->room->used));
    return call->composed == SV_COLL_EXACT_SUM ? sv_coll_exact_enqueue(coll, call) : sv_coll_fold_enqueue(coll, call);
}

selvage_status_t sv_coll_composed_enqueue(selvage_coll_t *coll, const sv_coll_call_t *call)
{
    if (coll->size == 1) /* of no use to others, and without memory */
        return sv_coll_fold_enqueue(coll, call);
    selvage_status_t status = enqueue_steps(coll, call);
    if (status != SELVAGE_SUCCESS)
        sv_coll_note_failure(coll->arena, status);
    if (call->captured)
        return status;
    /* After a failure, too: what was enqueued uses the room. */
    const selvage_status_t recorded = SV_DEVICE_CALL(coll->comm->dev, event_record, coll->arena->room->used,
                                                     call->stream);
    if (status == SELVAGE_SUCCESS && recorded != SELVAGE_SUCCESS)
        sv_coll_note_failure(coll->arena, recorded);
    return status != SELVAGE_SUCCESS ? status : recorded;
}

/* --- a group ------------------------------------------------------------------------------------------------------ */

/* The stream of the first call waits for those of all others. */
static selvage_status_t join_streams(const selvage_coll_t *coll, const sv_coll_call_t *calls, unsigned ncalls)
{
    sv_device_t *dev = coll->comm->dev;
    sv_event_t *joined = coll->arena->room->joined;
    for (unsigned i = 1; i < ncalls; i++) {
        if (!sv_coll_is_new_stream(calls, i))
            continue;
        SV_TRY(SV_DEVICE_CALL(dev, event_record, joined, calls[i].stream));
        SV_TRY(SV_DEVICE_CALL(dev, stream_wait_event, calls[0].stream, joined));
    }
    return SELVAGE_SUCCESS;
}

/* All others wait for that of the first call. */
static selvage_status_t part_streams(const selvage_coll_t *coll, const sv_coll_call_t *calls, unsigned ncalls)
{
    sv_device_t *dev = coll->comm->dev;
    sv_event_t *joined = coll->arena->room->joined;
    bool recorded = false;
    for (unsigned i = 1; i < ncalls; i++) {
        if (!sv_coll_is_new_stream(calls, i))
            continue;
        if (!recorded)
            SV_TRY(SV_DEVICE_CALL(dev, event_record, joined, calls[0].stream));
        recorded = true;
        SV_TRY(SV_DEVICE_CALL(dev, stream_wait_event, calls[i].stream, joined));
    }
    return SELVAGE_SUCCESS;
}

/* Moves the calls that are not composed to the front, in their order. Returns how many there are. */
static unsigned move_others(sv_coll_call_t *calls, unsigned ncalls)
{
    unsigned others = 0;
    for (unsigned i = 0; i < ncalls; i++) {
        if (calls[i].composed)
            continue;
        const sv_coll_call_t call = calls[i];
        calls[i] = calls[others];
        calls[others++] = call;
    }
    return others;
}

static selvage_status_t enqueue_group(selvage_coll_t *coll, sv_coll_call_t *calls, unsigned ncalls)
{
    /* 1. Composed calls one after the other, after what is on all streams. */
    SV_TRY(join_streams(coll, calls, ncalls));
    for (unsigned i = 0; i < ncalls; i++) {
        sv_coll_call_t call = calls[i];
        call.stream = calls[0].stream;
        if (call.composed)
            SV_TRY(sv_coll_composed_enqueue(coll, &call));
    }
    SV_TRY(part_streams(coll, calls, ncalls));
    /* 2. All other calls as one launch, which joins their streams itself; the others' streams wait for it, too. */
    const unsigned others = move_others(calls, ncalls);
    if (others == 0)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_coll_enqueue(coll, calls, others));
    return part_streams(coll, calls, ncalls);
}

selvage_status_t sv_coll_composed_group(selvage_coll_t *coll, sv_coll_call_t *calls, unsigned ncalls)
{
    SV_TRY(sv_coll_refuse_captured_group(calls, ncalls));
    const selvage_status_t status = enqueue_group(coll, calls, ncalls);
    if (status != SELVAGE_SUCCESS) /* some of it may be on its way, on this rank and on others */
        sv_coll_note_failure(coll->arena, status);
    return status;
}
