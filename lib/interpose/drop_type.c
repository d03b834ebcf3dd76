/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the drop-in asks of datatypes, copies of them, and packing by the host. How the device packs them is in
 * drop_plan.c. Any thread; one lock is for the communicator that packing needs.
 */
#include "interpose/drop_plan.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* What MPI has said of predefined types, the first of each slot. It never changes. */
static struct {
    pthread_mutex_t lock;
    _Atomic MPI_Datatype type[SV_DROP_NAMED_SLOTS];
    sv_drop_type_t info[SV_DROP_NAMED_SLOTS];
} named = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void remember_named(int slot, MPI_Datatype type, const sv_drop_type_t *info)
{
    pthread_mutex_lock(&named.lock);
    if (!atomic_load_explicit(&named.type[slot], memory_order_relaxed)) {
        named.info[slot] = *info;
        /* Partner: the acquire in sv_drop_type(). */
        atomic_store_explicit(&named.type[slot], type, memory_order_release);
    }
    pthread_mutex_unlock(&named.lock);
}

bool sv_drop_type(MPI_Datatype type, sv_drop_type_t *info_out)
{
    int nints, naddresses, ntypes, combiner;
    const int slot = (int)(sv_drop_named_slot(type) - sv_drop_named);
    /* Partner: the release in remember_named(). */
    if (type != MPI_DATATYPE_NULL && atomic_load_explicit(&named.type[slot], memory_order_acquire) == type) {
        *info_out = named.info[slot];
        atomic_store_explicit(sv_drop_named_slot(type), type, memory_order_relaxed); /* as below */
        return true;
    }
    if (type == MPI_DATATYPE_NULL || PMPI_Type_size_x(type, &info_out->bytes) != MPI_SUCCESS)
        return false;
    PMPI_Type_get_extent_x(type, &info_out->lb, &info_out->extent);
    PMPI_Type_get_true_extent_x(type, &info_out->true_lb, &info_out->true_extent);
    PMPI_Type_get_envelope(type, &nints, &naddresses, &ntypes, &combiner);
    info_out->named = combiner == MPI_COMBINER_NAMED;
    if (info_out->named) /* for sv_drop_is_named(): programs that show device memory alone ask that of no address */
        atomic_store_explicit(sv_drop_named_slot(type), type, memory_order_relaxed);
    info_out->dense = info_out->named && info_out->bytes == info_out->extent && info_out->true_lb == 0;
    if (info_out->named)
        remember_named(slot, type, info_out);
    return true;
}

bool sv_drop_type_has_gaps(MPI_Datatype type)
{
    sv_drop_type_t info;
    return !sv_drop_type(type, &info) || info.bytes != info.extent || info.bytes != info.true_extent;
}

/* --- types of many elements --------------------------------------------------------------------------------------- */

/* Pieces of as many elements as an int counts, and after them the rest. */
int sv_drop_type_many(MPI_Count count, MPI_Datatype type, MPI_Datatype *type_out)
{
    enum { PIECE = 1 << 30 };
    MPI_Datatype piece, made;
    MPI_Count lb, extent;
    if (count < 0 || count / PIECE > INT_MAX)
        return MPI_ERR_COUNT;
    int code = PMPI_Type_contiguous(PIECE, type, &piece);
    if (code != MPI_SUCCESS)
        return code;
    code = PMPI_Type_get_extent_x(piece, &lb, &extent);
    const int lengths[] = {(int)(count / PIECE), (int)(count % PIECE)};
    const MPI_Aint displacements[] = {0, code == MPI_SUCCESS ? (MPI_Aint)(count / PIECE * extent) : 0};
    const MPI_Datatype types[] = {piece, type};
    if (code == MPI_SUCCESS)
        code = PMPI_Type_create_struct(lengths[1] > 0 ? 2 : 1, lengths, displacements, types, &made);
    PMPI_Type_free(&piece);
    if (code == MPI_SUCCESS && (code = PMPI_Type_commit(&made)) == MPI_SUCCESS)
        *type_out = made;
    return code;
}

int sv_drop_narrow(MPI_Count count, MPI_Datatype type, sv_drop_narrow_t *narrow_out)
{
    *narrow_out = (sv_drop_narrow_t){(int)count, type, false};
    if (count <= INT_MAX)
        return MPI_SUCCESS;
    int code = sv_drop_type_many(count, type, &narrow_out->type);
    narrow_out->count = 1;
    narrow_out->owned = code == MPI_SUCCESS;
    return code;
}

void sv_drop_narrow_end(sv_drop_narrow_t *narrow)
{
    if (narrow->owned)
        PMPI_Type_free(&narrow->type);
    narrow->owned = false;
}

/* --- packing by the host ------------------------------------------------------------------------------------------ */

MPI_Comm sv_drop_make_self(void)
{
    MPI_Comm self = MPI_COMM_NULL;
    MPI_Group group;
    if (PMPI_Comm_group(MPI_COMM_SELF, &group) != MPI_SUCCESS ||
        PMPI_Comm_create(MPI_COMM_SELF, group, &self) != MPI_SUCCESS)
        sv_drop_fatal("no communicator", "to pack with");
    PMPI_Group_free(&group);
    PMPI_Comm_set_errhandler(self, MPI_ERRORS_RETURN);
    return self;
}

static struct {
    pthread_mutex_t lock;
    MPI_Comm self;
} packer = {PTHREAD_MUTEX_INITIALIZER, MPI_COMM_NULL};

/* The caller has the lock. */
static MPI_Comm own_self(void)
{
    if (packer.self == MPI_COMM_NULL)
        packer.self = sv_drop_make_self();
    return packer.self;
}

/* MPI has no question for this. Both MPIs look at the type before they see that nobody is sent to, if there is an
   element of it: some 5 ns. */
bool sv_drop_type_is_committed(MPI_Datatype type)
{
    static const char nothing[1];
    if (type == MPI_DATATYPE_NULL || sv_drop_is_named(type))
        return true;
    pthread_mutex_lock(&packer.lock);
    const int code = PMPI_Send(nothing, 1, type, MPI_PROC_NULL, 0, own_self());
    pthread_mutex_unlock(&packer.lock);
    return code == MPI_SUCCESS;
}

/* Packs or unpacks by a message to oneself, which may have any length and end within an element, unlike in packing
   calls. */
static void send_to_self(const void *from, MPI_Count from_count, MPI_Datatype from_type, void *to, MPI_Count to_count,
                         MPI_Datatype to_type)
{
    sv_drop_narrow_t out = {0}, in = {0};
    pthread_mutex_lock(&packer.lock);
    int code = sv_drop_narrow(from_count, from_type, &out);
    if (code == MPI_SUCCESS)
        code = sv_drop_narrow(to_count, to_type, &in);
    if (code == MPI_SUCCESS)
        code = PMPI_Sendrecv(from, out.count, out.type, 0, 0, to, in.count, in.type, 0, 0, own_self(),
                             MPI_STATUS_IGNORE);
    pthread_mutex_unlock(&packer.lock);
    if (code != MPI_SUCCESS)
        sv_drop_fatal("not supported", "MPI packs or unpacks this type for no message to oneself");
    sv_drop_narrow_end(&out);
    sv_drop_narrow_end(&in);
}

void sv_drop_pack(const void *from, int64_t count, MPI_Datatype type, void *packed, int64_t bytes)
{
    sv_drop_type_t info;
    int position = 0;
    if (sv_drop_type(type, &info) && info.dense)
        memcpy(packed, from, (size_t)bytes);
    else if (count > INT_MAX || bytes > INT_MAX)
        send_to_self(from, count, type, packed, bytes, MPI_PACKED);
    else if (PMPI_Pack(from, (int)count, type, packed, (int)bytes, &position, MPI_COMM_SELF) != MPI_SUCCESS ||
             position != bytes)
        sv_drop_fatal("not supported", "MPI packs this type into more or less than its size");
}

void sv_drop_unpack(const void *packed, int64_t bytes, void *to, int64_t count, MPI_Datatype type)
{
    sv_drop_type_t info;
    if (sv_drop_type(type, &info) && info.dense)
        memcpy(to, packed, (size_t)bytes);
    else
        send_to_self(packed, bytes, MPI_PACKED, to, count, type);
}

int sv_drop_type_hold(MPI_Datatype type, MPI_Datatype *type_out)
{
    MPI_Datatype made;
    int code = PMPI_Type_contiguous(1, type, &made);
    if (code == MPI_SUCCESS && (code = PMPI_Type_commit(&made)) != MPI_SUCCESS)
        PMPI_Type_free(&made);
    if (code != MPI_SUCCESS)
        return code;
    sv_drop_plans_share(type, made);
    *type_out = made;
    return MPI_SUCCESS;
}

void sv_drop_types_end(void)
{
    if (packer.self != MPI_COMM_NULL)
        PMPI_Comm_free(&packer.self);
    sv_drop_plans_end();
}
