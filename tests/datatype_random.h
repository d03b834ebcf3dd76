/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random datatypes of a given size: nests of every constructor that exchanges take, down to predefined types. All
 * numbers come from the generator that is given, so ranks that have its state make the same type.
 */
#ifndef SELVAGE_TESTS_DATATYPE_RANDOM_H
#define SELVAGE_TESTS_DATATYPE_RANDOM_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct datatype_random {
    uint64_t state;
    bool overlaps;           /* elements may lie on each other: types that can only be sent */
    int made[32];            /* how often each constructor was used, by its combiner */
} datatype_random_t;

/* A number below n, which is at least 1. */
unsigned datatype_pick(datatype_random_t *random, unsigned n);

/* A size that can be divided in many ways, at most max_bytes. */
int datatype_pick_bytes(datatype_random_t *random, int max_bytes);

/* A committed type of so many bytes, which spans at most span_max; freed by datatype_drop(). */
MPI_Datatype datatype_make(datatype_random_t *random, int bytes, int64_t span_max);

/* Frees a type unless it is predefined, and sets it to MPI_DATATYPE_NULL. */
void datatype_drop(MPI_Datatype *type);

/* Derived types that were made and still exist, inner types of others too: counted by attributes that go with them. */
int datatype_alive(void);

#endif
