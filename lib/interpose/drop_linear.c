/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gathers, scatters and their kin on the fast route: as messages from each rank's device buffer to each other's, if
 * every rank gives device memory. The messages are those of drop_message.c, so that each goes by the route if it is
 * long enough and there is room, and is staged otherwise. A rank's block for itself is copied on the device.
 *
 *   root    sv_drop_irecv(block of each rank) ... copy its own ... MPI_Waitall
 *   others  sv_drop_isend_any(block)                           ... MPI_Waitall
 *
 * The ranks agree on that in each call (drop_agree.c). Where all ranks know how long the blocks are, only calls with
 * blocks as long as messages of the route ask. Otherwise each call asks, and the ranks say how long theirs are.
 *
 * The messages are on the communicator of the drop-in's that has all ranks of the job, whatever the program's one is:
 * two ranks come to the calls that they share in the same order, whichever communicators those are on. MPI keeps the
 * order of messages between two ranks, and nobody else has any there.
 *
 * One thread at a time makes such calls, as with several threads they take the route on MPI_COMM_WORLD only. A call
 * owns its requests, all of which have ended when it returns, also if one of them has failed.
 */
#include "interpose/drop_linear.h"
#include "interpose/drop_agree.h"
#include "interpose/drop_plan.h"
#include "interpose/drop_raise.h"
#include "interpose/drop_route.h"

#include <limits.h>
#include <stdlib.h>

enum { EACH = -1, NOBODY = -2 };

/* The counts and displacements of blocks, in either form. NULL displacements: the blocks lie in a row. */
typedef struct lists {
    const int *counts, *displs;
    const MPI_Count *large_counts;
    const MPI_Aint *large_displs;
} lists_t;

/* One buffer of a call. peer: the one rank that it has a block for, EACH or NOBODY. */
typedef struct side {
    const void *buf;
    MPI_Datatype type;
    int peer;
    bool same;     /* each rank gets the same block */
    bool listed;   /* the blocks are as the lists say, and else have count elements each */
    int64_t count;
    lists_t lists;
    sv_drop_type_t info; /* of the type, if it is one */
} side_t;

typedef struct exchange {
    const char *name;
    MPI_Comm comm;
    int tag, n, me;
    bool in_place; /* what this rank has for itself is where it belongs */
    bool unfit;    /* for the route: MPI is to make this call, or to refuse it */
    side_t out, in;
} exchange_t;

typedef struct block {
    char *at;
    int64_t count;
    size_t bytes; /* of its elements */
} block_t;

/* What messages of these calls have as their tag. */
enum { GATHER_TAG = 1, SCATTER_TAG, ALLGATHER_TAG, ALLTOALL_TAG };

/* --- blocks ------------------------------------------------------------------------------------------------------- */

static int64_t count_for(const side_t *side, int peer)
{
    if (side->peer != EACH && side->peer != peer)
        return 0;
    if (!side->listed)
        return side->count;
    return side->lists.counts ? side->lists.counts[peer] : (int64_t)side->lists.large_counts[peer];
}

static bool has_lists(const side_t *side)
{
    return !side->listed || ((side->lists.counts || side->lists.large_counts) &&
                             (side->lists.displs || side->lists.large_displs));
}

/* A block without elements has no place. The type must be one, and the lists be there. */
static block_t block_for(const side_t *side, int peer)
{
    block_t block = {.count = count_for(side, peer)};
    block.bytes = (size_t)(block.count * side->info.bytes);
    if (block.bytes == 0)
        return block;
    int64_t first = 0; /* in elements */
    if (side->peer == EACH && !side->same && !side->listed)
        first = peer * side->count;
    else if (side->peer == EACH && !side->same)
        first = side->lists.displs ? side->lists.displs[peer] : (int64_t)side->lists.large_displs[peer];
    block.at = (char *)((uintptr_t)side->buf + (uintptr_t)(first * side->info.extent));
    return block;
}

/* --- what MPI refuses, and what the route takes ------------------------------------------------------------------- */

/* Whether it is certain that MPI refuses this side. What it says of a type without elements is for MPI to say. */
static bool is_side_refused(const side_t *side, int n)
{
    bool any = false;
    if (side->peer != NOBODY && side->listed && !side->lists.counts && !side->lists.large_counts)
        return true;
    for (int i = 0; i < n; i++) {
        if (count_for(side, i) < 0)
            return true;
        any = any || count_for(side, i) > 0;
    }
    return any && sv_drop_mpi_refuses(side->type, MPI_OP_NULL);
}

/* The memory from the first block to the last. */
typedef struct span {
    uintptr_t low, high;
} span_t;

static void add_to_span(span_t *span, const block_t *block, const sv_drop_type_t *info)
{
    const int64_t reach = (block->count - 1) * info->extent;
    const uintptr_t at = (uintptr_t)block->at + (uintptr_t)info->true_lb;
    const uintptr_t first = at + (uintptr_t)(reach < 0 ? reach : 0);
    const uintptr_t end = at + (uintptr_t)(info->true_extent + (reach > 0 ? reach : 0));
    span->low = span->high == 0 || first < span->low ? first : span->low;
    span->high = end > span->high ? end : span->high;
}

/* Of a type that cannot be taken apart, the gaps of a block come up again with it. They may be other blocks. */
static bool keeps_gaps_of_others(const side_t *side, const block_t *block)
{
    if (side->peer != EACH || side->info.named || side->info.dense)
        return false;
    sv_drop_plan_t *plan = sv_drop_plan_get(side->type, block->count, block->at);
    const bool opaque = !plan->pack;
    sv_drop_plan_put(plan);
    return opaque;
}

/* Whether all blocks lie in memory of the route's device and can be messages. */
static bool is_side_fit(side_t *side, int n, bool receives, span_t *span)
{
    bool fit = true;
    if (side->peer == NOBODY)
        return true;
    if (side->buf == MPI_IN_PLACE || !has_lists(side) || !sv_drop_type(side->type, &side->info) ||
        !sv_drop_type_is_committed(side->type))
        return false;
    for (int i = 0; i < n && fit; i++) {
        const block_t block = block_for(side, i);
        if (block.bytes == 0)
            continue;
        const char *first = (const char *)((uintptr_t)block.at + (uintptr_t)side->info.true_lb);
        fit = block.count <= INT_MAX && sv_drop_is_fit(first, 1) &&
              (side->info.named || !sv_drop_type_reaches_host(block.at, side->type)) &&
              !(receives && keeps_gaps_of_others(side, &block));
        add_to_span(span, &block, &side->info);
    }
    return fit;
}

static bool is_exchange_fit(exchange_t *x)
{
    span_t out = {0, 0}, in = {0, 0};
    if (x->unfit || !is_side_fit(&x->out, x->n, false, &out) || !is_side_fit(&x->in, x->n, true, &in) ||
        sv_drop_is_stuck())
        return false;
    if (x->in_place)
        return true;
    return block_for(&x->out, x->me).bytes == block_for(&x->in, x->me).bytes &&
           (out.high <= in.low || in.high <= out.low);
}

/* --- the messages ------------------------------------------------------------------------------------------------- */

/* Requests of a call, and the first error of any. */
typedef struct pending {
    MPI_Request *request;
    int n, code;
} pending_t;

static void note_error(pending_t *pending, int code)
{
    pending->code = pending->code == MPI_SUCCESS ? code : pending->code;
}

static void begin_recv_block(const exchange_t *x, int peer, pending_t *pending)
{
    const block_t block = block_for(&x->in, peer);
    MPI_Request request = MPI_REQUEST_NULL;
    if (block.bytes == 0)
        return;
    note_error(pending, sv_drop_irecv(x->name, block.at, (int)block.count, x->in.type,
                                      sv_drop_world_rank(x->comm, peer), x->tag, sv_drop_route.own, &request));
    if (request != MPI_REQUEST_NULL)
        pending->request[pending->n++] = request;
}

static void begin_send_block(const exchange_t *x, int peer, pending_t *pending)
{
    const block_t block = block_for(&x->out, peer);
    MPI_Request request = MPI_REQUEST_NULL;
    if (block.bytes == 0)
        return;
    note_error(pending, sv_drop_isend_any(x->name, SV_DROP_ALONE, block.at, (int)block.count, x->out.type,
                                          sv_drop_world_rank(x->comm, peer), x->tag, sv_drop_route.own, &request));
    if (request != MPI_REQUEST_NULL)
        pending->request[pending->n++] = request;
}

static int exchange_blocks(const exchange_t *x)
{
    const size_t most = 2 * (size_t)x->n;
    pending_t pending = {.request = malloc(most * sizeof *pending.request), .code = MPI_SUCCESS};
    MPI_Status *statuses = malloc(most * sizeof *statuses);
    sv_drop_flow_t flow = {0};
    const block_t from = block_for(&x->out, x->me), to = block_for(&x->in, x->me);
    if (!pending.request || !statuses)
        sv_drop_fatal("no memory", x->name);
    /* The own block is copied on the device: after the program's work, and not while a kernel keeps the device. A
       message to oneself does the rest. */
    bool copies = !x->in_place && from.bytes > 0 && x->out.info.dense && x->in.info.dense;
    if (copies) {
        sv_drop_settle();
        copies = !sv_drop_is_stuck();
    }
    /* Each rank begins with another peer. The rank itself comes first if it is one. */
    for (int i = copies || x->in_place; i < x->n; i++)
        begin_recv_block(x, (x->me + x->n - i) % x->n, &pending);
    if (copies)
        sv_drop_copy(&flow, to.at, from.at, from.bytes, SELVAGE_COPY_DEVICE_TO_DEVICE);
    for (int i = copies || x->in_place; i < x->n; i++)
        begin_send_block(x, (x->me + i) % x->n, &pending);
    const int code = MPI_Waitall(pending.n, pending.request, statuses);
    if (code != MPI_ERR_IN_STATUS)
        note_error(&pending, code);
    for (int i = 0; i < pending.n && code == MPI_ERR_IN_STATUS; i++)
        if (statuses[i].MPI_ERROR != MPI_ERR_PENDING)
            note_error(&pending, statuses[i].MPI_ERROR);
    sv_drop_flow_end(&flow);
    free(statuses);
    free(pending.request);
    return pending.code;
}

/* Makes the call on the route, if all ranks can. is_long: all of them know that there are long messages. */
static bool make_exchange(exchange_t *x, bool is_long, int *code)
{
    if (is_side_refused(&x->out, x->n) || is_side_refused(&x->in, x->n))
        return false;
    const bool fit = is_exchange_fit(x);
    int64_t most = 0; /* of the longest message that this rank has for another one: elements, then bytes */
    MPI_Count each = 0;
    for (int i = 0; i < x->n && !is_long; i++)
        most = i != x->me && count_for(&x->out, i) > most ? count_for(&x->out, i) : most;
    most = most > 0 && PMPI_Type_size_x(x->out.type, &each) == MPI_SUCCESS ? most * each : 0;
    if (!(is_long ? sv_drop_agree(x->comm, fit) : sv_drop_agree_on_length(x->comm, fit, most)))
        return false;
    *code = exchange_blocks(x);
    if (*code != MPI_SUCCESS) {
        sv_drop_warn("%s failed on the fast route", x->name);
        (void)sv_drop_raise(x->comm, *code);
        return true;
    }
    /* What this rank gives: a block that all get counts once. */
    size_t given_bytes = 0;
    for (int i = 0; i < (x->out.same ? 1 : x->n); i++)
        given_bytes += block_for(&x->out, i).bytes;
    sv_drop_count_all(x->name, "fast", (int64_t)given_bytes);
    return true;
}

/* --- the calls ---------------------------------------------------------------------------------------------------- */

/* A call on a communicator that calls of these can take the route on; false: on none. */
static bool begin_exchange(const char *name, int tag, MPI_Comm comm, exchange_t *x_out)
{
    if (!sv_drop_reaches(comm))
        return false;
    *x_out = (exchange_t){.name = name, .comm = comm, .tag = tag, .n = sv_drop_size(comm), .me = sv_drop_rank(comm)};
    return x_out->n > 1;
}

static side_t side_of(const void *buf, MPI_Count count, MPI_Datatype type, int peer)
{
    return (side_t){.buf = buf, .type = type, .peer = peer, .count = count};
}

static side_t listed_side(const void *buf, const lists_t *lists, MPI_Datatype type, int peer)
{
    return (side_t){.buf = buf, .type = type, .peer = peer, .listed = true, .lists = *lists};
}

/* A gather and, the other way round, a scatter. root_side: the root's, with a block for each rank. */
static bool make_rooted(exchange_t *x, side_t root_side, side_t leaf_side, int root, bool gathers, bool is_long,
                        int *code)
{
    const bool is_root = x->me == root;
    x->in_place = is_root && leaf_side.buf == MPI_IN_PLACE;
    leaf_side.peer = x->in_place ? NOBODY : root;
    root_side.peer = is_root ? EACH : NOBODY;
    x->out = gathers ? leaf_side : root_side;
    x->in = gathers ? root_side : leaf_side;
    return make_exchange(x, is_long, code);
}

bool sv_drop_fast_Gather(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                         MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, int *code)
{
    exchange_t x;
    if (!sv_drop_agree_begin() || !sv_drop_has_rank(comm, root))
        return false;
    const bool is_root = sv_drop_rank(comm) == root;
    return sv_drop_fast_takes(is_root ? recvcount : sendcount, is_root ? recvtype : sendtype) &&
           begin_exchange("MPI_Gather", GATHER_TAG, comm, &x) &&
           make_rooted(&x, side_of(recvbuf, recvcount, recvtype, EACH), side_of(sendbuf, sendcount, sendtype, root),
                       root, true, true, code);
}

bool sv_drop_fast_Scatter(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                          MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, int *code)
{
    exchange_t x;
    if (!sv_drop_agree_begin() || !sv_drop_has_rank(comm, root))
        return false;
    const bool is_root = sv_drop_rank(comm) == root;
    return sv_drop_fast_takes(is_root ? sendcount : recvcount, is_root ? sendtype : recvtype) &&
           begin_exchange("MPI_Scatter", SCATTER_TAG, comm, &x) &&
           make_rooted(&x, side_of(sendbuf, sendcount, sendtype, EACH), side_of(recvbuf, recvcount, recvtype, root),
                       root, false, true, code);
}

static bool make_gatherv(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                         const lists_t *recv, MPI_Datatype recvtype, int root, MPI_Comm comm, int *code)
{
    exchange_t x;
    return sv_drop_agree_begin() && sv_drop_has_rank(comm, root) &&
           begin_exchange("MPI_Gatherv", GATHER_TAG, comm, &x) &&
           make_rooted(&x, listed_side(recvbuf, recv, recvtype, EACH), side_of(sendbuf, sendcount, sendtype, root),
                       root, true, false, code);
}

static bool make_scatterv(const void *sendbuf, const lists_t *send, MPI_Datatype sendtype, void *recvbuf,
                          MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, int *code)
{
    exchange_t x;
    return sv_drop_agree_begin() && sv_drop_has_rank(comm, root) &&
           begin_exchange("MPI_Scatterv", SCATTER_TAG, comm, &x) &&
           make_rooted(&x, listed_side(sendbuf, send, sendtype, EACH), side_of(recvbuf, recvcount, recvtype, root),
                       root, false, false, code);
}

/* All ranks know all counts here. A side that MPI refuses counts as short. */
static bool make_allgatherv(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                            const lists_t *recv, MPI_Datatype recvtype, MPI_Comm comm, int *code)
{
    exchange_t x;
    int64_t most = 0;
    if (!sv_drop_agree_begin() || !begin_exchange("MPI_Allgatherv", ALLGATHER_TAG, comm, &x))
        return false;
    x.in = listed_side(recvbuf, recv, recvtype, EACH);
    for (int i = 0; i < x.n && (recv->counts || recv->large_counts); i++)
        most = count_for(&x.in, i) > most ? count_for(&x.in, i) : most;
    if (!sv_drop_fast_takes(most, recvtype))
        return false;
    x.in_place = sendbuf == MPI_IN_PLACE;
    x.unfit = !has_lists(&x.in) || !sv_drop_type(recvtype, &x.in.info);
    if (!x.in_place)
        x.out = side_of(sendbuf, sendcount, sendtype, EACH);
    else if (x.unfit)
        x.out.peer = NOBODY;
    else
        x.out = side_of(block_for(&x.in, x.me).at, count_for(&x.in, x.me), recvtype, EACH);
    x.out.same = true;
    return make_exchange(&x, true, code);
}

/* In place each block is sent from where another one comes to, which messages cannot do. */
static bool make_alltoallv(const void *sendbuf, const lists_t *send, MPI_Datatype sendtype, void *recvbuf,
                           const lists_t *recv, MPI_Datatype recvtype, MPI_Comm comm, int *code)
{
    exchange_t x;
    if (!sv_drop_agree_begin() || !begin_exchange("MPI_Alltoallv", ALLTOALL_TAG, comm, &x))
        return false;
    x.unfit = sendbuf == MPI_IN_PLACE;
    x.out = listed_side(sendbuf, send, sendtype, x.unfit ? NOBODY : EACH);
    x.in = listed_side(recvbuf, recv, recvtype, EACH);
    return make_exchange(&x, false, code);
}

/* --- both forms of the lists -------------------------------------------------------------------------------------- */

static lists_t lists_of(const int *counts, const int *displs)
{
    return (lists_t){.counts = counts, .displs = displs};
}

static lists_t large_lists_of(const MPI_Count *counts, const MPI_Aint *displs)
{
    return (lists_t){.large_counts = counts, .large_displs = displs};
}

#define LINEAR(COUNT, DISPL, SUFFIX, LISTS)                                                                            \
    bool sv_drop_fast_Gatherv##SUFFIX(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,  \
                                      const COUNT *recvcounts, const DISPL *displs, MPI_Datatype recvtype, int root,   \
                                      MPI_Comm comm, int *code)                                                        \
    {                                                                                                                  \
        const lists_t recv = LISTS(recvcounts, displs);                                                                \
        return make_gatherv(sendbuf, sendcount, sendtype, recvbuf, &recv, recvtype, root, comm, code);                 \
    }                                                                                                                  \
    bool sv_drop_fast_Scatterv##SUFFIX(const void *sendbuf, const COUNT *sendcounts, const DISPL *displs,              \
                                       MPI_Datatype sendtype, void *recvbuf, MPI_Count recvcount,                      \
                                       MPI_Datatype recvtype, int root, MPI_Comm comm, int *code)                      \
    {                                                                                                                  \
        const lists_t send = LISTS(sendcounts, displs);                                                                \
        return make_scatterv(sendbuf, &send, sendtype, recvbuf, recvcount, recvtype, root, comm, code);                \
    }                                                                                                                  \
    bool sv_drop_fast_Allgatherv##SUFFIX(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,              \
                                         void *recvbuf, const COUNT *recvcounts, const DISPL *displs,                  \
                                         MPI_Datatype recvtype, MPI_Comm comm, int *code)                              \
    {                                                                                                                  \
        const lists_t recv = LISTS(recvcounts, displs);                                                                \
        return make_allgatherv(sendbuf, sendcount, sendtype, recvbuf, &recv, recvtype, comm, code);                    \
    }                                                                                                                  \
    bool sv_drop_fast_Alltoallv##SUFFIX(const void *sendbuf, const COUNT *sendcounts, const DISPL *sdispls,            \
                                        MPI_Datatype sendtype, void *recvbuf, const COUNT *recvcounts,                 \
                                        const DISPL *rdispls, MPI_Datatype recvtype, MPI_Comm comm, int *code)         \
    {                                                                                                                  \
        const lists_t send = LISTS(sendcounts, sdispls), recv = LISTS(recvcounts, rdispls);                            \
        return make_alltoallv(sendbuf, &send, sendtype, recvbuf, &recv, recvtype, comm, code);                         \
    }

LINEAR(int, int, , lists_of)
LINEAR(MPI_Count, MPI_Aint, _c, large_lists_of)
