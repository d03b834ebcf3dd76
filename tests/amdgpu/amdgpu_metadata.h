/* SPDX-License-Identifier: BSD-3-Clause */
/* The metadata of a code object, which are MessagePack: where the arguments of its kernels lie. */
#ifndef SELVAGE_TESTS_AMDGPU_METADATA_H
#define SELVAGE_TESTS_AMDGPU_METADATA_H

#include "amdgpu/amdgpu_wave.h"

/* Completes kernels, which are known by their names. False if the bytes are not understood, or a kernel is missing. */
bool amdgpu_metadata_read(const uint8_t *data, size_t bytes, amdgpu_kernel_t *kernels, unsigned nkernels);

#endif
