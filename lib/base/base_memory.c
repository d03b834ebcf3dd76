/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocates host memory and counts what is alive. Alignment to cache lines keeps two objects from sharing one. Clearing
 * the memory also touches its pages, so that the hot path meets no page fault. Any thread.
 */
#include "base/base_memory.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/base_fault.h"
#include "base/base_status.h"

enum { ALIGNMENT = 64 };

/* Statistics for tests; nothing in the library depends on them, so relaxed order is enough. */
static _Atomic int64_t live_allocations, live_bytes, most_bytes;

/* The target is a pointer to any type. */
static void give_allocated(const void *ptr, size_t bytes, void *out_pointer_to_pointer)
{
    atomic_fetch_add_explicit(&live_allocations, 1, memory_order_relaxed);
    const int64_t before = atomic_fetch_add_explicit(&live_bytes, (int64_t)bytes, memory_order_relaxed);
    int64_t most = atomic_load_explicit(&most_bytes, memory_order_relaxed);
    while (before + (int64_t)bytes > most &&
           !atomic_compare_exchange_weak_explicit(&most_bytes, &most, before + (int64_t)bytes, memory_order_relaxed,
                                                  memory_order_relaxed))
        continue;
    memcpy(out_pointer_to_pointer, &ptr, sizeof ptr);
}

selvage_status_t sv_calloc(size_t count, size_t element_bytes, void *out_pointer_to_pointer)
{
    size_t bytes, rounded;
    void *ptr = NULL;
    if (!__builtin_mul_overflow(count, element_bytes, &bytes) &&
        !__builtin_add_overflow(bytes, ALIGNMENT, &rounded) && !sv_fault_call_fails(SV_FAULT_CALL_ALLOC)) {
        rounded = bytes ? (rounded - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
        ptr = aligned_alloc(ALIGNMENT, rounded);
    }
    if (!ptr)
        return sv_error(SELVAGE_ERR_MEMORY, "no host memory for %zu elements of %zu bytes", count, element_bytes);
    memset(ptr, 0, rounded);
    give_allocated(ptr, malloc_usable_size(ptr), out_pointer_to_pointer);
    return SELVAGE_SUCCESS;
}

static void take_back(size_t bytes)
{
    atomic_fetch_sub_explicit(&live_allocations, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&live_bytes, (int64_t)bytes, memory_order_relaxed);
}

void sv_free(void *ptr)
{
    if (!ptr)
        return;
    take_back(malloc_usable_size(ptr));
    free(ptr);
}

selvage_status_t sv_pages_alloc(size_t bytes, void *out_pointer_to_pointer)
{
    void *ptr = MAP_FAILED;
    if (!sv_fault_call_fails(SV_FAULT_CALL_ALLOC))
        ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ptr == MAP_FAILED)
        return sv_error(SELVAGE_ERR_MEMORY, "no pages of host memory for %zu bytes", bytes);
    give_allocated(ptr, bytes, out_pointer_to_pointer);
    return SELVAGE_SUCCESS;
}

void sv_pages_free(void *ptr, size_t bytes)
{
    if (!ptr)
        return;
    take_back(bytes);
    munmap(ptr, bytes);
}

int64_t sv_memory_live(void)
{
    return atomic_load_explicit(&live_allocations, memory_order_relaxed);
}

int64_t sv_memory_bytes(void)
{
    return atomic_load_explicit(&live_bytes, memory_order_relaxed);
}

int64_t sv_memory_most_bytes(void)
{
    return atomic_exchange_explicit(&most_bytes, sv_memory_bytes(), memory_order_relaxed);
}
