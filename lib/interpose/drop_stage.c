/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From buffers of a call to pinned memory and back. A message of a derived type is packed by the device, and MPI sends
 * or receives its packed bytes, which match any type of the other side. What collective calls name with gaps is packed
 * as well (drop_compact.c). All else keeps its shape: the span of memory that the call may touch has an image in pinned
 * memory, and MPI gets the same counts and types.
 *
 *   device    ..##..##..  --gather-->  ####   MPI_PACKED             packed
 *   device    [ block 0 ][ block 1 ]  --copy-->  the same            an image
 *
 * Memory between elements is never written on the device, because kernels may be writing there. Types that cannot be
 * taken apart (darray) are the one exception: their gaps go down and come up. Of an image that is mostly gaps only the
 * elements go down. Lengths are of any size: if an int cannot count the packed bytes, they are one element of a type of
 * their own.
 *
 * Any thread, but a call is one thread's. It owns its buffers until sv_drop_call_end().
 */
#include "interpose/drop_order.h"
#include "interpose/drop_plan.h"
#include "interpose/drop_strip.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static sv_drop_block_t make_block(int64_t count, MPI_Datatype type)
{
    sv_drop_block_t block = {.count = count, .type = type};
    block.is_type = sv_drop_type(type, &block.info);
    return block;
}

/* The bytes from the buffer's address on that a block may touch; false for none. */
static bool bounds_of(const sv_drop_block_t *block, int64_t *low_out, int64_t *high_out)
{
    const sv_drop_type_t *type = &block->info;
    if (block->count <= 0 || !block->is_type || type->bytes == 0)
        return false;
    int64_t first = block->offset + type->true_lb, reach = (block->count - 1) * type->extent;
    *low_out = first + (reach < 0 ? reach : 0);
    *high_out = first + type->true_extent + (reach > 0 ? reach : 0);
    return true;
}

static const sv_drop_block_t *blocks_of(const sv_drop_buffer_t *buffer)
{
    return buffer->blocks ? buffer->blocks : &buffer->one;
}

/* The bytes of all elements, without the gaps. */
static size_t element_bytes_of(const sv_drop_buffer_t *buffer)
{
    const sv_drop_block_t *blocks = blocks_of(buffer);
    size_t bytes = 0;
    for (int i = 0; i < buffer->nblocks; i++)
        if (blocks[i].count > 0 && blocks[i].is_type)
            bytes += (size_t)(blocks[i].info.bytes * blocks[i].count);
    return bytes;
}

/* --- the buffers of a call ---------------------------------------------------------------------------------------- */

/* A buffer that MPI refuses because of that type. */
static sv_drop_buffer_t *add_refused(sv_drop_call_t *call, MPI_Datatype type)
{
    sv_drop_buffer_t *buffer = &call->buffer[call->nbuffers++];
    *buffer = (sv_drop_buffer_t){.packed = true, .count = 1, .type = type, .nblocks = 1,
                                 .one = {.type = MPI_DATATYPE_NULL}};
    return buffer;
}

/* The staging buffer for device memory at buf; NULL if there is none in it. known: this call has already asked, which
   costs about as much as all the rest. */
static sv_drop_buffer_t *add_buffer(sv_drop_call_t *call, const void *buf, bool known, const sv_drop_block_t *blocks,
                                    int n)
{
    int64_t low = 0, high = 0, first, end;
    bool any = false;
    for (int i = 0; i < n; i++) {
        if (!bounds_of(&blocks[i], &first, &end))
            continue;
        low = !any || first < low ? first : low;
        high = !any || end > high ? end : high;
        any = true;
    }
    if (!any || !(known || (!sv_drop_is_host((const char *)buf + low) && buf != MPI_IN_PLACE)))
        return NULL;
    call->begin_ns = call->begin_ns ? call->begin_ns : sv_drop_trace_now();
    sv_drop_buffer_t *buffer = &call->buffer[call->nbuffers++];
    *buffer = (sv_drop_buffer_t){.user = (char *)(uintptr_t)buf, .low = low, .bytes = (size_t)(high - low),
                                 .nblocks = n};
    return buffer;
}

/* The count and type that MPI is given for packed bytes. */
static void count_stream(const sv_drop_call_t *call, sv_drop_buffer_t *buffer)
{
    buffer->count = (int)buffer->bytes;
    buffer->type = MPI_PACKED;
    if (buffer->bytes <= INT_MAX)
        return;
    if (sv_drop_type_many((MPI_Count)buffer->bytes, MPI_PACKED, &buffer->type) != MPI_SUCCESS)
        sv_drop_fatal("no type for a message of 2 GiB or more", call->name);
    buffer->count = 1;
    buffer->owns_type = true;
}

/* Staging memory for a message: that of a batched send of the same bytes, a part of a strip, or its own. */
static void find_staging(const sv_drop_call_t *call, sv_drop_buffer_t *buffer)
{
    if (call->joins && !buffer->packed && !buffer->keeps_gaps && !(buffer->in && sv_drop_batch_lends(buffer)))
        buffer->host = sv_drop_strip_take(buffer->in, buffer->user + buffer->low, buffer->bytes, &buffer->strip);
    if (!buffer->host)
        buffer->host = buffer->image = sv_drop_staging(buffer->bytes);
}

sv_drop_buffer_t *sv_drop_message(sv_drop_call_t *call, const void *buf, int64_t count, MPI_Datatype type, bool in,
                                  bool out)
{
    const sv_drop_block_t block = make_block(count, type);
    if (!sv_drop_is_named(type) && sv_drop_refuse(call, buf, &block, 1))
        return add_refused(call, MPI_DATATYPE_NULL);
    if (!sv_drop_type_is_committed(type))
        return add_refused(call, type);
    sv_drop_buffer_t *buffer = add_buffer(call, buf, true, &block, 1);
    if (!buffer)
        return NULL;
    buffer->in = in;
    buffer->out = out;
    buffer->one = block;
    buffer->count = (int)count;
    buffer->type = type;
    /* Elements with gaps go as packed bytes, unless the type cannot be taken apart: then it keeps its shape. */
    if (block.is_type && !block.info.dense) {
        buffer->plan = sv_drop_plan_get(type, count, buffer->user + buffer->low);
        buffer->packed = buffer->plan->pack != NULL;
        buffer->keeps_gaps = !buffer->packed;
        if (buffer->packed) {
            buffer->bytes = selvage_pack_bytes(buffer->plan->pack);
            count_stream(call, buffer);
        } else {
            sv_drop_plan_put(buffer->plan);
            buffer->plan = NULL;
        }
    }
    find_staging(call, buffer);
    return buffer;
}

sv_drop_buffer_t *sv_drop_unpacking(sv_drop_call_t *call, const sv_drop_fast_t *state, void *buf, int64_t count,
                                    MPI_Datatype type)
{
    const sv_drop_block_t block = make_block(count, type);
    const bool is_short = sv_drop_fast_is_short(state, count, type);
    if (count < 0 || !block.is_type || !sv_drop_type_is_committed(type) ||
        (!is_short && (count == 0 || block.info.dense))) /* pair types are named, and have gaps */
        return NULL;
    const size_t bytes = (size_t)(block.info.bytes * count), capacity = is_short ? SV_DROP_ANNOUNCE_BYTES : bytes + 1;
    sv_drop_buffer_t *buffer = &call->buffer[call->nbuffers++];
    *buffer = (sv_drop_buffer_t){.user = buf, .host = malloc(capacity), .out = true, .bytes = bytes, .packed = true,
                                 .unpacks = true, .nblocks = 1, .one = block};
    /* The program may free its own at once. */
    if (!buffer->host || (!block.info.named && sv_drop_type_hold(type, &buffer->one.type) != MPI_SUCCESS))
        sv_drop_fatal("no memory", call->name);
    count_stream(call, buffer);
    buffer->wide = is_short;
    buffer->count = is_short ? SV_DROP_ANNOUNCE_BYTES : buffer->count;
    return buffer;
}

/* Whether any block is of a type that cannot be taken apart. */
static bool has_opaque(const sv_drop_buffer_t *buffer)
{
    const sv_drop_block_t *blocks = blocks_of(buffer);
    bool opaque = false;
    for (int i = 0; i < buffer->nblocks; i++) {
        if (blocks[i].count <= 0 || !blocks[i].is_type || blocks[i].info.dense)
            continue;
        sv_drop_plan_t *plan = sv_drop_plan_of_block(buffer, &blocks[i]);
        opaque = opaque || !plan->pack;
        sv_drop_plan_put(plan);
    }
    return opaque;
}

/* Whether a long image is mostly gaps, so that pinning all of it would take memory that nobody needs. */
static bool is_mostly_gaps(const sv_drop_buffer_t *buffer)
{
    enum { LONG_BYTES = 64 << 20, PARTS = 4 };
    return buffer->bytes >= LONG_BYTES && !buffer->keeps_gaps && element_bytes_of(buffer) < buffer->bytes / PARTS;
}

/* Block number i of a list. before counts the elements of the blocks before it. last: the block before, or NULL. Most
   lists have one type, or runs of one. */
static sv_drop_block_t block_of_list(const sv_drop_list_t *list, int64_t i, int64_t before, const sv_drop_block_t *last)
{
    const MPI_Datatype type = list->types ? list->types[i] : list->type;
    sv_drop_block_t block = last && last->type == type ? *last : make_block(0, type);
    block.offset = 0;
    block.count = list->large_counts ? list->large_counts[i] : list->counts ? list->counts[i] : list->count;
    if (list->far || list->bytes)
        block.offset = list->far ? list->far[i] : list->bytes[i];
    else if (block.is_type)
        block.offset = (int64_t)block.info.extent * (list->displs         ? list->displs[i]
                                          : list->large_displs ? list->large_displs[i]
                                                               : before);
    return block;
}

sv_drop_buffer_t *sv_drop_add_blocks(sv_drop_call_t *call, const void *buf, bool known, const sv_drop_list_t *list,
                                     bool in, bool out)
{
    sv_drop_block_t one, *blocks = &one;
    sv_drop_type_t type;
    bool single = !list->counts && !list->types && !list->large_counts;
    /* Elements without gaps are cut into blocks where one of those goes in: they come up as one run. */
    single = single && !(list->one_in && sv_drop_type(list->type, &type) && type.dense);
    int64_t before = 0;
    int n = single ? 1 : (int)list->n;
    if (buf == MPI_IN_PLACE || n <= 0)
        return NULL;
    if (n > 1 && !(blocks = malloc((size_t)n * sizeof *blocks)))
        sv_drop_fatal("no memory", call->name);
    for (int i = 0; i < n; i++) {
        blocks[i] = single ? make_block(list->n * list->count, list->type)
                           : block_of_list(list, i, before, i > 0 ? &blocks[i - 1] : NULL);
        before += blocks[i].count;
    }
    const bool both = !(single && sv_drop_is_named(one.type)) && sv_drop_refuse(call, buf, blocks, n);
    sv_drop_buffer_t *buffer = both ? NULL : add_buffer(call, buf, known && buf != MPI_BOTTOM, blocks, n);
    if (!buffer) {
        if (blocks != &one)
            free(blocks);
        return NULL;
    }
    buffer->in = in;
    buffer->out = out;
    buffer->one_in = list->one_in && !single && list->in_block < n;
    buffer->in_block = list->in_block;
    buffer->one = *blocks;
    buffer->blocks = blocks == &one ? NULL : blocks;
    buffer->form = list->far                           ? SV_DROP_BY_BYTES_FAR
                   : list->bytes                       ? SV_DROP_BY_BYTES
                   : list->large_displs                ? SV_DROP_BY_ELEMENTS_FAR
                   : list->displs                      ? SV_DROP_BY_ELEMENTS
                                                       : SV_DROP_IN_A_ROW;
    buffer->keeps_gaps = out && has_opaque(buffer); /* gaps that come up again must go down first */
    return buffer;
}

/*
 * Memory that overlaps in the program's call also overlaps in what MPI is given. So MPI refuses what it would refuse.
 * What it takes, such as a field with its halo whose parts the types name, has one image. There are at most two such
 * buffers where this matters.
 */
void sv_drop_make_images(sv_drop_call_t *call)
{
    if (call->compacts)
        sv_drop_compact_call(call);
    for (int i = 0; i < call->nbuffers; i++) {
        sv_drop_buffer_t *a = &call->buffer[i];
        const uintptr_t first = (uintptr_t)a->user + (uintptr_t)a->low;
        for (int j = i + 1; j < call->nbuffers && !a->host; j++) {
            sv_drop_buffer_t *b = &call->buffer[j];
            const uintptr_t second = (uintptr_t)b->user + (uintptr_t)b->low, low = first < second ? first : second;
            if (b->host || !(a->out || b->out) || first >= second + b->bytes || second >= first + a->bytes)
                continue;
            const size_t a_end = (size_t)(first - low) + a->bytes, b_end = (size_t)(second - low) + b->bytes;
            const size_t bytes = a_end > b_end ? a_end : b_end;
            a->image = is_mostly_gaps(a) && is_mostly_gaps(b) ? sv_drop_staging_plain(bytes) : sv_drop_staging(bytes);
            a->host = a->image + (first - low);
            b->host = a->image + (second - low);
        }
        if (!a->host)
            a->host = a->image = is_mostly_gaps(a) ? sv_drop_staging_plain(a->bytes) : sv_drop_staging(a->bytes);
    }
}

void *sv_drop_blocks(sv_drop_call_t *call, const void *buf, bool known, const sv_drop_list_t *list, bool in, bool out)
{
    const sv_drop_buffer_t *buffer = sv_drop_add_blocks(call, buf, known, list, in, out);
    sv_drop_make_images(call);
    return sv_drop_image(buffer, buf);
}

/* --- elements of an image with gaps ------------------------------------------------------------------------------- */

/* SAVED_BYTES: a block of its own must save so much of one copy of everything. */
enum { BATCH_BYTES = 64 << 20, SAVED_BYTES = 64 << 10 };

/* Packed bytes of a block with gaps, 0 for others. */
static size_t gappy_bytes(const sv_drop_block_t *block)
{
    return block->count > 0 && block->is_type && !block->info.dense ? (size_t)(block->info.bytes * block->count) : 0;
}

/* Between the image and the packed bytes, by MPI. */
static void pack_blocks(const sv_drop_buffer_t *buffer, int first, int end, char *packed, bool down)
{
    const sv_drop_block_t *blocks = blocks_of(buffer);
    for (int i = first; i < end; i++) {
        size_t bytes = gappy_bytes(&blocks[i]);
        char *image = (char *)sv_drop_address(buffer) + blocks[i].offset;
        if (bytes > 0 && down)
            sv_drop_unpack(packed, (int64_t)bytes, image, blocks[i].count, blocks[i].type);
        else if (bytes > 0)
            sv_drop_pack(image, blocks[i].count, blocks[i].type, packed, (int64_t)bytes);
        packed += bytes;
    }
}

/* Between the packed bytes and the program's memory, by the device, to the end. */
static void scatter_blocks(sv_drop_flow_t *flow, const sv_drop_buffer_t *buffer, int first, int end, char *packed,
                           bool down)
{
    enum { PLANS = 16 };
    const sv_drop_block_t *blocks = blocks_of(buffer);
    sv_drop_plan_t *plans[PLANS]; /* under way */
    int n = 0;
    for (int i = first; i <= end; i++) {
        size_t bytes = i < end ? gappy_bytes(&blocks[i]) : 0;
        char *user = i < end ? buffer->user + blocks[i].offset : NULL;
        if (i == end || n == PLANS) {
            sv_drop_flow_end(flow);
            while (n > 0)
                sv_drop_plan_put(plans[--n]);
        }
        if (bytes == 0)
            continue;
        sv_drop_plan_t *plan = sv_drop_plan_of_block(buffer, &blocks[i]);
        if (!plan->pack || selvage_pack_bytes(plan->pack) != bytes)
            sv_drop_fatal("not supported", "a type that was taken apart before, and now is not");
        if (down)
            sv_drop_gather(flow, plan, user, packed);
        else
            sv_drop_scatter(flow, plan, packed, bytes, user);
        plans[n++] = plan;
        packed += bytes;
    }
}

/* Copies all blocks with gaps, a batch at a time. */
static void copy_gappy(sv_drop_flow_t *flow, const sv_drop_buffer_t *buffer, bool down)
{
    const sv_drop_block_t *blocks = blocks_of(buffer);
    size_t total = 0, most = 0;
    for (int i = 0; i < buffer->nblocks; i++) {
        size_t bytes = gappy_bytes(&blocks[i]);
        total += bytes;
        most = bytes > most ? bytes : most;
    }
    if (total == 0)
        return;
    size_t capacity = most > BATCH_BYTES ? most : total < BATCH_BYTES ? total : BATCH_BYTES;
    char *packed = sv_drop_staging(capacity);
    for (int first = 0, end; first < buffer->nblocks; first = end) {
        /* As many blocks as fit, but at least one. */
        size_t bytes = gappy_bytes(&blocks[first]);
        for (end = first + 1; end < buffer->nblocks && bytes + gappy_bytes(&blocks[end]) <= capacity; end++)
            bytes += gappy_bytes(&blocks[end]);
        if (!down)
            pack_blocks(buffer, first, end, packed, false);
        scatter_blocks(flow, buffer, first, end, packed, down);
        if (down)
            pack_blocks(buffer, first, end, packed, true);
    }
    sv_drop_unstage(packed);
}

/* --- down --------------------------------------------------------------------------------------------------------- */

bool sv_drop_is_sparse(const sv_drop_buffer_t *buffer)
{
    if (buffer->keeps_gaps || buffer->bytes / SAVED_BYTES < (size_t)buffer->nblocks)
        return false;
    const size_t bytes = element_bytes_of(buffer);
    return bytes <= buffer->bytes / 2 && (buffer->bytes - bytes) / SAVED_BYTES >= (size_t)buffer->nblocks;
}

/* Whether all memory from the first block to the last is one allocation: a copy must not cross the end of one. */
static bool is_one_allocation(const sv_drop_buffer_t *buffer)
{
    selvage_memory_t memory = SELVAGE_MEMORY_UNKNOWN;
    const char *first = buffer->user + buffer->low;
    if (selvage_device_memory(sv_drop_device_of(first), first, buffer->bytes, &memory) != SELVAGE_SUCCESS)
        return true;
    return memory != SELVAGE_MEMORY_NONE && memory != SELVAGE_MEMORY_HOST && memory != SELVAGE_MEMORY_PINNED;
}

/* One block of a staging buffer as a staging buffer. False: there is no such block. */
static bool take_block_alone(const sv_drop_buffer_t *buffer, int i, sv_drop_buffer_t *one_out)
{
    int64_t low = 0, high = 0;
    if (i < 0 || i >= buffer->nblocks)
        return false;
    *one_out = *buffer;
    one_out->one = blocks_of(buffer)[i];
    one_out->blocks = NULL;
    one_out->nblocks = 1;
    one_out->one_in = false;
    if (!bounds_of(&one_out->one, &low, &high))
        return false;
    one_out->host = buffer->host + (low - buffer->low);
    one_out->low = low;
    one_out->bytes = (size_t)(high - low);
    return true;
}

static void stage_buffer(sv_drop_flow_t *flow, const sv_drop_buffer_t *buffer)
{
    sv_drop_buffer_t alone;
    if (buffer->lender) /* whose copy it is */
        return;
    if (buffer->strip && buffer->in)
        sv_drop_strip_copy(flow, buffer->strip, buffer->host, buffer->bytes, true);
    if (buffer->strip)
        return;
    if (buffer->one_in && !buffer->compact && !buffer->keeps_gaps) {
        if (!buffer->in || !take_block_alone(buffer, buffer->in_block, &alone))
            return;
        buffer = &alone;
    }
    const sv_drop_block_t *blocks = blocks_of(buffer);
    if (buffer->packed && buffer->in)
        sv_drop_gather(flow, buffer->plan, buffer->user, buffer->host);
    if (buffer->compact && buffer->in)
        sv_drop_compact_copy(flow, buffer, true);
    if (buffer->packed || buffer->compact || !(buffer->in || buffer->keeps_gaps))
        return;
    /* A buffer goes down as a whole if it is one block without gaps, or is not sparse. So does one with types that
       cannot be taken apart. */
    const bool is_dense = buffer->nblocks == 1 && blocks->is_type && blocks->info.dense;
    if (is_dense || !(sv_drop_is_sparse(buffer) || !is_one_allocation(buffer)) || has_opaque(buffer)) {
        sv_drop_copy(flow, buffer->host, buffer->user + buffer->low, buffer->bytes, SELVAGE_COPY_DEVICE_TO_HOST);
        return;
    }
    /* Else it goes block by block. */
    for (int i = 0; i < buffer->nblocks; i++)
        if (blocks[i].count > 0 && blocks[i].is_type && blocks[i].info.dense)
            sv_drop_copy(flow, (char *)sv_drop_address(buffer) + blocks[i].offset, buffer->user + blocks[i].offset,
                         (size_t)(blocks[i].info.bytes * blocks[i].count), SELVAGE_COPY_DEVICE_TO_HOST);
    copy_gappy(flow, buffer, true);
}

void sv_drop_stage_on(sv_drop_flow_t *flow, const sv_drop_call_t *call)
{
    for (int i = 0; i < call->nbuffers; i++)
        stage_buffer(flow, &call->buffer[i]);
}

static void stage_all(sv_drop_call_t *call, bool after_default)
{
    sv_drop_flow_t flow = {.theirs = after_default};
    sv_drop_stage_on(&flow, call);
    sv_drop_flow_end(&flow);
    if (after_default)
        sv_drop_flush(); /* whose copies are complete now */
}

void sv_drop_stage(sv_drop_call_t *call)
{
    sv_drop_sync_t sync = sv_drop_settings()->sync;
    /* Copies on the default stream come after what that policy waits for, and one wait is for both. With several GPUs
       each has its own default stream. */
    bool after_default = sync == SV_DROP_SYNC_DEFAULT && !sv_drop_has_several() && !sv_drop_is_own();
    if (call->nbuffers == 0 || (call->nbuffers == 1 && call->buffer[0].unpacks))
        return;
    if (sync == SV_DROP_SYNC_CHECK)
        stage_all(call, false);
    if (!after_default)
        sv_drop_settle();
    if (sync != SV_DROP_SYNC_CHECK)
        stage_all(call, after_default);
    /* CHECK: is what was read before all work had ended what is there after it? */
    for (int i = 0; i < call->nbuffers && sync == SV_DROP_SYNC_CHECK; i++) {
        sv_drop_buffer_t *buffer = &call->buffer[i];
        void *before = buffer->in ? malloc(buffer->bytes) : NULL;
        sv_drop_flow_t flow = {0};
        if (!before)
            continue;
        memcpy(before, buffer->host, buffer->bytes);
        stage_buffer(&flow, buffer);
        sv_drop_flow_end(&flow);
        if (memcmp(before, buffer->host, buffer->bytes) != 0)
            sv_drop_warn("%s: the device was still writing %zu bytes at %p: the program does not synchronise before "
                         "the call", call->name, buffer->bytes, (void *)buffer->user);
        free(before);
    }
}

/* --- up ----------------------------------------------------------------------------------------------------------- */

static void unstage_image(sv_drop_flow_t *flow, const sv_drop_buffer_t *buffer)
{
    const sv_drop_block_t *blocks = blocks_of(buffer);
    const bool whole = buffer->nblocks == 1 || is_one_allocation(buffer);
    int64_t begin = 0, end = 0; /* a run that is due */
    for (int i = 0; i <= buffer->nblocks; i++) {
        bool any = i < buffer->nblocks && blocks[i].count > 0 && blocks[i].is_type && blocks[i].info.bytes > 0;
        bool joins = any && whole && blocks[i].info.dense && blocks[i].offset == end;
        if (!joins && (any || i == buffer->nblocks) && end > begin) {
            sv_drop_copy(flow, buffer->user + begin, (char *)sv_drop_address(buffer) + begin, (size_t)(end - begin),
                         SELVAGE_COPY_HOST_TO_DEVICE);
            begin = end = 0;
        }
        if (any && blocks[i].info.dense) {
            begin = joins && end > begin ? begin : blocks[i].offset;
            end = blocks[i].offset + blocks[i].count * blocks[i].info.bytes;
        }
    }
    copy_gappy(flow, buffer, false);
}

/* Copies up as many bytes of a message as have come. */
static void unstage_message(sv_drop_flow_t *flow, const sv_drop_buffer_t *buffer, const MPI_Status *status)
{
    MPI_Count arrived = 0;
    int cancelled = 0;
    PMPI_Test_cancelled(status, &cancelled);
    if (!cancelled &&
        (PMPI_Get_elements_x((MPI_Status *)(uintptr_t)status, MPI_BYTE, &arrived) != MPI_SUCCESS || arrived < 0))
        sv_drop_fatal("not supported", "a message of which MPI does not say how much came");
    const size_t bytes = (size_t)arrived < buffer->bytes ? (size_t)arrived : buffer->bytes;
    if (buffer->unpacks && bytes > 0)
        sv_drop_unpack(buffer->host, (int64_t)bytes, buffer->user, buffer->one.count, buffer->one.type);
    else if (buffer->packed && !buffer->unpacks)
        sv_drop_scatter(flow, buffer->plan, buffer->host, bytes, buffer->user);
    else if (buffer->strip)
        sv_drop_strip_copy(flow, buffer->strip, buffer->host, bytes, false);
    else if (!buffer->unpacks)
        sv_drop_copy(flow, buffer->user + buffer->low, buffer->host, bytes, SELVAGE_COPY_HOST_TO_DEVICE);
}

void sv_drop_unstage_on(sv_drop_flow_t *flow, sv_drop_call_t *call, const MPI_Status *status)
{
    if (status && call->has_peer) {
        call->peer = status->MPI_SOURCE;
        call->tag = status->MPI_TAG;
    }
    for (int i = 0; i < call->nbuffers; i++) {
        sv_drop_buffer_t *buffer = &call->buffer[i];
        if (!buffer->out)
            continue;
        if (buffer->compact)
            sv_drop_compact_copy(flow, buffer, false);
        else if (buffer->keeps_gaps)
            sv_drop_copy(flow, buffer->user + buffer->low, buffer->host, buffer->bytes, SELVAGE_COPY_HOST_TO_DEVICE);
        else if (status)
            unstage_message(flow, buffer, status);
        else
            unstage_image(flow, buffer);
    }
}

void sv_drop_unstage_call(sv_drop_call_t *call, const MPI_Status *status)
{
    sv_drop_flow_t flow = {0};
    sv_drop_unstage_on(&flow, call, status);
    sv_drop_flow_end(&flow);
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

void sv_drop_stage_part(sv_drop_call_t *call, int part)
{
    sv_drop_buffer_t one;
    sv_drop_flow_t flow = {0};
    if (call->nbuffers == 0 || !take_block_alone(&call->buffer[0], part, &one))
        return;
    sv_drop_settle();
    stage_buffer(&flow, &one);
    sv_drop_flow_end(&flow);
}

void sv_drop_unstage_part(sv_drop_flow_t *flow, sv_drop_call_t *call, int part)
{
    sv_drop_buffer_t one;
    if (call->nbuffers == 0 || !take_block_alone(&call->buffer[0], part, &one) || !one.out || call->parts[part])
        return;
    call->parts[part] = true;
    if (one.keeps_gaps)
        sv_drop_copy(flow, one.user + one.low, one.host, one.bytes, SELVAGE_COPY_HOST_TO_DEVICE);
    else
        unstage_image(flow, &one);
}
