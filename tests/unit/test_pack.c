/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packing and unpacking on the device that SELVAGE_DEVICE names: random boxes against loops over their elements,
 * digests against the reference, in one part and in several, with every byte around both sides looked at. And what the
 * plan makes of a shape, up to sizes that no test could allocate.
 */
#include <stdlib.h>

#include "base/base_config.h"
#include "base/base_thread.h"
#include "fixtures/check.h"
#include "kernels/kernels.h"
#include "kernels/pack_plan.h"

enum { GRID_BYTES = 1 << 17, GUARD = 64, STREAM_BYTES = GRID_BYTES + 2 * GUARD, CASES = 400 };

/* Device memory, and a pinned image of each for the way there and back. */
static struct {
    sv_device_t *dev;
    void *stream;
    uint8_t *grid, *packed, *grid_image, *packed_image;
    sv_digest_scratch_t *scratch;
    sv_digest_scratch_t *scratch_image;
    uint8_t *record; /* pinned */
    sv_verify_result_t *result;
} bench;

static uint8_t grid_before[GRID_BYTES], wanted[STREAM_BYTES];

static unsigned pick(unsigned n)
{
    return (unsigned)rand() / 7 % n;
}

static void device_copy(void *dst, const void *src, size_t bytes, sv_copy_kind_t kind)
{
    CHECK_STATUS(SV_DEVICE_CALL(bench.dev, copy_async, dst, src, bytes, kind, bench.stream), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(bench.dev, stream_sync, bench.stream), SELVAGE_SUCCESS);
}

static void upload(void)
{
    device_copy(bench.grid, bench.grid_image, GRID_BYTES, SV_COPY_H2D);
    device_copy(bench.packed, bench.packed_image, STREAM_BYTES, SV_COPY_H2D);
}

static void download(void)
{
    device_copy(bench.grid_image, bench.grid, GRID_BYTES, SV_COPY_D2H);
    device_copy(bench.packed_image, bench.packed, STREAM_BYTES, SV_COPY_D2H);
    device_copy(bench.scratch_image, bench.scratch, sizeof *bench.scratch, SV_COPY_D2H);
    CHECK(bench.scratch_image->sum == 0 && bench.scratch_image->blocks_done == 0);
}

static void fill_random(uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(rand() >> 9);
}

/* Calls visit(byte in the grid, byte in the stream) for every byte of the box, in declared order. */
static void for_each_byte(const sv_pack_shape_t *shape, void (*visit)(uint8_t *grid, uint8_t *packed), uint8_t *packed)
{
    uint64_t at[SV_PACK_DIMS] = {0}, bytes = 0;
    unsigned d = 0;
    sv_pack_bytes(shape, &bytes);
    for (uint64_t done = 0; done < bytes; done += shape->element_bytes) {
        uint8_t *element = bench.grid_image + (shape->base - bench.grid);
        for (d = 0; d < shape->ndims; d++)
            element += (int64_t)at[d] * shape->dim[d].stride_bytes;
        for (uint64_t b = 0; b < shape->element_bytes; b++)
            visit(element + b, packed++);
        for (d = 0; d < shape->ndims && ++at[d] == shape->dim[d].count; d++)
            at[d] = 0;
    }
}

static void take_byte(uint8_t *grid, uint8_t *packed)
{
    *packed = *grid;
}

static void put_byte(uint8_t *grid, uint8_t *packed)
{
    *grid = *packed;
}

/*
 * A box with gaps: dimensions lie in memory in a random order, forwards or backwards, and every distance is a multiple
 * of unit. Its addresses stay inside the grid.
 */
static sv_pack_shape_t random_shape(unsigned unit)
{
    sv_pack_shape_t shape = {.ndims = pick(SV_PACK_DIMS + 1)};
    unsigned order[SV_PACK_DIMS] = {0, 1, 2, 3};
    uint64_t low = 0, extent;

    shape.element_bytes = unit * (1 + pick(64 / unit));
    extent = shape.element_bytes;
    for (unsigned d = 0; d + 1 < shape.ndims && pick(3) == 0; d++) {
        unsigned other = d + pick(shape.ndims - d), kept = order[d];
        order[d] = order[other];
        order[other] = kept;
    }
    for (unsigned d = 0; d < shape.ndims; d++) {
        sv_pack_dim_t *dim = &shape.dim[order[d]];
        uint64_t stride = extent + (pick(2) ? unit * pick(8) : 0);
        dim->count = pick(25) == 0 ? 0 : 1 + pick(pick(6) ? 6 : 40);
        dim->stride_bytes = pick(4) ? (int64_t)stride : -(int64_t)stride;
        if (dim->count > 0 && stride * dim->count < GRID_BYTES / 2) {
            low += dim->stride_bytes < 0 ? stride * (dim->count - 1) : 0;
            extent = stride * dim->count;
        } else {
            dim->count = dim->count > 0;
        }
    }
    shape.base = bench.grid + low + (uint64_t)unit * pick(8);
    return shape;
}

static sv_record_t identity_of(uint64_t bytes)
{
    return (sv_record_t){.magic = SV_RECORD_MAGIC, .version = SV_RECORD_VERSION, .kind = SV_RECORD_PACKET,
                         .epoch = 3, .exchange = 7, .index = 5, .tag = 6, .destination = 1, .bytes = bytes,
                         .salt = 5 + UINT64_C(6000)};
}

static sv_pack_arg_t argument_of(uint64_t bytes)
{
    sv_pack_arg_t arg = {.scratch = bench.scratch, .record = bench.record, .result = bench.result,
                         .identity = identity_of(bytes)};
    arg.key = sv_digest_key(&arg.identity);
    return arg;
}

/* All of a stream in one pass, or in parts of any multiple of 8. */
static void run(const sv_kernel_t *kernel, const sv_pack_shape_t *shape, uint8_t *packed, uint64_t bytes, uint32_t mode)
{
    sv_pack_arg_t arg = argument_of(bytes);
    uint64_t done = 0, part;
    bool split = pick(2);

    do {
        part = split && bytes - done > 16 ? 8 + (bytes - done) / (1 + pick(4)) / 8 * 8 : bytes - done;
        part = part < bytes - done ? part : bytes - done;
        CHECK_STATUS(sv_pack_plan(shape, packed ? packed + done : NULL, done, part, &arg), SELVAGE_SUCCESS);
        arg.mode = done + part == bytes ? mode : SV_DIGEST_ADD | (mode & SV_DIGEST_NONE);
        CHECK_STATUS(SV_DEVICE_CALL(bench.dev, launch, kernel, &arg, sizeof arg, 1 + pick(5), bench.stream),
                     SELVAGE_SUCCESS);
        done += part;
    } while (done < bytes);
    CHECK_STATUS(SV_DEVICE_CALL(bench.dev, stream_sync, bench.stream), SELVAGE_SUCCESS);
}

static uint64_t digest_of_wanted(unsigned offset, uint64_t bytes)
{
    sv_record_t identity = identity_of(bytes);
    uint64_t key = sv_digest_key(&identity);
    return sv_digest_finish(key, sv_digest_sum(key, 0, wanted + offset, bytes));
}

static void check_record(uint64_t bytes, uint64_t digest)
{
    sv_record_t record, identity = identity_of(bytes);

    memcpy(&record, bench.record, sizeof record);
    CHECK(record.digest == digest);
    record.digest = 0;
    CHECK(memcmp(&record, &identity, sizeof record) == 0);
}

/* After this, wanted holds the packed stream at the offset. */
static void check_pack(const sv_pack_shape_t *shape, unsigned offset, uint64_t bytes)
{
    fill_random(bench.grid_image, GRID_BYTES);
    memcpy(grid_before, bench.grid_image, GRID_BYTES);
    memset(bench.packed_image, 0xa5, STREAM_BYTES);
    memset(wanted, 0xa5, STREAM_BYTES);
    for_each_byte(shape, take_byte, wanted + offset);
    upload();
    run(&sv_kernel_pack, shape, bench.packed + offset, bytes, SV_DIGEST_PREPARE);
    download();
    CHECK(memcmp(bench.packed_image, wanted, STREAM_BYTES) == 0);
    CHECK(memcmp(bench.grid_image, grid_before, GRID_BYTES) == 0);
    check_record(bytes, digest_of_wanted(offset, bytes));
    /* The same digest of a box that is not stored anywhere. */
    memset(bench.record, 0, SV_RECORD_BYTES);
    run(&sv_kernel_pack, shape, NULL, bytes, SV_DIGEST_PREPARE);
    check_record(bytes, digest_of_wanted(offset, bytes));
}

/* From the stream that check_pack() left, and its record, into a grid of other bytes. */
static void check_unpack(const sv_pack_shape_t *shape, unsigned offset, uint64_t bytes, bool summed)
{
    fill_random(bench.grid_image, GRID_BYTES);
    memcpy(bench.packed_image, wanted, STREAM_BYTES);
    upload();
    for_each_byte(shape, put_byte, wanted + offset);
    memcpy(grid_before, bench.grid_image, GRID_BYTES);
    memset(bench.result, 0xff, sizeof *bench.result);
    run(&sv_kernel_unpack, shape, bench.packed + offset, bytes, SV_DIGEST_VERIFY | (summed ? 0 : SV_DIGEST_NONE));
    download();
    CHECK(memcmp(bench.grid_image, grid_before, GRID_BYTES) == 0);
    CHECK(memcmp(bench.packed_image, wanted, STREAM_BYTES) == 0);
    CHECK(bench.result->record_ok == 1 && bench.result->verified == 1);
    CHECK(bench.result->found == (summed ? digest_of_wanted(offset, bytes) : 0));
}

/* One wrong byte, only looked at. */
static void check_damage(const sv_pack_shape_t *shape, unsigned offset, uint64_t bytes)
{
    sv_pack_shape_t nowhere = *shape;

    nowhere.base = NULL;
    run(&sv_kernel_unpack, &nowhere, bench.packed + offset, bytes, SV_DIGEST_VERIFY);
    CHECK(bench.result->verified == 1);
    if (bytes == 0)
        return;
    bench.packed_image[offset + pick((unsigned)bytes)] ^= 0x20;
    upload();
    run(&sv_kernel_unpack, &nowhere, bench.packed + offset, bytes, SV_DIGEST_VERIFY);
    CHECK(bench.result->record_ok == 1 && bench.result->verified == 0);
    download();
    CHECK(memcmp(bench.grid_image, grid_before, GRID_BYTES) == 0);
}

static void test_random_boxes(void)
{
    unsigned granules = 0, levels = 0;

    for (unsigned i = 0; i < CASES; i++) {
        sv_pack_shape_t shape = random_shape(1u << i % 5);
        unsigned offset = GUARD + (pick(2) ? 0 : pick(16));
        uint64_t bytes = 0;
        sv_pack_arg_t arg = {0};
        CHECK_STATUS(sv_pack_bytes(&shape, &bytes), SELVAGE_SUCCESS);
        CHECK(bytes <= GRID_BYTES);
        CHECK_STATUS(sv_pack_plan(&shape, bench.packed + offset, 0, bytes, &arg), SELVAGE_SUCCESS);
        granules |= bytes ? arg.granule : 0;
        levels |= 1u << arg.levels;
        check_pack(&shape, offset, bytes);
        check_unpack(&shape, offset, bytes, i % 3 != 0);
        check_damage(&shape, offset, bytes);
    }
    CHECK_EQ(granules, 31);
    CHECK_EQ(levels, 31);
}

/* Where a unit lies, computed as the kernels do. */
static int64_t place_of(const sv_pack_arg_t *arg, uint32_t unit)
{
    int64_t place = 0;

    for (unsigned l = 0; l < arg->levels; l++) {
        uint32_t above = (uint32_t)((uint64_t)unit * arg->level[l].magic >> 32) >> arg->shift[l];
        place += (int64_t)(unit - above * arg->level[l].count) * arg->level[l].stride;
        unit = above;
    }
    return place + (int64_t)unit * arg->top_stride;
}

/* The quotient and the remainder that the kernels get, by the level that a plan makes for a dimension. */
static void check_division(uint32_t divisor, uint64_t number)
{
    sv_pack_shape_t shape = {.element_bytes = 8, .ndims = 2, .dim = {{divisor, 24}, {1u << 29, INT64_C(1) << 40}}};
    sv_pack_arg_t plan = {0};

    if (number >> 31)
        return;
    CHECK_STATUS(sv_pack_plan(&shape, NULL, 0, 8, &plan), SELVAGE_SUCCESS);
    CHECK_EQ(plan.levels, 1);
    plan.level[0].stride = 1;
    plan.top_stride = INT64_C(1) << 32;
    CHECK_EQ(place_of(&plan, (uint32_t)number), (int64_t)(number % divisor + (number / divisor << 32)));
}

static void test_division(void)
{
    for (unsigned i = 0; i < 30000; i++) {
        uint32_t divisor = i < 4000 ? i + 2 : (((uint32_t)rand() << 9 ^ (uint32_t)rand()) & 0x7fffffff) >> pick(30);
        if (divisor < 2)
            continue;
        uint64_t multiple = (uint64_t)divisor * pick(0x7fffffffu / divisor + 1);
        check_division(divisor, multiple);
        check_division(divisor, multiple + divisor - 1);
        check_division(divisor, multiple + pick(divisor));
        check_division(divisor, 0x7fffffff);
    }
}

/* A lattice of 2^40 bytes: parts far inside it are found. */
static void test_far_parts(void)
{
    sv_pack_shape_t shape = {.base = (uint8_t *)(uintptr_t)4096, .element_bytes = 24, .ndims = 3,
                             .dim = {{1000, 32}, {1000, 40000}, {40000, 48000000}}};
    sv_pack_arg_t arg = {0};
    uint64_t bytes;

    CHECK_STATUS(sv_pack_bytes(&shape, &bytes), SELVAGE_SUCCESS);
    for (uint64_t element = 77; element < bytes / 24; element = element * 3 + 1) {
        CHECK_STATUS(sv_pack_plan(&shape, NULL, element * 24, 24, &arg), SELVAGE_SUCCESS);
        CHECK_EQ(arg.granule, 8);
        CHECK_EQ(arg.first_word, element * 3);
        for (uint32_t unit = 0; unit < 3; unit++)
            CHECK_EQ((int64_t)(uintptr_t)arg.box + place_of(&arg, arg.first_unit + unit),
                     (int64_t)(4096 + element % 1000 * 32 + element / 1000 % 1000 * 40000 +
                               element / 1000000 * 48000000 + 8 * unit));
    }
}

static void check_refused(const sv_pack_shape_t *shape, uint64_t offset, uint64_t bytes, selvage_status_t wanted_status)
{
    sv_pack_arg_t arg = {.bytes = 4711, .granule = 99};

    CHECK_STATUS(sv_pack_plan(shape, NULL, offset, bytes, &arg), wanted_status);
    CHECK(arg.bytes == 4711 && arg.granule == 99);
}

static void test_refusals(void)
{
    sv_pack_shape_t shape = {.element_bytes = 3, .ndims = 2, .dim = {{5, 3}, {4, 20}}};
    sv_pack_shape_t huge = {.element_bytes = 1, .ndims = 2, .dim = {{UINT64_C(1) << 33, 2}, {3, INT64_C(1) << 40}}};
    uint64_t bytes = 0;

    CHECK_STATUS(sv_pack_bytes(&shape, &bytes), SELVAGE_SUCCESS);
    CHECK_EQ(bytes, 60);
    check_refused(&shape, 4, 8, SELVAGE_ERR_ARGUMENT);
    check_refused(&shape, 8, 53, SELVAGE_ERR_ARGUMENT);
    check_refused(&shape, 64, 0, SELVAGE_ERR_ARGUMENT);
    check_refused(&shape, 0, 12, SELVAGE_ERR_ARGUMENT);
    check_refused(&huge, 0, 8, SELVAGE_ERR_LIMIT);
    huge.dim[0].count = UINT64_C(1) << 30;
    check_refused(&huge, 0, UINT64_C(1) << 31 | 8, SELVAGE_ERR_LIMIT);
    huge.element_bytes = UINT64_C(1) << 62;
    CHECK_STATUS(sv_pack_bytes(&huge, &bytes), SELVAGE_ERR_ARGUMENT);
    huge.dim[1].count = 0;
    CHECK_STATUS(sv_pack_bytes(&huge, &bytes), SELVAGE_SUCCESS);
    CHECK_EQ(bytes, 0);
    shape.ndims = SV_PACK_DIMS + 1;
    CHECK_STATUS(sv_pack_bytes(&shape, &bytes), SELVAGE_ERR_ARGUMENT);
}

/* Rows that touch are one row; the granule is what address, strides and stream allow. */
static void test_merging(void)
{
    sv_pack_shape_t shape = {.base = (uint8_t *)(uintptr_t)1024, .element_bytes = 8, .ndims = 4,
                             .dim = {{10, 8}, {1, 999}, {6, 80}, {7, 480}}};
    sv_pack_arg_t arg = {0};

    CHECK_STATUS(sv_pack_plan(&shape, NULL, 0, 3360, &arg), SELVAGE_SUCCESS);
    CHECK(arg.levels == 0 && arg.granule == 16 && arg.top_stride == 16 && arg.run_units > 210);
    CHECK_STATUS(sv_pack_plan(&shape, (uint8_t *)(uintptr_t)1029, 0, 3360, &arg), SELVAGE_SUCCESS);
    CHECK(arg.levels == 0 && arg.granule == 8);
    CHECK_STATUS(sv_pack_plan(&shape, NULL, 8, 16, &arg), SELVAGE_SUCCESS);
    CHECK(arg.granule == 8 && arg.box == (uint8_t *)(uintptr_t)1032 && arg.first_unit == 0);
    shape.dim[3].stride_bytes = 484;
    CHECK_STATUS(sv_pack_plan(&shape, NULL, 0, 3360, &arg), SELVAGE_SUCCESS);
    CHECK(arg.levels == 1 && arg.granule == 4 && arg.level[0].count == 120 && arg.run_units == 120);
    shape.dim[0].stride_bytes = -8;
    CHECK_STATUS(sv_pack_plan(&shape, NULL, 0, 3360, &arg), SELVAGE_SUCCESS);
    CHECK(arg.levels == 3 && arg.run_units == 2 && arg.level[1].count == 10 && arg.level[2].count == 6);
}

static void allocate(void)
{
    sv_device_t *dev = bench.dev;
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_create, &bench.stream), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, malloc, GRID_BYTES, (void **)&bench.grid), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, malloc, STREAM_BYTES, (void **)&bench.packed), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, malloc, sizeof *bench.scratch, (void **)&bench.scratch), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, host_malloc, GRID_BYTES, (void **)&bench.grid_image), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, host_malloc, STREAM_BYTES, (void **)&bench.packed_image), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, host_malloc, sizeof *bench.scratch, (void **)&bench.scratch_image),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, host_malloc, SV_RECORD_BYTES, (void **)&bench.record), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, host_malloc, sizeof *bench.result, (void **)&bench.result), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, fill_async, bench.scratch, 0, sizeof *bench.scratch, bench.stream),
                 SELVAGE_SUCCESS);
}

static void release(void)
{
    sv_device_t *dev = bench.dev;
    SV_DEVICE_CALL(dev, stream_destroy, bench.stream);
    SV_DEVICE_CALL(dev, free, bench.grid);
    SV_DEVICE_CALL(dev, free, bench.packed);
    SV_DEVICE_CALL(dev, free, bench.scratch);
    SV_DEVICE_CALL(dev, host_free, bench.grid_image);
    SV_DEVICE_CALL(dev, host_free, bench.packed_image);
    SV_DEVICE_CALL(dev, host_free, bench.scratch_image);
    SV_DEVICE_CALL(dev, host_free, bench.record);
    SV_DEVICE_CALL(dev, host_free, bench.result);
    dev->ops->close(dev);
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
    srand(3141);
    CHECK_STATUS(sv_config_load(environment, NULL, &config), SELVAGE_SUCCESS);
    if (sv_device_open(NULL, &config, &bench.dev) != SELVAGE_SUCCESS) {
        printf("test_pack: %s\n", selvage_error_detail());
        return 1;
    }
    test_merging();
    test_refusals();
    test_division();
    test_far_parts();
    allocate();
    test_random_boxes();
    release();
    return check_report("test_pack");
}
