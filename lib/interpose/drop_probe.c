/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Probes. Without the fast route they only have to be driven. On it, what MPI finds may be an announcement, whose
 * length is not the message's, and only a receive can tell. So a message of just that length is taken out of MPI's
 * matching and read. It is then sent to this rank itself, so that it can be received again by a handle that is MPI's
 * own. Messages that the same rank has sent before it under other tags are taken as well, so that no order changes.
 * Receives and probes look here first.
 *
 * Any thread; the lock of requests guards the list, which owns what was taken until it is received.
 */
#include "interpose/drop_probe.h"
#include "interpose/drop_raise.h"

#include <stdlib.h>

typedef struct taken {
    struct taken *next; /* in the order in which they were sent */
    MPI_Comm comm;
    int source, tag;
    MPI_Count bytes;    /* of the program's message */
    MPI_Message handle;
    void *text;         /* of one that was sent again; NULL: the handle is of comm */
    MPI_Request sent;   /* kept until it is received: MPICH forgets messages to the same rank whose request is freed */
    bool given;         /* to the program by MPI_Mprobe: found by its handle only */
} taken_t;

_Atomic int sv_drop_taken;

/* That a communicator is freed, as its attribute's deletion says: a note, because MPI may hold a lock of its own. */
typedef struct freed {
    struct freed *before;
    MPI_Comm comm;
} freed_t;

static struct {
    taken_t *first;
    MPI_Comm self;
    bool has_self;
    int key;                  /* of communicators that something was taken from */
    _Atomic(freed_t *) freed; /* since */
} taken_list = {.key = MPI_KEYVAL_INVALID};

static MPI_Count probed_bytes(const MPI_Status *status)
{
    MPI_Count bytes = 0;
    return PMPI_Get_elements_x((MPI_Status *)(uintptr_t)status, MPI_BYTE, &bytes) == MPI_SUCCESS ? bytes : 0;
}

/* --- communicators that are freed --------------------------------------------------------------------------------- */

static int comm_is_freed(MPI_Comm comm, int key, void *value, void *extra)
{
    freed_t *note = value;
    (void)key, (void)extra;
    note->comm = comm;
    note->before = atomic_load_explicit(&taken_list.freed, memory_order_relaxed);
    /* Partner: the acquire in forget_freed(). */
    while (!atomic_compare_exchange_weak_explicit(&taken_list.freed, &note->before, note, memory_order_release,
                                                  memory_order_relaxed))
        ;
    return MPI_SUCCESS;
}

static void drop_taken(taken_t *taken);

/* MPI gives out a freed handle again, so that what was taken from a freed communicator is dropped. The caller has the
   lock. */
static void forget_freed(void)
{
    /* Partner: the release in comm_is_freed(). */
    freed_t *note = atomic_exchange_explicit(&taken_list.freed, NULL, memory_order_acquire);
    while (note) {
        freed_t *before = note->before;
        for (taken_t *at = taken_list.first, *next; at; at = next) {
            next = at->next;
            if (at->comm == note->comm && !at->given) /* the program has the handle of those */
                drop_taken(at);
        }
        free(note);
        note = before;
    }
}

/* --- taking ------------------------------------------------------------------------------------------------------- */

static taken_t *append_taken(MPI_Comm comm, MPI_Message handle, const MPI_Status *status)
{
    taken_t *made = calloc(1, sizeof *made), **at = &taken_list.first;
    void *found = NULL;
    int has = 0;
    forget_freed();
    /* The communicator gets the note that its deletion will write into. */
    if (taken_list.key == MPI_KEYVAL_INVALID)
        PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, comm_is_freed, &taken_list.key, NULL);
    PMPI_Comm_get_attr(comm, taken_list.key, &found, &has);
    freed_t *note = has ? NULL : calloc(1, sizeof *note);
    if (!made || (!has && (!note || PMPI_Comm_set_attr(comm, taken_list.key, note) != MPI_SUCCESS)))
        sv_drop_fatal("no memory", "for a probe");
    *made = (taken_t){NULL, comm, status->MPI_SOURCE, status->MPI_TAG, probed_bytes(status), handle, NULL,
                       MPI_REQUEST_NULL, false};
    while (*at)
        at = &(*at)->next;
    *at = made;
    atomic_fetch_add_explicit(&sv_drop_taken, 1, memory_order_relaxed);
    return made;
}

/* Reads what was taken, and sends it to this rank again. */
static void read_taken(taken_t *taken)
{
    MPI_Status status;
    uint64_t bytes = 0;
    int found = 0;
    taken->text = malloc(SV_DROP_ANNOUNCE_BYTES);
    if (!taken->text)
        sv_drop_fatal("no memory", "for a probe");
    PMPI_Mrecv(taken->text, SV_DROP_ANNOUNCE_BYTES, MPI_BYTE, &taken->handle, MPI_STATUS_IGNORE);
    if (sv_drop_fast_announces(taken->text, &bytes))
        taken->bytes = (MPI_Count)bytes;
    if (!taken_list.has_self) {
        taken_list.self = sv_drop_make_self();
        taken_list.has_self = true;
    }
    PMPI_Isend(taken->text, SV_DROP_ANNOUNCE_BYTES, MPI_BYTE, 0, 0, taken_list.self, &taken->sent);
    while (!found) /* nothing else is ever in flight on that communicator */
        PMPI_Improbe(0, 0, taken_list.self, &found, &taken->handle, &status);
}

static bool may_be_announcement(const MPI_Status *status, MPI_Comm comm)
{
    return status->MPI_SOURCE != MPI_PROC_NULL && probed_bytes(status) == SV_DROP_ANNOUNCE_BYTES &&
           sv_drop_is_inside(comm);
}

/* Takes what a probe has found, and what its sender has sent before. NULL if another thread was faster. */
static taken_t *take_up_to(MPI_Comm comm, const MPI_Status *wanted)
{
    MPI_Message handle;
    MPI_Status status;
    int found = 0;
    while (PMPI_Improbe(wanted->MPI_SOURCE, MPI_ANY_TAG, comm, &found, &handle, &status) == MPI_SUCCESS && found) {
        taken_t *taken = append_taken(comm, handle, &status);
        if (may_be_announcement(&status, comm))
            read_taken(taken);
        if (status.MPI_TAG == wanted->MPI_TAG)
            return taken;
    }
    return NULL;
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

static taken_t *find_taken(int source, int tag, MPI_Comm comm)
{
    taken_t *at = taken_list.first;
    while (at && (at->given || at->comm != comm || (source != MPI_ANY_SOURCE && source != at->source) ||
                  (tag != MPI_ANY_TAG && tag != at->tag)))
        at = at->next;
    return at;
}

static void forget_taken(taken_t *taken)
{
    taken_t **at = &taken_list.first;
    while (*at != taken)
        at = &(*at)->next;
    *at = taken->next;
    atomic_fetch_sub_explicit(&sv_drop_taken, 1, memory_order_relaxed);
    free(taken);
}

bool sv_drop_taken_match(int source, int tag, MPI_Comm comm, MPI_Message *message_out)
{
    sv_drop_lock();
    forget_freed();
    taken_t *taken = source == MPI_PROC_NULL ? NULL : find_taken(source, tag, comm);
    if (taken) {
        taken->given = true;
        *message_out = taken->handle;
    }
    sv_drop_unlock();
    return taken != NULL;
}

bool sv_drop_taken_claim(MPI_Message message, sv_drop_fast_t *state)
{
    sv_drop_lock();
    taken_t *taken = taken_list.first;
    while (taken && (!taken->given || taken->handle != message))
        taken = taken->next;
    if (taken) {
        *state = (sv_drop_fast_t){.comm = taken->comm, .announcement = taken->text, .renames = taken->text != NULL,
                                  .sent = taken->sent, .source = taken->source, .tag = taken->tag};
        forget_taken(taken);
    }
    sv_drop_unlock();
    return taken != NULL;
}

/* Drops what nobody receives. What was sent again is received here, and the rest is left with MPI. */
static void drop_taken(taken_t *taken)
{
    char text[SV_DROP_ANNOUNCE_BYTES];
    if (taken->text)
        PMPI_Mrecv(text, SV_DROP_ANNOUNCE_BYTES, MPI_BYTE, &taken->handle, MPI_STATUS_IGNORE);
    PMPI_Wait(&taken->sent, MPI_STATUS_IGNORE);
    free(taken->text);
    forget_taken(taken);
}

/* MPI is about to end: the attributes that are left are deleted with it. */
void sv_drop_taken_end(void)
{
    sv_drop_lock();
    forget_freed();
    while (taken_list.first)
        drop_taken(taken_list.first);
    if (taken_list.has_self)
        PMPI_Comm_free(&taken_list.self);
    taken_list.has_self = false;
    if (taken_list.key != MPI_KEYVAL_INVALID)
        PMPI_Comm_free_keyval(&taken_list.key);
    sv_drop_unlock();
}

/* --- persistent requests that another one stands for -------------------------------------------------------------- */

/* MPI's own request stays inactive then. A receive of the message that was taken, or a send by the route, stands in its
   place until a completion call has told the program. The operation owns that; its state is changed under the lock. */
_Atomic bool sv_drop_given_ever;

void sv_drop_given_begin(sv_drop_op_t *op, int code)
{
    op->active = op->given = false;
    atomic_store_explicit(&sv_drop_given_ever, true, memory_order_relaxed);
    if (code != MPI_SUCCESS) {
        op->instead = MPI_REQUEST_NULL;
        op->error = code;
        op->given = true;
    }
}

/* MPI_Request_get_status ends nothing by the standard. That of MPICH 5.0, and of others that are made of it, ends a
   persistent request that is complete: the call that completes it then has the empty status, and MPI_Waitany passes it
   by. There the drop-in ends such a request itself, by MPI_Test, and keeps its status and its error for the program.
   (MPIs of that kind keep a persistent request that has failed, unlike Open MPI.) */
static struct {
    pthread_once_t once;
    bool ends;
} asking = {.once = PTHREAD_ONCE_INIT};

/* Completes a persistent receive from this rank after asking about it. */
static void ask_mpi_twice(void)
{
    enum { TAG = 1 };
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status = {0};
    MPI_Comm self = sv_drop_make_self();
    char sent = 1, got = 0;
    int done = 0;
    if (PMPI_Recv_init(&got, 1, MPI_BYTE, 0, TAG, self, &request) != MPI_SUCCESS ||
        PMPI_Start(&request) != MPI_SUCCESS || PMPI_Send(&sent, 1, MPI_BYTE, 0, TAG, self) != MPI_SUCCESS)
        sv_drop_fatal("MPI_Start", "of a receive from this rank has failed");
    while (!done && PMPI_Request_get_status(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS)
        continue;
    asking.ends = PMPI_Wait(&request, &status) != MPI_SUCCESS || status.MPI_TAG != TAG;
    if (request != MPI_REQUEST_NULL)
        PMPI_Request_free(&request);
    PMPI_Comm_free(&self);
}

void sv_drop_given_keep(void)
{
    pthread_once(&asking.once, ask_mpi_twice);
    if (asking.ends) /* completion calls look at the requests before MPI does */
        atomic_store_explicit(&sv_drop_given_ever, true, memory_order_relaxed);
}

int sv_drop_given_ask(sv_drop_op_t *op, MPI_Request request, int mine, int *done, MPI_Status *status)
{
    if (!op->persistent || !asking.ends)
        return PMPI_Request_get_status(request, done, status);
    int code = MPI_SUCCESS;
    sv_drop_lock();
    if (op->asked) {
        *done = 1;
        *status = op->status;
        code = op->asked_error;
    } else if (op->held != mine) /* MPI may be at it, and ends it for that call */
        *done = 0;
    else if (!op->active)
        code = PMPI_Request_get_status(request, done, status);
    else if ((code = PMPI_Test(&request, done, status)) != MPI_SUCCESS || *done) {
        *done = 1;
        op->asked_error = code;
        op->status = *status;
        op->given = op->asked = true;
    }
    sv_drop_unlock();
    return code;
}

bool sv_drop_given_refuses(const sv_drop_op_t *op, int *code_out)
{
    if (op->instead == MPI_REQUEST_NULL)
        return false;
    *code_out = sv_drop_raise(MPI_COMM_WORLD, MPI_ERR_REQUEST);
    return true;
}

bool sv_drop_given_start(sv_drop_op_t *op)
{
    MPI_Message message = MPI_MESSAGE_NULL;
    if (!op->persistent || !op->message || op->call.parts)
        return false;
    if (sv_drop_fragments_may_come(&op->fast)) { /* a test of MPI's own request would have to wait for them */
        sv_drop_given_begin(op, sv_drop_irecv("MPI_Start", op->fast.buf, (int)op->fast.count, op->fast.type, op->source,
                                              op->tag, op->fast.comm, &op->instead));
        return true;
    }
    if (!sv_drop_has_taken() || !sv_drop_taken_match(op->source, op->tag, op->fast.comm, &message))
        return false;
    sv_drop_given_begin(op, MPI_Imrecv(op->fast.buf, (int)op->fast.count, op->fast.type, &message, &op->instead));
    return true;
}

bool sv_drop_given_ended(sv_drop_op_t *op, bool blocks)
{
    int done = 1;
    if (op->instead == MPI_REQUEST_NULL)
        return op->given;
    const int code =
        blocks ? MPI_Wait(&op->instead, &op->status) : MPI_Test(&op->instead, &done, &op->status);
    if (code == MPI_SUCCESS && !done)
        return false;
    op->instead = MPI_REQUEST_NULL;
    op->error = code;
    op->given = true;
    return true;
}

int sv_drop_given_set_status(sv_drop_op_t *op, MPI_Status *status, bool ends)
{
    int error = op->error;
    *status = op->status;
    if (op->asked) /* lands here; MPI has told the error handler of an error of its own */
        error = sv_drop_op_settle(op, op->asked_error == MPI_SUCCESS ? status : NULL, ends);
    if (op->asked && op->asked_error != MPI_SUCCESS)
        error = op->asked_error;
    status->MPI_ERROR = error;
    if (ends) {
        op->given = op->asked = false;
        op->error = MPI_SUCCESS;
    }
    return error;
}

/* --- the calls ---------------------------------------------------------------------------------------------------- */

/* message NULL: it is only looked at. The caller has the lock. */
static int probe_locked(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
    MPI_Status own, *used = status == MPI_STATUS_IGNORE ? &own : status;
    forget_freed();
    /* Messages that were taken before come first. */
    taken_t *taken = sv_drop_has_taken() && source != MPI_PROC_NULL ? find_taken(source, tag, comm) : NULL;
    int code = MPI_SUCCESS;
    if (!taken) {
        code = message ? PMPI_Improbe(source, tag, comm, flag, message, used)
                       : PMPI_Iprobe(source, tag, comm, flag, used);
        if (code != MPI_SUCCESS || !*flag || !may_be_announcement(used, comm))
            return code;
        /* Only a receive can tell: take it. */
        if (message)
            read_taken(taken = append_taken(comm, *message, used));
        else
            taken = take_up_to(comm, used);
    }
    *flag = taken != NULL;
    if (!taken)
        return code;
    PMPI_Status_set_elements_x(used, MPI_BYTE, taken->bytes);
    PMPI_Status_set_cancelled(used, 0);
    used->MPI_SOURCE = taken->source;
    used->MPI_TAG = taken->tag;
    if (message) {
        *message = taken->handle;
        taken->given = true;
    }
    return code;
}

static int probe_message(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
    if (!sv_drop_fast_reads())
        return message ? PMPI_Improbe(source, tag, comm, flag, message, status)
                       : PMPI_Iprobe(source, tag, comm, flag, status);
    sv_drop_lock();
    int code = probe_locked(source, tag, comm, flag, message, status);
    sv_drop_unlock();
    return code;
}

static bool is_probe_plain(void)
{
    return !sv_drop_is_busy() && !sv_drop_fast_reads();
}

static int drive_probe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    unsigned turns = 0;
    int found = 0, code = MPI_SUCCESS;
    while (code == MPI_SUCCESS && !found) {
        sv_drop_turn(&turns);
        code = probe_message(source, tag, comm, &found, message, status);
    }
    return code;
}

SV_DROP_EXPORT int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    sv_drop_flush();
    return is_probe_plain() ? PMPI_Probe(source, tag, comm, status) : drive_probe(source, tag, comm, NULL, status);
}

SV_DROP_EXPORT int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    sv_drop_flush();
    if (sv_drop_is_busy())
        sv_drop_progress();
    return probe_message(source, tag, comm, flag, NULL, status);
}

SV_DROP_EXPORT int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    sv_drop_flush();
    return is_probe_plain() ? PMPI_Mprobe(source, tag, comm, message, status)
                            : drive_probe(source, tag, comm, message, status);
}

SV_DROP_EXPORT int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
    sv_drop_flush();
    if (sv_drop_is_busy())
        sv_drop_progress();
    return probe_message(source, tag, comm, flag, message, status);
}
