/* SPDX-License-Identifier: BSD-3-Clause */
/* See weak_layout.h. Elements of a part lie in places of their own, with gaps between them. */
#include <stdio.h>
#include <stdlib.h>

#include "amdgpu/weak_layout.h"

extern "C" {
#include "amdgpu/weak_pieces.h"
}

namespace {

enum : unsigned { MOST_ELEMENTS = 512, FEW_PARTS = 3, MANY_PARTS = 5 };

uint64_t draw(amdgpu_machine_t *machine, uint64_t below)
{
    return amdgpu_machine_random(machine) % below;
}

/* A part with its tables, and where its elements lie. */
struct placed_t {
    weak_part_t part;
    int64_t address[MOST_ELEMENTS], element[MOST_ELEMENTS];
    uint64_t run_bytes[MOST_ELEMENTS];
};

/* Rows of equal length where the count allows it, one element after the other or not. */
void place_box(amdgpu_machine_t *machine, placed_t *placed, uint8_t *memory, unsigned bytes, unsigned count)
{
    const unsigned row = count % 6 == 0 ? 6 : count % 5 == 0 ? 5 : count;
    const int64_t step = (int64_t)(bytes * (1 + draw(machine, 2)));
    const int64_t row_step = step * row + (int64_t)(bytes * draw(machine, 3));
    placed->part.kind = WEAK_BOX;
    placed->part.base = memory;
    placed->part.row = row;
    placed->part.step = step;
    placed->part.row_step = row_step;
    for (unsigned e = 0; e < count; e++)
        placed->element[e] = (intptr_t)memory + e % row * step + e / row * row_step;
}

/* Every element somewhere, in no order. */
void place_list(amdgpu_machine_t *machine, placed_t *placed, uint8_t *memory, unsigned bytes, unsigned count)
{
    int64_t *element = placed->element;
    placed->part.kind = WEAK_LIST;
    for (unsigned e = 0; e < count; e++)
        element[e] = (intptr_t)memory + 2 * (int64_t)(e * bytes);
    for (unsigned e = count; e > 1; e--) {
        const unsigned other = (unsigned)draw(machine, e);
        const int64_t kept = element[other];
        element[other] = element[e - 1];
        element[e - 1] = kept;
    }
    for (unsigned e = 0; e < count; e++)
        placed->address[e] = element[e];
}

/* Of any length, with a gap after each. */
void place_runs(amdgpu_machine_t *machine, placed_t *placed, uint8_t *memory, unsigned bytes, unsigned count)
{
    unsigned nruns = 0;
    int64_t next = (intptr_t)memory;
    for (unsigned e = 0; e < count;) {
        const unsigned most = count - e, length = 1 + (unsigned)draw(machine, most < 9 ? most : 9);
        placed->address[nruns] = next;
        placed->run_bytes[nruns++] = (uint64_t)length * bytes;
        for (unsigned i = 0; i < length; i++, e++, next += bytes)
            placed->element[e] = next;
        next += bytes;
    }
    placed->part.kind = WEAK_RUNS;
    placed->part.count = nruns;
}

void place_part(amdgpu_machine_t *machine, unsigned owner, placed_t *placed, unsigned bytes, unsigned count)
{
    uint8_t *memory =
        (uint8_t *)amdgpu_machine_allocate(machine, owner, AMDGPU_COARSE, (size_t)bytes * (4 * count + 8));
    placed->part = {};
    placed->part.element_bytes = bytes;
    placed->part.count = count;
    placed->part.address = placed->address;
    placed->part.run_bytes = placed->run_bytes;
    const uint64_t kind = draw(machine, 3);
    (kind == 0 ? place_box : kind == 1 ? place_list : place_runs)(machine, placed, memory, bytes, count);
}

/* Pieces and tables, in one block of the GPU's memory that no kernel changes. */
void put_pieces(amdgpu_machine_t *machine, unsigned owner, bool aligned, const weak_part_t *part, unsigned nparts,
                weak_layout_t *layout)
{
    uint8_t *image;
    const size_t bytes = weak_pieces_make(aligned, part, nparts, nullptr, nullptr, &layout->pieces, &layout->npieces,
                                          &layout->bytes);
    uint8_t *there = (uint8_t *)amdgpu_machine_allocate(machine, owner, AMDGPU_COARSE, bytes);
    (void)weak_pieces_make(aligned, part, nparts, there, &image, &layout->pieces, &layout->npieces, &layout->bytes);
    amdgpu_machine_store(machine, there, image, bytes);
    amdgpu_machine_keep(machine, there, bytes);
    free(image);
}

} // namespace

/* Few parts, each of some length; or so many that several waves fetch their descriptions, or none does. */
weak_stream_t weak_stream_choose(amdgpu_machine_t *machine)
{
    const unsigned bytes[] = {1, 2, 4, 8, 16, 24};
    weak_stream_t stream = {};
    stream.aligned = draw(machine, 2);
    const bool many = draw(machine, 2);
    const unsigned share = many ? MANY_PARTS + (unsigned)draw(machine, WEAK_LAYOUT_PARTS - MANY_PARTS + 1) : FEW_PARTS;
    stream.nparts = many ? share : 1 + (unsigned)draw(machine, FEW_PARTS);
    const unsigned most_elements = MOST_ELEMENTS * FEW_PARTS / share;
    for (unsigned p = 0; p < stream.nparts; p++) {
        stream.element_bytes[p] = bytes[draw(machine, 6)];
        const unsigned most = (WEAK_LAYOUT_BYTES / share - 16) / stream.element_bytes[p];
        stream.count[p] = 1 + (unsigned)draw(machine, most < most_elements ? most : most_elements);
    }
    return stream;
}

void weak_layout_make(amdgpu_machine_t *machine, unsigned owner, const weak_stream_t *stream,
                      weak_layout_t *layout_out)
{
    static placed_t placed[WEAK_LAYOUT_PARTS];
    weak_part_t part[WEAK_LAYOUT_PARTS];
    uint64_t at = 0;
    for (unsigned p = 0; p < stream->nparts; p++) {
        const unsigned bytes = stream->element_bytes[p], count = stream->count[p];
        place_part(machine, owner, &placed[p], bytes, count);
        part[p] = placed[p].part;
        for (unsigned b = 0; b < bytes * count; b++)
            layout_out->byte[at++] = (uint8_t *)(intptr_t)(placed[p].element[b / bytes] + b % bytes);
        while (stream->aligned && at % 16)
            layout_out->byte[at++] = nullptr;
    }
    put_pieces(machine, owner, stream->aligned, part, stream->nparts, layout_out);
    if (layout_out->bytes == at)
        return;
    fprintf(stderr, "weak_layout: a stream of %lu bytes, not %lu\n", (unsigned long)layout_out->bytes,
            (unsigned long)at);
    abort();
}
