/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dropin_order WHAT: receives on two ranks of memory that work of the program, enqueued before them, still reads.
 *   reads     what that work reads is what was there before, of messages of all lengths, alone and side by side
 *   many      more receives at the same time than the drop-in has events
 *   returns   MPI_Irecv returns while a kernel on the default stream waits for the host, and messages come that were to
 *             be received before that kernel began; 77 without a software device
 *   goes      a long message goes, in fragments, while a kernel on the receiver's default stream waits for the host
 *   ends      a receive that the program has freed lands in MPI_Finalize, after that work
 * Exit status 0 if all is right.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for RTLD_NEXT */
#endif
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "fixtures/dropin_case.h"
#include "fixtures/dropin_route.h"

enum { TAG = 3, DELAY_US = 30000, MANY = 1100, PATIENCE_MS = 40000 };

static int other;

/* The program's software device; NULL for a GPU. The default stream of a software device is that device's, where a
   GPU's is the process's. So the drop-in gets this one: the next two stand before the library's own. */
static selvage_device_t *shared;

selvage_status_t selvage_device_open(const char *name, selvage_device_t **dev_out)
{
    union {
        void *found;
        selvage_status_t (*call)(const char *, selvage_device_t **);
    } next = {dlsym(RTLD_NEXT, "selvage_device_open")};
    if (!dropin.device || strcmp(selvage_device_name(dropin.device), "soft") != 0)
        return next.call(name, dev_out);
    *dev_out = shared = dropin.device;
    return SELVAGE_SUCCESS;
}

void selvage_device_close(selvage_device_t *dev)
{
    union {
        void *found;
        void (*call)(selvage_device_t *);
    } next = {dlsym(RTLD_NEXT, "selvage_device_close")};
    if (dev != shared) /* which the process's end closes */
        next.call(dev);
}

static uint8_t *device_memory(size_t bytes)
{
    void *made = NULL;
    CHECK_STATUS(selvage_device_malloc(dropin.device, bytes, &made), SELVAGE_SUCCESS);
    return made;
}

static void fill(uint8_t *there, int value, size_t bytes)
{
    CHECK_STATUS(selvage_device_fill(dropin.device, there, value, bytes, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(dropin.device, NULL), SELVAGE_SUCCESS);
}

/* How many of the bytes are not value. */
static size_t count_others(const uint8_t *there, int value, size_t bytes)
{
    uint8_t *host = malloc(bytes);
    size_t others = 0;
    CHECK_STATUS(selvage_device_copy(dropin.device, host, there, bytes, SELVAGE_COPY_DEVICE_TO_HOST, dropin.stream),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(dropin.device, dropin.stream), SELVAGE_SUCCESS);
    for (size_t i = 0; i < bytes; i++)
        others += host[i] != value;
    free(host);
    return others;
}

/* --- reads -------------------------------------------------------------------------------------------------------- */

/* So many messages of so many bytes, side by side. */
static void receive_into_read(int messages, size_t bytes)
{
    MPI_Request *request = malloc((size_t)messages * sizeof(MPI_Request));
    const size_t all = (size_t)messages * bytes;
    uint8_t *there = device_memory(all), *read = device_memory(all);
    fill(there, dropin.rank == 0 ? 7 : 1, all);
    fill(read, 0, all);
    MPI_Barrier(MPI_COMM_WORLD);
    if (dropin.rank == 1) {
        CHECK_STATUS(selvage_device_delay_us(dropin.device, DELAY_US, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_device_copy(dropin.device, read, there, all, SELVAGE_COPY_DEVICE_TO_DEVICE, NULL),
                     SELVAGE_SUCCESS);
    }
    for (int i = 0; i < messages; i++) {
        uint8_t *at = there + (size_t)i * bytes;
        if (dropin.rank == 0)
            MPI_Isend(at, (int)bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &request[i]);
        else
            MPI_Irecv(at, (int)bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &request[i]);
    }
    CHECK_EQ(MPI_Waitall(messages, request, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    CHECK_EQ(count_others(there, 7, all), 0);
    CHECK_STATUS(selvage_stream_synchronize(dropin.device, NULL), SELVAGE_SUCCESS);
    CHECK_EQ(count_others(read, dropin.rank == 0 ? 0 : 1, all), 0);
    selvage_device_free(dropin.device, there);
    selvage_device_free(dropin.device, read);
    free(request);
}

static void run_reads(void)
{
    uint8_t *middle = device_memory(1 << 16);
    if (getenv("SELVAGE_JOB"))
        dropin_await_route(middle, 1 << 16, NULL);
    for (int turn = 0; turn < 2; turn++) {
        receive_into_read(1, 100);
        receive_into_read(20, 500);
        receive_into_read(1, 1 << 16);
        receive_into_read(6, 1 << 16);
        receive_into_read(1, 1 << 21);
    }
    selvage_device_free(dropin.device, middle);
}

/* --- returns ------------------------------------------------------------------------------------------------------ */

static _Atomic bool go_on, gave_up;

static void wait_for_go(const void *arg, unsigned block, unsigned nblocks)
{
    (void)arg, (void)block, (void)nblocks;
    for (int i = 0; !atomic_load(&go_on) && i < PATIENCE_MS; i++)
        usleep(1000);
    if (!atomic_load(&go_on))
        atomic_store(&gave_up, true);
}

static void do_nothing(const void *arg, unsigned block, unsigned nblocks)
{
    (void)arg, (void)block, (void)nblocks;
}

/* Whether the device takes kernels of the test's own. Both ranks ask before either waits for the other. */
static bool device_is_soft(void)
{
    const char nothing = 0;
    return selvage_device_launch_soft(dropin.device, do_nothing, &nothing, sizeof nothing, 1, NULL) == SELVAGE_SUCCESS;
}

static int run_returns(void)
{
    enum { BYTES = 3000 };
    char nothing = 0;
    MPI_Request request[2];
    uint8_t *in[2] = {device_memory(BYTES), device_memory(BYTES)}, *out = device_memory(BYTES);
    fill(in[0], 0, BYTES);
    fill(in[1], 0, BYTES);
    fill(out, 5, BYTES);
    CHECK_EQ(MPI_Irecv(in[0], BYTES, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &request[0]), MPI_SUCCESS);
    /* However many come and go while that one is open. */
    for (int i = 0; i < MANY; i++) {
        MPI_Request both[2];
        MPI_Irecv(in[1], 8, MPI_BYTE, other, TAG + 1, MPI_COMM_WORLD, &both[0]);
        MPI_Isend(out, 8, MPI_BYTE, other, TAG + 1, MPI_COMM_WORLD, &both[1]);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    }
    fill(in[1], 0, BYTES);
    CHECK_STATUS(selvage_device_launch_soft(dropin.device, wait_for_go, &nothing, sizeof nothing, 1,
                                            dropin.rank ? NULL : dropin.stream), SELVAGE_SUCCESS);
    /* The one that was posted before the kernel does not wait for it; the one after it does, and its call does not. */
    CHECK_EQ(MPI_Irecv(in[1], BYTES, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &request[1]), MPI_SUCCESS);
    if (dropin.rank == 0) {
        CHECK_EQ(MPI_Send(out, BYTES, MPI_BYTE, other, TAG, MPI_COMM_WORLD), MPI_SUCCESS);
        CHECK_EQ(MPI_Send(out, BYTES, MPI_BYTE, other, TAG, MPI_COMM_WORLD), MPI_SUCCESS);
    } else {
        CHECK_EQ(MPI_Wait(&request[0], MPI_STATUS_IGNORE), MPI_SUCCESS);
        CHECK_EQ(count_others(in[0], 5, BYTES), 0);
        CHECK_EQ(count_others(in[1], 0, BYTES), 0);
    }
    atomic_store(&go_on, true);
    CHECK_STATUS(selvage_stream_synchronize(dropin.device, NULL), SELVAGE_SUCCESS);
    if (dropin.rank == 1) {
        CHECK_EQ(MPI_Wait(&request[1], MPI_STATUS_IGNORE), MPI_SUCCESS);
        CHECK_EQ(count_others(in[1], 5, BYTES), 0);
        CHECK_EQ(MPI_Send(out, BYTES, MPI_BYTE, other, TAG, MPI_COMM_WORLD), MPI_SUCCESS);
        CHECK_EQ(MPI_Send(out, BYTES, MPI_BYTE, other, TAG, MPI_COMM_WORLD), MPI_SUCCESS);
    } else {
        CHECK_EQ(MPI_Waitall(2, request, MPI_STATUSES_IGNORE), MPI_SUCCESS);
        CHECK_EQ(count_others(in[1], 5, BYTES), 0);
    }
    CHECK(!atomic_load(&gave_up));
    selvage_device_free(dropin.device, in[0]);
    selvage_device_free(dropin.device, in[1]);
    selvage_device_free(dropin.device, out);
    return 0;
}

/* --- goes --------------------------------------------------------------------------------------------------------- */

/* The kernel ends only after its rank has heard that the other one's send is complete. */
static int run_goes(void)
{
    enum { BYTES = 1 << 18, WARM = 6 };
    char nothing = 0;
    int word = 0;
    MPI_Request request;
    uint8_t *in = device_memory(BYTES), *out = device_memory(BYTES);
    fill(in, 1, BYTES);
    fill(out, 5, BYTES);
    for (int i = 0; i < WARM; i++)
        CHECK_EQ(MPI_Sendrecv(out, BYTES, MPI_BYTE, other, TAG, in, BYTES, MPI_BYTE, other, TAG, MPI_COMM_WORLD,
                              MPI_STATUS_IGNORE), MPI_SUCCESS);
    fill(in, 1, BYTES);
    if (dropin.rank == 0) {
        CHECK_EQ(MPI_Recv(&word, 1, MPI_INT, 1, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
        CHECK_EQ(MPI_Send(out, BYTES, MPI_BYTE, 1, TAG, MPI_COMM_WORLD), MPI_SUCCESS);
        CHECK_EQ(MPI_Send(&word, 1, MPI_INT, 1, TAG + 1, MPI_COMM_WORLD), MPI_SUCCESS);
    } else {
        CHECK_STATUS(selvage_device_launch_soft(dropin.device, wait_for_go, &nothing, sizeof nothing, 1, NULL),
                     SELVAGE_SUCCESS);
        CHECK_EQ(MPI_Irecv(in, BYTES, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request), MPI_SUCCESS);
        CHECK_EQ(MPI_Send(&word, 1, MPI_INT, 0, TAG + 1, MPI_COMM_WORLD), MPI_SUCCESS);
        CHECK_EQ(MPI_Recv(&word, 1, MPI_INT, 0, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
        CHECK_EQ(count_others(in, 1, BYTES), 0);
        atomic_store(&go_on, true);
        CHECK_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
        CHECK_EQ(count_others(in, 5, BYTES), 0);
    }
    CHECK(!atomic_load(&gave_up));
    selvage_device_free(dropin.device, in);
    selvage_device_free(dropin.device, out);
    return 0;
}

/* --- ends --------------------------------------------------------------------------------------------------------- */

static int run_ends(void)
{
    enum { BYTES = 3000 };
    MPI_Request request;
    uint8_t *there = device_memory(BYTES);
    fill(there, dropin.rank == 0 ? 7 : 1, BYTES);
    if (dropin.rank == 1)
        CHECK_STATUS(selvage_device_delay_us(dropin.device, 10 * DELAY_US, NULL), SELVAGE_SUCCESS);
    if (dropin.rank == 0)
        MPI_Isend(there, BYTES, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &request);
    else
        MPI_Irecv(there, BYTES, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    CHECK_EQ(count_others(there, 7, BYTES), 0);
    return check_report("dropin_order");
}

int main(int argc, char **argv)
{
    int cases, skipped = 0;
    const char *what = argc > 1 ? argv[1] : "reads";
    dropin_begin(1, argv, MPI_THREAD_SINGLE, &cases);
    other = 1 - dropin.rank;
    if (strcmp(what, "reads") == 0)
        run_reads();
    else if (strcmp(what, "many") == 0)
        receive_into_read(MANY, 40);
    else if (strcmp(what, "returns") == 0)
        skipped = device_is_soft() ? run_returns() : CHECK_SKIP;
    else if (strcmp(what, "goes") == 0)
        skipped = device_is_soft() ? run_goes() : CHECK_SKIP;
    else if (strcmp(what, "ends") == 0)
        return run_ends();
    else
        CHECK(false);
    const int failed = dropin_end("dropin_order");
    return failed ? failed : skipped;
}
