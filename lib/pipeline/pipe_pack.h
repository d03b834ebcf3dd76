/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gathering and scattering what a map of a datatype says, without an exchange around it: a launch for each piece, in
 * parts where it is very large. Has nothing on the device, so that making and freeing one neither allocates there nor
 * waits. Any thread, several at once; owned by whoever made it.
 */
#ifndef SV_PIPE_PACK_H
#define SV_PIPE_PACK_H

#include "device/device.h"
#include "wire/wire_type_map.h"

typedef struct selvage_pack {
    sv_device_t *dev;
    sv_type_map_t map;
} sv_pack_t;

/* Takes the map over, also on failure. */
selvage_status_t sv_pack_create(sv_device_t *dev, sv_type_map_t *map, sv_pack_t **pack_out);
void sv_pack_destroy(sv_pack_t *pack); /* accepts NULL */

/* Addresses are the device's. Bytes of the stream from one of them on, which is at packed. */
selvage_status_t sv_pack_gather(const sv_pack_t *pack, const void *buf, uint64_t from, uint64_t bytes, void *packed,
                                void *stream);
selvage_status_t sv_pack_scatter(const sv_pack_t *pack, const void *packed, uint64_t from, uint64_t bytes, void *buf,
                                 void *stream);

#endif
