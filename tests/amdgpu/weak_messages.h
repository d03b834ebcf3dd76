/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between two emulated GPUs with a weak memory, by the kernel of a message alone (sv_digest) or of several
 * (sv_digests): into slots of the reader's memory or of the host's, straight into the reader's buffer, or read from the
 * sender's. A seed decides ways, sizes, alignments and what the machine does (amdgpu_weak.h). Whatever a word promises
 * is looked for in memory the moment the word is there.
 */
#ifndef SELVAGE_TESTS_WEAK_MESSAGES_H
#define SELVAGE_TESTS_WEAK_MESSAGES_H

#include "amdgpu/weak_exchange.h"

/* NULL if all went well; else what did not. Any process; not in two threads at once. */
const char *weak_messages_run(const weak_kernels_t *kernels, uint64_t seed);

#endif
