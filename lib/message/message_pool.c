/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the message engine takes and gives back all the time: descriptors, requests with their pinned lines, chunks for
 * pieces, peers. Pools grow as they are needed and shrink never; their memory ends with the engine. Under the engine's
 * lock.
 */
#include "message/message_pool.h"

#include <string.h>

#include "base/base_log.h"
#include "base/base_memory.h"
#include "message/message_devslot.h"
#include "message/message_unacked.h"

/* Of chunks for sends, and for receives; and so many more for requests that have none. */
enum { ALIGN = 256, CHUNKS_MAX = 4 * SV_MESSAGE_WINDOW, CHUNKS_MORE = 256, HOST_TRANSFERS_MAX = 256 };

/* --- descriptors -------------------------------------------------------------------------------------------------- */

static selvage_status_t grow_descs(sv_message_engine_t *engine, bool header_only)
{
    sv_ctrl_desc_chunk_t *chunk;
    const size_t bytes = header_only ? sizeof(sv_ctrl_header_t) : engine->desc_bytes,
                 each = (bytes + sizeof(uint64_t) + ALIGN - 1) / ALIGN * ALIGN;
    SV_TRY(sv_calloc(1, sizeof *chunk, &chunk));
    selvage_status_t status =
        sv_pinned_calloc(engine->dev, &engine->comm->topology, each * SV_CTRL_RING, &chunk->pinned);
    if (status != SELVAGE_SUCCESS) {
        sv_free(chunk);
        return status;
    }
    chunk->next = engine->desc_chunks;
    engine->desc_chunks = chunk;
    for (int i = 0; i < SV_CTRL_RING; i++) {
        sv_ctrl_desc_t *desc = &chunk->desc[i];
        uint8_t *at = chunk->pinned + (size_t)i * each;
        desc->header = (sv_ctrl_header_t *)(void *)at;
        desc->word = (uint64_t *)(void *)(at + bytes);
        desc->header_only = header_only;
        sv_list_init(&desc->retained_link);
        sv_list_append(&engine->desc_free[header_only], &desc->link);
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_ctrl_alloc(sv_message_engine_t *engine, bool header_only, sv_ctrl_desc_t **desc_out)
{
    if (sv_list_is_empty(&engine->desc_free[header_only]))
        SV_TRY(grow_descs(engine, header_only));
    sv_ctrl_desc_t *desc = SV_CONTAINER_OF(engine->desc_free[header_only].next, sv_ctrl_desc_t, link);
    sv_list_remove(&desc->link);
    desc->in_flight = desc->retained = desc->from_wire = desc->withdrawn = false;
    desc->unacked = NULL;
    desc->counted = NULL;
    desc->devslot = NULL;
    desc->corrupted = 0;
    *desc_out = desc;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_ctrl_alloc_to(sv_message_engine_t *engine, int rank, bool header_only, sv_ctrl_desc_t **desc_out)
{
    sv_message_peer_t *peer;
    SV_TRY(sv_message_peer(engine, rank, &peer));
    *desc_out = peer->out ? sv_shm_take_slot(engine, peer->out) : NULL;
    return *desc_out ? SELVAGE_SUCCESS : sv_ctrl_alloc(engine, header_only, desc_out);
}

void sv_ctrl_free(sv_message_engine_t *engine, sv_ctrl_desc_t *desc)
{
    sv_list_remove(&desc->link);
    sv_devslot_put(desc);
    if (desc->shm) {
        sv_shm_put_slot(desc);
        return;
    }
    if (desc->counted)
        desc->counted->neager--;
    desc->counted = NULL;
    sv_list_append(&engine->desc_free[desc->header_only], &desc->link);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static void free_request_chunk(sv_message_engine_t *engine, sv_request_chunk_t *chunk)
{
    for (int i = 0; i < SV_REQUEST_CHUNK; i++)
        if (chunk->request[i].event)
            engine->dev->ops->event_destroy(engine->dev, chunk->request[i].event);
    if (chunk->scratches && !engine->quarantined)
        SV_DEVICE_CALL(engine->dev, free, chunk->scratches);
    if (chunk->lines && !engine->quarantined)
        SV_DEVICE_CALL(engine->dev, host_free, chunk->lines);
    sv_free(chunk);
}

static selvage_status_t grow_requests(sv_message_engine_t *engine)
{
    const size_t scratch_bytes = SV_REQUEST_CHUNK * sizeof(sv_digest_scratch_t);
    selvage_request_t **table;
    sv_request_chunk_t *chunk;
    selvage_status_t status;
    void *scratches;
    SV_TRY(sv_calloc(engine->nrequests + SV_REQUEST_CHUNK, sizeof *table, &table));
    if (engine->nrequests)
        memcpy(table, engine->table, engine->nrequests * sizeof *table);
    sv_free(engine->table);
    engine->table = table;

    SV_TRY(sv_calloc(1, sizeof *chunk, &chunk));
    SV_TRY_GOTO(status, sv_pinned_calloc(engine->dev, &engine->comm->topology, SV_REQUEST_CHUNK * sizeof *chunk->lines,
                                        &chunk->lines), fail);
    SV_TRY_GOTO(status, SV_DEVICE_CALL(engine->dev, malloc, scratch_bytes, &scratches), fail);
    chunk->scratches = scratches;
    SV_TRY_GOTO(status, SV_DEVICE_CALL(engine->dev, fill_async, scratches, 0, scratch_bytes, engine->streams.kernel),
                fail);
    SV_TRY_GOTO(status, SV_DEVICE_CALL(engine->dev, stream_sync, engine->streams.kernel), fail);
    chunk->next = engine->request_chunks;
    engine->request_chunks = chunk;
    for (int i = 0; i < SV_REQUEST_CHUNK; i++) {
        selvage_request_t *request = &chunk->request[i];
        request->engine = engine;
        request->index = engine->nrequests;
        request->line = chunk->lines + i;
        request->scratch = chunk->scratches + i;
        engine->table[engine->nrequests++] = request;
        sv_list_append(&engine->request_free, &request->link);
    }
    return SELVAGE_SUCCESS;
fail:
    free_request_chunk(engine, chunk);
    return status;
}

selvage_status_t sv_message_take_request(sv_message_engine_t *engine, selvage_request_t **request_out)
{
    if (sv_list_is_empty(&engine->request_free))
        SV_TRY(grow_requests(engine));
    selvage_request_t *request = SV_CONTAINER_OF(engine->request_free.next, selvage_request_t, link);
    const selvage_request_t retained = *request;
    sv_list_remove(&request->link);
    memset(request, 0, sizeof *request);
    sv_list_init(&request->link);
    request->engine = engine;
    request->index = retained.index;
    request->generation = retained.generation + 1;
    request->event = retained.event;
    request->line = retained.line;
    request->scratch = retained.scratch;
    request->stamp = ++engine->stamps;
    engine->open++;
    if (engine->open > engine->open_most)
        engine->open_most = engine->open;
    *request_out = request;
    return SELVAGE_SUCCESS;
}

void sv_message_put_request(selvage_request_t *request)
{
    sv_message_engine_t *engine = request->engine;
    request->generation++; /* late control messages to it find nobody */
    engine->open--;
    sv_list_remove(&request->link);
    if (request->retired || request->staged.spent_tag)
        return;
    sv_list_append(engine->request_free.next, &request->link); /* the first again: it has its event, and is warm */
}

selvage_request_t *sv_message_find(sv_message_engine_t *engine, uint64_t id)
{
    const uint32_t index = (uint32_t)id;
    if (index >= engine->nrequests || engine->table[index]->generation != (uint32_t)(id >> 32))
        return NULL;
    return engine->table[index];
}

/* --- chunks ------------------------------------------------------------------------------------------------------- */

bool sv_message_has_chunks(const sv_message_engine_t *engine, bool is_send)
{
    return engine->pieces.pool[is_send].used < CHUNKS_MAX / 2;
}

uint32_t sv_message_left(const sv_message_engine_t *engine, bool is_send, sv_message_lack_t lack)
{
    const uint32_t turns = HOST_TRANSFERS_MAX + engine->pieces.turns_more[is_send];
    const uint32_t used = engine->pieces.host_transfers[is_send];
    if (lack == SV_LACKS_CHUNK)
        return sv_pinned_left(&engine->pieces.pool[is_send], CHUNKS_MAX + CHUNKS_MORE);
    return used < turns ? turns - used : 0;
}

void sv_message_init_chunks(sv_message_engine_t *engine)
{
    for (int i = 0; i < 2; i++)
        sv_pinned_pool_init(&engine->pieces.pool[i], engine->dev, &engine->comm->topology, engine->segment_bytes,
                            2 * (CHUNKS_MAX + CHUNKS_MORE));
}

selvage_status_t sv_message_take_chunk(sv_message_engine_t *engine, bool is_send, bool is_first,
                                       sv_pinned_t **chunk_out)
{
    return sv_pinned_take(&engine->pieces.pool[is_send], CHUNKS_MAX + (is_first ? CHUNKS_MORE : 0), chunk_out);
}

void sv_message_put_chunk(const selvage_request_t *request, sv_pinned_t *chunk)
{
    sv_pinned_pool_t *pool = &request->engine->pieces.pool[request->is_send];
    if (request->retired)
        sv_pinned_retire(pool, chunk);
    else
        sv_pinned_put(pool, chunk);
}

selvage_status_t sv_message_take_window(selvage_request_t *request)
{
    sv_list_t *unused = &request->engine->pieces.windows_free;
    sv_message_window_t **window = &request->staged.window;
    if (sv_list_is_empty(unused))
        return sv_calloc(1, sizeof **window, window);
    *window = SV_CONTAINER_OF(unused->next, sv_message_window_t, link);
    sv_list_remove(&(*window)->link);
    return SELVAGE_SUCCESS;
}

void sv_message_put_window(selvage_request_t *request)
{
    if (request->staged.window)
        sv_list_append(&request->engine->pieces.windows_free, &request->staged.window->link);
    request->staged.window = NULL;
}

/* --- peers -------------------------------------------------------------------------------------------------------- */

selvage_status_t sv_message_peer(sv_message_engine_t *engine, int rank, sv_message_peer_t **peer_out)
{
    sv_message_peer_t **list = &engine->peers[rank % SV_MESSAGE_PEERS], *peer;
    for (peer = *list; peer && peer->rank != rank; peer = peer->next)
        ;
    if (!peer) {
        SV_TRY(sv_calloc(1, sizeof *peer, &peer));
        peer->rank = rank;
        sv_list_init(&peer->out_of_order);
        sv_list_init(&peer->retained);
        sv_list_init(&peer->shm_link);
        sv_list_init(&peer->unacked);
        sv_list_init(&peer->unacked_link);
        sv_list_init(&peer->ack_due_link);
        peer->next = *list;
        *list = peer;
    }
    *peer_out = peer;
    return SELVAGE_SUCCESS;
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

/* A descriptor is free, on a list of those that came or leave, kept for a repeat, or a request's. */
static bool is_desc_lost(const sv_message_engine_t *engine, const sv_ctrl_desc_t *desc)
{
    if (!sv_list_is_empty(&desc->link) || desc->retained || desc->unacked || desc->withdrawn)
        return false;
    for (uint32_t i = 0; i < engine->nrequests; i++)
        if (engine->table[i]->desc == desc)
            return false;
    return true;
}

static void report_lost_descs(const sv_message_engine_t *engine)
{
    unsigned lost = 0;
    for (const sv_ctrl_desc_chunk_t *chunk = engine->desc_chunks; chunk; chunk = chunk->next)
        for (int i = 0; i < SV_CTRL_RING; i++)
            lost += is_desc_lost(engine, &chunk->desc[i]);
    if (lost > 0)
        sv_log(SV_LOG_WARN, "message", "%u descriptors of control messages were not given back to their pool", lost);
}

void sv_message_free_pools(sv_message_engine_t *engine)
{
    report_lost_descs(engine);
    for (sv_ctrl_desc_chunk_t *chunk = engine->desc_chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        if (!engine->quarantined)
            SV_DEVICE_CALL(engine->dev, host_free, chunk->pinned);
        sv_free(chunk);
    }
    for (sv_request_chunk_t *chunk = engine->request_chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free_request_chunk(engine, chunk);
    }
    sv_free(engine->table);
    sv_unacked_free(engine);
    while (!sv_list_is_empty(&engine->pieces.windows_free)) {
        sv_message_window_t *window = SV_CONTAINER_OF(engine->pieces.windows_free.next, sv_message_window_t, link);
        sv_list_remove(&window->link);
        sv_free(window);
    }
    for (int i = 0; i < 2; i++)
        sv_pinned_pool_close(&engine->pieces.pool[i], engine->quarantined);
    for (int i = 0; i < SV_MESSAGE_PEERS; i++)
        for (sv_message_peer_t *peer = engine->peers[i], *next; peer; peer = next) {
            next = peer->next;
            sv_shm_close(peer->out);
            sv_shm_close(peer->in);
            sv_free(peer);
        }
}
