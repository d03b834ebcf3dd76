/* SPDX-License-Identifier: BSD-3-Clause */
#include "heat3d_loops.h"

/* Updates a column of `count` cells, of which u[at] is the lowest. Each cell is read once along z. */
LOOP_FN void update_column(const heat_step_t &arg, ptrdiff_t at, uint32_t count)
{
    double below = arg.u[at - arg.pitch_z], here = arg.u[at];
    for (uint32_t k = 0; k < count; k++) {
        double above = arg.u[at + arg.pitch_z];
        double sides = (arg.u[at - 1] + arg.u[at + 1]) + (arg.u[at - arg.pitch_y] + arg.u[at + arg.pitch_y]);
        arg.next[at] = here + arg.r * ((sides + (below + above)) - 6 * here);
        below = here;
        here = above;
        at += arg.pitch_z;
    }
}

DEVICE_LOOP(heat_update, heat_step_t)
{
    size_t b = 0;
    while (b + 1 < arg.nboxes && i >= arg.box[b + 1].first_body)
        b++;
    const heat_box_t &box = arg.box[b];
    uint32_t body = (uint32_t)(i - box.first_body), lane = body % LOOP_THREADS, tile = body / LOOP_THREADS;
    uint32_t width = 1u << box.log_tile, height = LOOP_THREADS >> box.log_tile;
    uint32_t tiles_x = (box.extent[0] + width - 1) / width, tiles_y = (box.extent[1] + height - 1) / height;
    uint32_t x = tile % tiles_x * width + lane % width;
    uint32_t y = tile / tiles_x % tiles_y * height + lane / width;
    uint32_t z = tile / tiles_x / tiles_y * HEAT_COLUMN, end = z + HEAT_COLUMN;
    if (end > box.extent[2])
        end = box.extent[2];
    if (x < box.extent[0] && y < box.extent[1])
        update_column(arg, box.origin + x + y * arg.pitch_y + z * arg.pitch_z, end - z);
}

/* Cell i of the own ones: where it lies, and amplitude times the mode there. */
LOOP_FN double mode_at(const heat_mode_t &arg, size_t i, ptrdiff_t *at)
{
    size_t x = i % arg.extent[0], row = i / arg.extent[0], y = row % arg.extent[1], z = row / arg.extent[1];
    *at = arg.origin + (ptrdiff_t)x + (ptrdiff_t)y * arg.pitch_y + (ptrdiff_t)z * arg.pitch_z;
    return arg.amplitude * (arg.factor[0][x] * arg.factor[1][y] * arg.factor[2][z]);
}

DEVICE_LOOP(heat_fill, heat_mode_t)
{
    ptrdiff_t at;
    double value = mode_at(arg, i, &at);
    arg.u[at] = value;
}

DEVICE_LOOP(heat_compare, heat_mode_t)
{
    ptrdiff_t at;
    double value = mode_at(arg, i, &at);
    arg.scratch[i] = arg.u[at] - value;
}
