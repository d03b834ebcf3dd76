/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device under the drop-in: opened when a program first shows memory that is its own, and not before the program
 * itself has loaded a GPU's runtime, so that host programs on GPU machines get no context from us. Copies use
 * streams of the drop-in's own, each by one thread at a time, and are waited for. Any thread.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for dl_iterate_phdr() and process_vm_readv() */
#endif
#include "interpose/drop.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FOLLOWS_MAX = 3, STREAMS_MAX = 16, CLASSES = 40, CLASS_FIRST = 12, HEADER_BYTES = 256 };
/* More pinned memory than this is not kept for later calls. */
#define KEPT_BYTES_MAX ((size_t)256 << 20)

static struct {
    pthread_mutex_t lock;
    _Atomic(selvage_device_t *) open;
    _Atomic bool is_gpu;
    bool closed, gpu_loaded, gpu_tried;
    unsigned long long libraries; /* loaded when we looked last */
    void *stream[STREAMS_MAX];    /* at rest */
    int nstreams, follows;
} device = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

void sv_drop_warn(const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "selvage-mpi: %s\n", text);
}

_Noreturn void sv_drop_fatal(const char *what, const char *why)
{
    int initialised = 0;
    sv_drop_warn("%s: %s", what, why);
    PMPI_Initialized(&initialised);
    if (initialised)
        PMPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

typedef struct search {
    unsigned long long libraries;
    bool changed, found;
} search_t;

static int look_at_library(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    search_t *search = arg;
    if (bytes >= offsetof(struct dl_phdr_info, dlpi_subs) && info->dlpi_adds == search->libraries && !search->changed)
        return 1;
    search->changed = true;
    search->libraries = info->dlpi_adds;
    search->found = strstr(info->dlpi_name, "libcuda.so") || strstr(info->dlpi_name, "libamdhip64.so");
    return search->found;
}

/* Looked for again only when libraries were loaded since. */
static bool is_gpu_loaded(void)
{
    search_t search = {.libraries = device.libraries};
    if (!device.gpu_loaded)
        dl_iterate_phdr(look_at_library, &search);
    device.libraries = search.libraries;
    device.gpu_loaded = device.gpu_loaded || search.found;
    return device.gpu_loaded;
}

/* CUDA's driver is asked before anything is opened, which would make a context on whatever GPU is current then. HIP has
   no such question; there opening costs little. */
static bool is_known_to_driver(const void *ptr)
{
    typedef int (*attribute_t)(void *, int, uint64_t);
    enum { MEMORY_TYPE = 2 };
    unsigned type = 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    if (!driver)
        return true;
    attribute_t attribute = (attribute_t)dlsym(driver, "cuPointerGetAttribute");
    bool known = !attribute || attribute(&type, MEMORY_TYPE, (uint64_t)(uintptr_t)ptr) == 0;
    dlclose(driver);
    return known;
}

static selvage_device_t *open_device(bool gpu)
{
    selvage_device_t *opened = NULL;
    if (selvage_device_open(gpu ? NULL : "soft", &opened) != SELVAGE_SUCCESS) {
        sv_drop_warn("no device: %s", selvage_error_detail());
        return NULL;
    }
    device.is_gpu = strcmp(selvage_device_name(opened), "soft") != 0;
    if (gpu && !device.is_gpu && !sv_drop_settings()->soft)
        sv_drop_warn("the program uses a GPU, and no plug-in of Selvage's for it was found (SELVAGE_DEVICE_PATH): its "
                     "memory is taken for the host's");
    return opened;
}

static void drop_streams(selvage_device_t *dev)
{
    while (device.nstreams > 0)
        selvage_stream_destroy(dev, device.stream[--device.nstreams]);
}

/* A software device gives way to a GPU whose runtime came later, a GPU to the one that the program works with. What
   is replaced is kept: another thread may be in a call, and a soft one that stays soft is not replaced. */
static void reopen(bool gpu)
{
    selvage_device_t *before = atomic_load_explicit(&device.open, memory_order_relaxed), *now = open_device(gpu);
    if (!now)
        return;
    if (before && !device.is_gpu) {
        selvage_device_close(now);
        return;
    }
    if (before) {
        drop_streams(before);
        sv_drop_pool_empty();
    }
    /* Partner: the acquire in sv_drop_device(). */
    atomic_store_explicit(&device.open, now, memory_order_release);
}

/* The program shows memory that a GPU's driver may know. */
static void look_for_gpu(const void *ptr)
{
    pthread_mutex_lock(&device.lock);
    if (!device.closed && !device.is_gpu && !device.gpu_tried && is_gpu_loaded() && is_known_to_driver(ptr)) {
        device.gpu_tried = true;
        reopen(true);
    }
    pthread_mutex_unlock(&device.lock);
}

/* Memory of another GPU than the open one: the program may have chosen its GPU after its first call. */
static void follow_program(void)
{
    pthread_mutex_lock(&device.lock);
    if (!device.closed && device.is_gpu && device.follows < FOLLOWS_MAX) {
        device.follows++;
        reopen(true);
    }
    pthread_mutex_unlock(&device.lock);
}

/* Work of a GPU that is not the open one, nor current here, is not waited for: silence would be wrong data. */
static void warn_of_other(const void *ptr)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    selvage_memory_t memory = SELVAGE_MEMORY_HOST;
    selvage_device_t *dev = atomic_load_explicit(&device.open, memory_order_acquire); /* partner: reopen() */
    if (dev && selvage_device_memory(dev, ptr, 1, &memory) == SELVAGE_SUCCESS && memory == SELVAGE_MEMORY_OTHER &&
        !atomic_flag_test_and_set(&told))
        sv_drop_warn("%p is memory of a GPU that is not current in this thread: what writes it there is not waited for "
                     "(make it current, cudaSetDevice() or hipSetDevice(), in every thread that calls MPI)", ptr);
}

selvage_device_t *sv_drop_device(void)
{
    /* Partner: the release in reopen(). */
    selvage_device_t *dev = atomic_load_explicit(&device.open, memory_order_acquire);
    if (dev)
        return dev;
    pthread_mutex_lock(&device.lock);
    if (!device.closed && !atomic_load_explicit(&device.open, memory_order_relaxed))
        reopen(false);
    dev = atomic_load_explicit(&device.open, memory_order_relaxed);
    pthread_mutex_unlock(&device.lock);
    return dev;
}

void sv_drop_device_close(void)
{
    pthread_mutex_lock(&device.lock);
    selvage_device_t *dev = atomic_load_explicit(&device.open, memory_order_relaxed);
    device.closed = true;
    if (dev) {
        drop_streams(dev);
        sv_drop_pool_empty();
        atomic_store_explicit(&device.open, NULL, memory_order_relaxed);
        selvage_device_close(dev);
    }
    pthread_mutex_unlock(&device.lock);
}

/* Only "no such address" counts: where the question is not allowed, the memory is believed. */
static bool is_readable(const void *ptr)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)ptr, 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) >= 0 || errno != EFAULT;
}

sv_drop_place_t sv_drop_ask(const void *ptr)
{
    selvage_memory_t memory = SELVAGE_MEMORY_HOST;
    if ((uintptr_t)ptr < 4096 || (uintptr_t)ptr > UINTPTR_MAX - 4096) /* NULL, and MPI_IN_PLACE of either MPI */
        return SV_DROP_HOST;
    if (!device.is_gpu)
        look_for_gpu(ptr);
    selvage_device_t *dev = sv_drop_device();
    if (dev && selvage_device_memory(dev, ptr, 1, &memory) != SELVAGE_SUCCESS)
        memory = SELVAGE_MEMORY_UNKNOWN;
    switch (memory) {
    case SELVAGE_MEMORY_OTHER:
        follow_program();
        warn_of_other(ptr); /* fall through */
    case SELVAGE_MEMORY_DEVICE:
    case SELVAGE_MEMORY_MANAGED:
        sv_drop_fast_see();
        return SV_DROP_DEVICE;
    case SELVAGE_MEMORY_PINNED: return SV_DROP_HOST;
    case SELVAGE_MEMORY_HOST: return is_readable(ptr) ? SV_DROP_HOST : SV_DROP_NOBODY;
    default: return SV_DROP_NOBODY;
    }
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

static void *take_stream(selvage_device_t *dev)
{
    void *stream = NULL;
    pthread_mutex_lock(&device.lock);
    if (device.nstreams > 0)
        stream = device.stream[--device.nstreams];
    pthread_mutex_unlock(&device.lock);
    if (!stream && selvage_stream_create(dev, &stream) != SELVAGE_SUCCESS)
        sv_drop_fatal("no stream", selvage_error_detail());
    return stream;
}

static void give_stream(selvage_device_t *dev, void *stream)
{
    pthread_mutex_lock(&device.lock);
    bool kept = device.nstreams < STREAMS_MAX;
    if (kept)
        device.stream[device.nstreams++] = stream;
    pthread_mutex_unlock(&device.lock);
    if (!kept)
        selvage_stream_destroy(dev, stream);
}

static void must(selvage_status_t status)
{
    if (status != SELVAGE_SUCCESS)
        sv_drop_fatal("copy failed", selvage_error_detail());
}

static void *stream_of(sv_drop_flow_t *flow, size_t bytes)
{
    if (!flow->taken && !flow->theirs)
        flow->stream = take_stream(sv_drop_device());
    flow->taken = true;
    flow->begin_ns = flow->begin_ns ? flow->begin_ns : sv_drop_trace_now();
    flow->bytes += (int64_t)bytes;
    return flow->stream;
}

void sv_drop_flow_end(sv_drop_flow_t *flow)
{
    selvage_device_t *dev = sv_drop_device();
    if (!flow->taken && !flow->theirs)
        return;
    must(selvage_stream_synchronize(dev, flow->stream));
    sv_drop_trace_span("copy", flow->begin_ns, flow->bytes);
    flow->begin_ns = flow->bytes = 0;
    if (!flow->theirs)
        give_stream(dev, flow->stream);
    flow->taken = false;
}

void sv_drop_copy(sv_drop_flow_t *flow, void *dst, const void *src, size_t bytes, selvage_copy_t direction)
{
    if (bytes > 0)
        must(selvage_device_copy(sv_drop_device(), dst, src, bytes, direction, stream_of(flow, bytes)));
}

void sv_drop_gather(sv_drop_flow_t *flow, selvage_pack_t *pack, const void *buf, void *packed)
{
    must(selvage_pack_gather(pack, buf, packed, stream_of(flow, selvage_pack_bytes(pack))));
}

void sv_drop_scatter(sv_drop_flow_t *flow, selvage_pack_t *pack, const void *packed, size_t bytes, void *buf)
{
    must(selvage_pack_scatter(pack, packed, bytes, buf, stream_of(flow, bytes)));
}

void sv_drop_settle(void)
{
    selvage_device_t *dev = sv_drop_device();
    selvage_status_t status = SELVAGE_SUCCESS;
    int64_t begin_ns = sv_drop_trace_now();
    switch (sv_drop_settings()->sync) {
    case SV_DROP_SYNC_DEVICE:
    case SV_DROP_SYNC_CHECK: status = selvage_device_synchronize(dev); break;
    case SV_DROP_SYNC_DEFAULT: status = selvage_stream_synchronize(dev, NULL); break;
    case SV_DROP_SYNC_NONE: break;
    }
    if (status != SELVAGE_SUCCESS)
        sv_drop_fatal("the device failed", selvage_error_detail());
    sv_drop_trace_span("wait for the device", begin_ns, 0);
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

/* The caller has the device's lock. */
void sv_drop_pool_empty(void)
{
    selvage_device_t *dev = atomic_load_explicit(&device.open, memory_order_relaxed);
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
