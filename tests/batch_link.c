/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sender and a receiver on one device: where their packets are, what the kernels are told, and the images of what
 * must come of it, worked out by the host from the specification of record and digest.
 */
#include <stdlib.h>

#include "batch_link.h"

enum { GUARD = 16, CANARY = 0xa5 };

static const uint64_t sizes[] = {0, 1, 7, 8, 13, 64, 1000, 4096, 16384 + 5, 100001, 1 << 20};
#if defined(__SANITIZE_THREAD__)
enum { SIZES = sizeof sizes / sizeof sizes[0] - 1 }; /* the largest finds no other races, and takes ten times as long */
#else
enum { SIZES = sizeof sizes / sizeof sizes[0] };
#endif

void link_memory_open(sv_device_t *dev, link_memory_t *memory, const char *name, uint64_t bytes, bool pinned)
{
    void *at = NULL, *want = NULL, *seen = NULL;
    CHECK_STATUS(pinned ? SV_DEVICE_CALL(dev, host_malloc, bytes, &at) : SV_DEVICE_CALL(dev, malloc, bytes, &at),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, host_malloc, bytes, &want), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, host_malloc, bytes, &seen), SELVAGE_SUCCESS);
    if (!at || !want || !seen)
        exit(check_report("batch"));
    memset(want, 0, bytes);
    *memory = (link_memory_t){name, pinned, bytes, at, want, seen};
}

void link_memory_close(sv_device_t *dev, link_memory_t *memory)
{
    if (memory->pinned)
        SV_DEVICE_CALL(dev, host_free, memory->at);
    else
        SV_DEVICE_CALL(dev, free, memory->at);
    SV_DEVICE_CALL(dev, host_free, memory->want);
    SV_DEVICE_CALL(dev, host_free, memory->seen);
}

void link_memory_store(sv_device_t *dev, const link_memory_t *memory, void *stream)
{
    CHECK_STATUS(SV_DEVICE_CALL(dev, copy_async, memory->at, memory->want, memory->bytes, SV_COPY_H2D, stream),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, stream), SELVAGE_SUCCESS);
}

long link_memory_compare(sv_device_t *dev, const link_memory_t *memory, void *stream)
{
    uint64_t i = 0;
    CHECK_STATUS(SV_DEVICE_CALL(dev, copy_async, memory->seen, memory->at, memory->bytes, SV_COPY_D2H, stream),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, stream), SELVAGE_SUCCESS);
    if (memcmp(memory->seen, memory->want, memory->bytes) == 0)
        return -1;
    while (memory->seen[i] == memory->want[i])
        i++;
    return (long)i;
}

/* Deterministic, and the same everywhere. */
static uint64_t next_random(link_t *link)
{
    link->random = link->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return link->random >> 33;
}

/* Takes room for so many bytes, with guard bytes around; one packet in three is aligned throughout. */
static uint64_t place(link_t *link, uint64_t *end, uint64_t bytes, unsigned i)
{
    uint64_t at = *end + GUARD + ((i + link->shape.seed) % 3 ? next_random(link) % 16 : 0);
    *end = (at + bytes + GUARD + 15) / 16 * 16;
    return at;
}

static void place_packet(link_t *link, unsigned i, uint64_t *source, uint64_t *slots, uint64_t *records,
                         uint64_t *target)
{
    const link_shape_t *shape = &link->shape;
    const unsigned turn = i + shape->seed;
    const uint64_t bytes = sizes[turn % (shape->sizes ? shape->sizes : SIZES)], begin = *slots;
    link_packet_t *packet = &link->packet[i];
    packet->source = place(link, source, bytes, i);
    packet->target = place(link, target, bytes, i);
    packet->slot = place(link, slots, bytes, i);
    packet->slot_stride = *slots - begin;
    *slots += packet->slot_stride * (shape->nslots - 1);
    /* Per slot: guard, the record at any of 8 places, guard, a word; after the last slot the words of no slot. */
    packet->record = *records + 8 + next_random(link) % 8;
    packet->near = *records + 88;
    packet->record_stride = 128;
    packet->credit = *records + 128 * shape->nslots + 8;
    packet->recorded = packet->credit + 16;
    *records = packet->credit + 32;
    packet->count = turn % 4;
    packet->has_near = shape->complete || turn % 3 != 1;
    packet->has_arrived = shape->complete || turn % 3 != 2;
    packet->has_verdict = shape->complete || turn % 4 != 3;
    packet->has_credit = shape->complete || turn % 5 != 4;
    packet->has_credit_near = shape->complete || turn % 4 == 1;
    packet->has_seen = shape->complete || turn % 7 != 6;
    /* What the kernels have to fill in themselves is wrong here. */
    packet->identity = (sv_record_t){.magic = SV_RECORD_MAGIC, .version = SV_RECORD_VERSION, .kind = SV_RECORD_PACKET,
                                     .attempt = 0x77, .epoch = 0xbad, .exchange = 7 + shape->seed, .index = 3 * i + 1,
                                     .tag = turn * 1001, .source = i, .destination = i + 5, .bytes = bytes,
                                     .salt = 3 * i + 1 + UINT64_C(1001000) * turn, .digest = 0xbad};
}

/* Items lie in another order than their packets in a launch. */
static unsigned item_of(const link_t *link, unsigned i)
{
    return link->shape.npackets - 1 - i;
}

static link_words_t *words_at(const link_t *link, unsigned i)
{
    return (link_words_t *)(void *)link->words.at + i;
}

static void make_items(link_t *link, unsigned i)
{
    const link_packet_t *packet = &link->packet[i];
    link_words_t *words = words_at(link, i);
    sv_digest_scratch_t *scratch = (sv_digest_scratch_t *)(void *)link->scratch.at + 2 * i;
    uint64_t *near = (uint64_t *)(void *)(link->records.at + packet->near);
    uint64_t *credit = (uint64_t *)(void *)(link->records.at + packet->credit);
    const uint64_t *recorded = (const uint64_t *)(const void *)(link->records.at + packet->recorded);
    ((sv_push_item_t *)(void *)link->push_items.want)[item_of(link, i)] =
        (sv_push_item_t){.src = link->source.at + packet->source,
                         .dst = link->slots.at + packet->slot,
                         .dst_stride = packet->slot_stride,
                         .record = link->records.at + packet->record,
                         .record_stride = packet->record_stride,
                         .arrived_device = packet->has_near ? near : NULL,
                         .arrived = packet->has_arrived ? &words->arrived : NULL,
                         .sent = &words->sent,
                         .failed = &words->failed,
                         .credit = credit,
                         .scratch = scratch,
                         .nslots = link->shape.nslots,
                         .count = packet->count,
                         .identity = packet->identity};
    ((sv_pull_item_t *)(void *)link->pull_items.want)[item_of(link, i)] =
        (sv_pull_item_t){.src = link->slots.at + packet->slot,
                         .src_stride = packet->slot_stride,
                         .dst = link->shape.in_place ? NULL : link->target.at + packet->target,
                         .record = link->records.at + packet->record,
                         .record_stride = packet->record_stride,
                         .arrived = packet->has_near ? near : &words->arrived,
                         .arrived_stride = packet->has_near ? packet->record_stride : 0,
                         .result = &words->result,
                         .record_seen = packet->has_seen ? words->record_seen : NULL,
                         .done = &words->done,
                         .verdict = packet->has_verdict ? &words->verdict : NULL,
                         .credit = packet->has_credit ? credit : NULL,
                         .credit_device = packet->has_credit_near ? credit + 1 : NULL,
                         .scratch = scratch + 1,
                         .nslots = link->shape.nslots,
                         .count = packet->count,
                         .recorded = link->shape.recorded ? recorded : NULL,
                         .identity = packet->identity};
}

static void make_arg(link_t *link)
{
    link->arg.npackets = link->shape.npackets;
    link->arg.abort = (uint64_t *)(void *)link->abort.at;
    for (unsigned i = 0; i < link->shape.npackets; i++) {
        link->arg.index[i] = item_of(link, i);
        link->arg.first_block[i + 1] = link->arg.first_block[i] + 1 + (5 * i + link->shape.seed) % link->shape.shares;
    }
}

void link_open(link_t *link, sv_device_t *dev, void *stream, const link_shape_t *shape)
{
    const unsigned n = shape->npackets;
    uint64_t source = 0, slots = 0, records = 0, target = 0;
    *link = (link_t){.dev = dev, .stream = stream, .shape = *shape, .random = shape->seed};
    for (unsigned i = 0; i < n; i++)
        place_packet(link, i, &source, &slots, &records, &target);
    link_memory_open(dev, &link->source, "source", source, false);
    link_memory_open(dev, &link->slots, "slots", slots, shape->pinned);
    link_memory_open(dev, &link->records, "records", records, shape->pinned);
    link_memory_open(dev, &link->target, "target", target, false);
    link_memory_open(dev, &link->words, "words", n * sizeof(link_words_t), true);
    link_memory_open(dev, &link->scratch, "scratch", 2 * n * sizeof(sv_digest_scratch_t), false);
    link_memory_open(dev, &link->push_items, "push items", n * sizeof(sv_push_item_t), false);
    link_memory_open(dev, &link->pull_items, "pull items", n * sizeof(sv_pull_item_t), false);
    link_memory_open(dev, &link->abort, "abort", sizeof(uint64_t), true);
    memset(link->slots.want, CANARY, slots);
    memset(link->target.want, CANARY, target);
    for (unsigned i = 0; i < n; i++)
        make_items(link, i);
    make_arg(link);
    link_new_data(link);
    link_store(link);
}

enum { MEMORIES = 9 };

static link_memory_t *memory_of(link_t *link, int which)
{
    link_memory_t *const memories[MEMORIES] = {&link->source,     &link->slots,      &link->records,
                                               &link->target,     &link->words,      &link->scratch,
                                               &link->push_items, &link->pull_items, &link->abort};
    return memories[which];
}

void link_close(link_t *link)
{
    for (int m = 0; m < MEMORIES; m++)
        link_memory_close(link->dev, memory_of(link, m));
}

void link_new_data(link_t *link)
{
    uint64_t *words = (uint64_t *)(void *)link->source.want;
    for (uint64_t i = 0; i < link->source.bytes / 8; i++)
        words[i] = sv_digest_mix(next_random(link));
}

void link_store(link_t *link)
{
    for (int m = 0; m < MEMORIES; m++)
        link_memory_store(link->dev, memory_of(link, m), link->stream);
}

const char *link_difference(link_t *link)
{
    for (int m = 0; m < MEMORIES; m++) {
        const link_memory_t *memory = memory_of(link, m);
        long at = link_memory_compare(link->dev, memory, link->stream);
        if (at < 0)
            continue;
        snprintf(link->difference, sizeof link->difference, "%s from byte %ld on (%02x, not %02x), seed %u",
                 memory->name, at, memory->seen[at], memory->want[at], link->shape.seed);
        return link->difference;
    }
    return "";
}

unsigned link_shares(const link_t *link)
{
    return link->arg.first_block[link->shape.npackets];
}

static sv_record_t identity_of(const link_t *link, unsigned i, const link_run_t *run)
{
    sv_record_t identity = link->packet[i].identity;
    identity.epoch = run->epoch;
    identity.attempt = (uint8_t)run->attempt;
    return identity;
}

static void launch(link_t *link, const sv_kernel_t *kernel, const link_memory_t *items, const link_run_t *run,
                   void *stream)
{
    sv_batch_arg_t arg = link->arg;
    arg.items = items->at;
    arg.wait_ns = run->wait_ns;
    arg.epoch = run->epoch;
    arg.attempt = run->attempt;
    arg.flags = run->flags;
    arg.corrupted = run->corrupted;
    for (unsigned i = 0; i < arg.npackets; i++) {
        sv_record_t identity = identity_of(link, i, run);
        arg.key[i] = sv_digest_key(&identity);
    }
    CHECK_STATUS(SV_DEVICE_CALL(link->dev, launch, kernel, &arg, sizeof arg,
                                run->nblocks ? run->nblocks : link_shares(link), stream), SELVAGE_SUCCESS);
}

void link_push(link_t *link, const link_run_t *run, void *stream)
{
    launch(link, &sv_kernel_push, &link->push_items, run, stream);
}

void link_pull(link_t *link, const link_run_t *run, void *stream)
{
    launch(link, &sv_kernel_pull, &link->pull_items, run, stream);
}

uint64_t *link_credit(link_t *link, unsigned i)
{
    return (uint64_t *)(void *)(link->records.want + link->packet[i].credit);
}

uint64_t *link_recorded(link_t *link, unsigned i)
{
    return (uint64_t *)(void *)(link->records.want + link->packet[i].recorded);
}

uint32_t link_count(const link_t *link, unsigned i)
{
    return link->packet[i].count ? link->packet[i].count : 1;
}

uint64_t *link_at(const link_memory_t *memory, const uint64_t *in_image)
{
    return (uint64_t *)(void *)(memory->at + ((const uint8_t *)in_image - memory->want));
}

link_words_t *link_words(link_t *link, unsigned i)
{
    return (link_words_t *)(void *)link->words.want + i;
}

uint64_t *link_arrival(link_t *link, unsigned i, uint64_t epoch)
{
    const link_packet_t *packet = &link->packet[i];
    if (!packet->has_near)
        return &link_words(link, i)->arrived;
    return (uint64_t *)(void *)(link->records.want + packet->near + epoch % link->shape.nslots * packet->record_stride);
}

uint8_t *link_record(link_t *link, unsigned i, uint64_t epoch)
{
    const link_packet_t *packet = &link->packet[i];
    return link->records.want + packet->record + epoch % link->shape.nslots * packet->record_stride;
}

uint8_t *link_payload(link_t *link, unsigned i, uint64_t epoch)
{
    const link_packet_t *packet = &link->packet[i];
    return link->slots.want + packet->slot + epoch % link->shape.nslots * packet->slot_stride;
}

static uint64_t digest_of(const sv_record_t *identity, const uint8_t *data)
{
    uint64_t key = sv_digest_key(identity);
    return sv_digest_finish(key, sv_digest_sum(key, 0, data, identity->bytes));
}

void link_expect_push(link_t *link, unsigned i, const link_run_t *run)
{
    const link_packet_t *packet = &link->packet[i];
    const uint64_t word = link_word(run->epoch, run->attempt, link_count(link, i));
    link_words_t *words = link_words(link, i);
    sv_record_t record = identity_of(link, i, run);
    memcpy(link_payload(link, i, run->epoch), link->source.want + packet->source, record.bytes);
    if (run->corrupted == i + 1 && record.bytes)
        link_payload(link, i, run->epoch)[0] ^= 1;
    if (!(run->flags & SV_DIGEST_NONE)) {
        record.digest = digest_of(&record, link->source.want + packet->source);
        memcpy(link_record(link, i, run->epoch), &record, sizeof record);
    }
    if (packet->has_near)
        *link_arrival(link, i, run->epoch) = word;
    if (packet->has_arrived)
        words->arrived = word;
    words->sent = word;
}

/* A failure that is to be kept tells the kernels that wait. */
static void expect_failure(link_t *link, const link_run_t *run)
{
    if (run->flags & SV_BATCH_STICKY)
        *(uint64_t *)(void *)link->abort.want = 1;
}

void link_expect_no_push(link_t *link, unsigned i, const link_run_t *run)
{
    link_words(link, i)->failed = run->epoch;
    expect_failure(link, run);
}

static void expect_result(link_t *link, unsigned i, const link_run_t *run, const sv_verify_result_t *result)
{
    sv_verify_result_t *kept = &link_words(link, i)->result;
    if (!(run->flags & SV_BATCH_STICKY) || kept->epoch == 0)
        *kept = *result;
}

uint32_t link_expect_pull(link_t *link, unsigned i, const link_run_t *run)
{
    const link_packet_t *packet = &link->packet[i];
    const uint8_t *payload = link_payload(link, i, run->epoch);
    link_words_t *words = link_words(link, i);
    sv_record_t expected = identity_of(link, i, run), record;
    memcpy(&record, link_record(link, i, run->epoch), sizeof record);
    sv_verify_result_t result = {.expected = record.digest, .found = digest_of(&expected, payload),
                                 .epoch = run->epoch};
    expected.attempt = record.attempt;
    expected.digest = record.digest;
    result.record_ok = memcmp(&expected, &record, sizeof record) == 0;
    if (!link->shape.in_place)
        memcpy(link->target.want + packet->target, payload, expected.bytes);
    if (!(run->flags & SV_DIGEST_NONE) && (!result.record_ok || result.expected != result.found)) {
        if (packet->has_seen && (!(run->flags & SV_BATCH_STICKY) || words->result.epoch == 0))
            memcpy(words->record_seen, &record, sizeof record);
        expect_result(link, i, run, &result);
        expect_failure(link, run);
        words->done = link_word(run->epoch, run->attempt, SV_PULL_BAD);
        return SV_PULL_BAD;
    }
    if (packet->has_verdict)
        words->verdict = link_word(run->epoch, 0, 1);
    if (packet->has_credit)
        *link_credit(link, i) = link_word(run->epoch + link->shape.nslots, 0, 1);
    if (packet->has_credit_near)
        link_credit(link, i)[1] = link_word(run->epoch + link->shape.nslots, 0, 1);
    words->done = link_word(run->epoch, run->attempt, SV_PULL_GOOD);
    return SV_PULL_GOOD;
}

void link_expect_no_pull(link_t *link, unsigned i, const link_run_t *run)
{
    if (run->flags & SV_BATCH_STICKY)
        expect_result(link, i, run, &(sv_verify_result_t){.record_ok = SV_RESULT_ABSENT, .epoch = run->epoch});
    expect_failure(link, run);
    link_words(link, i)->done = link_word(run->epoch, run->attempt, SV_PULL_ABSENT);
}
