/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device code of the kernels of sums whose bits do not depend on the order; coll_exact.h says what each of them does. A
 * lane takes four neighbours at a time. Nothing waits for anything.
 */
#ifndef SV_COLL_EXACT_STEPS_H
#define SV_COLL_EXACT_STEPS_H

#include <stdint.h>

#include "kernels/coll_exact.h"
#include "kernels/coll_exact_number.h"
#include "kernels/kernel_device.h"

namespace {

/* Neighbours that move in accesses of 16 bytes where they lie so. On soft the compiler sees to that: gcc 12 makes one
   of the two ways, and takes that one's alignment for the other's. */
template <typename BITS>
SV_DEV_FN void load_four(BITS (&to)[SV_EXACT_LANE], const BITS *from)
{
#if defined(SV_DEV_SOFT)
    __builtin_memcpy(to, from, sizeof to);
#else
    enum : unsigned { PAIRS = SV_EXACT_LANE * sizeof(BITS) / sizeof(sv_dev_pair_t) };

    if ((reinterpret_cast<uintptr_t>(from) & 15) == 0) {
        sv_dev_pair_t pair[PAIRS];
        SV_DEV_UNROLL
        for (unsigned p = 0; p < PAIRS; p++)
            pair[p] = reinterpret_cast<const sv_dev_pair_t *>(from)[p];
        __builtin_memcpy(to, pair, sizeof to);
        return;
    }
    SV_DEV_UNROLL
    for (unsigned e = 0; e < SV_EXACT_LANE; e++)
        to[e] = from[e];
#endif
}

template <typename BITS>
SV_DEV_FN void store_four(BITS *to, const BITS (&from)[SV_EXACT_LANE])
{
#if defined(SV_DEV_SOFT)
    __builtin_memcpy(to, from, sizeof from);
#else
    enum : unsigned { PAIRS = SV_EXACT_LANE * sizeof(BITS) / sizeof(sv_dev_pair_t) };

    if ((reinterpret_cast<uintptr_t>(to) & 15) == 0) {
        sv_dev_pair_t pair[PAIRS];
        __builtin_memcpy(pair, from, sizeof from);
        SV_DEV_UNROLL
        for (unsigned p = 0; p < PAIRS; p++)
            reinterpret_cast<sv_dev_pair_t *>(to)[p] = pair[p];
        return;
    }
    SV_DEV_UNROLL
    for (unsigned e = 0; e < SV_EXACT_LANE; e++)
        to[e] = from[e];
#endif
}

/* The first `left` of four, which may be none. */
template <typename BITS>
SV_DEV_FN void store_some(BITS *to, const BITS (&from)[SV_EXACT_LANE], uint64_t left)
{
    if (left >= SV_EXACT_LANE) {
        store_four(to, from);
        return;
    }
    SV_DEV_UNROLL
    for (unsigned e = 0; e < SV_EXACT_LANE; e++)
        if (e < left)
            to[e] = from[e];
}

/* How many elements of a block there are from this one on. */
SV_DEV_FN uint64_t elements_left(const sv_exact_arg_t &arg, unsigned block, unsigned first)
{
    const uint64_t begin = block * arg.stride + first;
    const uint64_t within = first < arg.count ? arg.count - first : 0;
    const uint64_t before_end = begin < arg.end ? arg.end - begin : 0;

    return within < before_end ? within : before_end;
}

/* Element `first` of a block, and its three neighbours, as they are added: scaled, if that is asked for. */
template <unsigned TYPE>
SV_DEV_FN void load_addends(const sv_exact_arg_t &arg, unsigned block, unsigned first,
                            typename exact_format<TYPE>::bits (&to)[SV_EXACT_LANE])
{
    typedef exact_format<TYPE> format;
    typedef typename format::bits bits;
    const bits *from = reinterpret_cast<const bits *>(arg.src) + block * arg.stride + first;
    const uint64_t left = elements_left(arg, block, first);

    if (left >= SV_EXACT_LANE) {
        load_four(to, from);
    } else {
        SV_DEV_UNROLL
        for (unsigned e = 0; e < SV_EXACT_LANE; e++)
            to[e] = e < left ? from[e] : bits{1} << (format::WIDTH - 1);
    }
    if (arg.flags & SV_COLL_PREMUL) {
        const bits scalar = arg.flags & SV_COLL_SCALAR_AT ? *reinterpret_cast<const bits *>(arg.scalar)
                                                          : static_cast<bits>(arg.scalar);
        SV_DEV_UNROLL
        for (unsigned e = 0; e < SV_EXACT_LANE; e++)
            if (e < left)
                to[e] = bits_of<TYPE>(format::number_of(to[e]) * format::number_of(scalar));
    }
}

/* The element of limbs that were added; an average is divided. */
template <unsigned TYPE>
SV_DEV_FN typename exact_format<TYPE>::bits result_of(const sv_exact_arg_t &arg,
                                                      const uint64_t (&limb)[exact_format<TYPE>::LIMBS],
                                                      unsigned scale)
{
    typedef exact_format<TYPE> format;
    const typename format::bits sum = join_element<TYPE>(limb, scale, arg.spare_bits);

    if (!(arg.flags & SV_COLL_DIVIDE))
        return sum;
    return bits_of<TYPE>(format::number_of(sum) / static_cast<typename format::number>(arg.ranks));
}

SV_DEV_FN uint64_t *limb_at(const sv_exact_arg_t &arg, unsigned block, unsigned limbs, unsigned limb, unsigned first)
{
    return arg.limb + (static_cast<uint64_t>(block) * limbs + limb) * arg.pitch + first;
}

/* The scales of four neighbours are one word. */
SV_DEV_FN uint32_t *scales_at(const sv_exact_arg_t &arg, unsigned block, unsigned first)
{
    return reinterpret_cast<uint32_t *>(arg.scale + static_cast<uint64_t>(block) * arg.pitch + first);
}

template <unsigned TYPE>
struct exact_scale {
    SV_DEV_FN void run(const sv_exact_arg_t &arg, unsigned block, unsigned first)
    {
        typename exact_format<TYPE>::bits element[SV_EXACT_LANE];
        uint32_t scales = 0;

        load_addends<TYPE>(arg, block, first, element);
        SV_DEV_UNROLL
        for (unsigned e = 0; e < SV_EXACT_LANE; e++)
            scales |= scale_of<TYPE>(element[e]) << 8 * e;
        *scales_at(arg, block, first) = scales;
    }
};

template <unsigned TYPE>
struct exact_split {
    SV_DEV_FN void run(const sv_exact_arg_t &arg, unsigned block, unsigned first)
    {
        enum : unsigned { LIMBS = exact_format<TYPE>::LIMBS };
        typename exact_format<TYPE>::bits element[SV_EXACT_LANE];
        uint64_t row[LIMBS][SV_EXACT_LANE];
        const uint32_t scales = *scales_at(arg, block, first);

        load_addends<TYPE>(arg, block, first, element);
        SV_DEV_UNROLL
        for (unsigned e = 0; e < SV_EXACT_LANE; e++) {
            uint64_t limb[LIMBS];
            split_element<TYPE>(element[e], scales >> 8 * e & 0xff, arg.spare_bits, limb);
            SV_DEV_UNROLL
            for (unsigned l = 0; l < LIMBS; l++)
                row[l][e] = limb[l];
        }
        SV_DEV_UNROLL
        for (unsigned l = 0; l < LIMBS; l++)
            store_four(limb_at(arg, block, LIMBS, l, first), row[l]);
    }
};

template <unsigned TYPE>
struct exact_join {
    SV_DEV_FN void run(const sv_exact_arg_t &arg, unsigned, unsigned first)
    {
        typedef exact_format<TYPE> format;
        typedef typename format::bits bits;
        enum : unsigned { LIMBS = format::LIMBS };
        bits element[SV_EXACT_LANE];
        uint64_t row[LIMBS][SV_EXACT_LANE];
        const uint32_t scales = *scales_at(arg, arg.mine, first);

        SV_DEV_UNROLL
        for (unsigned l = 0; l < LIMBS; l++)
            load_four(row[l], limb_at(arg, arg.mine, LIMBS, l, first));
        SV_DEV_UNROLL
        for (unsigned e = 0; e < SV_EXACT_LANE; e++) {
            uint64_t limb[LIMBS];
            SV_DEV_UNROLL
            for (unsigned l = 0; l < LIMBS; l++)
                limb[l] = row[l][e];
            element[e] = result_of<TYPE>(arg, limb, scales >> 8 * e & 0xff);
        }
        store_some(reinterpret_cast<bits *>(arg.dst) + first, element, first < arg.count ? arg.count - first : 0);
    }
};

/* The elements of a block at `first` as they were packed. */
template <typename BITS>
SV_DEV_FN BITS *packed_at(const sv_exact_arg_t &arg, uint8_t *memory, unsigned block, unsigned first)
{
    return reinterpret_cast<BITS *>(memory) + static_cast<uint64_t>(block) * arg.pitch + first;
}

template <unsigned TYPE>
struct exact_pack {
    SV_DEV_FN void run(const sv_exact_arg_t &arg, unsigned block, unsigned first)
    {
        typename exact_format<TYPE>::bits element[SV_EXACT_LANE];

        load_addends<TYPE>(arg, block, first, element);
        store_four(packed_at<typename exact_format<TYPE>::bits>(arg, arg.packed, block, first), element);
    }
};

template <unsigned TYPE>
struct exact_add {
    SV_DEV_FN void run(const sv_exact_arg_t &arg, unsigned, unsigned first)
    {
        typedef typename exact_format<TYPE>::bits bits;
        enum : unsigned { LIMBS = exact_format<TYPE>::LIMBS };
        unsigned largest[SV_EXACT_LANE] = {};
        uint64_t sum[SV_EXACT_LANE][LIMBS] = {};
        bits element[SV_EXACT_LANE];

        SV_DEV_ROLLED
        for (unsigned r = 0; r < arg.ranks; r++) {
            load_four(element, packed_at<bits>(arg, arg.received, r, first));
            SV_DEV_UNROLL
            for (unsigned e = 0; e < SV_EXACT_LANE; e++) {
                const unsigned scale = scale_of<TYPE>(element[e]);
                largest[e] = scale > largest[e] ? scale : largest[e];
            }
        }
        SV_DEV_ROLLED
        for (unsigned r = 0; r < arg.ranks; r++) {
            load_four(element, packed_at<bits>(arg, arg.received, r, first));
            SV_DEV_UNROLL
            for (unsigned e = 0; e < SV_EXACT_LANE; e++) {
                uint64_t limb[LIMBS];
                split_element<TYPE>(element[e], largest[e], arg.spare_bits, limb);
                SV_DEV_UNROLL
                for (unsigned l = 0; l < LIMBS; l++)
                    sum[e][l] += limb[l];
            }
        }
        SV_DEV_UNROLL
        for (unsigned e = 0; e < SV_EXACT_LANE; e++)
            element[e] = result_of<TYPE>(arg, sum[e], largest[e]);
        store_some(reinterpret_cast<bits *>(arg.dst) + first, element, first < arg.count ? arg.count - first : 0);
    }
};

/* As packed blocks follow each other, they are the vector. */
template <unsigned TYPE>
struct exact_unpack {
    SV_DEV_FN void run(const sv_exact_arg_t &arg, unsigned block, unsigned first)
    {
        typedef typename exact_format<TYPE>::bits bits;
        const uint64_t begin = static_cast<uint64_t>(block) * arg.pitch + first;
        bits element[SV_EXACT_LANE];

        load_four(element, packed_at<bits>(arg, arg.packed, block, first));
        store_some(reinterpret_cast<bits *>(arg.dst) + begin, element, begin < arg.end ? arg.end - begin : 0);
    }
};

/* Every lane takes the next four until none are left. A chunk has fewer than 2^31 elements. */
template <typename STEP>
SV_DEV_FN void run_steps(const sv_exact_arg_t &arg, unsigned blocks, sv_dev_block_t at)
{
    const unsigned each = arg.pitch / SV_EXACT_LANE;
    const unsigned stride = at.nblocks * at.nthreads;

    SV_DEV_ROLLED
    for (unsigned index = at.block * at.nthreads + at.tid; index < blocks * each; index += stride) {
        const unsigned block = blocks == 1 ? 0 : index / each;
        STEP::run(arg, block, (index - block * each) * SV_EXACT_LANE);
    }
}

template <template <unsigned> class STEP>
SV_DEV_FN void run_type(const sv_exact_arg_t &arg, unsigned blocks, sv_dev_block_t at)
{
    if (arg.type == SV_COLL_FLOAT64)
        run_steps<STEP<SV_COLL_FLOAT64>>(arg, blocks, at);
    else
        run_steps<STEP<SV_COLL_FLOAT32>>(arg, blocks, at);
}

SV_DEV_FN void exact_scale_body(const sv_exact_arg_t &arg, sv_dev_block_t at)
{
    run_type<exact_scale>(arg, arg.blocks, at);
}

SV_DEV_FN void exact_split_body(const sv_exact_arg_t &arg, sv_dev_block_t at)
{
    run_type<exact_split>(arg, arg.blocks, at);
}

SV_DEV_FN void exact_join_body(const sv_exact_arg_t &arg, sv_dev_block_t at)
{
    run_type<exact_join>(arg, 1, at);
}

SV_DEV_FN void exact_pack_body(const sv_exact_arg_t &arg, sv_dev_block_t at)
{
    run_type<exact_pack>(arg, arg.blocks, at);
}

SV_DEV_FN void exact_add_body(const sv_exact_arg_t &arg, sv_dev_block_t at)
{
    run_type<exact_add>(arg, 1, at);
}

SV_DEV_FN void exact_unpack_body(const sv_exact_arg_t &arg, sv_dev_block_t at)
{
    run_type<exact_unpack>(arg, arg.blocks, at);
}

} // namespace

#endif
