/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the progress thread costs, counted on rank 0 and printed as "name value" pairs on one line. Times are those of
 * the thread's and of the caller's own clocks of CPU time; switches are the kernel's counts.
 *
 *   progress_cost idle SECONDS             nothing is under way: percent of a core that the thread takes
 *   progress_cost wake COUNT GAP_US        calls to a thread that has slept: how long one takes, there and back
 *   progress_cost exchange BYTES EPOCHS [GAP_US [PACKETS]]
 *                                          epochs of so many packets each way (1), start and wait, with so long a pause
 *                                          before each start (none)
 *
 * With one rank idle and wake work too. Exit status 77: no progress thread, or this MPI has no MPI_THREAD_MULTIPLE.
 */
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <selvage.h>

#define THREAD_NAME "selvage-prog"

typedef struct counts {
    double cpu_us;
    long voluntary, involuntary;
} counts_t;

static int rank, size, packets = 1;

static double now_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void fail(const char *what, selvage_status_t status)
{
    fprintf(stderr, "rank %d: %s: %s: %s\n", rank, what, selvage_status_name(status), selvage_error_detail());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void need(const char *call, selvage_status_t status)
{
    if (status != SELVAGE_SUCCESS)
        fail(call, status);
}

static void pause_us(double us)
{
    struct timespec pause = {.tv_sec = (time_t)(us / 1e6), .tv_nsec = (long)(us * 1e3) % 1000000000};
    if (us > 0)
        nanosleep(&pause, NULL);
}

/* --- counts of a thread of this process --------------------------------------------------------------------------- */

/* The task whose name this is, or 0. */
static int find_task(const char *name)
{
    DIR *tasks = opendir("/proc/self/task");
    int found = 0;
    for (const struct dirent *entry; tasks && !found && (entry = readdir(tasks));) {
        char path[300], text[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (!file)
            continue;
        if (fgets(text, sizeof text, file) && strncmp(text, name, strlen(name)) == 0)
            found = atoi(entry->d_name);
        fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return found;
}

static counts_t read_counts(int task)
{
    /* The clock of another thread's CPU time, as the kernel numbers them. */
    const clockid_t clock = (clockid_t)(~(unsigned)task << 3 | 6);
    counts_t counts = {.cpu_us = now_us(clock)};
    char path[64], line[128];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", task);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "voluntary_ctxt_switches: %ld", &counts.voluntary);
        sscanf(line, "nonvoluntary_ctxt_switches: %ld", &counts.involuntary);
    }
    if (file)
        fclose(file);
    return counts;
}

static counts_t difference(counts_t after, counts_t before)
{
    return (counts_t){.cpu_us = after.cpu_us - before.cpu_us,
                      .voluntary = after.voluntary - before.voluntary,
                      .involuntary = after.involuntary - before.involuntary};
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void print_times(double *us, int count)
{
    qsort(us, (size_t)count, sizeof *us, compare);
    printf("p50_us %.2f p99_us %.2f p999_us %.2f", us[count / 2], us[(int)(0.99 * (count - 1))],
           us[(int)(0.999 * (count - 1))]);
}

static void print_counts(const char *who, counts_t counts, int each)
{
    printf(" %s_cpu_us %.3f %s_sleeps %.4f %s_taken_off %.4f", who, counts.cpu_us / each, who,
           (double)counts.voluntary / each, who, (double)counts.involuntary / each);
}

/* --- what is measured --------------------------------------------------------------------------------------------- */

static void measure_idle(int task, double seconds)
{
    pause_us(20e3); /* what setting up has left behind */
    const counts_t before = read_counts(task);
    const double began = now_us(CLOCK_MONOTONIC);
    pause_us(seconds * 1e6);
    const counts_t counts = difference(read_counts(task), before);
    const double took = now_us(CLOCK_MONOTONIC) - began;
    if (rank == 0)
        printf("idle_percent %.4f sleeps_per_s %.1f\n", 100 * counts.cpu_us / took,
               (double)counts.voluntary / took * 1e6);
}

static void measure_wake(selvage_comm_t *comm, int task, int count, double gap_us)
{
    double *us = calloc((size_t)count, sizeof *us);
    if (!us)
        exit(1);
    const counts_t before = read_counts(task);
    for (int i = 0; i < count; i++) {
        selvage_stats_t stats = {SELVAGE_STATS_INIT};
        pause_us(gap_us);
        const double began = now_us(CLOCK_MONOTONIC);
        need("stats", selvage_comm_stats(comm, &stats));
        us[i] = now_us(CLOCK_MONOTONIC) - began;
    }
    const counts_t counts = difference(read_counts(task), before);
    if (rank == 0) {
        print_times(us, count);
        print_counts("thread", counts, count);
        printf("\n");
    }
    free(us);
}

/* The ranks are two; each sends to the other. */
static void measure_exchange(selvage_comm_t *comm, int task, size_t bytes, int epochs, double gap_us)
{
    enum { WARM = 50 };
    selvage_device_t *dev = selvage_comm_device(comm);
    selvage_exchange_t *ex;
    void *stream, *out, *in;
    double *us = calloc((size_t)epochs, sizeof *us);
    if (!us)
        exit(1);
    need("stream", selvage_stream_create(dev, &stream));
    need("malloc", selvage_device_malloc(dev, (size_t)packets * bytes, &out));
    need("malloc", selvage_device_malloc(dev, (size_t)packets * bytes, &in));
    need("create", selvage_exchange_create(comm, NULL, &ex));
    for (int i = 0; i < packets; i++) {
        const size_t at = (size_t)i * bytes;
        need("add", selvage_exchange_add_send(ex, (char *)out + at, bytes, 1 - rank, i, NULL));
        need("add", selvage_exchange_add_recv(ex, (char *)in + at, bytes, 1 - rank, i, NULL));
    }
    need("commit", selvage_exchange_commit(ex));

    counts_t thread = {0}, caller = {0};
    double began_us = 0;
    for (int i = -WARM; i < epochs; i++) {
        if (i == 0) {
            thread = read_counts(task);
            caller = read_counts((int)getpid());
            began_us = now_us(CLOCK_MONOTONIC);
        }
        pause_us(gap_us);
        const double start_us = now_us(CLOCK_MONOTONIC);
        need("start", selvage_exchange_start(ex, stream));
        need("wait", selvage_exchange_wait(ex, stream));
        if (i >= 0)
            us[i] = now_us(CLOCK_MONOTONIC) - start_us;
    }
    thread = difference(read_counts(task), thread);
    caller = difference(read_counts((int)getpid()), caller);
    const double took_us = now_us(CLOCK_MONOTONIC) - began_us;
    selvage_stats_t stats = {SELVAGE_STATS_INIT};
    need("stats", selvage_comm_stats(comm, &stats));
    if (rank == 0) {
        print_times(us, epochs);
        print_counts("thread", thread, epochs);
        print_counts("caller", caller, epochs);
        printf(" epoch_us %.2f queued_most %llu\n", took_us / epochs, (unsigned long long)stats.progress_queued_most);
    }
    selvage_exchange_destroy(ex);
    selvage_device_free(dev, in);
    selvage_device_free(dev, out);
    selvage_stream_destroy(dev, stream);
    free(us);
}

int main(int argc, char **argv)
{
    int provided;
    selvage_comm_t *comm;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3 || provided != MPI_THREAD_MULTIPLE) {
        MPI_Finalize();
        return argc < 3 ? 2 : 77;
    }
    need("comm_create", selvage_comm_create(MPI_COMM_WORLD, NULL, &comm));
    const int task = find_task(THREAD_NAME);
    const char *mode = argv[1];
    const double gap_us = argc > 4 ? atof(argv[4]) : 0;
    packets = argc > 5 ? atoi(argv[5]) : packets;
    if (task && strcmp(mode, "idle") == 0)
        measure_idle(task, atof(argv[2]));
    else if (task && strcmp(mode, "wake") == 0)
        measure_wake(comm, task, atoi(argv[2]), argc > 3 ? atof(argv[3]) : 0);
    else if (task && argc > 3 && size == 2)
        measure_exchange(comm, task, strtoul(argv[2], NULL, 10), atoi(argv[3]), gap_us);
    selvage_comm_destroy(comm);
    MPI_Finalize();
    return task ? 0 : 77;
}
