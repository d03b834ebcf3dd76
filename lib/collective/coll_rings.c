/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file finds rings that share no link: directed Hamiltonian cycles in the graph of ranks. A fully connected node
 * of n ranks has n - 1 of them (4 and 6 ranks: one fewer), and rings that use every link once keep all links busy. The
 * search is greedy, ring by ring, with a bounded look back within a ring. Where it gets stuck before the bound that the
 * degrees set, it starts again and tries the links of each rank in another order. The orders come from a fixed sequence
 * of numbers, and the work is bounded by steps, not by time: all ranks find the same rings. The functions are pure.
 */
#include <stdbool.h>
#include <string.h>

#include "collective/coll_handle.h"

enum {
    LINKS = SV_COLL_RANKS * SV_COLL_RANKS,
    STEPS_MAX = 400000,      /* links looked at, all together: a few milliseconds */
    RING_STEPS_MAX = 4000    /* for one ring, before it counts as stuck */
};

typedef struct rings {
    uint8_t ring[SV_COLL_RINGS][SV_COLL_RANKS];
    unsigned count;
} rings_t;

typedef struct search {
    unsigned n;
    uint32_t left[LINKS];    /* how often each link may still be used */
    uint8_t distance[SV_COLL_RANKS]; /* 1..n-1, in the order in which they are tried from any rank */
    uint8_t *path;           /* the ring being made */
    unsigned turn;           /* where in distance[] it begins: ring k tries distance[k] first, then on from there */
    unsigned steps, limit;
    uint32_t random;
} search_t;

static uint32_t *link_of(search_t *s, unsigned from, unsigned to)
{
    return &s->left[from * s->n + to];
}

/* Completes path[0..depth-1], whose ranks are the bits of seen, to a ring. */
static bool extend_ring(search_t *s, unsigned depth, unsigned seen)
{
    unsigned last = s->path[depth - 1];
    if (depth == s->n)
        return *link_of(s, last, 0) > 0;
    for (unsigned i = 0; i + 1 < s->n && s->steps < s->limit; i++) {
        unsigned next = (last + s->distance[(i + s->turn) % (s->n - 1)]) % s->n;
        s->steps++;
        if (seen >> next & 1 || *link_of(s, last, next) == 0)
            continue;
        s->path[depth] = (uint8_t)next;
        if (extend_ring(s, depth + 1, seen | 1U << next))
            return true;
    }
    return false;
}

static unsigned smaller_rank(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* No more rings than the rank with the fewest ways in or out allows. */
static unsigned most_rings(const uint32_t *weight, unsigned n)
{
    unsigned most = SV_COLL_RINGS;
    for (unsigned r = 0; r < n; r++) {
        unsigned in = 0, out = 0;
        for (unsigned p = 0; p < n; p++) {
            in += p == r ? 0 : smaller_rank(weight[p * n + r], SV_COLL_RINGS);
            out += p == r ? 0 : smaller_rank(weight[r * n + p], SV_COLL_RINGS);
        }
        most = smaller_rank(most, smaller_rank(in, out));
    }
    return most;
}

/* 0, 1, .., n-1, which is what people expect of a ring, comes first wherever it has its links. */
static bool find_ring(search_t *s, uint8_t *path, bool in_order)
{
    s->path = path;
    s->limit = smaller_rank(s->steps + RING_STEPS_MAX, STEPS_MAX);
    memset(path, 0, SV_COLL_RANKS);
    if (!in_order)
        return extend_ring(s, 1, 1);
    for (unsigned i = 0; i < s->n; i++) {
        path[i] = (uint8_t)i;
        if (*link_of(s, i, (i + 1) % s->n) == 0)
            return false;
    }
    return true;
}

static void find_rings(search_t *s, const uint32_t *weight, unsigned most, rings_t *found)
{
    found->count = 0;
    memcpy(s->left, weight, (size_t)s->n * s->n * sizeof weight[0]);
    bool more = most > 0;
    for (unsigned k = 0; more && found->count < most; k++) {
        uint8_t *path = found->ring[found->count];
        s->turn = k % (s->n - 1);
        more = (k == 0 && find_ring(s, path, true)) || find_ring(s, path, false);
        if (more) {
            for (unsigned i = 0; i < s->n; i++)
                (*link_of(s, path[i], path[(i + 1) % s->n]))--;
            found->count++;
        }
    }
}

unsigned sv_coll_rings(const uint32_t *weight, unsigned n, uint8_t ring[SV_COLL_RINGS][SV_COLL_RANKS])
{
    rings_t best = {.count = 0}, found;
    search_t search = {.n = n, .random = 2463534242U};
    unsigned most = n > 1 ? most_rings(weight, n) : 0;
    for (unsigned i = 0; i + 1 < n; i++)
        search.distance[i] = (uint8_t)(i + 1);
    while (best.count < most && search.steps < STEPS_MAX) {
        find_rings(&search, weight, most, &found);
        if (found.count > best.count)
            best = found;
        /* Another order of links, by xorshift: the same numbers everywhere. */
        for (unsigned i = n - 2; i > 0; i--) {
            search.random ^= search.random << 13;
            search.random ^= search.random >> 17;
            search.random ^= search.random << 5;
            const unsigned j = search.random % (i + 1);
            const uint8_t other = search.distance[j];
            search.distance[j] = search.distance[i];
            search.distance[i] = other;
        }
    }
    for (unsigned i = 0; best.count == 0 && i < n; i++)
        best.ring[0][i] = (uint8_t)i;
    memcpy(ring, best.ring, sizeof best.ring);
    return best.count ? best.count : 1;
}
