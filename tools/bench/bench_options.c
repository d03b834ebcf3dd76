/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parsing with getopt_long, its own messages switched off: the caller prints one message for the whole job. Every value
 * is checked here, so that the rest of the program can trust the struct.
 */
#define _GNU_SOURCE

#include "tools/bench/bench_options.h"

#include <getopt.h>
#include <string.h>

#include <selvage.h>

#include "tools/common/smoke_options.h"
#include "tools/common/tool_words.h"

static const struct option long_options[] = {
    {"sizes", required_argument, NULL, 's'},
    {"routes", required_argument, NULL, 'r'},
    {"patterns", required_argument, NULL, 'p'},
    {"modes", required_argument, NULL, 'm'},
    {"checksums", required_argument, NULL, 'c'},
    {"seconds", required_argument, NULL, 't'},
    {"repetitions", required_argument, NULL, 'n'},
    {"aware-mpi", required_argument, NULL, 'a'},
    {"nccl", required_argument, NULL, 'l'},
    {"nccl-channels", required_argument, NULL, 'k'},
    {"nccl-tuned", required_argument, NULL, 'u'},
    {"poll-interval", required_argument, NULL, 'i'},
    {"json", required_argument, NULL, 'j'},
    {"csv", required_argument, NULL, 'v'},
    {"plot", required_argument, NULL, 'g'},
    {"floors", required_argument, NULL, 'f'},
    {"write-floors", required_argument, NULL, 'w'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

void bench_options_usage(FILE *stream)
{
    fputs("usage: mpirun -n N selvage-bench exchange|policies|host|messages|probe [options]\n"
          "       mpirun -n N selvage-bench coll [options]      collectives; see selvage-bench coll --help\n"
          "exchange times exchanges beside the raw copies that bound them and beside what else could do the work.\n"
          "policies compares when the packets within a node start, where half of them leave it. host tells the time\n"
          "that start and polls cost the host. messages times sends and receives beside exchanges. probe gives device\n"
          "pointers to the MPI and checks what arrives; it may crash, which is the answer.\n\n"
          "  --patterns LIST      all, or some of shift,ring,3d,4d (default ring,3d,4d)\n"
          "  --routes LIST        all (the default), or some of self,peer,shared,staged,direct\n"
          "  --sizes LIST         bytes per packet (default of exchange: 8,32,128,...,32M,128M)\n"
          "  --modes LIST         wait,stream (the default), wait, or stream: whether the host waits for each\n"
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
    static const char *const names[BENCH_COMMANDS] = {"exchange", "policies", "host", "probe", "messages"};
    return names[command];
}

const char *bench_pattern_name(bench_pattern_t pattern)
{
    static const char *const names[BENCH_PATTERNS] = {"shift", "ring", "3d", "4d"};
    return names[pattern];
}

static bool add_size(bench_options_t *options, const char *word)
{
    size_t bytes;
    if (options->size_count == BENCH_SIZES_MAX || !smoke_options_size(word, &bytes) || bytes == 0)
        return false;
    options->sizes[options->size_count++] = bytes;
    return true;
}

/* The routes are those that the library has a name for. */
static bool add_route(bench_options_t *options, const char *word)
{
    bool found = false;
    for (int route = SELVAGE_ROUTE_SELF; route < BENCH_ROUTES; route++) {
        const char *name = selvage_route_name((selvage_route_t)route);
        if (strcmp(name, "unknown") != 0 && (strcmp(word, "all") == 0 || strcmp(word, name) == 0))
            options->routes[route] = found = true;
    }
    return found;
}

static bool add_mode(bench_options_t *options, const char *word)
{
    for (int mode = 0; mode < BENCH_MODES; mode++) {
        if (strcmp(word, bench_mode_name((bench_mode_t)mode)) == 0)
            return options->modes[mode] = true;
    }
    return false;
}

static bool add_pattern(bench_options_t *options, const char *word)
{
    bool found = false;
    for (int pattern = 0; pattern < BENCH_PATTERNS; pattern++) {
        if (strcmp(word, "all") == 0 || strcmp(word, bench_pattern_name((bench_pattern_t)pattern)) == 0)
            options->patterns[pattern] = found = true;
    }
    return found;
}

static bool add_checksum(bench_options_t *options, const char *word)
{
    const bool on = strcmp(word, "on") == 0;
    if (!on && strcmp(word, "off") != 0)
        return false;
    options->checksums[on] = true;
    return true;
}

/* Gives each comma-separated word to `add`; empty words are refused. */
static bool each_word(bench_options_t *options, const char *list, bool (*add)(bench_options_t *, const char *))
{
    char word[32];
    while (list)
        if (!tool_next_word(&list, word, sizeof word) || !add(options, word))
            return false;
    return true;
}

static bool add_channels(bench_options_t *options, const char *word)
{
    if (strcmp(word, "no") == 0)
        return true;
    return options->nccl_tuned_count < BENCH_NCCL_TUNED_MAX &&
           tool_whole_number(word, 1, 64, &options->nccl_tuned[options->nccl_tuned_count++]);
}

static bool take_aware(bench_options_t *options, const char *word)
{
    static const char *const words[] = {"no", "yes", "ask"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(word, words[i]) == 0) {
            options->aware = (bench_aware_t)i;
            return true;
        }
    }
    return false;
}

static bool take_file(const char **file_out)
{
    *file_out = optarg;
    return *optarg != '\0';
}

static bool take_list(bench_options_t *options, int letter)
{
    switch (letter) {
    case 's':
        options->size_count = 0;
        return each_word(options, optarg, add_size);
    case 'r':
        memset(options->routes, 0, sizeof options->routes);
        return each_word(options, optarg, add_route);
    case 'p':
        memset(options->patterns, 0, sizeof options->patterns);
        return each_word(options, optarg, add_pattern);
    case 'm':
        memset(options->modes, 0, sizeof options->modes);
        return each_word(options, optarg, add_mode);
    case 'u':
        options->nccl_tuned_count = 0;
        return each_word(options, optarg, add_channels);
    default:
        memset(options->checksums, 0, sizeof options->checksums);
        return each_word(options, optarg, add_checksum);
    }
}

static bool take_option(bench_options_t *options, int letter)
{
    switch (letter) {
    case 's':
    case 'r':
    case 'p':
    case 'm':
    case 'u':
    case 'c':
        return take_list(options, letter);
    case 't':
        return tool_positive_number(optarg, &options->seconds);
    case 'i':
        return tool_whole_number(optarg, 0, 1000000, &options->poll_us);
    case 'n':
        return tool_whole_number(optarg, 1, BENCH_REPETITIONS_MAX, &options->repetitions);
    case 'a':
        return take_aware(options, optarg);
    case 'l':
        return take_file(&options->nccl);
    case 'k':
        return tool_whole_number(optarg, 1, 64, &options->nccl_channels);
    case 'j':
        return take_file(&options->json);
    case 'v':
        return take_file(&options->csv);
    case 'g':
        return take_file(&options->plot);
    case 'f':
        return take_file(&options->floors);
    case 'w':
        return take_file(&options->write_floors);
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

static void set_defaults(bench_options_t *options)
{
    *options = (bench_options_t){.seconds = 0.2,
                                 .poll_us = 5,
                                 .checksums = {true, true},
                                 .modes = {true, true},
                                 .nccl_tuned = {16, 32},
                                 .nccl_tuned_count = 2};
    (void)add_route(options, "all");
    for (int pattern = BENCH_RING; pattern < BENCH_PATTERNS; pattern++)
        options->patterns[pattern] = true;
}

/* What a command measures unless it is told; the probe has sizes of its own, which need no more room than this. The
   pattern with the most packets stands for those of other commands, which have no patterns. */
static void set_sizes(bench_options_t *options)
{
    static const size_t low[BENCH_COMMANDS] = {8, 64 << 10, 256, 1 << 20, 8};
    static const size_t factor[BENCH_COMMANDS] = {4, 16, 16, 2, 4};
    static const size_t high[BENCH_COMMANDS] = {(size_t)128 << 20, 16 << 20, 1 << 20, 1 << 20, 64 << 20};
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
static bool take_command(bench_options_t *options, int argc, char **argv, char *error_text, size_t error_bytes)
{
    if (options->help || options->version)
        return true;
    const int words = argc - optind;
    if (words == 0)
        snprintf(error_text, error_bytes, "what is to be done? exchange, policies, host, messages, probe or coll");
    else if (words > 1 || !find_command(options, argv[optind]))
        snprintf(error_text, error_bytes, "unexpected argument '%.80s'", argv[optind + (words > 1)]);
    else if (options->command != BENCH_EXCHANGE &&
             (options->csv || options->plot || options->floors || options->write_floors))
        snprintf(error_text, error_bytes, "only exchange writes CSV and plots and knows floors");
    return error_text[0] == '\0';
}

bool bench_options_parse(int argc, char **argv, bench_options_t *options_out, char *error_text, size_t error_bytes)
{
    bench_options_t options;
    int letter, index = 0;
    set_defaults(&options);
    error_text[0] = '\0';
    opterr = 0;
    optind = 0; /* glibc: start afresh, so that parsing can be repeated */
    while ((letter = getopt_long(argc, argv, "", long_options, &index)) != -1) {
        if (letter == '?')
            snprintf(error_text, error_bytes, "unknown or incomplete option '%.80s'", argv[optind - 1]);
        else if (!take_option(&options, letter))
            snprintf(error_text, error_bytes, "bad value '%.80s' of --%s", optarg ? optarg : "",
                     long_options[index].name);
        if (error_text[0])
            return false;
    }
    if (!take_command(&options, argc, argv, error_text, error_bytes))
        return false;
    set_sizes(&options);
    *options_out = options;
    return true;
}
