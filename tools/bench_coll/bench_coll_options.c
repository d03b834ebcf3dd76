/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parsing of `selvage-bench coll` with getopt_long, its own messages switched off: the caller prints one message for
 * the whole job. Every value is checked here but the words that the library is forced to, which are the library's own.
 */
#define _GNU_SOURCE

#include "tools/bench_coll/bench_coll_options.h"

#include <getopt.h>
#include <string.h>

#include "tools/common/smoke_options.h"
#include "tools/common/tool_words.h"

static const struct option long_options[] = {
    {"call", required_argument, NULL, 'c'},
    {"type", required_argument, NULL, 't'},
    {"op", required_argument, NULL, 'o'},
    {"min", required_argument, NULL, 'a'},
    {"max", required_argument, NULL, 'b'},
    {"factor", required_argument, NULL, 'f'},
    {"root", required_argument, NULL, 'r'},
    {"place", required_argument, NULL, 'p'},
    {"register", required_argument, NULL, 'g'},
    {"checksum", required_argument, NULL, 'k'},
    {"algo", required_argument, NULL, 'A'},
    {"proto", required_argument, NULL, 'P'},
    {"channels", required_argument, NULL, 'C'},
    {"seconds", required_argument, NULL, 's'},
    {"repetitions", required_argument, NULL, 'n'},
    {"runs", required_argument, NULL, 'R'},
    {"host", no_argument, NULL, 'H'},
    {"sweep", required_argument, NULL, 'S'},
    {"fifo", no_argument, NULL, 'F'},
    {"fifo-calls", required_argument, NULL, 'N'},
    {"fifo-bytes", required_argument, NULL, 'B'},
    {"nccl", required_argument, NULL, 'l'},
    {"nccl-channels", required_argument, NULL, 'm'},
    {"nccl-tuned", required_argument, NULL, 'u'},
    {"json", required_argument, NULL, 'j'},
    {"csv", required_argument, NULL, 'v'},
    {"plot", required_argument, NULL, 'q'},
    {"floors", required_argument, NULL, 'x'},
    {"write-floors", required_argument, NULL, 'w'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

void bench_coll_options_usage(FILE *stream)
{
    fputs("usage: mpirun -n N selvage-bench coll [options]\n"
          "times collectives, each checked element by element first, beside those of NCCL or RCCL.\n\n"
          "  --call LIST          all (the default), or some of all_reduce,reduce_scatter,all_gather,broadcast,\n"
          "                       reduce,all_to_all,sendrecv,barrier\n"
          "  --type LIST          all, or some of float32 (the default),bfloat16,int8,...\n"
          "  --op LIST            all, or some of sum (the default),prod,min,max,avg,premul\n"
          "  --min B --max B      sizes, from 8 to 512M (on the software device 32K),\n"
          "  --factor N           each N times the one before (4; on the software device 16)\n"
          "  --root R             of broadcast and reduce (default 0)\n"
          "  --place P            out, in, or both (the default): out of place, in place\n"
          "  --register W         off, on, or both (the default): buffers that peers have mapped\n"
          "  --checksum W         off, on, or both (the default)\n"
          "  --algo LIST --proto LIST --channels LIST\n"
          "                       what the library is forced to, every combination (default: its own choice)\n"
          "  --sweep FILE         all algorithms and protocols, the fastest of each size into a tuning file\n"
          "  --host               also the host's time in a call, beside that of a bare launch\n"
          "  --fifo               many grouped calls through a small FIFO of work, instead of the table\n"
          "  --fifo-calls N --fifo-bytes B   (10000; 64K)\n"
          "  --seconds S          time for each figure and run (default 0.1)\n"
          "  --repetitions N      calls of a batch, instead of by time\n"
          "  --runs N             runs of each figure, rivals in turn; their median counts (default 3)\n"
          "  --nccl FILE --nccl-channels N --nccl-tuned LIST   as for selvage-bench exchange\n"
          "  --json FILE --csv FILE --plot FILE.svg\n"
          "  --floors FILE        compare with the GB/s in this file; --write-floors FILE writes it\n"
          "  --help\n\n"
          "Exit status: 0; 1 if an element was wrong, a figure below its floor or a file not written; 2 for a wrong\n"
          "command line.\n",
          stream);
}

static bool positive_size(const char *text, size_t *bytes_out)
{
    return smoke_options_size(text, bytes_out) && *bytes_out > 0;
}

static bool add_call(bench_coll_options_t *options, const char *word)
{
    bool found = false;
    for (int call = 0; call < BENCH_CALLS; call++) {
        if (strcmp(word, "all") == 0 || strcmp(word, bench_call_name((bench_call_t)call)) == 0)
            options->calls[call] = found = true;
    }
    return found;
}

static bool add_type(bench_coll_options_t *options, const char *word)
{
    const int before = options->type_count;
    for (int type = SELVAGE_INT8; type < BENCH_TYPES; type++) {
        if (strcmp(word, "all") != 0 && strcmp(word, selvage_type_name((selvage_type_t)type)) != 0)
            continue;
        if (options->type_count == BENCH_TYPES)
            return false;
        options->types[options->type_count++] = (selvage_type_t)type;
    }
    return options->type_count > before;
}

static bool add_op(bench_coll_options_t *options, const char *word)
{
    const int before = options->op_count;
    for (int op = 0; op < BENCH_OPS; op++) {
        if (strcmp(word, "all") != 0 && strcmp(word, bench_op_name((bench_op_t)op)) != 0)
            continue;
        if (options->op_count == BENCH_OPS)
            return false;
        options->ops[options->op_count++] = (bench_op_t)op;
    }
    return options->op_count > before;
}

static bool add_forced(bench_forced_t *forced, const char *word)
{
    if (forced->count == BENCH_FORCED_MAX)
        return false;
    snprintf(forced->word[forced->count++], BENCH_WORD_BYTES, "%s", word);
    return true;
}

static bool add_algo(bench_coll_options_t *options, const char *word)
{
    return add_forced(&options->algos, word);
}

static bool add_proto(bench_coll_options_t *options, const char *word)
{
    return add_forced(&options->protos, word);
}

static bool add_channels(bench_coll_options_t *options, const char *word)
{
    int number;
    return tool_whole_number(word, 1, 64, &number) && add_forced(&options->channels, word);
}

static bool add_tuned(bench_coll_options_t *options, const char *word)
{
    bench_options_t *nccl = &options->nccl;
    if (strcmp(word, "no") == 0)
        return true;
    return nccl->nccl_tuned_count < BENCH_NCCL_TUNED_MAX &&
           tool_whole_number(word, 1, 64, &nccl->nccl_tuned[nccl->nccl_tuned_count++]);
}

/* Gives each comma-separated word to `add`; empty words are refused. */
static bool each_word(bench_coll_options_t *options, const char *list,
                      bool (*add)(bench_coll_options_t *, const char *))
{
    char word[BENCH_WORD_BYTES];
    while (list)
        if (!tool_next_word(&list, word, sizeof word) || !add(options, word))
            return false;
    return true;
}

/* One of three words for off, on and both. */
static bool take_switch(bool value[2], const char *off, const char *on)
{
    const bool both = strcmp(optarg, "both") == 0;
    value[0] = both || strcmp(optarg, off) == 0;
    value[1] = both || strcmp(optarg, on) == 0;
    return value[0] || value[1];
}

static bool take_file(const char **file_out)
{
    *file_out = optarg;
    return *optarg != '\0';
}

static bool take_list(bench_coll_options_t *options, int letter)
{
    switch (letter) {
    case 'c':
        memset(options->calls, 0, sizeof options->calls);
        return each_word(options, optarg, add_call);
    case 't':
        options->type_count = 0;
        return each_word(options, optarg, add_type);
    case 'o':
        options->op_count = 0;
        return each_word(options, optarg, add_op);
    case 'A':
        options->algos.count = 0;
        return each_word(options, optarg, add_algo);
    case 'P':
        options->protos.count = 0;
        return each_word(options, optarg, add_proto);
    case 'C':
        options->channels.count = 0;
        return each_word(options, optarg, add_channels);
    default:
        options->nccl.nccl_tuned_count = 0;
        return each_word(options, optarg, add_tuned);
    }
}

static bool take_number(bench_coll_options_t *options, int letter)
{
    switch (letter) {
    case 'a':
        return positive_size(optarg, &options->min_bytes);
    case 'b':
        return positive_size(optarg, &options->max_bytes);
    case 'B':
        return positive_size(optarg, &options->fifo_bytes);
    case 'f':
        return tool_whole_number(optarg, 2, 1 << 20, &options->factor);
    case 'r':
        return tool_whole_number(optarg, 0, 1 << 20, &options->root);
    case 's':
        return tool_positive_number(optarg, &options->seconds);
    case 'n':
        return tool_whole_number(optarg, 1, BENCH_REPETITIONS_MAX, &options->repetitions);
    case 'R':
        return tool_whole_number(optarg, 1, BENCH_COLL_RUNS_MAX, &options->runs);
    case 'N':
        return tool_whole_number(optarg, 1, 100000000, &options->fifo_calls);
    default:
        return tool_whole_number(optarg, 1, 64, &options->nccl.nccl_channels);
    }
}

static bool take_option(bench_coll_options_t *options, int letter)
{
    if (strchr("ctoAPCu", letter))
        return take_list(options, letter);
    if (strchr("abBfrsnRNm", letter))
        return take_number(options, letter);
    switch (letter) {
    case 'p':
        options->place_given = true;
        return take_switch(options->in_place, "out", "in");
    case 'g':
        options->register_given = true;
        return take_switch(options->registered, "off", "on");
    case 'k':
        return take_switch(options->checksum, "off", "on");
    case 'H':
        return options->host = true;
    case 'F':
        return options->fifo = true;
    case 'S':
        return take_file(&options->sweep);
    case 'l':
        return take_file(&options->nccl.nccl);
    case 'j':
        return take_file(&options->json);
    case 'v':
        return take_file(&options->csv);
    case 'q':
        return take_file(&options->plot);
    case 'x':
        return take_file(&options->floors);
    case 'w':
        return take_file(&options->write_floors);
    default:
        return options->help = true;
    }
}

static void set_defaults(bench_coll_options_t *options)
{
    *options = (bench_coll_options_t){.types = {SELVAGE_FLOAT32},
                                      .type_count = 1,
                                      .ops = {BENCH_SUM},
                                      .op_count = 1,
                                      .seconds = 0.1,
                                      .runs = 3,
                                      .fifo_calls = 10000,
                                      .fifo_bytes = 64 << 10,
                                      .in_place = {true, true},
                                      .registered = {true, true},
                                      .checksum = {true, true},
                                      .nccl = {.nccl_tuned = {16, 32}, .nccl_tuned_count = 2}};
    (void)add_call(options, "all");
}

/* A sweep tries everything, unless told what, of buffers as they should be. */
static void prepare_sweep(bench_coll_options_t *options)
{
    if (!options->sweep)
        return;
    if (options->algos.count == 0)
        (void)each_word(options, "oneshot,twoshot,direct_one,direct_two,ring,pat", add_algo);
    if (options->protos.count == 0)
        (void)each_word(options, "ll,ll128,simple", add_proto);
    options->calls[BENCH_BARRIER] = false;
    if (!options->place_given)
        options->in_place[1] = false;
    if (!options->register_given)
        options->registered[0] = false;
}

/* What no single option can know. */
static void check_together(const bench_coll_options_t *options, char *error_text, size_t error_bytes)
{
    if (options->sweep && options->fifo)
        snprintf(error_text, error_bytes, "a sweep and the FIFO are two runs");
    else if (options->fifo && (options->csv || options->plot || options->floors || options->write_floors))
        snprintf(error_text, error_bytes, "of the FIFO there is JSON only");
    else if (options->min_bytes && options->max_bytes && options->min_bytes > options->max_bytes)
        snprintf(error_text, error_bytes, "--min is above --max");
}

bool bench_coll_options_parse(int argc, char **argv, bench_coll_options_t *options_out, char *error_text,
                              size_t error_bytes)
{
    bench_coll_options_t options;
    int letter, index = 0;
    set_defaults(&options);
    error_text[0] = '\0';
    opterr = 0;
    optind = 0; /* glibc: start afresh */
    while ((letter = getopt_long(argc, argv, "", long_options, &index)) != -1) {
        if (letter == '?')
            snprintf(error_text, error_bytes, "unknown or incomplete option '%.80s'", argv[optind - 1]);
        else if (!take_option(&options, letter))
            snprintf(error_text, error_bytes, "bad value '%.80s' of --%s", optarg ? optarg : "",
                     long_options[index].name);
        if (error_text[0])
            return false;
    }
    if (optind < argc)
        snprintf(error_text, error_bytes, "unexpected argument '%.80s'", argv[optind]);
    else
        check_together(&options, error_text, error_bytes);
    prepare_sweep(&options);
    *options_out = options;
    return error_text[0] == '\0';
}
