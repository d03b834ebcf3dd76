/* SPDX-License-Identifier: BSD-3-Clause */
#include "hand_packed_loops.h"

namespace {

struct place {
    size_t field, cell;
};

/* Cell number i of the buffer: in the outermost own cells, or in the halo beyond the opposite side. */
LOOP_FN place find(const hand_faces_t &arg, size_t i, bool halo)
{
    const size_t per_field = arg.width * arg.edge * arg.edge, per_face = per_field * arg.fields;
    const size_t pitch = arg.edge + 2 * arg.width;
    const size_t face = i / per_face, d = face / 2;
    size_t rest = i % per_face, cell = 0, stride = 1;
    const place at{rest / per_field, 0};

    rest %= per_field;
    for (size_t k = 0; k < 3; k++, stride *= pitch) {
        const size_t extent = k == d ? arg.width : arg.edge;
        size_t first = arg.width;
        if (k == d && face % 2 == 0) /* travels down: from the lowest own cells to the uppermost halo */
            first = halo ? arg.width + arg.edge : arg.width;
        else if (k == d)
            first = halo ? 0 : arg.edge;
        cell += (first + rest % extent) * stride;
        rest /= extent;
    }
    return place{at.field, cell};
}

} // namespace

DEVICE_LOOP(hand_pack, hand_faces_t)
{
    const place at = find(arg, i, false);
    arg.buffer[i] = arg.field[at.field][at.cell];
}

DEVICE_LOOP(hand_unpack, hand_faces_t)
{
    const place at = find(arg, i, true);
    arg.field[at.field][at.cell] = arg.buffer[i];
}
