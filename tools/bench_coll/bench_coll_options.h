/* SPDX-License-Identifier: BSD-3-Clause */
/* Command line of `selvage-bench coll`. Parsing is local and prints nothing: all ranks can parse and one speak. */
#ifndef SELVAGE_BENCH_COLL_OPTIONS_H
#define SELVAGE_BENCH_COLL_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/bench_coll/bench_coll_case.h"
#include "tools/bench/bench_options.h"

enum { BENCH_FORCED_MAX = 16, BENCH_COLL_RUNS_MAX = 25, BENCH_WORD_BYTES = 16 };

/* Words of a list that the library is to be forced to, one after the other; none: its own choice. */
typedef struct bench_forced {
    char word[BENCH_FORCED_MAX][BENCH_WORD_BYTES];
    int count;
} bench_forced_t;

typedef struct bench_coll_options {
    bool calls[BENCH_CALLS];
    selvage_type_t types[BENCH_TYPES];
    bench_op_t ops[BENCH_OPS];
    int type_count, op_count;
    size_t min_bytes, max_bytes; /* 0: as suits the device */
    int factor;                  /* 0: as suits the device */
    int root;
    bool in_place[2], registered[2], checksum[2]; /* off, on */
    bool place_given, register_given;
    bench_forced_t algos, protos, channels;
    double seconds;
    int repetitions; /* calls of a batch; 0: as many as fit into seconds */
    int runs;
    bool host, fifo, graph;
    int fifo_calls;
    size_t fifo_bytes;
    const char *sweep; /* file for the winners; NULL: no sweep. This and the files below point into argv */
    const char *json, *csv, *plot, *floors, *write_floors;
    bench_options_t nccl; /* its three members of that name count */
    bool help, version;
} bench_coll_options_t;

/* argv[0] is the command. False if a word is not understood: error_text then says which. May permute argv. */
bool bench_coll_options_parse(int argc, char **argv, bench_coll_options_t *options_out, char *error_text,
                              size_t error_bytes);

void bench_coll_options_usage(FILE *stream);

#endif
