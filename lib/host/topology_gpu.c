/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks share a GPU. A kernel that waits for another rank's kernel must not sit on the GPU that the other needs,
 * so each rank learns how many ranks of its machine are on its own. GPUs are compared by bus id, because numbers mean
 * nothing between processes: a mask of visible devices renumbers them. Devices without one (soft) share nothing.
 *
 * Partitions of a GPU (MIG, CPX) have the bus id of the whole, so ranks on two partitions count as sharing. That is
 * safe: it costs them the kernels that wait, and whether partitions run side by side is not ours to promise.
 *
 *   rank i of the machine --- its bus id ---> first rank of the machine --- how many have it ---> rank i
 *
 * Each of these messages has its item twice, with a check word, so that what befalls one copy does no harm, and what
 * befalls both is seen: a rank that took another number would wait for a kernel that cannot run.
 *
 * The first rank needs memory for the ranks of the machine, the others for two messages. It is there before anybody
 * begins, because a rank that gave up for want of it would leave the others waiting. One thread.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "host/topology.h"

enum {
    GPU_TAG = 3, /* the set-up channel: the timeline has tags 1 and 2, commits those from 16 */
    BUS_BYTES = 32,
    COPIES = 2,
};

typedef struct gpu_item {
    char bus_id[BUS_BYTES];
    uint64_t sharers;
    uint64_t check; /* of what is before it */
} gpu_item_t;

typedef struct sv_gpu_message {
    gpu_item_t item, copy[COPIES]; /* what is said or was heard; the message */
    sv_wire_request_t request;
    int peer;
    bool sending, under_way;
} message_t;

/* What an exchange of messages needs. */
typedef struct gpu_gather {
    sv_wire_t *wire;
    message_t *messages;
    int count;
    sv_topology_wait_fn keep_waiting;
    void *arg;
} gpu_gather_t;

static selvage_status_t start_message(sv_wire_t *wire, message_t *message, int peer, bool sending)
{
    selvage_status_t status;
    message->item.check = sv_wire_setup_check(&message->item, offsetof(gpu_item_t, check), wire->rank, peer);
    for (int i = 0; i < COPIES; i++)
        message->copy[i] = sending ? message->item : (gpu_item_t){0};
    if (sending)
        status =
            sv_wire_send(wire, SV_WIRE_SETUP, message->copy, sizeof message->copy, peer, GPU_TAG, &message->request);
    else
        status =
            sv_wire_recv(wire, SV_WIRE_SETUP, message->copy, sizeof message->copy, peer, GPU_TAG, &message->request);
    message->peer = peer;
    message->sending = sending;
    message->under_way = status == SELVAGE_SUCCESS;
    return status;
}

/* What was heard, of the first copy that verifies. */
static selvage_status_t take_item(sv_wire_t *wire, message_t *message, size_t bytes)
{
    for (size_t i = 0; (i + 1) * sizeof *message->copy <= bytes; i++)
        if (message->copy[i].check ==
            sv_wire_setup_check(&message->copy[i], offsetof(gpu_item_t, check), message->peer, wire->rank)) {
            message->item = message->copy[i];
            return SELVAGE_SUCCESS;
        }
    return sv_error(SELVAGE_ERR_CHECKSUM, "what rank %d said of its GPU arrived damaged", message->peer);
}

static selvage_status_t await_messages(const gpu_gather_t *gathering)
{
    for (int i = 0; i < gathering->count;) {
        message_t *message = &gathering->messages[i];
        selvage_status_t status = SELVAGE_SUCCESS;
        size_t bytes = 0;
        if (!message->under_way) {
            i++;
            continue;
        }
        status = sv_wire_test(gathering->wire, &message->request, &bytes);
        if (status == SELVAGE_IN_PROGRESS) {
            SV_TRY(gathering->keep_waiting(gathering->arg));
            continue;
        }
        SV_TRY(status);
        message->under_way = false;
        if (!message->sending)
            SV_TRY(take_item(gathering->wire, message, bytes));
        i++;
    }
    return SELVAGE_SUCCESS;
}

/* After a failure: messages that the wire may still read or write are set aside. */
static void cancel_messages(sv_topology_t *topology, const gpu_gather_t *gathering)
{
    bool drained = true;
    for (int i = 0; i < gathering->count; i++) {
        message_t *message = &gathering->messages[i];
        if (!message->under_way)
            continue;
        if (message->sending)
            drained &= sv_wire_test(gathering->wire, &message->request, NULL) == SELVAGE_SUCCESS;
        else
            drained &= sv_wire_cancel(gathering->wire, &message->request) == SELVAGE_SUCCESS;
    }
    if (!drained)
        topology->messages = NULL;
}

static void count_sharers(message_t *messages, int count)
{
    for (int i = 0; i < count; i++) {
        messages[i].item.sharers = 0;
        for (int j = 0; j < count && messages[i].item.bus_id[0]; j++)
            messages[i].item.sharers += strncmp(messages[i].item.bus_id, messages[j].item.bus_id, BUS_BYTES) == 0;
    }
}

/* The first rank of the machine: message i is that of the machine's rank i; message 0 is its own and stays. */
static selvage_status_t gather_from_all(const sv_topology_t *topology, const gpu_gather_t *gathering)
{
    for (int i = 1; i < gathering->count; i++)
        SV_TRY(start_message(gathering->wire, &gathering->messages[i], topology->host_ranks[i], false));
    SV_TRY(await_messages(gathering));
    count_sharers(gathering->messages, gathering->count);
    for (int i = 1; i < gathering->count; i++)
        SV_TRY(start_message(gathering->wire, &gathering->messages[i], topology->host_ranks[i], true));
    return await_messages(gathering);
}

/* Any other: message 1 takes its bus id there, message 0 brings the answer back. */
static selvage_status_t send_to_first(const sv_topology_t *topology, const gpu_gather_t *gathering)
{
    gathering->messages[1] = gathering->messages[0];
    SV_TRY(start_message(gathering->wire, &gathering->messages[0], topology->host_ranks[0], false));
    SV_TRY(start_message(gathering->wire, &gathering->messages[1], topology->host_ranks[0], true));
    return await_messages(gathering);
}

static bool is_first_of_machine(const sv_topology_t *topology)
{
    return topology->host_ranks[0] == topology->rank;
}

static int count_messages(const sv_topology_t *topology)
{
    return is_first_of_machine(topology) ? topology->host_size : 2;
}

selvage_status_t sv_topology_make_messages(sv_topology_t *topology)
{
    return sv_calloc((size_t)count_messages(topology), sizeof *topology->messages, &topology->messages);
}

void sv_topology_free_messages(sv_topology_t *topology)
{
    sv_free(topology->messages);
    topology->messages = NULL;
}

selvage_status_t sv_topology_find_gpu(sv_topology_t *topology, sv_wire_t *wire, const char *bus_id,
                                      sv_topology_wait_fn keep_waiting, void *arg)
{
    gpu_gather_t gathering = {.wire = wire,
                              .messages = topology->messages,
                              .count = count_messages(topology),
                              .keep_waiting = keep_waiting,
                              .arg = arg};
    snprintf(gathering.messages[0].item.bus_id, BUS_BYTES, "%s", bus_id);
    selvage_status_t status =
        is_first_of_machine(topology) ? gather_from_all(topology, &gathering) : send_to_first(topology, &gathering);
    if (status == SELVAGE_SUCCESS)
        topology->gpu_ranks = (int)gathering.messages[0].item.sharers;
    else
        cancel_messages(topology, &gathering);
    sv_topology_free_messages(topology);
    SV_TRY(status);
    topology->shares_gpu = topology->gpu_ranks > 1;
    if (topology->shares_gpu)
        sv_log(SV_LOG_INFO, "topology", "%d ranks of this machine use GPU %s: no kernel here waits for another rank",
               topology->gpu_ranks, bus_id);
    return SELVAGE_SUCCESS;
}
