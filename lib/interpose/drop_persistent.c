/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Persistent collective calls on the fast route. At each start such a call is the same messages, or the same reduction,
 * as its form that does not block (drop_pairs.c, drop_reduce.c):
 *
 *   MPI_Allreduce_init   all ranks agree that it is messages, and on their tags; or else MPI makes it
 *   MPI_Start            the messages, on these tags; a request of theirs stands in the place of the program's
 *   MPI_Wait             that request ends, and the program's is inactive again
 *
 * Ranks may start their requests in any order. So each request has tags of its own. Calls that make requests come in
 * one order on all ranks of a communicator, and may wait for each other. So the ranks agree in them, and in no start:
 *
 *   - each rank can make messages of it, and some rank gives device memory; whatever memory the others give, the call
 *     is messages on all ranks then, and else MPI's own, on staged memory;
 *   - the tags are free on all ranks. They are out of ranges that the communicator's ranks have agreed on before, or a
 *     new range (drop_channel.c). Where there is none left, the call is MPI's own.
 *
 * A rank that has freed a request has made all of its starts. So messages on tags that are used again come after those
 * of the old request, and match in order.
 *
 * A call that MPI refuses on one rank comes to an agreement, too, and is MPI's own on the others. The next one of that
 * rank is theirs. So it comes to no agreement, and is MPI's own.
 *
 * The request that the program holds is MPI's own and never started: a send from this process to itself. Its operation
 * owns what is here. It is not one to nobody: MPICH 4.0 makes persistent collectives of freed requests, and such a
 * collective, if the request was one to nobody, never ends.
 *
 * The lock of requests guards ranges, which live as long as their communicator and the requests on their tags. MPI's
 * rules order the calls that make requests on a communicator.
 */
#include "interpose/drop_persistent.h"
#include "interpose/drop_channel.h"
#include "interpose/drop_probe.h"
#include "interpose/drop_route.h"

#include <stdlib.h>

enum { WORD_BITS = 64, WORDS = SV_DROP_CHANNEL_TAGS / WORD_BITS };
_Static_assert(1 + SV_DROP_RANGES * WORDS <= SV_DROP_VALUES, "what all ranks are asked at once");

/* Tags of persistent calls on one communicator. */
typedef struct sv_drop_range {
    int number, users; /* the communicator is one */
    uint64_t used[WORDS];
} range_t;

struct sv_drop_persistent {
    sv_drop_starts_t starts;
    MPI_Comm comm;
    range_t *range;
    int at, width; /* of its tags in the range */
};

/* What ranks say of a call; of all together holds what each says. */
enum { CAN = 1, HOST_ONLY = 2 };

/* --- tags --------------------------------------------------------------------------------------------------------- */

/* Partner: release_range(). */
static range_t *make_range(int number)
{
    range_t *range = calloc(1, sizeof *range);
    if (!range)
        sv_drop_fatal("no memory", "for a communicator");
    range->number = number;
    range->users = 1;
    return range;
}

static void release_range(range_t *range)
{
    if (--range->users == 0)
        free(range);
}

static uint64_t bit_of(int at)
{
    return UINT64_C(1) << at % WORD_BITS;
}

/* Where so many tags in a row are free on all ranks; -1: nowhere. */
static int find_free_tags(const int64_t *open, int width)
{
    for (int at = 0, row = 0; at < SV_DROP_CHANNEL_TAGS; at++) {
        row = (uint64_t)open[at / WORD_BITS] & bit_of(at) ? row + 1 : 0;
        if (row == width)
            return at + 1 - width;
    }
    return -1;
}

static void mark_tags(const sv_drop_persistent_t *made, bool used)
{
    for (int at = made->at; at < made->at + made->width; at++) {
        uint64_t *word = &made->range->used[at / WORD_BITS];
        *word = used ? *word | bit_of(at) : *word & ~bit_of(at);
    }
}

/* Finds tags in the communicator's ranges, whose tags that all ranks have free are here, or in a new one. All ranks
   find the same. */
static bool find_tags(MPI_Comm comm, sv_drop_tie_t *tie, const int64_t *open, sv_drop_persistent_t *made)
{
    made->width = tie->grid && tie->nfrom > 1 ? tie->nfrom : 1; /* of a grid, one for each side */
    for (int i = 0; i < tie->nranges; i++) {
        made->range = tie->range[i];
        made->at = find_free_tags(open + (ptrdiff_t)i * WORDS, made->width);
        if (made->at >= 0)
            return true;
    }
    const int number = tie->nranges < SV_DROP_RANGES ? sv_drop_channel_number(comm) : 0;
    if (number == 0)
        return false;
    made->range = tie->range[tie->nranges++] = make_range(number);
    made->at = 0;
    return true;
}

/* --- agreements --------------------------------------------------------------------------------------------------- */

bool sv_drop_persistent_may_be(MPI_Comm comm)
{
    return sv_drop_pairs_wanted && comm != MPI_COMM_NULL &&
           !atomic_load_explicit(&sv_drop_route.retired, memory_order_relaxed) && sv_drop_fast_is_in_order(comm) &&
           sv_drop_is_inside(comm) && sv_drop_tie_of(comm)->of_job;
}

/* What all ranks say, and which tags of each range are free on all of them, take the place of what this one says. */
static bool ask_all_ranks(MPI_Comm comm, const sv_drop_tie_t *tie, int64_t says, int64_t *values)
{
    values[0] = says;
    sv_drop_flush_and_block();
    sv_drop_lock();
    for (int i = 0; i < tie->nranges; i++)
        for (int j = 0; j < WORDS; j++)
            values[1 + i * WORDS + j] = (int64_t)~tie->range[i]->used[j];
    sv_drop_unlock();
    return sv_drop_fast_combine(comm, values, 1 + tie->nranges * WORDS, MPI_BAND);
}

/* Whether all ranks make messages of the call; then its tags are found. */
static bool agree_on_messages(bool device, sv_drop_persistent_t *made)
{
    int64_t values[SV_DROP_VALUES];
    sv_drop_tie_t *tie = sv_drop_tie_of(made->comm);
    const bool owed = tie->owes, can = made->starts.state && !sv_drop_route.refused;
    tie->owes = false;
    return !owed && ask_all_ranks(made->comm, tie, (can ? CAN : 0) | (device ? 0 : HOST_ONLY), values) &&
           values[0] == CAN && find_tags(made->comm, tie, values + 1, made);
}

int sv_drop_persistent_refused(MPI_Comm comm, int code)
{
    int class = MPI_SUCCESS;
    PMPI_Error_class(code, &class);
    if (class != MPI_ERR_COMM && sv_drop_persistent_may_be(comm))
        sv_drop_tie_of(comm)->owes = true;
    return code;
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static void keep_made(sv_drop_persistent_t *made, const char *name, MPI_Request *request)
{
    const sv_drop_call_t call = {.name = name};
    MPI_Request handle = MPI_REQUEST_NULL;
    if (PMPI_Send_init(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_SELF, &handle) != MPI_SUCCESS)
        sv_drop_fatal("MPI_Send_init", "to this process has failed");
    sv_drop_request_keep(&call, NULL, handle, false, request);
    sv_drop_op_t *op = sv_drop_op_find(*request);
    op->collective = made; /* partner: sv_drop_persistent_end(), with the operation's end */
    sv_drop_op_release(op);
}

bool sv_drop_persistent_make(const char *name, MPI_Comm comm, bool device, const sv_drop_starts_t *starts,
                             MPI_Request *request)
{
    sv_drop_persistent_t found = {.starts = *starts, .comm = comm};
    if (!agree_on_messages(device, &found)) {
        if (starts->state)
            starts->end(starts->state);
        return false;
    }
    sv_drop_persistent_t *made = malloc(sizeof *made); /* partner: sv_drop_persistent_end() */
    if (!made)
        sv_drop_fatal("no memory", name);
    *made = found;
    sv_drop_lock();
    made->range->users++;
    mark_tags(made, true);
    sv_drop_unlock();
    keep_made(made, name, request);
    return true;
}

bool sv_drop_persistent_start(sv_drop_op_t *op)
{
    const sv_drop_persistent_t *made = op->collective;
    if (!made)
        return false;
    const int tag = made->range->number * SV_DROP_CHANNEL_TAGS + made->at;
    sv_drop_given_begin(op, made->starts.begin(made->starts.state, tag, made->comm, &op->instead));
    return true;
}

void sv_drop_persistent_end(sv_drop_persistent_t *made)
{
    if (!made)
        return;
    made->starts.end(made->starts.state);
    mark_tags(made, false);
    release_range(made->range);
    free(made);
}

void sv_drop_persistent_orphan(sv_drop_persistent_t *made, MPI_Comm comm)
{
    if (made && made->comm == comm)
        made->comm = MPI_COMM_WORLD;
}

void sv_drop_persistent_leave(sv_drop_tie_t *tie)
{
    sv_drop_lock();
    for (int i = 0; i < tie->nranges; i++)
        release_range(tie->range[i]);
    sv_drop_unlock();
}
