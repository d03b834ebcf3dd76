/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The channel of a communicator whose collective calls become messages (drop_pairs.c): a range of tags that no other
 * communicator has on any of its ranks, and from which of the communicator's calls on it is used.
 *
 * Two ranks may start calls on two communicators in different orders, and MPI may refuse a call on one of them, after
 * which that rank's next call is on another communicator. So messages of each communicator have tags of their own. A
 * rank may also have started some calls before the others have opened the route, which start theirs after that. So all
 * ranks must change from MPI's own calls to messages at the same call. They agree on it only in calls from which no
 * rank returns before all have entered them, as calls that do not block wait for nobody, and a communicator may be
 * freed before an answer comes:
 *
 *   - after a call of MPI_Barrier, MPI_Allreduce and its kin on the communicator, with the route open. All ranks have
 *     started the same calls then, and the next one is the first of messages. Here it gets its channel, if it has none;
 *   - after such a call on all ranks of the job, if the communicator has a channel already. There its ranks may be
 *     apart. Each counts its calls, and those that come after the greatest number are messages. One with neighbours
 *     gets its channel in the call that makes it, if all of its ranks may have device memory.
 *
 * Both ask at the 1st, 2nd, 4th, ... 64th, and then every 64th such call; all ranks of the job begin anew when they
 * have made a communicator together. It is a yes if any rank has given device memory to a call that could have been
 * messages. So host memory is MPI's own affair, as long as there is no other.
 *
 * Each rank proposes a number that no other one does, and that is greater than those of all channels it has been asked
 * about. The greatest is the channel's, so that each is used once, and what is asked in vain uses up none.
 *
 * MPI's rules order the calls of a communicator, and where a job has threads only MPI_COMM_WORLD is looked at. Nothing
 * is owned here: a tie (drop_tie.c) is in the list of those with a channel from then on until it is freed.
 */
#include "interpose/drop_channel.h"
#include "interpose/drop_agree.h"
#include "interpose/drop_route.h"

enum { OPEN, UNUSED, NUMBER, VALUES }; /* the least of each is taken: the last is below zero */

static struct {
    sv_drop_tie_t *first; /* of the ties with a channel */
    int64_t taken;        /* the greatest number that this rank knows, in units of the job's size */
    unsigned met;         /* calls on all ranks of the job since they have made one together */
} channels;

/* Whether the nth call asks. */
static bool asks_at(unsigned n)
{
    enum { OFTEN = 64 };
    return (n & (n - 1)) == 0 || n % OFTEN == 0;
}

static bool is_retired(void)
{
    return atomic_load_explicit(&sv_drop_route.retired, memory_order_relaxed);
}

bool sv_drop_channel_may_be(MPI_Comm comm)
{
    if (comm == MPI_COMM_NULL || is_retired() || !sv_drop_fast_is_in_order(comm))
        return false;
    const sv_drop_tie_t *tie = sv_drop_tie_find(comm);
    return (tie && tie->channel) || sv_drop_reaches(comm);
}

/* --- its number --------------------------------------------------------------------------------------------------- */

/* One that has this rank in it, and that no channel has. It is proposed again if nothing comes of it. */
static int64_t propose_channel(void)
{
    return (channels.taken + 1) * sv_drop_size(MPI_COMM_WORLD) + sv_drop_rank(MPI_COMM_WORLD);
}

/* All ranks of the communicator know what has been agreed on, the one that has proposed it among them. */
static void take_number(int64_t number)
{
    const int64_t units = number / sv_drop_size(MPI_COMM_WORLD);
    channels.taken = units > channels.taken ? units : channels.taken;
}

/* Numbers end where MPI's tags do. */
static bool is_beyond_tags(int64_t number)
{
    return (number + 1) * SV_DROP_CHANNEL_TAGS - 1 > sv_drop_route.tag_most;
}

int sv_drop_channel_number(MPI_Comm comm)
{
    int64_t number = -propose_channel();
    const int64_t own = -number;
    const bool good = sv_drop_fast_least(comm, &number, 1);
    take_number(good ? -number : own); /* others may have heard of it */
    return good && !is_beyond_tags(-number) ? (int)-number : 0;
}

/* A communicator without one is never asked about again. */
static void give_channel(sv_drop_tie_t *tie, int64_t number)
{
    take_number(number);
    tie->over = is_beyond_tags(number);
    if (tie->over || tie->channel)
        return;
    tie->channel = (int)number;
    tie->next = channels.first; /* partner: sv_drop_channel_end() */
    if (tie->next)
        tie->next->prev = tie;
    channels.first = tie;
}

void sv_drop_channel_end(sv_drop_tie_t *tie)
{
    if (!tie->channel)
        return;
    if (tie->next)
        tie->next->prev = tie->prev;
    *(tie->prev ? &tie->prev->next : &channels.first) = tie->next;
}

void sv_drop_channel_begin(MPI_Comm comm)
{
    int kind = MPI_UNDEFINED;
    if (comm == MPI_COMM_NULL || is_retired() || !sv_drop_fast_is_in_order(comm) || !sv_drop_is_inside(comm) ||
        PMPI_Topo_test(comm, &kind) != MPI_SUCCESS || kind == MPI_UNDEFINED)
        return;
    sv_drop_tie_t *tie = sv_drop_tie_of(comm);
    if (tie->over || tie->begun)
        return;
    tie->begun = true;
    const int64_t number = propose_channel();
    int64_t values[2] = {tie->nfrom >= 0 && sv_drop_may_have_device() && !sv_drop_route.refused, -number};
    if (!sv_drop_fast_least(comm, values, 2))
        take_number(number); /* others may have heard of it */
    else if (values[0])
        give_channel(tie, -values[1]);
    if (tie->everybody)
        channels.met = 0;
}

/* --- its first call ----------------------------------------------------------------------------------------------- */

static void meet_own(MPI_Comm comm)
{
    sv_drop_tie_t *tie = sv_drop_tie_of(comm);
    if (tie->over || !asks_at(++tie->met))
        return;
    int64_t values[VALUES];
    values[OPEN] = sv_drop_reaches(comm);
    values[UNUSED] = !tie->needs;
    values[NUMBER] = tie->channel ? -tie->channel : values[OPEN] ? -propose_channel() : 0;
    const int64_t number = -values[NUMBER];
    const bool good = sv_drop_fast_least(comm, values, VALUES);
    if (!good)
        take_number(number); /* others may have heard of it */
    if (!good || !values[OPEN] || values[UNUSED])
        return;
    give_channel(tie, -values[NUMBER]);
    if (tie->over)
        return;
    tie->first_call = tie->calls;
    tie->over = true;
}

/* The channel of a communicator that this rank has had a use for, the greatest, or 0. */
static int find_needed(void)
{
    int most = 0;
    for (const sv_drop_tie_t *tie = channels.first; tie; tie = tie->next)
        if (tie->needs && !tie->over && tie->channel > most)
            most = tie->channel;
    return most;
}

static sv_drop_tie_t *find_channel(int64_t number)
{
    sv_drop_tie_t *tie = channels.first;
    while (tie && tie->channel != number)
        tie = tie->next;
    return tie;
}

/* All ranks of the job are here, those of the communicator among them. One that has freed it makes no more calls on it,
   and then it is over for the others: they know from the sum how many still have it. */
static void meet_all(MPI_Comm comm)
{
    if (!asks_at(++channels.met))
        return;
    int64_t number = -find_needed();
    if (!sv_drop_fast_least(comm, &number, 1) || number == 0)
        return;
    sv_drop_tie_t *tie = find_channel(-number);
    int64_t having = tie != NULL, calls = tie ? -tie->calls : 0;
    const bool good = sv_drop_fast_combine(comm, &having, 1, MPI_SUM) && sv_drop_fast_least(comm, &calls, 1);
    /* MPI may have freed it meanwhile, as it may leave that to the end of calls in flight. */
    tie = find_channel(-number);
    if (!good || !tie)
        return;
    if (having == tie->n)
        tie->first_call = -calls;
    tie->over = true;
}

void sv_drop_channel_meet(MPI_Comm comm)
{
    if (is_retired() || !sv_drop_reaches(comm))
        return;
    meet_own(comm);
    if (sv_drop_tie_of(comm)->everybody)
        meet_all(comm);
}
