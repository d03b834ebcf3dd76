/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the copies down out of a timeline, which has one record on each line. */
#define _GNU_SOURCE

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench_tables.h"

/* The copies of one rank in one epoch; times in microseconds. */
typedef struct span {
    int rank;
    long epoch;
    double begin, end, bytes;
} span_t;

typedef struct spans {
    span_t *span; /* owned */
    int count, capacity;
} spans_t;

static bool number_of(const char *line, const char *key, double *value_out)
{
    const char *found = strstr(line, key);
    if (found)
        *value_out = strtod(found + strlen(key), NULL);
    return found != NULL;
}

/* A rank's records lie together, so the span is near the end. */
static span_t *find_span(const tool_job_t *job, spans_t *spans, int rank, long epoch)
{
    for (int i = spans->count - 1; i >= 0; i--) {
        if (spans->span[i].rank == rank && spans->span[i].epoch == epoch)
            return &spans->span[i];
    }
    if (spans->count == spans->capacity) {
        const int capacity = spans->capacity ? 2 * spans->capacity : 64;
        span_t *grown = tool_malloc(job, (size_t)capacity * sizeof *grown);
        if (spans->count)
            memcpy(grown, spans->span, (size_t)spans->count * sizeof *grown);
        free(spans->span);
        *spans = (spans_t){grown, spans->count, capacity};
    }
    spans->span[spans->count] = (span_t){.rank = rank, .epoch = epoch, .begin = -1};
    return &spans->span[spans->count++];
}

static void take_line(const tool_job_t *job, const char *line, int skip, spans_t *spans)
{
    double rank, epoch, begin, length, bytes;
    if (!strstr(line, "\"device to host\"") || !number_of(line, "\"pid\":", &rank) ||
        !number_of(line, "\"epoch\":", &epoch) || !number_of(line, "\"ts\":", &begin) ||
        !number_of(line, "\"dur\":", &length) || !number_of(line, "\"bytes\":", &bytes) || epoch <= skip)
        return;
    span_t *span = find_span(job, spans, (int)rank, (long)epoch);
    span->bytes += bytes;
    if (span->begin < 0 || begin < span->begin)
        span->begin = begin;
    if (begin + length > span->end)
        span->end = begin + length;
}

double bench_trace_d2h_gbs(const tool_job_t *job, const char *path, int skip)
{
    spans_t spans = {0};
    char *line = NULL;
    size_t line_bytes = 0;
    FILE *file = fopen(path, "r");
    while (file && getline(&line, &line_bytes, file) > 0)
        take_line(job, line, skip, &spans);
    if (file)
        fclose(file);
    double *gbs = tool_malloc(job, (size_t)spans.count * sizeof *gbs);
    int count = 0;
    for (int i = 0; i < spans.count; i++) {
        const double us = spans.span[i].end - spans.span[i].begin;
        if (us > 0)
            gbs[count++] = spans.span[i].bytes / us * 1e-3;
    }
    const double median = tool_median(gbs, count);
    free(gbs);
    free(spans.span);
    free(line);
    return median;
}
