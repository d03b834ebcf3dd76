/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums whose bits do not depend on the order: what host and kernels share. A vector goes in chunks, by one of two ways
 * with the same bits. Where all ranks are on one node, addends themselves travel, once:
 *
 *   sv_exact_pack    the chunk as blocks, one for each rank               -> all-to-all
 *   sv_exact_add     of a block the addends of all ranks: their sum       -> all-gather, but of a reduce-scatter
 *   sv_exact_unpack  all blocks, which are the vector
 *
 * Between nodes sums of a part of the ranks travel, as integers, in which no order matters:
 *
 *   sv_exact_scale   of each element a byte that says how large it is     -> the largest of all ranks
 *   sv_exact_split   each element as a fixed-point number in units that
 *                    this byte says, in one or two limbs of 64 bits       -> the sums of the limbs over all ranks
 *   sv_exact_join    the number of these limbs, rounded once
 *
 * sv_exact_add does all of this in registers.
 *
 * Scales: 0 is -0, so that a largest 0 says that all elements are. 255 is an infinity or a NaN: then limbs count these
 * instead. Else it is the exponent, at least 1; of float64 an eighth of it (exact_format in coll_exact_number.h).
 *
 * Limbs: a sum of 2^spare_bits addends must not leave 63 bits. So the lower one of two holds 63 - spare_bits bits of a
 * number in two's complement, and the upper one the rest, with its sign.
 *
 * In memory blocks have room for `pitch` elements, all of which are there: those beyond `count`, or beyond the end of
 * the vector, are -0.
 *
 *   packed, received [block][pitch]       scale [block][pitch]       limb [block][limb][pitch]
 */
#ifndef SV_COLL_EXACT_H
#define SV_COLL_EXACT_H

#include "kernels/coll_args.h"

enum {
    SV_EXACT_UNIT = 16,        /* pitches are multiples of it */
    SV_EXACT_LANE = 4,         /* elements that a lane takes at a time */
    SV_EXACT_MINUS_ZERO = 0,
    SV_EXACT_SPECIAL = 255,
    SV_EXACT_COUNT_BITS = 20   /* of each of the three counts in a limb: positive and negative infinities, NaNs */
};

typedef struct sv_exact_arg {
    uint64_t src, dst;         /* addresses of what is read by pack, scale and split; written by add, unpack, join */
    uint8_t *packed, *received; /* elements of this rank for all, or all blocks of the result; of all for this rank */
    uint8_t *scale;
    uint64_t *limb;
    uint64_t scalar;           /* as in sv_coll_work_t */
    uint64_t stride, end;      /* elements from a block of src to the next one, and to the end of src (or of dst) */
    uint32_t count, pitch;     /* elements of a block, and how many of them there is room for */
    uint32_t blocks, mine;     /* of src; the one that join makes dst of */
    uint32_t ranks;
    uint8_t type, flags;       /* as in sv_coll_work_t: PREMUL, SCALAR_AT, DIVIDE */
    uint8_t spare_bits;        /* ranks are at most 2^spare_bits */
    uint8_t reserved;
} sv_exact_arg_t;
SV_LAYOUT_ASSERT(sv_exact_arg_t, 96);

/* Limbs of an element. */
SV_COLL_BOTH uint32_t sv_exact_limbs(uint32_t type)
{
    return type == SV_COLL_FLOAT64 ? 2 : 1;
}

#endif
