/* SPDX-License-Identifier: BSD-3-Clause */
/* Time stamps of collectives: takes a line for each block and piece of work of a launch, and notes what they are of.
   The application's one thread. */
#include "collective/coll_parts.h"
#include "comm/comm_stamps.h"

/* What a piece of work gives in on this rank. */
static uint64_t input_bytes_of(const selvage_coll_t *coll, const sv_coll_work_t *work)
{
    const bool blocks = work->call == SV_COLL_REDUCE_SCATTER || work->call == SV_COLL_ALL_TO_ALL;
    return work->count * selvage_type_bytes((selvage_type_t)work->type) * (blocks ? coll->dev.n : 1);
}

/* The same number on all ranks of a communicator on a node, and of no other that lives as long: who its first rank
   there is, and its number in the arena. */
static uint32_t trace_number_of(const selvage_coll_t *coll)
{
    const int first = coll->comm->topology.node_ranks[coll->dev.member[0]];
    return (uint32_t)first << 4 | (coll->number & 15);
}

/* Pieces in the FIFO are read again where they were just written. */
static const sv_coll_work_t *stamped_piece(const selvage_coll_t *coll, const sv_coll_arg_t *arg, uint32_t i)
{
    if (!arg->from_fifo)
        return &arg->work[i];
    const uint8_t *fifo = coll->arena->fifo;
    return (const void *)(fifo + ((coll->arena->fifo_produced + i * SV_COLL_FIFO_STRIDE) & arg->fifo_mask));
}

void sv_coll_take_stamps(const selvage_coll_t *coll, const sv_coll_arg_t *arg, unsigned blocks,
                         sv_coll_context_t *context)
{
    sv_stamps_t *stamps = coll->comm->stamps;
    context->stamps = NULL;
    if (!stamps || !coll->arena->tried) /* the trial of long lines is no user's */
        return;
    const uint32_t launch = sv_stamps_number_launch(stamps);
    context->stamps = sv_stamps_take(stamps, arg->nwork * blocks);
    for (uint32_t i = 0; context->stamps && i < arg->nwork; i++) {
        const sv_coll_work_t *work = stamped_piece(coll, arg, i);
        const sv_trace_blocks_t what = {.epoch = work->sequence,
                                        .bytes = input_bytes_of(coll, work),
                                        .packet = UINT32_MAX,
                                        .peer = -1,
                                        .kind = (uint16_t)(SV_TRACE_BLOCKS_COLL + work->call),
                                        .exchange = trace_number_of(coll),
                                        .launch = launch};
        sv_stamps_note(stamps, context->stamps + i * blocks + work->channel, work->nchannels, &what);
    }
}
