/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exact sums: of float32 and float64, with bits that do not depend on the order of ranks, on nodes, or on the way that
 * data take. A call becomes kernels, which are this rank's alone, and other calls (kernels/coll_exact.h):
 *
 *   one node   pack    all_to_all          add     all_gather (not of a reduce_scatter)          unpack
 *   nodes      scale   all_reduce, max     split   the call itself, a sum of int64               join
 *
 * All of it is enqueued at once, chunk after chunk, on the user's stream, and serves every algorithm, protocol and way
 * between nodes. On a node the addends travel as often as in other sums. Between nodes that would be too often, so
 * there sums of a part of them travel, as integers, which any order adds alike. Both ways give the same bits.
 *
 * What is between the steps lies in memory of the arena, made with the first communicator that wants such sums. Calls
 * on several streams take turns in it: each waits for the event of the one before. In a graph the program orders them,
 * as it orders collectives anyway. A call that does not come to its end on this rank ends collectives here, because
 * other ranks may have taken part in the steps so far.
 *
 * The application's thread makes calls; where the memory is made and mapped, the engine lives.
 */
#include "kernels/coll_exact.h"

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "collective/coll_parts.h"
#include "collective/coll_setup.h"

/* Elements of float64 in a chunk, which take 17 bytes each: those of a GPU stay in its L2, and are many enough for its
   bandwidth. Blocks of a chunk have a unit each at least. */
enum { CHUNK_GPU = 1 << 20, CHUNK_SOFT = 1 << 16, ALIGNMENT = 256 };
enum { LIMB_BYTES = 8 };

typedef struct sv_coll_exact {
    uint8_t *memory;           /* device memory: scales, then limbs; or what was packed, then what was received */
    uint64_t bytes;
    sv_event_t *used;          /* after the last call that used it and was not captured */
    sv_event_t *joined;        /* of a group: what was on another stream */
} sv_coll_exact_t;

/* --- where they are made ------------------------------------------------------------------------------------------ */

static uint64_t bytes_of_element(uint32_t type)
{
    return 1 + (uint64_t)LIMB_BYTES * sv_exact_limbs(type);
}

selvage_status_t sv_coll_exact_make(sv_coll_arena_t *arena, int ranks)
{
    sv_device_t *dev = arena->comm->dev;
    sv_coll_exact_t *exact;
    void *ptr;
    uint64_t elements = sv_coll_is_soft(dev) ? CHUNK_SOFT : CHUNK_GPU;
    if (arena->exact || ranks == 1)
        return SELVAGE_SUCCESS;
    if (elements < (uint64_t)ranks * SV_EXACT_UNIT)
        elements = (uint64_t)ranks * SV_EXACT_UNIT;
    SV_TRY(sv_calloc(1, sizeof *exact, &exact));
    arena->exact = exact; /* from here on freed with the arena */
    exact->bytes = elements * bytes_of_element(SV_COLL_FLOAT64) + ALIGNMENT;
    selvage_status_t status;
    SV_TRY_GOTO(status, SV_DEVICE_CALL(dev, event_create, &exact->used), fail);
    SV_TRY_GOTO(status, SV_DEVICE_CALL(dev, event_create, &exact->joined), fail);
    SV_TRY_GOTO(status, SV_DEVICE_CALL(dev, malloc, exact->bytes, &ptr), fail);
    exact->memory = ptr;
    sv_log(SV_LOG_INFO, "collective", "exact sums: %llu bytes of device memory", (unsigned long long)exact->bytes);
    return SELVAGE_SUCCESS;
fail:
    sv_coll_exact_free(arena, true);
    return status;
}

void sv_coll_exact_free(sv_coll_arena_t *arena, bool unmapped)
{
    sv_device_t *dev = arena->comm->dev;
    sv_coll_exact_t *exact = arena->exact;
    if (!exact)
        return;
    if (exact->used)
        SV_DEVICE_CALL(dev, event_destroy, exact->used);
    if (exact->joined)
        SV_DEVICE_CALL(dev, event_destroy, exact->joined);
    if (unmapped)
        SV_DEVICE_CALL(dev, free, exact->memory);
    sv_free(exact);
    arena->exact = NULL;
}

selvage_status_t sv_coll_exact_map(selvage_coll_t *coll)
{
    const sv_coll_exact_t *exact = coll->arena->exact;
    if (!exact || coll->dev.n == 1)
        return SELVAGE_SUCCESS;
    return sv_coll_window_own(coll, exact->memory, exact->bytes);
}

bool sv_coll_exact_drain(sv_coll_arena_t *arena, double timeout_s)
{
    const sv_coll_exact_t *exact = arena->exact;
    sv_backoff_t backoff = {.max_sleep_us = 100, .oversubscribed = arena->comm->topology.oversubscribed};
    const uint64_t begin_ns = sv_clock_ns();
    while (exact && SV_DEVICE_CALL(arena->comm->dev, event_query, exact->used) == SELVAGE_IN_PROGRESS) {
        if (timeout_s >= 0 && (double)(sv_clock_ns() - begin_ns) * 1e-9 > timeout_s)
            return false;
        sv_backoff(&backoff);
    }
    return true;
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
    sum->arg = (sv_exact_arg_t){.packed = coll->arena->exact->memory,
                                .scale = coll->arena->exact->memory,
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
    return (sum->coll->arena->exact->bytes - ALIGNMENT) / each;
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

/* A call that is a part of this one. */
static sv_coll_call_t part_of(const exact_sum_t *sum, unsigned call, unsigned type, const void *send, void *recv,
                              uint64_t count)
{
    const sv_coll_call_t *given = sum->call;
    return (sv_coll_call_t){.call = (uint8_t)call, .type = (uint8_t)type, .root = -1, .send = send, .recv = recv,
                            .count = count, .stream = given->stream, .captured = given->captured,
                            .whole = {.call = given->call, .type = given->type,
                                      .op = (uint8_t)sv_coll_signed_operation(given), .root = given->root,
                                      .count = given->count}};
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
        part_of(sum, SV_COLL_ALL_TO_ALL, type, arg->packed, arg->received, arg->pitch);
    uint8_t *own = arg->packed + block_bytes * arg->mine;
    const sv_coll_call_t gather = part_of(sum, SV_COLL_ALL_GATHER, type, own, arg->packed, arg->pitch);
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
    sv_coll_call_t largest = part_of(sum, SV_COLL_ALL_REDUCE, SV_COLL_UINT8, arg->scale, arg->scale, scales);
    sv_coll_call_t limbs =
        part_of(sum, call->call, SV_COLL_INT64, arg->limb, arg->limb + block * arg->mine, block);
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

static selvage_status_t enqueue_chunks(selvage_coll_t *coll, const sv_coll_call_t *call)
{
    exact_sum_t sum;
    begin_sum(&sum, coll, call);
    const uint64_t each = chunk_elements(&sum);
    if (!call->captured)
        SV_TRY(SV_DEVICE_CALL(coll->comm->dev, stream_wait_event, call->stream, coll->arena->exact->used));
    for (uint64_t at = 0; at < call->count; at += each)
        SV_TRY(enqueue_chunk(&sum, at, call->count - at < each ? call->count - at : each));
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_coll_exact_enqueue(selvage_coll_t *coll, const sv_coll_call_t *call)
{
    selvage_status_t status = enqueue_chunks(coll, call);
    if (status != SELVAGE_SUCCESS)
        sv_coll_note_failure(coll->arena, status);
    if (call->captured)
        return status;
    /* After a failure, too: what was enqueued uses the memory. */
    const selvage_status_t recorded =
        SV_DEVICE_CALL(coll->comm->dev, event_record, coll->arena->exact->used, call->stream);
    if (status == SELVAGE_SUCCESS && recorded != SELVAGE_SUCCESS)
        sv_coll_note_failure(coll->arena, recorded);
    return status != SELVAGE_SUCCESS ? status : recorded;
}

/* --- a group ------------------------------------------------------------------------------------------------------ */

/* The stream of the first call waits for those of all others. */
static selvage_status_t join_streams(const selvage_coll_t *coll, const sv_coll_call_t *calls, unsigned ncalls)
{
    sv_device_t *dev = coll->comm->dev;
    sv_event_t *joined = coll->arena->exact->joined;
    for (unsigned i = 1; i < ncalls; i++) {
        if (!sv_coll_is_new_stream(calls, i))
            continue;
        SV_TRY(SV_DEVICE_CALL(dev, event_record, joined, calls[i].stream));
        SV_TRY(SV_DEVICE_CALL(dev, stream_wait_event, calls[0].stream, joined));
    }
    return SELVAGE_SUCCESS;
}

/* All others wait for that of the first call. */
static selvage_status_t part_streams(const selvage_coll_t *coll, const sv_coll_call_t *calls, unsigned ncalls)
{
    sv_device_t *dev = coll->comm->dev;
    sv_event_t *joined = coll->arena->exact->joined;
    bool recorded = false;
    for (unsigned i = 1; i < ncalls; i++) {
        if (!sv_coll_is_new_stream(calls, i))
            continue;
        if (!recorded)
            SV_TRY(SV_DEVICE_CALL(dev, event_record, joined, calls[0].stream));
        recorded = true;
        SV_TRY(SV_DEVICE_CALL(dev, stream_wait_event, calls[i].stream, joined));
    }
    return SELVAGE_SUCCESS;
}

/* Moves the calls that are no exact sums to the front, in their order. Returns how many there are. */
static unsigned move_others(sv_coll_call_t *calls, unsigned ncalls)
{
    unsigned others = 0;
    for (unsigned i = 0; i < ncalls; i++) {
        if (calls[i].exact)
            continue;
        const sv_coll_call_t call = calls[i];
        calls[i] = calls[others];
        calls[others++] = call;
    }
    return others;
}

static selvage_status_t enqueue_group(selvage_coll_t *coll, sv_coll_call_t *calls, unsigned ncalls)
{
    /* 1. Exact sums one after the other, after what is on all streams. */
    SV_TRY(join_streams(coll, calls, ncalls));
    for (unsigned i = 0; i < ncalls; i++) {
        sv_coll_call_t call = calls[i];
        call.stream = calls[0].stream;
        if (call.exact)
            SV_TRY(sv_coll_exact_enqueue(coll, &call));
    }
    SV_TRY(part_streams(coll, calls, ncalls));
    /* 2. All other calls as one launch, which joins their streams itself; the streams of sums wait for it, too. */
    const unsigned others = move_others(calls, ncalls);
    if (others == 0)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_coll_enqueue(coll, calls, others));
    return part_streams(coll, calls, ncalls);
}

selvage_status_t sv_coll_exact_group(selvage_coll_t *coll, sv_coll_call_t *calls, unsigned ncalls)
{
    SV_TRY(sv_coll_refuse_captured_group(calls, ncalls));
    const selvage_status_t status = enqueue_group(coll, calls, ncalls);
    if (status != SELVAGE_SUCCESS) /* some of it may be on its way, on this rank and on others */
        sv_coll_note_failure(coll->arena, status);
    return status;
}
