/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Naming what arrived in place of a packet. First its record: it may say, truthfully or not, that it is another packet
 * of this exchange or this packet of another epoch. Then the data: if the digest under the key of another packet, or of
 * the previous epoch, is one that some record here announces, the data are that packet's, whatever the record in front
 * says. That is how an MPI that mixes up two buffers shows itself.
 *
 * Trying keys waits for the device; it happens only after a failure, over a bounded number of candidates and bytes.
 */
#include <stdio.h>
#include <string.h>

#include "pipeline/pipe_batch.h"
#include "pipeline/pipe_commit.h"
#include "pipeline/pipe_phases.h"
#include "pipeline/pipe_varying.h"
#include "pipeline/route.h"

enum { CANDIDATES_MAX = 16 };
static const size_t TRIED_BYTES_MAX = 64 << 20;

/* What a record says it belongs to, if that is something this rank expects or has expected. */
static bool name_by_record(const sv_recv_t *recv, const sv_record_t *record, char *text, size_t text_bytes)
{
    const selvage_exchange_t *x = recv->p.x;
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        const sv_recv_t *other = &x->recvs[i];
        const sv_record_t *id = &other->p.identity;
        /* An epoch that has not begun is a damaged record, not another packet. */
        if (!sv_packet_is_same(record, id) || record->bytes != id->bytes || record->salt != id->salt ||
            record->epoch > x->epoch || (other == recv && record->epoch == x->epoch))
            continue;
        snprintf(text, text_bytes, "this is packet %u (tag %d) from rank %d of epoch %llu", other->p.index,
                 other->p.tag, other->p.peer->rank, (unsigned long long)record->epoch);
        return true;
    }
    return false;
}

/* The digest of the data in the user's buffer as if it were `identity`. */
static bool digest_under(sv_recv_t *recv, const sv_record_t *identity, uint64_t *digest_out)
{
    sv_packet_t *p = &recv->p;
    sv_device_t *dev = p->x->comm->dev;
    if (!recv->buf) /* in pieces, in the user's memory */
        return false;
    sv_digest_arg_t arg = {.src = recv->buf,
                           .bytes = p->bytes,
                           .key = sv_digest_key(identity),
                           .scratch = p->scratch,
                           .record = sv_shared_device_address(&p->x->memory.segment, recv->record),
                           .result = recv->result,
                           .mode = SV_DIGEST_VERIFY,
                           .identity = *identity};
    if (SV_DEVICE_CALL(dev, launch, &sv_kernel_digest, &arg, sizeof arg, dev->launch_blocks, p->x->streams.kernel) !=
            SELVAGE_SUCCESS ||
        SV_DEVICE_CALL(dev, stream_sync, p->x->streams.kernel) != SELVAGE_SUCCESS)
        return false;
    *digest_out = recv->result->found;
    return true;
}

/* Small packets on `peer` and `self` have their record on the device; the host gets it only when they fail. */
static bool fetch_record(const sv_recv_t *recv)
{
    const sv_packet_t *p = &recv->p;
    sv_device_t *dev = p->x->comm->dev;
    if (!sv_batch_has_device_record(p))
        return true;
    const uint8_t *place = recv->device_line;
    if (!place)
        place = recv->recv_slots + p->x->epoch % p->nslots * sv_commit_slot_bytes(p) + sv_commit_trailer(p);
    return SV_DEVICE_CALL(dev, copy_async, recv->record, place, sizeof *recv->record, SV_COPY_D2H,
                          p->x->streams.kernel) == SELVAGE_SUCCESS &&
           SV_DEVICE_CALL(dev, stream_sync, p->x->streams.kernel) == SELVAGE_SUCCESS;
}

static bool try_identity(sv_recv_t *recv, const sv_recv_t *candidate, uint64_t epoch, char *text, size_t text_bytes)
{
    sv_record_t identity = candidate->p.identity;
    uint64_t digest;
    identity.epoch = epoch;
    if (!digest_under(recv, &identity, &digest))
        return false;
    /* The record in front announces that digest, or the candidate's own, which is one only once it arrived. */
    const bool arrived = candidate->state != SV_RECV_WAITING && (candidate == recv || fetch_record(candidate));
    if (digest != recv->record->digest && !(arrived && digest == candidate->record->digest))
        return false;
    snprintf(text, text_bytes, "the data are those of packet %u (tag %d) from rank %d of epoch %llu",
             candidate->p.index, candidate->p.tag, candidate->p.peer->rank, (unsigned long long)epoch);
    return true;
}

static bool name_by_data(sv_recv_t *recv, char *text, size_t text_bytes)
{
    const selvage_exchange_t *x = recv->p.x;
    size_t tried_bytes = 0;
    if (recv->p.bytes == 0 || recv->p.bytes > TRIED_BYTES_MAX)
        return false;
    if (x->epoch > 1 && try_identity(recv, recv, x->epoch - 1, text, text_bytes))
        return true;
    for (uint32_t i = 0, tried = 0; i < x->nrecvs && tried < CANDIDATES_MAX && tried_bytes < TRIED_BYTES_MAX; i++) {
        const sv_recv_t *other = &x->recvs[i];
        if (other == recv || other->p.bytes != recv->p.bytes)
            continue;
        tried++;
        tried_bytes += recv->p.bytes;
        if (try_identity(recv, other, x->epoch, text, text_bytes))
            return true;
    }
    return false;
}

bool sv_misdelivery_describe(sv_recv_t *recv, const sv_record_t *arrived, bool data_arrived, char *text,
                             size_t text_bytes)
{
    if (sv_varying_is_other(&recv->p, arrived, recv->p.x->epoch)) {
        snprintf(text, text_bytes, "it was sent with another number of bytes");
        return false;
    }
    if (name_by_record(recv, arrived, text, text_bytes))
        return true;
    if (data_arrived && name_by_data(recv, text, text_bytes))
        return true;
    snprintf(text, text_bytes, "%s",
             data_arrived ? "the data are damaged" : "the message is cut short or its record damaged");
    return false;
}
