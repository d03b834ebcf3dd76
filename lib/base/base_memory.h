/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host memory of the library. All of it goes through here, so that a test can fail the Nth allocation and count what is
 * left after destroy. Nothing is allocated between start and wait.
 */
#ifndef SV_BASE_MEMORY_H
#define SV_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include <selvage/status.h>

/*
 * Zeroed memory for count elements, aligned to 64 bytes; a count of 0 gives a valid pointer. On failure (or overflow,
 * or an injected fault) logs, returns SELVAGE_ERR_MEMORY and leaves *out alone. Freed by sv_free().
 */
selvage_status_t sv_calloc(size_t count, size_t element_bytes, void *out_pointer_to_pointer);

/* Frees memory of sv_calloc(); accepts NULL. */
void sv_free(void *ptr);

/*
 * Zeroed pages, each made when it is first touched: for what is large and seldom used as a whole. Errors as above.
 * Freed by sv_pages_free(), which is told the size again.
 */
selvage_status_t sv_pages_alloc(size_t bytes, void *out_pointer_to_pointer);

/* Accepts NULL. */
void sv_pages_free(void *ptr, size_t bytes);

/* Allocations not freed yet, in the whole process (atomic; for tests). */
int64_t sv_memory_live(void);
/* Their bytes, as the C library rounds them; and the most that there were since this was asked last. */
int64_t sv_memory_bytes(void);
int64_t sv_memory_most_bytes(void);

#endif
