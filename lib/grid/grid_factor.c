/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses how many blocks each dimension gets. All factorisations are tried: their number grows slowly, and a million
 * ranks in four dimensions have some hundred thousand. Whole numbers make all ranks choose alike. The last dimension is
 * tried first, with its largest factor first, so that of equal ones the first found is the one to take.
 */
#include "grid/grid_parts.h"

#include <string.h>

typedef struct search {
    const sv_grid_factor_t *wanted;
    int factor[SELVAGE_DIMS_MAX], best[SELVAGE_DIMS_MAX];
    int64_t best_cost;
    bool found;
} search_t;

static void try_dimension(search_t *search, int d, int rest, int64_t cost)
{
    const sv_grid_factor_t *wanted = search->wanted;
    for (int factor = rest; factor >= (d == 0 ? rest : 1); factor--) {
        if (rest % factor != 0 || (wanted->fixed[d] && factor != wanted->fixed[d]) || factor > wanted->most[d] ||
            (wanted->divisor_of[d] && wanted->divisor_of[d] % factor != 0))
            continue;
        int64_t sum = cost + sv_grid_cuts(wanted->periodic[d], factor) * wanted->plane_cells[d];
        if (search->found && sum >= search->best_cost)
            continue;
        search->factor[d] = factor;
        if (d > 0) {
            try_dimension(search, d - 1, rest / factor, sum);
            continue;
        }
        search->found = true;
        search->best_cost = sum;
        memcpy(search->best, search->factor, sizeof search->best);
    }
}

bool sv_grid_factor(const sv_grid_factor_t *wanted, int n, int *factor_out)
{
    search_t search = {.wanted = wanted};
    try_dimension(&search, wanted->ndims - 1, n, 0);
    for (int d = 0; d < wanted->ndims && search.found; d++)
        factor_out[d] = search.best[d];
    return search.found;
}

int64_t sv_grid_plane_cells(int ndims, const int64_t *extent, const int *width, int d)
{
    int64_t cells = width[d];
    for (int e = 0; e < ndims; e++)
        if (e != d)
            cells *= extent[e];
    return cells;
}
