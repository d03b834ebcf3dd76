/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exact sums: of float32 and float64, with bits that do not depend on the order of ranks, on nodes, or on the way that
 * data take. A call becomes kernels, which are this rank's alone, and other calls (kernels/coll_exact.h):
 *
 *   one node   pack    all_to_all          add     all_gather (not of a reduce_scatter)          unpack
 *   nodes      scale   all_reduce, max     split   the call itself, a sum of int64               join
 *
 * They are enqueued chunk after chunk. On a node the addends travel as often as in other sums. Between nodes that would
 * be too often, so there sums of a part of them travel, as integers, which any order adds alike. Both ways give the
 * same bits. What is between the steps lies in the room (coll_composed.c): scales, then limbs; or what was packed, then
 * what was received. The application's thread makes calls.
 */
#include "kernels/coll_exact.h"

#include "base/base_status.h"
#include "collective/coll_parts.h"

enum { ALIGNMENT = SV_COLL_ROOM_UNIT, LIMB_BYTES = 8 };

static uint64_t bytes_of_element(uint32_t type)
{
    return 1 + (uint64_t)LIMB_BYTES * sv_exact_limbs(type);
}

/* --- a call ------------------------------------------------------------------------------------------------------- */

bool sv_coll_wants_exact(const selvage_coll_t *coll, const sv_coll_call_t *call)
{
    return coll->exact && coll->size > 1 && call->op == SV_COLL_SUM && call->count > 0 &&
           (call->type == SV_COLL_FLOAT32 || call->type == SV_COLL_FLOAT64);
}

/* One call under way: what its chunks have in common. */
typedef struct exact_sum {
    selvage_coll_t *coll;
    const sv_coll_call_t *call;
    sv_exact_arg_t arg;
    uint64_t element_bytes;
    bool scatters;             /* it is a reduce-scatter */
} exact_sum_t;

static uint8_t spare_bits(int ranks)
{
    uint8_t bits = 0;
    while ((UINT64_C(1) << bits) < (uint64_t)ranks)
        bits++;
    return bits;
}

static void begin_sum(exact_sum_t *sum, selvage_coll_t *coll, const sv_coll_call_t *call)
{
    const bool scatters = call->call == SV_COLL_REDUCE_SCATTER, divides = scatters || !coll->spans;
    *sum = (exact_sum_t){.coll = coll, .call = call, .element_bytes = selvage_type_bytes((selvage_type_t)call->type),
                         .scatters = scatters};
    sum->arg = (sv_exact_arg_t){.packed = coll->arena->room->memory,
                                .scale = coll->arena->room->memory,
                                .scalar = call->scalar,
                                .blocks = divides ? (uint32_t)coll->size : 1,
                                .mine = divides ? (uint32_t)coll->rank : 0,
                                .ranks = (uint32_t)coll->size,
                                .type = call->type,
                                .flags = call->flags & (SV_COLL_PREMUL | SV_COLL_SCALAR_AT | SV_COLL_DIVIDE),
                                .spare_bits = spare_bits(coll->size)};
}

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* How many elements there is room for, in all blocks together. */
static uint64_t room_of(const exact_sum_t *sum)
{
    const uint64_t each = sum->coll->spans ? bytes_of_element(sum->call->type) : 2 * sum->element_bytes;
    return (sum->coll->arena->room->bytes - ALIGNMENT) / each;
}

/* Elements of a chunk: of the vector, or of each block of a reduce-scatter. Chunks are of nearly one size. */
static uint64_t chunk_elements(const exact_sum_t *sum)
{
    const uint64_t block = room_of(sum) / sum->arg.blocks / SV_EXACT_UNIT * SV_EXACT_UNIT;
    const uint64_t most = sum->scatters ? block : block * sum->arg.blocks;
    const uint64_t chunks = (sum->call->count + most - 1) / most;
    return round_up((sum->call->count + chunks - 1) / chunks, SV_EXACT_UNIT);
}

/* blocks: of the chunk, that the kernel goes through. */
static selvage_status_t launch_step(const exact_sum_t *sum, const sv_kernel_t *kernel, uint32_t blocks)
{
    sv_device_t *dev = sum->coll->comm->dev;
    const uint64_t bytes = (uint64_t)blocks * sum->arg.pitch * bytes_of_element(sum->call->type);
    return SV_DEVICE_CALL(dev, launch, kernel, &sum->arg, sizeof sum->arg, sv_kernel_blocks(dev, bytes),
                          sum->call->stream);
}

static bool gets_result(const exact_sum_t *sum)
{
    return sum->call->call != SV_COLL_REDUCE || sum->call->root == sum->coll->rank;
}

/* All ranks are on one node: addends travel. */
static selvage_status_t enqueue_addends(exact_sum_t *sum, uint64_t count)
{
    selvage_coll_t *coll = sum->coll;
    sv_exact_arg_t *arg = &sum->arg;
    const uint64_t result = arg->dst, block_bytes = arg->pitch * sum->element_bytes;
    const unsigned type = sum->element_bytes == 8 ? SV_COLL_UINT64 : SV_COLL_UINT32;
    arg->received = arg->packed + round_up(arg->blocks * block_bytes, ALIGNMENT);
    const sv_coll_call_t exchange =
        sv_coll_part_of(sum->call, SV_COLL_ALL_TO_ALL, type, arg->packed, arg->received, arg->pitch);
    uint8_t *own = arg->packed + block_bytes * arg->mine;
    const sv_coll_call_t gather = sv_coll_part_of(sum->call, SV_COLL_ALL_GATHER, type, own, arg->packed, arg->pitch);
    SV_TRY(launch_step(sum, &sv_kernel_exact_pack, arg->blocks));
    SV_TRY(sv_coll_enqueue(coll, &exchange, 1));
    if (sum->scatters)
        return launch_step(sum, &sv_kernel_exact_add, arg->blocks);
    arg->dst = (uintptr_t)own;
    SV_TRY(launch_step(sum, &sv_kernel_exact_add, arg->blocks));
    SV_TRY(sv_coll_enqueue(coll, &gather, 1));
    if (!gets_result(sum))
        return SELVAGE_SUCCESS;
    arg->dst = result;
    arg->end = count;
    return launch_step(sum, &sv_kernel_exact_unpack, arg->blocks);
}

/* Between nodes: sums of limbs travel. */
static selvage_status_t enqueue_limbs(exact_sum_t *sum)
{
    const sv_coll_call_t *call = sum->call;
    sv_exact_arg_t *arg = &sum->arg;
    const uint64_t scales = (uint64_t)arg->blocks * arg->pitch;
    const uint64_t block = (uint64_t)sv_exact_limbs(arg->type) * arg->pitch;
    arg->limb = (uint64_t *)(void *)(arg->scale + round_up(scales, ALIGNMENT));
    sv_coll_call_t largest =
        sv_coll_part_of(call, SV_COLL_ALL_REDUCE, SV_COLL_UINT8, arg->scale, arg->scale, scales);
    sv_coll_call_t limbs =
        sv_coll_part_of(call, call->call, SV_COLL_INT64, arg->limb, arg->limb + block * arg->mine, block);
    largest.op = SV_COLL_MAX;
    limbs.op = SV_COLL_SUM;
    limbs.root = call->root;
    SV_TRY(launch_step(sum, &sv_kernel_exact_scale, arg->blocks));
    SV_TRY(sv_coll_enqueue(sum->coll, &largest, 1));
    SV_TRY(launch_step(sum, &sv_kernel_exact_split, arg->blocks));
    SV_TRY(sv_coll_enqueue(sum->coll, &limbs, 1));
    return gets_result(sum) ? launch_step(sum, &sv_kernel_exact_join, 1) : SELVAGE_SUCCESS;
}

/* Elements at to at + count - 1, of the vector or of each block. */
static selvage_status_t enqueue_chunk(exact_sum_t *sum, uint64_t at, uint64_t count)
{
    const sv_coll_call_t *call = sum->call;
    sv_exact_arg_t *arg = &sum->arg;
    const bool divides = arg->blocks > 1 && !sum->scatters;
    arg->pitch = (uint32_t)round_up(divides ? (count + arg->blocks - 1) / arg->blocks : count, SV_EXACT_UNIT);
    arg->count = divides ? arg->pitch : (uint32_t)count;
    arg->stride = divides ? arg->pitch : call->count;
    arg->end = divides ? count : UINT64_MAX;
    arg->src = (uintptr_t)call->send + at * sum->element_bytes;
    arg->dst = (uintptr_t)call->recv + at * sum->element_bytes;
    return sum->coll->spans ? enqueue_limbs(sum) : enqueue_addends(sum, count);
}

selvage_status_t sv_coll_exact_enqueue(selvage_coll_t *coll, const sv_coll_call_t *call)
{
    exact_sum_t sum;
    begin_sum(&sum, coll, call);
    const uint64_t each = chunk_elements(&sum);
    for (uint64_t at = 0; at < call->count; at += each)
        SV_TRY(enqueue_chunk(&sum, at, call->count - at < each ? call->count - at : each));
    return SELVAGE_SUCCESS;
}
