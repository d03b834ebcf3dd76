/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory for collective calls of the fast route with MPI_IN_PLACE, where Selvage's own cannot write to what they
 * read. It is kept for the next call, in blocks of powers of two, or of large pages. Releasing it makes a runtime wait
 * for all work on the device, so that a block is released only after it was idle for long (drop_idle.c), or with the
 * route. A call that would need very much is staged: the program may want that memory itself.
 *
 * Any thread; one lock. A block is its taker's until it is given back.
 */
#include "interpose/drop_scratch.h"

#include <stdlib.h>

enum { MOST_BYTES = 1 << 30 };

typedef struct scratch {
    struct scratch *next;
    void *memory;
    size_t bytes;
    bool taken, idle;
    int64_t given_ns; /* when it was given back last */
} scratch_t;

static struct {
    pthread_mutex_t lock;
    scratch_t *blocks;
} scratches = {.lock = PTHREAD_MUTEX_INITIALIZER};

static scratch_t *add_scratch_block(size_t bytes)
{
    enum { LEAST_BYTES = 1 << 20, LARGE_BYTES = 64 << 20, PAGE_BYTES = 2 << 20 };
    scratch_t *block = calloc(1, sizeof *block);
    if (!block)
        return NULL;
    for (block->bytes = LEAST_BYTES; block->bytes < bytes && block->bytes < LARGE_BYTES;)
        block->bytes *= 2;
    if (block->bytes < bytes)
        block->bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    if (selvage_device_malloc(sv_drop_device(), block->bytes, &block->memory) != SELVAGE_SUCCESS) {
        free(block);
        return NULL;
    }
    block->next = scratches.blocks;
    scratches.blocks = block;
    return block;
}

void *sv_drop_scratch_take(size_t bytes)
{
    scratch_t *best = NULL;
    if (bytes > MOST_BYTES)
        return NULL;
    pthread_mutex_lock(&scratches.lock);
    for (scratch_t *at = scratches.blocks; at; at = at->next)
        if (!at->taken && at->bytes >= bytes && (!best || at->bytes < best->bytes))
            best = at;
    if (!best)
        best = add_scratch_block(bytes);
    if (best) {
        best->taken = true;
        best->idle = false;
    }
    pthread_mutex_unlock(&scratches.lock);
    return best ? best->memory : NULL;
}

void sv_drop_scratch_give(void *memory)
{
    pthread_mutex_lock(&scratches.lock);
    for (scratch_t *at = memory ? scratches.blocks : NULL; at; at = at->next)
        if (at->memory == memory) {
            at->taken = false;
            at->given_ns = sv_drop_now_ns();
        }
    pthread_mutex_unlock(&scratches.lock);
}

bool sv_drop_scratch_has_idle(int64_t now_ns)
{
    bool any = false;
    pthread_mutex_lock(&scratches.lock);
    for (scratch_t *at = scratches.blocks; at; at = at->next) {
        at->idle = !at->taken && now_ns - at->given_ns >= sv_drop_settings()->idle_ns;
        any = any || at->idle;
    }
    pthread_mutex_unlock(&scratches.lock);
    return any;
}

/* Partner: add_scratch_block(). all: or only what is idle, and was not taken since that was found. */
static void free_scratches(bool all)
{
    pthread_mutex_lock(&scratches.lock);
    for (scratch_t **at = &scratches.blocks, *block; (block = *at) != NULL;) {
        if (!all && (!block->idle || block->taken)) {
            at = &block->next;
            continue;
        }
        *at = block->next;
        selvage_device_free(sv_drop_device(), block->memory);
        free(block);
    }
    pthread_mutex_unlock(&scratches.lock);
}

void sv_drop_scratch_free_idle(void)
{
    free_scratches(false);
}

void sv_drop_scratch_close(void)
{
    free_scratches(true);
}
