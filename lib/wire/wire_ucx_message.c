/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UCX wire's messages: tagged sends and receives.
 *
 *   tag of UCX:  | channel: 2 bits | source: 30 bits | tag: 32 bits |
 *
 * A receive from any rank leaves the source out of its mask. UCX keeps the order of messages with one tag between two
 * workers, and fills receives in the order in which they were posted.
 *
 * An operation is taken from a list for each message and holds what UCX tells its callback. The caller's request is the
 * operation's address, so that nothing is looked up. A rank that is gone fails the sends to it, and the receives from
 * it that are tested.
 *
 * UCX moves nothing while its process is in calls of MPI's own. So a send may be complete for the program and leave
 * later, with the next call of Selvage's or by its progress thread.
 */
#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "wire/wire_ucx_private.h"

enum { SOURCE_SHIFT = 32, SOURCE_BITS = 30, CHANNEL_SHIFT = 62, CHUNK_OPERATIONS = 64, WITHDRAW_SLEEP_US = 20 };

#define BYTES_MAX (((size_t)1 << 30) + 64)
#define WITHDRAW_NS UINT64_C(50000000)
#define WITHDRAW_ADDRESS_NS UINT64_C(1000000000)

struct sv_ucx_chunk {
    sv_ucx_chunk_t *next;
    sv_ucx_operation_t operations[CHUNK_OPERATIONS];
};

/* The words of a request, by name. */
typedef struct request_words {
    uint64_t operation; /* its address */
    uint64_t is_open;
    uint64_t bytes;
    uint64_t unused;
} request_words_t;

_Static_assert(sizeof(request_words_t) == sizeof(sv_wire_request_t), "both are the same four words");

sv_ucx_operation_t *sv_ucx_take(sv_wire_ucx_t *wire)
{
    if (sv_list_is_empty(&wire->idle)) {
        sv_ucx_chunk_t *chunk = NULL;
        if (sv_calloc(1, sizeof *chunk, &chunk) != SELVAGE_SUCCESS)
            return NULL;
        chunk->next = wire->chunks;
        wire->chunks = chunk;
        for (unsigned i = 0; i < CHUNK_OPERATIONS; i++)
            sv_list_append(&wire->idle, &chunk->operations[i].link);
    }
    sv_ucx_operation_t *operation = SV_CONTAINER_OF(wire->idle.next, sv_ucx_operation_t, link);
    sv_list_remove(&operation->link);
    *operation = (sv_ucx_operation_t){.wire = wire};
    sv_list_init(&operation->link);
    return operation;
}

void sv_ucx_give(sv_ucx_operation_t *operation)
{
    sv_list_remove(&operation->link);
    sv_list_append(&operation->wire->idle, &operation->link);
}

void sv_ucx_free_operations(sv_wire_ucx_t *wire)
{
    while (wire->chunks) {
        sv_ucx_chunk_t *chunk = wire->chunks;
        wire->chunks = chunk->next;
        sv_free(chunk);
    }
}

/* It is over: what nobody asks about any more goes back at once. */
static void end_operation(sv_ucx_operation_t *operation, ucs_status_t status)
{
    sv_wire_ucx_t *wire = operation->wire;
    operation->over = true;
    operation->status = status;
    if (status != UCS_OK && operation->peer != SV_WIRE_ANY_SOURCE && wire->peers[operation->peer] &&
        wire->peers[operation->peer]->state == SV_UCX_GONE)
        operation->status = wire->peers[operation->peer]->why; /* UCX says that it was cancelled */
    if (operation->abandoned)
        sv_ucx_give(operation);
    if (operation->kind != SV_UCX_CONTROL)
        return;
    if (status != UCS_OK && !wire->controls_lost && !wire->ending) {
        wire->controls_lost = true;
        sv_log(SV_LOG_ERROR, "wire", "a control message did not reach rank %d: UCX says: %s", operation->peer,
               wire->ucp->status_string(status));
    }
    wire->controls--;
    wire->peers[operation->peer]->controls--;
    sv_ucx_give(operation);
}

static void on_sent(void *request, ucs_status_t status, void *user)
{
    sv_ucx_operation_t *operation = user;
    operation->request = NULL;
    operation->wire->ucp->request_free(request);
    end_operation(operation, status);
}

static void on_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user)
{
    sv_ucx_operation_t *operation = user;
    operation->request = NULL;
    operation->wire->ucp->request_free(request);
    if (status == UCS_OK)
        operation->bytes = info->length;
    end_operation(operation, status);
}

/* What a call of UCX's gave: NULL, an error, or a request whose callback will come. A receive's may have come. */
static void take_request(sv_ucx_operation_t *operation, void *request)
{
    if (!request || UCS_PTR_IS_ERR(request))
        end_operation(operation, UCS_PTR_STATUS(request));
    else if (!operation->over)
        operation->request = request;
}

static void begin_send(sv_ucx_operation_t *operation, const sv_ucx_peer_t *peer)
{
    sv_wire_ucx_t *wire = operation->wire;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                 .cb = {.send = on_sent},
                                 .user_data = operation,
                                 .memory_type = UCS_MEMORY_TYPE_HOST};
    if (operation->kind == SV_UCX_CONTROL) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_AM_SEND_FLAG_EAGER;
        take_request(operation, wire->ucp->am_send_nbx(peer->endpoint, 0, NULL, 0, &operation->control,
                                                       sizeof operation->control, &param));
    } else {
        take_request(operation, wire->ucp->tag_send_nbx(peer->endpoint, operation->buf, operation->bytes,
                                                        operation->word, &param));
    }
}

void sv_ucx_flush_waiting(sv_ucx_peer_t *peer)
{
    while (!sv_list_is_empty(&peer->waiting)) {
        sv_ucx_operation_t *operation = SV_CONTAINER_OF(peer->waiting.next, sv_ucx_operation_t, link);
        sv_list_remove(&operation->link);
        sv_list_init(&operation->link);
        if (peer->state == SV_UCX_CONNECTED)
            begin_send(operation, peer);
        else
            end_operation(operation, peer->why);
    }
}

static selvage_status_t describe_failure(const sv_ucx_operation_t *operation)
{
    const char *why = operation->wire->ucp->status_string(operation->status);
    return sv_error(SELVAGE_ERR_MPI, "UCX: %s rank %d (%zu bytes, tag %d): %s",
                    operation->kind == SV_UCX_SEND ? "send to" : "receive from", operation->peer, operation->bytes,
                    operation->tag, why);
}

/* Said once for control messages, of which there may be many. */
static selvage_status_t refuse_for(const sv_ucx_operation_t *operation, sv_ucx_peer_t *peer)
{
    if (operation->kind != SV_UCX_CONTROL)
        return describe_failure(operation);
    const bool again = peer->reported;
    peer->reported = true;
    const char *why = operation->wire->ucp->status_string(peer->why);
    return again ? sv_error_quiet(SELVAGE_ERR_MPI, "UCX: rank %d is gone: %s", peer->rank, why)
                 : sv_error(SELVAGE_ERR_MPI, "UCX: rank %d is gone: %s", peer->rank, why);
}

selvage_status_t sv_ucx_send_operation(sv_ucx_operation_t *operation)
{
    sv_ucx_peer_t *peer;
    selvage_status_t status = sv_ucx_find_peer(operation->wire, operation->peer, &peer);
    if (status == SELVAGE_SUCCESS && peer->state == SV_UCX_GONE) {
        operation->status = peer->why;
        status = refuse_for(operation, peer);
    }
    if (status != SELVAGE_SUCCESS) {
        sv_ucx_give(operation);
        return status;
    }
    if (operation->kind == SV_UCX_CONTROL) {
        operation->wire->controls++;
        peer->controls++;
    }
    sv_list_append(&peer->waiting, &operation->link);
    if (peer->state == SV_UCX_CONNECTED)
        sv_ucx_flush_waiting(peer);
    return SELVAGE_SUCCESS;
}

static void fill_request(sv_wire_request_t *out, const sv_ucx_operation_t *operation)
{
    const request_words_t words = {.operation = (uintptr_t)operation, .is_open = 1, .bytes = operation->bytes};
    memcpy(out, &words, sizeof words);
}

static ucp_tag_t tag_word(sv_wire_channel_t channel, int source, int tag)
{
    return (ucp_tag_t)channel << CHANNEL_SHIFT | (ucp_tag_t)(unsigned)source << SOURCE_SHIFT | (uint32_t)tag;
}

static selvage_status_t take_operation(sv_wire_ucx_t *wire, size_t bytes, sv_ucx_operation_t **out)
{
    if (bytes > BYTES_MAX)
        return sv_error(SELVAGE_ERR_LIMIT, "a message of %zu bytes is more than a wire takes", bytes);
    *out = sv_ucx_take(wire);
    return *out ? SELVAGE_SUCCESS : sv_error_quiet(SELVAGE_ERR_LIMIT, "UCX wire: no memory for more requests");
}

selvage_status_t sv_ucx_send(sv_wire_t *base, sv_wire_channel_t channel, const void *buf, size_t bytes, int peer,
                             int tag, sv_wire_request_t *request_out)
{
    sv_wire_ucx_t *wire = (sv_wire_ucx_t *)base;
    sv_ucx_operation_t *operation = NULL;
    sv_ucx_lock(wire);
    selvage_status_t status = take_operation(wire, bytes, &operation);
    if (status == SELVAGE_SUCCESS) {
        operation->kind = SV_UCX_SEND;
        operation->peer = peer;
        operation->tag = tag;
        memcpy(&operation->buf, &buf, sizeof buf); /* UCX reads it only */
        operation->bytes = bytes;
        operation->word = tag_word(channel, base->rank, tag);
        status = sv_ucx_send_operation(operation);
    }
    if (status == SELVAGE_SUCCESS)
        fill_request(request_out, operation);
    sv_ucx_unlock(wire);
    return status;
}

selvage_status_t sv_ucx_recv(sv_wire_t *base, sv_wire_channel_t channel, void *buf, size_t capacity, int peer, int tag,
                             sv_wire_request_t *request_out)
{
    sv_wire_ucx_t *wire = (sv_wire_ucx_t *)base;
    sv_ucx_operation_t *operation = NULL;
    if (peer != SV_WIRE_ANY_SOURCE && (peer < 0 || peer >= base->size))
        return sv_error(SELVAGE_ERR_MPI, "UCX wire: there is no rank %d", peer);
    sv_ucx_lock(wire);
    selvage_status_t status = take_operation(wire, capacity, &operation);
    if (status == SELVAGE_SUCCESS) {
        const ucp_tag_t sources = tag_word(0, (1 << SOURCE_BITS) - 1, 0);
        /* Always by the callback, which is told the length. */
        const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                           UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                                                           UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                           .cb = {.recv = on_received},
                                           .user_data = operation,
                                           .memory_type = UCS_MEMORY_TYPE_HOST};
        operation->kind = SV_UCX_RECV;
        operation->peer = peer;
        operation->tag = tag;
        operation->bytes = capacity;
        operation->word = tag_word(channel, peer == SV_WIRE_ANY_SOURCE ? 0 : peer, tag);
        take_request(operation,
                     wire->ucp->tag_recv_nbx(wire->worker, buf, capacity, operation->word,
                                             peer == SV_WIRE_ANY_SOURCE ? ~sources : ~(ucp_tag_t)0, &param));
        fill_request(request_out, operation);
    }
    sv_ucx_unlock(wire);
    return status;
}

/* A receive from a rank that is gone will not be filled. */
static bool waits_for_nobody(const sv_ucx_operation_t *operation)
{
    const sv_wire_ucx_t *wire = operation->wire;
    if (operation->kind != SV_UCX_RECV || operation->peer == SV_WIRE_ANY_SOURCE || !wire->peers[operation->peer])
        return false;
    return wire->peers[operation->peer]->state == SV_UCX_GONE;
}

/* A send by transports that do not tell when a process goes stays with UCX, which takes none back. Its receiver's
   process has ended, so nobody takes more of its buffer. The operation goes back when UCX ends it, at the latest with
   its worker. */
static bool abandon_send(sv_ucx_operation_t *operation)
{
    if (operation->kind != SV_UCX_SEND || operation->over)
        return false;
    const sv_ucx_peer_t *peer = operation->wire->peers[operation->peer];
    operation->abandoned = peer->state == SV_UCX_GONE && peer->unwatched;
    if (operation->abandoned)
        operation->status = peer->why;
    return operation->abandoned;
}

static selvage_status_t end_request(sv_wire_request_t *request, sv_ucx_operation_t *operation, size_t *bytes_out)
{
    selvage_status_t status = SELVAGE_SUCCESS;
    if (operation->status != UCS_OK)
        status = describe_failure(operation);
    else if (bytes_out)
        *bytes_out = operation->bytes;
    if (!operation->abandoned)
        sv_ucx_give(operation);
    memset(request, 0, sizeof *request);
    return status;
}

selvage_status_t sv_ucx_test(sv_wire_t *base, sv_wire_request_t *request, size_t *bytes_out)
{
    sv_wire_ucx_t *wire = (sv_wire_ucx_t *)base;
    request_words_t words;
    memcpy(&words, request, sizeof words);
    if (!words.is_open) {
        if (bytes_out)
            *bytes_out = words.bytes;
        return SELVAGE_SUCCESS;
    }
    sv_ucx_operation_t *operation = (sv_ucx_operation_t *)(uintptr_t)words.operation;
    selvage_status_t status = SELVAGE_IN_PROGRESS;
    sv_ucx_lock(wire);
    if (!operation->over)
        sv_ucx_progress(wire);
    if (!operation->over && waits_for_nobody(operation)) {
        wire->ucp->request_cancel(wire->worker, operation->request);
        sv_ucx_progress(wire);
        if (operation->over && operation->status != UCS_OK)
            operation->status = wire->peers[operation->peer]->why;
    }
    if (operation->over || abandon_send(operation))
        status = end_request(request, operation, bytes_out);
    sv_ucx_unlock(wire);
    return status;
}

/* A send that has not begun, since its receiver's address is not there. */
static bool waits_for_address(const sv_ucx_operation_t *operation)
{
    return operation->kind == SV_UCX_SEND && !operation->request && !operation->over;
}

/* Receives are withdrawn; sends are let out, as nobody takes those back. One that still waits for its receiver's
   address after a second has not left, and does not any more; then no other waits so long for that rank. */
static bool try_to_end(sv_ucx_operation_t *operation, bool first, uint64_t begin_ns)
{
    sv_wire_ucx_t *wire = operation->wire;
    if (!operation->over && first && operation->kind == SV_UCX_RECV)
        wire->ucp->request_cancel(wire->worker, operation->request);
    if (!operation->over)
        sv_ucx_progress(wire);
    if (waits_for_address(operation)) {
        sv_ucx_peer_t *peer = wire->peers[operation->peer];
        peer->let_down |= sv_clock_ns() - begin_ns > WITHDRAW_ADDRESS_NS;
        if (peer->let_down) {
            sv_list_remove(&operation->link);
            sv_list_init(&operation->link);
            operation->over = true;
        }
    }
    return operation->over;
}

selvage_status_t sv_ucx_cancel(sv_wire_t *base, sv_wire_request_t *request)
{
    sv_wire_ucx_t *wire = (sv_wire_ucx_t *)base;
    sv_backoff_t backoff = {.max_sleep_us = WITHDRAW_SLEEP_US, .oversubscribed = 1};
    request_words_t words;
    memcpy(&words, request, sizeof words);
    if (!words.is_open)
        return SELVAGE_SUCCESS;
    sv_ucx_operation_t *operation = (sv_ucx_operation_t *)(uintptr_t)words.operation;
    const uint64_t begin_ns = sv_clock_ns();
    uint64_t at_work_ns = 0; /* since when it has been with UCX */
    bool over = false;
    for (bool first = true; !over; first = false) {
        sv_ucx_lock(wire);
        over = try_to_end(operation, first, begin_ns) || abandon_send(operation);
        if (at_work_ns == 0 && !waits_for_address(operation))
            at_work_ns = sv_clock_ns();
        if (over && !operation->abandoned)
            sv_ucx_give(operation);
        sv_ucx_unlock(wire);
        if (!over && at_work_ns && sv_clock_ns() - at_work_ns > WITHDRAW_NS)
            return SELVAGE_IN_PROGRESS;
        if (!over)
            sv_backoff(&backoff);
    }
    memset(request, 0, sizeof *request);
    return SELVAGE_SUCCESS;
}
