/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file message.h
 * @brief Messages: send and receive as MPI has them, for buffers in device or host memory, with a stream.
 *
 * What MPI promises holds. Messages of one source to one destination with one communicator do not overtake each other.
 * A receive takes the first message that fits its source and tag. A message may have another count and other types than
 * its receive, as long as its bytes fit. A rank may send to itself. Messages never meet packets of exchanges, nor
 * messages of MPI.
 *
 * - Stream: a send reads its buffer after the work that is on the stream when it is called, and a receive writes its
 *   buffer after that work. When test or wait say that a request is complete, the host has seen it so. Whatever is
 *   enqueued afterwards, on any stream, sees the data and may overwrite what was sent. SELVAGE_MESSAGE_NO_STREAM says
 *   that the buffer may be used at once, which saves an event.
 * - Progress: every call of this header on a communicator advances all its messages. Waits also advance the exchanges
 *   that the same thread has started. selvage_progress(), and test and wait of exchanges, advance messages.
 * - Threads: several threads may call at the same time if MPI was initialised with MPI_THREAD_MULTIPLE. One request is
 *   one thread's at a time. While the thread that started exchanges waits for messages, no other thread calls the
 *   exchanges.
 * - Damage: bytes are verified on arrival as SELVAGE_CHECKSUM says. With retry (the default), a long message is sent
 *   again, SELVAGE_RETRY_MAX times at most, and so is a small one that came by MPI. A small one that came by memory of
 *   the node is taken once more from where it lies. What does not verify then ends the receive with
 *   SELVAGE_ERR_CHECKSUM, and its buffer holds anything. The send ends so, too, if the message is long; the sender of a
 *   small one had its buffer back before anybody looked. Small is up to SELVAGE_MESSAGE_EAGER_BYTES, between devices of
 *   a node up to 128 times as much.
 * - Deadline: a wait gives up with SELVAGE_ERR_TIMEOUT once nothing of the communicator's messages has moved for
 *   SELVAGE_TIMEOUT_S (or timeout_s of the communicator). The request stays open.
 *
 * Ranks are those of the communicator that was wrapped. Tags are 0 to 2^31-1. MPI_ANY_SOURCE, MPI_ANY_TAG and
 * MPI_PROC_NULL mean what they mean to MPI.
 */
#ifndef SELVAGE_MESSAGE_H
#define SELVAGE_MESSAGE_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#include <selvage/comm.h>
#include <selvage/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** A send or receive under way (opaque). NULL: none; complete ones are freed and set to NULL by test and wait. */
typedef struct selvage_request selvage_request_t;
/** A message that selvage_message_improbe() has taken out of matching (opaque). */
typedef struct selvage_message selvage_message_t;

/** In place of a stream: the buffer may be read, or written, at once. */
#define SELVAGE_MESSAGE_NO_STREAM ((void *)(intptr_t)-1)

/** What became of a request. Members that mean nothing (of a send: source, tag) are those of an empty MPI_Status. */
typedef struct selvage_message_status {
    int source;             /**< rank that sent it; MPI_PROC_NULL or MPI_ANY_SOURCE as MPI has it */
    int tag;                /**< its tag, or MPI_ANY_TAG */
    selvage_status_t error; /**< how it ended; the call returns the same (selvage_message_waitall(): the first) */
    int cancelled;          /**< 1: it was cancelled before anything matched it */
    uint64_t bytes;         /**< received, or sent; of a truncated message, what it had */
    uint64_t reserved[3];   /**< zero */
} selvage_message_status_t;

/**
 * @name Starting
 * Local; never block; stream-ordered as said above. The type is taken apart at once (what can be, see
 * selvage_exchange_add_send_type()) and may be freed after the call. The buffer is Selvage's until the request is
 * complete. Device buffers, pinned memory and any host memory will do, at either end.
 *
 * @param[in]  buf      as in MPI_Isend; NULL only if there are no bytes, or with addresses in the type
 * @param[in]  stream   native handle, NULL for the default stream, or SELVAGE_MESSAGE_NO_STREAM
 * @param[out] request  owned by the caller; completed by test or wait, or given up by selvage_message_free()
 * @return ERR_ARGUMENT with the argument named, ERR_UNSUPPORTED (type), ERR_MEMORY, ERR_DEVICE, ERR_MPI, ERR_STATE
 *         (after MPI_Finalize, or a stream that is being captured)
 * @{
 */
/** @brief Begins to send. Complete when the buffer may be used again. */
selvage_status_t selvage_message_isend(selvage_comm_t *comm, const void *buf, size_t count, MPI_Datatype type,
                                       int destination, int tag, void *stream, selvage_request_t **request);
/** @brief Begins to send. Complete only when a receive has matched the message. */
selvage_status_t selvage_message_issend(selvage_comm_t *comm, const void *buf, size_t count, MPI_Datatype type,
                                        int destination, int tag, void *stream, selvage_request_t **request);
/**
 * @brief Begins to send, complete whatever the receiver does.
 *
 * The message waits in a slot of the receiver's device memory (selvage_comm_params_t::message_slot_bytes), or in device
 * memory of the sender's (SELVAGE_MESSAGE_BUFFER_BYTES at most; 0: slots only). One of 1 MiB or more (64 KiB out of an
 * allocation that was sent from eight times), without gaps and with SELVAGE_MESSAGE_NO_STREAM, is read by the receiver
 * from @p buf. If that has not begun after 3 ms, and the receiver takes no other such message either, a test or wait
 * copies it to such memory, or to pinned host memory. A receive into host memory takes it from there, too. All this is
 * possible after the first messages between two ranks of a node have gone both ways.
 *
 * @return also ERR_LIMIT, and nothing is sent or logged: the buffer is no device memory, or the receiver is no rank of
 *         the node; no slot is free that is long enough, and as much as there may be waits with the sender; 256 of
 *         these messages to that rank have not been received
 */
selvage_status_t selvage_message_ibsend(selvage_comm_t *comm, const void *buf, size_t count, MPI_Datatype type,
                                        int destination, int tag, void *stream, selvage_request_t **request);
/**
 * @brief As selvage_message_ibsend(), but its kernel is launched by selvage_message_launch().
 *
 * That is so with SELVAGE_MESSAGE_NO_STREAM only; with a stream it is selvage_message_ibsend().
 * In between the caller may tell the receiver that the message comes, so that both sides launch their kernels at the
 * same time (selvage_message_expect()). Later messages to the same rank wait for it, and kernels of others are kept as
 * in a group. A test or wait of a request that was not launched never ends. selvage_message_free() launches it.
 */
selvage_status_t selvage_message_ibsend_held(selvage_comm_t *comm, const void *buf, size_t count, MPI_Datatype type,
                                             int destination, int tag, void *stream, selvage_request_t **request);
/** @brief Begins to receive at most @p count elements, from one rank or any, with one tag or any. */
selvage_status_t selvage_message_irecv(selvage_comm_t *comm, void *buf, size_t count, MPI_Datatype type, int source,
                                       int tag, void *stream, selvage_request_t **request);
/** @} */

/**
 * @name Launching early
 * Kernels of both sides at the same time, where the program itself tells the receiver of each message. Local; do not
 * block.
 * @return ERR_ARGUMENT
 * @{
 */
/**
 * @brief Launches a send that is held. Does nothing to any other request.
 * @return also ERR_DEVICE, ERR_MEMORY; a test or wait returns the same error. The receiver's ends with ERR_TIMEOUT, if
 *         there is a deadline
 */
selvage_status_t selvage_message_launch(selvage_request_t *request);
/**
 * @brief Says of a receive, with a source and a tag, that its sender has begun, or is about to, on another GPU.
 *
 * The kernel that copies and verifies the message is then launched before the message is there, if it comes by a
 * slot and is the next one from that rank; or, of one that is read where it lies, before its checksum is there. It
 * waits for as long as SELVAGE_EARLY_WAIT_US says. This is a hint: another message, or a late one, is received all
 * the same. Give it only where the two ranks use two GPUs, or the kernel may keep the GPU from what it waits for,
 * until it gives up.
 *
 * @param[in] bytes  how long the message is
 */
selvage_status_t selvage_message_expect(selvage_request_t *request, uint64_t bytes);
/**
 * @brief Whether the last message of device memory to a rank of the node was received into host memory there.
 *
 * A short one that a caller has another way for may then be faster by that, since host memory is reached by way of the
 * receiver's device. After 63 answers of yes it is no all the same, and at first, until the caller has sent device
 * memory there by these calls: that tells where its messages go now. Never blocks.
 *
 * @param[out] prefers_out  1 if it was; 0 if it was not, or is not known
 */
selvage_status_t selvage_message_prefers_host(selvage_comm_t *comm, int destination, int *prefers_out);
/**
 * @brief Whether messages to a rank go by memory that both share, so that a held one may find room there.
 *
 * Not to a rank of another node, a virtual one included, nor with SELVAGE_ROUTE=staged, nor before the first messages
 * between the two have come. It does not become 0 again. Never blocks.
 *
 * @param[out] shared_out  1 or 0
 */
selvage_status_t selvage_message_is_shared(selvage_comm_t *comm, int destination, int *shared_out);
/** @} */

/**
 * @brief Gives back what messages have kept for later ones and nothing has used for long.
 *
 * That is memory of other ranks that is mapped here, and device memory of this rank's (SELVAGE_IDLE_S and its kin).
 * Waits for messages do the same at their end. This is for a program that only tests. It advances messages, as a test
 * does. Local; any thread; cheap while there is nothing. With @p gives_back it may wait for all work of the device, as
 * a wait may: then no kernel may wait for what the host does after the call.
 *
 * @param[in]  gives_back  0: nothing is given back, and nothing is waited for
 * @param[out] due_out     1 if there was anything to be given back; else 0
 * @return ERR_ARGUMENT
 */
selvage_status_t selvage_message_trim(selvage_comm_t *comm, int gives_back, int *due_out);

/**
 * @name Groups
 * A launch costs the host as much as all else that it does for a message. Between these two calls kernels of the
 * communicator's messages are kept, ten at most, and then are launched together. Groups nest, and any thread's messages
 * are in them. Local; do not block.
 *
 * Waits and blocking calls launch what is kept in any case. A test launches what was kept for 50 us, so that requests
 * of a group are best tested after its end.
 * @return ERR_ARGUMENT, ERR_STATE (no group is open), ERR_MEMORY; end also ERR_DEVICE, if a launch has failed of which
 *         a receiver cannot be told: then no message of the communicator goes on
 * @{
 */
selvage_status_t selvage_message_group_begin(selvage_comm_t *comm);
selvage_status_t selvage_message_group_end(selvage_comm_t *comm);
/** @} */

/**
 * @name Blocking
 * They are as the calls above and selvage_message_wait() after them. When one fails, its requests are given up: nothing
 * writes the receive buffer or reads the send buffer any more, unless the error's detail says that this could not be
 * stopped in time. The other rank's request ends with ERR_TIMEOUT.
 *
 * @param[in]  buf,send_buf                 as for selvage_message_isend()
 * @param[out] recv_buf                     as for selvage_message_irecv()
 * @param[in]  count,send_count,recv_count  elements; of a receive, at most
 * @param[in]  type,send_type,recv_type     of the elements
 * @param[in]  tag,send_tag,recv_tag        0 to 2^31-1; of a receive MPI_ANY_TAG, too
 * @param[out] status_out                   what was received; may be NULL
 * @return as those, and as selvage_message_wait()
 * @{
 */
selvage_status_t selvage_message_send(selvage_comm_t *comm, const void *buf, size_t count, MPI_Datatype type,
                                      int destination, int tag, void *stream);
selvage_status_t selvage_message_recv(selvage_comm_t *comm, void *buf, size_t count, MPI_Datatype type, int source,
                                      int tag, void *stream, selvage_message_status_t *status_out);
/** @brief Both at the same time; the buffers do not overlap. @p status_out is the receive's, may be NULL. */
selvage_status_t selvage_message_sendrecv(selvage_comm_t *comm, const void *send_buf, size_t send_count,
                                          MPI_Datatype send_type, int destination, int send_tag, void *recv_buf,
                                          size_t recv_count, MPI_Datatype recv_type, int source, int recv_tag,
                                          void *stream, selvage_message_status_t *status_out);
/** @} */

/**
 * @name Completing
 * Local. A request that is complete, well or not, is freed and set to NULL. NULL is complete, with an empty status.
 *
 * @param[in]     count                    number of requests
 * @param[in,out] request,requests         set to NULL once complete
 * @param[out]    status_out,statuses_out  how it ended, or how each did; may be NULL
 * @param[out]    index_out                which request is complete; SIZE_MAX if all are NULL
 * @return ERR_TRUNCATED (the message had more bytes than the receive: nothing was received, the detail has both sizes),
 *         ERR_CHECKSUM, ERR_DEVICE, ERR_MPI, ERR_MEMORY; ERR_TIMEOUT (request open); ERR_ARGUMENT
 * @{
 */
/** @brief Never blocks. @return IN_PROGRESS while it is not complete */
selvage_status_t selvage_message_test(selvage_request_t **request, selvage_message_status_t *status_out);
/** @brief Blocks until it is complete, up to the deadline. */
selvage_status_t selvage_message_wait(selvage_request_t **request, selvage_message_status_t *status_out);
/** @brief Blocks until all are, also if some fail. All on one communicator. */
selvage_status_t selvage_message_waitall(size_t count, selvage_request_t **requests,
                                         selvage_message_status_t *statuses_out);
/** @brief Blocks until one is. All on one communicator. */
selvage_status_t selvage_message_waitany(size_t count, selvage_request_t **requests, size_t *index_out,
                                         selvage_message_status_t *status_out);
/**
 * @brief Takes a receive back that nothing has matched; it must still be completed, and the status says whether it was
 * cancelled. Sends are never taken back. Local; does not block. @return ERR_ARGUMENT
 */
selvage_status_t selvage_message_cancel(selvage_request_t *request);
/**
 * @brief Lets go of a request, which goes on to its end alone, and sets it to NULL. Local; does not block.
 *
 * It goes on while this rank is in calls for messages of the communicator. A long message that no device takes by
 * itself may need them until it has been received.
 */
selvage_status_t selvage_message_free(selvage_request_t **request);
/** @} */

/**
 * @name Probing
 * What the next receive with this source and tag would take. probe blocks, up to the deadline.
 * @param[out] found_out    1 if there is one
 * @param[out] status_out   its source, tag and bytes; may be NULL
 * @param[out] message_out  received by selvage_message_imrecv(); NULL if there is none
 * @return ERR_ARGUMENT, ERR_TIMEOUT, ERR_MPI, ERR_STATE
 * @{
 */
selvage_status_t selvage_message_probe(selvage_comm_t *comm, int source, int tag,
                                       selvage_message_status_t *status_out);
selvage_status_t selvage_message_iprobe(selvage_comm_t *comm, int source, int tag, int *found_out,
                                        selvage_message_status_t *status_out);
/** @brief As iprobe, and takes the message: only selvage_message_imrecv() receives it. */
selvage_status_t selvage_message_improbe(selvage_comm_t *comm, int source, int tag, selvage_message_t **message_out,
                                         selvage_message_status_t *status_out);
/** @brief Begins to receive what improbe took. As selvage_message_irecv().
 * @param[in,out] message  set to NULL */
selvage_status_t selvage_message_imrecv(selvage_message_t **message, void *buf, size_t count, MPI_Datatype type,
                                        void *stream, selvage_request_t **request);
/** @} */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
