/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See local_ranks.h. Each rank's log lines are kept in a buffer of its own under a mutex, because a progress thread may
 * log for the same rank. Nothing of a run survives it but the count of what it left.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "local_ranks.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_thread.h"
#include "check.h"
#include "comm/comm.h"
#include "pipeline/exchange_set.h"
#include "wire/wire_local.h"

enum { RANKS_MAX = 16, LOG_BYTES = 1 << 16, WORD_BYTES = 256 };

extern char **environ;

typedef struct rank_log {
    pthread_mutex_t mutex;
    bool expected;
    size_t used;
    char text[LOG_BYTES];
} rank_log_t;

struct local_world {
    const local_run_t *run;
    sv_wire_world_t *wires;
    _Atomic int arrived;       /* at barriers, over the whole run */
    rank_log_t logs[RANKS_MAX];
    local_rank_t ranks[RANKS_MAX];
};

static local_world_t the_world; /* large; one run at a time */
static int64_t left_behind;
static char mode_list[512];
static pid_t folder_owner;
static char folder[128]; /* for flight recorders, which would fill standard error */

/* Keeps what fits: the first lines are the ones that tell. */
static void log_sink(void *arg, int level, const char *line)
{
    rank_log_t *log = arg;
    size_t bytes = strlen(line) + 1;
    pthread_mutex_lock(&log->mutex);
    if (log->used + bytes < LOG_BYTES) {
        memcpy(log->text + log->used, line, bytes);
        log->text[log->used + bytes - 1] = '\n';
        log->used += bytes;
        log->text[log->used] = '\0';
    }
    pthread_mutex_unlock(&log->mutex);
    if (level <= SV_LOG_WARN && !log->expected) {
        fprintf(stderr, "%s\n", line);
        CHECK(!"a line on the log that was not expected");
    }
}

bool local_ranks_logged(local_rank_t *self, const char *text)
{
    rank_log_t *log = &self->world->logs[self->rank];
    pthread_mutex_lock(&log->mutex);
    bool found = strstr(log->text, text) != NULL;
    pthread_mutex_unlock(&log->mutex);
    return found;
}

static void create_comm(local_rank_t *self)
{
    sv_wire_t *wire;
    self->created = sv_wire_local_open(self->world->wires, self->rank, &wire);
    if (self->created == SELVAGE_SUCCESS)
        self->created = sv_comm_create(wire, NULL, &sv_exchange_set_ops, &self->comm);
    sv_thread_binding()->fault = NULL; /* as the public calls do: no faults outside the library */
    snprintf(self->created_detail, sizeof self->created_detail, "%s", selvage_error_detail());
    if (self->created != SELVAGE_SUCCESS)
        self->comm = NULL;
    self->dev = selvage_comm_device(self->comm);
}

static void *rank_main(void *arg)
{
    local_rank_t *self = arg;
    const local_run_t *run = self->world->run;
    sv_thread_binding()->sink = log_sink;
    sv_thread_binding()->sink_arg = &self->world->logs[self->rank];
    sv_thread_binding()->rank = self->rank;
    create_comm(self);
    if (!run->create_may_fail)
        CHECK_STATUS(self->created, SELVAGE_SUCCESS);
    if (self->comm || run->create_may_fail)
        run->body(self);
    selvage_comm_destroy(self->comm);
    return NULL;
}

static bool open_world(const local_run_t *run, local_world_t *world)
{
    memset(world, 0, sizeof *world); /* no thread of an earlier run is left */
    world->run = run;
    CHECK(run->size <= RANKS_MAX);
    if (sv_wire_world_create(run->size, run->ranks_per_node, &world->wires) != SELVAGE_SUCCESS) {
        CHECK(!"no world");
        return false;
    }
    for (int r = 0; r < run->size; r++) {
        world->ranks[r] = (local_rank_t){.rank = r, .size = run->size, .arg = run->arg, .world = world};
        world->logs[r].expected = run->log_expected;
        pthread_mutex_init(&world->logs[r].mutex, NULL);
    }
    return true;
}

/* After a failed check the log is what one wants to see. */
static void show_logs(const local_world_t *world)
{
    for (int r = 0; r < world->run->size; r++)
        fprintf(stderr, "-- log of rank %d:\n%.3000s", r, world->logs[r].text);
}

static void close_world(local_world_t *world)
{
    sv_wire_world_destroy(world->wires);
    for (int r = 0; r < world->run->size; r++)
        pthread_mutex_destroy(&world->logs[r].mutex);
}

void local_ranks_run(const local_run_t *run)
{
    pthread_t threads[RANKS_MAX];
    int64_t before = sv_memory_live();
    long failed = atomic_load(&check_failed_);
    if (!open_world(run, &the_world))
        return;
    for (int r = 0; r < run->size; r++)
        CHECK_EQ(pthread_create(&threads[r], NULL, rank_main, &the_world.ranks[r]), 0);
    for (int r = 0; r < run->size; r++)
        pthread_join(threads[r], NULL);
    close_world(&the_world);
    left_behind = sv_memory_live() - before;
    if (!run->may_set_aside)
        CHECK_EQ(left_behind, 0);
    if (atomic_load(&check_failed_) != failed)
        show_logs(&the_world);
}

bool local_ranks_any_logged(const char *text)
{
    for (int r = 0; r < RANKS_MAX; r++)
        if (strstr(the_world.logs[r].text, text))
            return true;
    return false;
}

int local_ranks_count_logged(const char *text)
{
    int count = 0;
    for (int r = 0; r < RANKS_MAX; r++)
        for (const char *at = the_world.logs[r].text; (at = strstr(at, text)) != NULL; at++)
            count++;
    return count;
}

int64_t local_ranks_left(void)
{
    return left_behind;
}

void local_ranks_barrier(local_rank_t *self)
{
    int wanted = (atomic_fetch_add(&self->world->arrived, 1) / self->size + 1) * self->size;
    while (atomic_load(&self->world->arrived) < wanted) {
        (void)selvage_progress(self->comm);
        sched_yield();
    }
}

static void forget_variables(void)
{
    char name[WORD_BYTES];
    for (char **at = environ; *at;) {
        size_t length = strcspn(*at, "=");
        if (strncmp(*at, "SELVAGE_", 8) != 0 || length >= sizeof name) {
            at++;
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)length, *at);
        unsetenv(name);
        at = environ; /* the list has moved */
    }
}

static void set_variables(const char *list)
{
    char word[WORD_BYTES] = "SELVAGE_";
    while (*(list += strspn(list, " ")) != '\0') {
        size_t length = strcspn(list, " ");
        snprintf(word + 8, sizeof word - 8, "%.*s", (int)length, list);
        char *value = strchr(word, '=');
        *value++ = '\0';
        setenv(word, value, 1);
        list += length;
    }
}

/* Not by children of the test, which leave it to their parent. */
static void remove_folder(void)
{
    if (getpid() != folder_owner)
        return;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(folder);
}

static void make_folder(void)
{
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/selvage-test-XXXXXX", parent && strlen(parent) < 80 ? parent : "/tmp");
    if (!mkdtemp(folder))
        abort();
    folder_owner = getpid();
    atexit(remove_folder);
}

void local_ranks_env(const char *list)
{
    char flight[160];
    if (!folder[0])
        make_folder();
    forget_variables();
    snprintf(flight, sizeof flight, "FLIGHT_FILE=%s/flight", folder);
    set_variables(flight);
    set_variables(mode_list);
    set_variables(list);
}

void local_ranks_mode(const char *list)
{
    snprintf(mode_list, sizeof mode_list, "%s", list);
    local_ranks_env("");
}

/* One number per eight bytes, from a multiply and shift of key and position. */
static uint64_t pattern(uint64_t key, size_t word)
{
    uint64_t x = (key + word) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 32;
}

void local_ranks_fill(uint8_t *bytes, size_t count, uint64_t key)
{
    for (size_t i = 0; i < count; i += 8) {
        uint64_t word = pattern(key, i / 8);
        memcpy(bytes + i, &word, count - i < 8 ? count - i : 8);
    }
}

long local_ranks_wrong(const uint8_t *bytes, size_t count, uint64_t key)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t word = pattern(key, i / 8);
        if (bytes[i] != ((const uint8_t *)&word)[i % 8])
            return (long)i;
    }
    return -1;
}

uint64_t local_ranks_random(uint64_t *state, uint64_t bound)
{
    *state += UINT64_C(0x632be59bd9b4e019);
    return pattern(*state, 0) % bound;
}
