/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arenas of collectives, with ranks as threads: how bytes are laid out, that what is written through a mapping is found
 * by the right peer in the right place, splits, windows, and that all is given back. Prints what creating costs.
 */
#include <stdlib.h>

#include "base/base_clock.h"
#include "fixtures/check.h"
#include "collective/coll_handle.h"
#include "fixtures/local_ranks.h"

enum { RANKS = 8 };

static uint64_t random_state = 7;

/* Parts of a connection in order; each begins on a line and after the one before. */
static void check_connection(const sv_coll_layout_t *l)
{
    const uint64_t begin[] = {SV_COLL_TAIL_AT, SV_COLL_HEAD_AT, SV_COLL_FIN_AT, l->entry_at,
                              l->ll_at,        l->long_at,      l->slot_at,     l->conn_bytes};
    const uint64_t bytes[] = {8,
                              8,
                              8,
                              2ULL * SV_COLL_ENTRIES * SV_COLL_LINE,
                              8ULL * l->ll_bytes,
                              8ULL * l->long_bytes,
                              SV_COLL_SLOTS * (l->slot_bytes + (uint64_t)SV_COLL_SLOT_RECORD)};
    for (unsigned i = 0; i + 1 < sizeof begin / sizeof begin[0]; i++) {
        CHECK_EQ(begin[i] % 128, 0);
        CHECK(begin[i] + bytes[i] <= begin[i + 1]);
    }
    CHECK_EQ(l->conn_bytes % 128, 0);
    CHECK_EQ(l->ll_bytes % 128, 0);
    CHECK_EQ(l->long_bytes % 128, 0);
    CHECK_EQ(l->slot_bytes % 128, 0);
    CHECK(l->ll_bytes >= 1024 && l->ll_bytes <= 8192);
    CHECK(l->long_bytes >= 2048 && l->long_bytes <= 18432);
    CHECK(l->slot_bytes >= 4096 && l->slot_bytes <= 512 << 10);
}

static void check_layout(uint32_t n, uint32_t channels, uint64_t limit)
{
    sv_coll_layout_t l;
    uint64_t bytes = 0;
    selvage_status_t status = sv_coll_layout(n, channels, limit, &l, &bytes);
    if (status != SELVAGE_SUCCESS) {
        CHECK_STATUS(status, SELVAGE_ERR_LIMIT);
        CHECK(strstr(selvage_error_detail(), "SELVAGE_COLL_ARENA_BYTES") != NULL);
        CHECK(limit < (uint64_t)n * (40 << 10) + SV_COLL_ARENA_HEAD); /* lines and slots at their least */
        return;
    }
    check_connection(&l);
    CHECK_EQ(l.nranks, n);
    CHECK(l.nchannels >= 1 && l.nchannels <= channels);
    CHECK(l.channel_bytes >= n * l.conn_bytes);
    uint64_t end = SV_COLL_ARENA_HEAD + l.nchannels * l.channel_bytes;
    CHECK(end <= limit);
    CHECK_EQ(bytes, n > 1 ? end : 0);
    if (l.nchannels < channels) /* one more would not have fitted */
        CHECK(limit / n / (l.nchannels + 1) < 40 << 10);
}

static void test_layout(void)
{
    int level = sv_thread_binding()->log_level;
    sv_thread_binding()->log_level = -1; /* errors are expected by the dozen */
    for (uint32_t n = 1; n <= SV_COLL_RANKS; n++)
        for (uint32_t channels = 1; channels <= SV_COLL_CHANNELS; channels++) {
            for (uint64_t limit = 64; limit <= UINT64_C(1) << 32; limit *= 4)
                check_layout(n, channels, limit);
            check_layout(n, channels, local_ranks_random(&random_state, UINT64_C(256) << 20));
        }
    sv_thread_binding()->log_level = level;
    sv_coll_layout_t l;
    uint64_t bytes;
    CHECK_STATUS(sv_coll_layout(4, 2, 64 << 20, &l, &bytes), SELVAGE_SUCCESS);
    CHECK_EQ(l.ll_bytes, 8192);
    CHECK_EQ(l.long_bytes, 18432);
    CHECK_EQ(l.slot_bytes, 512 << 10);
    CHECK_STATUS(sv_coll_layout(16, 32, 64 << 20, &l, &bytes), SELVAGE_SUCCESS);
    CHECK_EQ(l.nchannels, 32);
}

static selvage_coll_t *create(local_rank_t *self, const selvage_coll_params_t *params)
{
    selvage_coll_t *coll = NULL;
    sv_comm_bind(self->comm);
    CHECK_STATUS(sv_coll_create(self->comm, params, &coll), SELVAGE_SUCCESS);
    return coll;
}

static uint8_t *connection(const selvage_coll_t *coll, uint64_t base, uint32_t channel, uint32_t peer)
{
    const sv_coll_layout_t *l = &coll->dev.layout;
    return (uint8_t *)(uintptr_t)base + SV_COLL_ARENA_HEAD + channel * l->channel_bytes + peer * l->conn_bytes;
}

static uint64_t key_of(uint32_t channel, int from, int to)
{
    return channel * 10000 + (uint64_t)from * 100 + (uint64_t)to;
}

/* Flags and lines are zero at first. */
static void check_clean(const selvage_coll_t *coll)
{
    const sv_coll_dev_t *dev = &coll->dev;
    for (uint32_t c = 0; c < dev->layout.nchannels && dev->n > 1; c++)
        for (uint32_t r = 0; r < dev->n; r++) {
            const uint8_t *conn = connection(coll, dev->arena[dev->me], c, dev->member[r]);
            uint32_t dirty = 0;
            for (uint32_t i = 0; i < dev->layout.slot_at; i++)
                dirty += conn[i] != 0;
            CHECK_EQ(dirty, 0);
        }
}

/* Every rank writes into its connections in all arenas, and finds in its own what the others meant for it. */
static void check_reach(local_rank_t *self, const selvage_coll_t *coll)
{
    const sv_coll_dev_t *dev = &coll->dev;
    size_t bytes = (size_t)SV_COLL_SLOTS * dev->layout.slot_bytes;
    uint32_t slots = dev->layout.slot_at, own = dev->member[dev->me];
    local_ranks_barrier(self);
    for (uint32_t c = 0; c < dev->layout.nchannels && dev->n > 1; c++)
        for (uint32_t r = 0; r < dev->n; r++)
            local_ranks_fill(connection(coll, dev->arena[r], c, own) + slots, bytes,
                             key_of(c, coll->comm->wire->rank, coll->comm->topology.node_ranks[dev->member[r]]));
    local_ranks_barrier(self);
    for (uint32_t c = 0; c < dev->layout.nchannels && dev->n > 1; c++)
        for (uint32_t r = 0; r < dev->n; r++)
            CHECK_EQ(local_ranks_wrong(connection(coll, dev->arena[dev->me], c, dev->member[r]) + slots, bytes,
                                       key_of(c, coll->comm->topology.node_ranks[dev->member[r]],
                                              coll->comm->wire->rank)), -1);
}

/* The device has what the host has, and it points into the arena's memory. */
static void check_dev(const selvage_coll_t *coll)
{
    const sv_coll_dev_t *dev = &coll->dev;
    const sv_coll_arena_t *arena = coll->arena;
    CHECK_EQ(memcmp(dev, coll->dev_device, sizeof *dev), 0);
    CHECK_EQ(dev->arena[dev->me], (uintptr_t)arena->memory);
    CHECK_EQ(dev->member[dev->me], coll->comm->topology.node_index);
    CHECK(dev->nrings >= 1);
    CHECK_EQ((uintptr_t)dev->consumed, (uintptr_t)&arena->pinned->consumed); /* soft: one address for both */
    CHECK_EQ((uintptr_t)dev->window, (uintptr_t)arena->priv->window);
    CHECK_EQ(coll->facts.nranks, dev->n);
    CHECK_EQ(coll->facts.nchannels, arena->layout.nchannels);
    CHECK(coll->facts.soft);
    for (uint32_t k = 0; k < dev->nrings; k++) {
        uint32_t seen = 0;
        for (uint32_t r = 0; r < dev->n; r++)
            seen |= 1U << dev->ring[k][r];
        CHECK_EQ(seen, (1U << dev->n) - 1);
    }
}

static void live(local_rank_t *self)
{
    for (int again = 0; again < 2; again++) { /* the second arena is a new one */
        selvage_coll_t *coll = create(self, NULL);
        CHECK_EQ(coll->rank, self->rank);
        CHECK_EQ(coll->size, self->size);
        CHECK_EQ(coll->number, 0);
        CHECK_EQ(coll->dev.n, self->comm->topology.node_size);
        CHECK_EQ(coll->spans, self->size > self->comm->topology.node_size);
        CHECK_EQ(coll->arena->bytes > 0, coll->dev.n > 1);
        check_clean(coll);
        check_dev(coll);
        check_reach(self, coll);
        sv_coll_destroy(coll);
        CHECK(!self->comm->arena);
    }
    CHECK(sv_list_is_empty(&self->comm->mappings.mappings));
}

/* Two colours in reverse order; rank 0 in none, if there are others. */
static void split(local_rank_t *self)
{
    selvage_coll_t *coll = create(self, NULL), *part = (selvage_coll_t *)self, *second = create(self, NULL);
    int color = self->size > 1 && self->rank == 0 ? -1 : self->rank % 2;
    CHECK_EQ(second->number, 1);
    CHECK(second->arena == coll->arena);
    CHECK_STATUS(sv_coll_split(coll, color, -self->rank, &part), SELVAGE_SUCCESS);
    CHECK_EQ(part == NULL, color < 0);
    sv_coll_destroy(coll); /* the part keeps the arena */
    if (part) {
        int place = 0, count = 0;
        for (int r = self->size > 1; r < self->size; r++) {
            count += r % 2 == color;
            place += r % 2 == color && r > self->rank;
        }
        CHECK_EQ(part->size, count);
        CHECK_EQ(part->rank, place);
        CHECK_EQ(part->number, 2);
        for (int r = 0; r < part->size; r++)
            CHECK_EQ(part->all.ranks[r] % 2, color);
        check_dev(part);
    }
    local_ranks_barrier(self);
    if (part)
        check_reach(self, part);
    else
        for (int i = 0; i < 2; i++)
            local_ranks_barrier(self); /* those of check_reach() */
    sv_comm_bind(self->comm);
    sv_coll_destroy(second);
    CHECK(self->comm->arena); /* rank 0 may have none left, but others have */
    sv_coll_destroy(part);
}

/* Numbers: 16 at a time, the first free one again. */
static void many(local_rank_t *self)
{
    selvage_coll_t *colls[16], *more = NULL;
    for (unsigned i = 0; i < 16; i++) {
        colls[i] = create(self, NULL);
        CHECK_EQ(colls[i]->number, i);
    }
    CHECK_STATUS(sv_coll_create(self->comm, NULL, &more), SELVAGE_ERR_LIMIT);
    CHECK_STATUS(sv_coll_split(colls[3], 0, 0, &more), SELVAGE_ERR_LIMIT);
    CHECK(!more);
    sv_coll_destroy(colls[5]);
    colls[5] = create(self, NULL);
    CHECK_EQ(colls[5]->number, 5);
    for (unsigned i = 0; i < 16; i++)
        sv_coll_destroy(colls[i]);
    CHECK(!self->comm->arena);
}

/* What the window's table says of a rank leads to that rank's memory. */
static void check_window(local_rank_t *self, const selvage_coll_t *coll, const selvage_window_t *window, size_t bytes)
{
    const sv_coll_arena_t *arena = coll->arena;
    local_ranks_fill(window->ptr, bytes, (uint64_t)self->rank);
    local_ranks_barrier(self);
    for (uint32_t r = 0; r < coll->dev.n; r++) {
        uint32_t at = coll->dev.member[r];
        uint64_t base = coll->dev.window[at * SV_COLL_WINDOW_NUMBERS + window->number];
        CHECK_EQ(base, arena->window_base[at * SV_COLL_WINDOW_NUMBERS + window->number]);
        CHECK_EQ(local_ranks_wrong((const uint8_t *)(uintptr_t)base, bytes,
                                   (uint64_t)self->comm->topology.node_ranks[at]), -1);
    }
    local_ranks_barrier(self);
}

static void windows(local_rank_t *self)
{
    enum { BYTES = 5000 };
    selvage_coll_t *coll = create(self, NULL), *part = NULL;
    selvage_window_t *first = NULL, *second = NULL, *third = NULL;
    const size_t shift = 100 + 8 * (size_t)self->rank; /* nothing need be symmetric */
    void *block;
    CHECK_STATUS(selvage_device_malloc(self->dev, 8 * BYTES, &block), SELVAGE_SUCCESS);
    uint8_t *ptr = (uint8_t *)block + shift;
    sv_comm_bind(self->comm);
    CHECK_STATUS(sv_coll_register(coll, ptr, BYTES, &first), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_register(coll, ptr + 2 * BYTES, BYTES, &second), SELVAGE_SUCCESS);
    CHECK_EQ(first->number, 1);
    CHECK_EQ(second->number, 2);
    check_window(self, coll, first, BYTES);
    check_window(self, coll, second, BYTES);
    CHECK_EQ(sv_coll_window_find(coll, ptr, BYTES), UINT64_C(1) << 48);
    CHECK_EQ(sv_coll_window_find(coll, ptr + 2 * BYTES + 8, BYTES - 8), UINT64_C(2) << 48 | 8);
    CHECK_EQ(sv_coll_window_find(coll, ptr + 8, BYTES), 0);
    CHECK_EQ(sv_coll_window_find(coll, ptr - 1, 4), 0);
    CHECK_EQ(sv_coll_window_find(coll, ptr + BYTES, 1), 0);
    CHECK_STATUS(sv_coll_split(coll, self->rank % 2, 0, &part), SELVAGE_SUCCESS);
    CHECK_EQ(sv_coll_window_find(part, ptr, BYTES), UINT64_C(1) << 48);
    CHECK_STATUS(sv_coll_register(part, ptr + 4 * BYTES, BYTES, &third), SELVAGE_SUCCESS);
    CHECK_EQ(sv_coll_window_find(part, ptr + 4 * BYTES, 1), UINT64_C(3) << 48);
    /* Ranks of the other part have not mapped it. */
    CHECK_EQ(sv_coll_window_find(coll, ptr + 4 * BYTES, 1) == 0, coll->dev.n > part->dev.n);
    CHECK_STATUS(sv_coll_unregister(first), SELVAGE_SUCCESS);
    CHECK_EQ(sv_coll_window_find(coll, ptr, BYTES), 0);
    CHECK_EQ(coll->dev.window[coll->dev.member[0] * SV_COLL_WINDOW_NUMBERS + 1], 0);
    CHECK_STATUS(sv_coll_register(coll, ptr, BYTES, &first), SELVAGE_SUCCESS);
    CHECK_EQ(first->number, 1);
    check_window(self, coll, first, BYTES);
    sv_comm_bind(self->comm);
    CHECK_STATUS(sv_coll_unregister(first), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_unregister(third), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_coll_unregister(NULL), SELVAGE_SUCCESS);
    sv_coll_destroy(part);
    sv_coll_destroy(coll);
    CHECK_STATUS(sv_coll_unregister(second), SELVAGE_SUCCESS); /* its communicator took the mapping along */
    CHECK(sv_list_is_empty(&self->comm->mappings.mappings));
    selvage_device_free(self->dev, block);
}

/* What was forgotten is reported and freed with the communicator of ranks. */
static void forget(local_rank_t *self)
{
    selvage_coll_t *coll = create(self, NULL), *part = NULL;
    selvage_window_t *window;
    void *block;
    CHECK_STATUS(selvage_device_malloc(self->dev, 64, &block), SELVAGE_SUCCESS);
    sv_comm_bind(self->comm);
    CHECK_STATUS(sv_coll_split(coll, self->rank % 2, 0, &part), SELVAGE_SUCCESS);
    sv_coll_destroy(coll);
    CHECK_STATUS(sv_coll_register(part, block, 64, &window), SELVAGE_SUCCESS);
    if (self->rank % 2 == 0) {
        CHECK_STATUS(sv_coll_unregister(window), SELVAGE_SUCCESS);
        sv_coll_destroy(part);
    }
    selvage_device_free(self->dev, block); /* nobody writes into it */
    selvage_comm_destroy(self->comm);
    self->comm = NULL;
    CHECK_EQ(local_ranks_logged(self, "1 communicators of collectives were not destroyed"), self->rank % 2);
}

static _Atomic uint64_t slowest_ns;

static void measure(local_rank_t *self)
{
    for (int i = 0; i < 3; i++) {
        local_ranks_barrier(self);
        uint64_t begin = sv_clock_ns();
        selvage_coll_t *coll = create(self, NULL);
        uint64_t took = sv_clock_ns() - begin;
        if (took > atomic_load(&slowest_ns))
            atomic_store(&slowest_ns, took);
        sv_coll_destroy(coll);
    }
}

/* In ./check the first pass makes all runs, and the others every second one: in the other mode the others of them. */
static void run_all(unsigned mode)
{
    static void (*const bodies[])(local_rank_t *) = {live, split, windows};
    static const int sizes[] = {1, 2, 3, 5, RANKS};
    for (unsigned i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
        for (unsigned s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (int per_node = 0; per_node < (sizes[s] > 2 ? 4 : 1); per_node++)
                if (!check_brief() || (i + s + (unsigned)per_node) % 2 == mode)
                    local_ranks_run(&(local_run_t){.size = sizes[s], .ranks_per_node = per_node, .body = bodies[i]});
    local_ranks_run(&(local_run_t){.size = 3, .log_expected = true, .body = many});
    for (int size = 1; size <= 4; size++)
        local_ranks_run(&(local_run_t){.size = size, .log_expected = true, .body = forget});
}

int main(void)
{
    test_layout();
    local_ranks_mode("TIMEOUT_S=60");
    for (int size = 1; size <= RANKS; size *= 2) {
        atomic_store(&slowest_ns, 0);
        local_ranks_run(&(local_run_t){.size = size, .body = measure});
        printf("creating with %d ranks: %.1f ms\n", size, (double)atomic_load(&slowest_ns) * 1e-6);
    }
    local_ranks_mode("TIMEOUT_S=60 COLL_ARENA_BYTES=4M");
    run_all(0);
    local_ranks_mode("TIMEOUT_S=60 COLL_ARENA_BYTES=3M COLL_CHANNELS_MAX=5 PROGRESS=thread");
    run_all(1);
    return check_report("test_coll_arena");
}
