/* SPDX-License-Identifier: BSD-3-Clause */
/* What selvage-info found, as text for people and as JSON for scripts. Local; for rank 0. False if not all is shown. */
#ifndef SELVAGE_INFO_PRINT_H
#define SELVAGE_INFO_PRINT_H

#include <stdio.h>

#include "tools/info/info_job.h"

/* With info NULL only what needs no job: version, build and settings. */
bool info_print_text(FILE *file, const info_job_t *info);
bool info_print_json(FILE *file, const info_job_t *info);

/* The value of one setting; "" if it is not known. */
void info_setting_value(const char *name, char *value, size_t value_bytes);

#endif
