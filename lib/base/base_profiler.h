/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether somebody in the environment waits for named ranges. */
#ifndef SV_BASE_PROFILER_H
#define SV_BASE_PROFILER_H

#include <stdbool.h>

/* True in a process that AMD's profiler started to record ranges. Reads the environment. */
bool sv_profiler_wants_ranges(void);

#endif
