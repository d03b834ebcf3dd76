/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prepared launches. A kernel that is launched again and again with as many blocks on one stream is made an executable
 * graph of one node, and launched as that, after its node has been given the argument of this launch. On an H200 with
 * CUDA 13 the two calls take 2.5 us and the kernel's word is seen after 5.9, where a plain launch takes 4.1 and 7.6.
 *
 *   the first launches   plain; they are counted
 *   from then on         argument into the node, graph onto the stream
 *
 * A graph whose grid changes from launch to launch is no faster than a plain launch, so that each grid has one of its
 * own. And a graph waits for its own last launch, on whatever stream that was: a kernel that waits for another one
 * must not find itself after it. So each stream has graphs of its own, too, and none is ever used on another stream.
 * Where all places for a launch are taken by graphs, it stays plain.
 *
 * Any thread launches. One that finds a place in use by another thread does not wait, but launches plainly. A stream
 * that is being captured is not given graphs, and the default stream of each thread is no one stream.
 */
#include <stdatomic.h>

#include "device/hip/hip_priv.h"

/* Launches that are counted before one is prepared, which takes as long as ten. */
enum { PREPARED_AFTER = 16 };

static uint64_t hash_launch(const hip_prepared_t *key)
{
    uint64_t hash = (uint64_t)(uintptr_t)key->function ^ (uint64_t)(uintptr_t)key->stream * 0x9e3779b97f4a7c15u;
    hash ^= ((uint64_t)key->nblocks << 32 | key->nthreads) * 0xc2b2ae3d27d4eb4fu;
    hash ^= hash >> 31;
    hash *= 0xd6e8feb86659fd93u;
    hash ^= hash >> 32;
    return hash ? hash : 1;
}

static bool is_same_launch(const hip_prepared_t *place, const hip_prepared_t *key)
{
    return place->function == key->function && place->stream == key->stream && place->nblocks == key->nblocks &&
           place->nthreads == key->nthreads;
}

/* Partner: leave_place(). */
static bool enter_place(hip_prepared_t *place)
{
    return !atomic_flag_test_and_set_explicit(&place->busy, memory_order_acquire);
}

static void leave_place(hip_prepared_t *place)
{
    atomic_flag_clear_explicit(&place->busy, memory_order_release);
}

/* The place of this kind of launch, entered; or NULL, after one that has no graph may have been given to it. */
static hip_prepared_t *enter_place_of(hip_device_t *dev, const hip_prepared_t *key)
{
    const uint64_t tag = hash_launch(key);
    hip_prepared_t *set = dev->prepared[tag % HIP_PREPARED_SETS];
    for (int i = 0; i < HIP_PREPARED_WAYS; i++) {
        if (atomic_load_explicit(&set[i].tag, memory_order_relaxed) != tag)
            continue;
        if (!enter_place(&set[i]))
            return NULL;
        if (is_same_launch(&set[i], key))
            return &set[i];
        leave_place(&set[i]);
    }
    for (int i = 0; i < HIP_PREPARED_WAYS; i++) {
        hip_prepared_t *place = &set[(tag / HIP_PREPARED_SETS + (uint64_t)i) % HIP_PREPARED_WAYS];
        if (!enter_place(place))
            continue;
        const bool is_free = !place->graph.ready;
        if (is_free) {
            place->function = key->function;
            place->stream = key->stream;
            place->nblocks = key->nblocks;
            place->nthreads = key->nthreads;
            place->launches = 1;
            atomic_store_explicit(&place->tag, tag, memory_order_relaxed);
        }
        leave_place(place);
        if (is_free)
            break;
    }
    return NULL;
}

bool sv_hip_launch_prepared(hip_device_t *dev, hipFunction_t function, unsigned nblocks, unsigned nthreads,
                            void **parameters, void *stream, hipError_t *error_out)
{
    const hip_prepared_t key = {.function = function, .stream = stream, .nblocks = nblocks, .nthreads = nthreads};
    if (!dev->prepares || sv_hip_is_default_of_thread((hipStream_t)stream) ||
        sv_hip_stream_is_capturing(&dev->base, stream))
        return false;
    hip_prepared_t *place = enter_place_of(dev, &key);
    if (!place)
        return false;
    hipError_t error = hipErrorUnknown;
    if (!place->graph.ready && ++place->launches >= PREPARED_AFTER) {
        place->launches = 0; /* the next try, if this one fails, is as many launches later */
        hip_ignore(HIP_RUN(dev, sv_hip_prepare(&place->graph, function, nblocks, nthreads, parameters)));
    } else if (place->graph.ready) {
        error = HIP_RUN(dev, sv_hip_set_prepared(&place->graph, function, nblocks, nthreads, parameters));
        hip_ignore(error);
    }
    const bool is_set = error == hipSuccess;
    if (is_set)
        *error_out = HIP_RUN(dev, hipGraphLaunch(place->graph.ready, (hipStream_t)stream));
    leave_place(place);
    return is_set;
}

void sv_hip_drop_prepared(hip_device_t *dev)
{
    for (int i = 0; i < HIP_PREPARED_SETS; i++)
        for (int j = 0; j < HIP_PREPARED_WAYS; j++)
            if (dev->prepared[i][j].graph.ready)
                sv_hip_unprepare(&dev->prepared[i][j].graph);
}
