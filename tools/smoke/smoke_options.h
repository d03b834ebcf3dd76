/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command line of selvage-smoke. Parsing is local and prints nothing, so that all ranks can parse and one can speak.
 */
#ifndef SELVAGE_SMOKE_OPTIONS_H
#define SELVAGE_SMOKE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { SMOKE_SIZES_MAX = 64, SMOKE_ROUTES = 6, SMOKE_EPOCHS_MAX = 1000 };

typedef struct smoke_options {
    size_t sizes[SMOKE_SIZES_MAX];
    int size_count;
    bool sizes_given;
    bool routes[SMOKE_ROUTES]; /* by selvage_route_t; DEFAULT is never set */
    int packets;               /* per rank and direction */
    int epochs;                /* 0: by size */
    bool quick, memory, suite, no_checksum, help, version;
    double wire_gbs;  /* 0: ask the network interface */
    const char *json; /* file, "-", or NULL; points into argv */
} smoke_options_t;

/* False if a word is not understood: error_text then says which. May permute argv. */
bool smoke_options_parse(int argc, char **argv, smoke_options_t *options_out, char *error_text, size_t error_bytes);

void smoke_options_usage(FILE *stream);

/* Timed epochs for packets of this size in a job of this many ranks. */
int smoke_options_epochs(const smoke_options_t *options, size_t bytes, int ranks);

#endif
