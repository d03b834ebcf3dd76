/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where ranks are placed, without any ranks: never worse than rank order, every rank once, and for small grids compared
 * with all placements there are. Nodes have equally many ranks or not, in runs or dealt out in turns. The number of
 * random cases can be given as second argument, the seed as first.
 */
#include <stdlib.h>

#include "base/base_memory.h"
#include "fixtures/check.h"
#include "grid/grid_parts.h"
#include "fixtures/local_ranks.h"

enum { BLOCKS_MAX = 4096, SMALL = 9, CASES = 400 };

typedef struct scene {
    selvage_grid_t grid;
    int64_t start[SELVAGE_DIMS_MAX][BLOCKS_MAX + 1];
    int width[SELVAGE_DIMS_MAX];
    int nblocks, nnodes;
    int node_of_rank[BLOCKS_MAX], rank_of_block[BLOCKS_MAX];
} scene_t;

static scene_t scene; /* large */

static void set_blocks(scene_t *s, int ndims, const int *blocks, const int64_t *cells, unsigned periodic)
{
    memset(s, 0, sizeof *s);
    s->grid.ndims = ndims;
    s->nblocks = 1;
    for (int d = 0; d < SELVAGE_DIMS_MAX; d++) {
        bool there = d < ndims;
        s->grid.blocks[d] = there ? blocks[d] : 1;
        s->grid.global[d] = there ? cells[d] : 1;
        s->grid.periodic[d] = there && (periodic & 1U << d);
        s->grid.start[d] = s->start[d];
        s->width[d] = 1;
        for (int c = 0; c <= s->grid.blocks[d]; c++)
            s->start[d][c] = s->grid.global[d] * c / s->grid.blocks[d];
        s->nblocks *= s->grid.blocks[d];
    }
}

/* Nodes are numbered in the order of their lowest ranks. */
static void set_nodes(scene_t *s, int per_node, bool in_turns)
{
    s->nnodes = (s->nblocks + per_node - 1) / per_node;
    for (int r = 0; r < s->nblocks; r++)
        s->node_of_rank[r] = in_turns ? r % s->nnodes : r / per_node;
}

static int64_t cells_of(const scene_t *s, const int *node_of_block)
{
    return sv_grid_surface(&s->grid, s->width, node_of_block);
}

static int64_t placed_cells(const scene_t *s)
{
    int node[BLOCKS_MAX];
    for (int b = 0; b < s->nblocks; b++)
        node[b] = s->node_of_rank[s->rank_of_block[b]];
    return cells_of(s, node);
}

static void place(scene_t *s)
{
    char seen[BLOCKS_MAX] = {0};
    int missing = 0;
    CHECK_STATUS(sv_grid_place(&s->grid, s->width, s->node_of_rank, s->rank_of_block), SELVAGE_SUCCESS);
    for (int b = 0; b < s->nblocks; b++)
        if (s->rank_of_block[b] >= 0 && s->rank_of_block[b] < s->nblocks)
            seen[s->rank_of_block[b]]++;
    for (int r = 0; r < s->nblocks; r++)
        missing += seen[r] != 1;
    CHECK_EQ(missing, 0);
}

/* The best of all placements, block after block. */
static int64_t try_all(const scene_t *s, int *node_of_block, int *seats, int block, int64_t best)
{
    if (block == s->nblocks) {
        int64_t cells = cells_of(s, node_of_block);
        return best < 0 || cells < best ? cells : best;
    }
    for (int n = 0; n < s->nnodes; n++) {
        if (seats[n] == 0)
            continue;
        seats[n]--;
        node_of_block[block] = n;
        best = try_all(s, node_of_block, seats, block + 1, best);
        seats[n]++;
    }
    return best;
}

static int64_t least_cells(const scene_t *s)
{
    int node_of_block[SMALL], seats[SMALL] = {0};
    for (int r = 0; r < s->nblocks; r++)
        seats[s->node_of_rank[r]]++;
    return try_all(s, node_of_block, seats, 0, -1);
}

static void set_random(scene_t *s, uint64_t *seed, int most)
{
    int blocks[SELVAGE_DIMS_MAX], ndims = 1 + (int)local_ranks_random(seed, SELVAGE_DIMS_MAX), product = 1;
    int64_t cells[SELVAGE_DIMS_MAX];
    for (int d = 0; d < ndims; d++) {
        blocks[d] = 1 + (int)local_ranks_random(seed, (uint64_t)(most / product < 6 ? most / product : 6));
        cells[d] = blocks[d] + (int64_t)local_ranks_random(seed, 9);
        product *= blocks[d];
    }
    set_blocks(s, ndims, blocks, cells, (unsigned)local_ranks_random(seed, 16));
    for (int d = 0; d < ndims; d++)
        s->width[d] = 1 + (int)local_ranks_random(seed, 3);
    set_nodes(s, 2 + (int)local_ranks_random(seed, 4), local_ranks_random(seed, 2));
}

static void test_random(uint64_t seed, int cases)
{
    int optimal = 0, better = 0, could = 0;
    for (int i = 0; i < cases; i++) {
        uint64_t before = seed;
        set_random(&scene, &seed, SMALL);
        place(&scene);
        int64_t ordered = cells_of(&scene, scene.node_of_rank), found = placed_cells(&scene);
        int64_t least = least_cells(&scene);
        bool good = found <= ordered && found >= least;
        CHECK(good);
        if (!good)
            fprintf(stderr, "seed %llu: %lld cells, %lld in rank order, %lld at best\n", (unsigned long long)before,
                    (long long)found, (long long)ordered, (long long)least);
        optimal += found == least;
        could += least < ordered;
        better += found < ordered;
    }
    printf("%d random grids: %d could be better than rank order, %d are; %d are best\n", cases, could, better, optimal);
    CHECK(could > cases / 4);
    CHECK(better >= could * 95 / 100);
    CHECK(optimal >= cases * 95 / 100);
}

/* Grids whose best placement is known: boxes. */
static void test_boxes(int ndims, const int *blocks, unsigned periodic, int per_node, bool in_turns, int64_t wanted)
{
    int64_t cells[SELVAGE_DIMS_MAX];
    for (int d = 0; d < ndims; d++)
        cells[d] = 16 * blocks[d];
    set_blocks(&scene, ndims, blocks, cells, periodic);
    set_nodes(&scene, per_node, in_turns);
    place(&scene);
    CHECK_EQ(placed_cells(&scene), wanted);
    printf("%d blocks, %d per node: %lld cells cross nodes, %lld in rank order\n", scene.nblocks, per_node,
           (long long)placed_cells(&scene), (long long)cells_of(&scene, scene.node_of_rank));
}

static void test_known(void)
{
    int line[] = {12}, square[] = {16, 16}, cube[] = {4, 4, 4}, four[] = {4, 2, 4, 4}, large[] = {16, 16, 16};
    test_boxes(1, line, 0, 4, true, 2 * 2);
    test_boxes(1, line, 1, 4, false, 3 * 2);
    test_boxes(2, square, 0, 16, false, (3 + 3) * 2 * 256);
    test_boxes(2, square, 3, 64, true, (2 + 2) * 2 * 256);
    test_boxes(3, cube, 0, 8, false, (1 + 1 + 1) * 2 * 64 * 64);
    test_boxes(3, cube, 0, 8, true, (1 + 1 + 1) * 2 * 64 * 64);
    /* 64 x 32 x 64 x 64 cells, 8 nodes: cut once in the three open dimensions of 64 */
    test_boxes(4, four, 2, 16, true, 3 * 2 * 32 * 64 * 64);
    test_boxes(3, large, 0, 512, true, (1 + 1 + 1) * 2 * 256 * 256);
}

/* No boxes fit. Still much better than dealing blocks out in turns. */
static void test_no_boxes(int per_node)
{
    int blocks[] = {12, 10, 8};
    int64_t cells[] = {120, 120, 120};
    set_blocks(&scene, 3, blocks, cells, 1);
    set_nodes(&scene, per_node, true);
    place(&scene);
    int64_t found = placed_cells(&scene), ordered = cells_of(&scene, scene.node_of_rank);
    printf("%d blocks, %d per node: %lld cells cross nodes, %lld in rank order\n", scene.nblocks, per_node,
           (long long)found, (long long)ordered);
    CHECK(found < ordered * 6 / 10);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    int cases = argc > 2 ? atoi(argv[2]) : CASES;
    printf("seed %llu\n", (unsigned long long)seed);
    test_random(seed, cases);
    test_known();
    test_no_boxes(7);
    test_no_boxes(11);
    test_no_boxes(101);
    CHECK_EQ(sv_memory_live(), 0);
    return check_report("test_grid_place");
}
