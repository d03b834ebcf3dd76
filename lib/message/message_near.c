/* SPDX-License-Identifier: BSD-3-Clause */
/* See message_near.h. Under the engine's lock. */
#include "message/message_near.h"

#include "base/base_log.h"

enum { ALIGN = 256 };

static size_t payload_bytes(const sv_message_engine_t *engine)
{
    return (engine->near_bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t slot_bytes(const sv_message_engine_t *engine)
{
    return payload_bytes(engine) + ALIGN;
}

/* Slots, and a word and a record for each landing. */
static size_t block_bytes(const sv_message_engine_t *engine)
{
    return SV_NEAR_SLOTS * slot_bytes(engine) + SV_BOX_LANDINGS * (size_t)ALIGN;
}

sv_near_place_t sv_near_place(const sv_message_engine_t *engine, const sv_message_box_end_t *end, uint64_t count)
{
    uint8_t *at = end->near.base + count % SV_NEAR_SLOTS * slot_bytes(engine);
    uint8_t *behind = at + payload_bytes(engine);
    return (sv_near_place_t){at, (sv_record_t *)(void *)behind, (uint64_t *)(void *)(behind + sizeof(sv_record_t))};
}

/* Lines behind the slots. */
sv_near_place_t sv_near_landing(const sv_message_engine_t *engine, const sv_message_box_end_t *end, unsigned landing)
{
    uint8_t *at = end->near.base + SV_NEAR_SLOTS * slot_bytes(engine) + landing * (size_t)ALIGN;
    /* Partner: the release in sv_near_open(). */
    if (!end->near.base || !__atomic_load_n(&end->box->near_open, __ATOMIC_ACQUIRE))
        return (sv_near_place_t){0};
    return (sv_near_place_t){NULL, (sv_record_t *)(void *)at, (uint64_t *)(void *)(at + sizeof(sv_record_t))};
}

/* --- the reader's ------------------------------------------------------------------------------------------------- */

static selvage_status_t clear(sv_message_engine_t *engine, void *memory, size_t bytes)
{
    SV_TRY(SV_DEVICE_CALL(engine->dev, fill_async, memory, 0, bytes, engine->kernel_stream));
    return SV_DEVICE_CALL(engine->dev, stream_sync, engine->kernel_stream);
}

/* Of the kind that shows a kernel what others write, or of the ordinary one where that cannot be exported. */
static selvage_status_t allocate(sv_message_engine_t *engine, bool fine, sv_message_box_end_t *end)
{
    sv_device_t *dev = engine->dev;
    sv_message_box_t *box = end->box;
    const size_t bytes = block_bytes(engine);
    void *memory;
    SV_TRY((fine ? dev->ops->malloc_fine : dev->ops->malloc)(dev, bytes, &memory));
    selvage_status_t status =
        SV_DEVICE_CALL(dev, export_memory, memory, bytes, &box->near_handle, &box->near_offset);
    if (status == SELVAGE_SUCCESS)
        status = clear(engine, memory, bytes);
    if (status != SELVAGE_SUCCESS) {
        SV_DEVICE_CALL(dev, free, memory);
        return status;
    }
    end->near.base = memory;
    end->near.shown = fine || dev->shows_stores;
    box->near_bytes = engine->near_bytes;
    return SELVAGE_SUCCESS;
}

void sv_near_make(sv_message_engine_t *engine, sv_message_box_end_t *end)
{
    if (engine->near_bytes == 0 || allocate(engine, true, end) == SELVAGE_SUCCESS ||
        allocate(engine, false, end) == SELVAGE_SUCCESS)
        return;
    sv_log(SV_LOG_INFO, "message", "messages of a neighbour come by host memory: %s", sv_thread_detail());
}

/* --- the writer's ------------------------------------------------------------------------------------------------- */

void sv_near_open(sv_message_engine_t *engine, const sv_message_peer_t *peer, sv_message_box_end_t *end)
{
    sv_message_box_t *box = end->box;
    sv_opened_t *opened;
    if (engine->near_bytes == 0 || box->near_bytes != engine->near_bytes)
        return;
    selvage_status_t status = sv_opened_get(&engine->opened, engine->dev, peer->rank, &box->near_handle, &opened);
    if (status == SELVAGE_SUCCESS) {
        status = sv_opened_bound(opened, box->near_offset, block_bytes(engine));
        if (status != SELVAGE_SUCCESS)
            sv_opened_put(opened);
    }
    if (status != SELVAGE_SUCCESS) {
        sv_log(SV_LOG_INFO, "message", "messages to rank %d go by host memory: its device memory cannot be mapped",
               peer->rank);
        return;
    }
    end->near.opened = opened;
    end->near.base = (uint8_t *)opened->base + box->near_offset;
    __atomic_store_n(&box->near_open, 1, __ATOMIC_RELEASE); /* partner: the acquire in sv_near_landing() */
}

bool sv_near_take(const selvage_request_t *send, sv_mail_t *mail)
{
    sv_message_box_end_t *end = mail->box;
    const uint64_t count = end->near.count + 1, slot = count % SV_NEAR_SLOTS;
    /* Partners: the releases in sv_near_leave() and sv_message_box_wish() of the reader. */
    if (!end->near.base || send->bytes > send->engine->near_bytes ||
        __atomic_load_n(&end->box->near_freed[slot], __ATOMIC_ACQUIRE) != end->near.given[slot] ||
        (!send->buffered && __atomic_load_n(&end->box->wants_host, __ATOMIC_ACQUIRE)))
        return false;
    end->near.count = end->near.given[slot] = count;
    mail->near = end;
    mail->near_count = count;
    return true;
}

void sv_near_note(sv_mail_t *mail, uint64_t key)
{
    sv_message_near_t *near = &mail->near->near;
    near->taken[mail->near_count % SV_NEAR_SLOTS] = mail->near_count;
    near->value[mail->near_count % SV_NEAR_SLOTS] = sv_near_value(key, mail->letter->value[1]);
}

bool sv_near_is_awaited(const sv_message_box_end_t *end, uint64_t count, uint64_t *before_out)
{
    const uint64_t slot = count % SV_NEAR_SLOTS;
    *before_out = end->near.value[slot];
    return end->near.taken[slot] + SV_NEAR_SLOTS == count || (end->near.taken[slot] == 0 && count <= SV_NEAR_SLOTS);
}

/* --- both --------------------------------------------------------------------------------------------------------- */

void sv_near_leave(sv_mail_t *mail)
{
    sv_message_box_end_t *end = mail->near;
    if (!end)
        return;
    const uint64_t slot = mail->near_count % SV_NEAR_SLOTS;
    mail->near = NULL;
    if (end->writer)
        end->near.given[slot] = __atomic_load_n(&end->box->near_freed[slot], __ATOMIC_RELAXED);
    else /* partner: the acquire in sv_near_take() */
        __atomic_store_n(&end->box->near_freed[slot], mail->near_count, __ATOMIC_RELEASE);
}

void sv_near_move(sv_mail_t *from, sv_mail_t *to)
{
    to->near = from->near;
    to->near_count = from->near_count;
    from->near = NULL;
}

void sv_near_close(sv_message_box_end_t *end)
{
    sv_opened_put(end->near.opened);
    if (!end->writer && end->near.base)
        SV_DEVICE_CALL(end->segment.dev, free, end->near.base);
    end->near.base = NULL;
}
