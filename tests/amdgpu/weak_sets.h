/* SPDX-License-Identifier: BSD-3-Clause */
/* The sets of kernels that are tried with a weak memory, each with its exchange. One thread. */
#ifndef SELVAGE_TESTS_WEAK_SETS_H
#define SELVAGE_TESTS_WEAK_SETS_H

#include "amdgpu/weak_exchange.h"

/* By its name, with the code objects in a folder; they stay loaded. Ends the process if there is none. */
weak_kernels_t weak_set_load(const char *folder, const char *arch, const char *name);

#endif
