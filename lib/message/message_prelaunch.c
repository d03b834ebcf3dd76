/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels that are launched before their message is there. A host that waits has nothing better to do, and a launch
 * takes as long as all the rest of a small message's way. Such a kernel waits on the device, for some tens of
 * microseconds at most. It copies and verifies the message as soon as it is in its slot.
 *
 * The kernel decides nothing. It takes one message only, with the key of this source, number, tag and length. It does
 * so only if the sender has sent none with this tag since those that were taken here. It is launched only where no
 * receive that was posted before would take that message. So if the message comes, the receive is its own, whatever
 * came before it.
 *
 * The host matches as ever when it sees the control message, and finds the work done. A message of another number, tag
 * or length, or a late one, finds the kernel gone, or told to go.
 *
 * Who knows that a message has begun to come, from another GPU, may say so and how long it is (sv_prelaunch_expect()).
 *
 * A kernel waits in the same way for a long message that its sender copies straight to its place (message_put.c).
 *
 * Here is which receives get one, and when; message_digest.c launches it, and knows when it is over.
 */
#include "message/message_prelaunch.h"

#include "base/base_clock.h"
#include "message/message_devslot.h"
#include "message/message_pool.h"
#include "message/message_put.h"

enum { LOCAL_LAUNCH_NS = 1500 }; /* within so long nothing was enqueued after a call: a launch takes longer */

#define UNKNOWN_BYTES UINT64_MAX

/* Where ranks share a device the one that is waited for might need what the kernel holds. */
void sv_prelaunch_init(sv_message_engine_t *engine)
{
    const selvage_comm_t *comm = engine->comm;
    if (!comm->dev->kernels_wait || comm->fault.armed || comm->progress.threaded)
        return;
    const uint64_t wait_ns =
        comm->config.early_wait_us < 0 ? comm->dev->early_wait_ns : (uint64_t)(comm->config.early_wait_us * 1000);
    engine->early_wait_ns = comm->topology.shares_gpu ? 0 : wait_ns;
    engine->expect_wait_ns = comm->topology.shares_gpu && !comm->topology.guesses_gpus ? 0 : wait_ns;
}

static bool takes_slot(const selvage_request_t *recv)
{
    return recv->place.on_device && recv->place.bytes > 0 && recv->place.bytes <= recv->engine->devslot_bytes;
}

/* Counts the receives from this rank that were posted before, and those of them that use a slot. False if one of them,
   or of any rank's, takes the message first. */
static bool count_before(const selvage_request_t *recv, uint64_t *messages, uint64_t *slots)
{
    *messages = *slots = 0;
    for (sv_list_t *it = recv->engine->posted.next; it != &recv->link; it = it->next) {
        const selvage_request_t *other = SV_CONTAINER_OF(it, selvage_request_t, link);
        if (other->peer != recv->peer && other->peer != SV_MESSAGE_ANY)
            continue;
        if (other->tag == recv->tag || other->tag == SV_MESSAGE_ANY)
            return false;
        *messages += other->peer == recv->peer;
        *slots += other->peer == recv->peer && takes_slot(other);
    }
    return true;
}

/* Nothing has met it yet. bytes: how long its message is; UNKNOWN_BYTES: as the one before, or as it has room for. */
static void await_slot(selvage_request_t *recv, uint64_t now_ns, uint64_t bytes)
{
    sv_message_engine_t *engine = recv->engine;
    sv_message_peer_t *peer;
    uint64_t messages, slots;
    if (recv->is_send || recv->state != SV_REQUEST_POSTED || recv->early.tried || recv->cancelled ||
        recv->peer == SV_MESSAGE_ANY || recv->tag == SV_MESSAGE_ANY || recv->peer == engine->wire->rank ||
        !takes_slot(recv) || sv_message_peer(engine, recv->peer, &peer) != SELVAGE_SUCCESS)
        return;
    if (!peer->in || !peer->in->used || !peer->in->devslot.shown || !count_before(recv, &messages, &slots))
        return;
    /* What the caller's stream is doing comes first: the kernel is on that stream itself, if nothing was enqueued there
       since. The poll asks whether it is gated. */
    if (recv->gated && (recv->stream != engine->call_stream || now_ns - engine->called_ns >= LOCAL_LAUNCH_NS))
        return;
    const uint64_t count = peer->in->devslot.count + 1 + slots;
    uint64_t before;
    if (!sv_devslot_is_awaited(peer->in, count, &before))
        return;
    const sv_devslot_place_t from = sv_devslot_place(engine, peer->in, count);
    if (bytes == UNKNOWN_BYTES)
        bytes = recv->place.bytes == peer->predicted_capacity ? peer->predicted_bytes : recv->place.bytes;
    recv->bytes = bytes;
    recv->number = peer->taken + 1 + messages;
    sv_message_identify(recv);
    sv_verify_job_t job = {.src = from.payload,
                           .dst = recv->place.data,
                           .record = from.record,
                           .await = from.word,
                           .await_before = before,
                           .only = true,
                           .await_value = sv_devslot_value(recv->key, peer->arrived[sv_message_tag_class(recv->tag)])};
    (void)sv_message_verify_ahead(recv, &job, recv->gated ? recv->stream : SELVAGE_MESSAGE_NO_STREAM);
}

/* A kernel copies the message straight to where it lies: one that it has met, or one that may claim it. */
static void await_put(selvage_request_t *recv)
{
    const bool met = recv->state == SV_REQUEST_MOVING && recv->route == SV_MESSAGE_PUT;
    const bool may_meet = recv->state == SV_REQUEST_POSTED && recv->put.advertised;
    if (recv->is_send || recv->early.tried || !(met || may_meet) || !sv_message_checks(recv->engine) ||
        !recv->engine->dev->shows_stores || !sv_put_by_kernel(recv))
        return;
    if (may_meet) { /* what it will meet if the next long message with its tag claims it */
        sv_message_peer_t *peer;
        uint64_t messages, slots;
        if (sv_message_peer(recv->engine, recv->peer, &peer) != SELVAGE_SUCCESS ||
            !count_before(recv, &messages, &slots))
            return;
        recv->bytes = recv->place.bytes;
        recv->number = peer->taken + 1 + messages;
        sv_message_identify(recv);
    }
    sv_verify_job_t job = sv_put_job(recv);
    if (job.await)
        (void)sv_message_verify_ahead(recv, &job, SELVAGE_MESSAGE_NO_STREAM);
}

void sv_prelaunch_requests(sv_message_engine_t *engine, size_t count, selvage_request_t **requests)
{
    if (engine->early_wait_ns == 0 || engine->broken != SELVAGE_SUCCESS)
        return;
    const uint64_t now_ns = sv_clock_ns();
    for (size_t i = 0; i < count; i++) {
        if (!requests[i])
            continue;
        await_slot(requests[i], now_ns, UNKNOWN_BYTES);
        await_put(requests[i]);
    }
}

void sv_prelaunch_expect(selvage_request_t *recv, uint64_t bytes)
{
    if (recv->engine->expect_wait_ns > 0 && recv->engine->broken == SELVAGE_SUCCESS && bytes > 0 &&
        bytes <= recv->place.bytes)
        await_slot(recv, sv_clock_ns(), bytes);
}

void sv_prelaunch_predict(const selvage_request_t *recv, sv_ctrl_desc_t *desc)
{
    sv_message_peer_t *peer;
    sv_shm_prefer(desc->devslot, !recv->place.on_device); /* also of a message that its kernel has taken already */
    sv_devslot_mark(desc, recv->key);
    if (sv_message_peer(recv->engine, recv->peer, &peer) != SELVAGE_SUCCESS)
        return;
    peer->predicted_capacity = recv->place.bytes;
    peer->predicted_bytes = recv->bytes <= recv->place.bytes ? recv->bytes : recv->place.bytes;
}

/* --- what became of it -------------------------------------------------------------------------------------------- */

bool sv_prelaunch_fits(const selvage_request_t *recv)
{
    return recv->early.launched && recv->desc && recv->desc->devslot && recv->key == recv->early.key;
}

void sv_prelaunch_cancel(sv_message_engine_t *engine)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &engine->posted) {
        selvage_request_t *recv = SV_CONTAINER_OF(it, selvage_request_t, link);
        if (!recv->cancelled || (recv->early.launched && !sv_prelaunch_has_left(recv)))
            continue;
        engine->ncancels--;
        sv_message_complete(recv, SELVAGE_SUCCESS);
    }
}

void sv_prelaunch_end(sv_message_engine_t *engine)
{
    enum { DEADLINE_S = 5 }; /* a kernel that is told to go does so soon, on a device that works */
    const double timeout_s = engine->comm->timeout_s,
                 most_s = timeout_s > 0 && timeout_s < DEADLINE_S ? timeout_s : DEADLINE_S;
    const uint64_t begin_ns = sv_clock_ns();
    sv_backoff_t backoff = {.max_sleep_us = 100};
    bool late = false;
    for (uint32_t i = 0; i < engine->nrequests; i++) {
        selvage_request_t *recv = engine->table[i];
        sv_prelaunch_stop(recv);
        while (!sv_prelaunch_is_over(recv) && !late) {
            sv_backoff(&backoff);
            late = (double)(sv_clock_ns() - begin_ns) > most_s * 1e9;
        }
    }
    engine->quarantined |= late;
}
