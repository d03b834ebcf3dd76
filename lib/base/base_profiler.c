/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads what profilers leave in the environment of the programs they start. rocprofv3 says in a variable that it
 * records ranges. It also loads the library for them beforehand, unless told not to. NVIDIA's tools need nothing here,
 * because the header of NVTX finds them by a variable of its own. No state; any thread.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for secure_getenv */
#endif
#include "base/base_profiler.h"

#include <stdlib.h>

#include "base/base_parse.h"

bool sv_profiler_wants_ranges(void)
{
    const char *text = secure_getenv("ROCPROF_MARKER_API_TRACE");
    bool wanted;
    return text && sv_parse_bool(text, &wanted) && wanted;
}
