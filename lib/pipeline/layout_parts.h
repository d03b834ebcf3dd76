/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of a layout, for the two files that make pieces of it, and what an exchange keeps about layouts.
 *
 * A packet with a layout travels in one of three ways, decided at commit:
 *
 *   fused     kernels move it: it is gathered on its way out and scattered on its way in, in the pass that sums it
 *   plain     it lies without gaps, and copy engines or MPI move it: as if it had no layout
 *   bounced   anything else: packed into memory of the exchange's own on the caller's stream before the epoch starts,
 *             and unpacked from there on the caller's stream when everything was verified
 *
 *   start(stream):  [gather bounced sends] event --> engine ...... all verified --> wait(stream): [scatter bounced]
 */
#ifndef SV_LAYOUT_PARTS_H
#define SV_LAYOUT_PARTS_H

#include "kernels/kernels.h"
#include "pipeline/pipe_layout.h"

typedef enum sv_layout_part_kind { SV_LAYOUT_PART_BOX, SV_LAYOUT_PART_LIST, SV_LAYOUT_PART_RUNS } sv_layout_part_kind_t;

typedef struct sv_layout_part {
    sv_layout_part_kind_t kind;
    uint32_t base;
    sv_layout_number_t number;
    uint64_t bytes, first_byte;  /* paddings apart; in the stream */
    sv_pack_shape_t shape;       /* of a list: element_bytes only */
    sv_layout_run_t *runs;       /* of a list: its elements; owned */
    uint64_t nruns;
} sv_layout_part_t;

struct sv_layout {
    sv_layout_kind_t kind;
    sv_layout_part_t *part;
    uint32_t nparts, capacity, base_max;
    uint64_t bytes;
    bool adds;
};

/* No part is added after this call. Parts of an exact stream that divide a word of it become one list of runs. */
selvage_status_t sv_layout_close(sv_layout_t *layout);

/* Whether the whole stream lies without gaps in memory, and where. */
bool sv_layout_is_plain(const sv_layout_t *layout, uint32_t *base, int64_t *offset);

/* Where the first element of a layout with bytes lies. */
void sv_layout_first(const sv_layout_t *layout, uint32_t *base, int64_t *offset);

/* One block of device memory and its image here. Handed out in two walks: with NULL the first one only measures. */
typedef struct sv_layout_bump {
    uint8_t *here, *there;
    size_t used;
} sv_layout_bump_t;

void *sv_layout_bump_alloc(sv_layout_bump_t *bump, size_t bytes, void *device_out);

/*
 * Pieces of a layout for the addresses of bases, with their tables, into the arena: where they lie here and there, and
 * how many they are. Measuring, here is NULL.
 */
selvage_status_t sv_layout_make_pieces(const sv_layout_t *layout, uint8_t *const *bases, sv_layout_bump_t *bump,
                                       sv_piece_t **here_out, const sv_piece_t **there_out, uint32_t *count_out);

#endif
