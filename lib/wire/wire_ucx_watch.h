/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the ranks that this one is connected to are still there. Each pair keeps idle TCP connections beside UCX, one
 * over each network device of UCX's transport tcp.
 *
 * - A process that ends, however it ends, has its connections closed by its kernel. That is seen whatever UCX goes by.
 * - A link that is cut answers no more. A rank that waits sends a byte now and then, and the other's kernel
 *   acknowledges it, also for a process that computes or is stopped. Nothing for SILENCE_NS makes the rank gone, if one
 *   of its UCX lanes goes by that device. TCP sends the byte again several times meanwhile.
 * - UCX alone finds neither a cut link under TCP, where the kernel tries for a quarter of an hour, nor a process that
 *   ends where UCX goes by shared memory.
 * - Where no such connection can be made, what UCX says remains. That is no error.
 *
 * Everything here is with the wire's lock, on the thread that lets the wire advance.
 */
#ifndef SV_WIRE_UCX_WATCH_H
#define SV_WIRE_UCX_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base_list.h"

struct sv_wire_ucx;
struct sv_ucx_peer;

enum { SV_UCX_RAILS_MAX = 4, SV_UCX_RAIL_NAME_BYTES = 32 };

/* A network device of the transport tcp. */
typedef struct sv_ucx_rail {
    char name[SV_UCX_RAIL_NAME_BYTES];
    uint32_t host; /* its IPv4 address, in network order */
} sv_ucx_rail_t;

/* How a rank can be reached; travels ahead of its UCX address. */
typedef struct sv_ucx_contact {
    uint64_t cookie; /* what who connects has to know */
    uint16_t port;   /* in network order; 0: not at all */
    uint16_t nhosts;
    uint32_t hosts[SV_UCX_RAILS_MAX];
    uint32_t unused; /* no padding is sent */
} sv_ucx_contact_t;

typedef struct sv_ucx_watcher {
    int listener; /* -1: nobody is watched */
    uint64_t cookie;
    unsigned nrails;
    sv_ucx_rail_t rails[SV_UCX_RAILS_MAX];
    sv_list_t connections; /* connections, of all peers and of who has not said yet who it is */
    size_t nconnections, connections_max;
    uint64_t check_ns, checked_ns; /* when it is time; when it was */
} sv_ucx_watcher_t;

/* Lists the rails, listens, and fills the contact. Partner: sv_ucx_watch_end(). */
void sv_ucx_watch_begin(struct sv_wire_ucx *wire, sv_ucx_contact_t *contact_out);
void sv_ucx_watch_end(struct sv_wire_ucx *wire);
/* The peer is connected. Of two ranks the lower one connects. */
void sv_ucx_watch_peer(struct sv_ucx_peer *peer, const sv_ucx_contact_t *contact);
/* Looks after all connections, if it is time. */
void sv_ucx_watch_check(struct sv_wire_ucx *wire);
/* Tells all peers that this rank leaves in order. */
void sv_ucx_watch_say_farewell(struct sv_wire_ucx *wire);

#endif
