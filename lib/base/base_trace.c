/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trace rings, and the process-wide list of them that SIGUSR1 walks. Adding a record takes a handful of relaxed stores
 * and one release. The handler reads without stopping the writer.
 *
 * The list is the one global here, because a signal has no argument. It changes under a mutex that the handler never
 * takes. The handler announces itself in walkers instead. A trace that was taken off the list is not freed before every
 * walker is gone. The handler stays installed when the last trace leaves, because a job that is asked for its state
 * must not die of it.
 */
#include "base/base_trace.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"

static struct {
    pthread_mutex_t change;      /* for those who add and remove; never taken in the handler */
    sv_trace_t *_Atomic first;
    _Atomic int walkers;
    void (*mpi_handler)(int);    /* MPI's own handler, called after ours; set before ours is installed */
} traces = {.change = PTHREAD_MUTEX_INITIALIZER};

/*
 * walkers and the links are sequentially consistent. If the handler's load of a link follows the removal, it does not
 * see the trace. Otherwise its increment precedes the wait in sv_trace_fini(), which then sees it.
 */
static void write_all_on_signal(int signal_number)
{
    int callers_errno = errno;
    atomic_fetch_add(&traces.walkers, 1);
    sv_trace_t *trace = atomic_load(&traces.first);
    while (trace) {
        sv_trace_flight_write(trace, "SIGUSR1");
        trace = __atomic_load_n(&trace->next, __ATOMIC_SEQ_CST);
    }
    atomic_fetch_sub(&traces.walkers, 1);
    if (traces.mpi_handler)
        traces.mpi_handler(signal_number);
    errno = callers_errno;
}

/* Whether code at this address lies in an MPI library. */
static bool is_of_mpi(uintptr_t address)
{
    char line[512], path[256];
    unsigned long from, to;
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && !found && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %255s", &from, &to, path) != 3 || address < from || address >= to)
            continue;
        const char *slash = strrchr(path, '/');
        found = slash && strncmp(slash + 1, "libmpi", strlen("libmpi")) == 0;
    }
    if (maps)
        fclose(maps);
    return found;
}

/*
 * Installs the handler only where the signal would end the process, and leaves an application's own handler alone.
 * MPICH is the exception: it takes SIGUSR1 in MPI_Init, to hear of processes that failed, and its handler is called
 * after ours.
 */
static void install_handler(void)
{
    struct sigaction action;
    if (sigaction(SIGUSR1, NULL, &action) != 0 || (action.sa_flags & SA_SIGINFO) ||
        action.sa_handler == write_all_on_signal || action.sa_handler == SIG_IGN)
        return;
    if (action.sa_handler != SIG_DFL) {
        if (!is_of_mpi((uintptr_t)action.sa_handler))
            return;
        traces.mpi_handler = action.sa_handler;
    }
    memset(&action, 0, sizeof action);
    action.sa_handler = write_all_on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
}

selvage_status_t sv_trace_init(sv_trace_t *trace, int rank, uint64_t timeline_events, const char *flight_file,
                               bool with_signal)
{
    memset(trace, 0, sizeof *trace);
    trace->rank = rank;
    if (flight_file[0] != '\0') {
        int length = snprintf(trace->flight_path, sizeof trace->flight_path, "%s.%d", flight_file, rank);
        if (length < 0 || length >= (int)sizeof trace->flight_path)
            return sv_error(SELVAGE_ERR_CONFIG, "the name of the flight recorder's file is too long: %.200s...",
                            flight_file);
    }
    if (timeline_events > 0) {
        SV_TRY(sv_calloc(timeline_events, sizeof *trace->timeline, &trace->timeline));
        trace->timeline_capacity = timeline_events;
        trace->timeline_on = true;
    }
    if (with_signal) {
        pthread_mutex_lock(&traces.change);
        __atomic_store_n(&trace->next, atomic_load(&traces.first), __ATOMIC_SEQ_CST);
        atomic_store(&traces.first, trace);
        install_handler();
        pthread_mutex_unlock(&traces.change);
    }
    return SELVAGE_SUCCESS;
}

void sv_trace_fini(sv_trace_t *trace)
{
    if (!trace)
        return;
    /* Take the trace off the list if it is there. The mutex keeps the links still; the atomics are for the handler. */
    pthread_mutex_lock(&traces.change);
    sv_trace_t *previous = NULL, *it = atomic_load(&traces.first);
    while (it && it != trace) {
        previous = it;
        it = it->next;
    }
    if (it && previous)
        __atomic_store_n(&previous->next, it->next, __ATOMIC_SEQ_CST);
    else if (it)
        atomic_store(&traces.first, it->next);
    pthread_mutex_unlock(&traces.change);
    /* A handler that met the trace before that may still be reading it. */
    while (it && atomic_load(&traces.walkers) != 0)
        sched_yield();
    sv_free(trace->timeline);
    trace->timeline = NULL;
    trace->timeline_on = false;
    trace->timeline_capacity = trace->timeline_count = 0;
}

/* Relaxed member by member, because a signal handler on another thread may be reading this slot. */
static inline void store_shared(sv_trace_record_t *slot, const sv_trace_record_t *record)
{
    __atomic_store_n(&slot->begin_ns, record->begin_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->end_ns, record->end_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->epoch, record->epoch, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->value, record->value, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->packet, record->packet, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->peer, record->peer, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->kind, record->kind, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->route, record->route, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->exchange, record->exchange, __ATOMIC_RELAXED);
}

/* The release is the partner of the acquire in sv_trace_flight_write(). */
void sv_trace_add(sv_trace_t *trace, const sv_trace_record_t *record)
{
    uint64_t count = trace->flight_count;
    store_shared(&trace->flight[count % SV_FLIGHT_RECORDS], record);
    __atomic_store_n(&trace->flight_count, count + 1, __ATOMIC_RELEASE);
    if (!trace->timeline_on)
        return;
    if (trace->timeline_count < trace->timeline_capacity)
        trace->timeline[trace->timeline_count++] = *record;
    else
        trace->timeline_dropped++;
}
