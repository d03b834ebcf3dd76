/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hip_driver device|peer|shared|staged PLUGIN_FOLDER RUNTIME: everything the AMD plug-in does, in one process, while
 * the stand-in for HIP's runtime fails a call. "device" works on GPU 1 from a thread whose current GPU is 0 (RUNTIME
 * is the runtime's file); the others run an exchange of two ranks, as threads, by that route.
 *
 * Exit status 0: everything succeeded and all data are right. 3: a call returned an error that says something; then no
 * data are looked at. 1: success over wrong data, an error without words, or the caller's current GPU was lost.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/check.h"
#include "device/device.h"
#include "kernels/kernel_args.h"
#include "fixtures/fixture_exchange.h"

enum { EPOCHS = 2, BYTES = 70000, ERROR_REPORTED = 3 };

typedef struct work {
    plan_t plan;
    pthread_barrier_t barrier;
    _Atomic int errors;
    void *memory;
    bool may_miss;
} work_t;

/* True on success; an error must come with words, but in the unwinding, where the first one has been told. */
static bool good(work_t *work, selvage_status_t status)
{
    if (status == SELVAGE_SUCCESS)
        return true;
    CHECK(selvage_error_detail()[0] != '\0');
    atomic_fetch_add(&work->errors, 1);
    return false;
}

static bool work_on(work_t *work, selvage_device_t *dev, void *stream, uint8_t *memory, uint8_t *host)
{
    memset(host, 7, 2 * BYTES);
    return good(work, selvage_device_copy(dev, memory, host, BYTES, SELVAGE_COPY_HOST_TO_DEVICE, stream)) &&
           good(work, selvage_device_fill(dev, memory + 1, 9, 10, stream)) &&
           good(work, selvage_device_delay_us(dev, 100, stream)) &&
           good(work, selvage_device_copy(dev, host + BYTES, memory, BYTES, SELVAGE_COPY_DEVICE_TO_HOST, stream)) &&
           good(work, selvage_stream_synchronize(dev, stream));
}

/* An event after a pause is asked for until it has come. */
static void use_event(work_t *work, sv_device_t *dev, void *stream)
{
    sv_event_t *event = NULL;
    selvage_status_t status = SELVAGE_SUCCESS;
    if (!good(work, SV_DEVICE_CALL(dev, event_create, &event)))
        return;
    if (good(work, SV_DEVICE_CALL(dev, delay_async, 1000, stream)) &&
        good(work, SV_DEVICE_CALL(dev, event_record, event, stream)) &&
        good(work, SV_DEVICE_CALL(dev, stream_wait_event, stream, event))) {
        do
            status = SV_DEVICE_CALL(dev, event_query, event);
        while (status == SELVAGE_IN_PROGRESS);
        (void)good(work, status);
        do
            status = SV_DEVICE_CALL(dev, stream_query, stream);
        while (status == SELVAGE_IN_PROGRESS);
        (void)good(work, status);
    }
    SV_DEVICE_CALL(dev, event_destroy, event);
}

/* Memory for flags, in which a stream stores a word, and where it lies for others. */
static void use_flags(work_t *work, sv_device_t *dev, void *stream, void *host)
{
    void *flags = NULL;
    uint64_t *word = host, offset = 1;
    sv_device_handle_t handle;
    if (!good(work, SV_DEVICE_CALL(dev, malloc_fine, 64, &flags)))
        return;
    *word = 0;
    if (good(work, SV_DEVICE_CALL(dev, export_memory, flags, 64, &handle, &offset)))
        CHECK_EQ(offset, 0);
    if (good(work, SV_DEVICE_CALL(dev, signal_async, flags, 77, stream)) &&
        good(work, SV_DEVICE_CALL(dev, copy_async, word, flags, sizeof *word, SV_COPY_D2H, stream)) &&
        good(work, SV_DEVICE_CALL(dev, stream_sync, stream)))
        CHECK_EQ(*word, 77);
    (void)good(work, selvage_device_synchronize(dev));
    (void)good(work, SV_DEVICE_CALL(dev, stream_sync, stream));
    SV_DEVICE_CALL(dev, free, flags);
}

/* A kernel that asks for so many lanes gets them, or the stand-in says so. */
static void use_lanes(work_t *work, sv_device_t *dev, void *stream, void *host)
{
    const sv_kernel_t wide = {.name = "sv_signal", .lanes = SV_KERNEL_LANES_MAX};
    const sv_signal_arg_t arg = {.word = host, .value = 78};
    if (good(work, SV_DEVICE_CALL(dev, launch, &wide, &arg, sizeof arg, 1, stream)) &&
        good(work, SV_DEVICE_CALL(dev, stream_sync, stream)))
        CHECK_EQ(*(uint64_t *)host, 78);
}

/* While any stream is recorded into a graph the default stream cannot be used either. */
static void ask_capture(sv_device_t *dev, void *stream)
{
    const char *which = getenv("HIP_STANDIN_CAPTURE");
    CHECK_EQ(SV_DEVICE_CALL(dev, stream_is_capturing, stream), which && strcmp(which, "own") == 0);
    CHECK_EQ(SV_DEVICE_CALL(dev, stream_is_capturing, NULL), which != NULL);
}

/* A kernel that adds two words to a third, captured and replayed twice. */
static void use_graph(work_t *work, sv_device_t *dev, uint64_t *host)
{
    const sv_kernel_t sum = {.name = "sv_sum"};
    const sv_sum_arg_t arg = {.src = host, .words = 2, .sum = host + 2};
    void *stream = NULL;
    selvage_graph_t *graph = NULL;
    host[0] = 3, host[1] = 4, host[2] = 0;
    if (!good(work, selvage_stream_create(dev, &stream)))
        return;
    if (good(work, selvage_graph_begin(dev, stream))) {
        CHECK(SV_DEVICE_CALL(dev, stream_is_capturing, stream) || atomic_load(&work->errors) > 0 ||
              getenv("HIP_STANDIN_FAIL"));
        bool made = good(work, SV_DEVICE_CALL(dev, launch, &sum, &arg, sizeof arg, 1, stream));
        made = good(work, selvage_graph_end(dev, stream, &graph)) && made;
        if (made && good(work, selvage_graph_launch(dev, graph, stream)) &&
            good(work, selvage_graph_launch(dev, graph, stream)) &&
            good(work, selvage_stream_synchronize(dev, stream)))
            CHECK_EQ(host[2], 14);
    }
    selvage_graph_destroy(dev, graph);
    selvage_stream_destroy(dev, stream);
}

/* The device is GPU 1 of the two; a GPU that is not visible is no error, and neither is a runtime that does not say. */
static void ask_peers(work_t *work, selvage_device_t *dev)
{
    int possible = -7;
    selvage_status_t itself = selvage_device_peer_access(dev, "0000:02:00.0", &possible);
    CHECK(itself == SELVAGE_ERR_UNSUPPORTED || (good(work, itself) && possible == 1));
    possible = -7;
    selvage_status_t other = selvage_device_peer_access(dev, "0000:01:00.0", &possible);
    CHECK(other == SELVAGE_ERR_UNSUPPORTED || !good(work, other) || possible == 1);
    CHECK_STATUS(selvage_device_peer_access(dev, "0000:09:00.0", &possible), SELVAGE_ERR_UNSUPPORTED);
}

/* Memory that is freed and allocated again has another number, or none where the runtime's numbers come again. */
static void ask_numbers(work_t *work, sv_device_t *dev)
{
    const bool known = !getenv("HIP_STANDIN_NUMBERS"), fails = getenv("HIP_STANDIN_FAIL") != NULL;
    uint64_t last = 0;
    for (unsigned i = 0; i < 3; i++) {
        void *memory = NULL;
        if (!good(work, SV_DEVICE_CALL(dev, malloc, BYTES, &memory)))
            return;
        const uint64_t number = SV_DEVICE_CALL(dev, memory_id, memory);
        const uint64_t at_end = SV_DEVICE_CALL(dev, memory_id, (char *)memory + BYTES - 1);
        CHECK(fails || (known ? number > last && at_end == number : number == 0));
        last = number;
        SV_DEVICE_CALL(dev, free, memory);
    }
    CHECK_EQ(SV_DEVICE_CALL(dev, memory_id, &last), 0);
}

static void use_device(work_t *work, selvage_device_t *dev)
{
    void *stream = NULL, *memory = NULL, *host = NULL;
    ask_peers(work, dev);
    bool made = good(work, selvage_stream_create(dev, &stream)) &&
                good(work, selvage_device_malloc(dev, BYTES, &memory)) &&
                good(work, selvage_device_host_malloc(dev, 2 * BYTES, &host));
    if (made && work_on(work, dev, stream, memory, host)) {
        const uint8_t *back = (const uint8_t *)host + BYTES;
        CHECK(back[0] == 7 && back[1] == 9 && back[10] == 9 && back[11] == 7 && back[BYTES - 1] == 7);
        use_event(work, dev, stream);
        use_flags(work, dev, stream, host);
        use_lanes(work, dev, stream, host);
        ask_numbers(work, dev);
        ask_capture(dev, stream);
        if (!getenv("HIP_STANDIN_CAPTURE"))
            use_graph(work, dev, host);
    }
    selvage_stream_destroy(dev, stream);
    selvage_device_free(dev, memory);
    selvage_device_host_free(dev, host);
}

/* Memory that no GPU knows is of the current one. */
static void open_by_nothing(work_t *work)
{
    selvage_device_info_t info = {SELVAGE_DEVICE_INFO_INIT};
    selvage_device_t *dev = NULL;
    if (good(work, selvage_device_open_at("amd", work, &dev)) && good(work, selvage_device_describe(dev, &info)))
        CHECK_EQ(info.index, 0);
    selvage_device_close(dev);
}

/* The same GPU once more, by its memory, while another one is current; a thread of its own then makes it current. */
static void *use_thread(void *arg)
{
    work_t *work = arg;
    selvage_device_info_t info = {SELVAGE_DEVICE_INFO_INIT};
    selvage_device_t *dev = NULL;
    if (getenv("HIP_STANDIN_UNREGISTERED"))
        open_by_nothing(work);
    if (good(work, selvage_device_open_at("amd", work->memory, &dev)) &&
        good(work, selvage_device_describe(dev, &info)) && good(work, selvage_device_make_current(dev)) &&
        good(work, selvage_device_fill(dev, work->memory, 5, 1, NULL)) && good(work, selvage_device_synchronize(dev)))
        CHECK(info.index == 1 || work->may_miss);
    if (dev) /* the call above may be the one that fails, and the memory is freed after this */
        (void)good(work, selvage_stream_synchronize(dev, NULL));
    selvage_device_close(dev);
    return NULL;
}

static void open_by_memory(work_t *work, selvage_device_t *dev)
{
    pthread_t thread;
    const char *failing = getenv("HIP_STANDIN_FAIL");
    work->may_miss = failing && strncmp(failing, "hipPointerGetAttributes", 23) == 0; /* then it is the current one */
    if (!good(work, selvage_device_malloc(dev, 1, &work->memory)))
        return;
    CHECK_EQ(pthread_create(&thread, NULL, use_thread, work), 0);
    pthread_join(thread, NULL);
    selvage_device_free(dev, work->memory);
}

static void run_device(work_t *work, const char *folder, const char *runtime)
{
    void *library = dlopen(runtime, RTLD_NOW);
    int (*set_gpu)(int) = library ? (int (*)(int))dlsym(library, "hipSetDevice") : NULL;
    int (*get_gpu)(int *) = library ? (int (*)(int *))dlsym(library, "hipGetDevice") : NULL;
    int (*forget_error)(void) = library ? (int (*)(void))dlsym(library, "hipGetLastError") : NULL;
    char list[512];
    int gpu = -1;
    selvage_device_t *dev = NULL;
    snprintf(list, sizeof list, "DEVICE_PATH=%s", folder);
    local_ranks_env(list);
    CHECK(set_gpu && get_gpu && forget_error);
    if (!set_gpu || !get_gpu || !forget_error)
        return;
    bool made = set_gpu(1) == 0 && good(work, selvage_device_open("amd", &dev)) && set_gpu(0) == 0;
    (void)forget_error(); /* this program's own calls may be failed, too */
    if (made) {
        use_device(work, dev);
        open_by_memory(work, dev);
    } else
        atomic_fetch_add(&work->errors, 1);
    selvage_device_close(dev);
    const char *failing = getenv("HIP_STANDIN_FAIL");
    bool lost = failing && strncmp(failing, "hipSetDevice", 12) == 0; /* perhaps the call that was to bring it back */
    if (work->errors == 0 && !lost && get_gpu(&gpu) == 0)
        CHECK_EQ(gpu, 0);
    (void)forget_error();
}

/* Both ranks go on, or neither: a rank that never comes to the commit would make the other wait for its deadline. */
static bool all_good(work_t *work)
{
    pthread_barrier_wait(&work->barrier);
    bool none = atomic_load(&work->errors) == 0;
    pthread_barrier_wait(&work->barrier);
    return none;
}

static bool run_epoch(work_t *work, fixture_t *fixture)
{
    if (good(work, fixture_start(fixture, NULL)) && good(work, selvage_exchange_wait(fixture->ex, NULL)))
        CHECK_EQ(fixture_wrong(fixture, true), 0);
    return all_good(work);
}

static void run_rank(local_rank_t *self)
{
    work_t *work = self->arg;
    fixture_t fixture = {.self = NULL};
    if (!self->comm || !fixture_try_open(&fixture, self, &work->plan, NULL))
        atomic_fetch_add(&work->errors, 1);
    if (all_good(work)) {
        (void)good(work, selvage_exchange_commit(fixture.ex));
        bool going = all_good(work);
        for (int epoch = 0; going && epoch < EPOCHS; epoch++)
            going = run_epoch(work, &fixture);
    }
    pthread_barrier_wait(&work->barrier);
    if (fixture.self)
        fixture_close(&fixture);
}

static void run_route(work_t *work, const char *route, const char *folder)
{
    static const size_t sizes[] = {0, 13, 5000, BYTES};
    char list[512];
    for (unsigned i = 0; i < 4 * sizeof sizes / sizeof sizes[0]; i++)
        plan_add(&work->plan, (int)(i & 1), (int)(i >> 1 & 1), (int)i, sizes[i / 4])->registered = i % 3 == 0;
    snprintf(list, sizeof list, "DEVICE=amd DEVICE_PATH=%s ROUTE=%s TIMEOUT_S=10 SEGMENT_BYTES=16384", folder, route);
    local_ranks_env(list);
    pthread_barrier_init(&work->barrier, NULL, 2);
    local_ranks_run(&(local_run_t){.size = 2, .body = run_rank, .arg = work, .log_expected = true,
                                   .create_may_fail = true, .may_set_aside = true});
    pthread_barrier_destroy(&work->barrier);
    if (local_ranks_any_logged("cannot be mapped"))
        printf("another route was taken, and the log says so\n");
}

int main(int argc, char **argv)
{
    static work_t work = {.plan = {.seed = 11}};
    if (argc != 4) {
        fprintf(stderr, "usage: hip_driver device|peer|shared|staged PLUGIN_FOLDER RUNTIME\n");
        return 2;
    }
    if (strcmp(argv[1], "device") == 0)
        run_device(&work, argv[2], argv[3]);
    else
        run_route(&work, argv[1], argv[2]);
    int report = check_report("hip_driver");
    if (report == 0 && work.errors > 0)
        return ERROR_REPORTED;
    return report;
}
