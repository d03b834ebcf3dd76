/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A timeline that was written with SELVAGE_TRACE and SELVAGE_TRACE_KERNELS=on, as far as selvage-trace looks at it:
 * what the blocks of kernels did for each packet and for each call of a collective. The file has an event in each line,
 * as the library writes it. Times are nanoseconds of rank 0's clock.
 */
#ifndef SELVAGE_TOOLS_TRACE_FILE_H
#define SELVAGE_TOOLS_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum trace_role {
    TRACE_SEND,  /* a packet leaves: push or gather */
    TRACE_RECV,  /* a packet lands: pull or scatter */
    TRACE_COLL,  /* a collective */
    TRACE_PAIR   /* sends and receives of collectives, which no other rank's need match */
} trace_role_t;

typedef enum trace_stamp {
    TRACE_BEGAN, TRACE_PACKED, TRACE_STORED, TRACE_SIGNALLED, TRACE_SAW, TRACE_VERIFIED, TRACE_LEFT, TRACE_STAMPS
} trace_stamp_t;

/* What all blocks of a rank did for one packet or call. */
typedef struct trace_end {
    uint32_t exchange;           /* or communicator */
    uint64_t epoch;              /* or sequence number of the call; of a PAIR the launch */
    unsigned turn;               /* of a COLL: how many communicators before had the same number, and are gone */
    int rank, peer;              /* peer -1: none */
    uint32_t launch;
    trace_role_t role;
    int64_t packet;              /* the sender's index; -1: none */
    int64_t at_ns[TRACE_STAMPS]; /* BEGAN of the first block, else of the last; 0: none took it */
    char name[24];
} trace_end_t;

/* What the file says of a rank's stamps as a whole. */
typedef struct trace_rank {
    bool here;
    uint64_t groups, lost, unfinished, overwritten;
    uint64_t resolution_ns, device_error_ns, host_error_ns;
} trace_rank_t;

typedef struct trace_file {
    trace_end_t *ends;           /* in the order of trace_end_order() */
    size_t nends, room;
    trace_rank_t *ranks;
    int nranks;                  /* one more than the highest */
} trace_file_t;

/* By kind of thing, exchange, epoch, turn, rank, role, packet, peer. */
int trace_end_order(const void *a, const void *b);

/* False: error_text says why. A file without stamps is read, and has no ends. Partner: trace_file_free(). */
bool trace_file_read(const char *path, trace_file_t *file_out, char *error_text, size_t error_bytes);
void trace_file_free(trace_file_t *file);

#endif
