/* SPDX-License-Identifier: BSD-3-Clause */
/* The message engine's life: made at the first call, polled by whoever comes by, ended with its communicator. */
#include "message/message_engine.h"

#include <stdio.h>
#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "message/message_get.h"
#include "message/message_layout.h"
#include "message/message_pool.h"
#include "message/message_prelaunch.h"
#include "message/message_put.h"

static void release_engine(sv_message_engine_t *engine)
{
    sv_device_t *dev = engine->dev;
    void *stream[] = {engine->streams.kernel, engine->streams.out, engine->streams.in, engine->streams.peer};
    sv_prelaunch_end(engine);
    for (uint32_t i = 0; i < engine->nrequests; i++) { /* what is through by now is free as all the rest */
        selvage_request_t *request = engine->table[i];
        if (!request->retired)
            continue;
        request->retired = request->retired_for_good || sv_message_gate(request) != SELVAGE_SUCCESS;
        engine->quarantined |= request->retired;
        sv_message_leave_place(request);
    }
    for (size_t i = 0; i < sizeof stream / sizeof stream[0]; i++)
        if (stream[i])
            SV_DEVICE_CALL(dev, stream_destroy, stream[i]);
    for (int i = 0; i < SV_PRELAUNCH_STREAMS; i++)
        if (engine->streams.prelaunch[i])
            SV_DEVICE_CALL(dev, stream_destroy, engine->streams.prelaunch[i]);
    sv_message_free_layouts(engine);
    sv_message_free_pools(engine);
    sv_transfer_cache_close(&engine->memory.mappings);
    sv_lend_close(&engine->memory.segments_left);
    pthread_mutex_destroy(&engine->lock);
    sv_free(engine);
}

static void init_lists(sv_message_engine_t *engine)
{
    sv_list_t *list[] = {&engine->desc_free[0],
                         &engine->desc_free[1],
                         &engine->in_flight,
                         &engine->loopback,
                         &engine->unexpected,
                         &engine->taken,
                         &engine->request_free,
                         &engine->posted,
                         &engine->active,
                         &engine->awaiting,
                         &engine->starved[0][SV_LACKS_CHUNK],
                         &engine->starved[0][SV_LACKS_TURN],
                         &engine->starved[1][SV_LACKS_CHUNK],
                         &engine->starved[1][SV_LACKS_TURN],
                         &engine->layouts.all,
                         &engine->layouts.bounce_free,
                         &engine->layouts.block_free,
                         &engine->layouts.upload_free,
                         &engine->shm_peers,
                         &engine->memory.segments_left,
                         &engine->pieces.windows_free,
                         &engine->unacked.free, &engine->unacked.peers, &engine->unacked.ack_due};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        sv_list_init(list[i]);
    sv_transfer_cache_init(&engine->memory.mappings, &engine->comm->config);
}

/* How a long get is shared: a kernel costs the host one call less, but a copy engine makes better use of the link. A
   kernel reads its own memory seven times as fast as a link brings bytes, by a quarter of its blocks. */
enum { ENGINE_BYTES = 4 << 20, REST_SHARE = 8, REST_BLOCKS = 4, LENT_MOVE_NS = 3000000, LENT_STALL_NS = 50000000 };

static selvage_status_t create_engine(selvage_comm_t *comm, sv_message_engine_t **engine_out)
{
    enum { LINE = 64, DEVSLOT_FACTOR = 128, LENT_BYTES = 1 << 20, LENT_OFTEN_BYTES = 64 << 10 };
    const sv_config_t *config = &comm->config;
    sv_message_engine_t *engine;
    selvage_status_t status;
    SV_TRY(sv_calloc(1, sizeof *engine, &engine));
    engine->comm = comm;
    engine->dev = comm->dev;
    engine->wire = comm->wire;
    engine->moved_ns = sv_clock_ns();
    pthread_mutex_init(&engine->lock, NULL); /* default attributes: cannot fail on Linux */
    init_lists(engine);
    engine->policy = config->checksum;
    engine->eager_bytes = (size_t)config->message_eager_bytes;
    engine->desc_bytes = sizeof(sv_ctrl_header_t) + (engine->eager_bytes + LINE - 1) / LINE * LINE;
    engine->segment_bytes = (size_t)config->segment_bytes;
    sv_message_init_chunks(engine);
    engine->devslot_bytes = DEVSLOT_FACTOR * engine->eager_bytes;
    if (engine->devslot_bytes > engine->segment_bytes) /* which go through one piece of pinned memory to the host's */
        engine->devslot_bytes = engine->segment_bytes;
    if (comm->message_slot_bytes)
        engine->devslot_bytes = comm->message_slot_bytes;
    engine->buffer_bytes = config->message_buffer_bytes;
    engine->lent_bytes = LENT_BYTES;
    engine->lent_often_bytes = LENT_OFTEN_BYTES;
    engine->lent_move_ns = LENT_MOVE_NS;
    engine->lent_stall_ns = LENT_STALL_NS;
    engine->engine_bytes = ENGINE_BYTES;
    engine->rest_share = REST_SHARE;
    engine->rest_blocks = REST_BLOCKS;
    sv_prelaunch_init(engine);
    engine->exchange = comm->nonce | UINT32_MAX; /* exchanges count from the nonce on, and never so far */
    SV_TRY_GOTO(status, SV_DEVICE_CALL(engine->dev, stream_create, &engine->streams.kernel), fail);
    SV_TRY_GOTO(status, SV_DEVICE_CALL(engine->dev, stream_create, &engine->streams.out), fail);
    SV_TRY_GOTO(status, SV_DEVICE_CALL(engine->dev, stream_create, &engine->streams.in), fail);
    SV_TRY_GOTO(status, SV_DEVICE_CALL(engine->dev, stream_create, &engine->streams.peer), fail);
    for (int i = 0; i < SV_PRELAUNCH_STREAMS && engine->expect_wait_ns > 0; i++)
        SV_TRY_GOTO(status, SV_DEVICE_CALL(engine->dev, stream_create, &engine->streams.prelaunch[i]), fail);
    *engine_out = engine;
    return SELVAGE_SUCCESS;
fail:
    release_engine(engine);
    return status;
}

/* --- polling ------------------------------------------------------------------------------------------------------ */

static void end_all(sv_list_t *list, selvage_status_t status)
{
    while (!sv_list_is_empty(list))
        sv_message_complete(SV_CONTAINER_OF(list->next, selvage_request_t, link), status);
}

/* Kernels that sum what a send will bring stand after its caller's work, too. */
static bool has_late_stream(const sv_list_t *list)
{
    for (const sv_list_t *it = list->next; it != list; it = it->next) {
        selvage_request_t *request = SV_CONTAINER_OF(it, selvage_request_t, link);
        if (request->is_send && request->place.on_device && request->stream != SELVAGE_MESSAGE_NO_STREAM &&
            sv_message_gate(request) != SELVAGE_SUCCESS)
            return true;
    }
    return false;
}

void sv_message_break(sv_message_engine_t *engine, selvage_status_t status)
{
    if (engine->broken != SELVAGE_SUCCESS)
        return;
    engine->broken = status;
    engine->broken_ns = sv_clock_ns();
    if (status != SELVAGE_ERR_STATE) /* not its end: what is left in the wire is not to be its successor's */
        sv_wire_fault_inner(engine->wire)->failed = true;
    memcpy(engine->broken_text, sv_thread_detail(), sizeof engine->broken_text);
    engine->stores_late = sv_message_is_storing(engine) || has_late_stream(&engine->active) ||
                          has_late_stream(&engine->awaiting) ||
                          has_late_stream(&engine->starved[true][SV_LACKS_CHUNK]);
    /* Nothing that this rank has begun is to write to anybody's memory after the requests have ended. */
    sv_prelaunch_end(engine);
    (void)sv_message_drain(engine);
    memcpy(sv_thread_detail(), engine->broken_text, sizeof engine->broken_text);
    end_all(&engine->posted, status);
    end_all(&engine->awaiting, status);
    for (int is_send = 0; is_send < 2; is_send++)
        for (int lack = SV_LACKS_CHUNK; lack < SV_MESSAGE_LACKS; lack++)
            end_all(&engine->starved[is_send][lack], status);
    end_all(&engine->active, status); /* with those still in flight */
}

/* --- the end of a request ----------------------------------------------------------------------------------------- */

bool sv_message_drain(sv_message_engine_t *engine)
{
    void *stream[] = {engine->streams.kernel, engine->streams.out, engine->streams.in, engine->streams.peer};
    char text[SV_DETAIL_BYTES];
    bool over = true;
    memcpy(text, sv_thread_detail(), sizeof text);
    (void)sv_message_group_launch(engine);
    for (size_t i = 0; i < sizeof stream / sizeof stream[0]; i++)
        over = SV_DEVICE_CALL(engine->dev, stream_sync, stream[i]) == SELVAGE_SUCCESS && over;
    memcpy(sv_thread_detail(), text, sizeof text);
    return over;
}

/* A send is packed on its caller's stream, which may stand still for any time. Its event says when that is over. During
   the call the event is recorded now. After the call the stream may be gone, and the gate's event stands for it. */
void sv_message_quiesce(selvage_request_t *request, bool in_call)
{
    const bool packs = request->is_send && request->place.bounce && request->stream != SELVAGE_MESSAGE_NO_STREAM;
    const bool over = sv_message_drain(request->engine);
    char text[SV_DETAIL_BYTES];
    memcpy(text, sv_thread_detail(), sizeof text);
    request->retired_for_good =
        !over || (packs && in_call && sv_message_record(request, request->stream) != SELVAGE_SUCCESS);
    request->retired = request->retired_for_good || (packs && sv_message_gate(request) != SELVAGE_SUCCESS);
    memcpy(sv_thread_detail(), text, sizeof text);
}

/* What was taken back has not come, and a send to nobody writes nothing. A carrier's message was counted when it was
   buffered. */
static void count_success(const selvage_request_t *request)
{
    sv_message_counts_t *counts = &request->engine->counts;
    if (request->peer == SV_MESSAGE_NOBODY || request->cancelled || request->get.counted)
        return;
    *(request->is_send ? &counts->sent : &counts->received) += 1;
    *(request->is_send ? &counts->bytes_sent : &counts->bytes_received) += request->bytes;
    counts->verified += request->verified;
    counts->mended += request->verified && request->attempt > 0;
}

void sv_message_complete(selvage_request_t *request, selvage_status_t status)
{
    sv_message_engine_t *engine = request->engine;
    const bool working = request->state == SV_REQUEST_MOVING || request->state == SV_REQUEST_CLOSING ||
                         request->state == SV_REQUEST_UNPACKING ||
                         (request->is_send &&
                          (request->place.bounce || request->get.is_moving || !sv_get_is_ready(request)));
    if (request->state == SV_REQUEST_COMPLETE)
        return;

    /* 1. The outcome. */
    if (request->state != SV_REQUEST_LEAVING) {
        request->error = status;
        if (status != SELVAGE_SUCCESS)
            snprintf(request->detail, sizeof request->detail, "%.*s", (int)sizeof request->detail - 1,
                     sv_thread_detail());
        else
            count_success(request);
    }
    /* 2. An error may have come before its message. So nobody is to claim its RTR any more, and a claimed copy must not
       begin, or must have ended. The place in the shared segment is then never another's. */
    if (request->put.advertised && sv_message_rtr_cancel(request) == SV_RTR_CLAIMED) {
        request->stuck |= !sv_put_close(request);
        request->put.stamp = 0;
    }
    request->put.advertised = false;
    /* A send that has failed is not to be read any more. */
    if (request->is_send && status != SELVAGE_SUCCESS && !sv_get_revoke(request)) {
        const size_t length = strlen(request->detail);
        snprintf(request->detail + length, sizeof request->detail - length,
                 "; rank %d is reading its buffer, which must not be written", request->peer);
    }
    /* 3. Nobody else gets its memory before the kernel is gone that was to take a message. */
    sv_prelaunch_stop(request);
    if (request->early.launched && engine->broken == SELVAGE_SUCCESS) {
        request->state = SV_REQUEST_LEAVING;
        sv_list_remove(&request->link);
        sv_list_append(&engine->active, &request->link);
        return;
    }
    /* 4. Nor before the device is through. That takes a wait only for work begun after the call. A kernel that fills a
       descriptor ends by itself, and one that gave a verdict is over. A broken engine gives out nothing again. */
    if (status != SELVAGE_SUCCESS && status != SELVAGE_ERR_CHECKSUM && working && engine->broken == SELVAGE_SUCCESS)
        sv_message_quiesce(request, false);
    request->state = SV_REQUEST_COMPLETE;
    /* 5. Nobody is to write to the buffer of a receive that has ended. Where that cannot be had, its error says so. */
    if (!request->is_send && status != SELVAGE_SUCCESS) {
        if (request->route == SV_MESSAGE_PUT)
            request->stuck |= !sv_put_close(request);
        sv_message_pieces_withdraw(request);
        const size_t length = strlen(request->detail);
        if (request->stuck)
            snprintf(request->detail + length, sizeof request->detail - length,
                     "; rank %d is still writing to its buffer, which must not be used", request->peer);
    }
    /* 6. Pieces that come later have a tag of this request, which is therefore no other message's. */
    request->staged.spent_tag |= !request->is_send && request->route == SV_MESSAGE_STAGED &&
                                 (status != SELVAGE_SUCCESS || request->attempt > 0);
    sv_wire_fault_inner(engine->wire)->failed |= request->staged.spent_tag;
    /* 7. All that it has is given back. */
    sv_message_pieces_end(request);
    sv_put_end(request);
    sv_get_end(request);
    if (request->desc)
        sv_ctrl_free(engine, request->desc);
    request->desc = NULL;
    if (request->eager.chunk)
        sv_message_put_chunk(request, request->eager.chunk);
    request->eager.chunk = NULL;
    sv_message_leave_place(request);
    sv_list_remove(&request->link);
    if (request->detached)
        sv_message_put_request(request);
}

/* --- who is looked at --------------------------------------------------------------------------------------------- */

static void move_to(sv_list_t *list, selvage_request_t *request)
{
    sv_list_remove(&request->link);
    sv_list_append(list, &request->link);
}

void sv_message_wake(selvage_request_t *request)
{
    move_to(&request->engine->active, request);
}

/* Takes requests that can take no step by themselves off the list of a poll. Of a hundred thousand messages nearly all
   wait for a word of another rank, or for memory. A poll of all would take as long as they are many. */
static void park(sv_message_engine_t *engine, selvage_request_t *request)
{
    switch (request->state) {
    case SV_REQUEST_RTS_SENT:
    case SV_REQUEST_AWAITS_STATUS:
    case SV_REQUEST_NACKED:
    case SV_REQUEST_DEFERRED:
        move_to(&engine->awaiting, request);
        break;
    case SV_REQUEST_GATE:
        if (request->lacks == SV_LACKS_TURN && sv_list_is_empty(&engine->starved[request->is_send][SV_LACKS_TURN]))
            engine->pieces.turn_ns[request->is_send] = sv_clock_ns();
        if (request->lacks != SV_LACKS_NOTHING)
            move_to(&engine->starved[request->is_send][request->lacks], request);
        break;
    case SV_REQUEST_MOVING:
        if (request->staged.awaits_record)
            move_to(&engine->awaiting, request);
        break;
    default:
        break;
    }
    request->lacks = SV_LACKS_NOTHING;
    request->staged.awaits_record = false;
}

/* Requests that lacked memory or a turn, as many as there is some for. */
static void wake_starved(sv_message_engine_t *engine)
{
    enum { SHARE = 8 };
    const uint64_t still_ns = UINT64_C(2000000000);
    for (int is_send = 0; is_send < 2; is_send++)
        for (int lack = SV_LACKS_CHUNK; lack < SV_MESSAGE_LACKS; lack++) {
            const bool turns = lack == SV_LACKS_TURN;
            sv_list_t *starved = &engine->starved[is_send][lack], *before = engine->active.next;
            if (sv_list_is_empty(starved)) {
                engine->pieces.turns_more[is_send] = turns ? 0 : engine->pieces.turns_more[is_send];
                continue;
            }
            uint32_t left = sv_message_left(engine, is_send, (sv_message_lack_t)lack);
            /* All that have a turn may stand still until a message comes that has none, where ranks look after no
               message of this communicator before that. So the bound gives way by an eighth after two seconds, which is
               longer than slow polls of many take. */
            if (turns && left == 0 && sv_clock_ns() - engine->pieces.turn_ns[is_send] >= still_ns) {
                engine->pieces.turns_more[is_send] += engine->pieces.host_transfers[is_send] / SHARE + 1;
                left = sv_message_left(engine, is_send, SV_LACKS_TURN);
            }
            if (turns && left > 0)
                engine->pieces.turn_ns[is_send] = sv_clock_ns();
            for (; left > 0 && !sv_list_is_empty(starved); left--) { /* in their order, and ahead of what came later */
                sv_list_t *link = starved->next;
                sv_list_remove(link);
                sv_list_append(before, link);
            }
        }
}

/* With nothing else to do, asks whether callers' streams have come to requests that wait for other ranks. So it need
   not be asked when those ranks are there. A query costs about as much as all the rest of a poll. */
static void query_gates(sv_list_t *list)
{
    enum { AT_ONCE = 4, LOOKED_AT_MAX = 16 };
    int asked = 0, looked = 0;
    for (sv_list_t *it = list->next; it != list && asked < AT_ONCE && looked < LOOKED_AT_MAX; it = it->next, looked++) {
        selvage_request_t *request = SV_CONTAINER_OF(it, selvage_request_t, link);
        if (!request->gated || request->early.launched || request->state == SV_REQUEST_GATE) /* which has just asked */
            continue;
        asked++;
        (void)sv_message_gate(request); /* an error is found again by who needs it */
    }
}

bool sv_message_poll(sv_message_engine_t *engine)
{
    enum { RTRS_AT_ONCE = 4 };
    const uint64_t longest_ns = 100000; /* it may map memory, or be interrupted */
    sv_list_t *it, *safe;
    bool moved = false;
    if (engine->broken != SELVAGE_SUCCESS)
        return false;
    engine->now_ns = sv_clock_ns();
    /* 1. What has come, and then the requests that can take a step by themselves; their kernels go in one launch. */
    sv_message_group_begin(engine);
    selvage_status_t status = sv_ctrl_poll(engine, &moved);
    if (status == SELVAGE_SUCCESS) {
        wake_starved(engine);
        SV_LIST_FOR_EACH(it, safe, &engine->active) {
            selvage_request_t *request = SV_CONTAINER_OF(it, selvage_request_t, link);
            status = request->is_send ? sv_message_send_advance(request, &moved)
                                      : sv_message_recv_advance(request, &moved);
            if (status != SELVAGE_SUCCESS || engine->broken != SELVAGE_SUCCESS) /* which has emptied the list */
                break;
            park(engine, request);
        }
    }
    (void)sv_message_group_end(engine);
    if (status != SELVAGE_SUCCESS)
        sv_message_break(engine, status);
    if (engine->ncancels)
        sv_prelaunch_cancel(engine);
    /* 2. With nothing else to do, what takes longer: streams, and receives that could not be offered when posted. */
    if (moved) {
        engine->moved_ns = sv_clock_ns();
    } else {
        query_gates(&engine->posted);
        query_gates(&engine->active);
        query_gates(&engine->awaiting);
        int looked = 0;
        for (it = engine->posted.next; it != &engine->posted && looked < RTRS_AT_ONCE; it = it->next, looked++)
            sv_message_rtr_post(SV_CONTAINER_OF(it, selvage_request_t, link));
    }
    engine->polled_ns = sv_clock_ns();
    engine->poll_ns = engine->polled_ns - engine->now_ns;
    if (engine->poll_ns > longest_ns)
        engine->poll_ns = longest_ns;
    return moved;
}

/* A poll looks at all requests, so one for each call would take longer with each. With few, none is left out. */
bool sv_message_poll_lazily(sv_message_engine_t *engine, unsigned share)
{
    enum { FEW = 4 };
    return (engine->open <= FEW || sv_clock_ns() - engine->polled_ns >= share * engine->poll_ns) &&
           sv_message_poll(engine);
}

void sv_message_poll_if_many(sv_message_engine_t *engine)
{
    enum { MANY = 16, SHARE = 8 };
    if (engine->open > MANY)
        (void)sv_message_poll_lazily(engine, SHARE);
}

void sv_message_poll_control(sv_message_engine_t *engine)
{
    bool moved = false;
    if (engine->broken != SELVAGE_SUCCESS)
        return;
    const selvage_status_t status = sv_ctrl_poll(engine, &moved);
    if (status != SELVAGE_SUCCESS)
        sv_message_break(engine, status);
    if (moved)
        engine->moved_ns = sv_clock_ns();
}

/* --- what the communicator asks ----------------------------------------------------------------------------------- */

static bool poll_if_free(sv_message_engine_t *engine)
{
    if (pthread_mutex_trylock(&engine->lock) != 0)
        return false;
    bool moved = sv_message_poll(engine);
    sv_message_group_launch_old(engine);
    pthread_mutex_unlock(&engine->lock);
    return moved;
}

static selvage_status_t disconnect_engine(sv_message_engine_t *engine, bool *done_out)
{
    pthread_mutex_lock(&engine->lock);
    (void)sv_message_group_launch(engine);
    selvage_status_t status = engine->broken;
    if (status == SELVAGE_SUCCESS)
        status = sv_message_disconnect(engine, done_out);
    pthread_mutex_unlock(&engine->lock);
    return status;
}

/* Sends that were let go of come to their end while the others come to destroy, too. */
static unsigned count_open(sv_message_engine_t *engine)
{
    pthread_mutex_lock(&engine->lock);
    const sv_list_t *begun[] = {&engine->active, &engine->awaiting, &engine->starved[true][SV_LACKS_CHUNK],
                                &engine->starved[true][SV_LACKS_TURN]};
    unsigned open = engine->open;
    for (size_t i = 0; i < sizeof begun / sizeof *begun; i++)
        for (const sv_list_t *it = begun[i]->next; it != begun[i]; it = it->next) {
            const selvage_request_t *request = SV_CONTAINER_OF(it, selvage_request_t, link);
            open -= request->detached && request->is_send;
        }
    pthread_mutex_unlock(&engine->lock);
    return open;
}

static void detach_engine(sv_message_engine_t *engine)
{
    pthread_mutex_lock(&engine->lock);
    selvage_status_t status =
        sv_error_quiet(SELVAGE_ERR_STATE, "MPI_Finalize was called while messages could still be under way");
    sv_message_break(engine, status);
    sv_ctrl_cancel(engine);
    pthread_mutex_unlock(&engine->lock);
}

static void log_ways(const sv_message_engine_t *engine)
{
    const uint64_t *arrived = engine->arrived.by;
    sv_log(
        SV_LOG_DEBUG, "message",
        "messages received: %llu by the wire, %llu within the node (%llu by slots), %llu in pieces, %llu direct "
        "(%llu claimed, %llu by get); %llu of them by a kernel that waited; %llu control messages sent again",
        (unsigned long long)arrived[SV_WAY_WIRE], (unsigned long long)arrived[SV_WAY_SHM],
        (unsigned long long)engine->arrived.by_devslot, (unsigned long long)arrived[SV_WAY_STAGED],
        (unsigned long long)arrived[SV_WAY_DIRECT], (unsigned long long)engine->arrived.claimed,
        (unsigned long long)engine->arrived.fetched,
        (unsigned long long)engine->arrived.prelaunched, (unsigned long long)engine->unacked.resent);
}

static bool is_engine_drained(sv_message_engine_t *engine)
{
    pthread_mutex_lock(&engine->lock);
    const bool quiet = !engine->stores_late && !sv_message_is_storing(engine);
    pthread_mutex_unlock(&engine->lock);
    return quiet;
}

/* Memory that kernels may still store to, here or there, stays, and so do the mappings that they may need. Where a
   kernel does not end, all stays, since freeing and closing would wait for it. */
static void end_engine(sv_message_engine_t *engine, bool all_drained)
{
    sv_wire_t *wire = sv_wire_fault_inner(engine->wire);
    /* Pieces of those may come still. */
    const bool leaves = !sv_list_is_empty(&engine->active) || !sv_list_is_empty(&engine->awaiting);
    log_ways(engine);
    (void)sv_error_quiet(SELVAGE_ERR_STATE, "the communicator is destroyed");
    sv_message_break(engine, SELVAGE_ERR_STATE);
    wire->failed |= leaves;
    const bool stuck = atomic_load_explicit(&engine->comm->device_stuck, memory_order_relaxed);
    const bool quiet = all_drained && !stuck && is_engine_drained(engine);
    if (!engine->comm->detached)
        sv_ctrl_cancel(engine);
    if (quiet)
        release_engine(engine);
    else
        sv_log(SV_LOG_WARN, "message", "work on callers' streams%s has not ended: memory of this communicator's "
               "messages is set aside", stuck ? "" : " that messages wait for");
}

/* Another thread may be inside, and counts. */
sv_message_stats_t sv_message_stats(selvage_comm_t *comm)
{
    /* Partner: the release in sv_message_engine(). */
    sv_message_engine_t *engine = atomic_load_explicit(&comm->messages, memory_order_acquire);
    if (!engine)
        return (sv_message_stats_t){.resent = 0};
    pthread_mutex_lock(&engine->lock);
    const sv_pinned_pool_t *pool = engine->pieces.pool;
    const sv_message_stats_t stats = {.arrived = engine->arrived, .counts = engine->counts,
                                      .resent = engine->unacked.resent, .open_most = engine->open_most,
                                      .chunks_most = pool[0].most_used + pool[1].most_used};
    pthread_mutex_unlock(&engine->lock);
    return stats;
}

static void fill_stats(sv_message_engine_t *engine, selvage_stats_t *stats)
{
    const sv_message_stats_t all = sv_message_stats(engine->comm);
    const sv_message_counts_t counts = all.counts;
    stats->message_requests_most = all.open_most;
    stats->message_buffers_most = all.chunks_most;
    stats->messages_sent = counts.sent;
    stats->messages_received = counts.received;
    stats->message_bytes_sent = counts.bytes_sent;
    stats->message_bytes_received = counts.bytes_received;
    stats->messages_verified = counts.verified;
    stats->messages_damaged = counts.damaged;
    stats->messages_repeated = counts.repeated;
    stats->messages_failed = counts.failed;
    stats->messages_mended = counts.mended;
}

static const sv_messages_ops_t ops = {.poll = poll_if_free,
                                      .is_idle = sv_message_is_idle,
                                      .disconnect = disconnect_engine,
                                      .count = count_open,
                                      .detach = detach_engine,
                                      .stats = fill_stats,
                                      .is_drained = is_engine_drained,
                                      .release = end_engine};

selvage_status_t sv_message_engine(selvage_comm_t *comm, sv_message_engine_t **engine_out)
{
    /* Partner: the release below. */
    sv_message_engine_t *engine = atomic_load_explicit(&comm->messages, memory_order_acquire);
    selvage_status_t status = SELVAGE_SUCCESS;
    if (!engine) {
        pthread_mutex_lock(&comm->messages_lock);
        engine = atomic_load_explicit(&comm->messages, memory_order_relaxed);
        if (!engine)
            status = create_engine(comm, &engine);
        if (status == SELVAGE_SUCCESS) {
            comm->messages_ops = &ops;
            /* Partners: the acquire above, and that of the communicator's poll. */
            atomic_store_explicit(&comm->messages, engine, memory_order_release);
        }
        pthread_mutex_unlock(&comm->messages_lock);
    }
    if (status == SELVAGE_SUCCESS)
        *engine_out = engine;
    return status;
}
