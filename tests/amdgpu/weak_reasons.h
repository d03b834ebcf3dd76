/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why nothing notices a mutation of machine code: what runs without it have shown about the instruction
 * (amdgpu_notes.h) and, where that is no proof, what the instruction is for, by the word that comes with it.
 */
#ifndef SELVAGE_TESTS_WEAK_REASONS_H
#define SELVAGE_TESTS_WEAK_REASONS_H

#include "amdgpu/amdgpu_wave.h"

typedef enum weak_change {
    WEAK_NO_WAIT,
    WEAK_NO_VMCNT,
    WEAK_NO_LGKMCNT,
    WEAK_DROPPED,
    WEAK_NO_SC0,
    WEAK_NO_SC1,
    WEAK_NO_NT,
    WEAK_CHANGES
} weak_change_t;

/* NULL: nothing explains it. Those that begin with IDLE follow from what runs have shown. is_left_out says of a barrier
   or an invalidation whether it can be left out, and nothing notices. */
const char *weak_reason_find(weak_change_t change, const amdgpu_inst_t *inst, const char *kernel,
                             bool (*is_left_out)(const amdgpu_inst_t *inst));

/* What the runs have noted, for a reader: an empty text if nothing. */
void weak_reason_describe(weak_change_t change, const amdgpu_inst_t *inst, char *text_out, size_t text_bytes);

#endif
