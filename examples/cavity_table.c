/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Centre-line velocities in the lid-driven cavity: U. Ghia, K. N. Ghia and C. T. Shin, "High-Re solutions for
 * incompressible flow using the Navier-Stokes equations and a multigrid method", J. Comput. Phys. 48 (1982) 387-411,
 * tables I (u on the vertical line) and II (v on the horizontal one). Both were computed on 129 x 129 points, of which
 * the tables name the number; the walls' own rows are left out here. As printed: at Re 100 the entry u at point 10 is
 * off a smooth curve through the others by 0.001, surely a misprint.
 *
 * The extremes on these lines: O. Botella and R. Peyret, "Benchmark spectral results on the lid-driven cavity flow",
 * Computers & Fluids 27 (1998) 421-433, from a spectral method; their lid moves the other way, so u and x are mirrored.
 */
#include "cavity_table.h"

#include <math.h>
#include <stdio.h>

enum { ROWS = 15, POINTS = 129, STENCIL = 4, EXTREMES = 3 };

typedef struct reference {
    int reynolds;
    double u[ROWS], v[ROWS];  /* at the points below */
    double off;               /* how far the tables are from the limit of small cells, at most: see allowed() */
    double extreme[EXTREMES]; /* smallest u, largest v, smallest v */
} reference_t;

static const int point_y[ROWS] = {126, 125, 124, 123, 110, 95, 80, 65, 59, 37, 23, 14, 10, 9, 8};
static const int point_x[ROWS] = {125, 124, 123, 122, 117, 111, 104, 65, 31, 30, 21, 13, 11, 10, 9};

static const reference_t references[] = {
    {100,
     {0.84123, 0.78871, 0.73722, 0.68717, 0.23151, 0.00332, -0.13641, -0.20581, -0.21090, -0.15662, -0.10150, -0.06434,
      -0.04775, -0.04192, -0.03717},
     {-0.05906, -0.07391, -0.08864, -0.10313, -0.16914, -0.22445, -0.24533, 0.05454, 0.17527, 0.17507, 0.16077, 0.12317,
      0.10890, 0.10091, 0.09233},
     0.0095,
     {-0.2140424, 0.1795728, -0.2538030}},
    {1000,
     {0.65928, 0.57492, 0.51117, 0.46604, 0.33304, 0.18719, 0.05702, -0.06080, -0.10648, -0.27805, -0.38289, -0.29730,
      -0.22220, -0.20196, -0.18109},
     {-0.21388, -0.27669, -0.33714, -0.39188, -0.51550, -0.42665, -0.31966, 0.02526, 0.32235, 0.33075, 0.37095, 0.32627,
      0.30353, 0.29012, 0.27485},
     0.0190,
     {-0.3885698, 0.3769447, -0.5270771}},
};

/* Of the four cells nearest to `where` (0 to 1, wall to wall): the first, and the weights of the cubic through them. */
static int weights(int cells, double where, double weight[STENCIL])
{
    double x = where * cells - 0.5;
    int first = (int)floor(x) - 1;
    first = first < 0 ? 0 : first > cells - STENCIL ? cells - STENCIL : first;
    for (int i = 0; i < STENCIL; i++) {
        weight[i] = 1;
        for (int j = 0; j < STENCIL; j++)
            weight[i] *= j != i ? (x - first - j) / (i - j) : 1;
    }
    return first;
}

static double value_at(const double *field, int cells, double x, double y)
{
    double weight_x[STENCIL], weight_y[STENCIL], value = 0;
    int first_x = weights(cells, x, weight_x), first_y = weights(cells, y, weight_y);
    for (int j = 0; j < STENCIL; j++)
        for (int i = 0; i < STENCIL; i++)
            value += weight_x[i] * weight_y[j] * field[(size_t)(first_y + j) * (size_t)cells + (size_t)(first_x + i)];
    return value;
}

static double position(int point)
{
    return (point - 1) / (double)(POINTS - 1);
}

/*
 * How much this grid may differ. The method is of second order, and what it must resolve are boundary layers of a
 * thickness like reynolds^-1/2, so its error is a constant times reynolds / cells^2: at most 0.07 for the extremes and
 * 0.12 for all points, on 16 to 256 cells. The tables are coarser than that: with more and more cells the largest
 * difference from them tends to 0.0093 at Re 100, and to 0.0185 at Re 1000, by which Botella and Peyret's differ, too.
 */
static double allowed(const reference_t *r, int cells, double constant)
{
    return constant * r->reynolds / ((double)cells * cells);
}

/* What is no number differs most of all. */
static double larger(double most, double difference)
{
    return isnan(difference) ? HUGE_VAL : fmax(most, fabs(difference));
}

static int judge(const char *what, double difference, double bound)
{
    int good = difference <= bound;
    printf("%s%.4f, allowed %.4f%s\n", what, difference, bound, good ? "" : "  WRONG");
    return !good;
}

static int compare_tables(const reference_t *r, int cells, const double *u, const double *v)
{
    double most_u = 0, most_v = 0, bound = r->off + allowed(r, cells, 0.12);
    printf("table I, u at x = 1/2                        table II, v at y = 1/2\n"
           "      y  computed      Ghia  difference            x  computed      Ghia  difference\n");
    for (int i = 0; i < ROWS; i++) {
        double y = position(point_y[i]), x = position(point_x[i]);
        double here_u = value_at(u, cells, 0.5, y), here_v = value_at(v, cells, x, 0.5);
        printf("%7.5f  %8.5f  %8.5f    %+8.5f      %7.5f  %8.5f  %8.5f    %+8.5f\n", y, here_u, r->u[i],
               here_u - r->u[i], x, here_v, r->v[i], here_v - r->v[i]);
        most_u = larger(most_u, here_u - r->u[i]);
        most_v = larger(most_v, here_v - r->v[i]);
    }
    return judge("largest difference  u ", most_u, bound) + judge("                    v ", most_v, bound);
}

static int compare_extremes(const reference_t *r, int cells, const double *u, const double *v)
{
    static const char *const names[EXTREMES] = {"smallest u", "largest v", "smallest v"};
    double found[EXTREMES] = {0, 0, 0}, most = 0;
    for (int i = 0, steps = 64 * cells; i <= steps; i++) {
        double where = i / (double)steps, here = value_at(v, cells, where, 0.5);
        found[0] = fmin(found[0], value_at(u, cells, 0.5, where));
        found[1] = fmax(found[1], here);
        found[2] = fmin(found[2], here);
    }
    printf("\n            computed    Botella  difference\n");
    for (int i = 0; i < EXTREMES; i++) {
        printf("%-10s  %8.5f   %8.5f    %+8.5f\n", names[i], found[i], r->extreme[i], found[i] - r->extreme[i]);
        most = larger(most, found[i] - r->extreme[i]);
    }
    return judge("largest difference    ", most, allowed(r, cells, 0.07));
}

int cavity_compare(int reynolds, int cells, const double *u, const double *v)
{
    const reference_t *r = &references[reynolds == references[1].reynolds];
    return compare_tables(r, cells, u, v) + compare_extremes(r, cells, u, v);
}
