/* SPDX-License-Identifier: BSD-3-Clause */
#include "heat3d_loops.h"

/* A step: from u to next. */
struct heat_arrays {
    const double *u;
    double *next;
    double r;
    ptrdiff_t pitch_y, pitch_z;
};

/* Updates a column of `count` cells, of which u[at] is the lowest. Each cell is read once along z. */
LOOP_FN void update_column(const heat_arrays &a, ptrdiff_t at, uint32_t count)
{
    double below = a.u[at - a.pitch_z], here = a.u[at];
    for (uint32_t k = 0; k < count; k++) {
        double above = a.u[at + a.pitch_z];
        double sides = (a.u[at - 1] + a.u[at + 1]) + (a.u[at - a.pitch_y] + a.u[at + a.pitch_y]);
        a.next[at] = here + a.r * ((sides + (below + above)) - 6 * here);
        below = here;
        here = above;
        at += a.pitch_z;
    }
}

LOOP_FN void update_body(const heat_arrays &a, const heat_box_t &box, size_t i)
{
    uint32_t body = (uint32_t)(i - box.first_body), lane = body % LOOP_THREADS, tile = body / LOOP_THREADS;
    uint32_t width = 1u << box.log_tile, height = LOOP_THREADS >> box.log_tile;
    uint32_t tiles_x = (box.extent[0] + width - 1) / width, tiles_y = (box.extent[1] + height - 1) / height;
    uint32_t x = tile % tiles_x * width + lane % width;
    uint32_t y = tile / tiles_x % tiles_y * height + lane / width;
    uint32_t z = tile / tiles_x / tiles_y * HEAT_COLUMN, end = z + HEAT_COLUMN;
    if (end > box.extent[2])
        end = box.extent[2];
    if (x < box.extent[0] && y < box.extent[1])
        update_column(a, box.origin + x + y * a.pitch_y + z * a.pitch_z, end - z);
}

DEVICE_LOOP(heat_update, heat_step_t)
{
    size_t b = 0;
    while (b + 1 < arg.nboxes && i >= arg.box[b + 1].first_body)
        b++;
    update_body(heat_arrays{arg.u, arg.next, arg.r, arg.pitch_y, arg.pitch_z}, arg.box[b], i);
}

/* Each packet in parts, which the blocks take in turns. */
LOOP_FN void send_faces(const heat_block_t &arg, const selvage_coop_t &block, uint32_t step, const double *u)
{
    for (uint32_t share = block.index; share < arg.halo.nsends * arg.parts; share += block.count) {
        selvage_outgoing_t out = selvage_outgoing_open(arg.halo, block, share / arg.parts, step, share % arg.parts,
                                                       arg.parts);
        selvage_outgoing_gather(arg.halo, block, out, u);
        selvage_outgoing_close(arg.halo, block, out);
    }
}

LOOP_FN void receive_faces(const heat_block_t &arg, const selvage_coop_t &block, uint32_t step, double *u)
{
    for (uint32_t share = block.index; share < arg.halo.nrecvs * arg.parts; share += block.count) {
        selvage_incoming_t in = selvage_incoming_await(arg.halo, block, share / arg.parts, step, share % arg.parts,
                                                       arg.parts);
        selvage_incoming_scatter(arg.halo, block, in, u);
        (void)selvage_incoming_close(arg.halo, block, in);
    }
}

/* The interior is updated while faces travel, the cells beside the halo when all blocks have seen it. */
DEVICE_KERNEL(heat_block, heat_block_t)
{
    const size_t first = (size_t)block.index * block.lanes + block.lane, stride = (size_t)block.count * block.lanes;
    for (uint32_t step = 0; step < arg.halo.epochs; step++) {
        double *u = arg.u[step & 1], *next = arg.u[~step & 1];
        const heat_arrays arrays = {u, next, arg.r, arg.pitch_y, arg.pitch_z};
        send_faces(arg, block, step, u);
        for (size_t i = first; i < arg.interior_bodies; i += stride)
            update_body(arrays, arg.interior, i);
        receive_faces(arg, block, step, u);
        if (!selvage_device_sync(arg.halo, block))
            break;
        for (size_t i = first, b = 0; i < arg.slab_bodies; i += stride) {
            while (b + 1 < arg.nslabs && i >= arg.slab[b + 1].first_body)
                b++;
            update_body(arrays, arg.slab[b], i);
        }
        if (!selvage_device_sync(arg.halo, block))
            break;
    }
    selvage_device_leave(arg.halo, block);
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
