/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans by which the device gathers and scatters elements. They are kept by what they say, and not by the type that
 * they were made for: a program may make a type for each message, and MPI gives out the handle of a type that was freed
 * again. A plan that says the same is used in place of a new one, with its table in pinned memory. Those that were used
 * last are kept, up to a number of them and to a part of the pool; what calls in flight have lives on.
 *
 *   type --attribute--> shelf { count, device, number of a plan } ---> kept plans, by number and by digest
 *
 * A type that is used again need not be taken apart again: its shelf has the numbers of the plans for the counts and
 * the devices that were used last. MPI forgets the shelf with the type, whoever frees that. The drop-in's own copies of
 * a type share its shelf, and so do the program's duplicates. A number is no reference: the plan may be gone.
 *
 * Any thread. One lock guards shelves and what is kept. A type is taken apart, and a table is written, without it.
 */
#include "interpose/drop_plan.h"
#include "interpose/drop_pool.h"

#include <stdlib.h>

/* PART: of the pool, which tables of kept plans may take. HOST_MOST: about so many bytes of other memory they may
   take. */
enum { SHELF_PLANS = 8, KEPT_MOST = 1024, BUCKETS = 1024, PART = 16, HOST_MOST = 64 << 20 };

typedef struct shelf_entry {
    int64_t count;
    selvage_device_t *device;
    uint64_t number; /* 0: it is none of a plan, and the type cannot be taken apart */
} shelf_entry_t;

typedef struct shelf {
    _Atomic int users; /* types */
    int used, next; /* is given up next */
    shelf_entry_t entry[SHELF_PLANS];
} shelf_t;

/* Chains of kept plans: by number, by digest, and in the order of their use, the newest first. */
static struct {
    pthread_mutex_t lock;
    int key; /* created when the first plan is needed */
    bool made;
    _Atomic bool ended;
    uint64_t numbers;
    sv_drop_plan_t *by_number[BUCKETS], *by_digest[BUCKETS];
    sv_drop_plan_t *newest, *oldest;
    int kept;
    size_t bytes;      /* of tables */
    size_t host_bytes; /* of what those are made from, which plans have without a table, too */
} plans = {.lock = PTHREAD_MUTEX_INITIALIZER, .key = MPI_KEYVAL_INVALID};

/* --- plans -------------------------------------------------------------------------------------------------------- */

void sv_drop_plan_put(sv_drop_plan_t *plan)
{
    /* Partner: itself in other threads; the last one sees what they did. */
    if (!plan || atomic_fetch_sub_explicit(&plan->users, 1, memory_order_acq_rel) > 1)
        return;
    selvage_pack_destroy(plan->pack);
    sv_drop_unstage(plan->table);
    free(plan);
}

/* With one user, and no table yet. */
static sv_drop_plan_t *make_plan(MPI_Datatype type, int64_t count, selvage_device_t *dev)
{
    sv_drop_plan_t *plan = calloc(1, sizeof *plan);
    if (!plan)
        sv_drop_fatal("no memory", "for a datatype");
    plan->device = dev;
    atomic_init(&plan->users, 1);
    if (!dev || selvage_pack_create(dev, (size_t)count, type, &plan->pack) != SELVAGE_SUCCESS)
        plan->pack = NULL;
    plan->digest = selvage_pack_digest(plan->pack);
    return plan;
}

/* Where no more memory is to be pinned, each piece takes a launch. */
static void make_table(sv_drop_plan_t *plan)
{
    const size_t bytes = selvage_pack_table_bytes(plan->pack);
    if (bytes == 0 || bytes > (size_t)sv_drop_settings()->pool_bytes)
        return;
    plan->table = sv_drop_staging(bytes);
    if (!sv_drop_is_plain(plan->table) && selvage_pack_set_table(plan->pack, plan->table) == SELVAGE_SUCCESS) {
        plan->table_bytes = bytes;
        return;
    }
    sv_drop_unstage(plan->table);
    plan->table = NULL;
}

/* --- what is kept; the caller has the lock ------------------------------------------------------------------------ */

static void list_plan(sv_drop_plan_t *plan)
{
    plan->older = plans.newest;
    plan->newer = NULL;
    *(plans.newest ? &plans.newest->newer : &plans.oldest) = plan;
    plans.newest = plan;
}

static void unlist_plan(sv_drop_plan_t *plan)
{
    *(plan->newer ? &plan->newer->older : &plans.newest) = plan->older;
    *(plan->older ? &plan->older->newer : &plans.oldest) = plan->newer;
}

/* With a user more. NULL: there is none. */
static sv_drop_plan_t *use_plan(sv_drop_plan_t *plan)
{
    if (!plan)
        return NULL;
    if (plan != plans.newest) {
        unlist_plan(plan);
        list_plan(plan);
    }
    atomic_fetch_add_explicit(&plan->users, 1, memory_order_relaxed);
    return plan;
}

/* Whether it has no table that it could have: the pool was full when it was made. Nobody else uses it. */
static bool is_bare(const sv_drop_plan_t *plan)
{
    const size_t bytes = plan->table ? 0 : selvage_pack_table_bytes(plan->pack);
    /* Partner: sv_drop_plan_put() of its last user. */
    return bytes > 0 && bytes <= (size_t)sv_drop_settings()->pool_bytes &&
           atomic_load_explicit(&plan->users, memory_order_acquire) == 1;
}

/* A run takes 12 bytes in a table, and 24 in the list of pieces that it is made from. A plan that has no use for a
   table has few pieces, or long ones. */
static size_t host_bytes_of(const sv_drop_plan_t *plan)
{
    return 2 * selvage_pack_table_bytes(plan->pack);
}

/* What is kept has a user for that. One that was kept before has its number again. */
static void keep_plan(sv_drop_plan_t *plan)
{
    sv_drop_plan_t **number, **digest = &plans.by_digest[plan->digest % BUCKETS];
    plan->number = plan->number ? plan->number : ++plans.numbers;
    number = &plans.by_number[plan->number % BUCKETS];
    plan->next_number = *number;
    plan->next_digest = *digest;
    *number = *digest = plan;
    list_plan(plan);
    plans.kept++;
    plans.bytes += plan->table_bytes;
    plans.host_bytes += host_bytes_of(plan);
    atomic_fetch_add_explicit(&plan->users, 1, memory_order_relaxed);
}

/* The user that it had for being kept is the caller's. */
static void unkeep_plan(sv_drop_plan_t *plan)
{
    sv_drop_plan_t **at = &plans.by_number[plan->number % BUCKETS];
    while (*at != plan)
        at = &(*at)->next_number;
    *at = plan->next_number;
    at = &plans.by_digest[plan->digest % BUCKETS];
    while (*at != plan)
        at = &(*at)->next_digest;
    *at = plan->next_digest;
    unlist_plan(plan);
    plans.kept--;
    plans.bytes -= plan->table_bytes;
    plans.host_bytes -= host_bytes_of(plan);
}

static void drop_plan(sv_drop_plan_t *plan)
{
    unkeep_plan(plan);
    sv_drop_plan_put(plan);
}

/* One that is bare gives way to the other, which gets a table. */
static sv_drop_plan_t *use_equal(const sv_drop_plan_t *other)
{
    sv_drop_plan_t *plan = plans.by_digest[other->digest % BUCKETS];
    while (plan && !(plan->digest == other->digest && selvage_pack_is_equal(plan->pack, other->pack)))
        plan = plan->next_digest;
    if (!plan || !is_bare(plan))
        return use_plan(plan);
    drop_plan(plan);
    return NULL;
}

/* --- shelves; the caller has the lock ----------------------------------------------------------------------------- */

/* MPI calls this and the next one, maybe with a lock of its own that attributes are asked for with: not ours, too. */
static int forget_shelf(MPI_Datatype type, int key, void *value, void *extra)
{
    shelf_t *shelf = value;
    (void)type, (void)key, (void)extra;
    /* Partner: itself in other threads; the last one sees what they did. */
    if (atomic_fetch_sub_explicit(&shelf->users, 1, memory_order_acq_rel) == 1)
        free(shelf);
    return MPI_SUCCESS;
}

/* A duplicate of the program's has the shelf as well. */
static int share_shelf(MPI_Datatype type, int key, void *extra, void *value, void *value_out, int *flag)
{
    shelf_t *shelf = value;
    (void)type, (void)key, (void)extra;
    *flag = !atomic_load_explicit(&plans.ended, memory_order_relaxed);
    if (*flag) {
        atomic_fetch_add_explicit(&shelf->users, 1, memory_order_relaxed);
        *(shelf_t **)value_out = shelf;
    }
    return MPI_SUCCESS;
}

static shelf_t *shelf_of(MPI_Datatype type)
{
    shelf_t *shelf = NULL;
    int found = 0;
    return plans.made && PMPI_Type_get_attr(type, plans.key, &shelf, &found) == MPI_SUCCESS && found ? shelf : NULL;
}

/* NULL: it is on none. */
static shelf_entry_t *find_entry(shelf_t *shelf, int64_t count, const selvage_device_t *dev)
{
    for (int i = 0; shelf && i < shelf->used; i++)
        if (shelf->entry[i].count == count && shelf->entry[i].device == dev)
            return &shelf->entry[i];
    return NULL;
}

/* Without a shelf the type is taken apart again the next time. */
static void note_plan(MPI_Datatype type, int64_t count, selvage_device_t *dev, uint64_t number)
{
    shelf_t *shelf = shelf_of(type);
    if (!plans.made)
        plans.made = PMPI_Type_create_keyval(share_shelf, forget_shelf, &plans.key, NULL) == MPI_SUCCESS;
    if (!shelf && plans.made) {
        if (!(shelf = calloc(1, sizeof *shelf)))
            sv_drop_fatal("no memory", "for a datatype");
        atomic_init(&shelf->users, 1);
        if (PMPI_Type_set_attr(type, plans.key, shelf) != MPI_SUCCESS) {
            free(shelf);
            shelf = NULL;
        }
    }
    if (!shelf)
        return;
    shelf_entry_t *entry = find_entry(shelf, count, dev);
    if (!entry) {
        entry = &shelf->entry[shelf->next];
        shelf->next = (shelf->next + 1) % SHELF_PLANS;
        shelf->used += shelf->used < SHELF_PLANS;
    }
    *entry = (shelf_entry_t){count, dev, number};
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

/* The plan that the type's shelf names. NULL: there is none; *opaque_out: and the type cannot be taken apart; or
   *bare_out: there was, and it is the caller's, to get its table. */
static sv_drop_plan_t *named_plan(MPI_Datatype type, int64_t count, selvage_device_t *dev, bool *opaque_out,
                                  sv_drop_plan_t **bare_out)
{
    pthread_mutex_lock(&plans.lock);
    const shelf_entry_t *entry = find_entry(shelf_of(type), count, dev);
    sv_drop_plan_t *plan = entry ? plans.by_number[entry->number % BUCKETS] : NULL;
    while (plan && plan->number != entry->number)
        plan = plan->next_number;
    *opaque_out = entry && entry->number == 0;
    *bare_out = plan && is_bare(plan) ? plan : NULL;
    if (*bare_out)
        unkeep_plan(plan);
    else
        use_plan(plan);
    pthread_mutex_unlock(&plans.lock);
    return *bare_out ? NULL : plan;
}

/* The plan that is kept and says the same as this one, which then is given up; else this one, from now on kept. */
static sv_drop_plan_t *kept_plan(MPI_Datatype type, int64_t count, sv_drop_plan_t *made)
{
    pthread_mutex_lock(&plans.lock);
    sv_drop_plan_t *plan = made->pack ? use_equal(made) : made;
    if (plan)
        note_plan(type, count, made->device, plan->number);
    pthread_mutex_unlock(&plans.lock);
    if (!plan) {
        make_table(made);
        pthread_mutex_lock(&plans.lock);
        plan = use_equal(made); /* another thread may have been faster */
        if (!plan) {
            plan = made;
            keep_plan(plan);
            /* The one that was used last stays, whatever it takes. */
            const size_t most = (size_t)sv_drop_settings()->pool_bytes / PART;
            while (plans.oldest != plans.newest &&
                   (plans.kept > KEPT_MOST || plans.bytes > most || plans.host_bytes > HOST_MOST))
                drop_plan(plans.oldest);
        }
        note_plan(type, count, made->device, plan->number);
        pthread_mutex_unlock(&plans.lock);
    }
    if (plan != made)
        sv_drop_plan_put(made);
    return plan;
}

sv_drop_plan_t *sv_drop_plan_get(MPI_Datatype type, int64_t count, const void *memory)
{
    selvage_device_t *dev = sv_drop_device_of(memory);
    sv_drop_plan_t *bare;
    bool opaque;
    if (dev == sv_drop_device() && sv_drop_is_others(memory))
        dev = NULL; /* of a GPU that could not be opened: copies reach it, kernels of the first one may not */
    sv_drop_plan_t *plan = named_plan(type, count, dev, &opaque, &bare);
    if (plan)
        return plan;
    return kept_plan(type, count, bare ? bare : make_plan(type, count, opaque ? NULL : dev));
}

sv_drop_plan_t *sv_drop_plan_of_block(const sv_drop_buffer_t *buffer, const sv_drop_block_t *block)
{
    return sv_drop_plan_get(block->type, block->count, buffer->user + block->offset + block->info.true_lb);
}

void sv_drop_plans_share(MPI_Datatype type, MPI_Datatype other)
{
    /* A shelf has one user for each type that has it as an attribute. */
    pthread_mutex_lock(&plans.lock);
    shelf_t *shelf = shelf_of(type);
    if (shelf) {
        atomic_fetch_add_explicit(&shelf->users, 1, memory_order_relaxed);
        if (PMPI_Type_set_attr(other, plans.key, shelf) != MPI_SUCCESS)
            atomic_fetch_sub_explicit(&shelf->users, 1, memory_order_relaxed); /* the type still has it */
    }
    pthread_mutex_unlock(&plans.lock);
}

/* What is kept goes before the device is closed; MPI calls forget_shelf() at its end for types that live on. */
void sv_drop_plans_end(void)
{
    pthread_mutex_lock(&plans.lock);
    const bool made = plans.made;
    while (plans.oldest)
        drop_plan(plans.oldest);
    atomic_store_explicit(&plans.ended, true, memory_order_relaxed);
    plans.made = false;
    pthread_mutex_unlock(&plans.lock);
    if (made)
        PMPI_Type_free_keyval(&plans.key);
}
