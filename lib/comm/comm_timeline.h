/* SPDX-License-Identifier: BSD-3-Clause */
/* The timeline of all ranks in one file: collected by rank 0 when the communicator is destroyed. */
#ifndef SV_COMM_TIMELINE_H
#define SV_COMM_TIMELINE_H

#include "comm/comm.h"

/* Compares the clocks of all ranks with that of rank 0. Collective; engine thread. */
selvage_status_t sv_timeline_compare_clocks(selvage_comm_t *comm, sv_clock_sample_t *sample_inout);

/* Collective; engine thread. Failing to write is logged and is no error of the exchange. */
void sv_timeline_write(selvage_comm_t *comm);

#endif
