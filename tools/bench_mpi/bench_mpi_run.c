/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measuring a cell. Iterations of messages follow each other; those of collective calls are timed one by one, with a
 * barrier between them that is not, because a root could else run ahead of the others. After the timing one more
 * iteration moves a new pattern, and all ranks compare all that it brings.
 */
#define _GNU_SOURCE

#include "tools/bench_mpi/bench_mpi_run.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench_mpi/bench_mpi_data.h"
#include "tools/common/tool_figures.h"

enum {
    SMALL_BYTES = 8192, /* up to here --iterations are made */
    WINDOW_SHARE = 10,  /* an iteration of a window is many messages */
    ITERATIONS_MIN = 4,
    WARM_UPS_SHARE = 10,
    OPENING_CALLS = 20 /* collective calls of a program, by which the drop-in's route opens */
};

static bool is_wanted(const bench_mpi_options_t *options, bench_mpi_way_t way)
{
    bool any = false;
    for (int w = 0; w < BENCH_MPI_WAYS; w++)
        any |= options->ways[w];
    return any ? options->ways[way] : way != BENCH_MPI_RIVAL;
}

bool bench_mpi_run_needs_device(const bench_mpi_options_t *options)
{
    return is_wanted(options, BENCH_MPI_DEVICE) || is_wanted(options, BENCH_MPI_HAND) ||
           is_wanted(options, BENCH_MPI_HAND_EACH) || is_wanted(options, BENCH_MPI_MIXED) ||
           is_wanted(options, BENCH_MPI_HAND_MIXED) || is_wanted(options, BENCH_MPI_NCCL);
}

/* Memory of the software device is host memory to an MPI that knows no better. Of a GPU's the MPI must know, or the
   drop-in, which answers in its place. */
static bool mpi_takes_device(const bench_mpi_device_t *device)
{
    const bool amd = strcmp(device->gpu.kind, "amd") == 0;
    int (*query)(void) = NULL;
    void *found = dlsym(RTLD_DEFAULT, amd ? "MPIX_Query_rocm_support" : "MPIX_Query_cuda_support");
    memcpy(&query, &found, sizeof query);
    return device->soft || (query && query() == 1);
}

static void choose_ways(bench_mpi_run_t *run)
{
    const bench_mpi_options_t *options = &run->options;
    run->takes_device = bench_mpi_run_needs_device(options) && mpi_takes_device(&run->job.device);
    for (int way = 0; way < BENCH_MPI_RIVAL; way++)
        run->ways[way] = is_wanted(options, (bench_mpi_way_t)way);
    run->ways[BENCH_MPI_RIVAL] = options->rival != NULL;
    if (run->ways[BENCH_MPI_NCCL])
        bench_mpi_nccl_open(&run->nccl, &run->job, options->nccl);
    /* Who names a way by --ways knows better than the query. */
    int takes = run->takes_device || options->ways[BENCH_MPI_DEVICE] || options->ways[BENCH_MPI_MIXED];
    /* The libraries of one rank may answer differently from another's: a cell is measured on all ranks or on none. */
    MPI_Allreduce(MPI_IN_PLACE, &takes, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    run->takes_device = takes;
}

static void make_buffers(bench_mpi_run_t *run)
{
    const bench_mpi_device_t *device = &run->job.device;
    int most = run->job.size > 2 ? run->job.size : 2; /* messages in a buffer */
    for (int which = 0; which < BENCH_MPI_KINDS; which++)
        if (run->options.benchmarks[which] && bench_mpi_kind((bench_mpi_which_t)which)->window &&
            most < run->options.window)
            most = run->options.window;
    const size_t each = run->options.max * (size_t)most;
    const size_t bytes = run->buffer_bytes = each < run->options.memory ? each : run->options.memory;
    run->got = (unsigned char *)bench_mpi_host_malloc(bytes);
    run->want = (unsigned char *)bench_mpi_host_malloc(bytes);
    run->host = (bench_mpi_buffers_t){bench_mpi_host_malloc(bytes), bench_mpi_host_malloc(bytes)};
    if (bench_mpi_run_needs_device(&run->options))
        run->device =
            (bench_mpi_buffers_t){bench_mpi_device_malloc(device, bytes), bench_mpi_device_malloc(device, bytes)};
    if (run->ways[BENCH_MPI_HAND] || run->ways[BENCH_MPI_HAND_EACH] || run->ways[BENCH_MPI_HAND_MIXED])
        run->pinned =
            (bench_mpi_buffers_t){bench_mpi_pinned_malloc(device, bytes), bench_mpi_pinned_malloc(device, bytes)};
}

void bench_mpi_run_init(bench_mpi_run_t *run)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &run->job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &run->job.size);
    MPI_Comm_split(MPI_COMM_WORLD, run->job.rank < 2 ? 0 : MPI_UNDEFINED, run->job.rank, &run->job.pair);
    choose_ways(run);
    make_buffers(run);
    for (int i = 0; i < OPENING_CALLS && run->ways[BENCH_MPI_DEVICE] && run->takes_device; i++)
        MPI_Allreduce(run->device.send, run->device.recv, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

void bench_mpi_run_fini(bench_mpi_run_t *run)
{
    const bench_mpi_device_t *device = &run->job.device;
    if (run->ways[BENCH_MPI_NCCL])
        bench_mpi_nccl_close(&run->nccl, &run->job);
    if (run->pinned.send) {
        bench_mpi_pinned_free(device, run->pinned.send);
        bench_mpi_pinned_free(device, run->pinned.recv);
    }
    if (run->device.send) {
        bench_mpi_device_free(device, run->device.send);
        bench_mpi_device_free(device, run->device.recv);
    }
    free(run->host.send);
    free(run->host.recv);
    free(run->got);
    free(run->want);
    if (run->job.pair != MPI_COMM_NULL)
        MPI_Comm_free(&run->job.pair);
}

int bench_mpi_row_count(const bench_mpi_run_t *run, int which)
{
    return which == BENCH_MPI_BARRIER ? 1 : run->options.size_count;
}

size_t bench_mpi_row_bytes(const bench_mpi_run_t *run, int which, int row)
{
    return which == BENCH_MPI_BARRIER ? 0 : run->options.sizes[row];
}

/* --- a cell ------------------------------------------------------------------------------------------------------- */

/* Messages are between ranks 0 and 1, but for the rate, at which all ranks send in pairs. */
static void choose_peer(bench_mpi_cell_t *cell)
{
    const int rank = cell->job->rank, half = cell->kind->unit == BENCH_MPI_MILLIONS ? cell->job->size / 2 : 1;
    cell->first = rank < half;
    cell->peer = -1;
    if (cell->kind->pair && rank < 2 * half)
        cell->peer = cell->first ? rank + half : rank - half;
}

static void choose_memory(const bench_mpi_run_t *run, bench_mpi_cell_t *cell)
{
    const bool mixed = cell->way == BENCH_MPI_MIXED || cell->way == BENCH_MPI_HAND_MIXED;
    const bool host = cell->way == BENCH_MPI_HOST || (mixed && !cell->first);
    const bench_mpi_buffers_t *given = host ? &run->host : &run->device;
    cell->on_device = !host;
    if (cell->way == BENCH_MPI_HAND || cell->way == BENCH_MPI_HAND_EACH ||
        (cell->way == BENCH_MPI_HAND_MIXED && !host)) {
        cell->device_send = run->device.send;
        cell->device_recv = run->device.recv;
        given = &run->pinned;
    }
    cell->send = given->send;
    cell->recv = given->recv;
}

static bool is_possible(const bench_mpi_run_t *run, const bench_mpi_cell_t *cell)
{
    if (!bench_mpi_has_size(cell) || (cell->kind->pair && cell->job->size < 2) ||
        bench_mpi_send_bytes(cell) > run->buffer_bytes || bench_mpi_recv_bytes(cell) > run->buffer_bytes)
        return false;
    switch (cell->way) {
    case BENCH_MPI_HAND:
        return cell->kind->send != BENCH_MPI_NOTHING; /* a barrier has nothing to stage */
    case BENCH_MPI_HAND_EACH:
        return cell->kind->window; /* else it is the same as by hand */
    case BENCH_MPI_DEVICE:
        return run->takes_device;
    case BENCH_MPI_MIXED:
        return run->takes_device && cell->kind->pair;
    case BENCH_MPI_HAND_MIXED:
        return cell->kind->pair;
    case BENCH_MPI_NCCL:
        return bench_mpi_nccl_has(&run->nccl, cell);
    case BENCH_MPI_RIVAL:
        return false;
    default:
        return true;
    }
}

static void step(const bench_mpi_run_t *run, bench_mpi_cell_t *cell)
{
    if (cell->kind->pair && cell->peer < 0)
        return;
    if (cell->way == BENCH_MPI_NCCL)
        bench_mpi_nccl_step(&run->nccl, cell);
    else
        cell->kind->step(cell);
}

/* Seconds of one of so many iterations, of the slowest rank. */
static double time_steps(const bench_mpi_run_t *run, bench_mpi_cell_t *cell, int count)
{
    double seconds = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < count; i++) {
        if (!cell->kind->pair)
            MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        step(run, cell);
        seconds += MPI_Wtime() - begin;
    }
    if (cell->kind->pair)
        seconds = cell->peer >= 0 ? MPI_Wtime() - start : 0;
    seconds /= count;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

static int iterations_of(const bench_mpi_options_t *options, const bench_mpi_cell_t *cell)
{
    double count = options->iterations;
    if (cell->kind->window)
        count /= WINDOW_SHARE;
    if (cell->bytes > SMALL_BYTES)
        count *= sqrt((double)SMALL_BYTES / (double)cell->bytes);
    return count > 1 ? (int)count : 1;
}

/* Returns how many iterations to time: fewer for larger sizes, with the root, and no more than there is time for. A few
   are made whatever they take, but of a window, which is many messages. */
static int warm_up(const bench_mpi_run_t *run, bench_mpi_cell_t *cell)
{
    const double seconds = run->options.seconds;
    const int wanted = iterations_of(&run->options, cell), warm_ups = wanted / WARM_UPS_SHARE;
    const int few = cell->kind->window ? 1 : ITERATIONS_MIN, least = few < wanted ? few : wanted;
    const bool slow = time_steps(run, cell, 1) > seconds / WARM_UPS_SHARE;
    const double taken = time_steps(run, cell, slow || warm_ups < 1 ? 1 : warm_ups);
    const double fit = taken > 0 ? seconds / taken : wanted;
    if (fit >= wanted)
        return wanted;
    return fit > least ? (int)fit : least;
}

/* --- the data ----------------------------------------------------------------------------------------------------- */

static void store(const bench_mpi_cell_t *cell, char *to, const void *from, size_t bytes)
{
    if (cell->on_device)
        bench_mpi_copy_up(&cell->job->device, to, from, bytes);
    else
        memcpy(to, from, bytes);
}

/* A new pattern to send, and poison where it is to arrive, by hand in the pinned memory as well. */
static void fill(bench_mpi_run_t *run, bench_mpi_cell_t *cell)
{
    const size_t sends = bench_mpi_send_bytes(cell), receives = bench_mpi_recv_bytes(cell);
    cell->seed = ++run->seed;
    if (cell->kind->numbers)
        bench_mpi_numbers((float *)(void *)run->got, 0, sends / sizeof(float), cell->job->rank, cell->seed);
    else
        bench_mpi_bytes(run->got, 0, sends, cell->job->rank, cell->seed);
    store(cell, cell->device_send ? cell->device_send : cell->send, run->got, sends);
    memset(run->want, BENCH_MPI_POISON, receives);
    store(cell, cell->device_recv ? cell->device_recv : cell->recv, run->want, receives);
    if (cell->device_recv)
        memset(cell->recv, BENCH_MPI_POISON, receives);
}

/* Bytes that are not what they must be, on all ranks. The buffer to be compared with is still poison. */
static long count_wrong(const bench_mpi_run_t *run, const bench_mpi_cell_t *cell, int which)
{
    const char *recv = cell->device_recv ? cell->device_recv : cell->recv;
    const size_t bytes = bench_mpi_recv_bytes(cell);
    long wrong = 0;
    cell->kind->expect(cell, run->want);
    if (cell->on_device)
        bench_mpi_copy_down(&cell->job->device, run->got, recv, bytes);
    else
        memcpy(run->got, recv, bytes);
    if (which == run->options.corrupt && bytes > 0)
        run->got[bytes / 2] ^= 1;
    for (size_t i = 0; i < bytes; i++)
        wrong += run->got[i] != run->want[i];
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    return wrong;
}

static bench_mpi_result_t measure(bench_mpi_run_t *run, bench_mpi_cell_t *cell, int which)
{
    double seconds[BENCH_MPI_REPETITIONS_MAX];
    bench_mpi_result_t result = {.state = BENCH_MPI_RIGHT};
    fill(run, cell);
    result.iterations = warm_up(run, cell);
    for (int i = 0; i < run->options.repetitions; i++)
        seconds[i] = time_steps(run, cell, result.iterations);
    fill(run, cell);
    MPI_Barrier(MPI_COMM_WORLD);
    step(run, cell);
    if (count_wrong(run, cell, which) != 0)
        result.state = BENCH_MPI_WRONG;
    result.seconds = tool_median(seconds, run->options.repetitions); /* sorts them */
    result.noisy = tool_is_noisy(result.seconds, tool_median_interval(seconds, run->options.repetitions));
    result.value = bench_mpi_figure(cell, result.seconds);
    return result;
}

/* What MPI refuses on some rank is not measured. */
static bench_mpi_result_t measure_between(bench_mpi_run_t *run, bench_mpi_cell_t *cell, int which)
{
    bench_mpi_result_t result = {.state = BENCH_MPI_NOT_MEASURED};
    int made = cell->kind->begin(cell);
    MPI_Allreduce(MPI_IN_PLACE, &made, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    cell->made = made;
    if (made)
        result = measure(run, cell, which);
    cell->kind->end(cell);
    return result;
}

void bench_mpi_run_row(bench_mpi_run_t *run, int which, int row)
{
    for (int way = 0; way < BENCH_MPI_RIVAL; way++) {
        bench_mpi_cell_t cell = {.kind = bench_mpi_kind((bench_mpi_which_t)which), .job = &run->job};
        cell.way = (bench_mpi_way_t)way;
        cell.bytes = bench_mpi_row_bytes(run, which, row);
        cell.window = cell.kind->window ? run->options.window : 1;
        if (cell.bytes > 0 && run->buffer_bytes / cell.bytes < (size_t)cell.window)
            cell.window = (int)(run->buffer_bytes / cell.bytes);
        cell.count = (int)cell.bytes;
        cell.type = MPI_BYTE;
        choose_peer(&cell);
        choose_memory(run, &cell);
        if (!run->ways[way] || !is_possible(run, &cell))
            continue;
        run->results[which][row][way] =
            cell.kind->begin && way != BENCH_MPI_NCCL ? measure_between(run, &cell, which) : measure(run, &cell, which);
    }
}
