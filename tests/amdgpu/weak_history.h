/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In which of the first seeds each instruction of code objects has run, so that a mutation of one is tried with seeds
 * that come there. One thread.
 */
#ifndef SELVAGE_TESTS_WEAK_HISTORY_H
#define SELVAGE_TESTS_WEAK_HISTORY_H

#include "amdgpu/amdgpu_wave.h"

/* Before the first seed, for each object once. It is kept as long as the process lives. */
void weak_history_open(const amdgpu_object_t *object);

/* A seed is over: what has run since the one before was run by it. Seeds from 1 to WEAK_REMEMBERED are remembered. */
void weak_history_add(uint64_t seed);

enum { WEAK_REMEMBERED = 1024 };

/* No more are: the marks of objects are of all that have run again. */
void weak_history_end(void);

/* The next remembered seed after one, in which the instruction has run; 0: there is none. */
uint64_t weak_history_next(const amdgpu_object_t *object, uintptr_t pc, uint64_t seed);

#endif
