/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which rank gets which block, so that few cells cross nodes. Three placements are made and the best one is polished:
 *
 *   rank order   the one that must not be beaten: what is returned is never worse
 *   tiles        where all nodes have equally many ranks: the grid of blocks is cut into equal boxes, one per node, as
 *                ranks are cut by grid_factor.c; the best there is where every node can have such a box
 *   growth       node after node takes the block that shares most with those it has, until it is full
 *
 *   polish       two blocks of different nodes change places as long as that helps (Kernighan and Lin 1970 exchange
 *                pairs so, but along longer chains)
 *
 * Whole numbers and ties by lowest number make the result the same on all ranks. Time is about the number of blocks
 * times that of ranks per node. Where that is much, polishing is left out. Local; one thread.
 */
#include "grid/grid_parts.h"

#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"

static const int64_t POLISH_STEPS_MAX = 1 << 23; /* below a second for a pass over all that may change places */
enum { PASSES_MAX = 16 };

typedef struct places {
    const selvage_grid_t *grid;
    const int *width;
    int nblocks, nnodes;
    int *seats;     /* of every node: how many ranks it has; owned by sv_grid_place(), as all below */
    int *offset;    /* of every node: where its blocks begin in members; nnodes + 1 */
    int *node;      /* of every block: the placement at hand; -1: none yet */
    int *best;      /* the best so far */
    int64_t best_cells;
    int *members;   /* blocks, sorted by their nodes */
    int *position;  /* of every block in members */
    int *frontier;  /* blocks that touch the node that grows */
} places_t;

/* Keeps the placement at hand if it is better than the best so far. */
static void keep_if_better(places_t *p)
{
    int64_t cells = sv_grid_surface(p->grid, p->width, p->node);
    if (cells >= p->best_cells)
        return;
    p->best_cells = cells;
    memcpy(p->best, p->node, (size_t)p->nblocks * sizeof *p->node);
}

static void try_tiles(places_t *p)
{
    const selvage_grid_t *grid = p->grid;
    sv_grid_factor_t wanted = {.ndims = grid->ndims};
    int tiles[SELVAGE_DIMS_MAX] = {1, 1, 1, 1};
    for (int n = 1; n < p->nnodes; n++)
        if (p->seats[n] != p->seats[0])
            return;
    for (int d = 0; d < grid->ndims; d++) {
        wanted.periodic[d] = grid->periodic[d];
        wanted.plane_cells[d] = sv_grid_plane_cells(grid->ndims, grid->global, p->width, d);
        wanted.most[d] = wanted.divisor_of[d] = grid->blocks[d];
    }
    if (!sv_grid_factor(&wanted, p->nnodes, tiles))
        return;
    for (int b = 0; b < p->nblocks; b++) {
        int node = 0, stride = 1, rest = b;
        for (int d = 0; d < grid->ndims; d++) {
            node += stride * (rest % grid->blocks[d] / (grid->blocks[d] / tiles[d]));
            stride *= tiles[d];
            rest /= grid->blocks[d];
        }
        p->node[b] = node;
    }
    keep_if_better(p);
}

/* Cells between a block and the blocks of a node. */
static int64_t shared_cells(const places_t *p, int block, int node)
{
    sv_grid_face_t face[2 * SELVAGE_DIMS_MAX];
    int64_t cells = 0;
    for (int n = sv_grid_faces(p->grid, p->width, block, face) - 1; n >= 0; n--)
        if (p->node[face[n].block] == node)
            cells += face[n].cells;
    return cells;
}

/* Gives a block to a node. Neighbours without a node join the frontier, which has each block once. */
static int give_block_to_node(places_t *p, int block, int node, int waiting)
{
    sv_grid_face_t face[2 * SELVAGE_DIMS_MAX];
    p->node[block] = node;
    for (int n = sv_grid_faces(p->grid, p->width, block, face) - 1; n >= 0; n--) {
        int other = face[n].block;
        if (p->node[other] >= 0 || p->position[other] == node + 1)
            continue;
        p->position[other] = node + 1;
        p->frontier[waiting++] = other;
    }
    return waiting;
}

/* Takes the block out of the frontier that shares most with the node; of equals the lowest. */
static int pick_from_frontier(places_t *p, int node, int *waiting)
{
    int found = -1;
    int64_t most = -1;
    for (int i = 0; i < *waiting; i++) {
        int64_t cells = shared_cells(p, p->frontier[i], node);
        if (cells < most || (cells == most && p->frontier[i] > p->frontier[found]))
            continue;
        most = cells;
        found = i;
    }
    int block = p->frontier[found];
    p->frontier[found] = p->frontier[--*waiting];
    return block;
}

static void try_growth(places_t *p)
{
    int first = 0;
    for (int b = 0; b < p->nblocks; b++) {
        p->node[b] = -1;
        p->position[b] = 0; /* here: the node, plus 1, whose frontier the block was in last */
    }
    for (int node = 0; node < p->nnodes; node++) {
        int waiting = 0;
        for (int seat = 0; seat < p->seats[node]; seat++) {
            while (waiting == 0 && p->node[first] >= 0)
                first++;
            int block = waiting ? pick_from_frontier(p, node, &waiting) : first;
            waiting = give_block_to_node(p, block, node, waiting);
        }
    }
    keep_if_better(p);
}

/* Sorts the blocks by their nodes. */
static void list_members(places_t *p, const int *node)
{
    int *next = p->frontier;
    memcpy(next, p->offset, (size_t)p->nnodes * sizeof *next);
    for (int b = 0; b < p->nblocks; b++) {
        p->position[b] = next[node[b]]++;
        p->members[p->position[b]] = b;
    }
}

/* What crosses less if two blocks change places. */
static int64_t swap_gain(const places_t *p, int a, int b, int64_t a_gains)
{
    sv_grid_face_t face[2 * SELVAGE_DIMS_MAX];
    int64_t cells = a_gains;
    for (int n = sv_grid_faces(p->grid, p->width, b, face) - 1; n >= 0; n--) {
        if (face[n].block == a)
            cells -= 2 * face[n].cells; /* they stay apart, but both sides have counted on it */
        if (p->node[face[n].block] == p->node[a])
            cells += face[n].cells;
        else if (p->node[face[n].block] == p->node[b])
            cells -= face[n].cells;
    }
    return cells;
}

/* Moves a to a node beside it, in exchange for the block of that node that gains most, if anything is gained. */
static bool improve_block(places_t *p, int a, int node)
{
    int64_t a_gains = shared_cells(p, a, node) - shared_cells(p, a, p->node[a]), most = 0;
    int b = -1;
    for (int i = p->offset[node]; i < p->offset[node + 1]; i++) {
        int64_t cells = swap_gain(p, a, p->members[i], a_gains);
        if (cells < most || (cells == most && (b < 0 || p->members[i] > b)))
            continue;
        most = cells;
        b = p->members[i];
    }
    if (b < 0)
        return false;
    int kept = p->node[a], position = p->position[a];
    p->node[a] = p->node[b];
    p->node[b] = kept;
    p->position[a] = p->position[b];
    p->position[b] = position;
    p->members[p->position[a]] = a;
    p->members[p->position[b]] = b;
    return true;
}

static bool improve_all(places_t *p)
{
    sv_grid_face_t face[2 * SELVAGE_DIMS_MAX];
    bool improved = false;
    for (int a = 0; a < p->nblocks; a++)
        for (int n = sv_grid_faces(p->grid, p->width, a, face) - 1; n >= 0; n--)
            if (p->node[face[n].block] != p->node[a])
                improved |= improve_block(p, a, p->node[face[n].block]);
    return improved;
}

static void improve_best(places_t *p)
{
    int most = 0;
    for (int n = 0; n < p->nnodes; n++)
        most = p->seats[n] > most ? p->seats[n] : most;
    if ((int64_t)p->nblocks * most > POLISH_STEPS_MAX)
        return;
    memcpy(p->node, p->best, (size_t)p->nblocks * sizeof *p->node);
    list_members(p, p->node);
    for (int pass = 0; pass < PASSES_MAX && improve_all(p); pass++)
        ;
    keep_if_better(p);
}

selvage_status_t sv_grid_place(const selvage_grid_t *grid, const int *width, const int *node_of_rank,
                               int *rank_of_block)
{
    places_t p = {.grid = grid, .width = width, .nblocks = 1};
    int **array[] = {&p.seats, &p.offset, &p.node, &p.best, &p.members, &p.position, &p.frontier};
    const size_t narrays = sizeof array / sizeof array[0];
    selvage_status_t status = SELVAGE_SUCCESS;
    for (int d = 0; d < grid->ndims; d++)
        p.nblocks *= grid->blocks[d];
    for (size_t i = 0; i < narrays; i++)
        SV_TRY_GOTO(status, sv_calloc((size_t)p.nblocks + 1, sizeof(int), array[i]), out);
    for (int r = 0; r < p.nblocks; r++) {
        p.seats[node_of_rank[r]]++;
        if (p.nnodes <= node_of_rank[r])
            p.nnodes = node_of_rank[r] + 1;
    }
    for (int n = 0; n < p.nnodes; n++)
        p.offset[n + 1] = p.offset[n] + p.seats[n];

    /* The three placements, and the polish of the best. */
    memcpy(p.best, node_of_rank, (size_t)p.nblocks * sizeof *p.best);
    p.best_cells = sv_grid_surface(grid, width, node_of_rank);
    try_tiles(&p);
    try_growth(&p);
    improve_best(&p);

    /* Ranks of a node take its blocks in order. */
    list_members(&p, p.best);
    int *next = p.frontier;
    memcpy(next, p.offset, (size_t)p.nnodes * sizeof *next);
    for (int r = 0; r < p.nblocks; r++)
        rank_of_block[p.members[next[node_of_rank[r]]++]] = r;
out:
    for (size_t i = 0; i < narrays; i++)
        sv_free(*array[i]);
    return status;
}
