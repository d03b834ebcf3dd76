/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collective calls on the fast route: by Selvage's collectives, if every rank gives device memory that they take, and
 * type and operation map. The ranks agree on that in each call that moves as much as messages of the route do, which
 * all of them know alike. Shorter calls are staged, and those without agreement. So are all calls where the ranks are
 * on several nodes, and all calls after one has failed on any rank.
 *
 * The kernels say in a record of their own what went wrong, not by the stream. A call has succeeded only if the stream
 * is through and the record is empty. Otherwise it ends with MPI_ERR_OTHER through the communicator's error handler.
 *
 * MPI's rules order the calls of a communicator, and only mpi_refuses() takes a lock. The collective communicator and
 * its stream live from the opening of the route to its end.
 */
#include "interpose/drop_fastcoll.h"
#include "interpose/drop_route.h"

#include <limits.h>
#include <selvage/collective.h>

static struct {
    selvage_coll_t *coll;
    selvage_device_t *device;
    void *stream;
    MPI_Comm self;       /* to ask MPI what it refuses */
    int key;             /* of what is_route_of() has found */
    _Atomic int agreed;  /* communicators with world_agreed */
    _Atomic bool failed; /* a call of this rank's: it agrees to no other */
} fast = {.key = MPI_KEYVAL_INVALID, .self = MPI_COMM_NULL};

/* Every rank comes to selvage_coll_create(), which is collective, or none does. */
bool sv_drop_fastcoll_open(selvage_comm_t *world)
{
    const int size = sv_drop_size(MPI_COMM_WORLD);
    int own, all = 0, on_node = 0;
    fast.device = sv_drop_device();
    fast.self = sv_drop_make_self();
    while (on_node < size && sv_drop_route.on_node[on_node])
        on_node++;
    own = on_node == size && selvage_stream_create(fast.device, &fast.stream) == SELVAGE_SUCCESS &&
          PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &fast.key, NULL) == MPI_SUCCESS;
    PMPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MIN, sv_drop_route.own);
    return all && selvage_coll_create(world, NULL, &fast.coll) == SELVAGE_SUCCESS;
}

void sv_drop_fastcoll_close(void)
{
    selvage_coll_destroy(fast.coll);
    selvage_stream_destroy(fast.device, fast.stream);
    if (fast.key != MPI_KEYVAL_INVALID)
        PMPI_Comm_free_keyval(&fast.key);
    if (fast.self != MPI_COMM_NULL)
        PMPI_Comm_free(&fast.self);
    fast.coll = NULL;
    fast.stream = NULL;
}

/* --- what maps ---------------------------------------------------------------------------------------------------- */

/* An element as Selvage sees it: one number of a type, or two that are added up each by itself. */
typedef struct like {
    selvage_type_t type;
    size_t parts;
} like_t;

/* MPI_CHAR is no number to the standard, and a char to both MPIs. */
static like_t like_of(MPI_Datatype type)
{
    const struct { MPI_Datatype mpi; selvage_type_t own; size_t parts; } known[] = {
        {MPI_DOUBLE, SELVAGE_FLOAT64, 1}, {MPI_FLOAT, SELVAGE_FLOAT32, 1}, {MPI_INT, SELVAGE_INT32, 1},
        {MPI_DOUBLE_PRECISION, SELVAGE_FLOAT64, 1}, {MPI_REAL, SELVAGE_FLOAT32, 1}, {MPI_INTEGER, SELVAGE_INT32, 1},
        {MPI_REAL8, SELVAGE_FLOAT64, 1}, {MPI_REAL4, SELVAGE_FLOAT32, 1}, {MPI_INTEGER4, SELVAGE_INT32, 1},
        {MPI_INTEGER8, SELVAGE_INT64, 1}, {MPI_INTEGER1, SELVAGE_INT8, 1}, {MPI_AINT, SELVAGE_INT64, 1},
        {MPI_OFFSET, SELVAGE_INT64, 1}, {MPI_COUNT, SELVAGE_INT64, 1}, {MPI_INT32_T, SELVAGE_INT32, 1},
        {MPI_UINT32_T, SELVAGE_UINT32, 1}, {MPI_INT64_T, SELVAGE_INT64, 1}, {MPI_UINT64_T, SELVAGE_UINT64, 1},
        {MPI_UNSIGNED, SELVAGE_UINT32, 1}, {MPI_LONG_LONG, SELVAGE_INT64, 1},
        {MPI_UNSIGNED_LONG_LONG, SELVAGE_UINT64, 1}, {MPI_LONG, sizeof(long) == 8 ? SELVAGE_INT64 : SELVAGE_INT32, 1},
        {MPI_UNSIGNED_LONG, sizeof(long) == 8 ? SELVAGE_UINT64 : SELVAGE_UINT32, 1}, {MPI_INT8_T, SELVAGE_INT8, 1},
        {MPI_UINT8_T, SELVAGE_UINT8, 1}, {MPI_SIGNED_CHAR, SELVAGE_INT8, 1}, {MPI_UNSIGNED_CHAR, SELVAGE_UINT8, 1},
        {MPI_CHAR, CHAR_MIN < 0 ? SELVAGE_INT8 : SELVAGE_UINT8, 1}, {MPI_C_DOUBLE_COMPLEX, SELVAGE_FLOAT64, 2},
        {MPI_C_FLOAT_COMPLEX, SELVAGE_FLOAT32, 2}, {MPI_DOUBLE_COMPLEX, SELVAGE_FLOAT64, 2},
        {MPI_COMPLEX, SELVAGE_FLOAT32, 2}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].mpi == type)
            return (like_t){known[i].own, known[i].parts};
    return (like_t){SELVAGE_TYPE_DEFAULT, 1};
}

static selvage_op_t op_of(MPI_Op op)
{
    return op == MPI_SUM ? SELVAGE_OP_SUM : op == MPI_PROD ? SELVAGE_OP_PROD : op == MPI_MIN ? SELVAGE_OP_MIN
           : op == MPI_MAX ? SELVAGE_OP_MAX : SELVAGE_OP_DEFAULT;
}

/* Memory of the route's device that elements of this size lie right in. */
static bool is_fit(const void *buf, size_t element_bytes)
{
    return buf && buf != MPI_IN_PLACE && (uintptr_t)buf % element_bytes == 0 && !sv_drop_is_host(buf) &&
           !sv_drop_is_others(buf);
}

/* Bytes of so many elements without gaps; 0 if they have some. */
static size_t dense_bytes_of(MPI_Count count, MPI_Datatype type)
{
    sv_drop_type_t info;
    return count > 0 && sv_drop_type(type, &info) && info.dense ? (size_t)count * (size_t)info.bytes : 0;
}

/* Elements of these types in Fortran may have other lengths, by the compiler's flags. */
static bool can_reduce(int64_t count, MPI_Datatype type, MPI_Op op)
{
    const like_t like = like_of(type);
    const selvage_op_t own = op_of(op);
    return count > 0 && like.type != SELVAGE_TYPE_DEFAULT && own != SELVAGE_OP_DEFAULT &&
           (like.parts == 1 || own == SELVAGE_OP_SUM) &&
           dense_bytes_of(1, type) == like.parts * selvage_type_bytes(like.type);
}

/* Attributes of a communicator: whether it has the ranks of MPI_COMM_WORLD in the same order, which takes time to find
   out. world_agreed: it has, and the other ranks have agreed on its next call. */
static char world_yes, world_no, world_agreed;

/* Whether calls on a communicator can take the route. The answer is alike on all ranks. */
static bool is_route_of(MPI_Comm comm)
{
    void *found = NULL;
    int has = 0, result = MPI_UNEQUAL;
    if (!fast.coll || comm == MPI_COMM_NULL || !sv_drop_fast_is_in_order(comm))
        return false;
    if (comm == MPI_COMM_WORLD)
        return true;
    PMPI_Comm_get_attr(comm, fast.key, &found, &has);
    if (!has) {
        found = PMPI_Comm_compare(comm, MPI_COMM_WORLD, &result) == MPI_SUCCESS && result == MPI_CONGRUENT ? &world_yes
                                                                                                           : &world_no;
        PMPI_Comm_set_attr(comm, fast.key, found);
    }
    return found != &world_no;
}

/* Buffers that overlap are left to MPI, which refuses them. */
static bool is_apart(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    const uintptr_t first = (uintptr_t)a, second = (uintptr_t)b;
    return a == MPI_IN_PLACE || first + a_bytes <= second || second + b_bytes <= first;
}

static bool is_rank(int root, MPI_Comm comm)
{
    return root >= 0 && root < sv_drop_size(comm);
}

/* --- the calls ---------------------------------------------------------------------------------------------------- */

/* Waits for what the call has enqueued. If a launch failed, the ranks hear of it whose kernels wait for it. */
static bool finish_fastcoll(MPI_Comm comm, const char *call, size_t bytes, selvage_status_t status, int *code)
{
    if (status != SELVAGE_SUCCESS)
        selvage_coll_abort(fast.coll);
    const selvage_status_t ended = selvage_stream_synchronize(fast.device, fast.stream);
    status = status == SELVAGE_SUCCESS ? ended : status;
    if (status == SELVAGE_SUCCESS)
        status = selvage_coll_error(fast.coll);
    if (status != SELVAGE_SUCCESS) {
        atomic_store_explicit(&fast.failed, true, memory_order_relaxed);
        sv_drop_warn("%s failed on the fast route, and later calls are staged: %s", call, selvage_error_detail());
        *code = MPI_ERR_OTHER;
        PMPI_Comm_call_errhandler(comm, *code);
        return true;
    }
    sv_drop_count_all(call, "fast", (int64_t)bytes);
    *code = MPI_SUCCESS;
    return true;
}

/* The communicator on which this thread's call has come to no agreement, so that MPI makes it. */
static _Thread_local MPI_Comm staged_on;

/* Whether a call may take the route, by its communicator and by the bytes of an argument that all ranks have. The
   answer is alike on all ranks. */
static bool is_due(MPI_Comm comm, int64_t count, MPI_Datatype type)
{
    staged_on = MPI_COMM_NULL;
    return fast.coll && sv_drop_fast_takes(count, type) && is_route_of(comm);
}

/*
 * Whether MPI refuses a type or operation (MPI_OP_NULL: there is none): asked by a call of MPI's in which nothing
 * moves. The other ranks do not hear of what MPI refuses on this rank. They must find this rank in the same call as
 * without the drop-in, and so it does not come to agree_on_call() with them.
 */
static bool mpi_refuses(MPI_Datatype type, MPI_Op op)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    char none[2] = "";
    sv_drop_type_t info;
    if (type == MPI_DATATYPE_NULL || (op == MPI_OP_NULL && sv_drop_type(type, &info) && info.named))
        return type == MPI_DATATYPE_NULL;
    pthread_mutex_lock(&lock);
    /* One element, since MPICH asks nothing about the type of none; one rank's broadcast moves nothing. */
    const int code = op == MPI_OP_NULL ? PMPI_Bcast(none, 1, type, 0, fast.self)
                                       : PMPI_Allreduce(&none[0], &none[1], 0, type, op, fast.self);
    pthread_mutex_unlock(&lock);
    return code != MPI_SUCCESS;
}

static bool mpi_refuses_op(MPI_Datatype type, MPI_Op op)
{
    return op == MPI_OP_NULL || mpi_refuses(type, op);
}

/* Whether all ranks can make this call on the route. The program's own work comes before the agreement, because after
   it the other ranks' kernels wait for this rank's. */
static bool agree_on_call(MPI_Comm comm, bool mine)
{
    const bool can = mine && !atomic_load_explicit(&fast.failed, memory_order_relaxed);
    void *found = NULL;
    int has = 0;
    if (atomic_load_explicit(&fast.agreed, memory_order_relaxed) > 0)
        PMPI_Comm_get_attr(comm, fast.key, &found, &has);
    if (has && found == &world_agreed) {
        atomic_fetch_sub_explicit(&fast.agreed, 1, memory_order_relaxed);
        PMPI_Comm_set_attr(comm, fast.key, &world_yes);
        return false;
    }
    if (can)
        sv_drop_settle();
    const bool agreed = sv_drop_fast_agree(comm, can && !sv_drop_is_stuck());
    staged_on = agreed ? MPI_COMM_NULL : comm;
    return agreed;
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
    atomic_fetch_add_explicit(&fast.agreed, 1, memory_order_relaxed);
    PMPI_Comm_set_attr(comm, fast.key, &world_agreed);
}

bool sv_drop_fast_Allreduce(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype type, MPI_Op op,
                            MPI_Comm comm, int *code)
{
    const like_t like = like_of(type);
    const size_t bytes = dense_bytes_of(count, type), align = selvage_type_bytes(like.type);
    const void *from = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    if (!is_due(comm, count, type) || mpi_refuses_op(type, op) ||
        !agree_on_call(comm, can_reduce(count, type, op) && is_fit(from, align) && is_fit(recvbuf, align) &&
                                 is_apart(sendbuf, bytes, recvbuf, bytes)))
        return false;
    return finish_fastcoll(comm, "MPI_Allreduce", bytes,
                           selvage_coll_all_reduce(fast.coll, from, recvbuf, (size_t)count * like.parts, like.type,
                                                   op_of(op), fast.stream),
                           code);
}

bool sv_drop_fast_Reduce(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype type, MPI_Op op, int root,
                         MPI_Comm comm, int *code)
{
    const like_t like = like_of(type);
    const size_t bytes = dense_bytes_of(count, type), align = selvage_type_bytes(like.type);
    const void *from = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    if (!is_due(comm, count, type) || !is_rank(root, comm) || mpi_refuses_op(type, op))
        return false;
    const bool is_root = sv_drop_rank(comm) == root;
    if (!agree_on_call(comm, (is_root || sendbuf != MPI_IN_PLACE) && can_reduce(count, type, op) &&
                                 is_fit(from, align) &&
                                 (!is_root || (is_fit(recvbuf, align) && is_apart(sendbuf, bytes, recvbuf, bytes)))))
        return false;
    return finish_fastcoll(comm, "MPI_Reduce", bytes,
                           selvage_coll_reduce(fast.coll, from, is_root ? recvbuf : NULL, (size_t)count * like.parts,
                                               like.type, op_of(op), root, fast.stream),
                           code);
}

bool sv_drop_fast_Bcast(void *buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm, int *code)
{
    size_t bytes = dense_bytes_of(count, type);
    if (!is_due(comm, count, type) || !is_rank(root, comm) || mpi_refuses(type, MPI_OP_NULL) ||
        !agree_on_call(comm, bytes > 0 && is_fit(buffer, 1)))
        return false;
    return finish_fastcoll(comm, "MPI_Bcast", bytes,
                           selvage_coll_broadcast(fast.coll, buffer, buffer, bytes, SELVAGE_UINT8, root, fast.stream),
                           code);
}

bool sv_drop_fast_Allgather(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                            MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, int *code)
{
    size_t bytes = dense_bytes_of(recvcount, recvtype);
    bool in_place = sendbuf == MPI_IN_PLACE;
    const void *from = in_place ? (char *)recvbuf + (size_t)sv_drop_rank(comm) * bytes : sendbuf;
    if (!is_due(comm, recvcount, recvtype) || mpi_refuses(recvtype, MPI_OP_NULL) ||
        (!in_place && mpi_refuses(sendtype, MPI_OP_NULL)) ||
        !agree_on_call(comm, bytes > 0 && (in_place || dense_bytes_of(sendcount, sendtype) == bytes) &&
                                 is_fit(from, 1) && is_fit(recvbuf, 1) &&
                                 is_apart(sendbuf, bytes, recvbuf, bytes * (size_t)sv_drop_size(comm))))
        return false;
    return finish_fastcoll(comm, "MPI_Allgather", bytes,
                           selvage_coll_all_gather(fast.coll, from, recvbuf, bytes, SELVAGE_UINT8, fast.stream), code);
}

bool sv_drop_fast_Alltoall(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                           MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, int *code)
{
    const size_t bytes = dense_bytes_of(recvcount, recvtype), all = bytes * (size_t)sv_drop_size(comm);
    if (!is_due(comm, recvcount, recvtype) || mpi_refuses(recvtype, MPI_OP_NULL) ||
        (sendbuf != MPI_IN_PLACE && mpi_refuses(sendtype, MPI_OP_NULL)) ||
        !agree_on_call(comm, bytes > 0 && is_fit(sendbuf, 1) && dense_bytes_of(sendcount, sendtype) == bytes &&
                                 is_fit(recvbuf, 1) && is_apart(sendbuf, all, recvbuf, all)))
        return false;
    return finish_fastcoll(comm, "MPI_Alltoall", all,
                           selvage_coll_all_to_all(fast.coll, sendbuf, recvbuf, bytes, SELVAGE_UINT8, fast.stream),
                           code);
}

bool sv_drop_fast_Reduce_scatter_block(const void *sendbuf, void *recvbuf, MPI_Count recvcount, MPI_Datatype type,
                                       MPI_Op op, MPI_Comm comm, int *code)
{
    const like_t like = like_of(type);
    const size_t own = dense_bytes_of(recvcount, type), align = selvage_type_bytes(like.type);
    if (!is_due(comm, recvcount, type) || mpi_refuses_op(type, op) ||
        !agree_on_call(comm, can_reduce(recvcount, type, op) && is_fit(sendbuf, align) && is_fit(recvbuf, align) &&
                                 is_apart(sendbuf, own * (size_t)sv_drop_size(comm), recvbuf, own)))
        return false;
    return finish_fastcoll(comm, "MPI_Reduce_scatter_block", own * (size_t)sv_drop_size(comm),
                           selvage_coll_reduce_scatter(fast.coll, sendbuf, recvbuf, (size_t)recvcount * like.parts,
                                                       like.type, op_of(op), fast.stream),
                           code);
}

/* The counts of a call, of either kind. */
typedef struct counts {
    const int *few;
    const MPI_Count *large;
} counts_t;

static int64_t count_at(counts_t counts, int i)
{
    return counts.few ? counts.few[i] : (int64_t)counts.large[i];
}

/* Blocks of several lengths are a reduction to each rank, in one launch. */
static selvage_status_t scatter_unequal(const void *from, void *to, counts_t counts, int n, like_t like,
                                        selvage_op_t op)
{
    const char *block = from;
    const int rank = sv_drop_rank(MPI_COMM_WORLD);
    selvage_status_t status = selvage_coll_group_begin(fast.coll);
    for (int i = 0; i < n && status == SELVAGE_SUCCESS; i++) {
        const size_t elements = (size_t)count_at(counts, i) * like.parts;
        if (elements > 0)
            status = selvage_coll_reduce(fast.coll, block, i == rank ? to : NULL, elements, like.type, op, i,
                                         fast.stream);
        block += elements * selvage_type_bytes(like.type);
    }
    const selvage_status_t ended = selvage_coll_group_end(fast.coll);
    return status == SELVAGE_SUCCESS ? ended : status;
}

static bool reduce_scatter(const void *sendbuf, void *recvbuf, counts_t counts, MPI_Datatype type, MPI_Op op,
                           MPI_Comm comm, int *code)
{
    enum { UNEQUAL_RANKS_MAX = 16 };
    const like_t like = like_of(type);
    const size_t align = selvage_type_bytes(like.type), element = dense_bytes_of(1, type);
    bool equal = true; /* each rank gets as many elements */
    staged_on = MPI_COMM_NULL;
    if (!is_route_of(comm))
        return false;
    const int n = sv_drop_size(comm);
    int64_t all = counts.few || counts.large ? 0 : -1; /* elements; -1: MPI refuses it */
    for (int i = 0; i < n && all >= 0; i++) {
        all = count_at(counts, i) < 0 ? -1 : all + count_at(counts, i);
        equal = equal && count_at(counts, i) == count_at(counts, 0);
    }
    if (!sv_drop_fast_takes(all, type) || mpi_refuses_op(type, op))
        return false;
    const size_t own = element * (size_t)count_at(counts, sv_drop_rank(comm));
    if (!agree_on_call(comm, can_reduce(all, type, op) && (equal || n <= UNEQUAL_RANKS_MAX) && is_fit(sendbuf, align) &&
                                 (own == 0 || is_fit(recvbuf, align)) &&
                                 is_apart(sendbuf, element * (size_t)all, recvbuf, own)))
        return false;
    const selvage_status_t status =
        equal ? selvage_coll_reduce_scatter(fast.coll, sendbuf, recvbuf, (size_t)count_at(counts, 0) * like.parts,
                                            like.type, op_of(op), fast.stream)
              : scatter_unequal(sendbuf, recvbuf, counts, n, like, op_of(op));
    return finish_fastcoll(comm, "MPI_Reduce_scatter", element * (size_t)all, status, code);
}

bool sv_drop_fast_Reduce_scatter(const void *sendbuf, void *recvbuf, const int *recvcounts, MPI_Datatype type,
                                 MPI_Op op, MPI_Comm comm, int *code)
{
    return reduce_scatter(sendbuf, recvbuf, (counts_t){.few = recvcounts}, type, op, comm, code);
}

bool sv_drop_fast_Reduce_scatter_c(const void *sendbuf, void *recvbuf, const MPI_Count *recvcounts, MPI_Datatype type,
                                   MPI_Op op, MPI_Comm comm, int *code)
{
    return reduce_scatter(sendbuf, recvbuf, (counts_t){.large = recvcounts}, type, op, comm, code);
}
