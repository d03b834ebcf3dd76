/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control messages: 64 bytes, between ranks beside the packets. word[0] is the type; the rest:
 *
 *   type              word[1]   word[2]  word[3]  word[4]  word[5]   word[6]
 *   AGREE             sequence  round    value 0  value 1  value 2   value 3
 *   AGREE_ACK         sequence  round                                          an AGREE came
 *   HANDSHAKE         commit    bytes    before   turn                         of the descriptor message on SETUP
 *   HANDSHAKE_ACK     commit                                                   a HANDSHAKE came
 *   RESEND_HANDSHAKE  commit                                                   send your descriptors again
 *   VERDICT           exchange  epoch                                          all packets of it by messages are good
 *   RESEND            exchange  epoch    index    attempt  reason              send this packet again
 *   QUERY             exchange  epoch                                          is my verdict still coming?
 *   FAIL              exchange  epoch    status   packet   record    data      it is lost here from this epoch on
 *   NEIGHBOR          commit    yours    stage    value    turn                of a commit by neighbours only
 *   NEIGHBOR_ACK      commit    stage    gone                                  a NEIGHBOR came
 *
 * In a commit by neighbours only, before is the last one with that rank that has completed, and turn counts them. Of
 * FAIL, packet is source << 32 | index, and then come the digests in the record and of the data.
 *
 * A lost or damaged one does no harm. AGREE, NEIGHBOR and HANDSHAKE are repeated until they are acknowledged, a few
 * times and at growing intervals, and every repeat is acknowledged. QUERY asks for a verdict and RESEND for a packet,
 * and both are repeated. A lost FAIL is sent again to who asks.
 */
#ifndef SV_COMM_CONTROL_H
#define SV_COMM_CONTROL_H

#include "comm/comm.h"

typedef enum sv_control_type {
    SV_CONTROL_AGREE = 1,
    SV_CONTROL_HANDSHAKE,
    SV_CONTROL_HANDSHAKE_ACK,
    SV_CONTROL_VERDICT,
    SV_CONTROL_RESEND,
    SV_CONTROL_QUERY,
    SV_CONTROL_FAIL,
    SV_CONTROL_AGREE_ACK,
    SV_CONTROL_RESEND_HANDSHAKE,
    SV_CONTROL_NEIGHBOR,
    SV_CONTROL_NEIGHBOR_ACK
} sv_control_type_t;

/* Receives what there is and hands it to whom it concerns. *moved_out tells whether there was any. */
selvage_status_t sv_control_poll(selvage_comm_t *comm, bool *moved_out);

/* Sends one message, polling while there is no room, for the deadline at most: set-up only. */
selvage_status_t sv_control_send_wait(selvage_comm_t *comm, int peer, const sv_wire_control_t *message);

/* The error that the low byte of a word says, as its negative; ERR_INTERNAL if there is no such error. */
selvage_status_t sv_control_status(uint64_t key);

/*
 * Agreement of all ranks: afterwards value[i] is the minimum over the ranks of what each gave, on every rank. what
 * names the collective call, and key its object. Ranks in different calls get SELVAGE_ERR_MISMATCH.
 *
 * It is dissemination: log2(P) rounds of control messages (Hensgen, Finkel, Manber 1988, used here with idempotent
 * minima). value has room for SV_AGREE_USER numbers. status is agreed on as well: the error of the lowest failing rank
 * wins and is returned.
 */
enum { SV_AGREE_USER = 1 };
selvage_status_t sv_agree(selvage_comm_t *comm, const char *what, uint64_t key, selvage_status_t status,
                          uint64_t value[SV_AGREE_USER], double timeout_s);

/* What a call and its object hash to: alike on ranks that are in the same call. */
uint64_t sv_agree_hash(const char *what, uint64_t key);

/* Says to all who wait for this rank in an agreement that it takes part in none any more; comm is broken. */
void sv_agree_abort(selvage_comm_t *comm, selvage_status_t status);

/* Whether a rank has said already that the agreement to come fails; and its error, SUCCESS if none has. */
bool sv_agree_is_lost(const selvage_comm_t *comm);
selvage_status_t sv_agree_loss(const selvage_comm_t *comm, int *rank_out);

/* Take a received AGREE message, which is acknowledged in any case, and an acknowledgement. */
void sv_agree_receive(selvage_comm_t *comm, int source, const sv_wire_control_t *message);
void sv_agree_acked(selvage_comm_t *comm, int source, const sv_wire_control_t *message);

#endif
