/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selvage-bench: how fast are exchanges on this machine, how near to what its links can do, is anything else faster?
 *
 * All ranks read the command line alike, so they agree on errors without a message. --help and --version work without
 * MPI. A wrong command line does where there is no launcher (tool_is_launched() says why).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/bench_coll/bench_coll_main.h"
#include "tools/bench/bench_floors.h"
#include "tools/bench/bench_report.h"
#include "tools/bench/bench_run.h"
#include "tools/bench/bench_tables.h"

enum { EXIT_USAGE = 2 };

static int answer_without_mpi(const bench_options_t *options)
{
    if (tool_launcher_rank() != 0)
        return EXIT_SUCCESS;
    if (options->help)
        bench_options_usage(stdout);
    else
        printf("selvage-bench %s\n", selvage_version(NULL, NULL, NULL));
    return EXIT_SUCCESS;
}

static int explain(const char *text, bool usage)
{
    if (usage)
        bench_options_usage(stderr);
    fprintf(stderr, "%sselvage-bench: %s\n", usage ? "\n" : "", text);
    return EXIT_USAGE;
}

static int refuse(tool_job_t *job, const char *text, bool usage)
{
    if (job->rank == 0)
        (void)explain(text, usage);
    tool_barrier(job);
    tool_job_fini(job);
    return EXIT_USAGE;
}

static int files_can_be_written(const tool_job_t *job, const bench_options_t *options)
{
    const char *const files[] = {options->json, options->csv, options->plot, options->write_floors};
    int good = 1;
    for (size_t i = 0; job->rank == 0 && i < sizeof files / sizeof files[0]; i++)
        good &= bench_report_writable(files[i]);
    tool_bcast(job, &good, 1, MPI_INT);
    return good;
}

static bool check_floors(const bench_run_t *run)
{
    const bench_options_t *options = &run->options;
    bench_figures_t figures;
    bench_report_figures(run, &figures);
    bool good = !options->floors || bench_floors_compare(&figures, options->floors) == 0;
    if (options->write_floors && !bench_floors_write(&figures, options->write_floors)) {
        fprintf(stderr, "selvage-bench: %s could not be written\n", options->write_floors);
        good = false;
    }
    free(figures.figure);
    return good;
}

static bool store(const char *path, bool (*write)(const bench_run_t *run, const char *path), const bench_run_t *run)
{
    if (!path || write(run, path))
        return true;
    fprintf(stderr, "selvage-bench: %s could not be written\n", path);
    return false;
}

/* Rank 0: the files, the floors and the verdict. */
static bool conclude(const bench_run_t *run)
{
    const bench_options_t *options = &run->options;
    long checked = 0, bad = 0;
    for (int i = 0; i < run->row_count; i++) {
        checked += run->rows[i].checked;
        bad += run->rows[i].bad;
    }
    printf("\n%ld packets compared with what was sent, %ld bad\n", checked, bad);
    bool good = bad == 0;
    good &= store(options->json, bench_report_json, run);
    good &= store(options->csv, bench_report_csv, run);
    good &= store(options->plot, bench_plot_write, run);
    return check_floors(run) && good;
}

static int run_exchange(bench_run_t *run)
{
    int good = 1;
    bench_run_init(run);
    if (run->job.rank == 0)
        bench_report_head(run);
    bench_run_all(run, bench_report_row);
    if (run->job.rank == 0)
        good = conclude(run);
    tool_bcast(&run->job, &good, 1, MPI_INT);
    bench_run_fini(run);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Rank 0 knows whether all is well. */
static int run_table(bench_run_t *run, bool (*table)(bench_run_t *run))
{
    bench_run_init(run);
    int good = table(run);
    tool_bcast(&run->job, &good, 1, MPI_INT);
    bench_run_fini(run);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int run_probe(bench_run_t *run)
{
    bench_run_init(run);
    if (run->job.rank == 0) {
        printf("giving device pointers to the MPI; if nothing follows, it cannot take them\n");
        fflush(stdout);
    }
    const int bad = bench_run_probe(run);
    if (run->job.rank == 0)
        printf("device pointers through this MPI: %s\n", bad ? "wrong data" : "right");
    bench_run_fini(run);
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int run_command(bench_run_t *run)
{
    switch (run->options.command) {
    case BENCH_POLICIES:
        return run_table(run, bench_policies);
    case BENCH_HOST:
        return run_table(run, bench_host);
    case BENCH_CREATE:
        return run_table(run, bench_create);
    case BENCH_MESSAGES:
        return run_table(run, bench_message);
    case BENCH_PROBE:
        return run_probe(run);
    default:
        return run_exchange(run);
    }
}

/* The benchmark of plain MPI calls is a program of its own, beside this one: it is to be no more than plain MPI. */
static int become_bench_mpi(char **argv)
{
    static const char name[] = "selvage-bench-mpi";
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof name);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (slash) {
        strcpy(slash + 1, name);
        execv(path, argv);
    }
    fprintf(stderr, "selvage-bench: %s cannot be started\n", slash ? path : name);
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    static bench_run_t run; /* too large for a small stack */
    char error[160];
    if (argc > 1 && strcmp(argv[1], "coll") == 0)
        return bench_coll(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "mpi") == 0)
        return become_bench_mpi(argv + 1);
    const bool understood = bench_options_parse(argc, argv, &run.options, error, sizeof error);
    if (understood && (run.options.help || run.options.version))
        return answer_without_mpi(&run.options);
    if (!understood && !tool_is_launched())
        return explain(error, true);
    tool_job_init(&run.job, "selvage-bench", &argc, &argv);
    if (!understood)
        return refuse(&run.job, error, true);
    if (!files_can_be_written(&run.job, &run.options))
        return refuse(&run.job, "a file to be written cannot be opened", false);
    const int status = run_command(&run);
    tool_job_fini(&run.job);
    return status;
}
