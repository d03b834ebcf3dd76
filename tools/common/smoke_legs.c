/* SPDX-License-Identifier: BSD-3-Clause */
/* Measuring legs, each as selvage-bench does. */
#include "tools/common/smoke_legs.h"

#include "tools/common/bench_measure.h"

static void run_down(void *context)
{
    tool_traffic_t *traffic = context;
    tool_traffic_copy(traffic, traffic->host_send, traffic->device_send, SELVAGE_COPY_DEVICE_TO_HOST);
}

static void run_up(void *context)
{
    tool_traffic_t *traffic = context;
    tool_traffic_copy(traffic, traffic->device_recv, traffic->host_recv, SELVAGE_COPY_HOST_TO_DEVICE);
}

static void run_across(void *context)
{
    tool_traffic_t *traffic = context;
    tool_traffic_copy(traffic, traffic->device_recv, traffic->device_send, SELVAGE_COPY_DEVICE_TO_DEVICE);
}

static void run_message(void *context)
{
    tool_traffic_message(context);
}

static void add_leg(const tool_traffic_t *traffic, smoke_legs_t *legs, const char *name, const char *label,
                    bench_work_t work, int repeats)
{
    const double seconds = bench_measure(traffic->job, BENCH_WAIT, 0, repeats, &work).median_s;
    legs->leg[legs->count++] = (smoke_leg_t){.name = name, .label = label, .seconds = seconds};
}

/* In one queue or in several, whichever is faster. False if a copy failed. */
static bool add_peer_leg(tool_traffic_t *traffic, bench_peer_t *peer, smoke_legs_t *legs, int repeats)
{
    const bench_work_t work = {bench_peer_copy, bench_peer_finish, peer};
    const int most = traffic->packets < BENCH_PEER_LANES ? traffic->packets : BENCH_PEER_LANES;
    const int count = legs->count;
    peer->failed = false;
    peer->lanes = 1;
    add_leg(traffic, legs, "device to peer", "d2p", work, repeats);
    const double alone = legs->leg[count].seconds;
    peer->lanes = most > 1 ? most : 1;
    legs->count = count;
    add_leg(traffic, legs, "device to peer", "d2p", work, repeats);
    if (alone < legs->leg[count].seconds)
        legs->leg[count].seconds = alone;
    if (bench_all(traffic->job, !peer->failed))
        return true;
    legs->count = count;
    return false;
}

void smoke_legs_measure(tool_traffic_t *traffic, bench_peer_t *peer, selvage_route_t route, int repeats,
                        smoke_legs_t *legs_out)
{
    smoke_legs_t legs = {0};
    const bench_work_t down = {run_down, NULL, traffic}, up = {run_up, NULL, traffic};
    const bench_work_t message = {run_message, NULL, traffic}, across = {run_across, NULL, traffic};
    if (route == SELVAGE_ROUTE_STAGED || route == SELVAGE_ROUTE_SHARED) {
        add_leg(traffic, &legs, "device to host", "d2h", down, repeats);
        if (route == SELVAGE_ROUTE_STAGED)
            add_leg(traffic, &legs, "host message", "msg", message, repeats);
        add_leg(traffic, &legs, "host to device", "h2d", up, repeats);
    } else if (route == SELVAGE_ROUTE_DIRECT) {
        add_leg(traffic, &legs, "host message", "msg", message, repeats);
    } else if (route != SELVAGE_ROUTE_PEER || !peer || !peer->ready || !add_peer_leg(traffic, peer, &legs, repeats)) {
        add_leg(traffic, &legs, "device to device", "d2d", across, repeats);
    }
    *legs_out = legs;
}

const smoke_leg_t *smoke_legs_slowest(const smoke_legs_t *legs)
{
    const smoke_leg_t *slowest = NULL;
    for (int i = 0; i < legs->count; i++) {
        if (!slowest || legs->leg[i].seconds > slowest->seconds)
            slowest = &legs->leg[i];
    }
    return slowest;
}
