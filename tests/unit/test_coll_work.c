/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups of random sends and receives in worlds of 1 to 8 ranks: pieces of work are made for all ranks, then run by a
 * model of the kernels that has no slots at all, the hardest case: a direction of a piece is over only if the other
 * rank's block of that channel has its piece at hand too. Everything must come to an end, every message meet its
 * receive, and both ends agree on how it goes. Launches are cut at random, and each one ends on all channels before the
 * next begins.
 */

#include "base/base_config.h"
#include "fixtures/check.h"
#include "collective/coll_parts.h"

enum { RANKS = 8, CHANNELS = 6, CALLS = 48, WORKS = 2 * RANKS * CALLS + 1 };

typedef struct rank_model {
    selvage_coll_t coll;
    sv_coll_call_t calls[2 * RANKS * CALLS];
    unsigned ncalls;
    sv_coll_work_t work[WORKS];
    unsigned launch[WORKS], nworks;
    unsigned at[CHANNELS];          /* next piece of each channel */
    bool sent[CHANNELS], taken[CHANNELS]; /* of that piece */
} rank_model_t;

static rank_model_t world[RANKS];
static unsigned met[RANKS * RANKS * CALLS + 1], wanted[RANKS * RANKS * CALLS + 1]; /* channels of each message */
static sv_config_t config;
static uint32_t seed;

static unsigned draw(unsigned below)
{
    seed = seed * 1664525 + 1013904223;
    return (unsigned)((uint64_t)seed * below >> 32);
}

static const char *no_variable(void *arg, const char *name)
{
    (void)arg, (void)name;
    return NULL;
}

static void begin_world(unsigned n)
{
    static selvage_comm_t comm;
    comm.nonce = 77;
    for (unsigned r = 0; r < n; r++) {
        rank_model_t *rank = &world[r];
        memset(rank, 0, sizeof *rank);
        rank->coll.comm = &comm;
        rank->coll.rank = (int)r;
        rank->coll.size = (int)n;
        rank->coll.number = 3;
        rank->coll.sequence = 61;
        rank->coll.dev.n = n;
        rank->coll.dev.me = r;
        rank->coll.facts = (sv_coll_facts_t){.nranks = n, .nchannels = CHANNELS, .config = &config};
        rank->coll.facts.layout.slot_bytes = 1 << 16;
    }
}

/* Tokens stand for addresses: the receive has that of the send which it is to meet. */
static void add_message(unsigned from, unsigned to, unsigned token)
{
    static const uint8_t types[] = {SV_COLL_UINT8, SV_COLL_FLOAT16, SV_COLL_FLOAT32, SV_COLL_FLOAT64};
    static const unsigned sizes[] = {1, 40, 5000, 300000, 9000000};
    sv_coll_call_t send = {.call = SV_COLL_PAIR, .type = types[draw(4)], .is_send = true, .root = (int)to};
    send.count = draw(8) ? draw(sizes[draw(5)]) : 0;
    send.send = (void *)((uintptr_t)token << 32);
    sv_coll_call_t recv = {.call = SV_COLL_PAIR, .type = send.type, .root = (int)from, .count = send.count};
    recv.recv = (void *)((uintptr_t)token << 32);
    world[from].calls[world[from].ncalls++] = send;
    world[to].calls[world[to].ncalls++] = recv;
}

/* Any order of calls is right that keeps the order of each pair: here sends and receives of a rank are mixed. */
static void mix_calls(rank_model_t *rank)
{
    for (unsigned turn = 0; turn < 4 * rank->ncalls; turn++) {
        unsigned i = draw(rank->ncalls - 1);
        sv_coll_call_t a = rank->calls[i], b = rank->calls[i + 1];
        if (a.is_send == b.is_send && a.root == b.root)
            continue;
        rank->calls[i] = b;
        rank->calls[i + 1] = a;
    }
}

static void make_works(rank_model_t *rank, unsigned n, unsigned me)
{
    sv_coll_pairs_t pairs;
    const sv_coll_call_t *send, *recv;
    unsigned launch = 0;
    CHECK_STATUS(sv_coll_pairs_begin(&pairs, rank->calls, rank->ncalls, n, me), SELVAGE_SUCCESS);
    while (sv_coll_pairs_next(&pairs, &send, &recv)) {
        unsigned count = sv_coll_works_of_round(&rank->coll, send, recv, &rank->work[rank->nworks]);
        for (unsigned i = 0; i < count; i++) {
            const sv_coll_work_t *work = &rank->work[rank->nworks];
            CHECK(work->nchannels > 0 && work->channel + work->nchannels <= CHANNELS);
            if (work->root != 0xff)
                wanted[work->src >> 32] = work->nchannels;
            launch += draw(5) == 0;
            rank->launch[rank->nworks++] = launch;
        }
    }
}

static bool uses(const sv_coll_work_t *work, unsigned channel)
{
    return channel >= work->channel && channel < (unsigned)work->channel + work->nchannels;
}

/* The piece that this channel has at hand; NULL: none, or its launch has not begun. */
static const sv_coll_work_t *at_hand(rank_model_t *rank, unsigned channel)
{
    unsigned *at = &rank->at[channel], first = rank->nworks;
    while (*at < rank->nworks && !uses(&rank->work[*at], channel))
        (*at)++;
    for (unsigned c = 0; c < CHANNELS; c++) {
        unsigned next = rank->at[c];
        while (next < rank->nworks && !uses(&rank->work[next], c))
            next++;
        first = next < first ? next : first;
    }
    return *at < rank->nworks && rank->launch[*at] == rank->launch[first] ? &rank->work[*at] : NULL;
}

/* One direction of what rank `from` has at hand, if the other end has its receive at hand. */
static bool send_one(unsigned from, unsigned channel)
{
    const sv_coll_work_t *work = at_hand(&world[from], channel);
    if (!work || world[from].sent[channel] || work->root == 0xff)
        return false;
    unsigned to = work->root;
    const sv_coll_work_t *other = at_hand(&world[to], channel);
    if (!other || other->peer != from || world[to].taken[channel])
        return false;
    CHECK_EQ(work->src, other->dst);
    CHECK_EQ(work->count, other->count_in);
    CHECK(work->type == other->type && work->algo == other->algo && work->proto == other->proto);
    CHECK(work->channel == other->channel && work->nchannels == other->nchannels);
    CHECK(work->key == other->key && work->communicator == other->communicator);
    met[work->src >> 32]++;
    world[from].sent[channel] = world[to].taken[channel] = true;
    return true;
}

static bool end_piece(unsigned r, unsigned channel)
{
    rank_model_t *rank = &world[r];
    const sv_coll_work_t *work = at_hand(rank, channel);
    if (!work || (!rank->sent[channel] && work->root != 0xff) || (!rank->taken[channel] && work->peer != 0xff))
        return false;
    rank->at[channel]++;
    rank->sent[channel] = rank->taken[channel] = false;
    return true;
}

static void run_world(unsigned n)
{
    bool moved = true;
    while (moved) {
        moved = false;
        for (unsigned r = 0; r < n; r++)
            for (unsigned c = 0; c < CHANNELS; c++) {
                moved |= send_one(r, c);
                moved |= end_piece(r, c);
            }
    }
    for (unsigned r = 0; r < n; r++)
        for (unsigned c = 0; c < CHANNELS; c++)
            CHECK(!at_hand(&world[r], c));
}

static void test_world(unsigned n, unsigned nmessages)
{
    unsigned wide = 0, both = 0;
    begin_world(n);
    memset(met, 0, sizeof met);
    for (unsigned token = 1; token <= nmessages; token++)
        add_message(draw(n), draw(n), token);
    for (unsigned r = 0; r < n; r++) {
        if (world[r].ncalls > 1)
            mix_calls(&world[r]);
        make_works(&world[r], n, r);
        for (unsigned i = 0; i < world[r].nworks; i++) {
            wide += world[r].work[i].nchannels > 1;
            both += world[r].work[i].root != 0xff && world[r].work[i].peer != 0xff;
        }
    }
    run_world(n);
    for (unsigned token = 1; token <= nmessages; token++)
        CHECK_EQ(met[token], wanted[token]);
    CHECK(n < 3 || nmessages < 100 || (wide > 0 && both > 0));
}

/* What is sent within one group may be received call by call. */
static void test_one_by_one(void)
{
    begin_world(2);
    for (unsigned token = 1; token <= CALLS; token++)
        add_message(0, 1, token);
    make_works(&world[0], 2, 0);
    sv_coll_pairs_t pairs;
    const sv_coll_call_t *send, *recv;
    for (unsigned i = 0; i < world[1].ncalls; i++) {
        CHECK_STATUS(sv_coll_pairs_begin(&pairs, &world[1].calls[i], 1, 2, 1), SELVAGE_SUCCESS);
        CHECK(sv_coll_pairs_next(&pairs, &send, &recv));
        CHECK(!send && recv == &world[1].calls[i]);
        CHECK_EQ(sv_coll_works_of_round(&world[1].coll, send, recv, &world[1].work[i]), 1);
        world[1].launch[i] = i;
        CHECK(!sv_coll_pairs_next(&pairs, &send, &recv));
    }
    world[1].nworks = world[1].ncalls;
    memset(met, 0, sizeof met);
    run_world(2);
    for (unsigned token = 1; token <= CALLS; token++)
        CHECK_EQ(met[token], wanted[token]);
}

static void test_own_rank(void)
{
    char memory[64];
    sv_coll_pairs_t pairs;
    sv_coll_call_t calls[2] = {
        {.call = SV_COLL_PAIR, .type = SV_COLL_INT32, .root = 1, .is_send = true, .count = 4, .send = memory},
        {.call = SV_COLL_PAIR, .type = SV_COLL_INT32, .root = 1, .count = 4, .recv = memory + 16}};
    CHECK_STATUS(sv_coll_pairs_begin(&pairs, calls, 2, 3, 1), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_pairs_begin(&pairs, calls, 1, 3, 1), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(sv_coll_pairs_begin(&pairs, calls + 1, 1, 3, 1), SELVAGE_ERR_ARGUMENT);
    calls[1].recv = memory + 8;
    CHECK_STATUS(sv_coll_pairs_begin(&pairs, calls, 2, 3, 1), SELVAGE_ERR_ARGUMENT);
    calls[1].recv = memory + 16;
    calls[1].count = 3;
    CHECK_STATUS(sv_coll_pairs_begin(&pairs, calls, 2, 3, 1), SELVAGE_ERR_ARGUMENT);
    calls[1].count = 4;
    calls[1].type = SV_COLL_UINT32;
    CHECK_STATUS(sv_coll_pairs_begin(&pairs, calls, 2, 3, 1), SELVAGE_ERR_ARGUMENT);
}

/* Records and signatures, as people read them. */
static void test_words(void)
{
    char text[SV_DETAIL_BYTES];
    sv_coll_work_t ours = {.call = SV_COLL_ALL_REDUCE, .algo = SV_COLL_RING, .proto = SV_COLL_LL, .op = SV_COLL_SUM,
                           .type = SV_COLL_FLOAT32, .count = 1000, .sequence = 130, .communicator = 2};
    sv_coll_work_t theirs = {.call = SV_COLL_REDUCE, .algo = SV_COLL_TWOSHOT, .proto = SV_COLL_SIMPLE,
                             .op = SV_COLL_SIGNED_AVERAGE, .type = SV_COLL_E4M3, .count = (UINT64_C(1) << 34) - 1,
                             .root = 5, .sequence = 127, .communicator = 2};
    sv_coll_error_t error = {.kind = SV_COLL_DIFFERS,
                             .place = SV_COLL_AT_ENTRY,
                             .sequence = 130,
                             .peer = 4,
                             .call = SV_COLL_ALL_REDUCE,
                             .wanted = sv_coll_signature(&ours, 2),
                             .seen = sv_coll_signature(&theirs, 2)};
    CHECK_STATUS(sv_coll_error_text(&error, text, sizeof text), SELVAGE_ERR_MISMATCH);
    CHECK_STR(text, "rank 4 called reduce of 17179869183 float8_e4m3, avg, root 5 as call 127 of communicator 2 "
              "(twoshot, simple) where this rank called all_reduce of 1000 float32, sum as call 130 of communicator 2 "
              "(ring, ll)");
    sv_coll_work_t pair = {.call = SV_COLL_PAIR, .type = SV_COLL_INT8, .proto = SV_COLL_LL, .algo = SV_COLL_ONESHOT,
                           .count = 9};
    sv_coll_signature_text(sv_coll_signature(&pair, 0), 190, text, sizeof text);
    CHECK_STR(text, "a message of 9 int8 of communicator 0 (oneshot, ll)");
    error = (sv_coll_error_t){.kind = SV_COLL_LATE,
                              .place = SV_COLL_AT_ENTRY,
                              .sequence = 17,
                              .peer = 2,
                              .channel = 1,
                              .call = SV_COLL_BROADCAST,
                              .wanted = 18,
                              .seen = 17};
    CHECK_STATUS(sv_coll_error_text(&error, text, sizeof text), SELVAGE_ERR_TIMEOUT);
    CHECK_STR(text, "rank 2 did not come to call 17 (broadcast) before the deadline: channel 1, wanted 18, seen 17");
    error.place = 0;
    sv_coll_error_text(&error, text, sizeof text);
    CHECK(strstr(text, "rank 2 ") == text && strstr(text, "another rank says"));
    error.kind = SV_COLL_DAMAGED;
    CHECK_STATUS(sv_coll_error_text(&error, text, sizeof text), SELVAGE_ERR_CHECKSUM);
    error.kind = SV_COLL_ABORTED;
    CHECK_STATUS(sv_coll_error_text(&error, text, sizeof text), SELVAGE_ERR_ABORTED);
    CHECK_STR(text, "rank 2 aborted call 17 (broadcast)");
}

int main(void)
{
    CHECK_STATUS(sv_config_load(no_variable, NULL, &config), SELVAGE_SUCCESS);
    for (unsigned n = 1; n <= RANKS; n++)
        for (unsigned turn = 0; turn < 12; turn++) {
            seed = n * 1000 + turn;
            test_world(n, 1 + draw(n * CALLS));
            test_world(n, n * CALLS);
        }
    test_one_by_one();
    test_own_rank();
    test_words();
    return check_report("test_coll_work");
}
