/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Beginning and end of the drop-in, its settings, and the queries by which programs find out whether their MPI takes
 * device memory, which it now does. Settings are read once, at the first call that needs them, by any thread. Beginning
 * and end belong to the thread that calls MPI_Init and MPI_Finalize.
 */
#include "interpose/drop_order.h"
#include "interpose/drop_probe.h"
#include "interpose/drop_split.h"
#include "interpose/drop_strip.h"
#include "interpose/drop_table.h"

#include <selvage/config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    pthread_once_t once;
    sv_drop_settings_t settings;
    bool begun, ending, ends_with_self;
} state = {.once = PTHREAD_ONCE_INIT};

/* Bytes as settings are shown: a number, perhaps with a suffix. */
static int64_t setting_number(const char *text)
{
    char *end;
    int64_t number = strtoll(text, &end, 10);
    return *end == 'K' ? number << 10 : *end == 'M' ? number << 20 : *end == 'G' ? number << 30 : number;
}

/* The index of a value in a list of choices. */
static int choice_of(const char *value, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(value, names[i]) == 0)
            return (int)i;
    return 0;
}

/* In a long row of sends, and in collective calls, so much less takes the route, and on a shared GPU so much more. */
enum { ROW_SHARE = 8, COLL_SHARE = 64, SHARED_TIMES = 16 };

/* What other ranks may map of the buffers of collective calls, if nothing else is set. */
#define CACHE_BYTES (INT64_C(1) << 30)

static void take_setting(void *arg, const selvage_setting_t *setting)
{
    static const char *const policies[] = {"default", "auto", "device", "none", "check"};
    static const char *const modes[] = {"auto", "on", "off"};
    sv_drop_settings_t *settings = arg;
    const bool is_set = strcmp(setting->source, "environment") == 0;
    /* Several ranks of a node may pin as much each. */
    const int64_t most = INT64_C(4) << 30, part = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 16;
    if (strcmp(setting->name, "SELVAGE_DROPIN_SYNC") == 0)
        settings->sync = (sv_drop_sync_t)choice_of(setting->value, policies, sizeof policies / sizeof policies[0]);
    if (strcmp(setting->name, "SELVAGE_DROPIN_SYNC_MS") == 0)
        settings->sync_ms = (int)setting_number(setting->value);
    if (strcmp(setting->name, "SELVAGE_DROPIN_POOL_BYTES") == 0)
        settings->pool_bytes = strcmp(setting->value, "auto") != 0 ? setting_number(setting->value)
                               : part < most                       ? part
                                                                   : most;
    if (strcmp(setting->name, "SELVAGE_DROPIN_PIECE_BYTES") == 0)
        settings->piece_bytes = setting_number(setting->value);
    if (strcmp(setting->name, "SELVAGE_DROPIN_PAIRS") == 0)
        settings->pairs = strcmp(setting->value, "on") == 0;
    if (strcmp(setting->name, "SELVAGE_REPORT") == 0)
        settings->report = strcmp(setting->value, "on") == 0;
    if (strcmp(setting->name, "SELVAGE_DEVICE") == 0)
        settings->soft = strcmp(setting->value, "soft") == 0;
    if (strcmp(setting->name, "SELVAGE_DROPIN_FAST") == 0)
        settings->fast = (sv_drop_mode_t)choice_of(setting->value, modes, sizeof modes / sizeof modes[0]);
    if (strcmp(setting->name, "SELVAGE_DROPIN_FAST_BYTES") == 0 && (is_set || settings->fast_bytes == 0)) {
        settings->fast_bytes = setting_number(setting->value);
        settings->row_bytes = is_set ? settings->fast_bytes : settings->fast_bytes / ROW_SHARE;
        settings->chooses = !is_set;
        settings->coll_bytes = is_set ? settings->fast_bytes : settings->fast_bytes / COLL_SHARE;
        settings->shared_bytes = is_set ? settings->fast_bytes : settings->fast_bytes * SHARED_TIMES;
    }
    /* If the user asks for checksums, all that can be announced takes the fast route, which has them. */
    if (strcmp(setting->name, "SELVAGE_CHECKSUM") == 0)
        settings->checks = strcmp(setting->value, "off") != 0;
    if (strcmp(setting->name, "SELVAGE_CHECKSUM") == 0 && is_set && strcmp(setting->value, "off") != 0) {
        settings->chooses = false;
        settings->fast_bytes = settings->row_bytes = settings->coll_bytes = settings->shared_bytes =
            SV_DROP_ANNOUNCE_BYTES + 1;
    }
    if (strcmp(setting->name, "SELVAGE_COLL_CACHE_BYTES") == 0)
        settings->cache_bytes = is_set ? setting_number(setting->value) : CACHE_BYTES;
    if (strcmp(setting->name, "SELVAGE_DROPIN_LONG_BYTES") == 0)
        settings->long_bytes = setting_number(setting->value);
    if (strcmp(setting->name, "SELVAGE_DROPIN_FRAGMENT_BYTES") == 0)
        settings->fragment_bytes = setting_number(setting->value); /* auto: 0 */
    if (strcmp(setting->name, "SELVAGE_DROPIN_SLOT_BYTES") == 0)
        settings->slot_bytes = setting_number(setting->value);
    if (strcmp(setting->name, "SELVAGE_TIMEOUT_S") == 0 && is_set)
        settings->timeout_ns = (int64_t)(strtod(setting->value, NULL) * 1e9);
    if (strcmp(setting->name, "SELVAGE_IDLE_S") == 0)
        settings->idle_ns = (int64_t)(strtod(setting->value, NULL) * 1e9);
    if (strcmp(setting->name, "SELVAGE_PROGRESS") == 0)
        settings->progress_thread = strcmp(setting->value, "thread") == 0;
    if (strcmp(setting->name, "SELVAGE_TRACE") == 0)
        snprintf(settings->trace, sizeof settings->trace, "%s", setting->value);
    if (strcmp(setting->name, "SELVAGE_TRACE_EVENTS") == 0)
        settings->trace_events = setting_number(setting->value);
    if (strcmp(setting->name, "SELVAGE_JOB") == 0)
        snprintf(settings->job, sizeof settings->job, "%s", setting->value);
}

static void read_settings(void)
{
    selvage_config_warn_unknown();
    if (selvage_config_visit(take_setting, &state.settings) != SELVAGE_SUCCESS)
        sv_drop_fatal("settings", selvage_error_detail());
}

const sv_drop_settings_t *sv_drop_settings(void)
{
    pthread_once(&state.once, read_settings);
    return &state.settings;
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static int running_turns(void)
{
    enum { END_TURNS = 200, LOOKS = 16 /* of requests, by a turn */ };
    return END_TURNS * (atomic_load_explicit(&sv_drop_running, memory_order_relaxed) / LOOKS + 1);
}

/* Before the route ends. Messages of it get some time to come or to leave, and after that they have failed. All others
   go on. */
static void retire_requests(void)
{
    unsigned turns = 0;
    sv_drop_lock();
    for (int i = running_turns(); sv_drop_op_first() && i > 0; i--)
        sv_drop_turn(&turns);
    for (sv_drop_op_t *op = sv_drop_op_first(); op; op = op->next)
        if (op->fast.request) {
            selvage_message_free(&op->fast.request);
            op->fast.request = NULL;
            op->fast.error = op->fast.error ? op->fast.error : MPI_ERR_OTHER;
        }
    sv_drop_unlock();
}

/* At the end of MPI: ends what can be ended. Returns how many are still under way; *open_out is how many the program
   had. Requests that are left after some time stay with MPI, with their staging memory. Another rank may be about to
   send what one of them receives. */
static int end_requests(int *open_out)
{
    unsigned turns = 0;
    int left = 0;
    *open_out = 0;
    sv_drop_lock();
    for (sv_drop_op_t *op = sv_drop_op_first(); op; op = op->next)
        *open_out += !op->orphan && !op->freed;
    for (int i = running_turns(); sv_drop_op_first() && i > 0; i--)
        sv_drop_turn(&turns);
    sv_drop_read_notes(); /* those that the program has completed last are ended, and in the timeline */
    for (sv_drop_op_t *op = sv_drop_op_first(); op; op = op->next)
        left++;
    sv_drop_unlock();
    return left;
}

/* Ends all but the route, which needs all ranks' calls of MPI_Finalize. */
static void end_program(void)
{
    if (!state.begun)
        return;
    state.begun = false;
    int open, left = end_requests(&open);
    if (open > 0)
        sv_drop_warn("%d requests with device memory were open at MPI_Finalize", open);
    int splits = sv_drop_splits_end();
    if (splits > 0)
        sv_drop_warn("%d split collective calls on files with device memory were open at MPI_Finalize", splits);
    sv_drop_thread_end();
    sv_drop_taken_end();
    if (sv_drop_settings()->report)
        sv_drop_report();
    sv_drop_trace_end();
    sv_drop_guards_end();
    sv_drop_types_end();
    sv_drop_strips_end();
    /* MPI may still use pinned memory, or a kernel the device. */
    if (left == 0 && splits == 0 && sv_drop_settle_end()) {
        sv_drop_orders_end();
        sv_drop_device_close();
    }
}

static int self_is_deleted(MPI_Comm self, int key, void *value, void *extra)
{
    (void)self, (void)key, (void)value, (void)extra;
    end_program();
    return MPI_SUCCESS;
}

void sv_drop_begin(void)
{
    int key;
    if (state.begun)
        return;
    state.begun = true;
    /* MPI_Finalize deletes the attributes of MPI_COMM_SELF before anything else, those that were set last first. MPI is
       whole meanwhile, and libraries end there what they have in flight. This one is set in MPI_Init, so that it goes
       last. */
    if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, self_is_deleted, &key, NULL) == MPI_SUCCESS) {
        state.ends_with_self = PMPI_Comm_set_attr(MPI_COMM_SELF, key, &state) == MPI_SUCCESS;
        PMPI_Comm_free_keyval(&key); /* it lasts as long as the attribute */
    }
    sv_drop_trace_begin();
    sv_drop_batch_begin();
    sv_drop_fast_begin();
    if (sv_drop_settings()->progress_thread)
        sv_drop_thread_begin();
}

void sv_drop_end(void)
{
    if (!state.begun || state.ending) /* MPICH's Fortran name of MPI_Finalize calls the one in C */
        return;
    state.ending = true;
    sv_drop_batch_end();
    sv_drop_orders_await(); /* or nothing that has come could land */
    retire_requests();
    sv_drop_fast_end();
    if (!state.ends_with_self)
        end_program();
}

/* Handles of another MPI than this one's header would crash in the first call. */
void sv_drop_refuse_other_mpi(void)
{
    if (selvage_mpi_check() == SELVAGE_SUCCESS)
        return;
    sv_drop_warn("%s: use the selvage-run of a Selvage that was built for that MPI", selvage_error_detail());
    exit(EXIT_FAILURE);
}

SV_DROP_EXPORT int MPI_Init(int *argc, char ***argv)
{
    int provided;
    sv_drop_refuse_other_mpi();
    int code = sv_drop_settings()->progress_thread ? PMPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided)
                                                   : PMPI_Init(argc, argv);
    if (code == MPI_SUCCESS)
        sv_drop_begin();
    return code;
}

SV_DROP_EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    sv_drop_refuse_other_mpi();
    int code = PMPI_Init_thread(argc, argv, sv_drop_settings()->progress_thread ? MPI_THREAD_MULTIPLE : required,
                                provided);
    if (code == MPI_SUCCESS)
        sv_drop_begin();
    return code;
}

SV_DROP_EXPORT int MPI_Finalize(void)
{
    sv_drop_end();
    return PMPI_Finalize();
}

/* --- "is this MPI aware of GPUs?" --------------------------------------------------------------------------------- */

int MPIX_Query_cuda_support(void);
int MPIX_Query_rocm_support(void);
int MPIX_Query_hip_support(void);

SV_DROP_EXPORT int MPIX_Query_cuda_support(void)
{
    return 1;
}

SV_DROP_EXPORT int MPIX_Query_rocm_support(void)
{
    return 1;
}

SV_DROP_EXPORT int MPIX_Query_hip_support(void)
{
    return 1;
}

#ifdef MPIX_GPU_SUPPORT_CUDA
SV_DROP_EXPORT int MPIX_GPU_query_support(int gpu_type, int *is_supported)
{
    *is_supported = gpu_type == MPIX_GPU_SUPPORT_CUDA || gpu_type == MPIX_GPU_SUPPORT_HIP;
    return MPI_SUCCESS;
}
#endif
