/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Phase 0, prepare: on the device, after the caller's stream, one pass over the data makes the digest and the record;
 * small packets are copied to their staging slot in the same pass. Nothing waits here; the event `prepared` tells.
 */
#include "pipeline/pipe_phases.h"

/* The argument of a digest kernel over a whole send. dst NULL: only read. */
static sv_digest_arg_t digest_of(sv_send_t *send, uint8_t *dst)
{
    bool off = send->p.x->policy == SV_CONFIG_CHECKSUM_OFF;
    return (sv_digest_arg_t){.src = send->buf,
                             .dst = dst,
                             .bytes = dst || !off ? send->p.bytes : 0,
                             .key = send->p.key,
                             .scratch = send->p.scratch,
                             .record = (uint8_t *)send->record,
                             .mode = SV_DIGEST_PREPARE | (off ? SV_DIGEST_NONE : 0),
                             .identity = send->p.identity};
}

static selvage_status_t launch(sv_send_t *send, const sv_digest_arg_t *arg, void *stream)
{
    sv_device_t *dev = send->p.x->comm->dev;
    return SV_DEVICE_CALL(dev, launch, &sv_kernel_digest, arg, sizeof *arg,
                          send->p.kernel_copy ? 1 : dev->launch_blocks, stream);
}

selvage_status_t sv_phase0_prepare(sv_send_t *send, uint64_t now_ns)
{
    selvage_exchange_t *x = send->p.x;
    send->p.identity.epoch = x->epoch;
    send->p.identity.attempt = (uint8_t)send->p.attempt;
    send->p.key = sv_digest_key(&send->p.identity);
    send->p.started_ns = send->p.moved_ns = now_ns;
    send->prepared_seen = false;
    if (send->fused)
        return SELVAGE_SUCCESS;
    bool to_slot = send->p.kernel_copy && send->p.route == SELVAGE_ROUTE_STAGED;
    sv_digest_arg_t arg = digest_of(send, to_slot ? send->p.slots[0].stage : NULL);
    SV_TRY(launch(send, &arg, x->kernel_stream));
    return SV_DEVICE_CALL(x->comm->dev, event_record, send->prepared, x->kernel_stream);
}

/* Small packets on one-sided routes: payload, record and word in one kernel, once the receiver is ready. */
selvage_status_t sv_phase0_fused(sv_send_t *send, uint64_t word)
{
    selvage_exchange_t *x = send->p.x;
    sv_digest_arg_t arg = digest_of(send, send->target);
    arg.record = (uint8_t *)&send->remote->record;
    arg.signal = &send->remote->arrived;
    arg.signal_value = word;
    return launch(send, &arg, x->kernel_stream);
}
