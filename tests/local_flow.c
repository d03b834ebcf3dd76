/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See local_flow.h. Receives and sends are declared in the order of the plan, which is what decides who meets whom
 * among packets of one pair and tag. Buffers belong to the flow and go after its exchange.
 */
#include "local_flow.h"

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

static uint64_t content_key(const flow_t *flow, unsigned number, uint64_t epoch)
{
    return flow->plan->seed * 1000003 + (uint64_t)number * UINT64_C(0x100000000) + epoch * UINT64_C(0x1000000000000);
}

static bool make_end(flow_t *flow, flow_end_t *end, size_t bytes, unsigned odd, bool registered)
{
    void *block;
    if (selvage_device_malloc(flow->self->dev, bytes + 2 * MARGIN + odd, &block) != SELVAGE_SUCCESS)
        return false;
    end->block = block;
    end->data = end->block + MARGIN + odd;
    memset(end->block, CANARY, bytes + 2 * MARGIN + odd);
    if (!registered)
        return true;
    return selvage_buffer_register(flow->self->comm, end->block, bytes + 2 * MARGIN + odd, &end->buffer) ==
           SELVAGE_SUCCESS;
}

static bool declare(flow_t *flow, unsigned number)
{
    const plan_packet_t *packet = &flow->plan->packet[number];
    bool good = true;
    if (packet->destination == flow->self->rank) {
        good = make_end(flow, &flow->recv[number], packet->bytes, packet->recv_odd, packet->registered) &&
               selvage_exchange_add_recv(flow->ex, flow->recv[number].data, packet->bytes, packet->source, packet->tag,
                                         NULL) == SELVAGE_SUCCESS;
    }
    if (good && packet->source == flow->self->rank) {
        good = make_end(flow, &flow->send[number], packet->bytes, packet->send_odd, false) &&
               selvage_exchange_add_send(flow->ex, flow->send[number].data, packet->bytes, packet->destination,
                                         packet->tag, NULL) == SELVAGE_SUCCESS;
    }
    return good;
}

bool flow_try_open(flow_t *flow, local_rank_t *self, const plan_t *plan, const selvage_exchange_params_t *params)
{
    *flow = (flow_t){.self = self, .plan = plan};
    flow->send = calloc(plan->count + 1, sizeof *flow->send);
    flow->recv = calloc(plan->count + 1, sizeof *flow->recv);
    if (!flow->send || !flow->recv)
        abort();
    bool good = selvage_exchange_create(self->comm, params, &flow->ex) == SELVAGE_SUCCESS;
    for (unsigned i = 0; good && i < plan->count; i++)
        good = declare(flow, i);
    return good;
}

bool flow_open(flow_t *flow, local_rank_t *self, const plan_t *plan, const selvage_exchange_params_t *params)
{
    bool good = flow_try_open(flow, self, plan, params);
    CHECK(good);
    if (!good)
        fprintf(stderr, "rank %d: %s\n", self->rank, selvage_error_detail());
    return good;
}

static void drop_end(flow_t *flow, flow_end_t *end)
{
    if (end->buffer)
        CHECK_STATUS(selvage_buffer_unregister(end->buffer), SELVAGE_SUCCESS);
    selvage_device_free(flow->self->dev, end->block);
}

void flow_close(flow_t *flow)
{
    selvage_exchange_destroy(flow->ex);
    for (unsigned i = 0; i < flow->plan->count; i++) {
        drop_end(flow, &flow->send[i]);
        drop_end(flow, &flow->recv[i]);
    }
    free(flow->send);
    free(flow->recv);
    *flow = (flow_t){.self = NULL};
}

void flow_fill(flow_t *flow)
{
    for (unsigned i = 0; i < flow->plan->count; i++) {
        size_t bytes = flow->plan->packet[i].bytes;
        if (flow->send[i].data)
            local_ranks_fill(flow->send[i].data, bytes, content_key(flow, i, flow->epoch + 1));
        if (flow->recv[i].data)
            memset(flow->recv[i].data, STALE, bytes);
    }
}

selvage_status_t flow_start(flow_t *flow, void *stream)
{
    flow_fill(flow);
    flow->epoch++;
    return selvage_exchange_start(flow->ex, stream);
}

static bool canaries_live(const flow_end_t *end, const plan_packet_t *packet)
{
    for (size_t i = 0; i < MARGIN + packet->recv_odd; i++)
        if (end->block[i] != CANARY)
            return false;
    for (size_t i = 0; i < MARGIN; i++)
        if (end->data[packet->bytes + i] != CANARY)
            return false;
    return true;
}

static bool end_is_wrong(flow_t *flow, unsigned number, bool loud)
{
    const plan_packet_t *packet = &flow->plan->packet[number];
    const flow_end_t *end = &flow->recv[number];
    if (!end->data)
        return false;
    long at = local_ranks_wrong(end->data, packet->bytes, content_key(flow, number, flow->epoch));
    bool safe = canaries_live(end, packet);
    if (loud && (at >= 0 || !safe))
        fprintf(stderr, "rank %d: packet %u of the plan (from %d, tag %d, %zu bytes), epoch %llu: %s at %ld\n",
                flow->self->rank, number, packet->source, packet->tag, packet->bytes, (unsigned long long)flow->epoch,
                safe ? "wrong" : "surroundings touched", at);
    return at >= 0 || !safe;
}

unsigned flow_wrong(flow_t *flow, bool loud)
{
    unsigned wrong = 0;
    for (unsigned i = 0; i < flow->plan->count; i++)
        wrong += end_is_wrong(flow, i, loud);
    return wrong;
}

void flow_run(flow_t *flow, unsigned epochs)
{
    selvage_status_t status = selvage_exchange_commit(flow->ex);
    CHECK_STATUS(status, SELVAGE_SUCCESS);
    for (unsigned i = 0; i < epochs && status == SELVAGE_SUCCESS; i++) {
        CHECK_STATUS(status = flow_start(flow, NULL), SELVAGE_SUCCESS);
        if (status == SELVAGE_SUCCESS)
            CHECK_STATUS(status = selvage_exchange_wait(flow->ex, NULL), SELVAGE_SUCCESS);
        CHECK_EQ(flow_wrong(flow, true), 0);
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

void flow_check_routes(flow_t *flow, selvage_route_t on_node, int ranks_per_node)
{
    uint32_t index = 0;
    for (unsigned i = 0; i < flow->plan->count; i++) {
        const plan_packet_t *packet = &flow->plan->packet[i];
        selvage_route_t route = SELVAGE_ROUTE_DEFAULT;
        if (packet->source != flow->self->rank)
            continue;
        CHECK_STATUS(selvage_exchange_send_route(flow->ex, index++, &route), SELVAGE_SUCCESS);
        CHECK_STR(selvage_route_name(route),
                  selvage_route_name(wanted_route(packet->source, packet->destination, on_node, ranks_per_node)));
    }
}
