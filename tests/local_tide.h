/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tide is a flow whose epochs follow each other on a stream without the host: data that changes, the exchange, and
 * the check of what came, all enqueued. What a packet contains follows from its place in the plan and the epoch. Needs
 * the software device, because the check is a kernel in C.
 */
#ifndef SELVAGE_TESTS_LOCAL_TIDE_H
#define SELVAGE_TESTS_LOCAL_TIDE_H

#include "local_flow.h"

/* What the checks on the stream found for one packet. */
typedef struct tide_mark {
    _Atomic uint64_t checked;     /* epochs */
    _Atomic uint64_t first_wrong; /* epoch; 0: none */
} tide_mark_t;

typedef struct tide {
    flow_t flow;
    void *stream[2];
    uint8_t **source;             /* per packet that is sent: the data of all epochs, eight bytes apart */
    tide_mark_t *mark;            /* per packet */
    _Atomic uint64_t handed;      /* epochs whose work on its stream has come to its end */
    unsigned epochs_max;
} tide_t;

/* How an epoch ends. All ranks alike. */
typedef enum tide_end { TIDE_ENQUEUE, TIDE_WAIT, TIDE_TEST } tide_end_t;

/* Flow, streams and sources, and commit; false and a failed check if something failed. */
bool tide_open(tide_t *tide, local_rank_t *self, const plan_t *plan, const selvage_exchange_params_t *params,
               unsigned epochs_max);
void tide_close(tide_t *tide);
/* New data and stale receive buffers, then start; all on that stream. The first error. */
selvage_status_t tide_start(tide_t *tide, int stream);
/* Ends the epoch as asked, then enqueues its checks. The error of the call that ended it. */
selvage_status_t tide_finish(tide_t *tide, int stream, tide_end_t end);
/* Work on one stream goes on after what the other one has been given so far. The host does not wait. */
void tide_hand_over(tide_t *tide, int from, int to);
/* Waits for both streams. */
void tide_settle(tide_t *tide);
/* After tide_settle(): every packet of every epoch so far was checked and was right. */
void tide_check(tide_t *tide);
/* The first epoch in which any packet was wrong; 0: none. */
uint64_t tide_first_wrong(const tide_t *tide);

#endif
