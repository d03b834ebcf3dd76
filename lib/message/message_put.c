/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages from device to device on a node: the receiver says where, by the handle of an allocation and an offset,
 * and the sender's kernel or copy engine writes straight there. A kernel does it up to some size, and sums in the same
 * pass; beyond, a copy engine, while a kernel reads the source for its digest. Words in the receiver's shared segment
 * say that bytes and record are there; no host is in between. A receiver that waits has its verifying kernel there
 * before (message_prelaunch.c), and that gives the verdict. Memory that no neighbour can map is replaced by a buffer
 * that it can. Mappings of neighbours' allocations are kept (transfer_mapping.h).
 */
#include "message/message_put.h"

#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "message/message_devslot.h"
#include "message/message_layout.h"
#include "message/message_pool.h"

enum { WHERE = 3 }; /* in a CTS: route, put slot, its stamp, and from here on where it is */

_Static_assert(WHERE * sizeof(uint64_t) + sizeof(sv_message_where_t) <= sizeof(((sv_ctrl_header_t *)0)->value),
               "a handle and more fit into a control header");

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
           !recv->put.denied && route != SELVAGE_ROUTE_STAGED && route != SELVAGE_ROUTE_SHARED;
}

/* Asking for a handle takes microseconds; that of an allocation that was asked for before is known. */
selvage_status_t sv_message_export(sv_message_engine_t *engine, const uint8_t *ptr, size_t bytes, uint64_t id,
                                   sv_device_handle_t *handle, uint64_t *offset)
{
    if (id == 0)
        id = SV_DEVICE_CALL(engine->dev, memory_id, ptr);
    for (unsigned i = 0; i < SV_MESSAGE_EXPORTS && id; i++) {
        sv_message_export_t *known = &engine->memory.exported[i];
        if (known->id != id)
            continue;
        known->uses++;
        *handle = known->handle;
        *offset = (uintptr_t)ptr - known->base;
        return SELVAGE_SUCCESS;
    }
    SV_TRY(SV_DEVICE_CALL(engine->dev, export_memory, ptr, bytes, handle, offset));
    engine->memory.exported[engine->memory.next_export++ % SV_MESSAGE_EXPORTS] =
        (sv_message_export_t){.id = id, .base = (uintptr_t)ptr - *offset, .handle = *handle};
    return SELVAGE_SUCCESS;
}

unsigned sv_message_export_uses(const sv_message_engine_t *engine, uint64_t id)
{
    for (unsigned i = 0; i < SV_MESSAGE_EXPORTS && id; i++)
        if (engine->memory.exported[i].id == id)
            return engine->memory.exported[i].uses;
    return 0;
}

selvage_status_t sv_message_export_bounce(sv_message_engine_t *engine, sv_message_bounce_t *bounce,
                                          sv_message_where_t *where_out)
{
    if (!bounce->is_exported) {
        SV_TRY(sv_message_export(engine, bounce->memory, bounce->bytes, 0, &bounce->where.handle,
                                 &bounce->where.offset));
        bounce->where.base = (uintptr_t)bounce->memory - bounce->where.offset;
        bounce->is_exported = true;
        bounce->stays = SV_DEVICE_CALL(engine->dev, memory_id, bounce->memory) == 0;
    }
    *where_out = bounce->where;
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
    const uint64_t id = place->bounce ? 0 : place->id;
    if (sv_message_export(engine, place->data, recv->bytes, id, handle, offset) == SELVAGE_SUCCESS)
        return true;
    if (place->bounce || sv_message_take_bounce(engine, recv->bytes, &bounce) != SELVAGE_SUCCESS)
        return false;
    if (sv_message_export(engine, bounce->memory, recv->bytes, 0, handle, offset) != SELVAGE_SUCCESS) {
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
    /* Partner: the release in sv_put_end() of the sender. */
    while (put_slot < SV_SHM_PUT_SLOTS &&
           ((end->put_slots >> put_slot & 1) ||
            (!(end->revoked >> put_slot & 1) &&
             __atomic_load_n(&end->shm->left[put_slot], __ATOMIC_ACQUIRE) != end->given[put_slot])))
        put_slot++;
    return put_slot;
}

bool sv_put_reserve(selvage_request_t *recv, sv_message_peer_t *peer)
{
    if (recv->put.stamp) /* of an RTR that was withdrawn */
        return true;
    if (!may_be_direct(recv, peer))
        return false;
    const unsigned put_slot = find_put_slot(peer->in);
    if (put_slot == SV_SHM_PUT_SLOTS || !export_place(recv, &peer->in->shm->where[put_slot]))
        return false;
    sv_message_where_t *where = &peer->in->shm->where[put_slot];
    where->base = (uintptr_t)recv->place.data - where->offset;
    recv->put.slot = put_slot;
    recv->put.stamp = peer->in->given[put_slot] = ++recv->engine->stamps;
    /* The sender reads it after the CTS, or after its exchange of the RTR. */
    __atomic_store_n(&peer->in->shm->begun[put_slot], recv->put.stamp << 1, __ATOMIC_RELEASE);
    peer->in->put_slots |= UINT32_C(1) << put_slot;
    peer->in->revoked &= ~(UINT32_C(1) << put_slot);
    return true;
}

bool sv_put_revoke(const selvage_request_t *recv)
{
    sv_shm_end_t *end = shm_end_of(recv);
    uint64_t word = recv->put.stamp << 1;
    /* Partner: the exchange in sv_put_start(). */
    if (!__atomic_compare_exchange_n(&end->shm->begun[recv->put.slot], &word, 0, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        return false;
    end->revoked |= UINT32_C(1) << recv->put.slot;
    return true;
}

bool sv_put_close(const selvage_request_t *recv)
{
    enum { DEADLINE_US = 1000000, LOOK_US = 100 };
    sv_backoff_t backoff = {.max_sleep_us = LOOK_US};
    /* Of an engine that has failed, all are waited for together. */
    const uint64_t began_ns = recv->engine->broken_ns ? recv->engine->broken_ns : sv_clock_ns();
    if (recv->put.stamp == 0 || (shm_end_of(recv)->revoked >> recv->put.slot & 1) ||
        sv_put_revoke(recv))
        return true;
    while (!sv_put_has_arrived(recv)) {
        if (sv_clock_ns() - began_ns > UINT64_C(1000) * DEADLINE_US)
            return false;
        sv_backoff(&backoff);
    }
    return true;
}

void sv_put_release(selvage_request_t *recv)
{
    if (recv->put.stamp == 0)
        return;
    sv_shm_end_t *end = shm_end_of(recv);
    end->put_slots &= ~(UINT32_C(1) << recv->put.slot);
    end->given[recv->put.slot] = __atomic_load_n(&end->shm->left[recv->put.slot], __ATOMIC_RELAXED);
    recv->put.stamp = 0;
}

bool sv_put_fill_cts(selvage_request_t *recv, sv_ctrl_header_t *cts)
{
    sv_message_engine_t *engine = recv->engine;
    sv_message_peer_t *peer;
    if (recv->peer == engine->wire->rank && sv_shm_advertise(engine, recv->peer) != SELVAGE_SUCCESS)
        return false;
    if (sv_message_peer(engine, recv->peer, &peer) != SELVAGE_SUCCESS || !may_be_direct(recv, peer) ||
        !sv_put_reserve(recv, peer)) {
        sv_put_release(recv);
        return false;
    }
    cts->value[1] = recv->put.slot;
    cts->value[2] = recv->put.stamp;
    memcpy(&cts->value[WHERE], &peer->in->shm->where[recv->put.slot], sizeof(sv_message_where_t));
    return true;
}

bool sv_put_has_arrived(const selvage_request_t *recv)
{
    const sv_message_shm_t *shm = shm_end_of(recv)->shm;
    /* Partners: the sender's stream and kernel, or its host. */
    return sv_word_is(&shm->put_arrived[recv->put.slot], recv->put.stamp) &&
           sv_word_is(&shm->recorded[recv->put.slot], recv->put.stamp);
}

/* The record lies beside the word, if there is one. */
static sv_devslot_place_t put_record_of(const selvage_request_t *request, const sv_shm_end_t *end)
{
    sv_devslot_place_t place = sv_devslot_of_put(request->engine, end, request->put.slot);
    if (!place.record)
        place.record = sv_shared_device_address(&end->segment, &end->shm->record[request->put.slot]);
    return place;
}

sv_verify_job_t sv_put_job(const selvage_request_t *recv)
{
    const sv_shm_end_t *end = shm_end_of(recv);
    const sv_devslot_place_t place = put_record_of(recv, end);
    return (sv_verify_job_t){.src = recv->place.data,
                             .record = place.record,
                             .await = place.word,
                             .await_value = sv_devslot_put_value(recv->key, recv->put.stamp),
                             .outcome = sv_shared_device_address(&end->segment, &end->shm->outcome[recv->put.slot]),
                             .outcome_value = recv->put.stamp};
}

/* --- the sender's ------------------------------------------------------------------------------------------------- */

selvage_status_t sv_put_map(selvage_request_t *send, const sv_message_where_t *where)
{
    sv_message_engine_t *engine = send->engine;
    /* Neighbours' devices are of one kind with this one, or could not be mapped. */
    const sv_transfer_memory_t target = {.peer = send->peer, .handle = &where->handle, .base = where->base,
                                         .offset = where->offset, .bytes = send->bytes,
                                         .kept = SV_DEVICE_CALL(engine->dev, memory_id, send->place.data) != 0};
    send->put.mapping = NULL;
    send->put.offset = where->offset;
    const selvage_status_t status =
        sv_transfer_map(&engine->memory.mappings, engine->dev, &target, &send->put.mapping);
    if (status != SELVAGE_SUCCESS)
        sv_log(SV_LOG_INFO, "message", "%s to rank %d through host memory: its device memory cannot be mapped (%s)",
               sv_transfer_never_maps(status) ? "messages go" : "a message goes", send->peer, sv_thread_detail());
    return status;
}

selvage_status_t sv_put_open(selvage_request_t *send, const sv_ctrl_header_t *cts)
{
    sv_message_where_t where;
    memcpy(&where, &cts->value[WHERE], sizeof where);
    send->put.slot = (unsigned)cts->value[1];
    send->put.stamp = cts->value[2];
    if (!send->place.on_device) /* a lent message that was moved */
        return sv_error_quiet(SELVAGE_ERR_LIMIT, "its bytes are in host memory now");
    return sv_put_map(send, &where);
}

bool sv_put_by_kernel(const selvage_request_t *request)
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
                                  .word = sv_shared_device_address(&end->segment, &shm->put_arrived[send->put.slot]),
                                  .stamp = send->put.stamp,
                                  .devslot = place.word,
                                  .devslot_value = sv_devslot_put_value(send->key, send->put.stamp)};
    SV_TRY(sv_message_prepare(send, &job, stream));
    /* Partner: the acquire in sv_put_has_arrived(). */
    __atomic_store_n(&shm->recorded[send->put.slot], send->put.stamp, __ATOMIC_RELEASE);
    return SELVAGE_SUCCESS;
}

/* One exchange of one word: either the copy begins, or the receiver has taken its memory back. */
selvage_status_t sv_put_start(selvage_request_t *send)
{
    uint64_t word = send->put.stamp << 1;
    /* Partner: the exchange in sv_put_revoke(). */
    if (__atomic_compare_exchange_n(&shm_end_of(send)->shm->begun[send->put.slot], &word, word | 1, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return SELVAGE_SUCCESS;
    return sv_error(SELVAGE_ERR_TIMEOUT, "rank %d has given up its receive of message %llu (tag %d, %llu bytes)",
                    send->peer, (unsigned long long)send->number, send->tag, (unsigned long long)send->bytes);
}

selvage_status_t sv_put_copy(selvage_request_t *send, void *stream)
{
    sv_message_engine_t *engine = send->engine;
    const sv_shm_end_t *end = shm_end_of(send);
    uint8_t *target = (uint8_t *)send->put.mapping->base + send->put.offset;
    if (sv_put_by_kernel(send))
        return copy_by_kernel(send, end, target, stream);
    SV_TRY(SV_DEVICE_CALL(engine->dev, copy_async, target, send->place.data, send->bytes, SV_COPY_PEER,
                          engine->streams.peer));
    if (send->corrupted) { /* a fault of a test's: a byte that arrived is changed */
        const sv_flip_arg_t arg = {target + send->bytes / 2, 1};
        SV_TRY(SV_DEVICE_CALL(engine->dev, launch, &sv_kernel_flip, &arg, sizeof arg, 1, engine->streams.peer));
    }
    SV_TRY(SV_DEVICE_CALL(engine->dev, signal_async,
                          sv_shared_device_address(&end->segment, &end->shm->put_arrived[send->put.slot]),
                          send->put.stamp, engine->streams.peer));
    /* The record goes apart. Partner: the acquire in sv_put_has_arrived(). */
    uint64_t *recorded = &end->shm->recorded[send->put.slot];
    const sv_prepare_job_t job = {.src = send->place.data,
                                  .record = put_record_of(send, end).record,
                                  .word = sv_shared_device_address(&end->segment, recorded),
                                  .stamp = send->put.stamp};
    if (sv_message_checks(engine))
        return sv_message_prepare(send, &job, engine->streams.kernel);
    __atomic_store_n(recorded, send->put.stamp, __ATOMIC_RELEASE);
    return SELVAGE_SUCCESS;
}

bool sv_put_has_left(const selvage_request_t *send)
{
    return sv_put_has_arrived(send);
}

bool sv_put_is_good(const selvage_request_t *send)
{
    /* Partner: the receiver's kernel. */
    return sv_word_is(&shm_end_of(send)->shm->outcome[send->put.slot], send->put.stamp);
}

void sv_put_end(selvage_request_t *request)
{
    if (request->route != SV_MESSAGE_PUT) {
        if (!request->is_send)
            sv_put_release(request);
        return;
    }
    sv_shm_end_t *end = shm_end_of(request);
    const bool over = !request->retired; /* else it may be stored there for good */
    if (request->is_send && request->put.mapping && over)
        sv_transfer_unmap(request->put.mapping);
    /* An older message's, which was revoked, may end after a younger one has left the same put slot. */
    if (request->is_send && request->put.stamp && over &&
        __atomic_load_n(&end->shm->left[request->put.slot], __ATOMIC_RELAXED) < request->put.stamp)
        /* Partner: the acquire in find_put_slot(). */
        __atomic_store_n(&end->shm->left[request->put.slot], request->put.stamp, __ATOMIC_RELEASE);
    if (!request->is_send && request->put.stamp)
        end->put_slots &= ~(UINT32_C(1) << request->put.slot);
    request->put.mapping = NULL;
    request->put.stamp = 0;
    request->route = SV_MESSAGE_NONE;
}
