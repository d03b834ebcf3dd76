/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public calls on messages. Each checks its arguments, turns MPI's constants and datatypes into plain numbers, and
 * calls the module message.
 */
#include "api/api_params.h"
#include "message/message_calls.h"
#include "message/message_engine.h"
#include "wire/wire_mpi_datatype.h"

/* Addresses below this are no memory: a NULL buffer is MPI_BOTTOM only if the type has addresses in it. */
enum { FIRST_ADDRESS = 4096 };

/* A buffer as callers describe it. */
typedef struct api_buffer {
    void *buf;
    size_t count;
    MPI_Datatype type;
} api_buffer_t;

static selvage_status_t check_peer(const char *call, const selvage_comm_t *comm, int rank, bool any, int *peer_out)
{
    if (rank == MPI_PROC_NULL)
        *peer_out = SV_MESSAGE_NOBODY;
    else if (any && rank == MPI_ANY_SOURCE)
        *peer_out = SV_MESSAGE_ANY;
    else if (rank < 0 || rank >= comm->wire->size)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: %s is %d; wanted 0..%d", call, any ? "source" : "destination", rank,
                        comm->wire->size - 1);
    else
        *peer_out = rank;
    return SELVAGE_SUCCESS;
}

static selvage_status_t check_tag(const char *call, int tag, bool any, int *tag_out)
{
    if (tag < 0 && !(any && tag == MPI_ANY_TAG))
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: tag is %d; wanted 0..2147483647", call, tag);
    *tag_out = tag < 0 ? SV_MESSAGE_ANY : tag;
    return SELVAGE_SUCCESS;
}

/* What is made of it. Partner: close_buffer(). */
typedef struct api_opened {
    sv_message_buffer_t buffer;
    sv_type_map_t map;
    sv_type_piece_t piece; /* of the map, if plain */
    bool plain;            /* its elements lie one after the other; the map owns no memory */
} api_opened_t;

static void close_buffer(api_opened_t *opened)
{
    if (!opened->plain)
        sv_type_map_fini(&opened->map);
}

/* Takes the type apart, unless it is a common one. If it fails there is nothing to close. */
static selvage_status_t open_buffer(const char *call, const api_buffer_t *given, api_opened_t *opened)
{
    const size_t each = sv_wire_mpi_plain_bytes(given->type);
    opened->map = (sv_type_map_t){0};
    opened->plain = each && given->count <= INT64_MAX / 4 / each;
    if (!opened->plain) {
        SV_TRY(sv_wire_mpi_flatten(call, given->count, given->type, &opened->map));
    } else {
        const uint64_t bytes = given->count * each;
        if (!sv_wire_mpi_is_usable())
            return sv_error(SELVAGE_ERR_STATE, "%s: MPI is not initialised, or finalised already", call);
        opened->piece = (sv_type_piece_t){.run_bytes = bytes};
        opened->map = (sv_type_map_t){.pieces = &opened->piece, .npieces = bytes > 0, .pieces_room = 1, .bytes = bytes,
                                      .high = (int64_t)bytes};
    }
    opened->buffer = (sv_message_buffer_t){given->buf, &opened->map};
    if (given->buf || !opened->map.bytes || opened->map.low >= FIRST_ADDRESS)
        return SELVAGE_SUCCESS;
    close_buffer(opened);
    return sv_error(SELVAGE_ERR_ARGUMENT, "%s: buf is NULL, and type has no addresses in it", call);
}

/* What means nothing is said as MPI says it. */
static void translate_status(selvage_message_status_t *status)
{
    if (!status)
        return;
    if (status->source == SV_MESSAGE_NOBODY)
        status->source = MPI_PROC_NULL;
    else if (status->source == SV_MESSAGE_ANY)
        status->source = MPI_ANY_SOURCE;
    if (status->tag == SV_MESSAGE_ANY)
        status->tag = MPI_ANY_TAG;
}

/* --- starting ----------------------------------------------------------------------------------------------------- */

static selvage_status_t begin_api_send(const char *call, selvage_comm_t *comm, const api_buffer_t *given, int rank,
                                       int tag, sv_send_kind_t kind, void *stream, selvage_request_t **request)
{
    api_opened_t opened;
    int peer = 0;
    SV_TRY(check_peer(call, comm, rank, false, &peer));
    SV_TRY(check_tag(call, tag, peer == SV_MESSAGE_NOBODY, &tag));
    SV_TRY(open_buffer(call, given, &opened));
    selvage_status_t status = sv_message_isend(comm, call, &opened.buffer, peer, tag, kind, stream, request);
    close_buffer(&opened);
    return status;
}

static selvage_status_t begin_api_recv(const char *call, selvage_comm_t *comm, const api_buffer_t *given, int rank,
                                       int tag, void *stream, selvage_request_t **request)
{
    api_opened_t opened;
    int peer = 0;
    SV_TRY(check_peer(call, comm, rank, true, &peer));
    SV_TRY(check_tag(call, tag, true, &tag));
    SV_TRY(open_buffer(call, given, &opened));
    selvage_status_t status = sv_message_irecv(comm, call, &opened.buffer, peer, tag, NULL, stream, request);
    close_buffer(&opened);
    return status;
}

selvage_status_t selvage_message_isend(selvage_comm_t *comm, const void *buf, size_t count, MPI_Datatype type,
                                       int destination, int tag, void *stream, selvage_request_t **request)
{
    const api_buffer_t given = {(void *)(uintptr_t)buf, count, type};
    SV_API_NEED(comm);
    SV_API_NEED(request);
    SV_TRY(sv_api_enter(comm));
    return sv_api_leave(begin_api_send(__func__, comm, &given, destination, tag, SV_SEND_PLAIN, stream, request));
}

selvage_status_t selvage_message_issend(selvage_comm_t *comm, const void *buf, size_t count, MPI_Datatype type,
                                        int destination, int tag, void *stream, selvage_request_t **request)
{
    const api_buffer_t given = {(void *)(uintptr_t)buf, count, type};
    SV_API_NEED(comm);
    SV_API_NEED(request);
    SV_TRY(sv_api_enter(comm));
    return sv_api_leave(begin_api_send(__func__, comm, &given, destination, tag, SV_SEND_SYNCHRONOUS, stream, request));
}

selvage_status_t selvage_message_ibsend(selvage_comm_t *comm, const void *buf, size_t count, MPI_Datatype type,
                                        int destination, int tag, void *stream, selvage_request_t **request)
{
    const api_buffer_t given = {(void *)(uintptr_t)buf, count, type};
    SV_API_NEED(comm);
    SV_API_NEED(request);
    SV_TRY(sv_api_enter(comm));
    return sv_api_leave(begin_api_send(__func__, comm, &given, destination, tag, SV_SEND_BUFFERED, stream, request));
}

selvage_status_t selvage_message_ibsend_held(selvage_comm_t *comm, const void *buf, size_t count, MPI_Datatype type,
                                             int destination, int tag, void *stream, selvage_request_t **request)
{
    const api_buffer_t given = {(void *)(uintptr_t)buf, count, type};
    SV_API_NEED(comm);
    SV_API_NEED(request);
    SV_TRY(sv_api_enter(comm));
    return sv_api_leave(begin_api_send(__func__, comm, &given, destination, tag, SV_SEND_HELD, stream, request));
}

selvage_status_t selvage_message_irecv(selvage_comm_t *comm, void *buf, size_t count, MPI_Datatype type, int source,
                                       int tag, void *stream, selvage_request_t **request)
{
    const api_buffer_t given = {buf, count, type};
    SV_API_NEED(comm);
    SV_API_NEED(request);
    SV_TRY(sv_api_enter(comm));
    return sv_api_leave(begin_api_recv(__func__, comm, &given, source, tag, stream, request));
}

/* --- blocking ----------------------------------------------------------------------------------------------------- */

/* A request that did not come to its end in time is given up: the buffer is the caller's again, or the error says that
   it is still read or written. */
static selvage_status_t finish_blocking(selvage_request_t **request, selvage_message_status_t *status_out)
{
    selvage_status_t status = sv_message_wait(request, status_out);
    if (*request)
        sv_message_abandon(request, status);
    translate_status(status_out);
    return status;
}

selvage_status_t selvage_message_send(selvage_comm_t *comm, const void *buf, size_t count, MPI_Datatype type,
                                      int destination, int tag, void *stream)
{
    const api_buffer_t given = {(void *)(uintptr_t)buf, count, type};
    selvage_request_t *request = NULL;
    SV_API_NEED(comm);
    SV_TRY(sv_api_enter(comm));
    selvage_status_t status = begin_api_send(__func__, comm, &given, destination, tag, SV_SEND_PLAIN, stream, &request);
    return sv_api_leave(status == SELVAGE_SUCCESS ? finish_blocking(&request, NULL) : status);
}

selvage_status_t selvage_message_recv(selvage_comm_t *comm, void *buf, size_t count, MPI_Datatype type, int source,
                                      int tag, void *stream, selvage_message_status_t *status_out)
{
    const api_buffer_t given = {buf, count, type};
    selvage_request_t *request = NULL;
    SV_API_NEED(comm);
    SV_TRY(sv_api_enter(comm));
    selvage_status_t status = begin_api_recv(__func__, comm, &given, source, tag, stream, &request);
    return sv_api_leave(status == SELVAGE_SUCCESS ? finish_blocking(&request, status_out) : status);
}

selvage_status_t selvage_message_sendrecv(selvage_comm_t *comm, const void *send_buf, size_t send_count,
                                          MPI_Datatype send_type, int destination, int send_tag, void *recv_buf,
                                          size_t recv_count, MPI_Datatype recv_type, int source, int recv_tag,
                                          void *stream, selvage_message_status_t *status_out)
{
    const api_buffer_t out = {(void *)(uintptr_t)send_buf, send_count, send_type};
    const api_buffer_t in = {recv_buf, recv_count, recv_type};
    selvage_request_t *send = NULL, *recv = NULL;
    SV_API_NEED(comm);
    SV_TRY(sv_api_enter(comm));
    selvage_status_t status = begin_api_recv(__func__, comm, &in, source, recv_tag, stream, &recv);
    if (status != SELVAGE_SUCCESS)
        return sv_api_leave(status);
    status = begin_api_send(__func__, comm, &out, destination, send_tag, SV_SEND_PLAIN, stream, &send);
    if (status != SELVAGE_SUCCESS) {
        sv_message_abandon(&recv, status);
        return sv_api_leave(status);
    }
    status = finish_blocking(&recv, status_out);
    selvage_status_t sent = finish_blocking(&send, NULL);
    return sv_api_leave(status == SELVAGE_SUCCESS ? sent : status);
}

/* --- completing --------------------------------------------------------------------------------------------------- */

/* For the communicator that has the requests, if there are any. */
static selvage_status_t enter_first(size_t count, selvage_request_t **requests)
{
    sv_thread_begin_call();
    for (size_t i = 0; i < count; i++)
        if (requests[i])
            return sv_api_enter(sv_message_comm(requests[i]));
    return SELVAGE_SUCCESS;
}

selvage_status_t selvage_message_launch(selvage_request_t *request)
{
    SV_API_NEED(request);
    SV_TRY(enter_first(1, &request));
    return sv_api_leave(sv_message_launch(request));
}

selvage_status_t selvage_message_group_begin(selvage_comm_t *comm)
{
    SV_API_NEED(comm);
    SV_TRY(sv_api_enter(comm));
    return sv_api_leave(sv_message_open_group(comm));
}

selvage_status_t selvage_message_group_end(selvage_comm_t *comm)
{
    SV_API_NEED(comm);
    SV_TRY(sv_api_enter(comm));
    return sv_api_leave(sv_message_close_group(comm));
}

selvage_status_t selvage_message_expect(selvage_request_t *request, uint64_t bytes)
{
    SV_API_NEED(request);
    SV_TRY(enter_first(1, &request));
    sv_message_expect(request, bytes);
    return sv_api_leave(SELVAGE_SUCCESS);
}

selvage_status_t selvage_message_prefers_host(selvage_comm_t *comm, int destination, int *prefers_out)
{
    SV_API_NEED(comm);
    SV_API_NEED(prefers_out);
    SV_TRY(sv_api_enter(comm));
    if (destination < 0 || destination >= selvage_comm_size(comm))
        return sv_api_leave(sv_error(SELVAGE_ERR_ARGUMENT, "selvage_message_prefers_host: no rank %d", destination));
    *prefers_out = sv_message_prefers_host(comm, destination);
    return sv_api_leave(SELVAGE_SUCCESS);
}

selvage_status_t selvage_message_is_shared(selvage_comm_t *comm, int destination, int *shared_out)
{
    SV_API_NEED(comm);
    SV_API_NEED(shared_out);
    SV_TRY(sv_api_enter(comm));
    if (destination < 0 || destination >= selvage_comm_size(comm))
        return sv_api_leave(sv_error(SELVAGE_ERR_ARGUMENT, "selvage_message_is_shared: no rank %d", destination));
    *shared_out = sv_message_is_shared(comm, destination);
    return sv_api_leave(SELVAGE_SUCCESS);
}

selvage_status_t selvage_message_trim(selvage_comm_t *comm, int gives_back, int *due_out)
{
    SV_API_NEED(comm);
    SV_API_NEED(due_out);
    SV_TRY(sv_api_enter(comm));
    *due_out = sv_message_give_back(comm, gives_back != 0);
    return sv_api_leave(SELVAGE_SUCCESS);
}

selvage_status_t selvage_message_test(selvage_request_t **request, selvage_message_status_t *status_out)
{
    SV_API_NEED(request);
    SV_TRY(enter_first(1, request));
    selvage_status_t status = sv_message_test(request, status_out);
    if (status != SELVAGE_IN_PROGRESS)
        translate_status(status_out);
    return sv_api_leave(status);
}

selvage_status_t selvage_message_wait(selvage_request_t **request, selvage_message_status_t *status_out)
{
    SV_API_NEED(request);
    SV_TRY(enter_first(1, request));
    selvage_status_t status = sv_message_wait(request, status_out);
    if (!*request)
        translate_status(status_out);
    return sv_api_leave(status);
}

static selvage_status_t check_requests(const char *call, size_t count, selvage_request_t **requests)
{
    if (count > 0 && !requests)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: requests is NULL", call);
    const selvage_comm_t *comm = NULL;
    for (size_t i = 0; i < count; i++) {
        if (requests[i] && comm && sv_message_comm(requests[i]) != comm)
            return sv_error(SELVAGE_ERR_ARGUMENT, "%s: requests[%zu] is another communicator's than one before it",
                            call, i);
        comm = requests[i] ? sv_message_comm(requests[i]) : comm;
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t selvage_message_waitall(size_t count, selvage_request_t **requests,
                                         selvage_message_status_t *statuses_out)
{
    SV_TRY(check_requests(__func__, count, requests));
    SV_TRY(enter_first(count, requests));
    selvage_status_t status = sv_message_waitall(count, requests, statuses_out);
    for (size_t i = 0; statuses_out && i < count; i++)
        translate_status(&statuses_out[i]);
    return sv_api_leave(status);
}

selvage_status_t selvage_message_waitany(size_t count, selvage_request_t **requests, size_t *index_out,
                                         selvage_message_status_t *status_out)
{
    SV_API_NEED(index_out);
    SV_TRY(check_requests(__func__, count, requests));
    SV_TRY(enter_first(count, requests));
    size_t index = count; /* stays so only if the deadline was this call's: no request has completed */
    selvage_status_t status = sv_message_waitany(count, requests, &index, status_out);
    if (index != count) {
        *index_out = index;
        translate_status(status_out);
    }
    return sv_api_leave(status);
}

selvage_status_t selvage_message_cancel(selvage_request_t *request)
{
    SV_API_NEED(request);
    SV_TRY(enter_first(1, &request));
    sv_message_cancel(request);
    return sv_api_leave(SELVAGE_SUCCESS);
}

selvage_status_t selvage_message_free(selvage_request_t **request)
{
    SV_API_NEED(request);
    SV_TRY(enter_first(1, request));
    if (*request)
        sv_message_detach(request);
    return sv_api_leave(SELVAGE_SUCCESS);
}

/* --- probing ------------------------------------------------------------------------------------------------------ */

static selvage_status_t begin_probe(const char *call, selvage_comm_t *comm, int *source, int *tag)
{
    SV_TRY(check_peer(call, comm, *source, true, source));
    return check_tag(call, *tag, true, tag);
}

/* What MPI_PROC_NULL sends: nothing, at once. */
static selvage_status_t find_nothing(int *found_out, selvage_message_status_t *status_out)
{
    *found_out = 1;
    if (status_out)
        *status_out = (selvage_message_status_t){.source = MPI_PROC_NULL, .tag = MPI_ANY_TAG};
    return SELVAGE_SUCCESS;
}

selvage_status_t selvage_message_probe(selvage_comm_t *comm, int source, int tag,
                                       selvage_message_status_t *status_out)
{
    int found;
    SV_API_NEED(comm);
    SV_TRY(begin_probe(__func__, comm, &source, &tag));
    if (source == SV_MESSAGE_NOBODY)
        return find_nothing(&found, status_out);
    SV_TRY(sv_api_enter(comm));
    return sv_api_leave(sv_message_probe_wait(comm, source, tag, status_out));
}

selvage_status_t selvage_message_iprobe(selvage_comm_t *comm, int source, int tag, int *found_out,
                                        selvage_message_status_t *status_out)
{
    bool found = false;
    SV_API_NEED(comm);
    SV_API_NEED(found_out);
    SV_TRY(begin_probe(__func__, comm, &source, &tag));
    if (source == SV_MESSAGE_NOBODY)
        return find_nothing(found_out, status_out);
    SV_TRY(sv_api_enter(comm));
    selvage_status_t status = sv_message_probe(comm, source, tag, &found, NULL, status_out);
    if (status == SELVAGE_SUCCESS)
        *found_out = found;
    return sv_api_leave(status);
}

selvage_status_t selvage_message_improbe(selvage_comm_t *comm, int source, int tag, selvage_message_t **message_out,
                                         selvage_message_status_t *status_out)
{
    bool found = false;
    selvage_message_t *taken = NULL;
    SV_API_NEED(comm);
    SV_API_NEED(message_out);
    SV_TRY(begin_probe(__func__, comm, &source, &tag));
    if (source == SV_MESSAGE_NOBODY)
        return sv_error(SELVAGE_ERR_ARGUMENT, "selvage_message_improbe: source is MPI_PROC_NULL, which sends nothing");
    SV_TRY(sv_api_enter(comm));
    selvage_status_t status = sv_message_probe(comm, source, tag, &found, &taken, status_out);
    if (status == SELVAGE_SUCCESS)
        *message_out = taken;
    return sv_api_leave(status);
}

selvage_status_t selvage_message_imrecv(selvage_message_t **message, void *buf, size_t count, MPI_Datatype type,
                                        void *stream, selvage_request_t **request)
{
    const api_buffer_t given = {buf, count, type};
    api_opened_t opened;
    SV_API_NEED(message);
    SV_API_NEED(*message);
    SV_API_NEED(request);
    SV_TRY(sv_api_enter(sv_message_taken_comm(*message)));
    selvage_status_t status = open_buffer(__func__, &given, &opened);
    if (status != SELVAGE_SUCCESS)
        return sv_api_leave(status);
    status = sv_message_irecv(sv_message_taken_comm(*message), __func__, &opened.buffer, SV_MESSAGE_ANY, SV_MESSAGE_ANY,
                              message, stream, request);
    close_buffer(&opened);
    return sv_api_leave(status);
}
