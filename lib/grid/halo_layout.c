/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the bytes of a piece lie. The stream goes over the axes of the field in its order of axes, fastest first, and
 * skips cells that do not exist. So it does not matter that one end describes a piece by a box and the other by a list.
 *
 * A field of one parity, packed dimension across; o are the cells that exist, and a place holds one of each pair:
 *
 *     array index   0 1   2 3   4 5   6 7
 *     place          0     1     2     3
 *                  [o .] [o .] [o .] [o .]      cells 2 to 5: places 1 and 2 of every row: a box
 *                  [. o] [. o] [. o] [. o]      cells 1 to 4: places 1, 2 here, but 0, 1 here: a list
 */
#include "grid/halo_plan.h"

#include "base/base_memory.h"
#include "base/base_status.h"

static int64_t cells_of(const sv_halo_field_t *f, const selvage_box_t *cells, int axis)
{
    return axis == f->ndims ? f->components : cells->end[axis] - cells->first[axis];
}

/* Offset from data of the place of a cell of component 0. */
static int64_t cell_offset_of(const sv_halo_field_t *f, const int64_t *cell)
{
    int64_t offset = 0;
    for (int d = 0; d < f->ndims; d++) {
        int64_t index = f->first[d] + cell[d];
        offset += (d == f->packed_dim ? index / 2 : index) * f->stride[d];
    }
    return offset;
}

static selvage_status_t lay_box(sv_layout_t *layout, uint32_t base, const sv_halo_field_t *f,
                                const selvage_box_t *cells, int64_t component, bool all, sv_layout_number_t number)
{
    int64_t offset = cell_offset_of(f, cells->first) + component * f->component_stride;
    sv_pack_shape_t shape = {.base = (uint8_t *)(uintptr_t)offset, .element_bytes = f->element_bytes};
    for (int i = 0; i <= f->ndims; i++) {
        int axis = f->axis[i];
        int64_t count = cells_of(f, cells, axis);
        if (count == 1 || (axis == f->ndims && !all))
            continue;
        shape.dim[shape.ndims++] =
            (sv_pack_dim_t){.count = (uint64_t)(axis == f->packed_dim ? count / 2 : count),
                            .stride_bytes = axis == f->ndims ? f->component_stride : f->stride[axis]};
    }
    return sv_layout_add_box(layout, base, &shape, number);
}

/* Steps to the next cell in the order of the stream. index counts from the first cell; [ndims] is the component. */
static bool next_cell(const sv_halo_field_t *f, const selvage_box_t *cells, bool all, int64_t *index)
{
    for (int i = 0; i <= f->ndims; i++) {
        int axis = f->axis[i];
        if (axis == f->ndims && !all)
            continue;
        if (++index[axis] < cells_of(f, cells, axis))
            return true;
        index[axis] = 0;
    }
    return false;
}

/* Lays the cells of one parity as a list of offsets, in the order of the stream. */
static selvage_status_t lay_list(sv_layout_t *layout, uint32_t base, const sv_halo_field_t *f,
                                 const selvage_box_t *cells, int64_t component, bool all, sv_layout_number_t number)
{
    int64_t *offsets, index[SV_HALO_AXES_MAX] = {0};
    uint64_t count = 0;
    SV_TRY(sv_calloc(sv_halo_count(f, cells) * (uint64_t)(all ? f->components : 1), sizeof *offsets, &offsets));
    do {
        int64_t cell[SELVAGE_DIMS_MAX] = {0};
        uint64_t sum = 0;
        for (int d = 0; d < f->ndims; d++) {
            cell[d] = cells->first[d] + index[d];
            sum += (uint64_t)(f->global_first[d] + cell[d]);
        }
        if (sum % 2 == (f->parity == SELVAGE_PARITY_ODD))
            offsets[count++] = cell_offset_of(f, cell) + (component + index[f->ndims]) * f->component_stride;
    } while (next_cell(f, cells, all, index));
    selvage_status_t status = sv_layout_add_list(layout, base, f->element_bytes, offsets, count, number);
    sv_free(offsets);
    return status;
}

selvage_status_t sv_halo_lay(sv_layout_t *layout, uint32_t base, const sv_halo_field_t *field,
                             const selvage_box_t *cells, sv_layout_number_t number)
{
    /* Axes with one step only do not count. Where more are left than a box has, the components go one by one. Both ends
       decide alike, since they see the same numbers of cells. */
    int axes = 0, p = field->packed_dim;
    for (int axis = 0; axis <= field->ndims; axis++)
        axes += cells_of(field, cells, axis) > 1;
    const bool all = axes <= SV_PACK_DIMS;
    /* The cells are a box in memory, too, if they take the same places in every row. */
    const bool is_box = p < 0 || ((field->first[p] + cells->first[p]) % 2 == 0 &&
                                  (cells->end[p] - cells->first[p]) % 2 == 0);
    for (int64_t c = 0; c < (all ? 1 : field->components); c++) {
        if (is_box)
            SV_TRY(lay_box(layout, base, field, cells, c, all, number));
        else
            SV_TRY(lay_list(layout, base, field, cells, c, all, number));
    }
    return SELVAGE_SUCCESS;
}
