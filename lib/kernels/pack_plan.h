/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the shape of a box to the arguments of sv_pack and sv_unpack. Pure functions, any thread. Commit calls them once
 * for every part of a packet, so that a launch computes nothing.
 */
#ifndef SV_PACK_PLAN_H
#define SV_PACK_PLAN_H

#include "kernels/kernel_args.h"
#include <selvage/status.h>

enum { SV_PACK_DIMS = 4 };

typedef struct sv_pack_dim {
    uint64_t count;
    int64_t stride_bytes;
} sv_pack_dim_t;

/*
 * A box of a grid in the memory of a device. Elements have any size, and dimension 0 varies fastest in the packed
 * stream whatever the strides say. Strides may be negative; base is where the first element of the stream lies.
 * Elements must not overlap where they are stored to.
 */
typedef struct sv_pack_shape {
    uint8_t *base;
    uint64_t element_bytes;
    unsigned ndims;
    sv_pack_dim_t dim[SV_PACK_DIMS];
} sv_pack_shape_t;

/* Bytes of the packed stream of a box. Refuses more than 4 dimensions, and what no 64-bit number can count. */
selvage_status_t sv_pack_bytes(const sv_pack_shape_t *shape, uint64_t *bytes_out);

/* How kernels divide a unit's number by dim->count, 2 to 2^31 - 1 (a count of 1 is divided by nobody). */
sv_pack_level_t sv_pack_level(const sv_pack_dim_t *dim, uint8_t *shift_out);

/*
 * Fills the members of *arg that describe the bytes of the stream from offset on, which are or will be at packed.
 * first_word becomes the number of the first word in this stream. All other members stay as they are. offset is a
 * multiple of 8, and so is bytes unless the stream ends there. With base NULL sv_unpack only sums, and so does sv_pack
 * with packed NULL. ERR_LIMIT for parts of 2^31 units and more; a unit has 1 to 16 bytes, whatever divides the box's
 * addresses.
 */
selvage_status_t sv_pack_plan(const sv_pack_shape_t *shape, uint8_t *packed, uint64_t offset, uint64_t bytes,
                              sv_pack_arg_t *arg);

#endif
