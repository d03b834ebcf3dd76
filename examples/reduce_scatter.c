/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter on the device. First a sum in shards that can be checked by hand: on four ranks
 *
 *     rank 0 gives  10 20 30 40
 *     rank 1 gives   1  2  3  4
 *     rank 2 gives   5 10 15 20
 *     rank 3 gives   2  4  6  8     and rank 0 gets 18, rank 1 36, rank 2 54, rank 3 72.
 *
 * Then a solver whose dot products are such sums: conjugate gradients for -laplace(u) = f on the unit square, on two
 * grids, so that the error against the known solution must fall by four. Collectives add in the order of ranks, so the
 * bits of the solution depend on the grid and the ranks, and not on the algorithm: SELVAGE_COLL_ALGO=oneshot, twoshot
 * and direct print the same table.
 *
 *     mpirun -n 4 reduce_scatter [--n POINTS]
 *
 * Read give_and_get() and dot(), which are all there is about collectives; the loops are in reduce_scatter_loops.cc.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "example_main.h"
#include "reduce.h"
#include "reduce_loops.h"
#include "reduce_scatter_loops.h"

enum { GRIDS = 2, PARTS = 256, STEPS_MAX = 100000 };
enum { SUM_NEW, SUM_OLD, SUM_PQ, SUM_FIRST, SUMS };

static const double tolerance = 1e-10; /* of the residual, to that of u = 0 */

/* Collectives, and the memory of a dot product, which is registered: kernels of other ranks read it where it is. */
typedef struct dots {
    example_t *ex;
    selvage_coll_t *coll;
    selvage_window_t *window;
    size_t nparts;
    double *parts, *shard, *own; /* on the device: of this rank, of all ranks for this one, their sum */
    double *sums;                /* on the device: results */
    double *seen;                /* pinned */
} dots_t;

typedef struct solver {
    example_t *ex;
    dots_t *dots;
    selvage_grid_t *grid;
    selvage_grid_info_t info;
    selvage_halo_t *halo;
    reducer_t reducer;
    double *tables;
    cg_points_t points;
    cg_update_t update;
} solver_t;

static void open_dots(dots_t *d, example_t *ex)
{
    void *memory, *seen;
    *d = (dots_t){.ex = ex, .nparts = (size_t)ex->ranks * PARTS};
    size_t bytes = (d->nparts + PARTS + 1 + SUMS) * sizeof(double);
    CHECK(selvage_coll_create(ex->comm, NULL, &d->coll));
    CHECK(selvage_device_malloc(ex->device, bytes, &memory));
    CHECK(selvage_device_host_malloc(ex->device, sizeof(double) * (size_t)(ex->ranks + SUMS), &seen));
    CHECK(selvage_coll_register(d->coll, memory, bytes, &d->window));
    d->parts = memory;
    d->shard = d->parts + d->nparts;
    d->own = d->shard + PARTS;
    d->sums = d->own + 1;
    d->seen = seen;
}

static void close_dots(dots_t *d)
{
    CHECK(selvage_coll_unregister(d->window));
    selvage_coll_destroy(d->coll);
    selvage_device_host_free(d->ex->device, d->seen);
    selvage_device_free(d->ex->device, d->parts);
}

/* Waits for the stream; what went wrong on the device is known then. */
static void fetch(const dots_t *d, const double *from, size_t count)
{
    CHECK(selvage_device_copy(d->ex->device, d->seen, from, count * sizeof(double), SELVAGE_COPY_DEVICE_TO_HOST,
                              d->ex->stream));
    CHECK(selvage_stream_synchronize(d->ex->device, d->ex->stream));
    CHECK(selvage_coll_error(d->coll));
}

/* The first four ranks give what the head of this file says; further ones the same again, with more numbers. */
static double given(int rank, int shard)
{
    static const int times[] = {10, 1, 5, 2};
    return times[rank % 4] * (shard + 1);
}

/* Every rank gives one number for each rank, and gets the sum of those for itself. */
static double give_and_get(const dots_t *d)
{
    example_t *ex = d->ex;
    for (int shard = 0; shard < ex->ranks; shard++)
        d->seen[shard] = given(ex->rank, shard);
    CHECK(selvage_device_copy(ex->device, d->parts, d->seen, (size_t)ex->ranks * sizeof(double),
                              SELVAGE_COPY_HOST_TO_DEVICE, ex->stream));
    CHECK(selvage_coll_reduce_scatter(d->coll, d->parts, d->shard, 1, SELVAGE_FLOAT64, SELVAGE_OP_SUM, ex->stream));
    fetch(d, d->shard, 1);
    return d->seen[0];
}

/* Returns 0 if every rank got what it should. */
static int sum_in_shards(const dots_t *d)
{
    double got = give_and_get(d), *all = calloc((size_t)d->ex->ranks, sizeof *all);
    int wrong = 0;
    if (all == NULL)
        example_fail("no memory for %d numbers", d->ex->ranks);
    MPI_Allgather(&got, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int rank = 0; rank < d->ex->ranks; rank++) {
        double expected = 0;
        for (int other = 0; other < d->ex->ranks; other++)
            expected += given(other, rank);
        wrong += all[rank] != expected;
        if (d->ex->rank != 0)
            continue;
        printf("rank %2d gives", rank);
        for (int shard = 0; shard < d->ex->ranks; shard++)
            printf(" %3.0f", given(rank, shard));
        printf("   gets %4.0f   expected %4.0f\n", all[rank], expected);
    }
    if (d->ex->rank == 0)
        printf("sum in shards: %s\n\n", wrong == 0 ? "right" : "WRONG");
    free(all);
    return wrong;
}

/*
 * The product of x and y over all ranks, on the device. Each rank sums in as many parts as all ranks together have
 * shares; a reduce-scatter adds what belongs to each, each adds up its share, and an all-reduce the shares.
 */
static void dot(const dots_t *d, const double *x, const double *y, size_t count, double *result)
{
    example_t *ex = d->ex;
    reduce_part_t parts = {d->nparts, count, x, y, d->parts};
    reduce_part_t share = {1, PARTS, d->shard, NULL, d->own};
    CHECK(device_loop_run(&reduce_dot, &parts, sizeof parts, ex->device, ex->stream));
    CHECK(selvage_coll_reduce_scatter(d->coll, d->parts, d->shard, PARTS, SELVAGE_FLOAT64, SELVAGE_OP_SUM, ex->stream));
    CHECK(device_loop_run(&reduce_sum, &share, sizeof share, ex->device, ex->stream));
    CHECK(selvage_coll_all_reduce(d->coll, d->own, result, 1, SELVAGE_FLOAT64, SELVAGE_OP_SUM, ex->stream));
}

/* x (1 - x) e^x and y (1 - y) e^-y, which no grid makes simple, and their second derivatives. */
static double solution(int dim, double t)
{
    return t * (1 - t) * exp(dim == 0 ? t : -t);
}

static double solution_second(int dim, double t)
{
    return dim == 0 ? -t * (t + 3) * exp(t) : (t - 1) * (4 - t) * exp(-t);
}

static void make_tables(solver_t *s)
{
    const int64_t *own = s->info.local_extent;
    size_t values = 2 * (size_t)(own[0] + own[1]);
    double *host, *next;
    CHECK(selvage_device_host_malloc(s->ex->device, values * sizeof(double), (void **)&host));
    CHECK(selvage_device_malloc(s->ex->device, values * sizeof(double), (void **)&s->tables));
    next = host;
    for (int d = 0; d < 2; d++) {
        s->points.value[d] = s->tables + (next - host);
        s->points.second[d] = s->points.value[d] + own[d];
        for (int64_t i = 0; i < own[d]; i++, next++) {
            double t = (double)(s->info.local_first[d] + i + 1) * s->points.h;
            next[0] = solution(d, t);
            next[own[d]] = solution_second(d, t);
        }
        next += own[d];
    }
    CHECK(selvage_device_copy(s->ex->device, s->tables, host, values * sizeof(double), SELVAGE_COPY_HOST_TO_DEVICE,
                              s->ex->stream));
    CHECK(selvage_stream_synchronize(s->ex->device, s->ex->stream));
    selvage_device_host_free(s->ex->device, host);
}

/* u, r, p and q one after the other, all zero; p has a halo. */
static void make_fields(solver_t *s)
{
    const int64_t *own = s->info.local_extent;
    size_t cells = (size_t)((own[0] + 2) * (own[1] + 2));
    void *memory;
    CHECK(selvage_device_malloc(s->ex->device, 4 * cells * sizeof(double), &memory));
    CHECK(selvage_device_fill(s->ex->device, memory, 0, 4 * cells * sizeof(double), s->ex->stream));
    double *u = memory, *r = u + cells, *p = r + cells, *q = p + cells;
    s->points = (cg_points_t){.n = (size_t)(own[0] * own[1]), .extent = {(uint32_t)own[0], (uint32_t)own[1]},
                              .pitch = own[0] + 2, .h = 1 / (double)(s->info.global_extent[0] + 1),
                              .u = u, .r = r, .p = p, .q = q};
    s->update = (cg_update_t){.n = cells, .u = u, .r = r, .p = p, .q = q};
    selvage_field_t field = {SELVAGE_FIELD_INIT, .data = p, .element_bytes = sizeof(double), .width_lo = {1, 1},
                             .width_hi = {1, 1}, .order = SELVAGE_ORDER_FIRST};
    CHECK(selvage_halo_create(s->grid, NULL, &field, 1, &s->halo));
}

static void open_solver(solver_t *s, dots_t *dots, int n)
{
    *s = (solver_t){.ex = dots->ex, .dots = dots, .info = {SELVAGE_GRID_INFO_INIT}};
    selvage_grid_params_t params = {SELVAGE_GRID_PARAMS_INIT, .ndims = 2, .global_extent = {n, n}};
    CHECK(selvage_grid_create(s->ex->comm, &params, &s->grid));
    CHECK(selvage_grid_describe(s->grid, &s->info));
    make_fields(s);
    make_tables(s);
    CHECK(reducer_open(s->ex->device, s->ex->stream, &s->reducer));
}

static void close_solver(solver_t *s)
{
    reducer_close(&s->reducer);
    selvage_halo_destroy(s->halo);
    selvage_grid_destroy(s->grid);
    selvage_device_free(s->ex->device, s->tables);
    selvage_device_free(s->ex->device, s->points.u);
}

static void on_points(solver_t *s, const device_loop_t *loop)
{
    CHECK(device_loop_run(loop, &s->points, sizeof s->points, s->ex->device, s->ex->stream));
}

static void on_fields(solver_t *s, const device_loop_t *loop, int over, int under)
{
    s->update.over = s->dots->sums + over;
    s->update.under = s->dots->sums + under;
    CHECK(device_loop_run(loop, &s->update, sizeof s->update, s->ex->device, s->ex->stream));
}

static void product(solver_t *s, const double *x, const double *y, int sum)
{
    dot(s->dots, x, y, s->update.n, s->dots->sums + sum);
}

/* Returns the number of steps; the host looks at the residual, and at nothing else. */
static int solve(solver_t *s)
{
    const cg_points_t *f = &s->points;
    int old = SUM_OLD, new = SUM_NEW, step = 0;
    on_points(s, &cg_begin);
    product(s, f->r, f->r, SUM_FIRST);
    product(s, f->r, f->r, old);
    do {
        CHECK(selvage_halo_exchange(s->halo, s->ex->stream));
        on_points(s, &cg_apply);
        product(s, f->p, f->q, SUM_PQ);
        on_fields(s, &cg_step, old, SUM_PQ);
        product(s, f->r, f->r, new);
        on_fields(s, &cg_turn, new, old);
        fetch(s->dots, s->dots->sums, SUMS);
        int other = old;
        old = new;
        new = other;
        step++;
    } while (step < STEPS_MAX && !(s->dots->seen[old] <= tolerance * tolerance * s->dots->seen[SUM_FIRST]));
    return step;
}

/* What is left of the right side when u is put into the equations, to the right side; not what the solver believes. */
static double true_residual(solver_t *s)
{
    const cg_points_t *f = &s->points;
    CHECK(selvage_device_copy(s->ex->device, f->p, f->u, s->update.n * sizeof(double), SELVAGE_COPY_DEVICE_TO_DEVICE,
                              s->ex->stream));
    CHECK(selvage_halo_exchange(s->halo, s->ex->stream));
    on_points(s, &cg_apply);
    on_points(s, &cg_residual);
    product(s, f->q, f->q, SUM_PQ);
    fetch(s->dots, s->dots->sums, SUMS);
    return sqrt(s->dots->seen[SUM_PQ] / s->dots->seen[SUM_FIRST]);
}

/* The largest error of all points. */
static double distance(solver_t *s)
{
    double mine, all;
    on_points(s, &cg_compare);
    CHECK(reduce_to_max(&s->reducer, s->points.q, s->points.n, &mine));
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

/* A number that changes with any bit of the solution, at whatever point. */
static uint64_t digest(const solver_t *s)
{
    const int64_t *own = s->info.local_extent;
    uint64_t mine = 0, all;
    double *u;
    CHECK(selvage_device_host_malloc(s->ex->device, s->update.n * sizeof(double), (void **)&u));
    CHECK(selvage_device_copy(s->ex->device, u, s->points.u, s->update.n * sizeof(double), SELVAGE_COPY_DEVICE_TO_HOST,
                              s->ex->stream));
    CHECK(selvage_stream_synchronize(s->ex->device, s->ex->stream));
    for (int64_t y = 0; y < own[1]; y++)
        for (int64_t x = 0; x < own[0]; x++) {
            int64_t place = (s->info.local_first[1] + y) * s->info.global_extent[0] + s->info.local_first[0] + x;
            uint64_t bits;
            memcpy(&bits, &u[(y + 1) * s->points.pitch + x + 1], sizeof bits);
            bits = (bits ^ (uint64_t)place * 0x9e3779b97f4a7c15) * 0xd6e8feb86659fd93;
            mine += (bits ^ bits >> 32) * 0xd6e8feb86659fd93;
        }
    selvage_device_host_free(s->ex->device, u);
    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* One grid: solves and prints its row. Returns the error; *wrong counts what is not right. */
static double solve_grid(dots_t *dots, int n, double coarser, int *wrong)
{
    solver_t s;
    char order[16] = "-";
    open_solver(&s, dots, n);
    int steps = solve(&s);
    double residual = true_residual(&s), error = distance(&s);
    uint64_t bits = digest(&s);
    *wrong += !(residual <= 10 * tolerance);
    if (coarser > 0)
        snprintf(order, sizeof order, "%.3f", log2(coarser / error));
    if (s.ex->rank == 0)
        printf("%5d^2 %6d  %.3e  %.6e  %5s  %016" PRIx64 "\n", n, steps, residual, error, order, bits);
    close_solver(&s);
    return error;
}

/* Two grids, the second twice as fine. Returns 0 if the answers are right. */
static int converge(dots_t *dots, int n)
{
    int wrong = 0;
    if (dots->ex->rank == 0)
        printf("conjugate gradients, dot products by reduce-scatter: -laplace(u) = f, residual down to %.0e\n"
               " points   steps  residual   error         order  bits\n", tolerance);
    double coarse = solve_grid(dots, n, 0, &wrong), fine = solve_grid(dots, 2 * n + 1, coarse, &wrong);
    double order = log2(coarse / fine);
    wrong += !(fabs(order - 2) <= 0.1);
    if (dots->ex->rank == 0)
        printf("order %.3f (reference: 2): %s\n", order, wrong == 0 ? "right" : "WRONG");
    return wrong;
}

static void tell_about(const dots_t *dots)
{
    selvage_coll_stats_t stats = {SELVAGE_COLL_STATS_INIT};
    CHECK(selvage_coll_stats(dots->coll, &stats));
    if (dots->ex->rank == 0)
        printf("reduce_scatter: %d ranks on %s, %" PRIu64 " channels, %" PRIu64 " bytes of device memory each\n",
               dots->ex->ranks, selvage_device_name(dots->ex->device), stats.channels, stats.arena_bytes);
}

int main(int argc, char **argv)
{
    static const char usage[] = "usage: reduce_scatter [--n POINTS] [--device soft|nvidia|amd|auto]\n"
                                "  POINTS of the coarse grid along each side; the fine one has twice as many and one\n";
    const char *device = NULL;
    int n = 31, help = 0, code;
    const option_t options[] = {{"--n", OPTION_INT, &n, 5, 20000}, {"--device", OPTION_TEXT, &device, 0, 0}};
    example_t ex;
    dots_t dots;
    example_init(&argc, &argv, "reduce_scatter", &ex);
    if (example_parse(&ex, argc, argv, options, sizeof options / sizeof options[0], usage, &help) == 0) {
        example_open(&ex, device);
        open_dots(&dots, &ex);
        tell_about(&dots);
        code = sum_in_shards(&dots) + converge(&dots, n) != 0;
        close_dots(&dots);
        example_close(&ex);
    } else {
        code = help ? 0 : 2;
    }
    MPI_Finalize();
    return code;
}
