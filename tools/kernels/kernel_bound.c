/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How fast the faces of a cube can be moved at best: by a kernel that touches the same bytes in the same fields, and
 * does nothing else. As many shapes of launch as may be the fastest are tried on each device.
 */
#include <stdio.h>

#include "tools/kernels/kernel_faces.h"

/* A face that is not narrow: a sheet for each layer of it. */
static void add_sheets(sv_touch_arg_t *arg, const faces_t *faces, const sv_pack_shape_t *shape, int d,
                       sv_touch_place_t at)
{
    const uint64_t row = 8 * faces->n;
    for (uint64_t k = 0; k < faces->width; k++) {
        sv_touch_sheet_t *sheet = &arg->sheet[arg->nsheets++];
        sheet->at.face = at.face + (int64_t)k * shape->dim[d].stride_bytes;
        sheet->at.stream = at.stream + k * (d == 1 ? row : row * faces->n);
        sheet->face_stride = shape->dim[d == 1 ? 2 : 1].stride_bytes;
        sheet->stream_stride = (int64_t)(d == 1 ? row * faces->width : row);
    }
}

static sv_touch_arg_t make_arg(bench_t *b, const faces_t *faces, unsigned field, uint32_t mode)
{
    sv_touch_arg_t arg = {.width = (uint32_t)faces->width, .mode = mode, .unlikely = UINT64_C(0x9d2c5680ca9f3b71),
                          .sink = b->sum};
    uint8_t *memory = faces->memory + field * faces->field_bytes;
    while (faces->n >> arg.edge_shift > 1)
        arg.edge_shift++;
    for (int f = 0; f < FACES; f++) {
        sv_pack_shape_t shape = bench_face_shape(faces, f, mode & SV_TOUCH_SCATTERS);
        sv_touch_place_t at = {memory + (intptr_t)shape.base, memory + faces->stream_at[f]};
        if (f >= 2) {
            add_sheets(&arg, faces, &shape, f / 2, at);
            continue;
        }
        arg.narrow[f] = at;
        arg.row_stride = shape.dim[1].stride_bytes;
        arg.plane_stride = shape.dim[2].stride_bytes;
    }
    return arg;
}

static work_t make_work(bench_t *b, const faces_t *faces, uint32_t mode, sv_touch_arg_t *args)
{
    const uint64_t face = faces->touched, stream = faces->total;
    const int loads = (mode & SV_TOUCH_LOADS) != 0, stores = (mode & SV_TOUCH_STORES) != 0;
    const int scatters = (mode & SV_TOUCH_SCATTERS) != 0;
    for (unsigned i = 0; i < faces->nfields; i++)
        args[i] = make_arg(b, faces, i, mode);
    return (work_t){.kernel = &sv_kernel_touch,
                    .arg = args,
                    .arg_bytes = sizeof *args,
                    .turns = faces->nfields,
                    .payload = faces->total,
                    .baseline = b->copy_rate,
                    .moved = (loads ? scatters ? stream : face : 0) + (stores ? scatters ? face : stream : 0)};
}

double bench_bound_line(bench_t *b, const faces_t *faces, const char *name, uint32_t mode)
{
    static const unsigned quarters[] = {2, 3, 4, 8, 16}; /* of the blocks that the library would take */
    sv_touch_arg_t args[FIELDS_MAX];
    work_t work = make_work(b, faces, mode, args), best = work;
    double best_ns = 0;
    char shape[48];

    for (size_t i = 0; i < sizeof quarters / sizeof *quarters; i++) {
        const unsigned blocks = (b->dev->launch_blocks * quarters[i] + 3) / 4;
        if (blocks == work.blocks)
            continue;
        work.blocks = blocks;
        double ns = bench_ns(b, &work);
        if (best_ns <= 0 || ns < best_ns) {
            best_ns = ns;
            best = work;
        }
    }
    snprintf(shape, sizeof shape, "6 faces of %llu^3, width %llu, %u blocks", (unsigned long long)faces->n,
             (unsigned long long)faces->width, best.blocks);
    best.name = name;
    best.shape = shape;
    bench_print(&best, best_ns);
    return best_ns;
}

void bench_bound_run(bench_t *b, const faces_t *faces, uint32_t mode)
{
    sv_touch_arg_t args[FIELDS_MAX];
    work_t work = make_work(b, faces, mode, args);
    for (unsigned i = 0; i < faces->nfields; i++)
        bench_enqueue(b, &work);
    bench_sync(b);
}
