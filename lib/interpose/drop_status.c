/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of MPI 4.1 that ask about many requests and end none: MPI_Request_get_status_all, _any and _some. Who is told
 * that a receive is complete may read its buffer, so each request with device memory has to land first, which
 * MPI_Request_get_status of drop_complete.c sees to. A list without such requests is MPI's own. An error is that of the
 * first request that has one.
 *
 * Any thread; nothing is kept.
 */
#include "interpose/drop_probe.h"

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)

typedef enum state { INACTIVE, PENDING, COMPLETE } state_t;

static bool has_ours(int n, const MPI_Request *requests)
{
    unsigned turns = 0;
    if (!sv_drop_is_concerned())
        return false;
    sv_drop_turn(&turns);
    for (int i = 0; i < n; i++) {
        sv_drop_op_t *op = sv_drop_op_find(requests[i]);
        sv_drop_op_release(op);
        if (op)
            return true;
    }
    return false;
}

/* How one request stands, and its status unless it is pending. */
static int ask_state(MPI_Request request, MPI_Status *status, state_t *state_out)
{
    int index = 0, done = 0, code = MPI_SUCCESS;
    sv_drop_op_t *op = sv_drop_op_find(request);
    if (op)
        code = MPI_Request_get_status(request, &done, status);
    else
        code = PMPI_Request_get_status_any(1, &request, &index, &done, status);
    /* The first says of an inactive one that it is complete; of what stands in for one, MPI knows nothing. */
    if (op && code == MPI_SUCCESS && done && !sv_drop_given_has(op))
        code = PMPI_Request_get_status_any(1, &request, &index, &done, MPI_STATUS_IGNORE);
    sv_drop_op_release(op);
    *state_out = !done ? PENDING : index == MPI_UNDEFINED ? INACTIVE : COMPLETE;
    return code;
}

SV_DROP_EXPORT int MPI_Request_get_status_all(int count, const MPI_Request requests[], int *flag, MPI_Status *statuses)
{
    int code = MPI_SUCCESS;
    if (!has_ours(count, requests))
        return PMPI_Request_get_status_all(count, requests, flag, statuses);
    *flag = 1;
    for (int i = 0; i < count && code == MPI_SUCCESS; i++) {
        state_t state = PENDING;
        code = ask_state(requests[i], statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i], &state);
        *flag &= state != PENDING;
    }
    return code;
}

SV_DROP_EXPORT int MPI_Request_get_status_any(int count, const MPI_Request requests[], int *index, int *flag,
                                              MPI_Status *status)
{
    bool active = false;
    if (!has_ours(count, requests))
        return PMPI_Request_get_status_any(count, requests, index, flag, status);
    *flag = 0;
    *index = MPI_UNDEFINED;
    for (int i = 0; i < count; i++) {
        state_t state = PENDING;
        const int code = ask_state(requests[i], status, &state);
        if (code != MPI_SUCCESS || state == COMPLETE) {
            *flag = state == COMPLETE;
            *index = i;
            return code;
        }
        active |= state == PENDING;
    }
    *flag = !active; /* status is then the empty one that the last was asked for */
    return MPI_SUCCESS;
}

SV_DROP_EXPORT int MPI_Request_get_status_some(int incount, const MPI_Request requests[], int *outcount, int indices[],
                                               MPI_Status *statuses)
{
    bool active = false;
    if (!has_ours(incount, requests))
        return PMPI_Request_get_status_some(incount, requests, outcount, indices, statuses);
    *outcount = 0;
    for (int i = 0; i < incount; i++) {
        state_t state = PENDING;
        MPI_Status *status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[*outcount];
        const int code = ask_state(requests[i], status, &state);
        if (code != MPI_SUCCESS)
            return code;
        if (state == COMPLETE)
            indices[(*outcount)++] = i;
        active |= state != INACTIVE;
    }
    if (!active)
        *outcount = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

#endif
