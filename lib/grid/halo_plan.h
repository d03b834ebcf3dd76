/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a grid and fields to what travels. Pure: nothing here talks to another rank.
 *
 *   selvage_field_t  --halo_fields.c-->  sv_halo_field_t    every default filled in, everything checked
 *   sv_halo_field_t  --halo_plan.c---->  sv_halo_way_t      per neighbour rank the pieces: a box of cells of a field
 *   a piece          --halo_layout.c-->  sv_layout_t        where the bytes of the box lie
 *
 * A direction says where data travels to. Forward, own cells go into the halo on the other side. In reverse, halo cells
 * go to the own cells that they stand for. In one dimension, with direction +1, width 1 below and 2 above:
 *
 *       forward   h [o o o o S] h h  -->  R [o o o o o] h h       S: sent, as wide as R's lower halo
 *       reverse   h [o o o o o] S S  -->  h [R R o o o] h h       R: received (and in reverse added)
 *
 * Both ends of a packet list the pieces by direction, in the one canonical order, and by field within a direction. So
 * they agree without a message, also where one rank is the neighbour in several directions, or its own.
 */
#ifndef SV_HALO_PLAN_H
#define SV_HALO_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "grid/grid_blocks.h"
#include "pipeline/pipe_layout.h"
#include <selvage/halo.h>

enum { SV_HALO_DIRECTIONS_MAX = 80, SV_HALO_AXES_MAX = SELVAGE_DIMS_MAX + 1 };

/* Directions in canonical order: like numbers of ndims digits, dimension 0 first. */
typedef struct sv_halo_directions {
    int count;
    int8_t step[SV_HALO_DIRECTIONS_MAX][SELVAGE_DIMS_MAX]; /* 0 above ndims */
} sv_halo_directions_t;

/* A field of this rank. Numbers per dimension are 1 (extents) or 0 above ndims. */
typedef struct sv_halo_field {
    uint8_t *data;                          /* as the caller gave it first */
    uint64_t element_bytes;
    int ndims;
    int64_t own[SELVAGE_DIMS_MAX];          /* cells; staggered faces included */
    int64_t global_first[SELVAGE_DIMS_MAX];
    int64_t width_lo[SELVAGE_DIMS_MAX], width_hi[SELVAGE_DIMS_MAX];
    int64_t first[SELVAGE_DIMS_MAX];        /* array index of the first own cell */
    int64_t stride[SELVAGE_DIMS_MAX];       /* bytes from place to place */
    int64_t components, component_stride;
    selvage_parity_t parity;
    int packed_dim;                         /* -1: every cell has a place */
    bool first_is_fastest;
    selvage_number_t number;
    uint8_t axis[SV_HALO_AXES_MAX];         /* of the stream, fastest first: dimensions; ndims: the components */
} sv_halo_field_t;

/* A box of cells of a field, in local indices. */
typedef struct sv_halo_piece {
    uint32_t field;
    selvage_box_t cells;
} sv_halo_piece_t;

typedef struct sv_halo_packet {
    int rank;
    uint32_t first_piece, npieces;
} sv_halo_packet_t;

/* All that a rank sends, or all that it receives: a packet per neighbour rank, by the first direction between them. */
typedef struct sv_halo_way {
    int npackets;
    sv_halo_packet_t packet[SV_HALO_DIRECTIONS_MAX];
    sv_halo_piece_t *piece;                 /* owned */
} sv_halo_way_t;

/* Which directions take part. ERR_ARGUMENT names what is wrong with the parameters. */
selvage_status_t sv_halo_directions(const selvage_halo_params_t *params, int ndims, sv_halo_directions_t *out);

/* Checks field number index of the caller's and fills in what it leaves open. */
selvage_status_t sv_halo_resolve(const selvage_grid_t *grid, const selvage_field_t *given, int index,
                                 sv_halo_field_t *out);

/* Checks a resolved field against the blocks of all ranks: those that fill a halo must be as wide. */
selvage_status_t sv_halo_check_widths(const selvage_grid_t *grid, const sv_halo_field_t *field, int index,
                                      const int *stagger, const sv_halo_directions_t *directions);

/* Two orders for the stream. By stride is fast. By number is the same on ranks whose strides are not alike. In both the
   packed dimension comes before the others. */
void sv_halo_axes_by_stride(sv_halo_field_t *field);
void sv_halo_axes_by_number(sv_halo_field_t *field);

/* How many places own cells and halo take on an axis, and the first of them. */
int64_t sv_halo_places(const sv_halo_field_t *field, int axis, int64_t *first_out);

/* The bytes from the lowest to after the highest one of own cells and halo, from data. */
void sv_halo_extent(const sv_halo_field_t *field, int64_t *first_out, int64_t *end_out);

/* Whether no byte of own cells and halo belongs to both fields. False also where that is too hard to prove. */
bool sv_halo_is_disjoint(const sv_halo_field_t *a, const uint8_t *a_data, const sv_halo_field_t *b,
                         const uint8_t *b_data);

/* Refuses fields that overlap when they lie at data[]. */
selvage_status_t sv_halo_check_overlap(const sv_halo_field_t *fields, int nfields, void *const *data);

/* What this rank sends (or receives). Partner: sv_halo_way_free(). */
selvage_status_t sv_halo_plan(const selvage_grid_t *grid, const sv_halo_field_t *fields, int nfields,
                              const sv_halo_directions_t *directions, bool reverse, bool receives,
                              sv_halo_way_t *way_out);
void sv_halo_way_free(sv_halo_way_t *way);

/* How many elements of one component a box of cells holds. */
uint64_t sv_halo_count(const sv_halo_field_t *field, const selvage_box_t *cells);

/* Appends a piece to a layout: base is the field's. number: what a receive adds. */
selvage_status_t sv_halo_lay(sv_layout_t *layout, uint32_t base, const sv_halo_field_t *field,
                             const selvage_box_t *cells, sv_layout_number_t number);

#endif
