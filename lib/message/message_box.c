/* SPDX-License-Identifier: BSD-3-Clause */
/* See message_box.h. Under the engine's lock; the words of a box are all that two ranks touch at the same time. */
#include "message/message_box.h"

#include <string.h>

#include "base/base_log.h"
#include "base/base_memory.h"
#include "message/message_near.h"

enum { ALIGN = 256 };

static size_t round_up(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t bytes_of(const sv_message_engine_t *engine)
{
    return round_up(sizeof(sv_message_box_t)) + SV_BOX_SLOTS * round_up(engine->mail_bytes);
}

static void furnish(const sv_message_engine_t *engine, sv_message_box_end_t *end)
{
    uint8_t *base = sv_shared_base(&end->segment);
    end->box = (sv_message_box_t *)(void *)base;
    for (unsigned i = 0; i < SV_BOX_SLOTS; i++) {
        sv_mail_t *mail = &end->mail[i];
        mail->letter = (sv_letter_t *)(void *)(base + round_up(sizeof *end->box) + i * round_up(engine->mail_bytes));
        mail->word = &end->box->arrived[i];
        mail->box = end;
        mail->slot = i;
        mail->shift = end->segment.device_shift;
        sv_list_init(&mail->link);
        sv_list_init(&mail->kept_link);
    }
}

void sv_message_box_close(sv_message_box_end_t *end)
{
    if (!end)
        return;
    sv_near_close(end);
    sv_shared_close(&end->segment);
    sv_free(end);
}

/* --- the reader's ------------------------------------------------------------------------------------------------- */

static bool may_have_one(const sv_message_engine_t *engine, const sv_message_peer_t *peer)
{
    return !peer->in && !peer->no_box && engine->comm->config.route != SELVAGE_ROUTE_STAGED &&
           sv_topology_node_index(&engine->comm->topology, peer->rank) >= 0;
}

static selvage_status_t make(sv_message_engine_t *engine, sv_message_peer_t *peer, uint64_t token)
{
    sv_message_box_end_t *end;
    SV_TRY(sv_calloc(1, sizeof *end, &end));
    selvage_status_t status = sv_shared_create(engine->dev, bytes_of(engine), token, &end->segment);
    if (status != SELVAGE_SUCCESS) {
        sv_free(end);
        return status;
    }
    furnish(engine, end);
    end->used = peer->rank == engine->wire->rank;
    peer->in = end;
    if (peer->rank == engine->wire->rank)
        return SELVAGE_SUCCESS;
    if (engine->comm->config.route != SELVAGE_ROUTE_SHARED)
        sv_near_make(engine, end);
    sv_list_append(&engine->boxed, &peer->box_link);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_message_box_offer(sv_message_engine_t *engine, int rank)
{
    sv_message_peer_t *peer;
    sv_letter_t letter = {.kind = SV_LETTER_BOX};
    SV_TRY(sv_message_peer(engine, rank, &peer));
    if (!may_have_one(engine, peer))
        return SELVAGE_SUCCESS;
    const uint64_t token = sv_digest_mix(engine->exchange + ++engine->stamps) | 1;
    if (make(engine, peer, token) != SELVAGE_SUCCESS) {
        peer->no_box = true; /* which is said on the log; the wire will do */
        return SELVAGE_SUCCESS;
    }
    if (rank == engine->wire->rank)
        return SELVAGE_SUCCESS;
    _Static_assert(sizeof(sv_mapping_handle_t) + sizeof token <= sizeof letter.value, "an offer fits into a letter");
    letter.bytes = token;
    memcpy(letter.value, &peer->in->segment.mapping.handle, sizeof(sv_mapping_handle_t));
    return sv_mail_tell(engine, rank, &letter);
}

void sv_message_box_wish(sv_message_box_end_t *end, bool host)
{
    if (end->box->wants_host != host) /* this end's own word; partner: the acquire in sv_near_take() */
        __atomic_store_n(&end->box->wants_host, host, __ATOMIC_RELEASE);
}

static selvage_status_t look_into(sv_message_engine_t *engine, const sv_message_peer_t *peer, bool *moved)
{
    sv_message_box_end_t *end = peer->in;
    for (unsigned i = 0; i < SV_BOX_SLOTS; i++) {
        sv_mail_t *mail = &end->mail[i];
        /* Partner: the release in sv_mail_post() of the writer, or of its kernel. */
        const uint64_t stamp = __atomic_load_n(mail->word, __ATOMIC_ACQUIRE);
        if (stamp == end->stamp[i])
            continue;
        end->stamp[i] = mail->stamp = stamp;
        end->used = *moved = true;
        const bool by_slot = mail->letter->kind == SV_LETTER_EAGER && mail->letter->value[0];
        const bool fits = !by_slot || (end->near.base && mail->letter->bytes <= engine->near_bytes);
        if (sv_mail_is_sound(engine, mail->letter) && fits) {
            mail->near = by_slot ? end : NULL;
            mail->near_count = mail->letter->value[0];
            SV_TRY(sv_message_arrive(engine, mail));
            continue;
        }
        /* It lies where its writer has put it, and is gone: who waits for it would do so for ever. */
        return sv_error(SELVAGE_ERR_CHECKSUM, "a letter in memory shared with rank %d does not verify", peer->rank);
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_message_boxes_poll(sv_message_engine_t *engine, bool *moved)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &engine->boxed) {
        sv_message_peer_t *peer = SV_CONTAINER_OF(it, sv_message_peer_t, box_link);
        SV_TRY(look_into(engine, peer, moved));
    }
    return SELVAGE_SUCCESS;
}

/* --- the writer's ------------------------------------------------------------------------------------------------- */

void sv_message_box_open(sv_message_engine_t *engine, sv_message_peer_t *peer, const sv_letter_t *offer)
{
    sv_message_box_end_t *end;
    sv_mapping_handle_t handle;
    memcpy(&handle, offer->value, sizeof handle);
    if (peer->out || sv_calloc(1, sizeof *end, &end) != SELVAGE_SUCCESS)
        return;
    if (sv_shared_open(engine->dev, &handle, offer->bytes, &end->segment) != SELVAGE_SUCCESS) {
        sv_log(SV_LOG_INFO, "message", "letters to rank %d go by the wire: its memory cannot be mapped", peer->rank);
        sv_free(end);
        return;
    }
    furnish(engine, end);
    end->writer = true;
    sv_near_open(engine, peer, end);
    peer->out = end;
}

sv_mail_t *sv_message_box_room(sv_message_engine_t *engine, sv_message_box_end_t *end)
{
    for (unsigned i = 0; i < SV_BOX_SLOTS; i++) {
        sv_mail_t *mail = &end->mail[i];
        /* Partner: the release in sv_message_box_leave() of the reader. */
        if (__atomic_load_n(&end->box->freed[i], __ATOMIC_ACQUIRE) != end->stamp[i])
            continue;
        mail->stamp = end->stamp[i] = ++engine->stamps;
        mail->kept = mail->flying = mail->from_wire = false;
        mail->near = NULL;
        return mail;
    }
    return NULL;
}

void sv_message_box_leave(sv_mail_t *mail)
{
    sv_message_box_end_t *end = mail->box;
    uint64_t *freed = &end->box->freed[mail->slot];
    if (end->writer)
        end->stamp[mail->slot] = __atomic_load_n(freed, __ATOMIC_RELAXED);
    else
        __atomic_store_n(freed, mail->stamp, __ATOMIC_RELEASE); /* partner: the acquire in sv_message_box_room() */
}
