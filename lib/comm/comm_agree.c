/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement by dissemination. In round r a rank sends the minima it knows to rank + 2^r, and receives those of rank -
 * 2^r. After ceil(log2 P) rounds everybody knows everybody's. Minima may be counted twice without harm, so any P works.
 * It is a barrier too: nobody leaves before everybody has entered.
 *
 * Each word is repeated until it is acknowledged, but only REPEATS_MAX times in an agreement. So a wire that loses or
 * damages one now and then only costs time.
 *
 * A neighbour can be one agreement ahead of this rank, but not two, because it needs this rank to finish the next one.
 */
#include "comm/comm_control.h"

#include <stdio.h>
#include <string.h>

#include "base/base_clock.h"
#include "base/base_status.h"
#include "kernels/kernels.h"

enum { REPEATS_MAX = 10, REPEATS_AT_END = 6 };

#define FIRST_REPEAT_NS UINT64_C(5000000) /* then twice as long each time */

enum { STATUS_KEY, CALL_HASH, CALL_HASH_INVERSE, USER_VALUE };

uint64_t sv_agree_hash(const char *what, uint64_t key)
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
    sv_wire_control_t received = {.word = {SV_CONTROL_AGREE_ACK, sequence, round}};
    (void)sv_wire_control_send(comm->wire, source, &received);
    if (round >= SV_AGREE_ROUNDS || sequence < comm->agreements)
        return;
    if (sequence == comm->agreements && round < (uint64_t)comm->agree.consumed)
        return; /* a repeat; its place belongs to the agreement after the next one */
    comm->agree.valid[sequence & 1][round] = true;
    memcpy(comm->agree.value[sequence & 1][round], &message->word[3], sizeof comm->agree.value[0][0]);
}

void sv_agree_acked(selvage_comm_t *comm, int source, const sv_wire_control_t *message)
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
    /* A neighbour that was late in an earlier round has used up that one's repeats, not this one's. */
    comm->agree_out.repeats = 0;
    comm->agree_out.repeat_ns = sv_clock_ns() + FIRST_REPEAT_NS;
    return sv_control_send_wait(comm, peer_of_round(comm, round), &message);
}

static void begin_repeats(selvage_comm_t *comm)
{
    comm->agree_out.sequence = comm->agreements;
    comm->agree_out.open = 0;
    comm->agree_out.repeats = 0;
    comm->agree_out.repeat_ns = sv_clock_ns() + FIRST_REPEAT_NS;
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
 * A rank that has all it needs stays until its own words are acknowledged. Otherwise nobody would repeat them, and a
 * rank that waits for them would wait for ever. Acknowledgements may be lost as well, so it leaves after some repeats.
 * By then a word has arrived, or the wire carries nothing and the other rank's deadline says so.
 */
static void await_round_acks(selvage_comm_t *comm)
{
    sv_deadline_t deadline;
    sv_deadline_begin(&deadline, comm, 0);
    while (comm->agree_out.open != 0 && comm->agree_out.repeats < REPEATS_AT_END) {
        if (sv_deadline_poll(&deadline) != SELVAGE_SUCCESS)
            sv_backoff(&deadline.backoff); /* broken: what is left to say is why */
        repeat_rounds(comm);
    }
}

static selvage_status_t receive_round(selvage_comm_t *comm, const char *what, int round, double timeout_s,
                                      uint64_t value[SV_AGREE_VALUES])
{
    int generation = (int)(comm->agreements & 1);
    int64_t size = comm->wire->size;
    sv_deadline_t deadline;
    sv_deadline_begin(&deadline, comm, timeout_s);
    while (!comm->agree.valid[generation][round]) {
        selvage_status_t status = sv_deadline_poll(&deadline);
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

/*
 * A rank that cannot take part any more says so to all who will wait for it. It waits only for the acknowledgements,
 * and briefly: a rank that misses the word waits for its deadline.
 */
static void send_failure(selvage_comm_t *comm, int round, selvage_status_t status)
{
    uint64_t all[SV_AGREE_VALUES] = {(uint64_t)comm->wire->rank << 8 | (uint64_t)-(int)status};
    begin_repeats(comm);
    for (; (INT64_C(1) << round) < comm->wire->size; round++)
        (void)send_round(comm, round, all);
    await_round_acks(comm);
    comm->agree_out.open = 0;
    comm->agreements++;
}

void sv_agree_abort(selvage_comm_t *comm, selvage_status_t status)
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

/* All rounds of one agreement. What fails here breaks the communicator. */
static selvage_status_t run_rounds(selvage_comm_t *comm, const char *what, double timeout_s,
                                   uint64_t all[SV_AGREE_VALUES])
{
    selvage_status_t status = SELVAGE_SUCCESS;
    int round = 0;
    begin_repeats(comm);
    comm->agree.consumed = 0;
    for (; (INT64_C(1) << round) < comm->wire->size && status == SELVAGE_SUCCESS; round++) {
        status = send_round(comm, round, all);
        if (status == SELVAGE_SUCCESS)
            status = receive_round(comm, what, round, timeout_s, all);
    }
    if (status == SELVAGE_SUCCESS) {
        await_round_acks(comm);
        comm->agreements++;
    } else {
        char text[SV_DETAIL_BYTES]; /* what telling it may overwrite */
        memcpy(text, sv_thread_detail(), sizeof text);
        send_failure(comm, round - 1, status);
        memcpy(sv_thread_detail(), text, sizeof text);
        sv_comm_break(comm, status);
    }
    comm->agree_out.open = 0;
    comm->agree.consumed = 0;
    return status;
}

/* --- ranks in different calls ------------------------------------------------------------------------------------- */

/* A call as two words say it: the first 16 characters after "selvage_", which is all of every name there is. */
typedef struct call_name {
    union {
        char text[16];
        uint64_t word[2];
    };
    uint64_t key;
} call_name_t;

static call_name_t name_call(const char *what, uint64_t key)
{
    static const char prefix[] = "selvage_";
    call_name_t name = {.key = key};
    if (strncmp(what, prefix, sizeof prefix - 1) == 0)
        what += sizeof prefix - 1;
    for (size_t i = 0; i < sizeof name.text && what[i] && !strchr(": (", what[i]); i++)
        name.text[i] = what[i];
    return name;
}

/* Of halos and exchanges the key is the number of the exchange, in order of creation. */
static void print_call(const call_name_t *name, char *text, size_t text_bytes)
{
    bool counted = strncmp(name->text, "exchange_", 9) == 0 || strncmp(name->text, "halo_", 5) == 0;
    size_t length = 0;
    while (length < sizeof name->text && name->text[length])
        length++;
    for (size_t i = 0; i < length; i++) /* it came from another rank */
        if ((unsigned char)name->text[i] < ' ' || (unsigned char)name->text[i] > '~')
            length = i;
    if (counted)
        snprintf(text, text_bytes, "selvage_%.*s of exchange %llu", (int)length, name->text,
                 (unsigned long long)name->key);
    else
        snprintf(text, text_bytes, "selvage_%.*s", (int)length, name->text);
}

/*
 * Ranks are in different calls, or on different objects, and all of them know it. So all come here, and tell each other
 * who they are, by three more agreements. The lowest rank with the least hash and the lowest with the greatest speak.
 * There may be other ranks in still other calls.
 */
static selvage_status_t name_other_call(selvage_comm_t *comm, const char *what, uint64_t key, double timeout_s,
                                        uint64_t least, uint64_t most)
{
    const uint64_t rank = (uint64_t)comm->wire->rank, hash = sv_agree_hash(what, key);
    const call_name_t own = name_call(what, key);
    uint64_t who[SV_AGREE_VALUES] = {UINT64_MAX, hash == least ? rank : UINT64_MAX, hash == most ? rank : UINT64_MAX,
                                     UINT64_MAX};
    call_name_t name[2];
    char here[64], there[64];
    selvage_status_t status = run_rounds(comm, what, timeout_s, who);
    for (int i = 0; i < 2 && status == SELVAGE_SUCCESS; i++) {
        uint64_t all[SV_AGREE_VALUES] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
        if (who[1 + i] == rank) {
            memcpy(&all[1], own.word, sizeof own.word);
            all[3] = own.key;
        }
        status = run_rounds(comm, what, timeout_s, all);
        memcpy(name[i].word, &all[1], sizeof name[i].word);
        name[i].key = all[3];
    }
    if (status != SELVAGE_SUCCESS)
        return sv_error(SELVAGE_ERR_MISMATCH, "ranks do not agree in %s: another rank is in another collective call, "
                        "or on another object, and it could not be asked which", what);
    const int other = hash == least ? 1 : 0;
    print_call(&own, here, sizeof here);
    print_call(&name[other], there, sizeof there);
    return sv_error(SELVAGE_ERR_MISMATCH, "ranks do not agree in %s: rank %llu is in another collective call, or on "
                    "another object: it is in %s, this rank in %s; all ranks make collective calls in one order", what,
                    (unsigned long long)who[1 + other], there, here);
}

selvage_status_t sv_agree(selvage_comm_t *comm, const char *what, uint64_t key, selvage_status_t status,
                          uint64_t value[SV_AGREE_USER], double timeout_s)
{
    sv_comm_settle(comm);
    if (comm->broken != SELVAGE_SUCCESS)
        send_failure(comm, 0, status != SELVAGE_SUCCESS ? status : comm->broken);
    if (comm->broken != SELVAGE_SUCCESS)
        return sv_error(comm->broken, "%s: an earlier collective call failed on this communicator: %s", what,
                        sv_comm_broken_text(comm));
    uint64_t hash = sv_agree_hash(what, key);
    uint64_t all[SV_AGREE_VALUES] = {UINT64_MAX, hash, ~hash, value[0]};
    if (status != SELVAGE_SUCCESS)
        all[STATUS_KEY] = (uint64_t)comm->wire->rank << 8 | (uint64_t)-status;
    selvage_status_t wire_status = run_rounds(comm, what, timeout_s, all);
    if (wire_status != SELVAGE_SUCCESS)
        return status != SELVAGE_SUCCESS ? status : wire_status;
    value[0] = all[USER_VALUE];
    if (all[STATUS_KEY] != UINT64_MAX) { /* somebody failed; the failing rank itself keeps its own detail */
        const selvage_status_t agreed = sv_control_status(all[STATUS_KEY]);
        const uint64_t rank = all[STATUS_KEY] >> 8;
        if (status != SELVAGE_SUCCESS)
            return status;
        return rank == (uint64_t)comm->wire->rank
                   ? agreed
                   : sv_error(agreed, "%s failed on rank %llu: %s", what, (unsigned long long)rank,
                              selvage_status_string(agreed));
    }
    if (all[CALL_HASH] != ~all[CALL_HASH_INVERSE])
        return name_other_call(comm, what, key, timeout_s, all[CALL_HASH], ~all[CALL_HASH_INVERSE]);
    return SELVAGE_SUCCESS;
}
