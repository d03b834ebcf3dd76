/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans of many small pieces on the device that SELVAGE_DEVICE names: with and without a table, whole and in parts that
 * begin and end at any byte, against loops over the runs of the map, with every byte around both sides looked at. And
 * what a plan costs the device: with a table one launch for each list, whatever the number of its pieces, and never an
 * allocation or a wait. And which plans say the same.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base_config.h"
#include "base/base_thread.h"
#include "fixtures/check.h"
#include "kernels/kernels.h"
#include "pipeline/pipe_pack.h"

enum { SIDE_BYTES = 1 << 18, GUARD = 64, CASES = 300, PLANS = 200, MANY = 20000 };

static struct {
    sv_device_t *dev;
    void *stream;
    uint8_t *memory, *memory_image, *packed, *wanted, *table; /* all but the first pinned, or plain */
    size_t table_bytes;
    sv_device_ops_t counted;
    const sv_device_ops_t *real;
    int launches, copies, others;
} bench;

static unsigned choose(unsigned n)
{
    return (unsigned)rand() / 7 % n;
}

/* --- what the device is asked for --------------------------------------------------------------------------------- */

static selvage_status_t counted_launch(sv_device_t *dev, const sv_kernel_t *kernel, const void *arg, size_t arg_bytes,
                                       unsigned nblocks, void *stream)
{
    bench.launches++;
    return bench.real->launch(dev, kernel, arg, arg_bytes, nblocks, stream);
}

static selvage_status_t counted_copy(sv_device_t *dev, void *dst, const void *src, size_t bytes, sv_copy_kind_t kind,
                                     void *stream)
{
    bench.copies++;
    return bench.real->copy_async(dev, dst, src, bytes, kind, stream);
}

static selvage_status_t counted_malloc(sv_device_t *dev, size_t bytes, void **ptr_out)
{
    bench.others++;
    return bench.real->malloc(dev, bytes, ptr_out);
}

static selvage_status_t counted_host_malloc(sv_device_t *dev, size_t bytes, void **ptr_out)
{
    bench.others++;
    return bench.real->host_malloc(dev, bytes, ptr_out);
}

static selvage_status_t counted_stream_sync(sv_device_t *dev, void *stream)
{
    bench.others++;
    return bench.real->stream_sync(dev, stream);
}

static selvage_status_t counted_device_sync(sv_device_t *dev)
{
    bench.others++;
    return bench.real->device_sync(dev);
}

static void count_calls(void)
{
    bench.real = bench.dev->ops;
    bench.counted = *bench.real;
    bench.counted.launch = counted_launch;
    bench.counted.copy_async = counted_copy;
    bench.counted.malloc = counted_malloc;
    bench.counted.host_malloc = counted_host_malloc;
    bench.counted.stream_sync = counted_stream_sync;
    bench.counted.device_sync = counted_device_sync;
    bench.dev->ops = &bench.counted;
}

static void settle(void)
{
    CHECK_STATUS(bench.real->stream_sync(bench.dev, bench.stream), SELVAGE_SUCCESS);
}

/* --- maps --------------------------------------------------------------------------------------------------------- */

/* Runs in a random order of lengths, some of them repeated, with gaps; now and then one that is long, or many. */
static sv_type_map_t random_map(unsigned unit)
{
    sv_type_map_t map = {0};
    const unsigned pieces = 1 + choose(choose(4) ? 40 : 2000);
    int64_t at = (int64_t)(unit * choose(8));
    for (unsigned i = 0; i < pieces; i++) {
        sv_type_map_t one = {0};
        const uint64_t run = unit * (uint64_t)(1 + choose(choose(9) ? 6 : 20000 / unit));
        const uint64_t steps = choose(5) ? 1 : 1 + choose(5), stride = run + unit * choose(5);
        if (at + (int64_t)(steps * stride) > SIDE_BYTES / 2)
            break;
        CHECK_STATUS(sv_type_map_add_run(&one, 0, run), SELVAGE_SUCCESS);
        CHECK_STATUS(sv_type_map_repeat(&one, steps, (int64_t)stride), SELVAGE_SUCCESS);
        CHECK_STATUS(sv_type_map_add_map(&map, &one, at), SELVAGE_SUCCESS);
        sv_type_map_fini(&one);
        at += (int64_t)(steps * stride) + unit * choose(4);
    }
    return map;
}

static sv_pack_t *plan_of(sv_type_map_t *map, bool with_table)
{
    sv_pack_t *pack = NULL;
    CHECK_STATUS(sv_pack_create(bench.dev, map, &pack), SELVAGE_SUCCESS);
    CHECK(pack->table_bytes <= bench.table_bytes);
    if (with_table && pack->table_bytes > 0)
        sv_pack_write_table(pack, bench.table, bench.table);
    return pack;
}

/* Bytes from to end of the stream between an image of the memory and the stream, one by one. */
static void move_by_host(const sv_pack_t *pack, uint8_t *image, uint8_t *packed, uint64_t from, uint64_t end,
                         bool gathers)
{
    uint64_t at = 0;
    for (size_t i = 0; i < pack->map.npieces; i++) {
        const sv_type_piece_t *piece = &pack->map.pieces[i];
        for (uint64_t run = 0, runs = sv_type_piece_runs(&pack->map, piece); run < runs; run++)
            for (uint64_t b = 0; b < piece->run_bytes; b++, at++) {
                uint8_t *byte = image + sv_type_piece_run_offset(&pack->map, piece, run) + (int64_t)b;
                if (at >= from && at < end)
                    *(gathers ? packed + (at - from) : byte) = *(gathers ? byte : packed + (at - from));
            }
    }
}

static void fill(uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(rand() >> 9);
}

static void copy(void *dst, const void *src, sv_copy_kind_t kind)
{
    CHECK_STATUS(bench.real->copy_async(bench.dev, dst, src, SIDE_BYTES, kind, bench.stream), SELVAGE_SUCCESS);
    settle();
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static void check_gather(const sv_pack_t *pack, uint64_t from, uint64_t bytes, size_t shift, size_t skew)
{
    fill(bench.memory_image, SIDE_BYTES);
    copy(bench.memory, bench.memory_image, SV_COPY_H2D);
    fill(bench.packed, SIDE_BYTES);
    memcpy(bench.wanted, bench.packed, SIDE_BYTES);
    move_by_host(pack, bench.memory_image + GUARD + shift, bench.wanted + GUARD + skew, from, from + bytes, true);
    CHECK_STATUS(sv_pack_gather(pack, bench.memory + GUARD + shift, from, bytes, bench.packed + GUARD + skew,
                                bench.stream), SELVAGE_SUCCESS);
    settle();
    CHECK(memcmp(bench.packed, bench.wanted, SIDE_BYTES) == 0);
}

static void check_scatter(const sv_pack_t *pack, uint64_t from, uint64_t bytes, size_t shift, size_t skew)
{
    fill(bench.memory_image, SIDE_BYTES);
    copy(bench.memory, bench.memory_image, SV_COPY_H2D);
    fill(bench.packed, SIDE_BYTES);
    memcpy(bench.wanted, bench.memory_image, SIDE_BYTES);
    move_by_host(pack, bench.wanted + GUARD + shift, bench.packed + GUARD + skew, from, from + bytes, false);
    CHECK_STATUS(sv_pack_scatter(pack, bench.packed + GUARD + skew, from, bytes, bench.memory + GUARD + shift,
                                 bench.stream), SELVAGE_SUCCESS);
    settle();
    copy(bench.memory_image, bench.memory, SV_COPY_D2H);
    CHECK(memcmp(bench.memory_image, bench.wanted, SIDE_BYTES) == 0);
}

static void test_random_maps(void)
{
    int lists = 0;
    for (int i = 0; i < CASES; i++) {
        sv_type_map_t map = random_map(1u << choose(5));
        sv_pack_t *pack = plan_of(&map, i % 4 != 0);
        const uint64_t all = pack->map.bytes;
        const bool whole = choose(3) == 0;
        const uint64_t from = whole ? 0 : choose((unsigned)all + 1), left = all - from;
        const uint64_t bytes = whole ? all : choose((unsigned)left + 1);
        const size_t shift = choose(3) ? 0 : choose(16), skew = choose(3) ? 0 : choose(16);
        lists += (int)pack->nlists;
        if (choose(2))
            check_gather(pack, from, bytes, shift, skew);
        else
            check_scatter(pack, from, bytes, shift, skew);
        sv_pack_destroy(pack);
    }
    CHECK(lists > CASES / 4);
}

/* Every second number of many; no two plans say the same. */
static sv_type_map_t comb_of(unsigned number, unsigned teeth)
{
    sv_type_map_t map = {0};
    for (unsigned i = 0; i < teeth; i++)
        CHECK_STATUS(sv_type_map_add_run(&map, 8 * i + 4 * (i == number), 4), SELVAGE_SUCCESS);
    return map;
}

static void test_costs(void)
{
    bench.launches = bench.copies = bench.others = 0;
    for (unsigned i = 0; i < PLANS; i++) {
        sv_type_map_t map = comb_of(i + 1, PLANS + 2);
        sv_pack_t *pack = plan_of(&map, true);
        CHECK_STATUS(sv_pack_gather(pack, bench.memory, 0, pack->map.bytes, bench.packed, bench.stream),
                     SELVAGE_SUCCESS);
        settle(); /* the table is that of the next one */
        sv_pack_destroy(pack);
    }
    CHECK_EQ(bench.launches, PLANS);
    CHECK_EQ(bench.copies, 0);
    CHECK_EQ(bench.others, 0);
    /* More groups than blocks; and as many pieces as there are without a table. */
    sv_type_map_t map = comb_of(5, MANY);
    sv_pack_t *pack = plan_of(&map, true);
    check_gather(pack, 3, pack->map.bytes - 10, 0, 0);
    check_scatter(pack, 5, pack->map.bytes - 7, 0, 0);
    CHECK_EQ(bench.launches, PLANS + 2);
    sv_pack_destroy(pack);
    map = comb_of(5, 50);
    pack = plan_of(&map, false);
    CHECK_STATUS(sv_pack_gather(pack, bench.memory, 0, pack->map.bytes, bench.packed, bench.stream), SELVAGE_SUCCESS);
    settle();
    CHECK_EQ(bench.copies, 49); /* two of them touch */
    sv_pack_destroy(pack);
}

/* A plan says where bytes lie, and not how that was told. */
static void test_equal(void)
{
    sv_type_map_t maps[4] = {comb_of(7, 30), comb_of(7, 30), comb_of(8, 30), {0}};
    sv_type_map_t head = comb_of(7, 20), tail = comb_of(30, 10);
    sv_pack_t *pack[4];
    CHECK_STATUS(sv_type_map_add_map(&maps[3], &head, 0), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_type_map_add_map(&maps[3], &tail, 160), SELVAGE_SUCCESS);
    sv_type_map_fini(&head);
    sv_type_map_fini(&tail);
    for (int i = 0; i < 4; i++)
        pack[i] = plan_of(&maps[i], false);
    CHECK(sv_pack_is_equal(pack[0], pack[1]) && sv_pack_digest(pack[0]) == sv_pack_digest(pack[1]));
    CHECK(!sv_pack_is_equal(pack[0], pack[2]) && sv_pack_digest(pack[0]) != sv_pack_digest(pack[2]));
    CHECK(sv_pack_is_equal(pack[0], pack[3]) && sv_pack_digest(pack[0]) == sv_pack_digest(pack[3]));
    pack[1]->dev = NULL; /* of another device */
    CHECK(!sv_pack_is_equal(pack[0], pack[1]) && sv_pack_digest(pack[0]) != sv_pack_digest(pack[1]));
    for (int i = 0; i < 4; i++)
        sv_pack_destroy(pack[i]);
}

static const char *variable(void *arg, const char *name)
{
    (void)arg;
    return getenv(name);
}

int main(void)
{
    sv_config_t config;
    sv_thread_binding()->log_level = 0;
    srand(2718);
    CHECK_STATUS(sv_config_load(variable, NULL, &config), SELVAGE_SUCCESS);
    if (sv_device_open(NULL, &config, &bench.dev) != SELVAGE_SUCCESS) {
        printf("test_pack_table: %s\n", selvage_error_detail());
        return 1;
    }
    sv_device_t *dev = bench.dev;
    bench.table_bytes = 1 << 20;
    bench.wanted = malloc(SIDE_BYTES);
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_create, &bench.stream), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, malloc, SIDE_BYTES, (void **)&bench.memory), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, host_malloc, SIDE_BYTES, (void **)&bench.memory_image), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, host_malloc, SIDE_BYTES, (void **)&bench.packed), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, host_malloc, bench.table_bytes, (void **)&bench.table), SELVAGE_SUCCESS);
    count_calls();
    test_random_maps();
    test_costs();
    test_equal();
    dev->ops = bench.real;
    SV_DEVICE_CALL(dev, host_free, bench.table);
    SV_DEVICE_CALL(dev, host_free, bench.packed);
    SV_DEVICE_CALL(dev, host_free, bench.memory_image);
    SV_DEVICE_CALL(dev, free, bench.memory);
    SV_DEVICE_CALL(dev, stream_destroy, bench.stream);
    free(bench.wanted);
    dev->ops->close(dev);
    return check_report("test_pack_table");
}
