/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parsing of the command line with getopt_long, its own messages switched off: the caller prints one message for the
 * whole job. Every value is checked here, so that the rest of the program can trust the struct.
 */
#define _GNU_SOURCE

#include "tools/common/smoke_options.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <selvage.h>

#include "tools/common/smoke_pattern.h"
#include "tools/common/tool_words.h"

enum { MANY_RANKS = 64 };

static const struct option long_options[] = {
    {"sizes", required_argument, NULL, 's'},    {"routes", required_argument, NULL, 'r'},
    {"packets", required_argument, NULL, 'p'},  {"epochs", required_argument, NULL, 'e'},
    {"wire-gbs", required_argument, NULL, 'w'}, {"json", required_argument, NULL, 'j'},
    {"quick", no_argument, NULL, 'q'},          {"memory", no_argument, NULL, 'm'},
    {"no-checksum", no_argument, NULL, 'n'},    {"suite", no_argument, NULL, 'S'},
    {"help", no_argument, NULL, 'h'},           {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

void smoke_options_usage(FILE *stream)
{
    fputs("usage: mpirun -n N selvage-smoke [options]\n"
          "Moves test patterns between the ranks by every route this machine has, checks every element of every\n"
          "packet, and compares the speed with that of the slowest leg alone and with the wire's peak.\n\n"
          "  --sizes LIST     packet sizes, such as 4K,64K,1M,16M (the default); any number of bytes\n"
          "  --routes LIST    all (the default; all but direct), or some of self,peer,shared,staged,direct\n"
          "  --packets P      packets per rank and direction (default 4)\n"
          "  --epochs E       timed exchanges per size and route (default 5 to 20, by size)\n"
          "  --quick          3 exchanges, sizes up to 1M\n"
          "  --wire-gbs X     the wire's peak of one host in GB/s; else what the network interface says\n"
          "  --no-checksum    exchange without Selvage's own verification\n"
          "  --suite          then every collective, with a few types and sizes, every element checked\n"
          "  --memory         print the memory used per rank\n"
          "  --json FILE      write everything as JSON; - is standard output, the table then goes to standard error\n"
          "  --help --version\n\n"
          "Exit status: 0 if every packet and result was right, 1 if not, 2 for a wrong command line.\n",
          stream);
}

static double unit_factor(const char *unit)
{
    static const char letters[] = "KMG";
    if (*unit == '\0' || strcmp(unit, "B") == 0)
        return 1;
    const char *letter = strchr(letters, *unit & ~0x20);
    if (!letter || (unit[1] != '\0' && strcmp(unit + 1, "iB") != 0))
        return 0;
    return ldexp(1, 10 * (int)(letter - letters + 1));
}

bool smoke_options_size(const char *text, size_t *bytes_out)
{
    const char *unit = text + strspn(text, "0123456789.");
    char *end;
    const double value = strtod(text, &end) * unit_factor(unit);
    if (*text < '0' || *text > '9' || end != unit || unit_factor(unit) == 0 ||
        value > (double)SMOKE_PATTERN_BYTES_MAX || value != floor(value))
        return false;
    *bytes_out = (size_t)value;
    return true;
}

static bool add_size(smoke_options_t *options, const char *word)
{
    if (options->size_count == SMOKE_SIZES_MAX || !smoke_options_size(word, &options->sizes[options->size_count]))
        return false;
    options->size_count++;
    return true;
}

static bool add_route(smoke_options_t *options, const char *word)
{
    bool found = false;
    for (int route = SELVAGE_ROUTE_SELF; route < SMOKE_ROUTES; route++) {
        const bool of_all = strcmp(word, "all") == 0 && route != SELVAGE_ROUTE_DIRECT; /* only by name */
        if (of_all || strcmp(word, selvage_route_name((selvage_route_t)route)) == 0)
            options->routes[route] = found = true;
    }
    return found;
}

/* Gives each comma-separated word to `add`; empty words are refused. */
static bool each_word(smoke_options_t *options, const char *list, bool (*add)(smoke_options_t *, const char *))
{
    char word[32];
    while (list)
        if (!tool_next_word(&list, word, sizeof word) || !add(options, word))
            return false;
    return true;
}

static bool take_option(smoke_options_t *options, int letter)
{
    switch (letter) {
    case 's':
        options->size_count = 0;
        options->sizes_given = true;
        return each_word(options, optarg, add_size);
    case 'r':
        memset(options->routes, 0, sizeof options->routes);
        return each_word(options, optarg, add_route);
    case 'p':
        return tool_whole_number(optarg, 1, SMOKE_PATTERN_PACKETS_MAX, &options->packets);
    case 'e':
        return tool_whole_number(optarg, 1, SMOKE_EPOCHS_MAX, &options->epochs);
    case 'w':
        return tool_positive_number(optarg, &options->wire_gbs);
    case 'j':
        options->json = optarg;
        return *optarg != '\0';
    case 'q':
        options->quick = true;
        return true;
    case 'm':
        options->memory = true;
        return true;
    case 'n':
        options->no_checksum = true;
        return true;
    case 'S':
        options->suite = true;
        return true;
    case 'h':
        options->help = true;
        return true;
    case 'V':
        options->version = true;
        return true;
    default:
        return false;
    }
}

static void set_default_sizes(smoke_options_t *options)
{
    static const size_t sizes[] = {4096, 65536, 1048576, 16777216};
    options->size_count = options->quick ? 3 : 4;
    memcpy(options->sizes, sizes, (size_t)options->size_count * sizeof sizes[0]);
}

/* What was wrong with the option at argv[at], which getopt called `letter` and found at `index` of the table. */
static void explain(char *text, size_t text_bytes, int letter, int index, const char *word)
{
    if (letter == '?')
        snprintf(text, text_bytes, "unknown or incomplete option '%.80s'", word);
    else
        snprintf(text, text_bytes, "bad value '%.80s' of --%s", optarg ? optarg : "", long_options[index].name);
}

bool smoke_options_parse(int argc, char **argv, smoke_options_t *options_out, char *error_text, size_t error_bytes)
{
    smoke_options_t options = {.packets = 4};
    int letter, index = 0, at = 1;
    for (int route = SELVAGE_ROUTE_SELF; route < SMOKE_ROUTES; route++)
        options.routes[route] = route != SELVAGE_ROUTE_DIRECT;
    opterr = 0;
    optind = 0; /* glibc: start afresh, so that parsing can be repeated */
    while ((letter = getopt_long(argc, argv, "", long_options, &index)) != -1) {
        if (!take_option(&options, letter)) {
            explain(error_text, error_bytes, letter, index, argv[at]);
            return false;
        }
        at = optind < argc ? optind : argc - 1;
    }
    if (optind < argc) {
        snprintf(error_text, error_bytes, "unexpected argument '%.80s'", argv[optind]);
        return false;
    }
    if (!options.sizes_given)
        set_default_sizes(&options);
    *options_out = options;
    return true;
}

int smoke_options_epochs(const smoke_options_t *options, size_t bytes, int ranks)
{
    if (options->epochs)
        return options->epochs;
    if (options->quick)
        return 3;
    if (ranks > MANY_RANKS || bytes > (4u << 20))
        return 5;
    return bytes > (256u << 10) ? 10 : 20;
}
