/* SPDX-License-Identifier: BSD-3-Clause */
/* Beginning: sends and receives, looking for messages, and letting go. See message_calls.h. */
#include "message/message_calls.h"

#include <string.h>

#include "base/base_clock.h"
#include "base/base_memory.h"
#include "message/message_engine.h"
#include "message/message_layout.h"
#include "message/message_pool.h"
#include "message/message_prelaunch.h"
#include "message/message_shm.h"
#include "message/message_protocols.h"
#include "message/message_put.h"

selvage_comm_t *sv_message_comm(const selvage_request_t *request)
{
    return request->engine->comm;
}

selvage_comm_t *sv_message_taken_comm(const selvage_message_t *message)
{
    return message->engine->comm;
}

/* Takes the lock. In a broken engine it instead returns the error that broke it. */
static selvage_status_t enter_engine(selvage_comm_t *comm, sv_message_engine_t **engine_out)
{
    SV_TRY(sv_message_engine(comm, engine_out));
    pthread_mutex_lock(&(*engine_out)->lock);
    selvage_status_t status = (*engine_out)->broken;
    if (status == SELVAGE_SUCCESS)
        return status;
    memcpy(sv_thread_detail(), (*engine_out)->broken_text, SV_DETAIL_BYTES);
    pthread_mutex_unlock(&(*engine_out)->lock);
    return status;
}

/* Whatever a call has left to do, a request or an acknowledgement, a sleeping progress thread is to hear of. */
static selvage_status_t leave_engine(sv_message_engine_t *engine, selvage_status_t status)
{
    const bool has_work = sv_message_has_work(engine);
    sv_progress_t *progress = &engine->comm->progress;
    pthread_mutex_unlock(&engine->lock);
    if (has_work)
        sv_progress_wake(progress);
    return status;
}

/* Returns a request that knows its buffer, with the lock held. On an error it returns neither. */
static selvage_status_t begin_request(selvage_comm_t *comm, const char *call, const sv_message_buffer_t *buffer,
                                      void *stream, selvage_request_t **request_out)
{
    sv_message_engine_t *engine;
    selvage_request_t *request;
    SV_TRY(enter_engine(comm, &engine));
    selvage_status_t status = SELVAGE_SUCCESS;
    if (stream != SELVAGE_MESSAGE_NO_STREAM && SV_DEVICE_CALL(engine->dev, stream_is_capturing, stream))
        status = sv_error(SELVAGE_ERR_STATE, "%s: the stream is being captured into a graph", call);
    if (status == SELVAGE_SUCCESS)
        status = sv_message_take_request(engine, &request);
    if (status != SELVAGE_SUCCESS)
        return leave_engine(engine, status);
    request->stream = stream;
    status = sv_message_place(request, call, buffer->buf, buffer->map);
    if (status != SELVAGE_SUCCESS) {
        sv_message_put_request(request);
        return leave_engine(engine, status);
    }
    *request_out = request;
    return SELVAGE_SUCCESS;
}

/* The call has done what there is to do with the request, and gives it and the lock away. */
static selvage_status_t conclude_call(selvage_request_t *request, selvage_status_t status,
                                      selvage_request_t **request_out)
{
    sv_message_engine_t *engine = request->engine;
    engine->call_stream = request->stream;
    if (status == SELVAGE_SUCCESS) {
        *request_out = request;
    } else {
        if (request->desc)
            sv_ctrl_free(engine, request->desc);
        request->desc = NULL;
        if (request->place.on_device && !request->refused)
            sv_message_quiesce(request, true);
        sv_message_leave_place(request);
        sv_message_put_request(request);
    }
    sv_message_group_launch_old(engine);
    engine->called_ns = sv_clock_ns();
    return leave_engine(engine, status);
}

/* Polls if many requests are open. A few are advanced by those who wait for them. */
static void poll_if_many(sv_message_engine_t *engine)
{
    enum { MANY = 16, SHARE = 8 };
    if (engine->open > MANY)
        (void)sv_message_poll_lazily(engine, SHARE);
}

static selvage_status_t start_send(selvage_request_t *request, void *stream)
{
    request->is_send = true;
    request->bytes = request->place.bytes;
    if (request->peer == SV_MESSAGE_NOBODY) {
        sv_message_complete(request, SELVAGE_SUCCESS);
        return SELVAGE_SUCCESS;
    }
    SV_TRY(sv_message_send(request, stream));
    enum { FEW = 64 };
    if (request->state == SV_REQUEST_GATE && request->engine->open < FEW)
        (void)sv_message_poll(request->engine); /* of host memory: it leaves now, if nothing is in its way */
    else
        poll_if_many(request->engine);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_message_isend(selvage_comm_t *comm, const char *call, const sv_message_buffer_t *buffer, int peer,
                                  int tag, sv_send_kind_t kind, void *stream, selvage_request_t **request_out)
{
    selvage_request_t *request;
    SV_TRY(begin_request(comm, call, buffer, stream, &request));
    request->peer = peer;
    request->tag = tag;
    request->synchronous = kind == SV_SEND_SYNCHRONOUS;
    request->buffered = kind == SV_SEND_BUFFERED || kind == SV_SEND_HELD;
    if (kind == SV_SEND_HELD && stream == SELVAGE_MESSAGE_NO_STREAM) /* others may be gone by then */
        sv_message_hold(request);
    const selvage_status_t status = start_send(request, stream);
    if (status != SELVAGE_SUCCESS)
        (void)sv_message_release_held(request);
    return conclude_call(request, status, request_out);
}

selvage_status_t sv_message_launch(selvage_request_t *request)
{
    sv_message_engine_t *engine = request->engine;
    selvage_status_t status = SELVAGE_SUCCESS;
    pthread_mutex_lock(&engine->lock);
    if (request->state == SV_REQUEST_HELD) /* not where an error has ended it meanwhile */
        status = sv_eager_launch(request);
    const selvage_status_t launched = sv_message_release_held(request);
    if (status == SELVAGE_SUCCESS)
        status = request->launch_error != SELVAGE_SUCCESS ? sv_message_group_error(request) : launched;
    (void)sv_message_settle_send(request, status);
    return leave_engine(engine, status);
}

/* A receive that has met its message, without a poll of all others. */
static selvage_status_t advance_now(selvage_request_t *recv)
{
    bool moved = false;
    return sv_message_recv_advance(recv, &moved);
}

static selvage_status_t start_receive(selvage_request_t *request, sv_ctrl_desc_t *taken, void *stream)
{
    if (request->peer == SV_MESSAGE_NOBODY && !taken) {
        request->tag = SV_MESSAGE_ANY;
        sv_message_complete(request, SELVAGE_SUCCESS);
        return SELVAGE_SUCCESS;
    }
    if (stream != SELVAGE_MESSAGE_NO_STREAM && request->place.bytes > 0)
        SV_TRY(sv_message_record(request, stream));
    if (taken)
        sv_list_remove(&taken->link);
    if (taken)
        sv_message_matched(request, taken);
    else
        sv_message_post(request);
    /* Its message is there, or may be there, announced by a sender that saw no RTR: it begins now. */
    if (request->put.advertised)
        (void)sv_message_poll_lazily(request->engine, 1);
    return request->state == SV_REQUEST_GATE ? advance_now(request) : SELVAGE_SUCCESS;
}

selvage_status_t sv_message_irecv(selvage_comm_t *comm, const char *call, const sv_message_buffer_t *buffer, int peer,
                                  int tag, void *stream, selvage_request_t **request_out)
{
    selvage_request_t *request;
    SV_TRY(begin_request(comm, call, buffer, stream, &request));
    request->peer = peer;
    request->tag = tag;
    poll_if_many(request->engine);
    selvage_status_t status = request->engine->broken;
    if (status == SELVAGE_SUCCESS)
        status = start_receive(request, NULL, stream);
    return conclude_call(request, status, request_out);
}

selvage_status_t sv_message_imrecv(selvage_message_t **message, const char *call, const sv_message_buffer_t *buffer,
                                   void *stream, selvage_request_t **request_out)
{
    selvage_request_t *request;
    SV_TRY(begin_request((*message)->engine->comm, call, buffer, stream, &request));
    selvage_status_t status = start_receive(request, (*message)->desc, stream);
    if (status == SELVAGE_SUCCESS) {
        sv_free(*message);
        *message = NULL;
    }
    return conclude_call(request, status, request_out);
}

selvage_status_t sv_message_probe(selvage_comm_t *comm, int peer, int tag, bool *found_out,
                                  selvage_message_t **taken_out, selvage_message_status_t *status_out)
{
    sv_message_engine_t *engine;
    SV_TRY(enter_engine(comm, &engine));
    (void)sv_message_poll(engine);
    sv_message_group_launch_old(engine);
    sv_ctrl_desc_t *desc = sv_message_unexpected(engine, peer, tag);
    *found_out = desc != NULL;
    if (desc && status_out)
        *status_out = (selvage_message_status_t){
            .source = desc->header->source, .tag = (int)desc->header->tag, .bytes = desc->header->bytes};
    selvage_status_t status = engine->broken;
    if (status == SELVAGE_SUCCESS && desc && taken_out) {
        selvage_message_t *taken;
        status = sv_calloc(1, sizeof *taken, &taken);
        if (status != SELVAGE_SUCCESS)
            return leave_engine(engine, status);
        *taken = (selvage_message_t){.engine = engine, .desc = desc};
        sv_list_remove(&desc->link);
        sv_list_append(&engine->taken, &desc->link);
        *taken_out = taken;
    }
    return leave_engine(engine, status);
}

/* After a number of answers it is no until a message of device memory has gone there, because only that tells where
   messages go. It is no at first: what opened the way between two ranks went to host memory. A caller may ask twice
   about one message. */
bool sv_message_prefers_host(selvage_comm_t *comm, int rank)
{
    sv_message_engine_t *engine;
    sv_message_peer_t *peer;
    if (sv_message_engine(comm, &engine) != SELVAGE_SUCCESS)
        return false;
    pthread_mutex_lock(&engine->lock);
    const bool prefers = sv_message_peer(engine, rank, &peer) == SELVAGE_SUCCESS && peer->out &&
                         sv_shm_prefers_host(peer->out) && peer->host_answers > 0;
    if (prefers)
        peer->host_answers--;
    pthread_mutex_unlock(&engine->lock);
    return prefers;
}

bool sv_message_is_shared(selvage_comm_t *comm, int rank)
{
    sv_message_engine_t *engine;
    sv_message_peer_t *peer;
    if (sv_message_engine(comm, &engine) != SELVAGE_SUCCESS)
        return false;
    pthread_mutex_lock(&engine->lock);
    const bool shared = sv_message_peer(engine, rank, &peer) == SELVAGE_SUCCESS && peer->out;
    pthread_mutex_unlock(&engine->lock);
    return shared;
}

/* What has come by now is found first. */
void sv_message_expect(selvage_request_t *request, uint64_t bytes)
{
    sv_message_engine_t *engine = request->engine;
    pthread_mutex_lock(&engine->lock);
    request->expected = true;
    if (request->state == SV_REQUEST_POSTED && !request->is_send)
        sv_message_poll_control(engine);
    if (request->state == SV_REQUEST_POSTED && !request->is_send)
        sv_prelaunch_expect(request, bytes);
    else if ((request->state == SV_REQUEST_GATE || request->state == SV_REQUEST_MOVING) && !request->is_send)
        (void)advance_now(request); /* it has an error itself */
    pthread_mutex_unlock(&engine->lock);
}

selvage_status_t sv_message_open_group(selvage_comm_t *comm)
{
    sv_message_engine_t *engine;
    SV_TRY(sv_message_engine(comm, &engine));
    pthread_mutex_lock(&engine->lock);
    sv_message_group_begin(engine);
    return leave_engine(engine, SELVAGE_SUCCESS);
}

selvage_status_t sv_message_close_group(selvage_comm_t *comm)
{
    sv_message_engine_t *engine;
    SV_TRY(sv_message_engine(comm, &engine));
    pthread_mutex_lock(&engine->lock);
    if (engine->group.depth == engine->group.nheld)
        return leave_engine(engine, sv_error(SELVAGE_ERR_STATE, "no group of messages is open"));
    return leave_engine(engine, sv_message_group_end(engine));
}

void sv_message_cancel(selvage_request_t *request)
{
    sv_message_engine_t *engine = request->engine;
    pthread_mutex_lock(&engine->lock);
    if (!request->is_send && request->state == SV_REQUEST_POSTED && !request->cancelled &&
        sv_message_rtr_cancel(request) != SV_RTR_CLAIMED) {
        request->cancelled = true;
        sv_prelaunch_stop(request);
        if (request->early.launched) /* a kernel may just be taking its message: it says so */
            engine->ncancels++;
        else
            sv_message_complete(request, SELVAGE_SUCCESS);
    }
    pthread_mutex_unlock(&engine->lock);
}

void sv_message_detach(selvage_request_t **request)
{
    sv_message_engine_t *engine = (*request)->engine;
    pthread_mutex_lock(&engine->lock);
    if ((*request)->state == SV_REQUEST_HELD)
        (void)sv_message_settle_send(*request, sv_eager_launch(*request));
    (void)sv_message_release_held(*request);
    if ((*request)->state == SV_REQUEST_COMPLETE)
        sv_message_put_request(*request);
    else
        (*request)->detached = true;
    *request = NULL;
    pthread_mutex_unlock(&engine->lock);
}
