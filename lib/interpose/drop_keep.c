/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a call keeps until its bytes have landed: staging memory, plans, and copies of the program's types where landing
 * needs those. The program may free its types as soon as its call returns, and a call that does not block lands later.
 * Any thread, but a call is one thread's. Everything is given back by sv_drop_call_end().
 */
#include "interpose/drop_order.h"
#include "interpose/drop_plan.h"
#include "interpose/drop_strip.h"

#include <stdlib.h>

static bool is_derived(const sv_drop_block_t *block)
{
    return block->is_type && !block->info.named;
}

/* A packed or compact buffer needs no copy of its types, since its plans outlive them; nor does one that only goes down
   as a whole, which asks its types no more. */
void sv_drop_call_hold(sv_drop_call_t *call)
{
    for (int i = 0; i < call->nbuffers; i++) {
        sv_drop_buffer_t *buffer = &call->buffer[i];
        sv_drop_block_t *blocks = buffer->blocks ? buffer->blocks : &buffer->one;
        if (buffer->packed || buffer->compact || buffer->owns_types || !(buffer->out || call->parts))
            continue;
        buffer->owns_types = true;
        for (int j = 0; j < buffer->nblocks; j++)
            if (is_derived(&blocks[j]) && sv_drop_type_hold(blocks[j].type, &blocks[j].type) != MPI_SUCCESS)
                sv_drop_fatal("no memory", call->name);
    }
}

void sv_drop_call_leave_strip(sv_drop_call_t *call)
{
    for (int i = 0; i < call->nbuffers; i++) {
        sv_drop_strip_release(call->buffer[i].strip);
        call->buffer[i].strip = NULL;
    }
}

void sv_drop_call_end(sv_drop_call_t *call)
{
    sv_drop_trace_call(call);
    sv_drop_call_leave_strip(call);
    sv_drop_order_end(call);
    free(call->parts);
    call->parts = NULL;
    for (int i = 0; i < call->nbuffers; i++) {
        sv_drop_buffer_t *buffer = &call->buffer[i];
        sv_drop_block_t *blocks = buffer->blocks ? buffer->blocks : &buffer->one;
        if (buffer->unpacks) {
            free(buffer->host);
            if (is_derived(&buffer->one))
                PMPI_Type_free(&buffer->one.type);
        } else
            sv_drop_unstage(buffer->image);
        sv_drop_op_release(buffer->lender);
        sv_drop_plan_put(buffer->plan);
        sv_drop_compact_end(buffer);
        if (buffer->owns_type)
            PMPI_Type_free(&buffer->type);
        if (buffer->owns_guard)
            PMPI_Type_free(&buffer->guard);
        for (int j = 0; j < buffer->nblocks && buffer->owns_types; j++)
            if (is_derived(&blocks[j]))
                PMPI_Type_free(&blocks[j].type);
        buffer->owns_types = false;
        free(buffer->blocks);
    }
    call->nbuffers = 0;
}
