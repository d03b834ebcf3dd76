/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Between the files that turn calls into launches:
 *
 *   coll_call.c --> coll_buffers.c, coll_operation.c      what is wrong with a call; what its operation means
 *       |  ^----> coll_composed.c --> coll_exact.c        an exact sum as kernels and calls of integers
 *       |  |                    `---> coll_fold.c         a reduction as calls that move data, and a kernel
 *       |
 *   coll_launch.c --> coll_work.c, coll_pairs.c           the pieces of work of a call, of sends and receives
 *       |-----------> coll_fifo.c                         where more than a few of them travel
 *       `-----------> coll_complete.c, coll_error.c       what came of it
 */
#ifndef SV_COLL_PARTS_H
#define SV_COLL_PARTS_H

#include "collective/coll_handle.h"

/* In the place of an operation in a signature: what is a sum for the kernel, but not for the user. */
enum { SV_COLL_SIGNED_AVERAGE = 5, SV_COLL_SIGNED_PREMUL = 6 };
/* A part of an exact sum: between nodes a flag of the above. In the three bits on a node it stands alone, and the type
   is whether that is float64, and above this bit which of the three sums it is. */
enum { SV_COLL_SIGNED_PART = 7, SV_COLL_SIGNED_EXACT = 8 };
/* A call with a type or an operation that other kernels do not know: between nodes this flag and the public number of
   the operation, or nothing. On a node the call has a bit of its own, and those of type and operation are one number:
   that of sv_coll_pairing(), or the type if data are only moved. */
enum { SV_COLL_SIGNED_FOLD = 16, SV_COLL_CALL_OTHER = 8, SV_COLL_SIGNED_TYPE_BITS = 4 };

_Static_assert((int)SV_COLL_ALL_TO_ALL < (int)SV_COLL_CALL_OTHER && (int)SV_COLL_BARRIER == (int)SV_COLL_CALL_OTHER,
               "calls with that bit are told from all others");

enum { SV_COLL_ROOM_UNIT = 256 };

/* Device memory for what is between the steps of composed calls; coll_composed.c. */
typedef struct sv_coll_room {
    uint8_t *memory;
    uint64_t bytes;            /* of which SV_COLL_ROOM_UNIT are spare, for alignment within */
    sv_event_t *used;          /* after the last call that used it and was not captured */
    sv_event_t *joined;        /* of a group: what was on another stream */
} sv_coll_room_t;

/* The operation of a reduction as signatures name it. */
static inline unsigned sv_coll_signed_operation(const sv_coll_call_t *call)
{
    if (call->flags & SV_COLL_DIVIDE)
        return SV_COLL_SIGNED_AVERAGE;
    return call->flags & SV_COLL_PREMUL ? (unsigned)SV_COLL_SIGNED_PREMUL : call->op;
}

/* coll_call.c: enqueues calls, one or a group, that are not composed. */
selvage_status_t sv_coll_enqueue(selvage_coll_t *coll, const sv_coll_call_t *calls, unsigned ncalls);

/* coll_composed.c: enqueues a composed call; or a group in which there is at least one, whose array it changes. */
selvage_status_t sv_coll_composed_enqueue(selvage_coll_t *coll, const sv_coll_call_t *call);
selvage_status_t sv_coll_composed_group(selvage_coll_t *coll, sv_coll_call_t *calls, unsigned ncalls);
/* A call that is a part of that one, without root and operation. */
sv_coll_call_t sv_coll_part_of(const sv_coll_call_t *whole, unsigned call, unsigned type, const void *send, void *recv,
                               uint64_t count);

/* coll_exact.c: whether a call that was checked is a sum that is to be exact. */
bool sv_coll_wants_exact(const selvage_coll_t *coll, const sv_coll_call_t *call);
/* The steps of it. */
selvage_status_t sv_coll_exact_enqueue(selvage_coll_t *coll, const sv_coll_call_t *call);

/* coll_fold.c: the steps of a reduction by sv_fold. */
selvage_status_t sv_coll_fold_enqueue(selvage_coll_t *coll, const sv_coll_call_t *call);

/* coll_type.c: what an address of the type is a multiple of. */
size_t sv_coll_type_align(selvage_type_t type);
/* The type by whose elements one of this type moves, and how many they are; itself where kernels know it. */
selvage_type_t sv_coll_moved_type(selvage_type_t type, unsigned *count_out);
/* A number below 128 for each pair of a type and an operation in which one is not known to the kernels of collectives;
   -1: these do not go together, or both are known. And the pair of a number; none: 0 and 0. */
int sv_coll_pairing(unsigned type, unsigned op);
void sv_coll_pairing_read(unsigned number, unsigned *type_out, unsigned *op_out);
/* Whether sv_fold combines blocks of this type so, without a division. */
bool sv_coll_folds(unsigned type, unsigned op);

/* coll_buffers.c: counts, alignment and overlap of a call whose type and root are right; fills in device addresses. */
selvage_status_t sv_coll_check_buffers(selvage_coll_t *coll, sv_coll_call_t *call);
/* Bytes that the call reads and writes on this rank; 0 where it has no such buffer. */
void sv_coll_extents(const selvage_coll_t *coll, const sv_coll_call_t *call, uint64_t *send_bytes,
                     uint64_t *recv_bytes);

/* coll_operation.c: replaces what the user calls an operation (call->op) by what the kernel does: operation, flags,
   scalar; or says that it is to be composed. A complex sum becomes one of twice as many numbers. */
selvage_status_t sv_coll_resolve_operation(const selvage_coll_t *coll, sv_coll_call_t *call);
/* Of a checked call that only moves data: replaces a type that kernels do not know. */
void sv_coll_resolve_type(sv_coll_call_t *call);
selvage_status_t sv_coll_operation_create(selvage_coll_t *coll, const void *scalar, selvage_type_t type,
                                          selvage_scalar_t where, selvage_op_t *op_out);
selvage_status_t sv_coll_operation_destroy(selvage_coll_t *coll, selvage_op_t op);

/* coll_launch.c: whether call i of a group is the first one on a stream that is not that of call 0; of many streams
   some are named twice. */
bool sv_coll_is_new_stream(const sv_coll_call_t *calls, unsigned i);
/* A graph is one stream here: others would have to be joined by events that outlast the capture. ERR_UNSUPPORTED. */
selvage_status_t sv_coll_refuse_captured_group(const sv_coll_call_t *calls, unsigned ncalls);

/* coll_work.c: the piece of work of a call that is no send or receive. */
void sv_coll_work_of_call(selvage_coll_t *coll, const sv_coll_call_t *call, sv_coll_work_t *work_out);
/* Those of a round of messages, of which one may be NULL: one piece if both go the same way, else two. */
unsigned sv_coll_works_of_round(selvage_coll_t *coll, const sv_coll_call_t *send, const sv_coll_call_t *recv,
                                sv_coll_work_t work_out[2]);

/*
 * coll_pairs.c: sends and receives of a group, in an order that all ranks agree on without asking. The j-th send to
 * rank me + k and the j-th receive from rank me - k are one round; rounds are ordered by j, then k.
 */
typedef struct sv_coll_pairs {
    const sv_coll_call_t *calls;
    unsigned n, me, distance;
    uint16_t next[SV_COLL_GROUP_CALLS];               /* in its queue */
    uint16_t head[2][SV_COLL_RANKS], tail[2][SV_COLL_RANKS]; /* [is_send][distance] */
    unsigned left;
} sv_coll_pairs_t;
/* ERR_ARGUMENT for a send to itself without its receive, or with another one than it needs. */
selvage_status_t sv_coll_pairs_begin(sv_coll_pairs_t *pairs, const sv_coll_call_t *calls, unsigned ncalls, unsigned n,
                                     unsigned me);
/* The next round; false: that was all. */
bool sv_coll_pairs_next(sv_coll_pairs_t *pairs, const sv_coll_call_t **send_out, const sv_coll_call_t **recv_out);

/* coll_small.c: whether the piece of work, which is alone in its launch, has a kernel of its own; NULL: none. Its
   argument is then so many bytes of coll->alone, and valid until the next call. */
const sv_kernel_t *sv_coll_small_kernel(selvage_coll_t *coll, const sv_coll_work_t *work, size_t *arg_bytes_out);

/* coll_fifo.c: how many pieces one launch may take from the FIFO. */
unsigned sv_coll_fifo_pieces(const sv_coll_arena_t *arena);
/* Whether so many pieces, or as many as one launch has at most, have room at once. */
bool sv_coll_fifo_has_room(const sv_coll_arena_t *arena, unsigned pieces);
/* Puts piece number index of the launch to come into the FIFO, once there is room. */
selvage_status_t sv_coll_fifo_put(selvage_coll_t *coll, unsigned index, const sv_coll_work_t *work);

/* coll_complete.c: the counters of coll and its arena, as they are now. */
void sv_coll_stats(selvage_coll_t *coll, selvage_coll_stats_t *stats_out);

/* coll_error_text.c: what is in a record and in a signature, in words. sequence: near that of the call, which has 6
   bits. */
const char *sv_coll_operation_name(unsigned op); /* as signed, too */
void sv_coll_signature_text(uint64_t signature, uint32_t sequence, char *text, size_t bytes);
selvage_status_t sv_coll_error_text(const sv_coll_error_t *error, char *text, size_t bytes);

/* coll_stamps.c: lines for the time stamps of a launch, into the context of its argument; NULL there if none are
   taken. Its pieces are in the argument or written to the FIFO. */
void sv_coll_take_stamps(const selvage_coll_t *coll, const sv_coll_arg_t *arg, unsigned blocks,
                         sv_coll_context_t *context);

#endif
