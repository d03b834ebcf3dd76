/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams of the software device: who executes their work where threads outnumber cores, and what is said of streams
 * that were destroyed.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_config.h"
#include "base/base_memory.h"
#include "base/base_thread.h"
#include "device/soft/soft_device.h"
#include "device/soft/soft_priv.h"
#include "fixtures/check.h"

typedef struct whose_arg {
    pthread_t *who;
    unsigned *blocks;
} whose_arg_t;

static void whose_body(const void *arg, unsigned block, unsigned nblocks)
{
    const whose_arg_t *whose = arg;
    *whose->who = pthread_self();
    *whose->blocks += block < nblocks;
}

static sv_device_t *open_mode(int mode)
{
    const sv_config_t config = {.soft_mode = mode};
    sv_device_t *dev = NULL;
    CHECK_STATUS(sv_soft_open(&config, &dev), SELVAGE_SUCCESS);
    if (!dev)
        exit(check_report("soft_streams"));
    return dev;
}

static void *new_stream(sv_device_t *dev)
{
    void *stream = NULL;
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_create, &stream), SELVAGE_SUCCESS);
    return stream;
}

/* A stream that was destroyed is refused by every call that takes one, and so is what never was one. */
static void check_dead_streams(int mode)
{
    sv_device_t *dev = open_mode(mode);
    const sv_kernel_t kernel = {.name = "who", .soft = whose_body};
    char text[8] = "", other[2 * sizeof(void *)];
    uint64_t word = 0;
    void *dead = new_stream(dev), *graph = NULL, *alive[20];
    void *streams[] = {dead, other, (char *)dead + 1};
    sv_event_t *event = NULL;
    CHECK_STATUS(SV_DEVICE_CALL(dev, event_create, &event), SELVAGE_SUCCESS);
    SV_DEVICE_CALL(dev, stream_destroy, dead);
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
        void *s = streams[i];
        CHECK_STATUS(SV_DEVICE_CALL(dev, copy_async, text, "dead", 5, SV_COPY_H2D, s), SELVAGE_ERR_DEVICE);
        CHECK_STATUS(SV_DEVICE_CALL(dev, fill_async, text, 1, 4, s), SELVAGE_ERR_DEVICE);
        CHECK_STATUS(SV_DEVICE_CALL(dev, signal_async, &word, 1, s), SELVAGE_ERR_DEVICE);
        CHECK_STATUS(SV_DEVICE_CALL(dev, delay_async, 1, s), SELVAGE_ERR_DEVICE);
        CHECK_STATUS(SV_DEVICE_CALL(dev, launch, &kernel, NULL, 0, 1, s), SELVAGE_ERR_DEVICE);
        CHECK_STATUS(SV_DEVICE_CALL(dev, event_record, event, s), SELVAGE_ERR_DEVICE);
        CHECK_STATUS(SV_DEVICE_CALL(dev, stream_wait_event, s, event), SELVAGE_ERR_DEVICE);
        CHECK_STATUS(SV_DEVICE_CALL(dev, stream_query, s), SELVAGE_ERR_DEVICE);
        CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, s), SELVAGE_ERR_DEVICE);
        CHECK_STATUS(SV_DEVICE_CALL(dev, graph_begin, s), SELVAGE_ERR_DEVICE);
        CHECK_STATUS(SV_DEVICE_CALL(dev, graph_end, s, &graph), SELVAGE_ERR_DEVICE);
        CHECK(!SV_DEVICE_CALL(dev, stream_is_capturing, s));
        SV_DEVICE_CALL(dev, stream_destroy, s);
    }
    CHECK(text[0] == '\0' && word == 0 && strstr(selvage_error_detail(), "was destroyed, or is none"));
    /* Its place is left alone for a while, and then taken again. */
    for (int i = 0; i < 20; i++)
        alive[i] = new_stream(dev);
    for (int i = 0; i < 20; i++)
        SV_DEVICE_CALL(dev, stream_destroy, alive[i]);
    bool again = false;
    void *last = alive[19];
    for (int i = 0; i < 20; i++) {
        alive[i] = new_stream(dev);
        again |= alive[i] == dead;
        CHECK(i > 0 || alive[i] != last);
    }
    CHECK(again);
    for (int i = 0; i < 20; i++)
        SV_DEVICE_CALL(dev, stream_destroy, alive[i]);
    SV_DEVICE_CALL(dev, event_destroy, event);
    dev->ops->close(dev);
}

static bool always_brief(const void *arg)
{
    return arg != NULL;
}

/* A device that adapts has what is brief run by the caller, where threads outnumber cores and the stream has nothing
   else to do. What may wait is the worker's, as everything is on other devices. */
static void check_adapting(void)
{
    static const struct {
        int mode;
        bool oversubscribed, brief, busy, here;
    } cases[] = {{SV_CONFIG_SOFT_AUTO, true, true, false, true},
                 {SV_CONFIG_SOFT_AUTO, true, true, true, false},
                 {SV_CONFIG_SOFT_AUTO, true, false, false, false},
                 {SV_CONFIG_SOFT_AUTO, false, true, false, false},
                 {SV_CONFIG_SOFT_THREADS, true, true, false, false},
                 {SV_CONFIG_SOFT_INLINE, true, false, true, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sv_device_t *dev = open_mode(cases[i].mode);
        const sv_kernel_t kernel = {
            .name = "who", .soft = whose_body, .is_brief = cases[i].brief ? always_brief : NULL};
        pthread_t who = pthread_self();
        unsigned blocks = 0;
        whose_arg_t arg = {&who, &blocks};
        void *stream = new_stream(dev);
        dev->oversubscribed = cases[i].oversubscribed;
        if (cases[i].busy)
            SV_DEVICE_CALL(dev, delay_async, 2000, stream);
        CHECK_STATUS(SV_DEVICE_CALL(dev, launch, &kernel, &arg, sizeof arg, 1, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, stream), SELVAGE_SUCCESS);
        CHECK_EQ(blocks, 1);
        CHECK_EQ(pthread_equal(who, pthread_self()) != 0, cases[i].here);
        SV_DEVICE_CALL(dev, stream_destroy, stream);
        dev->ops->close(dev);
    }
}

int main(void)
{
    sv_thread_binding()->log_level = 0;
    if (SOFT_THREADS) {
        check_adapting();
        check_dead_streams(SV_CONFIG_SOFT_THREADS);
    }
    check_dead_streams(SV_CONFIG_SOFT_INLINE);
    CHECK_EQ(sv_memory_live(), 0);
    return check_report("soft_streams");
}
