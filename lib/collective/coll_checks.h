/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that travel through a sum: elements before a vector, of its type, which are added as the vector's are, by
 * whoever adds. Afterwards they say whether the sum is that of what was given, because they are sums themselves. For
 * integers, which wrap, they are exact: two sums of all elements, each with odd weights that differ from place to
 * place, so that no change of one element passes. For floats there are the sum and the sum of magnitudes, and the
 * difference is to be within what rounding can explain: so large damage is found, and small damage is not. Pure.
 */
#ifndef SV_COLL_CHECKS_H
#define SV_COLL_CHECKS_H

#include <stdbool.h>
#include <stdint.h>

enum { SV_COLL_CHECK_BYTES = 16 };

/* Bytes of checks before a vector of this type and operation: SV_COLL_CHECK_BYTES, or 0 where none would say
   anything. */
unsigned sv_coll_checks_bytes(unsigned type, unsigned op);
/* Writes the checks of a vector, of whole elements and aligned to them, into SV_COLL_CHECK_BYTES bytes, of a type that
   has checks. */
void sv_coll_checks_write(uint8_t *checks, const uint8_t *vector, uint64_t bytes, unsigned type);
/* Whether the sum of so many vectors is what the sum of their checks says. */
bool sv_coll_checks_agree(const uint8_t *checks, const uint8_t *vector, uint64_t bytes, unsigned type, unsigned terms);

#endif
