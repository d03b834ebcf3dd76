/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that run where the engine lives: on the progress thread, if there is one, else on the calling thread. */
#ifndef SV_COMM_TASK_H
#define SV_COMM_TASK_H

#include "base/base_thread.h"
#include "comm/comm.h"

/*
 * Runs fn(arg) there and returns its status once it is through. The calling thread's detail is there while it runs, and
 * that of an error becomes the calling thread's.
 */
selvage_status_t sv_comm_run(selvage_comm_t *comm, selvage_status_t (*fn)(void *arg), void *arg);

#endif
