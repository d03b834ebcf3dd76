/* SPDX-License-Identifier: BSD-3-Clause */
/* See bench_mpi_cliffs.h. */
#include "tools/bench_mpi/bench_mpi_cliffs.h"

#include <math.h>

/* Repeats of one cell differ by a few per cent. */
static const double noise = 1.05, neighbours_factor = 2;

/* NULL: there is no figure, or none to judge by. */
static const bench_mpi_result_t *known(const bench_mpi_run_t *run, int which, int row, int way)
{
    if (row < 0 || row >= bench_mpi_row_count(run, which))
        return NULL;
    const bench_mpi_result_t *result = &run->results[which][row][way];
    return result->state == BENCH_MPI_RIGHT ? result : NULL;
}

/* How many times slower one figure is than another. */
static double times_slower(int which, double value, double expected)
{
    return bench_mpi_kind((bench_mpi_which_t)which)->unit == BENCH_MPI_US ? value / expected : expected / value;
}

static bool slower_than_hand(const bench_mpi_run_t *run, bench_mpi_cliff_t *cliff)
{
    const bench_mpi_way_t by_hand = cliff->way == BENCH_MPI_DEVICE ? BENCH_MPI_HAND : BENCH_MPI_HAND_MIXED;
    const bench_mpi_result_t *hand = known(run, cliff->which, cliff->row, by_hand);
    if ((cliff->way != BENCH_MPI_DEVICE && cliff->way != BENCH_MPI_MIXED) || !hand)
        return false;
    cliff->by_hand = true;
    cliff->expected = hand->value;
    return times_slower(cliff->which, run->results[cliff->which][cliff->row][cliff->way].value, hand->value) > noise;
}

static bool slower_than_neighbours(const bench_mpi_run_t *run, bench_mpi_cliff_t *cliff)
{
    const bench_mpi_result_t *smaller = known(run, cliff->which, cliff->row - 1, cliff->way);
    const bench_mpi_result_t *larger = known(run, cliff->which, cliff->row + 1, cliff->way);
    if (!smaller || !larger)
        return false;
    cliff->by_hand = false;
    cliff->expected = sqrt(smaller->value * larger->value);
    return times_slower(cliff->which, run->results[cliff->which][cliff->row][cliff->way].value, cliff->expected) >
           neighbours_factor;
}

int bench_mpi_cliffs(const bench_mpi_run_t *run,
                     void (*tell)(const bench_mpi_run_t *run, const bench_mpi_cliff_t *cliff, void *context),
                     void *context)
{
    static bool (*const is_cliff[])(const bench_mpi_run_t *, bench_mpi_cliff_t *) = {slower_than_hand,
                                                                                     slower_than_neighbours};
    int count = 0;
    for (int which = 0; which < BENCH_MPI_KINDS; which++) {
        for (int row = 0; row < bench_mpi_row_count(run, which); row++) {
            for (int way = 0; way < BENCH_MPI_RIVAL; way++) {
                for (size_t rule = 0; rule < sizeof is_cliff / sizeof is_cliff[0]; rule++) {
                    bench_mpi_cliff_t cliff = {.which = which, .row = row, .way = (bench_mpi_way_t)way};
                    if (!known(run, which, row, way) || !is_cliff[rule](run, &cliff))
                        continue;
                    tell(run, &cliff, context);
                    count++;
                }
            }
        }
    }
    return count;
}
