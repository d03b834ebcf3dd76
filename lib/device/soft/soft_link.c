/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies, fills and pauses, and the modelled links that copies pass through.
 *
 * A link serves one copy after the other, whichever streams they come from. A copy reserves its time: from when it
 * could begin and the link is free, for latency plus bytes over bandwidth. Then it moves the bytes, and sleeps until
 * its time is over. Sleeping costs no CPU, so that overlap shows on a machine with few cores. For the same reason a
 * copy after a modelled operation begins when that was to end, and not when its thread got a core again. A link with
 * neither bandwidth nor latency is not modelled: the copy takes what memcpy takes.
 */
#include <string.h>

#include "base/base_atomic.h"
#include "base/base_clock.h"
#include "base/base_status.h"
#include "device/soft/soft_priv.h"

/* Up to here a copy or a fill takes no longer than waking the worker where threads outnumber cores. */
enum { BRIEF_BYTES = 128 << 10 };

void soft_link_init(soft_link_t *link, double gbs, double latency_us)
{
    link->ns_per_byte = gbs > 0 ? 1.0 / gbs : 0;
    link->latency_ns = latency_us > 0 ? (uint64_t)(latency_us * 1e3) : 0;
    link->modelled = gbs > 0 || latency_us > 0;
    atomic_init(&link->free_ns, 0);
}

/* When an operation could begin that was enqueued at enqueued_ns. If the operation before it took real time (0), that
   is now. */
static uint64_t could_begin(const soft_stream_t *stream, uint64_t enqueued_ns)
{
    if (stream->before_ns == 0)
        return sv_clock_ns();
    return stream->before_ns > enqueued_ns ? stream->before_ns : enqueued_ns;
}

static void run_copy(soft_stream_t *stream, const soft_op_t *op)
{
    (void)stream;
    if (op->u.copy.bytes)
        memmove(op->u.copy.dst, op->u.copy.src, op->u.copy.bytes);
}

static void run_modelled_copy(soft_stream_t *stream, const soft_op_t *op)
{
    soft_link_t *link = op->u.copy.link;
    uint64_t cost_ns = link->latency_ns + (uint64_t)((double)op->u.copy.bytes * link->ns_per_byte), finish_ns;
    uint64_t begin_ns = could_begin(stream, op->u.copy.enqueued_ns);
    /* The link is this copy's until it is over. The order is relaxed: only time is agreed on here, no data. */
    uint64_t free_ns = atomic_load_explicit(&link->free_ns, memory_order_relaxed);
    do
        finish_ns = (free_ns > begin_ns ? free_ns : begin_ns) + cost_ns;
    while (!SV_EXCHANGE_WEAK(&link->free_ns, &free_ns, finish_ns, memory_order_relaxed, memory_order_relaxed));
    stream->over_ns = finish_ns;
    run_copy(stream, op);
    sv_clock_sleep_until_ns(stream->over_ns);
}

selvage_status_t soft_copy_async(sv_device_t *dev, void *dst, const void *src, size_t bytes, sv_copy_kind_t kind,
                                 void *handle)
{
    soft_stream_t *stream;
    SV_TRY(soft_stream_find(dev, handle, &stream));
    soft_link_t *link = &((soft_device_t *)dev)->link[kind];
    soft_op_t *op = soft_op_begin(stream);
    op->run = link->modelled ? run_modelled_copy : run_copy;
    op->brief = !link->modelled && bytes <= BRIEF_BYTES;
    op->u.copy.dst = dst;
    op->u.copy.src = src;
    op->u.copy.bytes = bytes;
    op->u.copy.link = link;
    op->u.copy.enqueued_ns = link->modelled ? sv_clock_ns() : 0;
    soft_op_publish(stream, op);
    return SELVAGE_SUCCESS;
}

static void run_fill(soft_stream_t *stream, const soft_op_t *op)
{
    (void)stream;
    if (op->u.fill.bytes)
        memset(op->u.fill.dst, op->u.fill.value, op->u.fill.bytes);
}

selvage_status_t soft_fill_async(sv_device_t *dev, void *dst, int value, size_t bytes, void *handle)
{
    soft_stream_t *stream;
    SV_TRY(soft_stream_find(dev, handle, &stream));
    soft_op_t *op = soft_op_begin(stream);
    op->run = run_fill;
    op->brief = bytes <= BRIEF_BYTES;
    op->u.fill.dst = dst;
    op->u.fill.bytes = bytes;
    op->u.fill.value = value;
    soft_op_publish(stream, op);
    return SELVAGE_SUCCESS;
}

static void run_signal(soft_stream_t *stream, const soft_op_t *op)
{
    (void)stream;
    /* Partner: the acquire of whoever polls the word. */
    __atomic_store_n(op->u.signal.word, op->u.signal.value, __ATOMIC_RELEASE);
}

selvage_status_t soft_signal_async(sv_device_t *dev, uint64_t *word, uint64_t value, void *handle)
{
    soft_stream_t *stream;
    SV_TRY(soft_stream_find(dev, handle, &stream));
    soft_op_t *op = soft_op_begin(stream);
    op->run = run_signal;
    op->brief = true;
    op->u.signal.word = word;
    op->u.signal.value = value;
    soft_op_publish(stream, op);
    return SELVAGE_SUCCESS;
}

static void run_delay(soft_stream_t *stream, const soft_op_t *op)
{
    stream->over_ns = could_begin(stream, op->u.delay.enqueued_ns) + op->u.delay.ns;
    sv_clock_sleep_until_ns(stream->over_ns);
}

selvage_status_t soft_delay_async(sv_device_t *dev, double us, void *handle)
{
    soft_stream_t *stream;
    SV_TRY(soft_stream_find(dev, handle, &stream));
    soft_op_t *op = soft_op_begin(stream);
    op->run = run_delay;
    op->brief = false;
    op->u.delay.ns = us > 0 ? (uint64_t)(us * 1e3) : 0;
    op->u.delay.enqueued_ns = sv_clock_ns();
    soft_op_publish(stream, op);
    return SELVAGE_SUCCESS;
}
