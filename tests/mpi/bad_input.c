/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrong use of the library by a program that means no harm; the argument says which. Prints "rank R: call: STATUS:
 * detail" for each call that may fail and leaves judging to tests/mpi/test_bad_input.sh. Variables that differ between
 * ranks are set here, after MPI_Init, because launchers give all ranks the same ones.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <selvage.h>

enum { BYTES = 4096 };

typedef struct job {
    int rank, size;
    selvage_comm_t *comm;
    selvage_exchange_t *ex;
    void *stream, *buf[2]; /* what is left behind on purpose is not freed either */
} job_t;

static selvage_status_t say(const job_t *job, const char *call, selvage_status_t status)
{
    printf("rank %d: %s: %s%s%s\n", job->rank, call, selvage_status_name(status), status ? ": " : "",
           status ? selvage_error_detail() : "");
    fflush(stdout);
    return status;
}

static selvage_status_t create(job_t *job)
{
    return say(job, "comm_create", selvage_comm_create(MPI_COMM_WORLD, NULL, &job->comm));
}

static void try_unusable_mpi(const char *when)
{
    selvage_comm_t *comm = NULL;
    selvage_status_t status = selvage_comm_create(MPI_COMM_WORLD, NULL, &comm);
    printf("%s: %s: %s\n", when, selvage_status_name(status), selvage_error_detail());
    fflush(stdout);
}

/* A ring of one packet, committed. */
static selvage_status_t make_exchange(job_t *job)
{
    selvage_device_t *dev = selvage_comm_device(job->comm);
    selvage_status_t status = selvage_stream_create(dev, &job->stream);
    for (int i = 0; i < 2 && status == SELVAGE_SUCCESS; i++)
        status = selvage_device_malloc(dev, BYTES, &job->buf[i]);
    if (status == SELVAGE_SUCCESS)
        status = selvage_exchange_create(job->comm, NULL, &job->ex);
    if (status == SELVAGE_SUCCESS)
        status = selvage_exchange_add_send(job->ex, job->buf[0], BYTES, (job->rank + 1) % job->size, 0, NULL);
    if (status == SELVAGE_SUCCESS)
        status = selvage_exchange_add_recv(job->ex, job->buf[1], BYTES, (job->rank + job->size - 1) % job->size, 0,
                                           NULL);
    if (status == SELVAGE_SUCCESS)
        status = selvage_exchange_commit(job->ex);
    return say(job, "make_exchange", status);
}

/* What was probed for and is not there is no error of a call that succeeds. */
static void tell_detail(const char *call)
{
    printf("detail after %s: \"%s\"\n", call, selvage_error_detail());
    fflush(stdout);
}

static void *use_from_thread(void *arg)
{
    job_t *job = arg;
    say(job, "progress in another thread", selvage_progress(job->comm));
    return NULL;
}

static void run_thread(job_t *job)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, use_from_thread, job) == 0)
        pthread_join(thread, NULL);
    say(job, "progress", selvage_progress(job->comm));
}

static void run(job_t *job, const char *mode)
{
    selvage_device_t *dev;
    if (strcmp(mode, "detail") == 0 && selvage_device_open(NULL, &dev) == SELVAGE_SUCCESS) {
        tell_detail("device_open");
        selvage_device_close(dev);
    }
    if (strcmp(mode, "segments-differ") == 0 && job->rank == 1)
        setenv("SELVAGE_SEGMENT_BYTES", "8192", 1);
    if (strcmp(mode, "one-rank-differs") == 0 && job->rank == 1)
        setenv("SELVAGE_ROUTE", "staged", 1);
    if (strcmp(mode, "one-rank-wrong") == 0 && job->rank == 1)
        setenv("SELVAGE_RETRY_MAX", "many", 1);
    if (create(job) != SELVAGE_SUCCESS || strcmp(mode, "leave-comm") == 0)
        return;
    if (strcmp(mode, "detail") == 0)
        tell_detail("comm_create");
    if (strncmp(mode, "threads", 7) == 0)
        run_thread(job);
    if (strncmp(mode, "leave", 5) != 0) {
        selvage_comm_destroy(job->comm);
        return;
    }
    if (make_exchange(job) != SELVAGE_SUCCESS)
        return;
    if (strcmp(mode, "leave-idle") == 0 || strcmp(mode, "leave-exchange") == 0) {
        say(job, "start", selvage_exchange_start(job->ex, job->stream));
        say(job, "wait", selvage_exchange_wait(job->ex, job->stream));
    }
    if (strcmp(mode, "leave-running") == 0 && job->rank == 0)
        say(job, "start", selvage_exchange_start(job->ex, job->stream));
    if (strcmp(mode, "leave-exchange") == 0)
        selvage_comm_destroy(job->comm);
}

int main(int argc, char **argv)
{
    job_t job = {0};
    const char *mode = argc == 2 ? argv[1] : "";
    if (strcmp(mode, "before-and-after") == 0)
        try_unusable_mpi("before MPI_Init");
    int level;
    if (strcmp(mode, "threads-serialized") == 0)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.size);
    run(&job, mode);
    MPI_Finalize();
    if (strcmp(mode, "before-and-after") == 0)
        try_unusable_mpi("after MPI_Finalize");
    printf("rank %d ends\n", job.rank);
    return 0;
}
