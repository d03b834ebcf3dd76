/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the Jacobi programs want of a device. jacobi_cuda.cu does it with CUDA or HIP, jacobi_soft.c on the software
 * device; the programs know no more than this and MPI.
 */
#ifndef JACOBI_DEVICE_H
#define JACOBI_DEVICE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of a rank: nrows of nx cells in a frame of one cell; the first cell of the square has the coordinates (1, 1). */
typedef struct jacobi_block {
    int nx, nrows, first; /* first: y of the first own row */
    int ny;               /* of the whole square */
} jacobi_block_t;

/* Chooses the GPU of this rank: the n-th of the host's. */
void jacobi_choose(int local_rank);
const char *jacobi_kind(void);

double *jacobi_new(size_t numbers);
void jacobi_delete(double *u);
double *jacobi_new_pinned(size_t numbers);
void jacobi_delete_pinned(double *u);

/* Blocking copies of numbers, down and up. */
void jacobi_get(double *host, const double *device, size_t numbers);
void jacobi_put(double *device, const double *host, size_t numbers);

/* sin(pi x / (nx + 1)) sin(pi y / (ny + 1)), 0 on the frame of the square: everywhere in the block and its frame. */
void jacobi_fill(double *u, const jacobi_block_t *block);

/* Every own cell of next is the mean of the four neighbours in u; *change, on the device, the sum of the squares of
   what that changed. Returns at once; later calls come after it. */
void jacobi_step(const double *u, double *next, double *change, const jacobi_block_t *block);

/* Waits for the steps so far. */
void jacobi_wait(void);

#ifdef __cplusplus
}
#endif
#endif
