/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shortest useful stencil: heat on a periodic square, blocks of it on the ranks, the interior computed while the
 * halos travel. At the end the field is compared, bit for bit, with the same steps taken by one rank alone.
 *
 *     mpirun -n 4 heat2d [--n CELLS] [--steps STEPS]
 *
 * Read make_exchange() and step(); before them are the kernels, after them the set-up and the comparison. The kernels
 * are C functions, launched on the software device; on a GPU they are kernels launched on the same stream, and nothing
 * else changes.
 */
#include <mpi.h>
#include <selvage.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call) check((call), #call)

enum { LEFT, RIGHT, UP, DOWN }; /* a side of the block; as a tag: the way a packet travels */
enum { BLOCKS = 2, CELLS_MAX = 4096, STEPS_MAX = 1000000 }; /* BLOCKS: threads that run a kernel */

/* A rank's block: ny rows of nx cells in a frame of halo cells. Rows are contiguous, columns are packed. */
typedef struct block {
    double *cells, *next, *edge[2], *halo[2]; /* edge, halo: the columns LEFT and RIGHT, inside and outside */
    int nx, ny, pitch, x0, y0;                /* x0, y0: of the first cell in the square */
} block_t;

typedef struct rank {
    int rank, ranks, neighbour[4];
    selvage_device_t *device;
    selvage_comm_t *comm;
    void *stream;
    block_t block[2];                /* a step from the one field into the other, and one back */
    selvage_exchange_t *exchange[2]; /* brings the halo of block[i].cells */
} rank_t;

static void check(selvage_status_t status, const char *what)
{
    if (status == SELVAGE_SUCCESS)
        return;
    fprintf(stderr, "heat2d: %s: %s\n", what, selvage_status_name(status)); /* the library has said why */
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Never inlined: in two places a compiler may fuse different products and sums, and the bits would differ. */
__attribute__((noinline)) static double heat(double here, double west, double east, double north, double south)
{
    return here + 0.2 * (west + east + north + south - 4 * here);
}

static void update(const block_t *b, int y, int first, int last)
{
    const double *north = b->cells + (y - 1) * b->pitch, *u = north + b->pitch, *south = u + b->pitch;
    for (int x = first; x <= last; x++)
        b->next[y * b->pitch + x] = heat(u[x], u[x - 1], u[x + 1], north[x], south[x]);
}

/* No two rows or columns alike, so that a halo in the wrong place shows. */
static double initial(int x, int y)
{
    return (double)(((unsigned)x * 7919u + (unsigned)y * 104729u + (unsigned)x * (unsigned)y) % 1013u) / 1013;
}

static void fill(const void *arg, unsigned block, unsigned nblocks)
{
    const block_t *b = arg;
    for (int y = 1 + (int)block; y <= b->ny; y += (int)nblocks)
        for (int x = 1; x <= b->nx; x++)
            b->cells[y * b->pitch + x] = initial(b->x0 + x - 1, b->y0 + y - 1);
}

static void pack_columns(const void *arg, unsigned block, unsigned nblocks)
{
    const block_t *b = arg;
    for (int y = 1 + (int)block; y <= b->ny; y += (int)nblocks) {
        b->edge[LEFT][y - 1] = b->cells[y * b->pitch + 1];
        b->edge[RIGHT][y - 1] = b->cells[y * b->pitch + b->nx];
    }
}

static void compute_interior(const void *arg, unsigned block, unsigned nblocks)
{
    const block_t *b = arg;
    for (int y = 2 + (int)block; y < b->ny; y += (int)nblocks)
        update(b, y, 2, b->nx - 1);
}

static void compute_boundary(const void *arg, unsigned block, unsigned nblocks)
{
    const block_t *b = arg;
    for (int y = 1 + (int)block; y <= b->ny; y += (int)nblocks) {
        int whole = y == 1 || y == b->ny; /* only first and last row; of the others the two end cells */
        b->cells[y * b->pitch] = b->halo[LEFT][y - 1];
        b->cells[y * b->pitch + b->nx + 1] = b->halo[RIGHT][y - 1];
        update(b, y, 1, whole ? b->nx : 1);
        update(b, y, whole ? b->nx + 1 : b->nx, b->nx);
    }
}

/* One packet out and one in on every side. What travels LEFT arrives on the other rank's RIGHT: the tag d ^ 1 says so,
   also where both neighbours are one rank, or this rank itself. */
static selvage_exchange_t *make_exchange(const rank_t *r, const block_t *b)
{
    double *top = b->cells + 1, *bottom = top + (b->ny + 1) * b->pitch; /* rows of the halo */
    double *const edge[4] = {b->edge[LEFT], b->edge[RIGHT], top + b->pitch, bottom - b->pitch};
    double *const halo[4] = {b->halo[LEFT], b->halo[RIGHT], top, bottom};
    selvage_exchange_t *ex;
    CHECK(selvage_exchange_create(r->comm, NULL, &ex));
    for (int d = LEFT; d <= DOWN; d++) {
        size_t bytes = (size_t)(d <= RIGHT ? b->ny : b->nx) * sizeof(double);
        CHECK(selvage_exchange_add_send(ex, edge[d], bytes, r->neighbour[d], d, NULL));
        CHECK(selvage_exchange_add_recv(ex, halo[d], bytes, r->neighbour[d], d ^ 1, NULL));
    }
    CHECK(selvage_exchange_commit(ex));
    return ex;
}

static void launch(const rank_t *r, selvage_soft_kernel_t kernel, const block_t *b)
{
    CHECK(selvage_device_launch_soft(r->device, kernel, b, sizeof *b, BLOCKS, r->stream));
}

static void step(const rank_t *r, int which)
{
    const block_t *b = &r->block[which];
    launch(r, pack_columns, b);
    CHECK(selvage_exchange_start(r->exchange[which], r->stream)); /* returns at once; reads after the packing */
    launch(r, compute_interior, b);                               /* runs under the exchange */
    CHECK(selvage_exchange_wait(r->exchange[which], r->stream));  /* later work on the stream sees the halo */
    launch(r, compute_boundary, b);
}

/* Finds this rank's block, uneven where the square does not divide; false if there are more ranks than cells. */
static int place(rank_t *r, int n, block_t *b)
{
    int dims[2] = {0, 0};
    MPI_Dims_create(r->ranks, 2, dims);
    int px = dims[0], py = dims[1], x = r->rank % px, y = r->rank / px;
    *b = (block_t){.x0 = n * x / px, .y0 = n * y / py};
    b->nx = n * (x + 1) / px - b->x0;
    b->ny = n * (y + 1) / py - b->y0;
    b->pitch = b->nx + 2;
    r->neighbour[LEFT] = y * px + (x + px - 1) % px;
    r->neighbour[RIGHT] = y * px + (x + 1) % px;
    r->neighbour[UP] = (y + py - 1) % py * px + x;
    r->neighbour[DOWN] = (y + 1) % py * px + x;
    return n >= px && n >= py;
}

/* Device memory: two fields in their frames, then the four columns. */
static void set_up(rank_t *r, block_t b)
{
    size_t cells = (size_t)b.pitch * (size_t)(b.ny + 2), doubles = 2 * cells + 4 * (size_t)b.ny;
    CHECK(selvage_device_open("soft", &r->device));
    CHECK(selvage_comm_create(MPI_COMM_WORLD, &(selvage_comm_params_t){SELVAGE_COMM_PARAMS_INIT, .device = r->device},
                              &r->comm));
    CHECK(selvage_stream_create(r->device, &r->stream));
    CHECK(selvage_device_malloc(r->device, doubles * sizeof(double), (void **)&b.cells));
    b.next = b.cells + cells;
    for (int side = LEFT; side <= RIGHT; side++) {
        b.edge[side] = b.next + cells + side * b.ny;
        b.halo[side] = b.edge[side] + 2 * b.ny;
    }
    r->block[0] = r->block[1] = b;
    r->block[1].cells = b.next;
    r->block[1].next = b.cells;
    for (int i = 0; i < 2; i++)
        r->exchange[i] = make_exchange(r, &r->block[i]);
    launch(r, fill, &r->block[0]);
}

static void tear_down(rank_t *r)
{
    for (int i = 0; i < 2; i++)
        selvage_exchange_destroy(r->exchange[i]);
    selvage_device_free(r->device, r->block[0].cells);
    selvage_stream_destroy(r->device, r->stream);
    selvage_comm_destroy(r->comm);
    selvage_device_close(r->device);
}

/* The whole square on rank 0: each rank puts its rows in place among zeros, and x + 0 is x, to the bit. */
static void gather(const rank_t *r, const block_t *b, int n, double *whole)
{
    double *mine;
    CHECK(selvage_device_host_malloc(r->device, (size_t)n * (size_t)n * sizeof(double), (void **)&mine));
    memset(mine, 0, (size_t)n * (size_t)n * sizeof(double));
    for (int y = 0; y < b->ny; y++)
        CHECK(selvage_device_copy(r->device, mine + (b->y0 + y) * n + b->x0, b->cells + (y + 1) * b->pitch + 1,
                                  (size_t)b->nx * sizeof(double), SELVAGE_COPY_DEVICE_TO_HOST, r->stream));
    CHECK(selvage_stream_synchronize(r->device, r->stream));
    MPI_Reduce(mine, whole, n * n, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    selvage_device_host_free(r->device, mine);
}

/* All steps on one rank; u is overwritten, and the result is in whichever of the two is returned. */
static double *solve_serially(int n, int steps, double *u, double *next)
{
    for (int i = 0; i < n * n; i++)
        u[i] = initial(i % n, i / n);
    for (int s = 0; s < steps; s++) {
        for (int y = 0; y < n; y++) {
            const double *here = u + y * n, *north = u + (y + n - 1) % n * n, *south = u + (y + 1) % n * n;
            for (int x = 0; x < n; x++)
                next[y * n + x] = heat(here[x], here[(x + n - 1) % n], here[(x + 1) % n], north[x], south[x]);
        }
        double *old = u;
        u = next;
        next = old;
    }
    return u;
}

/* Number of cells that differ; the first is printed. */
static int compare(int n, const double *whole, const double *serial)
{
    int differ = 0;
    for (int i = 0; i < n * n; i++)
        if (memcmp(&whole[i], &serial[i], sizeof(double)) != 0 && differ++ == 0)
            printf("heat2d: cell %d %d is %.17g, the serial run has %.17g\n", i % n, i / n, whole[i], serial[i]);
    return differ;
}

/* "--n 256 --steps 100"; false if there is anything else. */
static int parse(int argc, char **argv, int *n, int *steps)
{
    for (int i = 1; i < argc; i += 2) {
        int *option = strcmp(argv[i], "--n") == 0 ? n : strcmp(argv[i], "--steps") == 0 ? steps : NULL;
        char *end = NULL;
        long value = option != NULL && i + 1 < argc ? strtol(argv[i + 1], &end, 10) : -1;
        if (value < (option == n) || value > (option == n ? CELLS_MAX : STEPS_MAX) || *end != '\0' ||
            end == argv[i + 1])
            return 0;
        *option = (int)value;
    }
    return 1;
}

/* The job itself. Every rank returns the same: the number of cells that are wrong. */
static int run(rank_t *r, block_t block, int n, int steps)
{
    size_t cells = (size_t)n * (size_t)n;
    double *memory = r->rank == 0 ? malloc(3 * cells * sizeof(double)) : NULL; /* rank 0 compares */
    int differ = 0;
    if (r->rank == 0 && memory == NULL)
        check(SELVAGE_ERR_MEMORY, "the square on rank 0");
    set_up(r, block);
    for (int s = 0; s < steps; s++)
        step(r, s % 2);
    gather(r, &r->block[steps % 2], n, memory);
    tear_down(r);
    if (r->rank == 0)
        differ = compare(n, memory, solve_serially(n, steps, memory + cells, memory + 2 * cells));
    free(memory);
    MPI_Bcast(&differ, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return differ;
}

int main(int argc, char **argv)
{
    int n = 256, steps = 100, provided, code = 2;
    rank_t r = {0};
    block_t block;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided); /* all of it only for SELVAGE_PROGRESS=thread */
    MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r.ranks);
    if (parse(argc, argv, &n, &steps) && place(&r, n, &block)) {
        code = run(&r, block, n, steps) != 0;
        if (r.rank == 0)
            printf("heat2d: %dx%d cells, %d steps, %d ranks: %s\n", n, n, steps, r.ranks,
                   code == 0 ? "equal to the serial run bit for bit" : "NOT equal to the serial run");
    } else if (r.rank == 0) {
        fprintf(stderr, "usage: heat2d [--n CELLS] [--steps STEPS]   (CELLS: 1 to %d, and a cell for every rank)\n",
                CELLS_MAX);
    }
    MPI_Finalize();
    return code;
}
