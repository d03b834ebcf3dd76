/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions by sv_fold (kernels/coll_fold.h): with types and operations that the kernels of collectives do not know.
 * Other calls bring the elements of all ranks into the room of this rank (coll_composed.c), and the kernel combines
 * them in the order of ranks:
 *
 *   what is short, or of two ranks    all_gather                      fold
 *   reduce_scatter                    (copy)        all_to_all        fold
 *   all others                        (copy)        all_to_all        fold        all_gather        (copy)
 *
 * What is longer than the room goes in chunks. The copies are launches of the same kernel, of one block: into equal
 * blocks where the user's are not, or not one after the other; and back, where blocks have more elements than the
 * vector, or a gap in which nothing may be written. In the room all gaps are copied like anything else.
 *
 * Elements travel as bytes. The application's thread makes calls.
 */
#include "kernels/coll_fold.h"

#include "base/base_status.h"
#include "collective/coll_parts.h"

/* All ranks' vectors together, up to which each of them goes to all ranks: one step is then faster than two. */
enum { GATHERED_BYTES = 256 << 10 };

/* One call under way: what its chunks have in common. */
typedef struct folding {
    selvage_coll_t *coll;
    const sv_coll_call_t *call;
    sv_fold_arg_t arg;         /* of which what differs from launch to launch is filled in by each */
    uint64_t element_bytes, ranks;
    uint64_t room_bytes;
    uint8_t *room;
} folding_t;

static void begin_folding(folding_t *f, selvage_coll_t *coll, const sv_coll_call_t *call)
{
    const sv_coll_room_t *room = coll->size > 1 ? coll->arena->room : NULL;
    *f = (folding_t){.coll = coll, .call = call, .element_bytes = selvage_type_bytes((selvage_type_t)call->type),
                     .ranks = (uint64_t)coll->size, .room = room ? room->memory : NULL,
                     .room_bytes = room ? room->bytes - SV_COLL_ROOM_UNIT : 0};
    f->arg = (sv_fold_arg_t){.type = call->type, .op = call->op,
                             .divisor = call->flags & SV_COLL_DIVIDE ? (uint32_t)coll->size : 0};
}

static bool has_gap(unsigned type)
{
    return type == SV_FOLD_FLOAT64_INT32 || type == SV_FOLD_INT64_INT32 || type == SV_FOLD_INT16_INT32;
}

static bool root_or_all(const folding_t *f)
{
    return f->call->call != SV_COLL_REDUCE || f->call->root == f->coll->rank;
}

static selvage_status_t launch_fold(const folding_t *f, sv_fold_arg_t *arg)
{
    sv_device_t *dev = f->coll->comm->dev;
    const uint64_t bytes = arg->count * f->element_bytes * arg->parts * arg->blocks;
    arg->type = f->arg.type;
    arg->op = f->arg.op;
    arg->divisor = f->arg.divisor;
    return SV_DEVICE_CALL(dev, launch, &sv_kernel_fold, arg, sizeof *arg, sv_kernel_blocks(dev, bytes),
                          f->call->stream);
}

/* The blocks of all ranks, one after the other. */
static selvage_status_t fold_blocks(const folding_t *f, const uint8_t *blocks, uint64_t block_bytes, void *to,
                                    uint64_t count)
{
    return launch_fold(f, &(sv_fold_arg_t){.src = (uintptr_t)blocks, .dst = (uintptr_t)to,
                                           .block_stride = block_bytes, .count = count, .parts = 1,
                                           .blocks = (uint32_t)f->ranks});
}

/* Blocks of so many elements, which begin every so many bytes. */
static selvage_status_t copy_blocks(const folding_t *f, const uint8_t *from, uint64_t from_stride, void *to,
                                    uint64_t to_stride, uint32_t blocks, uint64_t count)
{
    return launch_fold(f, &(sv_fold_arg_t){.src = (uintptr_t)from, .dst = (uintptr_t)to, .src_stride = from_stride,
                                           .dst_stride = to_stride, .count = count, .parts = blocks, .blocks = 1});
}

static selvage_status_t move_bytes(const folding_t *f, unsigned call, const void *send, void *recv, uint64_t bytes)
{
    const sv_coll_call_t part = sv_coll_part_of(f->call, call, SV_COLL_UINT8, send, recv, bytes);
    return sv_coll_enqueue(f->coll, &part, 1);
}

/* Of so many elements, of which at most so many fit, as chunks of nearly one size: elements of each. */
static uint64_t elements_of_chunk(uint64_t count, uint64_t most)
{
    const uint64_t chunks = (count + most - 1) / most;
    return (count + chunks - 1) / chunks;
}

static uint64_t unit_bytes(uint64_t bytes)
{
    return (bytes + SV_FOLD_UNIT - 1) / SV_FOLD_UNIT * SV_FOLD_UNIT;
}

/* Every rank has all of them. */
static selvage_status_t fold_gathered(const folding_t *f)
{
    const sv_coll_call_t *call = f->call;
    const uint64_t each = elements_of_chunk(call->count, f->room_bytes / f->ranks / f->element_bytes);
    for (uint64_t at = 0; at < call->count; at += each) {
        const uint64_t count = call->count - at < each ? call->count - at : each, bytes = count * f->element_bytes;
        SV_TRY(move_bytes(f, SV_COLL_ALL_GATHER, (const uint8_t *)call->send + at * f->element_bytes, f->room, bytes));
        if (root_or_all(f))
            SV_TRY(fold_blocks(f, f->room, bytes, (uint8_t *)call->recv + at * f->element_bytes, count));
    }
    return SELVAGE_SUCCESS;
}

/* Every rank has the elements of its block. */
static selvage_status_t fold_scattered(const folding_t *f)
{
    const sv_coll_call_t *call = f->call;
    const uint64_t block_bytes = call->count * f->element_bytes;
    if (block_bytes <= f->room_bytes / f->ranks) {
        SV_TRY(move_bytes(f, SV_COLL_ALL_TO_ALL, call->send, f->room, block_bytes));
        return fold_blocks(f, f->room, block_bytes, call->recv, call->count);
    }
    const uint64_t most = f->room_bytes / 2 / f->ranks / SV_FOLD_UNIT * SV_FOLD_UNIT;
    const uint64_t each = elements_of_chunk(call->count, most / f->element_bytes);
    const uint64_t pitch = unit_bytes(each * f->element_bytes);
    uint8_t *received = f->room + f->ranks * pitch;
    for (uint64_t at = 0; at < call->count; at += each) {
        const uint64_t count = call->count - at < each ? call->count - at : each;
        SV_TRY(copy_blocks(f, (const uint8_t *)call->send + at * f->element_bytes, block_bytes, f->room, pitch,
                           (uint32_t)f->ranks, count));
        SV_TRY(move_bytes(f, SV_COLL_ALL_TO_ALL, f->room, received, pitch));
        SV_TRY(fold_blocks(f, received, pitch, (uint8_t *)call->recv + at * f->element_bytes, count));
    }
    return SELVAGE_SUCCESS;
}

/* Every rank has the elements of a part of the vector, and all get its result. */
static selvage_status_t fold_chunk(const folding_t *f, const uint8_t *from, uint8_t *to, uint64_t count)
{
    const uint64_t bytes = count * f->element_bytes, pitch = unit_bytes((bytes + f->ranks - 1) / f->ranks);
    const bool equal = pitch * f->ranks == bytes;
    const bool at_once = equal && !has_gap(f->call->type) && f->call->call == SV_COLL_ALL_REDUCE;
    uint8_t *received = f->room + f->ranks * pitch, *result = at_once ? to : f->room;
    uint8_t *own = result + pitch * (uint64_t)f->coll->rank;
    if (!equal)
        SV_TRY(copy_blocks(f, from, 0, f->room, 0, 1, count));
    SV_TRY(move_bytes(f, SV_COLL_ALL_TO_ALL, equal ? from : f->room, received, pitch));
    SV_TRY(fold_blocks(f, received, pitch, own, pitch / f->element_bytes));
    SV_TRY(move_bytes(f, SV_COLL_ALL_GATHER, own, result, pitch));
    return at_once || !root_or_all(f) ? SELVAGE_SUCCESS : copy_blocks(f, f->room, 0, to, 0, 1, count);
}

static selvage_status_t fold_divided(const folding_t *f)
{
    const sv_coll_call_t *call = f->call;
    const uint64_t most = f->room_bytes / 2 / f->ranks / SV_FOLD_UNIT * SV_FOLD_UNIT * f->ranks / f->element_bytes;
    const uint64_t unit = f->ranks * SV_FOLD_UNIT / f->element_bytes, nearly = elements_of_chunk(call->count, most);
    const uint64_t each = (nearly + unit - 1) / unit * unit; /* at most `most`, which is a multiple too */
    for (uint64_t at = 0; at < call->count; at += each)
        SV_TRY(fold_chunk(f, (const uint8_t *)call->send + at * f->element_bytes,
                          root_or_all(f) ? (uint8_t *)call->recv + at * f->element_bytes : NULL,
                          call->count - at < each ? call->count - at : each));
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_coll_fold_enqueue(selvage_coll_t *coll, const sv_coll_call_t *call)
{
    folding_t f;
    begin_folding(&f, coll, call);
    if (f.ranks == 1)
        return call->send == call->recv
                   ? SELVAGE_SUCCESS
                   : copy_blocks(&f, call->send, 0, call->recv, 0, 1, call->count);
    if (call->count == 0) /* ranks meet, so that they see whether they agree */
        return move_bytes(&f, SV_COLL_ALL_GATHER, NULL, NULL, 0);
    if (call->call == SV_COLL_REDUCE_SCATTER)
        return fold_scattered(&f);
    if (f.ranks == 2 || call->count <= GATHERED_BYTES / f.element_bytes / f.ranks)
        return fold_gathered(&f);
    return fold_divided(&f);
}
