/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Logarithmic schedules for any number of ranks: n binomial trees, one per block, shifted against each other so that in
 * a step every rank has one rank to send to and one to receive from. With i the distance of a rank from the root q of
 * a block, i = (rank - q) mod n, rank q is the root of its tree and the parent of i is i without its lowest set bit.
 *
 *   all-gather, n = 5, block of rank 0:   step 0 (4):  0 -> 4
 *                                         step 1 (2):  0 -> 2
 *                                         step 2 (1):  0 -> 1, 2 -> 3
 *
 * Distances go from far to near, so that a rank has a block before it is its turn to hand it on. Reduce-scatter is the
 * same in reverse: from near to far, partial sums go towards the root, and a rank has all of its subtree before it
 * sends.
 */
#include <string.h>

#include "collective/coll_handle.h"

enum { NO_RANK = 0xffff };

static unsigned count_pat_steps(unsigned n)
{
    unsigned steps = 0;
    while (1U << steps < n)
        steps++;
    return steps;
}

/* Blocks that a rank hands on over this distance (a power of two): those of whose trees it has a child there. */
static uint32_t parent_mask(unsigned n, unsigned rank, unsigned distance)
{
    uint32_t mask = 0;
    for (unsigned q = 0; q < n; q++) {
        unsigned i = (rank + n - q) % n;
        if (i % (2 * distance) == 0 && i + distance < n)
            mask |= UINT32_C(1) << q;
    }
    return mask;
}

/* Blocks of whose trees it is the child at this distance. */
static uint32_t child_mask(unsigned n, unsigned rank, unsigned distance)
{
    return parent_mask(n, (rank + n - distance) % n, distance);
}

static void set_step(sv_coll_pat_step_t *step, unsigned to, uint32_t send_mask, unsigned from, uint32_t recv_mask)
{
    step->to = (uint16_t)(send_mask ? to : NO_RANK);
    step->from = (uint16_t)(recv_mask ? from : NO_RANK);
    step->send_mask = send_mask;
    step->recv_mask = recv_mask;
}

void sv_coll_pat_gather(unsigned n, unsigned me, sv_coll_pat_t *pat_out)
{
    memset(pat_out, 0, sizeof *pat_out);
    pat_out->nsteps = count_pat_steps(n);
    for (unsigned k = 0; k < pat_out->nsteps; k++) {
        unsigned distance = 1U << (pat_out->nsteps - 1 - k);
        set_step(&pat_out->step[k], (me + distance) % n, parent_mask(n, me, distance), (me + n - distance) % n,
                 child_mask(n, me, distance));
    }
}

void sv_coll_pat_scatter(unsigned n, unsigned me, sv_coll_pat_t *pat_out)
{
    memset(pat_out, 0, sizeof *pat_out);
    pat_out->nsteps = count_pat_steps(n);
    for (unsigned k = 0; k < pat_out->nsteps; k++) {
        unsigned distance = 1U << k;
        set_step(&pat_out->step[k], (me + n - distance) % n, child_mask(n, me, distance), (me + distance) % n,
                 parent_mask(n, me, distance));
    }
}
