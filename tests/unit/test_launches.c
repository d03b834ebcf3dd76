/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launches that come again, on the device that SELVAGE_DEVICE names, with each setting of SELVAGE_LAUNCHES: every one
 * uses its own argument, in whatever order grids, streams and threads take turns; captured ones are in the graph and
 * nowhere else; and a kernel that waits is not in the way of the one on another stream that it waits for, nor of a host
 * that enqueues more of them.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_config.h"
#include "base/base_thread.h"
#include "fixtures/check.h"
#include "kernels/kernels.h"

enum { BYTES = 1 << 15, THREADS = 4, STREAMS = 6 };

static struct {
    sv_device_t *dev;
    uint8_t *bytes; /* of the device: 0 when a case begins */
    uint8_t *image; /* pinned */
} bench;

static uint8_t mask_of(int i)
{
    return (uint8_t)(1 + (unsigned)i * 37 % 255);
}

/* The byte becomes its mask, or 0 again. */
static void flip_byte(int i, unsigned nblocks, void *stream)
{
    const sv_flip_arg_t arg = {bench.bytes + i, mask_of(i)};
    CHECK_STATUS(SV_DEVICE_CALL(bench.dev, launch, &sv_kernel_flip, &arg, sizeof arg, nblocks, stream),
                 SELVAGE_SUCCESS);
}

static void copy_bytes(void *dst, const void *src, sv_copy_kind_t kind)
{
    CHECK_STATUS(SV_DEVICE_CALL(bench.dev, copy_async, dst, src, BYTES, kind, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(bench.dev, stream_sync, NULL), SELVAGE_SUCCESS);
}

static void clear_bytes(void)
{
    memset(bench.image, 0, BYTES);
    copy_bytes(bench.bytes, bench.image, SV_COPY_H2D);
}

/* The first n bytes have been flipped, and no other. */
static void expect_flipped(int n)
{
    CHECK_STATUS(bench.dev->ops->device_sync(bench.dev), SELVAGE_SUCCESS);
    copy_bytes(bench.image, bench.bytes, SV_COPY_D2H);
    int wrong = 0;
    for (int i = 0; i < BYTES; i++)
        wrong += bench.image[i] != (i < n ? mask_of(i) : 0);
    CHECK_EQ(wrong, 0);
    clear_bytes();
}

static void *new_stream(void)
{
    void *stream = NULL;
    CHECK_STATUS(SV_DEVICE_CALL(bench.dev, stream_create, &stream), SELVAGE_SUCCESS);
    return stream;
}

/* --- cases -------------------------------------------------------------------------------------------------------- */

static void test_two_grids(void *stream)
{
    enum { LAUNCHES = 300 };
    for (int i = 0; i < LAUNCHES; i++)
        flip_byte(i, i % 3 ? 1 : 7, stream);
    expect_flipped(LAUNCHES);
}

/* On a GPU more kinds than there are places for. */
static void test_many_grids(void *stream)
{
    enum { TURNS = 20 };
    const unsigned grids = bench.dev->launch_blocks;
    const int launches = (int)grids * TURNS < BYTES ? (int)grids * TURNS : BYTES;
    for (int i = 0; i < launches; i++)
        flip_byte(i, 1 + (unsigned)i % grids, stream);
    expect_flipped(launches);
}

/* Streams that end give their handles to new ones. */
static void test_streams(void)
{
    enum { ROUNDS = 3, LAUNCHES = 240 };
    for (int round = 0; round < ROUNDS; round++) {
        void *stream[STREAMS];
        for (int i = 0; i < STREAMS; i++)
            stream[i] = new_stream();
        for (int i = 0; i < LAUNCHES; i++)
            flip_byte(i, 3, stream[i % STREAMS]);
        expect_flipped(LAUNCHES);
        for (int i = 0; i < STREAMS; i++)
            SV_DEVICE_CALL(bench.dev, stream_destroy, stream[i]);
    }
}

typedef struct part {
    pthread_t thread;
    void *stream;
    int first, count;
} part_t;

static void *run_part(void *arg)
{
    const part_t *part = arg;
    for (int i = 0; i < part->count; i++)
        flip_byte(part->first + i, 2, part->stream);
    return NULL;
}

static void test_threads(void)
{
    enum { EACH = 500 };
    part_t part[THREADS];
    for (int i = 0; i < THREADS; i++) {
        part[i] = (part_t){.stream = new_stream(), .first = i * EACH, .count = EACH};
        CHECK_EQ(pthread_create(&part[i].thread, NULL, run_part, &part[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(part[i].thread, NULL), 0);
    expect_flipped(THREADS * EACH);
    for (int i = 0; i < THREADS; i++)
        SV_DEVICE_CALL(bench.dev, stream_destroy, part[i].stream);
}

/* Others go on at once, on their streams, also those that are launched so often for the first time. */
static void test_capture(void)
{
    enum { LAUNCHES = 60, CAPTURED = 5, REPLAYS = 3 };
    void *stream = new_stream(), *other = new_stream(), *graph = NULL;
    for (int i = 0; i < LAUNCHES; i++)
        flip_byte(i, 5, stream);
    expect_flipped(LAUNCHES);
    CHECK_STATUS(SV_DEVICE_CALL(bench.dev, graph_begin, stream), SELVAGE_SUCCESS);
    for (int i = 0; i < CAPTURED; i++)
        flip_byte(i, 5, stream);
    part_t part = {.stream = other, .first = CAPTURED, .count = LAUNCHES};
    CHECK_EQ(pthread_create(&part.thread, NULL, run_part, &part), 0);
    CHECK_EQ(pthread_join(part.thread, NULL), 0);
    for (int i = 0; i < LAUNCHES; i++)
        flip_byte(CAPTURED + LAUNCHES + i, 6, other);
    CHECK_STATUS(SV_DEVICE_CALL(bench.dev, graph_end, stream, &graph), SELVAGE_SUCCESS);
    for (int i = 0; i < REPLAYS; i++) /* an odd number: flipped in the end */
        CHECK_STATUS(SV_DEVICE_CALL(bench.dev, graph_launch, graph, stream), SELVAGE_SUCCESS);
    expect_flipped(CAPTURED + 2 * LAUNCHES);
    SV_DEVICE_CALL(bench.dev, graph_destroy, graph);
    SV_DEVICE_CALL(bench.dev, stream_destroy, stream);
    SV_DEVICE_CALL(bench.dev, stream_destroy, other);
}

/* The kernel that waits is launched first, each time. */
static void test_waiting(void)
{
    enum { TURNS = 100 };
    const uint64_t limit_ns = UINT64_C(20000000000);
    uint64_t *word;
    CHECK_STATUS(SV_DEVICE_CALL(bench.dev, host_malloc, (2 * STREAMS + 1) * sizeof *word, (void **)&word),
                 SELVAGE_SUCCESS);
    memset(word, 0, (2 * STREAMS + 1) * sizeof *word);
    void *stream[STREAMS + 1];
    for (int i = 0; i <= STREAMS; i++)
        stream[i] = new_stream();
    for (uint64_t turn = 1; turn <= TURNS; turn++) {
        for (int i = 0; i < STREAMS; i++) {
            const sv_await_arg_t arg = {.word = &word[i], .abort = &word[2 * STREAMS], .late = &word[STREAMS + i],
                                        .epoch = turn, .wait_ns = limit_ns};
            CHECK_STATUS(SV_DEVICE_CALL(bench.dev, launch, &sv_kernel_await, &arg, sizeof arg, 1, stream[i]),
                         SELVAGE_SUCCESS);
        }
        for (int i = STREAMS; i-- > 0;) {
            const sv_signal_arg_t arg = {.word = &word[i], .value = turn};
            CHECK_STATUS(SV_DEVICE_CALL(bench.dev, launch, &sv_kernel_signal, &arg, sizeof arg, 1, stream[STREAMS]),
                         SELVAGE_SUCCESS);
        }
        CHECK_STATUS(bench.dev->ops->device_sync(bench.dev), SELVAGE_SUCCESS);
        for (int i = 0; i < STREAMS; i++)
            CHECK(word[i] == turn && word[STREAMS + i] == 0);
    }
    for (int i = 0; i <= STREAMS; i++)
        SV_DEVICE_CALL(bench.dev, stream_destroy, stream[i]);
    SV_DEVICE_CALL(bench.dev, host_free, word);
}

/* Many that wait are on one stream at a time, and the host that enqueues them is the one they wait for. */
static void test_deep_stream(void)
{
    enum { WARM = 40, DEEP = 400 };
    const uint64_t limit_ns = UINT64_C(20000000000);
    enum { WORD, ABORT, LATE, WORDS };
    uint64_t *word;
    void *stream = new_stream();
    CHECK_STATUS(SV_DEVICE_CALL(bench.dev, host_malloc, WORDS * sizeof *word, (void **)&word), SELVAGE_SUCCESS);
    memset(word, 0, WORDS * sizeof *word);
    for (uint64_t epoch = 1; epoch <= WARM + DEEP; epoch++) {
        if (epoch <= WARM)
            __atomic_store_n(&word[WORD], epoch, __ATOMIC_RELEASE);
        const sv_await_arg_t arg = {.word = &word[WORD], .abort = &word[ABORT], .late = &word[LATE], .epoch = epoch,
                                    .wait_ns = limit_ns};
        CHECK_STATUS(SV_DEVICE_CALL(bench.dev, launch, &sv_kernel_await, &arg, sizeof arg, 1, stream),
                     SELVAGE_SUCCESS);
    }
    __atomic_store_n(&word[WORD], WARM + DEEP, __ATOMIC_RELEASE);
    CHECK_STATUS(SV_DEVICE_CALL(bench.dev, stream_sync, stream), SELVAGE_SUCCESS);
    CHECK_EQ(word[LATE], 0);
    SV_DEVICE_CALL(bench.dev, stream_destroy, stream);
    SV_DEVICE_CALL(bench.dev, host_free, word);
}

static void test_setting(const sv_config_t *config)
{
    if (sv_device_open(NULL, config, &bench.dev) != SELVAGE_SUCCESS) {
        printf("test_launches: %s\n", selvage_error_detail());
        exit(1);
    }
    CHECK_STATUS(SV_DEVICE_CALL(bench.dev, malloc, BYTES, (void **)&bench.bytes), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(bench.dev, host_malloc, BYTES, (void **)&bench.image), SELVAGE_SUCCESS);
    clear_bytes();
    void *stream = new_stream();
    test_two_grids(stream);
    test_two_grids(NULL);
    test_many_grids(stream);
    test_streams();
    test_threads();
    test_capture();
    test_waiting();
    test_deep_stream();
    SV_DEVICE_CALL(bench.dev, stream_destroy, stream);
    SV_DEVICE_CALL(bench.dev, free, bench.bytes);
    SV_DEVICE_CALL(bench.dev, host_free, bench.image);
    bench.dev->ops->close(bench.dev);
}

static const char *environment(void *arg, const char *name)
{
    (void)arg;
    return getenv(name);
}

int main(void)
{
    sv_config_t config;
    sv_thread_binding()->log_level = 0;
    CHECK_STATUS(sv_config_load(environment, NULL, &config), SELVAGE_SUCCESS);
    for (config.launches = SV_CONFIG_LAUNCHES_AUTO; config.launches <= SV_CONFIG_LAUNCHES_PREPARED; config.launches++)
        test_setting(&config);
    return check_report("test_launches");
}
