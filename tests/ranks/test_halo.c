/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Halos where random cases do not look: sums in reverse have the same bits whatever the route and the progress, and if
 * packets were damaged on their way; streams are in order; epochs end on the stream without the host; arrays of
 * different alignment take turns; and what describe tells is what the shape of the fields says.
 */
#include <stdlib.h>

#include "fixtures/check.h"
#include "fixtures/halo_case.h"

/* --- sums in one order -------------------------------------------------------------------------------------------- */

enum { SUM_CASES = 6, SUM_RANKS = 8 };

typedef struct sums {
    halo_case_t test[SUM_CASES];
    uint64_t hash[SUM_CASES][SUM_RANKS], first[SUM_CASES][SUM_RANKS];
} sums_t;

/* Numbers whose sum depends on the order of the additions, in halos whose cells lie in many pieces. */
static void make_sums(sums_t *sums)
{
    for (int i = 0; i < SUM_CASES; i++) {
        halo_case_t *test = &sums->test[i];
        halo_case_make(test, SUM_RANKS, 77 + (uint64_t)i);
        test->nparts = 1;
        test->wish[0] = (halo_wish_t){.params = {SELVAGE_HALO_PARAMS_INIT, .shape = SELVAGE_HALO_FULL, .reverse = 1},
                                      .nfields = 2};
        for (int f = 0; f < 2; f++)
            test->wish[0].field[f] =
                (selvage_field_t){SELVAGE_FIELD_INIT, .element_bytes = 8, .width_lo = {1, 1, 1, 1},
                                  .width_hi = {1, 1, 1, 1},
                                  .number = f ? SELVAGE_NUMBER_FLOAT32 : SELVAGE_NUMBER_FLOAT64};
        for (int d = 0; d < test->grid.ndims; d++)
            test->grid.periodic[d] = 1;
    }
}

static void add_up(local_rank_t *self)
{
    sums_t *sums = self->arg;
    for (int i = 0; i < SUM_CASES; i++) {
        const halo_case_t *test = &sums->test[i];
        halo_part_t part;
        selvage_grid_t *grid;
        selvage_halo_t *halo;
        CHECK_STATUS(selvage_grid_create(self->comm, &test->grid, &grid), SELVAGE_SUCCESS);
        halo_part_open(&part, self, test, 0, grid);
        halo_part_fill(&part, 0, 1);
        CHECK_STATUS(selvage_halo_create(grid, &test->wish[0].params, part.field, test->wish[0].nfields, &halo),
                     SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_halo_exchange(halo, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
        sums->hash[i][self->rank] = halo_part_hash(&part, 0);
        selvage_halo_destroy(halo);
        halo_part_close(&part);
        selvage_grid_destroy(grid);
    }
}

static void test_sums(void)
{
    static const char *const settings[] = {"", "ROUTE=staged", "ROUTE=shared", "KERNEL_COPY_MAX_BYTES=0",
                                           "PROGRESS=thread", "SOFT_MODE=inline", "ROUTE=staged SEGMENT_BYTES=4096",
                                           "FAULT=flip=0.2,seed=5", "FAULT=flip=0.2,seed=6 ROUTE=staged"};
    static sums_t sums;
    make_sums(&sums);
    for (unsigned s = 0; s < sizeof settings / sizeof settings[0]; s++) {
        local_ranks_env(settings[s]);
        bool faulty = strstr(settings[s], "FAULT") != NULL;
        local_ranks_run(&(local_run_t){.size = SUM_RANKS, .body = add_up, .arg = &sums, .log_expected = faulty});
        CHECK_EQ(local_ranks_any_logged("asked for again"), faulty);
        if (s == 0)
            memcpy(sums.first, sums.hash, sizeof sums.first);
        for (int i = 0; i < SUM_CASES; i++)
            CHECK(memcmp(sums.first[i], sums.hash[i], sizeof sums.first[i]) == 0);
    }
}

/* --- one field on a ring ------------------------------------------------------------------------------------------ */

enum { RING_CELLS = 500, RING_WIDTH = 2, RING_ARRAY = RING_CELLS + 2 * RING_WIDTH };

typedef struct ring {
    local_rank_t *self;
    selvage_grid_t *grid;
    selvage_halo_t *halo;
    void *stream, *array[2], *copy;
} ring_t;

/* memory[1] is off by so many bytes from the alignment of memory[0]. */
static void open_ring(ring_t *ring, local_rank_t *self, size_t element_bytes, size_t odd)
{
    selvage_grid_params_t grid = {SELVAGE_GRID_PARAMS_INIT, .ndims = 1, .global_extent = {RING_CELLS * self->size},
                                  .periodic = {1}};
    *ring = (ring_t){.self = self};
    CHECK_STATUS(selvage_stream_create(self->dev, &ring->stream), SELVAGE_SUCCESS);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(selvage_device_malloc(self->dev, RING_ARRAY * element_bytes + 64, &ring->array[i]),
                     SELVAGE_SUCCESS);
        memset(ring->array[i], 0xee, RING_ARRAY * element_bytes + 64);
    }
    CHECK_STATUS(selvage_device_malloc(self->dev, RING_ARRAY * element_bytes, &ring->copy), SELVAGE_SUCCESS);
    selvage_field_t field = {SELVAGE_FIELD_INIT, .data = (uint8_t *)ring->array[0] + odd,
                             .element_bytes = element_bytes, .width_lo = {RING_WIDTH}, .width_hi = {RING_WIDTH}};
    CHECK_STATUS(selvage_grid_create(self->comm, &grid, &ring->grid), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_create(ring->grid, NULL, &field, 1, &ring->halo), SELVAGE_SUCCESS);
}

static void close_ring(ring_t *ring)
{
    selvage_halo_destroy(ring->halo);
    selvage_grid_destroy(ring->grid);
    selvage_device_free(ring->self->dev, ring->array[0]);
    selvage_device_free(ring->self->dev, ring->array[1]);
    selvage_device_free(ring->self->dev, ring->copy);
    selvage_stream_destroy(ring->self->dev, ring->stream);
}

/* Whether the halo of an array of bytes is what the neighbours have filled theirs with. */
static bool is_filled(const ring_t *ring, const uint8_t *bytes, int epoch)
{
    int size = ring->self->size, below = (ring->self->rank + size - 1) % size, above = (ring->self->rank + 1) % size;
    bool good = true;
    for (int i = 0; i < RING_WIDTH; i++)
        good = good && bytes[i] == (uint8_t)(16 * below + epoch) &&
               bytes[RING_WIDTH + RING_CELLS + i] == (uint8_t)(16 * above + epoch);
    return good;
}

/* What is enqueued before start is sent, also if it takes its time; what is enqueued after wait finds the halo. */
static void keep_order(local_rank_t *self)
{
    ring_t ring;
    open_ring(&ring, self, 1, 0);
    for (int epoch = 1; epoch <= 4; epoch++) {
        CHECK_STATUS(selvage_device_delay_us(self->dev, self->rank ? 2000 : 200, ring.stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_device_fill(self->dev, ring.array[0], 16 * self->rank + epoch, RING_ARRAY, ring.stream),
                     SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_halo_start(ring.halo, ring.stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_halo_wait(ring.halo, ring.stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_device_copy(self->dev, ring.copy, ring.array[0], RING_ARRAY,
                                         SELVAGE_COPY_DEVICE_TO_DEVICE, ring.stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, ring.stream), SELVAGE_SUCCESS);
        CHECK(is_filled(&ring, ring.copy, epoch));
    }
    close_ring(&ring);
}

/* Epochs that follow each other on the stream, with arrays that take turns, and the host looks only at the end. */
static void enqueue(local_rank_t *self)
{
    ring_t ring;
    enum { EPOCHS = 10 };
    open_ring(&ring, self, 1, 0);
    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        void *array = ring.array[epoch % 2];
        CHECK_STATUS(selvage_device_fill(self->dev, array, 16 * self->rank + epoch, RING_ARRAY, ring.stream),
                     SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_halo_rebind(ring.halo, &array), SELVAGE_SUCCESS);
        if (epoch % 3 == 0) {
            CHECK_STATUS(selvage_halo_run(ring.halo, ring.stream), SELVAGE_SUCCESS);
            continue;
        }
        CHECK_STATUS(selvage_halo_start(ring.halo, ring.stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_halo_enqueue_wait(ring.halo, ring.stream), SELVAGE_SUCCESS);
    }
    CHECK_STATUS(selvage_halo_wait(ring.halo, ring.stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, ring.stream), SELVAGE_SUCCESS);
    CHECK(is_filled(&ring, ring.array[0], EPOCHS));
    CHECK(is_filled(&ring, ring.array[1], EPOCHS - 1));
    close_ring(&ring);
}

/* The first array is aligned to 8 bytes, the second one to more: both may come again and again; less is refused. */
static void take_turns(local_rank_t *self)
{
    ring_t ring;
    open_ring(&ring, self, 8, 8);
    for (int epoch = 1; epoch <= 6; epoch++) {
        uint8_t *data = epoch % 2 ? (uint8_t *)ring.array[0] + 8 : ring.array[1];
        void *bound[1] = {data};
        memset(data, 16 * self->rank + epoch, RING_ARRAY * 8);
        CHECK_STATUS(selvage_halo_rebind(ring.halo, bound), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_halo_exchange(ring.halo, ring.stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, ring.stream), SELVAGE_SUCCESS);
        int below = (self->rank + self->size - 1) % self->size;
        CHECK_EQ(data[0], (uint8_t)(16 * below + epoch));
        CHECK_EQ(data[8 * RING_WIDTH - 1], (uint8_t)(16 * below + epoch));
        CHECK_EQ(data[8 * RING_WIDTH], (uint8_t)(16 * self->rank + epoch));
    }
    close_ring(&ring);
}

static void refuse_alignment(local_rank_t *self)
{
    ring_t ring;
    open_ring(&ring, self, 8, 8);
    void *bound[1] = {(uint8_t *)ring.array[1] + 4};
    CHECK_STATUS(selvage_halo_rebind(ring.halo, bound), SELVAGE_ERR_ARGUMENT);
    CHECK(strstr(selvage_error_detail(), "data[0]") != NULL);
    CHECK_STATUS(selvage_halo_exchange(ring.halo, ring.stream), SELVAGE_SUCCESS);
    close_ring(&ring);
}

/* --- what is told ------------------------------------------------------------------------------------------------- */

/* 2 by 1 by 1 blocks of 4 by 6 by 10 cells of 8 bytes, all periodic: rows are not touched across dimension 0. */
static void describe(local_rank_t *self)
{
    selvage_grid_params_t params = {SELVAGE_GRID_PARAMS_INIT, .ndims = 3, .global_extent = {8, 6, 10},
                                    .periodic = {1, 1, 1}, .blocks = {2, 1, 1}};
    selvage_grid_t *grid;
    selvage_halo_t *halo;
    selvage_halo_info_t info = {SELVAGE_HALO_INFO_INIT};
    void *memory;
    CHECK_STATUS(selvage_device_malloc(self->dev, 8 * 6 * 6 * 10, &memory), SELVAGE_SUCCESS);
    selvage_field_t field = {SELVAGE_FIELD_INIT, .data = memory, .element_bytes = 8, .width_lo = {1}, .width_hi = {1}};
    CHECK_STATUS(selvage_grid_create(self->comm, &params, &grid), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_create(grid, NULL, &field, 1, &halo), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_describe(halo, &info), SELVAGE_SUCCESS);
    CHECK_EQ(info.packets, 1);
    CHECK_EQ(info.bytes_sent, 2 * 6 * 10 * 8);
    CHECK_EQ(info.bytes_received, info.bytes_sent);
    CHECK_EQ(info.bytes_contiguous, info.bytes_sent);
    selvage_halo_destroy(halo);
    field.width_lo[0] = field.width_hi[0] = 0;
    field.width_lo[2] = 1; /* comes from the rank itself, in rows of one cell */
    CHECK_STATUS(selvage_halo_create(grid, NULL, &field, 1, &halo), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_describe(halo, &info), SELVAGE_SUCCESS);
    CHECK_EQ(info.packets, 1);
    CHECK_EQ(info.bytes_sent, 4 * 6 * 8);
    CHECK_EQ(info.bytes_contiguous, 0);
    selvage_halo_destroy(halo);
    selvage_grid_destroy(grid);
    selvage_device_free(self->dev, memory);
}

static void run(void (*body)(local_rank_t *), const char *env, int size, bool log_expected)
{
    local_ranks_env(env);
    local_ranks_run(&(local_run_t){.size = size, .body = body, .log_expected = log_expected});
}

int main(void)
{
    static const char *const routes[] = {"", "ROUTE=shared", "ROUTE=staged", "ROUTE=direct", "PROGRESS=thread",
                                         "KERNEL_COPY_MAX_BYTES=0"};
    test_sums();
    for (unsigned r = 0; r < sizeof routes / sizeof routes[0]; r++) {
        run(keep_order, routes[r], 3, false);
        run(take_turns, routes[r], 2, false);
    }
    run(enqueue, "", 3, false);
    run(enqueue, "", 1, false);
    run(enqueue, "PROGRESS=thread ROUTE=staged", 3, false);
    run(refuse_alignment, "", 2, true);
    run(describe, "", 2, false);
    return check_report("test_halo");
}
