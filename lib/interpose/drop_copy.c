/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between the program's device memory and pinned memory, packing among them, and the pool of that pinned memory.
 * Each copy is made by the device whose memory it is about; those of one flow are waited for together, as far as they
 * are of one device. Any thread, but a flow is one thread's.
 */
#include "interpose/drop.h"

/* Lengths go up in eighths of a power of two: what is given out is at most an eighth more than what is asked for. */
enum { STEPS = 8, FIRST_SHIFT = 12, LAST_SHIFT = 47, CLASSES = (LAST_SHIFT - FIRST_SHIFT) * STEPS, HEADER_BYTES = 256 };

/* A block of pinned memory begins with this, and then HEADER_BYTES on what is given out. */
typedef struct header {
    struct header *next;
    size_t bytes; /* that can be given out */
    int kind;     /* its class */
} header_t;

static struct {
    pthread_mutex_t lock;
    header_t *free[CLASSES];
    uint64_t used[CLASSES]; /* when a block was given back last, by this clock */
    uint64_t clock;
    size_t bytes;           /* free */
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

static size_t bytes_of_class(int kind)
{
    return (size_t)(STEPS + kind % STEPS) << (FIRST_SHIFT + kind / STEPS) >> 3;
}
_Static_assert(STEPS == 1 << 3, "a step is an eighth");

static int class_of(size_t bytes)
{
    int shift = FIRST_SHIFT, kind;
    while (shift < LAST_SHIFT - 1 && (size_t)2 << shift <= bytes)
        shift++;
    kind = (shift - FIRST_SHIFT) * STEPS;
    while (kind < CLASSES - 1 && bytes_of_class(kind) < bytes)
        kind++;
    return kind;
}

/* A free block of a class; the caller has the lock. */
static header_t *take_free(int kind)
{
    header_t *header = pool.free[kind];
    if (header) {
        pool.free[kind] = header->next;
        pool.bytes -= header->bytes;
    }
    return header;
}

/* Takes out blocks of classes that were used longest ago, until there is room for some bytes; the caller has the lock,
   and frees them. */
static header_t *make_room(size_t bytes, size_t most)
{
    header_t *out = NULL;
    while (pool.bytes + bytes > most && pool.bytes > 0) {
        int oldest = -1;
        for (int i = 0; i < CLASSES; i++)
            if (pool.free[i] && (oldest < 0 || pool.used[i] < pool.used[oldest]))
                oldest = i;
        header_t *header = take_free(oldest);
        header->next = out;
        out = header;
    }
    return out;
}

static void free_blocks(selvage_device_t *dev, header_t *header)
{
    while (header) {
        header_t *next = header->next;
        selvage_device_host_free(dev, header);
        header = next;
    }
}

/* The system may let nobody pin more: what lies there unused is given back, and it is tried again. */
static header_t *make_block(int kind)
{
    selvage_device_t *dev = sv_drop_device();
    const size_t bytes = bytes_of_class(kind);
    void *made = NULL;
    selvage_status_t status = selvage_device_host_malloc(dev, bytes + HEADER_BYTES, &made);
    if (status != SELVAGE_SUCCESS) {
        sv_drop_pool_empty(dev);
        status = selvage_device_host_malloc(dev, bytes + HEADER_BYTES, &made);
    }
    if (status != SELVAGE_SUCCESS)
        sv_drop_fatal("no pinned memory", selvage_error_detail());
    header_t *header = made;
    *header = (header_t){NULL, bytes, kind};
    return header;
}

/* A longer block will do, if it is not much longer: pinning takes more time than what it is used for. */
void *sv_drop_pinned(size_t bytes)
{
    int kind = class_of(bytes);
    header_t *header = NULL;
    if (bytes > bytes_of_class(kind))
        sv_drop_fatal("no pinned memory", "a buffer of a length that no address has");
    pthread_mutex_lock(&pool.lock);
    for (int i = kind; !header && i <= kind + STEPS && i < CLASSES; i++)
        header = take_free(i);
    pthread_mutex_unlock(&pool.lock);
    if (!header)
        header = make_block(kind);
    return (char *)header + HEADER_BYTES;
}

void sv_drop_unpin(void *ptr)
{
    if (!ptr)
        return;
    header_t *header = (header_t *)(void *)((char *)ptr - HEADER_BYTES), *out;
    const size_t most = (size_t)sv_drop_settings()->pool_bytes;
    pthread_mutex_lock(&pool.lock);
    if (header->bytes <= most) {
        out = make_room(header->bytes, most);
        header->next = pool.free[header->kind];
        pool.free[header->kind] = header;
        pool.used[header->kind] = ++pool.clock;
        pool.bytes += header->bytes;
    } else {
        header->next = NULL;
        out = header;
    }
    pthread_mutex_unlock(&pool.lock);
    free_blocks(sv_drop_device(), out);
}

void sv_drop_pool_empty(selvage_device_t *dev)
{
    pthread_mutex_lock(&pool.lock);
    header_t *out = make_room(1, 0);
    pthread_mutex_unlock(&pool.lock);
    free_blocks(dev, out);
}
