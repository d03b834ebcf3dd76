/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels of exact sums, as the software device runs them, with the collectives between them done here: against
 * integers of 2304 bits, for 2 to 1000 ranks, with elements of all kinds. Sums that are not cut off are correctly
 * rounded; the others are within the bound that the documentation names. The order of addends changes nothing, nor does
 * the way, by limbs or by addends. No byte beside the buffers is written. The seed may be given as argument. On GPUs
 * tests/mpi/coll_mpi.c compares exact sums.
 */
#include <float.h>
#include <math.h>

#include "fixtures/check.h"
#include "fixtures/exact_reference.h"
#include "kernels/coll_exact.h"
#include "kernels/kernels.h"

enum { RANKS_MAX = 1000, COUNT_MAX = 260, PITCH_MAX = 272, BLOCKS_MAX = 5, GUARD = 32, PACKED_RANKS = 17,
       MUCH = BLOCKS_MAX * PITCH_MAX };

static uint64_t random_state = 1;

static uint64_t random_bits(void)
{
    random_state += UINT64_C(0x9e3779b97f4a7c15);
    return sv_digest_mix(random_state);
}

static unsigned random_below(unsigned bound)
{
    return (unsigned)(random_bits() >> 33) % bound;
}

/* What the elements of one place are like on all ranks. */
enum { KIND_NEAR, KIND_WIDE, KIND_ALL, KIND_CANCEL, KIND_TIE, KIND_SMALL, KIND_LARGE, KIND_ZEROS, KIND_SPECIAL, KINDS };

typedef struct kind_of_place {
    int kind;
    unsigned base;             /* an exponent */
    uint64_t last;             /* of CANCEL: the element whose opposite comes next; 0: none */
} kind_of_place_t;

typedef struct shape {
    unsigned type, width, fraction, top, bytes;
} shape_t;
static const shape_t shapes[] = {{SV_COLL_FLOAT32, 32, 23, 255, 4}, {SV_COLL_FLOAT64, 64, 52, 2047, 8}};

static uint64_t compose(const shape_t *s, bool negative, unsigned exponent, uint64_t fraction)
{
    return (uint64_t)negative << (s->width - 1) | (uint64_t)exponent << s->fraction |
           (fraction & ((UINT64_C(1) << s->fraction) - 1));
}

static unsigned clamp_exponent(const shape_t *s, int exponent)
{
    return exponent < 0 ? 0 : exponent >= (int)s->top ? s->top - 1 : (unsigned)exponent;
}

/* Ones and zeros at the ends of fractions are where rounding and carries show. */
static uint64_t draw_fraction(void)
{
    const uint64_t bits = random_bits();
    switch (random_below(4)) {
    case 0: return 0;
    case 1: return ~UINT64_C(0);
    case 2: return UINT64_C(1) << random_below(52);
    default: return bits;
    }
}

static uint64_t draw_element(const shape_t *s, kind_of_place_t *place)
{
    const bool negative = random_below(2);
    const int base = (int)place->base, near = (int)s->fraction;
    switch (place->kind) {
    case KIND_NEAR: return compose(s, negative, clamp_exponent(s, base - (int)random_below(12)), draw_fraction());
    case KIND_WIDE: return compose(s, negative, clamp_exponent(s, base - (int)random_below(130)), draw_fraction());
    case KIND_ALL: return compose(s, negative, random_below(s->top), draw_fraction());
    case KIND_TIE: /* a large one, halves of its last place, and what is far below */
        return compose(s, negative, clamp_exponent(s, base - near * (int)random_below(3) - (int)random_below(2)),
                       random_below(3) ? 0 : draw_fraction());
    case KIND_SMALL: return compose(s, negative, random_below(3), draw_fraction());
    case KIND_LARGE: return compose(s, negative, s->top - 1 - random_below(2), draw_fraction());
    case KIND_ZEROS: return compose(s, random_below(8) > 0, 0, 0);
    case KIND_SPECIAL:
        return compose(s, negative, random_below(3) ? random_below(s->top) : s->top,
                       random_below(6) ? 0 : draw_fraction());
    default: /* CANCEL */
        if (place->last) {
            const uint64_t opposite = place->last ^ UINT64_C(1) << (s->width - 1);
            place->last = 0;
            return random_below(8) ? opposite : opposite ^ 1;
        }
        place->last = compose(s, negative, clamp_exponent(s, base - (int)random_below(90)), draw_fraction());
        return place->last;
    }
}

/* A sum: so many ranks, of blocks of elements. */
typedef struct sum {
    const shape_t *shape;
    unsigned nranks, blocks, mine, count, pitch, shift;
    unsigned flags;
} sum_t;

static uint64_t element[RANKS_MAX][BLOCKS_MAX * COUNT_MAX]; /* as bits, whatever the width */
static _Alignas(16) uint8_t source[BLOCKS_MAX * COUNT_MAX * 8 + GUARD];
static _Alignas(16) uint8_t scale[MUCH], largest[MUCH];
static _Alignas(16) uint64_t limb[2 * MUCH], total[2 * MUCH];
static _Alignas(16) uint8_t packed[MUCH * 8], received[PACKED_RANKS * PITCH_MAX * 8];
static _Alignas(16) uint8_t result[COUNT_MAX * 8 + 2 * GUARD];

static void draw_elements(const sum_t *sum)
{
    for (unsigned i = 0; i < sum->blocks * sum->count; i++) {
        kind_of_place_t place = {.kind = (int)random_below(KINDS), .base = random_below(sum->shape->top)};
        const bool only_minus = place.kind == KIND_ZEROS && random_below(2);
        for (unsigned r = 0; r < sum->nranks; r++)
            element[r][i] = only_minus ? compose(sum->shape, true, 0, 0) : draw_element(sum->shape, &place);
    }
}

static uint8_t *place_of(const sum_t *sum, uint8_t *buffer)
{
    return buffer + (size_t)sum->shift * sum->shape->bytes;
}

static void fill_source(const sum_t *sum, unsigned rank)
{
    for (unsigned i = 0; i < sum->blocks * sum->count; i++)
        memcpy(place_of(sum, source) + (size_t)i * sum->shape->bytes, &element[rank][i], sum->shape->bytes);
}

/* As a device with several blocks has it. */
static void run_kernel(const sv_kernel_t *kernel, const sv_exact_arg_t *arg)
{
    const unsigned nblocks = 1 + random_below(3);
    for (unsigned b = 0; b < nblocks; b++)
        kernel->soft(arg, b, nblocks);
}

static sv_exact_arg_t argument_of(const sum_t *sum)
{
    sv_exact_arg_t arg = {.src = (uintptr_t)place_of(sum, source), .dst = (uintptr_t)place_of(sum, result) + GUARD,
                          .scale = scale, .limb = limb, .stride = sum->count, .end = UINT64_MAX, .count = sum->count,
                          .pitch = sum->pitch, .blocks = sum->blocks, .mine = sum->mine, .ranks = sum->nranks,
                          .type = (uint8_t)sum->shape->type, .flags = (uint8_t)sum->flags};
    while ((1u << arg.spare_bits) < sum->nranks)
        arg.spare_bits++;
    return arg;
}

/* All ranks' parts, one after the other; the result is in `result`. backwards: in the other order. */
static void run_sum(const sum_t *sum, bool backwards)
{
    sv_exact_arg_t arg = argument_of(sum);
    const size_t scales = (size_t)sum->blocks * sum->pitch, limbs = scales * sv_exact_limbs(arg.type);
    memset(largest, 0, sizeof largest);
    memset(total, 0, sizeof total);
    memset(result, 0xa5, sizeof result);
    for (unsigned r = 0; r < sum->nranks; r++) {
        fill_source(sum, backwards ? sum->nranks - 1 - r : r);
        memset(scale, 0x77, sizeof scale);
        run_kernel(&sv_kernel_exact_scale, &arg);
        for (size_t i = 0; i < scales; i++)
            largest[i] = scale[i] > largest[i] ? scale[i] : largest[i];
    }
    for (unsigned r = 0; r < sum->nranks; r++) {
        fill_source(sum, backwards ? sum->nranks - 1 - r : r);
        memset(limb, 0x77, sizeof limb);
        arg.scale = largest;
        run_kernel(&sv_kernel_exact_split, &arg);
        for (size_t i = 0; i < limbs; i++)
            total[i] += limb[i];
    }
    arg.limb = total;
    run_kernel(&sv_kernel_exact_join, &arg);
}

/* The same by the way of one node: every rank packs blocks, and one adds up what all have packed for it. */
static void run_addends(const sum_t *sum)
{
    sv_exact_arg_t arg = argument_of(sum);
    const size_t block = (size_t)sum->pitch * sum->shape->bytes;
    arg.packed = packed;
    arg.received = received;
    memset(result, 0xa5, sizeof result);
    for (unsigned r = 0; r < sum->nranks; r++) {
        fill_source(sum, r);
        memset(packed, 0x77, sizeof packed);
        run_kernel(&sv_kernel_exact_pack, &arg);
        memcpy(received + block * r, packed + block * sum->mine, block);
    }
    run_kernel(&sv_kernel_exact_add, &arg);
}

static double number_of(const shape_t *s, uint64_t bits)
{
    float single;
    double number;
    const uint32_t low = (uint32_t)bits;
    memcpy(&single, &low, sizeof single);
    memcpy(&number, &bits, sizeof number);
    return s->width == 32 ? single : number;
}

/* What one element of the result has to be; and how far that may be from the rounded sum. */
static uint64_t wanted_bits(const sum_t *sum, unsigned place, bool *cut_out, uint64_t *rounded_out)
{
    uint64_t wide[RANKS_MAX];
    uint32_t narrow[RANKS_MAX];
    for (unsigned r = 0; r < sum->nranks; r++) {
        wide[r] = element[r][place];
        narrow[r] = (uint32_t)element[r][place];
    }
    if (sum->shape->width == 64) {
        *rounded_out = exact_rounded_float64(wide, (int)sum->nranks);
        return exact_sum_float64(wide, (int)sum->nranks, cut_out);
    }
    *rounded_out = exact_rounded_float32(narrow, (int)sum->nranks);
    return exact_sum_float32(narrow, (int)sum->nranks, cut_out);
}

/* 2^-53 (2^-24) of the result for the two roundings, and so much of the largest for what was cut off. */
static double bound_of(const sum_t *sum, unsigned place, uint64_t rounded)
{
    const shape_t *s = sum->shape;
    double most = 0, spare = ceil(log2(sum->nranks));
    for (unsigned r = 0; r < sum->nranks; r++)
        most = fmax(most, fabs(number_of(s, element[r][place])));
    const double lost = s->width == 64 ? ldexp(most, (int)(3 * spare) - 118) : ldexp(most, (int)(2 * spare) - 62);
    return lost + fabs(number_of(s, rounded)) * (s->width == 64 ? DBL_EPSILON : (double)FLT_EPSILON) +
           (s->width == 64 ? 0x1p-1074 : 0x1p-149);
}

static long places, cuts;

static void check_sum(const sum_t *sum)
{
    const shape_t *s = sum->shape;
    unsigned wrong = 0, far = 0;
    uint8_t *dst = place_of(sum, result) + GUARD;
    for (unsigned i = 0; i < sum->count; i++) {
        const unsigned place = sum->mine * sum->count + i;
        uint64_t found = 0, rounded;
        bool cut;
        memcpy(&found, dst + (size_t)i * s->bytes, s->bytes);
        const uint64_t wanted = wanted_bits(sum, place, &cut, &rounded);
        if (found != wanted && wrong++ == 0)
            fprintf(stderr, "type %u, %u ranks, place %u: %016llx, wanted %016llx\n", s->type, sum->nranks, place,
                    (unsigned long long)found, (unsigned long long)wanted);
        const double distance = number_of(s, found) - number_of(s, rounded);
        far += cut ? fabs(distance) > bound_of(sum, place, rounded) : found != rounded;
        cuts += cut;
        places++;
    }
    CHECK_EQ(wrong, 0);
    CHECK_EQ(far, 0);
    for (uint8_t *guard = result; guard < result + sizeof result; guard++)
        if ((guard < dst || guard >= dst + (size_t)sum->count * s->bytes) && *guard != 0xa5) {
            CHECK(!"a byte beside the result was written");
            break;
        }
}

static void test_sums(int turns)
{
    static const unsigned many[] = {2, 3, 4, 5, 8, 16, 17, 64, 1000};
    static uint8_t before[sizeof result];
    for (int t = 0; t < turns; t++) {
        sum_t sum = {.shape = &shapes[t % 2], .nranks = many[random_below(t % 20 ? 7 : 9)]};
        sum.blocks = random_below(3) ? 1 : 1 + random_below(BLOCKS_MAX);
        sum.mine = random_below(sum.blocks);
        sum.count = 1 + random_below(sum.nranks > 16 ? 20 : COUNT_MAX);
        sum.pitch = (sum.count + SV_EXACT_UNIT - 1) / SV_EXACT_UNIT * SV_EXACT_UNIT;
        sum.shift = random_below(GUARD / sum.shape->bytes);
        draw_elements(&sum);
        run_sum(&sum, false);
        check_sum(&sum);
        memcpy(before, result, sizeof result);
        run_sum(&sum, true);
        CHECK(memcmp(before, result, sizeof result) == 0);
        if (sum.nranks > PACKED_RANKS)
            continue;
        run_addends(&sum);
        CHECK(memcmp(before, result, sizeof result) == 0);
    }
    CHECK(cuts * 20 > places); /* both are tried */
    CHECK(cuts * 2 < places);
}

/* Averages, and scaled sums: both with one more rounding, by the device's arithmetic. */
static void test_scaled(void)
{
    enum { N = 5, COUNT = 37 };
    for (unsigned s = 0; s < 2; s++) {
        sum_t sum = {.shape = &shapes[s], .nranks = N, .blocks = 1, .count = COUNT, .pitch = 48};
        uint64_t plain[COUNT];
        unsigned wrong = 0;
        draw_elements(&sum);
        run_sum(&sum, false);
        for (unsigned i = 0; i < COUNT; i++) {
            plain[i] = 0;
            memcpy(&plain[i], result + GUARD + (size_t)i * shapes[s].bytes, shapes[s].bytes);
        }
        sum.flags = SV_COLL_DIVIDE;
        run_sum(&sum, false);
        for (unsigned i = 0; i < COUNT; i++) {
            uint64_t found = 0;
            memcpy(&found, result + GUARD + (size_t)i * shapes[s].bytes, shapes[s].bytes);
            const double number = number_of(&shapes[s], plain[i]);
            const double wanted = s == 0 ? (double)((float)number / (float)N) : number / N;
            const double other = number_of(&shapes[s], found);
            wrong += !(isnan(wanted) ? isnan(other) : wanted == other && !signbit(wanted) == !signbit(other));
        }
        CHECK_EQ(wrong, 0);
    }
}

int main(int argc, char **argv)
{
    const char *device = getenv("SELVAGE_DEVICE");
    if (device && strcmp(device, "soft") != 0) {
        printf("test_exact_kernels: for the software device; coll_mpi.c does the same on GPUs\n");
        return CHECK_SKIP;
    }
    random_state = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    test_sums(check_part(300));
    test_scaled();
    return check_report("test_exact_kernels");
}
