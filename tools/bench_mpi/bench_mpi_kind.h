/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What selvage-bench-mpi measures: a row for each benchmark, with one iteration of it as plain MPI, and what must have
 * arrived afterwards. A cell is one benchmark at one size in one way: what the rows' functions are given.
 *
 * Of the memory of a cell, `send` and `recv` are what MPI is given. By hand these are pinned host memory, of the first
 * rank alone where the other one has its data in host memory, and
 * device_send and device_recv are the device's; the functions copy between them by bench_mpi_down() and bench_mpi_up(),
 * which do nothing in all other ways.
 */
#ifndef SELVAGE_BENCH_MPI_KIND_H
#define SELVAGE_BENCH_MPI_KIND_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/bench_mpi/bench_mpi_memory.h"

typedef enum bench_mpi_which {
    BENCH_MPI_LATENCY, BENCH_MPI_PERSISTENT, BENCH_MPI_VECTOR, BENCH_MPI_BANDWIDTH, BENCH_MPI_BIDIRECTIONAL,
    BENCH_MPI_RATE, BENCH_MPI_PUT, BENCH_MPI_GET, BENCH_MPI_ALLREDUCE, BENCH_MPI_REDUCE, BENCH_MPI_BCAST,
    BENCH_MPI_ALLGATHER, BENCH_MPI_ALLTOALL, BENCH_MPI_REDUCE_SCATTER, BENCH_MPI_REDUCE_SCATTER_BLOCK,
    BENCH_MPI_GATHER, BENCH_MPI_SCATTER, BENCH_MPI_BARRIER, BENCH_MPI_ALLGATHERV, BENCH_MPI_ALLTOALLV,
    BENCH_MPI_GATHERV, BENCH_MPI_SCATTERV, BENCH_MPI_IALLREDUCE, BENCH_MPI_IALLTOALL, BENCH_MPI_NEIGHBOR_ALLTOALL,
    BENCH_MPI_NEIGHBOR_ALLTOALLV, BENCH_MPI_NEIGHBOR_ALLTOALLW, BENCH_MPI_INEIGHBOR_ALLTOALLW, BENCH_MPI_KINDS
} bench_mpi_which_t;

typedef enum bench_mpi_way {
    BENCH_MPI_HOST, BENCH_MPI_DEVICE, BENCH_MPI_HAND, BENCH_MPI_HAND_EACH, BENCH_MPI_MIXED, BENCH_MPI_HAND_MIXED,
    BENCH_MPI_NCCL, BENCH_MPI_RIVAL, BENCH_MPI_WAYS
} bench_mpi_way_t;

typedef enum bench_mpi_unit { BENCH_MPI_US, BENCH_MPI_GBS, BENCH_MPI_MILLIONS } bench_mpi_unit_t;

/* How much of a buffer is used: nothing, the bytes of the size, those for every rank, of a window, with gaps. */
typedef enum bench_mpi_span {
    BENCH_MPI_NOTHING, BENCH_MPI_ONE, BENCH_MPI_EACH, BENCH_MPI_WINDOW, BENCH_MPI_GAPS
} bench_mpi_span_t;

enum { BENCH_MPI_WINDOW_MAX = 256, BENCH_MPI_BLOCK_BYTES = 8, BENCH_MPI_RATE_MAX_BYTES = 8192 };

/* The ranks and what each has for all cells. */
typedef struct bench_mpi_job {
    int rank, size;
    MPI_Comm pair; /* ranks 0 and 1; MPI_COMM_NULL on the others */
    bench_mpi_device_t device;
    char refused[MPI_MAX_ERROR_STRING]; /* why MPI makes no window; "": it does, as far as it was asked */
} bench_mpi_job_t;

typedef struct bench_mpi_cell {
    const struct bench_mpi_kind *kind;
    bench_mpi_job_t *job;
    bench_mpi_way_t way;
    size_t bytes;
    unsigned seed;  /* of the pattern that is sent */
    int peer;       /* of messages; -1: this rank has no part in them */
    bool first;     /* of the two: begins a ping-pong, sends a window, is the origin of a put or get */
    bool on_device; /* the data of this rank */
    bool made;      /* begin has succeeded on all ranks */
    int window;     /* messages outstanding, each with memory of its own */
    char *send, *recv;
    char *device_send, *device_recv; /* by hand, else NULL */
    int count;         /* of a message, in elements of type */
    MPI_Datatype type;
    MPI_Request requests[2];
    MPI_Win win;
    int *counts; /* of a reduce_scatter; of blocks, and then where they begin */
    MPI_Comm ring; /* in which each rank sends to the next one */
} bench_mpi_cell_t;

typedef struct bench_mpi_kind {
    const char *name;
    bench_mpi_unit_t unit;
    bench_mpi_span_t send, recv;
    bool pair;    /* messages of two ranks */
    bool numbers; /* sums of reals; else bytes */
    bool window;
    int parts;    /* of an iteration: two messages of a ping-pong, two directions */
    void (*step)(bench_mpi_cell_t *cell);
    /* What recv holds on this rank after a step, over what it held before: see bench_mpi_recv_bytes(). */
    void (*expect)(const bench_mpi_cell_t *cell, unsigned char *want);
    bool (*begin)(bench_mpi_cell_t *cell); /* NULL: nothing has to be made for a cell. False: MPI refuses. Collective */
    void (*end)(bench_mpi_cell_t *cell);   /* also where begin was refused */
} bench_mpi_kind_t;

const bench_mpi_kind_t *bench_mpi_kind(bench_mpi_which_t which);
bench_mpi_which_t bench_mpi_kind_which(const bench_mpi_kind_t *kind);
const char *bench_mpi_kind_name(int which); /* as options want it */
const char *bench_mpi_way_name(int way);
const char *bench_mpi_unit_name(bench_mpi_unit_t unit);

/* The rows, by the files that have their functions. */
extern const bench_mpi_kind_t bench_mpi_message_kinds[], bench_mpi_window_kinds[], bench_mpi_collective_kinds[];

size_t bench_mpi_send_bytes(const bench_mpi_cell_t *cell);
size_t bench_mpi_recv_bytes(const bench_mpi_cell_t *cell);

/* Whether this benchmark has this size, on so many ranks. Size and kind of the cell count. */
bool bench_mpi_has_size(const bench_mpi_cell_t *cell);

/* Seconds of an iteration as what the benchmark's unit says. */
double bench_mpi_figure(const bench_mpi_cell_t *cell, double seconds);

void bench_mpi_down(const bench_mpi_cell_t *cell, size_t at, size_t bytes);
void bench_mpi_up(const bench_mpi_cell_t *cell, size_t at, size_t bytes);

#endif
