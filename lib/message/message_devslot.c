/* SPDX-License-Identifier: BSD-3-Clause */
/* See message_devslot.h. Under the engine's lock. */
#include "message/message_devslot.h"

#include "base/base_log.h"

enum { ALIGN = 256 };

static size_t payload_bytes(const sv_message_engine_t *engine)
{
    return (engine->devslot_bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t slot_bytes(const sv_message_engine_t *engine)
{
    return payload_bytes(engine) + ALIGN;
}

/* Slots, and a line with a word and a record for each put slot, and for each place of a get. */
static size_t block_bytes(const sv_message_engine_t *engine)
{
    return SV_DEVSLOTS * slot_bytes(engine) + (SV_SHM_PUT_SLOTS + SV_SHM_GETS) * (size_t)ALIGN;
}

sv_devslot_place_t sv_devslot_place(const sv_message_engine_t *engine, const sv_shm_end_t *end, uint64_t count)
{
    uint8_t *at = end->devslot.base + count % SV_DEVSLOTS * slot_bytes(engine);
    uint8_t *after_payload = at + payload_bytes(engine);
    return (sv_devslot_place_t){at, (sv_record_t *)(void *)after_payload,
                                (uint64_t *)(void *)(after_payload + sizeof(sv_record_t))};
}

static sv_devslot_place_t find_line(const sv_message_engine_t *engine, const sv_shm_end_t *end, unsigned line)
{
    uint8_t *at = end->devslot.base + SV_DEVSLOTS * slot_bytes(engine) + line * (size_t)ALIGN;
    /* Partner: the release in sv_devslot_open(). */
    if (!end->devslot.base || !__atomic_load_n(&end->shm->devslot_open, __ATOMIC_ACQUIRE))
        return (sv_devslot_place_t){0};
    return (sv_devslot_place_t){NULL, (sv_record_t *)(void *)at, (uint64_t *)(void *)(at + sizeof(sv_record_t))};
}

sv_devslot_place_t sv_devslot_of_put(const sv_message_engine_t *engine, const sv_shm_end_t *end, unsigned put_slot)
{
    return find_line(engine, end, put_slot);
}

sv_devslot_place_t sv_devslot_of_get(const sv_message_engine_t *engine, const sv_shm_end_t *end, unsigned place)
{
    return find_line(engine, end, SV_SHM_PUT_SLOTS + place);
}

/* --- the reader's ------------------------------------------------------------------------------------------------- */

/* Of the kind that shows a kernel what others write, or of the ordinary one where that cannot be exported. */
static selvage_status_t allocate_devslots(sv_message_engine_t *engine, bool fine, sv_shm_end_t *end)
{
    sv_device_t *dev = engine->dev;
    sv_message_shm_t *shm = end->shm;
    const size_t bytes = block_bytes(engine);
    void *memory;
    SV_TRY((fine ? dev->ops->malloc_fine : dev->ops->malloc)(dev, bytes, &memory));
    selvage_status_t status =
        SV_DEVICE_CALL(dev, export_memory, memory, bytes, &shm->devslot_handle, &shm->devslot_offset);
    if (status == SELVAGE_SUCCESS)
        status = SV_DEVICE_CALL(dev, fill_async, memory, 0, bytes, engine->streams.kernel);
    if (status == SELVAGE_SUCCESS)
        status = SV_DEVICE_CALL(dev, stream_sync, engine->streams.kernel);
    if (status != SELVAGE_SUCCESS) {
        SV_DEVICE_CALL(dev, free, memory);
        return status;
    }
    end->devslot.base = memory;
    end->devslot.shown = fine || dev->shows_stores;
    shm->devslot_bytes = engine->devslot_bytes;
    return SELVAGE_SUCCESS;
}

void sv_devslot_create(sv_message_engine_t *engine, sv_shm_end_t *end)
{
    if (engine->devslot_bytes == 0 || allocate_devslots(engine, true, end) == SELVAGE_SUCCESS ||
        allocate_devslots(engine, false, end) == SELVAGE_SUCCESS)
        return;
    sv_log(SV_LOG_INFO, "message", "messages of a neighbour come by host memory: %s", sv_thread_detail());
}

/* --- the writer's ------------------------------------------------------------------------------------------------- */

void sv_devslot_open(sv_message_engine_t *engine, const sv_message_peer_t *peer, sv_shm_end_t *end)
{
    sv_message_shm_t *shm = end->shm;
    sv_transfer_mapping_t *mapping;
    if (engine->devslot_bytes == 0 || shm->devslot_bytes != engine->devslot_bytes)
        return;
    const sv_transfer_memory_t block = {.peer = peer->rank, .handle = &shm->devslot_handle,
                                        .offset = shm->devslot_offset, .bytes = block_bytes(engine)};
    if (sv_transfer_map(&engine->memory.mappings, engine->dev, &block, &mapping) != SELVAGE_SUCCESS) {
        sv_log(SV_LOG_INFO, "message", "messages to rank %d go by host memory: its device memory cannot be mapped",
               peer->rank);
        return;
    }
    end->devslot.mapping = mapping;
    end->devslot.base = (uint8_t *)mapping->base + shm->devslot_offset;
    __atomic_store_n(&shm->devslot_open, 1, __ATOMIC_RELEASE); /* partner: the acquire in find_line() */
}

bool sv_devslot_take(const selvage_request_t *send, sv_ctrl_desc_t *desc)
{
    sv_shm_end_t *end = desc->shm;
    const uint64_t count = end->devslot.count + 1, slot = count % SV_DEVSLOTS;
    /* Partner: the release in sv_devslot_put() of the reader. */
    if (!end->devslot.base || send->bytes > send->engine->devslot_bytes ||
        __atomic_load_n(&end->shm->devslot_freed[slot], __ATOMIC_ACQUIRE) != end->devslot.given[slot] ||
        (!send->buffered && sv_shm_prefers_host(end)))
        return false;
    end->devslot.count = end->devslot.given[slot] = count;
    desc->devslot = end;
    desc->devslot_count = count;
    return true;
}

void sv_devslot_mark(sv_ctrl_desc_t *desc, uint64_t key)
{
    sv_message_devslots_t *devslot = &desc->devslot->devslot;
    devslot->taken[desc->devslot_count % SV_DEVSLOTS] = desc->devslot_count;
    devslot->value[desc->devslot_count % SV_DEVSLOTS] = sv_devslot_value(key, desc->header->value[1]);
}

bool sv_devslot_is_awaited(const sv_shm_end_t *end, uint64_t count, uint64_t *before_out)
{
    const uint64_t slot = count % SV_DEVSLOTS;
    *before_out = end->devslot.value[slot];
    return end->devslot.taken[slot] + SV_DEVSLOTS == count || (end->devslot.taken[slot] == 0 && count <= SV_DEVSLOTS);
}

/* --- both --------------------------------------------------------------------------------------------------------- */

void sv_devslot_put(sv_ctrl_desc_t *desc)
{
    sv_shm_end_t *end = desc->devslot;
    if (!end)
        return;
    const uint64_t slot = desc->devslot_count % SV_DEVSLOTS;
    desc->devslot = NULL;
    if (end->writer)
        end->devslot.given[slot] = __atomic_load_n(&end->shm->devslot_freed[slot], __ATOMIC_RELAXED);
    else /* partner: the acquire in sv_devslot_take() */
        __atomic_store_n(&end->shm->devslot_freed[slot], desc->devslot_count, __ATOMIC_RELEASE);
}

void sv_devslot_move(sv_ctrl_desc_t *from, sv_ctrl_desc_t *to)
{
    to->devslot = from->devslot;
    to->devslot_count = from->devslot_count;
    from->devslot = NULL;
}

void sv_devslot_close(sv_shm_end_t *end)
{
    sv_transfer_unmap(end->devslot.mapping);
    if (!end->writer && end->devslot.base)
        SV_DEVICE_CALL(end->segment.dev, free, end->devslot.base);
    end->devslot.base = NULL;
}
