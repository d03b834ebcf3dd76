/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows and their epochs. MPI cannot reach a window in device memory, so it is given a shadow in pinned memory. MPI's
 * separate memory model knows a private copy of a window, here the device's memory, and a public copy, here the shadow.
 * Calls of the window's owner bring the two together where that model wants it:
 *
 *   push   stores of the device become visible to others: post, fence, unlock, sync
 *   pull   stores of others become visible to the device: wait, test, fence, lock, sync, free
 *
 * Each side is compared with a copy of how both were when they were alike last, so that the two may have changed
 * different bytes. MPI may write the shadow at any time, on behalf of other ranks and without this one's help. So its
 * words are read once, each as a whole, and that one reading is compared, remembered and copied. They are written by
 * compare-and-swap, so that an update by another rank is neither lost nor made twice.
 *
 * Device memory of origins is staged, and lands or is given back with the call that completes it there. Any thread. The
 * lock of requests guards the lists, which own their windows and calls.
 */
#include "interpose/drop.h"
#include "interpose/drop_raise.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 4 << 20, PAGE_BYTES = 4096, GAP_BYTES = 512, WORD_BYTES = 8, ALL = -100 };

typedef struct window {
    struct window *next;
    MPI_Win win;
    char *user, *shadow;
    char *last; /* as both were when they were alike */
    size_t bytes;
} window_t;

/* A call under way at its origin. */
typedef struct pending {
    struct pending *next;
    sv_drop_call_t call;
} pending_t;

/* The calls under way of one window and target. A queue without any is freed. */
typedef struct queue {
    struct queue *next; /* in its bucket */
    MPI_Win win;
    int target;
    pending_t *first;
} queue_t;

enum { BUCKETS = 512 };

static window_t *windows;
static queue_t *queues[BUCKETS];
static _Atomic int in_use; /* of both */

static bool is_idle(void)
{
    return __builtin_expect(atomic_load_explicit(&in_use, memory_order_relaxed) == 0, 1);
}

static window_t *find_window(MPI_Win win)
{
    window_t *at = windows;
    while (at && at->win != win)
        at = at->next;
    return at;
}

/* --- the two copies ----------------------------------------------------------------------------------------------- */

/* The program may have freed the memory before the window, which MPI would not notice. */
static bool is_there(const window_t *window)
{
    return sv_drop_query_place(window->user) == SV_DROP_DEVICE &&
           sv_drop_query_place(window->user + window->bytes - 1) == SV_DROP_DEVICE;
}

/* Puts what the device has stored into a word of the shadow, as far as nobody else has put anything there. */
static void push_word(const char *device, char *shadow, char *last)
{
    char seen[WORD_BYTES], wanted[WORD_BYTES];
    uint64_t word = __atomic_load_n((uint64_t *)(void *)shadow, __ATOMIC_RELAXED), next;
    do {
        memcpy(seen, &word, WORD_BYTES);
        for (int i = 0; i < WORD_BYTES; i++)
            wanted[i] = device[i] != last[i] && seen[i] == last[i] ? device[i] : seen[i];
        memcpy(&next, wanted, WORD_BYTES);
    } while (next != word && !__atomic_compare_exchange_n((uint64_t *)(void *)shadow, &word, next, false,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    for (int i = 0; i < WORD_BYTES; i++)
        if (seen[i] == last[i])
            last[i] = device[i];
}

static void push_page(const char *device, char *shadow, char *last, size_t bytes)
{
    size_t i = 0;
    if (memcmp(device, last, bytes) == 0)
        return;
    for (; i + WORD_BYTES <= bytes; i += WORD_BYTES)
        if (memcmp(device + i, last + i, WORD_BYTES) != 0)
            push_word(device + i, shadow + i, last + i);
    for (; i < bytes; i++) { /* bytes of the last word may be missing */
        char seen = last[i];
        if (device[i] != seen && __atomic_compare_exchange_n(shadow + i, &seen, device[i], false, __ATOMIC_RELAXED,
                                                             __ATOMIC_RELAXED))
            last[i] = device[i];
    }
}

static size_t chunk_at(const window_t *window, size_t at)
{
    return window->bytes - at < CHUNK_BYTES ? window->bytes - at : CHUNK_BYTES;
}

static void push_window(window_t *window)
{
    char *copy = sv_drop_staging(chunk_at(window, 0));
    sv_drop_settle();
    for (size_t at = 0; at < window->bytes; at += CHUNK_BYTES) {
        sv_drop_flow_t flow = {0};
        size_t chunk = chunk_at(window, at);
        sv_drop_copy(&flow, copy, window->user + at, chunk, SELVAGE_COPY_DEVICE_TO_HOST);
        sv_drop_flow_end(&flow);
        for (size_t page = 0; page < chunk; page += PAGE_BYTES)
            push_page(copy + page, window->shadow + at + page, window->last + at + page,
                      chunk - page < PAGE_BYTES ? chunk - page : PAGE_BYTES);
    }
    sv_drop_unstage(copy);
}

/* Reads a chunk, whose words others may be writing. False if nothing in it has changed. */
static bool read_chunk(const char *shadow, const char *last, size_t chunk, char *copy)
{
    bool changed = false;
    for (size_t page = 0, i = 0; page < chunk; page += PAGE_BYTES) {
        const size_t end = chunk - page < PAGE_BYTES ? chunk : page + PAGE_BYTES;
        for (; i + WORD_BYTES <= end; i += WORD_BYTES) {
            /* MPI's epochs order what is after it; a word is whole, or its writer did not write it as one. */
            uint64_t word = __atomic_load_n((const uint64_t *)(const void *)(shadow + i), __ATOMIC_RELAXED);
            memcpy(copy + i, &word, WORD_BYTES);
        }
        for (; i < end; i++) /* bytes of the last word may be missing */
            copy[i] = __atomic_load_n(shadow + i, __ATOMIC_RELAXED);
        changed = changed || memcmp(copy + page, last + page, end - page) != 0;
    }
    return changed;
}

/* The next run of changes from a byte on, with short equal stretches in it. False if there is none. */
static bool find_run(const char *copy, const char *last, size_t chunk, size_t *at, size_t *end_out)
{
    while (*at < chunk) {
        const size_t page = chunk - *at < PAGE_BYTES ? chunk - *at : PAGE_BYTES;
        if (*at % PAGE_BYTES == 0 && memcmp(copy + *at, last + *at, page) == 0) {
            *at += page;
        } else if (copy[*at] == last[*at]) {
            (*at)++;
        } else {
            size_t end = *at + 1;
            for (size_t i = end; i < chunk && i - end < GAP_BYTES; i++)
                if (copy[i] != last[i])
                    end = i + 1;
            *end_out = end;
            return true;
        }
    }
    return false;
}

static void pull_window(window_t *window)
{
    char *copy = sv_drop_staging(chunk_at(window, 0)), *fresh = NULL;
    for (size_t base = 0; base < window->bytes; base += CHUNK_BYTES) {
        const size_t chunk = chunk_at(window, base);
        char *user = window->user + base, *last = window->last + base;
        if (!read_chunk(window->shadow + base, last, chunk, copy))
            continue;
        if (!fresh)
            fresh = sv_drop_staging(chunk_at(window, 0));
        /* Unchanged bytes within a run are read from the device just before, because something else may have landed
           there since the last push. No other landing comes between, because of the lock. */
        sv_drop_flow_t down = {0}, up = {0};
        for (size_t at = 0, end; find_run(copy, last, chunk, &at, &end); at = end)
            sv_drop_copy(&down, fresh + at, user + at, end - at, SELVAGE_COPY_DEVICE_TO_HOST);
        sv_drop_flow_end(&down);
        /* The changes go up, run by run. */
        for (size_t at = 0, end; find_run(copy, last, chunk, &at, &end); at = end) {
            for (size_t i = at; i < end; i++)
                if (copy[i] != last[i])
                    fresh[i] = last[i] = copy[i];
            sv_drop_copy(&up, user + at, fresh + at, end - at, SELVAGE_COPY_HOST_TO_DEVICE);
        }
        sv_drop_flow_end(&up);
    }
    if (fresh)
        sv_drop_unstage(fresh);
    sv_drop_unstage(copy);
}

typedef enum sides { PUSH = 1, PULL = 2 } sides_t;

/* The push comes first: only after it is it known what a pull may write. */
static void bring_together(MPI_Win win, sides_t sides)
{
    if (is_idle())
        return;
    sv_drop_lock();
    window_t *window = find_window(win);
    if (window && !is_there(window)) /* nothing can be asked of it, nor brought to it */
        window = NULL;
    if (window && (sides & PUSH))
        push_window(window);
    if (window && (sides & PULL))
        pull_window(window);
    sv_drop_unlock();
}

/* --- origins ------------------------------------------------------------------------------------------------------ */

static queue_t **bucket_at(MPI_Win win, int target)
{
    const uint64_t key = (uint64_t)(uintptr_t)win * 31 + (uint64_t)target;
    return &queues[(key ^ key >> 9 ^ key >> 18) % BUCKETS];
}

void sv_drop_pend(const sv_drop_call_t *call, MPI_Win win, int target)
{
    pending_t *made = malloc(sizeof *made);
    if (!made)
        sv_drop_fatal("no memory", call->name);
    sv_drop_lock();
    queue_t **bucket = bucket_at(win, target), *queue = *bucket;
    while (queue && (queue->win != win || queue->target != target))
        queue = queue->next;
    if (!queue) {
        if (!(queue = malloc(sizeof *queue)))
            sv_drop_fatal("no memory", call->name);
        *queue = (queue_t){*bucket, win, target, NULL};
        *bucket = queue;
    }
    *made = (pending_t){queue->first, *call};
    sv_drop_call_hold(&made->call);
    queue->first = made;
    atomic_fetch_add_explicit(&in_use, 1, memory_order_relaxed);
    sv_drop_unlock();
}

/* Moves a bucket's calls of a window, and of a target or ALL, to the head of those that have ended, and begins to land
   them. */
static pending_t *end_bucket(sv_drop_flow_t *flow, queue_t **bucket, MPI_Win win, int target, pending_t *ended)
{
    for (queue_t **at = bucket, *now; (now = *at);) {
        if (now->win != win || (target != ALL && now->target != target)) {
            at = &now->next;
            continue;
        }
        *at = now->next;
        for (pending_t *call = now->first, *next; call; call = next) {
            next = call->next;
            sv_drop_unstage_on(flow, &call->call, NULL);
            call->next = ended;
            ended = call;
        }
        free(now);
    }
    return ended;
}

/* Lands all calls of a window and target. Those with requests of their own are complete as well, whether the program
   asks or not. */
static int complete_pending(int code, MPI_Win win, int target)
{
    sv_drop_flow_t flow = {0};
    pending_t *ended = NULL;
    if (sv_drop_has_open())
        sv_drop_progress();
    if (code != MPI_SUCCESS || is_idle())
        return code;
    sv_drop_lock();
    if (target != ALL)
        ended = end_bucket(&flow, bucket_at(win, target), win, target, NULL);
    for (int i = 0; i < BUCKETS && target == ALL; i++)
        ended = end_bucket(&flow, &queues[i], win, ALL, ended);
    sv_drop_flow_end(&flow);
    for (pending_t *now = ended, *next; now; now = next) {
        next = now->next;
        sv_drop_call_end(&now->call);
        free(now);
        atomic_fetch_sub_explicit(&in_use, 1, memory_order_relaxed);
    }
    sv_drop_unlock();
    return code;
}

/* --- the life of a window ----------------------------------------------------------------------------------------- */

static void destroy_window(window_t *window)
{
    selvage_device_host_free(sv_drop_device(), window->shadow);
    free(window->last);
    free(window);
}

SV_DROP_EXPORT int MPI_Win_create(void *base, MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win *win)
{
    sv_drop_flush_and_block();
    if (size <= 0 || sv_drop_is_host(base))
        return PMPI_Win_create(base, size, disp_unit, info, comm, win);
    /* The shadow, and the copy of how both are when they are alike. */
    void *shadow = NULL;
    sv_drop_flow_t flow = {0};
    window_t *window = calloc(1, sizeof *window);
    char *last = malloc((size_t)size);
    if (!window || !last || selvage_device_host_malloc(sv_drop_device(), (size_t)size, &shadow) != SELVAGE_SUCCESS)
        sv_drop_fatal("no memory", "for a window's shadow");
    *window = (window_t){NULL, MPI_WIN_NULL, base, shadow, last, (size_t)size};
    sv_drop_settle();
    sv_drop_copy(&flow, shadow, base, (size_t)size, SELVAGE_COPY_DEVICE_TO_HOST);
    sv_drop_flow_end(&flow);
    memcpy(last, shadow, (size_t)size);
    int code = PMPI_Win_create(shadow, size, disp_unit, info, comm, win);
    if (code != MPI_SUCCESS) {
        destroy_window(window);
        return code;
    }
    sv_drop_lock();
    window->win = *win;
    window->next = windows;
    windows = window;
    atomic_fetch_add_explicit(&in_use, 1, memory_order_relaxed);
    sv_drop_unlock();
    return code;
}

#if MPI_VERSION >= 4
SV_DROP_EXPORT int MPI_Win_create_c(void *base, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
                                    MPI_Win *win)
{
    sv_drop_flush_and_block();
    return disp_unit > INT32_MAX ? PMPI_Win_create_c(base, size, disp_unit, info, comm, win)
                                 : MPI_Win_create(base, size, (int)disp_unit, info, comm, win);
}
#endif

/* Other ranks name addresses in attached memory, so that no shadow can stand in its place. */
SV_DROP_EXPORT int MPI_Win_attach(MPI_Win win, void *base, MPI_Aint size)
{
    if (size <= 0 || sv_drop_is_host(base))
        return PMPI_Win_attach(win, base, size);
    sv_drop_warn("MPI_Win_attach: device memory at %p cannot be attached to a window: use MPI_Win_create", base);
    return sv_drop_raise_win(win, MPI_ERR_RMA_ATTACH);
}

/* The device's last stores are pushed before MPI's own call, in which all ranks meet. The last updates of other ranks
   come until then, and are pulled after it. */
SV_DROP_EXPORT int MPI_Win_free(MPI_Win *win)
{
    sv_drop_flush_and_block();
    MPI_Win before = *win;
    bring_together(before, PUSH);
    int code = complete_pending(PMPI_Win_free(win), before, ALL);
    if (code != MPI_SUCCESS || is_idle())
        return code;
    sv_drop_lock();
    window_t **at = &windows;
    while (*at && (*at)->win != before)
        at = &(*at)->next;
    window_t *window = *at;
    if (window) {
        if (is_there(window))
            pull_window(window);
        else
            sv_drop_warn("MPI_Win_free: the device memory at %p was freed before its window", (void *)window->user);
        *at = window->next;
        destroy_window(window);
        atomic_fetch_sub_explicit(&in_use, 1, memory_order_relaxed);
    }
    sv_drop_unlock();
    return code;
}

SV_DROP_EXPORT int MPI_Win_get_attr(MPI_Win win, int keyval, void *value, int *flag)
{
    static int separate = MPI_WIN_SEPARATE;
    int code = PMPI_Win_get_attr(win, keyval, value, flag);
    if (code != MPI_SUCCESS || !*flag || is_idle())
        return code;
    sv_drop_lock();
    window_t *window = find_window(win);
    if (window && keyval == MPI_WIN_BASE)
        *(void **)value = window->user;
    if (window && keyval == MPI_WIN_MODEL)
        *(int **)value = &separate;
    sv_drop_unlock();
    return code;
}

/* --- epochs ------------------------------------------------------------------------------------------------------- */

SV_DROP_EXPORT int MPI_Win_fence(int assertion, MPI_Win win)
{
    sv_drop_flush_and_block();
    bring_together(win, PUSH);
    int code = complete_pending(PMPI_Win_fence(assertion, win), win, ALL);
    bring_together(win, PULL);
    return code;
}

SV_DROP_EXPORT int MPI_Win_post(MPI_Group group, int assertion, MPI_Win win)
{
    sv_drop_flush_and_block();
    bring_together(win, PUSH);
    return PMPI_Win_post(group, assertion, win);
}

SV_DROP_EXPORT int MPI_Win_complete(MPI_Win win)
{
    sv_drop_flush_and_block();
    return complete_pending(PMPI_Win_complete(win), win, ALL);
}

SV_DROP_EXPORT int MPI_Win_wait(MPI_Win win)
{
    sv_drop_flush_and_block();
    int code = PMPI_Win_wait(win);
    bring_together(win, PUSH | PULL);
    return code;
}

SV_DROP_EXPORT int MPI_Win_test(MPI_Win win, int *flag)
{
    sv_drop_flush_and_block();
    int code = PMPI_Win_test(win, flag);
    if (code == MPI_SUCCESS && *flag)
        bring_together(win, PUSH | PULL);
    return code;
}

SV_DROP_EXPORT int MPI_Win_lock(int lock_type, int rank, int assertion, MPI_Win win)
{
    sv_drop_flush_and_block();
    int code = PMPI_Win_lock(lock_type, rank, assertion, win);
    bring_together(win, PUSH | PULL);
    return code;
}

SV_DROP_EXPORT int MPI_Win_unlock(int rank, MPI_Win win)
{
    sv_drop_flush_and_block();
    bring_together(win, PUSH);
    return complete_pending(PMPI_Win_unlock(rank, win), win, rank);
}

SV_DROP_EXPORT int MPI_Win_lock_all(int assertion, MPI_Win win)
{
    sv_drop_flush_and_block();
    int code = PMPI_Win_lock_all(assertion, win);
    bring_together(win, PUSH | PULL);
    return code;
}

SV_DROP_EXPORT int MPI_Win_unlock_all(MPI_Win win)
{
    sv_drop_flush_and_block();
    bring_together(win, PUSH);
    return complete_pending(PMPI_Win_unlock_all(win), win, ALL);
}

SV_DROP_EXPORT int MPI_Win_flush(int rank, MPI_Win win)
{
    sv_drop_flush_and_block();
    return complete_pending(PMPI_Win_flush(rank, win), win, rank);
}

SV_DROP_EXPORT int MPI_Win_flush_all(MPI_Win win)
{
    sv_drop_flush_and_block();
    return complete_pending(PMPI_Win_flush_all(win), win, ALL);
}

SV_DROP_EXPORT int MPI_Win_flush_local(int rank, MPI_Win win)
{
    sv_drop_flush_and_block();
    return complete_pending(PMPI_Win_flush_local(rank, win), win, rank);
}

SV_DROP_EXPORT int MPI_Win_flush_local_all(MPI_Win win)
{
    sv_drop_flush_and_block();
    return complete_pending(PMPI_Win_flush_local_all(win), win, ALL);
}

SV_DROP_EXPORT int MPI_Win_sync(MPI_Win win)
{
    sv_drop_flush_and_block();
    bring_together(win, PUSH);
    int code = PMPI_Win_sync(win);
    bring_together(win, PULL);
    return code;
}
