/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heat in a periodic cube: the 7-point stencil and explicit Euler steps on the device, blocks of the cube on the ranks,
 * the interior updated while the halos travel. One Fourier mode decays; it is compared with the exact solution on three
 * grids, each twice as fine as the one before, so that the error must fall by four; and with the decay that the
 * difference equations have themselves, which must be met to rounding.
 *
 *     mpirun -n 4 heat3d [--n CELLS] [--picture slice.png]
 *     mpirun -n 4 heat3d [--n CELLS] --in-kernel    steps inside one kernel, which exchanges the halos itself
 *     mpirun -n 4 heat3d --weak CELLS        time per step: with and without overlap, on the stream, in a kernel
 *
 * Read make_halo() and step(), which are all there is about halos; the loops are in heat3d_loops.cc. What a kernel does
 * to exchange them is there, too: steps_in_kernel() here only launches it.
 */
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "example_main.h"
#include "heat3d_loops.h"
#include "picture.h"
#include "reduce.h"

enum { GRIDS = 3, REPEATS_MAX = 1000, BLOCK_STEPS = 64, GRAPH_STEPS = 10 };

static const double pi = 3.14159265358979323846;
static const double ratio = 0.125; /* dt / h^2; stable up to 1/6 */

typedef struct options {
    int n, steps, dims[4], weak, repeats, in_kernel, help;
    const char *device, *picture;
} options_t;

typedef struct heat {
    example_t *ex;
    selvage_grid_info_t grid_info;
    selvage_grid_t *grid;
    selvage_halo_t *halo;
    reducer_t reducer;
    double *u, *next;              /* fields in their frames */
    double *tables;                /* the mode's factors along x, y and z */
    size_t field_cells;
    heat_step_t interior, slabs, all; /* what is updated under the exchange, after it; all own cells */
    heat_block_t block;            /* the same for a kernel of many steps ... */
    unsigned blocks;               /* ... which has so many; 0: there can be none here */
    selvage_graph_t *graph;        /* GRAPH_STEPS steps from `graph_from` on and back; NULL: not captured yet */
    const double *graph_from;
    heat_mode_t mode;
    double decay;                  /* of the difference equations, per step */
} heat_t;

/* The cube in blocks, and the exchange of the faces of a field around its block, one cell deep. */
static void make_halo(heat_t *h, const int64_t cells[3], const int dims[3])
{
    selvage_grid_params_t params = {SELVAGE_GRID_PARAMS_INIT,
                                    .ndims = 3,
                                    .global_extent = {cells[0], cells[1], cells[2]},
                                    .periodic = {1, 1, 1},
                                    .blocks = {dims[0], dims[1], dims[2]}};
    CHECK(selvage_grid_create(h->ex->comm, &params, &h->grid));
    CHECK(selvage_grid_describe(h->grid, &h->grid_info));
    const int64_t *own = h->grid_info.local_extent;
    h->field_cells = (size_t)((own[0] + 2) * (own[1] + 2) * (own[2] + 2));
    CHECK(selvage_device_malloc(h->ex->device, h->field_cells * sizeof(double), (void **)&h->u));
    CHECK(selvage_device_malloc(h->ex->device, h->field_cells * sizeof(double), (void **)&h->next));
    selvage_field_t field = {SELVAGE_FIELD_INIT,
                             .data = h->u,
                             .element_bytes = sizeof(double),
                             .width_lo = {1, 1, 1},
                             .width_hi = {1, 1, 1},
                             .order = SELVAGE_ORDER_FIRST};
    CHECK(selvage_halo_create(h->grid, NULL, &field, 1, &h->halo));
}

static void update(heat_t *h, heat_step_t *cells)
{
    cells->u = h->u;
    cells->next = h->next;
    CHECK(device_loop_run(&heat_update, cells, sizeof *cells, h->ex->device, h->ex->stream));
}

static void swap(heat_t *h)
{
    double *next = h->u;
    h->u = h->next;
    h->next = next;
    CHECK(selvage_halo_rebind(h->halo, &(void *){h->u}));
}

static void step(heat_t *h)
{
    CHECK(selvage_halo_start(h->halo, h->ex->stream)); /* returns at once */
    update(h, &h->interior);                           /* runs while the halos travel */
    CHECK(selvage_halo_wait(h->halo, h->ex->stream));  /* what is launched from here on sees them */
    update(h, &h->slabs);
    swap(h);
}

/* --- the same in other ways, to compare --------------------------------------------------------------------------- */

/* Without overlap. */
static void step_in_turn(heat_t *h)
{
    CHECK(selvage_halo_exchange(h->halo, h->ex->stream));
    update(h, &h->all);
    swap(h);
}

/* The host only enqueues: the stream waits for the halos. */
static void step_enqueued(heat_t *h)
{
    CHECK(selvage_halo_start(h->halo, h->ex->stream));
    update(h, &h->interior);
    CHECK(selvage_halo_enqueue_wait(h->halo, h->ex->stream));
    update(h, &h->slabs);
    swap(h);
}

/* The same without overlap, where one launch exchanges the halos. */
static void step_by_run(heat_t *h)
{
    CHECK(selvage_halo_run(h->halo, h->ex->stream));
    update(h, &h->all);
    swap(h);
}

/* That captured, an even number of steps, so that arrays end where they began; what is left over is not replayed. */
static void steps_by_graph(heat_t *h, int steps)
{
    int done = 0;
    if (h->graph == NULL) {
        CHECK(selvage_graph_begin(h->ex->device, h->ex->stream));
        for (int s = 0; s < GRAPH_STEPS; s++)
            step_by_run(h);
        CHECK(selvage_graph_end(h->ex->device, h->ex->stream, &h->graph));
        h->graph_from = h->u;
    }
    for (; done < steps && h->u != h->graph_from; done++)
        step_by_run(h);
    for (; done + GRAPH_STEPS <= steps; done += GRAPH_STEPS)
        CHECK(selvage_graph_launch(h->ex->device, h->graph, h->ex->stream));
    for (; done < steps; done++)
        step_by_run(h);
}

/* Without exchange: what the computation alone takes; its result is wrong. */
static void step_alone(heat_t *h)
{
    update(h, &h->all);
    swap(h);
}

/* One kernel takes all steps and exchanges the halos itself. Its arrays are swapped in each. */
static void steps_in_kernel(heat_t *h, int steps)
{
    h->block.u[0] = h->u;
    h->block.u[1] = h->next;
    CHECK(selvage_halo_device(h->halo, (unsigned)steps, h->ex->stream, &h->block.halo));
    CHECK(device_kernel_run(&heat_block, &h->block, sizeof h->block, h->blocks, h->ex->device, h->ex->stream));
    CHECK(selvage_halo_wait(h->halo, h->ex->stream)); /* what it has found */
    if (steps % 2 != 0)
        swap(h);
}

/* Appends a box to the bodies of a loop. */
static void add_box(heat_step_t *cells, const selvage_box_t *box)
{
    heat_box_t *b = &cells->box[cells->nboxes];
    b->first_body = cells->n;
    b->origin = box->first[0] + 1 + (box->first[1] + 1) * cells->pitch_y + (box->first[2] + 1) * cells->pitch_z;
    for (int d = 0; d < 3; d++) {
        if (box->end[d] <= box->first[d])
            return;
        b->extent[d] = (uint32_t)(box->end[d] - box->first[d]);
    }
    b->log_tile = 0;
    while (b->log_tile < 5 && 1u << b->log_tile < b->extent[0])
        b->log_tile++;
    size_t width = (size_t)1 << b->log_tile, height = LOOP_THREADS >> b->log_tile;
    cells->n += LOOP_THREADS * ((b->extent[0] + width - 1) / width) * ((b->extent[1] + height - 1) / height) *
                ((b->extent[2] + HEAT_COLUMN - 1) / HEAT_COLUMN);
    cells->nboxes++;
}

/* What can be updated before halos are here, what cannot, and both. */
static void split(heat_t *h)
{
    static const int width[3] = {1, 1, 1};
    const int64_t *own = h->grid_info.local_extent;
    selvage_box_t interior, slab[6], all = {.end = {own[0], own[1], own[2], 1}};
    CHECK(selvage_grid_interior(h->grid, width, width, &interior));
    CHECK(selvage_grid_boundary(h->grid, width, width, slab));
    heat_step_t none = {.r = ratio, .pitch_y = own[0] + 2, .pitch_z = (own[0] + 2) * (own[1] + 2)};
    h->interior = h->slabs = h->all = none;
    add_box(&h->interior, &interior);
    add_box(&h->all, &all);
    for (int side = 0; side < 6; side++)
        add_box(&h->slabs, &slab[side]);
    h->block = (heat_block_t){.r = ratio, .pitch_y = none.pitch_y, .pitch_z = none.pitch_z,
                              .interior_bodies = h->interior.n, .slab_bodies = h->slabs.n,
                              .nslabs = (uint32_t)h->slabs.nboxes, .interior = h->interior.box[0]};
    memcpy(h->block.slab, h->slabs.box, sizeof h->block.slab);
}

/* How a kernel of many steps shares its work out, if there can be one: every rank must have a GPU of its own, whose
   memory its neighbours reach. */
static void prepare_kernel(heat_t *h)
{
    enum { PART_BYTES = 8192 };
    selvage_halo_info_t info = {SELVAGE_HALO_INFO_INIT};
    int mine = selvage_halo_device(h->halo, 1, h->ex->stream, NULL) == SELVAGE_SUCCESS, all;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all)
        return;
    CHECK(selvage_halo_describe(h->halo, &info));
    h->blocks = device_kernel_blocks(&heat_block, h->ex->device);
    const size_t packets = info.packets > 0 ? (size_t)info.packets : 1, each = info.bytes_sent / packets;
    const size_t parts = each / PART_BYTES + 1, most = h->blocks / packets > 0 ? h->blocks / packets : 1;
    h->block.parts = (uint32_t)(parts < most ? parts : most);
}

/* One period of a sine along each dimension, shifted, so that no cell is like its mirror image. */
static void make_mode(heat_t *h)
{
    const selvage_grid_info_t *info = &h->grid_info;
    const int64_t *own = info->local_extent;
    size_t values = (size_t)(own[0] + own[1] + own[2]);
    double *host, *factor;
    CHECK(selvage_device_host_malloc(h->ex->device, values * sizeof(double), (void **)&host));
    CHECK(selvage_device_malloc(h->ex->device, values * sizeof(double), (void **)&h->tables));
    h->mode = (heat_mode_t){.n = (size_t)(own[0] * own[1] * own[2]),
                            .pitch_y = own[0] + 2,
                            .pitch_z = (own[0] + 2) * (own[1] + 2),
                            .origin = 1 + (own[0] + 2) + (own[0] + 2) * (own[1] + 2)};
    h->decay = 1;
    factor = host;
    for (int d = 0; d < 3; d++) {
        double cells = (double)info->global_extent[d], half = sin(pi / cells);
        h->mode.extent[d] = (uint32_t)own[d];
        h->mode.factor[d] = h->tables + (factor - host);
        h->decay -= 4 * ratio * half * half;
        for (int64_t i = 0; i < own[d]; i++)
            *factor++ = sin(2 * pi * ((double)(info->local_first[d] + i) + 0.5) / cells + 0.3 * (d + 1));
    }
    CHECK(selvage_device_copy(h->ex->device, h->tables, host, values * sizeof(double), SELVAGE_COPY_HOST_TO_DEVICE,
                              h->ex->stream));
    CHECK(selvage_stream_synchronize(h->ex->device, h->ex->stream));
    selvage_device_host_free(h->ex->device, host);
}

static void run_mode(heat_t *h, const device_loop_t *loop, double amplitude)
{
    h->mode.u = h->u;
    h->mode.scratch = h->next;
    h->mode.amplitude = amplitude;
    CHECK(device_loop_run(loop, &h->mode, sizeof h->mode, h->ex->device, h->ex->stream));
}

static void open_heat(heat_t *h, example_t *ex, const int64_t cells[3], const int dims[3])
{
    *h = (heat_t){.ex = ex, .grid_info = {SELVAGE_GRID_INFO_INIT}};
    make_halo(h, cells, dims);
    split(h);
    prepare_kernel(h);
    make_mode(h);
    CHECK(reducer_open(ex->device, ex->stream, &h->reducer));
    run_mode(h, &heat_fill, 1);
}

static void close_heat(heat_t *h)
{
    reducer_close(&h->reducer);
    selvage_halo_destroy(h->halo);
    selvage_graph_destroy(h->ex->device, h->graph);
    selvage_grid_destroy(h->grid);
    selvage_device_free(h->ex->device, h->tables);
    selvage_device_free(h->ex->device, h->next);
    selvage_device_free(h->ex->device, h->u);
}

/* The largest |u - amplitude * mode| of all cells: the same, to the bit, however the cube is cut. Overwrites next. */
static double distance(heat_t *h, double amplitude)
{
    double mine, all;
    run_mode(h, &heat_compare, amplitude);
    CHECK(reduce_to_max(&h->reducer, h->next, h->mode.n, &mine));
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

/* The own cells and their frame, in pinned memory that the caller frees. */
static double *copy_to_host(const heat_t *h)
{
    double *host;
    CHECK(selvage_device_host_malloc(h->ex->device, h->field_cells * sizeof(double), (void **)&host));
    CHECK(selvage_device_copy(h->ex->device, host, h->u, h->field_cells * sizeof(double), SELVAGE_COPY_DEVICE_TO_HOST,
                              h->ex->stream));
    CHECK(selvage_stream_synchronize(h->ex->device, h->ex->stream));
    return host;
}

/* A number that changes with every bit of every cell, and not with the way in which the cube is cut. */
static uint64_t digest(const heat_t *h)
{
    const selvage_grid_info_t *g = &h->grid_info;
    double *u = copy_to_host(h);
    uint64_t mine = 0, all;
    for (int64_t i = 0; i < (int64_t)h->mode.n; i++) {
        int64_t x = i % g->local_extent[0], y = i / g->local_extent[0] % g->local_extent[1],
                z = i / g->local_extent[0] / g->local_extent[1];
        int64_t place = ((g->local_first[2] + z) * g->global_extent[1] + g->local_first[1] + y) * g->global_extent[0] +
                        g->local_first[0] + x;
        uint64_t bits;
        memcpy(&bits, &u[h->mode.origin + x + y * h->mode.pitch_y + z * h->mode.pitch_z], sizeof bits);
        bits = (bits ^ (uint64_t)place * 0x9e3779b97f4a7c15) * 0xd6e8feb86659fd93;
        mine += (bits ^ bits >> 32) * 0xd6e8feb86659fd93;
    }
    selvage_device_host_free(h->ex->device, u);
    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* The slice in the middle of the cube, on rank 0: each rank puts its cells in place among zeros. */
static void write_picture(const heat_t *h, const char *file)
{
    const selvage_grid_info_t *g = &h->grid_info;
    int width = (int)g->global_extent[0], height = (int)g->global_extent[1];
    int64_t z = g->global_extent[2] / 2 - g->local_first[2];
    double *slice = calloc((size_t)width * (size_t)height, 2 * sizeof *slice), *u = copy_to_host(h), limit = 0;
    if (slice == NULL)
        example_fail("no memory for a slice");
    double *whole = slice + (size_t)width * (size_t)height;
    for (int64_t y = 0; z >= 0 && z < g->local_extent[2] && y < g->local_extent[1]; y++)
        memcpy(slice + (g->local_first[1] + y) * width + g->local_first[0],
               u + h->mode.origin + y * h->mode.pitch_y + z * h->mode.pitch_z,
               (size_t)g->local_extent[0] * sizeof(double));
    MPI_Reduce(slice, whole, width * height, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    for (int i = 0; i < width * height; i++)
        limit = fmax(limit, fabs(whole[i]));
    if (h->ex->rank == 0 && picture_write(file, whole, width, height, -limit, limit) != 0)
        example_fail("%s: %s", file, strerror(errno));
    selvage_device_host_free(h->ex->device, u);
    free(slice);
}

/* What is right for a number of steps, up to rounding in each of them. */
static double rounding(double steps)
{
    return 2 * DBL_EPSILON * (steps + 8);
}

/* How far along all grids together are; in cells times steps. */
typedef struct work {
    double done, total;
} work_t;

/* One grid: takes the steps and prints its row. Returns the error; *wrong counts what is not right to rounding. */
static double solve(example_t *ex, const options_t *o, int n, int steps, double coarser, work_t *work, int *wrong)
{
    const int64_t cells[3] = {n, n, n};
    heat_t h;
    open_heat(&h, ex, cells, o->dims);
    if (o->in_kernel && h.blocks == 0) {
        if (ex->rank == 0)
            fprintf(stderr, "heat3d: --in-kernel: no kernel can exchange halos here: %s\n", selvage_error_detail());
        MPI_Barrier(MPI_COMM_WORLD);
        example_fail("it needs a GPU for each rank, and memory that they map");
    }
    double size = distance(&h, 0), time = steps * ratio / ((double)n * n);
    for (int s = 0, some; s < steps; s += some) {
        some = !o->in_kernel ? 1 : steps - s < BLOCK_STEPS ? steps - s : BLOCK_STEPS;
        if (o->in_kernel)
            steps_in_kernel(&h, some);
        else
            step(&h);
        work->done += some * pow(n, 3);
        example_progress(ex, (long)work->done, (long)work->total);
    }
    double decay = distance(&h, 0) / size, exact = exp(-3 * 4 * pi * pi * time), discrete = pow(h.decay, steps);
    double error = distance(&h, exact), difference = distance(&h, discrete);
    uint64_t bits = digest(&h);
    char order[16] = "-";
    if (coarser > 0)
        snprintf(order, sizeof order, "%.3f", log2(coarser / error));
    if (ex->rank == 0)
        printf("%6d^3 %6d  %.12f  %.12f  %.3e  %5s  %.12f  %.1e  %016" PRIx64 "\n", n, steps, decay, exact, error,
               order, discrete, difference, bits);
    *wrong += !(difference <= rounding(steps));
    if (o->picture != NULL && n == o->n << (GRIDS - 1))
        write_picture(&h, o->picture);
    close_heat(&h);
    return error;
}

/* Three grids up to one time. Returns 0 if the answers are right. */
static int converge(example_t *ex, const options_t *o)
{
    double error = 0, order = 0;
    work_t work = {0};
    int wrong = 0;
    for (int g = 0; g < GRIDS; g++)
        work.total += pow(o->n << g, 3) * o->steps * (1 << 2 * g);
    if (ex->rank == 0)
        printf("heat3d: %d ranks on %s, 7-point stencil, dt = h^2 / %g\n"
               "   cells    steps  decay           exact solution  error      order  difference eq.  off by   bits\n",
               ex->ranks, selvage_device_name(ex->device), 1 / ratio);
    for (int g = 0; g < GRIDS; g++) {
        double finer = solve(ex, o, o->n << g, o->steps << 2 * g, error, &work, &wrong);
        order = log2(error / finer);
        error = finer;
    }
    wrong += !(fabs(order - 2) <= 0.1);
    if (ex->rank == 0)
        printf("order %.3f (reference: 2), decay of the difference equations %s: %s\n", order,
               wrong == 0 || fabs(order - 2) > 0.1 ? "met to rounding" : "NOT met", wrong == 0 ? "right" : "WRONG");
    return wrong != 0;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef enum variant { OVERLAP, IN_TURN, ENQUEUED, BY_RUN, BY_GRAPH, IN_KERNEL, ALONE, VARIANTS } variant_t;

static void take_steps(heat_t *h, variant_t v, int steps)
{
    static void (*const take_step[VARIANTS])(heat_t *) = {[OVERLAP] = step, [IN_TURN] = step_in_turn,
                                                          [ENQUEUED] = step_enqueued, [BY_RUN] = step_by_run,
                                                          [ALONE] = step_alone};
    if (v == IN_KERNEL)
        steps_in_kernel(h, steps);
    if (v == BY_GRAPH)
        steps_by_graph(h, steps);
    for (int s = 0; s < steps && take_step[v] != NULL; s++)
        take_step[v](h);
    if (v == ENQUEUED || v == BY_RUN || v == BY_GRAPH)
        CHECK(selvage_halo_wait(h->halo, h->ex->stream));
}

/* Seconds per step of the slowest rank. */
static double time_steps(heat_t *h, variant_t v, int steps)
{
    double mine, slowest;
    CHECK(selvage_stream_synchronize(h->ex->device, h->ex->stream));
    MPI_Barrier(MPI_COMM_WORLD);
    mine = MPI_Wtime();
    take_steps(h, v, steps);
    CHECK(selvage_stream_synchronize(h->ex->device, h->ex->stream));
    mine = (MPI_Wtime() - mine) / steps;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* Whether it can be done here: enqueued waits need a route that no host drives, as kernels do. */
static bool has_variant(const heat_t *h, variant_t v)
{
    return h->blocks > 0 || v == OVERLAP || v == IN_TURN || v == ALONE;
}

/* Medians of all, the repeats of those that exchange in turns; in between, after these, the answer is checked. */
static double measure(heat_t *h, const options_t *o, double median[VARIANTS], double *difference)
{
    static double seconds[VARIANTS][REPEATS_MAX];
    double steps = 0;
    for (int repeat = -1; repeat < o->repeats; repeat++)
        for (variant_t v = OVERLAP; v < ALONE; v++)
            if (has_variant(h, v)) {
                seconds[v][repeat < 0 ? 0 : repeat] = time_steps(h, v, o->steps); /* -1: to warm up */
                steps += o->steps;
            }
    *difference = distance(h, pow(h->decay, steps));
    for (int repeat = -1; repeat < o->repeats; repeat++)
        seconds[ALONE][repeat < 0 ? 0 : repeat] = time_steps(h, ALONE, o->steps);
    for (variant_t v = OVERLAP; v < VARIANTS; v++) {
        qsort(seconds[v], (size_t)o->repeats, sizeof(double), compare_doubles);
        median[v] = (seconds[v][(o->repeats - 1) / 2] + seconds[v][o->repeats / 2]) / 2;
    }
    return steps;
}

/* As many cells on every rank: what a step takes. Returns 0 if the answer is right. */
static int weak(example_t *ex, const options_t *o, const int dims[3])
{
    static const char *const names[VARIANTS] = {"with overlap", "exchange, then step", "enqueued, with overlap",
                                                "run, then step", "the same in graphs of 10", "inside one kernel",
                                                "without exchange"};
    const int64_t cells[3] = {(int64_t)o->weak * dims[0], (int64_t)o->weak * dims[1], (int64_t)o->weak * dims[2]};
    double median[VARIANTS], difference;
    selvage_halo_info_t info = {SELVAGE_HALO_INFO_INIT};
    heat_t h;
    open_heat(&h, ex, cells, dims);
    CHECK(selvage_halo_describe(h.halo, &info));
    double steps = measure(&h, o, median, &difference);
    int wrong = !(difference <= rounding(steps));
    const heat_t as_it_was = h;
    close_heat(&h);
    if (ex->rank != 0)
        return wrong;
    printf("heat3d: %d ranks on %s in %dx%dx%d blocks of %d^3 cells; %d packets, %zu bytes sent per rank and step\n"
           "medians of %d times %d steps     time per step   updates/s per rank   of the speed without exchange\n",
           ex->ranks, selvage_device_name(ex->device), dims[0], dims[1], dims[2], o->weak, info.packets,
           info.bytes_sent, o->repeats, o->steps);
    for (variant_t v = OVERLAP; v < VARIANTS; v++)
        if (has_variant(&as_it_was, v))
            printf("%-30s %12.3f us   %18.4e   %13.1f %%\n", names[v], median[v] * 1e6, pow(o->weak, 3) / median[v],
                   100 * median[ALONE] / median[v]);
    printf("decay after %.0f steps off by %.1e: %s\n", steps, difference, wrong ? "WRONG" : "right");
    return wrong;
}

/* The blocks of weak scaling: as cubic as the number of ranks allows, more of them along z. */
static void choose_dims(const example_t *ex, const options_t *o, int dims[3])
{
    int any[3] = {o->dims[2], o->dims[1], o->dims[0]};
    if (any[0] == 0)
        MPI_Dims_create(ex->ranks, 3, any);
    for (int d = 0; d < 3; d++)
        dims[d] = any[2 - d];
}

static int parse(const example_t *ex, int argc, char **argv, options_t *o)
{
    static const char usage[] =
        "usage: heat3d [--n CELLS] [--steps STEPS] [--picture FILE.png|FILE.ppm]  the coarsest of three grids\n"
        "       heat3d --weak CELLS [--steps STEPS] [--repeats TIMES]             time per step, CELLS^3 on each rank\n"
        "       --in-kernel                                   steps inside one kernel, which exchanges halos itself\n"
        "       both: [--dims AxBxC] blocks of the cube, [--device soft|nvidia|amd|auto]\n";
    const option_t options[] = {
        {"--n", OPTION_INT, &o->n, 4, 1024},          {"--steps", OPTION_INT, &o->steps, 1, 100000},
        {"--dims", OPTION_NUMBERS, o->dims, 1, 4096}, {"--weak", OPTION_INT, &o->weak, 1, 1200},
        {"--repeats", OPTION_INT, &o->repeats, 1, REPEATS_MAX}, {"--in-kernel", OPTION_FLAG, &o->in_kernel, 0, 0},
        {"--device", OPTION_TEXT, &o->device, 0, 0},  {"--picture", OPTION_TEXT, &o->picture, 0, 0}};
    *o = (options_t){.n = 16, .repeats = 7};
    if (example_parse(ex, argc, argv, options, sizeof options / sizeof options[0], usage, &o->help) != 0)
        return -1;
    if (o->steps == 0)
        o->steps = o->weak > 0 ? 50 : o->n * o->n / 16 > 1 ? o->n * o->n / 16 : 1;
    if (o->dims[0] == 0 || (o->dims[0] * o->dims[1] * o->dims[2] == ex->ranks && o->dims[3] == 0))
        return 0;
    if (ex->rank == 0)
        fprintf(stderr, "heat3d: --dims: not %d blocks\n%s", ex->ranks, usage);
    return -1;
}

int main(int argc, char **argv)
{
    example_t ex;
    options_t options;
    int code, dims[3];
    example_init(&argc, &argv, "heat3d", &ex);
    if (parse(&ex, argc, argv, &options) == 0) {
        example_open(&ex, options.device);
        choose_dims(&ex, &options, dims);
        code = options.weak > 0 ? weak(&ex, &options, dims) : converge(&ex, &options);
        example_close(&ex);
    } else {
        code = options.help ? 0 : 2;
    }
    MPI_Finalize();
    return code;
}
