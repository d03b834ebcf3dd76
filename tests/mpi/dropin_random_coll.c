/* SPDX-License-Identifier: BSD-3-Clause */
/* A collective call, for dropin_random: see dropin_random.h. */
#include "dropin_random.h"

#include <stdio.h>

#include "fixtures/check.h"

/* Ranks are few. */
enum { RANKS = 16, OUT = 0, IN = 1 };

typedef enum which {
    BCAST, REDUCE, ALLREDUCE, SCAN, EXSCAN, BLOCKS, UNEQUAL, GATHER, SCATTER, ALLGATHER, ALLTOALL, GATHERV, SCATTERV,
    ALLGATHERV, ALLTOALLV, NEIGHBORS, NEIGHBORS_EACH, CALLS
} which_t;

/* What both calls of a step are. */
typedef struct call {
    which_t which;
    element_t element;
    MPI_Op op;
    int n, root;
    bool in_place, waits; /* it has a request, and is waited for */
    shape_t out, in;
    place_t from, to;
    int counts[RANKS], displs[RANKS]; /* of what this rank sends */
    int in_counts[RANKS], in_displs[RANKS];
} call_t;

#define CALL(name, ...) (plain ? PMPI_##name(__VA_ARGS__) : MPI_##name(__VA_ARGS__))
/* The same by a request. */
#define DO(name, small, ...) (c->waits ? CALL(I##small, __VA_ARGS__, &request) : CALL(name, __VA_ARGS__))

static bool reduces(which_t which)
{
    return which >= REDUCE && which <= UNEQUAL;
}

/* Elements from rank a to rank b, where it is not the same for all. */
static int count_between(const call_t *c, int a, int b)
{
    return c->n / 2 + (int)draw_alike((unsigned)c->n / 2 + 1, "between", a * RANKS + b);
}

/* Displacements with gaps; but MPICH 4.0 ignores that of a rank alone. Returns the end, in elements. */
static int lay_out(const int *counts, int *displs, int item)
{
    int at = 0;
    for (int i = 0; i < now.size; i++) {
        displs[i] = at + (now.size > 1 ? (int)draw(3, "hole", item * RANKS + i, now.rank) : 0);
        at = displs[i] + counts[i];
    }
    return at;
}

/* Which elements go where, for calls with lists. Sets how many elements both buffers have. */
static void draw_lists(call_t *c, int *out_out, int *in_out)
{
    for (int i = 0; i < now.size; i++) {
        const bool each = c->which == ALLTOALLV, gathers = c->which == GATHERV || c->which == ALLGATHERV;
        c->counts[i] = each ? count_between(c, now.me, i) : count_between(c, i, 0);
        c->in_counts[i] = each ? count_between(c, i, now.me) : gathers ? c->counts[i] : 0;
    }
    const int own = count_between(c, now.me, 0), out = lay_out(c->counts, c->displs, OUT);
    const int in = lay_out(c->in_counts, c->in_displs, IN);
    *out_out = c->which == GATHERV || c->which == ALLGATHERV ? own : out;
    *in_out = c->which == SCATTERV || c->which == UNEQUAL ? own : in;
    if (c->which == UNEQUAL) {
        *out_out = 0;
        for (int i = 0; i < now.size; i++)
            *out_out += c->counts[i];
    }
}

/* The buffers. Of the calls without lists that only move, each rank has types of its own. */
static void open_call(call_t *c)
{
    const int size = now.size;
    const bool listed = c->which == UNEQUAL || (c->which >= GATHERV && c->which <= ALLTOALLV);
    int out = c->n, in = c->n;
    if (listed)
        draw_lists(c, &out, &in);
    const bool plain = listed || reduces(c->which);
    c->out = make_shape(c->element, out, OUT, plain);
    c->in = make_shape(c->element, in, IN, plain);
    size_t out_span = c->out.span, in_span = c->in.span;
    if (c->which == BLOCKS || c->which == ALLTOALL || c->which == SCATTER)
        out_span += c->out.pitch * (size_t)(size - 1);
    if (c->which == GATHER || c->which == ALLGATHER || c->which == ALLTOALL)
        in_span += c->in.pitch * (size_t)(size - 1);
    /* Two neighbours. */
    out_span += c->which == NEIGHBORS_EACH ? c->out.pitch : 0;
    in_span += c->which == NEIGHBORS || c->which == NEIGHBORS_EACH ? c->in.pitch : 0;
    if (c->in_place && out_span > in_span && reduces(c->which)) /* it has what both would have */
        in_span = out_span;
    c->from = open_place(OUT, out_span, c->element);
    c->to = open_place(IN, in_span, c->element);
}

/* Reductions. */
static int reduce_something(const call_t *c, bool plain, MPI_Request *pending)
{
    const bool is_root = now.me == c->root;
    const void *from = c->in_place && (c->which != REDUCE || is_root) ? MPI_IN_PLACE : side_of(&c->from, plain);
    void *to = side_of(&c->to, plain);
    MPI_Datatype const type = c->element.type;
    MPI_Comm const comm = comm_of(plain);
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_SUCCESS;
    switch (c->which) {
    case REDUCE: code = DO(Reduce, reduce, from, to, c->n, type, c->op, c->root, comm); break;
    case ALLREDUCE: code = DO(Allreduce, allreduce, from, to, c->n, type, c->op, comm); break;
    case SCAN: code = DO(Scan, scan, from, to, c->n, type, c->op, comm); break;
    case EXSCAN: code = DO(Exscan, exscan, from, to, c->n, type, c->op, comm); break;
    case BLOCKS: code = DO(Reduce_scatter_block, reduce_scatter_block, from, to, c->n, type, c->op, comm); break;
    default: code = DO(Reduce_scatter, reduce_scatter, from, to, c->counts, type, c->op, comm); break;
    }
    *pending = request;
    return code;
}

/* Moves of blocks. */
static int move_something(const call_t *c, bool plain, MPI_Request *pending)
{
    const bool is_root = now.me == c->root, own = c->in_place && is_root;
    const shape_t *out = &c->out, *in = &c->in;
    void *from = side_of(&c->from, plain), *to = side_of(&c->to, plain);
    MPI_Datatype const type = c->element.type;
    MPI_Comm const comm = comm_of(plain);
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_SUCCESS;
    switch (c->which) {
    case BCAST:
        code = is_root ? DO(Bcast, bcast, from, out->count, out->type, c->root, comm)
                       : DO(Bcast, bcast, to, in->count, in->type, c->root, comm);
        break;
    case GATHER:
        code = DO(Gather, gather, own ? MPI_IN_PLACE : from, out->count, out->type, to, in->count, in->type,
                  c->root, comm);
        break;
    case SCATTER:
        code = DO(Scatter, scatter, from, out->count, out->type, own ? MPI_IN_PLACE : to, in->count, in->type,
                  c->root, comm);
        break;
    case ALLGATHER:
        code = DO(Allgather, allgather, c->in_place ? MPI_IN_PLACE : from, out->count, out->type, to, in->count,
                  in->type, comm);
        break;
    case ALLTOALL:
        code = DO(Alltoall, alltoall, c->in_place ? MPI_IN_PLACE : from, out->count, out->type, to, in->count, in->type,
                      comm);
        break;
    case GATHERV:
        code = DO(Gatherv, gatherv, own ? MPI_IN_PLACE : from, out->n, type, to, c->in_counts, c->in_displs, type,
                  c->root, comm);
        break;
    case SCATTERV:
        code = DO(Scatterv, scatterv, from, c->counts, c->displs, type, own ? MPI_IN_PLACE : to, in->n, type,
                  c->root, comm);
        break;
    case ALLGATHERV:
        code = DO(Allgatherv, allgatherv, c->in_place ? MPI_IN_PLACE : from, out->n, type, to, c->in_counts,
                  c->in_displs, type, comm);
        break;
    case NEIGHBORS:
        code = DO(Neighbor_allgather, neighbor_allgather, from, out->count, out->type, to, in->count, in->type,
                  line_of(plain));
        break;
    case NEIGHBORS_EACH:
        code = DO(Neighbor_alltoall, neighbor_alltoall, from, out->count, out->type, to, in->count, in->type,
                  line_of(plain));
        break;
    default:
        code = DO(Alltoallv, alltoallv, from, c->counts, c->displs, type, to, c->in_counts, c->in_displs, type, comm);
        break;
    }
    *pending = request;
    return code;
}

/* Where MPI leaves open what is in a buffer after the call, it is not compared. */
static void leave_out(call_t *c)
{
    if (c->which == EXSCAN && now.me == 0 && !c->in_place)
        c->to.compared = 0;
    if (c->in_place && c->which == BLOCKS)
        c->to.compared = (size_t)c->n * (size_t)c->element.bytes;
    if (c->in_place && c->which == UNEQUAL)
        c->to.compared = (size_t)c->counts[now.me] * (size_t)c->element.bytes;
}

void call_all(void)
{
    const MPI_Op known[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_PROD, MPI_BXOR, MPI_LOR, MPI_BAND, MPI_LXOR};
    call_t c = {.which = draw_alike(CALLS, "call", 0)};
    c.element = draw_element(0);
    if (reduces(c.which) && c.element.bytes == 1)
        c.element = (element_t){MPI_SIGNED_CHAR, 1};
    const bool real = c.element.type == MPI_DOUBLE || c.element.type == MPI_FLOAT;
    c.op = known[draw_alike(real ? 4 : 8, "operation", 0)];
    if (reduces(c.which) && draw_alike(6, "pairs", 0) == 0) {
        c.element = (element_t){MPI_2INT, 8};
        c.op = draw_alike(2, "operation", 1) ? MPI_MINLOC : MPI_MAXLOC;
    }
    c.n = draw_count("elements", 0, ELEMENTS_MOST / (now.size + 1));
    c.root = (int)draw_alike((unsigned)now.size, "root", 0);
    c.in_place = draw_alike(4, "in place", 0) == 0 && c.which != BCAST && c.which < ALLTOALLV;
    c.waits = draw_alike(3, "request", 0) == 0;
    snprintf(now.text, sizeof now.text, "call %d of %d ranks, root %d, %d elements of %d bytes%s%s", c.which, now.size,
             c.root, c.n, c.element.bytes, c.in_place ? ", in place" : "", c.waits ? ", by a request" : "");
    if (now.says && now.rank == 0)
        printf("step %d: %s\n", now.step, now.text);
    fflush(stdout);
    open_call(&c);
    for (int plain = 0; plain < 2; plain++) {
        MPI_Request request = MPI_REQUEST_NULL;
        const int code = (reduces(c.which) ? reduce_something : move_something)(&c, plain, &request);
        CHECK_EQ(code, MPI_SUCCESS);
        CHECK_EQ(CALL(Wait, &request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    }
    leave_out(&c);
    check_place(&c.from);
    check_place(&c.to);
    free_shape(&c.out);
    free_shape(&c.in);
}
