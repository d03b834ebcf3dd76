/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much host memory the library takes for itself, with as many ranks as there are. Rank 0 prints a line: ranks, then
 * bytes of a communicator, of a communicator of collectives, of the most while that was made, and of the most that an
 * all-reduce, an all-gather, an all-to-all and a split took on top. Each is the most of any rank. MPI's own memory and
 * that of the device are not counted: growth of the whole process while MPI and Selvage were set up is the last number.
 * Run by tests/mpi/test_coll_memory.sh.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <selvage.h>

#include "base/base_memory.h"

enum { COUNT = 64, NUMBERS = 8 };

static void must(selvage_status_t status, const char *what)
{
    if (status == SELVAGE_SUCCESS)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, selvage_status_name(status), selvage_error_detail());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static long long resident_bytes(void)
{
    long long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%lld %lld", &total, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv)
{
    long long number[NUMBERS], most[NUMBERS];
    int rank, size;
    const long long resident = resident_bytes();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    selvage_device_t *dev;
    selvage_comm_t *comm;
    selvage_coll_t *coll, *part;
    void *in, *out;
    must(selvage_device_open_local(NULL, &dev), "device");
    const int64_t before = sv_memory_bytes();
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = dev};
    must(selvage_comm_create(MPI_COMM_WORLD, &params, &comm), "comm");
    const int64_t with_comm = sv_memory_bytes();
    sv_memory_most_bytes();
    must(selvage_coll_create(comm, NULL, &coll), "coll");
    const int64_t with_coll = sv_memory_bytes();
    number[0] = with_comm - before;
    number[1] = with_coll - with_comm;
    number[2] = sv_memory_most_bytes() - with_comm;
    must(selvage_device_malloc(dev, (size_t)size * COUNT * 4, &in), "malloc");
    must(selvage_device_malloc(dev, (size_t)size * COUNT * 4, &out), "malloc");
    for (int i = 3; i < 6; i++) {
        const int64_t then = sv_memory_bytes();
        sv_memory_most_bytes();
        if (i == 3)
            must(selvage_coll_all_reduce(coll, in, out, COUNT, SELVAGE_INT32, SELVAGE_OP_SUM, NULL), "all_reduce");
        else if (i == 4)
            must(selvage_coll_all_gather(coll, in, out, COUNT, SELVAGE_INT32, NULL), "all_gather");
        else
            must(selvage_coll_all_to_all(coll, in, out, COUNT, SELVAGE_INT32, NULL), "all_to_all");
        must(selvage_stream_synchronize(dev, NULL), "synchronize");
        must(selvage_coll_error(coll), "error");
        number[i] = sv_memory_most_bytes() - then;
    }
    const int64_t then = sv_memory_bytes();
    must(selvage_coll_split(coll, 0, -rank, &part), "split");
    number[6] = sv_memory_most_bytes() - then;
    number[7] = resident_bytes() - resident;
    selvage_coll_destroy(part);
    MPI_Reduce(number, most, NUMBERS, MPI_LONG_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("memory %d", size);
        for (int i = 0; i < NUMBERS; i++)
            printf(" %lld", most[i]);
        printf("\n");
    }
    selvage_coll_destroy(coll);
    selvage_device_free(dev, in);
    selvage_device_free(dev, out);
    selvage_comm_destroy(comm);
    selvage_device_close(dev);
    MPI_Finalize();
    return 0;
}
