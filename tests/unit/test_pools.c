/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pool of two staging buffers: who wants a third is told to wait, and gets what the next one puts back. A retired one
 * is never anybody's again, and two of those end the pool. The most that were in use at the same time are counted. A
 * pool that ends before it has all back says so, and one that has them says nothing.
 */
#include <stdlib.h>

#include "base/base_config.h"
#include "base/base_memory.h"
#include "base/base_thread.h"
#include "device/soft/soft_device.h"
#include "fixtures/check.h"
#include "transfer/transfer_pool.h"

enum { BUFFERS = 2, BYTES = 4096, ROUNDS = 1000 };

static sv_topology_t topology = {.near.node = -1};
static sv_device_t *dev;
static int lines;
static char last_line[256];

static void keep_line(void *arg, int level, const char *line)
{
    (void)arg, (void)level;
    lines++;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static void check_two(void)
{
    sv_pinned_pool_t pool;
    sv_pinned_t *buffer[BUFFERS] = {NULL}, *more = NULL;
    sv_pinned_pool_init(&pool, dev, &topology, BYTES, BUFFERS);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BUFFERS; i++) {
            CHECK_STATUS(sv_pinned_take(&pool, BUFFERS, &buffer[i]), SELVAGE_SUCCESS);
            memset(buffer[i]->bytes, i + 1, BYTES);
        }
        CHECK(buffer[0] != buffer[1] && buffer[0]->bytes[BYTES - 1] == 1 && buffer[1]->bytes[0] == 2);
        CHECK_STATUS(sv_pinned_take(&pool, BUFFERS, &more), SELVAGE_IN_PROGRESS);
        CHECK_STATUS(sv_pinned_take(&pool, BUFFERS + 1, &more), SELVAGE_IN_PROGRESS); /* the pool's own bound */
        CHECK(more == NULL);
        sv_pinned_put(&pool, buffer[round % BUFFERS]);
        CHECK_STATUS(sv_pinned_take(&pool, BUFFERS, &more), SELVAGE_SUCCESS);
        CHECK(more == buffer[round % BUFFERS]);
        for (int i = 0; i < BUFFERS; i++)
            sv_pinned_put(&pool, buffer[i]);
        more = NULL;
    }
    CHECK_EQ(pool.used, 0);
    CHECK_EQ(pool.most_used, BUFFERS);
    sv_pinned_pool_close(&pool, false);
    CHECK_EQ(lines, 0);
}

static void check_retired(void)
{
    sv_pinned_pool_t pool;
    sv_pinned_t *buffer = NULL, *more = NULL;
    sv_pinned_pool_init(&pool, dev, &topology, BYTES, BUFFERS);
    CHECK_STATUS(sv_pinned_take(&pool, BUFFERS, &buffer), SELVAGE_SUCCESS);
    sv_pinned_retire(&pool, buffer);
    CHECK_STATUS(sv_pinned_take(&pool, BUFFERS, &more), SELVAGE_SUCCESS);
    CHECK(more != buffer);
    CHECK_STATUS(sv_pinned_take(&pool, BUFFERS, &buffer), SELVAGE_IN_PROGRESS); /* more may come back */
    sv_pinned_retire(&pool, more);
    CHECK_STATUS(sv_pinned_take(&pool, BUFFERS, &buffer), SELVAGE_ERR_LIMIT); /* and now nobody has any */
    sv_pinned_pool_close(&pool, false);
}

static void check_lost(void)
{
    sv_pinned_pool_t pool;
    sv_pinned_t *buffer = NULL;
    sv_pinned_pool_init(&pool, dev, &topology, BYTES, BUFFERS);
    CHECK_STATUS(sv_pinned_take(&pool, BUFFERS, &buffer), SELVAGE_SUCCESS);
    lines = 0;
    sv_pinned_pool_close(&pool, false);
    CHECK_EQ(lines, 1);
    CHECK(strstr(last_line, "1 staging buffers of 4096 bytes were not given back") != NULL);
    SV_DEVICE_CALL(dev, host_free, buffer->bytes);
    sv_free(buffer);
}

int main(void)
{
    const int64_t live = sv_memory_live();
    const sv_config_t config = {.soft_mode = SV_CONFIG_SOFT_INLINE};
    sv_thread_binding()->sink = keep_line;
    CHECK_STATUS(sv_soft_open(&config, &dev), SELVAGE_SUCCESS);
    if (!dev)
        return check_report("pools");
    check_two();
    check_retired();
    check_lost();
    dev->ops->close(dev);
    CHECK_EQ(sv_memory_live(), live);
    return check_report("pools");
}
