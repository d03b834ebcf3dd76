/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What selvage-info finds out: the devices there are, what each rank says of itself, and between the first ranks which
 * device reaches which and the routes. Collected on rank 0, which prints. What fails is kept as text beside the rest,
 * because a report of a job that does not work is what this tool is for.
 */
#ifndef SELVAGE_INFO_JOB_H
#define SELVAGE_INFO_JOB_H

#include "tools/info/info_locality.h"
#include "tools/common/tool_job.h"

enum { INFO_DEVICES = 3, INFO_ROUTE_RANKS = 16, INFO_ERROR_BYTES = 512 };

typedef struct info_device {
    const char *name;
    int count;                     /* 0: not here, and why says so */
    char why[INFO_ERROR_BYTES];
} info_device_t;

/* One rank of the job; plain bytes, sent to rank 0. */
typedef struct info_rank {
    int failed; /* it has no device: error says why */
    int index, count;
    int gpu_ranks; /* ranks of the host on its GPU, itself included; 0: no GPU */
    char host[64], device[16], bus_id[32], model[96];
    info_locality_t near;
    char error[INFO_ERROR_BYTES];
} info_rank_t;

/* Whether the device of one rank reaches that of another. UNKNOWN: a mask hides it, or it is of another kind. */
enum { INFO_ACCESS_NONE, INFO_ACCESS_POSSIBLE, INFO_ACCESS_UNKNOWN, INFO_ACCESS_OTHER_HOST };

/* From one rank to another. */
typedef struct info_cell {
    int route; /* a selvage_route_t */
    int on_node; /* both share a node, virtual nodes counted */
    int access; /* INFO_ACCESS_... */
} info_cell_t;

typedef struct info_job {
    tool_job_t job;
    char mpi[128], thread_level[32];
    char wire[640]; /* what host messages go by on rank 0, and why; "" if no communicator was made */
    int mpi_version, mpi_subversion;
    info_device_t devices[INFO_DEVICES];
    info_rank_t *ranks; /* one per rank, on rank 0; owned */
    selvage_device_t *device;
    selvage_comm_t *comm;
    int first;                  /* ranks in the matrices: the first of the job */
    int routes_known;           /* the same, or 0: error says why there are no routes */
    info_cell_t row[INFO_ROUTE_RANKS]; /* of this rank */
    info_cell_t *cells;         /* the rows of all ranks of the job, on rank 0; owned */
    char error[INFO_ERROR_BYTES]; /* of the communicator or the exchange */
    bool good;                  /* nothing failed on any rank */
} info_job_t;

/* Fills everything; job is set and the rest zero. Collective. */
void info_job_find(info_job_t *info);
void info_job_fini(info_job_t *info);

/* Why a packet takes that route, for people. asked is the value of SELVAGE_ROUTE. */
const char *info_route_reason(const info_cell_t *cell, const char *asked);

#endif
