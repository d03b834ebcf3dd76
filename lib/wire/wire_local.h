/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks as threads of one process: a world is made once, and each thread opens its rank. It serves the thread
 * sanitizer, and tests that need many ranks in milliseconds. It keeps the promises of wire.h, as the wire over MPI
 * does.
 */
#ifndef SV_WIRE_LOCAL_H
#define SV_WIRE_LOCAL_H

#include "wire/wire.h"

typedef struct sv_wire_world sv_wire_world_t;

/* ranks_per_node 0: all on one node. */
selvage_status_t sv_wire_world_create(int size, int ranks_per_node, sv_wire_world_t **world_out);
/* All wires must be closed. Accepts NULL. */
void sv_wire_world_destroy(sv_wire_world_t *world);
/* Any thread; one wire per rank. */
selvage_status_t sv_wire_local_open(sv_wire_world_t *world, int rank, sv_wire_t **wire_out);
/* For tests: every nth control message that this local wire (not a wrapper) sends is damaged on the way; 0: none. */
void sv_wire_local_corrupt_control(sv_wire_t *wire, unsigned every_nth);
/* For tests: every message of at least so many bytes that this local wire receives has a bit flipped; 0: none. */
void sv_wire_local_corrupt_long(sv_wire_t *wire, size_t from_bytes);
/* As above for every n-th of them, at a place that differs from one to the next (0: none). Returns how many it was. */
uint64_t sv_wire_local_corrupt_some(sv_wire_t *wire, size_t from_bytes, unsigned every_nth);

#endif
