/* SPDX-License-Identifier: BSD-3-Clause */
/* See wilson_ways.h. Read make_exchange() and wilson_hop_in_kernel(): the kernel is in wilson_loops.cc. */
#include "wilson_ways.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPEATS = 5, GRAPH_HOPS = 10 };

const char *const wilson_way_names[WILSON_WAYS] = {"host", "enqueued", "run", "kernel"};

static size_t face_bytes(const wilson_t *w, int face)
{
    return (w->faces.start[face + 1] - w->faces.start[face]) * sizeof(wilson_half_t);
}

/* One packet for each face, to the neighbour whose halo it becomes: not more is declared than its size. */
static void make_exchange(wilson_t *w)
{
    size_t bytes = 0;
    for (int face = 0; face < WILSON_FACES; face++)
        bytes += 2 * face_bytes(w, face);
    CHECK(selvage_device_malloc(w->ex->device, bytes, &w->whole.declared));
    uint8_t *at = w->whole.declared;
    CHECK(selvage_exchange_create(w->ex->comm, NULL, &w->whole.exchange));
    for (int face = 0; face < WILSON_FACES; face++) {
        int offset[WILSON_DIMS] = {0}, to, from;
        offset[face / 2] = face % 2 ? -1 : 1; /* an upper halo is filled from above */
        CHECK(selvage_grid_neighbour(w->grid, offset, &to));
        offset[face / 2] *= -1;
        CHECK(selvage_grid_neighbour(w->grid, offset, &from));
        CHECK(selvage_exchange_add_send(w->whole.exchange, at, face_bytes(w, face), to, face, NULL));
        at += face_bytes(w, face);
        CHECK(selvage_exchange_add_recv(w->whole.exchange, at, face_bytes(w, face), from, face, NULL));
        at += face_bytes(w, face);
    }
    CHECK(selvage_exchange_commit(w->whole.exchange));
}

/* Where the faces of the neighbours lie: beside the own sites. */
static wilson_boxes_t halo_boxes(const wilson_t *w)
{
    wilson_boxes_t halos = w->faces;
    for (int face = 0; face < WILSON_FACES; face++)
        halos.first[face][face / 2] = (int16_t)(face % 2 ? w->block.size[face / 2] : -1);
    return halos;
}

static void upload_boxes(wilson_t *w)
{
    wilson_hop_boxes_t *host;
    CHECK(selvage_device_host_malloc(w->ex->device, sizeof *host, (void **)&host));
    *host = (wilson_hop_boxes_t){w->faces, halo_boxes(w), w->interior, w->boundary};
    CHECK(selvage_device_malloc(w->ex->device, sizeof *host, &w->whole.boxes));
    CHECK(selvage_device_copy(w->ex->device, w->whole.boxes, host, sizeof *host, SELVAGE_COPY_HOST_TO_DEVICE,
                              w->ex->stream));
    CHECK(selvage_stream_synchronize(w->ex->device, w->ex->stream));
    selvage_device_host_free(w->ex->device, host);
}

/* All blocks of the kernel, and parts of about 4 KiB for them to send. */
static void share_out(wilson_t *w)
{
    enum { PART_BYTES = 4096 };
    size_t longest = 0;
    for (int face = 0; face < WILSON_FACES; face++)
        longest = face_bytes(w, face) > longest ? face_bytes(w, face) : longest;
    w->whole.blocks = device_kernel_blocks(&wilson_whole_hop, w->ex->device);
    const size_t parts = longest / PART_BYTES + 1, most = w->whole.blocks / WILSON_FACES + 1;
    w->whole.parts = (uint32_t)(parts < most ? parts : most);
}

int wilson_way_is_possible(wilson_t *w, wilson_way_t way)
{
    if (w->whole.exchange == NULL) {
        make_exchange(w);
        int mine = selvage_exchange_device(w->whole.exchange, 1, w->ex->stream, NULL) == SELVAGE_SUCCESS;
        MPI_Allreduce(&mine, &w->whole.possible, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        upload_boxes(w);
        share_out(w);
    }
    return way == WILSON_HOST || w->whole.possible;
}

void wilson_whole_close(wilson_t *w)
{
    selvage_exchange_destroy(w->whole.exchange);
    selvage_device_free(w->ex->device, w->whole.declared);
    selvage_device_free(w->ex->device, w->whole.boxes);
}

void wilson_hop_in_kernel(wilson_t *w, int parity, int sign, const wilson_spinor_t *in, const wilson_spinor_t *base,
                          double scale, wilson_spinor_t *out)
{
    wilson_whole_hop_t arg = {.boxes = w->whole.boxes, .block = w->block, .parity = parity, .sign = sign,
                              .parts = w->whole.parts, .scale = scale, .links = w->links, .half = w->half, .in = in,
                              .base = base, .out = out};
    CHECK(selvage_exchange_device(w->whole.exchange, 1, w->ex->stream, &arg.ex)); /* a session of one epoch */
    CHECK(device_kernel_run(&wilson_whole_hop, &arg, sizeof arg, w->whole.blocks, w->ex->device, w->ex->stream));
}

/* --- how long a hop takes ----------------------------------------------------------------------------------------- */

/* Waits for the hops, and ends the job if one of them has found what is wrong. */
static void finish(wilson_t *w)
{
    if (w->way == WILSON_KERNEL)
        CHECK(selvage_exchange_wait(w->whole.exchange, w->ex->stream));
    for (int parity = 0; parity < 2 && w->way != WILSON_KERNEL; parity++)
        CHECK(selvage_halo_wait(w->halo[parity], w->ex->stream));
    CHECK(selvage_stream_synchronize(w->ex->device, w->ex->stream));
}

static void take_hops(wilson_t *w, const wilson_field_t *x, int hops)
{
    for (int h = 0; h < hops; h++)
        wilson_hop_across(w, h % 2, 1, x->part[1 - h % 2], NULL, 1.0 / 16, x->part[h % 2]);
}

/* graph: GRAPH_HOPS of the hops; NULL: they are enqueued one by one. */
static double time_hops(wilson_t *w, const wilson_field_t *x, int hops, selvage_graph_t *graph)
{
    double mine, slowest;
    int rest = hops;
    MPI_Barrier(MPI_COMM_WORLD);
    mine = MPI_Wtime();
    for (; graph != NULL && rest >= GRAPH_HOPS; rest -= GRAPH_HOPS)
        CHECK(selvage_graph_launch(w->ex->device, graph, w->ex->stream));
    take_hops(w, x, rest);
    finish(w);
    mine = (MPI_Wtime() - mine) / hops;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* One in every component of every odd site: the faces that travel are not alike, since links are matrices. */
static void set_start(const wilson_t *w, const wilson_field_t *x)
{
    const size_t bytes = w->places * sizeof(wilson_spinor_t), numbers = bytes / sizeof(double);
    double *host;
    CHECK(selvage_device_host_malloc(w->ex->device, bytes, (void **)&host));
    for (size_t i = 0; i < numbers; i++)
        host[i] = 1 + (double)(i * 7919 % 1013) / 1013 + w->ex->rank;
    for (int parity = 0; parity < 2; parity++)
        CHECK(selvage_device_copy(w->ex->device, x->part[parity], host, bytes, SELVAGE_COPY_HOST_TO_DEVICE,
                                  w->ex->stream));
    CHECK(selvage_stream_synchronize(w->ex->device, w->ex->stream));
    selvage_device_host_free(w->ex->device, host);
}

/* Best of several times; the sum of squares after the last. */
static double best_of(wilson_t *w, const wilson_field_t *x, int hops, selvage_graph_t *graph, double *norm2)
{
    double best = INFINITY;
    for (int repeat = 0; repeat <= REPEATS; repeat++) { /* the first is to warm up */
        set_start(w, x);
        double seconds = time_hops(w, x, hops, graph);
        best = repeat > 0 && seconds < best ? seconds : best;
    }
    *norm2 = wilson_norm2(w, x->part[0]) + wilson_norm2(w, x->part[1]);
    return best;
}

/* Prints a row. Returns 1 if the numbers are not the first way's, to the bit. */
static int show_row(const wilson_t *w, const char *name, double seconds, double norm2, double first)
{
    const int good = norm2 == first && isfinite(norm2);
    if (w->ex->rank == 0)
        printf("%-22s %10.2f   %.15e%s\n", name, seconds * 1e6, norm2, good ? "" : "  WRONG");
    return !good;
}

int wilson_time_ways(wilson_t *w, int hops)
{
    const wilson_way_t before = w->way;
    wilson_field_t x = wilson_field_alloc(w);
    selvage_graph_t *graph = NULL;
    double first, norm2;
    int wrong = 0;
    if (w->ex->rank == 0)
        printf("\n%d hops, best of %d    us a hop   |x|^2 after them\n", hops, REPEATS);
    w->way = WILSON_HOST;
    double seconds = best_of(w, &x, hops, NULL, &first);
    wrong += show_row(w, wilson_way_names[WILSON_HOST], seconds, first, first);
    for (wilson_way_t way = WILSON_ENQUEUED; way < WILSON_WAYS && wilson_way_is_possible(w, way); way++) {
        w->way = way;
        seconds = best_of(w, &x, hops, NULL, &norm2);
        wrong += show_row(w, wilson_way_names[way], seconds, norm2, first);
        if (way != WILSON_RUN)
            continue;
        CHECK(selvage_graph_begin(w->ex->device, w->ex->stream));
        take_hops(w, &x, GRAPH_HOPS);
        CHECK(selvage_graph_end(w->ex->device, w->ex->stream, &graph));
        seconds = best_of(w, &x, hops, graph, &norm2);
        wrong += show_row(w, "run, in graphs of 10", seconds, norm2, first);
    }
    w->way = before;
    selvage_graph_destroy(w->ex->device, graph);
    wilson_field_free(w, &x);
    return wrong;
}
