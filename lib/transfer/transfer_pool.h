/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pinned host memory: staging buffers and whatever else a device or the wire reads and writes. It lies on the NUMA node
 * next to the GPU. Pinning costs milliseconds, so a pool keeps what was given back for its next user, and grows as it
 * is needed up to a bound. Where it cannot grow, its users wait for each other's buffers. What the wire or a kernel may
 * still write after an error is retired: nobody gets it again. It counts against the bound of the pool, and is freed
 * with it, or never.
 *
 * A pool belongs to a message engine and is used under its lock; whoever takes a buffer owns it until it is put back.
 */
#ifndef SV_TRANSFER_POOL_H
#define SV_TRANSFER_POOL_H

#include <stdbool.h>

#include "base/base_list.h"
#include "device/device.h"
#include "host/topology.h"

/* Pinned memory near the device, as it comes; out is the address of any pointer. Partner: the device's host_free. */
selvage_status_t sv_pinned_alloc(sv_device_t *dev, const sv_topology_t *topology, size_t bytes, void *out);
/* Zeroed as well. */
selvage_status_t sv_pinned_calloc(sv_device_t *dev, const sv_topology_t *topology, size_t bytes, void *out);

typedef struct sv_pinned {
    sv_list_t link;
    uint8_t *bytes;
} sv_pinned_t;

typedef struct sv_pinned_pool {
    sv_device_t *dev;
    const sv_topology_t *topology;
    size_t buffer_bytes;
    sv_list_t free, retired;
    uint32_t used, nretired;
    uint32_t most_used;        /* at the same time, so far */
    uint32_t buffers_max;      /* of used and retired ones together */
    uint64_t failed_ns;        /* when it could not grow last; 0: it could */
} sv_pinned_pool_t;

void sv_pinned_pool_init(sv_pinned_pool_t *pool, sv_device_t *dev, const sv_topology_t *topology, size_t buffer_bytes,
                         uint32_t buffers_max);
/* How many buffers may be had now, if at most `most` are to be in use. */
uint32_t sv_pinned_left(const sv_pinned_pool_t *pool, uint32_t most);
/* One more buffer. IN_PROGRESS: so many are in use, or the pool could not grow just now; a put will help, or time.
   Errors: it cannot grow, and nobody has a buffer to put. Partner: put, or retire. */
selvage_status_t sv_pinned_take(sv_pinned_pool_t *pool, uint32_t most, sv_pinned_t **buffer_out);
void sv_pinned_put(sv_pinned_pool_t *pool, sv_pinned_t *buffer);
void sv_pinned_retire(sv_pinned_pool_t *pool, sv_pinned_t *buffer);
/* Frees all that is not in use. still_written: the wire or a kernel may write any of it, so that its memory stays. What
   is in use by then was lost, which is a defect of the library's and said on the log. */
void sv_pinned_pool_close(sv_pinned_pool_t *pool, bool still_written);

#endif
