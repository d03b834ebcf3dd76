/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A communicator of collectives under settings of its own: the library reads its variables when a communicator is
 * made, so each setting has one. And a call on it, as something that can be measured.
 */
#ifndef SELVAGE_BENCH_COLL_SETTING_H
#define SELVAGE_BENCH_COLL_SETTING_H

#include "tools/bench_coll/bench_coll_case.h"
#include "tools/bench_coll/bench_coll_env.h"
#include "tools/bench_coll/bench_coll_way.h"
#include "tools/bench/bench_run.h"

/* What every setting works with; borrowed. */
typedef struct bench_ground {
    const tool_job_t *job;
    selvage_device_t *device;
    void *stream;
    unsigned char *send, *recv; /* device memory */
    size_t capacity;            /* of either */
} bench_ground_t;

typedef struct bench_setting {
    const bench_ground_t *ground;
    bench_wish_t wish;
    bool ready;                      /* on all ranks */
    char reason[BENCH_REASON_BYTES]; /* why not */
    selvage_comm_t *comm;
    selvage_coll_t *coll;
    selvage_window_t *windows[2];
} bench_setting_t;

/* One call, with its operation made. */
typedef struct bench_made {
    bench_setting_t *setting;
    const bench_case_t *what;
    const unsigned char *send;
    unsigned char *recv;
    selvage_op_t op;
    int group; /* calls of an enqueuing, each with a block of its own in both buffers; 0: one without a group */
} bench_made_t;

/* Collective. Partner: bench_setting_close(), also where it is not ready. */
void bench_setting_open(bench_setting_t *setting, const bench_ground_t *ground, const bench_wish_t *wish);
void bench_setting_close(bench_setting_t *setting);

/* False, and why in the setting, if the call is refused; it is made once to see. Collective. Partner:
   bench_made_fini(). */
bool bench_made_init(bench_made_t *made, bench_setting_t *setting, const bench_case_t *what, int group);
void bench_made_fini(bench_made_t *made);

/* A bench_body_t each. The latter returns when all is complete, and ends the job if anything failed. */
void bench_made_enqueue(void *context);
void bench_made_finish(void *context);

/* Makes a call on a setting that tells, and reads on rank 0 what it logs. Collective; the same on all ranks. */
bench_way_t bench_setting_way(bench_setting_t *setting, const bench_case_t *what);

#endif
