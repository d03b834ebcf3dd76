/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file collective.h
 * @brief Collectives in device memory: reduce-scatter, all-gather, all-reduce and the rest, by kernels of the node's
 *        GPUs that reach into each other's memory, without host messages on the way.
 *
 * All calls that move data are stream-ordered: they enqueue and return, read their input after the work already on
 * the stream, and later work on the stream sees their output. All ranks of a communicator make the same calls in the
 * same order, also across communicators that share ranks. A call that differs in kind, count, type, operation or root
 * does not hang: it is an error on every rank, which names the ranks. Where a communicator spans nodes, the part
 * between nodes goes through host memory and MPI. A progress thread (SELVAGE_PROGRESS=thread) drives it, and calls
 * enqueue and return as on a node; the host waits if eight are under way already. Without one a call blocks until its
 * result is there. It also does where ranks share a GPU, and with SELVAGE_COLL_CACHE_BYTES.
 *
 * SUCCESS of a call that only enqueues says no more than that. Its results may be believed once the stream has been
 * synchronised and selvage_coll_error() has then returned SUCCESS. That call tells what kernels met, damage among it.
 * What ranks take from each other is verified unless SELVAGE_COLL_CHECKSUM=off.
 *
 * A stream may be captured into a graph (CUDA, HIP, selvage_graph_begin()), which is replayed any number of times, on
 * all ranks in the same order among their other collectives. The program orders replays and all other collectives of
 * the same selvage_comm_t by streams. doc/collectives.md has the rules.
 *
 * Counts are in elements and may be 0. Buffers are device memory or pinned memory, with the alignment of the element;
 * of complex numbers and pairs, that of the member that has the largest.
 * Input and output do not overlap, or are in place: they are the same, and for reduce-scatter and all-gather the
 * smaller one is the rank's own block of the larger one. doc/collectives.md says what is bit-identical to what, and
 * doc/reference.md has a table of the counts.
 */
#ifndef SELVAGE_COLLECTIVE_H
#define SELVAGE_COLLECTIVE_H

#include <stddef.h>
#include <stdint.h>

#include <selvage/comm.h>
#include <selvage/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** A communicator of device-side collectives (opaque). */
typedef struct selvage_coll selvage_coll_t;
/** User memory that the ranks of the node have mapped for collectives (opaque). */
typedef struct selvage_window selvage_window_t;

/** Types of elements. */
typedef enum selvage_type {
    SELVAGE_TYPE_DEFAULT = 0, /**< none; refused */
    SELVAGE_INT8 = 1,
    SELVAGE_UINT8 = 2,
    SELVAGE_INT32 = 3,
    SELVAGE_UINT32 = 4,
    SELVAGE_INT64 = 5,
    SELVAGE_UINT64 = 6,
    SELVAGE_FLOAT16 = 7,
    SELVAGE_BFLOAT16 = 8,
    SELVAGE_FLOAT32 = 9,
    SELVAGE_FLOAT64 = 10,
    SELVAGE_FLOAT8_E4M3 = 11, /**< OCP: no infinity, largest 448 */
    SELVAGE_FLOAT8_E5M2 = 12, /**< OCP: largest finite 57344 */
    SELVAGE_INT16 = 13,
    SELVAGE_UINT16 = 14,
    SELVAGE_COMPLEX64 = 15,   /**< two float32: real, imaginary */
    SELVAGE_COMPLEX128 = 16,  /**< two float64 */
    /* A value and an index, a struct in C: for SELVAGE_OP_MINLOC and MAXLOC. */
    SELVAGE_FLOAT32_INT32 = 17, /**< MPI_FLOAT_INT */
    SELVAGE_FLOAT64_INT32 = 18, /**< MPI_DOUBLE_INT: 16 bytes, of which the last 4 are never written */
    SELVAGE_INT64_INT32 = 19, /**< MPI_LONG_INT where long has 64 bits; 16 bytes, as above */
    SELVAGE_INT32_INT32 = 20, /**< MPI_2INT, MPI_2INTEGER */
    SELVAGE_INT16_INT32 = 21, /**< MPI_SHORT_INT: 8 bytes, of which those between are never written */
    SELVAGE_FLOAT32_FLOAT32 = 22, /**< MPI_2REAL */
    SELVAGE_FLOAT64_FLOAT64 = 23  /**< MPI_2DOUBLE_PRECISION */
} selvage_type_t;

/** Reductions: one of these, or what selvage_coll_op_create() gave. */
typedef int32_t selvage_op_t;
enum {
    SELVAGE_OP_DEFAULT = 0, /**< none; refused */
    SELVAGE_OP_SUM = 1,
    SELVAGE_OP_PROD = 2,
    SELVAGE_OP_MIN = 3,
    SELVAGE_OP_MAX = 4,
    SELVAGE_OP_AVG = 5,     /**< the sum, then divided by the number of ranks; integers towards zero */
    SELVAGE_OP_BAND = 6,    /**< of bits; integers */
    SELVAGE_OP_BOR = 7,
    SELVAGE_OP_BXOR = 8,
    SELVAGE_OP_LAND = 9,    /**< of what is not zero; 1 or 0. Integers, float32 and float64 */
    SELVAGE_OP_LOR = 10,
    SELVAGE_OP_LXOR = 11,
    SELVAGE_OP_MINLOC = 12, /**< the least value and its index; of equal values the lowest index. Pairs */
    SELVAGE_OP_MAXLOC = 13  /**< the greatest value and its index; of equal values the lowest index. Pairs */
};

/** Where the scalar of a pre-multiplied sum lies. */
typedef enum selvage_scalar {
    SELVAGE_SCALAR_DEFAULT = 0, /**< host */
    SELVAGE_SCALAR_HOST = 1,    /**< read by selvage_coll_op_create() */
    SELVAGE_SCALAR_DEVICE = 2   /**< read by each call, after the work on its stream */
} selvage_scalar_t;

/** How floats of 32 and 64 bits are added. */
typedef enum selvage_sum {
    SELVAGE_SUM_DEFAULT = 0, /**< as SELVAGE_SUM says */
    SELVAGE_SUM_ORDER = 1,   /**< rounded after each addition, in an order that doc/collectives.md names */
    SELVAGE_SUM_EXACT = 2    /**< as integers, rounded once: the same bits in any order, on any nodes, by any route */
} selvage_sum_t;

/** Parameters of selvage_coll_create(). Every member but struct_size may stay zero. */
typedef struct selvage_coll_params {
    size_t struct_size;  /**< sizeof of this struct, set by SELVAGE_COLL_PARAMS_INIT */
    uint64_t arena_bytes; /**< device memory for slots and flags, at most; 0: SELVAGE_COLL_ARENA_BYTES */
    selvage_sum_t sum;   /**< of sums, averages and pre-multiplied sums; the same on all ranks; splits inherit it */
    int host_waits;      /**< not 0: the host waits for calls by selvage_coll_wait(), which then returns sooner; a
                              launch takes 0.6 us longer on its stream for that. Splits inherit it; ranks may differ */
    uint64_t cache_bytes; /**< of this rank's buffers that others map though nobody registered them, at most, for all
                               communicators of collectives of comm: what the first one says; the same on all ranks.
                               0: SELVAGE_COLL_CACHE_BYTES */
} selvage_coll_params_t;

/** Initialiser: `selvage_coll_params_t p = {SELVAGE_COLL_PARAMS_INIT};` */
#define SELVAGE_COLL_PARAMS_INIT .struct_size = sizeof(selvage_coll_params_t)

/** @brief The same as a function, which serves in any C++: parameters that are all default. Local. */
static inline selvage_coll_params_t selvage_coll_params_init(void)
{
    selvage_coll_params_t started = SELVAGE_ZEROED_(selvage_coll_params_t);
    started.struct_size = sizeof started;
    return started;
}

/** What a collective communicator has done, and holds. */
typedef struct selvage_coll_counters { /* not the name of a function, which hides it in C++ */
    size_t struct_size;      /**< sizeof of this struct, set by SELVAGE_COLL_STATS_INIT */
    uint64_t arena_bytes;    /**< device memory of this rank's arena, shared with its splits; 0 for one rank */
    uint64_t calls;          /**< collectives enqueued */
    uint64_t launches;       /**< kernels launched for them */
    uint64_t fifo_bytes;     /**< size of the work FIFO */
    uint64_t fifo_waits;     /**< how often a launch waited for room in it */
    uint64_t channels;       /**< channels of the arena */
    uint64_t started;        /**< pieces of work that channels have begun, all channels together ... */
    uint64_t completed;      /**< ... and ended; both lag by some short calls while others follow, or in graphs */
    uint64_t callbacks;      /**< completions handed back so far */
} selvage_coll_stats_t;

/** Initialiser: `selvage_coll_stats_t s = {SELVAGE_COLL_STATS_INIT};` */
#define SELVAGE_COLL_STATS_INIT .struct_size = sizeof(selvage_coll_stats_t)

/** @brief The same as a function, which serves in any C++: an empty struct to be filled. Local. */
static inline selvage_coll_stats_t selvage_coll_stats_init(void)
{
    selvage_coll_stats_t started = SELVAGE_ZEROED_(selvage_coll_stats_t);
    started.struct_size = sizeof started;
    return started;
}

/**
 * @brief Makes a communicator of collectives over all ranks of @p comm.
 *
 * Collective over @p comm; blocks; not stream-ordered. Allocates this rank's arena (none if comm has one rank) and maps
 * those of the ranks of the node. Borrows @p comm, which must outlive it.
 *
 * @param[in]  comm      communicator; at most 16 ranks on a node
 * @param[in]  params    NULL for defaults
 * @param[out] coll_out  owned by the caller; freed by selvage_coll_destroy()
 * @return ERR_ARGUMENT, ERR_MISMATCH, ERR_LIMIT (too many ranks on the node), ERR_UNSUPPORTED (no kernel may wait
 *         there, or the ranks' memory cannot be mapped), ERR_MEMORY, ERR_DEVICE, ERR_CONFIG, ERR_TIMEOUT; alike on all
 *         ranks but for ERR_ARGUMENT
 */
selvage_status_t selvage_coll_create(selvage_comm_t *comm, const selvage_coll_params_t *params,
                                     selvage_coll_t **coll_out);

/**
 * @brief Whether this rank could take part in selvage_coll_create(): 1 or 0, and nothing logged. Local.
 *
 * 0: ranks of the node share its GPU, or there are too many, or no kernel of the device may wait for another's; and for
 * NULL. One rank's 0 is ERR_UNSUPPORTED or ERR_LIMIT for all, so that ranks should agree on it first.
 */
int selvage_coll_supported(const selvage_comm_t *comm);

/**
 * @brief Makes a communicator of those ranks of @p coll that give the same colour, in order of key, then rank.
 *
 * Collective over @p coll; blocks. Shares the arena of @p coll, which may be destroyed before it.
 *
 * @param[in]  coll      communicator
 * @param[in]  color     0 or more, or -1: this rank is in none of them
 * @param[in]  key       order in the new communicator
 * @param[out] coll_out  owned by the caller; NULL for color -1
 * @return as selvage_coll_create()
 */
selvage_status_t selvage_coll_split(selvage_coll_t *coll, int color, int key, selvage_coll_t **coll_out);

/**
 * @brief Makes a communicator of some ranks of @p coll, which they alone call: as MPI_Comm_create_group() does.
 *
 * Collective over those ranks; blocks. All of them give the same list. Shares the arena of @p coll, which may be
 * destroyed before it. A rank that makes several is in them in the order of its calls, as with MPI's collective calls.
 * Ranks whose lists differ get ERR_MISMATCH, or wait for each other until the deadline, which breaks the communicator
 * of ranks.
 *
 * @param[in]  coll      communicator
 * @param[in]  nranks    how many ranks, 1 or more
 * @param[in]  ranks     ranks of @p coll, each once, in the order of the new communicator; the caller is one of them.
 *                       Only read in the call
 * @param[out] coll_out  owned by the caller
 * @return as selvage_coll_create(); ERR_LIMIT, alike on all, if there is no number left that none of the ranks uses:
 *         each is in 16 communicators at most. ERR_ARGUMENT is this rank's alone, and the others wait
 */
selvage_status_t selvage_coll_create_among(selvage_coll_t *coll, int nranks, const int *ranks,
                                           selvage_coll_t **coll_out);

/** @brief Frees a communicator, after its work is complete or has failed; what does not get on for the deadline is
 *  aborted. Collective; blocks; accepts NULL. */
void selvage_coll_destroy(selvage_coll_t *coll);

/** @brief Rank of the caller. Local; -1 for NULL. */
int selvage_coll_rank(const selvage_coll_t *coll);
/** @brief Number of ranks. Local; -1 for NULL. */
int selvage_coll_size(const selvage_coll_t *coll);

/**
 * @brief Maps user memory for the ranks of the node, so that kernels read and write it where it is.
 *
 * Collective over @p coll; blocks. What is not registered goes through the arena's slots, which costs a copy. Kernels
 * find out by themselves whether all ranks' buffers of a call are registered; nothing need be symmetric.
 *
 * @param[in]  coll        communicator; its splits use the window too
 * @param[in]  ptr         within one plain allocation of the device
 * @param[in]  bytes       at least 1
 * @param[out] window_out  owned by the caller; freed by selvage_coll_unregister()
 * @return ERR_ARGUMENT, ERR_LIMIT (63 windows), ERR_UNSUPPORTED, ERR_MEMORY, ERR_DEVICE; the same on all ranks
 */
selvage_status_t selvage_coll_register(selvage_coll_t *coll, void *ptr, size_t bytes, selvage_window_t **window_out);

/**
 * @brief Withdraws a window, after the work on it is complete. Collective; blocks; accepts NULL on all ranks.
 * @return ERR_DEVICE, ERR_TIMEOUT, ERR_STATE (another thread's, see selvage_comm_create())
 */
selvage_status_t selvage_coll_unregister(selvage_window_t *window);

/**
 * @brief Makes a sum of which each rank multiplies its own input by a scalar of its own first (rounded to the type).
 *
 * Local; does not block. A communicator has at most 64 operations at a time.
 *
 * @param[in]  coll    communicator
 * @param[in]  scalar  one element of @p type; device memory must stay until the operation's last call is complete
 * @param[in]  type    of the scalar; calls must use the same. Not int16, uint16, complex numbers and pairs
 * @param[in]  where   host or device
 * @param[out] op_out  for calls on @p coll; freed by selvage_coll_op_destroy()
 * @return ERR_ARGUMENT, ERR_LIMIT
 */
selvage_status_t selvage_coll_op_create(selvage_coll_t *coll, const void *scalar, selvage_type_t type,
                                        selvage_scalar_t where, selvage_op_t *op_out);
/**
 * @brief Gives an operation back; calls already made keep it. Local.
 * @param[in] op  what selvage_coll_op_create() gave
 * @return ERR_ARGUMENT
 */
selvage_status_t selvage_coll_op_destroy(selvage_coll_t *coll, selvage_op_t op);

/**
 * @name Collectives
 * They are stream-ordered and collective, all by the rules at the top of this file. Buffers stay until the stream has
 * passed the call.
 *
 * @param[in]  send        input
 * @param[out] recv        output
 * @param[in]  count       elements of it; in selvage_coll_all_to_all() those for each rank
 * @param[in]  recv_count  elements that each rank receives
 * @param[in]  send_count  elements that each rank sends
 * @param[in]  type        of the elements; doc/collectives.md says which have which operations
 * @param[in]  op          SELVAGE_OP_SUM and its kin, or what selvage_coll_op_create() gave
 * @param[in]  root        the rank that sends, or receives, for all
 * @param[in]  peer        the other rank, or MPI_PROC_NULL
 * @param[in]  stream      native handle; NULL is the default stream
 * @return ERR_ARGUMENT at once for what is wrong with the call itself; ERR_UNSUPPORTED for a stream that is being
 *         captured, if the communicator spans nodes, or if it is not that of the whole group; the sticky error of the
 *         communicator once there is one (selvage_coll_error()); ERR_DEVICE, ERR_LIMIT
 * @{
 */
/** @brief recv[i] = op over ranks of send[i], on all ranks. */
selvage_status_t selvage_coll_all_reduce(selvage_coll_t *coll, const void *send, void *recv, size_t count,
                                         selvage_type_t type, selvage_op_t op, void *stream);
/** @brief recv[i] = op over ranks of send[rank * recv_count + i]; send has size * recv_count elements. */
selvage_status_t selvage_coll_reduce_scatter(selvage_coll_t *coll, const void *send, void *recv, size_t recv_count,
                                             selvage_type_t type, selvage_op_t op, void *stream);
/** @brief recv[r * send_count + i] = send[i] of rank r; recv has size * send_count elements. */
selvage_status_t selvage_coll_all_gather(selvage_coll_t *coll, const void *send, void *recv, size_t send_count,
                                         selvage_type_t type, void *stream);
/** @brief recv[i] = send[i] of root. send is read on root only. */
selvage_status_t selvage_coll_broadcast(selvage_coll_t *coll, const void *send, void *recv, size_t count,
                                        selvage_type_t type, int root, void *stream);
/** @brief recv[i] on root = op over ranks of send[i]. recv is written on root only. */
selvage_status_t selvage_coll_reduce(selvage_coll_t *coll, const void *send, void *recv, size_t count,
                                     selvage_type_t type, selvage_op_t op, int root, void *stream);
/** @brief recv[r * count + i] = send[rank * count + i] of rank r; both have size * count elements. Not in place. */
selvage_status_t selvage_coll_all_to_all(selvage_coll_t *coll, const void *send, void *recv, size_t count,
                                         selvage_type_t type, void *stream);
/** @brief Sends to @p peer what its selvage_coll_recv() takes. Pairs match in order; in a group without deadlock. With
 *  MPI_PROC_NULL nothing is sent, and by selvage_coll_recv() nothing is received. */
selvage_status_t selvage_coll_send(selvage_coll_t *coll, const void *send, size_t count, selvage_type_t type, int peer,
                                   void *stream);
/** @brief Receives from @p peer. */
selvage_status_t selvage_coll_recv(selvage_coll_t *coll, void *recv, size_t count, selvage_type_t type, int peer,
                                   void *stream);
/** @brief Later work on the stream starts when every rank's earlier work on its stream is complete. */
selvage_status_t selvage_coll_barrier(selvage_coll_t *coll, void *stream);
/** @} */

/**
 * @brief Opens a group: calls up to selvage_coll_group_end() are one launch, ordered after the streams of all of them.
 * Local; groups nest. Sends and receives of a group proceed together, and no call of it may read or write what another
 * one writes: they are not ordered among each other. @return ERR_ARGUMENT
 */
selvage_status_t selvage_coll_group_begin(selvage_coll_t *coll);
/** @brief Closes it and launches. @return the first error of a call in the group, as selvage_coll_all_reduce() */
selvage_status_t selvage_coll_group_end(selvage_coll_t *coll);

/**
 * @brief The first error that a kernel or rank of @p coll met: a call that did not match, a rank that did not come
 * within the deadline, a digest that did not verify, an abort. Sticky. Local; never blocks; any thread.
 *
 * Read it when the stream of a call has been synchronised and before its results are used or sent on; a stream that has
 * drained says nothing about them. SUCCESS then holds for all calls that were complete by that time.
 * @return SUCCESS, ERR_MISMATCH, ERR_TIMEOUT, ERR_CHECKSUM, ERR_ABORTED, ERR_ARGUMENT for NULL
 */
selvage_status_t selvage_coll_error(selvage_coll_t *coll);

/**
 * @brief Waits until the last call or group of @p coll is complete. Gives what selvage_coll_error() then gives.
 * Local; blocks the host, and looks at memory meanwhile; not stream-ordered.
 *
 * Results can be read then, by the host and by any stream. The call returns sooner than one that synchronises the
 * stream if @p coll was made with params.host_waits: its kernels tell the host when all of their stores are there, and
 * the device says later that they are complete. Without host_waits, between nodes, and with exact sums or operations
 * that are made of other calls it synchronises the stream, after such a group all of its streams. Calls in graphs are
 * not waited for. The streams of the last call or group must still be there.
 * @return as selvage_coll_error(); ERR_DEVICE
 */
selvage_status_t selvage_coll_wait(selvage_coll_t *coll);

/**
 * @brief Gives back what the registration cache of @p coll and its kin has kept and nothing has used for long.
 *
 * That is memory of other ranks that is mapped here, and the offer of this rank's own to map it (SELVAGE_IDLE_S and its
 * kin). Not while a group is open. Local; not stream-ordered; cheap while there is nothing. With @p gives_back it may
 * wait for all work of the device: then no kernel may wait for what the host does after the call.
 *
 * @param[in]  gives_back  0: nothing is closed, and nothing is waited for
 * @param[out] due_out     1 if there was anything to be closed; else 0
 * @return ERR_ARGUMENT
 */
selvage_status_t selvage_coll_trim(selvage_coll_t *coll, int gives_back, int *due_out);

/**
 * @brief Ends everything that is under way on this rank with ERR_ABORTED. Ranks whose kernels work with its own are
 * told; where none of its kernels runs, they come to their deadline. Local; never blocks; any thread.
 */
void selvage_coll_abort(selvage_coll_t *coll);

/**
 * @brief Counters. Local; waits for a turn of the progress thread while calls between nodes are under way, else never
 * blocks.
 * @param[in,out] stats_out  struct_size says how much is written
 * @return ERR_ARGUMENT
 */
selvage_status_t selvage_coll_stats(selvage_coll_t *coll, selvage_coll_stats_t *stats_out);

/**
 * @brief Combines blocks that lie in memory of one device, element by element: result[i] = op over b of block b's [i].
 *
 * The first block comes first, and each following one is combined with what came of those before it. So the bits of the
 * result depend on the blocks alone. One block is copied. Stream-ordered: enqueues a kernel, and returns. Local; any
 * thread. No communicator is needed.
 *
 * @param[in]  dev           device of the memory
 * @param[in]  blocks        the first block; device memory or pinned memory, aligned as in collectives
 * @param[in]  stride_bytes  from a block to the next one; a multiple of that alignment. 16 bytes are best for speed
 * @param[in]  nblocks       at least 1
 * @param[out] result        @p count elements; a block itself, or apart from all of them
 * @param[in]  count         elements of a block; may be 0
 * @param[in]  type          of the elements; not floats of 8 and 16 bits
 * @param[in]  op            SELVAGE_OP_SUM and its kin that @p type has; not SELVAGE_OP_AVG
 * @param[in]  stream        native handle; NULL is the default stream
 * @return ERR_ARGUMENT, ERR_UNSUPPORTED (a type or operation of collectives that this has not), ERR_LIMIT, ERR_DEVICE
 */
selvage_status_t selvage_reduce_local(selvage_device_t *dev, const void *blocks, size_t stride_bytes, int nblocks,
                                      void *result, size_t count, selvage_type_t type, selvage_op_t op, void *stream);

/** @brief Bytes of an element; 0 for none. */
size_t selvage_type_bytes(selvage_type_t type);
/** @brief Name of a type as tables print it ("float32"); "none" for none. */
const char *selvage_type_name(selvage_type_t type);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
