/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What each rank sends: bytes, or reals that are small whole numbers, so that sums have one value in whatever order.
 * Both follow from rank, place and seed; the seed is another one in each cell, so that old data is seen. The functions
 * have no state.
 */
#ifndef SELVAGE_BENCH_MPI_DATA_H
#define SELVAGE_BENCH_MPI_DATA_H

#include <stddef.h>

enum { BENCH_MPI_POISON = 0xee }; /* what recv holds before data comes */

/* Bytes from place `from` on. */
void bench_mpi_bytes(unsigned char *out, size_t from, size_t bytes, int rank, unsigned seed);
/* Numbers of one rank, or the sum of those of the first `ranks`. */
void bench_mpi_numbers(float *out, size_t from, size_t count, int rank, unsigned seed);
void bench_mpi_sums(float *out, size_t from, size_t count, int ranks, unsigned seed);

#endif
