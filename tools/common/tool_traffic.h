/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packets a tool sends round a ring: buffers on the device and on the host, peers, patterns, and the exchange made
 * of them. Packets lie end to end, so that odd sizes also give odd addresses. Packet p of every rank goes the same
 * number of places along the ring, so the p-th receive is the p-th send of the peer it comes from.
 * One thread; the caller keeps job, device and ring alive.
 */
#ifndef SELVAGE_TOOL_TRAFFIC_H
#define SELVAGE_TOOL_TRAFFIC_H

#include "tools/common/smoke_pattern.h"
#include "tools/common/tool_job.h"

typedef struct tool_traffic {
    const tool_job_t *job;
    selvage_comm_t *comm;
    selvage_device_t *device; /* borrowed from comm */
    void *stream;
    size_t capacity; /* of each buffer below, in bytes */
    unsigned char *device_send, *device_recv, *host_send, *host_recv;
    int packets;  /* of this rank; set by tool_traffic_shape() */
    size_t bytes; /* of each packet */
    int send_peer[SMOKE_PATTERN_PACKETS_MAX], recv_peer[SMOKE_PATTERN_PACKETS_MAX];
    uint64_t epoch; /* fills so far, over everything */
    int complaints; /* descriptions of bad packets still to be printed */
} tool_traffic_t;

void tool_traffic_init(tool_traffic_t *traffic, const tool_job_t *job, selvage_comm_t *comm, size_t capacity);
void tool_traffic_fini(tool_traffic_t *traffic);

/* Neighbours one and two places away, both ways, in turn; with to_self every packet stays. A ring of one rank has no
   neighbours: its packets stay if stay_alone, else there are none. */
void tool_traffic_shape(tool_traffic_t *traffic, const tool_ring_t *ring, int packets, size_t bytes, bool to_self,
                        bool stay_alone);

/* Makes and commits the exchange of these packets. Collective. Only ERR_UNSUPPORTED is returned, others end the job. */
selvage_status_t tool_traffic_commit(tool_traffic_t *traffic, const selvage_exchange_params_t *params,
                                     selvage_exchange_t **ex_out);

/* Writes a new epoch's pattern into the send buffers on the device. Complete on return. */
void tool_traffic_fill(tool_traffic_t *traffic);

/* Copies what arrived back and checks it element by element; says on standard error what is wrong. Returns the number
   of bad packets. */
int tool_traffic_check(tool_traffic_t *traffic);

/* One epoch of the exchange, to the end on the device; seconds since the common start. Collective. */
double tool_traffic_epoch(tool_traffic_t *traffic, selvage_exchange_t *ex);

/* Copies every packet, one copy each, between two of the buffers; returns once it is complete. */
void tool_traffic_copy(tool_traffic_t *traffic, void *to, const void *from, selvage_copy_t direction);

/* Sends every packet from pinned memory to where the exchange sends it, by MPI alone. Collective. */
void tool_traffic_message(tool_traffic_t *traffic);

#endif
