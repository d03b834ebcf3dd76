/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading and writing floors. The reader takes what the format says, an object of objects of numbers, and nothing else
 * of JSON: names have no escapes, because those of machines and figures need none.
 */
#include "tools/bench/bench_floors.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOOR_OF_MEASURED 0.8

enum { FLOORS_MAX = 4096, NAME_BYTES = BENCH_KEY_BYTES, FILE_MAX_BYTES = 1 << 20 };

typedef struct bench_floor {
    char machine[NAME_BYTES], key[NAME_BYTES];
    double gbs;
} bench_floor_t;

typedef struct bench_floors {
    bench_floor_t *floor; /* owned */
    int count;
} bench_floors_t;

static bool skip(const char **at, char wanted)
{
    while (isspace((unsigned char)**at))
        (*at)++;
    if (**at != wanted)
        return false;
    (*at)++;
    return true;
}

static bool read_name(const char **at, char name[NAME_BYTES])
{
    if (!skip(at, '"'))
        return false;
    const size_t length = strcspn(*at, "\"\\\n");
    if ((*at)[length] != '"' || length >= NAME_BYTES)
        return false;
    memcpy(name, *at, length);
    name[length] = '\0';
    *at += length + 1;
    return true;
}

static bool read_machine(const char **at, const char *machine, bench_floors_t *floors)
{
    if (!skip(at, '{'))
        return false;
    if (skip(at, '}'))
        return true;
    do {
        bench_floor_t *floor = &floors->floor[floors->count];
        char *end;
        if (floors->count == FLOORS_MAX || !read_name(at, floor->key) || !skip(at, ':'))
            return false;
        floor->gbs = strtod(*at, &end);
        if (end == *at)
            return false;
        *at = end;
        memcpy(floor->machine, machine, NAME_BYTES);
        floors->count++;
    } while (skip(at, ','));
    return skip(at, '}');
}

static bool parse(const char *at, bench_floors_t *floors)
{
    char machine[NAME_BYTES] = "";
    if (!skip(&at, '{'))
        return false;
    if (!skip(&at, '}')) {
        do {
            if (!read_name(&at, machine) || !skip(&at, ':') || !read_machine(&at, machine, floors))
                return false;
        } while (skip(&at, ','));
        if (!skip(&at, '}'))
            return false;
    }
    return skip(&at, '\0') || *at == '\0';
}

/* True with no floors for an empty file. */
static bool read_floors(const tool_job_t *job, const char *path, bench_floors_t *floors_out)
{
    char *text = tool_malloc(job, FILE_MAX_BYTES + 1);
    bench_floors_t floors = {.floor = tool_malloc(job, FLOORS_MAX * sizeof(bench_floor_t))};
    FILE *file = fopen(path, "r");
    bool good = file != NULL;
    if (!file) {
        fprintf(stderr, "selvage-bench: %s: %s\n", path, strerror(errno));
    } else {
        const size_t bytes = fread(text, 1, FILE_MAX_BYTES, file);
        text[bytes] = '\0';
        fclose(file);
        good = text[strspn(text, " \t\r\n")] == '\0' || parse(text, &floors);
        if (!good)
            fprintf(stderr, "selvage-bench: %s: not a file of floors\n", path);
    }
    free(text);
    *floors_out = floors;
    return good;
}

int bench_floors_compare(const bench_figures_t *figures, const char *path)
{
    bench_floors_t floors;
    int compared = 0, below = 0;
    const bool good = read_floors(figures->job, path, &floors);
    for (int i = 0; good && i < floors.count; i++) {
        const bench_floor_t *floor = &floors.floor[i];
        for (int f = 0; f < figures->count && strcmp(floor->machine, figures->machine) == 0; f++) {
            const bench_figure_t *figure = &figures->figure[f];
            if (strcmp(figure->key, floor->key) != 0)
                continue;
            compared++;
            if (figure->available && figure->gbs >= floor->gbs)
                continue;
            below++;
            printf("below its floor: %s: %.3f GB/s, wanted %.3f\n", figure->key, figure->gbs, floor->gbs);
        }
    }
    if (good)
        printf("floors of '%s': %d compared, %d below\n", figures->machine, compared, below);
    free(floors.floor);
    return good ? below : -1;
}

/* Machines follow each other as they were read, so a change of name begins a new object. */
static void write_others(FILE *file, const bench_floors_t *floors, const char *left_out)
{
    const char *machine = NULL;
    for (int i = 0; i < floors->count; i++) {
        const bench_floor_t *floor = &floors->floor[i];
        if (strcmp(floor->machine, left_out) == 0)
            continue;
        if (!machine || strcmp(machine, floor->machine) != 0)
            fprintf(file, "%s  \"%s\": {\n", machine ? "\n  },\n" : "", floor->machine);
        else
            fprintf(file, ",\n");
        machine = floor->machine;
        fprintf(file, "    \"%s\": %.6g", floor->key, floor->gbs);
    }
    if (machine)
        fprintf(file, "\n  },\n");
}

bool bench_floors_write(const bench_figures_t *figures, const char *path)
{
    bench_floors_t floors;
    const char *comma = "";
    const bool good = read_floors(figures->job, path, &floors);
    FILE *file = good ? fopen(path, "w") : NULL;
    if (!file) {
        free(floors.floor);
        return false;
    }
    fprintf(file, "{\n");
    write_others(file, &floors, figures->machine);
    fprintf(file, "  \"%s\": {", figures->machine);
    for (int f = 0; f < figures->count; f++) {
        const bench_figure_t *figure = &figures->figure[f];
        if (!figure->available)
            continue;
        fprintf(file, "%s\n    \"%s\": %.6g", comma, figure->key, figure->gbs * FLOOR_OF_MEASURED);
        comma = ",";
    }
    fprintf(file, "\n  }\n}\n");
    free(floors.floor);
    const bool written = !ferror(file);
    return fclose(file) == 0 && written;
}
