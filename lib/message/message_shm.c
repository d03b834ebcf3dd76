/* SPDX-License-Identifier: BSD-3-Clause */
/* See message_shm.h. Under the engine's lock. Two ranks touch only the words of a shared segment at the same time. */
#include "message/message_shm.h"

#include <string.h>

#include "base/base_log.h"
#include "base/base_memory.h"
#include "message/message_devslot.h"
#include "message/message_pool.h"

enum { ALIGN = 256 };

static size_t round_up_slot(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void init_end(const sv_message_engine_t *engine, sv_shm_end_t *end)
{
    uint8_t *base = sv_shared_base(&end->segment);
    end->shm = (sv_message_shm_t *)(void *)base;
    for (unsigned i = 0; i < SV_SHM_SLOTS; i++) {
        sv_ctrl_desc_t *desc = &end->desc[i];
        desc->header = (sv_ctrl_header_t *)(void *)(base + round_up_slot(sizeof *end->shm) +
                                                    i * round_up_slot(engine->desc_bytes));
        desc->word = &end->shm->arrived[i];
        desc->shm = end;
        desc->slot = i;
        desc->shift = end->segment.device_shift;
        sv_list_init(&desc->link);
        sv_list_init(&desc->retained_link);
    }
}

void sv_shm_close(sv_shm_end_t *end)
{
    if (!end)
        return;
    sv_devslot_close(end);
    sv_shared_close(&end->segment);
    sv_free(end);
}

/* --- the reader's ------------------------------------------------------------------------------------------------- */

static selvage_status_t create_segment(sv_message_engine_t *engine, sv_message_peer_t *peer, uint64_t token)
{
    sv_shm_end_t *end;
    const size_t bytes = round_up_slot(sizeof(sv_message_shm_t)) + SV_SHM_SLOTS * round_up_slot(engine->desc_bytes);
    SV_TRY(sv_calloc(1, sizeof *end, &end));
    selvage_status_t status = sv_shared_create(engine->dev, bytes, token, &end->segment);
    if (status != SELVAGE_SUCCESS) {
        sv_free(end);
        return status;
    }
    init_end(engine, end);
    end->used = peer->rank == engine->wire->rank;
    peer->in = end;
    if (peer->rank == engine->wire->rank)
        return SELVAGE_SUCCESS;
    if (engine->comm->config.route != SELVAGE_ROUTE_SHARED)
        sv_devslot_create(engine, end);
    sv_list_append(&engine->shm_peers, &peer->shm_link);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_shm_advertise(sv_message_engine_t *engine, int rank)
{
    sv_message_peer_t *peer;
    sv_ctrl_header_t header = {.kind = SV_CTRL_SHM};
    SV_TRY(sv_message_peer(engine, rank, &peer));
    if (peer->in || peer->no_shm || engine->comm->config.route == SELVAGE_ROUTE_STAGED ||
        sv_topology_node_index(&engine->comm->topology, rank) < 0)
        return SELVAGE_SUCCESS;
    const uint64_t token = sv_digest_mix(engine->exchange + ++engine->stamps) | 1;
    if (create_segment(engine, peer, token) != SELVAGE_SUCCESS) {
        peer->no_shm = true; /* which is said on the log; the wire will do */
        return SELVAGE_SUCCESS;
    }
    if (rank == engine->wire->rank)
        return SELVAGE_SUCCESS;
    _Static_assert(sizeof(sv_mapping_handle_t) + sizeof token <= sizeof header.value,
                   "a handle fits into a control header");
    header.bytes = token;
    memcpy(header.value, &peer->in->segment.mapping.handle, sizeof(sv_mapping_handle_t));
    return sv_ctrl_send_header(engine, rank, &header);
}

void sv_shm_prefer(sv_shm_end_t *end, bool host)
{
    /* This end's own word. Partner: the acquire in sv_shm_prefers_host(). */
    if (end->shm->prefers_host != host)
        __atomic_store_n(&end->shm->prefers_host, host, __ATOMIC_RELEASE);
}

selvage_status_t sv_shm_poll(sv_message_engine_t *engine, bool *moved)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &engine->shm_peers)
    {
        sv_message_peer_t *peer = SV_CONTAINER_OF(it, sv_message_peer_t, shm_link);
        sv_shm_end_t *end = peer->in;
        for (unsigned i = 0; i < SV_SHM_SLOTS; i++) {
            sv_ctrl_desc_t *desc = &end->desc[i];
            /* Partner: the release in sv_ctrl_send() of the writer, or of its kernel. */
            const uint64_t stamp = __atomic_load_n(desc->word, __ATOMIC_ACQUIRE);
            if (stamp == end->stamp[i])
                continue;
            end->stamp[i] = desc->stamp = stamp;
            end->used = *moved = true;
            const bool by_slot = desc->header->kind == SV_CTRL_EAGER && desc->header->value[0];
            const bool fits = !by_slot || (end->devslot.base && desc->header->bytes <= engine->devslot_bytes);
            /* It lies where its writer has put it, and is gone: who waits for it would do so for ever. */
            if (!sv_ctrl_is_valid(engine, desc->header) || !fits)
                return sv_error(SELVAGE_ERR_CHECKSUM,
                                "a control message in memory shared with rank %d does not verify", peer->rank);
            desc->devslot = by_slot ? end : NULL;
            desc->devslot_count = desc->header->value[0];
            SV_TRY(sv_message_arrive(engine, desc));
        }
    }
    return SELVAGE_SUCCESS;
}

/* --- the writer's ------------------------------------------------------------------------------------------------- */

void sv_shm_open(sv_message_engine_t *engine, sv_message_peer_t *peer, const sv_ctrl_header_t *advert)
{
    sv_shm_end_t *end;
    sv_mapping_handle_t handle;
    memcpy(&handle, advert->value, sizeof handle);
    if (peer->out || sv_calloc(1, sizeof *end, &end) != SELVAGE_SUCCESS)
        return;
    if (sv_shared_open(engine->dev, &handle, advert->bytes, &end->segment) != SELVAGE_SUCCESS) {
        sv_log(SV_LOG_INFO, "message", "control messages to rank %d go by the wire: its memory cannot be mapped",
               peer->rank);
        sv_free(end);
        return;
    }
    init_end(engine, end);
    end->writer = true;
    sv_devslot_open(engine, peer, end);
    peer->out = end;
}

sv_ctrl_desc_t *sv_shm_take_slot(sv_message_engine_t *engine, sv_shm_end_t *end)
{
    for (unsigned i = 0; i < SV_SHM_SLOTS; i++) {
        sv_ctrl_desc_t *desc = &end->desc[i];
        /* Partner: the release in sv_shm_put_slot() of the reader. */
        if (__atomic_load_n(&end->shm->freed[i], __ATOMIC_ACQUIRE) != end->stamp[i])
            continue;
        desc->stamp = end->stamp[i] = ++engine->stamps;
        desc->retained = desc->in_flight = desc->from_wire = false;
        desc->devslot = NULL;
        return desc;
    }
    return NULL;
}

void sv_shm_put_slot(sv_ctrl_desc_t *desc)
{
    sv_shm_end_t *end = desc->shm;
    uint64_t *freed = &end->shm->freed[desc->slot];
    if (end->writer)
        end->stamp[desc->slot] = __atomic_load_n(freed, __ATOMIC_RELAXED);
    else
        __atomic_store_n(freed, desc->stamp, __ATOMIC_RELEASE); /* partner: the acquire in sv_shm_take_slot() */
}
