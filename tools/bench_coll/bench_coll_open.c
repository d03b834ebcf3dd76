/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run of `selvage-bench coll` works with: its cases, device, buffers and rivals. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench_coll/bench_coll_run.h"

/* Where options leave the sizes open. */
static void choose_sizes(bench_coll_run_t *run)
{
    bench_coll_options_t *options = &run->options;
    const bool soft = run->job.gpu.index < 0;
    if (options->min_bytes == 0)
        options->min_bytes = 8;
    if (options->max_bytes == 0)
        options->max_bytes = soft ? 32 << 10 : (size_t)512 << 20;
    if (options->max_bytes < options->min_bytes)
        options->max_bytes = options->min_bytes;
    if (options->factor == 0)
        options->factor = soft ? 16 : 4;
}

static void add_case(bench_coll_run_t *run, const bench_case_t *what, int *room)
{
    if (run->case_count == *room) {
        *room = *room ? 2 * *room : 64;
        bench_case_t *cases = tool_malloc(&run->job, (size_t)*room * sizeof *cases);
        if (run->case_count)
            memcpy(cases, run->cases, (size_t)run->case_count * sizeof *cases);
        free(run->cases);
        run->cases = cases;
    }
    run->cases[run->case_count++] = *what;
}

/* All sizes of a call, type and operation; those that rounding makes alike are one. */
static void add_sizes(bench_coll_run_t *run, bench_call_t call, selvage_type_t type, bench_op_t op, int *room)
{
    const bench_coll_options_t *options = &run->options;
    size_t before = 0;
    for (size_t bytes = options->min_bytes; bytes <= options->max_bytes; bytes *= (size_t)options->factor) {
        bench_case_t what = bench_case_of(call, type, op, options->root, bytes, run->job.size);
        if (what.bytes == before && before > 0)
            continue;
        before = what.bytes;
        for (int in = 0; in < 2; in++) {
            what.in_place = in;
            if (options->in_place[in] && (!in || bench_call_in_place(call)))
                add_case(run, &what, room);
        }
        if (!bench_call_moves(call))
            return;
    }
}

static void add_call(bench_coll_run_t *run, bench_call_t call, int *room)
{
    const bench_coll_options_t *options = &run->options;
    for (int t = 0; t < (bench_call_moves(call) ? options->type_count : 1); t++) {
        for (int o = 0; o < (bench_call_reduces(call) ? options->op_count : 1); o++)
            add_sizes(run, call, bench_call_moves(call) ? options->types[t] : SELVAGE_TYPE_DEFAULT,
                      bench_call_reduces(call) ? options->ops[o] : BENCH_OP_NONE, room);
    }
}

static void list_cases(bench_coll_run_t *run)
{
    int room = 0;
    for (int call = 0; call < BENCH_CALLS; call++) {
        if (run->options.calls[call])
            add_call(run, (bench_call_t)call, &room);
    }
    run->baselines = tool_malloc(&run->job, (size_t)run->case_count * sizeof *run->baselines);
    memset(run->baselines, 0, (size_t)run->case_count * sizeof *run->baselines);
}

/* Of either buffer: rounding up may make the largest case larger than the largest size. */
static size_t wanted_capacity(const bench_coll_run_t *run)
{
    size_t wanted = (size_t)64 << 10;
    for (int i = 0; i < run->case_count; i++)
        wanted = run->cases[i].bytes > wanted ? run->cases[i].bytes : wanted;
    return wanted;
}

static void open_ground(bench_coll_run_t *run)
{
    bench_ground_t *ground = &run->ground;
    void *buffers[2];
    ground->capacity = wanted_capacity(run);
    for (int i = 0; i < 2; i++)
        tool_try(&run->job, "device_malloc", selvage_device_malloc(ground->device, ground->capacity, &buffers[i]));
    ground->send = buffers[0];
    ground->recv = buffers[1];
    tool_try(&run->job, "stream", selvage_stream_create(ground->device, &ground->stream));
    bench_data_init(&run->data, &run->job, ground->device, ground->stream);
}

void bench_coll_run_init(bench_coll_run_t *run)
{
    tool_job_t *job = &run->job;
    char device[96];
    tool_try(job, "comm_create", selvage_comm_create(job->comm, NULL, &run->comm));
    run->ground = (bench_ground_t){.job = job, .device = selvage_comm_device(run->comm)};
    if (strcmp(selvage_device_name(run->ground.device), job->gpu.kind) != 0)
        job->gpu.index = -1; /* a GPU that the library does not use: no plug-in for it was found */
    choose_sizes(run);
    list_cases(run);
    open_ground(run);
    (void)tool_device_words(run->ground.device, device, sizeof device);
    snprintf(run->machine, sizeof run->machine, "%s, %d rank%s, collectives",
             job->gpu.index >= 0 ? job->gpu.name : device, job->size,
             job->size == 1 ? "" : "s");
    if (run->options.fifo)
        return;
    bench_coll_nccl_init(&run->nccl, &run->ground, &run->options.nccl);
    if (run->options.host)
        run->launch = bench_coll_launch(run);
}

void bench_coll_run_fini(bench_coll_run_t *run)
{
    if (!run->options.fifo)
        bench_coll_nccl_fini(&run->nccl);
    bench_data_fini(&run->data);
    selvage_stream_destroy(run->ground.device, run->ground.stream);
    selvage_device_free(run->ground.device, run->ground.send);
    selvage_device_free(run->ground.device, run->ground.recv);
    selvage_comm_destroy(run->comm);
    free(run->cases);
    free(run->baselines);
    free(run->rows);
}
