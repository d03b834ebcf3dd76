/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The digest on the host: the published vectors, the bijection, the key's dependence on every field of a packet, and
 * what the sum promises (any split, damage always seen).
 */
#include <stddef.h>

#include "fixtures/check.h"
#include "kernels/kernels.h"

typedef struct vector {
    sv_record_t identity;
    unsigned scale, shift;   /* payload byte i is (scale * i + shift) mod 256 */
    uint64_t key, digest;
} vector_t;

static const vector_t vectors[] = {
    {{.exchange = 7, .epoch = 1, .destination = 1}, 0, 0, 0x2f38eec54f02d9edu, 0xeac936e792abb95du},
    {{.exchange = 7, .epoch = 1, .index = 2, .tag = 5, .destination = 1, .bytes = 13}, 1, 0,
     0x227c113c76aa2009u, 0xb6fab5e3b5daa669u},
    {{.exchange = 7, .epoch = 0x100000009u, .index = 3, .tag = 11, .source = 6, .destination = 2, .bytes = 4096}, 7, 3,
     0x7e2e15d89a9a9b18u, 0xbdecd4639e17619cu},
};

static uint8_t payload[4096];

static void fill(const vector_t *vector)
{
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (uint8_t)(vector->scale * i + vector->shift);
}

static void test_vectors(void)
{
    for (size_t v = 0; v < sizeof vectors / sizeof *vectors; v++) {
        const vector_t *vector = &vectors[v];
        uint64_t key = sv_digest_key(&vector->identity);
        fill(vector);
        CHECK_EQ(key, vector->key);
        CHECK_EQ(sv_digest_finish(key, sv_digest_sum(key, 0, payload, vector->identity.bytes)), vector->digest);
    }
}

static void test_salt_is_computed(void)
{
    sv_record_t identity = vectors[2].identity;

    identity.salt = 0x1234;
    identity.digest = 99;
    identity.attempt = 3;
    CHECK_EQ(sv_digest_key(&identity), vectors[2].key);
}

static void test_key_depends_on_everything(void)
{
    const size_t fields[] = {offsetof(sv_record_t, epoch),  offsetof(sv_record_t, exchange),
                             offsetof(sv_record_t, index),  offsetof(sv_record_t, tag),
                             offsetof(sv_record_t, source), offsetof(sv_record_t, destination),
                             offsetof(sv_record_t, bytes)};

    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
        sv_record_t identity = vectors[1].identity;
        ((uint8_t *)&identity)[fields[f]] ^= 1;
        CHECK(sv_digest_key(&identity) != vectors[1].key);
    }
    /* index and tag whose salts are equal must not have equal keys. */
    sv_record_t alias = vectors[1].identity;
    alias.index += 1000;
    alias.tag -= 1;
    CHECK(sv_digest_key(&alias) != vectors[1].key);
}

static void test_splits_add_up(void)
{
    const uint64_t key = vectors[2].key;
    fill(&vectors[2]);
    for (size_t bytes = 4081; bytes <= sizeof payload; bytes++) {
        uint64_t whole = sv_digest_sum(key, 0, payload, bytes);
        for (size_t cut = 0; cut <= bytes; cut += 16)
            CHECK_EQ(sv_digest_sum(key, 0, payload, cut) + sv_digest_sum(key, cut / 8, payload + cut, bytes - cut),
                     whole);
    }
}

static void test_every_bit_counts(void)
{
    const uint64_t key = vectors[1].key;
    fill(&vectors[1]);
    for (unsigned bit = 0; bit < 13 * 8; bit++) {
        payload[bit / 8] ^= (uint8_t)(1u << bit % 8);
        CHECK(sv_digest_finish(key, sv_digest_sum(key, 0, payload, 13)) != vectors[1].digest);
        payload[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    payload[13] ^= 0xff; /* not part of the packet */
    CHECK_EQ(sv_digest_finish(key, sv_digest_sum(key, 0, payload, 13)), vectors[1].digest);
}

/* Words that change places, and packets that repeat in themselves, are the classic blind spots of sums. */
static void test_places_count(void)
{
    const uint64_t key = vectors[0].key;
    const uint64_t ab[] = {1, 2}, ba[] = {2, 1}, aa[] = {1, 1}, bb[] = {2, 2};

    CHECK(sv_digest_sum(key, 0, ab, 16) != sv_digest_sum(key, 0, ba, 16));
    CHECK(sv_digest_sum(key, 0, aa, 16) != sv_digest_sum(key, 0, bb, 16));
    CHECK(sv_digest_sum(key, 0, ab, 16) != sv_digest_sum(key, 1, ab, 16));
}

static void test_finish_is_never_zero(void)
{
    CHECK_EQ(sv_digest_mix(0), 0);
    CHECK_EQ(sv_digest_finish(42, 42), 1);
}

/* Of any length and from any byte, many words at once sum up to what they do one by one. */
static void test_wide_is_word_by_word(void)
{
    const uint64_t key = 0x123456789abcdef1u;
    fill(&vectors[2]);
    for (unsigned from = 0; from < 9; from += 3) {
        uint64_t sum = 0;
        for (unsigned bytes = 0; bytes < 1500; bytes++) {
            const unsigned whole = bytes / 8 * 8; /* the words before are in the sum */
            const uint64_t rest = sv_digest_sum(key, 5 + whole / 8, payload + from + whole, bytes - whole);
            CHECK_EQ(sv_digest_sum(key, 5, payload + from, bytes), sum + rest);
            if (bytes % 8 == 7)
                sum += sv_digest_sum(key, 5 + whole / 8, payload + from + whole, 8);
        }
    }
}

int main(void)
{
    test_vectors();
    test_salt_is_computed();
    test_key_depends_on_everything();
    test_splits_add_up();
    test_wide_is_word_by_word();
    test_every_bit_counts();
    test_places_count();
    test_finish_is_never_zero();
    return check_report("test_digest");
}
