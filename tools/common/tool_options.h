/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command lines of the tools, by a table: each option has a row that says what its value is and where it goes. Parsing
 * is local and prints nothing, so that all ranks can parse and one can speak. Every value is checked here, so that the
 * rest of a program can trust what it finds. Texts point into argv.
 */
#ifndef SELVAGE_TOOLS_TOOL_OPTIONS_H
#define SELVAGE_TOOLS_TOOL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum tool_option_kind {
    TOOL_FLAG,     /* bool: no value, set */
    TOOL_WHOLE,    /* int: from low to high */
    TOOL_NUMBER,   /* double: from low to high */
    TOOL_POSITIVE, /* double: above 0 */
    TOOL_SIZE,     /* size_t: bytes such as 4096, 4K or 1M; above 0 */
    TOOL_TEXT,     /* const char *: not empty */
    TOOL_OUTPUT,   /* const char *: a file's name after an equals sign; without one "-", standard output */
    TOOL_WORD,     /* whatever take() makes of it */
    TOOL_WORDS,    /* words with commas between: take() gets NULL first, to forget the defaults, and then each */
    TOOL_WHOLES,   /* int[room], count: numbers from low to high with commas between */
    TOOL_NAMES     /* bool[room]: words that are names of places, or all, for each that has a name */
} tool_option_kind_t;

typedef struct tool_option {
    const char *name;
    tool_option_kind_t kind;
    void *value;
    double low, high;
    bool (*take)(void *value, const char *word); /* false: the word is not understood */
    int *count;
    int room;
    const char *(*name_of)(int place); /* NULL: this place has no name */
} tool_option_t;

enum { TOOL_OPTIONS_MAX = 48, TOOL_WORD_BYTES = 32 };

/* Options (--name value, --name=value, a beginning of a name that is one name's only; -h is --help), and words between
   them, of which the first is at *first_word_out afterwards; argv may be permuted. A NULL first_word_out: there are to
   be none. False: error_text says what was not understood. */
bool tool_options_parse(int argc, char **argv, const tool_option_t *options, size_t count, int *first_word_out,
                        char *error_text, size_t error_bytes);

/* A size such as 4096, 4K, 1.5M or 2GiB; false if it is none or above the most that a test pattern has. */
bool tool_option_size(const char *text, size_t *bytes_out);

#endif
