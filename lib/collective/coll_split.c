/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Splits: all ranks of a communicator of collectives tell each other colour and key, each makes its own part from that,
 * and all agree that every part is made. The arena is shared; parts of one split may have the same number, because they
 * share no ranks. A part can also be made by its own ranks alone, which then all know who they are.
 */
#include "base/base_memory.h"
#include "base/base_status.h"
#include "collective/coll_setup.h"

/* What a rank tells: colour and key, or a digest of the list of ranks where a part's own ranks make it; and the numbers
   that it uses. */
enum { WORD_COLOR, WORD_NUMBERS };
enum { WORD_MEMBERS = WORD_COLOR };

typedef struct split_task {
    selvage_coll_t *coll;
    int color, key;
    uint64_t *words;      /* of all ranks; owned */
    selvage_coll_t *part; /* NULL: this rank is in none */
} split_task_t;

static uint64_t word_of(const uint64_t *words, int rank, int what)
{
    return words[(size_t)rank * SV_GATHER_WORDS + (size_t)what];
}

static int color_of(const split_task_t *call, int rank)
{
    return (int)(int32_t)(word_of(call->words, rank, WORD_COLOR) >> 32);
}

static int key_of(const split_task_t *call, int rank)
{
    return (int)(int32_t)word_of(call->words, rank, WORD_COLOR);
}

/* Lists the ranks of the caller's colour, in order; returns which numbers they use. */
static uint64_t list_color_members(const split_task_t *call, int *list)
{
    uint64_t used = 0;
    int count = 0;
    for (int r = 0; r < call->coll->size; r++) {
        if (color_of(call, r) != call->color)
            continue;
        used |= word_of(call->words, r, WORD_NUMBERS);
        int at = count++;
        for (; at > 0 && key_of(call, r) < key_of(call, list[at - 1]); at--) /* then by rank */
            list[at] = list[at - 1];
        list[at] = r;
    }
    return used;
}

/* Takes a rank of the communicator that is split as the part's next one. */
static void add_member(const selvage_coll_t *coll, int above, selvage_coll_t *part, int at)
{
    part->node_of[at] = coll->node_of[above];
    part->all.ranks[at] = coll->all.ranks[above];
    if (above == coll->rank)
        part->all.me = at;
}

/* What all have told is not needed any more when the part is filled in. */
static selvage_status_t make_part(split_task_t *call)
{
    selvage_coll_t *coll = call->coll;
    int count = 0;
    for (int r = 0; r < coll->size; r++)
        count += color_of(call, r) == call->color;
    SV_TRY(sv_coll_alloc(coll->comm, count, &call->part));
    selvage_coll_t *part = call->part;
    const uint64_t used = list_color_members(call, part->all.ranks);
    sv_free(call->words);
    call->words = NULL;
    SV_TRY(sv_coll_pick_number(used, &part->number));
    for (int r = 0; r < count; r++)
        add_member(coll, part->all.ranks[r] /* so far, of coll */, part, r);
    part->exact = coll->exact;
    part->host_waits = coll->host_waits;
    return sv_coll_init(part, coll->arena);
}

static selvage_status_t tell_color(const split_task_t *call)
{
    selvage_coll_t *coll = call->coll;
    uint64_t *mine = &call->words[(size_t)coll->rank * SV_GATHER_WORDS];
    mine[WORD_COLOR] = (uint64_t)(uint32_t)call->color << 32 | (uint32_t)call->key;
    mine[WORD_NUMBERS] = coll->arena->numbers_used;
    return sv_gather_words(&coll->all, "selvage_coll_split: colours", coll->number, SV_GATHER_WORDS, call->words,
                           coll->comm->timeout_s);
}

/* What a rank can know alone, and the memory to go on. */
static selvage_status_t prepare_split(split_task_t *call)
{
    if (call->color < -1)
        return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_coll_split: color is %d; wanted 0 or more, or -1", call->color);
    return sv_calloc((size_t)call->coll->size * SV_GATHER_WORDS, sizeof *call->words, &call->words);
}

static selvage_status_t run_split(void *arg)
{
    split_task_t *call = arg;
    selvage_coll_t *coll = call->coll;
    const double timeout_s = coll->comm->timeout_s;
    uint64_t unused = 0;
    selvage_status_t status = prepare_split(call);
    if (coll->spans)
        status = sv_gather_least(&coll->all, "selvage_coll_split", coll->number, status, &unused, timeout_s);
    else /* ranks that call something else may go on after that */
        status = sv_gather(&coll->all, "selvage_coll_split", coll->number, status, timeout_s);
    SV_TRY_GOTO(status, status, end);
    SV_TRY_GOTO(status, tell_color(call), end);
    if (call->color >= 0)
        status = make_part(call);
    status = sv_gather_least(&coll->all, "selvage_coll_split: end", coll->number, status, &unused, timeout_s);
    if (status == SELVAGE_SUCCESS)
        status = sv_coll_handed_connect(call->part, &coll->all, "selvage_coll_split: MPI", coll->number);
    if (status != SELVAGE_SUCCESS && call->part)
        sv_coll_free(call->part);
end:
    sv_free(call->words);
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
    uint64_t *words; /* of the part's ranks; owned */
    selvage_coll_t *part;
} among_task_t;

/* The part's ranks tell each other which numbers they use, and whom they take for its ranks. */
static selvage_status_t agree_on_number(const among_task_t *call)
{
    selvage_coll_t *part = call->part;
    const size_t list_bytes = (size_t)call->count * sizeof *part->all.ranks;
    const uint64_t members = sv_digest_finish(0, sv_digest_sum(0, 0, part->all.ranks, list_bytes));
    uint64_t used = 0, *mine = &call->words[(size_t)part->all.me * SV_GATHER_WORDS];
    mine[WORD_MEMBERS] = members;
    mine[WORD_NUMBERS] = call->coll->arena->numbers_used;
    SV_TRY(sv_gather_words(&part->all, "selvage_coll_create_among", (uint64_t)call->count, SV_GATHER_WORDS,
                           call->words, part->comm->timeout_s));
    for (int r = 0; r < call->count; r++) {
        used |= word_of(call->words, r, WORD_NUMBERS);
        if (word_of(call->words, r, WORD_MEMBERS) != word_of(call->words, 0, WORD_MEMBERS))
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
        status = sv_calloc((size_t)call->count * SV_GATHER_WORDS, sizeof *call->words, &call->words);
    SV_TRY_GOTO(status, agree_on_memory(call, status), fail);
    for (int r = 0; r < call->count; r++)
        add_member(coll, call->ranks[r], part, r);
    SV_TRY_GOTO(status, agree_on_number(call), fail);
    sv_free(call->words);
    call->words = NULL;
    part->exact = coll->exact;
    part->host_waits = coll->host_waits;
    status = sv_coll_init(part, coll->arena);
    status = sv_gather_least(&part->all, "selvage_coll_create_among: end", part->number, status, &unused,
                             coll->comm->timeout_s);
    SV_TRY_GOTO(status, status, fail);
    status = sv_coll_handed_connect(part, &part->all, "selvage_coll_create_among: MPI", part->number);
    SV_TRY_GOTO(status, status, fail);
    return SELVAGE_SUCCESS;
fail:
    sv_free(call->words);
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
