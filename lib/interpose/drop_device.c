/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The devices under the drop-in. Each is opened when a program first shows memory of it, whichever GPU is current in
 * that thread. None is opened before the program itself has loaded a GPU's runtime, so that host programs on GPU
 * machines get no context from us.
 *
 *   gpu[0]   the first one, or soft: makes pinned memory, and is the fast route's
 *   gpu[i]   of programs that work with several: memory of it is waited for, copied and packed by it
 *
 * Devices are only added, but for a software device that gives way to the first GPU. Any thread; readers take no lock.
 * The devices and the streams at rest are owned here and closed at the end; a stream is one thread's while it is taken.
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

enum { GPUS_MAX = 16, STREAMS_MAX = 16, FAILURES_MAX = 3 };

typedef struct gpu {
    _Atomic(selvage_device_t *) open;
    void *stream[STREAMS_MAX]; /* the drop-in's own, at rest */
    int nstreams;
} gpu_t;

static struct {
    pthread_mutex_t lock;
    gpu_t gpu[GPUS_MAX];
    _Atomic int count;            /* of gpu[]: the first, open or not, and all others that are */
    _Atomic bool is_gpu;          /* the first one */
    _Atomic bool others;          /* memory of other GPUs than the first one was seen */
    bool closed, gpu_loaded, gpu_tried;
    char hip[512];                /* HIP's runtime, if that is loaded: its file */
    int failures;                 /* to open another one */
    unsigned long long libraries; /* loaded when we looked last */
} device = {.lock = PTHREAD_MUTEX_INITIALIZER, .count = 1};

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

typedef int (*ask_cuda_t)(void *, int, uint64_t);
typedef int (*ask_hip_t)(void *, const void *);
typedef int (*forget_hip_t)(void);

/* The layout of all versions of HIP. The type of host memory is 0: of registered memory or, from HIP 6 on, of the
   rest. */
typedef struct hip_answer {
    int type, device;
    void *device_address, *host_address;
    int is_managed;
    unsigned flags, room[32];
} hip_answer_t;

static int look_at_library(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    search_t *search = arg;
    if (bytes >= offsetof(struct dl_phdr_info, dlpi_subs) && info->dlpi_adds == search->libraries && !search->changed)
        return 1;
    search->changed = true;
    search->libraries = info->dlpi_adds;
    if (strstr(info->dlpi_name, "libamdhip64.so")) {
        snprintf(device.hip, sizeof device.hip, "%s", info->dlpi_name);
        search->found = true;
    }
    search->found = search->found || strstr(info->dlpi_name, "libcuda.so");
    return 0;
}

/* Looked for again only when libraries were loaded since. The caller has the lock. */
static bool is_gpu_loaded(void)
{
    search_t search = {.libraries = device.libraries};
    if (!device.gpu_loaded)
        dl_iterate_phdr(look_at_library, &search);
    device.libraries = search.libraries;
    device.gpu_loaded = device.gpu_loaded || search.found;
    return device.gpu_loaded;
}

bool sv_drop_may_have_device(void)
{
    if (sv_drop_settings()->soft)
        return true;
    pthread_mutex_lock(&device.lock);
    bool loaded = is_gpu_loaded();
    pthread_mutex_unlock(&device.lock);
    return loaded;
}

static bool is_known_to_hip(void *runtime, const void *ptr)
{
    enum { HIP_ERROR_NO_DEVICE = 100, HIP_ERROR_INVALID_DEVICE = 101 };
    static _Atomic bool none; /* asking costs milliseconds then: the runtime looks for GPUs anew each time */
    hip_answer_t answer = {0};
    if (atomic_load_explicit(&none, memory_order_relaxed))
        return false;
    ask_hip_t ask = (ask_hip_t)dlsym(runtime, "hipPointerGetAttributes");
    forget_hip_t forget = (forget_hip_t)dlsym(runtime, "hipGetLastError");
    if (!ask || !forget)
        return true;
    const int code = ask(&answer, ptr);
    if (code == 0)
        return answer.device >= 0 && (answer.type != 0 || answer.is_managed);
    atomic_store_explicit(&none, code == HIP_ERROR_NO_DEVICE || code == HIP_ERROR_INVALID_DEVICE,
                          memory_order_relaxed);
    (void)forget(); /* or the program finds an error that is not its own */
    return false;
}

/* The driver is asked before anything is opened. Without that, host memory would open whatever GPU is current then,
   and programs often show host memory before they have chosen their GPU. */
static bool is_known_to_driver(const void *ptr)
{
    enum { MEMORY_TYPE = 2 };
    unsigned type = 0;
    void *cuda = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    void *hip = device.hip[0] ? dlopen(device.hip, RTLD_NOLOAD | RTLD_LAZY) : NULL;
    ask_cuda_t ask = cuda ? (ask_cuda_t)dlsym(cuda, "cuPointerGetAttribute") : NULL;
    bool known = (!cuda && !hip) || (cuda && (!ask || ask(&type, MEMORY_TYPE, (uint64_t)(uintptr_t)ptr) == 0)) ||
                 (hip && is_known_to_hip(hip, ptr));
    if (cuda)
        dlclose(cuda);
    if (hip)
        dlclose(hip);
    return known;
}

/* The GPU that memory is of; without memory, the software device. */
static selvage_device_t *open_device_of(const void *memory)
{
    selvage_device_t *opened = NULL;
    selvage_status_t status =
        memory ? selvage_device_open_at(NULL, memory, &opened) : selvage_device_open("soft", &opened);
    if (status == SELVAGE_SUCCESS)
        return opened;
    sv_drop_warn("no device: %s", selvage_error_detail());
    return NULL;
}

static bool is_soft(const selvage_device_t *dev)
{
    return strcmp(selvage_device_name(dev), "soft") == 0;
}

static void drop_streams(gpu_t *gpu, selvage_device_t *dev)
{
    while (gpu->nstreams > 0)
        selvage_stream_destroy(dev, gpu->stream[--gpu->nstreams]);
}

/* Opens gpu[0]. A software device gives way to a GPU whose runtime came later, and stays open, because another thread
   may be in a call with it. A software device does not replace another one. */
static void open_first(const void *memory)
{
    gpu_t *gpu = &device.gpu[0];
    selvage_device_t *before = atomic_load_explicit(&gpu->open, memory_order_relaxed), *now = open_device_of(memory);
    if (!now)
        return;
    if (memory && is_soft(now) && !sv_drop_settings()->soft)
        sv_drop_warn("the program uses a GPU, and no plug-in of Selvage's for it was found (SELVAGE_DEVICE_PATH): its "
                     "memory is taken for the host's");
    if (before && is_soft(now)) {
        selvage_device_close(now);
        return;
    }
    if (before) {
        drop_streams(gpu, before);
        sv_drop_pool_empty(before);
    }
    /* Partner: the acquire in sv_drop_device(). */
    atomic_store_explicit(&gpu->open, now, memory_order_release);
    device.is_gpu = !is_soft(now); /* last: who reads this must not ask a software device about a GPU's memory */
}

selvage_device_t *sv_drop_device(void)
{
    _Atomic(selvage_device_t *) *first = &device.gpu[0].open;
    /* Partner: the release in open_first(). */
    selvage_device_t *dev = atomic_load_explicit(first, memory_order_acquire);
    if (dev)
        return dev;
    pthread_mutex_lock(&device.lock);
    if (!device.closed && !atomic_load_explicit(first, memory_order_relaxed))
        open_first(NULL);
    dev = atomic_load_explicit(first, memory_order_relaxed);
    pthread_mutex_unlock(&device.lock);
    return dev;
}

void sv_drop_device_close(void)
{
    pthread_mutex_lock(&device.lock);
    device.closed = true;
    for (int i = atomic_load_explicit(&device.count, memory_order_relaxed) - 1; i >= 0; i--) {
        selvage_device_t *dev = atomic_load_explicit(&device.gpu[i].open, memory_order_relaxed);
        if (!dev)
            continue;
        drop_streams(&device.gpu[i], dev);
        if (i == 0)
            sv_drop_pool_empty(dev);
        atomic_store_explicit(&device.gpu[i].open, NULL, memory_order_relaxed);
        selvage_device_close(dev);
    }
    atomic_store_explicit(&device.count, 1, memory_order_relaxed);
    pthread_mutex_unlock(&device.lock);
}

/* --- several GPUs ------------------------------------------------------------------------------------------------- */

static selvage_memory_t memory_on(selvage_device_t *dev, const void *ptr)
{
    selvage_memory_t memory = SELVAGE_MEMORY_HOST;
    if (dev && selvage_device_memory(dev, ptr, 1, &memory) != SELVAGE_SUCCESS)
        memory = SELVAGE_MEMORY_UNKNOWN;
    return memory;
}

static int count_devices_open(void)
{
    return atomic_load_explicit(&device.count, memory_order_acquire); /* partner: add_gpu() */
}

/* The open device that has this memory, or NULL. */
static selvage_device_t *owner_of(const void *ptr)
{
    for (int i = 0, n = count_devices_open(); i < n; i++) {
        selvage_device_t *dev = atomic_load_explicit(&device.gpu[i].open, memory_order_acquire); /* as above */
        selvage_memory_t memory = memory_on(dev, ptr);
        if (memory == SELVAGE_MEMORY_DEVICE || memory == SELVAGE_MEMORY_MANAGED)
            return dev;
    }
    return NULL;
}

/* Opens the GPU of this memory, as one more. The caller has the lock. Returns whether that GPU is open now. */
static bool add_gpu(const void *ptr)
{
    int count = atomic_load_explicit(&device.count, memory_order_relaxed);
    if (owner_of(ptr))
        return true;
    if (device.closed || count == GPUS_MAX || device.failures == FAILURES_MAX)
        return false;
    selvage_device_t *now = open_device_of(ptr);
    if (!now || memory_on(now, ptr) != SELVAGE_MEMORY_DEVICE) {
        device.failures++;
        selvage_device_close(now);
        return false;
    }
    atomic_store_explicit(&device.gpu[count].open, now, memory_order_relaxed);
    /* Partner: the acquire in count_devices_open(). */
    atomic_store_explicit(&device.count, count + 1, memory_order_release);
    return true;
}

bool sv_drop_device_at(int index, selvage_device_t **dev_out)
{
    selvage_device_t *dev = NULL;
    if (index == 0)
        dev = sv_drop_device();
    else if (index < count_devices_open())
        dev = atomic_load_explicit(&device.gpu[index].open, memory_order_acquire); /* as above */
    if (dev)
        *dev_out = dev;
    return dev != NULL;
}

bool sv_drop_has_several(void)
{
    return count_devices_open() > 1;
}

/* Cheap where no such memory was seen: the caller has called sv_drop_query_place() about this memory before. */
bool sv_drop_is_others(const void *memory)
{
    return atomic_load_explicit(&device.others, memory_order_relaxed) &&
           memory_on(sv_drop_device(), memory) == SELVAGE_MEMORY_OTHER;
}

selvage_device_t *sv_drop_device_of(const void *memory)
{
    selvage_device_t *owner = sv_drop_has_several() ? owner_of(memory) : NULL;
    return owner ? owner : sv_drop_device();
}

sv_drop_place_t sv_drop_query_place(const void *ptr)
{
    static atomic_flag reported = ATOMIC_FLAG_INIT;
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)ptr, 1};
    if ((uintptr_t)ptr < 4096 || (uintptr_t)ptr > UINTPTR_MAX - 4096) /* NULL, and MPI_IN_PLACE of either MPI */
        return SV_DROP_HOST;
    /* Without a GPU yet, this may be the first memory that a GPU's driver knows. */
    if (!device.is_gpu) {
        pthread_mutex_lock(&device.lock);
        if (!device.closed && !device.is_gpu && !device.gpu_tried && is_gpu_loaded() && is_known_to_driver(ptr)) {
            device.gpu_tried = true;
            open_first(ptr);
        }
        pthread_mutex_unlock(&device.lock);
    }
    switch (memory_on(sv_drop_device(), ptr)) {
    case SELVAGE_MEMORY_OTHER: /* than the first GPU's */
        atomic_store_explicit(&device.others, true, memory_order_relaxed);
        if (!owner_of(ptr)) {
            pthread_mutex_lock(&device.lock);
            const bool open = add_gpu(ptr);
            pthread_mutex_unlock(&device.lock);
            if (!open && !atomic_flag_test_and_set(&reported))
                sv_drop_warn("%p is memory of a GPU that could not be opened: what writes it there is not waited for",
                             ptr);
        }
        /* fall through */
    case SELVAGE_MEMORY_DEVICE:
    case SELVAGE_MEMORY_MANAGED:
        sv_drop_fast_see();
        return SV_DROP_DEVICE;
    case SELVAGE_MEMORY_PINNED: return SV_DROP_HOST;
    case SELVAGE_MEMORY_HOST:
        /* Only "no such address" counts: where the question is not allowed, the memory is believed. */
        return process_vm_readv(getpid(), &here, 1, &there, 1, 0) >= 0 || errno != EFAULT ? SV_DROP_HOST
                                                                                         : SV_DROP_NOBODY;
    default: return SV_DROP_NOBODY;
    }
}

/* --- streams ------------------------------------------------------------------------------------------------------ */

/* The caller has the lock. */
static gpu_t *gpu_of(const selvage_device_t *dev)
{
    for (int i = 0; i < GPUS_MAX; i++)
        if (atomic_load_explicit(&device.gpu[i].open, memory_order_relaxed) == dev)
            return &device.gpu[i];
    return NULL;
}

void *sv_drop_stream_take(selvage_device_t *dev)
{
    void *stream = NULL;
    pthread_mutex_lock(&device.lock);
    gpu_t *gpu = gpu_of(dev);
    if (gpu && gpu->nstreams > 0)
        stream = gpu->stream[--gpu->nstreams];
    pthread_mutex_unlock(&device.lock);
    if (!stream && selvage_stream_create(dev, &stream) != SELVAGE_SUCCESS)
        sv_drop_fatal("no stream", selvage_error_detail());
    return stream;
}

void sv_drop_stream_give(selvage_device_t *dev, void *stream)
{
    pthread_mutex_lock(&device.lock);
    gpu_t *gpu = gpu_of(dev); /* none for a software device that has given way */
    bool kept = gpu && gpu->nstreams < STREAMS_MAX;
    if (kept)
        gpu->stream[gpu->nstreams++] = stream;
    pthread_mutex_unlock(&device.lock);
    if (!kept)
        selvage_stream_destroy(dev, stream);
}
