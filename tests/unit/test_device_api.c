/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public device calls: a small program as a user writes it, every bad argument refused by name, every allocation
 * of opening failed in turn, and NULL accepted where the header says so.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include <selvage/device.h>
#include <selvage/pack.h>

#include "base/base_fault.h"
#include "base/base_memory.h"
#include "base/base_thread.h"
#include "fixtures/check.h"
#include "device/device.h"

#define CHECK_REFUSED(expr, argument)                                                       \
    do {                                                                                    \
        CHECK_STATUS((expr), SELVAGE_ERR_ARGUMENT);                                         \
        CHECK(strncmp(selvage_error_detail(), argument ":", sizeof argument) == 0);         \
    } while (0)

typedef struct scale_arg {
    float *data;
    unsigned n;
    float factor;
} scale_arg_t;

static void scale_body(const void *arg, unsigned block, unsigned nblocks)
{
    const scale_arg_t *scale = arg;
    for (unsigned i = block; i < scale->n; i += nblocks)
        scale->data[i] *= scale->factor;
}

static void check_program(selvage_device_t *dev)
{
    enum { N = 10000 };
    float *host = NULL, *data = NULL;
    void *stream = NULL;
    unsigned wrong = 0;
    uint64_t pinned = sv_device_pinned_allocations();
    CHECK_STATUS(selvage_device_host_malloc(dev, N * sizeof *host, (void **)&host), SELVAGE_SUCCESS);
    CHECK_EQ(sv_device_pinned_allocations() - pinned, 1);
    CHECK_STATUS(selvage_device_malloc(dev, N * sizeof *data, (void **)&data), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_create(dev, &stream), SELVAGE_SUCCESS);
    for (unsigned i = 0; i < N; i++)
        host[i] = (float)i;
    scale_arg_t arg = {data, N, 3};
    CHECK_STATUS(selvage_device_fill(dev, data, 0xff, N * sizeof *data, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_copy(dev, data, host, N * sizeof *data, SELVAGE_COPY_HOST_TO_DEVICE, stream),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_launch_soft(dev, scale_body, &arg, sizeof arg, 1, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_launch_soft(dev, scale_body, &arg, sizeof arg, 3, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_delay_us(dev, 100, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_copy(dev, data, data, 0, SELVAGE_COPY_DEVICE_TO_DEVICE, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_copy(dev, host, data, N * sizeof *data, SELVAGE_COPY_DEVICE_TO_HOST, stream),
                 SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_synchronize(dev, stream), SELVAGE_SUCCESS);
    for (unsigned i = 0; i < N; i++)
        wrong += host[i] != 9 * (float)i;
    CHECK_EQ(wrong, 0);
    selvage_stream_destroy(dev, stream);
    selvage_device_free(dev, data);
    selvage_device_host_free(dev, host);
}

static void check_refused_enqueue(selvage_device_t *dev)
{
    char a[4] = "", b[4] = "";
    CHECK_REFUSED(selvage_device_copy(NULL, a, b, 4, SELVAGE_COPY_DEVICE_TO_HOST, NULL), "dev");
    CHECK_REFUSED(selvage_device_copy(dev, NULL, b, 4, SELVAGE_COPY_DEVICE_TO_HOST, NULL), "dst");
    CHECK_REFUSED(selvage_device_copy(dev, a, NULL, 4, SELVAGE_COPY_DEVICE_TO_HOST, NULL), "src");
    CHECK_REFUSED(selvage_device_copy(dev, a, b, 4, (selvage_copy_t)0, NULL), "direction");
    CHECK_REFUSED(selvage_device_fill(NULL, a, 0, 4, NULL), "dev");
    CHECK_REFUSED(selvage_device_fill(dev, NULL, 0, 4, NULL), "dst");
    CHECK_REFUSED(selvage_device_delay_us(NULL, 1, NULL), "dev");
    CHECK_REFUSED(selvage_device_delay_us(dev, -1, NULL), "us");
    CHECK_REFUSED(selvage_device_delay_us(dev, NAN, NULL), "us");
    CHECK_REFUSED(selvage_device_launch_soft(NULL, scale_body, a, 4, 1, NULL), "dev");
    CHECK_REFUSED(selvage_device_launch_soft(dev, NULL, a, 4, 1, NULL), "kernel");
    CHECK_REFUSED(selvage_device_launch_soft(dev, scale_body, NULL, 4, 1, NULL), "arg");
    CHECK_REFUSED(selvage_device_launch_soft(dev, scale_body, a, 1281, 1, NULL), "arg_bytes");
    CHECK_REFUSED(selvage_device_launch_soft(dev, scale_body, a, 4, 0, NULL), "nblocks");
}

static void check_refused(selvage_device_t *dev)
{
    void *out = NULL;
    selvage_device_t *none = NULL;
    CHECK_REFUSED(selvage_device_open("abacus", &none), "name");
    CHECK_REFUSED(selvage_device_open("soft", NULL), "dev_out");
    CHECK(none == NULL);
    CHECK_REFUSED(selvage_device_malloc(NULL, 1, &out), "dev");
    CHECK_REFUSED(selvage_device_malloc(dev, 1, NULL), "ptr_out");
    CHECK_REFUSED(selvage_device_host_malloc(NULL, 1, &out), "dev");
    CHECK_REFUSED(selvage_device_host_malloc(dev, 1, NULL), "ptr_out");
    CHECK_REFUSED(selvage_stream_create(NULL, &out), "dev");
    CHECK_REFUSED(selvage_stream_create(dev, NULL), "stream_out");
    CHECK_REFUSED(selvage_stream_synchronize(NULL, NULL), "dev");
    CHECK_STATUS(selvage_device_malloc(dev, SIZE_MAX, &out), SELVAGE_ERR_MEMORY);
    CHECK(out == NULL);
    check_refused_enqueue(dev);
}

/* Where addresses lead: also next to an allocation, and after its end. */
static void check_memory(selvage_device_t *dev)
{
    selvage_memory_t memory = SELVAGE_MEMORY_UNKNOWN;
    char host[2] = {0}, *there = NULL;
    CHECK_REFUSED(selvage_device_memory(NULL, host, 1, &memory), "dev");
    CHECK_REFUSED(selvage_device_memory(dev, host, 0, &memory), "bytes");
    CHECK_REFUSED(selvage_device_memory(dev, host, 1, NULL), "memory_out");
    CHECK_STATUS(selvage_device_memory(dev, host, 2, &memory), SELVAGE_SUCCESS);
    CHECK_EQ(memory, SELVAGE_MEMORY_HOST);
    CHECK_STATUS(selvage_device_malloc(dev, 256, (void **)&there), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_memory(dev, there + 255, 1, &memory), SELVAGE_SUCCESS);
    CHECK_EQ(memory, SELVAGE_MEMORY_DEVICE);
    CHECK_STATUS(selvage_device_memory(dev, there + 255, 2, &memory), SELVAGE_SUCCESS);
    CHECK_EQ(memory, SELVAGE_MEMORY_NONE);
    selvage_device_free(dev, there);
}

/* All streams are waited for, also those of another handle of the same device. */
static void check_synchronize(selvage_device_t *dev)
{
    selvage_device_t *other = NULL;
    void *stream[2] = {NULL, NULL};
    char *bytes = NULL;
    CHECK_REFUSED(selvage_device_synchronize(NULL), "dev");
    CHECK_STATUS(selvage_device_open("soft", &other), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(dev, 2, (void **)&bytes), SELVAGE_SUCCESS);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(selvage_stream_create(i ? other : dev, &stream[i]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_device_delay_us(i ? other : dev, 3000, stream[i]), SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_device_fill(i ? other : dev, bytes + i, 5, 1, stream[i]), SELVAGE_SUCCESS);
    }
    CHECK_STATUS(selvage_device_synchronize(dev), SELVAGE_SUCCESS);
    CHECK_EQ(bytes[0] + bytes[1], 10);
    selvage_stream_destroy(dev, stream[0]);
    selvage_stream_destroy(other, stream[1]);
    selvage_device_free(dev, bytes);
    selvage_device_close(other);
}

static _Atomic bool goes_on;

static void wait_for_host(const void *arg, unsigned block, unsigned nblocks)
{
    (void)arg, (void)block, (void)nblocks;
    for (unsigned turns = 0; !atomic_load(&goes_on);)
        check_wait_turn(&turns);
}

/* An event is after what was enqueued before it, and not after a kernel that waits for the host. */
static void check_events(selvage_device_t *dev)
{
    selvage_event_t *event = NULL;
    void *stream = NULL;
    char *byte = NULL, nothing = 0;
    CHECK_REFUSED(selvage_event_create(NULL, &event), "dev");
    CHECK_REFUSED(selvage_event_create(dev, NULL), "event_out");
    CHECK_REFUSED(selvage_event_record(dev, NULL, NULL), "event");
    CHECK_REFUSED(selvage_event_synchronize(dev, NULL), "event");
    CHECK_REFUSED(selvage_event_query(dev, NULL), "event");
    CHECK_STATUS(selvage_event_create(dev, &event), SELVAGE_SUCCESS);
    CHECK_REFUSED(selvage_event_record(NULL, event, NULL), "dev");
    CHECK_REFUSED(selvage_event_synchronize(NULL, event), "dev");
    CHECK_REFUSED(selvage_event_query(NULL, event), "dev");
    CHECK_STATUS(selvage_event_synchronize(dev, event), SELVAGE_SUCCESS); /* it was never recorded */
    CHECK_STATUS(selvage_event_query(dev, event), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(dev, 1, (void **)&byte), SELVAGE_SUCCESS);
    *byte = 0;
    CHECK_STATUS(selvage_stream_create(dev, &stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_delay_us(dev, 3000, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_fill(dev, byte, 5, 1, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_event_record(dev, event, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_event_query(dev, event), SELVAGE_IN_PROGRESS);
    CHECK_STATUS(selvage_device_launch_soft(dev, wait_for_host, &nothing, 1, 1, stream), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_event_synchronize(dev, event), SELVAGE_SUCCESS);
    CHECK_EQ(*byte, 5);
    CHECK_STATUS(selvage_event_query(dev, event), SELVAGE_SUCCESS);
    atomic_store(&goes_on, true);
    CHECK_STATUS(selvage_stream_synchronize(dev, stream), SELVAGE_SUCCESS);
    selvage_event_destroy(dev, NULL);
    selvage_event_destroy(dev, event);
    selvage_stream_destroy(dev, stream);
    selvage_device_free(dev, byte);
}

static void check_refused_pack(selvage_device_t *dev)
{
    selvage_pack_t *pack = NULL;
    CHECK_REFUSED(selvage_pack_create(NULL, 1, MPI_BYTE, &pack), "dev");
    CHECK_REFUSED(selvage_pack_create(dev, 1, MPI_BYTE, NULL), "pack_out");
    CHECK_STATUS(selvage_pack_create(dev, 1, MPI_BYTE, &pack), SELVAGE_ERR_STATE);
    CHECK_REFUSED(selvage_pack_gather(NULL, dev, dev, NULL), "pack");
    CHECK_REFUSED(selvage_pack_scatter(NULL, dev, 0, dev, NULL), "pack");
    CHECK_EQ(selvage_pack_bytes(NULL), 0);
    selvage_pack_destroy(NULL);
    CHECK(pack == NULL);
}

static void check_null(selvage_device_t *dev)
{
    CHECK_STR(selvage_device_name(NULL), "");
    selvage_device_free(dev, NULL);
    selvage_device_free(NULL, NULL);
    selvage_device_host_free(dev, NULL);
    selvage_stream_destroy(dev, NULL);
    selvage_stream_destroy(NULL, NULL);
    selvage_device_close(NULL);
}

/* A device of another kind does not take functions of this process. */
static void check_other_kind(selvage_device_t *dev)
{
    sv_device_ops_t ops = *dev->ops;
    ops.name = "amd";
    selvage_device_t other = {.ops = &ops};
    CHECK_STATUS(selvage_device_launch_soft(&other, scale_body, NULL, 0, 1, NULL), SELVAGE_ERR_UNSUPPORTED);
}

static void check_allocation_faults(void)
{
    int failures = 0;
    for (int nth = 1; nth < 20; nth++) {
        selvage_device_t *dev = NULL;
        sv_fault_t fault;
        char spec[32];
        snprintf(spec, sizeof spec, "alloc=%d", nth);
        CHECK_STATUS(sv_fault_parse(spec, 0, &fault), SELVAGE_SUCCESS);
        int64_t live = sv_memory_live();
        sv_thread_binding()->fault = &fault;
        selvage_status_t status = selvage_device_open("soft", &dev);
        sv_thread_binding()->fault = NULL;
        sv_thread_binding()->log_level = 0;
        if (status == SELVAGE_SUCCESS) {
            selvage_device_close(dev);
            break;
        }
        failures++;
        CHECK_STATUS(status, SELVAGE_ERR_MEMORY);
        CHECK(dev == NULL);
        CHECK_EQ(sv_memory_live(), live);
    }
    CHECK(failures >= 2 && failures < 19);
}

static void check_shared(selvage_device_t *dev)
{
    selvage_device_t *set = NULL;
    int shared = -1;
    CHECK_STATUS(selvage_device_is_shared(dev, &shared), SELVAGE_SUCCESS);
    CHECK_EQ(shared, 0); /* it is this process's own */
    CHECK_STATUS(selvage_device_is_shared(NULL, &shared), SELVAGE_ERR_ARGUMENT);
    CHECK_STATUS(selvage_device_is_shared(dev, NULL), SELVAGE_ERR_ARGUMENT);
    setenv("SELVAGE_GPU_SHARED", "on", 1);
    CHECK_STATUS(selvage_device_open(NULL, &set), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_is_shared(set, &shared), SELVAGE_SUCCESS);
    CHECK_EQ(shared, 1);
    selvage_device_close(set);
    unsetenv("SELVAGE_GPU_SHARED");
}

int main(void)
{
    selvage_device_t *dev = NULL;
    setenv("SELVAGE_LOG", "none", 1);
    CHECK_STATUS(selvage_device_open(NULL, &dev), SELVAGE_SUCCESS);
    CHECK_STR(selvage_device_name(dev), "soft");
    if (dev) {
        check_program(dev);
        check_refused(dev);
        check_memory(dev);
        check_synchronize(dev);
        check_events(dev);
        check_shared(dev);
        check_refused_pack(dev);
        check_null(dev);
        check_other_kind(dev);
    }
    selvage_device_close(dev);
    check_allocation_faults();
    setenv("SELVAGE_DEVICE", "abacus", 1);
    selvage_device_t *none = NULL;
    CHECK_STATUS(selvage_device_open(NULL, &none), SELVAGE_ERR_CONFIG);
    CHECK(none == NULL);
    CHECK_EQ(sv_memory_live(), 0);
    return check_report("device_api");
}
