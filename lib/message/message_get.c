/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous by get, within a node: the RTS says where the sender's bytes are, and the receiver copies them from there.
 * Once the RTS is out the sender's host is not needed any more: it may compute, or block in a call of MPI's, and the
 * receive ends all the same. So no rank waits for another one's host but for what MPI lets it wait for, a receive that
 * is not posted.
 *
 *   sender's host     where[k] = handle, offset; begun[k] = stamp * 2; RTS with k and the stamp
 *   sender's device   digest --> record[k], ready[k] = stamp                   (in the receiver's shared segment)
 *   receiver's host   begun[k] = stamp * 2 + 1; copies at once if the bytes are final, else once ready[k] is stamp
 *   receiver's device copy, digest, compared with record[k]
 *   receiver's host   STATUS: good; or a CTS with the next attempt, for a put or for pieces (message_rendezvous.c)
 *
 * The offer is taken, or taken back, by one exchange of begun[k]: so a sender that gives up knows whether its buffer is
 * being read. The sender owns the place k until its request has ended, and the receiver its mapping of the memory.
 *
 * A buffered send does not wait for its receiver. A kernel copies it to device memory of the engine's, which is offered
 * in its place, by a second request that lives until it has been received (SELVAGE_MESSAGE_BUFFER_BYTES bounds the
 * memory). Such an offer is also taken by receives in host memory, by way of device memory of the receiver's.
 *
 * What comes damaged out of a buffer is read once more: its sender may be where nobody answers a CTS.
 *
 *   send          BUFFERING --ready[k]--> COMPLETE
 *   the second    RTS_SENT --STATUS--> COMPLETE, and the memory is used again
 *
 * It is offered only where the caller's stream has come to the message, because the digest is made on a stream of the
 * engine's, which waits for no caller's. Other offers are not taken by a receive in host memory, and none by one whose
 * kernel waits for a put already; then the message goes as if it had not been offered.
 */
#include "message/message_get.h"

#include "message/message_layout.h"
#include "message/message_pool.h"
#include "message/message_protocols.h"
#include "message/message_put.h"
#include "message/message_shm.h"

/* In an RTS, after what a claim says: the stamp; and the place k, with these flags. */
enum { STAMP = 3, PLACE = 4, PLACE_MASK = 0xff, FINAL = 1 << 8, CORRUPT = 1 << 9, BUFFERED = 1 << 10 };

static const sv_shm_end_t *end_of_get(const selvage_request_t *request)
{
    sv_message_peer_t *peer;
    if (sv_message_peer(request->engine, request->peer, &peer) != SELVAGE_SUCCESS) /* it exists */
        return NULL;
    return request->is_send ? peer->out : peer->in;
}

/* --- the sender's ------------------------------------------------------------------------------------------------- */

/* Free, and no kernel of an earlier message that was given up writes to it any more; SV_SHM_PUT_SLOTS if there is
   none. */
static unsigned find_get_place(const sv_shm_end_t *end)
{
    unsigned k = 0;
    /* Partner: the digest kernel. */
    while (k < SV_SHM_PUT_SLOTS &&
           ((end->gets >> k & 1) || __atomic_load_n(&end->shm->get_ready[k], __ATOMIC_ACQUIRE) != end->get_stamp[k]))
        k++;
    return k;
}

static bool may_offer_get(const selvage_request_t *send, const sv_message_peer_t *peer, void *stream)
{
    const int route = send->engine->comm->config.route;
    return send->place.on_device && send->bytes > 0 && peer->out && peer->rank != send->engine->wire->rank &&
           !peer->no_get && route != SELVAGE_ROUTE_STAGED && route != SELVAGE_ROUTE_SHARED &&
           (stream == SELVAGE_MESSAGE_NO_STREAM || !send->gated);
}

/* Has the digest made of the bytes at src, which are copied to the place of the request on the way unless they are
   there, and fills in the RTS. */
static selvage_status_t offer_get(selvage_request_t *send, const uint8_t *src, sv_shm_end_t *end, unsigned k,
                                  sv_ctrl_header_t *rts)
{
    sv_message_engine_t *engine = send->engine;
    sv_fault_t *fault = &engine->comm->fault;
    sv_message_where_t *where = &end->shm->get_where[k];
    const bool copied = src != send->place.data, final = !send->place.bounce;
    SV_TRY(sv_message_export(engine, send->place.data, send->bytes, &where->handle, &where->offset));
    where->base = (uintptr_t)send->place.data - where->offset;
    const uint64_t stamp = ++engine->stamps;
    /* 1. The digest. Bytes that are there already need nobody to say so. */
    if (sv_message_checks(engine) || !final) {
        const sv_prepare_job_t job = {.src = src,
                                      .dst = copied ? send->place.data : NULL,
                                      .record = sv_shared_device_address(&end->segment, &end->shm->get_record[k]),
                                      .word = sv_shared_device_address(&end->segment, &end->shm->get_ready[k]),
                                      .stamp = stamp};
        SV_TRY(sv_message_prepare(send, &job, engine->streams.kernel));
    } else { /* partner: the acquire in sv_get_poll() */
        __atomic_store_n(&end->shm->get_ready[k], stamp, __ATOMIC_RELEASE);
    }
    /* 2. The offer. */
    send->get = (sv_request_get_t){.place = k, .stamp = stamp};
    end->gets |= UINT32_C(1) << k;
    end->get_stamp[k] = stamp;
    /* Partners: the acquire in sv_get_match(), and the exchange in sv_get_begin(). */
    __atomic_store_n(&end->shm->get_begun[k], stamp << 1, __ATOMIC_RELEASE);
    const bool corrupt = fault->armed && sv_fault_packet(fault, (uint32_t)send->number, send->attempt) == SV_FAULT_FLIP;
    rts->value[STAMP] = stamp;
    rts->value[PLACE] = k | (final ? FINAL : 0u) | (corrupt ? CORRUPT : 0u) | (copied ? BUFFERED : 0u);
    return SELVAGE_SUCCESS;
}

void sv_get_offer(selvage_request_t *send, void *stream, sv_ctrl_header_t *rts)
{
    sv_message_peer_t *peer;
    if (sv_message_peer(send->engine, send->peer, &peer) != SELVAGE_SUCCESS || !may_offer_get(send, peer, stream) ||
        /* Partner: the release in sv_shm_prefer() of the receiver. */
        __atomic_load_n(&peer->out->shm->prefers_host, __ATOMIC_ACQUIRE))
        return;
    const unsigned k = find_get_place(peer->out);
    if (k < SV_SHM_PUT_SLOTS)
        (void)offer_get(send, send->place.data, peer->out, k, rts); /* else without */
}

/* Device memory for a buffered send: its own bounce buffer, if it has gaps. NULL: as much as there may be is in use, or
   there is none, which is not said on the log: the caller has another way. */
static sv_message_bounce_t *take_send_buffer(selvage_request_t *send)
{
    sv_message_engine_t *engine = send->engine;
    sv_message_bounce_t *bounce = send->place.bounce;
    const int level = sv_thread_binding()->log_level;
    if (engine->buffered_bytes + send->bytes > engine->buffer_bytes)
        return NULL;
    sv_thread_binding()->log_level = 0;
    if (!bounce && sv_message_take_bounce(engine, send->bytes, &bounce) != SELVAGE_SUCCESS) {
        engine->buffer_bytes = engine->buffered_bytes;
        bounce = NULL;
    }
    sv_thread_binding()->log_level = level;
    return bounce;
}

selvage_status_t sv_get_send_buffered(selvage_request_t *send, const sv_message_peer_t *peer, void *stream)
{
    sv_message_engine_t *engine = send->engine;
    const bool packed = send->place.layout != NULL;
    sv_ctrl_desc_t *desc = NULL;
    selvage_request_t *held = NULL;
    if (!send->place.on_device || !peer->out)
        return SELVAGE_ERR_LIMIT;
    SV_TRY(sv_message_record_gate(send, stream));
    const unsigned k = find_get_place(peer->out);
    if (!may_offer_get(send, peer, stream) || k == SV_SHM_PUT_SLOTS || (packed && stream != SELVAGE_MESSAGE_NO_STREAM))
        return SELVAGE_ERR_LIMIT;
    sv_message_bounce_t *bounce = take_send_buffer(send);
    if (!bounce)
        return SELVAGE_ERR_LIMIT;
    /* 1. A second request, which nobody waits for, has the buffer and the message's number. */
    selvage_status_t status = sv_ctrl_alloc_to(engine, send->peer, true, &desc);
    if (status == SELVAGE_SUCCESS)
        status = sv_message_take_request(engine, &held);
    if (status != SELVAGE_SUCCESS)
        goto fail;
    held->is_send = held->detached = true;
    held->peer = send->peer;
    held->tag = send->tag;
    held->bytes = send->bytes;
    held->number = send->number;
    held->before = send->before;
    held->stream = SELVAGE_MESSAGE_NO_STREAM;
    held->place = (sv_message_place_t){
        .data = bounce->memory, .bytes = send->bytes, .on_device = true, .bounce = bounce};
    held->state = SV_REQUEST_RTS_SENT;
    sv_message_identify(held);
    /* 2. Packed, or copied in the same pass as its digest is made. */
    status = sv_message_pack_device(send, engine->streams.kernel);
    sv_ctrl_header_t rts = sv_message_send_header(held, SV_CTRL_RTS);
    rts.value[0] = true;
    if (status == SELVAGE_SUCCESS)
        status = offer_get(held, packed ? bounce->memory : send->place.data, peer->out, k, &rts);
    if (status != SELVAGE_SUCCESS)
        goto fail;
    rts.value[PLACE] |= BUFFERED;
    held->get.buffered_bytes = bounce->bytes;
    engine->buffered_bytes += bounce->bytes;
    send->get = (sv_request_get_t){.place = k, .stamp = held->get.stamp, .lent = true};
    send->place.bounce = NULL; /* the other one's */
    send->gated = false;
    send->state = SV_REQUEST_BUFFERING;
    /* 3. Announced; nothing fails from here on but what ends the engine. */
    sv_list_append(&engine->active, &held->link);
    *desc->header = rts;
    return sv_ctrl_send(engine, desc, send->peer);

fail:
    if (held) { /* a kernel that has begun to pack or to copy ends before its memory is used again */
        (void)sv_message_drain(engine);
        held->place.bounce = NULL;
        sv_message_put_request(held);
    }
    if (desc)
        sv_ctrl_free(engine, desc);
    if (!packed)
        sv_message_put_bounce(engine, bounce);
    return status == SELVAGE_ERR_UNSUPPORTED ? SELVAGE_ERR_LIMIT : status;
}

bool sv_get_is_ready(const selvage_request_t *send)
{
    if (send->get.stamp == 0)
        return true;
    /* Partner: the digest kernel. The place may be a younger message's by now: stamps only grow. */
    return (int64_t)(__atomic_load_n(&end_of_get(send)->shm->get_ready[send->get.place], __ATOMIC_ACQUIRE) -
                     send->get.stamp) >= 0;
}

bool sv_get_revoke(selvage_request_t *send)
{
    if (send->get.stamp == 0 || send->get.lent)
        return true;
    uint64_t word = send->get.stamp << 1;
    /* Partner: the exchange in sv_get_begin() of the receiver. */
    return __atomic_compare_exchange_n(&end_of_get(send)->shm->get_begun[send->get.place], &word, 0, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) || word == 0;
}

/* --- the receiver's ----------------------------------------------------------------------------------------------- */

void sv_get_match(selvage_request_t *recv, const sv_ctrl_header_t *rts)
{
    sv_message_engine_t *engine = recv->engine;
    sv_message_peer_t *peer;
    const unsigned k = (unsigned)rts->value[PLACE] & PLACE_MASK;
    recv->get = (sv_request_get_t){.stamp = 0};
    if (rts->kind != SV_CTRL_RTS || sv_message_peer(engine, recv->peer, &peer) != SELVAGE_SUCCESS || !peer->in)
        return;
    sv_shm_prefer(peer->in, !recv->place.on_device);
    if (rts->value[2] != 0 || rts->value[STAMP] == 0 || k >= SV_SHM_PUT_SLOTS || recv->bytes == 0 ||
        recv->bytes > recv->place.bytes || peer->no_get ||
        (!recv->place.on_device && !(rts->value[PLACE] & BUFFERED)))
        return;
    /* Partner: the release in sv_get_offer(). */
    if (!sv_word_is(&peer->in->shm->get_begun[k], rts->value[STAMP] << 1)) /* taken back */
        return;
    const sv_message_where_t where = peer->in->shm->get_where[k];
    sv_transfer_mapping_t *mapping = NULL;
    sv_message_bounce_t *bounce = NULL;
    if (!recv->place.on_device && sv_message_take_bounce(engine, recv->bytes, &bounce) != SELVAGE_SUCCESS)
        return;
    /* Neighbours' devices are of one kind with this one, or could not be mapped. */
    const bool kept = SV_DEVICE_CALL(engine->dev, memory_id, bounce ? bounce->memory : recv->place.data) != 0;
    if (sv_transfer_map_kept(&engine->memory.mappings, engine->dev, recv->peer, &where.handle, where.base,
                             where.offset + recv->bytes, kept, &mapping) != SELVAGE_SUCCESS ||
        sv_transfer_mapping_bound(mapping, where.offset, recv->bytes) != SELVAGE_SUCCESS) {
        sv_transfer_unmap(mapping);
        if (bounce)
            sv_message_put_bounce(engine, bounce);
        peer->no_get = true;
        return;
    }
    recv->get = (sv_request_get_t){.place = k,
                                   .stamp = rts->value[STAMP],
                                   .mapping = mapping,
                                   .bounce = bounce,
                                   .src = (uint8_t *)mapping->base + where.offset,
                                   .buffered = (rts->value[PLACE] & BUFFERED) != 0,
                                   .final = (rts->value[PLACE] & FINAL) != 0,
                                   .corrupt = (rts->value[PLACE] & CORRUPT) != 0};
}

bool sv_get_begin(selvage_request_t *recv)
{
    if (recv->get.stamp == 0 || recv->get.taken)
        return recv->get.taken;
    uint64_t *begun = &end_of_get(recv)->shm->get_begun[recv->get.place], word = recv->get.stamp << 1;
    /* Partner: the exchange in sv_get_revoke() of the sender. */
    recv->get.taken =
        __atomic_compare_exchange_n(begun, &word, word | 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    if (recv->get.taken)
        return true;
    sv_get_end(recv);
    return false;
}

selvage_status_t sv_get_poll(selvage_request_t *recv, bool *moved)
{
    sv_message_engine_t *engine = recv->engine;
    sv_request_get_t *get = &recv->get;
    const sv_shm_end_t *end = end_of_get(recv);
    /* Partner: the sender's digest kernel, or its host in sv_get_offer(). */
    const bool ready = sv_word_is(&end->shm->get_ready[get->place], get->stamp);
    const bool by_kernel = sv_put_by_kernel(recv) && !get->corrupt;
    uint8_t *dst = get->bounce ? get->bounce->memory : recv->place.data;
    /* 1. What copy engines move begins when the bytes are there, the digest or not. */
    if (!by_kernel && !get->copied && (ready || get->final)) {
        get->copied = *moved = true;
        SV_TRY(SV_DEVICE_CALL(engine->dev, copy_async, dst, get->src, recv->bytes, SV_COPY_PEER,
                              engine->streams.peer));
        if (get->corrupt) { /* a fault of a test's: a byte that arrived is changed */
            const sv_flip_arg_t arg = {dst + recv->bytes / 2, 1};
            SV_TRY(SV_DEVICE_CALL(engine->dev, launch, &sv_kernel_flip, &arg, sizeof arg, 1, engine->streams.peer));
        }
    }
    if (!ready)
        return SELVAGE_IN_PROGRESS;
    /* 2. Verified after the copy, or by the kernel that copies. */
    *moved = true;
    recv->state = SV_REQUEST_CLOSING;
    const sv_verify_job_t job = {.src = by_kernel ? get->src : dst,
                                 .dst = by_kernel ? dst : NULL,
                                 .record = sv_shared_device_address(&end->segment, &end->shm->get_record[get->place])};
    return sv_message_verify(recv, &job, by_kernel ? engine->streams.kernel : engine->streams.peer);
}

bool sv_get_again(selvage_request_t *recv)
{
    if (!recv->get.buffered || !sv_message_may_retry(recv))
        return false;
    recv->get.copied = recv->get.corrupt = false;
    return true;
}

/* In the poll: rare, as programs whose receives are in host memory send from there. */
selvage_status_t sv_get_to_host(selvage_request_t *recv)
{
    sv_message_engine_t *engine = recv->engine;
    if (!recv->get.bounce)
        return SELVAGE_SUCCESS;
    SV_TRY(SV_DEVICE_CALL(engine->dev, copy_async, recv->place.data, recv->get.bounce->memory, recv->bytes, SV_COPY_D2H,
                          engine->streams.kernel));
    return SV_DEVICE_CALL(engine->dev, stream_sync, engine->streams.kernel);
}

/* --- both --------------------------------------------------------------------------------------------------------- */

void sv_get_end(selvage_request_t *request)
{
    sv_message_engine_t *engine = request->engine;
    sv_message_peer_t *peer;
    if (request->get.stamp == 0)
        return;
    engine->buffered_bytes -= request->get.buffered_bytes;
    if (!request->is_send)
        sv_transfer_unmap(request->get.mapping);
    else if (!request->get.lent && sv_message_peer(engine, request->peer, &peer) == SELVAGE_SUCCESS)
        peer->out->gets &= ~(UINT32_C(1) << request->get.place);
    if (request->get.bounce && !request->retired)
        sv_message_put_bounce(engine, request->get.bounce);
    request->get = (sv_request_get_t){.stamp = 0};
}
