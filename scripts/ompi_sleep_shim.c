/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For hundreds of ranks on a few cores; preloaded by scripts/run-mpi, no part of the library. While Open MPI 4 starts
 * and ends, every rank polls with sleeps of 100 us for an answer of the one launcher that serves them all, and starves
 * it. Exactly those sleeps become long here; any other length is kept. Any thread; no state.
 */
#define _DEFAULT_SOURCE
#include <stddef.h>
#include <time.h>
#include <unistd.h>

enum { POLL_US = 100, PATIENT_US = 50000 };

int usleep(useconds_t us)
{
    useconds_t longer_us = us == POLL_US ? PATIENT_US : us;
    struct timespec pause = {.tv_sec = longer_us / 1000000, .tv_nsec = (long)(longer_us % 1000000) * 1000};
    return nanosleep(&pause, NULL);
}
