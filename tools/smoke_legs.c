/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measuring legs. Each is run once unmeasured, because first touches of memory and MPI's connections cost extra.
 */
#include "smoke_legs.h"

typedef void (*leg_run_t)(tool_traffic_t *traffic);

static void run_down(tool_traffic_t *traffic)
{
    tool_traffic_copy(traffic, traffic->host_send, traffic->device_send, SELVAGE_COPY_DEVICE_TO_HOST);
}

static void run_up(tool_traffic_t *traffic)
{
    tool_traffic_copy(traffic, traffic->device_recv, traffic->host_recv, SELVAGE_COPY_HOST_TO_DEVICE);
}

static void run_across(tool_traffic_t *traffic)
{
    tool_traffic_copy(traffic, traffic->device_recv, traffic->device_send, SELVAGE_COPY_DEVICE_TO_DEVICE);
}

static void add_leg(tool_traffic_t *traffic, smoke_legs_t *legs, const char *name, const char *label, leg_run_t run,
                    int repeats)
{
    double seconds[SMOKE_LEG_REPEATS_MAX];
    if (repeats > SMOKE_LEG_REPEATS_MAX)
        repeats = SMOKE_LEG_REPEATS_MAX;
    run(traffic);
    for (int i = 0; i < repeats; i++) {
        tool_barrier(traffic->job);
        const double start = tool_seconds();
        run(traffic);
        seconds[i] = tool_seconds() - start;
    }
    legs->leg[legs->count++] =
        (smoke_leg_t){.name = name, .label = label, .seconds = tool_median_of_slowest(traffic->job, seconds, repeats)};
}

void smoke_legs_measure(tool_traffic_t *traffic, selvage_route_t route, int repeats, smoke_legs_t *legs_out)
{
    smoke_legs_t legs = {0};
    const bool through_host = route == SELVAGE_ROUTE_STAGED || route == SELVAGE_ROUTE_SHARED;
    if (through_host)
        add_leg(traffic, &legs, "device to host", "d2h", run_down, repeats);
    if (route == SELVAGE_ROUTE_STAGED || route == SELVAGE_ROUTE_DIRECT)
        add_leg(traffic, &legs, "host message", "msg", tool_traffic_message, repeats);
    if (through_host)
        add_leg(traffic, &legs, "host to device", "h2d", run_up, repeats);
    else if (route != SELVAGE_ROUTE_DIRECT)
        add_leg(traffic, &legs, "device to device", "d2d", run_across, repeats);
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
