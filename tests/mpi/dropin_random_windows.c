/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An epoch on a window, for dropin_random: see dropin_random.h. Each rank has a window of its own kind of memory, in
 * which each other rank has a block, and each operation of that rank a part of the block. So none meets another.
 */
#include "dropin_random.h"

#include <stdio.h>

#include "fixtures/check.h"

enum { OPERATIONS = 4, WINDOW = 0, ORIGIN = 1, RESULT = ORIGIN + OPERATIONS };
enum { FENCE, LOCK_ALL, LOCK_EACH, START, SYNCS };
enum { PUT, GET, ACCUMULATE, GET_ACCUMULATE, FETCH, KINDS };

/* One of the operations of this rank. */
typedef struct operation {
    unsigned kind;
    int target, n;
    MPI_Aint at; /* in the target's window, in elements */
    MPI_Op op;
    shape_t shape, result_shape;
    place_t origin, result;
} operation_t;

typedef struct epoch {
    element_t element;
    int room, count; /* elements that each operation has at most, and operations of each rank */
    unsigned sync;
    bool flushes;
    operation_t operations[OPERATIONS];
    place_t window;
} epoch_t;

#define CALL(name, ...) (plain ? PMPI_##name(__VA_ARGS__) : MPI_##name(__VA_ARGS__))

static void open_operation(const epoch_t *e, operation_t *o, int i)
{
    *o = (operation_t){.kind = draw(KINDS, "operation", i, now.rank),
                       .target = (int)draw((unsigned)now.size, "target", i, now.rank)};
    o->n = o->kind == FETCH ? 1 : (int)draw((unsigned)e->room + 1, "length", i, now.rank);
    o->at = (MPI_Aint)(now.me * e->count + i) * (e->room + 1); /* fetches have room in parts of none */
    o->op = draw(2, "sum", i, now.rank) ? MPI_SUM : MPI_REPLACE;
    o->shape = make_shape(e->element, o->n, i, o->kind == FETCH);
    o->result_shape = make_shape(e->element, o->n, OPERATIONS + i, o->kind == FETCH);
    o->origin = open_place(ORIGIN + i, o->shape.span, e->element);
    o->result = open_place(RESULT + i, o->result_shape.span, e->element);
    if (now.says)
        printf("step %d, rank %d: operation %u, %d elements at %d of %d, out of memory %d, into memory %d, %s\n",
               now.step, now.rank, o->kind, o->n, (int)o->at, o->target, o->origin.memory, o->result.memory,
               o->op == MPI_SUM ? "sum" : "replace");
}

static void run_operation(const epoch_t *e, const operation_t *o, MPI_Win window, bool plain)
{
    void *origin = side_of(&o->origin, plain), *result = side_of(&o->result, plain);
    const shape_t *shape = &o->shape, *to = &o->result_shape;
    MPI_Datatype const type = e->element.type;
    int code = MPI_SUCCESS;
    if (e->sync == LOCK_EACH)
        CALL(Win_lock, MPI_LOCK_SHARED, o->target, 0, window);
    switch (o->kind) {
    case PUT:
        code = CALL(Put, origin, shape->count, shape->type, o->target, o->at, o->n, type, window);
        break;
    case GET:
        code = CALL(Get, result, to->count, to->type, o->target, o->at, o->n, type, window);
        break;
    case ACCUMULATE:
        code = CALL(Accumulate, origin, shape->count, shape->type, o->target, o->at, o->n, type, o->op, window);
        break;
    case GET_ACCUMULATE:
        code = CALL(Get_accumulate, origin, shape->count, shape->type, result, to->count, to->type, o->target, o->at,
                    o->n, type, o->op, window);
        break;
    default:
        code = CALL(Fetch_and_op, origin, result, type, o->target, o->at, o->op, window);
        break;
    }
    CHECK_EQ(code, MPI_SUCCESS);
    if (e->flushes && e->sync == LOCK_ALL)
        CALL(Win_flush, o->target, window);
    if (e->sync == LOCK_EACH)
        CALL(Win_unlock, o->target, window);
}

static void run_epoch(const epoch_t *e, bool plain)
{
    const size_t elements = (size_t)now.size * (size_t)e->count * (size_t)(e->room + 1);
    MPI_Win window;
    MPI_Group group;
    CALL(Win_create, side_of(&e->window, plain), (MPI_Aint)elements * e->element.bytes, e->element.bytes,
         MPI_INFO_NULL, comm_of(plain), &window);
    CALL(Comm_group, comm_of(plain), &group);
    if (e->sync == FENCE)
        CALL(Win_fence, 0, window);
    if (e->sync == LOCK_ALL)
        CALL(Win_lock_all, 0, window);
    if (e->sync == START) {
        CALL(Win_post, group, 0, window);
        CALL(Win_start, group, 0, window);
    }
    for (int i = 0; i < e->count; i++)
        run_operation(e, &e->operations[i], window, plain);
    if (e->sync == FENCE)
        CALL(Win_fence, 0, window);
    if (e->sync == LOCK_ALL)
        CALL(Win_unlock_all, window);
    if (e->sync == START) {
        CALL(Win_complete, window);
        CALL(Win_wait, window);
    }
    CALL(Group_free, &group);
    CALL(Barrier, comm_of(plain));
    CALL(Win_free, &window);
}

void access_windows(void)
{
    epoch_t e = {.element = draw_element(0), .count = 1 + (int)draw_alike(OPERATIONS, "operations", 0),
                 .sync = draw_alike(SYNCS, "sync", 0), .flushes = draw_alike(2, "flush", 0)};
    if (e.element.bytes == 1) /* which all operations take */
        e.element = (element_t){MPI_INT, 4};
    e.room = draw_count("room", 0, ELEMENTS_MOST / now.size / e.count - 1);
    snprintf(now.text, sizeof now.text, "%d operations of each of %d ranks on windows, up to %d elements of %d bytes, "
             "sync %u%s", e.count, now.size, e.room, e.element.bytes, e.sync, e.flushes ? ", flushed" : "");
    if (now.says && now.rank == 0)
        printf("step %d: %s\n", now.step, now.text);
    fflush(stdout);
    e.window = open_window_place(
        WINDOW, (size_t)now.size * (size_t)e.count * (size_t)(e.room + 1) * (size_t)e.element.bytes, e.element);
    for (int i = 0; i < e.count; i++)
        open_operation(&e, &e.operations[i], i);
    for (int plain = 0; plain < 2; plain++)
        run_epoch(&e, plain);
    check_place(&e.window);
    for (int i = 0; i < e.count; i++) {
        operation_t *o = &e.operations[i];
        check_place(&o->origin);
        check_place(&o->result);
        free_shape(&o->shape);
        free_shape(&o->result_shape);
    }
}
