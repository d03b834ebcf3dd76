/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command line of selvage-bench. Parsing is local and prints nothing, so that all ranks can parse and one can speak.
 */
#ifndef SELVAGE_BENCH_OPTIONS_H
#define SELVAGE_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "tools/common/bench_measure.h"

enum { BENCH_SIZES_MAX = 64, BENCH_ROUTES = 8, BENCH_REPETITIONS_MAX = 1000, BENCH_NCCL_TUNED_MAX = 4 };

typedef enum bench_pattern { BENCH_SHIFT, BENCH_RING, BENCH_FACES3, BENCH_FACES4, BENCH_PATTERNS } bench_pattern_t;

typedef enum bench_command {
    BENCH_EXCHANGE, BENCH_POLICIES, BENCH_HOST, BENCH_PROBE, BENCH_MESSAGES, BENCH_CREATE, BENCH_COMMANDS
} bench_command_t;

/* Whether device pointers are given to the MPI. ASK: if the MPI itself says that it can take them. */
typedef enum bench_aware { BENCH_AWARE_NO, BENCH_AWARE_YES, BENCH_AWARE_ASK } bench_aware_t;

typedef struct bench_options {
    bench_command_t command;
    size_t sizes[BENCH_SIZES_MAX];
    int size_count;
    bool patterns[BENCH_PATTERNS];
    bool routes[BENCH_ROUTES]; /* by selvage_route_t; DEFAULT, and what the library does not know, is never set */
    bool modes[BENCH_MODES];
    bool checksums[2]; /* off, on */
    double seconds;    /* spent on each figure */
    int repetitions;   /* 0: as many as fit into seconds */
    int poll_us;       /* between two polls of a host that has other work */
    bench_aware_t aware;
    const char *nccl;  /* library to open; NULL: the usual; "no": none. This and the files below point into argv */
    int nccl_channels; /* 0: as the library chooses */
    int nccl_tuned[BENCH_NCCL_TUNED_MAX], nccl_tuned_count; /* numbers of channels to try */
    const char *json, *csv, *plot, *floors, *write_floors;  /* NULL if not wanted */
    bool help, version;
} bench_options_t;

/* False if a word is not understood: error_text then says which. May permute argv. */
bool bench_options_parse(int argc, char **argv, bench_options_t *options_out, char *error_text, size_t error_bytes);

void bench_options_usage(FILE *stream);

/* For a table of options: a word of --nccl-tuned, whose value is a bench_options_t. */
bool bench_take_channels(void *value, const char *word);

const char *bench_pattern_name(bench_pattern_t pattern);
const char *bench_command_name(bench_command_t command);

#endif
