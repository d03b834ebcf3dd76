/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchange and its packets: the core structures of the pipeline.
 *
 * An exchange is two arrays of packets, committed once and started often. Every packet is a small state machine of its
 * own; a poll walks the packets that are not done and advances each as far as it goes, so that a slow one holds up
 * nobody. Each route is a table of functions over that state (route.h): begin with route_staged.c.
 *
 * A send, by route:
 *
 *   staged:     user buffer --D2H--> slot --wire--> slot --H2D--> user buffer        verdict: control message
 *   shared:     user buffer --D2H--> slot in the receiver's node-shared segment --H2D--> user buffer   verdict: word
 *   peer, self: user buffer --D2D--> receiver's registered buffer, or slot in its slab --D2D--> user buffer
 *   direct:     user buffer --wire--> user buffer; the record is a message of its own          verdict: control message
 *
 * Packets larger than a segment move in segments through a few slots each:
 *
 *   segment:   0   1   2   3   4   5   6   7   8 ...            staged:   next_stage >= next_send >= reaped
 *   slot:      0   1   2   3   0   1   2   3   0 ... (nslots 4)  one-sided: next_stage <= credit
 *
 * Send states                                     Receive states
 *
 *   IDLE --start--> MOVING --all fired and          IDLE --start--> WAITING --every segment landed--> VERIFYING
 *    ^                ^       reaped--> VERDICT       ^                 ^                               |   |
 *    |                |                  |  |         |                 +---- failed: ask again --------+   |
 *    |                +---- asked again -+  |         +------------------- verified ------------------------+
 *    +---------------- verdict good --------+
 *
 * A resend on the staged route may cross the verdict: the receiver asked for a packet that was only slow, and has it.
 * It posts no receive for the second one before the next epoch, so that waiting for it to leave could wait for ever.
 * The verdict ends the send then; its slots stay in flight, and the send's next epoch begins when they are free. Before
 * an exchange is destroyed such duplicates are received and thrown away.
 *
 * On the direct route nothing may stay in flight, because what would stay in flight is the user's memory. So the
 * receiver takes only the newest attempt that it asked for and has receives posted until that one has come, and the
 * sender sends no attempt that was not asked for: when a verdict is given, no message of the packet is under way any
 * more.
 *
 * One-sided routes talk through words in node-shared memory, two lines per packet, polled by the host that owns them:
 *
 *   in the sender's segment   (written by the receiver): credit: segments it may write;  verdict: epoch that was good
 *   in the receiver's segment (written by the sender):   arrived: segments written;      recorded: the record is there
 *
 * A word is epoch (32 bits), attempt (8), count (24); see sv_word(). The payload is stored before `arrived` is released
 * and the record before `recorded`, by the same device stream; the reader acquires the word before it reads either. No
 * byte enters the receiver's memory before its credit of that epoch.
 *
 * Packets up to some size are moved by kernels, in batches (pipe_batch.c): one push for all that may leave, one pull
 * for all that came. On `peer` and `shared` they land in slots that take turns, epoch e in slot e modulo nslots; so
 * the credit for an epoch is granted long before it starts, by the pull that emptied the slot. What a kernel that waits
 * polls has a copy in device memory: on `peer` and `self` the record and the arrival word, on `peer` the credit.
 *
 *   sender:    start --> push ..............................................> verdict seen
 *                           \ payload, record, words              verdict, credit /
 *   receiver:                `---------> host or kernel sees it --> pull ---------'--> done seen
 *
 * What the device has done the host learns from words in pinned memory, not from events: looking costs nothing.
 *   send:  ready (staged: record and small payloads are in host memory), sent (the user's buffer is read no more)
 *   recv:  done (verified, or not)         slot: word (its copy is through)
 *
 * Ownership: the exchange owns its packets, streams, events, staging block, slab and segment. Everything is made at
 * commit (commit_*.c) and freed by sv_exchange_release(); nothing is allocated between start and wait.
 */
#ifndef SV_PIPE_EXCHANGE_H
#define SV_PIPE_EXCHANGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base_fault.h"
#include "base/base_list.h"
#include "base/base_status.h"
#include "base/base_thread.h"
#include "host/memory_buffer.h"
#include "host/memory_shared.h"
#include "kernels/kernels.h"
#include "pipeline/exchange_set.h"
#include "pipeline/layout_state.h"
#include "pipeline/pipe_rebind.h"
#include "transfer/transfer_mapping.h"
#include "transfer/transfer_slot.h"
#include <selvage/exchange.h>

/* One line in the sender's segment per one-sided packet. Written by the receiver, read by the sender's host. */
typedef struct sv_send_words {
    uint64_t credit, verdict;
    uint64_t reserved[6];
} sv_send_words_t;

/* Two lines in the receiver's segment per one-sided packet. Written by the sender's stream, read by the receiver. */
typedef struct sv_recv_words {
    uint64_t arrived, recorded;
    uint64_t reserved[6];
    sv_record_t record;
} sv_recv_words_t;

/* First line of an exchange's segment. answer_* prove mappings at commit; heartbeat: when the owner last polled. */
typedef struct sv_segment_head {
    uint64_t heartbeat_ns;
    uint64_t slab_token;           /* on its way into the own slab, at commit */
    uint64_t slab_read;            /* what was found in a peer's slab, at commit */
    uint64_t reserved[5];
} sv_segment_head_t;

/* epoch (low 32 bits), attempt, count of segments. Equality of the upper 40 bits means "this very attempt". */
static inline uint64_t sv_word(uint64_t epoch, unsigned attempt, uint64_t count)
{
    return (epoch & 0xffffffffu) << 32 | (uint64_t)(attempt & 0xff) << 24 | (count & 0xffffff);
}
/* How far the epoch of a word is ahead of another. Negative: it is older. */
static inline int32_t sv_word_ahead(uint64_t word, uint64_t epoch)
{
    return (int32_t)((uint32_t)(word >> 32) - (uint32_t)epoch);
}
/* Whether a word says the very epoch and attempt, with a count. */
static inline bool sv_word_matches(uint64_t word, uint64_t epoch, unsigned attempt)
{
    return word >> 24 == (sv_word(epoch, attempt, 0) >> 24) && (word & 0xffffff) != 0;
}
static inline uint32_t sv_word_epoch(uint64_t word) { return (uint32_t)(word >> 32); }
static inline unsigned sv_word_attempt(uint64_t word) { return (unsigned)(word >> 24) & 0xff; }
static inline uint32_t sv_word_count(uint64_t word) { return (uint32_t)(word & 0xffffff); }

typedef enum sv_send_state { SV_SEND_IDLE, SV_SEND_MOVING, SV_SEND_VERDICT } sv_send_state_t;
typedef enum sv_recv_state { SV_RECV_IDLE, SV_RECV_WAITING, SV_RECV_VERIFYING } sv_recv_state_t;

/* Why a packet is asked for again. */
typedef enum sv_resend_reason { SV_RESEND_MISSING, SV_RESEND_DAMAGED } sv_resend_reason_t;

struct sv_peer;
struct sv_fault_send;
struct sv_handshake_recv;
struct sv_handshake_send;

/* What sends and receives have in common: who the packet is and how it is cut. */
typedef struct sv_packet {
    struct selvage_exchange *x;
    struct sv_peer *peer;
    size_t bytes, declared_bytes; /* bytes: of the next epoch, if they vary */
    int tag, peer_rank;
    uint32_t index;             /* the sender's */
    uint32_t own_index;         /* in this rank's array */
    selvage_route_t route;
    const struct sv_route_ops *ops; /* the route's; chosen at commit */
    bool in_place;              /* peer, self, direct: straight into the user's buffer, no receive slots */
    bool kernel_copy;           /* small: kernels move it in batches, not a copy engine */
    bool pulled;                /* received: one kernel verifies all of it and gives the verdict */
    sv_layout_t *layout;        /* where its bytes lie, if not one after the other; owned */
    uint32_t base;              /* of its layout, if the packet may be bound to other memory; else 0 */
    bool fallen;                /* staged, because memory of this one neighbour cannot be mapped */
    bool fused, plain;          /* with a layout: see layout_parts.h */
    const sv_piece_t *pieces;   /* device: the layout for kernels */
    uint32_t npieces;
    int wire_tag, record_tag;   /* record_tag: direct only */
    uint32_t nsegments, nslots;
    size_t segment_bytes;
    sv_slot_t *slots;
    sv_record_t identity;       /* what its record must say; its epoch is the present one, its attempt that of a send */
    uint64_t key;
    sv_digest_scratch_t *scratch;
    uint64_t started_ns;        /* receive: when its epoch began here; send: when its present attempt began */
    uint64_t moved_ns;          /* since when the retry timeout counts: the attempt's start, the last arrival (one-sided
                                   sends: the last copy), or the last request */
    unsigned attempt;           /* send: the present one; receive: the lowest that is accepted */
    unsigned requests;          /* requests or queries of this epoch: their interval doubles */
} sv_packet_t;

typedef struct sv_send {
    sv_packet_t p;              /* first */
    const uint8_t *buf;
    sv_send_state_t state;
    sv_record_t *record;        /* pinned: written by the prepare kernel */
    uint64_t *ready, *sent, *failed; /* pinned words; see above. failed: the epoch whose credit never came */
    uint64_t pushed;            /* what the word of the last push on its way will be; 0: none */
    bool ready_seen;
    uint32_t next_stage, next_send, reaped;
    unsigned wanted_attempt;    /* the highest the receiver asked for */
    uint64_t ahead_epoch;       /* direct: the receiver is an epoch ahead, and asks already ... */
    unsigned ahead_attempt;     /* ... for this attempt */
    uint64_t delay_until_ns;    /* a delay fault */
    bool silent;                /* a drop fault: this attempt is not sent */
    bool outlives_epoch;        /* staged: a resend that nobody needed any more still leaves from the slots */
    bool fault_decided;         /* for this attempt */
    sv_fault_kind_t fault_kind;
    uint32_t fault_segment;
    sv_send_words_t *words;     /* own segment; NULL on staged */
    sv_recv_words_t *remote;    /* in the receiver's segment; a device address */
    uint8_t *target;            /* direct: the buffer there; else the first slot there; a device address */
    size_t target_stride;
    sv_transfer_mapping_t *mapping; /* that target lies in */
    uint8_t *device_line;       /* self, moved by kernels: the record on the device, and a word after it; or NULL */
    uint64_t *credit_device;    /* peer: in the own slab, credit of the receiver's pull for a push that waits; or
                                   NULL */
    const struct sv_handshake_recv *match; /* the receive's descriptor; during commit only */
    struct sv_fault_send *fault;
} sv_send_t;

typedef struct sv_recv {
    sv_packet_t p;              /* first */
    uint8_t *buf;
    uint8_t *discard_buffer;    /* direct, if faults are configured: where doubled messages end at destroy */
    uint8_t *recv_slots;        /* first receive slot, as the handshake told; NULL: staged or direct */
    sv_recv_state_t state;
    sv_record_t *record;        /* pinned: copy of what arrived, for the verifying kernel; own words on one-sided */
    sv_verify_result_t *result; /* pinned */
    uint64_t *done;             /* pinned word: epoch, attempt, SV_PULL_ outcome */
    uint64_t launched;          /* what that word will be at least after the last pull on its way; 0: none */

    uint64_t *arrived_segments; /* bit per segment */
    uint32_t arrived_count, posted_count, consumed;
    unsigned requested_attempt; /* highest attempt asked for in this epoch */
    unsigned damaged;           /* failed attempts of this epoch */
    uint64_t *arrived_word;     /* pinned word, staged: the message is here, for a pull that was launched early */
    uint64_t took_ns;           /* start to verified, in the last epoch that the host ended; resends included */
    uint64_t prelaunched_epoch; /* the last in which a pull of it was launched early */
    bool pull_prelaunched;      /* staged: such a pull is under way */
    bool between_attempts;      /* one failed, and nothing of the next has come */
    sv_resend_reason_t resend_reason;
    bool request_due;           /* a request that found no room on the wire */
    sv_recv_words_t *words;     /* own segment; NULL on staged */
    sv_send_words_t *remote;    /* in the sender's segment; a host address */
    uint8_t *device_line;       /* see sv_send_t; own slab */
    uint64_t *credit_device;    /* the same, in the sender's slab */
    sv_transfer_mapping_t *mapping; /* that credit_device lies in */
    selvage_buffer_t *buffer;   /* registered memory it lands in */
    const struct sv_handshake_send *match; /* the send's descriptor; during commit only */
} sv_recv_t;

/* What neighbours tell each other of an exchange that they commit without other ranks (commit_neighbors.c). */
typedef enum sv_neighbor_stage {
    SV_STAGE_MAPPED,               /* packets match, and memory is mapped as far as it can be */
    SV_STAGE_PROVED,               /* value: the best route that mappings leave to the pair */
    SV_STAGE_PROBING,              /* to those with direct packets only: the messages of the probe are open */
    SV_STAGE_READY,                /* all is made here */
    SV_STAGE_LEFT,                 /* value: the error with which this rank has left the commit, letting go of all */
    SV_STAGE_PARTED,               /* destroyed: nothing of the other's is mapped or used any more */
    SV_STAGES
} sv_neighbor_stage_t;

typedef struct sv_neighbor_talk {
    bool said[SV_STAGES], acked[SV_STAGES], heard[SV_STAGES];
    uint64_t said_value[SV_STAGES], heard_value[SV_STAGES];
    bool announced;                /* the handshake is */
    uint64_t completed;            /* what it says of the commit with the peer before */
    uint64_t turn;                 /* how many commits of this rank have named the peer, with this one */
    selvage_status_t lost;         /* the error with which the peer left, as far as is known; or SUCCESS */
} sv_neighbor_talk_t;

/* A rank that this exchange talks to. */
typedef struct sv_peer {
    sv_list_t link;
    struct selvage_exchange *x;
    sv_list_t pair_link;           /* of an exchange that neighbours commit; see neighbor_table.h */
    int rank;
    bool on_node;
    bool unmatched;                /* it talks to us, we do not know why */
    uint64_t number;               /* of the commit at the peer; of all ranks the same as here; 0: not known */
    uint64_t exchange_id;          /* what the pair calls the exchange */
    sv_neighbor_talk_t talk;
    bool handshake_sent, handshake_acked, handshake_known, setup_received, setup_sent;
    uint8_t *handshake_out, *handshake_in; /* descriptor messages; freed after commit */
    size_t handshake_out_bytes, handshake_in_bytes;
    sv_wire_request_t handshake_out_request, handshake_in_request;
    unsigned descriptor_requests;  /* for its descriptors, which came damaged or not at all */
    uint64_t request_next_ns;      /* when to ask next */
    uint32_t nsends, nrecvs;       /* packets to it and from it */
    sv_shared_segment_t segment;   /* its segment, mapped here */
    bool segment_open;
    bool one_sided;                /* some packet of the pair wants it */
    bool wants_direct;             /* some packet of the pair shall go direct */
    bool direct_proved;            /* and probes arrived right, here and there */
    struct sv_direct_probe *probe; /* of a pair that wants it; during commit only */
    const uint64_t *proof_here;    /* where the peer proves that it mapped ours */
    uint64_t proof_token;          /* what it must write there */
    selvage_route_t fallback;      /* no better route than this: what earlier commits found, see commit_fallback.c */
    selvage_route_t reach;         /* the best route for which this commit mapped the peer's memory here ... */
    char why[256];                 /* ... and why no better one */
    uint32_t staged_left;          /* staged and direct receives of this epoch not yet verified */
    uint32_t nstaged_recvs;
    bool verdict_due;              /* all verified, message not sent yet */
    uint64_t good_epoch;           /* last epoch of which everything from it was good */
    uint64_t verdict_epoch;        /* last epoch that it called good */
    uint64_t heard_ns;             /* last message of any kind */
    uint64_t queried_ns;           /* last time its verdict was asked for, by whichever packet */
} sv_peer_t;

typedef enum sv_exchange_state {
    SV_EXCHANGE_BUILDING,
    SV_EXCHANGE_IDLE,     /* committed, no epoch under way */
    SV_EXCHANGE_RUNNING,
    SV_EXCHANGE_POISONED
} sv_exchange_state_t;

/* Where an exchange's work is enqueued: non-blocking streams of its own, only those that some packet needs. */
typedef struct sv_exchange_streams {
    void *kernel, *out, *in, *peer;
    void *signal;                  /* words after segments: a copy engine's stream would stand still for each */
    void *caller;                  /* the user's; valid during start, if start may enqueue there itself */
    sv_event_t *start_event;       /* the caller's stream at start */
    sv_event_t *cross_event;       /* for an order between two streams of the exchange */
    sv_event_t *last_out_event;    /* after the last copy down of staged packets */
} sv_exchange_streams_t;

/* How much of an exchange kernels move; settled at commit (sv_prelaunch_decide()). */
typedef enum sv_kernel_reach {
    SV_KERNELS_MOVE_SOME,
    SV_KERNELS_PULL_ALL,           /* every receive ends by a pull */
    SV_KERNELS_MOVE_ALL            /* every send is a push as well, and no fault will change that */
} sv_kernel_reach_t;

/*
 * How an epoch is expected to run; settled at its start (choose_epoch_mode() in pipe_run.c) from what kernels move and
 * from how the last epoch ended. An epoch that ends another way than expected is right all the same, but slower.
 */
typedef enum sv_epoch_mode {
    SV_EPOCH_HOST,                 /* the host advances the packets; streams of the exchange are after the caller's */
    SV_EPOCH_HOST_ONE_STREAM,      /* it waits at once: all is on the caller's stream, most likely; others are put
                                      after it when they are needed (sv_exchange_order()) */
    SV_EPOCH_DEVICE,               /* an enqueued wait ends it: pushes wait for their credit on the device */
    SV_EPOCH_DEVICE_ONE_STREAM     /* an enqueued wait ends it, and all is on the caller's stream, most likely */
} sv_epoch_mode_t;

/* Packets that kernels move, many with one launch; see pipe_batch.c. */
typedef struct sv_exchange_batch {
    sv_push_item_t *push_items;    /* device: one per send, for those that kernels move */
    sv_pull_item_t *pull_items;    /* the same for receives; one block with push_items */
    void *pinned_items;            /* what they were copied from, if lengths vary: they are copied again; owned */
    uint32_t *push_due, *pull_due; /* packets that the next batch takes */
    uint32_t npush_due, npull_due;
    const sv_send_t *first_push;   /* start pushed it on the caller's stream, in this epoch; or NULL */
    sv_kernel_reach_t reach;
    uint64_t early_wait_ns;        /* how long a pull that a waiting host launches may wait; 0: there are none */
} sv_exchange_batch_t;

/* Epochs that end on the device, by an enqueued wait; see pipe_enqueued.c. */
typedef struct sv_exchange_enqueued {
    bool host_ends;                /* wait or test was called in this epoch */
    bool kernel_stream_busy;       /* with something of this epoch that an enqueued wait must join */
    bool joined;                   /* the last enqueued wait is after streams of the exchange, too */
    bool results_pending;          /* an enqueued wait has closed packets whose pull was under way */
    bool waited_immediately;       /* the last epoch was waited for as soon as it was started, on the same stream */
    bool in_run;                   /* start leaves its pushes to the enqueued wait that follows it at once */
    uint64_t left_start_ns;        /* when start returned; 0 once the epoch's first test or wait has looked at it */
    sv_event_t *gate_event;        /* after the last hold of a caller's stream (gated_epoch) or wait there (joined) */
    uint64_t epoch;                /* the last that ended by an enqueued wait; 0: none */
    uint64_t found_epoch;          /* in which the device found a failure after an enqueued wait; 0: none */
    uint64_t gated_epoch;          /* the last that a progress thread ends; 0: none */
} sv_exchange_enqueued_t;

/* Epochs that kernels number: those of graphs, and of kernels of the user's; see pipe_epoch.h. Application thread. */
typedef struct sv_exchange_numbers {
    sv_epoch_state_t *state;       /* device; in the block of the scratch */
    uint64_t *words;               /* pinned: SV_EPOCH_BEGUN and on */
    bool shared;                   /* the device may number epochs; the host follows, and tells it of its own */
    bool start_captured;           /* a start is in a graph whose enqueued wait has not been captured yet */
} sv_exchange_numbers_t;
struct selvage_device_report;

/* Epochs that kernels of the application's run; see pipe_session.c. */
typedef struct sv_exchange_session {
    uint64_t epoch;                /* the last of the last session; 0: there was none */
    uint64_t first_epoch;          /* of the same session */
    bool lost;                     /* its kernel will never come to its end */
    bool idle;                     /* without packets: its stream was seen idle, so that its kernel is through */
    void *stream;                  /* the user's, on which its kernel is */
    void *block;                   /* device: what kernels read and share; owned */
    struct selvage_device_report *report; /* pinned: the first failure; owned */
} sv_exchange_session_t;

/* Memory that commit makes. */
typedef struct sv_exchange_memory {
    uint8_t *pinned;               /* staging slots, records, results: one block */
    uint8_t *scratch;              /* device: a sv_epoch_state_t, and one sv_digest_scratch_t per packet */
    uint8_t *slab;                 /* device: receive slots of peer receives that are not registered, device words */
    sv_device_handle_t slab_handle;
    bool slab_exported;
    uint64_t slab_offset;
    size_t slab_bytes;
    uint64_t slab_token_offset;    /* after the slots, in the memory of the handle: proves the mapping */
    sv_shared_segment_t segment;   /* words and shared slots; mapped by the peers of the node */
    bool segment_open;
    uint64_t segment_token;
    sv_segment_head_t *head;       /* in the segment */
    uint8_t *shared_slots;         /* in the segment: receive slots of shared receives */
    size_t pinned_bytes, device_bytes;
} sv_exchange_memory_t;

/* What went wrong: the first error, which every later call returns, and what neighbours are told or have told. */
typedef struct sv_exchange_failure {
    selvage_status_t status;
    char text[SV_DETAIL_BYTES];
    uint64_t epoch;                /* the first that this rank did not complete; told to neighbours with the error */
    uint64_t lost_epoch;           /* later than the present one: a neighbour will not take part in it; 0: none */
    selvage_status_t lost_status;  /* its reason */
    int lost_source;
    uint64_t expected, found;      /* digests in the record and of the data, of the last attempt that did not verify */
    uint32_t index, source;        /* of the packet that ended the exchange here; source UINT32_MAX: none did */
    bool quarantined;              /* something may still write the memory: never freed */
    bool device_busy;              /* a kernel on a stream of the caller's never came to its end: it may still read */
    uint32_t posted_left;          /* receives that could not be withdrawn */
} sv_exchange_failure_t;

typedef struct sv_exchange_timing {
    uint64_t phase_begin_ns[7], phase_end_ns[7];
    _Atomic uint64_t progress_ns;  /* last time anything moved; read by a waiting application thread */
    bool defer_peer;               /* this epoch: copies within the node wait for streams.last_out_event */
    uint64_t measured_ns[2];       /* best epoch seen: [deferred], for the measured policy */
    uint64_t measured_count;
} sv_exchange_timing_t;

struct selvage_exchange {
    selvage_comm_t *comm;
    sv_list_t link, active_link;
    _Atomic int state;             /* sv_exchange_state_t; released by the engine, acquired by the application */
    bool on_active;
    bool committed;                /* every rank, or every neighbour, committed it */
    bool neighbors;                /* its neighbours commit it without other ranks */
    uint64_t create_number, id;
    uint64_t number;               /* of the commit; SV_NEIGHBOR_NUMBER and this rank's own count, if by neighbours */
    uint64_t repeat_ns;            /* during commit by neighbours: when to repeat what is not acknowledged ... */
    unsigned repeats;              /* ... and how often that was done */
    uint64_t frees_seen;           /* sv_device_frees() when the memory of all packets was last looked at */
    uint64_t started;              /* epochs, as the application counts them */
    uint64_t epoch;                /* the same, as the engine does: one thread each */
    sv_epoch_mode_t mode;          /* of this epoch */
    selvage_route_t forced_route;  /* by the parameters; DEFAULT: the configuration decides */
    int policy;                    /* SV_CONFIG_CHECKSUM_... */
    bool varying;                  /* packets may be shorter than they were declared (pipe_varying.h) */
    bool messaged;                 /* some packet goes by messages of the wire */
    size_t send_bytes;

    sv_send_t *sends;
    sv_recv_t *recvs;
    uint32_t nsends, nrecvs, sends_room, recvs_room;
    sv_send_t **active_sends;      /* not done in this epoch */
    sv_recv_t **active_recvs;
    uint32_t nactive_sends, nactive_recvs;
    sv_list_t peers;
    uint32_t npeers;
    uint32_t verdicts_due;         /* peers whose verdict is still to be sent in this epoch */
    sv_layout_state_t layouts;     /* of packets that do not lie in one piece */
    sv_rebind_state_t rebind;      /* what packets may be bound to other memory, and to what they are */

    bool in_start;
    unsigned start_copies;         /* that start has enqueued; see sv_packet_may_copy() */
    bool unordered;                /* the streams of the exchange are not after the caller's yet: maybe none is used */
    uint64_t begun_epoch;          /* the last epoch in which streams.start_event was seen complete */
    uint64_t *abort;               /* pinned: not 0: kernels stop waiting; then two words more: the last epoch joined,
                                      and that for which a stream was held in vain; then numbers.words */
    sv_work_t start_work;

    sv_exchange_streams_t streams;
    sv_exchange_batch_t batch;
    sv_exchange_enqueued_t enqueued;
    sv_exchange_numbers_t numbers;
    sv_exchange_session_t session;
    sv_exchange_memory_t memory;
    sv_exchange_failure_t failure;
    sv_exchange_timing_t timing;
};

/* Life. Creating, committing and destroying change lists of the communicator: engine thread. */
selvage_status_t sv_exchange_create(selvage_comm_t *comm, const selvage_exchange_params_t *params,
                                    selvage_exchange_t **x_out);
selvage_status_t sv_exchange_add_send(selvage_exchange_t *x, const void *buf, size_t bytes, int peer, int tag,
                                      uint32_t *index_out);
selvage_status_t sv_exchange_add_recv(selvage_exchange_t *x, void *buf, size_t bytes, int peer, int tag,
                                      uint32_t *index_out);
/* Collective. */
selvage_status_t sv_exchange_commit(selvage_exchange_t *x);
void sv_exchange_destroy(selvage_exchange_t *x);
/* Takes back what is open on the wire, and quarantines the exchange if it cannot. */
void sv_exchange_withdraw(selvage_exchange_t *x);
/* Frees everything an exchange owns but the struct itself; half-built ones too. No communication. */
void sv_exchange_release(selvage_exchange_t *x);

/* Running: application thread. */
selvage_status_t sv_exchange_start(selvage_exchange_t *x, void *stream);
/* ERR_ARGUMENT, with the packet, if memory of a packet was freed by selvage_device_free() since the last call. */
selvage_status_t sv_exchange_check_memory(selvage_exchange_t *x);
/* On a stream that is known not to be captured. */
selvage_status_t sv_exchange_start_eager(selvage_exchange_t *x, void *stream);
selvage_status_t sv_exchange_test(selvage_exchange_t *x, void *stream);
selvage_status_t sv_exchange_wait(selvage_exchange_t *x, void *stream);

selvage_status_t sv_exchange_enqueue_wait(selvage_exchange_t *x, void *stream);
selvage_status_t sv_exchange_run(selvage_exchange_t *x, void *stream);
/* After an enqueued wait that a progress thread answers: waits for its epoch, since one is under way at a time. */
void sv_exchange_finish_gated(selvage_exchange_t *x);
/* Puts the exchange's own streams after the caller's, if start left that for later. */
selvage_status_t sv_exchange_order(selvage_exchange_t *x);
/* The same for all other exchanges of the communicator, before kernels that wait for other ranks are enqueued: what
   wait needs must not come after them. */
void sv_exchange_order_others(const selvage_exchange_t *x);
/* A call has failed that others wait for: poisons, and returns the exchange's first error. */
selvage_status_t sv_exchange_fail_call(selvage_exchange_t *x, selvage_status_t status);
/* The error that poisoned it, with its detail. */
selvage_status_t sv_exchange_first_error(const selvage_exchange_t *x);

/* Running: engine thread. Advances one exchange; returns whether anything moved. */
bool sv_exchange_poll(selvage_exchange_t *x, uint64_t now_ns);

static inline sv_exchange_state_t sv_exchange_state(const selvage_exchange_t *x)
{
    /* Partner: the releases in sv_exchange_set_state(). */
    return (sv_exchange_state_t)atomic_load_explicit(&x->state, memory_order_acquire);
}
static inline void sv_exchange_set_state(selvage_exchange_t *x, sv_exchange_state_t state)
{
    /* Partner: the acquire in sv_exchange_state(). */
    atomic_store_explicit(&x->state, state, memory_order_release);
    sv_progress_tell(&x->comm->progress);
}
static inline void sv_exchange_moved(selvage_exchange_t *x, uint64_t now_ns)
{
    atomic_store_explicit(&x->timing.progress_ns, now_ns, memory_order_relaxed);
}
/* What the timeline calls the exchange: of those of all ranks alike on all, of others not. */
static inline uint32_t sv_exchange_trace_id(const selvage_exchange_t *x)
{
    return (uint32_t)(x->neighbors ? sv_digest_mix(x->id ^ (uint64_t)x->comm->wire->rank << 32) : x->id);
}
static inline bool sv_epoch_is_on_device(const selvage_exchange_t *x)
{
    return x->mode >= SV_EPOCH_DEVICE;
}
/* Size and place of a segment of a packet. */
static inline size_t sv_packet_offset(const sv_packet_t *p, uint32_t segment)
{
    return sv_segment_offset(segment, p->segment_bytes);
}
static inline size_t sv_packet_piece(const sv_packet_t *p, uint32_t segment)
{
    return sv_segment_length(segment, p->segment_bytes, p->bytes);
}

/* The streams of copies, and of the words after them, which is a stream of its own after one of several segments. */
static inline sv_copy_lane_t sv_exchange_lane(const selvage_exchange_t *x, void *stream, bool several)
{
    return (sv_copy_lane_t){.dev = x->comm->dev, .stream = stream, .signal_stream = several ? x->streams.signal : NULL,
                            .event = x->streams.cross_event};
}
static inline sv_wire_path_t sv_packet_path(const sv_packet_t *p, int tag)
{
    return (sv_wire_path_t){.wire = p->x->comm->wire, .channel = SV_WIRE_DATA, .peer = p->peer->rank, .tag = tag};
}

/* A packet of one segment, copied out of its slot and verified after the copy: one word tells of both. */
static inline bool sv_recv_is_single_segment(const sv_recv_t *recv)
{
    return recv->p.slots && !recv->p.in_place && !recv->p.kernel_copy && recv->p.nsegments == 1 &&
           recv->p.x->policy != SV_CONFIG_CHECKSUM_OFF;
}

/* Adds a record about a packet to the timeline and the flight recorder. end_ns 0: an instant at begin_ns. */
void sv_packet_trace(const sv_packet_t *p, sv_trace_kind_t kind, uint64_t begin_ns, uint64_t end_ns, uint64_t value);

#endif
