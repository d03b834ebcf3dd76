/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is kept of calls between nodes while they are under way. Nothing of it waits: it is driven by turns, on the
 * thread where the engine lives.
 *
 *   sv_coll_queue     of an arena: calls that were enqueued, in the order of the calls
 *   sv_coll_flight    one of them, or a group, with all that the user said
 *   sv_coll_run       the first one, which is under way: where it is
 *   sv_coll_rails, sv_coll_pairs_run    its rows; its sends and receives
 *
 * The application's thread fills a flight and counts it as submitted, the engine drives it and counts it as through.
 * Each reads what the other has written after an acquire of the other's count.
 */
#ifndef SV_COLL_NODES_RUN_H
#define SV_COLL_NODES_RUN_H

#include "collective/coll_nodes.h"

/* Calls, or groups, under way at a time; a further one waits on the host for the first to end. */
enum { SV_COLL_FLIGHTS = 8 };

/* Rows of a call under way. */
typedef struct sv_coll_rails {
    const sv_coll_plan_t *plan;
    selvage_coll_t *coll;
    sv_coll_staging_t *staging;
    uint64_t collects, spreads;    /* rows whose kernels were enqueued */
    uint64_t up_begin, down_begin; /* rows before these are through up and down */
    uint64_t down_end;             /* rows from there have not begun down */
    bool moved;                    /* in this turn */
    int awaited;                   /* a rank that is waited for, or SV_COLL_RAIL_RANKS, or SV_COLL_NO_RANK */
    bool fetch_late, put_late;     /* in this turn, a copy of that way was not complete: none after it is looked for */
    int up_late, down_late;        /* the same for messages from that rank, or -1 */
    bool handed_late;              /* the same for what is handed to MPI: none after it is started, or looked for */
    bool kept;                     /* what the plan keeps is being copied */
    uint64_t fetched;              /* rows whose shares were enqueued before all ranks were known to be there */
    bool is_short;                 /* each slot is used once: copies go with the kernels, on their stream */
} sv_coll_rails_t;

/* A chunk of a message; of nothing there is one, too. */
typedef struct sv_coll_pair_piece {
    const sv_coll_call_t *call; /* NULL: there is none */
    uint64_t at, bytes;
    unsigned slot;              /* of its tags */
} sv_coll_pair_piece_t;

/* The messages of one direction, by distance, each list in the order of the calls; numbers are 1 + index, 0 is the
   end. Of an all-to-all there are no lists: one message for each distance whose rank is on another node. */
typedef struct sv_coll_pair_queue {
    const sv_coll_call_t *calls;
    const sv_coll_call_t *whole; /* the all-to-all whose blocks these are, or NULL; */
    sv_coll_call_t block;      /* its message that is being begun */
    bool sends;
    unsigned *next, *head, *tail; /* of calls; of distances. next is owned, and has the others */
    uint32_t *npieces;            /* by rank: chunks so far, in this call and before; the communicator's */
    unsigned left;                /* messages that were not begun */
    int size, distance;           /* ranks; where the queue is */
    sv_coll_pair_piece_t piece;   /* the next one */
    uint64_t begun, through;      /* chunks: those between are in slots */
} sv_coll_pair_queue_t;

/* Both directions. */
typedef struct sv_coll_pairs_run {
    selvage_coll_t *coll;
    sv_coll_pair_queue_t out, in;
    bool moved;
    int awaited;
} sv_coll_pairs_run_t;

typedef enum sv_coll_run_state {
    SV_COLL_RUN_NONE,    /* not begun, or over */
    SV_COLL_RUN_STREAMS, /* what was on the streams before is not complete */
    SV_COLL_RUN_MATCH,   /* ranks compare what they call */
    SV_COLL_RUN_ROWS,
    SV_COLL_RUN_PAIRS,
    SV_COLL_RUN_END      /* what is on the arena's stream is not complete */
} sv_coll_run_state_t;

/* A call, or a group, as it was made. */
typedef struct sv_coll_flight {
    selvage_coll_t *coll;      /* may be of one node: it was called while others were under way */
    const sv_coll_call_t *calls; /* the one, or the room, or the caller's who waits */
    unsigned ncalls;
    sv_coll_call_t one, *room; /* room: of groups; owned, kept for the next one */
    unsigned room_calls;
    sv_event_t *begun;         /* after all that was on the streams */
    sv_event_t *gated;         /* after the gate; application's thread, as has_gate: */
    bool has_gate;             /* it may still look at its words */
} sv_coll_flight_t;

typedef struct sv_coll_run {
    const sv_coll_flight_t *flight;
    sv_coll_run_state_t state;
    unsigned next;             /* call, once this one is through */
    bool has_pairs;            /* sends or receives are left for the end */
    sv_gather_round_t match;
    sv_coll_plan_t plan;
    sv_coll_rails_t rails;
    sv_coll_pairs_run_t pairs;
    bool has_begun;            /* what was on the streams is complete */
    bool has_fetched;          /* the call's rows were begun before ranks have compared it */
    bool agreed;               /* all ranks know of the error, and nothing was begun */
    bool moved;                /* in this turn */
    bool may_pause;            /* after it others may have theirs: nothing moved, or something has for long */
    int awaited;               /* as in rails */
    unsigned turns;
    sv_deadline_t deadline;    /* since something moved; */
    bool is_over;              /* whether it is over, as who drives it says */
} sv_coll_run_t;

typedef struct sv_coll_queue {
    sv_coll_flight_t flight[SV_COLL_FLIGHTS]; /* number n in n % FLIGHTS */
    sv_coll_flight_t blocking; /* of who waits, where nothing is ever enqueued */
    sv_event_t *cross;         /* from the streams of a group to its first one; application's thread */
    _Atomic uint64_t submitted;
    _Alignas(64) _Atomic uint64_t through;
    sv_coll_run_t run;         /* the engine's from here on */
    bool inside;               /* a call is being driven: who is polled meanwhile lets it alone */
    bool ended;                /* a call has failed: later ones fail, or are over before they begin */
    const selvage_coll_t *agreed; /* all of whose ranks know that, by the same call */
} sv_coll_queue_t;

/* coll_rails.c: rows of a plan, which stays; turns say SUCCESS once all are through but for what is on the device. */
void sv_coll_rails_begin(sv_coll_rails_t *run, const sv_coll_plan_t *plan);
/* Before the first turn, of plans without kernels: enqueues the first copies out of the device. */
selvage_status_t sv_coll_rails_fetch(sv_coll_rails_t *run);
selvage_status_t sv_coll_rails_step(sv_coll_rails_t *run);
/* Of one of its rows: notes a rank that this one waits for (the oldest row's counts); receives its piece of so many
   bytes, and sends it; whether the message that comes is there. */
void sv_coll_rails_await(sv_coll_rails_t *run, int rank);
selvage_status_t sv_coll_rails_take(const sv_coll_rails_t *run, sv_coll_rail_slot_t *slot, uint8_t *message,
                                    uint64_t bytes, int rank);
selvage_status_t sv_coll_rails_send(const sv_coll_rails_t *run, sv_coll_rail_slot_t *slot, const uint8_t *message,
                                    int rank);
selvage_status_t sv_coll_rails_poll(const sv_coll_rails_t *run, sv_coll_rail_slot_t *slot, int *late);

/* coll_nodes_tree.c: the shares of a row, of which the own one is there, come from other nodes, and go on. SUCCESS: all
   have come that come here. Then the slot's sum is theirs, or has them, for the node above. */
selvage_status_t sv_coll_tree_begin(sv_coll_rails_t *run, sv_coll_rail_slot_t *slot);
selvage_status_t sv_coll_tree_step(sv_coll_rails_t *run, sv_coll_rail_slot_t *slot);
/* A result goes to the nodes below, as this rank's message. */
selvage_status_t sv_coll_tree_pass(const sv_coll_rails_t *run, sv_coll_rail_slot_t *slot, uint8_t *message);

/* coll_nodes_pairs.c: those of calls that are sends or receives, all together; or the blocks of an all-to-all. _end()
   also after a failure, and of what was never begun. */
selvage_status_t sv_coll_pairs_run_begin(sv_coll_pairs_run_t *run, selvage_coll_t *coll, const sv_coll_call_t *calls,
                                         unsigned ncalls);
selvage_status_t sv_coll_pairs_run_begin_blocks(sv_coll_pairs_run_t *run, selvage_coll_t *coll,
                                                const sv_coll_call_t *call);
selvage_status_t sv_coll_pairs_run_step(sv_coll_pairs_run_t *run);
void sv_coll_pairs_run_end(sv_coll_pairs_run_t *run);

/* coll_nodes_run.c: begins a flight, and drives it by turns: IN_PROGRESS, or what came of it, after which it is over
   and, if that is an error, told to all who may wait for this rank. */
void sv_coll_run_begin(sv_coll_run_t *run, const sv_coll_flight_t *flight);
selvage_status_t sv_coll_run_step(sv_coll_run_t *run);

#endif
