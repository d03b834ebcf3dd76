/* SPDX-License-Identifier: BSD-3-Clause */
/* See bits.h. Kernels are found by their names, and their code objects are loaded once. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "amdgpu/amdgpu.h"
#include "amdgpu/bits.h"
#include "fixtures/check.h"

enum { MEMORY_BYTES = 16 << 20, KERNELS = 40, IGNORED = 64, ALIGNMENT = 64 };

static uint8_t *memory, *before, *wanted;
static size_t used;
static uint64_t reset_seed, random_state;

static struct {
    size_t begin, end;
} ignored[IGNORED];
static unsigned nignored;

static struct {
    const sv_kernel_t *kernel;
    const amdgpu_kernel_t *code;
} kernels[KERNELS];
static unsigned nkernels;

static const char *objects, *machine;

static void give_up(const char *what, const char *why)
{
    fprintf(stderr, "bits: %s: %s\n", what, why);
    abort();
}

void bits_open(const char *folder, const char *arch)
{
    objects = folder;
    machine = arch;
    memory = mmap(NULL, 3 * (size_t)MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        give_up("memory", "there is none");
    before = memory + MEMORY_BYTES;
    wanted = before + MEMORY_BYTES;
}

uint64_t bits_draw(uint64_t below)
{
    random_state += UINT64_C(0x9e3779b97f4a7c15);
    return (sv_digest_mix(random_state) >> 1) % below;
}

void bits_reset(uint64_t seed)
{
    reset_seed = seed;
    random_state = sv_digest_mix(seed + 1);
    used = nignored = 0;
}

uint8_t *bits_take(size_t bytes, unsigned shift)
{
    uint8_t *place = memory + used;
    used += (bytes + shift + 2 * ALIGNMENT) / ALIGNMENT * ALIGNMENT; /* at least one line between two */
    if (used > MEMORY_BYTES)
        give_up("memory", "a launch wants too much");
    for (uint8_t *line = place; line < memory + used; line += sizeof(uint64_t)) {
        const uint64_t word = 0x3030303030303030u | (sv_digest_mix(random_state += 3) & 0x0f0f0f0f0f0f0f0fu);
        memcpy(line, &word, sizeof word);
    }
    return place + shift;
}

void *bits_take_zero(size_t bytes)
{
    return memset(bits_take(bytes, 0), 0, bytes);
}

void bits_ignore(const void *place, size_t bytes)
{
    if (nignored == IGNORED)
        give_up("memory", "too much of it is ignored");
    const size_t begin = (size_t)((const uint8_t *)place - memory);
    ignored[nignored].begin = begin;
    ignored[nignored++].end = begin + bytes;
}

static const void *map_file(const char *path)
{
    struct stat status;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    void *image = file >= 0 && fstat(file, &status) == 0
                      ? mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    if (image == MAP_FAILED)
        give_up(path, "it cannot be read");
    close(file);
    return image;
}

static const amdgpu_kernel_t *find_code(const sv_kernel_t *kernel)
{
    char path[512], error[256];
    for (unsigned k = 0; k < nkernels; k++)
        if (kernels[k].kernel == kernel)
            return kernels[k].code;
    snprintf(path, sizeof path, "%s/kernel_%s.%s.co", objects, kernel->name + strlen("sv_"), machine);
    amdgpu_object_t *object = amdgpu_object_load(map_file(path), machine, error, sizeof error);
    if (!object)
        give_up(path, error);
    const amdgpu_kernel_t *code = amdgpu_kernel_find(object, kernel->name);
    if (!code || nkernels == KERNELS)
        give_up(path, "it lacks its kernel, or there are too many");
    kernels[nkernels].kernel = kernel;
    kernels[nkernels++].code = code;
    return code;
}

static bool is_ignored(size_t at)
{
    for (unsigned i = 0; i < nignored; i++)
        if (at >= ignored[i].begin && at < ignored[i].end)
            return true;
    return false;
}

static bool compare_memory(const sv_kernel_t *kernel)
{
    size_t differ = 0, first = 0;
    for (size_t at = 0; at < used; at++)
        if (memory[at] != wanted[at] && !is_ignored(at) && differ++ == 0)
            first = at;
    CHECK_EQ(differ, 0);
    if (differ > 0)
        fprintf(stderr, "%s on %s, seed %llu: %zu bytes differ, the first at %p: %02x, on soft %02x\n", kernel->name,
                machine, (unsigned long long)reset_seed, differ, (void *)(memory + first), memory[first],
                wanted[first]);
    return differ == 0;
}

/* Keeps what the software device has made of memory, which is then as it was before. */
static void turn_to_machine(void)
{
    memcpy(wanted, memory, used);
    memcpy(memory, before, used);
}

typedef struct meanwhile {
    void (*action)(void *opaque);
    void *opaque;
    unsigned after_us;
    pthread_t thread;
} meanwhile_t;
static meanwhile_t meanwhile;

void bits_do_meanwhile(void (*action)(void *opaque), void *opaque, unsigned after_us)
{
    meanwhile.action = action;
    meanwhile.opaque = opaque;
    meanwhile.after_us = after_us;
}

static void *act_later(void *opaque)
{
    const meanwhile_t *later = opaque;
    const struct timespec pause = {.tv_nsec = 1000L * later->after_us};
    nanosleep(&pause, NULL);
    later->action(later->opaque);
    return NULL;
}

static void begin_meanwhile(void)
{
    if (meanwhile.action && pthread_create(&meanwhile.thread, NULL, act_later, &meanwhile) != 0)
        give_up("threads", "there are none");
}

static void end_meanwhile(void)
{
    if (meanwhile.action)
        pthread_join(meanwhile.thread, NULL);
}

bool bits_run(const sv_kernel_t *kernel, const void *arg, unsigned nblocks, unsigned nthreads, unsigned soft_blocks)
{
    const amdgpu_launch_t launch = {.kernel = find_code(kernel), .nblocks = nblocks, .nthreads = nthreads, .arg = arg};
    memcpy(before, memory, used);
    begin_meanwhile();
    for (unsigned block = 0; block < soft_blocks; block++)
        kernel->soft(arg, block, soft_blocks);
    end_meanwhile();
    turn_to_machine();
    begin_meanwhile();
    amdgpu_run(&launch);
    end_meanwhile();
    meanwhile.action = NULL;
    return compare_memory(kernel);
}

typedef struct rank_launch {
    const sv_kernel_t *kernel;
    amdgpu_launch_t launch;
    pthread_t thread;
} rank_launch_t;

static void *run_soft_rank(void *opaque)
{
    const rank_launch_t *rank = opaque;
    rank->kernel->soft(rank->launch.arg, 0, 1);
    return NULL;
}

static void *run_machine_rank(void *opaque)
{
    const rank_launch_t *rank = opaque;
    if (rank->launch.arg)
        amdgpu_run(&rank->launch);
    return NULL;
}

static void run_threads(rank_launch_t *ranks, unsigned nranks, void *(*body)(void *))
{
    for (unsigned r = 0; r < nranks; r++)
        if (pthread_create(&ranks[r].thread, NULL, body, &ranks[r]) != 0)
            give_up("threads", "there are none");
    for (unsigned r = 0; r < nranks; r++)
        pthread_join(ranks[r].thread, NULL);
}

static void open_ranks(rank_launch_t *ranks, const sv_kernel_t *kernel, unsigned nranks, const void *const *args,
                       unsigned nthreads)
{
    for (unsigned r = 0; r < nranks; r++)
        ranks[r] = (rank_launch_t){.kernel = kernel, .launch = {.kernel = find_code(kernel), .nblocks = 1,
                                                                .nthreads = nthreads, .arg = args[r]}};
}

bool bits_run_ranks(const sv_kernel_t *kernel, unsigned nranks, const void *const *args, unsigned nthreads)
{
    rank_launch_t ranks[BITS_RANKS];
    open_ranks(ranks, kernel, nranks, args, nthreads);
    memcpy(before, memory, used);
    run_threads(ranks, nranks, run_soft_rank);
    turn_to_machine();
    run_threads(ranks, nranks, run_machine_rank);
    return compare_memory(kernel);
}

static void *stop_later(void *opaque)
{
    const bits_fault_t *fault = opaque;
    const struct timespec pause = {.tv_nsec = 1000L * fault->stop_us};
    nanosleep(&pause, NULL);
    __atomic_store_n(fault->stop, 1, __ATOMIC_RELEASE); /* partner: the look of a kernel that waits */
    return NULL;
}

void bits_run_faulty(const sv_kernel_t *kernel, unsigned nranks, const void *const *args, unsigned nthreads,
                     const bits_fault_t *fault)
{
    rank_launch_t ranks[BITS_RANKS];
    bits_fault_t later = *fault;
    pthread_t stopper;
    open_ranks(ranks, kernel, nranks, args, nthreads);
    memcpy(before, memory, used);
    run_threads(ranks, nranks, run_soft_rank);
    turn_to_machine();
    fault->spoil(fault->opaque);
    open_ranks(ranks, kernel, nranks, fault->args, nthreads);
    for (unsigned r = 0; r < nranks; r++)
        ranks[r].launch.held_turns = fault->held_turns;
    if (later.stop && pthread_create(&stopper, NULL, stop_later, &later) != 0)
        give_up("threads", "there are none");
    run_threads(ranks, nranks, run_machine_rank);
    if (later.stop)
        pthread_join(stopper, NULL);
}

const uint8_t *bits_wanted(const void *place)
{
    return wanted + ((const uint8_t *)place - memory);
}
