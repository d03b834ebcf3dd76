/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the ranks that this one is connected to are still there. Each pair keeps idle TCP connections beside UCX: one
 * by loopback on one machine, else one over each rail (wire_ucx_rails.h) that UCX has for its transport tcp.
 *
 * A rank that is wrongly said to be gone ends a job; one that is missed costs a deadline. So only proof counts, and
 * only of connections on which the other rank has shown that it knows the cookie. A rank that ends before it has
 * answered is not seen to end.
 *
 * - A process that ends, however it ends, has its connections closed by its kernel, unless a child that it forked still
 *   holds them. It has ended if all its connections are closed, or refused where it had listened.
 * - A link that is cut answers no more. A rank that waits sends a byte now and then, and the other's kernel
 *   acknowledges it, also for a process that computes or is stopped. The link is gone if nothing comes for
 *   SELVAGE_WIRE_SILENCE_S, TCP has repeated the byte three times, and nothing else goes by that rail. It counts if
 *   UCX says that a lane to the rank goes by that rail, and no router is between.
 * - UCX alone finds neither a cut link under TCP, where the kernel tries for a quarter of an hour, nor a process that
 *   ends where UCX goes by shared memory.
 * - Where no such connection can be made, what UCX says remains. That is no error.
 *
 * Everything here is with the wire's lock, on the thread that lets the wire advance.
 */
#ifndef SV_WIRE_UCX_WATCH_H
#define SV_WIRE_UCX_WATCH_H

#include "base/base_list.h"
#include "wire/wire_ucx_rails.h"

struct sv_wire_ucx;
struct sv_ucx_peer;

typedef struct sv_ucx_watcher {
    uint64_t cookie, machine;
    uint64_t silence_ns; /* 0: links are not judged */
    unsigned nrails;
    sv_ucx_rail_t rails[SV_UCX_RAILS_MAX]; /* the first is loopback */
    int listeners[SV_UCX_RAILS_MAX];       /* -1: none */
    sv_list_t fresh, watching; /* connections: not proven or to be made again; the others */
    unsigned nwatching, nstrangers;
    uint64_t check_ns; /* when it is time */
} sv_ucx_watcher_t;

/* Lists the rails, listens, and fills the contact. Partner: sv_ucx_watch_end(). */
void sv_ucx_watch_begin(struct sv_wire_ucx *wire, sv_ucx_contact_t *contact_out);
/* Closes everything. Harmless if it has been done, or has not begun. */
void sv_ucx_watch_end(struct sv_wire_ucx *wire);
/* The peer is connected, and has its contact. Of two ranks the lower one connects. */
void sv_ucx_watch_peer(struct sv_ucx_peer *peer);
/* Looks after the connections, if it is time. */
void sv_ucx_watch_check(struct sv_wire_ucx *wire, uint64_t now_ns);
/* Tells all peers that this rank leaves in order. */
void sv_ucx_watch_say_farewell(struct sv_wire_ucx *wire);

#endif
