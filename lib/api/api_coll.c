/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public calls on collectives. Each checks its arguments and calls the module collective. Whatever is collective
 * over the wire runs where the engine lives. What only enqueues runs on the calling thread, since it shares nothing
 * with the engine but constants. selvage_reduce_local() has no communicator, and any thread may call it.
 */
#include <string.h>

#include "api/api_params.h"
#include "collective/coll_cache.h"
#include "collective/coll_parts.h"
#include "host/memory_kind.h"
#include "kernels/coll_fold.h"
#include "kernels/kernels.h"

selvage_status_t selvage_coll_create(selvage_comm_t *comm, const selvage_coll_params_t *params,
                                     selvage_coll_t **coll_out)
{
    selvage_coll_params_t own;
    SV_API_NEED(comm);
    SV_API_NEED(coll_out);
    SV_TRY(sv_api_copy_params("params", params, &own, sizeof own));
    if ((int)own.sum < SELVAGE_SUM_DEFAULT || own.sum > SELVAGE_SUM_EXACT)
        return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_coll_create: params.sum is %d; wanted a selvage_sum_t",
                        (int)own.sum);
    SV_TRY(sv_api_enter(comm));
    return sv_api_leave(sv_coll_create(comm, &own, coll_out));
}

int selvage_coll_supported(const selvage_comm_t *comm)
{
    return comm && sv_coll_is_supported(comm);
}

selvage_status_t selvage_coll_split(selvage_coll_t *coll, int color, int key, selvage_coll_t **coll_out)
{
    SV_API_NEED(coll);
    SV_API_NEED(coll_out);
    if (color < -1)
        return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_coll_split: color is %d; wanted -1, 0 or more", color);
    SV_TRY(sv_api_enter(coll->comm));
    return sv_api_leave(sv_coll_split(coll, color, key, coll_out));
}

/* Each rank once, and the caller among them. */
static selvage_status_t check_members(const selvage_coll_t *coll, int nranks, const int *ranks)
{
    bool has_own = false;
    if (nranks < 1 || nranks > coll->size)
        return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_coll_create_among: nranks is %d; wanted 1..%d", nranks,
                        coll->size);
    for (int i = 0; i < nranks; i++) {
        if (ranks[i] < 0 || ranks[i] >= coll->size)
            return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_coll_create_among: ranks[%d] is %d; wanted 0..%d", i,
                            ranks[i], coll->size - 1);
        for (int j = 0; j < i; j++)
            if (ranks[j] == ranks[i])
                return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_coll_create_among: rank %d is in ranks[%d] and [%d]",
                                ranks[i], j, i);
        has_own = has_own || ranks[i] == coll->rank;
    }
    return has_own ? SELVAGE_SUCCESS
                   : sv_error(SELVAGE_ERR_ARGUMENT, "selvage_coll_create_among: this rank, %d, is not in the list",
                              coll->rank);
}

selvage_status_t selvage_coll_create_among(selvage_coll_t *coll, int nranks, const int *ranks,
                                           selvage_coll_t **coll_out)
{
    SV_API_NEED(coll);
    SV_API_NEED(ranks);
    SV_API_NEED(coll_out);
    SV_TRY(check_members(coll, nranks, ranks));
    SV_TRY(sv_api_enter(coll->comm));
    return sv_api_leave(sv_coll_create_among(coll, nranks, ranks, coll_out));
}

void selvage_coll_destroy(selvage_coll_t *coll)
{
    if (!coll)
        return;
    (void)sv_api_enter(coll->comm);
    sv_coll_destroy(coll);
    sv_api_leave(SELVAGE_SUCCESS);
}

int selvage_coll_rank(const selvage_coll_t *coll)
{
    return coll ? coll->rank : -1;
}

int selvage_coll_size(const selvage_coll_t *coll)
{
    return coll ? coll->size : -1;
}

selvage_status_t selvage_coll_register(selvage_coll_t *coll, void *ptr, size_t bytes, selvage_window_t **window_out)
{
    SV_API_NEED(coll);
    SV_API_NEED(ptr);
    SV_API_NEED(window_out);
    if (bytes == 0)
        return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_coll_register: bytes is 0");
    SV_TRY(sv_api_enter(coll->comm));
    return sv_api_leave(sv_coll_register(coll, ptr, bytes, window_out));
}

selvage_status_t selvage_coll_unregister(selvage_window_t *window)
{
    if (!window)
        return SELVAGE_SUCCESS;
    if (!window->coll) /* its communicator is gone, and only the handle left */
        return sv_coll_unregister(window);
    SV_TRY(sv_api_enter(window->coll->comm));
    return sv_api_leave(sv_coll_unregister(window));
}

static selvage_status_t check_type(const char *call, selvage_type_t type)
{
    if ((int)type <= SELVAGE_TYPE_DEFAULT || (int)type >= SV_FOLD_TYPES)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: type is %d; wanted a selvage_type_t", call, (int)type);
    return SELVAGE_SUCCESS;
}

selvage_status_t selvage_coll_op_create(selvage_coll_t *coll, const void *scalar, selvage_type_t type,
                                        selvage_scalar_t where, selvage_op_t *op_out)
{
    SV_API_NEED(coll);
    SV_API_NEED(scalar);
    SV_API_NEED(op_out);
    SV_TRY(check_type(__func__, type));
    if ((int)where < SELVAGE_SCALAR_DEFAULT || where > SELVAGE_SCALAR_DEVICE)
        return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_coll_op_create: where is %d; wanted a selvage_scalar_t",
                        (int)where);
    SV_TRY(sv_api_enter(coll->comm));
    return sv_api_leave(sv_coll_operation_create(coll, scalar, type, where, op_out));
}

selvage_status_t selvage_coll_op_destroy(selvage_coll_t *coll, selvage_op_t op)
{
    SV_API_NEED(coll);
    return sv_coll_operation_destroy(coll, op);
}

/* To or from nobody: nothing is enqueued, as in MPI. */
static bool is_with_nobody(const sv_coll_call_t *call)
{
    return call->call == SV_COLL_PAIR && call->root == MPI_PROC_NULL;
}

/* What every call that moves data has: a type, an operation or 0, a rank or -1 for none. */
static selvage_status_t check_call(const char *name, const selvage_coll_t *coll, const sv_coll_call_t *call,
                                   selvage_type_t type, selvage_op_t op, bool has_rank)
{
    SV_TRY(check_type(name, type));
    if (op < SELVAGE_OP_DEFAULT || op >= SV_COLL_FIRST_OPERATION + SV_COLL_OPERATIONS)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: op is %d; wanted a SELVAGE_OP_ or one that "
                        "selvage_coll_op_create() gave", name, op);
    if (has_rank && (call->root < 0 || call->root >= coll->size) && !is_with_nobody(call))
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: %s is %d; wanted 0..%d%s", name,
                        call->call == SV_COLL_PAIR ? "peer" : "root", call->root, coll->size - 1,
                        call->call == SV_COLL_PAIR ? ", or MPI_PROC_NULL" : "");
    return SELVAGE_SUCCESS;
}

static selvage_status_t submit_checked(const char *name, selvage_coll_t *coll, sv_coll_call_t *call,
                                       selvage_type_t type, selvage_op_t op, bool has_rank)
{
    SV_TRY(sv_api_enter(coll->comm));
    selvage_status_t status = check_call(name, coll, call, type, op, has_rank);
    if (status != SELVAGE_SUCCESS) {
        sv_coll_refuse(coll, status);
        return sv_api_leave(status);
    }
    if (is_with_nobody(call))
        return sv_api_leave(SELVAGE_SUCCESS);
    call->type = (uint8_t)type;
    call->op = (uint8_t)op;
    return sv_api_leave(sv_coll_submit(coll, call));
}

selvage_status_t selvage_coll_all_reduce(selvage_coll_t *coll, const void *send, void *recv, size_t count,
                                         selvage_type_t type, selvage_op_t op, void *stream)
{
    SV_API_NEED(coll);
    sv_coll_call_t call = {.call = SV_COLL_ALL_REDUCE, .root = -1, .send = send, .recv = recv, .count = count,
                           .stream = stream};
    return submit_checked(__func__, coll, &call, type, op, false);
}

selvage_status_t selvage_coll_reduce_scatter(selvage_coll_t *coll, const void *send, void *recv, size_t recv_count,
                                             selvage_type_t type, selvage_op_t op, void *stream)
{
    SV_API_NEED(coll);
    sv_coll_call_t call = {.call = SV_COLL_REDUCE_SCATTER, .root = -1, .send = send, .recv = recv,
                           .count = recv_count, .stream = stream};
    return submit_checked(__func__, coll, &call, type, op, false);
}

selvage_status_t selvage_coll_all_gather(selvage_coll_t *coll, const void *send, void *recv, size_t send_count,
                                         selvage_type_t type, void *stream)
{
    SV_API_NEED(coll);
    sv_coll_call_t call = {.call = SV_COLL_ALL_GATHER, .root = -1, .send = send, .recv = recv, .count = send_count,
                           .stream = stream};
    return submit_checked(__func__, coll, &call, type, 0, false);
}

selvage_status_t selvage_coll_broadcast(selvage_coll_t *coll, const void *send, void *recv, size_t count,
                                        selvage_type_t type, int root, void *stream)
{
    SV_API_NEED(coll);
    sv_coll_call_t call = {.call = SV_COLL_BROADCAST, .root = root, .send = send, .recv = recv, .count = count,
                           .stream = stream};
    return submit_checked(__func__, coll, &call, type, 0, true);
}

selvage_status_t selvage_coll_reduce(selvage_coll_t *coll, const void *send, void *recv, size_t count,
                                     selvage_type_t type, selvage_op_t op, int root, void *stream)
{
    SV_API_NEED(coll);
    sv_coll_call_t call = {.call = SV_COLL_REDUCE, .root = root, .send = send, .recv = recv, .count = count,
                           .stream = stream};
    return submit_checked(__func__, coll, &call, type, op, true);
}

selvage_status_t selvage_coll_all_to_all(selvage_coll_t *coll, const void *send, void *recv, size_t count,
                                         selvage_type_t type, void *stream)
{
    SV_API_NEED(coll);
    sv_coll_call_t call = {.call = SV_COLL_ALL_TO_ALL, .root = -1, .send = send, .recv = recv, .count = count,
                           .stream = stream};
    return submit_checked(__func__, coll, &call, type, 0, false);
}

selvage_status_t selvage_coll_send(selvage_coll_t *coll, const void *send, size_t count, selvage_type_t type, int peer,
                                   void *stream)
{
    SV_API_NEED(coll);
    sv_coll_call_t call = {.call = SV_COLL_PAIR, .root = peer, .is_send = true, .send = send, .count = count,
                           .stream = stream};
    return submit_checked(__func__, coll, &call, type, 0, true);
}

selvage_status_t selvage_coll_recv(selvage_coll_t *coll, void *recv, size_t count, selvage_type_t type, int peer,
                                   void *stream)
{
    SV_API_NEED(coll);
    sv_coll_call_t call = {.call = SV_COLL_PAIR, .root = peer, .recv = recv, .count = count, .stream = stream};
    return submit_checked(__func__, coll, &call, type, 0, true);
}

selvage_status_t selvage_coll_barrier(selvage_coll_t *coll, void *stream)
{
    SV_API_NEED(coll);
    sv_coll_call_t call = {.call = SV_COLL_BARRIER, .root = -1, .stream = stream};
    return submit_checked(__func__, coll, &call, SELVAGE_UINT8, 0, false);
}

selvage_status_t selvage_coll_group_begin(selvage_coll_t *coll)
{
    SV_API_NEED(coll);
    return sv_coll_group_begin(coll);
}

selvage_status_t selvage_coll_group_end(selvage_coll_t *coll)
{
    SV_API_NEED(coll);
    SV_TRY(sv_api_enter(coll->comm));
    return sv_api_leave(sv_coll_group_end(coll));
}

/* Any thread: its binding to the communicator is for the log. */
selvage_status_t selvage_coll_error(selvage_coll_t *coll)
{
    SV_API_NEED(coll);
    SV_TRY(sv_api_enter(coll->comm));
    return sv_api_leave(sv_coll_check(coll));
}

selvage_status_t selvage_coll_wait(selvage_coll_t *coll)
{
    SV_API_NEED(coll);
    SV_TRY(sv_api_enter(coll->comm));
    return sv_api_leave(sv_coll_wait(coll));
}

selvage_status_t selvage_coll_trim(selvage_coll_t *coll, int gives_back, int *due_out)
{
    SV_API_NEED(coll);
    SV_API_NEED(due_out);
    SV_TRY(sv_api_enter(coll->comm));
    *due_out = sv_coll_cache_trim(coll->arena, gives_back != 0);
    return sv_api_leave(SELVAGE_SUCCESS);
}

void selvage_coll_abort(selvage_coll_t *coll)
{
    if (coll)
        sv_coll_abort(coll);
}

selvage_status_t selvage_coll_stats(selvage_coll_t *coll, selvage_coll_stats_t *stats_out)
{
    SV_API_NEED(coll);
    SV_API_NEED(stats_out);
    selvage_coll_stats_t filled;
    sv_coll_stats(coll, &filled);
    return sv_api_fill_struct("stats_out", "SELVAGE_COLL_STATS_INIT", stats_out, &filled, sizeof filled);
}

/* --- without a communicator --------------------------------------------------------------------------------------- */

static selvage_status_t check_block_address(const char *name, const void *ptr, selvage_type_t type)
{
    const size_t align = sv_coll_type_align(type);
    if (!ptr)
        return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_reduce_local: %s is NULL", name);
    return (uintptr_t)ptr % align == 0
               ? SELVAGE_SUCCESS
               : sv_error(SELVAGE_ERR_ARGUMENT, "selvage_reduce_local: %s is %p, not aligned to the %zu bytes of %s",
                          name, ptr, align, selvage_type_name(type));
}

/* A block itself, or apart from all. bytes: of a block. */
static bool is_result_apart(uintptr_t blocks, size_t stride_bytes, size_t nblocks, uintptr_t result, size_t bytes)
{
    const uintptr_t end = blocks + (nblocks - 1) * stride_bytes + bytes;
    if (result + bytes <= blocks || end <= result)
        return true;
    const size_t at = result - blocks;
    return result >= blocks && (stride_bytes == 0 ? at == 0 : at % stride_bytes == 0) &&
           (nblocks == 1 || stride_bytes >= bytes);
}

static selvage_status_t check_local_blocks(const void *blocks, size_t stride_bytes, int nblocks, const void *result,
                                           size_t count, selvage_type_t type)
{
    const uint64_t most = UINT64_C(1) << 34;
    if (count >= most || stride_bytes >= most * 16)
        return sv_error(SELVAGE_ERR_LIMIT, "selvage_reduce_local: count is %zu and stride_bytes is %zu; wanted less "
                        "than %llu elements, and strides of no more than those", count, stride_bytes,
                        (unsigned long long)most);
    if (nblocks > 1 && stride_bytes > ((size_t)PTRDIFF_MAX - count * selvage_type_bytes(type)) / (size_t)(nblocks - 1))
        return sv_error(SELVAGE_ERR_LIMIT, "selvage_reduce_local: %d blocks, %zu bytes from each other, are more than "
                        "there are addresses", nblocks, stride_bytes);
    SV_TRY(check_block_address("blocks", blocks, type));
    SV_TRY(check_block_address("result", result, type));
    if (stride_bytes % sv_coll_type_align(type) && nblocks > 1)
        return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_reduce_local: stride_bytes is %zu, not a multiple of %zu",
                        stride_bytes, sv_coll_type_align(type));
    return is_result_apart((uintptr_t)blocks, stride_bytes, (size_t)nblocks, (uintptr_t)result,
                           count * selvage_type_bytes(type))
               ? SELVAGE_SUCCESS
               : sv_error(SELVAGE_ERR_ARGUMENT, "selvage_reduce_local: result (%p) overlaps blocks (%p) and is none of "
                          "them", result, blocks);
}

selvage_status_t selvage_reduce_local(selvage_device_t *dev, const void *blocks, size_t stride_bytes, int nblocks,
                                      void *result, size_t count, selvage_type_t type, selvage_op_t op, void *stream)
{
    const size_t bytes = count * selvage_type_bytes(type);
    void *from, *to;
    SV_API_NEED(dev);
    if (selvage_type_bytes(type) == 0 || op <= SELVAGE_OP_DEFAULT || op > SELVAGE_OP_MAXLOC || nblocks < 1)
        return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_reduce_local: type is %d, op is %d and nblocks is %d; wanted a "
                        "selvage_type_t, a SELVAGE_OP_, and 1 or more", (int)type, (int)op, nblocks);
    if (!sv_coll_folds(type, (unsigned)op))
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "selvage_reduce_local: no reduction of %s by operation %d here",
                        selvage_type_name(type), (int)op);
    if (count == 0)
        return SELVAGE_SUCCESS;
    SV_TRY(check_local_blocks(blocks, stride_bytes, nblocks, result, count, type));
    SV_TRY(sv_memory_admit(dev, "selvage_reduce_local", blocks, (size_t)(nblocks - 1) * stride_bytes + bytes, &from));
    SV_TRY(sv_memory_admit(dev, "selvage_reduce_local", result, bytes, &to));
    const sv_fold_arg_t arg = {.src = (uintptr_t)from, .dst = (uintptr_t)to, .block_stride = stride_bytes,
                               .count = count, .parts = 1, .blocks = (uint32_t)nblocks, .type = (uint8_t)type,
                               .op = (uint8_t)op};
    return SV_DEVICE_CALL(dev, launch, &sv_kernel_fold, &arg, sizeof arg, sv_kernel_blocks(dev, bytes * arg.blocks),
                          stream);
}
