/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations that stand for the program's requests, by handle. The hash table grows with their number, so that a
 * look-up takes as long for a hundred thousand as for one. The caller has the lock of drop_request.c and owns the
 * operations.
 *
 * A completion call that is MPI's own looks up the operations of what has ended after MPI has returned. By then another
 * thread may have begun a request with the same handle. So the first operation is marked as passed. It stays in the
 * table, with one user more, while a call is under way that began after the operation and before the other request. No
 * more is kept than that, because a call may last as long as the program runs. Numbers say what came before what.
 */
#include "interpose/drop_table.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* SPARES_MOST: operations that are kept for later requests. They are too long for the allocator's short ways. The
   address sanitizer is to see each use of one that is over. */
#ifdef __SANITIZE_ADDRESS__
enum { SPARES_MOST = 0 };
#else
enum { SPARES_MOST = 512 };
#endif
enum { BUCKETS_LEAST = 1024 };

static sv_drop_op_t *first_buckets[BUCKETS_LEAST];
static struct {
    sv_drop_op_t **bucket;
    size_t buckets, entries; /* buckets: a power of two */
    uint64_t number;         /* of the last that was added or passed */
    sv_drop_table_call_t *calls;
    sv_drop_op_t *passed;
    sv_drop_op_t *spare;
    int spares;
} table = {.bucket = first_buckets, .buckets = BUCKETS_LEAST};

sv_drop_op_t *sv_drop_table_take_op(void)
{
    sv_drop_op_t *op = table.spare;
    if (!op)
        return calloc(1, sizeof *op);
    table.spare = op->next;
    table.spares--;
    memset(op, 0, sizeof *op);
    return op;
}

void sv_drop_table_give_op(sv_drop_op_t *op)
{
    if (table.spares == SPARES_MOST) {
        free(op);
        return;
    }
    op->next = table.spare;
    table.spare = op;
    table.spares++;
}

static sv_drop_op_t **find_bucket(MPI_Request handle)
{
    /* A multiplicative hash (Knuth, The Art of Computer Programming 3, 6.4): handles are addresses or small numbers. */
    const uint64_t key = (uint64_t)(uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15);
    return &table.bucket[key >> 32 & (table.buckets - 1)];
}

static void chain_op(sv_drop_op_t *op)
{
    sv_drop_op_t **bucket = find_bucket(op->handle);
    op->chain = *bucket;
    *bucket = op;
}

/* Without memory for a larger one the table stays as it is. */
static void widen_handle_table(void)
{
    const size_t old_buckets = table.buckets;
    sv_drop_op_t **old = table.bucket, **wider = calloc(4 * old_buckets, sizeof *wider);
    if (!wider)
        return;
    table.bucket = wider;
    table.buckets = 4 * old_buckets;
    for (size_t b = 0; b < old_buckets; b++)
        for (sv_drop_op_t *op = old[b], *next; op; op = next) {
            next = op->chain;
            chain_op(op);
        }
    if (old != first_buckets)
        free(old);
}

void sv_drop_table_add(sv_drop_op_t *op)
{
    if (table.entries >= 2 * table.buckets)
        widen_handle_table();
    chain_op(op);
    op->added_at = ++table.number;
    op->passed_at = 0;
    table.entries++;
}

bool sv_drop_table_remove(sv_drop_op_t *op)
{
    sv_drop_op_t **at = find_bucket(op->handle);
    while (*at && *at != op)
        at = &(*at)->chain;
    if (!*at)
        return false;
    *at = op->chain;
    table.entries--;
    return true;
}

sv_drop_op_t *sv_drop_table_find(MPI_Request handle)
{
    sv_drop_op_t *op = *find_bucket(handle);
    while (op && (op->handle != handle || op->passed_at))
        op = op->chain;
    return op;
}

/* In any order. The visitor changes nothing of the table. */
void sv_drop_table_visit(void (*visit)(sv_drop_op_t *op))
{
    for (size_t b = 0; b < table.buckets; b++)
        for (sv_drop_op_t *op = table.bucket[b]; op; op = op->chain)
            visit(op);
}

/* Whether a call under way may look it up when it ends. All of them began before it was passed. */
static bool is_looked_up(const sv_drop_op_t *op)
{
    for (const sv_drop_table_call_t *call = table.calls; call; call = call->next)
        if (op->added_at <= call->number && call->number < op->passed_at)
            return true;
    return false;
}

bool sv_drop_table_pass(sv_drop_op_t *op)
{
    op->passed_at = table.number + 1;
    if (!is_looked_up(op)) {
        op->passed_at = 0;
        return false;
    }
    table.number++;
    op->users++; /* partner: end_looked_up() */
    op->passed_before = table.passed;
    table.passed = op;
    return true;
}

void sv_drop_table_begin_call(sv_drop_table_call_t *call)
{
    *call = (sv_drop_table_call_t){.number = table.number, .next = table.calls};
    table.calls = call;
}

sv_drop_op_t *sv_drop_table_find_at(MPI_Request handle, const sv_drop_table_call_t *call)
{
    sv_drop_op_t *op = handle == MPI_REQUEST_NULL ? NULL : *find_bucket(handle);
    while (op && (op->handle != handle || op->added_at > call->number ||
                  (op->passed_at && op->passed_at <= call->number)))
        op = op->chain;
    return op;
}

sv_drop_op_t *sv_drop_table_end_call(const sv_drop_table_call_t *call)
{
    sv_drop_table_call_t **link = &table.calls;
    sv_drop_op_t *over = NULL;
    while (*link != call)
        link = &(*link)->next;
    *link = call->next;
    for (sv_drop_op_t **at = &table.passed, *op = *at; op; op = *at) {
        if (is_looked_up(op)) {
            at = &op->passed_before;
            continue;
        }
        *at = op->passed_before;
        op->passed_before = over;
        over = op;
    }
    return over;
}
