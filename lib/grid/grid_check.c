/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Refuses what a rank can find wrong by itself when a grid is made, each argument by its name. Local; nothing is kept.
 */
#include "grid/grid_parts.h"

#include "base/base_memory.h"
#include "base/base_status.h"

typedef struct question {
    const char *call;
    const selvage_grid_params_t *params;
    int nranks;
} question_t;

/* Ranges of the numbers, and that 63 bits can count what is made of them. */
static selvage_status_t check_grid_numbers(const question_t *q)
{
    const selvage_grid_params_t *p = q->params;
    int64_t cells = 1, widths = 0;
    bool overflow = false;
    if (p->ndims < 1 || p->ndims > SELVAGE_DIMS_MAX)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: ndims is %d; wanted 1..%d", q->call, p->ndims, SELVAGE_DIMS_MAX);
    for (int d = 0; d < p->ndims; d++) {
        if (p->global_extent[d] < 1)
            return sv_error(SELVAGE_ERR_ARGUMENT, "%s: global_extent[%d] is %lld; wanted 1 or more", q->call, d,
                            (long long)p->global_extent[d]);
        if (p->width[d] < 0)
            return sv_error(SELVAGE_ERR_ARGUMENT, "%s: width[%d] is %d; wanted 0 or more", q->call, d, p->width[d]);
        overflow |= __builtin_mul_overflow(cells, p->global_extent[d], &cells);
        widths += 2 * (int64_t)p->width[d];
    }
    /* All surfaces together are less than all cells times both widths of all dimensions. */
    overflow |= __builtin_mul_overflow(cells, widths, &cells);
    if (overflow)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: global_extent times width: more cells than 63 bits can count",
                        q->call);
    return SELVAGE_SUCCESS;
}

static selvage_status_t check_blocks(const question_t *q)
{
    const selvage_grid_params_t *p = q->params;
    int64_t product = 1;
    bool open = false;
    for (int d = 0; d < p->ndims; d++) {
        if (p->blocks[d] < 0)
            return sv_error(SELVAGE_ERR_ARGUMENT, "%s: blocks[%d] is %d; wanted 0 or more", q->call, d, p->blocks[d]);
        if (p->blocks[d] > p->global_extent[d])
            return sv_error(SELVAGE_ERR_ARGUMENT, "%s: blocks[%d] is %d, but global_extent[%d] has only %lld cells",
                            q->call, d, p->blocks[d], d, (long long)p->global_extent[d]);
        open |= p->blocks[d] == 0;
        if (p->blocks[d] && product <= q->nranks)
            product *= p->blocks[d];
    }
    if (product > q->nranks || q->nranks % product != 0 || (!open && product != q->nranks))
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: blocks do not cover the ranks: those given make %s%lld, and there "
                        "are %d ranks", q->call, product > q->nranks ? "at least " : "", (long long)product,
                        q->nranks);
    return SELVAGE_SUCCESS;
}

static selvage_status_t check_split(const question_t *q, int d)
{
    const selvage_grid_params_t *p = q->params;
    int64_t sum = 0;
    if (p->blocks[d] == 0)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: split[%d] is given, so blocks[%d] must be given", q->call, d, d);
    for (int i = 0; i < p->blocks[d]; i++) {
        if (p->split[d][i] < 1)
            return sv_error(SELVAGE_ERR_ARGUMENT, "%s: split[%d][%d] is %lld; wanted 1 or more", q->call, d, i,
                            (long long)p->split[d][i]);
        if (__builtin_add_overflow(sum, p->split[d][i], &sum))
            sum = INT64_MAX;
    }
    if (sum != p->global_extent[d])
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: split[%d] adds up to %lld, but global_extent[%d] is %lld", q->call,
                        d, (long long)sum, d, (long long)p->global_extent[d]);
    return SELVAGE_SUCCESS;
}

static selvage_status_t check_ranks(const question_t *q)
{
    const int *ranks = q->params->ranks;
    int *block_of_rank; /* plus 1; 0: not seen */
    for (int d = 0; d < q->params->ndims; d++)
        if (q->params->blocks[d] == 0)
            return sv_error(SELVAGE_ERR_ARGUMENT, "%s: ranks is given, so blocks[%d] must be given", q->call, d);
    if (q->params->reorder)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: reorder is set and ranks is given; wanted one of the two",
                        q->call);
    SV_TRY(sv_calloc((size_t)q->nranks, sizeof *block_of_rank, &block_of_rank));
    selvage_status_t status = SELVAGE_SUCCESS;
    for (int b = 0; b < q->nranks && status == SELVAGE_SUCCESS; b++) {
        if (ranks[b] < 0 || ranks[b] >= q->nranks)
            status = sv_error(SELVAGE_ERR_ARGUMENT, "%s: ranks[%d] is %d; wanted 0..%d", q->call, b, ranks[b],
                              q->nranks - 1);
        else if (block_of_rank[ranks[b]])
            status = sv_error(SELVAGE_ERR_ARGUMENT, "%s: ranks[%d] and ranks[%d] are both %d, so a rank is missing",
                              q->call, block_of_rank[ranks[b]] - 1, b, ranks[b]);
        else
            block_of_rank[ranks[b]] = b + 1;
    }
    sv_free(block_of_rank);
    return status;
}

selvage_status_t sv_grid_check(const char *call, const selvage_grid_params_t *params, int nranks)
{
    question_t q = {call, params, nranks};
    SV_TRY(check_grid_numbers(&q));
    SV_TRY(check_blocks(&q));
    for (int d = 0; d < params->ndims; d++)
        if (params->split[d])
            SV_TRY(check_split(&q, d));
    return params->ranks ? check_ranks(&q) : SELVAGE_SUCCESS;
}
