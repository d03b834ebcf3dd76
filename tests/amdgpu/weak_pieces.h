/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptions of packets in pieces, as the library makes them of layouts, for C++. Any thread. */
#ifndef SELVAGE_TESTS_WEAK_PIECES_H
#define SELVAGE_TESTS_WEAK_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernel_args.h"

typedef enum weak_part_kind { WEAK_BOX, WEAK_LIST, WEAK_RUNS } weak_part_kind_t;

typedef struct weak_part {
    weak_part_kind_t kind;
    uint64_t element_bytes, count;
    const int64_t *address;        /* of the elements of a list, of runs */
    const uint64_t *run_bytes;
    uint8_t *base;                 /* of a box */
    uint64_t row;                  /* elements, and count is a multiple */
    int64_t step, row_step;
} weak_part_t;

/* What a kernel at the address there will read, to be put there: gives its bytes. image_out, to be freed, may be NULL,
   to learn that only. Ends the process if the library refuses. */
size_t weak_pieces_make(bool aligned, const weak_part_t *part, unsigned nparts, uint8_t *there, uint8_t **image_out,
                        const sv_piece_t **pieces_out, uint64_t *npieces_out, uint64_t *stream_bytes_out);

#endif
