/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies up of every short length, and of lengths where the way of a copy changes, bring all their bytes and no others,
 * whether the GPU is shared or not. On the device that SELVAGE_DEVICE names.
 */
#include <selvage.h>
#include <stdint.h>

#include "fixtures/check.h"

enum { MOST = 80 << 10, GUARD = 64, PLACES = 4 };

static uint8_t byte_at(size_t bytes, size_t i)
{
    return (uint8_t)(i * 7 + bytes * 3 + 1);
}

/* Copies bytes up to an address so many bytes after an aligned one, and the neighbourhood down again. */
static void copy_up(selvage_device_t *dev, uint8_t *device, uint8_t *up, uint8_t *down, size_t bytes, size_t offset)
{
    const size_t all = bytes + 2 * GUARD;
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; i++)
        up[offset + i] = byte_at(bytes, i);
    CHECK_STATUS(selvage_device_fill(dev, device, 0xa5, all + PLACES, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_copy(dev, device + GUARD + offset, up + offset, bytes, SELVAGE_COPY_HOST_TO_DEVICE,
                                     NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_copy(dev, down, device + offset, all, SELVAGE_COPY_DEVICE_TO_HOST, NULL),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(dev, NULL), SELVAGE_SUCCESS);
    for (size_t i = 0; i < all; i++)
        wrong += down[i] != (i < GUARD || i >= GUARD + bytes ? 0xa5 : byte_at(bytes, i - GUARD));
    CHECK_EQ(wrong, 0);
}

static void check_lengths(const char *shared)
{
    static const size_t lengths[] = {12287, 12288, 12289, 16001, 16384, 28671, 28672, 28673, 65537};
    selvage_device_t *dev = NULL;
    void *device = NULL, *up = NULL, *down = NULL;
    setenv("SELVAGE_GPU_SHARED", shared, 1);
    CHECK_STATUS(selvage_device_open(NULL, &dev), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(dev, MOST, &device), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_host_malloc(dev, MOST, &up), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_host_malloc(dev, MOST, &down), SELVAGE_SUCCESS);
    for (size_t bytes = 1; device && up && down && bytes <= 130; bytes++)
        copy_up(dev, device, up, down, bytes, bytes % PLACES);
    for (size_t i = 0; device && up && down && i < sizeof lengths / sizeof lengths[0]; i++)
        for (size_t offset = 0; offset < PLACES; offset++)
            copy_up(dev, device, up, down, lengths[i], offset);
    selvage_device_host_free(dev, down);
    selvage_device_host_free(dev, up);
    selvage_device_free(dev, device);
    selvage_device_close(dev);
}

int main(void)
{
    check_lengths("on");
    check_lengths("off");
    return check_report("test_device_copies");
}
