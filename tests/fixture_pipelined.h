/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pipelined fixture is an exchange fixture whose epochs follow each other on a stream without the host: data that
 * changes, the exchange, and the check of what came, all enqueued. What a packet contains follows from its place in the
 * plan and the epoch. Needs the software device, because the check is a kernel in C.
 */
#ifndef SELVAGE_TESTS_FIXTURE_PIPELINED_H
#define SELVAGE_TESTS_FIXTURE_PIPELINED_H

#include "fixture_exchange.h"

/* What the checks on the stream found for one packet. */
typedef struct pipelined_mark {
    _Atomic uint64_t checked;     /* epochs */
    _Atomic uint64_t first_wrong; /* epoch; 0: none */
} pipelined_mark_t;

typedef struct pipelined {
    fixture_t fixture;
    void *stream[2];
    uint8_t **source;             /* per packet that is sent: the data of all epochs, eight bytes apart */
    pipelined_mark_t *mark;       /* per packet */
    _Atomic uint64_t handed;      /* epochs whose work on its stream has come to its end */
    unsigned epochs_max;
} pipelined_t;

/* How an epoch ends. All ranks alike. */
typedef enum pipelined_end { PIPELINED_ENQUEUE, PIPELINED_WAIT, PIPELINED_TEST } pipelined_end_t;

/* Fixture, streams and sources, and commit; false and a failed check if something failed. */
bool pipelined_open(pipelined_t *pipelined, local_rank_t *self, const plan_t *plan,
                    const selvage_exchange_params_t *params, unsigned epochs_max);
void pipelined_close(pipelined_t *pipelined);
/* New data and stale receive buffers, then start; all on that stream. The first error. */
selvage_status_t pipelined_start(pipelined_t *pipelined, int stream);
/* Ends the epoch as asked, then enqueues its checks. The error of the call that ended it. */
selvage_status_t pipelined_finish(pipelined_t *pipelined, int stream, pipelined_end_t end);
/* Work on one stream goes on after what the other one has been given so far. The host does not wait. */
void pipelined_hand_over(pipelined_t *pipelined, int from, int to);
/* Waits for both streams. */
void pipelined_settle(pipelined_t *pipelined);
/* After pipelined_settle(): every packet of every epoch so far was checked and was right. */
void pipelined_check(pipelined_t *pipelined);
/* The first epoch in which any packet was wrong; 0: none. */
uint64_t pipelined_first_wrong(const pipelined_t *pipelined);

#endif
