// SPDX-License-Identifier: BSD-3-Clause
//
// The loops of the cavity. A cell gathers the populations that arrive in it, lets them collide, and stores them. At a
// wall, half a cell away, the population that should arrive is the one that left there in the step before, reflected,
// with the lid's momentum added at the lid. The collision has two rates: the even parts of the populations make the
// viscosity, the rate of the odd parts puts the walls where they should be. Equilibria are those of an incompressible
// flow (He and Luo, J. Stat. Phys. 88 (1997) 927), relative to the fluid at rest.
#include "cavity_loops.h"

struct cell {
    ptrdiff_t here;
    bool left, right, bottom, top; // at these walls
};

struct fluid {
    double density, u, v, kinetic;
};

LOOP_FN constexpr int number(int cx, int cy)
{
    return cx + 1 + 3 * (cy + 1);
}

LOOP_FN constexpr double weight(int cx, int cy)
{
    return cx != 0 && cy != 0 ? 1.0 / 36 : cx != 0 || cy != 0 ? 1.0 / 9 : 4.0 / 9;
}

// Absolute value; what is no number counts as infinite.
LOOP_FN double size(double x)
{
    return x >= 0 ? x : x < 0 ? -x : __builtin_huge_val();
}

LOOP_FN cell find_cell(const cavity_step_t &a, size_t i)
{
    unsigned j = (unsigned)i;
    int b = 0;
    while (j >= (unsigned)a.box[b].width * (unsigned)a.box[b].height)
        j -= (unsigned)a.box[b].width * (unsigned)a.box[b].height, b++;
    int y = a.box[b].y + (int)(j / (unsigned)a.box[b].width), x = a.box[b].x + (int)(j % (unsigned)a.box[b].width);
    return {y * a.pitch + x, a.x0 + x == 0, a.x0 + x == a.cells - 1, a.y0 + y == 0, a.y0 + y == a.cells - 1};
}

// A population on its way through a corner, which is at rest, meets the resting wall.
template <int CX, int CY> LOOP_FN double arriving(const cavity_step_t &a, const cell &c)
{
    bool side = (CX > 0 && c.left) || (CX < 0 && c.right), bottom = CY > 0 && c.bottom, lid = CY < 0 && c.top;
    if (!side && !bottom && !lid)
        return a.from[number(CX, CY) * a.plane + c.here - CY * a.pitch - CX];
    double reflected = a.from[number(-CX, -CY) * a.plane + c.here];
    return lid && !side ? reflected + 6 * weight(CX, CY) * CX * a.lid : reflected;
}

// Collision of two opposite populations: that which moves by (CX, CY), and the other.
template <int CX, int CY>
LOOP_FN void collide(const cavity_step_t &a, const cell &c, const fluid &f, double one, double other)
{
    double along = CX * f.u + CY * f.v, w = weight(CX, CY);
    double even = a.rate_even * (0.5 * (one + other) - w * (f.density + 4.5 * along * along - f.kinetic));
    double odd = a.rate_odd * (0.5 * (one - other) - 3 * w * along);
    a.to[number(CX, CY) * a.plane + c.here] = one - even - odd;
    a.to[number(-CX, -CY) * a.plane + c.here] = other - even + odd;
}

DEVICE_LOOP(cavity_step, cavity_step_t)
{
    cell c = find_cell(arg, i);
    double rest = arriving<0, 0>(arg, c);
    double e = arriving<1, 0>(arg, c), w = arriving<-1, 0>(arg, c);
    double n = arriving<0, 1>(arg, c), s = arriving<0, -1>(arg, c);
    double ne = arriving<1, 1>(arg, c), sw = arriving<-1, -1>(arg, c);
    double se = arriving<1, -1>(arg, c), nw = arriving<-1, 1>(arg, c);
    fluid f;
    f.density = rest + ((e + w) + (n + s)) + ((ne + sw) + (se + nw));
    f.u = (e - w) + (ne - sw) + (se - nw);
    f.v = (n - s) + (ne - sw) - (se - nw);
    f.kinetic = 1.5 * (f.u * f.u + f.v * f.v);
    arg.to[number(0, 0) * arg.plane + c.here] = rest - arg.rate_even * (rest - weight(0, 0) * (f.density - f.kinetic));
    collide<1, 0>(arg, c, f, e, w);
    collide<0, 1>(arg, c, f, n, s);
    collide<1, 1>(arg, c, f, ne, sw);
    collide<1, -1>(arg, c, f, se, nw);
}

DEVICE_LOOP(cavity_flow, cavity_flow_t)
{
    unsigned x = (unsigned)i % (unsigned)arg.width, y = (unsigned)i / (unsigned)arg.width;
    const double *p = arg.from + y * arg.pitch + x;
    double east = p[5 * arg.plane] - p[3 * arg.plane], north = p[7 * arg.plane] - p[arg.plane];
    double rising = p[8 * arg.plane] - p[0], falling = p[2 * arg.plane] - p[6 * arg.plane], density = 0;
    for (int q = 0; q < CAVITY_POPULATIONS; q++)
        density += p[q * arg.plane];
    double u = (east + rising + falling) / arg.lid, v = (north + rising - falling) / arg.lid;
    double change_u = size(u - arg.flow[i]), change_v = size(v - arg.flow[arg.n + i]);
    arg.change[i] = change_u > change_v ? change_u : change_v;
    arg.flow[i] = u;
    arg.flow[arg.n + i] = v;
    arg.flow[2 * arg.n + i] = density / (3 * arg.lid * arg.lid);
}
