/* SPDX-License-Identifier: BSD-3-Clause */
/* Time stamps of batches: takes a line for each share of a launch, and notes which packet it is of. Engine thread. */
#include "comm/comm_stamps.h"
#include "pipeline/pipe_batch.h"

static void note_packet(const selvage_exchange_t *x, const sv_batch_arg_t *arg, uint32_t n, const sv_packet_t *p,
                        unsigned kind, uint32_t launch)
{
    const sv_trace_blocks_t what = {.epoch = arg->epoch,
                                    .bytes = p->bytes,
                                    .packet = p->index,
                                    .peer = p->peer->rank,
                                    .kind = (uint16_t)kind,
                                    .route = (uint16_t)p->route,
                                    .exchange = sv_exchange_trace_id(x),
                                    .launch = launch};
    sv_stamps_note(x->comm->stamps, arg->stamps + arg->first_block[n], arg->first_block[n + 1] - arg->first_block[n],
                   &what);
}

uint32_t sv_batch_number_launch(const selvage_exchange_t *x)
{
    return x->comm->stamps ? sv_stamps_number_launch(x->comm->stamps) : 0;
}

void sv_batch_stamp_push(const selvage_exchange_t *x, sv_batch_arg_t *arg, bool in_pieces, uint32_t launch)
{
    if (!x->comm->stamps)
        return;
    arg->stamps = sv_stamps_take(x->comm->stamps, arg->first_block[arg->npackets]);
    for (uint32_t n = 0; arg->stamps && n < arg->npackets; n++)
        note_packet(x, arg, n, &x->sends[arg->index[n]].p, in_pieces ? SV_TRACE_BLOCKS_GATHER : SV_TRACE_BLOCKS_PUSH,
                    launch);
}

void sv_batch_stamp_pull(const selvage_exchange_t *x, sv_batch_arg_t *arg, bool in_pieces, uint32_t launch)
{
    if (!x->comm->stamps)
        return;
    arg->stamps = sv_stamps_take(x->comm->stamps, arg->first_block[arg->npackets]);
    for (uint32_t n = 0; arg->stamps && n < arg->npackets; n++)
        note_packet(x, arg, n, &x->recvs[arg->index[n]].p, in_pieces ? SV_TRACE_BLOCKS_SCATTER : SV_TRACE_BLOCKS_PULL,
                    launch);
}
