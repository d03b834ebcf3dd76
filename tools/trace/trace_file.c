/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the events of a timeline, line by line, and joins the groups of blocks that worked on the same thing. */
#define _GNU_SOURCE
#include "tools/trace/trace_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 1 << 20 };

static const char *const stamp_names[TRACE_STAMPS] = {"began",     "packed", "stored",  "signalled",
                                                      "saw",       "verified", "left"};

/* Where the value of a key begins; NULL if the line has none. */
static const char *find_value(const char *line, const char *key)
{
    char pattern[40];
    snprintf(pattern, sizeof pattern, "\"%s\":", key);
    const char *found = strstr(line, pattern);
    return found ? found + strlen(pattern) : NULL;
}

static bool read_whole(const char *line, const char *key, int64_t *value_out)
{
    const char *text = find_value(line, key);
    char *end;
    if (!text)
        return false;
    errno = 0;
    *value_out = strtoll(text, &end, 10);
    return end != text && errno == 0;
}

/* Microseconds with three decimals, as nanoseconds. */
static bool read_time(const char *line, const char *key, int64_t *ns_out)
{
    const char *text = find_value(line, key);
    char *end;
    if (!text)
        return false;
    errno = 0;
    const int64_t us = strtoll(text, &end, 10);
    if (end == text || errno != 0 || us > INT64_MAX / 1000 - 1 || us < 0 || *end != '.')
        return false;
    text = end + 1;
    const long ns = strtol(text, &end, 10);
    *ns_out = us * 1000 + ns;
    return end == text + 3 && ns >= 0;
}

static bool read_text(const char *line, const char *key, char *text_out, size_t bytes)
{
    const char *text = find_value(line, key);
    const char *end = text && *text == '"' ? strchr(text + 1, '"') : NULL;
    if (!end || (size_t)(end - text - 1) >= bytes)
        return false;
    memcpy(text_out, text + 1, (size_t)(end - text - 1));
    text_out[end - text - 1] = '\0';
    return true;
}

static bool note_rank(trace_file_t *file, int64_t rank)
{
    if (rank < 0 || rank >= RANKS_MAX)
        return false;
    if (rank < file->nranks)
        return true;
    trace_rank_t *ranks = realloc(file->ranks, ((size_t)rank + 1) * sizeof *ranks);
    if (!ranks)
        return false;
    memset(ranks + file->nranks, 0, ((size_t)rank + 1 - (size_t)file->nranks) * sizeof *ranks);
    file->ranks = ranks;
    file->nranks = (int)rank + 1;
    return true;
}

static trace_role_t role_of(const char *name)
{
    if (strcmp(name, "push") == 0 || strcmp(name, "gather") == 0)
        return TRACE_SEND;
    if (strcmp(name, "pull") == 0 || strcmp(name, "scatter") == 0)
        return TRACE_RECV;
    return strcmp(name, "send and receive") == 0 ? TRACE_PAIR : TRACE_COLL;
}

static bool read_group(trace_file_t *file, const char *line)
{
    trace_end_t end = {0};
    int64_t rank, exchange, epoch, peer, launch;
    if (!read_text(line, "name", end.name, sizeof end.name) || !read_whole(line, "pid", &rank) ||
        !read_whole(line, "exchange", &exchange) || !read_whole(line, "epoch", &epoch) ||
        !read_whole(line, "peer", &peer) || !read_whole(line, "packet", &end.packet) ||
        !read_whole(line, "launch", &launch) || !note_rank(file, rank))
        return false;
    for (int s = 0; s < TRACE_STAMPS; s++)
        if (find_value(line, stamp_names[s]) && !read_time(line, stamp_names[s], &end.at_ns[s]))
            return false;
    if (end.at_ns[TRACE_BEGAN] == 0 || end.at_ns[TRACE_LEFT] < end.at_ns[TRACE_BEGAN])
        return false;
    end.role = role_of(end.name);
    end.exchange = (uint32_t)exchange;
    end.epoch = (uint64_t)(end.role == TRACE_PAIR ? launch : epoch);
    end.rank = (int)rank;
    end.peer = (int)peer;
    end.launch = (uint32_t)launch;
    if (file->nends == file->room) {
        const size_t room = file->room ? 2 * file->room : 1024;
        trace_end_t *ends = realloc(file->ends, room * sizeof *ends);
        if (!ends)
            return false;
        file->ends = ends;
        file->room = room;
    }
    file->ends[file->nends++] = end;
    return true;
}

static bool read_rank(trace_file_t *file, const char *line)
{
    int64_t rank, value[7];
    static const char *const keys[7] = {"groups",     "lost", "unfinished", "overwritten", "resolution_ns",
                                        "device_error_ns", "host_error_ns"};
    if (!read_whole(line, "pid", &rank) || !note_rank(file, rank))
        return false;
    for (int i = 0; i < 7; i++)
        if (!read_whole(line, keys[i], &value[i]))
            return false;
    file->ranks[rank] = (trace_rank_t){true, (uint64_t)value[0], (uint64_t)value[1], (uint64_t)value[2],
                                       (uint64_t)value[3], (uint64_t)value[4], (uint64_t)value[5],
                                       (uint64_t)value[6]};
    return true;
}

/* Sends and receives of one epoch stand together. */
static int thing_of(const trace_end_t *end)
{
    return end->role == TRACE_COLL ? 1 : end->role == TRACE_PAIR ? 2 : 0;
}

#define DIFFER(x, y) \
    if ((x) != (y))  \
        return (x) < (y) ? -1 : 1

int trace_end_order(const void *a, const void *b)
{
    const trace_end_t *one = a, *other = b;
    DIFFER(thing_of(one), thing_of(other));
    DIFFER(one->exchange, other->exchange);
    DIFFER(one->epoch, other->epoch);
    DIFFER(one->turn, other->turn);
    DIFFER(one->rank, other->rank);
    DIFFER(one->role, other->role);
    DIFFER(one->packet, other->packet);
    DIFFER(one->peer, other->peer);
    return 0;
}

static int compare_launches(const void *a, const void *b)
{
    const trace_end_t *one = a, *other = b;
    const int order = trace_end_order(a, b);
    if (order != 0)
        return order;
    return (one->launch > other->launch) - (one->launch < other->launch);
}

/* A communicator that was made after another one had gone has its number, and calls with the same sequence numbers.
   They are told apart by their launches, whose numbers differ from rank to rank, but not their order. */
static void count_turns(trace_file_t *file)
{
    unsigned turn = 0;
    trace_end_t before = {.role = TRACE_SEND};
    qsort(file->ends, file->nends, sizeof *file->ends, compare_launches);
    for (size_t i = 0; i < file->nends; i++) {
        trace_end_t *end = &file->ends[i];
        if (end->role != TRACE_COLL)
            continue;
        if (trace_end_order(&before, end) != 0)
            turn = 0;
        else if (end->launch != before.launch)
            turn++;
        before = *end;
        before.turn = 0; /* as those have that are not counted yet */
        end->turn = turn;
    }
}

static void join_groups(trace_file_t *file)
{
    if (file->nends == 0)
        return;
    count_turns(file);
    size_t kept = 0;
    qsort(file->ends, file->nends, sizeof *file->ends, trace_end_order);
    for (size_t i = 0; i < file->nends; i++) {
        const trace_end_t *more = &file->ends[i];
        trace_end_t *end = kept > 0 ? &file->ends[kept - 1] : NULL;
        if (!end || trace_end_order(end, more) != 0) {
            file->ends[kept++] = *more;
            continue;
        }
        if (more->at_ns[TRACE_BEGAN] < end->at_ns[TRACE_BEGAN])
            end->at_ns[TRACE_BEGAN] = more->at_ns[TRACE_BEGAN];
        for (int s = TRACE_BEGAN + 1; s < TRACE_STAMPS; s++)
            if (more->at_ns[s] > end->at_ns[s])
                end->at_ns[s] = more->at_ns[s];
    }
    file->nends = kept;
}

bool trace_file_read(const char *path, trace_file_t *file_out, char *error_text, size_t error_bytes)
{
    trace_file_t file = {0};
    char *line = NULL;
    size_t room = 0, number = 0;
    bool good = true, ended = false, begun = false;
    FILE *in = fopen(path, "re");
    if (!in) {
        snprintf(error_text, error_bytes, "%s: %s", path, strerror(errno));
        return false;
    }
    while (good && getline(&line, &room, in) > 0) {
        number++;
        begun |= number == 1 && strstr(line, "\"traceEvents\":[");
        ended |= strcmp(line, "]}\n") == 0;
        if (strstr(line, "\"cat\":\"selvage-blocks\""))
            good = read_group(&file, line);
        else if (strstr(line, "\"name\":\"selvage_kernels\""))
            good = read_rank(&file, line);
    }
    if (!good || !begun || !ended) {
        snprintf(error_text, error_bytes, "%s: %s %zu", path,
                 !good    ? "not understood: line"
                 : !begun ? "no timeline: line"
                          : "not written to its end: line",
                 number);
        trace_file_free(&file);
    } else {
        join_groups(&file);
        *file_out = file;
    }
    free(line);
    fclose(in);
    return good && begun && ended;
}

void trace_file_free(trace_file_t *file)
{
    free(file->ends);
    free(file->ranks);
    *file = (trace_file_t){0};
}
