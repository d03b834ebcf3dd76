/* SPDX-License-Identifier: BSD-3-Clause */
/* What a communicator calls its exchanges for. See exchange_set.h. */
#include "pipeline/exchange_set.h"

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "comm/comm_control.h"
#include "pipeline/pipe_commit.h"
#include "pipeline/pipe_exchange.h"
#include "pipeline/pipe_phases.h"
#include "pipeline/route.h"

static selvage_status_t create_exchange_set(selvage_comm_t *comm)
{
    const double PROBE_TIMEOUT_S = 30.0;
    sv_exchange_set_t *set;
    SV_TRY(sv_calloc(1, sizeof *set, &set));
    set->probe_timeout_s = PROBE_TIMEOUT_S;
    sv_list_init(&set->all);
    sv_list_init(&set->active);
    sv_list_init(&set->fallbacks);
    sv_list_init(&set->pending_handshakes);
    sv_neighbor_table_init(&set->neighbors);
    comm->exchanges = set;
    return SELVAGE_SUCCESS;
}

static void destroy_exchange_set(selvage_comm_t *comm)
{
    if (!comm->exchanges)
        return;
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &comm->exchanges->pending_handshakes)
    {
        sv_list_remove(it);
        sv_free(SV_CONTAINER_OF(it, sv_pending_handshake_t, link));
    }
    sv_fallback_forget(comm);
    sv_neighbor_table_fini(&comm->exchanges->neighbors);
    sv_free(comm->exchanges);
    comm->exchanges = NULL;
}

/* --- progress ----------------------------------------------------------------------------------------------------- */

/* Looking for messages costs as much as all the words of an exchange. Where words say everything but bad news, it is
   done now and then. */
static bool needs_control(selvage_comm_t *comm)
{
    enum { NOW_AND_THEN = 8 };
    sv_exchange_set_t *set = comm->exchanges;
    bool talks = sv_list_is_empty(&set->active);
    for (const sv_list_t *it = set->active.next; it != &set->active && !talks; it = it->next)
        talks = SV_CONTAINER_OF(it, selvage_exchange_t, active_link)->messaged;
    return talks || ++set->polls % NOW_AND_THEN == 0;
}

static bool poll_exchange_set(selvage_comm_t *comm)
{
    sv_exchange_set_t *set = comm->exchanges;
    bool moved = false;
    uint64_t now_ns = sv_clock_ns();
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &set->active)
        moved |= sv_exchange_poll(SV_CONTAINER_OF(it, selvage_exchange_t, active_link), now_ns);
    selvage_exchange_t *parting = set->parting;
    for (uint32_t i = 0; parting && i < parting->nrecvs && sv_exchange_state(parting) == SV_EXCHANGE_IDLE; i++) {
        sv_recv_t *recv = &parting->recvs[i];
        if (recv->p.ops->discard_duplicate && recv->p.ops->discard_duplicate(recv) != SELVAGE_SUCCESS)
            parting = set->parting = NULL; /* destroying goes on, and sets the memory aside */
    }
    return moved;
}

static bool is_exchange_set_idle(const selvage_comm_t *comm)
{
    return sv_list_is_empty(&comm->exchanges->active) && !comm->exchanges->parting;
}

/* --- control messages --------------------------------------------------------------------------------------------- */

/* Neighbours have numbers of their own for what only they commit, so the same may mean another one to another rank. */
static selvage_exchange_t *find_exchange(selvage_comm_t *comm, int source, uint64_t id)
{
    sv_exchange_set_t *set = comm->exchanges;
    const bool is_neighbors = (id - comm->nonce) & SV_NEIGHBOR_NUMBER;
    const sv_neighbor_t *neighbor = is_neighbors ? sv_neighbor_find(&set->neighbors, source) : NULL;
    for (const sv_list_t *it = neighbor ? neighbor->pairs.next : NULL; it && it != &neighbor->pairs; it = it->next) {
        const sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, pair_link);
        if (peer->exchange_id == id)
            return peer->x;
    }
    for (sv_list_t *it = set->all.next; it != &set->all && !is_neighbors; it = it->next) {
        selvage_exchange_t *x = SV_CONTAINER_OF(it, selvage_exchange_t, link);
        if (!x->neighbors && x->id == id)
            return x;
    }
    return NULL;
}

static selvage_status_t take_exchange_control(selvage_comm_t *comm, int source, const sv_wire_control_t *message)
{
    /* 1. Those of a commit. */
    const uint64_t *word = message->word;
    const sv_control_type_t type = (sv_control_type_t)word[0];
    switch (type) {
    case SV_CONTROL_RESEND_HANDSHAKE:
        return sv_commit_receive_resend(comm, source, word[1]);
    case SV_CONTROL_HANDSHAKE:
        return sv_commit_receive_handshake(comm, source, message);
    case SV_CONTROL_HANDSHAKE_ACK:
        sv_commit_receive_ack(comm, source, word[1]);
        return SELVAGE_SUCCESS;
    case SV_CONTROL_NEIGHBOR:
        return sv_neighbors_take_word(comm, source, message);
    case SV_CONTROL_NEIGHBOR_ACK:
        sv_neighbors_take_ack(comm, source, message);
        return SELVAGE_SUCCESS;
    case SV_CONTROL_VERDICT:
    case SV_CONTROL_RESEND:
    case SV_CONTROL_QUERY:
    case SV_CONTROL_FAIL:
        break;
    default:
        sv_log(SV_LOG_WARN, "control", "rank %d sent a control message of unknown type %llu", source,
               (unsigned long long)word[0]);
        return SELVAGE_SUCCESS;
    }

    /* 2. The others name an exchange. A neighbour may leave commit, start and fail while this rank is still in commit:
       that word comes only once. */
    selvage_exchange_t *x = find_exchange(comm, source, word[1]);
    bool early_failure = x && x == comm->exchanges->committing && type == SV_CONTROL_FAIL;
    if (!x || (!x->committed && !early_failure))
        return SELVAGE_SUCCESS; /* destroyed meanwhile: whoever asks will learn it from the destroy agreement */
    sv_peer_t *peer = sv_exchange_peer(x, source);
    if (peer)
        peer->heard_ns = sv_clock_ns();

    /* 3. One that failed has no other answer than its failure. */
    bool asks = type == SV_CONTROL_RESEND || type == SV_CONTROL_QUERY;
    if (asks && sv_exchange_state(x) == SV_EXCHANGE_POISONED) {
        if (type == SV_CONTROL_QUERY) /* it failed in a later epoch, maybe */
            sv_recovery_take_query(x, source, word[2]);
        sv_exchange_notify_failure(x, source); /* the word of it was lost */
        return SELVAGE_SUCCESS;
    }

    /* 4. What it says of packets. */
    if (type == SV_CONTROL_VERDICT) {
        const uint64_t epoch = word[2];
        if (peer && epoch > peer->verdict_epoch && epoch <= x->epoch)
            peer->verdict_epoch = epoch;
    } else if (type == SV_CONTROL_RESEND)
        sv_recovery_take_request(x, source, word[2], (uint32_t)word[3], (unsigned)word[4], (sv_resend_reason_t)word[5]);
    else if (type == SV_CONTROL_QUERY)
        sv_recovery_take_query(x, source, word[2]);
    else
        sv_recovery_peer_failed(x, source, message);
    return SELVAGE_SUCCESS;
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static void poison_active(selvage_comm_t *comm, selvage_status_t status)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &comm->exchanges->active)
        sv_exchange_poison(SV_CONTAINER_OF(it, selvage_exchange_t, active_link), status, true);
}

static unsigned count_exchanges(const selvage_comm_t *comm)
{
    unsigned count = 0;
    for (const sv_list_t *it = comm->exchanges->all.next; it != &comm->exchanges->all; it = it->next)
        count++;
    return count;
}

static void detach_exchanges(selvage_comm_t *comm, selvage_status_t status)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &comm->exchanges->all) {
        selvage_exchange_t *x = SV_CONTAINER_OF(it, selvage_exchange_t, link);
        if (!x->committed)
            continue;
        sv_exchange_poison(x, status, true);
        sv_exchange_withdraw(x);
    }
}

static void release_exchanges(selvage_comm_t *comm)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &comm->exchanges->all) {
        selvage_exchange_t *x = SV_CONTAINER_OF(it, selvage_exchange_t, link);
        if (x->committed && !comm->detached)
            sv_exchange_withdraw(x);
        x->failure.device_busy |= atomic_load_explicit(&comm->device_stuck, memory_order_relaxed);
        x->failure.quarantined |= x->failure.device_busy || (x->committed && comm->broken != SELVAGE_SUCCESS);
        sv_exchange_release(x);
        sv_list_remove(&x->link);
        sv_free(x);
    }
}

const sv_exchange_set_ops_t sv_exchange_set_ops = {
    .create = create_exchange_set,
    .needs_control = needs_control,
    .poll = poll_exchange_set,
    .is_idle = is_exchange_set_idle,
    .control = take_exchange_control,
    .poison = poison_active,
    .count = count_exchanges,
    .detach = detach_exchanges,
    .release = release_exchanges,
    .destroy = destroy_exchange_set,
};

/* --- wire tags ---------------------------------------------------------------------------------------------------- */

selvage_status_t sv_exchange_tag_get(selvage_comm_t *comm, int *tag_out)
{
    sv_exchange_set_t *set = comm->exchanges;
    int limit = comm->wire->tag_max < SV_EXCHANGE_TAGS - 1 ? comm->wire->tag_max + 1 : SV_EXCHANGE_TAGS;
    for (int tried = 0; tried < limit; tried++) {
        int tag = set->tag_next;
        set->tag_next = (tag + 1) % limit;
        uint64_t bit = UINT64_C(1) << (tag % 64);
        if (set->tags_in_use[tag / 64] & bit)
            continue;
        set->tags_in_use[tag / 64] |= bit;
        *tag_out = tag;
        return SELVAGE_SUCCESS;
    }
    return sv_error(SELVAGE_ERR_LIMIT, "all %d wire tags of this rank are in use by committed receives", limit);
}

void sv_exchange_tag_put(selvage_comm_t *comm, int tag)
{
    comm->exchanges->tags_in_use[tag / 64] &= ~(UINT64_C(1) << (tag % 64));
}
