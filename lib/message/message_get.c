/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous by get, within a node: the RTS says where the sender's bytes are, and the receiver copies them from there.
 * Once the RTS is out the sender's host is not needed any more: it may compute, or block in a call of MPI's, and the
 * receive ends all the same. So no rank waits for another one's host but for what MPI lets it wait for, a receive that
 * is not posted.
 *
 *   sender's host     where[k] = handle, offset; begun[k] = offered; RTS with k and the stamp
 *   sender's device   digest --> record[k], ready[k] = stamp   (in the receiver's shared segment, and in its device's
 *                     memory if there are slots: message_devslot.h)
 *   receiver's host   begun[k] = taken; copies at once if the bytes are final, else once ready[k] is stamp
 *   receiver's device copy, and the rest of it with the digest, compared with record[k]
 *   receiver's host   STATUS: good; or a CTS with the next attempt, for a put or for pieces (message_rendezvous.c)
 *
 * The offer is taken, or taken back, by one exchange of begun[k], which the receiver sets to 0 when it has read all. So
 * a sender that gives up knows whether its buffer is being read, and a receiver whether its sender has given up. The
 * sender owns the place k until its request has ended, and the receiver its mapping of the memory.
 *
 * What a copy engine brings would be read once more for the digest when all is there, which takes an eighth as long as
 * the way over the link. So of one of few the engine brings seven eighths only. The kernel that verifies sums those
 * while it brings the rest (sv_kernel_rest): link and memory are both busy to the end, by two calls of the host's.
 *
 * A get is offered only where the caller's stream has come to the message, because the digest is made on a stream of
 * the engine's, which waits for no caller's. It is not taken by a receive in host memory, nor by one whose kernel waits
 * for a put already; then the message goes as if it had not been offered.
 *
 * A buffered send does not wait for its receiver. A kernel copies it to device memory of the engine's
 * (SELVAGE_MESSAGE_BUFFER_BYTES bounds it), and then it is complete. The memory is offered by a request of its own, the
 * carrier, which has the message's number and lives until it was received. Receives in host memory take such an offer,
 * too, by way of device memory of theirs; if none is left, this host reads the buffer and makes the digest. What comes
 * damaged out of a buffer is read once more: its sender may be where nobody answers a CTS.
 *
 *   the send      BUFFERING --ready[k]--> COMPLETE
 *   its carrier   RTS_SENT --STATUS--> COMPLETE, and the memory is used again
 *
 * A long buffered send is not copied but lent (message_lend.c).
 */
#include "message/message_get.h"

#include <stdatomic.h>
#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "message/message_devslot.h"
#include "message/message_layout.h"
#include "message/message_pool.h"
#include "message/message_protocols.h"
#include "message/message_put.h"

/* In an RTS, after what a claim says: the stamp; and the place k, with these flags. */
enum {
    STAMP = 3, PLACE = 4, PLACE_MASK = 0xff, FINAL = 1 << 8, CORRUPT = 1 << 9, BUFFERED = 1 << 10, LENT = 1 << 11,
    NEAR = 1 << 12
};
_Static_assert(SV_SHM_GETS == PLACE_MASK + 1, "an RTS can name all places");
/* After so many offers in a row that a rank has not taken, one is made of so many. */
enum { DECLINED_MOST = 8, OFFERED_SHARE = 64 };

sv_shm_end_t *sv_get_end_of(const selvage_request_t *request)
{
    sv_message_peer_t *peer;
    if (sv_message_peer(request->engine, request->peer, &peer) != SELVAGE_SUCCESS) /* it exists */
        return NULL;
    return request->is_send ? peer->out : peer->in;
}

/* --- the sender's ------------------------------------------------------------------------------------------------- */

/* Free, and no kernel of an earlier message that was given up writes to it any more; SV_SHM_GETS if there is none. */
static unsigned find_get_place(sv_shm_end_t *end)
{
    for (unsigned i = 0; i < SV_SHM_GETS; i++) {
        const unsigned k = (end->get_next + i) % SV_SHM_GETS;
        /* Partner: the digest kernel. */
        if (!end->get_used[k] && __atomic_load_n(&end->shm->get_ready[k], __ATOMIC_ACQUIRE) == end->get_stamp[k]) {
            end->get_next = k + 1;
            return k;
        }
    }
    return SV_SHM_GETS;
}

static bool may_offer_get(const selvage_request_t *send, const sv_message_peer_t *peer, void *stream)
{
    const int route = send->engine->comm->config.route;
    return send->place.on_device && send->bytes > 0 && peer->out && peer->rank != send->engine->wire->rank &&
           route != SELVAGE_ROUTE_STAGED && route != SELVAGE_ROUTE_SHARED &&
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
    sv_devslot_place_t near = {0}; /* in the receiver's device memory: kernels that wait look there */
    if (send->place.bounce) {
        SV_TRY(sv_message_export_bounce(engine, send->place.bounce, where));
    } else {
        SV_TRY(sv_message_export(engine, send->place.data, send->bytes, send->place.id, &where->handle,
                                 &where->offset));
        where->base = (uintptr_t)send->place.data - where->offset;
    }
    const uint64_t stamp = ++engine->stamps;
    /* 1. The digest. Bytes that are there already need nobody to say so. */
    if (sv_message_checks(engine) || !final) {
        near = sv_devslot_of_get(engine, end, k);
        const sv_prepare_job_t job = {.src = src,
                                      .dst = copied ? send->place.data : NULL,
                                      .record = sv_shared_device_address(&end->segment, &end->shm->get_record[k]),
                                      .copy = near.record,
                                      .word = sv_shared_device_address(&end->segment, &end->shm->get_ready[k]),
                                      .stamp = stamp,
                                      .devslot = near.word,
                                      .devslot_value = stamp};
        sv_message_group_begin(engine); /* the launch takes longer than all else: sv_message_isend() does it last */
        const selvage_status_t status = sv_message_prepare(send, &job, engine->streams.kernel);
        sv_message_group_leave(engine);
        SV_TRY(status);
    } else { /* the kernel that verifies wants the record even so; partner: the acquire in sv_get_poll() */
        end->shm->get_record[k] = send->identity;
        __atomic_store_n(&end->shm->get_ready[k], stamp, __ATOMIC_RELEASE);
    }
    /* 2. The offer. */
    send->get = (sv_request_get_t){.place = k, .stamp = stamp};
    end->get_used[k] = true;
    end->get_stamp[k] = stamp;
    /* Partners: the acquire in sv_get_match(), and the exchange in sv_get_begin(). */
    __atomic_store_n(&end->shm->get_begun[k], sv_get_word(stamp, SV_GET_OFFERED), __ATOMIC_RELEASE);
    const bool corrupt = fault->armed && sv_fault_packet(fault, (uint32_t)send->number, send->attempt) == SV_FAULT_FLIP;
    rts->value[STAMP] = stamp;
    rts->value[PLACE] = k | (final ? FINAL : 0u) | (corrupt ? CORRUPT : 0u) | (copied ? BUFFERED : 0u) |
                        (near.word ? NEAR : 0u);
    return SELVAGE_SUCCESS;
}

void sv_get_declined(const selvage_request_t *send, const sv_ctrl_header_t *cts)
{
    sv_message_peer_t *peer;
    if (send->get.stamp != 0 && !send->get.counted && cts->attempt <= send->attempt &&
        cts->value[0] != SV_MESSAGE_NONE && sv_message_peer(send->engine, send->peer, &peer) == SELVAGE_SUCCESS &&
        !sv_shm_prefers_host(peer->out))
        peer->gets_declined++;
}

void sv_get_offer(selvage_request_t *send, void *stream, sv_ctrl_header_t *rts)
{
    sv_message_peer_t *peer;
    if (sv_message_peer(send->engine, send->peer, &peer) != SELVAGE_SUCCESS || !may_offer_get(send, peer, stream) ||
        sv_shm_prefers_host(peer->out) ||
        (peer->gets_declined >= DECLINED_MOST && ++peer->gets_withheld % OFFERED_SHARE != 0))
        return;
    const unsigned k = find_get_place(peer->out);
    if (k < SV_SHM_GETS)
        (void)offer_get(send, send->place.data, peer->out, k, rts); /* else without */
}

/* What a buffered send is copied to: its own bounce buffer, if it has gaps. */
static sv_message_bounce_t *take_send_buffer(selvage_request_t *send)
{
    sv_message_engine_t *engine = send->engine;
    sv_message_bounce_t *bounce = send->place.bounce;
    if (!bounce)
        return sv_message_take_buffer(engine, send->bytes);
    if (engine->buffered_bytes + bounce->bytes > engine->buffer_bytes)
        return NULL;
    engine->buffered_bytes += bounce->bytes;
    return bounce;
}

/* The other rank has mapped memory of this one's device for its own slots: it can map what is offered. */
static bool can_be_mapped(const sv_message_peer_t *peer)
{
    /* Partner: the release in sv_devslot_open() of the other rank. */
    return peer->in && __atomic_load_n(&peer->in->shm->devslot_open, __ATOMIC_ACQUIRE);
}

/* Bytes that lie there as they go, in memory that others can be told of; else they are copied. Its receiver has to map
   the allocation, which takes longer than many copies of short messages. */
bool sv_get_may_lend(const selvage_request_t *send, void *stream)
{
    enum { OFTEN = 8 };
    sv_message_engine_t *engine = send->engine;
    sv_message_where_t unused;
    return send->place.on_device && !send->place.layout && stream == SELVAGE_MESSAGE_NO_STREAM &&
           send->bytes >= (send->place.id ? engine->lent_often_bytes : engine->lent_bytes) &&
           sv_message_export(engine, send->place.data, send->bytes, send->place.id, &unused.handle, &unused.offset) ==
               SELVAGE_SUCCESS &&
           (send->bytes >= engine->lent_bytes || sv_message_export_uses(engine, send->place.id) >= OFTEN);
}

selvage_status_t sv_get_send_buffered(selvage_request_t *send, const sv_message_peer_t *peer, bool lends, void *stream)
{
    sv_message_engine_t *engine = send->engine;
    const bool packed = send->place.layout != NULL;
    sv_ctrl_desc_t *desc = NULL;
    selvage_request_t *carrier = NULL;
    bool over;
    if (!send->place.on_device || !peer->out || !can_be_mapped(peer))
        return SELVAGE_ERR_LIMIT;
    SV_TRY(sv_message_record_gate(send, stream));
    const unsigned k = find_get_place(peer->out);
    if (engine->buffer_bytes == 0 || !may_offer_get(send, peer, stream) || k == SV_SHM_GETS ||
        (packed && stream != SELVAGE_MESSAGE_NO_STREAM))
        return SELVAGE_ERR_LIMIT;
    sv_message_bounce_t *bounce = lends ? NULL : take_send_buffer(send);
    if (!bounce && !lends)
        return SELVAGE_ERR_LIMIT;
    /* 1. A second request, which nobody waits for, has the buffer and the message's number. */
    selvage_status_t status = sv_ctrl_alloc_to(engine, send->peer, true, &desc);
    if (status == SELVAGE_SUCCESS)
        status = sv_message_take_request(engine, &carrier);
    if (status != SELVAGE_SUCCESS)
        goto fail;
    carrier->is_send = carrier->detached = true;
    carrier->peer = send->peer;
    carrier->tag = send->tag;
    carrier->bytes = send->bytes;
    carrier->number = send->number;
    carrier->before = send->before;
    carrier->stream = SELVAGE_MESSAGE_NO_STREAM;
    carrier->place = (sv_message_place_t){.data = bounce ? bounce->memory : send->place.data,
                                          .bytes = send->bytes,
                                          .id = bounce ? 0 : send->place.id,
                                          .on_device = true,
                                          .bounce = bounce};
    carrier->state = SV_REQUEST_RTS_SENT;
    sv_message_identify(carrier);
    /* 2. Packed, or copied in the same pass as its digest is made. */
    status = sv_message_pack_device(send, engine->streams.kernel);
    sv_ctrl_header_t rts = sv_message_send_header(carrier, SV_CTRL_RTS);
    rts.value[0] = true;
    if (status == SELVAGE_SUCCESS)
        status = offer_get(carrier, packed ? bounce->memory : send->place.data, peer->out, k, &rts);
    if (status != SELVAGE_SUCCESS)
        goto fail;
    rts.value[PLACE] |= BUFFERED | (lends ? LENT : 0u);
    carrier->get.counted = true;
    carrier->get.buffered_bytes = bounce ? bounce->bytes : 0;
    send->get = (sv_request_get_t){.place = k, .stamp = carrier->get.stamp, .carried = true};
    send->place.bounce = NULL; /* the other one's */
    send->gated = false;
    send->state = lends ? SV_REQUEST_LENT : SV_REQUEST_BUFFERING;
    if (lends) {
        send->get.partner = carrier;
        carrier->get.partner = send;
        send->get.lent_ns = sv_clock_ns();
    }
    /* 3. Announced; nothing fails from here on but what ends the engine. */
    sv_list_append(&engine->active, &carrier->link);
    *desc->header = rts;
    return sv_ctrl_send(engine, desc, send->peer);

fail:
    /* A kernel that has begun to pack or to copy ends before its memory is used again; if it does not, never. */
    over = !carrier || sv_message_drain(engine);
    if (carrier) {
        carrier->place.bounce = NULL;
        carrier->retired = !over;
        engine->quarantined |= !over;
        sv_message_put_request(carrier);
    }
    if (desc)
        sv_ctrl_free(engine, desc);
    if (bounce)
        engine->buffered_bytes -= bounce->bytes;
    if (bounce && !packed && over)
        sv_message_put_bounce(engine, bounce);
    return status == SELVAGE_ERR_UNSUPPORTED ? SELVAGE_ERR_LIMIT : status;
}

bool sv_get_is_ready(const selvage_request_t *send)
{
    if (send->get.stamp == 0)
        return true;
    /* Partner: the digest kernel. The place may be a younger message's by now: stamps only grow. */
    return (int64_t)(__atomic_load_n(&sv_get_end_of(send)->shm->get_ready[send->get.place], __ATOMIC_ACQUIRE) -
                     send->get.stamp) >= 0;
}

bool sv_get_revoke(selvage_request_t *send)
{
    if (send->get.stamp == 0 || (send->get.carried && send->state != SV_REQUEST_LENT))
        return true;
    uint64_t *begun = &sv_get_end_of(send)->shm->get_begun[send->get.place];
    uint64_t offered = sv_get_word(send->get.stamp, SV_GET_OFFERED), moved = sv_get_word(send->get.stamp, SV_GET_MOVED);
    /* Partner: the exchange in sv_get_begin() of the receiver. */
    return __atomic_compare_exchange_n(begun, &offered, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
           __atomic_compare_exchange_n(begun, &moved, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
           moved != sv_get_word(send->get.stamp, SV_GET_TAKEN); /* over, and may be a younger message's by now */
}

/* --- the receiver's ----------------------------------------------------------------------------------------------- */

static selvage_status_t report_given_up_send(const selvage_request_t *recv)
{
    return sv_error(SELVAGE_ERR_TIMEOUT, "rank %d has given up its send of message %llu (tag %d, %llu bytes)",
                    recv->peer, (unsigned long long)recv->number, recv->tag, (unsigned long long)recv->bytes);
}

/* It was moved before it met its receive: sv_get_begin() maps where to. Without a mapping until then. */
static selvage_status_t match_moved(selvage_request_t *recv, const sv_ctrl_header_t *rts)
{
    const unsigned k = (unsigned)rts->value[PLACE] & PLACE_MASK;
    const uint64_t *begun = &sv_get_end_of(recv)->shm->get_begun[k];
    if (!sv_word_is(begun, sv_get_word(rts->value[STAMP], SV_GET_MOVED)))
        return report_given_up_send(recv);
    recv->get = (sv_request_get_t){.place = k, .stamp = rts->value[STAMP], .buffered = true, .lent = true,
                                   .final = (rts->value[PLACE] & FINAL) != 0,
                                   .corrupt = (rts->value[PLACE] & CORRUPT) != 0,
                                   .near = (rts->value[PLACE] & NEAR) != 0};
    if (!recv->place.on_device)
        (void)sv_message_take_bounce_quietly(recv->engine, recv->bytes, &recv->get.bounce);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_get_match(selvage_request_t *recv, const sv_ctrl_header_t *rts)
{
    sv_message_engine_t *engine = recv->engine;
    sv_message_peer_t *peer;
    const unsigned k = (unsigned)rts->value[PLACE] & PLACE_MASK;
    recv->get = (sv_request_get_t){.stamp = 0};
    if (rts->kind != SV_CTRL_RTS || sv_message_peer(engine, recv->peer, &peer) != SELVAGE_SUCCESS || !peer->in)
        return SELVAGE_SUCCESS;
    sv_shm_prefer(peer->in, !recv->place.on_device);
    if (rts->value[2] != 0 || rts->value[STAMP] == 0 || k >= SV_SHM_GETS || recv->bytes == 0 ||
        recv->bytes > recv->place.bytes || peer->no_get ||
        (!recv->place.on_device && !(rts->value[PLACE] & BUFFERED)))
        return SELVAGE_SUCCESS;
    /* Looked at twice, since the place may become another message's meanwhile. Partner: the release in offer_get(). */
    const uint64_t *begun = &peer->in->shm->get_begun[k], offered = sv_get_word(rts->value[STAMP], SV_GET_OFFERED);
    const bool is_offered = sv_word_is(begun, offered);
    const sv_message_where_t where = peer->in->shm->get_where[k];
    atomic_thread_fence(memory_order_acquire);
    if (!is_offered || !sv_word_is(begun, offered))
        return match_moved(recv, rts);
    sv_transfer_mapping_t *mapping = NULL;
    sv_message_bounce_t *bounce = NULL;
    /* Without memory for a bounce buffer the host reads it. A CTS would wait for a sender that may have returned. */
    if (!recv->place.on_device)
        (void)sv_message_take_bounce_quietly(engine, recv->bytes, &bounce);
    /* Neighbours' devices are of one kind with this one, or could not be mapped. */
    const sv_transfer_memory_t source = {
        .peer = recv->peer, .handle = &where.handle, .base = where.base, .offset = where.offset, .bytes = recv->bytes,
        .kept = (!bounce && recv->place.id != 0) ||
                SV_DEVICE_CALL(engine->dev, memory_id, bounce ? bounce->memory : recv->place.data) != 0};
    const selvage_status_t status = sv_transfer_map(&engine->memory.mappings, engine->dev, &source, &mapping);
    if (status != SELVAGE_SUCCESS) {
        if (bounce)
            sv_message_put_bounce(engine, bounce);
        if (!sv_word_is(begun, offered)) /* its caller may have freed it since */
            return match_moved(recv, rts);
        peer->no_get = sv_transfer_never_maps(status);
        sv_log(SV_LOG_INFO, "message", "%s from rank %d not got: its device memory cannot be mapped (%s)",
               peer->no_get ? "messages are" : "a message is", recv->peer, sv_thread_detail());
        return SELVAGE_SUCCESS;
    }
    recv->get = (sv_request_get_t){.place = k,
                                   .stamp = rts->value[STAMP],
                                   .mapping = mapping,
                                   .bounce = bounce,
                                   .src = (uint8_t *)mapping->base + where.offset,
                                   .buffered = (rts->value[PLACE] & BUFFERED) != 0,
                                   .lent = (rts->value[PLACE] & LENT) != 0,
                                   .final = (rts->value[PLACE] & FINAL) != 0,
                                   .corrupt = (rts->value[PLACE] & CORRUPT) != 0,
                                   .near = (rts->value[PLACE] & NEAR) != 0};
    return SELVAGE_SUCCESS;
}

/* Straight to host memory, by this thread, for want of device memory to go by. */
static selvage_status_t get_by_host(selvage_request_t *recv, sv_shm_end_t *end)
{
    sv_message_engine_t *engine = recv->engine;
    uint8_t *dst = recv->place.data;
    uint64_t sum = 0;
    if (recv->get.segment) {
        memcpy(dst, sv_shared_base(&recv->get.segment->shared), recv->bytes);
    } else {
        SV_TRY(SV_DEVICE_CALL(engine->dev, copy_async, dst, recv->get.src, recv->bytes, SV_COPY_D2H,
                              engine->streams.peer));
        SV_TRY(SV_DEVICE_CALL(engine->dev, stream_sync, engine->streams.peer));
    }
    dst[recv->bytes / 2] ^= recv->get.corrupt; /* a fault of a test's */
    if (sv_message_checks(engine))
        sum = sv_digest_sum(recv->key, 0, dst, recv->bytes);
    const selvage_status_t found = sv_message_compare(recv, &end->shm->get_record[recv->get.place], sum);
    if (recv->get.lent && found == SELVAGE_SUCCESS) /* partner: the acquire in sv_lend_poll() of the sender */
        __atomic_store_n(&end->shm->get_done[recv->get.place], recv->get.stamp, __ATOMIC_RELEASE);
    return sv_message_recv_finish(recv, found);
}

/* Long ones are read faster by a copy engine. Of many, several are read by one kernel, which saves two calls for each,
   and those that are longer are verified while the next one comes. */
static bool copies_by_kernel(const selvage_request_t *recv)
{
    const sv_message_engine_t *engine = recv->engine;
    const bool is_set = engine->comm->config.kernel_peer_max_bytes != SV_CONFIG_BYTES_AUTO;
    return sv_put_by_kernel(recv) && !recv->get.corrupt && !recv->get.copied &&
           (is_set || recv->bytes < engine->engine_bytes ||
            (engine->open > SV_MESSAGE_FEW && recv->bytes <= engine->dev->kernel_peer_bytes));
}

/* How many bytes the copy engine brings; the kernel that verifies brings the rest. All of it where nothing is summed, a
   test's fault is to be seen, kernels may not read another device or are slow at it, or others' bytes keep the link
   busy. */
static uint64_t engine_share_bytes(const selvage_request_t *recv)
{
    enum { UNIT = 4096 };
    const sv_message_engine_t *engine = recv->engine;
    const uint64_t rest_bytes = recv->bytes / engine->rest_share;
    if (!sv_message_checks(engine) || recv->get.corrupt || recv->get.segment || engine->open > SV_MESSAGE_FEW ||
        engine->comm->config.kernel_peer_max_bytes != SV_CONFIG_BYTES_AUTO || sv_message_blocks(recv) < 2)
        return recv->bytes;
    return rest_bytes < UNIT ? recv->bytes : (recv->bytes - rest_bytes) / UNIT * UNIT;
}

selvage_status_t sv_get_poll(selvage_request_t *recv, bool *moved)
{
    sv_message_engine_t *engine = recv->engine;
    sv_request_get_t *get = &recv->get;
    sv_shm_end_t *end = sv_get_end_of(recv);
    /* Partner: the sender's digest kernel, or its host in offer_get(). */
    const bool ready = sv_word_is(&end->shm->get_ready[get->place], get->stamp);
    const bool by_kernel = copies_by_kernel(recv);
    /* Two streams by turns: the next message is copied while a kernel verifies this one. */
    void *const stream = get->place % 2 ? engine->streams.in : engine->streams.peer;
    uint8_t *dst = get->bounce ? get->bounce->memory : recv->place.data;
    if (!recv->place.on_device && !get->bounce) {
        *moved |= ready;
        return ready ? get_by_host(recv, end) : SELVAGE_IN_PROGRESS;
    }
    /* 1. What copy engines move begins when the bytes are there, the digest or not. */
    if (!by_kernel && !get->copied && (ready || get->final)) {
        get->copied = *moved = true;
        get->landed_bytes = engine_share_bytes(recv);
        /* Not the address that kernels are given. */
        const void *src = get->segment ? sv_shared_base(&get->segment->shared) : get->src;
        SV_TRY(SV_DEVICE_CALL(engine->dev, copy_async, dst, src, get->landed_bytes,
                              get->segment ? SV_COPY_H2D : SV_COPY_PEER, stream));
        if (get->corrupt) { /* a fault of a test's: a byte that arrived is changed */
            const sv_flip_arg_t arg = {dst + recv->bytes / 2, 1};
            SV_TRY(SV_DEVICE_CALL(engine->dev, launch, &sv_kernel_flip, &arg, sizeof arg, 1, stream));
        }
    }
    /* 2. Verified after the copy, or by the kernel that copies. One of few has it before the digest is there. */
    const bool may_await = get->final || (engine->dev->shows_stores && sv_message_checks(engine));
    const bool awaits = !ready && may_await && engine->open <= SV_MESSAGE_FEW && (by_kernel || get->copied);
    if (!ready && !awaits)
        return SELVAGE_IN_PROGRESS;
    const sv_devslot_place_t near =
        get->near && end->devslot.shown ? sv_devslot_of_get(engine, end, get->place) : (sv_devslot_place_t){0};
    const bool has_rest = !by_kernel && get->landed_bytes < recv->bytes;
    sv_verify_job_t job = {.src = by_kernel || has_rest ? get->src : dst,
                           .dst = by_kernel || has_rest ? dst : NULL,
                           .landed_bytes = has_rest ? get->landed_bytes : 0,
                           .record = near.record ? near.record
                                                 : sv_shared_device_address(&end->segment,
                                                                            &end->shm->get_record[get->place]),
                           .outcome = get->lent ? sv_shared_device_address(&end->segment,
                                                                           &end->shm->get_done[get->place])
                                                : NULL,
                           .outcome_value = get->stamp};
    if (awaits) {
        job.await = near.word ? near.word
                              : sv_shared_device_address(&end->segment, &end->shm->get_ready[get->place]);
        job.await_value = get->stamp;
        job.late = get->final;
        if (!sv_message_verify_ahead(recv, &job, by_kernel ? SELVAGE_MESSAGE_NO_STREAM : stream))
            return SELVAGE_IN_PROGRESS;
    }
    *moved = true;
    recv->state = SV_REQUEST_CLOSING;
    return awaits ? SELVAGE_SUCCESS : sv_message_verify(recv, &job, by_kernel ? engine->streams.kernel : stream);
}

selvage_status_t sv_get_begin(selvage_request_t *recv, bool *begun_out)
{
    sv_request_get_t *get = &recv->get;
    *begun_out = false;
    if (get->stamp == 0)
        return SELVAGE_SUCCESS;
    /* 1. The offer is taken, unless it is once more that this begins. Partners: the exchanges in sv_get_revoke() and
       publish_move() of the sender. */
    if (!get->taken) {
        uint64_t *begun = &sv_get_end_of(recv)->shm->get_begun[get->place];
        uint64_t word = sv_get_word(get->stamp, SV_GET_OFFERED);
        const uint64_t taken = sv_get_word(get->stamp, SV_GET_TAKEN);
        get->taken = __atomic_compare_exchange_n(begun, &word, taken, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        if (!get->taken && get->lent && word == sv_get_word(get->stamp, SV_GET_MOVED)) {
            if (sv_lend_follow(recv) != SELVAGE_SUCCESS) {
                sv_log(SV_LOG_INFO, "message", "a message is not got: rank %d has moved it to memory that cannot be "
                       "mapped (%s)", recv->peer, sv_thread_detail());
                return SELVAGE_SUCCESS;
            }
            get->taken = __atomic_compare_exchange_n(begun, &word, taken, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        }
        if (!get->taken)
            return report_given_up_send(recv);
    }
    /* 2. So it comes this way. */
    sv_put_release(recv);
    recv->route = SV_MESSAGE_GET;
    recv->state = SV_REQUEST_MOVING;
    recv->engine->arrived.by[SV_WAY_DIRECT] += recv->attempt == 0;
    recv->engine->arrived.fetched += recv->attempt == 0;
    *begun_out = true;
    /* 3. The sender of a lent one waits for what this enqueues, and this host may not come again soon. */
    const selvage_status_t status = get->lent ? sv_get_poll(recv, &(bool){false}) : SELVAGE_SUCCESS;
    return status == SELVAGE_IN_PROGRESS ? SELVAGE_SUCCESS : status;
}

bool sv_get_again(selvage_request_t *recv)
{
    sv_request_get_t *get = &recv->get;
    if (!get->buffered)
        return false;
    /* A lent one is looked for where it was moved to, whatever is done about damage: its caller may have written its
       memory since, and that is none. Partner: the release in publish_move() of the sender. */
    if (get->lent && !get->moved && sv_word_is(&sv_get_end_of(recv)->shm->get_moved[get->place], get->stamp)) {
        if (sv_lend_follow(recv) != SELVAGE_SUCCESS)
            return false;
        recv->staged.losses++; /* the next attempt is one more */
    } else if (!sv_message_may_retry(recv)) {
        return false;
    }
    get->copied = get->corrupt = false;
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
    sv_request_get_t *get = &request->get;
    selvage_request_t *partner = get->partner;
    sv_message_peer_t *peer;
    if (get->stamp == 0)
        return;
    engine->buffered_bytes -= get->buffered_bytes;
    /* 1. A lent send and its carrier: neither knows the other any more. */
    if (partner && !get->carried) { /* the carrier ends first */
        partner->get.outcome = request->error;
        memcpy(partner->detail, request->detail, sizeof partner->detail);
    } else if (partner && request->error != SELVAGE_SUCCESS && !get->is_moved) {
        partner->given_up = true; /* the memory is the caller's again: no CTS is answered out of it */
    }
    if (partner)
        partner->get.partner = NULL;
    /* 2. What it was moved to goes back, or is set aside with the request: the device may be at it for good. */
    if (get->moving && request->retired) {
        request->place.bounce = get->moving;
    } else if (get->moving) {
        engine->buffered_bytes -= get->moving->bytes;
        sv_message_put_bounce(engine, get->moving);
    }
    if (get->segment && !request->retired)
        sv_lend_leave_segment(engine, get);
    /* 3. The place, and what was mapped of it. */
    if (request->is_send) {
        if (!get->carried && sv_message_peer(engine, request->peer, &peer) == SELVAGE_SUCCESS)
            peer->out->get_used[get->place] = false;
    } else if (!request->retired) { /* else the device may read there for good */
        if (get->taken) /* partner: the exchange in sv_get_revoke() of the sender */
            __atomic_store_n(&sv_get_end_of(request)->shm->get_begun[get->place], 0, __ATOMIC_RELEASE);
        sv_transfer_unmap(get->mapping);
        if (get->bounce)
            sv_message_put_bounce(engine, get->bounce);
    }
    *get = (sv_request_get_t){.stamp = 0};
}
