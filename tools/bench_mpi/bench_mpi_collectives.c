/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collective calls of all ranks; rank 0 is the root. Sizes are counted as by the OSU benchmarks: what a rank gives to a
 * reduction or a broadcast, and one block of the calls that move a block for each rank. Reductions are sums of floats.
 * The calls with a count for each block have blocks of one length. Those of neighbours go around a ring.
 */
#include <stdlib.h>

#include "tools/bench_mpi/bench_mpi_data.h"
#include "tools/bench_mpi/bench_mpi_kind.h"

enum { ROOT = 0 };

static bool is_root(const bench_mpi_cell_t *cell)
{
    return cell->job->rank == ROOT;
}

static int numbers_of(const bench_mpi_cell_t *cell)
{
    return (int)(cell->bytes / sizeof(float));
}

static void allreduce(bench_mpi_cell_t *cell)
{
    bench_mpi_down(cell, 0, cell->bytes);
    MPI_Allreduce(cell->send, cell->recv, numbers_of(cell), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    bench_mpi_up(cell, 0, cell->bytes);
}

static void reduce(bench_mpi_cell_t *cell)
{
    bench_mpi_down(cell, 0, cell->bytes);
    MPI_Reduce(cell->send, cell->recv, numbers_of(cell), MPI_FLOAT, MPI_SUM, ROOT, MPI_COMM_WORLD);
    if (is_root(cell))
        bench_mpi_up(cell, 0, cell->bytes);
}

static void bcast(bench_mpi_cell_t *cell)
{
    if (is_root(cell))
        bench_mpi_down(cell, 0, cell->bytes);
    MPI_Bcast(is_root(cell) ? cell->send : cell->recv, cell->count, cell->type, ROOT, MPI_COMM_WORLD);
    if (!is_root(cell))
        bench_mpi_up(cell, 0, cell->bytes);
}

static void allgather(bench_mpi_cell_t *cell)
{
    bench_mpi_down(cell, 0, cell->bytes);
    MPI_Allgather(cell->send, cell->count, cell->type, cell->recv, cell->count, cell->type, MPI_COMM_WORLD);
    bench_mpi_up(cell, 0, bench_mpi_recv_bytes(cell));
}

static void alltoall(bench_mpi_cell_t *cell)
{
    bench_mpi_down(cell, 0, bench_mpi_send_bytes(cell));
    MPI_Alltoall(cell->send, cell->count, cell->type, cell->recv, cell->count, cell->type, MPI_COMM_WORLD);
    bench_mpi_up(cell, 0, bench_mpi_recv_bytes(cell));
}

static void gather(bench_mpi_cell_t *cell)
{
    bench_mpi_down(cell, 0, cell->bytes);
    MPI_Gather(cell->send, cell->count, cell->type, cell->recv, cell->count, cell->type, ROOT, MPI_COMM_WORLD);
    if (is_root(cell))
        bench_mpi_up(cell, 0, bench_mpi_recv_bytes(cell));
}

static void scatter(bench_mpi_cell_t *cell)
{
    if (is_root(cell))
        bench_mpi_down(cell, 0, bench_mpi_send_bytes(cell));
    MPI_Scatter(cell->send, cell->count, cell->type, cell->recv, cell->count, cell->type, ROOT, MPI_COMM_WORLD);
    bench_mpi_up(cell, 0, cell->bytes);
}

/* What a rank gets of a sum that is scattered: as even as can be, the longer parts first. */
static int part_of(const bench_mpi_cell_t *cell, int rank)
{
    const int all = numbers_of(cell), ranks = cell->job->size;
    return all / ranks + (rank < all % ranks);
}

static size_t part_begins(const bench_mpi_cell_t *cell)
{
    size_t before = 0;
    for (int rank = 0; rank < cell->job->rank; rank++)
        before += (size_t)part_of(cell, rank);
    return before;
}

static bool make_counts(bench_mpi_cell_t *cell)
{
    cell->counts = (int *)(void *)bench_mpi_host_malloc((size_t)cell->job->size * sizeof(int));
    for (int rank = 0; rank < cell->job->size; rank++)
        cell->counts[rank] = part_of(cell, rank);
    return true;
}

static void free_counts(bench_mpi_cell_t *cell)
{
    free(cell->counts);
}

static void reduce_scatter(bench_mpi_cell_t *cell)
{
    bench_mpi_down(cell, 0, cell->bytes);
    MPI_Reduce_scatter(cell->send, cell->recv, cell->counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    bench_mpi_up(cell, 0, (size_t)cell->counts[cell->job->rank] * sizeof(float));
}

static void reduce_scatter_block(bench_mpi_cell_t *cell)
{
    const int count = numbers_of(cell) / cell->job->size;
    bench_mpi_down(cell, 0, cell->bytes);
    MPI_Reduce_scatter_block(cell->send, cell->recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    bench_mpi_up(cell, 0, (size_t)count * sizeof(float));
}

/* --- a count for each block --------------------------------------------------------------------------------------- */

static bool make_blocks(bench_mpi_cell_t *cell)
{
    const int size = cell->job->size;
    cell->counts = (int *)(void *)bench_mpi_host_malloc(2 * (size_t)size * sizeof(int));
    for (int rank = 0; rank < size; rank++) {
        cell->counts[rank] = cell->count;
        cell->counts[size + rank] = rank * cell->count;
    }
    return true;
}

static const int *begins_of(const bench_mpi_cell_t *cell)
{
    return cell->counts + cell->job->size;
}

static void allgatherv(bench_mpi_cell_t *cell)
{
    bench_mpi_down(cell, 0, cell->bytes);
    MPI_Allgatherv(cell->send, cell->count, cell->type, cell->recv, cell->counts, begins_of(cell), cell->type,
                   MPI_COMM_WORLD);
    bench_mpi_up(cell, 0, bench_mpi_recv_bytes(cell));
}

static void alltoallv(bench_mpi_cell_t *cell)
{
    bench_mpi_down(cell, 0, bench_mpi_send_bytes(cell));
    MPI_Alltoallv(cell->send, cell->counts, begins_of(cell), cell->type, cell->recv, cell->counts, begins_of(cell),
                  cell->type, MPI_COMM_WORLD);
    bench_mpi_up(cell, 0, bench_mpi_recv_bytes(cell));
}

static void gatherv(bench_mpi_cell_t *cell)
{
    bench_mpi_down(cell, 0, cell->bytes);
    MPI_Gatherv(cell->send, cell->count, cell->type, cell->recv, cell->counts, begins_of(cell), cell->type, ROOT,
                MPI_COMM_WORLD);
    if (is_root(cell))
        bench_mpi_up(cell, 0, bench_mpi_recv_bytes(cell));
}

static void scatterv(bench_mpi_cell_t *cell)
{
    if (is_root(cell))
        bench_mpi_down(cell, 0, bench_mpi_send_bytes(cell));
    MPI_Scatterv(cell->send, cell->counts, begins_of(cell), cell->type, cell->recv, cell->count, cell->type, ROOT,
                 MPI_COMM_WORLD);
    bench_mpi_up(cell, 0, cell->bytes);
}

static void iallreduce(bench_mpi_cell_t *cell)
{
    MPI_Request request;
    bench_mpi_down(cell, 0, cell->bytes);
    MPI_Iallreduce(cell->send, cell->recv, numbers_of(cell), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    bench_mpi_up(cell, 0, cell->bytes);
}

static void ialltoall(bench_mpi_cell_t *cell)
{
    MPI_Request request;
    bench_mpi_down(cell, 0, bench_mpi_send_bytes(cell));
    MPI_Ialltoall(cell->send, cell->count, cell->type, cell->recv, cell->count, cell->type, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    bench_mpi_up(cell, 0, bench_mpi_recv_bytes(cell));
}

/* --- neighbours --------------------------------------------------------------------------------------------------- */

static int rank_before(const bench_mpi_cell_t *cell)
{
    return (cell->job->rank + cell->job->size - 1) % cell->job->size;
}

static bool make_ring(bench_mpi_cell_t *cell)
{
    const int from = rank_before(cell), to = (cell->job->rank + 1) % cell->job->size, weight = 1;
    return MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &from, &weight, 1, &to, &weight, MPI_INFO_NULL, 0,
                                          &cell->ring) == MPI_SUCCESS;
}

static void free_ring(bench_mpi_cell_t *cell)
{
    MPI_Comm_free(&cell->ring);
}

/* A type with gaps, since that is what this call is for. */
static bool make_ring_of_blocks(bench_mpi_cell_t *cell)
{
    const int blocks = (int)(cell->bytes / BENCH_MPI_BLOCK_BYTES);
    MPI_Type_vector(blocks, BENCH_MPI_BLOCK_BYTES, 2 * BENCH_MPI_BLOCK_BYTES, MPI_BYTE, &cell->type);
    MPI_Type_commit(&cell->type);
    return make_ring(cell);
}

static void free_ring_of_blocks(bench_mpi_cell_t *cell)
{
    MPI_Type_free(&cell->type);
    free_ring(cell);
}

static void neighbor_alltoall(bench_mpi_cell_t *cell)
{
    bench_mpi_down(cell, 0, cell->bytes);
    MPI_Neighbor_alltoall(cell->send, cell->count, cell->type, cell->recv, cell->count, cell->type, cell->ring);
    bench_mpi_up(cell, 0, cell->bytes);
}

static void neighbor_alltoallv(bench_mpi_cell_t *cell)
{
    const int begin = 0;
    bench_mpi_down(cell, 0, cell->bytes);
    MPI_Neighbor_alltoallv(cell->send, &cell->count, &begin, cell->type, cell->recv, &cell->count, &begin, cell->type,
                           cell->ring);
    bench_mpi_up(cell, 0, cell->bytes);
}

static void neighbor_alltoallw(bench_mpi_cell_t *cell)
{
    const int one = 1;
    const MPI_Aint begin = 0;
    bench_mpi_down(cell, 0, bench_mpi_send_bytes(cell));
    MPI_Neighbor_alltoallw(cell->send, &one, &begin, &cell->type, cell->recv, &one, &begin, &cell->type, cell->ring);
    bench_mpi_up(cell, 0, bench_mpi_recv_bytes(cell));
}

static void ineighbor_alltoallw(bench_mpi_cell_t *cell)
{
    const int one = 1;
    const MPI_Aint begin = 0;
    MPI_Request request;
    bench_mpi_down(cell, 0, bench_mpi_send_bytes(cell));
    MPI_Ineighbor_alltoallw(cell->send, &one, &begin, &cell->type, cell->recv, &one, &begin, &cell->type, cell->ring,
                            &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    bench_mpi_up(cell, 0, bench_mpi_recv_bytes(cell));
}

static void expect_before(const bench_mpi_cell_t *cell, unsigned char *want)
{
    bench_mpi_bytes(want, 0, cell->bytes, rank_before(cell), cell->seed);
}

static void expect_blocks_before(const bench_mpi_cell_t *cell, unsigned char *want)
{
    for (size_t at = 0; at < bench_mpi_recv_bytes(cell); at += 2 * BENCH_MPI_BLOCK_BYTES)
        bench_mpi_bytes(want + at, at, BENCH_MPI_BLOCK_BYTES, rank_before(cell), cell->seed);
}

static void barrier(bench_mpi_cell_t *cell)
{
    (void)cell;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void expect_sum(const bench_mpi_cell_t *cell, unsigned char *want)
{
    bench_mpi_sums((float *)(void *)want, 0, (size_t)numbers_of(cell), cell->job->size, cell->seed);
}

static void expect_sum_at_root(const bench_mpi_cell_t *cell, unsigned char *want)
{
    if (is_root(cell))
        expect_sum(cell, want);
}

static void expect_part(const bench_mpi_cell_t *cell, unsigned char *want)
{
    bench_mpi_sums((float *)(void *)want, part_begins(cell), (size_t)part_of(cell, cell->job->rank), cell->job->size,
                   cell->seed);
}

static void expect_root(const bench_mpi_cell_t *cell, unsigned char *want)
{
    if (!is_root(cell))
        bench_mpi_bytes(want, 0, cell->bytes, ROOT, cell->seed);
}

static void expect_all(const bench_mpi_cell_t *cell, unsigned char *want)
{
    for (int rank = 0; rank < cell->job->size; rank++)
        bench_mpi_bytes(want + (size_t)rank * cell->bytes, 0, cell->bytes, rank, cell->seed);
}

static void expect_all_at_root(const bench_mpi_cell_t *cell, unsigned char *want)
{
    if (is_root(cell))
        expect_all(cell, want);
}

static void expect_own_blocks(const bench_mpi_cell_t *cell, unsigned char *want)
{
    const size_t own = (size_t)cell->job->rank * cell->bytes;
    for (int rank = 0; rank < cell->job->size; rank++)
        bench_mpi_bytes(want + (size_t)rank * cell->bytes, own, cell->bytes, rank, cell->seed);
}

static void expect_own_block(const bench_mpi_cell_t *cell, unsigned char *want)
{
    bench_mpi_bytes(want, (size_t)cell->job->rank * cell->bytes, cell->bytes, ROOT, cell->seed);
}

static void expect_nothing(const bench_mpi_cell_t *cell, unsigned char *want)
{
    (void)cell, (void)want;
}

#define SUM(NAME, STEP, EXPECT)                                                                                        \
    {                                                                                                                  \
        .name = NAME, .unit = BENCH_MPI_US, .send = BENCH_MPI_ONE, .recv = BENCH_MPI_ONE, .numbers = true, .parts = 1, \
        .step = STEP, .expect = EXPECT                                                                                 \
    }
#define MOVE(NAME, SEND, RECV, STEP, EXPECT)                                                                           \
    {                                                                                                                  \
        .name = NAME, .unit = BENCH_MPI_US, .send = SEND, .recv = RECV, .parts = 1, .step = STEP, .expect = EXPECT     \
    }
#define MAKE(NAME, SEND, RECV, STEP, EXPECT, BEGIN, END)                                                               \
    {                                                                                                                  \
        .name = NAME, .unit = BENCH_MPI_US, .send = SEND, .recv = RECV, .parts = 1, .step = STEP, .expect = EXPECT,    \
        .begin = BEGIN, .end = END                                                                                     \
    }

const bench_mpi_kind_t bench_mpi_collective_kinds[] = {
    SUM("allreduce", allreduce, expect_sum),
    SUM("reduce", reduce, expect_sum_at_root),
    MOVE("bcast", BENCH_MPI_ONE, BENCH_MPI_ONE, bcast, expect_root),
    MOVE("allgather", BENCH_MPI_ONE, BENCH_MPI_EACH, allgather, expect_all),
    MOVE("alltoall", BENCH_MPI_EACH, BENCH_MPI_EACH, alltoall, expect_own_blocks),
    {.name = "reduce_scatter",
     .unit = BENCH_MPI_US,
     .send = BENCH_MPI_ONE,
     .recv = BENCH_MPI_ONE,
     .numbers = true,
     .parts = 1,
     .step = reduce_scatter,
     .expect = expect_part,
     .begin = make_counts,
     .end = free_counts},
    SUM("reduce_scatter_block", reduce_scatter_block, expect_part),
    MOVE("gather", BENCH_MPI_ONE, BENCH_MPI_EACH, gather, expect_all_at_root),
    MOVE("scatter", BENCH_MPI_EACH, BENCH_MPI_ONE, scatter, expect_own_block),
    MOVE("barrier", BENCH_MPI_NOTHING, BENCH_MPI_NOTHING, barrier, expect_nothing),
    MAKE("allgatherv", BENCH_MPI_ONE, BENCH_MPI_EACH, allgatherv, expect_all, make_blocks, free_counts),
    MAKE("alltoallv", BENCH_MPI_EACH, BENCH_MPI_EACH, alltoallv, expect_own_blocks, make_blocks, free_counts),
    MAKE("gatherv", BENCH_MPI_ONE, BENCH_MPI_EACH, gatherv, expect_all_at_root, make_blocks, free_counts),
    MAKE("scatterv", BENCH_MPI_EACH, BENCH_MPI_ONE, scatterv, expect_own_block, make_blocks, free_counts),
    SUM("iallreduce", iallreduce, expect_sum),
    MOVE("ialltoall", BENCH_MPI_EACH, BENCH_MPI_EACH, ialltoall, expect_own_blocks),
    MAKE("neighbor_alltoall", BENCH_MPI_ONE, BENCH_MPI_ONE, neighbor_alltoall, expect_before, make_ring, free_ring),
    MAKE("neighbor_alltoallv", BENCH_MPI_ONE, BENCH_MPI_ONE, neighbor_alltoallv, expect_before, make_ring, free_ring),
    MAKE("neighbor_alltoallw", BENCH_MPI_GAPS, BENCH_MPI_GAPS, neighbor_alltoallw, expect_blocks_before,
         make_ring_of_blocks, free_ring_of_blocks),
    MAKE("ineighbor_alltoallw", BENCH_MPI_GAPS, BENCH_MPI_GAPS, ineighbor_alltoallw, expect_blocks_before,
         make_ring_of_blocks, free_ring_of_blocks),
};
