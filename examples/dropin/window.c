/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bandwidth with many messages outstanding: rank 0 sends a window of them by MPI_Isend, rank 1 has posted a window of
 * receives, both wait for all. The pointers are the device's: for GPU-aware MPI, or under selvage-run.
 *
 *     selvage-run mpirun -n 2 window [--most BYTES]
 *     mpirun -n 2 window --by-hand [--most BYTES]
 *
 * --by-hand stages in the program, which works with any MPI: pinned memory for a whole window, made before, one copy
 * down, a message of each, one copy up. --most: windows of so many bytes at most. What comes is compared, in the last
 * byte of each message, with what was sent. Selvage is used for device memory alone.
 */
#include <mpi.h>
#include <selvage.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_MAX = 256, STEPS_MIN = 3, STEPS_MAX = 200 };

typedef struct program {
    selvage_device_t *device;
    void *stream;
    char *memory, *pinned; /* device; pinned: by hand a whole window, else the last bytes */
    int rank;
    bool by_hand;
    long long wrong;
} program_t;

static void must(selvage_status_t status)
{
    if (status == SELVAGE_SUCCESS)
        return;
    fprintf(stderr, "window: %s\n", selvage_status_name(status)); /* the library has said why */
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void copy(const program_t *p, void *to, const void *from, size_t bytes, selvage_copy_t direction)
{
    must(selvage_device_copy(p->device, to, from, bytes, direction, p->stream));
}

/* What rank 1 sees in the last byte of each message of a step. */
static void check_step(program_t *p, int window, size_t bytes, int value)
{
    for (int i = 0; i < window; i++)
        copy(p, p->pinned + i, p->memory + (size_t)(i + 1) * bytes - 1, 1, SELVAGE_COPY_DEVICE_TO_HOST);
    must(selvage_stream_synchronize(p->device, p->stream));
    for (int i = 0; i < window; i++)
        p->wrong += (uint8_t)p->pinned[i] != value;
}

/* One window, and a word back, so that both ranks begin the next one together. Returns how long it took. */
static double pass_window(program_t *p, int window, size_t bytes)
{
    MPI_Request request[WINDOW_MAX];
    const size_t all = bytes * (size_t)window;
    char *at = p->by_hand ? p->pinned : p->memory, word = 0;
    const double begin = MPI_Wtime();
    if (p->by_hand && p->rank == 0) {
        copy(p, p->pinned, p->memory, all, SELVAGE_COPY_DEVICE_TO_HOST);
        must(selvage_stream_synchronize(p->device, p->stream));
    }
    for (int i = 0; i < window; i++, at += bytes) {
        if (p->rank == 0)
            MPI_Isend(at, (int)bytes, MPI_BYTE, 1, i, MPI_COMM_WORLD, &request[i]);
        else
            MPI_Irecv(at, (int)bytes, MPI_BYTE, 0, i, MPI_COMM_WORLD, &request[i]);
    }
    MPI_Waitall(window, request, MPI_STATUSES_IGNORE);
    if (p->by_hand && p->rank == 1) {
        copy(p, p->memory, p->pinned, all, SELVAGE_COPY_HOST_TO_DEVICE);
        must(selvage_stream_synchronize(p->device, p->stream));
    }
    if (p->rank == 0)
        MPI_Recv(&word, 1, MPI_CHAR, 1, WINDOW_MAX, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(&word, 1, MPI_CHAR, 0, WINDOW_MAX, MPI_COMM_WORLD);
    return MPI_Wtime() - begin;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The first step is not counted: memory is pinned in it. */
static void measure(program_t *p, int window, size_t bytes)
{
    double took[STEPS_MAX], all = 0;
    int steps = 0, more = 1;
    for (int step = 0; more; step++) {
        must(selvage_device_fill(p->device, p->memory, p->rank == 0 ? step % 251 : 255, bytes * (size_t)window,
                                 p->stream));
        must(selvage_stream_synchronize(p->device, p->stream));
        MPI_Barrier(MPI_COMM_WORLD);
        const double seconds = pass_window(p, window, bytes);
        if (p->rank == 1)
            check_step(p, window, bytes, step % 251);
        if (step > 0)
            all += took[steps++] = seconds;
        more = steps < STEPS_MIN || (all < 0.3 && steps < STEPS_MAX);
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    qsort(took, (size_t)steps, sizeof *took, by_value);
    if (p->rank == 0)
        printf("%8zu bytes x %3d  %8.2f GB/s\n", bytes, window, (double)bytes * window / took[steps / 2] / 1e9);
}

int main(int argc, char **argv)
{
    static const int windows[] = {1, 16, 64, WINDOW_MAX};
    static const size_t sizes[] = {64 << 10, 2 << 20, 8 << 20};
    program_t p = {0};
    size_t most = (size_t)2 << 30;
    int ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--by-hand") == 0)
            p.by_hand = true;
        else if (strcmp(argv[i], "--most") == 0 && i + 1 < argc)
            most = strtoull(argv[++i], NULL, 10);
        else
            ranks = 0;
    }
    if (ranks != 2 || most < sizes[0]) {
        fprintf(stderr, "usage: mpirun -n 2 window [--by-hand] [--most BYTES]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    must(selvage_device_open_local(NULL, &p.device));
    must(selvage_stream_create(p.device, &p.stream));
    must(selvage_device_malloc(p.device, most, (void **)&p.memory));
    must(selvage_device_host_malloc(p.device, p.by_hand ? most : 4096, (void **)&p.pinned));
    char *sums = p.by_hand ? p.pinned : p.memory;
    for (int i = 0; i < 20; i++) /* a program's collective calls, by which Selvage's route opens */
        MPI_Allreduce(sums, sums + 64, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t j = 0; j < sizeof windows / sizeof windows[0]; j++)
            if (sizes[i] * (size_t)windows[j] <= most)
                measure(&p, windows[j], sizes[i]);
    MPI_Reduce(p.rank == 0 ? MPI_IN_PLACE : &p.wrong, &p.wrong, 1, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (p.rank == 0)
        printf("window: %s: %s\n", p.by_hand ? "staged by hand" : "device pointers", p.wrong ? "wrong" : "right");
    const bool good = p.rank != 0 || p.wrong == 0;
    selvage_stream_destroy(p.device, p.stream);
    selvage_device_free(p.device, p.memory);
    selvage_device_host_free(p.device, p.pinned);
    selvage_device_close(p.device);
    MPI_Finalize();
    return good ? 0 : 1;
}
