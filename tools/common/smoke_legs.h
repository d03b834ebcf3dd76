/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The legs of a route, each measured alone but on all ranks at once: what the exchange is compared with. staged: copy
 * down, host message, copy up; shared: the two copies; peer: the raw copy between devices, or where that cannot be made
 * (the software device) one on the device, as for self.
 */
#ifndef SELVAGE_SMOKE_LEGS_H
#define SELVAGE_SMOKE_LEGS_H

#include "tools/common/bench_peer.h"
#include "tools/common/tool_traffic.h"

enum { SMOKE_LEGS_MAX = 3 };

typedef struct smoke_leg {
    const char *name;  /* "device to host" */
    const char *label; /* "d2h", for the table */
    double seconds;    /* median over repetitions of the slowest rank */
} smoke_leg_t;

typedef struct smoke_legs {
    int count;
    smoke_leg_t leg[SMOKE_LEGS_MAX];
} smoke_legs_t;

/* Measures with the packets as shaped; peer may be NULL. Collective; overwrites the receive buffers. */
void smoke_legs_measure(tool_traffic_t *traffic, bench_peer_t *peer, selvage_route_t route, int repeats,
                        smoke_legs_t *legs_out);

/* The leg that takes longest; NULL if there is none. */
const smoke_leg_t *smoke_legs_slowest(const smoke_legs_t *legs);

#endif
