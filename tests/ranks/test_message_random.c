/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages at random: sizes, tags, kinds of memory, datatypes, streams and orders, receives from one rank or any, with
 * one tag or any, against what the plan says must come; and several threads of each rank at once. Ranks are threads.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/base_memory.h"
#include "fixtures/check.h"
#include "message/message_engine.h"
#include "fixtures/message_end.h"

#ifdef SV_SANITIZES_THREAD /* takes ten times as long */
enum { RANKS = 3, MESSAGES = 20, TAGS = 3, BYTES_MAX = 10000 };
#else
enum { RANKS = 3, MESSAGES = 40, TAGS = 3, BYTES_MAX = 30000 };
#endif

typedef enum receive_mode { EXACT, ANY_SOURCE, ANY_TAG, ANY_BOTH, MODES } receive_mode_t;

typedef struct message {
    int source, destination, tag;
    uint64_t key;
    size_t bytes;
} message_t;

static size_t random_bytes(uint64_t *state)
{
    const uint64_t kind = local_ranks_random(state, 4);
    return kind == 0 ? 0 : (size_t)local_ranks_random(state, kind == 1 ? 64 : kind == 2 ? 3000 : BYTES_MAX);
}

static void make_plan(message_t *plan, uint64_t seed)
{
    uint64_t state = seed;
    for (int i = 0; i < MESSAGES; i++)
        plan[i] = (message_t){.source = (int)local_ranks_random(&state, RANKS),
                              .destination = (int)local_ranks_random(&state, RANKS),
                              .tag = (int)local_ranks_random(&state, TAGS), .key = seed * 1000 + (uint64_t)i,
                              .bytes = random_bytes(&state)};
}

static message_shape_t random_shape(uint64_t *state, size_t bytes, void *stream)
{
    const uint64_t how = local_ranks_random(state, 4);
    message_shape_t shape = {.bytes = bytes, .on_device = local_ranks_random(state, 2),
                             .stream = how == 0 ? NULL : how == 1 ? SELVAGE_MESSAGE_NO_STREAM : stream,
                             .delay_us = how > 1 ? 20.0 * (double)local_ranks_random(state, 10) : 0};
    if (local_ranks_random(state, 3) == 0) {
        shape.run = 1 + (size_t)local_ranks_random(state, 40);
        shape.gap = (size_t)local_ranks_random(state, 30);
    }
    return shape;
}

/* Which message a receive has met: the first of its source and tag that no receive posted before it has. */
static const message_t *find_met(const message_t *plan, bool *met, int rank, const selvage_message_status_t *status)
{
    for (int i = 0; i < MESSAGES; i++)
        if (plan[i].destination == rank && plan[i].source == status->source && plan[i].tag == status->tag && !met[i]) {
            met[i] = true;
            return &plan[i];
        }
    return NULL;
}

typedef struct round {
    local_rank_t *self;
    message_t plan[MESSAGES];
    message_end_t send[MESSAGES], recv[MESSAGES];
    int sends, recvs;
    receive_mode_t mode;
    uint64_t state;
    void *stream;
} round_t;

static void post_recv(round_t *round, const message_t *message)
{
    message_end_t *end = &round->recv[round->recvs++];
    const size_t room = round->mode == EXACT ? message->bytes + local_ranks_random(&round->state, 50) : BYTES_MAX;
    const message_shape_t shape = random_shape(&round->state, room, round->stream);
    message_end_open(end, round->self, &shape);
    message_end_recv(end, &shape, round->mode & 1 ? SV_MESSAGE_ANY : message->source,
                     round->mode & 2 ? SV_MESSAGE_ANY : message->tag);
}

static void post_send(round_t *round, const message_t *message)
{
    message_end_t *end = &round->send[round->sends++];
    const message_shape_t shape = random_shape(&round->state, message->bytes, round->stream);
    message_end_open(end, round->self, &shape);
    if (local_ranks_random(&round->state, 5) == 0)
        message_end_issend(end, &shape, message->destination, message->tag, message->key);
    else
        message_end_send(end, &shape, message->destination, message->tag, message->key);
}

/* Sends in the order of the plan; receives in that order too, so that sizes fit; each as early or late as may be. */
static void post_all(round_t *round)
{
    int next_send = 0, next_recv = 0;
    while (next_send < MESSAGES || next_recv < MESSAGES) {
        const bool sends = next_recv == MESSAGES || (next_send < MESSAGES && local_ranks_random(&round->state, 2));
        const message_t *message = &round->plan[sends ? next_send++ : next_recv++];
        if (sends && message->source == round->self->rank)
            post_send(round, message);
        if (!sends && message->destination == round->self->rank)
            post_recv(round, message);
    }
}

static void finish_all(round_t *round)
{
    bool met[MESSAGES] = {false};
    selvage_message_status_t statuses[MESSAGES];
    for (int i = 0; i < round->sends; i++)
        CHECK_STATUS(sv_message_wait(&round->send[i].request, NULL), SELVAGE_SUCCESS);
    for (int i = round->recvs; i-- > 0;)
        CHECK_STATUS(sv_message_wait(&round->recv[i].request, &statuses[i]), SELVAGE_SUCCESS);
    for (int i = 0; i < round->recvs; i++) {
        const message_t *message = find_met(round->plan, met, round->self->rank, &statuses[i]);
        CHECK(message != NULL);
        if (message) {
            CHECK_EQ(statuses[i].bytes, message->bytes);
            CHECK_EQ(message_end_wrong(&round->recv[i], message->bytes, message->key), -1);
        }
        message_end_close(&round->recv[i]);
    }
    for (int i = 0; i < round->sends; i++)
        message_end_close(&round->send[i]);
}

static void rounds(local_rank_t *self)
{
    round_t *round = calloc(1, sizeof *round);
    const uint64_t *seed = self->arg;
    round->self = self;
    CHECK_STATUS(selvage_stream_create(self->dev, &round->stream), SELVAGE_SUCCESS);
    for (round->mode = EXACT; round->mode < MODES; round->mode++) {
        round->sends = round->recvs = 0;
        round->state = *seed * 7919 + (uint64_t)self->rank;
        make_plan(round->plan, *seed * MODES + round->mode);
        post_all(round);
        finish_all(round);
        local_ranks_barrier(self); /* receives of anything must not meet messages of the next round */
    }
    selvage_stream_destroy(self->dev, round->stream);
    free(round);
}

/* Threads of a rank talk to their like in the other rank, each with a tag of its own. */
enum { THREADS = 3, TURNS = MESSAGES };

typedef struct talker {
    local_rank_t *self;
    int tag;
} talker_t;

static void *talk(void *arg)
{
    const talker_t *talker = arg;
    const int other = 1 - talker->self->rank;
    uint64_t state = (uint64_t)talker->tag;
    *sv_thread_binding() = (sv_thread_binding_t){.rank = talker->self->rank, .log_level = 1};
    for (int i = 0; i < TURNS; i++) {
        const size_t bytes = random_bytes(&state);
        const message_shape_t shape = {.bytes = bytes, .on_device = i & 1, .stream = SELVAGE_MESSAGE_NO_STREAM};
        message_end_t send, recv;
        message_end_open(&send, talker->self, &shape);
        message_end_open(&recv, talker->self, &shape);
        message_end_recv(&recv, &shape, other, talker->tag);
        message_end_send(&send, &shape, other, talker->tag, (uint64_t)i);
        CHECK_STATUS(sv_message_wait(&send.request, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(sv_message_wait(&recv.request, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(message_end_wrong(&recv, bytes, (uint64_t)i), -1);
        message_end_close(&send);
        message_end_close(&recv);
    }
    return NULL;
}

static void threads(local_rank_t *self)
{
    pthread_t thread[THREADS];
    talker_t talker[THREADS];
    for (int i = 0; i < THREADS; i++) {
        talker[i] = (talker_t){self, i};
        pthread_create(&thread[i], NULL, talk, &talker[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

int main(void)
{
    static const char *const settings[] = {"SEGMENT_BYTES=4096 MESSAGE_EAGER_BYTES=1K", "PROGRESS=thread",
                                           "CHECKSUM=off SEGMENT_BYTES=4096 MESSAGE_EAGER_BYTES=0",
                                           "SOFT_MODE=inline SEGMENT_BYTES=4096",
                                           "EARLY_WAIT_US=2000 SOFT_BLOCKS=2 MESSAGE_EAGER_BYTES=1K"};
    for (uint64_t seed = 1; seed <= 5; seed++) {
        local_ranks_env(settings[seed - 1]);
        for (int per_node = 0; per_node < 2; per_node++)
            local_ranks_run(&(local_run_t){.size = RANKS, .ranks_per_node = per_node, .body = rounds, .arg = &seed});
    }
    local_ranks_env("SEGMENT_BYTES=4096 MESSAGE_EAGER_BYTES=1K EARLY_WAIT_US=2000");
    for (int per_node = 0; per_node < 2; per_node++)
        local_ranks_run(&(local_run_t){.size = 2, .ranks_per_node = per_node, .body = threads});
    return check_report("test_message_random");
}
