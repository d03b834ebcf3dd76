/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchanges of one communicator, and what they share: numbers, wire tags, limits on what is in flight, and what
 * earlier commits have learnt. The communicator owns it and calls it through sv_exchange_set_ops. Engine thread only.
 */
#ifndef SV_PIPELINE_EXCHANGE_SET_H
#define SV_PIPELINE_EXCHANGE_SET_H

#include "comm/comm.h"
#include "pipeline/neighbor_table.h"

enum { SV_EXCHANGE_TAGS = 1 << 16 };

/* A handshake that came before this rank called commit; see commit_handshake.c. */
typedef struct sv_pending_handshake {
    sv_list_t link;
    int source;
    uint64_t commit, bytes;
} sv_pending_handshake_t;

typedef struct sv_exchange_set {
    sv_list_t all;                 /* every exchange that is not destroyed */
    sv_list_t active;              /* those in an epoch, which a poll advances */
    sv_list_t fallbacks;           /* ranks of the node whose memory cannot be mapped; see commit_fallback.c */
    sv_list_t pending_handshakes;
    sv_neighbor_table_t neighbors; /* ranks that commit by neighbours with this one; see commit_neighbors.c */
    uint64_t creates, commits;     /* exchanges created so far; number of the last commit */
    uint64_t neighbor_creates, neighbor_commits; /* the same of those that neighbours commit alone; of this rank */
    selvage_exchange_t *committing; /* whose commit is under way, or NULL */
    selvage_exchange_t *parting;   /* that is being destroyed, or NULL */
    uint64_t sends_in_flight, bytes_in_flight; /* bounded by requests_max and inflight_bytes */
    double probe_timeout_s;        /* how long messages of a probe of the direct route may take; see commit_probe.c */
    uint64_t tags_in_use[SV_EXCHANGE_TAGS / 64];
    int tag_next;
    unsigned warnings;             /* of bad packets so far: only the first few are logged */
    unsigned polls;                /* of exchanges that need no messages */
} sv_exchange_set_t;

extern const sv_exchange_set_ops_t sv_exchange_set_ops;

/* Gives out a wire tag that no live receive of this rank uses, and takes it back. */
selvage_status_t sv_exchange_tag_get(selvage_comm_t *comm, int *tag_out);
void sv_exchange_tag_put(selvage_comm_t *comm, int tag);

#endif
