/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The drop-in's table of handles among threads, without MPI: some begin requests, whose handles MPI gives out again and
 * again; others are in completion calls, and look up when those end what had a handle when they began. What they find
 * is held against a model. The table has its caller's lock; for the thread sanitizer, and for the numbers that say what
 * came before what.
 */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>

#include "fixtures/check.h"
#include "interpose/drop_table.h"

enum { HANDLES = 6, BEGINNERS = 2, WAITERS = 4, ROUNDS = 4000, MANY = 5000 };

/* A number for each operation; 0: none. */
static struct {
    pthread_mutex_t lock;
    int64_t last;
    int64_t of_handle[HANDLES];
    uint8_t ended[BEGINNERS * ROUNDS + 1]; /* by number: it has left the table for good */
    long found, found_passed;
} model = {.lock = PTHREAD_MUTEX_INITIALIZER};

static MPI_Request handle_at(int i)
{
    return (MPI_Request)(uintptr_t)(0x1000 + 64 * i);
}

static void release_op(sv_drop_op_t *op)
{
    CHECK(op->users > 0);
    if (--op->users == 0)
        sv_drop_table_give_op(op);
}

/* As the end of a request does: its operation leaves the table. */
static void forget_op(sv_drop_op_t *op)
{
    if (!sv_drop_table_remove(op))
        return;
    model.ended[op->call.bytes] = 1;
    release_op(op);
}

static void begin_request(int i)
{
    sv_drop_op_t *before = sv_drop_table_find(handle_at(i));
    CHECK_EQ(before ? before->call.bytes : 0, model.of_handle[i]);
    if (before && !sv_drop_table_pass(before))
        forget_op(before);
    sv_drop_op_t *op = sv_drop_table_take_op();
    op->handle = handle_at(i);
    op->call.bytes = model.of_handle[i] = ++model.last;
    op->users = 1;
    sv_drop_table_add(op);
    CHECK(sv_drop_table_find(handle_at(i)) == op);
}

static void *begin_requests(void *seed)
{
    unsigned random = (unsigned)(uintptr_t)seed;
    for (int round = 0; round < ROUNDS; round++) {
        random = random * 1103515245 + 12345;
        pthread_mutex_lock(&model.lock);
        begin_request((int)(random >> 16) % HANDLES);
        pthread_mutex_unlock(&model.lock);
        if (random >> 20 & 1)
            sched_yield();
    }
    return NULL;
}

/* What had this handle when the call began, unless another call has ended it since. */
static void look_up_one(const sv_drop_table_call_t *call, int i, int64_t wanted, bool ends)
{
    sv_drop_op_t *op = sv_drop_table_find_at(handle_at(i), call);
    if (!op) {
        CHECK(wanted == 0 || model.ended[wanted]);
        return;
    }
    CHECK_EQ(op->call.bytes, wanted);
    model.found++;
    model.found_passed += op->passed_at != 0;
    if (!ends)
        return;
    op->users++;
    if (model.of_handle[i] == wanted)
        model.of_handle[i] = 0;
    forget_op(op);
    release_op(op);
}

static void *wait_for_requests(void *seed)
{
    unsigned random = (unsigned)(uintptr_t)seed;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t wanted[HANDLES];
        sv_drop_table_call_t call;
        random = random * 1103515245 + 12345;
        pthread_mutex_lock(&model.lock);
        sv_drop_table_begin_call(&call);
        memcpy(wanted, model.of_handle, sizeof wanted);
        pthread_mutex_unlock(&model.lock);
        for (unsigned turn = random >> 16 & 3; turn > 0; turn--)
            sched_yield();
        pthread_mutex_lock(&model.lock);
        for (int i = 0; i < HANDLES; i++)
            look_up_one(&call, i, wanted[i], random >> (18 + i) & 1);
        for (sv_drop_op_t *op = sv_drop_table_end_call(&call), *next; op; op = next) {
            next = op->passed_before;
            forget_op(op);
            release_op(op);
        }
        pthread_mutex_unlock(&model.lock);
    }
    return NULL;
}

static void look_up_among_threads(void)
{
    pthread_t thread[BEGINNERS + WAITERS];
    for (int i = 0; i < BEGINNERS + WAITERS; i++)
        pthread_create(&thread[i], NULL, i < BEGINNERS ? begin_requests : wait_for_requests,
                       (void *)(uintptr_t)(17 * i + 3));
    for (int i = 0; i < BEGINNERS + WAITERS; i++)
        pthread_join(thread[i], NULL);
    printf("%ld operations were found, %ld of them with a handle that was another's by then\n", model.found,
           model.found_passed);
    CHECK(model.found > 0);
    for (int i = 0; i < HANDLES; i++) { /* nobody calls now: what has a handle is all that is left */
        sv_drop_op_t *op = sv_drop_table_find(handle_at(i));
        CHECK_EQ(op ? op->call.bytes : 0, model.of_handle[i]);
        if (op)
            forget_op(op);
    }
    for (int64_t number = 1; number <= model.last; number++)
        CHECK(model.ended[number]);
}

/* A handle that is given out again while a call is under way, and so a chance of many. */
static void look_up_passed(void)
{
    sv_drop_table_call_t before, after;
    sv_drop_op_t *op[2];
    for (int i = 0; i < 2; i++) {
        op[i] = sv_drop_table_take_op();
        op[i]->handle = handle_at(0);
        op[i]->users = 1;
    }
    sv_drop_table_add(op[0]);
    sv_drop_table_begin_call(&before);
    CHECK(sv_drop_table_pass(op[0]));
    CHECK(sv_drop_table_find(handle_at(0)) == NULL);
    sv_drop_table_add(op[1]);
    sv_drop_table_begin_call(&after);
    CHECK(sv_drop_table_find(handle_at(0)) == op[1]);
    CHECK(sv_drop_table_find_at(handle_at(0), &before) == op[0]);
    CHECK(sv_drop_table_find_at(handle_at(0), &after) == op[1]);
    CHECK(sv_drop_table_end_call(&after) == NULL);
    CHECK(sv_drop_table_end_call(&before) == op[0]);
    CHECK(!sv_drop_table_pass(op[1]));
    CHECK(sv_drop_table_remove(op[0]) && !sv_drop_table_remove(op[0]) && sv_drop_table_remove(op[1]));
    sv_drop_table_give_op(op[0]);
    sv_drop_table_give_op(op[1]);
}

/* The table widens, and each is found. */
static void look_up_many(void)
{
    static sv_drop_op_t *op[MANY];
    for (int i = 0; i < MANY; i++) {
        op[i] = sv_drop_table_take_op();
        op[i]->handle = handle_at(i);
        sv_drop_table_add(op[i]);
    }
    for (int i = 0; i < MANY; i++)
        CHECK(sv_drop_table_find(handle_at(i)) == op[i]);
    for (int i = 0; i < MANY; i++) {
        CHECK(sv_drop_table_remove(op[i]));
        CHECK(sv_drop_table_find(handle_at(i)) == NULL);
        sv_drop_table_give_op(op[i]);
    }
}

int main(void)
{
    look_up_passed();
    look_up_many();
    look_up_among_threads();
    return check_report("test_drop_table");
}
