/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the local wire share: the world and its mailboxes. Everything on its way to a rank lies in that
 * rank's mailbox, under the mailbox's mutex, and nobody ever holds two mutexes.
 */
#ifndef SV_WIRE_LOCAL_PRIVATE_H
#define SV_WIRE_LOCAL_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>

#include "base/base_list.h"
#include "wire/wire.h"
#include "wire/wire_local.h"

enum { SV_WIRE_LOCAL_MESSAGES = 512 };

/* A control message in a mailbox. */
typedef struct sv_wire_message {
    int source;
    sv_wire_control_t message;
} sv_wire_message_t;

/* A posted receive, or a message that nobody has asked for yet. */
typedef struct sv_wire_node {
    sv_list_t link;
    int source, tag;
    void *buf;         /* receive: where to; message: from where (the sender's buffer, or store) */
    size_t bytes;      /* receive: capacity; message: length */
    size_t arrived;    /* receive: length of the message that came */
    bool done;         /* matched, bytes are copied */
    bool stored;       /* message: lies in store, the sender has forgotten it */
    void *store;       /* owned; kept when the node is idle, so that a steady exchange stops allocating */
    size_t store_bytes;
} sv_wire_node_t;

typedef struct sv_wire_chunk sv_wire_chunk_t;

typedef struct sv_wire_mailbox {
    pthread_mutex_t mutex;
    bool open;
    sv_list_t posted[SV_WIRE_CHANNELS];     /* receives of the owner */
    sv_list_t unexpected[SV_WIRE_CHANNELS]; /* messages to the owner */
    sv_list_t idle;
    sv_wire_chunk_t *chunks; /* owned: where the nodes come from */
    unsigned message_head, message_count;
    sv_wire_message_t messages[SV_WIRE_LOCAL_MESSAGES];
} sv_wire_mailbox_t;

struct sv_wire_world {
    int size, ranks_per_node;
    sv_wire_mailbox_t *mailboxes; /* owned, one per rank */
};

typedef struct sv_wire_local {
    sv_wire_t base; /* first, so that the public pointer is this one */
    sv_wire_world_t *world;
    unsigned corrupt_nth, control_sent;
    size_t corrupt_from_bytes;
    uint64_t corrupt_every, long_taken, long_corrupted; /* of messages of that size: 0: all */
} sv_wire_local_t;

selvage_status_t sv_wire_local_send(sv_wire_t *base, sv_wire_channel_t channel, const void *buf, size_t bytes, int peer,
                                    int tag, sv_wire_request_t *request_out);
selvage_status_t sv_wire_local_recv(sv_wire_t *base, sv_wire_channel_t channel, void *buf, size_t capacity, int peer,
                                    int tag, sv_wire_request_t *request_out);
selvage_status_t sv_wire_local_test(sv_wire_t *base, sv_wire_request_t *request, size_t *bytes_out);
selvage_status_t sv_wire_local_cancel(sv_wire_t *base, sv_wire_request_t *request);

/* Refuses a rank outside the world. */
selvage_status_t sv_wire_local_check_peer(const sv_wire_t *base, int peer);
/* Drops the owner's posted receives, whose buffers may go away now. */
void sv_wire_local_forget_posted(sv_wire_mailbox_t *box);
/* Frees all nodes of a mailbox. */
void sv_wire_local_free_nodes(sv_wire_mailbox_t *box);

#endif
