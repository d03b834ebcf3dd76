/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tools share of writing JSON. */
#ifndef SELVAGE_TOOL_JSON_H
#define SELVAGE_TOOL_JSON_H

#include <stdio.h>

/* The text in quotes, with everything escaped that must be. */
void tool_json_text(FILE *file, const char *text);

#endif
