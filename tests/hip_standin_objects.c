/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See hip_standin.h: what is alive, which call is to fail, and the line at exit. One mutex guards all of it; another,
 * taken before that one, keeps streams alive while they are waited for, whose kernels look objects up. The list owns
 * its elements; the memory and handles they stand for belong to the calls in hip_standin.c.
 */
#include "hip_standin.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_memory.h"

enum { CALLS_MAX = 64 };

static const char *const kind_names[STANDIN_KINDS] = {"device", "host", "registered", "opened", "streams", "events",
                                                      "modules"};

static struct {
    pthread_mutex_t lock, visits; /* visits: of streams, which stay meanwhile */
    sv_list_t objects;
    const char *fail_name;        /* "" for any */
    unsigned long fail_number;    /* 0: none */
    const char *failed;           /* the call that was */
    unsigned long calls, misuses;
    struct {
        const char *name;
        unsigned long count;
    } call[CALLS_MAX];
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .visits = PTHREAD_MUTEX_INITIALIZER, .fail_name = ""};

__attribute__((constructor)) static void begin(void)
{
    static char name[64];
    const char *wanted = getenv("HIP_STANDIN_FAIL");
    const char *colon = wanted ? strchr(wanted, ':') : NULL;
    sv_list_init(&state.objects);
    if (colon) {
        snprintf(name, sizeof name, "%.*s", (int)(colon - wanted), wanted);
        state.fail_name = name;
        wanted = colon + 1;
    }
    if (wanted)
        state.fail_number = strtoul(wanted, NULL, 10);
}

static unsigned long count_alive(standin_kind_t kind)
{
    unsigned long count = 0;
    for (const sv_list_t *it = state.objects.next; it != &state.objects; it = it->next)
        count += SV_CONTAINER_OF(it, standin_object_t, link)->kind == kind;
    return count;
}

__attribute__((destructor)) static void end(void)
{
    char alive[256] = "";
    size_t used = 0;
    for (int kind = 0; kind < STANDIN_KINDS; kind++) {
        unsigned long count = count_alive((standin_kind_t)kind);
        if (count > 0)
            used += (size_t)snprintf(alive + used, sizeof alive - used, " %lu %s", count, kind_names[kind]);
    }
    fprintf(stderr, "hip stand-in: %lu calls, failed %s, alive%s, %lu misuses\n", state.calls,
            state.failed ? state.failed : "none", used ? alive : " none", state.misuses);
    for (int i = 0; i < CALLS_MAX && state.call[i].name && getenv("HIP_STANDIN_COUNTS"); i++)
        fprintf(stderr, "hip stand-in: count %s %lu\n", state.call[i].name, state.call[i].count);
}

/* Calls so far by this name, with this one. */
static unsigned long count_call(const char *call)
{
    int i = 0;
    while (i < CALLS_MAX - 1 && state.call[i].name && strcmp(state.call[i].name, call) != 0)
        i++;
    state.call[i].name = call;
    return ++state.call[i].count;
}

bool standin_call(const char *call)
{
    pthread_mutex_lock(&state.lock);
    unsigned long number = count_call(call);
    state.calls++;
    bool fails = state.fail_number > 0 && (state.fail_name[0] ? strcmp(state.fail_name, call) == 0 &&
                                           number == state.fail_number : state.calls == state.fail_number);
    if (fails)
        state.failed = call;
    pthread_mutex_unlock(&state.lock);
    return fails;
}

void standin_misuse(const char *call, const char *what)
{
    pthread_mutex_lock(&state.lock);
    state.misuses++;
    pthread_mutex_unlock(&state.lock);
    fprintf(stderr, "hip stand-in: misuse in %s: %s\n", call, what);
}

bool standin_add(const standin_object_t *object)
{
    standin_object_t *copy = NULL;
    if (sv_calloc(1, sizeof *copy, &copy) != SELVAGE_SUCCESS)
        return false;
    *copy = *object;
    pthread_mutex_lock(&state.lock);
    sv_list_append(&state.objects, &copy->link);
    pthread_mutex_unlock(&state.lock);
    return true;
}

static bool holds(const void *base, size_t size, const void *ptr, size_t bytes)
{
    uintptr_t begin_at = (uintptr_t)base, at = (uintptr_t)ptr;
    return base && at >= begin_at && at - begin_at <= size && bytes <= size - (at - begin_at);
}

/* With a NULL range looks for the handle itself. */
static standin_object_t *find_locked(standin_kind_t kind, const void *ptr, const size_t *range)
{
    for (sv_list_t *it = state.objects.next; it != &state.objects; it = it->next) {
        standin_object_t *object = SV_CONTAINER_OF(it, standin_object_t, link);
        if (object->kind != kind)
            continue;
        if (range ? holds(object->ptr, object->bytes, ptr, *range) || holds(object->alias, object->bytes, ptr, *range)
                  : object->ptr == ptr)
            return object;
    }
    return NULL;
}

bool standin_take(standin_kind_t kind, const void *ptr, standin_object_t *object_out)
{
    if (kind == STANDIN_STREAM)
        pthread_mutex_lock(&state.visits);
    pthread_mutex_lock(&state.lock);
    standin_object_t *object = find_locked(kind, ptr, NULL);
    if (object) {
        sv_list_remove(&object->link);
        *object_out = *object;
    }
    pthread_mutex_unlock(&state.lock);
    if (kind == STANDIN_STREAM)
        pthread_mutex_unlock(&state.visits);
    sv_free(object);
    return object != NULL;
}

static bool find(standin_kind_t kind, const void *ptr, const size_t *range, standin_object_t *object_out)
{
    pthread_mutex_lock(&state.lock);
    const standin_object_t *object = find_locked(kind, ptr, range);
    if (object)
        *object_out = *object;
    pthread_mutex_unlock(&state.lock);
    return object != NULL;
}

bool standin_find(standin_kind_t kind, const void *ptr, standin_object_t *object_out)
{
    return find(kind, ptr, NULL, object_out);
}

bool standin_find_range(standin_kind_t kind, const void *ptr, size_t bytes, standin_object_t *object_out)
{
    return find(kind, ptr, &bytes, object_out);
}

/* The first stream of the GPU after so many others of it. */
static void *stream_locked(int gpu, int before)
{
    for (sv_list_t *it = state.objects.next; it != &state.objects; it = it->next) {
        standin_object_t *object = SV_CONTAINER_OF(it, standin_object_t, link);
        if (object->kind == STANDIN_STREAM && object->gpu == gpu && before-- == 0)
            return object->ptr;
    }
    return NULL;
}

void standin_visit_streams(int gpu, void (*visit)(void *stream, void *arg), void *arg)
{
    void *stream;
    int visited = 0;
    pthread_mutex_lock(&state.visits);
    do {
        pthread_mutex_lock(&state.lock);
        stream = stream_locked(gpu, visited++);
        pthread_mutex_unlock(&state.lock);
        if (stream)
            visit(stream, arg);
    } while (stream);
    pthread_mutex_unlock(&state.visits);
}
