/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test patterns in which every 8-byte element says where it came from: source rank (16 bits), epoch (10), packet (8)
 * and element number (30). A wrong element therefore names the packet it belongs to. Pure functions, any alignment
 * and length; the last, partial element is checked byte by byte.
 */
#ifndef SELVAGE_SMOKE_PATTERN_H
#define SELVAGE_SMOKE_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SMOKE_PATTERN_PACKETS_MAX = 256 };
/* Largest packet whose elements can all be numbered: 8 GiB. */
#define SMOKE_PATTERN_BYTES_MAX ((size_t)8 << 30)

/* What a packet's elements say. Epochs count from 1 over the whole run, so that no two fills look alike. */
typedef struct smoke_mark {
    int source;
    int packet;
    uint64_t epoch;
} smoke_mark_t;

/* What was found in a packet that is not as it should be. */
typedef struct smoke_damage {
    size_t bad_elements;
    size_t first_element;
    uint64_t found, wanted; /* of the first bad element; a partial one is padded with zeros */
} smoke_damage_t;

void smoke_pattern_fill(void *data, size_t bytes, smoke_mark_t mark);

/* True if every byte is right; else *damage_out says what is not. */
bool smoke_pattern_check(const void *data, size_t bytes, smoke_mark_t mark, smoke_damage_t *damage_out);

/* One sentence about the damage: the element, and whose element is there instead. */
void smoke_pattern_describe(char *text, size_t text_bytes, smoke_mark_t mark, const smoke_damage_t *damage);

#endif
