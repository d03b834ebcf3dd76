/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file exchange.h
 * @brief Exchanges: a persistent set of packets, started and waited for as often as the application steps.
 *
 * Life: create, add_send and add_recv in any number, commit, then start / test / wait again and again, destroy.
 *
 * Ordering: start(x, stream) reads the send buffers after the work already on `stream`, and nothing of Selvage's
 * touches a receive buffer before that work is done. After wait(x, stream) returns, later work on `stream` sees the
 * received data. Send buffers belong to Selvage from start until wait. The caller never needs a device synchronise.
 *
 * Graphs: start with enqueue_wait after it, and run, may be called on a stream that is being captured (CUDA, HIP,
 * selvage_graph_begin()). They begin no epoch then: each launch of the graph is the next one, as often as it comes,
 * mixed with other epochs. Packets go by `self` and `peer` as for enqueue_wait, else ERR_UNSUPPORTED names the packet;
 * ranks do not share a GPU. Epochs come one after the other: a graph is launched when the last epoch that the host
 * started is complete, or on a stream after it. The next call on the exchange that is not captured is given the stream
 * of the last launch, or one after it, or all launches are complete; start and run then wait on the host until nothing
 * is left to do on that stream. That call returns what went wrong in replays, where nothing is sent again. Addresses
 * are those of the capture. No launch is under way when the exchange is destroyed, or comes later. doc/latency.md says
 * more.
 *
 * Lifetimes: buffers stay allocated from commit until destroy, or until others are bound in their places, and a stream
 * exists from start until the wait that ends the epoch. This is not checked, because asking the device costs more than
 * an epoch: freed memory would be used.
 */
#ifndef SELVAGE_EXCHANGE_H
#define SELVAGE_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include <selvage/comm.h>
#include <selvage/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** An exchange (opaque). */
typedef struct selvage_exchange selvage_exchange_t;

/** What happens when a packet does not verify. */
typedef enum selvage_checksum {
    SELVAGE_CHECKSUM_DEFAULT = 0, /**< what SELVAGE_CHECKSUM says; retry unless it is set */
    SELVAGE_CHECKSUM_RETRY = 1,   /**< ask for the packet again, SELVAGE_RETRY_MAX times, then report */
    SELVAGE_CHECKSUM_REPORT = 2,  /**< return SELVAGE_ERR_CHECKSUM on both ranks */
    SELVAGE_CHECKSUM_ABORT = 3,   /**< print the report and abort the process */
    SELVAGE_CHECKSUM_OFF = -1     /**< no digest, no verdict: damage is not seen, what is lost is not asked for */
} selvage_checksum_t;

/** Which ranks create, commit and destroy an exchange together. */
typedef enum selvage_scope {
    SELVAGE_SCOPE_ALL = 0,      /**< all ranks of the communicator, also those without packets */
    SELVAGE_SCOPE_NEIGHBORS = 1 /**< a rank and those to or from which it has packets; see selvage_exchange_commit() */
} selvage_scope_t;

/** Parameters of selvage_exchange_create(). Every member but struct_size may stay zero. */
typedef struct selvage_exchange_params {
    size_t struct_size;          /**< sizeof of this struct, set by SELVAGE_EXCHANGE_PARAMS_INIT */
    selvage_route_t route;       /**< force one route for all packets (to the rank itself: self unless staged) */
    selvage_checksum_t checksum; /**< verification policy; must agree between ranks */
    int rebindable;              /**< not 0: selvage_exchange_rebind() may be called, which costs what it says there.
                                      Ranks need not agree */
    int varying;                 /**< not 0: selvage_exchange_set_bytes() may be called, which costs what it says there.
                                      Must agree between ranks; not together with rebindable */
    selvage_scope_t scope;       /**< who commits it; must agree between neighbours */
    int reserved;                /**< zero */
} selvage_exchange_params_t;

/** Initialiser: `selvage_exchange_params_t p = {SELVAGE_EXCHANGE_PARAMS_INIT};` */
#define SELVAGE_EXCHANGE_PARAMS_INIT .struct_size = sizeof(selvage_exchange_params_t)

/** @brief The same as a function, which serves in any C++: parameters that are all default. Local. */
static inline selvage_exchange_params_t selvage_exchange_params_init(void)
{
    selvage_exchange_params_t started = SELVAGE_ZEROED_(selvage_exchange_params_t);
    started.struct_size = sizeof started;
    return started;
}

/**
 * @brief Makes an empty exchange. Local; does not block; one thread at a time per communicator.
 *
 * All ranks create their exchanges in one order, and commit them in one order, also where a rank has no packets. So the
 * n-th that one rank created is the n-th of all, which commit checks. Those of scope SELVAGE_SCOPE_NEIGHBORS are not
 * counted: a rank creates as many as it has a part in.
 *
 * @param[in]  params  NULL for defaults
 * @param[out] ex_out  owned by the caller; freed by selvage_exchange_destroy() before the communicator
 * @return ERR_ARGUMENT, ERR_MEMORY
 */
selvage_status_t selvage_exchange_create(selvage_comm_t *comm, const selvage_exchange_params_t *params,
                                         selvage_exchange_t **ex_out);

/**
 * @brief Declares a packet to send. Local; before commit only.
 *
 * The i-th send of a (source, destination, tag) meets the i-th receive of the same three.
 *
 * @param[in]  buf        memory that the device reaches (doc/memory.md lists the kinds), any alignment; may be NULL
 *                        only if @p bytes is 0. Must not overlap receives, nor must receives each other: commit
 *                        refuses it (of packets declared by a type or a list it looks only into each receive itself)
 * @param[in]  bytes      payload; 0 is a packet too (its record still travels)
 * @param[in]  peer       destination, 0 to size-1; the rank itself is allowed. MPI_PROC_NULL: nothing is declared, as
 *                        MPI moves nothing (what MPI_Cart_shift() gives at an open end needs no case of its own); the
 *                        buffer is not looked at, and @p index_out is UINT32_MAX
 * @param[in]  tag        0 to 2^31-1; never shown to MPI
 * @param[out] index_out  the packet's index among this rank's sends, as reports print it; may be NULL
 * @return ERR_ARGUMENT with the argument named, ERR_STATE after commit, ERR_MEMORY
 */
selvage_status_t selvage_exchange_add_send(selvage_exchange_t *ex, const void *buf, size_t bytes, int peer, int tag,
                                           uint32_t *index_out);

/** @brief Declares a packet to receive; as selvage_exchange_add_send(), @p index_out counts receives. */
selvage_status_t selvage_exchange_add_recv(selvage_exchange_t *ex, void *buf, size_t bytes, int peer, int tag,
                                           uint32_t *index_out);

/**
 * @brief Declares a packet to send that is @p count elements of an MPI datatype, packed on the device.
 *
 * Local; before commit only. The type is taken apart at once and may be freed after the call. Its stream is what
 * MPI_Pack would make of it on a machine of one kind, so it may meet any receive of as many bytes, whatever its type.
 *
 * @param[in] buf   as in MPI_Send, in memory that the device reaches; the type's lower bound may be negative
 * @param[in] type  committed; any nest of contiguous, vector, hvector, indexed, hindexed, indexed_block,
 *                  hindexed_block, subarray, resized, struct and dup over the predefined types
 * @return as selvage_exchange_add_send(); ERR_UNSUPPORTED for other types (darray), with the type named;
 *         ERR_ARGUMENT also for a receive whose elements overlap
 */
selvage_status_t selvage_exchange_add_send_type(selvage_exchange_t *ex, const void *buf, size_t count,
                                                MPI_Datatype type, int peer, int tag, uint32_t *index_out);

/** @brief Declares a packet to receive; as selvage_exchange_add_send_type(), @p index_out counts receives. */
selvage_status_t selvage_exchange_add_recv_type(selvage_exchange_t *ex, void *buf, size_t count, MPI_Datatype type,
                                                int peer, int tag, uint32_t *index_out);

/**
 * @brief Declares a packet to send that is a list of elements: for unstructured meshes. Packed on the device.
 *
 * Local; before commit only.
 *
 * @param[in] buf            element 0, in memory that the device reaches
 * @param[in] element_bytes  at least 1; elements lie one after the other
 * @param[in] indices        host memory, read during the call: which elements, in the order of the stream
 * @param[in] count          how many; 0 is a packet too
 * @return as selvage_exchange_add_send(); ERR_ARGUMENT also for a receive that names an element twice
 */
selvage_status_t selvage_exchange_add_send_indexed(selvage_exchange_t *ex, const void *buf, size_t element_bytes,
                                                   const int64_t *indices, size_t count, int peer, int tag,
                                                   uint32_t *index_out);

/** @brief Declares a packet to receive; as selvage_exchange_add_send_indexed(), @p index_out counts receives. */
selvage_status_t selvage_exchange_add_recv_indexed(selvage_exchange_t *ex, void *buf, size_t element_bytes,
                                                   const int64_t *indices, size_t count, int peer, int tag,
                                                   uint32_t *index_out);

/** @brief The same with indices of 32 bits: as selvage_exchange_add_send_indexed(). */
selvage_status_t selvage_exchange_add_send_indexed32(selvage_exchange_t *ex, const void *buf, size_t element_bytes,
                                                     const int32_t *indices, size_t count, int peer, int tag,
                                                     uint32_t *index_out);

/** @brief The same with indices of 32 bits: as selvage_exchange_add_recv_indexed(). */
selvage_status_t selvage_exchange_add_recv_indexed32(selvage_exchange_t *ex, void *buf, size_t element_bytes,
                                                     const int32_t *indices, size_t count, int peer, int tag,
                                                     uint32_t *index_out);

/**
 * @brief Declares a packet to each neighbour, and one from each, in a communicator with a distributed graph of MPI.
 *
 * They are what MPI_Neighbor_alltoallv() moves there, with lengths in bytes.
 *
 * Local; before commit only. @p graph has the ranks of @p ex's communicator in the same order (it is the communicator
 * that was wrapped, or one like it). Neighbours are in MPI's order, so packet i goes to the i-th destination, and comes
 * from the i-th source; a rank that is there twice has two. Weights mean nothing. Indices count on from those of
 * packets that were declared before: as selvage_exchange_add_send() and selvage_exchange_add_recv() for one after the
 * other. After ERR_MEMORY the exchange can only be destroyed; other errors declare nothing.
 *
 * @param[in] graph              read during the call
 * @param[in] send               memory that the device reaches; the packets' offsets count from there
 * @param[in] send_bytes         length of each packet, one for each destination; may be NULL if there is none
 * @param[in] send_offset_bytes  where each begins; NULL: one after the other
 * @param[in] recv               the same for receives; packets must not overlap
 * @param[in] recv_bytes         one for each source; may be NULL if there is none
 * @param[in] recv_offset_bytes  where each begins; NULL: one after the other
 * @param[in] tag                of all packets
 * @return as selvage_exchange_add_send(), with the neighbour named; ERR_ARGUMENT also for a communicator without a
 *         distributed graph, or with other ranks; ERR_MPI
 */
selvage_status_t selvage_exchange_add_graph(selvage_exchange_t *ex, MPI_Comm graph, const void *send,
                                            const size_t *send_bytes, const size_t *send_offset_bytes, void *recv,
                                            const size_t *recv_bytes, const size_t *recv_offset_bytes, int tag);

/**
 * @brief Matches packets with the peers, settles routes, allocates everything. Once per exchange.
 *
 * Collective over the communicator, also for ranks without packets; blocks up to the deadline; not stream-ordered.
 * All ranks commit or none: one rank's failure is every rank's. The ranks that found it have the packet in their
 * detail, the others the rank. After an error the exchange can only be destroyed.
 *
 * With params.scope SELVAGE_SCOPE_NEIGHBORS it is collective among neighbours instead: this rank, and those to or from
 * which it declares packets, each of which declares some for or from this one. No other rank is called or waited for,
 * and memory grows with the neighbours only, and time with them and the exchanges that this rank has with each of them.
 * A rank without packets to others commits alone.
 * - Any two ranks commit what they share in the same order, and no ranks wait for each other around a ring.
 * - The deadline counts from the call, and again at each step; progress of other exchanges does not prolong it.
 * - A rank that a neighbour waits for in vain (it did not come, or does not name the neighbour) is named there, with
 *   ERR_TIMEOUT. The communicator stays usable.
 * - A failure is one of the neighbours, too, and of their neighbours as far as those are still in commit. A rank
 *   that has completed the commit before a neighbour failed learns it from start or wait, by ERR_PEER. One that comes
 *   late fails as well, so that both commit the same exchange next. But if its neighbour has given up because it did
 *   not come (ERR_TIMEOUT), it meets the next commit of that one. Packets are matched by their tags: with tags of its
 *   own for each exchange, two that do not belong together are ERR_MISMATCH.
 * - Where memory cannot be mapped, packets between those two ranks are staged; later commits may find a better route.
 *
 * @return ERR_MISMATCH (no partner, other size, other policy, other order of commits: the rank that is elsewhere, and
 *         where, is named), ERR_ARGUMENT (packets that overlap, both named), ERR_STATE (a second commit),
 *         ERR_MEMORY, ERR_DEVICE, ERR_MPI, ERR_SYSTEM, ERR_LIMIT, ERR_UNSUPPORTED (forced route not available),
 *         ERR_TIMEOUT
 */
selvage_status_t selvage_exchange_commit(selvage_exchange_t *ex);

/**
 * @brief Gives packets other buffers of the same shape: for codes that swap A and B in every step.
 *
 * Local; not collective (every rank may do so at its own time); after commit, between wait, or enqueue_wait, and the
 * next start only. Every packet has the bytes, elements or type that it was declared with, from the new pointer on.
 * Receives must not overlap then either. After an error all packets are bound as before.
 *
 * For exchanges created with `rebindable` only: in others a neighbour may write straight into a receive buffer
 * (selvage_buffer_register()), and would not know of another one. In those that are, every receive lands in memory of
 * the exchange's own first: within a node in two slots as long as the packet, from which kernels bring it to its place,
 * and on the route `direct` with another copy on the device.
 *
 * Sets of pointers that were seen lately (four) cost nothing; a new set is checked and copied to the device, for which
 * the host waits. Graphs keep the buffers of their capture. After one, ERR_STATE if more than five packets have bytes.
 *
 * @param[in] sends   @p nsends pointers, in the order of the indices that selvage_exchange_add_send() gave; NULL: this
 *                    packet stays where it is. Without bytes nothing is bound. NULL in place of the array, with
 *                    @p nsends 0: all stay
 * @param[in] nsends  0, or how many sends were declared
 * @param[in] recvs   the same for receives
 * @param[in] nrecvs  0, or how many receives were declared
 * @return ERR_ARGUMENT with the pointer named (memory that the device does not reach, less aligned than the one at
 *         commit up to 16 bytes, a packet of a type that has addresses in it or lies in several allocations), or with
 *         both packets that overlap; ERR_STATE before commit, without `rebindable`, or while an epoch is under way;
 *         ERR_DEVICE; else the exchange's first error
 */
selvage_status_t selvage_exchange_rebind(selvage_exchange_t *ex, const void *const *sends, uint32_t nsends,
                                         void *const *recvs, uint32_t nrecvs);

/**
 * @brief Says how long packets are from the next epoch on, up to what was declared: for counts that vary by step.
 *
 * Local; not collective, nothing is negotiated; after commit, between wait and the next start only. Each end of a
 * packet says the same number before it starts the epoch; lengths stay until the next call. A packet begins where its
 * buffer does. Where ends say different numbers, the epoch fails: start, test or wait return ERR_MISMATCH on both
 * ranks, with both numbers, and the exchange is poisoned (with SELVAGE_CHECKSUM=abort the job ends). (A wait
 * on the device ends with that, or with ERR_TIMEOUT, and a rank that another neighbour gave up before, with ERR_PEER.)
 * Before that more than was expected may have been written to the receive buffer, but never past its declared length.
 *
 * For exchanges created with `varying` only. Those have checksums (commit returns ERR_UNSUPPORTED without), do not use
 * the route `direct`, and are not for graphs or sessions. Slots and routes are those of the declared lengths. Packets
 * declared by a type or a list that leaves gaps keep their length.
 *
 * The lengths that are set already cost a comparison. Others of packets that kernels move are copied to the device, for
 * which the host waits.
 *
 * @param[in] send_bytes  one for each send, in the order of the indices that selvage_exchange_add_send() gave; 0 is a
 *                        packet too. NULL in place of the array, with @p nsends 0: all stay
 * @param[in] nsends      0, or how many sends were declared
 * @param[in] recv_bytes  the same for receives
 * @param[in] nrecvs      0, or how many receives were declared
 * @return ERR_ARGUMENT with the packet named (longer than declared, or of a type or list), after which all stay;
 *         ERR_STATE before commit, without `varying`, while an epoch is under way, or while one that ended by
 *         enqueue_wait or run is not over on the device; ERR_DEVICE, which poisons the exchange; else its first error
 */
selvage_status_t selvage_exchange_set_bytes(selvage_exchange_t *ex, const size_t *send_bytes, uint32_t nsends,
                                            const size_t *recv_bytes, uint32_t nrecvs);

/**
 * @brief Starts an epoch: packs, checksums, posts receives and begins to copy. Returns at once.
 *
 * Local; does not block, but for graphs (see the top of this file); stream-ordered after the work on @p stream.
 *
 * @return ERR_STATE before commit or while the last epoch is not complete; ERR_ARGUMENT if memory of a packet was freed
 *         by selvage_device_free() meanwhile, and ERR_DEVICE if @p stream was destroyed and the device can tell, which
 *         poison the exchange; else the exchange's first error. In a graph also ERR_UNSUPPORTED, and ERR_STATE if the
 *         start captured before has no enqueue_wait yet
 */
selvage_status_t selvage_exchange_start(selvage_exchange_t *ex, void *stream);

/**
 * @brief Advances the communicator and says whether this epoch is complete. Local; never blocks.
 *
 * @return SUCCESS: complete, and later work on @p stream sees the received data, as after wait; IN_PROGRESS;
 *         ERR_STATE if never started, or @p stream is being captured; else the exchange's first error
 */
selvage_status_t selvage_exchange_test(selvage_exchange_t *ex, void *stream);

/**
 * @brief Completes the epoch: every packet here is verified and in place, every packet sent was verified there.
 *
 * Without checksums, every packet here is in place, and every packet sent has left. Blocks the host, up to the
 * deadline, which counts from the last progress. Needs nothing queued on @p stream after start. The communicator's
 * other exchanges advance meanwhile. Waiting again for a complete epoch succeeds at once.
 *
 * After launches of graphs it waits until nothing is left to do on @p stream, and returns what they found.
 *
 * @return ERR_STATE if never started, or @p stream is being captured; ERR_CHECKSUM, ERR_TIMEOUT, ERR_PEER, ERR_MPI,
 *         ERR_DEVICE, and ERR_MISMATCH where both ends set different lengths (selvage_exchange_set_bytes()), after
 *         which the exchange is poisoned: start, test and wait return the same error, and it can only be destroyed
 */
selvage_status_t selvage_exchange_wait(selvage_exchange_t *ex, void *stream);

/**
 * @brief Ends the epoch on @p stream without the host: later work on @p stream sees the received data.
 *
 * Local; stream-ordered. Never blocks the host, but where ranks share a GPU (see below). So an exchange can be repeated
 * many times with nothing but kernels between. With the progress thread the call is always legal. Without it, commit
 * must have found only packets of the routes `self` and `peer` that need no host: receive buffers above
 * SELVAGE_KERNEL_PEER_MAX_BYTES are registered. Arrival, verification and the copies out of slots are enqueued and wait
 * on the device, up to the deadline.
 *
 * The device finds errors, and the next call on @p ex returns them. Until then later work on @p stream may have run on
 * bad data. A packet that does not verify cannot be asked for again, because its sender may be epochs ahead: the policy
 * `retry` acts as `report` here. The first failure also makes every later enqueued wait of this rank on @p ex end at
 * once. A wait after an enqueue_wait waits on the host for the device and returns what it found.
 *
 * Ranks that exchange with each other should end an epoch the same way. This call is selvage_exchange_wait() where no
 * kernel may wait: where ranks share one GPU, because it could hold up the one it waits for, and on the software device
 * without threads.
 *
 * @param stream  the one given to start, or one that is ordered after it
 * @return ERR_UNSUPPORTED with the packet named, ERR_STATE if never started, or in a graph without a start before it;
 *         else the exchange's first error
 */
selvage_status_t selvage_exchange_enqueue_wait(selvage_exchange_t *ex, void *stream);

/**
 * @brief A whole epoch on @p stream without the host: as start and enqueue_wait right after it, with one launch.
 *
 * One kernel packs, digests and stores the packets, waits for those of the neighbours, verifies them and brings them to
 * their places. So an epoch of short packets costs one launch, and nothing can be computed between its start and its
 * end. That is so where kernels move all packets (routes `self` and `peer`), at most 32 each way, all of them in one
 * piece or all in pieces. Else the epoch has the launches of start and enqueue_wait. Neighbours may call those two.
 *
 * All blocks of that kernel wait for the neighbours', and take at most half of the device. A kernel of the caller's
 * that stays on the device until the epoch is over, and leaves no room for them, makes it end at the deadline with
 * ERR_TIMEOUT. So may runs on several streams at once, if neighbours run them in different orders.
 *
 * Local; stream-ordered. All else is as for selvage_exchange_enqueue_wait(), also where it blocks, how errors are told,
 * and that received data may have been used before an error is known.
 *
 * @param stream  as for selvage_exchange_start()
 * @return as those two calls. ERR_UNSUPPORTED: no epoch was begun
 */
selvage_status_t selvage_exchange_run(selvage_exchange_t *ex, void *stream);

/** @brief Number of epochs started so far, also by graphs, as far as the device has come. Local; 0 for NULL. */
uint64_t selvage_exchange_epoch(const selvage_exchange_t *ex);

/**
 * @brief Route that commit settled for the send with this index. Local.
 * @param[in]  index      as selvage_exchange_add_send() gave it
 * @param[out] route_out  never SELVAGE_ROUTE_DEFAULT
 * @return ERR_ARGUMENT, ERR_STATE
 */
selvage_status_t selvage_exchange_send_route(const selvage_exchange_t *ex, uint32_t index,
                                             selvage_route_t *route_out);

/** @brief Name of a route ("staged"). Static text; "default" for DEFAULT, "unknown" otherwise. */
const char *selvage_route_name(selvage_route_t route);

/**
 * @brief Frees an exchange. Collective over the communicator once committed, else local. Accepts NULL.
 *
 * With params.scope SELVAGE_SCOPE_NEIGHBORS it is collective among the neighbours only, in the order of any two ranks.
 * Blocks until all of them have come, at most for the deadline (10 s after an error).
 * After an error on the direct route MPI may write receive buffers until this returns; keep them until then.
 * An epoch under way is abandoned with a warning. Memory that MPI, a copy engine or a peer may still write is set
 * aside until the process ends, never reused.
 */
void selvage_exchange_destroy(selvage_exchange_t *ex);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
