/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the heat bath's configurations, for the examples that read them. */
#ifndef QUENCHED_SAVE_H
#define QUENCHED_SAVE_H

#include "quenched_lattice.h"

/*
 * Writes the links to `path` (MILC version 5, 32-bit) and what was measured on them to `path`.info. Collective: every
 * rank writes its own rows. True on all ranks, or false on all, and the lowest rank that failed has said why.
 */
bool quenched_save(quenched_lattice_t *lattice, const char *path, double beta, const char *time_stamp,
                   const quenched_values_t *values);

#endif
