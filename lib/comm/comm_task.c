/* SPDX-License-Identifier: BSD-3-Clause */
/* See comm_task.h. */
#include "comm/comm_task.h"

#include <string.h>

static void run_task(void *arg)
{
    sv_comm_task_t *task = arg;
    task->status = task->run(task);
    memcpy(task->detail, sv_thread_detail(), sizeof task->detail);
}

selvage_status_t sv_comm_task_run(selvage_comm_t *comm, sv_comm_task_t *task)
{
    sv_progress_call(&comm->progress, run_task, task);
    if (task->status != SELVAGE_SUCCESS)
        memcpy(sv_thread_detail(), task->detail, sizeof task->detail);
    return task->status;
}
