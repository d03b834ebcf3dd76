/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selvage-smoke: is this machine's path from device to device right, and as fast as its parts allow?
 *
 * All ranks read the command line alike, so they agree on errors without a message. --help and --version work without
 * MPI. A wrong command line does where there is no launcher (tool_is_launched() says why).
 */
#include <stdio.h>
#include <stdlib.h>

#include "tools/smoke/smoke_report.h"
#include "tools/smoke/smoke_run.h"

enum { EXIT_USAGE = 2 };

static int answer_without_mpi(const smoke_options_t *options)
{
    if (tool_launcher_rank() != 0)
        return EXIT_SUCCESS;
    if (options->help)
        smoke_options_usage(stdout);
    else
        printf("selvage-smoke %s\n", selvage_version(NULL, NULL, NULL));
    return EXIT_SUCCESS;
}

static int explain(const char *text, bool usage)
{
    if (usage)
        smoke_options_usage(stderr);
    fprintf(stderr, "%sselvage-smoke: %s\n", usage ? "\n" : "", text);
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

static bool open_report(smoke_run_t *run, smoke_report_t *report)
{
    int opened = smoke_report_open(report, run->job.rank, run->options.json);
    tool_bcast(&run->job, &opened, 1, MPI_INT);
    run->report = report;
    return opened;
}

/* Every packet of the job right, and the report stored. */
static bool run_smoke(smoke_run_t *run)
{
    smoke_run_init(run);
    smoke_report_head(run->report, run);
    smoke_run_all(run);
    smoke_report_end(run->report, run);
    int stored = smoke_report_close(run->report);
    if (!stored)
        fprintf(stderr, "selvage-smoke: the JSON file could not be written\n");
    tool_bcast(&run->job, &stored, 1, MPI_INT);
    const bool right = smoke_totals_right(&run->totals);
    smoke_run_fini(run);
    return right && stored;
}

int main(int argc, char **argv)
{
    static smoke_run_t run; /* too large for a small stack */
    smoke_report_t report;
    char error[160] = "";
    const bool understood = smoke_options_parse(argc, argv, &run.options, error, sizeof error);
    if (understood && (run.options.help || run.options.version))
        return answer_without_mpi(&run.options);
    if (!understood && !tool_is_launched())
        return explain(error, true);
    tool_job_init(&run.job, "selvage-smoke", &argc, &argv);
    if (!understood)
        return refuse(&run.job, error, true);
    if (!open_report(&run, &report))
        return refuse(&run.job, "the JSON file cannot be opened", false);
    const bool right = run_smoke(&run);
    tool_job_fini(&run.job);
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
