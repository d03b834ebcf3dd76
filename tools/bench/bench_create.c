/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What objects cost before they are used, and at their first use. A turn makes a communicator, an exchange of two
 * packets round the ring, and collectives, uses each twice, and destroys them. Every step is timed from a barrier, and
 * the slowest rank counts. The first turn of a process opens what later ones find open, so it has a column of its own.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tools/bench/bench_report.h"
#include "tools/bench/bench_tables.h"
#include "tools/common/tool_json.h"

enum { PACKETS = 2, TURNS = 20 };

typedef enum step {
    MAKE_COMM, MAKE_EXCHANGE, FIRST_EPOCH, NEXT_EPOCH, MAKE_COLL, FIRST_CALL, NEXT_CALL, FREE_ALL, STEPS
} step_t;

static const char *const step_name[STEPS] = {
    "communicator: create", "exchange: create, commit", "exchange: first epoch", "exchange: second epoch",
    "collectives: create", "all-reduce: first", "all-reduce: second", "all: destroy"};

typedef struct create_row {
    size_t bytes;
    bool available[STEPS];
    double first_s[STEPS], later_s[STEPS]; /* of the first turn, and the median of all others */
} create_row_t;

typedef struct turn {
    const tool_job_t *job;
    tool_traffic_t traffic; /* the run's, but for the communicator */
    selvage_comm_t *comm;
    selvage_exchange_t *ex;
    selvage_coll_t *coll;
    double took_s[STEPS]; /* 0: it cannot be had here */
} turn_t;

static double begin_step(const turn_t *turn)
{
    tool_barrier(turn->job);
    return tool_seconds();
}

static void sum_once(turn_t *turn, step_t step)
{
    const double begin = begin_step(turn);
    const tool_traffic_t *traffic = &turn->traffic;
    if (!turn->coll)
        return;
    tool_try(turn->job, "coll_all_reduce",
             selvage_coll_all_reduce(turn->coll, traffic->device_send, traffic->device_recv, traffic->bytes,
                                     SELVAGE_UINT8, SELVAGE_OP_SUM, traffic->stream));
    tool_try(turn->job, "synchronize", selvage_stream_synchronize(traffic->device, traffic->stream));
    turn->took_s[step] = tool_seconds() - begin;
}

static void run_turn(turn_t *turn)
{
    const tool_job_t *job = turn->job;
    const selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = turn->traffic.device};
    double begin = begin_step(turn);
    tool_try(job, "comm_create", selvage_comm_create(job->comm, &params, &turn->comm));
    turn->took_s[MAKE_COMM] = tool_seconds() - begin;

    turn->traffic.comm = turn->comm;
    begin = begin_step(turn);
    if (turn->traffic.packets > 0 && tool_traffic_commit(&turn->traffic, NULL, &turn->ex) == SELVAGE_SUCCESS) {
        turn->took_s[MAKE_EXCHANGE] = tool_seconds() - begin;
        turn->took_s[FIRST_EPOCH] = tool_traffic_epoch(&turn->traffic, turn->ex);
        turn->took_s[NEXT_EPOCH] = tool_traffic_epoch(&turn->traffic, turn->ex);
    }

    int possible = selvage_coll_supported(turn->comm);
    tool_reduce(job, job->comm, &possible, 1, MPI_INT, MPI_MIN);
    if (possible) {
        begin = begin_step(turn);
        tool_try(job, "coll_create", selvage_coll_create(turn->comm, NULL, &turn->coll));
        turn->took_s[MAKE_COLL] = tool_seconds() - begin;
    }
    sum_once(turn, FIRST_CALL);
    sum_once(turn, NEXT_CALL);

    begin = begin_step(turn);
    selvage_coll_destroy(turn->coll);
    selvage_exchange_destroy(turn->ex);
    selvage_comm_destroy(turn->comm);
    turn->took_s[FREE_ALL] = tool_seconds() - begin;
}

/* All ranks take the same steps, so that what is there is there on all. */
static void measure_creation(bench_run_t *run, create_row_t *row)
{
    const tool_job_t *job = &run->job;
    const int turns = run->options.repetitions ? run->options.repetitions : TURNS;
    double *all = tool_malloc(job, (size_t)STEPS * (size_t)turns * sizeof *all);
    for (int i = -1; i < turns; i++) {
        turn_t turn = {.job = job, .traffic = run->traffic};
        run_turn(&turn);
        for (int step = 0; step < STEPS; step++) {
            row->available[step] = turn.took_s[step] > 0;
            if (i < 0)
                row->first_s[step] = tool_median_of_slowest(job, &turn.took_s[step], 1);
            else
                all[step * turns + i] = turn.took_s[step];
        }
    }
    for (int step = 0; step < STEPS; step++)
        row->later_s[step] = tool_median_of_slowest(job, all + step * turns, turns);
    free(all);
}

static void print_creation(const bench_run_t *run, const create_row_t *row)
{
    char size[24];
    for (int step = 0; step < STEPS && run->job.rank == 0; step++) {
        printf("%8s %-26s ", tool_size_text(size, sizeof size, row->bytes), step_name[step]);
        if (row->available[step])
            printf("%12.1f %12.1f\n", row->first_s[step] * 1e6, row->later_s[step] * 1e6);
        else
            printf("%12s %12s\n", "n/a", "n/a");
    }
    fflush(stdout);
}

static bool write_creation(const bench_run_t *run, const create_row_t *rows, int count)
{
    FILE *file = fopen(run->options.json, "w");
    if (!file)
        return false;
    bench_report_json_head(file, run);
    fprintf(file, "  \"packets\": %d,\n  \"rows\": [\n", PACKETS);
    for (int i = 0; i < count * STEPS; i++) {
        const create_row_t *row = &rows[i / STEPS];
        const int step = i % STEPS;
        fprintf(file, "    {\"size\": %zu, \"step\": ", row->bytes);
        tool_json_text(file, step_name[step]);
        fprintf(file, ", \"available\": %s, \"first_s\": %.6g, \"later_s\": %.6g}%s\n",
                row->available[step] ? "true" : "false", row->first_s[step], row->later_s[step],
                i + 1 < count * STEPS ? "," : "");
    }
    fprintf(file, "  ]\n}\n");
    return bench_report_close(file);
}

bool bench_create(bench_run_t *run)
{
    static create_row_t rows[BENCH_SIZES_MAX];
    const bench_options_t *options = &run->options;
    int count = 0;
    if (run->job.rank == 0) {
        bench_report_title(run);
        printf("each turn makes, uses and destroys all of this; %d packets to neighbours, the all-reduce as long as\n"
               "one of them; first: the first turn of this size; later: the median of those after it; times are the\n"
               "slowest rank's\n\n"
               "%8s %-26s %12s %12s\n", PACKETS, "size", "step", "first us", "later us");
        fflush(stdout);
    }
    for (int i = 0; i < options->size_count; i++) {
        tool_ring_t ring;
        create_row_t *row = &rows[count];
        tool_ring_world(&run->job, &ring);
        tool_traffic_shape(&run->traffic, &ring, PACKETS, options->sizes[i], false, true);
        if (options->sizes[i] * PACKETS > run->traffic.capacity)
            continue;
        *row = (create_row_t){.bytes = options->sizes[i]};
        measure_creation(run, row);
        print_creation(run, row);
        count++;
    }
    if (run->job.rank != 0 || !options->json || write_creation(run, rows, count))
        return true;
    fprintf(stderr, "selvage-bench: %s could not be written\n", options->json);
    return false;
}
