/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ranks tell each other when they make a grid. Parameters are compared by a hash: its minimum and its maximum over
 * the ranks (the minimum of the complement) are equal only if all gave the same. Only if they differ, the arguments are
 * compared one by one, so that the error names the first that does.
 *
 * Nodes are gathered by dissemination (Bruck and others 1997): in each round a rank hands on all it knows to the rank
 * as far below as it knows entries, and hears as many from above, so that log2(P) rounds do for any P.
 *
 *   5 ranks, seen from rank r:   knows r | r+1 | r+2 r+3 | r+4
 *                                 round    0       1        2
 *
 * Each message has its entries twice, with a check word: one damaged copy does no harm, and two end in an error.
 */
#include <string.h>

#include "grid/grid_parts.h"

#include "base/base_memory.h"
#include "base/base_status.h"
#include "comm/comm_control.h"
#include "kernels/kernels.h"

enum {
    NODE_TAG = 4, /* the set-up channel: the timeline has tags 1 and 2, GPUs 3, commits those from 16 */
    COPIES = 2,
};

static const char *const argument_names[] = {"ndims", "global_extent", "periodic", "blocks", "split", "ranks",
                                             "reorder", "width"};
enum { ARGUMENTS = sizeof argument_names / sizeof argument_names[0] };

static uint64_t hash_next_number(uint64_t hash, int64_t value)
{
    return sv_digest_mix(hash + (uint64_t)value) + 1;
}

/* One hash for each name of argument_names[]. */
static void hash_arguments(const selvage_grid_t *grid, const selvage_grid_params_t *params, uint64_t *hash)
{
    hash[0] = hash_next_number(0, grid->ndims);
    hash[1] = hash[2] = hash[3] = hash[4] = hash[7] = 0;
    for (int d = 0; d < grid->ndims; d++) {
        hash[1] = hash_next_number(hash[1], grid->global[d]);
        hash[2] = hash_next_number(hash[2], grid->periodic[d]);
        hash[3] = hash_next_number(hash[3], params->blocks[d]);
        for (int c = 0; c <= grid->blocks[d]; c++)
            hash[4] = hash_next_number(hash[4], grid->start[d][c]);
        hash[7] = hash_next_number(hash[7], params->width[d]);
    }
    hash[5] = params->ranks != NULL;
    for (int b = 0; params->ranks && b < grid->comm->wire->size; b++)
        hash[5] = hash_next_number(hash[5], params->ranks[b]);
    hash[6] = hash_next_number(0, params->reorder != 0);
}

/* Whether all ranks gave the same number. */
static selvage_status_t compare_number(const char *call, selvage_comm_t *comm, int what, uint64_t number,
                                       selvage_status_t before, bool *equal_out)
{
    uint64_t least = number, most = ~number;
    SV_TRY(sv_agree(comm, call, (uint64_t)what, before, &least, comm->timeout_s));
    SV_TRY(sv_agree(comm, call, (uint64_t)what, SELVAGE_SUCCESS, &most, comm->timeout_s));
    *equal_out = least == ~most;
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
        all = hash_next_number(all, (int64_t)hash[i]);
    SV_TRY(compare_number(call, comm, SV_GRID_AGREE_ALL, all, built, &equal));
    if (equal)
        return SELVAGE_SUCCESS;
    for (int i = 0; i < ARGUMENTS; i++) {
        SV_TRY(compare_number(call, comm, SV_GRID_AGREE_ARGUMENT + i, hash[i], SELVAGE_SUCCESS, &equal));
        if (!equal)
            return sv_error(SELVAGE_ERR_MISMATCH, "%s: ranks do not agree on %s", call, argument_names[i]);
    }
    return sv_error(SELVAGE_ERR_INTERNAL, "%s: ranks differ, but in no argument", call);
}

/* One gathering: entry i of node is that of rank own + i, named by its lowest rank. */
typedef struct gather {
    const char *call;
    selvage_comm_t *comm;
    int *node;
    uint8_t *out_message, *in_message; /* after the entries of all ranks */
    sv_wire_request_t out, in;
    bool out_open, in_open;
} gather_t;

static selvage_status_t await_grid_gather(gather_t *g, sv_wire_request_t *request, bool *open, int peer,
                                          size_t *bytes_out)
{
    sv_deadline_t deadline;
    sv_deadline_begin(&deadline, g->comm, g->comm->timeout_s);
    for (;;) {
        selvage_status_t status = sv_wire_test(g->comm->wire, request, bytes_out);
        *open = status != SELVAGE_SUCCESS;
        if (status != SELVAGE_IN_PROGRESS)
            return status;
        if (sv_agree_is_lost(g->comm))
            return sv_error(SELVAGE_ERR_PEER, "%s: another rank failed while nodes were compared", g->call);
        status = sv_deadline_poll(&deadline);
        if (status == SELVAGE_ERR_TIMEOUT)
            return sv_error(status, "%s: no word from rank %d for %g s about who is on which node", g->call, peer,
                            g->comm->timeout_s);
        SV_TRY(status);
    }
}

/* Of the first copy that verifies. */
static selvage_status_t take_entries(const gather_t *g, int *node, size_t entry_bytes, size_t arrived, int source)
{
    uint64_t check;
    for (size_t at = 0; at + entry_bytes + sizeof check <= arrived; at += entry_bytes + sizeof check) {
        memcpy(&check, g->in_message + at + entry_bytes, sizeof check);
        if (check == sv_wire_setup_check(g->in_message + at, entry_bytes, source, g->comm->wire->rank)) {
            memcpy(node, g->in_message + at, entry_bytes);
            return SELVAGE_SUCCESS;
        }
    }
    return sv_error(SELVAGE_ERR_CHECKSUM, "%s: what rank %d said of nodes arrived damaged", g->call, source);
}

static selvage_status_t exchange_grid_round(gather_t *g, int known)
{
    sv_wire_t *wire = g->comm->wire;
    int below = (int)(((int64_t)wire->rank - known + wire->size) % wire->size);
    int above = (int)(((int64_t)wire->rank + known) % wire->size);
    int count = known < wire->size - known ? known : wire->size - known;
    size_t entry_bytes = (size_t)count * sizeof *g->node, arrived;
    uint64_t check = sv_wire_setup_check(g->node, entry_bytes, wire->rank, below);
    size_t bytes = COPIES * (entry_bytes + sizeof check);
    for (uint8_t *copy = g->out_message; copy < g->out_message + bytes; copy += entry_bytes + sizeof check) {
        memcpy(copy, g->node, entry_bytes);
        memcpy(copy + entry_bytes, &check, sizeof check);
    }
    SV_TRY(sv_wire_recv(wire, SV_WIRE_SETUP, g->in_message, bytes, above, NODE_TAG, &g->in));
    g->in_open = true;
    SV_TRY(sv_wire_send(wire, SV_WIRE_SETUP, g->out_message, bytes, below, NODE_TAG, &g->out));
    g->out_open = true;
    SV_TRY(await_grid_gather(g, &g->in, &g->in_open, above, &arrived));
    SV_TRY(take_entries(g, g->node + known, entry_bytes, arrived, above));
    return await_grid_gather(g, &g->out, &g->out_open, below, NULL);
}

/* After a failure. Returns whether the wire is done with the memory. */
static bool cancel_grid_gather(gather_t *g)
{
    bool drained = true;
    if (g->in_open)
        drained &= sv_wire_cancel(g->comm->wire, &g->in) == SELVAGE_SUCCESS;
    if (g->out_open)
        drained &= sv_wire_test(g->comm->wire, &g->out, NULL) == SELVAGE_SUCCESS;
    return drained;
}

static void reverse_nodes(int *first, int *end)
{
    while (first < --end) {
        int kept = *first;
        *first++ = *end;
        *end = kept;
    }
}

/* From the lowest rank of each node to numbers from 0. */
static selvage_status_t number_nodes(const char *call, int *node_of_rank, int size)
{
    int count = 0;
    for (int r = 0; r < size; r++) {
        int lowest = node_of_rank[r];
        if (lowest < 0 || lowest > r)
            return sv_error(SELVAGE_ERR_INTERNAL, "%s: rank %d says that the lowest rank of its node is %d", call, r,
                            lowest);
        node_of_rank[r] = lowest == r ? count++ : node_of_rank[lowest];
    }
    return SELVAGE_SUCCESS;
}

/* A message has at most half of the ranks' entries. */
static size_t message_bytes_max(int nranks)
{
    return COPIES * (((size_t)nranks + 1) / 2 * sizeof(int) + sizeof(uint64_t));
}

size_t sv_grid_gather_bytes(int nranks)
{
    return (size_t)nranks * sizeof(int) + 2 * message_bytes_max(nranks);
}

selvage_status_t sv_grid_gather_nodes(const char *call, selvage_comm_t *comm, int **node_of_rank)
{
    const int size = comm->wire->size, own = size - comm->wire->rank; /* entries of the own rank and those above it */
    uint8_t *messages = (uint8_t *)(*node_of_rank + size);
    gather_t g = {.call = call, .comm = comm, .node = *node_of_rank, .out_message = messages,
                  .in_message = messages + message_bytes_max(size)};
    uint64_t unused = 0;
    selvage_status_t status = SELVAGE_SUCCESS;
    g.node[0] = comm->topology.node_ranks[0];
    for (int64_t known = 1; known < size && status == SELVAGE_SUCCESS; known *= 2)
        status = exchange_grid_round(&g, (int)known);
    if (status != SELVAGE_SUCCESS && !cancel_grid_gather(&g))
        *node_of_rank = NULL;
    if (status == SELVAGE_SUCCESS) {
        /* The entries begin with the own rank's; three reversals make them begin with that of rank 0. */
        reverse_nodes(g.node, g.node + own);
        reverse_nodes(g.node + own, g.node + size);
        reverse_nodes(g.node, g.node + size);
        status = number_nodes(call, g.node, size);
    }
    status = sv_agree(comm, call, SV_GRID_AGREE_NODES, status, &unused, comm->timeout_s);
    if (status != SELVAGE_SUCCESS && comm->broken == SELVAGE_SUCCESS)
        comm->broken = status;
    return status;
}
