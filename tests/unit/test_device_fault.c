/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault-injecting device: a fixed series of calls is run with the first, second, ... call failing in turn. Each
 * time exactly that call must fail, with the right status and its name in the detail, and nothing may be left over.
 */
#include <stdlib.h>

#include "base/base_config.h"
#include "base/base_fault.h"
#include "base/base_memory.h"
#include "base/base_thread.h"
#include "fixtures/check.h"
#include "device/device.h"

static void nothing_body(const void *arg, unsigned block, unsigned nblocks)
{
    (void)arg, (void)block, (void)nblocks;
}

typedef struct series {
    int calls, failed, failed_call;
    selvage_status_t failed_status;
    char detail[256];
} series_t;

static bool step(series_t *series, selvage_status_t status)
{
    series->calls++;
    if (status >= 0)
        return true;
    series->failed++;
    series->failed_call = series->calls;
    series->failed_status = status;
    snprintf(series->detail, sizeof series->detail, "%s", selvage_error_detail());
    return false;
}

typedef struct things {
    void *ptr, *fine, *host, *stream, *base;
    sv_event_t *event;
    sv_device_handle_t handle;
    uint64_t offset, bytes;
} things_t;

/* Every call that can fail, whether or not one before it failed; a missing stream is the default one. */
static void run_series(sv_device_t *dev, things_t *t, series_t *series)
{
    const sv_kernel_t kernel = {.name = "nothing", .soft = nothing_body};
    char host[16] = {0};
    step(series, SV_DEVICE_CALL(dev, malloc, 16, &t->ptr));
    step(series, SV_DEVICE_CALL(dev, malloc_fine, 16, &t->fine));
    step(series, SV_DEVICE_CALL(dev, host_malloc, 16, &t->host));
    step(series, SV_DEVICE_CALL(dev, host_register, host, sizeof host));
    void *address;
    step(series, SV_DEVICE_CALL(dev, host_address, host, &address));
    step(series, SV_DEVICE_CALL(dev, stream_create, &t->stream));
    bool have_event = step(series, SV_DEVICE_CALL(dev, event_create, &t->event));
    step(series, SV_DEVICE_CALL(dev, fill_async, host, 1, sizeof host, t->stream));
    step(series, SV_DEVICE_CALL(dev, copy_async, host, host, 0, SV_COPY_D2D, t->stream));
    uint64_t word = 0;
    step(series, SV_DEVICE_CALL(dev, signal_async, &word, 7, t->stream));
    step(series, SV_DEVICE_CALL(dev, delay_async, 0.0, t->stream));
    step(series, SV_DEVICE_CALL(dev, launch, &kernel, NULL, 0, 1, t->stream));
    if (have_event) {
        step(series, SV_DEVICE_CALL(dev, event_record, t->event, t->stream));
        step(series, SV_DEVICE_CALL(dev, event_query, t->event));
        step(series, SV_DEVICE_CALL(dev, stream_wait_event, t->stream, t->event));
    }
    if (t->ptr && step(series, SV_DEVICE_CALL(dev, export_memory, t->ptr, 16, &t->handle, &t->offset)))
        step(series, SV_DEVICE_CALL(dev, open_memory, &t->handle, &t->base, &t->bytes));
    step(series, SV_DEVICE_CALL(dev, stream_sync, t->stream));
    step(series, SV_DEVICE_CALL(dev, stream_query, t->stream));
    SV_DEVICE_CALL(dev, stream_sync, t->stream);
    SV_DEVICE_CALL(dev, host_unregister, host);
}

static void release(sv_device_t *dev, things_t *t)
{
    SV_DEVICE_CALL(dev, close_memory, t->base);
    SV_DEVICE_CALL(dev, event_destroy, t->event);
    if (t->stream)
        SV_DEVICE_CALL(dev, stream_destroy, t->stream);
    SV_DEVICE_CALL(dev, host_free, t->host);
    SV_DEVICE_CALL(dev, free, t->fine);
    SV_DEVICE_CALL(dev, free, t->ptr);
}

/* call 0: none fails. */
static series_t series_with(sv_device_t *inner, int call)
{
    sv_device_t *dev = inner;
    series_t series = {0};
    things_t things = {0};
    sv_fault_t fault;
    char spec[32] = "";
    if (call)
        snprintf(spec, sizeof spec, "device=%d", call);
    CHECK_STATUS(sv_fault_parse(spec, 0, &fault), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_device_fault_wrap(&dev), SELVAGE_SUCCESS);
    CHECK(dev != inner);
    CHECK_STR(dev->ops->name, "soft");
    CHECK_EQ(dev->launch_blocks, inner->launch_blocks);
    sv_thread_binding()->fault = &fault;
    run_series(dev, &things, &series);
    int possible = 0; /* a question without an answer is no failure: it is passed on and not counted */
    CHECK_STATUS(SV_DEVICE_CALL(dev, peer_access, "", &possible), SELVAGE_SUCCESS);
    CHECK_EQ(possible, 1);
    CHECK_STATUS(SV_DEVICE_CALL(dev, peer_access, "0000:01:00.0", &possible), SELVAGE_ERR_UNSUPPORTED);
    sv_thread_binding()->fault = NULL;
    release(dev, &things);
    dev->ops->close(dev);
    return series;
}

int main(void)
{
    sv_config_t config = {0};
    sv_device_t *inner = NULL;
    sv_thread_binding()->log_level = 0;
    CHECK_STATUS(sv_device_open("soft", &config, &inner), SELVAGE_SUCCESS);
    int64_t live = sv_memory_live();
    series_t clean = series_with(inner, 0);
    CHECK_EQ(clean.failed, 0);
    CHECK_EQ(clean.calls, 19);
    for (int call = 1; call <= clean.calls; call++) {
        series_t series = series_with(inner, call);
        CHECK_EQ(series.failed, 1);
        CHECK_EQ(series.failed_call, call);
        CHECK_EQ(series.failed_status, call <= 3 ? SELVAGE_ERR_MEMORY : SELVAGE_ERR_DEVICE);
        CHECK(strstr(series.detail, "injected fault: device call ") != NULL);
        CHECK_EQ(sv_memory_live(), live);
    }
    inner->ops->close(inner);
    CHECK_EQ(sv_memory_live(), 0);
    return check_report("device_fault");
}
