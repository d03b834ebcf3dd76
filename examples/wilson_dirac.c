/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The grid, the halos and the operator; see wilson_dirac.h. The halo code is all in make_halo() and
 * wilson_hop_across(): eight fields of half spinors on the sites of one parity, each with one layer of halo on one
 * side, go in one message per neighbour.
 */
#include "wilson_ways.h"

#include <sched.h>

/* The halo of the half spinors on sites of one parity. Both parities use the same memory, in turn. */
static selvage_halo_t *make_halo(const wilson_t *w, int parity)
{
    selvage_field_t field[WILSON_FACES];
    selvage_halo_t *halo;
    for (int face = 0; face < WILSON_FACES; face++) {
        field[face] = (selvage_field_t){SELVAGE_FIELD_INIT, .element_bytes = sizeof(wilson_half_t)};
        field[face].data = w->half + (size_t)face * wilson_half_places(&w->block);
        field[face].parity = parity == 0 ? SELVAGE_PARITY_EVEN : SELVAGE_PARITY_ODD;
        field[face].packed_dim = 0;
        field[face].order = SELVAGE_ORDER_FIRST;
        field[face].has_first = 1;
        for (int d = 0; d < WILSON_DIMS; d++) {
            field[face].width_lo[d] = face == 2 * d;
            field[face].width_hi[d] = face == 2 * d + 1;
            field[face].array_extent[d] = wilson_half_extent(&w->block, d);
            field[face].first[d] = wilson_half_first(face, d);
        }
    }
    CHECK(selvage_halo_create(w->grid, NULL, field, WILSON_FACES, &halo));
    return halo;
}

/* Runs a loop over the places of some boxes. */
static void run_on(const wilson_t *w, const device_loop_t *loop, const wilson_boxes_t *boxes, wilson_hop_t *arg)
{
    arg->boxes = *boxes;
    arg->n = boxes->start[boxes->count];
    CHECK(device_loop_run(loop, arg, sizeof *arg, w->ex->device, w->ex->stream));
}

void wilson_hop_across(wilson_t *w, int parity, int sign, const wilson_spinor_t *in, const wilson_spinor_t *base,
                       double scale, wilson_spinor_t *out)
{
    wilson_hop_t arg = {.block = w->block, .parity = parity, .sign = sign, .scale = scale, .links = w->links,
                        .half = w->half, .in = in, .base = base, .out = out};
    selvage_halo_t *halo = w->halo[1 - parity];
    if (w->way == WILSON_KERNEL) {
        wilson_hop_in_kernel(w, parity, sign, in, base, scale, out);
        return;
    }
    run_on(w, &wilson_project_faces, &w->faces, &arg);
    if (w->way == WILSON_RUN) {
        CHECK(selvage_halo_run(halo, w->ex->stream));          /* the stream waits, and one launch exchanges */
        run_on(w, &wilson_hop, &w->interior, &arg);
        run_on(w, &wilson_hop, &w->boundary, &arg);
        return;
    }
    CHECK(selvage_halo_start(halo, w->ex->stream));            /* returns at once */
    run_on(w, &wilson_hop, &w->interior, &arg);                /* runs while half spinors travel */
    if (w->way == WILSON_ENQUEUED)
        CHECK(selvage_halo_enqueue_wait(halo, w->ex->stream)); /* the stream waits */
    else
        CHECK(selvage_halo_wait(halo, w->ex->stream));         /* later work on the stream sees them */
    run_on(w, &wilson_hop, &w->boundary, &arg);
}

/* Boxes as loops take them: as numbers of places. */
static wilson_boxes_t make_boxes(const selvage_box_t *box, int count)
{
    wilson_boxes_t boxes = {.count = count};
    for (int b = 0; b < count; b++) {
        uint32_t places = 1;
        for (int d = 0; d < WILSON_DIMS; d++) {
            int64_t size = box[b].end[d] > box[b].first[d] ? box[b].end[d] - box[b].first[d] : 0;
            boxes.first[b][d] = (int16_t)box[b].first[d];
            boxes.size[b][d] = (int16_t)size;
            places *= (uint32_t)(d == 0 ? (size + 1) / 2 : size);
        }
        boxes.start[b + 1] = boxes.start[b] + places;
    }
    return boxes;
}

static void find_boxes(wilson_t *w)
{
    static const int width[WILSON_DIMS] = {1, 1, 1, 1};
    selvage_box_t interior, slab[WILSON_FACES], face[WILSON_FACES];
    CHECK(selvage_grid_interior(w->grid, width, width, &interior));
    CHECK(selvage_grid_boundary(w->grid, width, width, slab));
    for (int f = 0; f < WILSON_FACES; f++) {
        for (int d = 0; d < WILSON_DIMS; d++) {
            face[f].first[d] = f == 2 * d ? w->block.size[d] - 1 : 0; /* what goes up becomes a lower halo */
            face[f].end[d] = f == 2 * d + 1 ? 1 : w->block.size[d];
        }
    }
    w->interior = make_boxes(&interior, 1);
    w->boundary = make_boxes(slab, WILSON_FACES);
    w->faces = make_boxes(face, WILSON_FACES);
}

static void find_block(wilson_t *w, const int extent[WILSON_DIMS], const int blocks[WILSON_DIMS])
{
    selvage_grid_params_t params = {SELVAGE_GRID_PARAMS_INIT, .ndims = WILSON_DIMS};
    for (int d = 0; d < WILSON_DIMS; d++) {
        params.global_extent[d] = extent[d];
        params.periodic[d] = 1;
        params.blocks[d] = blocks[d];
    }
    CHECK(selvage_grid_create(w->ex->comm, &params, &w->grid));
    CHECK(selvage_grid_describe(w->grid, &w->info));
    w->places = 1;
    for (int d = 0; d < WILSON_DIMS; d++) {
        w->block.size[d] = (int32_t)w->info.local_extent[d];
        w->block.odd ^= (int32_t)(w->info.local_first[d] & 1);
        w->places *= (size_t)(d == 0 ? (w->block.size[d] + 1) / 2 : w->block.size[d]);
    }
}

void wilson_open(const example_t *ex, const int extent[WILSON_DIMS], const int blocks[WILSON_DIMS], wilson_t *w)
{
    *w = (wilson_t){.ex = ex, .info = {SELVAGE_GRID_INFO_INIT}};
    find_block(w, extent, blocks);
    find_boxes(w);
    size_t links = WILSON_DIMS, half_bytes = WILSON_FACES * wilson_half_places(&w->block) * sizeof(wilson_half_t);
    for (int d = 0; d < WILSON_DIMS; d++)
        links *= (size_t)w->block.size[d] + 1;
    CHECK(selvage_device_malloc(ex->device, links * sizeof(su3_matrix_t), (void **)&w->links));
    CHECK(selvage_device_malloc(ex->device, half_bytes, (void **)&w->half));
    CHECK(reducer_open(ex->device, ex->stream, &w->reducer));
    for (int parity = 0; parity < 2; parity++)
        w->halo[parity] = make_halo(w, parity);
}

void wilson_close(wilson_t *w)
{
    wilson_whole_close(w);
    for (int parity = 0; parity < 2; parity++)
        selvage_halo_destroy(w->halo[parity]);
    reducer_close(&w->reducer);
    selvage_device_free(w->ex->device, w->half);
    selvage_device_free(w->ex->device, w->links);
    selvage_grid_destroy(w->grid);
}

wilson_spinor_t *wilson_spinor_alloc(const wilson_t *w)
{
    void *spinors;
    CHECK(selvage_device_malloc(w->ex->device, w->places * sizeof(wilson_spinor_t), &spinors));
    CHECK(selvage_device_fill(w->ex->device, spinors, 0, w->places * sizeof(wilson_spinor_t), w->ex->stream));
    return spinors;
}

wilson_field_t wilson_field_alloc(const wilson_t *w)
{
    return (wilson_field_t){{wilson_spinor_alloc(w), wilson_spinor_alloc(w)}};
}

void wilson_field_free(const wilson_t *w, wilson_field_t *field)
{
    for (int parity = 0; parity < 2; parity++)
        selvage_device_free(w->ex->device, field->part[parity]);
}

void wilson_add(const wilson_t *w, const wilson_spinor_t *x, double factor, const wilson_spinor_t *y,
                wilson_spinor_t *out)
{
    wilson_combine_t arg = {w->places * WILSON_SPINOR_DOUBLES, factor, (const double *)x, (const double *)y,
                            (double *)out};
    CHECK(device_loop_run(&wilson_combine, &arg, sizeof arg, w->ex->device, w->ex->stream));
}

/* Over this rank's places from `first` on. */
static double norm2_here(wilson_t *w, const wilson_spinor_t *x, size_t first, size_t places)
{
    const double *numbers = (const double *)(x + first);
    double sum;
    CHECK(reduce_to_dot(&w->reducer, numbers, numbers, places * WILSON_SPINOR_DOUBLES, &sum));
    return sum;
}

/* Sums over the ranks. Tested and not waited for: some MPIs spin while they wait, and here
   ranks may outnumber cores. */
static void add_ranks(const double *here, double *sums, int count)
{
    MPI_Request request;
    int done = 0;
    MPI_Iallreduce(here, sums, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
        sched_yield();
}

double wilson_norm2(wilson_t *w, const wilson_spinor_t *x)
{
    double here = norm2_here(w, x, 0, w->places), sum;
    add_ranks(&here, &sum, 1);
    return sum;
}

void wilson_add_slices(wilson_t *w, const wilson_field_t *x, double *sums)
{
    size_t slice = w->places / (size_t)w->block.size[3];
    for (int64_t t = 0; t < w->info.global_extent[3]; t++) {
        int64_t here = t - w->info.local_first[3];
        double mine = 0, all;
        if (here >= 0 && here < w->block.size[3])
            for (int parity = 0; parity < 2; parity++)
                mine += norm2_here(w, x->part[parity], (size_t)here * slice, slice);
        add_ranks(&mine, &all, 1);
        sums[t] += all;
    }
}
