/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares what ranks must have in common to make a halo, as a list of numbers. A hash of all of them says whether they
 * are equal, which costs two agreements. Only if they are not, a bisection over beginnings of the list leads every rank
 * to the first number that differs. How memory is ordered comes last: a difference there is no error.
 */
#include "grid/grid_parts.h"
#include "grid/halo_handle.h"

#include <stdio.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "comm/comm_control.h"
#include "pipeline/exchange_set.h"

/* Members of a field that are compared, in the order of the list. */
enum { ELEMENT_BYTES, WIDTH_LO, WIDTH_HI, STAGGER, COMPONENTS, PARITY, PACKED_DIM, NUMBER, MEMBERS };

typedef struct member {
    const char *name;
    bool per_dim;
} member_t;

static const member_t members[MEMBERS] = {
    [ELEMENT_BYTES] = {"element_bytes", false}, [WIDTH_LO] = {"width_lo", true}, [WIDTH_HI] = {"width_hi", true},
    [STAGGER] = {"stagger", true}, [COMPONENTS] = {"components", false}, [PARITY] = {"parity", false},
    [PACKED_DIM] = {"packed_dim", false}, [NUMBER] = {"number", false}};

enum { BLOCKS, REVERSE, DIRECTIONS, NFIELDS, COMMONS };
static const char *const common_names[COMMONS] = {"grid", "params: reverse", "params: shape or directions", "nfields"};

/* The list of this rank. */
typedef struct numbers {
    uint64_t *value;
    uint64_t count, all; /* all: with how memory is ordered */
} numbers_t;

static uint64_t member_of(const sv_halo_field_t *f, const selvage_field_t *given, int member, int d)
{
    switch (member) {
    case ELEMENT_BYTES: return f->element_bytes;
    case WIDTH_LO: return (uint64_t)f->width_lo[d];
    case WIDTH_HI: return (uint64_t)f->width_hi[d];
    case STAGGER: return (uint64_t)given->stagger[d];
    case COMPONENTS: return (uint64_t)f->components;
    case PARITY: return f->parity;
    case PACKED_DIM: return (uint64_t)f->packed_dim;
    default: return f->number;
    }
}

static int numbers_per_field(int ndims)
{
    int count = 0;
    for (int m = 0; m < MEMBERS; m++)
        count += members[m].per_dim ? ndims : 1;
    return count;
}

/* Lists what must be equal: what is common, the members of every field, and how memory is ordered. */
static selvage_status_t list_numbers(const selvage_halo_t *halo, const selvage_halo_params_t *params,
                                     const sv_halo_directions_t *directions, const selvage_field_t *given,
                                     numbers_t *n)
{
    const selvage_grid_t *grid = halo->grid;
    const int ndims = grid->ndims;
    size_t most = COMMONS + (size_t)halo->nfields * (size_t)numbers_per_field(ndims) + 1;
    SV_TRY(sv_calloc(most, sizeof *n->value, &n->value));
    uint64_t hash = sv_grid_hash_next(0, (uint64_t)ndims);
    for (int d = 0; d < ndims; d++) {
        hash = sv_grid_hash_next(hash, grid->periodic[d]);
        for (int c = 0; c <= grid->blocks[d]; c++)
            hash = sv_grid_hash_next(hash, (uint64_t)grid->start[d][c]);
    }
    for (int b = 0; grid->rank_of_block && b < grid->comm->wire->size; b++)
        hash = sv_grid_hash_next(hash, (uint64_t)grid->rank_of_block[b]);
    n->value[BLOCKS] = hash;
    n->value[REVERSE] = params->reverse != 0;
    hash = 0;
    for (int i = 0; i < directions->count; i++)
        for (int d = 0; d < SELVAGE_DIMS_MAX; d++)
            hash = sv_grid_hash_next(hash, (uint64_t)(directions->step[i][d] + 1));
    n->value[DIRECTIONS] = hash;
    n->value[NFIELDS] = (uint64_t)halo->nfields;
    n->count = COMMONS;
    for (int i = 0; i < halo->nfields; i++)
        for (int m = 0; m < MEMBERS; m++)
            for (int d = 0; d < (members[m].per_dim ? ndims : 1); d++)
                n->value[n->count++] = member_of(&halo->fields[i], &given[i], m, d);
    hash = 0;
    for (int i = 0; i < halo->nfields; i++)
        for (int a = 0; a <= ndims; a++)
            hash = sv_grid_hash_next(hash, halo->fields[i].axis[a]);
    n->value[n->count] = hash;
    n->all = n->count + 1;
    return SELVAGE_SUCCESS;
}

/* Whether the first count numbers are the same on all ranks. */
static selvage_status_t compare_numbers(selvage_comm_t *comm, const numbers_t *n, uint64_t count,
                                        selvage_status_t before, bool *equal_out)
{
    uint64_t hash = 0;
    for (uint64_t i = 0; i < count && i < n->all; i++)
        hash = sv_grid_hash_next(hash, n->value[i]);
    return sv_grid_compare("selvage_halo_create", comm, comm->exchanges->creates, hash, before, equal_out);
}

/* Position of the first number that is not the same everywhere, given that there is one. */
static selvage_status_t find_difference(selvage_comm_t *comm, const numbers_t *n, uint64_t *at_out)
{
    uint64_t equal_until = 0, least = n->all;
    SV_TRY(sv_agree(comm, "selvage_halo_create", comm->exchanges->creates, SELVAGE_SUCCESS, &least, comm->timeout_s));
    uint64_t differ_until = least; /* numbers of fields differ before lists can end at different places */
    while (differ_until - equal_until > 1) {
        uint64_t middle = equal_until + (differ_until - equal_until) / 2;
        bool equal;
        SV_TRY(compare_numbers(comm, n, middle, SELVAGE_SUCCESS, &equal));
        *(equal ? &equal_until : &differ_until) = middle;
    }
    *at_out = equal_until;
    return SELVAGE_SUCCESS;
}

/* What is common is compared by hashes, for the most part; members of fields are what the caller gave. */
static selvage_status_t report_mismatch(const selvage_halo_t *halo, const numbers_t *n, uint64_t at)
{
    selvage_comm_t *comm = halo->grid->comm;
    sv_grid_other_t other;
    SV_TRY(sv_grid_find_other("selvage_halo_create", comm, comm->exchanges->creates, n->value[at], &other));
    int ndims = halo->grid->ndims, per_field = numbers_per_field(ndims);
    if (at < COMMONS)
        return sv_error(SELVAGE_ERR_MISMATCH, "selvage_halo_create: ranks do not agree on %s: rank %d gave something "
                        "else than this rank", common_names[at], other.rank);
    int field = (int)((at - COMMONS) / (uint64_t)per_field), left = (int)((at - COMMONS) % (uint64_t)per_field), m = 0;
    for (; left >= (members[m].per_dim ? ndims : 1); m++)
        left -= members[m].per_dim ? ndims : 1;
    char which[16] = "";
    if (members[m].per_dim)
        snprintf(which, sizeof which, "[%d]", left);
    return sv_error(SELVAGE_ERR_MISMATCH, "selvage_halo_create: ranks do not agree on fields[%d]: %s%s, which is %lld "
                    "here and %lld on rank %d", field, members[m].name, which, (long long)n->value[at],
                    (long long)other.number, other.rank);
}

selvage_status_t sv_halo_agree(selvage_halo_t *halo, const selvage_halo_params_t *params,
                               const sv_halo_directions_t *directions, const selvage_field_t *given,
                               selvage_status_t before)
{
    selvage_comm_t *comm = halo->grid->comm;
    numbers_t n = {0};
    selvage_status_t status;
    uint64_t at;
    bool equal;
    if (before == SELVAGE_SUCCESS)
        before = list_numbers(halo, params, directions, given, &n);
    SV_TRY_GOTO(status, compare_numbers(comm, &n, n.all, before, &equal), out);
    if (equal)
        goto out;
    SV_TRY_GOTO(status, find_difference(comm, &n, &at), out);
    if (at < n.count) {
        status = report_mismatch(halo, &n, at);
        goto out;
    }
    for (int i = 0; i < halo->nfields; i++)
        sv_halo_axes_by_number(&halo->fields[i]);
out:
    sv_free(n.value);
    return status;
}
