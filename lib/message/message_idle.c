/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gives back what a message engine has kept and nobody has used for long; see message_idle.h. What is idle belongs to
 * the engine until it is taken out, and then to the call that gives it back.
 */
#include "message/message_idle.h"

#include "base/base_clock.h"
#include "message/message_calls.h"
#include "message/message_get.h"
#include "message/message_layout.h"

static bool may_give_back(const sv_message_engine_t *engine)
{
    return engine->broken == SELVAGE_SUCCESS && !engine->quarantined &&
           !atomic_load_explicit(&engine->comm->device_stuck, memory_order_relaxed);
}

void sv_message_take_idle(sv_message_engine_t *engine, uint64_t now_ns, sv_message_idle_t *idle)
{
    sv_list_init(&idle->mappings);
    sv_list_init(&idle->segments);
    sv_list_init(&idle->buffers);
    if (!may_give_back(engine))
        return;
    sv_transfer_cache_trim(&engine->memory.mappings, now_ns, &idle->mappings);
    sv_lend_trim(engine, &idle->segments);
    sv_message_trim_bounces(engine, now_ns, &idle->buffers);
}

void sv_message_free_idle(sv_message_engine_t *engine, sv_message_idle_t *idle)
{
    sv_transfer_close_trimmed(&idle->mappings);
    sv_lend_close(&idle->segments);
    sv_message_free_bounces(engine, &idle->buffers);
}

bool sv_message_give_back(selvage_comm_t *comm, bool gives_back)
{
    /* Partner: the release in sv_message_engine(). Without messages nothing is made for this. */
    sv_message_engine_t *engine = atomic_load_explicit(&comm->messages, memory_order_acquire);
    sv_message_idle_t idle;
    if (!engine)
        return false;
    const uint64_t now_ns = sv_clock_ns();
    pthread_mutex_lock(&engine->lock);
    (void)sv_message_poll(engine); /* what was received meanwhile needs its buffer no longer */
    const bool due = may_give_back(engine) && (sv_transfer_cache_is_due(&engine->memory.mappings, now_ns) ||
                                               !sv_list_is_empty(&engine->memory.segments_left) ||
                                               sv_message_has_idle_bounce(engine, now_ns));
    if (due && gives_back)
        sv_message_take_idle(engine, now_ns, &idle);
    pthread_mutex_unlock(&engine->lock);
    if (due && gives_back)
        sv_message_free_idle(engine, &idle);
    return due;
}
