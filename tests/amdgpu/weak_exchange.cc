/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See weak_exchange.h. Memory is as the library allocates it: slots, records, the words beside them and the credit near
 * a kernel are not cached, users' buffers, items and scratch are ordinary, and the words of hosts are pinned.
 *
 *   SLOTS      kernels wait for each other: the push for its credit, the pull for the packet; slots are used again
 *   STRAIGHT   the push stores into the receiver's buffer, which its L2 may keep; hosts see the words, and launch.
 *              Where kernels number their epochs they wait for each other here, too: for leave, and for the packet
 *   DAMAGED    as SLOTS, and in the last epoch a packet is damaged on its way, which the pull must report
 *   ABSENT     as SLOTS, and in the last epoch nothing is pushed: the pull must leave all as it was and say so, once
 *              the time is over or the host gives up
 *   STARVED    as SLOTS, and what would give credit for the last epoch is not pulled: likewise for the push
 */
#include <stdio.h>
#include <string.h>

#include "amdgpu/amdgpu_weak.h"
#include "amdgpu/weak_exchange.h"
#include "amdgpu/weak_layout.h"
#include "kernels/kernel_args.h"

/* As in kernels.h, which is for C only. */
extern "C" {
uint64_t sv_digest_mix(uint64_t x);
uint64_t sv_digest_key(const sv_record_t *identity);
uint64_t sv_digest_sum(uint64_t key, uint64_t first_word, const void *data, uint64_t bytes);
uint64_t sv_digest_finish(uint64_t key, uint64_t sum);
}

namespace {

enum { PACKETS = 3, EPOCHS = 3, SENDER = 0, RECEIVER = 1, RECORD = 64, BESIDE = 64 };
enum { MOST_BYTES = WEAK_LAYOUT_BYTES, WHOLE_BYTES = 3200 }; /* of a packet; of one that lies in one piece */
const uint64_t PATIENCE = 600000, STEPS = 8 * PATIENCE, TICK_NS = 10, BRIEF_PATIENCE = 8000;

enum route_t { SLOTS, STRAIGHT, DAMAGED, ABSENT, STARVED, ROUTES };

struct words_t { /* of a packet, of hosts; each in a line of its own */
    uint64_t *arrived, *sent, *failed, *verdict, *credit, *done;
};

struct packet_t {
    uint64_t bytes, stride;
    uint8_t *src, *dst, *slot; /* slot: where the push stores, but for what goes straight to dst */
    weak_layout_t from, to;    /* in the place of src; and of dst, but for what goes straight there */
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
    unsigned nslots, nblocks, nthreads;
    unsigned epochs, pushes, pulls; /* that are to be, on each side */
    unsigned pushed, pulled;        /* that were launched */
    uint64_t gives_up;              /* the step in which the host does; 0: it does not */
    uint64_t seed;
    bool looks;   /* kernels may read ahead of the words */
    bool unheard; /* no host of the sender's wants to know that a packet was good, or that its slot is free */
    sv_push_item_t *push_items;
    sv_pull_item_t *pull_items;
    sv_digest_scratch_t *scratch; /* of pushes, then of pulls, a line for each */
    uint64_t *abort[2];              /* of each GPU's rank */
    sv_epoch_state_t *state[2];      /* likewise, where kernels number their epochs */
    packet_t packet[PACKETS];
    uint32_t first_block[PACKETS + 1];
};

char reason[160];
const char *const routes[ROUTES] = {"by slots", "straight", "damaged", "absent", "starved"};
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
    const packet_t &own = exchange->packet[packet];
    for (uint64_t b = 0; exchange->kernels->pieces && b < own.bytes; b++)
        bytes[b] = own.from.byte[b] ? bytes[b] : 0;
}

bool holds_bytes(const exchange_t *exchange, unsigned packet, unsigned epoch, const uint8_t *place)
{
    uint8_t wanted[MOST_BYTES];
    fill_bytes(exchange, packet, epoch, wanted);
    return memcmp(place, wanted, exchange->packet[packet].bytes) == 0;
}

/* Where the receiver wants it. */
bool has_landed(const exchange_t *exchange, unsigned number, unsigned epoch)
{
    const packet_t &packet = exchange->packet[number];
    if (!exchange->kernels->pieces)
        return holds_bytes(exchange, number, epoch, packet.dst);
    uint8_t wanted[MOST_BYTES];
    fill_bytes(exchange, number, epoch, wanted);
    for (uint64_t b = 0; b < packet.bytes; b++)
        if (packet.to.byte[b] && *packet.to.byte[b] != wanted[b])
            return false;
    return true;
}

/* Kernels give each other leave for the receiver's buffer. */
bool gives_leave(const exchange_t *exchange)
{
    return exchange->kernels->form == WEAK_REPLAY && exchange->route == STRAIGHT;
}

/* Of epochs that no host numbers; the sender's has the fault of the last one. */
sv_epoch_state_t *take_state(exchange_t *exchange, unsigned gpu)
{
    sv_epoch_state_t *state = (sv_epoch_state_t *)take(exchange, gpu, AMDGPU_COARSE, sizeof *state), first = {};
    first.words = (uint64_t *)take(exchange, AMDGPU_HOST, AMDGPU_PINNED, 3 * sizeof(uint64_t));
    if (gpu == SENDER && exchange->route == DAMAGED) {
        first.fault_epoch = exchange->epochs;
        first.fault_kind = SV_EPOCH_FLIPS;
    }
    amdgpu_machine_store(exchange->machine, state, &first, sizeof first);
    amdgpu_machine_mark(exchange->machine, &state->epoch, sizeof state->epoch, "epoch");
    amdgpu_machine_mark(exchange->machine, &state->blocks_out, sizeof state->blocks_out, "blocks out");
    return state;
}

void refill_source(exchange_t *exchange, unsigned packet, unsigned epoch)
{
    uint8_t bytes[MOST_BYTES];
    fill_bytes(exchange, packet, epoch, bytes);
    const packet_t &own = exchange->packet[packet];
    if (!exchange->kernels->pieces)
        amdgpu_machine_store(exchange->machine, own.src, bytes, own.bytes);
    for (uint64_t b = 0; exchange->kernels->pieces && b < own.bytes; b++)
        if (own.from.byte[b])
            amdgpu_machine_store(exchange->machine, own.from.byte[b], bytes + b, 1);
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
    packet->bytes = 1 + draw(exchange, WHOLE_BYTES - 16);
    if (draw(exchange, 2))
        packet->bytes = (packet->bytes + 7) / 8 * 8;
    if (exchange->kernels->pieces) {
        const weak_stream_t stream = weak_stream_choose(exchange->machine);
        weak_layout_make(exchange->machine, SENDER, &stream, &packet->from);
        weak_layout_make(exchange->machine, RECEIVER, &stream, &packet->to);
        packet->bytes = packet->from.bytes;
    } else {
        packet->src = (uint8_t *)take(exchange, SENDER, AMDGPU_COARSE, packet->bytes + 16);
        packet->src += alignments[draw(exchange, 5)];
    }
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
    for (unsigned slot = 0; slot < exchange->nslots; slot++) {
        uint8_t *beside = packet->slot + (slot + 1) * packet->stride - BESIDE;
        amdgpu_machine_mark(exchange->machine, beside, sizeof(uint64_t), "arrived");
        if (exchange->kernels->form != WEAK_BATCH)
            amdgpu_machine_mark(exchange->machine, beside - RECORD + 8, sizeof(uint64_t), "record");
    }
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
    item.pieces = packet.from.pieces;
    item.npieces = packet.from.npieces;
    item.credit_near = exchange->kernels->form != WEAK_BATCH && !straight;
    return item;
}

sv_pull_item_t pull_item_of(exchange_t *exchange, unsigned number)
{
    const packet_t &packet = exchange->packet[number];
    const bool straight = exchange->route == STRAIGHT;
    const sv_push_item_t push = push_item_of(exchange, number);
    sv_pull_item_t item = {};
    item.src = push.dst;
    item.dst = straight || exchange->kernels->pieces ? nullptr : packet.dst;
    item.pieces = packet.to.pieces;
    item.npieces = packet.to.npieces;
    item.looks = exchange->looks && !straight;
    item.record = push.record;
    item.src_stride = item.record_stride = item.arrived_stride = packet.stride;
    item.arrived = straight && !gives_leave(exchange) ? packet.words.arrived : push.arrived_device;
    item.result = packet.result;
    item.record_seen = packet.record_seen;
    item.done = packet.words.done;
    item.verdict = packet.words.verdict;
    item.credit = gives_leave(exchange) ? nullptr : packet.words.credit;
    item.credit_device = gives_leave(exchange) ? nullptr : packet.credit;
    item.grant = gives_leave(exchange) ? packet.credit : nullptr;
    item.grant_count = 1;
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
    exchange->epochs = exchange->pushes = exchange->pulls = EPOCHS;
    exchange->pushes -= exchange->route == ABSENT;
    if (exchange->route == STARVED)
        exchange->pulls = EPOCHS - 1 - exchange->nslots;
    exchange->looks = exchange->kernels->form != WEAK_BATCH && draw(exchange, 3);
    exchange->unheard = exchange->kernels->form != WEAK_BATCH && exchange->route != STRAIGHT && draw(exchange, 2);
    exchange->nthreads = draw(exchange, 2) ? 256 : 64 * (1 + (unsigned)draw(exchange, 4));
    for (unsigned p = 0; p < PACKETS; p++) {
        set_up_packet(exchange, p);
        exchange->first_block[p + 1] = exchange->first_block[p] + 1 + (uint32_t)draw(exchange, 3);
    }
    exchange->nblocks = exchange->first_block[PACKETS];
    if (draw(exchange, 2))
        exchange->nblocks = 1 + (unsigned)draw(exchange, exchange->nblocks);
    exchange->push_items = (sv_push_item_t *)take(exchange, SENDER, AMDGPU_COARSE, PACKETS * sizeof(sv_push_item_t));
    exchange->pull_items = (sv_pull_item_t *)take(exchange, RECEIVER, AMDGPU_COARSE, PACKETS * sizeof(sv_pull_item_t));
    amdgpu_machine_keep(exchange->machine, exchange->push_items, PACKETS * sizeof(sv_push_item_t));
    amdgpu_machine_keep(exchange->machine, exchange->pull_items, PACKETS * sizeof(sv_pull_item_t));
    for (unsigned gpu = 0; gpu < 2; gpu++) {
        exchange->abort[gpu] = take_word(exchange, "abort");
        exchange->state[gpu] = take_state(exchange, gpu);
    }
    exchange->scratch = take_scratch(exchange, SENDER);
    (void)take_scratch(exchange, RECEIVER); /* right after it */
    for (unsigned p = 0; p < PACKETS; p++) {
        const sv_push_item_t push = push_item_of(exchange, p);
        const sv_pull_item_t pull = pull_item_of(exchange, p);
        amdgpu_machine_store(exchange->machine, exchange->push_items + p, &push, sizeof push);
        amdgpu_machine_store(exchange->machine, exchange->pull_items + p, &pull, sizeof pull);
        /* The first epochs have their slots. */
        const uint64_t leave = gives_leave(exchange) ? 0 : (uint64_t)exchange->nslots << 32 | 1;
        amdgpu_machine_store(exchange->machine, exchange->packet[p].credit, &leave, sizeof leave);
    }
}

bool is_in_vain(const exchange_t *exchange, unsigned gpu, unsigned epoch)
{
    return epoch == exchange->epochs && exchange->route == (gpu == SENDER ? STARVED : ABSENT);
}

void launch(exchange_t *exchange, unsigned gpu, unsigned epoch)
{
    const amdgpu_kernel_t *kernel = gpu == SENDER ? exchange->kernels->push : exchange->kernels->pull;
    sv_batch_arg_t arg = {};
    arg.items = gpu == SENDER ? (const void *)exchange->push_items : exchange->pull_items;
    arg.abort = exchange->abort[gpu];
    arg.state = exchange->state[gpu];
    if (exchange->kernels->form == WEAK_REPLAY)
        arg.flags = SV_BATCH_STICKY | SV_BATCH_ENDS_EPOCH;
    if (gives_leave(exchange) && gpu == RECEIVER)
        arg.flags |= SV_BATCH_GRANTS;
    if (exchange->unheard && gpu == SENDER)
        arg.flags |= SV_BATCH_UNHEARD;
    const bool in_vain = is_in_vain(exchange, gpu, epoch);
    const bool waits = exchange->route != STRAIGHT || gives_leave(exchange);
    arg.wait_ns = waits ? (in_vain ? BRIEF_PATIENCE : PATIENCE) * TICK_NS : 0;
    arg.epoch = epoch;
    arg.npackets = PACKETS;
    arg.nbases_here = 1; /* base 0 is the address 0 */
    arg.corrupted = gpu == SENDER && is_damaged(exchange, 0, epoch);
    for (unsigned p = 0; p < PACKETS; p++) {
        sv_record_t identity = exchange->packet[p].identity;
        identity.epoch = epoch;
        arg.key[p] = sv_digest_key(&identity);
        arg.index[p] = p;
        arg.first_block[p + 1] = exchange->first_block[p + 1];
    }
    sv_run_arg_t both = {arg, arg};
    sv_batch_arg_t *other = gpu == SENDER ? &both.pull : &both.push;
    other->npackets = other->first_block[0] = 0;
    const bool batch = exchange->kernels->form == WEAK_BATCH;
    const amdgpu_launch_t launch = {kernel, exchange->nblocks, exchange->nthreads, 0, 0, 0,
                                    batch ? (const void *)&arg : &both, nullptr};
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
    const bool starved = exchange->route == STARVED && exchange->pushed == exchange->epochs;
    if (*packet->words.failed && (!starved || *packet->words.failed != exchange->epochs))
        return fail("a push has no credit in time", number, (unsigned)*packet->words.failed);
    if (has_come(packet->words.arrived, packet->arrived)) {
        const unsigned epoch = ++packet->arrived;
        const unsigned slot = exchange->nslots > 1 ? epoch % exchange->nslots : 0;
        const uint8_t *place = exchange->route == STRAIGHT ? packet->dst : packet->slot + slot * packet->stride;
        if (is_in_vain(exchange, SENDER, epoch))
            return fail("a packet was pushed without credit", number, epoch);
        if (!is_damaged(exchange, number, epoch) && !holds_bytes(exchange, number, epoch, place))
            return fail("what has arrived is not all there", number, epoch);
    }
    const bool replays = exchange->kernels->form == WEAK_REPLAY;
    const bool sent = replays ? packet->sent < exchange->pushed && !amdgpu_machine_is_busy(exchange->machine, SENDER)
                              : has_come(packet->words.sent, packet->sent);
    if (sent && ++packet->sent < exchange->epochs)
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

/* Of an epoch that no host numbers, once its kernel is complete. The first failure ends the waits of the others. */
bool look_at_replay(exchange_t *exchange, unsigned number)
{
    packet_t *packet = &exchange->packet[number];
    if (packet->done == exchange->pulled || amdgpu_machine_is_busy(exchange->machine, RECEIVER))
        return true;
    const unsigned epoch = ++packet->done;
    const sv_epoch_state_t *state = exchange->state[RECEIVER];
    const bool absent = packet->result->epoch == epoch && packet->result->record_ok == SV_RESULT_ABSENT;
    if (state->epoch != epoch || state->words[SV_EPOCH_ENDING] != epoch || state->blocks_out)
        return fail("an epoch is not counted", number, epoch);
    if (is_damaged(exchange, number, epoch))
        return explains_damage(exchange, number, epoch) || fail("damage is not reported as it was", number, epoch);
    if (is_in_vain(exchange, RECEIVER, epoch))
        return (absent && has_landed(exchange, number, epoch - 1)) ||
               fail("what never came has been stored, or is not missed", number, epoch);
    if (absent && is_damaged(exchange, 0, epoch))
        return true;
    if (packet->result->epoch)
        return fail("a packet does not verify, or never came", number, epoch);
    return has_landed(exchange, number, epoch) || fail("what has landed is not all there", number, epoch);
}

bool look_at_receiver(exchange_t *exchange, unsigned number)
{
    if (exchange->kernels->form == WEAK_REPLAY)
        return look_at_replay(exchange, number);
    packet_t *packet = &exchange->packet[number];
    if (!has_come(packet->words.done, packet->done))
        return true;
    const unsigned epoch = ++packet->done, outcome = *packet->words.done & 0xffffff;
    if (is_damaged(exchange, number, epoch)) {
        if (outcome != SV_PULL_BAD)
            return fail("damage was not noticed", number, epoch);
        return explains_damage(exchange, number, epoch) || fail("damage is not reported as it was", number, epoch);
    }
    if (is_in_vain(exchange, RECEIVER, epoch)) {
        if (outcome != SV_PULL_ABSENT)
            return fail("a packet that never came is taken for one", number, epoch);
        return has_landed(exchange, number, epoch - 1) ||
               fail("what never came has been stored", number, epoch);
    }
    if (outcome != SV_PULL_GOOD)
        return fail(outcome == SV_PULL_ABSENT ? "a packet never came" : "a packet does not verify", number, epoch);
    if (!has_landed(exchange, number, epoch))
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
    const bool straight = exchange->route == STRAIGHT && !gives_leave(exchange);
    if (exchange->pushed < exchange->pushes && !amdgpu_machine_is_busy(exchange->machine, SENDER) &&
        (straight ? are_all(exchange, has_leave, exchange->pushed) : are_all(exchange, is_sent, exchange->pushed)))
        launch(exchange, SENDER, ++exchange->pushed);
    if (exchange->pulled < exchange->pulls && !amdgpu_machine_is_busy(exchange->machine, RECEIVER) &&
        are_all(exchange, is_done, exchange->pulled) &&
        (!straight || are_all(exchange, has_arrived, exchange->pulled + 1)))
        launch(exchange, RECEIVER, ++exchange->pulled);
}

/* Nobody waits any more; what was starved has its slot as it was. */
bool is_over(const exchange_t *exchange)
{
    const auto is_done = [](const packet_t &packet, unsigned epoch) { return packet.done >= epoch; };
    const auto has_failed = [](const packet_t &packet, unsigned epoch) { return *packet.words.failed >= epoch; };
    return are_all(exchange, is_done, exchange->pulls) &&
           (exchange->route != STARVED || are_all(exchange, has_failed, exchange->epochs)) &&
           !amdgpu_machine_is_busy(exchange->machine, SENDER) && !amdgpu_machine_is_busy(exchange->machine, RECEIVER);
}

bool is_left_clean(const exchange_t *exchange)
{
    for (unsigned s = 0; s < 2 * PACKETS; s++) {
        const sv_digest_scratch_t &scratch = exchange->scratch[8 * s];
        if (scratch.sum || scratch.blocks_done || scratch.go)
            return fail("a scratch is not left as it was", s % PACKETS, exchange->epochs);
    }
    for (unsigned p = 0; p < PACKETS && exchange->route == STARVED; p++) {
        const unsigned before = exchange->epochs - exchange->nslots;
        const unsigned slot = exchange->nslots > 1 ? before % exchange->nslots : 0;
        const packet_t &packet = exchange->packet[p];
        if (!holds_bytes(exchange, p, before, packet.slot + slot * packet.stride))
            return fail("a slot was used without credit", p, exchange->epochs);
    }
    return true;
}

/* The host wants no more of what waits in vain, sometimes. */
void give_up(exchange_t *exchange, uint64_t step)
{
    const uint64_t yes = 1;
    const bool waits = (exchange->route == ABSENT && exchange->pulled == exchange->epochs) ||
                       (exchange->route == STARVED && exchange->pushed == exchange->epochs);
    if (waits && !exchange->gives_up)
        exchange->gives_up = step + 1 + draw(exchange, 2 * BRIEF_PATIENCE);
    if (waits && step == exchange->gives_up)
        amdgpu_machine_store(exchange->machine, exchange->abort[exchange->route == ABSENT ? RECEIVER : SENDER], &yes,
                             sizeof yes);
}

bool run(exchange_t *exchange)
{
    for (uint64_t step = 0; step < STEPS; step++) {
        launch_next(exchange);
        amdgpu_machine_step(exchange->machine);
        give_up(exchange, step);
        for (unsigned p = 0; p < PACKETS; p++)
            if (!look_at_sender(exchange, p) || !look_at_receiver(exchange, p))
                return false;
        if (is_over(exchange))
            return is_left_clean(exchange);
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
    exchange.machine = amdgpu_machine_open(kernels->arch, 2, seed);
    set_up(&exchange);
    const bool good = run(&exchange);
    amdgpu_machine_close(exchange.machine);
    return good ? nullptr : reason;
}
