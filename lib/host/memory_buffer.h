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

/*
 * Opened handles of peers, one mapping per (peer, handle) with a count of users: opening costs milliseconds on GPUs
 * and may be refused a second time.
 */
typedef struct sv_opened {
    sv_list_t link;
    sv_device_t *dev;
    int peer;
    sv_device_handle_t handle;
    void *base;
    uint64_t bytes;            /* from base, as the owner announced with the handle */
    unsigned users;
} sv_opened_t;

selvage_status_t sv_opened_get(sv_list_t *opened, sv_device_t *dev, int peer, const sv_device_handle_t *handle,
                               sv_opened_t **opened_out);
/* ERR_MISMATCH if bytes at an offset that its owner gave do not lie in the mapping; to be asked before any is used. */
selvage_status_t sv_opened_bound(const sv_opened_t *opened, uint64_t offset, uint64_t bytes);
/* Closes the mapping when the last user puts it. Accepts NULL. */
void sv_opened_put(sv_opened_t *opened);

#endif
