/* SPDX-License-Identifier: BSD-3-Clause */
/* Making, committing and destroying exchanges. See pipe_exchange.h for what they are. */
#include "pipeline/pipe_exchange.h"

#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "comm/comm_control.h"
#include "host/memory_kind.h"
#include "pipeline/layout_parts.h"
#include "pipeline/pipe_batch.h"
#include "pipeline/pipe_commit.h"
#include "pipeline/pipe_phases.h"
#include "pipeline/pipe_session.h"
#include "pipeline/route.h"

/* How long a poisoned or failed exchange waits for the wire and the neighbours before it sets memory aside. */
static const double PARTING_TIMEOUT_S = 30.0, DRAIN_TIMEOUT_S = 2.0;

static int policy_of(const selvage_comm_t *comm, const selvage_exchange_params_t *params)
{
    switch (params ? params->checksum : SELVAGE_CHECKSUM_DEFAULT) {
    case SELVAGE_CHECKSUM_OFF: return SV_CONFIG_CHECKSUM_OFF;
    case SELVAGE_CHECKSUM_RETRY: return SV_CONFIG_CHECKSUM_RETRY;
    case SELVAGE_CHECKSUM_REPORT: return SV_CONFIG_CHECKSUM_REPORT;
    case SELVAGE_CHECKSUM_ABORT: return SV_CONFIG_CHECKSUM_ABORT;
    case SELVAGE_CHECKSUM_DEFAULT: break;
    }
    return comm->config.checksum;
}

selvage_status_t sv_exchange_create(selvage_comm_t *comm, const selvage_exchange_params_t *params,
                                    selvage_exchange_t **x_out)
{
    selvage_exchange_t *x;
    SV_TRY(sv_calloc(1, sizeof *x, &x));
    x->comm = comm;
    x->forced_route = params ? params->route : SELVAGE_ROUTE_DEFAULT;
    x->policy = policy_of(comm, params);
    x->rebind.allowed = params && params->rebindable;
    x->varying = params && params->varying;
    x->failure.source = UINT32_MAX;
    x->neighbors = params && params->scope == SELVAGE_SCOPE_NEIGHBORS;
    /* Ranks count alike those that all of them create, and no others. */
    x->create_number = x->neighbors ? SV_NEIGHBOR_NUMBER | ++comm->exchanges->neighbor_creates
                                    : ++comm->exchanges->creates;
    x->frees_seen = sv_device_frees();
    sv_list_init(&x->peers);
    sv_list_init(&x->active_link);
    atomic_init(&x->state, SV_EXCHANGE_BUILDING);
    sv_list_append(&comm->exchanges->all, &x->link);
    *x_out = x;
    return SELVAGE_SUCCESS;
}

/* Grows an array of packets by doubling; declaring n packets costs O(n). */
static selvage_status_t grow_packets(void *array_ptr, uint32_t count, uint32_t *capacity, size_t element_bytes)
{
    void **array = array_ptr, *larger;
    if (count < *capacity)
        return SELVAGE_SUCCESS;
    uint32_t wanted = *capacity ? *capacity * 2 : 8;
    SV_TRY(sv_calloc(wanted, element_bytes, &larger));
    if (count)
        memcpy(larger, *array, count * element_bytes);
    sv_free(*array);
    *array = larger;
    *capacity = wanted;
    return SELVAGE_SUCCESS;
}

static sv_packet_t init_packet(selvage_exchange_t *x, size_t bytes, int peer, int tag, uint32_t index)
{
    return (sv_packet_t){.x = x, .bytes = bytes, .peer_rank = peer, .tag = tag, .own_index = index, .wire_tag = -1,
                         .record_tag = -1};
}

/* What the application declared, without what commit has added. */
static sv_packet_t declared_packet(const sv_packet_t *p)
{
    sv_packet_t declared = init_packet(p->x, p->bytes, p->peer_rank, p->tag, p->own_index);
    declared.layout = p->layout;
    declared.base = p->base;
    return declared;
}

static selvage_status_t append_send(selvage_exchange_t *x, const void *buf, sv_packet_t p, uint32_t *index_out)
{
    SV_TRY(grow_packets(&x->sends, x->nsends, &x->sends_room, sizeof *x->sends));
    x->sends[x->nsends] = (sv_send_t){.p = p, .buf = buf};
    if (index_out)
        *index_out = x->nsends;
    x->nsends++;
    return SELVAGE_SUCCESS;
}

static selvage_status_t append_recv(selvage_exchange_t *x, void *buf, sv_packet_t p, uint32_t *index_out)
{
    SV_TRY(grow_packets(&x->recvs, x->nrecvs, &x->recvs_room, sizeof *x->recvs));
    x->recvs[x->nrecvs] = (sv_recv_t){.p = p, .buf = buf};
    if (index_out)
        *index_out = x->nrecvs;
    x->nrecvs++;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_exchange_add_send(selvage_exchange_t *x, const void *buf, size_t bytes, int peer, int tag,
                                      uint32_t *index_out)
{
    void *address;
    SV_TRY(sv_memory_admit(x->comm->dev, "selvage_exchange_add_send", buf, bytes, &address));
    if (x->rebind.allowed && bytes > 0)
        return sv_rebind_add_send(x, &(sv_bound_t){buf, address, 0, (int64_t)bytes}, peer, tag, index_out);
    return append_send(x, address, init_packet(x, bytes, peer, tag, x->nsends), index_out);
}

selvage_status_t sv_exchange_add_recv(selvage_exchange_t *x, void *buf, size_t bytes, int peer, int tag,
                                      uint32_t *index_out)
{
    void *address;
    SV_TRY(sv_memory_admit(x->comm->dev, "selvage_exchange_add_recv", buf, bytes, &address));
    if (x->rebind.allowed && bytes > 0)
        return sv_rebind_add_recv(x, &(sv_bound_t){buf, address, 0, (int64_t)bytes}, peer, tag, index_out);
    return append_recv(x, address, init_packet(x, bytes, peer, tag, x->nrecvs), index_out);
}

/* The packet has what the layout's stream has, which ends here. */
static selvage_status_t close_layout(sv_layout_t *layout, sv_packet_t *p)
{
    SV_TRY(sv_layout_close(layout));
    p->layout = layout;
    p->bytes = sv_layout_bytes(layout);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_exchange_add_send_layout(selvage_exchange_t *x, sv_layout_t *layout, int peer, int tag,
                                             uint32_t *index_out)
{
    sv_packet_t p = init_packet(x, 0, peer, tag, x->nsends);
    selvage_status_t status = close_layout(layout, &p);
    if (status == SELVAGE_SUCCESS)
        status = append_send(x, NULL, p, index_out);
    if (status != SELVAGE_SUCCESS)
        sv_layout_destroy(layout);
    return status;
}

selvage_status_t sv_exchange_add_recv_layout(selvage_exchange_t *x, sv_layout_t *layout, int peer, int tag,
                                             uint32_t *index_out)
{
    sv_packet_t p = init_packet(x, 0, peer, tag, x->nrecvs);
    selvage_status_t status = close_layout(layout, &p);
    if (status == SELVAGE_SUCCESS)
        status = append_recv(x, NULL, p, index_out);
    if (status != SELVAGE_SUCCESS)
        sv_layout_destroy(layout);
    return status;
}

static void count_memory(selvage_exchange_t *x, int sign)
{
    x->comm->stats.pinned_bytes += (uint64_t)(sign * (int64_t)x->memory.pinned_bytes);
    x->comm->stats.device_bytes += (uint64_t)(sign * (int64_t)x->memory.device_bytes);
}

/* Where neighbours cannot be asked whether they have let go, what they may have mapped stays for good. */
static void set_aside(selvage_exchange_t *x)
{
    x->failure.quarantined = x->nsends + x->nrecvs > 0;
    if (x->failure.quarantined)
        sv_log(SV_LOG_WARN, "exchange", "%zu bytes that others may still write are set aside",
               x->memory.pinned_bytes + x->memory.device_bytes);
}

static void free_slots(sv_packet_t *p)
{
    sv_device_t *dev = p->x->comm->dev;
    for (uint32_t s = 0; p->slots && s < p->nslots; s++)
        if (p->slots[s].event)
            dev->ops->event_destroy(dev, p->slots[s].event);
    sv_free(p->slots);
    p->slots = NULL;
}

/* Everything that commit made. Memory in which others may still write is left where it is when the exchange is
   quarantined. What waits for all work of the device, as unmapping does, is left undone where that does not end. */
static void free_resources(selvage_exchange_t *x)
{
    sv_device_t *dev = x->comm->dev;
    const bool quarantined = x->failure.quarantined, device_busy = x->failure.device_busy;
    sv_exchange_streams_t *streams = &x->streams;
    sv_exchange_memory_t *memory = &x->memory;

    /* Streams first: destroying one waits for everything the device still does for this exchange. */
    void *stream[] = {streams->kernel, streams->out, streams->in, streams->peer, streams->signal};
    sv_event_t *event[] = {streams->start_event, streams->last_out_event, streams->cross_event, x->enqueued.gate_event};
    for (size_t i = 0; i < sizeof stream / sizeof stream[0]; i++)
        if (stream[i])
            SV_DEVICE_CALL(dev, stream_destroy, stream[i]);
    for (size_t i = 0; i < sizeof event / sizeof event[0]; i++)
        if (event[i])
            dev->ops->event_destroy(dev, event[i]);
    *streams = (sv_exchange_streams_t){.caller = streams->caller};
    x->enqueued.gate_event = NULL;

    for (uint32_t i = 0; i < x->nsends; i++) {
        free_slots(&x->sends[i].p);
        if (!device_busy)
            sv_transfer_unmap(x->sends[i].mapping);
        sv_fault_send_destroy(&x->sends[i]);
    }
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        sv_recv_t *recv = &x->recvs[i];
        free_slots(&recv->p);
        if (!device_busy)
            sv_transfer_unmap(recv->mapping);
        if (recv->buffer && !quarantined) /* else a peer may still write there: it stays registered */
            recv->buffer->users--; /* partner: plan_recv() in commit_plan.c */
        if (recv->p.wire_tag >= 0 && !quarantined)
            sv_exchange_tag_put(x->comm, recv->p.wire_tag);
        if (recv->p.record_tag >= 0 && !quarantined)
            sv_exchange_tag_put(x->comm, recv->p.record_tag);
        sv_free(recv->arrived_segments);
    }
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &x->peers) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (peer->segment_open && !device_busy)
            sv_shared_close(&peer->segment);
        sv_list_remove(&peer->pair_link);
        sv_list_remove(it);
        sv_free(peer);
    }
    sv_layouts_undo(x);
    sv_session_release(x);

    if (!quarantined && memory->segment_open)
        sv_shared_close(&memory->segment);
    if (!quarantined && memory->pinned)
        SV_DEVICE_CALL(dev, host_free, memory->pinned);
    if (!quarantined && memory->slab)
        SV_DEVICE_CALL(dev, free, memory->slab);
    if (memory->scratch && !device_busy)
        SV_DEVICE_CALL(dev, free, memory->scratch);
    if (x->batch.push_items && !device_busy)
        SV_DEVICE_CALL(dev, free, x->batch.push_items);
    if (x->batch.pinned_items && !device_busy)
        SV_DEVICE_CALL(dev, host_free, x->batch.pinned_items);
    memory->pinned = memory->slab = memory->scratch = NULL;
    memory->segment_open = false;
    sv_free(x->active_sends);
    sv_free(x->active_recvs);
    sv_free(x->batch.push_due);
    sv_free(x->batch.pull_due);
    x->batch = (sv_exchange_batch_t){.reach = SV_KERNELS_MOVE_SOME};
    x->active_sends = NULL;
    x->active_recvs = NULL;
}

/* The packets are as they were declared. */
static void undo_commit(selvage_exchange_t *x)
{
    free_resources(x);
    for (uint32_t i = 0; i < x->nsends; i++) {
        const sv_packet_t declared = declared_packet(&x->sends[i].p);
        x->sends[i] = (sv_send_t){.p = declared, .buf = declared.layout ? NULL : x->sends[i].buf};
    }
    for (uint32_t i = 0; i < x->nrecvs; i++) {
        const sv_packet_t declared = declared_packet(&x->recvs[i].p);
        x->recvs[i] = (sv_recv_t){.p = declared, .buf = declared.layout ? NULL : x->recvs[i].buf};
    }
    x->npeers = 0;
    x->memory.pinned_bytes = x->memory.device_bytes = 0;
    x->memory.head = NULL;
    x->memory.shared_slots = NULL;
    x->memory.slab_exported = false;
}

void sv_exchange_release(selvage_exchange_t *x)
{
    if (x->committed)
        count_memory(x, -1);
    sv_list_remove(&x->active_link);
    free_resources(x);
    sv_layouts_forget(x);
    sv_rebind_forget(x);
    sv_free(x->sends);
    sv_free(x->recvs);
    x->sends = NULL;
    x->recvs = NULL;
    x->nsends = x->nrecvs = 0;
    x->committed = false;
}

/* From the packets as declared to a committed exchange, or to the insight that some routes are not possible. The steps
   are those of pipe_commit.h. */
static selvage_status_t try_commit(selvage_exchange_t *x, bool *again_out)
{
    selvage_comm_t *comm = x->comm;
    bool all_mapped = true;
    /* In step on all ranks, whatever failed before; never the same twice. */
    x->number = comm->exchanges->commits = comm->agreements + 1;
    comm->exchanges->committing = x;

    /* Plan, handshake, and agreement 1 in it. */
    selvage_status_t status = sv_commit_handshake(x, sv_commit_plan(x));
    if (status != SELVAGE_SUCCESS) {
        if (comm->broken == SELVAGE_SUCCESS)
            (void)sv_commit_handshake_drain(x, DRAIN_TIMEOUT_S);
        return status;
    }
    /* Match and map, and agreement 2. */
    status = sv_commit_handshake_drain(x, comm->timeout_s);
    if (status == SELVAGE_SUCCESS)
        status = sv_commit_match(x);
    if (status == SELVAGE_SUCCESS)
        status = sv_commit_map(x, &all_mapped);
    uint64_t mapped = all_mapped;
    SV_TRY(sv_agree(comm, "selvage_exchange_commit: matching", x->create_number, status, &mapped, comm->timeout_s));
    /* Prove the mappings, probe and allocate, and agreement 3. */
    if (mapped) {
        mapped = sv_commit_is_proved(x);
        status = sv_commit_probe_direct(x);
        if (status == SELVAGE_SUCCESS)
            status = sv_commit_alloc(x);
        SV_TRY(sv_agree(comm, "selvage_exchange_commit: resources", x->create_number, status, &mapped,
                        comm->timeout_s));
    }
    *again_out = !mapped;
    return SELVAGE_SUCCESS;
}

/* Agreement 4: the routes that are left. Afterwards only the packets are left of the exchange. */
static selvage_status_t begin_again(selvage_exchange_t *x, int attempt)
{
    uint64_t unused = 0;
    selvage_status_t status = sv_commit_fall_back(x, attempt);
    sv_commit_unmap(x);
    SV_TRY(sv_agree(x->comm, "selvage_exchange_commit: routes", x->create_number, status, &unused, x->comm->timeout_s));
    sv_commit_forget_handshakes(x);
    undo_commit(x);
    return SELVAGE_SUCCESS;
}

static selvage_status_t commit_with_all(selvage_exchange_t *x)
{
    bool again = false;
    selvage_status_t status = try_commit(x, &again);
    for (int attempt = 0; status == SELVAGE_SUCCESS && again; attempt++) {
        again = false;
        status = begin_again(x, attempt);
        if (status == SELVAGE_SUCCESS)
            status = try_commit(x, &again);
    }
    return status;
}

selvage_status_t sv_exchange_commit(selvage_exchange_t *x)
{
    selvage_comm_t *comm = x->comm;
    uint64_t begin_ns = sv_clock_ns();
    selvage_status_t status = x->neighbors ? sv_neighbors_commit(x) : commit_with_all(x);
    comm->exchanges->committing = NULL;
    sv_commit_forget_handshakes(x);
    if (status != SELVAGE_SUCCESS) {
        x->failure.status = status;
        memcpy(x->failure.text, sv_thread_detail(), sizeof x->failure.text);
        sv_exchange_set_state(x, SV_EXCHANGE_POISONED);
        if (comm->broken != SELVAGE_SUCCESS || x->failure.quarantined)
            set_aside(x); /* the others may have committed it */
        sv_exchange_release(x);
        memcpy(sv_thread_detail(), x->failure.text, sizeof x->failure.text);
        return status;
    }
    x->committed = true;
    /* All who will map it have: a descriptor less for each live exchange. */
    sv_mapping_shut(&x->memory.segment.mapping);
    count_memory(x, 1);
    sv_trace_add(&comm->trace, &(sv_trace_record_t){.begin_ns = begin_ns, .end_ns = sv_clock_ns(), .packet = UINT32_MAX,
                                                    .peer = -1, .kind = SV_TRACE_COMMIT,
                                                    .exchange = sv_exchange_trace_id(x)});
    if (sv_exchange_state(x) == SV_EXCHANGE_BUILDING) /* not failed by a neighbour meanwhile */
        sv_exchange_set_state(x, SV_EXCHANGE_IDLE);
    return SELVAGE_SUCCESS;
}

static void withdraw_packet(sv_packet_t *p)
{
    selvage_comm_t *comm = p->x->comm;
    const bool user_memory = p->ops && p->ops->from_user_memory;
    bool quiet = true;
    for (uint32_t s = 0; p->slots && s < p->nslots; s++) {
        sv_slot_t *slot = &p->slots[s];
        if (slot->state == SV_SLOT_IN_FLIGHT) {
            comm->exchanges->sends_in_flight--;
            comm->exchanges->bytes_in_flight -= slot->in_flight_bytes;
        }
        /* A send from the user's memory is cancelled too, as that cannot be set aside; others only if they are over. */
        if (slot->state == SV_SLOT_POSTED || (slot->state == SV_SLOT_IN_FLIGHT && user_memory))
            quiet &= sv_slot_cancel(slot, comm->wire) == SELVAGE_SUCCESS;
        else if (slot->state == SV_SLOT_IN_FLIGHT)
            quiet &= sv_slot_test(slot, comm->wire, NULL) == SELVAGE_SUCCESS;
    }
    p->x->failure.quarantined |= !quiet;
    if (!quiet && user_memory)
        sv_log(SV_LOG_WARN, "exchange", "MPI has not let go of the application's buffer: %zu bytes, tag %d, rank %d",
               p->bytes, p->tag, p->peer->rank);
}

/* Withdraws what is still open on the wire. What cannot be withdrawn puts the exchange's memory in quarantine. */
void sv_exchange_withdraw(selvage_exchange_t *x)
{
    for (uint32_t i = 0; i < x->nsends; i++)
        withdraw_packet(&x->sends[i].p);
    for (uint32_t i = 0; i < x->nrecvs; i++)
        withdraw_packet(&x->recvs[i].p);
}

/* Copies must have left the neighbours' memory before it is unmapped and they are told that they may free it. */
static void drain_device(selvage_exchange_t *x)
{
    sv_device_t *dev = x->comm->dev_under; /* no injected fault may keep this from happening */
    void *stream[] = {x->streams.kernel, x->streams.out, x->streams.in, x->streams.peer, x->streams.signal};
    for (size_t i = 0; i < sizeof stream / sizeof stream[0]; i++)
        if (stream[i])
            (void)SV_DEVICE_CALL(dev, stream_sync, stream[i]);
    sv_backoff_t backoff = {.max_sleep_us = 200, .oversubscribed = x->comm->topology.oversubscribed};
    uint64_t begin_ns = sv_clock_ns();
    /* Kernels on the caller's stream still read what commit made. A broken wire is no reason not to wait for them. */
    while (!x->failure.device_busy &&
           (sv_session_query(x) == SELVAGE_IN_PROGRESS || sv_layouts_under_way(x) ||
            (x->enqueued.gated_epoch &&
             SV_DEVICE_CALL(dev, event_query, x->enqueued.gate_event) == SELVAGE_IN_PROGRESS))) {
        x->failure.device_busy = (double)(sv_clock_ns() - begin_ns) > PARTING_TIMEOUT_S * 1e9;
        if (!sv_comm_poll(x->comm))
            sv_backoff(&backoff);
    }
    if (x->failure.device_busy)
        atomic_store_explicit(&x->comm->device_stuck, true, memory_order_relaxed);
    x->failure.device_busy = atomic_load_explicit(&x->comm->device_stuck, memory_order_relaxed);
    x->failure.quarantined |= x->failure.device_busy;
}

static void leave_exchange(selvage_exchange_t *x)
{
    selvage_comm_t *comm = x->comm;
    sv_deadline_t deadline;
    uint64_t unused = 0;

    /* After an enqueued wait that a progress thread answers the epoch is no abandoned one: a stream waits for its
       data. */
    sv_deadline_begin(&deadline, comm, comm->timeout_s);
    while (!comm->detached && x->enqueued.gated_epoch && x->enqueued.gated_epoch == x->started &&
           sv_exchange_state(x) == SV_EXCHANGE_RUNNING)
        if (sv_deadline_poll(&deadline) != SELVAGE_SUCCESS)
            break;
    if (!comm->detached && sv_exchange_state(x) == SV_EXCHANGE_RUNNING) {
        sv_log(SV_LOG_WARN, "exchange", "an exchange is destroyed while epoch %llu is under way",
               (unsigned long long)x->epoch);
        sv_exchange_poison(x, sv_error_quiet(SELVAGE_ERR_STATE, "the exchange was destroyed in mid-epoch"), true);
    }
    const bool poisoned = sv_exchange_state(x) == SV_EXCHANGE_POISONED, lost = poisoned || x->failure.lost_epoch;
    const bool late = comm->timeout_s <= 0 || comm->timeout_s > PARTING_TIMEOUT_S;
    const double timeout_s = lost && late ? PARTING_TIMEOUT_S : comm->timeout_s;
    drain_device(x);
    if (comm->detached) { /* MPI is gone: what it still held was withdrawn at MPI_Finalize */
        set_aside(x);
        return;
    }

    /* Waits for resends that crossed a verdict; their receivers discard them in their own destroy. */
    comm->exchanges->parting = x;
    bool overdue = false;
    sv_deadline_begin(&deadline, comm, timeout_s);
    for (uint32_t i = 0; i < x->nsends && !overdue; i++)
        while (!overdue && sv_staged_reap_in_flight(&x->sends[i], sv_clock_ns()) == SELVAGE_IN_PROGRESS)
            overdue = sv_deadline_poll(&deadline) != SELVAGE_SUCCESS;
    /* What neighbours free after the agreement is free: nobody has it mapped. Polls do not touch it any more. */
    if (!x->failure.device_busy)
        sv_commit_unmap(x);
    const selvage_status_t parted = x->neighbors ? sv_neighbors_part(x, timeout_s)
                                                 : sv_agree(comm, "selvage_exchange_destroy", x->create_number,
                                                            SELVAGE_SUCCESS, &unused, timeout_s);
    x->failure.quarantined |= parted != SELVAGE_SUCCESS;
    comm->exchanges->parting = NULL;
    sv_exchange_withdraw(x);
    if (x->failure.quarantined)
        set_aside(x);
}

void sv_exchange_destroy(selvage_exchange_t *x)
{
    if (x->committed)
        leave_exchange(x);
    sv_exchange_release(x);
    sv_list_remove(&x->link);
    sv_free(x);
}
