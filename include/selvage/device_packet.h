/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file device_packet.h
 * @brief Part of device_api.h, which includes it: packets in kernels.
 *
 * A packet of an epoch has one coop, or several parts: coops that each fill, or read, a share of it, and each open and
 * close it once, with their number `part` and the same `parts`. Coops of parts need not be of one block.
 */
#ifndef SELVAGE_DEVICE_PACKET_H
#define SELVAGE_DEVICE_PACKET_H

#ifdef __cplusplus
#include <selvage/device_wait.h>

/** Rules that SELVAGE_DEVICE_DEBUG checks. */
typedef enum selvage_device_rule {
    SELVAGE_RULE_EPOCH = 1,  /**< an epoch of a session is below handle.epochs */
    SELVAGE_RULE_ORDER = 2,  /**< a packet's epochs follow each other, none is left out or repeated */
    SELVAGE_RULE_HANDLE = 3, /**< a handle is of one session */
    SELVAGE_RULE_PLACE = 4,  /**< offsets and sizes are within the packet and multiples of 8 */
    SELVAGE_RULE_ONCE = 5,   /**< every byte is stored, or loaded, once */
    SELVAGE_RULE_INDEX = 6,  /**< a packet's index, and a part's, are below their numbers */
    SELVAGE_RULE_BLOCK = 7   /**< blocks leave and sync, not warps */
} selvage_device_rule_t;

/** A packet of one epoch that this coop fills, or its part of it. Lives in registers. */
typedef struct selvage_outgoing {
    uint8_t *slot;          /**< in the receiver's memory; NULL: not open, because the exchange is poisoned */
    uint64_t bytes;         /**< of the packet */
    uint64_t key, sum, number, moved;
    uint32_t index, part, parts, broken;
    uint8_t *record;        /**< this and what follows is the library's */
    selvage_device_scratch_t *scratch;
} selvage_outgoing_t;

/** A packet of one epoch that has come, or a part of it. */
typedef struct selvage_incoming {
    const uint8_t *slot;    /**< NULL: the packet did not come, or the exchange is poisoned */
    uint64_t bytes;
    uint64_t key, sum, number, moved, expected;
    uint32_t index, part, parts, broken;
    const uint8_t *record;  /**< this and what follows is the library's */
    uint64_t *credit;
    selvage_device_scratch_t *scratch;
} selvage_incoming_t;

/** Bytes offset to offset + bytes of a packet. */
typedef struct selvage_share {
    uint64_t offset, bytes;
} selvage_share_t;

/** @brief The share of part @p part of @p parts: multiples of 512 bytes, but for the end. */
SELVAGE_DEVICE_FN selvage_share_t selvage_packet_share(uint64_t bytes, unsigned part, unsigned parts)
{
    const uint64_t units = (bytes + 511) / 512, each = (units + parts - 1) / parts * 512;
    const uint64_t begin = each * part < bytes ? each * part : bytes;
    return selvage_share_t{begin, begin + each < bytes ? each : bytes - begin};
}

namespace selvage_detail {

enum : unsigned { TURNS = 2, RECORD_WORDS = 8, NUMBER_WORD = 1, DIGEST_WORD = 7, ARRIVED_AT = 64 };

/* Bytes of a packet that a lane reads ahead of its word: with more, the word would come sooner. */
#if defined(SELVAGE_DEVICE_SOFT)
enum : unsigned { AHEAD_BYTES = 1 << 16 };
#else
enum : unsigned { AHEAD_BYTES = 16 };
#endif

SELVAGE_DEVICE_FN uint64_t key_of(const selvage_device_packet_t &packet, uint64_t number)
{
    const uint64_t index = packet.identity[3] & 0xffffffffu, tag = packet.identity[3] >> 32;
    const uint64_t source = packet.identity[4] & 0xffffffffu, destination = packet.identity[4] >> 32;
    uint64_t key = mix(number + packet.key_base);

    key = mix(destination + key);
    key = mix(source + key);
    key = mix(tag + key);
    key = mix(index + key);
    return mix(packet.identity[6] + key);
}

SELVAGE_DEVICE_FN uint64_t identity_word(const selvage_device_packet_t &packet, unsigned word, uint64_t number)
{
    return word == 1 ? number : packet.identity[word];
}

/* Which rule an opening breaks; 0: none. scratch->epoch is that of the last epoch closed, which may be one more than
   this part knows. */
SELVAGE_DEVICE_FN uint32_t broken_rule(const selvage_device_exchange_t &h, const selvage_device_packet_t *packets,
                                       uint32_t npackets, uint32_t index, uint32_t epoch, uint32_t part, uint32_t parts)
{
    const uint64_t number = h.first_epoch + epoch;

    if (index >= npackets || part >= parts)
        return SELVAGE_RULE_INDEX;
    if (epoch >= h.epochs)
        return SELVAGE_RULE_EPOCH;
    if (load(&h.state->last_epoch) >= h.first_epoch)
        return SELVAGE_RULE_HANDLE;
    const uint64_t last = load(&packets[index].scratch->epoch), before = last ? last : h.first_epoch - 1;
    return number <= before || number - before > TURNS ? SELVAGE_RULE_ORDER : 0;
}

/* Whether this thread of a coop that opens a packet found a rule broken, which is told. */
SELVAGE_DEVICE_FN bool breaks_rule(const selvage_device_exchange_t &h, const selvage_coop_t &coop, bool sends,
                                   uint32_t index, uint32_t epoch, uint32_t part, uint32_t parts)
{
    if (!DEBUG || coop.lane != 0)
        return false;
    const uint32_t rule =
        broken_rule(h, sends ? h.sends : h.recvs, sends ? h.nsends : h.nrecvs, index, epoch, part, parts);
    if (rule)
        fail(h, SELVAGE_DEVICE_MISUSE, sends, index, h.first_epoch + epoch, rule, epoch, false);
    return rule != 0;
}

/* The total over the parts of a packet, for the last one. */
struct total {
    bool last;
    uint64_t sum, moved;
};

/* One thread of a part, after its coop has come together. All is zero again afterwards: this turn is used next after
   the other rank has seen what the last part releases. */
SELVAGE_DEVICE_FN total count_part(selvage_device_scratch_t *scratch, uint64_t number, uint32_t parts, uint64_t sum,
                                   uint64_t moved)
{
    auto &turn = scratch->turn[number % TURNS];

    if (parts == 1)
        return total{true, sum, moved};
    add(&turn.sum, sum);
    if (DEBUG)
        add(&turn.bytes, moved);
    /* Partner: itself in the other parts. Whoever counts last has seen the sums, the stores and the loads of all. */
    if (add_u32(&turn.parts_closed, 1) != parts - 1)
        return total{false, 0, 0};
    const total all = {true, load(&turn.sum), DEBUG ? load(&turn.bytes) : 0};
    turn.sum = turn.bytes = 0;
    turn.parts_closed = 0;
    return all;
}

/* Told by the last part: what went wrong at this end. */
template <typename OPEN>
SELVAGE_DEVICE_FN bool breaks_places(const selvage_device_exchange_t &h, const OPEN &packet, bool sends,
                                     uint64_t moved)
{
    const bool places = packet.broken != 0, once = moved != packet.bytes;

    if (!DEBUG || (!places && !once))
        return false;
    fail(h, SELVAGE_DEVICE_MISUSE, sends, packet.index, packet.number,
         places ? SELVAGE_RULE_PLACE : SELVAGE_RULE_ONCE, moved, false);
    return true;
}

template <typename OPEN>
SELVAGE_DEVICE_FN bool is_place(OPEN &packet, uint64_t offset, uint64_t bytes, bool counts)
{
    if (!packet.slot)
        return false;
    if (!DEBUG)
        return true;
    packet.moved += counts ? bytes : 0;
    const bool good = offset % 8 == 0 && offset <= packet.bytes && bytes <= packet.bytes - offset &&
                      (bytes % 8 == 0 || offset + bytes == packet.bytes);
    packet.broken |= !good;
    return good;
}

/* The lanes of a coop copy bytes (unless to is NULL) and sum them; first is the number of the first word. */
SELVAGE_DEVICE_FN uint64_t move(const uint8_t *from, uint8_t *to, uint64_t bytes, uint64_t key, uint64_t first,
                                const selvage_coop_t &coop)
{
    enum : unsigned { BATCH = 4 }; /* loads in flight per lane */
    const uint64_t words = bytes / 8, step = uint64_t{2} * coop.lanes;
    uint64_t sum = 0, done = 0;

    if (((reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to)) & 15) == 0) {
        done = words / 2 * 2;
        uint64_t w = uint64_t{2} * coop.lane;
        for (; w + (BATCH - 1) * step < done; w += BATCH * step) {
            pair value[BATCH];
            SELVAGE_DEVICE_UNROLL
            for (unsigned b = 0; b < BATCH; b++)
                value[b] = *reinterpret_cast<const pair *>(from + 8 * (w + b * step));
            SELVAGE_DEVICE_UNROLL
            for (unsigned b = 0; b < BATCH; b++) {
                if (to)
                    *reinterpret_cast<pair *>(to + 8 * (w + b * step)) = value[b];
                sum += term(value[b].word[0], key, first + w + b * step) +
                       term(value[b].word[1], key, first + w + b * step + 1);
            }
        }
        for (; w < done; w += step) {
            const pair value = *reinterpret_cast<const pair *>(from + 8 * w);
            if (to)
                *reinterpret_cast<pair *>(to + 8 * w) = value;
            sum += term(value.word[0], key, first + w) + term(value.word[1], key, first + w + 1);
        }
    }
    for (uint64_t w = done + coop.lane; w < words; w += coop.lanes) {
        const uint64_t value = load_any(from + 8 * w);
        if (to)
            store_any(to + 8 * w, value);
        sum += term(value, key, first + w);
    }
    if (coop.lane == 0 && bytes % 8) {
        uint64_t word = 0;
        for (uint64_t b = 8 * words; b < bytes; b++) {
            word |= static_cast<uint64_t>(from[b]) << 8 * (b & 7);
            if (to)
                to[b] = from[b];
        }
        sum += term(word, key, first + words);
    }
    return sum;
}

} // namespace selvage_detail

/** @brief Whether something has failed, as far as this device knows: one answer for all threads of the coop. */
SELVAGE_DEVICE_FN bool selvage_device_is_poisoned(const selvage_device_exchange_t &h, const selvage_coop_t &coop)
{
    return selvage_coop_any(coop, coop.lane == 0 && selvage_detail::load_u32(&h.state->poisoned) != 0);
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

/**
 * @brief Opens packet @p index of epoch @p epoch of the session: waits until the receiver has given its slot back.
 * @return with slot NULL if that did not happen before the deadline, or the exchange is poisoned
 */
SELVAGE_DEVICE_FN selvage_outgoing_t selvage_outgoing_open(const selvage_device_exchange_t &h,
                                                           const selvage_coop_t &coop, uint32_t index, uint32_t epoch,
                                                           uint32_t part = 0, uint32_t parts = 1)
{
    using namespace selvage_detail;
    const uint64_t number = h.first_epoch + epoch;
    const bool known = !DEBUG || index < h.nsends;
    const selvage_device_packet_t &packet = h.sends[index];
    selvage_outgoing_t out = {};
    bool stop = breaks_rule(h, coop, true, index, epoch, part, parts);

    if (known) { /* on its way while the slot is waited for */
        uint8_t *const slot = packet.slot + number % TURNS * packet.slot_stride;
        out = selvage_outgoing_t{slot, packet.bytes, 0, 0, number, 0, index, part, parts, 0,
                                 slot + packet.record_offset, packet.scratch};
    }
    if (coop.lane == service_lane(coop) && !stop && known) {
        if (packet.within_rank && epoch < TURNS) {
            stop = load_u32(&h.state->poisoned) != 0; /* its slots are empty when a session begins */
        } else {
            const wait_end end = wait_for(h, packet.credit, number, nullptr);
            stop = end != THERE;
            if (end == LATE)
                fail(h, SELVAGE_DEVICE_NO_SLOT, true, index, number, 0, 0, false);
        }
    }
    out.key = h.checks && known ? key_of(packet, number) : 0;
    if (selvage_coop_any(coop, stop))
        return selvage_outgoing_t{};
    if (part == 0 && h.checks)
        for (unsigned w = coop.lane; w < DIGEST_WORD; w += coop.lanes)
            if (w != NUMBER_WORD) /* which comes last */
                store_any(out.record + 8 * w, identity_word(packet, w, number));
    return out;
}

/** @brief Counts a word that was stored at @p offset of out.slot by other means. One thread. */
SELVAGE_DEVICE_FN void selvage_outgoing_count(selvage_outgoing_t &out, uint64_t offset, uint64_t word)
{
    if (selvage_detail::is_place(out, offset, 8, true))
        out.sum += selvage_detail::term(word, out.key, offset / 8);
}

/** @brief Stores an element of 8, 16, 24, ... bytes at a multiple of 8. By the calling thread alone. */
template <typename T>
SELVAGE_DEVICE_FN void selvage_outgoing_store(selvage_outgoing_t &out, uint64_t offset, const T &value)
{
    using namespace selvage_detail;
    static_assert(sizeof(T) % 8 == 0, "elements have a multiple of 8 bytes");
    enum : unsigned { WORDS = sizeof(T) / 8 };
    uint64_t word[WORDS];

    if (!is_place(out, offset, sizeof(T), true))
        return;
    __builtin_memcpy(word, &value, sizeof word);
    uint8_t *to = out.slot + offset;
    if (WORDS % 2 == 0 && offset % 16 == 0) {
        SELVAGE_DEVICE_UNROLL
        for (unsigned w = 0; w + 1 < WORDS; w += 2)
            *reinterpret_cast<pair *>(to + 8 * w) = pair{{word[w], word[w + 1]}};
    } else {
        SELVAGE_DEVICE_UNROLL
        for (unsigned w = 0; w < WORDS; w++)
            *reinterpret_cast<uint64_t *>(to + 8 * w) = word[w];
    }
    SELVAGE_DEVICE_UNROLL
    for (unsigned w = 0; w < WORDS; w++)
        out.sum += term(word[w], out.key, offset / 8 + w);
}

/** @brief Stores @p bytes bytes, of any alignment at @p from. All threads of the coop call. */
SELVAGE_DEVICE_FN void selvage_outgoing_store_range(selvage_outgoing_t &out, const selvage_coop_t &coop,
                                                    uint64_t offset, const void *from, uint64_t bytes)
{
    if (selvage_detail::is_place(out, offset, bytes, coop.lane == 0))
        out.sum += selvage_detail::move(static_cast<const uint8_t *>(from), out.slot + offset, bytes, out.key,
                                        offset / 8, coop);
}

/** @brief Closes the packet, or this part of it; the last part releases it to the receiver. */
SELVAGE_DEVICE_FN void selvage_outgoing_close(const selvage_device_exchange_t &h, const selvage_coop_t &coop,
                                              selvage_outgoing_t &out)
{
    using namespace selvage_detail;
    if (!out.slot)
        return;
    /* The barriers inside also put every thread's stores before lane 0 counts the part in or releases. */
    const uint64_t sum = selvage_coop_sum(coop, out.sum);
    const uint64_t moved = DEBUG ? selvage_coop_sum(coop, out.moved) : 0;
    if (DEBUG)
        out.broken = selvage_coop_any(coop, out.broken != 0);
    out.slot = nullptr;
    if (coop.lane != service_lane(coop))
        return;
    const total all = count_part(out.scratch, out.number, out.parts, sum, moved);
    if (!all.last || breaks_places(h, out, true, all.moved))
        return;
    uint64_t *const record = reinterpret_cast<uint64_t *>(out.record);
    if (h.checks)
        store_system(record + DIGEST_WORD, finish(out.key, all.sum));
    /* Partner: wait_for() of a receiver that looks ahead, for which this is a hint, and the digest a proof. Of parts it
       comes after a fence: where the receiver is through, others may open the next epoch but one, and what
       count_part() has cleared comes before that. */
    if (h.checks && out.parts > 1)
        release_system();
    if (h.checks)
        store_system(record + NUMBER_WORD, out.number);
    /* Once for all, and the order among them matters to nobody. But the record comes before the word below, with its
       number: whoever has seen that word compares all of the record. */
    release_system();
    store_system(&out.scratch->epoch, out.number);
    /* Partner: wait_for() in selvage_incoming_await(), or the library's pull, of the receiver. */
    store_system(reinterpret_cast<uint64_t *>(out.record + ARRIVED_AT), word_of(out.number, 1));
}

/* --- receiving ---------------------------------------------------------------------------------------------------- */

namespace selvage_detail {

/* What the record's words say that is not this packet: 0 if nothing. The attempt, in the first word, is nobody's. */
SELVAGE_DEVICE_FN uint64_t other_record(const selvage_device_packet_t &packet, const selvage_incoming_t &in,
                                        unsigned lane, unsigned lanes)
{
    uint64_t sum = 0;

    for (unsigned w = lane; w < DIGEST_WORD; w += lanes) {
        const uint64_t seen = load_system(reinterpret_cast<const uint64_t *>(in.record) + w);
        const uint64_t other = (seen ^ identity_word(packet, w, in.number)) &
                               (w == 0 ? ~uint64_t{0} >> 8 : ~uint64_t{0});
        sum += other ? mix(other) | 1 : 0;
    }
    return sum;
}

/* What the lanes find in a slot, past what a multiprocessor caches: a line that came while it was read may not stay
   there. A slot has room for a whole line at the end of a packet. */
SELVAGE_DEVICE_FN uint64_t probe(const selvage_incoming_t &in, unsigned lane, unsigned lanes)
{
    const uint64_t *const words = reinterpret_cast<const uint64_t *>(in.slot);
    uint64_t sum = 0;

    for (uint64_t w = uint64_t{2} * lane; 8 * w < in.bytes; w += uint64_t{2} * lanes) {
        const pair value = load_line_system(words + w);
        SELVAGE_DEVICE_UNROLL
        for (unsigned i = 0; i < 2; i++) {
            const uint64_t left = in.bytes - 8 * w > 8 * i ? in.bytes - 8 * w - 8 * i : 0;
            const uint64_t mask = left < 8 ? (uint64_t{1} << 8 * left) - 1 : ~uint64_t{0};
            sum += left ? term(value.word[i] & mask, in.key, w + i) : 0;
        }
    }
    return sum;
}

/*
 * Waits for a packet, and reads it as soon as its record is there. Stores may arrive in any order; if record and digest
 * are right all the same, the packet is there. Otherwise its word, which is stored after a fence, says when it is.
 * Every warp looks for itself, but for the one that stores the end of what is sent. Lane 0 gets AHEAD only for what is
 * proved, and NOT_YET for what has to be waited for. No byte that is read here is used: the packet is verified again,
 * as it is loaded.
 */
SELVAGE_DEVICE_FN wait_end look_ahead(const selvage_device_exchange_t &h, const selvage_coop_t &coop,
                                      const selvage_device_packet_t &packet, selvage_incoming_t &in)
{
    const unsigned readers = service_lane(coop) ? service_lane(coop) : coop.lanes;
    wait_end end = NOT_YET;
    uint64_t sum = 0;

    if (coop.lane < readers) {
        const uint64_t *const record = reinterpret_cast<const uint64_t *>(in.record);
        end = wait_for(h, record + ARRIVED_AT / 8, in.number, record + NUMBER_WORD);
        if (end == AHEAD || end == THERE) {
            in.expected = load_system(record + DIGEST_WORD);
            sum = other_record(packet, in, coop.lane, readers) + probe(in, coop.lane, readers);
        }
    }
    sum = selvage_coop_sum(coop, sum);
    return end == AHEAD && finish(in.key, sum) != in.expected ? NOT_YET : end;
}

} // namespace selvage_detail

/**
 * @brief Waits for packet @p index of epoch @p epoch of the session.
 * @return with slot NULL if it did not come before the deadline, or the exchange is poisoned
 */
SELVAGE_DEVICE_FN selvage_incoming_t selvage_incoming_await(const selvage_device_exchange_t &h,
                                                            const selvage_coop_t &coop, uint32_t index,
                                                            uint32_t epoch, uint32_t part = 0, uint32_t parts = 1)
{
    using namespace selvage_detail;
    const uint64_t number = h.first_epoch + epoch;
    const bool known = !DEBUG || index < h.nrecvs;
    const selvage_device_packet_t &packet = h.recvs[index];
    selvage_incoming_t in = {};
    bool stop = breaks_rule(h, coop, false, index, epoch, part, parts);
    wait_end end = NOT_YET;

    if (known) {
        const uint8_t *const slot = packet.slot + number % TURNS * packet.slot_stride;
        in = selvage_incoming_t{slot, packet.bytes, h.checks ? key_of(packet, number) : 0, 0, number, 0, 0, index,
                                part, parts, 0, slot + packet.record_offset, packet.credit, packet.scratch};
    }
    if (known && packet.looks && h.checks && in.bytes <= uint64_t{AHEAD_BYTES} * coop.lanes) {
        end = look_ahead(h, coop, packet, in);
        if (!selvage_coop_any(coop, coop.lane == 0 && end != AHEAD))
            return in;
    }
    if (coop.lane == 0 && !stop) {
        if (end == NOT_YET)
            end = wait_for(h, reinterpret_cast<const uint64_t *>(in.record + ARRIVED_AT), number, nullptr);
        stop = end != THERE;
        if (end == LATE)
            fail(h, SELVAGE_DEVICE_ABSENT, false, index, number, 0, 0, false);
    }
    if (selvage_coop_any(coop, stop))
        return selvage_incoming_t{};
    if (!h.checks)
        return in;
    in.expected = coop.lane == 0 ? load_any(in.record + 8 * DIGEST_WORD) : 0;
    /* A record that is another packet's spoils the sum, so that one comparison tells of both. */
    in.sum = part == 0 ? other_record(packet, in, coop.lane, coop.lanes) : 0;
    return in;
}

/** @brief Counts a word that was loaded at @p offset of in.slot by other means. One thread. */
SELVAGE_DEVICE_FN void selvage_incoming_count(selvage_incoming_t &in, uint64_t offset, uint64_t word)
{
    if (selvage_detail::is_place(in, offset, 8, true))
        in.sum += selvage_detail::term(word, in.key, offset / 8);
}

/** @brief Loads an element, as selvage_outgoing_store() stores it; zero if the packet is not there. */
template <typename T>
SELVAGE_DEVICE_FN T selvage_incoming_load(selvage_incoming_t &in, uint64_t offset)
{
    using namespace selvage_detail;
    static_assert(sizeof(T) % 8 == 0, "elements have a multiple of 8 bytes");
    enum : unsigned { WORDS = sizeof(T) / 8 };
    uint64_t word[WORDS] = {};
    T value;

    if (is_place(in, offset, sizeof(T), true)) {
        const uint8_t *from = in.slot + offset;
        if (WORDS % 2 == 0 && offset % 16 == 0) {
            SELVAGE_DEVICE_UNROLL
            for (unsigned w = 0; w + 1 < WORDS; w += 2) {
                const pair two = *reinterpret_cast<const pair *>(from + 8 * w);
                word[w] = two.word[0];
                word[w + 1] = two.word[1];
            }
        } else {
            SELVAGE_DEVICE_UNROLL
            for (unsigned w = 0; w < WORDS; w++)
                word[w] = *reinterpret_cast<const uint64_t *>(from + 8 * w);
        }
        SELVAGE_DEVICE_UNROLL
        for (unsigned w = 0; w < WORDS; w++)
            in.sum += term(word[w], in.key, offset / 8 + w);
    }
    __builtin_memcpy(&value, word, sizeof value);
    return value;
}

/** @brief Loads bytes to memory of any alignment, or nowhere (@p to NULL: they are only verified). The coop calls. */
SELVAGE_DEVICE_FN void selvage_incoming_load_range(selvage_incoming_t &in, const selvage_coop_t &coop, uint64_t offset,
                                                   void *to, uint64_t bytes)
{
    if (selvage_detail::is_place(in, offset, bytes, coop.lane == 0))
        in.sum += selvage_detail::move(in.slot + offset, static_cast<uint8_t *>(to), bytes, in.key, offset / 8, coop);
}

/**
 * @brief Closes the packet, or this part of it; the last part verifies it and gives its slot back to the sender.
 * @return false if it does not verify or did not come. Of several parts only the last one knows.
 */
SELVAGE_DEVICE_FN bool selvage_incoming_close(const selvage_device_exchange_t &h, const selvage_coop_t &coop,
                                              selvage_incoming_t &in)
{
    using namespace selvage_detail;
    bool bad = false;

    if (!in.slot)
        return false;
    /* The barriers inside also put every thread's loads before lane 0 counts the part in or releases. */
    const uint64_t sum = selvage_coop_sum(coop, in.sum);
    const uint64_t moved = DEBUG ? selvage_coop_sum(coop, in.moved) : 0;
    if (DEBUG)
        in.broken = selvage_coop_any(coop, in.broken != 0);
    in.slot = nullptr;
    if (coop.lane == 0) {
        const total all = count_part(in.scratch, in.number, in.parts, sum, moved);
        const uint64_t found = h.checks && all.last ? finish(in.key, all.sum) : in.expected;
        if (all.last && breaks_places(h, in, false, all.moved)) {
            bad = true;
        } else if (all.last && found != in.expected) {
            const selvage_device_packet_t &packet = h.recvs[in.index];
            const bool record_ok =
                load_any(in.record + 8) == in.number && load_any(in.record + 16) == packet.identity[2] &&
                load_any(in.record + 24) == packet.identity[3] && load_any(in.record + 32) == packet.identity[4];
            bad = true;
            fail(h, SELVAGE_DEVICE_DAMAGED, false, in.index, in.number, in.expected, found, record_ok);
        } else if (all.last) {
            /* What count_part() has cleared, and the loads of the other parts, come before; and loads of which there is
               no sum. */
            if (in.parts > 1 || !h.checks)
                release_system();
            store_system(&in.scratch->epoch, in.number);
            /* The loads of this coop are complete: their sum was compared. Partner: wait_for() in
               selvage_outgoing_open(), or the library's push, of the sender. */
            store_system(in.credit, word_of(in.number + TURNS, 1));
        }
    }
    return !selvage_coop_any(coop, bad);
}

#endif
#endif
