/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets in pieces for launches that are made twice: the same stream in places of all kinds. One thread. */
#ifndef SELVAGE_TESTS_BITS_LAYOUT_H
#define SELVAGE_TESTS_BITS_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernel_args.h"

enum { BITS_PARTS = 12 };

typedef struct bits_stream {
    bool aligned;
    unsigned nparts, element_bytes[BITS_PARTS], count[BITS_PARTS];
} bits_stream_t;

/* By bits_draw(). large: pieces of which a lane has several words in flight. */
bits_stream_t bits_stream_draw(bool large);

/* Memory for it, and its pieces. adds: what arrives is added there, if it can be. Gives the bytes of the stream. */
uint64_t bits_layout_make(const bits_stream_t *stream, bool adds, const sv_piece_t **pieces_out,
                          uint64_t *npieces_out);

#endif
