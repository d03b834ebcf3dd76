/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI wire's messages: send, receive, test and cancel on the communicators of the three channels. A request is the
 * MPI handle, flags, the peer and the byte count. They are packed into the caller's words, so that nothing is
 * allocated. Errors come back from MPI as codes (MPI_ERRORS_RETURN) and leave here as ERR_MPI with MPI's own text.
 *
 * Two habits of MPIs are why sizes are settled at commit, so that packets meet neither:
 * - When a test finds an error, MPICH 4.0 asks the error handler of MPI_COMM_WORLD, whatever the communicator. A
 *   program that keeps the default ends there.
 * - Open MPI 4.1 may write past a receive that is shorter than a long message before it reports the error.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base_clock.h"
#include "base/base_status.h"
#include "wire/wire_mpi_private.h"

enum { OPEN = 1, IS_RECV = 2, CHANNEL_SHIFT = 2, WITHDRAW_TRIES = 1000, WITHDRAW_SLEEP_US = 20 };

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "an MPI request fits into one word");

/* The four words of a request, by name. */
typedef struct request_words {
    uint64_t handle;
    uint64_t flags;
    uint64_t peer;
    uint64_t bytes;
} request_words_t;

_Static_assert(sizeof(request_words_t) == sizeof(sv_wire_request_t), "both are the same four words");

selvage_status_t sv_wire_mpi_error(int code, const char *format, ...)
{
    char what[160], text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (PMPI_Error_string(code, text, &length) != MPI_SUCCESS)
        snprintf(text, sizeof text, "MPI error %d", code);
    return sv_error(SELVAGE_ERR_MPI, "%s: %s", what, text);
}

static void pack_mpi_request(sv_wire_request_t *out, MPI_Request handle, sv_wire_channel_t channel, bool is_recv,
                             int peer, size_t bytes)
{
    request_words_t words = {.flags = OPEN | (is_recv ? IS_RECV : 0u) | (unsigned)channel << CHANNEL_SHIFT,
                             .peer = (uint64_t)peer,
                             .bytes = bytes};
    memcpy(&words.handle, &handle, sizeof handle);
    memcpy(out, &words, sizeof words);
}

static MPI_Request unpack_request(const sv_wire_request_t *request, request_words_t *words)
{
    MPI_Request handle;
    memcpy(words, request, sizeof *words);
    memcpy(&handle, &words->handle, sizeof handle);
    return handle;
}

static selvage_status_t check_bytes(size_t bytes)
{
    if (bytes > INT_MAX)
        return sv_error(SELVAGE_ERR_LIMIT, "a message of %zu bytes is more than one MPI message holds", bytes);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_wire_mpi_send(sv_wire_t *base, sv_wire_channel_t channel, const void *buf, size_t bytes, int peer,
                                  int tag, sv_wire_request_t *request_out)
{
    sv_wire_mpi_t *wire = (sv_wire_mpi_t *)base;
    MPI_Request handle;
    SV_TRY(check_bytes(bytes));
    int code = PMPI_Isend(buf, (int)bytes, MPI_BYTE, peer, tag, wire->comm[channel], &handle);
    if (code != MPI_SUCCESS)
        return sv_wire_mpi_error(code, "MPI_Isend to rank %d (%zu bytes, tag %d)", peer, bytes, tag);
    pack_mpi_request(request_out, handle, channel, false, peer, bytes);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_wire_mpi_recv(sv_wire_t *base, sv_wire_channel_t channel, void *buf, size_t capacity, int peer,
                                  int tag, sv_wire_request_t *request_out)
{
    sv_wire_mpi_t *wire = (sv_wire_mpi_t *)base;
    MPI_Request handle;
    SV_TRY(check_bytes(capacity));
    int source = peer == SV_WIRE_ANY_SOURCE ? MPI_ANY_SOURCE : peer;
    int code = PMPI_Irecv(buf, (int)capacity, MPI_BYTE, source, tag, wire->comm[channel], &handle);
    if (code != MPI_SUCCESS)
        return sv_wire_mpi_error(code, "MPI_Irecv from rank %d (%zu bytes, tag %d)", peer, capacity, tag);
    pack_mpi_request(request_out, handle, channel, true, peer, capacity);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_wire_mpi_test(sv_wire_t *base, sv_wire_request_t *request, size_t *bytes_out)
{
    (void)base;
    request_words_t words;
    MPI_Status status;
    int done = 0, count = 0;
    MPI_Request handle = unpack_request(request, &words);
    size_t bytes = words.bytes;
    if (words.flags & OPEN) {
        int code = PMPI_Test(&handle, &done, &status);
        if (code != MPI_SUCCESS) {
            /* MPICH has freed the request, Open MPI keeps it; only in the first case is it ours to clear. */
            if (handle == MPI_REQUEST_NULL)
                memset(request, 0, sizeof *request);
            return sv_wire_mpi_error(code, "MPI_Test of a %s rank %d (%zu bytes)",
                                     words.flags & IS_RECV ? "receive from" : "send to", (int)words.peer, bytes);
        }
        if (!done)
            return SELVAGE_IN_PROGRESS;
        if (words.flags & IS_RECV) {
            PMPI_Get_count(&status, MPI_BYTE, &count);
            bytes = (size_t)count;
        }
        memset(request, 0, sizeof *request);
        if (bytes > words.bytes)
            return sv_error(SELVAGE_ERR_MPI, "a message of %zu bytes from rank %d into a receive of %zu", bytes,
                            (int)words.peer, (size_t)words.bytes);
    }
    if (bytes_out)
        *bytes_out = bytes;
    return SELVAGE_SUCCESS;
}

bool sv_wire_mpi_withdraw(MPI_Request *request, bool is_recv)
{
    sv_backoff_t backoff = {.max_sleep_us = WITHDRAW_SLEEP_US, .oversubscribed = 1};
    /* Only receives are cancelled: cancelling sends is deprecated, and neither MPI takes one back once it left. */
    if (is_recv && *request != MPI_REQUEST_NULL)
        PMPI_Cancel(request);
    for (int i = 0; i < WITHDRAW_TRIES; i++) {
        MPI_Status status;
        int done = 0, class = MPI_ERR_OTHER;
        int code = PMPI_Test(request, &done, &status);
        if (code != MPI_SUCCESS) {
            if (*request == MPI_REQUEST_NULL)
                return true;
            /* A message that was too long has been received and cut off: its buffer is quiet. After other errors
               nothing is known. */
            PMPI_Error_class(code, &class);
            if (class != MPI_ERR_TRUNCATE)
                return false;
            PMPI_Request_free(request);
            return true;
        }
        if (done)
            return true;
        sv_backoff(&backoff);
    }
    return false;
}

selvage_status_t sv_wire_mpi_cancel(sv_wire_t *base, sv_wire_request_t *request)
{
    sv_wire_mpi_t *wire = (sv_wire_mpi_t *)base;
    request_words_t words;
    MPI_Request handle = unpack_request(request, &words);
    if (!(words.flags & OPEN) || sv_wire_mpi_withdraw(&handle, words.flags & IS_RECV)) {
        memset(request, 0, sizeof *request);
        return SELVAGE_SUCCESS;
    }
    wire->unquiet[words.flags >> CHANNEL_SHIFT] = true;
    return SELVAGE_IN_PROGRESS;
}
