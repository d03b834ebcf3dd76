/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered buffers and the opened handles of peers: two lists of a communicator, searched at commit and never on the
 * hot path. A buffer does not own the user's memory; an opened handle owns its mapping and counts its users. One
 * thread at a time per communicator, so nothing here locks.
 */
#include "host/memory_buffer.h"

#include <stdio.h>
#include <string.h>

#include "base/base_fault.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "base/base_thread.h"
#include "host/memory_kind.h"

/* The device refuses in silence, because commit only asks; whoever registers wants to know. */
static selvage_status_t report_memory_kind(sv_device_t *dev, const void *ptr, size_t bytes)
{
    sv_memory_kind_t kind = sv_memory_kind(dev, ptr, bytes);
    char why[SV_DETAIL_BYTES];
    snprintf(why, sizeof why, "%.300s", sv_thread_detail());
    if (kind == SV_MEMORY_DEVICE || kind == SV_MEMORY_UNKNOWN)
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "ptr: %zu bytes at %p cannot be exported to the peers of the node by "
                        "device %s (%s); leave them unregistered: packets go through Selvage's own slab", bytes, ptr,
                        dev->ops->name, why);
    return sv_error(SELVAGE_ERR_UNSUPPORTED, "ptr: %zu bytes at %p cannot be exported to the peers of the node: this "
                    "is %s%s", bytes, ptr, sv_memory_kind_text(kind),
                    sv_memory_kind_is_usable(kind) ? "; leave it unregistered: packets go through Selvage's own slab"
                                                   : "");
}

selvage_status_t sv_buffer_register(sv_list_t *buffers, sv_device_t *dev, void *ptr, size_t bytes,
                                    selvage_buffer_t **buffer_out)
{
    selvage_buffer_t *buffer = NULL;
    selvage_status_t status;

    SV_TRY(sv_calloc(1, sizeof *buffer, &buffer));
    *buffer = (selvage_buffer_t){.dev = dev, .ptr = ptr, .bytes = bytes};
    SV_TRY_GOTO(status, SV_DEVICE_CALL(dev, export_memory, ptr, bytes, &buffer->handle, &buffer->offset), release);
    sv_list_append(buffers, &buffer->link);
    *buffer_out = buffer;
    return SELVAGE_SUCCESS;

release:
    sv_free(buffer);
    return status == SELVAGE_ERR_UNSUPPORTED ? report_memory_kind(dev, ptr, bytes) : status;
}

selvage_status_t sv_buffer_unregister(selvage_buffer_t *buffer)
{
    if (buffer == NULL)
        return SELVAGE_SUCCESS;
    if (buffer->users > 0)
        return sv_error(SELVAGE_ERR_STATE, "buf: %u committed packet%s still land%s in this buffer", buffer->users,
                        buffer->users == 1 ? "" : "s", buffer->users == 1 ? "s" : "");
    sv_list_remove(&buffer->link);
    sv_free(buffer);
    return SELVAGE_SUCCESS;
}

static bool buffer_contains(const selvage_buffer_t *buffer, uintptr_t begin, size_t bytes)
{
    uintptr_t base = (uintptr_t)buffer->ptr;

    return begin >= base && bytes <= buffer->bytes && begin - base <= buffer->bytes - bytes;
}

selvage_buffer_t *sv_buffer_find(const sv_list_t *buffers, const void *ptr, size_t bytes)
{
    const sv_list_t *it, *safe;

    SV_LIST_FOR_EACH(it, safe, buffers) {
        selvage_buffer_t *buffer = SV_CONTAINER_OF(it, selvage_buffer_t, link);
        if (buffer_contains(buffer, (uintptr_t)ptr, bytes))
            return buffer;
    }
    return NULL;
}

static sv_opened_t *find_opened(const sv_list_t *opened, const sv_device_t *dev, int peer,
                                const sv_device_handle_t *handle)
{
    const sv_list_t *it, *safe;

    SV_LIST_FOR_EACH(it, safe, opened) {
        sv_opened_t *entry = SV_CONTAINER_OF(it, sv_opened_t, link);
        if (entry->dev == dev && entry->peer == peer && memcmp(&entry->handle, handle, sizeof *handle) == 0)
            return entry;
    }
    return NULL;
}

selvage_status_t sv_opened_get(sv_list_t *opened, sv_device_t *dev, int peer, const sv_device_handle_t *handle,
                               sv_opened_t **opened_out)
{
    sv_opened_t *entry = find_opened(opened, dev, peer, handle);
    selvage_status_t status;

    if (entry == NULL) {
        if (sv_fault_call_fails(SV_FAULT_CALL_IPC))
            return sv_error(SELVAGE_ERR_DEVICE, "injected fault: opening of device memory");
        SV_TRY(sv_calloc(1, sizeof *entry, &entry));
        *entry = (sv_opened_t){.dev = dev, .peer = peer, .handle = *handle};
        SV_TRY_GOTO(status, SV_DEVICE_CALL(dev, open_memory, handle, &entry->base, &entry->bytes), release);
        sv_list_append(opened, &entry->link);
    }
    entry->users++;
    *opened_out = entry;
    return SELVAGE_SUCCESS;

release:
    sv_free(entry);
    return status;
}

selvage_status_t sv_opened_bound(const sv_opened_t *opened, uint64_t offset, uint64_t bytes)
{
    if (bytes <= opened->bytes && offset <= opened->bytes - bytes)
        return SELVAGE_SUCCESS;
    return sv_error(SELVAGE_ERR_MISMATCH, "%llu bytes at offset %llu lie outside of the %llu bytes of device memory "
                    "that rank %d has announced", (unsigned long long)bytes, (unsigned long long)offset,
                    (unsigned long long)opened->bytes, opened->peer);
}

void sv_opened_put(sv_opened_t *opened)
{
    if (opened == NULL || --opened->users > 0)
        return;
    SV_DEVICE_CALL(opened->dev, close_memory, opened->base);
    sv_list_remove(&opened->link);
    sv_free(opened);
}
