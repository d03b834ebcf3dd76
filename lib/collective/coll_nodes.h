/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators that span nodes. A call is made of calls of the device among the ranks of each node, and of host
 * messages between nodes, chunk by chunk through pinned memory; it blocks until it is through.
 *
 *   coll_nodes.c --> coll_nodes_reduce.c, coll_nodes_copy.c, coll_nodes_pairs.c    the calls
 *       |                `--> coll_nodes_wire.c     messages, copies, and waiting for both
 *       `-----------------> coll_nodes_set.c       who is on which node; memory
 *
 * The first rank of a node is its leader. Work on the device goes through the arena's own stream, after what the host
 * has seen complete on the user's. All of this runs where the engine lives, whose thread is never blocked: it polls.
 */
#ifndef SV_COLL_NODES_H
#define SV_COLL_NODES_H

#include "collective/coll_handle.h"

/* On the set-up channel, beside that of gatherings; messages match in order. */
enum { SV_COLL_DATA_TAG = 6, SV_COLL_ANSWER_TAG = 7 };
enum { SV_COLL_CHUNK_BYTES = 4 << 20, SV_COLL_HEAD_BYTES = 64, SV_COLL_WORD_COPIES = 3 };

/* What precedes the bytes of a message, and says what they are. */
typedef struct sv_coll_head {
    uint32_t communicator, sequence; /* sequence: of calls of all ranks; 0 between two */
    int32_t status;            /* not SUCCESS: the sender gives up, and nothing follows; of an answer: what it was */
    uint8_t call, type, reserved[2]; /* call: 0 if the sender gives up */
    uint64_t count;            /* of the call */
    uint64_t at, bytes;        /* which bytes of the call these are */
    uint64_t digest;           /* of the bytes; 0: none */
    uint64_t nonce;            /* of the communicator */
    uint64_t check;            /* a digest of all before it */
} sv_coll_head_t;
_Static_assert(sizeof(sv_coll_head_t) == SV_COLL_HEAD_BYTES, "bytes on the wire");

/* Without bytes: an answer, or a last word. Copies, of which one outlives what befalls a part of the message. */
typedef struct sv_coll_word {
    sv_coll_head_t copy[SV_COLL_WORD_COPIES];
} sv_coll_word_t;

/* Who is where; of one communicator. */
typedef struct sv_coll_node_set {
    selvage_coll_t *part;      /* the ranks of this node as a communicator of their own: what the device part is told */
    int nnodes, mine;          /* nodes, in order of their leaders, and this one */
    int *leader;               /* of each node: its lowest rank */
    int *node;                 /* of each rank */
    int *inner;                /* of each rank: its place among those of its node */
    uint32_t sequence;         /* of calls of all ranks */
} sv_coll_node_set_t;

/* A message under way: sent, and again as long as its receiver says that it came damaged, until it says what it was. */
typedef struct sv_coll_sending {
    sv_wire_request_t request, answering; /* zero: none, any more */
    const void *message;       /* stays until the answer is there */
    size_t bytes;
    int rank;
    unsigned attempts;
    sv_coll_word_t answer;
} sv_coll_sending_t;

/* Memory that the calls take turns in; of an arena. A message is its head and at most a chunk. */
typedef struct sv_coll_staging {
    uint64_t chunk_bytes;
    uint8_t *out, *in;         /* pinned: a message, and room for heads of parts of it */
    uint8_t *device;           /* a chunk */
    sv_event_t *event;
    sv_coll_sending_t *sends;  /* open ones, nsends of them; room for one to every rank */
    unsigned nsends;
    sv_wire_request_t taking, answering; /* the receive of data, and the answer to it; zero: none */
    sv_coll_word_t word, answer; /* the last word, and that answer */
    uint64_t repaired;         /* messages that came damaged, and were asked for again */
    bool set_aside;            /* the wire may still use it: never freed */
} sv_coll_staging_t;

/* coll_nodes_set.c: makes what a communicator that spans nodes needs. Local. Partner: sv_coll_node_set_free(). */
selvage_status_t sv_coll_node_set_make(selvage_coll_t *coll);
void sv_coll_node_set_free(selvage_coll_t *coll);
/* Accepts NULL. No call is under way. */
void sv_coll_staging_free(sv_coll_arena_t *arena);

static inline bool sv_coll_leads(const selvage_coll_t *coll)
{
    return coll->node_set->leader[coll->node_set->mine] == coll->rank;
}
static inline bool sv_coll_is_near(const selvage_coll_t *coll, int rank)
{
    return coll->node_set->node[rank] == coll->node_set->mine;
}

/* coll_nodes_wire.c: enqueues a copy on the arena's stream; waits until all there is complete, and has not failed. */
selvage_status_t sv_coll_stage_copy(selvage_coll_t *coll, void *dst, const void *src, uint64_t bytes,
                                    sv_copy_kind_t kind);
selvage_status_t sv_coll_stage_wait(selvage_coll_t *coll);
/* Waits for what is on any stream now. */
selvage_status_t sv_coll_stage_wait_stream(selvage_coll_t *coll, void *stream);

/* Writes the head of a message, whose bytes (after it) are there. */
void sv_coll_message_write(selvage_coll_t *coll, const sv_coll_call_t *call, uint8_t *message, uint64_t at,
                           uint64_t bytes);
/* Starts to send it; it must stay until sv_coll_message_sent() has waited for all that was started to be taken. */
selvage_status_t sv_coll_message_send(selvage_coll_t *coll, const void *message, int rank);
selvage_status_t sv_coll_message_sent(selvage_coll_t *coll);
/* Posts a receive into a message of a chunk at most; waits for it, verifies that it is what is wanted, and answers.
   What is damaged is asked for again. */
selvage_status_t sv_coll_message_post(selvage_coll_t *coll, uint8_t *message, int rank);
selvage_status_t sv_coll_message_await(selvage_coll_t *coll, const sv_coll_call_t *call, uint8_t *message, uint64_t at,
                                       uint64_t bytes, int rank);
selvage_status_t sv_coll_message_take(selvage_coll_t *coll, const sv_coll_call_t *call, uint8_t *message, uint64_t at,
                                      uint64_t bytes, int rank);
/* Tells all ranks that nothing more comes from this one, and lets go of the wire. */
void sv_coll_message_give_up(selvage_coll_t *coll, selvage_status_t status);

/* coll_nodes_reduce.c, coll_nodes_copy.c, coll_nodes_pairs.c: calls that all ranks make alike, as is known by now. */
selvage_status_t sv_coll_nodes_reduce(selvage_coll_t *coll, const sv_coll_call_t *call);
selvage_status_t sv_coll_nodes_broadcast(selvage_coll_t *coll, const sv_coll_call_t *call);
selvage_status_t sv_coll_nodes_all_gather(selvage_coll_t *coll, const sv_coll_call_t *call);
selvage_status_t sv_coll_nodes_all_to_all(selvage_coll_t *coll, const sv_coll_call_t *call);
/* Those of calls that are sends or receives, all together. */
selvage_status_t sv_coll_nodes_pairs(selvage_coll_t *coll, const sv_coll_call_t *calls, unsigned ncalls);

#endif
