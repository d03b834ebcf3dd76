/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks may send a rank long messages in fragments (drop_fragment.c): those that it has invited.
 *
 * A rank may be announced something only if it looks at all of its receives, which ranks do whose end of the fast
 * route is open (drop_fast.c). It tells a rank so that has sent it a long message as a whole, by a note: an invitation.
 * Nobody waits for one. It invites only ranks that have asked for that, by a note as well, when they first staged a
 * long message to it. Others have no use for it: what they send is in host memory.
 *
 * A rank that blocks in MPI without turns of the drop-in's reads no announcements. Between its receive and the end of
 * that call MPI itself would take a message to the receive, and a sender may wait for just that. So before such a call
 * a rank that has a receive open withdraws its invitations, by another note. A sender that waits for its receiver finds
 * the note. Its sends to that rank are then complete, as buffered ones are: the bytes are in staging memory, and in
 * MPI's hands. Later messages go as a whole, until the receiver invites again, after many of them. Calls between two
 * ranks and completion calls are driven by turns while such a receive is open, and need no note.
 *
 * A receive of fewer bytes than an announcement has gets MPI_ERR_TRUNCATE from MPI. Nobody reads that announcement. So
 * a rank that hears of such an error withdraws its invitations, too. What nobody has received is received at the end.
 *
 * Only with AUTO and one thread: another thread may be blocked in MPI while this one receives. The lock of requests
 * guards everything here. Notes are owned until they have gone.
 */
#include "interpose/drop_invite.h"
#include "interpose/drop_route.h"
#include "interpose/drop_table.h"

#include <stdlib.h>

/* Another rank. */
typedef struct peer {
    bool invites, invited;   /* it invites this rank; and the reverse */
    bool asks, asked;        /* it has asked this rank for an invitation; and the reverse */
    int notes;               /* to it, that it has not read */
    uint8_t withdrawals;     /* of this rank's */
    uint16_t whole;          /* long messages that have come from it as a whole since */
} peer_t;

typedef struct note {
    struct note *next;
    int to;
    MPI_Request request;
} note_t;

static struct {
    bool wanted;             /* alike on all ranks, between MPI_Init and MPI_Finalize */
    MPI_Comm comm;
    peer_t *with;            /* by rank of MPI_COMM_WORLD */
    note_t *under_way;
} invites;

_Atomic int sv_drop_invited;
_Atomic bool sv_drop_invited_ever;

bool sv_drop_may_invite(void)
{
    return invites.wanted;
}

bool sv_drop_is_long(int64_t count, MPI_Datatype type)
{
    MPI_Count bytes = 0;
    return invites.wanted && count > 0 && type != MPI_DATATYPE_NULL &&
           PMPI_Type_size_x(type, &bytes) == MPI_SUCCESS && bytes * count >= sv_drop_settings()->long_bytes;
}

/* --- notes -------------------------------------------------------------------------------------------------------- */

/* What notes say. They never change, as MPI reads them at any time. */
static const int withdrawal = 0, invitation = 1, question = 2;

bool sv_drop_notes_have_gone(void)
{
    for (note_t **at = &invites.under_way, *note = *at; note; note = *at) {
        int done = 1;
        if (PMPI_Test(&note->request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) {
            at = &note->next;
            continue;
        }
        *at = note->next;
        invites.with[note->to].notes--;
        free(note);
    }
    return invites.under_way == NULL;
}

/* It is synchronous, so that MPI_Finalize knows when all notes have come. */
static void send_note(int to, const int *says)
{
    note_t *note = malloc(sizeof *note);
    (void)sv_drop_notes_have_gone();
    if (!note || PMPI_Issend(says, 1, MPI_INT, to, SV_DROP_NOTE_TAG, invites.comm, &note->request) != MPI_SUCCESS)
        sv_drop_fatal("a message could not be sent", "a note about fragments");
    note->next = invites.under_way;
    note->to = to;
    invites.under_way = note;
    invites.with[to].notes++; /* partner: sv_drop_notes_have_gone() */
}

/* Reads what notes have come. */
static void read_notes_of_peers(void)
{
    MPI_Status status;
    int found = 0, note = 0;
    while (PMPI_Iprobe(MPI_ANY_SOURCE, SV_DROP_NOTE_TAG, invites.comm, &found, &status) == MPI_SUCCESS && found) {
        if (PMPI_Recv(&note, 1, MPI_INT, status.MPI_SOURCE, SV_DROP_NOTE_TAG, invites.comm, MPI_STATUS_IGNORE) !=
            MPI_SUCCESS)
            sv_drop_fatal("a message could not be received", "a note about fragments");
        if (note == question)
            invites.with[status.MPI_SOURCE].asks = true;
        else
            invites.with[status.MPI_SOURCE].invites = note == invitation;
    }
}

void sv_drop_ask_for_invitation(int rank)
{
    if (!invites.wanted || invites.with[rank].asked)
        return;
    invites.with[rank].asked = true;
    send_note(rank, &question);
}

/* Whether an invitation is of use to a rank: it has asked for one, and has read what it was told before. So what this
   rank tells one that sends nothing more from device memory is bounded. */
static bool is_listening(const peer_t *peer)
{
    if (!peer->asks)
        read_notes_of_peers();
    if (peer->asks && peer->notes > 0)
        (void)sv_drop_notes_have_gone();
    return peer->asks && peer->notes == 0;
}

bool sv_drop_is_invited_by(int rank, bool looks)
{
    if (!invites.wanted) /* in MPI_Finalize: what is under way goes on */
        return true;
    if (looks)
        read_notes_of_peers();
    return invites.with[rank].invites;
}

/* --- invitations -------------------------------------------------------------------------------------------------- */

static void drive_awaiting(sv_drop_op_t *op)
{
    if (op->fast.awaits)
        sv_drop_op_run(op);
}

void sv_drop_fragments_invite(const sv_drop_fast_t *state, int source, MPI_Count bytes)
{
    enum { ON_NODE = 4, AGAIN = 16, DOUBLES_MOST = 4 };
    if (!state->awaits || bytes < sv_drop_settings()->long_bytes || !invites.wanted || !sv_drop_fast_is_open())
        return;
    /* The program may have freed its communicator meanwhile. */
    const bool by_status = state->from == MPI_ANY_SOURCE && state->comm == MPI_COMM_WORLD;
    const int from = by_status ? source : state->from;
    if (from < 0 || from >= sv_drop_size(MPI_COMM_WORLD) || from == sv_drop_rank(MPI_COMM_WORLD) ||
        invites.with[from].invited || sv_drop_wireup_is_done(from) || !is_listening(&invites.with[from]))
        return;
    /* The first messages of a pair of one node may just be earlier than the fast route. */
    peer_t *peer = &invites.with[from];
    const int doubles = peer->withdrawals < DOUBLES_MOST ? peer->withdrawals : DOUBLES_MOST;
    if (++peer->whole < (doubles > 0 ? AGAIN << doubles : sv_drop_route.on_node[from] ? ON_NODE : 1))
        return;
    peer->invited = true;
    atomic_fetch_add_explicit(&sv_drop_invited, 1, memory_order_relaxed);
    if (!atomic_exchange_explicit(&sv_drop_invited_ever, true, memory_order_relaxed))
        sv_drop_table_visit(drive_awaiting);
    send_note(from, &invitation);
}

static void withdraw_invitation(int from)
{
    peer_t *peer = &invites.with[from];
    if (!peer->invited)
        return;
    peer->invited = false;
    peer->whole = 0;
    peer->withdrawals += peer->withdrawals < UINT8_MAX;
    atomic_fetch_sub_explicit(&sv_drop_invited, 1, memory_order_relaxed);
    send_note(from, &withdrawal);
}

static void withdraw_all(void)
{
    const int size = sv_drop_size(MPI_COMM_WORLD);
    for (int i = 0; i < size && atomic_load_explicit(&sv_drop_invited, memory_order_relaxed) > 0; i++)
        withdraw_invitation(i);
}

void sv_drop_fragments_block(void)
{
    if (!sv_drop_is_busy())
        return;
    sv_drop_progress(); /* of what has come already receives are posted, and MPI does the rest */
    sv_drop_lock();
    for (const sv_drop_op_t *op = sv_drop_op_first(); op; op = op->next) {
        if (!op->fast.awaits || op->fast.arrived)
            continue;
        if (op->fast.from >= 0)
            withdraw_invitation(op->fast.from);
        else
            withdraw_all();
    }
    sv_drop_unlock();
}

void sv_drop_fragments_fail(int code)
{
    int class = MPI_SUCCESS;
    PMPI_Error_class(code, &class);
    if (class != MPI_ERR_TRUNCATE && class != MPI_ERR_IN_STATUS)
        return;
    sv_drop_lock();
    withdraw_all();
    sv_drop_unlock();
}

/* --- receives that fragments may come to -------------------------------------------------------------------------- */

void sv_drop_fragments_await(sv_drop_fast_t *state, MPI_Comm comm, int source)
{
    if (!invites.wanted)
        return;
    if (!state->monitored || !sv_drop_is_long(state->count, state->type) || comm == sv_drop_route.own ||
        !sv_drop_is_inside(comm) || (source != MPI_ANY_SOURCE && (source < 0 || source >= sv_drop_size(comm))))
        return;
    state->from = source == MPI_ANY_SOURCE ? MPI_ANY_SOURCE : sv_drop_world_rank(comm, source);
    state->awaits = state->from != MPI_UNDEFINED;
}

bool sv_drop_fragments_may_come_to(int64_t count, MPI_Datatype type)
{
    return atomic_load_explicit(&sv_drop_invited_ever, memory_order_relaxed) && sv_drop_is_long(count, type);
}

/* --- beginning and end -------------------------------------------------------------------------------------------- */

MPI_Comm sv_drop_invites_begin(void)
{
    invites.wanted = !sv_drop_route.any_threads && sv_drop_settings()->long_bytes > SV_DROP_ANNOUNCE_BYTES;
    if (!invites.wanted)
        return MPI_COMM_NULL;
    invites.with = calloc((size_t)sv_drop_size(MPI_COMM_WORLD), sizeof *invites.with);
    if (!invites.with || PMPI_Comm_dup(sv_drop_route.own, &invites.comm) != MPI_SUCCESS)
        sv_drop_fatal("no communicator", "for messages in fragments");
    return invites.comm;
}

void sv_drop_invites_end(void)
{
    invites.wanted = false;
    atomic_store_explicit(&sv_drop_invited, 0, memory_order_relaxed);
    free(invites.with);
    invites.with = NULL;
}
