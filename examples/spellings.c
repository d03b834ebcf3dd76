/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One stencil, three spellings of its halo exchange: host MPI with copies by hand, Selvage's messages, and packets that
 * are declared once and started often, as QMP has them. Slabs of a box on the ranks, periodic along z; all three must
 * give the same field, bit for bit, however many slabs there are.
 *
 *     mpirun -n 4 spellings [--n CELLS] [--steps STEPS] [--device KIND]
 *
 * Read halo_by_mpi(), halo_by_messages() and halo_by_handles(); doc/migration.md has the calls side by side. The loop
 * is that of heat3d.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "example_main.h"
#include "heat3d_loops.h"

enum { UP, DOWN }; /* tags: the way a plane travels */

typedef struct slab {
    example_t *ex;
    int n, steps, planes, first; /* cells along x and y; own planes of z, and the number of the first */
    int above, below;            /* ranks */
    size_t plane;                /* cells of a plane, its frame included */
    double *u, *next;            /* device: own planes between two halo planes */
    double *host;                /* pinned: two planes out, two planes in */
    selvage_exchange_t *handles[2];
    int which;                   /* of them: that of u */
    heat_step_t loop;
} slab_t;

/* The planes of u: what is sent up and down, and where the neighbours' land. */
static double *highest(const slab_t *s) { return s->u + (size_t)s->planes * s->plane; }
static double *lowest(const slab_t *s) { return s->u + s->plane; }
static double *halo_above(const slab_t *s) { return s->u + ((size_t)s->planes + 1) * s->plane; }
static double *halo_below(const slab_t *s) { return s->u; }

static void copy(const slab_t *s, double *to, const double *from, selvage_copy_t way)
{
    CHECK(selvage_device_copy(s->ex->device, to, from, s->plane * sizeof(double), way, s->ex->stream));
}

/* What a program has to do whose MPI knows nothing of GPUs. */
static void halo_by_mpi(slab_t *s)
{
    double *out = s->host, *in = s->host + 2 * s->plane;
    int count = (int)s->plane;
    copy(s, out, highest(s), SELVAGE_COPY_DEVICE_TO_HOST);
    copy(s, out + s->plane, lowest(s), SELVAGE_COPY_DEVICE_TO_HOST);
    CHECK(selvage_stream_synchronize(s->ex->device, s->ex->stream));
    MPI_Sendrecv(out, count, MPI_DOUBLE, s->above, UP, in, count, MPI_DOUBLE, s->below, UP, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(out + s->plane, count, MPI_DOUBLE, s->below, DOWN, in + s->plane, count, MPI_DOUBLE, s->above, DOWN,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    copy(s, halo_below(s), in, SELVAGE_COPY_HOST_TO_DEVICE);
    copy(s, halo_above(s), in + s->plane, SELVAGE_COPY_HOST_TO_DEVICE);
}

/* The same calls, with device pointers and a stream. */
static void halo_by_messages(slab_t *s)
{
    selvage_comm_t *comm = s->ex->comm;
    void *stream = s->ex->stream;
    selvage_request_t *requests[4];
    CHECK(selvage_message_irecv(comm, halo_below(s), s->plane, MPI_DOUBLE, s->below, UP, stream, &requests[0]));
    CHECK(selvage_message_irecv(comm, halo_above(s), s->plane, MPI_DOUBLE, s->above, DOWN, stream, &requests[1]));
    CHECK(selvage_message_isend(comm, highest(s), s->plane, MPI_DOUBLE, s->above, UP, stream, &requests[2]));
    CHECK(selvage_message_isend(comm, lowest(s), s->plane, MPI_DOUBLE, s->below, DOWN, stream, &requests[3]));
    CHECK(selvage_message_waitall(4, requests, NULL));
}

/* QMP_declare_msgmem, QMP_declare_send_to, QMP_declare_receive_from and QMP_declare_multiple in one; for each field. */
static selvage_exchange_t *declare_handles(const slab_t *s)
{
    size_t bytes = s->plane * sizeof(double);
    selvage_exchange_t *x;
    CHECK(selvage_exchange_create(s->ex->comm, NULL, &x));
    CHECK(selvage_exchange_add_send(x, highest(s), bytes, s->above, UP, NULL));
    CHECK(selvage_exchange_add_send(x, lowest(s), bytes, s->below, DOWN, NULL));
    CHECK(selvage_exchange_add_recv(x, halo_below(s), bytes, s->below, UP, NULL));
    CHECK(selvage_exchange_add_recv(x, halo_above(s), bytes, s->above, DOWN, NULL));
    CHECK(selvage_exchange_commit(x));
    return x;
}

/* QMP_start and QMP_wait. What needs no halo could be computed between the two. */
static void halo_by_handles(slab_t *s)
{
    CHECK(selvage_exchange_start(s->handles[s->which], s->ex->stream));
    CHECK(selvage_exchange_wait(s->handles[s->which], s->ex->stream));
}

/* --- the rest: field, steps, comparison --------------------------------------------------------------------------- */

static void swap(slab_t *s)
{
    double *next = s->u;
    s->u = s->next;
    s->next = next;
    s->which = !s->which;
}

static double initial(uint64_t x, uint64_t y, uint64_t z)
{
    return (double)((x * 7919 + y * 104729 + z * 1299709 + x * y * z) % 1013) / 1013;
}

/* Own cells; the frame along x and y stays zero. */
static void fill(slab_t *s, double *field)
{
    const size_t pitch = (size_t)s->n + 2, cells = ((size_t)s->planes + 2) * s->plane;
    memset(field, 0, cells * sizeof(double));
    for (int z = 0; z < s->planes; z++)
        for (int y = 0; y < s->n; y++)
            for (int x = 0; x < s->n; x++)
                field[(size_t)(z + 1) * s->plane + (size_t)(y + 1) * pitch + (size_t)x + 1] =
                    initial((uint64_t)x, (uint64_t)y, (uint64_t)(s->first + z));
    double *const both[2] = {s->u, s->next};
    for (int i = 0; i < 2; i++)
        CHECK(selvage_device_copy(s->ex->device, both[i], field, cells * sizeof(double), SELVAGE_COPY_HOST_TO_DEVICE,
                                  s->ex->stream));
    CHECK(selvage_stream_synchronize(s->ex->device, s->ex->stream));
}

/* A number that changes with every bit of every cell, and not with the way in which the box is cut. */
static uint64_t digest(const slab_t *s, double *field)
{
    uint64_t mine = 0, all = 0;
    CHECK(selvage_device_copy(s->ex->device, field, s->u, ((size_t)s->planes + 2) * s->plane * sizeof(double),
                              SELVAGE_COPY_DEVICE_TO_HOST, s->ex->stream));
    CHECK(selvage_stream_synchronize(s->ex->device, s->ex->stream));
    for (size_t i = 0; i < (size_t)s->planes * s->plane; i++) {
        uint64_t bits;
        memcpy(&bits, &field[s->plane + i], sizeof bits);
        bits = (bits ^ ((size_t)s->first * s->plane + i) * 0x9e3779b97f4a7c15) * 0xd6e8feb86659fd93;
        mine += (bits ^ bits >> 32) * 0xd6e8feb86659fd93;
    }
    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static uint64_t solve(slab_t *s, double *field, void (*halo)(slab_t *s))
{
    fill(s, field);
    for (int step = 0; step < s->steps; step++) {
        halo(s);
        s->loop.u = s->u;
        s->loop.next = s->next;
        CHECK(device_loop_run(&heat_update, &s->loop, sizeof s->loop, s->ex->device, s->ex->stream));
        swap(s);
    }
    return digest(s, field);
}

/* One box of all own cells. */
static void make_loop(slab_t *s)
{
    size_t tiles = ((size_t)s->n + LOOP_THREADS - 1) / LOOP_THREADS;
    s->loop = (heat_step_t){.r = 0.125, .pitch_y = s->n + 2, .pitch_z = (ptrdiff_t)s->plane, .nboxes = 1};
    s->loop.box[0] = (heat_box_t){.origin = (ptrdiff_t)s->plane + s->n + 3, .log_tile = 8,
                                  .extent = {(uint32_t)s->n, (uint32_t)s->n, (uint32_t)s->planes}};
    s->loop.n = LOOP_THREADS * tiles * (size_t)s->n * (((size_t)s->planes + HEAT_COLUMN - 1) / HEAT_COLUMN);
}

static double *open_slab(slab_t *s)
{
    const example_t *ex = s->ex;
    double *field;
    s->first = (int)((int64_t)s->n * ex->rank / ex->ranks);
    s->planes = (int)((int64_t)s->n * (ex->rank + 1) / ex->ranks) - s->first;
    s->above = (ex->rank + 1) % ex->ranks;
    s->below = (ex->rank + ex->ranks - 1) % ex->ranks;
    s->plane = ((size_t)s->n + 2) * ((size_t)s->n + 2);
    size_t bytes = ((size_t)s->planes + 2) * s->plane * sizeof(double);
    CHECK(selvage_device_malloc(ex->device, bytes, (void **)&s->u));
    CHECK(selvage_device_malloc(ex->device, bytes, (void **)&s->next));
    CHECK(selvage_device_host_malloc(ex->device, 4 * s->plane * sizeof(double), (void **)&s->host));
    CHECK(selvage_device_host_malloc(ex->device, bytes, (void **)&field));
    make_loop(s);
    for (int i = 0; i < 2; i++) {
        s->handles[s->which] = declare_handles(s);
        swap(s);
    }
    return field;
}

static void close_slab(slab_t *s, double *field)
{
    for (int i = 0; i < 2; i++)
        selvage_exchange_destroy(s->handles[i]);
    selvage_device_host_free(s->ex->device, field);
    selvage_device_host_free(s->ex->device, s->host);
    selvage_device_free(s->ex->device, s->next);
    selvage_device_free(s->ex->device, s->u);
}

static int run(slab_t *s)
{
    double *field = open_slab(s);
    uint64_t by_mpi = solve(s, field, halo_by_mpi);
    uint64_t by_messages = solve(s, field, halo_by_messages);
    uint64_t by_handles = solve(s, field, halo_by_handles);
    int same = by_mpi == by_messages && by_mpi == by_handles;
    if (s->ex->rank == 0)
        printf("spellings: %d^3 cells, %d steps, %d ranks: MPI %016" PRIx64 ", messages %016" PRIx64 ", handles %016"
               PRIx64 ": %s\n", s->n, s->steps, s->ex->ranks, by_mpi, by_messages, by_handles,
               same ? "the same" : "NOT the same");
    close_slab(s, field);
    return !same;
}

int main(int argc, char **argv)
{
    example_t ex;
    slab_t s = {.ex = &ex, .n = 32, .steps = 20};
    const char *device = NULL;
    const option_t options[] = {{"--n", OPTION_INT, &s.n, 1, 512},
                                {"--steps", OPTION_INT, &s.steps, 0, 100000},
                                {"--device", OPTION_TEXT, &device, 0, 0}};
    int code = 2;
    example_init(&argc, &argv, "spellings", &ex);
    if (example_parse(&ex, argc, argv, options, 3, "usage: spellings [--n CELLS] [--steps STEPS] [--device KIND]\n",
                      NULL) == 0 && s.n >= ex.ranks) {
        example_open(&ex, device);
        code = run(&s);
        example_close(&ex);
    }
    MPI_Finalize();
    return code;
}
