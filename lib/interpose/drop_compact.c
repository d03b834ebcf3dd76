/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers of collective calls whose blocks have gaps, in them or between them: staging memory holds the elements only,
 * block after block, and the device gathers and scatters them. An image would have the span from the first block to the
 * last, which for the faces of a field is all of the field.
 *
 *   device    ..##....##..##....##..      block 0, block 1: of a type with a gap
 *   staging   ####|####                   the same counts of a type of as many bytes, with displacements of its own
 *
 * MPI is given the program's counts. A type without gaps stays; another one is replaced by as many bytes. So each rank
 * sees the numbers and lengths of elements that it would see without the drop-in, and whatever MPI makes of them
 * (algorithms, segments) is what the other ranks make of theirs, whether they have the drop-in or not. Reductions are
 * left alone, because an operation needs its type.
 *
 * A call owns its lists and types until sv_drop_call_end(); plans are held as long.
 */
#include "interpose/drop_plan.h"

#include <limits.h>
#include <stdlib.h>

/* Blocks that are named in bytes begin at multiples of so many, as kernels like them. */
enum { BLOCK_ALIGN = 64 };

static sv_drop_block_t *all_blocks(sv_drop_buffer_t *buffer)
{
    return buffer->blocks ? buffer->blocks : &buffer->one;
}

static bool has_elements(const sv_drop_block_t *block)
{
    return block->count > 0 && block->is_type && block->info.bytes > 0;
}

/* Types with gaps make an image slow: the host packs and unpacks it. */
static bool is_better_compact(sv_drop_buffer_t *buffer)
{
    const sv_drop_block_t *blocks = all_blocks(buffer);
    for (int i = 0; i < buffer->nblocks; i++)
        if (has_elements(&blocks[i]) && !blocks[i].info.dense)
            return true;
    return buffer->nblocks > 1 && sv_drop_is_sparse(buffer);
}

static bool overlaps_another(const sv_drop_call_t *call, int i)
{
    const uintptr_t first = (uintptr_t)call->buffer[i].user + (uintptr_t)call->buffer[i].low;
    bool found = false;
    for (int j = 0; j < call->nbuffers; j++) {
        const sv_drop_buffer_t *other = &call->buffer[j];
        const uintptr_t second = (uintptr_t)other->user + (uintptr_t)other->low;
        found = found || (j != i && first < second + other->bytes && second < first + call->buffer[i].bytes);
    }
    return found;
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

static sv_drop_compact_t *make_lists(const sv_drop_buffer_t *buffer)
{
    const size_t n = (size_t)buffer->nblocks;
    sv_drop_compact_t *compact = calloc(1, sizeof *compact + n * (sizeof *compact->at + sizeof *compact->plan +
                                                                  sizeof *compact->plain_bytes +
                                                                  sizeof *compact->far + sizeof *compact->types +
                                                                  sizeof *compact->displs));
    if (!compact)
        sv_drop_fatal("no memory", "for the blocks of a call");
    compact->at = (int64_t *)(void *)(compact + 1); /* the longest first, for alignment */
    compact->plan = (sv_drop_plan_t **)(void *)(compact->at + n);
    compact->plain_bytes = (size_t *)(void *)(compact->plan + n);
    compact->far = (MPI_Aint *)(void *)(compact->plain_bytes + n);
    compact->types = (MPI_Datatype *)(void *)(compact->far + n);
    compact->displs = (int *)(void *)(compact->types + n);
    for (size_t i = 0; i < n; i++)
        compact->types[i] = MPI_DATATYPE_NULL;
    return compact;
}

void sv_drop_compact_end(sv_drop_buffer_t *buffer)
{
    sv_drop_compact_t *compact = buffer->compact;
    if (!compact)
        return;
    for (int i = buffer->nblocks - 1; i >= 0; i--) {
        MPI_Datatype type = compact->types[i];
        const MPI_Datatype given = (buffer->blocks ? buffer->blocks : &buffer->one)[i].type;
        /* Those that are the drop-in's own, of which blocks beside each other may share one. */
        if (type != MPI_DATATYPE_NULL && type != given && (i == 0 || type != compact->types[i - 1]))
            PMPI_Type_free(&type);
        sv_drop_plan_put(compact->plan[i]);
    }
    free(compact);
    buffer->compact = NULL;
}

/* A type of as many bytes as the program's, without gaps. False: there is none. */
static bool replace_type(sv_drop_buffer_t *buffer, int i, const sv_drop_type_t *type)
{
    const sv_drop_block_t *blocks = all_blocks(buffer);
    sv_drop_compact_t *compact = buffer->compact;
    compact->types[i] = MPI_DATATYPE_NULL;
    if (i > 0 && blocks[i].type == blocks[i - 1].type && compact->types[i - 1] != blocks[i].type) {
        compact->types[i] = compact->types[i - 1];
        return true;
    }
    if (!sv_drop_type_is_committed(blocks[i].type))
        return false;
    if (type->bytes > INT_MAX)
        return sv_drop_type_many(type->bytes, MPI_PACKED, &compact->types[i]) == MPI_SUCCESS;
    return PMPI_Type_contiguous((int)type->bytes, MPI_PACKED, &compact->types[i]) == MPI_SUCCESS &&
           PMPI_Type_commit(&compact->types[i]) == MPI_SUCCESS;
}

/* Where a block comes, as MPI is told. False: its numbers cannot say so. */
static bool place_block(sv_drop_buffer_t *buffer, int i, int64_t elements, int64_t *bytes)
{
    sv_drop_compact_t *compact = buffer->compact;
    const bool in_bytes = buffer->form == SV_DROP_BY_BYTES || buffer->form == SV_DROP_BY_BYTES_FAR;
    if (in_bytes)
        *bytes = (*bytes + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN;
    compact->at[i] = *bytes;
    compact->far[i] = (MPI_Aint)(in_bytes ? *bytes : elements);
    compact->displs[i] = (int)compact->far[i];
    return compact->far[i] <= INT_MAX || buffer->form == SV_DROP_BY_BYTES_FAR ||
           buffer->form == SV_DROP_BY_ELEMENTS_FAR || buffer->form == SV_DROP_IN_A_ROW;
}

/* False: the buffer needs an image, and nothing has changed. */
static bool make_compact(sv_drop_buffer_t *buffer)
{
    const sv_drop_block_t *blocks = all_blocks(buffer);
    const bool one_type = buffer->form != SV_DROP_BY_BYTES && buffer->form != SV_DROP_BY_BYTES_FAR;
    int64_t bytes = 0, elements = 0;
    bool good = true;
    buffer->compact = make_lists(buffer);
    for (int i = 0; i < buffer->nblocks && good; i++) {
        const sv_drop_type_t *type = &blocks[i].info;
        sv_drop_compact_t *compact = buffer->compact;
        const bool any = has_elements(&blocks[i]);
        compact->types[i] = blocks[i].type;
        good = place_block(buffer, i, elements, &bytes);
        /* Of a list with one type, the first block says what MPI gets for all. */
        if (good && (any || one_type) && blocks[i].is_type && !type->dense)
            good = replace_type(buffer, i, type);
        if (!good || !any)
            continue;
        if (!type->dense) {
            compact->plan[i] = sv_drop_plan_of_block(buffer, &blocks[i]);
            good = compact->plan[i]->pack != NULL;
        } else
            compact->plain_bytes[i] = (size_t)(type->bytes * blocks[i].count);
        elements += blocks[i].count;
        bytes += blocks[i].count * type->bytes;
    }
    if (!good) {
        sv_drop_compact_end(buffer);
        return false;
    }
    buffer->low = 0;
    buffer->bytes = (size_t)bytes;
    buffer->host = buffer->image = sv_drop_staging(buffer->bytes);
    return true;
}

/* Where MPI would refuse buffers that overlap, they keep their shape, so that it sees it. */
void sv_drop_compact_call(sv_drop_call_t *call)
{
    bool wants[SV_DROP_BUFFERS];
    for (int i = 0; i < call->nbuffers; i++)
        wants[i] = !call->buffer[i].keeps_gaps && (call->may_overlap || !overlaps_another(call, i)) &&
                   is_better_compact(&call->buffer[i]);
    for (int i = 0; i < call->nbuffers && !call->refused; i++)
        if (wants[i])
            (void)make_compact(&call->buffer[i]);
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

void sv_drop_compact_copy(sv_drop_flow_t *flow, const sv_drop_buffer_t *buffer, bool down)
{
    const sv_drop_block_t *blocks = buffer->blocks ? buffer->blocks : &buffer->one;
    for (int i = 0; i < buffer->nblocks; i++) {
        sv_drop_plan_t *plan = buffer->compact->plan[i];
        char *user = buffer->user + blocks[i].offset, *host = buffer->host + buffer->compact->at[i];
        const size_t plain_bytes = buffer->compact->plain_bytes[i];
        if (down && buffer->one_in && i != buffer->in_block)
            continue;
        if (plan && down)
            sv_drop_gather(flow, plan, user, host);
        else if (plan)
            sv_drop_scatter(flow, plan, host, selvage_pack_bytes(plan->pack), user);
        else if (plain_bytes > 0)
            sv_drop_copy(flow, down ? host : user, down ? user : host, plain_bytes,
                         down ? SELVAGE_COPY_DEVICE_TO_HOST : SELVAGE_COPY_HOST_TO_DEVICE);
    }
}
