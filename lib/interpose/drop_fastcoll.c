/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collective calls on the fast route: by Selvage's collectives, if every rank gives device memory that they take, and
 * type and operation map. The ranks agree on that in each call that moves as much as messages of the route do; how much
 * that is, all of them know alike. What is shorter, or not agreed on, is staged. So are all calls where the ranks are
 * on several nodes, and all calls after one has failed on any rank.
 *
 * The kernels say in a record of their own what went wrong, not by the stream. A call has succeeded only when the
 * stream is through and the record is empty; else it ends with MPI_ERR_OTHER through the communicator's error handler.
 */
#include "interpose/drop_route.h"

#include <selvage/collective.h>

static struct {
    selvage_coll_t *coll;
    selvage_device_t *device;
    void *stream;
    int key;             /* of what is_world() has found */
    _Atomic bool failed; /* a call of this rank's: it agrees to no other */
} fast = {.key = MPI_KEYVAL_INVALID};

static bool are_all_near(void)
{
    const int size = sv_drop_size(MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        if (!sv_drop_route.near[i])
            return false;
    return true;
}

/* Every rank comes to selvage_coll_create(), which is collective, or none does. */
bool sv_drop_fastcoll_open(selvage_comm_t *world)
{
    int own, all = 0;
    fast.device = sv_drop_device();
    own = are_all_near() && selvage_stream_create(fast.device, &fast.stream) == SELVAGE_SUCCESS &&
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
    fast.coll = NULL;
    fast.stream = NULL;
}

/* --- what maps ---------------------------------------------------------------------------------------------------- */

static selvage_type_t type_of(MPI_Datatype type)
{
    const struct { MPI_Datatype mpi; selvage_type_t own; } known[] = {
        {MPI_DOUBLE, SELVAGE_FLOAT64}, {MPI_FLOAT, SELVAGE_FLOAT32}, {MPI_INT, SELVAGE_INT32},
        {MPI_DOUBLE_PRECISION, SELVAGE_FLOAT64}, {MPI_REAL, SELVAGE_FLOAT32}, {MPI_INTEGER, SELVAGE_INT32},
        {MPI_INT32_T, SELVAGE_INT32}, {MPI_UINT32_T, SELVAGE_UINT32}, {MPI_INT64_T, SELVAGE_INT64},
        {MPI_UINT64_T, SELVAGE_UINT64}, {MPI_UNSIGNED, SELVAGE_UINT32}, {MPI_LONG_LONG, SELVAGE_INT64},
        {MPI_UNSIGNED_LONG_LONG, SELVAGE_UINT64}, {MPI_LONG, sizeof(long) == 8 ? SELVAGE_INT64 : SELVAGE_INT32},
        {MPI_UNSIGNED_LONG, sizeof(long) == 8 ? SELVAGE_UINT64 : SELVAGE_UINT32}, {MPI_INT8_T, SELVAGE_INT8},
        {MPI_UINT8_T, SELVAGE_UINT8}, {MPI_SIGNED_CHAR, SELVAGE_INT8}, {MPI_UNSIGNED_CHAR, SELVAGE_UINT8}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].mpi == type)
            return known[i].own;
    return SELVAGE_TYPE_DEFAULT;
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
static size_t bytes_of(int count, MPI_Datatype type)
{
    sv_drop_type_t info;
    return count > 0 && sv_drop_type(type, &info) && info.dense ? (size_t)count * (size_t)info.bytes : 0;
}

static bool reduces(int count, MPI_Datatype type, MPI_Op op)
{
    return count > 0 && type_of(type) != SELVAGE_TYPE_DEFAULT && op_of(op) != SELVAGE_OP_DEFAULT;
}

/* A communicator of the same ranks in the same order; what was found, which takes time, hangs on it. */
static bool is_world(MPI_Comm comm)
{
    static char yes, no;
    void *found = NULL;
    int has = 0, result = MPI_UNEQUAL;
    if (comm == MPI_COMM_WORLD)
        return true;
    PMPI_Comm_get_attr(comm, fast.key, &found, &has);
    if (!has) {
        found = PMPI_Comm_compare(comm, MPI_COMM_WORLD, &result) == MPI_SUCCESS && result == MPI_CONGRUENT ? &yes : &no;
        PMPI_Comm_set_attr(comm, fast.key, found);
    }
    return found == &yes;
}

/* MPI refuses buffers that overlap: it is to say so. */
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

/* After what it enqueues. A launch that failed is told to the ranks whose kernels wait for it. */
static bool finish(MPI_Comm comm, const char *call, size_t bytes, selvage_status_t status, int *code)
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

/* Alike on all ranks: the communicator, and the bytes of an argument that they all have. */
static bool is_due(MPI_Comm comm, int64_t count, MPI_Datatype type)
{
    return fast.coll && sv_drop_fast_takes(count, type) && sv_drop_fast_is_in_order(comm) && is_world(comm);
}

/* The program's own work comes before the agreement: from there on the other ranks' kernels wait for this rank's. */
static bool agree(MPI_Comm comm, bool mine)
{
    const bool can = mine && !atomic_load_explicit(&fast.failed, memory_order_relaxed);
    if (can)
        sv_drop_settle();
    return sv_drop_fast_agree(comm, can);
}

bool sv_drop_fast_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                            int *code)
{
    size_t element = bytes_of(1, type);
    const void *from = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    if (!is_due(comm, count, type) ||
        !agree(comm, reduces(count, type, op) && is_fit(from, element) && is_fit(recvbuf, element) &&
                         is_apart(sendbuf, element * (size_t)count, recvbuf, element * (size_t)count)))
        return false;
    return finish(comm, "MPI_Allreduce", element * (size_t)count,
                  selvage_coll_all_reduce(fast.coll, from, recvbuf, (size_t)count, type_of(type), op_of(op),
                                          fast.stream), code);
}

bool sv_drop_fast_Reduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op, int root,
                         MPI_Comm comm, int *code)
{
    size_t element = bytes_of(1, type);
    bool is_root = root >= 0 && sv_drop_rank(comm) == root;
    const void *from = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    if (!is_due(comm, count, type) ||
        !agree(comm, is_rank(root, comm) && (is_root || sendbuf != MPI_IN_PLACE) && reduces(count, type, op) &&
                         is_fit(from, element) &&
                         (!is_root || (is_fit(recvbuf, element) && is_apart(sendbuf, element * (size_t)count, recvbuf,
                                                                            element * (size_t)count)))))
        return false;
    return finish(comm, "MPI_Reduce", element * (size_t)count,
                  selvage_coll_reduce(fast.coll, from, is_root ? recvbuf : NULL, (size_t)count, type_of(type),
                                      op_of(op), root, fast.stream), code);
}

bool sv_drop_fast_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm, int *code)
{
    size_t bytes = bytes_of(count, type);
    if (!is_due(comm, count, type) || !agree(comm, is_rank(root, comm) && bytes > 0 && is_fit(buffer, 1)))
        return false;
    return finish(comm, "MPI_Bcast", bytes,
                  selvage_coll_broadcast(fast.coll, buffer, buffer, bytes, SELVAGE_UINT8, root, fast.stream), code);
}

bool sv_drop_fast_Allgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                            MPI_Datatype recvtype, MPI_Comm comm, int *code)
{
    size_t bytes = bytes_of(recvcount, recvtype);
    bool in_place = sendbuf == MPI_IN_PLACE;
    const void *from = in_place ? (char *)recvbuf + (size_t)sv_drop_rank(comm) * bytes : sendbuf;
    if (!is_due(comm, recvcount, recvtype) ||
        !agree(comm, bytes > 0 && (in_place || bytes_of(sendcount, sendtype) == bytes) && is_fit(from, 1) &&
                         is_fit(recvbuf, 1) &&
                         is_apart(sendbuf, bytes, recvbuf, bytes * (size_t)sv_drop_size(comm))))
        return false;
    return finish(comm, "MPI_Allgather", bytes,
                  selvage_coll_all_gather(fast.coll, from, recvbuf, bytes, SELVAGE_UINT8, fast.stream), code);
}

bool sv_drop_fast_Alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                           MPI_Datatype recvtype, MPI_Comm comm, int *code)
{
    const size_t bytes = bytes_of(recvcount, recvtype), all = bytes * (size_t)sv_drop_size(comm);
    if (!is_due(comm, recvcount, recvtype) ||
        !agree(comm, bytes > 0 && is_fit(sendbuf, 1) && bytes_of(sendcount, sendtype) == bytes &&
                         is_fit(recvbuf, 1) && is_apart(sendbuf, all, recvbuf, all)))
        return false;
    return finish(comm, "MPI_Alltoall", all,
                  selvage_coll_all_to_all(fast.coll, sendbuf, recvbuf, bytes, SELVAGE_UINT8, fast.stream), code);
}

bool sv_drop_fast_Reduce_scatter_block(const void *sendbuf, void *recvbuf, int recvcount, MPI_Datatype type, MPI_Op op,
                                       MPI_Comm comm, int *code)
{
    const size_t element = bytes_of(1, type), own = bytes_of(recvcount, type);
    if (!is_due(comm, recvcount, type) ||
        !agree(comm, reduces(recvcount, type, op) && is_fit(sendbuf, element) && is_fit(recvbuf, element) &&
                         is_apart(sendbuf, own * (size_t)sv_drop_size(comm), recvbuf, own)))
        return false;
    return finish(comm, "MPI_Reduce_scatter_block", own * (size_t)sv_drop_size(comm),
                  selvage_coll_reduce_scatter(fast.coll, sendbuf, recvbuf, (size_t)recvcount, type_of(type), op_of(op),
                                              fast.stream), code);
}
