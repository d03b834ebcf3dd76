/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions: epochs in a row that one kernel of the application's runs (include/selvage/device_api.h).
 *
 * For the host a session is like enqueued epochs: it is over as soon as it is announced, and the words of its packets
 * tell when the device is through. Slots, records and the words that kernels poll are those of the library's own
 * kernels, so that a neighbour may run the same epochs by enqueued waits. Only words for hosts are left out, until the
 * kernel leaves. A packet to the rank itself has slots that are made for sessions, because it has none else.
 *
 * Application thread, but for sv_session_release().
 */
#ifndef SV_PIPE_SESSION_H
#define SV_PIPE_SESSION_H

#include "pipeline/pipe_exchange.h"
#include <selvage/device_api.h>

/* Announces a session; see selvage_exchange_device(). halo: kernels are to gather and scatter its pieces. */
selvage_status_t sv_session_begin(selvage_exchange_t *x, unsigned epochs, void *stream, bool halo,
                                  selvage_device_exchange_t *handle_out);

/* Whether the last epoch started is one of a session. */
static inline bool sv_session_is_last(const selvage_exchange_t *x)
{
    return x->session.epoch != 0 && x->session.epoch == x->started;
}

/* As sv_batch_query(): IN_PROGRESS while the kernel has not left, and its stream has something to do. */
selvage_status_t sv_session_query(selvage_exchange_t *x);

/* Before an epoch that comes after a session: whether its kernel was never launched, which nobody could tell later.
   Asks nothing but words if the kernel is through. sv_session_check() says so. */
void sv_session_seek_lost(selvage_exchange_t *x);

/* Poisons the exchange if a kernel has reported a failure, or will never come to its end. */
void sv_session_check(selvage_exchange_t *x);

/* Frees what sessions use; nothing of it while a kernel may still run. */
void sv_session_release(selvage_exchange_t *x);

#endif
