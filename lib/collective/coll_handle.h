/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of collectives. An arena belongs to a communicator of ranks (selvage_comm) and is shared by all
 * communicators of collectives made on it and their splits:
 *
 *   selvage_coll (all ranks) --+
 *   selvage_coll (a split)   --+--> sv_coll_arena --> memory that peers have mapped, counters, FIFO, windows
 *   selvage_coll (a split)   --+                      one order of launches: two grids that wait for other ranks
 *                                                     never run at the same time on this device
 *
 * One thread at a time is inside, but for error and abort, which touch pinned words only. While calls between nodes are
 * under way that were only enqueued, it is the engine's thread that launches (coll_nodes.c).
 */
#ifndef SV_COLL_HANDLE_H
#define SV_COLL_HANDLE_H

#include <stdbool.h>

#include "base/base_list.h"
#include "comm/comm_gather.h"
#include "comm/comm_task.h"
#include "host/memory_buffer.h"
#include "kernels/coll_args.h"
#include "kernels/kernels.h"
#include <selvage/collective.h>

enum { SV_COLL_OPERATIONS = 64, SV_COLL_FIRST_OPERATION = 16 };

/* A completion: fn runs on the engine's thread once the launch with this number is complete. Polled, never waited. */
typedef struct sv_coll_callback {
    sv_list_t link;
    uint64_t launch;
    uint64_t pieces;           /* ended by then: arena->pieces */
    void (*fn)(void *arg);
    void *arg;
} sv_coll_callback_t;

/* What holds streams whose calls the engine drives: sv_await_arg_t. */
typedef struct sv_coll_gate {
    uint64_t through;          /* host: flights so far that are */
    uint64_t ended;            /* host: no stream is held any more */
    uint64_t late;
    uint64_t reserved[13];
} sv_coll_gate_t;

/* Pinned memory of an arena that both sides poll. */
typedef struct sv_coll_pinned {
    uint32_t host_stop;        /* host: end everything */
    uint32_t reserved0[31];
    uint32_t consumed;         /* kernel: position in the FIFO */
    uint32_t reserved1[31];
    sv_coll_gate_t gate;
    sv_coll_error_t error;     /* kernel: the first error */
    uint8_t reserved2[128 - sizeof(sv_coll_error_t) % 128];
    sv_coll_counts_t counts[SV_COLL_CHANNELS];
    uint64_t ended[SV_COLL_CHANNELS]; /* kernel, by block: the last launch that it is through with */
} sv_coll_pinned_t;

_Static_assert(offsetof(sv_coll_pinned_t, counts) % sizeof(uint64_t) == 0, "kernels store both counts in one word");

/* Device memory of this rank's kernels alone. */
typedef struct sv_coll_private {
    uint32_t stop, error_taken, arrivals, reserved[29];
    sv_coll_state_t state[SV_COLL_CHANNELS * SV_COLL_RANKS]; /* [channel][rank of the arena], stride SV_COLL_RANKS */
    uint64_t window[SV_COLL_RANKS * SV_COLL_WINDOW_NUMBERS];
} sv_coll_private_t;

typedef struct sv_coll_arena {
    selvage_comm_t *comm;
    sv_list_t colls;           /* communicators of collectives, and how many: */
    unsigned users;
    uint32_t nranks, me;       /* ranks of the node, and this one among them (in topology.node_ranks) */
    sv_coll_layout_t layout;
    uint8_t *memory;           /* exported; NULL for one rank */
    uint64_t bytes;
    sv_device_handle_t handle; /* of memory ... */
    uint64_t handle_offset;    /* ... which begins so far after the beginning of what the handle opens */
    struct sv_coll_tuning *tuning; /* what SELVAGE_COLL_TUNE says, or NULL; owned */
    bool tried, has_ll128;     /* whether LL128 was tried, and is right; see coll_litmus.c */
    bool captured;             /* launches are in graphs: channels count more than was launched here */
    bool stuck;                /* a launch would not end: nothing that it may use is ever freed */
    void *base[SV_COLL_RANKS]; /* of each rank's memory as mapped here; own: memory */
    sv_transfer_mapping_t *mapping[SV_COLL_RANKS];
    sv_coll_private_t *priv;   /* device memory */
    sv_coll_pinned_t *pinned;  /* host address, and that of the device: */
    sv_coll_pinned_t *pinned_device;
    uint8_t *fifo, *fifo_device; /* pinned ring */
    uint32_t fifo_bytes, fifo_produced;
    uint64_t fifo_waits;
    uint8_t *scratch;          /* pinned; for copies of the set-up, which are waited for */
    uint16_t reach[SV_COLL_RANKS]; /* bit b of a: the device of rank a reaches that of rank b */
    int *list;                 /* room for all ranks, to name those of a communicator that is not made yet */
    void *stream;              /* Selvage's own, for set-up */
    bool copies_open;          /* copies may be under way on it */
    sv_event_t *last;          /* after the last launch */
    void *last_stream;
    uint32_t last_blocks;      /* of the last launch */
    uint64_t launches;         /* so far; */
    uint64_t completed;        /* launches known to be complete */
    uint64_t pieces;           /* of work in all launches so far, one for each channel: what the counts add up to,
                                  modulo 2^32 */
    sv_list_t callbacks;       /* in order of launch */
    uint64_t ncallbacks;       /* handed back so far */
    sv_list_t windows;
    uint64_t windows_used;     /* bit w: window w is taken; bit 0 always */
    uint64_t window_base[SV_COLL_RANKS * SV_COLL_WINDOW_NUMBERS]; /* the host's copy of priv->window */
    uint64_t cache_bytes;      /* that it may offer; 0: there is none */
    struct sv_coll_cache *cache; /* of buffers that nobody registered, or NULL; coll_cache.h */
    unsigned numbers_used;     /* bits: numbers of communicators (0..15) in use */
    selvage_status_t broken;   /* the error as it was first told */
    char broken_text[SV_DETAIL_BYTES]; /* what the engine said of it; there once has_broken_text is */
    bool has_broken_text;
    struct sv_coll_staging *staging; /* for what goes between nodes, or NULL; coll_nodes.h */
    struct sv_coll_room *room; /* for what is between the steps of composed calls; NULL for one rank; coll_composed.c */
} sv_coll_arena_t;

struct selvage_window {
    sv_list_t link;
    sv_coll_arena_t *arena;
    selvage_coll_t *coll;      /* over which it was registered; NULL once that is destroyed, and the window with it */
    uint8_t *ptr;
    size_t bytes;
    unsigned number;           /* 1..63, the same on all ranks of coll */
    bool is_own;               /* the library's: no user has the handle, which goes when the window is withdrawn */
    uint32_t members;          /* bits: ranks of the arena that have mapped it */
    sv_transfer_mapping_t *mapping[SV_COLL_RANKS];
};

/* An operation of the user's. */
typedef struct sv_coll_operation {
    bool used, on_device;
    uint8_t type;
    uint64_t scalar;           /* bits of the element, or its address */
} sv_coll_operation_t;

/* A call of the user's that others stand for: what ranks compare in place of these. type 0: there is none. */
typedef struct sv_coll_whole {
    uint8_t call, type;
    uint8_t op;                /* SV_COLL_SIGNED_EXACT or SV_COLL_SIGNED_FOLD and what it is (coll_parts.h); 0: none */
    int root;
    uint64_t count;
} sv_coll_whole_t;

/* What is made of other calls: by coll_exact.c, by coll_fold.c. */
enum { SV_COLL_EXACT_SUM = 1, SV_COLL_FOLD };

/* One call as the user made it, checked; or a part of one. */
typedef struct sv_coll_call {
    uint8_t call, type, op, flags; /* SV_COLL_*, op SV_COLL_SUM.. */
    int root;                  /* or peer; -1: none */
    bool is_send;              /* of a PAIR */
    bool captured;             /* its stream is captured: its launches are replayed, and not counted here */
    uint8_t composed;          /* of other calls: SV_COLL_EXACT_SUM, SV_COLL_FOLD; 0: it is not */
    sv_coll_whole_t whole;
    const void *send;          /* device addresses */
    void *recv;
    uint64_t count, scalar;
    void *stream;
    uint64_t send_id, recv_id; /* of their allocations; 0: not known, or they lie in windows */
} sv_coll_call_t;

enum { SV_COLL_NOT_PUSHED = 0xff };

/* What the selection says about a call. */
typedef struct sv_coll_choice {
    uint8_t algo, proto;
    uint16_t nchannels;
    uint32_t chunk_bytes;
    uint8_t pieces_log2;       /* as work.peer has it; SV_COLL_NOT_PUSHED */
    const char *why;           /* the threshold or variable that decided, for the log; static text */
} sv_coll_choice_t;

/* Everything the selection may look at; the same on all ranks. */
typedef struct sv_coll_facts {
    uint32_t nranks, nchannels; /* of this communicator; of the arena */
    sv_coll_layout_t layout;
    bool has_ll128;            /* LL128 passed its test on all ranks */
    bool soft;                 /* few blocks are better there */
    bool shows_stores;         /* as the device has it */
    const sv_config_t *config;
    const struct sv_coll_tuning *tuning; /* NULL: none */
} sv_coll_facts_t;

enum { SV_COLL_GROUP_CALLS = 4096, SV_COLL_SEEN = 8 };

/* A buffer of an earlier call, not to be asked about again: the device's answer takes a lock or microseconds. It is of
   the allocation with this number, so that memory given out again at the same place is asked about anew. */
typedef struct sv_coll_seen {
    uint64_t id;
    const void *ptr;
    uint64_t bytes;
    void *address;
} sv_coll_seen_t;

struct selvage_coll {
    sv_list_t link;
    sv_coll_arena_t *arena;
    selvage_comm_t *comm;
    unsigned number;           /* in the arena, 0..15: part of signatures */
    int rank, size;            /* of the communicator, as the user sees it */
    bool exact;                /* sums of float32 and float64 are exact */
    bool host_waits;           /* its kernels tell the host that they are through */
    bool spans;                /* nodes: then the device part is among the node's ranks only */
    sv_team_t all, node; /* its ranks, at rest if it spans nodes; those of this node, ranks of dev (then only) */
    int *node_of;              /* by rank: the lowest rank of comm on its node */
    struct sv_coll_node_set *node_set; /* if it spans nodes; coll_nodes.h */
    uint32_t members;          /* bits: ranks of the arena in dev */
    sv_coll_dev_t dev;         /* the host's copy */
    sv_coll_dev_t *dev_device; /* in device memory */
    sv_coll_context_t context; /* of the argument of every launch */
    sv_coll_small_pair_arg_t alone; /* of the last launch of one message each way, or, its first member, a short call */
    sv_coll_facts_t facts;
    uint32_t sequence;         /* of collective calls */
    uint64_t calls;
    void *stream;              /* of the last call, or of the first of a group: */
    uint64_t last_launch;      /* what it ended with, if that tells the host that it is through; else 0 */
    bool many_streams;         /* it may end on further streams */
    sv_coll_operation_t operation[SV_COLL_OPERATIONS];
    sv_coll_seen_t seen[SV_COLL_SEEN];
    unsigned seen_next;
    unsigned group_depth;
    selvage_status_t group_status;
    sv_coll_call_t *group;     /* calls of the open group; allocated with the handle: SV_COLL_GROUP_CALLS */
    unsigned ngroup;
    bool group_composed;       /* one of them is made of other calls */
};

/* coll_layout.c: the layout that fits into bytes: as many channels as wanted, if slots stay large enough. Pure. */
selvage_status_t sv_coll_layout(uint32_t nranks, uint32_t nchannels, uint64_t bytes, sv_coll_layout_t *layout_out,
                                uint64_t *bytes_out);

/* coll_create.c */
selvage_status_t sv_coll_create(selvage_comm_t *comm, const selvage_coll_params_t *params, selvage_coll_t **coll_out);
bool sv_coll_is_supported(const selvage_comm_t *comm);
selvage_status_t sv_coll_split(selvage_coll_t *coll, int color, int key, selvage_coll_t **coll_out);
selvage_status_t sv_coll_create_among(selvage_coll_t *coll, int count, const int *ranks, selvage_coll_t **coll_out);
void sv_coll_destroy(selvage_coll_t *coll);

/* coll_window.c */
selvage_status_t sv_coll_register(selvage_coll_t *coll, void *ptr, size_t bytes, selvage_window_t **window_out);
selvage_status_t sv_coll_unregister(selvage_window_t *window);
/* number << 48 | offset of a buffer that lies in a window which all ranks of coll on this node have mapped; 0: in none.
   Hot path. */
uint64_t sv_coll_window_find(const selvage_coll_t *coll, const void *ptr, uint64_t bytes);

/* coll_rings.c: link-disjoint rings from the peer matrix (weight[a * n + b] of the way from a to b, 0: none). Pure;
   the same on all ranks. Returns how many rings there are, at least 1. */
unsigned sv_coll_rings(const uint32_t *weight, unsigned n, uint8_t ring[SV_COLL_RINGS][SV_COLL_RANKS]);
/* coll_pat.c: the logarithmic schedules of rank me of n. Pure. */
void sv_coll_pat_gather(unsigned n, unsigned me, sv_coll_pat_t *pat_out);
void sv_coll_pat_scatter(unsigned n, unsigned me, sv_coll_pat_t *pat_out);

/* coll_select.c: pure, the same on all ranks; never fails: what was forced and is not there is replaced, and why says
   so. */
void sv_coll_select(const sv_coll_facts_t *facts, const sv_coll_call_t *call, sv_coll_choice_t *choice_out);

/* coll_launch.c: enqueues calls (one, or a group) of coll as one launch. Never blocks but for room in the FIFO. */
selvage_status_t sv_coll_launch(selvage_coll_t *coll, const sv_coll_call_t *calls, unsigned ncalls);
/* coll_call.c: checks a call and launches it, or adds it to the open group. */
selvage_status_t sv_coll_submit(selvage_coll_t *coll, const sv_coll_call_t *call);
/* What a call in an open group was refused with, if it was: the group is not launched then. */
void sv_coll_refuse(selvage_coll_t *coll, selvage_status_t status);
selvage_status_t sv_coll_group_begin(selvage_coll_t *coll);
selvage_status_t sv_coll_group_end(selvage_coll_t *coll);

/* coll_error.c: turns the pinned record into a status, once with a line in the log; thread-safe. */
selvage_status_t sv_coll_check(selvage_coll_t *coll);
void sv_coll_abort(selvage_coll_t *coll);
/* An error of a call between nodes, of which this thread's detail says more: kept if it is the first one. */
void sv_coll_note_failure(sv_coll_arena_t *arena, selvage_status_t status);

/* coll_complete.c: hands back what is complete; cheap, never blocks. */
void sv_coll_poll(sv_coll_arena_t *arena);
/* Brings arena->completed up to date, if no launch is under way; else it may stay what it was. Never blocks. */
void sv_coll_note_completed(sv_coll_arena_t *arena);
/* Waits for the last call or group of coll, however long it takes, and gives what sv_coll_check() gives then. */
selvage_status_t sv_coll_wait(selvage_coll_t *coll);
/* Runs fn once all launches so far are complete. */
selvage_status_t sv_coll_when_complete(sv_coll_arena_t *arena, void (*fn)(void *arg), void *arg);
/* Waits for all launches so far, at most timeout_s (-1: no limit) after host_stop if that passes. */
selvage_status_t sv_coll_drain(sv_coll_arena_t *arena, double timeout_s);

/* coll_nodes.c: calls (one, or a group) of a communicator that spans nodes: with a progress thread enqueues them, else
   blocks until they are through. Or of one node, while others are under way. */
selvage_status_t sv_coll_nodes(selvage_coll_t *coll, const sv_coll_call_t *calls, unsigned ncalls);
/* Whether no call is under way that the engine drives: then this thread may launch. Application's thread. */
bool sv_coll_queue_is_idle(const sv_coll_arena_t *arena);
/* Waits for that. What does not get on for the deadline is aborted. Not where the engine lives. */
void sv_coll_queue_wait(sv_coll_arena_t *arena);
/* After that: waits until no stream is held by one of them, for the deadline at most; whether that is so. */
bool sv_coll_queue_release(sv_coll_arena_t *arena);
/* Engine: advances them; whether anything moved. _end(): those under way fail, without a word to other ranks. */
bool sv_coll_queue_poll(sv_coll_arena_t *arena);
void sv_coll_queue_end(sv_coll_arena_t *arena, selvage_status_t status);

#endif
