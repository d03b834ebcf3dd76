/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the parts of a layout to the pieces that kernels read: units are as large as the addresses allow, and what does
 * not fit the numbers of one piece is cut. Pure functions but for the arena that they fill.
 */
#include <string.h>

#include "base/base_status.h"
#include "pipeline/layout_parts.h"

enum { ALIGN = 16, PIECE_BYTES_MAX = 1 << 30 };
#define UNITS_LIMIT (UINT64_C(1) << 31)

void *sv_layout_bump_alloc(sv_layout_bump_t *bump, size_t bytes, void *device_out)
{
    uint8_t *there = bump->there ? bump->there + bump->used : NULL;
    uint8_t *here = bump->here ? bump->here + bump->used : NULL;
    memcpy(device_out, &there, sizeof there);
    bump->used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return here;
}

static uint32_t layout_number_bytes(sv_layout_number_t number)
{
    switch (number) {
    case SV_LAYOUT_ADD_FLOAT32:
    case SV_LAYOUT_ADD_INT32: return 4;
    case SV_LAYOUT_ADD_FLOAT64:
    case SV_LAYOUT_ADD_INT64: return 8;
    case SV_LAYOUT_STORE: break;
    }
    return 1;
}

static selvage_status_t check_units(const sv_layout_part_t *part, uint64_t bytes, uint32_t granule)
{
    if (granule < layout_number_bytes(part->number))
        return sv_error(SELVAGE_ERR_ARGUMENT, "numbers of %u bytes that are added are not aligned to their size",
                        layout_number_bytes(part->number));
    if (bytes / granule >= UNITS_LIMIT)
        return sv_error(SELVAGE_ERR_LIMIT, "%llu bytes in units of %u are too many for one list",
                        (unsigned long long)bytes, granule);
    return SELVAGE_SUCCESS;
}

static sv_piece_t begin_piece(const sv_layout_t *layout, const sv_layout_part_t *part)
{
    return (sv_piece_t){.bytes = part->bytes, .first_word = part->first_byte / 8, .base = part->base,
                        .padded = layout->kind == SV_LAYOUT_ALIGNED, .number = (uint32_t)part->number};
}

/*
 * What units have to divide: base and offset each, not only their sum, because the next base may have any address that
 * is as aligned as this one.
 */
static uint64_t common_bits(const uint8_t *base, int64_t offset)
{
    return (uintptr_t)base | (uint64_t)offset;
}

/* --- boxes -------------------------------------------------------------------------------------------------------- */

static uint32_t chunks_of(const sv_layout_part_t *part)
{
    return part->kind == SV_LAYOUT_PART_BOX ? (uint32_t)((part->bytes - 1) / PIECE_BYTES_MAX + 1) : 1;
}

static selvage_status_t make_box(const sv_layout_t *layout, const sv_layout_part_t *part, uint8_t *base,
                                 sv_piece_t *to)
{
    for (uint64_t offset = 0; offset < part->bytes; offset += PIECE_BYTES_MAX) {
        const uint64_t left = part->bytes - offset, bytes = left < PIECE_BYTES_MAX ? left : PIECE_BYTES_MAX;
        sv_pack_shape_t shape = part->shape;
        sv_pack_arg_t arg = {0};
        sv_piece_t piece = begin_piece(layout, part);
        shape.base = (uint8_t *)(uintptr_t)(ALIGN + common_bits(base, (int64_t)(uintptr_t)part->shape.base) % ALIGN);
        SV_TRY(sv_pack_plan(&shape, (uint8_t *)(uintptr_t)(part->first_byte + offset), offset, bytes, &arg));
        SV_TRY(check_units(part, bytes, arg.granule));
        piece.offset = (int64_t)((uintptr_t)part->shape.base + ((uintptr_t)arg.box - (uintptr_t)shape.base));
        piece.bytes = bytes;
        piece.first_word += offset / 8;
        piece.top_stride = arg.top_stride;
        memcpy(piece.level, arg.level, sizeof piece.level);
        memcpy(piece.shift, arg.shift, sizeof piece.shift);
        piece.granule = arg.granule;
        piece.first_unit = arg.first_unit;
        piece.run_units = arg.run_units;
        piece.levels = arg.levels;
        if (to)
            *to++ = piece;
    }
    return SELVAGE_SUCCESS;
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

static selvage_status_t make_list(const sv_layout_t *layout, const sv_layout_part_t *part, const uint8_t *base,
                                  sv_layout_bump_t *bump, sv_piece_t *to)
{
    const uint64_t nruns = part->nruns;
    sv_piece_t piece = begin_piece(layout, part);
    /* Units of 16 bytes have to be aligned in the stream as well. */
    uint64_t bits = ALIGN | part->first_byte;
    for (uint64_t i = 0; i < nruns; i++)
        bits |= common_bits(base, part->runs[i].offset) | part->runs[i].bytes;
    piece.granule = (uint32_t)(bits & -bits);
    piece.count = (uint32_t)nruns;
    SV_TRY(check_units(part, part->bytes, piece.granule));

    int64_t *offsets = sv_layout_bump_alloc(bump, nruns * sizeof *piece.offsets, &piece.offsets);
    for (uint64_t i = 0; offsets && i < nruns; i++)
        offsets[i] = part->runs[i].offset;
    if (part->kind == SV_LAYOUT_PART_LIST) {
        const sv_pack_dim_t units = {part->shape.element_bytes / piece.granule, piece.granule};
        piece.level[0].count = (uint32_t)units.count;
        if (units.count > 1)
            piece.level[0] = sv_pack_level(&units, &piece.shift[0]);
    } else {
        uint32_t *begins = sv_layout_bump_alloc(bump, (nruns + 1) * sizeof *piece.begins, &piece.begins);
        uint64_t unit = 0;
        for (uint64_t i = 0; begins && i <= nruns; i++) {
            begins[i] = (uint32_t)unit;
            unit += i < nruns ? part->runs[i].bytes / piece.granule : 0;
        }
    }
    if (to)
        *to = piece;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_layout_make_pieces(const sv_layout_t *layout, uint8_t *const *bases, sv_layout_bump_t *bump,
                                       sv_piece_t **here_out, const sv_piece_t **there_out, uint32_t *count_out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < layout->nparts; i++)
        count += chunks_of(&layout->part[i]);
    sv_piece_t *here = sv_layout_bump_alloc(bump, count * sizeof *here, there_out), *to = here;
    for (uint32_t i = 0; i < layout->nparts; i++) {
        const sv_layout_part_t *part = &layout->part[i];
        uint8_t *base = bases[part->base];
        SV_TRY(part->kind == SV_LAYOUT_PART_BOX ? make_box(layout, part, base, to)
                                                : make_list(layout, part, base, bump, to));
        to = to ? to + chunks_of(part) : NULL;
    }
    *here_out = here;
    *count_out = count;
    return SELVAGE_SUCCESS;
}
