/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators that span nodes. A call is made of calls of the device among the ranks of each node, and of host
 * messages between nodes, chunk by chunk through pinned memory.
 *
 *   coll_nodes.c                                    calls that were enqueued, and what holds their streams; who drives
 *       `--> coll_nodes_run.c                       one call after the other, from its beginning to its end
 *       |       |--> coll_nodes_reduce.c, coll_nodes_copy.c --> coll_rails.c    calls of all ranks; their rows,
 *       |       |                                              coll_nodes_plan.c    and which pieces these carry
 *       |       |                      coll_nodes_tree.c <---------|            short ones, among many nodes
 *       |       |--> coll_nodes_pairs.c                            |            sends and receives
 *       |       |         `--> coll_nodes_message.c <--------------|            messages, answers
 *       |       |                             coll_nodes_handed.c <'            rows that are collectives of MPI's
 *       |       `--> coll_nodes_wait.c                                          turns of a wait
 *       `----------> coll_nodes_set.c                                           who is on which node; memory
 *
 * The ranks of a node that have the same place on their nodes make a rail: what goes between nodes is divided among the
 * rails, so that every rank, and the NIC next to its GPU, has its part. Work on the device goes through the arena's own
 * streams, after what the host has seen complete on the user's. All of this runs where the engine lives, whose thread
 * is never blocked: it polls.
 */
#ifndef SV_COLL_NODES_H
#define SV_COLL_NODES_H

#include "collective/coll_handle.h"
#include "wire/wire_group.h"

enum { SV_COLL_HEAD_BYTES = 64, SV_COLL_WORD_COPIES = 3 };
/* Rows of a call that are on their way at a time, and how many at most are begun on the device before the first has
   ended there; see coll_rails.c. */
enum { SV_COLL_RAIL_SLOTS = 8, SV_COLL_RAIL_AHEAD = 2 * SV_COLL_RAIL_SLOTS, SV_COLL_CHUNK_BYTES = 512 << 10 };
/* Up to so many nodes exchange pieces with each other directly; more of them have two neighbours each, or those of a
   tree, of which no more than as many are below a node, since it has 2^16 nodes at most. */
enum { SV_COLL_DIRECT_NODES = 16, SV_COLL_ALL_NODES = -2, SV_COLL_TREE = -3 };
/* In place of a rank that is waited for: none, and those of the own rail, of which MPI does not say which. */
enum { SV_COLL_NO_RANK = -1, SV_COLL_RAIL_RANKS = -2 };
/* After so many turns of a wait the rest of the engine has one, even if every turn moved something. */
enum { SV_COLL_TURNS = 32 };

/* On the set-up channel, after that of gatherings; messages match in order. Each slot, of either direction, has a pair
   of tags: a message that is sent again is not taken for that of another slot, nor a share for a result. */
enum { SV_COLL_DATA_TAG = 6, SV_COLL_TAG_SLOTS = 2 * SV_COLL_RAIL_SLOTS };

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
    bool has_part;             /* it is filled in */
    int nnodes, mine;          /* nodes, in order of their lowest ranks, and this one */
    int *node;                 /* of each rank */
    int *inner;                /* of each rank: its place among those of its node */
    int *rank_at;              /* ranks by node, then by place; those of node k begin at first[k] */
    int *first;                /* of each node, and one more: the end */
    int rails;                 /* ranks of the smallest node */
    uint32_t *sent, *received; /* chunks of sends to each rank, and of receives from it */
    uint32_t sequence;         /* of calls of all ranks */
    sv_wire_group_t *group;    /* MPI's collectives on this rank's rail; NULL: it has none, or none are used; owned */
    int *rail_ranks;           /* of comm, on that rail; by node */
} sv_coll_node_set_t;

/* A message under way: sent, and again as long as its receiver says that it came damaged, until it says what it was. */
typedef struct sv_coll_sending {
    sv_wire_request_t request, answering; /* zero: none, any more */
    const void *message;       /* stays until the answer is there */
    size_t bytes;
    int rank;
    unsigned slot, attempts;
    sv_coll_word_t answer;
} sv_coll_sending_t;

/* The other end: received, and again if it came damaged, verified and answered. */
typedef struct sv_coll_taking {
    sv_wire_request_t request, answering;
    uint8_t *message;
    sv_coll_head_t wanted;
    int rank;
    unsigned slot, attempts;
    bool due;                  /* the answer is to be sent, */
    selvage_status_t verdict;  /* which says this */
    sv_coll_word_t answer;
} sv_coll_taking_t;

/* What a rank does with one row of a call: with the piece of the vector that its rail carries, or that it is to get. */
typedef struct sv_coll_row {
    uint64_t at, bytes;        /* the piece, as heads of messages name it */
    const uint8_t *own;        /* this rank's share of it, in device memory; NULL: it has none */
    int from, to;              /* a sum comes from that rank, to which the own share is added, and goes on to that one;
                                  -1: none. from ALL_NODES: the shares of the rail's ranks on all nodes are added. to
                                  ALL_NODES: the own share goes to these, before */
    bool ends;                 /* the result of the piece is there, once that is done */
                               /* from TREE: shares of all nodes come, each whole, by coll_nodes_tree.c */
    int source, next;          /* the result comes from that rank, and goes on to that one; -1: none; next ALL_NODES: to
                                  the rail's ranks on all other nodes; TREE: on the nodes below this one */
    uint8_t *put;              /* where it is put, in device memory; NULL: nowhere */
    bool handed;               /* from the shares to the result it is a collective of MPI's, among the rail's ranks: */
    int node;                  /* of the one that has the piece, or gets the sum; ALL_NODES: all get it. Of a sum all
                                  have shares; ends: so this rank has one of the piece. The same of a tree */
} sv_coll_row_t;

typedef enum sv_coll_slot_state {
    SV_COLL_SLOT_DONE,         /* the row's part is over, or has not begun */
    SV_COLL_SLOT_COPY, SV_COLL_SLOT_TAKE, SV_COLL_SLOT_SEND, SV_COLL_SLOT_RESULT
} sv_coll_slot_state_t;

typedef struct sv_coll_rail_slot {
    sv_coll_row_t row;
    const sv_coll_call_t *call; /* of a pair */
    unsigned tags;             /* the slot whose tags its messages have */
    sv_coll_slot_state_t state;
    bool putting;              /* the copy to row.put is not complete */
    uint8_t *out, *in, *other; /* pinned: messages of a chunk, one from the own device, and one or two that come */
    uint8_t *device;           /* a chunk */
    uint8_t *sum;              /* which of the messages has the sum so far, or NULL */
    int node;                  /* of ALL_NODES, that whose share is added next; of TREE, how many shares are there */
    uint64_t passed_bytes;     /* of TREE: messages in other */
    sv_event_t *copied;
    sv_coll_sending_t sending[SV_COLL_DIRECT_NODES];
    unsigned nsendings, nsent; /* of this row, and how many of them were taken */
    sv_coll_taking_t taking;
    sv_coll_call_t pair;       /* of pairs: the call that a chunk is of; call points here */
    bool is_handed;            /* of down: what was handed to MPI was started */
    sv_wire_group_request_t handed;
} sv_coll_rail_slot_t;

/* Of the results that MPI gave to all ranks of a rail: whether they are the same. The wire may hold it. */
typedef struct sv_coll_comparison {
    bool has_begun;
    uint64_t digest;           /* of the results so far, in any order */
    uint64_t mine[2], least[2];
    sv_wire_group_request_t request;
} sv_coll_comparison_t;

/* Memory that the calls take turns in; of an arena. A message is its head and at most a chunk. */
typedef struct sv_coll_staging {
    struct sv_coll_queue *queue; /* calls that are under way; coll_nodes_run.h; owned */
    uint64_t chunk_bytes;
    uint8_t *memory, *device;  /* owned; what is below lies in them */
    sv_event_t *event;         /* after what a call has put on the arena's stream */
    void *up_stream, *down_stream; /* copies out of the device and into it, in long calls; see coll_rails.c */
    sv_coll_rail_slot_t up[SV_COLL_RAIL_SLOTS], down[SV_COLL_RAIL_SLOTS];
    sv_event_t *collected[SV_COLL_RAIL_AHEAD], *spread[SV_COLL_RAIL_SLOTS];
    sv_coll_comparison_t comparison;
    bool pairs;                /* sends and receives are under way */
    sv_coll_word_t word;       /* the last one */
    uint64_t repaired;         /* messages that came damaged, and were asked for again */
    bool set_aside;            /* the wire may still use it: never freed */
} sv_coll_staging_t;

/* coll_nodes_plan.c: how long chunks of so many bytes are; turns: of nodes that take turns with them, or 0. The same on
   all ranks that ask the same. */
uint64_t sv_coll_chunk_bytes(const sv_coll_staging_t *staging, uint64_t bytes, unsigned turns);

/* coll_nodes_set.c: makes what a communicator that spans nodes needs. Local. Partner: sv_coll_node_set_free(). */
selvage_status_t sv_coll_node_set_make(selvage_coll_t *coll);
void sv_coll_node_set_free(selvage_coll_t *coll);
/* Accepts NULL. No call is under way. */
void sv_coll_staging_free(sv_coll_arena_t *arena);

static inline bool sv_coll_is_near(const selvage_coll_t *coll, int rank)
{
    return coll->node_set->node[rank] == coll->node_set->mine;
}

/* coll_nodes_wait.c: whether an event has come, after which what failed on the device is known. An abort, or the end of
   the communicator, ends the wait; no deadline does, because kernels have their own. */
selvage_status_t sv_coll_stage_test(selvage_coll_t *coll, sv_event_t *event);
/* A turn of a wait for a rank (or SV_COLL_RAIL_RANKS; the own one: those of its node) that did not move anything: goes
   on with IN_PROGRESS. is_over: nothing has moved for the deadline. */
selvage_status_t sv_coll_stage_turn(selvage_coll_t *coll, bool is_over, int rank);
/* What a call of MPI's collectives returned. MPI does not say which rank made it fail: the error names all others of
   the rail. */
selvage_status_t sv_coll_rail_check(const selvage_coll_t *coll, selvage_status_t status);
/* After an error: waits for copies of the call that are under way, at most so long. Returns whether they have ended. */
bool sv_coll_stage_end(selvage_coll_t *coll, double timeout_s);

/* coll_nodes_message.c: writes the head of a message, whose bytes (after it) are there. */
void sv_coll_message_write(selvage_coll_t *coll, const sv_coll_call_t *call, uint8_t *message, uint64_t at,
                           uint64_t bytes);
/* Starts to send it to a rank. It must stay until sv_coll_sending_drive() says SUCCESS: it was taken, and was right. */
selvage_status_t sv_coll_sending_start(selvage_coll_t *coll, sv_coll_sending_t *sending, const void *message, int rank,
                                       unsigned slot);
selvage_status_t sv_coll_sending_drive(selvage_coll_t *coll, sv_coll_sending_t *sending);
/* Starts to receive the message of a rank with these bytes of a call; driven until it says SUCCESS: it is there, and
   was verified. What is damaged is asked for again. The answer has gone when sv_coll_taking_drain() says SUCCESS. */
selvage_status_t sv_coll_taking_start(selvage_coll_t *coll, sv_coll_taking_t *taking, const sv_coll_call_t *call,
                                      uint8_t *message, uint64_t at, uint64_t bytes, int rank, unsigned slot);
selvage_status_t sv_coll_taking_drive(selvage_coll_t *coll, sv_coll_taking_t *taking);
selvage_status_t sv_coll_taking_drain(selvage_coll_t *coll, sv_coll_taking_t *taking);
/* Whether a message that came by MPI's broadcast from this rank is the one with these bytes of a call, and whole. */
selvage_status_t sv_coll_message_verify(const selvage_coll_t *coll, const sv_coll_call_t *call, const uint8_t *message,
                                        uint64_t at, uint64_t bytes, int rank);
/* Tells all ranks that nothing more comes from this one, and lets go of the wire. */
void sv_coll_message_give_up(selvage_coll_t *coll, selvage_status_t status);

struct sv_coll_rails;
/* coll_nodes_handed.c: rows whose step between nodes is a collective of MPI's, in the order of the rows. Starts what a
   row is: the own share, if it has one, is in up's message, and the result comes into down's. */
selvage_status_t sv_coll_handed_start(const struct sv_coll_rails *run, const sv_coll_rail_slot_t *up,
                                      sv_coll_rail_slot_t *down);
/* SUCCESS: the result is there, in message_out, as far as it can be verified it was, and it has its last form. */
selvage_status_t sv_coll_handed_drive(const struct sv_coll_rails *run, const sv_coll_rail_slot_t *up,
                                      sv_coll_rail_slot_t *down, uint8_t **message_out);
/* After the last row: SUCCESS: all ranks of the rail have got the same, or there is nothing to compare. */
selvage_status_t sv_coll_handed_compare(const struct sv_coll_rails *run);
/* After an error: whether MPI is done with everything. */
bool sv_coll_handed_withdraw(selvage_coll_t *coll);

/* What all rows of a call have in common, the same on all ranks but for addresses; see coll_nodes_plan.c. */
typedef struct sv_coll_plan {
    selvage_coll_t *coll;
    const sv_coll_call_t *call;
    uint64_t rows, chunk_bytes, element_bytes;
    int rails, mine;           /* how many there are, and this rank's; -1: it carries nothing */
    int groups;                /* of blocks: so many ranks of a node share a rail at most */
    bool direct;               /* few nodes */
    bool gathers, branches;    /* many: all shares of a sum travel whole; results go by a tree; coll_nodes_tree.c */
    bool handed;               /* rows are handed to MPI */
    const uint8_t *keep_from;  /* what a rank that is alone on its node copies from its input to its output itself; */
    uint8_t *keep_to;
    uint64_t keep_bytes;       /* 0: nothing */
    void (*describe)(const struct sv_coll_plan *plan, uint64_t row, sv_coll_row_t *row_out);
    /* Enqueue a row's calls among the ranks of this node before and after it goes between nodes; NULL: none. */
    selvage_status_t (*collect)(const struct sv_coll_plan *plan, uint64_t row);
    selvage_status_t (*spread)(const struct sv_coll_plan *plan, uint64_t row);
    bool spreads_received;     /* spread takes pieces from where sv_coll_plan_received() has them put */
} sv_coll_plan_t;

/* Fills in what can be told from the call, for a vector of so many bytes that is divided among the rails. */
void sv_coll_plan_begin(sv_coll_plan_t *plan, selvage_coll_t *coll, const sv_coll_call_t *call, uint64_t bytes);
/* The piece of a row and a rail: returns its bytes, 0 if there is none. */
uint64_t sv_coll_plan_piece(const sv_coll_plan_t *plan, uint64_t row, int rail, uint64_t bytes, uint64_t *at_out);
/* The same for a vector of a block of each rank, of which a rank's goes on the rail of its place on its node. */
void sv_coll_plan_begin_blocks(sv_coll_plan_t *plan, selvage_coll_t *coll, const sv_coll_call_t *call);
uint64_t sv_coll_plan_block(const sv_coll_plan_t *plan, uint64_t row, int rail, int *rank_out, uint64_t *at_out);
/* The rank that has this rail on a node. */
int sv_coll_plan_rank(const sv_coll_plan_t *plan, int node, int rail);
/* Where this rank's share of a row is collected, and where a result is put that is not for it. */
uint8_t *sv_coll_plan_collected(const sv_coll_plan_t *plan, uint64_t row);
uint8_t *sv_coll_plan_received(const sv_coll_plan_t *plan, uint64_t row);
/* coll_nodes_tree.c: how long pieces are whose shares travel whole, of up to so many bytes of each rail; 0: they do
   not. Whether results of so many rows go by a tree. */
uint64_t sv_coll_tree_share_bytes(const selvage_coll_t *coll, uint64_t bytes, uint64_t chunk_bytes);
bool sv_coll_tree_is_faster(const selvage_coll_t *coll, uint64_t rows);
/* The rank of a rail on the node above this one in the tree with that root; -1: it is the root. */
int sv_coll_tree_above(const sv_coll_plan_t *plan, int root, int rail);
/* A spread: the pieces of a row are in the output of the ranks that carry them, and go to all ranks of the node. */
selvage_status_t sv_coll_plan_spread_vector(const sv_coll_plan_t *plan, uint64_t row);
/* coll_nodes_reduce.c, coll_nodes_copy.c: what is to be done in calls that all ranks make alike, as is known by now, of
   at least one element. call stays until all rows are through. */
void sv_coll_nodes_reduce(selvage_coll_t *coll, const sv_coll_call_t *call, sv_coll_plan_t *plan_out);
void sv_coll_nodes_broadcast(selvage_coll_t *coll, const sv_coll_call_t *call, sv_coll_plan_t *plan_out);
/* Launches what moves on the node alone, too. */
selvage_status_t sv_coll_nodes_all_gather(selvage_coll_t *coll, const sv_coll_call_t *call, sv_coll_plan_t *plan_out);

#endif
