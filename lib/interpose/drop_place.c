/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers of which one part is the host's and another one the device's. Elements of most types lie in one allocation.
 * Those of structures and their kin may not: their displacements are often differences of addresses, or addresses. The
 * blocks of a call may be named by addresses, too, from MPI_BOTTOM. The parts of such a buffer may be any distance
 * apart, so no staging buffer can stand for it, and the call is refused. Any thread. Nothing is kept.
 */
#include "interpose/drop_route.h"

#include <stdlib.h>

/* The memory that an address is in; 0: it is in none that is known. */
enum { IN_HOST = 1, IN_DEVICE = 2, IN_BOTH = 3 };

static unsigned place_at(const void *ptr)
{
    const uint64_t entry = sv_drop_entry(ptr);
    if (atomic_load_explicit(sv_drop_slot(ptr), memory_order_relaxed) == entry)
        return IN_HOST;
    const sv_drop_place_t place = sv_drop_query_place(ptr);
    if (place == SV_DROP_HOST) /* as in sv_drop_look_up() */
        atomic_store_explicit(sv_drop_slot(ptr), entry, memory_order_relaxed);
    return place == SV_DROP_HOST ? IN_HOST : place == SV_DROP_DEVICE ? IN_DEVICE : 0;
}

/* The page that was asked about last; a page is all the host's or all the device's. Asking a driver takes longer than
   copying the elements that a type names there. */
typedef struct asked {
    uintptr_t page;
    unsigned found;
} asked_t;

static unsigned place_near(asked_t *asked, uintptr_t at)
{
    const uintptr_t page = at >> SV_DROP_PAGE_SHIFT;
    if (asked->page != page || asked->found == 0)
        *asked = (asked_t){page, place_at((const void *)at)};
    return asked->found;
}

/* How a type was made, as MPI tells it; its types are to be freed. */
typedef struct contents {
    int nints, naddresses, ntypes, combiner;
    int *ints;
    MPI_Aint *addresses;
    MPI_Datatype *types;
} contents_t;

static bool read_contents(MPI_Datatype type, contents_t *made)
{
    if (PMPI_Type_get_envelope(type, &made->nints, &made->naddresses, &made->ntypes, &made->combiner) != MPI_SUCCESS ||
        made->combiner == MPI_COMBINER_NAMED || made->ntypes == 0)
        return false;
    made->ints = calloc((size_t)made->nints + 1, sizeof *made->ints);
    made->addresses = calloc((size_t)made->naddresses + 1, sizeof *made->addresses);
    made->types = calloc((size_t)made->ntypes, sizeof *made->types);
    if (!made->ints || !made->addresses || !made->types ||
        PMPI_Type_get_contents(type, made->nints, made->naddresses, made->ntypes, made->ints, made->addresses,
                               made->types) != MPI_SUCCESS)
        sv_drop_fatal("no memory", "for a datatype");
    return true;
}

/* The memory to which the addresses lead that a type names by itself. */
static unsigned places_of(const void *ptr, MPI_Datatype type, asked_t *asked)
{
    contents_t made;
    sv_drop_type_t info;
    unsigned found = 0;
    if (!sv_drop_type(type, &info) || info.named || !read_contents(type, &made))
        return 0;
    const int64_t low = info.true_lb;
    const bool same = made.combiner == MPI_COMBINER_HINDEXED_BLOCK;
    const bool far = same || made.combiner == MPI_COMBINER_STRUCT || made.combiner == MPI_COMBINER_HINDEXED;
    MPI_Datatype known = MPI_DATATYPE_NULL; /* what info is about: members are often of one type */
    for (int i = 0; i < (far ? made.naddresses : 1); i++) {
        const MPI_Datatype of = made.types[made.combiner == MPI_COMBINER_STRUCT ? i : 0];
        const bool is_type = of != MPI_DATATYPE_NULL && (of == known || sv_drop_type(of, &info));
        known = is_type ? of : MPI_DATATYPE_NULL;
        if (!is_type || info.bytes == 0 || (far && made.ints[same ? 1 : 1 + i] == 0))
            continue;
        /* The other types name no addresses: all elements are in the buffer's allocation, and the lowest stands for
           them. */
        const uintptr_t at = (uintptr_t)ptr + (far ? (uintptr_t)made.addresses[i] : (uintptr_t)(low - info.true_lb));
        if (far)
            found |= place_near(asked, at + (uintptr_t)info.true_lb);
        if (!info.named)
            found |= places_of((const void *)at, of, asked);
    }
    known = MPI_DATATYPE_NULL; /* a predefined one */
    for (int i = 0; i < made.ntypes; i++) {
        if (made.types[i] == known || !sv_drop_type(made.types[i], &info))
            continue;
        if (info.named)
            known = made.types[i];
        else
            PMPI_Type_free(&made.types[i]);
    }
    free(made.ints);
    free(made.addresses);
    free(made.types);
    return found;
}

bool sv_drop_type_reaches_host(const void *ptr, MPI_Datatype type)
{
    asked_t asked = {0};
    return !sv_drop_is_named(type) && (places_of(ptr, type, &asked) & IN_HOST);
}

/* A program that cannot have device memory pays nothing. */
bool sv_drop_type_reaches_device(const void *ptr, MPI_Datatype type)
{
    asked_t asked = {0};
    return (sv_drop_may_have_device() || atomic_load_explicit(&sv_drop_route.seen, memory_order_relaxed)) &&
           (places_of(ptr, type, &asked) & IN_DEVICE);
}

/* Whether a block may lead elsewhere than the buffer's address: its type names addresses, or the buffer is MPI_BOTTOM.
   *found_out is the memory to which the type's addresses lead. */
static bool is_block_far(const void *buf, const sv_drop_block_t *block, asked_t *asked, unsigned *found_out)
{
    *found_out = 0;
    if (block->count <= 0 || !block->is_type || block->info.bytes == 0)
        return false;
    if (!block->info.named)
        *found_out = places_of((const char *)((uintptr_t)buf + (uintptr_t)block->offset), block->type, asked);
    return *found_out != 0 || buf == MPI_BOTTOM;
}

/* Refuses a buffer that has memory of both kinds in it. Elements of predefined types are where the buffer is. A driver
   is asked only if a block may lead elsewhere: that takes longer than all the rest. */
bool sv_drop_refuse(sv_drop_call_t *call, const void *buf, const sv_drop_block_t *blocks, int n)
{
    unsigned found = 0, far;
    bool any_far = false;
    asked_t asked = {0};
    for (int i = 0; i < n && !any_far; i++)
        any_far = is_block_far(buf, &blocks[i], &asked, &far);
    for (int i = 0; any_far && i < n && found != IN_BOTH; i++) {
        const sv_drop_type_t *type = &blocks[i].info;
        const uintptr_t at = (uintptr_t)buf + (uintptr_t)blocks[i].offset + (uintptr_t)type->true_lb;
        const bool is_far = is_block_far(buf, &blocks[i], &asked, &far);
        if (is_far || (i == 0 && blocks[i].count > 0 && blocks[i].is_type && type->bytes > 0))
            found |= far ? far : place_at((const void *)at);
    }
    if (found != IN_BOTH)
        return false;
    sv_drop_warn("%s: one buffer has host memory and device memory in it, by its types or displacements: name them in "
                 "calls of their own", call->name);
    return call->refused = true;
}
