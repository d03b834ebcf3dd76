/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs may ask of tests/below_mpi.c, the library between Selvage and MPI that hurts messages; they find its
 * functions by dlsym(RTLD_DEFAULT). The text that arms it, or BELOW_MPI in the environment, has words with commas
 * between them:
 *
 *   kind=flip+cut    what happens: flip (a bit), many (bits), lanes32, lanes64 (bits that repeat), cut, swap, drop,
 *                    double, delay; one of those at random
 *   class=control    what is hit: all whose class begins so: control.agree, control.handshake, ..., data.payload,
 *                    data.record, setup, mail.eager, mail.payload, mail.staged, ..., reduction, announcement
 *   nth=3            the 3rd such message of the rank (delay: of those it receives), or
 *   rate=0.01        each with this probability
 *   rank=0           only what this rank sends (delay: receives)
 *   seed=7 limit=5 delay_ms=100
 *
 * BELOW_MPI_TELL: a line on standard error for each hit. BELOW_MPI_SUMS: what was sent and hit, at the end.
 */
#ifndef TESTS_BELOW_MPI_H
#define TESTS_BELOW_MPI_H

#include <stddef.h>
#include <stdint.h>

enum {
    BELOW_FLIP,
    BELOW_MANY,
    BELOW_LANES32,
    BELOW_LANES64,
    BELOW_CUT,
    BELOW_SWAP,
    BELOW_DROP,
    BELOW_DOUBLE,
    BELOW_DELAY,
    BELOW_KINDS
};
enum { BELOW_NAME_BYTES = 32 };

/* Begins anew: what was armed before is forgotten, and counts begin at 0. */
void below_mpi_arm(const char *text);
/* What the program is doing; said with each hit. */
void below_mpi_phase(const char *name);
/* Messages of this rank since it was armed, of classes that begin so. */
uint64_t below_mpi_sent(const char *class);
/* Hits since it was armed, and what was hit last. */
uint64_t below_mpi_hits(char *class_out, size_t room);

#endif
