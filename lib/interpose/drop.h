/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The drop-in: a library of its own that stands between a program and its MPI. A call whose buffers lie in host memory
 * goes to MPI as it is. A call with device memory becomes the same call on pinned host memory:
 *
 *   MPI_Send(device)   synchronise, copy down, PMPI_Send(pinned)
 *   MPI_Recv(device)   synchronise, PMPI_Recv(pinned), copy up
 *   MPI_Isend, ...     likewise around PMPI_Isend; the program gets a generalized request that ends after the copy
 *
 * MPI is called by PMPI_ names only, and Selvage by include/ only. All state is the process's, as MPI's is. Any thread
 * may call, as far as the program's thread level allows. A call owns its staging memory; a request takes that over.
 */
#ifndef SV_DROP_H
#define SV_DROP_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <selvage/device.h>
#include <selvage/message.h>
#include <selvage/pack.h>

/* Bodies of MPI_ calls and what else programs see. Everything else is hidden. */
#define SV_DROP_EXPORT __attribute__((visibility("default")))

/* --- settings and the devices (drop_device.c, drop_copy.c, drop_init.c, drop_pool.c) ------------------------------ */

typedef enum sv_drop_sync {
    SV_DROP_SYNC_DEFAULT, SV_DROP_SYNC_AUTO, SV_DROP_SYNC_DEVICE, SV_DROP_SYNC_NONE, SV_DROP_SYNC_CHECK
} sv_drop_sync_t;

/* AUTO: a message takes the fast route only if it completes without the other rank's host. */
typedef enum sv_drop_mode { SV_DROP_FAST_AUTO, SV_DROP_FAST_ON, SV_DROP_FAST_OFF } sv_drop_mode_t;

typedef struct sv_drop_settings {
    sv_drop_sync_t sync;
    int sync_ms;        /* for AUTO */
    int64_t pool_bytes; /* pinned memory, at most */
    int64_t piece_bytes; /* through which other memory is copied */
    sv_drop_mode_t fast;
    bool report, pairs, progress_thread, soft; /* soft: that device is asked for */
    bool checks;                     /* what goes by the fast route is verified */
    int64_t fast_bytes; /* messages of at least so many take the fast route */
    int64_t row_bytes;  /* the same in a long row of sends, where a message costs less by it, and of one that waits */
    int64_t coll_bytes, cache_bytes; /* the same of collective calls by Selvage's own; what others map for these */
    int64_t shared_bytes; /* the same of a message by itself, where other processes use the GPU */
    bool chooses;       /* the user has not said what takes the route */
    int64_t slot_bytes; /* of a slot of the route's; 0: as suits the node */
    int64_t long_bytes, fragment_bytes; /* of messages in fragments, 0: none; of a fragment, 0: as suits the message */
    char job[64]; /* what selvage-run calls this job; "" without it */
    char trace[512]; /* file of the timeline; "": none */
    int64_t trace_events;
    int64_t timeout_ns; /* 0: the user has set no deadline */
    int64_t idle_ns;    /* how long memory stays that nothing uses */
} sv_drop_settings_t;

const sv_drop_settings_t *sv_drop_settings(void);

/* The first device, opened at the first call that may need it; NULL if there is none. */
selvage_device_t *sv_drop_device(void);
/* The device whose memory this is; the first one if it is no device's. */
selvage_device_t *sv_drop_device_of(const void *memory);
bool sv_drop_has_several(void);
/* Whether this is memory of another GPU than the first one, open or not. */
bool sv_drop_is_others(const void *memory);
/* Whether this program may come to show device memory: a GPU's runtime is loaded, or the software device asked for. */
bool sv_drop_may_have_device(void);
void sv_drop_device_close(void);

/* A stream of a device, for one user at a time. */
void *sv_drop_stream_take(selvage_device_t *dev);
void sv_drop_stream_give(selvage_device_t *dev, void *stream);

/* Where an address leads, as the device says; sv_drop_is_host() is the cheap way. NOBODY: there is no memory now, but
   memory of the device may come there without a new mapping. */
typedef enum sv_drop_place { SV_DROP_HOST, SV_DROP_DEVICE, SV_DROP_NOBODY } sv_drop_place_t;
sv_drop_place_t sv_drop_query_place(const void *ptr);

/* The first device and all others that are open: false after the last. */
bool sv_drop_device_at(int index, selvage_device_t **dev_out);

/* Waits, as the settings want it, until no work of the program uses device memory that a call was given (drop_sync.c).
   The end: false if the waiter still waits for a device, which then stays open. */
void sv_drop_settle(void);
bool sv_drop_settle_end(void);
/* Whether a kernel did not end within that time. It may fill the device: no kernel of ours is to be waited for. */
bool sv_drop_is_stuck(void);
/* A thread that takes none of the program's signals; false: there is none. */
bool sv_drop_make_thread(pthread_t *thread, void *(*run)(void *));
int64_t sv_drop_now_ns(void); /* CLOCK_MONOTONIC */

struct sv_drop_plan;
typedef struct sv_drop_strip sv_drop_strip_t;

/* Parts of a strip (drop_strip.c) that are to be one copy, which is not enqueued yet: bytes of the strip. */
typedef struct sv_drop_run {
    sv_drop_strip_t *strip;
    size_t begin, end;
    bool down, joins; /* joins: they are several */
} sv_drop_run_t;

enum { SV_DROP_RUNS = 4 };

/* Copies that are waited for together. theirs: they are on the program's default stream, after its work. A failure ends
   the program by MPI_Abort, because there is no error class for it. */
typedef struct sv_drop_flow {
    selvage_device_t *device; /* of the copies under way; NULL: there are none */
    void *stream; /* taken at the first copy */
    bool theirs;
    selvage_event_t *event; /* after the copies, and waited for in the stream's place; NULL: there is none */
    int64_t begin_ns, bytes; /* for the timeline */
    sv_drop_run_t run[SV_DROP_RUNS];
    int nruns;
} sv_drop_flow_t;

void sv_drop_copy(sv_drop_flow_t *flow, void *dst, const void *src, size_t bytes, selvage_copy_t direction);
void sv_drop_gather(sv_drop_flow_t *flow, const struct sv_drop_plan *plan, const void *buf, void *packed);
void sv_drop_scatter(sv_drop_flow_t *flow, const struct sv_drop_plan *plan, const void *packed, size_t bytes,
                     void *buf);
void sv_drop_flow_end(sv_drop_flow_t *flow); /* waits for them */
/* The stream of a copy that a flow is given. Copies of another device are waited for first. */
void *sv_drop_flow_stream(sv_drop_flow_t *flow, selvage_device_t *dev, size_t bytes);

/* Host memory from a pool (drop_pool.c), pinned up to the bound. Copies take either kind. */
void *sv_drop_staging(size_t bytes);
void *sv_drop_staging_plain(size_t bytes); /* not pinned: for images of which little is used */
void sv_drop_unstage(void *ptr);
void sv_drop_pool_empty(selvage_device_t *dev);

/* Prints "selvage-mpi: ..." and ends the program. */
_Noreturn void sv_drop_fatal(const char *what, const char *why);
void sv_drop_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --- which memory is which (drop_cache.c) ------------------------------------------------------------------------- */

/* Remembers pages of host memory only. An address of the host can become the device's only by a new mapping, and each
   of those begins a new generation. A device address is asked for every time. */
enum { SV_DROP_CACHE_SLOTS = 4096, SV_DROP_PAGE_SHIFT = 12, SV_DROP_GENERATION_BITS = 12 };

extern _Atomic uint64_t sv_drop_cache[SV_DROP_CACHE_SLOTS];
extern _Atomic uint32_t sv_drop_generation;

bool sv_drop_look_up(const void *ptr, uint64_t entry);

/* Page and generation: the content of a slot if the page is the host's. */
static inline uint64_t sv_drop_entry(const void *ptr)
{
    uint32_t generation = atomic_load_explicit(&sv_drop_generation, memory_order_relaxed);
    return (uint64_t)(uintptr_t)ptr >> SV_DROP_PAGE_SHIFT << SV_DROP_GENERATION_BITS |
           (generation & ((1u << SV_DROP_GENERATION_BITS) - 1));
}

static inline _Atomic uint64_t *sv_drop_slot(const void *ptr)
{
    return &sv_drop_cache[((uintptr_t)ptr >> SV_DROP_PAGE_SHIFT) % SV_DROP_CACHE_SLOTS];
}

/* Whether MPI gets memory at ptr as it is; true for NULL and MPI_IN_PLACE as well. */
static inline bool sv_drop_is_host(const void *ptr)
{
    uint64_t entry = sv_drop_entry(ptr);
    if (__builtin_expect(atomic_load_explicit(sv_drop_slot(ptr), memory_order_relaxed) == entry, 1))
        return true;
    return sv_drop_look_up(ptr, entry);
}

/* Predefined types that were seen. They are never freed, and do not move the address that the buffer has. */
enum { SV_DROP_NAMED_SLOTS = 16 };
extern _Atomic MPI_Datatype sv_drop_named[SV_DROP_NAMED_SLOTS];
static inline _Atomic MPI_Datatype *sv_drop_named_slot(MPI_Datatype type)
{
    uint64_t key = (uint64_t)(uintptr_t)type;
    return &sv_drop_named[(key ^ key >> 9) % SV_DROP_NAMED_SLOTS];
}

static inline bool sv_drop_is_named(MPI_Datatype type)
{
    return atomic_load_explicit(sv_drop_named_slot(type), memory_order_relaxed) == type;
}

/* As sv_drop_is_host(), for an address that a type moves: MPI_BOTTOM with absolute displacements, and others. */
bool sv_drop_is_host_moved(const void *ptr, MPI_Datatype type);
static inline bool sv_drop_is_host_typed(const void *ptr, int64_t count, MPI_Datatype type)
{
    if (!sv_drop_is_host(ptr))
        return false;
    return count <= 0 || atomic_load_explicit(sv_drop_named_slot(type), memory_order_relaxed) == type ||
           sv_drop_is_host_moved(ptr, type);
}

/* Whether a type's own addresses lead to such memory (drop_place.c). */
bool sv_drop_type_reaches_host(const void *ptr, MPI_Datatype type);
bool sv_drop_type_reaches_device(const void *ptr, MPI_Datatype type);

/* --- datatypes (drop_type.c) -------------------------------------------------------------------------------------- */

typedef struct sv_drop_type {
    MPI_Count bytes, lb, extent, true_lb, true_extent;
    bool named; /* predefined */
    bool dense; /* predefined, and without gaps: count elements are one run */
} sv_drop_type_t;

/* False if it is no type, which MPI then refuses. */
bool sv_drop_type(MPI_Datatype type, sv_drop_type_t *info_out);
/* Whether elements of it do not lie side by side, so that they are packed; also of what is no type. */
bool sv_drop_type_has_gaps(MPI_Datatype type);

/* Whether messages may be of this type; true if it is no type. */
bool sv_drop_type_is_committed(MPI_Datatype type);

/* A type that has so many elements, of MPI-3's constructors, so that it can be taken apart as any other. It is
   committed, and the caller's to free. Returns MPI's code. */
int sv_drop_type_many(MPI_Count count, MPI_Datatype type, MPI_Datatype *type_out);

/* A copy of a derived type, which the program may free meanwhile. It is committed, and the caller's to free. It is no
   duplicate, which would call the callbacks of the program's attributes on its type. Returns MPI's code. */
int sv_drop_type_hold(MPI_Datatype type, MPI_Datatype *type_out);

/* A communicator of this rank alone that has none of MPI_COMM_SELF's attributes, and not its error handler. */
MPI_Comm sv_drop_make_self(void);

/* A count and type that ordinary calls take. */
typedef struct sv_drop_narrow {
    int count;
    MPI_Datatype type;
    bool owned;
} sv_drop_narrow_t;

/* Returns MPI's code. MPI keeps the type for messages in flight. */
int sv_drop_narrow(MPI_Count count, MPI_Datatype type, sv_drop_narrow_t *narrow_out);
void sv_drop_narrow_end(sv_drop_narrow_t *narrow);

/* Pack elements of a type in host memory to as many bytes as the type's size says, and unpack them. The bytes to unpack
   may end within an element. The length is any. A failure ends the program. */
void sv_drop_pack(const void *from, int64_t count, MPI_Datatype type, void *packed, int64_t bytes);
void sv_drop_unpack(const void *packed, int64_t bytes, void *to, int64_t count, MPI_Datatype type);

void sv_drop_types_end(void);
/* --- buffers of a call (drop_stage.c) ----------------------------------------------------------------------------- */

typedef struct sv_drop_block {
    int64_t count, offset; /* elements; bytes from the buffer's address */
    MPI_Datatype type;
    bool is_type;          /* else MPI refuses it */
    sv_drop_type_t info;   /* of the type, which is asked once */
} sv_drop_block_t;
/* Whether a buffer leads to host memory and to device memory, and warns then. The caller lets MPI tell the error
   handler. */
typedef struct sv_drop_call sv_drop_call_t;
bool sv_drop_refuse(sv_drop_call_t *call, const void *buf, const sv_drop_block_t *blocks, int n);

/* How a list says where its blocks are. */
typedef enum sv_drop_form {
    SV_DROP_IN_A_ROW, SV_DROP_BY_ELEMENTS, SV_DROP_BY_ELEMENTS_FAR, SV_DROP_BY_BYTES, SV_DROP_BY_BYTES_FAR
} sv_drop_form_t;

typedef struct sv_drop_buffer {
    char *user;             /* device memory */
    char *host;             /* staging memory; stands for user + low */
    char *image;            /* where that begins; NULL if it is another buffer's, or not staging memory */
    sv_drop_strip_t *strip; /* that it is a part of, in the place of image; the buffer is a user. Else NULL */
    struct sv_drop_op *lender; /* a batched send whose staging memory it is, and whose copy; the buffer is a user. Else
                                  NULL */
    int64_t low;
    size_t bytes;           /* at host */
    bool in, out, packed;   /* packed: host holds the stream of one block, not its image */
    bool one_in;            /* of a buffer in place: only the block in_block goes down */
    int in_block;
    bool unpacks;           /* user is host memory: see sv_drop_unpacking() */
    bool wide;              /* an announcement fits at host, though bytes are fewer: see sv_drop_widen() */
    bool keeps_gaps;        /* memory between the elements goes along: see unstage_image() */
    bool owns_types;        /* the derived types of its blocks are copies: see sv_drop_call_hold() */
    bool owns_type;         /* type was made for it */
    bool guarded, owns_guard;
    MPI_Datatype guard;     /* if it is guarded: what MPI receives one of (drop_guard.c) */
    sv_drop_form_t form;
    struct sv_drop_compact *compact; /* host holds the elements of the blocks, without gaps; else NULL */
    struct sv_drop_plan *plan; /* of a packed one */
    sv_drop_block_t one, *blocks;
    int nblocks;
    int count;              /* what MPI is given in place of count and type, if packed */
    MPI_Datatype type;
} sv_drop_buffer_t;

enum { SV_DROP_BUFFERS = 3 };

struct sv_drop_fast;

struct sv_drop_call {
    const char *name;
    sv_drop_buffer_t buffer[SV_DROP_BUFFERS];
    int nbuffers;
    bool compacts; /* MPI may be given other types and displacements: see drop_compact.c */
    bool may_overlap; /* MPI takes buffers of this call that overlap */
    bool joins; /* one message, whose copy may be one with those of the messages around it */
    bool refused; /* a buffer has host memory and device memory in it: MPI must not get that */
    uint64_t order; /* of a receive: which event it comes after (drop_order.c); 0: none */
    bool *parts; /* of a partitioned call, one staging buffer with a block for each: those that have landed */
    int64_t begin_ns; /* for the timeline (drop_trace.c), if it is on */
    bool has_peer, fast, fragmented; /* fast: it was announced; fragmented: and came, or went, in fragments */
    int peer, tag;
    int64_t bytes; /* of what was announced */
};

/* The staging buffer for a message in memory that sv_drop_is_host_typed() has called the device's; MPI gets its
   address, count and type. NULL if there are no elements. If MPI is to refuse the call, the buffer has a type that it
   refuses: MPI_DATATYPE_NULL, or the program's own that was not committed. */
sv_drop_buffer_t *sv_drop_message(sv_drop_call_t *call, const void *buf, int64_t count, MPI_Datatype type, bool in,
                                  bool out);

/* A buffer for a receive into host memory that an announcement may come to. MPICH does not put bytes where they would
   end within an element. So a derived type is received as bytes and unpacked after that. So is any type that is too
   short for an announcement that must be read. NULL: the memory need not have one. */
sv_drop_buffer_t *sv_drop_unpacking(sv_drop_call_t *call, const struct sv_drop_fast *state, void *buf, int64_t count,
                                    MPI_Datatype type);
/* Makes the staging buffer of a receive long enough for an announcement, where one that is cut off must be read. */
void sv_drop_widen(sv_drop_buffer_t *buffer, const struct sv_drop_fast *state, int64_t count, MPI_Datatype type);

/* The bytes that a message's buffer has room for. */
static inline int64_t sv_drop_room(const sv_drop_buffer_t *buffer)
{
    return buffer->one.count * buffer->one.info.bytes;
}

/* Where MPI writes past the end of a receive that is too short, which is found out once (drop_guard.c), staging buffers
   of receives are guarded against that. guard_empty makes one for a receive of no elements at an address of the
   device's; NULL: it needs none. recv_guarded receives into one, blocks, and returns MPI's code. */
bool sv_drop_overruns(void);
void sv_drop_guard(sv_drop_buffer_t *buffer);
sv_drop_buffer_t *sv_drop_guard_empty(sv_drop_call_t *call, void *buf, int64_t count, MPI_Datatype type);
int sv_drop_recv_guarded(const sv_drop_buffer_t *buffer, int source, int tag, MPI_Comm comm, MPI_Status *status);
void sv_drop_guards_end(void);

/* A list of blocks in one buffer. displs counts elements, bytes and far count bytes; without all three blocks lie one
   after the other. NULL types stand for type, and NULL counts for count. */
typedef struct sv_drop_list {
    int64_t n, count;
    const int *counts, *displs, *bytes;
    const MPI_Aint *far;
    MPI_Datatype type;
    const MPI_Datatype *types;
    bool one_in; /* of what goes in: the block of this number alone */
    int in_block;
    const MPI_Count *large_counts; /* as counts and displs, of the calls with large counts */
    const MPI_Aint *large_displs;
} sv_drop_list_t;

/* The staging buffer for a buffer; NULL if it is the host's, or refused. known: sv_drop_is_host() says no. After all
   buffers of a call their images are made: buffers that overlap have one. Staging buffers stay where they are. */
sv_drop_buffer_t *sv_drop_add_blocks(sv_drop_call_t *call, const void *buf, bool known, const sv_drop_list_t *list,
                                     bool in, bool out);
void sv_drop_make_images(sv_drop_call_t *call);

/* Both for one buffer; returns what MPI gets for it. */
void *sv_drop_blocks(sv_drop_call_t *call, const void *buf, bool known, const sv_drop_list_t *list, bool in, bool out);

/* Whether it is better to bring down the elements of an image than all of it. */
bool sv_drop_is_sparse(const sv_drop_buffer_t *buffer);

/* The address that MPI gets for a staging buffer. */
static inline void *sv_drop_address(const sv_drop_buffer_t *buffer)
{
    return (void *)((uintptr_t)buffer->host - (uintptr_t)(buffer->packed ? 0 : buffer->low));
}

static inline void *sv_drop_image(const sv_drop_buffer_t *buffer, const void *buf)
{
    return buffer ? sv_drop_address(buffer) : (void *)(uintptr_t)buf;
}

/* Copies down what the call reads, after the program's work, as the settings want it. It waits for receives, too, as
   the program's kernels may still read their memory. */
void sv_drop_stage(sv_drop_call_t *call);
/* The copies alone. It is there after the flow's end. */
void sv_drop_stage_on(sv_drop_flow_t *flow, const sv_drop_call_t *call);
/* Copies up what came: all of it or, of a message, as many bytes as status says. It is there after the flow's end. */
void sv_drop_unstage_on(sv_drop_flow_t *flow, sv_drop_call_t *call, const MPI_Status *status);
void sv_drop_unstage_call(sv_drop_call_t *call, const MPI_Status *status);
/* One block of a partitioned call: down, and up if it has not landed yet. */
void sv_drop_stage_part(sv_drop_call_t *call, int part);
void sv_drop_unstage_part(sv_drop_flow_t *flow, sv_drop_call_t *call, int part);
/* All of them, at the start of a receive in parts and at its end (drop_parts.c). */
void sv_drop_parts_begin(sv_drop_call_t *call);
void sv_drop_parts_unstage(sv_drop_call_t *call);
/* Holds the types of a call that goes on after its return. The program may free them at once, and landing needs
   them. */
void sv_drop_call_hold(sv_drop_call_t *call);
/* Gives back staging memory, and types that are held. */
void sv_drop_call_end(sv_drop_call_t *call);
/* Gives back what is a strip's. The program is told after this that it may free its memory. */
void sv_drop_call_leave_strip(sv_drop_call_t *call);

/* --- requests (drop_request.c, drop_thread.c) --------------------------------------------------------------------- */

/* The part of a request that messages need which are announced (drop_announce.c). */
typedef struct sv_drop_fast {
    selvage_request_t *request; /* Selvage's message, under way */
    struct sv_drop_fragments *fragments; /* MPI's messages that the bytes go or come by, under way; owned */
    bool awaits, fragmented;    /* fragments may come to this receive; they came, or went (drop_fragment.c) */
    int from;                   /* of one that awaits: rank of MPI_COMM_WORLD; MPI_ANY_SOURCE; MPI_UNDEFINED: unknown */
    void *announcement;         /* a send's announcement, or what a probe has taken; owned */
    int64_t begin_ns;           /* of a receive, where the program's user has set a deadline */
    int error;                  /* MPI's class of what went wrong on the route; MPI_SUCCESS: nothing */
    bool monitored, owns_type, owns_stream, arrived;
    bool unstages;              /* the bytes are where MPI would have put them, and the call is to land them */
    bool renames;               /* the message came from elsewhere than MPI thinks: see drop_probe.c */
    int source, tag;
    MPI_Request sent;           /* of such a message: its way to this rank */
    void *buf;                  /* of a receive, as the program gave it */
    int64_t count;
    MPI_Datatype type;
    MPI_Datatype stream;        /* of more bytes than an int counts, for MPI; owned if owns_stream */
    MPI_Comm comm;              /* whose error handler is to hear of errors */
    uint64_t bytes;             /* that came */
    void *packed, *image;       /* what comes as packed bytes, owned, and where MPI would have put it */
} sv_drop_fast_t;

/* The operation of a request that the program was given. It lives as long as it has users: the handle, the engine while
   it runs, and completion calls that look at it. */
typedef struct sv_drop_op {
    struct sv_drop_op *next, *prev;  /* among those under way */
    struct sv_drop_op *chain;        /* in the table of handles */
    struct sv_drop_op *freed_before, *passed_before; /* in the list of notes; among those whose handle is another's */
    uint64_t added_at, passed_at;    /* the table's numbers; passed_at 0: not yet */
    _Atomic bool cancels;            /* the program wants it cancelled */
    MPI_Request handle;
    MPI_Request inner;               /* of MPI */
    MPI_Request also;                /* the send of a call that receives as well */
    sv_drop_call_t call;
    sv_drop_fast_t fast;
    MPI_Status status;
    int error;
    unsigned users, looked;          /* looked: the turn that has looked at it last */
    bool message, alike;             /* the status says how much came; of MPI_Irecv, with what the program gave */
    bool keeps, persistent;          /* the program holds MPI's own request; and may start it again */
    bool active, running, unread;    /* unread: it has come, and may be an announcement */
    struct sv_drop_joint *joint;     /* messages that it consists of, which have not all ended; else NULL */
    bool batched;                    /* MPI has not been given it yet: see drop_batch.c */
    bool announcement_read;          /* of a receive that is kept and watched: an announcement has come, and was read */
    bool reported, is_joint;         /* the error handler has heard of the error; it has had a joint (drop_joint.c) */
    bool orphan;                     /* the program has freed its request, and MPI is still at it */
    bool freed;                      /* the program has freed a generalized request, which MPI keeps to its end */
    int source, tag;                 /* of a persistent one, as the program gave them; of a send: to whom */
    int (*isend)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *); /* of one by the route, or NULL */
    struct sv_drop_persistent *collective; /* of a persistent collective call that is messages (drop_persistent.c) */
    void *lists[2];                  /* that MPI reads until its end; owned */
    MPI_Request instead;             /* under way in its place: a probe had taken what it was to get (drop_probe.c), or
                                        it goes by the route */
    bool given;                      /* that has ended, with the status and the error of this structure */
    bool asked;                      /* given, because asking about it has ended it; status is what came */
    int asked_error, held;           /* that MPI reported then; calls of the program's that are at a persistent one */
} sv_drop_op_t;

/* How many requests the program holds that the drop-in knows of: completion calls look them up. */
extern _Atomic int sv_drop_open;
static inline bool sv_drop_has_open(void)
{
    return __builtin_expect(atomic_load_explicit(&sv_drop_open, memory_order_relaxed) != 0, 0);
}

/* How many need progress by the drop-in: calls that block are driven then. */
extern _Atomic int sv_drop_running;
static inline bool sv_drop_is_busy(void)
{
    return __builtin_expect(atomic_load_explicit(&sv_drop_running, memory_order_relaxed) != 0, 0);
}

/* Whether calls that complete or test anything have more to do than MPI. */
static inline bool sv_drop_is_concerned(void)
{
    return sv_drop_has_open() || sv_drop_is_busy();
}

/* Makes the program's request of a call whose MPI requests are under way. also: a send, or MPI_REQUEST_NULL. */
int sv_drop_request_start(const sv_drop_call_t *call, const sv_drop_fast_t *fast, MPI_Request inner, MPI_Request also,
                          bool message, MPI_Request *request);
/* For a persistent request: the program gets MPI's own. */
int sv_drop_request_keep(const sv_drop_call_t *call, const sv_drop_fast_t *fast, MPI_Request inner, bool message,
                         MPI_Request *request);
/* As above, after MPI's call of that code. If that has failed, the call is ended. */
int sv_drop_coll_keep(sv_drop_call_t *call, int code, MPI_Request inner, MPI_Request *request);
/* For a receive into host memory that an announcement may come to. The program gets MPI's own request, which is in
   flight. The completion call that ends it looks at what came. */
int sv_drop_request_watch(const sv_drop_call_t *call, const sv_drop_fast_t *fast, MPI_Request inner,
                          MPI_Request *request);

/* Frees these lists after the end of that request, which has just begun, or of a persistent one that was just made. */
void sv_drop_request_own(MPI_Request request, bool persistent, void *first, void *second);

/* MPI_Start of a persistent send: true if it goes by the route, and MPI's own request stays inactive. Not with the
   lock. */
bool sv_drop_send_start(sv_drop_op_t *op);
/* MPI_Irecv as a part of the call of that name (drop_message.c). */
int sv_drop_irecv(const char *name, void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                  MPI_Request *request);
/* The buffer of a receive, which is watched if an announcement may come. NULL: it is received as it is. host: the
   program's memory is the host's. The second is for host memory alone, after it is watched. */
sv_drop_buffer_t *sv_drop_recv_buffer(sv_drop_call_t *call, sv_drop_fast_t *fast, void *buf, int64_t count,
                                      MPI_Datatype type, MPI_Comm comm, int source, bool host);
sv_drop_buffer_t *sv_drop_recv_unpacking(sv_drop_call_t *call, const sv_drop_fast_t *fast, void *buf, int64_t count,
                                         MPI_Datatype type);
/* Whether the user's deadline holds for a receive, which then must be a request: its announcement may never come. */
bool sv_drop_recv_has_deadline(int64_t count, MPI_Datatype type, int source, bool host);

/* The one lock of requests and of the fast route; it is recursive. */
void sv_drop_lock(void);
void sv_drop_unlock(void);

/* One turn of a wait: progress of what is in flight, and now and then the core for others. It looks first at the
   requests of ops[0] to ops[n - 1], of which NULL are none of ours. turns NULL: progress alone. */
void sv_drop_turn_for(unsigned *turns, sv_drop_op_t *const *ops, int n);
static inline void sv_drop_turn(unsigned *turns)
{
    sv_drop_turn_for(turns, NULL, 0);
}
static inline void sv_drop_progress(void)
{
    sv_drop_turn(NULL);
}
/* After a call that begins: tests until the request is complete. */
int sv_drop_drive(int code, MPI_Request *request, MPI_Status *status);
int sv_drop_complete(MPI_Request *request, int *flag, MPI_Status *status, bool blocks); /* MPI_Wait, MPI_Test */
/* As sv_drop_drive(), but MPI waits by itself where nothing of ours needs progress. */
int sv_drop_await(int code, MPI_Request *request, MPI_Status *status);

sv_drop_op_t *sv_drop_op_find(MPI_Request handle); /* with one user more, or NULL */
void sv_drop_op_release(sv_drop_op_t *op);
/* This handle is of a request that the drop-in has nothing to do with. */
void sv_drop_op_passed(MPI_Request handle);
/* Comes after a completion that MPI has reported. It lands a receive that is kept, and returns the error of any, after
   the communicator's error handler has heard of it. status NULL: the completion failed. ends: the call was one that
   ends the request. Otherwise the program may ask again. */
int sv_drop_op_settle(sv_drop_op_t *op, MPI_Status *status, bool ends);
/* For persistent requests: before MPI_Start, after it (which may have changed the handle), and when the handle is
   freed. */
void sv_drop_op_start(sv_drop_op_t *op);
void sv_drop_op_rename(sv_drop_op_t *op, MPI_Request handle);
void sv_drop_op_forget(sv_drop_op_t *op);
/* Takes over a request that is kept and in flight, whose handle the program has no more. False: it is no such
   request. */
bool sv_drop_op_adopt(sv_drop_op_t *op);

void sv_drop_thread_begin(void);
void sv_drop_thread_end(void);
/* With the lock: the first of those under way; and a kept, active one has progress by the drop-in from now on. */
sv_drop_op_t *sv_drop_op_first(void);
void sv_drop_op_run(sv_drop_op_t *op);

#include "interpose/drop_batch.h"
#include "interpose/drop_fast.h"

/* --- windows (drop_window.c) -------------------------------------------------------------------------------------- */

/* Keeps the staging memory of a one-sided call until the window says that it is complete, and lands it then. */
void sv_drop_pend(const sv_drop_call_t *call, MPI_Win win, int target);

/* --- the timeline (drop_trace.c) ---------------------------------------------------------------------------------- */

void sv_drop_trace_begin(void);
void sv_drop_trace_end(void); /* collective */
int64_t sv_drop_trace_now(void); /* 0: it is off */
void sv_drop_trace_span(const char *name, int64_t begin_ns, int64_t bytes);
/* Ends a call that has begun; once. */
void sv_drop_trace_call(sv_drop_call_t *call);

/* --- the rest ----------------------------------------------------------------------------------------------------- */

/* Ranks of the own group; and of the group that collectives exchange with, -1 for none. */
int sv_drop_size(MPI_Comm comm);
int sv_drop_rank(MPI_Comm comm);
int sv_drop_peers(MPI_Comm comm);
bool sv_drop_is_inside(MPI_Comm comm); /* an intra-communicator */
/* Which part a rank has in a rooted collective. In the group of an inter-communicator's root the others have none. */
bool sv_drop_is_root(MPI_Comm comm, int root);
bool sv_drop_is_leaf(MPI_Comm comm, int root);
/* Neighbours of a topology that a rank receives from, or sends to. */
int sv_drop_degree(MPI_Comm comm, bool from);
bool sv_drop_has_ends(MPI_Comm comm);

/* After MPI_Init, and before MPI_Finalize. */
void sv_drop_begin(void);
void sv_drop_end(void);
void sv_drop_refuse_other_mpi(void); /* before anything else; does not return where it has another MPI than this */

/* What comes after the drop-in under this Fortran name (drop_fortran.c). */
void *sv_drop_next_fortran(const char *name);

/* Counts what was moved, for the report (drop_report.c). peer: of comm. */
void sv_drop_count(const char *call, const char *route, MPI_Comm comm, int peer, MPI_Datatype type, int64_t count,
                   double seconds);
/* For a collective call: what this rank gave. */
void sv_drop_count_all(const char *call, const char *route, int64_t bytes);
void sv_drop_report(void);
/* A copy from device memory to staging memory, or to device memory. */
void sv_drop_count_copy(bool down);

#endif
