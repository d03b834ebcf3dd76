/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What grids refuse, and how: the status, the argument named in the detail, on the rank that is wrong and on those that
 * are not; ranks that differ; a rank that does not come; allocations and wire calls that fail in turn. After all but
 * the last two another grid of the same communicator works.
 */
#include <stdlib.h>

#include "base/base_fault.h"
#include "base/base_memory.h"
#include "fixtures/check.h"
#include "grid/grid_blocks.h"
#include "fixtures/local_ranks.h"

enum { RANKS = 4, SOON_S = 1 }; /* a deadline that is to pass */

/* The detail of the last error must contain the text. */
#define CHECK_DETAIL(text) check_detail((text), __LINE__)

static void check_detail(const char *text, int line)
{
    bool found = strstr(selvage_error_detail(), text) != NULL;
    CHECK(found);
    if (!found)
        fprintf(stderr, "line %d: \"%s\" is not in \"%s\"\n", line, text, selvage_error_detail());
}

static const selvage_grid_params_t good = {SELVAGE_GRID_PARAMS_INIT, .ndims = 2, .global_extent = {8, 6}};

/* The communicator still makes grids. */
static void check_alive(local_rank_t *self)
{
    selvage_grid_t *grid = NULL;
    int rank = -7, here[] = {0, 0};
    CHECK_STATUS(selvage_grid_create(self->comm, &good, &grid), SELVAGE_SUCCESS);
    if (!grid)
        return;
    CHECK_STATUS(selvage_grid_neighbour(grid, here, &rank), SELVAGE_SUCCESS);
    CHECK_EQ(rank, self->rank);
    selvage_grid_destroy(grid);
}

static selvage_status_t create(local_rank_t *self, const selvage_grid_params_t *params)
{
    selvage_grid_t *grid = NULL;
    selvage_status_t status = selvage_grid_create(self->comm, params, &grid);
    CHECK((grid == NULL) == (status != SELVAGE_SUCCESS));
    selvage_grid_destroy(grid);
    return status;
}

/* First all ranks are wrong, then only one: it knows why, the others know who. */
static void refuse(local_rank_t *self, const selvage_grid_params_t *bad, const char *text)
{
    CHECK_STATUS(create(self, bad), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL(text);
    bool wrong = self->rank == 2;
    CHECK_STATUS(create(self, wrong ? bad : &good), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL(wrong ? text : "selvage_grid_create failed on rank 2: an argument was refused");
}

static void refuse_arguments(local_rank_t *self)
{
    static const int64_t short_split[] = {3, 4}, empty_split[] = {8, 0}, huge_split[] = {INT64_MAX, 9}, even[] = {4, 4};
    static const int twice[] = {0, 1, 1, 3}, beyond[] = {0, 1, 2, 4}, below[] = {0, -1, 2, 3}, order[] = {0, 1, 2, 3};
    static const struct {
        selvage_grid_params_t params;
        const char *text;
    } cases[] = {
        {{.ndims = 0}, "ndims is 0; wanted 1..4"},
        {{.ndims = 5}, "ndims is 5"},
        {{.ndims = 2, .global_extent = {8, 0}}, "global_extent[1] is 0; wanted 1 or more"},
        {{.ndims = 2, .global_extent = {-8, 6}}, "global_extent[0] is -8"},
        {{.ndims = 2, .global_extent = {8, 6}, .width = {0, -2}}, "width[1] is -2; wanted 0 or more"},
        {{.ndims = 2, .global_extent = {INT64_C(1) << 40, INT64_C(1) << 40}}, "more cells than 63 bits can count"},
        {{.ndims = 2, .global_extent = {INT64_C(1) << 30, INT64_C(1) << 30}, .width = {9}}, "global_extent times"},
        {{.ndims = 2, .global_extent = {8, 6}, .blocks = {0, -1}}, "blocks[1] is -1"},
        {{.ndims = 2, .global_extent = {8, 6}, .blocks = {9, 0}}, "blocks[0] is 9, but global_extent[0] has only 8"},
        {{.ndims = 2, .global_extent = {8, 6}, .blocks = {2, 3}}, "blocks do not cover the ranks: those given make at"},
        {{.ndims = 2, .global_extent = {8, 6}, .blocks = {2, 1}}, "those given make 2, and there are 4 ranks"},
        {{.ndims = 2, .global_extent = {8, 6}, .blocks = {3, 0}}, "those given make 3, and there are 4 ranks"},
        {{.ndims = 2, .global_extent = {3, 1}}, "blocks: no way to cut global_extent into 4 blocks"},
        {{.ndims = 2, .global_extent = {2, 6}, .blocks = {0, 1}}, "blocks: no way to cut"},
        {{.ndims = 2, .global_extent = {8, 6}, .split = {even}}, "split[0] is given, so blocks[0] must be given"},
        {{.ndims = 2, .global_extent = {8, 6}, .blocks = {2}, .split = {short_split}},
         "split[0] adds up to 7, but global_extent[0] is 8"},
        {{.ndims = 2, .global_extent = {8, 6}, .blocks = {2}, .split = {huge_split}}, "split[0] adds up to"},
        {{.ndims = 2, .global_extent = {8, 6}, .blocks = {2}, .split = {empty_split}}, "split[0][1] is 0"},
        {{.ndims = 2, .global_extent = {8, 6}, .blocks = {2}, .ranks = order}, "ranks is given, so blocks[1]"},
        {{.ndims = 2, .global_extent = {8, 6}, .blocks = {2, 2}, .ranks = order, .reorder = 1}, "reorder is set"},
        {{.ndims = 2, .global_extent = {8, 6}, .blocks = {2, 2}, .ranks = twice},
         "ranks[1] and ranks[2] are both 1, so a rank is missing"},
        {{.ndims = 2, .global_extent = {8, 6}, .blocks = {2, 2}, .ranks = beyond}, "ranks[3] is 4; wanted 0..3"},
        {{.ndims = 2, .global_extent = {8, 6}, .blocks = {2, 2}, .ranks = below}, "ranks[1] is -1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        selvage_grid_params_t params = cases[i].params;
        params.struct_size = sizeof params;
        refuse(self, &params, cases[i].text);
    }
    check_alive(self);
}

/* Calls that cannot even be read: the other ranks do not hang. */
static void refuse_structs(local_rank_t *self)
{
    struct {
        selvage_grid_params_t known;
        uint8_t tail[16];
    } later = {.known = good};
    selvage_grid_params_t params = good;
    selvage_grid_t *grid = NULL;
    CHECK_STATUS(selvage_grid_create(NULL, &good, &grid), SELVAGE_ERR_ARGUMENT); /* nobody to tell: local */
    CHECK_DETAIL("comm is NULL");
    refuse(self, NULL, "params is NULL");
    params.struct_size = 3;
    refuse(self, &params, "struct_size is 3");
    later.known.struct_size = sizeof later;
    later.tail[9] = 1;
    refuse(self, &later.known, "is not zero");
    later.tail[9] = 0;
    CHECK_STATUS(create(self, &later.known), SELVAGE_SUCCESS);
    params.struct_size = offsetof(selvage_grid_params_t, periodic); /* as an older program has it */
    CHECK_STATUS(create(self, &params), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_grid_create(self->comm, &good, self->rank == 1 ? NULL : &grid), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL(self->rank == 1 ? "grid_out is NULL" : "failed on rank 1");
    CHECK(!grid);
    /* The local wire has no Cartesian communicators. */
    CHECK_STATUS(selvage_grid_create_cart(self->comm, MPI_COMM_NULL, &good, &grid), SELVAGE_ERR_UNSUPPORTED);
    CHECK_DETAIL("comm does not talk MPI");
    selvage_grid_destroy(NULL);
    check_alive(self);
}

/* One rank asks for another grid, in one argument after the other. */
static void refuse_differences(local_rank_t *self)
{
    static const int64_t even[] = {4, 4}, uneven[] = {5, 3};
    static const int order[] = {0, 1, 2, 3}, other_order[] = {0, 2, 1, 3};
    static const selvage_grid_params_t given = {SELVAGE_GRID_PARAMS_INIT, .ndims = 2, .global_extent = {8, 6},
                                                .blocks = {2, 2}, .split = {even}, .ranks = order};
    static const char *const names[] = {"ndims", "global_extent", "periodic", "blocks", "split", "ranks", "reorder",
                                        "width"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char text[96];
        selvage_grid_params_t other = given, base = given;
        other.ndims = i == 0 ? 3 : 2;
        other.global_extent[1] = i == 1 ? 7 : 6;
        other.periodic[1] = i == 2;
        other.split[0] = i == 4 ? uneven : even;
        other.ranks = i == 5 ? other_order : order;
        other.width[0] = i == 7 ? 2 : 0;
        if (i == 0)
            other.global_extent[2] = other.blocks[2] = 1;
        if (i == 3)
            other.blocks[1] = base.blocks[0] = 0, other.split[0] = base.split[0] = NULL;
        if (i == 3 || i == 6)
            other.ranks = base.ranks = NULL;
        other.reorder = i == 6;
        snprintf(text, sizeof text, "ranks do not agree on %s: rank %d gave", names[i], self->rank == 1 ? 0 : 1);
        CHECK_STATUS(create(self, self->rank == 1 ? &other : &base), SELVAGE_ERR_MISMATCH);
        CHECK_DETAIL(text);
    }
    /* What means the same is the same. */
    selvage_grid_params_t same = given;
    same.split[0] = self->rank % 2 ? NULL : even;
    same.width[1] = self->rank % 2;
    same.periodic[0] = 1 + self->rank;
    CHECK_STATUS(create(self, &same), SELVAGE_SUCCESS);
    check_alive(self);
}

static void refuse_queries(local_rank_t *self)
{
    selvage_grid_t *grid = NULL;
    selvage_grid_info_t info = {.struct_size = 4};
    selvage_box_t box[4] = {{.first = {77}}};
    int out[] = {77, 77}, far[] = {0, 2}, wide[] = {1, 1}, narrow[] = {0, -1};
    int64_t extent[2];
    CHECK_STATUS(selvage_grid_create(self->comm, &good, &grid), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_grid_describe(grid, &info), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("info: struct_size is 4");
    CHECK_STATUS(selvage_grid_describe(NULL, &info), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_grid_describe(grid, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_grid_coords(grid, -1, out), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("selvage_grid_coords: rank is -1; wanted 0..3");
    CHECK_STATUS(selvage_grid_coords(grid, 0, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_grid_rank(grid, NULL, out), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_grid_rank(grid, far, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_grid_neighbour(grid, far, out), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("offset[1] is 2; wanted -1..1");
    CHECK_STATUS(selvage_grid_block(grid, 4, extent, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("selvage_grid_block: rank is 4");
    CHECK_STATUS(selvage_grid_interior(grid, wide, narrow, box), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("selvage_grid_interior: width_hi[1] is -1");
    CHECK_STATUS(selvage_grid_boundary(grid, narrow, wide, box), SELVAGE_ERR_ARGUMENT);
    CHECK_DETAIL("selvage_grid_boundary: width_lo[1] is -1");
    CHECK_STATUS(selvage_grid_interior(grid, NULL, wide, box), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_grid_boundary(grid, wide, wide, NULL), SELVAGE_ERR_ARGUMENT);
    CHECK_EQ(out[0] + out[1], 154);
    CHECK_EQ(box[0].first[0], 77);
    grid->nhalos = 1;
    selvage_grid_destroy(grid); /* too early: its halo will want it */
    CHECK(local_ranks_logged(self, "a grid is destroyed before 1 of its halos"));
    CHECK_STATUS(selvage_grid_coords(grid, 0, out), SELVAGE_SUCCESS);
    grid->nhalos = 0;
    selvage_grid_destroy(grid);
}

/* An info of an older program is filled as far as it goes. */
static void fill_older(local_rank_t *self)
{
    selvage_grid_t *grid = NULL;
    selvage_grid_info_t info = {.struct_size = offsetof(selvage_grid_info_t, coords), .coords = {-5}};
    CHECK_STATUS(selvage_grid_create(self->comm, &good, &grid), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_grid_describe(grid, &info), SELVAGE_SUCCESS);
    CHECK_EQ(info.global_extent[0], 8);
    CHECK_EQ(info.blocks[0] * info.blocks[1], RANKS);
    CHECK_EQ(info.coords[0], -5);
    CHECK_EQ(info.struct_size, offsetof(selvage_grid_info_t, coords));
    selvage_grid_destroy(grid);
}

/* Rank 1 does not come. The others say whom they waited for, and the communicator is of no more use. */
static void miss_one(local_rank_t *self)
{
    local_ranks_deadline(self, NULL, SOON_S);
    if (self->rank != 1) {
        CHECK_STATUS(create(self, &good), SELVAGE_ERR_TIMEOUT);
        CHECK_STATUS(create(self, &good), SELVAGE_ERR_TIMEOUT);
        /*
         * A rank whom another one told of the failure before its own deadline passed is told again; where the others
         * are late, its own deadline passes in the second call and names the rank that it waits for.
         */
        const char *detail = selvage_error_detail();
        if (!strstr(detail, "failed on rank") && !strstr(detail, "no word from rank"))
            CHECK_DETAIL("an earlier collective call failed");
        CHECK(strstr(selvage_error_detail(), "rank ") != NULL);
    }
    local_ranks_barrier(self);
}

/* A failing rank knows why; the others know that somebody failed. */
static void fail_call(local_rank_t *self)
{
    const char *spec = self->arg;
    selvage_grid_params_t params = good;
    params.reorder = 1;
    sv_fault_t *fault = &self->comm->fault;
    if (strncmp(spec, "wire", 4) == 0)
        CHECK_STATUS(sv_wire_fault_wrap(&self->comm->wire), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_fault_parse(spec, self->rank, fault), SELVAGE_SUCCESS);
    if (strncmp(spec, "wire", 4) == 0) /* whoever waits for what was lost waits until then */
        local_ranks_deadline(self, NULL, SOON_S);
    self->comm->binding.fault = fault;
    selvage_status_t status = create(self, &params);
    self->comm->binding.fault = NULL;
    if (strncmp(spec, "wire", 4) == 0) /* who has heard all that a rank said before it failed notices the deadline */
        CHECK(status == SELVAGE_SUCCESS || status == SELVAGE_ERR_MPI || status == SELVAGE_ERR_PEER ||
              status == SELVAGE_ERR_TIMEOUT);
    else if (self->comm->broken) /* it was the wire that had no memory */
        CHECK(status == SELVAGE_ERR_LIMIT || status == SELVAGE_ERR_PEER);
    else
        CHECK(status == SELVAGE_SUCCESS || status == SELVAGE_ERR_MEMORY);
    if (!self->comm->broken && strncmp(spec, "alloc", 5) == 0)
        check_alive(self);
    local_ranks_barrier(self);
}

/* The last call that failed. */
static int fail_in_turn(const char *what, int most, int step)
{
    int last = 0;
    for (int nth = 1; nth <= most; nth += step)
        for (int bad = 0; bad < RANKS; bad += RANKS - 1) {
            char spec[40];
            snprintf(spec, sizeof spec, "%s=%d,rank=%d", what, nth, bad);
            local_ranks_run(&(local_run_t){.size = RANKS, .ranks_per_node = 2, .log_expected = true, .body = fail_call,
                                           .arg = spec});
            if ((local_ranks_any_logged("injected fault") || local_ranks_any_logged("no host memory")))
                last = nth;
        }
    return last;
}

static void run_all(void)
{
    static void (*const bodies[])(local_rank_t *) = {refuse_arguments, refuse_structs, refuse_differences,
                                                     refuse_queries, fill_older};
    for (unsigned i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
        local_ranks_run(&(local_run_t){.size = RANKS, .ranks_per_node = (int)i % 3, .log_expected = true,
                                       .body = bodies[i]});
}

int main(void)
{
    local_ranks_mode("");
    run_all();
    int allocations = fail_in_turn("alloc", 28, 1);
    printf("allocation %d was the last to fail\n", allocations);
    CHECK(allocations >= 20 && allocations < 28); /* the grid 1, dimensions 4, ranks and maps 7, placement 8 */
    local_ranks_mode("PROGRESS=thread");
    run_all();
    local_ranks_mode("TIMEOUT_S=60");
    CHECK(fail_in_turn("wire", 30, 3) >= 10);
    local_ranks_run(&(local_run_t){.size = RANKS, .ranks_per_node = 1, .log_expected = true, .body = miss_one});
    return check_report("test_grid_errors");
}
