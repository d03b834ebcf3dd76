/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a call keeps until it has landed, and gives back then: staging memory, plans, and copies of datatypes that the
 * program may free as soon as its call returns. The call's own thread, or whoever ends its request.
 */
#include "interpose/drop.h"

#include <stdlib.h>

static bool is_derived(MPI_Datatype type)
{
    sv_drop_type_t info;
    return sv_drop_type(type, &info) && !info.named;
}

/* A stream has its plan, which outlives the type; what only goes down as a whole asks no more. */
void sv_drop_call_hold(sv_drop_call_t *call)
{
    for (int i = 0; i < call->nregions; i++) {
        sv_drop_region_t *region = &call->region[i];
        sv_drop_block_t *blocks = region->blocks ? region->blocks : &region->one;
        if (region->packed || region->holds || !(region->out || call->parts))
            continue;
        region->holds = true;
        for (int j = 0; j < region->nblocks; j++)
            if (is_derived(blocks[j].type) && sv_drop_type_hold(blocks[j].type, &blocks[j].type) != MPI_SUCCESS)
                sv_drop_fatal("no memory", call->name);
    }
}

static void let_types_go(sv_drop_region_t *region)
{
    sv_drop_block_t *blocks = region->blocks ? region->blocks : &region->one;
    for (int i = 0; i < region->nblocks && region->holds; i++)
        if (is_derived(blocks[i].type))
            PMPI_Type_free(&blocks[i].type);
    region->holds = false;
}

void sv_drop_call_end(sv_drop_call_t *call)
{
    sv_drop_trace_call(call);
    free(call->parts);
    call->parts = NULL;
    for (int i = 0; i < call->nregions; i++) {
        sv_drop_region_t *region = &call->region[i];
        if (region->unpacks) {
            free(region->host);
            if (is_derived(region->one.type))
                PMPI_Type_free(&region->one.type);
        } else
            sv_drop_unstage(region->image);
        sv_drop_plan_put(region->plan);
        if (region->owns_type)
            PMPI_Type_free(&region->type);
        let_types_go(region);
        free(region->blocks);
    }
    call->nregions = 0;
}
