/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening to the library's log. */
#define _GNU_SOURCE

#include "tools/bench_coll/bench_coll_way.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

void bench_ear_open(bench_ear_t *ear)
{
    *ear = (bench_ear_t){.file = tmpfile(), .before = dup(STDERR_FILENO)};
    fflush(stderr);
    if (!ear->file || ear->before < 0 || dup2(fileno(ear->file), STDERR_FILENO) < 0) {
        if (ear->file)
            fclose(ear->file);
        ear->file = NULL;
    }
}

void bench_ear_close(bench_ear_t *ear, char *text, size_t text_bytes)
{
    size_t length = 0;
    fflush(stderr);
    if (ear->file) {
        (void)dup2(ear->before, STDERR_FILENO);
        rewind(ear->file);
        length = text ? fread(text, 1, text_bytes - 1, ear->file) : 0;
        fclose(ear->file);
    }
    if (text)
        text[length] = '\0';
    if (ear->before >= 0)
        close(ear->before);
}

static bool is_one_of(const char *word, const char *const *names)
{
    for (; *names; names++) {
        if (strcmp(word, *names) == 0)
            return true;
    }
    return false;
}

/* "channels 0 to 7:" */
static int read_channels(const char *text)
{
    int first, last;
    return sscanf(text, "%d to %d", &first, &last) == 2 && last >= first ? last - first + 1 : 0;
}

/* The first names of a line: what follows them says why. */
static void read_line(char *line, bench_way_t *way_out)
{
    static const char *const algos[] = {"oneshot", "twoshot", "direct_one", "direct_two", "ring", "pat", NULL};
    static const char *const protos[] = {"ll", "ll128", "simple", NULL};
    const char *channels = strstr(line, " channels ");
    bench_way_t way = {.channels = channels ? read_channels(channels + strlen(" channels ")) : 0};
    char *rest = NULL;
    for (char *word = strtok_r(line, " \t,:", &rest); word; word = strtok_r(NULL, " \t,:", &rest)) {
        if (!way.algo[0] && is_one_of(word, algos))
            snprintf(way.algo, sizeof way.algo, "%s", word);
        else if (!way.proto[0] && is_one_of(word, protos))
            snprintf(way.proto, sizeof way.proto, "%s", word);
    }
    if (way.algo[0])
        *way_out = way;
}

void bench_way_read(char *text, bench_way_t *way_out)
{
    char *rest = NULL;
    *way_out = (bench_way_t){.channels = 0};
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        read_line(line, way_out);
}
