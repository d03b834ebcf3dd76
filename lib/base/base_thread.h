/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a thread knows about itself: for whom it logs, the detail of its last error, and the faults it is to suffer.
 * Ranks may be threads of one process, so none of this can be a plain global. Every entry point of the library binds
 * the calling thread to its communicator. The library's own threads are bound when they start.
 */
#ifndef SV_BASE_THREAD_H
#define SV_BASE_THREAD_H

#include <stdbool.h>
#include <stddef.h>

struct sv_fault;

enum { SV_DETAIL_BYTES = 1024 };

/* Receives one finished log line, without newline. level is an sv_log_level. */
typedef void (*sv_log_sink_t)(void *arg, int level, const char *line);

typedef struct sv_thread_binding {
    int rank;                 /* rank to print, -1: none */
    int log_level;            /* lines above this level are not printed; from SELVAGE_LOG and SELVAGE_DEBUG */
    int plain_level;          /* lines above this one only of these subsystems: */
    unsigned subsystems;      /* bits as sv_log_subsystems() gives them */
    struct sv_fault *fault;   /* faults to inject into allocations and calls of this thread; NULL: none */
    sv_log_sink_t sink;       /* NULL: standard error */
    void *sink_arg;
} sv_thread_binding_t;

/* The calling thread's binding, never NULL. Until somebody sets it: rank -1, level warn, no faults. */
sv_thread_binding_t *sv_thread_binding(void);

/* The detail text of the call under way, SV_DETAIL_BYTES long: "" until something writes it. */
char *sv_thread_detail(void);
/* An error has been written there: it is the last one, unless the call succeeds all the same. */
void sv_thread_mark_detail(void);
/* What users see: the text of the last call that failed. */
const char *sv_thread_last_detail(void);
/* A public call begins, and ends. What a successful one wrote is dropped, and the text of an earlier one stands. */
void sv_thread_begin_call(void);
void sv_thread_end_call(bool failed);

#endif
