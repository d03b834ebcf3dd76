/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of the heat-bath example that can be wrong without a lattice showing it: the generator's known answers, its
 * functions beside the C library's, the errors of series whose true error is known, and configurations that many ranks
 * write, byte for byte those that one writes.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../examples/milc_lattice.h"
#include "../../examples/quenched_statistics.h"
#include "../../examples/quenched_su2.h"
#include "fixtures/check.h"

enum { SERIES = 16384 };

/* From the known-answer tests that the authors of Philox publish with it (Random123, kat_vectors: philox4x32 10). */
static void test_generator(void)
{
    static const struct {
        uint32_t counter[4], key[2], wanted[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4];
        philox4x32(known[i].counter, known[i].key, out);
        for (int w = 0; w < 4; w++)
            CHECK_EQ(out[w], known[i].wanted[w]);
    }
    CHECK(quenched_uniform(0, 0) > 0 && quenched_uniform(~0u, ~0u) < 1);
    CHECK(quenched_uniform(1u << 31, 0) > 0.5 && quenched_uniform((1u << 31) - 1, ~0u) < 0.5);
}

/* No two streams, and no two draws of one, are alike. */
static void test_streams(void)
{
    double seen[64];
    int count = 0;
    for (int i = 0; i < 16; i++) {
        quenched_random_t r =
            quenched_random_start(i & 1 ? 1ull << 32 : 1, i & 2 ? 1ull << 32 : 7, i & 4 ? 1 : 2, i & 8 ? 1 : 2);
        for (int draw = 0; draw < 2; draw++, count += 2)
            quenched_draw(&r, seen + count);
    }
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            CHECK(seen[i] != seen[j]);
}

/* Largest errors, in units of the last place of the result, or of 1. */
static void test_functions(void)
{
    quenched_random_t r = quenched_random_start(2, 0, 0, 0);
    double worst_log = 0, worst_circle = 0;
    for (int i = 0; i < 200000; i++) {
        double u[2], c, s;
        quenched_draw(&r, u);
        if (i % 4 == 1)
            u[0] = ldexp(u[0], -(i % 1000)); /* down to what a double holds; the heat bath needs 2^-53 */
        else if (i % 4 == 2)
            u[0] = 1 - u[0] / 1048576;
        double right = log(u[0]);
        worst_log = fmax(worst_log, fabs(quenched_log(u[0]) - right) / fabs(right) / 0x1p-52);
        quenched_circle(u[1], &c, &s);
        worst_circle = fmax(worst_circle, fabs(c - cos(6.283185307179586 * u[1])) / 0x1p-52);
        worst_circle = fmax(worst_circle, fabs(s - sin(6.283185307179586 * u[1])) / 0x1p-52);
    }
    printf("log within %.1f, circle within %.1f of 2^-52\n", worst_log, worst_circle);
    CHECK(worst_log < 4);
    CHECK(worst_circle < 6);
    for (int q = 0; q <= 4; q++) {
        double c, s;
        quenched_circle(0.25 * q, &c, &s);
        CHECK(c == (q == 0 || q == 4 ? 1 : q == 2 ? -1 : 0));
        CHECK(s == (q == 1 ? 1 : q == 3 ? -1 : 0));
    }
}

static void test_gauss(void)
{
    quenched_random_t r = quenched_random_start(3, 0, 0, 0);
    double sum = 0, squares = 0, fourths = 0;
    int count = 100000;
    for (int i = 0; i < count; i++) {
        su3_complex_t z = quenched_gauss(&r);
        sum += z.re + z.im;
        squares += z.re * z.re + z.im * z.im;
        fourths += z.re * z.re * z.re * z.re + z.im * z.im * z.im * z.im;
    }
    CHECK(fabs(sum / (2 * count)) < 0.01);
    CHECK(fabs(squares / (2 * count) - 0.5) < 0.01);
    CHECK(fabs(fourths / (2 * count) - 0.75) < 0.03); /* three times the variance squared */
}

/* I2(a) / I1(a), by their series: what x0 is on average with the weight exp(a x0) on the group. */
static double mean_x0(double a)
{
    double first = 0, second = 0, term = 1;
    for (int k = 0; k < 60; k++) {
        first += term / (k + 1);
        second += term * a / 2 / (k + 1) / (k + 2);
        term *= a * a / 4 / (k + 1) / (k + 1);
    }
    return second / first;
}

/* The elements have the length 1, the right mean along the old one, and point everywhere alike across it. */
static void check_heat_bath(double alpha)
{
    double sum = 0, squares = 0, across[3] = {0, 0, 0}, across_squares[3] = {0, 0, 0}, worst = 0;
    int count = 200000, none = 0;
    for (int i = 0; i < count; i++) {
        quenched_random_t r = quenched_random_start(17, (uint64_t)i, 1, (uint32_t)(alpha + 0.5) % 16);
        su2_t x;
        if (!su2_heat_bath(alpha, &r, &x)) {
            none++;
            continue;
        }
        sum += x.v[0];
        squares += x.v[0] * x.v[0];
        double norm = x.v[0] * x.v[0];
        for (int k = 0; k < 3; k++) {
            norm += x.v[k + 1] * x.v[k + 1];
            across[k] += x.v[k + 1];
            across_squares[k] += x.v[k + 1] * x.v[k + 1];
        }
        worst = fmax(worst, fabs(norm - 1));
    }
    double n = count - none, mean = sum / n, error = sqrt((squares / n - mean * mean) / n);
    printf("heat bath at %g: %.5f, exact %.5f, %+.1f standard deviations, %d without\n", alpha, mean, mean_x0(alpha),
           (mean - mean_x0(alpha)) / error, none);
    CHECK(fabs(mean - mean_x0(alpha)) < 4 * error);
    CHECK(worst < 1e-14);
    CHECK(none < count / 100);
    for (int k = 0; k < 3; k++) {
        CHECK(fabs(across[k] / n) < 4 * sqrt(across_squares[k]) / n);
        CHECK(fabs(across_squares[k] / n - (1 - squares / n) / 3) < 0.01 * (1 - squares / n));
    }
}

/* The subgroup's elements act as the matrices that they are: (x / m) m = x, on rows of a matrix. */
static void test_subgroups(void)
{
    quenched_random_t r = quenched_random_start(6, 0, 0, 0);
    su2_t a, b;
    CHECK(su2_heat_bath(0.5, &r, &a) && su2_heat_bath(0.5, &r, &b));
    for (int number = 0; number < 3; number++) {
        const int i = number == 2 ? 1 : 0, j = number == 0 ? 1 : 2;
        su3_matrix_t u = su3_unit();
        su2_rotate(&u, &b, i, j);
        su2_t quotient = su2_divide(&a, &b), back;
        su2_rotate(&u, &quotient, i, j);
        back = su2_project(&u, i, j);
        for (int k = 0; k < 4; k++)
            CHECK(fabs(back.v[k] - a.v[k]) < 1e-15);
        CHECK(u.e[3 - i - j][3 - i - j].re == 1);
    }
}

/* x' = a x + noise of variance 1: the mean of n has the variance 1 / (n (1 - a)^2), if n is large. */
static void check_series(double a, uint64_t key)
{
    double *x = calloc(SERIES, sizeof *x), wanted = 1 / sqrt(SERIES) / (1 - a);
    quenched_random_t r = quenched_random_start(key, 0, 0, 0);
    if (x == NULL)
        abort();
    for (int i = 1; i < SERIES; i++)
        x[i] = a * x[i - 1] + sqrt(2) * quenched_gauss(&r).re;
    quenched_estimate_t e = quenched_estimate(x, SERIES);
    printf("memory %.1f: error %.5f with bins of %zu, true %.5f; mean %.5f\n", a, e.error, e.bin, wanted, e.mean);
    CHECK(e.error > 0.8 * wanted && e.error < 1.8 * wanted); /* the largest of many estimates: rather too large */
    CHECK(fabs(e.mean) < 3.5 * e.error);
    free(x);
}

static void test_estimate(void)
{
    const double few[3] = {1, 2, 6};
    quenched_estimate_t e = quenched_estimate(few, 3);
    CHECK(fabs(e.mean - 3) < 1e-15 && e.bin == 1);
    CHECK(fabs(e.error - sqrt(14.0 / 2 / 3)) < 1e-15); /* sum of squares 14, over n - 1, over n */
    e = quenched_estimate(few, 1);
    CHECK(e.mean == 1 && e.error == 0);
    check_series(0, 11);
    check_series(0.5, 12);
    check_series(0.9, 13);
}

static void test_reunitarise(void)
{
    quenched_random_t r = quenched_random_start(5, 0, 0, 0);
    su3_matrix_t u;
    for (int e = 0; e < 9; e++)
        u.e[e / 3][e % 3] = quenched_gauss(&r);
    su3_reunitarise(&u);
    su3_matrix_t product = su3_mul_adjoint(&u, &u);
    for (int e = 0; e < 9; e++) {
        CHECK(fabs(product.e[e / 3][e % 3].re - (e % 4 == 0)) < 1e-14);
        CHECK(fabs(product.e[e / 3][e % 3].im) < 1e-14);
    }
}

static size_t read_all(const char *path, char *to, size_t bytes)
{
    FILE *stream = fopen(path, "rb");
    size_t got = stream != NULL ? fread(to, 1, bytes, stream) : 0;
    if (stream != NULL)
        fclose(stream);
    return got;
}

/* Rows as two ranks would write them, the upper half of t first. */
static void write_rows(milc_file_t *file, const int extent[MILC_DIMS], const float *links, int t, int t_end)
{
    char error[MILC_ERROR_BYTES];
    for (int row = t * extent[1] * extent[2]; row < t_end * extent[1] * extent[2]; row++) {
        const int from[MILC_DIMS] = {0, row % extent[1], row / extent[1] % extent[2], row / extent[1] / extent[2]};
        CHECK_EQ(milc_write_row(file, from, extent[0], links + row * extent[0] * MILC_SITE_FLOATS, error), 0);
    }
    CHECK_EQ(milc_flush(file, error), 0);
}

static void check_files(const char *one, const char *many, const int extent[MILC_DIMS], const float *links,
                        size_t bytes)
{
    char error[MILC_ERROR_BYTES], *first = malloc(bytes + 1), *second = malloc(bytes + 1);
    milc_file_t lower, upper, read;
    if (first == NULL || second == NULL)
        abort();
    CHECK_EQ(milc_write(one, extent, "by one", links, false, error), 0);
    CHECK_EQ(milc_create(many, extent, &lower, error), 0);
    CHECK_EQ(milc_create(many, extent, &upper, error), 0);
    write_rows(&upper, extent, links, 1, extent[3]);
    write_rows(&lower, extent, links, 0, 1);
    CHECK_EQ(milc_open(many, &read, error), -1); /* not sealed yet */
    CHECK(strstr(error, "not a MILC version-5 lattice") != NULL);
    const uint32_t sums[2] = {lower.sums[0] ^ upper.sums[0], lower.sums[1] ^ upper.sums[1]};
    CHECK_EQ(milc_seal(&lower, "by one", sums, error), 0);
    milc_close(&lower);
    milc_close(&upper);
    CHECK_EQ(read_all(one, first, bytes + 1), bytes);
    CHECK_EQ(read_all(many, second, bytes + 1), bytes);
    CHECK(memcmp(first, second, bytes) == 0);
    CHECK_EQ(milc_open(many, &read, error), 0);
    CHECK_STR(read.time_stamp, "by one");
    milc_close(&read);
    free(first);
    free(second);
}

static void test_files(void)
{
    const int extent[MILC_DIMS] = {3, 2, 4, 3}, huge[MILC_DIMS] = {3, 2, 4, 5000};
    char folder[] = "/tmp/test_quenched_XXXXXX", one[64], many[64], error[MILC_ERROR_BYTES];
    size_t floats = 3 * 2 * 4 * 3 * MILC_SITE_FLOATS;
    float *links = malloc(floats * sizeof *links);
    milc_file_t file;
    if (links == NULL || mkdtemp(folder) == NULL)
        abort();
    for (size_t i = 0; i < floats; i++)
        links[i] = (float)sin((double)i);
    snprintf(one, sizeof one, "%s/one", folder);
    snprintf(many, sizeof many, "%s/many", folder);
    check_files(one, many, extent, links, 96 + floats * sizeof *links);
    CHECK_EQ(milc_create(many, huge, &file, error), -1);
    CHECK(strstr(error, "nt cannot be 5000") != NULL);
    CHECK_EQ(milc_create("/nowhere/at/all", extent, &file, error), -1);
    CHECK(strstr(error, "/nowhere/at/all: ") != NULL);
    milc_close(&file);
    unlink(one);
    unlink(many);
    rmdir(folder);
    free(links);
}

int main(void)
{
    test_generator();
    test_streams();
    test_functions();
    test_gauss();
    test_estimate();
    check_heat_bath(0.2);
    check_heat_bath(1);
    check_heat_bath(5);
    check_heat_bath(30);
    test_subgroups();
    test_reunitarise();
    test_files();
    return check_report("test_quenched_parts");
}
