/* SPDX-License-Identifier: BSD-3-Clause */
/* See comm_task.h. */
#include "comm/comm_task.h"

#include <string.h>

typedef struct task {
    selvage_status_t (*fn)(void *arg);
    void *arg;
    selvage_status_t status;
    char detail[SV_DETAIL_BYTES];
} task_t;

static void run_task(void *arg)
{
    task_t *task = arg;
    memcpy(sv_thread_detail(), task->detail, sizeof task->detail);
    task->status = task->fn(task->arg);
    memcpy(task->detail, sv_thread_detail(), sizeof task->detail);
}

selvage_status_t sv_comm_run(selvage_comm_t *comm, selvage_status_t (*fn)(void *arg), void *arg)
{
    task_t task = {.fn = fn, .arg = arg};
    memcpy(task.detail, sv_thread_detail(), sizeof task.detail);
    sv_progress_call(&comm->progress, run_task, &task);
    if (task.status != SELVAGE_SUCCESS)
        memcpy(sv_thread_detail(), task.detail, sizeof task.detail);
    return task.status;
}
