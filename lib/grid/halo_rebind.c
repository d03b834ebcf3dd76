/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gives the fields of a halo other arrays. Codes swap a few sets of arrays, so the last sets are remembered. Only a new
 * set is checked, and one from before memory was freed: the device must reach its arrays, numbers must be aligned, and
 * arrays must not overlap.
 */
#include "grid/halo_handle.h"

#include <string.h>

#include "base/base_status.h"
#include "host/memory_kind.h"

/* The address by which the device reaches what the caller has at data. */
static selvage_status_t admit_address(sv_device_t *dev, const sv_halo_field_t *f, int index, void *data,
                                      void **base_out)
{
    int64_t first, end;
    void *lowest;
    if (!data)
        return sv_error(SELVAGE_ERR_ARGUMENT, "data[%d] is NULL", index);
    /* Units were chosen by the address that a field came with, so others must be multiples of as much. */
    uintptr_t bits = (uintptr_t)f->data | 16, least = bits & -bits;
    if ((uintptr_t)data % least != 0)
        return sv_error(SELVAGE_ERR_ARGUMENT, "data[%d]: %p is not a multiple of %zu bytes, as the first one was",
                        index, data, (size_t)least);
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

selvage_status_t sv_halo_rebind(selvage_halo_t *halo, void *const *data)
{
    const size_t bytes = (size_t)halo->nfields * sizeof *data;
    const uint64_t frees = sv_device_frees();
    sv_halo_set_t *set = NULL;
    for (int s = 0; s < halo->nsets && !set; s++)
        if (halo->set[s].frees == frees && memcmp(halo->set[s].data, data, bytes) == 0)
            set = &halo->set[s];
    if (!set) {
        for (int i = 0; i < halo->nfields; i++)
            SV_TRY(admit_address(halo->grid->comm->dev, &halo->fields[i], i, data[i], &halo->fresh[i]));
        SV_TRY(sv_halo_check_overlap(halo->fields, halo->nfields, data));
        /* The new set takes the place of the one that came longest ago. */
        int last = halo->nsets < SV_HALO_SETS ? halo->nsets : halo->next_set;
        set = &halo->set[last];
        memcpy(set->data, data, bytes);
        memcpy(set->base, halo->fresh, bytes);
        set->frees = frees;
        halo->nsets = last == halo->nsets ? last + 1 : halo->nsets;
        halo->next_set = (last + 1) % SV_HALO_SETS;
    }
    return sv_exchange_rebind(halo->exchange, set->base, (uint32_t)halo->nfields);
}
