/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kinds of memory and what they are good for. The device says where an address leads. The system says whether a page is
 * there at all, because a device that reaches all host memory takes any address for it. Both are asked when packets are
 * declared and buffers registered, never later. No state; any thread.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for process_vm_readv() */
#endif
#include "host/memory_kind.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/base_status.h"

typedef struct kind_row {
    const char *name;
    bool usable;
    const char *text;
} kind_row_t;

static const kind_row_t rows[SV_MEMORY_KINDS] = {
    [SV_MEMORY_UNKNOWN] = {"unknown", true, "memory of an unknown kind"},
    [SV_MEMORY_DEVICE] = {"device", true, "memory of one allocation of this device"},
    [SV_MEMORY_POOL] = {"pool", true, "memory of a stream-ordered pool"},
    [SV_MEMORY_VIRTUAL] = {"virtual", true, "memory of a virtual-memory allocation"},
    [SV_MEMORY_MANAGED] = {"managed", true, "managed memory"},
    [SV_MEMORY_PINNED] = {"pinned", true, "pinned host memory"},
    [SV_MEMORY_HOST] = {"host", true, "plain host memory"},
    [SV_MEMORY_PAGEABLE] = {"pageable", false, "plain host memory, which this device cannot reach, or was freed; pin "
                            "it or use device memory"},
    [SV_MEMORY_OTHER] = {"other", false, "memory of another device than the communicator's; make a communicator while "
                         "that one is current"},
    [SV_MEMORY_SPLIT] = {"split", false, "memory that ends beyond the allocation it begins in"},
    [SV_MEMORY_FREED] = {"freed", false, "not there; it was freed"},
};

const char *sv_memory_kind_name(sv_memory_kind_t kind)
{
    return rows[kind].name;
}

const char *sv_memory_kind_text(sv_memory_kind_t kind)
{
    return rows[kind].text;
}

bool sv_memory_kind_is_usable(sv_memory_kind_t kind)
{
    return rows[kind].usable;
}

/* Only "no such address" counts: where the question is not allowed, the memory is believed. */
static bool is_missing(const void *ptr)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)ptr, 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) < 0 && errno == EFAULT;
}

sv_memory_kind_t sv_memory_kind(sv_device_t *dev, const void *ptr, size_t bytes)
{
    sv_memory_kind_t kind = SV_DEVICE_CALL(dev, memory_kind, ptr, bytes);
    if (kind == SV_MEMORY_HOST && (is_missing(ptr) || is_missing((const char *)ptr + bytes - 1)))
        return SV_MEMORY_FREED;
    return kind;
}

selvage_status_t sv_memory_admit(sv_device_t *dev, const char *call, const void *ptr, size_t bytes,
                                 void **address_out)
{
    void *address = (void *)(uintptr_t)ptr;
    if (bytes > 0) {
        sv_memory_kind_t kind = sv_memory_kind(dev, ptr, bytes);
        if (!sv_memory_kind_is_usable(kind))
            return sv_error(SELVAGE_ERR_ARGUMENT, "%s: buf: %zu bytes at %p on device %s: this is %s", call, bytes, ptr,
                            dev->ops->name, sv_memory_kind_text(kind));
        if (kind == SV_MEMORY_PINNED)
            SV_TRY(SV_DEVICE_CALL(dev, host_address, address, &address));
    }
    *address_out = address;
    return SELVAGE_SUCCESS;
}
