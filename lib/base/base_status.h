/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors inside the library. The first function that decides that something is an error calls sv_error(). That sets the
 * calling thread's detail text, logs it, and returns the status. Everyone above passes the status on in silence
 * (SV_TRY), so that one mistake makes one line in the log.
 */
#ifndef SV_BASE_STATUS_H
#define SV_BASE_STATUS_H

#include <stdint.h>

#include <selvage/status.h>

/* Sets the thread's detail text and logs it at error level. Returns status. */
selvage_status_t sv_error(selvage_status_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As sv_error() without the log line: for errors that are handed on by somebody who has logged already. */
selvage_status_t sv_error_quiet(selvage_status_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The status that another rank, or a word in memory that others write, claims. ERR_INTERNAL if there is none such.
   of_error: it must be an error, too. */
selvage_status_t sv_status_of(int64_t number);
selvage_status_t sv_status_of_error(int64_t number);

/* Evaluates expr; returns its status from the calling function unless it is SELVAGE_SUCCESS. */
#define SV_TRY(expr)                                    \
    do {                                                \
        selvage_status_t sv_try_status_ = (expr);       \
        if (sv_try_status_ != SELVAGE_SUCCESS)          \
            return sv_try_status_;                      \
    } while (0)

/* Evaluates expr into the variable status; jumps to label unless it is SELVAGE_SUCCESS. */
#define SV_TRY_GOTO(status, expr, label)                \
    do {                                                \
        (status) = (expr);                              \
        if ((status) != SELVAGE_SUCCESS)                \
            goto label;                                 \
    } while (0)

#endif
