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

#include <stdlib.h>

/* The ranks of an opening, which are ranks of MPI_COMM_WORLD. */
typedef struct opening {
    int size;
    int *ranks;
} opening_t;

static struct {
    bool open;
    MPI_Comm self;      /* to ask MPI what it refuses */
    int key;            /* of what is known of a communicator: a kind */
    _Atomic int agreed; /* communicators with that mark */
    opening_t with[SV_DROP_OPENINGS];
    int openings;
} agree = {.key = MPI_KEYVAL_INVALID, .self = MPI_COMM_NULL};

/* What is known of a communicator, which is the value of an attribute. agreed: the other ranks have agreed on its next
   call. openings: how many there were when no opening was found for it. */
typedef struct kind {
    sv_drop_reach_t reach;
    bool agreed;
    int openings;
} kind_t;

static void *value_of_kind(kind_t kind)
{
    return (void *)(uintptr_t)(1 + (unsigned)kind.agreed * 2 + (unsigned)kind.reach.all * 4 +
                               (unsigned)(kind.reach.opening + 1) * 8 + (unsigned)kind.openings * 256);
}

static kind_t kind_of_value(const void *value)
{
    const unsigned bits = (unsigned)(uintptr_t)value;
    return (kind_t){{(int)(bits / 8 % 32) - 1, bits / 4 % 2}, bits / 2 % 2, (int)(bits / 256)};
}

/* The communicator on which this thread's call has come to no agreement, so that MPI makes it. */
static _Thread_local MPI_Comm staged_on;

bool sv_drop_agree_open(void)
{
    if (agree.self == MPI_COMM_NULL)
        agree.self = sv_drop_make_self();
    return agree.key != MPI_KEYVAL_INVALID ||
           PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &agree.key, NULL) == MPI_SUCCESS;
}

void sv_drop_agree_add(MPI_Comm comm)
{
    opening_t *opening = &agree.with[agree.openings++];
    opening->size = sv_drop_size(comm);
    opening->ranks = malloc((size_t)opening->size * sizeof *opening->ranks);
    if (!opening->ranks)
        sv_drop_fatal("no memory", "for the ranks of a communicator");
    for (int i = 0; i < opening->size; i++)
        opening->ranks[i] = sv_drop_world_rank(comm, i);
    agree.open = true;
}

int sv_drop_agree_openings(void)
{
    return agree.openings;
}

void sv_drop_agree_close(void)
{
    agree.open = false;
    for (int i = 0; i < agree.openings; i++)
        free(agree.with[i].ranks);
    agree.openings = 0;
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

/* Whether the ranks of a communicator are in an opening; *all_out: they are all of those, in their order. */
static bool is_in_opening(MPI_Comm comm, const opening_t *opening, bool *all_out)
{
    const int size = sv_drop_size(comm);
    *all_out = size == opening->size;
    for (int i = 0; i < size; i++) {
        const int rank = sv_drop_world_rank(comm, i);
        int at = i;
        if (i >= opening->size || opening->ranks[i] != rank) {
            *all_out = false;
            for (at = 0; at < opening->size && opening->ranks[at] != rank;)
                at++;
        }
        if (rank == MPI_UNDEFINED || at == opening->size)
            return false;
    }
    return true;
}

/* The first opening that has them all. All of them were in each such opening, and count the same ones in the same
   order; so they find the same one. */
static sv_drop_reach_t find_comm_reach(MPI_Comm comm)
{
    sv_drop_reach_t reach = {-1, false};
    for (int i = 0; i < agree.openings && reach.opening < 0 && sv_drop_is_inside(comm); i++)
        if (is_in_opening(comm, &agree.with[i], &reach.all))
            reach.opening = i;
    reach.all = reach.all && reach.opening >= 0;
    return reach;
}

/* To find it out takes time, so that it becomes an attribute. What has no opening may have the next one. */
sv_drop_reach_t sv_drop_reach_of(MPI_Comm comm)
{
    void *value = NULL;
    int has = 0;
    if (comm == MPI_COMM_NULL || !agree.open || !sv_drop_fast_is_in_order(comm))
        return (sv_drop_reach_t){-1, false};
    PMPI_Comm_get_attr(comm, agree.key, &value, &has);
    kind_t kind = kind_of_value(value);
    if (!has || (kind.reach.opening < 0 && kind.openings < agree.openings)) {
        kind = (kind_t){find_comm_reach(comm), false, agree.openings};
        PMPI_Comm_set_attr(comm, agree.key, value_of_kind(kind));
    }
    return kind.reach;
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
    if (agree.self == MPI_COMM_NULL) /* before the route is open */
        agree.self = sv_drop_make_self();
    /* One element, since MPICH asks nothing about the type of none; one rank's broadcast moves nothing. */
    const int code = op == MPI_OP_NULL ? PMPI_Bcast(none, 1, type, 0, agree.self)
                                       : PMPI_Allreduce(&none[0], &none[1], 0, type, op, agree.self);
    pthread_mutex_unlock(&lock);
    return code != MPI_SUCCESS;
}

/* Whether the others have agreed on this rank's call already, to leave it to MPI. This is that call. */
static bool take_mark(MPI_Comm comm)
{
    void *value = NULL;
    int has = 0;
    if (atomic_load_explicit(&agree.agreed, memory_order_relaxed) > 0)
        PMPI_Comm_get_attr(comm, agree.key, &value, &has);
    if (!has || !kind_of_value(value).agreed)
        return false;
    atomic_fetch_sub_explicit(&agree.agreed, 1, memory_order_relaxed);
    PMPI_Comm_set_attr(comm, agree.key, value_of_kind((kind_t){kind_of_value(value).reach, false, 0}));
    return true;
}

/* Both questions are one: the least of whether a rank can, and of its length below zero. All agreements are alike for
   MPI, as a rank whose call MPI is going to refuse may meet the others in another one. */
static bool ask_all(MPI_Comm comm, bool mine, int64_t bytes, bool is_long)
{
    int64_t values[] = {mine, -bytes};
    if (take_mark(comm)) { /* which MPI may refuse here as well */
        staged_on = comm;
        return false;
    }
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
    PMPI_Comm_set_attr(comm, agree.key, value_of_kind((kind_t){sv_drop_reach_of(comm), true, 0}));
}
