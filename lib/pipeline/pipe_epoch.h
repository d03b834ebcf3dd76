/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Epochs that kernels number. The host counts the epochs that it starts. What a graph replays, or a kernel of the
 * user's does, starts without it, and counts in the device's memory (sv_epoch_state_t, kernel_epoch.h):
 *
 *   device:  state->epoch  --- each kernel that ends an epoch adds 1; it said so in words[ENDING] (pinned) --->  host
 *   host:    x->epoch      --- each epoch that the host starts is stored to state->epoch on its stream ------>  device
 *
 * Epochs of both kinds come one after the other, so that the two numbers can follow each other. The user keeps that
 * order: what the device numbers is on a stream that the next start, test or wait is given, or is complete; and it
 * comes after the epochs that the host started.
 *
 * Nothing of this costs an exchange anything before sv_epoch_share() is called, once somebody captures or borrows it.
 * Application thread; what the engine also looks at changes where the engine lives.
 */
#ifndef SV_PIPE_EPOCH_H
#define SV_PIPE_EPOCH_H

#include "pipeline/pipe_exchange.h"

/* Whether kernels may number epochs from now on: the errors of sv_epoch_share(), without its consequences. */
selvage_status_t sv_epoch_ready(selvage_exchange_t *x, const char *call);

/*
 * From now on kernels may number epochs. Between epochs only: ERR_STATE while one is under way, or before commit; else
 * the error that poisoned the exchange. Enqueues nothing, so that it is fit for a capture. The state stays where it is
 * until the exchange is destroyed.
 */
selvage_status_t sv_epoch_share(selvage_exchange_t *x, const char *call, sv_epoch_state_t **state_out);

/*
 * At the beginning of a call of the host's on an exchange that is shared: waits until nothing is left to do on
 * stream, counts what the device numbered, and poisons the exchange if that failed. IN_PROGRESS instead of waiting,
 * if waits is false. ERR_STATE if an epoch was begun whose last launch has not come: its start was replayed alone.
 * Nothing happens to an exchange that is not shared, or whose epoch the host has under way.
 */
selvage_status_t sv_epoch_catch_up(selvage_exchange_t *x, void *stream, bool waits);

/* Puts the number of the epoch that the host starts where kernels find it, ahead of all of it. */
selvage_status_t sv_epoch_tell(const selvage_exchange_t *x, uint64_t epoch, void *stream);

/* Epochs started, those of the device included. */
uint64_t sv_epoch_count(const selvage_exchange_t *x);

/* At commit: the fault of an epoch that the device numbers, if SELVAGE_FAULT wants one. */
selvage_status_t sv_epoch_arm_fault(const selvage_exchange_t *x);

#endif
