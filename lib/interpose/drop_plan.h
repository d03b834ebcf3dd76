/* SPDX-License-Identifier: BSD-3-Clause */
/* How the device gathers and scatters elements (drop_plan.c), and buffers of collective calls that are made of such
   (drop_compact.c). */
#ifndef SV_DROP_PLAN_H
#define SV_DROP_PLAN_H

#include "interpose/drop.h"

/* A plan to gather and scatter elements. It may be kept for other types that say the same. */
typedef struct sv_drop_plan {
    selvage_pack_t *pack; /* NULL: this type cannot be taken apart */
    selvage_device_t *device; /* whose memory it is for; NULL: that device could not be opened */
    _Atomic int users;
    void *table; /* staging memory of the plan; NULL: it has none */
    size_t table_bytes;
    uint64_t digest, number; /* number 0: it is not kept */
    struct sv_drop_plan *next_digest, *next_number, *newer, *older;
} sv_drop_plan_t;

/* memory: an address in what is to be gathered or scattered. */
sv_drop_plan_t *sv_drop_plan_get(MPI_Datatype type, int64_t count, const void *memory);
/* Of a block of a buffer, whose blocks may be on several devices. */
sv_drop_plan_t *sv_drop_plan_of_block(const sv_drop_buffer_t *buffer, const sv_drop_block_t *block);
/* No gathering or scattering by it is under way. */
void sv_drop_plan_put(sv_drop_plan_t *plan);
/* Another type that says the same need not be taken apart. */
void sv_drop_plans_share(MPI_Datatype type, MPI_Datatype other);
void sv_drop_plans_end(void);

/* Of a buffer, with no gaps between the elements in staging memory (drop_compact.c): what MPI gets for its lists. */
typedef struct sv_drop_compact {
    int64_t *at;           /* bytes, of each block */
    sv_drop_plan_t **plan; /* NULL: it has no gaps */
    size_t *plain_bytes;   /* of a block without gaps; else 0 */
    MPI_Datatype *types;
    int *displs;           /* in elements or bytes, as the program's are; or */
    MPI_Aint *far;
} sv_drop_compact_t;
void sv_drop_compact_call(sv_drop_call_t *call);
/* Between there and the program's memory. No type is asked for anything: the program may have freed its own. */
void sv_drop_compact_copy(sv_drop_flow_t *flow, const sv_drop_buffer_t *buffer, bool down);
void sv_drop_compact_end(sv_drop_buffer_t *buffer);

#endif
