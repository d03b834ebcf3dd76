/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of dropin_unmodified that has more and more messages outstanding, short and long, and counts how often
 * memory is pinned and released for that: while the pool grows, and never again. What the pool has no room for comes
 * right as well.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for RTLD_NEXT */
#endif
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "fixtures/check.h"
#include "dropin_unmodified.h"

enum { WINDOW_MAX = 256, ALL_BYTES = 16 << 20, STEPS = 2, PASSES = 2, PINNED_MAX = 24 };

static _Atomic int pinned, released;
static _Atomic size_t pinned_bytes;

/* In place of the library's, also for the drop-in. */
selvage_status_t selvage_device_host_malloc(selvage_device_t *dev, size_t bytes, void **ptr_out)
{
    selvage_status_t (*real)(selvage_device_t *device, size_t bytes, void **ptr_out);
    void *found = dlsym(RTLD_NEXT, "selvage_device_host_malloc");
    memcpy(&real, &found, sizeof real);
    atomic_fetch_add(&pinned, 1);
    atomic_fetch_add(&pinned_bytes, bytes);
    return real(dev, bytes, ptr_out);
}

void selvage_device_host_free(selvage_device_t *dev, void *ptr)
{
    void (*real)(selvage_device_t *device, void *ptr);
    void *found = dlsym(RTLD_NEXT, "selvage_device_host_free");
    memcpy(&real, &found, sizeof real);
    atomic_fetch_add(&released, 1);
    real(dev, ptr);
}

static uint8_t byte_at(const uint8_t *memory)
{
    uint8_t *seen = the.pinned;
    selvage_device_copy(the.device, seen, memory, 1, SELVAGE_COPY_DEVICE_TO_HOST, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
    return *seen;
}

/* All at once; every second one is a column of twice as many bytes. */
static void exchange(uint8_t *out, uint8_t *in, int window, size_t bytes, int value)
{
    MPI_Request request[2 * WINDOW_MAX];
    MPI_Datatype column;
    MPI_Type_vector((int)bytes / 512, 256, 512, MPI_BYTE, &column); /* half of the bytes */
    MPI_Type_commit(&column);
    selvage_device_fill(the.device, out, value, (size_t)window * bytes, the.stream);
    selvage_device_fill(the.device, in, 255, (size_t)window * bytes, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
    for (int i = 0; i < window; i++)
        MPI_Irecv(in + (size_t)i * bytes, i % 2 ? 1 : (int)bytes, i % 2 ? column : MPI_BYTE, the.left, i,
                  MPI_COMM_WORLD, &request[i]);
    for (int i = 0; i < window; i++)
        MPI_Isend(out + (size_t)i * bytes, i % 2 ? 1 : (int)bytes, i % 2 ? column : MPI_BYTE, the.right, i,
                  MPI_COMM_WORLD, &request[window + i]);
    MPI_Waitall(2 * window, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < window; i += 1 + window / 4) {
        const uint8_t *block = in + (size_t)i * bytes;
        CHECK_EQ(byte_at(block), value);
        CHECK_EQ(byte_at(block + bytes - 257), value);
        CHECK_EQ(byte_at(block + bytes - 1), i % 2 ? 255 : value);
    }
    MPI_Type_free(&column);
}

static void pass_windows(uint8_t *out, uint8_t *in)
{
    static const struct { int window; size_t bytes; } cases[] = {
        {1, 64 << 10}, {16, 64 << 10}, {256, 64 << 10}, {1, 2 << 20}, {8, 2 << 20}, {1, 8 << 20}, {2, 8 << 20}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int step = 0; step < STEPS; step++)
            exchange(out, in, cases[i].window, cases[i].bytes, 10 * (int)i + step);
}

/* So many numbers at once, whose headers alone would take more than is pinned first. */
static void exchange_numbers(uint8_t *out, uint8_t *in)
{
    enum { NUMBERS = 10000, EACH = 8, MOST = 5 << 20 };
    static MPI_Request request[2 * NUMBERS];
    const size_t before = pinned_bytes;
    const int numbers = check_part(NUMBERS);
    for (int turn = 0; turn < 2; turn++) {
        selvage_device_fill(the.device, out, 3 + turn, (size_t)numbers * EACH, the.stream);
        selvage_device_fill(the.device, in, 255, (size_t)numbers * EACH, the.stream);
        selvage_stream_synchronize(the.device, the.stream);
        for (int i = 0; i < numbers; i++)
            MPI_Irecv(in + i * EACH, 1 + i % EACH, MPI_BYTE, the.left, i, MPI_COMM_WORLD, &request[i]);
        for (int i = 0; i < numbers; i++)
            MPI_Isend(out + i * EACH, 1 + i % EACH, MPI_BYTE, the.right, i, MPI_COMM_WORLD, &request[numbers + i]);
        MPI_Waitall(2 * numbers, request, MPI_STATUSES_IGNORE);
        for (int i = 0; i < numbers; i += 997) {
            CHECK_EQ(byte_at(in + i * EACH), 3 + turn);
            CHECK_EQ(byte_at(in + i * EACH + i % EACH), 3 + turn);
            CHECK_EQ(byte_at(in + i * EACH + EACH - 1), i % EACH == EACH - 1 ? 3 + turn : 255);
        }
    }
    printf("rank %d: %zu bytes were pinned for numbers\n", the.rank, pinned_bytes - before);
    CHECK(pinned_bytes - before <= MOST);
}

/* Thousands of messages, and a few times at most that anything is pinned. */
void run_pinned(void)
{
    uint8_t *out = device_bytes(ALL_BYTES), *in = device_bytes(ALL_BYTES);
    const int before = pinned;
    exchange_numbers(out, in);
    for (int pass = 0; pass < PASSES; pass++)
        pass_windows(out, in);
    printf("rank %d: memory was pinned %d times, released %d times\n", the.rank, pinned - before, released);
    CHECK(pinned - before > 0 && pinned - before <= PINNED_MAX && released <= PINNED_MAX);
    selvage_device_free(the.device, out);
    selvage_device_free(the.device, in);
}
