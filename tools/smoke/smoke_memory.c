/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading /proc and the control group. Pss matters with many ranks: most of an MPI process's pages are shared, and
 * adding up resident sizes would count them once per rank.
 */
#include "tools/smoke/smoke_memory.h"

#include <stdio.h>
#include <string.h>

/* The number after "Key:" in a file of such lines, in KiB, as bytes; 0 if it is not there. */
static double field_bytes(const char *path, const char *key)
{
    char line[256];
    double kib = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), ": %lf", &kib) == 1)
            break;
    }
    fclose(file);
    return kib * 1024;
}

/* A file that holds one number; 0 if it holds none, such as "max". */
static double lone_number(const char *path)
{
    double value;
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    if (fscanf(file, "%lf", &value) != 1)
        value = 0;
    fclose(file);
    return value;
}

static void raise_to(double *highest, double value)
{
    if (value > *highest)
        *highest = value;
}

void smoke_memory_sample(selvage_comm_t *comm, smoke_memory_t *highest)
{
    selvage_stats_t stats = {SELVAGE_STATS_INIT};
    if (selvage_comm_stats(comm, &stats) == SELVAGE_SUCCESS)
        raise_to(&highest->library, (double)stats.pinned_bytes + (double)stats.device_bytes);
    raise_to(&highest->peak, field_bytes("/proc/self/status", "VmHWM"));
    raise_to(&highest->share, field_bytes("/proc/self/smaps_rollup", "Pss"));
}

void smoke_memory_reduce(const tool_job_t *job, const smoke_memory_t *own, smoke_memory_t *max_out,
                         smoke_memory_t *mean_out)
{
    double max[3] = {own->peak, own->share, own->library}, sum[3] = {own->peak, own->share, own->library};
    tool_reduce(job, job->comm, max, 3, MPI_DOUBLE, MPI_MAX);
    tool_reduce(job, job->comm, sum, 3, MPI_DOUBLE, MPI_SUM);
    *max_out = (smoke_memory_t){max[0], max[1], max[2]};
    *mean_out = (smoke_memory_t){sum[0] / job->size, sum[1] / job->size, sum[2] / job->size};
}

double smoke_memory_available(const tool_job_t *job)
{
    double bytes = field_bytes("/proc/meminfo", "MemAvailable");
    const double limit = lone_number("/sys/fs/cgroup/memory.max");
    const double left = limit - lone_number("/sys/fs/cgroup/memory.current");
    if (limit > 0 && left < bytes)
        bytes = left;
    bytes /= job->host_count;
    tool_reduce(job, job->comm, &bytes, 1, MPI_DOUBLE, MPI_MIN);
    return bytes > 0 ? bytes : 0;
}
