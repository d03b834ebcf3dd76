/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pushes and pulls, whole and in pieces, apart and in one launch, numbered by the host and by the device (bits.h). What
 * is pushed lies in slots, from which the next launch, or the same one, pulls. Other packets are put into their slots
 * here, with or without the word, damaged or not. Or the word comes while the launch waits, after it has read the
 * record ahead of it: then with a byte that was wrong until then, so that a kernel that has read the packet has to do
 * it again.
 *
 * Launches in which something never comes end after a deadline. In these no pull waits for a push, which under load
 * might take longer than that.
 */
#include <stdio.h>
#include <string.h>

#include "amdgpu/bits.h"
#include "amdgpu/bits_layout.h"

enum { PACKETS = 3, RECORD_AT = 64, BESIDE = 64 + 64 + 32, SLOTS = 3 };
static const uint64_t LONG_NS = 5000000000u, SHORT_NS = 30000;

typedef enum form { APART, RUN, REPLAY, REPLAY_APART, FORMS } form_t;
/* What happens: all goes well; credit never comes; nothing is pushed, and slots are filled here; nothing comes. */
typedef enum event { WELL, STARVED, BY_HAND, ABSENT, EVENTS } event_t;

typedef struct words { /* of hosts */
    uint64_t arrived, sent, failed, verdict, credit, done, recorded, grant, near_credit;
} words_t;

typedef struct packet {
    uint64_t bytes, stride;
    sv_push_item_t push;
    sv_pull_item_t pull;
    words_t *words;
    uint8_t *beside;           /* the word of slot 0, after the bytes; the record comes after it */
    unsigned record_shift;
    bool adds;
    uint64_t *word, word_value; /* that comes late, NULL: none does; */
    uint8_t *wrong;             /* and, unless NULL, the byte that is put right before it */
} packet_t;

typedef struct exchange {
    form_t form;
    event_t event;
    bool pieces, unheard, sticky, bare, straight, late; /* bare: without digests */
    unsigned npackets, nslots, nthreads, attempt, count;
    uint64_t epoch;
    packet_t packet[PACKETS];
    sv_run_arg_t arg;
    sv_epoch_state_t *state;
} exchange_t;

static uint64_t word_of(const exchange_t *exchange, uint64_t count)
{
    return (exchange->epoch & 0xffffffffu) << 32 | (uint64_t)exchange->attempt << 24 | count;
}

static uint64_t draw_bytes(unsigned nthreads)
{
    switch (bits_draw(6)) {
    case 0: return bits_draw(10);
    case 1: return bits_draw(600);
    case 2: return 8 * bits_draw(600);
    case 3: return 512 * bits_draw(20);
    default: return 64 * nthreads + bits_draw(48 * (uint64_t)nthreads); /* several units of a lane at a time */
    }
}

static unsigned draw_shift(void)
{
    static const unsigned shifts[] = {0, 0, 0, 8, 4, 1, 1, 2};
    return shifts[bits_draw(8)];
}

static void *draw_null(void *place)
{
    return bits_draw(5) ? place : NULL;
}

static void make_places(exchange_t *exchange, packet_t *packet)
{
    if (exchange->pieces) {
        const bits_stream_t stream = bits_stream_draw(bits_draw(2));
        packet->bytes = bits_layout_make(&stream, false, &packet->push.pieces, &packet->push.npieces);
        packet->adds = exchange->form == APART && bits_draw(3) == 0;
        (void)bits_layout_make(&stream, packet->adds, &packet->pull.pieces, &packet->pull.npieces);
        return;
    }
    packet->bytes = draw_bytes(exchange->nthreads);
    packet->push.src = bits_take(packet->bytes, draw_shift());
    packet->pull.dst = bits_take(packet->bytes, draw_shift());
}

static void make_identity(const exchange_t *exchange, packet_t *packet, unsigned number)
{
    const sv_record_t identity = {.magic = SV_RECORD_MAGIC, .version = SV_RECORD_VERSION, .kind = SV_RECORD_PACKET,
                                  .epoch = exchange->epoch, .exchange = 77, .index = number, .tag = 3,
                                  .destination = 1, .bytes = packet->bytes, .salt = number + UINT64_C(3000)};
    packet->push.identity = packet->pull.identity = identity;
}

static void make_push(const exchange_t *exchange, packet_t *packet, uint8_t *slot)
{
    sv_push_item_t *item = &packet->push;
    words_t *words = packet->words;
    item->dst = exchange->straight ? packet->pull.dst : slot;
    item->dst_stride = exchange->straight ? 0 : packet->stride;
    item->record = packet->beside + RECORD_AT + packet->record_shift;
    item->record_stride = packet->stride;
    item->arrived_device = (uint64_t *)packet->beside;
    item->arrived = &words->arrived;
    item->sent = draw_null(&words->sent);
    item->failed = draw_null(&words->failed);
    item->credit = &words->near_credit;
    item->credit_near = exchange->form != APART && bits_draw(2);
    item->scratch = bits_take_zero(sizeof *item->scratch);
    item->nslots = exchange->nslots;
    item->count = exchange->count;
    if (exchange->event == WELL)
        words->near_credit = word_of(exchange, 1);
}

static void make_pull(const exchange_t *exchange, packet_t *packet)
{
    sv_pull_item_t *item = &packet->pull;
    words_t *words = packet->words;
    item->src = packet->push.dst;
    item->src_stride = packet->push.dst_stride;
    item->dst = exchange->straight || exchange->pieces ? NULL : item->dst;
    item->record = packet->push.record;
    item->record_stride = item->arrived_stride = packet->stride;
    item->arrived = packet->push.arrived_device;
    item->result = bits_take_zero(sizeof *item->result);
    if (exchange->sticky && bits_draw(3) == 0)
        item->result->epoch = 1; /* an older failure, which nobody has taken */
    /* Where this is NULL, the word does not say that nobody hears, and the record does. */
    item->record_seen = bits_take_zero(SV_RECORD_BYTES);
    item->record_seen = exchange->unheard ? item->record_seen : draw_null(item->record_seen);
    item->done = &words->done;
    item->verdict = draw_null(&words->verdict);
    item->credit = draw_null(&words->credit);
    item->credit_device = draw_null(&words->near_credit);
    item->scratch = bits_take_zero(sizeof *item->scratch);
    item->nslots = exchange->nslots;
    item->count = exchange->count;
    item->recorded = bits_draw(3) ? NULL : &words->recorded;
    item->grant = draw_null(&words->grant);
    item->grant_count = 1;
    item->looks = bits_draw(3) > 0 && !packet->adds; /* what is read ahead may be stored twice */
    words->recorded = word_of(exchange, 1);
}

static bool has_pairs(const sv_piece_t *pieces, uint64_t npieces)
{
    for (uint64_t i = 0; i < npieces; i++)
        if (pieces[i].granule == 16)
            return true;
    return false;
}

/* Streams with units of 16 bytes begin at a multiple of that. */
static unsigned draw_slot_shift(const exchange_t *exchange, const packet_t *packet)
{
    const unsigned shift = draw_shift();
    const bool pairs = exchange->pieces && (has_pairs(packet->push.pieces, packet->push.npieces) ||
                                            has_pairs(packet->pull.pieces, packet->pull.npieces));
    return pairs ? 0 : shift;
}

static void make_packet(exchange_t *exchange, unsigned number)
{
    packet_t *packet = &exchange->packet[number];
    *packet = (packet_t){.record_shift = draw_shift()};
    make_places(exchange, packet);
    packet->words = bits_take_zero(sizeof *packet->words);
    const uint64_t room = exchange->straight ? 0 : (packet->bytes + 15) / 16 * 16 + 16;
    packet->stride = room + BESIDE;
    uint8_t *slot = bits_take(exchange->nslots * packet->stride, 0);
    packet->beside = slot + room;
    for (unsigned s = 0; s < exchange->nslots; s++)
        memset(packet->beside + s * packet->stride, 0, BESIDE);
    make_identity(exchange, packet, number);
    make_push(exchange, packet, slot + draw_slot_shift(exchange, packet));
    make_pull(exchange, packet);
}

/* What a sender would have left in the slot. */
static void fill_slot(const exchange_t *exchange, packet_t *packet, bool with_word)
{
    const uint64_t slot = exchange->nslots > 1 ? exchange->epoch % exchange->nslots : 0;
    uint8_t *bytes = (uint8_t *)(uintptr_t)packet->pull.src + slot * packet->push.dst_stride;
    sv_record_t record = packet->push.identity;
    const uint64_t key = sv_digest_key(&record), damage = bits_draw(8);
    record.attempt = (uint8_t)exchange->attempt;
    record.digest = sv_digest_finish(key, sv_digest_sum(key, 0, bytes, packet->bytes));
    if (exchange->unheard)
        record.attempt = (uint8_t)(SV_ATTEMPT_UNHEARD | (exchange->epoch & (SV_ATTEMPT_UNHEARD - 1)));
    if (damage == 0 && packet->bytes)
        bytes[bits_draw(packet->bytes)] ^= 0x40;
    if (damage == 1)
        record.index++;
    if (damage == 2)
        record.digest ^= 4;
    memcpy(packet->push.record + slot * packet->stride, &record, sizeof record);
    packet->word = (uint64_t *)(packet->beside + slot * packet->stride);
    packet->word_value =
        word_of(exchange, exchange->count ? exchange->count : 1) + (exchange->unheard ? SV_WORD_UNHEARD : 0);
    packet->wrong = exchange->late && packet->bytes && bits_draw(3) ? bytes + bits_draw(packet->bytes) : NULL;
    if (packet->wrong)
        *packet->wrong ^= 0x20;
    if (with_word)
        *packet->word = packet->word_value;
}

/* What the sender does late. */
static void send_rest(void *opaque)
{
    exchange_t *exchange = opaque;
    for (unsigned p = 0; p < exchange->npackets; p++) {
        packet_t *packet = &exchange->packet[p];
        if (packet->wrong)
            __atomic_store_n(packet->wrong, (uint8_t)(*packet->wrong ^ 0x20), __ATOMIC_RELAXED);
        __atomic_store_n(packet->word, packet->word_value, __ATOMIC_RELEASE); /* partner: the look of the kernel */
    }
}

static uint32_t draw_flags(const exchange_t *exchange)
{
    return (exchange->bare ? SV_DIGEST_NONE : 0u) | (exchange->sticky ? SV_BATCH_STICKY : 0u) |
           (exchange->unheard ? SV_BATCH_UNHEARD : 0u) | (bits_draw(2) ? SV_BATCH_HOLDS_NEXT : 0u);
}

static void *put_items(const exchange_t *exchange, bool pushes)
{
    const size_t each = pushes ? sizeof(sv_push_item_t) : sizeof(sv_pull_item_t);
    uint8_t *items = bits_take(PACKETS * each, 0);
    for (unsigned p = 0; p < exchange->npackets; p++)
        memcpy(items + p * each, pushes ? (const void *)&exchange->packet[p].push : &exchange->packet[p].pull, each);
    return items;
}

static void fill_batch(exchange_t *exchange, sv_batch_arg_t *arg, bool pushes)
{
    const bool waits = exchange->event != WELL || exchange->form == RUN || exchange->form == REPLAY || bits_draw(2);
    *arg = (sv_batch_arg_t){.items = put_items(exchange, pushes), .epoch = exchange->epoch,
                            .attempt = exchange->attempt, .flags = draw_flags(exchange), .state = exchange->state,
                            .npackets = exchange->npackets};
    arg->abort = exchange->sticky || bits_draw(3) ? bits_take_zero(2 * sizeof(uint64_t)) : NULL;
    arg->wait_ns = !waits ? 0 : exchange->event == WELL || exchange->late ? LONG_NS : SHORT_NS;
    if (arg->abort && exchange->event == ABSENT && bits_draw(2)) {
        *arg->abort = 1;
        arg->wait_ns = LONG_NS;
    }
    const bool corrupts = pushes && !exchange->straight && bits_draw(4) == 0;
    arg->corrupted = corrupts ? 1 + (uint32_t)bits_draw(exchange->npackets) : 0;
    for (unsigned p = 0; p < exchange->npackets; p++) {
        arg->key[p] = sv_digest_key(&exchange->packet[p].push.identity);
        arg->index[p] = p;
        arg->first_block[p + 1] = arg->first_block[p] + 1 + (uint32_t)(bits_draw(2) ? 0 : bits_draw(3));
    }
    const unsigned shares = arg->first_block[exchange->npackets];
    arg->bases = bits_take_zero(sizeof *arg->bases);
    arg->nbases_here = (uint32_t)bits_draw(2);
    if (bits_draw(2)) {
        arg->stamps = bits_take_zero(shares * sizeof *arg->stamps);
        bits_ignore(arg->stamps, shares * sizeof *arg->stamps);
    }
}

/* With the fault of the next epoch; a packet that is dropped would be waited for. */
static void make_state(exchange_t *exchange)
{
    sv_epoch_state_t *state = bits_take_zero(sizeof *state);
    state->words = bits_take_zero(3 * sizeof *state->words);
    state->epoch = exchange->epoch - 1;
    if (bits_draw(3) == 0) {
        state->words[SV_EPOCH_TOLD] = state->epoch;
        state->epoch = SV_EPOCH_UNTOLD;
    }
    if (!exchange->straight && bits_draw(2)) {
        static const uint32_t kinds[] = {SV_EPOCH_FLIPS, SV_EPOCH_REPEATS, SV_EPOCH_SWAPS, SV_EPOCH_DROPS};
        state->fault_epoch = exchange->epoch;
        state->fault_kind = kinds[bits_draw(exchange->form == REPLAY_APART ? 4 : 3)];
        state->fault_packet = (uint32_t)bits_draw(exchange->npackets);
    }
    exchange->state = state;
}

/* Many inputs are of packets in pieces that are read ahead of their words, since what reads them is compiled twice. */
static void choose_early_pieces(exchange_t *exchange)
{
    exchange->form = bits_draw(2) ? RUN : REPLAY;
    exchange->event = BY_HAND;
    exchange->pieces = true;
    exchange->bare = exchange->straight = exchange->sticky = false;
}

static void set_up(exchange_t *exchange)
{
    static const unsigned threads[] = {64, 64, 128, 192, 256, 50};
    const bool early = bits_draw(4) == 0;
    *exchange = (exchange_t){.form = (form_t)bits_draw(FORMS), .event = (event_t)bits_draw(EVENTS)};
    if (bits_draw(3) == 0)
        exchange->event = WELL;
    exchange->pieces = bits_draw(3) > 0;
    exchange->unheard = bits_draw(3) == 0;
    exchange->sticky = bits_draw(2);
    exchange->bare = bits_draw(5) == 0;
    exchange->straight = !exchange->pieces && bits_draw(5) == 0;
    if (early)
        choose_early_pieces(exchange);
    /* A failure that stays ends the waits of the other packets of a launch, if they still wait. */
    const bool alone = exchange->sticky && (exchange->form == RUN || exchange->form == REPLAY);
    exchange->npackets = alone ? 1 : 1 + (unsigned)bits_draw(PACKETS);
    exchange->nslots = exchange->straight ? 1 : 1 + (unsigned)bits_draw(SLOTS);
    exchange->nthreads = threads[bits_draw(6)];
    exchange->attempt = exchange->form < REPLAY && !early && bits_draw(4) == 0 ? 2 : 0;
    exchange->count = (unsigned)bits_draw(3);
    exchange->epoch = bits_draw(2) ? 9 + bits_draw(4) : (UINT64_C(7) << 32) + 9 + bits_draw(4);
    const bool may_come_late = exchange->event == BY_HAND && (!exchange->sticky || exchange->npackets == 1);
    exchange->late = early || (may_come_late && bits_draw(2));
    for (unsigned p = 0; p < exchange->npackets; p++)
        make_packet(exchange, p);
    make_state(exchange);
    fill_batch(exchange, &exchange->arg.push, true);
    fill_batch(exchange, &exchange->arg.pull, false);
    if (exchange->event == BY_HAND)
        for (unsigned p = 0; p < exchange->npackets; p++)
            fill_slot(exchange, &exchange->packet[p], !exchange->late && bits_draw(4));
    if (exchange->late)
        bits_do_meanwhile(send_rest, exchange, (unsigned)bits_draw(2000));
}

static void print_exchange(const exchange_t *exchange, unsigned nblocks)
{
    fprintf(stderr, "    form %d, event %d, %u packets, %u slots, %u blocks of %u, fault %u of packet %u%s%s%s%s\n",
            (int)exchange->form, (int)exchange->event, exchange->npackets, exchange->nslots, nblocks,
            exchange->nthreads, exchange->state->fault_kind, exchange->state->fault_packet,
            exchange->unheard ? ", unheard" : "", exchange->sticky ? ", sticky" : "",
            exchange->bare ? ", no digests" : "", exchange->straight ? ", straight" : "");
}

/* One launch; with both parts, one part alone, or neither. The software device has one block for all shares. */
static void launch_both(const exchange_t *exchange, const sv_run_arg_t *arg)
{
    const unsigned out = arg->push.first_block[arg->push.npackets], in = arg->pull.first_block[arg->pull.npackets];
    const unsigned most = out > in ? out : in, nblocks = most ? 1 + (unsigned)bits_draw(most) : 1;
    const sv_kernel_t *kernels[2][2] = {{&sv_kernel_run, &sv_kernel_run_pieces},
                                        {&sv_kernel_replay, &sv_kernel_replay_pieces}};
    if (!bits_run(kernels[exchange->form >= REPLAY][exchange->pieces], arg, nblocks, exchange->nthreads, 1))
        print_exchange(exchange, nblocks);
}

static void launch_apart(const exchange_t *exchange, bool pushes)
{
    const sv_batch_arg_t *arg = pushes ? &exchange->arg.push : &exchange->arg.pull;
    const unsigned nblocks = 1 + (unsigned)bits_draw(arg->first_block[arg->npackets]);
    const sv_kernel_t *kernels[2][2] = {{&sv_kernel_pull, &sv_kernel_scatter}, {&sv_kernel_push, &sv_kernel_gather}};
    if (!bits_run(kernels[pushes][exchange->pieces], arg, nblocks, exchange->nthreads, 1))
        print_exchange(exchange, nblocks);
}

static void without_part(sv_batch_arg_t *arg)
{
    arg->npackets = 0;
    arg->first_block[0] = 0;
}

static void run_exchange(exchange_t *exchange)
{
    const bool pushes = exchange->event == WELL || exchange->event == STARVED;
    sv_run_arg_t first = exchange->arg, second = exchange->arg;
    if (exchange->form == APART) {
        if (pushes)
            launch_apart(exchange, true);
        launch_apart(exchange, false);
        return;
    }
    if (!pushes)
        without_part(&first.push);
    first.pull.flags |= SV_BATCH_GRANTS;
    second.pull.flags |= SV_BATCH_ENDS_EPOCH;
    if (exchange->form != REPLAY_APART) {
        first.pull.flags |= SV_BATCH_ENDS_EPOCH;
        launch_both(exchange, &first);
        return;
    }
    if (pushes) {
        without_part(&first.pull);
        launch_both(exchange, &first);
    }
    without_part(&second.push);
    if (exchange->event == WELL) /* all that comes has come */
        second.pull.wait_ns = SHORT_NS;
    launch_both(exchange, &second);
}

void bits_batches(uint64_t first, uint64_t count)
{
    static exchange_t exchange;
    for (uint64_t seed = first; seed < first + count; seed++) {
        bits_reset(seed);
        set_up(&exchange);
        run_exchange(&exchange);
    }
}
