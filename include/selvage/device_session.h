/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file device_session.h
 * @brief Part of device_api.h, which includes it: what all blocks of a session do together, and its end.
 */
#ifndef SELVAGE_DEVICE_SESSION_H
#define SELVAGE_DEVICE_SESSION_H

#ifdef __cplusplus
#include <selvage/device_packet.h>

/**
 * @brief All blocks of the kernel come together; what each has stored is seen by the others.
 * @return false if one did not come before the deadline, or the exchange is poisoned; then blocks may not be together
 */
SELVAGE_DEVICE_FN bool selvage_device_sync(const selvage_device_exchange_t &h, const selvage_coop_t &block)
{
    using namespace selvage_detail;
    enum : uint32_t { FLIP = 0x80000000u };
    bool stop = DEBUG && block.warp;

    if (stop && block.lane == 0)
        fail(h, SELVAGE_DEVICE_MISUSE, true, 0, h.first_epoch, SELVAGE_RULE_BLOCK, 0, false);
    selvage_coop_sync(block);
    if (block.lane == 0 && !stop) {
        const uint64_t begin = clock_ns();
        unsigned looks = 0, turns = 0;
        /* Each round adds half of the word's range, whatever the number of blocks. */
        const uint32_t before = add_u32(&h.state->arrived, block.index == 0 ? FLIP - (block.count - 1) : 1);
        /* Partner: the addition of the last block to come. */
        while (((load_acquire_u32(&h.state->arrived) ^ before) & FLIP) == 0) {
            if (load_u32(&h.state->poisoned)) {
                stop = true;
                break;
            }
            if (clock_ns() - begin > h.wait_ns) {
                stop = true;
                fail(h, SELVAGE_DEVICE_SYNC, true, block.index, h.first_epoch, 0, block.count, false);
                break;
            }
            if (++looks > LOOK_AT_HOST)
                back_off(&turns);
        }
    }
    return !selvage_coop_any(block, stop);
}

namespace selvage_detail {

/* Number of the first packet, receives after sends, whose last epoch is not closed; UINT32_MAX: none. */
SELVAGE_DEVICE_FN uint32_t unfinished(const selvage_device_exchange_t &h, uint32_t i)
{
    const selvage_device_packet_t &packet = i < h.nsends ? h.sends[i] : h.recvs[i - h.nsends];
    const uint64_t last = h.first_epoch + h.epochs - 1, closed = load(&packet.scratch->epoch);

    packet.scratch->epoch = 0;
    return closed == last ? 0xffffffffu : i;
}

} // namespace selvage_detail

/**
 * @brief Ends the session: the last call of every block, after failures too. The last block tells the hosts.
 *
 * Until then the other calls of the host on the exchange wait or are refused, and neighbours that go on with eager
 * epochs wait.
 */
SELVAGE_DEVICE_FN void selvage_device_leave(const selvage_device_exchange_t &h, const selvage_coop_t &block)
{
    using namespace selvage_detail;
    const uint64_t last = h.first_epoch + h.epochs - 1;
    const uint32_t npackets = h.nsends + h.nrecvs;

    if (DEBUG && block.warp && block.lane == 0)
        fail(h, SELVAGE_DEVICE_MISUSE, true, 0, last, SELVAGE_RULE_BLOCK, 0, false);
    selvage_coop_sync(block);
    /* Partner: itself in the other blocks. The last one has seen what all have done. */
    if (!selvage_coop_any(block, block.lane == 0 && add_u32(&h.state->left, 1) == block.count - 1))
        return;
    for (uint32_t i = block.lane; i < npackets; i += block.lanes) {
        const uint32_t left = unfinished(h, i);
        if (left != 0xffffffffu && !load_u32(&h.state->poisoned))
            fail(h, SELVAGE_DEVICE_EARLY, left < h.nsends, left < h.nsends ? left : left - h.nsends, last, 0, 0, false);
    }
    if (block.lane == 0) {
        h.state->left = h.state->arrived = 0;
        store_system(&h.state->last_epoch, last);
    }
    selvage_coop_sync(block);
    const bool good = !load_u32(&h.state->poisoned);
    for (uint32_t i = block.lane; good && i < h.nrecvs; i += block.lanes) {
        const selvage_device_packet_t &packet = h.recvs[i];
        if (packet.within_rank)
            continue;
        release_system();
        /* Partners: the acquires in onesided_send() and in onesided_drain() of the sender's host. */
        store_system(packet.leave, word_of(last + TURNS, 1));
        store_system(packet.verdict, word_of(last, 1));
    }
    selvage_coop_sync(block); /* the own host may free everything after its words */
    for (uint32_t i = block.lane; i < npackets; i += block.lanes) {
        const bool sent = i < h.nsends;
        uint64_t *done = sent ? h.sends[i].done : h.recvs[i - h.nsends].done;
        release_system();
        /* Partner: the acquires of the own host in is_batch_under_way(). */
        store_system(done, word_of(last, sent || good ? 1 : 2));
    }
}

#endif
#endif
