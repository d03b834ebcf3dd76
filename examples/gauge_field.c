/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arithmetic of the lattice example; see gauge_field.h. Links are 32-bit as in the file; every product and sum is taken
 * in double precision, so that the order of summation, which differs with the rank grid, stays far below 1e-6.
 */
#include "gauge_field.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Two arrays of doubles, not double complex, whose product carries the C standard's rules for infinities. */
typedef struct matrix {
    double re[3][3], im[3][3];
} matrix_t;

bool gauge_field_init(gauge_field_t *field, const int size[GAUGE_DIMS], bool periodic)
{
    size_t sites = 1;
    *field = (gauge_field_t){.periodic = periodic};
    for (int d = 0; d < GAUGE_DIMS; d++) {
        field->size[d] = size[d];
        sites *= (size_t)size[d] + 1;
    }
    field->links = calloc(sites, GAUGE_SITE_FLOATS * sizeof *field->links);
    return field->links != NULL;
}

void gauge_field_fini(gauge_field_t *field)
{
    free(field->links);
    field->links = NULL;
}

float *gauge_field_site(const gauge_field_t *field, const int x[GAUGE_DIMS])
{
    size_t site = 0;
    for (int d = GAUGE_DIMS - 1; d >= 0; d--)
        site = site * ((size_t)field->size[d] + 1) + (size_t)x[d];
    return field->links + site * GAUGE_SITE_FLOATS;
}

bool gauge_next_site(int x[GAUGE_DIMS], const int size[GAUGE_DIMS])
{
    for (int d = 0; d < GAUGE_DIMS; d++) {
        if (++x[d] < size[d])
            return true;
        x[d] = 0;
    }
    return false;
}

/* The box of a face: one site thick along its normal. */
static size_t face_box(const gauge_field_t *field, int mu, int box[GAUGE_DIMS])
{
    size_t sites = 1;
    for (int d = 0; d < GAUGE_DIMS; d++) {
        box[d] = d == mu ? 1 : field->size[d];
        sites *= (size_t)box[d];
    }
    return sites;
}

size_t gauge_face_floats(const gauge_field_t *field, int mu)
{
    int box[GAUGE_DIMS];
    return face_box(field, mu, box) * GAUGE_FACE_FLOATS;
}

void gauge_face_pack(const gauge_field_t *field, int mu, float *face)
{
    int box[GAUGE_DIMS], x[GAUGE_DIMS] = {0};
    face_box(field, mu, box);
    do {
        const float *site = gauge_field_site(field, x);
        for (int nu = 0; nu < GAUGE_DIMS; nu++) {
            if (nu == mu)
                continue;
            memcpy(face, site + nu * GAUGE_LINK_FLOATS, GAUGE_LINK_FLOATS * sizeof *face);
            face += GAUGE_LINK_FLOATS;
        }
    } while (gauge_next_site(x, box));
}

void gauge_face_unpack(gauge_field_t *field, int mu, const float *face)
{
    int box[GAUGE_DIMS], x[GAUGE_DIMS] = {0};
    face_box(field, mu, box);
    do {
        int halo[GAUGE_DIMS] = {x[0], x[1], x[2], x[3]};
        halo[mu] = field->size[mu];
        float *site = gauge_field_site(field, halo);
        for (int nu = 0; nu < GAUGE_DIMS; nu++) {
            if (nu == mu)
                continue;
            memcpy(site + nu * GAUGE_LINK_FLOATS, face, GAUGE_LINK_FLOATS * sizeof *face);
            face += GAUGE_LINK_FLOATS;
        }
    } while (gauge_next_site(x, box));
}

/* The link in direction nu at x, or at x + mu if mu is not negative. */
static matrix_t link_at(const gauge_field_t *field, const int x[GAUGE_DIMS], int mu, int nu)
{
    int at[GAUGE_DIMS] = {x[0], x[1], x[2], x[3]};
    matrix_t m;
    if (mu >= 0 && ++at[mu] == field->size[mu] && field->periodic)
        at[mu] = 0;
    const float *link = gauge_field_site(field, at) + nu * GAUGE_LINK_FLOATS;
    for (int i = 0; i < 9; i++) {
        m.re[i / 3][i % 3] = link[2 * i];
        m.im[i / 3][i % 3] = link[2 * i + 1];
    }
    return m;
}

static matrix_t multiply(const matrix_t *a, const matrix_t *b)
{
    matrix_t c = {{{0}}, {{0}}};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 3; k++) {
                c.re[i][j] += a->re[i][k] * b->re[k][j] - a->im[i][k] * b->im[k][j];
                c.im[i][j] += a->re[i][k] * b->im[k][j] + a->im[i][k] * b->re[k][j];
            }
    return c;
}

/* Re Tr U_mu(x) U_nu(x+mu) U_mu(x+nu)^+ U_nu(x)^+, that is Re Tr A B^+ with A = U_mu(x) U_nu(x+mu) and B the same with
   mu and nu exchanged. */
static double plaquette(const gauge_field_t *field, const int x[GAUGE_DIMS], int mu, int nu)
{
    matrix_t mu_here = link_at(field, x, -1, mu), nu_ahead = link_at(field, x, mu, nu);
    matrix_t nu_here = link_at(field, x, -1, nu), mu_ahead = link_at(field, x, nu, mu);
    matrix_t a = multiply(&mu_here, &nu_ahead), b = multiply(&nu_here, &mu_ahead);
    double trace = 0;
    for (int i = 0; i < 9; i++)
        trace += a.re[i / 3][i % 3] * b.re[i / 3][i % 3] + a.im[i / 3][i % 3] * b.im[i / 3][i % 3];
    return trace;
}

void gauge_plaquettes(const gauge_field_t *field, double *space, double *time)
{
    int x[GAUGE_DIMS] = {0};
    *space = *time = 0;
    do {
        for (int mu = 0; mu < GAUGE_DIMS - 1; mu++) {
            for (int nu = mu + 1; nu < GAUGE_DIMS - 1; nu++)
                *space += plaquette(field, x, mu, nu);
            *time += plaquette(field, x, mu, GAUGE_DIMS - 1);
        }
    } while (gauge_next_site(x, field->size));
}

double gauge_link_trace(const gauge_field_t *field)
{
    int x[GAUGE_DIMS] = {0};
    double sum = 0;
    do {
        const float *site = gauge_field_site(field, x);
        for (int mu = 0; mu < GAUGE_DIMS; mu++)
            for (int i = 0; i < 3; i++)
                sum += site[mu * GAUGE_LINK_FLOATS + 8 * i]; /* real part of element (i, i) */
    } while (gauge_next_site(x, field->size));
    return sum;
}

/* xorshift64*: a few shifts and one product, the same on every machine. */
static double random_uniform(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return ((double)(*state * 0x2545f4914f6cdd1dULL >> 11) + 0.5) / 9007199254740992.0; /* strictly inside 0..1 */
}

/* A complex Gaussian, by Box and Muller. */
static double complex random_gauss(uint64_t *state)
{
    double radius = sqrt(-2 * log(random_uniform(state)));
    double angle = 6.283185307179586 * random_uniform(state);
    return radius * cos(angle) + I * (radius * sin(angle));
}

static void normalise(double complex row[3])
{
    double norm = 0;
    for (int i = 0; i < 3; i++)
        norm += creal(row[i]) * creal(row[i]) + cimag(row[i]) * cimag(row[i]);
    for (int i = 0; i < 3; i++)
        row[i] /= sqrt(norm);
}

/* Two random rows made orthonormal (Gram-Schmidt); the third is their conjugate cross product: determinant 1. */
static void random_su3(double complex u[3][3], uint64_t *state)
{
    for (int i = 0; i < 6; i++)
        u[i / 3][i % 3] = random_gauss(state);
    normalise(u[0]);
    double complex overlap = 0;
    for (int i = 0; i < 3; i++)
        overlap += conj(u[0][i]) * u[1][i];
    for (int i = 0; i < 3; i++)
        u[1][i] -= overlap * u[0][i];
    normalise(u[1]);
    for (int i = 0; i < 3; i++)
        u[2][i] = conj(u[0][(i + 1) % 3] * u[1][(i + 2) % 3] - u[0][(i + 2) % 3] * u[1][(i + 1) % 3]);
}

void gauge_random_links(float *links, size_t count, uint64_t seed)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15ULL | 1; /* the generator must not start from zero */
    for (size_t n = 0; n < count; n++, links += GAUGE_LINK_FLOATS) {
        double complex u[3][3];
        random_su3(u, &state);
        for (int i = 0; i < 9; i++) {
            links[2 * i] = (float)creal(u[i / 3][i % 3]);
            links[2 * i + 1] = (float)cimag(u[i / 3][i % 3]);
        }
    }
}
