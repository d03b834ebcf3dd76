/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Node-shared pinned segments. A segment owns its mapping and the registration with the device, and lets go of them in
 * reverse order. A mapping that the same process created is borrowed, with its registration: pinning the same pages
 * twice is an error on GPUs. One thread at a time per segment struct; the memory itself belongs to the protocol that
 * lives in it.
 */
#include "host/memory_shared.h"

#include <string.h>

#include "base/base_fault.h"
#include "base/base_status.h"

static sv_shared_header_t *header_of(const sv_shared_segment_t *segment)
{
    return segment->mapping.base;
}

static selvage_status_t register_segment(sv_device_t *dev, sv_shared_segment_t *segment)
{
    SV_TRY(SV_DEVICE_CALL(dev, host_register, segment->mapping.base, segment->mapping.bytes));
    segment->dev = dev;
    segment->registered = 1;
    return SELVAGE_SUCCESS;
}

/* Also for a borrowed mapping, which its creator registered. */
static selvage_status_t find_shift(sv_device_t *dev, sv_shared_segment_t *segment)
{
    void *address;
    SV_TRY(SV_DEVICE_CALL(dev, host_address, segment->mapping.base, &address));
    segment->device_shift = (uintptr_t)address - (uintptr_t)segment->mapping.base;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_shared_create(sv_device_t *dev, size_t bytes, uint64_t token, sv_shared_segment_t *segment_out)
{
    sv_shared_segment_t segment = {0};
    selvage_status_t status;

    if (bytes > SIZE_MAX - sizeof(sv_shared_header_t))
        return sv_error(SELVAGE_ERR_MEMORY, "a shared segment of %zu bytes cannot exist", bytes);
    SV_TRY(sv_mapping_create(sizeof(sv_shared_header_t) + bytes, &segment.mapping));
    SV_TRY_GOTO(status, register_segment(dev, &segment), unmap);
    SV_TRY_GOTO(status, find_shift(dev, &segment), unregister);
    header_of(&segment)->token = token;
    *segment_out = segment;
    return SELVAGE_SUCCESS;

unregister:
    SV_DEVICE_CALL(dev, host_unregister, segment.mapping.base);
unmap:
    sv_mapping_close(&segment.mapping);
    return status;
}

static selvage_status_t check_token(const sv_shared_segment_t *segment, uint64_t token)
{
    sv_shared_header_t *header = header_of(segment);

    if (segment->mapping.bytes < sizeof *header)
        return sv_error(SELVAGE_ERR_SYSTEM, "a shared segment of %zu bytes has no room for its header",
                        segment->mapping.bytes);
    if (header->token != token)
        return sv_error(SELVAGE_ERR_SYSTEM, "a shared segment holds token %016llx where %016llx was promised: the "
                        "mapping leads to other memory", (unsigned long long)header->token, (unsigned long long)token);
    /* Partner: the acquire in sv_shared_is_answered(). */
    __atomic_store_n(&header->answer, token, __ATOMIC_RELEASE);
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_shared_open(sv_device_t *dev, const sv_mapping_handle_t *handle, uint64_t token,
                                sv_shared_segment_t *segment_out)
{
    sv_shared_segment_t segment = {0};
    selvage_status_t status;

    if (sv_fault_call_fails(SV_FAULT_CALL_MAP))
        return sv_error(SELVAGE_ERR_SYSTEM, "injected fault: mapping of host memory");
    SV_TRY(sv_mapping_open(handle, &segment.mapping));
    segment.dev = dev;
    if (!segment.mapping.borrowed)
        SV_TRY_GOTO(status, register_segment(dev, &segment), unmap);
    SV_TRY_GOTO(status, find_shift(dev, &segment), unregister);
    SV_TRY_GOTO(status, check_token(&segment, token), unregister);
    *segment_out = segment;
    return SELVAGE_SUCCESS;

unregister:
    if (segment.registered)
        SV_DEVICE_CALL(dev, host_unregister, segment.mapping.base);
unmap:
    sv_mapping_close(&segment.mapping);
    return status;
}

void sv_shared_close(sv_shared_segment_t *segment)
{
    if (segment == NULL)
        return;
    if (segment->registered)
        SV_DEVICE_CALL(segment->dev, host_unregister, segment->mapping.base);
    sv_mapping_close(&segment->mapping);
    memset(segment, 0, sizeof *segment);
}

int sv_shared_is_answered(const sv_shared_segment_t *segment)
{
    const sv_shared_header_t *header = header_of(segment);

    /* Partner: the release in check_token() of the opener. */
    return __atomic_load_n(&header->answer, __ATOMIC_ACQUIRE) == header->token;
}
