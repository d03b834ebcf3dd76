/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From buffers of a call to pinned memory and back. A message of a derived type is packed by the device, and MPI sends
 * or receives the bytes of its stream, which any type of the other side matches. Everything else keeps its shape: the
 * span of memory that the call may touch has an image in pinned memory, and MPI gets the same counts and types.
 *
 *   device    ..##..##..  --gather-->  ####   MPI_PACKED             packed
 *   device    [ block 0 ][ block 1 ]  --copy-->  the same            an image
 *
 * What lies between elements is never written to the device, because kernels may be writing there. The one exception
 * are types that nobody can take apart (darray): their gaps go down and come up. Of an image that is mostly gaps only
 * the elements go down. Lengths are of any size: a stream that an int cannot count is one element of a type of its own.
 */
#include "interpose/drop.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static bool is_device(const void *ptr, int64_t low)
{
    return !sv_drop_is_host((const char *)ptr + low) && ptr != MPI_IN_PLACE;
}

/* Bytes from the address that elements at offset may touch; false for none. */
static bool bounds_of(const sv_drop_block_t *block, int64_t *low_out, int64_t *high_out)
{
    sv_drop_type_t type;
    if (block->count <= 0 || !sv_drop_type(block->type, &type) || type.bytes == 0)
        return false;
    int64_t first = block->offset + type.true_lb, reach = (block->count - 1) * type.extent;
    *low_out = first + (reach < 0 ? reach : 0);
    *high_out = first + type.true_extent + (reach > 0 ? reach : 0);
    return true;
}

static bool bounds_of_all(const sv_drop_block_t *blocks, int n, int64_t *low_out, int64_t *high_out)
{
    int64_t low, high;
    bool any = false;
    for (int i = 0; i < n; i++) {
        if (!bounds_of(&blocks[i], &low, &high))
            continue;
        *low_out = !any || low < *low_out ? low : *low_out;
        *high_out = !any || high > *high_out ? high : *high_out;
        any = true;
    }
    return any;
}

/* --- what a call has ---------------------------------------------------------------------------------------------- */

/* What MPI refuses, as it is of that type. */
static sv_drop_region_t *add_refused(sv_drop_call_t *call, MPI_Datatype type)
{
    sv_drop_region_t *region = &call->region[call->nregions++];
    *region = (sv_drop_region_t){.packed = true, .count = 1, .type = type, .nblocks = 1,
                                 .one = {0, 0, MPI_DATATYPE_NULL}};
    return region;
}

/* The region for device memory at buf; NULL if there is nothing of the device's in it. known: that it is has been
   asked in this call, which costs about as much as all the rest. */
static sv_drop_region_t *add_region(sv_drop_call_t *call, const void *buf, bool known, const sv_drop_block_t *blocks,
                                    int n)
{
    int64_t low = 0, high = 0;
    if (!bounds_of_all(blocks, n, &low, &high) || !(known || is_device(buf, low)))
        return NULL;
    call->begin_ns = call->begin_ns ? call->begin_ns : sv_drop_trace_now();
    sv_drop_region_t *region = &call->region[call->nregions++];
    *region = (sv_drop_region_t){.user = (char *)(uintptr_t)buf, .low = low, .bytes = (size_t)(high - low),
                                 .nblocks = n};
    return region;
}

/* What MPI is given for a stream. */
static void count_stream(const sv_drop_call_t *call, sv_drop_region_t *region)
{
    region->count = (int)region->bytes;
    region->type = MPI_PACKED;
    if (region->bytes <= INT_MAX)
        return;
    if (sv_drop_type_many((MPI_Count)region->bytes, MPI_PACKED, &region->type) != MPI_SUCCESS)
        sv_drop_fatal("no type for a message of 2 GiB or more", call->name);
    region->count = 1;
    region->owns_type = true;
}

/* As a stream of packed bytes; false if MPI is to be given the buffer's own shape, which has no gaps or is mixed. */
static bool pack_region(const sv_drop_call_t *call, sv_drop_region_t *region, const sv_drop_block_t *block)
{
    sv_drop_type_t type;
    if (!sv_drop_type(block->type, &type) || type.dense)
        return false;
    region->plan = sv_drop_plan_get(block->type, block->count, region->user + region->low);
    if (!region->plan->pack) {
        region->mixed = true;
        sv_drop_plan_put(region->plan);
        region->plan = NULL;
        return false;
    }
    region->bytes = selvage_pack_bytes(region->plan->pack);
    count_stream(call, region);
    return true;
}

sv_drop_region_t *sv_drop_message(sv_drop_call_t *call, const void *buf, int64_t count, MPI_Datatype type, bool in,
                                  bool out)
{
    sv_drop_block_t block = {count, 0, type};
    if (!sv_drop_is_named(type) && sv_drop_refuse(call, buf, &block, 1))
        return add_refused(call, MPI_DATATYPE_NULL);
    if (!sv_drop_type_is_committed(type))
        return add_refused(call, type);
    sv_drop_region_t *region = add_region(call, buf, true, &block, 1);
    if (!region)
        return NULL;
    region->in = in;
    region->out = out;
    region->one = block;
    region->count = (int)count;
    region->type = type;
    region->packed = pack_region(call, region, &block);
    region->host = region->image = sv_drop_staging(region->bytes);
    return region;
}

sv_drop_region_t *sv_drop_unpacking(sv_drop_call_t *call, void *buf, int64_t count, MPI_Datatype type)
{
    sv_drop_type_t info;
    const bool is_short = sv_drop_fast_is_short(count, type);
    if (count < 0 || !sv_drop_type(type, &info) || !sv_drop_type_is_committed(type) ||
        (!is_short && (count == 0 || info.dense))) /* pair types are named, and have gaps */
        return NULL;
    const size_t bytes = (size_t)(info.bytes * count), room = is_short ? SV_DROP_LETTER_BYTES : bytes + 1;
    sv_drop_region_t *region = &call->region[call->nregions++];
    *region = (sv_drop_region_t){.user = buf, .host = malloc(room), .out = true, .bytes = bytes, .packed = true,
                                 .unpacks = true, .nblocks = 1, .one = {count, 0, type}};
    /* The program may free its own at once. */
    if (!region->host || (!info.named && sv_drop_type_hold(type, &region->one.type) != MPI_SUCCESS))
        sv_drop_fatal("no memory", call->name);
    count_stream(call, region);
    region->wide = is_short;
    region->count = is_short ? SV_DROP_LETTER_BYTES : region->count;
    return region;
}

static const sv_drop_block_t *blocks_of(const sv_drop_region_t *region)
{
    return region->blocks ? region->blocks : &region->one;
}

/* Where gaps come up again, or only a part may, they must go down first. */
static bool has_opaque(const sv_drop_region_t *region)
{
    const sv_drop_block_t *blocks = blocks_of(region);
    bool opaque = false;
    for (int i = 0; i < region->nblocks && region->out; i++) {
        sv_drop_type_t type;
        if (blocks[i].count <= 0 || !sv_drop_type(blocks[i].type, &type) || type.dense)
            continue;
        sv_drop_plan_t *plan = sv_drop_plan_get(blocks[i].type, blocks[i].count, region->user + region->low);
        opaque = opaque || !plan->pack;
        sv_drop_plan_put(plan);
    }
    return opaque;
}

static int64_t count_of(const sv_drop_list_t *list, int64_t i)
{
    if (list->large_counts)
        return list->large_counts[i];
    return list->counts ? list->counts[i] : list->count;
}

/* before: elements of the blocks before this one. */
static int64_t offset_of(const sv_drop_list_t *list, int64_t i, MPI_Datatype type, int64_t before)
{
    MPI_Aint lb, extent;
    if (list->far)
        return list->far[i];
    if (list->bytes)
        return list->bytes[i];
    if (type == MPI_DATATYPE_NULL || PMPI_Type_get_extent(type, &lb, &extent) != MPI_SUCCESS)
        return 0;
    int64_t elements = list->displs ? list->displs[i] : list->large_displs ? list->large_displs[i] : before;
    return elements * (int64_t)extent;
}

/* Of a long image, so that pinning all of it would take memory that nobody needs. */
static bool is_mostly_gaps(const sv_drop_region_t *region)
{
    enum { LONG_BYTES = 64 << 20, PARTS = 4 };
    size_t bytes = 0;
    for (int i = 0; i < region->nblocks && region->bytes >= LONG_BYTES && !region->mixed; i++) {
        sv_drop_type_t type;
        if (blocks_of(region)[i].count > 0 && sv_drop_type(blocks_of(region)[i].type, &type))
            bytes += (size_t)(type.bytes * blocks_of(region)[i].count);
    }
    return region->bytes >= LONG_BYTES && !region->mixed && bytes < region->bytes / PARTS;
}

sv_drop_region_t *sv_drop_add_blocks(sv_drop_call_t *call, const void *buf, bool known, const sv_drop_list_t *list,
                                     bool in, bool out)
{
    sv_drop_block_t one, *blocks = &one;
    bool single = !list->counts && !list->types && !list->large_counts;
    int64_t before = 0;
    int n = single ? 1 : (int)list->n;
    if (buf == MPI_IN_PLACE || n <= 0)
        return NULL;
    if (n > 1 && !(blocks = malloc((size_t)n * sizeof *blocks)))
        sv_drop_fatal("no memory", call->name);
    for (int i = 0; i < n; i++) {
        MPI_Datatype type = list->types ? list->types[i] : list->type;
        blocks[i] = single ? (sv_drop_block_t){list->n * list->count, 0, type}
                           : (sv_drop_block_t){count_of(list, i), offset_of(list, i, type, before), type};
        before += blocks[i].count;
    }
    const bool both = !(single && sv_drop_is_named(one.type)) && sv_drop_refuse(call, buf, blocks, n);
    sv_drop_region_t *region = both ? NULL : add_region(call, buf, known && buf != MPI_BOTTOM, blocks, n);
    if (!region) {
        if (blocks != &one)
            free(blocks);
        return NULL;
    }
    region->in = in;
    region->out = out;
    region->one = *blocks;
    region->blocks = blocks == &one ? NULL : blocks;
    region->mixed = has_opaque(region);
    return region;
}

static bool overlap(const sv_drop_region_t *a, const sv_drop_region_t *b)
{
    const uintptr_t first = (uintptr_t)a->user + (uintptr_t)a->low, second = (uintptr_t)b->user + (uintptr_t)b->low;
    return (a->out || b->out) && first < second + b->bytes && second < first + a->bytes;
}

/*
 * Memory that overlaps in the program's call does so in what MPI is given: MPI refuses what it would refuse, and what
 * it takes (a field with its halo, of which the types name the parts) has one image. Two regions are all that there are
 * where this matters.
 */
static void share_image(sv_drop_region_t *a, sv_drop_region_t *b)
{
    const uintptr_t first = (uintptr_t)a->user + (uintptr_t)a->low, second = (uintptr_t)b->user + (uintptr_t)b->low;
    const uintptr_t low = first < second ? first : second;
    const size_t a_end = (size_t)(first - low) + a->bytes, b_end = (size_t)(second - low) + b->bytes;
    const size_t bytes = a_end > b_end ? a_end : b_end;
    a->image = is_mostly_gaps(a) && is_mostly_gaps(b) ? sv_drop_staging_plain(bytes) : sv_drop_staging(bytes);
    a->host = a->image + (first - low);
    b->host = a->image + (second - low);
}

void sv_drop_make_images(sv_drop_call_t *call)
{
    for (int i = 0; i < call->nregions; i++) {
        sv_drop_region_t *region = &call->region[i];
        for (int j = i + 1; j < call->nregions && !region->host; j++)
            if (!call->region[j].host && overlap(region, &call->region[j]))
                share_image(region, &call->region[j]);
        if (!region->host)
            region->host = region->image =
                is_mostly_gaps(region) ? sv_drop_staging_plain(region->bytes) : sv_drop_staging(region->bytes);
    }
}

void *sv_drop_blocks(sv_drop_call_t *call, const void *buf, bool known, const sv_drop_list_t *list, bool in, bool out)
{
    const sv_drop_region_t *region = sv_drop_add_blocks(call, buf, known, list, in, out);
    sv_drop_make_images(call);
    return sv_drop_image(region, buf);
}

/* --- elements of an image with gaps ------------------------------------------------------------------------------- */

/* SAVED_BYTES: a block of its own must save so much of one copy of everything. */
enum { BATCH_BYTES = 64 << 20, SAVED_BYTES = 64 << 10 };

/* Packed bytes of a block with gaps, 0 for others. */
static size_t gappy_bytes(const sv_drop_block_t *block)
{
    sv_drop_type_t type;
    return block->count > 0 && sv_drop_type(block->type, &type) && !type.dense ? (size_t)(type.bytes * block->count)
                                                                                : 0;
}

/* Blocks from first on that fit into room, but at least one. */
static int end_of_batch(const sv_drop_region_t *region, int first, size_t room)
{
    const sv_drop_block_t *blocks = blocks_of(region);
    size_t bytes = gappy_bytes(&blocks[first]);
    int end = first + 1;
    for (; end < region->nblocks && bytes + gappy_bytes(&blocks[end]) <= room; end++)
        bytes += gappy_bytes(&blocks[end]);
    return end;
}

/* Between the image and the packed bytes, by MPI. */
static void pack_blocks(const sv_drop_region_t *region, int first, int end, char *packed, bool down)
{
    const sv_drop_block_t *blocks = blocks_of(region);
    for (int i = first; i < end; i++) {
        size_t bytes = gappy_bytes(&blocks[i]);
        char *image = (char *)sv_drop_address(region) + blocks[i].offset;
        if (bytes > 0 && down)
            sv_drop_unpack(packed, (int64_t)bytes, image, blocks[i].count, blocks[i].type);
        else if (bytes > 0)
            sv_drop_pack(image, blocks[i].count, blocks[i].type, packed, (int64_t)bytes);
        packed += bytes;
    }
}

/* Between the packed bytes and the program's memory, by the device. */
static void scatter_blocks(sv_drop_flow_t *flow, const sv_drop_region_t *region, int first, int end, char *packed,
                           bool down)
{
    const sv_drop_block_t *blocks = blocks_of(region);
    for (int i = first; i < end; i++) {
        size_t bytes = gappy_bytes(&blocks[i]);
        char *user = region->user + blocks[i].offset;
        if (bytes == 0)
            continue;
        sv_drop_plan_t *plan = sv_drop_plan_get(blocks[i].type, blocks[i].count, region->user + region->low);
        if (!plan->pack || selvage_pack_bytes(plan->pack) != bytes)
            sv_drop_fatal("not supported", "a type that was taken apart before, and now is not");
        if (down)
            sv_drop_gather(flow, plan, user, packed);
        else
            sv_drop_scatter(flow, plan, packed, bytes, user);
        sv_drop_plan_put(plan); /* the launches have what they need of it */
        packed += bytes;
    }
}

/* All blocks with gaps, a batch at a time. */
static void carry_gappy(sv_drop_flow_t *flow, const sv_drop_region_t *region, bool down)
{
    size_t total = 0, most = 0;
    for (int i = 0; i < region->nblocks; i++) {
        size_t bytes = gappy_bytes(&blocks_of(region)[i]);
        total += bytes;
        most = bytes > most ? bytes : most;
    }
    if (total == 0)
        return;
    size_t room = most > BATCH_BYTES ? most : total < BATCH_BYTES ? total : BATCH_BYTES;
    char *packed = sv_drop_staging(room);
    for (int first = 0, end; first < region->nblocks; first = end) {
        end = end_of_batch(region, first, room);
        if (!down)
            pack_blocks(region, first, end, packed, false);
        scatter_blocks(flow, region, first, end, packed, down);
        sv_drop_flow_end(flow);
        if (down)
            pack_blocks(region, first, end, packed, true);
    }
    sv_drop_unstage(packed);
}

/* --- down --------------------------------------------------------------------------------------------------------- */

/* Whether it is better to bring down the elements of an image than all of it. */
static bool is_sparse(const sv_drop_region_t *region)
{
    const sv_drop_block_t *blocks = blocks_of(region);
    size_t bytes = 0;
    if (region->mixed || region->bytes / SAVED_BYTES < (size_t)region->nblocks)
        return false;
    for (int i = 0; i < region->nblocks; i++) {
        sv_drop_type_t type;
        if (blocks[i].count > 0 && sv_drop_type(blocks[i].type, &type))
            bytes += (size_t)(type.bytes * blocks[i].count);
    }
    return bytes <= region->bytes / 2 && (region->bytes - bytes) / SAVED_BYTES >= (size_t)region->nblocks;
}

static bool is_all_known(const sv_drop_region_t *region)
{
    sv_drop_region_t asked = *region;
    asked.out = true;
    return !has_opaque(&asked);
}

/* Whether all from the first block to the last is one allocation: copies may not go on beyond theirs. */
static bool is_one_allocation(const sv_drop_region_t *region)
{
    selvage_memory_t memory = SELVAGE_MEMORY_UNKNOWN;
    const char *first = region->user + region->low;
    if (selvage_device_memory(sv_drop_device_of(first), first, region->bytes, &memory) != SELVAGE_SUCCESS)
        return true;
    return memory != SELVAGE_MEMORY_NONE && memory != SELVAGE_MEMORY_HOST && memory != SELVAGE_MEMORY_PINNED;
}

/* One block without gaps is as the program has it. */
static bool is_block(const sv_drop_region_t *region)
{
    sv_drop_type_t type;
    return region->nblocks == 1 && sv_drop_type(blocks_of(region)->type, &type) && type.dense;
}

static void stage_sparse(sv_drop_flow_t *flow, const sv_drop_region_t *region)
{
    const sv_drop_block_t *blocks = blocks_of(region);
    for (int i = 0; i < region->nblocks; i++) {
        sv_drop_type_t type;
        if (blocks[i].count > 0 && sv_drop_type(blocks[i].type, &type) && type.dense)
            sv_drop_copy(flow, (char *)sv_drop_address(region) + blocks[i].offset, region->user + blocks[i].offset,
                         (size_t)(type.bytes * blocks[i].count), SELVAGE_COPY_DEVICE_TO_HOST);
    }
    carry_gappy(flow, region, true);
}

static void stage_region(sv_drop_flow_t *flow, const sv_drop_region_t *region)
{
    if (region->packed && region->in)
        sv_drop_gather(flow, region->plan, region->user, region->host);
    if (region->packed || !(region->in || region->mixed))
        return;
    if (!is_block(region) && (is_sparse(region) || !is_one_allocation(region)) && is_all_known(region))
        stage_sparse(flow, region);
    else
        sv_drop_copy(flow, region->host, region->user + region->low, region->bytes, SELVAGE_COPY_DEVICE_TO_HOST);
}

static void stage_all(sv_drop_call_t *call, bool behind_default)
{
    sv_drop_flow_t flow = {.theirs = behind_default};
    for (int i = 0; i < call->nregions; i++)
        stage_region(&flow, &call->region[i]);
    sv_drop_flow_end(&flow);
}

/* Whether what was read before all work had ended is what is there behind it. */
static void check_region(const sv_drop_call_t *call, sv_drop_region_t *region)
{
    void *before;
    if (!region->in || !(before = malloc(region->bytes)))
        return;
    sv_drop_flow_t flow = {0};
    memcpy(before, region->host, region->bytes);
    stage_region(&flow, region);
    sv_drop_flow_end(&flow);
    if (memcmp(before, region->host, region->bytes) != 0)
        sv_drop_warn("%s: the device was still writing %zu bytes at %p: the program does not synchronise before the "
                     "call", call->name, region->bytes, (void *)region->user);
    free(before);
}

/* Copies on the default stream are behind what that policy waits for, and are one wait with it; of several GPUs each
   has its own. */
void sv_drop_stage(sv_drop_call_t *call)
{
    sv_drop_sync_t sync = sv_drop_settings()->sync;
    bool behind_default = sync == SV_DROP_SYNC_DEFAULT && !sv_drop_has_several();
    if (call->nregions == 0 || (call->nregions == 1 && call->region[0].unpacks))
        return;
    if (sync == SV_DROP_SYNC_CHECK)
        stage_all(call, false);
    if (!behind_default)
        sv_drop_settle();
    if (sync != SV_DROP_SYNC_CHECK)
        stage_all(call, behind_default);
    for (int i = 0; i < call->nregions && sync == SV_DROP_SYNC_CHECK; i++)
        check_region(call, &call->region[i]);
}

/* --- up ----------------------------------------------------------------------------------------------------------- */

static void land_image(sv_drop_flow_t *flow, const sv_drop_region_t *region)
{
    const sv_drop_block_t *blocks = blocks_of(region);
    const bool whole = region->nblocks == 1 || is_one_allocation(region);
    int64_t begin = 0, end = 0; /* a run that is due */
    for (int i = 0; i <= region->nblocks; i++) {
        sv_drop_type_t type;
        bool any = i < region->nblocks && blocks[i].count > 0 && sv_drop_type(blocks[i].type, &type) && type.bytes > 0;
        bool joins = any && whole && type.dense && blocks[i].offset == end;
        if (!joins && (any || i == region->nblocks) && end > begin) {
            sv_drop_copy(flow, region->user + begin, (char *)sv_drop_address(region) + begin, (size_t)(end - begin),
                         SELVAGE_COPY_HOST_TO_DEVICE);
            begin = end = 0;
        }
        if (any && type.dense) {
            begin = joins && end > begin ? begin : blocks[i].offset;
            end = blocks[i].offset + blocks[i].count * type.bytes;
        }
    }
    carry_gappy(flow, region, false);
}

static void land_message(sv_drop_flow_t *flow, sv_drop_region_t *region, size_t bytes)
{
    if (region->unpacks) {
        if (bytes > 0)
            sv_drop_unpack(region->host, (int64_t)bytes, region->user, region->one.count, region->one.type);
        return;
    }
    if (region->packed)
        sv_drop_scatter(flow, region->plan, region->host, bytes, region->user);
    else
        sv_drop_copy(flow, region->user + region->low, region->host, bytes, SELVAGE_COPY_HOST_TO_DEVICE);
}

/* Bytes of a message that came. */
static size_t bytes_of(const MPI_Status *status, size_t room)
{
    MPI_Count bytes = 0;
    int cancelled = 0;
    PMPI_Test_cancelled(status, &cancelled);
    if (cancelled)
        return 0;
    if (PMPI_Get_elements_x((MPI_Status *)(uintptr_t)status, MPI_BYTE, &bytes) != MPI_SUCCESS || bytes < 0)
        sv_drop_fatal("not supported", "a message of which MPI does not say how much came");
    return (size_t)bytes < room ? (size_t)bytes : room;
}

void sv_drop_land_on(sv_drop_flow_t *flow, sv_drop_call_t *call, const MPI_Status *status)
{
    if (status && call->has_peer) {
        call->peer = status->MPI_SOURCE;
        call->tag = status->MPI_TAG;
    }
    for (int i = 0; i < call->nregions; i++) {
        sv_drop_region_t *region = &call->region[i];
        if (!region->out)
            continue;
        if (region->mixed)
            sv_drop_copy(flow, region->user + region->low, region->host, region->bytes, SELVAGE_COPY_HOST_TO_DEVICE);
        else if (status)
            land_message(flow, region, bytes_of(status, region->bytes));
        else
            land_image(flow, region);
    }
}

void sv_drop_land(sv_drop_call_t *call, const MPI_Status *status)
{
    sv_drop_flow_t flow = {0};
    sv_drop_land_on(&flow, call, status);
    sv_drop_flow_end(&flow);
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* One block of a region as a region; false for none that is there. */
static bool part_of(const sv_drop_call_t *call, int part, sv_drop_region_t *one_out)
{
    const sv_drop_region_t *region = &call->region[0];
    int64_t low = 0, high = 0;
    if (call->nregions == 0 || part < 0 || part >= region->nblocks)
        return false;
    *one_out = *region;
    one_out->one = region->blocks ? region->blocks[part] : region->one;
    one_out->blocks = NULL;
    one_out->nblocks = 1;
    if (!bounds_of(&one_out->one, &low, &high))
        return false;
    one_out->host = region->host + (low - region->low);
    one_out->low = low;
    one_out->bytes = (size_t)(high - low);
    return true;
}

void sv_drop_stage_part(sv_drop_call_t *call, int part)
{
    sv_drop_region_t one;
    sv_drop_flow_t flow = {0};
    if (!part_of(call, part, &one))
        return;
    sv_drop_settle();
    stage_region(&flow, &one);
    sv_drop_flow_end(&flow);
}

void sv_drop_land_part(sv_drop_flow_t *flow, sv_drop_call_t *call, int part)
{
    sv_drop_region_t one;
    if (!part_of(call, part, &one) || !one.out || call->parts[part])
        return;
    call->parts[part] = true;
    if (one.mixed)
        sv_drop_copy(flow, one.user + one.low, one.host, one.bytes, SELVAGE_COPY_HOST_TO_DEVICE);
    else
        land_image(flow, &one);
}
