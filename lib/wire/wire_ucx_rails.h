/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network devices of this machine that lead to other machines, the rails, and how a rank can be reached by them.
 * Rails have an IPv4 address that is neither loopback nor link-local, and are up. A device from point to point, such as
 * a VPN's, is none. No state; any thread.
 */
#ifndef SV_WIRE_UCX_RAILS_H
#define SV_WIRE_UCX_RAILS_H

#include <stdbool.h>
#include <stdint.h>

enum { SV_UCX_RAILS_MAX = 8, SV_UCX_RAIL_NAME_BYTES = 32, SV_UCX_LOOPBACK = 0 };

typedef struct sv_ucx_rail {
    char name[SV_UCX_RAIL_NAME_BYTES];
    uint32_t host, mask; /* IPv4, in network order */
} sv_ucx_rail_t;

/* Where somebody listens. */
typedef struct sv_ucx_host {
    uint32_t host, mask;
    uint16_t port; /* in network order; 0: nobody does */
    uint16_t unused;
} sv_ucx_host_t;

/* How a rank can be reached; travels ahead of its UCX address. */
typedef struct sv_ucx_contact {
    uint64_t cookie;  /* what who connects has to know */
    uint64_t machine; /* with its network namespace; 0: not known */
    uint32_t nhosts;
    uint32_t unused; /* no padding is sent */
    sv_ucx_host_t hosts[SV_UCX_RAILS_MAX]; /* the first is loopback, for ranks of the same machine only */
} sv_ucx_contact_t;

/* How many there are, at most SV_UCX_RAILS_MAX; bridges, or all others. Those of containers and virtual machines are
   bridges with one address on all machines, but a machine's own device may be part of one. */
unsigned sv_ucx_list_rails(bool bridges, sv_ucx_rail_t *rails_out);

/* Which machine and network namespace this is: loopback reaches those of the same only. 0: not known. */
uint64_t sv_ucx_machine(void);

/* A link without a router leads from the one to the other. */
bool sv_ucx_share_subnet(uint32_t host, uint32_t mask, uint32_t other_host, uint32_t other_mask);

/* The address of who has this contact that the rail leads to without a router; NULL: none. The first of `rails` is
   loopback. The second rail of a subnet takes the second address. */
const sv_ucx_host_t *sv_ucx_find_neighbour(const sv_ucx_rail_t *rails, unsigned nrails, unsigned rail,
                                           const sv_ucx_contact_t *contact);
/* One that a router may lead to; NULL: none. */
const sv_ucx_host_t *sv_ucx_find_far_host(const sv_ucx_rail_t *rails, unsigned nrails, const sv_ucx_contact_t *contact);
/* The one with this address; NULL: it is not the contact's. */
const sv_ucx_host_t *sv_ucx_find_listener(const sv_ucx_contact_t *contact, uint32_t host);

#endif
