/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings and logarithmic schedules. Rings: complete, on links that are there, no link more often than it may be used, as
 * many as there can be on fully connected nodes, and quickly. Schedules: played by ranks of a simulated world, they are
 * an all-gather and a reduce-scatter, and what one rank sends is what the other expects. The number of random matrices
 * may be given as second argument, the seed as first.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "fixtures/check.h"
#include "collective/coll_handle.h"

enum { MATRICES = 300, SLOW_MS = 1000 };

static uint32_t random_state = 1;

static unsigned random_below(unsigned bound)
{
    random_state = random_state * 1664525U + 1013904223U;
    return (random_state >> 8) % bound;
}

/* Uses up links; true if the ring is one and its links were there. */
static bool use_ring(uint32_t *left, unsigned n, const uint8_t *ring)
{
    unsigned seen = 0;
    bool good = ring[0] == 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned from = ring[i], to = ring[(i + 1) % n];
        good = good && from < n && to < n && !(seen >> from & 1) && (n == 1 || left[from * n + to] > 0);
        if (!good)
            return false;
        seen |= 1U << from;
        left[from * n + to]--;
    }
    return true;
}

static bool in_order(const uint8_t *ring, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (ring[i] != i)
            return false;
    return true;
}

static bool has_order(const uint32_t *weight, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (weight[i * n + (i + 1) % n] == 0)
            return false;
    return true;
}

/* The number of rings, after a look at them. */
static unsigned check_rings(const uint32_t *weight, unsigned n)
{
    uint8_t ring[SV_COLL_RINGS][SV_COLL_RANKS] = {{0}}, again[SV_COLL_RINGS][SV_COLL_RANKS] = {{0}};
    uint32_t left[SV_COLL_RANKS * SV_COLL_RANKS];
    memcpy(left, weight, sizeof left[0] * n * n);
    const clock_t start = clock(); /* of this process: it may stand still */
    unsigned count = sv_coll_rings(weight, n, ring);
    CHECK((double)(clock() - start) / CLOCKS_PER_SEC * 1e3 < SLOW_MS);
    CHECK(count >= 1 && count <= SV_COLL_RINGS);
    CHECK_EQ(sv_coll_rings(weight, n, again), count);
    CHECK(memcmp(ring, again, sizeof ring) == 0);
    bool none = count == 1 && in_order(ring[0], n) && !has_order(weight, n); /* nothing found: they go in order */
    for (unsigned k = 0; k < count && !none; k++)
        CHECK(use_ring(left, n, ring[k]));
    CHECK(!has_order(weight, n) || in_order(ring[0], n));
    return none ? 0 : count;
}

static void fill(uint32_t *weight, unsigned n, uint32_t value)
{
    for (unsigned i = 0; i < n * n; i++)
        weight[i] = value;
}

static void check_full(void)
{
    /* With 4 and 6 ranks there cannot be n - 1; with 16 the search is allowed to miss the last. */
    static const unsigned wanted[SV_COLL_RANKS + 1] = {0, 0, 1, 2, 2, 4, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 14};
    uint32_t weight[SV_COLL_RANKS * SV_COLL_RANKS];
    for (unsigned n = 2; n <= SV_COLL_RANKS; n++) {
        fill(weight, n, 1);
        CHECK(check_rings(weight, n) >= wanted[n]);
        fill(weight, n, 18);
        CHECK_EQ(check_rings(weight, n), SV_COLL_RINGS);
        fill(weight, n, 0);
        CHECK_EQ(check_rings(weight, n), 0);
    }
    fill(weight, 1, 0);
    uint8_t ring[SV_COLL_RINGS][SV_COLL_RANKS];
    CHECK_EQ(sv_coll_rings(weight, 1, ring), 1);
    CHECK_EQ(ring[0][0], 0);
}

/* Random links, and below them one ring in random order, which must then be found. */
static void check_random(void)
{
    uint32_t weight[SV_COLL_RANKS * SV_COLL_RANKS];
    uint8_t hidden[SV_COLL_RANKS];
    unsigned n = 2 + random_below(SV_COLL_RANKS - 1), density = random_below(5);
    for (unsigned i = 0; i < n * n; i++)
        weight[i] = random_below(4) < density ? random_below(3) : 0;
    bool hide = n <= 8 && random_below(2);
    for (unsigned i = 0; i < n; i++)
        hidden[i] = (uint8_t)i;
    for (unsigned i = n - 1; i > 0; i--) {
        unsigned j = random_below(i + 1);
        uint8_t other = hidden[i];
        hidden[i] = hidden[j];
        hidden[j] = other;
    }
    for (unsigned i = 0; hide && i < n; i++)
        weight[hidden[i] * n + hidden[(i + 1) % n]]++;
    unsigned count = check_rings(weight, n);
    CHECK(!hide || count >= 1);
}

typedef struct world {
    unsigned n;
    sv_coll_pat_t pat[SV_COLL_RANKS];
    uint32_t has[SV_COLL_RANKS][SV_COLL_RANKS]; /* [rank][block]: whose contributions it has, as bits */
} world_t;

static void check_ends(const world_t *w, unsigned k)
{
    for (unsigned r = 0; r < w->n; r++) {
        const sv_coll_pat_step_t *step = &w->pat[r].step[k];
        CHECK((step->to == 0xffff) == (step->send_mask == 0) && (step->from == 0xffff) == (step->recv_mask == 0));
        CHECK(step->to == 0xffff || (step->to < w->n && step->to != r));
        if (step->to < w->n) {
            CHECK_EQ(w->pat[step->to].step[k].from, r);
            CHECK_EQ(w->pat[step->to].step[k].recv_mask, step->send_mask);
        }
        if (step->from < w->n) {
            CHECK_EQ(w->pat[step->from].step[k].to, r);
            CHECK_EQ(w->pat[step->from].step[k].send_mask, step->recv_mask);
        }
    }
}

/* All ranks send what they had before the step: blocks that are there, and no contribution twice. */
static void play_step(world_t *w, unsigned k, bool reduce)
{
    uint32_t before[SV_COLL_RANKS][SV_COLL_RANKS];
    memcpy(before, w->has, sizeof before);
    for (unsigned r = 0; r < w->n; r++) {
        const sv_coll_pat_step_t *step = &w->pat[r].step[k];
        for (unsigned q = 0; q < w->n; q++) {
            if (!(step->send_mask >> q & 1) || step->to >= w->n)
                continue;
            CHECK(before[r][q] != 0);
            CHECK((w->has[step->to][q] & before[r][q]) == 0);
            w->has[step->to][q] |= before[r][q];
            if (reduce)
                w->has[r][q] = 0; /* handed on, and never again */
        }
    }
}

static void check_gather(world_t *w)
{
    memset(w->has, 0, sizeof w->has);
    for (unsigned r = 0; r < w->n; r++) {
        sv_coll_pat_gather(w->n, r, &w->pat[r]);
        w->has[r][r] = 1;
    }
    for (unsigned k = 0; k < w->pat[0].nsteps; k++) {
        check_ends(w, k);
        play_step(w, k, false);
    }
    for (unsigned r = 0; r < w->n; r++)
        for (unsigned q = 0; q < w->n; q++)
            CHECK_EQ(w->has[r][q], 1);
}

static void check_scatter(world_t *w)
{
    for (unsigned r = 0; r < w->n; r++) {
        sv_coll_pat_scatter(w->n, r, &w->pat[r]);
        for (unsigned q = 0; q < w->n; q++)
            w->has[r][q] = UINT32_C(1) << r;
    }
    for (unsigned k = 0; k < w->pat[0].nsteps; k++) {
        check_ends(w, k);
        play_step(w, k, true);
    }
    for (unsigned r = 0; r < w->n; r++)
        for (unsigned q = 0; q < w->n; q++)
            CHECK_EQ(w->has[r][q], r == q ? (UINT32_C(1) << w->n) - 1 : 0);
}

static void check_schedules(void)
{
    static const unsigned steps[SV_COLL_RANKS + 1] = {0, 0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4};
    static world_t world;
    for (unsigned n = 1; n <= SV_COLL_RANKS; n++) {
        world.n = n;
        check_gather(&world);
        CHECK_EQ(world.pat[0].nsteps, steps[n]);
        check_scatter(&world);
        CHECK_EQ(world.pat[n - 1].nsteps, steps[n]);
    }
}

int main(int argc, char **argv)
{
    random_state = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : random_state;
    long matrices = argc > 2 ? strtol(argv[2], NULL, 10) : MATRICES;
    check_schedules();
    check_full();
    for (long i = 0; i < matrices; i++)
        check_random();
    return check_report("coll_rings");
}
