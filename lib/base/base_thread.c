/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread-local state of the library: one binding and one detail text per thread, nothing else. Each lives as long
 * as its thread and needs no initialisation, so that an error before the first binding has somewhere to go.
 */
#include "base/base_thread.h"

#include "base/base_log.h"

static _Thread_local sv_thread_binding_t thread_binding = {
    .rank = -1, .log_level = SV_LOG_WARN, .plain_level = SV_LOG_WARN, .subsystems = ~0U};
static _Thread_local char thread_detail[SV_DETAIL_BYTES];

sv_thread_binding_t *sv_thread_binding(void)
{
    return &thread_binding;
}

char *sv_thread_detail(void)
{
    return thread_detail;
}
