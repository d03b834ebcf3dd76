/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The six faces of a cube of doubles in its frame of halo cells: gathered from the own cells in one launch, checksums
 * and all, and scattered into the halo in another, as a halo exchange on the route `peer` does with them; but to memory
 * of the same device, so that only packing is measured.
 */
#include <stdio.h>
#include <string.h>

#include "kernel_bench.h"
#include "pipeline/layout_parts.h"

enum { FACES = 6, SHARE_UNIT = 512 };

typedef struct faces {
    uint64_t n, width;           /* cells of an edge without the frame, and of the frame */
    sv_layout_t *layout[2 * FACES]; /* own cells, then halo */
    const sv_piece_t *pieces[2 * FACES];
    uint64_t bytes[FACES], touched;
    uint8_t *block, *here;       /* device memory and its pinned image: pieces, items, bases, scratch */
    size_t block_bytes;
    const sv_push_item_t *push;
    const sv_pull_item_t *pull;
    uint8_t *const *bases;
    sv_record_t *records;        /* pinned, as results and words */
} faces_t;

/* Cells of a face: the outermost own ones, or the halo beyond. */
static sv_pack_shape_t face_shape(const faces_t *faces, int face, int is_halo)
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
    for (int f = 0; f < 2 * FACES; f++) {
        sv_pack_shape_t shape = face_shape(faces, f % FACES, f / FACES);
        bench_must(sv_layout_create(SV_LAYOUT_ALIGNED, &faces->layout[f]), "layout");
        bench_must(sv_layout_add_box(faces->layout[f], 1 + (uint32_t)f / FACES, &shape, SV_LAYOUT_STORE), "layout");
        if (f >= FACES)
            continue;
        uint64_t row = 8 * shape.dim[0].count, rows = shape.dim[1].count * shape.dim[2].count;
        faces->bytes[f] = sv_layout_bytes(faces->layout[f]);
        faces->touched += rows * ((row + SECTOR_BYTES - 1) / SECTOR_BYTES * SECTOR_BYTES);
    }
}

static sv_record_t identity_of_face(const faces_t *faces, int face)
{
    sv_record_t identity = bench_identity(faces->bytes[face]);
    identity.index = (uint32_t)face;
    identity.salt = (uint64_t)face + 1000 * (uint64_t)identity.tag;
    return identity;
}

/* The image of the block: with here NULL it is only measured. */
static void walk_block(bench_t *b, faces_t *faces)
{
    uint8_t *const bases[3] = {NULL, b->from, b->to + b->bytes / 2}; /* the source is to stay as it is */
    sv_layout_arena_t arena = {.here = faces->here, .there = faces->block};
    sv_digest_scratch_t *scratch;
    uint8_t *stream = b->to;
    sv_push_item_t *push = sv_layout_carve(&arena, FACES * sizeof *push, &faces->push);
    sv_pull_item_t *pull = sv_layout_carve(&arena, FACES * sizeof *pull, &faces->pull);
    uint8_t **table = sv_layout_carve(&arena, sizeof bases, &faces->bases);
    (void)sv_layout_carve(&arena, FACES * sizeof *scratch, &scratch);
    if (table)
        memcpy(table, bases, sizeof bases);
    for (int f = 0; f < 2 * FACES; f++) {
        sv_piece_t *here;
        uint32_t count;
        bench_must(sv_layout_make_pieces(faces->layout[f], bases, &arena, &here, &faces->pieces[f], &count), "pieces");
    }
    for (int f = 0; push && f < FACES; f++) {
        push[f] = (sv_push_item_t){.dst = stream, .record = (uint8_t *)&faces->records[f], .scratch = scratch + f,
                                   .nslots = 1, .pieces = faces->pieces[f], .npieces = 1,
                                   .identity = identity_of_face(faces, f)};
        pull[f] = (sv_pull_item_t){.src = stream, .record = (uint8_t *)&faces->records[f], .scratch = scratch + f,
                                   .result = b->result, .done = (uint64_t *)(void *)(faces->records + FACES) + f,
                                   .nslots = 1, .pieces = faces->pieces[FACES + f], .npieces = 1,
                                   .identity = identity_of_face(faces, f)};
        stream += (faces->bytes[f] + 255) / 256 * 256;
    }
    faces->block_bytes = arena.used;
}

static void make_block(bench_t *b, faces_t *faces)
{
    sv_device_t *dev = b->dev;
    size_t words = FACES * (sizeof(sv_record_t) + sizeof(uint64_t));
    bench_must(SV_DEVICE_CALL(dev, host_malloc, words, (void **)&faces->records), "pinned memory");
    memset(faces->records, 0, words);
    walk_block(b, faces);
    bench_must(SV_DEVICE_CALL(dev, malloc, faces->block_bytes, (void **)&faces->block), "memory");
    bench_must(SV_DEVICE_CALL(dev, host_malloc, faces->block_bytes, (void **)&faces->here), "pinned memory");
    memset(faces->here, 0, faces->block_bytes);
    walk_block(b, faces);
    bench_must(SV_DEVICE_CALL(dev, copy_async, faces->block, faces->here, faces->block_bytes, SV_COPY_H2D, b->stream),
               "copy");
    bench_sync(b);
}

static sv_batch_arg_t make_launch(const bench_t *b, const faces_t *faces, const void *items, uint64_t total)
{
    sv_batch_arg_t arg = {.items = items, .bases = faces->bases, .epoch = 1, .npackets = FACES};
    uint64_t share = (total / b->dev->launch_blocks + SHARE_UNIT) / SHARE_UNIT * SHARE_UNIT;
    for (uint32_t f = 0; f < FACES; f++) {
        sv_record_t identity = identity_of_face(faces, (int)f);
        arg.key[f] = sv_digest_key(&identity);
        arg.index[f] = f;
        arg.first_block[f + 1] = arg.first_block[f] + sv_kernel_shares(b->dev, faces->bytes[f], share);
    }
    return arg;
}

static int all_good(const faces_t *faces)
{
    const uint64_t *done = (const uint64_t *)(const void *)(faces->records + FACES);
    for (int f = 0; f < FACES; f++)
        if ((done[f] & 0xffffff) != SV_PULL_GOOD)
            return 0;
    return 1;
}

static void measure(bench_t *b, const faces_t *faces)
{
    uint64_t total = 0;
    char shape[48];
    for (int f = 0; f < FACES; f++)
        total += faces->bytes[f];
    snprintf(shape, sizeof shape, "6 faces of %llu^3, width %llu, 1 launch", (unsigned long long)faces->n,
             (unsigned long long)faces->width);
    sv_batch_arg_t push = make_launch(b, faces, faces->push, total), pull = make_launch(b, faces, faces->pull, total);
    work_t work = {"gather, checksum", shape, &sv_kernel_gather, &push, sizeof push, total, total + faces->touched,
                   b->copy_rate};
    push.padding = pull.padding = 0;
    bench_line(b, &work);
    work.name = "gather, unchecked";
    push.flags = SV_DIGEST_NONE;
    bench_line(b, &work);
    work.kernel = &sv_kernel_scatter;
    work.arg = &pull;
    work.name = "scatter, verify";
    bench_line(b, &work);
    bench_expect(b, all_good(faces), shape);
    work.name = "scatter, unchecked";
    pull.flags = SV_DIGEST_NONE;
    bench_line(b, &work);
}

static void measure_cube(bench_t *b, uint64_t n, uint64_t width)
{
    faces_t faces = {.n = n, .width = width};
    make_layouts(&faces);
    make_block(b, &faces);
    measure(b, &faces);
    SV_DEVICE_CALL(b->dev, free, faces.block);
    SV_DEVICE_CALL(b->dev, host_free, faces.here);
    SV_DEVICE_CALL(b->dev, host_free, faces.records);
    for (int f = 0; f < 2 * FACES; f++)
        sv_layout_destroy(faces.layout[f]);
}

void bench_faces(bench_t *b)
{
    enum { LARGEST = 512, WIDE = 3 };
    uint64_t n = LARGEST;
    while ((n + 2 * WIDE) * (n + 2 * WIDE) * (n + 2 * WIDE) * 16 > b->bytes && n > 8)
        n /= 2;
    measure_cube(b, n, 1);
    measure_cube(b, n, WIDE);
}
