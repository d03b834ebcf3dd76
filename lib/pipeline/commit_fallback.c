/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a communicator has learnt about mappings: the ranks of the node with which some route failed, and the best that
 * is left. Both ends of a pair learn the same in the same commit and plan by it from then on, so what a container or
 * a driver forbids is tried, and told, once. Sparse: ranks with which everything works have no entry.
 */
#include "base/base_memory.h"
#include "base/base_status.h"
#include "pipeline/pipe_commit.h"

typedef struct fallback {
    sv_list_t link;
    int rank;
    selvage_route_t best;
} fallback_t;

static fallback_t *find_fallback(const selvage_comm_t *comm, int rank)
{
    for (const sv_list_t *it = comm->exchanges->fallbacks.next; it != &comm->exchanges->fallbacks; it = it->next) {
        fallback_t *fallback = SV_CONTAINER_OF(it, fallback_t, link);
        if (fallback->rank == rank)
            return fallback;
    }
    return NULL;
}

selvage_route_t sv_fallback_find(const selvage_comm_t *comm, int rank)
{
    const fallback_t *fallback = find_fallback(comm, rank);
    return fallback ? fallback->best : SELVAGE_ROUTE_PEER;
}

selvage_status_t sv_fallback_set(selvage_comm_t *comm, int rank, selvage_route_t best)
{
    fallback_t *fallback = find_fallback(comm, rank);
    if (!fallback) {
        SV_TRY(sv_calloc(1, sizeof *fallback, &fallback));
        fallback->rank = rank;
        sv_list_append(&comm->exchanges->fallbacks, &fallback->link);
    }
    fallback->best = best;
    return SELVAGE_SUCCESS;
}

void sv_fallback_forget(selvage_comm_t *comm)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &comm->exchanges->fallbacks)
    {
        sv_list_remove(it);
        sv_free(SV_CONTAINER_OF(it, fallback_t, link));
    }
}
