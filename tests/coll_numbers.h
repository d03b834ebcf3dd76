/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an element of a reduction must be, by arithmetic on values and not on bits, written from the guarantees in
 * doc/collectives.md: the reference for the collectives' device code.
 */
#ifndef SELVAGE_TESTS_COLL_NUMBERS_H
#define SELVAGE_TESTS_COLL_NUMBERS_H

#include <stdint.h>

#include "coll_entry.h"

unsigned coll_numbers_bytes(unsigned type);
/* The element whose bits in each source are bits[]; op, premul, scalar and divisor of c. */
uint64_t coll_numbers(const coll_case_t *c, const uint64_t *bits);

#endif
