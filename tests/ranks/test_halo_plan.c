/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What halos plan, without any rank that runs: small ones against what is written down here, and random ones by what
 * must hold for every plan. Both ends of a packet list the same cells of the domain; every halo cell that has an owner
 * in a direction that takes part is received once, and no other. Overlap of fields is compared with their bytes, one by
 * one. Usage: test_halo_plan [SEED]
 */
#include <stdlib.h>

#include "base/base_memory.h"
#include "fixtures/check.h"
#include "grid/halo_plan.h"
#include "fixtures/halo_case.h"

/* --- grids without a communicator --------------------------------------------------------------------------------- */

typedef struct plain_grid {
    selvage_grid_t grid;
    int64_t start[HALO_DIMS][HALO_RANKS_MAX + 1];
    int rank_of_block[HALO_RANKS_MAX], block_of_rank[HALO_RANKS_MAX];
} plain_grid_t;

static void plain_extents(plain_grid_t *plain, const selvage_grid_params_t *p, int d)
{
    int64_t at = 0, blocks = p->blocks[d];
    for (int c = 0; c < blocks; c++) {
        plain->start[d][c] = at;
        at += p->split[d] ? p->split[d][c] : p->global_extent[d] / blocks + (c < p->global_extent[d] % blocks);
    }
    plain->start[d][blocks] = at;
}

/* The grid as one rank would have it. */
static void plain_make(plain_grid_t *plain, const selvage_grid_params_t *p, int rank, int size)
{
    selvage_grid_t *grid = &plain->grid;
    *plain = (plain_grid_t){.grid = {.ndims = p->ndims}};
    for (int b = 0; b < size; b++) {
        plain->rank_of_block[b] = p->ranks ? p->ranks[b] : b;
        plain->block_of_rank[plain->rank_of_block[b]] = b;
    }
    grid->rank_of_block = plain->rank_of_block;
    grid->block_of_rank = plain->block_of_rank;
    for (int d = 0; d < HALO_DIMS; d++) {
        grid->global[d] = d < p->ndims ? p->global_extent[d] : 1;
        grid->periodic[d] = d < p->ndims && p->periodic[d];
        grid->blocks[d] = d < p->ndims ? p->blocks[d] : 1;
        grid->local[d] = 1;
        grid->start[d] = plain->start[d];
        if (d < p->ndims)
            plain_extents(plain, p, d);
    }
    sv_grid_coords(grid, rank, grid->coords);
    for (int d = 0; d < p->ndims; d++) {
        grid->local[d] = sv_grid_extent(grid, d, grid->coords[d]);
        grid->first[d] = grid->start[d][grid->coords[d]];
    }
}

/* --- small plans, written down ------------------------------------------------------------------------------------ */

static selvage_status_t plan_one(const plain_grid_t *plain, const selvage_field_t *field,
                                 const selvage_halo_params_t *params, bool receives, sv_halo_way_t *way)
{
    sv_halo_directions_t directions;
    sv_halo_field_t resolved;
    selvage_status_t status = sv_halo_directions(params, plain->grid.ndims, &directions);
    if (status == SELVAGE_SUCCESS)
        status = sv_halo_resolve(&plain->grid, field, 0, &resolved);
    if (status == SELVAGE_SUCCESS)
        status = sv_halo_plan(&plain->grid, &resolved, 1, &directions, params->reverse, receives, way);
    CHECK_STATUS(status, SELVAGE_SUCCESS);
    return status;
}

static void check_box(const sv_halo_way_t *way, uint32_t piece, int64_t first0, int64_t end0, int64_t first1,
                      int64_t end1)
{
    const selvage_box_t *box = &way->piece[piece].cells;
    CHECK_EQ(box->first[0], first0);
    CHECK_EQ(box->end[0], end0);
    CHECK_EQ(box->first[1], first1);
    CHECK_EQ(box->end[1], end1);
}

/* Ten cells in three open blocks of 4, 3 and 3; one halo cell below and two above. The one in the middle. */
static void test_line(void)
{
    uint8_t byte;
    selvage_grid_params_t p = {SELVAGE_GRID_PARAMS_INIT, .ndims = 1, .global_extent = {10}, .blocks = {3}};
    selvage_field_t field = {SELVAGE_FIELD_INIT, .data = &byte, .element_bytes = 1, .width_lo = {1}, .width_hi = {2}};
    selvage_halo_params_t params = {SELVAGE_HALO_PARAMS_INIT};
    sv_halo_way_t way;
    plain_grid_t plain;
    plain_make(&plain, &p, 1, 3);
    for (int reverse = 0; reverse < 2; reverse++) {
        params.reverse = reverse;
        if (plan_one(&plain, &field, &params, reverse, &way) == SELVAGE_SUCCESS) { /* own cells, sent or received */
            CHECK_EQ(way.npackets, 2);
            CHECK_EQ(way.packet[0].rank, reverse ? 2 : 0); /* direction -1 comes first, whoever is there */
            CHECK_EQ(way.packet[1].rank, reverse ? 0 : 2);
            check_box(&way, reverse ? 1 : 0, 0, 2, 0, 1);
            check_box(&way, reverse ? 0 : 1, 2, 3, 0, 1);
            sv_halo_way_free(&way);
        }
        if (plan_one(&plain, &field, &params, !reverse, &way) == SELVAGE_SUCCESS) { /* halo cells */
            CHECK_EQ(way.npackets, 2);
            check_box(&way, reverse ? 0 : 1, -1, 0, 0, 1);
            check_box(&way, reverse ? 1 : 0, 3, 5, 0, 1);
            sv_halo_way_free(&way);
        }
    }
    plain_make(&plain, &p, 2, 3);
    if (plan_one(&plain, &field, &params, true, &way) == SELVAGE_SUCCESS) { /* the uppermost has one neighbour */
        CHECK_EQ(way.npackets, 1);
        CHECK_EQ(way.packet[0].rank, 1);
        sv_halo_way_free(&way);
    }
}

/* Two periodic blocks by one: the other block on both sides, oneself above and below, and both at the corners. */
static void test_torus(void)
{
    uint8_t byte;
    selvage_grid_params_t p = {SELVAGE_GRID_PARAMS_INIT, .ndims = 2, .global_extent = {6, 4}, .blocks = {2, 1},
                               .periodic = {1, 1}};
    selvage_field_t field = {SELVAGE_FIELD_INIT, .data = &byte, .element_bytes = 1, .width_lo = {1, 1},
                             .width_hi = {1, 1}};
    selvage_halo_params_t params = {SELVAGE_HALO_PARAMS_INIT, .shape = SELVAGE_HALO_FULL};
    sv_halo_way_t way;
    plain_grid_t plain;
    plain_make(&plain, &p, 0, 2);
    if (plan_one(&plain, &field, &params, true, &way) != SELVAGE_SUCCESS)
        return;
    CHECK_EQ(way.npackets, 2);
    CHECK_EQ(way.packet[0].rank, 1);
    CHECK_EQ(way.packet[0].npieces, 6);
    CHECK_EQ(way.packet[1].rank, 0);
    CHECK_EQ(way.packet[1].npieces, 2);
    check_box(&way, 0, 3, 4, 4, 5);  /* direction -1 -1 fills the upper corner */
    check_box(&way, 1, 3, 4, 0, 4);  /* -1  0 */
    check_box(&way, 2, 3, 4, -1, 0); /* -1 +1 */
    check_box(&way, 3, -1, 0, 4, 5); /* +1 -1 */
    check_box(&way, 6, 0, 3, 4, 5);  /*  0 -1, from itself */
    check_box(&way, 7, 0, 3, -1, 0); /*  0 +1 */
    sv_halo_way_free(&way);
}

/* Faces of an open dimension: the last block has one more, and sends from below it. */
static void test_stagger(void)
{
    uint8_t byte;
    selvage_grid_params_t p = {SELVAGE_GRID_PARAMS_INIT, .ndims = 1, .global_extent = {6}, .blocks = {2}};
    selvage_field_t field = {SELVAGE_FIELD_INIT, .data = &byte, .element_bytes = 1, .width_lo = {2}, .width_hi = {1},
                             .stagger = {1}};
    selvage_halo_params_t params = {SELVAGE_HALO_PARAMS_INIT};
    sv_halo_field_t resolved;
    sv_halo_way_t way;
    plain_grid_t plain;
    for (int rank = 0; rank < 2; rank++) {
        plain_make(&plain, &p, rank, 2);
        CHECK_STATUS(sv_halo_resolve(&plain.grid, &field, 0, &resolved), SELVAGE_SUCCESS);
        CHECK_EQ(resolved.own[0], 3 + rank);
        if (plan_one(&plain, &field, &params, true, &way) != SELVAGE_SUCCESS)
            continue;
        CHECK_EQ(way.npackets, 1);
        check_box(&way, 0, rank ? -2 : 3, rank ? 0 : 4, 0, 1);
        sv_halo_way_free(&way);
    }
}

/* Strides by order, components after each other, half as many places in the packed dimension. */
static void test_defaults(void)
{
    uint8_t byte;
    selvage_grid_params_t p = {SELVAGE_GRID_PARAMS_INIT, .ndims = 3, .global_extent = {4, 5, 6}, .blocks = {1, 1, 1}};
    selvage_field_t field = {SELVAGE_FIELD_INIT, .data = &byte, .element_bytes = 3, .width_lo = {1, 0, 1},
                             .width_hi = {1, 2, 1}, .components = 2};
    sv_halo_field_t r;
    plain_grid_t plain;
    plain_make(&plain, &p, 0, 1);
    CHECK_STATUS(sv_halo_resolve(&plain.grid, &field, 0, &r), SELVAGE_SUCCESS);
    CHECK(r.stride[2] == 3 && r.stride[1] == 24 && r.stride[0] == 168 && r.component_stride == 1008);
    CHECK(r.first[0] == 1 && r.first[1] == 0 && r.first[2] == 1);
    CHECK(r.axis[0] == 2 && r.axis[1] == 1 && r.axis[2] == 0 && r.axis[3] == 3);
    field.order = SELVAGE_ORDER_FIRST;
    field.parity = SELVAGE_PARITY_ODD;
    CHECK_STATUS(sv_halo_resolve(&plain.grid, &field, 0, &r), SELVAGE_SUCCESS);
    CHECK(r.stride[0] == 3 && r.stride[1] == 9 && r.stride[2] == 63 && r.component_stride == 504);
    CHECK(r.axis[0] == 0 && r.axis[1] == 1 && r.axis[2] == 2 && r.axis[3] == 3);
    field.stride_bytes[0] = 8; /* two interleaved components, rows backwards, places of 8 bytes */
    field.stride_bytes[1] = -32;
    field.stride_bytes[2] = 256;
    field.component_stride_bytes = 4;
    CHECK_STATUS(sv_halo_resolve(&plain.grid, &field, 0, &r), SELVAGE_SUCCESS);
    CHECK(r.axis[0] == 3 && r.axis[1] == 0 && r.axis[2] == 1 && r.axis[3] == 2);
    int64_t first, end;
    sv_halo_extent(&r, &first, &end);
    CHECK_EQ(first, -32 * 6);
    CHECK_EQ(end, 2 * 8 + 7 * 256 + 4 + 3);
}

/* --- random plans ------------------------------------------------------------------------------------------------- */

/* All that the ranks of a case plan for one of its halos. */
typedef struct world {
    const halo_case_t *test;
    const halo_wish_t *wish;
    sv_halo_directions_t directions;
    plain_grid_t plain[HALO_RANKS_MAX];
    sv_halo_field_t field[HALO_RANKS_MAX][HALO_FIELDS_MAX];
    sv_halo_way_t way[HALO_RANKS_MAX][2];
} world_t;

static bool make_world(world_t *world, const halo_case_t *test, int w)
{
    static uint8_t bytes[HALO_FIELDS_MAX];
    selvage_status_t status;
    world->test = test;
    world->wish = &test->wish[w];
    status = sv_halo_directions(&world->wish->params, test->grid.ndims, &world->directions);
    for (int rank = 0; rank < test->size && status == SELVAGE_SUCCESS; rank++) {
        plain_make(&world->plain[rank], &test->grid, rank, test->size);
        for (int f = 0; f < world->wish->nfields && status == SELVAGE_SUCCESS; f++) {
            selvage_field_t field = world->wish->field[f];
            field.data = &bytes[f];
            field.parity = SELVAGE_PARITY_ALL; /* needs arrays to its measure; see test_halo_random.c */
            field.number = SELVAGE_NUMBER_NONE;
            status = sv_halo_resolve(&world->plain[rank].grid, &field, f, &world->field[rank][f]);
            if (status == SELVAGE_SUCCESS)
                status = sv_halo_check_widths(&world->plain[rank].grid, &world->field[rank][f], f, field.stagger,
                                              &world->directions);
        }
        for (int receives = 0; receives < 2 && status == SELVAGE_SUCCESS; receives++)
            status = sv_halo_plan(&world->plain[rank].grid, world->field[rank], world->wish->nfields,
                                  &world->directions, world->wish->params.reverse, receives,
                                  &world->way[rank][receives]);
    }
    CHECK_STATUS(status, SELVAGE_SUCCESS);
    return status == SELVAGE_SUCCESS;
}

static const sv_halo_packet_t *find_packet(const sv_halo_way_t *way, int rank)
{
    const sv_halo_packet_t *found = NULL;
    for (int p = 0; p < way->npackets; p++)
        if (way->packet[p].rank == rank) {
            CHECK(!found); /* one packet per neighbour */
            found = &way->packet[p];
        }
    return found;
}

/* Whether two boxes are the same cells of the domain. */
static bool same_cells(const world_t *world, int a_rank, const selvage_box_t *a, int b_rank, const selvage_box_t *b)
{
    const selvage_grid_t *a_grid = &world->plain[a_rank].grid, *b_grid = &world->plain[b_rank].grid;
    for (int d = 0; d < HALO_DIMS; d++) {
        int64_t apart = a_grid->first[d] + a->first[d] - b_grid->first[d] - b->first[d];
        if (a->end[d] - a->first[d] != b->end[d] - b->first[d])
            return false;
        if (a_grid->periodic[d] ? apart % a_grid->global[d] != 0 : apart != 0)
            return false;
    }
    return true;
}

static void check_both_ends(const world_t *world, int source)
{
    const sv_halo_way_t *out = &world->way[source][0];
    for (int p = 0; p < out->npackets; p++) {
        const sv_halo_packet_t *sent = &out->packet[p];
        const sv_halo_way_t *in = &world->way[sent->rank][1];
        const sv_halo_packet_t *received = find_packet(in, source);
        CHECK(received && received->npieces == sent->npieces);
        for (uint32_t i = 0; received && i < sent->npieces && i < received->npieces; i++) {
            const sv_halo_piece_t *a = &out->piece[sent->first_piece + i], *b = &in->piece[received->first_piece + i];
            CHECK_EQ(a->field, b->field);
            CHECK(same_cells(world, source, &a->cells, sent->rank, &b->cells));
        }
    }
}

static bool is_within(const selvage_box_t *box, const int64_t *cell)
{
    for (int d = 0; d < HALO_DIMS; d++)
        if (cell[d] < box->first[d] || cell[d] >= box->end[d])
            return false;
    return true;
}

/* How often a cell of a field travels, on the side of its halo. */
static int count_pieces(const world_t *world, int rank, uint32_t f, const int64_t *cell)
{
    const sv_halo_way_t *way = &world->way[rank][!world->wish->params.reverse];
    int count = 0;
    for (int p = 0; p < way->npackets; p++)
        for (uint32_t i = 0; i < way->packet[p].npieces; i++) {
            const sv_halo_piece_t *piece = &way->piece[way->packet[p].first_piece + i];
            count += piece->field == f && is_within(&piece->cells, cell);
        }
    return count;
}

static bool is_planned(const world_t *world, const int *step)
{
    for (int i = 0; i < world->directions.count; i++) {
        int equal = 0;
        for (int d = 0; d < HALO_DIMS; d++)
            equal += world->directions.step[i][d] == step[d];
        if (equal == HALO_DIMS)
            return true;
    }
    return false;
}

/* How often it should: once, if it has an owner in a direction that takes part. */
static int count_wanted(const world_t *world, int rank, const sv_halo_field_t *field, const int64_t *cell)
{
    const selvage_grid_t *grid = &world->plain[rank].grid;
    int coords[HALO_DIMS], step[HALO_DIMS];
    for (int d = 0; d < HALO_DIMS; d++) {
        int side = cell[d] < 0 ? -1 : cell[d] >= field->own[d];
        coords[d] = grid->coords[d] + side;
        step[d] = world->wish->params.reverse ? side : -side;
    }
    return is_planned(world, step) && sv_grid_rank(grid, coords) >= 0;
}

static void check_cover(const world_t *world, int rank, int f)
{
    const sv_halo_field_t *field = &world->field[rank][f];
    int64_t cell[HALO_DIMS];
    long wrong = 0;
    for (cell[0] = -field->width_lo[0]; cell[0] < field->own[0] + field->width_hi[0]; cell[0]++)
        for (cell[1] = -field->width_lo[1]; cell[1] < field->own[1] + field->width_hi[1]; cell[1]++)
            for (cell[2] = -field->width_lo[2]; cell[2] < field->own[2] + field->width_hi[2]; cell[2]++)
                for (cell[3] = -field->width_lo[3]; cell[3] < field->own[3] + field->width_hi[3]; cell[3]++)
                    wrong += count_pieces(world, rank, (uint32_t)f, cell) != count_wanted(world, rank, field, cell);
    CHECK_EQ(wrong, 0);
}

static void test_random(uint64_t seed)
{
    static halo_case_t test;
    static world_t world;
    long failed = atomic_load(&check_failed_);
    memset(&world, 0, sizeof world);
    halo_case_make(&test, 1 + (int)(seed % HALO_RANKS_MAX), seed);
    if (make_world(&world, &test, 0))
        for (int rank = 0; rank < test.size; rank++) {
            check_both_ends(&world, rank);
            for (int f = 0; f < world.wish->nfields && test.grid.ndims < 4; f++)
                check_cover(&world, rank, f);
        }
    for (int rank = 0; rank < test.size; rank++)
        for (int receives = 0; receives < 2; receives++)
            sv_halo_way_free(&world.way[rank][receives]);
    if (atomic_load(&check_failed_) != failed)
        halo_case_print(&test);
}

/* --- overlap ------------------------------------------------------------------------------------------------------ */

enum { OVERLAP_BYTES = 1 << 14, OVERLAP_MIDDLE = OVERLAP_BYTES / 2 };

/* A small field with strides that leave room for others between its elements. */
static void make_sparse(sv_halo_field_t *field, uint64_t *state)
{
    *field = (sv_halo_field_t){.element_bytes = 1 + local_ranks_random(state, 6), .ndims = 2, .packed_dim = -1,
                               .components = 1 + (int64_t)local_ranks_random(state, 2)};
    int64_t span = (int64_t)field->element_bytes;
    for (int d = 0; d < 2; d++) {
        field->own[d] = 1 + (int64_t)local_ranks_random(state, 4);
        field->width_lo[d] = field->first[d] = (int64_t)local_ranks_random(state, 2);
        field->stride[d] = span + (int64_t)local_ranks_random(state, 12);
        span += (field->own[d] + field->width_lo[d] - 1) * field->stride[d];
    }
    field->component_stride = span + (int64_t)local_ranks_random(state, 8);
    if (local_ranks_random(state, 3) == 0)
        field->stride[1] = -field->stride[1];
}

/* Marks the bytes of a field; returns whether one of them had another mark. */
static bool mark(const sv_halo_field_t *f, int64_t at, uint8_t own, uint8_t *bytes)
{
    bool met = false;
    for (int64_t c = 0; c < f->components; c++)
        for (int64_t i = f->first[0] - f->width_lo[0]; i < f->first[0] + f->own[0]; i++)
            for (int64_t j = f->first[1] - f->width_lo[1]; j < f->first[1] + f->own[1]; j++)
                for (uint64_t b = 0; b < f->element_bytes; b++) {
                    int64_t place = at + c * f->component_stride + i * f->stride[0] + j * f->stride[1] + (int64_t)b;
                    met = met || (bytes[place] && bytes[place] != own);
                    bytes[place] = own;
                }
    return met;
}

static void test_overlap(uint64_t seed)
{
    static uint8_t bytes[OVERLAP_BYTES];
    sv_halo_field_t a, b;
    uint64_t state = seed;
    int met = 0, apart = 0;
    for (int n = 0; n < 4000; n++) {
        make_sparse(&a, &state);
        make_sparse(&b, &state);
        if (local_ranks_random(&state, 2)) { /* members of the same records */
            memcpy(b.stride, a.stride, sizeof a.stride);
            b.component_stride = a.component_stride;
        }
        int64_t delta = (int64_t)local_ranks_random(&state, 60) - 30;
        memset(bytes, 0, sizeof bytes);
        (void)mark(&a, OVERLAP_MIDDLE, 1, bytes);
        bool wanted = !mark(&b, OVERLAP_MIDDLE + delta, 2, bytes);
        bool found = sv_halo_is_disjoint(&a, bytes + OVERLAP_MIDDLE, &b, bytes + OVERLAP_MIDDLE + delta);
        CHECK_EQ(found, wanted);
        met += !wanted;
        apart += wanted;
    }
    CHECK(met > 500 && apart > 500); /* or the fields are no test */
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    test_line();
    test_torus();
    test_stagger();
    test_defaults();
    for (uint64_t i = 0; i < 200; i++)
        test_random(seed * 1000 + i);
    test_overlap(seed);
    CHECK_EQ(sv_memory_live(), 0);
    return check_report("test_halo_plan");
}
