/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rule that turns a row's figures into a word. Pure, so that it can be tested without a fast machine.
 */
#ifndef SELVAGE_SMOKE_VERDICT_H
#define SELVAGE_SMOKE_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum smoke_verdict {
    SMOKE_VERDICT_ABSENT,  /* the route is not there: no verdict */
    SMOKE_VERDICT_RIGHT,   /* data right; speed not judged here, or packets too small to tell */
    SMOKE_VERDICT_GOOD,    /* from 80 % of the slowest leg, and of the wire */
    SMOKE_VERDICT_UNKNOWN, /* as good as its legs, but nobody knows what the wire could do */
    SMOKE_VERDICT_SUSPECT,
    SMOKE_VERDICT_BROKEN /* below 50 %, or any bad packet */
} smoke_verdict_t;

typedef struct smoke_figures {
    uint64_t bad_packets;
    bool speed_judges;    /* false on soft, or when ranks outnumber cores */
    double leg_s;         /* seconds of the slowest leg alone */
    double share_of_leg;  /* 1 is 100 %; negative: not measured (packets without bytes) */
    bool uses_wire;       /* packets travel as host messages */
    double share_of_wire; /* negative: unknown */
} smoke_figures_t;

smoke_verdict_t smoke_verdict(const smoke_figures_t *figures);

/* "good", "wire unknown", ...: static text. */
const char *smoke_verdict_name(smoke_verdict_t verdict);

#endif
