/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commit by neighbours only: the words between them. Nothing here goes to a rank that has no packet to or from this
 * one.
 *
 * Every rank counts its own commits of this kind. The number goes with the announcement of a handshake and with every
 * word after it, and no number comes twice. So two commits of one pair are told apart by either number, and commits of
 * other ranks never meet them. A rank is in one commit at a time, so that of each neighbour only the last announcement
 * counts; it is kept until this rank commits something that names the neighbour. Descriptors travel once each end has
 * the other's announcement, so none is left behind by a neighbour that never comes.
 *
 * Two commits belong together if they have the same turn: each end counts those that name the other. Else one that
 * fails at once at one end, and the next there, would be taken for each other at the end that comes late. A rank that
 * gives up waiting for one which has not come does not count that turn: it is as if it had not come itself. One that
 * comes just then takes back that it has met it, and waits for it to come again.
 *
 * Then stages follow one another. A rank says each stage to all its peers, and goes on when all of them have said it.
 * A word is repeated until it is acknowledged, a few times and at growing intervals, as in an agreement of all ranks.
 * Who has said READY and heard it of all does not stay for long to repeat it. So a rank that still waits for it asks,
 * by repeating its own: a word that comes again is answered by the same stage, if that was not acknowledged. And who
 * announces its next commit says which was the last that it has completed with this rank, so that READY and LEFT are
 * known even if they were lost.
 *
 * A rank that fails says LEFT to its peers, also to those that have not come yet, and they fail in turn; so an error
 * travels through the neighbourhood as far as ranks are still in the commit. To a rank that has completed it before, it
 * is what a neighbour's failure in the first epoch would be. Engine thread.
 */
#include "base/base_clock.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "comm/comm_control.h"
#include "pipeline/neighbor_table.h"
#include "pipeline/pipe_commit.h"
#include "pipeline/pipe_phases.h"

enum { REPEATS_MAX = 10, REPEATS_AT_END = 6 };

#define FIRST_REPEAT_NS UINT64_C(5000000) /* then twice as long each time */

/* How long a rank that fails waits for those that may have mapped its memory to let go. */
static const double LEAVE_TIMEOUT_S = 2.0;

/* --- what comes --------------------------------------------------------------------------------------------------- */

/* A peer has left. If this rank has the exchange already, that is the exchange's first error. */
static void note_lost(selvage_exchange_t *x, sv_peer_t *peer, selvage_status_t status)
{
    if (peer->talk.lost != SELVAGE_SUCCESS)
        return;
    peer->talk.lost = status;
    if (x->committed)
        sv_exchange_poison(x, sv_error_quiet(SELVAGE_ERR_PEER, "rank %d failed to commit the exchange that this rank "
                                             "has committed: %s", peer->rank, selvage_status_string(status)), true);
}

static sv_wire_control_t stage_word(const selvage_exchange_t *x, const sv_peer_t *peer, unsigned stage)
{
    return (sv_wire_control_t){.word = {SV_CONTROL_NEIGHBOR, x->number, peer->number, stage,
                                        peer->talk.said_value[stage], peer->talk.turn}};
}

/* Whether a word that was said is to be said again, if it is asked for. Who has left has nothing else to say. */
static bool still_holds(const sv_peer_t *peer, unsigned stage)
{
    return peer->talk.said[stage] && (!peer->talk.said[SV_STAGE_LEFT] || stage == SV_STAGE_LEFT);
}

/* The peer of an exchange that knows it by that number; number 0 says that any will do. Of several the last commit. */
static sv_peer_t *find_talking(selvage_comm_t *comm, int source, uint64_t theirs, uint64_t ours,
                               selvage_exchange_t **x_out)
{
    const sv_neighbor_t *neighbor = sv_neighbor_find(&comm->exchanges->neighbors, source);
    if (!neighbor)
        return NULL;
    for (const sv_list_t *it = neighbor->pairs.next; it != &neighbor->pairs; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, pair_link);
        if ((ours && peer->x->number != ours) || (theirs && peer->number != theirs))
            continue;
        *x_out = peer->x;
        return peer;
    }
    return NULL;
}

/* A peer that had given up waiting for this rank when it was met. It knows nothing of this rank's commit, and sends
   nothing in that of its own. What went to it will do for its next. */
static void unmeet_peer(const selvage_exchange_t *x, sv_peer_t *peer)
{
    if (!peer->handshake_known || sv_wire_cancel(x->comm->wire, &peer->handshake_in_request) == SELVAGE_SUCCESS)
        sv_free(peer->handshake_in); /* else the wire may write it still: it is left alone */
    peer->handshake_in = NULL;
    peer->handshake_known = false;
    peer->number = 0;
    peer->descriptor_requests = 0;
}

/* The peer that leaves: of the commit under way also one that this rank has not met, if it says that it has met this
   rank. */
static sv_peer_t *find_leaving(selvage_comm_t *comm, int source, uint64_t theirs, uint64_t ours,
                               selvage_exchange_t **x_out)
{
    sv_peer_t *peer = find_talking(comm, source, theirs, 0, x_out);
    if (peer || !ours)
        return peer;
    peer = find_talking(comm, source, 0, ours, x_out);
    if (!peer || peer->number)
        return NULL;
    peer->number = theirs;
    return peer;
}

/* Of a commit that this rank has not taken up. The last one counts: a rank that begins another has ended the one
   before. */
static selvage_status_t keep_announced(selvage_comm_t *comm, int source, const sv_neighbor_t *said)
{
    sv_neighbor_t *neighbor;
    SV_TRY(sv_neighbor_make(&comm->exchanges->neighbors, source, &neighbor));
    const bool is_end = said->number == neighbor->number && neighbor->pending && said->left != SELVAGE_SUCCESS;
    if (said->number <= neighbor->number && !is_end)
        return SELVAGE_SUCCESS; /* said again */
    neighbor->number = said->number;
    neighbor->turn = said->turn;
    neighbor->bytes = said->bytes;
    neighbor->left = said->left;
    /* One that waited in vain is like one that never came: the next commit here may be meant for its next. */
    neighbor->pending = said->left != SELVAGE_ERR_TIMEOUT;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_neighbors_take_handshake(selvage_comm_t *comm, int source, const sv_wire_control_t *message)
{
    const uint64_t number = message->word[1], completed = message->word[3], turn = message->word[4];
    selvage_exchange_t *x = comm->exchanges->committing;
    sv_peer_t *peer = x && x->neighbors ? sv_exchange_peer(x, source) : NULL;
    if (peer && peer->number && peer->number < number) { /* it is in this commit no more, one way or the other */
        if (turn == peer->talk.turn && !peer->setup_received)
            unmeet_peer(x, peer);
        else if (completed == peer->number)
            peer->talk.heard[SV_STAGE_READY] = true;
        else
            note_lost(x, peer, SELVAGE_ERR_PEER);
    }
    return keep_announced(comm, source, &(sv_neighbor_t){.number = number, .turn = turn, .bytes = message->word[2]});
}

selvage_status_t sv_neighbors_take_word(selvage_comm_t *comm, int source, const sv_wire_control_t *message)
{
    const uint64_t theirs = message->word[1], ours = message->word[2], stage = message->word[3];
    const bool leaves = stage == SV_STAGE_LEFT;
    selvage_exchange_t *x;
    const bool gone = ours != 0 && !find_talking(comm, source, 0, ours, &x);
    /* If there is no room for it now, the word comes again and gets another one. */
    sv_wire_control_t received = {.word = {SV_CONTROL_NEIGHBOR_ACK, theirs, stage, gone}};
    (void)sv_wire_control_send(comm->wire, source, &received);
    if (stage >= SV_STAGES || !(theirs & SV_NEIGHBOR_NUMBER))
        return SELVAGE_SUCCESS;
    const selvage_status_t left = leaves ? sv_control_status(message->word[4]) : SELVAGE_SUCCESS;
    sv_peer_t *peer = leaves ? find_leaving(comm, source, theirs, ours, &x)
                             : find_talking(comm, source, theirs, ours, &x);
    if (!peer)
        return leaves ? keep_announced(comm, source, &(sv_neighbor_t){.number = theirs, .turn = message->word[5],
                                                                      .left = left})
                      : SELVAGE_SUCCESS;
    /* If this rank leaves, too, its own word has gone, which has met the peer there: the turn counts on both. */
    if (left == SELVAGE_ERR_TIMEOUT && !ours && !peer->setup_received && !peer->talk.said[SV_STAGE_LEFT] &&
        x == comm->exchanges->committing) {
        unmeet_peer(x, peer);
        return SELVAGE_SUCCESS;
    }
    const bool asks = peer->talk.heard[stage]; /* or the acknowledgement was lost */
    peer->talk.heard[stage] = true;
    peer->talk.heard_value[stage] = message->word[4];
    if (leaves)
        note_lost(x, peer, left);
    if (asks && still_holds(peer, (unsigned)stage) && !peer->talk.acked[stage]) {
        sv_wire_control_t answer = stage_word(x, peer, (unsigned)stage);
        (void)sv_wire_control_send(comm->wire, source, &answer); /* no room: it asks again */
    }
    return SELVAGE_SUCCESS;
}

void sv_neighbors_take_ack(selvage_comm_t *comm, int source, const sv_wire_control_t *message)
{
    selvage_exchange_t *x;
    const uint64_t ours = message->word[1], stage = message->word[2];
    sv_peer_t *peer = ours & SV_NEIGHBOR_NUMBER ? find_talking(comm, source, 0, ours, &x) : NULL;
    if (!peer || stage >= SV_STAGES)
        return;
    peer->talk.acked[stage] = true;
    if (!message->word[3])
        return;
    /* The peer has the exchange no more, and word of why was lost. */
    if (stage == SV_STAGE_PARTED)
        peer->talk.heard[SV_STAGE_PARTED] = true;
    else if (x == comm->exchanges->committing)
        note_lost(x, peer, SELVAGE_ERR_PEER);
}

const sv_peer_t *sv_neighbors_lost(const selvage_exchange_t *x)
{
    for (const sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        const sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (peer->talk.lost != SELVAGE_SUCCESS)
            return peer;
    }
    return NULL;
}

static selvage_status_t report_lost(const sv_peer_t *peer)
{
    return sv_error(peer->talk.lost, "selvage_exchange_commit failed on rank %d, a neighbour: %s", peer->rank,
                    selvage_status_string(peer->talk.lost));
}

/* --- what goes ---------------------------------------------------------------------------------------------------- */

static void begin_neighbor_repeats(selvage_exchange_t *x)
{
    x->repeats = 0;
    x->repeat_ns = sv_clock_ns() + FIRST_REPEAT_NS;
}

static sv_wire_control_t announce_to_neighbor(const selvage_exchange_t *x, const sv_peer_t *peer)
{
    return (sv_wire_control_t){.word = {SV_CONTROL_HANDSHAKE, x->number, peer->handshake_out_bytes,
                                        peer->talk.completed, peer->talk.turn}};
}

/* The number of the last commit with a rank that this one has completed, of those not destroyed; 0: none. */
static uint64_t last_completed(const selvage_comm_t *comm, int rank)
{
    const sv_neighbor_t *neighbor = sv_neighbor_find(&comm->exchanges->neighbors, rank);
    for (const sv_list_t *it = neighbor ? neighbor->pairs.next : NULL; it && it != &neighbor->pairs; it = it->next) {
        const sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, pair_link);
        if (peer->x->committed)
            return peer->x->number;
    }
    return 0;
}

selvage_status_t sv_neighbors_say(selvage_exchange_t *x, sv_peer_t *peer, sv_neighbor_stage_t stage)
{
    const sv_wire_control_t message = stage_word(x, peer, stage);
    begin_neighbor_repeats(x);
    peer->talk.said[stage] = true;
    return sv_control_send_wait(x->comm, peer->rank, &message);
}

static selvage_status_t say_stage(selvage_exchange_t *x, sv_neighbor_stage_t stage)
{
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next)
        SV_TRY(sv_neighbors_say(x, SV_CONTAINER_OF(it, sv_peer_t, link), stage));
    return SELVAGE_SUCCESS;
}

/* The last word to all peers, whatever happens to that to one of them. After an error nobody is waited for: it is
   repeated. */
static selvage_status_t say_goodbye(selvage_exchange_t *x, sv_neighbor_stage_t stage)
{
    selvage_status_t status = SELVAGE_SUCCESS;
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        sv_wire_control_t message = stage_word(x, peer, stage);
        if (status == SELVAGE_SUCCESS) {
            status = sv_neighbors_say(x, peer, stage);
            continue;
        }
        peer->talk.said[stage] = true;
        (void)sv_wire_control_send(x->comm->wire, peer->rank, &message);
    }
    return status;
}

/* Whether a peer may be through with the exchange and repeat nothing any more, though its word was lost. */
static bool must_ask(const sv_peer_t *peer, unsigned stage)
{
    return (stage == SV_STAGE_READY || stage == SV_STAGE_PARTED) && !peer->talk.heard[stage];
}

/* Says again what a peer has not acknowledged or answered. A full wire is no error: the next time will do. */
static void repeat_to_peer(const selvage_exchange_t *x, const sv_peer_t *peer)
{
    if (peer->talk.announced && !peer->handshake_acked && !peer->talk.said[SV_STAGE_LEFT]) {
        sv_wire_control_t message = announce_to_neighbor(x, peer);
        (void)sv_wire_control_send(x->comm->wire, peer->rank, &message);
    }
    for (unsigned stage = 0; stage < SV_STAGES; stage++) {
        sv_wire_control_t message = stage_word(x, peer, stage);
        if (still_holds(peer, stage) && (!peer->talk.acked[stage] || must_ask(peer, stage)))
            (void)sv_wire_control_send(x->comm->wire, peer->rank, &message);
    }
}

void sv_neighbors_repeat(selvage_exchange_t *x)
{
    if (x->repeats >= REPEATS_MAX || sv_clock_ns() < x->repeat_ns)
        return;
    x->repeat_ns = sv_clock_ns() + (FIRST_REPEAT_NS << ++x->repeats);
    for (const sv_list_t *it = x->peers.next; it != &x->peers; it = it->next)
        repeat_to_peer(x, SV_CONTAINER_OF(it, sv_peer_t, link));
}

/* One turn of a wait for peers. The time of other exchanges' progress counts, too: it is no progress of this one. */
static selvage_status_t wait_for_peers(selvage_exchange_t *x, sv_deadline_t *deadline, uint64_t begin_ns)
{
    sv_neighbors_repeat(x);
    const selvage_status_t status = sv_deadline_poll(deadline);
    const bool over = deadline->timeout_s > 0 && (double)(sv_clock_ns() - begin_ns) > deadline->timeout_s * 1e9;
    return status == SELVAGE_SUCCESS && over ? SELVAGE_ERR_TIMEOUT : status;
}

/* A rank with all that it needs stays until its own words have arrived, since nobody else repeats them; but a few
   repeats only, because acknowledgements may be lost as well. */
static void await_stage_acks(selvage_exchange_t *x, sv_neighbor_stage_t stage)
{
    sv_deadline_t deadline;
    const uint64_t begin_ns = sv_clock_ns();
    sv_deadline_begin(&deadline, x->comm, LEAVE_TIMEOUT_S);
    for (const sv_list_t *it = x->peers.next; it != &x->peers;) {
        const sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (peer->talk.acked[stage] || peer->talk.heard[SV_STAGE_LEFT] || x->repeats >= REPEATS_AT_END)
            it = it->next;
        else if (wait_for_peers(x, &deadline, begin_ns) != SELVAGE_SUCCESS)
            return;
    }
}

/* --- the steps ---------------------------------------------------------------------------------------------------- */

/* Takes up what a peer has announced, and sends it what was announced to it. */
static selvage_status_t meet_peer(selvage_exchange_t *x, sv_peer_t *peer, bool *through_out)
{
    sv_neighbor_t *neighbor = peer->number ? NULL : sv_neighbor_find(&x->comm->exchanges->neighbors, peer->rank);
    *through_out = false;
    if (neighbor && neighbor->turn > peer->talk.turn) { /* it has failed in this one, and word of that is overtaken */
        note_lost(x, peer, SELVAGE_ERR_PEER);
    } else if (neighbor && neighbor->pending && neighbor->turn == peer->talk.turn) {
        neighbor->pending = false;
        peer->number = neighbor->number;
        peer->talk.lost = neighbor->left;
        peer->talk.heard[SV_STAGE_LEFT] = neighbor->left != SELVAGE_SUCCESS;
        if (neighbor->left == SELVAGE_SUCCESS) {
            SV_TRY(sv_commit_accept_handshake(x, peer, neighbor->number, neighbor->bytes));
            if (!peer->handshake_sent)
                SV_TRY(sv_commit_send_descriptors(x, peer));
        }
    }
    if (peer->talk.lost != SELVAGE_SUCCESS)
        return report_lost(peer);
    return peer->number ? sv_commit_test_descriptors(x, peer, through_out) : SELVAGE_SUCCESS;
}

selvage_status_t sv_neighbors_begin_turns(selvage_exchange_t *x)
{
    selvage_status_t first = SELVAGE_SUCCESS;
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        sv_neighbor_t *neighbor;
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        const selvage_status_t status = sv_neighbor_make(&x->comm->exchanges->neighbors, peer->rank, &neighbor);
        if (status == SELVAGE_SUCCESS) { /* the others are told of a failure, and their answers are looked for */
            sv_neighbor_add_pair(neighbor, peer);
            peer->talk.turn = neighbor->turns_here + 1;
        } else if (first == SELVAGE_SUCCESS) {
            first = status;
        }
    }
    return first;
}

void sv_neighbors_end_turns(selvage_exchange_t *x, selvage_status_t status)
{
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        const sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        sv_neighbor_t *neighbor = sv_neighbor_find(&x->comm->exchanges->neighbors, peer->rank);
        const bool in_vain = status == SELVAGE_ERR_TIMEOUT && peer->number == 0;
        if (neighbor && !in_vain)
            neighbor->turns_here = peer->talk.turn;
    }
}

static selvage_status_t report_absent(const selvage_exchange_t *x, const sv_peer_t *peer)
{
    if (peer->number)
        return sv_error(SELVAGE_ERR_TIMEOUT, "selvage_exchange_commit: the packet list to or from rank %d did not get "
                        "through in %g s", peer->rank, x->comm->timeout_s);
    return sv_error(SELVAGE_ERR_TIMEOUT, "selvage_exchange_commit: rank %d has not come for %g s: it did not commit an "
                    "exchange of neighbours with packets for or from this rank, which declares %u sends to and %u "
                    "receives from it", peer->rank, x->comm->timeout_s, peer->nsends, peer->nrecvs);
}

selvage_status_t sv_neighbors_meet(selvage_exchange_t *x)
{
    const uint64_t begin_ns = sv_clock_ns();
    sv_deadline_t deadline;
    begin_neighbor_repeats(x);
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        SV_TRY(sv_commit_write_descriptors(x, peer));
        peer->talk.completed = last_completed(x->comm, peer->rank);
        const sv_wire_control_t message = announce_to_neighbor(x, peer);
        peer->talk.announced = true;
        SV_TRY(sv_control_send_wait(x->comm, peer->rank, &message));
    }
    sv_deadline_begin(&deadline, x->comm, x->comm->timeout_s);
    for (;;) {
        const sv_peer_t *absent = NULL;
        for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
            bool through;
            sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
            SV_TRY(meet_peer(x, peer, &through));
            absent = through || absent ? absent : peer;
        }
        if (!absent)
            return SELVAGE_SUCCESS;
        const selvage_status_t status = wait_for_peers(x, &deadline, begin_ns);
        if (status == SELVAGE_ERR_TIMEOUT)
            return report_absent(x, absent);
        SV_TRY(status);
    }
}

static const sv_peer_t *silent_peer(const selvage_exchange_t *x, sv_neighbor_stage_t stage)
{
    for (const sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        const sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (!peer->talk.heard[stage] && !peer->talk.heard[SV_STAGE_LEFT])
            return peer;
    }
    return NULL;
}

selvage_status_t sv_neighbors_agree(selvage_exchange_t *x, sv_neighbor_stage_t stage)
{
    const uint64_t begin_ns = sv_clock_ns();
    sv_deadline_t deadline;
    if (sv_neighbors_lost(x))
        return report_lost(sv_neighbors_lost(x));
    SV_TRY(say_stage(x, stage));
    sv_deadline_begin(&deadline, x->comm, x->comm->timeout_s);
    for (const sv_peer_t *silent; (silent = silent_peer(x, stage)) != NULL && !sv_neighbors_lost(x);) {
        const selvage_status_t status = wait_for_peers(x, &deadline, begin_ns);
        if (status == SELVAGE_ERR_TIMEOUT)
            return sv_error(status, "selvage_exchange_commit: no word from rank %d, a neighbour, for %g s",
                            silent->rank, x->comm->timeout_s);
        SV_TRY(status);
    }
    if (stage == SV_STAGE_READY && !sv_neighbors_lost(x))
        await_stage_acks(x, stage);
    return sv_neighbors_lost(x) ? report_lost(sv_neighbors_lost(x)) : SELVAGE_SUCCESS;
}

/* A peer that has this rank's descriptors may map memory here until it has said that it left, too. To be given up for
   lost is not enough. */
static const sv_peer_t *holding_peer(const selvage_exchange_t *x)
{
    for (const sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        const sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (peer->handshake_sent && !peer->talk.heard[SV_STAGE_LEFT])
            return peer;
    }
    return NULL;
}

void sv_neighbors_leave(selvage_exchange_t *x, selvage_status_t status)
{
    const uint64_t begin_ns = sv_clock_ns();
    bool may_be_complete = false; /* at a peer, which begins an epoch then */
    sv_deadline_t deadline;
    for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        may_be_complete |= peer->talk.said[SV_STAGE_READY];
        peer->talk.said_value[SV_STAGE_LEFT] = (uint64_t)-(int)status;
    }
    (void)say_goodbye(x, SV_STAGE_LEFT);
    await_stage_acks(x, SV_STAGE_LEFT);
    sv_deadline_begin(&deadline, x->comm, LEAVE_TIMEOUT_S);
    while (holding_peer(x) && !may_be_complete)
        if (wait_for_peers(x, &deadline, begin_ns) != SELVAGE_SUCCESS)
            break;
    x->failure.quarantined |= holding_peer(x) != NULL;
}

selvage_status_t sv_neighbors_part(selvage_exchange_t *x, double timeout_s)
{
    const uint64_t begin_ns = sv_clock_ns();
    sv_deadline_t deadline;
    SV_TRY(say_goodbye(x, SV_STAGE_PARTED));
    sv_deadline_begin(&deadline, x->comm, timeout_s);
    for (const sv_peer_t *silent; (silent = silent_peer(x, SV_STAGE_PARTED)) != NULL;) {
        const selvage_status_t status = wait_for_peers(x, &deadline, begin_ns);
        if (status == SELVAGE_ERR_TIMEOUT)
            return sv_error(status, "selvage_exchange_destroy: rank %d, a neighbour, has not destroyed its exchange "
                            "for %g s", silent->rank, timeout_s);
        SV_TRY(status);
    }
    await_stage_acks(x, SV_STAGE_PARTED);
    return SELVAGE_SUCCESS;
}
