/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that travel through a sum: they agree with the sum of what was given, of every type that has them, in any
 * order of adding, with numbers of all sizes, with overflows, infinities and NaNs. A change of one element of integers
 * is always found, of floats one that is larger than rounding explains. The seed may be given as argument.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collective/coll_checks.h"
#include "fixtures/check.h"
#include "kernels/coll_args.h"
#include "kernels/coll_pass_host.h"

enum { LONGEST = 3000, TERMS_MAX = 7, TURNS = 60, CHANGES = 40 };

static uint64_t random_state = 1;

static uint64_t random_below(uint64_t bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % bound;
}

static const struct {
    unsigned type, bytes;
} types[] = {{SV_COLL_INT8, 1},   {SV_COLL_UINT8, 1},  {SV_COLL_INT32, 4},   {SV_COLL_UINT32, 4},
             {SV_COLL_INT64, 8},  {SV_COLL_UINT64, 8}, {SV_COLL_FLOAT32, 4}, {SV_COLL_FLOAT64, 8}};
enum { TYPES = sizeof types / sizeof types[0], FIRST_FLOAT = 6 };

/* A vector with room for its checks before it; aligned as messages are. */
typedef struct term {
    _Alignas(16) uint8_t checks[SV_COLL_CHECK_BYTES];
    uint8_t vector[LONGEST * 8];
} term_t;

/* spread: how many powers of two floats are apart at most. */
static void fill_element(uint8_t *to, unsigned t, unsigned spread)
{
    const uint64_t bits = random_below(UINT64_MAX);
    double value = ldexp((double)(int64_t)bits, -63 - (int)random_below(spread + 1));
    const float small = (float)value;
    if (types[t].type == SV_COLL_FLOAT32)
        memcpy(to, &small, sizeof small);
    else if (types[t].type == SV_COLL_FLOAT64)
        memcpy(to, &value, sizeof value);
    else
        memcpy(to, &bits, types[t].bytes);
}

static void fill_term(term_t *term, unsigned t, unsigned count, unsigned spread)
{
    for (unsigned i = 0; i < count; i++)
        fill_element(term->vector + i * types[t].bytes, t, spread);
    sv_coll_checks_write(term->checks, term->vector, count * types[t].bytes, types[t].type);
}

/* Checks and all, as MPI adds them: from either end. */
static void add_terms(term_t *sum, const term_t *terms, unsigned nterms, unsigned t, unsigned count)
{
    const bool backwards = random_below(2);
    *sum = terms[backwards ? nterms - 1 : 0];
    for (unsigned k = 1; k < nterms; k++)
        sv_coll_pass_host(sum->checks, terms[backwards ? nterms - 1 - k : k].checks,
                          SV_COLL_CHECK_BYTES + count * types[t].bytes, types[t].type, SV_COLL_SUM, 0);
}

static bool agrees(const term_t *sum, unsigned t, unsigned count, unsigned nterms)
{
    return sv_coll_checks_agree(sum->checks, sum->vector, count * types[t].bytes, types[t].type, nterms);
}

/* Damage that must be found: any of integers; of floats up to 1 one that is off by 4, or is no number. */
static void change_element(uint8_t *at, unsigned t)
{
    float small;
    double large;
    if (t < FIRST_FLOAT) {
        at[random_below(types[t].bytes)] ^= (uint8_t)(1 + random_below(255));
        return;
    }
    const double change = (double[]){4, -4, NAN, INFINITY}[random_below(4)];
    if (types[t].type == SV_COLL_FLOAT32) {
        memcpy(&small, at, sizeof small);
        small += (float)change;
        memcpy(at, &small, sizeof small);
    } else {
        memcpy(&large, at, sizeof large);
        large += change;
        memcpy(at, &large, sizeof large);
    }
}

static void test_type(unsigned t)
{
    static term_t terms[TERMS_MAX], sum, changed;
    CHECK_EQ(sv_coll_checks_bytes(types[t].type, SV_COLL_SUM), SV_COLL_CHECK_BYTES);
    CHECK_EQ(sv_coll_checks_bytes(types[t].type, SV_COLL_MIN), 0);
    for (int turn = 0; turn < TURNS; turn++) {
        const unsigned nterms = 1 + (unsigned)random_below(TERMS_MAX), spread = turn % 3 == 0 ? 100 : 0;
        const unsigned count = 1 + (unsigned)random_below(turn % 2 ? LONGEST : 20);
        for (unsigned k = 0; k < nterms; k++)
            fill_term(&terms[k], t, count, spread);
        add_terms(&sum, terms, nterms, t, count);
        CHECK(agrees(&sum, t, count, nterms));
        for (int i = 0; i < CHANGES && spread == 0; i++) {
            changed = sum;
            change_element(changed.vector + random_below(count) * types[t].bytes, t);
            CHECK(!agrees(&changed, t, count, nterms));
        }
    }
}

/* Two elements that changed places are another vector, of integers that differ. */
static void test_places(void)
{
    static term_t term;
    for (unsigned t = 2; t < FIRST_FLOAT; t++) {
        uint8_t held[8];
        fill_term(&term, t, 100, 0);
        uint8_t *const one = term.vector, *const other = term.vector + 57 * types[t].bytes;
        memcpy(held, one, types[t].bytes);
        memcpy(one, other, types[t].bytes);
        memcpy(other, held, types[t].bytes);
        CHECK(!agrees(&term, t, 100, 1));
    }
}

/* What has infinities or overflows, nothing is said of; of the smallest numbers nothing wrong. */
static void test_edges(void)
{
    static const double values[] = {INFINITY, NAN, 1e308, -1e308, 5e-324, -0.0, 0};
    static term_t terms[2], sum;
    for (unsigned v = 0; v < sizeof values / sizeof values[0]; v++) {
        for (unsigned k = 0; k < 2; k++) {
            fill_term(&terms[k], TYPES - 1, 50, 0);
            for (unsigned i = 0; i < 50; i += 1 + v)
                memcpy(terms[k].vector + i * sizeof(double), &values[v], sizeof(double));
            sv_coll_checks_write(terms[k].checks, terms[k].vector, 50 * sizeof(double), SV_COLL_FLOAT64);
        }
        add_terms(&sum, terms, 2, TYPES - 1, 50);
        CHECK(agrees(&sum, TYPES - 1, 50, 2));
    }
    for (unsigned type = SV_COLL_INT8; type < SV_COLL_TYPES; type++)
        if (type == SV_COLL_FLOAT16 || type == SV_COLL_BFLOAT16 || type == SV_COLL_E4M3 || type == SV_COLL_E5M2)
            CHECK_EQ(sv_coll_checks_bytes(type, SV_COLL_SUM), 0);
}

int main(int argc, char **argv)
{
    random_state = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    for (unsigned t = 0; t < TYPES; t++)
        test_type(t);
    test_places();
    test_edges();
    return check_report("test_coll_checks");
}
