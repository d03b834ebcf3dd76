/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Node-shared pinned segments: a mapping (base_mapping.h) registered with the device, so that copy engines and kernels
 * of both sides reach it. Each segment begins with a header that proves the mapping: a token that the opener reads and
 * answers in a second word.
 */
#ifndef SV_MEMORY_SHARED_H
#define SV_MEMORY_SHARED_H

#include "base/base_mapping.h"
#include "device/device.h"

/* First bytes of every segment. */
typedef struct sv_shared_header {
    uint64_t token;            /* written by the creator before the handle leaves it */
    uint64_t answer;           /* the token, once somebody has opened the segment and found it there */
    uint64_t reserved[6];
} sv_shared_header_t;

typedef struct sv_shared_segment {
    sv_mapping_t mapping;
    sv_device_t *dev;          /* registered with it */
    uintptr_t device_shift;    /* from a host address to that by which kernels reach it */
    int registered;            /* 0 where the creator's own mapping is borrowed: it is registered already */
} sv_shared_segment_t;

/* bytes of usable space after the header, zeroed. token: any number that the opener can be told. */
selvage_status_t sv_shared_create(sv_device_t *dev, size_t bytes, uint64_t token, sv_shared_segment_t *segment_out);
/* Fails with SELVAGE_ERR_SYSTEM if the token there is another. */
selvage_status_t sv_shared_open(sv_device_t *dev, const sv_mapping_handle_t *handle, uint64_t token,
                                sv_shared_segment_t *segment_out);
/* Accepts NULL and a zeroed struct. Work that uses the segment must be complete; borrowers close before the creator. */
void sv_shared_close(sv_shared_segment_t *segment);
/* Nonzero once an opener has answered: for the creator, the proof that the other side has mapped these very pages. */
int sv_shared_is_answered(const sv_shared_segment_t *segment);

/* Start of the usable space, aligned to 64 bytes. */
static inline uint8_t *sv_shared_base(const sv_shared_segment_t *segment)
{
    return (uint8_t *)segment->mapping.base + sizeof(sv_shared_header_t);
}

/* What a kernel is given for ptr: its device address if it lies in the segment (which may be a zeroed struct). */
static inline void *sv_shared_device_address(const sv_shared_segment_t *segment, void *ptr)
{
    uintptr_t at = (uintptr_t)ptr, base = (uintptr_t)segment->mapping.base;
    return at - base < segment->mapping.bytes ? (void *)(at + segment->device_shift) : ptr;
}

#endif
