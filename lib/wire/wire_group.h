/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI's own collectives of host memory, among some ranks of a wire, on a communicator of their own. They do not block:
 * what was started is tested until it is complete. All members start the same in the same order, and any number may be
 * under way. One thread at a time is inside, the one that has the wire. Hot paths (start, test) allocate nothing here;
 * what MPI does is MPI's. Nothing that was started can be withdrawn.
 */
#ifndef SV_WIRE_GROUP_H
#define SV_WIRE_GROUP_H

#include <stdbool.h>

#include <selvage/collective.h>

#include "wire/wire.h"

typedef struct sv_wire_group sv_wire_group_t;

/* sum[i] = first[i] op sum[i], in elements of a type (SELVAGE_FLOAT32 and its kin, SELVAGE_OP_SUM to SELVAGE_OP_MAX);
   then divided by divisor, which is 0 here, for: not. Any thread of MPI's. */
typedef void (*sv_wire_combine_fn)(uint8_t *sum, const uint8_t *first, uint64_t bytes, unsigned type, unsigned op,
                                   unsigned divisor);

typedef enum sv_wire_group_kind { SV_WIRE_ALL_REDUCE, SV_WIRE_REDUCE, SV_WIRE_BROADCAST } sv_wire_group_kind_t;

/* One of them. Buffers stay the caller's, and valid until test says SUCCESS. */
typedef struct sv_wire_group_call {
    sv_wire_group_kind_t kind;
    const void *send;          /* not of a broadcast, */
    void *recv;                /* which has one buffer, at all members; of a reduction, the root's alone */
    size_t bytes;              /* at most INT_MAX */
    size_t element_bytes;
    unsigned type, op;         /* of a broadcast: bytes as they are */
    int root;                  /* a member's place among ranks; of an all-reduce: none */
} sv_wire_group_call_t;

/* Zero: none is under way. */
typedef struct sv_wire_group_request {
    uint64_t handle, is_open;
} sv_wire_group_request_t;

/*
 * Local: the group without its members. combine: for types and operations that MPI does not have, or that it has with
 * other results (the same function in all groups). ERR_UNSUPPORTED if the wire does not stand on MPI, ERR_MEMORY.
 * Partner: sv_wire_group_close().
 */
selvage_status_t sv_wire_group_create(sv_wire_t *wire, sv_wire_combine_fn combine, sv_wire_group_t **group_out);
/*
 * Collective among `ranks` (of the wire; count of them, in this order; this one is among them), which have agreed that
 * they come. Waits for them for timeout_s at most (-1: no limit), and blocks in MPI once all are there. tag: differs
 * between groups that are made at the same time with ranks in common. ERR_MPI.
 */
selvage_status_t sv_wire_group_connect(sv_wire_group_t *group, const int *ranks, int count, int tag, double timeout_s);
/* Collective if all is well. is_failed: some member may never come, or MPI is over; then, and where something is still
   under way, MPI keeps what it has. Accepts NULL. */
void sv_wire_group_close(sv_wire_group_t *group, bool is_failed);

/* ERR_MPI, ERR_LIMIT. */
selvage_status_t sv_wire_group_start(sv_wire_group_t *group, const sv_wire_group_call_t *call,
                                     sv_wire_group_request_t *request_out);
/* SUCCESS: complete, or none; then it is none. IN_PROGRESS, ERR_MPI. */
selvage_status_t sv_wire_group_test(sv_wire_group_t *group, sv_wire_group_request_t *request);

#endif
