/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the public calls have in common: parameter structs of any version, the binding of the calling thread, and the
 * way to the engine's thread.
 */
#ifndef SV_API_PARAMS_H
#define SV_API_PARAMS_H

#include <stddef.h>

#include "base/base_status.h"
#include "base/base_thread.h"
#include "comm/comm.h"

/*
 * Copies a caller's struct (which begins with struct_size) into ours. A smaller one leaves our tail zero, which means
 * "default". A larger one is taken if its unknown tail is zero. given NULL stands for all defaults. name is the
 * argument's.
 */
selvage_status_t sv_api_copy_params(const char *name, const void *given, void *ours, size_t ours_bytes);

/*
 * Between enter and leave the thread speaks for the communicator on the log and suffers its faults. ERR_STATE, and
 * left already, where MPI allows its calls to one thread only and this is another one. A call without a communicator
 * begins with sv_thread_begin_call() instead.
 */
selvage_status_t sv_api_enter(const selvage_comm_t *comm);
/* Returns status, so that calls end in `return sv_api_leave(...)`. The detail of a call that succeeds is dropped. */
selvage_status_t sv_api_leave(selvage_status_t status);

/*
 * Copies as much of ours (bytes of it) as fits into the caller's struct, which begins with its struct_size. name is the
 * argument's, and macro is what that struct is to be started from.
 */
selvage_status_t sv_api_fill_struct(const char *name, const char *macro, void *theirs, const void *ours, size_t bytes);

/* Refuses numbers that are no selvage_route_t, or no selvage_checksum_t. */
selvage_status_t sv_api_check_policy(selvage_route_t route, selvage_checksum_t checksum);

/* Refuses a NULL argument by its name. */
#define SV_API_NEED(pointer)                                                                          \
    do {                                                                                              \
        if (!(pointer))                                                                               \
            return sv_error(SELVAGE_ERR_ARGUMENT, "%s: %s is NULL", __func__, #pointer);              \
    } while (0)

#endif
