/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strict readers of values that people type. The whole text must be the value: blanks and trailing characters are
 * refused. The decimal point is a point in every locale. Each reader returns false, and leaves the output alone, for
 * anything else. Any thread; the caller makes the message.
 */
#ifndef SV_BASE_PARSE_H
#define SV_BASE_PARSE_H

#include <stdbool.h>
#include <stdint.h>

/* A decimal whole number that fits. */
bool sv_parse_int(const char *text, int64_t *value_out);

/* A finite decimal number, exponent allowed; no hexadecimal, no "nan", no "inf". */
bool sv_parse_real(const char *text, double *value_out);

/* A number of bytes, 0 or more; K, M, G or T (binary, either case) may follow. */
bool sv_parse_bytes(const char *text, uint64_t *value_out);

/* on, yes, true, 1; off, no, false, 0. */
bool sv_parse_bool(const char *text, bool *value_out);

/* The position of text in a list such as "a|b|c". */
bool sv_parse_choice(const char *text, const char *list, int *position_out);

#endif
