/* SPDX-License-Identifier: BSD-3-Clause */
/* Words and numbers of command lines, for the option parsers of the tools. False: the text is not one. */
#ifndef SELVAGE_TOOLS_TOOL_WORDS_H
#define SELVAGE_TOOLS_TOOL_WORDS_H

#include <stdbool.h>
#include <stddef.h>

bool tool_whole_number(const char *text, long low, long high, int *value_out);
bool tool_positive_number(const char *text, double *value_out);

/* Copies the first of *list's comma-separated words and moves *list after it; NULL after the last one. False for a
   word that is empty or does not fit. */
bool tool_next_word(const char **list, char *word, size_t bytes);

#endif
