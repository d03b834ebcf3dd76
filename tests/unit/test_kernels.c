/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels' bodies for soft, called block by block on this thread and on several: the published vectors, sizes,
 * misalignments, splits, records, signals, and pages that may not be touched on both sides of the data.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixtures/check.h"
#include "kernels/kernels.h"

enum { LARGE_BYTES = 300007, CANARY = 0xa5 };

static uint8_t source[LARGE_BYTES + 64], target[LARGE_BYTES + 64];

static sv_record_t make_identity(uint32_t index, uint32_t tag, uint64_t bytes)
{
    return (sv_record_t){.magic = SV_RECORD_MAGIC, .version = SV_RECORD_VERSION, .kind = SV_RECORD_PACKET,
                         .epoch = 1, .exchange = 7, .index = index, .tag = tag, .destination = 1, .bytes = bytes,
                         .salt = index + UINT64_C(1000) * tag, .digest = 0xdead};
}

/* Blocks run from the last to the first: none may depend on an order. */
static void run_blocks(const sv_digest_arg_t *arg, unsigned nblocks)
{
    for (unsigned block = nblocks; block-- > 0;)
        sv_kernel_digest.soft(arg, block, nblocks);
}

static int scratch_is_zero(const sv_digest_scratch_t *scratch)
{
    return scratch->sum == 0 && scratch->blocks_done == 0 && scratch->go == 0;
}

/* Digest of a packet through the kernel, in segments; the record goes to an odd address. */
static uint64_t prepare(sv_digest_arg_t arg, unsigned nblocks, uint64_t segment_bytes, uint8_t *record)
{
    sv_digest_scratch_t scratch = {0};
    sv_record_t written;
    const uint8_t *src = arg.src;
    uint8_t *dst = arg.dst;

    arg.scratch = &scratch;
    arg.record = record;
    for (uint64_t done = 0; arg.identity.bytes - done > segment_bytes; done += segment_bytes) {
        arg.src = src + done;
        arg.dst = dst ? dst + done : NULL;
        arg.bytes = segment_bytes;
        arg.first_word = done / 8;
        arg.mode = SV_DIGEST_ADD | (arg.mode & SV_DIGEST_NONE);
        run_blocks(&arg, nblocks);
        CHECK_EQ(scratch.blocks_done, 0);
    }
    uint64_t last = arg.identity.bytes == 0 ? 0 : (arg.identity.bytes - 1) / segment_bytes * segment_bytes;
    arg.src = last ? src + last : src;
    arg.dst = dst && last ? dst + last : dst;
    arg.bytes = arg.identity.bytes - last;
    arg.first_word = last / 8;
    arg.mode = SV_DIGEST_PREPARE | (arg.mode & SV_DIGEST_NONE);
    run_blocks(&arg, nblocks);
    CHECK(scratch_is_zero(&scratch));
    memcpy(&written, record, sizeof written);
    uint64_t digest = written.digest;
    written.digest = arg.identity.digest;
    CHECK(memcmp(&written, &arg.identity, sizeof written) == 0);
    return digest;
}

static uint64_t reference(uint64_t key, const void *data, uint64_t bytes)
{
    return sv_digest_finish(key, sv_digest_sum(key, 0, data, bytes));
}

static void test_vectors(void)
{
    static const struct {
        uint32_t index, tag, from, to, scale, shift;
        uint64_t epoch, bytes, digest;
    } vectors[] = {{0, 0, 0, 1, 0, 0, 1, 0, 0xeac936e792abb95du},
                   {2, 5, 0, 1, 1, 0, 1, 13, 0xb6fab5e3b5daa669u},
                   {3, 11, 6, 2, 7, 3, 0x100000009u, 4096, 0xbdecd4639e17619cu}};
    uint8_t record[65];

    for (size_t v = 0; v < sizeof vectors / sizeof *vectors; v++) {
        sv_record_t identity = make_identity(vectors[v].index, vectors[v].tag, vectors[v].bytes);
        identity.source = vectors[v].from;
        identity.destination = vectors[v].to;
        identity.epoch = vectors[v].epoch;
        for (size_t i = 0; i < vectors[v].bytes; i++)
            source[i] = (uint8_t)(vectors[v].scale * i + vectors[v].shift);
        sv_digest_arg_t arg = {.src = vectors[v].bytes ? source : NULL, .key = sv_digest_key(&identity),
                               .identity = identity};
        for (unsigned nblocks = 1; nblocks <= 9; nblocks++)
            for (uint64_t segment = 16; segment <= 8192; segment *= 2)
                CHECK_EQ(prepare(arg, nblocks, segment, record + 1), vectors[v].digest);
    }
}

static void fill_source(void)
{
    srand(20103);
    for (size_t i = 0; i < sizeof source; i++)
        source[i] = (uint8_t)(rand() >> 7);
}

/* One copying pass; looks at the bytes around the copy as well. */
static void check_copy(uint64_t bytes, unsigned src_off, unsigned dst_off, unsigned nblocks, uint64_t segment)
{
    sv_record_t identity = make_identity(4, 9, bytes);
    uint64_t key = sv_digest_key(&identity);
    uint8_t record[80];
    sv_digest_arg_t arg = {.src = source + src_off, .dst = target + 16 + dst_off, .key = key, .identity = identity};

    memset(target, CANARY, bytes + 64);
    CHECK(prepare(arg, nblocks, segment, record + 1 + src_off % 8) == reference(key, source + src_off, bytes));
    CHECK(memcmp(target + 16 + dst_off, source + src_off, bytes) == 0);
    for (unsigned i = 0; i < 16; i++) {
        CHECK(target[dst_off + i] == CANARY);
        CHECK(target[16 + dst_off + bytes + i] == CANARY);
    }
}

static void test_sizes_and_alignments(void)
{
    fill_source();
    for (uint64_t bytes = 0; bytes <= 200; bytes++)
        for (unsigned off = 0; off < 16; off++)
            check_copy(bytes, off, (unsigned)(off * 7 + bytes) % 16, 1 + off % 5, 16 + 16 * (bytes % 4));
    for (unsigned src_off = 0; src_off < 16; src_off++)
        for (unsigned dst_off = 0; dst_off < 16; dst_off++)
            check_copy(1337, src_off, dst_off, 3, 4096);
    for (uint64_t bytes = LARGE_BYTES - 17; bytes <= LARGE_BYTES; bytes++)
        check_copy(bytes, (unsigned)bytes % 16, (unsigned)bytes % 13, 1 + (unsigned)bytes % 7,
                   65536 + 16 * (bytes % 3));
}

static void test_without_digest(void)
{
    sv_record_t identity = make_identity(1, 1, 1000);
    sv_digest_arg_t arg = {.src = source + 3, .dst = target + 1, .key = 1, .mode = SV_DIGEST_NONE,
                           .identity = identity};
    uint8_t record[65];

    memset(target, 0, 1001);
    CHECK_EQ(prepare(arg, 4, 512, record + 1), 0);
    CHECK(memcmp(target + 1, source + 3, 1000) == 0);
    arg.dst = NULL;
    arg.src = NULL; /* nothing to copy and nothing to sum: src is not looked at */
    CHECK_EQ(prepare(arg, 4, 1000, record + 1), 0);
}

/* Zero means "no digest" in a record, so a digest that comes out as zero is written as one. */
static void test_digest_is_never_zero(void)
{
    sv_digest_arg_t arg = {.key = 0, .identity = make_identity(0, 0, 0)};
    uint8_t record[65];

    CHECK_EQ(prepare(arg, 1, 16, record + 1), 1);
    CHECK_EQ(prepare(arg, 3, 16, record + 1), 1);
}

static sv_verify_result_t verify(const sv_digest_arg_t *base, const uint8_t *record, unsigned nblocks, uint32_t flags)
{
    sv_digest_scratch_t scratch = {0};
    sv_verify_result_t result;
    uint8_t odd[65];
    uint64_t word = 0;
    sv_digest_arg_t arg = *base;

    memset(&result, 0xff, sizeof result);
    memcpy(odd + 1, record, 64);
    arg.scratch = &scratch;
    arg.record = odd + 1;
    arg.result = &result;
    arg.signal = &word;
    arg.signal_value = 77;
    arg.mode = SV_DIGEST_VERIFY | flags;
    run_blocks(&arg, nblocks);
    CHECK(scratch_is_zero(&scratch));
    CHECK_EQ(word, 77);
    return result;
}

/* Damage in any byte of the record is seen, but for the attempt, which is not part of the identity. */
static void check_damaged_records(const sv_digest_arg_t *arg, const uint8_t *record, uint32_t flags)
{
    for (unsigned b = 0; b < 64; b++) {
        uint8_t bad[64];
        memcpy(bad, record, 64);
        bad[b] ^= 0x10;
        sv_verify_result_t result = verify(arg, bad, 1 + b % 3, flags);
        CHECK_EQ(result.record_ok, b == 7 || b >= 56);
        CHECK_EQ(result.verified, b == 7 || (b >= 56 && flags));
    }
}

static void test_verify(void)
{
    sv_record_t identity = make_identity(8, 2, 777);
    uint64_t key = sv_digest_key(&identity), digest = reference(key, source + 1, 777);
    sv_digest_arg_t arg = {.src = source + 1, .bytes = 777, .key = key, .identity = identity};
    uint8_t record[65];

    CHECK_EQ(prepare(arg, 2, 256, record + 1), digest);
    sv_verify_result_t good = verify(&arg, record + 1, 3, 0);
    CHECK(good.record_ok && good.verified);
    CHECK_EQ(good.expected, digest);
    CHECK_EQ(good.found, digest);
    check_damaged_records(&arg, record + 1, 0);
    arg.src = source + 2; /* other bytes under a true record */
    sv_verify_result_t bad = verify(&arg, record + 1, 2, 0);
    CHECK(bad.record_ok && !bad.verified && bad.found != digest && bad.expected == digest);
    sv_verify_result_t off = verify(&arg, record + 1, 2, SV_DIGEST_NONE);
    CHECK(off.record_ok && off.verified && off.found == 0 && off.expected == 0);
    check_damaged_records(&arg, record + 1, SV_DIGEST_NONE);
}

/* A packet that moves in segments is verified with the sum that the earlier launches left. */
static void test_verify_in_segments(void)
{
    sv_record_t identity = make_identity(8, 2, 4099);
    uint64_t key = sv_digest_key(&identity);
    sv_digest_scratch_t scratch = {0};
    sv_verify_result_t result = {0};
    sv_record_t record = identity;
    sv_digest_arg_t arg = {.src = source, .bytes = 4096, .key = key, .scratch = &scratch, .identity = identity,
                           .record = (uint8_t *)&record, .result = &result, .mode = SV_DIGEST_ADD};

    record.digest = reference(key, source, 4099);
    run_blocks(&arg, 3);
    CHECK(result.verified == 0 && scratch.sum == sv_digest_sum(key, 0, source, 4096));
    arg.src = source + 4096;
    arg.bytes = 3;
    arg.first_word = 512;
    arg.mode = SV_DIGEST_VERIFY;
    run_blocks(&arg, 3);
    CHECK(result.verified && scratch_is_zero(&scratch));
}

/* The data end, and begin, at a page that may not be touched; a byte too many ends the program. */
static void test_guard_pages(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *map = mmap(NULL, 5 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(map != MAP_FAILED);
    if (map == MAP_FAILED)
        return;
    uint8_t *in = map + page, *out = map + 3 * page, record[64];
    CHECK_EQ(mprotect(in, page, PROT_READ | PROT_WRITE), 0);
    CHECK_EQ(mprotect(out, page, PROT_READ | PROT_WRITE), 0);
    memcpy(in, source, page);
    for (uint64_t bytes = 0; bytes <= 150; bytes++) {
        sv_record_t identity = make_identity(0, 0, bytes);
        sv_digest_arg_t arg = {.key = sv_digest_key(&identity), .identity = identity};
        for (unsigned end = 0; end < 4; end++) {
            arg.src = end & 1 ? in + page - bytes : in;
            arg.dst = end & 2 ? out + page - bytes : out;
            CHECK(prepare(arg, 2, 64, record) == reference(arg.key, arg.src, bytes));
            CHECK(memcmp(arg.dst, arg.src, bytes) == 0);
        }
    }
    munmap(map, 5 * page);
}

typedef struct lane {
    pthread_t thread;
    const sv_digest_arg_t *arg;
    unsigned block, nblocks;
} lane_t;

static void *lane_main(void *opaque)
{
    lane_t *lane = opaque;
    sv_kernel_digest.soft(lane->arg, lane->block, lane->nblocks);
    return NULL;
}

static void start_lanes(lane_t *lanes, unsigned count, const sv_digest_arg_t *arg)
{
    for (unsigned i = 0; i < count; i++) {
        lanes[i] = (lane_t){.arg = arg, .block = i, .nblocks = count};
        CHECK_EQ(pthread_create(&lanes[i].thread, NULL, lane_main, &lanes[i]), 0);
    }
}

/* Blocks at the same time; the one that polls the signal then reads everything that the others wrote. */
static void test_concurrent_blocks(void)
{
    sv_record_t identity = make_identity(5, 5, LARGE_BYTES), record;
    uint64_t key = sv_digest_key(&identity), word = 0, digest = reference(key, source, LARGE_BYTES);
    sv_digest_scratch_t scratch = {0};
    sv_digest_arg_t arg = {.src = source, .dst = target + 3, .bytes = LARGE_BYTES, .key = key, .scratch = &scratch,
                           .record = (uint8_t *)&record, .signal = &word, .mode = SV_DIGEST_PREPARE,
                           .identity = identity};
    lane_t lanes[4];

    for (unsigned round = 1; round <= 20; round++) {
        arg.signal_value = round;
        memset(target, 0, sizeof target);
        start_lanes(lanes, 4, &arg);
        unsigned turns = 0;
        while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) != round) /* partner: the kernel's release */
            sv_kernel_backoff(&turns);
        CHECK(record.digest == digest && memcmp(target + 3, source, LARGE_BYTES) == 0);
        CHECK(scratch_is_zero(&scratch));
        for (unsigned i = 0; i < 4; i++)
            pthread_join(lanes[i].thread, NULL);
    }
}

/* Launches that wait: what is awaited comes, or does not, or is wanted no more. */
static void test_await(void)
{
    enum { BYTES = 5000, COMES = 0, LATE = 1, STOPPED = 2, OTHER = 3, WAYS = 4 };
    sv_record_t identity = make_identity(3, 3, BYTES), record;
    uint64_t word = 0, second = 0, awaited = 0, stop = 0;
    sv_digest_scratch_t scratch = {0};
    sv_digest_arg_t arg = {.src = source, .dst = target, .bytes = BYTES, .key = sv_digest_key(&identity),
                           .scratch = &scratch, .record = (uint8_t *)&record, .signal = &word, .signal_value = 7,
                           .second = &second, .second_value = 9, .await = &awaited, .await_value = 5,
                           .away_value = 8, .stop = &stop, .mode = SV_DIGEST_PREPARE, .identity = identity};
    lane_t lanes[3];

    for (unsigned round = 0; round < 2 * WAYS; round++) {
        const unsigned way = round % WAYS, nblocks = round < WAYS ? 1 : 3;
        word = second = awaited = stop = 0;
        arg.mode = SV_DIGEST_PREPARE | (way == OTHER ? SV_DIGEST_ONLY : 0);
        arg.await_ns = way == LATE ? 1000000 : UINT64_C(10000000000);
        memset(target, 0, BYTES);
        start_lanes(lanes, nblocks, &arg);
        __atomic_store_n(&awaited, way == COMES ? 5 : 4, __ATOMIC_RELEASE);
        __atomic_store_n(&stop, way == STOPPED ? 7 : 6, __ATOMIC_RELEASE);
        for (unsigned i = 0; i < nblocks; i++)
            pthread_join(lanes[i].thread, NULL);
        CHECK_EQ(word, way == COMES ? 7 : 8);
        CHECK_EQ(second, way == COMES ? 9 : 0);
        CHECK_EQ(memcmp(target, source, BYTES) == 0, way == COMES);
        CHECK(scratch_is_zero(&scratch));
    }
}

/* Launches that read ahead of the word: the bytes are whole, are not yet, never will be, or are another packet's. */
static void test_await_ahead(void)
{
    enum { BYTES = 5000, WHOLE = 0, GROWS = 1, DAMAGED = 2, LATE = 3, OTHER = 4, STALE = 5, WAYS = 6 };
    static uint8_t from[BYTES], none[BYTES + 16];
    sv_record_t identity = make_identity(3, 3, BYTES), record;
    uint64_t word = 0, second = 0, awaited[2] = {0}, stop = 0;
    sv_digest_scratch_t scratch = {0};
    sv_verify_result_t result;
    sv_digest_arg_t arg = {.src = from, .dst = target, .bytes = BYTES, .key = sv_digest_key(&identity),
                           .scratch = &scratch, .record = (uint8_t *)&record, .result = &result, .signal = &word,
                           .signal_value = 7, .second = &second, .second_value = 9, .await = awaited,
                           .await_value = 5, .away_value = 8, .stop = &stop,
                           .mode = SV_DIGEST_VERIFY | SV_DIGEST_ONLY | SV_DIGEST_AHEAD, .identity = identity};
    lane_t lanes[3];

    if (getenv("AMDGPU_OBJECTS")) /* emulated: launches on AMD do not read ahead */
        return;
    for (unsigned round = 0; round < 2 * WAYS; round++) {
        const unsigned way = round % WAYS, nblocks = round < WAYS ? 1 : 3;
        const bool good = way == WHOLE || way == GROWS;
        word = second = awaited[0] = 0;
        arg.await_ns = way == LATE ? 50000000 : UINT64_C(10000000000);
        record = identity;
        record.digest = reference(arg.key, source, BYTES);
        record.tag += way == OTHER;
        memcpy(from, source, BYTES);
        from[BYTES - 100] ^= !good || way == GROWS;
        awaited[1] = way == STALE ? 4 : 5;
        stop = way == GROWS || way == DAMAGED ? 7 : 0; /* too late for a packet that is under way */
        memset(target, 0, BYTES + 16);
        start_lanes(lanes, nblocks, &arg);
        if (way != WHOLE)
            usleep(20000); /* time to read too early, which it need not take */
#if !defined(SV_SANITIZES_THREAD)
        from[BYTES - 100] ^= way == GROWS;
#endif
        if (way != WHOLE && way != LATE)
            __atomic_store_n(&awaited[0], way == OTHER || way == STALE ? 6 : 5, __ATOMIC_RELEASE);
        for (unsigned i = 0; i < nblocks; i++)
            pthread_join(lanes[i].thread, NULL);
#if defined(SV_SANITIZES_THREAD)
        if (way == GROWS)
            continue;
#endif
        CHECK_EQ(word, good || way == DAMAGED ? 7 : 8);
        CHECK_EQ(second, good ? 9 : 0);
        CHECK(!good || memcmp(target, source, BYTES) == 0);
        CHECK(!(good || way == DAMAGED) || result.verified == good);
        CHECK(!(way == OTHER || way == STALE) || memcmp(target, none, BYTES) == 0);
        CHECK(memcmp(target + BYTES, none, 16) == 0);
        CHECK(scratch_is_zero(&scratch));
    }
}

/* Whoever prepares a packet says that its record is under way, if that is wanted. */
static void test_prepare_ahead(void)
{
    enum { BYTES = 5000 };
    sv_record_t identity = make_identity(3, 3, BYTES), record;
    sv_digest_scratch_t scratch = {0};
    for (unsigned ahead = 0; ahead < 2; ahead++) {
        uint64_t word = 0, second[2] = {0};
        const sv_digest_arg_t arg = {.src = source, .dst = target, .bytes = BYTES, .key = sv_digest_key(&identity),
                                     .scratch = &scratch, .record = (uint8_t *)&record, .signal = &word,
                                     .signal_value = 7, .second = second, .second_value = 9, .identity = identity,
                                     .mode = SV_DIGEST_PREPARE | (ahead ? SV_DIGEST_AHEAD : 0)};
        for (unsigned block = 0; block < 3; block++)
            sv_kernel_digest.soft(&arg, block, 3);
        CHECK_EQ(second[0], 9);
        CHECK_EQ(second[1], ahead ? 9 : 0);
        CHECK_EQ(word, 7);
    }
}

/* A launch that waits for the record alone: it has passed over the bytes by then, and leaves all as it found it. */
static void test_await_late(void)
{
    enum { BYTES = 5000, COMES = 0, LATE = 1, STOPPED = 2, WAYS = 3 };
    sv_record_t identity = make_identity(3, 3, BYTES), record = identity;
    uint64_t word = 0, second = 0, awaited = 0, stop = 0;
    sv_digest_scratch_t scratch = {0};
    sv_verify_result_t result;
    sv_digest_arg_t arg = {.src = source, .dst = target, .bytes = BYTES, .key = sv_digest_key(&identity),
                           .scratch = &scratch, .record = (uint8_t *)&record, .result = &result, .signal = &word,
                           .signal_value = 7, .second = &second, .second_value = 9, .await = &awaited,
                           .await_value = 5, .away_value = 8, .stop = &stop,
                           .mode = SV_DIGEST_VERIFY | SV_DIGEST_LATE, .identity = identity};
    lane_t lanes[3];

    for (unsigned round = 0; round < 2 * WAYS; round++) {
        const unsigned way = round % WAYS, nblocks = round < WAYS ? 1 : 3;
        word = second = awaited = stop = record.digest = 0;
        arg.await_ns = way == LATE ? 1000000 : UINT64_C(10000000000);
        memset(target, 0, BYTES);
        start_lanes(lanes, nblocks, &arg);
        if (way == COMES) {
            record.digest = reference(arg.key, source, BYTES);
            __atomic_store_n(&awaited, 5, __ATOMIC_RELEASE);
        }
        __atomic_store_n(&stop, way == STOPPED ? 7 : 6, __ATOMIC_RELEASE);
        for (unsigned i = 0; i < nblocks; i++)
            pthread_join(lanes[i].thread, NULL);
        CHECK_EQ(word, way == COMES ? 7 : 8);
        CHECK_EQ(second, way == COMES ? 9 : 0);
        CHECK(memcmp(target, source, BYTES) == 0);
        CHECK(scratch_is_zero(&scratch));
    }
}

/* Several packets in one launch, of which one is damaged, one is only copied, and one is prepared. */
static void test_several(void)
{
    enum { JOBS = SV_DIGESTS_MAX, EACH = 3001, DAMAGED = 2, COPIED = 4, PREPARED = 5 };
    static uint8_t in[JOBS][EACH], out[JOBS][EACH];
    sv_record_t record[JOBS];
    sv_digest_scratch_t scratch[JOBS] = {{0}};
    sv_verify_result_t result[JOBS] = {{0}};
    uint64_t word[JOBS] = {0}, second[JOBS] = {0};
    sv_digests_arg_t arg = {.njobs = JOBS, .exchange = 7};

    for (unsigned i = 0; i < JOBS; i++) {
        const uint64_t bytes = i == 0 ? 1 : EACH - i;
        sv_record_t identity = make_identity(40 + i, i, bytes);
        identity.epoch = 40 + i;
        identity.digest = 0;
        memcpy(in[i], source + 100 * i, EACH);
        record[i] = identity;
        const uint64_t key = sv_digest_key(&identity);
        record[i].digest = reference(key, in[i], bytes) ^ (i == DAMAGED);
        if (i == PREPARED)
            memset(&record[i], 0, sizeof record[i]);
        arg.first_block[i + 1] = arg.first_block[i] + 1 + i % 3;
        arg.job[i] = (sv_digest_job_t){.src = in[i], .dst = out[i], .bytes = bytes, .key = key, .scratch = &scratch[i],
                                       .record = (uint8_t *)&record[i], .result = &result[i], .signal = &word[i],
                                       .signal_value = 50 + i, .second = &second[i], .second_value = 60 + i,
                                       .epoch = 40 + i, .tag = i, .destination = 1,
                                       .mode = i == PREPARED ? SV_DIGEST_PREPARE : SV_DIGEST_VERIFY};
        if (i == COPIED) {
            arg.job[i].scratch = NULL;
            arg.job[i].mode = SV_DIGEST_NONE;
        }
    }
    for (unsigned block = arg.first_block[JOBS]; block-- > 0;)
        sv_kernel_digests.soft(&arg, block, arg.first_block[JOBS]);
    for (unsigned i = 0; i < JOBS; i++) {
        CHECK(memcmp(out[i], in[i], arg.job[i].bytes) == 0);
        CHECK_EQ(word[i], i == COPIED ? 0 : 50 + i);
        CHECK_EQ(second[i], i == COPIED || i == DAMAGED ? 0 : 60 + i);
        CHECK_EQ(result[i].verified, i != COPIED && i != DAMAGED && i != PREPARED);
        CHECK(scratch_is_zero(&scratch[i]));
    }
    CHECK(record[PREPARED].digest == reference(arg.job[PREPARED].key, in[PREPARED], arg.job[PREPARED].bytes));
    CHECK(record[PREPARED].epoch == 40 + PREPARED && record[PREPARED].salt == 40 + PREPARED + 1000 * PREPARED);
}

/* The second word says that nothing was wrong. */
static void test_second_word(void)
{
    enum { BYTES = 100 };
    sv_record_t identity = make_identity(3, 3, BYTES), record = identity;
    uint64_t word = 0, second = 0;
    sv_digest_scratch_t scratch = {0};
    sv_verify_result_t result;
    sv_digest_arg_t arg = {.src = source, .bytes = BYTES, .key = sv_digest_key(&identity), .scratch = &scratch,
                           .record = (uint8_t *)&record, .result = &result, .signal = &word, .signal_value = 7,
                           .second = &second, .second_value = 9, .mode = SV_DIGEST_VERIFY, .identity = identity};

    record.digest = reference(arg.key, source, BYTES) ^ 1;
    run_blocks(&arg, 1);
    CHECK(word == 7 && second == 0 && !result.verified);
    record.digest ^= 1;
    run_blocks(&arg, 1);
    CHECK(word == 7 && second == 9 && result.verified);
}

static void test_signal_and_flip(void)
{
    uint64_t word = 0;
    uint8_t bytes[3] = {1, 0x5a, 3};
    sv_signal_arg_t signal = {.word = &word, .value = UINT64_C(0x123456789)};
    sv_flip_arg_t flip = {&bytes[1], 0x81};

    for (unsigned block = 0; block < 3; block++) {
        sv_kernel_signal.soft(&signal, block, 3);
        sv_kernel_flip.soft(&flip, block, 3);
    }
    CHECK_EQ(word, UINT64_C(0x123456789));
    CHECK(bytes[0] == 1 && bytes[1] == (0x5a ^ 0x81) && bytes[2] == 3);
    CHECK_STR(sv_kernel_digest.name, "sv_digest");
    CHECK_STR(sv_kernel_signal.name, "sv_signal");
    CHECK_STR(sv_kernel_flip.name, "sv_flip");
}

int main(void)
{
    test_vectors();
    test_sizes_and_alignments();
    test_without_digest();
    test_digest_is_never_zero();
    test_verify();
    test_verify_in_segments();
    test_guard_pages();
    test_concurrent_blocks();
    test_await();
    test_await_ahead();
    test_prepare_ahead();
    test_await_late();
    test_several();
    test_second_word();
    test_signal_and_flip();
    return check_report("test_kernels");
}
