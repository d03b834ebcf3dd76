/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory: how much a run used per rank, and how much the host has left for it.
 */
#ifndef SELVAGE_SMOKE_MEMORY_H
#define SELVAGE_SMOKE_MEMORY_H

#include "tools/common/tool_job.h"

/* Each in bytes; 0: the system does not say. */
typedef struct smoke_memory {
    double peak;    /* largest resident size of the process (VmHWM) */
    double share;   /* proportional share (Pss): shared pages divided among their users */
    double library; /* pinned and device memory held by Selvage */
} smoke_memory_t;

/* Raises *highest to what is used now; local. */
void smoke_memory_sample(selvage_comm_t *comm, smoke_memory_t *highest);

/* Largest and mean over the ranks. Collective. */
void smoke_memory_reduce(const tool_job_t *job, const smoke_memory_t *own, smoke_memory_t *max_out,
                         smoke_memory_t *mean_out);

/* Bytes every rank of this job may still allocate, the same on all ranks; 0: unknown. Collective. */
double smoke_memory_available(const tool_job_t *job);

#endif
