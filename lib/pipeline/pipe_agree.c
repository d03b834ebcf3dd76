/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement by dissemination: in round r a rank tells rank + 2^r the minima it knows and hears from rank - 2^r; after
 * ceil(log2 P) rounds everybody knows everybody's. Minima may be counted twice without harm, so any P works. It is a
 * barrier too: nobody leaves before everybody has entered.
 *
 * A neighbour can be one agreement ahead of this rank, not two: to finish the next one it would need this rank.
 */
#include "pipeline/pipe_control.h"

#include <string.h>

#include "base/base_status.h"
#include "kernels/kernels.h"

enum { STATUS_KEY, CALL_HASH, CALL_HASH_INVERSE, USER_VALUE };

static uint64_t hash_call(const char *what, uint64_t key)
{
    uint64_t hash = sv_digest_mix(key + 1);
    for (const char *c = what; *c; c++)
        hash = sv_digest_mix(hash + (unsigned char)*c);
    return hash;
}

void sv_agree_receive(selvage_comm_t *comm, const sv_wire_control_t *message)
{
    uint64_t sequence = message->word[1], round = message->word[2];
    if (round >= SV_AGREE_ROUNDS || sequence < comm->agreements)
        return;
    comm->agree.valid[sequence & 1][round] = true;
    memcpy(comm->agree.value[sequence & 1][round], &message->word[3], sizeof comm->agree.value[0][0]);
}

static selvage_status_t send_round(selvage_comm_t *comm, int round, const uint64_t value[SV_AGREE_VALUES])
{
    int peer = (int)((comm->wire->rank + (INT64_C(1) << round)) % comm->wire->size);
    sv_wire_control_t message = {.word = {SV_CONTROL_AGREE, comm->agreements, (uint64_t)round}};
    memcpy(&message.word[3], value, sizeof(uint64_t) * SV_AGREE_VALUES);
    return sv_control_send_patiently(comm, peer, &message);
}

static selvage_status_t receive_round(selvage_comm_t *comm, const char *what, int round, double timeout_s,
                                      uint64_t value[SV_AGREE_VALUES])
{
    int generation = (int)(comm->agreements & 1);
    int64_t size = comm->wire->size;
    sv_patience_t patience;
    sv_patience_begin(&patience, comm, timeout_s);
    while (!comm->agree.valid[generation][round]) {
        selvage_status_t status = sv_patience_poll(&patience);
        if (status == SELVAGE_ERR_TIMEOUT)
            return sv_error(status, "%s: no word from rank %d for %g s (round %d): it did not call it, or waits for "
                            "another rank itself", what,
                            (int)((comm->wire->rank + size - (INT64_C(1) << round) % size) % size), timeout_s, round);
        SV_TRY(status);
    }
    comm->agree.valid[generation][round] = false;
    for (int i = 0; i < SV_AGREE_VALUES; i++)
        if (comm->agree.value[generation][round][i] < value[i])
            value[i] = comm->agree.value[generation][round][i];
    return SELVAGE_SUCCESS;
}

/* Turns what was agreed into this rank's status; the failing rank itself keeps its own detail. */
static selvage_status_t judge(selvage_comm_t *comm, const char *what, selvage_status_t own, const uint64_t *value)
{
    if (value[STATUS_KEY] != UINT64_MAX) {
        selvage_status_t status = (selvage_status_t) - (int)(value[STATUS_KEY] & 0xff);
        int rank = (int)(value[STATUS_KEY] >> 8);
        if (own != SELVAGE_SUCCESS)
            return own;
        return rank == comm->wire->rank ? status
                                        : sv_error(status, "%s failed on rank %d: %s", what, rank,
                                                   selvage_status_string(status));
    }
    if (value[CALL_HASH] != ~value[CALL_HASH_INVERSE])
        return sv_error(SELVAGE_ERR_MISMATCH, "ranks do not agree in %s: another rank is in another collective call, "
                        "or on another object", what);
    return SELVAGE_SUCCESS;
}

/* A rank that cannot take part any more says so to all who will wait for it, and waits for nobody. */
static void send_failure(selvage_comm_t *comm, int round, selvage_status_t status)
{
    uint64_t all[SV_AGREE_VALUES] = {(uint64_t)comm->wire->rank << 8 | (uint64_t)-(int)status};
    for (; (INT64_C(1) << round) < comm->wire->size; round++)
        (void)send_round(comm, round, all);
    comm->agreements++;
}

void sv_agree_give_up(selvage_comm_t *comm, selvage_status_t status)
{
    send_failure(comm, 0, status);
}

selvage_status_t sv_agree_loss(const selvage_comm_t *comm)
{
    const int generation = (int)(comm->agreements & 1);
    for (int round = 0; round < SV_AGREE_ROUNDS; round++) {
        uint64_t word = comm->agree.value[generation][round][STATUS_KEY];
        if (comm->agree.valid[generation][round] && word != UINT64_MAX)
            return (selvage_status_t) - (int)(word & 0xff);
    }
    return SELVAGE_SUCCESS;
}

bool sv_agree_is_lost(const selvage_comm_t *comm)
{
    return sv_agree_loss(comm) != SELVAGE_SUCCESS;
}

selvage_status_t sv_agree(selvage_comm_t *comm, const char *what, uint64_t key, selvage_status_t status,
                          uint64_t value[SV_AGREE_USER], double timeout_s)
{
    if (comm->broken != SELVAGE_SUCCESS)
        send_failure(comm, 0, status != SELVAGE_SUCCESS ? status : comm->broken);
    if (comm->broken != SELVAGE_SUCCESS)
        return sv_error(comm->broken, "%s: an earlier collective call failed on this communicator", what);
    uint64_t hash = hash_call(what, key);
    uint64_t all[SV_AGREE_VALUES] = {UINT64_MAX, hash, ~hash, value[0]};
    if (status != SELVAGE_SUCCESS)
        all[STATUS_KEY] = (uint64_t)comm->wire->rank << 8 | (uint64_t)-status;
    selvage_status_t wire_status = SELVAGE_SUCCESS;
    int round = 0;
    for (; (INT64_C(1) << round) < comm->wire->size && wire_status == SELVAGE_SUCCESS; round++) {
        wire_status = send_round(comm, round, all);
        if (wire_status == SELVAGE_SUCCESS)
            wire_status = receive_round(comm, what, round, timeout_s, all);
    }
    if (wire_status != SELVAGE_SUCCESS)
        send_failure(comm, round - 1, wire_status);
    else
        comm->agreements++;
    if (wire_status != SELVAGE_SUCCESS) {
        comm->broken = wire_status;
        return status != SELVAGE_SUCCESS ? status : wire_status;
    }
    value[0] = all[USER_VALUE];
    return judge(comm, what, status, all);
}
