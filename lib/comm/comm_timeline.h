/* SPDX-License-Identifier: BSD-3-Clause */
/* The timeline of all ranks in one file: collected by rank 0 when the communicator is destroyed. */
#ifndef SV_COMM_TIMELINE_H
#define SV_COMM_TIMELINE_H

#include "comm/comm.h"

/* Collective; engine thread. Failing to write is logged and is no error of the exchange. */
void sv_timeline_write(selvage_comm_t *comm);

#endif
