/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a communicator has learnt about mappings: the ranks of the node with which some route failed, and the best that
 * is left. Both ends of a pair learn the same in the same commit and plan by it from then on, so what a container or
 * a driver forbids is tried, and told, once. Sparse: ranks with which everything works have no entry.
 */
#include "base/base_memory.h"
#include "base/base_status.h"
#include "pipeline/pipe_commit.h"

typedef struct limit {
    sv_list_t link;
    int rank;
    selvage_route_t best;
} limit_t;

static limit_t *find(const selvage_comm_t *comm, int rank)
{
    for (const sv_list_t *it = comm->limits.next; it != &comm->limits; it = it->next) {
        limit_t *limit = SV_CONTAINER_OF(it, limit_t, link);
        if (limit->rank == rank)
            return limit;
    }
    return NULL;
}

selvage_route_t sv_limit_find(const selvage_comm_t *comm, int rank)
{
    const limit_t *limit = find(comm, rank);
    return limit ? limit->best : SELVAGE_ROUTE_PEER;
}

selvage_status_t sv_limit_set(selvage_comm_t *comm, int rank, selvage_route_t best)
{
    limit_t *limit = find(comm, rank);
    if (!limit) {
        SV_TRY(sv_calloc(1, sizeof *limit, &limit));
        limit->rank = rank;
        sv_list_append(&comm->limits, &limit->link);
    }
    limit->best = best;
    return SELVAGE_SUCCESS;
}

void sv_limit_forget(selvage_comm_t *comm)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &comm->limits) {
        sv_list_remove(it);
        sv_free(SV_CONTAINER_OF(it, limit_t, link));
    }
}
