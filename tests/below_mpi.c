/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded between Selvage and MPI: it has MPI's own names (PMPI_...), counts what Selvage sends by what it is, and
 * hurts some of it, as a network, a driver or a host's memory would, where nothing above can know of it. Messages of
 * the library are known by who calls (all that libselvage sends is its own), announcements of the drop-in by their
 * length and what repeats in them; what the program sends is never touched. MPI's inner traffic does not pass here.
 *
 * Damage, cuts, swaps, losses and doubles are done where a message is sent, delays where it is received: its request is
 * said to be open for a while longer. What is sent in place of something else is never freed, MPI may still read it.
 * What is to be done says BELOW_MPI, or the program by below_mpi_arm(): see below_mpi.h. Any thread; one lock.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for RTLD_NEXT and dl_iterate_phdr */
#endif
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "below_mpi.h"
#include "interpose/drop.h"
#include "message/message_engine.h"
#include "pipeline/pipe_control.h"
#include "wire/wire_mpi_private.h"

enum { CLASSES_MAX = 64, COMMS_MAX = 256, BUCKETS = 256, PARTS = 2, AGREEMENT = SV_WIRE_MPI_COMMS, LETTER };
enum { NOT_OURS = -1, NOTICE_BYTES = 48 /* a copy of what a letter says */ };

static const char *const kind_names[BELOW_KINDS] = {"flip", "many", "lanes32", "lanes64", "cut",
                                                    "swap", "drop", "double",  "delay"};

/* A part of a message that can be hurt by itself. */
typedef struct below_part {
    char class[BELOW_NAME_BYTES];
    size_t from, to;
} below_part_t;

typedef struct below_message {
    const void *buf;
    size_t bytes;
    int peer, tag, channel;
    MPI_Comm comm;
} below_message_t;

/* A receive, or a reduction, that is open. */
typedef struct below_open {
    struct below_open *next;
    MPI_Request request;
    below_message_t message;
    bool judged;
    double due_s; /* 0: as soon as it is there */
} below_open_t;

static struct {
    pthread_mutex_t lock;
    unsigned kinds;
    char class[BELOW_NAME_BYTES], phase[BELOW_NAME_BYTES];
    int rank, only_rank;
    double rate, delay_s;
    uint64_t nth, limit, random, seen_out, seen_in, hits;
    char last_class[BELOW_NAME_BYTES];
    struct {
        char name[BELOW_NAME_BYTES];
        uint64_t sent, hits[BELOW_KINDS];
    } class_of[CLASSES_MAX];
    int nclasses;
    struct {
        MPI_Comm comm;
        int channel;
    } comm_of[COMMS_MAX];
    int ncomms, made;
    below_open_t *open[BUCKETS];
    bool holds;
    below_message_t held; /* half a swap; its bytes are ours */
    uintptr_t low, high;  /* where libselvage lies */
} below = {.lock = PTHREAD_MUTEX_INITIALIZER, .rank = -1, .only_rank = -1, .limit = UINT64_MAX};

/* The function of MPI that has this name. */
#define BEYOND(name) \
    static __typeof__(&name) beyond; \
    if (!beyond) { \
        void *found = dlsym(RTLD_NEXT, #name); \
        memcpy(&beyond, &found, sizeof found); \
    }

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
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

static void arm(const char *text)
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

/* The library's code: all that it sends is its own. */
static int find_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    if (!strstr(info->dlpi_name, "libselvage.so"))
        return 0;
    below.low = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const uintptr_t from = info->dlpi_addr + part->p_vaddr, to = from + part->p_memsz;
        if (part->p_type != PT_LOAD)
            continue;
        below.low = from < below.low ? from : below.low;
        below.high = to > below.high ? to : below.high;
    }
    return 1;
}

/* With the lock held: the first call that comes finds out who is who. */
static void begin(void)
{
    if (below.rank >= 0)
        return;
    dl_iterate_phdr(find_library, NULL);
    PMPI_Comm_rank(MPI_COMM_WORLD, &below.rank);
    const char *text = getenv("BELOW_MPI");
    arm(text ? text : "");
}

static bool is_library(const void *caller)
{
    if (!below.high) {
        pthread_mutex_lock(&below.lock);
        begin();
        pthread_mutex_unlock(&below.lock);
    }
    return (uintptr_t)caller >= below.low && (uintptr_t)caller < below.high;
}

#define IS_LIBRARY() is_library(__builtin_return_address(0))

void below_mpi_arm(const char *text)
{
    pthread_mutex_lock(&below.lock);
    begin();
    arm(text);
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

/* Communicators of the library, in the order in which every wire makes them. */
static void learn_comm(MPI_Comm comm)
{
    int at = 0;
    pthread_mutex_lock(&below.lock);
    begin();
    while (at < below.ncomms && below.comm_of[at].comm != comm)
        at++;
    if (at == below.ncomms && below.ncomms < COMMS_MAX)
        below.ncomms++;
    if (at < COMMS_MAX) {
        below.comm_of[at].comm = comm;
        below.comm_of[at].channel = below.made++ % SV_WIRE_MPI_COMMS;
    }
    pthread_mutex_unlock(&below.lock);
}

static int channel_of(MPI_Comm comm)
{
    for (int i = 0; i < below.ncomms; i++)
        if (below.comm_of[i].comm == comm)
            return below.comm_of[i].channel;
    return NOT_OURS;
}

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

static int classify_mail(const below_message_t *m, below_part_t *part)
{
    static const char *const names[] = {"other", "eager",   "rts", "late",  "cts", "done", "verdict",
                                        "ack",   "again",   "box", "deny",  "bye", "byeack"};
    sv_letter_t letter;
    if (m->tag != 0 || m->bytes < sizeof letter)
        return add_part(part, 0, 0, m->bytes, "mail.%s", "staged");
    memcpy(&letter, m->buf, sizeof letter);
    const size_t known = letter.kind < sizeof names / sizeof names[0] ? letter.kind : 0;
    int n = add_part(part, 0, 0, sizeof letter, "mail.%s", names[known]);
    return add_part(part, n, sizeof letter, m->bytes, "mail.%s", "payload");
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
        return classify_mail(m, part);
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

static int find_class(const char *name)
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
static int choose(const below_message_t *m, unsigned kinds, uint64_t *seen, below_part_t *part_out)
{
    below_part_t part[PARTS], wanted[PARTS];
    const int n = classify(m, part);
    int nwanted = 0, kind;
    for (int i = 0; i < n; i++) {
        if (seen == &below.seen_out)
            below.class_of[find_class(part[i].class)].sent++;
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
    below.class_of[find_class(part_out->class)].hits[kind]++;
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

static void damage(uint8_t *bytes, size_t n, int kind)
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

/* What becomes of a message: it itself or another, or nothing, and another one behind it. */
typedef struct below_fate {
    const void *buf;
    size_t bytes;
    bool lost, also;
    double late_s;
    below_message_t behind;
} below_fate_t;

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
    fate->behind = held;
}

static void decide(const below_message_t *m, below_fate_t *fate)
{
    below_part_t part;
    *fate = (below_fate_t){.buf = m->buf, .bytes = m->bytes};
    pthread_mutex_lock(&below.lock);
    begin();
    const unsigned here = m->channel == LETTER ? 0 : 1u << BELOW_DELAY; /* the others are late where they arrive */
    const int kind = choose(m, below.kinds & ~here, &below.seen_out, &part);
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
        fate->behind = *m;
        fate->behind.buf = copy_of(m->buf, m->bytes);
    } else if (kind == BELOW_DELAY) {
        fate->late_s = below.delay_s;
    } else if (kind >= 0) {
        uint8_t *copy = copy_of(m->buf, m->bytes);
        damage(copy + part.from, part.to - part.from, kind);
        fate->buf = copy;
    }
    pthread_mutex_unlock(&below.lock);
    if (fate->late_s > 0)
        usleep((useconds_t)(fate->late_s * 1e6));
}

/* --- sends -------------------------------------------------------------------------------------------------------- */

/* Fills in what is sent, if it is Selvage's. */
static bool is_ours(bool library, const void *buf, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                    below_message_t *m)
{
    MPI_Count each = 0;
    uint64_t number;
    if (peer < 0 || !buf || PMPI_Type_size_x(type, &each) != MPI_SUCCESS)
        return false;
    *m = (below_message_t){.buf = buf, .bytes = (size_t)(each * count), .peer = peer, .tag = tag, .comm = comm};
    if (library) {
        pthread_mutex_lock(&below.lock);
        m->channel = channel_of(comm);
        pthread_mutex_unlock(&below.lock);
        return m->channel != NOT_OURS;
    }
    if (m->bytes != SV_DROP_LETTER_BYTES)
        return false;
    m->channel = LETTER; /* the same notice again and again, beginning with a number that is not zero */
    memcpy(&number, buf, sizeof number);
    return number && memcmp(buf, (const char *)buf + NOTICE_BYTES, SV_DROP_LETTER_BYTES - NOTICE_BYTES) == 0;
}

static void send_behind(const below_fate_t *fate)
{
    BEYOND(PMPI_Isend)
    const below_message_t *m = &fate->behind;
    MPI_Request request;
    if (fate->also && beyond(m->buf, (int)m->bytes, MPI_BYTE, m->peer, m->tag, m->comm, &request) == MPI_SUCCESS)
        PMPI_Request_free(&request);
}

#define NONBLOCKING(name) \
    int name(const void *buf, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request) \
    { \
        BEYOND(name) \
        below_message_t m; \
        below_fate_t fate; \
        if (!is_ours(IS_LIBRARY(), buf, count, type, peer, tag, comm, &m)) \
            return beyond(buf, count, type, peer, tag, comm, request); \
        decide(&m, &fate); \
        int code = beyond(fate.buf, (int)fate.bytes, MPI_BYTE, fate.lost ? MPI_PROC_NULL : peer, tag, comm, request); \
        send_behind(&fate); \
        return code; \
    }

#define BLOCKING(name) \
    int name(const void *buf, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) \
    { \
        BEYOND(name) \
        below_message_t m; \
        below_fate_t fate; \
        if (!is_ours(IS_LIBRARY(), buf, count, type, peer, tag, comm, &m)) \
            return beyond(buf, count, type, peer, tag, comm); \
        decide(&m, &fate); \
        int code = beyond(fate.buf, (int)fate.bytes, MPI_BYTE, fate.lost ? MPI_PROC_NULL : peer, tag, comm); \
        send_behind(&fate); \
        return code; \
    }

NONBLOCKING(PMPI_Isend)
NONBLOCKING(PMPI_Issend)
NONBLOCKING(PMPI_Irsend)
BLOCKING(PMPI_Send)
BLOCKING(PMPI_Ssend)
BLOCKING(PMPI_Rsend)

/* --- receives and reductions -------------------------------------------------------------------------------------- */

static below_open_t **place_of_open(MPI_Request request)
{
    uint64_t word = 0;
    memcpy(&word, &request, sizeof request);
    below_open_t **at = &below.open[(word * UINT64_C(0x9e3779b97f4a7c15)) >> 56];
    while (*at && (*at)->request != request)
        at = &(*at)->next;
    return at;
}

static void remember(MPI_Request request, const below_message_t *m)
{
    pthread_mutex_lock(&below.lock);
    below_open_t **at = place_of_open(request), *next = *at ? (*at)->next : NULL;
    if (!*at)
        *at = malloc(sizeof **at);
    if (*at)
        **at = (below_open_t){.next = next, .request = request, .message = *m};
    pthread_mutex_unlock(&below.lock);
}

static void forget(MPI_Request request)
{
    pthread_mutex_lock(&below.lock);
    below_open_t **at = place_of_open(request), *gone = *at;
    if (gone)
        *at = gone->next;
    free(gone);
    pthread_mutex_unlock(&below.lock);
}

int PMPI_Irecv(void *buf, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request)
{
    BEYOND(PMPI_Irecv)
    const bool library = IS_LIBRARY();
    const int code = beyond(buf, count, type, peer, tag, comm, request);
    if (library && code == MPI_SUCCESS) {
        below_message_t m = {.buf = buf, .bytes = (size_t)count, .peer = peer, .tag = tag, .comm = comm};
        pthread_mutex_lock(&below.lock);
        m.channel = channel_of(comm);
        pthread_mutex_unlock(&below.lock);
        remember(*request, &m);
    }
    return code;
}

int PMPI_Iallreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                    MPI_Request *request)
{
    BEYOND(PMPI_Iallreduce)
    const bool library = IS_LIBRARY();
    MPI_Count each = 0;
    const int code = beyond(sendbuf, recvbuf, count, type, op, comm, request);
    PMPI_Type_size_x(type, &each);
    if (library && code == MPI_SUCCESS)
        remember(*request, &(below_message_t){
                               .buf = recvbuf, .bytes = (size_t)(each * count), .comm = comm, .channel = AGREEMENT});
    return code;
}

/* A message or a result has come: whether it is late, and damage to results, which nobody sent. */
static bool is_late(below_open_t *open, const MPI_Status *status)
{
    below_part_t part;
    below_message_t m = open->message;
    int bytes = 0;
    if (!open->judged && m.channel != NOT_OURS) {
        open->judged = true;
        if (m.channel != AGREEMENT) {
            PMPI_Get_count(status, MPI_BYTE, &bytes);
            m.bytes = bytes > 0 ? (size_t)bytes : 0;
            m.peer = status->MPI_SOURCE;
            m.tag = status->MPI_TAG;
        } else {
            below.class_of[find_class("reduction")].sent++;
        }
        const unsigned of_results = 1u << BELOW_FLIP | 1u << BELOW_MANY | 1u << BELOW_DELAY;
        const unsigned able = m.channel == AGREEMENT ? of_results : 1u << BELOW_DELAY;
        const int kind = choose(&m, below.kinds & able, &below.seen_in, &part);
        if (kind == BELOW_DELAY)
            open->due_s = seconds_now() + below.delay_s;
        else if (kind >= 0)
            damage((uint8_t *)(uintptr_t)m.buf, m.bytes, kind);
    }
    return open->due_s > seconds_now();
}

int PMPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    BEYOND(PMPI_Test)
    const MPI_Request given = *request;
    MPI_Status seen;
    int done = 0, cancelled = 0;
    bool late = false;
    if (given == MPI_REQUEST_NULL || !IS_LIBRARY())
        return beyond(request, flag, status);
    pthread_mutex_lock(&below.lock);
    below_open_t *open = below.kinds ? *place_of_open(given) : NULL;
    pthread_mutex_unlock(&below.lock);
    if (open && PMPI_Request_get_status(given, &done, &seen) == MPI_SUCCESS) {
        if (done)
            PMPI_Test_cancelled(&seen, &cancelled);
        pthread_mutex_lock(&below.lock);
        late = !done || (!cancelled && is_late(open, &seen));
        pthread_mutex_unlock(&below.lock);
    }
    if (late) { /* what is not there yet must not come between the two questions */
        *flag = 0;
        return MPI_SUCCESS;
    }
    const int code = beyond(request, flag, status);
    if (code != MPI_SUCCESS || *flag)
        forget(given);
    return code;
}

/* --- communicators ------------------------------------------------------------------------------------------------ */

int PMPI_Comm_idup(MPI_Comm comm, MPI_Comm *copy, MPI_Request *request)
{
    BEYOND(PMPI_Comm_idup)
    const bool library = IS_LIBRARY();
    const int code = beyond(comm, copy, request);
    (void)library; /* learnt from its error handler: the handle need not be there yet */
    return code;
}

int PMPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler)
{
    BEYOND(PMPI_Comm_set_errhandler)
    if (IS_LIBRARY())
        learn_comm(comm);
    return beyond(comm, handler);
}

/* What was sent and hit, by what it was. */
__attribute__((destructor)) static void tell_sums(void)
{
    if (!getenv("BELOW_MPI_SUMS") || below.rank < 0)
        return;
    for (int i = 0; i < below.nclasses; i++) {
        fprintf(stderr, "below: rank %d: sent %s %llu", below.rank, below.class_of[i].name,
                (unsigned long long)below.class_of[i].sent);
        for (int k = 0; k < BELOW_KINDS; k++)
            if (below.class_of[i].hits[k])
                fprintf(stderr, " %s %llu", kind_names[k], (unsigned long long)below.class_of[i].hits[k]);
        fputc('\n', stderr);
    }
}
