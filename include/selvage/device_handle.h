/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file device_handle.h
 * @brief Part of device_api.h, which includes it: what an exchange is to a kernel. Plain C and C++.
 */
#ifndef SELVAGE_DEVICE_HANDLE_H
#define SELVAGE_DEVICE_HANDLE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Words of the library's own about one packet of a session; see selvage_device_packet_t. */
typedef struct selvage_device_scratch {
    struct {
        uint64_t sum, bytes;   /**< of the parts that are closed; odd and even epochs apart */
        uint32_t parts_closed, reserved;
    } turn[2];
    uint64_t epoch;            /**< the last closed in this session; 0: none */
    uint64_t reserved;
} selvage_device_scratch_t;

/** A box, or a list, of cells in a packet of a halo. Its members are the library's. */
typedef struct selvage_device_piece {
    int64_t offset;            /**< of unit 0 in the field */
    uint64_t bytes;            /**< in the field; in the packet it is filled up to a multiple of 16 */
    uint64_t first_word;       /**< in the packet */
    int64_t top_stride;
    struct {
        int64_t stride;
        uint32_t count, magic; /**< number / count is the upper word of number * magic, shifted right */
    } level[4];
    uint8_t shift[8];
    const int64_t *offsets;
    const uint32_t *begins;
    uint32_t count, granule, first_unit, run_units, levels, base, padded, number;
} selvage_device_piece_t;

/** What kernels know of a packet, in device memory. Its members are the library's. */
typedef struct selvage_device_packet {
    uint8_t *slot;             /**< of even epochs, in the receiver's memory */
    uint64_t slot_stride;      /**< to that of odd ones */
    uint64_t record_offset;    /**< in a slot; a line of 64 bytes after it is the word that says that all is there */
    uint64_t bytes;
    uint64_t *credit;          /**< the sender's word: which epochs may be stored */
    uint64_t *done;            /**< told at the end of a session: the own host (sent, or verified) ... */
    uint64_t *verdict, *leave; /**< ... and of a packet that was received, its sender's host */
    selvage_device_scratch_t *scratch;
    const selvage_device_piece_t *pieces; /**< of a halo: where its cells lie */
    uint64_t npieces;
    uint64_t key_base;         /**< of the digest: all but the epoch of what it is made of before that */
    uint64_t identity[8];      /**< the record, as words */
    uint32_t within_rank;      /**< its sender is its receiver */
    uint32_t index;
    uint32_t looks;            /**< received: it may be read ahead of its word, if its digest proves it */
    uint32_t reserved;
} selvage_device_packet_t;

/** Words that blocks of a session share. Their members are the library's. */
typedef struct selvage_device_state {
    uint32_t poisoned, reserved[15];
    uint32_t arrived, reserved_1[15]; /**< of selvage_device_sync() */
    uint32_t left, reserved_2[15];    /**< blocks */
    uint64_t last_epoch;              /**< of the last session that was left */
    uint64_t reserved_3[7];
} selvage_device_state_t;

/** What a session may fail of. */
typedef enum selvage_device_failure {
    SELVAGE_DEVICE_ABSENT = 1,  /**< a packet did not come before the deadline */
    SELVAGE_DEVICE_DAMAGED = 2, /**< a packet did not verify */
    SELVAGE_DEVICE_NO_SLOT = 3, /**< a receiver did not give a slot back before the deadline */
    SELVAGE_DEVICE_EARLY = 4,   /**< the kernel left before all packets of all epochs were closed */
    SELVAGE_DEVICE_SYNC = 5,    /**< a block did not come to selvage_device_sync() before the deadline */
    SELVAGE_DEVICE_MISUSE = 6   /**< a rule was broken (SELVAGE_DEVICE_DEBUG) */
} selvage_device_failure_t;

/** The first failure, in pinned memory. Its members are the library's. */
typedef struct selvage_device_report {
    uint64_t failure;           /**< selvage_device_failure_t; written last; 0: none */
    uint64_t epoch, sends, index;
    uint64_t expected, found;   /**< digests; of a misuse: which rule, and the number that breaks it */
    uint64_t record_ok;
    uint64_t reserved;
} selvage_device_report_t;

/**
 * An exchange, or the exchange of a halo, as kernels know it, for one session. Passed by value. epochs, first_epoch,
 * nsends and nrecvs may be read; the other members are the library's.
 */
typedef struct selvage_device_exchange {
    const selvage_device_packet_t *sends, *recvs;
    selvage_device_state_t *state;
    selvage_device_report_t *report;
    uint64_t *abort;
    uint64_t first_epoch;       /**< number of epoch 0 of the session, as selvage_exchange_epoch() counts */
    uint64_t wait_ns;
    uint32_t epochs;            /**< of the session */
    uint32_t nsends, nrecvs;
    uint32_t checks;            /**< 0: no checksums */
} selvage_device_exchange_t;

#ifdef __cplusplus
}
#endif
#endif
