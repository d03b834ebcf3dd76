/* SPDX-License-Identifier: BSD-3-Clause */
/* See api_params.h. */
#include "api/api_params.h"

#include <string.h>

selvage_status_t sv_api_copy_params(const char *name, const void *given, void *ours, size_t ours_bytes)
{
    size_t given_bytes = ours_bytes;
    memset(ours, 0, ours_bytes);
    if (given)
        memcpy(&given_bytes, given, sizeof given_bytes);
    if (given_bytes < sizeof(size_t) || given_bytes > 1 << 16)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: struct_size is %zu; start the struct from its _INIT macro", name,
                        given_bytes);
    for (size_t i = ours_bytes; given && i < given_bytes; i++)
        if (((const unsigned char *)given)[i])
            return sv_error(SELVAGE_ERR_ARGUMENT, "%s: struct_size is %zu, this library knows %zu bytes, and byte %zu "
                            "is not zero", name, given_bytes, ours_bytes, i);
    if (given)
        memcpy(ours, given, given_bytes < ours_bytes ? given_bytes : ours_bytes);
    memcpy(ours, &ours_bytes, sizeof ours_bytes);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_api_fill_struct(const char *name, const char *macro, void *theirs, const void *ours, size_t bytes)
{
    size_t theirs_bytes;
    memcpy(&theirs_bytes, theirs, sizeof theirs_bytes);
    if (theirs_bytes < sizeof(size_t) || theirs_bytes > 1 << 16)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: struct_size is %zu; start the struct from %s", name, theirs_bytes,
                        macro);
    memcpy(theirs, ours, theirs_bytes < bytes ? theirs_bytes : bytes);
    memcpy(theirs, &theirs_bytes, sizeof theirs_bytes);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_api_check_policy(selvage_route_t route, selvage_checksum_t checksum)
{
    if ((int)route < SELVAGE_ROUTE_DEFAULT || route > SELVAGE_ROUTE_DIRECT)
        return sv_error(SELVAGE_ERR_ARGUMENT, "params: route is %d; wanted a selvage_route_t", (int)route);
    if (checksum < SELVAGE_CHECKSUM_OFF || checksum > SELVAGE_CHECKSUM_ABORT)
        return sv_error(SELVAGE_ERR_ARGUMENT, "params: checksum is %d; wanted a selvage_checksum_t", (int)checksum);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_api_enter(const selvage_comm_t *comm)
{
    sv_thread_begin_call();
    sv_comm_bind(comm);
    if (!comm->only_thread || comm->only_thread == sv_thread_binding())
        return SELVAGE_SUCCESS;
    return sv_api_leave(sv_error(SELVAGE_ERR_STATE, "this thread did not create the communicator, and MPI was "
                                 "initialised for one thread (MPI_THREAD_SINGLE or MPI_THREAD_FUNNELED): use "
                                 "MPI_Init_thread with MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE"));
}

selvage_status_t sv_api_leave(selvage_status_t status)
{
    sv_thread_binding()->fault = NULL; /* it lives in the communicator, which may be gone before this thread */
    sv_thread_end_call(status < 0);
    return status;
}
