/* SPDX-License-Identifier: BSD-3-Clause */
/* See bench_mpi_data.h. */
#include "tools/bench_mpi/bench_mpi_data.h"

#include <string.h>

void bench_mpi_bytes(unsigned char *out, size_t from, size_t bytes, int rank, unsigned seed)
{
    const unsigned key = (unsigned)rank * 29 + seed * 101;
    for (size_t i = 0; i < bytes; i++) {
        const unsigned at = (unsigned)(from + i);
        out[i] = (unsigned char)(at * 37 + (at >> 8) * 11 + (at >> 16) * 5 + (at >> 24) * 7 + key);
    }
}

/* A multiplicative hash (Knuth, The Art of Computer Programming 3, 6.4): no two segments of an array look alike. */
static float number_at(size_t at, int rank, unsigned seed)
{
    const unsigned place = (unsigned)at * 2654435761u >> 26;
    return (float)(int)((place + (unsigned)rank * 5 + seed) & 63);
}

void bench_mpi_numbers(float *out, size_t from, size_t count, int rank, unsigned seed)
{
    for (size_t i = 0; i < count; i++)
        out[i] = number_at(from + i, rank, seed);
}

void bench_mpi_sums(float *out, size_t from, size_t count, int ranks, unsigned seed)
{
    memset(out, 0, count * sizeof *out);
    for (int rank = 0; rank < ranks; rank++) {
        for (size_t i = 0; i < count; i++)
            out[i] += number_at(from + i, rank, seed);
    }
}
