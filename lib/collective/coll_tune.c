/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file reads tuning files. Everything is checked when a file is read: a line that could never be followed is an
 * error that names file and line, not a choice that silently is another. There is no state; callers own the tables.
 */
#include "collective/coll_tune.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_memory.h"
#include "base/base_parse.h"
#include "base/base_status.h"
#include "collective/coll_names.h"
#include "kernels/coll_args.h"

enum { LINE_BYTES = 512, WORDS = 6 };

/* Cuts a line into words, in place; returns how many there are, WORDS + 1 if too many. */
static unsigned split_words(char *line, char *words[WORDS])
{
    unsigned count = 0;
    char *rest = NULL;
    line[strcspn(line, "#")] = '\0';
    for (char *word = strtok_r(line, " \t\r\n", &rest); word; word = strtok_r(NULL, " \t\r\n", &rest)) {
        if (count == WORDS)
            return WORDS + 1;
        words[count++] = word;
    }
    return count;
}

/* What is wrong with the words of a line; NULL: nothing. */
static const char *set_entry(char *const words[WORDS], sv_coll_tuned_t *entry)
{
    int64_t ranks, channels;
    memset(entry, 0, sizeof *entry); /* the hash takes the padding too */
    entry->call = (uint8_t)sv_coll_call_named(words[0]);
    if (!entry->call)
        return "no such call";
    if (!sv_parse_int(words[1], &ranks) || ranks < 1 || ranks > SV_COLL_RANKS)
        return "ranks must be a whole number in 1..16";
    if (!sv_parse_bytes(words[2], &entry->max_bytes))
        return "the bound must be bytes (K, M, G, T may follow)";
    if (!sv_parse_int(words[5], &channels) || channels < 0 || channels > SV_COLL_CHANNELS)
        return "channels must be a whole number in 0..64";
    entry->ranks = (uint8_t)ranks;
    entry->nchannels = (uint16_t)channels;
    const bool direct = strcmp(words[3], "direct") == 0;
    const unsigned algo = direct ? SV_COLL_DIRECT_ONE : sv_coll_algo_named(words[3]);
    const unsigned proto = sv_coll_proto_named(words[4]);
    if (!algo)
        return "no such algorithm";
    if (!proto)
        return "no such protocol";
    if (!sv_coll_exists(entry->call, algo, proto))
        return "the call has no such algorithm with this protocol";
    entry->algo = (uint8_t)(direct ? SV_COLL_TUNED_DIRECT : algo);
    entry->proto = (uint8_t)proto;
    return NULL;
}

/* What is wrong with a line; NULL: nothing. */
static const char *add_line(sv_coll_tuning_t *tuning, char *line)
{
    char *words[WORDS];
    bool whole = strchr(line, '\n') || strlen(line) < LINE_BYTES - 1;
    unsigned count = split_words(line, words);
    if (!whole)
        return "the line is too long";
    if (count == 0)
        return NULL;
    if (count != WORDS)
        return "wanted: call ranks bytes algorithm protocol channels";
    if (tuning->nentries == SV_COLL_TUNED_MAX)
        return "too many lines";
    sv_coll_tuned_t *entry = &tuning->entry[tuning->nentries];
    const char *wrong = set_entry(words, entry);
    if (wrong)
        return wrong;
    for (unsigned i = 0; i < tuning->nentries; i++) { /* a line whose bound is not above would never hold */
        const sv_coll_tuned_t *before = &tuning->entry[i];
        if (before->call == entry->call && before->ranks == entry->ranks && before->max_bytes >= entry->max_bytes)
            return "the bound must be above those of earlier lines for this call and number of ranks";
    }
    tuning->nentries++;
    return NULL;
}

/* By call, ranks and bound: the order in which entries are looked for, and the same for every order of lines. */
static int compare_tuned(const void *left, const void *right)
{
    const sv_coll_tuned_t *a = left, *b = right;
    if (a->call != b->call)
        return a->call < b->call ? -1 : 1;
    if (a->ranks != b->ranks)
        return a->ranks < b->ranks ? -1 : 1;
    return (a->max_bytes > b->max_bytes) - (a->max_bytes < b->max_bytes);
}

static selvage_status_t read_lines(FILE *file, const char *path, sv_coll_tuning_t *tuning)
{
    char line[LINE_BYTES];
    for (unsigned number = 1; fgets(line, sizeof line, file); number++) {
        const char *wrong = add_line(tuning, line);
        if (wrong)
            return sv_error(SELVAGE_ERR_CONFIG, "SELVAGE_COLL_TUNE: %.300s, line %u: %s", path, number, wrong);
    }
    if (ferror(file))
        return sv_error(SELVAGE_ERR_CONFIG, "SELVAGE_COLL_TUNE: %.300s cannot be read: %s", path, strerror(errno));
    qsort(tuning->entry, tuning->nentries, sizeof tuning->entry[0], compare_tuned);
    const unsigned char *bytes = (const unsigned char *)tuning->entry;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a over the entries */
    for (size_t i = 0; i < tuning->nentries * sizeof tuning->entry[0]; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    tuning->hash = hash ? hash : 1;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_coll_tuning_read(const char *path, sv_coll_tuning_t **tuning_out)
{
    sv_coll_tuning_t *tuning = NULL;
    if (path[0] == '\0') {
        *tuning_out = NULL;
        return SELVAGE_SUCCESS;
    }
    FILE *file = fopen(path, "re");
    if (!file)
        return sv_error(SELVAGE_ERR_CONFIG, "SELVAGE_COLL_TUNE: %.300s cannot be opened: %s", path, strerror(errno));
    selvage_status_t status =
        sv_calloc(1, sizeof *tuning + SV_COLL_TUNED_MAX * sizeof tuning->entry[0], &tuning);
    if (status == SELVAGE_SUCCESS)
        status = read_lines(file, path, tuning);
    fclose(file);
    if (status == SELVAGE_SUCCESS)
        *tuning_out = tuning;
    else
        sv_free(tuning);
    return status;
}

uint64_t sv_coll_tuning_hash(const sv_coll_tuning_t *tuning)
{
    return tuning ? tuning->hash : 0;
}

const sv_coll_tuned_t *sv_coll_tuning_find(const sv_coll_tuning_t *tuning, unsigned call, unsigned ranks,
                                           uint64_t bytes)
{
    const sv_coll_tuned_t key = {.call = (uint8_t)call, .ranks = (uint8_t)ranks, .max_bytes = bytes};
    unsigned low = 0, high = tuning ? tuning->nentries : 0, count = high;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (compare_tuned(&tuning->entry[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < count && tuning->entry[low].call == call && tuning->entry[low].ranks == ranks;
    return found ? &tuning->entry[low] : NULL;
}
