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
    LOOP_UNROLL
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
template <typename HOP>
LOOP_FN const wilson_half_t &half_beside(const HOP &arg, const int *x, int mu, int step)
{
    int at[WILSON_DIMS] = {x[0], x[1], x[2], x[3]};
    at[mu] += step;
    return arg.half[wilson_half_place(&arg.block, 2 * mu + (step > 0), at)];
}

/* Box 2 mu + up is the face whose half spinors become the halo `up` of the neighbour on its other side. Those that
   travel upwards are multiplied with their link first: it is ours, and the receiver does not have it. */
template <typename HOP>
LOOP_FN wilson_half_t half_to_send(const HOP &arg, int face, const int *x)
{
    int mu = face / 2, up = face % 2;
    wilson_half_t h = wilson_project(&arg.in[wilson_place(&arg.block, x)], mu, up ? arg.sign : -arg.sign);
    return up ? h : wilson_transport_back(&arg.links[wilson_link(&arg.block, x) + (size_t)mu], h);
}

DEVICE_LOOP(wilson_project_faces, wilson_hop_t)
{
    int x[WILSON_DIMS];
    int face = find_site(arg.boxes, arg.block, 1 - arg.parity, i, x);
    if (face >= 0)
        arg.half[wilson_half_place(&arg.block, face, x)] = half_to_send(arg, face, x);
}

/* sum += (1 - sign gamma_mu) U_mu(x) psi(x + mu) */
template <typename HOP>
LOOP_FN void add_from_above(const HOP &arg, const int *x, int mu, wilson_spinor_t &sum)
{
    wilson_half_t h = x[mu] + 1 < arg.block.size[mu]
                          ? wilson_project(&arg.in[place_beside(arg.block, x, mu, 1)], mu, arg.sign)
                          : half_beside(arg, x, mu, 1);
    h = wilson_transport(&arg.links[wilson_link(&arg.block, x) + (size_t)mu], h);
    wilson_add_expanded(&sum, h, mu, arg.sign);
}

/* sum += (1 + sign gamma_mu) U_mu(x - mu)^+ psi(x - mu) */
template <typename HOP>
LOOP_FN void add_from_below(const HOP &arg, const int *x, int mu, wilson_spinor_t &sum)
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

template <typename HOP>
LOOP_FN void hop_site(const HOP &arg, const wilson_boxes_t &boxes, size_t i)
{
    int x[WILSON_DIMS];
    if (find_site(boxes, arg.block, arg.parity, i, x) < 0)
        return;
    wilson_spinor_t sum;
    for (int s = 0; s < 4; s++)
        for (int c = 0; c < SU3_COLOURS; c++)
            sum.s[s].c[c] = su3_c(0, 0);
    LOOP_UNROLL
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

DEVICE_LOOP(wilson_hop, wilson_hop_t)
{
    hop_site(arg, arg.boxes, i);
}

/* Places of a face that a part of its packet has. */
struct face_share {
    uint32_t face, part, first, end;
};

LOOP_FN face_share share_of(const wilson_boxes_t &faces, uint32_t share, uint32_t parts)
{
    const uint32_t face = share / parts, part = share % parts, count = faces.start[face + 1] - faces.start[face];
    const uint32_t each = (count + parts - 1) / parts, first = each * part < count ? each * part : count;
    return face_share{face, part, first, first + each < count ? first + each : count};
}

/* Half spinors go from the registers that they are computed in to the neighbour's memory. A place without a site of the
   parity is sent as zeros. */
LOOP_FN void send_faces(const wilson_whole_hop_t &arg, const selvage_coop_t &block)
{
    const wilson_boxes_t &faces = arg.boxes->faces;
    for (uint32_t s = block.index; s < WILSON_FACES * arg.parts; s += block.count) {
        const face_share share = share_of(faces, s, arg.parts);
        selvage_outgoing_t out = selvage_outgoing_open(arg.ex, block, share.face, 0, share.part, arg.parts);
        for (uint32_t p = share.first + block.lane; p < share.end; p += block.lanes) {
            int x[WILSON_DIMS];
            wilson_half_t h = {};
            if (find_site(faces, arg.block, 1 - arg.parity, faces.start[share.face] + p, x) >= 0)
                h = half_to_send(arg, (int)share.face, x);
            selvage_outgoing_store(out, p * sizeof h, h);
        }
        selvage_outgoing_close(arg.ex, block, out);
    }
}

LOOP_FN void receive_faces(const wilson_whole_hop_t &arg, const selvage_coop_t &block)
{
    const wilson_boxes_t &halos = arg.boxes->halos;
    for (uint32_t s = block.index; s < WILSON_FACES * arg.parts; s += block.count) {
        const face_share share = share_of(halos, s, arg.parts);
        selvage_incoming_t in = selvage_incoming_await(arg.ex, block, share.face, 0, share.part, arg.parts);
        for (uint32_t p = share.first + block.lane; p < share.end; p += block.lanes) {
            int x[WILSON_DIMS];
            const wilson_half_t h = selvage_incoming_load<wilson_half_t>(in, p * sizeof(wilson_half_t));
            if (find_site(halos, arg.block, 1 - arg.parity, halos.start[share.face] + p, x) >= 0)
                arg.half[wilson_half_place(&arg.block, (int)share.face, x)] = h;
        }
        (void)selvage_incoming_close(arg.ex, block, in);
    }
}

/* The interior is computed while half spinors travel, the boundary when all blocks see them. What fails poisons the
   exchange, and the host's next call on it says so. */
DEVICE_KERNEL(wilson_whole_hop, wilson_whole_hop_t)
{
    const size_t first = (size_t)block.index * block.lanes + block.lane, stride = (size_t)block.count * block.lanes;
    const wilson_boxes_t *boxes = &arg.boxes->interior;
    send_faces(arg, block);
    for (;;) {
        for (size_t i = first; i < boxes->start[boxes->count]; i += stride)
            hop_site(arg, *boxes, i);
        if (boxes == &arg.boxes->boundary)
            break;
        boxes = &arg.boxes->boundary;
        receive_faces(arg, block);
        if (!selvage_device_sync(arg.ex, block))
            break;
    }
    selvage_device_leave(arg.ex, block);
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
