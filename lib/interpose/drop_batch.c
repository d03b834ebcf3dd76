/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batched sends. MPI_Isend of short device memory enqueues its copy on the program's default stream and returns. Before
 * the next call of another kind one wait is for all of those copies, and then MPI gets the messages:
 *
 *   MPI_Isend, n times    staging memory, a copy and an event on the stream, a request; no wait
 *   any other call        the batch is posted: one wait for the event, n times PMPI_Isend; then that call
 *
 * Work that the program enqueues after the last send is not waited for, so that it overlaps with the messages.
 *
 * A send whose memory follows that of another one of the batch leaves its copy to a later time, so that one copy is for
 * all of such a row (drop_strip.c). No right program changes what it sends before the send is complete, and none is
 * complete before the batch is posted: when the bytes are read until then makes no difference. Whatever wrote them was
 * enqueued before the call, and is before the event. So a copy that is left when the batch is posted is made on a
 * stream of the drop-in's own after the event has been waited for, and not on the default stream, where it would come
 * after kernels that were enqueued since. The first send of a row copies at once, and so do sends that are no row.
 *
 * A send of the same bytes as the one before, as benchmarks have them, needs no copy: it gets the same staging memory.
 *
 * MPI sees all messages in the order of the program's calls, and it has all of them before the program may wait for
 * what another rank does about them. So whatever may send, complete, ask or block begins with sv_drop_flush().
 * drop_flush.c has the calls that the drop-in is not concerned with otherwise. A send is batched only if MPI will take
 * it, because MPI_Isend itself must return the error of another one.
 *
 * Threads: nothing is batched with MPI_THREAD_MULTIPLE or a progress thread, since a thread that is blocked in MPI
 * would not post what another one batches. The lock of requests guards the batch, which uses its operations until they
 * are posted; these own the staging memory.
 */
#include "interpose/drop_pool.h"
#include "interpose/drop_route.h"
#include "interpose/drop_strip.h"

#include <selvage/message.h>

/* What is batched at most, before it is posted: then MPI sends while the device copies the next ones. A longer message
   is worth a wait of its own. */
enum { SENDS_MOST = 256, BYTES_MOST = 1 << 20, MESSAGE_MOST = 256 << 10 };

/* A send that MPI has not been given. */
typedef struct batched {
    sv_drop_op_t *op; /* with a user for this */
    sv_drop_isend_t isend;
    MPI_Comm comm;
} batched_t;

static struct {
    bool open;           /* between MPI_Init and MPI_Finalize, in a program that may have batches */
    bool posts;          /* it is being posted: an error handler that runs meanwhile adds nothing */
    int tag_most;        /* MPI's greatest tag */
    sv_drop_flow_t flow; /* the copies, and the event after the last one */
    selvage_device_t *device; /* of the event */
    batched_t sends[SENDS_MOST];
    int first, end;      /* those that are left */
    int64_t bytes;
    long long sends_ever, batches_ever;
} batch = {.flow = {.theirs = true}};

/* Sends of device memory without another call in between, and whether a group of Selvage's messages keeps kernels. */
static struct {
    int sends;
    bool keeps;
} row;

_Atomic int sv_drop_batched;

void sv_drop_batch_begin(void)
{
    const sv_drop_settings_t *settings = sv_drop_settings();
    int level = MPI_THREAD_MULTIPLE, found = 0, *most = NULL;
    PMPI_Query_thread(&level);
    PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found);
    batch.tag_most = found ? *most : 32767;
    batch.open = settings->sync == SV_DROP_SYNC_DEFAULT && !settings->progress_thread && level < MPI_THREAD_MULTIPLE;
}

bool sv_drop_batch_is_open(void)
{
    return batch.open;
}

void sv_drop_batch_end(void)
{
    sv_drop_flush();
    batch.open = false;
    selvage_event_destroy(batch.device, batch.flow.event);
    batch.flow.event = NULL;
}

void sv_drop_batch_count(long long *sends_out, long long *batches_out)
{
    *sends_out = batch.sends_ever;
    *batches_out = batch.batches_ever;
}

/* An error handler of the program's may call MPI while this goes on. Then it posts the rest. */
void sv_drop_batch_post_staged(void)
{
    if (atomic_load_explicit(&sv_drop_batched, memory_order_relaxed) == 0)
        return;
    sv_drop_lock();
    if (batch.first == batch.end) {
        sv_drop_unlock();
        return;
    }
    const bool is_nested = batch.posts; /* nothing is added before the outermost one is over */
    if (!is_nested) {
        sv_drop_strips_break();
        sv_drop_flow_end(&batch.flow);
    }
    batch.posts = true;
    while (batch.first < batch.end) {
        const batched_t send = batch.sends[batch.first++];
        const sv_drop_call_t *call = &send.op->call;
        const sv_drop_buffer_t *buffer = &call->buffer[0];
        atomic_fetch_sub_explicit(&sv_drop_batched, 1, memory_order_relaxed);
        send.op->error = send.isend(sv_drop_address(buffer), buffer->count, buffer->type, call->peer, call->tag,
                                    send.comm, &send.op->inner);
        if (send.op->error != MPI_SUCCESS)
            send.op->inner = MPI_REQUEST_NULL;
        send.op->batched = false;
        sv_drop_op_release(send.op);
    }
    batch.first = batch.end = 0;
    batch.bytes = 0;
    batch.posts = is_nested;
    sv_drop_unlock();
}

/*
 * Sends by the route: each begins at once, with a kernel of its own, as a program may compute before it calls again. In
 * a long row of them launches are what takes the time, and the first ones keep the device busy. So the others are
 * launched together. What wrote them is complete, so that this is right at any time, whatever is enqueued meanwhile.
 */
void sv_drop_batch_note_send(void)
{
    if (batch.open && !batch.posts && row.sends++ == 0)
        atomic_fetch_add_explicit(&sv_drop_batched, 1, memory_order_relaxed); /* partner: end_row() */
}

bool sv_drop_batch_is_row(void)
{
    enum { FEW = 8 };
    return row.sends > FEW;
}

bool sv_drop_batch_keep_fast(void)
{
    if (sv_drop_batch_is_row() && !row.keeps) /* partner: end_row() */
        row.keeps = selvage_message_group_begin(sv_drop_route.world) == SELVAGE_SUCCESS;
    return row.keeps;
}

static void end_row(void)
{
    sv_drop_lock();
    if (row.sends > 0) {
        row.sends = 0;
        atomic_fetch_sub_explicit(&sv_drop_batched, 1, memory_order_relaxed);
    }
    if (row.keeps) {
        row.keeps = false;
        if (selvage_message_group_end(sv_drop_route.world) != SELVAGE_SUCCESS) /* receivers wait for them */
            sv_drop_fatal("messages could not be launched", selvage_error_detail());
    }
    sv_drop_unlock();
}

void sv_drop_batch_post(void)
{
    end_row();
    sv_drop_batch_post_staged();
}

/* Records the event after what the last copy needs, and after that copy, unless it is left for later. */
static void mark_copies(void)
{
    selvage_device_t *dev = batch.flow.device;
    if (batch.device != dev) { /* the first time, and once a device has given way to another one */
        selvage_event_destroy(batch.device, batch.flow.event);
        batch.flow.event = NULL;
        batch.device = dev;
        if (selvage_event_create(dev, &batch.flow.event) != SELVAGE_SUCCESS)
            sv_drop_fatal("no event", selvage_error_detail());
    }
    if (selvage_event_record(dev, batch.flow.event, NULL) != SELVAGE_SUCCESS)
        sv_drop_fatal("copy failed", selvage_error_detail());
}

/* Whether MPI will take this message. A message between groups is not looked at any closer. */
static bool is_message_good(const sv_drop_call_t *call, MPI_Comm comm)
{
    return sv_drop_is_inside(comm) && call->peer >= 0 && call->peer < sv_drop_size(comm) && call->tag >= 0 &&
           call->tag <= batch.tag_most;
}

/* The last send, if so many bytes at ptr are among its own; else NULL. The caller has the lock. */
static sv_drop_op_t *last_with(const char *ptr, size_t bytes)
{
    if (batch.end == batch.first || batch.posts)
        return NULL;
    sv_drop_op_t *last = batch.sends[batch.end - 1].op;
    const sv_drop_buffer_t *one = &last->call.buffer[0];
    const char *its = one->user + one->low;
    return !one->packed && ptr >= its && ptr + bytes <= its + one->bytes ? last : NULL;
}

bool sv_drop_batch_knows(const void *ptr)
{
    if (atomic_load_explicit(&sv_drop_batched, memory_order_relaxed) == 0)
        return false;
    sv_drop_lock();
    const bool knows = last_with(ptr, 1) != NULL;
    sv_drop_unlock();
    return knows;
}

bool sv_drop_batch_lends(sv_drop_buffer_t *buffer)
{
    const char *begin = buffer->user + buffer->low;
    sv_drop_lock();
    sv_drop_op_t *last = last_with(begin, buffer->bytes);
    if (last) {
        const sv_drop_buffer_t *one = &last->call.buffer[0];
        buffer->host = one->host + (begin - (one->user + one->low));
        buffer->lender = one->lender ? one->lender : last;
        buffer->lender->users++; /* partner: sv_drop_call_end() */
        buffer->strip = sv_drop_strip_share(one->strip); /* which the lender leaves when it is complete */
    }
    sv_drop_unlock();
    return last != NULL;
}

bool sv_drop_batch_add(sv_drop_isend_t isend, const sv_drop_call_t *call, MPI_Comm comm, MPI_Request *request)
{
    const sv_drop_buffer_t *buffer = &call->buffer[0];
    if (!batch.open || batch.posts || (isend != PMPI_Isend && isend != PMPI_Irsend))
        return false;
    /* A type that MPI must be given as it is may be freed before that. */
    if (!buffer->host || !(buffer->packed || buffer->one.info.dense) || buffer->bytes > MESSAGE_MOST)
        return false;
    /* Copies of several GPUs, and those by pieces, wait by themselves. */
    if (sv_drop_has_several() || sv_drop_is_plain(buffer->host) || !is_message_good(call, comm))
        return false;
    sv_drop_lock();
    batch.batches_ever += batch.end == 0;
    batch.sends_ever++;
    batch.bytes += (int64_t)buffer->bytes;
    sv_drop_stage_on(&batch.flow, call);
    if (!buffer->lender)
        mark_copies();
    sv_drop_request_start(call, NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, false, request);
    sv_drop_op_t *op = sv_drop_op_find(*request);
    op->batched = true;
    batch.sends[batch.end++] = (batched_t){op, isend, comm};
    atomic_fetch_add_explicit(&sv_drop_batched, 1, memory_order_relaxed);
    if (batch.end == SENDS_MOST || batch.bytes >= BYTES_MOST)
        sv_drop_batch_post();
    sv_drop_unlock();
    return true;
}
