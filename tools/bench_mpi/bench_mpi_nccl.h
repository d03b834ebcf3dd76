/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The benchmarks by NCCL, or RCCL on AMD, if it is found at run time and every rank has a GPU of its own. An iteration
 * ends when its stream is idle, as an MPI call ends when its buffers may be used.
 */
#ifndef SELVAGE_BENCH_MPI_NCCL_H
#define SELVAGE_BENCH_MPI_NCCL_H

#include "tools/bench_mpi/bench_mpi_kind.h"

typedef struct bench_mpi_nccl_id {
    char opaque[128];
} bench_mpi_nccl_id_t;

typedef struct bench_mpi_nccl {
    bool ready; /* on all ranks */
    char why_not[160];
    void *comm;
    char *words; /* two bytes of device memory, for the answer to a window */
    int (*get_id)(bench_mpi_nccl_id_t *id);
    int (*comm_init)(void **comm, int size, bench_mpi_nccl_id_t id, int rank);
    int (*comm_destroy)(void *comm);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*send)(const void *buf, size_t count, int type, int peer, void *comm, void *stream);
    int (*recv)(void *buf, size_t count, int type, int peer, void *comm, void *stream);
    int (*all_reduce)(const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream);
    int (*reduce)(const void *send, void *recv, size_t count, int type, int op, int root, void *comm, void *stream);
    int (*broadcast)(const void *send, void *recv, size_t count, int type, int root, void *comm, void *stream);
    int (*all_gather)(const void *send, void *recv, size_t count, int type, void *comm, void *stream);
    int (*reduce_scatter)(const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream);
} bench_mpi_nccl_t;

/* file: NULL: the usual name; "no": none. Collective. Partner: bench_mpi_nccl_close(), also where it is not ready. */
void bench_mpi_nccl_open(bench_mpi_nccl_t *nccl, const bench_mpi_job_t *job, const char *file);
void bench_mpi_nccl_close(bench_mpi_nccl_t *nccl, const bench_mpi_job_t *job);

/* Whether NCCL has this benchmark, at this size. */
bool bench_mpi_nccl_has(const bench_mpi_nccl_t *nccl, const bench_mpi_cell_t *cell);
void bench_mpi_nccl_step(const bench_mpi_nccl_t *nccl, const bench_mpi_cell_t *cell);

#endif
