/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selvage_reduce_local(): each type by each operation that it has, of blocks near and far from each other, on the
 * device that SELVAGE_DEVICE says, against a reference in plain C, bit for bit; no byte beside the result is written,
 * nor any in the gaps of elements; and calls that are refused.
 */
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <selvage.h>

#include "fixtures/check.h"
#include "fixtures/fold_reference.h"

enum { BLOCKS = 5, COUNT = 1037, ROOM = BLOCKS * (COUNT * 16 + 64) };

static selvage_device_t *dev;
static uint8_t *host, *seen, *wanted, *memory, *result;

static void copy(void *to, const void *from, size_t bytes, selvage_copy_t direction)
{
    CHECK_STATUS(selvage_device_copy(dev, to, from, bytes, direction, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(dev, NULL), SELVAGE_SUCCESS);
}

static bool has(selvage_type_t type, selvage_op_t op)
{
    const bool number = (type >= SELVAGE_INT8 && type <= SELVAGE_UINT64) || type == SELVAGE_FLOAT32 ||
                        type == SELVAGE_FLOAT64;
    return op != SELVAGE_OP_AVG && (fold_goes_with(type, op) || (number && op <= SELVAGE_OP_MAX));
}

/* slack: bytes by which blocks are further apart than they are long. in_place: the result takes the last block's. */
static void reduce(selvage_type_t type, selvage_op_t op, int blocks, size_t count, size_t slack, bool in_place)
{
    const size_t each = selvage_type_bytes(type), align = fold_type_align(type);
    const size_t pitch = (count * each + slack + align - 1) / align * align;
    uint8_t *to = in_place ? memory + (size_t)(blocks - 1) * pitch : result + (slack ? align : 0);
    uint8_t *at = in_place ? host + (size_t)(blocks - 1) * pitch : host;
    memset(host, 0x5a, ROOM);
    for (int b = 0; b < blocks; b++)
        for (size_t i = 0; i < count; i++)
            fold_element(type, b, i, host + (size_t)b * pitch + i * each);
    copy(memory, host, ROOM, SELVAGE_COPY_HOST_TO_DEVICE);
    if (in_place) {
        memcpy(wanted, host, ROOM);
    } else {
        memset(wanted, 0x77, ROOM);
        copy(result, wanted, ROOM, SELVAGE_COPY_HOST_TO_DEVICE);
        at = wanted + (to - result);
    }
    if (in_place)
        at = wanted + (at - host);
    for (size_t i = 0; i < count; i++)
        fold_result(type, op, blocks, i, at + i * each);
    CHECK_STATUS(selvage_reduce_local(dev, memory, pitch, blocks, to, count, type, op, NULL), SELVAGE_SUCCESS);
    copy(seen, in_place ? memory : result, ROOM, SELVAGE_COPY_DEVICE_TO_HOST);
    size_t first = 0;
    while (first < ROOM && seen[first] == wanted[first])
        first++;
    if (first < ROOM)
        fprintf(stderr, "%s, operation %d, %d blocks of %zu: byte %zu is %d, not %d\n", selvage_type_name(type), op,
                blocks, count, first, seen[first], wanted[first]);
    CHECK_EQ(first, ROOM);
}

static void test_all(void)
{
    const size_t counts[] = {1, 3, 16, COUNT};
    for (int type = SELVAGE_INT8; type <= SELVAGE_FLOAT64_FLOAT64; type++)
        for (selvage_op_t op = SELVAGE_OP_SUM; op <= SELVAGE_OP_MAXLOC; op++) {
            if (!has((selvage_type_t)type, op)) {
                CHECK_STATUS(selvage_reduce_local(dev, memory, 1024, 2, result, 1, (selvage_type_t)type, op, NULL),
                             SELVAGE_ERR_UNSUPPORTED);
                continue;
            }
            for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++) {
                reduce((selvage_type_t)type, op, BLOCKS, counts[i], 0, false);
                reduce((selvage_type_t)type, op, 2, counts[i], 5, false);
                reduce((selvage_type_t)type, op, 3, counts[i], 16, true);
            }
            reduce((selvage_type_t)type, op, 1, COUNT, 0, false);
        }
}

static selvage_status_t sum(const void *blocks, size_t stride, int nblocks, void *to, size_t count)
{
    return selvage_reduce_local(dev, blocks, stride, nblocks, to, count, SELVAGE_FLOAT64, SELVAGE_OP_SUM, NULL);
}

static void test_refused(void)
{
    CHECK_STATUS(sum(memory, 64, 2, result, 0), SELVAGE_SUCCESS);
    CHECK_STATUS(sum(NULL, 64, 2, result, 8), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(sum(memory, 64, 2, NULL, 8), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(sum(memory + 4, 64, 2, result, 8), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(sum(memory, 68, 2, result, 8), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(sum(memory, 64, 0, result, 8), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(sum(memory, 64, 2, memory + 8, 8), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(sum(memory, 64, 2, memory + 64, 8), SELVAGE_SUCCESS);
    CHECK_STATUS(sum(memory, 64, 2, result, SIZE_MAX / 2), SELVAGE_ERR_LIMIT);
    /* The second one's last block begins at a multiple of 2^64 from the first: at the first. */
    CHECK_STATUS(sum(memory, (size_t)1 << 37, INT_MAX, result, 8), SELVAGE_ERR_LIMIT);
    CHECK_STATUS(sum(memory, (size_t)1 << 34, (1 << 30) + 1, result, 8), SELVAGE_ERR_LIMIT);
    CHECK_STATUS(selvage_reduce_local(NULL, memory, 64, 2, result, 8, SELVAGE_FLOAT64, SELVAGE_OP_SUM, NULL),
                 SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_reduce_local(dev, memory, 64, 2, result, 8, SELVAGE_TYPE_DEFAULT, SELVAGE_OP_SUM, NULL),
                 SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_reduce_local(dev, memory, 64, 2, result, 8, SELVAGE_FLOAT64, 99, NULL),
                 SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_stream_synchronize(dev, NULL), SELVAGE_SUCCESS);
}

int main(void)
{
    void *first, *second;
    if (selvage_device_open(NULL, &dev) != SELVAGE_SUCCESS)
        return CHECK_SKIP;
    CHECK_STATUS(selvage_device_malloc(dev, ROOM, &first), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(dev, ROOM, &second), SELVAGE_SUCCESS);
    memory = first, result = second;
    host = malloc(ROOM), seen = malloc(ROOM), wanted = malloc(ROOM);
    test_all();
    test_refused();
    free(host), free(seen), free(wanted);
    selvage_device_free(dev, first);
    selvage_device_free(dev, second);
    selvage_device_close(dev);
    return check_report("test_reduce_local");
}
