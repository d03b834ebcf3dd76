/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives that are too short for what comes, where MPI itself does not keep to their end. Open MPI 4.1 over shared
 * memory by single copy, or over TCP, copies a long message as a whole to a contiguous receive, and says only then that
 * this was too short. In memory of the program's that is the program's own affair. But after a staging buffer comes
 * staging memory of other messages.
 *
 * MPI copies so only where a receive is one run of bytes, and it does not know that two blocks may be the same memory.
 * So a staging buffer is received into by a guarded type: all its bytes, and one byte more at the place of its first
 * one. Nothing is written beyond its end by that, and what is right lies where it always lies:
 *
 *   staging buffer   [ 0 1 2 ... n-1 ]      guarded type   [ 0 1 2 ... n-1 ] and then [ n ] at the place of 0
 *
 * MPI refuses messages from n + 2 bytes on, and the drop-in those of n + 1, sv_drop_fast_take_announced(). A receive of
 * no elements has the guarded type of one byte, of the drop-in's, and not the address of device memory. Such types
 * are not right by the standard, so they are given only to an MPI that was seen to write too far. It takes longer to
 * receive one message by such a type than as one run, and equally long to receive many. A receive that blocks asks with
 * MPI_Mprobe how long its message is, which costs nothing that can be measured, and takes the guarded type only for one
 * that is too long.
 *
 * Nor does MPICH 5.0 bear a message that ends within an element of its receive, as an announcement may: it ends the
 * program. So receives that are watched are given to MPI as bytes.
 *
 * Any thread. The types that are kept live until MPI_Finalize, and others as long as their call.
 */
#include "interpose/drop.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 256 };

static struct {
    pthread_once_t once;
    bool overruns;
    pthread_mutex_t lock;
    /* bytes 0: there is none yet. An entry never changes. */
    struct {
        _Atomic int64_t bytes;
        MPI_Datatype type;
    } kept[KEPT];
} guard = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static void take_no_notice(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
}

/* Receives one byte of a message to oneself, in memory that has room for all of it. The error is ignored by a handler,
   because Intel's MPI 2021.19 ends the job in spite of MPI_ERRORS_RETURN if it is called by the ABI of MPI 5. */
static void ask_mpi(void)
{
    MPI_Errhandler handler;
    enum { SENT = 4096 };
    MPI_Comm self = sv_drop_make_self();
    char *from = malloc(SENT), *to = calloc(SENT, 1);
    if (!from || !to)
        sv_drop_fatal("no memory", "to ask how MPI ends receives");
    if (PMPI_Comm_create_errhandler(take_no_notice, &handler) == MPI_SUCCESS) {
        PMPI_Comm_set_errhandler(self, handler);
        PMPI_Errhandler_free(&handler); /* it lasts as long as the communicator */
    }
    memset(from, 1, SENT);
    (void)PMPI_Sendrecv(from, SENT, MPI_BYTE, 0, 0, to, 1, MPI_BYTE, 0, 0, self, MPI_STATUS_IGNORE);
    guard.overruns = memchr(to + 1, 1, SENT - 1) != NULL;
    free(from);
    free(to);
    PMPI_Comm_free(&self);
}

bool sv_drop_overruns(void)
{
    pthread_once(&guard.once, ask_mpi);
    return guard.overruns;
}

/* low: where the first byte is, from the address that MPI is given. */
static MPI_Datatype make_guarded(int count, MPI_Datatype type, int64_t low)
{
    const int counts[] = {count, 1};
    const MPI_Aint places[] = {0, (MPI_Aint)low};
    const MPI_Datatype types[] = {type, MPI_PACKED};
    MPI_Datatype made;
    if (PMPI_Type_create_struct(2, counts, places, types, &made) != MPI_SUCCESS ||
        PMPI_Type_commit(&made) != MPI_SUCCESS)
        sv_drop_fatal("no memory", "for a receive");
    return made;
}

/* The guarded type of a run of bytes; false: the table has another length in its place. */
static bool find_kept(int64_t bytes, MPI_Datatype *type_out)
{
    const int slot = (int)(((uint64_t)bytes * UINT64_C(0x9e3779b97f4a7c15)) >> 56) % KEPT;
    /* Partner: the release below. */
    int64_t has = atomic_load_explicit(&guard.kept[slot].bytes, memory_order_acquire);
    if (has == 0) {
        pthread_mutex_lock(&guard.lock);
        if ((has = atomic_load_explicit(&guard.kept[slot].bytes, memory_order_relaxed)) == 0) {
            guard.kept[slot].type = make_guarded((int)bytes, MPI_PACKED, 0);
            has = bytes;
            atomic_store_explicit(&guard.kept[slot].bytes, has, memory_order_release);
        }
        pthread_mutex_unlock(&guard.lock);
    }
    *type_out = guard.kept[slot].type;
    return has == bytes;
}

void sv_drop_guard(sv_drop_buffer_t *buffer)
{
    if (!buffer->host || !buffer->one.is_type || !sv_drop_overruns())
        return;
    /* 0: it is no run of bytes, or its type is one of the drop-in's for more than an int counts. */
    const int64_t bytes = buffer->type == MPI_PACKED                    ? buffer->count
                          : buffer->one.info.dense && !buffer->packed ? sv_drop_room(buffer)
                                                                      : 0;
    buffer->guarded = true;
    if (bytes > 0 && bytes <= INT_MAX && find_kept(bytes, &buffer->guard))
        return;
    buffer->guard = make_guarded(buffer->count, buffer->type, buffer->packed ? 0 : buffer->low);
    buffer->owns_guard = true;
}

sv_drop_buffer_t *sv_drop_guard_empty(sv_drop_call_t *call, void *buf, int64_t count, MPI_Datatype type)
{
    sv_drop_type_t info;
    if (count < 0 || !sv_drop_type(type, &info) || count * info.bytes != 0 || !sv_drop_overruns())
        return NULL;
    sv_drop_buffer_t *buffer = &call->buffer[call->nbuffers++];
    *buffer = (sv_drop_buffer_t){.user = buf, .host = malloc(1), .out = true, .packed = true, .unpacks = true,
                                 .nblocks = 1, .type = MPI_PACKED, .guarded = true,
                                 .one = {.type = MPI_PACKED, .is_type = true, .info = {.named = true}}};
    if (!buffer->host)
        sv_drop_fatal("no memory", call->name);
    if (!find_kept(1, &buffer->guard)) {
        buffer->guard = make_guarded(1, MPI_PACKED, 0);
        buffer->owns_guard = true;
    }
    return buffer;
}

int sv_drop_recv_guarded(const sv_drop_buffer_t *buffer, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    MPI_Message message;
    MPI_Count bytes = 0;
    const int code = PMPI_Mprobe(source, tag, comm, &message, status);
    if (code != MPI_SUCCESS)
        return code;
    if (PMPI_Get_elements_x(status, MPI_BYTE, &bytes) == MPI_SUCCESS && bytes <= sv_drop_room(buffer))
        return PMPI_Mrecv(sv_drop_address(buffer), buffer->count, buffer->type, &message, status);
    return PMPI_Mrecv(sv_drop_address(buffer), 1, buffer->guard, &message, status);
}

void sv_drop_fast_as_bytes(sv_drop_fast_t *state, int *count, MPI_Datatype *type)
{
    sv_drop_type_t info;
    if (!state->monitored || *count <= 0 || !sv_drop_type(*type, &info) || !info.dense || info.bytes == 1)
        return;
    const MPI_Count bytes = info.bytes * *count;
    *type = MPI_PACKED;
    *count = (int)bytes;
    if (bytes <= INT_MAX)
        return;
    if (sv_drop_type_many(bytes, MPI_PACKED, &state->stream) != MPI_SUCCESS)
        sv_drop_fatal("no type for a message of 2 GiB or more", "a receive");
    state->owns_stream = true;
    *type = state->stream;
    *count = 1;
}

void sv_drop_guards_end(void)
{
    for (int i = 0; i < KEPT; i++) {
        if (atomic_load_explicit(&guard.kept[i].bytes, memory_order_relaxed) != 0)
            PMPI_Type_free(&guard.kept[i].type);
        atomic_store_explicit(&guard.kept[i].bytes, 0, memory_order_relaxed);
    }
}
