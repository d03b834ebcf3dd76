/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file comm.h
 * @brief Communicators: an MPI communicator wrapped together with a device, the routes of a node and a deadline.
 */
#ifndef SELVAGE_COMM_H
#define SELVAGE_COMM_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#include <selvage/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** A wrapped communicator (opaque). */
typedef struct selvage_comm selvage_comm_t;
/** A device: a GPU, or the software device (opaque). */
typedef struct selvage_device selvage_device_t;
/** A user buffer that peers of the node may map (opaque). */
typedef struct selvage_buffer selvage_buffer_t;

/** How a packet travels. DEFAULT lets commit choose. */
typedef enum selvage_route {
    SELVAGE_ROUTE_DEFAULT = 0, /**< self, else peer within the node, else staged */
    SELVAGE_ROUTE_SELF = 1,    /**< a rank to itself, on its device */
    SELVAGE_ROUTE_PEER = 2,    /**< device to device within the node */
    SELVAGE_ROUTE_SHARED = 3,  /**< through node-shared pinned memory */
    SELVAGE_ROUTE_STAGED = 4,  /**< through pinned memory and a host MPI message */
    SELVAGE_ROUTE_DIRECT = 5   /**< device memory handed to an MPI that proves able; only when asked for */
} selvage_route_t;

/**
 * @brief Whether the program runs with an MPI of the kind that this library was built for.
 *
 * Open MPI has nothing in common with MPICH, and with those that share MPICH's binary interface, below the names. A
 * program that mixes them crashes in its first call, so selvage_comm_create() asks this first. Local; any thread; may
 * be called before MPI_Init.
 *
 * @return SUCCESS, also where it cannot be told; ERR_UNSUPPORTED with the names of both in the detail
 */
selvage_status_t selvage_mpi_check(void);

/** Parameters of selvage_comm_create(). Every member but struct_size may stay zero. */
typedef struct selvage_comm_params {
    size_t struct_size;       /**< sizeof of this struct, set by SELVAGE_COMM_PARAMS_INIT */
    selvage_device_t *device; /**< device to use; NULL: the one SELVAGE_DEVICE names. Borrowed: outlives the comm */
    double timeout_s;         /**< deadline of every wait in seconds; 0: SELVAGE_TIMEOUT_S; -1: none */
    size_t message_slot_bytes; /**< up to here messages between GPUs of a node wait in slots of their receiver's, four
                                    for each neighbour that sends, made when the first comes; 0: 1 MiB, or 128 times
                                    SELVAGE_MESSAGE_EAGER_BYTES if that is less. Ranks that differ have none */
    int device_later;         /**< not 0: no device is opened; selvage_comm_set_device() gives one. device is NULL */
} selvage_comm_params_t;

/** Initialiser: `selvage_comm_params_t p = {SELVAGE_COMM_PARAMS_INIT};` */
#define SELVAGE_COMM_PARAMS_INIT .struct_size = sizeof(selvage_comm_params_t)

/** @brief The same as a function, which serves in any C++: parameters that are all default. Local. */
static inline selvage_comm_params_t selvage_comm_params_init(void)
{
    selvage_comm_params_t started = SELVAGE_ZEROED_(selvage_comm_params_t);
    started.struct_size = sizeof started;
    return started;
}

/**
 * @brief Wraps @p mpi_comm. Reads the SELVAGE_ variables, opens the device, finds out who shares the node.
 *
 * Collective over @p mpi_comm; blocks; not stream-ordered. MPI must be initialised. Selvage makes communicators of its
 * own: its messages never meet the caller's, and the caller may free @p mpi_comm at once. Making them has no deadline;
 * what follows has. A thread level below MPI_THREAD_FUNNELED is told at log level info; SELVAGE_PROGRESS=thread needs
 * MPI_THREAD_MULTIPLE. With MPI_THREAD_SINGLE and MPI_THREAD_FUNNELED only the thread that creates a communicator may
 * use it and what is made of it: calls of others return ERR_STATE.
 *
 * @param[in]  mpi_comm  an intra-communicator
 * @param[in]  params    NULL for defaults
 * @param[out] comm_out  owned by the caller; freed by selvage_comm_destroy()
 * @return ERR_ARGUMENT and ERR_STATE (MPI not initialised or finalised) at once, on the rank that finds them, as
 *         is ERR_UNSUPPORTED from selvage_mpi_check(); all other errors end the call on every rank: ERR_CONFIG,
 *         ERR_MISMATCH (ranks have different settings: the variable is named), ERR_UNSUPPORTED (a progress thread
 *         without MPI_THREAD_MULTIPLE), ERR_MPI, ERR_DEVICE, ERR_MEMORY, ERR_PEER, ERR_SYSTEM, ERR_TIMEOUT
 */
selvage_status_t selvage_comm_create(MPI_Comm mpi_comm, const selvage_comm_params_t *params,
                                     selvage_comm_t **comm_out);

/**
 * @brief Frees a communicator. Exchanges and buffers made on it must have been destroyed; what was not is reported.
 *
 * Collective; blocks until all ranks have come, at most for the deadline or 30 s, whichever is less. Accepts NULL.
 * Writes the timeline if SELVAGE_TRACE is set. A communicator still alive at MPI_Finalize is quiesced and reported
 * there; it may be destroyed after it, without the timeline.
 */
void selvage_comm_destroy(selvage_comm_t *comm);

/** @brief Rank of the caller in the wrapped communicator. Local; -1 for NULL. */
int selvage_comm_rank(const selvage_comm_t *comm);

/** @brief Number of ranks of the wrapped communicator. Local; -1 for NULL. */
int selvage_comm_size(const selvage_comm_t *comm);

/** @brief Number of ranks on the caller's node, virtual nodes counted as nodes. Local; -1 for NULL. */
int selvage_comm_node_size(const selvage_comm_t *comm);

/**
 * @brief What host messages may go by, for people: "mpi", or "ucx 1.13.1: tcp/lo, tcp/eth0" with UCX's version, and
 * all transports and devices that UCX has found on this rank. Which of them lead to a rank, UCX chooses. Local; "" for
 * NULL.
 * @return text of the communicator's, which lives as long as that
 */
const char *selvage_comm_wire(const selvage_comm_t *comm);

/**
 * @brief The communicator's device: the one passed in, or the one it opened. Local; borrowed; NULL for NULL, and where
 * selvage_comm_set_device() has not been called yet.
 */
selvage_device_t *selvage_comm_device(const selvage_comm_t *comm);

/**
 * @brief Gives a communicator its device, if it was created with `device_later`.
 *
 * Local; does not block. Ranks may do so at different times, and some never: until then calls on the rank that need a
 * device return ERR_STATE, and what others send to it waits. It is for messages. Since no rank is told which GPUs the
 * others have, ranks with GPUs are treated as ranks that share one: exchanges do without kernels that wait for other
 * ranks, and there are no collectives.
 *
 * @param[in] comm    communicator
 * @param[in] device  borrowed: outlives the communicator
 * @return ERR_STATE if it has a device already; ERR_ARGUMENT, ERR_MEMORY, ERR_DEVICE
 */
selvage_status_t selvage_comm_set_device(selvage_comm_t *comm, selvage_device_t *device);

/**
 * @brief Advances everything of the communicator as far as it can go, and returns.
 *
 * Local; never blocks. Needed only where neither wait nor test is called for long and SELVAGE_PROGRESS is inline; with
 * a progress thread it does nothing.
 *
 * @return SUCCESS; errors belong to the exchanges and are returned by their own calls. ERR_ARGUMENT for NULL.
 */
selvage_status_t selvage_progress(selvage_comm_t *comm);

/**
 * @brief Exports a device buffer to the peers of the node, so that the `peer` route writes straight into it.
 *
 * Local; does not block. The caller keeps the memory and must unregister before freeing it. Commit looks for a buffer
 * that holds the whole receive; what is registered later counts for later commits. Receives into memory that is not
 * registered work as well: they land in a slab of Selvage's own and are copied on the device.
 *
 * @param[in]  comm     communicator
 * @param[in]  ptr      within one plain allocation of the device (doc/memory.md lists the kinds), any alignment
 * @param[in]  bytes    at least 1
 * @param[out] buf_out  owned by the caller; freed by selvage_buffer_unregister()
 * @return ERR_ARGUMENT, ERR_MEMORY, ERR_UNSUPPORTED (this kind of memory cannot be exported)
 */
selvage_status_t selvage_buffer_register(selvage_comm_t *comm, void *ptr, size_t bytes, selvage_buffer_t **buf_out);

/**
 * @brief Withdraws a registered buffer. Local; does not block; accepts NULL.
 * @return ERR_STATE while a committed exchange receives into it
 */
selvage_status_t selvage_buffer_unregister(selvage_buffer_t *buf);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
