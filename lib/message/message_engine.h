/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The message engine of a communicator: what isend and irecv stand on. Made at the first call, ended with the
 * communicator, under one lock.
 *
 *   requests   posted --> receives that nothing has matched; active --> everything under way
 *   control    messages of 256 bytes that say what is to be done, with the bytes of a small message after them; they
 *              come through a ring of receives of the wire, from any source, or through this rank's own hands
 *   peers      ranks that this one has met: how many messages went there and came from there, so that none overtakes,
 *              and which control messages that went there by the wire it has not acknowledged (message_unacked.c)
 *   shared     memory of two ranks of a node, for control messages of one to the other (message_shm.h)
 *   pieces     segments of long messages on their way through pinned memory
 *
 *   small:  isend --> [kernel: copy, digest] --> EAGER ------------> match --> [kernel: copy, verify] --> complete
 *           on a node, to a slot in device memory: a waiting receiver's kernel is there before it
 *   long:   isend --> RTS ------------> match --> CTS --> pieces, FIN --> [verify] --> STATUS --> complete
 *                                         or, on a node: [copy to the receiver's memory] --> [verify] ...
 *           on a node:  RTS --> match, [copy out of the sender's memory, verify] --> STATUS
 *           posted before, on a node:  RTR --> isend   --> [copy to the receiver's memory], RTS --> match, [verify] ...
 *
 * A message's number counts those of its pair of ranks, and the receiver takes them in that order whatever came first.
 * Its bytes are verified under a key of communicator, source, destination, tag, number and length. Nothing here blocks
 * but the waits of message_wait.c, and nothing is sized by the number of ranks.
 */
#ifndef SV_MESSAGE_ENGINE_H
#define SV_MESSAGE_ENGINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base_list.h"
#include "base/base_status.h"
#include "base/base_thread.h"
#include "comm/comm.h"
#include "kernels/kernels.h"
#include "message/message_digest.h"
#include "message/message_request.h"

enum {
    SV_CTRL_UNACKED = 256,   /* small messages that a rank has not taken: after so many, they are announced first */
    SV_CTRL_ACKS = 12,       /* small messages that one ACK acknowledges */
    SV_CTRL_AHEAD = 1024,    /* control messages that may come by the wire before one that was sent earlier; a multiple
                                of 64 */
    SV_MESSAGE_PEERS = 64,   /* lists of peers, by rank */
    SV_MESSAGE_TAGS = 64,    /* classes of tags, to remember what was sent last with one */
    SV_PRELAUNCH_STREAMS = 4, /* of kernels that wait */
    SV_MESSAGE_FEW = 8,      /* open requests, up to which a message has a launch of its own, as soon as may be */
    SV_MESSAGE_KNOWN = 16,   /* allocations whose kind is remembered */
    SV_MESSAGE_EXPORTS = 16, /* handles of allocations that are remembered */
    SV_MESSAGE_ANY = -1,     /* source or tag */
    SV_MESSAGE_NOBODY = -2   /* peer: MPI_PROC_NULL */
};

/* How messages came, for counting: small ones by the wire or without it, long ones in pieces or straight. */
typedef enum sv_message_way { SV_WAY_WIRE, SV_WAY_SHM, SV_WAY_STAGED, SV_WAY_DIRECT, SV_WAYS } sv_message_way_t;

typedef struct sv_message_peer {
    struct sv_message_peer *next;
    int rank;
    uint64_t sent, taken;    /* numbers: the last given out, and the last that came in order */
    sv_list_t out_of_order;  /* a descriptor that came before its turn */
    sv_list_t retained;      /* own descriptor that it has not acknowledged */
    uint32_t neager;          /* eager control messages to it that use the pool; after a number of them it is asked
                                 first */
    uint32_t nacks;
    uint64_t acks[SV_CTRL_ACKS];
    struct sv_shm_end *in, *out; /* shared segments of this rank's and of that one's; owned; NULL: none */
    sv_list_t shm_link;      /* of those with in */
    bool no_shm, no_direct, no_get; /* tried in vain */
    uint32_t gets_declined;  /* in a row, by that rank, in device memory */
    uint32_t gets_withheld;  /* not offered because of those */
    uint32_t host_answers;   /* how often its preference for host memory may be told until a message goes there again */
    uint64_t last[SV_MESSAGE_TAGS]; /* by tag class: number of the last message to it */
    uint64_t arrived[SV_MESSAGE_TAGS]; /* by tag class: number of the last one from it that came in order */
    uint64_t predicted_capacity, predicted_bytes; /* of its last message that a kernel did or could wait for */
    bool wrote, disconnecting; /* control messages went there by the wire; it was told that no more will come */
    uint32_t sent_sequence, arrived_sequence; /* by the wire: the last control message there, and up to which all came
                                                 from there */
    uint64_t ahead[SV_CTRL_AHEAD / 64]; /* bits: which control messages after arrived_sequence have come */
    uint32_t nahead;         /* how many those are */
    uint32_t acked_sequence, hole_sequence; /* up to which all came there, and one that came though not all before it
                                               did */
    sv_list_t unacked, unacked_link; /* control messages that went there; of peers with such */
    struct sv_unacked *held;      /* the first of them that is not to go yet */
    uint64_t resend_ns;      /* when the oldest of them are sent again */
    sv_list_t ack_due_link;  /* of peers that are owed an acknowledgement */
    uint64_t ack_due_ns;     /* since when it is owed */
    uint32_t ack_due;        /* for how many control messages */
    uint32_t resends;        /* how often control messages were sent again since the last acknowledgement */
} sv_message_peer_t;

/* The handle of an allocation of this rank's. */
typedef struct sv_message_export {
    uint64_t id;             /* 0: none */
    uintptr_t base;
    unsigned uses;
    sv_device_handle_t handle;
} sv_message_export_t;

/* A part of an allocation of device memory that was asked about. */
typedef struct sv_message_known {
    uint64_t id;             /* 0: none */
    uintptr_t begin, end;
} sv_message_known_t;

/* Kernels that wait, or are not known to be over. A stream runs one at a time: its widest has all the blocks. */
typedef struct sv_prelaunch_lane {
    unsigned kernels, blocks;
} sv_prelaunch_lane_t;

/* What selvage_stats_t says of messages. */
typedef struct sv_message_counts {
    uint64_t sent, received, bytes_sent, bytes_received; /* with success */
    uint64_t verified, mended;          /* of those received; of these, at a later attempt */
    uint64_t damaged, repeated, failed; /* arrivals; all of the first are one of the others */
} sv_message_counts_t;

/* A message taken out of matching. */
struct selvage_message {
    sv_message_engine_t *engine;
    sv_ctrl_desc_t *desc;
};

enum { SV_REQUEST_CHUNK = 64 };
typedef struct sv_request_chunk {
    struct sv_request_chunk *next;
    sv_message_line_t *lines;       /* pinned */
    sv_digest_scratch_t *scratches; /* device */
    selvage_request_t request[SV_REQUEST_CHUNK];
} sv_request_chunk_t;

/* The engine's own streams, which wait for no caller's. */
typedef struct sv_message_streams {
    void *kernel, *out, *in, *peer;
    void *upload;            /* of layouts; made at first need */
    void *prelaunch[SV_PRELAUNCH_STREAMS]; /* by peer, so that one that is late holds up few others */
} sv_message_streams_t;

/* Receives of control messages by the wire, in the order in which they were posted. */
typedef struct sv_ctrl_ring {
    sv_ctrl_desc_t *desc[SV_CTRL_RING];
    unsigned head, polls;
    bool posted;
} sv_ctrl_ring_t;

/* Control messages by the wire that were not acknowledged (message_unacked.c). */
typedef struct sv_message_unacked {
    sv_list_t free, peers, ack_due;
    struct sv_unacked_chunk *chunks;
    uint64_t resent;         /* control messages, for whatever reason */
} sv_message_unacked_t;

/* Pinned memory for pieces, of receives and of sends. Neither waits for the other's. */
typedef struct sv_message_pieces {
    sv_pinned_pool_t pool[2];
    sv_list_t windows_free;
    uint32_t host_transfers[2]; /* those in pieces straight from or to host memory */
    uint32_t turns_more[2];     /* by how many their bound was raised, since none of them has ended */
    uint64_t turn_ns[2];        /* when the last one was let in, or the bound was raised */
} sv_message_pieces_t;

/* Layouts that were met before, and memory for the next ones (message_layout.c). */
typedef struct sv_message_layouts {
    sv_list_t all, bounce_free, block_free, upload_free;
    uint32_t count;
    size_t bytes;
    uint64_t look_ns;        /* before that time no bounce buffer is looked at for being idle */
} sv_message_layouts_t;

/* What is known of device memory: of peers, of this rank's that they map, and of what kind callers' is. */
typedef struct sv_message_memory {
    sv_transfer_cache_t mappings; /* of peers */
    sv_message_export_t exported[SV_MESSAGE_EXPORTS];
    sv_message_known_t known[SV_MESSAGE_KNOWN];
    uint32_t next_export, next_known;
    sv_list_t segments_left; /* of moved messages, to be closed (message_lend.c) */
    uint32_t nsegments_left;
} sv_message_memory_t;

/* How messages came: counted when their first attempt begins. */
typedef struct sv_message_arrived {
    uint64_t by[SV_WAYS];    /* each way */
    uint64_t claimed;        /* of the direct ones, those without a handshake ... */
    uint64_t fetched;        /* ... and those that this rank copied, by get */
    uint64_t by_devslot, prelaunched; /* of those by shared memory, those in device memory, and by a kernel that
                                         waited */
} sv_message_arrived_t;

struct sv_message_engine {
    selvage_comm_t *comm;
    sv_device_t *dev;
    sv_wire_t *wire;
    pthread_mutex_t lock;
    int policy;              /* SV_CONFIG_CHECKSUM_... */
    size_t eager_bytes, desc_bytes, segment_bytes;
    size_t devslot_bytes;    /* up to here messages go by slots in device memory, where there are some */
    uint64_t buffer_bytes, buffered_bytes; /* device memory for buffered sends: the most there may be, and in use */
    size_t lent_bytes, lent_often_bytes; /* buffered sends of so many are lent; out of an allocation that was often
                                            sent from, of so many */
    uint64_t lent_move_ns;   /* a receiver that has not begun by then is late ... */
    uint64_t lent_stall_ns;  /* ... and one that has begun, by then and 1 ns a byte */
    size_t engine_bytes;     /* from so many on a copy engine brings most of a get, if it is one of few; the kernel that
                                verifies brings ... */
    unsigned rest_share, rest_blocks; /* ... one in so many bytes, by one in so many of its blocks */
    uint64_t buffers_made_bytes; /* that was allocated for those */
    uint64_t buffer_failed_ns; /* when there was no device memory for one; 0: never */
    uint64_t early_wait_ns;  /* how long a kernel may wait for a message; 0: there are none such */
    uint64_t expect_wait_ns; /* the same, of a message that the caller knows to come from another GPU */
    sv_prelaunch_lane_t prelaunch[SV_PRELAUNCH_STREAMS + 1]; /* on the engine's streams, and on all those of callers */
    void *call_stream;       /* of the last call that began a request, and when that returned */
    uint64_t called_ns;
    uint32_t ncancels;       /* receives to be taken back that a kernel may have taken */
    uint64_t exchange;       /* what identities say for it */
    selvage_status_t broken; /* nothing works any more, and why */
    char broken_text[SV_DETAIL_BYTES];
    uint64_t moved_ns, stamps, broken_ns;
    bool stores_late;        /* it broke while kernels of sends were after callers' work */
    bool quarantined;        /* the wire, or a kernel, may still write its memory */
    unsigned polls;
    uint64_t now_ns;         /* when the poll began that is under way */
    uint64_t polled_ns, poll_ns; /* when the last one was over, and how long it took */
    sv_message_group_t group;
    sv_message_streams_t streams;
    sv_message_arrived_t arrived;
    sv_message_counts_t counts;

    sv_list_t desc_free[2], in_flight, loopback; /* loopback: to this rank itself */
    sv_ctrl_desc_chunk_t *desc_chunks;
    sv_ctrl_ring_t ring;
    sv_message_unacked_t unacked;
    sv_list_t unexpected, taken; /* a descriptor that nobody has asked for; that improbe has taken */

    sv_list_t request_free, posted;
    sv_list_t active, awaiting; /* begun: a poll looks at active ones, and a control message wakes awaiting ones */
    sv_list_t starved[2][SV_MESSAGE_LACKS]; /* of receives, of sends: the end of another wakes them */
    sv_request_chunk_t *request_chunks;
    selvage_request_t **table; /* by index */
    uint32_t nrequests, open;  /* open: not yet complete and given back */
    uint32_t open_most;        /* at the same time, so far */
    sv_message_pieces_t pieces;
    sv_message_layouts_t layouts;
    sv_message_memory_t memory;
    sv_list_t shm_peers;     /* peers with a shared segment to look into */
    sv_message_peer_t *peers[SV_MESSAGE_PEERS];
};

/* What the digest kernel does for a send. It sums bytes of src, copies them to dst (or NULL), writes the record, also
   to copy (or NULL), and releases word and devslot (or NULL). */
typedef struct sv_prepare_job {
    const uint8_t *src;
    uint8_t *dst;
    sv_record_t *record, *copy;
    uint64_t *word, stamp;
    uint64_t *devslot, devslot_value;
} sv_prepare_job_t;
/* For a receive the kernel waits for await (unless NULL) to be await_value, copies, sums, and compares the record. It
   then releases stamp in the line, or stamp + 1 if what was awaited has not come in time. outcome (or NULL) gets
   outcome_value if the message is good. With landed_bytes, only what comes after those is copied: they are at dst. */
typedef struct sv_verify_job {
    const uint8_t *src;
    uint8_t *dst;
    const sv_record_t *record;
    const uint64_t *await;
    uint64_t await_value, wait_ns;
    bool only;               /* any other value than await_before stands for another message */
    bool late;               /* await is of the record: the bytes may be read before */
    uint64_t await_before;
    uint64_t *outcome, outcome_value;
    uint64_t landed_bytes;
} sv_verify_job_t;

/* --- message_engine.c --------------------------------------------------------------------------------------------- */

/* What has come and how, what verification found, and which control messages were sent again. */
typedef struct sv_message_stats {
    sv_message_arrived_t arrived;
    sv_message_counts_t counts;
    uint64_t resent;
    uint32_t open_most, chunks_most; /* requests at the same time; staging buffers, those of sends and of receives */
} sv_message_stats_t;
/* A copy of the statistics; zeros if there is no engine yet. Takes the lock; any thread. */
sv_message_stats_t sv_message_stats(selvage_comm_t *comm);

/* The engine of a communicator, made at the first call; any thread. */
selvage_status_t sv_message_engine(selvage_comm_t *comm, sv_message_engine_t **engine_out);
/* Advances everything; returns whether anything moved. Holds the lock already. */
bool sv_message_poll(sv_message_engine_t *engine);
/* The same, unless the last poll is over for less than so many times as long as it took. For callers that come
   often. */
bool sv_message_poll_lazily(sv_message_engine_t *engine, unsigned share);
/* For calls that begin something: only if many requests are open. A few are advanced by those who wait for them. */
void sv_message_poll_if_many(sv_message_engine_t *engine);
/* Only takes the control messages that have come. */
void sv_message_poll_control(sv_message_engine_t *engine);
/* Waits for the engine's own streams, which wait for no caller's. False: that fails. The thread's detail stays. */
bool sv_message_drain(sv_message_engine_t *engine);
/* For a request that an error ends, in its call or after it. Waits for what the device does for it, or retires its
   memory. */
void sv_message_quiesce(selvage_request_t *request, bool in_call);
/* Ends all that is under way with this status, whose detail is the thread's. Nothing works any more. */
void sv_message_break(sv_message_engine_t *engine, selvage_status_t status);

/* The class of a tag, by which the numbers of last messages are kept. */
static inline unsigned sv_message_tag_class(int tag)
{
    return (unsigned)tag % SV_MESSAGE_TAGS;
}

/* --- message_match.c ---------------------------------------------------------------------------------------------- */

/* A control message has come; the descriptor is the callee's. */
selvage_status_t sv_message_arrive(sv_message_engine_t *engine, sv_ctrl_desc_t *desc);
/* The first message nobody has asked for that fits, or NULL. */
sv_ctrl_desc_t *sv_message_unexpected(sv_message_engine_t *engine, int source, int tag);
/* Whether a kernel or a stream of a send, which may have been let go of, stores in another rank's memory. */
bool sv_message_is_storing(const sv_message_engine_t *engine);
/* Tells everybody that no more will come, or sees whether everybody has heard it, and nothing is stored any more. */
selvage_status_t sv_message_disconnect(sv_message_engine_t *engine, bool *disconnected);

/* --- message_send.c, message_recv.c, message_staged.c ------------------------------------------------------------- */

/* Advances a send, and takes what its receiver says. */
selvage_status_t sv_message_send_advance(selvage_request_t *send, bool *moved);
void sv_message_send_cleared(selvage_request_t *send, const sv_ctrl_header_t *cts);
void sv_message_send_status(selvage_request_t *send, const sv_ctrl_header_t *outcome);
/* A call gives its request up, with an error whose detail is the thread's. False while something that nobody can stop
   may still read or write its buffer. A receive is then to be given up again later. */
bool sv_message_send_abandon(selvage_request_t *send, selvage_status_t status);
bool sv_message_recv_abandon(selvage_request_t *recv, selvage_status_t status);
enum { SV_OUTCOME_GOOD, SV_OUTCOME_BAD, SV_OUTCOME_ABANDONED };

/* A receive has met its message, in a descriptor that is the callee's. An error ends the receive. */
void sv_message_matched(selvage_request_t *recv, sv_ctrl_desc_t *desc);
selvage_status_t sv_message_recv_advance(selvage_request_t *recv, bool *moved);
void sv_message_recv_fin(selvage_request_t *recv, const sv_ctrl_header_t *done);

/* Pieces through pinned memory. begin returns IN_PROGRESS while others have all such memory, which will help them, and
   an error if nobody has any. send and recv return IN_PROGRESS until all pieces have left or landed. are_lost: all have
   left there, and for a while none has come. take_back withdraws what is posted; false if the wire is in the middle of
   a piece, which goes on. */
selvage_status_t sv_message_pieces_begin(selvage_request_t *request);
selvage_status_t sv_message_pieces_send(selvage_request_t *send, bool *moved);
selvage_status_t sv_message_pieces_recv(selvage_request_t *recv, bool *moved);
bool sv_message_pieces_are_lost(selvage_request_t *recv, bool moved);
bool sv_message_pieces_take_back(selvage_request_t *recv);
/* Of a receive that is given up: stuck says that the wire may still write to the caller's memory. */
void sv_message_pieces_withdraw(selvage_request_t *recv);
/* Gives the pinned memory back, and withdraws what is under way. */
void sv_message_pieces_end(selvage_request_t *request);

/* --- message_digest.c --------------------------------------------------------------------------------------------- */

/* Identity and key, from what the request knows. */
void sv_message_identify(selvage_request_t *request);

/* Blocks of the kernels of sv_message_prepare() and sv_message_verify() for a request, and how many may wait at a
   time. */
unsigned sv_message_blocks(const selvage_request_t *request);
unsigned sv_message_blocks_most(const sv_message_engine_t *engine);
selvage_status_t sv_message_prepare(selvage_request_t *send, const sv_prepare_job_t *job, void *stream);
selvage_status_t sv_message_verify(selvage_request_t *recv, const sv_verify_job_t *job, void *stream);
/* The same by a kernel that waits for job->await, for a receive that has not had one yet. False: it may not wait, or
   too many do. SELVAGE_MESSAGE_NO_STREAM: on one of the engine's for such kernels. */
bool sv_message_verify_ahead(selvage_request_t *recv, sv_verify_job_t *job, void *stream);
/* What the kernel found, or this thread: SUCCESS, or ERR_CHECKSUM with the detail set and nothing logged. */
selvage_status_t sv_message_verified(const selvage_request_t *recv);
selvage_status_t sv_message_compare(const selvage_request_t *recv, const sv_record_t *record, uint64_t sum);
static inline bool sv_message_checks(const sv_message_engine_t *engine)
{
    return engine->policy != SV_CONFIG_CHECKSUM_OFF;
}
static inline bool sv_word_is(const uint64_t *word, uint64_t value)
{
    /* Partners: the kernels and streams that are given such a word. */
    return __atomic_load_n(word, __ATOMIC_ACQUIRE) == value;
}

/* Has the request's event stand for what the stream has been given so far, unless all that is complete. */
selvage_status_t sv_message_record(selvage_request_t *request, void *stream);
/* Ends a request; with an error, whose detail is the thread's. */
void sv_message_complete(selvage_request_t *request, selvage_status_t status);
void sv_message_wake(selvage_request_t *request);
/* Whether the caller's stream has come to the request. IN_PROGRESS, SUCCESS, or an error. The host asks, so that no
   stream of the engine's ever waits for a caller's, with other messages after. */
selvage_status_t sv_message_gate(selvage_request_t *request);

#endif
