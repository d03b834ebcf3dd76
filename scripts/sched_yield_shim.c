/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For runs beside others; preloaded by scripts/run-mpi, no part of the library. Who waits offers the core in a loop
 * (Open MPI by itself, MPICH by mpich_yield_shim.c), and where several jobs share the cores most of their time goes
 * into such offers. Here every few of a thread are a short sleep, in which others work. Any thread; each counts for
 * itself.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 8, PAUSE_NS = 50000 };

int sched_yield(void)
{
    static _Thread_local unsigned turn;
    turn++;
    if (turn % TURNS != 0)
        return (int)syscall(SYS_sched_yield);
    struct timespec pause = {.tv_nsec = PAUSE_NS};
    nanosleep(&pause, NULL);
    return 0;
}
