/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The local wire's messages. As in an MPI, a short message is copied at once, and its send is complete. A long one
 * stays in the sender's buffer until the receive is there (rendezvous). So programs that forget to keep a buffer, or
 * count on buffering, fail here too.
 *
 * Nodes belong to the destination's mailbox, and everything happens under its mutex. The mutex orders the copy after
 * the sender's writes and before the receiver's reads. A message that was too long is an error of the receiver's; the
 * sender sees success.
 */
#include <limits.h>
#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "wire/wire_local_private.h"

enum { EAGER_BYTES = 65536, CHUNK_NODES = 64 };

typedef enum request_kind {
    KIND_NONE,
    KIND_COMPLETE, /* a send that is over */
    KIND_SEND,     /* a long send; the node is in the peer's mailbox */
    KIND_RECV      /* the node is in the own mailbox */
} request_kind_t;

struct sv_wire_chunk {
    sv_wire_chunk_t *next;
    sv_wire_node_t nodes[CHUNK_NODES];
};

/* The four words of a request, by name. */
typedef struct request_words {
    uint64_t kind;
    uint64_t node;
    uint64_t owner; /* rank of the mailbox */
    uint64_t bytes; /* of a send */
} request_words_t;

_Static_assert(sizeof(request_words_t) == sizeof(sv_wire_request_t), "both are the same four words");

static void pack_local_request(sv_wire_request_t *out, request_kind_t kind, const sv_wire_node_t *node, int owner,
                               size_t bytes)
{
    request_words_t words = {.kind = kind, .node = (uintptr_t)node, .owner = (uint64_t)owner, .bytes = bytes};
    memcpy(out, &words, sizeof words);
}

static sv_wire_mailbox_t *mailbox_of(const sv_wire_t *base, int rank)
{
    return &((const sv_wire_local_t *)base)->world->mailboxes[rank];
}

/* Takes an idle node; makes more when there is none. */
static selvage_status_t take_node(sv_wire_mailbox_t *box, sv_wire_node_t **out)
{
    if (sv_list_is_empty(&box->idle)) {
        sv_wire_chunk_t *chunk = NULL;
        if (sv_calloc(1, sizeof *chunk, &chunk) != SELVAGE_SUCCESS)
            return sv_error_quiet(SELVAGE_ERR_LIMIT, "local wire: no memory for more requests");
        chunk->next = box->chunks;
        box->chunks = chunk;
        for (int i = 0; i < CHUNK_NODES; i++)
            sv_list_append(&box->idle, &chunk->nodes[i].link);
    }
    sv_wire_node_t *node = SV_CONTAINER_OF(box->idle.next, sv_wire_node_t, link);
    sv_list_remove(&node->link);
    node->done = node->stored = false;
    node->arrived = 0;
    *out = node;
    return SELVAGE_SUCCESS;
}

static void drop_node(sv_wire_mailbox_t *box, sv_wire_node_t *node)
{
    sv_list_remove(&node->link);
    sv_list_append(&box->idle, &node->link);
}

void sv_wire_local_forget_posted(sv_wire_mailbox_t *box)
{
    for (int i = 0; i < SV_WIRE_CHANNELS; i++) {
        while (!sv_list_is_empty(&box->posted[i]))
            drop_node(box, SV_CONTAINER_OF(box->posted[i].next, sv_wire_node_t, link));
    }
}

void sv_wire_local_free_nodes(sv_wire_mailbox_t *box)
{
    while (box->chunks) {
        sv_wire_chunk_t *chunk = box->chunks;
        box->chunks = chunk->next;
        for (int i = 0; i < CHUNK_NODES; i++)
            sv_free(chunk->nodes[i].store);
        sv_free(chunk);
    }
}

/* The oldest entry for this source and tag, or NULL. A receive may be, or be looked for, for any source. */
static sv_wire_node_t *find_oldest_node(sv_list_t *list, int source, int tag)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, list)
    {
        sv_wire_node_t *node = SV_CONTAINER_OF(it, sv_wire_node_t, link);
        if (node->tag == tag && (node->source == source || node->source == SV_WIRE_ANY_SOURCE ||
                                 source == SV_WIRE_ANY_SOURCE))
            return node;
    }
    return NULL;
}

/* Copies a message into a receive, which is complete then and on no list. */
static void deliver_message(sv_wire_node_t *receive, const void *buf, size_t bytes)
{
    size_t fits = bytes < receive->bytes ? bytes : receive->bytes;
    if (fits > 0)
        memcpy(receive->buf, buf, fits);
    receive->arrived = bytes;
    receive->done = true;
    sv_list_remove(&receive->link);
}

/* Leaves a message in the mailbox until somebody asks for it. A short one is copied into the node. */
static selvage_status_t leave_unexpected(sv_wire_mailbox_t *box, sv_list_t *list, const sv_wire_node_t *message,
                                         sv_wire_node_t **node_out)
{
    sv_wire_node_t *node;
    const size_t bytes = message->bytes;
    SV_TRY(take_node(box, &node));
    node->source = message->source;
    node->tag = message->tag;
    node->bytes = bytes;
    node->buf = message->buf;
    if (bytes <= EAGER_BYTES) {
        if (node->store_bytes < bytes) {
            void *fresh = NULL;
            if (sv_calloc(bytes, 1, &fresh) != SELVAGE_SUCCESS) {
                drop_node(box, node);
                return sv_error_quiet(SELVAGE_ERR_LIMIT, "local wire: no memory to hold a message of %zu bytes", bytes);
            }
            sv_free(node->store);
            node->store = fresh;
            node->store_bytes = bytes;
        }
        if (bytes > 0)
            memcpy(node->store, message->buf, bytes);
        node->buf = node->store;
        node->stored = true;
    }
    sv_list_append(list, &node->link);
    *node_out = node;
    return SELVAGE_SUCCESS;
}

static selvage_status_t check_local_message(const sv_wire_t *base, int peer, size_t bytes)
{
    if (bytes > INT_MAX)
        return sv_error(SELVAGE_ERR_LIMIT, "a message of %zu bytes is more than the local wire takes", bytes);
    return sv_wire_local_check_peer(base, peer);
}

selvage_status_t sv_wire_local_send(sv_wire_t *base, sv_wire_channel_t channel, const void *buf, size_t bytes, int peer,
                                    int tag, sv_wire_request_t *request_out)
{
    SV_TRY(check_local_message(base, peer, bytes));
    sv_wire_mailbox_t *box = mailbox_of(base, peer);
    sv_wire_node_t message = {.source = base->rank, .tag = tag, .buf = (void *)(uintptr_t)buf, .bytes = bytes};
    sv_wire_node_t *node = NULL;
    selvage_status_t status = SELVAGE_SUCCESS;
    pthread_mutex_lock(&box->mutex);
    sv_wire_node_t *receive = find_oldest_node(&box->posted[channel], base->rank, tag);
    if (receive)
        deliver_message(receive, buf, bytes);
    else
        status = leave_unexpected(box, &box->unexpected[channel], &message, &node);
    if (status == SELVAGE_SUCCESS)
        pack_local_request(request_out, node && !node->stored ? KIND_SEND : KIND_COMPLETE, node, peer, bytes);
    pthread_mutex_unlock(&box->mutex);
    return status;
}

selvage_status_t sv_wire_local_recv(sv_wire_t *base, sv_wire_channel_t channel, void *buf, size_t capacity, int peer,
                                    int tag, sv_wire_request_t *request_out)
{
    SV_TRY(check_local_message(base, peer == SV_WIRE_ANY_SOURCE ? base->rank : peer, capacity));
    sv_wire_mailbox_t *box = mailbox_of(base, base->rank);
    sv_wire_node_t *receive;
    pthread_mutex_lock(&box->mutex);
    selvage_status_t status = take_node(box, &receive);
    if (status == SELVAGE_SUCCESS) {
        receive->source = peer;
        receive->tag = tag;
        receive->buf = buf;
        receive->bytes = capacity;
        sv_wire_node_t *message = find_oldest_node(&box->unexpected[channel], peer, tag);
        if (!message) {
            sv_list_append(&box->posted[channel], &receive->link);
        } else {
            deliver_message(receive, message->buf, message->bytes);
            message->done = true;
            if (message->stored)
                drop_node(box, message);
            else
                sv_list_remove(&message->link); /* the sender's test gives the node back */
        }
        pack_local_request(request_out, KIND_RECV, receive, base->rank, capacity);
    }
    pthread_mutex_unlock(&box->mutex);
    return status;
}

/* Looks at a request's node. SUCCESS: it is over and given back. For a receive arrived and capacity are set. */
static selvage_status_t end_node(sv_wire_mailbox_t *box, sv_wire_node_t *node, bool withdraw, size_t *arrived,
                                 size_t *capacity)
{
    pthread_mutex_lock(&box->mutex);
    selvage_status_t status = node->done || withdraw ? SELVAGE_SUCCESS : SELVAGE_IN_PROGRESS;
    if (status == SELVAGE_SUCCESS) {
        *arrived = node->arrived;
        *capacity = node->bytes;
        drop_node(box, node);
    }
    pthread_mutex_unlock(&box->mutex);
    return status;
}

/* For tests: the message that has just been received loses a bit. */
static void corrupt_message(sv_wire_t *base, uint8_t *buf, size_t bytes)
{
    sv_wire_local_t *local = (sv_wire_local_t *)base;
    size_t at = bytes / 2;
    if (local->corrupt_from_bytes == 0 || bytes < local->corrupt_from_bytes)
        return;
    if (local->corrupt_every > 0) {
        if (++local->long_taken % local->corrupt_every)
            return;
        at = (size_t)(local->long_taken * UINT64_C(0x9e3779b97f4a7c15) >> 20) % bytes;
    }
    local->long_corrupted++;
    buf[at] ^= 0x10;
}

selvage_status_t sv_wire_local_test(sv_wire_t *base, sv_wire_request_t *request, size_t *bytes_out)
{
    request_words_t words;
    size_t arrived = 0, capacity = 0;
    memcpy(&words, request, sizeof words);
    if (words.kind == KIND_SEND || words.kind == KIND_RECV) {
        sv_wire_node_t *node = (sv_wire_node_t *)(uintptr_t)words.node;
        void *buf = node->buf;
        SV_TRY(end_node(mailbox_of(base, (int)words.owner), node, false, &arrived, &capacity));
        if (words.kind == KIND_RECV && arrived <= capacity)
            corrupt_message(base, buf, arrived);
    }
    memset(request, 0, sizeof *request);
    if (words.kind == KIND_RECV && arrived > capacity)
        return sv_error(SELVAGE_ERR_MPI, "local wire: a message of %zu bytes was cut to the receive's %zu", arrived,
                        capacity);
    if (bytes_out)
        *bytes_out = words.kind == KIND_RECV ? arrived : (size_t)words.bytes;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_wire_local_cancel(sv_wire_t *base, sv_wire_request_t *request)
{
    request_words_t words;
    size_t arrived, capacity;
    memcpy(&words, request, sizeof words);
    memset(request, 0, sizeof *request);
    if (words.kind != KIND_SEND && words.kind != KIND_RECV)
        return SELVAGE_SUCCESS;
    return end_node(mailbox_of(base, (int)words.owner), (sv_wire_node_t *)(uintptr_t)words.node, true, &arrived,
                    &capacity);
}
