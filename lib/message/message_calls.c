/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the calls of messages have in common: the lock, a request with its buffer at the beginning of a send or a
 * receive, the end of one. And the calls that are neither: testing, looking for messages, letting go. See
 * message_calls.h; sends begin in message_send.c, receives in message_recv.c, and message_wait.c has what may block.
 */
#include "message/message_calls.h"

#include <string.h>

#include "base/base_clock.h"
#include "base/base_memory.h"
#include "message/message_engine.h"
#include "message/message_layout.h"
#include "message/message_pool.h"
#include "message/message_shm.h"
#include "message/message_protocols.h"

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
selvage_status_t sv_message_leave(sv_message_engine_t *engine, selvage_status_t status)
{
    const bool has_work = sv_message_has_work(engine);
    sv_progress_t *progress = &engine->comm->progress;
    pthread_mutex_unlock(&engine->lock);
    if (has_work)
        sv_progress_wake(progress);
    return status;
}

selvage_status_t sv_message_begin_request(selvage_comm_t *comm, const char *call, const sv_message_buffer_t *buffer,
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
        return sv_message_leave(engine, status);
    request->stream = stream;
    status = sv_message_place(request, call, buffer->buf, buffer->map);
    if (status != SELVAGE_SUCCESS) {
        sv_message_put_request(request);
        return sv_message_leave(engine, status);
    }
    *request_out = request;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_message_conclude(selvage_request_t *request, selvage_status_t status,
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
    return sv_message_leave(engine, status);
}

selvage_message_status_t sv_message_empty_status(void)
{
    return (selvage_message_status_t){.source = SV_MESSAGE_ANY, .tag = SV_MESSAGE_ANY};
}

selvage_status_t sv_message_finish(selvage_request_t **request, selvage_message_status_t *status_out)
{
    selvage_request_t *done = *request;
    const selvage_status_t status = done->error;
    selvage_message_status_t text = sv_message_empty_status();
    text.error = status;
    text.cancelled = done->cancelled;
    text.bytes = done->cancelled ? 0 : done->bytes;
    if (!done->is_send && !done->cancelled) {
        text.source = done->peer;
        text.tag = done->tag;
    }
    if (status_out)
        *status_out = text;
    (void)sv_message_release_held(done);
    if (status != SELVAGE_SUCCESS)
        snprintf(sv_thread_detail(), SV_DETAIL_BYTES, "%s", done->detail);
    sv_message_put_request(done);
    *request = NULL;
    return status;
}

selvage_status_t sv_message_test(selvage_request_t **request, selvage_message_status_t *status_out)
{
    if (!*request) {
        if (status_out)
            *status_out = sv_message_empty_status();
        return SELVAGE_SUCCESS;
    }
    sv_message_engine_t *engine = (*request)->engine;
    pthread_mutex_lock(&engine->lock);
    if ((*request)->state != SV_REQUEST_COMPLETE)
        (void)sv_message_poll_lazily(engine, 2);
    sv_message_group_launch_old(engine);
    selvage_status_t status = SELVAGE_IN_PROGRESS;
    if ((*request)->state == SV_REQUEST_COMPLETE)
        status = sv_message_finish(request, status_out);
    pthread_mutex_unlock(&engine->lock);
    return status;
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
            return sv_message_leave(engine, status);
        *taken = (selvage_message_t){.engine = engine, .desc = desc};
        sv_list_remove(&desc->link);
        sv_list_append(&engine->taken, &desc->link);
        *taken_out = taken;
    }
    return sv_message_leave(engine, status);
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

selvage_status_t sv_message_open_group(selvage_comm_t *comm)
{
    sv_message_engine_t *engine;
    SV_TRY(sv_message_engine(comm, &engine));
    pthread_mutex_lock(&engine->lock);
    sv_message_group_begin(engine);
    return sv_message_leave(engine, SELVAGE_SUCCESS);
}

selvage_status_t sv_message_close_group(selvage_comm_t *comm)
{
    sv_message_engine_t *engine;
    SV_TRY(sv_message_engine(comm, &engine));
    pthread_mutex_lock(&engine->lock);
    if (engine->group.depth == engine->group.nheld)
        return sv_message_leave(engine, sv_error(SELVAGE_ERR_STATE, "no group of messages is open"));
    return sv_message_leave(engine, sv_message_group_end(engine));
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
