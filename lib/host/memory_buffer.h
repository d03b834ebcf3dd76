/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered buffers: user memory that peers of the node may map while the registration lives. A list per
 * communicator, searched at commit only.
 */
#ifndef SV_MEMORY_BUFFER_H
#define SV_MEMORY_BUFFER_H

#include <stdbool.h>

#include "base/base_list.h"
#include "device/device.h"

struct selvage_buffer {
    sv_list_t link;
    selvage_comm_t *comm;      /* set and used by the public calls only */
    sv_device_t *dev;
    uint8_t *ptr;
    size_t bytes;
    sv_device_handle_t handle;
    uint64_t offset;           /* of ptr in the exported allocation */
    unsigned users;            /* committed packets that land in it */
};

/* Exports the memory and appends the buffer to the list. */
selvage_status_t sv_buffer_register(sv_list_t *buffers, sv_device_t *dev, void *ptr, size_t bytes,
                                    selvage_buffer_t **buffer_out);
/* SELVAGE_ERR_STATE while it has users. Accepts NULL. */
selvage_status_t sv_buffer_unregister(selvage_buffer_t *buffer);
/* The buffer that holds all of [ptr, ptr + bytes), or NULL. */
selvage_buffer_t *sv_buffer_find(const sv_list_t *buffers, const void *ptr, size_t bytes);

#endif
