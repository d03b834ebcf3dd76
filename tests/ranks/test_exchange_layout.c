/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that lie in pieces. A seed decides ranks, routes, pieces (boxes, lists, runs), where they lie at either end
 * and how bases move between epochs; the reference is the place of every single byte of the stream. Both ends have the
 * same streams in memory of different shape, and every byte beside them must stay as it was. On a GPU there is
 * one rank. Usage: test_exchange_layout [seed...]
 */
#include <stdlib.h>
#include <string.h>

#include "base/base_status.h"
#include "fixtures/check.h"
#include "fixtures/local_ranks.h"
#include "pipeline/pipe_exchange.h"

enum { BASES = 3, ARRAY_BYTES = 1 << 18, PIECES = 4, PACKETS = 6, EPOCHS = 4, CASES = 24, SPARE = 64, HURT = 6 };

/* One end of a packet: where each byte of its stream lies, as an offset into the array of its base; -1: padding. */
typedef struct end {
    uint64_t bytes;
    int64_t *place;
    int *base;
} end_t;

typedef struct chaos {
    uint64_t seed;
    int size;
    selvage_exchange_params_t params;
    bool exact, enqueue;
    struct {
        int source, destination;
        uint64_t seed; /* of the shapes of its pieces */
    } packet[PACKETS];
    unsigned npackets;
} chaos_t;

/* What a rank has: arrays A and B for every base, what they hold and must hold, and how far each is used up. */
typedef struct arrays {
    uint8_t *now[BASES], *other[BASES], *seen[BASES], *want[BASES];
    size_t used[BASES];
} arrays_t;

typedef struct shape {
    unsigned element, count[3], kind;
} shape_t;

static uint64_t ranks_max = 4;

static uint8_t pattern(uint64_t seed, uint64_t epoch, uint64_t k)
{
    return (uint8_t)(sv_digest_mix(seed + epoch * 0x10001 + k * 0x9e3779b97f4a7c15u) >> 17);
}

static shape_t random_shape(uint64_t *state, bool exact)
{
    static const unsigned elements[] = {1, 2, 3, 4, 8, 12, 16, 24, 32, 5};
    shape_t shape = {.element = elements[local_ranks_random(state, 10)]};
    for (int d = 0; d < 3; d++)
        shape.count[d] = 1 + (unsigned)local_ranks_random(state, local_ranks_random(state, 4) ? 7 : 40);
    shape.kind = (unsigned)local_ranks_random(state, exact ? 3 : 2);
    return shape;
}

static void note(end_t *end, int base, int64_t offset, unsigned bytes)
{
    for (unsigned b = 0; b < bytes; b++, end->bytes++) {
        end->place[end->bytes] = offset + b;
        end->base[end->bytes] = base;
    }
}

static void pad(end_t *end)
{
    while (end->bytes % 16)
        end->place[end->bytes++] = -1;
}

/* A box whose dimensions lie in memory in any order, with gaps; returns the bytes that it takes. */
static size_t add_box(sv_layout_t *layout, int base, int64_t at, const shape_t *s, uint64_t *state, end_t *end)
{
    unsigned order[3] = {0, 1, 2};
    sv_pack_shape_t box = {.base = (uint8_t *)(intptr_t)at, .element_bytes = s->element, .ndims = 3};
    size_t extent = s->element + s->element * local_ranks_random(state, 2);
    for (int i = 2; i > 0; i--) {
        unsigned j = (unsigned)local_ranks_random(state, (uint64_t)i + 1), held = order[i];
        order[i] = order[j];
        order[j] = held;
    }
    for (int i = 0; i < 3; i++) {
        unsigned d = order[i];
        box.dim[d] = (sv_pack_dim_t){s->count[d], (int64_t)extent};
        extent = extent * s->count[d] + s->element * local_ranks_random(state, 2);
    }
    CHECK_STATUS(sv_layout_add_box(layout, (uint32_t)base, &box, SV_LAYOUT_STORE), SELVAGE_SUCCESS);
    for (unsigned z = 0; z < s->count[2]; z++)
        for (unsigned y = 0; y < s->count[1]; y++)
            for (unsigned x = 0; x < s->count[0]; x++)
                note(end, base, at + x * box.dim[0].stride_bytes + y * box.dim[1].stride_bytes +
                     z * box.dim[2].stride_bytes, s->element);
    return extent;
}

/* Elements in an order of their own, every other place free. */
static size_t add_list(sv_layout_t *layout, int base, int64_t at, const shape_t *s, uint64_t *state, end_t *end)
{
    uint64_t count = (uint64_t)s->count[0] * s->count[1] * s->count[2];
    int64_t *offsets = calloc(count, sizeof *offsets);
    for (uint64_t i = 0; i < count; i++)
        offsets[i] = at + (int64_t)(2 * i * s->element);
    for (uint64_t i = count - 1; i > 0; i--) {
        uint64_t j = local_ranks_random(state, i + 1);
        int64_t held = offsets[i];
        offsets[i] = offsets[j];
        offsets[j] = held;
    }
    CHECK_STATUS(sv_layout_add_list(layout, (uint32_t)base, s->element, offsets, count, SV_LAYOUT_STORE),
                 SELVAGE_SUCCESS);
    for (uint64_t i = 0; i < count; i++)
        note(end, base, offsets[i], s->element);
    free(offsets);
    return 2 * count * s->element;
}

/* The same bytes in runs of any length. */
static size_t add_runs(sv_layout_t *layout, int base, int64_t at, const shape_t *s, uint64_t *state, end_t *end)
{
    uint64_t left = (uint64_t)s->element * s->count[0] * s->count[1] * s->count[2], n = 0;
    sv_layout_run_t *runs = calloc(left, sizeof *runs);
    int64_t from = at;
    for (; left > 0; n++) {
        uint64_t bytes = 1 + local_ranks_random(state, left < 50 ? left : 50);
        runs[n] = (sv_layout_run_t){at, bytes};
        note(end, base, at, (unsigned)bytes);
        at += (int64_t)(bytes + local_ranks_random(state, 3));
        left -= bytes;
    }
    CHECK_STATUS(sv_layout_add_runs(layout, (uint32_t)base, runs, n), SELVAGE_SUCCESS);
    free(runs);
    return (size_t)(at - from);
}

/* The pieces of a packet are the same at both ends; where they lie is not. exact: all of it on one base. */
static end_t make_end(const chaos_t *chaos, uint64_t shapes, uint64_t *places, arrays_t *arrays, sv_layout_t **layout)
{
    end_t end = {.place = calloc(1 << 20, sizeof(int64_t)), .base = calloc(1 << 20, sizeof(int))};
    int base = (int)local_ranks_random(places, BASES);
    CHECK_STATUS(sv_layout_create(chaos->exact ? SV_LAYOUT_EXACT : SV_LAYOUT_ALIGNED, layout), SELVAGE_SUCCESS);
    unsigned count = 1 + (unsigned)local_ranks_random(&shapes, PIECES);
    for (unsigned i = 0; i < count; i++) {
        shape_t s = random_shape(&shapes, chaos->exact);
        if (!chaos->exact)
            base = (int)local_ranks_random(places, BASES);
        if ((size_t)s.element * s.count[0] * s.count[1] * s.count[2] > ARRAY_BYTES / 64)
            s = (shape_t){.element = 8, .count = {3, 3, 3}};
        int64_t at = (int64_t)((arrays->used[base] + 15) / 16 * 16 + local_ranks_random(places, 3) * 8);
        size_t took = s.kind == 0 ? add_box(*layout, base + 1, at, &s, places, &end)
                      : s.kind == 1 ? add_list(*layout, base + 1, at, &s, places, &end)
                                    : add_runs(*layout, base + 1, at, &s, places, &end);
        arrays->used[base] = (size_t)at + took + SPARE;
        CHECK(arrays->used[base] < ARRAY_BYTES);
        if (!chaos->exact)
            pad(&end);
    }
    CHECK_EQ(sv_layout_bytes(*layout), end.bytes);
    return end;
}

static void forget_end(end_t *end)
{
    free(end->place);
    free(end->base);
}

static void put(local_rank_t *self, void *device, const void *host, size_t bytes, void *stream)
{
    CHECK_STATUS(selvage_device_copy(self->dev, device, host, bytes, SELVAGE_COPY_HOST_TO_DEVICE, stream),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, stream), SELVAGE_SUCCESS);
}

static void get(local_rank_t *self, void *host, const void *device, size_t bytes, void *stream)
{
    CHECK_STATUS(selvage_device_copy(self->dev, host, device, bytes, SELVAGE_COPY_DEVICE_TO_HOST, stream),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(self->dev, stream), SELVAGE_SUCCESS);
}

static void write_stream(const end_t *end, uint64_t seed, uint64_t epoch, uint8_t *const *to)
{
    for (uint64_t k = 0; k < end->bytes; k++)
        if (end->place[k] >= 0)
            to[end->base[k] - 1][end->place[k]] = pattern(seed, epoch, k);
}

static void swap_arrays(arrays_t *arrays)
{
    for (int b = 0; b < BASES; b++) {
        uint8_t *held = arrays->now[b];
        arrays->now[b] = arrays->other[b];
        arrays->other[b] = held;
    }
}

static void make_arrays(local_rank_t *self, arrays_t *arrays)
{
    for (int b = 0; b < BASES; b++) {
        CHECK_STATUS(selvage_device_malloc(self->dev, ARRAY_BYTES, (void **)&arrays->now[b]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_device_malloc(self->dev, ARRAY_BYTES, (void **)&arrays->other[b]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_device_host_malloc(self->dev, ARRAY_BYTES, (void **)&arrays->seen[b]), SELVAGE_SUCCESS);
        arrays->want[b] = malloc(ARRAY_BYTES);
    }
}

static void free_arrays(local_rank_t *self, arrays_t *arrays)
{
    for (int b = 0; b < BASES; b++) {
        selvage_device_free(self->dev, arrays->now[b]);
        selvage_device_free(self->dev, arrays->other[b]);
        selvage_device_host_free(self->dev, arrays->seen[b]);
        free(arrays->want[b]);
    }
}

/* One epoch: sources are written, everything else is noise, and afterwards exactly the receives have changed. */
static void run_epoch(local_rank_t *self, const chaos_t *chaos, selvage_exchange_t *ex, arrays_t *arrays, end_t *sends,
                      end_t *recvs, uint64_t epoch, void *stream)
{
    for (int b = 0; b < BASES; b++)
        for (size_t i = 0; i < ARRAY_BYTES; i++)
            arrays->seen[b][i] = (uint8_t)(i * 7 + epoch);
    for (unsigned i = 0; i < chaos->npackets; i++)
        if (chaos->packet[i].source == self->rank)
            write_stream(&sends[i], chaos->packet[i].seed, epoch, arrays->seen);
    for (int b = 0; b < BASES; b++) {
        put(self, arrays->now[b], arrays->seen[b], ARRAY_BYTES, stream);
        memcpy(arrays->want[b], arrays->seen[b], ARRAY_BYTES);
    }
    for (unsigned i = 0; i < chaos->npackets; i++)
        if (chaos->packet[i].destination == self->rank)
            write_stream(&recvs[i], chaos->packet[i].seed, epoch, arrays->want);
    if (chaos->enqueue && (epoch + chaos->seed) % 2) {
        CHECK_STATUS(selvage_exchange_run(ex, stream), SELVAGE_SUCCESS);
    } else {
        CHECK_STATUS(selvage_exchange_start(ex, stream), SELVAGE_SUCCESS);
        CHECK_STATUS(chaos->enqueue ? selvage_exchange_enqueue_wait(ex, stream) : selvage_exchange_wait(ex, stream),
                     SELVAGE_SUCCESS);
    }
    for (int b = 0; b < BASES; b++)
        get(self, arrays->seen[b], arrays->now[b], ARRAY_BYTES, stream);
    for (int b = 0; b < BASES; b++)
        for (size_t i = 0; i < ARRAY_BYTES; i++)
            if (arrays->seen[b][i] != arrays->want[b][i]) {
                fprintf(stderr, "seed %llu, rank %d, epoch %llu, base %d: byte %zu is %02x, not %02x\n",
                        (unsigned long long)chaos->seed, self->rank, (unsigned long long)epoch, b, i,
                        arrays->seen[b][i], arrays->want[b][i]);
                CHECK(false);
                return;
            }
}

static void chaos_body(local_rank_t *self)
{
    const chaos_t *chaos = self->arg;
    uint64_t places = chaos->seed * 1000 + (uint64_t)self->rank;
    end_t sends[PACKETS] = {0}, recvs[PACKETS] = {0};
    arrays_t arrays = {0};
    selvage_exchange_t *ex;
    void *stream;
    make_arrays(self, &arrays);
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_create(self->comm, &chaos->params, &ex), SELVAGE_SUCCESS);
    for (unsigned i = 0; i < chaos->npackets; i++) {
        sv_layout_t *layout;
        if (chaos->packet[i].source == self->rank) {
            sends[i] = make_end(chaos, chaos->packet[i].seed, &places, &arrays, &layout);
            CHECK_STATUS(sv_exchange_add_send_layout(ex, layout, chaos->packet[i].destination, (int)i, NULL),
                         SELVAGE_SUCCESS);
        }
        if (chaos->packet[i].destination == self->rank) {
            recvs[i] = make_end(chaos, chaos->packet[i].seed, &places, &arrays, &layout);
            CHECK_STATUS(sv_exchange_add_recv_layout(ex, layout, chaos->packet[i].source, (int)i, NULL),
                         SELVAGE_SUCCESS);
        }
    }
    CHECK_STATUS(sv_exchange_rebind(ex, (void *const *)arrays.now, BASES), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_SUCCESS);
    for (uint64_t epoch = 1; epoch <= EPOCHS; epoch++) {
        run_epoch(self, chaos, ex, &arrays, sends, recvs, epoch, stream);
        swap_arrays(&arrays);
        CHECK_STATUS(sv_exchange_rebind(ex, (void *const *)arrays.now, BASES), SELVAGE_SUCCESS);
    }
    selvage_exchange_destroy(ex);
    for (unsigned i = 0; i < PACKETS; i++) {
        forget_end(&sends[i]);
        forget_end(&recvs[i]);
    }
    selvage_stream_destroy(self->dev, stream);
    free_arrays(self, &arrays);
}

static void run_case(uint64_t seed, bool hurt)
{
    static const selvage_route_t routes[] = {SELVAGE_ROUTE_DEFAULT, SELVAGE_ROUTE_SHARED, SELVAGE_ROUTE_STAGED};
    static const char *const settings[] = {"", "SOFT_BLOCKS=3", "SEGMENT_BYTES=4096", "KERNEL_COPY_MAX_BYTES=0"};
    uint64_t state = seed;
    chaos_t chaos = {.seed = seed, .size = 1 + (int)local_ranks_random(&state, ranks_max),
                     .params = {SELVAGE_EXCHANGE_PARAMS_INIT}};
    chaos.params.route = routes[local_ranks_random(&state, 3)];
    chaos.params.checksum = local_ranks_random(&state, 4) ? SELVAGE_CHECKSUM_DEFAULT : SELVAGE_CHECKSUM_OFF;
    chaos.exact = local_ranks_random(&state, 2);
    chaos.enqueue = chaos.params.route == SELVAGE_ROUTE_DEFAULT && local_ranks_random(&state, 2);
    chaos.npackets = 1 + (unsigned)local_ranks_random(&state, PACKETS);
    for (unsigned i = 0; i < chaos.npackets; i++) {
        chaos.packet[i].source = (int)local_ranks_random(&state, (uint64_t)chaos.size);
        chaos.packet[i].destination = (int)local_ranks_random(&state, (uint64_t)chaos.size);
        chaos.packet[i].seed = local_ranks_random(&state, 1 << 30);
    }
    if (hurt) { /* what arrives damaged or not at all is sent again, and is right in the end */
        chaos.params.checksum = SELVAGE_CHECKSUM_RETRY;
        chaos.enqueue = false;
    }
    local_ranks_env(hurt ? "FAULT=flip=0.3,drop=0.1,swap=0.1 RETRY_TIMEOUT_MS=20"
                         : settings[local_ranks_random(&state, 4)]);
    local_ranks_run(&(local_run_t){.size = chaos.size, .body = chaos_body, .arg = &chaos, .log_expected = hurt});
}

/* --- adding ------------------------------------------------------------------------------------------------------- */

enum { CELLS = 500, PARTS = 5 };

/* Part p of every packet adds to the cells from 40 p to 40 p + 120, so that neighbours overlap: their order counts. */
static void add_parts(selvage_exchange_t *ex, bool is_send, int peer, int tag, sv_layout_number_t number,
                      unsigned bytes)
{
    sv_layout_t *layout;
    CHECK_STATUS(sv_layout_create(SV_LAYOUT_ALIGNED, &layout), SELVAGE_SUCCESS);
    for (unsigned p = 0; p < PARTS; p++) {
        sv_pack_shape_t box = {.base = (uint8_t *)(uintptr_t)(40 * p * bytes), .element_bytes = bytes, .ndims = 1,
                               .dim = {{41, 3 * (int64_t)bytes}}};
        CHECK_STATUS(sv_layout_add_box(layout, is_send ? 1 : 2, &box, is_send ? SV_LAYOUT_STORE : number),
                     SELVAGE_SUCCESS);
    }
    CHECK_STATUS(is_send ? sv_exchange_add_send_layout(ex, layout, peer, tag, NULL)
                         : sv_exchange_add_recv_layout(ex, layout, peer, tag, NULL), SELVAGE_SUCCESS);
}

typedef struct adding {
    sv_layout_number_t number;
    unsigned bytes;
    selvage_route_t route;
} adding_t;

static double value_of(int rank, unsigned i)
{
    return (double)((i * 37 + (unsigned)rank * 101) % 97) / 8 * (i % 5 ? 1 : 1e7);
}

static void store(void *array, const adding_t *a, unsigned i, double value)
{
    switch (a->number) {
    case SV_LAYOUT_ADD_FLOAT32: ((float *)array)[i] = (float)value; break;
    case SV_LAYOUT_ADD_FLOAT64: ((double *)array)[i] = value; break;
    case SV_LAYOUT_ADD_INT32: ((uint32_t *)array)[i] = (uint32_t)(value * 1000); break;
    default: ((uint64_t *)array)[i] = (uint64_t)(value * 1e9); break;
    }
}

static void add_to(void *array, const adding_t *a, unsigned i, const void *other, unsigned j)
{
    switch (a->number) {
    case SV_LAYOUT_ADD_FLOAT32: ((float *)array)[i] += ((const float *)other)[j]; break;
    case SV_LAYOUT_ADD_FLOAT64: ((double *)array)[i] += ((const double *)other)[j]; break;
    case SV_LAYOUT_ADD_INT32: ((uint32_t *)array)[i] += ((const uint32_t *)other)[j]; break;
    default: ((uint64_t *)array)[i] += ((const uint64_t *)other)[j]; break;
    }
}

static void adding_body(local_rank_t *self)
{
    const adding_t *a = self->arg;
    void *from, *to, *bases[2], *image, *theirs = calloc(CELLS, 8), *want = calloc(CELLS, 8);
    selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = a->route};
    selvage_exchange_t *ex;
    CHECK_STATUS(selvage_device_malloc(self->dev, CELLS * 8, &from), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(self->dev, CELLS * 8, &to), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_host_malloc(self->dev, CELLS * 8, &image), SELVAGE_SUCCESS);
    bases[0] = from;
    bases[1] = to;
    CHECK_STATUS(selvage_exchange_create(self->comm, &params, &ex), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_exchange_rebind(ex, bases, 2), SELVAGE_SUCCESS);
    for (int peer = 0; peer < self->size; peer++) {
        add_parts(ex, true, peer, 7, a->number, a->bytes);
        add_parts(ex, false, peer, 7, a->number, a->bytes);
    }
    CHECK_STATUS(selvage_exchange_commit(ex), SELVAGE_SUCCESS);
    for (unsigned i = 0; i < CELLS; i++) {
        store(image, a, i, value_of(self->rank, i));
        store(want, a, i, value_of(9, i));
    }
    put(self, from, image, CELLS * 8, NULL);
    put(self, to, want, CELLS * 8, NULL);
    for (int epoch = 0; epoch < 3; epoch++) {
        for (int peer = 0; peer < self->size; peer++) {
            for (unsigned i = 0; i < CELLS; i++)
                store(theirs, a, i, value_of(peer, i));
            for (unsigned p = 0; p < PARTS; p++)
                for (unsigned i = 0; i < 41; i++)
                    add_to(want, a, 40 * p + 3 * i, theirs, 40 * p + 3 * i);
        }
        CHECK_STATUS(selvage_exchange_start(ex, NULL), SELVAGE_SUCCESS);
        CHECK_STATUS(epoch == 1 && a->route == SELVAGE_ROUTE_DEFAULT ? selvage_exchange_enqueue_wait(ex, NULL)
                                                                     : selvage_exchange_wait(ex, NULL),
                     SELVAGE_SUCCESS);
        get(self, image, to, CELLS * 8, NULL);
        CHECK_EQ(memcmp(image, want, CELLS * a->bytes), 0);
    }
    selvage_exchange_destroy(ex);
    selvage_device_free(self->dev, from);
    selvage_device_free(self->dev, to);
    selvage_device_host_free(self->dev, image);
    free(theirs);
    free(want);
}

static void test_adding(void)
{
    static const unsigned bytes[] = {0, 4, 8, 4, 8};
    static const selvage_route_t routes[] = {SELVAGE_ROUTE_DEFAULT, SELVAGE_ROUTE_STAGED, SELVAGE_ROUTE_SHARED};
    for (int n = SV_LAYOUT_ADD_FLOAT32; n <= SV_LAYOUT_ADD_INT64; n++)
        for (int r = 0; r < 3; r++) {
            adding_t adding = {(sv_layout_number_t)n, bytes[n], routes[r]};
            local_ranks_env(r == 0 ? "SOFT_BLOCKS=3" : "");
            int size = ranks_max == 1 ? 1 : 1 + n % 3;
            local_ranks_run(&(local_run_t){.size = size, .body = adding_body, .arg = &adding});
        }
}

/* The device that SELVAGE_DEVICE names is kept; ranks that are threads of one process cannot share a GPU. */
static void choose_device(void)
{
    const char *name = getenv("SELVAGE_DEVICE"), *path = getenv("SELVAGE_DEVICE_PATH");
    static char mode[4200];
    if (!name || strcmp(name, "soft") == 0)
        return;
    ranks_max = 1;
    snprintf(mode, sizeof mode, "DEVICE=%s%s%s", name, path ? " DEVICE_PATH=" : "", path ? path : "");
    local_ranks_mode(mode);
}

int main(int argc, char **argv)
{
    choose_device();
    for (int i = 1; i < argc; i++)
        run_case(strtoull(argv[i], NULL, 10), false);
    for (uint64_t seed = 1; argc == 1 && seed <= CASES; seed++)
        run_case(seed, seed > CASES - HURT);
    if (argc == 1)
        test_adding();
    return check_report("test_exchange_layout");
}
