/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the drop-in asks of datatypes, and the plans by which the device gathers and scatters them. A type has a shelf
 * of a few plans, for the counts and the devices that were used last. The shelf is an attribute of the type, so that
 * MPI forgets it with the type, whoever frees that. The drop-in's own copies of a type share its shelf, and so do the
 * program's duplicates.
 *
 * Any thread. The lock of plans guards what is on a shelf. Shelves and plans count their users, and calls in flight are
 * users of their plans.
 */
#include "interpose/drop.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { SHELF_PLANS = 8 };

typedef struct shelf {
    _Atomic int users; /* types */
    int next;          /* is given up next */
    sv_drop_plan_t *plan[SHELF_PLANS];
} shelf_t;

/* The key is created when the first plan is needed, under the lock. */
static struct {
    pthread_mutex_t lock;
    int key;
    bool made, ended;
} plans = {PTHREAD_MUTEX_INITIALIZER, MPI_KEYVAL_INVALID, false, false};

bool sv_drop_type(MPI_Datatype type, sv_drop_type_t *info_out)
{
    int nints, naddresses, ntypes, combiner;
    if (type == MPI_DATATYPE_NULL || PMPI_Type_size_x(type, &info_out->bytes) != MPI_SUCCESS)
        return false;
    PMPI_Type_get_extent_x(type, &info_out->lb, &info_out->extent);
    PMPI_Type_get_true_extent_x(type, &info_out->true_lb, &info_out->true_extent);
    PMPI_Type_get_envelope(type, &nints, &naddresses, &ntypes, &combiner);
    info_out->named = combiner == MPI_COMBINER_NAMED;
    info_out->dense = info_out->named && info_out->bytes == info_out->extent && info_out->true_lb == 0;
    return true;
}

void sv_drop_plan_put(sv_drop_plan_t *plan)
{
    /* Partner: itself in other threads; the last one sees what they did. */
    if (!plan || atomic_fetch_sub_explicit(&plan->users, 1, memory_order_acq_rel) > 1)
        return;
    selvage_pack_destroy(plan->pack);
    free(plan);
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

/* --- plans -------------------------------------------------------------------------------------------------------- */

static int forget_shelf(MPI_Datatype type, int key, void *value, void *extra)
{
    shelf_t *shelf = value;
    (void)type, (void)key, (void)extra;
    /* Partner: itself in other threads; the last one sees what they did. */
    if (plans.ended || atomic_fetch_sub_explicit(&shelf->users, 1, memory_order_acq_rel) > 1)
        return MPI_SUCCESS;
    for (int i = 0; i < SHELF_PLANS; i++)
        sv_drop_plan_put(shelf->plan[i]);
    free(shelf);
    return MPI_SUCCESS;
}

/* A duplicate of the program's has the plans as well. */
static int share_plans(MPI_Datatype type, int key, void *extra, void *value, void *value_out, int *flag)
{
    shelf_t *shelf = value;
    (void)type, (void)key, (void)extra;
    *flag = !plans.ended;
    if (*flag) {
        atomic_fetch_add_explicit(&shelf->users, 1, memory_order_relaxed);
        *(shelf_t **)value_out = shelf;
    }
    return MPI_SUCCESS;
}

static sv_drop_plan_t *make_plan(MPI_Datatype type, int64_t count, selvage_device_t *dev)
{
    sv_drop_plan_t *plan = calloc(1, sizeof *plan);
    if (!plan)
        sv_drop_fatal("no memory", "for a datatype");
    plan->count = count;
    plan->device = dev;
    atomic_init(&plan->users, 1);
    if (!dev || selvage_pack_create(dev, (size_t)count, type, &plan->pack) != SELVAGE_SUCCESS)
        plan->pack = NULL;
    return plan;
}

/* One of the type's plans, with a user more. */
static sv_drop_plan_t *kept_plan(MPI_Datatype type, int64_t count, selvage_device_t *dev)
{
    shelf_t *shelf = NULL;
    sv_drop_plan_t *plan = NULL;
    int found = 0;
    if (PMPI_Type_get_attr(type, plans.key, &shelf, &found) != MPI_SUCCESS || !found) {
        if (!(shelf = calloc(1, sizeof *shelf)))
            sv_drop_fatal("no memory", "for a datatype");
        atomic_init(&shelf->users, 1);
        if (PMPI_Type_set_attr(type, plans.key, shelf) != MPI_SUCCESS) { /* without a shelf plans are not kept */
            free(shelf);
            shelf = NULL;
        }
    }
    for (int i = 0; shelf && i < SHELF_PLANS && !plan; i++)
        if (shelf->plan[i] && shelf->plan[i]->count == count && shelf->plan[i]->device == dev)
            plan = shelf->plan[i];
    if (!plan) {
        plan = make_plan(type, count, dev);
        if (!shelf)
            return plan;
        sv_drop_plan_put(shelf->plan[shelf->next]);
        shelf->plan[shelf->next] = plan;
        shelf->next = (shelf->next + 1) % SHELF_PLANS;
    }
    atomic_fetch_add_explicit(&plan->users, 1, memory_order_relaxed);
    return plan;
}

sv_drop_plan_t *sv_drop_plan_get(MPI_Datatype type, int64_t count, const void *memory)
{
    selvage_device_t *dev = sv_drop_device_of(memory);
    if (dev == sv_drop_device() && sv_drop_is_others(memory))
        dev = NULL; /* of a GPU that could not be opened: copies reach it, kernels of the first one may not */
    pthread_mutex_lock(&plans.lock);
    if (!plans.made)
        plans.made = PMPI_Type_create_keyval(share_plans, forget_shelf, &plans.key, NULL) == MPI_SUCCESS;
    sv_drop_plan_t *plan = plans.made ? kept_plan(type, count, dev) : make_plan(type, count, dev);
    pthread_mutex_unlock(&plans.lock);
    return plan;
}

int sv_drop_type_hold(MPI_Datatype type, MPI_Datatype *type_out)
{
    MPI_Datatype made;
    shelf_t *shelf = NULL;
    int found = 0;
    int code = PMPI_Type_contiguous(1, type, &made);
    if (code == MPI_SUCCESS && (code = PMPI_Type_commit(&made)) != MPI_SUCCESS)
        PMPI_Type_free(&made);
    if (code != MPI_SUCCESS)
        return code;
    /* A shelf has one user for each type that has it as an attribute. */
    pthread_mutex_lock(&plans.lock);
    if (plans.made && PMPI_Type_get_attr(type, plans.key, &shelf, &found) == MPI_SUCCESS && found) {
        atomic_fetch_add_explicit(&shelf->users, 1, memory_order_relaxed);
        if (PMPI_Type_set_attr(made, plans.key, shelf) != MPI_SUCCESS)
            atomic_fetch_sub_explicit(&shelf->users, 1, memory_order_relaxed); /* the type still has it */
    }
    pthread_mutex_unlock(&plans.lock);
    *type_out = made;
    return MPI_SUCCESS;
}

/* Types that live on lose their plans when the device is closed. MPI calls forget_shelf() for them at its end. */
void sv_drop_types_end(void)
{
    if (packer.self != MPI_COMM_NULL)
        PMPI_Comm_free(&packer.self);
    plans.ended = true;
    if (plans.made)
        PMPI_Type_free_keyval(&plans.key);
    plans.made = false;
}
