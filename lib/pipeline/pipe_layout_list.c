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

static selvage_status_t make_layout(const sv_element_list_t *list, uint64_t address, sv_layout_t **layout_out)
{
    sv_layout_t *layout = NULL;
    int64_t *offsets;
    SV_TRY(sv_calloc(list->count, sizeof *offsets, &offsets));
    for (size_t i = 0; i < list->count; i++)
        offsets[i] = (int64_t)address + list->indices[i] * (int64_t)list->element_bytes;
    selvage_status_t status = sv_layout_create(SV_LAYOUT_EXACT, &layout);
    if (status == SELVAGE_SUCCESS)
        status = sv_layout_add_list(layout, 0, list->element_bytes, offsets, list->count, SV_LAYOUT_STORE);
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
    if (range.in_row)
        return sv_exchange_add_send(x, first, list->count * list->element_bytes, peer, tag, index_out);
    SV_TRY(make_layout(list, address, &layout));
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
    if (range.in_row)
        return sv_exchange_add_recv(x, first, list->count * list->element_bytes, peer, tag, index_out);
    SV_TRY(make_layout(list, address, &layout));
    return sv_exchange_add_recv_layout(x, layout, peer, tag, index_out);
}
