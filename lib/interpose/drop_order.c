/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of what is received after the program's work. A kernel that the program has enqueued before MPI_Irecv may
 * still read the memory that is received into. To wait for it in the call costs the host more than all the rest of a
 * short receive, and would keep it from what it does meanwhile. So the call only notes where the default stream is:
 *
 *   MPI_Irecv        an event is recorded on the default stream; no wait
 *   a turn           what has come lands once the event is over
 *
 * Work that the program enqueues after MPI_Irecv is not waited for. Each call has an event of its own, because the
 * program may enqueue something between any two calls. Events of a stream are over in the order in which they were
 * recorded, so that one answer of the device is about others, too.
 *
 * Only with the policy that waits for the default stream, with one GPU, and where one thread is in MPI at a time: what
 * another one asks a device about may end a graph's capture. The lock guards the ring. The events are the ring's, and
 * one is a call's from sv_drop_order_begin() to sv_drop_order_end().
 */
#include "interpose/drop_order.h"

#include <sched.h>

/* AGAIN_NS: an answer takes a device about so long, and the program's work often much longer. */
enum { EVENTS = 1024, AGAIN_NS = 2000 };

static struct {
    pthread_mutex_t lock;
    selvage_device_t *device; /* of the events */
    selvage_event_t *event[EVENTS]; /* number n is at n % EVENTS; NULL: not made yet */
    bool used[EVENTS];
    int nused;
    uint64_t recorded, asked; /* the number of the last one; and of the one that was the last when it was asked about */
    uint64_t busy;            /* the least number that was not over at that time */
    int64_t busy_ns;
    _Atomic uint64_t over;    /* all up to this number are */
} ring = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void check_event(selvage_status_t status)
{
    if (status != SELVAGE_SUCCESS)
        sv_drop_fatal("the device failed", selvage_error_detail());
}

/* The caller has the lock. */
static void destroy_events(void)
{
    for (int i = 0; i < EVENTS; i++) {
        selvage_event_destroy(ring.device, ring.event[i]);
        ring.event[i] = NULL;
    }
    ring.device = NULL;
}

/* Whether the call has nothing but memory that bytes come to, and all of it is staged. */
static bool only_receives(const sv_drop_call_t *call)
{
    bool any = false;
    for (int i = 0; i < call->nbuffers; i++) {
        const sv_drop_buffer_t *buffer = &call->buffer[i];
        if (buffer->in || buffer->keeps_gaps)
            return false;
        any = any || !buffer->unpacks;
    }
    return any;
}

bool sv_drop_order_begin(sv_drop_call_t *call)
{
    if (!sv_drop_batch_is_open() || sv_drop_has_several() || !only_receives(call))
        return false;
    selvage_device_t *dev = sv_drop_device();
    pthread_mutex_lock(&ring.lock);
    if (ring.device != dev && ring.nused == 0) /* the first time, and once a device has given way to another one */
        destroy_events();
    ring.device = ring.device ? ring.device : dev;
    /* Numbers whose event an older call still has are left out. */
    uint64_t number = ring.recorded + 1;
    while (ring.nused < EVENTS && ring.used[number % EVENTS])
        number++;
    const uint64_t at = number % EVENTS;
    const bool begins = dev && ring.device == dev && !ring.used[at];
    if (begins) {
        if (!ring.event[at])
            check_event(selvage_event_create(dev, &ring.event[at]));
        check_event(selvage_event_record(dev, ring.event[at], NULL));
        ring.recorded = call->order = number;
        ring.used[at] = true;
        ring.nused++;
    }
    pthread_mutex_unlock(&ring.lock);
    return begins;
}

static bool is_number_over(uint64_t number)
{
    return number <= atomic_load_explicit(&ring.over, memory_order_relaxed);
}

/* The caller has the lock. */
static bool query_number(uint64_t number)
{
    const selvage_status_t status = selvage_event_query(ring.device, ring.event[number % EVENTS]);
    if (status == SELVAGE_IN_PROGRESS)
        return false;
    check_event(status);
    if (!is_number_over(number))
        atomic_store_explicit(&ring.over, number, memory_order_relaxed);
    return true;
}

static bool is_order_over(const sv_drop_call_t *call)
{
    const uint64_t number = call->order;
    if (number == 0 || is_number_over(number))
        return true;
    pthread_mutex_lock(&ring.lock);
    /* Mostly the program's work is over by the time that bytes come, and one question is for all calls until now. */
    if (ring.asked != ring.recorded)
        (void)query_number(ring.recorded);
    ring.asked = ring.recorded;
    const bool asks = !is_number_over(number) && (number < ring.busy || sv_drop_now_ns() - ring.busy_ns >= AGAIN_NS);
    if (asks && !query_number(number)) {
        ring.busy = number;
        ring.busy_ns = sv_drop_now_ns();
    }
    pthread_mutex_unlock(&ring.lock);
    return is_number_over(number);
}

bool sv_drop_order_holds(sv_drop_op_t *op)
{
    MPI_Status status;
    int done = 0, cancelled = 0;
    if (is_order_over(&op->call))
        return false;
    /* MPI goes on meanwhile. What was cancelled writes nothing. */
    if (op->inner == MPI_REQUEST_NULL)
        return true;
    if (atomic_exchange_explicit(&op->cancels, false, memory_order_relaxed))
        PMPI_Cancel(&op->inner);
    if (PMPI_Request_get_status(op->inner, &done, &status) == MPI_SUCCESS && done)
        PMPI_Test_cancelled(&status, &cancelled);
    return !cancelled;
}

void sv_drop_orders_await(void)
{
    for (bool over = false; !over;) {
        pthread_mutex_lock(&ring.lock);
        over = is_number_over(ring.recorded) || query_number(ring.recorded);
        pthread_mutex_unlock(&ring.lock);
        if (!over)
            sched_yield();
    }
}

void sv_drop_order_end(sv_drop_call_t *call)
{
    if (!call->order)
        return;
    pthread_mutex_lock(&ring.lock);
    ring.used[call->order % EVENTS] = false;
    ring.nused--;
    pthread_mutex_unlock(&ring.lock);
    call->order = 0;
}

void sv_drop_orders_end(void)
{
    pthread_mutex_lock(&ring.lock);
    destroy_events();
    pthread_mutex_unlock(&ring.lock);
}
