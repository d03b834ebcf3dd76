/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See gpu_memory.h. CUDA's driver and HIP's runtime have the same calls under two names, with device addresses as
 * integers in one and pointers in the other, which are passed alike. The library is taken as the plug-in loaded it.
 */
#include "gpu_memory.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 2 << 20, ODD = 4097, PINNED_KIND = 1, ON_DEVICE = 1, READ_WRITE = 3, GLOBAL = 1, MAPPED = 3 };
enum { PAGE = 4096, HOST_BYTES = GPU_MEMORY_BYTES + 2 * PAGE };

/* CUmemAllocationProp and CUmemAccessDesc, and their kin in HIP. */
typedef struct vm_properties {
    int type, handle_types;
    int location_type, location_id;
    void *meta;
    unsigned char flags[8];
} vm_properties_t;

typedef struct vm_access {
    int location_type, location_id, flags;
} vm_access_t;

typedef struct gpu_calls {
    int (*alloc)(void **ptr, size_t bytes);
    int (*free)(void *ptr);
    int (*pool_alloc)(void **ptr, size_t bytes, void *stream);
    int (*managed_alloc)(void **ptr, size_t bytes, unsigned flags);
    int (*host_register)(void *ptr, size_t bytes, unsigned flags);
    int (*host_unregister)(void *ptr);
    int (*vm_create)(unsigned long long *handle, size_t bytes, const vm_properties_t *properties,
                     unsigned long long flags);
    int (*vm_release)(unsigned long long handle);
    int (*vm_reserve)(void **ptr, size_t bytes, size_t align, void *wanted, unsigned long long flags);
    int (*vm_unreserve)(void *ptr, size_t bytes);
    int (*vm_map)(void *ptr, size_t bytes, size_t offset, unsigned long long handle, unsigned long long flags);
    int (*vm_unmap)(void *ptr, size_t bytes);
    int (*vm_access)(void *ptr, size_t bytes, const vm_access_t *access, size_t count);
    int (*hip_set)(int index);
    int (*hip_last_error)(void); /* forgets it too, or the next call of the plug-in would find it */
    int (*cuda_retain)(void **context, int index);
    int (*cuda_set)(void *context);
} gpu_calls_t;

static gpu_calls_t calls; /* those that are missing stay NULL */

static void *open_library(const char *kind)
{
    static const char *const cuda[] = {"libcuda.so.1", NULL};
    static const char *const hip[] = {"libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so.7", "libamdhip64.so",
                                      NULL};
    void *library = NULL;
    for (const char *const *name = strcmp(kind, "amd") == 0 ? hip : cuda; *name && !library; name++)
        library = dlopen(*name, RTLD_NOW | RTLD_NOLOAD);
    return library;
}

static void load_calls(const char *kind)
{
    static int done;
    const struct {
        void *slot;
        const char *cuda, *hip;
    } names[] = {
        {&calls.alloc, "cuMemAlloc_v2", "hipMalloc"},
        {&calls.free, "cuMemFree_v2", "hipFree"},
        {&calls.pool_alloc, "cuMemAllocAsync", "hipMallocAsync"},
        {&calls.managed_alloc, "cuMemAllocManaged", "hipMallocManaged"},
        {&calls.host_register, "cuMemHostRegister_v2", "hipHostRegister"},
        {&calls.host_unregister, "cuMemHostUnregister", "hipHostUnregister"},
        {&calls.vm_create, "cuMemCreate", "hipMemCreate"},
        {&calls.vm_release, "cuMemRelease", "hipMemRelease"},
        {&calls.vm_reserve, "cuMemAddressReserve", "hipMemAddressReserve"},
        {&calls.vm_unreserve, "cuMemAddressFree", "hipMemAddressFree"},
        {&calls.vm_map, "cuMemMap", "hipMemMap"},
        {&calls.vm_unmap, "cuMemUnmap", "hipMemUnmap"},
        {&calls.vm_access, "cuMemSetAccess", "hipMemSetAccess"},
        {&calls.hip_set, "", "hipSetDevice"},
        {&calls.hip_last_error, "", "hipGetLastError"},
        {&calls.cuda_retain, "cuDevicePrimaryCtxRetain", ""},
        {&calls.cuda_set, "cuCtxSetCurrent", ""},
    };
    if (done++ || strcmp(kind, "soft") == 0)
        return;
    void *library = open_library(kind);
    for (size_t i = 0; library && i < sizeof names / sizeof names[0]; i++) {
        const char *name = strcmp(kind, "amd") == 0 ? names[i].hip : names[i].cuda;
        void *found = *name ? dlsym(library, name) : NULL;
        memcpy(names[i].slot, &found, sizeof found); /* ISO C has no cast from an object to a function pointer */
    }
}

/* --- one function to make each kind; 0 is success ----------------------------------------------------------------- */

static int make_plain(selvage_device_t *dev, gpu_memory_t *m)
{
    m->bytes = GPU_MEMORY_BYTES;
    if (selvage_device_malloc(dev, GPU_MEMORY_BYTES, &m->block) != SELVAGE_SUCCESS)
        return -1;
    m->ptr = m->block;
    return 0;
}

static void free_plain(selvage_device_t *dev, gpu_memory_t *m)
{
    selvage_device_free(dev, m->block);
    selvage_device_free(dev, m->extra);
}

static int make_inside(selvage_device_t *dev, gpu_memory_t *m)
{
    if (selvage_device_malloc(dev, GPU_MEMORY_BYTES + 2 * ODD, &m->block) != SELVAGE_SUCCESS)
        return -1;
    m->ptr = (char *)m->block + ODD;
    m->bytes = GPU_MEMORY_BYTES;
    return 0;
}

static int make_pool(selvage_device_t *dev, gpu_memory_t *m)
{
    if (!calls.pool_alloc || !calls.free || calls.pool_alloc(&m->block, GPU_MEMORY_BYTES, NULL) != 0)
        return -1;
    m->ptr = m->block;
    m->bytes = GPU_MEMORY_BYTES;
    return selvage_stream_synchronize(dev, NULL) == SELVAGE_SUCCESS ? 0 : -1;
}

static void free_native(selvage_device_t *dev, gpu_memory_t *m)
{
    (void)dev;
    if (m->block)
        calls.free(m->block);
}

static int make_managed(selvage_device_t *dev, gpu_memory_t *m)
{
    (void)dev;
    if (!calls.managed_alloc || !calls.free || calls.managed_alloc(&m->block, GPU_MEMORY_BYTES, GLOBAL) != 0)
        return -1;
    m->ptr = m->block;
    m->bytes = GPU_MEMORY_BYTES;
    return 0;
}

static void free_virtual(selvage_device_t *dev, gpu_memory_t *m)
{
    (void)dev;
    for (int i = 0; i < 2; i++) {
        if (!m->handle[i])
            continue;
        calls.vm_unmap((char *)m->block + (size_t)i * CHUNK, CHUNK);
        calls.vm_release(m->handle[i]);
    }
    if (m->block)
        calls.vm_unreserve(m->block, 2 * (size_t)CHUNK);
}

/* Two allocations side by side, as expandable segments have them; the packets lie across their border. */
static int make_virtual(selvage_device_t *dev, gpu_memory_t *m)
{
    selvage_device_info_t info = {SELVAGE_DEVICE_INFO_INIT};
    if (!calls.vm_create || !calls.vm_release || !calls.vm_reserve || !calls.vm_unreserve || !calls.vm_map ||
        !calls.vm_unmap || !calls.vm_access || selvage_device_describe(dev, &info) != SELVAGE_SUCCESS)
        return -1;
    vm_properties_t properties = {.type = PINNED_KIND, .location_type = ON_DEVICE, .location_id = info.index};
    vm_access_t access = {ON_DEVICE, info.index, READ_WRITE};
    if (calls.vm_reserve(&m->block, 2 * (size_t)CHUNK, 0, NULL, 0) != 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        unsigned long long handle;
        if (calls.vm_create(&handle, CHUNK, &properties, 0) != 0)
            return -1;
        if (calls.vm_map((char *)m->block + (size_t)i * CHUNK, CHUNK, 0, handle, 0) != 0) {
            calls.vm_release(handle);
            return -1;
        }
        m->handle[i] = handle;
    }
    m->ptr = (char *)m->block + CHUNK - GPU_MEMORY_BYTES / 2;
    m->bytes = GPU_MEMORY_BYTES;
    return calls.vm_access(m->block, 2 * (size_t)CHUNK, &access, 1);
}

static int make_pinned(selvage_device_t *dev, gpu_memory_t *m)
{
    m->bytes = GPU_MEMORY_BYTES;
    if (selvage_device_host_malloc(dev, GPU_MEMORY_BYTES + ODD, &m->block) != SELVAGE_SUCCESS)
        return -1;
    m->ptr = (char *)m->block + ODD;
    return 0;
}

static void free_pinned(selvage_device_t *dev, gpu_memory_t *m)
{
    selvage_device_host_free(dev, m->block);
}

static int make_malloc(selvage_device_t *dev, gpu_memory_t *m)
{
    (void)dev;
    m->bytes = GPU_MEMORY_BYTES;
    m->block = aligned_alloc(PAGE, HOST_BYTES);
    if (!m->block)
        return -1;
    memset(m->block, 1, HOST_BYTES);
    m->ptr = (char *)m->block + ODD;
    return 0;
}

static void free_malloc(selvage_device_t *dev, gpu_memory_t *m)
{
    (void)dev;
    free(m->block);
}

static int make_registered(selvage_device_t *dev, gpu_memory_t *m)
{
    if (!calls.host_register || !calls.host_unregister || make_malloc(dev, m) != 0)
        return -1;
    if (calls.host_register(m->block, HOST_BYTES, MAPPED) != 0)
        return -1;
    m->extra = m->block;
    return 0;
}

static void free_registered(selvage_device_t *dev, gpu_memory_t *m)
{
    if (m->extra)
        calls.host_unregister(m->extra);
    free_malloc(dev, m);
}

/* The context of a GPU becomes the calling thread's. */
static int set_gpu(int index)
{
    void *context;
    if (calls.hip_set)
        return calls.hip_set(index);
    if (!calls.cuda_retain || !calls.cuda_set || calls.cuda_retain(&context, index) != 0)
        return -1;
    return calls.cuda_set(context);
}

static int make_other(selvage_device_t *dev, gpu_memory_t *m)
{
    selvage_device_info_t info = {SELVAGE_DEVICE_INFO_INIT};
    if (!calls.alloc || !calls.free || selvage_device_describe(dev, &info) != SELVAGE_SUCCESS || info.count < 2)
        return -1;
    int result = set_gpu((info.index + 1) % info.count);
    if (result == 0)
        result = calls.alloc(&m->block, GPU_MEMORY_BYTES);
    m->ptr = m->block;
    m->bytes = GPU_MEMORY_BYTES;
    return set_gpu(info.index) == 0 ? result : -1;
}

static int make_beyond(selvage_device_t *dev, gpu_memory_t *m)
{
    int result = make_plain(dev, m);
    m->bytes = (size_t)1 << 40;
    return result;
}

/* The neighbour stays, so that what lay around it stays too. */
static int make_freed(selvage_device_t *dev, gpu_memory_t *m)
{
    gpu_memory_t first = {NULL}, second = {NULL};
    if (make_plain(dev, &first) != 0 || make_plain(dev, &second) != 0) {
        selvage_device_free(dev, first.block);
        return -1;
    }
    selvage_device_free(dev, second.block);
    m->block = first.block;
    m->ptr = second.ptr;
    m->bytes = GPU_MEMORY_BYTES;
    return 0;
}

static const struct {
    const char *name;
    int (*make)(selvage_device_t *dev, gpu_memory_t *memory);
    void (*release)(selvage_device_t *dev, gpu_memory_t *memory);
} kinds[] = {
    {"plain", make_plain, free_plain},
    {"inside", make_inside, free_plain},
    {"pool", make_pool, free_native},
    {"virtual", make_virtual, free_virtual},
    {"managed", make_managed, free_native},
    {"pinned", make_pinned, free_pinned},
    {"registered", make_registered, free_registered},
    {"malloc", make_malloc, free_malloc},
    {"other", make_other, free_native},
    {"beyond", make_beyond, free_plain},
    {"freed", make_freed, free_plain},
};

const char *gpu_memory_name(unsigned n)
{
    return n < sizeof kinds / sizeof kinds[0] ? kinds[n].name : NULL;
}

int gpu_memory_make(selvage_device_t *dev, unsigned n, gpu_memory_t *memory, const char **why)
{
    load_calls(selvage_device_name(dev));
    *memory = (gpu_memory_t){.name = kinds[n].name};
    if (kinds[n].make(dev, memory) == 0)
        return 0;
    gpu_memory_free(dev, n, memory);
    if (calls.hip_last_error)
        (void)calls.hip_last_error();
    *why = calls.free ? "the GPU does not give it" : "not on this device";
    return -1;
}

void gpu_memory_free(selvage_device_t *dev, unsigned n, gpu_memory_t *memory)
{
    kinds[n].release(dev, memory);
    *memory = (gpu_memory_t){.name = kinds[n].name};
}
