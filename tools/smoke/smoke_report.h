/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a smoke run says: a table for people as it goes, a progress line on a terminal, and everything as JSON at the
 * end. Only rank 0 speaks; the calls do nothing on the others.
 */
#ifndef SELVAGE_SMOKE_REPORT_H
#define SELVAGE_SMOKE_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/smoke/smoke_run.h"

typedef struct smoke_report {
    FILE *table;          /* NULL on ranks that do not speak */
    FILE *json;           /* NULL: none; owned unless it is standard output */
    FILE *terminal;       /* for the progress line; NULL: none */
    double quiet_until_s; /* the progress line is left alone until then */
    bool progress_shown;
    bool soft;            /* of its legs the table says nothing, for they are no links */
} smoke_report_t;

/* Opens the JSON file. False, on rank 0, if it cannot be written. */
bool smoke_report_open(smoke_report_t *report, int rank, const char *json_path);
/* False if what was written could not be stored. */
bool smoke_report_close(smoke_report_t *report);

void smoke_report_head(smoke_report_t *report, const smoke_run_t *run);
void smoke_report_progress(smoke_report_t *report, const smoke_row_t *row, int epoch);
void smoke_report_row(smoke_report_t *report, const smoke_row_t *row);
/* The head of the table of collectives, or why there is none; then its lines. */
void smoke_report_suite(smoke_report_t *report, const smoke_run_t *run);
void smoke_report_call(smoke_report_t *report, const smoke_call_row_t *row);
void smoke_report_end(smoke_report_t *report, const smoke_run_t *run);

/* The whole run as one JSON object. */
void smoke_json_write(FILE *file, const smoke_run_t *run);

#endif
