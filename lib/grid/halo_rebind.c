/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Other arrays for the fields of a halo. Codes swap a few sets of arrays, so the last sets are remembered, and only new
 * ones are checked: that the device reaches them, that numbers are aligned, and that they do not overlap.
 */
#include "grid/halo_handle.h"

#include <string.h>

#include "base/base_status.h"
#include "host/memory_kind.h"

/* Units were chosen by the address that a field came with, so others must be multiples of as much. */
static selvage_status_t check_alignment(const sv_halo_field_t *f, int index, const void *data)
{
    uintptr_t bits = (uintptr_t)f->data | 16, least = bits & -bits;
    if (!data)
        return sv_error(SELVAGE_ERR_ARGUMENT, "data[%d] is NULL", index);
    if ((uintptr_t)data % least != 0)
        return sv_error(SELVAGE_ERR_ARGUMENT, "data[%d]: %p is not a multiple of %zu bytes, as the first one was",
                        index, data, (size_t)least);
    return SELVAGE_SUCCESS;
}

/* The address by which the device reaches what the caller has at data. */
static selvage_status_t admit_address(sv_device_t *dev, const sv_halo_field_t *f, int index, void *data,
                                      void **base_out)
{
    int64_t first, end;
    void *lowest;
    SV_TRY(check_alignment(f, index, data));
    sv_halo_extent(f, &first, &end);
    lowest = (void *)((uintptr_t)data + (uintptr_t)first);
    sv_memory_kind_t kind = sv_memory_kind(dev, lowest, (size_t)(end - first));
    if (!sv_memory_kind_is_usable(kind))
        return sv_error(SELVAGE_ERR_ARGUMENT, "fields[%d]: data: %lld bytes at %p on device %s: this is %s", index,
                        (long long)(end - first), lowest, dev->ops->name, sv_memory_kind_text(kind));
    if (kind == SV_MEMORY_PINNED)
        SV_TRY(SV_DEVICE_CALL(dev, host_address, lowest, &lowest));
    *base_out = (void *)((uintptr_t)lowest - (uintptr_t)first);
    return SELVAGE_SUCCESS;
}

static sv_halo_set_t *find_set(selvage_halo_t *halo, void *const *data)
{
    for (int s = 0; s < halo->nsets; s++)
        if (memcmp(halo->set[s].data, data, (size_t)halo->nfields * sizeof *data) == 0)
            return &halo->set[s];
    return NULL;
}

/* Takes the place of the set that came longest ago. */
static selvage_status_t add_set(selvage_halo_t *halo, void *const *data, sv_halo_set_t **set_out)
{
    int last = halo->nsets < SV_HALO_SETS ? halo->nsets : halo->next_set;
    sv_halo_set_t *set = &halo->set[last];
    for (int i = 0; i < halo->nfields; i++)
        SV_TRY(admit_address(halo->grid->comm->dev, &halo->fields[i], i, data[i], &halo->fresh[i]));
    SV_TRY(sv_halo_check_overlap(halo->fields, halo->nfields, data));
    memcpy(set->data, data, (size_t)halo->nfields * sizeof *data);
    memcpy(set->base, halo->fresh, (size_t)halo->nfields * sizeof *data);
    halo->nsets = last == halo->nsets ? last + 1 : halo->nsets;
    halo->next_set = (last + 1) % SV_HALO_SETS;
    *set_out = set;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_halo_rebind(selvage_halo_t *halo, void *const *data)
{
    sv_halo_set_t *set = find_set(halo, data);
    if (!set)
        SV_TRY(add_set(halo, data, &set));
    return sv_exchange_rebind(halo->exchange, set->base, (uint32_t)halo->nfields);
}
