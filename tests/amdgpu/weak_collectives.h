/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collective calls of two or three emulated GPUs with a weak memory, by one of their kernels: whole calls in one launch
 * after another, and what is in users' buffers whenever a kernel has ended. A seed decides calls, algorithms, sizes,
 * alignments, channels and what the machine does (amdgpu_weak.h).
 */
#ifndef SELVAGE_TESTS_WEAK_COLLECTIVES_H
#define SELVAGE_TESTS_WEAK_COLLECTIVES_H

#include "amdgpu/weak_exchange.h"

/* NULL if all went well; else what did not. Any process; not in two threads at once. */
const char *weak_collectives_run(const weak_kernels_t *kernels, uint64_t seed);

#endif
