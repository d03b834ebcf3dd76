/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gathering by dissemination (Bruck, Ho, Kipnis, Upfal, Weathersby 1997): with `known` notes in hand, of itself and the
 * ranks above, a rank sends them to the rank `known` below and gets as many from the rank `known` above, so that
 * ceil(log2 n) rounds suffice for any n. Notes are kept in that order: entry i is of rank me + i.
 *
 * What agreements over the whole communicator do by control messages is done here over any set of its ranks, by
 * messages of the set-up channel. They are matched in order, so ranks need only make their calls in the same order. A
 * rank that cannot go on sends its last word to all who will ever wait for it: they read it in place of the next notes.
 *
 * Every note bears a check word of the rank that wrote it, and each message has its notes twice, so that what befalls
 * a part of it is mended without a word; notes of which no copy verifies are an error that names the sender.
 */
#include "collective/coll_gather.h"

#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "base/base_thread.h"
#include "kernels/kernels.h"
#include "pipeline/pipe_control.h"

enum { LAST_WORD = 1 }; /* in place of a call */
enum { COPIES = 2 };    /* of each note in a message: all of them, then all of them again */

/* One gathering under way. */
typedef struct gather {
    sv_coll_circle_t *circle;
    const char *what;
    double timeout_s;
    sv_wire_request_t in, out;
    bool in_open, out_open;
} gather_t;

selvage_status_t sv_coll_circle_init(sv_coll_circle_t *circle, selvage_comm_t *comm, int size)
{
    *circle = (sv_coll_circle_t){.comm = comm, .size = size};
    SV_TRY(sv_calloc((size_t)size, sizeof *circle->ranks, &circle->ranks));
    size_t most = ((size_t)size + 1) / 2; /* notes in a message; a last word is one */
    SV_TRY(sv_calloc((size_t)size, sizeof *circle->notes, &circle->notes));
    SV_TRY(sv_calloc((most + 1) * COPIES, sizeof *circle->out, &circle->out));
    return sv_calloc(most * COPIES, sizeof *circle->in, &circle->in);
}

void sv_coll_circle_fini(sv_coll_circle_t *circle)
{
    sv_free(circle->ranks);
    sv_free(circle->notes);
    if (!circle->set_aside) {
        sv_free(circle->out);
        sv_free(circle->in);
    }
    *circle = (sv_coll_circle_t){0};
}

sv_coll_note_t *sv_coll_note_begin(sv_coll_circle_t *circle)
{
    circle->notes[0] = (sv_coll_note_t){0};
    return &circle->notes[0];
}

const sv_coll_note_t *sv_coll_note_of(const sv_coll_circle_t *circle, int rank)
{
    return &circle->notes[rank >= circle->me ? rank - circle->me : rank - circle->me + circle->size];
}

static int rank_at(const sv_coll_circle_t *circle, int64_t distance)
{
    return circle->ranks[(circle->me + distance + circle->size) % circle->size];
}

static uint64_t check_note(const sv_coll_note_t *note, int rank)
{
    const uint64_t key = sv_digest_mix(note->nonce + sv_digest_mix((uint64_t)rank));
    return sv_digest_finish(key, sv_digest_sum(key, 0, note, offsetof(sv_coll_note_t, check)));
}

/* The first copy of a note of a rank that is there whole and verifies, or NULL. */
static const sv_coll_note_t *find_copy(const sv_coll_circle_t *circle, size_t at, size_t count, size_t arrived,
                                       int rank)
{
    for (; at < COPIES * count && (at + 1) * sizeof *circle->in <= arrived; at += count)
        if (circle->in[at].nonce == circle->comm->nonce && circle->in[at].check == check_note(&circle->in[at], rank))
            return &circle->in[at];
    return NULL;
}

/* Of a communicator that failed before this one was made, whose messages nobody has received: MPI may give the new one
   the old one's context. */
static bool is_of_another(const sv_coll_circle_t *circle, size_t arrived, int above)
{
    const sv_coll_note_t *note = circle->in;
    return arrived >= sizeof *note && note->nonce != circle->comm->nonce && note->check == check_note(note, above);
}

static uint64_t hash_call(const char *what, uint64_t key)
{
    uint64_t hash = sv_digest_mix(key + LAST_WORD + 1);
    for (const char *c = what; *c; c++)
        hash = sv_digest_mix(hash + (unsigned char)*c);
    return hash == LAST_WORD ? LAST_WORD + 1 : hash;
}

static selvage_status_t await(gather_t *g, sv_wire_request_t *request, bool *open, size_t *bytes_out, int peer)
{
    selvage_comm_t *comm = g->circle->comm;
    sv_deadline_t deadline;
    sv_deadline_begin(&deadline, comm, g->timeout_s);
    for (;;) {
        selvage_status_t status = sv_wire_test(comm->wire, request, bytes_out);
        *open = status != SELVAGE_SUCCESS;
        if (status != SELVAGE_IN_PROGRESS)
            return status;
        /* Partner: sv_coll_abort(). */
        if (g->circle->stop && __atomic_load_n(g->circle->stop, __ATOMIC_ACQUIRE))
            return sv_error_quiet(SELVAGE_ERR_ABORTED, "%s: aborted", g->what);
        int failed = -1;
        const selvage_status_t loss = sv_agree_loss(comm, &failed);
        if (g->circle->stop && loss != SELVAGE_SUCCESS) /* a call that moves data: who failed has failed in one, too */
            return sv_error(loss, "%s: rank %d has failed: %s", g->what, failed, selvage_status_string(loss));
        if (loss != SELVAGE_SUCCESS)
            return sv_error(SELVAGE_ERR_PEER, "%s: rank %d failed in another call", g->what, failed);
        status = sv_deadline_poll(&deadline);
        if (status == SELVAGE_ERR_TIMEOUT)
            return sv_error(status, "%s: no word from rank %d for %g s: it did not call it, or waits for another rank "
                            "itself", g->what, peer, g->timeout_s);
        SV_TRY(status);
    }
}

/* What has come in place of `count` notes, `known` ranks above. */
static selvage_status_t take_notes(gather_t *g, int64_t known, size_t count, size_t arrived)
{
    sv_coll_circle_t *circle = g->circle;
    const int above = rank_at(circle, known);
    const sv_coll_note_t *word = find_copy(circle, 0, 1, arrived, above);
    if (word && word->call == LAST_WORD) {
        const selvage_status_t status = sv_status_of_error(word->status);
        return sv_error(status, "%s failed on rank %d: %s", g->what, above, selvage_status_string(status));
    }
    for (size_t i = 0; i < count; i++) {
        const sv_coll_note_t *note = find_copy(circle, i, count, arrived, rank_at(circle, known + (int64_t)i));
        if (!note && arrived != COPIES * count * sizeof *note)
            return sv_error(SELVAGE_ERR_MISMATCH, "%s: rank %d is in another collective call", g->what, above);
        if (!note)
            return sv_error(SELVAGE_ERR_CHECKSUM, "%s: rank %d sent a note that does not verify", g->what, above);
        circle->notes[(size_t)known + i] = *note;
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t exchange_round(gather_t *g, int64_t known)
{
    sv_coll_circle_t *circle = g->circle;
    sv_wire_t *wire = circle->comm->wire;
    int above = rank_at(circle, known), below = rank_at(circle, -known);
    size_t count = (size_t)(known < circle->size - known ? known : circle->size - known);
    size_t bytes = COPIES * count * sizeof *circle->in, arrived = 0;
    for (size_t i = 0; i < COPIES * count; i++)
        circle->out[i] = circle->notes[i % count];
    SV_TRY(sv_wire_recv(wire, SV_WIRE_SETUP, circle->in, bytes, above, SV_COLL_SETUP_TAG, &g->in));
    g->in_open = true;
    SV_TRY(sv_wire_send(wire, SV_WIRE_SETUP, circle->out, bytes, below, SV_COLL_SETUP_TAG, &g->out));
    g->out_open = true;
    SV_TRY(await(g, &g->in, &g->in_open, &arrived, above));
    while (is_of_another(circle, arrived, above)) {
        SV_TRY(sv_wire_recv(wire, SV_WIRE_SETUP, circle->in, bytes, above, SV_COLL_SETUP_TAG, &g->in));
        g->in_open = true;
        SV_TRY(await(g, &g->in, &g->in_open, &arrived, above));
    }
    SV_TRY(take_notes(g, known, count, arrived));
    return await(g, &g->out, &g->out_open, NULL, below);
}

/* Tells all who will ever wait for this rank in this circle. Returns whether the wire is done with the memory. */
static bool send_last_words(sv_coll_circle_t *circle, selvage_status_t status)
{
    sv_wire_t *wire = circle->comm->wire;
    sv_coll_note_t *word = &circle->out[((size_t)circle->size + 1) / 2 * COPIES];
    bool quiet = true;
    for (int copy = 0; copy < COPIES; copy++) {
        word[copy] = (sv_coll_note_t){.call = LAST_WORD, .status = status, .nonce = circle->comm->nonce};
        word[copy].check = check_note(&word[copy], circle->ranks[circle->me]);
    }
    for (int64_t known = 1; known < circle->size; known *= 2) {
        sv_wire_request_t request;
        if (sv_wire_send(wire, SV_WIRE_SETUP, word, COPIES * sizeof *word, rank_at(circle, -known), SV_COLL_SETUP_TAG,
                         &request) == SELVAGE_SUCCESS)
            quiet &= sv_wire_test(wire, &request, NULL) == SELVAGE_SUCCESS;
    }
    return quiet;
}

/* Notes that the wire may still read or write are set aside; gatherings after it only send. */
static void give_up(gather_t *g, selvage_status_t status)
{
    sv_coll_circle_t *circle = g->circle;
    sv_wire_t *wire = circle->comm->wire;
    bool quiet = true;
    if (g->in_open)
        quiet &= sv_wire_cancel(wire, &g->in) == SELVAGE_SUCCESS;
    if (g->out_open)
        quiet &= sv_wire_test(wire, &g->out, NULL) == SELVAGE_SUCCESS;
    quiet &= send_last_words(circle, status);
    if (circle->comm->broken == SELVAGE_SUCCESS)
        circle->comm->broken = status;
    circle->set_aside |= !quiet;
}

/* What the notes say, alike on all ranks; a rank whose own error it is keeps its detail. */
static selvage_status_t judge(const sv_coll_circle_t *circle, const char *what, selvage_status_t own)
{
    for (int r = 0; r < circle->size; r++) {
        const int32_t word = sv_coll_note_of(circle, r)->status;
        if (word == SELVAGE_SUCCESS)
            continue;
        const selvage_status_t status = sv_status_of_error(word);
        if (r == circle->me || status == own)
            return status;
        return sv_error(status, "%s failed on rank %d: %s", what, circle->ranks[r], selvage_status_string(status));
    }
    for (int r = 1; r < circle->size; r++)
        if (sv_coll_note_of(circle, r)->call != sv_coll_note_of(circle, 0)->call)
            return sv_error(SELVAGE_ERR_MISMATCH, "%s: ranks %d and %d are in different collective calls, or on "
                            "different objects", what, circle->ranks[0], circle->ranks[r]);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_coll_gather(sv_coll_circle_t *circle, const char *what, uint64_t key, selvage_status_t status,
                                double timeout_s)
{
    gather_t g = {.circle = circle, .what = what, .timeout_s = timeout_s};
    selvage_status_t broken = circle->comm->broken;
    if (broken != SELVAGE_SUCCESS) {
        circle->set_aside |= !send_last_words(circle, broken);
        return status != SELVAGE_SUCCESS
                   ? status
                   : sv_error(broken, "%s: an earlier collective call failed on this communicator", what);
    }
    circle->notes->call = hash_call(what, key);
    circle->notes->status = status;
    circle->notes->nonce = circle->comm->nonce;
    circle->notes->check = check_note(circle->notes, circle->ranks[circle->me]);
    for (int64_t known = 1; known < circle->size; known *= 2) {
        selvage_status_t wire_status = exchange_round(&g, known);
        if (wire_status == SELVAGE_SUCCESS)
            continue;
        give_up(&g, wire_status);
        return status != SELVAGE_SUCCESS ? status : wire_status;
    }
    return judge(circle, what, status);
}

static void run_task(void *arg)
{
    sv_coll_task_t *task = arg;
    task->status = task->run(task);
    memcpy(task->detail, sv_thread_detail(), sizeof task->detail);
}

selvage_status_t sv_coll_task_run(selvage_comm_t *comm, sv_coll_task_t *task)
{
    sv_progress_call(&comm->progress, run_task, task);
    if (task->status != SELVAGE_SUCCESS)
        memcpy(sv_thread_detail(), task->detail, sizeof task->detail);
    return task->status;
}
