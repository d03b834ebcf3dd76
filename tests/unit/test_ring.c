/* SPDX-License-Identifier: BSD-3-Clause */
/* The single-producer single-consumer ring: empty, full, wrapped; two threads whose items arrive whole and in order. */
#include <pthread.h>
#include <sched.h>

#include "base/base_ring.h"
#include "fixtures/check.h"

enum { ITEMS = 20000 };

static sv_ring_t ring;
static long items[ITEMS];

static void check_alone(void)
{
    long values[SV_RING_SLOTS + 1];
    sv_ring_init(&ring);
    CHECK(sv_ring_pop(&ring) == NULL);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < SV_RING_SLOTS; i++)
            CHECK(sv_ring_push(&ring, &values[i]));
        CHECK(!sv_ring_push(&ring, &values[SV_RING_SLOTS]));
        CHECK(sv_ring_pop(&ring) == &values[0]);
        CHECK(sv_ring_push(&ring, &values[SV_RING_SLOTS]));
        for (int i = 1; i <= SV_RING_SLOTS; i++)
            CHECK(sv_ring_pop(&ring) == &values[i]);
        CHECK(sv_ring_pop(&ring) == NULL);
    }
}

/* The counters are 32 bits and wrap in a long run: start them just below. */
static void check_counter_wrap(void)
{
    long value;
    atomic_init(&ring.head, UINT32_MAX - 1);
    atomic_init(&ring.tail, UINT32_MAX - 1);
    for (int i = 0; i < SV_RING_SLOTS; i++)
        CHECK(sv_ring_push(&ring, &value));
    CHECK(!sv_ring_push(&ring, &value));
    for (int i = 0; i < SV_RING_SLOTS; i++)
        CHECK(sv_ring_pop(&ring) == &value);
    CHECK(sv_ring_pop(&ring) == NULL);
}

/* Writes plain memory before each push: the ring must carry it over. */
static void *produce(void *arg)
{
    (void)arg;
    for (long i = 0; i < ITEMS; i++) {
        items[i] = 3 * i + 1;
        while (!sv_ring_push(&ring, &items[i]))
            sched_yield();
    }
    return NULL;
}

static void check_two_threads(void)
{
    pthread_t producer;
    long wrong = 0;
    sv_ring_init(&ring);
    CHECK_EQ(pthread_create(&producer, NULL, produce, NULL), 0);
    for (long i = 0; i < ITEMS; i++) {
        long *item;
        while (!(item = sv_ring_pop(&ring)))
            sched_yield();
        wrong += item != &items[i] || *item != 3 * i + 1;
        *item = 0;
    }
    pthread_join(producer, NULL);
    CHECK_EQ(wrong, 0);
    CHECK(sv_ring_pop(&ring) == NULL);
}

int main(void)
{
    check_alone();
    check_counter_wrap();
    check_two_threads();
    return check_report("ring");
}
