/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams of the software device whose rings have two entries, with compare-exchanges of which one in ten fails for no
 * reason (base_atomic.h). Several threads fill one stream: every operation is run once, those of a thread in its order,
 * and the ring is empty in the end. Copies over a modelled link claim their time one after another.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_config.h"
#include "base/base_memory.h"
#include "device/soft/soft_device.h"
#include "device/soft/soft_priv.h"
#include "fixtures/check.h"

enum { PRODUCERS = 4, EACH = 2000 };

_Static_assert(SOFT_RING_OPS == 2, "built with two entries");

typedef struct entry {
    unsigned *next;  /* of the producer, as the stream sees it */
    unsigned *wrong;
    unsigned value;
} entry_t;

typedef struct producer {
    pthread_t thread;
    sv_device_t *dev;
    void *stream;
    unsigned next, wrong;
} producer_t;

static unsigned ran;

/* The worker runs it, or on a device that adapts its producer; always one after another. */
static void entry_body(const void *arg, unsigned block, unsigned nblocks)
{
    const entry_t *entry = arg;
    (void)block, (void)nblocks;
    *entry->wrong += (*entry->next)++ != entry->value;
    ran++;
}

static bool entry_is_brief(const void *arg)
{
    return ((const entry_t *)arg)->value % 3 != 0;
}

static const sv_kernel_t entry_kernel = {.name = "entry", .soft = entry_body, .is_brief = entry_is_brief};

static void *produce(void *arg)
{
    producer_t *producer = arg;
    for (unsigned i = 0; i < EACH; i++) {
        entry_t entry = {&producer->next, &producer->wrong, i};
        CHECK_STATUS(SV_DEVICE_CALL(producer->dev, launch, &entry_kernel, &entry, sizeof entry, 1, producer->stream),
                     SELVAGE_SUCCESS);
    }
    return NULL;
}

static sv_device_t *open_device(int mode, double gbs)
{
    sv_config_t config = {.soft_mode = mode, .soft_h2d_gbs = gbs};
    sv_device_t *dev = NULL;
    CHECK_STATUS(sv_soft_open(&config, &dev), SELVAGE_SUCCESS);
    if (!dev)
        exit(check_report("soft_small"));
    dev->oversubscribed = true;
    return dev;
}

static void check_producers(int mode)
{
    producer_t producers[PRODUCERS];
    sv_device_t *dev = open_device(mode, 0);
    ran = 0;
    void *stream = NULL;
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_create, &stream), SELVAGE_SUCCESS);
    for (int i = 0; i < PRODUCERS; i++) {
        producers[i] = (producer_t){.dev = dev, .stream = stream};
        CHECK_EQ(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
    }
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(producers[i].thread, NULL);
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, stream), SELVAGE_SUCCESS);
    CHECK_EQ(ran, PRODUCERS * EACH);
    for (int i = 0; i < PRODUCERS; i++) {
        CHECK_EQ(producers[i].next, EACH);
        CHECK_EQ(producers[i].wrong, 0);
    }
    SV_DEVICE_CALL(dev, stream_destroy, stream);
    dev->ops->close(dev);
}

/* Two streams share the link. Whoever took the failed exchange for a success would lose a reservation. */
static void check_link(void)
{
    enum { COPIES = 100, BYTES = 4096 };
    static unsigned char source[COPIES][BYTES], landed[COPIES][BYTES];
    sv_device_t *dev = open_device(SV_CONFIG_SOFT_AUTO, 100);
    void *stream[2];
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(SV_DEVICE_CALL(dev, stream_create, &stream[i]), SELVAGE_SUCCESS);
    for (int i = 0; i < COPIES; i++) {
        memset(source[i], i + 1, BYTES);
        CHECK_STATUS(SV_DEVICE_CALL(dev, copy_async, landed[i], source[i], BYTES, SV_COPY_H2D, stream[i % 2]),
                     SELVAGE_SUCCESS);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, stream[i]), SELVAGE_SUCCESS);
        SV_DEVICE_CALL(dev, stream_destroy, stream[i]);
    }
    CHECK_EQ(memcmp(source, landed, sizeof source), 0);
    dev->ops->close(dev);
}

int main(void)
{
    const int64_t live = sv_memory_live();
#if SOFT_THREADS
    check_producers(SV_CONFIG_SOFT_THREADS);
    check_producers(SV_CONFIG_SOFT_AUTO);
    check_link();
#else
    printf("SKIP: a build without threads\n");
    return CHECK_SKIP;
#endif
    CHECK_EQ(sv_memory_live(), live);
    return check_report("soft_small");
}
