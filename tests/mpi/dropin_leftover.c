/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs of dropin_unmodified for sends of device memory that nobody waits for, MPI_Request_free and MPI_Bsend, and
 * for threads that call MPI in turn (MPI_THREAD_SERIALIZED).
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include "dropin_unmodified.h"

enum { LONG_BYTES = 3 << 20, SENDS = 4, THREADS = 3, TURNS = 40 };

static void fill_long(void *memory, int value)
{
    selvage_device_fill(the.device, memory, value, LONG_BYTES, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
}

/* Whether all of it is this byte. */
static bool is_all(const void *memory, int value)
{
    uint8_t *seen = malloc(LONG_BYTES);
    selvage_device_copy(the.device, seen, memory, LONG_BYTES, SELVAGE_COPY_DEVICE_TO_HOST, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
    const bool all = seen[0] == value && memcmp(seen, seen + 1, LONG_BYTES - 1) == 0;
    free(seen);
    return all;
}

/* Each goes on to its end, from memory that stays as it is until the receiver says that it has all. The receives are
   posted before, after, and into host memory. */
void run_freed(void)
{
    void *out[SENDS], *in = device_bytes(LONG_BYTES);
    uint8_t *host = malloc(LONG_BYTES);
    open_fast_pairs();
    for (int i = 0; i < SENDS; i++)
        out[i] = device_bytes(LONG_BYTES);
    for (int i = 0; i < SENDS; i++) {
        MPI_Request send, receive = MPI_REQUEST_NULL;
        const bool early = i % 2, on_host = i == SENDS - 1;
        fill_long(out[i], 90 + i);
        fill_long(in, 1);
        if (early)
            MPI_Irecv(on_host ? host : in, LONG_BYTES, MPI_BYTE, the.left, i, MPI_COMM_WORLD, &receive);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Isend(out[i], LONG_BYTES, MPI_BYTE, the.right, i, MPI_COMM_WORLD, &send);
        MPI_Request_free(&send);
        CHECK(send == MPI_REQUEST_NULL);
        if (early)
            MPI_Wait(&receive, MPI_STATUS_IGNORE);
        else
            MPI_Recv(in, LONG_BYTES, MPI_BYTE, the.left, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(on_host ? host[0] == 90 + i && memcmp(host, host + 1, LONG_BYTES - 1) == 0 : is_all(in, 90 + i));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < SENDS; i++)
        selvage_device_free(the.device, out[i]);
    selvage_device_free(the.device, in);
    free(host);
}

/* Complete at once: the memory is another message's before anything is received. */
void run_buffered(void)
{
    const int bytes = SENDS * (LONG_BYTES + MPI_BSEND_OVERHEAD);
    void *out = device_bytes(LONG_BYTES), *in = device_bytes(LONG_BYTES), *buffer = malloc((size_t)bytes), *detached;
    int length;
    open_fast_pairs();
    MPI_Buffer_attach(buffer, bytes);
    for (int i = 0; i < SENDS; i++) {
        fill_long(out, 50 + i);
        MPI_Bsend(out, LONG_BYTES, MPI_BYTE, the.right, i, MPI_COMM_WORLD);
    }
    fill_long(out, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = SENDS - 1; i >= 0; i--) {
        fill_long(in, 1);
        MPI_Recv(in, LONG_BYTES, MPI_BYTE, the.left, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(is_all(in, 50 + i));
    }
    MPI_Buffer_detach(&detached, &length);
    CHECK(detached == buffer && length == bytes);
    selvage_device_free(the.device, out);
    selvage_device_free(the.device, in);
    free(buffer);
}

/* --- threads in turn ---------------------------------------------------------------------------------------------- */

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

/* A test at a time, since no call may block in MPI with others waiting for their turn. */
static void complete_in_turns(int n, MPI_Request *request)
{
    for (int flag = 0; !flag;) {
        pthread_mutex_lock(&turn);
        MPI_Testall(n, request, &flag, MPI_STATUSES_IGNORE);
        pthread_mutex_unlock(&turn);
        sched_yield();
    }
}

static void *exchange_in_turns(void *arg)
{
    const int tag = (int)(intptr_t)arg, bytes = tag == 0 ? LONG_BYTES / 8 : 1000 * tag;
    uint8_t *out = device_bytes((size_t)bytes), *in = device_bytes((size_t)bytes), *seen = malloc((size_t)bytes);
    void *stream = NULL;
    CHECK_STATUS(selvage_stream_create(the.device, &stream), SELVAGE_SUCCESS);
    for (int i = 0; i < TURNS; i++) {
        MPI_Request request[2];
        selvage_device_fill(the.device, out, tag * 40 + i + the.rank, (size_t)bytes, stream);
        selvage_stream_synchronize(the.device, stream);
        pthread_mutex_lock(&turn);
        MPI_Irecv(in, bytes, MPI_BYTE, the.left, tag, MPI_COMM_WORLD, &request[0]);
        pthread_mutex_unlock(&turn);
        pthread_mutex_lock(&turn);
        MPI_Isend(out, bytes, MPI_BYTE, the.right, tag, MPI_COMM_WORLD, &request[1]);
        pthread_mutex_unlock(&turn);
        complete_in_turns(2, request);
        selvage_device_copy(the.device, seen, in, (size_t)bytes, SELVAGE_COPY_DEVICE_TO_HOST, stream);
        selvage_stream_synchronize(the.device, stream);
        CHECK_EQ(seen[0], (tag * 40 + i + the.left) % 256);
        CHECK_EQ(memcmp(seen, seen + 1, (size_t)bytes - 1), 0);
    }
    selvage_stream_destroy(the.device, stream);
    selvage_device_free(the.device, out);
    selvage_device_free(the.device, in);
    free(seen);
    return NULL;
}

void run_turns(void)
{
    pthread_t thread[THREADS];
    int level = -1;
    MPI_Query_thread(&level);
    CHECK(level >= MPI_THREAD_SERIALIZED);
    open_fast_pairs();
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, exchange_in_turns, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    printf("thread level %s\n", level == MPI_THREAD_SERIALIZED ? "serialized" : "multiple");
}
