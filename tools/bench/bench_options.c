/* SPDX-License-Identifier: BSD-3-Clause */
/* Command line of selvage-bench, by the table of tool_options.h. */
#include "tools/bench/bench_options.h"

#include <string.h>

#include <selvage.h>

#include "tools/common/tool_options.h"
#include "tools/common/tool_words.h"

void bench_options_usage(FILE *stream)
{
    fputs("usage: mpirun -n N selvage-bench exchange|policies|host|create|messages|probe [options]\n"
          "       mpirun -n N selvage-bench coll [options]      collectives; see selvage-bench coll --help\n"
          "       mpirun -n N selvage-bench mpi [options]       plain MPI calls; see selvage-bench mpi --help\n"
          "exchange times exchanges beside the raw copies that bound them and beside what else could do the work.\n"
          "policies compares when the packets within a node start, where half of them leave it. host tells the time\n"
          "that start and polls cost the host. create times the making of objects, and their first use. messages\n"
          "times sends and receives beside exchanges. probe gives device pointers to the MPI and checks what\n"
          "arrives; it may crash, which is the answer.\n\n"
          "  --patterns LIST      all, or some of shift,ring,3d,4d (default ring,3d,4d)\n"
          "  --routes LIST        all (the default), or some of self,peer,shared,staged,direct\n"
          "  --sizes LIST         bytes per packet (default of exchange: 8,32,128,...,32M,128M)\n"
          "  --modes LIST         wait,stream (the default), or some of wait,stream,run,graph: whether the host waits\n"
          "                       for each, or all follow on a stream; run: with one call for each; graph: 20 of\n"
          "                       these captured, and replayed\n"
          "  --checksums LIST     off,on (the default), on, or off\n"
          "  --seconds S          time for each figure (default 0.2)\n"
          "  --repetitions N      repetitions of each figure, instead of by time\n"
          "  --aware-mpi A        no (the default), yes, or ask: whether MPI is given device pointers as a rival\n"
          "  --nccl FILE          NCCL or RCCL library (default the usual one, if it is found); no: without\n"
          "  --nccl-channels N    make NCCL use this many channels, instead of its own choice\n"
          "  --nccl-tuned LIST    channels to try for the column of tuned NCCL (default 16,32); no: without\n"
          "  --poll-interval US   of host: microseconds between two polls (default 5)\n"
          "  --json FILE          and of exchange: --csv FILE --plot FILE.svg\n"
          "  --floors FILE        compare with the GB/s in this file; --write-floors FILE writes it\n"
          "  --help --version\n\n"
          "Exit status: 0; 1 if a packet was bad, a figure below its floor or a file not written; 2 for a wrong\n"
          "command line.\n",
          stream);
}

const char *bench_command_name(bench_command_t command)
{
    static const char *const names[BENCH_COMMANDS] = {"exchange", "policies", "host", "probe", "messages", "create"};
    return names[command];
}

const char *bench_pattern_name(bench_pattern_t pattern)
{
    static const char *const names[BENCH_PATTERNS] = {"shift", "ring", "3d", "4d"};
    return names[pattern];
}

bool bench_take_channels(void *value, const char *word)
{
    bench_options_t *options = value;
    if (!word)
        options->nccl_tuned_count = 0;
    if (!word || strcmp(word, "no") == 0)
        return true;
    return options->nccl_tuned_count < BENCH_NCCL_TUNED_MAX &&
           tool_whole_number(word, 1, 64, &options->nccl_tuned[options->nccl_tuned_count++]);
}

static bool take_size(void *value, const char *word)
{
    bench_options_t *options = value;
    size_t bytes;
    if (!word) {
        options->size_count = 0;
        return true;
    }
    if (options->size_count == BENCH_SIZES_MAX || !tool_option_size(word, &bytes) || bytes == 0)
        return false;
    options->sizes[options->size_count++] = bytes;
    return true;
}

static bool take_aware(void *value, const char *word)
{
    static const char *const words[] = {"no", "yes", "ask"};
    for (int i = 0; i < 3; i++)
        if (strcmp(word, words[i]) == 0) {
            *(bench_aware_t *)value = (bench_aware_t)i;
            return true;
        }
    return false;
}

/* The routes are those that the library has a name for. */
static const char *name_of_route(int route)
{
    const char *name = route >= SELVAGE_ROUTE_SELF ? selvage_route_name((selvage_route_t)route) : "unknown";
    return strcmp(name, "unknown") == 0 ? NULL : name;
}

static const char *name_of_mode(int mode)
{
    return bench_mode_name((bench_mode_t)mode);
}

static const char *name_of_pattern(int pattern)
{
    return bench_pattern_name((bench_pattern_t)pattern);
}

static const char *name_of_switch(int on)
{
    return on ? "on" : "off";
}

static void set_defaults(bench_options_t *options)
{
    *options = (bench_options_t){.seconds = 0.2,
                                 .poll_us = 5,
                                 .checksums = {true, true},
                                 .modes = {true, true},
                                 .nccl_tuned = {16, 32},
                                 .nccl_tuned_count = 2};
    for (int route = 0; route < BENCH_ROUTES; route++)
        options->routes[route] = name_of_route(route) != NULL;
    for (int pattern = BENCH_RING; pattern < BENCH_PATTERNS; pattern++)
        options->patterns[pattern] = true;
}

/* What a command measures unless it is told; the probe has sizes of its own, which need no more room than this. The
   pattern with the most packets stands for those of other commands, which have no patterns. */
static void set_sizes(bench_options_t *options)
{
    static const size_t low[BENCH_COMMANDS] = {8, 64 << 10, 256, 1 << 20, 8, 64 << 10};
    static const size_t factor[BENCH_COMMANDS] = {4, 16, 16, 2, 4, 256};
    static const size_t high[BENCH_COMMANDS] = {(size_t)128 << 20, 16 << 20, 1 << 20, 1 << 20, 64 << 20, 16 << 20};
    const bench_command_t command = options->command;
    if (command != BENCH_EXCHANGE)
        options->patterns[BENCH_FACES4] = true;
    if (options->size_count > 0 && command != BENCH_PROBE)
        return;
    options->size_count = 0;
    for (size_t bytes = low[command]; bytes <= high[command]; bytes *= factor[command])
        options->sizes[options->size_count++] = bytes;
}

static bool find_command(bench_options_t *options, const char *word)
{
    for (int command = 0; command < BENCH_COMMANDS; command++) {
        if (strcmp(word, bench_command_name((bench_command_t)command)) == 0) {
            options->command = (bench_command_t)command;
            return true;
        }
    }
    return false;
}

/* The words that are no options: one, which says what to do. */
static bool take_command(bench_options_t *options, int argc, char **argv, int first, char *error_text,
                         size_t error_bytes)
{
    if (options->help || options->version)
        return true;
    const int words = argc - first;
    if (words == 0)
        snprintf(error_text, error_bytes,
                 "what is to be done? exchange, policies, host, create, messages, probe, coll or mpi");
    else if (words > 1 || !find_command(options, argv[first]))
        snprintf(error_text, error_bytes, "unexpected argument '%.80s'", argv[first + (words > 1)]);
    else if (options->command != BENCH_EXCHANGE &&
             (options->csv || options->plot || options->floors || options->write_floors))
        snprintf(error_text, error_bytes, "only exchange writes CSV and plots and knows floors");
    return error_text[0] == '\0';
}

bool bench_options_parse(int argc, char **argv, bench_options_t *options_out, char *error_text, size_t error_bytes)
{
    bench_options_t options;
    int first = argc;
    const tool_option_t table[] = {
        {"sizes", TOOL_WORDS, .value = &options, .take = take_size},
        {"routes", TOOL_NAMES, .value = options.routes, .room = BENCH_ROUTES, .name_of = name_of_route},
        {"patterns", TOOL_NAMES, .value = options.patterns, .room = BENCH_PATTERNS, .name_of = name_of_pattern},
        {"modes", TOOL_NAMES, .value = options.modes, .room = BENCH_MODES, .name_of = name_of_mode},
        {"checksums", TOOL_NAMES, .value = options.checksums, .room = 2, .name_of = name_of_switch},
        {"seconds", TOOL_POSITIVE, .value = &options.seconds},
        {"repetitions", TOOL_WHOLE, .value = &options.repetitions, .low = 1, .high = BENCH_REPETITIONS_MAX},
        {"aware-mpi", TOOL_WORD, .value = &options.aware, .take = take_aware},
        {"nccl", TOOL_TEXT, .value = &options.nccl},
        {"nccl-channels", TOOL_WHOLE, .value = &options.nccl_channels, .low = 1, .high = 64},
        {"nccl-tuned", TOOL_WORDS, .value = &options, .take = bench_take_channels},
        {"poll-interval", TOOL_WHOLE, .value = &options.poll_us, .low = 0, .high = 1000000},
        {"json", TOOL_TEXT, .value = &options.json},
        {"csv", TOOL_TEXT, .value = &options.csv},
        {"plot", TOOL_TEXT, .value = &options.plot},
        {"floors", TOOL_TEXT, .value = &options.floors},
        {"write-floors", TOOL_TEXT, .value = &options.write_floors},
        {"help", TOOL_FLAG, .value = &options.help},
        {"version", TOOL_FLAG, .value = &options.version},
    };
    set_defaults(&options);
    if (!tool_options_parse(argc, argv, table, sizeof table / sizeof *table, &first, error_text, error_bytes) ||
        !take_command(&options, argc, argv, first, error_text, error_bytes))
        return false;
    set_sizes(&options);
    *options_out = options;
    return true;
}
