/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collective calls on the fast route: by Selvage's collectives, if every rank gives device memory that they take, and
 * type and operation map. The ranks agree on that (drop_agree.c) in each call that moves as much as messages of the
 * route do, which all of them know alike. Shorter calls are staged, and those without agreement. So are all calls
 * after one has failed on any rank.
 *
 * The kernels say in a record of their own what went wrong, not by the stream. A call has succeeded only if they are
 * through and the record is empty. Otherwise it ends with MPI_ERR_OTHER through the communicator's error handler.
 *
 * MPI's rules order the calls of a communicator. What a call is made with belongs to drop_collcomm.c.
 */
#include "interpose/drop_fastcoll.h"
#include "interpose/drop_agree.h"
#include "interpose/drop_collcomm.h"
#include "interpose/drop_number.h"
#include "interpose/drop_raise.h"
#include "interpose/drop_scratch.h"

#include <selvage/collective.h>

/* Bytes of so many elements without gaps; 0 if they have some. */
static size_t dense_bytes_of(MPI_Count count, MPI_Datatype type)
{
    sv_drop_type_t info;
    return count > 0 && sv_drop_type(type, &info) && info.dense ? (size_t)count * (size_t)info.bytes : 0;
}

/* Of the elements of a reduction; 0 if they do not map. */
static size_t number_bytes(int64_t count, const sv_drop_number_t *number)
{
    return count > 0 && number->type != SELVAGE_TYPE_DEFAULT ? (size_t)count * number->bytes : 0;
}

/* --- the calls ---------------------------------------------------------------------------------------------------- */

/* A call of this rank's: it agrees to no other. */
static _Atomic bool has_failed;

/* Waits for what the call has enqueued. If a launch failed, the ranks hear of it whose kernels wait for it. */
static bool finish_fastcoll(selvage_coll_t *coll, MPI_Comm comm, const char *call, size_t bytes,
                            selvage_status_t status, int *code)
{
    if (status != SELVAGE_SUCCESS)
        selvage_coll_abort(coll);
    const selvage_status_t ended = status == SELVAGE_SUCCESS
                                       ? selvage_coll_wait(coll)
                                       : selvage_stream_synchronize(sv_drop_device(), sv_drop_coll_stream());
    if (status == SELVAGE_SUCCESS && ended == SELVAGE_ERR_DEVICE) /* by this call's work, or the program's before it */
        sv_drop_fatal("the device failed", selvage_error_detail());
    status = status == SELVAGE_SUCCESS ? ended : status;
    if (status == SELVAGE_ERR_DEVICE) /* by this call's work, or the program's before it */
        sv_drop_fatal("the device failed", selvage_error_detail());
    if (status != SELVAGE_SUCCESS) {
        atomic_store_explicit(&has_failed, true, memory_order_relaxed);
        sv_drop_warn("%s failed on the fast route, and later calls are staged: %s", call, selvage_error_detail());
        *code = sv_drop_raise(comm, MPI_ERR_OTHER);
        return true;
    }
    sv_drop_count_all(call, "fast", (int64_t)bytes);
    *code = MPI_SUCCESS;
    return true;
}

/* Whether a call may take the route, by its communicator and by the bytes of an argument that all ranks have. The
   answer is alike on all ranks. */
static bool is_due(MPI_Comm comm, int64_t count, MPI_Datatype type)
{
    return sv_drop_agree_begin() && sv_drop_fast_takes_call(count, type) &&
           sv_drop_reaches(comm);
}

static bool mpi_refuses_op(MPI_Datatype type, MPI_Op op)
{
    return op == MPI_OP_NULL || sv_drop_mpi_refuses(type, op);
}

static selvage_coll_t *agree_on_call(MPI_Comm comm, bool mine)
{
    return sv_drop_collcomm_agree(comm, mine && !atomic_load_explicit(&has_failed, memory_order_relaxed));
}

bool sv_drop_fast_Allreduce(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype type, MPI_Op op,
                            MPI_Comm comm, int *code)
{
    selvage_coll_t *coll;
    const sv_drop_number_t number = sv_drop_number(type, op);
    const size_t bytes = number_bytes(count, &number);
    const void *from = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    if (!is_due(comm, count, type) || mpi_refuses_op(type, op) ||
        !(coll = agree_on_call(comm, bytes > 0 && sv_drop_is_fit(from, number.align) &&
                                         sv_drop_is_fit(recvbuf, number.align) &&
                                         sv_drop_is_apart(sendbuf, bytes, recvbuf, bytes))))
        return false;
    return finish_fastcoll(
        coll, comm, "MPI_Allreduce", bytes,
        selvage_coll_all_reduce(coll, from, recvbuf, (size_t)count, number.type, number.op, sv_drop_coll_stream()),
        code);
}

bool sv_drop_fast_Reduce(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype type, MPI_Op op, int root,
                         MPI_Comm comm, int *code)
{
    selvage_coll_t *coll;
    const sv_drop_number_t number = sv_drop_number(type, op);
    const size_t bytes = number_bytes(count, &number);
    const void *from = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    if (!is_due(comm, count, type) || !sv_drop_has_rank(comm, root) || mpi_refuses_op(type, op))
        return false;
    const bool is_root = sv_drop_rank(comm) == root;
    if (!(coll = agree_on_call(
              comm,
              (is_root || sendbuf != MPI_IN_PLACE) && bytes > 0 && sv_drop_is_fit(from, number.align) &&
                  (!is_root ||
                   (sv_drop_is_fit(recvbuf, number.align) && sv_drop_is_apart(sendbuf, bytes, recvbuf, bytes))))))
        return false;
    return finish_fastcoll(coll, comm, "MPI_Reduce", bytes,
                           selvage_coll_reduce(coll, from, is_root ? recvbuf : NULL, (size_t)count, number.type,
                                               number.op, root, sv_drop_coll_stream()),
                           code);
}

bool sv_drop_fast_Bcast(void *buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm, int *code)
{
    selvage_coll_t *coll;
    size_t bytes = dense_bytes_of(count, type);
    if (!is_due(comm, count, type) || !sv_drop_has_rank(comm, root) || sv_drop_mpi_refuses(type, MPI_OP_NULL) ||
        !(coll = agree_on_call(comm, bytes > 0 && sv_drop_is_fit(buffer, 1))))
        return false;
    return finish_fastcoll(coll, comm, "MPI_Bcast", bytes,
                           selvage_coll_broadcast(coll, buffer, buffer, bytes, SELVAGE_UINT8, root,
                                                  sv_drop_coll_stream()), code);
}

bool sv_drop_fast_Allgather(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                            MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, int *code)
{
    selvage_coll_t *coll;
    size_t bytes = dense_bytes_of(recvcount, recvtype);
    bool in_place = sendbuf == MPI_IN_PLACE;
    const void *from = in_place ? (char *)recvbuf + (size_t)sv_drop_rank(comm) * bytes : sendbuf;
    if (!is_due(comm, recvcount, recvtype) || sv_drop_mpi_refuses(recvtype, MPI_OP_NULL) ||
        (!in_place && sv_drop_mpi_refuses(sendtype, MPI_OP_NULL)) ||
        !(coll =
              agree_on_call(comm, bytes > 0 && (in_place || dense_bytes_of(sendcount, sendtype) == bytes) &&
                                      sv_drop_is_fit(from, 1) && sv_drop_is_fit(recvbuf, 1) &&
                                      sv_drop_is_apart(sendbuf, bytes, recvbuf, bytes * (size_t)sv_drop_size(comm)))))
        return false;
    return finish_fastcoll(coll, comm, "MPI_Allgather", bytes,
                           selvage_coll_all_gather(coll, from, recvbuf, bytes, SELVAGE_UINT8, sv_drop_coll_stream()),
                           code);
}

/* --- what MPI_IN_PLACE stands for --------------------------------------------------------------------------------- */

/* Where a call that cannot write to what it reads does one of the two; NULL: it is staged, or needs none. Partner:
   sv_drop_scratch_give(), after the call. */
static void *take_scratch_for(const void *sendbuf, const void *recvbuf, size_t align, size_t bytes)
{
    return sendbuf == MPI_IN_PLACE && bytes > 0 && !atomic_load_explicit(&has_failed, memory_order_relaxed) &&
                   sv_drop_is_fit(recvbuf, align) ? sv_drop_scratch_take(bytes) : NULL;
}

static selvage_status_t copy_on_device(void *to, const void *from, size_t bytes)
{
    return selvage_device_copy(sv_drop_device(), to, from, bytes, SELVAGE_COPY_DEVICE_TO_DEVICE, sv_drop_coll_stream());
}

bool sv_drop_fast_Alltoall(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                           MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, int *code)
{
    selvage_coll_t *coll;
    const size_t bytes = dense_bytes_of(recvcount, recvtype), all = bytes * (size_t)sv_drop_size(comm);
    const bool in_place = sendbuf == MPI_IN_PLACE;
    if (!is_due(comm, recvcount, recvtype) || sv_drop_mpi_refuses(recvtype, MPI_OP_NULL) ||
        (!in_place && sv_drop_mpi_refuses(sendtype, MPI_OP_NULL)))
        return false;
    /* What is sent is brought out of the way first. */
    void *place = take_scratch_for(sendbuf, recvbuf, 1, all);
    const void *from = in_place ? place : sendbuf;
    coll = agree_on_call(comm, bytes > 0 && sv_drop_is_fit(from, 1) &&
                                   (in_place || dense_bytes_of(sendcount, sendtype) == bytes) &&
                                   sv_drop_is_fit(recvbuf, 1) && sv_drop_is_apart(from, all, recvbuf, all));
    if (coll) {
        selvage_status_t status = in_place ? copy_on_device(place, recvbuf, all) : SELVAGE_SUCCESS;
        if (status == SELVAGE_SUCCESS)
            status = selvage_coll_all_to_all(coll, from, recvbuf, bytes, SELVAGE_UINT8, sv_drop_coll_stream());
        finish_fastcoll(coll, comm, "MPI_Alltoall", all, status, code);
    }
    sv_drop_scratch_give(place);
    return coll != NULL;
}

/* Elements for each rank: of a list of either kind, or the same number. */
typedef struct counts {
    const int *few;
    const MPI_Count *large;
    int64_t each;
} counts_t;

static int64_t count_at(const counts_t *counts, int i)
{
    return counts->few ? counts->few[i] : counts->large ? (int64_t)counts->large[i] : counts->each;
}

/* A reduction whose blocks go to the ranks. */
typedef struct scatter {
    const char *name;
    const void *sendbuf;
    void *recvbuf;
    counts_t counts;
    int n;
    int64_t all; /* elements */
    bool equal;  /* each rank gets as many elements */
    MPI_Datatype type;
    MPI_Op op;
    MPI_Comm comm;
} scatter_t;

/* Blocks of several lengths are a reduction to each rank, in one launch. */
static selvage_status_t scatter_unequal(selvage_coll_t *coll, const scatter_t *x, const void *from, void *to,
                                        const sv_drop_number_t *number)
{
    const char *block = from;
    const int rank = selvage_coll_rank(coll);
    selvage_status_t status = selvage_coll_group_begin(coll);
    for (int i = 0; i < x->n && status == SELVAGE_SUCCESS; i++) {
        const size_t elements = (size_t)count_at(&x->counts, i);
        if (elements > 0)
            status = selvage_coll_reduce(coll, block, i == rank ? to : NULL, elements, number->type, number->op, i,
                                         sv_drop_coll_stream());
        block += elements * number->bytes;
    }
    const selvage_status_t ended = selvage_coll_group_end(coll);
    return status == SELVAGE_SUCCESS ? ended : status;
}

static selvage_status_t enqueue_scatter(selvage_coll_t *coll, const scatter_t *x, const void *from, void *to,
                                        const sv_drop_number_t *number)
{
    if (!x->equal)
        return scatter_unequal(coll, x, from, to, number);
    return selvage_coll_reduce_scatter(coll, from, to, (size_t)count_at(&x->counts, 0), number->type, number->op,
                                       sv_drop_coll_stream());
}

static bool make_reduce_scatter(const scatter_t *x, int *code)
{
    enum { UNEQUAL_RANKS_MAX = 16 };
    const sv_drop_number_t number = sv_drop_number(x->type, x->op);
    const size_t own = number_bytes(count_at(&x->counts, sv_drop_rank(x->comm)), &number);
    const size_t all = number_bytes(x->all, &number);
    const bool in_place = x->sendbuf == MPI_IN_PLACE;
    const bool fits = all > 0 && (x->equal || x->n <= UNEQUAL_RANKS_MAX);
    /* In place the block is made elsewhere, as the other ranks may still read what is in its place. */
    void *place = fits ? take_scratch_for(x->sendbuf, x->recvbuf, number.align, own) : NULL;
    void *to = in_place ? place : x->recvbuf;
    const void *from = in_place ? x->recvbuf : x->sendbuf;
    selvage_coll_t *coll = agree_on_call(x->comm, fits && sv_drop_is_fit(from, number.align) &&
                                                      (own == 0 || sv_drop_is_fit(to, number.align)) &&
                                                      sv_drop_is_apart(from, all, to, own));
    if (coll) {
        selvage_status_t status = SELVAGE_SUCCESS;
        if (in_place && own > 0 && number.has_gap) /* what is in the gaps comes back as it was */
            status = copy_on_device(place, x->recvbuf, own);
        if (status == SELVAGE_SUCCESS)
            status = enqueue_scatter(coll, x, from, to, &number);
        if (status == SELVAGE_SUCCESS && in_place && own > 0) { /* for which waiting for the call does not wait */
            status = copy_on_device(x->recvbuf, place, own);
            if (status == SELVAGE_SUCCESS)
                status = selvage_stream_synchronize(sv_drop_device(), sv_drop_coll_stream());
        }
        finish_fastcoll(coll, x->comm, x->name, all, status, code);
    }
    sv_drop_scratch_give(place);
    return coll != NULL;
}

bool sv_drop_fast_Reduce_scatter_block(const void *sendbuf, void *recvbuf, MPI_Count recvcount, MPI_Datatype type,
                                       MPI_Op op, MPI_Comm comm, int *code)
{
    if (!is_due(comm, recvcount, type) || mpi_refuses_op(type, op))
        return false;
    const int n = sv_drop_size(comm);
    return make_reduce_scatter(&(scatter_t){"MPI_Reduce_scatter_block", sendbuf, recvbuf, {.each = recvcount}, n,
                                            (int64_t)recvcount * n, true, type, op, comm}, code);
}

static bool reduce_scatter(const void *sendbuf, void *recvbuf, counts_t counts, MPI_Datatype type, MPI_Op op,
                           MPI_Comm comm, int *code)
{
    bool equal = true;
    if (!sv_drop_agree_begin() || !sv_drop_reaches(comm))
        return false;
    const int n = sv_drop_size(comm);
    int64_t all = counts.few || counts.large ? 0 : -1; /* -1: MPI refuses it */
    for (int i = 0; i < n && all >= 0; i++) {
        all = count_at(&counts, i) < 0 ? -1 : all + count_at(&counts, i);
        equal = equal && count_at(&counts, i) == count_at(&counts, 0);
    }
    if (!sv_drop_fast_takes_call(all, type) || mpi_refuses_op(type, op))
        return false;
    return make_reduce_scatter(&(scatter_t){"MPI_Reduce_scatter", sendbuf, recvbuf, counts, n, all, equal, type, op,
                                            comm}, code);
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
