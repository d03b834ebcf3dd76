/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Letters that went by the wire and were not acknowledged (message_unacked.c says how that works). Under the engine's
 * lock; entries are the engine's, and mail with bytes after its letter stays with its entry.
 */
#ifndef SV_MESSAGE_UNACKED_H
#define SV_MESSAGE_UNACKED_H

#include "message/message_engine.h"

/* A letter that went by the wire, and that its reader has not acknowledged. */
typedef struct sv_unacked {
    sv_list_t link;          /* of its peer's, in the order of sequence numbers */
    struct sv_mail *mail;    /* its bytes are behind that; NULL: it has none */
    sv_letter_t letter;
} sv_unacked_t;

/* A letter for the wire gets its sequence number, and is kept until that rank acknowledges it. If too many before it
   were not acknowledged, it goes out when they were, and the mail is only wanted if it keeps what is after the letter.
 */
selvage_status_t sv_unacked_add(sv_message_engine_t *engine, sv_message_peer_t *peer, sv_mail_t *mail,
                                bool *may_fly_out);
/* Acknowledges in this letter what has come from there, if it has room for that. */
void sv_unacked_piggyback(sv_message_peer_t *peer, sv_letter_t *letter);
/* That rank has it. */
void sv_unacked_release(sv_message_engine_t *engine, sv_message_peer_t *peer, sv_unacked_t *unacked);
/* A sound letter came: takes the acknowledgement in it; new unless it has come before, or is too far ahead. */
selvage_status_t sv_unacked_receive(sv_message_engine_t *engine, sv_message_peer_t *peer, const sv_letter_t *letter,
                                    bool *is_new_out);
/* Sends the acknowledgements that are due, and again the letters that were not acknowledged in time. */
selvage_status_t sv_unacked_poll(sv_message_engine_t *engine);
/* A rank that has not answered for a while; -1 if there is none. */
int sv_unacked_silent_rank(const sv_message_engine_t *engine);
void sv_unacked_free(sv_message_engine_t *engine);

#endif
