/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement by dissemination: in round r a rank tells rank + 2^r the minima it knows and hears from rank - 2^r; after
 * ceil(log2 P) rounds everybody knows everybody's. Minima may be counted twice without harm, so any P works. It is a
 * barrier too: nobody leaves before everybody has entered.
 *
 * Each word is acknowledged, and repeated until it is: a wire that loses or damages one now and then only costs time.
 *
 * A neighbour can be one agreement ahead of this rank, not two: to finish the next one it would need this rank.
 */
#include "pipeline/pipe_control.h"

#include <string.h>

#include "base/base_clock.h"
#include "base/base_status.h"
#include "kernels/kernels.h"

enum { REPEATS_MAX = 10, REPEATS_LINGER = 6 };

#define FIRST_REPEAT_NS UINT64_C(5000000) /* then twice as long each time */

enum { STATUS_KEY, CALL_HASH, CALL_HASH_INVERSE, USER_VALUE };

static uint64_t hash_call(const char *what, uint64_t key)
{
    uint64_t hash = sv_digest_mix(key + 1);
    for (const char *c = what; *c; c++)
        hash = sv_digest_mix(hash + (unsigned char)*c);
    return hash;
}

static int peer_of_round(const selvage_comm_t *comm, int round)
{
    return (int)((comm->wire->rank + (INT64_C(1) << round)) % comm->wire->size);
}

void sv_agree_receive(selvage_comm_t *comm, int source, const sv_wire_control_t *message)
{
    uint64_t sequence = message->word[1], round = message->word[2];
    /* If there is no room for it now, the message comes again and gets another one. */
    sv_wire_control_t heard = {.word = {SV_CONTROL_HEARD, sequence, round}};
    (void)sv_wire_control_send(comm->wire, source, &heard);
    if (round >= SV_AGREE_ROUNDS || sequence < comm->agreements)
        return;
    if (sequence == comm->agreements && round < (uint64_t)comm->agree.consumed)
        return; /* a repeat; its place belongs to the agreement after the next one */
    comm->agree.valid[sequence & 1][round] = true;
    memcpy(comm->agree.value[sequence & 1][round], &message->word[3], sizeof comm->agree.value[0][0]);
}

void sv_agree_heard(selvage_comm_t *comm, int source, const sv_wire_control_t *message)
{
    uint64_t round = message->word[2];
    if (round < SV_AGREE_ROUNDS && message->word[1] == comm->agree_out.sequence &&
        source == peer_of_round(comm, (int)round))
        comm->agree_out.open &= ~(UINT32_C(1) << round);
}

static selvage_status_t send_round(selvage_comm_t *comm, int round, const uint64_t value[SV_AGREE_VALUES])
{
    sv_wire_control_t message = {.word = {SV_CONTROL_AGREE, comm->agreements, (uint64_t)round}};
    memcpy(&message.word[3], value, sizeof(uint64_t) * SV_AGREE_VALUES);
    memcpy(comm->agree_out.value[round], value, sizeof comm->agree_out.value[round]);
    comm->agree_out.open |= UINT32_C(1) << round;
    return sv_control_send_patiently(comm, peer_of_round(comm, round), &message);
}

static void begin_repeats(selvage_comm_t *comm)
{
    comm->agree_out.sequence = comm->agreements;
    comm->agree_out.open = 0;
    comm->agree_out.repeats = 0;
    comm->agree_out.repeat_ns = sv_clock_ns() + FIRST_REPEAT_NS;
    comm->agree.consumed = 0;
}

/* Says again what nobody has acknowledged, at growing intervals. A full wire is no error: the next time will do. */
static void repeat_rounds(selvage_comm_t *comm)
{
    sv_agree_outbox_t *out = &comm->agree_out;
    if (out->open == 0 || out->repeats >= REPEATS_MAX || sv_clock_ns() < out->repeat_ns)
        return;
    out->repeats++;
    out->repeat_ns = sv_clock_ns() + (FIRST_REPEAT_NS << out->repeats);
    for (int round = 0; round < SV_AGREE_ROUNDS; round++) {
        sv_wire_control_t message = {.word = {SV_CONTROL_AGREE, out->sequence, (uint64_t)round}};
        if (!(out->open >> round & 1))
            continue;
        memcpy(&message.word[3], out->value[round], sizeof out->value[round]);
        (void)sv_wire_control_send(comm->wire, peer_of_round(comm, round), &message);
    }
}

/*
 * A rank that has all it needs stays until its own words are acknowledged, because who waits for them would wait for
 * ever once nobody repeats them. Acknowledgements may be lost as well: after some repeats it leaves, since then one of
 * them has arrived, or the wire carries nothing and the other rank's deadline says so.
 */
static void linger(selvage_comm_t *comm)
{
    sv_patience_t patience;
    sv_patience_begin(&patience, comm, 0);
    while (comm->agree_out.open != 0 && sv_patience_poll(&patience) == SELVAGE_SUCCESS) {
        repeat_rounds(comm);
        if (comm->agree_out.repeats >= REPEATS_LINGER)
            return;
    }
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
        repeat_rounds(comm);
    }
    comm->agree.valid[generation][round] = false;
    comm->agree.consumed = round + 1;
    for (int i = 0; i < SV_AGREE_VALUES; i++)
        if (comm->agree.value[generation][round][i] < value[i])
            value[i] = comm->agree.value[generation][round][i];
    return SELVAGE_SUCCESS;
}

/* Turns what was agreed into this rank's status; the failing rank itself keeps its own detail. */
static selvage_status_t judge(selvage_comm_t *comm, const char *what, selvage_status_t own, const uint64_t *value)
{
    if (value[STATUS_KEY] != UINT64_MAX) {
        selvage_status_t status = sv_control_status(value[STATUS_KEY]);
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

selvage_status_t sv_agree_loss(const selvage_comm_t *comm, int *rank_out)
{
    const int generation = (int)(comm->agreements & 1);
    for (int round = 0; round < SV_AGREE_ROUNDS; round++) {
        uint64_t word = comm->agree.value[generation][round][STATUS_KEY];
        if (comm->agree.valid[generation][round] && word != UINT64_MAX) {
            *rank_out = (int)(word >> 8);
            return sv_control_status(word);
        }
    }
    return SELVAGE_SUCCESS;
}

bool sv_agree_is_lost(const selvage_comm_t *comm)
{
    int rank;
    return sv_agree_loss(comm, &rank) != SELVAGE_SUCCESS;
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
    begin_repeats(comm);
    for (; (INT64_C(1) << round) < comm->wire->size && wire_status == SELVAGE_SUCCESS; round++) {
        wire_status = send_round(comm, round, all);
        if (wire_status == SELVAGE_SUCCESS)
            wire_status = receive_round(comm, what, round, timeout_s, all);
    }
    if (wire_status != SELVAGE_SUCCESS)
        send_failure(comm, round - 1, wire_status);
    else
        linger(comm);
    if (wire_status == SELVAGE_SUCCESS)
        comm->agreements++;
    comm->agree_out.open = 0;
    comm->agree.consumed = 0;
    if (wire_status != SELVAGE_SUCCESS) {
        comm->broken = wire_status;
        return status != SELVAGE_SUCCESS ? status : wire_status;
    }
    value[0] = all[USER_VALUE];
    return judge(comm, what, status, all);
}
