/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measurements. All settings of a case and its rivals are timed in turn, several times over, so that what disturbs
 * the machine disturbs them alike. Every result is compared with what it must be before it is timed.
 */
#include "tools/bench_coll/bench_coll_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Measured medians of one contestant. */
typedef struct samples {
    double median_s[BENCH_COLL_RUNS_MAX], slowest_s;
    int count, repetitions;
} samples_t;

static void add_sample(samples_t *samples, bench_times_t times)
{
    samples->median_s[samples->count++] = times.median_s;
    samples->repetitions += times.repetitions;
    if (times.p99_s > samples->slowest_s)
        samples->slowest_s = times.p99_s;
}

static bench_times_t summary(samples_t *samples)
{
    bench_times_t times = {.p99_s = samples->slowest_s, .repetitions = samples->repetitions};
    times.median_s = tool_median(samples->median_s, samples->count); /* sorts them */
    times.interval = tool_median_interval(samples->median_s, samples->count);
    return times;
}

static bench_times_t measure(const bench_coll_run_t *run, const bench_work_t *work)
{
    const bench_coll_options_t *options = &run->options;
    const double seconds = options->seconds / options->runs;
    bench_graph_t graph = {&run->job, run->ground.device, run->ground.stream, NULL, {0}};
    bench_work_t replay;
    if (!options->graph || !bench_graph_open(&graph, NULL, work, &replay))
        return bench_measure(&run->job, BENCH_STREAM, seconds, options->repetitions, work);
    const bench_times_t times = bench_measure(&run->job, BENCH_GRAPH, seconds, options->repetitions, &replay);
    bench_graph_close(&graph);
    return times;
}

static long sum_of_ranks(const tool_job_t *job, long value)
{
    tool_reduce(job, job->comm, &value, 1, MPI_LONG, MPI_SUM);
    return value;
}

long bench_coll_verify(bench_coll_run_t *run, bench_made_t *made)
{
    const bench_case_t *what = made->what;
    const bench_place_t place = bench_case_place(what, run->job.rank, run->job.size);
    const size_t group = made->group ? (size_t)made->group : 1;
    long wrong = 0;
    if (!bench_call_moves(what->call))
        return 0;
    bench_data_spoil(&run->data, run->ground.recv, group * what->bytes);
    for (size_t i = 0; i < group; i++)
        bench_data_fill(&run->data, what, (unsigned char *)made->send + i * place.send_bytes, place.send_bytes);
    tool_barrier(&run->job);
    bench_made_enqueue(made);
    bench_made_finish(made);
    for (size_t i = 0; i < group; i++)
        wrong += bench_data_check(&run->data, what, made->recv + i * place.recv_bytes);
    return sum_of_ranks(&run->job, wrong);
}

/* --- rivals ------------------------------------------------------------------------------------------------------- */

static void measure_baselines(bench_coll_run_t *run, samples_t samples[BENCH_NCCL_TUNED_MAX + 1])
{
    bench_nccl_t *base = &run->nccl.base;
    const bench_work_t work = {bench_coll_nccl_enqueue, bench_coll_nccl_finish, &run->nccl};
    for (base->current = 0; base->current < base->comm_count; base->current++)
        add_sample(&samples[base->current], measure(run, &work));
}

static void conclude_baselines(const bench_nccl_t *base, samples_t *samples, bench_coll_baselines_t *baselines)
{
    baselines->known = true;
    for (int c = 0; c < base->comm_count; c++) {
        const bench_times_t times = summary(&samples[c]);
        bench_times_t *best = &baselines->times[c > 0];
        if (best->median_s > 0 && best->median_s <= times.median_s)
            continue;
        *best = times;
        baselines->tuned_channels = base->comms[c].channels;
    }
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static bench_coll_row_t *add_row(bench_coll_run_t *run)
{
    if (run->row_count == run->row_room) {
        run->row_room = run->row_room ? 2 * run->row_room : 64;
        bench_coll_row_t *rows = tool_malloc(&run->job, (size_t)run->row_room * sizeof *rows);
        if (run->row_count)
            memcpy(rows, run->rows, (size_t)run->row_count * sizeof *rows);
        free(run->rows);
        run->rows = rows;
    }
    bench_coll_row_t *row = &run->rows[run->row_count++];
    memset(row, 0, sizeof *row);
    return row;
}

/* What checksums cost, against the row of the same buffers without them. */
static void find_cost(bench_coll_row_t *row, const bench_coll_row_t *rows, int count)
{
    for (int i = 0; i < count && row->checksum && row->available; i++) {
        const bench_coll_row_t *plain = &rows[i];
        if (plain->checksum || !plain->available || plain->registered != row->registered)
            continue;
        row->cost_known = true;
        row->cost_s = row->times.median_s - plain->times.median_s;
    }
}

static void conclude_row(const bench_coll_run_t *run, bench_coll_row_t *row, bench_times_t times)
{
    row->times = times;
    row->algbw_gbs = (double)row->what.bytes / times.median_s * 1e-9;
    row->busbw_gbs = row->algbw_gbs * bench_call_bus(row->what.call, run->job.size);
}

/* Whether the library takes the way that it was forced to; a forced `direct` leaves open which of the two. */
static bool took_wanted(const char *wanted, const char *took)
{
    return !wanted || !took[0] || strncmp(took, wanted, strlen(wanted)) == 0;
}

/* Of messages the library tells nothing; there is one algorithm for them. */
static void check_way(bench_coll_row_t *row)
{
    const bench_way_t *way = &row->way;
    const bool message = row->what.call == BENCH_SENDRECV && !way->algo[0];
    const bool algo = took_wanted(row->algo, message ? "oneshot" : way->algo);
    const bool proto = !row->proto || !way->proto[0] || strcmp(row->proto, way->proto) == 0;
    if (!row->available || (algo && proto))
        return;
    row->available = false;
    snprintf(row->reason, sizeof row->reason, "there is none, the library takes %s %s",
             message ? "oneshot" : way->algo, way->proto);
}

/* The rows of a case, made and verified. The call of a row that is not available is not made. */
static void prepare_rows(bench_coll_run_t *run, bench_setting_t *settings, int count, bench_setting_t tellers[2],
                         const bench_case_t *what, bench_made_t *made, bench_coll_row_t *rows)
{
    const bench_way_t ways[2] = {bench_setting_way(&tellers[0], what), bench_setting_way(&tellers[1], what)};
    for (int s = 0; s < count; s++) {
        const bench_wish_t *wish = &settings[s].wish;
        bench_coll_row_t *row = &rows[s];
        *row = (bench_coll_row_t){.what = *what, .registered = wish->registered, .checksum = wish->checksum,
                                  .algo = wish->algo, .proto = wish->proto, .channels = wish->channels,
                                  .way = ways[wish->checksum]};
        row->available = settings[s].ready;
        memcpy(row->reason, settings[s].reason, sizeof row->reason);
        check_way(row);
        if (!row->available)
            continue;
        row->available = bench_made_init(&made[s], &settings[s], what, 0);
        memcpy(row->reason, settings[s].reason, sizeof row->reason);
        if (row->available)
            row->wrong = bench_coll_verify(run, &made[s]);
    }
}

static void finish_rows(bench_coll_run_t *run, int count, bench_made_t *made, samples_t *samples,
                        bench_coll_row_t *rows, const bench_coll_baselines_t *baselines, bench_coll_show_t show)
{
    for (int s = 0; s < count; s++) {
        const bench_work_t work = {bench_made_enqueue, bench_made_finish, &made[s]};
        bench_coll_row_t *row = &rows[s];
        row->baselines = *baselines;
        if (row->available) {
            conclude_row(run, row, summary(&samples[s]));
            find_cost(row, rows, count);
            if (run->options.host)
                row->host = bench_coll_host(run, &work);
            bench_made_fini(&made[s]);
        }
        *add_row(run) = *row;
        show(run, row);
    }
}

static void measure_case(bench_coll_run_t *run, bench_setting_t *settings, int count, bench_setting_t tellers[2],
                         int index, bench_coll_show_t show)
{
    samples_t own[BENCH_SETTINGS_MAX] = {{.count = 0}}, theirs[BENCH_NCCL_TUNED_MAX + 1] = {{.count = 0}};
    bench_made_t made[BENCH_SETTINGS_MAX];
    bench_coll_row_t rows[BENCH_SETTINGS_MAX];
    const bench_case_t *what = &run->cases[index];
    bench_coll_baselines_t *baselines = &run->baselines[index];
    prepare_rows(run, settings, count, tellers, what, made, rows);
    const bool compare = !baselines->known && bench_coll_nccl_can(&run->nccl, what);
    for (int i = 0; i < run->options.runs; i++) {
        for (int s = 0; s < count; s++) {
            const bench_work_t work = {bench_made_enqueue, bench_made_finish, &made[s]};
            if (rows[s].available)
                add_sample(&own[s], measure(run, &work));
        }
        if (compare)
            measure_baselines(run, theirs);
    }
    if (compare)
        conclude_baselines(&run->nccl.base, theirs, baselines);
    finish_rows(run, count, made, own, rows, baselines, show);
}

/* --- settings ----------------------------------------------------------------------------------------------------- */

/* The four of one forced way, and for each policy of checksums, on which the way depends, one more that tells. */
static void measure_settings(bench_coll_run_t *run, bench_wish_t wish, bench_coll_show_t show)
{
    bench_setting_t settings[BENCH_SETTINGS_MAX], tellers[2] = {{.ready = false}, {.ready = false}};
    const bench_coll_options_t *options = &run->options;
    int count = 0;
    for (int checksum = 0; checksum < 2; checksum++) {
        if (!options->checksum[checksum])
            continue;
        wish.checksum = checksum;
        for (int registered = 0; registered < 2; registered++) {
            wish.registered = registered;
            if (options->registered[registered])
                bench_setting_open(&settings[count++], &run->ground, &wish);
        }
        bench_wish_t teller = wish;
        teller.tell = true;
        teller.registered = false;
        bench_setting_open(&tellers[checksum], &run->ground, &teller);
    }
    for (int i = 0; i < run->case_count; i++)
        measure_case(run, settings, count, tellers, i, show);
    for (int checksum = 0; checksum < 2; checksum++)
        bench_setting_close(&tellers[checksum]);
    while (count > 0)
        bench_setting_close(&settings[--count]);
}

static const char *forced_word(const bench_forced_t *forced, int index)
{
    return forced->count ? forced->word[index] : NULL;
}

/* The direct algorithms have one protocol. */
static bool goes_together(const bench_wish_t *wish)
{
    const bool direct = wish->algo && strncmp(wish->algo, "direct", strlen("direct")) == 0;
    return !direct || !wish->proto || strcmp(wish->proto, "simple") == 0;
}

void bench_coll_run_all(bench_coll_run_t *run, bench_coll_show_t show)
{
    const bench_coll_options_t *options = &run->options;
    for (int a = 0; a < (options->algos.count ? options->algos.count : 1); a++) {
        for (int p = 0; p < (options->protos.count ? options->protos.count : 1); p++) {
            for (int c = 0; c < (options->channels.count ? options->channels.count : 1); c++) {
                const bench_wish_t wish = {.algo = forced_word(&options->algos, a),
                                           .proto = forced_word(&options->protos, p),
                                           .channels = forced_word(&options->channels, c)};
                if (goes_together(&wish))
                    measure_settings(run, wish, show);
            }
        }
    }
}
