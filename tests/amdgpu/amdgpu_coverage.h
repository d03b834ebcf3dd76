/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which instructions have run. Where AMDGPU_COVERAGE names a folder, each code object has a file there, named by GPU
 * and kernel, with a byte for each dword of its code: 1 where an instruction has run that begins there. The file
 * `counts` has four numbers of 64 bits: launches, waves, instructions of waves, and 0. Processes map the files and
 * share them. Else the bytes are the process's own.
 */
#ifndef SELVAGE_TESTS_AMDGPU_COVERAGE_H
#define SELVAGE_TESTS_AMDGPU_COVERAGE_H

#include "amdgpu/amdgpu_wave.h"

/* Bytes for so many dwords of the object's code; NULL without memory. Partner: amdgpu_coverage_close(). */
uint8_t *amdgpu_coverage_open(const amdgpu_object_t *object, size_t ndwords);
void amdgpu_coverage_close(uint8_t *executed, size_t ndwords);

/* Counts a launch. */
void amdgpu_coverage_count(unsigned nwaves, uint64_t ninsts);

#endif
