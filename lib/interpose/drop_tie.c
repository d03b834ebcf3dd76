/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the drop-in keeps of a communicator whose collective calls become messages (drop_pairs.c): who its neighbours
 * are, and its channel (drop_channel.c). And in which order MPI's own calls take blocks, and what they refuse, which it
 * is asked once.
 *
 * A tie is an attribute of its communicator, which owns it. MPI's rules order the calls of a communicator, and where a
 * job has threads only MPI_COMM_WORLD is looked at.
 */
#include "interpose/drop_tie.h"
#include "interpose/drop_channel.h"
#include "interpose/drop_joint.h"
#include "interpose/drop_persistent.h"
#include "interpose/drop_route.h"

#include <stdlib.h>

static struct {
    int key;
    MPI_Comm self; /* to ask MPI what it does */
} ties = {.key = MPI_KEYVAL_INVALID, .self = MPI_COMM_NULL};

static MPI_Comm own_self_of_ties(void)
{
    if (ties.self == MPI_COMM_NULL)
        ties.self = sv_drop_make_self();
    return ties.self;
}

/* --- neighbours --------------------------------------------------------------------------------------------------- */

static void make_neighbor_lists(sv_drop_tie_t *tie, int nfrom, int nto)
{
    tie->nfrom = nfrom;
    tie->nto = nto;
    tie->from = malloc(((size_t)nfrom + (size_t)nto + 1) * sizeof *tie->from);
    if (!tie->from)
        sv_drop_fatal("no memory", "for a communicator's neighbours");
    tie->to = tie->from + nfrom;
}

/* False: its neighbours cannot be had. */
static bool find_grid_neighbors(MPI_Comm comm, sv_drop_tie_t *tie)
{
    enum { DIMS = 32 };
    int n = 0, dims[DIMS], periods[DIMS], coords[DIMS];
    if (PMPI_Cartdim_get(comm, &n) != MPI_SUCCESS || n > DIMS ||
        PMPI_Cart_get(comm, n, dims, periods, coords) != MPI_SUCCESS)
        return false;
    tie->grid = true;
    make_neighbor_lists(tie, 2 * n, 2 * n);
    for (int i = 0; i < n; i++) {
        tie->short_ring = tie->short_ring || (periods[i] && dims[i] <= 2);
        PMPI_Cart_shift(comm, i, 1, &tie->from[2 * i], &tie->from[2 * i + 1]);
        tie->to[2 * i] = tie->from[2 * i];
        tie->to[2 * i + 1] = tie->from[2 * i + 1];
    }
    return true;
}

static bool find_neighbors(MPI_Comm comm, sv_drop_tie_t *tie)
{
    int kind = MPI_UNDEFINED, n = 0, nto = 0, weighted = 0;
    if (PMPI_Topo_test(comm, &kind) != MPI_SUCCESS)
        return false;
    if (kind == MPI_CART)
        return find_grid_neighbors(comm, tie);
    if (kind == MPI_GRAPH) {
        if (PMPI_Graph_neighbors_count(comm, tie->me, &n) != MPI_SUCCESS)
            return false;
        make_neighbor_lists(tie, n, n);
        return PMPI_Graph_neighbors(comm, tie->me, n, tie->from) == MPI_SUCCESS &&
               PMPI_Graph_neighbors(comm, tie->me, n, tie->to) == MPI_SUCCESS;
    }
    if (kind != MPI_DIST_GRAPH || PMPI_Dist_graph_neighbors_count(comm, &n, &nto, &weighted) != MPI_SUCCESS)
        return false;
    make_neighbor_lists(tie, n, nto);
    int *weights = malloc(((size_t)n + (size_t)nto + 1) * sizeof *weights);
    if (!weights)
        sv_drop_fatal("no memory", "for a communicator's neighbours");
    const int code = PMPI_Dist_graph_neighbors(comm, n, tie->from, weighted ? weights : MPI_UNWEIGHTED, nto, tie->to,
                                               weighted ? weights + n : MPI_UNWEIGHTED);
    free(weights);
    return code == MPI_SUCCESS;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static int free_tie(MPI_Comm comm, int key, void *found, void *extra)
{
    sv_drop_tie_t *tie = found;
    (void)key, (void)extra;
    sv_drop_joints_leave(comm);
    sv_drop_channel_end(tie);
    sv_drop_persistent_leave(tie);
    free(tie->from);
    free(tie); /* partner: sv_drop_tie_of() */
    return MPI_SUCCESS;
}

/* Whether all of its ranks are of this job. Those of others know nothing of it. */
static bool is_of_job(MPI_Comm comm, int n)
{
    bool all = sv_drop_is_inside(comm);
    for (int i = 0; i < n && all; i++)
        all = sv_drop_world_rank(comm, i) != MPI_UNDEFINED;
    return all;
}

/* The answer is alike on all of its ranks, whenever it is asked for. */
static bool are_ranks_on_node(MPI_Comm comm, int n)
{
    bool all = sv_drop_route.on_node != NULL;
    for (int i = 0; i < n && all; i++)
        all = sv_drop_route.on_node[sv_drop_world_rank(comm, i)];
    return all;
}

sv_drop_tie_t *sv_drop_tie_find(MPI_Comm comm)
{
    sv_drop_tie_t *tie = NULL;
    int has = 0;
    if (ties.key != MPI_KEYVAL_INVALID)
        PMPI_Comm_get_attr(comm, ties.key, &tie, &has);
    return has ? tie : NULL;
}

sv_drop_tie_t *sv_drop_tie_of(MPI_Comm comm)
{
    if (ties.key == MPI_KEYVAL_INVALID &&
        PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_tie, &ties.key, NULL) != MPI_SUCCESS)
        sv_drop_fatal("no attribute", "for a communicator");
    sv_drop_tie_t *tie = sv_drop_tie_find(comm);
    if (tie)
        return tie;
    tie = malloc(sizeof *tie);
    if (!tie)
        sv_drop_fatal("no memory", "for a communicator");
    *tie = (sv_drop_tie_t){.n = sv_drop_size(comm), .me = sv_drop_rank(comm), .first_call = INT64_MAX};
    tie->of_job = tie->n > 1 && is_of_job(comm, tie->n);
    tie->over = !tie->of_job;
    tie->one_node = tie->of_job && are_ranks_on_node(comm, tie->n);
    tie->near = tie->one_node && tie->n <= SV_DROP_NEAR_MOST;
    tie->everybody = tie->of_job && tie->n == sv_drop_size(MPI_COMM_WORLD);
    if (!sv_drop_is_inside(comm) || !find_neighbors(comm, tie))
        tie->nfrom = tie->nto = -1;
    PMPI_Comm_set_attr(comm, ties.key, tie);
    return tie;
}

void sv_drop_ties_end(void)
{
    if (ties.key != MPI_KEYVAL_INVALID)
        PMPI_Comm_free_keyval(&ties.key); /* the attributes stay until their communicators go */
    if (ties.self != MPI_COMM_NULL)
        PMPI_Comm_free(&ties.self);
}

/* --- what MPI does ------------------------------------------------------------------------------------------------ */

/* This rank is its own neighbour four times, and has a block of an int for each, 0 to 3. */
enum { SELVES = 4 };
static const int lengths[SELVES] = {1, 1, 1, 1}, places[SELVES] = {0, 1, 2, 3};
static const MPI_Aint offsets[SELVES] = {0, sizeof(int), 2 * sizeof(int), 3 * sizeof(int)};
static const MPI_Datatype ints[SELVES] = {MPI_INT, MPI_INT, MPI_INT, MPI_INT};

static int ask_selves(sv_drop_ring_t form, bool blocks, MPI_Comm comm, const int *out, int *in)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int code;
    if (form == SV_DROP_RING)
        code = blocks ? PMPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, comm)
                      : PMPI_Ineighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, comm, &request);
    else if (form == SV_DROP_RING_V)
        code = blocks ? PMPI_Neighbor_alltoallv(out, lengths, places, MPI_INT, in, lengths, places, MPI_INT, comm)
                      : PMPI_Ineighbor_alltoallv(out, lengths, places, MPI_INT, in, lengths, places, MPI_INT, comm,
                                                 &request);
    else
        code = blocks ? PMPI_Neighbor_alltoallw(out, lengths, offsets, ints, in, lengths, offsets, ints, comm)
                      : PMPI_Ineighbor_alltoallw(out, lengths, offsets, ints, in, lengths, offsets, ints, comm,
                                                 &request);
    return code == MPI_SUCCESS ? PMPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}

/* The same by a persistent call. */
static int ask_selves_by_start(sv_drop_ring_t form, MPI_Comm comm, const int *out, int *in)
{
#ifdef SV_DROP_COLL_INIT
    MPI_Request request = MPI_REQUEST_NULL;
    int code;
    if (form == SV_DROP_RING)
        code = SV_DROP_COLL_INIT(Neighbor_alltoall)(out, 1, MPI_INT, in, 1, MPI_INT, comm, MPI_INFO_NULL, &request);
    else if (form == SV_DROP_RING_V)
        code = SV_DROP_COLL_INIT(Neighbor_alltoallv)(out, lengths, places, MPI_INT, in, lengths, places, MPI_INT,
                                                     comm, MPI_INFO_NULL, &request);
    else
        code = SV_DROP_COLL_INIT(Neighbor_alltoallw)(out, lengths, offsets, ints, in, lengths, offsets, ints, comm,
                                                     MPI_INFO_NULL, &request);
    if (code == MPI_SUCCESS && (code = PMPI_Start(&request)) == MPI_SUCCESS)
        code = PMPI_Wait(&request, MPI_STATUS_IGNORE);
    if (request != MPI_REQUEST_NULL)
        PMPI_Request_free(&request);
    return code;
#else
    (void)form, (void)comm, (void)out, (void)in;
    return MPI_ERR_OTHER;
#endif
}

static sv_drop_order_t find_order(bool grid, sv_drop_ring_t form, sv_drop_kind_t kind)
{
    const int ones[2] = {1, 1}, out[SELVES] = {0, 1, 2, 3}, selves[SELVES] = {0, 0, 0, 0};
    int in[SELVES] = {-1, -1, -1, -1};
    MPI_Comm comm = MPI_COMM_NULL;
    const int code = grid ? PMPI_Cart_create(own_self_of_ties(), 2, ones, ones, 0, &comm)
                          : PMPI_Dist_graph_create_adjacent(own_self_of_ties(), SELVES, selves, out, SELVES, selves,
                                                            out, MPI_INFO_NULL, 0, &comm);
    const bool asked =
        code == MPI_SUCCESS && (kind == SV_DROP_PERSISTENT
                                    ? ask_selves_by_start(form, comm, out, in)
                                    : ask_selves(form, kind == SV_DROP_BLOCKING, comm, out, in)) == MPI_SUCCESS;
    if (comm != MPI_COMM_NULL)
        PMPI_Comm_free(&comm);
    if (asked && in[0] == 0 && in[1] == 1)
        return SV_DROP_IN_ORDER;
    if (asked && in[0] == 3 && in[1] == 2)
        return SV_DROP_REVERSED;
    return grid ? SV_DROP_BY_SIDE : SV_DROP_IN_ORDER;
}

sv_drop_order_t sv_drop_tie_order(const sv_drop_tie_t *tie, sv_drop_ring_t form, sv_drop_kind_t kind)
{
    static struct {
        bool known;
        sv_drop_order_t order;
    } all[2][SV_DROP_RINGS][SV_DROP_KINDS]; /* by the lock */
    if (tie->grid && !tie->short_ring)
        return SV_DROP_BY_SIDE;
    sv_drop_lock();
    if (!all[tie->grid][form][kind].known) {
        all[tie->grid][form][kind].order = find_order(tie->grid, form, kind);
        all[tie->grid][form][kind].known = true;
    }
    const sv_drop_order_t order = all[tie->grid][form][kind].order;
    sv_drop_unlock();
    return order;
}

bool sv_drop_tie_refuses_none(MPI_Datatype type)
{
    const int none = 0;
    char out[1] = "", in[1] = "";
    sv_drop_lock();
    const int code = PMPI_Alltoallw(out, &none, &none, &type, in, &none, &none, &type, own_self_of_ties());
    sv_drop_unlock();
    return code != MPI_SUCCESS;
}

/* Both sides of a reduction that does not block. */
static int reduce_same(sv_drop_alias_t call, MPI_Comm self)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int number = 0, *both = &number, code;
    if (call == SV_DROP_ALIAS_REDUCE)
        code = PMPI_Ireduce(both, both, 1, MPI_INT, MPI_SUM, 0, self, &request);
    else if (call == SV_DROP_ALIAS_ALLREDUCE)
        code = PMPI_Iallreduce(both, both, 1, MPI_INT, MPI_SUM, self, &request);
    else
        code = PMPI_Ireduce_scatter_block(both, both, 1, MPI_INT, MPI_SUM, self, &request);
    return code == MPI_SUCCESS ? PMPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}

bool sv_drop_tie_refuses_same(sv_drop_alias_t call, sv_drop_ring_t form)
{
    const int one[1] = {1}, at[1] = {0};
    const MPI_Datatype types[1] = {MPI_INT};
    const bool listed = form != SV_DROP_RING;
    int number = 0, *both = &number, code;
    sv_drop_lock();
    MPI_Comm const self = own_self_of_ties();
    if (call >= SV_DROP_ALIAS_REDUCE)
        code = reduce_same(call, self);
    else if (call == SV_DROP_ALIAS_ALLTOALL && form == SV_DROP_RING_W)
        code = PMPI_Alltoallw(both, one, at, types, both, one, at, types, self);
    else if (call == SV_DROP_ALIAS_ALLTOALL)
        code = listed ? PMPI_Alltoallv(both, one, at, MPI_INT, both, one, at, MPI_INT, self)
                      : PMPI_Alltoall(both, 1, MPI_INT, both, 1, MPI_INT, self);
    else if (call == SV_DROP_ALIAS_ALLGATHER)
        code = listed ? PMPI_Allgatherv(both, 1, MPI_INT, both, one, at, MPI_INT, self)
                      : PMPI_Allgather(both, 1, MPI_INT, both, 1, MPI_INT, self);
    else if (call == SV_DROP_ALIAS_GATHER)
        code = listed ? PMPI_Gatherv(both, 1, MPI_INT, both, one, at, MPI_INT, 0, self)
                      : PMPI_Gather(both, 1, MPI_INT, both, 1, MPI_INT, 0, self);
    else
        code = listed ? PMPI_Scatterv(both, one, at, MPI_INT, both, 1, MPI_INT, 0, self)
                      : PMPI_Scatter(both, 1, MPI_INT, both, 1, MPI_INT, 0, self);
    sv_drop_unlock();
    return code != MPI_SUCCESS;
}
