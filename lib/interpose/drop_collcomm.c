/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What collective calls of the fast route are made with: Selvage's communicators of collectives, for the program's
 * communicators.
 *
 *   opening   ranks that open the route of collective calls together: all of the job, or those of a communicator, on
 *             one node. It has one for its ranks in their order
 *   team      ranks of an opening that a communicator of the program has in an order of its own: one is made at its
 *             first call, by these ranks alone, on the opening's arena. It is kept for all communicators of the same
 *             ranks in that order, however often the program makes one
 *
 * If there can be no more of them, such calls are staged.
 *
 * MPI's rules order the calls of a communicator, and openings and teams come and go in them. Both live to the route's
 * end, as does the stream.
 */
#include "interpose/drop_collcomm.h"
#include "interpose/drop_agree.h"
#include "interpose/drop_route.h"
#include "interpose/drop_scratch.h"

#include <selvage/comm.h>
#include <stdlib.h>

/* comm is owned; NULL: it is the route's. */
typedef struct opening {
    selvage_comm_t *comm;
    selvage_coll_t *coll;
    int *index; /* by rank of MPI_COMM_WORLD: rank in this one; -1: not in it */
} opening_t;

/* Ranks of MPI_COMM_WORLD, as some communicator has them. */
typedef struct team {
    struct team *next;
    selvage_coll_t *coll; /* NULL: there can be none, and the team is in no list */
    int size;
    int ranks[];
} team_t;

static struct {
    opening_t with[SV_DROP_OPENINGS]; /* as drop_agree.c counts them */
    opening_t failed[SV_DROP_OPENINGS]; /* what was made before that, to the end: the device may be at work now */
    int failures;
    team_t *teams; /* in the order in which they were made */
    int key;       /* of a communicator's team */
    bool lacks;    /* a team could not have one, as has been said: this rank makes no more */
    void *stream;
} made = {.key = MPI_KEYVAL_INVALID};

void *sv_drop_coll_stream(void)
{
    return made.stream;
}

/* --- openings ----------------------------------------------------------------------------------------------------- */

/* What this rank needs for itself, once. */
static bool prepare_own(MPI_Comm comm)
{
    for (int i = 0, n = sv_drop_size(comm); i < n; i++)
        if (!sv_drop_route.on_node[sv_drop_world_rank(comm, i)])
            return false;
    if (made.key == MPI_KEYVAL_INVALID &&
        PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &made.key, NULL) != MPI_SUCCESS)
        return false;
    return (made.stream || selvage_stream_create(sv_drop_device(), &made.stream) == SELVAGE_SUCCESS) &&
           sv_drop_agree_open();
}

static void fill_index(opening_t *opening, MPI_Comm comm)
{
    const int size = sv_drop_size(MPI_COMM_WORLD);
    opening->index = malloc((size_t)size * sizeof *opening->index);
    if (!opening->index)
        sv_drop_fatal("no memory", "for the ranks of a communicator");
    for (int i = 0; i < size; i++)
        opening->index[i] = -1;
    for (int i = 0, n = sv_drop_size(comm); i < n; i++)
        opening->index[sv_drop_world_rank(comm, i)] = i;
}

static void free_opening(opening_t *opening)
{
    selvage_coll_destroy(opening->coll);
    selvage_comm_destroy(opening->comm);
    free(opening->index);
    *opening = (opening_t){0};
}

/* Partner: sv_drop_collcomm_close(). A rank fails with one communicator of some ranks, and with all of the job. */
static void keep_failed(const opening_t *opening)
{
    if (made.failures < SV_DROP_OPENINGS)
        made.failed[made.failures++] = *opening;
}

/* Every rank comes to each of the collective steps, or none does. */
bool sv_drop_collcomm_open(MPI_Comm comm, MPI_Comm agreeing, selvage_comm_t *world)
{
    opening_t opening = {0};
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = sv_drop_device(),
                                    .timeout_s = sv_drop_settings()->timeout_ns ? 0 : -1};
    bool good = sv_drop_agree_openings() < SV_DROP_OPENINGS;
    if (!world) {
        good = selvage_comm_create(comm, &params, &opening.comm) == SELVAGE_SUCCESS && good;
        world = opening.comm;
        if (!sv_drop_fast_all(agreeing, good)) {
            sv_drop_warn("collectives of the fast route cannot be had on every rank: they are staged");
            keep_failed(&opening);
            return false;
        }
    }
    if (sv_drop_fast_all(agreeing, selvage_coll_supported(world)) &&
        sv_drop_fast_all(agreeing, prepare_own(comm)) &&
        sv_drop_fast_all(agreeing, selvage_coll_create(world, NULL, &opening.coll) == SELVAGE_SUCCESS)) {
        fill_index(&opening, comm);
        made.with[sv_drop_agree_openings()] = opening;
        sv_drop_agree_add(comm);
        return true;
    }
    keep_failed(&opening);
    return false;
}

void sv_drop_collcomm_close(void)
{
    const int openings = sv_drop_agree_openings();
    sv_drop_agree_close();
    if (made.key != MPI_KEYVAL_INVALID)
        PMPI_Comm_free_keyval(&made.key);
    /* Partner: make_team(). Each is freed by all of its ranks, which have made theirs in one order. So are openings. */
    for (team_t *team = made.teams, *next; team; team = next) {
        next = team->next;
        selvage_coll_destroy(team->coll);
        free(team);
    }
    made.teams = NULL;
    for (int i = 0; i < openings; i++)
        free_opening(&made.with[i]);
    for (int i = 0; i < made.failures; i++)
        free_opening(&made.failed[i]);
    made.failures = 0;
    sv_drop_scratch_close();
    if (made.stream) /* else there may be no device, which nobody is to open now */
        selvage_stream_destroy(sv_drop_device(), made.stream);
    made.stream = NULL;
}

/* --- teams -------------------------------------------------------------------------------------------------------- */

/* The team of a communicator's ranks, from an earlier call on one with these ranks; NULL: there is none yet. All ranks
   of the communicator get the same answer, as they make teams together. */
static team_t *find_team(MPI_Comm comm)
{
    team_t *found = NULL;
    int has = 0;
    PMPI_Comm_get_attr(comm, made.key, &found, &has);
    if (has)
        return found;
    const int size = sv_drop_size(comm);
    for (found = made.teams; found; found = found->next) {
        bool same = found->size == size;
        for (int i = 0; same && i < size; i++)
            same = found->ranks[i] == sv_drop_world_rank(comm, i);
        if (same)
            break;
    }
    if (found)
        PMPI_Comm_set_attr(comm, made.key, found);
    return found;
}

/* Makes it, on all ranks of the communicator, which have agreed to. They agree on what came of it, too, as one of them
   may have failed after the others were through. A rank that could not make one makes no more. */
static team_t *make_team(MPI_Comm comm, const opening_t *opening)
{
    static team_t none;
    const int size = sv_drop_size(comm);
    team_t *team = malloc(sizeof *team + (size_t)size * sizeof *team->ranks), **last = &made.teams;
    int *members = malloc((size_t)size * sizeof *members);
    if (!team || !members)
        sv_drop_fatal("no memory", "for the ranks of a communicator");
    *team = (team_t){.size = size};
    for (int i = 0; i < size; i++) {
        team->ranks[i] = sv_drop_world_rank(comm, i);
        members[i] = opening->index[team->ranks[i]];
    }
    const selvage_status_t status = selvage_coll_create_among(opening->coll, size, members, &team->coll);
    free(members);
    if (status != SELVAGE_SUCCESS) {
        made.lacks = true;
        sv_drop_warn("collective calls on a communicator of %d ranks are staged: %s", size, selvage_error_detail());
    }
    const bool all_have = sv_drop_agree(comm, status == SELVAGE_SUCCESS);
    if (status == SELVAGE_SUCCESS) { /* it is kept to be destroyed, also if nobody uses it */
        while (*last)
            last = &(*last)->next;
        *last = team;
        team->size = all_have ? size : 0; /* which no communicator has */
    } else {
        free(team);
    }
    team = all_have ? team : &none;
    PMPI_Comm_set_attr(comm, made.key, team);
    return team;
}

/* --- the calls ---------------------------------------------------------------------------------------------------- */

/* The program's own work comes before the agreement, because after it the other ranks' kernels wait for this rank's. A
   team is made for a call that all can make, and no other. */
selvage_coll_t *sv_drop_collcomm_agree(MPI_Comm comm, bool mine)
{
    const sv_drop_reach_t reach = sv_drop_reach_of(comm);
    const opening_t *opening = &made.with[reach.opening];
    team_t *team = reach.all ? NULL : find_team(comm);
    if (team && !team->coll)
        return NULL;
    const bool can = mine && (reach.all || team || !made.lacks);
    if (can)
        sv_drop_settle();
    if (!sv_drop_agree(comm, can && !sv_drop_is_stuck()))
        return NULL;
    if (reach.all)
        return opening->coll;
    return team ? team->coll : make_team(comm, opening)->coll;
}
