/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process holds, and whether it grows with the number of turns of something. After the first tenth of the turns
 * (the first half of fewer than 20) neither descriptors nor mappings may grow, resident memory by no more than a byte
 * per turn (1 MiB at least, or what the caller says: pools of much that is outstanding reach their highest level
 * slowly), and the library must hold no block more than then. One thread.
 */
#ifndef SELVAGE_TESTS_GROWTH_H
#define SELVAGE_TESTS_GROWTH_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum {
    GROWTH_KIB_ALLOWED = 1024,
    GROWTH_MAPPINGS_ALLOWED = 4 /* the C library's own, of threads that came */
};

typedef struct growth_size {
    long descriptors, mappings, resident_kib, blocks;
    double time_s, cpu_s;
} growth_size_t;

/* Live blocks of the library, where the test program can ask it: NULL for none. */
static inline growth_size_t growth_measure(int64_t (*live_blocks)(void))
{
    growth_size_t size = {.blocks = live_blocks ? (long)live_blocks() : 0};
    struct timespec now;
    struct rusage used;
    long pages = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        size.descriptors++;
    if (folder)
        closedir(folder);
    FILE *file = fopen("/proc/self/maps", "r");
    for (int letter; file && (letter = fgetc(file)) != EOF;)
        size.mappings += letter == '\n';
    if (file)
        fclose(file);
    file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%*d %ld", &pages) == 1);
    if (file)
        fclose(file);
    size.resident_kib = pages * (sysconf(_SC_PAGESIZE) / 1024);
    clock_gettime(CLOCK_MONOTONIC, &now);
    size.time_s = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    getrusage(RUSAGE_SELF, &used);
    size.cpu_s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                 1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    return size;
}

/* So many turns may leave something. */
static inline int growth_warm(int turns)
{
    return turns < 20 ? (turns + 1) / 2 : turns / 10;
}

/* Compares what there is after the turns with what there was after the first ones. */
static inline void growth_check(const char *what, int turns, long pools_kib, const growth_size_t *before,
                                const growth_size_t *after)
{
    long kib = turns / 1024 > GROWTH_KIB_ALLOWED ? turns / 1024 : GROWTH_KIB_ALLOWED;
    if (kib < pools_kib)
        kib = pools_kib;
    printf("%s, %d times: %.1f us each, %.1f of a core; descriptors %+ld, mappings %+ld, resident %+ld KiB, "
           "blocks %+ld\n", what, turns, 1e6 * (after->time_s - before->time_s) / (turns - growth_warm(turns)),
           1e6 * (after->cpu_s - before->cpu_s) / (turns - growth_warm(turns)),
           after->descriptors - before->descriptors, after->mappings - before->mappings,
           after->resident_kib - before->resident_kib, after->blocks - before->blocks);
    fflush(stdout);
    CHECK_EQ(after->descriptors, before->descriptors);
    CHECK(after->mappings <= before->mappings + GROWTH_MAPPINGS_ALLOWED);
    CHECK(after->resident_kib <= before->resident_kib + kib);
    CHECK_EQ(after->blocks, before->blocks);
}

/* Takes the turns, and checks. */
static inline void growth_run(const char *what, void (*turn)(void *), void *arg, int turns, long pools_kib,
                              int64_t (*live_blocks)(void))
{
    growth_size_t before = {0};
    for (int i = 0; i < turns; i++) {
        if (i == growth_warm(turns))
            before = growth_measure(live_blocks);
        turn(arg);
    }
    const growth_size_t after = growth_measure(live_blocks);
    growth_check(what, turns, pools_kib, &before, &after);
}

/* PROGRAM [TURNS [NAME...]]: whether what has this name is to be measured; all, without names. */
static inline bool growth_is_asked(const char *name, int argc, char **argv)
{
    bool asked = argc < 3;
    for (int i = 2; i < argc; i++)
        asked |= strcmp(argv[i], name) == 0;
    return asked;
}

#endif
