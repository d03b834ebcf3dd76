/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of neighbours: chains of a hash, which a rank joins once and leaves with the communicator. See
 * neighbor_table.h for its promises. Engine thread only.
 */
#include "pipeline/neighbor_table.h"

#include "base/base_memory.h"
#include "base/base_status.h"
#include "pipeline/pipe_exchange.h"

void sv_neighbor_table_init(sv_neighbor_table_t *table)
{
    for (int i = 0; i < SV_NEIGHBOR_CHAINS; i++)
        sv_list_init(&table->chain[i]);
}

void sv_neighbor_table_fini(sv_neighbor_table_t *table)
{
    sv_list_t *it, *safe;
    for (int i = 0; i < SV_NEIGHBOR_CHAINS; i++)
        SV_LIST_FOR_EACH(it, safe, &table->chain[i])
        {
            sv_list_remove(it);
            sv_free(SV_CONTAINER_OF(it, sv_neighbor_t, link));
        }
}

/* Neighbours of a grid are apart by products of its extents, which are often powers of two: hence the upper bits. */
static unsigned chain_of_rank(int rank)
{
    return ((uint32_t)rank * UINT32_C(2654435761)) >> 24 & (SV_NEIGHBOR_CHAINS - 1);
}

sv_neighbor_t *sv_neighbor_find(const sv_neighbor_table_t *table, int rank)
{
    const sv_list_t *chain = &table->chain[chain_of_rank(rank)];
    for (const sv_list_t *it = chain->next; it != chain; it = it->next) {
        sv_neighbor_t *neighbor = SV_CONTAINER_OF(it, sv_neighbor_t, link);
        if (neighbor->rank == rank)
            return neighbor;
    }
    return NULL;
}

selvage_status_t sv_neighbor_make(sv_neighbor_table_t *table, int rank, sv_neighbor_t **neighbor_out)
{
    *neighbor_out = sv_neighbor_find(table, rank);
    if (*neighbor_out)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_calloc(1, sizeof **neighbor_out, neighbor_out));
    (*neighbor_out)->rank = rank;
    sv_list_init(&(*neighbor_out)->pairs);
    sv_list_append(&table->chain[chain_of_rank(rank)], &(*neighbor_out)->link);
    return SELVAGE_SUCCESS;
}

void sv_neighbor_add_pair(sv_neighbor_t *neighbor, struct sv_peer *peer)
{
    if (sv_list_is_empty(&peer->pair_link))                         /* it is on no list */
        sv_list_append(neighbor->pairs.next, &peer->pair_link);     /* before the first one */
}
