/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The six faces of cubes of doubles: what is measured about them (kernel_faces.c), and the kernel that only touches
 * them, which says how fast that can be at best (kernel_bound.c).
 */
#ifndef SELVAGE_TOOLS_KERNEL_FACES_H
#define SELVAGE_TOOLS_KERNEL_FACES_H

#include "tools/kernels/kernel_bench.h"
#include "pipeline/layout_parts.h"
#include "pipeline/pipe_batch.h"

enum { FACES = 6, FIELDS_MAX = 8 };

/* Launches take the fields in turn, so that caches have forgotten a field's faces before its turn comes again. */
typedef struct faces {
    uint64_t n, width;             /* cells of an edge without the frame, and of the frame */
    unsigned nfields;
    uint8_t *memory;               /* of the device: field, its streams, next field, its streams, ... */
    uint64_t field_bytes;          /* to the next one */
    uint64_t bytes[FACES];         /* of a face */
    uint64_t stream_at[FACES];     /* where its stream begins, from the beginning of the field */
    uint64_t total, touched;       /* of all faces; and with whole sectors */
    sv_layout_t *layout[2 * FACES]; /* own cells, then halo */
    const sv_piece_t *pieces[2 * FACES];
    uint8_t *block, *here;         /* device memory and its pinned image: what follows */
    size_t block_bytes;
    const sv_push_item_t *push;    /* own cells of each field; then halos, to see what has become of them */
    const sv_pull_item_t *pull;
    uint8_t *const *bases;
    sv_record_t *records;          /* of push: beside the streams, as on a route between devices */
    sv_record_t *seen;             /* pinned image of records */
    uint64_t *done;                /* pinned, of pull: hosts poll these */
} faces_t;

/* Cells of a face: the outermost own ones, or the halo beyond. The base is an offset. */
sv_pack_shape_t bench_face_shape(const faces_t *faces, int face, int is_halo);

/* Measures the kernel that does what mode says (SV_TOUCH_...) in several shapes of launch; prints, gives the best. */
double bench_bound_line(bench_t *b, const faces_t *faces, const char *name, uint32_t mode);

/* Does it once with every field. */
void bench_bound_run(bench_t *b, const faces_t *faces, uint32_t mode);

#endif
