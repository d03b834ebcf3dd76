/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selvage-info: what Selvage finds here, and what it would do. The first thing to run on a new machine, and the first
 * thing to send with a question. It works without a launcher (as one rank) and without a GPU; --settings, --help and
 * --version work without MPI.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/tool_options.h"
#include "tools/info/info_print.h"

enum { EXIT_USAGE = 2 };

typedef struct options {
    bool settings, help, version;
    const char *json; /* a file, or - */
} options_t;

static void usage(FILE *stream)
{
    fputs("usage: [mpirun -n N] selvage-info [options]\n"
          "Prints what Selvage finds on this machine and in this job: how it was built, the MPI, the devices and why\n"
          "others are not here, each rank's device and what is close to it, the route between each two ranks, and\n"
          "the settings that are not the default.\n\n"
          "  --settings       every setting, with its value, source, range and meaning, and no more; needs no MPI\n"
          "  --json [FILE]    JSON, into the file or instead of the text\n"
          "  --help --version\n\n"
          "Exit status: 0, 1 if a rank has no device, no communicator can be made or a setting is refused, 2 for a\n"
          "wrong command line.\n",
          stream);
}

static bool parse(int argc, char **argv, options_t *options_out, char *error_text, size_t error_bytes)
{
    options_t options = {0};
    const tool_option_t table[] = {
        {"settings", TOOL_FLAG, .value = &options.settings},
        {"json", TOOL_OUTPUT, .value = &options.json},
        {"help", TOOL_FLAG, .value = &options.help},
        {"version", TOOL_FLAG, .value = &options.version},
    };
    int first = argc;
    bool understood =
        tool_options_parse(argc, argv, table, sizeof table / sizeof *table, &first, error_text, error_bytes);
    if (understood && options.json && strcmp(options.json, "-") == 0 && first < argc)
        options.json = argv[first++]; /* --json FILE, as with the other tools */
    if (understood && first < argc) {
        snprintf(error_text, error_bytes, "unexpected argument '%.80s'", argv[first]);
        understood = false;
    }
    *options_out = options;
    return understood;
}

static bool print(const options_t *options, const info_job_t *info)
{
    if (!options->json)
        return info_print_text(stdout, info);
    if (strcmp(options->json, "-") == 0)
        return info_print_json(stdout, info);
    FILE *file = fopen(options->json, "w");
    bool good = file && info_print_json(file, info);
    if (file && fclose(file) != 0)
        good = false;
    if (!file)
        fprintf(stderr, "selvage-info: %s cannot be written\n", options->json);
    return good && (!info || info_print_text(stdout, info));
}

static int answer_without_mpi(const options_t *options)
{
    if (tool_launcher_rank() != 0)
        return EXIT_SUCCESS;
    if (options->help)
        usage(stdout);
    else if (options->version)
        printf("selvage-info %s\n", selvage_version(NULL, NULL, NULL));
    else
        return print(options, NULL) ? EXIT_SUCCESS : EXIT_FAILURE;
    return EXIT_SUCCESS;
}

static int explain(const char *error)
{
    usage(stderr);
    fprintf(stderr, "\nselvage-info: %s\n", error);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    options_t options;
    info_job_t info = {0};
    int code = EXIT_USAGE;
    char error[160];
    const bool understood = parse(argc, argv, &options, error, sizeof error);
    if (understood && (options.help || options.version || options.settings))
        return answer_without_mpi(&options);
    if (!understood && !tool_is_launched())
        return explain(error);
    tool_job_init(&info.job, "selvage-info", &argc, &argv);
    if (understood) {
        info_job_find(&info);
        int shown = info.job.rank == 0 ? print(&options, &info) : 1;
        tool_bcast(&info.job, &shown, 1, MPI_INT);
        code = info.good && shown ? EXIT_SUCCESS : EXIT_FAILURE;
        info_job_fini(&info);
    } else if (info.job.rank == 0) {
        (void)explain(error);
    }
    tool_barrier(&info.job);
    tool_job_fini(&info.job);
    return code;
}
