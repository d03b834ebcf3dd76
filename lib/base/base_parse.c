/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strict readers. The standard library does the arithmetic; what it would forgive (blanks, hexadecimal, "inf", text
 * after the number, the locale's decimal comma) is refused before or after. The calling thread's locale is swapped
 * for "C" while a real number is read, and put back.
 */
#include "base/base_parse.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_made_of(const char *text, const char *allowed)
{
    return text[0] != '\0' && text[strspn(text, allowed)] == '\0';
}

bool sv_parse_int(const char *text, int64_t *value_out)
{
    if (!is_made_of(text, "+-0123456789"))
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0')
        return false;
    *value_out = value;
    return true;
}

static double read_real(const char *text, char **end)
{
    locale_t neutral = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!neutral)
        return strtod(text, end);
    locale_t callers = uselocale(neutral);
    double value = strtod(text, end);
    uselocale(callers);
    freelocale(neutral);
    return value;
}

bool sv_parse_real(const char *text, double *value_out)
{
    if (!is_made_of(text, "+-.eE0123456789"))
        return false;
    char *end;
    double value = read_real(text, &end);
    if (end == text || *end != '\0' || !isfinite(value))
        return false;
    *value_out = value;
    return true;
}

/* log2 of what a suffix multiplies by; -1: no such suffix. */
static int suffix_shift(const char *suffix)
{
    static const char suffixes[] = "KkMmGgTt";
    if (suffix[0] == '\0')
        return 0;
    const char *found = strchr(suffixes, suffix[0]);
    if (!found || suffix[1] != '\0')
        return -1;
    return 10 * (int)((found - suffixes) / 2 + 1);
}

bool sv_parse_bytes(const char *text, uint64_t *value_out)
{
    if (text[0] < '0' || text[0] > '9')
        return false;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    int shift = suffix_shift(end);
    if (errno != 0 || shift < 0 || value > UINT64_MAX >> shift)
        return false;
    *value_out = (uint64_t)value << shift;
    return true;
}

bool sv_parse_bool(const char *text, bool *value_out)
{
    int position;
    if (!sv_parse_choice(text, "off|on|no|yes|false|true|0|1", &position))
        return false;
    *value_out = position % 2 == 1;
    return true;
}

bool sv_parse_choice(const char *text, const char *list, int *position_out)
{
    size_t length = strlen(text);
    for (int position = 0;; position++) {
        size_t word = strcspn(list, "|");
        if (word == length && strncmp(list, text, word) == 0) {
            *position_out = position;
            return true;
        }
        if (list[word] == '\0')
            return false;
        list += word + 1;
    }
}
