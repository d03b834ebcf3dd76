/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets whose bytes lie in pieces: gathered into a stream, or scattered from one, and summed as they go by. A stream
 * is cut into ranges of words, one for each share of a packet; a share does what its range has of every piece.
 *
 *   words:  | piece 0 ........ |p| piece 1 .... | piece 2 ........ |     p: zero words up to a multiple of 16 bytes
 *           |  share 0  |  share 1  |  share 2  |  share 3  |
 *
 * A share copies the description of its piece to where all its threads read it soonest. There it adds what the launch
 * knows: base addresses, the place of the stream, the key.
 */
#ifndef SV_KERNEL_LAYOUT_H
#define SV_KERNEL_LAYOUT_H

#include "kernels/kernel_box.h"

namespace {

/* A piece as the functions of kernel_box.h take it, and its tables. */
struct layout_part : sv_pack_arg_t {
    const int64_t *offsets;
    const uint32_t *begins;
    uint32_t count, number, padded;
    uint64_t words;        /* whole words, without a part of one at the end */
};

/* Boxes, as box_finder: but level by level, which takes fewer registers where the description lies in shared memory. */
struct part_finder {
    SV_DEV_FN box_place find(const sv_pack_arg_t &arg, uint32_t unit)
    {
        box_place place{arg.box, static_cast<int32_t>(arg.run_units)};

        SV_DEV_ROLLED
        for (unsigned l = 0; l < arg.levels; l++) {
            const sv_pack_level_t &level = arg.level[l];
            const uint32_t above = static_cast<uint32_t>(uint64_t{unit} * level.magic >> 32) >> arg.shift[l];
            const uint32_t here = unit - above * level.count;
            place.ptr += here * level.stride;
            place.left -= l == 0 ? static_cast<int32_t>(here) : 0;
            unit = above;
        }
        place.left -= arg.levels == 0 ? static_cast<int32_t>(unit) : 0;
        place.ptr += unit * arg.top_stride;
        return place;
    }
};

/* Elements of one size. */
struct list_finder {
    SV_DEV_FN box_place find(const sv_pack_arg_t &arg, uint32_t unit)
    {
        const layout_part &part = static_cast<const layout_part &>(arg);
        const sv_pack_level_t &level = part.level[0];
        const uint32_t element =
            level.count == 1 ? unit : static_cast<uint32_t>(uint64_t{unit} * level.magic >> 32) >> part.shift[0];
        const uint32_t here = unit - element * level.count;
        return box_place{part.box + part.offsets[element] + uint64_t{here} * part.granule,
                         static_cast<int32_t>(level.count - here)};
    }
};

/* Runs of any size: the last one that begins not after the unit. */
struct run_finder {
    SV_DEV_FN box_place find(const sv_pack_arg_t &arg, uint32_t unit)
    {
        const layout_part &part = static_cast<const layout_part &>(arg);
        const uint32_t run = box_run_at(part.begins, part.count, unit);
        const uint32_t here = unit - part.begins[run];
        return box_place{part.box + part.offsets[run] + uint64_t{here} * part.granule,
                         static_cast<int32_t>(part.begins[run + 1] - unit)};
    }
};

/* --- adding ------------------------------------------------------------------------------------------------------- */

SV_DEV_FN uint32_t layout_add_half(uint32_t number, uint32_t a, uint32_t b)
{
    float x, y;

    if (number != SV_ADD_FLOAT32)
        return a + b;
    __builtin_memcpy(&x, &a, sizeof x);
    __builtin_memcpy(&y, &b, sizeof y);
    x += y;
    __builtin_memcpy(&a, &x, sizeof a);
    return a;
}

SV_DEV_FN uint64_t layout_add_word(uint32_t number, uint64_t a, uint64_t b)
{
    double x, y;

    if (number == SV_ADD_INT64)
        return a + b;
    if (number != SV_ADD_FLOAT64)
        return layout_add_half(number, static_cast<uint32_t>(a), static_cast<uint32_t>(b)) |
               static_cast<uint64_t>(layout_add_half(number, static_cast<uint32_t>(a >> 32),
                                                     static_cast<uint32_t>(b >> 32))) << 32;
    __builtin_memcpy(&x, &a, sizeof x);
    __builtin_memcpy(&y, &b, sizeof y);
    x += y;
    __builtin_memcpy(&a, &x, sizeof a);
    return a;
}

/* A side to which a pass adds. No two threads have the same place: pieces that overlap are in launches of their own. */
template <unsigned GRANULE, typename FINDER>
struct adding_side : placed_side<GRANULE, FINDER> {
    typedef placed_side<GRANULE, FINDER> under;
    SV_DEV_FN void store(const sv_pack_arg_t &arg, uint32_t piece, box_piece<GRANULE> value)
    {
        const box_piece<GRANULE> old = under::load(arg, piece);
        SV_DEV_UNROLL
        for (unsigned w = 0; w < box_piece<GRANULE>::WORDS; w++)
            value.word[w] = layout_add_word(static_cast<const layout_part &>(arg).number, old.word[w], value.word[w]);
        under::store(arg, piece, value);
    }
};

/* --- the end of a piece ------------------------------------------------------------------------------------------- */

/* The bytes of the last, partial word where they lie in pieces; 0 above them. */
template <typename SIDE>
SV_DEV_FN uint64_t layout_end_load(const layout_part &part)
{
    uint64_t word = 0;

    SV_DEV_ROLLED
    for (uint64_t b = 8 * part.words; b < part.bytes; b++)
        word |= static_cast<uint64_t>(*SIDE::tail_byte(part, b)) << 8 * (b & 7);
    return word;
}

template <typename SIDE>
SV_DEV_FN void layout_end_store(const layout_part &part, uint64_t word)
{
    if (part.number && part.words * 8 < part.bytes) /* what is left is half a word: numbers of four bytes */
        word = layout_add_word(part.number, layout_end_load<SIDE>(part), word);
    SV_DEV_ROLLED
    for (uint64_t b = 8 * part.words; b < part.bytes; b++)
        *SIDE::tail_byte(part, b) = static_cast<uint8_t>(word >> 8 * (b & 7));
}

/* How many words follow the whole ones: a partial one, and in a padded piece also those that fill up. */
SV_DEV_FN uint64_t layout_words_at_end(const layout_part &part)
{
    return part.padded ? (part.bytes + 15) / 16 * 2 - part.words : (part.bytes + 7) / 8 - part.words;
}

/* The end in the stream: whole words in a padded piece, else no byte more than there are. */
SV_DEV_FN void layout_stream_end_store(const layout_part &part, uint64_t w, uint64_t word, bool whole)
{
    uint8_t *at = part.packed + 8 * w;

    if (whole) {
        sv_dev_store_u64_any(at, word);
        return;
    }
    SV_DEV_ROLLED
    for (uint64_t b = 8 * w; b < part.bytes; b++)
        *at++ = static_cast<uint8_t>(word >> 8 * (b & 7));
}

SV_DEV_FN uint64_t layout_stream_end_load(const layout_part &part, uint64_t w, bool whole)
{
    const uint8_t *at = part.packed + 8 * w;
    uint64_t word = 0;

    if (whole)
        return sv_dev_load_u64_any(at);
    SV_DEV_ROLLED
    for (uint64_t b = 8 * w; b < part.bytes; b++)
        word |= static_cast<uint64_t>(*at++) << 8 * (b & 7);
    return word;
}

/* By one thread. In units of words there is no part of one: only what fills up is left. */
template <unsigned GRANULE, typename SIDE, bool GATHER>
SV_DEV_FN uint64_t layout_end(const layout_part &part)
{
    enum : bool { WHOLE = GRANULE >= 8 };
    const uint64_t count = layout_words_at_end(part);
    const bool whole = WHOLE || part.padded;
    uint64_t sum = 0;

    SV_DEV_ROLLED
    for (uint64_t w = part.words; w < part.words + count; w++) {
        uint64_t word;
        if (GATHER) {
            word = !WHOLE && w == part.words ? layout_end_load<SIDE>(part) : 0;
            layout_stream_end_store(part, w, word, whole);
        } else {
            word = layout_stream_end_load(part, w, whole);
            if (!WHOLE && w == part.words)
                layout_end_store<SIDE>(part, word);
        }
        sum += digest_term(word, part.key + (part.first_word + w) * SV_DIGEST_STEP);
    }
    return sum;
}

/* --- a share's range of a piece ----------------------------------------------------------------------------------- */

/* Several in flight only where accesses are large: what is put together from small ones waits for itself anyway. */
template <unsigned GRANULE, typename SIDE, bool GATHER, unsigned BATCH>
SV_DEV_FN uint64_t layout_range(const layout_part &part, uint64_t begin, uint64_t end, bool sums, sv_dev_block_t at)
{
    enum : unsigned { WORDS = box_piece<GRANULE>::WORDS };
    const uint64_t whole = end < part.words ? end : part.words;
    uint64_t sum = 0;

    if (begin < whole) {
        const uint32_t first = static_cast<uint32_t>(begin / WORDS), last = static_cast<uint32_t>(whole / WORDS);
        sum = GATHER ? box_pieces<GRANULE, SIDE, stream_side<GRANULE>, BATCH>(part, first, last, true, sums, at)
                     : box_pieces<GRANULE, stream_side<GRANULE>, SIDE, BATCH>(part, first, last, true, sums, at);
    }
    if (GRANULE < 16 && end > part.words && at.tid == 0) /* units of two words need nothing that fills up */
        sum += layout_end<GRANULE, SIDE, GATHER>(part);
    return sum;
}

template <typename FINDER, bool GATHER>
SV_DEV_FN uint64_t layout_found(const layout_part &part, uint64_t begin, uint64_t end, bool sums, sv_dev_block_t at)
{
    switch (part.granule) {
    case 16:
        return layout_range<16, placed_side<16, FINDER>, GATHER, DIGEST_BATCH>(part, begin, end, sums, at);
    case 8:
        return layout_range<8, placed_side<8, FINDER>, GATHER, DIGEST_BATCH>(part, begin, end, sums, at);
    case 4:
        return layout_range<4, placed_side<4, FINDER>, GATHER, 1>(part, begin, end, sums, at);
    case 2:
        return layout_range<2, placed_side<2, FINDER>, GATHER, 1>(part, begin, end, sums, at);
    default:
        return layout_range<1, placed_side<1, FINDER>, GATHER, 1>(part, begin, end, sums, at);
    }
}

/* Numbers are aligned to their size, and lie whole in a unit. */
template <typename FINDER>
SV_DEV_FN uint64_t layout_added(const layout_part &part, uint64_t begin, uint64_t end, bool sums, sv_dev_block_t at)
{
    switch (part.granule) {
    case 16:
        return layout_range<16, adding_side<16, FINDER>, false, 1>(part, begin, end, sums, at);
    case 8:
        return layout_range<8, adding_side<8, FINDER>, false, 1>(part, begin, end, sums, at);
    default:
        return layout_range<4, adding_side<4, FINDER>, false, 1>(part, begin, end, sums, at);
    }
}

template <bool GATHER, bool ADDS>
SV_DEV_FN uint64_t layout_piece(const layout_part &part, uint64_t begin, uint64_t end, bool sums, sv_dev_block_t at)
{
    if (!part.offsets)
        return ADDS && part.number ? layout_added<part_finder>(part, begin, end, sums, at)
                                   : layout_found<part_finder, GATHER>(part, begin, end, sums, at);
    if (!part.begins)
        return ADDS && part.number ? layout_added<list_finder>(part, begin, end, sums, at)
                                   : layout_found<list_finder, GATHER>(part, begin, end, sums, at);
    return layout_found<run_finder, GATHER>(part, begin, end, sums, at);
}

/* Chosen and not indexed: some compilers copy arguments that are indexed to memory first. */
SV_DEV_FN uint8_t *layout_base(const sv_batch_arg_t &arg, uint32_t base)
{
    uint8_t *found = nullptr;

    if (base >= arg.nbases_here)
        return arg.bases[base];
    SV_DEV_UNROLL
    for (unsigned b = 0; b < SV_BATCH_BASES; b++)
        found = b == base ? arg.base[b] : found;
    return found;
}

SV_DEV_FN void layout_fill(layout_part &part, const sv_piece_t &piece, const sv_batch_arg_t &arg, uint8_t *stream,
                           uint64_t key)
{
    part.box = layout_base(arg, piece.base) + piece.offset;
    part.packed = stream + 8 * piece.first_word;
    part.bytes = piece.bytes;
    part.granule = piece.granule;
    part.first_unit = piece.first_unit;
    part.run_units = piece.run_units;
    part.levels = piece.levels;
    part.top_stride = piece.top_stride;
    SV_DEV_UNROLL
    for (unsigned l = 0; l < SV_PACK_LEVELS; l++) {
        part.level[l] = piece.level[l];
        part.shift[l] = piece.shift[l];
    }
    part.first_word = piece.first_word;
    part.key = key;
    part.offsets = piece.offsets;
    part.begins = piece.begins;
    part.count = piece.count;
    part.number = piece.number;
    part.padded = piece.padded;
    part.words = piece.bytes / 8;
}

/* One description for all threads of a block. */
SV_DEV_FN const layout_part &layout_share(const sv_piece_t &piece, const sv_batch_arg_t &arg, uint8_t *stream,
                                          uint64_t key, layout_part *own, sv_dev_block_t at)
{
#if defined(SV_DEV_GPU)
#if defined(SV_DEV_CUDA)
    __shared__ uint64_t shared[sizeof(layout_part) / 8];
#else
    static __attribute__((shared)) uint64_t shared[sizeof(layout_part) / 8];
#endif
    layout_part &part = *reinterpret_cast<layout_part *>(shared);
    (void)own;
    sv_dev_block_sync(); /* the last piece's may still be read */
    if (at.tid == 0)
        layout_fill(part, piece, arg, stream, key);
    sv_dev_block_sync();
    return part;
#else
    (void)at;
    layout_fill(*own, piece, arg, stream, key);
    return *own;
#endif
}

/* Pieces where all threads of a block read them soonest: fetched at once, if they are few. After a barrier only. */
SV_DEV_FN const sv_piece_t *layout_fetch(const sv_piece_t *pieces, uint64_t npieces, sv_dev_block_t at)
{
#if defined(SV_DEV_GPU)
    enum : unsigned { FEW = 8, WORDS = sizeof(sv_piece_t) / 8 };
#if defined(SV_DEV_CUDA)
    __shared__ uint64_t fetched[FEW * WORDS];
#else
    static __attribute__((shared)) uint64_t fetched[FEW * WORDS];
#endif
    if (npieces > FEW)
        return pieces;
    for (unsigned w = at.tid; w < npieces * WORDS; w += at.nthreads)
        fetched[w] = reinterpret_cast<const uint64_t *>(pieces)[w];
    sv_dev_block_sync();
    return reinterpret_cast<const sv_piece_t *>(fetched);
#else
    (void)npieces, (void)at;
    return pieces;
#endif
}

/*
 * What the calling thread has of a packet of npieces pieces and bytes bytes. Block at.block of at.nblocks has a
 * contiguous range of the stream, as in digest_block(). Ranges are multiples of 64 words, so that no padding is
 * divided. ADDS: pieces may say that what comes is added to what is there.
 */
template <bool GATHER, bool ADDS>
SV_DEV_FN uint64_t layout_block(const sv_batch_arg_t &arg, const sv_piece_t *pieces, uint64_t npieces, uint8_t *stream,
                                uint64_t bytes, uint64_t key, sv_dev_block_t at)
{
    const bool sums = !(arg.flags & SV_DIGEST_NONE);
    const uint64_t words = (bytes + 7) / 8, ranges = (words + DIGEST_RANGE_WORDS - 1) / DIGEST_RANGE_WORDS;
    const uint64_t each = (ranges + at.nblocks - 1) / at.nblocks * DIGEST_RANGE_WORDS;
    const uint64_t begin = each * at.block, end = begin + each;
    uint64_t sum = 0;

    pieces = layout_fetch(pieces, npieces, at);
    SV_DEV_ROLLED
    for (const sv_piece_t *piece = pieces, *last = pieces + npieces; piece < last; piece++) {
        const uint64_t first = piece->first_word, size = piece->bytes;
        const uint64_t piece_end = first + (piece->padded ? (size + 15) / 16 * 2 : (size + 7) / 8);
        if (piece_end <= begin || first >= end)
            continue;
        layout_part own;
        const layout_part &part = layout_share(*piece, arg, stream, key, &own, at);
        sum += layout_piece<GATHER, ADDS>(part, begin > first ? begin - first : 0,
                                          (end < piece_end ? end : piece_end) - first, sums, at);
    }
    return sum;
}

} // namespace

#endif
