/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches whose kernels wait: for credit or arrival that is there, that is not, that comes later from another stream,
 * that never comes until the host says to stop; and two ranks that push to each other for many epochs without any host
 * in between, each on a stream of one device.
 */
#include <stdlib.h>

#include "base/base_clock.h"
#include "batch_link.h"
#include "batch_wait.h"

enum { EPOCHS = 200 };
#define MS UINT64_C(1000000)
#define SHORT_NS (2 * MS)
#define LONG_NS (10000 * MS)

static const link_shape_t small = {.npackets = 6, .nslots = 2, .shares = 3, .seed = 4, .sizes = 9, .complete = true};

static void set_abort(link_t *link, uint64_t value)
{
    *(uint64_t *)(void *)link->abort.want = value;
    /* Partner: the acquire in batch_await(). */
    __atomic_store_n((uint64_t *)(void *)link->abort.at, value, __ATOMIC_RELEASE);
}

/* Some packets of a batch have leave and go, the others do not and leave no trace but one word. */
static void test_no_credit(sv_device_t *dev, void *stream)
{
    link_t link;
    link_open(&link, dev, stream, &small);
    for (unsigned nblocks = 0; nblocks < 4; nblocks++) {
        const link_run_t run = {.epoch = 10 + nblocks, .wait_ns = SHORT_NS, .nblocks = nblocks,
                                .flags = nblocks == 2 ? SV_BATCH_STICKY : 0};
        *(uint64_t *)(void *)link.abort.want = 0;
        for (unsigned i = 0; i < small.npackets; i++)
            *link_credit(&link, i) = link_word(run.epoch - i % 2, 0, 1);
        link_store(&link);
        link_push(&link, &run, stream);
        for (unsigned i = 0; i < small.npackets; i++)
            i % 2 ? link_expect_no_push(&link, i, &run) : link_expect_push(&link, i, &run);
        CHECK_STR(link_difference(&link), "");
    }
    link_close(&link);
}

/* Which words say what an epoch and an attempt wait for; the same for credit and, where all segments came, arrival. */
static void test_words(sv_device_t *dev, void *stream)
{
    static const struct {
        uint64_t epoch, word_epoch;
        uint32_t attempt, word_attempt, count;
        bool there;
    } rows[] = {{5, 5, 0, 0, 1, true},  {5, 5, 2, 2, 9, true},   {5, 5, 255, 255, 1, true},
                {5, 5, 0, 1, 1, true},  {5, 5, 1, 0, 1, false},  {5, 5, 0, 0, 0, false},
                {5, 4, 0, 0, 1, false}, {5, 8, 0, 7, 0, true},   {0xffffffff, 0x100000001, 0, 0, 1, true},
                {5, 0, 0, 0, 0, false}, {0x100000001, 0xffffffff, 0, 0, 1, false}};
    link_t link;
    link_open(&link, dev, stream, &small);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const link_run_t run = {.epoch = rows[r].epoch, .attempt = rows[r].attempt, .wait_ns = SHORT_NS};
        const uint64_t word = link_word(rows[r].word_epoch, rows[r].word_attempt, rows[r].count);
        for (unsigned i = 0; i < small.npackets; i++)
            *link_credit(&link, i) = word;
        link_store(&link);
        link_push(&link, &run, stream);
        for (unsigned i = 0; i < small.npackets; i++)
            rows[r].there ? link_expect_push(&link, i, &run) : link_expect_no_push(&link, i, &run);
        CHECK_STR(link_difference(&link), "");

        for (unsigned i = 0; i < small.npackets; i++) {
            link_expect_push(&link, i, &run);
            *link_arrival(&link, i, run.epoch) = word;
        }
        link_store(&link);
        link_pull(&link, &run, stream);
        for (unsigned i = 0; i < small.npackets; i++) {
            bool enough = rows[r].epoch != rows[r].word_epoch || rows[r].count >= link_count(&link, i);
            if (rows[r].there && enough)
                CHECK_EQ(link_expect_pull(&link, i, &run), SV_PULL_GOOD);
            else
                link_expect_no_pull(&link, i, &run);
        }
        CHECK_STR(link_difference(&link), "");
    }
    link_close(&link);
}

/* Nothing came, and a launch that keeps failures says so; what comes then is good: the scratch was left clean. */
static void test_absent(sv_device_t *dev, void *stream)
{
    link_t link;
    link_open(&link, dev, stream, &small);
    for (uint64_t epoch = 1; epoch <= 4; epoch++) {
        const link_run_t sent = {.epoch = epoch};
        link_run_t run = {.epoch = epoch, .wait_ns = SHORT_NS, .nblocks = (unsigned)epoch - 1,
                          .flags = epoch > 2 ? SV_BATCH_STICKY : 0};
        set_abort(&link, 0);
        link_pull(&link, &run, stream);
        for (unsigned i = 0; i < small.npackets; i++) {
            link_expect_no_pull(&link, i, &run);
            CHECK_EQ(link_words(&link, i)->result.epoch, epoch > 2 ? 3 : 0);
        }
        CHECK_STR(link_difference(&link), "");
        link_push(&link, &sent, stream);
        link_pull(&link, &run, stream);
        for (unsigned i = 0; i < small.npackets; i++) {
            link_expect_push(&link, i, &sent);
            CHECK_EQ(link_expect_pull(&link, i, &run), SV_PULL_GOOD);
        }
        CHECK_STR(link_difference(&link), "");
    }
    link_close(&link);
}

/* A record that comes apart has a word of its own, for which nobody waits who verifies nothing. */
static void test_recorded(sv_device_t *dev, void *stream)
{
    link_shape_t shape = small;
    link_t link;
    shape.recorded = true;
    link_open(&link, dev, stream, &shape);
    for (unsigned turn = 0; turn < 4; turn++) {
        const bool blind = turn == 1, there = turn % 2;
        const link_run_t run = {.epoch = 1 + turn, .wait_ns = SHORT_NS, .flags = blind ? SV_DIGEST_NONE : 0};
        for (unsigned i = 0; i < shape.npackets; i++) {
            link_expect_push(&link, i, &run);
            *link_recorded(&link, i) = link_word(turn == 3 ? run.epoch : run.epoch - 1, 0, 1);
        }
        link_store(&link);
        link_pull(&link, &run, stream);
        for (unsigned i = 0; i < shape.npackets; i++)
            if (there)
                CHECK_EQ(link_expect_pull(&link, i, &run), SV_PULL_GOOD);
            else
                link_expect_no_pull(&link, i, &run);
        CHECK_STR(link_difference(&link), "");
    }
    link_close(&link);
}

/* The word is stored by another stream while the kernel waits; in device memory and in pinned memory. */
static void check_late(sv_device_t *dev, void *stream, void *other, bool pinned)
{
    link_shape_t shape = small;
    link_t link;
    shape.pinned = pinned;
    link_open(&link, dev, stream, &shape);
    for (uint64_t epoch = 1; epoch <= 3; epoch++) {
        const link_run_t run = {.epoch = epoch, .wait_ns = LONG_NS}, sent = {.epoch = epoch};
        memset(link.records.want, 0, link.records.bytes);
        link_store(&link);
        SV_DEVICE_CALL(dev, delay_async, 3000, other);
        for (unsigned i = 0; i < shape.npackets; i++) {
            *link_credit(&link, i) = link_word(epoch, 0, 1);
            CHECK_STATUS(SV_DEVICE_CALL(dev, signal_async, link_at(&link.records, link_credit(&link, i)),
                                        *link_credit(&link, i), other), SELVAGE_SUCCESS);
        }
        link_push(&link, &run, stream);
        CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, other), SELVAGE_SUCCESS);
        for (unsigned i = 0; i < shape.npackets; i++)
            link_expect_push(&link, i, &run);
        CHECK_STR(link_difference(&link), "");

        SV_DEVICE_CALL(dev, fill_async, link.records.at, 0, link.records.bytes, stream);
        CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, stream), SELVAGE_SUCCESS);
        SV_DEVICE_CALL(dev, delay_async, 3000, other);
        link_push(&link, &sent, other);
        link_pull(&link, &run, stream);
        CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, other), SELVAGE_SUCCESS);
        memset(link.records.want, 0, link.records.bytes);
        for (unsigned i = 0; i < shape.npackets; i++) {
            link_expect_push(&link, i, &sent);
            CHECK_EQ(link_expect_pull(&link, i, &run), SV_PULL_GOOD);
        }
        CHECK_STR(link_difference(&link), "");
    }
    link_close(&link);
}

/* A wait of a minute ends soon after the host says so; where the host cannot, it has said so before. */
static void test_abort(sv_device_t *dev, void *stream, bool concurrent)
{
    const link_run_t run = {.epoch = 3, .wait_ns = 6 * LONG_NS};
    link_t link;
    link_open(&link, dev, stream, &small);
    for (int pull = 0; pull <= 1; pull++) {
        const uint64_t begin_ns = sv_clock_ns();
        set_abort(&link, concurrent ? 0 : 1);
        pull ? link_pull(&link, &run, stream) : link_push(&link, &run, stream);
        sv_clock_sleep_until_ns(begin_ns + 5 * MS);
        set_abort(&link, 1);
        CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, stream), SELVAGE_SUCCESS);
        CHECK(sv_clock_ns() - begin_ns < 3 * LONG_NS);
        for (unsigned i = 0; i < small.npackets; i++)
            pull ? link_expect_no_pull(&link, i, &run) : link_expect_no_push(&link, i, &run);
        CHECK_STR(link_difference(&link), "");
    }
    link_close(&link);
}

static void await(sv_device_t *dev, const link_memory_t *words, uint64_t epoch, uint64_t wait_ns, void *stream)
{
    uint64_t *word = (uint64_t *)(void *)words->at;
    sv_await_arg_t arg = {.word = word, .abort = word + 1, .late = word + 2, .epoch = epoch, .wait_ns = wait_ns};
    CHECK_STATUS(SV_DEVICE_CALL(dev, launch, &sv_kernel_await, &arg, sizeof arg, 1, stream), SELVAGE_SUCCESS);
}

/* Says whether the time was over for an epoch, and forgets it. */
static void check_words(const link_memory_t *words, uint64_t epoch)
{
    uint64_t *word = (uint64_t *)(void *)words->at;
    /* Partner: the release of the kernel. */
    CHECK_EQ(__atomic_load_n(word + 2, __ATOMIC_ACQUIRE), epoch);
    CHECK_EQ(__atomic_load_n(word + 1, __ATOMIC_ACQUIRE), epoch != 0);
    __atomic_store_n(word + 2, 0, __ATOMIC_RELAXED);
    __atomic_store_n(word + 1, 0, __ATOMIC_RELEASE);
}

/* A stream is held until the word is there, its time is over, or the abort word is set. */
static void test_await(sv_device_t *dev, void *stream, void *other, bool concurrent)
{
    const uint64_t begin_ns = sv_clock_ns();
    link_memory_t words, data;
    link_memory_open(dev, &words, "words", 24, true);
    link_memory_open(dev, &data, "data", 4096, false);
    memcpy(words.want, &(uint64_t){3}, 8);
    link_memory_store(dev, &words, stream);
    await(dev, &words, 3, 6 * LONG_NS, stream);
    await(dev, &words, 2, 6 * LONG_NS, stream);
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, stream), SELVAGE_SUCCESS);
    check_words(&words, 0);
    await(dev, &words, 4, SHORT_NS, stream);
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, stream), SELVAGE_SUCCESS);
    CHECK(sv_clock_ns() - begin_ns >= SHORT_NS);
    check_words(&words, 4);
    if (concurrent) {
        SV_DEVICE_CALL(dev, delay_async, 3000, other);
        SV_DEVICE_CALL(dev, fill_async, data.at, 0x11, 2048, other);
        SV_DEVICE_CALL(dev, signal_async, (uint64_t *)(void *)words.at, 4, other);
        await(dev, &words, 4, 6 * LONG_NS, stream);
        SV_DEVICE_CALL(dev, copy_async, data.at + 2048, data.at, 2048, SV_COPY_D2D, stream);
        CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, other), SELVAGE_SUCCESS);
        memset(data.want, 0x11, data.bytes);
        CHECK_EQ(link_memory_compare(dev, &data, stream), -1);
    }
    /* Partner: the acquire in the kernel. */
    __atomic_store_n((uint64_t *)(void *)words.at + 1, 1, __ATOMIC_RELEASE);
    await(dev, &words, 5, 6 * LONG_NS, stream);
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, stream), SELVAGE_SUCCESS);
    CHECK(sv_clock_ns() - begin_ns < 3 * LONG_NS);
    link_memory_close(dev, &words);
    link_memory_close(dev, &data);
}

/* Two ranks on one device. Rank r sends over link r, and receives over the other one. */
typedef struct ranks {
    sv_device_t *dev;
    void *stream[2];
    link_t link[2];
    link_memory_t pattern; /* what is sent: a window of it that moves from epoch to epoch */
    link_memory_t log[2];  /* the end of what rank r received, of each epoch */
} ranks_t;

enum { LOG_BYTES = 16, STEP_BYTES = 16 };

/* The packet whose end is kept: any that is long enough. */
static unsigned logged(const link_t *link)
{
    unsigned i = 0;
    while (link->packet[i].identity.bytes < LOG_BYTES)
        i++;
    return i;
}

static uint64_t log_from(const link_t *link)
{
    const link_packet_t *packet = &link->packet[logged(link)];
    return packet->target + packet->identity.bytes - LOG_BYTES;
}

static void ranks_open(ranks_t *ranks, sv_device_t *dev, void *stream, void *other, const link_shape_t *shape)
{
    *ranks = (ranks_t){.dev = dev, .stream = {stream, other}};
    for (unsigned r = 0; r < 2; r++) {
        link_shape_t own = *shape;
        own.seed += r;
        link_open(&ranks->link[r], dev, ranks->stream[r], &own);
        for (unsigned i = 0; i < shape->npackets; i++) /* nothing is in the slots yet */
            *link_credit(&ranks->link[r], i) = link_word(shape->nslots, 0, 1);
        link_store(&ranks->link[r]);
        link_memory_open(dev, &ranks->log[r], "log", LOG_BYTES * (EPOCHS + 1), false);
        link_memory_store(dev, &ranks->log[r], ranks->stream[r]);
    }
    uint64_t most = ranks->link[0].source.bytes + ranks->link[1].source.bytes;
    link_memory_open(dev, &ranks->pattern, "pattern", most + STEP_BYTES * EPOCHS, false);
    for (uint64_t i = 0; i < ranks->pattern.bytes; i++)
        ranks->pattern.want[i] = (uint8_t)(sv_digest_mix(i) >> 56);
    link_memory_store(dev, &ranks->pattern, stream);
}

static void ranks_close(ranks_t *ranks)
{
    for (unsigned r = 0; r < 2; r++) {
        link_close(&ranks->link[r]);
        link_memory_close(ranks->dev, &ranks->log[r]);
    }
    link_memory_close(ranks->dev, &ranks->pattern);
}

/* All of an epoch of rank r, in the order of its stream. */
static void enqueue_epoch(ranks_t *ranks, unsigned r, const link_run_t *run)
{
    link_t *out = &ranks->link[r], *in = &ranks->link[1 - r];
    void *stream = ranks->stream[r];
    SV_DEVICE_CALL(ranks->dev, copy_async, out->source.at, ranks->pattern.at + STEP_BYTES * (run->epoch - 1),
                   out->source.bytes, SV_COPY_D2D, stream);
    link_push(out, run, stream);
    link_pull(in, run, stream);
    SV_DEVICE_CALL(ranks->dev, copy_async, ranks->log[r].at + LOG_BYTES * run->epoch, in->target.at + log_from(in),
                   LOG_BYTES, SV_COPY_D2D, stream);
}

/* Whether an epoch went wrong already: then nobody should wait for the rest. */
static bool in_trouble(const link_t *link)
{
    bool trouble = false;
    for (unsigned i = 0; i < link->shape.npackets; i++) {
        const link_words_t *words = (const link_words_t *)(const void *)link->words.at + i;
        /* Partners: the releases of push and pull. */
        uint64_t done = __atomic_load_n(&words->done, __ATOMIC_ACQUIRE);
        trouble |= __atomic_load_n(&words->failed, __ATOMIC_ACQUIRE) || (done && (done & 0xffffff) != SV_PULL_GOOD);
    }
    return trouble;
}

static void expect_epoch(ranks_t *ranks, unsigned r, const link_run_t *run)
{
    link_t *link = &ranks->link[r];
    memcpy(link->source.want, ranks->pattern.want + STEP_BYTES * (run->epoch - 1), link->source.bytes);
    for (unsigned i = 0; i < link->shape.npackets; i++) {
        link_expect_push(link, i, run);
        CHECK_EQ(link_expect_pull(link, i, run), SV_PULL_GOOD);
    }
    memcpy(ranks->log[1 - r].want + LOG_BYTES * run->epoch, link->target.want + log_from(link), LOG_BYTES);
}

static void check_ranks(sv_device_t *dev, void *stream, void *other, const link_shape_t *shape, unsigned nblocks)
{
    ranks_t ranks;
    link_run_t run = {.flags = SV_BATCH_STICKY, .wait_ns = LONG_NS, .nblocks = nblocks};
    ranks_open(&ranks, dev, stream, other, shape);
    for (run.epoch = 1; run.epoch <= EPOCHS; run.epoch++) {
        for (unsigned r = 0; r < 2; r++)
            enqueue_epoch(&ranks, r, &run);
        if (in_trouble(&ranks.link[0]) || in_trouble(&ranks.link[1])) {
            CHECK(!"an epoch went wrong");
            set_abort(&ranks.link[0], 1);
            set_abort(&ranks.link[1], 1);
            break;
        }
    }
    for (unsigned r = 0; r < 2; r++)
        CHECK_STATUS(SV_DEVICE_CALL(dev, stream_sync, ranks.stream[r]), SELVAGE_SUCCESS);
    for (run.epoch = 1; run.epoch <= EPOCHS; run.epoch++)
        for (unsigned r = 0; r < 2; r++)
            expect_epoch(&ranks, r, &run);
    for (unsigned r = 0; r < 2; r++) {
        CHECK_STR(link_difference(&ranks.link[r]), "");
        CHECK_EQ(link_memory_compare(dev, &ranks.log[r], stream), -1);
    }
    ranks_close(&ranks);
}

static void test_ranks(sv_device_t *dev, void *stream, void *other)
{
    link_shape_t shape = {.npackets = 4, .nslots = 2, .shares = 2, .seed = 5, .sizes = 9, .complete = true};
    check_ranks(dev, stream, other, &shape, 0);
    shape.pinned = true;
    check_ranks(dev, stream, other, &shape, 1);
    shape.pinned = false;
    shape.nslots = 1; /* each epoch waits for the one before it to be taken */
    check_ranks(dev, stream, other, &shape, 3);
}

void batch_test_waits(sv_device_t *dev, void *stream, void *other, bool concurrent)
{
    test_no_credit(dev, stream);
    test_words(dev, stream);
    test_absent(dev, stream);
    test_recorded(dev, stream);
    test_abort(dev, stream, concurrent);
    test_await(dev, stream, other, concurrent);
    if (!concurrent)
        return;
    check_late(dev, stream, other, false);
    check_late(dev, stream, other, true);
    test_ranks(dev, stream, other);
}
