/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plan says which packets travel between which ranks; all ranks know the whole plan. A fixture is one rank's part of
 * it: the exchange, the buffers at odd addresses, canaries around every receive. The content of a packet follows from
 * its place in the plan and the epoch, so that a receiver knows what must come without asking anybody.
 */
#ifndef SELVAGE_TESTS_FIXTURE_EXCHANGE_H
#define SELVAGE_TESTS_FIXTURE_EXCHANGE_H

#include "local_ranks.h"

typedef struct plan_packet {
    int source, destination, tag;
    size_t bytes;
    unsigned send_odd, recv_odd; /* bytes by which the buffers are off their alignment */
    bool registered;             /* the receive buffer */
} plan_packet_t;

enum { PLAN_PACKETS_MAX = 512 };

typedef struct plan {
    uint64_t seed;
    unsigned count;
    plan_packet_t packet[PLAN_PACKETS_MAX];
} plan_t;

/* Appends a packet. */
plan_packet_t *plan_add(plan_t *plan, int source, int destination, int tag, size_t bytes);

typedef struct fixture_end {
    uint8_t *block, *data;       /* the allocation, and the packet in it */
    selvage_buffer_t *buffer;
} fixture_end_t;

typedef struct fixture {
    local_rank_t *self;
    const plan_t *plan;
    selvage_exchange_t *ex;
    uint64_t epoch;              /* started so far */
    fixture_end_t *send, *recv;  /* one per packet of the plan; empty where this rank is not that end */
} fixture_t;

/* Makes buffers and the exchange with all its packets, not committed. False (and a failed check) if a call failed. */
bool fixture_open(fixture_t *fixture, local_rank_t *self, const plan_t *plan, const selvage_exchange_params_t *params);
/* The same where calls may fail: false without a failed check, and the fixture is to be closed all the same. */
bool fixture_try_open(fixture_t *fixture, local_rank_t *self, const plan_t *plan,
                      const selvage_exchange_params_t *params);
/* Destroys the exchange, then the buffers. */
void fixture_close(fixture_t *fixture);
/* Fresh data for the next epoch; receive buffers are overwritten. */
void fixture_fill(fixture_t *fixture);
/* fixture_fill() and start; counts the epoch. */
selvage_status_t fixture_start(fixture_t *fixture, void *stream);
/* Packets that did not arrive whole, or whose surroundings were touched. Says which on standard error if loud. */
unsigned fixture_wrong(fixture_t *fixture, bool loud);
/* commit, then so many epochs, every one checked. */
void fixture_run(fixture_t *fixture, unsigned epochs);
/* Checks the route that commit settled for every packet: wanted on the node, staged beyond, self at home. */
void fixture_check_routes(fixture_t *fixture, selvage_route_t on_node, int ranks_per_node);

#endif
