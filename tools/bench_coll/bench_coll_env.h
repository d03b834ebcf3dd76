/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a setting wishes, as SELVAGE_ variables that are in the environment while its communicator is made: the library
 * reads them then, and refuses those that it does not know. One thread.
 */
#ifndef SELVAGE_BENCH_COLL_ENV_H
#define SELVAGE_BENCH_COLL_ENV_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/common/tool_job.h"

/* NULL or 0: what the environment says, or the library's own choice. */
typedef struct bench_wish {
    const char *algo, *proto, *channels;
    size_t fifo_bytes;
    bool registered, checksum;
    bool tell; /* calls are logged */
} bench_wish_t;

enum { BENCH_VARIABLES_MAX = 10, BENCH_PATH_BYTES = 256 };

typedef struct bench_variable {
    const char *name, *value;
    char *before; /* owned; NULL: was not set */
} bench_variable_t;

/* Must not move while it is entered: variables point into it. */
typedef struct bench_env {
    bench_variable_t variables[BENCH_VARIABLES_MAX];
    int count;
    char fifo[24], path[BENCH_PATH_BYTES];
    bool owns_path;
} bench_env_t;

/* Returns the name of a variable that this library does not have, with nothing set; else NULL. Collective. Partner:
   bench_env_leave(), once all ranks have read the variables. */
const char *bench_env_enter(bench_env_t *env, const tool_job_t *job, const bench_wish_t *wish);
void bench_env_leave(bench_env_t *env);

#endif
