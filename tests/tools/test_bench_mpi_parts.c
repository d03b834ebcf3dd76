/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What `selvage-bench mpi` judges by, without ranks: which cells are cliffs, the figures of each unit, and what must
 * arrive of patterns that differ by rank, place and seed.
 */
#include "tools/bench_mpi/bench_mpi_cliffs.h"
#include "tools/bench_mpi/bench_mpi_data.h"
#include "tools/common/tool_figures.h"
#include "fixtures/check.h"

static bench_mpi_run_t run;

typedef struct told {
    int count;
    bench_mpi_cliff_t last;
} told_t;

static void remember(const bench_mpi_run_t *of, const bench_mpi_cliff_t *cliff, void *context)
{
    told_t *told = context;
    CHECK(of == &run);
    told->count++;
    told->last = *cliff;
}

/* Four sizes of one benchmark in a way, and staged by hand; 0: not measured. */
static told_t cliffs_between(int which, int way, const double device[4], int by_hand, const double hand[4])
{
    told_t told = {.count = 0};
    memset(&run, 0, sizeof run);
    run.options.size_count = 4;
    for (int row = 0; row < 4; row++) {
        run.options.sizes[row] = (size_t)8 << row;
        if (device[row] > 0)
            run.results[which][row][way] = (bench_mpi_result_t){BENCH_MPI_RIGHT, 1, device[row], 1, false};
        if (hand[row] > 0)
            run.results[which][row][by_hand] = (bench_mpi_result_t){BENCH_MPI_RIGHT, 1, hand[row], 1, false};
    }
    CHECK_EQ(bench_mpi_cliffs(&run, remember, &told), told.count);
    return told;
}

static told_t cliffs_of(int which, const double device[4], const double hand[4])
{
    return cliffs_between(which, BENCH_MPI_DEVICE, device, BENCH_MPI_HAND, hand);
}

static void test_by_hand(void)
{
    const double hand[4] = {10, 10, 10, 10}, near[4] = {10, 10.4, 9, 10}, slower[4] = {10, 10, 10, 10.6};
    const double part[4] = {0, 0, 11, 0};
    CHECK_EQ(cliffs_of(BENCH_MPI_LATENCY, near, hand).count, 0);
    const told_t told = cliffs_of(BENCH_MPI_LATENCY, slower, hand);
    CHECK_EQ(told.count, 1);
    CHECK(told.last.by_hand && told.last.row == 3 && told.last.way == BENCH_MPI_DEVICE && told.last.expected == 10);
    CHECK_EQ(cliffs_of(BENCH_MPI_LATENCY, part, hand).count, 1);
    /* Of a bandwidth less is slower, and more is not. */
    CHECK_EQ(cliffs_of(BENCH_MPI_BANDWIDTH, slower, hand).count, 0);
    CHECK_EQ(cliffs_of(BENCH_MPI_BANDWIDTH, hand, slower).count, 1);
    /* With host memory at one end what counts is staging of that kind. */
    const told_t mixed = cliffs_between(BENCH_MPI_LATENCY, BENCH_MPI_MIXED, slower, BENCH_MPI_HAND_MIXED, hand);
    CHECK(mixed.count == 1 && mixed.last.by_hand && mixed.last.way == BENCH_MPI_MIXED && mixed.last.row == 3);
    CHECK_EQ(cliffs_between(BENCH_MPI_LATENCY, BENCH_MPI_MIXED, slower, BENCH_MPI_HAND, hand).count, 0);
    CHECK_EQ(cliffs_between(BENCH_MPI_LATENCY, BENCH_MPI_DEVICE, slower, BENCH_MPI_HAND_MIXED, hand).count, 0);
    CHECK_EQ(cliffs_of(BENCH_MPI_BANDWIDTH, hand, slower).count, 1);
    /* Wrong data has no speed. */
    run.results[BENCH_MPI_BANDWIDTH][3][BENCH_MPI_DEVICE].state = BENCH_MPI_WRONG;
    CHECK_EQ(bench_mpi_cliffs(&run, remember, &(told_t){.count = 0}), 0);
}

static void test_neighbours(void)
{
    const double none[4] = {0}, steep[4] = {1, 7.9, 16, 17}, cliff[4] = {1, 8.1, 16, 17}, ends[4] = {90, 1, 1, 90};
    const double low[4] = {4, 0.9, 1, 1.1};
    CHECK_EQ(cliffs_of(BENCH_MPI_ALLREDUCE, steep, none).count, 0);
    told_t told = cliffs_of(BENCH_MPI_ALLREDUCE, cliff, none);
    CHECK_EQ(told.count, 1);
    CHECK(!told.last.by_hand && told.last.row == 1 && told.last.expected == 4);
    CHECK_EQ(cliffs_of(BENCH_MPI_ALLREDUCE, ends, none).count, 0); /* they have one neighbour */
    told = cliffs_of(BENCH_MPI_BANDWIDTH, low, none);
    CHECK(told.count == 1 && told.last.row == 1 && told.last.expected == 2);
    CHECK_EQ(cliffs_of(BENCH_MPI_RATE, none, cliff).count, 0);
    CHECK_EQ(cliffs_of(BENCH_MPI_RATE, none, low).count, 1);
}

static void test_figures(void)
{
    bench_mpi_job_t job = {.size = 5};
    bench_mpi_cell_t cell = {.job = &job, .bytes = 1000, .window = 1};
    cell.kind = bench_mpi_kind(BENCH_MPI_LATENCY);
    CHECK(bench_mpi_figure(&cell, 4e-6) == 2); /* half of there and back */
    cell.kind = bench_mpi_kind(BENCH_MPI_BCAST);
    CHECK(bench_mpi_figure(&cell, 4e-6) == 4);
    cell.window = 64;
    cell.kind = bench_mpi_kind(BENCH_MPI_BANDWIDTH);
    CHECK(bench_mpi_figure(&cell, 64e-6) > 0.9999 && bench_mpi_figure(&cell, 64e-6) < 1.0001);
    cell.kind = bench_mpi_kind(BENCH_MPI_BIDIRECTIONAL);
    CHECK(bench_mpi_figure(&cell, 64e-6) > 1.9999 && bench_mpi_figure(&cell, 64e-6) < 2.0001);
    cell.kind = bench_mpi_kind(BENCH_MPI_RATE); /* two pairs */
    CHECK(bench_mpi_figure(&cell, 64e-6) > 1.9999 && bench_mpi_figure(&cell, 64e-6) < 2.0001);
}

static void test_patterns(void)
{
    enum { BYTES = 4096, COUNT = 256, RANKS = 3 };
    static unsigned char first[BYTES], other[BYTES];
    float sums[COUNT], numbers[COUNT];
    bench_mpi_bytes(first, 0, BYTES, 0, 1);
    bench_mpi_bytes(other, 100, BYTES - 100, 0, 1);
    CHECK(memcmp(first + 100, other, BYTES - 100) == 0);
    bench_mpi_bytes(other, 0, BYTES, 1, 1);
    CHECK(first[0] != other[0] && first[BYTES - 1] != other[BYTES - 1]);
    bench_mpi_bytes(other, 0, BYTES, 0, 2);
    CHECK(first[0] != other[0] && first[BYTES - 1] != other[BYTES - 1]);
    bench_mpi_sums(sums, 10, COUNT, RANKS, 7);
    for (int rank = 0; rank < RANKS; rank++) {
        bench_mpi_numbers(numbers, 10, COUNT, rank, 7);
        for (int i = 0; i < COUNT; i++)
            sums[i] -= numbers[i];
    }
    for (int i = 0; i < COUNT; i++)
        CHECK(sums[i] == 0);
    /* A segment of a long buffer in the place of another one is seen. */
    for (size_t at = COUNT; at < (size_t)1 << 31; at *= 2) {
        bench_mpi_bytes(other, at, BYTES, 0, 1);
        CHECK(memcmp(first, other, BYTES) != 0);
        bench_mpi_numbers(sums, 0, COUNT, 0, 7);
        bench_mpi_numbers(numbers, at, COUNT, 0, 7);
        CHECK(memcmp(sums, numbers, sizeof sums) != 0);
    }
}

/* The second of two ranks gets the blocks and keeps the gaps; of an all-to-all each gets its own. */
static void test_expectations(void)
{
    unsigned char want[64], sent[64];
    bench_mpi_job_t job = {.rank = 1, .size = 2};
    bench_mpi_cell_t cell = {.job = &job, .bytes = 16, .seed = 3, .peer = 0, .window = 1};
    memset(want, BENCH_MPI_POISON, sizeof want);
    bench_mpi_bytes(sent, 0, sizeof sent, 0, 3);
    cell.kind = bench_mpi_kind(BENCH_MPI_VECTOR);
    CHECK_EQ(bench_mpi_recv_bytes(&cell), 24);
    cell.kind->expect(&cell, want);
    CHECK(memcmp(want, sent, 8) == 0 && memcmp(want + 16, sent + 16, 8) == 0);
    for (int i = 8; i < 16; i++)
        CHECK(want[i] == BENCH_MPI_POISON && want[16 + i] == BENCH_MPI_POISON);
    cell.kind = bench_mpi_kind(BENCH_MPI_ALLTOALL);
    CHECK_EQ(bench_mpi_recv_bytes(&cell), 32);
    cell.kind->expect(&cell, want);
    CHECK(memcmp(want, sent + 16, 16) == 0);
}

/* An interval of few values is all of them, of many the middle; and what is wide is marked. */
static void test_noise(void)
{
    double few[] = {1, 2, 9}, many[100];
    char text[16];
    for (int i = 0; i < 100; i++)
        many[i] = i;
    tool_interval_t interval = tool_median_interval(few, 3);
    CHECK(interval.low == 1 && interval.high == 9 && tool_is_noisy(2, interval));
    interval = tool_median_interval(many, 100);
    CHECK(interval.low == 39 && interval.high == 60 && !tool_is_noisy(300, interval));
    interval = tool_median_interval(few, 1);
    CHECK(interval.low == 1 && interval.high == 1 && !tool_is_noisy(1, interval));
    CHECK(tool_median_interval(few, 0).high == 0);
    CHECK_STR(tool_figure_text(text, sizeof text, 1, 12.34, true), "~12.3");
    CHECK_STR(tool_figure_text(text, sizeof text, 2, 12.34, false), "12.34");
}

int main(void)
{
    test_noise();
    test_by_hand();
    test_neighbours();
    test_figures();
    test_patterns();
    test_expectations();
    return check_report("bench_mpi_parts");
}
