/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bodies of kernels for the software device, as machine code for AMD GPUs. Programs whose ranks are threads are
 * linked a second time, with every sv_..._soft replaced by one from here (the linker's --wrap). So what they test runs
 * on the software device's memory, streams and blocks, but executes the code objects in the folder that AMDGPU_OBJECTS
 * names (lib/kernels), for AMDGPU_ARCH (gfx942). Also what no plug-in for AMD launches is executed like this. Blocks
 * are threads of the software device; each runs its own waves. Any thread; objects are loaded once and stay.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "amdgpu/amdgpu.h"

namespace {

const unsigned LANES = 256, WIDE = 512; /* threads of a block, as on a GPU */

struct body_t {
    const char *name; /* of the file, too */
    pthread_mutex_t lock;
    const amdgpu_kernel_t *kernel;
};

[[noreturn]] void give_up(const char *path, const char *why)
{
    fprintf(stderr, "amdgpu: %s: %s\n", path, why);
    abort();
}

const void *map_file(const char *path)
{
    struct stat status;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    void *image = file >= 0 && fstat(file, &status) == 0
                      ? mmap(nullptr, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0)
                      : MAP_FAILED;
    if (image == MAP_FAILED)
        give_up(path, "it cannot be read");
    close(file);
    return image;
}

const amdgpu_kernel_t *load_kernel(const char *name)
{
    const char *folder = getenv("AMDGPU_OBJECTS"), *wanted = getenv("AMDGPU_ARCH");
    const char *arch = wanted ? wanted : "gfx942";
    char path[512], symbol[64], error[256];
    snprintf(path, sizeof path, "%s/kernel_%s.%s.co", folder ? folder : "lib/kernels", name, arch);
    snprintf(symbol, sizeof symbol, "sv_%s", name);
    amdgpu_object_t *object = amdgpu_object_load(map_file(path), arch, error, sizeof error);
    if (!object)
        give_up(path, error);
    const amdgpu_kernel_t *kernel = amdgpu_kernel_find(object, symbol);
    if (!kernel)
        give_up(path, "it lacks its kernel");
    return kernel;
}

void run_block(body_t *body, unsigned nthreads, const void *arg, unsigned block, unsigned nblocks)
{
    pthread_mutex_lock(&body->lock);
    if (!body->kernel)
        body->kernel = load_kernel(body->name);
    pthread_mutex_unlock(&body->lock);
    const amdgpu_launch_t launch = {body->kernel, nblocks, nthreads, block, 1, 0, arg, nullptr};
    amdgpu_run(&launch);
}

} // namespace

#define BODY(kernel, nthreads)                                                                    \
    extern "C" void __wrap_sv_##kernel##_soft(const void *arg, unsigned block, unsigned nblocks); \
    extern "C" void __wrap_sv_##kernel##_soft(const void *arg, unsigned block, unsigned nblocks)  \
    {                                                                                             \
        static body_t body = {#kernel, PTHREAD_MUTEX_INITIALIZER, nullptr};                       \
        run_block(&body, nthreads, arg, block, nblocks);                                          \
    }

BODY(digest, LANES)
BODY(digests, LANES)
BODY(rest, LANES)
BODY(signal, LANES)
BODY(push, LANES)
BODY(pull, LANES)
BODY(gather, LANES)
BODY(scatter, LANES)
BODY(run, LANES)
BODY(run_pieces, LANES)
BODY(await, LANES)
BODY(pack, LANES)
BODY(unpack, LANES)
BODY(runs, LANES)
BODY(sum, LANES)
BODY(touch, LANES)
BODY(flip, LANES)
BODY(delay, LANES)
BODY(fold, LANES)
BODY(exact_scale, LANES)
BODY(exact_split, LANES)
BODY(exact_join, LANES)
BODY(exact_pack, LANES)
BODY(exact_add, LANES)
BODY(exact_unpack, LANES)
BODY(coll, WIDE)
BODY(coll_ll, WIDE)
BODY(coll_small_pair, WIDE)
BODY(coll_small, WIDE)
