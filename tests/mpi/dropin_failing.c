/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs of dropin_unmodified for collective calls that fail on the fast route: whatever is a success is right. */
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixtures/check.h"
#include "dropin_unmodified.h"

enum { NUMBERS = 1 << 18, REPEATS = 10, GOES_ON_MS = 200, AFTER = 3 };
/* With a deadline, of 5 s, longer than that; else as long as shows that a call waits. */
enum { STOPPED_S = 8, BRIEFLY_S = 3 };

typedef struct sums {
    float *send, *recv, *host;
    int good, failed, wrong; /* calls; wrong: a success whose numbers are not right */
} sums_t;

static void copy(void *to, const void *from, selvage_copy_t direction)
{
    selvage_device_copy(the.device, to, from, NUMBERS * sizeof(float), direction, the.stream);
    selvage_stream_synchronize(the.device, the.stream);
}

static void add_up(sums_t *sums, int turn)
{
    for (int i = 0; i < NUMBERS; i++)
        sums->host[i] = (float)(turn % 100 + i % 7 + the.rank);
    copy(sums->send, sums->host, SELVAGE_COPY_HOST_TO_DEVICE);
    selvage_device_fill(the.device, sums->recv, 0xc1, NUMBERS * sizeof(float), the.stream);
    selvage_stream_synchronize(the.device, the.stream);
    bool good = true, last = true;
    for (int i = 0; i < REPEATS; i++) { /* most of the time is spent in the calls, of which all ranks make as many */
        last = MPI_Allreduce(sums->send, sums->recv, NUMBERS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS;
        good = good && last;
    }
    sums->failed += !good;
    if (!last)
        return;
    copy(sums->host, sums->recv, SELVAGE_COPY_DEVICE_TO_HOST);
    bool right = true;
    for (int i = 0; i < NUMBERS; i++)
        right = right && sums->host[i] == (float)(the.ranks * (turn % 100 + i % 7) + the.ranks * (the.ranks - 1) / 2);
    sums->good += good && right;
    sums->wrong += !right;
}

/* A process that stops this one for a while. */
static pid_t stop_later(void)
{
    const pid_t own = getpid(), made = fork();
    if (made == 0) {
        usleep(300000);
        kill(own, SIGSTOP);
        sleep(getenv("SELVAGE_TIMEOUT_S") ? STOPPED_S : BRIEFLY_S);
        kill(own, SIGCONT);
        _exit(0);
    }
    return made;
}

/* One rank stands still for longer than SELVAGE_TIMEOUT_S: some call of another fails, and the next ones are right. */
void run_stopped(void)
{
    sums_t sums = {device_bytes(NUMBERS * sizeof(float)), device_bytes(NUMBERS * sizeof(float)),
                   malloc(NUMBERS * sizeof(float)), 0, 0, 0};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int turn = 0; turn < 5; turn++)
        add_up(&sums, turn);
    CHECK_EQ(sums.failed, 0);
    pid_t other = the.rank == 1 ? stop_later() : 0;
    double over_s = MPI_Wtime();
    for (int turn = 0, goes_on = 1; goes_on; turn++) { /* until the stop is over, and for a while */
        add_up(&sums, turn);
        if (other > 0 && waitpid(other, NULL, WNOHANG) == other)
            other = 0, over_s = MPI_Wtime();
        goes_on = other > 0 || MPI_Wtime() - over_s < GOES_ON_MS * 1e-3;
        MPI_Bcast(&goes_on, 1, MPI_INT, 1, MPI_COMM_WORLD);
    }
    const int failed = sums.failed, good = sums.good;
    for (int turn = 0; turn < AFTER; turn++)
        add_up(&sums, turn);
    CHECK_EQ(sums.wrong, 0);
    CHECK_EQ(sums.failed, failed);
    CHECK_EQ(sums.good, good + AFTER);
    printf("rank %d: %d calls failed\n", the.rank, sums.failed);
    selvage_device_free(the.device, sums.send);
    selvage_device_free(the.device, sums.recv);
    free(sums.host);
}
