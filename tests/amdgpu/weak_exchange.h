/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An exchange between two emulated GPUs with a weak memory: kernels push packets on one and pull them on the other, and
 * hosts look at the words that the kernels release. A seed decides sizes, alignments, the route, and what the machine
 * does (amdgpu_weak.h). Whatever a word promises is looked for in memory the moment the word is there.
 */
#ifndef SELVAGE_TESTS_WEAK_EXCHANGE_H
#define SELVAGE_TESTS_WEAK_EXCHANGE_H

#include "amdgpu/amdgpu.h"

/* How an epoch is launched: a push on one GPU and a pull on the other; or kernels of both, of which each GPU has one
   half; or such kernels that number their epochs themselves, as in graphs. Messages are by weak_messages.h, each with a
   launch of its own, or several in one. Collectives are by weak_collectives.h: short ones alone, in lines, in slots and
   users' memory. */
typedef enum weak_form {
    WEAK_BATCH,
    WEAK_RUN,
    WEAK_REPLAY,
    WEAK_MESSAGES,
    WEAK_GROUPS,
    WEAK_COLL_SMALL,
    WEAK_COLL_LINES,
    WEAK_COLL_SLOTS
} weak_form_t;

struct weak_kernels;
typedef const char *(*weak_run_t)(const struct weak_kernels *kernels, uint64_t seed);

typedef struct weak_kernels {
    const char *arch;
    const amdgpu_kernel_t *push, *pull; /* may be the same */
    weak_form_t form;
    bool pieces;    /* packets lie in pieces at both ends */
    weak_run_t run; /* the exchange that is theirs */
} weak_kernels_t;

/* NULL if all went well; else what did not. Any process; not in two threads at once. */
const char *weak_exchange_run(const weak_kernels_t *kernels, uint64_t seed);

#endif
