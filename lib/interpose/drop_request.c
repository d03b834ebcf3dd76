/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of calls with device memory. The program's handle is a generalized request of MPI's, so that it can be given
 * to any completion call. Under it are MPI requests on pinned memory and the copy that follows them. Whoever polls
 * (completion calls, or the progress thread) tests those, copies, and completes the handle.
 *
 *   program   MPI_Irecv(device) -> handle            MPI_Wait(handle) -> status, as MPI gave it for the inner one
 *   here      PMPI_Irecv(pinned) -> inner ... done, copy up, PMPI_Grequest_complete(handle)
 *
 * Persistent requests are MPI's own, on pinned memory, and land when a completion call of the drop-in sees their end.
 * Any thread. One lock guards everything here. It is recursive, because error handlers of the program run inside. MPI's
 * own locks are taken inside it and never around it. What MPI calls back leaves a note, which the next holder of the
 * lock reads. An operation owns its call and its fast state, and is freed with its last user.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for recursive mutexes */
#endif
#include "interpose/drop_joint.h"
#include "interpose/drop_order.h"
#include "interpose/drop_raise.h"
#include "interpose/drop_persistent.h"
#include "interpose/drop_probe.h"
#include "interpose/drop_table.h"

#include <sched.h>
#include <stdlib.h>

/* LOOKS: how many requests that have not ended a walk looks at, ROUTE_LOOKS: those of them that the route is at.
   TURN_MOST: of those and of such as have. Every WHOLE-th turn has both walks. */
enum { TURNS_BUSY = 64, LOOKS = 16, ROUTE_LOOKS = 4, TURN_MOST = 256, WHOLE = 8 };

_Atomic int sv_drop_open, sv_drop_running;

static struct {
    pthread_mutex_t lock;
    sv_drop_op_t *first, *last;        /* under way, in the order in which they began */
    sv_drop_op_t *next;                /* where the next walk goes on; NULL: at the first */
    _Atomic(sv_drop_op_t *) freed;     /* whose handles MPI has freed since */
    bool walks;                        /* the list is being walked, by whoever has the lock */
    unsigned turns;                    /* in which it was */
} engine = {.lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP};

void sv_drop_lock(void)
{
    pthread_mutex_lock(&engine.lock);
}

void sv_drop_unlock(void)
{
    pthread_mutex_unlock(&engine.lock);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static sv_drop_op_t *make_op(const sv_drop_call_t *call, const sv_drop_fast_t *fast, bool message)
{
    sv_drop_op_t *op = sv_drop_table_take_op();
    if (!op)
        sv_drop_fatal("no memory", call->name);
    op->call = *call;
    sv_drop_call_hold(&op->call);
    if (fast)
        op->fast = *fast;
    op->message = message;
    op->inner = op->also = op->handle = op->instead = MPI_REQUEST_NULL;
    return op;
}

/* The caller has the lock. Not inlined: compilers that follow one path only take a user for the last. */
static __attribute__((noinline)) void release_op_locked(sv_drop_op_t *op)
{
    if (--op->users > 0)
        return;
    sv_drop_call_end(&op->call);
    sv_drop_fast_release(&op->fast);
    sv_drop_persistent_end(op->collective);
    free(op->lists[0]);
    free(op->lists[1]);
    sv_drop_table_give_op(op);
}

void sv_drop_op_release(sv_drop_op_t *op)
{
    if (!op)
        return;
    pthread_mutex_lock(&engine.lock);
    release_op_locked(op);
    pthread_mutex_unlock(&engine.lock);
}

static void unlist_handle(sv_drop_op_t *op)
{
    if (!sv_drop_table_remove(op))
        return;
    atomic_fetch_sub_explicit(&sv_drop_open, 1, memory_order_relaxed);
    release_op_locked(op);
}

/* MPI may give out a freed handle again, so that the notes are read before anything is looked up or listed. */
void sv_drop_read_notes(void)
{
    /* Partner: the release in handle_freed(). */
    sv_drop_op_t *op = atomic_exchange_explicit(&engine.freed, NULL, memory_order_acquire);
    while (op) {
        sv_drop_op_t *next = op->freed_before;
        if (!sv_drop_table_pass(op))
            unlist_handle(op);
        op = next;
    }
}

/* MPI has given out this handle again. So the request that had it is complete. The program has completed it by a call
   that the drop-in does not see, or another thread completes it just now. */
static void forget_passed(MPI_Request handle)
{
    sv_drop_read_notes();
    sv_drop_op_t *op = sv_drop_table_find(handle);
    if (op && op->keeps && !sv_drop_table_pass(op))
        sv_drop_op_forget(op);
}

void sv_drop_op_passed(MPI_Request handle)
{
    if (!sv_drop_has_open())
        return;
    pthread_mutex_lock(&engine.lock);
    forget_passed(handle);
    pthread_mutex_unlock(&engine.lock);
}

static void list_handle(sv_drop_op_t *op)
{
    forget_passed(op->handle);
    sv_drop_table_add(op);
    op->users++;
    atomic_fetch_add_explicit(&sv_drop_open, 1, memory_order_relaxed);
}

static void list_running(sv_drop_op_t *op)
{
    op->next = NULL;
    op->prev = engine.last;
    *(op->prev ? &op->prev->next : &engine.first) = op;
    engine.last = op;
    op->running = true;
    op->users++;
    atomic_fetch_add_explicit(&sv_drop_running, 1, memory_order_relaxed);
}

static void unlist_running(sv_drop_op_t *op)
{
    if (!op->running)
        return;
    op->running = false;
    if (engine.next == op)
        engine.next = op->next;
    *(op->prev ? &op->prev->next : &engine.first) = op->next;
    *(op->next ? &op->next->prev : &engine.last) = op->prev;
    atomic_fetch_sub_explicit(&sv_drop_running, 1, memory_order_relaxed);
    release_op_locked(op);
}

sv_drop_op_t *sv_drop_op_find(MPI_Request handle)
{
    if (handle == MPI_REQUEST_NULL)
        return NULL;
    pthread_mutex_lock(&engine.lock);
    sv_drop_read_notes();
    sv_drop_op_t *op = sv_drop_table_find(handle);
    if (op)
        op->users++;
    pthread_mutex_unlock(&engine.lock);
    return op;
}

/* --- generalized requests: MPI calls these ------------------------------------------------------------------------ */

/* The wrapped completion call returns errors, after the communicator's error handler has had its turn. */
static int query_handle(void *extra, MPI_Status *status)
{
    const sv_drop_op_t *op = extra;
    *status = op->status;
    status->MPI_ERROR = MPI_SUCCESS;
    return MPI_SUCCESS;
}

static int handle_freed(void *extra)
{
    sv_drop_op_t *op = extra;
    op->freed_before = atomic_load_explicit(&engine.freed, memory_order_relaxed);
    /* Partner: the acquire in sv_drop_read_notes(). */
    while (!atomic_compare_exchange_weak_explicit(&engine.freed, &op->freed_before, op, memory_order_release,
                                                  memory_order_relaxed))
        ;
    return MPI_SUCCESS;
}

static int cancel_handle(void *extra, int complete)
{
    sv_drop_op_t *op = extra;
    (void)complete;
    atomic_store_explicit(&op->cancels, true, memory_order_relaxed);
    return MPI_SUCCESS;
}

int sv_drop_request_start(const sv_drop_call_t *call, const sv_drop_fast_t *fast, MPI_Request inner, MPI_Request also,
                          bool message, MPI_Request *request)
{
    pthread_mutex_lock(&engine.lock);
    sv_drop_op_t *op = make_op(call, fast, message);
    op->inner = inner;
    op->also = also;
    op->alike = message && call->joins;
    if (PMPI_Grequest_start(query_handle, handle_freed, cancel_handle, op, &op->handle) != MPI_SUCCESS)
        sv_drop_fatal("no generalized request", call->name);
    list_handle(op);
    list_running(op);
    *request = op->handle;
    pthread_mutex_unlock(&engine.lock);
    return MPI_SUCCESS;
}

static sv_drop_op_t *keep_op(const sv_drop_call_t *call, const sv_drop_fast_t *fast, MPI_Request inner, bool message)
{
    sv_drop_op_t *op = make_op(call, fast, message);
    op->keeps = true;
    op->handle = inner;
    list_handle(op);
    return op;
}

int sv_drop_request_keep(const sv_drop_call_t *call, const sv_drop_fast_t *fast, MPI_Request inner, bool message,
                         MPI_Request *request)
{
    sv_drop_given_keep();
    pthread_mutex_lock(&engine.lock);
    sv_drop_op_t *op = keep_op(call, fast, inner, message);
    op->persistent = true;
    op->source = call->peer;
    op->tag = call->tag;
    op->call.begin_ns = 0; /* each start begins anew */
    *request = inner;
    pthread_mutex_unlock(&engine.lock);
    return MPI_SUCCESS;
}

int sv_drop_request_watch(const sv_drop_call_t *call, const sv_drop_fast_t *fast, MPI_Request inner,
                          MPI_Request *request)
{
    pthread_mutex_lock(&engine.lock);
    keep_op(call, fast, inner, true)->active = true;
    *request = inner;
    pthread_mutex_unlock(&engine.lock);
    return MPI_SUCCESS;
}

void sv_drop_request_own(MPI_Request request, bool persistent, void *first, void *second)
{
    const sv_drop_call_t call = {.name = "lists of a request"};
    if (persistent)
        sv_drop_given_keep();
    pthread_mutex_lock(&engine.lock);
    sv_drop_read_notes();
    sv_drop_op_t *op = sv_drop_table_find(request);
    if (!op || (op->keeps && !(persistent && op->persistent))) { /* MPI's own; a kept one of that handle is over */
        op = keep_op(&call, NULL, request, false);
        op->persistent = persistent;
        op->active = !persistent;
    }
    op->lists[0] = first;
    op->lists[1] = second;
    pthread_mutex_unlock(&engine.lock);
}

/* --- progress ----------------------------------------------------------------------------------------------------- */

/* A request that the program has freed while it was in flight. */
static bool orphan_ended(sv_drop_op_t *op)
{
    int done = op->asked;
    if (op->handle == MPI_REQUEST_NULL)
        return true;
    const int code = sv_drop_heed(op->asked ? op->asked_error : PMPI_Test(&op->handle, &done, &op->status));
    if (code != MPI_SUCCESS)
        op->error = MPI_ERR_OTHER; /* of which MPI has told the error handler */
    else if (!done)
        return false;
    else if (!op->announcement_read)
        op->announcement_read = sv_drop_fast_take_announced(&op->fast, &op->call, &op->status);
    if (op->handle != MPI_REQUEST_NULL)
        PMPI_Request_free(&op->handle);
    return true;
}

/* *waits_out: MPI has been asked about it, and has nothing yet; else as it was. */
static bool op_ended(sv_drop_op_t *op, int mine, bool *waits_out)
{
    int done = 0, code = MPI_SUCCESS;
    bool arrived;
    /* Where the program's memory is not free yet, MPI is told all the same where to put fragments, as their sender
       waits for that. */
    const bool held = sv_drop_order_holds(op);
    if (op->joint || (held && !sv_drop_fragments_may_come(&op->fast)))
        return false;
    /* 1. Is MPI through with it? What came may be an announcement, and then Selvage is not. */
    if (op->orphan) {
        arrived = orphan_ended(op);
    } else if (op->keeps) {
        /* It is looked at without ending it. If a thread ends it now, the status is empty: only announcements count. */
        if (!op->announcement_read &&
            sv_drop_given_ask(op, op->handle, mine, &done, &op->status) == MPI_SUCCESS && done)
            op->announcement_read = sv_drop_fast_take_announced(&op->fast, &op->call, &op->status);
        arrived = op->announcement_read;
    } else if (op->batched || op->inner == MPI_REQUEST_NULL) {
        arrived = !op->batched;
    } else {
        if (atomic_exchange_explicit(&op->cancels, false, memory_order_relaxed))
            PMPI_Cancel(&op->inner);
        code = PMPI_Test(&op->inner, &done, &op->status);
        arrived = done || code != MPI_SUCCESS;
        *waits_out = !arrived;
        op->inner = arrived ? MPI_REQUEST_NULL : op->inner;
        if (code != MPI_SUCCESS) {
            op->error = sv_drop_heed(code); /* the program may have freed the request */
            if (op->fast.renames) /* MPI's own call was on a communicator that is not the program's */
                (void)sv_drop_raise(op->fast.comm, code);
        } else if (done) {
            sv_drop_fragments_cancel(&op->fast, &op->status);
            op->unread = held && !sv_drop_fast_needs_no_memory(&op->fast, &op->call, &op->status);
            if (!op->unread)
                sv_drop_fast_take_announced(&op->fast, &op->call, &op->status);
        } else if (sv_drop_fast_is_lost(&op->fast, op->call.peer)) {
            PMPI_Cancel(&op->inner);
        }
    }
    if (held)
        return false;
    /* 2. Is what it announced here? */
    if (op->unread)
        sv_drop_fast_take_announced(&op->fast, &op->call, &op->status);
    op->unread = false;
    const bool landed = arrived && sv_drop_fast_ended(&op->fast, &op->error);
    /* 3. The send of a call that receives as well is tested each time: a sender may wait for what lands here. */
    code = MPI_SUCCESS;
    done = op->also == MPI_REQUEST_NULL;
    if (!done)
        code = PMPI_Test(&op->also, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) {
        op->error = op->error ? op->error : code;
        op->also = MPI_REQUEST_NULL;
        done = 1;
    }
    return done && landed;
}

/* Notes for the timeline what came by the fast route. */
static void note_fast_error(sv_drop_op_t *op)
{
    op->call.fast = op->fast.arrived || op->fast.request || op->call.fast;
    op->call.fragmented = op->fast.fragmented;
    if (op->fast.arrived) {
        op->call.bytes = (int64_t)op->fast.bytes;
        op->call.peer = op->status.MPI_SOURCE;
        op->call.tag = op->status.MPI_TAG;
    }
}

/* Tells the communicator's error handler once what went wrong on the route, which MPI knows nothing of. */
static void call_error_handler(sv_drop_op_t *op)
{
    if (op->fast.error == MPI_SUCCESS || op->reported)
        return;
    op->reported = true;
    (void)sv_drop_raise(op->fast.comm, op->fast.error);
}

/* Moves an operation that has ended from the list to the chain of those, which is one user more, and begins to copy
   what came. If it is kept, the call that completes it does the rest. */
static void unstage_op(sv_drop_op_t *op, sv_drop_flow_t *flow, sv_drop_op_t **ended)
{
    op->users++;
    unlist_running(op);
    if (op->keeps && !op->orphan) {
        release_op_locked(op);
        return;
    }
    sv_drop_fast_set_status(&op->fast, &op->status);
    note_fast_error(op);
    if (!op->error && (!op->fast.arrived || op->fast.unstages))
        sv_drop_unstage_on(flow, &op->call, op->message ? &op->status : NULL);
    op->next = *ended;
    *ended = op;
}

/* Operations that have ended in the same turn are copied together: one wait for the device, not one for each. */
static void end_ops(sv_drop_flow_t *flow, sv_drop_op_t *ended)
{
    sv_drop_flow_end(flow);
    for (sv_drop_op_t *op = ended, *next; op; op = next) {
        next = op->next;
        sv_drop_call_leave_strip(&op->call);
        if (op->orphan)
            call_error_handler(op);
        else
            PMPI_Grequest_complete(op->handle); /* may free the handle, if the program has given it up */
        release_op_locked(op);
    }
}

/* A pass over the operations that a call waits for. MPI looks for all that has come whenever it is asked about one,
   which takes longer than all else here. Receives of one source and tag are matched in order, so that the oldest of
   them that has nothing stands for the others. So do the first few that the route is at, which mostly end in order. */
typedef struct walk {
    const sv_drop_op_t *waits; /* a receive that MPI has nothing for */
    int looks, on_route;
} walk_t;

static bool may_skip(const walk_t *walk, const sv_drop_op_t *op)
{
    const sv_drop_op_t *waits = walk->waits;
    const bool as_others = op->inner == MPI_REQUEST_NULL
                               ? op->fast.request && walk->on_route >= ROUTE_LOOKS
                               : waits && op->alike && op->call.peer == waits->call.peer &&
                                     op->call.tag == waits->call.tag && op->fast.comm == waits->fast.comm &&
                                     op->added_at > waits->added_at;
    return as_others && op->also == MPI_REQUEST_NULL && !atomic_load_explicit(&op->cancels, memory_order_relaxed);
}

static void look_at_op(walk_t *walk, sv_drop_op_t *op, bool mine, sv_drop_flow_t *flow, sv_drop_op_t **ended)
{
    bool waits = false;
    op->looked = engine.turns;
    op->users++; /* an error handler that runs meanwhile may free its request */
    if (op_ended(op, mine && op->persistent, &waits)) {
        unstage_op(op, flow, ended);
    } else {
        walk->looks--;
        walk->on_route += op->inner == MPI_REQUEST_NULL && op->fast.request;
        if (waits && op->alike)
            walk->waits = op;
    }
    release_op_locked(op);
}

void sv_drop_turn_for(unsigned *turns, sv_drop_op_t *const *ops, int n)
{
    bool any = false;
    sv_drop_flush();
    const bool works = sv_drop_is_busy() || atomic_load_explicit(&engine.freed, memory_order_relaxed);
    if (works) {
        pthread_mutex_lock(&engine.lock);
        sv_drop_read_notes();
    }
    if (works && !engine.walks) { /* else an error handler of the program's has called MPI */
        sv_drop_flow_t flow = {0};
        sv_drop_op_t *ended = NULL;
        sv_drop_joints_test();
        engine.walks = true;
        engine.turns++;
        walk_t walk = {.looks = LOOKS};
        const bool groups = sv_drop_fast_begin_group(); /* partner: below */
        /* Those that a call waits for come first, because the other walk may come to them much later. */
        int running = atomic_load_explicit(&sv_drop_running, memory_order_relaxed), left = running;
        for (int i = 0; i < n && i < TURN_MOST && walk.looks > 0; i++) {
            if (!ops[i] || !ops[i]->running)
                continue;
            left--;
            if (!may_skip(&walk, ops[i]))
                look_at_op(&walk, ops[i], true, &flow, &ended);
        }
        /* Then some of all in flight, in turn and without leaving any out: if there are others, and now and then. */
        sv_drop_op_t *op = left > 0 || engine.turns % WHOLE == 0 ? engine.next ? engine.next : engine.first : NULL;
        walk.looks = LOOKS;
        for (int i = running < TURN_MOST ? running : TURN_MOST; i > 0 && walk.looks > 0 && op; i--) {
            engine.next = op->next; /* an error handler that runs meanwhile may take that from the list */
            if (op->looked != engine.turns)
                look_at_op(&walk, op, false, &flow, &ended);
            op = engine.next ? engine.next : engine.first;
        }
        sv_drop_fast_end_group(groups);
        any = ended != NULL;
        end_ops(&flow, ended);
        engine.walks = false;
    }
    if (works)
        pthread_mutex_unlock(&engine.lock);
    if (!turns)
        return;
    sv_drop_fast_answer();
    if (++*turns > TURNS_BUSY && !any)
        sched_yield();
}

/* --- ends --------------------------------------------------------------------------------------------------------- */

int sv_drop_op_settle(sv_drop_op_t *op, MPI_Status *status, bool ends)
{
    unsigned turns = 0;
    pthread_mutex_lock(&engine.lock);
    if (op->keeps && op->active) {
        op->active = false;
        /* A receive that is kept and got an announcement blocks here until the bytes have come. They are in a slot, or
           their sender is at it. If no walk has read the announcement, the status of the call says what came. */
        if (status && !op->announcement_read)
            op->announcement_read = sv_drop_fast_take_announced(&op->fast, &op->call, status);
        while (status && !sv_drop_fast_ended(&op->fast, &op->error))
            sv_drop_turn(&turns);
        if (status && op->call.parts)
            sv_drop_parts_unstage(&op->call);
        else if (status && !op->error && (!op->fast.arrived || op->fast.unstages)) {
            sv_drop_fast_set_status(&op->fast, status);
            sv_drop_unstage_call(&op->call, op->message ? status : NULL);
        }
        note_fast_error(op);
        sv_drop_trace_call(&op->call);
        unlist_running(op);
    }
    if (op->keeps && status)
        sv_drop_fast_set_status(&op->fast, status); /* each time that somebody asks */
    const int error = op->error;
    if (ends) {
        call_error_handler(op);
        op->fast.arrived = op->fast.arrived && !op->keeps; /* an inactive request has an empty status */
        if (op->keeps && !op->persistent)
            unlist_handle(op);
    }
    pthread_mutex_unlock(&engine.lock);
    return error;
}

/* A buffer that is sent in parts goes down with each of them. */
void sv_drop_op_start(sv_drop_op_t *op)
{
    if (!op->call.parts)
        sv_drop_stage(&op->call);
    else if (op->call.buffer[0].out)
        sv_drop_parts_begin(&op->call);
    pthread_mutex_lock(&engine.lock);
    op->active = true;
    op->call.begin_ns = sv_drop_trace_now();
    op->call.fast = false;
    op->announcement_read = op->reported = op->given = op->asked = op->fast.arrived = op->fast.unstages = false;
    op->fast.fragmented = false;
    op->error = op->fast.error = MPI_SUCCESS;
    pthread_mutex_unlock(&engine.lock);
}

void sv_drop_op_rename(sv_drop_op_t *op, MPI_Request handle)
{
    pthread_mutex_lock(&engine.lock);
    op->users++;
    if (handle != op->handle) {
        unlist_handle(op);
        op->handle = handle;
        list_handle(op);
    }
    if (op->fast.monitored && (sv_drop_fast_drives() || sv_drop_fragments_may_come(&op->fast)))
        sv_drop_op_run(op); /* else what is announced has come already, and nobody waits for this rank to hear it */
    release_op_locked(op);
    pthread_mutex_unlock(&engine.lock);
}

void sv_drop_op_forget(sv_drop_op_t *op)
{
    pthread_mutex_lock(&engine.lock);
    op->users++;
    op->active = false;
    unlist_running(op);
    unlist_handle(op);
    release_op_locked(op);
    pthread_mutex_unlock(&engine.lock);
}

/* The operation lives on, because MPI may still use the pinned memory, and what comes is to land. */
bool sv_drop_op_adopt(sv_drop_op_t *op)
{
    pthread_mutex_lock(&engine.lock);
    const bool adopts = op->keeps && op->active;
    if (adopts) {
        op->users++;
        if (!op->running)
            list_running(op);
        unlist_handle(op);
        op->orphan = true;
        release_op_locked(op);
    }
    pthread_mutex_unlock(&engine.lock);
    return adopts;
}

sv_drop_op_t *sv_drop_op_first(void)
{
    return engine.first;
}

void sv_drop_op_run(sv_drop_op_t *op)
{
    if (op->keeps && op->active && !op->running)
        list_running(op);
}
