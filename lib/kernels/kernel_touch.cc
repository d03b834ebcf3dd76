/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code that moves the six faces of a cube to their packed streams or back, and nothing else. The kernels that
 * gather and scatter are measured against it, since a face of single elements costs far more than its bytes do in a
 * contiguous copy. It knows no pieces, sums and records, and gets what they cannot have:
 *
 *   - edges are powers of two, so that no place needs a division;
 *   - the two narrow faces go together, by row: a row's end and the next one's beginning share a sector, or nearly;
 *   - neighbouring lanes have neighbouring words, so that what shares a sector is one access;
 *   - every lane has eight words in flight;
 *   - each block has a part of the narrow faces and a part of the wide ones, in an order that alternates from block to
 *     block, so that both kinds are in flight all the time and end at the same time.
 */
#include "kernels/kernel_box.h"

namespace {

enum : unsigned { TOUCH_BATCH = 8 };

/* Words of narrow rows, as one lane sees them: the same word of the same face in every row. */
struct touch_rows {
    uint8_t *faces, *packed;
    int64_t row_stride, plane_stride;
    uint32_t shift, packed_stride;
    SV_DEV_FN uint8_t *face(const touch_rows &rows, uint32_t row)
    {
        return rows.faces + (row >> rows.shift) * rows.plane_stride +
               (row & ((1u << rows.shift) - 1)) * rows.row_stride;
    }
    SV_DEV_FN uint8_t *stream(const touch_rows &rows, uint32_t row)
    {
        return rows.packed + uint64_t{row} * rows.packed_stride;
    }
};

/* Words of a sheet: rows of 2^shift words. */
struct touch_sheet {
    uint8_t *faces, *packed;
    int64_t face_stride, stream_stride;
    uint32_t shift;
    SV_DEV_FN uint8_t *face(const touch_sheet &sheet, uint32_t word)
    {
        return sheet.faces + (word >> sheet.shift) * sheet.face_stride + 8 * (word & ((1u << sheet.shift) - 1));
    }
    SV_DEV_FN uint8_t *stream(const touch_sheet &sheet, uint32_t word)
    {
        return sheet.packed + (word >> sheet.shift) * sheet.stream_stride + 8 * (word & ((1u << sheet.shift) - 1));
    }
};

/* Every word is here. The AMD compiler has to be told. Else each store would wait for the store before it, since one
   counter counts all that is in flight. */
SV_DEV_FN void touch_arrived(uint64_t (&word)[TOUCH_BATCH])
{
#if defined(SV_DEV_HIP)
    asm volatile("" : "+v"(word[0]), "+v"(word[1]), "+v"(word[2]), "+v"(word[3]), "+v"(word[4]), "+v"(word[5]),
                 "+v"(word[6]), "+v"(word[7]));
#endif
    (void)word;
}

/* Numbers from first to end, in steps. What is loaded and not stored is added up, lest the compiler leave it out. */
template <bool GATHER, typename PLACES>
SV_DEV_FN uint64_t touch_words(const PLACES &places, uint32_t first, uint32_t end, uint32_t step, uint32_t mode)
{
    const uint32_t load_end = mode & SV_TOUCH_LOADS ? end : 0, store_end = mode & SV_TOUCH_STORES ? end : 0;
    uint64_t sum = 0;

    SV_DEV_ROLLED
    for (uint32_t at = first; at < end; at += TOUCH_BATCH * step) {
        uint64_t word[TOUCH_BATCH] = {};
        SV_DEV_UNROLL
        for (uint32_t b = 0; b < TOUCH_BATCH; b++) {
            const uint32_t here = at + b * step;
            if (here < load_end)
                word[b] = box_load<uint64_t>(GATHER ? PLACES::face(places, here) : PLACES::stream(places, here));
        }
        touch_arrived(word);
        SV_DEV_UNROLL
        for (uint32_t b = 0; b < TOUCH_BATCH; b++) {
            const uint32_t here = at + b * step;
            if (here < store_end)
                box_store(GATHER ? PLACES::stream(places, here) : PLACES::face(places, here), word[b]);
        }
        SV_DEV_UNROLL
        for (uint32_t b = 0; !(mode & SV_TOUCH_STORES) && b < TOUCH_BATCH; b++)
            sum += word[b];
    }
    return sum;
}

/* Where the part of a block begins, of so many numbers; whole sectors of a stream. That is count * block / nblocks, in
   numbers of 32 bits, of which a division is short: there are fewer than 65536 blocks. */
SV_DEV_FN uint32_t touch_begin(uint32_t count, unsigned block, unsigned nblocks)
{
    const uint32_t each = count / nblocks, rest = count % nblocks;
    return block == nblocks ? count : (each * block + rest * block / nblocks) & ~uint32_t{3};
}

template <bool GATHER>
SV_DEV_FN uint64_t touch_narrow(const sv_touch_arg_t &arg, sv_dev_block_t at)
{
    const uint32_t count = 1u << 2 * arg.edge_shift, row_words = 2 * arg.width;
    const uint32_t begin = touch_begin(count, at.block, at.nblocks), end = touch_begin(count, at.block + 1, at.nblocks);
    const uint32_t rows = at.nthreads < row_words ? 1 : at.nthreads / row_words; /* that a block has at a time */
    uint64_t sum = 0;

    SV_DEV_ROLLED
    for (uint32_t lane = at.tid; lane < rows * row_words; lane += at.nthreads) {
        const uint32_t word = lane % row_words;
        const bool right = word >= arg.width;
        const uint32_t offset = 8 * (right ? word - arg.width : word);
        const touch_rows places{(right ? arg.narrow[1].face : arg.narrow[0].face) + offset,
                                (right ? arg.narrow[1].stream : arg.narrow[0].stream) + offset,
                                arg.row_stride, arg.plane_stride, arg.edge_shift, 8 * arg.width};
        sum += touch_words<GATHER>(places, begin + lane / row_words, end, rows, arg.mode);
    }
    return sum;
}

template <bool GATHER>
SV_DEV_FN uint64_t touch_wide(const sv_touch_arg_t &arg, sv_dev_block_t at)
{
    const uint32_t each = 1u << 2 * arg.edge_shift, count = arg.nsheets * each;
    const uint32_t end = touch_begin(count, at.block + 1, at.nblocks);
    uint32_t begin = touch_begin(count, at.block, at.nblocks);
    uint64_t sum = 0;

    SV_DEV_ROLLED
    while (begin < end) {
        const uint32_t s = begin / each, first = begin - s * each, left = end - s * each;
        const sv_touch_sheet_t &sheet = arg.sheet[s];
        const touch_sheet places{sheet.at.face, sheet.at.stream, sheet.face_stride, sheet.stream_stride,
                                 arg.edge_shift};
        sum += touch_words<GATHER>(places, first + at.tid, left < each ? left : each, at.nthreads, arg.mode);
        begin = (s + 1) * each;
    }
    return sum;
}

template <bool GATHER>
SV_DEV_FN uint64_t touch_block(const sv_touch_arg_t &arg, sv_dev_block_t at)
{
    uint64_t sum = 0;

    SV_DEV_ROLLED
    for (unsigned turn = 0; turn < 2; turn++)
        sum += ((turn ^ at.block) & 1) ? touch_wide<GATHER>(arg, at) : touch_narrow<GATHER>(arg, at);
    return sum;
}

SV_DEV_FN void touch_body(const sv_touch_arg_t &arg, sv_dev_block_t at)
{
    const uint64_t sum =
        arg.mode & SV_TOUCH_SCATTERS ? touch_block<false>(arg, at) : touch_block<true>(arg, at);

    if (sum == arg.unlikely)
        *arg.sink = sum;
}

} // namespace

SV_KERNEL(sv_touch, sv_touch_arg_t, touch_body)
