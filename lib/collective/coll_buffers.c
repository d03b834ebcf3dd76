/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file checks the buffers of a call: how long they are, whether they lie right, and whether the device reaches
 * them. A buffer in a window was proved when the window was registered. The answer for other buffers is kept in the
 * handle for a few calls. All functions run on the application's one thread; users own the buffers.
 */
#include "base/base_status.h"
#include "collective/coll_names.h"
#include "collective/coll_parts.h"
#include "host/memory_kind.h"

void sv_coll_extents(const selvage_coll_t *coll, const sv_coll_call_t *call, uint64_t *send_bytes,
                     uint64_t *recv_bytes)
{
    uint64_t one = call->count * selvage_type_bytes(call->type), all = one * (uint64_t)coll->size;
    bool is_root = call->root == coll->rank;
    *send_bytes = *recv_bytes = one;
    switch (call->call) {
    case SV_COLL_REDUCE_SCATTER: *send_bytes = all; break;
    case SV_COLL_ALL_GATHER: *recv_bytes = all; break;
    case SV_COLL_ALL_TO_ALL: *send_bytes = *recv_bytes = all; break;
    case SV_COLL_BROADCAST: *send_bytes = is_root ? one : 0; break;
    case SV_COLL_REDUCE: *recv_bytes = is_root ? one : 0; break;
    case SV_COLL_PAIR: *(call->is_send ? recv_bytes : send_bytes) = 0; break;
    default: break;
    }
}

/* Where the one may lie within the other: both begin there. */
static bool lies_in_place(const selvage_coll_t *coll, const sv_coll_call_t *call)
{
    uint64_t own = call->count * selvage_type_bytes(call->type) * (uint64_t)coll->rank;
    uintptr_t send = (uintptr_t)call->send, recv = (uintptr_t)call->recv;
    switch (call->call) {
    case SV_COLL_REDUCE_SCATTER: return recv == send + own;
    case SV_COLL_ALL_GATHER: return send == recv + own;
    case SV_COLL_ALL_TO_ALL: return false;
    default: return send == recv;
    }
}

/* Asks the device what kind of memory this is, unless it lies in a window or was asked about lately. */
static selvage_status_t admit_buffer(selvage_coll_t *coll, const sv_coll_call_t *call, const char *name,
                                     const void *buffer, uint64_t bytes, void **address_out, uint64_t *id_out)
{
    sv_device_t *dev = coll->comm->dev;
    if (sv_coll_window_find(coll, buffer, bytes))
        return SELVAGE_SUCCESS;
    const uint64_t id = *id_out = SV_DEVICE_CALL(dev, memory_id, buffer);
    for (unsigned i = 0; i < SV_COLL_SEEN && id != 0; i++)
        if (coll->seen[i].id == id && coll->seen[i].ptr == buffer && coll->seen[i].bytes >= bytes) {
            *address_out = coll->seen[i].address;
            return SELVAGE_SUCCESS;
        }
    sv_memory_kind_t kind = SV_DEVICE_CALL(dev, memory_kind, buffer, bytes);
    if (!sv_memory_kind_is_usable(kind))
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: %s: %llu bytes at %p on device %s: this is %s",
                        sv_coll_call_name(call->call), name, (unsigned long long)bytes, buffer, dev->ops->name,
                        sv_memory_kind_text(kind));
    if (kind == SV_MEMORY_PINNED)
        SV_TRY(SV_DEVICE_CALL(dev, host_address, *address_out, address_out));
    if (id != 0)
        coll->seen[coll->seen_next++ % SV_COLL_SEEN] = (sv_coll_seen_t){id, buffer, bytes, *address_out};
    return SELVAGE_SUCCESS;
}

static selvage_status_t check_buffer(selvage_coll_t *coll, const sv_coll_call_t *call, const char *name,
                                     const void *buffer, uint64_t bytes, void **address_out, uint64_t *id_out)
{
    const size_t align = sv_coll_type_align(call->type);
    *address_out = (void *)(uintptr_t)buffer;
    *id_out = 0;
    if (bytes == 0)
        return SELVAGE_SUCCESS;
    if (!buffer)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: %s is NULL and count is %llu", sv_coll_call_name(call->call), name,
                        (unsigned long long)call->count);
    if ((uintptr_t)buffer % align)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: %s is %p, not aligned to the %zu bytes of %s",
                        sv_coll_call_name(call->call), name, buffer, align, selvage_type_name(call->type));
    return admit_buffer(coll, call, name, buffer, bytes, address_out, id_out);
}

selvage_status_t sv_coll_check_buffers(selvage_coll_t *coll, sv_coll_call_t *call)
{
    uint64_t most = UINT64_C(1) << 34, send_bytes, recv_bytes;
    void *send, *recv;
    if (call->count >= most)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: count is %llu; wanted less than %llu",
                        sv_coll_call_name(call->call), (unsigned long long)call->count, (unsigned long long)most);
    sv_coll_extents(coll, call, &send_bytes, &recv_bytes);
    SV_TRY(check_buffer(coll, call, "send", call->send, send_bytes, &send, &call->send_id));
    SV_TRY(check_buffer(coll, call, "recv", call->recv, recv_bytes, &recv, &call->recv_id));
    uintptr_t from = (uintptr_t)call->send, to = (uintptr_t)call->recv;
    bool apart = send_bytes == 0 || recv_bytes == 0 || from + send_bytes <= to || to + recv_bytes <= from;
    if (!apart && !lies_in_place(coll, call))
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: send (%llu bytes at %p) and recv (%llu bytes at %p) overlap",
                        sv_coll_call_name(call->call), (unsigned long long)send_bytes, call->send,
                        (unsigned long long)recv_bytes, call->recv);
    call->send = send;
    call->recv = recv;
    return SELVAGE_SUCCESS;
}
