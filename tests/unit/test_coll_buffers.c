/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers of collectives: the device is asked once about each, until the memory there is another allocation's. */
#include <string.h>

#include "fixtures/check.h"
#include "collective/coll_parts.h"

static float memory[64];
static unsigned asked;
static uint64_t allocation;
static sv_memory_kind_t kind;

static sv_memory_kind_t fake_kind(sv_device_t *dev, const void *ptr, size_t bytes)
{
    (void)dev, (void)ptr, (void)bytes;
    asked++;
    return kind;
}

static uint64_t fake_id(sv_device_t *dev, const void *ptr)
{
    (void)dev, (void)ptr;
    return allocation;
}

static selvage_status_t check_buffers(selvage_coll_t *coll)
{
    sv_coll_call_t call = {.call = SV_COLL_ALL_REDUCE, .type = SELVAGE_FLOAT32, .root = -1, .send = memory,
                           .recv = memory, .count = 16};
    return sv_coll_check_buffers(coll, &call);
}

int main(void)
{
    static const sv_device_ops_t ops = {.name = "fake", .memory_kind = fake_kind, .memory_id = fake_id};
    static sv_device_t dev = {.ops = &ops};
    static selvage_comm_t comm;
    static sv_coll_arena_t arena;
    static selvage_coll_t coll;
    comm.dev = &dev;
    coll.comm = &comm;
    coll.arena = &arena;
    coll.size = 2;
    sv_list_init(&arena.windows);
    kind = SV_MEMORY_DEVICE;
    allocation = 7;
    for (int turn = 0; turn < 3; turn++)
        CHECK_STATUS(check_buffers(&coll), SELVAGE_SUCCESS);
    CHECK_EQ(asked, 1);
    /* freed, and given out again as what no device reaches */
    allocation = 8;
    kind = SV_MEMORY_PAGEABLE;
    CHECK_STATUS(check_buffers(&coll), SELVAGE_ERR_ARGUMENT);
    CHECK_EQ(asked, 2);
    /* a device that does not tell is asked each time */
    allocation = 0;
    kind = SV_MEMORY_DEVICE;
    asked = 0;
    CHECK_STATUS(check_buffers(&coll), SELVAGE_SUCCESS);
    CHECK(asked >= 1);
    kind = SV_MEMORY_PAGEABLE;
    CHECK_STATUS(check_buffers(&coll), SELVAGE_ERR_ARGUMENT);
    return check_report("test_coll_buffers");
}
