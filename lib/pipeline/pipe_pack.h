/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gathering and scattering what a map of a datatype says, without an exchange around it: a launch for each piece, in
 * parts where it is very large. Many small pieces in a row are a list, which takes one launch once it has a table.
 *
 *   pieces:  [ large ][ s ][ s ][ s ][ s ][ s ][ large ]        launches: large, list, large
 *
 * Has nothing on the device, so that making and freeing one neither allocates there nor waits; a table is in pinned
 * memory of the caller's. Any thread, several at once; owned by whoever made it.
 */
#ifndef SV_PIPE_PACK_H
#define SV_PIPE_PACK_H

#include <stdbool.h>

#include "device/device.h"
#include "wire/wire_type_map.h"

/* Pieces of the map that one launch moves, as kernel_args.h says of tables. Members in bytes: in the plan's table. */
typedef struct sv_pack_list {
    size_t first_piece, npieces;
    uint64_t bytes;    /* of the stream */
    uint64_t nruns;    /* each cut where a group ends */
    uint32_t ngroups;
    uint32_t granule;  /* of all offsets and lengths */
    size_t groups_bytes, offsets_bytes, begins_bytes;
} sv_pack_list_t;

typedef struct selvage_pack {
    sv_device_t *dev;
    sv_type_map_t map;
    sv_pack_list_t *lists; /* in the order of the pieces */
    size_t nlists, table_bytes;
    uint8_t *table, *table_there; /* there: by which kernels reach it; NULL: the plan has none */
} sv_pack_t;

/* Takes the map over, also on failure. */
selvage_status_t sv_pack_create(sv_device_t *dev, sv_type_map_t *map, sv_pack_t **pack_out);
void sv_pack_destroy(sv_pack_t *pack); /* accepts NULL */

/* Writes the plan's table to pinned memory, which is the device's under that other address. */
void sv_pack_write_table(sv_pack_t *pack, void *table, void *there);

/* A number of what the plan says, and whether two say the same of the same device. */
uint64_t sv_pack_digest(const sv_pack_t *pack);
bool sv_pack_is_equal(const sv_pack_t *a, const sv_pack_t *b);

/* Addresses are the device's. Bytes of the stream from one of them on, which is at packed. */
selvage_status_t sv_pack_gather(const sv_pack_t *pack, const void *buf, uint64_t from, uint64_t bytes, void *packed,
                                void *stream);
selvage_status_t sv_pack_scatter(const sv_pack_t *pack, const void *packed, uint64_t from, uint64_t bytes, void *buf,
                                 void *stream);

/* For sv_pack_create(): finds the lists. */
selvage_status_t sv_pack_find_lists(sv_pack_t *pack);

#endif
