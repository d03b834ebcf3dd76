/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of the fast route, which drop_fast.c opens and drop_announce.c uses. */
#ifndef SV_DROP_ROUTE_H
#define SV_DROP_ROUTE_H

#include <selvage/comm.h>

#include "interpose/drop.h"

typedef struct sv_drop_route {
    _Atomic bool open;
    _Atomic bool refused;
    _Atomic bool retired; /* it was open, or could have been, and MPI_Finalize has begun */
    selvage_comm_t *world;
    MPI_Comm own;      /* all ranks, for the drop-in alone */
    uint64_t nonce[2]; /* of the job: what announcements begin with */
    int tag_most;      /* MPI's greatest tag */
    unsigned calls;
    int32_t next_id;
    _Atomic bool seen; /* device memory, by this rank */
    _Atomic bool unwatched;  /* a receive has begun that an announcement must not come to */
    bool drives;       /* ON: ranks may owe each other bytes */
    _Atomic bool answers; /* what this rank has sent, and is done with, may be asked for again */
    _Atomic bool asked; /* all ranks have shown device memory, and what of the route can be had is decided */
    _Atomic bool settled; /* nothing of it is left to be opened */
    bool lacks_part;   /* some ranks, with this one, could not open it for themselves: this rank tries no more */
    bool threads;      /* of the program, all of which may call MPI */
    bool any_threads;  /* of any rank's: ranks may differ */
    int key, within_key; /* of what calls_on() and sv_drop_fast_enter() have found */
    bool *on_node;     /* by rank of MPI_COMM_WORLD: on this node */
    int64_t slot_bytes; /* of a slot of the neighbours' */
} sv_drop_route_t;

extern sv_drop_route_t sv_drop_route;

/* On an open route: waits for the other ranks of the call, and says whether all say so. */
bool sv_drop_fast_agree(MPI_Comm comm, bool mine);
/* The same for each of n values: what op makes of all ranks' takes their place. False: MPI has failed. */
enum { SV_DROP_VALUES = 17 }; /* at most */
bool sv_drop_fast_combine(MPI_Comm comm, int64_t *values, int n, MPI_Op op);
bool sv_drop_fast_least(MPI_Comm comm, int64_t *values, int n);
/* Whether collective calls on a communicator cannot be those of another thread while this one opens the route. */
bool sv_drop_fast_is_in_order(MPI_Comm comm);

/* Whether all ranks of a communicator say so. While the route opens they ask like this, and drive nothing: another rank
   may have it open already, and what it announces must not be taken for data here. */
bool sv_drop_fast_all(MPI_Comm comm, bool mine);
/* Rank in MPI_COMM_WORLD of a communicator's rank; MPI_UNDEFINED if it has none. Not with the lock. */
int sv_drop_world_rank(MPI_Comm comm, int peer);

/* Pair by pair (drop_wireup.c). Tags of messages of the program's are less than that of wireup messages. */
enum { SV_DROP_WIREUP_TAG = INT32_MAX, SV_DROP_WIREUP_BYTES = 8 };
/* Collective. rank: the ranks of the node, which has n of them. Returns whether all ranks could. */
bool sv_drop_wireup_begin(const int *rank, int n, int64_t slot_bytes);
void sv_drop_wireup_end(void);
/* Whether messages between this rank and that one of MPI_COMM_WORLD may go by the route. */
bool sv_drop_wireup_is_done(int rank);
/* Collective over a communicator, once each of its ranks has a device: opens this rank's end; and then wires it up with
   those others that are on the node, which waits. Return whether it could. */
bool sv_drop_wireup_open(void);
bool sv_drop_wireup_with(MPI_Comm comm);
/* Looks for wireup messages; cheap if there are none. Any thread, with or without the lock. */
void sv_drop_wireup_poll(void);
/* Whether no other rank of the node is known to use this rank's GPU: a kernel may wait for another rank's. */
bool sv_drop_wireup_has_own_gpu(void);
/* How many wireup messages have come, which are no messages of the program's. */
uint64_t sv_drop_wireup_messages(void);

/* Reports what came by the fast route since it opened, and whether it was good. Without SELVAGE_REPORT it tells of
   damage only. Called after the last message, by all ranks; NULL where the route is not open. */
void sv_drop_report_packets_from(selvage_comm_t *world);
void sv_drop_report_packets(selvage_comm_t *world);

/* After the last announcement (drop_announce.c). */
void sv_drop_announce_end(void);

#endif
