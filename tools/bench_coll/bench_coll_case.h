/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is measured: a collective with its type, operation and size, and where its data lie in the two buffers of a
 * rank. Sizes are those of nccl-tests: of the whole of a rank's larger buffer, whatever the call's count means.
 */
#ifndef SELVAGE_BENCH_COLL_CASE_H
#define SELVAGE_BENCH_COLL_CASE_H

#include <stdbool.h>
#include <stddef.h>

#include <selvage.h>
#include <selvage/collective.h>

typedef enum bench_call {
    BENCH_ALL_REDUCE,
    BENCH_REDUCE_SCATTER,
    BENCH_ALL_GATHER,
    BENCH_BROADCAST,
    BENCH_REDUCE,
    BENCH_ALL_TO_ALL,
    BENCH_SENDRECV,
    BENCH_BARRIER,
    BENCH_CALLS
} bench_call_t;

typedef enum bench_op {
    BENCH_SUM,
    BENCH_PROD,
    BENCH_MIN,
    BENCH_MAX,
    BENCH_AVG,
    BENCH_PREMUL, /* a sum of inputs that every rank multiplies by two */
    BENCH_OPS,
    BENCH_OP_NONE = BENCH_OPS
} bench_op_t;

enum { BENCH_TYPES = SELVAGE_FLOAT8_E5M2 + 1 };

typedef struct bench_case {
    bench_call_t call;
    selvage_type_t type;
    bench_op_t op;
    int root;
    size_t count; /* as the call takes it */
    size_t bytes; /* size, as tables name it */
    bool in_place;
} bench_case_t;

/* Where the data of a case lie; offsets into the send and the receive buffer, or both into the latter in place. */
typedef struct bench_place {
    size_t send_bytes, recv_bytes;
    size_t send_at, recv_at;
} bench_place_t;

const char *bench_call_name(bench_call_t call);
const char *bench_op_name(bench_op_t op);

/* Whether the call has a type and a size; has an operation; can be made in place. */
bool bench_call_moves(bench_call_t call);
bool bench_call_reduces(bench_call_t call);
bool bench_call_in_place(bench_call_t call);

/* The case of this size or, where that is not a whole element for every rank, the next larger one that is. */
bench_case_t bench_case_of(bench_call_t call, selvage_type_t type, bench_op_t op, int root, size_t bytes, int ranks);
bench_place_t bench_case_place(const bench_case_t *what, int rank, int ranks);

bool bench_case_same(const bench_case_t *left, const bench_case_t *right);

/* Bus bandwidth as a share of size by time, as nccl-tests counts it. */
double bench_call_bus(bench_call_t call, int ranks);

#endif
