/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who is to blame for the time that ranks spend in epochs and collectives.
 *
 * Of each epoch of each rank there is a span, from when its first block began to when its last one left. What it waited
 * for at last is the packet that was verified last. Its span is cut where that packet's life is: the sender began, had
 * leave, had stored it, had signalled; the receiver saw it, had stored it, had verified it. What lies before the
 * sender's beginning is asked of the sender: it was in an epoch of its own then, and waited for somebody else, or was
 * busy with other things. So a rank that waits passes the blame on. In a collective everybody waits for the rank that
 * comes last.
 *
 * Every nanosecond of every span has one cause. Spans of a rank do not overlap: one that began before the last one
 * ended counts from there.
 */
#ifndef SELVAGE_TOOLS_TRACE_BLAME_H
#define SELVAGE_TOOLS_TRACE_BLAME_H

#include "tools/trace/trace_file.h"

typedef enum trace_cause_kind {
    TRACE_BUSY,   /* a rank had not begun, and waited for nobody */
    TRACE_LEAVE,  /* a receiver had not given its slot back */
    TRACE_STORE,  /* a sender gathered, summed and stored */
    TRACE_SIGNAL, /* a sender wrote the record and the words */
    TRACE_LINK,   /* from one rank's signal to when another one saw it */
    TRACE_MOVE,   /* a receiver summed and stored, */
    TRACE_VERIFY, /* compared, */
    TRACE_END,    /* and told the others; or its last block left */
    TRACE_CALL,   /* a collective, once all ranks had come */
    TRACE_CAUSES
} trace_cause_kind_t;

typedef struct trace_cause {
    trace_cause_kind_t kind;
    int rank, peer;              /* of a LINK from rank to peer; else peer is -1 */
    int64_t ns, longest_ns;      /* all together; the longest at a time, */
    uint64_t times;
    uint32_t exchange;           /* and where that was */
    uint64_t epoch;
} trace_cause_t;

/* One rank's time between its first beginning and its last end. */
typedef struct trace_share {
    uint64_t spans;
    int64_t first_ns, last_ns;
    int64_t wait_ns, store_ns, verify_ns, end_ns; /* in spans, as the rank itself sees its last packets */
    int64_t between_ns;          /* between spans */
} trace_share_t;

typedef struct trace_blame {
    trace_cause_t *causes;       /* the greatest first */
    size_t ncauses, room;
    trace_share_t *shares;       /* by rank */
    int64_t total_ns;            /* of all spans of all ranks */
} trace_blame_t;

/* False: no memory. Partner: trace_blame_free(). */
bool trace_blame_find(const trace_file_t *file, trace_blame_t *blame_out);
void trace_blame_free(trace_blame_t *blame);

/* The cause that stands out most: by how much it is above the median of its kind. excess_ns_out: by that. NULL if there
   are none. */
const trace_cause_t *trace_blame_worst(const trace_blame_t *blame, int nranks, int64_t *excess_ns_out);

#endif
