/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the wire could carry: the peak of one host's network interface, as the user or the operating system says.
 */
#ifndef SELVAGE_SMOKE_WIRE_H
#define SELVAGE_SMOKE_WIRE_H

#include "tools/common/tool_job.h"

typedef struct smoke_wire {
    double gbs;      /* GB/s, one direction, of one host; 0: unknown */
    bool told;       /* by the command line */
    char source[96]; /* who says so */
} smoke_wire_t;

/* The slowest host's fastest interface, unless the user gave a number (0: he did not). Collective. */
void smoke_wire_find(const tool_job_t *job, double told_gbs, smoke_wire_t *wire_out);

#endif
