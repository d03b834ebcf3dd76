/* SPDX-License-Identifier: BSD-3-Clause */
/* The checks that every call makes which declares a packet, however its bytes are described. */
#ifndef SV_API_PACKET_H
#define SV_API_PACKET_H

#include "pipeline/pipe_exchange.h"

/* ERR_STATE after commit; ERR_ARGUMENT with the argument named. call is the name of the public call. */
selvage_status_t sv_api_check_packet(const char *call, const selvage_exchange_t *ex, const void *buf, size_t bytes,
                                     int peer, int tag);

/* MPI_PROC_NULL: nothing is added, and the index is that of no packet. */
bool sv_api_is_nobody(int peer, uint32_t *index_out);

#endif
