/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prepared launches. A kernel that is launched again and again with as many blocks on one stream is made an executable
 * graph of one node, and launched as that, after its node has been given the argument of this launch. On an H200 with
 * CUDA 13 the two calls take 2.5 us and the kernel's word is seen after 5.9, where a plain launch takes 4.1 and 7.6.
 *
 * A graph whose grid changes from launch to launch is no faster, so that each grid has one of its own. A graph waits
 * for its own last launch, on whatever stream that was, and a kernel that waits for another one must not find itself
 * after it. So each stream has graphs of its own, too, known by a number that no later stream has.
 *
 * Any thread launches. One that finds a place in use by another thread does not wait, but launches plainly. Streams
 * that are captured are given no graphs.
 */
#include "base/base_log.h"
#include "device/hip/hip_priv.h"

enum {
    PREPARED_AFTER = 16, /* launches that are counted first: to prepare one takes as long as ten */
    CREDIT_MOST = 64     /* launches of other kinds in want of its place that a kind outlives after its last */
};

static uint64_t hash_launch(const hip_launch_key_t *key)
{
    uint64_t hash = (uint64_t)(uintptr_t)key->function ^ key->stream * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= ((uint64_t)key->nblocks << 32 | key->nthreads) * UINT64_C(0xc2b2ae3d27d4eb4f);
    hash ^= hash >> 31;
    hash *= UINT64_C(0xd6e8feb86659fd93);
    hash ^= hash >> 32;
    return hash ? hash : 1;
}

static bool is_same_launch(const hip_launch_key_t *a, const hip_launch_key_t *b)
{
    return a->function == b->function && a->stream == b->stream && a->nblocks == b->nblocks &&
           a->nthreads == b->nthreads;
}

/* Partner: leave_place(). */
static bool enter_place(hip_prepared_t *place)
{
    return !atomic_flag_test_and_set_explicit(&place->busy, memory_order_acquire);
}

/* Partner: enter_place(). */
static void leave_place(hip_prepared_t *place)
{
    atomic_flag_clear_explicit(&place->busy, memory_order_release);
}

static void set_tag(hip_prepared_t *place, uint64_t tag)
{
    atomic_store_explicit(&place->tag, tag, memory_order_relaxed); /* all else is guarded by busy */
}

static void clear_place(hip_prepared_t *place)
{
    if (place->graph.ready)
        sv_hip_destroy_prepared(&place->graph);
    place->credit = place->launches = 0;
    set_tag(place, 0);
}

/* An empty place is the new kind's. Else the kind with the least credit has less, and gives way when it has none. */
static void want_place(hip_prepared_t *set, const hip_launch_key_t *key, uint64_t tag)
{
    hip_prepared_t *place = &set[0];
    for (int i = 1; i < HIP_PREPARED_WAYS; i++)
        if (set[i].credit < place->credit) /* an empty one has none */
            place = &set[i];
    if (!enter_place(place))
        return;
    if (place->credit > 0)
        place->credit--;
    if (place->credit == 0) {
        clear_place(place);
        place->key = *key;
        place->credit = 1;
        set_tag(place, tag);
    }
    leave_place(place);
}

/* The place of this kind of launch, entered; or NULL. */
static hip_prepared_t *enter_place_of(hip_prepared_t *set, const hip_launch_key_t *key, uint64_t tag)
{
    for (int i = 0; i < HIP_PREPARED_WAYS; i++) {
        if (atomic_load_explicit(&set[i].tag, memory_order_relaxed) != tag)
            continue;
        if (!enter_place(&set[i]))
            return NULL;
        if (is_same_launch(&set[i].key, key))
            return &set[i];
        leave_place(&set[i]);
    }
    want_place(set, key, tag);
    return NULL;
}

/* With the GPU current. A failed try is one for the next plain launch to repeat, or to name. */
static bool launch_at_place(hip_prepared_t *place, hipStream_t stream, void **parameters)
{
    const hip_launch_key_t *key = &place->key;
    if (place->credit < CREDIT_MOST)
        place->credit++;
    if (!place->graph.ready) {
        if (++place->launches == PREPARED_AFTER)
            hip_ignore(sv_hip_make_prepared(&place->graph, key->function, key->nblocks, key->nthreads, parameters,
                                            stream));
        return false;
    }
    hipError_t error = sv_hip_set_prepared(&place->graph, key->function, key->nblocks, key->nthreads, parameters);
    if (error == hipSuccess)
        error = hipGraphLaunch(place->graph.exec, stream);
    hip_ignore(error);
    if (error != hipSuccess)
        sv_hip_destroy_prepared(&place->graph); /* launches is beyond the number at which one is made */
    else
        place->prepared++;
    return error == hipSuccess;
}

bool sv_hip_launch_prepared(hip_device_t *dev, hipFunction_t function, unsigned nblocks, unsigned nthreads,
                            void **parameters, void *stream)
{
    hip_launch_key_t key = {.function = function, .nblocks = nblocks, .nthreads = nthreads};
    bool launched = false;
    int before;
    if (!dev->prepares)
        return false;
    /* To ask a stream that is being captured for its number would end the capture. */
    if (hip_enter(dev, &before) == hipSuccess && !sv_hip_stream_is_capturing(&dev->base, stream) &&
        sv_hip_stream_number((hipStream_t)stream, &key.stream)) {
        const uint64_t tag = hash_launch(&key);
        hip_prepared_t *place = enter_place_of(dev->prepared[tag % HIP_PREPARED_SETS], &key, tag);
        if (place) {
            launched = launch_at_place(place, (hipStream_t)stream, parameters);
            leave_place(place);
        }
    }
    hip_leave(dev, before);
    return launched;
}

void sv_hip_open_prepared(hip_device_t *dev)
{
    for (int i = 0; i < HIP_PREPARED_SETS; i++)
        for (int j = 0; j < HIP_PREPARED_WAYS; j++)
            leave_place(&dev->prepared[i][j]);
}

void sv_hip_close_prepared(hip_device_t *dev)
{
    uint64_t prepared = 0;
    int before;
    hip_ignore(hip_enter(dev, &before));
    for (int i = 0; i < HIP_PREPARED_SETS; i++) {
        for (int j = 0; j < HIP_PREPARED_WAYS; j++) {
            prepared += dev->prepared[i][j].prepared;
            clear_place(&dev->prepared[i][j]);
        }
    }
    hip_leave(dev, before);
    if (dev->prepares)
        dev->host->log(SV_LOG_INFO, "device", "%llu launches were prepared", (unsigned long long)prepared);
}
