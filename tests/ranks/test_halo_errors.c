/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What halos refuse: every argument that can be wrong, by the name that the error gives it; ranks that differ, by the
 * field and the member; and calls at the wrong time. The rank that made the mistake says so, the others hear of it and
 * do not wait, and a right call works at once after it. A second part lets allocations and device calls fail.
 */
#include <stdlib.h>

#include "fixtures/check.h"
#include "fixtures/local_ranks.h"
#include <selvage/halo.h>

enum { RANKS = 3, FIELDS = 2, ARRAY_BYTES = 1 << 16, ALL = -1 };

/* A call that is right, until somebody spoils it: two fields on a periodic grid of 12 by 8 cells, in 3 by 1 blocks. */
typedef struct setup {
    local_rank_t *self;
    selvage_grid_t *grid;
    uint8_t *memory;
    selvage_halo_params_t params;
    const selvage_halo_params_t *params_given;
    selvage_field_t field[FIELDS];
    const selvage_field_t *fields_given;
    int nfields;
    selvage_halo_t *halo, **halo_out;
} setup_t;

static const int nowhere[] = {1, 0, 0, 0}, too_far[] = {1, 0, 0, 2}, twice[] = {1, 0, 1, 0};

#define SPOIL(name, ...)                  \
    static void name(setup_t *s)          \
    {                                     \
        selvage_field_t *f = &s->field[1]; \
        selvage_halo_params_t *p = &s->params; \
        (void)f;                          \
        (void)p;                          \
        __VA_ARGS__;                      \
    }

static void list(setup_t *s, const int *directions, int count)
{
    s->params.shape = SELVAGE_HALO_DIRECTIONS;
    s->params.directions = directions;
    s->params.ndirections = count;
}

SPOIL(halo_out, s->halo_out = NULL)
SPOIL(no_fields, s->fields_given = NULL)
SPOIL(nfields, s->nfields = 0)
SPOIL(params_size, p->struct_size = 3)
SPOIL(field_size, s->field[0].struct_size = 0)
SPOIL(route, p->route = (selvage_route_t)17)
SPOIL(checksum, p->checksum = (selvage_checksum_t)-2)
SPOIL(shape, p->shape = (selvage_halo_shape_t)4)
SPOIL(no_list, list(s, NULL, 2))
SPOIL(empty_list, list(s, nowhere, 0))
SPOIL(leads_nowhere, list(s, nowhere, 2))
SPOIL(leads_too_far, list(s, too_far, 2))
SPOIL(listed_twice, list(s, twice, 2))
SPOIL(list_unused, p->directions = twice; p->ndirections = 1)
SPOIL(data, f->data = NULL)
SPOIL(element_bytes, f->element_bytes = 0)
SPOIL(order, f->order = (selvage_order_t)2)
SPOIL(parity, f->parity = (selvage_parity_t)3)
SPOIL(number, f->number = (selvage_number_t)5)
SPOIL(no_number, p->reverse = 1; f->number = SELVAGE_NUMBER_NONE)
SPOIL(number_bytes, f->number = SELVAGE_NUMBER_INT64; f->element_bytes = 12)
SPOIL(number_data, f->data = (uint8_t *)f->data + 4; f->number = SELVAGE_NUMBER_FLOAT64)
SPOIL(components, f->components = -1)
SPOIL(width_lo, f->width_lo[1] = -1)
SPOIL(width_hi, f->width_hi[0] = -2)
SPOIL(no_width, for (int i = 0; i < FIELDS; i++) for (int d = 0; d < 2; d++)
                    s->field[i].width_lo[d] = s->field[i].width_hi[d] = 0)
SPOIL(wide, f->width_lo[0] = 5)
SPOIL(wide_self, f->width_hi[1] = 9)
SPOIL(stagger, f->stagger[1] = 2)
SPOIL(extent, f->array_extent[1] = -10)
SPOIL(extent_tight, f->array_extent[1] = 9)
SPOIL(extent_vast, f->array_extent[0] = INT64_MAX / 16; f->array_extent[1] = 1000)
SPOIL(first_negative, f->has_first = 1; f->first[0] = -1; f->first[1] = 1)
SPOIL(first_tight, f->has_first = 1; f->first[0] = 1; f->first[1] = 0)
SPOIL(first_far, f->has_first = 1; f->first[0] = 1; f->first[1] = 2; f->array_extent[1] = 10)
SPOIL(stride_zero, f->stride_bytes[0] = 80)
SPOIL(stride_small, f->stride_bytes[0] = 64; f->stride_bytes[1] = 8)
SPOIL(stride_vast, f->stride_bytes[0] = PTRDIFF_MAX; f->stride_bytes[1] = 8)
SPOIL(component_small, f->components = 2; f->component_stride_bytes = 16)
SPOIL(component_vast, f->components = 4; f->component_stride_bytes = PTRDIFF_MAX / 2)
SPOIL(packed_dim, f->parity = SELVAGE_PARITY_EVEN; f->packed_dim = 2)
SPOIL(packed_slow, f->parity = SELVAGE_PARITY_EVEN; f->packed_dim = 0)
SPOIL(packed_strides, f->parity = SELVAGE_PARITY_ODD; f->packed_dim = 0; f->stride_bytes[0] = 80;
      f->stride_bytes[1] = 8)
SPOIL(packed_odd, f->parity = SELVAGE_PARITY_EVEN; f->packed_dim = 1; f->array_extent[1] = 11)
SPOIL(same_data, f->data = s->field[0].data)
SPOIL(halo_overlaps, f->data = (uint8_t *)s->field[0].data + 472)
SPOIL(reaches_in, s->field[0].stride_bytes[1] = 16; s->field[0].stride_bytes[0] = 160; f->stride_bytes[1] = 24;
      f->stride_bytes[0] = 240; f->data = (uint8_t *)s->field[0].data + 8)
SPOIL(freed, f->data = (void *)(uintptr_t)4096)

/* What is right, but not the same as on the other ranks. */
SPOIL(other_bytes, f->element_bytes = 16)
SPOIL(other_width, f->width_lo[1] = 0)
SPOIL(other_width_hi, s->field[0].width_hi[0] = 2)
SPOIL(other_stagger, f->stagger[0] = 1)
SPOIL(other_components, s->field[0].components = 2)
SPOIL(other_parity, f->parity = SELVAGE_PARITY_ODD; f->packed_dim = 1)
SPOIL(other_number, f->number = SELVAGE_NUMBER_INT64)
SPOIL(other_count, s->nfields = 1)
SPOIL(other_shape, p->shape = SELVAGE_HALO_FULL)
SPOIL(other_list, list(s, twice, 1))
SPOIL(other_way, p->reverse = 1)
SPOIL(other_checksum, p->checksum = SELVAGE_CHECKSUM_OFF)

typedef struct refusal {
    void (*spoil)(setup_t *s);
    const char *detail;
} refusal_t;

static const refusal_t refusals[] = {
    {halo_out, "halo_out is NULL"},
    {no_fields, "fields is NULL"},
    {nfields, "nfields is 0"},
    {params_size, "params: struct_size is 3"},
    {field_size, "fields[0]: struct_size is 0"},
    {route, "params: route is 17"},
    {checksum, "params: checksum is -2"},
    {shape, "params: shape is 4"},
    {no_list, "directions is NULL"},
    {empty_list, "ndirections is 0"},
    {leads_nowhere, "directions[1] leads nowhere"},
    {leads_too_far, "number 1 of directions[1] is 2"},
    {listed_twice, "directions[1] is listed before"},
    {list_unused, "shape is not SELVAGE_HALO_DIRECTIONS"},
    {data, "fields[1]: data is NULL"},
    {element_bytes, "fields[1]: element_bytes is 0"},
    {order, "fields[1]: order is 2"},
    {parity, "fields[1]: parity is 3"},
    {number, "fields[1]: number is 5"},
    {no_number, "fields[1]: number is not given"},
    {number_bytes, "fields[1]: element_bytes is 12, no multiple"},
    {number_data, "fields[1]: data or a stride is no multiple of its numbers' 8 bytes"},
    {components, "fields[1]: components is -1"},
    {width_lo, "fields[1]: width_lo[1] is -1"},
    {width_hi, "fields[1]: width_hi[0] is -2"},
    {no_width, "fields: width_lo and width_hi are 0 in every dimension of every field"},
    {wide, "fields[1]: width_lo[0] is 5, wider than the 4 cells of block 0 of dimension 0"},
    {wide_self, "fields[1]: width_hi[1] is 9, wider than the 8 cells of block 0 of dimension 1"},
    {stagger, "fields[1]: stagger[1] is 2"},
    {extent, "fields[1]: array_extent[1] is -10"},
    {extent_tight, "fields[1]: array_extent[1] is 9; 1 cells before the first own one, 8 own cells and width_hi[1]"},
    {extent_vast, "fields[1]: array_extent: an array of more bytes"},
    {first_negative, "fields[1]: first[0] is -1, which leaves no room for width_lo[0]"},
    {first_tight, "fields[1]: first[1] is 0, which leaves no room for width_lo[1]"},
    {first_far, "fields[1]: array_extent[1] is 10; 2 cells before"},
    {stride_zero, "fields[1]: stride_bytes[1] is 0: elements would overlap"},
    {stride_small, "fields[1]: stride_bytes[0] is 64: elements would overlap, faster ones span 80"},
    {stride_vast, "fields[1]: stride_bytes: an array of more bytes"},
    {component_small, "fields[1]: component_stride_bytes is 16: elements would overlap"},
    {component_vast, "fields[1]: component_stride_bytes is "},
    {packed_dim, "fields[1]: packed_dim is 2; wanted 0..1"},
    {packed_slow, "fields[1]: packed_dim is 0; wanted 1, the fastest dimension"},
    {packed_strides, "fields[1]: packed_dim is 0, but stride_bytes[1] is smaller"},
    {packed_odd, "fields[1]: array_extent[1] is 11; wanted an even number"},
    {same_data, "fields[1]: data: own cells and halo overlap with those of fields[0]"},
    {halo_overlaps, "fields[1]: data: own cells and halo overlap with those of fields[0]"},
    {reaches_in, "fields[1]: data: own cells and halo overlap with those of fields[0]"},
    {freed, "fields[1]: data: "}};

static const refusal_t mismatches[] = {
    {other_bytes, "ranks do not agree on fields[1]: element_bytes"},
    {other_width, "ranks do not agree on fields[1]: width_lo[1]"},
    {other_width_hi, "ranks do not agree on fields[0]: width_hi[0]"},
    {other_stagger, "ranks do not agree on fields[1]: stagger[0]"},
    {other_components, "ranks do not agree on fields[0]: components"},
    {other_parity, "ranks do not agree on fields[1]: parity"},
    {other_number, "ranks do not agree on fields[1]: number"},
    {other_count, "ranks do not agree on nfields"},
    {other_shape, "ranks do not agree on params: shape or directions"},
    {other_list, "ranks do not agree on params: shape or directions"},
    {other_way, "ranks do not agree on params: reverse"},
    {other_checksum, "another checksum policy"}};

static void check_detail(const char *wanted, const char *place)
{
    bool found = strstr(selvage_error_detail(), wanted) != NULL;
    if (!found)
        fprintf(stderr, "%s: wanted \"%s\" in \"%s\"\n", place, wanted, selvage_error_detail());
    CHECK(found);
}

static void make_setup(setup_t *s, local_rank_t *self, selvage_grid_t *grid, uint8_t *memory)
{
    *s = (setup_t){.self = self, .grid = grid, .memory = memory, .nfields = FIELDS, .halo_out = &s->halo};
    s->params = (selvage_halo_params_t){SELVAGE_HALO_PARAMS_INIT};
    s->params_given = &s->params;
    s->fields_given = s->field;
    for (int i = 0; i < FIELDS; i++)
        s->field[i] = (selvage_field_t){SELVAGE_FIELD_INIT, .data = memory + i * (ARRAY_BYTES / FIELDS),
                                        .element_bytes = 8, .width_lo = {1, 1}, .width_hi = {1, 1},
                                        .number = SELVAGE_NUMBER_FLOAT64};
}

static selvage_status_t create(setup_t *s)
{
    return selvage_halo_create(s->grid, s->params_given, s->fields_given, s->nfields, s->halo_out);
}

static selvage_grid_t *make_grid(local_rank_t *self, int64_t first_extent, int periodic)
{
    selvage_grid_params_t params = {SELVAGE_GRID_PARAMS_INIT, .ndims = 2, .global_extent = {first_extent, 8},
                                    .periodic = {periodic, periodic}, .blocks = {self->size, 1}};
    selvage_grid_t *grid = NULL;
    CHECK_STATUS(selvage_grid_create(self->comm, &params, &grid), SELVAGE_SUCCESS);
    return grid;
}

static uint8_t *allocate(local_rank_t *self)
{
    void *memory = NULL;
    CHECK_STATUS(selvage_device_malloc(self->dev, ARRAY_BYTES, &memory), SELVAGE_SUCCESS);
    memset(memory, 0, ARRAY_BYTES);
    return memory;
}

/* After every refusal a right call works. */
static void check_alive(local_rank_t *self, selvage_grid_t *grid, uint8_t *memory)
{
    setup_t s;
    make_setup(&s, self, grid, memory);
    CHECK_STATUS(create(&s), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_exchange(s.halo, NULL), SELVAGE_SUCCESS);
    selvage_halo_destroy(s.halo);
}

/* One mistake, made by one rank or by all. */
static void refuse(local_rank_t *self, selvage_grid_t *grid, uint8_t *memory, const refusal_t *refusal, int who)
{
    setup_t s;
    char failed[64];
    make_setup(&s, self, grid, memory);
    if (who == ALL || who == self->rank)
        refusal->spoil(&s);
    CHECK_STATUS(create(&s), SELVAGE_ERR_ARGUMENT);
    snprintf(failed, sizeof failed, "failed on rank %d", who);
    check_detail(who == ALL || who == self->rank ? refusal->detail : failed, refusal->detail);
    CHECK(!s.halo);
}

static void refuse_all(local_rank_t *self)
{
    selvage_grid_t *grid = make_grid(self, 12, 1);
    uint8_t *memory = allocate(self);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0] && grid; i++) {
        refuse(self, grid, memory, &refusals[i], (int)i % RANKS);
        if (i % 8 == 0)
            refuse(self, grid, memory, &refusals[i], ALL);
    }
    check_alive(self, grid, memory);
    selvage_grid_destroy(grid);
    selvage_device_free(self->dev, memory);
}

static void refuse_mismatches(local_rank_t *self)
{
    selvage_grid_t *grid = make_grid(self, 12, 1);
    uint8_t *memory = allocate(self);
    for (size_t i = 0; i < sizeof mismatches / sizeof mismatches[0] && grid; i++) {
        setup_t s;
        make_setup(&s, self, grid, memory);
        if (self->rank == (int)i % RANKS)
            mismatches[i].spoil(&s);
        CHECK_STATUS(create(&s), SELVAGE_ERR_MISMATCH);
        if (mismatches[i].spoil != other_checksum) { /* which commit finds, by rank */
            char rank[32];
            const int odd = (int)i % RANKS;
            snprintf(rank, sizeof rank, "rank %d", self->rank != odd ? odd : odd == 0 ? 1 : 0);
            check_detail(mismatches[i].detail, "mismatch");
            check_detail(rank, "mismatch");
        }
        CHECK(!s.halo);
    }
    check_alive(self, grid, memory);
    selvage_grid_destroy(grid);
    selvage_device_free(self->dev, memory);
}

/* Two grids of the same shape but for one extent: ranks that take one and ranks that take the other. */
static void refuse_grids(local_rank_t *self)
{
    selvage_grid_t *grid[2] = {make_grid(self, 12, 1), make_grid(self, 13, 1)};
    uint8_t *memory = allocate(self);
    setup_t s;
    make_setup(&s, self, grid[self->rank == 1], memory);
    CHECK_STATUS(create(&s), SELVAGE_ERR_MISMATCH);
    check_detail("ranks do not agree on grid", "grid");
    for (int i = 0; i < 2; i++)
        selvage_grid_destroy(grid[i]);
    selvage_device_free(self->dev, memory);
}

/* The thinnest block decides, on every rank alike; at open ends nobody is in need of more. */
static void refuse_thin(local_rank_t *self)
{
    selvage_grid_t *grid = make_grid(self, 13, 0); /* 5, 4 and 4 cells */
    uint8_t *memory = allocate(self);
    setup_t s;
    make_setup(&s, self, grid, memory);
    s.field[0].width_lo[0] = 5;
    CHECK_STATUS(create(&s), SELVAGE_ERR_ARGUMENT);
    check_detail("fields[0]: width_lo[0] is 5, wider than the 4 cells of block 1 of dimension 0", "thin");
    make_setup(&s, self, grid, memory);
    s.field[0].width_hi[1] = 20; /* one block, and nothing beyond it */
    CHECK_STATUS(create(&s), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_exchange(s.halo, NULL), SELVAGE_SUCCESS);
    selvage_halo_destroy(s.halo);
    selvage_grid_destroy(grid);
    grid = make_grid(self, 13, 1);
    make_setup(&s, self, grid, memory);
    s.field[1].parity = SELVAGE_PARITY_EVEN;
    s.field[1].packed_dim = 1;
    CHECK_STATUS(create(&s), SELVAGE_ERR_ARGUMENT);
    check_detail("fields[1]: parity: the grid has 13 cells in dimension 0, which is periodic", "parity");
    selvage_grid_destroy(grid);
    selvage_device_free(self->dev, memory);
}

static void refuse_nulls(local_rank_t *self)
{
    setup_t s;
    selvage_halo_info_t info = {SELVAGE_HALO_INFO_INIT};
    make_setup(&s, self, NULL, NULL);
    CHECK_STATUS(create(&s), SELVAGE_ERR_ARGUMENT);
    check_detail("grid is NULL", "create");
    CHECK_STATUS(selvage_halo_start(NULL, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_halo_test(NULL, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_halo_wait(NULL, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_halo_enqueue_wait(NULL, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_halo_exchange(NULL, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_halo_rebind(NULL, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_halo_describe(NULL, &info), SELVAGE_ERR_ARGUMENT);
    check_detail("halo is NULL", "describe");
    selvage_halo_destroy(NULL);
}

/* Arrays that take another's place are held to the same, and what was refused changes nothing. */
static void refuse_rebind(setup_t *s)
{
    void *good[FIELDS] = {s->field[0].data, s->field[1].data};
    const struct {
        void *data[FIELDS];
        const char *detail;
    } bad[] = {{{good[0], NULL}, "data[1] is NULL"},
               {{good[0], (uint8_t *)good[1] + 4}, "data[1]: "},
               {{good[0], (uint8_t *)good[0] + 16}, "overlap with those of fields[0]"},
               {{good[0], (void *)(uintptr_t)4096}, "fields[1]: data: "}};
    CHECK_STATUS(selvage_halo_rebind(s->halo, NULL), SELVAGE_ERR_ARGUMENT);
    check_detail("data is NULL", "rebind");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_STATUS(selvage_halo_rebind(s->halo, bad[i].data), SELVAGE_ERR_ARGUMENT);
        check_detail(bad[i].detail, "rebind");
        CHECK_STATUS(selvage_halo_exchange(s->halo, NULL), SELVAGE_SUCCESS);
    }
    CHECK_STATUS(selvage_halo_rebind(s->halo, good), SELVAGE_SUCCESS);
}

/* Arrays that were good once are looked at again after anything was freed. */
static void refuse_freed(setup_t *s, local_rank_t *self)
{
    void *other;
    CHECK_STATUS(selvage_device_malloc(self->dev, ARRAY_BYTES, &other), SELVAGE_SUCCESS);
    void *here[FIELDS] = {s->field[0].data, s->field[1].data}, *there[FIELDS] = {other, s->field[1].data};
    CHECK_STATUS(selvage_halo_rebind(s->halo, there), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_exchange(s->halo, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_rebind(s->halo, here), SELVAGE_SUCCESS);
    selvage_device_free(self->dev, other);
    CHECK_STATUS(selvage_halo_exchange(s->halo, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_rebind(s->halo, there), SELVAGE_ERR_ARGUMENT);
    check_detail("fields[0]: data: ", "rebind");
    CHECK_STATUS(selvage_halo_exchange(s->halo, NULL), SELVAGE_SUCCESS);
}

static void refuse_states(local_rank_t *self)
{
    selvage_grid_t *grid = make_grid(self, 12, 1);
    uint8_t *memory = allocate(self);
    selvage_halo_info_t info = {.struct_size = 2};
    setup_t s;
    make_setup(&s, self, grid, memory);
    CHECK_STATUS(create(&s), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_wait(s.halo, NULL), SELVAGE_ERR_STATE);
    CHECK_STATUS(selvage_halo_test(s.halo, NULL), SELVAGE_ERR_STATE);
    CHECK_STATUS(selvage_halo_start(s.halo, NULL), SELVAGE_SUCCESS);
    if (selvage_halo_start(s.halo, NULL) != SELVAGE_SUCCESS) { /* it may be complete already */
        void *same[FIELDS] = {s.field[0].data, s.field[1].data};
        CHECK_STATUS(selvage_halo_rebind(s.halo, same), SELVAGE_ERR_STATE);
    }
    CHECK_STATUS(selvage_halo_wait(s.halo, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_describe(s.halo, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_halo_describe(s.halo, &info), SELVAGE_ERR_ARGUMENT);
    check_detail("info: struct_size is 2", "describe");
    refuse_rebind(&s);
    refuse_freed(&s, self);
    selvage_halo_destroy(s.halo);
    selvage_grid_destroy(grid);
    selvage_device_free(self->dev, memory);
}

/* The Nth call of a kind fails on one rank: all ranks get an error or none, and a halo that was made works. */
static void survive(local_rank_t *self)
{
    setup_t s;
    selvage_grid_t *grid;
    if (!self->comm)
        return;
    selvage_grid_params_t params = {SELVAGE_GRID_PARAMS_INIT, .ndims = 2, .global_extent = {12, 8},
                                    .periodic = {1, 1}, .blocks = {self->size, 1}};
    void *memory;
    if (selvage_device_malloc(self->dev, ARRAY_BYTES, &memory) != SELVAGE_SUCCESS)
        return;
    if (selvage_grid_create(self->comm, &params, &grid) == SELVAGE_SUCCESS) {
        make_setup(&s, self, grid, memory);
        if (create(&s) == SELVAGE_SUCCESS)
            (void)selvage_halo_exchange(s.halo, NULL);
        else
            CHECK(selvage_error_detail()[0] != '\0');
        selvage_halo_destroy(s.halo);
        selvage_grid_destroy(grid);
    }
    selvage_device_free(self->dev, memory);
}

static void run(void (*body)(local_rank_t *), bool faulty)
{
    local_ranks_run(&(local_run_t){.size = RANKS, .body = body, .log_expected = true, .create_may_fail = faulty,
                                   .may_set_aside = faulty});
}

static void test_failures(void)
{
    char list[96];
    for (int n = 1; n <= 90; n++) {
        snprintf(list, sizeof list, "FAULT=alloc=%d,rank=1 TIMEOUT_S=5", n);
        local_ranks_env(list);
        run(survive, true);
    }
}

int main(void)
{
    static const char *const modes[] = {"", "PROGRESS=thread"};
    for (int m = 0; m < 2; m++) {
        local_ranks_mode(modes[m]);
        local_ranks_env("");
        run(refuse_nulls, false);
        run(refuse_all, false);
        run(refuse_mismatches, false);
        run(refuse_grids, false);
        run(refuse_thin, false);
        run(refuse_states, false);
    }
    local_ranks_mode("");
    test_failures();
    return check_report("test_halo_errors");
}
