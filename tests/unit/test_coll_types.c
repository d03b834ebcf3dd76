/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arithmetic of collectives and their pass over memory, as the device soft runs them, against the reference: all
 * pairs of elements of 8 bits, all elements and many pairs of 16, special and random ones of 32 and 64; every
 * alignment, in place, 1 to 16 sources, the digest, and no byte beside the buffers written or read.
 */
#include <selvage/collective.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "fixtures/check.h"
#include "fixtures/coll_entry.h"
#include "fixtures/coll_numbers.h"
#include "kernels/coll_pass_host.h"
#include "kernels/kernels.h"

enum { PAIRS = 1 << 16, ROOM = PAIRS * 8, GUARD = 32, SMALL = 1536, CASES = 3000, PAGE = 1 << 16 };

static _Alignas(16) uint8_t left[ROOM], right[ROOM], result[ROOM];
static _Alignas(16) uint8_t source[COLL_SOURCES][SMALL], target[COLL_TARGETS][SMALL], before[COLL_SOURCES][SMALL];

static const unsigned ops[] = {SELVAGE_OP_SUM, SELVAGE_OP_PROD, SELVAGE_OP_MIN, SELVAGE_OP_MAX};

static uint64_t random_bits(void)
{
    static uint64_t state = 1;
    return sv_digest_mix(state++ * UINT64_C(0x9e3779b97f4a7c15));
}

static unsigned pick(unsigned n)
{
    return (unsigned)(random_bits() >> 32) % n;
}

static uint64_t element(const uint8_t *from, unsigned bytes)
{
    uint64_t bits = 0;
    memcpy(&bits, from, bytes);
    return bits;
}

/* Half of all elements are near each other in size, so that sums round; some are special. */
static uint64_t random_element(unsigned type)
{
    static const uint32_t tops[] = {0, 0x8000, 0x0001, 0x8001, 0x7c00, 0x7f80, 0xff80, 0x7fc1, 0xffc1, 0x7ff0, 0xfff0,
                                    0x7ff4, 0x7f7f, 0xff7f, 0x7fef, 0x7bff, 0x0080, 0x0010, 0x0400};
    const unsigned bits = 8 * coll_numbers_bytes(type);
    const uint64_t noise = random_bits();
    uint64_t value = noise;

    if (pick(4) == 0 && bits > 8) {
        value = (uint64_t)tops[pick(sizeof tops / sizeof *tops)] << (bits - 16);
        value |= pick(2) ? 0 : pick(2) ? 1 : noise & ((UINT64_C(1) << (bits - 16)) - 1);
    } else if (pick(2) && bits > 8) {
        value = (noise & ~(UINT64_C(0x7f00) << (bits - 16))) | UINT64_C(0x3f00) << (bits - 16);
    }
    return bits == 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

static void fill(uint8_t *to, unsigned type, unsigned elements)
{
    const unsigned bytes = coll_numbers_bytes(type);

    for (unsigned e = 0; e < elements; e++) {
        const uint64_t value = random_element(type);
        memcpy(to + e * bytes, &value, bytes);
    }
}

/* Two sources, in left and right, into result. One check for all, which names the first difference. */
static void check_pairs(const coll_case_t *given, unsigned elements)
{
    const unsigned bytes = coll_numbers_bytes(given->type);
    coll_case_t c = *given;
    unsigned wrong = 0;

    c.src[0] = left;
    c.src[1] = right;
    c.dst[0] = result;
    c.ndst = 1;
    c.bytes = (uint64_t)elements * bytes;
    coll_entry_pass(&c, 7);
    for (unsigned e = 0; e < elements; e++) {
        const uint64_t bits[] = {element(left + e * bytes, bytes), element(right + e * bytes, bytes)};
        const uint64_t wanted = coll_numbers(&c, bits), seen = element(result + e * bytes, bytes);
        if (wanted != seen && wrong++ == 0)
            fprintf(stderr, "type %u op %u divisor %u premul %u scalar %llx: %llx, %llx give %llx, wanted %llx\n",
                    c.type, c.op, c.divisor, c.premul, (unsigned long long)c.scalar[0], (unsigned long long)bits[0],
                    (unsigned long long)bits[1], (unsigned long long)seen, (unsigned long long)wanted);
    }
    CHECK_EQ(wrong, 0);
}

static void check_all_operations(unsigned type, unsigned elements)
{
    static const unsigned divisors[] = {0, 1, 2, 3, 6, 7, 13, 16, 255, 65535};

    for (unsigned o = 0; o < sizeof ops / sizeof *ops; o++)
        check_pairs(&(coll_case_t){.type = type, .op = ops[o], .nsrc = 2}, elements);
    for (unsigned d = 0; d < sizeof divisors / sizeof *divisors; d++)
        for (unsigned o = 0; o < 2; o++)
            check_pairs(&(coll_case_t){.type = type, .op = ops[o], .nsrc = 2, .divisor = divisors[d]}, elements);
}

static void test_all_pairs_of_8_bits(void)
{
    static const unsigned types[] = {SELVAGE_INT8, SELVAGE_UINT8, SELVAGE_FLOAT8_E4M3, SELVAGE_FLOAT8_E5M2};

    for (unsigned i = 0; i < PAIRS; i++) {
        left[i] = (uint8_t)i;
        right[i] = (uint8_t)(i >> 8);
    }
    for (unsigned t = 0; t < sizeof types / sizeof *types; t++) {
        check_all_operations(types[t], PAIRS);
        for (unsigned scalar = 0; scalar < 256; scalar++)
            check_pairs(&(coll_case_t){.type = types[t], .nsrc = 1, .premul = 1, .scalar = {scalar}}, 256);
    }
}

/* Times one: every number comes back, a NaN as the type's own. */
static void test_all_of_16_bits(void)
{
    static const uint64_t one[] = {[SELVAGE_FLOAT16] = 0x3c00, [SELVAGE_BFLOAT16] = 0x3f80};

    for (unsigned type = SELVAGE_FLOAT16; type <= SELVAGE_BFLOAT16; type++) {
        for (unsigned i = 0; i < PAIRS; i++)
            memcpy(left + 2 * i, &(uint16_t){(uint16_t)i}, 2);
        check_pairs(&(coll_case_t){.type = type, .nsrc = 1, .premul = 1, .scalar = {one[type]}}, PAIRS);
        fill(right, type, PAIRS);
        check_all_operations(type, PAIRS);
    }
}

static void test_random_pairs(void)
{
    for (unsigned type = SELVAGE_INT8; type <= SELVAGE_FLOAT8_E5M2; type++) {
        fill(left, type, PAIRS);
        fill(right, type, PAIRS);
        check_all_operations(type, PAIRS);
        for (unsigned s = 0; s < 8; s++)
            check_pairs(&(coll_case_t){.type = type, .op = SELVAGE_OP_SUM, .nsrc = 2, .premul = pick(3) + 1,
                                       .scalar = {random_element(type), random_element(type)}}, PAIRS);
    }
}

/* Copies keep every bit, also of what is not canonical. */
static void test_copy_keeps_bits(void)
{
    for (unsigned type = SELVAGE_INT8; type <= SELVAGE_FLOAT8_E5M2; type++) {
        coll_case_t c = {.type = type, .nsrc = 1, .ndst = 1, .divisor = type % 2, .src = {left}, .dst = {result}};
        fill(left, type, PAIRS);
        c.bytes = (uint64_t)PAIRS * coll_numbers_bytes(type);
        coll_entry_pass(&c, 5);
        CHECK(memcmp(left, result, c.bytes) == 0);
    }
}

static void check_target(const coll_case_t *c, const uint8_t *area, const uint8_t *at, const uint8_t (*input)[SMALL])
{
    const unsigned bytes = coll_numbers_bytes(c->type);
    unsigned wrong = 0;

    for (unsigned b = 0; b < c->bytes; b += bytes) {
        uint64_t bits[COLL_SOURCES], wanted;
        for (unsigned s = 0; s < c->nsrc; s++)
            bits[s] = element(input[s] + (c->src[s] - source[s]) + b, bytes);
        wanted = c->nsrc == 1 && c->premul == 0 && c->divisor <= 1 ? bits[0] : coll_numbers(c, bits);
        wrong += element(at + b, bytes) != wanted;
    }
    CHECK_EQ(wrong, 0);
    if (area)
        for (unsigned b = 0; b < SMALL; b++)
            wrong += (area + b < at || area + b >= at + c->bytes) && area[b] != 0xa5;
    CHECK_EQ(wrong, 0);
}

/* Runs a case whose sources and targets lie in the areas, the first target being source in_place if that is one. */
static void check_case(coll_case_t *c, unsigned in_place, unsigned nthreads)
{
    uint64_t sum;

    memcpy(before, source, sizeof before);
    memset(target, 0xa5, sizeof target);
    if (in_place < c->nsrc && c->ndst > 0)
        c->dst[0] = source[in_place] + (c->src[in_place] - source[in_place]);
    sum = coll_entry_pass(c, nthreads);
    for (unsigned d = 0; d < c->ndst; d++)
        check_target(c, d == 0 && in_place < c->nsrc ? NULL : target[d], c->dst[d], before);
    if (c->ndst > 0)
        CHECK_EQ(sum, c->digest ? sv_digest_sum(c->key, c->first_word, c->dst[0], c->bytes) : 0);
    if (in_place < c->nsrc && c->ndst > 0)
        memcpy(source[in_place] + (c->dst[0] - source[in_place]),
               before[in_place] + (c->dst[0] - source[in_place]), c->bytes);
    CHECK(memcmp(source, before, sizeof before) == 0);
}

static void test_random_passes(void)
{
    static const unsigned lanes[] = {1, 2, 32, 33, 512};

    for (unsigned i = 0, cases = (unsigned)check_part(CASES); i < cases; i++) {
        coll_case_t c = {.type = 1 + pick(SELVAGE_FLOAT8_E5M2), .op = ops[pick(4)], .nsrc = 1 + pick(COLL_SOURCES),
                         .ndst = pick(COLL_TARGETS + 1), .digest = pick(2), .key = random_bits(),
                         .first_word = pick(1000)};
        const unsigned bytes = coll_numbers_bytes(c.type), same = pick(3), shift = pick(16 / bytes) * bytes;

        c.bytes = pick((SMALL - 2 * GUARD) / bytes - 16 / bytes) * bytes;
        c.divisor = pick(3) ? 0 : pick(17);
        c.premul = pick(3) ? 0 : (uint32_t)random_bits() & ((1u << c.nsrc) - 1);
        for (unsigned s = 0; s < COLL_SOURCES; s++) {
            fill(source[s], c.type, SMALL / bytes);
            c.scalar[s] = random_element(c.type);
            c.src[s] = source[s] + GUARD + (same ? shift : pick(16 / bytes) * bytes);
        }
        for (unsigned d = 0; d < COLL_TARGETS; d++)
            c.dst[d] = target[d] + GUARD + (same ? shift : pick(16 / bytes) * bytes);
        check_case(&c, pick(2) ? pick(c.nsrc) : COLL_SOURCES, lanes[pick(5)]);
    }
}

static void test_every_alignment(void)
{
    static const unsigned types[] = {SELVAGE_UINT8, SELVAGE_BFLOAT16, SELVAGE_FLOAT32, SELVAGE_FLOAT64};

    for (unsigned s = 0; s < COLL_SOURCES; s++)
        fill(source[s], SELVAGE_UINT8, SMALL);
    for (unsigned t = 0; t < sizeof types / sizeof *types; t++) {
        const unsigned bytes = coll_numbers_bytes(types[t]);
        for (unsigned at = 0; at < 16 * 16 * 16; at++) {
            const unsigned a = at % 16, b = at / 16 % 16, d = at / 256;
            coll_case_t c = {.type = types[t], .op = SELVAGE_OP_SUM, .nsrc = 1 + at % 3 % 2, .ndst = 1, .digest = 1,
                             .bytes = (37 + at % 5) / bytes * bytes};
            if (a % bytes || b % bytes || d % bytes)
                continue;
            c.src[0] = source[0] + GUARD + a;
            c.src[1] = source[1] + GUARD + b;
            c.dst[0] = target[0] + GUARD + d;
            check_case(&c, COLL_SOURCES, 1 + at % 3);
        }
    }
}

/* Memory ends where the sources and targets end, on one side or the other. */
static void test_nothing_beside_is_touched(void)
{
    uint8_t *area = mmap(NULL, 7 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(area != MAP_FAILED);
    for (unsigned p = 0; p < 7; p += 2)
        CHECK(mprotect(area + (size_t)p * PAGE, PAGE, PROT_NONE) == 0);
    for (unsigned bytes = 0; bytes < 300; bytes++) {
        for (unsigned sides = 0; sides < 8; sides++) {
            const uint8_t *at[3];
            for (unsigned b = 0; b < 3; b++)
                at[b] = area + (2 * b + 1) * (size_t)PAGE + (sides >> b & 1 ? PAGE - bytes : 0);
            memset(area + PAGE, (int)bytes, PAGE);
            memset(area + 3 * PAGE, 1, PAGE);
            coll_case_t c = {.type = SELVAGE_UINT8, .op = SELVAGE_OP_SUM, .nsrc = 1 + sides % 2, .ndst = 1,
                             .src = {at[0], at[1]}, .dst = {area + (at[2] - area)}, .bytes = bytes};
            coll_entry_pass(&c, 4);
            for (unsigned b = 0; b < bytes; b++)
                CHECK(at[2][b] == (uint8_t)(bytes + sides % 2));
        }
    }
    munmap(area, 7 * PAGE);
}

/* What other device code calls on words gives what the pass gives. */
static void test_words(void)
{
    for (unsigned i = 0, cases = (unsigned)check_part(CASES); i < cases; i++) {
        coll_case_t c = {.type = 1 + pick(SELVAGE_FLOAT8_E5M2), .op = ops[pick(4)], .nsrc = 1 + pick(COLL_SOURCES),
                         .premul = pick(16) & 1, .divisor = pick(17)};
        const unsigned bytes = coll_numbers_bytes(c.type);
        uint64_t words[COLL_SOURCES], word;
        c.scalar[0] = random_element(c.type);
        CHECK_EQ(coll_entry_type_bytes(c.type), bytes);
        for (unsigned s = 0; s < c.nsrc; s++)
            fill((uint8_t *)&words[s], c.type, 8 / bytes);
        word = coll_entry_word(&c, words);
        for (unsigned b = 0; b < 8; b += bytes) {
            uint64_t bits[COLL_SOURCES];
            for (unsigned s = 0; s < c.nsrc; s++)
                bits[s] = element((const uint8_t *)&words[s] + b, bytes);
            CHECK_EQ(element((const uint8_t *)&word + b, bytes), coll_numbers(&c, bits));
        }
    }
    CHECK_EQ(coll_entry_type_bytes(0), 0);
}

typedef void (*host_pass_t)(uint8_t *sum, const uint8_t *first, uint64_t bytes, unsigned type, unsigned op,
                            unsigned divisor);

/* The host sums lines of some types at once: as it does one element at a time, from any element and of any number. */
static void test_host_lines(host_pass_t pass)
{
    for (unsigned type = SELVAGE_INT8; type <= SELVAGE_FLOAT64; type++) {
        const unsigned bytes = (unsigned)coll_entry_type_bytes(type);
        for (unsigned run = 0; run < 60; run++) {
            const unsigned count = pick(SMALL / 2 / bytes), from = pick(9) * bytes;
            const unsigned op = run % 5 ? ops[0] : ops[run % 4];
            fill(left, type, SMALL / bytes);
            fill(right, type, SMALL / bytes);
            memcpy(result, right, SMALL);
            pass(result + from, left + from, (uint64_t)count * bytes, type, op, 0);
            for (unsigned i = 0; i < count; i++)
                sv_coll_pass_host_plain(right + from + i * bytes, left + from + i * bytes, bytes, type, op, 0);
            CHECK(memcmp(result, right, SMALL) == 0);
        }
    }
}

/* Rows that are added from any one on, round: the bits of one after the other, by types of any kind and length. */
static void test_host_rows(void)
{
    enum { ROWS_MAX = 7 };
    for (unsigned type = SELVAGE_INT8; type <= SELVAGE_FLOAT64; type++) {
        const unsigned bytes = (unsigned)coll_entry_type_bytes(type);
        for (unsigned run = 0; run < 60; run++) {
            const unsigned nrows = 2 + pick(ROWS_MAX - 1), first = pick(nrows);
            const unsigned row_bytes = (1 + pick(SMALL / ROWS_MAX / bytes - 1)) * bytes;
            const unsigned op = run % 5 ? ops[0] : ops[run % 4], divisor = run % 3 ? 0 : nrows;
            fill(left, type, SMALL / bytes);
            memset(result, 0xa5, SMALL);
            memcpy(right, left + first * row_bytes, row_bytes);
            sv_coll_pass_host_rows(result, left, row_bytes, nrows, first, type, op, divisor);
            for (unsigned i = 1; i < nrows; i++) { /* the sum so far is in right, and goes where the next row was */
                uint8_t *row = left + (first + i) % nrows * row_bytes;
                sv_coll_pass_host(row, right, row_bytes, type, op, i == nrows - 1 ? divisor : 0);
                memcpy(right, row, row_bytes);
            }
            CHECK(memcmp(result, right, row_bytes) == 0);
            for (unsigned i = row_bytes; i < SMALL; i++)
                CHECK_EQ(result[i], 0xa5);
        }
    }
}

int main(void)
{
    test_all_pairs_of_8_bits();
    test_all_of_16_bits();
    test_random_pairs();
    test_copy_keeps_bits();
    test_words();
    test_random_passes();
    test_every_alignment();
    test_nothing_beside_is_touched();
    test_host_lines(sv_coll_pass_host);
    test_host_lines(sv_coll_pass_host_plain);
    test_host_rows();
    return check_report("test_coll_types");
}
