/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Graphs over MPI, on whatever device there is: the halo of a periodic grid, and an all-reduce of 1 KiB, replayed.
 *
 * Usage: graph_mpi EPOCHS [MIXED_EPOCHS]
 *
 * Each epoch begins with another pattern, whose halo cells are poisoned, and ends with a kernel that adds up all cells,
 * own and halo, on the device. What it must find is known from the whole domain. So every cell of every epoch is
 * looked at, though the host comes by seldom. EPOCHS epochs are replayed by graphs of four; MIXED_EPOCHS more are
 * replayed or begun by the host, in any order that all ranks draw alike. Run by tests/mpi/test_graph_mpi.sh.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include "device/device.h"
#include "kernels/kernels.h"
#include <selvage.h>

enum { DIMS = 3, PATTERNS = 4, REDUCED_WORDS = 128, LOOK_EVERY = 2000 };

static const int64_t cells[DIMS] = {18, 14, 10};

typedef struct bench {
    selvage_comm_t *comm;
    selvage_device_t *dev;
    selvage_grid_t *grid;
    selvage_halo_t *halo;
    selvage_coll_t *coll;
    void *stream;
    int rank, size;
    uint64_t words;            /* of the array, a multiple of two */
    uint64_t *array, *pattern[PATTERNS], *reduced, *part[PATTERNS], *sums; /* on the device */
    uint64_t expected[2][PATTERNS]; /* of halos, and of all-reduces: what one epoch adds to a sum */
    uint64_t *here;            /* pinned */
} bench_t;

static uint64_t value_of(uint64_t cell, uint64_t pattern)
{
    return sv_digest_mix(cell * PATTERNS + pattern + 1);
}

/* The array of a pattern, with halo cells as they must become, or poisoned; the sum of all its words. */
static uint64_t fill_here(bench_t *bench, const selvage_grid_info_t *info, uint64_t pattern, bool poisoned)
{
    uint64_t sum = 0, at = 0;
    int64_t i[DIMS];
    memset(bench->here, 0, bench->words * sizeof *bench->here);
    for (i[0] = -1; i[0] <= info->local_extent[0]; i[0]++)
        for (i[1] = -1; i[1] <= info->local_extent[1]; i[1]++)
            for (i[2] = -1; i[2] <= info->local_extent[2]; i[2]++, at++) {
                uint64_t cell = 0;
                bool own = true;
                for (int d = 0; d < DIMS; d++) {
                    own &= i[d] >= 0 && i[d] < info->local_extent[d];
                    cell = cell * (uint64_t)cells[d] +
                           (uint64_t)((info->local_first[d] + i[d] + cells[d]) % cells[d]);
                }
                bench->here[at] = own || !poisoned ? value_of(cell, pattern) : UINT64_C(0xdeadbeefdeadbeef);
                sum += bench->here[at];
            }
    return sum;
}

static void upload(const bench_t *bench, uint64_t *there, uint64_t words)
{
    CHECK_STATUS(selvage_device_copy(bench->dev, there, bench->here, words * sizeof *there, SELVAGE_COPY_HOST_TO_DEVICE,
                                     bench->stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(bench->dev, bench->stream), SELVAGE_SUCCESS);
}

static uint64_t *words_there(const bench_t *bench, uint64_t words)
{
    void *there = NULL;
    CHECK_STATUS(selvage_device_malloc(bench->dev, words * sizeof(uint64_t), &there), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_fill(bench->dev, there, 0, words * sizeof(uint64_t), bench->stream), SELVAGE_SUCCESS);
    return there;
}

static void make_patterns(bench_t *bench)
{
    selvage_grid_info_t info = {SELVAGE_GRID_INFO_INIT};
    void *here = NULL;
    CHECK_STATUS(selvage_grid_describe(bench->grid, &info), SELVAGE_SUCCESS);
    bench->words = 1;
    for (int d = 0; d < DIMS; d++)
        bench->words *= (uint64_t)info.local_extent[d] + 2;
    bench->words += bench->words % 2;
    CHECK_STATUS(selvage_device_host_malloc(bench->dev, (bench->words + REDUCED_WORDS) * sizeof *bench->here, &here),
                 SELVAGE_SUCCESS);
    bench->here = here;
    bench->array = words_there(bench, bench->words);
    bench->reduced = words_there(bench, REDUCED_WORDS);
    bench->sums = words_there(bench, 2 * PATTERNS);
    for (uint64_t k = 0; k < PATTERNS; k++) {
        bench->expected[0][k] = fill_here(bench, &info, k, false);
        bench->pattern[k] = words_there(bench, bench->words);
        (void)fill_here(bench, &info, k, true);
        upload(bench, bench->pattern[k], bench->words);
        bench->part[k] = words_there(bench, REDUCED_WORDS);
        for (uint64_t w = 0; w < REDUCED_WORDS; w++) {
            bench->here[w] = value_of(w + 1000 * (uint64_t)bench->rank, k);
            for (int r = 0; r < bench->size; r++)
                bench->expected[1][k] += value_of(w + 1000 * (uint64_t)r, k);
        }
        upload(bench, bench->part[k], REDUCED_WORDS);
    }
}

static void add_up(bench_t *bench, const uint64_t *words, uint64_t count, uint64_t *sum)
{
    const sv_sum_arg_t arg = {.src = words, .words = count, .sum = sum};
    CHECK_STATUS(SV_DEVICE_CALL(bench->dev, launch, &sv_kernel_sum, &arg, sizeof arg, 4, bench->stream),
                 SELVAGE_SUCCESS);
}

typedef enum way { WAY_RUN, WAY_ENQUEUE, WAY_WAIT, WAY_REPLAY_RUN, WAY_REPLAY_ENQUEUE, WAYS } way_t;

/* One epoch of each pattern. */
static void enqueue_epochs(bench_t *bench, way_t way)
{
    for (int k = 0; k < PATTERNS; k++) {
        CHECK_STATUS(selvage_device_copy(bench->dev, bench->array, bench->pattern[k], bench->words * sizeof(uint64_t),
                                         SELVAGE_COPY_DEVICE_TO_DEVICE, bench->stream), SELVAGE_SUCCESS);
        if (way == WAY_RUN) {
            CHECK_STATUS(selvage_halo_run(bench->halo, bench->stream), SELVAGE_SUCCESS);
        } else {
            CHECK_STATUS(selvage_halo_start(bench->halo, bench->stream), SELVAGE_SUCCESS);
            CHECK_STATUS(way == WAY_WAIT ? selvage_halo_wait(bench->halo, bench->stream)
                                         : selvage_halo_enqueue_wait(bench->halo, bench->stream), SELVAGE_SUCCESS);
        }
        add_up(bench, bench->array, bench->words, &bench->sums[k]);
        if (!bench->coll)
            continue;
        CHECK_STATUS(selvage_device_copy(bench->dev, bench->reduced, bench->part[k], REDUCED_WORDS * sizeof(uint64_t),
                                         SELVAGE_COPY_DEVICE_TO_DEVICE, bench->stream), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_coll_all_reduce(bench->coll, bench->reduced, bench->reduced, REDUCED_WORDS,
                                             SELVAGE_UINT64, SELVAGE_OP_SUM, bench->stream), SELVAGE_SUCCESS);
        add_up(bench, bench->reduced, REDUCED_WORDS, &bench->sums[PATTERNS + k]);
    }
}

static selvage_graph_t *capture(bench_t *bench, way_t way)
{
    selvage_graph_t *graph = NULL;
    CHECK_STATUS(selvage_graph_begin(bench->dev, bench->stream), SELVAGE_SUCCESS);
    enqueue_epochs(bench, way);
    CHECK_STATUS(selvage_graph_end(bench->dev, bench->stream, &graph), SELVAGE_SUCCESS);
    return graph;
}

/* Whether all sums are those of so many turns. */
static bool look(bench_t *bench, uint64_t turns)
{
    CHECK_STATUS(selvage_device_copy(bench->dev, bench->here, bench->sums, 2 * PATTERNS * sizeof(uint64_t),
                                     SELVAGE_COPY_DEVICE_TO_HOST, bench->stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(bench->dev, bench->stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_halo_wait(bench->halo, bench->stream), SELVAGE_SUCCESS);
    if (bench->coll)
        CHECK_STATUS(selvage_coll_error(bench->coll), SELVAGE_SUCCESS);
    for (int which = 0; which < (bench->coll ? 2 : 1); which++)
        for (int k = 0; k < PATTERNS; k++)
            CHECK_EQ(bench->here[which * PATTERNS + k], bench->expected[which][k] * turns);
    return atomic_load(&check_failed_) == 0;
}

static void replay(bench_t *bench, uint64_t epochs, uint64_t mixed)
{
    selvage_graph_t *graph[2] = {capture(bench, WAY_RUN), capture(bench, WAY_ENQUEUE)};
    uint64_t random = 1, turns = 0;
    bool good = true;
    for (; good && turns * PATTERNS < epochs + mixed; turns++) {
        way_t way = turns % 2 ? WAY_REPLAY_RUN : WAY_REPLAY_ENQUEUE;
        if (turns * PATTERNS >= epochs) {
            random = sv_digest_mix(random + turns);
            way = (way_t)(random % WAYS);
        }
        if (way < WAY_REPLAY_RUN)
            enqueue_epochs(bench, way);
        else
            CHECK_STATUS(selvage_graph_launch(bench->dev, graph[way - WAY_REPLAY_RUN], bench->stream),
                         SELVAGE_SUCCESS);
        if (turns % LOOK_EVERY == LOOK_EVERY - 1)
            good = look(bench, turns + 1);
    }
    good = good && look(bench, turns);
    if (good && bench->rank == 0)
        printf("graph_mpi: %llu epochs, %llu of them mixed with others, all cells right%s\n",
               (unsigned long long)(turns * PATTERNS), (unsigned long long)mixed,
               bench->coll ? "; so were the all-reduces" : "");
    for (int g = 0; g < 2; g++)
        selvage_graph_destroy(bench->dev, graph[g]);
}

static bool open_bench(bench_t *bench)
{
    const int all[DIMS] = {1, 1, 1};
    selvage_grid_params_t params = {SELVAGE_GRID_PARAMS_INIT, .ndims = DIMS, .width = {1, 1, 1}};
    selvage_halo_params_t shape = {SELVAGE_HALO_PARAMS_INIT, .shape = SELVAGE_HALO_FULL};
    memcpy(params.global_extent, cells, sizeof cells);
    memcpy(params.periodic, all, sizeof all);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench->size);
    selvage_comm_params_t own = {SELVAGE_COMM_PARAMS_INIT};
    if (selvage_device_open_local(NULL, &bench->dev) != SELVAGE_SUCCESS) /* each rank a GPU of its own, if there are */
        return false;
    own.device = bench->dev;
    if (selvage_comm_create(MPI_COMM_WORLD, &own, &bench->comm) != SELVAGE_SUCCESS)
        return false;
    if (selvage_grid_create(bench->comm, &params, &bench->grid) != SELVAGE_SUCCESS ||
        selvage_stream_create(bench->dev, &bench->stream) != SELVAGE_SUCCESS ||
        selvage_coll_create(bench->comm, NULL, &bench->coll) != SELVAGE_SUCCESS)
        return false;
    make_patterns(bench);
    const selvage_field_t field = {SELVAGE_FIELD_INIT, .data = bench->array, .element_bytes = sizeof(uint64_t),
                                   .width_lo = {1, 1, 1}, .width_hi = {1, 1, 1}};
    return selvage_halo_create(bench->grid, &shape, &field, 1, &bench->halo) == SELVAGE_SUCCESS;
}

static void close_bench(bench_t *bench)
{
    uint64_t *const there[] = {bench->array, bench->reduced, bench->sums};
    selvage_halo_destroy(bench->halo);
    selvage_coll_destroy(bench->coll);
    selvage_grid_destroy(bench->grid);
    for (int i = 0; i < 3; i++)
        selvage_device_free(bench->dev, there[i]);
    for (int k = 0; k < PATTERNS; k++) {
        selvage_device_free(bench->dev, bench->pattern[k]);
        selvage_device_free(bench->dev, bench->part[k]);
    }
    selvage_device_host_free(bench->dev, bench->here);
    selvage_stream_destroy(bench->dev, bench->stream);
    selvage_comm_destroy(bench->comm);
    selvage_device_close(bench->dev);
}

int main(int argc, char **argv)
{
    bench_t bench = {.words = 0};
    int threads;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
    const uint64_t epochs = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    const uint64_t mixed = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    CHECK(open_bench(&bench));
    if (bench.halo)
        replay(&bench, epochs, mixed);
    if (bench.comm)
        close_bench(&bench);
    int status = check_report("graph_mpi");
    MPI_Finalize();
    return status;
}
