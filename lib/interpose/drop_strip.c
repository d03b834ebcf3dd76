/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strips. Short messages that follow each other in device memory, as faces that were packed into one buffer do, have
 * staging memory that follows each other, so that one copy moves many of them: a copy costs the host some microseconds,
 * however short it is.
 *
 *   device memory   [ message 0 ][ message 1 ][ message 2 ][ message 3 ]
 *   staging memory  [ its own ]  [ strip: message 1 | message 2 | message 3 | room ]
 *
 * The first message of a row cannot tell that others will follow, and has staging memory of its own. A strip is within
 * one allocation of the device's, which is asked for many messages at once. As long as one of them is under way a right
 * program does not free that, so that no address in it need be looked up, unless anything was mapped since.
 *
 * Any thread; one lock guards the rows. A strip is freed with its last user: each message, and its row.
 */
#include "interpose/drop_strip.h"

#include "interpose/drop_pool.h"

#include <stdlib.h>
#include <string.h>

/* ROWS: in each direction, as for fields of which each has messages to several neighbours. A strip is no longer than
   STRIP_BYTES, since messages go only once it is copied. Of a message longer than MESSAGE_MOST the copy itself takes
   most of the time, and had better begin in its call. */
enum { ROWS = 4, STRIP_BYTES = 512 << 10, MESSAGE_MOST = 64 << 10, PARTS_MOST = 256, ASK_MESSAGES = 4 };

struct sv_drop_strip {
    struct sv_drop_strip *next;    /* among those that nobody uses */
    _Atomic int users;
    selvage_device_t *device;
    char *user, *host;             /* where it begins, in device memory and in staging memory */
    size_t bytes;                  /* that are taken */
    size_t known;                  /* that are one allocation */
    uint32_t generation;           /* of mappings (drop_cache.c), before that was asked */
    size_t ahead;                  /* to ask for beyond a message */
    bool ends;                     /* the allocation does, within what was asked for */
    int parts;
    uint32_t part[PARTS_MOST];     /* where each message begins */
};

/* Messages that continue each other. end NULL: there are none. */
typedef struct row {
    const char *end;
    sv_drop_strip_t *strip; /* of the second one on */
} row_t;

static struct {
    pthread_mutex_t lock;
    row_t row[2][ROWS]; /* up, down */
    int oldest[2];
    _Atomic int open;   /* strips that are some row's */
    bool touched;       /* since it was looked at last */
    _Atomic bool off;   /* the device does not copy across messages */
} strips = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Strips without staging memory, for later. Of short messages many strips have one each, so that what says where its
   parts are must not be pinned. The lock is taken inside that of the rows. */
static struct {
    pthread_mutex_t lock;
    sv_drop_strip_t *first;
} unused = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Partner: give_strip(). */
static sv_drop_strip_t *take_strip(void)
{
    pthread_mutex_lock(&unused.lock);
    sv_drop_strip_t *strip = unused.first;
    if (strip)
        unused.first = strip->next;
    pthread_mutex_unlock(&unused.lock);
    if (!strip && !(strip = calloc(1, sizeof *strip)))
        sv_drop_fatal("no memory", "for messages that lie side by side");
    return strip;
}

static void give_strip(sv_drop_strip_t *strip)
{
    pthread_mutex_lock(&unused.lock);
    strip->next = unused.first;
    unused.first = strip;
    pthread_mutex_unlock(&unused.lock);
}

sv_drop_strip_t *sv_drop_strip_share(sv_drop_strip_t *strip)
{
    if (strip)
        atomic_fetch_add_explicit(&strip->users, 1, memory_order_relaxed); /* partner: sv_drop_strip_release() */
    return strip;
}

void sv_drop_strip_release(sv_drop_strip_t *strip)
{
    /* Each release and the acquire of the last are partners: whoever frees it comes after all users. */
    if (strip && atomic_fetch_sub_explicit(&strip->users, 1, memory_order_acq_rel) == 1) {
        sv_drop_unstage(strip->host);
        give_strip(strip);
    }
}

/* --- rows; the caller has the lock -------------------------------------------------------------------------------- */

static void close_row(row_t *row)
{
    sv_drop_strip_t *strip = row->strip;
    *row = (row_t){NULL, NULL};
    if (!strip)
        return;
    atomic_fetch_sub_explicit(&strips.open, 1, memory_order_relaxed);
    sv_drop_staging_trim(strip->host, strip->bytes);
    sv_drop_strip_release(strip);
}

/* Whether a message of it is, so that the program must not have freed its allocation. */
static bool is_under_way(const sv_drop_strip_t *strip)
{
    return atomic_load_explicit(&strip->users, memory_order_relaxed) > 1;
}

/* Whether so much of it is one allocation. */
static bool is_whole(const sv_drop_strip_t *strip, size_t bytes)
{
    selvage_memory_t memory = SELVAGE_MEMORY_UNKNOWN;
    return selvage_device_memory(strip->device, strip->user, bytes, &memory) == SELVAGE_SUCCESS &&
           (memory == SELVAGE_MEMORY_DEVICE || memory == SELVAGE_MEMORY_MANAGED);
}

/* Whether the strip's allocation has a message more. It is asked for more and more of them at once, near its end for
   fewer and fewer, because a question takes about as long as a copy. */
static bool reaches(sv_drop_strip_t *strip, size_t bytes)
{
    const size_t end = strip->bytes + bytes;
    while (strip->known < end) {
        const uint32_t generation = atomic_load_explicit(&sv_drop_generation, memory_order_relaxed);
        const size_t most = end + strip->ahead < STRIP_BYTES ? end + strip->ahead : STRIP_BYTES;
        if (is_whole(strip, most)) {
            strip->known = most;
            strip->generation = generation;
            strip->ahead *= strip->ends ? 1 : 2;
        } else if (most == end)
            return false;
        else {
            strip->ends = true;
            strip->ahead = most - end < 2 * bytes ? 0 : (most - end) / 2;
        }
    }
    return true;
}

/* Its next bytes; NULL if it has no room for them. */
static char *take_from_strip(sv_drop_strip_t *strip, size_t bytes)
{
    if (strip->bytes + bytes > STRIP_BYTES || strip->parts == PARTS_MOST || !reaches(strip, bytes))
        return NULL;
    char *host = strip->host + strip->bytes;
    strip->part[strip->parts++] = (uint32_t)strip->bytes;
    strip->bytes += bytes;
    return host;
}

/* A strip that begins there. NULL: there is no pinned memory for it. */
static sv_drop_strip_t *open_strip(selvage_device_t *dev, char *user, size_t bytes)
{
    char *host = sv_drop_staging_on(dev, STRIP_BYTES);
    if (sv_drop_is_plain(host)) {
        sv_drop_unstage(host);
        return NULL;
    }
    sv_drop_strip_t *strip = take_strip();
    strip->device = dev;
    strip->user = user;
    strip->host = host;
    strip->bytes = strip->known = 0;
    strip->ahead = ASK_MESSAGES * bytes;
    strip->ends = false;
    strip->parts = 0;
    atomic_init(&strip->users, 1);
    atomic_fetch_add_explicit(&strips.open, 1, memory_order_relaxed);
    return strip;
}

/* The row that ends there. If there is none, the oldest one gives way, and none is returned. */
static row_t *find_row_at(bool down, const char *user, const char *end)
{
    for (int i = 0; i < ROWS; i++)
        if (strips.row[down][i].end == user)
            return &strips.row[down][i];
    row_t *oldest = &strips.row[down][strips.oldest[down]];
    strips.oldest[down] = (strips.oldest[down] + 1) % ROWS;
    close_row(oldest);
    oldest->end = end;
    return NULL;
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

char *sv_drop_strip_take(bool down, const char *user, size_t bytes, sv_drop_strip_t **strip_out)
{
    selvage_device_t *dev = sv_drop_device();
    char *host = NULL;
    if (bytes > MESSAGE_MOST || !dev || sv_drop_has_several() ||
        atomic_load_explicit(&strips.off, memory_order_relaxed))
        return NULL;
    pthread_mutex_lock(&strips.lock);
    strips.touched = true;
    row_t *row = find_row_at(down, user, user + bytes);
    if (row && row->strip && row->strip->device == dev && is_under_way(row->strip))
        host = take_from_strip(row->strip, bytes);
    if (row && !host) {
        close_row(row);
        row->strip = open_strip(dev, (char *)(uintptr_t)user, bytes);
        host = row->strip ? take_from_strip(row->strip, bytes) : NULL;
        if (!host)
            close_row(row); /* this message may be another allocation's first */
    }
    if (row)
        row->end = user + bytes;
    if (host)
        *strip_out = sv_drop_strip_share(row->strip);
    pthread_mutex_unlock(&strips.lock);
    return host;
}

bool sv_drop_strip_continues(const void *user)
{
    bool continues = false;
    pthread_mutex_lock(&strips.lock);
    for (int i = 0; i < ROWS; i++)
        continues = continues || strips.row[true][i].end == user;
    pthread_mutex_unlock(&strips.lock);
    return continues;
}

static void break_rows(bool down)
{
    pthread_mutex_lock(&strips.lock);
    for (int i = 0; i < ROWS; i++)
        close_row(&strips.row[down][i]);
    pthread_mutex_unlock(&strips.lock);
}

void sv_drop_strips_break_idle(void)
{
    pthread_mutex_lock(&strips.lock);
    const bool touched = strips.touched;
    strips.touched = false;
    pthread_mutex_unlock(&strips.lock);
    if (touched)
        return;
    break_rows(true);
    break_rows(false);
}

void sv_drop_strips_break(void)
{
    break_rows(true);
}

void sv_drop_strips_end(void)
{
    break_rows(true);
    break_rows(false);
    pthread_mutex_lock(&unused.lock);
    for (sv_drop_strip_t *strip = unused.first, *next; strip; strip = next) {
        next = strip->next;
        free(strip);
    }
    unused.first = NULL;
    pthread_mutex_unlock(&unused.lock);
}

bool sv_drop_strip_knows(const void *ptr)
{
    const uint32_t generation = atomic_load_explicit(&sv_drop_generation, memory_order_relaxed);
    const char *at = ptr;
    bool known = false;
    if (atomic_load_explicit(&strips.open, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&strips.lock);
    for (int i = 0; i < 2 * ROWS && !known; i++) {
        const sv_drop_strip_t *strip = strips.row[i / ROWS][i % ROWS].strip;
        known = strip && at >= strip->user && at < strip->user + strip->known && strip->generation == generation &&
                is_under_way(strip);
    }
    pthread_mutex_unlock(&strips.lock);
    return known;
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

static selvage_status_t copy_span(const sv_drop_run_t *run, size_t begin, size_t end, void *stream)
{
    char *user = run->strip->user + begin, *host = run->strip->host + begin;
    sv_drop_count_copy(run->down);
    return selvage_device_copy(run->strip->device, run->down ? host : user, run->down ? user : host, end - begin,
                               run->down ? SELVAGE_COPY_DEVICE_TO_HOST : SELVAGE_COPY_HOST_TO_DEVICE, stream);
}

/* Where a device refuses a copy of several messages, each has one of its own, from then on as well. Not every device
   says where one allocation ends and the next one begins. */
static selvage_status_t copy_strip_run(const sv_drop_run_t *run, void *stream)
{
    const sv_drop_strip_t *strip = run->strip;
    selvage_status_t status = copy_span(run, run->begin, run->end, stream);
    if (status == SELVAGE_SUCCESS || !run->joins)
        return status;
    atomic_store_explicit(&strips.off, true, memory_order_relaxed);
    status = SELVAGE_SUCCESS;
    pthread_mutex_lock(&strips.lock); /* another thread's message may be added */
    for (int i = 0; i < strip->parts && status == SELVAGE_SUCCESS; i++) {
        const size_t part = strip->part[i], next = i + 1 < strip->parts ? strip->part[i + 1] : strip->bytes;
        const size_t begin = part > run->begin ? part : run->begin, end = next < run->end ? next : run->end;
        if (begin < end)
            status = copy_span(run, begin, end, stream);
    }
    pthread_mutex_unlock(&strips.lock);
    return status;
}

static void enqueue_first_run(sv_drop_flow_t *flow, void *stream)
{
    if (copy_strip_run(&flow->run[0], stream) != SELVAGE_SUCCESS)
        sv_drop_fatal("copy failed", selvage_error_detail());
    memmove(&flow->run[0], &flow->run[1], (size_t)--flow->nruns * sizeof flow->run[0]);
}

void sv_drop_strip_copy(sv_drop_flow_t *flow, sv_drop_strip_t *strip, const char *host, size_t bytes, bool down)
{
    const size_t at = (size_t)(host - strip->host);
    int i = 0;
    if (bytes == 0)
        return;
    void *stream = sv_drop_flow_stream(flow, strip->device, bytes);
    while (i < flow->nruns && (flow->run[i].strip != strip || flow->run[i].end != at))
        i++;
    if (i == SV_DROP_RUNS) {
        enqueue_first_run(flow, stream);
        i--;
    }
    if (i == flow->nruns)
        flow->run[flow->nruns++] = (sv_drop_run_t){.strip = strip, .begin = at, .down = down};
    else
        flow->run[i].joins = true;
    flow->run[i].end = at + bytes;
    /* The copy of a full strip is under way while the next one fills. */
    if (at + 2 * bytes > STRIP_BYTES) {
        sv_drop_run_t full = flow->run[i];
        memmove(&flow->run[1], &flow->run[0], (size_t)i * sizeof full);
        flow->run[0] = full;
        enqueue_first_run(flow, stream);
    }
}

void sv_drop_strip_copy_rest(sv_drop_flow_t *flow, void *stream)
{
    while (flow->nruns > 0)
        enqueue_first_run(flow, stream);
}
