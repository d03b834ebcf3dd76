/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared segments, registered buffers and mappings of other ranks' memory. A probe device that counts calls and fails
 * on demand shows that every path unwinds. Then two processes with the soft device show that the memory is really the
 * same.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "base/base_config.h"
#include "base/base_memory.h"
#include "base/base_thread.h"
#include "fixtures/check.h"
#include "host/memory_buffer.h"
#include "host/memory_kind.h"
#include "host/memory_shared.h"
#include "transfer/transfer_mapping.h"

enum { TOKEN = 4711, SEGMENT_BYTES = 10000, BUFFER_BYTES = 5000, PROBE_SHIFT = 1 << 20 };

/* The probe: a device of which the memory module may use these seven calls, and no other. */
static struct probe {
    sv_device_t dev;
    int registered, opened;
    selvage_status_t answer;
    sv_memory_kind_t kind;
} probe;

static selvage_status_t probe_register(sv_device_t *dev, void *ptr, size_t bytes)
{
    CHECK(dev == &probe.dev && ptr != NULL && bytes >= sizeof(sv_shared_header_t));
    probe.registered += probe.answer == SELVAGE_SUCCESS;
    return probe.answer;
}

static void probe_unregister(sv_device_t *dev, void *ptr)
{
    CHECK(dev == &probe.dev && ptr != NULL);
    probe.registered--;
}

static selvage_status_t probe_export(sv_device_t *dev, const void *ptr, size_t bytes, sv_device_handle_t *handle_out,
                                     uint64_t *offset_out)
{
    CHECK(dev == &probe.dev && ptr != NULL && bytes > 0);
    if (probe.answer == SELVAGE_SUCCESS) {
        memset(handle_out, 0x42, sizeof *handle_out);
        *offset_out = 16;
    }
    return probe.answer;
}

/* As on GPUs where registered memory has a device address of its own. */
static selvage_status_t probe_address(sv_device_t *dev, void *ptr, void **address_out)
{
    CHECK(dev == &probe.dev);
    *address_out = (void *)((uintptr_t)ptr + PROBE_SHIFT);
    return SELVAGE_SUCCESS;
}

static selvage_status_t probe_open(sv_device_t *dev, const sv_device_handle_t *handle, void **base_out,
                                   uint64_t *bytes_out)
{
    CHECK(dev == &probe.dev && handle != NULL);
    if (probe.answer == SELVAGE_SUCCESS) {
        *base_out = &probe;
        *bytes_out = sizeof probe;
        probe.opened++;
    }
    return probe.answer;
}

static void probe_close(sv_device_t *dev, void *base)
{
    CHECK(dev == &probe.dev && base == &probe);
    probe.opened--;
}

static sv_memory_kind_t probe_kind(sv_device_t *dev, const void *ptr, size_t bytes)
{
    CHECK(dev == &probe.dev && ptr != NULL && bytes > 0);
    return probe.kind;
}

static const sv_device_ops_t probe_ops = {
    .abi = SV_DEVICE_ABI,
    .name = "probe",
    .host_register = probe_register,
    .host_unregister = probe_unregister,
    .host_address = probe_address,
    .export_memory = probe_export,
    .open_memory = probe_open,
    .close_memory = probe_close,
    .memory_kind = probe_kind,
};

static void test_segment_in_one_process(void)
{
    sv_shared_segment_t creator, opener;

    CHECK_STATUS(sv_shared_create(&probe.dev, SEGMENT_BYTES, TOKEN, &creator), SELVAGE_SUCCESS);
    uint8_t *base = sv_shared_base(&creator);
    CHECK_EQ((uintptr_t)base % 64, 0);
    for (int i = 0; i < SEGMENT_BYTES; i++)
        CHECK(base[i] == 0);
    base[SEGMENT_BYTES - 1] = 9;
    CHECK(!sv_shared_is_answered(&creator));
    CHECK_STATUS(sv_shared_open(&probe.dev, &creator.mapping.handle, TOKEN, &opener), SELVAGE_SUCCESS);
    CHECK(sv_shared_is_answered(&creator));
    CHECK_EQ(sv_shared_base(&opener)[SEGMENT_BYTES - 1], 9);
    CHECK_EQ(probe.registered, 1); /* pages are pinned once */
    CHECK((uint8_t *)sv_shared_device_address(&opener, base + 5) == base + 5 + PROBE_SHIFT);
    CHECK(sv_shared_device_address(&creator, &probe) == (void *)&probe);
    sv_shared_close(&opener);
    CHECK_EQ(probe.registered, 1);
    sv_shared_close(&creator);
    CHECK_EQ(probe.registered, 0);
    sv_shared_close(&creator); /* closed already */
    CHECK(sv_shared_device_address(&creator, base) == (void *)base);
    sv_shared_close(NULL);
    CHECK_EQ(probe.registered, 0);
}

static void test_segment_refusals(void)
{
    sv_shared_segment_t creator, untouched;

    memset(&untouched, 0x77, sizeof untouched);
    sv_shared_segment_t before = untouched;
    CHECK_STATUS(sv_shared_create(&probe.dev, SIZE_MAX - 3, TOKEN, &untouched), SELVAGE_ERR_MEMORY);
    probe.answer = SELVAGE_ERR_DEVICE;
    CHECK_STATUS(sv_shared_create(&probe.dev, SEGMENT_BYTES, TOKEN, &untouched), SELVAGE_ERR_DEVICE);
    probe.answer = SELVAGE_SUCCESS;
    CHECK_STATUS(sv_shared_create(&probe.dev, SEGMENT_BYTES, TOKEN, &creator), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_shared_open(&probe.dev, &creator.mapping.handle, TOKEN + 1, &untouched), SELVAGE_ERR_SYSTEM);
    CHECK(!sv_shared_is_answered(&creator));
    CHECK(memcmp(&untouched, &before, sizeof before) == 0);
    CHECK_EQ(probe.registered, 1);
    sv_shared_close(&creator);
    CHECK_EQ(probe.registered, 0);
}

static void test_buffers(void)
{
    sv_list_t buffers;
    selvage_buffer_t *low = NULL, *high = NULL;
    uint8_t memory[300];

    sv_list_init(&buffers);
    CHECK_STATUS(sv_buffer_register(&buffers, &probe.dev, memory, 100, &low), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_buffer_register(&buffers, &probe.dev, memory + 100, 100, &high), SELVAGE_SUCCESS);
    CHECK(low->ptr == memory && low->bytes == 100 && low->offset == 16 && low->handle.bytes[95] == 0x42);
    CHECK(sv_buffer_find(&buffers, memory, 100) == low);
    CHECK(sv_buffer_find(&buffers, memory + 99, 1) == low);
    CHECK(sv_buffer_find(&buffers, memory + 100, 1) == high);
    CHECK(sv_buffer_find(&buffers, memory + 199, 1) == high);
    CHECK(sv_buffer_find(&buffers, memory + 99, 2) == NULL); /* half in each is in none */
    CHECK(sv_buffer_find(&buffers, memory + 200, 1) == NULL);
    CHECK(sv_buffer_find(&buffers, memory + 50, SIZE_MAX) == NULL);
    low->users = 1;
    CHECK_STATUS(sv_buffer_unregister(low), SELVAGE_ERR_STATE);
    CHECK(sv_buffer_find(&buffers, memory, 1) == low);
    low->users = 0;
    CHECK_STATUS(sv_buffer_unregister(low), SELVAGE_SUCCESS);
    CHECK(sv_buffer_find(&buffers, memory, 1) == NULL);
    CHECK_STATUS(sv_buffer_unregister(high), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_buffer_unregister(NULL), SELVAGE_SUCCESS);
    probe.answer = SELVAGE_ERR_UNSUPPORTED;
    selvage_buffer_t *none = NULL;
    CHECK_STATUS(sv_buffer_register(&buffers, &probe.dev, memory, 100, &none), SELVAGE_ERR_UNSUPPORTED);
    CHECK(none == NULL && strstr(selvage_error_detail(), "probe") != NULL);
    probe.answer = SELVAGE_SUCCESS;
    CHECK(sv_list_is_empty(&buffers));
}

/* Every kind is admitted or refused by its name, pinned memory by its device address, and refused registration. */
static void test_kinds(void)
{
    sv_list_t buffers;
    selvage_buffer_t *none = NULL;
    uint8_t memory[300];

    sv_list_init(&buffers);
    for (probe.kind = SV_MEMORY_UNKNOWN; probe.kind < SV_MEMORY_KINDS; probe.kind++) {
        const char *text = sv_memory_kind_text(probe.kind);
        void *address = NULL;
        bool usable = sv_memory_kind_is_usable(probe.kind);
        CHECK_STATUS(sv_memory_admit(&probe.dev, "the_call", memory, sizeof memory, &address),
                     usable ? SELVAGE_SUCCESS : SELVAGE_ERR_ARGUMENT);
        uintptr_t wanted = (uintptr_t)memory + (probe.kind == SV_MEMORY_PINNED ? PROBE_SHIFT : 0);
        CHECK(address == (usable ? (void *)wanted : NULL));
        CHECK(usable || strstr(selvage_error_detail(), "the_call: buf: 300 bytes at ") != NULL);
        CHECK(usable || strstr(selvage_error_detail(), text) != NULL);
        probe.answer = SELVAGE_ERR_UNSUPPORTED;
        CHECK_STATUS(sv_buffer_register(&buffers, &probe.dev, memory, 100, &none), SELVAGE_ERR_UNSUPPORTED);
        CHECK(usable == (strstr(selvage_error_detail(), "through Selvage's own slab") != NULL));
        CHECK(probe.kind <= SV_MEMORY_DEVICE || strstr(selvage_error_detail(), text) != NULL);
        probe.answer = SELVAGE_SUCCESS;
    }
    void *address = NULL;
    probe.kind = SV_MEMORY_PAGEABLE; /* no bytes: nobody will go there */
    CHECK_STATUS(sv_memory_admit(&probe.dev, "the_call", memory, 0, &address), SELVAGE_SUCCESS);
    CHECK(address == (void *)memory);
    CHECK(none == NULL && sv_list_is_empty(&buffers));
    probe.kind = SV_MEMORY_DEVICE;
}

/* A device that reaches all host memory takes any address for it; the system is asked whether something is there. */
static void test_missing_memory(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    probe.kind = SV_MEMORY_HOST;
    CHECK_EQ(sv_memory_kind(&probe.dev, pages, 2 * page), SV_MEMORY_HOST);
    CHECK_EQ(munmap(pages + page, page), 0);
    CHECK_EQ(sv_memory_kind(&probe.dev, pages, page), SV_MEMORY_HOST);
    CHECK_EQ(sv_memory_kind(&probe.dev, pages, page + 1), SV_MEMORY_FREED);
    CHECK_EQ(sv_memory_kind(&probe.dev, pages + page, 1), SV_MEMORY_FREED);
    CHECK_EQ(munmap(pages, page), 0);
    probe.kind = SV_MEMORY_DEVICE;
}

/* A part of the probe, which rank `peer` has at `base`. */
static sv_transfer_memory_t part_of_probe(int peer, const sv_device_handle_t *handle, uint64_t base, bool kept)
{
    return (sv_transfer_memory_t){.peer = peer, .handle = handle, .base = base, .bytes = sizeof probe, .kept = kept};
}

static sv_transfer_mapping_t *map_part(sv_transfer_cache_t *cache, const sv_transfer_memory_t *memory)
{
    sv_transfer_mapping_t *mapping = NULL;
    CHECK_STATUS(sv_transfer_map(cache, &probe.dev, memory, &mapping), SELVAGE_SUCCESS);
    return mapping;
}

static void check_bounds(sv_transfer_cache_t *cache, const sv_device_handle_t *handle)
{
    const struct {
        uint64_t offset, bytes;
        selvage_status_t status;
    } row[] = {{0, sizeof probe, SELVAGE_SUCCESS},
               {sizeof probe - 8, 8, SELVAGE_SUCCESS},
               {sizeof probe, 0, SELVAGE_SUCCESS},
               {sizeof probe - 7, 8, SELVAGE_ERR_MISMATCH},
               {0, sizeof probe + 1, SELVAGE_ERR_MISMATCH},
               {UINT64_MAX - 3, 8, SELVAGE_ERR_MISMATCH},
               {8, UINT64_MAX - 3, SELVAGE_ERR_MISMATCH}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        sv_transfer_mapping_t *mapping = NULL;
        const int opened = probe.opened;
        const sv_transfer_memory_t memory = {
            .peer = 3, .handle = handle, .offset = row[i].offset, .bytes = row[i].bytes};
        CHECK_STATUS(sv_transfer_map(cache, &probe.dev, &memory, &mapping), row[i].status);
        CHECK((mapping != NULL) == (row[i].status == SELVAGE_SUCCESS));
        sv_transfer_unmap(mapping);
        CHECK_EQ(probe.opened, opened);
    }
}

static void test_mappings(void)
{
    sv_transfer_cache_t cache;
    const sv_device_handle_t one = {{1}}, two = {{2}};
    const sv_transfer_memory_t first = part_of_probe(3, &one, 0, false), third = part_of_probe(4, &one, 0, false),
                               fourth = part_of_probe(3, &two, 0, false);
    sv_transfer_mapping_t *none = NULL;

    sv_transfer_cache_init(&cache, NULL);
    check_bounds(&cache, &one);
    sv_transfer_mapping_t *a = map_part(&cache, &first), *b = map_part(&cache, &first), *c = map_part(&cache, &third),
                          *d = map_part(&cache, &fourth);
    CHECK(a == b && a != c && a != d && c != d && a->base == &probe);
    CHECK_EQ(probe.opened, 3);
    check_bounds(&cache, &one);
    sv_transfer_unmap(a);
    CHECK_EQ(probe.opened, 3);
    sv_transfer_unmap(b);
    sv_transfer_unmap(c);
    sv_transfer_unmap(d);
    sv_transfer_unmap(NULL);
    CHECK_EQ(probe.opened, 0);
    probe.answer = SELVAGE_ERR_DEVICE;
    CHECK_STATUS(sv_transfer_map(&cache, &probe.dev, &first, &none), SELVAGE_ERR_DEVICE);
    CHECK(none == NULL && sv_list_is_empty(&cache.mappings));
    probe.answer = SELVAGE_SUCCESS;
    (void)map_part(&cache, &first); /* whose user never leaves */
    sv_transfer_cache_abandon(&cache);
    CHECK(probe.opened == 1 && sv_list_is_empty(&cache.mappings)); /* not closed */
    probe.opened = 0;
}

/* So long after the last mapping was left. */
static void trim_after(sv_transfer_cache_t *cache, uint64_t ms)
{
    sv_list_t trimmed;
    sv_list_init(&trimmed);
    const int opened = probe.opened;
    const uint64_t now_ns = sv_clock_ns() + ms * 1000000;
    const bool due = sv_transfer_cache_is_due(cache, now_ns);
    sv_transfer_cache_trim(cache, now_ns, &trimmed);
    CHECK_EQ(probe.opened, opened);
    CHECK_EQ(due, !sv_list_is_empty(&trimmed));
    sv_transfer_close_trimmed(&trimmed);
    CHECK(sv_list_is_empty(&trimmed));
}

static void use_once(sv_transfer_cache_t *cache, const sv_transfer_memory_t *memory)
{
    sv_transfer_unmap(map_part(cache, memory));
}

static const sv_config_t limits = {.idle_mappings = 32, .idle_bytes = UINT64_C(256) << 20, .idle_s = 10};

/* Where unmapping closes nothing: idle ones are found again, until they are superseded, many, large or idle for long.
   What may not be kept is never found again. */
static void test_idle_mappings(void)
{
    enum { LARGE_BYTES = 100 << 20 };
    sv_transfer_cache_t cache;
    const sv_device_handle_t one = {{1}}, two = {{2}}, three = {{3}};
    const sv_transfer_memory_t first = part_of_probe(3, &one, 4096, true),
                               passing = part_of_probe(3, &two, 8192, false),
                               inside = part_of_probe(3, &three, 4096 + sizeof probe - 1, true),
                               beside = part_of_probe(3, &two, 4096 + sizeof probe, true);
    sv_transfer_cache_init(&cache, &limits);
    use_once(&cache, &first);
    sv_transfer_mapping_t *a = map_part(&cache, &first);
    CHECK(probe.opened == 1 && cache.nidle == 0 && cache.idle_bytes == 0);
    sv_transfer_unmap(a);
    CHECK(map_part(&cache, &first) == a);
    use_once(&cache, &beside);
    CHECK(!a->stale);
    use_once(&cache, &inside); /* the first is superseded while it is used, the one beside is, too */
    CHECK(a->stale && probe.opened == 3);
    trim_after(&cache, 0);
    CHECK(probe.opened == 2 && cache.nidle == 1 && a->users == 1);
    CHECK(map_part(&cache, &first) != a && probe.opened == 3);
    sv_transfer_unmap(a);
    trim_after(&cache, 0);
    CHECK_EQ(probe.opened, 1);
    sv_transfer_cache_close(&cache); /* with its users */
    CHECK_EQ(probe.opened, 0);

    use_once(&cache, &passing);
    CHECK_EQ(probe.opened, 1);
    use_once(&cache, &passing); /* no handle is open twice */
    CHECK_EQ(probe.opened, 1);
    trim_after(&cache, 0);
    CHECK_EQ(probe.opened, 0);

    use_once(&cache, &first);
    trim_after(&cache, 9000);
    CHECK_EQ(probe.opened, 1);
    trim_after(&cache, 11000);
    CHECK_EQ(probe.opened, 0);

    for (uint64_t i = 0; i < 4; i++) {
        const sv_device_handle_t handle = {{7, (uint8_t)i}};
        const sv_transfer_memory_t large = part_of_probe(3, &handle, (i + 1) << 32, true);
        a = map_part(&cache, &large);
        a->bytes = LARGE_BYTES;
        sv_transfer_unmap(a);
    }
    trim_after(&cache, 200);
    CHECK_EQ(probe.opened, 4);
    trim_after(&cache, 2000);
    CHECK_EQ(probe.opened, 2); /* 200 MiB */
    sv_transfer_cache_close(&cache);
    CHECK(probe.opened == 0 && cache.nidle == 0 && cache.idle_bytes == 0);
}

/* Without a wait, opening keeps them from growing for ever; a wait leaves those that were used last. */
static void test_many_mappings(void)
{
    enum { IDLE_MOST = 32, EXCESS = 4, MANY = 200 };
    sv_transfer_cache_t cache;
    sv_device_handle_t handle[MANY];
    sv_transfer_cache_init(&cache, &limits);
    memset(handle, 0, sizeof handle);
    for (int i = 0; i < MANY; i++)
        handle[i] = (sv_device_handle_t){{5, (uint8_t)i}};
    const sv_transfer_memory_t first = part_of_probe(5, &handle[0], 4096, true);
    sv_transfer_mapping_t *held = map_part(&cache, &first);
    for (int i = 1; i < MANY; i++) {
        const sv_transfer_memory_t memory = part_of_probe(5, &handle[i], 4096 * (1 + (uint64_t)i), true);
        use_once(&cache, &memory);
        if (i > 1) { /* the first of them is in use all the time */
            const sv_transfer_memory_t again = part_of_probe(5, &handle[1], 2 * 4096, true);
            use_once(&cache, &again);
        }
        CHECK(probe.opened <= EXCESS * IDLE_MOST + 1);
    }
    CHECK_EQ(probe.opened, EXCESS * IDLE_MOST + 1);
    trim_after(&cache, 0);
    CHECK(probe.opened == IDLE_MOST + 1 && cache.nidle == IDLE_MOST);
    const sv_transfer_memory_t last = part_of_probe(5, &handle[MANY - 1], 4096 * (uint64_t)MANY, true),
                               often = part_of_probe(5, &handle[1], 2 * 4096, true);
    use_once(&cache, &last);
    use_once(&cache, &often);
    CHECK_EQ(probe.opened, IDLE_MOST + 1);
    CHECK(held->users == 1 && held->base == &probe); /* what has a user stays in any case */
    sv_transfer_unmap(held);
    sv_transfer_cache_close(&cache);
    CHECK(probe.opened == 0 && sv_list_is_empty(&cache.mappings));
}

/* What the creating process tells the other one. */
typedef struct message {
    sv_mapping_handle_t segment;
    sv_device_handle_t buffer;
    uint64_t offset;
} message_t;

static void check_read(int fd, void *data, size_t bytes)
{
    CHECK_EQ(read(fd, data, bytes), bytes);
}

static void check_write(int fd, const void *data, size_t bytes)
{
    CHECK_EQ(write(fd, data, bytes), bytes);
}

static sv_device_t *open_soft(void)
{
    sv_config_t config;
    sv_device_t *dev = NULL;

    CHECK_STATUS(sv_config_load(NULL, NULL, &config), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_device_open("soft", &config, &dev), SELVAGE_SUCCESS);
    return dev;
}

/* A segment of another process is pinned here too, and every refusal leaves it unpinned and unmapped. */
static void check_foreign_segment(const sv_mapping_handle_t *handle)
{
    sv_shared_segment_t segment = {0};

    probe.answer = SELVAGE_ERR_DEVICE;
    CHECK_STATUS(sv_shared_open(&probe.dev, handle, TOKEN, &segment), SELVAGE_ERR_DEVICE);
    probe.answer = SELVAGE_SUCCESS;
    CHECK_STATUS(sv_shared_open(&probe.dev, handle, TOKEN + 1, &segment), SELVAGE_ERR_SYSTEM);
    CHECK(probe.registered == 0 && segment.mapping.base == NULL);
    CHECK_STATUS(sv_shared_open(&probe.dev, handle, TOKEN, &segment), SELVAGE_SUCCESS);
    CHECK_EQ(probe.registered, 1);
    sv_shared_close(&segment);
    CHECK_EQ(probe.registered, 0);
}

/* The other process: opens both, reads what is there, writes its answer. */
static int child_main(int from_parent, int to_parent)
{
    sv_device_t *dev = open_soft();
    message_t message;
    sv_shared_segment_t segment = {0};
    sv_transfer_cache_t cache;
    sv_transfer_mapping_t *memory = NULL;

    sv_transfer_cache_init(&cache, NULL);
    check_read(from_parent, &message, sizeof message);
    CHECK_STATUS(sv_shared_open(dev, &message.segment, TOKEN + 1, &segment), SELVAGE_ERR_SYSTEM);
    check_foreign_segment(&message.segment);
    CHECK_STATUS(sv_shared_open(dev, &message.segment, TOKEN, &segment), SELVAGE_SUCCESS);
    sv_transfer_memory_t place = {.handle = &message.buffer, .offset = UINT64_C(1) << 40, .bytes = 1};
    CHECK_STATUS(sv_transfer_map(&cache, dev, &place, &memory), SELVAGE_ERR_MISMATCH);
    place.offset = message.offset;
    place.bytes = BUFFER_BYTES;
    CHECK_STATUS(sv_transfer_map(&cache, dev, &place, &memory), SELVAGE_SUCCESS);
    if (segment.mapping.base != NULL && memory != NULL) {
        uint8_t *shared = sv_shared_base(&segment), *buffer = (uint8_t *)memory->base + message.offset;
        CHECK(shared[0] == 1 && shared[SEGMENT_BYTES - 1] == 2 && buffer[0] == 3 && buffer[BUFFER_BYTES - 1] == 4);
        shared[0] = 11;
        buffer[0] = 13;
        buffer[BUFFER_BYTES - 1] = 14;
    }
    check_write(to_parent, "d", 1);
    sv_transfer_unmap(memory);
    sv_shared_close(&segment);
    CHECK(sv_list_is_empty(&cache.mappings));
    dev->ops->close(dev);
    CHECK_EQ(sv_memory_live(), 0);
    return check_report("test_memory (other process)");
}

static void parent_main(int from_child, int to_child)
{
    sv_device_t *dev = open_soft();
    sv_shared_segment_t segment = {0};
    sv_list_t buffers;
    selvage_buffer_t *buffer = NULL;
    void *memory = NULL;
    char done;

    sv_list_init(&buffers);
    CHECK_STATUS(sv_shared_create(dev, SEGMENT_BYTES, TOKEN, &segment), SELVAGE_SUCCESS);
    CHECK_STATUS(SV_DEVICE_CALL(dev, malloc, BUFFER_BYTES + 7, &memory), SELVAGE_SUCCESS);
    uint8_t *odd = (uint8_t *)memory + 7, *shared = sv_shared_base(&segment);
    CHECK_STATUS(sv_buffer_register(&buffers, dev, odd, BUFFER_BYTES, &buffer), SELVAGE_SUCCESS);
    shared[0] = 1;
    shared[SEGMENT_BYTES - 1] = 2;
    odd[0] = 3;
    odd[BUFFER_BYTES - 1] = 4;
    message_t message = {segment.mapping.handle, buffer->handle, buffer->offset};
    CHECK(!sv_shared_is_answered(&segment));
    check_write(to_child, &message, sizeof message);
    check_read(from_child, &done, 1);
    CHECK(sv_shared_is_answered(&segment));
    CHECK(shared[0] == 11 && odd[0] == 13 && odd[BUFFER_BYTES - 1] == 14);
    CHECK_STATUS(sv_buffer_unregister(buffer), SELVAGE_SUCCESS);
    SV_DEVICE_CALL(dev, free, memory);
    sv_shared_close(&segment);
    dev->ops->close(dev);
}

/* The processes part before either has a device, and so before either has threads. */
static void test_two_processes(void)
{
    int down[2], up[2], status = -1;

    CHECK_EQ(pipe(down), 0);
    CHECK_EQ(pipe(up), 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(down[1]);
        close(up[0]);
        exit(child_main(down[0], up[1]));
    }
    close(down[0]);
    close(up[1]);
    parent_main(up[0], down[1]);
    close(down[1]);
    close(up[0]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    probe.dev.ops = &probe_ops;
    sv_thread_binding()->log_level = 0; /* refusals are wanted here */
    test_segment_in_one_process();
    test_segment_refusals();
    test_buffers();
    test_kinds();
    test_missing_memory();
    test_mappings();
    test_idle_mappings();
    test_many_mappings();
    CHECK_EQ(sv_memory_live(), 0);
    test_two_processes();
    CHECK_EQ(sv_memory_live(), 0);
    return check_report("test_memory");
}
