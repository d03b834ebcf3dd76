/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file device_wait.h
 * @brief Part of device_api.h, which includes it: how kernels wait for words of other ranks, and tell what has failed.
 *
 * Nothing here is for applications.
 */
#ifndef SELVAGE_DEVICE_WAIT_H
#define SELVAGE_DEVICE_WAIT_H

#ifdef __cplusplus
#include <selvage/device_coop.h>
#include <selvage/device_handle.h>

namespace selvage_detail {

enum : unsigned { LOOK_AT_HOST = 63, LOOK_AT_CLOCK = 7 };

#if defined(SELVAGE_DEVICE_DEBUG)
enum : bool { DEBUG = true };
#else
enum : bool { DEBUG = false };
#endif

/* Not given the handle, whose address would want a copy of it on a stack. */
SELVAGE_DEVICE_COLD void report_failure(selvage_device_state_t *state, selvage_device_report_t *report,
                                        uint64_t *abort, selvage_device_failure_t failure, bool sends, uint32_t index,
                                        uint64_t epoch, uint64_t expected, uint64_t found, bool record_ok)
{
    if (exchange_u32(&state->poisoned, 1) != 0)
        return;
    report->epoch = epoch;
    report->sends = sends;
    report->index = index;
    report->expected = expected;
    report->found = found;
    report->record_ok = record_ok;
    release_system();
    /* Partners: the acquires of this rank's host; and of its kernels that wait. */
    store_system(&report->failure, static_cast<uint64_t>(failure));
    release_system();
    store_system(abort, 1);
}

/* The first failure is told, and ends all waits of this device. */
SELVAGE_DEVICE_FN void fail(const selvage_device_exchange_t &h, selvage_device_failure_t failure, bool sends,
                            uint32_t index, uint64_t epoch, uint64_t expected, uint64_t found, bool record_ok)
{
    report_failure(h.state, h.report, h.abort, failure, sends, index, epoch, expected, found, record_ok);
}

enum wait_end { THERE, POISONED, LATE, AHEAD, NOT_YET };

/*
 * Looks at a word until it tells of the epoch. The host's word is far, and looked at seldom. AHEAD if the other word is
 * the epoch before that (NULL: it is not looked at): it is that of a record, which nothing has put after its payload.
 * It is looked at first, since the acquire after it lets go of whatever is cached of the payload.
 */
SELVAGE_DEVICE_FN wait_end wait_for(const selvage_device_exchange_t &h, const uint64_t *word, uint64_t number,
                                    const uint64_t *ahead)
{
    uint64_t begin = 0;
    unsigned looks = 0, turns = 0;

    for (;;) {
        const uint32_t poisoned = load_u32(&h.state->poisoned);
        /* Partner: the stores of the number in selvage_outgoing_close() of the other rank, or in push_record() of the
           library; only a right digest proves what it says. */
        const bool recorded = ahead && load_system(ahead) == number;
        /* Partner: the release in selvage_outgoing_close() of the other rank, or in selvage_incoming_close(); or of the
           library's own kernels there. */
        const uint64_t seen = load_acquire_system(word);
        if (poisoned)
            return POISONED;
        if (word_tells(seen, number))
            return THERE;
        if (recorded)
            return AHEAD;
        if ((++looks & LOOK_AT_HOST) == 0 && load_acquire_system(h.abort)) { /* partner: sv_exchange_poison() */
            (void)exchange_u32(&h.state->poisoned, 1);
            return POISONED;
        }
        if ((looks & LOOK_AT_CLOCK) == 0) { /* which takes as long as the word */
            const uint64_t now = clock_ns();
            begin = begin ? begin : now;
            if (now - begin > h.wait_ns)
                return LATE;
        }
        if (looks > LOOK_AT_HOST) /* what comes soon is not slept through */
            back_off(&turns);
    }
}

/* The lane that looks for a free slot, and stores the end of what is sent: the first of a block's last warp. What it
   waits for, the fence above all, holds up no other warp before they come together. */
SELVAGE_DEVICE_FN unsigned service_lane(const selvage_coop_t &coop)
{
    return (coop.lanes - 1) / SELVAGE_DEVICE_WARP * SELVAGE_DEVICE_WARP;
}

} // namespace selvage_detail

#endif
#endif
