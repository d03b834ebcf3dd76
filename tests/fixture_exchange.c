/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See fixture_exchange.h. Receives and sends are declared in the order of the plan, which is what decides who meets
 * whom among packets of one pair and tag. Buffers belong to the fixture and go after its exchange.
 */
#include "fixture_exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { MARGIN = 64, CANARY = 0xc3, STALE = 0x5a };

plan_packet_t *plan_add(plan_t *plan, int source, int destination, int tag, size_t bytes)
{
    if (plan->count >= PLAN_PACKETS_MAX) {
        fprintf(stderr, "a plan holds %d packets\n", PLAN_PACKETS_MAX);
        abort();
    }
    plan_packet_t *packet = &plan->packet[plan->count++];
    *packet = (plan_packet_t){.source = source, .destination = destination, .tag = tag, .bytes = bytes};
    return packet;
}

static uint64_t content_key(const fixture_t *fixture, unsigned number, uint64_t epoch)
{
    return fixture->plan->seed * 1000003 + (uint64_t)number * UINT64_C(0x100000000) + epoch * UINT64_C(0x1000000000000);
}

static bool make_end(fixture_t *fixture, fixture_end_t *end, size_t bytes, unsigned odd, bool registered)
{
    void *block;
    if (selvage_device_malloc(fixture->self->dev, bytes + 2 * MARGIN + odd, &block) != SELVAGE_SUCCESS)
        return false;
    end->block = block;
    end->data = end->block + MARGIN + odd;
    memset(end->block, CANARY, bytes + 2 * MARGIN + odd);
    if (!registered)
        return true;
    return selvage_buffer_register(fixture->self->comm, end->block, bytes + 2 * MARGIN + odd, &end->buffer) ==
           SELVAGE_SUCCESS;
}

static bool declare(fixture_t *fixture, unsigned number)
{
    const plan_packet_t *packet = &fixture->plan->packet[number];
    bool good = true;
    if (packet->destination == fixture->self->rank) {
        good = make_end(fixture, &fixture->recv[number], packet->bytes, packet->recv_odd, packet->registered) &&
               selvage_exchange_add_recv(fixture->ex, fixture->recv[number].data, packet->bytes, packet->source,
                                         packet->tag, NULL) == SELVAGE_SUCCESS;
    }
    if (good && packet->source == fixture->self->rank) {
        good = make_end(fixture, &fixture->send[number], packet->bytes, packet->send_odd, false) &&
               selvage_exchange_add_send(fixture->ex, fixture->send[number].data, packet->bytes, packet->destination,
                                         packet->tag, NULL) == SELVAGE_SUCCESS;
    }
    return good;
}

bool fixture_try_open(fixture_t *fixture, local_rank_t *self, const plan_t *plan,
                      const selvage_exchange_params_t *params)
{
    *fixture = (fixture_t){.self = self, .plan = plan};
    fixture->send = calloc(plan->count + 1, sizeof *fixture->send);
    fixture->recv = calloc(plan->count + 1, sizeof *fixture->recv);
    if (!fixture->send || !fixture->recv)
        abort();
    bool good = selvage_exchange_create(self->comm, params, &fixture->ex) == SELVAGE_SUCCESS;
    for (unsigned i = 0; good && i < plan->count; i++)
        good = declare(fixture, i);
    return good;
}

bool fixture_open(fixture_t *fixture, local_rank_t *self, const plan_t *plan, const selvage_exchange_params_t *params)
{
    bool good = fixture_try_open(fixture, self, plan, params);
    CHECK(good);
    if (!good)
        fprintf(stderr, "rank %d: %s\n", self->rank, selvage_error_detail());
    return good;
}

static void drop_end(fixture_t *fixture, fixture_end_t *end)
{
    if (end->buffer)
        CHECK_STATUS(selvage_buffer_unregister(end->buffer), SELVAGE_SUCCESS);
    selvage_device_free(fixture->self->dev, end->block);
}

void fixture_close(fixture_t *fixture)
{
    selvage_exchange_destroy(fixture->ex);
    for (unsigned i = 0; i < fixture->plan->count; i++) {
        drop_end(fixture, &fixture->send[i]);
        drop_end(fixture, &fixture->recv[i]);
    }
    free(fixture->send);
    free(fixture->recv);
    *fixture = (fixture_t){.self = NULL};
}

void fixture_fill(fixture_t *fixture)
{
    for (unsigned i = 0; i < fixture->plan->count; i++) {
        size_t bytes = fixture->plan->packet[i].bytes;
        if (fixture->send[i].data)
            local_ranks_fill(fixture->send[i].data, bytes, content_key(fixture, i, fixture->epoch + 1));
        if (fixture->recv[i].data)
            memset(fixture->recv[i].data, STALE, bytes);
    }
}

selvage_status_t fixture_start(fixture_t *fixture, void *stream)
{
    fixture_fill(fixture);
    fixture->epoch++;
    return selvage_exchange_start(fixture->ex, stream);
}

static bool canaries_live(const fixture_end_t *end, const plan_packet_t *packet)
{
    for (size_t i = 0; i < MARGIN + packet->recv_odd; i++)
        if (end->block[i] != CANARY)
            return false;
    for (size_t i = 0; i < MARGIN; i++)
        if (end->data[packet->bytes + i] != CANARY)
            return false;
    return true;
}

static bool end_is_wrong(fixture_t *fixture, unsigned number, bool loud)
{
    const plan_packet_t *packet = &fixture->plan->packet[number];
    const fixture_end_t *end = &fixture->recv[number];
    if (!end->data)
        return false;
    long at = local_ranks_wrong(end->data, packet->bytes, content_key(fixture, number, fixture->epoch));
    bool safe = canaries_live(end, packet);
    if (loud && (at >= 0 || !safe))
        fprintf(stderr, "rank %d: packet %u of the plan (from %d, tag %d, %zu bytes), epoch %llu: %s at %ld\n",
                fixture->self->rank, number, packet->source, packet->tag, packet->bytes,
                (unsigned long long)fixture->epoch, safe ? "wrong" : "surroundings touched", at);
    return at >= 0 || !safe;
}

unsigned fixture_wrong(fixture_t *fixture, bool loud)
{
    unsigned wrong = 0;
    for (unsigned i = 0; i < fixture->plan->count; i++)
        wrong += end_is_wrong(fixture, i, loud);
    return wrong;
}

void fixture_run(fixture_t *fixture, unsigned epochs)
{
    selvage_status_t status = selvage_exchange_commit(fixture->ex);
    CHECK_STATUS(status, SELVAGE_SUCCESS);
    for (unsigned i = 0; i < epochs && status == SELVAGE_SUCCESS; i++) {
        CHECK_STATUS(status = fixture_start(fixture, NULL), SELVAGE_SUCCESS);
        if (status == SELVAGE_SUCCESS)
            CHECK_STATUS(status = selvage_exchange_wait(fixture->ex, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(fixture_wrong(fixture, true), 0);
    }
}

static selvage_route_t wanted_route(int here, int there, selvage_route_t on_node, int ranks_per_node)
{
    if (here == there)
        return on_node == SELVAGE_ROUTE_STAGED ? SELVAGE_ROUTE_STAGED : SELVAGE_ROUTE_SELF;
    if (ranks_per_node > 0 && here / ranks_per_node != there / ranks_per_node)
        return SELVAGE_ROUTE_STAGED;
    return on_node;
}

void fixture_check_routes(fixture_t *fixture, selvage_route_t on_node, int ranks_per_node)
{
    uint32_t index = 0;
    for (unsigned i = 0; i < fixture->plan->count; i++) {
        const plan_packet_t *packet = &fixture->plan->packet[i];
        selvage_route_t route = SELVAGE_ROUTE_DEFAULT;
        if (packet->source != fixture->self->rank)
            continue;
        CHECK_STATUS(selvage_exchange_send_route(fixture->ex, index++, &route), SELVAGE_SUCCESS);
        CHECK_STR(selvage_route_name(route),
                  selvage_route_name(wanted_route(packet->source, packet->destination, on_node, ranks_per_node)));
    }
}
