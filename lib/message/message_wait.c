/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completing requests: the only place where a call may block. A wait drives the messages of its communicator. It also
 * drives the exchanges if this thread starts them, since a neighbour may need those first. It ends by the deadline once
 * nothing has moved for so long, whoever has called. What polls may not do, because it waits for the device, is done at
 * the end of waits: giving back what nobody has used for long.
 */
#include <string.h>

#include "base/base_clock.h"
#include "message/message_calls.h"
#include "message/message_engine.h"
#include "message/message_idle.h"
#include "message/message_pool.h"
#include "message/message_prelaunch.h"
#include "message/message_protocols.h"
#include "message/message_unacked.h"

typedef struct sv_message_deadline {
    sv_message_engine_t *engine;
    uint64_t began_ns;
    sv_backoff_t backoff;
} sv_message_deadline_t;

static sv_message_deadline_t wait_limits(sv_message_engine_t *engine)
{
    return (sv_message_deadline_t){
        .engine = engine,
        .began_ns = sv_clock_ns(),
        .backoff = {.max_sleep_us = 100, .oversubscribed = engine->comm->topology.oversubscribed}};
}

/* Without the lock. ERR_TIMEOUT, without a detail, once nothing moved for the deadline. */
static selvage_status_t pause_between(sv_message_deadline_t *wait_limits, bool moved, uint64_t moved_ns)
{
    const double timeout_s = wait_limits->engine->comm->timeout_s;
    const uint64_t since_ns = moved_ns > wait_limits->began_ns ? moved_ns : wait_limits->began_ns;
    selvage_comm_t *comm = wait_limits->engine->comm;
    if (atomic_load_explicit(&comm->exchange_thread, memory_order_relaxed) == (uintptr_t)sv_thread_binding())
        moved |= sv_progress_poll(&comm->progress);
    if (moved) {
        sv_backoff_reset(&wait_limits->backoff);
        return SELVAGE_SUCCESS;
    }
    sv_backoff(&wait_limits->backoff);
    const uint64_t now_ns = sv_clock_ns();
    if (timeout_s > 0 && now_ns > since_ns && (double)(now_ns - since_ns) > timeout_s * 1e9)
        return SELVAGE_ERR_TIMEOUT;
    return SELVAGE_SUCCESS;
}

static const char *what_it_waits_for(const selvage_request_t *request)
{
    switch (request->state) {
    case SV_REQUEST_POSTED: return "no message has met it";
    case SV_REQUEST_GATE: return "it waits for the caller's stream, or for memory";
    case SV_REQUEST_HELD: return "its caller has not launched it";
    case SV_REQUEST_FILLING: return "it waits for the caller's stream and its kernel";
    case SV_REQUEST_BUFFERING: return "it waits for the copy to its buffer";
    case SV_REQUEST_LENT:
    case SV_REQUEST_RTS_SENT: return "no receive has met it, or it is being read";
    case SV_REQUEST_MOVING: return "its bytes are on their way";
    case SV_REQUEST_CLOSING: return "it waits for its digest";
    case SV_REQUEST_AWAITS_STATUS: return "it waits for the receiver's verdict";
    case SV_REQUEST_NACKED: return "it was asked for again";
    case SV_REQUEST_DEFERRED: return "its sender's stream has not come to it";
    case SV_REQUEST_UNPACKING: return "it is unpacked";
    case SV_REQUEST_LEAVING: return "a kernel waits for another message in its place";
    case SV_REQUEST_COMPLETE: break;
    }
    return "it is complete";
}

static selvage_status_t report_timeout(const selvage_request_t *request)
{
    const double timeout_s = request->engine->comm->timeout_s;
    const uint64_t bytes = request->state == SV_REQUEST_POSTED ? request->place.bytes : request->bytes;
    const int silent = sv_unacked_silent_rank(request->engine);
    char peer[32] = "any rank", tag[32] = "any tag", more[64] = "";
    if (request->peer != SV_MESSAGE_ANY)
        snprintf(peer, sizeof peer, "rank %d", request->peer);
    if (request->tag != SV_MESSAGE_ANY)
        snprintf(tag, sizeof tag, "tag %d", request->tag);
    if (silent >= 0)
        snprintf(more, sizeof more, "; rank %d acknowledges no control messages", silent);
    return sv_error(SELVAGE_ERR_TIMEOUT, "no message has moved for %g s; a %s %s (%s, %llu bytes): %s%s",
                    timeout_s, request->is_send ? "send to" : "receive from", peer, tag, (unsigned long long)bytes,
                    what_it_waits_for(request), more);
}

/* Lets go of the lock, and then of what nobody has used for long. That may wait for the device, which a wait may,
   unless its call waits on for other requests. */
static void leave_wait(const sv_message_deadline_t *wait, bool waits_on)
{
    sv_message_engine_t *engine = wait->engine;
    sv_message_idle_t idle;
    if (!waits_on)
        sv_message_take_idle(engine, wait->began_ns, &idle);
    pthread_mutex_unlock(&engine->lock);
    if (!waits_on)
        sv_message_free_idle(engine, &idle);
}

static selvage_request_t *first_open(size_t count, selvage_request_t **requests)
{
    for (size_t i = 0; i < count; i++)
        if (requests[i])
            return requests[i];
    return NULL;
}

static selvage_status_t wait_for_any(size_t count, selvage_request_t **requests, size_t *index_out,
                                     selvage_message_status_t *status_out, bool waits_on)
{
    selvage_request_t *any = first_open(count, requests);
    if (!any) {
        *index_out = SIZE_MAX;
        if (status_out)
            *status_out = sv_message_empty_status();
        return SELVAGE_SUCCESS;
    }
    sv_message_engine_t *engine = any->engine;
    sv_message_deadline_t patient = wait_limits(engine);
    for (;;) {
        size_t index = 0;
        pthread_mutex_lock(&engine->lock);
        const bool moved = sv_message_poll(engine);
        (void)sv_message_group_launch(engine);
        const uint64_t moved_ns = engine->moved_ns;
        while (index < count && !(requests[index] && requests[index]->state == SV_REQUEST_COMPLETE))
            index++;
        if (index < count) {
            selvage_status_t status = sv_message_finish(&requests[index], status_out);
            *index_out = index;
            leave_wait(&patient, waits_on);
            return status;
        }
        if (count == 1) /* of several, any may be the first */
            sv_prelaunch_requests(engine, count, requests);
        pthread_mutex_unlock(&engine->lock);
        if (pause_between(&patient, moved, moved_ns) == SELVAGE_SUCCESS)
            continue;
        pthread_mutex_lock(&engine->lock);
        selvage_status_t status = report_timeout(any);
        pthread_mutex_unlock(&engine->lock);
        return status;
    }
}

selvage_status_t sv_message_waitany(size_t count, selvage_request_t **requests, size_t *index_out,
                                    selvage_message_status_t *status_out)
{
    return wait_for_any(count, requests, index_out, status_out, false);
}

selvage_status_t sv_message_wait(selvage_request_t **request, selvage_message_status_t *status_out)
{
    size_t index;
    return wait_for_any(1, request, &index, status_out, false);
}

selvage_status_t sv_message_waitall(size_t count, selvage_request_t **requests, selvage_message_status_t *statuses_out)
{
    const selvage_request_t *any = first_open(count, requests);
    selvage_status_t first = SELVAGE_SUCCESS;
    bool in_time = true;
    char detail[SV_DETAIL_BYTES];
    if (any && count > 1) { /* kernels for all that is waited for, before the first of it is */
        pthread_mutex_lock(&any->engine->lock);
        sv_prelaunch_requests(any->engine, count, requests);
        pthread_mutex_unlock(&any->engine->lock);
    }
    for (size_t i = 0; i < count; i++) {
        size_t unused;
        selvage_message_status_t *status_out = statuses_out ? &statuses_out[i] : NULL;
        /* After a deadline nobody is waited for any more. */
        selvage_status_t status = in_time ? wait_for_any(1, &requests[i], &unused, status_out, i + 1 < count)
                                          : sv_message_test(&requests[i], status_out);
        if (status == SELVAGE_IN_PROGRESS)
            status = SELVAGE_ERR_TIMEOUT;
        if (status != SELVAGE_SUCCESS && requests[i] && status_out) { /* it is open still */
            *status_out = sv_message_empty_status();
            status_out->error = status;
        }
        in_time = in_time && status != SELVAGE_ERR_TIMEOUT;
        if (status == SELVAGE_SUCCESS || first != SELVAGE_SUCCESS)
            continue;
        first = status;
        memcpy(detail, sv_thread_detail(), sizeof detail);
    }
    if (first != SELVAGE_SUCCESS)
        memcpy(sv_thread_detail(), detail, sizeof detail);
    return first;
}

selvage_status_t sv_message_probe_wait(selvage_comm_t *comm, int peer, int tag, selvage_message_status_t *status_out)
{
    sv_message_engine_t *engine;
    SV_TRY(sv_message_engine(comm, &engine));
    sv_message_deadline_t patient = wait_limits(engine);
    for (;;) {
        bool found = false;
        SV_TRY(sv_message_probe(comm, peer, tag, &found, NULL, status_out));
        pthread_mutex_lock(&engine->lock);
        (void)sv_message_group_launch(engine);
        if (found) {
            leave_wait(&patient, false);
            return SELVAGE_SUCCESS;
        }
        const uint64_t moved_ns = engine->moved_ns;
        pthread_mutex_unlock(&engine->lock);
        if (pause_between(&patient, false, moved_ns) != SELVAGE_SUCCESS)
            return sv_error(SELVAGE_ERR_TIMEOUT, "no message has moved for %g s, and none is there from rank %d with "
                            "tag %d (-1: any)", comm->timeout_s, peer, tag);
    }
}

/* --- giving up ---------------------------------------------------------------------------------------------------- */

static bool abandon_once(selvage_request_t **request, selvage_status_t status, bool *stuck)
{
    sv_message_engine_t *engine = (*request)->engine;
    pthread_mutex_lock(&engine->lock);
    (void)sv_message_poll(engine);
    (void)sv_message_group_launch(engine);
    const bool over = (*request)->is_send ? sv_message_send_abandon(*request, status)
                                          : sv_message_recv_abandon(*request, status);
    if (over) {
        *stuck = (*request)->stuck;
        sv_message_put_request(*request);
        *request = NULL;
    }
    pthread_mutex_unlock(&engine->lock);
    return over;
}

/* A send that something still reads: not again, once that is over. A kernel on the caller's stream reads in the order
   of that stream; of anything else the error says so. */
static void give_request_up(selvage_request_t **request, const char *text)
{
    sv_message_engine_t *engine = (*request)->engine;
    const int peer = (*request)->peer;
    pthread_mutex_lock(&engine->lock);
    const bool in_order = !(*request)->is_send || (*request)->state == SV_REQUEST_FILLING;
    (*request)->given_up = (*request)->is_send;
    pthread_mutex_unlock(&engine->lock);
    sv_message_detach(request);
    if (!in_order)
        (void)sv_error_quiet(SELVAGE_ERR_TIMEOUT, "%.*s; its buffer is still being read, maybe by rank %d, and must "
                             "not be written or freed", SV_DETAIL_BYTES / 2, text, peer);
}

void sv_message_abandon(selvage_request_t **request, selvage_status_t status)
{
    const double timeout_s = (*request)->engine->comm->timeout_s, most_s = timeout_s > 1 ? timeout_s : 1;
    const uint64_t began_ns = sv_clock_ns();
    const bool is_send = (*request)->is_send;
    const int peer = (*request)->peer;
    sv_backoff_t backoff = {.max_sleep_us = 100};
    char text[SV_DETAIL_BYTES];
    bool over, stuck = !is_send;
    memcpy(text, sv_thread_detail(), sizeof text);
    while (!(over = abandon_once(request, status, &stuck)) && !is_send &&
           (double)(sv_clock_ns() - began_ns) < most_s * 1e9) {
        sv_backoff(&backoff);
        memcpy(sv_thread_detail(), text, sizeof text);
    }
    memcpy(sv_thread_detail(), text, sizeof text);
    if (!over)
        give_request_up(request, text);
    if (stuck)
        (void)sv_error(status, "%.*s; rank %d is still writing to its buffer, which must not be used",
                       SV_DETAIL_BYTES / 2, text, peer);
}
