/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ranks tell each other when they make a grid. Parameters are compared by a hash. Its minimum and its maximum over
 * the ranks (the minimum of the complement) are equal only if all gave the same. Only if they differ, the arguments are
 * compared one by one, so that the error names the first that does.
 */
#include <string.h>

#include "grid/grid_parts.h"

#include "base/base_status.h"
#include "comm/comm_control.h"
#include "kernels/kernels.h"

static const char *const argument_names[] = {"ndims", "global_extent", "periodic", "blocks", "split", "ranks",
                                             "reorder", "width"};
enum { ARGUMENTS = sizeof argument_names / sizeof argument_names[0] };

uint64_t sv_grid_hash_next(uint64_t hash, uint64_t number)
{
    return sv_digest_mix(hash + number) + 1;
}

/* One hash for each name of argument_names[]. */
static void hash_arguments(const selvage_grid_t *grid, const selvage_grid_params_t *params, uint64_t *hash)
{
    hash[0] = sv_grid_hash_next(0, grid->ndims);
    hash[1] = hash[2] = hash[3] = hash[4] = hash[7] = 0;
    for (int d = 0; d < grid->ndims; d++) {
        hash[1] = sv_grid_hash_next(hash[1], grid->global[d]);
        hash[2] = sv_grid_hash_next(hash[2], grid->periodic[d]);
        hash[3] = sv_grid_hash_next(hash[3], params->blocks[d]);
        for (int c = 0; c <= grid->blocks[d]; c++)
            hash[4] = sv_grid_hash_next(hash[4], grid->start[d][c]);
        hash[7] = sv_grid_hash_next(hash[7], params->width[d]);
    }
    hash[5] = params->ranks != NULL;
    for (int b = 0; params->ranks && b < grid->comm->wire->size; b++)
        hash[5] = sv_grid_hash_next(hash[5], params->ranks[b]);
    hash[6] = sv_grid_hash_next(0, params->reorder != 0);
}

/* The greatest is the complement of the least complement. */
selvage_status_t sv_grid_compare(const char *call, selvage_comm_t *comm, uint64_t what, uint64_t number,
                                 selvage_status_t before, bool *equal_out)
{
    uint64_t least = number, most = ~number;
    SV_TRY(sv_agree(comm, call, what, before, &least, comm->timeout_s));
    SV_TRY(sv_agree(comm, call, what, SELVAGE_SUCCESS, &most, comm->timeout_s));
    *equal_out = least == ~most;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_grid_find_other(const char *call, selvage_comm_t *comm, uint64_t what, uint64_t number,
                                    sv_grid_other_t *other_out)
{
    const uint64_t rank = (uint64_t)comm->wire->rank;
    uint64_t least = number, most = ~number;
    SV_TRY(sv_agree(comm, call, what, SELVAGE_SUCCESS, &least, comm->timeout_s));
    SV_TRY(sv_agree(comm, call, what, SELVAGE_SUCCESS, &most, comm->timeout_s));
    most = ~most;
    uint64_t with_least = number == least ? rank : UINT64_MAX, with_most = number == most ? rank : UINT64_MAX;
    SV_TRY(sv_agree(comm, call, what, SELVAGE_SUCCESS, &with_least, comm->timeout_s));
    SV_TRY(sv_agree(comm, call, what, SELVAGE_SUCCESS, &with_most, comm->timeout_s));
    *other_out = number == least ? (sv_grid_other_t){most, (int)with_most} : (sv_grid_other_t){least, (int)with_least};
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_grid_agree(const char *call, selvage_comm_t *comm, const selvage_grid_t *grid,
                               const selvage_grid_params_t *params, selvage_status_t built)
{
    uint64_t hash[ARGUMENTS] = {0}, all = 0;
    bool equal;
    if (built == SELVAGE_SUCCESS)
        hash_arguments(grid, params, hash);
    for (int i = 0; i < ARGUMENTS; i++)
        all = sv_grid_hash_next(all, hash[i]);
    SV_TRY(sv_grid_compare(call, comm, SV_GRID_AGREE_ALL, all, built, &equal));
    if (equal)
        return SELVAGE_SUCCESS;
    for (int i = 0; i < ARGUMENTS; i++) {
        const uint64_t key = (uint64_t)(SV_GRID_AGREE_ARGUMENT + i);
        sv_grid_other_t other;
        SV_TRY(sv_grid_compare(call, comm, key, hash[i], SELVAGE_SUCCESS, &equal));
        if (equal)
            continue;
        SV_TRY(sv_grid_find_other(call, comm, key, hash[i], &other));
        return sv_error(SELVAGE_ERR_MISMATCH, "%s: ranks do not agree on %s: rank %d gave something else than this "
                        "rank", call, argument_names[i], other.rank);
    }
    return sv_error(SELVAGE_ERR_INTERNAL, "%s: ranks differ, but in no argument", call);
}

selvage_status_t sv_grid_gather_nodes(const char *call, sv_team_t *team, int *node_of_rank)
{
    selvage_comm_t *comm = team->comm;
    uint64_t unused = 0;
    int count = 0;
    sv_comm_settle(comm);
    sv_gather_item_begin(team)->value[0] = (uint64_t)comm->topology.node_ranks[0];
    selvage_status_t status = sv_gather(team, call, SV_GRID_AGREE_NODES, SELVAGE_SUCCESS, comm->timeout_s);
    /* From the lowest rank of each node to numbers from 0. */
    for (int r = 0; r < team->size && status == SELVAGE_SUCCESS; r++) {
        uint64_t lowest = sv_gather_item_of(team, r)->value[0];
        if (lowest > (uint64_t)r)
            status = sv_error(SELVAGE_ERR_INTERNAL, "%s: rank %d says that the lowest rank of its node is %llu", call,
                              r, (unsigned long long)lowest);
        else
            node_of_rank[r] = lowest == (uint64_t)r ? count++ : node_of_rank[lowest];
    }
    /* Who could not go on has told those who waited for its items, but others may have them all and wait here. */
    if (comm->broken != SELVAGE_SUCCESS) {
        sv_agree_abort(comm, status);
        return status;
    }
    status = sv_agree(comm, call, SV_GRID_AGREE_NODES, status, &unused, comm->timeout_s);
    if (status != SELVAGE_SUCCESS)
        sv_comm_break(comm, status);
    return status;
}
