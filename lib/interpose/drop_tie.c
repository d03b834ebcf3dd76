/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the drop-in keeps of a communicator whose collective calls become messages (drop_pairs.c): who its neighbours
 * are, and a communicator of the drop-in's own of the same ranks, for calls that do not block.
 *
 * Two ranks come to the calls that block, and that they share, in the same order, whichever communicators those are on.
 * So the messages of these have one communicator for all. Calls that do not block may be started in any order on two
 * communicators. So each needs one of its own. To make it, all ranks must be in the same place of the communicator's
 * calls. They are after a call that succeeds on no rank before all have entered it: MPI_Barrier, MPI_Allreduce and its
 * kin. The 1st, 2nd, 4th, ... of those, once the route is open, asks whether any rank has had a use for it:
 *
 *   MPI_Ialltoall    staged, on all ranks     needs = true
 *   MPI_Allreduce    the ranks ask each other, and make it
 *   MPI_Ialltoall    as messages, on all ranks
 *
 * A rank may have started a call that does not block before the others have opened the route, and they start theirs
 * after that. So the opening by itself decides nothing about such calls.
 *
 * A tie is an attribute of its communicator, and is freed after that and after the last call that uses it. MPI's rules
 * order the calls of a communicator. Users, and the list of ties, are guarded by the lock of requests.
 */
#include "interpose/drop_tie.h"
#include "interpose/drop_agree.h"
#include "interpose/drop_pairs.h"
#include "interpose/drop_route.h"

#include <stdlib.h>

static struct {
    int key;
    MPI_Comm self; /* to ask MPI what it does */
    sv_drop_tie_t *first;
} ties = {.key = MPI_KEYVAL_INVALID, .self = MPI_COMM_NULL};

static MPI_Comm own_self_of_ties(void)
{
    if (ties.self == MPI_COMM_NULL)
        ties.self = sv_drop_make_self();
    return ties.self;
}

/* --- neighbours --------------------------------------------------------------------------------------------------- */

static void make_lists(sv_drop_tie_t *tie, int nfrom, int nto)
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
    make_lists(tie, 2 * n, 2 * n);
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
        make_lists(tie, n, n);
        return PMPI_Graph_neighbors(comm, tie->me, n, tie->from) == MPI_SUCCESS &&
               PMPI_Graph_neighbors(comm, tie->me, n, tie->to) == MPI_SUCCESS;
    }
    if (kind != MPI_DIST_GRAPH || PMPI_Dist_graph_neighbors_count(comm, &n, &nto, &weighted) != MPI_SUCCESS)
        return false;
    make_lists(tie, n, nto);
    int *weights = malloc(((size_t)n + (size_t)nto + 1) * sizeof *weights);
    if (!weights)
        sv_drop_fatal("no memory", "for a communicator's neighbours");
    const int code = PMPI_Dist_graph_neighbors(comm, n, tie->from, weighted ? weights : MPI_UNWEIGHTED, nto, tie->to,
                                               weighted ? weights + n : MPI_UNWEIGHTED);
    free(weights);
    return code == MPI_SUCCESS;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void free_own(sv_drop_tie_t *tie)
{
    if (tie->own != MPI_COMM_NULL)
        PMPI_Comm_free(&tie->own); /* partner: make_own() */
}

static void unlist_tie(sv_drop_tie_t *tie)
{
    sv_drop_tie_t **at = &ties.first;
    while (*at && *at != tie)
        at = &(*at)->next;
    if (*at)
        *at = tie->next;
}

/* Makes it the last one. */
static void list_tie(sv_drop_tie_t *tie)
{
    sv_drop_lock();
    sv_drop_tie_t **last = &ties.first;
    unlist_tie(tie);
    while (*last)
        last = &(*last)->next;
    tie->next = NULL;
    *last = tie;
    sv_drop_unlock();
}

void sv_drop_tie_hold(sv_drop_tie_t *tie)
{
    sv_drop_lock();
    tie->users++;
    sv_drop_unlock();
}

void sv_drop_tie_release(sv_drop_tie_t *tie)
{
    sv_drop_lock();
    if (--tie->users == 0) {
        unlist_tie(tie);
        free_own(tie);
        free(tie->from);
        free(tie);
    }
    sv_drop_unlock();
}

static int release_tie(MPI_Comm comm, int key, void *tie, void *extra)
{
    (void)comm, (void)key, (void)extra;
    sv_drop_tie_release(tie); /* partner: sv_drop_tie_of() */
    return MPI_SUCCESS;
}

sv_drop_tie_t *sv_drop_tie_of(MPI_Comm comm)
{
    sv_drop_tie_t *tie = NULL;
    int has = 0;
    if (ties.key == MPI_KEYVAL_INVALID &&
        PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, release_tie, &ties.key, NULL) != MPI_SUCCESS)
        sv_drop_fatal("no attribute", "for a communicator");
    PMPI_Comm_get_attr(comm, ties.key, &tie, &has);
    if (has)
        return tie;
    tie = calloc(1, sizeof *tie);
    if (!tie)
        sv_drop_fatal("no memory", "for a communicator");
    *tie = (sv_drop_tie_t){.n = sv_drop_size(comm), .me = sv_drop_rank(comm), .own = MPI_COMM_NULL, .users = 1};
    if (!find_neighbors(comm, tie))
        tie->nfrom = tie->nto = -1;
    list_tie(tie);
    PMPI_Comm_set_attr(comm, ties.key, tie);
    return tie;
}

bool sv_drop_tie_is_own(MPI_Comm comm)
{
    bool found = false;
    sv_drop_lock();
    for (const sv_drop_tie_t *tie = ties.first; tie && !found; tie = tie->next)
        found = tie->own != MPI_COMM_NULL && tie->own == comm;
    sv_drop_unlock();
    return found;
}

/* All ranks free those that the program has not freed, in the order in which they have made them. */
void sv_drop_ties_end(void)
{
    for (sv_drop_tie_t *tie = ties.first; tie; tie = tie->next) {
        free_own(tie);
        tie->over = true;
    }
    if (ties.key != MPI_KEYVAL_INVALID)
        PMPI_Comm_free_keyval(&ties.key); /* the attributes stay until their communicators go */
    if (ties.self != MPI_COMM_NULL)
        PMPI_Comm_free(&ties.self);
}

/* --- a communicator of the drop-in's ------------------------------------------------------------------------------ */

/* It has none of the program's attributes, nor its error handler. */
static bool make_own(MPI_Comm comm, sv_drop_tie_t *tie)
{
    MPI_Group group;
    if (PMPI_Comm_group(comm, &group) != MPI_SUCCESS)
        return false;
    const int code = PMPI_Comm_create(comm, group, &tie->own);
    PMPI_Group_free(&group);
    if (code != MPI_SUCCESS || tie->own == MPI_COMM_NULL)
        return false;
    PMPI_Comm_set_errhandler(tie->own, MPI_ERRORS_RETURN);
    list_tie(tie); /* after those that were made before it */
    return true;
}

void sv_drop_tie_meet(MPI_Comm comm)
{
    if (!sv_drop_agree_begin() || !sv_drop_reaches(comm))
        return;
    sv_drop_tie_t *tie = sv_drop_tie_of(comm);
    int64_t spare = !tie->needs;
    if (tie->over)
        return;
    tie->calls++;
    if ((tie->calls & (tie->calls - 1)) || !sv_drop_fast_least(comm, &spare, 1) || spare)
        return;
    tie->over = true;
    const bool made = make_own(comm, tie);
    if (sv_drop_fast_agree(comm, made))
        return;
    sv_drop_warn("non-blocking collective calls on a communicator of %d ranks are staged: it cannot be had twice",
                 tie->n);
    sv_drop_lock();
    free_own(tie);
    sv_drop_unlock();
}

/* --- what MPI does ------------------------------------------------------------------------------------------------ */

/* A ring of this rank alone: its block for below, 1, and that for above, 2. */
static int ask_ring(sv_drop_ring_t form, bool blocks, MPI_Comm ring, const int *out, int *in)
{
    const int counts[2] = {1, 1}, displs[2] = {0, 1};
    const MPI_Aint far[2] = {0, sizeof *in};
    const MPI_Datatype types[2] = {MPI_INT, MPI_INT};
    MPI_Request request = MPI_REQUEST_NULL;
    int code;
    if (form == SV_DROP_RING)
        code = blocks ? PMPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, ring)
                      : PMPI_Ineighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, ring, &request);
    else if (form == SV_DROP_RING_V)
        code = blocks ? PMPI_Neighbor_alltoallv(out, counts, displs, MPI_INT, in, counts, displs, MPI_INT, ring)
                      : PMPI_Ineighbor_alltoallv(out, counts, displs, MPI_INT, in, counts, displs, MPI_INT, ring,
                                                 &request);
    else
        code = blocks ? PMPI_Neighbor_alltoallw(out, counts, far, types, in, counts, far, types, ring)
                      : PMPI_Ineighbor_alltoallw(out, counts, far, types, in, counts, far, types, ring, &request);
    return code == MPI_SUCCESS ? PMPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}

bool sv_drop_tie_crosses(sv_drop_ring_t form, bool blocks)
{
    static enum { UNKNOWN, CROSSES, IN_ORDER } known[SV_DROP_RINGS][2]; /* by the lock */
    const int one = 1, out[2] = {1, 2};
    int in[2] = {0, 0};
    MPI_Comm ring = MPI_COMM_NULL;
    sv_drop_lock();
    if (known[form][blocks] == UNKNOWN) {
        const bool asked = PMPI_Cart_create(own_self_of_ties(), 1, &one, &one, 0, &ring) == MPI_SUCCESS &&
                           ask_ring(form, blocks, ring, out, in) == MPI_SUCCESS;
        known[form][blocks] = asked && in[0] == 1 && in[1] == 2 ? IN_ORDER : CROSSES;
        if (ring != MPI_COMM_NULL)
            PMPI_Comm_free(&ring);
    }
    const bool crosses = known[form][blocks] == CROSSES;
    sv_drop_unlock();
    return crosses;
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
