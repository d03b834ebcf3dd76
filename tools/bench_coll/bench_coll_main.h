/* SPDX-License-Identifier: BSD-3-Clause */
/* The command `coll` of selvage-bench, which has options of its own. */
#ifndef SELVAGE_BENCH_COLL_MAIN_H
#define SELVAGE_BENCH_COLL_MAIN_H

/* argv[0] is the word `coll`. Returns the exit status of the program. */
int bench_coll(int argc, char **argv);

#endif
