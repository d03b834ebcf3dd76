/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that are elements of an MPI datatype, or of a list: from the description to a layout. call is the name of the
 * public call, for what is refused. What lies in memory without a gap becomes a packet as any other. Local; before
 * commit.
 */
#ifndef SV_PIPE_LAYOUT_TYPE_H
#define SV_PIPE_LAYOUT_TYPE_H

#include "pipeline/pipe_exchange.h"
#include "pipeline/pipe_layout.h"
#include "wire/wire_type_map.h"

/* ERR_ARGUMENT if a map names a byte twice. */
selvage_status_t sv_layout_check_overlap(const char *call, const sv_type_map_t *map);

/* A layout of offsets from a base. */
selvage_status_t sv_layout_create_type(const sv_type_map_t *map, uint32_t base, sv_layout_t **layout_out);

/* A packet of what a map says of memory at buf. Offsets in the map are addresses of the device
   afterwards, or offsets from buf. */
selvage_status_t sv_exchange_add_send_type(selvage_exchange_t *x, const char *call, const void *buf,
                                           sv_type_map_t *map, int peer, int tag, uint32_t *index_out);
selvage_status_t sv_exchange_add_recv_type(selvage_exchange_t *x, const char *call, void *buf, sv_type_map_t *map,
                                           int peer, int tag, uint32_t *index_out);

/* A packet of elements of an array at buf; ERR_ARGUMENT for indices that are negative, and twice there to receive. */
typedef struct sv_element_list {
    size_t element_bytes, count;
    const int64_t *indices;
} sv_element_list_t;

selvage_status_t sv_exchange_add_send_list(selvage_exchange_t *x, const char *call, const void *buf,
                                           const sv_element_list_t *list, int peer, int tag, uint32_t *index_out);
selvage_status_t sv_exchange_add_recv_list(selvage_exchange_t *x, const char *call, void *buf,
                                           const sv_element_list_t *list, int peer, int tag, uint32_t *index_out);

#endif
