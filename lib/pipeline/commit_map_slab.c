/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The token in a slab. A handle of device memory that opens without an error may still lead elsewhere: runtimes have
 * given out stale ones, and containers can make two processes look like one. So each rank that receives by peer stores
 * a number in its slab, and each rank that sends to it reads that number through its own mapping, by the copy engine
 * that will write there later. Done while an exchange is committed; the words in between lie in its segment.
 */
#include "base/base_status.h"
#include "kernels/kernels.h"
#include "pipeline/pipe_commit.h"

uint64_t sv_slab_token(uint64_t segment_token)
{
    return sv_digest_mix(segment_token) | 1;
}

/* Copies one word and waits for it. The streams of the exchange are not there yet. */
static selvage_status_t copy_slab_word(selvage_exchange_t *x, void *dst, const void *src, sv_copy_kind_t kind)
{
    sv_device_t *dev = x->comm->dev;
    void *stream;
    SV_TRY(SV_DEVICE_CALL(dev, stream_create, &stream));
    selvage_status_t status = SV_DEVICE_CALL(dev, copy_async, dst, src, sizeof(uint64_t), kind, stream);
    if (status == SELVAGE_SUCCESS)
        status = SV_DEVICE_CALL(dev, stream_sync, stream);
    SV_DEVICE_CALL(dev, stream_destroy, stream);
    return status;
}

selvage_status_t sv_slab_mark(selvage_exchange_t *x, void *place)
{
    x->memory.head->slab_token = sv_slab_token(x->memory.segment_token);
    return copy_slab_word(x, place, sv_shared_device_address(&x->memory.segment, &x->memory.head->slab_token),
                          SV_COPY_H2D);
}

static selvage_status_t compare_slab_token(selvage_exchange_t *x, const sv_peer_t *peer,
                                           const sv_handshake_head_t *head, const sv_opened_t *opened)
{
    const uint8_t *place = (const uint8_t *)opened->base + head->slab_token_offset;
    SV_TRY(copy_slab_word(x, sv_shared_device_address(&x->memory.segment, &x->memory.head->slab_read), place,
                          SV_COPY_D2H));
    if (x->memory.head->slab_read != sv_slab_token(head->token))
        return sv_error(SELVAGE_ERR_DEVICE, "the handle of device memory of rank %d leads to other memory", peer->rank);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_slab_check(selvage_exchange_t *x, sv_peer_t *peer)
{
    const sv_handshake_head_t *head = (const sv_handshake_head_t *)(const void *)peer->handshake_in;
    sv_opened_t *opened;
    if (!head->has_slab)
        return sv_error(SELVAGE_ERR_DEVICE, "rank %d could not export device memory", peer->rank);
    SV_TRY(sv_opened_get(&x->comm->opened, x->comm->dev, peer->rank, &head->slab, &opened));
    selvage_status_t status = sv_opened_bound(opened, head->slab_token_offset, sizeof(uint64_t));
    if (status == SELVAGE_SUCCESS)
        status = compare_slab_token(x, peer, head, opened);
    sv_opened_put(opened);
    return status;
}
