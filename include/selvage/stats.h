/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file stats.h
 * @brief Counters of a communicator: what was moved, and everything that went wrong and was mended.
 */
#ifndef SELVAGE_STATS_H
#define SELVAGE_STATS_H

#include <stddef.h>
#include <stdint.h>

#include <selvage/comm.h>
#include <selvage/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/**
 * Counters since the communicator was created: of all its exchanges and, where a name begins with message, of its
 * messages (message.h). Collectives have counters of their own (collective.h). Messages to or from MPI_PROC_NULL and
 * cancelled receives do not count; messages of 0 bytes do. Every damaged arrival is either repeated or failed.
 */
typedef struct selvage_stats {
    size_t struct_size;           /**< set by SELVAGE_STATS_INIT; tells how much is filled */
    uint64_t epochs;              /**< epochs completed, over all exchanges */
    uint64_t packets_sent;        /**< packets whose verdict was good (or, unchecked, whose send completed) */
    uint64_t packets_received;    /**< packets verified (or, unchecked, landed) */
    uint64_t bytes_sent;          /**< payload of packets_sent */
    uint64_t bytes_received;      /**< payload of packets_received */
    uint64_t packets_by_route[8]; /**< packets_sent by #selvage_route_t */
    uint64_t resends;             /**< packets sent again */
    uint64_t bad_digests;         /**< arrivals whose digest did not verify */
    uint64_t bad_records;         /**< arrivals whose record was not the expected one */
    uint64_t stale_discarded;     /**< messages of an old epoch or attempt, or doubled, thrown away (staged, direct) */
    uint64_t swapped_named;       /**< failed arrivals recognised as another packet or the previous epoch */
    uint64_t asked_again;         /**< times a missing packet was asked for */
    uint64_t control_damaged;     /**< control messages that did not verify and were ignored */
    uint64_t faults_injected;     /**< packets corrupted on purpose by SELVAGE_FAULT */
    uint64_t deadlines;           /**< waits that ended in SELVAGE_ERR_TIMEOUT */
    uint64_t pinned_bytes;        /**< pinned host memory of committed exchanges, now */
    uint64_t device_bytes;        /**< device memory of committed exchanges, now */
    uint64_t messages_sent;          /**< messages whose send ended with success */
    uint64_t messages_received;      /**< messages whose receive ended with success */
    uint64_t message_bytes_sent;     /**< payload of messages_sent */
    uint64_t message_bytes_received; /**< payload of messages_received */
    uint64_t messages_verified;      /**< of messages_received, those whose checksum was compared, and good; the others
                                          came with SELVAGE_CHECKSUM=off, or had no bytes and only met their receive */
    uint64_t messages_damaged;       /**< arrivals of messages here whose digest or record did not verify */
    uint64_t messages_repeated;      /**< of messages_damaged, those that were asked for, or taken, again */
    uint64_t messages_failed;        /**< of messages_damaged, those given up: the receive ended with ERR_CHECKSUM */
    uint64_t messages_mended;        /**< of messages_verified, those that had come damaged before */
    uint64_t message_requests_most;  /**< requests of messages that were open at the same time, at most */
    uint64_t message_buffers_most;   /**< staging buffers of messages in use, at most: of sends and of receives */
    uint64_t progress_queued_most;   /**< pieces of work that waited for the progress thread at the same time, at most;
                                          0 without one */
} selvage_stats_t;

/** Initialiser: `selvage_stats_t s = {SELVAGE_STATS_INIT};` */
#define SELVAGE_STATS_INIT .struct_size = sizeof(selvage_stats_t)

/** @brief The same as a function, which serves in any C++: an empty struct to be filled. Local. */
static inline selvage_stats_t selvage_stats_init(void)
{
    selvage_stats_t started = SELVAGE_ZEROED_(selvage_stats_t);
    started.struct_size = sizeof started;
    return started;
}

/**
 * @brief Copies the counters. Local; does not block.
 * @param[in,out] stats  struct_size says how much the caller knows; at most that much is written
 * @return ERR_ARGUMENT
 */
selvage_status_t selvage_comm_stats(selvage_comm_t *comm, selvage_stats_t *stats);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
