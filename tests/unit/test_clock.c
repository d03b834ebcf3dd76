/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock never goes back, sleeping reaches its time, and waiting politely gets to sleep and back. */
#include "base/base_clock.h"
#include "fixtures/check.h"

static void check_clock(void)
{
    uint64_t last = sv_clock_ns();
    CHECK(last > 0);
    for (int i = 0; i < 1000; i++) {
        uint64_t now = sv_clock_ns();
        CHECK(now >= last);
        last = now;
    }
}

static void check_sleep(void)
{
    uint64_t begin = sv_clock_ns(), until = begin + 5000000;
    sv_clock_sleep_until_ns(until);
    CHECK(sv_clock_ns() >= until);
    begin = sv_clock_ns();
    sv_clock_sleep_until_ns(begin - 1000000000);
    sv_clock_sleep_until_ns(0);
    CHECK(sv_clock_ns() - begin < UINT64_C(30000000000));
}

static uint64_t time_calls_ns(sv_backoff_t *backoff, int calls)
{
    uint64_t begin = sv_clock_ns();
    for (int i = 0; i < calls; i++)
        sv_backoff(backoff);
    return sv_clock_ns() - begin;
}

/* Sleeps have lower bounds that hold on any machine; upper ones do not. */
static void check_relax(void)
{
    sv_backoff_t oversubscribed = {.max_sleep_us = 2000, .oversubscribed = 1};
    time_calls_ns(&oversubscribed, 50);
    CHECK_EQ(oversubscribed.idle, 50);
    CHECK(time_calls_ns(&oversubscribed, 12) >= 3000000); /* 1 + 2 + ... + 1024 + 2000 us, with room for signals */
    sv_backoff_reset(&oversubscribed);
    CHECK_EQ(oversubscribed.idle, 0);

    sv_backoff_t alone = {.max_sleep_us = 1000, .oversubscribed = 0};
    time_calls_ns(&alone, 1200);
    CHECK(time_calls_ns(&alone, 12) >= 2000000);

    sv_backoff_t never = {.max_sleep_us = 0, .oversubscribed = 1, .idle = 4294967290u};
    time_calls_ns(&never, 100);
    CHECK_EQ(never.idle, 4294967295u);
}

int main(void)
{
    check_clock();
    check_sleep();
    check_relax();
    return check_report("clock");
}
