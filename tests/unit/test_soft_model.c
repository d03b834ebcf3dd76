/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Modelled links and modelled kernels: they take the time they are told, copies of one direction queue up whichever
 * streams they come from, directions do not disturb each other, and none of it costs CPU time.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "base/base_clock.h"
#include "base/base_config.h"
#include "base/base_memory.h"
#include "base/base_thread.h"
#include "fixtures/check.h"
#include "device/device.h"

enum { BYTES = 1000000, LEG_MS = 100 }; /* at 0.01 GB/s: long beside what a busy machine adds to a sleep */

static sv_device_t *dev;
static void *stream[3];
static unsigned char *device_bytes, *host_bytes;

static double ms_since(uint64_t begin_ns)
{
    return (double)(sv_clock_ns() - begin_ns) / 1e6;
}

static void copy(sv_copy_kind_t kind, int which)
{
    unsigned char *dst = kind == SV_COPY_D2H ? host_bytes : device_bytes;
    unsigned char *src = kind == SV_COPY_D2H ? device_bytes : host_bytes;
    dst += (size_t)which * BYTES;
    src += (size_t)which * BYTES;
    CHECK_STATUS(SV_DEVICE_CALL(dev, copy_async, dst, src, BYTES, kind, stream[which]), SELVAGE_SUCCESS);
}

static double finish_ms(uint64_t begin_ns)
{
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, stream[i]), SELVAGE_SUCCESS);
    return ms_since(begin_ns);
}

/* Three copies one way share the link, though each has a stream of its own; enqueueing them waits for none. A machine
   that is busy otherwise may hold the caller up, but not five times. */
static void check_one_way(sv_copy_kind_t kind)
{
    double enqueued_ms = 1e9;
    for (int attempt = 0; attempt < 5 && enqueued_ms >= LEG_MS; attempt++) {
        uint64_t begin = sv_clock_ns();
        for (int i = 0; i < 3; i++)
            copy(kind, i);
        enqueued_ms = ms_since(begin);
        CHECK(finish_ms(begin) >= 3 * LEG_MS - 0.1);
    }
    CHECK(enqueued_ms < LEG_MS);
}

/* Two copies each way take the time of two, not of four: the bound lies halfway, far from either. */
static void check_both_ways(void)
{
    double best = 1e9;
    for (int attempt = 0; attempt < 5 && best >= 3 * LEG_MS; attempt++) {
        uint64_t begin = sv_clock_ns();
        for (int i = 0; i < 2; i++) {
            copy(SV_COPY_D2H, 0);
            copy(SV_COPY_H2D, 1);
        }
        double ms = finish_ms(begin);
        CHECK(ms >= 2 * LEG_MS - 0.1);
        best = ms < best ? ms : best;
    }
    CHECK(best < 3 * LEG_MS);
}

static void check_latency_and_unmodelled(void)
{
    uint64_t begin = sv_clock_ns();
    for (int i = 0; i < 4; i++)
        SV_DEVICE_CALL(dev, copy_async, device_bytes + i, host_bytes, 1, SV_COPY_PEER, stream[i % 2]);
    CHECK(finish_ms(begin) >= 4 * 2.0 - 0.1);
    double best = 1e9;
    for (int attempt = 0; attempt < 5 && best >= LEG_MS; attempt++) {
        begin = sv_clock_ns();
        SV_DEVICE_CALL(dev, copy_async, device_bytes, device_bytes + BYTES, BYTES, SV_COPY_D2D, stream[0]);
        const double ms = finish_ms(begin);
        best = ms < best ? ms : best;
    }
    CHECK(best < LEG_MS);
}

/* Two pauses in two streams run side by side, two in one stream one after the other; none uses the processor. */
static void check_delay(void)
{
    clock_t cpu = clock();
    uint64_t begin = sv_clock_ns();
    SV_DEVICE_CALL(dev, delay_async, 200e3, stream[0]);
    SV_DEVICE_CALL(dev, delay_async, 100e3, stream[1]);
    SV_DEVICE_CALL(dev, delay_async, 100e3, stream[1]);
    double ms = finish_ms(begin);
    CHECK(ms >= 200 - 0.1);
    CHECK((double)(clock() - cpu) / CLOCKS_PER_SEC * 1e3 < 0.5 * ms);
}

int main(void)
{
    sv_config_t config = {.soft_d2h_gbs = 0.01, .soft_h2d_gbs = 0.01, .soft_peer_us = 2000};
    sv_thread_binding()->log_level = 0;
#if defined(SV_NO_THREADS) && SV_NO_THREADS
    return CHECK_SKIP;
#endif
    CHECK_STATUS(sv_device_open("soft", &config, &dev), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, malloc, 3 * BYTES, (void **)&device_bytes), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, host_malloc, 3 * BYTES, (void **)&host_bytes), SELVAGE_SUCCESS);
    memset(host_bytes, 7, 3 * BYTES);
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(SV_DEVICE_CALL(dev, stream_create, &stream[i]), SELVAGE_SUCCESS);
    check_one_way(SV_COPY_H2D);
    CHECK(memcmp(device_bytes, host_bytes, 3 * BYTES) == 0);
    check_one_way(SV_COPY_D2H);
    check_both_ways();
    check_latency_and_unmodelled();
    check_delay();
    for (int i = 0; i < 3; i++)
        SV_DEVICE_CALL(dev, stream_destroy, stream[i]);
    SV_DEVICE_CALL(dev, free, device_bytes);
    SV_DEVICE_CALL(dev, host_free, host_bytes);
    dev->ops->close(dev);
    CHECK_EQ(sv_memory_live(), 0);
    return check_report("soft_model");
}
