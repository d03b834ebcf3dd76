/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The six faces of a cube of doubles in its frame of halo cells: gathered from the own cells in one launch, checksums
 * and all, and scattered into the halo in another, as a halo exchange on the route `peer` does with them; but to memory
 * of the same device, so that only packing is measured.
 *
 * An exchange comes after a kernel that swept the field, so its faces are in no cache. Here launches take several
 * fields in turn instead, those of the kernels and those of their bound alike.
 */
#include <stdio.h>
#include <string.h>

#include "tools/kernels/kernel_faces.h"

enum { ALIGNMENT = 4096, SOFT_FIELDS = 2, BASES = 3 };

/* What a launch of every field needs. */
typedef struct launches {
    sv_batch_arg_t push[FIELDS_MAX], pull[FIELDS_MAX], look[FIELDS_MAX];
} launches_t;

static unsigned count_items(const faces_t *faces)
{
    return faces->nfields * FACES;
}

sv_pack_shape_t bench_face_shape(const faces_t *faces, int face, int is_halo)
{
    const uint64_t pitch = faces->n + 2 * faces->width;
    const int64_t stride[3] = {8, 8 * (int64_t)pitch, 8 * (int64_t)(pitch * pitch)};
    const int d = face / 2;
    sv_pack_shape_t shape = {.element_bytes = 8, .ndims = 3};
    int64_t offset = 0;
    for (int i = 0; i < 3; i++) {
        uint64_t first = face % 2 ? faces->n + (is_halo ? faces->width : 0) : is_halo ? 0 : faces->width;
        shape.dim[i] = (sv_pack_dim_t){i == d ? faces->width : faces->n, stride[i]};
        offset += (int64_t)(i == d ? first : faces->width) * stride[i];
    }
    shape.base = (uint8_t *)(intptr_t)offset;
    return shape;
}

static void make_layouts(faces_t *faces)
{
    const uint64_t pitch = faces->n + 2 * faces->width;
    uint64_t at = (8 * pitch * pitch * pitch + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    for (int f = 0; f < 2 * FACES; f++) {
        sv_pack_shape_t shape = bench_face_shape(faces, f % FACES, f / FACES);
        bench_must(sv_layout_create(SV_LAYOUT_ALIGNED, &faces->layout[f]), "layout");
        bench_must(sv_layout_add_box(faces->layout[f], 1 + (uint32_t)f / FACES, &shape, SV_LAYOUT_STORE), "layout");
        if (f >= FACES)
            continue;
        uint64_t row = 8 * shape.dim[0].count, rows = shape.dim[1].count * shape.dim[2].count;
        faces->bytes[f] = sv_layout_bytes(faces->layout[f]);
        faces->total += faces->bytes[f];
        faces->touched += rows * ((row + SECTOR_BYTES - 1) / SECTOR_BYTES * SECTOR_BYTES);
        faces->stream_at[f] = at;
        at += (faces->bytes[f] + 255) / 256 * 256;
    }
    faces->field_bytes = (at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Own cells and halos as they were in the beginning. Fields differ from each other, so that no check is passed with
   another one's cells. */
static void fill_fields(bench_t *b, const faces_t *faces)
{
    for (unsigned i = 0; i < faces->nfields; i++)
        bench_must(SV_DEVICE_CALL(b->dev, copy_async, faces->memory + i * faces->field_bytes,
                                  b->from + (uint64_t)i * ALIGNMENT, faces->stream_at[0], SV_COPY_D2D, b->stream),
                   "copy");
}

static void clear_streams(bench_t *b, const faces_t *faces)
{
    for (unsigned i = 0; i < faces->nfields; i++)
        bench_must(SV_DEVICE_CALL(b->dev, fill_async, faces->memory + i * faces->field_bytes + faces->stream_at[0], 0,
                                  faces->field_bytes - faces->stream_at[0], b->stream), "fill");
}

static void make_fields(bench_t *b, faces_t *faces)
{
    bench_must(SV_DEVICE_CALL(b->dev, malloc, faces->nfields * faces->field_bytes, (void **)&faces->memory), "memory");
    fill_fields(b, faces);
    clear_streams(b, faces);
}

static sv_record_t identity_of_face(const faces_t *faces, unsigned face)
{
    sv_record_t identity = bench_identity(faces->bytes[face]);
    identity.index = face;
    identity.salt = (uint64_t)face + 1000 * (uint64_t)identity.tag;
    return identity;
}

/* Where own cells and halos begin, by field. */
static void fill_bases(const faces_t *faces, uint8_t **bases)
{
    for (unsigned i = 0; i < faces->nfields; i++) {
        bases[BASES * i] = NULL;
        bases[BASES * i + 1] = bases[BASES * i + 2] = faces->memory + i * faces->field_bytes;
    }
}

static void fill_items(const bench_t *b, const faces_t *faces, sv_push_item_t *push, sv_pull_item_t *pull,
                       sv_digest_scratch_t *scratch)
{
    const unsigned count = count_items(faces);
    for (unsigned i = 0; i < count; i++) {
        const unsigned f = i % FACES;
        uint8_t *stream = faces->memory + i / FACES * faces->field_bytes + faces->stream_at[f];
        uint8_t *record = (uint8_t *)(faces->records + i);
        push[i] = (sv_push_item_t){.dst = stream, .record = record, .scratch = scratch + f, .nslots = 1,
                                   .pieces = faces->pieces[f], .npieces = 1, .identity = identity_of_face(faces, f)};
        push[count + i] = push[i];
        push[count + i].record = record + count * sizeof(sv_record_t);
        push[count + i].pieces = faces->pieces[FACES + f];
        pull[i] = (sv_pull_item_t){.src = stream, .record = record, .scratch = scratch + f, .result = b->result,
                                   .done = faces->done + i, .nslots = 1, .pieces = faces->pieces[FACES + f],
                                   .npieces = 1, .identity = identity_of_face(faces, f)};
    }
}

/* The image of the block: with here NULL it is only measured. */
static void walk_block(bench_t *b, faces_t *faces)
{
    uint8_t *bases[BASES * FIELDS_MAX];
    const unsigned count = count_items(faces);
    sv_layout_bump_t arena = {.here = faces->here, .there = faces->block};
    sv_digest_scratch_t *scratch;
    sv_push_item_t *push = sv_layout_bump_alloc(&arena, 2 * count * sizeof *push, &faces->push);
    sv_pull_item_t *pull = sv_layout_bump_alloc(&arena, count * sizeof *pull, &faces->pull);
    uint8_t **table = sv_layout_bump_alloc(&arena, faces->nfields * BASES * sizeof *bases, &faces->bases);
    (void)sv_layout_bump_alloc(&arena, FACES * sizeof *scratch, &scratch);
    (void)sv_layout_bump_alloc(&arena, 2 * count * sizeof(sv_record_t), &faces->records);
    fill_bases(faces, bases);
    if (table)
        memcpy(table, bases, faces->nfields * BASES * sizeof *bases);
    for (int f = 0; f < 2 * FACES; f++) {
        sv_piece_t *here;
        uint32_t pieces;
        bench_must(sv_layout_make_pieces(faces->layout[f], bases, &arena, &here, &faces->pieces[f], &pieces), "pieces");
    }
    if (push)
        fill_items(b, faces, push, pull, scratch);
    faces->block_bytes = arena.used;
}

static void make_block(bench_t *b, faces_t *faces)
{
    sv_device_t *dev = b->dev;
    const unsigned count = count_items(faces);
    bench_must(SV_DEVICE_CALL(dev, host_malloc, count * sizeof *faces->done, (void **)&faces->done), "pinned memory");
    bench_must(SV_DEVICE_CALL(dev, host_malloc, 2 * count * sizeof *faces->seen, (void **)&faces->seen),
               "pinned memory");
    walk_block(b, faces);
    bench_must(SV_DEVICE_CALL(dev, malloc, faces->block_bytes, (void **)&faces->block), "memory");
    bench_must(SV_DEVICE_CALL(dev, host_malloc, faces->block_bytes, (void **)&faces->here), "pinned memory");
    memset(faces->here, 0, faces->block_bytes);
    walk_block(b, faces);
    bench_must(SV_DEVICE_CALL(dev, copy_async, faces->block, faces->here, faces->block_bytes, SV_COPY_H2D, b->stream),
               "copy");
    bench_sync(b);
}

static sv_batch_arg_t make_launch(const bench_t *b, const faces_t *faces, const void *items, unsigned first,
                                  unsigned field)
{
    sv_batch_arg_t arg = {.items = items, .bases = faces->bases + BASES * field, .epoch = 1, .npackets = FACES};
    const uint64_t share = sv_batch_share_bytes(faces->total, FACES, b->dev->launch_blocks);
    for (unsigned f = 0; f < FACES; f++) {
        sv_record_t identity = identity_of_face(faces, f);
        arg.key[f] = sv_digest_key(&identity);
        arg.index[f] = first + field * FACES + f;
        arg.first_block[f + 1] = arg.first_block[f] + sv_kernel_shares(b->dev, faces->bytes[f], share);
    }
    return arg;
}

static void make_launches(const bench_t *b, const faces_t *faces, launches_t *launches)
{
    for (unsigned i = 0; i < faces->nfields; i++) {
        launches->push[i] = make_launch(b, faces, faces->push, 0, i);
        launches->look[i] = make_launch(b, faces, faces->push, count_items(faces), i);
        launches->pull[i] = make_launch(b, faces, faces->pull, 0, i);
    }
}

static void leave_digests(const faces_t *faces, sv_batch_arg_t *args)
{
    for (unsigned i = 0; i < faces->nfields; i++)
        args[i].flags = SV_DIGEST_NONE;
}

static work_t make_work(const bench_t *b, const faces_t *faces, const sv_kernel_t *kernel, const sv_batch_arg_t *args)
{
    return (work_t){.kernel = kernel,
                    .arg = args,
                    .arg_bytes = sizeof *args,
                    .turns = faces->nfields,
                    .payload = faces->total,
                    .moved = faces->total + faces->touched,
                    .baseline = b->copy_rate};
}

static void run_all(bench_t *b, const faces_t *faces, const sv_kernel_t *kernel, const sv_batch_arg_t *args)
{
    work_t work = make_work(b, faces, kernel, args);
    for (unsigned i = 0; i < faces->nfields; i++)
        bench_enqueue(b, &work);
    bench_sync(b);
}

/* Every packet of every field, since this was asked last. */
static int all_good(const faces_t *faces)
{
    int good = 1;
    for (unsigned i = 0; i < count_items(faces); i++)
        good &= (faces->done[i] & 0xffffff) == SV_PULL_GOOD;
    memset(faces->done, 0, count_items(faces) * sizeof *faces->done);
    return good;
}

/* Whether the halos hold what the streams do, whose digests lie in the records. */
static int halos_right(bench_t *b, const faces_t *faces, const launches_t *launches)
{
    const unsigned count = count_items(faces);
    int right = 1;
    run_all(b, faces, &sv_kernel_gather, launches->look);
    bench_must(SV_DEVICE_CALL(b->dev, copy_async, faces->seen, faces->records, 2 * count * sizeof *faces->seen,
                              SV_COPY_D2H, b->stream), "copy");
    bench_sync(b);
    for (unsigned i = 0; i < count; i++)
        right &= faces->seen[i].digest != 0 && faces->seen[i].digest == faces->seen[count + i].digest;
    return right;
}

static void measure_gather(bench_t *b, const faces_t *faces, launches_t *launches, const char *shape)
{
    work_t work = make_work(b, faces, &sv_kernel_gather, launches->push);
    (void)bench_bound_line(b, faces, "bound: read faces", SV_TOUCH_LOADS);
    (void)bench_bound_line(b, faces, "bound: fill stream", SV_TOUCH_STORES);
    work.bound_ns = bench_bound_line(b, faces, "bound: gather", SV_TOUCH_LOADS | SV_TOUCH_STORES);
    work.shape = shape;
    work.name = "gather, checksum";
    bench_line(b, &work);
    leave_digests(faces, launches->push);
    work.name = "gather, unchecked";
    bench_line(b, &work);
}

static void measure_scatter(bench_t *b, const faces_t *faces, launches_t *launches, const char *shape)
{
    work_t work = make_work(b, faces, &sv_kernel_scatter, launches->pull);
    (void)bench_bound_line(b, faces, "bound: read stream", SV_TOUCH_SCATTERS | SV_TOUCH_LOADS);
    (void)bench_bound_line(b, faces, "bound: fill faces", SV_TOUCH_SCATTERS | SV_TOUCH_STORES);
    work.bound_ns = bench_bound_line(b, faces, "bound: scatter", SV_TOUCH_SCATTERS | SV_TOUCH_LOADS | SV_TOUCH_STORES);
    fill_fields(b, faces); /* the halos are wrong now */
    bench_bound_run(b, faces, SV_TOUCH_SCATTERS | SV_TOUCH_LOADS | SV_TOUCH_STORES);
    bench_expect(b, halos_right(b, faces, launches), "bound: scatter");
    fill_fields(b, faces);
    work.shape = shape;
    work.name = "scatter, verify";
    bench_line(b, &work);
    bench_expect(b, all_good(faces) && halos_right(b, faces, launches), shape);
    leave_digests(faces, launches->pull);
    work.name = "scatter, unchecked";
    bench_line(b, &work);
}

static void measure(bench_t *b, const faces_t *faces)
{
    launches_t launches;
    char shape[48];
    snprintf(shape, sizeof shape, "6 faces of %llu^3, width %llu, 1 launch", (unsigned long long)faces->n,
             (unsigned long long)faces->width);
    make_launches(b, faces, &launches);
    measure_gather(b, faces, &launches, shape);
    clear_streams(b, faces);
    bench_bound_run(b, faces, SV_TOUCH_LOADS | SV_TOUCH_STORES);
    run_all(b, faces, &sv_kernel_scatter, launches.pull);
    bench_expect(b, all_good(faces), "bound: gather");
    measure_scatter(b, faces, &launches, shape);
}

static void measure_cube(bench_t *b, uint64_t n, uint64_t width)
{
    faces_t faces = {.n = n, .width = width, .nfields = strcmp(b->dev->ops->name, "soft") ? FIELDS_MAX : SOFT_FIELDS};
    make_layouts(&faces);
    make_fields(b, &faces);
    make_block(b, &faces);
    measure(b, &faces);
    SV_DEVICE_CALL(b->dev, free, faces.memory);
    SV_DEVICE_CALL(b->dev, free, faces.block);
    SV_DEVICE_CALL(b->dev, host_free, faces.here);
    SV_DEVICE_CALL(b->dev, host_free, faces.seen);
    SV_DEVICE_CALL(b->dev, host_free, faces.done);
    for (int f = 0; f < 2 * FACES; f++)
        sv_layout_destroy(faces.layout[f]);
}

void bench_faces(bench_t *b)
{
    enum { LARGEST = 512, WIDE = SV_TOUCH_WIDTH_MAX };
    uint64_t n = LARGEST;
    while ((n + 2 * WIDE) * (n + 2 * WIDE) * (n + 2 * WIDE) * 16 > b->bytes && n > 8)
        n /= 2;
    measure_cube(b, n, 1);
    measure_cube(b, n, WIDE);
}
