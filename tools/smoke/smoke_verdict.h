/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rule that turns a row's figures into a word. Pure, so that it can be tested without a fast machine.
 */
#ifndef SELVAGE_SMOKE_VERDICT_H
#define SELVAGE_SMOKE_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum smoke_verdict {
    SMOKE_VERDICT_ABSENT,  /* the route is not there: no verdict */
    SMOKE_VERDICT_RIGHT,   /* data right; speed not judged here, or packets too small to tell */
    SMOKE_VERDICT_GOOD,    /* from 80 % of what the legs allow, and of the wire */
    SMOKE_VERDICT_UNKNOWN, /* as good as its legs allow, but nobody knows what the wire could do */
    SMOKE_VERDICT_SUSPECT,
    SMOKE_VERDICT_BROKEN /* below 50 %, or any bad packet */
} smoke_verdict_t;

typedef struct smoke_figures {
    uint64_t bad_packets;
    bool speed_judges;     /* false on soft, or when ranks outnumber cores */
    double leg_s;          /* seconds of the slowest leg alone */
    double share_of_bound; /* of smoke_bound_s(); 1 is 100 %; negative: not measured (packets without bytes) */
    bool uses_wire;        /* packets travel as host messages */
    double share_of_wire;  /* negative: unknown */
} smoke_figures_t;

/*
 * The least time that an exchange can take whose legs take these times alone. A packet goes in pieces, each of which
 * has to pass one leg before it enters the next: the slowest leg is busy all the time, the others add one piece each,
 * which is everything where a packet is one piece. start_s is what the smallest exchange of the route takes: launches
 * and waits, no bytes; at most 100 us of it count.
 */
double smoke_bound_s(const double *leg_s, int legs, size_t pieces, double start_s);

smoke_verdict_t smoke_verdict(const smoke_figures_t *figures);

/* "good", "wire unknown", ...: static text. */
const char *smoke_verdict_name(smoke_verdict_t verdict);

#endif
