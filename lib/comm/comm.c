/* SPDX-License-Identifier: BSD-3-Clause */
/* Creating, polling and destroying communicators. See comm.h. */
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "comm/comm_control.h"
#include "comm/comm_stamps.h"
#include "comm/comm_timeline.h"
#include "host/memory_buffer.h"
#include "kernels/kernels.h"

/* How long destroying waits for a neighbour that may be gone already. */
static const double DESTROY_TIMEOUT_S = 30.0;

/* Tests make calls of the device fail. */
static selvage_status_t wrap_device(selvage_comm_t *comm)
{
    comm->dev_under = comm->dev;
    if (!comm->fault.call_armed[SV_FAULT_CALL_DEVICE])
        return SELVAGE_SUCCESS;
    SV_TRY(sv_device_fault_wrap(&comm->dev));
    comm->dev_wrapped = true;
    return SELVAGE_SUCCESS;
}

/* Everything that needs no other rank. Its status is agreed on by the caller. */
static selvage_status_t set_up_alone(selvage_comm_t *comm, const selvage_comm_params_t *params)
{
    SV_TRY(sv_config_load(NULL, NULL, &comm->config));
    sv_config_bind_log(&comm->config, &comm->binding);
    sv_comm_bind(comm);
    comm->timeout_s = params && params->timeout_s != 0 ? params->timeout_s : comm->config.timeout_s;
    comm->message_slot_bytes = params ? params->message_slot_bytes : 0;
    SV_TRY(sv_fault_parse(comm->config.fault, comm->wire->rank, &comm->fault));
    comm->binding.fault = &comm->fault;
    sv_comm_bind(comm);
    if (comm->fault.call_armed[SV_FAULT_CALL_WIRE])
        SV_TRY(sv_wire_fault_wrap(&comm->wire));
    SV_TRY(sv_trace_init(&comm->trace, comm->wire->rank,
                         comm->config.trace[0] ? (uint64_t)comm->config.trace_events : 0, comm->config.flight_file,
                         comm->config.flight_signal));
    comm->trace_ready = true;
    if (comm->config.progress == SV_CONFIG_PROGRESS_THREAD && !comm->wire->threads_ok)
        return sv_error(SELVAGE_ERR_UNSUPPORTED,
                        "SELVAGE_PROGRESS is thread, which needs MPI_Init_thread with MPI_THREAD_MULTIPLE");
    if (params && params->device_later) {
        comm->dev_under = comm->dev = sv_device_absent();
        return SELVAGE_SUCCESS;
    }
    if (params && params->device) {
        comm->dev = params->device;
    } else {
        SV_TRY(sv_device_open(NULL, &comm->config, &comm->dev));
        comm->dev_owned = true;
    }
    SV_TRY(wrap_device(comm));
    return sv_stamps_create(comm);
}

/* A rank is two threads at least where a device is made of threads. More of them than cores only take turns. */
static void tell_oversubscribed(const selvage_comm_t *comm)
{
    if (comm->dev_under != sv_device_absent() && 2 * comm->topology.host_size > comm->topology.cores)
        __atomic_store_n(&comm->dev_under->oversubscribed, true, __ATOMIC_RELAXED); /* only a hint */
}

/* No rank knows which GPUs the others have. So a GPU is taken for one that ranks share: no kernel waits for them. */
selvage_status_t sv_comm_set_device(selvage_comm_t *comm, sv_device_t *device)
{
    sv_device_t *const before = comm->dev;
    if (before != sv_device_absent())
        return sv_error(SELVAGE_ERR_STATE, "selvage_comm_set_device: the communicator has a device");
    if (comm->progress.threaded)
        SV_TRY(device->ops->make_current(device));
    comm->dev = device;
    selvage_status_t status = wrap_device(comm);
    if (status == SELVAGE_SUCCESS)
        status = sv_stamps_create(comm);
    if (status != SELVAGE_SUCCESS) {
        comm->dev_under = comm->dev = before;
        return status;
    }
    comm->topology.shares_gpu = comm->topology.guesses_gpus = device->bus_id[0] != '\0';
    tell_oversubscribed(comm);
    if (comm->config.numa == SV_CONFIG_NUMA_AUTO)
        sv_topology_place(&comm->topology, "/sys", device->bus_id);
    return SELVAGE_SUCCESS;
}

typedef struct started {
    selvage_comm_t *comm;
    selvage_status_t status;
} started_t;

/* From here on the engine is the progress thread's, if there is one. */
static void agree_on_progress(void *arg)
{
    started_t *started = arg;
    selvage_comm_t *comm = started->comm;
    uint64_t unused = 0;
    if (started->status == SELVAGE_SUCCESS && comm->progress.threaded)
        started->status = comm->dev->ops->make_current(comm->dev);
    started->status =
        sv_agree(comm, "selvage_comm_create: progress", 0, started->status, &unused, comm->timeout_s);
}

static struct sv_message_engine *messages_of(selvage_comm_t *comm)
{
    /* Partner: the release of whoever made it. */
    return atomic_load_explicit(&comm->messages, memory_order_acquire);
}

void sv_comm_break(selvage_comm_t *comm, selvage_status_t status)
{
    if (comm->broken != SELVAGE_SUCCESS)
        return;
    memcpy(comm->broken_text, sv_thread_detail(), sizeof comm->broken_text);
    __atomic_store_n(&comm->broken, status, __ATOMIC_RELEASE);
}

const char *sv_comm_broken_text(const selvage_comm_t *comm)
{
    return comm->broken_text[0] ? comm->broken_text : selvage_status_string(comm->broken);
}

static bool poll_all(selvage_comm_t *comm, bool control)
{
    bool moved = false;
    if (comm->detached)
        return false;
    if (messages_of(comm))
        moved = comm->messages_ops->poll(messages_of(comm));
    selvage_status_t status = control ? sv_control_poll(comm, &moved) : SELVAGE_SUCCESS;
    if (status != SELVAGE_SUCCESS && comm->broken == SELVAGE_SUCCESS) {
        /* A wire that fails for everybody ends every exchange in flight: nothing else could. The neighbours are told
           before the communicator is marked, if the wire still can. */
        char text[SV_DETAIL_BYTES];
        memcpy(text, sv_thread_detail(), sizeof text);
        comm->exchanges_ops->poison(comm, status);
        memcpy(sv_thread_detail(), text, sizeof text);
        sv_comm_break(comm, status);
    }
    if (comm->arena)
        moved |= comm->arena_ops->poll(comm->arena);
    return comm->exchanges_ops->poll(comm) || moved;
}

bool sv_comm_poll(void *arg)
{
    selvage_comm_t *comm = arg;
    return poll_all(comm, comm->exchanges_ops->needs_control(comm));
}

/* Messages may come at any time to who has exchanged any, and their senders repeat what is not acknowledged within
   20 ms. UCX moves nothing while nobody polls. Exchanges have rare words only. */
static unsigned comm_idle_us(void *arg)
{
    enum { MESSAGES_US = 5000, EXCHANGES_US = 1000000 };
    selvage_comm_t *comm = arg;
    if (!comm->exchanges_ops->is_idle(comm) || (comm->arena && !comm->arena_ops->is_idle(comm->arena)) ||
        (messages_of(comm) && !comm->messages_ops->is_idle(messages_of(comm))))
        return 0;
    return messages_of(comm) || comm->config.wire == SV_CONFIG_WIRE_UCX ? MESSAGES_US : EXCHANGES_US;
}

static const sv_progress_ops_t progress_ops = {.poll = sv_comm_poll, .idle_us = comm_idle_us};

static selvage_status_t init_progress(selvage_comm_t *comm)
{
    const sv_config_t *config = &comm->config;
    const sv_progress_params_t params = {.threaded = config->progress == SV_CONFIG_PROGRESS_THREAD,
                                         .by_timer = config->progress_sleep == SV_CONFIG_PROGRESS_SLEEP_TIMER,
                                         .idle_turns = (unsigned)config->progress_idle_turns,
                                         .idle_us = (unsigned)config->progress_idle_us};
    /* A rank is two threads then, and one that only pauses may keep the other one's core. */
    if (params.threaded && config->progress_oversubscribed == SV_CONFIG_PROGRESS_OVERSUBSCRIBED_THREADS)
        comm->topology.oversubscribed = 2 * comm->topology.host_size > comm->topology.cores;
    return sv_progress_init(&comm->progress, &params, &comm->topology, &progress_ops, comm);
}

/* Frees a communicator in any stage of its making. No communication but what closing the wire needs. */
static void free_comm(selvage_comm_t *comm)
{
    sv_progress_fini(&comm->progress);
    comm->exchanges_ops->destroy(comm);
    sv_topology_fini(&comm->topology);
    /* Only those are left that could not be closed, since a kernel does not end. */
    sv_transfer_cache_abandon(&comm->mappings);
    sv_stamps_destroy(comm);
    if (comm->dev_wrapped)
        comm->dev->ops->close(comm->dev);
    if (comm->dev_owned)
        comm->dev_under->ops->close(comm->dev_under);
    if (comm->trace_ready)
        sv_trace_fini(&comm->trace);
    sv_wire_fault_inner(comm->wire)->failed |= comm->broken != SELVAGE_SUCCESS;
    comm->wire->ops->close(comm->wire);
    pthread_mutex_destroy(&comm->messages_lock);
    sv_thread_binding()->fault = NULL;
    sv_free(comm);
}

selvage_status_t sv_comm_create(sv_wire_t *wire, const selvage_comm_params_t *params,
                                const sv_exchange_set_ops_t *exchanges, selvage_comm_t **comm_out)
{
    selvage_comm_t *comm = NULL;
    /* 1. The members that need nothing but memory. */
    selvage_status_t status = sv_calloc(1, sizeof *comm, &comm);
    if (status == SELVAGE_SUCCESS) {
        comm->exchanges_ops = exchanges;
        status = exchanges->create(comm);
    }
    if (status != SELVAGE_SUCCESS) {
        sv_free(comm);
        wire->ops->close(wire);
        return status;
    }
    pthread_mutex_init(&comm->messages_lock, NULL); /* default attributes: cannot fail on Linux */
    comm->wire = wire;
    comm->timeout_s = 300;
    comm->stats.struct_size = sizeof comm->stats;
    sv_list_init(&comm->buffers);
    sv_transfer_cache_init(&comm->mappings, NULL);
    comm->binding = *sv_thread_binding();
    comm->binding.rank = wire->rank;
    sv_comm_bind(comm);
    /* 2. The ranks agree that all are set up alike, and on the nonce that exchange ids are made from. */
    status = set_up_alone(comm, params);
    const uint64_t seed = sv_clock_ns() ^ (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)comm;
    uint64_t nonce = sv_digest_mix(seed + (uint64_t)comm->wire->rank) & ~UINT64_C(0xffffffff);
    SV_TRY_GOTO(status, sv_agree(comm, "selvage_comm_create", 0, status, &nonce, comm->timeout_s), fail);
    comm->nonce = nonce;
    SV_TRY_GOTO(status, sv_comm_agree_settings(comm), fail);
    SV_TRY_GOTO(status, sv_comm_locate(comm), fail);
    if (comm->config.trace[0])
        SV_TRY_GOTO(status, sv_timeline_compare_clocks(comm, &comm->clock_first), fail);
    /* 3. The progress thread, if there is to be one. */
    started_t started = {.comm = comm};
    started.status = init_progress(comm);
    tell_oversubscribed(comm);
    sv_progress_call(&comm->progress, agree_on_progress, &started);
    SV_TRY_GOTO(status, started.status, fail);
    sv_log(SV_LOG_INFO, "comm", "rank %d of %d on %s, %d ranks on the node, %d cores%s", wire->rank, wire->size,
           comm->dev->ops->name, comm->topology.node_size, comm->topology.cores,
           comm->topology.oversubscribed ? ", oversubscribed" : "");
    *comm_out = comm;
    return SELVAGE_SUCCESS;
fail:
    free_comm(comm);
    return status;
}

void sv_deadline_begin(sv_deadline_t *deadline, selvage_comm_t *comm, double timeout_s)
{
    *deadline = (sv_deadline_t){.comm = comm, .timeout_s = timeout_s, .since_ns = sv_clock_ns()};
    deadline->backoff.max_sleep_us = 200;
    deadline->backoff.oversubscribed = comm->topology.oversubscribed || comm->topology.size == 0;
}

selvage_status_t sv_deadline_check(const sv_deadline_t *deadline)
{
    if (deadline->comm->broken != SELVAGE_SUCCESS)
        return deadline->comm->broken;
    const bool is_over =
        deadline->timeout_s > 0 && (double)(sv_clock_ns() - deadline->since_ns) > deadline->timeout_s * 1e9;
    return is_over ? SELVAGE_ERR_TIMEOUT : SELVAGE_SUCCESS;
}

selvage_status_t sv_deadline_poll(sv_deadline_t *deadline)
{
    if (poll_all(deadline->comm, true)) {
        sv_backoff_reset(&deadline->backoff);
        deadline->since_ns = sv_clock_ns();
        return SELVAGE_SUCCESS;
    }
    if (deadline->comm->broken != SELVAGE_SUCCESS)
        return deadline->comm->broken;
    sv_backoff(&deadline->backoff);
    return sv_deadline_check(deadline);
}

/* Collective calls that were enqueued are through, or have failed, or do not come to an end in time. */
static void settle_arena(selvage_comm_t *comm, double timeout_s)
{
    sv_deadline_t deadline;
    sv_deadline_begin(&deadline, comm, timeout_s);
    while (comm->arena && !comm->arena_ops->is_idle(comm->arena)) {
        const selvage_status_t status = sv_deadline_poll(&deadline);
        if (status == SELVAGE_ERR_TIMEOUT || comm->detached)
            return;
    }
}

void sv_comm_settle(selvage_comm_t *comm)
{
    settle_arena(comm, 0);
}

static void report_leftovers(selvage_comm_t *comm, const char *when)
{
    unsigned exchanges = comm->exchanges_ops->count(comm), buffers = 0;
    for (const sv_list_t *it = comm->buffers.next; it != &comm->buffers; it = it->next)
        buffers++;
    unsigned requests = messages_of(comm) ? comm->messages_ops->count(messages_of(comm)) : 0;
    if (exchanges || buffers)
        sv_log(SV_LOG_WARN, "comm", "%s: %u exchanges and %u registered buffers were not destroyed", when, exchanges,
               buffers);
    if (requests)
        sv_log(SV_LOG_WARN, "comm", "%s: %u requests of messages were not completed", when, requests);
}

static void release_arena(selvage_comm_t *comm, bool parted)
{
    if (comm->arena)
        comm->arena_ops->release(comm->arena, parted);
    comm->arena = NULL;
}

/* Waits until no control message is under way after the agreement that follows. Ranks that gave up are not waited for.
   Ranks that never had a message, or can handle none any more, acknowledge nothing and are waited for briefly. */
static void wait_for_control(selvage_comm_t *comm, bool all_have, double timeout_s)
{
    const double SOME_HAVE_NONE_S = 0.5;
    sv_deadline_t deadline;
    bool done = false;
    sv_deadline_begin(&deadline, comm, all_have ? timeout_s : SOME_HAVE_NONE_S);
    while (!done && comm->broken == SELVAGE_SUCCESS) {
        if (comm->messages_ops->disconnect(messages_of(comm), &done) != SELVAGE_SUCCESS)
            return;
        if (!done && sv_deadline_poll(&deadline) != SELVAGE_SUCCESS) {
            sv_log(all_have ? SV_LOG_WARN : SV_LOG_DEBUG, "comm", "a rank that messages were sent to did not come to "
                   "destroy its communicator, or has received none");
            return;
        }
    }
}

static void disconnect_messages(selvage_comm_t *comm, double timeout_s)
{
    bool unused;
    /* Minima of all ranks. */
    uint64_t all_have =
        messages_of(comm) && comm->messages_ops->disconnect(messages_of(comm), &unused) == SELVAGE_SUCCESS;
    if (sv_agree(comm, "selvage_comm_destroy: messages", 0, SELVAGE_SUCCESS, &all_have, timeout_s) != SELVAGE_SUCCESS)
        return;
    if (messages_of(comm))
        wait_for_control(comm, all_have, timeout_s);
    uint64_t all_drained = !messages_of(comm) || comm->messages_ops->is_drained(messages_of(comm));
    /* Others may have waited for control messages as long as they may. */
    comm->messages_undrained = sv_agree(comm, "selvage_comm_destroy: kernels of messages", 0, SELVAGE_SUCCESS,
                                        &all_drained, 2 * timeout_s) != SELVAGE_SUCCESS ||
                               !all_drained;
}

/* The collective half of destroying; runs where the engine lives. */
static void leave_neighbours(void *arg)
{
    selvage_comm_t *comm = arg;
    if (comm->detached)
        return;
    uint64_t no_arena = comm->arena == NULL; /* the minimum of all: whether no rank has one */
    double timeout_s = comm->timeout_s > 0 && comm->timeout_s < DESTROY_TIMEOUT_S ? comm->timeout_s : DESTROY_TIMEOUT_S;
    settle_arena(comm, timeout_s);
    if (comm->arena)
        comm->arena_ops->end(comm->arena, SELVAGE_ERR_STATE);
    disconnect_messages(comm, timeout_s);
    if (sv_agree(comm, "selvage_comm_destroy", 0, SELVAGE_SUCCESS, &no_arena, timeout_s) != SELVAGE_SUCCESS) {
        sv_wire_fault_inner(comm->wire)->failed = true; /* words of it may come, which nobody receives */
        return;
    }
    if (!no_arena) { /* device memory is freed once no peer has it mapped */
        uint64_t unused = 0;
        selvage_status_t status = comm->arena ? comm->arena_ops->unmap(comm->arena) : SELVAGE_SUCCESS;
        if (sv_agree(comm, "selvage_comm_destroy: collectives", 0, status, &unused, timeout_s) == SELVAGE_SUCCESS)
            release_arena(comm, true);
    }
    if (comm->config.trace[0])
        sv_timeline_write(comm);
}

void sv_comm_destroy(selvage_comm_t *comm)
{
    sv_list_t *it, *safe;
    if (!comm)
        return;
    sv_comm_bind(comm);
    report_leftovers(comm, "selvage_comm_destroy");
    sv_progress_call(&comm->progress, leave_neighbours, comm);
    sv_progress_fini(&comm->progress);
    release_arena(comm, false);
    if (messages_of(comm))
        comm->messages_ops->release(messages_of(comm), !comm->messages_undrained);
    comm->exchanges_ops->release(comm);
    SV_LIST_FOR_EACH(it, safe, &comm->buffers) {
        selvage_buffer_t *buffer = SV_CONTAINER_OF(it, selvage_buffer_t, link);
        buffer->users = 0;
        sv_buffer_unregister(buffer);
    }
    free_comm(comm);
}

/* The last moment at which MPI works: everything open is ended, and nothing touches the wire from here on. */
static void detach_comm(void *arg)
{
    selvage_comm_t *comm = arg;
    selvage_status_t status =
        sv_error_quiet(SELVAGE_ERR_STATE, "MPI_Finalize was called while the communicator was still in use");
    memcpy(comm->broken_text, sv_thread_detail(), sizeof comm->broken_text);
    comm->exchanges_ops->detach(comm, status);
    if (messages_of(comm))
        comm->messages_ops->detach(messages_of(comm));
    if (comm->arena)
        comm->arena_ops->end(comm->arena, status);
    comm->broken = status;
    comm->detached = true;
}

void sv_comm_at_finalize(void *arg)
{
    selvage_comm_t *comm = arg;
    sv_log(SV_LOG_WARN, "comm", "a communicator of %d ranks was not destroyed before MPI_Finalize", comm->wire->size);
    report_leftovers(comm, "MPI_Finalize");
    sv_progress_call(&comm->progress, detach_comm, comm);
    sv_progress_fini(&comm->progress);
}

void sv_comm_stats(selvage_comm_t *comm, selvage_stats_t *stats_out)
{
    *stats_out = comm->stats;
    stats_out->control_damaged = comm->wire->control_damaged;
    stats_out->progress_queued_most = comm->progress.ring.most; /* whose producer waits for this call */
    stats_out->faults_injected = 0;
    for (int kind = SV_FAULT_NONE + 1; kind < SV_FAULT_KINDS; kind++)
        stats_out->faults_injected += comm->fault.injected[kind];
    if (messages_of(comm))
        comm->messages_ops->stats(messages_of(comm), stats_out);
}
