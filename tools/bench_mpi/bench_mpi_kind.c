/* SPDX-License-Identifier: BSD-3-Clause */
/* Names, sizes and figures of the benchmarks, for all alike. */
#include "tools/bench_mpi/bench_mpi_kind.h"

const bench_mpi_kind_t *bench_mpi_kind(bench_mpi_which_t which)
{
    if (which < BENCH_MPI_PUT)
        return &bench_mpi_message_kinds[which];
    if (which < BENCH_MPI_ALLREDUCE)
        return &bench_mpi_window_kinds[which - BENCH_MPI_PUT];
    return &bench_mpi_collective_kinds[which - BENCH_MPI_ALLREDUCE];
}

bench_mpi_which_t bench_mpi_kind_which(const bench_mpi_kind_t *kind)
{
    int which = 0;
    while (bench_mpi_kind((bench_mpi_which_t)which) != kind)
        which++;
    return (bench_mpi_which_t)which;
}

const char *bench_mpi_kind_name(int which)
{
    return bench_mpi_kind((bench_mpi_which_t)which)->name;
}

const char *bench_mpi_way_name(int way)
{
    static const char *const names[BENCH_MPI_WAYS] = {"host",  "device",     "hand", "each",
                                                       "mixed", "hand_mixed", "nccl", "rival"};
    return names[way];
}

const char *bench_mpi_unit_name(bench_mpi_unit_t unit)
{
    static const char *const names[] = {"us", "GB/s", "million/s"};
    return names[unit];
}

static size_t span_bytes(const bench_mpi_cell_t *cell, bench_mpi_span_t span)
{
    switch (span) {
    case BENCH_MPI_ONE:
        return cell->bytes;
    case BENCH_MPI_EACH:
        return cell->bytes * (size_t)cell->job->size;
    case BENCH_MPI_WINDOW:
        return cell->bytes * (size_t)cell->window;
    case BENCH_MPI_GAPS:
        return 2 * cell->bytes - BENCH_MPI_BLOCK_BYTES;
    default:
        return 0;
    }
}

size_t bench_mpi_send_bytes(const bench_mpi_cell_t *cell)
{
    return span_bytes(cell, cell->kind->send);
}

size_t bench_mpi_recv_bytes(const bench_mpi_cell_t *cell)
{
    return span_bytes(cell, cell->kind->recv);
}

bool bench_mpi_has_size(const bench_mpi_cell_t *cell)
{
    const size_t block = cell->kind->send == BENCH_MPI_GAPS ? BENCH_MPI_BLOCK_BYTES : 1;
    size_t unit = cell->kind->numbers ? sizeof(float) : block;
    if (cell->kind == bench_mpi_kind(BENCH_MPI_REDUCE_SCATTER_BLOCK))
        unit *= (size_t)cell->job->size;
    return cell->bytes % unit == 0 &&
           (cell->kind->unit != BENCH_MPI_MILLIONS || cell->bytes <= BENCH_MPI_RATE_MAX_BYTES);
}

double bench_mpi_figure(const bench_mpi_cell_t *cell, double seconds)
{
    const double messages = cell->kind->parts * (double)cell->window;
    switch (cell->kind->unit) {
    case BENCH_MPI_US:
        return seconds * 1e6 / cell->kind->parts;
    case BENCH_MPI_GBS:
        return messages * (double)cell->bytes / seconds / 1e9;
    default:
        return messages * (cell->job->size / 2) / seconds / 1e6;
    }
}

void bench_mpi_down(const bench_mpi_cell_t *cell, size_t at, size_t bytes)
{
    if (cell->device_send)
        bench_mpi_copy_down(&cell->job->device, cell->send + at, cell->device_send + at, bytes);
}

void bench_mpi_up(const bench_mpi_cell_t *cell, size_t at, size_t bytes)
{
    if (cell->device_recv)
        bench_mpi_copy_up(&cell->job->device, cell->device_recv + at, cell->recv + at, bytes);
}
