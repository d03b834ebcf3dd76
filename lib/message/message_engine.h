/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The message engine of a communicator: what isend and irecv stand on. Made at the first call, ended with the
 * communicator, behind one lock.
 *
 *   requests   posted --> receives that nothing has matched; active --> everything under way
 *   letters    256 bytes that say what is to be done, with the bytes of a small message behind them; they come
 *              through a ring of receives of the wire, from any source, or through this rank's own hands
 *   peers      ranks that this one has met: how many messages went there and came from there, so that none overtakes,
 *              and which letters that went there by the wire it has not acknowledged (message_unacked.c)
 *   boxes      memory that two ranks of a node share, for letters of one to the other (message_box.h)
 *   pieces     segments of long messages on their way through pinned memory
 *
 *   small:  isend --> [kernel: copy, digest] --> EAGER ------------> match --> [kernel: copy, verify] --> complete
 *           on a node, to a slot in device memory: a waiting receiver's kernel is there before it
 *   long:   isend --> RTS ------------> match --> CTS --> pieces, DONE --> [verify] --> VERDICT --> complete
 *                                         or, on a node: [copy to the receiver's memory] --> [verify] ...
 *           posted before, on a node:  offer --> isend --> [copy to the receiver's memory], RTS --> match, [verify] ...
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
#include "kernels/kernels.h"
#include "pipeline/pipe_comm.h"
#include <selvage/message.h>

enum {
    SV_MAIL_RING = 32,       /* receives of letters that are posted ahead */
    SV_MAIL_UNACKED = 256,   /* small messages to a rank that it has not taken: beyond, they are announced first */
    SV_MAIL_ACKS = 12,       /* of so many at a time it says that it has */
    SV_MAIL_AHEAD = 1024,    /* letters that may come by the wire before one that was sent earlier; a multiple of 64 */
    SV_MESSAGE_PEERS = 64,   /* lists of peers, by rank */
    SV_MESSAGE_TAGS = 64,    /* classes of tags, to remember what was sent last with one */
    SV_EARLY_STREAMS = 4,    /* of kernels that wait */
    SV_MESSAGE_KNOWN = 16,   /* allocations whose kind is remembered */
    SV_MESSAGE_EXPORTS = 16, /* handles of allocations that are remembered */
    SV_MESSAGE_WINDOW = 8,   /* pieces of a message under way at once */
    SV_MESSAGE_ANY = -1,     /* source or tag */
    SV_MESSAGE_NOBODY = -2   /* peer: MPI_PROC_NULL */
};

typedef enum sv_letter_kind {
    SV_LETTER_EAGER = 1,     /* a small message: its bytes are behind */
    SV_LETTER_RTS,           /* a message wants to be sent */
    SV_LETTER_LATE,          /* a small message will come, when its caller's stream has come to it */
    SV_LETTER_CTS,           /* it may come, by this route; or again */
    SV_LETTER_DONE,          /* it has left; the record is here */
    SV_LETTER_VERDICT,       /* it is good, or it is not and will not be asked for again */
    SV_LETTER_ACK,           /* small messages have been taken */
    SV_LETTER_AGAIN,         /* a small message did not verify */
    SV_LETTER_BOX,           /* memory of the sender's for letters to it */
    SV_LETTER_DENY,          /* the memory that a CTS named cannot be reached */
    SV_LETTER_BYE,           /* nothing comes after this */
    SV_LETTER_SEQUENCE_ACK   /* letters by the wire have come, up to a sequence number; it has none itself */
} sv_letter_kind_t;

/* How a long message comes; in a CTS. */
typedef enum sv_message_route {
    SV_MESSAGE_NONE,         /* not at all: there is nothing to send, or it would not fit */
    SV_MESSAGE_STAGED,       /* in pieces over the wire */
    SV_MESSAGE_DIRECT        /* straight into the receiver's device memory */
} sv_message_route_t;

/* Device memory of the receiver's: of an allocation, that its owner has at base, the bytes from offset on. In a CTS. */
typedef struct sv_message_where {
    uint64_t offset, base;
    sv_device_handle_t handle;
} sv_message_where_t;

/* How messages came, for counting: small ones by the wire or without it, long ones in pieces or straight. */
typedef enum sv_message_way { SV_WAY_WIRE, SV_WAY_NEAR, SV_WAY_STAGED, SV_WAY_DIRECT, SV_WAYS } sv_message_way_t;

typedef struct sv_letter {
    uint64_t check;          /* of all words but the record, which has its own digest */
    uint16_t kind, attempt;
    int32_t source;
    uint32_t tag;
    uint32_t sequence;       /* among the letters from there to here by the wire, from 1; it wraps */
    uint64_t number;         /* of the message in its pair of ranks, from 1 */
    uint64_t bytes;
    uint64_t send_id, recv_id;
    uint64_t value[17];      /* EAGER, LATE: count of its slot, or 0; EAGER: behind which message (before); ACK:
                                numbers; RTS: on a device; CTS: route and where to; VERDICT: status; BOX: handle; the
                                last, by the wire and but for a direct CTS: up to which sequence number all came */
    sv_record_t record;
} sv_letter_t;

_Static_assert(sizeof(sv_letter_t) == 256, "a letter has no holes, and what is behind it is aligned");

/* A letter in pinned memory, with room for a small message behind it: of a pool, or a place in a box. */
typedef struct sv_mail {
    sv_list_t link, kept_link;
    sv_letter_t *letter;
    uint64_t *word;          /* pinned: the kernel that fills it releases stamp there */
    uint64_t stamp;
    sv_wire_request_t request;
    bool flying;             /* a send of it is under way */
    bool kept;               /* it may be asked for again; on its peer's list */
    bool bare;               /* without room after the letter */
    struct sv_message_peer *counted; /* eager: by whom, until it is put back */
    struct sv_unacked *unacked;   /* it may have to be sent again */
    uint64_t hurt;           /* a fault: byte hurt - 1 of it was changed on the way out */
    bool from_wire;          /* it came by the wire: its sender keeps it until its taking is acknowledged */
    struct sv_message_box_end *box; /* it lies there, in this place; NULL: of the pool */
    unsigned slot;
    uintptr_t shift;         /* to the addresses that kernels are given */
    struct sv_message_box_end *near; /* the message is in a slot of this one's; NULL: behind the letter */
    uint64_t near_count;
} sv_mail_t;

typedef struct sv_mail_chunk {
    struct sv_mail_chunk *next;
    uint8_t *pinned;
    sv_mail_t mail[SV_MAIL_RING];
} sv_mail_chunk_t;

/* Pinned memory that pieces go through. */
typedef struct sv_message_chunk {
    sv_list_t link;
    uint8_t *pinned;
} sv_message_chunk_t;

typedef struct sv_message_peer {
    struct sv_message_peer *next;
    int rank;
    uint64_t sent, taken;    /* numbers: the last given out, and the last that came in order */
    sv_list_t early;         /* mail that came before its turn */
    sv_list_t kept;          /* own mail that it has not acknowledged */
    uint32_t neager;          /* eager letters to it of the pool's that are in use; beyond a number it is asked first */
    uint32_t nacks;
    uint64_t acks[SV_MAIL_ACKS];
    struct sv_message_box_end *in, *out; /* boxes of this rank's and of that one's; owned; NULL: none */
    sv_list_t box_link;      /* of those with in */
    bool no_box, no_direct;  /* tried in vain */
    uint64_t last[SV_MESSAGE_TAGS]; /* number of the last message to it with such a tag ... */
    uint64_t came[SV_MESSAGE_TAGS]; /* ... and from it, of those that came in order */
    uint64_t usual_room, usual_bytes; /* of its last message that a kernel did or could wait for */
    bool wrote, parting;     /* letters went there by the wire; it was told that no more will come */
    uint32_t sent_sequence, came_sequence; /* by the wire: the last letter there; up to which all came from there */
    uint64_t ahead[SV_MAIL_AHEAD / 64]; /* bits: letters after came_sequence that have come, ... */
    uint32_t nahead;         /* ... and how many those are */
    uint32_t acked_sequence, hole_sequence; /* up to which all came there; one that came, though not all before it */
    sv_list_t unacked, unacked_link; /* letters that went there; of peers with such */
    struct sv_unacked *held;      /* the first of them that is not to go yet */
    uint64_t resend_ns;      /* when the oldest of them are sent again */
    sv_list_t ack_due_link;  /* of peers that are owed an acknowledgement ... */
    uint64_t ack_due_ns;     /* ... since then ... */
    uint32_t ack_due;        /* ... for so many letters */
    uint32_t resends;        /* how often letters were sent again since the last acknowledgement */
} sv_message_peer_t;

/* What the host and kernels tell each other about a request; pinned. */
typedef struct sv_message_line {
    sv_record_t record;
    sv_verify_result_t result;
    uint64_t ready, done;    /* the digest of a send is there; bytes are in place, and verified */
    uint64_t stop;           /* an early kernel need not wait any longer */
    uint64_t word[SV_MESSAGE_WINDOW];
    sv_push_item_t gather;
    sv_pull_item_t scatter;
} sv_message_line_t;

typedef enum sv_piece_state { SV_PIECE_FREE, SV_PIECE_COPYING, SV_PIECE_FLYING } sv_piece_state_t;

typedef struct sv_message_piece {
    sv_piece_state_t state;
    uint64_t stamp;
    sv_wire_request_t request;
    sv_message_chunk_t *chunk; /* NULL where the wire reads or writes host memory of the user's */
} sv_message_piece_t;

/* Where the bytes of a request lie. */
typedef struct sv_message_place {
    uint8_t *data;           /* one behind the other: the user's memory, or a bounce buffer */
    uint64_t bytes;          /* of the whole buffer */
    bool on_device;          /* kernels and copy engines move it; else this thread does */
    struct sv_message_layout *layout; /* NULL: data is the user's */
    struct sv_message_bounce *bounce; /* what data points to then, on the device */
    uint8_t *user;           /* with a layout: what its offsets are from */
} sv_message_place_t;

typedef enum sv_request_state {
    SV_REQUEST_POSTED,       /* receive: nothing has matched */
    SV_REQUEST_GATE,         /* the caller's stream has not come to it yet */
    SV_REQUEST_FILLING,      /* send: a kernel fills its mail */
    SV_REQUEST_ASKED,        /* send: RTS is out */
    SV_REQUEST_MOVING,       /* pieces are under way */
    SV_REQUEST_CLOSING,      /* receive: all is here, and is verified; send: waits for its digest */
    SV_REQUEST_JUDGED,       /* send: waits for the verdict */
    SV_REQUEST_AGAIN,        /* receive: asked for a small message again */
    SV_REQUEST_LATE,         /* receive: was matched with one that will come */
    SV_REQUEST_UNPACKING,
    SV_REQUEST_LEAVING,      /* receive: over, but for a kernel that still waits for it */
    SV_REQUEST_COMPLETE
} sv_request_state_t;

typedef struct sv_message_engine sv_message_engine_t;

typedef enum sv_message_lack { SV_LACKS_NOTHING, SV_LACKS_CHUNK, SV_LACKS_TURN, SV_MESSAGE_LACKS } sv_message_lack_t;

struct selvage_request {
    sv_list_t link;
    sv_message_engine_t *engine;
    uint32_t index, generation;
    bool is_send, synchronous, cancelled, detached;
    bool buffered, refused;  /* send: is not to wait for its receiver; so it was not begun */
    sv_request_state_t state;
    sv_message_place_t place;
    int peer, tag;           /* as wanted, and from the match on as they are */
    uint64_t bytes;          /* of the message */
    uint64_t number, key, other_id;
    uint64_t before;         /* send: number of the last message before it with such a tag */
    uint32_t attempt, losses; /* how often all was asked for again; of these, for pieces that were lost */
    sv_record_t identity;
    sv_mail_t *mail;
    sv_event_t *event;       /* made at first need, and kept */
    bool gated;              /* event stands for what the caller's stream had been given */
    sv_message_line_t *line;
    sv_digest_scratch_t *scratch; /* device */
    uint64_t stamp;          /* of words of the line */
    sv_message_route_t route;
    sv_message_piece_t piece[SV_MESSAGE_WINDOW];
    uint32_t npieces, nslots;
    uint32_t next, fired, landed; /* how many have begun, how many were sent or came, and how many are over */
    uint64_t sum;            /* host: of the digest so far */
    bool record_here, hurt;  /* receive: DONE came; a fault: one byte is to be changed */
    bool verified;           /* receive: its checksum was compared, and is good */
    bool stuck;              /* receive: given up, and the wire may still write to its buffer */
    uint64_t quiet_ns, quiet_polled_ns; /* receive: how long it was polled, all having left there, and no piece came */
    bool told_late;          /* send */
    uint64_t began_ns;       /* send */
    bool from_device;        /* receive: its bytes lie on a device there */
    void *stream;            /* receive: the caller's */
    bool offered, tried_offer; /* receive: its box says that it may be written */
    bool early, tried_early; /* receive: a kernel waits for it, or is not known to be over; there was one */
    unsigned early_blocks, early_lane; /* of that, and whose stream it is on */
    uint64_t early_key;      /* what that waits for */
    sv_message_chunk_t *chunk; /* receive: what comes in a slot, on its way to host memory */
    unsigned landing;        /* DIRECT: which place of the receiver's box tells of it ... */
    uint64_t landing_stamp;  /* ... by this number */
    struct sv_message_mapping *mapping; /* send: what it is copied to */
    uint64_t offset;         /* in there */
    sv_message_lack_t lacks; /* a chunk, or that fewer transfers of host memory are under way */
    bool in_pieces_by_host;  /* one of engine->host_transfers */
    bool awaits_record;      /* receive: all of it has landed, and its record has not come */
    bool spent_tag;          /* receive: pieces may come late, with its tag: it is never given out again */
    bool retired;            /* ended by an error while the device may be at work: its memory is nobody else's ... */
    bool retired_for_good;   /* ... and nobody can know until when */
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
typedef struct sv_early_lane {
    unsigned kernels, blocks;
} sv_early_lane_t;

/* What selvage_stats_t says of messages. */
typedef struct sv_message_counts {
    uint64_t sent, received, bytes_sent, bytes_received; /* with success */
    uint64_t verified, mended;          /* of those received; of these, at a later attempt */
    uint64_t damaged, repeated, failed; /* arrivals; all of the first are one of the others */
} sv_message_counts_t;

/* A message taken out of matching. */
struct selvage_message {
    sv_message_engine_t *engine;
    sv_mail_t *mail;
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
    size_t eager_bytes, mail_bytes, segment_bytes;
    size_t near_bytes;       /* up to here messages go by slots in device memory, where there are some */
    uint64_t early_wait_ns;  /* how long a kernel may wait for a message; 0: there are none such */
    sv_early_lane_t early[SV_EARLY_STREAMS + 1]; /* on the engine's streams, and on all those of callers */
    void *call_stream;       /* of the last call that began a request, and when that returned */
    uint64_t called_ns;
    uint32_t ncancels;       /* receives to be taken back that a kernel may have taken */
    uint64_t exchange;       /* what identities say for it */
    selvage_status_t broken; /* nothing works any more, and why */
    char broken_text[SV_DETAIL_BYTES];
    uint64_t moved_ns, stamps, broken_ns;
    bool stores_late;        /* it broke while kernels of sends were behind callers' work */
    uint64_t came[SV_WAYS];  /* messages that were received, by each way */
    uint64_t came_claimed;   /* of the direct ones, those without a handshake */
    uint64_t came_by_slot, came_early; /* of the near ones, those in device memory, and by a kernel that waited */
    sv_message_counts_t counts;

    sv_list_t mail_free[2], flying, own; /* own: to this rank itself */
    sv_list_t unacked_free, unacked_peers, ack_due_peers;
    struct sv_unacked_chunk *unacked_chunks;
    uint64_t resent;         /* letters, for whatever reason */
    sv_mail_chunk_t *mail_chunks;
    sv_mail_t *ring[SV_MAIL_RING];
    unsigned ring_head, ring_polls, polls, calls;
    bool ring_posted;
    sv_list_t unexpected, taken; /* mail that nobody has asked for; that improbe has taken */

    sv_list_t request_free, posted;
    sv_list_t active, awaiting; /* begun: a poll looks at them; a control message wakes them ... */
    sv_list_t starved[2][SV_MESSAGE_LACKS]; /* ... or the end of another: of receives, of sends */
    sv_request_chunk_t *request_chunks;
    selvage_request_t **table; /* by index */
    uint32_t nrequests, open;  /* open: not yet complete and given back */

    sv_list_t chunk_free[2];   /* of sends, of receives: neither waits for the other's */
    sv_list_t chunk_retired;
    uint32_t chunks_used[2];
    uint32_t host_transfers[2]; /* of receives, of sends: those in pieces straight from or to host memory */
    sv_list_t layouts, bounce_free, block_free, upload_free;
    uint32_t nlayouts;
    size_t layout_bytes;
    void *upload_stream;
    sv_list_t boxed;           /* peers with a box to look into */
    sv_list_t opened;          /* device memory of peers: open mappings ... */
    sv_list_t mappings;        /* ... and what is known of them, the oldest first */
    uint32_t nmappings;
    sv_message_export_t exported[SV_MESSAGE_EXPORTS];
    sv_message_known_t known[SV_MESSAGE_KNOWN];
    uint32_t next_export, next_known;
    void *kernel_stream, *out_stream, *in_stream, *peer_stream;
    void *early_stream[SV_EARLY_STREAMS]; /* by peer, so that one that is late holds up few others */
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
    uint64_t *near, near_value;
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
    uint64_t *verdict, verdict_value;
} sv_verify_job_t;

/* --- message_engine.c --------------------------------------------------------------------------------------------- */

/* The engine of a communicator, made at the first call; any thread. */
selvage_status_t sv_message_engine(selvage_comm_t *comm, sv_message_engine_t **engine_out);
/* Advances everything; returns whether anything moved. Holds the lock already. */
bool sv_message_poll(sv_message_engine_t *engine);
/* Waits for the engine's own streams, which wait for no caller's; false: that fails. The thread's detail stays. */
bool sv_message_drain(sv_message_engine_t *engine);
/* An error ends a request in its call or after it: waits for what the device does for it, or retires its memory. */
void sv_message_quiet(selvage_request_t *request, bool in_call);
/* Ends all that is under way with this status, whose detail is the thread's; nothing works any more. */
void sv_message_break(sv_message_engine_t *engine, selvage_status_t status);

/* --- message_pool.c ----------------------------------------------------------------------------------------------- */

/* bare: for a letter alone. */
selvage_status_t sv_mail_take(sv_message_engine_t *engine, bool bare, sv_mail_t **mail_out);
/* The same for a letter to this rank: in its box, if there is room. */
selvage_status_t sv_mail_take_to(sv_message_engine_t *engine, int rank, bool bare, sv_mail_t **mail_out);
void sv_mail_put(sv_message_engine_t *engine, sv_mail_t *mail);
selvage_status_t sv_message_take_request(sv_message_engine_t *engine, selvage_request_t **request_out);
void sv_message_put_request(selvage_request_t *request);
/* The request of this id, if it still is that one; else NULL. */
selvage_request_t *sv_message_find(sv_message_engine_t *engine, uint64_t id);
static inline uint64_t sv_message_id(const selvage_request_t *request)
{
    return (uint64_t)request->generation << 32 | request->index;
}
/* NULL if as many as there may be are in use, or there is no memory for one; there are more for requests that have none
   yet, as others may wait for them. One of a request that is retired is never given out again. */
sv_message_chunk_t *sv_message_take_chunk(sv_message_engine_t *engine, bool is_send, bool is_first);
/* Whether many are left. */
bool sv_message_has_chunks(const sv_message_engine_t *engine, bool is_send);
void sv_message_put_chunk(const selvage_request_t *request, sv_message_chunk_t *chunk);
selvage_status_t sv_message_peer(sv_message_engine_t *engine, int rank, sv_message_peer_t **peer_out);
void sv_message_free_pools(sv_message_engine_t *engine);

/* --- message_mail.c ----------------------------------------------------------------------------------------------- */

static inline uint8_t *sv_mail_payload(const sv_mail_t *mail)
{
    return (uint8_t *)(mail->letter + 1);
}
static inline void *sv_mail_device(const sv_mail_t *mail, const void *ptr)
{
    return (void *)((uintptr_t)ptr + mail->shift); /* what a kernel is given */
}
size_t sv_mail_bytes(const sv_letter_t *letter);
bool sv_mail_is_bare(const sv_letter_t *letter); /* nothing is to be after it in its mail */
/* Nothing but the record and the payload changes behind this; whether a letter is whole, whoever wrote it. */
void sv_mail_seal(sv_message_engine_t *engine, sv_mail_t *mail, int rank);
bool sv_mail_is_sound(const sv_message_engine_t *engine, const sv_letter_t *letter);
/* Seals a letter, with the bytes behind it, and sends it. The mail is given back when it has left, unless kept. */
selvage_status_t sv_mail_post(sv_message_engine_t *engine, sv_mail_t *mail, int rank);
/* For a letter without bytes, in mail of its own. */
selvage_status_t sv_mail_tell(sv_message_engine_t *engine, int rank, const sv_letter_t *letter);
/* By the wire, with the sequence number that it has. */
selvage_status_t sv_mail_fly(sv_message_engine_t *engine, sv_mail_t *mail, int rank);
/* A small message was taken: its mail is free, and its sender hears of it; or that alone, without mail. */
selvage_status_t sv_mail_taken(sv_message_engine_t *engine, sv_mail_t *mail);
selvage_status_t sv_mail_acknowledge(sv_message_engine_t *engine, int rank, uint64_t number);
selvage_status_t sv_mail_poll(sv_message_engine_t *engine, bool *moved);
/* Withdraws what is posted and flying. */
void sv_mail_withdraw(sv_message_engine_t *engine);

/* --- message_early.c ---------------------------------------------------------------------------------------------- */

uint64_t sv_message_early_patience_ns(const selvage_comm_t *comm);
/* A host is about to wait for these (some may be NULL, or sends): launches what can be. */
void sv_message_early(sv_message_engine_t *engine, size_t count, selvage_request_t **requests);
/* Of a receive that has met its message: whether its kernel takes just that. */
bool sv_message_early_fits(const selvage_request_t *recv);
/* What has come in a slot tells what the next one will be. */
void sv_message_early_learn(const selvage_request_t *recv, sv_mail_t *mail);
/* Whether the kernel has gone without it. */
bool sv_message_early_is_away(selvage_request_t *recv);
/* The same, or with it. */
bool sv_message_early_is_over(selvage_request_t *recv);
void sv_message_early_stop(selvage_request_t *recv);
/* Its kernel is over. */
void sv_message_early_gone(selvage_request_t *recv);
/* How many blocks of such kernels may be on the device by now. */
unsigned sv_message_early_blocks(const sv_message_engine_t *engine);
/* Ends receives that were to be taken back and whose kernels have gone. */
void sv_message_early_cancel(sv_message_engine_t *engine);
/* Waits for all kernels that wait, but no longer than the deadline: a device that has failed ends none. */
void sv_message_early_end(sv_message_engine_t *engine);

/* --- message_offer.c ---------------------------------------------------------------------------------------------- */

/* Offers a receive that is posted, if it can be. */
void sv_message_offer(selvage_request_t *recv);
typedef enum sv_offer_end {
    SV_OFFER_WITHDRAWN,      /* nobody will claim it; or there was none */
    SV_OFFER_CLAIMED,        /* its message is on its way */
    SV_OFFER_DENIED,         /* claimed, but its memory could not be mapped, and given back */
    SV_OFFER_RETURNED        /* claimed, but its message could not leave, and given back */
} sv_offer_end_t;
sv_offer_end_t sv_message_offer_withdraw(selvage_request_t *recv);
/* The receive has met its message: whether that has claimed it; if not, it is offered no more. */
selvage_status_t sv_message_offer_meet(selvage_request_t *recv, const sv_letter_t *letter, bool *claimed_out);
/* Sender: finds, claims and maps what is offered for this message. */
bool sv_message_claim(selvage_request_t *send, struct sv_message_peer *peer);
/* The same message does not leave after all: what has begun of its copy is waited for, and the offer is given back. */
void sv_message_unclaim(selvage_request_t *send, const struct sv_message_peer *peer);
/* Of the numbers of last messages, the place of those with such a tag. */
static inline unsigned sv_message_tag_class(int tag)
{
    return (unsigned)tag % SV_MESSAGE_TAGS;
}

/* --- message_match.c ---------------------------------------------------------------------------------------------- */

/* A letter has come; the mail is the callee's. */
selvage_status_t sv_message_arrive(sv_message_engine_t *engine, sv_mail_t *mail);
/* The first message nobody has asked for that fits, or NULL. */
sv_mail_t *sv_message_unexpected(sv_message_engine_t *engine, int source, int tag);
/* A receive that is new: takes what is there, or is posted. */
void sv_message_post(selvage_request_t *recv);
/* Whether a kernel or a stream of a send, which may have been let go of, stores in another rank's memory. */
bool sv_message_is_storing(const sv_message_engine_t *engine);
/* Tells everybody that no more will come, or sees whether everybody has heard it, and nothing is stored any more. */
selvage_status_t sv_message_part(sv_message_engine_t *engine, bool *parted);

/* --- message_send.c, message_recv.c, message_staged.c, message_verify.c ------------------------------------------- */

/* Begins a send, whose request is the caller's if it fails; advances it; and what its receiver says. */
selvage_status_t sv_message_send(selvage_request_t *send, void *stream);
selvage_status_t sv_message_send_advance(selvage_request_t *send, bool *moved);
void sv_message_send_cleared(selvage_request_t *send, const sv_letter_t *cts);
void sv_message_send_judged(selvage_request_t *send, const sv_letter_t *verdict);
/* A call gives its request up, with an error whose detail is the thread's: false while its buffer may still be read by
   what nobody can stop; or written, so that the receive is to be given up again later. */
bool sv_message_send_abandon(selvage_request_t *send, selvage_status_t status);
bool sv_message_recv_abandon(selvage_request_t *recv, selvage_status_t status);
enum { SV_VERDICT_GOOD, SV_VERDICT_BAD, SV_VERDICT_ABANDONED };

/* A receive has met its message, in mail that is the callee's; and what comes later. What goes wrong ends it. */
void sv_message_matched(selvage_request_t *recv, sv_mail_t *mail);
selvage_status_t sv_message_recv_advance(selvage_request_t *recv, bool *moved);
void sv_message_recv_done(selvage_request_t *recv, const sv_letter_t *done);

/* Pieces through pinned memory: begins, false for want of it; IN_PROGRESS until all have left or landed; lost: all have
   left there, and for a while none has come. Taking back what is posted: false if the wire is in the middle of a piece,
   which goes on. */
bool sv_message_pieces_begin(selvage_request_t *request);
selvage_status_t sv_message_pieces_send(selvage_request_t *send, bool *moved);
selvage_status_t sv_message_pieces_recv(selvage_request_t *recv, bool *moved);
bool sv_message_pieces_are_lost(selvage_request_t *recv, bool moved);
bool sv_message_pieces_take_back(selvage_request_t *recv);
/* Straight into the receiver's memory. Receiver: finds a landing and says in the box where that is; false if it cannot
   be; or gives it back, which nobody has seen; or writes it into a CTS. */
bool sv_message_direct_land(selvage_request_t *recv, struct sv_message_peer *peer);
void sv_message_direct_drop(selvage_request_t *recv);
bool sv_message_direct_offer(selvage_request_t *recv, sv_letter_t *cts);
/* Sender: SUCCESS, or ERR_UNSUPPORTED (and nothing logged) if that cannot be reached from here. */
selvage_status_t sv_message_direct_map(selvage_request_t *send, const sv_message_where_t *where);
selvage_status_t sv_message_direct_open(selvage_request_t *send, const sv_letter_t *cts);
/* Before the copy: ERR_TIMEOUT if the receiver has taken its memory back; and that, false if the copy has begun. */
selvage_status_t sv_message_direct_start(selvage_request_t *send);
bool sv_message_direct_revoke(const selvage_request_t *recv);
/* Has it taken back, or waits for the copy; false if that takes too long. */
bool sv_message_direct_close(const selvage_request_t *recv);
/* stream: of a kernel that copies. */
selvage_status_t sv_message_direct_copy(selvage_request_t *send, void *stream);
/* Whether a kernel copies it, and sums in the same pass; both ends come to one answer. */
bool sv_message_direct_by_kernel(const selvage_request_t *request);
/* Whether the bytes, and the record, have left or landed. */
bool sv_message_direct_has_left(const selvage_request_t *send);
bool sv_message_direct_has_landed(const selvage_request_t *recv);
/* Sender: whether the receiver's kernel has found all good. */
bool sv_message_direct_is_good(const selvage_request_t *send);
/* Receiver: what is to be verified, and what a kernel can wait for: nothing if await is NULL. */
sv_verify_job_t sv_message_direct_job(const selvage_request_t *recv);
void sv_message_direct_end(selvage_request_t *request);
void sv_message_close_mappings(sv_message_engine_t *engine);

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
uint32_t sv_message_left(const sv_message_engine_t *engine, bool is_send, sv_message_lack_t lack);
/* Whether the caller's stream has come to the request. IN_PROGRESS, SUCCESS, or an error. The host asks, so that no
   stream of the engine's ever waits for a caller's, with other messages behind. */
selvage_status_t sv_message_gate(selvage_request_t *request);

#endif
