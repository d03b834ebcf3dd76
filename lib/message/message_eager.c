/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The eager protocol: a small message leaves at once, with its bytes, and its send is over when they have left the
 * caller's buffer. From device memory a kernel on the caller's stream stores payload and record into a descriptor, or
 * into a slot of the neighbour's device memory. From host memory this thread does, once that stream has come so far.
 *
 *   send     event                              action                                          next
 *   (call)   device memory                      a kernel fills the descriptor or slot           FILLING
 *   (call)   device memory, a slot, held        nothing: the caller tells the receiver first    HELD
 *   HELD     the caller launches it             a kernel fills the slot                         FILLING
 *   (call)   host memory                        the caller's stream is recorded                 GATE
 *   GATE     the stream has come so far         copied, summed, posted                          COMPLETE
 *   FILLING  the kernel is through              posted, unless the kernel told the receiver     COMPLETE
 *   GATE, FILLING  the stream is late           DEFERRED goes ahead, for messages after it      as before
 *
 *   receive  event                              action                                          next
 *   GATE     host memory, no slot               copied, summed, compared                        see CLOSING
 *   GATE     device memory, or a slot           a kernel copies and verifies                    CLOSING
 *   CLOSING  good                               ACK; unpacked, if it has gaps                   COMPLETE, UNPACKING
 *   CLOSING  damaged, came by the wire          NACK: its sender keeps the descriptor           NACKED
 *   CLOSING  damaged, in shared memory          taken once more from where it lies              GATE
 *   NACKED   EAGER of the next attempt                                                          GATE
 *   DEFERRED EAGER                                                                              GATE
 *
 * From its begin to its end the request owns the descriptor (request->desc), and the chunk of pinned memory that takes
 * a message from a slot to host memory. Under the engine's lock.
 */
#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "message/message_devslot.h"
#include "message/message_layout.h"
#include "message/message_pool.h"
#include "message/message_protocols.h"

/* --- send --------------------------------------------------------------------------------------------------------- */

/* A descriptor in the neighbour's shared segment, with a slot in his device memory: for longer messages, too. */
bool sv_eager_take_slot(selvage_request_t *send, const sv_message_peer_t *peer)
{
    if (!send->place.on_device || send->bytes == 0 || send->synchronous || send->engine->comm->fault.armed ||
        !peer->out || !peer->out->devslot.base || send->bytes > send->engine->devslot_bytes)
        return false;
    sv_ctrl_desc_t *desc = sv_shm_take_slot(send->engine, peer->out);
    if (desc && sv_devslot_take(send, desc)) {
        send->desc = desc;
        return true;
    }
    if (desc)
        sv_ctrl_free(send->engine, desc);
    return false;
}

bool sv_eager_takes(const selvage_request_t *send, const sv_message_peer_t *peer)
{
    return send->bytes <= send->engine->eager_bytes && !send->synchronous && peer->neager < SV_CTRL_UNACKED;
}

static uint64_t devslot_of(const selvage_request_t *send)
{
    return send->desc->devslot ? send->desc->devslot_count : 0;
}

/* A message that its stream holds up holds up none after it, which may have other tags: it is announced. */
static selvage_status_t announce_if_deferred(selvage_request_t *send)
{
    enum { LATE_NS = 100000 };
    sv_ctrl_header_t header = sv_message_send_header(send, SV_CTRL_DEFERRED);
    if (send->eager.announced || sv_clock_ns() - send->eager.began_ns < LATE_NS)
        return SELVAGE_IN_PROGRESS;
    header.value[0] = devslot_of(send);
    send->eager.announced = sv_ctrl_send_header(send->engine, send->peer, &header) == SELVAGE_SUCCESS;
    send->eager.began_ns = sv_clock_ns(); /* for want of memory: later, as nobody needs it, and a kernel is at work */
    return SELVAGE_IN_PROGRESS;
}

/* The descriptor leaves, and the buffer is the caller's again. */
static selvage_status_t post_eager(selvage_request_t *send)
{
    sv_message_engine_t *engine = send->engine;
    sv_ctrl_desc_t *desc = send->desc;
    sv_message_peer_t *peer;
    SV_TRY(sv_message_peer(engine, send->peer, &peer));
    send->desc = NULL;
    if (send->peer != engine->wire->rank && !desc->shm) {
        desc->retained = true;
        sv_list_append(&peer->retained, &desc->retained_link);
    }
    SV_TRY(sv_ctrl_send(engine, desc, send->peer));
    sv_message_complete(send, SELVAGE_SUCCESS);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_eager_pass_gate(selvage_request_t *send, selvage_status_t gate)
{
    sv_ctrl_desc_t *desc = send->desc;
    uint64_t sum = 0;
    if (gate == SELVAGE_IN_PROGRESS)
        return announce_if_deferred(send);
    SV_TRY(gate);
    SV_TRY(sv_message_pack_host(send));
    if (send->bytes)
        memcpy(sv_ctrl_payload(desc), send->place.data, send->bytes);
    if (sv_message_checks(send->engine))
        sum = sv_digest_sum(send->key, 0, sv_ctrl_payload(desc), send->bytes);
    desc->header->record = send->identity;
    desc->header->record.digest = sv_message_checks(send->engine) ? sv_digest_finish(send->key, sum) : 0;
    return post_eager(send);
}

/* The kernel is through. If it has told the receiver, the slot in the shared segment may be another message's by now.
   Stamps only grow. */
selvage_status_t sv_eager_poll_filled(selvage_request_t *send, bool *moved)
{
    /* Partner: the digest kernel. */
    if ((int64_t)(__atomic_load_n(send->desc->word, __ATOMIC_ACQUIRE) - send->stamp) < 0)
        return announce_if_deferred(send);
    *moved = true;
    if (!send->desc->shm)
        return post_eager(send);
    send->desc = NULL;
    sv_message_complete(send, SELVAGE_SUCCESS);
    return SELVAGE_SUCCESS;
}

static selvage_status_t fill_by_kernel(selvage_request_t *send)
{
    sv_ctrl_desc_t *desc = send->desc;
    void *on = sv_message_send_stream(send, send->stream);
    send->state = SV_REQUEST_FILLING;
    if (!desc->shm)
        desc->stamp = ++send->engine->stamps;
    send->stamp = desc->stamp;
    sv_ctrl_finalize(send->engine, desc, send->peer); /* the kernel itself may tell the receiver */
    SV_TRY(sv_message_pack_device(send, on));
    sv_prepare_job_t job = {.src = send->place.data,
                            .dst = sv_ctrl_device_ptr(desc, sv_ctrl_payload(desc)),
                            .record = sv_ctrl_device_ptr(desc, &desc->header->record),
                            .word = sv_ctrl_device_ptr(desc, desc->word),
                            .stamp = desc->stamp};
    if (desc->devslot) {
        const sv_devslot_place_t to = sv_devslot_place(send->engine, desc->devslot, desc->devslot_count);
        job.dst = to.payload;
        job.record = to.record;
        job.devslot = to.word;
        job.devslot_value = sv_devslot_value(send->key, send->before);
    }
    return sv_message_prepare(send, &job, on);
}

selvage_status_t sv_eager_begin(selvage_request_t *send, sv_message_peer_t *peer, void *stream)
{
    /* What a fault has corrupted can be asked for again only if it went by the wire. */
    if (!send->desc && send->engine->comm->fault.armed)
        SV_TRY(sv_ctrl_alloc(send->engine, false, &send->desc));
    else if (!send->desc)
        SV_TRY(sv_ctrl_alloc_to(send->engine, send->peer, false, &send->desc));
    if (!send->desc->shm) {
        send->desc->counted = peer;
        peer->neager++;
    }
    send->eager.began_ns = sv_clock_ns();
    *send->desc->header = sv_message_send_header(send, SV_CTRL_EAGER);
    send->desc->header->value[0] = devslot_of(send);
    send->desc->header->value[1] = send->before;
    if (send->held && send->desc->devslot) {
        send->state = SV_REQUEST_HELD;
        return SELVAGE_SUCCESS;
    }
    if (send->place.on_device && send->bytes)
        return fill_by_kernel(send);
    send->state = SV_REQUEST_GATE;
    return sv_message_record_gate(send, stream);
}

selvage_status_t sv_eager_launch(selvage_request_t *send)
{
    send->eager.began_ns = sv_clock_ns();
    return fill_by_kernel(send);
}

/* --- receive ------------------------------------------------------------------------------------------------------ */

/* A slot of a size of its own may have more than a piece of pinned memory has room for. */
static bool is_beyond_pinned(const selvage_request_t *recv)
{
    return !recv->place.on_device && recv->desc->devslot && recv->bytes > recv->engine->segment_bytes;
}

selvage_status_t sv_eager_finish(selvage_request_t *recv, selvage_status_t found)
{
    sv_message_engine_t *engine = recv->engine;
    sv_ctrl_desc_t *desc = recv->desc;
    sv_message_count_outcome(recv, found);

    /* What the wire brought is asked for again, since its sender keeps it. Any other descriptor lies where its sender
       has put it, and may be whole there. So it is taken once more. */
    if (found != SELVAGE_SUCCESS && sv_message_may_retry(recv) && (desc->from_wire || recv->attempt == 0)) {
        sv_log(SV_LOG_WARN, "message", "%s; %s", sv_thread_detail(),
               desc->from_wire ? "asked for again" : "taken once more from where it lies");
        engine->counts.repeated++;
        recv->attempt++;
        recv->state = desc->from_wire ? SV_REQUEST_NACKED : SV_REQUEST_GATE;
        if (!desc->from_wire)
            return SELVAGE_SUCCESS;
        recv->desc = NULL;
        sv_ctrl_free(engine, desc);
        return sv_message_reply(recv, SV_CTRL_NACK, 0);
    }

    selvage_status_t status = SELVAGE_SUCCESS;
    if (found != SELVAGE_SUCCESS) {
        status = sv_message_give_up(recv);
    } else {
        if (recv->eager.chunk)
            memcpy(recv->place.data, recv->eager.chunk->bytes, recv->bytes);
        /* From a slot to the host's memory in the poll: rare, since senders that can wait hear of it
           (sv_shm_prefer()). */
        if (is_beyond_pinned(recv)) {
            const sv_devslot_place_t from = sv_devslot_place(engine, desc->devslot, desc->devslot_count);
            status = SV_DEVICE_CALL(engine->dev, copy_async, recv->place.data, from.payload, recv->bytes, SV_COPY_D2H,
                                    engine->streams.kernel);
            if (status == SELVAGE_SUCCESS)
                status = SV_DEVICE_CALL(engine->dev, stream_sync, engine->streams.kernel);
        }
    }
    recv->desc = NULL;
    selvage_status_t taken = sv_ctrl_consumed(engine, desc);
    SV_TRY(status);
    SV_TRY(taken);
    return sv_message_unpack(recv);
}

/* Takes a message out of a slot in device memory. To host memory it goes through pinned memory, or is verified where it
   is and goes then. */
static selvage_status_t take_from_slot(selvage_request_t *recv)
{
    sv_message_engine_t *engine = recv->engine;
    const sv_ctrl_desc_t *desc = recv->desc;
    const sv_devslot_place_t from = sv_devslot_place(engine, desc->devslot, desc->devslot_count);
    uint8_t *to = recv->place.data;
    if (is_beyond_pinned(recv)) {
        to = NULL;
    } else if (!recv->place.on_device) {
        if (!recv->eager.chunk) {
            recv->lacks = SV_LACKS_CHUNK;
            SV_TRY(sv_message_take_chunk(engine, false, true, &recv->eager.chunk));
            recv->lacks = SV_LACKS_NOTHING;
        }
        to = recv->eager.chunk->bytes;
    }
    const sv_verify_job_t job = {.src = from.payload, .dst = to, .record = from.record};
    engine->arrived.by[SV_WAY_SHM] += recv->attempt == 0;
    engine->arrived.by_devslot += recv->attempt == 0;
    recv->state = SV_REQUEST_CLOSING;
    return sv_message_verify(recv, &job, engine->streams.kernel);
}

selvage_status_t sv_eager_receive(selvage_request_t *recv)
{
    sv_ctrl_desc_t *desc = recv->desc;
    uint64_t sum = 0;
    if (desc->devslot)
        return take_from_slot(recv);
    recv->engine->arrived.by[desc->from_wire ? SV_WAY_WIRE : SV_WAY_SHM] += recv->attempt == 0;
    if (desc->shm)
        sv_shm_prefer(desc->shm, !recv->place.on_device);
    if (recv->place.on_device && recv->bytes) {
        const sv_verify_job_t job = {.src = sv_ctrl_device_ptr(desc, sv_ctrl_payload(desc)),
                                     .dst = recv->place.data,
                                     .record = sv_ctrl_device_ptr(desc, &desc->header->record)};
        recv->state = SV_REQUEST_CLOSING;
        return sv_message_verify(recv, &job, recv->engine->streams.kernel);
    }
    if (recv->bytes)
        memcpy(recv->place.data, sv_ctrl_payload(desc), recv->bytes);
    if (sv_message_checks(recv->engine))
        sum = sv_digest_sum(recv->key, 0, recv->place.data, recv->bytes);
    return sv_eager_finish(recv, sv_message_compare(recv, &desc->header->record, sum));
}
