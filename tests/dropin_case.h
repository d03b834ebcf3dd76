/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tests of the drop-in share: a call is made twice, once by its MPI_ name on memory that is the device's or the
 * host's at random, and once by its PMPI_ name on a copy in host memory; both must leave the same after. Every rank
 * draws the same random numbers.
 */
#ifndef SELVAGE_TESTS_DROPIN_CASE_H
#define SELVAGE_TESTS_DROPIN_CASE_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <selvage.h>

#include "check.h"
#include "datatype_random.h"

/* Calls one of the two. */
extern bool dropin_plain;
#define X(NAME, ...) (dropin_plain ? PMPI_##NAME(__VA_ARGS__) : MPI_##NAME(__VA_ARGS__))

/* Memory of one argument: [0] for MPI_, [1] for PMPI_, equal at first. origin: where the argument points. */
typedef struct dropin_buffer {
    uint8_t *memory[2];
    size_t bytes, origin;
    bool device;
    void *source; /* pinned: what device memory is filled from */
} dropin_buffer_t;

typedef struct dropin {
    selvage_device_t *device;
    void *stream;
    int rank, size;
    datatype_random_t random;
} dropin_t;

extern dropin_t dropin;

/* Begins and ends a test program: its arguments are a seed and a number of cases. */
void dropin_begin(int argc, char **argv, int level, int *cases_out);
int dropin_end(const char *name);

unsigned dropin_pick(unsigned n);

/* So many bytes around the origin, with guards; device: of this rank. own: contents differ from rank to rank. */
dropin_buffer_t dropin_buffer(int64_t low, int64_t high, bool device);
/* For elements of a type. */
dropin_buffer_t dropin_buffer_of(int64_t count, MPI_Datatype type, bool device);
void *dropin_argument(const dropin_buffer_t *buffer);
/* Compares every byte, and frees. */
bool dropin_same(dropin_buffer_t *buffer);
void dropin_drop(dropin_buffer_t *buffer);
/* The error class of a code. */
int dropin_class(int code);

#endif
