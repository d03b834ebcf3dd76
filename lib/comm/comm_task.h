/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that run where the engine lives: on the progress thread, if there is one, else on the calling thread. */
#ifndef SV_COMM_TASK_H
#define SV_COMM_TASK_H

#include "base/base_thread.h"
#include "comm/comm.h"

/* One call; begins a struct with its arguments. */
typedef struct sv_comm_task {
    selvage_status_t (*run)(struct sv_comm_task *task);
    selvage_status_t status;
    char detail[SV_DETAIL_BYTES];
} sv_comm_task_t;

/* Runs it there; its error's detail becomes that of the calling thread. */
selvage_status_t sv_comm_task_run(selvage_comm_t *comm, sv_comm_task_t *task);

#endif
