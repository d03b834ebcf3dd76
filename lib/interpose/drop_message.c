/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between two ranks: the four kinds of send, receive, and their persistent forms. Each is one plain message of
 * MPI's, whatever the memory at either end, so that ranks with and without the drop-in meet. While requests of ours are
 * in flight, calls that block are driven by tests, so that those requests go on meanwhile.
 *
 * Any thread. A call owns its staging memory; a request takes that over.
 */
#include "interpose/drop_order.h"
#include "interpose/drop_probe.h"
#include "interpose/drop_strip.h"

typedef int (*send_t)(const void *, int, MPI_Datatype, int, int, MPI_Comm);

/* The rank that a message goes to or comes from. */
typedef struct envelope {
    int peer, tag;
    MPI_Comm comm;
} envelope_t;

/* A kind of send: the names of the call that blocks and of that which keeps a request, and MPI's own calls. */
typedef struct kind {
    const char *name, *init_name;
    send_t send;
    sv_drop_isend_t isend, init;
} kind_t;

/* --- sends -------------------------------------------------------------------------------------------------------- */

static int send_plain(const kind_t *kind, const void *buf, int count, MPI_Datatype type, envelope_t to)
{
    MPI_Request request = MPI_REQUEST_NULL;
    if (!sv_drop_is_busy())
        return kind->send(buf, count, type, to.peer, to.tag, to.comm);
    int code = kind->isend(buf, count, type, to.peer, to.tag, to.comm, &request);
    return sv_drop_drive(code, &request, MPI_STATUS_IGNORE);
}

/* Whether such a message may go in fragments. Of all others MPI is to know at once how long they are, and when their
   receive has begun. */
static bool may_fragment(sv_drop_isend_t isend, int count, MPI_Datatype type, envelope_t to)
{
    return (isend == PMPI_Isend || isend == PMPI_Irsend) &&
           sv_drop_fragments_may_send(count, type, to.peer, to.tag, to.comm);
}

/* Sends a staging buffer in fragments, and makes a request of the call. */
static int isend_fragments(sv_drop_isend_t isend, sv_drop_call_t *call, sv_drop_buffer_t *buffer, envelope_t to,
                           MPI_Request *request)
{
    sv_drop_fast_t fast = {0};
    MPI_Request inner = MPI_REQUEST_NULL;
    sv_drop_batch_post();
    void *announcement = sv_drop_fragments_announce(&fast, buffer, to.peer, to.tag, to.comm);
    const int code = isend(announcement, SV_DROP_ANNOUNCE_BYTES, MPI_BYTE, to.peer, to.tag, to.comm, &inner);
    call->fragmented = true;
    if (code == MPI_SUCCESS) {
        sv_drop_fragments_send(&fast, buffer);
        return sv_drop_request_start(call, &fast, inner, MPI_REQUEST_NULL, false, request);
    }
    sv_drop_call_end(call);
    sv_drop_fast_release(&fast);
    return code;
}

static int send_device(const kind_t *kind, const void *buf, int count, MPI_Datatype type, envelope_t to)
{
    sv_drop_call_t call = {.name = kind->name, .has_peer = true, .peer = to.peer, .tag = to.tag};
    MPI_Request request;
    int code;
    sv_drop_flush();
    double begin = PMPI_Wtime();
    if (sv_drop_fast_isend(kind->name, kind->isend, SV_DROP_WAITED, buf, count, type, to.peer, to.tag, to.comm,
                           &request, &code)) {
        code = code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
        if (code == MPI_SUCCESS)
            sv_drop_count(kind->name, "fast", to.comm, to.peer, type, count, PMPI_Wtime() - begin);
        return code;
    }
    sv_drop_buffer_t *buffer = to.peer == MPI_PROC_NULL ? NULL : sv_drop_message(&call, buf, count, type, true, false);
    if (!buffer)
        return send_plain(kind, buf, count, type, to);
    if (may_fragment(kind->isend, count, type, to) && sv_drop_fragments_suit(buffer)) {
        code = isend_fragments(kind->isend, &call, buffer, to, &request);
        code = code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
        if (code == MPI_SUCCESS)
            sv_drop_count(kind->name, "fragments", to.comm, to.peer, type, count, PMPI_Wtime() - begin);
        return code;
    }
    sv_drop_stage(&call);
    code = send_plain(kind, sv_drop_address(buffer), buffer->count, buffer->type, to);
    if (code == MPI_SUCCESS)
        sv_drop_count(kind->name, "staged", to.comm, to.peer, type, count, PMPI_Wtime() - begin);
    sv_drop_call_end(&call);
    return code;
}

int sv_drop_isend(const char *name, sv_drop_isend_t isend, sv_drop_manner_t manner, const void *buf, int count,
                  MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
    const envelope_t to = {dest, tag, comm};
    sv_drop_call_t call = {.name = name, .has_peer = true, .peer = dest, .tag = tag};
    MPI_Request inner = MPI_REQUEST_NULL;
    int code;
    /* 1. By the route. */
    sv_drop_batch_note_send();
    if (sv_drop_fast_isend(name, isend, manner, buf, count, type, dest, tag, comm, request, &code)) {
        if (code == MPI_SUCCESS)
            sv_drop_count(name, "fast", comm, dest, type, count, 0);
        return code;
    }
    /* 2. From staging memory: in fragments, or with others in a batch. */
    const bool fragments = may_fragment(isend, count, type, to);
    call.joins = !fragments && (isend == PMPI_Isend || isend == PMPI_Irsend);
    sv_drop_buffer_t *buffer = dest == MPI_PROC_NULL ? NULL : sv_drop_message(&call, buf, count, type, true, false);
    if (buffer && fragments && sv_drop_fragments_suit(buffer)) {
        code = isend_fragments(isend, &call, buffer, to, request);
        if (code == MPI_SUCCESS)
            sv_drop_count(name, "fragments", comm, dest, type, count, 0);
        return code;
    }
    if (buffer && sv_drop_batch_add(isend, &call, comm, request)) {
        sv_drop_count(name, "staged", comm, dest, type, count, 0);
        return MPI_SUCCESS;
    }
    /* 3. By itself. */
    sv_drop_flush();
    if (!buffer)
        return isend(buf, count, type, dest, tag, comm, request);
    sv_drop_stage(&call);
    code = isend(sv_drop_address(buffer), buffer->count, buffer->type, dest, tag, comm, &inner);
    if (code != MPI_SUCCESS) {
        sv_drop_call_end(&call);
        return code;
    }
    sv_drop_count(name, "staged", comm, dest, type, count, 0);
    return sv_drop_request_start(&call, NULL, inner, MPI_REQUEST_NULL, false, request);
}

static int send_init_device(const kind_t *kind, const void *buf, int count, MPI_Datatype type, envelope_t to,
                            MPI_Request *request)
{
    sv_drop_call_t call = {.name = kind->init_name, .has_peer = true, .peer = to.peer, .tag = to.tag};
    MPI_Request inner = MPI_REQUEST_NULL;
    sv_drop_buffer_t *buffer = to.peer == MPI_PROC_NULL ? NULL : sv_drop_message(&call, buf, count, type, true, false);
    if (!buffer)
        return kind->init(buf, count, type, to.peer, to.tag, to.comm, request);
    int code = kind->init(sv_drop_address(buffer), buffer->count, buffer->type, to.peer, to.tag, to.comm, &inner);
    if (code != MPI_SUCCESS || !sv_drop_fast_may_take(count, type) ||
        (kind->isend != PMPI_Isend && kind->isend != PMPI_Irsend))
        return sv_drop_coll_keep(&call, code, inner, request);
    /* What may go by the route when it is started is remembered for that. */
    sv_drop_fast_t fast = {0};
    sv_drop_fast_remember(&fast, (void *)(uintptr_t)buf, count, type, to.comm);
    code = sv_drop_request_keep(&call, &fast, inner, false, request);
    sv_drop_op_t *op = sv_drop_op_find(*request);
    op->isend = kind->isend;
    sv_drop_op_release(op);
    return code;
}

#define SENDS(NAME, INAME)                                                                                             \
    static const kind_t kind_##NAME = {"MPI_" #NAME, "MPI_" #NAME "_init", PMPI_##NAME, PMPI_##INAME,                  \
                                       PMPI_##NAME##_init};                                                            \
    SV_DROP_EXPORT int MPI_##NAME(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)     \
    {                                                                                                                  \
        if (!sv_drop_is_host_typed(buf, count, type))                                                                  \
            return send_device(&kind_##NAME, buf, count, type, (envelope_t){dest, tag, comm});                         \
        sv_drop_flush();                                                                                               \
        return sv_drop_is_busy() ? send_plain(&kind_##NAME, buf, count, type, (envelope_t){dest, tag, comm})          \
                                  : PMPI_##NAME(buf, count, type, dest, tag, comm);                                    \
    }                                                                                                                  \
    SV_DROP_EXPORT int MPI_##INAME(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,    \
                                   MPI_Request *request)                                                               \
    {                                                                                                                  \
        if (!sv_drop_is_host_typed(buf, count, type))                                                                  \
            return sv_drop_isend("MPI_" #INAME, PMPI_##INAME, SV_DROP_ALONE, buf, count, type, dest, tag, comm,        \
                                 request);                                                                             \
        sv_drop_flush();                                                                                               \
        return PMPI_##INAME(buf, count, type, dest, tag, comm, request);                                               \
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

/* The route has no persistent messages. So a send of its own stands in the place of MPI's request, which stays
   inactive, as with a receive of what a probe has taken (drop_probe.c). */
bool sv_drop_send_start(sv_drop_op_t *op)
{
    const sv_drop_fast_t *fast = &op->fast;
    if (!op->isend ||
        (!sv_drop_fast_may_send(fast->count, fast->type, op->source, op->tag, fast->comm, SV_DROP_ALONE) &&
         !sv_drop_fragments_may_send(fast->count, fast->type, op->source, op->tag, fast->comm)))
        return false;
    const int code = sv_drop_isend("MPI_Start", op->isend, SV_DROP_ALONE, fast->buf, (int)fast->count, fast->type,
                                   op->source, op->tag, fast->comm, &op->instead);
    sv_drop_given_begin(op, code);
    return true;
}

/* --- receives ----------------------------------------------------------------------------------------------------- */

/* The memory that MPI gets for a receive: pinned memory, or the program's. */
typedef struct place {
    void *buf;
    int count;
    MPI_Datatype type;
    const sv_drop_buffer_t *guarded; /* the staging buffer, if buf, count and type are those of its guard; else NULL */
    bool stages;  /* the bytes do not come where the program wants them, and must be brought there after they came */
    bool watches; /* an announcement may come in their place */
} place_t;

sv_drop_buffer_t *sv_drop_recv_buffer(sv_drop_call_t *call, sv_drop_fast_t *fast, void *buf, int64_t count,
                                      MPI_Datatype type, MPI_Comm comm, int source, bool host)
{
    sv_drop_buffer_t *buffer = host ? NULL : sv_drop_message(call, buf, count, type, false, true);
    if (buffer && sv_drop_fast_may_take(count, type))
        sv_drop_wireup(comm, source);
    /* An announcement that a probe has read is listened to wherever it is received. */
    if (__builtin_expect(sv_drop_fast_wanted, 0))
        sv_drop_fast_monitor(fast, buf, count, type, comm, buffer || fast->renames);
    sv_drop_fragments_await(fast, comm, source);
    if (buffer && fast->monitored)
        sv_drop_widen(buffer, fast, count, type);
    fast->comm = comm; /* MPI may not be the one who finds what comes too long */
    if (buffer)
        sv_drop_guard(buffer);
    else
        buffer = sv_drop_recv_unpacking(call, fast, buf, count, type);
    return buffer || host ? buffer : sv_drop_guard_empty(call, buf, count, type);
}

/* Host memory of a derived type is received as bytes, because an announcement may end within an element, and not every
   MPI takes that. */
sv_drop_buffer_t *sv_drop_recv_unpacking(sv_drop_call_t *call, const sv_drop_fast_t *fast, void *buf, int64_t count,
                                         MPI_Datatype type)
{
    sv_drop_buffer_t *buffer =
        fast->monitored &&
                (sv_drop_fast_may_take(count, type) || fast->awaits || sv_drop_fast_is_short(fast, count, type))
            ? sv_drop_unpacking(call, fast, buf, count, type)
            : NULL;
    if (buffer)
        sv_drop_guard(buffer);
    return buffer;
}

/* defers: the call returns before the bytes come. So the program's work is waited for only when they do. */
static place_t place_recv(sv_drop_call_t *call, sv_drop_fast_t *fast, const place_t *given, MPI_Comm comm, int source,
                          bool defers)
{
    sv_drop_buffer_t *buffer =
        sv_drop_recv_buffer(call, fast, given->buf, given->count, given->type, comm, source,
                            sv_drop_is_host_typed(given->buf, given->count, given->type));
    place_t at = {given->buf, given->count, given->type, NULL, buffer != NULL, fast->monitored};
    if (buffer) {
        if (!defers || !sv_drop_order_begin(call))
            sv_drop_stage(call);
        at.buf = sv_drop_address(buffer);
        at.count = buffer->guarded ? 1 : buffer->count;
        at.type = buffer->guarded ? buffer->guard : buffer->type;
        at.guarded = buffer->guarded ? buffer : NULL;
    }
    sv_drop_fast_as_bytes(fast, &at.count, &at.type);
    return at;
}

/* Begins to receive. False: a probe has taken what this receive is to get, and it is *message_out. With threads both
   are one step under the lock, because a probe of another thread may take the message in between. */
static bool begin_recv_at(place_t at, envelope_t from, MPI_Request *inner, int *code,
                          MPI_Message *message_out)
{
    const bool guards = sv_drop_fast_guards();
    if (guards)
        sv_drop_lock();
    const bool taken = sv_drop_has_taken() && sv_drop_taken_match(from.peer, from.tag, from.comm, message_out);
    if (!taken)
        *code = PMPI_Irecv(at.buf, at.count, at.type, from.peer, from.tag, from.comm, inner);
    if (guards)
        sv_drop_unlock();
    return !taken;
}

/* MPI_Recv of device memory, or of host memory where an announcement may come or a probe may take the message. */
static int recv_looking(void *buf, int count, MPI_Datatype type, envelope_t from, MPI_Status *status)
{
    sv_drop_call_t call = {.name = "MPI_Recv", .has_peer = true, .begin_ns = sv_drop_trace_now()};
    sv_drop_fast_t fast = {0};
    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;
    MPI_Request inner = MPI_REQUEST_NULL;
    MPI_Message message = MPI_MESSAGE_NULL;
    place_t at = {buf, count, type, NULL, false, false};
    int code = MPI_SUCCESS;
    bool received = true; /* else a probe has taken the message */
    if (from.peer != MPI_PROC_NULL)
        at = place_recv(&call, &fast, &at, from.comm, from.peer, false);
    /* It blocks in MPI where nothing prevents that. */
    if (from.peer == MPI_PROC_NULL ||
        (!sv_drop_fast_guards() && !sv_drop_has_taken() && !sv_drop_is_busy() && !sv_drop_fast_drives()))
        /* Of an error with no communicator Open MPI tells another handler in MPI_Mprobe. */
        code = at.guarded && from.comm != MPI_COMM_NULL
                   ? sv_drop_recv_guarded(at.guarded, from.peer, from.tag, from.comm, used)
                   : PMPI_Recv(at.buf, at.count, at.type, from.peer, from.tag, from.comm, used);
    else if ((received = begin_recv_at(at, from, &inner, &code, &message)))
        code = sv_drop_await(code, &inner, used);
    /* MPI has received an announcement, whose bytes then follow, or the bytes. */
    bool arrived = received && code == MPI_SUCCESS && sv_drop_fast_finish(&fast, &call, used, &code);
    if (arrived) {
        call.fast = true;
        call.bytes = (int64_t)fast.bytes;
    } else if (received && code == MPI_SUCCESS)
        sv_drop_unstage_call(&call, used);
    call.peer = received && code == MPI_SUCCESS ? used->MPI_SOURCE : from.peer;
    call.tag = received && code == MPI_SUCCESS ? used->MPI_TAG : from.tag;
    sv_drop_call_end(&call);
    sv_drop_fast_release(&fast);
    return received ? sv_drop_heed(code) : MPI_Mrecv(buf, count, type, &message, status);
}

bool sv_drop_recv_has_deadline(int64_t count, MPI_Datatype type, int source, bool host)
{
    return __builtin_expect(sv_drop_settings()->timeout_ns != 0, 0) && source != MPI_PROC_NULL &&
           sv_drop_fast_is_open() && sv_drop_fast_watches(count, type, !host);
}

SV_DROP_EXPORT int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                            MPI_Status *status)
{
    const bool host = sv_drop_is_host_typed(buf, count, type);
    MPI_Request request = MPI_REQUEST_NULL;
    sv_drop_flush();
    if (sv_drop_recv_has_deadline(count, type, source, host)) {
        int code = sv_drop_irecv("MPI_Recv", buf, count, type, source, tag, comm, &request);
        return code == MPI_SUCCESS ? MPI_Wait(&request, status) : code;
    }
    if (!host || (__builtin_expect(sv_drop_fast_wanted, 0) && source != MPI_PROC_NULL &&
                  (sv_drop_fast_guards() || sv_drop_has_taken() || sv_drop_fast_watches(count, type, false))))
        return recv_looking(buf, count, type, (envelope_t){source, tag, comm}, status);
    /* Into host memory as it is. A receive from MPI_PROC_NULL never blocks, and MPICH's status of its non-blocking form
       is not that of the blocking one. */
    if (!sv_drop_is_busy() || source == MPI_PROC_NULL)
        return sv_drop_heed(PMPI_Recv(buf, count, type, source, tag, comm, status));
    return sv_drop_drive(PMPI_Irecv(buf, count, type, source, tag, comm, &request), &request, status);
}

/* Whether MPI's own request will do, and what came is looked at when that is complete: it is received into host memory.
   It must be looked at earlier where ranks owe each other bytes, where the drop-in may not see a request complete, or
   where it has a deadline. */
static bool may_watch_recv(const sv_drop_fast_t *fast, place_t at)
{
    return !at.stages && !fast->renames && !fast->begin_ns && !sv_drop_fast_drives() &&
           !sv_drop_settings()->progress_thread && !sv_drop_fragments_may_come(fast);
}

/* A call that could not begin to receive. */
static int give_recv_up(sv_drop_call_t *call, sv_drop_fast_t *fast, int code)
{
    sv_drop_call_end(call);
    sv_drop_fast_release(fast);
    return code;
}

int sv_drop_irecv(const char *name, void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                  MPI_Request *request)
{
    const place_t given = {buf, count, type, NULL, false, false};
    sv_drop_call_t call = {.name = name, .has_peer = true, .peer = source, .tag = tag, .joins = true,
                           .begin_ns = sv_drop_trace_now()};
    sv_drop_fast_t fast = {0};
    MPI_Request inner = MPI_REQUEST_NULL;
    MPI_Message message = MPI_MESSAGE_NULL;
    int code = MPI_SUCCESS;
    if (source == MPI_PROC_NULL)
        return PMPI_Irecv(buf, count, type, source, tag, comm, request);
    const place_t at = place_recv(&call, &fast, &given, comm, source, true);
    if (!begin_recv_at(at, (envelope_t){source, tag, comm}, &inner, &code, &message)) {
        (void)give_recv_up(&call, &fast, code);
        return MPI_Imrecv(buf, count, type, &message, request);
    }
    if (!at.stages && !at.watches) { /* it is MPI's alone */
        if (code == MPI_SUCCESS) {
            *request = inner;
            sv_drop_op_passed(inner);
        }
        return code;
    }
    if (code != MPI_SUCCESS)
        return give_recv_up(&call, &fast, code);
    return may_watch_recv(&fast, at)
               ? sv_drop_request_watch(&call, &fast, inner, request)
               : sv_drop_request_start(&call, &fast, inner, MPI_REQUEST_NULL, true, request);
}

SV_DROP_EXPORT int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                             MPI_Request *request)
{
    return sv_drop_irecv("MPI_Irecv", buf, count, type, source, tag, comm, request);
}

/* Its request is MPI's own, and kept. */
SV_DROP_EXPORT int MPI_Recv_init(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                                 MPI_Request *request)
{
    const place_t given = {buf, count, type, NULL, false, false};
    sv_drop_call_t call = {.name = "MPI_Recv_init", .has_peer = true, .peer = source, .tag = tag,
                           .begin_ns = sv_drop_trace_now()};
    sv_drop_fast_t fast = {0};
    MPI_Request inner = MPI_REQUEST_NULL;
    if (source == MPI_PROC_NULL)
        return PMPI_Recv_init(buf, count, type, source, tag, comm, request);
    const place_t at = place_recv(&call, &fast, &given, comm, source, false);
    const bool remembers = sv_drop_fast_wanted; /* see drop_probe.c */
    if (remembers && !fast.monitored)
        sv_drop_fast_remember(&fast, buf, count, type, comm);
    const int code = PMPI_Recv_init(at.buf, at.count, at.type, source, tag, comm, &inner);
    if (at.stages || at.watches || remembers)
        return code == MPI_SUCCESS ? sv_drop_request_keep(&call, &fast, inner, true, request)
                                   : give_recv_up(&call, &fast, code);
    if (code == MPI_SUCCESS) {
        *request = inner;
        sv_drop_op_passed(inner);
    }
    return code;
}

SV_DROP_EXPORT int MPI_Imrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
{
    sv_drop_call_t call = {.name = "MPI_Imrecv", .has_peer = true, .begin_ns = sv_drop_trace_now()};
    sv_drop_fast_t fast = {0};
    MPI_Request inner = MPI_REQUEST_NULL;
    place_t at = {buf, count, type, NULL, false, false};
    MPI_Comm comm = sv_drop_has_taken() && sv_drop_taken_claim(*message, &fast) ? fast.comm : MPI_COMM_WORLD;
    if (*message != MPI_MESSAGE_NO_PROC)
        at = place_recv(&call, &fast, &at, comm, MPI_ANY_SOURCE, true);
    if (fast.awaits)
        fast.from = MPI_UNDEFINED; /* a handle does not say of which communicator its source is a rank */
    if (!at.stages && !at.watches && !fast.renames)
        return PMPI_Imrecv(buf, count, type, message, request);
    int code = PMPI_Imrecv(at.buf, at.count, at.type, message, &inner);
    if (code != MPI_SUCCESS)
        return give_recv_up(&call, &fast, code);
    return may_watch_recv(&fast, at)
               ? sv_drop_request_watch(&call, &fast, inner, request)
               : sv_drop_request_start(&call, &fast, inner, MPI_REQUEST_NULL, true, request);
}

SV_DROP_EXPORT int MPI_Mrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
    MPI_Request request;
    sv_drop_flush();
    if (*message == MPI_MESSAGE_NO_PROC ||
        (!sv_drop_has_taken() && !sv_drop_fast_watches(count, type, false) && sv_drop_is_host_typed(buf, count, type)))
        return sv_drop_heed(PMPI_Mrecv(buf, count, type, message, status));
    int code = MPI_Imrecv(buf, count, type, message, &request);
    return code == MPI_SUCCESS ? MPI_Wait(&request, status) : code;
}
