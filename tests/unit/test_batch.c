/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels that move batches of packets, the digest kernel and the words that streams release, on the device that
 * SELVAGE_DEVICE names: every byte, record and word that they leave, against a model on the host, so the results are
 * the same to the bit on soft and on GPUs. With the argument "alone" the tests are left out in which a kernel waits for
 * another one, for tools that run one kernel at a time.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <stdlib.h>

#include "base/base_clock.h"
#include "base/base_config.h"
#include "fixtures/batch_link.h"
#include "fixtures/batch_wait.h"
#include "fixtures/check.h"

#if defined(SV_NO_THREADS) && SV_NO_THREADS
#define THREADS 0
#else
#define THREADS 1
#endif

enum { PATIENCE_S = 60 };

/* Three epochs, so that slots are used again; attempts and flags change as well. */
static void check_push(sv_device_t *dev, void *stream, const link_shape_t *shape, unsigned nblocks)
{
    static const uint64_t first_epochs[] = {1, 0xfffffffe, 0x100000009};
    link_t link;
    link_open(&link, dev, stream, shape);
    for (unsigned turn = 0; turn < 3; turn++) {
        link_run_t run = {.epoch = first_epochs[shape->seed % 3] + turn,
                          .attempt = turn * (shape->seed + 90) % 256,
                          .flags = turn == 2 ? SV_DIGEST_NONE : 0,
                          .nblocks = nblocks,
                          .corrupted = turn == 1 ? 1 + shape->seed % shape->npackets : 0};
        link_new_data(&link);
        link_memory_store(dev, &link.source, stream);
        link_push(&link, &run, stream);
        for (unsigned i = 0; i < shape->npackets; i++)
            link_expect_push(&link, i, &run);
        CHECK_STR(link_difference(&link), "");
    }
    link_close(&link);
}

static void test_push(sv_device_t *dev, void *stream)
{
    for (unsigned n = 1; n <= SV_BATCH_PACKETS; n++) {
        link_shape_t shape = {.npackets = n, .nslots = 1 + n % 2, .shares = 1, .seed = n, .pinned = n / 2 % 2};
        check_push(dev, stream, &shape, 0);
        shape.shares = 5;
        shape.seed += 100;
        check_push(dev, stream, &shape, 0);
        shape.nslots = 2 - n % 2;
        shape.seed += 100;
        shape.pinned = !shape.pinned;
        check_push(dev, stream, &shape, 1 + n / 3);
    }
    /* Each size alone. */
    for (unsigned seed = 0; seed < 11; seed++) {
        link_shape_t shape = {.npackets = 1, .nslots = 2, .shares = 1 + seed % 4, .seed = 300 + seed};
        check_push(dev, stream, &shape, 0);
    }
}

enum { DAMAGE_NONE, DAMAGE_BIT, DAMAGE_RECORD, DAMAGE_EPOCH, DAMAGE_DIGEST, DAMAGES };

/* What was sent is good; then it is damaged in one way. */
static void place_damaged(link_t *link, unsigned i, uint64_t epoch, unsigned damage)
{
    static const uint8_t places[] = {0, 4, 6, 8, 15, 16, 24, 28, 32, 36, 40, 48, 55};
    const link_run_t sent = {.epoch = damage == DAMAGE_EPOCH ? epoch - link->shape.nslots : epoch,
                             .attempt = i % 3};
    const uint64_t bytes = link->packet[i].identity.bytes;
    link_expect_push(link, i, &sent);
    if (damage == DAMAGE_BIT && bytes)
        link_payload(link, i, epoch)[(epoch * 7919 + i) % bytes] ^= (uint8_t)(1 << i % 8);
    else if (damage == DAMAGE_RECORD)
        link_record(link, i, epoch)[places[(epoch + i + link->shape.seed) % sizeof places]] ^= 0x10;
    else if (damage == DAMAGE_DIGEST || damage == DAMAGE_BIT)
        link_record(link, i, epoch)[56 + i % 8] ^= 1;
}

/* Packets of one launch are damaged in different ways, and in turn in all of them. */
static void check_pull(sv_device_t *dev, void *stream, const link_shape_t *shape, unsigned nblocks)
{
    link_t link;
    link_open(&link, dev, stream, shape);
    for (unsigned turn = 0; turn <= DAMAGES; turn++) {
        const bool blind = turn == DAMAGES;
        link_run_t run = {.epoch = 0xfffffffd + turn, .attempt = turn, .flags = blind ? SV_DIGEST_NONE : 0,
                          .nblocks = nblocks};
        link_new_data(&link);
        for (unsigned i = 0; i < shape->npackets; i++)
            place_damaged(&link, i, run.epoch, (i + turn) % DAMAGES);
        link_store(&link);
        link_pull(&link, &run, stream);
        for (unsigned i = 0; i < shape->npackets; i++) {
            bool good = blind || (i + turn) % DAMAGES == DAMAGE_NONE;
            CHECK_EQ(link_expect_pull(&link, i, &run), good ? SV_PULL_GOOD : SV_PULL_BAD);
        }
        CHECK_STR(link_difference(&link), "");
    }
    link_close(&link);
}

static void test_pull(sv_device_t *dev, void *stream)
{
    for (unsigned n = 1; n <= SV_BATCH_PACKETS; n += n < 5 ? 1 : 5) {
        link_shape_t shape = {.npackets = n, .nslots = 1 + n % 2, .shares = 1, .seed = n, .pinned = n / 2 % 2};
        check_pull(dev, stream, &shape, 0);
        shape.in_place = true;
        shape.shares = 4;
        shape.seed += 50;
        check_pull(dev, stream, &shape, 0);
        shape.in_place = false;
        shape.nslots = 2 - n % 2;
        shape.seed += 50;
        shape.pinned = !shape.pinned;
        check_pull(dev, stream, &shape, 2);
    }
}

/* Of two failures the first is kept, and one after the host took it is kept again; without the flag, the last. */
static void test_sticky(sv_device_t *dev, void *stream)
{
    const link_shape_t shape = {.npackets = 3, .nslots = 2, .shares = 2, .seed = 7, .sizes = 9, .complete = true};
    link_t link;
    link_open(&link, dev, stream, &shape);
    for (uint64_t epoch = 1; epoch <= 6; epoch++) {
        static const uint64_t kept[] = {0, 1, 1, 1, 4, 4, 6};
        link_run_t run = {.epoch = epoch, .flags = epoch < 6 ? SV_BATCH_STICKY : 0};
        for (unsigned i = 0; i < shape.npackets; i++) {
            place_damaged(&link, i, epoch, epoch == 3 ? DAMAGE_NONE : DAMAGE_BIT);
            if (epoch == 4)
                link_words(&link, i)->result.epoch = 0;
        }
        link_store(&link);
        link_pull(&link, &run, stream);
        for (unsigned i = 0; i < shape.npackets; i++) {
            CHECK_EQ(link_expect_pull(&link, i, &run), epoch == 3 ? SV_PULL_GOOD : SV_PULL_BAD);
            CHECK_EQ(link_words(&link, i)->result.epoch, kept[epoch]);
        }
        CHECK_STR(link_difference(&link), "");
    }
    link_close(&link);
}

/* What push wrote, pull takes: neither the host nor its model is in between. Push damages one on the way if told to. */
static void test_push_pull(sv_device_t *dev, void *stream)
{
    for (unsigned seed = 1; seed <= 4; seed++) {
        const link_shape_t shape = {.npackets = 11, .nslots = 1 + seed % 2, .shares = seed, .seed = seed,
                                    .pinned = seed > 2};
        link_t link;
        link_open(&link, dev, stream, &shape);
        for (uint64_t epoch = 1; epoch <= 4; epoch++) {
            link_run_t run = {.epoch = epoch, .attempt = (uint32_t)(epoch == 4), .corrupted = epoch == 2 ? 6 : 0};
            link_push(&link, &run, stream);
            link_pull(&link, &run, stream);
            for (unsigned i = 0; i < shape.npackets; i++) {
                link_expect_push(&link, i, &run);
                CHECK_EQ(link_expect_pull(&link, i, &run), i + 1 == run.corrupted ? SV_PULL_BAD : SV_PULL_GOOD);
            }
        }
        CHECK_STR(link_difference(&link), "");
        link_close(&link);
    }
}

/* The digest kernel writes the record of a published vector beside a copy, and then verifies both. */
static void check_vector(sv_device_t *dev, void *stream, sv_digest_arg_t arg, uint64_t digest, unsigned nblocks)
{
    enum { COPY = 8192, RECORD = 16384 + 3, SCRATCH = 20480 };
    link_memory_t memory, words;
    uint64_t *signal;
    sv_verify_result_t good = {.expected = digest, .found = digest, .record_ok = 1, .verified = 1};
    link_memory_open(dev, &memory, "memory", 24576, false);
    link_memory_open(dev, &words, "words", 64, true);
    for (uint64_t i = 0; i < arg.bytes; i++)
        memory.want[i] = (uint8_t)(arg.identity.tag == 5 ? i : 7 * i + 3);
    link_memory_store(dev, &memory, stream);
    link_memory_store(dev, &words, stream);
    signal = (uint64_t *)(void *)(words.at + 32);
    arg.src = memory.at;
    arg.dst = memory.at + COPY;
    arg.record = memory.at + RECORD;
    arg.scratch = (sv_digest_scratch_t *)(void *)(memory.at + SCRATCH);
    arg.mode = SV_DIGEST_PREPARE;
    CHECK_STATUS(SV_DEVICE_CALL(dev, launch, &sv_kernel_digest, &arg, sizeof arg, nblocks, stream), SELVAGE_SUCCESS);
    arg.mode = SV_DIGEST_VERIFY;
    arg.src = memory.at + COPY;
    arg.dst = NULL;
    arg.result = (sv_verify_result_t *)(void *)words.at;
    arg.signal = signal;
    arg.signal_value = 77;
    CHECK_STATUS(SV_DEVICE_CALL(dev, launch, &sv_kernel_digest, &arg, sizeof arg, nblocks, stream), SELVAGE_SUCCESS);
    memcpy(memory.want + COPY, memory.want, arg.bytes);
    arg.identity.digest = digest;
    memcpy(memory.want + RECORD, &arg.identity, sizeof arg.identity);
    memcpy(words.want, &good, sizeof good);
    memcpy(words.want + 32, &arg.signal_value, 8);
    CHECK_EQ(link_memory_compare(dev, &memory, stream), -1);
    CHECK_EQ(link_memory_compare(dev, &words, stream), -1);
    link_memory_close(dev, &memory);
    link_memory_close(dev, &words);
}

static void test_digest(sv_device_t *dev, void *stream)
{
    static const struct {
        uint32_t index, tag, from, to;
        uint64_t epoch, bytes, key, digest;
    } vectors[] = {{0, 0, 0, 1, 1, 0, 0x2f38eec54f02d9ed, 0xeac936e792abb95d},
                   {2, 5, 0, 1, 1, 13, 0x227c113c76aa2009, 0xb6fab5e3b5daa669},
                   {3, 11, 6, 2, 0x100000009, 4096, 0x7e2e15d89a9a9b18, 0xbdecd4639e17619c}};
    for (size_t v = 0; v < sizeof vectors / sizeof vectors[0]; v++) {
        sv_digest_arg_t arg = {.bytes = vectors[v].bytes};
        arg.identity = (sv_record_t){.magic = SV_RECORD_MAGIC, .version = SV_RECORD_VERSION,
                                     .kind = SV_RECORD_PACKET, .epoch = vectors[v].epoch, .exchange = 7,
                                     .index = vectors[v].index, .tag = vectors[v].tag, .source = vectors[v].from,
                                     .destination = vectors[v].to, .bytes = vectors[v].bytes,
                                     .salt = vectors[v].index + UINT64_C(1000) * vectors[v].tag};
        arg.key = sv_digest_key(&arg.identity);
        CHECK(arg.key == vectors[v].key);
        for (unsigned nblocks = 1; nblocks <= 8; nblocks += 1 + nblocks / 2)
            check_vector(dev, stream, arg, vectors[v].digest, nblocks);
    }
}

static bool comes(const uint64_t *word, uint64_t value)
{
    const uint64_t until_ns = sv_clock_ns() + UINT64_C(1000000000) * PATIENCE_S;
    /* Partner: the release of the stream. */
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
        if (sv_clock_ns() > until_ns)
            return false;
    return true;
}

/* Whoever sees the word sees what the stream did before it, without any other call. */
static void test_signal(sv_device_t *dev, void *stream)
{
    enum { DATA = 256, BYTES = 256 + 65536 };
    link_memory_t device, host;
    link_memory_open(dev, &device, "device", BYTES, false);
    link_memory_open(dev, &host, "host", BYTES, true);
    link_memory_store(dev, &host, stream);
    uint64_t *words = (uint64_t *)(void *)host.at, *inside = (uint64_t *)(void *)device.at, wrong = 0;
    for (uint64_t turn = 1; turn <= 20; turn++) {
        const uint64_t value = turn << 60 | turn << 32 | turn;
        SV_DEVICE_CALL(dev, fill_async, device.at, (int)turn, BYTES, stream);
        SV_DEVICE_CALL(dev, copy_async, host.at + DATA, device.at + DATA, BYTES - DATA, SV_COPY_D2H, stream);
        CHECK_STATUS(SV_DEVICE_CALL(dev, signal_async, inside + 1, value, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(SV_DEVICE_CALL(dev, signal_async, words + 3, value, stream), SELVAGE_SUCCESS);
        bool came = comes(words + 3, value);
        CHECK(came);
        if (!came)
            break;
        for (unsigned i = DATA; i < BYTES; i++)
            wrong += host.at[i] != turn;
        memset(device.want, (int)turn, BYTES);
        memcpy(device.want + 8, &value, 8);
        CHECK_EQ(link_memory_compare(dev, &device, stream), -1);
    }
    CHECK_EQ(wrong, 0);
    memset(host.want + DATA, 20, BYTES - DATA);
    memcpy(host.want + 24, device.want + 8, 8);
    CHECK_EQ(link_memory_compare(dev, &host, stream), -1);
    link_memory_close(dev, &device);
    link_memory_close(dev, &host);
}

/* The kernel's words, both and one alone, and the record that it carries. */
static void test_signal_kernel(sv_device_t *dev, void *stream)
{
    link_memory_t device, host;
    link_memory_open(dev, &device, "device", 128, false);
    link_memory_open(dev, &host, "host", 128, true);
    for (unsigned i = 0; i < SV_RECORD_BYTES; i++)
        device.want[i] = (uint8_t)(3 * i + 1);
    link_memory_store(dev, &device, stream);
    link_memory_store(dev, &host, stream);
    uint64_t *words = (uint64_t *)(void *)host.at, *want = (uint64_t *)(void *)host.want;
    sv_signal_arg_t arg = {.word = words + 1, .value = UINT64_C(0x123456789abcdef0),
                           .record = (const uint64_t *)(const void *)device.at, .record_to = words + 8,
                           .second = words + 3};
    CHECK_STATUS(SV_DEVICE_CALL(dev, launch, &sv_kernel_signal, &arg, sizeof arg, 1, stream), SELVAGE_SUCCESS);
    CHECK(comes(words + 1, arg.value));
    CHECK(comes(words + 3, arg.value));
    CHECK(memcmp(words + 8, device.want, SV_RECORD_BYTES) == 0);
    want[1] = want[3] = arg.value;
    memcpy(want + 8, device.want, SV_RECORD_BYTES);
    CHECK_EQ(link_memory_compare(dev, &host, stream), -1);

    arg = (sv_signal_arg_t){.word = words + 5, .value = 5};
    CHECK_STATUS(SV_DEVICE_CALL(dev, launch, &sv_kernel_signal, &arg, sizeof arg, 3, stream), SELVAGE_SUCCESS);
    arg = (sv_signal_arg_t){.word = words + 6, .value = 6, .second = (uint64_t *)(void *)device.at + 15};
    CHECK_STATUS(SV_DEVICE_CALL(dev, launch, &sv_kernel_signal, &arg, sizeof arg, 1, stream), SELVAGE_SUCCESS);
    want[5] = 5;
    want[6] = 6;
    device.want[120] = 6;
    CHECK_EQ(link_memory_compare(dev, &host, stream), -1);
    CHECK_EQ(link_memory_compare(dev, &device, stream), -1);
    link_memory_close(dev, &device);
    link_memory_close(dev, &host);
}

static void run_tests(sv_device_t *dev, bool concurrent)
{
    void *stream = NULL, *other = NULL;
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_create, &stream), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, stream_create, &other), SELVAGE_SUCCESS);
    test_digest(dev, stream);
    test_signal(dev, stream);
    test_signal_kernel(dev, stream);
    test_push(dev, stream);
    test_pull(dev, stream);
    test_sticky(dev, stream);
    test_push_pull(dev, stream);
    batch_test_waits(dev, stream, other, concurrent);
    batch_test_ahead(dev, stream, other, concurrent);
    SV_DEVICE_CALL(dev, stream_destroy, stream);
    SV_DEVICE_CALL(dev, stream_destroy, other);
}

int main(int argc, char **argv)
{
    sv_config_t config;
    sv_device_t *dev = NULL;
    CHECK_STATUS(sv_config_load(NULL, NULL, &config), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_device_open(NULL, &config, &dev), SELVAGE_SUCCESS);
    if (!dev)
        return check_report("batch");
    bool inlined = strcmp(dev->ops->name, "soft") == 0 && (!THREADS || config.soft_mode == SV_CONFIG_SOFT_INLINE);
    printf("batch: on %s%s%s\n", dev->ops->name, dev->model[0] ? ", " : "", dev->model);
    run_tests(dev, !inlined && (argc < 2 || strcmp(argv[1], "alone") != 0));
    dev->ops->close(dev);
    return check_report("batch");
}
