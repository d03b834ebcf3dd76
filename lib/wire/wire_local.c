/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The local wire's life and its control channel: a world of mailboxes, one wire per rank, each driven by one thread.
 * The world owns the mailboxes and outlives its wires, so that a message may arrive after its reader has closed.
 * Control messages wait in a ring of fixed size per rank. A full ring refuses, as a busy MPI would. A mutex per mailbox
 * is all the synchronisation there is.
 */
#include <limits.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "wire/wire_local_private.h"

selvage_status_t sv_wire_local_check_peer(const sv_wire_t *base, int peer)
{
    if (peer < 0 || peer >= base->size)
        return sv_error(SELVAGE_ERR_MPI, "local wire: rank %d is not one of 0 to %d", peer, base->size - 1);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_wire_world_create(int size, int ranks_per_node, sv_wire_world_t **world_out)
{
    sv_wire_world_t *world = NULL;
    if (size < 1 || ranks_per_node < 0)
        return sv_error(SELVAGE_ERR_ARGUMENT, "a local world of %d ranks, %d per node", size, ranks_per_node);
    SV_TRY(sv_calloc(1, sizeof *world, &world));
    selvage_status_t status = sv_calloc((size_t)size, sizeof *world->mailboxes, &world->mailboxes);
    if (status != SELVAGE_SUCCESS) {
        sv_free(world);
        return status;
    }
    world->size = size;
    world->ranks_per_node = ranks_per_node > 0 ? ranks_per_node : size;
    for (int i = 0; i < size; i++) {
        sv_wire_mailbox_t *box = &world->mailboxes[i];
        pthread_mutex_init(&box->mutex, NULL); /* default attributes: cannot fail on Linux */
        sv_list_init(&box->idle);
        for (int channel = 0; channel < SV_WIRE_CHANNELS; channel++) {
            sv_list_init(&box->posted[channel]);
            sv_list_init(&box->unexpected[channel]);
        }
    }
    *world_out = world;
    return SELVAGE_SUCCESS;
}

void sv_wire_world_destroy(sv_wire_world_t *world)
{
    if (!world)
        return;
    for (int i = 0; i < world->size; i++) {
        sv_wire_local_free_nodes(&world->mailboxes[i]);
        pthread_mutex_destroy(&world->mailboxes[i].mutex);
    }
    sv_free(world->mailboxes);
    sv_free(world);
}

static void local_close(sv_wire_t *base)
{
    sv_wire_local_t *wire = (sv_wire_local_t *)base;
    if (!wire)
        return;
    sv_wire_mailbox_t *box = &wire->world->mailboxes[base->rank];
    pthread_mutex_lock(&box->mutex);
    sv_wire_local_forget_posted(box);
    box->open = false;
    pthread_mutex_unlock(&box->mutex);
    sv_free(wire);
}

static selvage_status_t local_control_send(sv_wire_t *base, int peer, sv_wire_control_t *message)
{
    sv_wire_local_t *wire = (sv_wire_local_t *)base;
    selvage_status_t status = SELVAGE_IN_PROGRESS;
    SV_TRY(sv_wire_local_check_peer(base, peer));
    sv_wire_mailbox_t *box = &wire->world->mailboxes[peer];
    message->check = sv_wire_control_check(message, base->rank, peer);
    pthread_mutex_lock(&box->mutex);
    if (box->message_count < SV_WIRE_LOCAL_MESSAGES) {
        unsigned slot = (box->message_head + box->message_count++) % SV_WIRE_LOCAL_MESSAGES;
        box->messages[slot] = (sv_wire_message_t){.source = base->rank, .message = *message};
        if (wire->corrupt_nth > 0 && ++wire->control_sent % wire->corrupt_nth == 0)
            box->messages[slot].message.word[wire->control_sent % SV_WIRE_CONTROL_WORDS] ^= 1u << 17;
        status = SELVAGE_SUCCESS;
    }
    pthread_mutex_unlock(&box->mutex);
    return status;
}

static selvage_status_t local_control_poll(sv_wire_t *base, int *source_out, sv_wire_control_t *message_out)
{
    sv_wire_mailbox_t *box = &((sv_wire_local_t *)base)->world->mailboxes[base->rank];
    /* Bounded, so that a flood of damaged messages cannot keep the caller here. */
    for (int i = 0; i < SV_WIRE_LOCAL_MESSAGES; i++) {
        sv_wire_message_t entry;
        pthread_mutex_lock(&box->mutex);
        const bool found = box->message_count > 0;
        if (found) {
            entry = box->messages[box->message_head];
            box->message_head = (box->message_head + 1) % SV_WIRE_LOCAL_MESSAGES;
            box->message_count--;
        }
        pthread_mutex_unlock(&box->mutex);
        if (!found)
            return SELVAGE_IN_PROGRESS;
        if (entry.message.check == sv_wire_control_check(&entry.message, entry.source, base->rank)) {
            *source_out = entry.source;
            *message_out = entry.message;
            return SELVAGE_SUCCESS;
        }
        base->control_damaged++;
    }
    return SELVAGE_IN_PROGRESS;
}

static selvage_status_t local_node_ranks(sv_wire_t *base, int **ranks_out, int *count_out)
{
    int per_node = ((sv_wire_local_t *)base)->world->ranks_per_node;
    int first = base->rank / per_node * per_node;
    int count = base->size - first < per_node ? base->size - first : per_node;
    int *ranks = NULL;
    SV_TRY(sv_calloc((size_t)count, sizeof *ranks, &ranks));
    for (int i = 0; i < count; i++)
        ranks[i] = first + i;
    *ranks_out = ranks;
    *count_out = count;
    return SELVAGE_SUCCESS;
}

static const sv_wire_ops_t local_ops = {
    .abi = SV_WIRE_ABI,
    .name = "local",
    .close = local_close,
    .send = sv_wire_local_send,
    .recv = sv_wire_local_recv,
    .test = sv_wire_local_test,
    .cancel = sv_wire_local_cancel,
    .control_send = local_control_send,
    .control_poll = local_control_poll,
    .node_ranks = local_node_ranks,
};

selvage_status_t sv_wire_local_open(sv_wire_world_t *world, int rank, sv_wire_t **wire_out)
{
    sv_wire_local_t *wire = NULL;
    if (!world || rank < 0 || rank >= world->size)
        return sv_error(SELVAGE_ERR_ARGUMENT, "rank %d is not in the local world", rank);
    SV_TRY(sv_calloc(1, sizeof *wire, &wire));
    sv_wire_mailbox_t *box = &world->mailboxes[rank];
    pthread_mutex_lock(&box->mutex);
    const bool was_open = box->open;
    box->open = true;
    pthread_mutex_unlock(&box->mutex);
    if (was_open) {
        sv_free(wire);
        return sv_error(SELVAGE_ERR_STATE, "rank %d of the local world has a wire already", rank);
    }
    wire->base = (sv_wire_t){.ops = &local_ops,
                             .text = "local",
                             .rank = rank,
                             .size = world->size,
                             .tag_max = INT_MAX,
                             .threads_ok = 1};
    wire->world = world;
    *wire_out = &wire->base;
    return SELVAGE_SUCCESS;
}

void sv_wire_local_corrupt_control(sv_wire_t *wire, unsigned every_nth)
{
    if (wire && wire->ops == &local_ops)
        ((sv_wire_local_t *)wire)->corrupt_nth = every_nth;
}

void sv_wire_local_corrupt_long(sv_wire_t *wire, size_t from_bytes)
{
    if (wire && wire->ops == &local_ops)
        ((sv_wire_local_t *)wire)->corrupt_from_bytes = from_bytes;
}

uint64_t sv_wire_local_corrupt_some(sv_wire_t *wire, size_t from_bytes, unsigned every_nth)
{
    if (!wire || wire->ops != &local_ops)
        return 0;
    sv_wire_local_t *local = (sv_wire_local_t *)wire;
    local->corrupt_from_bytes = every_nth > 0 ? from_bytes : 0;
    local->corrupt_every = every_nth;
    return local->long_corrupted;
}
