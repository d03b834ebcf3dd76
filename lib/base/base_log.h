/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: one line per message, "selvage[rank@host] level: component: text", on standard error or the thread's sink.
 * The text is lower case and names what a user can act on. Nothing on the hot path logs.
 */
#ifndef SV_BASE_LOG_H
#define SV_BASE_LOG_H

#include <stdbool.h>

typedef enum sv_log_level {
    SV_LOG_ERROR = 1,
    SV_LOG_WARN = 2,
    SV_LOG_INFO = 3,
    SV_LOG_DEBUG = 4,
    SV_LOG_TRACE = 5
} sv_log_level_t;

/*
 * The subsystems that a list such as "COLL,INIT" (either case) names, as bits; everything for an empty list or ALL. A
 * subsystem is a group of components. Returns false, and does nothing, for an unknown name.
 */
bool sv_log_subsystems(const char *list, unsigned *mask_out);

/* Prints if the thread's level allows. component is the module: "wire", "pipeline", ... */
void sv_log(sv_log_level_t level, const char *component, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
