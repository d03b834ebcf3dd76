/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchanges that neighbours commit without other ranks, when words between them are late or lost: commits that follow
 * each other faster than the slowest neighbour hears of them; last words that never come, though who said them does
 * something else already; neighbours that come later than a probe of the direct route may take; so many commits that
 * tags are used again.
 */
#include <stdatomic.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "comm/comm_control.h"
#include "pipeline/exchange_set.h"
#include "pipeline/pipe_commit.h"
#include "fixtures/check.h"
#include "fixtures/fixture_exchange.h"
#include "wire/wire.h"

static const selvage_exchange_params_t by_neighbors = {SELVAGE_EXCHANGE_PARAMS_INIT,
                                                       .scope = SELVAGE_SCOPE_NEIGHBORS};

/* Both ways between each of so many ranks and the next one. */
static plan_t chain_of(int ranks, size_t bytes, uint64_t seed)
{
    plan_t plan = {.seed = seed};
    for (int i = 0; i + 1 < ranks; i++) {
        plan_add(&plan, i, i + 1, 0, bytes);
        plan_add(&plan, i + 1, i, 0, bytes);
    }
    return plan;
}

static void run_epoch(fixture_t *fixture)
{
    CHECK_STATUS(fixture_start(fixture, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_wait(fixture->ex, NULL), SELVAGE_SUCCESS);
    CHECK_EQ(fixture_wrong(fixture, true), 0);
}

static void check_says(const char *text)
{
    const bool said = strstr(selvage_error_detail(), text) != NULL;
    CHECK(said);
    if (!said)
        fprintf(stderr, "\"%s\" is not in \"%s\"\n", text, selvage_error_detail());
}

/* Of a leak sanitizer, if there is one: what this thread allocates in between is meant to stay. */
extern void __lsan_disable(void) __attribute__((weak));
extern void __lsan_enable(void) __attribute__((weak));

static void let_leak(bool begin)
{
    if (begin && __lsan_disable)
        __lsan_disable();
    if (!begin && __lsan_enable)
        __lsan_enable();
}

/* --- a rank's words on their way ---------------------------------------------------------------------------------- */

/* What happens to words of one stage to one rank, or of all stages to all ranks. */
typedef enum fate { GOES, IS_LATE, IS_LOST, IS_LOST_ONCE, FAILS_ONCE, ENDS_PATIENCE } fate_t;

enum { ANY = -1, LOST_ONE_IN = 6 };
static _Thread_local struct {
    sv_wire_ops_t watched;
    const sv_wire_ops_t *real;
    selvage_comm_t *comm;
    fate_t fate;
    int stage, peer;
    uint64_t commit;           /* of this number only, unless 0 */
    unsigned failed;           /* stages that have, as bits; or words that were lost */
    bool looked;               /* for messages, just now */
    uint64_t state;
} words;

static _Atomic bool seen; /* descriptors have left rank 0, or rank 1 has announced its second commit */
static _Atomic bool met;  /* descriptors have left rank 1, which knows then that rank 0 has come */

static bool is_of_commit(const sv_wire_control_t *message)
{
    const uint64_t type = message->word[0];
    return type == SV_CONTROL_HANDSHAKE || type == SV_CONTROL_HANDSHAKE_ACK || type == SV_CONTROL_NEIGHBOR ||
           type == SV_CONTROL_NEIGHBOR_ACK;
}

static bool is_chosen(int peer, const sv_wire_control_t *message)
{
    if (words.stage == ANY)
        return is_of_commit(message) && local_ranks_random(&words.state, LOST_ONE_IN) == 0;
    return message->word[0] == SV_CONTROL_NEIGHBOR && message->word[3] == (uint64_t)words.stage &&
           (words.peer == ANY || words.peer == peer) && (!words.commit || words.commit == message->word[1]);
}

static selvage_status_t send_watched(sv_wire_t *wire, int peer, sv_wire_control_t *message)
{
    if (message->word[0] == SV_CONTROL_HANDSHAKE && message->word[1] == (SV_NEIGHBOR_NUMBER | 2))
        atomic_store(&seen, true);
    if (words.fate == FAILS_ONCE && message->word[0] == SV_CONTROL_NEIGHBOR && peer == words.peer &&
        message->word[3] >= (uint64_t)words.stage && !(words.failed & 1u << message->word[3])) {
        words.failed |= 1u << message->word[3];
        return sv_error(SELVAGE_ERR_SYSTEM, "a word is refused by the test");
    }
    if (words.fate != GOES && words.fate != FAILS_ONCE && is_chosen(peer, message)) {
        if (words.fate == IS_LOST || (words.fate == IS_LOST_ONCE && !words.failed++))
            return SELVAGE_SUCCESS;
        if (words.fate == IS_LATE)
            usleep(100000);
        if (words.fate == ENDS_PATIENCE)
            words.comm->timeout_s = 0.5; /* nothing else drives it */
    }
    return words.real->control_send(wire, peer, message);
}

static selvage_status_t send_descriptors(sv_wire_t *wire, sv_wire_channel_t channel, const void *buf, size_t bytes,
                                         int peer, int tag, sv_wire_request_t *request_out)
{
    if (channel == SV_WIRE_SETUP && wire->rank < 2)
        atomic_store(wire->rank == 0 ? &seen : &met, true);
    return words.real->send(wire, channel, buf, bytes, peer, tag, request_out);
}

/* One message in two looks, so that whoever looks does something between any two messages. */
static selvage_status_t poll_one(sv_wire_t *wire, int *source_out, sv_wire_control_t *message_out)
{
    words.looked = !words.looked;
    return words.looked ? words.real->control_poll(wire, source_out, message_out) : SELVAGE_IN_PROGRESS;
}

/* Partner: forget_words(). */
static void watch_words(local_rank_t *self, fate_t fate, int stage, int peer)
{
    sv_wire_t *wire = self->comm->wire;
    words.real = wire->ops;
    words.watched = *wire->ops;
    words.watched.control_send = send_watched;
    words.watched.send = send_descriptors;
    words.comm = self->comm;
    words.fate = fate;
    words.stage = stage;
    words.peer = peer;
    words.commit = 0;
    words.failed = 0;
    words.state = (uint64_t)self->rank + 1;
    wire->ops = &words.watched;
}

static void forget_words(local_rank_t *self)
{
    self->comm->wire->ops = words.real;
}

/* --- commits that follow each other ------------------------------------------------------------------------------- */

/* Two exchanges in a row, then epochs of both. An end of the chain begins the second while others are in the first. */
static void commit_two(local_rank_t *self, uint64_t round)
{
    const plan_t plan = chain_of(self->size, 4000, 5 + round), again = chain_of(self->size, 4000, 1005 + round);
    fixture_t first, second;
    CHECK(fixture_open(&first, self, &plan, &by_neighbors));
    CHECK(fixture_open(&second, self, &again, &by_neighbors));
    CHECK_STATUS(selvage_exchange_commit(first.ex), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_commit(second.ex), SELVAGE_SUCCESS);
    run_epoch(&first);
    run_epoch(&second);
    run_epoch(&first);
    fixture_close(&second);
    fixture_close(&first);
}

/* The last rank is slow to say that it is ready: its neighbour waits for it while the other end is through. */
static void commit_after_slow(local_rank_t *self)
{
    if (self->rank == self->size - 1)
        watch_words(self, IS_LATE, SV_STAGE_READY, ANY);
    for (uint64_t round = 0; round < 3; round++)
        commit_two(self, round);
    if (self->rank == self->size - 1)
        forget_words(self);
}

static void commit_in_a_row(local_rank_t *self)
{
    const bool with_losses = *(const bool *)self->arg;
    const uint64_t rounds = (uint64_t)check_part(with_losses ? 20 : 300);
    watch_words(self, with_losses ? IS_LOST : GOES, ANY, ANY);
    for (uint64_t round = 0; round < rounds && atomic_load(&check_failed_) == 0; round++)
        commit_two(self, round);
    forget_words(self);
}

/* Pairs with and without all ranks, until tags have been given out again many times. None is left in use. */
static void commit_many(local_rank_t *self)
{
    enum { COMMITS = 600, TAG_MAX = 63 };
    sv_exchange_set_t *set = self->comm->exchanges;
    self->comm->wire->tag_max = TAG_MAX;
    for (uint64_t n = 0; n < (uint64_t)check_part(COMMITS) && atomic_load(&check_failed_) == 0; n++) {
        const plan_t plan = chain_of(2, 64, n);
        fixture_t own, shared;
        CHECK(fixture_open(&own, self, &plan, &by_neighbors));
        CHECK_STATUS(selvage_exchange_commit(own.ex), SELVAGE_SUCCESS);
        if (n % 3 == 0) {
            CHECK(fixture_open(&shared, self, &plan, NULL));
            fixture_run(&shared, 1);
        }
        run_epoch(&own);
        fixture_close(&own);
        if (n % 3 == 0)
            fixture_close(&shared);
    }
    for (int i = 0; i < SV_EXCHANGE_TAGS / 64; i++)
        CHECK_EQ(set->tags_in_use[i], 0);
}

/* --- words that are lost ------------------------------------------------------------------------------------------ */

/* 0 never hears that 1 is ready, for 1 has given up to say it, and commits the next one. */
static void lose_ready_before_commit(local_rank_t *self)
{
    if (self->rank == 1) {
        watch_words(self, IS_LOST, SV_STAGE_READY, ANY);
        words.commit = SV_NEIGHBOR_NUMBER | 1;
    }
    commit_two(self, 0);
    if (self->rank == 1)
        forget_words(self);
}

/* The same, but 1 begins an epoch: 0 asks. */
static void lose_ready_before_start(local_rank_t *self)
{
    const plan_t plan = chain_of(2, 4000, 9);
    fixture_t fixture;
    if (self->rank == 1)
        watch_words(self, IS_LOST, SV_STAGE_READY, ANY);
    CHECK(fixture_open(&fixture, self, &plan, &by_neighbors));
    CHECK_STATUS(selvage_exchange_commit(fixture.ex), SELVAGE_SUCCESS);
    if (self->rank == 1)
        forget_words(self);
    run_epoch(&fixture);
    fixture_close(&fixture);
}

/* 0 never hears that 1 has destroyed its exchange: it asks, and 1, in another call, has none of that number. */
static void lose_parted(local_rank_t *self)
{
    const plan_t plan = chain_of(2, 4000, 9);
    fixture_t fixture;
    CHECK(fixture_open(&fixture, self, &plan, &by_neighbors));
    fixture_run(&fixture, 1);
    if (self->rank == 1)
        watch_words(self, IS_LOST, SV_STAGE_PARTED, ANY);
    fixture_close(&fixture);
    local_ranks_barrier(self);
    if (self->rank == 1)
        forget_words(self);
}

static void await_seen(void)
{
    while (!atomic_load(&seen))
        usleep(1000);
}

/* 2 cannot commit, so 1 fails once it has met 0. 0 never hears of that, but that 1 commits something else. It fails,
   too, and since 1 has not said that it has let go, memory that 1 could have mapped is not used again. */
static void lose_left(local_rank_t *self)
{
    const plan_t three = chain_of(3, 4000, 9), two = chain_of(2, 4000, 10);
    fixture_t fixture;
    watch_words(self, self->rank == 1 ? IS_LOST : GOES, SV_STAGE_LEFT, 0);
    atomic_store(&seen, false);
    local_ranks_barrier(self);
    let_leak(true);
    CHECK(fixture_open(&fixture, self, &three, &by_neighbors));
    if (self->rank == 2) {
        CHECK_STATUS(selvage_exchange_add_recv(fixture.ex, fixture.recv[2].data, 8, 1, 7, NULL), SELVAGE_SUCCESS);
        await_seen();
    }
    CHECK_STATUS(selvage_exchange_commit(fixture.ex), self->rank == 0 ? SELVAGE_ERR_PEER : SELVAGE_ERR_ARGUMENT);
    if (self->rank == 0)
        CHECK(local_ranks_logged(self, "bytes that others may still write are set aside"));
    fixture_close(&fixture);
    let_leak(false);
    forget_words(self);
    if (self->rank < 2) {
        CHECK(fixture_open(&fixture, self, &two, &by_neighbors));
        fixture_run(&fixture, 2);
        fixture_close(&fixture);
    }
}

/* 1 fails at once and goes on to its next exchange with 0, which comes late to its first: that is not taken for the
   next of 1, but fails. Then each meets what is meant for it. */
static void fail_and_go_on(local_rank_t *self)
{
    const plan_t plan = chain_of(2, 4000, 9);
    fixture_t first, second;
    watch_words(self, GOES, ANY, ANY);
    atomic_store(&seen, false);
    local_ranks_barrier(self);
    CHECK(fixture_open(&first, self, &plan, &by_neighbors));
    CHECK(fixture_open(&second, self, &plan, &by_neighbors));
    if (self->rank == 0)
        await_seen();
    else
        CHECK_STATUS(selvage_exchange_add_recv(first.ex, first.recv[0].data, 8, 0, 7, NULL), SELVAGE_SUCCESS);
    const selvage_status_t status = selvage_exchange_commit(first.ex);
    CHECK(status == SELVAGE_ERR_ARGUMENT || (self->rank == 0 && status == SELVAGE_ERR_PEER));
    fixture_run(&second, 2);
    fixture_close(&first);
    fixture_close(&second);
    forget_words(self);
}

static _Atomic bool given_up;

/* 0 gives up waiting for 1, which comes just then: it meets 0 before it hears that, or that 0 comes again. */
static void come_when_given_up(local_rank_t *self)
{
    const bool lost = *(const bool *)self->arg;
    const plan_t plan = chain_of(2, 4000, 9);
    fixture_t vain, fixture;
    watch_words(self, self->rank == 0 && lost ? IS_LOST : GOES, SV_STAGE_LEFT, ANY);
    words.watched.control_poll = poll_one;
    if (self->rank == 0)
        atomic_store(&given_up, false);
    local_ranks_barrier(self);
    if (self->rank == 0) {
        const double patient_s = self->comm->timeout_s;
        CHECK(fixture_open(&vain, self, &plan, &by_neighbors));
        self->comm->timeout_s = 0.3; /* nothing else drives it */
        CHECK_STATUS(selvage_exchange_commit(vain.ex), SELVAGE_ERR_TIMEOUT);
        self->comm->timeout_s = patient_s;
        fixture_close(&vain);
        atomic_store(&given_up, true);
    }
    while (!atomic_load(&given_up))
        usleep(1000);
    CHECK(fixture_open(&fixture, self, &plan, &by_neighbors));
    fixture_run(&fixture, 2);
    fixture_close(&fixture);
    forget_words(self);
}

static _Atomic bool left_by_one;
static _Thread_local bool has_left;

static selvage_status_t send_leaving(sv_wire_t *wire, int peer, sv_wire_control_t *message)
{
    const selvage_status_t status = words.real->control_send(wire, peer, message);
    if (message->word[0] == SV_CONTROL_HANDSHAKE && wire->rank == 0)
        atomic_store(&seen, true);
    if (message->word[0] == SV_CONTROL_NEIGHBOR && message->word[3] == SV_STAGE_LEFT) {
        has_left = true;
        if (wire->rank == 1)
            atomic_store(&left_by_one, true);
    }
    return status;
}

/* 0 does not go on until 1 has met it, and hears nothing until that has left; nor does 1, once it has met 0. */
static selvage_status_t poll_crossing(sv_wire_t *wire, int *source_out, sv_wire_control_t *message_out)
{
    while (wire->rank == 0 && !atomic_load(&met) && !atomic_load(&left_by_one))
        usleep(1000);
    if (wire->rank == 0 ? !atomic_load(&left_by_one) : atomic_load(&met) && !has_left)
        return SELVAGE_IN_PROGRESS;
    return words.real->control_poll(wire, source_out, message_out);
}

/* Both give up in the same commit, 1 after it has met 0, and what they say of it crosses. Then each meets what is meant
   for it. */
static void give_up_both(local_rank_t *self)
{
    enum { COMMITS = 4 };
    plan_t plan[COMMITS];
    fixture_t fixture[COMMITS];
    const double patient_s = self->comm->timeout_s;
    has_left = false;
    if (self->rank == 0) {
        atomic_store(&seen, false);
        atomic_store(&met, false);
        atomic_store(&left_by_one, false);
    }
    local_ranks_barrier(self);
    let_leak(true);
    for (int i = 0; i < COMMITS; i++) {
        plan[i] = chain_of(2, 4000, 20 + (uint64_t)i);
        CHECK(fixture_open(&fixture[i], self, &plan[i], &by_neighbors));
    }
    watch_words(self, GOES, ANY, ANY);
    words.watched.control_send = send_leaving;
    words.watched.control_poll = poll_crossing;
    if (self->rank == 1)
        await_seen();
    self->comm->timeout_s = 0.3; /* what ends it */
    CHECK_STATUS(selvage_exchange_commit(fixture[0].ex), SELVAGE_ERR_TIMEOUT);
    self->comm->timeout_s = patient_s;
    forget_words(self);
    for (int i = 1; i < COMMITS; i++)
        fixture_run(&fixture[i], 2);
    for (int i = COMMITS - 1; i >= 0; i--)
        fixture_close(&fixture[i]);
    let_leak(false);
}

/* 1 cannot say to 0 that it is ready, nor at first that it leaves. 2 hears of it all the same, and so does 0. */
static void fail_to_say(local_rank_t *self)
{
    const plan_t plan = chain_of(3, 4000, 9);
    fixture_t fixture;
    if (self->rank == 1)
        watch_words(self, FAILS_ONCE, SV_STAGE_READY, 0);
    let_leak(true);
    CHECK(fixture_open(&fixture, self, &plan, &by_neighbors));
    CHECK_STATUS(selvage_exchange_commit(fixture.ex), SELVAGE_ERR_SYSTEM);
    check_says(self->rank == 1 ? "refused by the test" : "failed on rank 1, a neighbour");
    fixture_close(&fixture);
    let_leak(false);
    if (self->rank == 1)
        forget_words(self);
}

/* --- probes of the direct route ----------------------------------------------------------------------------------- */

static _Atomic int failed_ranks;

/* A chain whose last rank comes later than a probe may take, or never: the first rank is at its probe long before its
   neighbour, which waits for the next one. A probe of its own has no time to lose, once both are at it. */
static void come_after_probe(local_rank_t *self)
{
    const bool never = *(const bool *)self->arg;
    const int last = self->size - 1;
    const plan_t plan = chain_of(self->size, 400000, 5);
    selvage_exchange_params_t direct = by_neighbors;
    fixture_t fixture;
    direct.route = SELVAGE_ROUTE_DIRECT;
    if (self->rank == 0) {
        watch_words(self, never ? ENDS_PATIENCE : GOES, SV_STAGE_PROBING, ANY);
        self->comm->exchanges->probe_timeout_s = 0.3;
        atomic_store(&failed_ranks, 0);
    }
    local_ranks_barrier(self);
    if (never)
        let_leak(true);
    CHECK(fixture_open(&fixture, self, &plan, &direct));
    if (!never) {
        if (self->rank == last)
            usleep(1000000);
        fixture_run(&fixture, 2);
    } else if (self->rank < last) {
        CHECK_STATUS(selvage_exchange_commit(fixture.ex), SELVAGE_ERR_TIMEOUT);
        check_says(self->rank == 0 ? "rank 1, a neighbour, has not begun to probe the direct route for 0.5 s"
                                   : "a neighbour");
        atomic_fetch_add(&failed_ranks, 1);
    } else {
        while (atomic_load(&failed_ranks) < last)
            usleep(1000);
    }
    fixture_close(&fixture);
    if (never)
        let_leak(false);
    if (self->rank == 0)
        forget_words(self);
}

/* 0 is at its probe when it turns out that 1 has not heard what came before. */
static void lose_before_probe(local_rank_t *self)
{
    const plan_t plan = chain_of(2, 400000, 5);
    selvage_exchange_params_t direct = by_neighbors;
    fixture_t fixture;
    direct.route = SELVAGE_ROUTE_DIRECT;
    watch_words(self, self->rank == 0 ? IS_LOST_ONCE : GOES, SV_STAGE_PROVED, ANY);
    CHECK(fixture_open(&fixture, self, &plan, &direct));
    fixture_run(&fixture, 2);
    fixture_close(&fixture);
    forget_words(self);
}

int main(void)
{
    bool yes = true, no = false;
    /* So that what hangs is an error soon; no call here comes near it. */
    local_ranks_env("TIMEOUT_S=60");
    local_ranks_run(&(local_run_t){.size = 3, .body = commit_after_slow});
    local_ranks_run(&(local_run_t){.size = 5, .body = commit_in_a_row, .arg = &no});
    local_ranks_run(&(local_run_t){.size = 5, .body = commit_in_a_row, .arg = &yes});
    local_ranks_run(&(local_run_t){.size = 2, .body = commit_many});
    local_ranks_run(&(local_run_t){.size = 2, .body = lose_ready_before_commit});
    local_ranks_run(&(local_run_t){.size = 2, .body = lose_ready_before_start});
    local_ranks_run(&(local_run_t){.size = 2, .body = lose_parted});
    local_ranks_run(&(local_run_t){.size = 3, .body = lose_left, .log_expected = true, .may_set_aside = true});
    local_ranks_run(&(local_run_t){.size = 2, .body = fail_and_go_on, .log_expected = true});
    local_ranks_run(&(local_run_t){.size = 2, .body = come_when_given_up, .arg = &no, .log_expected = true});
    local_ranks_run(&(local_run_t){.size = 2, .body = come_when_given_up, .arg = &yes, .log_expected = true});
    local_ranks_run(&(local_run_t){.size = 2, .body = give_up_both, .log_expected = true, .may_set_aside = true});
    local_ranks_run(&(local_run_t){.size = 3, .body = fail_to_say, .log_expected = true, .may_set_aside = true});
    local_ranks_run(&(local_run_t){.size = 2, .body = lose_before_probe});
    local_ranks_run(&(local_run_t){.size = 5, .body = come_after_probe, .arg = &no});
    local_ranks_run(&(local_run_t){.size = 5, .body = come_after_probe, .arg = &yes, .log_expected = true,
                                   .may_set_aside = true});
    return check_report("test_exchange_neighbors_words");
}
