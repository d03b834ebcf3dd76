/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mappings of neighbours' allocations, kept from one message to the next. Under the engine's lock.
 */
#ifndef SV_MESSAGE_MAPPING_H
#define SV_MESSAGE_MAPPING_H

#include "host/memory_buffer.h"
#include "message/message_engine.h"

typedef struct sv_message_mapping {
    sv_list_t link;
    sv_opened_t *opened;
    uint64_t remote_base;    /* where its owner has it */
    uint64_t bytes;          /* of the allocation, as far as messages have reached into it */
    uint64_t used_ns;        /* when the last user left it */
    bool retained;           /* while nobody uses it */
    unsigned users;
} sv_message_mapping_t;

/* Maps the allocation that its owner has at remote_base, or finds that mapped: send->put.mapping has one user more.
   Partner: sv_message_mapping_leave(). */
selvage_status_t sv_message_mapping_enter(selvage_request_t *send, uint64_t remote_base,
                                          const sv_device_handle_t *handle);
void sv_message_mapping_leave(sv_message_engine_t *engine, sv_message_mapping_t *mapping);
/* At the end of the engine. */
void sv_message_close_mappings(sv_message_engine_t *engine);

#endif
