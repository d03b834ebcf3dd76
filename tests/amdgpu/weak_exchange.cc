/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See weak_exchange.h. Memory is as the library allocates it: slots, records, the words beside them and the credit near
 * a kernel are not cached, users' buffers, items and scratch are ordinary, and the words of hosts are pinned.
 *
 *   SLOTS      kernels wait for each other: the push for its credit, the pull for the packet; slots are used again
 *   STRAIGHT   the push stores into the receiver's buffer, which its L2 may keep; hosts see the words, and launch
 *   DAMAGED    as SLOTS, and in the last epoch a packet is damaged on its way, which the pull must report
 */
#include <stdio.h>
#include <string.h>

#include "amdgpu/amdgpu_weak.h"
#include "amdgpu/weak_exchange.h"
#include "kernels/kernel_args.h"

/* As in kernels.h, which is for C only. */
extern "C" {
uint64_t sv_digest_mix(uint64_t x);
uint64_t sv_digest_key(const sv_record_t *identity);
uint64_t sv_digest_sum(uint64_t key, uint64_t first_word, const void *data, uint64_t bytes);
uint64_t sv_digest_finish(uint64_t key, uint64_t sum);
}

namespace {

enum { PACKETS = 3, EPOCHS = 3, MOST_BYTES = 1600, THREADS = 128, SENDER = 0, RECEIVER = 1, RECORD = 64, BESIDE = 64 };
const uint64_t PATIENCE = 200000, STEPS = 3 * PATIENCE, TICK_NS = 10;

enum route_t { SLOTS, STRAIGHT, DAMAGED, ROUTES };

struct words_t { /* of a packet, of hosts; each in a line of its own */
    uint64_t *arrived, *sent, *failed, *verdict, *credit, *done;
};

struct packet_t {
    uint64_t bytes, stride;
    uint8_t *src, *dst, *slot; /* slot: where the push stores */
    uint64_t *credit;          /* near the push */
    words_t words;
    sv_verify_result_t *result;
    uint64_t *record_seen;
    sv_record_t identity;
    unsigned arrived, sent, done; /* epochs that hosts have seen */
};

struct exchange_t {
    const weak_kernels_t *kernels;
    amdgpu_machine_t *machine;
    route_t route;
    unsigned nslots, nblocks, epochs, pushed, pulled; /* epochs that are to be, that were launched */
    uint64_t seed;
    sv_push_item_t *push_items;
    sv_pull_item_t *pull_items;
    sv_digest_scratch_t *scratch; /* of pushes, then of pulls, a line for each */
    uint64_t *abort;
    packet_t packet[PACKETS];
    uint32_t first_block[PACKETS + 1];
};

char reason[160];
const char *const routes[ROUTES] = {"by slots", "straight", "damaged"};
route_t chosen; /* of the exchange that runs */

uint64_t draw(exchange_t *exchange, uint64_t below)
{
    return amdgpu_machine_random(exchange->machine) % below;
}

void *take(exchange_t *exchange, unsigned owner, amdgpu_memory_t kind, size_t bytes)
{
    return amdgpu_machine_allocate(exchange->machine, owner, kind, bytes);
}

uint64_t *take_word(exchange_t *exchange, const char *name)
{
    uint64_t *word = (uint64_t *)take(exchange, AMDGPU_HOST, AMDGPU_PINNED, sizeof(uint64_t));
    amdgpu_machine_mark(exchange->machine, word, sizeof *word, name);
    return word;
}

/* A scratch for each packet. */
sv_digest_scratch_t *take_scratch(exchange_t *exchange, unsigned owner)
{
    uint8_t *scratch = (uint8_t *)take(exchange, owner, AMDGPU_COARSE, PACKETS * 128);
    for (unsigned p = 0; p < PACKETS; p++) {
        sv_digest_scratch_t *own = (sv_digest_scratch_t *)(scratch + 128 * p);
        amdgpu_machine_mark(exchange->machine, &own->sum, sizeof own->sum, "sum");
        amdgpu_machine_mark(exchange->machine, &own->blocks_done, sizeof own->blocks_done, "count");
        amdgpu_machine_mark(exchange->machine, &own->go, sizeof own->go, "go");
    }
    return (sv_digest_scratch_t *)scratch;
}

/* What a packet holds in an epoch. */
void fill_bytes(const exchange_t *exchange, unsigned packet, unsigned epoch, uint8_t *bytes)
{
    const uint64_t from = sv_digest_mix(exchange->seed * 1000 + packet * 100 + epoch);
    for (uint64_t w = 0; w < MOST_BYTES / 8; w++) {
        const uint64_t word = sv_digest_mix(from + w);
        memcpy(bytes + 8 * w, &word, sizeof word);
    }
}

bool holds_bytes(const exchange_t *exchange, unsigned packet, unsigned epoch, const uint8_t *place)
{
    uint8_t wanted[MOST_BYTES];
    fill_bytes(exchange, packet, epoch, wanted);
    return memcmp(place, wanted, exchange->packet[packet].bytes) == 0;
}

void refill_source(exchange_t *exchange, unsigned packet, unsigned epoch)
{
    uint8_t bytes[MOST_BYTES];
    fill_bytes(exchange, packet, epoch, bytes);
    amdgpu_machine_store(exchange->machine, exchange->packet[packet].src, bytes, exchange->packet[packet].bytes);
}

bool is_damaged(const exchange_t *exchange, unsigned packet, unsigned epoch)
{
    return exchange->route == DAMAGED && packet == 0 && epoch == exchange->epochs;
}

sv_record_t identity_of(unsigned number, uint64_t bytes)
{
    sv_record_t identity = {};
    identity.magic = SV_RECORD_MAGIC;
    identity.version = SV_RECORD_VERSION;
    identity.kind = SV_RECORD_PACKET;
    identity.exchange = 77;
    identity.index = number;
    identity.tag = 5;
    identity.destination = 1;
    identity.bytes = bytes;
    identity.salt = number + 5000;
    return identity;
}

void set_up_packet(exchange_t *exchange, unsigned number)
{
    const unsigned alignments[] = {0, 0, 8, 4, 1};
    packet_t *packet = &exchange->packet[number];
    const bool straight = exchange->route == STRAIGHT;
    packet->bytes = 1 + draw(exchange, MOST_BYTES - 16);
    if (draw(exchange, 2))
        packet->bytes = (packet->bytes + 7) / 8 * 8;
    packet->src = (uint8_t *)take(exchange, SENDER, AMDGPU_COARSE, packet->bytes + 16) + alignments[draw(exchange, 5)];
    packet->dst = (uint8_t *)take(exchange, RECEIVER, AMDGPU_COARSE, packet->bytes + 16);
    packet->dst += alignments[draw(exchange, 5)];
    packet->stride = (straight ? 0 : (packet->bytes + 15) / 16 * 16) + RECORD + BESIDE;
    packet->slot = (uint8_t *)take(exchange, RECEIVER, AMDGPU_UNCACHED, exchange->nslots * packet->stride);
    packet->credit = (uint64_t *)take(exchange, SENDER, AMDGPU_UNCACHED, sizeof(uint64_t));
    packet->result = (sv_verify_result_t *)take(exchange, AMDGPU_HOST, AMDGPU_PINNED, sizeof *packet->result);
    packet->record_seen = (uint64_t *)take(exchange, AMDGPU_HOST, AMDGPU_PINNED, RECORD);
    packet->words = words_t{take_word(exchange, "arrived"), take_word(exchange, "sent"),
                            take_word(exchange, "failed"),  take_word(exchange, "verdict"),
                            take_word(exchange, "credit"),  take_word(exchange, "done")};
    amdgpu_machine_mark(exchange->machine, packet->credit, sizeof *packet->credit, "credit");
    amdgpu_machine_mark(exchange->machine, &packet->result->epoch, sizeof packet->result->epoch, "result");
    for (unsigned slot = 0; slot < exchange->nslots; slot++)
        amdgpu_machine_mark(exchange->machine, packet->slot + (slot + 1) * packet->stride - BESIDE, sizeof(uint64_t),
                            "arrived");
    packet->identity = identity_of(number, packet->bytes);
    refill_source(exchange, number, 1);
}

sv_push_item_t push_item_of(exchange_t *exchange, unsigned number)
{
    const packet_t &packet = exchange->packet[number];
    const bool straight = exchange->route == STRAIGHT;
    sv_push_item_t item = {};
    item.src = packet.src;
    item.dst = straight ? packet.dst : packet.slot;
    item.record = packet.slot + packet.stride - RECORD - BESIDE;
    item.dst_stride = item.record_stride = packet.stride;
    item.arrived_device = (uint64_t *)(item.record + RECORD);
    item.arrived = packet.words.arrived;
    item.sent = packet.words.sent;
    item.failed = packet.words.failed;
    item.credit = packet.credit;
    item.scratch = exchange->scratch + number * 8;
    item.nslots = exchange->nslots;
    item.identity = packet.identity;
    return item;
}

sv_pull_item_t pull_item_of(exchange_t *exchange, unsigned number)
{
    const packet_t &packet = exchange->packet[number];
    const bool straight = exchange->route == STRAIGHT;
    const sv_push_item_t push = push_item_of(exchange, number);
    sv_pull_item_t item = {};
    item.src = push.dst;
    item.dst = straight ? nullptr : packet.dst;
    item.record = push.record;
    item.src_stride = item.record_stride = item.arrived_stride = packet.stride;
    item.arrived = straight ? packet.words.arrived : push.arrived_device;
    item.result = packet.result;
    item.record_seen = packet.record_seen;
    item.done = packet.words.done;
    item.verdict = packet.words.verdict;
    item.credit = packet.words.credit;
    item.credit_device = packet.credit;
    item.scratch = exchange->scratch + (PACKETS + number) * 8;
    item.nslots = exchange->nslots;
    item.identity = packet.identity;
    return item;
}

/* Shares of a packet meet in its scratch; some launches have fewer blocks than shares. */
void set_up(exchange_t *exchange)
{
    exchange->route = chosen = (route_t)draw(exchange, ROUTES);
    exchange->nslots = exchange->route == STRAIGHT ? 1 : 1 + (unsigned)draw(exchange, 2);
    exchange->epochs = EPOCHS;
    for (unsigned p = 0; p < PACKETS; p++) {
        set_up_packet(exchange, p);
        exchange->first_block[p + 1] = exchange->first_block[p] + 1 + (uint32_t)draw(exchange, 3);
    }
    exchange->nblocks = exchange->first_block[PACKETS] - (unsigned)draw(exchange, 2);
    exchange->push_items = (sv_push_item_t *)take(exchange, SENDER, AMDGPU_COARSE, PACKETS * sizeof(sv_push_item_t));
    exchange->pull_items = (sv_pull_item_t *)take(exchange, RECEIVER, AMDGPU_COARSE, PACKETS * sizeof(sv_pull_item_t));
    exchange->abort = take_word(exchange, "abort");
    exchange->scratch = take_scratch(exchange, SENDER);
    (void)take_scratch(exchange, RECEIVER); /* right after it */
    for (unsigned p = 0; p < PACKETS; p++) {
        const sv_push_item_t push = push_item_of(exchange, p);
        const sv_pull_item_t pull = pull_item_of(exchange, p);
        amdgpu_machine_store(exchange->machine, exchange->push_items + p, &push, sizeof push);
        amdgpu_machine_store(exchange->machine, exchange->pull_items + p, &pull, sizeof pull);
        /* The first epochs have their slots. */
        const uint64_t leave = (uint64_t)exchange->nslots << 32 | 1;
        amdgpu_machine_store(exchange->machine, exchange->packet[p].credit, &leave, sizeof leave);
    }
}

void launch(exchange_t *exchange, unsigned gpu, unsigned epoch)
{
    const amdgpu_kernel_t *kernel = gpu == SENDER ? exchange->kernels->push : exchange->kernels->pull;
    sv_batch_arg_t arg = {};
    arg.items = gpu == SENDER ? (const void *)exchange->push_items : exchange->pull_items;
    arg.abort = exchange->abort;
    arg.wait_ns = exchange->route == STRAIGHT ? 0 : PATIENCE * TICK_NS;
    arg.epoch = epoch;
    arg.npackets = PACKETS;
    arg.corrupted = gpu == SENDER && is_damaged(exchange, 0, epoch);
    for (unsigned p = 0; p < PACKETS; p++) {
        sv_record_t identity = exchange->packet[p].identity;
        identity.epoch = epoch;
        arg.key[p] = sv_digest_key(&identity);
        arg.index[p] = p;
        arg.first_block[p + 1] = exchange->first_block[p + 1];
    }
    const amdgpu_launch_t launch = {kernel, exchange->nblocks, THREADS, 0, 0, &arg, nullptr};
    amdgpu_machine_launch(exchange->machine, gpu, &launch);
}

bool fail(const char *what, unsigned packet, unsigned epoch)
{
    snprintf(reason, sizeof reason, "%s, packet %u, epoch %u, %s", what, packet, epoch, routes[chosen]);
    return false;
}

bool has_come(const uint64_t *word, unsigned seen)
{
    return (uint32_t)(*word >> 32) > seen;
}

/* The sender's word is there, or the receiver's: what they promise is so. */
bool look_at_sender(exchange_t *exchange, unsigned number)
{
    packet_t *packet = &exchange->packet[number];
    if (*packet->words.failed)
        return fail("a push has no credit in time", number, (unsigned)*packet->words.failed);
    if (has_come(packet->words.arrived, packet->arrived)) {
        const unsigned epoch = ++packet->arrived;
        const unsigned slot = exchange->nslots > 1 ? epoch % exchange->nslots : 0;
        const uint8_t *place = exchange->route == STRAIGHT ? packet->dst : packet->slot + slot * packet->stride;
        if (!is_damaged(exchange, number, epoch) && !holds_bytes(exchange, number, epoch, place))
            return fail("what has arrived is not all there", number, epoch);
    }
    if (has_come(packet->words.sent, packet->sent) && ++packet->sent < exchange->epochs)
        refill_source(exchange, number, packet->sent + 1);
    return true;
}

bool explains_damage(const exchange_t *exchange, unsigned number, unsigned epoch)
{
    const packet_t &packet = exchange->packet[number];
    uint8_t bytes[MOST_BYTES];
    sv_record_t identity = packet.identity;
    identity.epoch = epoch;
    const uint64_t key = sv_digest_key(&identity);
    fill_bytes(exchange, number, epoch, bytes);
    const uint64_t expected = sv_digest_finish(key, sv_digest_sum(key, 0, bytes, packet.bytes));
    bytes[0] ^= 1;
    const uint64_t found = sv_digest_finish(key, sv_digest_sum(key, 0, bytes, packet.bytes));
    return packet.result->epoch == epoch && packet.result->record_ok == 1 && packet.result->verified == 0 &&
           packet.result->expected == expected && packet.result->found == found && packet.record_seen[7] == expected &&
           packet.record_seen[1] == epoch;
}

bool look_at_receiver(exchange_t *exchange, unsigned number)
{
    packet_t *packet = &exchange->packet[number];
    if (!has_come(packet->words.done, packet->done))
        return true;
    const unsigned epoch = ++packet->done, outcome = *packet->words.done & 0xffffff;
    if (is_damaged(exchange, number, epoch)) {
        if (outcome != SV_PULL_BAD)
            return fail("damage was not noticed", number, epoch);
        return explains_damage(exchange, number, epoch) || fail("damage is not reported as it was", number, epoch);
    }
    if (outcome != SV_PULL_GOOD)
        return fail(outcome == SV_PULL_ABSENT ? "a packet never came" : "a packet does not verify", number, epoch);
    if (!holds_bytes(exchange, number, epoch, packet->dst))
        return fail("what has landed is not all there", number, epoch);
    return true;
}

/* Whether all packets are as far; the hosts then launch what comes next. */
bool are_all(const exchange_t *exchange, bool (*is_so)(const packet_t &packet, unsigned epoch), unsigned epoch)
{
    for (const packet_t &packet : exchange->packet)
        if (!is_so(packet, epoch))
            return false;
    return true;
}

void launch_next(exchange_t *exchange)
{
    const auto is_sent = [](const packet_t &packet, unsigned epoch) { return packet.sent >= epoch; };
    /* The receiver gives leave for its buffer once it has seen that the packet is there. */
    const auto has_leave = [](const packet_t &packet, unsigned epoch) {
        return packet.sent >= epoch && packet.done >= epoch && (epoch == 0 || (*packet.words.verdict >> 32) >= epoch);
    };
    const auto has_arrived = [](const packet_t &packet, unsigned epoch) { return packet.arrived >= epoch; };
    const auto is_done = [](const packet_t &packet, unsigned epoch) { return packet.done >= epoch; };
    const bool straight = exchange->route == STRAIGHT;
    if (exchange->pushed < exchange->epochs && !amdgpu_machine_is_busy(exchange->machine, SENDER) &&
        (straight ? are_all(exchange, has_leave, exchange->pushed) : are_all(exchange, is_sent, exchange->pushed)))
        launch(exchange, SENDER, ++exchange->pushed);
    if (exchange->pulled < exchange->epochs && !amdgpu_machine_is_busy(exchange->machine, RECEIVER) &&
        are_all(exchange, is_done, exchange->pulled) &&
        (!straight || are_all(exchange, has_arrived, exchange->pulled + 1)))
        launch(exchange, RECEIVER, ++exchange->pulled);
}

bool run(exchange_t *exchange)
{
    const auto is_done = [](const packet_t &packet, unsigned epoch) { return packet.done >= epoch; };
    for (uint64_t step = 0; step < STEPS; step++) {
        launch_next(exchange);
        amdgpu_machine_step(exchange->machine);
        for (unsigned p = 0; p < PACKETS; p++)
            if (!look_at_sender(exchange, p) || !look_at_receiver(exchange, p))
                return false;
        if (are_all(exchange, is_done, exchange->epochs) && !amdgpu_machine_is_busy(exchange->machine, SENDER) &&
            !amdgpu_machine_is_busy(exchange->machine, RECEIVER)) {
            for (unsigned s = 0; s < 2 * PACKETS; s++) {
                const sv_digest_scratch_t &scratch = exchange->scratch[8 * s];
                if (scratch.sum || scratch.blocks_done || scratch.go)
                    return fail("a scratch is not left as it was", s % PACKETS, exchange->epochs);
            }
            return true;
        }
    }
    return fail("it never ends", 0, exchange->pushed);
}

} // namespace

const char *weak_exchange_run(const weak_kernels_t *kernels, uint64_t seed)
{
    static exchange_t exchange;
    exchange = exchange_t();
    exchange.kernels = kernels;
    exchange.seed = seed;
    exchange.machine = amdgpu_machine_open(kernels->arch, seed);
    set_up(&exchange);
    const bool good = run(&exchange);
    amdgpu_machine_close(exchange.machine);
    return good ? nullptr : reason;
}
