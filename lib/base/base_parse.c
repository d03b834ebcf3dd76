/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strict readers. The standard library does the arithmetic. What it would forgive is refused before or after: blanks,
 * hexadecimal, "inf", text after the number, the locale's decimal comma. While a real number is read, the calling
 * thread has the locale "C".
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

bool sv_parse_real(const char *text, double *value_out)
{
    if (!is_made_of(text, "+-.eE0123456789"))
        return false;
    char *end;
    locale_t neutral = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t callers = neutral ? uselocale(neutral) : (locale_t)0;
    double value = strtod(text, &end);
    if (neutral) {
        uselocale(callers);
        freelocale(neutral);
    }
    if (end == text || *end != '\0' || !isfinite(value))
        return false;
    *value_out = value;
    return true;
}

bool sv_parse_bytes(const char *text, uint64_t *value_out)
{
    static const char suffixes[] = "KkMmGgTt"; /* each pair multiplies by 2^10 more */
    if (text[0] < '0' || text[0] > '9')
        return false;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    int shift = 0;
    if (*end != '\0') {
        const char *suffix = strchr(suffixes, *end);
        if (!suffix || end[1] != '\0')
            return false;
        shift = 10 * (int)((suffix - suffixes) / 2 + 1);
    }
    if (errno != 0 || value > UINT64_MAX >> shift)
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
