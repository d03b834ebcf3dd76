/* SPDX-License-Identifier: BSD-3-Clause */
/* See amdgpu_coverage.h. Any thread; a folder that cannot be written ends the process, since figures would be wrong. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "amdgpu/amdgpu_coverage.h"

namespace {

struct counts_t {
    uint64_t launches, waves, instructions, unused;
};

/* A file of so many bytes, mapped. */
void *map_shared(const char *folder, const char *name, size_t bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    void *memory = file >= 0 && ftruncate(file, (off_t)bytes) == 0
                       ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                       : MAP_FAILED;
    if (memory == MAP_FAILED) {
        fprintf(stderr, "amdgpu: %s cannot be written, for AMDGPU_COVERAGE\n", path);
        abort();
    }
    close(file);
    return memory;
}

counts_t *shared_counts;

void open_counts()
{
    if (const char *folder = getenv("AMDGPU_COVERAGE"))
        shared_counts = (counts_t *)map_shared(folder, "counts", sizeof *shared_counts);
}

} // namespace

uint8_t *amdgpu_coverage_open(const amdgpu_object_t *object, size_t ndwords)
{
    const char *folder = getenv("AMDGPU_COVERAGE");
    char name[128];
    if (!folder) {
        void *own = mmap(nullptr, ndwords, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return own == MAP_FAILED ? nullptr : (uint8_t *)own;
    }
    snprintf(name, sizeof name, "%s.%s", object->kernel[0].name, object->arch);
    return (uint8_t *)map_shared(folder, name, ndwords);
}

void amdgpu_coverage_close(uint8_t *executed, size_t ndwords)
{
    munmap(executed, ndwords);
}

void amdgpu_coverage_count(unsigned nwaves, uint64_t ninsts)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_counts);
    if (!shared_counts)
        return;
    __atomic_add_fetch(&shared_counts->launches, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&shared_counts->waves, nwaves, __ATOMIC_RELAXED);
    __atomic_add_fetch(&shared_counts->instructions, ninsts, __ATOMIC_RELAXED);
}
