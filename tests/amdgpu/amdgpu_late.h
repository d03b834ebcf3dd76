/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accesses to memory that are complete late: with AMDGPU_LATE=1 a load, store or atomic access of memory or LDS is
 * done at any time between its instruction and the s_waitcnt that waits for it, as a GPU may. Until then the registers
 * of its result hold something else, and nobody sees what it stores. Accesses that may touch the same bytes stay in
 * their order; others are done in any. So code that waits for too little reads what is not there yet, or publishes what
 * is not stored yet.
 *
 * Registers that an access reads are read when it is issued. What is left at the end of a wave is done then.
 */
#ifndef SELVAGE_TESTS_AMDGPU_LATE_H
#define SELVAGE_TESTS_AMDGPU_LATE_H

#include "amdgpu/amdgpu_wave.h"

/* Of a wave; NULL where accesses are not late, unless they must be. Partner: amdgpu_late_close(). */
struct amdgpu_late *amdgpu_late_open(bool must);
void amdgpu_late_close(struct amdgpu_late *late);

/* Takes over an access of the wave, and may do some of those that are waiting. */
void amdgpu_late_issue(amdgpu_wave &wave, const amdgpu_inst &inst);

/* Does accesses until at most so many are left by each counter (UINT8_MAX: as many as there are). With caches they are
   done in any order, and others may have their turns in between: false says that there are more, for a later turn. */
bool amdgpu_late_wait(amdgpu_wave &wave, const uint8_t most[2]);

/* Where the last load of memory that is still on its way looks, in its first lane; false: there is none. */
bool amdgpu_late_load(const amdgpu_wave &wave, uint64_t *address_out);

/* Ends the process if an instruction names a register that a load is still to fill: nothing has waited for it. */
void amdgpu_late_check(const amdgpu_wave &wave, const amdgpu_inst &inst);

#endif
