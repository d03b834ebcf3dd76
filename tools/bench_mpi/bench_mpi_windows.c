/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided communication of two ranks: a put, or a get, between two fences. The window is as long as what moves, and
 * is made for each size.
 */
#include "tools/bench_mpi/bench_mpi_data.h"
#include "tools/bench_mpi/bench_mpi_kind.h"

/* Not every transport of every MPI has windows. */
static bool make_window(bench_mpi_cell_t *cell, char *memory)
{
    cell->win = MPI_WIN_NULL;
    if (cell->peer < 0)
        return true;
    MPI_Comm_set_errhandler(cell->job->pair, MPI_ERRORS_RETURN);
    const int result = MPI_Win_create(memory, (MPI_Aint)cell->bytes, 1, MPI_INFO_NULL, cell->job->pair, &cell->win);
    MPI_Comm_set_errhandler(cell->job->pair, MPI_ERRORS_ARE_FATAL);
    if (result != MPI_SUCCESS) {
        int length;
        cell->win = MPI_WIN_NULL;
        MPI_Error_string(result, cell->job->refused, &length);
    }
    return result == MPI_SUCCESS;
}

static bool make_put(bench_mpi_cell_t *cell)
{
    return make_window(cell, cell->recv);
}

static bool make_get(bench_mpi_cell_t *cell)
{
    return make_window(cell, cell->send);
}

/* Which takes both ranks: if the other one was refused, it stays. */
static void free_window(bench_mpi_cell_t *cell)
{
    if (cell->made && cell->win != MPI_WIN_NULL)
        MPI_Win_free(&cell->win);
}

/* Ranks of the pair's communicator are those of the job. */
static void put(bench_mpi_cell_t *cell)
{
    MPI_Win_fence(0, cell->win);
    if (cell->first) {
        bench_mpi_down(cell, 0, cell->bytes);
        MPI_Put(cell->send, cell->count, cell->type, cell->peer, 0, cell->count, cell->type, cell->win);
    }
    MPI_Win_fence(0, cell->win);
    if (!cell->first)
        bench_mpi_up(cell, 0, cell->bytes);
}

static void get(bench_mpi_cell_t *cell)
{
    if (!cell->first)
        bench_mpi_down(cell, 0, cell->bytes);
    MPI_Win_fence(0, cell->win);
    if (cell->first)
        MPI_Get(cell->recv, cell->count, cell->type, cell->peer, 0, cell->count, cell->type, cell->win);
    MPI_Win_fence(0, cell->win);
    if (cell->first)
        bench_mpi_up(cell, 0, cell->bytes);
}

static void expect_put(const bench_mpi_cell_t *cell, unsigned char *want)
{
    if (cell->peer >= 0 && !cell->first)
        bench_mpi_bytes(want, 0, cell->bytes, cell->peer, cell->seed);
}

static void expect_got(const bench_mpi_cell_t *cell, unsigned char *want)
{
    if (cell->peer >= 0 && cell->first)
        bench_mpi_bytes(want, 0, cell->bytes, cell->peer, cell->seed);
}

const bench_mpi_kind_t bench_mpi_window_kinds[] = {
    {.name = "put",
     .unit = BENCH_MPI_US,
     .send = BENCH_MPI_ONE,
     .recv = BENCH_MPI_ONE,
     .pair = true,
     .parts = 1,
     .step = put,
     .expect = expect_put,
     .begin = make_put,
     .end = free_window},
    {.name = "get",
     .unit = BENCH_MPI_US,
     .send = BENCH_MPI_ONE,
     .recv = BENCH_MPI_ONE,
     .pair = true,
     .parts = 1,
     .step = get,
     .expect = expect_got,
     .begin = make_get,
     .end = free_window},
};
