/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which way a collective takes, as the library tells in its log and nowhere else: what is written to standard error
 * for a while, and the names in it. Local; one thread.
 */
#ifndef SELVAGE_BENCH_COLL_WAY_H
#define SELVAGE_BENCH_COLL_WAY_H

#include <stddef.h>
#include <stdio.h>

/* Empty and 0 where nothing is said. */
typedef struct bench_way {
    char algo[16], proto[16];
    int channels;
} bench_way_t;

typedef struct bench_ear {
    FILE *file; /* NULL: standard error is as ever */
    int before;
} bench_ear_t;

/* From here to the close, standard error goes to a file of its own, which is read into text; what is said besides
   names of ways is lost. Text may be NULL. */
void bench_ear_open(bench_ear_t *ear);
void bench_ear_close(bench_ear_t *ear, char *text, size_t text_bytes);

/* The way in the last line of the text that names an algorithm. Changes the text. */
void bench_way_read(char *text, bench_way_t *way_out);

#endif
