/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered buffers: a list of a communicator, searched at commit and never on the hot path. A buffer does not own the
 * user's memory. One thread at a time per communicator, so nothing here locks.
 */
#include "host/memory_buffer.h"

#include <stdio.h>
#include <string.h>

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

selvage_buffer_t *sv_buffer_find(const sv_list_t *buffers, const void *ptr, size_t bytes)
{
    const sv_list_t *it, *safe;

    SV_LIST_FOR_EACH(it, safe, buffers) {
        selvage_buffer_t *buffer = SV_CONTAINER_OF(it, selvage_buffer_t, link);
        const uintptr_t base = (uintptr_t)buffer->ptr, begin = (uintptr_t)ptr;
        if (begin >= base && bytes <= buffer->bytes && begin - base <= buffer->bytes - bytes)
            return buffer;
    }
    return NULL;
}
