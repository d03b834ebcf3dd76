/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Telling host memory from device memory in a few nanoseconds: a table of pages that were found to be the host's.
 *
 * A page becomes the device's only by a new mapping, with mmap or mremap. Drivers reserve the addresses of device
 * memory in this way, and the software device makes its memory in this way. Those calls and munmap pass through here
 * and make every entry older than the generation. Device memory is never remembered, because it may be freed without
 * our knowledge and must not be taken for the device's after that. Any thread reads and writes. An entry is one word,
 * and its order with others does not matter.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for RTLD_NEXT */
#endif
#include "interpose/drop_strip.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/types.h>

_Atomic uint64_t sv_drop_cache[SV_DROP_CACHE_SLOTS];
_Atomic uint32_t sv_drop_generation = 1;
_Atomic MPI_Datatype sv_drop_named[SV_DROP_NAMED_SLOTS];

/* When the bits of the generation begin anew, no entry of the first time may be left. */
static void bump_generation(void)
{
    uint32_t now = atomic_fetch_add_explicit(&sv_drop_generation, 1, memory_order_relaxed) + 1;
    if (now % (1u << SV_DROP_GENERATION_BITS) == 0)
        for (int i = 0; i < SV_DROP_CACHE_SLOTS; i++)
            atomic_store_explicit(&sv_drop_cache[i], 0, memory_order_relaxed);
}

bool sv_drop_look_up(const void *ptr, uint64_t entry)
{
    if (sv_drop_batch_knows(ptr) || sv_drop_strip_knows(ptr))
        return false;
    sv_drop_place_t place = sv_drop_query_place(ptr);
    /* The entry is of the generation before the question: a mapping made meanwhile has made it old. */
    if (place == SV_DROP_HOST)
        atomic_store_explicit(sv_drop_slot(ptr), entry, memory_order_relaxed);
    return place != SV_DROP_DEVICE;
}

bool sv_drop_is_host_moved(const void *ptr, MPI_Datatype type)
{
    sv_drop_type_t info;
    if (!sv_drop_type(type, &info))
        return true;
    if (info.named) {
        atomic_store_explicit(sv_drop_named_slot(type), type, memory_order_relaxed);
        return true;
    }
    if (info.true_lb != 0 && !sv_drop_is_host((const void *)((uintptr_t)ptr + (uintptr_t)info.true_lb)))
        return false;
    return !sv_drop_type_reaches_device(ptr, type);
}

typedef void *(*mmap_t)(void *, size_t, int, int, int, off_t);
typedef int (*munmap_t)(void *, size_t);
typedef void *(*mremap_t)(void *, size_t, size_t, int, ...);

/* The function of that name and type that the C library has, looked up once. */
#define NEXT_OF(TYPE, NAME)                                                    \
    __extension__({                                                            \
        static _Atomic(TYPE) known;                                            \
        TYPE next = atomic_load_explicit(&known, memory_order_relaxed);        \
        if (!next) {                                                           \
            next = (TYPE)dlsym(RTLD_NEXT, NAME);                               \
            atomic_store_explicit(&known, next, memory_order_relaxed);         \
        }                                                                      \
        next;                                                                  \
    })

SV_DROP_EXPORT void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
    void *mapped = NEXT_OF(mmap_t, "mmap")(address, bytes, protection, flags, file, offset);
    bump_generation();
    return mapped;
}

SV_DROP_EXPORT void *mmap64(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
    return mmap(address, bytes, protection, flags, file, offset);
}

SV_DROP_EXPORT int munmap(void *address, size_t bytes)
{
    munmap_t call = NEXT_OF(munmap_t, "munmap");
    bump_generation();
    return call(address, bytes);
}

SV_DROP_EXPORT void *mremap(void *address, size_t bytes, size_t new_bytes, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    void *wanted = flags & MREMAP_FIXED ? va_arg(list, void *) : NULL;
    va_end(list);
    void *mapped = NEXT_OF(mremap_t, "mremap")(address, bytes, new_bytes, flags, wanted);
    bump_generation();
    return mapped;
}
