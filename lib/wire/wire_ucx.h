/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The wire over UCX (SELVAGE_WIRE=ucx). It stands on a wire over MPI, which it owns: addresses are exchanged by that
 * one's control messages, at the first message to a rank, so that a rank knows of its neighbours only. Everything else
 * goes by UCX, and MPI's wire says which ranks share a node.
 */
#ifndef SV_WIRE_UCX_H
#define SV_WIRE_UCX_H

#include <stdbool.h>

#include "wire/wire.h"

typedef struct sv_wire_ucx sv_wire_ucx_t;

enum { SV_WIRE_UCX_HOSTS = 8 };

/* By which networks this machine reaches others. */
typedef struct sv_wire_ucx_reach {
    uint64_t machine; /* 0: not known */
    uint64_t subnets; /* a hash of them; 0: fewer than two devices */
    uint32_t hosts[SV_WIRE_UCX_HOSTS]; /* addresses; 0: none */
} sv_wire_ucx_reach_t;

/* All 0 in a build without UCX. */
void sv_wire_ucx_reach(sv_wire_ucx_reach_t *reach_out);

/*
 * Everything that needs no other rank: loads libucp, opens a context and a worker. size: how many ranks there will be.
 * two_rails: long messages may be spread over two network devices, each of which reaches all ranks.
 * SELVAGE_ERR_UNSUPPORTED if this build has no UCX or libucp is not there, SELVAGE_ERR_SYSTEM if UCX finds no
 * transport, SELVAGE_ERR_MEMORY. Partner: sv_wire_ucx_attach(), or sv_wire_ucx_discard().
 */
selvage_status_t sv_wire_ucx_create(int size, bool two_rails, sv_wire_ucx_t **ucx_out);
/* Accepts NULL. Not after attach. */
void sv_wire_ucx_discard(sv_wire_ucx_t *ucx);

/* Takes *wire_inout, a wire over MPI on which all ranks do this, and puts the wire over UCX in its place. close()
   closes both. */
void sv_wire_ucx_attach(sv_wire_ucx_t *ucx, sv_wire_t **wire_inout);

/* libucp's version for people, such as "1.13.1", or why there is none. */
const char *sv_wire_ucx_version(void);

#endif
