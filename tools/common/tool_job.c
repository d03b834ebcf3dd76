/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The job a tool runs in. Cores are counted as the union of the affinity masks of a host's ranks, because launchers
 * bind each rank to a core of its own and one mask alone would look like one core.
 */
#define _GNU_SOURCE

#include "tools/common/tool_job.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { POLLS_BEFORE_SLEEP = 2000, SLEEP_NS = 50000, LAST_WORDS_NS = 200000000 };

_Noreturn static void end_job(const tool_job_t *job)
{
    fflush(NULL);
    nanosleep(&(struct timespec){.tv_nsec = LAST_WORDS_NS}, NULL); /* MPICH's launcher loses what it has not read yet */
    MPI_Abort(job->comm, 1);
    abort(); /* MPI_Abort does not return, but is not declared so. */
}

_Noreturn void tool_die(const tool_job_t *job, const char *what, selvage_status_t status)
{
    fprintf(stderr, "%s: rank %d: %s: %s (%s): %s\n", job->program, job->rank, what, selvage_status_name(status),
            selvage_status_string(status), selvage_error_detail());
    end_job(job);
}

_Noreturn void tool_die_text(const tool_job_t *job, const char *text)
{
    fprintf(stderr, "%s: rank %d: %s\n", job->program, job->rank, text);
    end_job(job);
}

void tool_try(const tool_job_t *job, const char *what, selvage_status_t status)
{
    if (status != SELVAGE_SUCCESS)
        tool_die(job, what, status);
}

void *tool_malloc(const tool_job_t *job, size_t bytes)
{
    void *ptr = malloc(bytes ? bytes : 1);
    if (!ptr)
        tool_die_text(job, "out of memory");
    return ptr;
}

/* Testing the first open request is enough: every test lets MPI advance all of them. */
void tool_poll(const tool_job_t *job, MPI_Request *requests, int count)
{
    int done = 0;
    for (long polls = 0; done < count; polls++) {
        int complete = 0;
        MPI_Status status;
        MPI_Test(&requests[done], &complete, &status);
        if (complete) {
            done++;
            polls = 0;
        } else if (job->oversubscribed && polls > POLLS_BEFORE_SLEEP) {
            nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
        } else {
            sched_yield();
        }
    }
}

void tool_barrier(const tool_job_t *job)
{
    MPI_Request request;
    MPI_Ibarrier(job->comm, &request);
    tool_poll(job, &request, 1);
}

void tool_reduce(const tool_job_t *job, MPI_Comm comm, void *values, int count, MPI_Datatype type, MPI_Op op)
{
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, values, count, type, op, comm, &request);
    tool_poll(job, &request, 1);
}

void tool_bcast(const tool_job_t *job, void *values, int count, MPI_Datatype type)
{
    MPI_Request request;
    MPI_Ibcast(values, count, type, 0, job->comm, &request);
    tool_poll(job, &request, 1);
}

static void find_host_ranks(tool_job_t *job)
{
    MPI_Comm_size(job->host_comm, &job->host_count);
    job->host_ranks = tool_malloc(job, (size_t)job->host_count * sizeof(int));
    int *members = tool_malloc(job, (size_t)job->host_count * sizeof(int));
    for (int i = 0; i < job->host_count; i++)
        members[i] = i;
    MPI_Group all, host;
    MPI_Comm_group(job->comm, &all);
    MPI_Comm_group(job->host_comm, &host);
    MPI_Group_translate_ranks(host, job->host_count, members, all, job->host_ranks);
    MPI_Group_free(&host);
    MPI_Group_free(&all);
    free(members);
}

static int cores_of_host(const tool_job_t *job)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof cores, &cores) != 0)
        CPU_SET(0, &cores);
    tool_reduce(job, job->host_comm, &cores, (int)sizeof cores, MPI_BYTE, MPI_BOR);
    int count = CPU_COUNT(&cores);
    return count > 0 ? count : 1;
}

/* The host where ranks have the least of a core decides for all. */
static void measure_crowd(tool_job_t *job)
{
    int host_rank, cores = cores_of_host(job);
    MPI_Comm_rank(job->host_comm, &host_rank);
    job->hosts = host_rank == 0;
    tool_reduce(job, job->comm, &job->hosts, 1, MPI_INT, MPI_SUM);
    int fullest[2] = {job->host_count, -cores};
    tool_reduce(job, job->comm, fullest, 2, MPI_INT, MPI_MAX);
    job->host_size = fullest[0];
    job->host_cores = -fullest[1];
    int oversubscribed = job->host_count > cores;
    tool_reduce(job, job->comm, &oversubscribed, 1, MPI_INT, MPI_MAX);
    job->oversubscribed = oversubscribed != 0;
}

void tool_job_init(tool_job_t *job, const char *program, int *argc, char ***argv)
{
    *job = (tool_job_t){.program = program, .comm = MPI_COMM_WORLD, .oversubscribed = true};
    tool_choose_gpu(&job->gpu); /* before MPI, which may want to know the device */
    const char *progress = getenv("SELVAGE_PROGRESS");
    int wanted = progress && strcmp(progress, "thread") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, provided;
    MPI_Init_thread(argc, argv, wanted, &provided);
    MPI_Comm_rank(job->comm, &job->rank);
    MPI_Comm_size(job->comm, &job->size);
    MPI_Comm_split_type(job->comm, MPI_COMM_TYPE_SHARED, job->rank, MPI_INFO_NULL, &job->host_comm);
    find_host_ranks(job);
    measure_crowd(job);
}

void tool_job_fini(tool_job_t *job)
{
    int everybody = 1;
    free(job->host_ranks);
    MPI_Comm_free(&job->host_comm);
    tool_reduce(job, job->comm, &everybody, 1, MPI_INT, MPI_SUM); /* whoever is late is not helped by busy waiters */
    MPI_Finalize();
}

static int compare_int(const void *left, const void *right)
{
    int a = *(const int *)left, b = *(const int *)right;
    return (a > b) - (a < b);
}

bool tool_job_on_host(const tool_job_t *job, int rank)
{
    return bsearch(&rank, job->host_ranks, (size_t)job->host_count, sizeof(int), compare_int) != NULL;
}

void tool_ring_world(const tool_job_t *job, tool_ring_t *ring_out)
{
    *ring_out = (tool_ring_t){.size = job->size, .index = job->rank};
}

/* Virtual nodes are blocks of the host's ranks in ascending order, the last one perhaps smaller. */
void tool_ring_node(const tool_job_t *job, tool_ring_t *ring_out)
{
    const char *text = getenv("SELVAGE_RANKS_PER_NODE");
    int block = text ? atoi(text) : 0, index;
    MPI_Comm_rank(job->host_comm, &index);
    if (block <= 0 || block > job->host_count)
        block = job->host_count;
    int first = index / block * block;
    int size = job->host_count - first < block ? job->host_count - first : block;
    int *ranks = tool_malloc(job, (size_t)size * sizeof(int));
    memcpy(ranks, job->host_ranks + first, (size_t)size * sizeof(int));
    *ring_out = (tool_ring_t){.size = size, .index = index - first, .ranks = ranks};
}

void tool_ring_fini(tool_ring_t *ring)
{
    free(ring->ranks);
    ring->ranks = NULL;
}

int tool_ring_peer(const tool_ring_t *ring, int offset)
{
    int member = ((ring->index + offset) % ring->size + ring->size) % ring->size;
    return ring->ranks ? ring->ranks[member] : member;
}

double tool_median_of_slowest(const tool_job_t *job, double *seconds, int count)
{
    tool_reduce(job, job->comm, seconds, count, MPI_DOUBLE, MPI_MAX);
    return tool_median(seconds, count);
}

const char *tool_device_words(const selvage_device_t *device, char *text, size_t bytes)
{
    selvage_device_info_t info = {SELVAGE_DEVICE_INFO_INIT};
    const bool known = selvage_device_describe(device, &info) == SELVAGE_SUCCESS && info.bus_id[0] && info.model[0];
    snprintf(text, bytes, "%s%s%s%s", selvage_device_name(device), known ? " (" : "", known ? info.model : "",
             known ? ")" : "");
    return text;
}
