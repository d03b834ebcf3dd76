/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timeline and the flight recorder: one kind of record, two rings.
 *
 * - The flight recorder always runs. It holds the last SV_FLIGHT_RECORDS records of a communicator. They are written as
 *   text on SIGUSR1, on a deadline and on an error, with async-signal-safe calls only.
 * - The timeline runs when SELVAGE_TRACE names a file. It takes up to SELVAGE_TRACE_EVENTS records, then stops and
 *   counts what it dropped. It becomes a Chrome trace (JSON), pid = rank, tid = lane.
 *
 * Adding a record neither allocates, locks nor makes a system call. One writer at a time uses an sv_trace_t: whoever
 * drives the engine. A signal handler may read concurrently and may see one torn record.
 */
#ifndef SV_BASE_TRACE_H
#define SV_BASE_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <selvage/status.h>

/* X(name, text, lane, is_span): what a record says. PHASE has seven lanes, one for each phase, from its own on. */
#define SV_TRACE_TABLE(X)                            \
    X(START, "start", 0, 0)                          \
    X(EPOCH, "epoch", 0, 1)                          \
    X(PHASE, "phase", 1, 1)                          \
    X(PREPARE, "prepare", 8, 1)                      \
    X(D2H, "device to host", 9, 1)                   \
    X(SEND, "send", 10, 1)                           \
    X(RECV, "receive", 11, 1)                        \
    X(H2D, "host to device", 12, 1)                  \
    X(D2D, "device to device", 13, 1)                \
    X(VERIFY, "verify", 14, 1)                       \
    X(READY, "ready", 15, 0)                         \
    X(VERDICT_SENT, "verdict sent", 15, 0)           \
    X(VERDICT_SEEN, "verdict seen", 15, 0)           \
    X(ASK, "asked again", 15, 0)                     \
    X(RESEND, "resend", 15, 0)                       \
    X(BAD, "bad packet", 15, 0)                      \
    X(STALE, "stale discarded", 15, 0)               \
    X(FAULT, "fault injected", 15, 0)                \
    X(WAIT, "wait", 16, 1)                           \
    X(POISON, "poisoned", 15, 0)                     \
    X(COMMIT, "commit", 0, 1)

typedef enum sv_trace_kind {
#define SV_TRACE_ENUM_(name, text, lane, is_span) SV_TRACE_##name,
    SV_TRACE_TABLE(SV_TRACE_ENUM_)
#undef SV_TRACE_ENUM_
        SV_TRACE_KINDS
} sv_trace_kind_t;

enum { SV_FLIGHT_RECORDS = 1024 };

typedef struct sv_trace_record {
    uint64_t begin_ns;
    uint64_t end_ns;     /* 0 for an instant */
    uint64_t epoch;
    uint64_t value;      /* bytes; for PHASE the phase number; for BAD the attempt, for FAULT a code */
    uint32_t packet;     /* the sender's index; UINT32_MAX: none */
    int32_t peer;        /* -1: none */
    uint16_t kind;
    uint16_t route;      /* selvage_route_t */
    uint32_t exchange;   /* low bits of the exchange id */
} sv_trace_record_t;

typedef struct sv_trace {
    int rank;
    bool timeline_on;
    uint64_t timeline_capacity, timeline_count, timeline_dropped;
    sv_trace_record_t *timeline;              /* owned */
    uint64_t flight_count;                    /* grows; slot is count % SV_FLIGHT_RECORDS */
    sv_trace_record_t flight[SV_FLIGHT_RECORDS];
    char flight_path[560];                    /* "" for standard error */
    struct sv_trace *next;                    /* in the list that the signal handler walks */
} sv_trace_t;

/*
 * Time stamps of blocks of a kernel, in the order of SV_STAMP_ (kernel_args.h). X(name, text, part): part is what the
 * time before the stamp went by with, since the stamp that came before it in time.
 */
#define SV_TRACE_STAMPS_TABLE(X)          \
    X(BEGAN, "began", "")                 \
    X(PACKED, "packed", "pack")           \
    X(STORED, "stored", "store")          \
    X(SIGNALLED, "signalled", "signal")   \
    X(SAW, "saw", "wait")                 \
    X(VERIFIED, "verified", "verify")     \
    X(LEFT, "left", "leave")

enum {
#define SV_TRACE_STAMP_ENUM_(name, text, part) SV_TRACE_STAMP_##name,
    SV_TRACE_STAMPS_TABLE(SV_TRACE_STAMP_ENUM_)
#undef SV_TRACE_STAMP_ENUM_
        SV_TRACE_STAMPS
};

/* What blocks do. Collectives are numbered by their calls (coll_args.h), from SV_TRACE_BLOCKS_COLL + 1. */
enum { SV_TRACE_BLOCKS_PUSH, SV_TRACE_BLOCKS_GATHER, SV_TRACE_BLOCKS_PULL, SV_TRACE_BLOCKS_SCATTER,
       SV_TRACE_BLOCKS_COLL = 16, SV_TRACE_BLOCKS_KINDS = 25 };

/* A group of blocks of one launch that work on one packet, or on one piece of work of a collective. */
enum { SV_TRACE_GROUP_BLOCKS = 8 };
typedef struct sv_trace_blocks {
    uint64_t at_ns[SV_TRACE_STAMPS]; /* host's clock. BEGAN of the first block, else of the last; 0: none has it */
    uint64_t last_began_ns;
    uint64_t epoch;        /* of collectives, the sequence number of the call */
    uint64_t bytes;        /* of the packet, or of what the call gives in on this rank */
    uint32_t packet;       /* the sender's index; of collectives UINT32_MAX */
    int32_t peer;          /* -1: none */
    uint16_t kind;         /* SV_TRACE_BLOCKS_ */
    uint16_t route;        /* selvage_route_t */
    uint32_t exchange;     /* low bits of the exchange's id, or a number of the collective's communicator */
    uint32_t launch;       /* from 1: which launch of this rank */
    uint32_t first, count; /* which blocks of the packet or work */
    uint32_t times;        /* how often it was recorded: in a graph, the last replay is what remains */
} sv_trace_blocks_t;

/* What is known of a rank's stamps as a whole. */
typedef struct sv_trace_blocks_head {
    uint64_t count;         /* groups of blocks */
    uint64_t lost;          /* lines for which there was no room */
    uint64_t unfinished;    /* lines of blocks that began and did not end */
    uint64_t overwritten;   /* recordings that a later one took the place of */
    uint64_t resolution_ns; /* of the device's clock */
    uint64_t device_error_ns; /* by how much device and host may be apart, */
    uint64_t host_error_ns; /* and the hosts of this rank and of rank 0 */
} sv_trace_blocks_head_t;

/*
 * In place. timeline_events 0: no timeline. flight_file "": standard error, else ".RANK" is appended. with_signal:
 * registers for SIGUSR1, and installs the handler if the signal has its default action. Partner: sv_trace_fini().
 */
selvage_status_t sv_trace_init(sv_trace_t *trace, int rank, uint64_t timeline_events, const char *flight_file,
                               bool with_signal);
void sv_trace_fini(sv_trace_t *trace);

/* Adds a record to the flight recorder and, if on, the timeline. */
void sv_trace_add(sv_trace_t *trace, const sv_trace_record_t *record);

/*
 * Writes the flight recorder as text to its file (appending) or standard error, oldest record first, times relative to
 * the newest. Async-signal-safe. why: a short text.
 */
void sv_trace_flight_write(const sv_trace_t *trace, const char *why);

/*
 * Writes a Chrome trace: {"traceEvents":[...]} with process and lane names. sv_trace_json_begin opens the file,
 * _records appends the records of one rank (shifted by offset_ns), and _end closes it.
 *
 * Spans are "X" events and instants "i" events; ts and dur are in microseconds. The args are {packet, peer, epoch,
 * bytes, route, exchange}; packet and peer are -1 for none. An event is named by its kind's text ("send"), and a PHASE
 * by "phase NAME". In place of "bytes" a PHASE has "phase"; BAD, FAULT and POISON have "code".
 */
selvage_status_t sv_trace_json_begin(const char *path, FILE **file_out);
void sv_trace_json_records(FILE *file, int rank, int64_t offset_ns, const sv_trace_record_t *records, uint64_t count);
/*
 * The same of groups of blocks, which must be in the order in which they began. Each is a span in a lane that nothing
 * else uses meanwhile, cut into its parts; its args have everything of sv_trace_blocks_t, times in microseconds. lanes
 * is all 0 before the first call for a rank. sv_trace_json_blocks_head() writes the head as metadata named
 * selvage_kernels, which viewers ignore.
 */
enum { SV_TRACE_BLOCK_LANES = 96, SV_TRACE_FIRST_BLOCK_LANE = 100 };
void sv_trace_json_blocks_head(FILE *file, int rank, const sv_trace_blocks_head_t *head);
void sv_trace_json_blocks(FILE *file, int rank, const sv_trace_blocks_t *blocks, uint64_t count,
                          uint64_t lanes[SV_TRACE_BLOCK_LANES]);

selvage_status_t sv_trace_json_end(FILE *file, const char *path);

#endif
