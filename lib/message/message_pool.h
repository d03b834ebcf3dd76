/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a message engine keeps for its next use: control descriptors, requests, chunks of pinned memory, peers. All of
 * it is the engine's, under its lock, and lives as long.
 */
#ifndef SV_MESSAGE_POOL_H
#define SV_MESSAGE_POOL_H

#include "message/message_engine.h"

/* header_only: for a control message alone. */
selvage_status_t sv_ctrl_alloc(sv_message_engine_t *engine, bool header_only, sv_ctrl_desc_t **desc_out);
/* The same for a control message to this rank: in its shared segment, if there is room. */
selvage_status_t sv_ctrl_alloc_to(sv_message_engine_t *engine, int rank, bool header_only, sv_ctrl_desc_t **desc_out);
void sv_ctrl_free(sv_message_engine_t *engine, sv_ctrl_desc_t *desc);
selvage_status_t sv_message_take_request(sv_message_engine_t *engine, selvage_request_t **request_out);
void sv_message_put_request(selvage_request_t *request);
/* The request of this id, if it still is that one; else NULL. */
selvage_request_t *sv_message_find(sv_message_engine_t *engine, uint64_t id);
static inline uint64_t sv_message_id(const selvage_request_t *request)
{
    return (uint64_t)request->generation << 32 | request->index;
}
void sv_message_init_chunks(sv_message_engine_t *engine);
/* IN_PROGRESS while others have all that there may be, or that there is memory for; an error if nobody has any. There
   are more for requests that have none yet, as others may wait for them. One of a request that is retired is never
   given out again. */
selvage_status_t sv_message_take_chunk(sv_message_engine_t *engine, bool is_send, bool is_first,
                                       sv_pinned_t **chunk_out);
/* Whether many are left. */
bool sv_message_has_chunks(const sv_message_engine_t *engine, bool is_send);
/* How many requests could begin that lack this. */
uint32_t sv_message_left(const sv_message_engine_t *engine, bool is_send, sv_message_lack_t lack);
void sv_message_put_chunk(const selvage_request_t *request, sv_pinned_t *chunk);
/* Slots for a message in pieces. Put accepts that there are none. */
selvage_status_t sv_message_take_window(selvage_request_t *request);
void sv_message_put_window(selvage_request_t *request);
selvage_status_t sv_message_peer(sv_message_engine_t *engine, int rank, sv_message_peer_t **peer_out);
void sv_message_free_pools(sv_message_engine_t *engine);

#endif
