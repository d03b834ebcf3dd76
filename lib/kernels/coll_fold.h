/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions of blocks in memory of one device: what host and kernel share. Ranks' blocks lie one after the other,
 * brought there by other calls, and sv_fold combines them in the order of ranks, 0 first. One block alone is copied.
 * Collectives have it for what their own kernels do not know (collective/coll_fold.c), selvage_reduce_local() for all
 * of these:
 *
 *   integers                 sum, product, the least, the greatest, which wrap; and, or and exclusive or: of bits, and
 *                            of truth, whose result is 1 or 0. A sum of 16 bits may be divided
 *   float32, float64         sum, product, the least, the greatest, as kernels/coll_types.h has them, rounded after
 *                            each block; and, or and exclusive or of truth: a number that is not zero is true, NaN too
 *   complex                  the sum; the product, as (ac - bd) + (ad + bc)i. NaNs are canonical
 *   a value and an index     the least or the greatest value; of equal ones the lowest index. A value that is NaN is
 *                            neither less nor greater, so that it stays if it comes first
 *
 * What lies between or after the members of an element is never written.
 */
#ifndef SV_COLL_FOLD_H
#define SV_COLL_FOLD_H

#include "kernels/coll_args.h"

/* The types that no other kernel has; the public numbers. A pair has its value first, then its index. */
enum {
    SV_FOLD_INT16 = SV_COLL_TYPES, SV_FOLD_UINT16, SV_FOLD_COMPLEX64, SV_FOLD_COMPLEX128, SV_FOLD_FLOAT32_INT32,
    SV_FOLD_FLOAT64_INT32, SV_FOLD_INT64_INT32, SV_FOLD_INT32_INT32, SV_FOLD_INT16_INT32, SV_FOLD_FLOAT32_FLOAT32,
    SV_FOLD_FLOAT64_FLOAT64, SV_FOLD_TYPES
};

/* The operations that no other kernel has; the public numbers. An average is a sum with a divisor. */
enum {
    SV_FOLD_BAND = 6, SV_FOLD_BOR, SV_FOLD_BXOR, SV_FOLD_LAND, SV_FOLD_LOR, SV_FOLD_LXOR, SV_FOLD_MINLOC,
    SV_FOLD_MAXLOC, SV_FOLD_OPS
};

enum { SV_FOLD_UNIT = 16 }; /* bytes that a lane takes at a time */

/* Parts are folded each by itself. All strides are in bytes, and multiples of what elements are aligned to. */
typedef struct sv_fold_arg {
    uint64_t src, dst;         /* addresses of the first part: rank 0's block of it, and its result */
    uint64_t block_stride;     /* from a rank's block to the next one's */
    uint64_t src_stride, dst_stride; /* from a part to the next one */
    uint64_t count;            /* elements of a part */
    uint32_t parts, blocks;
    uint32_t divisor;          /* of sums; 0 or 1: none */
    uint8_t type, op;
    uint16_t reserved;
} sv_fold_arg_t;
SV_LAYOUT_ASSERT(sv_fold_arg_t, 64);

#endif
