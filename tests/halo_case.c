/* SPDX-License-Identifier: BSD-3-Clause */
/* See halo_case.h: this half makes cases and arrays, halo_reference.c says what must be in them. */
#include "halo_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static int below(uint64_t *state, int bound)
{
    return (int)local_ranks_random(state, (uint64_t)bound);
}

/* Spreads the prime factors of the number of ranks over the dimensions. */
static void make_blocks(halo_case_t *test, uint64_t *state)
{
    int left = test->size;
    for (int d = 0; d < HALO_DIMS; d++)
        test->grid.blocks[d] = 1;
    for (int prime = 2; left > 1; prime++)
        for (; left % prime == 0; left /= prime)
            test->grid.blocks[below(state, test->grid.ndims)] *= prime;
}

/* Extents of all blocks of a dimension; even in sum where fields of one parity have to go around. */
static void make_extents(halo_case_t *test, int d, uint64_t *state)
{
    static const int most[HALO_DIMS] = {24, 8, 4, 3}, more[HALO_DIMS] = {5, 4, 3, 2};
    int blocks = test->grid.blocks[d], spread = 1 + below(state, more[test->grid.ndims - 1]);
    int least = 1 + below(state, most[test->grid.ndims - 1]);
    int64_t sum = 0;
    for (int c = 0; c < blocks; c++)
        sum += test->split[d][c] = least + below(state, spread);
    test->split[d][blocks - 1] += sum % 2;
    sum += sum % 2;
    test->grid.global_extent[d] = sum;
    test->grid.split[d] = test->split[d];
    if (below(state, 2))
        return;
    test->grid.split[d] = NULL;
    for (int c = 0; c < blocks; c++)
        test->split[d][c] = sum / blocks + (c < sum % blocks);
}

static void make_ranks(halo_case_t *test, uint64_t *state)
{
    for (int b = 0; b < test->size; b++) {
        int other = below(state, b + 1);
        test->ranks[b] = test->ranks[other];
        test->ranks[other] = b;
    }
    test->grid.ranks = test->ranks;
}

static void make_grid(halo_case_t *test, uint64_t *state)
{
    test->grid = (selvage_grid_params_t){SELVAGE_GRID_PARAMS_INIT, .ndims = 1 + below(state, HALO_DIMS)};
    make_blocks(test, state);
    for (int d = 0; d < test->grid.ndims; d++) {
        test->grid.periodic[d] = below(state, 2);
        make_extents(test, d, state);
    }
    if (below(state, 2))
        make_ranks(test, state);
}

static int thinnest(const halo_case_t *test, int d)
{
    int64_t least = test->split[d][0];
    for (int c = 1; c < test->grid.blocks[d]; c++)
        least = test->split[d][c] < least ? test->split[d][c] : least;
    return (int)least;
}

static void make_number(selvage_field_t *field, uint64_t *state)
{
    static const size_t bytes[] = {0, 4, 8, 4, 8};
    field->number = (selvage_number_t)(1 + below(state, 4));
    field->element_bytes = bytes[field->number] * (size_t)(1 + below(state, 4));
}

static selvage_field_t make_field(const halo_case_t *test, const halo_wish_t *wish, uint64_t *state)
{
    selvage_field_t field = {SELVAGE_FIELD_INIT, .components = below(state, 5)};
    field.element_bytes = below(state, 2) ? 8 * (size_t)(1 + below(state, 5)) : (size_t)(1 + below(state, 40));
    if (wish->params.reverse)
        make_number(&field, state);
    bool wide = below(state, 3) == 0, staggered = below(state, 4) == 0;
    for (int d = 0; d < test->grid.ndims; d++) {
        int most = thinnest(test, d) < 3 ? thinnest(test, d) : 3;
        field.width_lo[d] = below(state, (wide ? most : 1) + 1);
        field.width_hi[d] = below(state, (wide ? most : 1) + 1);
        field.stagger[d] = staggered && below(state, 2);
    }
    if (!wish->records && below(state, 3) == 0) {
        field.parity = below(state, 2) ? SELVAGE_PARITY_EVEN : SELVAGE_PARITY_ODD;
        field.packed_dim = below(state, test->grid.ndims);
    }
    return field;
}

/* A halo without any is refused. */
static void give_some_width(const halo_case_t *test, halo_wish_t *wish)
{
    int widths = 0;
    for (int f = 0; f < wish->nfields; f++)
        for (int d = 0; d < test->grid.ndims; d++)
            widths += wish->field[f].width_lo[d] + wish->field[f].width_hi[d];
    if (widths == 0)
        wish->field[0].width_lo[0] = 1;
}

/* A direction that leads nowhere is no direction; each is listed once. */
static void make_directions(const halo_case_t *test, halo_wish_t *wish, uint64_t *state)
{
    int ndims = test->grid.ndims, numbers = 1, count = 0, percent = 10 + below(state, 90);
    for (int d = 0; d < ndims; d++)
        numbers *= 3;
    for (int i = 0; i < numbers; i++) {
        int n = (i * 7 + 3) % numbers; /* in an order that is not the library's; 7 is no multiple of 3 */
        if (n == numbers / 2 || (below(state, 100) >= percent && (count > 0 || i + 2 < numbers)))
            continue;
        for (int d = 0; d < ndims; d++, n /= 3)
            wish->directions[count * ndims + d] = n % 3 - 1;
        count++;
    }
    wish->params.directions = wish->directions;
    wish->params.ndirections = count;
}

static void make_wish(const halo_case_t *test, halo_wish_t *wish, uint64_t *state)
{
    static const selvage_route_t routes[] = {SELVAGE_ROUTE_DEFAULT, SELVAGE_ROUTE_DEFAULT, SELVAGE_ROUTE_PEER,
                                             SELVAGE_ROUTE_SHARED, SELVAGE_ROUTE_STAGED, SELVAGE_ROUTE_DIRECT};
    *wish = (halo_wish_t){.params = {SELVAGE_HALO_PARAMS_INIT, .shape = (selvage_halo_shape_t)below(state, 4)}};
    wish->params.route = routes[below(state, sizeof routes / sizeof routes[0])];
    wish->params.checksum = below(state, 4) ? SELVAGE_CHECKSUM_DEFAULT : SELVAGE_CHECKSUM_OFF;
    wish->params.reverse = below(state, 3) == 0;
    wish->records = below(state, 4) == 0;
    wish->layouts_differ = below(state, 3) == 0;
    wish->exact = true;
    wish->nfields = 1 + below(state, HALO_FIELDS_MAX);
    if (wish->params.shape == SELVAGE_HALO_DIRECTIONS)
        make_directions(test, wish, state);
    for (int f = 0; f < wish->nfields; f++)
        wish->field[f] = make_field(test, wish, state);
    give_some_width(test, wish);
}

void halo_case_make(halo_case_t *test, int size, uint64_t seed)
{
    uint64_t state = seed;
    *test = (halo_case_t){.seed = seed, .size = size};
    make_grid(test, &state);
    test->nparts = 1 + below(&state, HALO_PARTS_MAX);
    for (int w = 0; w < test->nparts; w++)
        make_wish(test, &test->wish[w], &state);
}

void halo_case_print(const halo_case_t *test)
{
    fprintf(stderr, "case %llu: %d ranks, %d dimensions\n", (unsigned long long)test->seed, test->size,
            test->grid.ndims);
    for (int d = 0; d < test->grid.ndims; d++)
        fprintf(stderr, "  dimension %d: %lld cells in %d blocks, %s\n", d, (long long)test->grid.global_extent[d],
                test->grid.blocks[d], test->grid.periodic[d] ? "periodic" : "open");
    for (int w = 0; w < test->nparts; w++) {
        const halo_wish_t *wish = &test->wish[w];
        fprintf(stderr, "  halo %d: shape %d, route %s, checksum %d%s%s%s\n", w, (int)wish->params.shape,
                selvage_route_name(wish->params.route), (int)wish->params.checksum,
                wish->params.reverse ? ", reverse" : "", wish->records ? ", records" : "",
                wish->layouts_differ ? ", layouts differ" : "");
        for (int f = 0; f < wish->nfields; f++)
            fprintf(stderr, "    field %d: %zu bytes, %d components, parity %d in %d, number %d, widths %d+%d %d+%d "
                    "%d+%d %d+%d, stagger %d %d %d %d\n", f, wish->field[f].element_bytes, wish->field[f].components,
                    (int)wish->field[f].parity, wish->field[f].packed_dim, (int)wish->field[f].number,
                    wish->field[f].width_lo[0], wish->field[f].width_hi[0], wish->field[f].width_lo[1],
                    wish->field[f].width_hi[1], wish->field[f].width_lo[2], wish->field[f].width_hi[2],
                    wish->field[f].width_lo[3], wish->field[f].width_hi[3], wish->field[f].stagger[0],
                    wish->field[f].stagger[1], wish->field[f].stagger[2], wish->field[f].stagger[3]);
    }
}

/* --- arrays ------------------------------------------------------------------------------------------------------- */

/* The order and the gaps of an array: of this rank only where layouts differ. */
static uint64_t layout_state(const halo_part_t *part, int f)
{
    uint64_t number = part->test->seed * 8 + (uint64_t)f + 1;
    return part->wish->layouts_differ ? number * 32 + (uint64_t)part->self->rank : number * 32 + 31;
}

static void find_own(const halo_part_t *part, int f, int64_t *own)
{
    selvage_grid_info_t info = {SELVAGE_GRID_INFO_INIT};
    CHECK_STATUS(selvage_grid_describe(part->grid, &info), SELVAGE_SUCCESS);
    for (int d = 0; d < HALO_DIMS; d++) {
        bool last = d < info.ndims && !info.periodic[d] && info.coords[d] == info.blocks[d] - 1;
        own[d] = info.local_extent[d] + (last && part->wish->field[f].stagger[d]);
    }
}

/* Extents and first own cell; with room to spare, or as tight as the defaults. */
static void choose_extents(halo_part_t *part, int f, bool spare, int64_t *extent, uint64_t *state)
{
    selvage_field_t *field = &part->field[f];
    halo_array_t *array = &part->array[f];
    for (int d = 0; d < part->test->grid.ndims; d++) {
        array->first[d] = field->width_lo[d] + (spare ? below(state, 3) : 0);
        extent[d] = array->first[d] + array->own[d] + field->width_hi[d] + (spare ? below(state, 3) : 0);
        bool odd = field->parity && d == field->packed_dim && extent[d] % 2 != 0;
        extent[d] += odd;
        if (spare || odd)
            field->array_extent[d] = extent[d];
        if (spare)
            field->first[d] = array->first[d];
    }
    field->has_first = spare;
}

/* Strides as halo.h gives them where none are set. Returns the bytes of all components. */
static size_t default_strides(halo_part_t *part, int f, const int64_t *places)
{
    selvage_field_t *field = &part->field[f];
    halo_array_t *array = &part->array[f];
    int64_t bytes = (int64_t)field->element_bytes;
    for (int i = 0; i < part->test->grid.ndims; i++) {
        int d = field->order == SELVAGE_ORDER_FIRST ? i : part->test->grid.ndims - 1 - i;
        array->stride[d] = bytes;
        bytes *= places[d];
    }
    array->component_stride = bytes;
    return (size_t)(bytes * (field->components ? field->components : 1));
}

/* A random order of axes (number ndims: components), the packed dimension before the others. */
static void shuffle_axes(const selvage_field_t *field, int ndims, int *axis, uint64_t *state)
{
    for (int i = 0; i <= ndims; i++) {
        int other = below(state, i + 1);
        axis[i] = axis[other];
        axis[other] = i;
    }
    int at = 0;
    while (field->parity && axis[at] == ndims)
        at++;
    for (int i = at; i <= ndims && field->parity; i++)
        if (axis[i] == field->packed_dim) {
            axis[i] = axis[at];
            axis[at] = field->packed_dim;
        }
}

/* Strides in any order, with gaps, some of them negative. Returns the bytes of everything. */
static size_t random_strides(halo_part_t *part, int f, const int64_t *places, uint64_t *state)
{
    selvage_field_t *field = &part->field[f];
    halo_array_t *array = &part->array[f];
    int axis[HALO_DIMS + 1] = {0}, ndims = part->test->grid.ndims;
    int64_t unit = field->number ? 8 : 1, span = (int64_t)field->element_bytes;
    shuffle_axes(field, ndims, axis, state);
    for (int i = 0; i <= ndims; i++) {
        int64_t count = axis[i] == ndims ? (field->components ? field->components : 1) : places[axis[i]];
        int64_t stride = (span + below(state, 2) * below(state, 20) + unit - 1) / unit * unit;
        bool backwards = below(state, 5) == 0;
        if (backwards)
            array->offset += (count - 1) * stride;
        *(axis[i] == ndims ? &array->component_stride : &array->stride[axis[i]]) = backwards ? -stride : stride;
        span = (count - 1) * stride + span;
    }
    memcpy(field->stride_bytes, array->stride, sizeof array->stride);
    field->component_stride_bytes = array->component_stride;
    return (size_t)span;
}

static void choose_layout(halo_part_t *part, int f)
{
    selvage_field_t *field = &part->field[f];
    int64_t extent[HALO_DIMS] = {1, 1, 1, 1};
    uint64_t state = layout_state(part, f);
    int kind = below(&state, 3), ndims = part->test->grid.ndims;
    if (field->parity && kind < 2) /* packed_dim is the fastest one then */
        field->order = field->packed_dim == 0 && ndims > 1 ? SELVAGE_ORDER_FIRST : SELVAGE_ORDER_DEFAULT;
    else
        field->order = (selvage_order_t)below(&state, 2);
    if (field->parity && field->packed_dim > 0 && field->packed_dim < ndims - 1)
        kind = 2;
    choose_extents(part, f, kind > 0, extent, &state);
    if (field->parity)
        extent[field->packed_dim] /= 2;
    part->array[f].bytes = kind < 2 ? default_strides(part, f, extent) : random_strides(part, f, extent, &state);
    part->array[f].offset += field->number ? 8 * below(&state, 3) : below(&state, 20);
    part->array[f].bytes += (size_t)field->element_bytes + 64;
}

/* All fields side by side in records, which lie in one array wide enough for each. */
static void choose_records(halo_part_t *part)
{
    int64_t extent[HALO_DIMS] = {0}, first[HALO_DIMS] = {0}, stride[HALO_DIMS] = {0}, bytes = 0, at = 0;
    int ndims = part->test->grid.ndims;
    for (int f = 0; f < part->wish->nfields; f++) {
        const selvage_field_t *field = &part->field[f];
        bytes += (int64_t)field->element_bytes * (field->components ? field->components : 1);
        for (int d = 0; d < ndims; d++) {
            int64_t end = 6 + part->array[f].own[d];
            first[d] = 3;
            extent[d] = end > extent[d] ? end : extent[d];
        }
    }
    int64_t record = (bytes + 7) / 8 * 8;
    int64_t pitch = record;
    for (int d = ndims - 1; d >= 0; d--) {
        stride[d] = pitch;
        pitch = pitch * extent[d] + 8 * d; /* rows may be padded to what is no multiple of a record */
    }
    for (int f = 0; f < part->wish->nfields; f++) {
        selvage_field_t *field = &part->field[f];
        halo_array_t *array = &part->array[f];
        field->has_first = 1;
        memcpy(field->array_extent, extent, sizeof extent);
        memcpy(field->first, first, sizeof first);
        memcpy(array->first, first, sizeof first);
        memcpy(field->stride_bytes, stride, sizeof stride);
        memcpy(array->stride, stride, sizeof stride);
        field->component_stride_bytes = array->component_stride = (ptrdiff_t)field->element_bytes;
        array->offset = at;
        array->bytes = f == 0 ? (size_t)pitch + 64 : 0;
        at += (int64_t)field->element_bytes * (field->components ? field->components : 1);
    }
}

static bool is_aligned(const halo_wish_t *wish)
{
    size_t bits = 0;
    for (int f = 0; f < wish->nfields; f++)
        bits |= wish->field[f].number ? wish->field[f].element_bytes : 0;
    return bits % 8 == 0;
}

static void allocate(halo_part_t *part, int f, int set)
{
    halo_array_t *array = &part->array[f];
    void *memory;
    if (array->bytes == 0) {
        array->memory[set] = part->array[0].memory[set];
        array->expected[set] = part->array[0].expected[set];
        return;
    }
    CHECK_STATUS(selvage_device_malloc(part->self->dev, array->bytes, &memory), SELVAGE_SUCCESS);
    array->memory[set] = memory;
    array->expected[set] = malloc(array->bytes);
}

void halo_part_open(halo_part_t *part, local_rank_t *self, const halo_case_t *test, int w, const selvage_grid_t *grid)
{
    *part = (halo_part_t){.self = self, .test = test, .wish = &test->wish[w], .grid = grid};
    memcpy(part->field, part->wish->field, sizeof part->field);
    bool records = part->wish->records && is_aligned(part->wish);
    for (int f = 0; f < part->wish->nfields; f++) {
        find_own(part, f, part->array[f].own);
        if (!records)
            choose_layout(part, f);
    }
    if (records)
        choose_records(part);
    for (int f = 0; f < part->wish->nfields; f++)
        for (int set = 0; set < HALO_SETS; set++)
            allocate(part, f, set);
    for (int f = 0; f < part->wish->nfields; f++)
        part->field[f].data = part->array[f].memory[0] + part->array[f].offset;
}

void halo_part_close(halo_part_t *part)
{
    for (int f = 0; f < part->wish->nfields; f++)
        for (int set = 0; set < HALO_SETS && part->array[f].bytes > 0; set++) {
            selvage_device_free(part->self->dev, part->array[f].memory[set]);
            free(part->array[f].expected[set]);
        }
}

void halo_part_data(const halo_part_t *part, int set, void **data)
{
    for (int f = 0; f < part->wish->nfields; f++)
        data[f] = part->array[f].memory[set] + part->array[f].offset;
}
