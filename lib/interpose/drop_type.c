/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the drop-in asks of datatypes, and the plans by which the device gathers and scatters them. A plan hangs on its
 * type as an attribute, so that MPI forgets it with the type, whoever frees that; calls under way hold it besides. A
 * type is given one plan, for the count and the device that were used last.
 */
#include "interpose/drop.h"

#include <stdlib.h>

/* Made at the first plan; by whom of several threads, the lock decides. */
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
    pthread_mutex_destroy(&plan->lock);
    free(plan);
}

static int forget(MPI_Datatype type, int key, void *value, void *extra)
{
    (void)type, (void)key, (void)extra;
    if (!plans.ended)
        sv_drop_plan_put(value);
    return MPI_SUCCESS;
}

static sv_drop_plan_t *make_plan(MPI_Datatype type, int64_t count, selvage_device_t *dev)
{
    sv_drop_plan_t *plan = calloc(1, sizeof *plan);
    if (!plan)
        sv_drop_fatal("no memory", "for a datatype");
    pthread_mutex_init(&plan->lock, NULL);
    plan->count = count;
    plan->device = dev;
    atomic_init(&plan->users, 1);
    if (!dev || selvage_pack_create(dev, (size_t)count, type, &plan->pack) != SELVAGE_SUCCESS)
        plan->pack = NULL;
    return plan;
}

/* A duplicate has the plan as well. */
static int share(MPI_Datatype type, int key, void *extra, void *value, void *value_out, int *flag)
{
    sv_drop_plan_t *plan = value;
    (void)type, (void)key, (void)extra;
    *flag = !plans.ended;
    if (*flag) {
        atomic_fetch_add_explicit(&plan->users, 1, memory_order_relaxed);
        *(sv_drop_plan_t **)value_out = plan;
    }
    return MPI_SUCCESS;
}

/* The type's plan, with a user more; predefined types have none. */
static sv_drop_plan_t *kept_plan(MPI_Datatype type, int64_t count, selvage_device_t *dev)
{
    sv_drop_plan_t *plan = NULL;
    int found = 0;
    PMPI_Type_get_attr(type, plans.key, &plan, &found);
    if (!found || plan->count != count || plan->device != dev) {
        plan = make_plan(type, count, dev);
        PMPI_Type_set_attr(type, plans.key, plan); /* forgets the one before */
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
        plans.made = PMPI_Type_create_keyval(share, forget, &plans.key, NULL) == MPI_SUCCESS;
    sv_drop_plan_t *plan = plans.made ? kept_plan(type, count, dev) : make_plan(type, count, dev);
    pthread_mutex_unlock(&plans.lock);
    return plan;
}

/* Types that live on lose their plans when the device is closed: MPI calls back at its end. */
void sv_drop_plans_end(void)
{
    plans.ended = true;
    if (plans.made)
        PMPI_Type_free_keyval(&plans.key);
    plans.made = false;
}
