/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public calls on grids. Each checks its arguments and asks the grid. A grid is made where the engine lives,
 * because ranks talk about it.
 */
#include <string.h>

#include "api/api_params.h"
#include "comm/comm_task.h"
#include "grid/grid_blocks.h"

typedef struct grid_call {
    const char *name;
    selvage_comm_t *comm;
    const MPI_Comm *cart;
    selvage_grid_params_t params;
    selvage_grid_t *grid;
    selvage_status_t before;      /* what is wrong with the arguments */
} grid_call_t;

/* What is wrong on this rank is told to the others, who would wait for it. */
static selvage_status_t run_grid_create(void *arg)
{
    grid_call_t *call = arg;
    if (call->before != SELVAGE_SUCCESS) {
        char detail[SV_DETAIL_BYTES];
        memcpy(detail, sv_thread_detail(), sizeof detail);
        (void)sv_grid_refuse(call->name, call->comm, call->before);
        memcpy(sv_thread_detail(), detail, sizeof detail);
        return call->before;
    }
    if (call->cart)
        return sv_grid_create_cart(call->comm, *call->cart, &call->params, &call->grid);
    return sv_grid_create(call->comm, &call->params, &call->grid);
}

static selvage_status_t create_checked_grid(grid_call_t *call, const selvage_grid_params_t *params,
                                            selvage_grid_t **grid_out)
{
    SV_TRY(sv_api_enter(call->comm));
    if (!params)
        call->before = sv_error(SELVAGE_ERR_ARGUMENT, "%s: params is NULL", call->name);
    else if (!grid_out)
        call->before = sv_error(SELVAGE_ERR_ARGUMENT, "%s: grid_out is NULL", call->name);
    else
        call->before = sv_api_copy_params("params", params, &call->params, sizeof call->params);
    selvage_status_t status = sv_comm_run(call->comm, run_grid_create, call);
    if (status == SELVAGE_SUCCESS)
        *grid_out = call->grid;
    return sv_api_leave(status);
}

selvage_status_t selvage_grid_create(selvage_comm_t *comm, const selvage_grid_params_t *params,
                                     selvage_grid_t **grid_out)
{
    SV_API_NEED(comm);
    grid_call_t call = {.name = __func__, .comm = comm};
    return create_checked_grid(&call, params, grid_out);
}

selvage_status_t selvage_grid_create_cart(selvage_comm_t *comm, MPI_Comm cart, const selvage_grid_params_t *params,
                                          selvage_grid_t **grid_out)
{
    SV_API_NEED(comm);
    grid_call_t call = {.name = __func__, .comm = comm, .cart = &cart};
    return create_checked_grid(&call, params, grid_out);
}

void selvage_grid_destroy(selvage_grid_t *grid)
{
    sv_grid_destroy(grid);
}

selvage_status_t selvage_grid_describe(const selvage_grid_t *grid, selvage_grid_info_t *info)
{
    SV_API_NEED(grid);
    SV_API_NEED(info);
    selvage_grid_info_t all = {.ndims = grid->ndims};
    for (int d = 0; d < SELVAGE_DIMS_MAX; d++) {
        all.global_extent[d] = grid->global[d];
        all.periodic[d] = grid->periodic[d];
        all.blocks[d] = grid->blocks[d];
        all.coords[d] = grid->coords[d];
        all.local_extent[d] = grid->local[d];
        all.local_first[d] = grid->first[d];
    }
    all.surface_cells = grid->surface_cells;
    all.surface_cells_between_nodes = grid->surface_cells_between_nodes;
    all.surface_cells_in_rank_order = grid->surface_cells_in_rank_order;
    return sv_api_fill_struct("info", "SELVAGE_GRID_INFO_INIT", info, &all, sizeof all);
}

static selvage_status_t check_rank(const char *call, const selvage_grid_t *grid, int rank)
{
    int size = grid->comm->wire->size;
    if (rank < 0 || rank >= size)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: rank is %d; wanted 0..%d", call, rank, size - 1);
    return SELVAGE_SUCCESS;
}

selvage_status_t selvage_grid_coords(const selvage_grid_t *grid, int rank, int *coords_out)
{
    int coords[SELVAGE_DIMS_MAX];
    SV_API_NEED(grid);
    SV_API_NEED(coords_out);
    SV_TRY(check_rank(__func__, grid, rank));
    sv_grid_coords(grid, rank, coords);
    memcpy(coords_out, coords, (size_t)grid->ndims * sizeof *coords);
    return SELVAGE_SUCCESS;
}

selvage_status_t selvage_grid_rank(const selvage_grid_t *grid, const int *coords, int *rank_out)
{
    SV_API_NEED(grid);
    SV_API_NEED(coords);
    SV_API_NEED(rank_out);
    *rank_out = sv_grid_rank(grid, coords);
    return SELVAGE_SUCCESS;
}

selvage_status_t selvage_grid_neighbour(const selvage_grid_t *grid, const int *offset, int *rank_out)
{
    int coords[SELVAGE_DIMS_MAX];
    SV_API_NEED(grid);
    SV_API_NEED(offset);
    SV_API_NEED(rank_out);
    for (int d = 0; d < grid->ndims; d++) {
        if (offset[d] < -1 || offset[d] > 1)
            return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_grid_neighbour: offset[%d] is %d; wanted -1..1", d,
                            offset[d]);
        coords[d] = grid->coords[d] + offset[d];
    }
    *rank_out = sv_grid_rank(grid, coords);
    return SELVAGE_SUCCESS;
}

selvage_status_t selvage_grid_block(const selvage_grid_t *grid, int rank, int64_t *extent_out, int64_t *first_out)
{
    int coords[SELVAGE_DIMS_MAX];
    SV_API_NEED(grid);
    SV_TRY(check_rank(__func__, grid, rank));
    sv_grid_coords(grid, rank, coords);
    for (int d = 0; d < grid->ndims; d++) {
        if (extent_out)
            extent_out[d] = sv_grid_extent(grid, d, coords[d]);
        if (first_out)
            first_out[d] = grid->start[d][coords[d]];
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t check_widths(const char *call, const selvage_grid_t *grid, const int *width_lo,
                                     const int *width_hi)
{
    for (int d = 0; d < grid->ndims; d++)
        if (width_lo[d] < 0 || width_hi[d] < 0)
            return sv_error(SELVAGE_ERR_ARGUMENT, "%s: %s[%d] is %d; wanted 0 or more", call,
                            width_lo[d] < 0 ? "width_lo" : "width_hi", d, width_lo[d] < 0 ? width_lo[d] : width_hi[d]);
    return SELVAGE_SUCCESS;
}

selvage_status_t selvage_grid_interior(const selvage_grid_t *grid, const int *width_lo, const int *width_hi,
                                       selvage_box_t *box_out)
{
    SV_API_NEED(grid);
    SV_API_NEED(width_lo);
    SV_API_NEED(width_hi);
    SV_API_NEED(box_out);
    SV_TRY(check_widths(__func__, grid, width_lo, width_hi));
    sv_grid_interior(grid, width_lo, width_hi, box_out);
    return SELVAGE_SUCCESS;
}

selvage_status_t selvage_grid_boundary(const selvage_grid_t *grid, const int *width_lo, const int *width_hi,
                                       selvage_box_t *slab_out)
{
    SV_API_NEED(grid);
    SV_API_NEED(width_lo);
    SV_API_NEED(width_hi);
    SV_API_NEED(slab_out);
    SV_TRY(check_widths(__func__, grid, width_lo, width_hi));
    sv_grid_boundary(grid, width_lo, width_hi, slab_out);
    return SELVAGE_SUCCESS;
}
