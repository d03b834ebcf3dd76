/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages of collective calls that have one for each block (drop_pairs.c): how each begins, and the list of them
 * that a persistent call begins again at each start. Whether a block is the device's is asked each time.
 *
 * The list has ranks of the job and copies of the types, so that the program may free its communicator and its types.
 * It is owned by whoever has made it, and starts do not change it. Any thread.
 */
#include "interpose/drop_blocks.h"
#include "interpose/drop_agree.h"
#include "interpose/drop_pairs.h"
#include "interpose/drop_plan.h"
#include "interpose/drop_route.h"

#include <limits.h>
#include <stdlib.h>

/* A message of each start. */
typedef struct repeated {
    sv_drop_pair_t block;
    bool owns_type;
} repeated_t;

struct sv_drop_recipe {
    const char *name;
    sv_drop_own_block_t own;
    int n;
    repeated_t message[];
};

/* --- messages ----------------------------------------------------------------------------------------------------- */

/* Whether elements come up with their gaps, which may be other blocks of the call: those in device memory whose type
   cannot be taken apart. */
static bool keeps_gaps(const sv_drop_pair_t *block)
{
    sv_drop_type_t info;
    if (!sv_drop_type(block->type, &info) || info.named || info.dense ||
        sv_drop_is_host_typed(block->at, block->count, block->type))
        return false;
    sv_drop_plan_t *plan = sv_drop_plan_get(block->type, block->count, block->at);
    const bool opaque = !plan->pack;
    sv_drop_plan_put(plan);
    return opaque;
}

static void begin_recv_packed(const char *name, const sv_drop_pair_t *block, sv_drop_joint_t *joint)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Count each = 0;
    int code = MPI_ERR_COUNT;
    PMPI_Type_size_x(block->type, &each);
    if (block->count > INT_MAX || block->count * each > INT_MAX) {
        sv_drop_joint_add(joint, request, code);
        return;
    }
    const int bytes = (int)(block->count * each);
    void *packed = malloc((size_t)bytes);
    if (!packed)
        sv_drop_fatal("no memory", name);
    code = sv_drop_irecv(name, packed, bytes, MPI_BYTE, block->rank, block->tag, sv_drop_route.own, &request);
    sv_drop_joint_add_packed(joint, request, code, packed, bytes, block->at, (int)block->count, block->type);
}

static void begin_pair_block(const char *name, const sv_drop_pair_t *block, sv_drop_joint_t *joint)
{
    MPI_Request request = MPI_REQUEST_NULL;
    sv_drop_narrow_t narrow = {0};
    if (!block->sends && keeps_gaps(block)) {
        begin_recv_packed(name, block, joint);
        return;
    }
    int code = sv_drop_narrow(block->count, block->type, &narrow);
    if (code == MPI_SUCCESS && block->sends)
        code = sv_drop_isend_any(name, SV_DROP_ALONE, block->at, narrow.count, narrow.type, block->rank, block->tag,
                                 sv_drop_route.own, &request);
    else if (code == MPI_SUCCESS)
        code = sv_drop_irecv(name, block->at, narrow.count, narrow.type, block->rank, block->tag, sv_drop_route.own,
                             &request);
    sv_drop_narrow_end(&narrow);
    sv_drop_joint_add(joint, request, code);
}

void sv_drop_pair_begin(void *with, const sv_drop_pair_t *block)
{
    const sv_drop_beginning_t *to = with;
    if (!(to->copied && block->own))
        begin_pair_block(to->name, block, to->joint);
}

bool sv_drop_copy_own_block(const sv_drop_own_block_t *own, sv_drop_joint_t *joint)
{
    if (own->in_place)
        return true;
    if (own->bytes == 0 || !sv_drop_is_fit(own->from, 1) || !sv_drop_is_fit(own->to, 1))
        return false;
    sv_drop_settle();
    if (sv_drop_is_stuck())
        return false;
    sv_drop_copy(sv_drop_joint_flow(joint), own->to, own->from, (size_t)own->bytes, SELVAGE_COPY_DEVICE_TO_DEVICE);
    return true;
}

/* --- persistent calls --------------------------------------------------------------------------------------------- */

sv_drop_recipe_t *sv_drop_recipe_begin(const char *name, const sv_drop_own_block_t *own, int most)
{
    sv_drop_recipe_t *recipe = malloc(sizeof *recipe + (size_t)most * sizeof recipe->message[0]);
    if (!recipe)
        sv_drop_fatal("no memory", name);
    *recipe = (sv_drop_recipe_t){.name = name, .own = *own};
    return recipe; /* partner: sv_drop_recipe_end() */
}

void sv_drop_recipe_add(void *with, const sv_drop_pair_t *block)
{
    sv_drop_recipe_t *recipe = with;
    repeated_t *message = &recipe->message[recipe->n++];
    sv_drop_type_t info;
    *message = (repeated_t){*block, sv_drop_type(block->type, &info) && !info.named};
    if (message->owns_type && sv_drop_type_hold(block->type, &message->block.type) != MPI_SUCCESS)
        sv_drop_fatal("no memory", recipe->name);
}

int sv_drop_recipe_start(const void *state, int tag, MPI_Comm comm, MPI_Request *request)
{
    const sv_drop_recipe_t *recipe = state;
    int64_t before[2];
    sv_drop_count_parts(&before[0], &before[1]); /* of calls that count by themselves */
    sv_drop_joint_t *joint = sv_drop_joint_begin(recipe->n);
    sv_drop_beginning_t to = {recipe->name, joint, sv_drop_copy_own_block(&recipe->own, joint)};
    for (int i = 0; i < recipe->n; i++) {
        sv_drop_pair_t block = recipe->message[i].block;
        block.tag += tag;
        sv_drop_pair_begin(&to, &block);
    }
    sv_drop_flush(); /* short messages must not wait for the next call */
    const int64_t bytes = sv_drop_count_pairs(recipe->name);
    sv_drop_joint_start(joint, recipe->name, bytes, comm, request);
    return MPI_SUCCESS;
}

void sv_drop_recipe_end(void *state)
{
    sv_drop_recipe_t *recipe = state;
    for (int i = 0; i < recipe->n; i++)
        if (recipe->message[i].owns_type)
            PMPI_Type_free(&recipe->message[i].block.type);
    free(recipe);
}
