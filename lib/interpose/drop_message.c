/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between two ranks: the four kinds of send, receive, and their persistent forms. Each is one plain message of
 * MPI's, whatever the memory at either end, so that ranks with and without the drop-in meet. While requests of ours are
 * open, calls that block are driven by tests, so that those requests go on meanwhile.
 */
#include "interpose/drop.h"

typedef int (*send_t)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int (*isend_t)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

/* Who a message goes to or comes from. */
typedef struct envelope {
    int peer, tag;
    MPI_Comm comm;
} envelope_t;

/* A kind of send: the names of its three calls, and MPI's own. */
typedef struct kind {
    const char *name, *iname, *init_name;
    send_t send;
    isend_t isend, init;
} kind_t;

/* --- sends -------------------------------------------------------------------------------------------------------- */

static int send_plain(const kind_t *kind, const void *buf, int count, MPI_Datatype type, envelope_t to)
{
    MPI_Request request = MPI_REQUEST_NULL;
    if (!sv_drop_has_open())
        return kind->send(buf, count, type, to.peer, to.tag, to.comm);
    int code = kind->isend(buf, count, type, to.peer, to.tag, to.comm, &request);
    return sv_drop_drive(code, &request, MPI_STATUS_IGNORE);
}

/* By the fast route: false if it is to be staged. Buffered sends are complete at once, which that cannot be. */
static bool isend_fast(const kind_t *kind, const char *name, const void *buf, int count, MPI_Datatype type,
                       envelope_t to, MPI_Request *request, int *code_out)
{
    MPI_Count bytes = 0;
    sv_drop_call_t call = {.name = name, .has_peer = true, .peer = to.peer, .tag = to.tag, .fast = true,
                           .begin_ns = sv_drop_trace_now()};
    sv_drop_fast_t fast = {0};
    MPI_Request inner = MPI_REQUEST_NULL;
    if (kind->isend == PMPI_Ibsend || !sv_drop_fast_may_send(count, type, to.peer, to.comm))
        return false;
    PMPI_Type_size_x(type, &bytes);
    call.bytes = bytes * count;
    sv_drop_settle();
    sv_drop_lock();
    void *letter = sv_drop_fast_send(&fast, buf, count, type, to.peer, to.comm);
    if (letter) {
        *code_out = kind->isend(letter, SV_DROP_LETTER_BYTES, MPI_BYTE, to.peer, to.tag, to.comm, &inner);
        if (*code_out == MPI_SUCCESS)
            *code_out = sv_drop_request_start(&call, &fast, inner, false, request);
        else
            selvage_message_free(&fast.request);
    }
    sv_drop_unlock();
    return letter != NULL;
}

static int send_device(const kind_t *kind, const void *buf, int count, MPI_Datatype type, envelope_t to)
{
    sv_drop_call_t call = {.name = kind->name, .has_peer = true, .peer = to.peer, .tag = to.tag};
    MPI_Request request;
    int code;
    double begin = PMPI_Wtime();
    if (isend_fast(kind, kind->name, buf, count, type, to, &request, &code)) {
        code = code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
        sv_drop_count(kind->name, "fast", to.comm, to.peer, type, count, PMPI_Wtime() - begin);
        return code;
    }
    sv_drop_region_t *region = to.peer == MPI_PROC_NULL ? NULL : sv_drop_message(&call, buf, count, type, true, false);
    if (!region)
        return send_plain(kind, buf, count, type, to);
    sv_drop_stage(&call);
    code = send_plain(kind, sv_drop_address(region), region->count, region->type, to);
    if (code == MPI_SUCCESS)
        sv_drop_count(kind->name, "staged", to.comm, to.peer, type, count, PMPI_Wtime() - begin);
    sv_drop_call_end(&call);
    return code;
}

static int isend_device(const kind_t *kind, const void *buf, int count, MPI_Datatype type, envelope_t to,
                        MPI_Request *request)
{
    sv_drop_call_t call = {.name = kind->iname, .has_peer = true, .peer = to.peer, .tag = to.tag};
    MPI_Request inner = MPI_REQUEST_NULL;
    int code;
    if (isend_fast(kind, kind->iname, buf, count, type, to, request, &code)) {
        sv_drop_count(kind->iname, "fast", to.comm, to.peer, type, count, 0);
        return code;
    }
    sv_drop_region_t *region = to.peer == MPI_PROC_NULL ? NULL : sv_drop_message(&call, buf, count, type, true, false);
    if (!region)
        return kind->isend(buf, count, type, to.peer, to.tag, to.comm, request);
    sv_drop_stage(&call);
    code = kind->isend(sv_drop_address(region), region->count, region->type, to.peer, to.tag, to.comm, &inner);
    if (code != MPI_SUCCESS) {
        sv_drop_call_end(&call);
        return code;
    }
    sv_drop_count(kind->iname, "staged", to.comm, to.peer, type, count, 0);
    return sv_drop_request_start(&call, NULL, inner, false, request);
}

static int send_init_device(const kind_t *kind, const void *buf, int count, MPI_Datatype type, envelope_t to,
                            MPI_Request *request)
{
    sv_drop_call_t call = {.name = kind->init_name, .has_peer = true, .peer = to.peer, .tag = to.tag};
    MPI_Request inner = MPI_REQUEST_NULL;
    sv_drop_region_t *region = to.peer == MPI_PROC_NULL ? NULL : sv_drop_message(&call, buf, count, type, true, false);
    if (!region)
        return kind->init(buf, count, type, to.peer, to.tag, to.comm, request);
    int code = kind->init(sv_drop_address(region), region->count, region->type, to.peer, to.tag, to.comm, &inner);
    if (code == MPI_SUCCESS)
        return sv_drop_request_keep(&call, NULL, inner, false, request);
    sv_drop_call_end(&call);
    return code;
}

#define SENDS(NAME, INAME)                                                                                             \
    static const kind_t kind_##NAME = {"MPI_" #NAME, "MPI_" #INAME, "MPI_" #NAME "_init",                              \
                                       PMPI_##NAME, PMPI_##INAME, PMPI_##NAME##_init};                                 \
    SV_DROP_EXPORT int MPI_##NAME(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)     \
    {                                                                                                                  \
        if (!sv_drop_is_host_typed(buf, count, type))                                                                  \
            return send_device(&kind_##NAME, buf, count, type, (envelope_t){dest, tag, comm});                         \
        return sv_drop_has_open() ? send_plain(&kind_##NAME, buf, count, type, (envelope_t){dest, tag, comm})          \
                                  : PMPI_##NAME(buf, count, type, dest, tag, comm);                                    \
    }                                                                                                                  \
    SV_DROP_EXPORT int MPI_##INAME(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,    \
                                   MPI_Request *request)                                                               \
    {                                                                                                                  \
        return sv_drop_is_host_typed(buf, count, type)                                                                 \
                   ? PMPI_##INAME(buf, count, type, dest, tag, comm, request)                                          \
                   : isend_device(&kind_##NAME, buf, count, type, (envelope_t){dest, tag, comm}, request);             \
    }                                                                                                                  \
    SV_DROP_EXPORT int MPI_##NAME##_init(const void *buf, int count, MPI_Datatype type, int dest, int tag,             \
                                         MPI_Comm comm, MPI_Request *request)                                          \
    {                                                                                                                  \
        return sv_drop_is_host_typed(buf, count, type)                                                                 \
                   ? PMPI_##NAME##_init(buf, count, type, dest, tag, comm, request)                                    \
                   : send_init_device(&kind_##NAME, buf, count, type, (envelope_t){dest, tag, comm}, request);         \
    }

SENDS(Send, Isend)
SENDS(Ssend, Issend)
SENDS(Bsend, Ibsend)
SENDS(Rsend, Irsend)

int sv_drop_isend(const char *name, const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                  MPI_Request *request)
{
    kind_t kind = kind_Send;
    kind.iname = name;
    return sv_drop_is_host_typed(buf, count, type)
               ? PMPI_Isend(buf, count, type, dest, tag, comm, request)
               : isend_device(&kind, buf, count, type, (envelope_t){dest, tag, comm}, request);
}

/* --- receives ----------------------------------------------------------------------------------------------------- */

/* From nobody never blocks, and MPICH's status of the non-blocking form is not that of the blocking one. */
static int recv_plain(void *buf, int count, MPI_Datatype type, envelope_t from, MPI_Status *status)
{
    MPI_Request request = MPI_REQUEST_NULL;
    if (!sv_drop_has_open() || from.peer == MPI_PROC_NULL)
        return PMPI_Recv(buf, count, type, from.peer, from.tag, from.comm, status);
    return sv_drop_drive(PMPI_Irecv(buf, count, type, from.peer, from.tag, from.comm, &request), &request, status);
}

/* Whether a letter could come in place of a message to host memory. */
static bool is_watched(int64_t count, MPI_Datatype type, int source)
{
    return __builtin_expect(sv_drop_fast_wanted, 0) && source != MPI_PROC_NULL && sv_drop_fast_hears() &&
           sv_drop_fast_watches(count, type, false);
}

/* Of device memory, or watched. Nothing of this rank's is owed to anybody while it blocks, or sends would be open. */
static int recv_looking(void *buf, int count, MPI_Datatype type, envelope_t from, bool host, MPI_Status *status)
{
    sv_drop_call_t call = {.name = "MPI_Recv", .has_peer = true, .begin_ns = sv_drop_trace_now()};
    sv_drop_fast_t fast = {0};
    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;
    sv_drop_region_t *region =
        host || from.peer == MPI_PROC_NULL ? NULL : sv_drop_message(&call, buf, count, type, false, true);
    if (!region && !host)
        return recv_plain(buf, count, type, from, status);
    if (__builtin_expect(sv_drop_fast_wanted, 0) && sv_drop_fast_hears())
        sv_drop_fast_listen(&fast, buf, count, type, from.comm, !host);
    if (!region && fast.listens)
        region = sv_drop_unpacking(&call, buf, count, type);
    sv_drop_stage(&call);
    int code = region ? recv_plain(sv_drop_address(region), region->count, region->type, from, used)
                      : recv_plain(buf, count, type, from, used);
    bool came = code == MPI_SUCCESS && sv_drop_fast_finish(&fast, &call, used, &code);
    if (came) {
        call.fast = true;
        call.bytes = (int64_t)fast.bytes;
    } else if (code == MPI_SUCCESS)
        sv_drop_land(&call, used);
    call.peer = code == MPI_SUCCESS ? used->MPI_SOURCE : from.peer;
    call.tag = code == MPI_SUCCESS ? used->MPI_TAG : from.tag;
    sv_drop_call_end(&call);
    sv_drop_fast_release(&fast);
    return code;
}

SV_DROP_EXPORT int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                            MPI_Status *status)
{
    MPI_Message message;
    bool host = sv_drop_is_host_typed(buf, count, type);
    if (sv_drop_has_taken() && sv_drop_taken_match(source, tag, comm, &message))
        return MPI_Mrecv(buf, count, type, &message, status);
    if (!host || is_watched(count, type, source))
        return recv_looking(buf, count, type, (envelope_t){source, tag, comm}, host, status);
    return sv_drop_has_open() ? recv_plain(buf, count, type, (envelope_t){source, tag, comm}, status)
                              : PMPI_Recv(buf, count, type, source, tag, comm, status);
}

/* What MPI is given for a receive: pinned memory, or the program's; and what is watched. */
typedef struct place {
    void *buf;
    int count;
    MPI_Datatype type;
    bool ours; /* the request will be the drop-in's */
} place_t;

/* An announcement that a probe has read is listened to wherever it is received. */
static place_t place_recv(sv_drop_call_t *call, sv_drop_fast_t *fast, const place_t *given, MPI_Comm comm)
{
    sv_drop_region_t *region = sv_drop_is_host_typed(given->buf, given->count, given->type)
                                   ? NULL : sv_drop_message(call, given->buf, given->count, given->type, false, true);
    if (__builtin_expect(sv_drop_fast_wanted, 0))
        sv_drop_fast_listen(fast, given->buf, given->count, given->type, comm, region || fast->renames);
    if (!region && fast->listens)
        region = sv_drop_unpacking(call, given->buf, given->count, given->type);
    if (!region)
        return (place_t){given->buf, given->count, given->type, fast->listens || fast->renames};
    sv_drop_stage(call);
    return (place_t){sv_drop_address(region), region->count, region->type, true};
}

/* The end of a call that has begun to receive, or of one that could not. */
static int begun(sv_drop_call_t *call, sv_drop_fast_t *fast, int code, MPI_Request inner, MPI_Request *request)
{
    if (code == MPI_SUCCESS)
        return sv_drop_request_start(call, fast, inner, true, request);
    sv_drop_call_end(call);
    sv_drop_fast_release(fast);
    return code;
}

typedef int (*irecv_t)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

/* MPI_Irecv, and MPI_Recv_init, whose request is kept. */
static int receive(const char *name, irecv_t irecv, bool keeps, place_t at, envelope_t from, MPI_Request *request)
{
    sv_drop_call_t call = {.name = name, .has_peer = true, .peer = from.peer, .tag = from.tag,
                           .begin_ns = sv_drop_trace_now()};
    sv_drop_fast_t fast = {0};
    MPI_Request inner = MPI_REQUEST_NULL;
    if (from.peer != MPI_PROC_NULL)
        at = place_recv(&call, &fast, &at, from.comm);
    if (!at.ours)
        return irecv(at.buf, at.count, at.type, from.peer, from.tag, from.comm, request);
    int code = irecv(at.buf, at.count, at.type, from.peer, from.tag, from.comm, &inner);
    if (code == MPI_SUCCESS && keeps)
        return sv_drop_request_keep(&call, &fast, inner, true, request);
    return begun(&call, &fast, code, inner, request);
}

int sv_drop_irecv(const char *name, void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                  MPI_Request *request)
{
    MPI_Message message;
    if (sv_drop_has_taken() && sv_drop_taken_match(source, tag, comm, &message))
        return MPI_Imrecv(buf, count, type, &message, request);
    return receive(name, PMPI_Irecv, false, (place_t){buf, count, type, false}, (envelope_t){source, tag, comm},
                   request);
}

SV_DROP_EXPORT int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                             MPI_Request *request)
{
    return sv_drop_irecv("MPI_Irecv", buf, count, type, source, tag, comm, request);
}

SV_DROP_EXPORT int MPI_Recv_init(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                                 MPI_Request *request)
{
    return receive("MPI_Recv_init", PMPI_Recv_init, true, (place_t){buf, count, type, false},
                   (envelope_t){source, tag, comm}, request);
}

SV_DROP_EXPORT int MPI_Imrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
{
    sv_drop_call_t call = {.name = "MPI_Imrecv", .has_peer = true, .begin_ns = sv_drop_trace_now()};
    sv_drop_fast_t fast = {0};
    MPI_Request inner = MPI_REQUEST_NULL;
    place_t at = {buf, count, type, false};
    MPI_Comm comm = sv_drop_has_taken() && sv_drop_taken_claim(*message, &fast) ? fast.comm : MPI_COMM_WORLD;
    if (*message != MPI_MESSAGE_NO_PROC)
        at = place_recv(&call, &fast, &at, comm);
    if (!at.ours)
        return PMPI_Imrecv(buf, count, type, message, request);
    int code = PMPI_Imrecv(at.buf, at.count, at.type, message, &inner);
    return begun(&call, &fast, code, inner, request);
}

SV_DROP_EXPORT int MPI_Mrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
    MPI_Request request;
    if (*message == MPI_MESSAGE_NO_PROC ||
        (!sv_drop_has_taken() && !is_watched(count, type, 0) && sv_drop_is_host_typed(buf, count, type)))
        return PMPI_Mrecv(buf, count, type, message, status);
    int code = MPI_Imrecv(buf, count, type, message, &request);
    return code == MPI_SUCCESS ? MPI_Wait(&request, status) : code;
}
