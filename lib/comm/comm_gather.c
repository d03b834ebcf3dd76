/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gathering by dissemination (Bruck, Ho, Kipnis, Upfal, Weathersby 1997). A rank has `known` items, of itself and the
 * ranks above. It sends them to the rank `known` below, and gets as many from the rank `known` above. So ceil(log2 n)
 * rounds suffice for any n. Items are kept in that order: entry i is of rank me + i.
 *
 * Agreements over the whole communicator go by control messages. This goes over any set of its ranks, by messages of
 * the set-up channel. They are matched in order, so ranks need only make their calls in the same order. A rank that
 * cannot go on sends its last word to all who will ever wait for it, who read it in place of the next items.
 *
 * Words are gathered the same way, for whole communicators, where items would take much memory. A message of these has
 * an item that says what they are; a rank that passes words on vouches for them.
 *
 * Every item bears a check word of the rank that wrote it, and each message has its items twice. So a partly damaged
 * message is mended without asking. If no copy of an item verifies, the error names the sender.
 */
#include "comm/comm_gather.h"

#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "comm/comm_control.h"
#include "kernels/kernels.h"

enum { LAST_WORD = 1 }; /* in place of a call */
enum { COPIES = 2 };    /* of each item in a message: all of them, then all of them again */
enum { MOST_ITEMS = 8 }; /* of a message, but for copies: what a team keeps for messages does not grow with its ranks */

/* Items in a message of whatever call, but for copies. */
static size_t count_most(const sv_team_t *team)
{
    const size_t half = ((size_t)team->size + 1) / 2;
    return half < MOST_ITEMS ? half : MOST_ITEMS;
}

selvage_status_t sv_team_init_resting(sv_team_t *team, selvage_comm_t *comm, int size)
{
    *team = (sv_team_t){.comm = comm, .size = size};
    const size_t most = count_most(team);
    SV_TRY(sv_calloc((size_t)size, sizeof *team->ranks, &team->ranks));
    SV_TRY(sv_calloc((most + 2) * COPIES, sizeof *team->out, &team->out)); /* a last word is one, too */
    return sv_calloc((most + 1) * COPIES, sizeof *team->in, &team->in);
}

selvage_status_t sv_team_init(sv_team_t *team, selvage_comm_t *comm, int size)
{
    SV_TRY(sv_team_init_resting(team, comm, size));
    return sv_team_wake(team);
}

selvage_status_t sv_team_wake(sv_team_t *team)
{
    return team->items ? SELVAGE_SUCCESS : sv_calloc((size_t)team->size, sizeof *team->items, &team->items);
}

void sv_team_fini(sv_team_t *team)
{
    sv_free(team->ranks);
    sv_free(team->items);
    if (!team->set_aside) {
        sv_free(team->out);
        sv_free(team->in);
    }
    *team = (sv_team_t){0};
}

sv_gather_item_t *sv_gather_item_begin(sv_team_t *team)
{
    team->items[0] = (sv_gather_item_t){0};
    return &team->items[0];
}

const sv_gather_item_t *sv_gather_item_of(const sv_team_t *team, int rank)
{
    return &team->items[rank >= team->me ? rank - team->me : rank - team->me + team->size];
}

static int rank_at(const sv_team_t *team, int64_t distance)
{
    return team->ranks[(team->me + distance + team->size) % team->size];
}

static uint64_t check_item(const sv_gather_item_t *item, int rank)
{
    const uint64_t key = sv_digest_mix(item->nonce + sv_digest_mix((uint64_t)rank));
    return sv_digest_finish(key, sv_digest_sum(key, 0, item, offsetof(sv_gather_item_t, check)));
}

/* The first copy of an item of a rank that is there whole and verifies, or NULL. */
static const sv_gather_item_t *find_copy(const sv_team_t *team, size_t at, size_t count, size_t arrived, int rank)
{
    for (; at < COPIES * count && (at + 1) * sizeof *team->in <= arrived; at += count)
        if (team->in[at].nonce == team->comm->nonce && team->in[at].check == check_item(&team->in[at], rank))
            return &team->in[at];
    return NULL;
}

/* Whether a message is through; IN_PROGRESS as long as it may still be waited for. */
static selvage_status_t test_message(sv_gather_round_t *g, sv_wire_request_t *request, bool *open, size_t *bytes_out,
                                     int peer)
{
    selvage_comm_t *comm = g->team->comm;
    selvage_status_t status = sv_wire_test(comm->wire, request, bytes_out);
    *open = status != SELVAGE_SUCCESS;
    if (status != SELVAGE_IN_PROGRESS)
        return status;
    /* Partner: sv_coll_abort(). */
    if (g->team->stop && __atomic_load_n(g->team->stop, __ATOMIC_ACQUIRE))
        return sv_error_quiet(SELVAGE_ERR_ABORTED, "%s: aborted", g->what);
    int failed = -1;
    const selvage_status_t loss = sv_agree_loss(comm, &failed);
    if (g->team->stop && loss != SELVAGE_SUCCESS) /* a call that moves data: who failed has failed in one, too */
        return sv_error(loss, "%s: rank %d has failed: %s", g->what, failed, selvage_status_string(loss));
    if (loss != SELVAGE_SUCCESS)
        return sv_error(SELVAGE_ERR_PEER, "%s: rank %d failed in another call", g->what, failed);
    if (g->is_over)
        return sv_error(SELVAGE_ERR_TIMEOUT, "%s: no word from rank %d for %g s: it did not call it, or waits for "
                        "another rank itself", g->what, peer, g->timeout_s);
    return comm->broken == SELVAGE_SUCCESS ? SELVAGE_IN_PROGRESS : comm->broken;
}

static size_t room_bytes(const sv_team_t *team) /* for whatever call a message is in */
{
    return (count_most(team) + 1) * COPIES * sizeof *team->in;
}

static selvage_status_t post_items(sv_gather_round_t *g)
{
    sv_team_t *team = g->team;
    SV_TRY(sv_wire_recv(team->comm->wire, SV_WIRE_SETUP, team->in, room_bytes(team), rank_at(team, g->known),
                        SV_GATHER_TAG, &g->in));
    g->in_open = true;
    return SELVAGE_SUCCESS;
}

/* Sends what is in the message to the rank `known` below, and will get as much from the rank `known` above. */
static selvage_status_t swap_messages(sv_gather_round_t *g, size_t bytes)
{
    const sv_team_t *team = g->team;
    g->taken = false;
    SV_TRY(post_items(g));
    SV_TRY(sv_wire_send(team->comm->wire, SV_WIRE_SETUP, team->out, bytes, rank_at(team, -g->known), SV_GATHER_TAG,
                        &g->out));
    g->out_open = true;
    return SELVAGE_SUCCESS;
}

/* Begins a round, of these items. */
static selvage_status_t begin_round(sv_gather_round_t *g, const sv_gather_item_t *items, size_t count)
{
    for (size_t i = 0; i < COPIES * count; i++)
        g->team->out[i] = items[i % count];
    return swap_messages(g, COPIES * count * sizeof *items);
}

/* A message of a communicator that failed before this one was made, which nobody has received. MPI may have given this
   one the other's context. */
static bool is_of_another(const sv_team_t *team, size_t arrived, int source)
{
    return arrived >= sizeof *team->in && team->in->nonce != team->comm->nonce &&
           team->in->check == check_item(team->in, source);
}

/* A last word in place of what is wanted. */
static selvage_status_t check_last_word(const sv_gather_round_t *g, size_t arrived)
{
    const int above = rank_at(g->team, g->known);
    const sv_gather_item_t *word = find_copy(g->team, 0, 1, arrived, above);
    if (!word || word->call != LAST_WORD)
        return SELVAGE_SUCCESS;
    const selvage_status_t status = sv_status_of_error(word->status);
    return sv_error(status, "%s failed on rank %d: %s", g->what, above, selvage_status_string(status));
}

/* What has come. */
static selvage_status_t take_items(sv_gather_round_t *g, size_t arrived, size_t count, int64_t authors,
                                   sv_gather_item_t *items_out)
{
    const sv_team_t *team = g->team;
    const int above = rank_at(team, g->known);
    SV_TRY(check_last_word(g, arrived));
    for (size_t i = 0; i < count; i++) {
        const int author = authors ? rank_at(team, authors + (int64_t)i) : above;
        const sv_gather_item_t *item = find_copy(team, i, count, arrived, author);
        if (!item && arrived != COPIES * count * sizeof *team->in)
            return sv_error(SELVAGE_ERR_MISMATCH, "%s: rank %d is in another collective call", g->what, above);
        if (!item)
            return sv_error(SELVAGE_ERR_CHECKSUM, "%s: rank %d sent a note that does not verify", g->what, above);
        items_out[i] = *item;
    }
    g->taken = true;
    return SELVAGE_SUCCESS;
}

/* --- words -------------------------------------------------------------------------------------------------------- */

static size_t words_bytes(const sv_gather_round_t *g, size_t count)
{
    return count * g->width * sizeof *g->words;
}

/* The words of the rank so far above. */
static uint64_t *words_at(const sv_gather_round_t *g, int64_t distance)
{
    return g->words + (uint64_t)((g->team->me + distance) % g->team->size) * g->width;
}

static uint64_t digest_words(const sv_gather_round_t *g, const void *words, size_t count, int sender)
{
    const uint64_t key = sv_digest_mix(g->team->comm->nonce + sv_digest_mix(~(uint64_t)sender));
    return sv_digest_finish(key, sv_digest_sum(key, 0, words, words_bytes(g, count)));
}

/* An item that says what follows, and the words of so many ranks from the one `at` above on; all of it twice. */
static size_t write_words(sv_gather_round_t *g, int64_t at, size_t count)
{
    const sv_team_t *team = g->team;
    sv_gather_item_t item = {.nonce = team->comm->nonce, .call = g->item.call, .value = {count, g->width}};
    uint8_t *const message = (uint8_t *)team->out, *const words = message + sizeof item;
    const size_t bytes = sizeof item + words_bytes(g, count);
    for (size_t i = 0; i < count; i++)
        memcpy(words + words_bytes(g, i), words_at(g, at + (int64_t)i), words_bytes(g, 1));
    item.value[2] = digest_words(g, words, count, team->ranks[team->me]);
    item.check = check_item(&item, team->ranks[team->me]);
    memcpy(message, &item, sizeof item);
    for (size_t copy = 1; copy < COPIES; copy++)
        memcpy(message + copy * bytes, message, bytes);
    return COPIES * bytes;
}

/* The first copy that verifies; the words of so many ranks from the one `authors` above on. */
static selvage_status_t take_words(sv_gather_round_t *g, size_t arrived, size_t count, int64_t authors)
{
    const sv_team_t *team = g->team;
    const int above = rank_at(team, g->known);
    const size_t bytes = sizeof *team->in + words_bytes(g, count);
    SV_TRY(check_last_word(g, arrived));
    for (size_t copy = 0; copy < COPIES && (copy + 1) * bytes <= arrived; copy++) {
        const uint8_t *message = (const uint8_t *)team->in + copy * bytes;
        sv_gather_item_t item;
        memcpy(&item, message, sizeof item);
        if (item.nonce != team->comm->nonce || item.check != check_item(&item, above))
            continue;
        if (item.call != g->item.call || item.value[0] != count || item.value[1] != g->width)
            return sv_error(SELVAGE_ERR_MISMATCH, "%s: rank %d is in another collective call", g->what, above);
        if (item.value[2] != digest_words(g, message + sizeof item, count, above))
            continue;
        for (size_t i = 0; i < count; i++)
            memcpy(words_at(g, authors + (int64_t)i), message + sizeof item + words_bytes(g, i), words_bytes(g, 1));
        g->taken = true;
        return SELVAGE_SUCCESS;
    }
    if (arrived != COPIES * bytes)
        return sv_error(SELVAGE_ERR_MISMATCH, "%s: rank %d is in another collective call", g->what, above);
    return sv_error(SELVAGE_ERR_CHECKSUM, "%s: rank %d sent words that do not verify", g->what, above);
}

/* --- rounds ------------------------------------------------------------------------------------------------------- */

/* A turn of a round. Item i that comes was written by the rank authors + i above; if authors is 0, all by the rank that
   sends them. */
static selvage_status_t step_round(sv_gather_round_t *g, size_t count, int64_t authors, sv_gather_item_t *items_out)
{
    if (!g->taken) {
        const int above = rank_at(g->team, g->known);
        size_t arrived = 0;
        SV_TRY(test_message(g, &g->in, &g->in_open, &arrived, above));
        if (is_of_another(g->team, arrived, above)) {
            SV_TRY(post_items(g));
            return SELVAGE_IN_PROGRESS;
        }
        SV_TRY(g->words ? take_words(g, arrived, count, authors)
                        : take_items(g, arrived, count, authors, items_out));
    }
    return test_message(g, &g->out, &g->out_open, NULL, rank_at(g->team, -g->known));
}

/* Waits for the end of a round. authors: as step_round() has it. */
static selvage_status_t finish_round(sv_gather_round_t *g, size_t count, int64_t authors, sv_gather_item_t *items_out)
{
    sv_deadline_t deadline;
    bool taken = false;
    sv_deadline_begin(&deadline, g->team->comm, g->timeout_s);
    for (;;) {
        const selvage_status_t status = step_round(g, count, authors, items_out);
        if (status != SELVAGE_IN_PROGRESS)
            return status;
        if (g->taken != taken)
            sv_deadline_begin(&deadline, g->team->comm, g->timeout_s);
        taken = g->taken;
        g->is_over = sv_deadline_poll(&deadline) == SELVAGE_ERR_TIMEOUT; /* the next turn says so */
    }
}

/* A message each way, of as many items. */
static selvage_status_t exchange_message(sv_gather_round_t *g, const sv_gather_item_t *items, size_t count,
                                         int64_t authors, sv_gather_item_t *items_out)
{
    SV_TRY(begin_round(g, items, count));
    return finish_round(g, count, authors, items_out);
}

/* All words of a round, in messages that have room for those of so many ranks. */
static selvage_status_t exchange_words(sv_gather_round_t *g, size_t count)
{
    const size_t most = count_most(g->team) * sizeof(sv_gather_item_t) / words_bytes(g, 1);
    for (size_t at = 0; at < count; at += most) {
        const size_t now = count - at < most ? count - at : most;
        SV_TRY(swap_messages(g, write_words(g, (int64_t)at, now)));
        SV_TRY(finish_round(g, now, g->known + (int64_t)at, NULL));
    }
    return SELVAGE_SUCCESS;
}

/* All items of a round, which is as many messages each way on all ranks. */
static selvage_status_t exchange_items(sv_gather_round_t *g, const sv_gather_item_t *items, size_t count,
                                       int64_t authors, sv_gather_item_t *items_out)
{
    const size_t most = count_most(g->team);
    for (size_t at = 0; at < count; at += most)
        SV_TRY(exchange_message(g, items + at, count - at < most ? count - at : most, authors + (int64_t)at,
                                items_out + at));
    return SELVAGE_SUCCESS;
}

/* Tells all who will ever wait for this rank in this team. Returns whether the wire is done with the memory. */
static bool send_abort_item(sv_team_t *team, selvage_status_t status)
{
    sv_wire_t *wire = team->comm->wire;
    sv_gather_item_t *word = &team->out[(count_most(team) + 1) * COPIES];
    bool drained = true;
    for (int copy = 0; copy < COPIES; copy++) {
        word[copy] = (sv_gather_item_t){.call = LAST_WORD, .status = status, .nonce = team->comm->nonce};
        word[copy].check = check_item(&word[copy], team->ranks[team->me]);
    }
    for (int64_t known = 1; known < team->size; known *= 2) {
        sv_wire_request_t request;
        if (sv_wire_send(wire, SV_WIRE_SETUP, word, COPIES * sizeof *word, rank_at(team, -known), SV_GATHER_TAG,
                         &request) == SELVAGE_SUCCESS)
            drained &= sv_wire_test(wire, &request, NULL) == SELVAGE_SUCCESS;
    }
    return drained;
}

/* Sets items aside that the wire may still read or write. Gatherings after that only send. */
static void abort_gather(sv_gather_round_t *g, selvage_status_t status)
{
    sv_team_t *team = g->team;
    sv_wire_t *wire = team->comm->wire;
    bool drained = true;
    sv_comm_break(team->comm, status); /* before another detail comes in place of the failure's */
    if (g->in_open)
        drained &= sv_wire_cancel(wire, &g->in) == SELVAGE_SUCCESS;
    if (g->out_open)
        drained &= sv_wire_test(wire, &g->out, NULL) == SELVAGE_SUCCESS;
    drained &= send_abort_item(team, status);
    team->set_aside |= !drained;
}

/* An earlier call has broken the communicator: tells the others, and says so. */
static selvage_status_t refuse_gather(sv_team_t *team, const char *what, selvage_status_t status)
{
    const selvage_status_t broken = team->comm->broken;
    team->set_aside |= !send_abort_item(team, broken);
    return status != SELVAGE_SUCCESS
               ? status
               : sv_error(broken, "%s: an earlier collective call failed on this communicator: %s", what,
                          sv_comm_broken_text(team->comm));
}

static void seal_item(const sv_team_t *team, sv_gather_item_t *item, const char *what, uint64_t key)
{
    const uint64_t hash = sv_agree_hash(what, key + LAST_WORD);
    item->call = hash == LAST_WORD ? LAST_WORD + 1 : hash;
    item->nonce = team->comm->nonce;
    item->check = check_item(item, team->ranks[team->me]);
}

selvage_status_t sv_gather(sv_team_t *team, const char *what, uint64_t key, selvage_status_t status,
                           double timeout_s)
{
    sv_gather_round_t g = {.team = team, .what = what, .timeout_s = timeout_s};
    if (team->comm->broken != SELVAGE_SUCCESS)
        return refuse_gather(team, what, status);
    team->items->status = status;
    seal_item(team, team->items, what, key);
    for (int64_t known = 1; known < team->size; known *= 2) {
        /* `known` items are in hand, and afterwards twice as many, or all. */
        const size_t count = (size_t)(known < team->size - known ? known : team->size - known);
        g.known = known;
        selvage_status_t wire_status = exchange_items(&g, team->items, count, known, &team->items[known]);
        if (wire_status == SELVAGE_SUCCESS)
            continue;
        abort_gather(&g, wire_status);
        return status != SELVAGE_SUCCESS ? status : wire_status;
    }
    /* What the items say is alike on all ranks. A rank whose own error it is keeps its detail. */
    for (int r = 0; r < team->size; r++) {
        const int32_t word = sv_gather_item_of(team, r)->status;
        if (word == SELVAGE_SUCCESS)
            continue;
        const selvage_status_t failure = sv_status_of_error(word);
        if (r == team->me || failure == status)
            return failure;
        return sv_error(failure, "%s failed on rank %d: %s", what, team->ranks[r], selvage_status_string(failure));
    }
    for (int r = 1; r < team->size; r++)
        if (sv_gather_item_of(team, r)->call != sv_gather_item_of(team, 0)->call)
            return sv_error(SELVAGE_ERR_MISMATCH, "%s: ranks %d and %d are in different collective calls, or on "
                            "different objects", what, team->ranks[0], team->ranks[r]);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_gather_words(sv_team_t *team, const char *what, uint64_t key, unsigned width, uint64_t *words,
                                 double timeout_s)
{
    sv_gather_round_t g = {.team = team, .what = what, .timeout_s = timeout_s, .words = words, .width = width};
    if (team->comm->broken != SELVAGE_SUCCESS)
        return refuse_gather(team, what, SELVAGE_SUCCESS);
    seal_item(team, &g.item, what, key);
    for (g.known = 1; g.known < team->size; g.known *= 2) {
        const int64_t left = team->size - g.known;
        const selvage_status_t status = exchange_words(&g, (size_t)(g.known < left ? g.known : left));
        if (status == SELVAGE_SUCCESS)
            continue;
        abort_gather(&g, status);
        return status;
    }
    return SELVAGE_SUCCESS;
}

/* Ranks are in different calls: they cannot go on together. */
static selvage_status_t check_gather_call(const sv_gather_round_t *g)
{
    if (g->other.call == g->item.call)
        return SELVAGE_SUCCESS;
    return sv_error(SELVAGE_ERR_MISMATCH, "%s: rank %d is in another collective call", g->what,
                    rank_at(g->team, g->known));
}

enum { LEAST, MOST, FAILED = MOST }; /* of a comparison's item; of that of a least: the lowest rank with an error */

selvage_status_t sv_gather_least(sv_team_t *team, const char *what, uint64_t key, selvage_status_t status,
                                 uint64_t *value, double timeout_s)
{
    sv_gather_round_t g = {.team = team, .what = what, .timeout_s = timeout_s};
    uint64_t *mine = g.item.value, *other = g.other.value;
    if (team->comm->broken != SELVAGE_SUCCESS)
        return refuse_gather(team, what, status);
    mine[LEAST] = *value;
    mine[FAILED] = status == SELVAGE_SUCCESS ? UINT64_MAX : (uint64_t)team->me << 8 | (uint64_t)-status;
    for (g.known = 1; g.known < team->size; g.known *= 2) {
        seal_item(team, &g.item, what, key);
        selvage_status_t wire_status = exchange_message(&g, &g.item, 1, 0, &g.other);
        if (wire_status == SELVAGE_SUCCESS)
            wire_status = check_gather_call(&g);
        if (wire_status != SELVAGE_SUCCESS) {
            abort_gather(&g, wire_status);
            return status != SELVAGE_SUCCESS ? status : wire_status;
        }
        for (int i = LEAST; i <= FAILED; i++)
            mine[i] = other[i] < mine[i] ? other[i] : mine[i];
    }
    *value = mine[LEAST];
    if (mine[FAILED] == UINT64_MAX)
        return SELVAGE_SUCCESS;
    const selvage_status_t failure = sv_control_status(mine[FAILED]);
    const int rank = (int)(mine[FAILED] >> 8);
    if (rank == team->me || failure == status)
        return failure;
    return sv_error(failure, "%s failed on rank %d: %s", what, team->ranks[rank], selvage_status_string(failure));
}

void sv_gather_compare_begin(sv_gather_round_t *round, sv_team_t *team, const char *what, uint64_t key, uint64_t digest,
                             double timeout_s)
{
    *round = (sv_gather_round_t){.team = team, .what = what, .key = key, .timeout_s = timeout_s, .known = 1,
                                 .item.value = {[LEAST] = digest, [MOST] = digest}};
}

/* A turn of a comparison's round, which is begun if it was not. */
static selvage_status_t step_comparison(sv_gather_round_t *round)
{
    if (!round->in_open && !round->out_open) {
        seal_item(round->team, &round->item, round->what, round->key);
        SV_TRY(begin_round(round, &round->item, 1));
    }
    SV_TRY(step_round(round, 1, 0, &round->other));
    return check_gather_call(round);
}

selvage_status_t sv_gather_compare_step(sv_gather_round_t *round, bool is_over, bool *same_out)
{
    sv_gather_item_t *item = &round->item;
    round->is_over = is_over;
    const sv_gather_item_t *other = &round->other;
    if (round->team->comm->broken != SELVAGE_SUCCESS && !round->in_open && !round->out_open)
        return refuse_gather(round->team, round->what, SELVAGE_SUCCESS);
    for (; round->known < round->team->size; round->known *= 2) {
        const selvage_status_t status = step_comparison(round);
        if (status == SELVAGE_IN_PROGRESS)
            return status;
        if (status != SELVAGE_SUCCESS) {
            abort_gather(round, status);
            return status;
        }
        if (other->value[LEAST] < item->value[LEAST])
            item->value[LEAST] = other->value[LEAST];
        if (other->value[MOST] > item->value[MOST])
            item->value[MOST] = other->value[MOST];
    }
    *same_out = item->value[LEAST] == item->value[MOST];
    return SELVAGE_SUCCESS;
}
