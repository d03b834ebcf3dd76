/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who sends to whom. Packet 2d goes up and packet 2d + 1 down in dimension d, at every rank alike: so the packets of a
 * pair of ranks that meet in several ways are in the same order at both. In a dimension of two ranks both packets go to
 * one rank, in a dimension of one they stay.
 */
#include "tools/bench/bench_run.h"

int bench_pattern_packets(bench_pattern_t pattern)
{
    static const int packets[BENCH_PATTERNS] = {1, 2, 6, 8};
    return packets[pattern];
}

/* The first dimension varies slowest. */
static int neighbour(int rank, const int *extent, int ndims, int along, int step)
{
    int stride = 1;
    for (int d = ndims - 1; d > along; d--)
        stride *= extent[d];
    const int at = rank / stride % extent[along];
    const int to = (at + step + extent[along]) % extent[along];
    return rank + (to - at) * stride;
}

int bench_shape(tool_traffic_t *traffic, bench_pattern_t pattern, size_t bytes, bool to_self)
{
    static const int dimensions[BENCH_PATTERNS] = {1, 1, 3, 4};
    const int rank = traffic->job->rank, ndims = dimensions[pattern];
    int extent[4] = {0};
    MPI_Dims_create(traffic->job->size, ndims, extent);
    traffic->packets = bench_pattern_packets(pattern);
    traffic->bytes = bytes;
    for (int p = 0; p < traffic->packets; p++) {
        const int step = p % 2 ? -1 : 1;
        traffic->send_peer[p] = to_self ? rank : neighbour(rank, extent, ndims, p / 2, step);
        traffic->recv_peer[p] = to_self ? rank : neighbour(rank, extent, ndims, p / 2, -step);
    }
    return traffic->packets;
}
