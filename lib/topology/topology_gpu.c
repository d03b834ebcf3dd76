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
 * Each of these messages has its note twice, with a check word, so that what befalls one copy does no harm, and what
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
#include "topology/topology.h"

enum {
    GPU_TAG = 3, /* the set-up channel: the timeline has tags 1 and 2, commits those from 16 */
    BUS_BYTES = 32,
    COPIES = 2,
};

typedef struct gpu_note {
    char bus_id[BUS_BYTES];
    uint64_t sharers;
    uint64_t check; /* of what is before it */
} gpu_note_t;

typedef struct sv_gpu_letter {
    gpu_note_t note, copy[COPIES]; /* what is said or was heard; the message */
    sv_wire_request_t request;
    int peer;
    bool sending, under_way;
} letter_t;

/* What an exchange of letters needs. */
typedef struct post_office {
    sv_wire_t *wire;
    letter_t *letters;
    int count;
    sv_topology_wait_fn keep_waiting;
    void *arg;
} post_office_t;

static selvage_status_t post(sv_wire_t *wire, letter_t *letter, int peer, bool sending)
{
    selvage_status_t status;
    letter->note.check = sv_wire_setup_check(&letter->note, offsetof(gpu_note_t, check), wire->rank, peer);
    for (int i = 0; i < COPIES; i++)
        letter->copy[i] = sending ? letter->note : (gpu_note_t){0};
    if (sending)
        status = sv_wire_send(wire, SV_WIRE_SETUP, letter->copy, sizeof letter->copy, peer, GPU_TAG, &letter->request);
    else
        status = sv_wire_recv(wire, SV_WIRE_SETUP, letter->copy, sizeof letter->copy, peer, GPU_TAG, &letter->request);
    letter->peer = peer;
    letter->sending = sending;
    letter->under_way = status == SELVAGE_SUCCESS;
    return status;
}

/* What was heard, of the first copy that verifies. */
static selvage_status_t take_note(sv_wire_t *wire, letter_t *letter, size_t bytes)
{
    for (size_t i = 0; (i + 1) * sizeof *letter->copy <= bytes; i++)
        if (letter->copy[i].check ==
            sv_wire_setup_check(&letter->copy[i], offsetof(gpu_note_t, check), letter->peer, wire->rank)) {
            letter->note = letter->copy[i];
            return SELVAGE_SUCCESS;
        }
    return sv_error(SELVAGE_ERR_CHECKSUM, "what rank %d said of its GPU arrived damaged", letter->peer);
}

static selvage_status_t await_letters(const post_office_t *office)
{
    for (int i = 0; i < office->count;) {
        letter_t *letter = &office->letters[i];
        selvage_status_t status = SELVAGE_SUCCESS;
        size_t bytes = 0;
        if (!letter->under_way) {
            i++;
            continue;
        }
        status = sv_wire_test(office->wire, &letter->request, &bytes);
        if (status == SELVAGE_IN_PROGRESS) {
            SV_TRY(office->keep_waiting(office->arg));
            continue;
        }
        SV_TRY(status);
        letter->under_way = false;
        if (!letter->sending)
            SV_TRY(take_note(office->wire, letter, bytes));
        i++;
    }
    return SELVAGE_SUCCESS;
}

/* After a failure: letters that the wire may still read or write are set aside. */
static void withdraw(sv_topology_t *topology, const post_office_t *office)
{
    bool quiet = true;
    for (int i = 0; i < office->count; i++) {
        letter_t *letter = &office->letters[i];
        if (!letter->under_way)
            continue;
        if (letter->sending)
            quiet &= sv_wire_test(office->wire, &letter->request, NULL) == SELVAGE_SUCCESS;
        else
            quiet &= sv_wire_cancel(office->wire, &letter->request) == SELVAGE_SUCCESS;
    }
    if (!quiet)
        topology->letters = NULL;
}

static void count_sharers(letter_t *letters, int count)
{
    for (int i = 0; i < count; i++) {
        letters[i].note.sharers = 0;
        for (int j = 0; j < count && letters[i].note.bus_id[0]; j++)
            letters[i].note.sharers += strncmp(letters[i].note.bus_id, letters[j].note.bus_id, BUS_BYTES) == 0;
    }
}

/* The first rank of the machine: letter i is that of the machine's rank i; letter 0 is its own and stays. */
static selvage_status_t ask_all(const sv_topology_t *topology, const post_office_t *office)
{
    for (int i = 1; i < office->count; i++)
        SV_TRY(post(office->wire, &office->letters[i], topology->host_ranks[i], false));
    SV_TRY(await_letters(office));
    count_sharers(office->letters, office->count);
    for (int i = 1; i < office->count; i++)
        SV_TRY(post(office->wire, &office->letters[i], topology->host_ranks[i], true));
    return await_letters(office);
}

/* Any other: letter 1 takes its bus id there, letter 0 brings the answer back. */
static selvage_status_t tell_first(const sv_topology_t *topology, const post_office_t *office)
{
    office->letters[1] = office->letters[0];
    SV_TRY(post(office->wire, &office->letters[0], topology->host_ranks[0], false));
    SV_TRY(post(office->wire, &office->letters[1], topology->host_ranks[0], true));
    return await_letters(office);
}

static bool is_first(const sv_topology_t *topology)
{
    return topology->host_ranks[0] == topology->rank;
}

static int count_letters(const sv_topology_t *topology)
{
    return is_first(topology) ? topology->host_size : 2;
}

selvage_status_t sv_topology_make_letters(sv_topology_t *topology)
{
    return sv_calloc((size_t)count_letters(topology), sizeof *topology->letters, &topology->letters);
}

void sv_topology_free_letters(sv_topology_t *topology)
{
    sv_free(topology->letters);
    topology->letters = NULL;
}

selvage_status_t sv_topology_find_gpu(sv_topology_t *topology, sv_wire_t *wire, const char *bus_id,
                                      sv_topology_wait_fn keep_waiting, void *arg)
{
    post_office_t office = {.wire = wire, .letters = topology->letters, .count = count_letters(topology),
                            .keep_waiting = keep_waiting, .arg = arg};
    snprintf(office.letters[0].note.bus_id, BUS_BYTES, "%s", bus_id);
    selvage_status_t status = is_first(topology) ? ask_all(topology, &office) : tell_first(topology, &office);
    if (status == SELVAGE_SUCCESS)
        topology->gpu_ranks = (int)office.letters[0].note.sharers;
    else
        withdraw(topology, &office);
    sv_topology_free_letters(topology);
    SV_TRY(status);
    topology->shares_gpu = topology->gpu_ranks > 1;
    if (topology->shares_gpu)
        sv_log(SV_LOG_INFO, "topology", "%d ranks of this machine use GPU %s: no kernel here waits for another rank",
               topology->gpu_ranks, bus_id);
    return SELVAGE_SUCCESS;
}
