/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The elements of a pattern and what to make of a wrong one. Epochs are stored modulo 1023, from 1, so that zeroed
 * memory is never a valid element; the full number is found again because nothing newer than the present can arrive.
 */
#include "tools/common/smoke_pattern.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ELEMENT_BITS = 30, PACKET_BITS = 8, EPOCH_BITS = 10, EPOCHS = 1023 };

static uint64_t stored_epoch(uint64_t epoch)
{
    return (epoch - 1) % EPOCHS + 1;
}

/* Everything of an element but its number. */
static uint64_t base_word(smoke_mark_t mark)
{
    uint64_t word = (uint64_t)mark.source & 0xffff;
    word = word << EPOCH_BITS | stored_epoch(mark.epoch);
    word = word << PACKET_BITS | ((uint64_t)mark.packet & 0xff);
    return word << ELEMENT_BITS;
}

void smoke_pattern_fill(void *data, size_t bytes, smoke_mark_t mark)
{
    unsigned char *to = data;
    uint64_t word = base_word(mark);
    for (; bytes >= sizeof word; bytes -= sizeof word, to += sizeof word, word++)
        memcpy(to, &word, sizeof word);
    memcpy(to, &word, bytes);
}

static void note_damage(smoke_damage_t *damage, size_t element, uint64_t found, uint64_t wanted)
{
    if (damage->bad_elements++)
        return;
    damage->first_element = element;
    damage->found = found;
    damage->wanted = wanted;
}

bool smoke_pattern_check(const void *data, size_t bytes, smoke_mark_t mark, smoke_damage_t *damage_out)
{
    const unsigned char *from = data;
    const size_t count = bytes / sizeof(uint64_t), tail = bytes % sizeof(uint64_t);
    const uint64_t base = base_word(mark);
    smoke_damage_t damage = {0};
    uint64_t word;
    for (size_t i = 0; i < count; i++) {
        memcpy(&word, from + i * sizeof word, sizeof word);
        if (word != base + i)
            note_damage(&damage, i, word, base + i);
    }
    if (tail) {
        uint64_t wanted = 0, whole = base + count;
        memcpy(&wanted, &whole, tail);
        word = 0;
        memcpy(&word, from + count * sizeof word, tail);
        if (word != wanted)
            note_damage(&damage, count, word, wanted);
    }
    if (damage.bad_elements)
        *damage_out = damage;
    return damage.bad_elements == 0;
}

/* The newest epoch, not after the present one, that is stored as this number. */
static uint64_t full_epoch(uint64_t stored, uint64_t present)
{
    uint64_t age = (stored_epoch(present) + EPOCHS - stored) % EPOCHS;
    return age < present ? present - age : 0;
}

/* Many wrong elements that each differ in one bit are another packet, one such element is damage. */
static void describe_found(char *text, size_t text_bytes, smoke_mark_t mark, const smoke_damage_t *damage)
{
    const uint64_t found = damage->found, different = found ^ damage->wanted;
    const uint64_t stored = found >> (ELEMENT_BITS + PACKET_BITS) & ((1u << EPOCH_BITS) - 1);
    const uint64_t epoch = stored ? full_epoch(stored, mark.epoch) : 0;
    if (damage->bad_elements == 1 && (different & (different - 1)) == 0)
        snprintf(text, text_bytes, "has bit %d flipped", __builtin_ctzll(different));
    else if (epoch == 0)
        snprintf(text, text_bytes, "holds %016" PRIx64 ", wanted %016" PRIx64, found, damage->wanted);
    else
        snprintf(text, text_bytes,
                 "holds element %" PRIu64 " of packet %" PRIu64 " of epoch %" PRIu64 " from rank %" PRIu64,
                 found & ((1u << ELEMENT_BITS) - 1), found >> ELEMENT_BITS & 0xff, epoch,
                 found >> (ELEMENT_BITS + PACKET_BITS + EPOCH_BITS));
}

void smoke_pattern_describe(char *text, size_t text_bytes, smoke_mark_t mark, const smoke_damage_t *damage)
{
    char found[160];
    describe_found(found, sizeof found, mark, damage);
    snprintf(text, text_bytes, "element %zu of packet %d of epoch %" PRIu64 " from rank %d %s (%zu wrong elements)",
             damage->first_element, mark.packet, mark.epoch, mark.source, found, damage->bad_elements);
}
