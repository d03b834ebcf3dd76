/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion calls. Without a request of ours anywhere they are MPI's own. With one, MPI's non-blocking form is called
 * again and again, and progress is made in between. After it persistent receives land, and errors that MPI reported
 * for inner requests are reported for the program's.
 *
 * Where nothing of ours is in flight (requests of host memory are only watched) the call is MPI's own. After it the
 * operation of each request that has ended is looked up, by the handle that the program had. So a list of many
 * thousands costs a copy of its handles.
 * Any thread; a call is a user of each operation that it looks at, until it returns.
 */
#include "interpose/drop_idle.h"
#include "interpose/drop_persistent.h"
#include "interpose/drop_probe.h"
#include "interpose/drop_table.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 64 };

/* After a call that has blocked. */
static int end_wait(int code)
{
    sv_drop_give_back();
    return sv_drop_heed(code);
}

int sv_drop_drive(int code, MPI_Request *request, MPI_Status *status)
{
    unsigned turns = 0;
    int done = 0;
    while (code == MPI_SUCCESS && !done) {
        sv_drop_turn(&turns);
        code = PMPI_Test(request, &done, status);
    }
    return end_wait(code);
}

int sv_drop_await(int code, MPI_Request *request, MPI_Status *status)
{
    if (code == MPI_SUCCESS && !sv_drop_is_busy() && !sv_drop_fast_drives())
        return sv_drop_heed(PMPI_Wait(request, status));
    return sv_drop_drive(code, request, status);
}

/* The operations of a call's requests, found before MPI overwrites the handles. It has statuses if the program has
   none. */
typedef struct set {
    int n;
    sv_drop_op_t **op, *few_ops[FEW];
    MPI_Status *status, few_statuses[FEW];
    bool own_statuses;
    const MPI_Request *handle; /* of a call that is MPI's own: as they were before; op is looked up after it */
    sv_drop_table_call_t call; /* that call */
    bool shares;               /* op, handle and status are in the one scratch */
} set_t;

static void set_begin(set_t *set, int n, const MPI_Request *requests, MPI_Status *statuses)
{
    set->n = n > 0 ? n : 0;
    set->own_statuses = statuses == MPI_STATUSES_IGNORE;
    set->op = set->n <= FEW ? set->few_ops : malloc((size_t)n * sizeof *set->op);
    set->status = !set->own_statuses ? statuses
                  : set->n <= FEW    ? set->few_statuses
                                     : malloc((size_t)n * sizeof *set->status);
    if (!set->op || (set->n > 0 && !set->status))
        sv_drop_fatal("no memory", "for a completion call");
    set->handle = NULL;
    sv_drop_lock(); /* once, not for each */
    sv_drop_read_notes();
    for (int i = 0; i < set->n; i++) {
        sv_drop_op_t *op = set->op[i] = requests[i] != MPI_REQUEST_NULL ? sv_drop_table_find(requests[i]) : NULL;
        if (op) { /* partners: set_end() */
            op->users++;
            op->held += op->persistent;
        }
    }
    sv_drop_unlock();
}

/* MPI need not set the errors of n statuses where it reports none. It writes no others: the program may have no room
   for those of requests that cannot be among some. */
static void clear_errors(set_t *set, int n)
{
    for (int i = 0; i < n; i++)
        set->status[i].MPI_ERROR = MPI_SUCCESS;
}

/* Open MPI frees a persistent request that failed. */
static void forget_failed(sv_drop_op_t *op, MPI_Request now)
{
    if (op && op->keeps && now == MPI_REQUEST_NULL)
        sv_drop_op_forget(op);
    sv_drop_op_release(op);
}

static int set_end(set_t *set, const MPI_Request *requests, int code)
{
    sv_drop_lock();
    for (int i = 0; i < set->n; i++) {
        sv_drop_op_t *op = set->op[i];
        if (op && op->persistent)
            op->held--; /* partner: set_begin() */
        if (op && op->users > 1 && !op->keeps)
            op->users--;
        else
            forget_failed(op, requests[i]);
    }
    sv_drop_unlock();
    if (set->op != set->few_ops)
        free(set->op);
    if (set->own_statuses && set->status != set->few_statuses)
        free(set->status);
    return sv_drop_heed(code);
}

/*
 * Ends requests index[0], ... (NULL: all) with statuses at 0, 1, ..., and marks the errors of those that are ours. An
 * error of a persistent request is in its status only: Open MPI's tests do not return it.
 */
static int settle_set(set_t *set, int n, const int *index, int code)
{
    bool reported = code == MPI_ERR_IN_STATUS;
    for (int i = 0; i < n; i++) {
        sv_drop_op_t *op = set->op[index ? index[i] : i];
        MPI_Status *status = &set->status[i];
        if (reported && status->MPI_ERROR == MPI_ERR_PENDING)
            continue;
        if (sv_drop_given_has(op)) { /* for MPI it is inactive */
            code = sv_drop_given_set_status(op, status, true) != MPI_SUCCESS ? MPI_ERR_IN_STATUS : code;
            continue;
        }
        int error = op ? sv_drop_op_settle(op, status->MPI_ERROR == MPI_SUCCESS ? status : NULL, true) : MPI_SUCCESS;
        if (error != MPI_SUCCESS)
            status->MPI_ERROR = error;
        code = status->MPI_ERROR != MPI_SUCCESS ? MPI_ERR_IN_STATUS : code;
    }
    return code;
}

/* Whether MPI may wait by itself: nothing of ours needs progress meanwhile. */
static bool may_block(void)
{
    return !sv_drop_is_busy() && !sv_drop_fast_drives();
}

/* --- MPI's own calls ---------------------------------------------------------------------------------------------- */

static bool is_mpis_own(void)
{
    return may_block() && !atomic_load_explicit(&sv_drop_given_ever, memory_order_relaxed);
}

/* Memory for long lists, which one call at a time has. Others allocate theirs. */
static struct {
    char *memory;
    size_t bytes;
    atomic_flag taken; /* partners: remember_handles() and end_looked_up() */
} scratch = {.taken = ATOMIC_FLAG_INIT};

/* Keeps the handles, and statuses if they are wanted and the program has none. */
static void remember_handles(set_t *set, int n, const MPI_Request *requests, bool wants_statuses, MPI_Status *statuses)
{
    const size_t length = n > 0 ? (size_t)n : 0;
    const size_t bytes = length * (sizeof *set->op + sizeof *set->handle + sizeof *set->status) + 1;
    set->n = n > 0 ? n : 0;
    set->own_statuses = wants_statuses && statuses == MPI_STATUSES_IGNORE;
    set->shares = !atomic_flag_test_and_set_explicit(&scratch.taken, memory_order_acquire);
    if (set->shares && scratch.bytes < bytes) {
        free(scratch.memory);
        scratch.bytes = 2 * bytes;
        scratch.memory = malloc(scratch.bytes);
    }
    char *memory = set->shares ? scratch.memory : malloc(bytes);
    if (!memory)
        sv_drop_fatal("no memory", "for a completion call");
    set->op = (sv_drop_op_t **)(void *)memory;
    set->handle = (MPI_Request *)(void *)(set->op + length);
    set->status = set->own_statuses ? (MPI_Status *)(void *)(set->handle + length) : statuses;
    memcpy((void *)(uintptr_t)set->handle, requests, length * sizeof *requests);
    sv_drop_fast_answer();
    sv_drop_lock();
    sv_drop_read_notes(); /* what has ended before must not be found, though another request may have its handle */
    sv_drop_table_begin_call(&set->call);
    sv_drop_unlock();
}

/* Finds the operations that n requests had, index[0] and so on (NULL: the first n). */
static void look_up_ended(set_t *set, int n, const int *index)
{
    sv_drop_lock();
    for (int i = 0; i < n; i++) {
        const int at = index ? index[i] : i;
        set->op[at] = sv_drop_table_find_at(set->handle[at], &set->call);
        if (set->op[at])
            set->op[at]->users++; /* partner: forget_failed() */
    }
    sv_drop_unlock();
}

static int end_looked_up(set_t *set, int n, const int *index, const MPI_Request *requests, int code)
{
    sv_drop_lock();
    for (int i = 0; i < n; i++) {
        const int at = index ? index[i] : i;
        forget_failed(set->op[at], requests[at]);
    }
    for (sv_drop_op_t *op = sv_drop_table_end_call(&set->call), *next; op; op = next) {
        next = op->passed_before;
        sv_drop_op_forget(op);
        sv_drop_op_release(op); /* partner: sv_drop_table_pass() */
    }
    sv_drop_unlock();
    if (set->shares)
        atomic_flag_clear_explicit(&scratch.taken, memory_order_release);
    else
        free(set->op);
    return sv_drop_heed(code);
}

static int complete_any_as_mpi(int n, MPI_Request *requests, int *index, int *flag, MPI_Status *status, bool blocks)
{
    set_t set;
    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;
    remember_handles(&set, n, requests, false, MPI_STATUSES_IGNORE);
    *flag = blocks;
    int code = blocks ? PMPI_Waitany(n, requests, index, used) : PMPI_Testany(n, requests, index, flag, used);
    if (code != MPI_SUCCESS) { /* of which one, MPI does not always say */
        look_up_ended(&set, set.n, NULL);
        return end_looked_up(&set, set.n, NULL, requests, code);
    }
    const int ended = *flag && *index != MPI_UNDEFINED;
    look_up_ended(&set, ended, index);
    if (ended && set.op[*index])
        code = sv_drop_op_settle(set.op[*index], used, true);
    return end_looked_up(&set, ended, index, requests, code);
}

/* --- one ---------------------------------------------------------------------------------------------------------- */

/* A call that is at one persistent request: no other asks MPI about that meanwhile. */
static void hold_op(sv_drop_op_t *op, int calls)
{
    if (!op || !op->persistent)
        return;
    sv_drop_lock();
    op->held += calls;
    sv_drop_unlock();
}

int sv_drop_complete(MPI_Request *request, int *flag, MPI_Status *status, bool blocks)
{
    unsigned turns = 0;
    int code;
    sv_drop_op_t *op = sv_drop_op_find(*request);
    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;
    hold_op(op, 1); /* partners: below */
    if (sv_drop_given_has(op)) {
        *flag = sv_drop_given_ended(op, blocks);
        code = *flag ? sv_drop_given_set_status(op, used, true) : MPI_SUCCESS;
        hold_op(op, -1);
        sv_drop_op_release(op);
        return blocks ? end_wait(code) : code;
    }
    do {
        sv_drop_turn_for(&turns, &op, 1);
        *flag = blocks && may_block();
        code = *flag ? PMPI_Wait(request, used) : PMPI_Test(request, flag, used);
    } while (code == MPI_SUCCESS && !*flag && blocks);
    if (op && code == MPI_SUCCESS && *flag) /* the turn may have ended it by asking about it */
        code = sv_drop_given_has(op) ? sv_drop_given_set_status(op, used, true) : sv_drop_op_settle(op, used, true);
    else if (op && op->persistent && code != MPI_SUCCESS)
        (void)sv_drop_op_settle(op, NULL, true);
    hold_op(op, -1);
    forget_failed(op, *request);
    return blocks ? end_wait(code) : sv_drop_heed(code);
}

SV_DROP_EXPORT int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    int flag;
    return sv_drop_is_concerned() ? sv_drop_complete(request, &flag, status, true)
                                  : sv_drop_heed(PMPI_Wait(request, status));
}

SV_DROP_EXPORT int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    return sv_drop_is_concerned() ? sv_drop_complete(request, flag, status, false)
                                  : sv_drop_heed(PMPI_Test(request, flag, status));
}

SV_DROP_EXPORT int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    MPI_Status own;
    if (!sv_drop_is_concerned())
        return PMPI_Request_get_status(request, flag, status);
    MPI_Status *used = status == MPI_STATUS_IGNORE ? &own : status;
    sv_drop_op_t *op = sv_drop_op_find(request);
    unsigned turns = 0;
    int code = MPI_SUCCESS;
    hold_op(op, 1); /* partner: below */
    sv_drop_turn_for(&turns, &op, 1);
    if (sv_drop_given_has(op))
        *flag = sv_drop_given_ended(op, false);
    else if (op)
        code = sv_drop_given_ask(op, request, op->persistent, flag, used);
    else
        code = PMPI_Request_get_status(request, flag, used);
    /* An error of the route's is for the call that ends the request. */
    if (code == MPI_SUCCESS && *flag && sv_drop_given_has(op))
        (void)sv_drop_given_set_status(op, used, false);
    else if (op && code == MPI_SUCCESS && *flag && op->keeps)
        (void)sv_drop_op_settle(op, used, false);
    hold_op(op, -1);
    sv_drop_op_release(op);
    return code;
}

/* The number of requests for which a receive of a taken message stands in (drop_probe.c), and the index of one that
   has ended, or -1. */
static int find_given(const set_t *set, int *ended_out)
{
    int n = 0;
    *ended_out = -1;
    for (int i = 0; i < set->n; i++)
        if (sv_drop_given_has(set->op[i])) {
            n++;
            if (sv_drop_given_ended(set->op[i], false))
                *ended_out = i;
        }
    return n;
}

/* --- all, and some ------------------------------------------------------------------------------------------------ */

/* The calls that end many requests: all of them, or, with indices, those that are through. */
typedef struct many {
    bool some;
    int *found, *indices; /* found: the flag of all, the number of some */
} many_t;

/* MPICH 4.0 says of partitioned requests that one has failed, before and when they are complete, though none has. */
static int true_code(const set_t *set, int n, int code)
{
    for (int i = 0; i < n && code == MPI_ERR_IN_STATUS; i++)
        if (set->status[i].MPI_ERROR != MPI_SUCCESS && set->status[i].MPI_ERROR != MPI_ERR_PENDING)
            return code;
    return code == MPI_ERR_IN_STATUS ? MPI_SUCCESS : code;
}

static int test_many(set_t *set, int n, MPI_Request *requests, many_t many, bool blocks)
{
    if (many.some) {
        const int code = (blocks ? PMPI_Waitsome : PMPI_Testsome)(n, requests, many.found, many.indices, set->status);
        if (code == MPI_SUCCESS && *many.found != MPI_UNDEFINED)
            clear_errors(set, *many.found);
        return code;
    }
    clear_errors(set, set->n);
    if (!blocks)
        return PMPI_Testall(n, requests, many.found, set->status);
    *many.found = 1;
    return PMPI_Waitall(n, requests, set->status);
}

static int complete_many_as_mpi(int n, MPI_Request *requests, many_t many, MPI_Status *statuses, bool blocks)
{
    set_t set;
    remember_handles(&set, n, requests, true, statuses);
    int code = test_many(&set, n, requests, many, blocks);
    int ended = !many.some ? set.n : *many.found != MPI_UNDEFINED ? *many.found : 0;
    code = true_code(&set, ended, code);
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) { /* of which one, nobody says */
        look_up_ended(&set, set.n, NULL);
        return end_looked_up(&set, set.n, NULL, requests, code);
    }
    if (code == MPI_SUCCESS && !*many.found)
        ended = 0;
    look_up_ended(&set, ended, many.indices);
    code = settle_set(&set, ended, many.indices, code);
    return end_looked_up(&set, ended, many.indices, requests, code);
}

static int complete_many(int n, MPI_Request *requests, many_t many, MPI_Status *statuses, bool blocks)
{
    if (is_mpis_own())
        return complete_many_as_mpi(n, requests, many, statuses, blocks);
    set_t set;
    unsigned turns = 0;
    int code = MPI_SUCCESS, come = 0;
    set_begin(&set, n, requests, statuses);
    /* A call for all begins with the requests whose messages a probe has taken. */
    for (int i = 0; i < set.n && !many.some; i++)
        if (sv_drop_given_has(set.op[i]) && !sv_drop_given_ended(set.op[i], blocks)) {
            *many.found = 0;
            return set_end(&set, requests, MPI_SUCCESS);
        }
    do {
        int given = 0, ended = -1, done = 1;
        MPI_Status asked;
        sv_drop_turn_for(&turns, set.op, set.n);
        *many.found = 0;
        /* A wait for all looks at ours in order, up to one that is not through. So it looks at each of many a few
           times, not at all of them for each that ends. MPI is asked about the others in the end. */
        for (; blocks && !many.some && come < set.n; come++) {
            sv_drop_op_t *op = requests[come] != MPI_REQUEST_NULL ? set.op[come] : NULL;
            if (op && sv_drop_given_ask(op, requests[come], op->persistent, &done, &asked) == MPI_SUCCESS && !done)
                break;
        }
        if (blocks && !many.some && come < set.n)
            continue;
        if (many.some)
            given = find_given(&set, &ended);
        if (ended >= 0) {
            *many.found = 1;
            many.indices[0] = ended;
            clear_errors(&set, 1);
            code = MPI_SUCCESS;
            break;
        }
        code = test_many(&set, n, requests, many, blocks && !given && may_block());
        if (given > 0 && *many.found == MPI_UNDEFINED) /* for MPI there is no request that is active */
            *many.found = 0;
        code = true_code(&set, !many.some ? set.n : *many.found != MPI_UNDEFINED ? *many.found : 0, code);
    } while (code == MPI_SUCCESS && !*many.found && blocks);
    bool ended = code == MPI_ERR_IN_STATUS || (code == MPI_SUCCESS && *many.found);
    if (ended && !many.some)
        code = settle_set(&set, set.n, NULL, code);
    else if (ended && *many.found != MPI_UNDEFINED)
        code = settle_set(&set, *many.found, many.indices, code);
    return set_end(&set, requests, code);
}

SV_DROP_EXPORT int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    int flag;
    if (!sv_drop_is_concerned())
        return sv_drop_heed(PMPI_Waitall(count, requests, statuses));
    return end_wait(complete_many(count, requests, (many_t){false, &flag, NULL}, statuses, true));
}

SV_DROP_EXPORT int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    return sv_drop_is_concerned() ? complete_many(count, requests, (many_t){false, flag, NULL}, statuses, false)
                              : sv_drop_heed(PMPI_Testall(count, requests, flag, statuses));
}

SV_DROP_EXPORT int MPI_Waitsome(int incount, MPI_Request requests[], int *outcount, int indices[],
                                MPI_Status statuses[])
{
    if (!sv_drop_is_concerned())
        return sv_drop_heed(PMPI_Waitsome(incount, requests, outcount, indices, statuses));
    return end_wait(complete_many(incount, requests, (many_t){true, outcount, indices}, statuses, true));
}

SV_DROP_EXPORT int MPI_Testsome(int incount, MPI_Request requests[], int *outcount, int indices[],
                                MPI_Status statuses[])
{
    return sv_drop_is_concerned() ? complete_many(incount, requests, (many_t){true, outcount, indices}, statuses, false)
                              : sv_drop_heed(PMPI_Testsome(incount, requests, outcount, indices, statuses));
}

/* --- any ---------------------------------------------------------------------------------------------------------- */

static int complete_any(int n, MPI_Request *requests, int *index, int *flag, MPI_Status *status, bool blocks)
{
    if (is_mpis_own())
        return complete_any_as_mpi(n, requests, index, flag, status, blocks);
    set_t set;
    MPI_Status own;
    unsigned turns = 0;
    int code;
    MPI_Status *used = status == MPI_STATUS_IGNORE ? &own : status;
    set_begin(&set, n, requests, MPI_STATUSES_IGNORE);
    do {
        int ended;
        sv_drop_turn_for(&turns, set.op, set.n);
        const int given = find_given(&set, &ended);
        if (ended >= 0) {
            *flag = 1;
            *index = ended;
            return set_end(&set, requests, sv_drop_given_set_status(set.op[ended], used, true));
        }
        *flag = blocks && !given && may_block();
        code = *flag ? PMPI_Waitany(n, requests, index, used) : PMPI_Testany(n, requests, index, flag, used);
        if (given > 0 && code == MPI_SUCCESS && *flag && *index == MPI_UNDEFINED)
            *flag = 0;
    } while (code == MPI_SUCCESS && !*flag && blocks);
    if (code == MPI_SUCCESS && *flag && *index != MPI_UNDEFINED && set.op[*index])
        code = sv_drop_op_settle(set.op[*index], used, true);
    return set_end(&set, requests, code);
}

SV_DROP_EXPORT int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    int flag;
    if (!sv_drop_is_concerned())
        return sv_drop_heed(PMPI_Waitany(count, requests, index, status));
    return end_wait(complete_any(count, requests, index, &flag, status, true));
}

SV_DROP_EXPORT int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    return sv_drop_is_concerned() ? complete_any(count, requests, index, flag, status, false)
                              : sv_drop_heed(PMPI_Testany(count, requests, index, flag, status));
}

/* --- requests without an end -------------------------------------------------------------------------------------- */

SV_DROP_EXPORT int MPI_Request_free(MPI_Request *request)
{
    sv_drop_flush();
    sv_drop_op_t *op = sv_drop_is_concerned() ? sv_drop_op_find(*request) : NULL;
    const bool adopted = op && sv_drop_op_adopt(op);
    if (op && op->instead != MPI_REQUEST_NULL)
        MPI_Request_free(&op->instead);
    if (op && op->keeps && !adopted)
        sv_drop_op_forget(op);
    if (op && !op->keeps)
        op->freed = true;
    const int code = adopted ? MPI_SUCCESS : PMPI_Request_free(request);
    if (adopted)
        *request = MPI_REQUEST_NULL;
    sv_drop_op_release(op); /* MPI may have read lists of its */
    return code;
}

SV_DROP_EXPORT int MPI_Cancel(MPI_Request *request)
{
    sv_drop_op_t *op = NULL;
    sv_drop_flush();
    if (sv_drop_is_concerned()) {
        sv_drop_progress();
        op = sv_drop_op_find(*request);
    }
    /* A receive that stands in its place is cancelled. For a send by the route, and for what has ended, it is too
       late. */
    int code = MPI_SUCCESS;
    if (op && op->instead != MPI_REQUEST_NULL && !op->isend)
        code = MPI_Cancel(&op->instead);
    else if (!sv_drop_given_has(op))
        code = PMPI_Cancel(request);
    sv_drop_op_release(op);
    return code;
}

static int start_persistent(MPI_Request *requests, int n, bool all)
{
    set_t set;
    int code = MPI_SUCCESS;
    set_begin(&set, n, requests, MPI_STATUSES_IGNORE);
    const bool guards = sv_drop_fast_guards();
    bool each = guards || sv_drop_has_taken() ||
                atomic_load_explicit(&sv_drop_invited_ever, memory_order_relaxed); /* see sv_drop_given_start() */
    for (int i = 0; !each && i < set.n; i++)
        each = set.op[i] && (set.op[i]->isend || set.op[i]->collective || sv_drop_given_has(set.op[i]));
    /* One after the other where a probe may have taken the message of a receive, which with threads it may do at any
       time; where a send may go by the route, which keeps MPI's order; and where a collective call is messages. */
    for (int i = 0; each && i < set.n && code == MPI_SUCCESS; i++) {
        sv_drop_op_t *op = set.op[i] && set.op[i]->persistent ? set.op[i] : NULL;
        if (op && (sv_drop_given_refuses(op, &code) || sv_drop_send_start(op) || sv_drop_persistent_start(op)))
            continue;
        sv_drop_flush(); /* the route may have had no room for the one before, which then is batched */
        if (op)
            sv_drop_op_start(op);
        if (guards)
            sv_drop_lock();
        if (!op || !sv_drop_given_start(op))
            code = PMPI_Start(&requests[i]);
        if (guards)
            sv_drop_unlock();
        if (op)
            sv_drop_op_rename(op, requests[i]);
    }
    if (each)
        return set_end(&set, requests, code);
    /* Else they start all at once. */
    for (int i = 0; i < n; i++)
        if (set.op[i] && set.op[i]->persistent)
            sv_drop_op_start(set.op[i]);
    code = all ? PMPI_Startall(n, requests) : PMPI_Start(requests);
    for (int i = 0; i < n; i++)
        if (set.op[i] && set.op[i]->persistent)
            sv_drop_op_rename(set.op[i], requests[i]);
    return set_end(&set, requests, code);
}

SV_DROP_EXPORT int MPI_Start(MPI_Request *request)
{
    sv_drop_flush();
    return sv_drop_is_concerned() ? start_persistent(request, 1, false) : PMPI_Start(request);
}

SV_DROP_EXPORT int MPI_Startall(int count, MPI_Request requests[])
{
    sv_drop_flush();
    return sv_drop_is_concerned() && count > 0 ? start_persistent(requests, count, true)
                                               : PMPI_Startall(count, requests);
}
