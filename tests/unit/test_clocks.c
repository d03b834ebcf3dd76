/* SPDX-License-Identifier: BSD-3-Clause */
/* Comparing clocks: the quickest answer counts, clocks that may be one are one, and others go evenly in between. */
#include "base/base_clocks.h"
#include "fixtures/check.h"

int main(void)
{
    sv_clock_sample_t first = {0}, last = {0};
    /* A clock that is 5000 ahead, asked with delays of 100, 10 and 50. */
    sv_clocks_compare(&first, 1000, 1000 + 30 + 5000, 1100);
    CHECK_EQ(first.error_ns, 50);
    sv_clocks_compare(&first, 2000, 2000 + 9 + 5000, 2010);
    CHECK_EQ(first.error_ns, 5);
    sv_clocks_compare(&first, 3000, 3000 + 1 + 5000, 3050);
    CHECK_EQ(first.error_ns, 5);
    CHECK_EQ(first.at_ns, 2005);
    CHECK_EQ(first.ahead_ns, 5004);
    CHECK_EQ(sv_clocks_ahead_ns(&first, &last, 1000000), 5004);

    /* It gains 1000 in a million. */
    sv_clocks_compare(&last, 1002000, 1002005 + 6004, 1002010);
    CHECK_EQ(last.ahead_ns, 6004);
    CHECK_EQ(sv_clocks_ahead_ns(&first, &last, 2005), 5004);
    CHECK_EQ(sv_clocks_ahead_ns(&first, &last, 502005), 5504);
    CHECK_EQ(sv_clocks_ahead_ns(&first, &last, 1002005), 6004);

    /* One that is far from the beginning. */
    sv_clock_sample_t slow = {0}, none = {0};
    sv_clocks_compare(&slow, UINT64_C(9000000000000000000), 10, UINT64_C(9000000000000000002));
    CHECK_EQ(slow.ahead_ns, -INT64_C(8999999999999999991));
    CHECK_EQ(sv_clocks_ahead_ns(&slow, &none, 5), -INT64_C(8999999999999999991));

    /* The same clock, as far as anybody can tell: at both ends, or it is another one after all. */
    sv_clock_sample_t same = {0}, other = {0};
    sv_clocks_compare(&same, 1000, 1090, 1100);
    CHECK_EQ(sv_clocks_ahead_ns(&same, &none, 1), 0);
    sv_clocks_compare(&other, 5000, 5200, 5100);
    CHECK(sv_clocks_ahead_ns(&same, &other, 5050) == 150);
    return check_report("test_clocks");
}
