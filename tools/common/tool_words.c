/* SPDX-License-Identifier: BSD-3-Clause */
/* See tool_words.h. Pure functions of their arguments. */
#include "tools/common/tool_words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool tool_whole_number(const char *text, long low, long high, int *value_out)
{
    char *end;
    const long value = strtol(text, &end, 10);
    if (end == text || *end || value < low || value > high)
        return false;
    *value_out = (int)value;
    return true;
}

bool tool_positive_number(const char *text, double *value_out)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end || !(value > 0) || !isfinite(value))
        return false;
    *value_out = value;
    return true;
}

bool tool_next_word(const char **list, char *word, size_t bytes)
{
    const size_t length = strcspn(*list, ",");
    if (length == 0 || length >= bytes)
        return false;
    memcpy(word, *list, length);
    word[length] = '\0';
    *list = (*list)[length] ? *list + length + 1 : NULL;
    return true;
}
