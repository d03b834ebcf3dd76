/* SPDX-License-Identifier: BSD-3-Clause */
/* See tool_options.h. getopt_long does the work, with its own messages switched off. */
#define _GNU_SOURCE

#include "tools/common/tool_options.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/smoke_pattern.h"
#include "tools/common/tool_words.h"

static double unit_factor(const char *unit)
{
    static const char letters[] = "KMG";
    if (*unit == '\0' || strcmp(unit, "B") == 0)
        return 1;
    const char *letter = strchr(letters, *unit & ~0x20);
    if (!letter || (unit[1] != '\0' && strcmp(unit + 1, "iB") != 0))
        return 0;
    return ldexp(1, 10 * (int)(letter - letters + 1));
}

bool tool_option_size(const char *text, size_t *bytes_out)
{
    const char *unit = text + strspn(text, "0123456789.");
    char *end;
    const double value = strtod(text, &end) * unit_factor(unit);
    if (*text < '0' || *text > '9' || end != unit || unit_factor(unit) == 0 ||
        value > (double)SMOKE_PATTERN_BYTES_MAX || value != floor(value))
        return false;
    *bytes_out = (size_t)value;
    return true;
}

static bool take_number(const tool_option_t *option, const char *text)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end || !(value >= option->low && value <= option->high))
        return false;
    *(double *)option->value = value;
    return true;
}

static bool take_name(const tool_option_t *option, const char *word)
{
    bool *places = option->value, found = false;
    for (int i = 0; i < option->room; i++) {
        const char *name = option->name_of(i);
        if (name && (strcmp(word, "all") == 0 || strcmp(word, name) == 0))
            places[i] = found = true;
    }
    return found;
}

/* The words of a list, each as its kind wants it; empty ones are refused. */
static bool take_words(const tool_option_t *option, const char *list)
{
    const long low = (long)option->low, high = (long)option->high;
    char word[TOOL_WORD_BYTES];
    bool good = true;
    if (option->kind == TOOL_NAMES)
        memset(option->value, 0, (size_t)option->room * sizeof(bool));
    else if (option->kind == TOOL_WHOLES)
        *option->count = 0;
    else
        good = option->take(option->value, NULL);
    while (list && good) {
        good = tool_next_word(&list, word, sizeof word);
        if (good && option->kind == TOOL_NAMES)
            good = take_name(option, word);
        else if (good && option->kind == TOOL_WHOLES)
            good = *option->count < option->room &&
                   tool_whole_number(word, low, high, (int *)option->value + (*option->count)++);
        else if (good)
            good = option->take(option->value, word);
    }
    return good;
}

static int argument_of(tool_option_kind_t kind)
{
    return kind == TOOL_FLAG ? no_argument : kind == TOOL_OUTPUT ? optional_argument : required_argument;
}

static bool take_option(const tool_option_t *option, const char *text)
{
    switch (option->kind) {
    case TOOL_FLAG: return *(bool *)option->value = true;
    case TOOL_WHOLE: return tool_whole_number(text, (long)option->low, (long)option->high, option->value);
    case TOOL_NUMBER: return take_number(option, text);
    case TOOL_POSITIVE: return tool_positive_number(text, option->value);
    case TOOL_SIZE: return tool_option_size(text, option->value) && *(size_t *)option->value > 0;
    case TOOL_OUTPUT: *(const char **)option->value = text ? text : "-"; return !text || *text != '\0';
    case TOOL_TEXT: *(const char **)option->value = text; return *text != '\0';
    case TOOL_WORD: return option->take(option->value, text);
    case TOOL_WORDS:
    case TOOL_WHOLES:
    case TOOL_NAMES: return take_words(option, text);
    }
    return false;
}

bool tool_options_parse(int argc, char **argv, const tool_option_t *options, size_t count, int *first_word_out,
                        char *error_text, size_t error_bytes)
{
    enum { FIRST = 256 }; /* above all letters */
    struct option rows[TOOL_OPTIONS_MAX + 1] = {{NULL, 0, NULL, 0}};
    int letter, help = '?';
    for (size_t i = 0; i < count && i < TOOL_OPTIONS_MAX; i++) {
        rows[i] = (struct option){options[i].name, argument_of(options[i].kind), NULL, FIRST + (int)i};
        help = strcmp(options[i].name, "help") == 0 ? rows[i].val : help;
    }
    error_text[0] = '\0';
    opterr = 0;
    optind = 0; /* glibc: start afresh, so that parsing can be repeated */
    while ((letter = getopt_long(argc, argv, "h", rows, NULL)) != -1) {
        letter = letter == 'h' ? help : letter;
        if (letter == '?')
            snprintf(error_text, error_bytes, "unknown or incomplete option '%.80s'", argv[optind - 1]);
        else if (!take_option(&options[letter - FIRST], optarg))
            snprintf(error_text, error_bytes, "bad value '%.80s' of --%s", optarg ? optarg : "",
                     options[letter - FIRST].name);
        if (error_text[0])
            return false;
    }
    if (first_word_out)
        *first_word_out = optind;
    else if (optind < argc)
        snprintf(error_text, error_bytes, "unexpected argument '%.80s'", argv[optind]);
    return error_text[0] == '\0';
}
