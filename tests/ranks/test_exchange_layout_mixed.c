/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets of which both ends, one or none lie in pieces: every rank sends all kinds and sizes of them to every rank,
 * itself too, by every route, into registered and unaligned memory, with faults at all ranks or at one, late, and where
 * mappings fail. Every byte of the memory that is received into is known. Usage: test_exchange_layout_mixed [scene...]
 */
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include "fixtures/local_ranks.h"
#include "pipeline/pipe_exchange.h"

enum { SIZES = 4, KINDS = 4, PER_PAIR = SIZES * KINDS, EPOCHS = 3, RANKS_MAX = 3, ROOM = 80128, ELEMENT = 8 };
enum { SEND_IN_PIECES = 1, RECV_IN_PIECES = 2 };

static const size_t sizes[SIZES] = {0, 24, 4104, 40000};

typedef enum ending { END_WAIT, END_TEST, END_ENQUEUE } ending_t;

typedef struct scene {
    const char *env;
    int size;
    selvage_route_t route;
    selvage_checksum_t checksum;
    ending_t ending;
    bool one_armed;  /* faults are injected by rank 0 only */
    unsigned late_us; /* by which the stream of odd ranks is late */
    bool log_expected;
} scene_t;

typedef struct mixed {
    local_rank_t *self;
    const scene_t *scene;
    selvage_exchange_t *ex;
    uint8_t *out, *in;
    selvage_buffer_t *buffer[RANKS_MAX * PER_PAIR];
    void *stream;
} mixed_t;

static size_t bytes_of(int k)
{
    return sizes[k % SIZES];
}

static bool in_pieces(int k, int flag)
{
    return (k / SIZES) & flag;
}

/* Where a packet begins that lies in one piece: some at odd addresses. */
static size_t odd_of(int k)
{
    return k % 3 == 1 ? 1 : k % 3 == 2 ? 8 : 0;
}

/* Byte i of a packet, from the beginning of its place: elements lie in reverse, with gaps between. */
static size_t place_of(int k, int flag, size_t i)
{
    size_t elements = bytes_of(k) / ELEMENT;
    return in_pieces(k, flag) ? 2 * ELEMENT * (elements - 1 - i / ELEMENT) + i % ELEMENT : odd_of(k) + i;
}

static uint8_t pattern(int from, int to, int k, uint64_t epoch, size_t i)
{
    uint64_t seed = ((uint64_t)from * 131 + (uint64_t)to) * 131 + (uint64_t)k;
    return (uint8_t)(sv_digest_mix(seed * 0x100003 + epoch * 0x9e37 + i / ELEMENT) >> 8 * (i % ELEMENT));
}

static sv_layout_t *layout_of(const uint8_t *at, int k, int flag)
{
    static _Thread_local int64_t offsets[40000 / ELEMENT];
    size_t elements = bytes_of(k) / ELEMENT;
    sv_layout_t *layout = NULL;
    for (size_t e = 0; e < elements; e++)
        offsets[e] = (int64_t)(uintptr_t)at + (int64_t)place_of(k, flag, e * ELEMENT);
    CHECK_STATUS(sv_layout_create(SV_LAYOUT_EXACT, &layout), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_layout_add_list(layout, 0, ELEMENT, offsets, elements, SV_LAYOUT_STORE), SELVAGE_SUCCESS);
    return layout;
}

static void declare_one(mixed_t *m, int peer, int k)
{
    int at = peer * PER_PAIR + k;
    uint8_t *out = m->out + (size_t)at * ROOM, *in = m->in + (size_t)at * ROOM;
    CHECK_STATUS(in_pieces(k, SEND_IN_PIECES)
                     ? sv_exchange_add_send_layout(m->ex, layout_of(out, k, SEND_IN_PIECES), peer, k, NULL)
                     : selvage_exchange_add_send(m->ex, out + odd_of(k), bytes_of(k), peer, k, NULL), SELVAGE_SUCCESS);
    if (!in_pieces(k, RECV_IN_PIECES) && bytes_of(k) > 4096 && (peer % 2 == 0 || m->scene->ending == END_ENQUEUE))
        CHECK_STATUS(selvage_buffer_register(m->self->comm, in, ROOM, &m->buffer[at]), SELVAGE_SUCCESS);
    CHECK_STATUS(in_pieces(k, RECV_IN_PIECES)
                     ? sv_exchange_add_recv_layout(m->ex, layout_of(in, k, RECV_IN_PIECES), peer, k, NULL)
                     : selvage_exchange_add_recv(m->ex, in + odd_of(k), bytes_of(k), peer, k, NULL), SELVAGE_SUCCESS);
}

static void fill(mixed_t *m, uint64_t epoch)
{
    int rank = m->self->rank, all = m->self->size * PER_PAIR;
    memset(m->out, 0x11, (size_t)all * ROOM);
    memset(m->in, 0xee, (size_t)all * ROOM);
    for (int at = 0; at < all; at++)
        for (size_t i = 0; i < bytes_of(at % PER_PAIR); i++)
            m->out[(size_t)at * ROOM + place_of(at % PER_PAIR, SEND_IN_PIECES, i)] =
                pattern(rank, at / PER_PAIR, at % PER_PAIR, epoch, i);
}

static void verify(mixed_t *m, uint64_t epoch)
{
    static _Thread_local uint8_t want[ROOM];
    for (int at = 0; at < m->self->size * PER_PAIR; at++) {
        int k = at % PER_PAIR;
        memset(want, 0xee, ROOM);
        for (size_t i = 0; i < bytes_of(k); i++)
            want[place_of(k, RECV_IN_PIECES, i)] = pattern(at / PER_PAIR, m->self->rank, k, epoch, i);
        bool same = memcmp(m->in + (size_t)at * ROOM, want, ROOM) == 0;
        CHECK(same);
        if (!same)
            fprintf(stderr, "%s, route %s, end %d, rank %d, epoch %llu: packet %d from rank %d is wrong\n",
                    m->scene->env, selvage_route_name(m->scene->route), (int)m->scene->ending, m->self->rank,
                    (unsigned long long)epoch, k, at / PER_PAIR);
    }
}

static selvage_status_t finish(mixed_t *m, uint64_t epoch)
{
    selvage_status_t status = SELVAGE_IN_PROGRESS;
    if (m->scene->ending == END_ENQUEUE && epoch != 2)
        return selvage_exchange_enqueue_wait(m->ex, m->stream);
    if (m->scene->ending == END_WAIT)
        return selvage_exchange_wait(m->ex, m->stream);
    for (unsigned turns = 0; status == SELVAGE_IN_PROGRESS; check_wait_turn(&turns))
        status = selvage_exchange_test(m->ex, m->stream);
    return status;
}

static void run_epoch(mixed_t *m, uint64_t epoch)
{
    fill(m, epoch);
    if (m->scene->late_us && m->self->rank % 2 == 1)
        CHECK_STATUS(selvage_device_delay_us(m->self->dev, m->scene->late_us, m->stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_exchange_start(m->ex, m->stream), SELVAGE_SUCCESS);
    CHECK_STATUS(finish(m, epoch), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(m->self->dev, m->stream), SELVAGE_SUCCESS);
    verify(m, epoch);
}

static void body(local_rank_t *self)
{
    mixed_t m = {.self = self, .scene = self->arg};
    selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = m.scene->route,
                                        .checksum = m.scene->checksum};
    size_t bytes = (size_t)self->size * PER_PAIR * ROOM;
    CHECK_STATUS(selvage_device_malloc(self->dev, bytes, (void **)&m.out), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(self->dev, bytes, (void **)&m.in), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_create(self->dev, &m.stream), SELVAGE_SUCCESS);
    if (m.scene->one_armed && self->rank > 0)
        self->comm->fault.armed = false;
    CHECK_STATUS(selvage_exchange_create(self->comm, &params, &m.ex), SELVAGE_SUCCESS);
    for (int at = 0; at < self->size * PER_PAIR; at++)
        declare_one(&m, at / PER_PAIR, at % PER_PAIR);
    CHECK_STATUS(selvage_exchange_commit(m.ex), SELVAGE_SUCCESS);
    for (uint64_t epoch = 1; epoch <= EPOCHS; epoch++)
        run_epoch(&m, epoch);
    selvage_exchange_destroy(m.ex);
    for (int at = 0; at < self->size * PER_PAIR; at++)
        CHECK_STATUS(selvage_buffer_unregister(m.buffer[at]), SELVAGE_SUCCESS);
    selvage_stream_destroy(self->dev, m.stream);
    selvage_device_free(self->dev, m.out);
    selvage_device_free(self->dev, m.in);
}

static const scene_t scenes[] = {
    {.env = "", .size = 3},
    {.env = "SOFT_BLOCKS=3", .size = 2, .ending = END_ENQUEUE},
    {.env = "KERNEL_PEER_MAX_BYTES=1000", .size = 2, .ending = END_TEST},
    {.env = "PROGRESS=thread", .size = 2, .ending = END_ENQUEUE},
    {.env = "SEGMENT_BYTES=4096", .size = 2, .route = SELVAGE_ROUTE_SHARED},
    {.env = "KERNEL_COPY_MAX_BYTES=100 SEGMENT_BYTES=4096", .size = 2, .route = SELVAGE_ROUTE_SHARED},
    {.env = "SEGMENT_BYTES=4096", .size = 2, .route = SELVAGE_ROUTE_STAGED},
    {.env = "KERNEL_COPY_MAX_BYTES=0", .size = 2, .route = SELVAGE_ROUTE_STAGED, .ending = END_TEST},
    {.env = "", .size = 2, .route = SELVAGE_ROUTE_DIRECT},
    {.env = "", .size = 2, .checksum = SELVAGE_CHECKSUM_OFF},
    {.env = "", .size = 2, .checksum = SELVAGE_CHECKSUM_OFF, .ending = END_ENQUEUE},
    {.env = "KERNEL_COPY_MAX_BYTES=0", .size = 2, .route = SELVAGE_ROUTE_STAGED, .checksum = SELVAGE_CHECKSUM_OFF},
    {.env = "RETRY_TIMEOUT_MS=2", .size = 2, .late_us = 20000},
    {.env = "RETRY_TIMEOUT_MS=2", .size = 2, .route = SELVAGE_ROUTE_STAGED, .late_us = 20000},
    {.env = "FAULT=flip=0.2,drop=0.1 RETRY_TIMEOUT_MS=20", .size = 2, .one_armed = true, .log_expected = true},
    {.env = "FAULT=flip=0.2,drop=0.1 RETRY_TIMEOUT_MS=20", .size = 3, .route = SELVAGE_ROUTE_SHARED, .one_armed = true,
     .log_expected = true},
    {.env = "FAULT=flip=0.2,drop=0.1 RETRY_TIMEOUT_MS=20", .size = 2, .route = SELVAGE_ROUTE_STAGED, .one_armed = true,
     .log_expected = true},
    {.env = "FAULT=ipc=2", .size = 2, .log_expected = true},
    {.env = "FAULT=map=2", .size = 3, .log_expected = true},
};

static void play(size_t number)
{
    scene_t scene = scenes[number];
    local_ranks_env(scene.env);
    local_ranks_run(&(local_run_t){.size = scene.size, .body = body, .arg = &scene,
                                   .log_expected = scene.log_expected});
}

int main(int argc, char **argv)
{
    const size_t count = sizeof scenes / sizeof scenes[0];
    for (int i = 1; i < argc; i++)
        play(strtoul(argv[i], NULL, 10) % count);
    for (size_t i = 0; argc == 1 && i < count; i++)
        play(i);
    return check_report("test_exchange_layout_mixed");
}
