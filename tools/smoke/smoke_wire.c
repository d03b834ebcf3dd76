/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asking the network interfaces: active InfiniBand ports ("400 Gb/sec (4X NDR)"), and Ethernet interfaces that are up
 * (megabits per second). One unknown host makes the whole wire unknown: a guess would make a verdict worthless.
 */
#include "tools/smoke/smoke_wire.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

/* First line of a file; "" if it cannot be read. */
static void read_line(const char *path, char *line, size_t line_bytes)
{
    line[0] = '\0';
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    if (!fgets(line, (int)line_bytes, file))
        line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    fclose(file);
}

/* The file beside `path` with that name; "" if there is none. */
static void read_beside(const char *path, const char *name, char *line, size_t line_bytes)
{
    char beside[512];
    const char *slash = strrchr(path, '/');
    snprintf(beside, sizeof beside, "%.*s/%s", (int)(slash - path), path, name);
    read_line(beside, line, line_bytes);
}

static double port_gbs(const char *path)
{
    char rate[64], state[64];
    double gigabits;
    read_line(path, rate, sizeof rate);
    read_beside(path, "state", state, sizeof state);
    if (!strstr(state, "ACTIVE") || sscanf(rate, "%lf Gb/sec", &gigabits) != 1)
        return 0;
    return gigabits / 8;
}

static double interface_gbs(const char *path)
{
    char speed[64], state[64];
    double megabits;
    read_line(path, speed, sizeof speed);
    read_beside(path, "operstate", state, sizeof state);
    if (strcmp(state, "up") != 0 || strstr(path, "/net/lo/") || sscanf(speed, "%lf", &megabits) != 1 || megabits <= 0)
        return 0;
    return megabits / 8000;
}

static void take_fastest(const char *pattern, double (*gbs_of)(const char *), smoke_wire_t *wire)
{
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const double gbs = gbs_of(found.gl_pathv[i]);
        if (gbs > wire->gbs) {
            wire->gbs = gbs;
            snprintf(wire->source, sizeof wire->source, "%.90s", found.gl_pathv[i]);
        }
    }
    globfree(&found);
}

void smoke_wire_find(const tool_job_t *job, double told_gbs, smoke_wire_t *wire_out)
{
    smoke_wire_t wire = {.gbs = told_gbs, .told = told_gbs > 0, .source = "unknown"};
    if (wire.told) {
        snprintf(wire.source, sizeof wire.source, "command line");
    } else {
        take_fastest("/sys/class/infiniband/*/ports/*/rate", port_gbs, &wire);
        take_fastest("/sys/class/net/*/speed", interface_gbs, &wire);
        tool_reduce(job, job->comm, &wire.gbs, 1, MPI_DOUBLE, MPI_MIN);
        if (wire.gbs <= 0)
            snprintf(wire.source, sizeof wire.source, "unknown");
    }
    *wire_out = wire;
}
