/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Of the library between Selvage and MPI (below_mpi.c): what it is told to do, what messages are, which of them are
 * hit, and what is done to those. What is sent in place of something else is never freed. Under the
 * lock of below_parts.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "below_parts.h"
#include "comm/comm_control.h"
#include "message/message_engine.h"

below_state_t below = {.lock = PTHREAD_MUTEX_INITIALIZER, .rank = -1, .only_rank = -1, .limit = UINT64_MAX};

static const char *const kind_names[BELOW_KINDS] = {"flip", "many", "lanes32", "lanes64", "cut",
                                                    "swap", "drop", "double",  "delay"};

const char *below_kind_name(int kind)
{
    return kind_names[kind];
}

static uint64_t draw(uint64_t below_this)
{
    below.random ^= below.random << 13;
    below.random ^= below.random >> 7;
    below.random ^= below.random << 17;
    return below_this ? (below.random >> 11) % below_this : 0;
}

/* --- what is to be done ------------------------------------------------------------------------------------------- */

static void read_kinds(const char *text)
{
    for (int i = 0; i < BELOW_KINDS; i++) {
        const char *at = strstr(text, kind_names[i]);
        const size_t length = strlen(kind_names[i]);
        if (at && (at[length] == '+' || at[length] == '\0') && (at == text || at[-1] == '+'))
            below.kinds |= 1u << i;
    }
}

static void read_word(char *word)
{
    char *value = strchr(word, '=');
    if (!value)
        return;
    *value++ = '\0';
    if (strcmp(word, "kind") == 0)
        read_kinds(value);
    else if (strcmp(word, "class") == 0)
        snprintf(below.class, sizeof below.class, "%s", value);
    else if (strcmp(word, "nth") == 0)
        below.nth = strtoull(value, NULL, 10);
    else if (strcmp(word, "rank") == 0)
        below.only_rank = atoi(value);
    else if (strcmp(word, "rate") == 0)
        below.rate = atof(value);
    else if (strcmp(word, "seed") == 0)
        below.random = strtoull(value, NULL, 10);
    else if (strcmp(word, "limit") == 0)
        below.limit = strtoull(value, NULL, 10);
    else if (strcmp(word, "delay_ms") == 0)
        below.delay_s = atof(value) / 1000;
}

void below_arm(const char *text)
{
    char copy[256], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    below.kinds = 0;
    below.nth = below.seen_out = below.seen_in = below.hits = 0;
    below.limit = UINT64_MAX;
    below.only_rank = -1;
    below.rate = 0;
    below.delay_s = 0.1;
    below.random = 1;
    below.holds = false;
    below.class[0] = below.last_class[0] = '\0';
    for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
        read_word(word);
    below.random = (below.random + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)(below.rank + 2) << 40;
    for (int i = 0; i < 8; i++)
        (void)draw(0);
    for (int i = 0; i < below.nclasses; i++)
        below.class_of[i].sent = 0;
}

void below_mpi_arm(const char *text)
{
    pthread_mutex_lock(&below.lock);
    below_begin();
    below_arm(text);
    pthread_mutex_unlock(&below.lock);
}

void below_mpi_phase(const char *name)
{
    pthread_mutex_lock(&below.lock);
    snprintf(below.phase, sizeof below.phase, "%s", name);
    pthread_mutex_unlock(&below.lock);
}

static bool is_wanted(const char *class)
{
    return strncmp(class, below.class, strlen(below.class)) == 0;
}

uint64_t below_mpi_sent(const char *class)
{
    uint64_t sum = 0;
    pthread_mutex_lock(&below.lock);
    for (int i = 0; i < below.nclasses; i++)
        if (strncmp(below.class_of[i].name, class, strlen(class)) == 0)
            sum += below.class_of[i].sent;
    pthread_mutex_unlock(&below.lock);
    return sum;
}

uint64_t below_mpi_hits(char *class_out, size_t room)
{
    pthread_mutex_lock(&below.lock);
    const uint64_t hits = below.hits;
    snprintf(class_out, room, "%s", below.last_class);
    pthread_mutex_unlock(&below.lock);
    return hits;
}

/* --- what a message is -------------------------------------------------------------------------------------------- */

static const char *control_name(uint64_t type)
{
    static const char *const names[] = {"other", "agree", "hello", "ack", "verdict", "ask", "query", "fail"};
    return type < sizeof names / sizeof names[0] ? names[type] : "other";
}

static int add_part(below_part_t *part, int n, size_t from, size_t to, const char *format, const char *name)
{
    if (from >= to && to != 0)
        return n;
    part[n].from = from;
    part[n].to = to;
    snprintf(part[n].class, sizeof part[n].class, format, name);
    return n + 1;
}

static int classify_desc(const below_message_t *m, below_part_t *part)
{
    static const char *const names[] = {"other", "eager", "rts", "late", "cts", "done",  "verdict",
                                        "ack",   "again", "box", "deny", "bye", "seqack"};
    sv_ctrl_header_t header;
    if (m->tag != 0 || m->bytes < sizeof header)
        return add_part(part, 0, 0, m->bytes, "mail.%s", "staged");
    memcpy(&header, m->buf, sizeof header);
    const size_t known = header.kind < sizeof names / sizeof names[0] ? header.kind : 0;
    int n = add_part(part, 0, 0, sizeof header, "mail.%s", names[known]);
    return add_part(part, n, sizeof header, m->bytes, "mail.%s", "payload");
}

static int classify(const below_message_t *m, below_part_t *part)
{
    sv_wire_control_t control;
    size_t payload;
    switch (m->channel) {
    case SV_WIRE_DATA:
        payload = m->bytes >= SV_RECORD_BYTES ? m->bytes - SV_RECORD_BYTES : 0;
        return add_part(part, payload ? add_part(part, 0, 0, payload, "data.%s", "payload") : 0, payload, m->bytes,
                        "data.%s", "record");
    case SV_WIRE_SETUP:
        return add_part(part, 0, 0, m->bytes, "setup%s", "");
    case SV_WIRE_MESSAGE:
        return classify_desc(m, part);
    case SV_WIRE_MPI_CONTROL:
        memset(&control, 0, sizeof control);
        memcpy(&control, m->buf, m->bytes < sizeof control ? m->bytes : sizeof control);
        return add_part(part, 0, 0, m->bytes, "control.%s", control_name(control.word[0]));
    case AGREEMENT:
        return add_part(part, 0, 0, m->bytes, "reduction%s", "");
    case LETTER:
        return add_part(part, 0, 0, m->bytes, "letter%s", "");
    default:
        return 0;
    }
}

int below_find_class(const char *name)
{
    int at = 0;
    while (at < below.nclasses && strcmp(below.class_of[at].name, name) != 0)
        at++;
    if (at == CLASSES_MAX)
        return CLASSES_MAX - 1;
    if (at == below.nclasses) {
        below.nclasses++;
        snprintf(below.class_of[at].name, sizeof below.class_of[at].name, "%s", name);
    }
    return at;
}

/* Whether this message is hit, and in which part. With the lock held. */
int below_choose(const below_message_t *m, unsigned kinds, uint64_t *seen, below_part_t *part_out)
{
    below_part_t part[PARTS], wanted[PARTS];
    const int n = classify(m, part);
    int nwanted = 0, kind;
    for (int i = 0; i < n; i++) {
        if (seen == &below.seen_out)
            below.class_of[below_find_class(part[i].class)].sent++;
        if (is_wanted(part[i].class))
            wanted[nwanted++] = part[i];
    }
    if (!kinds || nwanted == 0 || (below.only_rank >= 0 && below.only_rank != below.rank))
        return -1;
    ++*seen;
    const bool hit = below.nth ? *seen == below.nth : (double)draw(1u << 30) < below.rate * (double)(1u << 30);
    if (!hit || below.hits >= below.limit)
        return -1;
    do
        kind = (int)draw(BELOW_KINDS);
    while (!(kinds & 1u << kind));
    *part_out = wanted[draw((uint64_t)nwanted)];
    below.hits++;
    below.class_of[below_find_class(part_out->class)].hits[kind]++;
    memcpy(below.last_class, part_out->class, sizeof below.last_class);
    char line[200];
    int length = snprintf(line, sizeof line, "below: rank %d: %s of %s (%zu bytes, rank %d, message %llu)%s%s\n",
                          below.rank, kind_names[kind], part_out->class, m->bytes, m->peer, (unsigned long long)*seen,
                          below.phase[0] ? ", " : "", below.phase);
    if (getenv("BELOW_MPI_TELL") && write(STDERR_FILENO, line, (size_t)length) < 0)
        return kind;
    return kind;
}

/* --- damage ------------------------------------------------------------------------------------------------------- */

/* Bits that repeat at the distance of so many lanes, of 4 or 8 bytes: twice, or all through. */
static void flip_lanes(uint8_t *bytes, size_t n, size_t lanes)
{
    size_t stride = lanes * (draw(2) ? 4 : 8);
    const uint8_t bit = (uint8_t)(1u << draw(8));
    const bool twice = draw(2);
    while (stride >= n && stride > 1)
        stride /= 2;
    size_t at = draw(n > stride ? n - stride : 1);
    bytes[at] ^= bit;
    for (at += stride; at < n; at += stride) {
        bytes[at] ^= bit;
        if (twice)
            return;
    }
}

void below_damage(uint8_t *bytes, size_t n, int kind)
{
    if (n == 0)
        return;
    bytes[draw(n)] ^= (uint8_t)(kind == BELOW_FLIP || kind == BELOW_MANY ? 1u << draw(8) : 0);
    if (kind == BELOW_MANY)
        for (uint64_t i = 2 * draw(30) + 2; i > 0; i--) /* an odd number in all: they never undo each other */
            bytes[draw(n)] ^= (uint8_t)(1u << draw(8));
    if (kind == BELOW_LANES32 || kind == BELOW_LANES64)
        flip_lanes(bytes, n, kind == BELOW_LANES32 ? 32 : 64);
}

static void *copy_of(const void *from, size_t bytes)
{
    void *copy = malloc(bytes ? bytes : 1);
    if (!copy)
        abort();
    return memcpy(copy, from, bytes);
}

/* The second of two that are swapped: they change places, or where they have tags of their own, bytes. */
static void swap_with_held(const below_message_t *m, below_fate_t *fate)
{
    below_message_t held = below.held;
    below.holds = false;
    fate->also = true;
    if (held.tag != m->tag) {
        const size_t common = held.bytes < m->bytes ? held.bytes : m->bytes;
        uint8_t *mine = copy_of(m->buf, m->bytes), *other = copy_of(held.buf, held.bytes);
        memcpy(mine, held.buf, common);
        memcpy(other, m->buf, common);
        fate->buf = mine;
        held.buf = other;
    }
    fate->following = held;
}

void below_decide(const below_message_t *m, below_fate_t *fate)
{
    below_part_t part;
    *fate = (below_fate_t){.buf = m->buf, .bytes = m->bytes};
    pthread_mutex_lock(&below.lock);
    below_begin();
    const unsigned here = m->channel == LETTER ? 0 : 1u << BELOW_DELAY; /* the others are late where they arrive */
    const int kind = below_choose(m, below.kinds & ~here, &below.seen_out, &part);
    if (kind < 0 && below.holds && below.held.comm == m->comm && below.held.peer == m->peer) {
        swap_with_held(m, fate);
    } else if (kind == BELOW_CUT) {
        fate->buf = copy_of(m->buf, m->bytes);
        fate->bytes = draw(m->bytes);
    } else if (kind == BELOW_SWAP || kind == BELOW_DROP) {
        fate->lost = true;
        if (kind == BELOW_SWAP) {
            below.holds = true;
            below.held = *m;
            below.held.buf = copy_of(m->buf, m->bytes);
        }
    } else if (kind == BELOW_DOUBLE) {
        fate->also = true;
        fate->following = *m;
        fate->following.buf = copy_of(m->buf, m->bytes);
    } else if (kind == BELOW_DELAY) {
        fate->late_s = below.delay_s;
    } else if (kind >= 0) {
        uint8_t *copy = copy_of(m->buf, m->bytes);
        below_damage(copy + part.from, part.to - part.from, kind);
        fate->buf = copy;
    }
    pthread_mutex_unlock(&below.lock);
    if (fate->late_s > 0)
        usleep((useconds_t)(fate->late_s * 1e6));
}
