/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decides which cells travel between which ranks; halo_plan.h has the rules and a picture. Pure: no rank talks to
 * another.
 */
#include "grid/halo_plan.h"

#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"

/* The number of a direction in canonical order. */
static int direction_number_of(const int *step, int ndims)
{
    int number = 0;
    for (int d = 0; d < ndims; d++)
        number = 3 * number + step[d] + 1;
    return number;
}

static selvage_status_t mark_listed(const selvage_halo_params_t *params, int ndims, bool *wanted)
{
    if (params->ndirections < 1 || !params->directions)
        return sv_error(SELVAGE_ERR_ARGUMENT, "params: ndirections is %d and directions is %s; wanted a list",
                        params->ndirections, params->directions ? "given" : "NULL");
    for (int i = 0; i < params->ndirections; i++) {
        const int *step = params->directions + (size_t)i * (size_t)ndims;
        bool moves = false;
        for (int d = 0; d < ndims; d++) {
            if (step[d] < -1 || step[d] > 1)
                return sv_error(SELVAGE_ERR_ARGUMENT, "params: number %d of directions[%d] is %d; wanted -1, 0 or 1", d,
                                i, step[d]);
            moves = moves || step[d] != 0;
        }
        if (!moves)
            return sv_error(SELVAGE_ERR_ARGUMENT, "params: directions[%d] leads nowhere: all its numbers are 0", i);
        if (wanted[direction_number_of(step, ndims)])
            return sv_error(SELVAGE_ERR_ARGUMENT, "params: directions[%d] is listed before", i);
        wanted[direction_number_of(step, ndims)] = true;
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_halo_directions(const selvage_halo_params_t *params, int ndims, sv_halo_directions_t *out)
{
    bool wanted[SV_HALO_DIRECTIONS_MAX + 1] = {false};
    int numbers = 1;
    if (params->shape == SELVAGE_HALO_DIRECTIONS)
        SV_TRY(mark_listed(params, ndims, wanted));
    else if ((int)params->shape < SELVAGE_HALO_DEFAULT || params->shape > SELVAGE_HALO_DIRECTIONS)
        return sv_error(SELVAGE_ERR_ARGUMENT, "params: shape is %d; wanted a selvage_halo_shape_t", (int)params->shape);
    else if (params->ndirections || params->directions)
        return sv_error(SELVAGE_ERR_ARGUMENT, "params: directions are given, but shape is not SELVAGE_HALO_DIRECTIONS");
    for (int d = 0; d < ndims; d++)
        numbers *= 3;
    out->count = 0;
    for (int n = 0; n < numbers; n++) {
        int8_t step[SELVAGE_DIMS_MAX] = {0};
        int steps = 0;
        for (int d = ndims - 1, rest = n; d >= 0; d--, rest /= 3) {
            step[d] = (int8_t)(rest % 3 - 1);
            steps += step[d] != 0;
        }
        bool taken = params->shape == SELVAGE_HALO_DIRECTIONS ? wanted[n]
                     : params->shape == SELVAGE_HALO_FULL     ? steps > 0
                                                              : steps == 1;
        if (taken)
            memcpy(out->step[out->count++], step, sizeof step);
    }
    return SELVAGE_SUCCESS;
}

/* The cells of one field that travel in one direction, at one end. */
static selvage_box_t travel_box_of(const sv_halo_field_t *f, const int8_t *step, bool reverse, bool receives)
{
    bool is_halo = receives != reverse;
    selvage_box_t box;
    for (int d = 0; d < SELVAGE_DIMS_MAX; d++) {
        int side = receives ? -step[d] : step[d];
        box.first[d] = 0;
        box.end[d] = f->own[d];
        if (side < 0 && is_halo) {
            box.first[d] = -f->width_lo[d];
            box.end[d] = 0;
        } else if (side < 0) {
            box.end[d] = f->width_hi[d]; /* what the neighbour below has above */
        } else if (side > 0 && is_halo) {
            box.first[d] = f->own[d];
            box.end[d] = f->own[d] + f->width_hi[d];
        } else if (side > 0) {
            box.first[d] = f->own[d] - f->width_lo[d];
        }
    }
    return box;
}

uint64_t sv_halo_count(const sv_halo_field_t *field, const selvage_box_t *cells)
{
    uint64_t count = 1, lowest = 0;
    for (int d = 0; d < field->ndims; d++) {
        if (cells->end[d] <= cells->first[d])
            return 0;
        count *= (uint64_t)(cells->end[d] - cells->first[d]);
        lowest += (uint64_t)(field->global_first[d] + cells->first[d]);
    }
    if (field->packed_dim < 0)
        return count;
    /* Of an odd number of cells, those with the parity of the lowest one are one more. */
    return lowest % 2 == (field->parity == SELVAGE_PARITY_ODD) ? (count + 1) / 2 : count / 2;
}

selvage_status_t sv_halo_plan(const selvage_grid_t *grid, const sv_halo_field_t *fields, int nfields,
                              const sv_halo_directions_t *directions, bool reverse, bool receives,
                              sv_halo_way_t *way_out)
{
    int rank[SV_HALO_DIRECTIONS_MAX]; /* at the other end of every direction; -1: none, or its packet is there */
    uint32_t count = 0;
    sv_halo_way_t way = {0};
    SV_TRY(sv_calloc((size_t)directions->count * (size_t)nfields, sizeof *way.piece, &way.piece));
    for (int i = 0; i < directions->count; i++) {
        int coords[SELVAGE_DIMS_MAX];
        for (int d = 0; d < SELVAGE_DIMS_MAX; d++)
            coords[d] = grid->coords[d] + (receives ? -directions->step[i][d] : directions->step[i][d]);
        rank[i] = sv_grid_rank(grid, coords);
    }
    /* All that goes to one rank, in any direction, is one packet. */
    for (int i = 0; i < directions->count; i++) {
        sv_halo_packet_t packet = {.rank = rank[i], .first_piece = count};
        for (int j = i; packet.rank >= 0 && j < directions->count; j++) {
            if (rank[j] != packet.rank)
                continue;
            for (int f = 0; f < nfields; f++) {
                selvage_box_t cells = travel_box_of(&fields[f], directions->step[j], reverse, receives);
                if (sv_halo_count(&fields[f], &cells) > 0)
                    way.piece[count++] = (sv_halo_piece_t){(uint32_t)f, cells};
            }
            rank[j] = -1;
        }
        packet.npieces = count - packet.first_piece;
        if (packet.npieces > 0)
            way.packet[way.npackets++] = packet;
    }
    *way_out = way;
    return SELVAGE_SUCCESS;
}

void sv_halo_way_free(sv_halo_way_t *way)
{
    sv_free(way->piece);
    *way = (sv_halo_way_t){0};
}
