/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment of a setting. No variable tells the two direct algorithms apart; a tuning file of a line for each
 * call does, which rank 0 writes for its own host.
 */
#define _GNU_SOURCE

#include "tools/bench_coll/bench_coll_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <selvage.h>

typedef struct search {
    const char *name;
    bool found;
} search_t;

static void compare_name(void *arg, const selvage_setting_t *setting)
{
    search_t *search = arg;
    search->found |= strcmp(setting->name, search->name) == 0;
}

static bool is_known(const char *name)
{
    search_t search = {name, false};
    return selvage_config_visit(compare_name, &search) == SELVAGE_SUCCESS && search.found;
}

static bool is_exact(const char *algo)
{
    return algo && strncmp(algo, "direct_", strlen("direct_")) == 0;
}

/* The calls that can go one way go both, but for those of blocks. */
static void write_lines(FILE *file, const char *algo, int ranks)
{
    static const char *const blocks[] = {"reduce_scatter", "all_gather", "all_to_all"};
    static const char *const whole[] = {"all_reduce", "broadcast", "reduce"};
    for (int i = 0; i < 3; i++) {
        fprintf(file, "%s %d 256T %s simple 0\n", whole[i], ranks, algo);
        if (strcmp(algo, "direct_one") == 0)
            fprintf(file, "%s %d 256T %s simple 0\n", blocks[i], ranks, algo);
    }
}

static void write_exact(bench_env_t *env, const tool_job_t *job, const char *algo)
{
    const char *folder = getenv("TMPDIR");
    if (job->rank == 0) {
        snprintf(env->path, sizeof env->path, "%.200s/selvage-bench-XXXXXX", folder ? folder : "/tmp");
        const int descriptor = mkstemp(env->path);
        FILE *file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
        if (!file)
            tool_die_text(job, "no file can be written in TMPDIR");
        write_lines(file, algo, job->size);
        fclose(file);
        env->owns_path = true;
    }
    tool_bcast(job, env->path, sizeof env->path, MPI_BYTE);
}

static void list_variables(bench_env_t *env, const bench_wish_t *wish)
{
    snprintf(env->fifo, sizeof env->fifo, "%zu", wish->fifo_bytes);
    const bench_variable_t all[] = {
        {"SELVAGE_COLL_ALGO", is_exact(wish->algo) ? "auto" : wish->algo, NULL},
        {"SELVAGE_COLL_PROTO", wish->proto, NULL},
        {"SELVAGE_COLL_CHANNELS_MIN", wish->channels, NULL},
        {"SELVAGE_COLL_CHANNELS_MAX", wish->channels, NULL},
        {"SELVAGE_COLL_TUNE", is_exact(wish->algo) ? env->path : NULL, NULL},
        {"SELVAGE_COLL_CHECKSUM", wish->checksum ? "on" : "off", NULL},
        {"SELVAGE_WORK_FIFO_BYTES", wish->fifo_bytes ? env->fifo : NULL, NULL},
        {"SELVAGE_LOG", wish->tell ? "info" : NULL, NULL},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i].value)
            env->variables[env->count++] = all[i];
    }
}

const char *bench_env_enter(bench_env_t *env, const tool_job_t *job, const bench_wish_t *wish)
{
    *env = (bench_env_t){.count = 0};
    if (is_exact(wish->algo))
        write_exact(env, job, wish->algo);
    list_variables(env, wish);
    for (int i = 0; i < env->count; i++) {
        if (is_known(env->variables[i].name))
            continue;
        const char *unknown = env->variables[i].name;
        env->count = 0;
        bench_env_leave(env);
        return unknown;
    }
    for (int i = 0; i < env->count; i++) {
        bench_variable_t *variable = &env->variables[i];
        const char *before = getenv(variable->name);
        variable->before = before ? strdup(before) : NULL;
        setenv(variable->name, variable->value, 1);
    }
    return NULL;
}

void bench_env_leave(bench_env_t *env)
{
    for (; env->count > 0; env->count--) {
        bench_variable_t *variable = &env->variables[env->count - 1];
        if (variable->before)
            setenv(variable->name, variable->before, 1);
        else
            unsetenv(variable->name);
        free(variable->before);
    }
    if (env->owns_path)
        unlink(env->path);
    env->owns_path = false;
}
