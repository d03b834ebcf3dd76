/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls of an exchange on a stream that is being captured (pipe_graph.c). They begin no epoch: they enqueue what
 * will be one whenever the graph is launched. The device numbers it (pipe_epoch.h). Application thread.
 */
#ifndef SV_PIPE_GRAPH_H
#define SV_PIPE_GRAPH_H

#include "pipeline/pipe_exchange.h"

/* ERR_UNSUPPORTED for packets that need the host, with the first one named; ERR_STATE out of order; ERR_DEVICE. */
selvage_status_t sv_graph_start(selvage_exchange_t *x, void *stream);
selvage_status_t sv_graph_enqueue_wait(selvage_exchange_t *x, void *stream);
selvage_status_t sv_graph_run(selvage_exchange_t *x, void *stream);

#endif
