/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Named ranges around what an application waits for, so that a profiler's timeline shows them beside its kernels. Two
 * loads and a branch where no profiler listens. Ranges nest within a thread; every push has its pop in the same call.
 */
#ifndef SV_COMM_RANGES_H
#define SV_COMM_RANGES_H

#include "base/base_config.h"
#include "comm/comm.h"
#include "device/device.h"

static inline bool sv_range_is_on(const selvage_comm_t *comm)
{
    return comm->dev->ranges && comm->config.ranges != SV_CONFIG_RANGES_OFF;
}

static inline void sv_range_push(const selvage_comm_t *comm, const char *name)
{
    if (sv_range_is_on(comm))
        SV_DEVICE_CALL(comm->dev, range_push, name);
}

static inline void sv_range_pop(const selvage_comm_t *comm)
{
    if (sv_range_is_on(comm))
        comm->dev->ops->range_pop(comm->dev);
}

#endif
