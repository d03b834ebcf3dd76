/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective communicators of the fast route (drop_collcomm.c), for its calls and for what opens it. */
#ifndef SV_DROP_COLLCOMM_H
#define SV_DROP_COLLCOMM_H

#include <selvage/collective.h>

#include "interpose/drop.h"

/* Opens the route of collective calls for the ranks of comm, all of which make this call with a device. agreeing: the
   communicator of the same ranks to agree on. world: what Selvage's communicator of them is; NULL: none is there, and
   one is made. Returns whether all of them could; then all calls among them may take the route. */
bool sv_drop_collcomm_open(MPI_Comm comm, MPI_Comm agreeing, selvage_comm_t *world);
/* Ends all of that. Every rank of the job comes. */
void sv_drop_collcomm_close(void);

/* Gives back what the calls' buffers have had mapped and nothing has used for long, if gives_back; says whether there
   is any. Not within a call of a collective. */
bool sv_drop_collcomm_trim(bool gives_back);

/* What all ranks make this call with, if all can make it on the route, as mine says of this one; else NULL. */
selvage_coll_t *sv_drop_collcomm_agree(MPI_Comm comm, bool mine);
/* The stream of all such calls. */
void *sv_drop_coll_stream(void);

#endif
