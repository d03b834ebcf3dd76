/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers, peers and checks. The same buffers serve every size and route of a run: capacity is that of the largest.
 * Nothing is cleared between epochs: each epoch has a pattern of its own, so what an earlier one left is seen as wrong.
 */
#include "tools/common/tool_traffic.h"

#include <stdio.h>
#include <stdlib.h>

enum { TAG_MESSAGE = 1, COMPLAINTS = 3, MESSAGE_MAX_BYTES = 1 << 30 };

void tool_traffic_init(tool_traffic_t *traffic, const tool_job_t *job, selvage_comm_t *comm, size_t capacity)
{
    selvage_device_t *device = selvage_comm_device(comm);
    *traffic =
        (tool_traffic_t){.job = job, .comm = comm, .device = device, .capacity = capacity, .complaints = COMPLAINTS};
    tool_try(job, "stream", selvage_stream_create(device, &traffic->stream));
    tool_try(job, "device memory", selvage_device_malloc(device, capacity, (void **)&traffic->device_send));
    tool_try(job, "device memory", selvage_device_malloc(device, capacity, (void **)&traffic->device_recv));
    tool_try(job, "pinned memory", selvage_device_host_malloc(device, capacity, (void **)&traffic->host_send));
    tool_try(job, "pinned memory", selvage_device_host_malloc(device, capacity, (void **)&traffic->host_recv));
    tool_try(job, "fill", selvage_device_fill(device, traffic->device_recv, 0xa5, capacity, traffic->stream));
    tool_try(job, "fill", selvage_device_fill(device, traffic->device_send, 0x5a, capacity, traffic->stream));
    tool_try(job, "fill", selvage_stream_synchronize(device, traffic->stream));
}

void tool_traffic_fini(tool_traffic_t *traffic)
{
    selvage_stream_destroy(traffic->device, traffic->stream);
    selvage_device_host_free(traffic->device, traffic->host_recv);
    selvage_device_host_free(traffic->device, traffic->host_send);
    selvage_device_free(traffic->device, traffic->device_recv);
    selvage_device_free(traffic->device, traffic->device_send);
}

/* The offsets that lead to another rank; returns how many. */
static int ring_offsets(const tool_ring_t *ring, int offsets[4])
{
    static const int wanted[] = {1, -1, 2, -2};
    int count = 0;
    for (int i = 0; i < 4; i++) {
        if (wanted[i] % ring->size != 0)
            offsets[count++] = wanted[i];
    }
    return count;
}

void tool_traffic_shape(tool_traffic_t *traffic, const tool_ring_t *ring, int packets, size_t bytes, bool to_self,
                        bool stay_alone)
{
    int offsets[4] = {0}, count = to_self ? 1 : ring_offsets(ring, offsets);
    if (count == 0 && stay_alone)
        count = 1;
    traffic->packets = count ? packets : 0;
    traffic->bytes = bytes;
    for (int p = 0; p < traffic->packets; p++) {
        traffic->send_peer[p] = tool_ring_peer(ring, offsets[p % count]);
        traffic->recv_peer[p] = tool_ring_peer(ring, -offsets[p % count]);
    }
}

/* Two neighbouring packets share a tag, so that packets of one pair of ranks must also be told apart by their order. */
static int packet_tag(int packet)
{
    return 100 + packet / 2;
}

selvage_status_t tool_traffic_commit(tool_traffic_t *traffic, const selvage_exchange_params_t *params,
                                     selvage_exchange_t **ex_out)
{
    selvage_exchange_t *ex;
    const tool_job_t *job = traffic->job;
    tool_try(job, "exchange_create", selvage_exchange_create(traffic->comm, params, &ex));
    for (int p = 0; p < traffic->packets; p++) {
        const size_t at = (size_t)p * traffic->bytes;
        tool_try(job, "add_send",
                 selvage_exchange_add_send(ex, traffic->device_send + at, traffic->bytes, traffic->send_peer[p],
                                           packet_tag(p), NULL));
        tool_try(job, "add_recv",
                 selvage_exchange_add_recv(ex, traffic->device_recv + at, traffic->bytes, traffic->recv_peer[p],
                                           packet_tag(p), NULL));
    }
    selvage_status_t status = selvage_exchange_commit(ex);
    if (status == SELVAGE_ERR_UNSUPPORTED) {
        selvage_exchange_destroy(ex);
        return status;
    }
    tool_try(job, "exchange_commit", status);
    *ex_out = ex;
    return SELVAGE_SUCCESS;
}

void tool_traffic_copy(tool_traffic_t *traffic, void *to, const void *from, selvage_copy_t direction)
{
    for (int p = 0; p < traffic->packets && traffic->bytes; p++) {
        const size_t at = (size_t)p * traffic->bytes;
        tool_try(traffic->job, "copy",
                 selvage_device_copy(traffic->device, (unsigned char *)to + at, (const unsigned char *)from + at,
                                     traffic->bytes, direction, traffic->stream));
    }
    tool_try(traffic->job, "copy", selvage_stream_synchronize(traffic->device, traffic->stream));
}

void tool_traffic_fill(tool_traffic_t *traffic)
{
    traffic->epoch++;
    for (int p = 0; p < traffic->packets; p++) {
        const smoke_mark_t mark = {.source = traffic->job->rank, .packet = p, .epoch = traffic->epoch};
        smoke_pattern_fill(traffic->host_send + (size_t)p * traffic->bytes, traffic->bytes, mark);
    }
    tool_traffic_copy(traffic, traffic->device_send, traffic->host_send, SELVAGE_COPY_HOST_TO_DEVICE);
}

static void complain(tool_traffic_t *traffic, smoke_mark_t mark, const smoke_damage_t *damage)
{
    char text[320];
    if (traffic->complaints == 0)
        return;
    traffic->complaints--;
    smoke_pattern_describe(text, sizeof text, mark, damage);
    fprintf(stderr, "%s: rank %d: %s%s\n", traffic->job->program, traffic->job->rank, text,
            traffic->complaints ? "" : "; no more of this rank's are described");
}

int tool_traffic_check(tool_traffic_t *traffic)
{
    int bad = 0;
    tool_traffic_copy(traffic, traffic->host_recv, traffic->device_recv, SELVAGE_COPY_DEVICE_TO_HOST);
    for (int p = 0; p < traffic->packets; p++) {
        const smoke_mark_t mark = {.source = traffic->recv_peer[p], .packet = p, .epoch = traffic->epoch};
        smoke_damage_t damage;
        if (smoke_pattern_check(traffic->host_recv + (size_t)p * traffic->bytes, traffic->bytes, mark, &damage))
            continue;
        bad++;
        complain(traffic, mark, &damage);
    }
    return bad;
}

double tool_traffic_epoch(tool_traffic_t *traffic, selvage_exchange_t *ex)
{
    tool_barrier(traffic->job);
    const double start = tool_seconds();
    tool_try(traffic->job, "exchange_start", selvage_exchange_start(ex, traffic->stream));
    tool_try(traffic->job, "exchange_wait", selvage_exchange_wait(ex, traffic->stream));
    tool_try(traffic->job, "synchronize", selvage_stream_synchronize(traffic->device, traffic->stream));
    return tool_seconds() - start;
}

/* Posts one direction of all packets, in pieces that an int can count; returns the number of requests. */
static int post_messages(tool_traffic_t *traffic, bool receive, MPI_Request *requests)
{
    int count = 0;
    for (int p = 0; p < traffic->packets; p++) {
        for (size_t at = 0; at < traffic->bytes; at += MESSAGE_MAX_BYTES) {
            const size_t left = traffic->bytes - at, offset = (size_t)p * traffic->bytes + at;
            const int bytes = left < MESSAGE_MAX_BYTES ? (int)left : MESSAGE_MAX_BYTES;
            if (receive)
                MPI_Irecv(traffic->host_recv + offset, bytes, MPI_BYTE, traffic->recv_peer[p], TAG_MESSAGE,
                          traffic->job->comm, &requests[count++]);
            else
                MPI_Isend(traffic->host_send + offset, bytes, MPI_BYTE, traffic->send_peer[p], TAG_MESSAGE,
                          traffic->job->comm, &requests[count++]);
        }
    }
    return count;
}

void tool_traffic_message(tool_traffic_t *traffic)
{
    const size_t pieces = traffic->bytes / MESSAGE_MAX_BYTES + 1;
    MPI_Request *requests = tool_malloc(traffic->job, 2 * (size_t)traffic->packets * pieces * sizeof(MPI_Request));
    int count = post_messages(traffic, true, requests);
    count += post_messages(traffic, false, requests + count);
    tool_poll(traffic->job, requests, count);
    free(requests);
}
