/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random halos, and what must come of them. A case says everything that all ranks agree on: the grid, and one or two
 * halos with their fields. A part is one rank's share of one of its halos: arrays of its own shape, and a copy of each
 * in which the naive reference has put what every byte must be. The reference uses the words of halo.h and nothing of
 * the library's planning: a halo cell's value follows from its place in the whole domain.
 */
#ifndef SELVAGE_TESTS_HALO_CASE_H
#define SELVAGE_TESTS_HALO_CASE_H

#include "local_ranks.h"
#include <selvage/halo.h>

enum { HALO_DIMS = SELVAGE_DIMS_MAX, HALO_RANKS_MAX = 16, HALO_FIELDS_MAX = 4, HALO_PARTS_MAX = 2, HALO_SETS = 2 };

/* One halo of a case. */
typedef struct halo_wish {
    selvage_halo_params_t params;
    int directions[80 * HALO_DIMS];
    int nfields;
    selvage_field_t field[HALO_FIELDS_MAX]; /* what is the same on all ranks */
    bool records;                           /* the fields are members of one array of structures */
    bool layouts_differ;                    /* every rank has an order of memory of its own */
    bool exact;                             /* reverse: sums do not depend on the order of additions */
} halo_wish_t;

typedef struct halo_case {
    uint64_t seed;
    int size;
    selvage_grid_params_t grid;
    int64_t split[HALO_DIMS][HALO_RANKS_MAX];
    int ranks[HALO_RANKS_MAX];
    int nparts;
    halo_wish_t wish[HALO_PARTS_MAX];
} halo_case_t;

/* A field's array on one rank, of which there are two to swap. Strides are what the library must come to as well. */
typedef struct halo_array {
    int64_t own[HALO_DIMS], first[HALO_DIMS], stride[HALO_DIMS], component_stride, offset;
    uint8_t *memory[HALO_SETS];             /* owned, unless it is that of the first field */
    uint8_t *expected[HALO_SETS];
    size_t bytes;
} halo_array_t;

typedef struct halo_part {
    local_rank_t *self;
    const halo_case_t *test;
    const halo_wish_t *wish;
    const selvage_grid_t *grid;
    selvage_field_t field[HALO_FIELDS_MAX]; /* as given to the library; data in set 0 */
    halo_array_t array[HALO_FIELDS_MAX];
} halo_part_t;

/* Everything from a seed and a number of ranks. */
void halo_case_make(halo_case_t *test, int size, uint64_t seed);

/* Says on standard error what a case is. */
void halo_case_print(const halo_case_t *test);

/* Arrays for this rank's share of halo number w. */
void halo_part_open(halo_part_t *part, local_rank_t *self, const halo_case_t *test, int w, const selvage_grid_t *grid);
void halo_part_close(halo_part_t *part);

/* Pointers of a set, as for selvage_halo_rebind(). */
void halo_part_data(const halo_part_t *part, int set, void **data);

/* Fresh values for an epoch in all arrays of a set, and what they must be after it. */
void halo_part_fill(halo_part_t *part, int set, uint64_t epoch);
/* Whether they are; the first wrong byte is told on standard error. */
bool halo_part_check(const halo_part_t *part, int set, uint64_t epoch);

/* A hash over all bytes of a set. */
uint64_t halo_part_hash(const halo_part_t *part, int set);

#endif
