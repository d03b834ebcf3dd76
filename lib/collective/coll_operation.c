/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file says what the operation and the type of a call mean for kernels. It keeps users' operations, sums of scaled
 * elements, in a table of the communicator. A call takes a copy of what it needs, so that an operation may be given
 * back while calls with it are in flight. All functions run on the application's one thread.
 */
#include <string.h>

#include "base/base_status.h"
#include "collective/coll_names.h"
#include "collective/coll_parts.h"
#include "host/memory_kind.h"

static sv_coll_operation_t *operation_of(selvage_coll_t *coll, selvage_op_t op)
{
    if (op < SV_COLL_FIRST_OPERATION || op >= SV_COLL_FIRST_OPERATION + SV_COLL_OPERATIONS)
        return NULL;
    sv_coll_operation_t *operation = &coll->operation[op - SV_COLL_FIRST_OPERATION];
    return operation->used ? operation : NULL;
}

static selvage_status_t read_scalar(const selvage_coll_t *coll, const void *scalar, sv_coll_operation_t *operation)
{
    size_t bytes = selvage_type_bytes(operation->type);
    void *address = NULL;
    if (!operation->on_device) {
        memcpy(&operation->scalar, scalar, bytes);
        return SELVAGE_SUCCESS;
    }
    if ((uintptr_t)scalar % bytes)
        return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_coll_op_create: scalar is at %p, not aligned to %zu bytes",
                        scalar, bytes);
    SV_TRY(sv_memory_admit(coll->comm->dev, "selvage_coll_op_create", scalar, bytes, &address));
    operation->scalar = (uintptr_t)address;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_coll_operation_create(selvage_coll_t *coll, const void *scalar, selvage_type_t type,
                                          selvage_scalar_t where, selvage_op_t *op_out)
{
    unsigned number = 0;
    if ((int)type >= SV_COLL_TYPES)
        return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_coll_op_create: sums of %s are not multiplied first; wanted an "
                        "integer of 8, 32 or 64 bits, or a float", selvage_type_name(type));
    while (number < SV_COLL_OPERATIONS && coll->operation[number].used)
        number++;
    if (number == SV_COLL_OPERATIONS)
        return sv_error(SELVAGE_ERR_LIMIT, "selvage_coll_op_create: %d operations live already; destroy some",
                        SV_COLL_OPERATIONS);
    sv_coll_operation_t operation = {
        .used = true, .on_device = where == SELVAGE_SCALAR_DEVICE, .type = (uint8_t)type};
    SV_TRY(read_scalar(coll, scalar, &operation));
    coll->operation[number] = operation;
    *op_out = (selvage_op_t)(SV_COLL_FIRST_OPERATION + number);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_coll_operation_destroy(selvage_coll_t *coll, selvage_op_t op)
{
    sv_coll_operation_t *operation = operation_of(coll, op);
    if (!operation)
        return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_coll_op_destroy: op is %d, which selvage_coll_op_create() did "
                        "not give", op);
    memset(operation, 0, sizeof *operation);
    return SELVAGE_SUCCESS;
}

static bool is_reduction(const sv_coll_call_t *call)
{
    return call->call == SV_COLL_ALL_REDUCE || call->call == SV_COLL_REDUCE_SCATTER || call->call == SV_COLL_REDUCE;
}

/* What ranks are to compare, as the call is about to become another one. */
static void keep_whole(sv_coll_call_t *call, unsigned signed_op)
{
    call->whole = (sv_coll_whole_t){.call = call->call, .type = call->type, .op = (uint8_t)signed_op,
                                    .root = call->root, .count = call->count};
}

/* Real and imaginary parts are added each by itself. */
static void resolve_complex_sum(sv_coll_call_t *call)
{
    call->type = call->type == SELVAGE_COMPLEX64 ? SV_COLL_FLOAT32 : SV_COLL_FLOAT64;
    call->count = call->count < UINT64_MAX / 2 ? 2 * call->count : UINT64_MAX; /* too many are refused later */
}

/* Of a type or an operation that the kernels of collectives do not know. */
static selvage_status_t resolve_other(sv_coll_call_t *call)
{
    const bool adds = call->op == SELVAGE_OP_SUM || call->op == SELVAGE_OP_AVG;
    if (sv_coll_pairing(call->type, call->op) < 0)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: operation %s is not one of %s", sv_coll_call_name(call->call),
                        sv_coll_operation_name(SV_COLL_SIGNED_FOLD | call->op), selvage_type_name(call->type));
    keep_whole(call, SV_COLL_SIGNED_FOLD | call->op);
    if (adds && (call->type == SELVAGE_COMPLEX64 || call->type == SELVAGE_COMPLEX128))
        resolve_complex_sum(call);
    else
        call->composed = SV_COLL_FOLD;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_coll_resolve_operation(const selvage_coll_t *coll, sv_coll_call_t *call)
{
    if (!is_reduction(call)) {
        call->op = 0;
        return SELVAGE_SUCCESS;
    }
    if (call->op >= SELVAGE_OP_SUM && call->op <= SELVAGE_OP_MAXLOC) {
        if (call->type >= SV_COLL_TYPES || call->op > SELVAGE_OP_AVG)
            SV_TRY(resolve_other(call));
        if (call->op == SELVAGE_OP_AVG) {
            call->op = SV_COLL_SUM;
            call->flags |= SV_COLL_DIVIDE;
        }
        return SELVAGE_SUCCESS;
    }
    const sv_coll_operation_t *operation = operation_of((selvage_coll_t *)(uintptr_t)coll, call->op);
    if (!operation)
        return sv_error(SELVAGE_ERR_ARGUMENT, "op is %d; wanted a SELVAGE_OP_ or what selvage_coll_op_create() gave",
                        call->op);
    if (operation->type != call->type)
        return sv_error(SELVAGE_ERR_ARGUMENT, "op %d has a scalar of %s, the call is of %s", call->op,
                        selvage_type_name(operation->type), selvage_type_name(call->type));
    call->op = SV_COLL_SUM;
    call->flags |= (uint8_t)(SV_COLL_PREMUL | (operation->on_device ? SV_COLL_SCALAR_AT : 0));
    call->scalar = operation->scalar;
    return SELVAGE_SUCCESS;
}

void sv_coll_resolve_type(sv_coll_call_t *call)
{
    unsigned count;
    if (is_reduction(call) || call->type < SV_COLL_TYPES)
        return;
    keep_whole(call, 0);
    call->type = (uint8_t)sv_coll_moved_type(call->type, &count);
    call->count *= count;
}
