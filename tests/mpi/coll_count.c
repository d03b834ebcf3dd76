/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts what collectives between nodes send: messages and bytes of each rank, by MPI's wire. This program has MPI's
 * own name of the function that sends, so that the library calls it in place of MPI's. Rank 0 prints a line for each
 * call: its kind, bytes of the vector, nodes, ranks a node, and messages and bytes that all ranks sent, and that the
 * rank sent which sent most. Vectors of all-gather, reduce-scatter and all-to-all are the blocks of all ranks
 * together. With CPU=TIMES the call is made so often, and a second line has the CPU time in ns that a rank's thread
 * spends in turns that move something, as the median of the times, on average and of the rank that has most: turns that
 * find nothing depend on who else has the cores. The linker puts a function of this program in place of the one that
 * does a turn. tests/long/coll_cost.py compares both with its model. Usage: coll_count [CPU=TIMES] BYTES...
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for RTLD_NEXT */
#endif
#include <dlfcn.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <selvage.h>

#include "collective/coll_nodes_run.h"

enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, REDUCE, ALL_TO_ALL, KINDS };
static const char *const names[KINDS] = {"all_reduce", "reduce_scatter", "all_gather",
                                         "broadcast", "reduce", "all_to_all"};

static _Atomic long long messages, message_bytes;

int PMPI_Isend(const void *buf, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    static __typeof__(&PMPI_Isend) beyond;
    int size = 0;
    if (!beyond) {
        void *found = dlsym(RTLD_NEXT, "PMPI_Isend");
        memcpy(&beyond, &found, sizeof found);
    }
    MPI_Type_size(type, &size);
    atomic_fetch_add(&messages, 1);
    atomic_fetch_add(&message_bytes, (long long)count * size);
    return beyond(buf, count, type, to, tag, comm, request);
}

/* --- turns -------------------------------------------------------------------------------------------------------- */

enum { TIMES_MAX = 101 };
static long long work_ns, clock_ns;

static long long cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

selvage_status_t __real_sv_coll_run_step(sv_coll_run_t *run);
selvage_status_t __wrap_sv_coll_run_step(sv_coll_run_t *run);
selvage_status_t __wrap_sv_coll_run_step(sv_coll_run_t *run)
{
    const long long begin_ns = cpu_ns();
    const selvage_status_t status = __real_sv_coll_run_step(run);
    if (run->moved || status != SELVAGE_IN_PROGRESS)
        work_ns += cpu_ns() - begin_ns - clock_ns;
    return status;
}

/* What reading the clock adds to a turn. */
static void measure_clock(void)
{
    clock_ns = 1000000;
    for (int i = 0; i < 1000; i++) {
        const long long begin_ns = cpu_ns(), taken_ns = cpu_ns() - begin_ns;
        clock_ns = taken_ns < clock_ns ? taken_ns : clock_ns;
    }
}

static int compare_times(const void *a, const void *b)
{
    const long long x = *(const long long *)a, y = *(const long long *)b;
    return x < y ? -1 : x > y;
}

static void must(selvage_status_t status, const char *what)
{
    if (status == SELVAGE_SUCCESS)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, selvage_status_name(status), selvage_error_detail());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static selvage_status_t call_kind(selvage_coll_t *coll, int kind, const void *in, void *out, size_t bytes, size_t block)
{
    const selvage_type_t type = SELVAGE_UINT8;
    switch (kind) {
    case ALL_REDUCE: return selvage_coll_all_reduce(coll, in, out, bytes, type, SELVAGE_OP_MAX, NULL);
    case REDUCE_SCATTER: return selvage_coll_reduce_scatter(coll, in, out, block, type, SELVAGE_OP_MAX, NULL);
    case ALL_GATHER: return selvage_coll_all_gather(coll, in, out, block, type, NULL);
    case BROADCAST: return selvage_coll_broadcast(coll, in, out, bytes, type, 0, NULL);
    case REDUCE: return selvage_coll_reduce(coll, in, out, bytes, type, SELVAGE_OP_MAX, 0, NULL);
    default: return selvage_coll_all_to_all(coll, in, out, block, type, NULL);
    }
}

/* The median of so many calls, of all ranks; rank 0 prints it. */
static void time_kind(selvage_coll_t *coll, selvage_device_t *dev, int kind, const void *in, void *out, size_t bytes,
                      size_t block, int times, int per_node)
{
    long long taken[TIMES_MAX], all = 0, most = 0;
    const int size = selvage_coll_size(coll);
    for (int i = 0; i < times; i++) {
        work_ns = 0;
        must(call_kind(coll, kind, in, out, bytes, block), names[kind]);
        must(selvage_stream_synchronize(dev, NULL), "synchronize");
        taken[i] = work_ns;
    }
    must(selvage_coll_error(coll), names[kind]);
    qsort(taken, (size_t)times, sizeof taken[0], compare_times);
    MPI_Reduce(&taken[times / 2], &all, 1, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&taken[times / 2], &most, 1, MPI_LONG_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (selvage_coll_rank(coll) == 0)
        printf("cpu %s %zu %d %d %lld %lld\n", names[kind], bytes, size / per_node, per_node, all / size, most);
}

int main(int argc, char **argv)
{
    int rank, size, times = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *given = getenv("SELVAGE_RANKS_PER_NODE");
    const int per_node = given ? atoi(given) : size;
    selvage_device_t *dev;
    selvage_comm_t *comm;
    selvage_coll_t *coll;
    must(selvage_device_open_local(NULL, &dev), "device");
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = dev};
    must(selvage_comm_create(MPI_COMM_WORLD, &params, &comm), "comm");
    must(selvage_coll_create(comm, NULL, &coll), "coll");
    measure_clock();
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "CPU=", 4) == 0) {
            times = atoi(argv[i] + 4);
            times = times > TIMES_MAX ? TIMES_MAX : times;
            continue;
        }
        const size_t bytes = strtoull(argv[i], NULL, 0), block = bytes / (size_t)size;
        void *in, *out;
        must(selvage_device_malloc(dev, bytes, &in), "malloc");
        must(selvage_device_malloc(dev, bytes, &out), "malloc");
        for (int kind = 0; kind < KINDS; kind++) {
            long long mine[2], all[2], most[2];
            if (block == 0 && kind != ALL_REDUCE && kind != BROADCAST && kind != REDUCE)
                continue;
            MPI_Barrier(MPI_COMM_WORLD);
            mine[0] = -messages;
            mine[1] = -message_bytes;
            must(call_kind(coll, kind, in, out, bytes, block), names[kind]);
            must(selvage_stream_synchronize(dev, NULL), "synchronize");
            must(selvage_coll_error(coll), names[kind]);
            mine[0] += messages;
            mine[1] += message_bytes;
            MPI_Reduce(mine, all, 2, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
            MPI_Reduce(mine, most, 2, MPI_LONG_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
            if (rank == 0)
                printf("count %s %zu %d %d %lld %lld %lld %lld\n", names[kind], bytes, size / per_node, per_node,
                       all[0], all[1], most[0], most[1]);
            if (times > 0)
                time_kind(coll, dev, kind, in, out, bytes, block, times, per_node);
        }
        selvage_device_free(dev, in);
        selvage_device_free(dev, out);
    }
    selvage_coll_destroy(coll);
    selvage_comm_destroy(comm);
    selvage_device_close(dev);
    MPI_Finalize();
    return 0;
}
