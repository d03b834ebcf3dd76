/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether other processes have the same GPU open. A GPU that several processes share runs the kernels of one of them at
 * a time, in turns of about a hundred microseconds. Its copy engines take turns by the copy. So what is best differs.
 *
 * Each process that has opened the GPU by Selvage holds a read lock on the GPU's file in sysfs. Whoever could not lock
 * it for writing is not alone. Nothing is written or left behind, and a lock ends with its process. A child by fork()
 * alone has the lock of its parent, with which it ends. Processes without Selvage are not seen, nor are those in a
 * container with a sysfs of its own.
 *
 * A process has one lock for each GPU, however often it opens it, and keeps it to its end. Any thread. The system is
 * asked rarely enough for calls that must be fast, which is the exception to their having no call of the system.
 *
 * This is about time only, and may be wrong. Whether ranks of a communicator share a GPU, on which kernels must not
 * wait for each other, they tell each other: shares_gpu of host/topology.h.
 */
#ifndef SV_DEVICE_SHARING_H
#define SV_DEVICE_SHARING_H

#include <stdbool.h>

/* What a device has as its `sharing` where no lock says it. Numbers of locks are positive. */
enum { SV_SHARING_NEVER = 0, SV_SHARING_ALWAYS = -1 };

/* Takes the lock of the GPU with this bus id; its number, or NEVER where there is no such file. Never logs. */
int sv_sharing_join(const char *bus_id);

/* As above, with a file of any name. */
int sv_sharing_join_file(const char *path);

/* Whether somebody else had the GPU when the system was asked last: at the 1st, 2nd, 4th, 8th, ... of these calls, and
   at every 1024th. Between those it loads a word. */
bool sv_sharing_is_shared(int sharing);

/* Asks now. */
bool sv_sharing_ask(int sharing);

#endif
