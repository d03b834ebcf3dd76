/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks as threads, for tests of the exchange engine. local_ranks_run() makes a world of the local wire, runs one
 * thread per rank with a communicator and a software device of its own, and afterwards checks that nothing was logged
 * that should not be and that no memory of the library is left. Settings come from the environment, which must not
 * change while ranks run.
 */
#ifndef SELVAGE_TESTS_LOCAL_RANKS_H
#define SELVAGE_TESTS_LOCAL_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include <selvage/comm.h>
#include <selvage/device.h>
#include <selvage/exchange.h>
#include <selvage/stats.h>

typedef struct local_world local_world_t;

/* What a rank's thread knows. */
typedef struct local_rank {
    int rank, size;
    selvage_comm_t *comm;      /* NULL if it could not be created */
    selvage_device_t *dev;     /* the communicator's; memory of the soft device is plain host memory */
    void *arg;                 /* of the run */
    selvage_status_t created;
    char created_detail[1024]; /* why not */
    local_world_t *world;
} local_rank_t;

typedef struct local_run {
    int size;
    int ranks_per_node;        /* 0: all on one node */
    void (*body)(local_rank_t *self);
    void *arg;
    bool log_expected;         /* lines at warn and above are part of the test; else each fails it */
    bool create_may_fail;      /* then body runs with a comm that may be NULL */
    bool may_set_aside;        /* memory set aside for good is allowed; local_ranks_left() tells how much */
} local_run_t;

void local_ranks_run(const local_run_t *run);

/* Drives the communicator until all ranks of the run are there. */
void local_ranks_barrier(local_rank_t *self);

/* Whether a line of the log of this rank contains the text. */
bool local_ranks_logged(local_rank_t *self, const char *text);

/* The same for any rank of the run before, and how often it was said by all together; no rank may run. */
bool local_ranks_any_logged(const char *text);
int local_ranks_count_logged(const char *text);

/* Allocations of the library that the last run left behind. */
int64_t local_ranks_left(void);

/* Forgets all SELVAGE_ variables, then sets those of a list "NAME=value NAME=value", without their prefix. */
void local_ranks_env(const char *list);
/* The same, with a second list that is kept over calls of the above: how a test is repeated in other modes. */
void local_ranks_mode(const char *list);

/* Patterns: bytes that say which packet of which epoch they belong to. */
void local_ranks_fill(uint8_t *bytes, size_t count, uint64_t key);
/* Position of the first byte that is wrong; -1 if there is none. */
long local_ranks_wrong(const uint8_t *bytes, size_t count, uint64_t key);
/* A small generator for plans; state is any number. */
uint64_t local_ranks_random(uint64_t *state, uint64_t bound);

#endif
