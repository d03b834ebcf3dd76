/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread-local state of the library: one binding and two detail texts per thread, and nothing else. It lives as
 * long as its thread and needs no initialisation, so that an error before the first binding has somewhere to go.
 *
 * There are two texts because a call may meet errors and succeed all the same, for example when a plug-in is missing.
 * The call under way writes into one of them. The other keeps what the last failed call said.
 */
#include "base/base_thread.h"

#include "base/base_log.h"

static _Thread_local sv_thread_binding_t thread_binding = {
    .rank = -1, .log_level = SV_LOG_WARN, .plain_level = SV_LOG_WARN, .subsystems = ~0U};
static _Thread_local char thread_detail[2][SV_DETAIL_BYTES];
static _Thread_local unsigned draft;    /* which of them is the present call's */
static _Thread_local bool draft_counts; /* it was written, and no call has succeeded since */

sv_thread_binding_t *sv_thread_binding(void)
{
    return &thread_binding;
}

char *sv_thread_detail(void)
{
    return thread_detail[draft];
}

void sv_thread_mark_detail(void)
{
    draft_counts = true;
}

const char *sv_thread_last_detail(void)
{
    return thread_detail[draft_counts ? draft : draft ^ 1];
}

void sv_thread_begin_call(void)
{
    if (draft_counts) /* of a call that failed before it began */
        sv_thread_end_call(true);
}

void sv_thread_end_call(bool failed)
{
    if (failed)
        draft ^= 1;
    draft_counts = false;
    thread_detail[draft][0] = '\0';
}
