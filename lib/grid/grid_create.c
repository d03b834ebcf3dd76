/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes and frees grids. Every step that can fail on one rank alone ends in an agreement. So all ranks get a grid or
 * none does, and a rank with a bad argument keeps nobody waiting. All memory that is sized by the number of ranks is
 * freed again, except the two maps. Those exist only where block b is not rank b.
 */
#include <string.h>

#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "comm/comm_control.h"
#include "grid/grid_parts.h"
#include "wire/wire_mpi_cart.h"

/* A grid in the making. */
typedef struct build {
    const char *call;
    selvage_comm_t *comm;
    selvage_grid_params_t params; /* without zeros that mean something else */
    selvage_grid_t *grid;
    int *node_of_rank;            /* NULL: all ranks are on one node */
    sv_team_t team;               /* of all ranks, unless they are on one node */
} build_t;

static int count_ranks(const build_t *build)
{
    return build->comm->wire->size;
}

static bool is_rank_order(const int *ranks, int count)
{
    for (int b = 0; b < count; b++)
        if (ranks[b] != b)
            return false;
    return true;
}

/* What a rank does by itself: it checks, cuts the grid, and takes the memory for all that follows. So nothing after the
   first agreement needs any. */
static selvage_status_t build_locally(build_t *build)
{
    const selvage_grid_params_t *p = &build->params;
    const int count = count_ranks(build);
    SV_TRY(sv_grid_check(build->call, p, count));
    SV_TRY(sv_calloc(1, sizeof *build->grid, &build->grid));
    selvage_grid_t *grid = build->grid;
    grid->comm = build->comm;
    grid->ndims = p->ndims;
    for (int d = 0; d < SELVAGE_DIMS_MAX; d++) {
        grid->global[d] = d < p->ndims ? p->global_extent[d] : 1;
        grid->periodic[d] = d < p->ndims && p->periodic[d];
        grid->blocks[d] = 1;
    }
    /* The numbers of blocks that were left open. */
    sv_grid_factor_t wanted = {.ndims = p->ndims};
    for (int d = 0; d < p->ndims; d++) {
        wanted.periodic[d] = p->periodic[d] != 0;
        wanted.plane_cells[d] = sv_grid_plane_cells(p->ndims, p->global_extent, p->width, d);
        wanted.most[d] = p->global_extent[d];
        wanted.fixed[d] = p->blocks[d];
    }
    if (!sv_grid_factor(&wanted, count, grid->blocks))
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: blocks: no way to cut global_extent into %d blocks leaves each with "
                        "a cell", build->call, count);
    /* Where the blocks of a dimension begin: as split says, or the first ones with one cell more. */
    for (int d = 0; d < SELVAGE_DIMS_MAX; d++) {
        const int blocks = grid->blocks[d];
        SV_TRY(sv_calloc((size_t)blocks + 1, sizeof *grid->start[d], &grid->start[d]));
        for (int c = 0; c < blocks; c++) {
            int64_t even = grid->global[d] / blocks + (c < grid->global[d] % blocks);
            grid->start[d][c + 1] = grid->start[d][c] + (p->split[d] ? p->split[d][c] : even);
        }
    }
    /* Memory for who is where, if there are other nodes, and for the maps, if block b may not be rank b. */
    const bool one_node = build->comm->topology.node_size == count;
    if (!one_node) {
        SV_TRY(sv_calloc((size_t)count, sizeof *build->node_of_rank, &build->node_of_rank));
        SV_TRY(sv_team_init(&build->team, build->comm, count));
        build->team.me = build->comm->wire->rank;
        for (int r = 0; r < count; r++)
            build->team.ranks[r] = r;
    }
    if (!(p->ranks && !is_rank_order(p->ranks, count)) && !(p->reorder && !one_node))
        return SELVAGE_SUCCESS;
    SV_TRY(sv_calloc((size_t)count, sizeof *grid->rank_of_block, &grid->rank_of_block));
    SV_TRY(sv_calloc((size_t)count, sizeof *grid->block_of_rank, &grid->block_of_rank));
    for (int b = 0; b < count; b++)
        grid->rank_of_block[b] = p->ranks ? p->ranks[b] : b;
    return SELVAGE_SUCCESS;
}

static selvage_status_t place_blocks(build_t *build)
{
    selvage_grid_t *grid = build->grid;
    const int *width = build->params.width;
    int *node_of_block, count = count_ranks(build);
    SV_TRY(sv_calloc((size_t)count, sizeof *node_of_block, &node_of_block));
    selvage_status_t status = SELVAGE_SUCCESS;
    if (build->params.reorder)
        status = sv_grid_place(grid, width, build->node_of_rank, grid->rank_of_block);
    for (int b = 0; b < count; b++)
        node_of_block[b] = build->node_of_rank[grid->rank_of_block ? grid->rank_of_block[b] : b];
    grid->surface_cells_between_nodes = sv_grid_surface(grid, width, node_of_block);
    grid->surface_cells_in_rank_order = sv_grid_surface(grid, width, build->node_of_rank);
    sv_free(node_of_block);
    return status;
}

/* Collective. before: what this rank has found wrong already. */
static selvage_status_t create_grid(build_t *build, selvage_status_t before, selvage_grid_t **grid_out)
{
    selvage_comm_t *comm = build->comm;
    const int count = count_ranks(build);
    uint64_t unused = 0;
    for (int d = 0; d < SELVAGE_DIMS_MAX; d++)
        if (build->params.width[d] == 0)
            build->params.width[d] = 1;
    selvage_status_t status = before != SELVAGE_SUCCESS ? before : build_locally(build);
    SV_TRY_GOTO(status, sv_grid_agree(build->call, comm, build->grid, &build->params, status), fail);
    selvage_grid_t *grid = build->grid;

    /* Who is where, and what that means for the surfaces. On one node nobody needs to be asked. */
    if (build->node_of_rank) {
        SV_TRY_GOTO(status, sv_grid_gather_nodes(build->call, &build->team, build->node_of_rank), fail);
        SV_TRY_GOTO(status, sv_agree(comm, build->call, SV_GRID_AGREE_PLACES, place_blocks(build), &unused,
                                     comm->timeout_s), fail);
    }
    sv_team_fini(&build->team);
    sv_free(build->node_of_rank);

    /* Rank order needs no maps. */
    if (grid->rank_of_block && is_rank_order(grid->rank_of_block, count)) {
        sv_free(grid->rank_of_block);
        sv_free(grid->block_of_rank);
        grid->rank_of_block = grid->block_of_rank = NULL;
    }
    for (int b = 0; grid->rank_of_block && b < count; b++)
        grid->block_of_rank[grid->rank_of_block[b]] = b;

    /* The own block. */
    sv_grid_coords(grid, comm->wire->rank, grid->coords);
    for (int d = 0; d < SELVAGE_DIMS_MAX; d++) {
        grid->first[d] = grid->start[d][grid->coords[d]];
        grid->local[d] = sv_grid_extent(grid, d, grid->coords[d]);
    }
    for (int d = 0; d < grid->ndims; d++)
        grid->surface_cells += 2 * sv_grid_plane_cells(grid->ndims, grid->global, build->params.width, d) *
                               sv_grid_cuts(grid->periodic[d], grid->blocks[d]);
    *grid_out = grid;
    return SELVAGE_SUCCESS;
fail:
    sv_team_fini(&build->team);
    sv_free(build->node_of_rank);
    sv_grid_destroy(build->grid);
    return status;
}

selvage_status_t sv_grid_create(selvage_comm_t *comm, const selvage_grid_params_t *params, selvage_grid_t **grid_out)
{
    build_t build = {.call = "selvage_grid_create", .comm = comm, .params = *params};
    return create_grid(&build, SELVAGE_SUCCESS, grid_out);
}

/* Writes down what MPI has decided as if the caller had asked for it. *rank_of_block_out is the caller's to free. */
static selvage_status_t adopt_cart(build_t *build, MPI_Comm mpi_cart, int **rank_of_block_out)
{
    selvage_grid_params_t *p = &build->params;
    sv_wire_cart_t cart;
    SV_TRY(sv_wire_mpi_cart_read(build->call, build->comm->wire, mpi_cart, &cart));
    *rank_of_block_out = cart.rank_of_block;
    if (p->ndims != 0 && p->ndims != cart.ndims)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: ndims is %d, but cart has %d dimensions; wanted that or 0",
                        build->call, p->ndims, cart.ndims);
    for (int d = 0; d < cart.ndims; d++)
        if (p->periodic[d] || p->blocks[d])
            return sv_error(SELVAGE_ERR_ARGUMENT, "%s: %s[%d] is %d; wanted 0, because cart decides it", build->call,
                            p->blocks[d] ? "blocks" : "periodic", d, p->blocks[d] ? p->blocks[d] : p->periodic[d]);
    if (p->ranks || p->reorder)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: %s is given; wanted 0, because cart decides it", build->call,
                        p->ranks ? "ranks" : "reorder");
    p->ndims = cart.ndims;
    memcpy(p->blocks, cart.dims, sizeof p->blocks);
    memcpy(p->periodic, cart.periods, sizeof p->periodic);
    p->ranks = cart.rank_of_block;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_grid_create_cart(selvage_comm_t *comm, MPI_Comm cart, const selvage_grid_params_t *params,
                                     selvage_grid_t **grid_out)
{
    int *rank_of_block = NULL;
    build_t build = {.call = "selvage_grid_create_cart", .comm = comm, .params = *params};
    selvage_status_t status = adopt_cart(&build, cart, &rank_of_block);
    status = create_grid(&build, status, grid_out);
    sv_free(rank_of_block);
    return status;
}

selvage_status_t sv_grid_refuse(const char *call, selvage_comm_t *comm, selvage_status_t status)
{
    return sv_grid_agree(call, comm, NULL, NULL, status);
}

void sv_grid_destroy(selvage_grid_t *grid)
{
    if (!grid)
        return;
    if (grid->nhalos > 0) {
        sv_log(SV_LOG_WARN, "grid", "a grid is destroyed before %d of its halos; it stays, because they use it",
               grid->nhalos);
        return;
    }
    for (int d = 0; d < SELVAGE_DIMS_MAX; d++)
        sv_free(grid->start[d]);
    sv_free(grid->rank_of_block);
    sv_free(grid->block_of_rank);
    sv_free(grid);
}
