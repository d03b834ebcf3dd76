/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What collectives must give, computed on the host without any code of the library: own conversions of every type,
 * every operation, element by element. Inputs follow from (seed, rank, index), so a rank knows what all others gave.
 *
 * Results are those in the order of ranks, 0 to n-1, with one accumulator of 32 bits for floats of 8 and 16 bits, which
 * is rounded once. For algorithms that add in another order, and round partial sums, there is a bound.
 */
#ifndef SELVAGE_TESTS_COLL_REFERENCE_H
#define SELVAGE_TESTS_COLL_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <selvage/collective.h>

/* What inputs look like. */
typedef enum coll_values {
    COLL_SMALL,                /* numbers whose sums and products are exact in any order, in every type */
    COLL_ORDERED,              /* the result depends on the order; nothing overflows */
    COLL_SPECIAL,              /* zeros of both signs, infinities, NaN, the largest and smallest among the others */
    COLL_VALUES
} coll_values_t;

/* What is added: all that a result depends on. */
typedef struct coll_terms {
    selvage_type_t type;
    selvage_op_t op;           /* SELVAGE_OP_SUM to SELVAGE_OP_AVG */
    bool scaled;               /* a SUM: each rank multiplies its input by coll_terms_scalar() first */
    coll_values_t values;
    int nranks;                /* 1 to 16; COLL_SMALL of 8-bit floats: to 8 */
    uint64_t seed;
} coll_terms_t;

size_t coll_type_bytes(selvage_type_t type);
bool coll_type_is_float(selvage_type_t type);

/* Input of a rank; its scalar. */
void coll_terms_value(const coll_terms_t *terms, int rank, uint64_t index, void *element_out);
void coll_terms_scalar(const coll_terms_t *terms, int rank, void *element_out);
/* The result in the order of ranks. */
void coll_terms_result(const coll_terms_t *terms, uint64_t index, void *element_out);
/* Whether this is that result, bit for bit; with one rank, whose input is not added to anything, any NaN is a NaN. */
bool coll_terms_exact(const coll_terms_t *terms, uint64_t index, const void *found);
/*
 * Whether it is one that another order and rounding after each step may give: no further from the exact value than
 * ((1 + u)^(n + 1) - 1) times the sum of magnitudes, u half a unit in the last place of 1, and underflow. Integers,
 * MIN, MAX and COLL_SMALL are exact in any order. Not for COLL_SPECIAL, but with MIN and MAX.
 */
bool coll_terms_near(const coll_terms_t *terms, uint64_t index, const void *found);
/* An element as a number, for messages. */
double coll_number(selvage_type_t type, const void *element);

/* A generator for cases; state is any number. Bound 0 gives 0. */
uint64_t coll_random(uint64_t *state, uint64_t bound);

#endif
