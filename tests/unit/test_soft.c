/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The software device without models: order in streams, events between streams and between devices, full rings,
 * several producers, launches whose blocks wait for each other, memory and its handles (in one process and across
 * two), inline mode; and that nothing of the hot path allocates or locks.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base_config.h"
#include "base/base_memory.h"
#include "base/base_thread.h"
#include "fixtures/check.h"
#include "device/device.h"

#if defined(SV_SANITIZES_ADDRESS) || defined(SV_SANITIZES_THREAD) || !defined(__GLIBC__)
#define COUNTING 0
#else
#define COUNTING 1
#endif

#if defined(SV_NO_THREADS) && SV_NO_THREADS
#define THREADS 0
#else
#define THREADS 1
#endif

static _Atomic long calls_counted;

#if COUNTING
/* These take the place of the C library's for the whole process, workers included. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
static int (*real_mutex_lock)(pthread_mutex_t *);

void *malloc(size_t bytes)
{
    atomic_fetch_add(&calls_counted, 1);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    atomic_fetch_add(&calls_counted, 1);
    return __libc_calloc(count, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    atomic_fetch_add(&calls_counted, 1);
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    atomic_fetch_add(&calls_counted, 1);
    *out = __libc_memalign(alignment, bytes);
    return 0;
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    atomic_fetch_add(&calls_counted, 1);
    if (!real_mutex_lock)
        *(void **)&real_mutex_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    return real_mutex_lock(mutex);
}
#endif

static sv_device_t *open_soft(int mode)
{
    sv_config_t config = {.soft_mode = mode};
    sv_device_t *dev = NULL;
    CHECK_STATUS(sv_device_open("soft", &config, &dev), SELVAGE_SUCCESS);
    if (!dev)
        exit(check_report("soft"));
    return dev;
}

static void *make_stream(sv_device_t *dev)
{
    void *stream = NULL;
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_create, &stream), SELVAGE_SUCCESS);
    return stream;
}

static sv_event_t *make_event(sv_device_t *dev)
{
    sv_event_t *event = NULL;
    CHECK_STATUS(SV_DEVICE_CALL(dev, event_create, &event), SELVAGE_SUCCESS);
    return event;
}

/* A kernel that is wrong if two of its launches overlap or change order. */
typedef struct append_arg {
    unsigned *list, *count;
    unsigned value;
} append_arg_t;

static void append_body(const void *arg, unsigned block, unsigned nblocks)
{
    const append_arg_t *append = arg;
    (void)block, (void)nblocks;
    append->list[(*append->count)++] = append->value;
}

/* A device that adapts then has some of them run by its worker, and some by the caller. */
static bool append_is_brief(const void *arg)
{
    return ((const append_arg_t *)arg)->value % 3 != 0;
}

static const sv_kernel_t append_kernel = {.name = "append", .soft = append_body, .is_brief = append_is_brief};

static void append(sv_device_t *dev, void *stream, unsigned *list, unsigned *count, unsigned value)
{
    append_arg_t arg = {list, count, value};
    CHECK_STATUS(SV_DEVICE_CALL(dev, launch, &append_kernel, &arg, sizeof arg, 1, stream), SELVAGE_SUCCESS);
}

/* More operations than the ring holds, after a pause, so that the producer meets a full ring. */
static void check_order(sv_device_t *dev, void *stream)
{
    enum { N = 3000 };
    static unsigned list[N];
    unsigned count = 0, wrong = 0;
    SV_DEVICE_CALL(dev, delay_async, 2000, stream);
    for (unsigned i = 0; i < N; i++)
        append(dev, stream, list, &count, i);
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, stream), SELVAGE_SUCCESS);
    CHECK_EQ(count, N);
    for (unsigned i = 0; i < N; i++)
        wrong += list[i] != i;
    CHECK_EQ(wrong, 0);
}

static void check_copies(sv_device_t *dev, void *stream)
{
    enum { BYTES = 100001 };
    unsigned char *host = NULL, *back = NULL;
    void *a = NULL, *b = NULL;
    CHECK_STATUS(SV_DEVICE_CALL(dev, host_malloc, BYTES, (void **)&host), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, host_malloc, BYTES, (void **)&back), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, malloc, BYTES, &a), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, malloc, BYTES, &b), SELVAGE_SUCCESS);
    CHECK_EQ((uintptr_t)a % 256 + (uintptr_t)b % 256 + (uintptr_t)host % 256, 0);
    for (unsigned i = 0; i < BYTES; i++)
        host[i] = (unsigned char)(i * 7 + 3);
    SV_DEVICE_CALL(dev, fill_async, a, 0x5a, BYTES, stream);
    SV_DEVICE_CALL(dev, copy_async, (char *)a + 1, host, BYTES - 1, SV_COPY_H2D, stream);
    SV_DEVICE_CALL(dev, copy_async, b, a, BYTES, SV_COPY_D2D, stream);
    SV_DEVICE_CALL(dev, copy_async, NULL, NULL, 0, SV_COPY_PEER, stream);
    SV_DEVICE_CALL(dev, copy_async, back, b, BYTES, SV_COPY_D2H, stream);
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, stream), SELVAGE_SUCCESS);
    CHECK_EQ(back[0], 0x5a);
    CHECK(memcmp(back + 1, host, BYTES - 1) == 0);
    SV_DEVICE_CALL(dev, free, a);
    SV_DEVICE_CALL(dev, free, b);
    SV_DEVICE_CALL(dev, host_free, host);
    SV_DEVICE_CALL(dev, host_free, back);
}

/* Two streams append to one list by turns; only the events between them keep them apart. */
static void check_events(sv_device_t *dev, sv_device_t *other)
{
    enum { TURNS = 400 };
    static unsigned list[2 * TURNS];
    unsigned count = 0, wrong = 0;
    void *ping = make_stream(dev), *pong = make_stream(other);
    sv_event_t *ping_done = make_event(dev), *pong_done = make_event(dev);
    CHECK_STATUS(SV_DEVICE_CALL(dev, event_query, ping_done), SELVAGE_SUCCESS);
    for (unsigned i = 0; i < TURNS; i++) {
        SV_DEVICE_CALL(dev, stream_wait_event, ping, pong_done);
        append(dev, ping, list, &count, 2 * i);
        SV_DEVICE_CALL(dev, event_record, ping_done, ping);
        SV_DEVICE_CALL(dev, stream_wait_event, pong, ping_done);
        append(other, pong, list, &count, 2 * i + 1);
        SV_DEVICE_CALL(dev, event_record, pong_done, pong);
    }
    while (SV_DEVICE_CALL(dev, event_query, pong_done) == SELVAGE_IN_PROGRESS)
        sched_yield();
    CHECK_EQ(count, 2 * TURNS);
    for (unsigned i = 0; i < 2 * TURNS; i++)
        wrong += list[i] != i;
    CHECK_EQ(wrong, 0);
    SV_DEVICE_CALL(dev, event_destroy, ping_done);
    SV_DEVICE_CALL(dev, event_destroy, pong_done);
    SV_DEVICE_CALL(dev, stream_destroy, ping);
    SV_DEVICE_CALL(other, stream_destroy, pong);
}

/* A waiting stream waits for the event as it was, though it is recorded again elsewhere, complete, and destroyed. */
static void check_event_captured(sv_device_t *dev)
{
    unsigned list[2] = {9, 9}, count = 0;
    void *slow = make_stream(dev), *quick = make_stream(dev), *waiter = make_stream(dev);
    sv_event_t *event = make_event(dev);
    SV_DEVICE_CALL(dev, delay_async, 20000, slow);
    append(dev, slow, list, &count, 1);
    SV_DEVICE_CALL(dev, event_record, event, slow);
    CHECK_STATUS(SV_DEVICE_CALL(dev, event_query, event), SELVAGE_IN_PROGRESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_query, slow), SELVAGE_IN_PROGRESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_query, quick), SELVAGE_SUCCESS);
    SV_DEVICE_CALL(dev, stream_wait_event, waiter, event);
    append(dev, waiter, list, &count, 2);
    SV_DEVICE_CALL(dev, event_record, event, quick);
    CHECK_STATUS(SV_DEVICE_CALL(dev, event_query, event), SELVAGE_SUCCESS);
    SV_DEVICE_CALL(dev, event_destroy, event);
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, waiter), SELVAGE_SUCCESS);
    CHECK_EQ(count, 2);
    CHECK_EQ(list[0], 1);
    CHECK_EQ(list[1], 2);
    SV_DEVICE_CALL(dev, stream_destroy, slow);
    SV_DEVICE_CALL(dev, stream_destroy, quick);
    SV_DEVICE_CALL(dev, stream_destroy, waiter);
}

/* The word comes after the pause and the fill before it, without anybody asking the stream. */
static void check_signal(sv_device_t *dev)
{
    static unsigned char data[4096];
    uint64_t word = 0;
    void *stream = make_stream(dev);
    SV_DEVICE_CALL(dev, delay_async, 2000, stream);
    SV_DEVICE_CALL(dev, fill_async, data, 7, sizeof data, stream);
    CHECK_STATUS(SV_DEVICE_CALL(dev, signal_async, &word, UINT64_C(0x123456789a), stream), SELVAGE_SUCCESS);
    while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) == 0) /* partner: the release in run_signal() */
        sched_yield();
    CHECK_EQ(word, UINT64_C(0x123456789a));
    CHECK(data[0] == 7 && data[sizeof data - 1] == 7);
    SV_DEVICE_CALL(dev, stream_destroy, stream);
}

/* An event outlives its stream, and a new stream in the same place does not make it incomplete. */
static void check_event_outlives(sv_device_t *dev)
{
    sv_event_t *event = make_event(dev);
    for (int i = 0; i < 20; i++) {
        void *stream = make_stream(dev);
        SV_DEVICE_CALL(dev, delay_async, 10, stream);
        SV_DEVICE_CALL(dev, event_record, event, stream);
        SV_DEVICE_CALL(dev, stream_destroy, stream);
        CHECK_STATUS(SV_DEVICE_CALL(dev, event_query, event), SELVAGE_SUCCESS);
        void *next = make_stream(dev);
        SV_DEVICE_CALL(dev, delay_async, 10, next);
        CHECK_STATUS(SV_DEVICE_CALL(dev, event_query, event), SELVAGE_SUCCESS);
        SV_DEVICE_CALL(dev, stream_destroy, next);
    }
    SV_DEVICE_CALL(dev, event_destroy, event);
}

typedef struct add_arg {
    unsigned *sum;
} add_arg_t;

/* Not atomic on purpose: the stream is what keeps the additions apart. */
static void add_body(const void *arg, unsigned block, unsigned nblocks)
{
    (void)block, (void)nblocks;
    ++*((const add_arg_t *)arg)->sum;
}

static const sv_kernel_t add_kernel = {.name = "add", .soft = add_body};

typedef struct producer {
    sv_device_t *dev;
    void *stream;
    unsigned *sum;
} producer_t;

enum { PRODUCERS = 4, ADDITIONS = 2000 };

static void *producer_main(void *arg)
{
    const producer_t *producer = arg;
    add_arg_t add = {producer->sum};
    for (int i = 0; i < ADDITIONS; i++)
        SV_DEVICE_CALL(producer->dev, launch, &add_kernel, &add, sizeof add, 1, producer->stream);
    return NULL;
}

static void check_producers(sv_device_t *dev, void *stream)
{
    pthread_t thread[PRODUCERS];
    unsigned sum = 0;
    producer_t producer = {dev, stream, &sum};
    for (int i = 0; i < PRODUCERS; i++)
        pthread_create(&thread[i], NULL, producer_main, &producer);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(thread[i], NULL);
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, stream), SELVAGE_SUCCESS);
    CHECK_EQ(sum, PRODUCERS * ADDITIONS);
}

/* A barrier over all blocks: it ends only if they really run at the same time. */
typedef struct meet_arg {
    _Atomic unsigned *arrived;
    _Atomic unsigned *seen;
    unsigned char filler[SV_KERNEL_ARG_BYTES - 16];
} meet_arg_t;

static void meet_body(const void *arg, unsigned block, unsigned nblocks)
{
    const meet_arg_t *meet = arg;
    atomic_fetch_add(meet->arrived, 1);
    for (unsigned turns = 0; atomic_load(meet->arrived) < nblocks;)
        check_wait_turn(&turns);
    if (meet->filler[block] == block)
        atomic_fetch_add(meet->seen, 1u << (4 * block));
}

static const sv_kernel_t meet_kernel = {.name = "meet", .soft = meet_body};

static void check_blocks(sv_device_t *dev)
{
    enum { ROUNDS = 50, BLOCKS = 5 };
    static _Atomic unsigned arrived[2 * ROUNDS], seen[2 * ROUNDS];
    void *stream[2] = {make_stream(dev), make_stream(dev)};
    meet_arg_t arg;
    for (int i = 0; i < 2 * ROUNDS; i++) /* this may not be the first device */
        arrived[i] = seen[i] = 0;
    for (unsigned i = 0; i < sizeof arg.filler; i++)
        arg.filler[i] = (unsigned char)i;
    for (unsigned i = 0; i < 2 * ROUNDS; i++) {
        arg.arrived = &arrived[i];
        arg.seen = &seen[i];
        CHECK_STATUS(SV_DEVICE_CALL(dev, launch, &meet_kernel, &arg, sizeof arg, 2 + i % (BLOCKS - 1), stream[i % 2]),
                     SELVAGE_SUCCESS);
    }
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, stream[0]), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, stream[1]), SELVAGE_SUCCESS);
    unsigned wrong = 0;
    for (unsigned i = 0; i < 2 * ROUNDS; i++)
        wrong += seen[i] != 0x11111u >> 4 * (BLOCKS - 2 - i % (BLOCKS - 1));
    CHECK_EQ(wrong, 0);
    CHECK_STATUS(SV_DEVICE_CALL(dev, launch, &meet_kernel, &arg, sizeof arg + 1, 1, stream[0]), SELVAGE_ERR_DEVICE);
    SV_DEVICE_CALL(dev, stream_destroy, stream[0]);
    SV_DEVICE_CALL(dev, stream_destroy, stream[1]);
}

/* Many sizes, allocated and freed crosswise: pieces must never overlap, and all space must come back. */
static void check_allocations(sv_device_t *dev)
{
    enum { N = 64, ROUNDS = 20 };
    int64_t before = sv_memory_live();
    unsigned char *piece[N] = {0};
    size_t bytes[N] = {0};
    unsigned wrong = 0;
    for (unsigned i = 0; i < N * ROUNDS; i++) {
        unsigned slot = i * 37 % N;
        if (piece[slot])
            wrong += piece[slot][0] != slot || piece[slot][bytes[slot] - 1] != slot;
        SV_DEVICE_CALL(dev, free, piece[slot]);
        piece[slot] = NULL;
        bytes[slot] = i % 50 == 0 ? 3 << 20 : 1 + i * 7919 % 200000;
        CHECK_STATUS(SV_DEVICE_CALL(dev, malloc, bytes[slot], (void **)&piece[slot]), SELVAGE_SUCCESS);
        memset(piece[slot], (int)slot, bytes[slot]);
    }
    for (unsigned slot = 0; slot < N; slot++)
        SV_DEVICE_CALL(dev, free, piece[slot]);
    CHECK_EQ(wrong, 0);
    CHECK_EQ(sv_memory_live(), before);
    /* What was freed is found again, before what lies behind it, alone or joined with what was freed beside it. */
    void *three[3], *again = NULL;
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(SV_DEVICE_CALL(dev, malloc, 1000, &three[i]), SELVAGE_SUCCESS);
    for (int joined = 0; joined < 2; joined++) {
        SV_DEVICE_CALL(dev, free, three[1]);
        if (joined)
            SV_DEVICE_CALL(dev, free, three[0]);
        CHECK_STATUS(SV_DEVICE_CALL(dev, malloc, joined ? 2000 : 1000, &again), SELVAGE_SUCCESS);
        CHECK(again == three[joined ? 0 : 1]);
    }
    SV_DEVICE_CALL(dev, free, again);
    SV_DEVICE_CALL(dev, free, three[2]);
    CHECK_EQ(sv_memory_live(), before);
    void *nothing = NULL, *wanted = NULL;
    CHECK_STATUS(SV_DEVICE_CALL(dev, malloc, 0, &nothing), SELVAGE_SUCCESS);
    CHECK(nothing != NULL);
    CHECK_STATUS(SV_DEVICE_CALL(dev, malloc, (size_t)1 << 50, &wanted), SELVAGE_ERR_MEMORY);
    CHECK_STATUS(SV_DEVICE_CALL(dev, malloc, SIZE_MAX, &wanted), SELVAGE_ERR_MEMORY);
    CHECK(wanted == NULL);
    SV_DEVICE_CALL(dev, free, nothing);
}

static void check_handles(sv_device_t *dev, sv_device_t *other)
{
    enum { BYTES = 5000 };
    sv_device_handle_t handle;
    uint64_t offset = 0, bytes = 0;
    char *ptr = NULL, *base = NULL, *again = NULL;
    CHECK_STATUS(SV_DEVICE_CALL(dev, malloc, BYTES, (void **)&ptr), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(other, export_memory, ptr + 100, BYTES - 100, &handle, &offset), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, open_memory, &handle, (void **)&base, &bytes), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(other, open_memory, &handle, (void **)&again, &bytes), SELVAGE_SUCCESS);
    CHECK(base + offset == ptr + 100 && again == base && bytes >= offset + BYTES - 100);
    SV_DEVICE_CALL(dev, close_memory, base);
    SV_DEVICE_CALL(other, close_memory, again);
    ptr[0] = 1; /* still there */
    CHECK_STATUS(SV_DEVICE_CALL(dev, export_memory, ptr + 100, 2 * BYTES, &handle, &offset), SELVAGE_ERR_UNSUPPORTED);
    CHECK_STATUS(SV_DEVICE_CALL(dev, export_memory, &handle, 8, &handle, &offset), SELVAGE_ERR_UNSUPPORTED);
    SV_DEVICE_CALL(dev, free, ptr);
    CHECK_STATUS(SV_DEVICE_CALL(dev, export_memory, ptr, 8, &handle, &offset), SELVAGE_ERR_UNSUPPORTED);
    memset(&handle, 0, sizeof handle);
    CHECK_STATUS(SV_DEVICE_CALL(dev, open_memory, &handle, (void **)&base, &bytes), SELVAGE_ERR_DEVICE);
}

typedef struct letter {
    sv_device_handle_t handle;
    uint64_t offset;
} letter_t;

/* Another process opens its own device and writes into memory of this one by a copy. */
static int peer_main(int from_parent)
{
    letter_t letter;
    uint64_t bytes;
    char *base = NULL, *again = NULL;
    if (read(from_parent, &letter, sizeof letter) != (ssize_t)sizeof letter)
        return 1;
    sv_device_t *dev = open_soft(SV_CONFIG_SOFT_THREADS);
    if (SV_DEVICE_CALL(dev, open_memory, &letter.handle, (void **)&base, &bytes) != SELVAGE_SUCCESS ||
        SV_DEVICE_CALL(dev, open_memory, &letter.handle, (void **)&again, &bytes) != SELVAGE_SUCCESS || base != again)
        return 2;
    SV_DEVICE_CALL(dev, close_memory, again);
    if (strcmp(base + letter.offset, "from here") != 0)
        return 3;
    char answer[] = "from there";
    SV_DEVICE_CALL(dev, copy_async, base + letter.offset, answer, sizeof answer, SV_COPY_PEER, NULL);
    SV_DEVICE_CALL(dev, stream_sync, NULL);
    SV_DEVICE_CALL(dev, close_memory, base);
    dev->ops->close(dev);
    return sv_memory_live() == 0 ? 0 : 4;
}

/* Called before there are threads: a fork copies only the calling one. */
static pid_t fork_peer(int *to_peer_out)
{
    int channel[2];
    CHECK_EQ(pipe(channel), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(peer_main(channel[0]));
    close(channel[0]);
    *to_peer_out = channel[1];
    return child;
}

static void check_peer(sv_device_t *dev, pid_t peer, int to_peer)
{
    letter_t letter = {0};
    char *ptr = NULL;
    int result = -1;
    CHECK_STATUS(SV_DEVICE_CALL(dev, malloc, 1000, (void **)&ptr), SELVAGE_SUCCESS);
    strcpy(ptr + 3, "from here");
    CHECK_STATUS(SV_DEVICE_CALL(dev, export_memory, ptr + 3, 900, &letter.handle, &letter.offset), SELVAGE_SUCCESS);
    CHECK_EQ(write(to_peer, &letter, sizeof letter), sizeof letter);
    CHECK_EQ(waitpid(peer, &result, 0), peer);
    CHECK(WIFEXITED(result));
    CHECK_EQ(WEXITSTATUS(result), 0);
    CHECK_STR(ptr + 3, "from there");
    SV_DEVICE_CALL(dev, free, ptr);
    close(to_peer);
}

static void check_hot_path(sv_device_t *dev)
{
    unsigned sum = 0;
    char from[64] = {1}, to[64];
    add_arg_t add = {&sum};
    void *stream[2] = {make_stream(dev), make_stream(dev)};
    sv_event_t *event = make_event(dev);
    long before = atomic_load(&calls_counted);
    unsigned failed = 0;
    for (unsigned i = 0; i < 2000; i++) {
        void *here = stream[i % 2], *there = stream[1 - i % 2];
        failed += SV_DEVICE_CALL(dev, launch, &add_kernel, &add, sizeof add, 1, here) != SELVAGE_SUCCESS;
        failed += SV_DEVICE_CALL(dev, copy_async, to, from, sizeof to, SV_COPY_D2H, here) != SELVAGE_SUCCESS;
        failed += SV_DEVICE_CALL(dev, event_record, event, here) != SELVAGE_SUCCESS;
        failed += SV_DEVICE_CALL(dev, stream_wait_event, there, event) != SELVAGE_SUCCESS;
    }
    while (SV_DEVICE_CALL(dev, event_query, event) == SELVAGE_IN_PROGRESS)
        sched_yield();
    long counted = atomic_load(&calls_counted) - before;
    CHECK_EQ(counted, 0);
    CHECK_EQ(failed, 0);
    CHECK_EQ(sum, 2000);
#if COUNTING
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    void *volatile probe = malloc(1);
    free(probe);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    CHECK_EQ(atomic_load(&calls_counted) - before, 2); /* the counter does count */
#endif
    SV_DEVICE_CALL(dev, event_destroy, event);
    SV_DEVICE_CALL(dev, stream_destroy, stream[0]);
    SV_DEVICE_CALL(dev, stream_destroy, stream[1]);
}

typedef struct who_arg {
    pthread_t *who;
    unsigned *blocks;
} who_arg_t;

static void who_body(const void *arg, unsigned block, unsigned nblocks)
{
    const who_arg_t *who = arg;
    *who->who = pthread_self();
    who->blocks[0] += block < nblocks;
}

/* In inline mode everything has happened, in the caller's thread, when the call returns. */
static void check_inline(void)
{
    sv_device_t *dev = open_soft(SV_CONFIG_SOFT_INLINE);
    const sv_kernel_t kernel = {.name = "who", .soft = who_body};
    pthread_t who[1];
    unsigned blocks = 0;
    who_arg_t arg = {who, &blocks};
    char text[8] = "";
    void *stream = make_stream(dev);
    sv_event_t *event = make_event(dev);
    CHECK(stream != NULL);
    CHECK_STATUS(SV_DEVICE_CALL(dev, launch, &kernel, &arg, sizeof arg, 3, stream), SELVAGE_SUCCESS);
    CHECK_EQ(blocks, 3);
    CHECK(pthread_equal(who[0], pthread_self()));
    SV_DEVICE_CALL(dev, copy_async, text, "inline", 7, SV_COPY_H2D, NULL);
    CHECK_STR(text, "inline");
    SV_DEVICE_CALL(dev, event_record, event, stream);
    CHECK_STATUS(SV_DEVICE_CALL(dev, event_query, event), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_wait_event, NULL, event), SELVAGE_SUCCESS);
    check_copies(dev, stream);
    check_order(dev, NULL);
    SV_DEVICE_CALL(dev, event_destroy, event);
    SV_DEVICE_CALL(dev, stream_destroy, stream);
    dev->ops->close(dev);
}

static void check_threaded(sv_device_t *dev, sv_device_t *other)
{
    void *stream = make_stream(dev);
    CHECK(stream != NULL);
    check_order(dev, stream);
    check_order(dev, NULL);
    check_copies(dev, stream);
    check_events(dev, dev);
    check_events(dev, other);
    check_event_captured(dev);
    check_signal(dev);
    check_event_outlives(dev);
    check_producers(dev, stream);
    check_blocks(dev);
    check_hot_path(dev);
    SV_DEVICE_CALL(dev, stream_destroy, stream);
}

int main(void)
{
    int to_peer = -1;
    sv_thread_binding()->log_level = 0;
    pid_t peer = fork_peer(&to_peer);
    sv_device_t *dev = open_soft(SV_CONFIG_SOFT_THREADS), *other = open_soft(SV_CONFIG_SOFT_THREADS);
    CHECK_STR(dev->ops->name, "soft");
    CHECK(dev->launch_blocks >= 1);
    check_peer(dev, peer, to_peer);
    check_allocations(dev);
    check_handles(dev, other);
    if (THREADS) {
        sv_device_t *adapting = open_soft(SV_CONFIG_SOFT_AUTO);
        adapting->oversubscribed = true;
        check_threaded(dev, other);
        check_threaded(adapting, other);
        adapting->ops->close(adapting);
    }
    check_inline();
    dev->ops->close(dev);
    other->ops->close(other);
    CHECK_EQ(sv_memory_live(), 0);
    return check_report("soft");
}
