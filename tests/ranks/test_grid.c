/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Grids against a reference that is written down as naively as the header describes them: for 1 to 16 ranks in 1 to 4
 * dimensions, random extents, periods, numbers of blocks, splits, maps, widths and nodes. Every rank looks at every
 * block. Interior and boundary are compared cell by cell. A first argument sets the seed.
 */
#include <stdlib.h>

#include "fixtures/check.h"
#include "fixtures/local_ranks.h"
#include <selvage/grid.h>

enum { DIMS = SELVAGE_DIMS_MAX, RANKS_MAX = 16, CASES = 12 };

/* What all ranks ask for. */
typedef struct task {
    selvage_grid_params_t params;
    int64_t split[DIMS][RANKS_MAX];
    int ranks[RANKS_MAX];
} task_t;

typedef struct tasks {
    uint64_t seed;
    int ranks_per_node;
    task_t task[CASES];
} tasks_t;

static int cuts(const selvage_grid_params_t *p, int d, int blocks)
{
    return p->periodic[d] && blocks > 1 ? blocks : blocks - 1;
}

static int64_t cut_cells(const selvage_grid_params_t *p, const int *blocks)
{
    int64_t sum = 0;
    for (int d = 0; d < p->ndims; d++) {
        int64_t plane = p->width[d] ? p->width[d] : 1;
        for (int e = 0; e < p->ndims; e++)
            plane *= e == d ? 1 : p->global_extent[e];
        sum += plane * cuts(p, d, blocks[d]);
    }
    return sum;
}

/* Whether a, of equal cost, is to be taken before b. */
static bool is_later(const int *a, const int *b)
{
    for (int d = DIMS - 1; d >= 0; d--)
        if (a[d] != b[d])
            return a[d] > b[d];
    return false;
}

/* All numbers of blocks up to size in every dimension. False if none will do. */
static bool best_blocks(const selvage_grid_params_t *p, int size, int *best)
{
    int blocks[DIMS], limit[DIMS];
    bool found = false;
    for (int d = 0; d < DIMS; d++)
        limit[d] = d < p->ndims ? size : 1;
    for (blocks[0] = 1; blocks[0] <= limit[0]; blocks[0]++)
        for (blocks[1] = 1; blocks[1] <= limit[1]; blocks[1]++)
            for (blocks[2] = 1; blocks[2] <= limit[2]; blocks[2]++)
                for (blocks[3] = 1; blocks[3] <= limit[3]; blocks[3]++) {
                    bool fits = blocks[0] * blocks[1] * blocks[2] * blocks[3] == size;
                    for (int d = 0; d < p->ndims; d++)
                        fits &= blocks[d] <= p->global_extent[d] && (!p->blocks[d] || p->blocks[d] == blocks[d]);
                    if (!fits)
                        continue;
                    int64_t more = found ? cut_cells(p, blocks) - cut_cells(p, best) : -1;
                    if (more < 0 || (more == 0 && is_later(blocks, best)))
                        memcpy(best, blocks, sizeof blocks);
                    found = true;
                }
    return found;
}

/* Where the blocks of a dimension begin. */
static void make_starts(const selvage_grid_params_t *p, int d, int blocks, int64_t *start)
{
    start[0] = 0;
    for (int c = 0; c < blocks; c++) {
        int64_t own = p->global_extent[d] / blocks;
        if (c < p->global_extent[d] % blocks)
            own++;
        start[c + 1] = start[c] + (p->split[d] ? p->split[d][c] : own);
    }
}

static uint64_t random_below(tasks_t *tasks, uint64_t bound)
{
    return local_ranks_random(&tasks->seed, bound);
}

static void make_split(tasks_t *tasks, task_t *task, int d)
{
    int blocks = task->params.blocks[d];
    int64_t spare = task->params.global_extent[d] - blocks;
    for (int c = 0; c < blocks; c++) {
        int64_t more = c == blocks - 1 ? spare : (int64_t)random_below(tasks, (uint64_t)spare + 1);
        task->split[d][c] = 1 + more;
        spare -= more;
    }
    task->params.split[d] = task->split[d];
}

static void make_ranks(tasks_t *tasks, task_t *task, int size)
{
    for (int b = 0; b < size; b++) {
        int other = (int)random_below(tasks, (uint64_t)b + 1);
        task->ranks[b] = task->ranks[other];
        task->ranks[other] = b;
    }
    task->params.ranks = task->ranks;
}

static void make_task(tasks_t *tasks, task_t *task, int size)
{
    int blocks[DIMS];
    selvage_grid_params_t *p = &task->params;
    do {
        *task = (task_t){.params = {SELVAGE_GRID_PARAMS_INIT, .ndims = 1 + (int)random_below(tasks, DIMS)}};
        bool cube = random_below(tasks, 3) == 0; /* where many numbers of blocks are equally good */
        for (int d = 0; d < p->ndims; d++) {
            p->global_extent[d] = 1 + (int64_t)random_below(tasks, p->ndims > 2 ? 7 : 40);
            p->periodic[d] = (int)random_below(tasks, 2) * 5;
            p->width[d] = (int)random_below(tasks, 4);
            if (!cube || d == 0)
                continue;
            p->global_extent[d] = p->global_extent[0];
            p->periodic[d] = p->periodic[0];
            p->width[d] = p->width[0];
        }
    } while (!best_blocks(p, size, blocks));
    unsigned given = (unsigned)random_below(tasks, 32);
    for (int d = 0; d < p->ndims; d++)
        if (given & 1U << d || given >= 16)
            p->blocks[d] = blocks[d];
    for (int d = 0; d < p->ndims; d++)
        if (p->blocks[d] && random_below(tasks, 2))
            make_split(tasks, task, d);
    if (given >= 16 && random_below(tasks, 2))
        make_ranks(tasks, task, size);
    else
        p->reorder = (int)random_below(tasks, 2);
}

/* The grid as it should be. The map of ranks is the grid's own where it may choose; it is checked to be a map. */
typedef struct reference {
    const selvage_grid_params_t *p;
    int size, blocks[DIMS];
    int64_t start[DIMS][RANKS_MAX + 1];
    int rank_of_block[RANKS_MAX], coords[RANKS_MAX][DIMS];
} reference_t;

static int block_number(const reference_t *ref, const int *coords)
{
    int block = 0, stride = 1;
    for (int d = 0; d < ref->p->ndims; d++) {
        if (coords[d] < 0 || coords[d] >= ref->blocks[d])
            return -1;
        block += stride * coords[d];
        stride *= ref->blocks[d];
    }
    return block;
}

/* False: the rest need not be compared. */
static bool make_reference(const selvage_grid_t *grid, const selvage_grid_params_t *p, int size, reference_t *ref)
{
    bool right = true;
    *ref = (reference_t){.p = p, .size = size};
    CHECK(best_blocks(p, size, ref->blocks));
    for (int d = 0; d < p->ndims; d++)
        make_starts(p, d, ref->blocks[d], ref->start[d]);
    for (int b = 0; b < size; b++)
        ref->rank_of_block[b] = -1;
    for (int r = 0; r < size; r++) {
        CHECK_STATUS(selvage_grid_coords(grid, r, ref->coords[r]), SELVAGE_SUCCESS);
        int block = block_number(ref, ref->coords[r]);
        bool new_one = block >= 0 && block < size && ref->rank_of_block[block] == -1;
        CHECK(new_one);
        if (new_one)
            ref->rank_of_block[block] = r;
        right &= new_one;
    }
    for (int b = 0; b < size && (p->ranks || !p->reorder); b++)
        CHECK_EQ(ref->rank_of_block[b], p->ranks ? p->ranks[b] : b);
    return right;
}

/* Rank at coords that may lie outside. */
static int rank_at(const reference_t *ref, const int *coords)
{
    int wrapped[DIMS];
    for (int d = 0; d < ref->p->ndims; d++) {
        wrapped[d] = coords[d];
        while (ref->p->periodic[d] && wrapped[d] < 0)
            wrapped[d] += ref->blocks[d];
        while (ref->p->periodic[d] && wrapped[d] >= ref->blocks[d])
            wrapped[d] -= ref->blocks[d];
    }
    int block = block_number(ref, wrapped);
    return block < 0 ? -1 : ref->rank_of_block[block];
}

static void check_ranks(const selvage_grid_t *grid, const reference_t *ref, tasks_t *tasks)
{
    for (int i = 0; i < 60; i++) {
        int coords[DIMS], rank = 77;
        for (int d = 0; d < ref->p->ndims; d++)
            coords[d] = (int)random_below(tasks, 3 * (uint64_t)ref->blocks[d]) - ref->blocks[d];
        CHECK_STATUS(selvage_grid_rank(grid, coords, &rank), SELVAGE_SUCCESS);
        CHECK_EQ(rank, rank_at(ref, coords));
    }
}

static void check_neighbours(const selvage_grid_t *grid, const reference_t *ref, int own)
{
    int all = 1;
    for (int d = 0; d < ref->p->ndims; d++)
        all *= 3;
    for (int i = 0; i < all; i++) {
        int offset[DIMS], coords[DIMS], rank = 77;
        for (int d = 0, rest = i; d < ref->p->ndims; d++, rest /= 3) {
            offset[d] = rest % 3 - 1;
            coords[d] = ref->coords[own][d] + offset[d];
        }
        CHECK_STATUS(selvage_grid_neighbour(grid, offset, &rank), SELVAGE_SUCCESS);
        CHECK_EQ(rank, rank_at(ref, coords));
    }
}

static void check_blocks(const selvage_grid_t *grid, const reference_t *ref)
{
    for (int r = 0; r < ref->size; r++) {
        int64_t extent[DIMS], first[DIMS];
        CHECK_STATUS(selvage_grid_block(grid, r, extent, first), SELVAGE_SUCCESS);
        for (int d = 0; d < ref->p->ndims; d++) {
            const int64_t *start = &ref->start[d][ref->coords[r][d]];
            CHECK_EQ(first[d], start[0]);
            CHECK_EQ(extent[d], start[1] - start[0]);
        }
    }
    CHECK_STATUS(selvage_grid_block(grid, 0, NULL, NULL), SELVAGE_SUCCESS);
}

/* Cells that cross faces, both ways, between ranks for which the nodes differ; ranks_per_node 0: between any two. */
static int64_t count_surface(const reference_t *ref, bool in_rank_order, int ranks_per_node)
{
    int64_t sum = 0;
    int c[DIMS], to[DIMS];
    for (int b = 0; b < ref->size; b++)
        for (int d = 0; d < ref->p->ndims; d++)
            for (int side = -1; side <= 1; side += 2) {
                int64_t cells = ref->p->width[d] ? ref->p->width[d] : 1;
                for (int e = 0, rest = b; e < ref->p->ndims; rest /= ref->blocks[e], e++) {
                    c[e] = to[e] = rest % ref->blocks[e];
                    cells *= e == d ? 1 : ref->start[e][c[e] + 1] - ref->start[e][c[e]];
                }
                to[d] += side;
                if (ref->p->periodic[d])
                    to[d] = (to[d] + ref->blocks[d]) % ref->blocks[d];
                int other = block_number(ref, to);
                if (other < 0 || other == b)
                    continue;
                int from_rank = in_rank_order ? b : ref->rank_of_block[b];
                int to_rank = in_rank_order ? other : ref->rank_of_block[other];
                if (!ranks_per_node || from_rank / ranks_per_node != to_rank / ranks_per_node)
                    sum += cells;
            }
    return sum;
}

static void check_info(const selvage_grid_t *grid, const reference_t *ref, int own, int ranks_per_node)
{
    selvage_grid_info_t info = {SELVAGE_GRID_INFO_INIT};
    CHECK_STATUS(selvage_grid_describe(grid, &info), SELVAGE_SUCCESS);
    CHECK_EQ(info.struct_size, sizeof info);
    CHECK_EQ(info.ndims, ref->p->ndims);
    for (int d = 0; d < DIMS; d++) {
        bool there = d < info.ndims;
        int c = there ? ref->coords[own][d] : 0;
        CHECK_EQ(info.global_extent[d], there ? ref->p->global_extent[d] : 1);
        CHECK_EQ(info.periodic[d], there && ref->p->periodic[d]);
        CHECK_EQ(info.blocks[d], there ? ref->blocks[d] : 1);
        CHECK_EQ(info.coords[d], c);
        CHECK_EQ(info.local_first[d], there ? ref->start[d][c] : 0);
        CHECK_EQ(info.local_extent[d], there ? ref->start[d][c + 1] - ref->start[d][c] : 1);
    }
    int per_node = ranks_per_node ? ranks_per_node : ref->size;
    CHECK_EQ(info.surface_cells, count_surface(ref, false, 0));
    CHECK_EQ(info.surface_cells, 2 * cut_cells(ref->p, ref->blocks));
    CHECK_EQ(info.surface_cells_between_nodes, count_surface(ref, false, per_node));
    CHECK_EQ(info.surface_cells_in_rank_order, count_surface(ref, true, per_node));
    if (ref->p->reorder)
        CHECK(info.surface_cells_between_nodes <= info.surface_cells_in_rank_order);
}

static bool is_inside(const selvage_box_t *box, const int64_t *cell)
{
    for (int d = 0; d < DIMS; d++)
        if (cell[d] < box->first[d] || cell[d] >= box->end[d])
            return false;
    return true;
}

/* Whether the stencil of a cell reaches what comes from elsewhere. */
static bool needs_halo(const reference_t *ref, int own, const int64_t *extent, const int64_t *cell, const int *lo,
                       const int *hi)
{
    for (int d = 0; d < ref->p->ndims; d++) {
        bool below = ref->p->periodic[d] || ref->coords[own][d] > 0;
        bool above = ref->p->periodic[d] || ref->coords[own][d] < ref->blocks[d] - 1;
        if ((below && cell[d] - lo[d] < 0) || (above && cell[d] + hi[d] >= extent[d]))
            return true;
    }
    return false;
}

/* The slab of a cell at the boundary: the first dimension that is near an end says which; the lower side goes first. */
static int slab_of(const reference_t *ref, int own, const int64_t *extent, const int64_t *cell, const int *lo,
                   const int *hi)
{
    for (int d = 0; d < ref->p->ndims; d++) {
        if ((ref->p->periodic[d] || ref->coords[own][d] > 0) && cell[d] < lo[d])
            return 2 * d;
        if ((ref->p->periodic[d] || ref->coords[own][d] < ref->blocks[d] - 1) && cell[d] >= extent[d] - hi[d])
            return 2 * d + 1;
    }
    return -1;
}

static void check_boxes(const selvage_grid_t *grid, const reference_t *ref, int own, tasks_t *tasks)
{
    int lo[DIMS], hi[DIMS], wrong = 0;
    int64_t extent[DIMS] = {1, 1, 1, 1}, first[DIMS], cell[DIMS];
    selvage_box_t inner, slab[2 * DIMS];
    for (int d = 0; d < DIMS; d++) {
        lo[d] = (int)random_below(tasks, 4);
        hi[d] = (int)random_below(tasks, 4);
    }
    CHECK_STATUS(selvage_grid_block(grid, own, extent, first), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_grid_interior(grid, lo, hi, &inner), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_grid_boundary(grid, lo, hi, slab), SELVAGE_SUCCESS);
    /* One cell beyond the block on every side belongs to no box. */
    for (cell[0] = -1; cell[0] <= extent[0]; cell[0]++)
        for (cell[1] = -1; cell[1] <= extent[1]; cell[1]++)
            for (cell[2] = -1; cell[2] <= extent[2]; cell[2]++)
                for (cell[3] = -1; cell[3] <= extent[3]; cell[3]++) {
                    bool mine = true;
                    for (int d = 0; d < DIMS; d++)
                        mine &= cell[d] >= 0 && cell[d] < extent[d];
                    bool edge = mine && needs_halo(ref, own, extent, cell, lo, hi);
                    int wanted = edge ? slab_of(ref, own, extent, cell, lo, hi) : -1;
                    wrong += is_inside(&inner, cell) != (mine && !edge);
                    for (int s = 0; s < 2 * ref->p->ndims; s++)
                        wrong += is_inside(&slab[s], cell) != (s == wanted);
                }
    CHECK_EQ(wrong, 0);
}

static void run_tasks(local_rank_t *self)
{
    const tasks_t *shared = self->arg;
    tasks_t own = {.seed = shared->seed + (uint64_t)self->rank}; /* ranks look at different places */
    for (int i = 0; i < CASES; i++) {
        const selvage_grid_params_t *p = &shared->task[i].params;
        selvage_grid_t *grid = NULL;
        reference_t ref;
        CHECK_STATUS(selvage_grid_create(self->comm, p, &grid), SELVAGE_SUCCESS);
        if (!grid)
            return;
        if (make_reference(grid, p, self->size, &ref)) {
            check_info(grid, &ref, self->rank, shared->ranks_per_node);
            check_ranks(grid, &ref, &own);
            check_neighbours(grid, &ref, self->rank);
            check_blocks(grid, &ref);
            check_boxes(grid, &ref, self->rank, &own);
        }
        selvage_grid_destroy(grid);
    }
}

static void test_size(int size, int ranks_per_node, uint64_t seed)
{
    static tasks_t tasks;
    tasks = (tasks_t){.seed = seed, .ranks_per_node = ranks_per_node};
    for (int i = 0; i < CASES; i++)
        make_task(&tasks, &tasks.task[i], size);
    long failed = atomic_load(&check_failed_);
    local_ranks_run(&(local_run_t){.size = size, .ranks_per_node = ranks_per_node, .body = run_tasks, .arg = &tasks});
    if (atomic_load(&check_failed_) != failed)
        fprintf(stderr, "-- %d ranks, %d per node, seed %llu\n", size, ranks_per_node, (unsigned long long)seed);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    local_ranks_env("");
    printf("seed %llu\n", (unsigned long long)seed);
    for (int size = 1; size <= RANKS_MAX; size++)
        test_size(size, (int)((seed + (uint64_t)size) % 5), seed * 1000 + (uint64_t)size);
    local_ranks_mode("PROGRESS=thread");
    test_size(6, 2, seed);
    return check_report("test_grid");
}
