/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between the program's device memory and pinned memory, packing among them, and the pool of that pinned memory.
 * Each copy is made by the device whose memory it is about; those of one flow are waited for together, as far as they
 * are of one device. Any thread, but a flow is one thread's.
 */
#include "interpose/drop.h"

enum { CLASSES = 40, CLASS_FIRST = 12, HEADER_BYTES = 256 };
/* More pinned memory than this is not kept for later calls. */
#define KEPT_BYTES_MAX ((size_t)256 << 20)

/* A block of pinned memory begins with this, and then HEADER_BYTES on what is given out. */
typedef struct header {
    struct header *next;
    size_t bytes;
    int kind; /* its class, as a power of two */
} header_t;

static struct {
    pthread_mutex_t lock;
    header_t *free[CLASSES];
    size_t bytes;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- copies ------------------------------------------------------------------------------------------------------- */

static void must(selvage_status_t status)
{
    if (status != SELVAGE_SUCCESS)
        sv_drop_fatal("copy failed", selvage_error_detail());
}

static void *stream_of(sv_drop_flow_t *flow, selvage_device_t *dev, size_t bytes)
{
    if (flow->device && flow->device != dev)
        sv_drop_flow_end(flow);
    if (!flow->device && !flow->theirs)
        flow->stream = sv_drop_stream_take(dev);
    flow->device = dev;
    flow->begin_ns = flow->begin_ns ? flow->begin_ns : sv_drop_trace_now();
    flow->bytes += (int64_t)bytes;
    return flow->stream;
}

void sv_drop_flow_end(sv_drop_flow_t *flow)
{
    selvage_device_t *dev = flow->theirs && !flow->device ? sv_drop_device() : flow->device;
    if (!dev)
        return;
    must(selvage_stream_synchronize(dev, flow->stream));
    sv_drop_trace_span("copy", flow->begin_ns, flow->bytes);
    flow->begin_ns = flow->bytes = 0;
    if (!flow->theirs)
        sv_drop_stream_give(dev, flow->stream);
    flow->device = NULL;
}

void sv_drop_copy(sv_drop_flow_t *flow, void *dst, const void *src, size_t bytes, selvage_copy_t direction)
{
    if (bytes == 0)
        return;
    selvage_device_t *dev = sv_drop_device_of(direction == SELVAGE_COPY_HOST_TO_DEVICE ? dst : src);
    must(selvage_device_copy(dev, dst, src, bytes, direction, stream_of(flow, dev, bytes)));
}

void sv_drop_gather(sv_drop_flow_t *flow, const sv_drop_plan_t *plan, const void *buf, void *packed)
{
    void *stream = stream_of(flow, plan->device, selvage_pack_bytes(plan->pack));
    must(selvage_pack_gather(plan->pack, buf, packed, stream));
}

void sv_drop_scatter(sv_drop_flow_t *flow, const sv_drop_plan_t *plan, const void *packed, size_t bytes, void *buf)
{
    must(selvage_pack_scatter(plan->pack, packed, bytes, buf, stream_of(flow, plan->device, bytes)));
}

/* --- pinned memory ------------------------------------------------------------------------------------------------ */

static int class_of(size_t bytes)
{
    int kind = CLASS_FIRST;
    while (kind < CLASS_FIRST + CLASSES - 1 && (size_t)1 << kind < bytes)
        kind++;
    return kind;
}

void *sv_drop_pinned(size_t bytes)
{
    void *made = NULL;
    int kind = class_of(bytes + HEADER_BYTES);
    pthread_mutex_lock(&pool.lock);
    header_t *header = pool.free[kind - CLASS_FIRST];
    if (header) {
        pool.free[kind - CLASS_FIRST] = header->next;
        pool.bytes -= header->bytes;
    }
    pthread_mutex_unlock(&pool.lock);
    if (!header) {
        if (selvage_device_host_malloc(sv_drop_device(), (size_t)1 << kind, &made) != SELVAGE_SUCCESS)
            sv_drop_fatal("no pinned memory", selvage_error_detail());
        header = made;
        *header = (header_t){NULL, (size_t)1 << kind, kind};
    }
    return (char *)header + HEADER_BYTES;
}

void sv_drop_unpin(void *ptr)
{
    if (!ptr)
        return;
    header_t *header = (header_t *)(void *)((char *)ptr - HEADER_BYTES);
    pthread_mutex_lock(&pool.lock);
    bool kept = pool.bytes + header->bytes <= KEPT_BYTES_MAX;
    if (kept) {
        header->next = pool.free[header->kind - CLASS_FIRST];
        pool.free[header->kind - CLASS_FIRST] = header;
        pool.bytes += header->bytes;
    }
    pthread_mutex_unlock(&pool.lock);
    if (!kept)
        selvage_device_host_free(sv_drop_device(), header);
}

void sv_drop_pool_empty(selvage_device_t *dev)
{
    pthread_mutex_lock(&pool.lock);
    for (int i = 0; i < CLASSES; i++) {
        while (pool.free[i]) {
            header_t *header = pool.free[i];
            pool.free[i] = header->next;
            selvage_device_host_free(dev, header);
        }
    }
    pool.bytes = 0;
    pthread_mutex_unlock(&pool.lock);
}
