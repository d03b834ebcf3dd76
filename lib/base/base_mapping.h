/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that other processes of the node can map. It is a memfd whose space is reserved, so that a small /dev/shm
 * cannot kill the job later. Others open it through /proc/PID/fd/N by its handle. The handle names the process, the
 * descriptor, the inode and the size. Opening checks all of them, so that a recycled descriptor is never mapped.
 *
 * Where memfd is not available, a 0600 file takes its place, which is unlinked at close. Where /proc does not lead
 * across (other PID namespaces), opening fails and the caller takes another route.
 */
#ifndef SV_BASE_MAPPING_H
#define SV_BASE_MAPPING_H

#include <stddef.h>
#include <stdint.h>

#include <selvage/status.h>

enum { SV_MAPPING_HANDLE_BYTES = 96 };

typedef struct sv_mapping_handle {
    uint8_t bytes[SV_MAPPING_HANDLE_BYTES];
} sv_mapping_handle_t;

typedef struct sv_mapping {
    void *base;               /* page aligned, zeroed when created */
    size_t bytes;             /* rounded up to pages */
    int fd;                   /* creator's descriptor; -1 in a process that opened, and once it is shut */
    int owned;                /* this process created it */
    int borrowed;             /* opened in the creating process: base is the creator's own */
    sv_mapping_handle_t handle;
} sv_mapping_t;

/* Partner: sv_mapping_close(). SELVAGE_ERR_MEMORY if the space cannot be reserved. */
selvage_status_t sv_mapping_create(size_t bytes, sv_mapping_t *mapping_out);

/* Maps a handle of another process. In the creating process it gives the creator's address, which stays mapped until
   both have closed it. SELVAGE_ERR_SYSTEM if the memory is gone or out of reach. Partner: sv_mapping_close(). */
selvage_status_t sv_mapping_open(const sv_mapping_handle_t *handle, sv_mapping_t *mapping_out);

/* No other process can open it from now on: gives back the creator's descriptor. The mappings that there are stay. */
void sv_mapping_shut(sv_mapping_t *mapping);

/* Unmaps; frees if owned. Accepts a zeroed struct. */
void sv_mapping_close(sv_mapping_t *mapping);

#endif
