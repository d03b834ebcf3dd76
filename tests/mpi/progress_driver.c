/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Does an exchange complete while one rank is elsewhere? Rank 1 starts and then never calls Selvage before rank 0 has
 * told it, by a message of its own, that rank 0's wait is over. Without the progress thread rank 0 runs into the
 * deadline, and the same program shows that as well. Arguments: "multiple" or "plain" (how MPI is initialised), and the
 * route. Prints "rank R: call: STATUS: detail"; the exit status is 0 when the data were right or nothing arrived.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <selvage.h>

enum { BYTES = 100000, PACKETS = 3, TOKEN_TAG = 5 };

typedef struct job {
    int rank;
    selvage_comm_t *comm;
    selvage_device_t *dev;
    selvage_exchange_t *ex;
    void *stream;
    unsigned char *send, *recv, *host;
} job_t;

static selvage_status_t say(const job_t *job, const char *call, selvage_status_t status)
{
    printf("rank %d: %s: %s%s%s\n", job->rank, call, selvage_status_name(status), status ? ": " : "",
           status ? selvage_error_detail() : "");
    fflush(stdout);
    return status;
}

static void need(const job_t *job, const char *call, selvage_status_t status)
{
    if (status == SELVAGE_SUCCESS)
        return;
    say(job, call, status);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned char pattern(int rank, int i)
{
    return (unsigned char)(i * 7 + i / 251 + rank * 101);
}

static void set_up(job_t *job, const char *route)
{
    selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT};
    for (int r = SELVAGE_ROUTE_PEER; r <= SELVAGE_ROUTE_DIRECT; r++)
        if (strcmp(route, selvage_route_name((selvage_route_t)r)) == 0)
            params.route = (selvage_route_t)r;
    job->dev = selvage_comm_device(job->comm);
    need(job, "stream", selvage_stream_create(job->dev, &job->stream));
    need(job, "malloc", selvage_device_malloc(job->dev, PACKETS * BYTES, (void **)&job->send));
    need(job, "malloc", selvage_device_malloc(job->dev, PACKETS * BYTES, (void **)&job->recv));
    need(job, "malloc", selvage_device_host_malloc(job->dev, PACKETS * BYTES, (void **)&job->host));
    need(job, "create", selvage_exchange_create(job->comm, &params, &job->ex));
    for (int i = 0; i < PACKETS; i++) {
        need(job, "add_send", selvage_exchange_add_send(job->ex, job->send + i * BYTES, BYTES, 1 - job->rank, 0, NULL));
        need(job, "add_recv", selvage_exchange_add_recv(job->ex, job->recv + i * BYTES, BYTES, 1 - job->rank, 0, NULL));
    }
    for (int i = 0; i < PACKETS * BYTES; i++)
        job->host[i] = pattern(job->rank, i);
    need(job, "copy", selvage_device_copy(job->dev, job->send, job->host, PACKETS * BYTES, SELVAGE_COPY_HOST_TO_DEVICE,
                                          job->stream));
    need(job, "commit", selvage_exchange_commit(job->ex));
}

static int count_wrong(const job_t *job)
{
    int wrong = 0;
    need(job, "copy", selvage_device_copy(job->dev, job->host, job->recv, PACKETS * BYTES, SELVAGE_COPY_DEVICE_TO_HOST,
                                          job->stream));
    need(job, "synchronize", selvage_stream_synchronize(job->dev, job->stream));
    for (int i = 0; i < PACKETS * BYTES; i++)
        wrong += job->host[i] != pattern(1 - job->rank, i);
    return wrong;
}

/* MPI is looked at now and then; Selvage is not called. */
static void stay_elsewhere(void)
{
    int there = 0, token;
    while (!there) {
        usleep(2000);
        MPI_Iprobe(0, TOKEN_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    }
    MPI_Recv(&token, 1, MPI_INT, 0, TOKEN_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int exchange(job_t *job)
{
    int token = 1;
    need(job, "start", selvage_exchange_start(job->ex, job->stream));
    if (job->rank == 1)
        stay_elsewhere();
    selvage_status_t status = say(job, "wait", selvage_exchange_wait(job->ex, job->stream));
    if (job->rank == 0)
        MPI_Send(&token, 1, MPI_INT, 1, TOKEN_TAG, MPI_COMM_WORLD);
    int wrong = status == SELVAGE_SUCCESS ? count_wrong(job) : 0;
    printf("rank %d: %d bytes wrong\n", job->rank, wrong);
    return wrong != 0;
}

static void tear_down(job_t *job)
{
    selvage_exchange_destroy(job->ex);
    selvage_device_host_free(job->dev, job->host);
    selvage_device_free(job->dev, job->recv);
    selvage_device_free(job->dev, job->send);
    selvage_stream_destroy(job->dev, job->stream);
    selvage_comm_destroy(job->comm);
}

int main(int argc, char **argv)
{
    job_t job = {0};
    int provided = MPI_THREAD_SINGLE, bad = 0;
    if (argc != 3)
        return 2;
    if (strcmp(argv[1], "multiple") == 0)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    if (strcmp(argv[1], "multiple") == 0 && provided != MPI_THREAD_MULTIPLE) {
        MPI_Finalize();
        return 77;
    }
    if (say(&job, "comm_create", selvage_comm_create(MPI_COMM_WORLD, NULL, &job.comm)) == SELVAGE_SUCCESS) {
        set_up(&job, argv[2]);
        bad = exchange(&job);
        tear_down(&job);
    }
    MPI_Finalize();
    return bad;
}
