/* SPDX-License-Identifier: BSD-3-Clause */
/* Names, counts and places of what `selvage-bench coll` measures. */
#include "tools/bench_coll/bench_coll_case.h"

const char *bench_call_name(bench_call_t call)
{
    static const char *const names[BENCH_CALLS] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                                   "reduce",     "all_to_all",     "sendrecv",   "barrier"};
    return names[call];
}

const char *bench_op_name(bench_op_t op)
{
    static const char *const names[BENCH_OPS + 1] = {"sum", "prod", "min", "max", "avg", "premul", "none"};
    return names[op];
}

bool bench_call_moves(bench_call_t call)
{
    return call != BENCH_BARRIER;
}

bool bench_call_reduces(bench_call_t call)
{
    return call == BENCH_ALL_REDUCE || call == BENCH_REDUCE_SCATTER || call == BENCH_REDUCE;
}

bool bench_call_in_place(bench_call_t call)
{
    return call != BENCH_ALL_TO_ALL && call != BENCH_SENDRECV && call != BENCH_BARRIER;
}

/* Whether the size is that of a block for each rank. */
static bool has_blocks(bench_call_t call)
{
    return call == BENCH_REDUCE_SCATTER || call == BENCH_ALL_GATHER || call == BENCH_ALL_TO_ALL;
}

bench_case_t bench_case_of(bench_call_t call, selvage_type_t type, bench_op_t op, int root, size_t bytes, int ranks)
{
    bench_case_t what = {.call = call, .type = type, .op = op, .root = root};
    if (!bench_call_moves(call))
        return what;
    const size_t unit = selvage_type_bytes(type) * (has_blocks(call) ? (size_t)ranks : 1);
    what.count = bytes / unit > 0 ? bytes / unit : 1;
    what.bytes = what.count * unit;
    return what;
}

bench_place_t bench_case_place(const bench_case_t *what, int rank, int ranks)
{
    const size_t block = what->count * selvage_type_bytes(what->type), all = block * (size_t)ranks;
    bench_place_t place = {.send_bytes = block, .recv_bytes = block};
    if (what->call == BENCH_REDUCE_SCATTER || what->call == BENCH_ALL_TO_ALL)
        place.send_bytes = all;
    if (what->call == BENCH_ALL_GATHER || what->call == BENCH_ALL_TO_ALL)
        place.recv_bytes = all;
    if (what->in_place && what->call == BENCH_REDUCE_SCATTER)
        place.recv_at = block * (size_t)rank;
    if (what->in_place && what->call == BENCH_ALL_GATHER)
        place.send_at = block * (size_t)rank;
    return place;
}

bool bench_case_same(const bench_case_t *left, const bench_case_t *right)
{
    return left->call == right->call && left->type == right->type && left->op == right->op &&
           left->root == right->root && left->bytes == right->bytes && left->in_place == right->in_place;
}

double bench_call_bus(bench_call_t call, int ranks)
{
    const double others = (double)(ranks - 1) / ranks;
    if (call == BENCH_ALL_REDUCE)
        return 2 * others;
    return has_blocks(call) ? others : 1;
}
