/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file checks a call and then launches it, or keeps it for the end of its group. A single call allocates nothing,
 * takes no lock and makes no system call; it waits for space in the FIFO only, and logs a line where that is wanted.
 * All functions run on the application's one thread. While calls between nodes are under way that the engine drives,
 * those of one node follow them (coll_nodes.c). The handle owns the calls of the open group.
 */
#include "base/base_status.h"
#include "collective/coll_names.h"
#include "collective/coll_parts.h"

/* Before what a later sv_coll_wait() waits for is enqueued. */
static void begin_last(selvage_coll_t *coll, void *stream, bool many_streams)
{
    coll->stream = stream;
    coll->last_launch = 0;
    coll->many_streams = many_streams;
}

selvage_status_t sv_coll_enqueue(selvage_coll_t *coll, const sv_coll_call_t *calls, unsigned ncalls)
{
    if (coll->spans)
        return sv_coll_nodes(coll, calls, ncalls);
    if (ncalls == 0 || sv_coll_queue_is_idle(coll->arena)) {
        SV_TRY(sv_coll_launch(coll, calls, ncalls));
        if (coll->host_waits && ncalls > 0 && !calls[0].captured)
            coll->last_launch = coll->arena->launches;
        return SELVAGE_SUCCESS;
    }
    if (!calls[0].captured)
        return sv_coll_nodes(coll, calls, ncalls);
    sv_coll_queue_wait(coll->arena); /* what is captured is ordered by the program, whenever it is launched */
    return sv_coll_launch(coll, calls, ncalls);
}

static selvage_status_t submit_call(selvage_coll_t *coll, const sv_coll_call_t *given, bool captured)
{
    sv_coll_call_t call = *given;
    call.captured = captured;
    SV_TRY(sv_coll_check(coll));
    SV_TRY(sv_coll_resolve_operation(coll, &call));
    SV_TRY(sv_coll_check_buffers(coll, &call));
    sv_coll_resolve_type(&call);
    if (call.captured && coll->spans)
        return sv_error(SELVAGE_ERR_UNSUPPORTED, "%s: the stream is being captured into a graph, and between nodes "
                        "collectives go through the host", sv_coll_call_name(call.call));
    coll->calls++;
    if (coll->group_depth == 0 && !call.captured)
        begin_last(coll, call.stream, false);
    /* Ranks that have nothing to move still meet, so that they see whether they agree; one rank alone need not. */
    if (coll->size == 1 && call.count == 0 && call.call != SV_COLL_PAIR)
        return SELVAGE_SUCCESS;
    if (sv_coll_wants_exact(coll, &call))
        call.composed = SV_COLL_EXACT_SUM;
    if (coll->group_depth == 0) {
        if (!call.composed)
            return sv_coll_enqueue(coll, &call, 1);
        const selvage_status_t status = sv_coll_composed_enqueue(coll, &call);
        coll->last_launch = 0; /* another kernel comes after it */
        return status;
    }
    if (coll->ngroup == SV_COLL_GROUP_CALLS)
        return sv_error(SELVAGE_ERR_LIMIT, "%s: the group has %d calls already", sv_coll_call_name(call.call),
                        SV_COLL_GROUP_CALLS);
    coll->group[coll->ngroup++] = call;
    coll->group_composed = coll->group_composed || call.composed;
    return SELVAGE_SUCCESS;
}

void sv_coll_refuse(selvage_coll_t *coll, selvage_status_t status)
{
    if (coll->group_depth > 0 && coll->group_status == SELVAGE_SUCCESS)
        coll->group_status = status;
}

selvage_status_t sv_coll_submit(selvage_coll_t *coll, const sv_coll_call_t *call)
{
    const bool captured = SV_DEVICE_CALL(coll->comm->dev, stream_is_capturing, call->stream);
    if (!captured && sv_coll_queue_is_idle(coll->arena)) /* a capture bears no questions about events */
        sv_coll_poll(coll->arena);
    selvage_status_t status = submit_call(coll, call, captured);
    sv_coll_refuse(coll, status);
    return status;
}

selvage_status_t sv_coll_group_begin(selvage_coll_t *coll)
{
    if (coll->group_depth++ == 0) {
        coll->group_status = SELVAGE_SUCCESS;
        coll->ngroup = 0;
        coll->group_composed = false;
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_coll_group_end(selvage_coll_t *coll)
{
    if (coll->group_depth == 0)
        return sv_error(SELVAGE_ERR_STATE, "selvage_coll_group_end: no group is open");
    if (--coll->group_depth > 0)
        return SELVAGE_SUCCESS;
    if (coll->group_status != SELVAGE_SUCCESS)
        return sv_error_quiet(coll->group_status, "a call of the group failed, and none of its %u others was launched: "
                              "%s", coll->ngroup, selvage_status_string(coll->group_status));
    SV_TRY(sv_coll_check(coll));
    if (coll->ngroup > 0 && !coll->group[0].captured)
        begin_last(coll, coll->group[0].stream, coll->group_composed || coll->spans);
    if (coll->group_composed) {
        const selvage_status_t status = sv_coll_composed_group(coll, coll->group, coll->ngroup);
        coll->last_launch = 0; /* other kernels come after it */
        return status;
    }
    return sv_coll_enqueue(coll, coll->group, coll->ngroup);
}
