/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every Selvage tool needs of a job: MPI, the ranks of this host, gentle waiting, and an end that never hangs.
 *
 * Waiting polls and yields, then sleeps, because tools are run with many more ranks than cores and some MPIs spin in
 * their blocking calls. Errors end the whole job through MPI_Abort: a tool has nothing to rescue. One thread.
 */
#ifndef SELVAGE_TOOL_JOB_H
#define SELVAGE_TOOL_JOB_H

#include <stdbool.h>
#include <stddef.h>

#include <selvage.h>

#include "tools/common/tool_cuda.h"
#include "tools/common/tool_figures.h"
#include "tools/common/tool_launch.h"

typedef struct tool_job {
    const char *program;
    MPI_Comm comm;      /* borrowed: MPI_COMM_WORLD */
    MPI_Comm host_comm; /* owned: the ranks that share this host's memory */
    int rank, size;
    int hosts;       /* hosts of the whole job */
    int host_size;   /* ranks on the fullest host */
    int host_cores;  /* cores the ranks of the most crowded host may use together */
    bool oversubscribed; /* somewhere ranks outnumber cores */
    int *host_ranks; /* ranks of this host, ascending; owned */
    int host_count;  /* length of host_ranks */
    tool_gpu_t gpu;  /* what tool_choose_gpu() chose */
} tool_job_t;

/* A ring of ranks: all of the job (ranks NULL), or those of one node. */
typedef struct tool_ring {
    int size, index;
    int *ranks; /* owned; NULL: rank i is member i */
} tool_ring_t;

/* Chooses the GPU, MPI_Init_thread at the level SELVAGE_PROGRESS needs, and everything above. Collective. Partner:
   tool_job_fini(). */
void tool_job_init(tool_job_t *job, const char *program, int *argc, char ***argv);
void tool_job_fini(tool_job_t *job);

/* True if the rank of the job is on this host. */
bool tool_job_on_host(const tool_job_t *job, int rank);

/* The ring of the whole job; local. */
void tool_ring_world(const tool_job_t *job, tool_ring_t *ring_out);
/* The ring of this rank's node, virtual nodes (SELVAGE_RANKS_PER_NODE) counted; local. Partner: tool_ring_fini(). */
void tool_ring_node(const tool_job_t *job, tool_ring_t *ring_out);
void tool_ring_fini(tool_ring_t *ring);
/* Rank of the member that many places further, either way. */
int tool_ring_peer(const tool_ring_t *ring, int offset);

/* Prints program, rank, what was tried, status and detail, and ends the job. */
_Noreturn void tool_die(const tool_job_t *job, const char *what, selvage_status_t status);
/* The same without a status. */
_Noreturn void tool_die_text(const tool_job_t *job, const char *text);
/* Dies unless the status is success. */
void tool_try(const tool_job_t *job, const char *what, selvage_status_t status);
/* malloc that dies; 0 bytes give a valid pointer. */
void *tool_malloc(const tool_job_t *job, size_t bytes);

/* The device, with its driver's name for it if there is one: soft, amd (emulated gfx942). */
const char *tool_device_words(const selvage_device_t *device, char *text, size_t bytes);

/* Completes the requests without sitting in a blocking MPI call. */
void tool_poll(const tool_job_t *job, MPI_Request *requests, int count);
void tool_barrier(const tool_job_t *job);
/* All-reduce in place, over the whole job or another communicator. */
void tool_reduce(const tool_job_t *job, MPI_Comm comm, void *values, int count, MPI_Datatype type, MPI_Op op);
void tool_bcast(const tool_job_t *job, void *values, int count, MPI_Datatype type);

/* Median of each rank's times, the slowest rank counting in every repetition. Collective; overwrites seconds. */
double tool_median_of_slowest(const tool_job_t *job, double *seconds, int count);

#endif
