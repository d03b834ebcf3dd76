/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests: what a send or a receive is from its call to its end. All messages have the members of selvage_request, and
 * each protocol has a struct of its own in it. A request belongs to the engine, which takes it from a pool. It goes
 * back when its caller has seen it complete, or has let go of it. Under the engine's lock.
 */
#ifndef SV_MESSAGE_REQUEST_H
#define SV_MESSAGE_REQUEST_H

#include "message/message_ctrl.h"
#include "transfer/transfer_mapping.h"
#include "transfer/transfer_pool.h"
#include "transfer/transfer_slot.h"
#include <selvage/message.h>

enum { SV_MESSAGE_WINDOW = 8 }; /* pieces of a message under way at once */

/* How a long message comes; in a CTS. */
typedef enum sv_message_route {
    SV_MESSAGE_NONE,         /* not at all: there is nothing to send, or it would not fit */
    SV_MESSAGE_STAGED,       /* in pieces over the wire */
    SV_MESSAGE_PUT,          /* the sender copies it straight into the receiver's device memory */
    SV_MESSAGE_GET           /* the receiver copies it out of the sender's; never in a CTS */
} sv_message_route_t;

/* Device memory that another rank may reach: of an allocation, that its owner has at base, the bytes from offset on. In
   a CTS or an RTR it is the receiver's, with a get the sender's. */
typedef struct sv_message_where {
    uint64_t offset, base;
    sv_device_handle_t handle;
} sv_message_where_t;

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

/* Where the bytes of a request lie. */
typedef struct sv_message_place {
    uint8_t *data;           /* one after the other: the user's memory, or a bounce buffer */
    uint64_t bytes;          /* of the whole buffer */
    uint64_t id;             /* of the allocation that data is in; 0: none, or several */
    bool on_device;          /* kernels and copy engines move it; else this thread does */
    struct sv_message_layout *layout; /* NULL: data is the user's */
    struct sv_message_bounce *bounce; /* what data points to then, on the device */
    uint8_t *user;           /* with a layout: what its offsets are from */
} sv_message_place_t;

typedef enum sv_request_state {
    SV_REQUEST_POSTED,       /* receive: nothing has matched */
    SV_REQUEST_GATE,         /* the caller's stream has not come to it yet */
    SV_REQUEST_HELD,         /* send: its caller is to launch that kernel */
    SV_REQUEST_FILLING,      /* send: a kernel fills its descriptor */
    SV_REQUEST_BUFFERING,    /* send: a kernel copies it to a buffer, from which it is received */
    SV_REQUEST_LENT,         /* send: it is received from the caller's memory, or moved to a buffer after a while */
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

typedef enum sv_message_lack { SV_LACKS_NOTHING, SV_LACKS_CHUNK, SV_LACKS_TURN, SV_MESSAGE_LACKS } sv_message_lack_t;

/* A small message (message_eager.c). */
typedef struct sv_request_eager {
    bool announced;          /* send: DEFERRED went ahead of it */
    uint64_t began_ns;       /* send */
    sv_pinned_t *chunk;      /* receive: what comes in a slot, or as the last piece, on its way to host memory */
} sv_request_eager_t;

/* A long one that the sender copies to its place (message_put.c), and how it is offered that (message_rtr.c). */
typedef struct sv_request_put {
    unsigned slot;           /* which put slot of the receiver's shared segment it uses */
    uint64_t stamp;          /* the slot's number for this copy; 0: none */
    sv_transfer_mapping_t *mapping; /* send: what it is copied to */
    uint64_t offset;         /* in there */
    bool advertised, tried_rtr; /* receive: its shared segment says that it may be written */
    bool denied;             /* receive: the sender could not map its memory */
} sv_request_put_t;

/* A long one that the receiver copies from its place (message_get.c). */
typedef struct sv_request_get {
    unsigned place;          /* in the receiver's shared segment */
    uint64_t stamp;          /* of this offer; 0: none */
    bool carried;            /* send: the offer is its carrier's, which has the buffer that it is copied to */
    bool counted;            /* a carrier: its message is counted with the caller's request */
    size_t buffered_bytes;   /* a carrier: of that buffer; 0: the memory is the caller's */
    selvage_request_t *partner; /* of a lent send its carrier, and of that the send; NULL: that one has ended, ... */
    selvage_status_t outcome;   /* ... a lent send: with this */
    uint64_t lent_ns;           /* a lent send: when it was lent, or moved */
    struct sv_message_bounce *moving; /* a lent send: what it is being moved to; or ... */
    bool is_moving, is_moved;   /* a lent send: it is copied; others may read the copy */
    sv_transfer_mapping_t *mapping; /* receive: what it is copied from ... */
    struct sv_move_segment *segment; /* ... or this, of host memory, ...; a lent send, its carrier: moved to that */
    const uint8_t *src;      /* ... and where in it */
    struct sv_message_bounce *bounce; /* receive: host memory gets it by way of this; NULL: straight */
    bool final;              /* receive: the bytes are there, whether the digest is or not */
    bool taken, buffered;    /* receive: the offer is taken; its sender waits for nobody */
    bool lent, moved;        /* receive: the memory is the sender's caller's, as long as it is not moved */
    bool copied, corrupt;    /* receive: its copy has begun; a fault: one byte of it is to be changed */
    uint64_t landed_bytes;   /* receive, copied: what the copy engine brings, from the first byte on */
    bool near;               /* receive: record and word come to this device's memory as well */
} sv_request_get_t;

/* The slots of a message in pieces; of a pool of the engine's, since most requests have none. */
typedef struct sv_message_window {
    sv_list_t link;
    sv_slot_t slot[SV_MESSAGE_WINDOW];
    sv_pinned_t *chunk[SV_MESSAGE_WINDOW]; /* of each slot; NULL where the wire is given the user's host memory */
} sv_message_window_t;

/* A long one in pieces over the wire (message_staged.c). */
typedef struct sv_request_staged {
    struct sv_message_window *window; /* while pieces are under way, else NULL */
    uint32_t npieces, nslots;
    uint32_t next, issued, finished; /* how many have begun, how many were sent or came, and how many are over */
    uint64_t sum;            /* host: of the digest so far */
    uint32_t losses;         /* how often all was asked for again because pieces were lost */
    uint64_t silent_ns, silent_polled_ns; /* receive: how long it was polled, all having left there, and no piece
                                             came */
    bool record_here;        /* receive: FIN came */
    bool awaits_record;      /* receive: all of it has landed, and its record has not come */
    bool by_host;            /* one of engine->pieces.host_transfers */
    bool spent_tag;          /* receive: pieces may come late with its tag, which is never given out again */
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
    bool buffered, refused;  /* send: is not to wait for its receiver; and was therefore not begun */
    bool held;               /* send: its kernel is launched when its caller says so; it has a group open till then */
    bool expected;           /* receive: its sender is known to be at it, on another GPU */
    bool gated;              /* event stands for what the caller's stream had been given */
    bool corrupted;          /* a fault: one byte is to be changed */
    bool verified;           /* receive: its checksum was compared, and is good */
    bool from_device;        /* receive: its bytes lie on a device there */
    bool given_up;           /* send: its caller has its buffer back, with an error; nobody is to read it any more */
    bool stuck;              /* receive: given up, and another may still write to its buffer */
    bool retired;            /* an error ended it while the device may be at work: nobody else gets its memory */
    bool retired_for_good;   /* nobody can know until when */
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
    sv_request_get_t get;
    sv_request_staged_t staged;
    sv_request_early_t early;
    selvage_status_t launch_error; /* of a kernel that was kept for a group; its text is the detail */
    selvage_status_t error;
    char detail[SV_DETAIL_BYTES / 2];
};

#endif
