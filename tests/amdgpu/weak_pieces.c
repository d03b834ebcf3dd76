/* SPDX-License-Identifier: BSD-3-Clause */
/* See weak_pieces.h. Base 0 of a layout is the address 0, so that offsets are addresses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amdgpu/weak_pieces.h"
#include "pipeline/layout_parts.h"

static void must_succeed(selvage_status_t status)
{
    if (status == SELVAGE_SUCCESS)
        return;
    fprintf(stderr, "weak_pieces: the library refuses a layout, status %d\n", (int)status);
    abort();
}

static void add_weak_part(sv_layout_t *layout, const weak_part_t *part)
{
    if (part->kind == WEAK_BOX) {
        const sv_pack_shape_t shape = {.base = part->base,
                                       .element_bytes = part->element_bytes,
                                       .ndims = 2,
                                       .dim = {{part->row, part->step}, {part->count / part->row, part->row_step}}};
        must_succeed(sv_layout_add_box(layout, 0, &shape, SV_LAYOUT_STORE));
        return;
    }
    if (part->kind == WEAK_LIST) {
        must_succeed(sv_layout_add_list(layout, 0, part->element_bytes, part->address, part->count, SV_LAYOUT_STORE));
        return;
    }
    sv_layout_run_t *runs = calloc(part->count, sizeof *runs);
    if (!runs)
        abort();
    for (uint64_t r = 0; r < part->count; r++)
        runs[r] = (sv_layout_run_t){part->address[r], part->run_bytes[r]};
    must_succeed(sv_layout_add_runs(layout, 0, runs, part->count));
    free(runs);
}

size_t weak_pieces_make(bool aligned, const weak_part_t *part, unsigned nparts, uint8_t *there, uint8_t **image_out,
                        const sv_piece_t **pieces_out, uint64_t *npieces_out, uint64_t *stream_bytes_out)
{
    uint8_t *const bases[1] = {NULL};
    sv_layout_bump_t bump = {NULL, NULL, 0};
    sv_layout_t *layout;
    sv_piece_t *here;
    uint32_t count;
    must_succeed(sv_layout_create(aligned ? SV_LAYOUT_ALIGNED : SV_LAYOUT_EXACT, &layout));
    for (unsigned p = 0; p < nparts; p++)
        add_weak_part(layout, &part[p]);
    *stream_bytes_out = sv_layout_bytes(layout);
    must_succeed(sv_layout_close(layout));
    must_succeed(sv_layout_make_pieces(layout, bases, &bump, &here, pieces_out, &count));
    const size_t bytes = bump.used;
    if (image_out) {
        void *image = NULL;
        if (posix_memalign(&image, 64, bytes) != 0)
            abort();
        memset(image, 0, bytes);
        bump = (sv_layout_bump_t){image, there, 0};
        must_succeed(sv_layout_make_pieces(layout, bases, &bump, &here, pieces_out, &count));
        *image_out = image;
    }
    *npieces_out = count;
    sv_layout_destroy(layout);
    return bytes;
}
