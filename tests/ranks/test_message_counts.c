/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What selvage_comm_stats() says of messages: small and long ones, by the wire and within a node, good, damaged and
 * mended, damaged and given up; what does not count; callers that know only a part of the struct; and threads that ask
 * while others count. And that of many messages under way a poll looks at few. Ranks are threads.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "fixtures/check.h"
#include "message/message_engine.h"
#include "fixtures/message_end.h"

enum { SMALL_BYTES = 300, LONG_BYTES = 30000, SMALL = 4, LONG = 3, EMPTY = 2, TAG = 3 };

/* What is to become of those messages that have bytes. */
typedef struct counts_case {
    bool unchecked, damaged, fails;
    unsigned times; /* each is damaged */
} counts_case_t;

static selvage_stats_t stats_of(const local_rank_t *self)
{
    selvage_stats_t stats = {SELVAGE_STATS_INIT};
    CHECK_STATUS(selvage_comm_stats(self->comm, &stats), SELVAGE_SUCCESS);
    return stats;
}

/* One message from rank 0 to rank 1, whose receive has so much room. */
static void pass(local_rank_t *self, size_t bytes, size_t room, bool waits, selvage_status_t wanted)
{
    const message_shape_t shape = {.bytes = self->rank ? room : bytes, .on_device = true,
                                   .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t end;
    message_end_open(&end, self, &shape);
    if (self->rank == 1)
        message_end_recv(&end, &shape, 0, TAG);
    else if (waits)
        message_end_issend(&end, &shape, 1, TAG, bytes);
    else
        message_end_send(&end, &shape, 1, TAG, bytes);
    /* Who sends a small message has its buffer back before anybody looks at it. */
    const bool told = self->rank == 1 || (wanted == SELVAGE_ERR_CHECKSUM && bytes > SMALL_BYTES);
    CHECK_STATUS(sv_message_wait(&end.request, NULL), told ? wanted : SELVAGE_SUCCESS);
    message_end_close(&end);
}

static void pass_all(local_rank_t *self)
{
    const counts_case_t *how = self->arg;
    const selvage_status_t wanted = how->fails ? SELVAGE_ERR_CHECKSUM : SELVAGE_SUCCESS;
    for (int i = 0; i < SMALL; i++)
        pass(self, SMALL_BYTES, SMALL_BYTES, false, wanted);
    for (int i = 0; i < LONG; i++)
        pass(self, LONG_BYTES, LONG_BYTES + (size_t)i, false, wanted);
    pass(self, 0, 8, false, SELVAGE_SUCCESS);
    pass(self, 0, 8, true, SELVAGE_SUCCESS); /* only meets its receive: there is nothing to compare */
}

static void check_sent(const selvage_stats_t *stats, const counts_case_t *how)
{
    const uint64_t sent = SMALL + EMPTY + (how->fails ? 0 : LONG);
    CHECK_EQ(stats->messages_sent, sent);
    CHECK_EQ(stats->message_bytes_sent, SMALL * SMALL_BYTES + (how->fails ? 0 : LONG * LONG_BYTES));
    CHECK_EQ(stats->messages_received + stats->message_bytes_received + stats->messages_verified, 0);
    CHECK_EQ(stats->messages_damaged + stats->messages_repeated + stats->messages_failed + stats->messages_mended, 0);
}

static void check_received(const selvage_stats_t *stats, const counts_case_t *how)
{
    const uint64_t full = SMALL + LONG, good = how->fails ? 0 : full;
    CHECK_EQ(stats->messages_sent + stats->message_bytes_sent, 0);
    CHECK_EQ(stats->messages_received, good + EMPTY);
    CHECK_EQ(stats->message_bytes_received, how->fails ? 0 : SMALL * SMALL_BYTES + LONG * LONG_BYTES);
    CHECK_EQ(stats->messages_verified, how->unchecked ? 0 : good + EMPTY - 1);
    CHECK_EQ(stats->messages_damaged, full * how->times);
    CHECK_EQ(stats->messages_failed, how->fails ? full : 0);
    CHECK_EQ(stats->messages_repeated, stats->messages_damaged - stats->messages_failed);
    CHECK_EQ(stats->messages_mended, how->damaged ? good : 0);
}

static void counting(local_rank_t *self)
{
    const selvage_stats_t before = stats_of(self);
    CHECK_EQ(before.messages_sent + before.messages_received + before.messages_verified, 0);
    pass_all(self);
    const selvage_stats_t stats = stats_of(self);
    if (self->rank == 0)
        check_sent(&stats, self->arg);
    else
        check_received(&stats, self->arg);
    local_ranks_barrier(self);
}

static void count_with(const char *settings, counts_case_t wanted)
{
    for (int per_node = 0; per_node < 2; per_node++) {
        local_ranks_env(settings);
        local_ranks_run(&(local_run_t){.size = 2, .ranks_per_node = per_node, .body = counting, .arg = &wanted,
                                       .log_expected = wanted.damaged});
        CHECK_EQ(local_ranks_left(), 0);
    }
}

/* --- what does not count ------------------------------------------------------------------------------------------ */

static void take_back(local_rank_t *self)
{
    const message_shape_t shape = {.bytes = SMALL_BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t end;
    message_end_open(&end, self, &shape);
    message_end_recv(&end, &shape, SV_MESSAGE_NOBODY, TAG);
    CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    message_end_send(&end, &shape, SV_MESSAGE_NOBODY, TAG, 1);
    CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    message_end_recv(&end, &shape, 1 - self->rank, TAG + 1);
    sv_message_cancel(end.request);
    CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    message_end_close(&end);
}

/* A message that is too long for its receive was sent, and is neither received nor damaged. */
static void not_counting(local_rank_t *self)
{
    take_back(self);
    const selvage_stats_t before = stats_of(self);
    CHECK_EQ(before.messages_sent + before.messages_received + before.messages_verified, 0);
    pass(self, SMALL_BYTES, SMALL_BYTES - 8, false, SELVAGE_ERR_TRUNCATED);
    pass(self, LONG_BYTES, LONG_BYTES - 8, false, SELVAGE_ERR_TRUNCATED);
    const selvage_stats_t stats = stats_of(self);
    CHECK_EQ(stats.messages_sent, self->rank == 0 ? 2 : 0);
    CHECK_EQ(stats.messages_received + stats.messages_verified, 0);
    CHECK_EQ(stats.messages_damaged + stats.messages_failed, 0);
    local_ranks_barrier(self);
}

/* A buffered send is one message, though a second request has its bytes to the end. */
static void count_buffered(local_rank_t *self)
{
    const message_shape_t shape = {.bytes = LONG_BYTES, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    message_end_t end;
    message_ends_meet(self, 100);
    const selvage_stats_t before = stats_of(self);
    const sv_message_engine_t *engine = atomic_load(&self->comm->messages);
    message_end_open(&end, self, &shape);
    if (self->rank == 0)
        CHECK_STATUS(message_end_ibsend(&end, &shape, 1, TAG, 7), SELVAGE_SUCCESS);
    else
        message_end_recv(&end, &shape, 0, TAG);
    CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
    message_end_close(&end);
    while (self->rank == 0 && engine->buffered_bytes > 0)
        sv_comm_poll(self->comm);
    const selvage_stats_t stats = stats_of(self);
    CHECK_EQ(stats.messages_sent - before.messages_sent, self->rank == 0);
    CHECK_EQ(stats.message_bytes_sent - before.message_bytes_sent, self->rank == 0 ? LONG_BYTES : 0);
    CHECK_EQ(stats.messages_received - before.messages_received, self->rank == 1);
    local_ranks_barrier(self);
}

/* A caller that was built before there were counters of messages gets all the others, and nothing after them. */
static void partial(local_rank_t *self)
{
    enum { OLD = offsetof(selvage_stats_t, messages_sent), MARK = 0x5a };
    selvage_stats_t stats, marked;
    self->arg = &(counts_case_t){0};
    pass_all(self);
    memset(&marked, MARK, sizeof marked);
    stats = marked;
    stats.struct_size = OLD;
    CHECK_STATUS(selvage_comm_stats(self->comm, &stats), SELVAGE_SUCCESS);
    CHECK_EQ(stats.struct_size, OLD);
    CHECK_EQ(stats.epochs + stats.packets_sent + stats.device_bytes, 0);
    CHECK(memcmp(&stats.messages_sent, &marked.messages_sent, sizeof stats - OLD) == 0);
    local_ranks_barrier(self);
}

/* --- beside another thread ---------------------------------------------------------------------------------------- */

enum { TURNS = 60 };

typedef struct other_thread {
    local_rank_t *self;
    atomic_bool over;
} other_thread_t;

static void *pass_on(void *arg)
{
    other_thread_t *other = arg;
    for (int i = 0; i < TURNS; i++)
        pass(other->self, i % 3 ? SMALL_BYTES : LONG_BYTES, LONG_BYTES, false, SELVAGE_SUCCESS);
    atomic_store(&other->over, true);
    return NULL;
}

static void beside(local_rank_t *self)
{
    other_thread_t other = {.self = self};
    pthread_t thread;
    uint64_t seen = 0;
    bool over = false;
    unsigned turns = 0;
    CHECK_EQ(pthread_create(&thread, NULL, pass_on, &other), 0);
    while (!over) {
        over = atomic_load(&other.over);
        const selvage_stats_t stats = stats_of(self);
        CHECK(stats.messages_received >= seen);
        CHECK_EQ(stats.messages_verified, stats.messages_received);
        seen = stats.messages_received;
        check_wait_turn(&turns);
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(seen, self->rank ? TURNS : 0);
    local_ranks_barrier(self);
}

static size_t count_active(const local_rank_t *self)
{
    sv_message_engine_t *engine = atomic_load(&self->comm->messages);
    size_t count = 0;
    pthread_mutex_lock(&engine->lock);
    for (const sv_list_t *it = engine->active.next; it != &engine->active; it = it->next)
        count++;
    pthread_mutex_unlock(&engine->lock);
    return count;
}

/* Sends that wait for their receives, and then for their turns: what a poll takes does not depend on how many they
   are. */
static void look_at_few(local_rank_t *self)
{
    enum { MANY = 2000, FEW = 1000 };
    static uint8_t out[LONG_BYTES], in[MANY][64];
    static selvage_request_t *request[2][MANY];
    sv_type_map_t map = {0};
    CHECK_STATUS(sv_type_map_add_run(&map, 0, 64), SELVAGE_SUCCESS);
    if (self->rank == 0)
        for (int i = 0; i < MANY; i++) {
            const sv_message_buffer_t buffer = {out + i, &map};
            out[i + 63] = (uint8_t)(i + 63);
            CHECK_STATUS(sv_message_isend(self->comm, "test", &buffer, 1, i, SV_SEND_SYNCHRONOUS,
                                          SELVAGE_MESSAGE_NO_STREAM, &request[0][i]), SELVAGE_SUCCESS);
        }
    for (int i = 0; self->rank == 0 && i < 100; i++)
        sv_comm_poll(self->comm);
    if (self->rank == 0)
        CHECK(count_active(self) <= 64);
    local_ranks_barrier(self);
    if (self->rank == 1)
        for (int i = 0; i < MANY; i++) {
            const sv_message_buffer_t buffer = {in[i], &map};
            CHECK_STATUS(sv_message_irecv(self->comm, "test", &buffer, 0, i, NULL, SELVAGE_MESSAGE_NO_STREAM,
                                          &request[1][i]), SELVAGE_SUCCESS);
        }
    for (int i = 0; self->rank == 1 && i < 100; i++)
        sv_comm_poll(self->comm);
    if (self->rank == 1)
        CHECK(count_active(self) <= FEW);
    CHECK_STATUS(sv_message_waitall(MANY, request[self->rank], NULL), SELVAGE_SUCCESS);
    for (int i = 63; self->rank == 1 && i < MANY; i++)
        CHECK_EQ(in[i][63], (uint8_t)(i + 63));
    sv_type_map_fini(&map);
    local_ranks_barrier(self);
}

static void run(void (*body)(local_rank_t *self), const char *settings, bool log_expected)
{
    local_ranks_env(settings);
    local_ranks_run(&(local_run_t){.size = 2, .body = body, .log_expected = log_expected});
    CHECK_EQ(local_ranks_left(), 0);
}

int main(void)
{
#define SIZES "SEGMENT_BYTES=4096 MESSAGE_EAGER_BYTES=400 "
#define FLIP SIZES "FAULT=flip=1,rank=0"
    count_with(SIZES, (counts_case_t){0});
    count_with(SIZES "ROUTE=staged", (counts_case_t){0});
    count_with(SIZES "EARLY_WAIT_US=50000 KERNEL_PEER_MAX_BYTES=1M SOFT_BLOCKS=2", (counts_case_t){0});
    count_with(SIZES "CHECKSUM=report", (counts_case_t){0});
    count_with(SIZES "CHECKSUM=off", (counts_case_t){.unchecked = true});
    count_with(FLIP, (counts_case_t){.damaged = true, .times = 1});
    count_with(FLIP ",attempts=2", (counts_case_t){.damaged = true, .times = 2});
    count_with(FLIP ",attempts=255 RETRY_MAX=2", (counts_case_t){.damaged = true, .fails = true, .times = 3});
    count_with(FLIP " CHECKSUM=report", (counts_case_t){.damaged = true, .fails = true, .times = 1});
    run(not_counting, SIZES, true);
    run(count_buffered, "SEGMENT_BYTES=4096 MESSAGE_EAGER_BYTES=64", false);
    run(partial, SIZES, false);
    run(beside, SIZES, false);
    run(beside, SIZES "PROGRESS=thread", false);
    run(look_at_few, SIZES "ROUTE=staged", false);
    return check_report("test_message_counts");
}
