/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that send and receive at once between two ranks. Either buffer may be the device's. Where possible they are one
 * call of MPI's on staging memory. They are two requests if what is sent takes the fast route, a probe may take what is
 * to come, or something else must go on meanwhile. Any thread. A call owns its staging memory, and a request takes that
 * over.
 */
#include "interpose/drop_probe.h"

#include <stdlib.h>
#include <string.h>

/* One side of MPI_Sendrecv, as the program gave it and then as MPI is given it. */
typedef struct side {
    void *buf;
    int count;
    MPI_Datatype type;
    int peer, tag;
    bool host; /* memory */
} side_t;

/* Puts staging memory in a side's place, if there is any. */
static bool place_side(side_t *side, const sv_drop_buffer_t *buffer)
{
    if (buffer) {
        side->buf = sv_drop_address(buffer);
        side->count = buffer->count;
        side->type = buffer->type;
    }
    return buffer != NULL;
}

static bool place_received(side_t *side, const sv_drop_buffer_t *buffer)
{
    const bool placed = place_side(side, buffer);
    if (placed && buffer->guarded) {
        side->count = 1;
        side->type = buffer->guard;
    }
    return placed;
}

static bool place_receiver(sv_drop_call_t *call, sv_drop_fast_t *fast, side_t *from, MPI_Comm comm)
{
    if (from->peer == MPI_PROC_NULL)
        return false;
    const bool placed = place_received(
        from, sv_drop_recv_buffer(call, fast, from->buf, from->count, from->type, comm, from->peer, from->host));
    sv_drop_fast_as_bytes(fast, &from->count, &from->type);
    return placed;
}

static bool place_sender(sv_drop_call_t *call, side_t *to)
{
    return to->peer != MPI_PROC_NULL && !to->host &&
           place_side(to, sv_drop_message(call, to->buf, to->count, to->type, true, false));
}

/* Both messages, by MPI's own call unless something must go on meanwhile. */
static int sendrecv_plain(const side_t *to, const side_t *from, MPI_Comm comm, MPI_Status *status)
{
    MPI_Request request[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status result[2];
    unsigned turns = 0;
    int done[2] = {0, 0};
    if (!sv_drop_is_busy() && !sv_drop_fast_drives())
        return PMPI_Sendrecv(to->buf, to->count, to->type, to->peer, to->tag, from->buf, from->count, from->type,
                             from->peer, from->tag, comm, status);
    done[0] = from->peer == MPI_PROC_NULL; /* its status is that of the blocking form */
    int code = done[0] ? PMPI_Recv(from->buf, from->count, from->type, from->peer, from->tag, comm, &result[0])
                       : PMPI_Irecv(from->buf, from->count, from->type, from->peer, from->tag, comm, &request[0]);
    if (code != MPI_SUCCESS)
        return code;
    code = PMPI_Isend(to->buf, to->count, to->type, to->peer, to->tag, comm, &request[1]);
    if (code != MPI_SUCCESS && done[0])
        return code;
    if (code != MPI_SUCCESS) {
        PMPI_Cancel(&request[0]);
        PMPI_Wait(&request[0], MPI_STATUS_IGNORE);
        return code;
    }
    while (!done[0] || !done[1]) {
        sv_drop_turn(&turns);
        for (int i = 0; i < 2; i++) {
            int ended = !done[i] ? PMPI_Test(&request[i], &done[i], &result[i]) : MPI_SUCCESS;
            done[i] = done[i] || ended != MPI_SUCCESS;
            code = code == MPI_SUCCESS ? ended : code;
        }
    }
    if (status != MPI_STATUS_IGNORE)
        *status = result[0];
    return code;
}

/* Sends and receives as two requests of the drop-in's. */
static int sendrecv_apart(const char *name, side_t to, side_t from, MPI_Comm comm, MPI_Status *status)
{
    MPI_Request request[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    const bool nobody = from.peer == MPI_PROC_NULL; /* its status is that of the blocking form */
    /* A receive waits for the device, and what is to be found is that the send should have. */
    const bool sends_first = sv_drop_settings()->sync == SV_DROP_SYNC_CHECK;
    int code = MPI_SUCCESS, done;
    if (sends_first)
        code = sv_drop_isend_any(name, SV_DROP_WAITED, to.buf, to.count, to.type, to.peer, to.tag, comm, &request[1]);
    if (code != MPI_SUCCESS)
        return code;
    code = nobody ? PMPI_Recv(from.buf, from.count, from.type, from.peer, from.tag, comm, status)
                  : sv_drop_irecv(name, from.buf, from.count, from.type, from.peer, from.tag, comm, &request[0]);
    if (code != MPI_SUCCESS) {
        if (sends_first)
            MPI_Request_free(&request[1]);
        return code;
    }
    if (!sends_first)
        code = sv_drop_isend_any(name, SV_DROP_WAITED, to.buf, to.count, to.type, to.peer, to.tag, comm, &request[1]);
    if (code == MPI_SUCCESS)
        code = sv_drop_complete(&request[1], &done, MPI_STATUS_IGNORE, true);
    else if (!nobody)
        MPI_Cancel(&request[0]);
    int other = nobody ? MPI_SUCCESS : sv_drop_complete(&request[0], &done, status, true);
    return code == MPI_SUCCESS ? other : code;
}

static bool is_sendrecv_watched(const side_t *from)
{
    return __builtin_expect(sv_drop_fast_wanted, 0) && from->peer != MPI_PROC_NULL &&
           sv_drop_fast_watches(from->count, from->type, !from->host);
}

SV_DROP_EXPORT int MPI_Sendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                                void *recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
                                MPI_Comm comm, MPI_Status *status)
{
    side_t to = {(void *)(uintptr_t)sendbuf, sendcount, sendtype, dest, sendtag,
                 sv_drop_is_host_typed(sendbuf, sendcount, sendtype)};
    side_t from = {recvbuf, recvcount, recvtype, source, recvtag, sv_drop_is_host_typed(recvbuf, recvcount, recvtype)};
    sv_drop_flush();
    /* Two requests are made where the message to be sent or to come needs that. Requests end by the deadline that the
       program's user has set, if an announcement never comes. */
    if (sv_drop_has_taken() || sv_drop_fast_guards() ||
        sv_drop_recv_has_deadline(recvcount, recvtype, source, from.host) ||
        sv_drop_fragments_may_come_to(recvcount, recvtype) ||
        (!to.host && (sv_drop_fast_may_send(sendcount, sendtype, dest, sendtag, comm, SV_DROP_WAITED) ||
                      sv_drop_fragments_may_send(sendcount, sendtype, dest, sendtag, comm))))
        return sendrecv_apart("MPI_Sendrecv", to, from, comm, status);
    /* If both buffers are the host's, the call is MPI's as it is. */
    if (!sv_drop_is_busy() && to.host && from.host && !is_sendrecv_watched(&from))
        return sv_drop_heed(PMPI_Sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,
                                          source, recvtag, comm, status));
    /* Else it is made on staging memory. Copies go down, both messages go, and then the received bytes go up. If those
       are an announcement, its bytes land instead. */
    sv_drop_call_t call = {.name = "MPI_Sendrecv", .has_peer = true, .peer = dest, .tag = sendtag};
    sv_drop_fast_t fast = {0};
    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;
    double begin = PMPI_Wtime();
    bool receives = place_receiver(&call, &fast, &from, comm), sends = place_sender(&call, &to);
    sv_drop_stage(&call);
    int code = sendrecv_plain(&to, &from, comm, used);
    bool arrived = code == MPI_SUCCESS && sv_drop_fast_finish(&fast, &call, used, &code);
    if (code == MPI_SUCCESS && receives && !arrived)
        sv_drop_unstage_call(&call, used);
    call.peer = dest; /* of the two, the timeline says who was sent to */
    call.tag = sendtag;
    if (code == MPI_SUCCESS && sends)
        sv_drop_count(call.name, "staged", comm, dest, sendtype, sendcount, PMPI_Wtime() - begin);
    sv_drop_call_end(&call);
    sv_drop_fast_release(&fast);
    return sv_drop_heed(code);
}

/* A side whose packed bytes are in memory of their own, *copy_out, from host memory or from a staging buffer that has
   them packed. */
static side_t copy_side(const char *name, side_t side, const sv_drop_buffer_t *buffer, void **copy_out,
                        sv_drop_narrow_t *narrow)
{
    MPI_Count each = 0;
    if (side.count > 0)
        PMPI_Type_size_x(side.type, &each);
    const size_t bytes = (size_t)each * (size_t)(side.count > 0 ? side.count : 0);
    void *copy = *copy_out = malloc(bytes + 1);
    if (!copy)
        sv_drop_fatal("no memory", name);
    if (buffer && buffer->packed && buffer->host) /* else MPI refuses the call */
        memcpy(copy, buffer->host, bytes);
    else if (bytes > 0)
        sv_drop_pack(side.buf, side.count, side.type, copy, (int64_t)bytes);
    if (sv_drop_narrow((MPI_Count)bytes, MPI_PACKED, narrow) != MPI_SUCCESS)
        sv_drop_fatal("no type for a message of 2 GiB or more", name);
    return (side_t){copy, narrow->count, narrow->type, side.peer, side.tag, true};
}

/* The bytes to be sent leave from a copy, so that what arrives may be written when it comes. */
static int replace_apart(void *buf, side_t to, side_t from, MPI_Comm comm, MPI_Status *status)
{
    sv_drop_call_t call = {.name = "MPI_Sendrecv_replace"};
    sv_drop_narrow_t narrow = {0};
    const side_t given = to;
    double begin = PMPI_Wtime();
    void *copy = NULL;
    sv_drop_buffer_t *buffer = to.host ? NULL : sv_drop_message(&call, buf, to.count, to.type, true, false);
    if (buffer) {
        sv_drop_stage(&call);
        to = (side_t){sv_drop_address(buffer), buffer->count, buffer->type, to.peer, to.tag, true};
    } else
        to = copy_side(call.name, to, NULL, &copy, &narrow);
    int code = sendrecv_apart(call.name, to, from, comm, status);
    if (code == MPI_SUCCESS && buffer && given.peer != MPI_PROC_NULL)
        sv_drop_count(call.name, "staged", comm, given.peer, given.type, given.count, PMPI_Wtime() - begin);
    sv_drop_narrow_end(&narrow);
    free(copy);
    sv_drop_call_end(&call);
    return code;
}

/* Replaces host memory that an announcement may come to by MPI's own call, while nothing else has to go on. Where an
   announcement could end within an element, bytes are received, and unpacked after it. */
static int replace_host(side_t to, side_t from, MPI_Comm comm, MPI_Status *status)
{
    sv_drop_call_t call = {.name = "MPI_Sendrecv_replace"};
    sv_drop_fast_t fast = {0};
    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;
    bool unpacks = place_receiver(&call, &fast, &from, comm);
    int code = unpacks ? PMPI_Sendrecv(to.buf, to.count, to.type, to.peer, to.tag, from.buf, from.count, from.type,
                                       from.peer, from.tag, comm, used)
                       : PMPI_Sendrecv_replace(from.buf, from.count, from.type, to.peer, to.tag, from.peer, from.tag,
                                               comm, used);
    bool arrived = code == MPI_SUCCESS && sv_drop_fast_finish(&fast, &call, used, &code);
    if (code == MPI_SUCCESS && unpacks && !arrived)
        sv_drop_unstage_call(&call, used);
    sv_drop_call_end(&call);
    sv_drop_fast_release(&fast);
    return code;
}

/* The bytes to be sent leave before anything arrives in their place, also where nothing is to arrive. */
SV_DROP_EXPORT int MPI_Sendrecv_replace(void *buf, int count, MPI_Datatype type, int dest, int sendtag, int source,
                                        int recvtag, MPI_Comm comm, MPI_Status *status)
{
    sv_drop_call_t call = {.name = "MPI_Sendrecv_replace"};
    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;
    bool host = sv_drop_is_host_typed(buf, count, type);
    side_t to = {buf, count, type, dest, sendtag, host}, from = {buf, count, type, source, recvtag, host};
    sv_drop_flush();
    /* Probes may take what is to come, or waits must be driven. */
    bool taken = source != MPI_PROC_NULL && (sv_drop_has_taken() || sv_drop_fast_guards() ||
                                             sv_drop_fragments_may_come_to(count, type));
    bool busy = sv_drop_is_busy() || sv_drop_fast_drives(), watched = is_sendrecv_watched(&from);
    if (watched && host && !taken && !busy)
        return replace_host(to, from, comm, status);
    if (count >= 0 && type != MPI_DATATYPE_NULL && sv_drop_type_is_committed(type) &&
        (watched || taken || (busy && sv_drop_fast_is_open()) || (!host && sv_drop_overruns())))
        return replace_apart(buf, to, from, comm, status);
    sv_drop_buffer_t *buffer = host ? NULL : sv_drop_message(&call, buf, count, type, true, true);
    if (!buffer)
        return sv_drop_heed(
            PMPI_Sendrecv_replace(buf, count, type, dest, sendtag, source, recvtag, comm, status));
    double begin = PMPI_Wtime();
    sv_drop_stage(&call);
    int code = PMPI_Sendrecv_replace(sv_drop_address(buffer), buffer->count, buffer->type, dest, sendtag, source,
                                     recvtag, comm, used);
    if (code == MPI_SUCCESS && source != MPI_PROC_NULL)
        sv_drop_unstage_call(&call, used);
    if (code == MPI_SUCCESS && dest != MPI_PROC_NULL)
        sv_drop_count(call.name, "staged", comm, dest, type, count, PMPI_Wtime() - begin);
    sv_drop_call_end(&call);
    return sv_drop_heed(code);
}

#if MPI_VERSION >= 4
/* Begins two requests under the program's one, because MPICH 4.0 does not say of its own what has come. */
static int begin_sendrecv(sv_drop_call_t *call, sv_drop_fast_t *fast, const side_t *to, const side_t *from,
                          MPI_Comm comm, MPI_Request *request)
{
    MPI_Request in = MPI_REQUEST_NULL, out = MPI_REQUEST_NULL;
    int code = PMPI_Irecv(from->buf, from->count, from->type, from->peer, from->tag, comm, &in);
    if (code == MPI_SUCCESS) {
        code = PMPI_Isend(to->buf, to->count, to->type, to->peer, to->tag, comm, &out);
        if (code == MPI_SUCCESS)
            return sv_drop_request_start(call, fast, in, out, true, request);
        PMPI_Cancel(&in);
        PMPI_Wait(&in, MPI_STATUS_IGNORE);
    }
    sv_drop_call_end(call);
    sv_drop_fast_release(fast);
    return code;
}

SV_DROP_EXPORT int MPI_Isendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                                 void *recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
                                 MPI_Comm comm, MPI_Request *request)
{
    sv_drop_call_t call = {.name = "MPI_Isendrecv"};
    side_t to = {(void *)(uintptr_t)sendbuf, sendcount, sendtype, dest, sendtag,
                 sv_drop_is_host_typed(sendbuf, sendcount, sendtype)};
    side_t from = {recvbuf, recvcount, recvtype, source, recvtag, sv_drop_is_host_typed(recvbuf, recvcount, recvtype)};
    sv_drop_fast_t fast = {0};
    sv_drop_flush();
    bool receives = place_receiver(&call, &fast, &from, comm), sends = place_sender(&call, &to);
    if (!receives && !fast.monitored && !sends)
        return PMPI_Isendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,
                              recvtag, comm, request);
    sv_drop_stage(&call);
    return begin_sendrecv(&call, &fast, &to, &from, comm, request);
}

/* The bytes to be sent leave from a copy, which goes with the request. */
SV_DROP_EXPORT int MPI_Isendrecv_replace(void *buf, int count, MPI_Datatype type, int dest, int sendtag, int source,
                                         int recvtag, MPI_Comm comm, MPI_Request *request)
{
    sv_drop_call_t call = {.name = "MPI_Isendrecv_replace"};
    sv_drop_fast_t fast = {0};
    sv_drop_narrow_t narrow = {0};
    sv_drop_flush();
    if (!sv_drop_type_is_committed(type))
        return PMPI_Isendrecv_replace(buf, count, type, dest, sendtag, source, recvtag, comm, request);
    side_t from = {buf, count, type, source, recvtag, sv_drop_is_host_typed(buf, count, type)};
    side_t to = {buf, count, type, dest, sendtag, from.host};
    sv_drop_buffer_t *buffer =
        from.host ? NULL : sv_drop_message(&call, buf, count, type, true, source != MPI_PROC_NULL);
    if (source != MPI_PROC_NULL && __builtin_expect(sv_drop_fast_wanted, 0))
        sv_drop_fast_monitor(&fast, buf, count, type, comm, buffer != NULL);
    sv_drop_fragments_await(&fast, comm, source);
    if (!buffer && !fast.monitored)
        return PMPI_Isendrecv_replace(buf, count, type, dest, sendtag, source, recvtag, comm, request);
    sv_drop_stage(&call);
    (void)place_side(&to, buffer);
    to = copy_side(call.name, to, buffer, &fast.announcement, &narrow);
    if (buffer && fast.monitored)
        sv_drop_widen(buffer, &fast, count, type);
    if (buffer && source != MPI_PROC_NULL) {
        fast.comm = comm; /* as in sv_drop_recv_buffer() */
        sv_drop_guard(buffer);
    }
    (void)place_received(&from, from.host ? sv_drop_recv_unpacking(&call, &fast, buf, count, type) : buffer);
    sv_drop_fast_as_bytes(&fast, &from.count, &from.type);
    int code = begin_sendrecv(&call, &fast, &to, &from, comm, request);
    sv_drop_narrow_end(&narrow); /* what is under way keeps the type */
    return code;
}
#endif
