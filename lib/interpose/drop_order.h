/* SPDX-License-Identifier: BSD-3-Clause */
/* What is received comes after the program's work that may still read the memory (drop_order.c). */
#ifndef SV_DROP_ORDER_H
#define SV_DROP_ORDER_H

#include "interpose/drop.h"

/* Notes where the program's default stream has come to, for a call that only receives, and returns at once. False: the
   call is to be staged as others are, by sv_drop_stage(). */
bool sv_drop_order_begin(sv_drop_call_t *call);
/* Whether the stream has not come so far yet, so that nothing of it may land. False for a call that has noted nothing.
   The caller has the lock of requests. */
bool sv_drop_order_holds(sv_drop_op_t *op);
/* Waits until no call has to be held any more. */
void sv_drop_orders_await(void);
/* Gives back what the call has; partner: sv_drop_order_begin(). */
void sv_drop_order_end(sv_drop_call_t *call);
/* Before the devices are closed. */
void sv_drop_orders_end(void);

/* From now on no work of the program's is waited for in this thread's calls, as their memory is the drop-in's own, or
   that has been waited for already: until it says false (drop_sync.c). */
void sv_drop_own(bool own);
bool sv_drop_is_own(void);

#endif
