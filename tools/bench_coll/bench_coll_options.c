/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command line of `selvage-bench coll`, by the table of tool_options.h. Words that the library is forced to are not
 * checked here: they are the library's own.
 */
#include "tools/bench_coll/bench_coll_options.h"

#include <string.h>

#include "tools/common/tool_options.h"
#include "tools/common/tool_words.h"

void bench_coll_options_usage(FILE *stream)
{
    fputs("usage: mpirun -n N selvage-bench coll [options]\n"
          "times collectives, each checked element by element first, beside those of NCCL or RCCL.\n\n"
          "  --calls LIST         all (the default), or some of all_reduce,reduce_scatter,all_gather,broadcast,\n"
          "                       reduce,all_to_all,sendrecv,barrier\n"
          "  --types LIST         all, or some of float32 (the default),bfloat16,int8,...\n"
          "  --ops LIST           all, or some of sum (the default),prod,min,max,avg,premul\n"
          "  --min B --max B      sizes, from 8 to 512M (on the software device 32K),\n"
          "  --factor N           each N times the one before (4; on the software device 16)\n"
          "  --root R             of broadcast and reduce (default 0)\n"
          "  --place P            out, in, or both (the default): out of place, in place\n"
          "  --register W         off, on, or both (the default): buffers that peers have mapped\n"
          "  --checksums LIST     off,on (the default), on, or off\n"
          "  --algos LIST --protos LIST --channels LIST\n"
          "                       what the library is forced to, every combination (default: its own choice)\n"
          "  --sweep FILE         all algorithms and protocols, the fastest of each size into a tuning file\n"
          "  --graph              20 of each call captured and replayed, those of NCCL too\n"
          "  --host               also the host's time in a call, beside that of a bare launch\n"
          "  --fifo               many grouped calls through a small FIFO of work, instead of the table\n"
          "  --fifo-calls N --fifo-bytes B   (10000; 64K)\n"
          "  --seconds S          time for each figure and run (default 0.1)\n"
          "  --repetitions N      calls of a batch, instead of by time\n"
          "  --runs N             runs of each figure, rivals in turn; their median counts (default 3)\n"
          "  --nccl FILE --nccl-channels N --nccl-tuned LIST   as for selvage-bench exchange\n"
          "  --json FILE --csv FILE --plot FILE.svg\n"
          "  --floors FILE        compare with the GB/s in this file; --write-floors FILE writes it\n"
          "  --help --version\n\n"
          "Exit status: 0; 1 if an element was wrong, a figure below its floor or a file not written; 2 for a wrong\n"
          "command line.\n",
          stream);
}

static const char *name_of_call(int call)
{
    return bench_call_name((bench_call_t)call);
}

static bool take_type(void *value, const char *word)
{
    bench_coll_options_t *options = value;
    const int before = options->type_count;
    if (!word) {
        options->type_count = 0;
        return true;
    }
    for (int type = SELVAGE_INT8; type < BENCH_TYPES; type++) {
        if (strcmp(word, "all") != 0 && strcmp(word, selvage_type_name((selvage_type_t)type)) != 0)
            continue;
        if (options->type_count == BENCH_TYPES)
            return false;
        options->types[options->type_count++] = (selvage_type_t)type;
    }
    return options->type_count > before;
}

static bool take_op(void *value, const char *word)
{
    bench_coll_options_t *options = value;
    const int before = options->op_count;
    if (!word) {
        options->op_count = 0;
        return true;
    }
    for (int op = 0; op < BENCH_OPS; op++) {
        if (strcmp(word, "all") != 0 && strcmp(word, bench_op_name((bench_op_t)op)) != 0)
            continue;
        if (options->op_count == BENCH_OPS)
            return false;
        options->ops[options->op_count++] = (bench_op_t)op;
    }
    return options->op_count > before;
}

/* A word that the library is to be forced to. */
static bool take_forced(void *value, const char *word)
{
    bench_forced_t *forced = value;
    if (!word) {
        forced->count = 0;
        return true;
    }
    if (forced->count == BENCH_FORCED_MAX || strlen(word) >= BENCH_WORD_BYTES)
        return false;
    snprintf(forced->word[forced->count++], BENCH_WORD_BYTES, "%s", word);
    return true;
}

static bool take_forced_number(void *value, const char *word)
{
    int number;
    return (!word || tool_whole_number(word, 1, 64, &number)) && take_forced(value, word);
}

/* One of three words, for off, on and both: value is a bool[2]. */
static bool take_switch(void *value, const char *word, const char *off, const char *on)
{
    bool *is = value;
    const bool both = strcmp(word, "both") == 0;
    is[0] = both || strcmp(word, off) == 0;
    is[1] = both || strcmp(word, on) == 0;
    return is[0] || is[1];
}

/* Words of a list; both, as the other switches have it, is a word, too. */
static bool take_off_on(void *value, const char *word)
{
    bool *is = value, more[2];
    if (!word) {
        is[0] = is[1] = false;
        return true;
    }
    const bool understood = take_switch(more, word, "off", "on");
    is[0] = is[0] || more[0];
    is[1] = is[1] || more[1];
    return understood;
}

static bool take_place(void *value, const char *word)
{
    bench_coll_options_t *options = value;
    options->place_given = true;
    return take_switch(options->in_place, word, "out", "in");
}

static bool take_register(void *value, const char *word)
{
    bench_coll_options_t *options = value;
    options->register_given = true;
    return take_switch(options->registered, word, "off", "on");
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
    for (int call = 0; call < BENCH_CALLS; call++)
        options->calls[call] = true;
}

/* A sweep tries everything, unless told what, of buffers as they should be. */
static void prepare_sweep(bench_coll_options_t *options)
{
    if (!options->sweep)
        return;
    static const char *const algos[] = {"oneshot", "twoshot", "direct_one", "direct_two", "ring", "pat"};
    static const char *const protos[] = {"ll", "ll128", "simple"};
    for (size_t i = 0, given = (size_t)options->algos.count; given == 0 && i < sizeof algos / sizeof *algos; i++)
        (void)take_forced(&options->algos, algos[i]);
    for (size_t i = 0, given = (size_t)options->protos.count; given == 0 && i < sizeof protos / sizeof *protos; i++)
        (void)take_forced(&options->protos, protos[i]);
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
    const tool_option_t table[] = {
        {"calls", TOOL_NAMES, .value = options.calls, .room = BENCH_CALLS, .name_of = name_of_call},
        {"types", TOOL_WORDS, .value = &options, .take = take_type},
        {"ops", TOOL_WORDS, .value = &options, .take = take_op},
        {"min", TOOL_SIZE, .value = &options.min_bytes},
        {"max", TOOL_SIZE, .value = &options.max_bytes},
        {"factor", TOOL_WHOLE, .value = &options.factor, .low = 2, .high = 1 << 20},
        {"root", TOOL_WHOLE, .value = &options.root, .low = 0, .high = 1 << 20},
        {"place", TOOL_WORD, .value = &options, .take = take_place},
        {"register", TOOL_WORD, .value = &options, .take = take_register},
        {"checksums", TOOL_WORDS, .value = options.checksum, .take = take_off_on},
        {"algos", TOOL_WORDS, .value = &options.algos, .take = take_forced},
        {"protos", TOOL_WORDS, .value = &options.protos, .take = take_forced},
        {"channels", TOOL_WORDS, .value = &options.channels, .take = take_forced_number},
        {"seconds", TOOL_POSITIVE, .value = &options.seconds},
        {"repetitions", TOOL_WHOLE, .value = &options.repetitions, .low = 1, .high = BENCH_REPETITIONS_MAX},
        {"runs", TOOL_WHOLE, .value = &options.runs, .low = 1, .high = BENCH_COLL_RUNS_MAX},
        {"graph", TOOL_FLAG, .value = &options.graph},
        {"host", TOOL_FLAG, .value = &options.host},
        {"sweep", TOOL_TEXT, .value = &options.sweep},
        {"fifo", TOOL_FLAG, .value = &options.fifo},
        {"fifo-calls", TOOL_WHOLE, .value = &options.fifo_calls, .low = 1, .high = 100000000},
        {"fifo-bytes", TOOL_SIZE, .value = &options.fifo_bytes},
        {"nccl", TOOL_TEXT, .value = &options.nccl.nccl},
        {"nccl-channels", TOOL_WHOLE, .value = &options.nccl.nccl_channels, .low = 1, .high = 64},
        {"nccl-tuned", TOOL_WORDS, .value = &options.nccl, .take = bench_take_channels},
        {"json", TOOL_TEXT, .value = &options.json},
        {"csv", TOOL_TEXT, .value = &options.csv},
        {"plot", TOOL_TEXT, .value = &options.plot},
        {"floors", TOOL_TEXT, .value = &options.floors},
        {"write-floors", TOOL_TEXT, .value = &options.write_floors},
        {"help", TOOL_FLAG, .value = &options.help},
        {"version", TOOL_FLAG, .value = &options.version},
    };
    set_defaults(&options);
    if (tool_options_parse(argc, argv, table, sizeof table / sizeof *table, NULL, error_text, error_bytes))
        check_together(&options, error_text, error_bytes);
    prepare_sweep(&options);
    *options_out = options;
    return error_text[0] == '\0';
}
