/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers as the elements of collectives. Pure. */
#ifndef SELVAGE_BENCH_COLL_ENCODE_H
#define SELVAGE_BENCH_COLL_ENCODE_H

#include <stdbool.h>
#include <stdint.h>

#include <selvage.h>
#include <selvage/collective.h>

bool bench_type_is_float(selvage_type_t type);

/* The element, in the low bytes of the result; integers are truncated. */
uint64_t bench_encode(selvage_type_t type, double value);

/* An average as the library defines it, before it is rounded to the type: integers towards zero, float64 in its own
   precision, the other floats in that of float32. */
double bench_quotient(selvage_type_t type, double sum, int divisor);

#endif
