/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that are lists of elements of an array. Indices that count up by one, as ghost cells of a mesh often do, are
 * no list: their packet lies in memory without a gap.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_memory.h"
#include "host/memory_kind.h"
#include "pipeline/pipe_layout_type.h"

/* What the indices of a list say together. */
typedef struct list_range {
    int64_t low, high; /* lowest and highest */
    bool rising;       /* each is above the one before */
    bool in_row;       /* by one */
} list_range_t;

static selvage_status_t check_indices(const char *call, const sv_element_list_t *list, list_range_t *range_out)
{
    const int64_t *index = list->indices, limit = INT64_MAX / 4 / (int64_t)list->element_bytes;
    list_range_t range = {.low = index[0], .high = index[0], .rising = true, .in_row = true};
    for (size_t i = 0; i < list->count; i++) {
        if (index[i] < 0 || index[i] >= limit)
            return sv_error(SELVAGE_ERR_ARGUMENT, "%s: indices[%zu] is %lld; wanted 0..%lld", call, i,
                            (long long)index[i], (long long)(limit - 1));
        range.low = index[i] < range.low ? index[i] : range.low;
        range.high = index[i] > range.high ? index[i] : range.high;
        range.rising = range.rising && (i == 0 || index[i] > index[i - 1]);
        range.in_row = range.in_row && (i == 0 || index[i] == index[i - 1] + 1);
    }
    *range_out = range;
    return SELVAGE_SUCCESS;
}

static int compare_indices(const void *a, const void *b)
{
    int64_t index_a = *(const int64_t *)a, index_b = *(const int64_t *)b;
    return index_a < index_b ? -1 : index_a > index_b;
}

static selvage_status_t check_twice(const char *call, const sv_element_list_t *list)
{
    int64_t *sorted;
    selvage_status_t status = SELVAGE_SUCCESS;
    SV_TRY(sv_calloc(list->count, sizeof *sorted, &sorted));
    memcpy(sorted, list->indices, list->count * sizeof *sorted);
    qsort(sorted, list->count, sizeof *sorted, compare_indices);
    for (size_t i = 1; i < list->count && status == SELVAGE_SUCCESS; i++)
        if (sorted[i] == sorted[i - 1])
            status = sv_error(SELVAGE_ERR_ARGUMENT, "%s: indices has %lld twice, and a receive would write there twice",
                              call, (long long)sorted[i]);
    sv_free(sorted);
    return status;
}

/* address: of element 0, from the base. */
static selvage_status_t make_layout(const sv_element_list_t *list, uint32_t base, uint64_t address,
                                    sv_layout_t **layout_out)
{
    sv_layout_t *layout = NULL;
    int64_t *offsets;
    SV_TRY(sv_calloc(list->count, sizeof *offsets, &offsets));
    for (size_t i = 0; i < list->count; i++)
        offsets[i] = (int64_t)address + list->indices[i] * (int64_t)list->element_bytes;
    selvage_status_t status = sv_layout_create(SV_LAYOUT_EXACT, &layout);
    if (status == SELVAGE_SUCCESS)
        status = sv_layout_add_list(layout, base, list->element_bytes, offsets, list->count, SV_LAYOUT_STORE);
    sv_free(offsets);
    if (status != SELVAGE_SUCCESS) {
        sv_layout_destroy(layout);
        return status;
    }
    *layout_out = layout;
    return SELVAGE_SUCCESS;
}

/* first: where the lowest element lies; of a list in a row, address: the same for the device. */
static selvage_status_t admit_list(sv_device_t *dev, const char *call, const void *buf, const sv_element_list_t *list,
                                   const list_range_t *range, void **first_out, uint64_t *address_out)
{
    const uint64_t skipped = (uint64_t)range->low * list->element_bytes;
    void *first = (void *)((uintptr_t)buf + skipped), *address;
    SV_TRY(sv_memory_admit(dev, call, first, (size_t)(range->high - range->low + 1) * list->element_bytes, &address));
    *first_out = first;
    *address_out = (uintptr_t)address - skipped;
    return SELVAGE_SUCCESS;
}

/* Of an exchange whose packets may be bound to other memory: the array is the base. layout_out: NULL for a list in a
   row, which needs none. */
static selvage_status_t declare_list(selvage_exchange_t *x, const void *buf, const sv_element_list_t *list,
                                     const list_range_t *range, uint64_t address, sv_bound_t *bound_out,
                                     uint32_t *base_out, sv_layout_t **layout_out)
{
    *bound_out = (sv_bound_t){.data = buf, .base = (void *)(uintptr_t)address,
                              .low = range->low * (int64_t)list->element_bytes,
                              .high = (range->high + 1) * (int64_t)list->element_bytes};
    *layout_out = NULL;
    if (range->in_row)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_rebind_declare(x, bound_out, base_out));
    return make_layout(list, *base_out, 0, layout_out);
}

static selvage_status_t add_bound_send(selvage_exchange_t *x, const void *buf, const sv_element_list_t *list,
                                       const list_range_t *range, uint64_t address, int peer, int tag,
                                       uint32_t *index_out)
{
    sv_bound_t bound;
    sv_layout_t *layout;
    uint32_t base;
    SV_TRY(declare_list(x, buf, list, range, address, &bound, &base, &layout));
    return layout ? sv_rebind_add_send_layout(x, layout, base, peer, tag, index_out)
                  : sv_rebind_add_send(x, &bound, peer, tag, index_out);
}

static selvage_status_t add_bound_recv(selvage_exchange_t *x, const void *buf, const sv_element_list_t *list,
                                       const list_range_t *range, uint64_t address, int peer, int tag,
                                       uint32_t *index_out)
{
    sv_bound_t bound;
    sv_layout_t *layout;
    uint32_t base;
    SV_TRY(declare_list(x, buf, list, range, address, &bound, &base, &layout));
    return layout ? sv_rebind_add_recv_layout(x, layout, base, peer, tag, index_out)
                  : sv_rebind_add_recv(x, &bound, peer, tag, index_out);
}

selvage_status_t sv_exchange_add_send_list(selvage_exchange_t *x, const char *call, const void *buf,
                                           const sv_element_list_t *list, int peer, int tag, uint32_t *index_out)
{
    list_range_t range;
    sv_layout_t *layout;
    uint64_t address;
    void *first;
    if (list->count == 0)
        return sv_exchange_add_send(x, buf, 0, peer, tag, index_out);
    SV_TRY(check_indices(call, list, &range));
    SV_TRY(admit_list(x->comm->dev, call, buf, list, &range, &first, &address));
    if (x->rebind.allowed)
        return add_bound_send(x, buf, list, &range, address, peer, tag, index_out);
    if (range.in_row)
        return sv_exchange_add_send(x, first, list->count * list->element_bytes, peer, tag, index_out);
    SV_TRY(make_layout(list, 0, address, &layout));
    return sv_exchange_add_send_layout(x, layout, peer, tag, index_out);
}

selvage_status_t sv_exchange_add_recv_list(selvage_exchange_t *x, const char *call, void *buf,
                                           const sv_element_list_t *list, int peer, int tag, uint32_t *index_out)
{
    list_range_t range;
    sv_layout_t *layout;
    uint64_t address;
    void *first;
    if (list->count == 0)
        return sv_exchange_add_recv(x, buf, 0, peer, tag, index_out);
    SV_TRY(check_indices(call, list, &range));
    if (!range.rising)
        SV_TRY(check_twice(call, list));
    SV_TRY(admit_list(x->comm->dev, call, buf, list, &range, &first, &address));
    if (x->rebind.allowed)
        return add_bound_recv(x, buf, list, &range, address, peer, tag, index_out);
    if (range.in_row)
        return sv_exchange_add_recv(x, first, list->count * list->element_bytes, peer, tag, index_out);
    SV_TRY(make_layout(list, 0, address, &layout));
    return sv_exchange_add_recv_layout(x, layout, peer, tag, index_out);
}
