/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether two fields share a byte. Ranges of addresses alone would refuse members of one array of structures, and
 * planes that alternate. So the question is asked exactly. Each stride may be taken as often as there are places. Does
 * a sum of strides lead from an element of one field to an element of the other?
 *
 *   a element at a0 + sum x[k] * s[k],  of b at b0 + sum y[k] * t[k];  they meet if
 *   sum x[k] * s[k] - sum y[k] * t[k]  lies in the window  b0 - a0 - a's bytes + 1 .. b0 - a0 + b's bytes - 1
 *
 * Equal strides are put together. The largest is decided first. The smaller ones, and the greatest common divisor of
 * them all, leave few numbers for it wherever arrays are laid out sensibly. Where they do not, the search gives up and
 * says that the fields overlap.
 */
#include "grid/halo_plan.h"

#include "base/base_status.h"

enum { TERMS_MAX = 2 * SV_HALO_AXES_MAX, TRIES_MAX = 20000 };

/* stride * n, n from least to most. */
typedef struct term {
    int64_t stride, least, most;
} term_t;

typedef struct search {
    int nterms, tries;
    term_t term[TERMS_MAX];              /* by falling stride */
    int64_t low[TERMS_MAX + 1], high[TERMS_MAX + 1], divisor[TERMS_MAX + 1]; /* of the terms from k on */
} search_t;

static void add_term(search_t *s, int64_t stride, int64_t places, bool forward)
{
    int at = 0;
    if (places == 1)
        return;
    while (at < s->nterms && s->term[at].stride > stride)
        at++;
    if (at == s->nterms || s->term[at].stride != stride) {
        for (int i = s->nterms++; i > at; i--)
            s->term[i] = s->term[i - 1];
        s->term[at] = (term_t){.stride = stride};
    }
    if (forward)
        s->term[at].most += places - 1;
    else
        s->term[at].least -= places - 1;
}

/* Adds the terms of a field and returns the offset of its lowest element. */
static int64_t add_field(search_t *s, const sv_halo_field_t *f, bool forward)
{
    int64_t lowest = 0;
    for (int axis = 0; axis <= f->ndims; axis++) {
        int64_t first, places = sv_halo_places(f, axis, &first);
        int64_t stride = axis == f->ndims ? f->component_stride : f->stride[axis];
        lowest += first * stride;
        if (stride < 0)
            lowest += (places - 1) * stride;
        add_term(s, stride < 0 ? -stride : stride, places, forward);
    }
    return lowest;
}

/* What the terms from each one on can reach, and the greatest common divisor of their strides (Euclid). */
static void sum_reach(search_t *s)
{
    for (int k = s->nterms - 1; k >= 0; k--) {
        s->low[k] = s->low[k + 1] + s->term[k].least * s->term[k].stride;
        s->high[k] = s->high[k + 1] + s->term[k].most * s->term[k].stride;
        int64_t a = s->term[k].stride, b = s->divisor[k + 1];
        while (b != 0) {
            int64_t rest = a % b;
            a = b;
            b = rest;
        }
        s->divisor[k] = a;
    }
}

/* Quotients rounded down; b is positive. */
static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Whether the terms from k on can add up to a number from window_low to window_high. True also where it is not worth
   the time. */
static bool can_reach(search_t *s, int k, int64_t window_low, int64_t window_high)
{
    if (s->low[k] > window_high || s->high[k] < window_low)
        return false;
    if (k == s->nterms || s->tries++ > TRIES_MAX)
        return true;
    if (floor_div(window_high, s->divisor[k]) * s->divisor[k] < window_low)
        return false;
    int64_t stride = s->term[k].stride;
    int64_t least = -floor_div(s->high[k + 1] - window_low, stride);
    int64_t most = floor_div(window_high - s->low[k + 1], stride);
    least = least < s->term[k].least ? s->term[k].least : least;
    most = most > s->term[k].most ? s->term[k].most : most;
    for (int64_t n = least; n <= most; n++)
        if (can_reach(s, k + 1, window_low - n * stride, window_high - n * stride))
            return true;
    return false;
}

bool sv_halo_is_disjoint(const sv_halo_field_t *a, const uint8_t *a_data, const sv_halo_field_t *b,
                         const uint8_t *b_data)
{
    search_t s = {0};
    int64_t a_first = (int64_t)(uintptr_t)a_data + add_field(&s, a, true);
    int64_t b_first = (int64_t)(uintptr_t)b_data + add_field(&s, b, false);
    sum_reach(&s);
    return !can_reach(&s, 0, b_first - a_first - (int64_t)a->element_bytes + 1,
                      b_first - a_first + (int64_t)b->element_bytes - 1);
}

void sv_halo_extent(const sv_halo_field_t *field, int64_t *first_out, int64_t *end_out)
{
    search_t s = {0};
    *first_out = add_field(&s, field, true);
    sum_reach(&s);
    *end_out = *first_out + s.high[0] + (int64_t)field->element_bytes;
}

selvage_status_t sv_halo_check_overlap(const sv_halo_field_t *fields, int nfields, void *const *data)
{
    for (int j = 1; j < nfields; j++)
        for (int i = 0; i < j; i++)
            if (!sv_halo_is_disjoint(&fields[i], data[i], &fields[j], data[j]))
                return sv_error(SELVAGE_ERR_ARGUMENT, "fields[%d]: data: own cells and halo overlap with those of "
                                "fields[%d]", j, i);
    return SELVAGE_SUCCESS;
}
