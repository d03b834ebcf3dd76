/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 80 % and 50 % are of the wire's peak as well as of what the legs allow: a wire that runs at a third of its speed is
 * broken even where nothing else is slower. Without knowing that peak a host message is therefore never called good.
 *
 * A leg of some microseconds is the launch of a copy: how an exchange compares with it says nothing of links.
 */
#include "tools/smoke/smoke_verdict.h"

static const double good_share = 0.8, broken_share = 0.5, shortest_leg_s = 50e-6, start_most_s = 100e-6;

double smoke_bound_s(const double *leg_s, int legs, size_t pieces, double start_s)
{
    double slowest = 0, sum = 0;
    for (int i = 0; i < legs; i++) {
        slowest = leg_s[i] > slowest ? leg_s[i] : slowest;
        sum += leg_s[i];
    }
    const double start = start_s < start_most_s ? start_s : start_most_s;
    return start + slowest + (sum - slowest) / (double)(pieces ? pieces : 1);
}

smoke_verdict_t smoke_verdict(const smoke_figures_t *figures)
{
    const bool wire_known = figures->uses_wire && figures->share_of_wire >= 0;
    double share = figures->share_of_bound;
    if (figures->bad_packets)
        return SMOKE_VERDICT_BROKEN;
    if (!figures->speed_judges || share < 0 || figures->leg_s < shortest_leg_s)
        return SMOKE_VERDICT_RIGHT;
    if (wire_known && figures->share_of_wire < share)
        share = figures->share_of_wire;
    if (share < broken_share)
        return SMOKE_VERDICT_BROKEN;
    if (share < good_share)
        return SMOKE_VERDICT_SUSPECT;
    return figures->uses_wire && !wire_known ? SMOKE_VERDICT_UNKNOWN : SMOKE_VERDICT_GOOD;
}

const char *smoke_verdict_name(smoke_verdict_t verdict)
{
    switch (verdict) {
    case SMOKE_VERDICT_ABSENT:
        return "n/a";
    case SMOKE_VERDICT_RIGHT:
        return "right";
    case SMOKE_VERDICT_GOOD:
        return "good";
    case SMOKE_VERDICT_UNKNOWN:
        return "wire unknown";
    case SMOKE_VERDICT_SUSPECT:
        return "suspect";
    case SMOKE_VERDICT_BROKEN:
        return "broken";
    }
    return "unknown";
}
