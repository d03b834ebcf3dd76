// SPDX-License-Identifier: BSD-3-Clause
//
// The heat bath of SU(3) by its SU(2) subgroups: N. Cabibbo and E. Marinari, Phys. Lett. B 119 (1982) 387. The action
// is -beta/3 Re Tr U A plus what does not depend on U, A being the sum of the link's six staples.
//
// Order matters in every sum here: these loops give the same bits on every device and on every grid of ranks.
#include "quenched_loops.h"

#include "quenched_su2.h"

LOOP_FN int64_t ahead(const quenched_field_t &f, const quenched_site_t &s, int d)
{
    return d == 0 ? (int64_t)s.odd : f.stride[d];
}

LOOP_FN int64_t behind(const quenched_field_t &f, const quenched_site_t &s, int d)
{
    return d == 0 ? (int64_t)s.odd - 1 : -f.stride[d];
}

// The link in direction mu of the site at `place`, which has this parity.
LOOP_FN su3_matrix_t load(const quenched_field_t &f, int mu, int parity, int64_t place)
{
    const su3_complex_t *from = f.links + (2 * mu + parity) * QUENCHED_ELEMENTS * f.plane + place;
    su3_matrix_t u;
    for (int e = 0; e < QUENCHED_ELEMENTS; e++)
        u.e[e / 3][e % 3] = from[e * f.plane];
    return u;
}

LOOP_FN void store(const quenched_field_t &f, int mu, int parity, int64_t place, const su3_matrix_t &u)
{
    su3_complex_t *to = f.links + (2 * mu + parity) * QUENCHED_ELEMENTS * f.plane + place;
    for (int e = 0; e < QUENCHED_ELEMENTS; e++)
        to[e * f.plane] = u.e[e / 3][e % 3];
}

// The two ways from x + mu back to x around the plaquettes in the plane of mu and nu, for the site s of this parity.
LOOP_FN su3_matrix_t staples(const quenched_field_t &f, const quenched_site_t &s, int parity, int mu, int nu)
{
    int64_t x = s.place, up = ahead(f, s, mu), forth = ahead(f, s, nu), back = behind(f, s, nu);
    // U_nu(x+mu) U_mu(x+nu)^+ U_nu(x)^+
    su3_matrix_t a = load(f, nu, 1 - parity, x + up), b = load(f, mu, 1 - parity, x + forth);
    su3_matrix_t c = su3_mul_adjoint(&a, &b);
    b = load(f, nu, parity, x);
    su3_matrix_t upper = su3_mul_adjoint(&c, &b);
    // U_nu(x+mu-nu)^+ U_mu(x-nu)^+ U_nu(x-nu)
    a = load(f, mu, 1 - parity, x + back);
    b = load(f, nu, parity, x + up + back);
    c = su3_mul(&a, &b);
    b = load(f, nu, 1 - parity, x + back);
    su3_matrix_t lower = su3_adjoint_mul(&c, &b);
    return su3_add(&upper, &lower);
}

// One subgroup: u and w = u A from the left.
LOOP_FN void update_subgroup(const quenched_update_t &arg, uint64_t site, int number, su3_matrix_t &u, su3_matrix_t &w)
{
    const int i = number == 2 ? 1 : 0, j = number == 0 ? 1 : 2;
    su2_t m = su2_project(&w, i, j), x;
    double *v = m.v, norm = __builtin_sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2] + v[3] * v[3]);
    if (!(norm > 0))
        return;
    for (int k = 0; k < 4; k++)
        v[k] = v[k] / norm;
    if (arg.relax) {
        x = su2_make(v[0], -v[1], -v[2], -v[3]);
    } else {
        quenched_random_t random = quenched_random_start(arg.key, site, arg.sweep, (uint32_t)(4 * arg.mu + number));
        if (!su2_heat_bath(2 * arg.beta * norm / 3, &random, &x))
            return;
    }
    su2_t a = su2_divide(&x, &m);
    su2_rotate(&u, &a, i, j);
    su2_rotate(&w, &a, i, j);
}

DEVICE_LOOP(quenched_update, quenched_update_t)
{
    const quenched_site_t s = arg.sites[i];
    su3_matrix_t sum = su3_zero(), u = load(arg.field, arg.mu, arg.parity, s.place);
    for (int nu = 0; nu < QUENCHED_DIMS; nu++) {
        if (nu == arg.mu)
            continue;
        su3_matrix_t a = staples(arg.field, s, arg.parity, arg.mu, nu);
        sum = su3_add(&sum, &a);
    }
    su3_matrix_t w = su3_mul(&u, &sum);
    update_subgroup(arg, s.number, 0, u, w);
    update_subgroup(arg, s.number, 1, u, w);
    update_subgroup(arg, s.number, 2, u, w);
    su3_reunitarise(&u);
    store(arg.field, arg.mu, arg.parity, s.place, u);
}

// Rows of Gaussian numbers point everywhere alike, and orthonormal they are a link at random in the group. Sweep 0.
DEVICE_LOOP(quenched_start, quenched_start_t)
{
    const quenched_site_t s = arg.sites[i];
    for (int mu = 0; mu < QUENCHED_DIMS; mu++) {
        su3_matrix_t u = su3_unit();
        quenched_random_t random = quenched_random_start(arg.key, s.number, 0, (uint32_t)(4 * mu));
        if (arg.hot)
            for (int e = 0; e < 6; e++)
                u.e[e / 3][e % 3] = quenched_gauss(&random);
        su3_reunitarise(&u);
        store(arg.field, mu, arg.parity, s.place, u);
    }
}

LOOP_FN uint64_t count(double x)
{
    return (uint64_t)(int64_t)(x * QUENCHED_UNIT + (x < 0 ? -0.5 : 0.5));
}

// A number for the 18 words of a link, wherever it is stored: each is mixed with its place in the whole lattice.
LOOP_FN uint64_t hash(const su3_matrix_t &u, uint64_t number)
{
    uint64_t sum = 0;
    for (int e = 0; e < 2 * QUENCHED_ELEMENTS; e++) {
        const su3_complex_t &c = u.e[e / 6][e / 2 % 3];
        const double part = e % 2 == 0 ? c.re : c.im;
        uint64_t word;
        __builtin_memcpy(&word, &part, sizeof word);
        word ^= (number * 2 * QUENCHED_ELEMENTS + (uint64_t)e + 1) * 0x9e3779b97f4a7c15u;
        for (int round = 0; round < 2; round++)
            word = (word ^ word >> 32) * 0xd6e8feb86659fd93u;
        sum += word ^ word >> 32;
    }
    return sum;
}

// Re Tr U_mu(x) U_nu(x+mu) (U_nu(x) U_mu(x+nu))^+ / 3
LOOP_FN double plaquette(const quenched_field_t &f, const quenched_site_t &s, int parity, int mu, int nu)
{
    su3_matrix_t a = load(f, mu, parity, s.place), b = load(f, nu, 1 - parity, s.place + ahead(f, s, mu));
    su3_matrix_t near = su3_mul(&a, &b);
    a = load(f, nu, parity, s.place);
    b = load(f, mu, 1 - parity, s.place + ahead(f, s, nu));
    su3_matrix_t far = su3_mul(&a, &b);
    far = su3_adjoint(&far);
    return su3_re_trace_mul(&near, &far) / 3;
}

DEVICE_LOOP(quenched_measure, quenched_measure_t)
{
    const quenched_site_t s = arg.sites[i];
    uint64_t sums[QUENCHED_SUMS] = {0, 0, 0, 0};
    for (int mu = 0; mu < QUENCHED_DIMS; mu++) {
        for (int nu = mu + 1; nu < QUENCHED_DIMS; nu++)
            sums[nu == QUENCHED_DIMS - 1] += count(plaquette(arg.field, s, arg.parity, mu, nu));
        su3_matrix_t u = load(arg.field, mu, arg.parity, s.place);
        sums[2] += count(su3_re_trace(&u) / 3);
        sums[3] += hash(u, s.number * QUENCHED_DIMS + (uint64_t)mu);
    }
    for (int k = 0; k < QUENCHED_SUMS; k++)
        arg.results[(size_t)k * arg.own_sites + s.own] = sums[k];
}

DEVICE_LOOP(quenched_add, quenched_add_t)
{
    for (int k = 0; k < QUENCHED_SUMS; k++) {
        uint64_t sum = 0;
        for (size_t own = i; own < arg.own_sites; own += QUENCHED_PARTS)
            sum += arg.results[(size_t)k * arg.own_sites + own];
        arg.parts[(size_t)k * QUENCHED_PARTS + i] = sum;
    }
}

DEVICE_LOOP(quenched_export, quenched_export_t)
{
    const quenched_site_t s = arg.sites[i];
    for (int mu = 0; mu < QUENCHED_DIMS; mu++) {
        su3_matrix_t u = load(arg.field, mu, arg.parity, s.place);
        su3_to_floats(&u, arg.floats + (size_t)s.own * QUENCHED_SITE_FLOATS + mu * SU3_DOUBLES);
    }
}
