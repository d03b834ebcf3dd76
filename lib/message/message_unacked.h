/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control messages that went by the wire and were not acknowledged (message_unacked.c says how that works). Under the
 * engine's lock. Entries are the engine's, and a descriptor with a payload stays with its entry.
 */
#ifndef SV_MESSAGE_UNACKED_H
#define SV_MESSAGE_UNACKED_H

#include "message/message_engine.h"

/* A control message that went by the wire, and that its reader has not acknowledged. */
typedef struct sv_unacked {
    sv_list_t link;          /* of its peer's, in the order of sequence numbers */
    struct sv_ctrl_desc *desc; /* its payload is there; NULL: it has none */
    sv_ctrl_header_t header;
} sv_unacked_t;

/* A control message for the wire gets its sequence number, and is kept until that rank acknowledges it. If too many
   before it were not acknowledged, it goes out once they are. The entry keeps the descriptor only for its payload. */
selvage_status_t sv_unacked_add(sv_message_engine_t *engine, sv_message_peer_t *peer, sv_ctrl_desc_t *desc,
                                bool *may_send_out);
/* Acknowledges in this control message what has come from there, if it has room for that. */
void sv_unacked_piggyback(sv_message_peer_t *peer, sv_ctrl_header_t *header);
/* That rank has it. */
void sv_unacked_release(sv_message_engine_t *engine, sv_message_peer_t *peer, sv_unacked_t *unacked);
/* A valid control message came. Takes the acknowledgement in it. It is new unless it has come before, or is too far
   ahead. */
selvage_status_t sv_unacked_receive(sv_message_engine_t *engine, sv_message_peer_t *peer,
                                    const sv_ctrl_header_t *header, bool *is_new_out);
/* Sends the acknowledgements that are due, and again the control messages that were not acknowledged in time. */
selvage_status_t sv_unacked_poll(sv_message_engine_t *engine);
/* A rank that has not answered for a while, or -1. */
int sv_unacked_silent_rank(const sv_message_engine_t *engine);
void sv_unacked_free(sv_message_engine_t *engine);

#endif
