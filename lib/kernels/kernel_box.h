/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two sides of packing for device code: a strided box, and its packed stream in the order that was declared. Both
 * give and take the stream in pieces: pairs of words where the granule is 16, words otherwise. A word of a box with a
 * smaller granule is put together from its units.
 *
 * Neighbouring lanes hold pieces that are neighbours in the stream. So accesses to the packed side are always
 * coalesced, and those to the box as far as it lies in rows. Nothing but what belongs to the part is read or written on
 * either side.
 */
#ifndef SV_KERNEL_BOX_H
#define SV_KERNEL_BOX_H

#include "kernels/kernel_digest.h"

namespace {

/* The integer of a granule below 16. */
template <unsigned GRANULE> struct box_unit;
template <> struct box_unit<8> { typedef uint64_t type; };
template <> struct box_unit<4> { typedef uint32_t type; };
template <> struct box_unit<2> { typedef uint16_t type; };
template <> struct box_unit<1> { typedef uint8_t type; };

/* Addresses are multiples of the type's size. Soft cannot rely on that, since memory has a type there. */
template <typename T>
SV_DEV_FN T box_load(const uint8_t *ptr)
{
#if defined(SV_DEV_GPU)
    return *reinterpret_cast<const T *>(ptr);
#else
    T value;
    __builtin_memcpy(&value, ptr, sizeof value);
    return value;
#endif
}

template <typename T>
SV_DEV_FN void box_store(uint8_t *ptr, T value)
{
#if defined(SV_DEV_GPU)
    *reinterpret_cast<T *>(ptr) = value;
#else
    __builtin_memcpy(ptr, &value, sizeof value);
#endif
}

struct box_place {
    uint8_t *ptr;
    int32_t left; /* units from here to the end of the run; not positive where there are no runs */
};

/* The last of count runs, more than none, that begins at or before here. */
SV_DEV_FN uint32_t box_run_at(const uint32_t *begins, uint32_t count, uint32_t here)
{
    uint32_t low = 0, high = count;

    SV_DEV_ROLLED
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        const bool is_after = begins[middle] > here;
        high = is_after ? middle : high;
        low = is_after ? low : middle;
    }
    return low;
}

/* Where a unit of a box lies. Every quotient comes from a multiplication that the host prepared. */
struct box_finder {
    SV_DEV_FN box_place find(const sv_pack_arg_t &arg, uint32_t unit)
    {
        box_place place{arg.box, static_cast<int32_t>(arg.run_units)};

        SV_DEV_UNROLL
        for (unsigned l = 0; l < SV_PACK_LEVELS; l++) {
            if (l < arg.levels) {
                const uint32_t above = static_cast<uint32_t>(uint64_t{unit} * arg.level[l].magic >> 32) >> arg.shift[l];
                const uint32_t here = unit - above * arg.level[l].count;
                place.ptr += here * arg.level[l].stride;
                place.left -= l == 0 ? static_cast<int32_t>(here) : 0;
                unit = above;
            }
        }
        place.left -= arg.levels == 0 ? static_cast<int32_t>(unit) : 0;
        place.ptr += unit * arg.top_stride;
        return place;
    }
};

/* A piece of the stream. */
template <unsigned GRANULE>
struct box_piece {
    enum : unsigned { WORDS = 1, UNITS = 8 / GRANULE };
    uint64_t word[WORDS];
};

template <>
struct box_piece<16> {
    enum : unsigned { WORDS = 2, UNITS = 1 };
    uint64_t word[WORDS];
};

/* The word that begins with unit first. FINDER says where units lie. */
template <unsigned GRANULE, typename FINDER>
SV_DEV_FN uint64_t box_gather(const sv_pack_arg_t &arg, uint32_t first)
{
    typedef typename box_unit<GRANULE>::type unit;
    const int32_t units = box_piece<GRANULE>::UNITS;
    const box_place place = FINDER::find(arg, first);
    uint64_t word = 0;

    if (units == 1 || place.left >= units) {
        SV_DEV_UNROLL
        for (int32_t u = 0; u < units; u++)
            word |= static_cast<uint64_t>(box_load<unit>(place.ptr + u * GRANULE)) << 8 * GRANULE * u;
    } else {
        SV_DEV_UNROLL
        for (int32_t u = 0; u < units; u++)
            word |= static_cast<uint64_t>(box_load<unit>(FINDER::find(arg, first + u).ptr)) << 8 * GRANULE * u;
    }
    return word;
}

template <unsigned GRANULE, typename FINDER>
SV_DEV_FN void box_scatter(const sv_pack_arg_t &arg, uint32_t first, uint64_t word)
{
    typedef typename box_unit<GRANULE>::type unit;
    const int32_t units = box_piece<GRANULE>::UNITS;
    const box_place place = FINDER::find(arg, first);

    if (units == 1 || place.left >= units) {
        SV_DEV_UNROLL
        for (int32_t u = 0; u < units; u++)
            box_store(place.ptr + u * GRANULE, static_cast<unit>(word >> 8 * GRANULE * u));
    } else {
        SV_DEV_UNROLL
        for (int32_t u = 0; u < units; u++)
            box_store(FINDER::find(arg, first + u).ptr, static_cast<unit>(word >> 8 * GRANULE * u));
    }
}

/* The box as a side of a pass. Pieces, and the bytes of the tail, are numbered from the beginning of the part. */
template <unsigned GRANULE, typename FINDER>
struct placed_side {
    SV_DEV_FN box_piece<GRANULE> load(const sv_pack_arg_t &arg, uint32_t piece)
    {
        if constexpr (GRANULE == 16) {
            const sv_dev_pair_t pair = box_load<sv_dev_pair_t>(FINDER::find(arg, arg.first_unit + piece).ptr);
            return box_piece<GRANULE>{{pair.word[0], pair.word[1]}};
        } else {
            const uint32_t first = arg.first_unit + piece * box_piece<GRANULE>::UNITS;
            return box_piece<GRANULE>{{box_gather<GRANULE, FINDER>(arg, first)}};
        }
    }
    SV_DEV_FN void store(const sv_pack_arg_t &arg, uint32_t piece, box_piece<GRANULE> value)
    {
        const uint32_t first = arg.first_unit + piece * box_piece<GRANULE>::UNITS;
        if constexpr (GRANULE == 16)
            box_store(FINDER::find(arg, first).ptr, sv_dev_pair_t{{value.word[0], value.word[1]}});
        else
            box_scatter<GRANULE, FINDER>(arg, first, value.word[0]);
    }
    SV_DEV_FN uint8_t *tail_byte(const sv_pack_arg_t &arg, uint64_t byte)
    {
        const uint32_t unit = arg.first_unit + static_cast<uint32_t>(byte / GRANULE);
        return FINDER::find(arg, unit).ptr + byte % GRANULE;
    }
};

template <unsigned GRANULE>
using box_side = placed_side<GRANULE, box_finder>;

/* The packed stream as a side of a pass. */
template <unsigned GRANULE>
struct stream_side {
    SV_DEV_FN box_piece<GRANULE> load(const sv_pack_arg_t &arg, uint32_t piece)
    {
        if constexpr (GRANULE == 16) {
            const sv_dev_pair_t pair = box_load<sv_dev_pair_t>(arg.packed + 16 * uint64_t{piece});
            return box_piece<GRANULE>{{pair.word[0], pair.word[1]}};
        } else {
            return box_piece<GRANULE>{{sv_dev_load_u64_any(arg.packed + 8 * uint64_t{piece})}};
        }
    }
    SV_DEV_FN void store(const sv_pack_arg_t &arg, uint32_t piece, box_piece<GRANULE> value)
    {
        if constexpr (GRANULE == 16)
            box_store(arg.packed + 16 * uint64_t{piece}, sv_dev_pair_t{{value.word[0], value.word[1]}});
        else
            sv_dev_store_u64_any(arg.packed + 8 * uint64_t{piece}, value.word[0]);
    }
    SV_DEV_FN uint8_t *tail_byte(const sv_pack_arg_t &arg, uint64_t byte)
    {
        return arg.packed + byte;
    }
};

template <unsigned GRANULE>
SV_DEV_FN uint64_t box_term(box_piece<GRANULE> piece, uint64_t key)
{
    uint64_t sum = 0;

    SV_DEV_UNROLL
    for (unsigned w = 0; w < box_piece<GRANULE>::WORDS; w++)
        sum += digest_term(piece.word[w], key + w * SV_DIGEST_STEP);
    return sum;
}

/* Pieces begin to end of the part, BATCH of them in flight per lane. The flags are the same for every lane. */
template <unsigned GRANULE, typename FROM, typename TO, unsigned BATCH = DIGEST_BATCH>
SV_DEV_FN uint64_t box_pieces(const sv_pack_arg_t &arg, uint32_t begin, uint32_t end, bool stores, bool sums,
                              sv_dev_block_t at)
{
    enum : unsigned { WORDS = box_piece<GRANULE>::WORDS };
    const uint64_t key_step = at.nthreads * WORDS * SV_DIGEST_STEP;
    uint32_t index = begin + at.tid;
    uint64_t key = arg.key + (arg.first_word + uint64_t{index} * WORDS) * SV_DIGEST_STEP;
    uint64_t sum = 0;

    SV_DEV_ROLLED
    for (; BATCH > 1 && index + (BATCH - 1) * at.nthreads < end; index += BATCH * at.nthreads) {
        box_piece<GRANULE> piece[BATCH];
        SV_DEV_UNROLL
        for (unsigned b = 0; b < BATCH; b++)
            piece[b] = FROM::load(arg, index + b * at.nthreads);
        if (stores) {
            SV_DEV_UNROLL
            for (unsigned b = 0; b < BATCH; b++)
                TO::store(arg, index + b * at.nthreads, piece[b]);
        }
        SV_DEV_UNROLL
        for (unsigned b = 0; sums && b < BATCH; b++, key += key_step)
            sum += box_term(piece[b], key);
    }
    SV_DEV_ROLLED
    for (; index < end; index += at.nthreads, key += key_step) {
        const box_piece<GRANULE> piece = FROM::load(arg, index);
        if (stores)
            TO::store(arg, index, piece);
        if (sums)
            sum += box_term(piece, key);
    }
    return sum;
}

/* The last, partial word, byte by byte. */
template <typename FROM, typename TO>
SV_DEV_FN uint64_t box_tail(const sv_pack_arg_t &arg, bool stores)
{
    const uint64_t begin = arg.bytes & ~uint64_t{7};
    uint64_t word = 0;

    if (begin == arg.bytes)
        return 0;
    SV_DEV_ROLLED
    for (uint64_t b = begin; b < arg.bytes; b++) {
        const uint8_t byte = *FROM::tail_byte(arg, b);
        word |= static_cast<uint64_t>(byte) << 8 * (b - begin);
        if (stores)
            *TO::tail_byte(arg, b) = byte;
    }
    return digest_term(word, arg.key + (arg.first_word + begin / 8) * SV_DIGEST_STEP);
}

/* What the calling thread has of the pass; blocks have contiguous ranges of the stream. */
template <unsigned GRANULE, typename FROM, typename TO>
SV_DEV_FN uint64_t box_block(const sv_pack_arg_t &arg, bool stores, sv_dev_block_t at)
{
    const bool sums = !(arg.mode & SV_DIGEST_NONE);
    const uint64_t pieces = arg.bytes / (8 * box_piece<GRANULE>::WORDS);
    const uint64_t ranges = (pieces + DIGEST_RANGE_WORDS - 1) / DIGEST_RANGE_WORDS;
    const uint64_t each = (ranges + at.nblocks - 1) / at.nblocks * DIGEST_RANGE_WORDS;
    const uint64_t begin = each * at.block < pieces ? each * at.block : pieces;
    const uint64_t end = each < pieces - begin ? begin + each : pieces;
    uint64_t sum = 0;

    if (!stores && !sums)
        return 0;
    sum = box_pieces<GRANULE, FROM, TO>(arg, static_cast<uint32_t>(begin), static_cast<uint32_t>(end), stores, sums,
                                        at);
    if (GRANULE < 8 && at.tid == 0 && at.block == at.nblocks - 1)
        sum += box_tail<FROM, TO>(arg, stores);
    return sum;
}

template <unsigned GRANULE>
SV_DEV_FN uint64_t box_to_stream(const sv_pack_arg_t &arg, sv_dev_block_t at)
{
    return box_block<GRANULE, box_side<GRANULE>, stream_side<GRANULE>>(arg, arg.packed != nullptr, at);
}

template <unsigned GRANULE>
SV_DEV_FN uint64_t stream_to_box(const sv_pack_arg_t &arg, sv_dev_block_t at)
{
    return box_block<GRANULE, stream_side<GRANULE>, box_side<GRANULE>>(arg, arg.box != nullptr, at);
}

} // namespace

#endif
