/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreements on collective calls: in each call that may take the fast route, the ranks ask each other whether all of
 * them can. A rank whose call MPI refuses must be found by the others where it would be without the drop-in. What MPI
 * is known to refuse comes to no agreement. What MPI refuses after one leaves a mark on the communicator, because the
 * other ranks are still in that call.
 *
 * MPI's rules order the calls of a communicator, and only sv_drop_mpi_refuses() takes a lock. Attributes of the
 * program's communicators hold what was found out about them; nothing of that is owned.
 */
#include "interpose/drop_agree.h"
#include "interpose/drop_route.h"

/* What is known of a communicator. agreed: the other ranks have agreed on its next call. */
typedef struct kind {
    sv_drop_reach_t reach;
    bool agreed;
} kind_t;

static kind_t kinds[2][3] = {{{SV_DROP_REACH_NONE, false}, {SV_DROP_REACH_SOME, false}, {SV_DROP_REACH_ALL, false}},
                             {{SV_DROP_REACH_NONE, true}, {SV_DROP_REACH_SOME, true}, {SV_DROP_REACH_ALL, true}}};

static struct {
    bool open;
    MPI_Comm self;      /* to ask MPI what it refuses */
    int key;            /* of a communicator's kind */
    _Atomic int agreed; /* communicators with that mark */
} agree = {.key = MPI_KEYVAL_INVALID, .self = MPI_COMM_NULL};

/* The communicator on which this thread's call has come to no agreement, so that MPI makes it. */
static _Thread_local MPI_Comm staged_on;

bool sv_drop_agree_open(void)
{
    agree.self = sv_drop_make_self();
    agree.open = PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &agree.key, NULL) ==
                 MPI_SUCCESS;
    return agree.open;
}

void sv_drop_agree_close(void)
{
    agree.open = false;
    if (agree.key != MPI_KEYVAL_INVALID)
        PMPI_Comm_free_keyval(&agree.key);
    if (agree.self != MPI_COMM_NULL)
        PMPI_Comm_free(&agree.self);
}

bool sv_drop_agree_begin(void)
{
    staged_on = MPI_COMM_NULL;
    return agree.open;
}

/* --- communicators ------------------------------------------------------------------------------------------------ */

static sv_drop_reach_t find_comm_reach(MPI_Comm comm)
{
    int result = MPI_UNEQUAL;
    bool within_job = sv_drop_is_inside(comm);
    /* MPICH 5.0 says of the first ranks of a communicator that they are congruent to it. */
    if (within_job && sv_drop_size(comm) == sv_drop_size(MPI_COMM_WORLD) &&
        PMPI_Comm_compare(comm, MPI_COMM_WORLD, &result) == MPI_SUCCESS && result == MPI_CONGRUENT)
        return SV_DROP_REACH_ALL;
    for (int i = 0, n = sv_drop_size(comm); i < n && within_job; i++)
        within_job = sv_drop_world_rank(comm, i) != MPI_UNDEFINED;
    return within_job ? SV_DROP_REACH_SOME : SV_DROP_REACH_NONE;
}

/* To find it out takes time, so that it becomes an attribute. */
sv_drop_reach_t sv_drop_reach_of(MPI_Comm comm)
{
    kind_t *found = NULL;
    int has = 0;
    if (comm == MPI_COMM_NULL || !sv_drop_fast_is_in_order(comm))
        return SV_DROP_REACH_NONE;
    if (comm == MPI_COMM_WORLD)
        return SV_DROP_REACH_ALL;
    PMPI_Comm_get_attr(comm, agree.key, &found, &has);
    if (!has) {
        found = &kinds[false][find_comm_reach(comm)];
        PMPI_Comm_set_attr(comm, agree.key, found);
    }
    return found->reach;
}

bool sv_drop_has_rank(MPI_Comm comm, int rank)
{
    return rank >= 0 && rank < sv_drop_size(comm);
}

bool sv_drop_is_fit(const void *buf, size_t element_bytes)
{
    return buf && buf != MPI_IN_PLACE && (uintptr_t)buf % element_bytes == 0 && !sv_drop_is_host(buf) &&
           !sv_drop_is_others(buf);
}

/* --- agreements --------------------------------------------------------------------------------------------------- */

/*
 * It is asked by a call of MPI's in which nothing moves. The other ranks do not hear of what MPI refuses on this rank.
 * They must find this rank in the same call as without the drop-in, and so it does not come to an agreement with them.
 */
bool sv_drop_mpi_refuses(MPI_Datatype type, MPI_Op op)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    char none[2] = "";
    sv_drop_type_t info;
    if (type == MPI_DATATYPE_NULL || (op == MPI_OP_NULL && sv_drop_type(type, &info) && info.named))
        return type == MPI_DATATYPE_NULL;
    pthread_mutex_lock(&lock);
    /* One element, since MPICH asks nothing about the type of none; one rank's broadcast moves nothing. */
    const int code = op == MPI_OP_NULL ? PMPI_Bcast(none, 1, type, 0, agree.self)
                                       : PMPI_Allreduce(&none[0], &none[1], 0, type, op, agree.self);
    pthread_mutex_unlock(&lock);
    return code != MPI_SUCCESS;
}

/* Whether the others have agreed on this rank's call already, to leave it to MPI. This is that call. */
static bool take_mark(MPI_Comm comm)
{
    kind_t *found = NULL;
    int has = 0;
    if (atomic_load_explicit(&agree.agreed, memory_order_relaxed) > 0)
        PMPI_Comm_get_attr(comm, agree.key, &found, &has);
    if (!has || !found->agreed)
        return false;
    atomic_fetch_sub_explicit(&agree.agreed, 1, memory_order_relaxed);
    PMPI_Comm_set_attr(comm, agree.key, &kinds[false][found->reach]);
    return true;
}

/* Both questions are one: the least of whether a rank can, and of its length below zero. All agreements are alike for
   MPI, as a rank whose call MPI is going to refuse may meet the others in another one. */
static bool ask_all(MPI_Comm comm, bool mine, int64_t bytes, bool is_long)
{
    int64_t values[] = {mine, -bytes};
    if (take_mark(comm))
        return false;
    const bool agreed = sv_drop_fast_least(comm, values, 2) && values[0] &&
                        (is_long || sv_drop_fast_takes(-values[1], MPI_BYTE));
    staged_on = agreed ? MPI_COMM_NULL : comm;
    return agreed;
}

bool sv_drop_agree(MPI_Comm comm, bool mine)
{
    return ask_all(comm, mine, 0, true);
}

bool sv_drop_agree_on_length(MPI_Comm comm, bool mine, int64_t bytes)
{
    return ask_all(comm, mine, bytes, false);
}

/*
 * MPI has refused this rank's part of a call that the ranks had agreed to leave to MPI. The others are still in it. So
 * the next call here is their call, on which all have agreed already.
 */
void sv_drop_fast_refuse(MPI_Comm comm, int code)
{
    int class = MPI_SUCCESS;
    PMPI_Error_class(code, &class);
    if (comm == MPI_COMM_NULL || staged_on != comm || class == MPI_ERR_OTHER || class == MPI_ERR_INTERN ||
        class == MPI_ERR_TRUNCATE || class == MPI_ERR_NO_MEM)
        return;
    staged_on = MPI_COMM_NULL;
    atomic_fetch_add_explicit(&agree.agreed, 1, memory_order_relaxed);
    PMPI_Comm_set_attr(comm, agree.key, &kinds[true][sv_drop_reach_of(comm)]);
}
