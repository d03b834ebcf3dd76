/* SPDX-License-Identifier: BSD-3-Clause */
#include "wilson_loops.h"

/* The site of this parity at place i of the boxes. Returns the box it is in, or -1 if the place has no such site: in
   rows of an odd number of sites the last pair is not complete. */
LOOP_FN int find_site(const wilson_boxes_t &boxes, const wilson_block_t &block, int parity, size_t i, int *x)
{
    int box = 0;
    while (i >= boxes.start[box + 1])
        box++;
    const int16_t *first = boxes.first[box], *size = boxes.size[box];
    uint32_t place = (uint32_t)i - boxes.start[box], pairs = (uint32_t)(size[0] + 1) / 2;
    x[0] = first[0] + 2 * (int)(place % pairs);
    place /= pairs;
    for (int d = 1; d < WILSON_DIMS; d++) {
        x[d] = first[d] + (int)(place % (uint32_t)size[d]);
        place /= (uint32_t)size[d];
    }
    x[0] += (x[0] + x[1] + x[2] + x[3] + block.odd + parity) & 1;
    return x[0] < first[0] + size[0] ? box : -1;
}

LOOP_FN size_t place_beside(const wilson_block_t &block, const int *x, int mu, int step)
{
    int at[WILSON_DIMS] = {x[0], x[1], x[2], x[3]};
    at[mu] += step;
    return wilson_place(&block, at);
}

/* Where the half spinor of the site beside x along mu has arrived. */
LOOP_FN const wilson_half_t &half_beside(const wilson_hop_t &arg, const int *x, int mu, int step)
{
    int at[WILSON_DIMS] = {x[0], x[1], x[2], x[3]};
    at[mu] += step;
    return arg.half[wilson_half_place(&arg.block, 2 * mu + (step > 0), at)];
}

/* Box 2 mu + up is the face whose half spinors become the halo `up` of the neighbour on its other side. Those that
   travel upwards are multiplied with their link first: it is ours, and the receiver does not have it. */
DEVICE_LOOP(wilson_project_faces, wilson_hop_t)
{
    int x[WILSON_DIMS];
    int face = find_site(arg.boxes, arg.block, 1 - arg.parity, i, x);
    if (face < 0)
        return;
    int mu = face / 2, up = face % 2;
    wilson_half_t h = wilson_project(&arg.in[wilson_place(&arg.block, x)], mu, up ? arg.sign : -arg.sign);
    if (!up)
        h = wilson_transport_back(&arg.links[wilson_link(&arg.block, x) + (size_t)mu], h);
    arg.half[wilson_half_place(&arg.block, face, x)] = h;
}

/* sum += (1 - sign gamma_mu) U_mu(x) psi(x + mu) */
LOOP_FN void add_from_above(const wilson_hop_t &arg, const int *x, int mu, wilson_spinor_t &sum)
{
    wilson_half_t h = x[mu] + 1 < arg.block.size[mu]
                          ? wilson_project(&arg.in[place_beside(arg.block, x, mu, 1)], mu, arg.sign)
                          : half_beside(arg, x, mu, 1);
    h = wilson_transport(&arg.links[wilson_link(&arg.block, x) + (size_t)mu], h);
    wilson_add_expanded(&sum, h, mu, arg.sign);
}

/* sum += (1 + sign gamma_mu) U_mu(x - mu)^+ psi(x - mu) */
LOOP_FN void add_from_below(const wilson_hop_t &arg, const int *x, int mu, wilson_spinor_t &sum)
{
    wilson_half_t h;
    if (x[mu] > 0) {
        int below[WILSON_DIMS] = {x[0], x[1], x[2], x[3]};
        below[mu]--;
        h = wilson_project(&arg.in[wilson_place(&arg.block, below)], mu, -arg.sign);
        h = wilson_transport_back(&arg.links[wilson_link(&arg.block, below) + (size_t)mu], h);
    } else {
        h = half_beside(arg, x, mu, -1);
    }
    wilson_add_expanded(&sum, h, mu, -arg.sign);
}

DEVICE_LOOP(wilson_hop, wilson_hop_t)
{
    int x[WILSON_DIMS];
    if (find_site(arg.boxes, arg.block, arg.parity, i, x) < 0)
        return;
    wilson_spinor_t sum;
    for (int s = 0; s < 4; s++)
        for (int c = 0; c < SU3_COLOURS; c++)
            sum.s[s].c[c] = su3_c(0, 0);
    for (int mu = 0; mu < WILSON_DIMS; mu++) {
        add_from_above(arg, x, mu, sum);
        add_from_below(arg, x, mu, sum);
    }
    size_t place = wilson_place(&arg.block, x);
    for (int s = 0; s < 4; s++) {
        su3_vector_t v = su3_v_scale(arg.scale, sum.s[s]);
        arg.out[place].s[s] = arg.base != nullptr ? su3_v_add(arg.base[place].s[s], v) : v;
    }
}

DEVICE_LOOP(wilson_combine, wilson_combine_t)
{
    arg.out[i] = arg.x[i] + arg.factor * arg.y[i];
}

/* Re Tr U_mu(x) U_nu(x + mu) U_mu(x + nu)^+ U_nu(x)^+ */
LOOP_FN double plaquette(const wilson_plaquette_t &arg, const int *x, int mu, int nu)
{
    int by_mu[WILSON_DIMS] = {x[0], x[1], x[2], x[3]}, by_nu[WILSON_DIMS] = {x[0], x[1], x[2], x[3]};
    by_mu[mu]++;
    by_nu[nu]++;
    const su3_matrix_t *here = &arg.links[wilson_link(&arg.block, x)];
    su3_matrix_t one = su3_mul(&here[mu], &arg.links[wilson_link(&arg.block, by_mu) + (size_t)nu]);
    su3_matrix_t other = su3_mul(&here[nu], &arg.links[wilson_link(&arg.block, by_nu) + (size_t)mu]);
    other = su3_adjoint(&other);
    return su3_re_trace_mul(&one, &other);
}

DEVICE_LOOP(wilson_plaquette, wilson_plaquette_t)
{
    int x[WILSON_DIMS];
    size_t rest = i;
    for (int d = 0; d < WILSON_DIMS; d++) {
        x[d] = (int)(rest % (size_t)arg.block.size[d]);
        rest /= (size_t)arg.block.size[d];
    }
    arg.space[i] = plaquette(arg, x, 0, 1) + plaquette(arg, x, 0, 2) + plaquette(arg, x, 1, 2);
    arg.time[i] = plaquette(arg, x, 0, 3) + plaquette(arg, x, 1, 3) + plaquette(arg, x, 2, 3);
}
