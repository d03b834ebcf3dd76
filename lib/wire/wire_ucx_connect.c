/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who is connected over UCX. A rank that wants to send to another one tells it its own UCX address and asks for the
 * other's, by control messages of MPI's wire. Nobody waits for that: what is sent meanwhile is kept in order.
 *
 *   word 0: | magic: 16 bits | wants an answer: 16 | where in the address: 16 | length of the address: 16 |
 *   words 1 to 6: 48 bytes of the address, which is a contact (wire_ucx_watch.h) and UCX's own address
 *
 * The parts of an address come in order. One that was lost makes the rest of its turn useless. So who still misses an
 * address after a while tells its own once more and asks again; who has it already ignores what comes. MPI's wire has
 * checked the parts.
 *
 * Endpoints have UCX's error handling by peer. If a process or the link to it is gone, UCX says so, and the rank is
 * marked: sends to it fail, and receives from it that are waited for, and the next poll of control messages. UCX does
 * not see all of it, so ranks that are connected are watched as well (wire_ucx_watch.h). Shared memory alone is without
 * UCX's error handling: what is under way to a rank that goes stays with UCX there.
 */
#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "wire/wire_ucx_private.h"

enum { MAGIC = 0x5543, PART_BYTES = 48, POLL_EVERY = 32, DOUBLINGS_MAX = 6 };

#define POLL_NS UINT64_C(500000)
#define ASK_AGAIN_NS UINT64_C(200000000) /* doubles with every question: the other rank may be computing */

static void mark_gone(sv_ucx_peer_t *peer, ucs_status_t why, const char *what, const char *detail)
{
    sv_wire_ucx_t *wire = peer->wire;
    if (wire->ending || peer->state == SV_UCX_GONE)
        return;
    peer->state = SV_UCX_GONE;
    peer->why = why;
    if (peer->left)
        return;
    if (!wire->lost)
        wire->lost = peer;
    sv_log(SV_LOG_ERROR, "wire", "rank %d is gone: %s%s: %s", peer->rank, what, detail, wire->ucp->status_string(why));
}

static void on_peer_error(void *arg, ucp_ep_h endpoint, ucs_status_t status)
{
    sv_ucx_peer_t *peer = arg;
    (void)endpoint;
    mark_gone(peer, status, "UCX says", "");
}

/* Nothing will ever be sent to it: what waits for its address ends. Also while this rank closes. */
static void lose_peer(sv_ucx_peer_t *peer, ucs_status_t why, const char *what)
{
    if (peer->state == SV_UCX_ASKED)
        peer->wire->nasked--;
    mark_gone(peer, why, what, "");
    peer->state = SV_UCX_GONE;
    peer->why = why;
    sv_ucx_flush_waiting(peer);
}

void sv_ucx_declare_gone(sv_ucx_peer_t *peer, ucs_status_t why, const char *device)
{
    sv_wire_ucx_t *wire = peer->wire;
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    if (wire->ending || peer->state == SV_UCX_GONE)
        return;
    if (peer->state == SV_UCX_ASKED) {
        lose_peer(peer, why, "its process has ended");
        return;
    }
    mark_gone(peer, why, device ? "no answer any more by " : "its process has ended", device ? device : "");
    if (peer->unwatched)
        return; /* UCX would not force it: what is open there stays so */
    void *request = wire->ucp->ep_close_nbx(peer->endpoint, &param);
    peer->endpoint = NULL;
    peer->closing = UCS_PTR_IS_ERR(request) ? NULL : request;
}

/* Which rails UCX goes by. If it does not say, none is known to be. */
static void note_lanes(sv_ucx_peer_t *peer)
{
    const sv_wire_ucx_t *wire = peer->wire;
    sv_ucx_resource_t lanes[SV_UCX_RESOURCES_MAX];
    const unsigned n = sv_ucx_list_lanes(wire->ucp, peer->endpoint, lanes);
    peer->lanes = 0;
    for (unsigned i = 0; i < n; i++)
        for (unsigned r = SV_UCX_LOOPBACK + 1; r < wire->watcher.nrails && strcmp(lanes[i].transport, "tcp") == 0; r++)
            if (strcmp(lanes[i].device, wire->watcher.rails[r].name) == 0)
                peer->lanes |= 1u << r;
}

/* By the contact and UCX's address after it. */
static void connect_peer(sv_ucx_peer_t *peer, const uint8_t *address)
{
    const sv_wire_ucx_t *wire = peer->wire;
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)(address + sizeof peer->contact),
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_peer_error, .arg = peer}};
    ucs_status_t status = wire->ucp->ep_create(wire->worker, &params, &peer->endpoint);
    if (status == UCS_ERR_UNREACHABLE) { /* on the other rank as well, so that both sides count alike */
        peer->unwatched = true;
        params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
        status = wire->ucp->ep_create(wire->worker, &params, &peer->endpoint);
    }
    if (status != UCS_OK) {
        peer->endpoint = NULL;
        lose_peer(peer, status, "UCX does not reach it");
        return;
    }
    peer->wire->nasked--;
    peer->state = SV_UCX_CONNECTED;
    peer->let_down = false;
    memcpy(&peer->contact, address, sizeof peer->contact);
    note_lanes(peer);
    sv_ucx_watch_peer(peer);
    sv_ucx_flush_waiting(peer);
}

/* Begins to tell this rank's address from its first byte. */
static void tell_address(sv_ucx_peer_t *peer, bool asks_back)
{
    peer->told_bytes = 0;
    peer->asks_back = asks_back;
    if (!peer->tells)
        sv_list_append(&peer->wire->telling, &peer->link);
    peer->tells = true;
    if (asks_back) {
        peer->asked_ns = sv_clock_ns();
        peer->asks++;
    }
}

static selvage_status_t make_peer(sv_wire_ucx_t *wire, int rank, sv_ucx_peer_t **peer_out)
{
    sv_ucx_peer_t *peer = NULL;
    SV_TRY(sv_calloc(1, sizeof *peer, &peer));
    peer->wire = wire;
    peer->rank = rank;
    sv_list_init(&peer->link);
    sv_list_init(&peer->waiting);
    wire->peers[rank] = *peer_out = peer;
    wire->nasked++;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_ucx_find_peer(sv_wire_ucx_t *wire, int rank, sv_ucx_peer_t **peer_out)
{
    if (rank < 0 || rank >= wire->base.size)
        return sv_error(SELVAGE_ERR_MPI, "UCX wire: there is no rank %d", rank);
    *peer_out = wire->peers[rank];
    if (*peer_out) {
        if ((*peer_out)->state == SV_UCX_ASKED && !(*peer_out)->tells) /* it has told something, and was not asked */
            tell_address(*peer_out, true);
        return SELVAGE_SUCCESS;
    }
    if (make_peer(wire, rank, peer_out) != SELVAGE_SUCCESS)
        return sv_error_quiet(SELVAGE_ERR_LIMIT, "UCX wire: no memory for rank %d", rank);
    if (rank == wire->base.rank)
        connect_peer(*peer_out, wire->address);
    else
        tell_address(*peer_out, true);
    return SELVAGE_SUCCESS;
}

/* One part of an address, or what is left of it. */
static void take_address_part(sv_ucx_peer_t *peer, const sv_wire_control_t *part)
{
    const size_t at = part->word[0] >> 16 & 0xffff, all = part->word[0] & 0xffff;
    if (peer->state != SV_UCX_ASKED || all <= sizeof(sv_ucx_contact_t))
        return;
    if (at == 0) {
        sv_free(peer->address);
        peer->address = NULL;
        peer->arrived_bytes = 0;
        peer->address_bytes = all;
        if (sv_calloc(1, all, &peer->address) != SELVAGE_SUCCESS)
            return; /* asked for again */
    }
    if (!peer->address || at != peer->arrived_bytes || all != peer->address_bytes)
        return;
    const size_t bytes = all - at < PART_BYTES ? all - at : PART_BYTES;
    memcpy(peer->address + at, &part->word[1], bytes);
    peer->arrived_bytes += bytes;
    if (peer->arrived_bytes < all)
        return;
    connect_peer(peer, peer->address);
    sv_free(peer->address);
    peer->address = NULL;
}

static void take_addresses(sv_wire_ucx_t *wire)
{
    sv_wire_control_t part;
    int source;
    selvage_status_t status;
    while ((status = sv_wire_control_poll(wire->mpi, &source, &part)) == SELVAGE_SUCCESS) {
        sv_ucx_peer_t *peer = wire->peers[source];
        if (part.word[0] >> 48 != MAGIC || (!peer && make_peer(wire, source, &peer) != SELVAGE_SUCCESS))
            continue;
        const bool last = (part.word[0] >> 16 & 0xffff) + PART_BYTES >= (part.word[0] & 0xffff);
        take_address_part(peer, &part);
        if ((part.word[0] >> 32 & 1) && last)
            tell_address(peer, peer->state == SV_UCX_ASKED);
    }
    if (status != SELVAGE_IN_PROGRESS)
        wire->broken = status; /* the next poll says so */
}

/* Parts of the own address, as many as MPI's wire takes. True: all have been told. */
static bool tell_parts(sv_ucx_peer_t *peer)
{
    const sv_wire_ucx_t *wire = peer->wire;
    while (peer->told_bytes < wire->address_bytes) {
        const size_t left = wire->address_bytes - peer->told_bytes, bytes = left < PART_BYTES ? left : PART_BYTES;
        sv_wire_control_t part = {.word = {(uint64_t)MAGIC << 48 | (uint64_t)peer->asks_back << 32 |
                                           (uint64_t)peer->told_bytes << 16 | wire->address_bytes}};
        memcpy(&part.word[1], wire->address + peer->told_bytes, bytes);
        const selvage_status_t status = sv_wire_control_send(wire->mpi, peer->rank, &part);
        if (status == SELVAGE_IN_PROGRESS)
            return false;
        if (status != SELVAGE_SUCCESS) {
            if (peer->state == SV_UCX_ASKED)
                lose_peer(peer, UCS_ERR_UNREACHABLE, "MPI does not reach it");
            return true; /* who misses it asks again */
        }
        peer->told_bytes += bytes;
    }
    return true;
}

/* Other ranks' questions are not looked for with each poll: MPI's own progress costs as much as UCX's. While nothing
   comes there is time for it, and MPI gives the core away there where it shares that. */
static bool is_time_to_ask(sv_wire_ucx_t *wire)
{
    wire->idle_polls = wire->moved ? 0 : wire->idle_polls + 1;
    if (wire->idle_polls >= POLL_EVERY) {
        wire->idle_polls = 0;
        return true;
    }
    if (++wire->polls % POLL_EVERY != 0)
        return false;
    const uint64_t now_ns = sv_clock_ns();
    if (now_ns - wire->addresses_ns < POLL_NS)
        return false;
    wire->addresses_ns = now_ns;
    return true;
}

void sv_ucx_exchange_addresses(sv_wire_ucx_t *wire)
{
    if (wire->closing || wire->broken != SELVAGE_SUCCESS ||
        (wire->nasked == 0 && sv_list_is_empty(&wire->telling) && !is_time_to_ask(wire)))
        return;
    take_addresses(wire);
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &wire->telling) {
        sv_ucx_peer_t *peer = SV_CONTAINER_OF(it, sv_ucx_peer_t, link);
        if (!tell_parts(peer))
            continue;
        /* Who is still wanted stays in the list, and is asked again. */
        if (peer->state == SV_UCX_ASKED) {
            const unsigned doublings = peer->asks < DOUBLINGS_MAX ? peer->asks : DOUBLINGS_MAX;
            if (sv_clock_ns() - peer->asked_ns > ASK_AGAIN_NS << doublings)
                tell_address(peer, true);
            continue;
        }
        sv_list_remove(&peer->link);
        sv_list_init(&peer->link);
        peer->tells = false;
    }
}

void sv_ucx_free_peers(sv_wire_ucx_t *wire)
{
    for (int i = 0; i < wire->base.size && wire->peers; i++) {
        if (wire->peers[i])
            sv_free(wire->peers[i]->address);
        sv_free(wire->peers[i]);
    }
    sv_free(wire->peers);
    wire->peers = NULL;
}
