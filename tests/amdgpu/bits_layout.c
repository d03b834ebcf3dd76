/* SPDX-License-Identifier: BSD-3-Clause */
/* See bits_layout.h. Base 0 of a layout is the address 0, so that offsets are addresses. */
#include <stdlib.h>
#include <string.h>

#include "amdgpu/bits.h"
#include "amdgpu/bits_layout.h"
#include "amdgpu/weak_pieces.h"

enum { MOST_ELEMENTS = 1600, LARGE_BYTES = 9000, SMALL_BYTES = 700 };

typedef struct placed {
    weak_part_t part;
    int64_t address[MOST_ELEMENTS];
    uint64_t run_bytes[MOST_ELEMENTS];
} placed_t;

bits_stream_t bits_stream_draw(bool large)
{
    static const unsigned bytes[] = {1, 2, 3, 4, 6, 8, 8, 12, 16, 16, 24, 32};
    bits_stream_t stream = {.aligned = bits_draw(2)};
    stream.nparts = 1 + (unsigned)(bits_draw(8) ? bits_draw(3) : bits_draw(BITS_PARTS));
    for (unsigned p = 0; p < stream.nparts; p++) {
        stream.element_bytes[p] = bytes[bits_draw(sizeof bytes / sizeof *bytes)];
        unsigned most = (large && stream.nparts < 4 ? LARGE_BYTES : SMALL_BYTES) / stream.element_bytes[p];
        most = most < MOST_ELEMENTS ? most : MOST_ELEMENTS;
        stream.count[p] = large && bits_draw(4) ? most - (unsigned)bits_draw(most / 4) : 1 + (unsigned)bits_draw(most);
    }
    return stream;
}

/* Rows of equal length where the count allows it, one element right after the other or not. */
static void place_box(placed_t *placed, uint8_t *there, unsigned bytes, unsigned count)
{
    static const unsigned rows[] = {1, 2, 5, 6, 8};
    const unsigned wanted = rows[bits_draw(5)], row = count % wanted ? count : wanted;
    const int64_t step = (int64_t)(bytes * (1 + bits_draw(4) / 3));
    placed->part.kind = WEAK_BOX;
    placed->part.base = there;
    placed->part.row = row;
    placed->part.step = step;
    placed->part.row_step = step * row + (int64_t)(bytes * bits_draw(2));
}

/* Every element somewhere, in no order. */
static void place_list(placed_t *placed, uint8_t *there, unsigned bytes, unsigned count)
{
    int64_t *address = placed->address;
    placed->part.kind = WEAK_LIST;
    for (unsigned e = 0; e < count; e++)
        address[e] = (intptr_t)there + 2 * (int64_t)(e * bytes);
    for (unsigned e = count; e > 1; e--) {
        const unsigned other = (unsigned)bits_draw(e);
        const int64_t kept = address[other];
        address[other] = address[e - 1];
        address[e - 1] = kept;
    }
}

/* Of any length, with a gap after each. */
static void place_runs(placed_t *placed, uint8_t *there, unsigned bytes, unsigned count)
{
    const unsigned longest = bits_draw(2) ? 9 : 60;
    unsigned nruns = 0;
    int64_t next = (intptr_t)there;
    placed->part.kind = WEAK_RUNS;
    for (unsigned e = 0; e < count; nruns++) {
        const unsigned left = count - e, length = 1 + (unsigned)bits_draw(left < longest ? left : longest);
        placed->address[nruns] = next;
        placed->run_bytes[nruns] = (uint64_t)length * bytes;
        next += (int64_t)bytes * (length + 1);
        e += length;
    }
    placed->part.count = nruns;
}

static void place_part(placed_t *placed, unsigned bytes, unsigned count)
{
    static const unsigned shifts[] = {0, 0, 0, 8, 4, 2, 1};
    uint8_t *there = bits_take((size_t)bytes * (4 * count + 8), shifts[bits_draw(7)]);
    const uint64_t kind = bits_draw(3);
    placed->part = (weak_part_t){.element_bytes = bytes, .count = count, .address = placed->address,
                                 .run_bytes = placed->run_bytes};
    (kind == 0 ? place_box : kind == 1 ? place_list : place_runs)(placed, there, bytes, count);
}

/* Numbers lie whole in a unit; runs are never added to. */
static void choose_number(sv_piece_t *piece)
{
    static const uint32_t halves[] = {SV_ADD_FLOAT32, SV_ADD_INT32};
    static const uint32_t words[] = {SV_ADD_FLOAT64, SV_ADD_INT64};
    if (piece->begins || piece->granule < 4)
        return;
    piece->number = piece->granule >= 8 && bits_draw(2) ? words[bits_draw(2)] : halves[bits_draw(2)];
}

uint64_t bits_layout_make(const bits_stream_t *stream, bool adds, const sv_piece_t **pieces_out,
                          uint64_t *npieces_out)
{
    static placed_t placed[BITS_PARTS];
    weak_part_t part[BITS_PARTS];
    uint8_t *image;
    uint64_t bytes;
    for (unsigned p = 0; p < stream->nparts; p++) {
        place_part(&placed[p], stream->element_bytes[p], stream->count[p]);
        part[p] = placed[p].part;
    }
    const size_t most = weak_pieces_make(stream->aligned, part, stream->nparts, NULL, NULL, pieces_out, npieces_out,
                                         &bytes);
    uint8_t *there = bits_take(most, 0);
    (void)weak_pieces_make(stream->aligned, part, stream->nparts, there, &image, pieces_out, npieces_out, &bytes);
    memcpy(there, image, most);
    free(image);
    for (uint64_t i = 0; adds && i < *npieces_out; i++)
        choose_number((sv_piece_t *)(uintptr_t)*pieces_out + i);
    return bytes;
}
