/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages and a progress thread that sleeps for long, because nothing is under way: a receive that is posted meanwhile
 * wakes it. So a synchronous send to a rank that calls nothing completes long before the sleep would have ended, within
 * a node and by the wire, small and long; and the statistics tell the most that was open. Ranks are threads.
 */
#include <stdatomic.h>
#include <time.h>

#include "base/base_clock.h"
#include "fixtures/check.h"
#include "fixtures/message_end.h"

enum { TAG = 4, ROUNDS = 2, ROUNDS_MOST = 10, SOON_S = 30 };

/* Sleeps double: after so many milliseconds with nothing to do the thread is in one that lasts for some 400 more. Who
   is woken takes a few. A machine that is busy otherwise may add to that, and one round of all is to show it. */
enum { UNTIL_ASLEEP_MS = 600, LATE_MS = 20, WOKEN_MS = 250 };

typedef struct shape {
    size_t bytes;
    long pause_ms;
} shape_t;

static _Atomic int sent; /* by rank 0, over all rounds */
static _Atomic bool shown;

static void pause_ms(long ms)
{
    struct timespec pause = {.tv_nsec = ms * 1000000};
    nanosleep(&pause, NULL);
}

/* Rank 1 posts its receive and then calls nothing before rank 0's send, which comes later, is complete. */
static void stay_away(local_rank_t *self)
{
    const shape_t *wanted = self->arg;
    const message_shape_t shape = {.bytes = wanted->bytes, .on_device = true, .stream = SELVAGE_MESSAGE_NO_STREAM};
    uint64_t fastest_ns = UINT64_MAX;
    for (int round = 1; round <= ROUNDS || (round <= ROUNDS_MOST && !shown); round++) {
        message_end_t end;
        message_end_open(&end, self, &shape);
        local_ranks_barrier(self);
        pause_ms(wanted->pause_ms);
        if (self->rank == 1) {
            message_end_recv(&end, &shape, 0, TAG);
            const uint64_t began_ns = sv_clock_ns();
            while (atomic_load(&sent) < round && (sv_clock_ns() - began_ns) / 1000000000 < SOON_S)
                pause_ms(1);
            CHECK_EQ(atomic_load(&sent), round);
            const uint64_t took_ns = sv_clock_ns() - began_ns;
            fastest_ns = took_ns < fastest_ns ? took_ns : fastest_ns;
            shown = wanted->pause_ms != UNTIL_ASLEEP_MS || fastest_ns / 1000000 < WOKEN_MS;
        } else {
            pause_ms(LATE_MS);
            message_end_issend(&end, &shape, 1, TAG, (uint64_t)round);
        }
        CHECK_STATUS(sv_message_wait(&end.request, NULL), SELVAGE_SUCCESS);
        if (self->rank == 0)
            atomic_store(&sent, round);
        else
            CHECK_EQ(message_end_wrong(&end, wanted->bytes, (uint64_t)round), -1);
        message_end_close(&end);
        local_ranks_barrier(self); /* both know whether there is another round */
    }
    if (self->rank == 1 && wanted->pause_ms == UNTIL_ASLEEP_MS)
        CHECK(fastest_ns / 1000000 < WOKEN_MS);
    selvage_stats_t stats = {SELVAGE_STATS_INIT};
    CHECK_STATUS(selvage_comm_stats(self->comm, &stats), SELVAGE_SUCCESS);
    CHECK_EQ(stats.message_requests_most, 1);
    CHECK(stats.progress_queued_most >= 1);
    local_ranks_barrier(self);
}

int main(void)
{
    for (int which = 0; which < 4; which++) {
        shape_t wanted = {.bytes = which % 2 ? 100000 : 300, .pause_ms = which == 3 ? UNTIL_ASLEEP_MS : 20};
        atomic_store(&sent, 0);
        shown = false;
        local_ranks_env("PROGRESS=thread PROGRESS_IDLE_US=1000000 SEGMENT_BYTES=16384");
        local_ranks_run(&(local_run_t){.size = 2, .ranks_per_node = which / 2, .body = stay_away, .arg = &wanted});
        CHECK_EQ(local_ranks_left(), 0);
    }
    return check_report("test_message_thread");
}
