/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of every kind between nodes, of random lengths, each result looked at, while one rank is killed or
 * stopped at any moment by a process of its own. Run by tests/mpi/test_coll_faults.sh.
 *
 * Usage: coll_faults SECONDS SEED kill|stop RANK AFTER_MS STOP_MS: for so long, or until an error. Each rank but one
 * that is killed says at last what came of it. It leaves without MPI_Finalize, which would wait for a rank that is
 * gone.
 */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <selvage.h>

enum { LONGEST = 200000, KINDS = 5 };

typedef struct job {
    int rank, size, begin_pipe[2];
    pid_t helper;
    selvage_device_t *dev;
    selvage_comm_t *comm;
    selvage_coll_t *coll;
    int32_t *in, *out, *host; /* host: pinned */
    uint64_t random;
    long calls, wrong;
} job_t;

static void leave(const job_t *job, const char *what, selvage_status_t status)
{
    printf("rank %d: %s after %ld calls, %ld wrong: %s: %s\n", job->rank, selvage_status_name(status), job->calls,
           job->wrong, what, status == SELVAGE_SUCCESS ? "" : selvage_error_detail());
    fflush(stdout);
}

static void try(const job_t *job, const char *what, selvage_status_t status)
{
    if (status == SELVAGE_SUCCESS)
        return;
    leave(job, what, status);
    _exit(3);
}

/* A process that waits for the word, and then kills this one, or stops it for a while. Made before MPI is. */
static void make_helper(job_t *job, bool kills, int after_ms, int stop_ms)
{
    char word;
    const pid_t victim = getpid();
    if (pipe(job->begin_pipe) || (job->helper = fork()) < 0)
        exit(2);
    if (job->helper > 0)
        return;
    close(job->begin_pipe[1]);
    if (read(job->begin_pipe[0], &word, 1) != 1) /* of another rank, or that never came so far */
        _exit(0);
    usleep((useconds_t)after_ms * 1000);
    if (kills) {
        kill(victim, SIGKILL);
        _exit(0);
    }
    kill(victim, SIGSTOP);
    usleep((useconds_t)stop_ms * 1000);
    kill(victim, SIGCONT);
    _exit(0);
}

static uint64_t draw(job_t *job, uint64_t bound)
{
    job->random ^= job->random << 13;
    job->random ^= job->random >> 7;
    job->random ^= job->random << 17;
    return job->random % bound;
}

static int32_t value_of(int rank, long call, size_t i)
{
    return (int32_t)((uint32_t)(rank + 1) * 1000003u + (uint32_t)call * 77u + (uint32_t)i);
}

static int32_t sum_of(const job_t *job, size_t i)
{
    uint32_t sum = 0;
    for (int r = 0; r < job->size; r++)
        sum += (uint32_t)value_of(r, job->calls, i);
    return (int32_t)sum;
}

/* What element i of the output is to be. */
static int32_t wanted_of(const job_t *job, int kind, int root, size_t count, size_t i)
{
    switch (kind) {
    case 1: return sum_of(job, (size_t)job->rank * count + i);
    case 2: return value_of((int)(i / count), job->calls, i % count);
    case 3: return value_of(root, job->calls, i);
    default: return sum_of(job, i);
    }
}

static selvage_status_t call_kind(job_t *job, int kind, int root, size_t count)
{
    selvage_coll_t *coll = job->coll;
    const selvage_type_t type = SELVAGE_INT32;
    switch (kind) {
    case 1: return selvage_coll_reduce_scatter(coll, job->in, job->out, count, type, SELVAGE_OP_SUM, NULL);
    case 2: return selvage_coll_all_gather(coll, job->in, job->out, count, type, NULL);
    case 3: return selvage_coll_broadcast(coll, job->in, job->out, count, type, root, NULL);
    case 4: return selvage_coll_reduce(coll, job->in, job->out, count, type, SELVAGE_OP_SUM, root, NULL);
    default: return selvage_coll_all_reduce(coll, job->in, job->out, count, type, SELVAGE_OP_SUM, NULL);
    }
}

/* One call from its input to a look at its output, which is believed only if no error is known. */
static selvage_status_t run_call(job_t *job)
{
    const int kind = (int)draw(job, KINDS), root = (int)draw(job, (uint64_t)job->size);
    const size_t most = kind == 1 || kind == 2 ? LONGEST / (size_t)job->size : LONGEST;
    const size_t count = 1 + draw(job, draw(job, 2) ? most : 500);
    const size_t in = kind == 1 ? count * (size_t)job->size : count;
    const size_t out = kind == 2 ? count * (size_t)job->size : count;
    job->calls++;
    for (size_t i = 0; i < in; i++)
        job->host[i] = value_of(job->rank, job->calls, i);
    selvage_status_t status = selvage_device_copy(job->dev, job->in, job->host, in * sizeof *job->in,
                                                  SELVAGE_COPY_HOST_TO_DEVICE, NULL);
    if (status == SELVAGE_SUCCESS)
        status = call_kind(job, kind, root, count);
    if (status == SELVAGE_SUCCESS)
        status = selvage_stream_synchronize(job->dev, NULL);
    if (status == SELVAGE_SUCCESS)
        status = selvage_coll_error(job->coll);
    if (status != SELVAGE_SUCCESS || (kind == 4 && job->rank != root))
        return status;
    try(job, "copy", selvage_device_copy(job->dev, job->host, job->out, out * sizeof *job->out,
                                         SELVAGE_COPY_DEVICE_TO_HOST, NULL));
    try(job, "synchronize", selvage_stream_synchronize(job->dev, NULL));
    for (size_t i = 0; i < out; i++)
        job->wrong += job->host[i] != wanted_of(job, kind, root, count, i);
    return SELVAGE_SUCCESS;
}

static void open_job(job_t *job)
{
    void *ptr;
    MPI_Comm_rank(MPI_COMM_WORLD, &job->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job->size);
    try(job, "device", selvage_device_open_local(NULL, &job->dev));
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = job->dev};
    try(job, "comm_create", selvage_comm_create(MPI_COMM_WORLD, &params, &job->comm));
    try(job, "coll_create", selvage_coll_create(job->comm, NULL, &job->coll));
    try(job, "malloc", selvage_device_malloc(job->dev, LONGEST * sizeof *job->in, &ptr));
    job->in = ptr;
    try(job, "malloc", selvage_device_malloc(job->dev, LONGEST * sizeof *job->out, &ptr));
    job->out = ptr;
    try(job, "host_malloc", selvage_device_host_malloc(job->dev, LONGEST * sizeof *job->host, &ptr));
    job->host = ptr;
}

int main(int argc, char **argv)
{
    int threads;
    if (argc < 7) {
        fprintf(stderr, "usage: coll_faults SECONDS SEED kill|stop RANK AFTER_MS STOP_MS\n");
        return 2;
    }
    job_t job = {.random = strtoull(argv[2], NULL, 0) * 2 + 1};
    make_helper(&job, strcmp(argv[3], "kill") == 0, atoi(argv[5]), atoi(argv[6]));
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* MPICH asks it, whichever communicator fails */
    open_job(&job);
    MPI_Barrier(MPI_COMM_WORLD);
    if (job.rank == atoi(argv[4]) && write(job.begin_pipe[1], "", 1) != 1)
        return 2;
    close(job.begin_pipe[1]);
    const double begin = MPI_Wtime();
    selvage_status_t status = SELVAGE_SUCCESS;
    /* Ranks leave together: what one of them knows of the time goes to all by a call of this very kind. */
    for (bool goes = true; goes && status == SELVAGE_SUCCESS;) {
        status = run_call(&job);
        if (status == SELVAGE_SUCCESS && job.calls % 8 == 0) {
            int32_t *word = job.host;
            word[0] = MPI_Wtime() - begin < atof(argv[1]);
            status = selvage_device_copy(job.dev, job.in, word, sizeof *word, SELVAGE_COPY_HOST_TO_DEVICE, NULL);
            if (status == SELVAGE_SUCCESS)
                status = selvage_coll_broadcast(job.coll, job.in, job.out, 1, SELVAGE_INT32, 0, NULL);
            if (status == SELVAGE_SUCCESS)
                status = selvage_stream_synchronize(job.dev, NULL);
            if (status == SELVAGE_SUCCESS)
                status = selvage_coll_error(job.coll);
            if (status == SELVAGE_SUCCESS)
                try(&job, "copy", selvage_device_copy(job.dev, word, job.out, sizeof *word, SELVAGE_COPY_DEVICE_TO_HOST,
                                                      NULL));
            if (status == SELVAGE_SUCCESS)
                try(&job, "synchronize", selvage_stream_synchronize(job.dev, NULL));
            goes = status != SELVAGE_SUCCESS || word[0] != 0;
        }
    }
    leave(&job, "collectives", status);
    selvage_coll_destroy(job.coll);
    printf("rank %d is through\n", job.rank);
    fflush(stdout);
    _exit(0);
}
