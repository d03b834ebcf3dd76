/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of the staging memory (drop_pool.c) that copies to and from it (drop_copy.c) and strips (drop_strip.c)
   need. */
#ifndef SV_DROP_POOL_H
#define SV_DROP_POOL_H

#include "interpose/drop.h"

/* Whether this is staging memory that is not pinned. */
bool sv_drop_is_plain(const void *ptr);

/* As sv_drop_staging(), for a device that the caller has asked for. */
void *sv_drop_staging_on(selvage_device_t *dev, size_t bytes);
/* Gives back what comes after the first bytes of it. */
void sv_drop_staging_trim(void *ptr, size_t bytes);

/* Two pinned pieces, through which plain memory is copied; one user's at a time. */
typedef struct sv_drop_pieces {
    struct sv_drop_pieces *next;
    selvage_device_t *device;
    char *memory[2];
    size_t bytes; /* of each */
} sv_drop_pieces_t;

sv_drop_pieces_t *sv_drop_pieces_take(void);
void sv_drop_pieces_give(sv_drop_pieces_t *pieces);

/* Looks what has not been used since it last looked; whether anything has not been for long (SELVAGE_IDLE_S). That is
   given back by the other one, which may wait for the device. */
bool sv_drop_pool_has_idle(int64_t now_ns);
void sv_drop_pool_free_idle(void);

#endif
