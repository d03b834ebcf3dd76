/* SPDX-License-Identifier: BSD-3-Clause */
/* Comparing clocks. Plain arithmetic, any thread; differences wrap as the clocks may. */
#include "base/base_clocks.h"

void sv_clocks_compare(sv_clock_sample_t *sample, uint64_t asked_ns, uint64_t other_ns, uint64_t heard_ns)
{
    const uint64_t error_ns = (heard_ns - asked_ns + 1) / 2, middle_ns = asked_ns + (heard_ns - asked_ns) / 2;
    if (sample->taken && sample->error_ns <= error_ns)
        return;
    *sample = (sv_clock_sample_t){
        .taken = true, .at_ns = middle_ns, .ahead_ns = (int64_t)(other_ns - middle_ns), .error_ns = error_ns};
}

static bool may_be_one_clock(const sv_clock_sample_t *sample)
{
    const uint64_t apart_ns = sample->ahead_ns < 0 ? 0 - (uint64_t)sample->ahead_ns : (uint64_t)sample->ahead_ns;
    return apart_ns <= sample->error_ns;
}

int64_t sv_clocks_ahead_ns(const sv_clock_sample_t *first, const sv_clock_sample_t *last, uint64_t own_ns)
{
    if (may_be_one_clock(first) && (!last->taken || may_be_one_clock(last)))
        return 0;
    if (!last->taken || last->at_ns <= first->at_ns)
        return first->ahead_ns;
    /* Comparisons that lie closer than they are exact say nothing about a drift, and times must not go backwards. */
    const int64_t drift_ns = last->ahead_ns - first->ahead_ns;
    if (2 * (uint64_t)(drift_ns < 0 ? -drift_ns : drift_ns) >= last->at_ns - first->at_ns)
        return first->ahead_ns;
    const double share = (double)(int64_t)(own_ns - first->at_ns) / (double)(last->at_ns - first->at_ns);
    return first->ahead_ns + (int64_t)(share * (double)drift_ns);
}
