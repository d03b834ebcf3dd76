/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages from device to device on a node: the receiver says where, by the handle of an allocation and an offset,
 * and the sender's kernel or copy engine writes straight there. A kernel does it up to some size, and sums in the same
 * pass; beyond, a copy engine, while a kernel reads the source for its digest. Words in the receiver's shared segment
 * say that bytes and record are there; no host is in between. A receiver that waits has its verifying kernel there
 * before (message_prelaunch.c), and that gives the verdict. Memory that no neighbour can map is replaced by a buffer
 * that it can.
 *
 * Mappings of neighbours' allocations are kept, because opening one costs milliseconds, although memory that its owner
 * frees is not free before they are closed. So one goes when its owner has another allocation at the same address, and
 * the oldest when there are many.
 */
#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "host/memory_buffer.h"
#include "message/message_devslot.h"
#include "message/message_layout.h"
#include "message/message_pool.h"

enum { MAPPINGS_MAX = 32, WHERE = 3 }; /* in a CTS: route, put slot, its stamp, and from here on where it is */

_Static_assert(WHERE * sizeof(uint64_t) + sizeof(sv_message_where_t) <= sizeof(((sv_ctrl_header_t *)0)->value),
               "a handle and more fit into a control header");

#define IDLE_BYTES_MAX (UINT64_C(256) << 20) /* of mappings that nobody uses, together; beyond ... */
#define IDLE_SHORT_NS UINT64_C(100000000)    /* ... they stay this long, for who uses many in turn ... */
#define IDLE_LONG_NS UINT64_C(10000000000)   /* ... and else so long */

typedef struct sv_message_mapping {
    sv_list_t link;
    sv_opened_t *opened;
    uint64_t remote_base;    /* where its owner has it */
    uint64_t bytes;          /* of the allocation, as far as messages have reached into it */
    uint64_t used_ns;        /* when the last user left it */
    bool retained;           /* while nobody uses it */
    unsigned users;
} sv_message_mapping_t;

static sv_shm_end_t *shm_end_of(const selvage_request_t *request)
{
    sv_message_peer_t *peer;
    if (sv_message_peer(request->engine, request->peer, &peer) != SELVAGE_SUCCESS) /* it exists */
        return NULL;
    return request->is_send && peer->rank != request->engine->wire->rank ? peer->out : peer->in;
}

/* --- the receiver's ----------------------------------------------------------------------------------------------- */

static bool may_be_direct(const selvage_request_t *recv, const sv_message_peer_t *peer)
{
    const int route = recv->engine->comm->config.route;
    return recv->from_device && recv->place.on_device && peer->in && peer->in->used && !peer->no_direct &&
           route != SELVAGE_ROUTE_STAGED && route != SELVAGE_ROUTE_SHARED;
}

/* Asking for a handle takes microseconds; that of an allocation that was asked for before is known. */
static selvage_status_t export_memory(sv_message_engine_t *engine, const uint8_t *ptr, size_t bytes,
                                      sv_device_handle_t *handle, uint64_t *offset)
{
    const uint64_t id = SV_DEVICE_CALL(engine->dev, memory_id, ptr);
    for (unsigned i = 0; i < SV_MESSAGE_EXPORTS && id; i++) {
        const sv_message_export_t *known = &engine->exported[i];
        if (known->id != id)
            continue;
        *handle = known->handle;
        *offset = (uintptr_t)ptr - known->base;
        return SELVAGE_SUCCESS;
    }
    SV_TRY(SV_DEVICE_CALL(engine->dev, export_memory, ptr, bytes, handle, offset));
    engine->exported[engine->next_export++ % SV_MESSAGE_EXPORTS] =
        (sv_message_export_t){.id = id, .base = (uintptr_t)ptr - *offset, .handle = *handle};
    return SELVAGE_SUCCESS;
}

/* What neighbours can write to: the buffer itself, or one of the engine's in its place. */
static bool export_place(selvage_request_t *recv, sv_message_where_t *where)
{
    sv_device_handle_t *handle = &where->handle;
    uint64_t *offset = &where->offset;
    sv_message_place_t *place = &recv->place;
    sv_message_engine_t *engine = recv->engine;
    sv_message_bounce_t *bounce;
    if (export_memory(engine, place->data, recv->bytes, handle, offset) == SELVAGE_SUCCESS)
        return true;
    if (place->bounce || sv_message_take_bounce(engine, recv->bytes, &bounce) != SELVAGE_SUCCESS)
        return false;
    if (export_memory(engine, bounce->memory, recv->bytes, handle, offset) != SELVAGE_SUCCESS) {
        sv_message_put_bounce(engine, bounce);
        return false;
    }
    place->user = place->data;
    place->data = bounce->memory;
    place->bounce = bounce;
    return true;
}

/* One that neither end looks at any more; SV_SHM_PUT_SLOTS if there is none. */
static unsigned find_put_slot(const sv_shm_end_t *end)
{
    unsigned put_slot = 0;
    /* Partner: the release in sv_message_direct_end() of the sender. */
    while (put_slot < SV_SHM_PUT_SLOTS &&
           ((end->put_slots >> put_slot & 1) ||
            (!(end->revoked >> put_slot & 1) &&
             __atomic_load_n(&end->shm->left[put_slot], __ATOMIC_ACQUIRE) != end->given[put_slot])))
        put_slot++;
    return put_slot;
}

bool sv_message_direct_reserve(selvage_request_t *recv, sv_message_peer_t *peer)
{
    if (recv->put_slot_stamp) /* of an RTR that was withdrawn */
        return true;
    if (!may_be_direct(recv, peer))
        return false;
    const unsigned put_slot = find_put_slot(peer->in);
    if (put_slot == SV_SHM_PUT_SLOTS || !export_place(recv, &peer->in->shm->where[put_slot]))
        return false;
    sv_message_where_t *where = &peer->in->shm->where[put_slot];
    where->base = (uintptr_t)recv->place.data - where->offset;
    recv->put_slot = put_slot;
    recv->put_slot_stamp = peer->in->given[put_slot] = ++recv->engine->stamps;
    /* The sender reads it after the CTS, or after its exchange of the RTR. */
    __atomic_store_n(&peer->in->shm->begun[put_slot], recv->put_slot_stamp << 1, __ATOMIC_RELEASE);
    peer->in->put_slots |= UINT32_C(1) << put_slot;
    peer->in->revoked &= ~(UINT32_C(1) << put_slot);
    return true;
}

bool sv_message_direct_revoke(const selvage_request_t *recv)
{
    sv_shm_end_t *end = shm_end_of(recv);
    uint64_t word = recv->put_slot_stamp << 1;
    /* Partner: the exchange in sv_message_direct_start(). */
    if (!__atomic_compare_exchange_n(&end->shm->begun[recv->put_slot], &word, 0, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        return false;
    end->revoked |= UINT32_C(1) << recv->put_slot;
    return true;
}

bool sv_message_direct_close(const selvage_request_t *recv)
{
    enum { DEADLINE_US = 1000000, LOOK_US = 100 };
    sv_backoff_t backoff = {.max_sleep_us = LOOK_US};
    /* Of an engine that has failed, all are waited for together. */
    const uint64_t began_ns = recv->engine->broken_ns ? recv->engine->broken_ns : sv_clock_ns();
    if (recv->put_slot_stamp == 0 || (shm_end_of(recv)->revoked >> recv->put_slot & 1) ||
        sv_message_direct_revoke(recv))
        return true;
    while (!sv_message_direct_has_arrived(recv)) {
        if (sv_clock_ns() - began_ns > UINT64_C(1000) * DEADLINE_US)
            return false;
        sv_backoff(&backoff);
    }
    return true;
}

void sv_message_direct_release(selvage_request_t *recv)
{
    if (recv->put_slot_stamp == 0)
        return;
    sv_shm_end_t *end = shm_end_of(recv);
    end->put_slots &= ~(UINT32_C(1) << recv->put_slot);
    end->given[recv->put_slot] = __atomic_load_n(&end->shm->left[recv->put_slot], __ATOMIC_RELAXED);
    recv->put_slot_stamp = 0;
}

bool sv_message_direct_fill_cts(selvage_request_t *recv, sv_ctrl_header_t *cts)
{
    sv_message_engine_t *engine = recv->engine;
    sv_message_peer_t *peer;
    if (recv->peer == engine->wire->rank && sv_shm_advertise(engine, recv->peer) != SELVAGE_SUCCESS)
        return false;
    if (sv_message_peer(engine, recv->peer, &peer) != SELVAGE_SUCCESS || !may_be_direct(recv, peer) ||
        !sv_message_direct_reserve(recv, peer)) {
        sv_message_direct_release(recv);
        return false;
    }
    cts->value[1] = recv->put_slot;
    cts->value[2] = recv->put_slot_stamp;
    memcpy(&cts->value[WHERE], &peer->in->shm->where[recv->put_slot], sizeof(sv_message_where_t));
    return true;
}

bool sv_message_direct_has_arrived(const selvage_request_t *recv)
{
    const sv_message_shm_t *shm = shm_end_of(recv)->shm;
    /* Partners: the sender's stream and kernel, or its host. */
    return sv_word_is(&shm->put_arrived[recv->put_slot], recv->put_slot_stamp) &&
           sv_word_is(&shm->recorded[recv->put_slot], recv->put_slot_stamp);
}

/* The record lies beside the word, if there is one. */
static sv_devslot_place_t put_record_of(const selvage_request_t *request, const sv_shm_end_t *end)
{
    sv_devslot_place_t place = sv_devslot_of_put(request->engine, end, request->put_slot);
    if (!place.record)
        place.record = sv_shared_device_address(&end->segment, &end->shm->record[request->put_slot]);
    return place;
}

sv_verify_job_t sv_message_direct_job(const selvage_request_t *recv)
{
    const sv_shm_end_t *end = shm_end_of(recv);
    const sv_devslot_place_t place = put_record_of(recv, end);
    return (sv_verify_job_t){.src = recv->place.data,
                             .record = place.record,
                             .await = place.word,
                             .await_value = sv_devslot_put_value(recv->key, recv->put_slot_stamp),
                             .outcome = sv_shared_device_address(&end->segment, &end->shm->outcome[recv->put_slot]),
                             .outcome_value = recv->put_slot_stamp};
}

/* --- the sender's ------------------------------------------------------------------------------------------------- */

static void forget_mapping(sv_message_engine_t *engine, sv_message_mapping_t *mapping)
{
    sv_list_remove(&mapping->link);
    sv_opened_put(mapping->opened);
    sv_free(mapping);
    engine->nmappings--;
}

void sv_message_close_mappings(sv_message_engine_t *engine)
{
    while (!sv_list_is_empty(&engine->mappings))
        forget_mapping(engine, SV_CONTAINER_OF(engine->mappings.next, sv_message_mapping_t, link));
}

static bool is_at(const sv_message_mapping_t *mapping, int peer, uint64_t remote_base)
{
    return mapping->opened->peer == peer && mapping->remote_base == remote_base;
}

static sv_message_mapping_t *find_mapping(sv_message_engine_t *engine, int peer, uint64_t remote_base,
                                          const sv_device_handle_t *handle)
{
    for (sv_list_t *it = engine->mappings.next; it != &engine->mappings; it = it->next) {
        sv_message_mapping_t *mapping = SV_CONTAINER_OF(it, sv_message_mapping_t, link);
        if (is_at(mapping, peer, remote_base) && memcmp(&mapping->opened->handle, handle, sizeof *handle) == 0)
            return mapping;
    }
    return NULL;
}

static uint64_t idle_bytes(const sv_message_engine_t *engine)
{
    uint64_t bytes = 0;
    for (const sv_list_t *it = engine->mappings.next; it != &engine->mappings; it = it->next) {
        const sv_message_mapping_t *mapping = SV_CONTAINER_OF(it, sv_message_mapping_t, link);
        bytes += mapping->users == 0 ? mapping->bytes : 0;
    }
    return bytes;
}

/* Another allocation is there now: what was mapped of that place is stale. Else see above. */
static bool may_go(const sv_message_engine_t *engine, const sv_message_mapping_t *mapping, int peer,
                    uint64_t remote_base, uint64_t now_ns, uint64_t idle)
{
    const uint64_t since_ns = now_ns > mapping->used_ns ? now_ns - mapping->used_ns : 0;
    return is_at(mapping, peer, remote_base) || engine->nmappings >= MAPPINGS_MAX || since_ns >= IDLE_LONG_NS ||
           (idle > IDLE_BYTES_MAX && since_ns >= IDLE_SHORT_NS);
}

static void evict_mappings(sv_message_engine_t *engine, int peer, uint64_t remote_base)
{
    const uint64_t now_ns = sv_clock_ns();
    uint64_t idle = idle_bytes(engine);
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &engine->mappings) {
        sv_message_mapping_t *mapping = SV_CONTAINER_OF(it, sv_message_mapping_t, link);
        if (mapping->users > 0 || !may_go(engine, mapping, peer, remote_base, now_ns, idle))
            continue;
        idle -= mapping->bytes;
        forget_mapping(engine, mapping);
    }
}

static void leave_mapping(sv_message_engine_t *engine, sv_message_mapping_t *mapping)
{
    if (--mapping->users > 0)
        return;
    mapping->used_ns = sv_clock_ns();
    if (!mapping->retained)
        forget_mapping(engine, mapping);
}

static selvage_status_t map(selvage_request_t *send, uint64_t remote_base, const sv_device_handle_t *handle)
{
    sv_message_engine_t *engine = send->engine;
    sv_message_mapping_t *mapping = find_mapping(engine, send->peer, remote_base, handle);
    if (!mapping) {
        evict_mappings(engine, send->peer, remote_base);
        SV_TRY(sv_calloc(1, sizeof *mapping, &mapping));
        selvage_status_t status = sv_opened_get(&engine->opened, engine->dev, send->peer, handle, &mapping->opened);
        if (status != SELVAGE_SUCCESS) {
            sv_free(mapping);
            return status;
        }
        mapping->remote_base = remote_base;
        /* Neighbours' devices are of one kind with this one, or could not be mapped. */
        mapping->retained = SV_DEVICE_CALL(engine->dev, memory_id, send->place.data) != 0;
        sv_list_append(&engine->mappings, &mapping->link);
        engine->nmappings++;
    }
    mapping->users++;
    if (mapping->bytes < send->offset + send->bytes)
        mapping->bytes = send->offset + send->bytes;
    send->mapping = mapping;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_message_direct_map(selvage_request_t *send, const sv_message_where_t *where)
{
    send->mapping = NULL;
    send->offset = where->offset;
    if (map(send, where->base, &where->handle) == SELVAGE_SUCCESS) {
        if (sv_opened_bound(send->mapping->opened, where->offset, send->bytes) == SELVAGE_SUCCESS)
            return SELVAGE_SUCCESS;
        send->mapping->users--;
        send->mapping = NULL;
    }
    sv_log(SV_LOG_INFO, "message", "messages to rank %d go through host memory: its device memory cannot be mapped",
           send->peer);
    return sv_error_quiet(SELVAGE_ERR_UNSUPPORTED, "device memory of rank %d cannot be mapped", send->peer);
}

selvage_status_t sv_message_direct_open(selvage_request_t *send, const sv_ctrl_header_t *cts)
{
    sv_message_where_t where;
    memcpy(&where, &cts->value[WHERE], sizeof where);
    send->put_slot = (unsigned)cts->value[1];
    send->put_slot_stamp = cts->value[2];
    return sv_message_direct_map(send, &where);
}

/* A fault of a test's: a byte that arrived is changed. */
static selvage_status_t corrupt_put(const selvage_request_t *send, uint8_t *target)
{
    sv_flip_arg_t arg = {target + send->bytes / 2, 1};
    if (!send->corrupted)
        return SELVAGE_SUCCESS;
    return SV_DEVICE_CALL(send->engine->dev, launch, &sv_kernel_flip, &arg, sizeof arg, 1, send->engine->peer_stream);
}

bool sv_message_direct_by_kernel(const selvage_request_t *request)
{
    const sv_message_engine_t *engine = request->engine;
    const uint64_t set = engine->comm->config.kernel_peer_max_bytes;
    const size_t own = sv_message_checks(engine) ? engine->dev->kernel_summed_bytes : engine->dev->kernel_peer_bytes;
    return request->bytes <= (set == SV_CONFIG_BYTES_AUTO ? own : set) && !engine->comm->fault.armed;
}

/* The kernel stores the record before it releases landed, so that there is nothing else to wait for. */
static selvage_status_t copy_by_kernel(selvage_request_t *send, const sv_shm_end_t *end, uint8_t *target, void *stream)
{
    sv_message_shm_t *shm = end->shm;
    const sv_devslot_place_t place = put_record_of(send, end);
    const sv_prepare_job_t job = {.src = send->place.data,
                                  .dst = target,
                                  .record = place.record,
                                  .word = sv_shared_device_address(&end->segment, &shm->put_arrived[send->put_slot]),
                                  .stamp = send->put_slot_stamp,
                                  .devslot = place.word,
                                  .devslot_value = sv_devslot_put_value(send->key, send->put_slot_stamp)};
    SV_TRY(sv_message_prepare(send, &job, stream));
    /* Partner: the acquire in sv_message_direct_has_arrived(). */
    __atomic_store_n(&shm->recorded[send->put_slot], send->put_slot_stamp, __ATOMIC_RELEASE);
    return SELVAGE_SUCCESS;
}

static selvage_status_t record_apart(selvage_request_t *send, const sv_shm_end_t *end)
{
    sv_message_shm_t *shm = end->shm;
    const sv_prepare_job_t job = {.src = send->place.data,
                                  .record = put_record_of(send, end).record,
                                  .word = sv_shared_device_address(&end->segment, &shm->recorded[send->put_slot]),
                                  .stamp = send->put_slot_stamp};
    if (sv_message_checks(send->engine))
        return sv_message_prepare(send, &job, send->engine->kernel_stream);
    /* Partner: the acquire in sv_message_direct_has_arrived(). */
    __atomic_store_n(&shm->recorded[send->put_slot], send->put_slot_stamp, __ATOMIC_RELEASE);
    return SELVAGE_SUCCESS;
}

/* One exchange of one word: either the copy begins, or the receiver has taken its memory back. */
selvage_status_t sv_message_direct_start(selvage_request_t *send)
{
    uint64_t word = send->put_slot_stamp << 1;
    /* Partner: the exchange in sv_message_direct_revoke(). */
    if (__atomic_compare_exchange_n(&shm_end_of(send)->shm->begun[send->put_slot], &word, word | 1, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return SELVAGE_SUCCESS;
    return sv_error(SELVAGE_ERR_TIMEOUT, "rank %d has given up its receive of message %llu (tag %d, %llu bytes)",
                    send->peer, (unsigned long long)send->number, send->tag, (unsigned long long)send->bytes);
}

selvage_status_t sv_message_direct_copy(selvage_request_t *send, void *stream)
{
    sv_message_engine_t *engine = send->engine;
    const sv_shm_end_t *end = shm_end_of(send);
    uint8_t *target = (uint8_t *)send->mapping->opened->base + send->offset;
    if (sv_message_direct_by_kernel(send))
        return copy_by_kernel(send, end, target, stream);
    SV_TRY(SV_DEVICE_CALL(engine->dev, copy_async, target, send->place.data, send->bytes, SV_COPY_PEER,
                          engine->peer_stream));
    SV_TRY(corrupt_put(send, target));
    SV_TRY(SV_DEVICE_CALL(engine->dev, signal_async,
                          sv_shared_device_address(&end->segment, &end->shm->put_arrived[send->put_slot]),
                          send->put_slot_stamp, engine->peer_stream));
    return record_apart(send, end);
}

bool sv_message_direct_has_left(const selvage_request_t *send)
{
    return sv_message_direct_has_arrived(send);
}

bool sv_message_direct_is_good(const selvage_request_t *send)
{
    /* Partner: the receiver's kernel. */
    return sv_word_is(&shm_end_of(send)->shm->outcome[send->put_slot], send->put_slot_stamp);
}

void sv_message_direct_end(selvage_request_t *request)
{
    if (request->route != SV_MESSAGE_DIRECT) {
        if (!request->is_send)
            sv_message_direct_release(request);
        return;
    }
    sv_shm_end_t *end = shm_end_of(request);
    const bool over = !request->retired; /* else it may be stored there for good */
    if (request->is_send && request->mapping && over)
        leave_mapping(request->engine, request->mapping);
    /* An older message's, which was revoked, may end after a younger one has left the same put slot. */
    if (request->is_send && request->put_slot_stamp && over &&
        __atomic_load_n(&end->shm->left[request->put_slot], __ATOMIC_RELAXED) < request->put_slot_stamp)
        /* Partner: the acquire in find_put_slot(). */
        __atomic_store_n(&end->shm->left[request->put_slot], request->put_slot_stamp, __ATOMIC_RELEASE);
    if (!request->is_send && request->put_slot_stamp)
        end->put_slots &= ~(UINT32_C(1) << request->put_slot);
    request->mapping = NULL;
    request->put_slot_stamp = 0;
    request->route = SV_MESSAGE_NONE;
}
