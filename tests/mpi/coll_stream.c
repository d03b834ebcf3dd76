/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stream of all-reduces over MPI that nobody waits for but every few dozen, each of them checked. The input of each
 * is written by work on the stream before it, and its result is taken by work after it. With a progress thread the
 * calls only enqueue, also between nodes. Run by tests/mpi/test_coll_stream.sh.
 *
 * Usage: coll_stream SECONDS [ABSENT [AWAY_S]]: for so long, or until an error; rank ABSENT makes no call for AWAY_S,
 * which is longer than the deadline of the others. With ABSENT, also where it is none of the ranks (-1), an error is
 * what everyone expects: ranks agree on nothing by MPI between batches, so whoever misses a rank misses it in a call of
 * the library, which has a deadline, and not in one of MPI's, which has none. Each rank says its pid once it is in the
 * loop, and at last what came of it. Exit status 0 unless a result was wrong.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <selvage.h>

enum { COUNT = 3000, BATCH = 24 };

typedef struct job {
    int rank, size, absent;    /* absent: of a rank, or -1 */
    bool expects_error;
    double seconds;
    selvage_device_t *dev;
    selvage_comm_t *comm;
    selvage_coll_t *coll;
    void *stream;
    float *in[BATCH], *out[BATCH], *host_in, *host_out;
    long calls, wrong;
    double host_us;            /* in the calls */
} job_t;

static void try(const char *what, selvage_status_t status)
{
    if (status == SELVAGE_SUCCESS)
        return;
    printf("%s: %s: %s\n", what, selvage_status_name(status), selvage_error_detail());
    fflush(stdout); /* MPICH's abort does not */
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static float *allocate(job_t *job, bool pinned)
{
    void *ptr;
    const size_t bytes = (size_t)COUNT * sizeof(float) * (pinned ? BATCH : 1);
    try("malloc", pinned ? selvage_device_host_malloc(job->dev, bytes, &ptr)
                         : selvage_device_malloc(job->dev, bytes, &ptr));
    return ptr;
}

static void open_job(job_t *job)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &job->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job->size);
    try("device", selvage_device_open_local(NULL, &job->dev));
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = job->dev};
    try("comm_create", selvage_comm_create(MPI_COMM_WORLD, &params, &job->comm));
    try("coll_create", selvage_coll_create(job->comm, NULL, &job->coll));
    try("stream_create", selvage_stream_create(job->dev, &job->stream));
    for (int b = 0; b < BATCH; b++) {
        job->in[b] = allocate(job, false);
        job->out[b] = allocate(job, false);
    }
    job->host_in = allocate(job, true);
    job->host_out = allocate(job, true);
}

static void close_job(job_t *job)
{
    selvage_coll_destroy(job->coll);
    selvage_comm_destroy(job->comm);
    for (int b = 0; b < BATCH; b++) {
        selvage_device_free(job->dev, job->in[b]);
        selvage_device_free(job->dev, job->out[b]);
    }
    selvage_device_host_free(job->dev, job->host_in);
    selvage_device_host_free(job->dev, job->host_out);
    selvage_stream_destroy(job->dev, job->stream);
    selvage_device_close(job->dev);
}

static float value_of(int rank, int batch, int i, int b)
{
    return (float)((rank + 1) * (b + 1) + (batch + i) % 11);
}

static selvage_status_t reduce(job_t *job, int b)
{
    const size_t bytes = COUNT * sizeof(float);
    selvage_status_t status = selvage_device_copy(job->dev, job->in[b], job->host_in + b * COUNT, bytes,
                                                  SELVAGE_COPY_HOST_TO_DEVICE, job->stream);
    const double call = MPI_Wtime();
    if (status == SELVAGE_SUCCESS)
        status = selvage_coll_all_reduce(job->coll, job->in[b], job->out[b], COUNT, SELVAGE_FLOAT32, SELVAGE_OP_SUM,
                                         job->stream);
    job->host_us += (MPI_Wtime() - call) * 1e6;
    job->calls++;
    return status != SELVAGE_SUCCESS
               ? status
               : selvage_device_copy(job->dev, job->host_out + b * COUNT, job->out[b], bytes,
                                     SELVAGE_COPY_DEVICE_TO_HOST, job->stream);
}

static selvage_status_t run_batch(job_t *job, int batch)
{
    selvage_status_t status = SELVAGE_SUCCESS;
    for (int b = 0; b < BATCH; b++)
        for (int i = 0; i < COUNT; i++)
            job->host_in[b * COUNT + i] = value_of(job->rank, batch, i, b);
    for (int b = 0; b < BATCH && status == SELVAGE_SUCCESS; b++)
        status = reduce(job, b);
    try("stream_synchronize", selvage_stream_synchronize(job->dev, job->stream));
    if (selvage_coll_error(job->coll) != SELVAGE_SUCCESS)
        return selvage_coll_error(job->coll);
    for (int b = 0; b < BATCH && status == SELVAGE_SUCCESS; b++)
        for (int i = 0; i < COUNT; i++) {
            float wanted = 0;
            for (int r = 0; r < job->size; r++)
                wanted += value_of(r, batch, i, b);
            job->wrong += job->host_out[b * COUNT + i] != wanted;
        }
    return status;
}

/*
 * All go on, or none. Where one has failed, another may have all the results of its batch: it goes on without the
 * others until its own calls fail, which they must, however late it is.
 */
static void agree_on_next(bool succeeded, int *go, bool *together)
{
    const int mine[2] = {*go, succeeded};
    int least[2];
    MPI_Allreduce(mine, least, 2, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    *together = least[1];
    *go = *together ? least[0] : 1;
}

int main(int argc, char **argv)
{
    int threads, go = 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
    job_t job = {.seconds = argc > 1 ? atof(argv[1]) : 1,
                 .absent = argc > 2 ? atoi(argv[2]) : -1,
                 .expects_error = argc > 2};
    open_job(&job);
    printf("rank %d pid %d is reducing\n", job.rank, (int)getpid());
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    selvage_status_t status = SELVAGE_SUCCESS;
    if (job.rank == job.absent)
        sleep(argc > 3 ? (unsigned)atoi(argv[3]) : 4);
    bool together = !job.expects_error;
    for (int batch = 0; go && status == SELVAGE_SUCCESS; batch++) {
        status = run_batch(&job, batch);
        go = MPI_Wtime() - begin < job.seconds;
        if (together)
            agree_on_next(status == SELVAGE_SUCCESS, &go, &together);
    }
    printf("rank %d: %s after %.1f s, %ld calls, %ld wrong, %.1f us in a call: %s\n", job.rank,
           selvage_status_name(status), MPI_Wtime() - begin, job.calls, job.wrong, job.host_us / (double)job.calls,
           status == SELVAGE_SUCCESS ? "" : selvage_error_detail());
    fflush(stdout);
    close_job(&job);
    /* MPICH over UCX ends its connections one rank at a time: one that has just sent its first message to a rank that
       is in MPI_Finalize may wait for the other end of the connection for ever. */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return job.wrong != 0;
}
