/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocates host memory and counts what is alive. Alignment to cache lines keeps two objects from sharing one. Clearing
 * the memory also touches its pages, so that the hot path meets no page fault. Any thread.
 */
#include "base/base_memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/base_fault.h"
#include "base/base_status.h"

enum { ALIGNMENT = 64 };

/* A statistic for tests; nothing in the library depends on it, so relaxed order is enough. */
static _Atomic int64_t live_allocations;

/* The target is a pointer to any type. */
static void give_allocated(const void *ptr, void *out_pointer_to_pointer)
{
    atomic_fetch_add_explicit(&live_allocations, 1, memory_order_relaxed);
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
    give_allocated(ptr, out_pointer_to_pointer);
    return SELVAGE_SUCCESS;
}

void sv_free(void *ptr)
{
    if (!ptr)
        return;
    atomic_fetch_sub_explicit(&live_allocations, 1, memory_order_relaxed);
    free(ptr);
}

selvage_status_t sv_pages_alloc(size_t bytes, void *out_pointer_to_pointer)
{
    void *ptr = MAP_FAILED;
    if (!sv_fault_call_fails(SV_FAULT_CALL_ALLOC))
        ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ptr == MAP_FAILED)
        return sv_error(SELVAGE_ERR_MEMORY, "no pages of host memory for %zu bytes", bytes);
    give_allocated(ptr, out_pointer_to_pointer);
    return SELVAGE_SUCCESS;
}

void sv_pages_free(void *ptr, size_t bytes)
{
    if (!ptr)
        return;
    atomic_fetch_sub_explicit(&live_allocations, 1, memory_order_relaxed);
    munmap(ptr, bytes);
}

int64_t sv_memory_live(void)
{
    return atomic_load_explicit(&live_allocations, memory_order_relaxed);
}
