/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The progress thread: SELVAGE_PROGRESS=thread. It advances the requests in flight while the program computes, and
 * completes those that the program ends by calls that the drop-in does not see. It runs from MPI_Init to MPI_Finalize,
 * calls MPI from its own thread, and owns nothing.
 */
#include "interpose/drop.h"

#include <signal.h>
#include <time.h>

static struct {
    pthread_t thread;
    _Atomic bool stop;
    bool has_thread;
} progress;

bool sv_drop_make_thread(pthread_t *thread, void *(*run)(void *))
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool made = pthread_create(thread, NULL, run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return made;
}

/* A new thread begins with the runtime's first GPU as its current one: it changes to the drop-in's. */
static void *run_thread(void *arg)
{
    const struct timespec pause = {0, 20000};
    selvage_device_t *current = NULL;
    (void)arg;
    /* Partner: the release in sv_drop_thread_end(). */
    while (!atomic_load_explicit(&progress.stop, memory_order_acquire)) {
        if (sv_drop_is_busy()) {
            if (current != sv_drop_device()) { /* tried once: a device that cannot be used fails the copies, too */
                current = sv_drop_device();
                (void)selvage_device_make_current(current);
            }
            sv_drop_progress();
        }
        nanosleep(&pause, NULL);
    }
    return NULL;
}

void sv_drop_thread_begin(void)
{
    int level = 0;
    PMPI_Query_thread(&level);
    if (level < MPI_THREAD_MULTIPLE)
        sv_drop_warn("SELVAGE_PROGRESS=thread needs MPI_THREAD_MULTIPLE, which this MPI did not give: no thread");
    else
        progress.has_thread = sv_drop_make_thread(&progress.thread, run_thread);
}

void sv_drop_thread_end(void)
{
    if (!progress.has_thread)
        return;
    /* Partner: the acquire in run_thread(). */
    atomic_store_explicit(&progress.stop, true, memory_order_release);
    pthread_join(progress.thread, NULL);
    progress.has_thread = false;
}
