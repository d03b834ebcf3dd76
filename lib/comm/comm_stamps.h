/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time stamps that blocks of kernels take (kernel_stamps.h), and what the host knows about them. Lines lie in device
 * memory, so that no stamp crosses the bus. Whoever launches a kernel takes lines for its blocks and notes what they
 * are of. So no block has to ask for its place. When there is no room any more, launches go without, and are counted.
 *
 * Lines may be taken and noted by any thread, without a lock or an allocation. Made with the communicator or its
 * device; collected once, at its end.
 */
#ifndef SV_COMM_STAMPS_H
#define SV_COMM_STAMPS_H

#include "base/base_trace.h"
#include "comm/comm.h"
#include "kernels/kernel_args.h"

typedef struct sv_stamps sv_stamps_t;

/* Makes comm->stamps, if the configuration wants them and there is a device; compares its clock with the host's.
   Partner: sv_stamps_destroy(). */
selvage_status_t sv_stamps_create(selvage_comm_t *comm);
void sv_stamps_destroy(selvage_comm_t *comm);

/* A number for the next launch, from 1. */
uint32_t sv_stamps_number_launch(sv_stamps_t *stamps);

/* So many lines, all 0, for the argument of a launch; or NULL. */
sv_stamp_line_t *sv_stamps_take(sv_stamps_t *stamps, uint32_t lines);

/* Says what some of the lines are of. Of what, only the members after last_began_ns count, but not first, count and
   times. */
void sv_stamps_note(sv_stamps_t *stamps, const sv_stamp_line_t *first, uint32_t lines, const sv_trace_blocks_t *what);

/* Everything that was recorded, in the order of BEGAN and by the host's clock. If the device is
   stuck, nothing is. The array is freed by sv_free(). */
selvage_status_t sv_stamps_collect(selvage_comm_t *comm, sv_trace_blocks_t **blocks_out,
                                   sv_trace_blocks_head_t *head_out);

#endif
