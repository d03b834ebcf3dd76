/* SPDX-License-Identifier: BSD-3-Clause */
/* `selvage-bench coll` from its command line to its exit status; as bench_main.c has it for the other commands. */
#include "tools/bench_coll/bench_coll_main.h"

#include <stdio.h>
#include <stdlib.h>

#include "tools/bench_coll/bench_coll_report.h"
#include "tools/bench_coll/bench_coll_run.h"
#include "tools/bench/bench_report.h"

enum { EXIT_USAGE = 2 };

static int explain(const char *text, bool usage)
{
    if (usage)
        bench_coll_options_usage(stderr);
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

static int files_can_be_written(const tool_job_t *job, const bench_coll_options_t *options)
{
    const char *const files[] = {options->json, options->csv, options->plot, options->write_floors, options->sweep};
    int good = 1;
    for (size_t i = 0; job->rank == 0 && i < sizeof files / sizeof files[0]; i++)
        good &= bench_report_writable(files[i]);
    tool_bcast(job, &good, 1, MPI_INT);
    return good;
}

static bool stored(const char *path, bool written)
{
    if (!written)
        fprintf(stderr, "selvage-bench: %s could not be written\n", path);
    return written;
}

static bool check_floors(const bench_coll_run_t *run)
{
    const bench_coll_options_t *options = &run->options;
    bench_figures_t figures;
    bench_coll_figures(run, &figures);
    bool good = !options->floors || bench_floors_compare(&figures, options->floors) == 0;
    if (options->write_floors)
        good &= stored(options->write_floors, bench_floors_write(&figures, options->write_floors));
    free(figures.figure);
    return good;
}

/* Rank 0: the files, the floors and the verdict. */
static bool conclude(const bench_coll_run_t *run)
{
    const bench_coll_options_t *options = &run->options;
    int checked = 0, bad = 0;
    for (int i = 0; i < run->row_count; i++) {
        checked += run->rows[i].available;
        bad += run->rows[i].wrong != 0;
    }
    bool good = bad == 0;
    if (options->sweep)
        good &= stored(options->sweep, bench_coll_winners(run));
    printf("\n%d results compared element by element with what they must be, %d bad\n", checked, bad);
    if (options->json)
        good &= stored(options->json, bench_coll_report_json(run, options->json));
    if (options->csv)
        good &= stored(options->csv, bench_coll_report_csv(run, options->csv));
    if (options->plot)
        good &= stored(options->plot, bench_coll_plot_write(run, options->plot));
    return check_floors(run) && good;
}

static int run_all(bench_coll_run_t *run)
{
    int good;
    bench_coll_run_init(run);
    if (run->options.fifo) {
        good = bench_coll_fifo(run);
    } else {
        if (run->job.rank == 0)
            bench_coll_report_head(run);
        bench_coll_run_all(run, bench_coll_report_row);
        good = run->job.rank != 0 || conclude(run);
    }
    tool_bcast(&run->job, &good, 1, MPI_INT);
    bench_coll_run_fini(run);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int answer_without_mpi(const bench_coll_options_t *options)
{
    if (tool_launcher_rank() != 0)
        return EXIT_SUCCESS;
    if (options->help)
        bench_coll_options_usage(stdout);
    else
        printf("selvage-bench %s\n", selvage_version(NULL, NULL, NULL));
    return EXIT_SUCCESS;
}

int bench_coll(int argc, char **argv)
{
    static bench_coll_run_t run; /* too large for a small stack */
    char error[160];
    const bool understood = bench_coll_options_parse(argc, argv, &run.options, error, sizeof error);
    if (understood && (run.options.help || run.options.version))
        return answer_without_mpi(&run.options);
    if (!understood && !tool_is_launched())
        return explain(error, true);
    tool_job_init(&run.job, "selvage-bench", &argc, &argv);
    if (!understood)
        return refuse(&run.job, error, true);
    if (run.options.root >= run.job.size)
        return refuse(&run.job, "--root: there is no such rank", true);
    if (!files_can_be_written(&run.job, &run.options))
        return refuse(&run.job, "a file to be written cannot be opened", false);
    const int status = run_all(&run);
    tool_job_fini(&run.job);
    return status;
}
