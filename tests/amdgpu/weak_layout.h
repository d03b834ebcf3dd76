/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that lie in pieces, in the memory of an emulated GPU: boxes, lists and runs that a machine's numbers choose,
 * described as the library does for its kernels, and where each byte of the stream lies. One thread.
 */
#ifndef SELVAGE_TESTS_WEAK_LAYOUT_H
#define SELVAGE_TESTS_WEAK_LAYOUT_H

#include "amdgpu/amdgpu_weak.h"
#include "kernels/kernel_args.h"

enum { WEAK_LAYOUT_BYTES = 3600, WEAK_LAYOUT_PARTS = 10 }; /* of a stream, at most */

/* What both ends of a packet have in common. */
typedef struct weak_stream {
    bool aligned;
    unsigned nparts, element_bytes[WEAK_LAYOUT_PARTS], count[WEAK_LAYOUT_PARTS];
} weak_stream_t;

typedef struct weak_layout {
    uint64_t bytes;                    /* of the stream */
    const sv_piece_t *pieces;          /* in the memory of the GPU */
    uint64_t npieces;
    uint8_t *byte[WEAK_LAYOUT_BYTES];  /* where each byte of the stream lies; NULL: it fills up, and is 0 */
} weak_layout_t;

weak_stream_t weak_stream_choose(amdgpu_machine_t *machine);

/* One end of a packet with that stream. */
void weak_layout_make(amdgpu_machine_t *machine, unsigned owner, const weak_stream_t *stream,
                      weak_layout_t *layout_out);

#endif
