/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lid-driven cavity: a square of fluid whose upper wall moves. Solved on any number of ranks by the D2Q9
 * lattice-Boltzmann method until the flow is steady, and compared with the tables of Ghia, Ghia and Shin (1982).
 *
 *     mpirun -n 4 cavity [--re 100|1000] [--cells N] [--picture FILE.png]
 *
 * Read make_halo() and step(). Of the nine populations eight move, each in one direction, and only those that move
 * towards a neighbour are sent to it: three across every face, one across every corner. Every population is a field of
 * its own, with a halo on the side from where it comes; all travel in one packet per neighbour.
 *
 * Exit code 0 only if every difference is as small as the resolution allows.
 */
#include "cavity_loops.h"
#include "cavity_table.h"
#include "example_main.h"
#include "reduce.h"

#include <math.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: cavity [--re 100|1000] [--cells N] [--blocks AxB] [--tolerance CHANGE] [--passes MOST]\n"
    "              [--picture FILE.png|FILE.ppm] [--faces]\n"
    "\n"
    "  --re         Reynolds number (100)\n"
    "  --cells      cells per side, at least 16 at Re 100 and 48 at Re 1000 (64; at Re 1000: 128)\n"
    "  --blocks     blocks of cells along x and y, one for each rank (chosen)\n"
    "  --tolerance  steady is what changes by less while the lid passes the cavity once (1e-6 of its velocity)\n"
    "  --passes     gives up when the lid has passed that often (1000)\n"
    "  --picture    writes the flow as a picture\n"
    "  --faces      leaves out the corners of the halo, to show that they are needed\n";

/* The steady flow does not depend on the lid's velocity (in cells per step), but the time to get there does. */
static const double lid = 0.2;

/* (1/rate_even - 1/2) (1/rate_odd - 1/2): with this value walls lie half a cell outside, whatever the viscosity
   (I. Ginzburg and D. d'Humieres, Phys. Rev. E 68 (2003) 066614). */
static const double magic = 3.0 / 16;

typedef struct cavity {
    example_t ex;
    int reynolds, cells, blocks[4], faces, passes_max;
    double tolerance;
    const char *picture;
    selvage_grid_t *grid;
    selvage_grid_info_t block;
    selvage_halo_t *halo;
    double *array[2]; /* nine planes each: a step from the one into the other, and one back */
    void *populations[2][CAVITY_POPULATIONS - 1]; /* in them, those that move: what the halo is bound to */
    ptrdiff_t pitch, plane;
    int now; /* which array holds the present */
    cavity_step_t interior, boundary;
    double *flow, *change; /* on the device, of own cells */
    reducer_t reducer;
    long steps;
} cavity_t;

/* One field per population that moves. It is needed where it comes from: on the lower side if it moves upwards. */
static void make_halo(cavity_t *c)
{
    selvage_field_t field[CAVITY_POPULATIONS - 1];
    int n = 0;
    for (int i = 0; i < CAVITY_POPULATIONS; i++) {
        int cx = i % 3 - 1, cy = i / 3 - 1;
        if (i == CAVITY_REST)
            continue;
        c->populations[0][n] = c->array[0] + i * c->plane;
        c->populations[1][n] = c->array[1] + i * c->plane;
        field[n] = (selvage_field_t){SELVAGE_FIELD_INIT,
                                     .data = c->populations[0][n],
                                     .element_bytes = sizeof(double),
                                     .order = SELVAGE_ORDER_FIRST,
                                     .width_lo = {cx > 0, cy > 0},
                                     .width_hi = {cx < 0, cy < 0},
                                     .array_extent = {c->block.local_extent[0] + 2, c->block.local_extent[1] + 2},
                                     .first = {1, 1},
                                     .has_first = 1};
        n++;
    }
    selvage_halo_params_t params = {SELVAGE_HALO_PARAMS_INIT,
                                    .shape = c->faces ? SELVAGE_HALO_FACES : SELVAGE_HALO_FULL};
    CHECK(selvage_halo_create(c->grid, &params, field, n, &c->halo));
}

static void launch(cavity_t *c, cavity_step_t *loop)
{
    loop->from = c->array[c->now] + c->pitch + 1;
    loop->to = c->array[!c->now] + c->pitch + 1;
    CHECK(device_loop_run(&cavity_step, loop, sizeof *loop, c->ex.device, c->ex.stream));
}

static void step(cavity_t *c)
{
    CHECK(selvage_halo_rebind(c->halo, c->populations[c->now]));
    CHECK(selvage_halo_start(c->halo, c->ex.stream)); /* returns at once */
    launch(c, &c->interior);                          /* runs while the halos travel */
    CHECK(selvage_halo_wait(c->halo, c->ex.stream));  /* later work on the stream sees them */
    launch(c, &c->boundary);
    c->now = !c->now;
    c->steps++;
}

static void make_grid(cavity_t *c)
{
    selvage_grid_params_t params = {SELVAGE_GRID_PARAMS_INIT, .ndims = 2, .global_extent = {c->cells, c->cells},
                                    .blocks = {c->blocks[0], c->blocks[1]}};
    c->block = (selvage_grid_info_t){SELVAGE_GRID_INFO_INIT};
    CHECK(selvage_grid_create(c->ex.comm, &params, &c->grid));
    CHECK(selvage_grid_describe(c->grid, &c->block));
    c->pitch = c->block.local_extent[0] + 2;
    c->plane = c->pitch * (c->block.local_extent[1] + 2);
}

static cavity_step_t make_step(const cavity_t *c, const selvage_box_t *box, int boxes)
{
    double viscosity = lid * c->cells / c->reynolds;
    cavity_step_t s = {.plane = c->plane,
                       .pitch = c->pitch,
                       .x0 = (int)c->block.local_first[0],
                       .y0 = (int)c->block.local_first[1],
                       .cells = c->cells,
                       .lid = lid,
                       .rate_even = 1 / (3 * viscosity + 0.5),
                       .rate_odd = 1 / (magic / (3 * viscosity) + 0.5)};
    for (int b = 0; b < boxes; b++) {
        int64_t width = box[b].end[0] - box[b].first[0], height = box[b].end[1] - box[b].first[1];
        if (width <= 0 || height <= 0)
            continue;
        s.box[s.boxes++] = (cavity_box_t){(int)box[b].first[0], (int)box[b].first[1], (int)width, (int)height};
        s.n += (size_t)(width * height);
    }
    return s;
}

static void set_up(cavity_t *c)
{
    static const int width[2] = {1, 1};
    selvage_box_t interior, boundary[CAVITY_BOXES];
    example_open(&c->ex, NULL);
    make_grid(c);
    size_t own = (size_t)(c->block.local_extent[0] * c->block.local_extent[1]);
    size_t bytes = CAVITY_POPULATIONS * (size_t)c->plane * sizeof(double);
    for (int i = 0; i < 2; i++) {
        CHECK(selvage_device_malloc(c->ex.device, bytes, (void **)&c->array[i]));
        CHECK(selvage_device_fill(c->ex.device, c->array[i], 0, bytes, c->ex.stream)); /* the fluid at rest */
    }
    bytes = (CAVITY_PLANES + 1) * own * sizeof(double);
    CHECK(selvage_device_malloc(c->ex.device, bytes, (void **)&c->flow));
    CHECK(selvage_device_fill(c->ex.device, c->flow, 0, bytes, c->ex.stream));
    c->change = c->flow + CAVITY_PLANES * own;
    CHECK(reducer_open(c->ex.device, c->ex.stream, &c->reducer));
    CHECK(selvage_grid_interior(c->grid, width, width, &interior));
    CHECK(selvage_grid_boundary(c->grid, width, width, boundary));
    c->interior = make_step(c, &interior, 1);
    c->boundary = make_step(c, boundary, CAVITY_BOXES);
    make_halo(c);
}

static void tear_down(cavity_t *c)
{
    selvage_halo_destroy(c->halo);
    selvage_grid_destroy(c->grid);
    reducer_close(&c->reducer);
    selvage_device_free(c->ex.device, c->flow);
    for (int i = 0; i < 2; i++)
        selvage_device_free(c->ex.device, c->array[i]);
    example_close(&c->ex);
}

/* Finds the flow anew. Returns by how much a velocity has changed at most, anywhere. */
static double find_flow(cavity_t *c)
{
    size_t own = (size_t)(c->block.local_extent[0] * c->block.local_extent[1]);
    cavity_flow_t loop = {.n = own, .from = c->array[c->now] + c->pitch + 1, .plane = c->plane, .pitch = c->pitch,
                          .width = (int)c->block.local_extent[0], .lid = lid, .flow = c->flow, .change = c->change};
    double mine, most;
    CHECK(device_loop_run(&cavity_flow, &loop, sizeof loop, c->ex.device, c->ex.stream));
    CHECK(reduce_to_max(&c->reducer, c->change, own, &mine));
    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

/* Steps until nothing changes any more while the lid passes the cavity once. Returns whether that was reached. */
static int run_until_steady(cavity_t *c)
{
    long steps = lround(c->cells / lid);
    double change = 1, first = 0;
    for (int passes = 1; passes <= c->passes_max && !(change < c->tolerance); passes++) {
        for (long s = 0; s < steps; s++)
            step(c);
        change = find_flow(c);
        if (!(change < 1))
            example_fail("the flow has become unstable: more --cells are needed");
        if (passes == 1)
            first = change;
        /* What changes decays by the same factor in every pass, so that its logarithm tells how far it is. */
        double part = change < c->tolerance ? 1 : log(change / first) / log(c->tolerance / first);
        part = fmin(fmax(part, (double)passes / c->passes_max), 1);
        example_progress(&c->ex, (long)(part * 1000), 1000);
    }
    return change < c->tolerance;
}

/* Brings one plane of the flow of all ranks to rank 0, where each block is put into its place. */
static void gather(const cavity_t *c, int plane, double *whole)
{
    int64_t extent[2] = {c->block.local_extent[0], c->block.local_extent[1]}, first[2];
    size_t own = (size_t)(extent[0] * extent[1]), most = (size_t)c->cells * (size_t)c->cells;
    double *part;
    CHECK(selvage_device_host_malloc(c->ex.device, (c->ex.rank == 0 ? most : own) * sizeof *part, (void **)&part));
    CHECK(selvage_device_copy(c->ex.device, part, c->flow + (size_t)plane * own, own * sizeof *part,
                              SELVAGE_COPY_DEVICE_TO_HOST, c->ex.stream));
    CHECK(selvage_stream_synchronize(c->ex.device, c->ex.stream));
    if (c->ex.rank != 0)
        MPI_Send(part, (int)own, MPI_DOUBLE, 0, plane, MPI_COMM_WORLD);
    for (int rank = 0; c->ex.rank == 0 && rank < c->ex.ranks; rank++) {
        CHECK(selvage_grid_block(c->grid, rank, extent, first));
        if (rank != 0)
            MPI_Recv(part, (int)(extent[0] * extent[1]), MPI_DOUBLE, rank, plane, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int64_t y = 0; y < extent[1]; y++)
            memcpy(whole + (first[1] + y) * c->cells + first[0], part + y * extent[0],
                   (size_t)extent[0] * sizeof *part);
    }
    selvage_device_host_free(c->ex.device, part);
}

/* Fowler, Noll and Vo's hash of the bits, 64 at a time. */
static uint64_t hash(const double *values, size_t count)
{
    uint64_t h = 0xcbf29ce484222325, bits;
    for (size_t i = 0; i < count; i++) {
        memcpy(&bits, &values[i], sizeof bits);
        h = (h ^ bits) * 0x100000001b3;
    }
    return h;
}

static void print_run(const cavity_t *c, int steady, double seconds)
{
    selvage_halo_info_t halo = {SELVAGE_HALO_INFO_INIT};
    CHECK(selvage_halo_describe(c->halo, &halo));
    double passes = (double)c->steps * lid / c->cells;
    printf("cavity at Re %d: %dx%d cells, %d ranks as %dx%d blocks, device %s\n", c->reynolds, c->cells, c->cells,
           c->ex.ranks, c->block.blocks[0], c->block.blocks[1], selvage_device_name(c->ex.device));
    printf("halo of rank 0: %d packets, %zu bytes a step, %zu of them not packed%s\n", halo.packets, halo.bytes_sent,
           halo.bytes_contiguous, c->faces ? "; corners left out" : "");
    printf("%s after %ld steps, in which the lid passed %.0f times; %.1f s, %.1f million cells a second\n\n",
           steady ? "steady" : "NOT steady", c->steps, passes, seconds,
           (double)c->steps * c->cells * c->cells / seconds * 1e-6);
}

/* On rank 0: what came out, beside what was published. Returns how much of it is wrong. */
static int report(const cavity_t *c, const double *whole)
{
    size_t count = (size_t)c->cells * (size_t)c->cells;
    int wrong = cavity_compare(c->reynolds, c->cells, whole, whole + count);
    printf("\nhash of velocities and pressure %016" PRIx64 "\n", hash(whole, CAVITY_PLANES * count));
    if (c->picture != NULL && cavity_picture(c->picture, c->cells, whole, whole + count) != 0) {
        perror(c->picture);
        wrong++;
    }
    return wrong;
}

/* Every rank returns the same: the number of things that are wrong. */
static int run(cavity_t *c)
{
    size_t count = (size_t)c->cells * (size_t)c->cells;
    double *whole = c->ex.rank == 0 ? malloc(CAVITY_PLANES * count * sizeof *whole) : NULL;
    int wrong = 0;
    if (c->ex.rank == 0 && whole == NULL)
        example_fail("no memory for %d x %d cells on rank 0", c->cells, c->cells);
    set_up(c);
    double start = MPI_Wtime();
    int steady = run_until_steady(c);
    double seconds = MPI_Wtime() - start;
    for (int plane = 0; plane < CAVITY_PLANES; plane++)
        gather(c, plane, whole + (size_t)plane * count);
    if (c->ex.rank == 0) {
        print_run(c, steady, seconds);
        wrong = report(c, whole) + !steady;
    }
    tear_down(c);
    free(whole);
    MPI_Bcast(&wrong, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return wrong;
}

int main(int argc, char **argv)
{
    cavity_t c = {.reynolds = 100, .passes_max = 1000, .tolerance = 1e-6};
    const option_t options[] = {{"--re", OPTION_INT, &c.reynolds, 100, 1000},
                                {"--cells", OPTION_INT, &c.cells, 16, 16384},
                                {"--blocks", OPTION_NUMBERS, c.blocks, 1, 16384},
                                {"--tolerance", OPTION_REAL, &c.tolerance, 1e-14, 0.1},
                                {"--passes", OPTION_INT, &c.passes_max, 1, 1e6},
                                {"--picture", OPTION_TEXT, &c.picture, 0, 0},
                                {"--faces", OPTION_FLAG, &c.faces, 0, 0}};
    int help = 0, code = 2;
    example_init(&argc, &argv, "cavity", &c.ex);
    if (example_parse(&c.ex, argc, argv, options, sizeof options / sizeof *options, usage, &help) != 0) {
        code = help ? 0 : 2;
    } else if (c.reynolds != 100 && c.reynolds != 1000) {
        if (c.ex.rank == 0)
            fprintf(stderr, "cavity: there are tables for --re 100 and 1000 only\n%s", usage);
    } else {
        if (c.cells == 0)
            c.cells = c.reynolds == 100 ? 64 : 128;
        code = run(&c) != 0;
    }
    MPI_Finalize();
    return code;
}
