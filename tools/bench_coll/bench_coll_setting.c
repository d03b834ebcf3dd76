/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators under a setting of their own, and calls on them. What fails on one rank is not ready on any. */
#define _GNU_SOURCE

#include "tools/bench_coll/bench_coll_setting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench_coll/bench_coll_data.h"
#include "tools/bench_coll/bench_coll_way.h"

enum { SAID_BYTES = 16 << 10 };

static bool refuse(bench_setting_t *setting, const char *what)
{
    const char *detail = selvage_error_detail();
    snprintf(setting->reason, sizeof setting->reason, "%s%s%s", what, detail[0] ? ": " : "", detail);
    return false;
}

/* True if it went well everywhere; the ranks know alike. */
static bool try_all(bench_setting_t *setting, const char *what, selvage_status_t status)
{
    if (status != SELVAGE_SUCCESS)
        (void)refuse(setting, what);
    if (bench_all(setting->ground->job, status == SELVAGE_SUCCESS))
        return true;
    if (status == SELVAGE_SUCCESS)
        snprintf(setting->reason, sizeof setting->reason, "%s: another rank could not", what);
    return false;
}

static bool create(bench_setting_t *setting)
{
    const bench_ground_t *ground = setting->ground;
    const selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = ground->device};
    bench_env_t env;
    bench_ear_t ear;
    const char *unknown = bench_env_enter(&env, ground->job, &setting->wish);
    if (unknown) {
        snprintf(setting->reason, sizeof setting->reason, "this library has no %s", unknown);
        return false;
    }
    if (setting->wish.tell)
        bench_ear_open(&ear);
    bool good = try_all(setting, "comm_create", selvage_comm_create(ground->job->comm, &params, &setting->comm));
    good = good && try_all(setting, "coll_create", selvage_coll_create(setting->comm, NULL, &setting->coll));
    if (setting->wish.tell)
        bench_ear_close(&ear, NULL, 0);
    bench_env_leave(&env);
    return good;
}

static bool register_buffers(bench_setting_t *setting)
{
    const bench_ground_t *ground = setting->ground;
    unsigned char *const buffers[2] = {ground->send, ground->recv};
    bool good = true;
    for (int i = 0; i < 2 && good; i++)
        good = try_all(setting, "coll_register",
                       selvage_coll_register(setting->coll, buffers[i], ground->capacity, &setting->windows[i]));
    return good;
}

void bench_setting_open(bench_setting_t *setting, const bench_ground_t *ground, const bench_wish_t *wish)
{
    *setting = (bench_setting_t){.ground = ground, .wish = *wish};
    setting->ready = create(setting) && (!wish->registered || register_buffers(setting));
}

void bench_setting_close(bench_setting_t *setting)
{
    if (setting->windows[0] && setting->windows[1]) { /* which all ranks have, or none */
        (void)selvage_coll_unregister(setting->windows[1]);
        (void)selvage_coll_unregister(setting->windows[0]);
    }
    selvage_coll_destroy(setting->coll);
    selvage_comm_destroy(setting->comm);
    setting->ready = false;
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

/* Send to the next rank, receive from the one before; a rank alone sends to itself. */
static selvage_status_t send_and_receive(const bench_made_t *made, const void *send, void *recv)
{
    const bench_case_t *what = made->what;
    const bench_ground_t *ground = made->setting->ground;
    selvage_coll_t *coll = made->setting->coll;
    const int rank = ground->job->rank, ranks = ground->job->size;
    selvage_status_t status = selvage_coll_group_begin(coll);
    if (status == SELVAGE_SUCCESS)
        status = selvage_coll_send(coll, send, what->count, what->type, (rank + 1) % ranks, ground->stream);
    if (status == SELVAGE_SUCCESS)
        status = selvage_coll_recv(coll, recv, what->count, what->type, (rank + ranks - 1) % ranks, ground->stream);
    const selvage_status_t ended = selvage_coll_group_end(coll);
    return status == SELVAGE_SUCCESS ? ended : status;
}

static selvage_status_t call_once(const bench_made_t *made, const void *send, void *recv)
{
    const bench_case_t *what = made->what;
    selvage_coll_t *coll = made->setting->coll;
    void *stream = made->setting->ground->stream;
    switch (what->call) {
    case BENCH_ALL_REDUCE:
        return selvage_coll_all_reduce(coll, send, recv, what->count, what->type, made->op, stream);
    case BENCH_REDUCE_SCATTER:
        return selvage_coll_reduce_scatter(coll, send, recv, what->count, what->type, made->op, stream);
    case BENCH_ALL_GATHER:
        return selvage_coll_all_gather(coll, send, recv, what->count, what->type, stream);
    case BENCH_BROADCAST:
        return selvage_coll_broadcast(coll, send, recv, what->count, what->type, what->root, stream);
    case BENCH_REDUCE:
        return selvage_coll_reduce(coll, send, recv, what->count, what->type, made->op, what->root, stream);
    case BENCH_ALL_TO_ALL:
        return selvage_coll_all_to_all(coll, send, recv, what->count, what->type, stream);
    case BENCH_SENDRECV:
        return send_and_receive(made, send, recv);
    default:
        return selvage_coll_barrier(coll, stream);
    }
}

static selvage_status_t call_group(const bench_made_t *made)
{
    const bench_place_t place = bench_case_place(made->what, made->setting->ground->job->rank,
                                                 made->setting->ground->job->size);
    selvage_status_t status = selvage_coll_group_begin(made->setting->coll);
    for (size_t i = 0; i < (size_t)made->group && status == SELVAGE_SUCCESS; i++)
        status = call_once(made, made->send + i * place.send_bytes, made->recv + i * place.recv_bytes);
    const selvage_status_t ended = selvage_coll_group_end(made->setting->coll);
    return status == SELVAGE_SUCCESS ? ended : status;
}

static selvage_status_t enqueue(const bench_made_t *made)
{
    return made->group ? call_group(made) : call_once(made, made->send, made->recv);
}

void bench_made_enqueue(void *context)
{
    const bench_made_t *made = context;
    tool_try(made->setting->ground->job, bench_call_name(made->what->call), enqueue(made));
}

void bench_made_finish(void *context)
{
    const bench_made_t *made = context;
    const bench_ground_t *ground = made->setting->ground;
    tool_try(ground->job, "synchronize", selvage_stream_synchronize(ground->device, ground->stream));
    tool_try(ground->job, bench_call_name(made->what->call), selvage_coll_error(made->setting->coll));
}

static bool make_op(bench_made_t *made)
{
    static const selvage_op_t ops[BENCH_OPS] = {[BENCH_SUM] = SELVAGE_OP_SUM,
                                                [BENCH_PROD] = SELVAGE_OP_PROD,
                                                [BENCH_MIN] = SELVAGE_OP_MIN,
                                                [BENCH_MAX] = SELVAGE_OP_MAX,
                                                [BENCH_AVG] = SELVAGE_OP_AVG};
    const bench_case_t *what = made->what;
    const uint64_t scalar = bench_data_scalar(what->type);
    if (what->op != BENCH_PREMUL) {
        made->op = what->op == BENCH_OP_NONE ? SELVAGE_OP_DEFAULT : ops[what->op];
        return true;
    }
    return try_all(made->setting, "coll_op_create",
                   selvage_coll_op_create(made->setting->coll, &scalar, what->type, SELVAGE_SCALAR_HOST, &made->op));
}

bool bench_made_init(bench_made_t *made, bench_setting_t *setting, const bench_case_t *what, int group)
{
    const bench_ground_t *ground = setting->ground;
    const bench_place_t place = bench_case_place(what, ground->job->rank, ground->job->size);
    *made = (bench_made_t){.setting = setting, .what = what, .group = group};
    made->send = (what->in_place ? ground->recv : ground->send) + place.send_at;
    made->recv = ground->recv + place.recv_at;
    if (!make_op(made))
        return false;
    if (try_all(setting, bench_call_name(what->call), enqueue(made))) {
        bench_made_finish(made);
        return true;
    }
    bench_made_fini(made);
    return false;
}

void bench_made_fini(bench_made_t *made)
{
    if (made->what->op == BENCH_PREMUL)
        (void)selvage_coll_op_destroy(made->setting->coll, made->op);
}

bench_way_t bench_setting_way(bench_setting_t *setting, const bench_case_t *what)
{
    static char said[SAID_BYTES];
    bench_way_t way = {.channels = 0};
    bench_made_t made;
    bench_ear_t ear;
    if (!setting->ready)
        return way;
    bench_ear_open(&ear);
    const bool good = bench_made_init(&made, setting, what, 0);
    bench_ear_close(&ear, said, sizeof said);
    if (good) {
        bench_made_fini(&made);
        bench_way_read(said, &way);
    }
    tool_bcast(setting->ground->job, &way, (int)sizeof way, MPI_BYTE);
    return way;
}
