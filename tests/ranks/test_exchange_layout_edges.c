/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Corners of packets in pieces: units where bases move, alignments that are remembered, bases between enqueued waits,
 * the stream that waits, packets that store beside those that add, destroying what kernels still read, and exact
 * streams whose pieces begin anywhere.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "fixtures/check.h"
#include "fixtures/local_ranks.h"
#include "pipeline/layout_parts.h"
#include "pipeline/pipe_exchange.h"

enum { SMALL = 4000, LARGE = 70000, SETS = SV_LAYOUT_SETS + 3, LATE_US = 30000 };

typedef struct scene {
    selvage_route_t route;
    sv_layout_number_t number;
} scene_t;

/* Of an array that takes part; one of more than 32768 is sent by other streams. Set before ranks run. */
static int cells = SMALL;

static uint64_t *cells_of(local_rank_t *self, size_t count)
{
    void *array = NULL;
    CHECK_STATUS(selvage_device_malloc(self->dev, count * sizeof(uint64_t), &array), SELVAGE_SUCCESS);
    return array;
}

/* Every other cell of an array, from cell first on. */
static sv_layout_t *comb(uint32_t base, int64_t first, uint64_t count, sv_layout_number_t number)
{
    sv_pack_shape_t box = {.base = (uint8_t *)(uintptr_t)(8 * first), .element_bytes = 8, .ndims = 1,
                           .dim = {{count, 16}}};
    sv_layout_t *layout = NULL;
    CHECK_STATUS(sv_layout_create(SV_LAYOUT_ALIGNED, &layout), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_layout_add_box(layout, base, &box, number), SELVAGE_SUCCESS);
    return layout;
}

/* --- pieces ------------------------------------------------------------------------------------------------------- */

typedef struct made {
    uint8_t *memory;
    sv_piece_t *pieces;
    uint32_t count;
} made_t;

static made_t make(const sv_layout_t *layout, uint8_t *const *bases)
{
    sv_layout_bump_t arena = {0};
    made_t made = {0};
    const sv_piece_t *there;
    CHECK_STATUS(sv_layout_make_pieces(layout, bases, &arena, &made.pieces, &there, &made.count), SELVAGE_SUCCESS);
    made.memory = calloc(1, arena.used + 1);
    arena = (sv_layout_bump_t){.here = made.memory, .there = made.memory};
    CHECK_STATUS(sv_layout_make_pieces(layout, bases, &arena, &made.pieces, &there, &made.count), SELVAGE_SUCCESS);
    return made;
}

/* Any base that is as aligned as the one given at commit must do; the offset cannot make up for what that one lacks. */
static void test_units_of_any_base(void)
{
    for (uintptr_t odd = 0; odd < 16; odd++)
        for (uintptr_t offset = 0; offset < 16; offset++) {
            uint8_t *bases[2] = {NULL, (uint8_t *)(4096 + odd)};
            const int64_t offsets[2] = {(int64_t)offset, (int64_t)offset + 32};
            const sv_layout_run_t runs[2] = {{(int64_t)offset, 16}, {(int64_t)offset + 48, 32}};
            sv_pack_shape_t box = {.base = (uint8_t *)offset, .element_bytes = 16, .ndims = 1, .dim = {{3, 64}}};
            uintptr_t least = (odd | 16) & -(odd | 16);
            sv_layout_t *layout;
            CHECK_STATUS(sv_layout_create(SV_LAYOUT_ALIGNED, &layout), SELVAGE_SUCCESS);
            CHECK_STATUS(sv_layout_add_box(layout, 1, &box, SV_LAYOUT_STORE), SELVAGE_SUCCESS);
            CHECK_STATUS(sv_layout_add_list(layout, 1, 16, offsets, 2, SV_LAYOUT_STORE), SELVAGE_SUCCESS);
            CHECK_STATUS(sv_layout_add_runs(layout, 1, runs, 2), SELVAGE_SUCCESS);
            made_t made = make(layout, bases);
            CHECK_EQ(made.count, 3);
            for (uint32_t i = 0; i < made.count; i++) {
                CHECK_EQ((4096 + least + offset) % made.pieces[i].granule, 0);
                CHECK_EQ((4096 + offset) % made.pieces[i].granule, 0);
            }
            CHECK_EQ(made.pieces[0].offset, (int64_t)offset);
            free(made.memory);
            sv_layout_destroy(layout);
        }
}

/* What lies at fixed addresses (base 0) is cut in the largest units, whatever the address is made of. */
static void test_units_of_addresses(void)
{
    uint8_t *bases[1] = {NULL};
    sv_pack_shape_t box = {.base = (uint8_t *)(uintptr_t)4096, .element_bytes = 16, .ndims = 1, .dim = {{3, 64}}};
    sv_layout_t *layout;
    CHECK_STATUS(sv_layout_create(SV_LAYOUT_EXACT, &layout), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_layout_add_box(layout, 0, &box, SV_LAYOUT_STORE), SELVAGE_SUCCESS);
    made_t made = make(layout, bases);
    CHECK_EQ(made.pieces[0].granule, 16);
    CHECK_EQ(made.pieces[0].offset, 4096);
    free(made.memory);
    sv_layout_destroy(layout);
}

/* More bytes than one piece counts: pieces that follow each other, each where the box has got to. */
static void test_long_boxes(void)
{
    enum { ROW = 3 << 20, ROWS = 1000 };
    uint8_t *bases[2] = {NULL, (uint8_t *)(uintptr_t)4097};
    sv_pack_shape_t box = {.base = (uint8_t *)(uintptr_t)5, .element_bytes = 1, .ndims = 2,
                           .dim = {{ROW, 1}, {ROWS, ROW + 7}}};
    sv_layout_t *layout;
    uint64_t at = 0;
    CHECK_STATUS(sv_layout_create(SV_LAYOUT_ALIGNED, &layout), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_layout_add_box(layout, 1, &box, SV_LAYOUT_STORE), SELVAGE_SUCCESS);
    made_t made = make(layout, bases);
    CHECK_EQ(made.count, 3);
    for (uint32_t i = 0; i < made.count; i++) {
        const sv_piece_t *piece = &made.pieces[i];
        uint64_t unit = at / piece->granule, row = at / ROW;
        CHECK_EQ(piece->first_word, at / 8);
        CHECK_EQ(piece->levels, 1);
        CHECK_EQ((uint64_t)piece->offset, 5 + row * (ROW + 7));
        CHECK_EQ(piece->first_unit, unit - row * ROW);
        at += piece->bytes;
    }
    CHECK_EQ(at, (uint64_t)ROW * ROWS);
    free(made.memory);
    sv_layout_destroy(layout);
}

/* The parts of an exact stream: sizes of boxes one after the other, and how many parts are left of them. */
static void check_exact(const uint64_t *bytes, int count, uint32_t parts)
{
    sv_layout_t *layout;
    CHECK_STATUS(sv_layout_create(SV_LAYOUT_EXACT, &layout), SELVAGE_SUCCESS);
    for (int i = 0; i < count; i++) {
        sv_pack_shape_t box = {.base = (uint8_t *)(uintptr_t)(4096 * (i + 1)), .element_bytes = bytes[i] / 2,
                               .ndims = 1, .dim = {{2, (int64_t)bytes[i]}}};
        CHECK_STATUS(sv_layout_add_box(layout, 0, &box, SV_LAYOUT_STORE), SELVAGE_SUCCESS);
    }
    uint64_t all = sv_layout_bytes(layout), at = 0;
    CHECK_STATUS(sv_layout_close(layout), SELVAGE_SUCCESS);
    CHECK_EQ(layout->nparts, parts);
    for (uint32_t i = 0; i < layout->nparts; i++) {
        CHECK_EQ(layout->part[i].first_byte, at);
        CHECK_EQ(layout->part[i].first_byte % 8, 0);
        at += layout->part[i].bytes;
    }
    CHECK_EQ(at, all);
    CHECK_EQ(sv_layout_bytes(layout), all);
    sv_layout_destroy(layout);
}

/* Only parts between which a word of the stream would be divided become runs. */
static void test_exact_parts(void)
{
    check_exact((const uint64_t[]){32, 64, 48}, 3, 3);
    check_exact((const uint64_t[]){24, 64, 40}, 3, 3);
    check_exact((const uint64_t[]){24, 64, 12}, 3, 3);
    check_exact((const uint64_t[]){32, 12, 20, 64, 8}, 5, 4);
    check_exact((const uint64_t[]){4, 2, 64, 2, 800}, 5, 2);
    check_exact((const uint64_t[]){4, 64, 64}, 3, 1);
    check_exact((const uint64_t[]){64, 4, 64, 6, 6, 64, 10}, 7, 4);
}

/* --- a ring of combs: every other cell of base 1 goes to the cells between of the next rank's base 2 -------------- */

typedef struct ring {
    local_rank_t *self;
    selvage_exchange_t *ex;
    uint64_t *out, *in; /* the cells of so many sets of arrays */
    int sets;
    void *stream[2];
} ring_t;

static uint64_t value_of(int rank, int set, int i)
{
    return sv_digest_mix((uint64_t)rank * 1000003 + (uint64_t)set * 5003 + (uint64_t)i + 1);
}

/* A set begins odd cells after a multiple of 16 bytes. */
static uint64_t *set_of(uint64_t *arrays, int set, int odd)
{
    return arrays + (size_t)set * (size_t)(cells + 4) + odd;
}

static selvage_status_t bind(const ring_t *ring, int set, int odd)
{
    void *bases[2] = {set_of(ring->out, set, odd), set_of(ring->in, set, odd)};
    return sv_exchange_rebind(ring->ex, bases, 2);
}

static void open_ring(ring_t *ring, local_rank_t *self, int sets, int odd, selvage_route_t route,
                      sv_layout_number_t number)
{
    selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = route};
    int next = (self->rank + 1) % self->size, last = (self->rank + self->size - 1) % self->size;
    *ring = (ring_t){.self = self, .sets = sets, .out = cells_of(self, (size_t)sets * (size_t)(cells + 4)),
                     .in = cells_of(self, (size_t)sets * (size_t)(cells + 4))};
    memset(ring->in, 0, (size_t)sets * (size_t)(cells + 4) * sizeof *ring->in);
    for (int set = 0; set < sets; set++)
        for (int i = 0; i < cells; i++)
            set_of(ring->out, set, odd)[i] = value_of(self->rank, set, i);
    for (int s = 0; s < 2; s++)
        CHECK_STATUS(selvage_stream_create(self->dev, &ring->stream[s]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_create(self->comm, &params, &ring->ex), SELVAGE_SUCCESS);
    CHECK_STATUS(bind(ring, 0, odd), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_exchange_add_send_layout(ring->ex, comb(1, 0, (uint64_t)cells / 2, SV_LAYOUT_STORE), next, 1, NULL),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(sv_exchange_add_recv_layout(ring->ex, comb(2, 1, (uint64_t)cells / 2, number), last, 1, NULL),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_commit(ring->ex), SELVAGE_SUCCESS);
}

static void close_ring(ring_t *ring)
{
    selvage_exchange_destroy(ring->ex);
    for (int s = 0; s < 2; s++)
        selvage_stream_destroy(ring->self->dev, ring->stream[s]);
    selvage_device_free(ring->self->dev, ring->out);
    selvage_device_free(ring->self->dev, ring->in);
}

/* What came into a set, times times added. */
static void check_set(const ring_t *ring, int set, int odd, uint64_t times)
{
    int last = (ring->self->rank + ring->self->size - 1) % ring->self->size, wrong = 0;
    const uint64_t *in = set_of(ring->in, set, odd);
    for (int i = 0; i < cells; i++)
        wrong += in[i] != (i % 2 ? times * value_of(last, set, i - 1) : 0);
    CHECK_EQ(wrong, 0);
}

/* Arrays swap for ever, whichever of them is more aligned than the one that was there at commit; never less. */
static void alternate(local_rank_t *self)
{
    ring_t ring;
    void *bad[2];
    open_ring(&ring, self, 2, 1, SELVAGE_ROUTE_DEFAULT, SV_LAYOUT_STORE);
    for (int i = 0; i < cells; i++) /* the second set begins at a multiple of 16 */
        set_of(ring.out, 1, 0)[i] = value_of(self->rank, 1, i);
    for (int epoch = 0; epoch < 4; epoch++) {
        int set = epoch % 2;
        CHECK_STATUS(bind(&ring, set, 1 - set), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_start(ring.ex, ring.stream[0]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_wait(ring.ex, ring.stream[0]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, ring.stream[0]), SELVAGE_SUCCESS);
        check_set(&ring, set, 1 - set, 1);
    }
    bad[0] = (uint8_t *)set_of(ring.out, 0, 1) + 4;
    bad[1] = set_of(ring.in, 0, 1);
    CHECK_STATUS(sv_exchange_rebind(ring.ex, bad, 2), SELVAGE_ERR_ARGUMENT);
    close_ring(&ring);
}

/* More sets than the device keeps, one per epoch, and no host between the epochs. */
static void swap_enqueued(local_rank_t *self)
{
    const scene_t *scene = self->arg;
    ring_t ring;
    open_ring(&ring, self, SETS, 0, scene->route, scene->number);
    for (int set = 0; set < SETS; set++) {
        CHECK_STATUS(bind(&ring, set, 0), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_start(ring.ex, ring.stream[0]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_enqueue_wait(ring.ex, ring.stream[0]), SELVAGE_SUCCESS);
    }
    CHECK_STATUS(selvage_stream_synchronize(self->dev, ring.stream[0]), SELVAGE_SUCCESS);
    for (int set = 0; set < SETS; set++)
        check_set(&ring, set, 0, 1);
    close_ring(&ring);
}

/* The host comes to swap while a push of its own waits for a neighbour, who waits for another exchange of this rank. */
static void swap_in_between(local_rank_t *self)
{
    enum { OTHER_BYTES = 1 << 20 };
    selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = SELVAGE_ROUTE_STAGED};
    ring_t ring;
    selvage_exchange_t *other;
    void *out = cells_of(self, OTHER_BYTES / 8), *in = cells_of(self, OTHER_BYTES / 8);
    open_ring(&ring, self, SV_LAYOUT_SETS, 0, SELVAGE_ROUTE_DEFAULT, SV_LAYOUT_STORE);
    CHECK_STATUS(selvage_exchange_create(self->comm, &params, &other), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_send(other, out, OTHER_BYTES, 1 - self->rank, 2, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_add_recv(other, in, OTHER_BYTES, 1 - self->rank, 2, NULL), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_commit(other), SELVAGE_SUCCESS);
    for (int set = 0; set < SV_LAYOUT_SETS; set++) {
        if (set == 2)
            CHECK_STATUS(selvage_exchange_start(other, ring.stream[1]), SELVAGE_SUCCESS);
        if (set == 2 && self->rank == 1)
            CHECK_STATUS(selvage_exchange_wait(other, ring.stream[1]), SELVAGE_SUCCESS);
        CHECK_STATUS(bind(&ring, set, 0), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_start(ring.ex, ring.stream[0]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_enqueue_wait(ring.ex, ring.stream[0]), SELVAGE_SUCCESS);
    }
    CHECK_STATUS(selvage_exchange_wait(other, ring.stream[1]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_wait(ring.ex, ring.stream[0]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, ring.stream[0]), SELVAGE_SUCCESS);
    for (int set = 0; set < SV_LAYOUT_SETS; set++)
        check_set(&ring, set, 0, 1);
    selvage_exchange_destroy(other);
    selvage_device_free(self->dev, out);
    selvage_device_free(self->dev, in);
    close_ring(&ring);
}

/* A stream that waits after one that has not got so far sees what the other was given to do. */
static void wait_elsewhere(local_rank_t *self)
{
    const scene_t *scene = self->arg;
    ring_t ring;
    open_ring(&ring, self, 1, 0, scene->route, scene->number);
    for (uint64_t epoch = 1; epoch <= 3; epoch++) {
        CHECK_STATUS(selvage_exchange_start(ring.ex, ring.stream[0]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_device_delay_us(self->dev, LATE_US, ring.stream[0]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_enqueue_wait(ring.ex, ring.stream[0]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_wait(ring.ex, ring.stream[1]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, ring.stream[1]), SELVAGE_SUCCESS);
        check_set(&ring, 0, 0, scene->number == SV_LAYOUT_STORE ? 1 : epoch);
    }
    close_ring(&ring);
}

/* Of who is to give up: between two of its calls a thread may stand still for seconds on a crowded machine. */
enum { SOON_S = 5, LATE_S = 60 };

static _Atomic bool went_on;

/* The stream goes on at the deadline, without the data: then nothing is unpacked, and the next call says so. */
static void hold_too_long(local_rank_t *self)
{
    ring_t ring;
    selvage_status_t status;
    open_ring(&ring, self, 1, 0, SELVAGE_ROUTE_DEFAULT, SV_LAYOUT_ADD_INT64);
    local_ranks_deadline(self, NULL, self->rank == 0 ? SOON_S : LATE_S);
    while (self->rank == 1 && !atomic_load(&went_on))
        usleep(1000);
    CHECK_STATUS(selvage_exchange_start(ring.ex, ring.stream[0]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_enqueue_wait(ring.ex, ring.stream[0]), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, ring.stream[0]), SELVAGE_SUCCESS);
    atomic_store(&went_on, true);
    while (sv_exchange_state(ring.ex) == SV_EXCHANGE_RUNNING) /* until the neighbour has come after all */
        usleep(1000);
    status = selvage_exchange_test(ring.ex, ring.stream[0]);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, ring.stream[0]), SELVAGE_SUCCESS);
    if (self->rank == 0) {
        CHECK_STATUS(status, SELVAGE_ERR_TIMEOUT);
        check_set(&ring, 0, 0, 0);
    }
    close_ring(&ring);
}

/* Whoever starts again does not wait longer than the stream was held, though nobody comes. */
static void hold_for_nothing(local_rank_t *self)
{
    ring_t ring;
    open_ring(&ring, self, 1, 0, SELVAGE_ROUTE_DEFAULT, SV_LAYOUT_STORE);
    local_ranks_deadline(self, NULL, SOON_S);
    if (self->rank == 0) {
        const uint64_t begin_ns = sv_clock_ns();
        CHECK_STATUS(selvage_exchange_start(ring.ex, ring.stream[0]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_enqueue_wait(ring.ex, ring.stream[0]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_start(ring.ex, ring.stream[0]), SELVAGE_ERR_TIMEOUT);
        CHECK((double)(sv_clock_ns() - begin_ns) < 40e9);
    }
    local_ranks_barrier(self);
    close_ring(&ring);
}

/* The neighbour has given up, which start finds out when its work is on the stream already: destroy waits for that. */
static void destroy_packing(local_rank_t *self)
{
    enum { OTHERS = 40, OTHERS_BYTES = 4096 };
    ring_t ring;
    uint8_t *other[OTHERS];
    int wrong = 0;
    open_ring(&ring, self, 1, 0, SELVAGE_ROUTE_STAGED, SV_LAYOUT_STORE);
    if (self->rank == 0) {
        CHECK_STATUS(selvage_exchange_start(ring.ex, ring.stream[0]), SELVAGE_SUCCESS);
    } else {
        while (!ring.ex->failure.lost_epoch)
            CHECK_STATUS(selvage_progress(self->comm), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_device_delay_us(self->dev, 5 * LATE_US, ring.stream[0]), SELVAGE_SUCCESS);
        CHECK(selvage_exchange_start(ring.ex, ring.stream[0]) != SELVAGE_SUCCESS);
    }
    selvage_exchange_destroy(ring.ex);
    ring.ex = NULL;
    for (int i = 0; i < OTHERS; i++) { /* the memory is another's from now on */
        CHECK_STATUS(selvage_device_malloc(self->dev, OTHERS_BYTES, (void **)&other[i]), SELVAGE_SUCCESS);
        memset(other[i], 0x5a, OTHERS_BYTES);
    }
    CHECK_STATUS(selvage_stream_synchronize(self->dev, ring.stream[0]), SELVAGE_SUCCESS);
    for (int i = 0; i < OTHERS; i++) {
        for (int b = 0; b < OTHERS_BYTES; b++)
            wrong += other[i][b] != 0x5a;
        selvage_device_free(self->dev, other[i]);
    }
    CHECK_EQ(wrong, 0);
    close_ring(&ring);
}

/* A cell that one packet stores and another adds to: first the one, then the other, in whatever order they are. */
static void store_and_add(local_rank_t *self)
{
    ring_t ring;
    open_ring(&ring, self, 1, 0, SELVAGE_ROUTE_STAGED, SV_LAYOUT_ADD_INT64);
    selvage_exchange_destroy(ring.ex);
    void *bases[2] = {ring.out, ring.in};
    selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = SELVAGE_ROUTE_STAGED};
    CHECK_STATUS(selvage_exchange_create(self->comm, &params, &ring.ex), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_exchange_rebind(ring.ex, bases, 2), SELVAGE_SUCCESS);
    for (int i = 0; i < 3; i++) {
        sv_layout_number_t number = i == 1 ? SV_LAYOUT_STORE : SV_LAYOUT_ADD_INT64;
        CHECK_STATUS(sv_exchange_add_send_layout(ring.ex, comb(1, 0, (uint64_t)cells / 2, SV_LAYOUT_STORE), 0, i, NULL),
                     SELVAGE_SUCCESS);
        CHECK_STATUS(sv_exchange_add_recv_layout(ring.ex, comb(2, 1, (uint64_t)cells / 2, number), 0, i, NULL),
                     SELVAGE_SUCCESS);
    }
    CHECK_STATUS(selvage_exchange_commit(ring.ex), SELVAGE_SUCCESS);
    for (int epoch = 0; epoch < 2; epoch++) {
        CHECK_STATUS(selvage_exchange_start(ring.ex, ring.stream[0]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_exchange_wait(ring.ex, ring.stream[0]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, ring.stream[0]), SELVAGE_SUCCESS);
        check_set(&ring, 0, 0, 3);
    }
    close_ring(&ring);
}

static void play(const char *env, int size, void (*body)(local_rank_t *), selvage_route_t route,
                 sv_layout_number_t number, bool log_expected)
{
    scene_t scene = {route, number};
    long failed = atomic_load(&check_failed_);
    local_ranks_env(env);
    local_ranks_run(&(local_run_t){.size = size, .body = body, .arg = &scene, .log_expected = log_expected});
    if (atomic_load(&check_failed_) != failed)
        fprintf(stderr, "-- %s: %d ranks, route %s, number %d\n", env, size, selvage_route_name(route), (int)number);
}

int main(void)
{
    static const char *const progress[] = {"", "PROGRESS=thread"};
    test_units_of_any_base();
    test_units_of_addresses();
    test_long_boxes();
    test_exact_parts();
    play("", 1, alternate, SELVAGE_ROUTE_DEFAULT, SV_LAYOUT_STORE, true);
    for (int i = 0; i < 2; i++) {
        play(progress[i], 2, swap_enqueued, SELVAGE_ROUTE_DEFAULT, SV_LAYOUT_STORE, false);
        play(progress[i], 2, swap_enqueued, SELVAGE_ROUTE_DEFAULT, SV_LAYOUT_ADD_INT64, false);
        play(progress[i], 2, wait_elsewhere, SELVAGE_ROUTE_DEFAULT, SV_LAYOUT_ADD_INT64, false);
        play(progress[i], 2, wait_elsewhere, SELVAGE_ROUTE_DEFAULT, SV_LAYOUT_STORE, false);
    }
    cells = LARGE;
    play("SEGMENT_BYTES=4096 TIMEOUT_S=5", 2, swap_in_between, SELVAGE_ROUTE_DEFAULT, SV_LAYOUT_STORE, false);
    cells = SMALL;
    play("KERNEL_COPY_MAX_BYTES=0", 1, store_and_add, SELVAGE_ROUTE_STAGED, SV_LAYOUT_ADD_INT64, false);
    play("KERNEL_COPY_MAX_BYTES=0 TIMEOUT_S=5", 2, destroy_packing, SELVAGE_ROUTE_STAGED, SV_LAYOUT_STORE, true);
    play("PROGRESS=thread TIMEOUT_S=60", 2, hold_too_long, SELVAGE_ROUTE_DEFAULT, SV_LAYOUT_ADD_INT64, true);
    play("PROGRESS=thread TIMEOUT_S=60", 2, hold_for_nothing, SELVAGE_ROUTE_DEFAULT, SV_LAYOUT_STORE, true);
    return check_report("test_exchange_layout_edges");
}
