/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the bytes of a request lie: one after the other, or as a datatype says. Kernels and copy engines move them, or
 * this thread does. Bytes with gaps go through a bounce buffer. A kernel on the caller's stream packs them before they
 * are read, or unpacks them when they are verified. Under the engine's lock.
 */
#ifndef SV_MESSAGE_LAYOUT_H
#define SV_MESSAGE_LAYOUT_H

#include "message/message_engine.h"
#include "wire/wire_type_map.h"

/* A datatype's bytes, as kernels read them, kept for the next message of its kind. Types with equal bytes share a
   layout. */
typedef struct sv_message_layout {
    sv_list_t link;
    sv_type_map_t map;       /* owned; offsets from the buffer */
    unsigned users, align;   /* what the buffer's address is modulo 16 */
    bool on_device;
    const sv_piece_t *pieces; /* device, in the block */
    uint32_t npieces;
    struct sv_message_bounce *block; /* device */
} sv_message_layout_t;

/* Memory that is kept for the next use. It is device memory for the bytes of a message or for a layout, or pinned
   memory that a layout is made in. */
typedef struct sv_message_bounce {
    sv_list_t link;
    uint8_t *memory;
    size_t bytes;
    uint64_t left_ns;        /* when it was put back last */
    bool counted;            /* among those for buffered sends (message_get.c) */
    bool stays;              /* to the engine's end: what peers map there is found by what does not tell it from memory
                                that comes to its place later */
    bool is_exported;        /* other ranks were told where: */
    sv_message_where_t where;
} sv_message_bounce_t;

selvage_status_t sv_message_find_layout(sv_message_engine_t *engine, const sv_type_map_t *map, const void *buf,
                                        bool on_device, sv_message_layout_t **layout_out);
/* How long a new one for so many bytes would be. */
size_t sv_message_bounce_bytes(size_t bytes);
/* Whether one that is free is long enough. */
bool sv_message_has_bounce(const sv_message_engine_t *engine, size_t bytes);
selvage_status_t sv_message_take_bounce(sv_message_engine_t *engine, size_t bytes, sv_message_bounce_t **bounce_out);
/* The same, but what fails is no error: the caller has another way. */
selvage_status_t sv_message_take_bounce_quietly(sv_message_engine_t *engine, size_t bytes,
                                                sv_message_bounce_t **bounce_out);
/* Device memory for so many bytes of a buffered send, counted to those; NULL: there is none now. */
sv_message_bounce_t *sv_message_take_buffer(sv_message_engine_t *engine, size_t bytes);
void sv_message_put_bounce(sv_message_engine_t *engine, sv_message_bounce_t *bounce);
/* Whether one is there that nobody has used for long; and takes all of those out, which the partner frees, without the
   lock, and which may wait for the device. */
bool sv_message_has_idle_bounce(sv_message_engine_t *engine, uint64_t now_ns);
void sv_message_trim_bounces(sv_message_engine_t *engine, uint64_t now_ns, sv_list_t *trimmed);
void sv_message_free_bounces(sv_message_engine_t *engine, sv_list_t *trimmed);

/* Finds out where the bytes lie, and takes what is needed to move them. call: the public call. The map is the caller's,
   and of offsets from buf. */
selvage_status_t sv_message_place(selvage_request_t *request, const char *call, void *buf, const sv_type_map_t *map);
/* At the end of the engine. */
void sv_message_free_layouts(sv_message_engine_t *engine);
/* Gives all of that back. */
void sv_message_leave_place(selvage_request_t *request);

/* A message that is shorter than its receive is unpacked only so far. */
selvage_status_t sv_message_trim(selvage_request_t *recv);

/* To and from the bounce buffer; nothing where there is none. */
selvage_status_t sv_message_pack_host(selvage_request_t *send);
selvage_status_t sv_message_unpack_host(selvage_request_t *recv);
selvage_status_t sv_message_pack_device(selvage_request_t *send, void *stream);
/* The word done of the line tells. */
selvage_status_t sv_message_unpack_device(selvage_request_t *recv, void *stream);

#endif
