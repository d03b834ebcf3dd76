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
 *           posted before, on a node:  RTR --> isend   --> [copy to the receiver's memory], RTS --> match, [verify] ...
 *
 * A message's number counts those of its pair of ranks; the receiver takes them in that order whatever came first. Its
 * bytes are verified under a key of communicator, source, destination, tag, number and length. Nothing here blocks but
 * the waits of message_wait.c, and nothing is sized by the number of ranks.
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
#include <selvage/message.h>

enum {
    SV_CTRL_RING = 32,       /* receives of control messages that are posted ahead */
    SV_CTRL_UNACKED = 256,   /* small messages to a rank that it has not taken: beyond, they are announced first */
    SV_CTRL_ACKS = 12,       /* of so many at a time it says that it has */
    SV_CTRL_AHEAD = 1024,    /* control messages that may come by the wire before one that was sent earlier; a multiple
                                of 64 */
    SV_MESSAGE_PEERS = 64,   /* lists of peers, by rank */
    SV_MESSAGE_TAGS = 64,    /* classes of tags, to remember what was sent last with one */
    SV_PRELAUNCH_STREAMS = 4, /* of kernels that wait */
    SV_MESSAGE_KNOWN = 16,   /* allocations whose kind is remembered */
    SV_MESSAGE_EXPORTS = 16, /* handles of allocations that are remembered */
    SV_MESSAGE_WINDOW = 8,   /* pieces of a message under way at once */
    SV_MESSAGE_ANY = -1,     /* source or tag */
    SV_MESSAGE_NOBODY = -2   /* peer: MPI_PROC_NULL */
};

typedef enum sv_ctrl_kind {
    SV_CTRL_EAGER = 1,   /* a small message: its bytes are after */
    SV_CTRL_RTS,         /* a message wants to be sent */
    SV_CTRL_DEFERRED,    /* a small message will come, when its caller's stream has come to it */
    SV_CTRL_CTS,         /* it may come, by this route; or again */
    SV_CTRL_FIN,         /* it has left; the record is here */
    SV_CTRL_STATUS,      /* it is good, or it is not and will not be asked for again */
    SV_CTRL_ACK,         /* small messages have been taken */
    SV_CTRL_NACK,        /* a small message did not verify */
    SV_CTRL_SHM,         /* memory of the sender's for control messages to it */
    SV_CTRL_CTS_NACK,    /* the memory that a CTS named cannot be reached */
    SV_CTRL_DISCONNECT,  /* nothing comes after this */
    SV_CTRL_SEQUENCE_ACK /* control messages by the wire have come, up to a sequence number; it has none itself */
} sv_ctrl_kind_t;

/* How a long message comes; in a CTS. */
typedef enum sv_message_route {
    SV_MESSAGE_NONE,         /* not at all: there is nothing to send, or it would not fit */
    SV_MESSAGE_STAGED,       /* in pieces over the wire */
    SV_MESSAGE_PUT        /* straight into the receiver's device memory */
} sv_message_route_t;

/* Device memory of the receiver's: of an allocation, that its owner has at base, the bytes from offset on. In a CTS. */
typedef struct sv_message_where {
    uint64_t offset, base;
    sv_device_handle_t handle;
} sv_message_where_t;

/* How messages came, for counting: small ones by the wire or without it, long ones in pieces or straight. */
typedef enum sv_message_way { SV_WAY_WIRE, SV_WAY_SHM, SV_WAY_STAGED, SV_WAY_DIRECT, SV_WAYS } sv_message_way_t;

typedef struct sv_ctrl_header {
    uint64_t check;          /* of all words but the record, which has its own digest */
    uint16_t kind, attempt;
    int32_t source;
    uint32_t tag;
    uint32_t sequence;       /* among the control messages from there to here by the wire, from 1; it wraps */
    uint64_t number;         /* of the message in its pair of ranks, from 1 */
    uint64_t bytes;
    uint64_t send_id, recv_id;
    uint64_t value[17];      /* EAGER, DEFERRED: count of its slot, or 0; EAGER: after which message (before); ACK:
                                numbers; RTS: on a device; CTS: route and where to; STATUS: status; SHM: handle; the
                                last, by the wire and but for a direct CTS: up to which sequence number all came */
    sv_record_t record;
} sv_ctrl_header_t;

_Static_assert(sizeof(sv_ctrl_header_t) == 256, "a control header has no holes, and what is after it is aligned");

/* A control message in pinned memory, with room for a small message after it: of a pool, or a place in a shared
   segment. */
typedef struct sv_ctrl_desc {
    sv_list_t link, retained_link;
    sv_ctrl_header_t *header;
    uint64_t *word;          /* pinned: the kernel that fills it releases stamp there */
    uint64_t stamp;
    sv_wire_request_t request;
    bool in_flight;          /* a send of it is under way */
    bool retained;           /* it may be asked for again; on its peer's list */
    bool header_only;        /* without room after the control message */
    struct sv_message_peer *counted; /* eager: by whom, until it is put back */
    struct sv_unacked *unacked;   /* it may have to be sent again */
    uint64_t corrupted;      /* a fault: byte corrupted - 1 of it was changed on the way out */
    bool from_wire;          /* it came by the wire: its sender keeps it until its taking is acknowledged */
    struct sv_shm_end *shm;  /* it lies there, in this place; NULL: of the pool */
    unsigned slot;
    uintptr_t shift;         /* to the addresses that kernels are given */
    struct sv_shm_end *devslot; /* the message is in a slot of this one's; NULL: after the control message */
    uint64_t devslot_count;
} sv_ctrl_desc_t;

typedef struct sv_ctrl_desc_chunk {
    struct sv_ctrl_desc_chunk *next;
    uint8_t *pinned;
    sv_ctrl_desc_t desc[SV_CTRL_RING];
} sv_ctrl_desc_chunk_t;

/* Pinned memory that pieces go through. */
typedef struct sv_message_chunk {
    sv_list_t link;
    uint8_t *pinned;
} sv_message_chunk_t;

typedef struct sv_message_peer {
    struct sv_message_peer *next;
    int rank;
    uint64_t sent, taken;    /* numbers: the last given out, and the last that came in order */
    sv_list_t out_of_order;  /* a descriptor that came before its turn */
    sv_list_t retained;      /* own descriptor that it has not acknowledged */
    uint32_t neager;          /* eager control messages to it of the pool's that are in use; beyond a number it is asked
                                 first */
    uint32_t nacks;
    uint64_t acks[SV_CTRL_ACKS];
    struct sv_shm_end *in, *out; /* shared segments of this rank's and of that one's; owned; NULL: none */
    sv_list_t shm_link;      /* of those with in */
    bool no_shm, no_direct;  /* tried in vain */
    uint64_t last[SV_MESSAGE_TAGS]; /* number of the last message to it with such a tag ... */
    uint64_t arrived[SV_MESSAGE_TAGS]; /* ... and from it, of those that came in order */
    uint64_t predicted_capacity, predicted_bytes; /* of its last message that a kernel did or could wait for */
    bool wrote, disconnecting; /* control messages went there by the wire; it was told that no more will come */
    uint32_t sent_sequence, arrived_sequence; /* by the wire: the last control message there; up to which all came from
                                                 there */
    uint64_t ahead[SV_CTRL_AHEAD / 64]; /* bits: control messages after arrived_sequence that have come, ... */
    uint32_t nahead;         /* ... and how many those are */
    uint32_t acked_sequence, hole_sequence; /* up to which all came there; one that came, though not all before it */
    sv_list_t unacked, unacked_link; /* control messages that went there; of peers with such */
    struct sv_unacked *held;      /* the first of them that is not to go yet */
    uint64_t resend_ns;      /* when the oldest of them are sent again */
    sv_list_t ack_due_link;  /* of peers that are owed an acknowledgement ... */
    uint64_t ack_due_ns;     /* ... since then ... */
    uint32_t ack_due;        /* ... for so many control messages */
    uint32_t resends;        /* how often control messages were sent again since the last acknowledgement */
} sv_message_peer_t;

/* What the host and kernels tell each other about a request; pinned. */
typedef struct sv_message_line {
    sv_record_t record;
    sv_verify_result_t result;
    uint64_t ready, done;    /* the digest of a send is there; bytes are in place, and verified */
    uint64_t stop;           /* a pre-launched kernel need not wait any longer */
    uint64_t word[SV_MESSAGE_WINDOW];
    sv_push_item_t gather;
    sv_pull_item_t scatter;
} sv_message_line_t;

typedef enum sv_piece_state { SV_PIECE_FREE, SV_PIECE_COPYING, SV_PIECE_IN_FLIGHT } sv_piece_state_t;

typedef struct sv_message_piece {
    sv_piece_state_t state;
    uint64_t stamp;
    sv_wire_request_t request;
    sv_message_chunk_t *chunk; /* NULL where the wire reads or writes host memory of the user's */
} sv_message_piece_t;

/* Where the bytes of a request lie. */
typedef struct sv_message_place {
    uint8_t *data;           /* one after the other: the user's memory, or a bounce buffer */
    uint64_t bytes;          /* of the whole buffer */
    bool on_device;          /* kernels and copy engines move it; else this thread does */
    struct sv_message_layout *layout; /* NULL: data is the user's */
    struct sv_message_bounce *bounce; /* what data points to then, on the device */
    uint8_t *user;           /* with a layout: what its offsets are from */
} sv_message_place_t;

typedef enum sv_request_state {
    SV_REQUEST_POSTED,       /* receive: nothing has matched */
    SV_REQUEST_GATE,         /* the caller's stream has not come to it yet */
    SV_REQUEST_FILLING,      /* send: a kernel fills its descriptor */
    SV_REQUEST_RTS_SENT,     /* send: RTS is out */
    SV_REQUEST_MOVING,       /* pieces are under way */
    SV_REQUEST_CLOSING,      /* receive: all is here, and is verified; send: waits for its digest */
    SV_REQUEST_AWAITS_STATUS, /* send: waits for the verdict */
    SV_REQUEST_NACKED,       /* receive: asked for a small message again */
    SV_REQUEST_DEFERRED,     /* receive: was matched with one that will come */
    SV_REQUEST_UNPACKING,
    SV_REQUEST_LEAVING,      /* receive: over, but for a kernel that still waits for it */
    SV_REQUEST_COMPLETE
} sv_request_state_t;

typedef struct sv_message_engine sv_message_engine_t;

typedef enum sv_message_lack { SV_LACKS_NOTHING, SV_LACKS_CHUNK, SV_LACKS_TURN, SV_MESSAGE_LACKS } sv_message_lack_t;

/* A small message (message_eager.c). */
typedef struct sv_request_eager {
    bool announced;          /* send: DEFERRED went ahead of it */
    uint64_t began_ns;       /* send */
    sv_message_chunk_t *chunk; /* receive: what comes in a slot, or as the last piece, on its way to host memory */
} sv_request_eager_t;

/* A long one that the sender copies to its place (message_put.c), and how it is offered that (message_rtr.c). */
typedef struct sv_request_put {
    unsigned slot;           /* which place of the receiver's shared segment tells of it ... */
    uint64_t stamp;          /* ... by this number; 0: none */
    struct sv_message_mapping *mapping; /* send: what it is copied to */
    uint64_t offset;         /* in there */
    bool advertised, tried_rtr; /* receive: its shared segment says that it may be written */
} sv_request_put_t;

/* A long one in pieces over the wire (message_staged.c). */
typedef struct sv_request_staged {
    sv_message_piece_t piece[SV_MESSAGE_WINDOW];
    uint32_t npieces, nslots;
    uint32_t next, issued, finished; /* how many have begun, how many were sent or came, and how many are over */
    uint64_t sum;            /* host: of the digest so far */
    uint32_t losses;         /* how often all was asked for again because pieces were lost */
    uint64_t silent_ns, silent_polled_ns; /* receive: how long it was polled, all having left there, and no piece
                                             came */
    bool record_here;        /* receive: FIN came */
    bool awaits_record;      /* receive: all of it has landed, and its record has not come */
    bool by_host;            /* one of engine->host_transfers */
    bool spent_tag;          /* receive: pieces may come late, with its tag: it is never given out again */
} sv_request_staged_t;

/* A kernel that was there before the message (message_prelaunch.c). */
typedef struct sv_request_early {
    bool launched, tried;    /* it waits, or is not known to be over; there was one */
    unsigned blocks, lane;   /* of it, and whose stream it is on */
    uint64_t key;            /* what it waits for */
} sv_request_early_t;

struct selvage_request {
    sv_list_t link;
    sv_message_engine_t *engine;
    uint32_t index, generation;
    bool is_send, synchronous, cancelled, detached;
    bool buffered, refused;  /* send: is not to wait for its receiver; so it was not begun */
    bool gated;              /* event stands for what the caller's stream had been given */
    bool corrupted;          /* a fault: one byte is to be changed */
    bool verified;           /* receive: its checksum was compared, and is good */
    bool from_device;        /* receive: its bytes lie on a device there */
    bool stuck;              /* receive: given up, and another may still write to its buffer */
    bool retired;            /* ended by an error while the device may be at work: its memory is nobody else's ... */
    bool retired_for_good;   /* ... and nobody can know until when */
    sv_request_state_t state;
    sv_message_route_t route;
    sv_message_lack_t lacks; /* a chunk, or that fewer transfers of host memory are under way */
    sv_message_place_t place;
    int peer, tag;           /* as wanted, and from the match on as they are */
    uint64_t bytes;          /* of the message */
    uint64_t number, key, other_id;
    uint64_t before;         /* send: number of the last message before it with such a tag */
    uint32_t attempt;        /* how often all was asked for again */
    sv_record_t identity;
    sv_ctrl_desc_t *desc;    /* of a small message; NULL: it is a long one */
    sv_event_t *event;       /* made at first need, and kept */
    sv_message_line_t *line;
    sv_digest_scratch_t *scratch; /* device */
    uint64_t stamp;          /* of words of the line */
    void *stream;            /* the caller's */
    sv_request_eager_t eager;
    sv_request_put_t put;
    sv_request_staged_t staged;
    sv_request_early_t early;
    selvage_status_t error;
    char detail[SV_DETAIL_BYTES / 2];
};

/* The handle of an allocation of this rank's. */
typedef struct sv_message_export {
    uint64_t id;             /* 0: none */
    uintptr_t base;
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

struct sv_message_engine {
    selvage_comm_t *comm;
    sv_device_t *dev;
    sv_wire_t *wire;
    pthread_mutex_t lock;
    int policy;              /* SV_CONFIG_CHECKSUM_... */
    size_t eager_bytes, desc_bytes, segment_bytes;
    size_t devslot_bytes;    /* up to here messages go by slots in device memory, where there are some */
    uint64_t early_wait_ns;  /* how long a kernel may wait for a message; 0: there are none such */
    sv_prelaunch_lane_t prelaunch[SV_PRELAUNCH_STREAMS + 1]; /* on the engine's streams, and on all those of callers */
    void *call_stream;       /* of the last call that began a request, and when that returned */
    uint64_t called_ns;
    uint32_t ncancels;       /* receives to be taken back that a kernel may have taken */
    uint64_t exchange;       /* what identities say for it */
    selvage_status_t broken; /* nothing works any more, and why */
    char broken_text[SV_DETAIL_BYTES];
    uint64_t moved_ns, stamps, broken_ns;
    bool stores_late;        /* it broke while kernels of sends were after callers' work */
    uint64_t arrived[SV_WAYS]; /* messages that were received, by each way */
    uint64_t arrived_claimed; /* of the direct ones, those without a handshake */
    uint64_t arrived_by_devslot, arrived_prelaunched; /* of those by shared memory, those in device memory, and by a
                                                         kernel that waited */
    sv_message_counts_t counts;

    sv_list_t desc_free[2], in_flight, loopback; /* loopback: to this rank itself */
    sv_list_t unacked_free, unacked_peers, ack_due_peers;
    struct sv_unacked_chunk *unacked_chunks;
    uint64_t resent;         /* control messages, for whatever reason */
    sv_ctrl_desc_chunk_t *desc_chunks;
    sv_ctrl_desc_t *ring[SV_CTRL_RING];
    unsigned ring_head, ring_polls, polls, calls;
    bool ring_posted;
    sv_list_t unexpected, taken; /* a descriptor that nobody has asked for; that improbe has taken */

    sv_list_t request_free, posted;
    sv_list_t active, awaiting; /* begun: a poll looks at them; a control message wakes them ... */
    sv_list_t starved[2][SV_MESSAGE_LACKS]; /* ... or the end of another: of receives, of sends */
    sv_request_chunk_t *request_chunks;
    selvage_request_t **table; /* by index */
    uint32_t nrequests, open;  /* open: not yet complete and given back */

    sv_list_t chunk_free[2];   /* of sends, of receives: neither waits for the other's */
    sv_list_t chunk_retired;
    uint32_t chunks_used[2];
    uint32_t host_transfers[2]; /* of receives, of sends: those in pieces straight from or to host memory ... */
    uint32_t turns_more[2];     /* ... of which there may be so many more, since none of those has ended ... */
    uint64_t turn_ns[2];        /* ... since this time, or that at which one was last let in */
    sv_list_t layouts, bounce_free, block_free, upload_free;
    uint32_t nlayouts;
    size_t layout_bytes;
    void *upload_stream;
    sv_list_t shm_peers;       /* peers with a shared segment to look into */
    sv_list_t opened;          /* device memory of peers: open mappings ... */
    sv_list_t mappings;        /* ... and what is known of them, the oldest first */
    uint32_t nmappings;
    sv_message_export_t exported[SV_MESSAGE_EXPORTS];
    sv_message_known_t known[SV_MESSAGE_KNOWN];
    uint32_t next_export, next_known;
    void *kernel_stream, *out_stream, *in_stream, *peer_stream;
    void *prelaunch_stream[SV_PRELAUNCH_STREAMS]; /* by peer, so that one that is late holds up few others */
    sv_message_peer_t *peers[SV_MESSAGE_PEERS];
    bool quarantined;          /* the wire, or a kernel, may still write its memory */
};

/* What the digest kernel does for a send: sums bytes of src, copies them to dst (or NULL), writes the record, and
   releases word and near (or NULL). */
typedef struct sv_prepare_job {
    const uint8_t *src;
    uint8_t *dst;
    sv_record_t *record;
    uint64_t *word, stamp;
    uint64_t *devslot, devslot_value;
} sv_prepare_job_t;
/* For a receive: waits for await (unless NULL) to be await_value, copies and sums, and compares the record; the line
   tells: stamp, or stamp + 1 if what was awaited has not come in time. verdict (or NULL) gets its value if it was
   good. */
typedef struct sv_verify_job {
    const uint8_t *src;
    uint8_t *dst;
    const sv_record_t *record;
    const uint64_t *await;
    uint64_t await_value, wait_ns;
    bool only;               /* any other value than await_before stands for another message */
    uint64_t await_before;
    uint64_t *outcome, outcome_value;
} sv_verify_job_t;

/* --- message_engine.c --------------------------------------------------------------------------------------------- */

/* The engine of a communicator, made at the first call; any thread. */
selvage_status_t sv_message_engine(selvage_comm_t *comm, sv_message_engine_t **engine_out);
/* Advances everything; returns whether anything moved. Holds the lock already. */
bool sv_message_poll(sv_message_engine_t *engine);
/* Waits for the engine's own streams, which wait for no caller's; false: that fails. The thread's detail stays. */
bool sv_message_drain(sv_message_engine_t *engine);
/* An error ends a request in its call or after it: waits for what the device does for it, or retires its memory. */
void sv_message_quiesce(selvage_request_t *request, bool in_call);
/* Ends all that is under way with this status, whose detail is the thread's; nothing works any more. */
void sv_message_break(sv_message_engine_t *engine, selvage_status_t status);

/* --- message_ctrl.c ----------------------------------------------------------------------------------------------- */

static inline uint8_t *sv_ctrl_payload(const sv_ctrl_desc_t *desc)
{
    return (uint8_t *)(desc->header + 1);
}
static inline void *sv_ctrl_device_ptr(const sv_ctrl_desc_t *desc, const void *ptr)
{
    return (void *)((uintptr_t)ptr + desc->shift); /* what a kernel is given */
}
size_t sv_ctrl_bytes(const sv_ctrl_header_t *header);
bool sv_ctrl_is_header_only(const sv_ctrl_header_t *header); /* nothing is to be after it in its descriptor */
/* Nothing but the record and the payload changes after this; whether a control message is whole, whoever wrote it. */
void sv_ctrl_finalize(sv_message_engine_t *engine, sv_ctrl_desc_t *desc, int rank);
bool sv_ctrl_is_valid(const sv_message_engine_t *engine, const sv_ctrl_header_t *header);
/* Seals a control message, with the bytes after it, and sends it. The descriptor is given back when it has left,
   unless kept. */
selvage_status_t sv_ctrl_send(sv_message_engine_t *engine, sv_ctrl_desc_t *desc, int rank);
/* For a control message without bytes, in a descriptor of its own. */
selvage_status_t sv_ctrl_send_header(sv_message_engine_t *engine, int rank, const sv_ctrl_header_t *header);
/* By the wire, with the sequence number that it has. */
selvage_status_t sv_ctrl_send_wire(sv_message_engine_t *engine, sv_ctrl_desc_t *desc, int rank);
/* A small message was taken: its descriptor is free, and its sender hears of it; or that alone, without a
   descriptor. */
selvage_status_t sv_ctrl_consumed(sv_message_engine_t *engine, sv_ctrl_desc_t *desc);
selvage_status_t sv_ctrl_ack(sv_message_engine_t *engine, int rank, uint64_t number);
selvage_status_t sv_ctrl_poll(sv_message_engine_t *engine, bool *moved);
/* Withdraws what is posted and in flight. */
void sv_ctrl_cancel(sv_message_engine_t *engine);

/* --- message_prelaunch.c ------------------------------------------------------------------------------------------ */

uint64_t sv_prelaunch_wait_ns(const selvage_comm_t *comm);
/* A host is about to wait for these (some may be NULL, or sends): launches what can be. */
void sv_prelaunch_requests(sv_message_engine_t *engine, size_t count, selvage_request_t **requests);
/* Of a receive that has met its message: whether its kernel takes just that. */
bool sv_prelaunch_fits(const selvage_request_t *recv);
/* What has come in a slot tells what the next one will be. */
void sv_prelaunch_predict(const selvage_request_t *recv, sv_ctrl_desc_t *desc);
/* Whether the kernel has gone without it. */
bool sv_prelaunch_has_left(selvage_request_t *recv);
/* The same, or with it. */
bool sv_prelaunch_is_over(selvage_request_t *recv);
void sv_prelaunch_stop(selvage_request_t *recv);
/* Its kernel is over. */
void sv_prelaunch_ended(selvage_request_t *recv);
/* How many blocks of such kernels may be on the device by now. */
unsigned sv_prelaunch_blocks(const sv_message_engine_t *engine);
/* Ends receives that were to be taken back and whose kernels have gone. */
void sv_prelaunch_cancel(sv_message_engine_t *engine);
/* Waits for all kernels that wait, but no longer than the deadline: a device that has failed ends none. */
void sv_prelaunch_end(sv_message_engine_t *engine);

/* --- message_rtr.c ------------------------------------------------------------------------------------------------ */

/* Offers a receive that is posted, if it can be. */
void sv_message_rtr_post(selvage_request_t *recv);
typedef enum sv_rtr_end {
    SV_RTR_CANCELLED, /* nobody will claim it; or there was none */
    SV_RTR_CLAIMED,   /* its message is on its way */
    SV_RTR_DENIED,    /* claimed, but its memory could not be mapped, and given back */
    SV_RTR_RETURNED   /* claimed, but its message could not leave, and given back */
} sv_rtr_end_t;
sv_rtr_end_t sv_message_rtr_cancel(selvage_request_t *recv);
/* The receive has met its message: whether that has claimed it; if not, it is offered no more. */
selvage_status_t sv_message_rtr_match(selvage_request_t *recv, const sv_ctrl_header_t *header, bool *claimed_out);
/* Sender: finds, claims and maps what is offered for this message. */
bool sv_message_rtr_claim(selvage_request_t *send, struct sv_message_peer *peer);
/* The same message does not leave after all: what has begun of its copy is waited for, and the RTR is given back. */
void sv_message_rtr_unclaim(selvage_request_t *send, const struct sv_message_peer *peer);
/* Of the numbers of last messages, the place of those with such a tag. */
static inline unsigned sv_message_tag_class(int tag)
{
    return (unsigned)tag % SV_MESSAGE_TAGS;
}

/* --- message_match.c ---------------------------------------------------------------------------------------------- */

/* A control message has come; the descriptor is the callee's. */
selvage_status_t sv_message_arrive(sv_message_engine_t *engine, sv_ctrl_desc_t *desc);
/* The first message nobody has asked for that fits, or NULL. */
sv_ctrl_desc_t *sv_message_unexpected(sv_message_engine_t *engine, int source, int tag);
/* A receive that is new: takes what is there, or is posted. */
void sv_message_post(selvage_request_t *recv);
/* Whether a kernel or a stream of a send, which may have been let go of, stores in another rank's memory. */
bool sv_message_is_storing(const sv_message_engine_t *engine);
/* Tells everybody that no more will come, or sees whether everybody has heard it, and nothing is stored any more. */
selvage_status_t sv_message_disconnect(sv_message_engine_t *engine, bool *disconnected);

/* --- message_send.c, message_recv.c, message_staged.c, message_verify.c ------------------------------------------- */

/* Begins a send, whose request is the caller's if it fails; advances it; and what its receiver says. */
selvage_status_t sv_message_send(selvage_request_t *send, void *stream);
selvage_status_t sv_message_send_advance(selvage_request_t *send, bool *moved);
void sv_message_send_cleared(selvage_request_t *send, const sv_ctrl_header_t *cts);
void sv_message_send_status(selvage_request_t *send, const sv_ctrl_header_t *outcome);
/* A call gives its request up, with an error whose detail is the thread's: false while its buffer may still be read by
   what nobody can stop; or written, so that the receive is to be given up again later. */
bool sv_message_send_abandon(selvage_request_t *send, selvage_status_t status);
bool sv_message_recv_abandon(selvage_request_t *recv, selvage_status_t status);
enum { SV_OUTCOME_GOOD, SV_OUTCOME_BAD, SV_OUTCOME_ABANDONED };

/* A receive has met its message, in a descriptor that is the callee's; and what comes later. What goes wrong ends
   it. */
void sv_message_matched(selvage_request_t *recv, sv_ctrl_desc_t *desc);
selvage_status_t sv_message_recv_advance(selvage_request_t *recv, bool *moved);
void sv_message_recv_fin(selvage_request_t *recv, const sv_ctrl_header_t *done);

/* Pieces through pinned memory: begins, false for want of it; IN_PROGRESS until all have left or landed; lost: all have
   left there, and for a while none has come. Taking back what is posted: false if the wire is in the middle of a piece,
   which goes on. */
bool sv_message_pieces_begin(selvage_request_t *request);
selvage_status_t sv_message_pieces_send(selvage_request_t *send, bool *moved);
selvage_status_t sv_message_pieces_recv(selvage_request_t *recv, bool *moved);
bool sv_message_pieces_are_lost(selvage_request_t *recv, bool moved);
bool sv_message_pieces_take_back(selvage_request_t *recv);
/* Straight into the receiver's memory. Receiver: finds a put slot and says in the shared segment where that is; false
   if it cannot be; or gives it back, which nobody has seen; or writes it into a CTS. */
bool sv_put_reserve(selvage_request_t *recv, struct sv_message_peer *peer);
void sv_put_release(selvage_request_t *recv);
bool sv_put_fill_cts(selvage_request_t *recv, sv_ctrl_header_t *cts);
/* Sender: SUCCESS, or ERR_UNSUPPORTED (and nothing logged) if that cannot be reached from here. */
selvage_status_t sv_put_map(selvage_request_t *send, const sv_message_where_t *where);
selvage_status_t sv_put_open(selvage_request_t *send, const sv_ctrl_header_t *cts);
/* Before the copy: ERR_TIMEOUT if the receiver has taken its memory back; and that, false if the copy has begun. */
selvage_status_t sv_put_start(selvage_request_t *send);
bool sv_put_revoke(const selvage_request_t *recv);
/* Has it taken back, or waits for the copy; false if that takes too long. */
bool sv_put_close(const selvage_request_t *recv);
/* stream: of a kernel that copies. */
selvage_status_t sv_put_copy(selvage_request_t *send, void *stream);
/* Whether a kernel copies it, and sums in the same pass; both ends come to one answer. */
bool sv_put_by_kernel(const selvage_request_t *request);
/* Whether the bytes, and the record, have left or landed. */
bool sv_put_has_left(const selvage_request_t *send);
bool sv_put_has_arrived(const selvage_request_t *recv);
/* Sender: whether the receiver's kernel has found all good. */
bool sv_put_is_good(const selvage_request_t *send);
/* Receiver: what is to be verified, and what a kernel can wait for: nothing if await is NULL. */
sv_verify_job_t sv_put_job(const selvage_request_t *recv);
void sv_put_end(selvage_request_t *request);

/* Of a receive that is given up: stuck says that the wire may still write to the caller's memory. */
void sv_message_pieces_withdraw(selvage_request_t *recv);
/* Gives the pinned memory back, and withdraws what is under way. */
void sv_message_pieces_end(selvage_request_t *request);

/* Identity and key, from what the request knows. */
void sv_message_identify(selvage_request_t *request);

/* Of the kernels of these two, for the bytes of the request; and how many may wait at a time. */
unsigned sv_message_blocks(const selvage_request_t *request);
unsigned sv_message_blocks_most(const sv_message_engine_t *engine);
selvage_status_t sv_message_prepare(selvage_request_t *send, const sv_prepare_job_t *job, void *stream);
selvage_status_t sv_message_verify(selvage_request_t *recv, const sv_verify_job_t *job, void *stream);
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
