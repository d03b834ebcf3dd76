/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Splits: all ranks of a communicator of collectives tell each other colour and key, each makes its own part from that,
 * and all agree that every part is made. The arena is shared; parts of one split may have the same number, because they
 * share no ranks. A part can also be made by its own ranks alone, which then all know who they are.
 */
#include "base/base_status.h"
#include "collective/coll_setup.h"

enum { ITEM_COLOR, ITEM_KEY, ITEM_NUMBERS };
enum { ITEM_MEMBERS = ITEM_COLOR }; /* where a part's own ranks make it: a digest of their list */

typedef struct split_task {
    selvage_coll_t *coll;
    int color, key;
    selvage_coll_t *part; /* NULL: this rank is in none */
} split_task_t;

static int value_of(const selvage_coll_t *coll, int rank, int what)
{
    return (int)(int64_t)sv_gather_item_of(&coll->all, rank)->value[what];
}

/* Lists the ranks of the caller's colour, in order; returns how many, and which numbers they use. */
static int list_color_members(const selvage_coll_t *coll, int color, int *list, uint64_t *used_out)
{
    int count = 0;
    *used_out = 0;
    for (int r = 0; r < coll->size; r++) {
        if (value_of(coll, r, ITEM_COLOR) != color)
            continue;
        *used_out |= sv_gather_item_of(&coll->all, r)->value[ITEM_NUMBERS];
        int at = count++;
        for (; at > 0 && value_of(coll, r, ITEM_KEY) < value_of(coll, list[at - 1], ITEM_KEY); at--) /* then by rank */
            list[at] = list[at - 1];
        list[at] = r;
    }
    return count;
}

/* Takes a rank of the communicator that is split as the part's next one. */
static void add_member(const selvage_coll_t *coll, int above, selvage_coll_t *part, int at)
{
    part->node_of[at] = coll->node_of[above];
    part->all.ranks[at] = coll->all.ranks[above];
    if (above == coll->rank)
        part->all.me = at;
}

static selvage_status_t make_part(selvage_coll_t *coll, int color, selvage_coll_t **part_out)
{
    uint64_t used;
    int count = 0;
    for (int r = 0; r < coll->size; r++)
        count += value_of(coll, r, ITEM_COLOR) == color;
    SV_TRY(sv_coll_alloc(coll->comm, count, part_out));
    selvage_coll_t *part = *part_out;
    list_color_members(coll, color, part->all.ranks, &used);
    SV_TRY(sv_coll_pick_number(used, &part->number));
    for (int r = 0; r < count; r++)
        add_member(coll, part->all.ranks[r] /* so far, of coll */, part, r);
    part->exact = coll->exact;
    return sv_coll_init(part, coll->arena);
}

static selvage_status_t tell_color(const split_task_t *call)
{
    selvage_coll_t *coll = call->coll;
    selvage_status_t status = SELVAGE_SUCCESS;
    if (call->color < -1)
        status = sv_error(SELVAGE_ERR_ARGUMENT, "selvage_coll_split: color is %d; wanted 0 or more, or -1",
                          call->color);
    sv_gather_item_t *item = sv_gather_item_begin(&coll->all);
    item->value[ITEM_COLOR] = (uint64_t)(int64_t)call->color;
    item->value[ITEM_KEY] = (uint64_t)(int64_t)call->key;
    item->value[ITEM_NUMBERS] = coll->arena->numbers_used;
    return sv_gather(&coll->all, "selvage_coll_split", coll->number, status, coll->comm->timeout_s);
}

static selvage_status_t run_split(void *arg)
{
    split_task_t *call = arg;
    selvage_coll_t *coll = call->coll;
    const double timeout_s = coll->comm->timeout_s;
    uint64_t unused = 0;
    selvage_status_t status = sv_team_wake(&coll->all);
    if (coll->spans) /* one that does not is never at rest; here all have the memory to go on */
        status = sv_gather_least(&coll->all, "selvage_coll_split: memory", coll->number, status, &unused, timeout_s);
    SV_TRY_GOTO(status, status, end);
    SV_TRY_GOTO(status, tell_color(call), end);
    if (call->color >= 0)
        status = make_part(coll, call->color, &call->part);
    status = sv_gather_least(&coll->all, "selvage_coll_split: end", coll->number, status, &unused, timeout_s);
    if (status == SELVAGE_SUCCESS)
        status = sv_coll_handed_connect(call->part, &coll->all, "selvage_coll_split: MPI", coll->number);
    if (status != SELVAGE_SUCCESS && call->part)
        sv_coll_free(call->part);
end:
    if (coll->spans)
        sv_team_rest(&coll->all);
    return status;
}

selvage_status_t sv_coll_split(selvage_coll_t *coll, int color, int key, selvage_coll_t **coll_out)
{
    split_task_t call = {.coll = coll, .color = color, .key = key};
    sv_coll_queue_wait(coll->arena);
    SV_TRY(sv_comm_run(coll->comm, run_split, &call));
    *coll_out = call.part;
    return SELVAGE_SUCCESS;
}

/* --- by its own ranks --------------------------------------------------------------------------------------------- */

typedef struct among_task {
    selvage_coll_t *coll;
    const int *ranks; /* of coll */
    int count;
    selvage_coll_t *part;
} among_task_t;

/* The part's ranks tell each other which numbers they use, and whom they take for its ranks. */
static selvage_status_t agree_on_number(const among_task_t *call)
{
    selvage_coll_t *part = call->part;
    const size_t list_bytes = (size_t)call->count * sizeof *part->all.ranks;
    const uint64_t members = sv_digest_finish(0, sv_digest_sum(0, 0, part->all.ranks, list_bytes));
    uint64_t used = 0;
    sv_gather_item_t *item = sv_gather_item_begin(&part->all);
    item->value[ITEM_MEMBERS] = members;
    item->value[ITEM_NUMBERS] = call->coll->arena->numbers_used;
    SV_TRY(sv_gather(&part->all, "selvage_coll_create_among", (uint64_t)call->count, SELVAGE_SUCCESS,
                     part->comm->timeout_s));
    for (int r = 0; r < call->count; r++) {
        used |= sv_gather_item_of(&part->all, r)->value[ITEM_NUMBERS];
        if (sv_gather_item_of(&part->all, r)->value[ITEM_MEMBERS] !=
            sv_gather_item_of(&part->all, 0)->value[ITEM_MEMBERS])
            return sv_error(SELVAGE_ERR_MISMATCH, "selvage_coll_create_among: its ranks 0 and %d have other lists of "
                            "ranks", r);
    }
    return sv_coll_pick_number(used, &part->number);
}

/* Each rank says whether it has the memory to go on. There may be no part to say so with. So a team is made up of what
   is there: a list of the arena's, and the messages of the communicator that is divided, which has no fewer ranks. */
static selvage_status_t agree_on_memory(const among_task_t *call, selvage_status_t status)
{
    const selvage_coll_t *coll = call->coll;
    sv_team_t team = {.comm = coll->comm, .ranks = coll->arena->list, .size = call->count, .out = coll->all.out,
                      .in = coll->all.in};
    uint64_t unused = 0;
    for (int r = 0; r < call->count; r++) {
        team.ranks[r] = coll->all.ranks[call->ranks[r]];
        if (call->ranks[r] == coll->rank)
            team.me = r;
    }
    status = sv_gather_least(&team, "selvage_coll_create_among: memory", (uint64_t)call->count, status, &unused,
                             coll->comm->timeout_s);
    call->coll->all.set_aside |= team.set_aside;
    return status;
}

static selvage_status_t run_create_among(void *arg)
{
    among_task_t *call = arg;
    selvage_coll_t *coll = call->coll;
    uint64_t unused = 0;
    selvage_status_t status = sv_coll_alloc(coll->comm, call->count, &call->part);
    selvage_coll_t *part = call->part;
    if (status == SELVAGE_SUCCESS)
        status = sv_team_wake(&part->all);
    SV_TRY_GOTO(status, agree_on_memory(call, status), fail);
    for (int r = 0; r < call->count; r++)
        add_member(coll, call->ranks[r], part, r);
    SV_TRY_GOTO(status, agree_on_number(call), fail);
    part->exact = coll->exact;
    status = sv_coll_init(part, coll->arena);
    status = sv_gather_least(&part->all, "selvage_coll_create_among: end", part->number, status, &unused,
                             coll->comm->timeout_s);
    SV_TRY_GOTO(status, status, fail);
    status = sv_coll_handed_connect(part, &part->all, "selvage_coll_create_among: MPI", part->number);
    SV_TRY_GOTO(status, status, fail);
    if (part->spans)
        sv_team_rest(&part->all);
    return SELVAGE_SUCCESS;
fail:
    if (part)
        sv_coll_free(part);
    return status;
}

selvage_status_t sv_coll_create_among(selvage_coll_t *coll, int count, const int *ranks, selvage_coll_t **coll_out)
{
    among_task_t call = {.coll = coll, .ranks = ranks, .count = count};
    sv_coll_queue_wait(coll->arena);
    SV_TRY(sv_comm_run(coll->comm, run_create_among, &call));
    *coll_out = call.part;
    return SELVAGE_SUCCESS;
}
