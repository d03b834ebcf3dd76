/* SPDX-License-Identifier: BSD-3-Clause */
/* Command line of selvage-smoke, by the table of tool_options.h. */
#include "tools/smoke/smoke_options.h"

#include <string.h>

#include <selvage.h>

#include "tools/common/smoke_pattern.h"
#include "tools/common/tool_options.h"

enum { MANY_RANKS = 64 };

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

static bool take_size(void *value, const char *word)
{
    smoke_options_t *options = value;
    options->sizes_given = true;
    if (!word) {
        options->size_count = 0;
        return true;
    }
    return options->size_count < SMOKE_SIZES_MAX &&
           tool_option_size(word, &options->sizes[options->size_count++]);
}

static bool take_route(void *value, const char *word)
{
    smoke_options_t *options = value;
    bool found = false;
    if (!word) {
        memset(options->routes, 0, sizeof options->routes);
        return true;
    }
    for (int route = SELVAGE_ROUTE_SELF; route < SMOKE_ROUTES; route++) {
        const bool of_all = strcmp(word, "all") == 0 && route != SELVAGE_ROUTE_DIRECT; /* only by name */
        if (of_all || strcmp(word, selvage_route_name((selvage_route_t)route)) == 0)
            options->routes[route] = found = true;
    }
    return found;
}

bool smoke_options_parse(int argc, char **argv, smoke_options_t *options_out, char *error_text, size_t error_bytes)
{
    static const size_t sizes[] = {4096, 65536, 1048576, 16777216};
    smoke_options_t options = {.packets = 4};
    const tool_option_t table[] = {
        {"sizes", TOOL_WORDS, .value = &options, .take = take_size},
        {"routes", TOOL_WORDS, .value = &options, .take = take_route},
        {"packets", TOOL_WHOLE, .value = &options.packets, .low = 1, .high = SMOKE_PATTERN_PACKETS_MAX},
        {"epochs", TOOL_WHOLE, .value = &options.epochs, .low = 1, .high = SMOKE_EPOCHS_MAX},
        {"wire-gbs", TOOL_POSITIVE, .value = &options.wire_gbs},
        {"json", TOOL_TEXT, .value = &options.json},
        {"quick", TOOL_FLAG, .value = &options.quick},
        {"memory", TOOL_FLAG, .value = &options.memory},
        {"no-checksum", TOOL_FLAG, .value = &options.no_checksum},
        {"suite", TOOL_FLAG, .value = &options.suite},
        {"help", TOOL_FLAG, .value = &options.help},
        {"version", TOOL_FLAG, .value = &options.version},
    };
    for (int route = SELVAGE_ROUTE_SELF; route < SMOKE_ROUTES; route++)
        options.routes[route] = route != SELVAGE_ROUTE_DIRECT;
    if (!tool_options_parse(argc, argv, table, sizeof table / sizeof *table, NULL, error_text, error_bytes))
        return false;
    if (!options.sizes_given) {
        options.size_count = options.quick ? 3 : 4;
        memcpy(options.sizes, sizes, (size_t)options.size_count * sizeof sizes[0]);
    }
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
