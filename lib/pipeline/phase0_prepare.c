/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Phase 0, prepare: on the device, after the caller's stream, one pass over the data makes the digest and the record.
 * Staged packets that kernels move are pushed to their slot in the same pass; one-sided ones are pushed when the
 * receiver is ready, digest and all, so that nothing is left to do for them here. Nothing waits; words tell.
 */
#include "pipeline/pipe_batch.h"
#include "pipeline/pipe_phases.h"

/*
 * Where the record goes and which word says so. One-sided: straight to the receiver, beside the copies that run
 * meanwhile. But a fault may want to corrupted it first.
 */
static void address_record(const sv_send_t *send, sv_digest_arg_t *arg)
{
    bool straight = sv_route_is_one_sided(send->p.route) && !send->fault;
    arg->record = straight ? (uint8_t *)&send->remote->record : (uint8_t *)send->record;
    /* Partners: the acquires in recorded_is() of the receiver, and in sv_phase2_is_ready() here. */
    arg->signal = straight ? &send->remote->recorded : send->ready;
    arg->signal_value = sv_word(send->p.x->epoch, send->p.attempt, 1);
}

static selvage_status_t launch_digest_of_send(sv_send_t *send)
{
    sv_packet_t *p = &send->p;
    sv_device_t *dev = p->x->comm->dev;
    sv_digest_arg_t arg = {.src = send->buf,
                           .bytes = p->bytes,
                           .key = p->key,
                           .scratch = p->scratch,
                           .mode = SV_DIGEST_PREPARE,
                           .identity = p->identity};
    address_record(send, &arg);
    p->x->kernel_stream_busy = true;
    SV_TRY(sv_exchange_order(p->x)); /* what is sent again may have been left to the caller's stream at first */
    return SV_DEVICE_CALL(dev, launch, &sv_kernel_digest, &arg, sizeof arg, sv_kernel_blocks(dev, p->bytes),
                          p->x->kernel_stream);
}

selvage_status_t sv_phase0_prepare(sv_send_t *send, uint64_t now_ns)
{
    sv_packet_t *p = &send->p;
    bool off = p->x->policy == SV_CONFIG_CHECKSUM_OFF, staged = p->route == SELVAGE_ROUTE_STAGED;
    p->identity.epoch = p->x->epoch;
    p->identity.attempt = (uint8_t)p->attempt;
    p->key = sv_digest_key(&p->identity);
    p->started_ns = p->moved_ns = now_ns;
    send->ready_seen = off && !(staged && p->kernel_copy);
    if (off)
        *send->record = p->identity;
    /* The push that waits for leave brings the record too: not before that leave. What is sent again does not wait. */
    if (p->x->device_mode && p->attempt == 0)
        return SELVAGE_SUCCESS;
    if (staged && p->kernel_copy)
        sv_batch_push_later(send);
    else if (!off && (!p->kernel_copy || send->fault))
        return launch_digest_of_send(send);
    return SELVAGE_SUCCESS;
}
