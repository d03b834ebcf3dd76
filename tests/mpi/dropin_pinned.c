/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of dropin_unmodified that has more and more messages outstanding, short and long, and counts how often
 * memory is pinned and released for that: while the pool grows, and never again. What the pool has no room for comes
 * right as well. Another one finds what was used once, and then not for long, given back: pinned memory, and mappings
 * of memory that its neighbour has freed.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for RTLD_NEXT */
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixtures/check.h"
#include "dropin_unmodified.h"

enum { WINDOW_MAX = 256, ALL_BYTES = 16 << 20, STEPS = 2, PASSES = 2, PINNED_MAX = 24 };

enum { BLOCKS_MOST = 4096 };

static _Atomic int pinned, released;
static _Atomic size_t pinned_bytes;
static struct { /* what is pinned now */
    pthread_mutex_t lock;
    struct { void *ptr; size_t bytes; } block[BLOCKS_MOST];
    size_t bytes;
} now = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A block that ends, and one that begins. */
static void note_block(void *ends, void *begins, size_t bytes)
{
    bool noted = false;
    pthread_mutex_lock(&now.lock);
    for (int i = 0; i < BLOCKS_MOST && !noted; i++) {
        noted = now.block[i].ptr == ends;
        if (!noted)
            continue;
        now.bytes += bytes - (ends ? now.block[i].bytes : 0);
        now.block[i].ptr = begins;
        now.block[i].bytes = bytes;
    }
    pthread_mutex_unlock(&now.lock);
    CHECK(noted);
}

static size_t bytes_pinned_now(void)
{
    pthread_mutex_lock(&now.lock);
    const size_t bytes = now.bytes;
    pthread_mutex_unlock(&now.lock);
    return bytes;
}

/* In place of the library's, also for the drop-in. */
selvage_status_t selvage_device_host_malloc(selvage_device_t *dev, size_t bytes, void **ptr_out)
{
    selvage_status_t (*real)(selvage_device_t *device, size_t bytes, void **ptr_out);
    void *found = dlsym(RTLD_NEXT, "selvage_device_host_malloc");
    memcpy(&real, &found, sizeof real);
    atomic_fetch_add(&pinned, 1);
    atomic_fetch_add(&pinned_bytes, bytes);
    const selvage_status_t status = real(dev, bytes, ptr_out);
    if (status == SELVAGE_SUCCESS)
        note_block(NULL, *ptr_out, bytes);
    return status;
}

void selvage_device_host_free(selvage_device_t *dev, void *ptr)
{
    void (*real)(selvage_device_t *device, void *ptr);
    void *found = dlsym(RTLD_NEXT, "selvage_device_host_free");
    memcpy(&real, &found, sizeof real);
    atomic_fetch_add(&released, 1);
    if (ptr)
        note_block(ptr, NULL, 0);
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
        for (int step = 0; step < check_part(STEPS); step++)
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

/* --- what is given back ------------------------------------------------------------------------------------------- */

/* Bytes of this process's mappings of memory by which the software device's allocations are shared. */
static size_t bytes_mapped_now(void)
{
    char line[512];
    size_t bytes = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long begin = 0, end = 0;
        if (strstr(line, "memfd:selvage") && sscanf(line, "%lx-%lx", &begin, &end) == 2)
            bytes += end - begin;
    }
    if (maps)
        fclose(maps);
    return bytes;
}

enum { LENT = 3, LENT_BYTES = 24 << 20 };

/* Messages that are read where they lie, out of allocations that are freed then. */
static void lend_and_free(void)
{
    uint8_t *out[LENT], *in = device_bytes(LENT_BYTES);
    MPI_Request request[2];
    for (int i = 0; i < LENT; i++) {
        out[i] = device_bytes(LENT_BYTES);
        selvage_device_fill(the.device, out[i], 40 + i, LENT_BYTES, the.stream);
        selvage_stream_synchronize(the.device, the.stream);
        MPI_Irecv(in, LENT_BYTES, MPI_BYTE, the.left, i, MPI_COMM_WORLD, &request[0]);
        MPI_Isend(out[i], LENT_BYTES, MPI_BYTE, the.right, i, MPI_COMM_WORLD, &request[1]);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        CHECK_EQ(byte_at(in), 40 + i);
        CHECK_EQ(byte_at(in + LENT_BYTES - 1), 40 + i);
    }
    for (int i = 0; i < LENT; i++)
        selvage_device_free(the.device, out[i]);
    selvage_device_free(the.device, in);
}

/* Short messages of device memory, by calls of each kind, until all is given back or a while is over. */
static void go_on_until(size_t pinned_most, size_t mapped_most)
{
    const double begin_s = MPI_Wtime();
    int all = 0;
    for (unsigned turn = 0; !all; turn++) {
        MPI_Request request[2];
        usleep(20000);
        if (turn % 2)
            MPI_Sendrecv(the.out, 8, MPI_BYTE, the.right, 9, the.in, 8, MPI_BYTE, the.left, 9, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
        else {
            MPI_Irecv(the.in, 8, MPI_BYTE, the.left, 9, MPI_COMM_WORLD, &request[0]);
            MPI_Isend(the.out, 8, MPI_BYTE, the.right, 9, MPI_COMM_WORLD, &request[1]);
            MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        }
        const int mine = (bytes_pinned_now() <= pinned_most && bytes_mapped_now() <= mapped_most) ||
                         MPI_Wtime() - begin_s > 30;
        PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    }
}

/* With SELVAGE_IDLE_S well below a second; all is used again afterwards. */
void run_given_back(void)
{
    enum { SOME_BYTES = 8 << 20 };
    const char *mode = getenv("SELVAGE_DROPIN_FAST");
    const bool by_route = !mode || strcmp(mode, "off") != 0;
    const char *device = getenv("SELVAGE_DEVICE");
    const bool shows = !device || strcmp(device, "soft") == 0; /* what a GPU has mapped is in no list of the system's */
    uint8_t *out = device_bytes(ALL_BYTES), *in = device_bytes(ALL_BYTES);
    size_t pinned_before = bytes_pinned_now(), mapped_before = bytes_mapped_now();
    for (int pass = 0; pass < 2; pass++) {
        if (by_route) {
            open_fast_route();
            mapped_before = bytes_mapped_now();
            lend_and_free();
            CHECK_EQ(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, SOME_BYTES, MPI_BYTE, MPI_COMM_WORLD),
                     MPI_SUCCESS); /* by way of memory that is kept for the next such call */
            CHECK(pass > 0 || !shows || bytes_mapped_now() > mapped_before);
        } else {
            pass_windows(out, in);
            CHECK(bytes_pinned_now() > pinned_before + SOME_BYTES);
        }
        const size_t mapped = bytes_mapped_now(), kept = bytes_pinned_now();
        go_on_until(pinned_before + SOME_BYTES, mapped_before);
        printf("rank %d: pinned %zu, then %zu bytes; mapped %zu, then %zu, and %zu before\n", the.rank, kept,
               bytes_pinned_now(), mapped, bytes_mapped_now(), mapped_before);
        CHECK(bytes_pinned_now() <= pinned_before + SOME_BYTES);
        CHECK(bytes_mapped_now() <= mapped_before);
    }
    selvage_device_free(the.device, out);
    selvage_device_free(the.device, in);
}
