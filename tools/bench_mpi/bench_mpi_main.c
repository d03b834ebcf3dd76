/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selvage-bench-mpi: what a plain MPI program gets from its MPI, on host memory, on device memory and staged by hand.
 * It runs with the drop-in preloaded, without, and under any GPU-aware MPI that it was built for. Where there is no GPU
 * it has its device memory from Selvage; that is all it uses of it.
 *
 * All ranks read the command line alike, so they agree on errors without a message. --help and --version work without
 * MPI. A wrong command line does where there is no launcher (tool_is_launched() says why).
 */
#include <stdio.h>
#include <stdlib.h>

#include "config.h"
#include "tools/bench_mpi/bench_mpi_report.h"
#include "tools/bench_mpi/bench_mpi_rival.h"
#include "tools/common/tool_launch.h"

enum { EXIT_USAGE = 2 };

static int answer_without_mpi(const bench_mpi_options_t *options)
{
    if (tool_launcher_rank() != 0)
        return EXIT_SUCCESS;
    if (options->help)
        bench_mpi_options_usage(stdout);
    else
        printf("selvage-bench-mpi %s\n", SELVAGE_VERSION_TEXT);
    return EXIT_SUCCESS;
}

static int explain(const char *text)
{
    bench_mpi_options_usage(stderr);
    fprintf(stderr, "\nselvage-bench-mpi: %s\n", text);
    return EXIT_USAGE;
}

static int refuse(const char *text)
{
    int rank;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        (void)explain(text);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return EXIT_USAGE;
}

static bool store(const char *path, bool (*write)(const bench_mpi_run_t *run, const char *path),
                  const bench_mpi_run_t *run)
{
    if (!path || write(run, path))
        return true;
    fprintf(stderr, "selvage-bench-mpi: %s could not be written\n", path);
    return false;
}

/* Rank 0: the files and the verdict. */
static bool conclude(const bench_mpi_run_t *run)
{
    const bench_mpi_options_t *options = &run->options;
    int compared = 0, wrong = 0, cliffs = 0;
    for (int which = 0; which < BENCH_MPI_KINDS; which++) {
        for (int row = 0; row < bench_mpi_row_count(run, which); row++) {
            for (int way = 0; way < BENCH_MPI_WAYS; way++) {
                compared += run->results[which][row][way].state != BENCH_MPI_NOT_MEASURED;
                wrong += run->results[which][row][way].state == BENCH_MPI_WRONG;
            }
        }
    }
    if (!options->records) {
        cliffs = bench_mpi_report_cliffs(run);
        printf("\n%d cells compared element by element with what must have arrived, %d wrong\n", compared, wrong);
    }
    bool good = wrong == 0 && (cliffs == 0 || !options->cliffs);
    good &= store(options->json, bench_mpi_report_json, run);
    return store(options->csv, bench_mpi_report_csv, run) && good;
}

static void run_all(bench_mpi_run_t *run)
{
    const bool table = run->job.rank == 0 && !run->options.records;
    if (table)
        bench_mpi_report_head(run);
    for (int which = 0; which < BENCH_MPI_KINDS; which++) {
        if (!run->options.benchmarks[which])
            continue;
        if (table)
            bench_mpi_report_title(run, which);
        for (int row = 0; row < bench_mpi_row_count(run, which); row++) {
            bench_mpi_run_row(run, which, row);
            if (table)
                bench_mpi_report_row(run, which, row);
            else if (run->job.rank == 0)
                bench_mpi_report_records(run, which, row);
        }
    }
}

/* What has to be done before MPI_Init. False, and it has said so, if the run is not to be. */
static bool prepare(bench_mpi_run_t *run)
{
    const bench_mpi_options_t *options = &run->options;
    if (bench_mpi_run_needs_device(options))
        bench_mpi_device_open(&run->job.device);
    if (tool_launcher_rank() != 0)
        return true;
    if (!bench_mpi_report_writable(options->json) || !bench_mpi_report_writable(options->csv)) {
        fprintf(stderr, "selvage-bench-mpi: a file to be written cannot be opened\n");
        return false;
    }
    return !options->rival || bench_mpi_rival(run);
}

int main(int argc, char **argv)
{
    static bench_mpi_run_t run; /* too large for a small stack */
    char error[160];
    const bool understood = bench_mpi_options_parse(argc, argv, &run.options, error, sizeof error);
    if (understood && (run.options.help || run.options.version))
        return answer_without_mpi(&run.options);
    if (!understood)
        return tool_is_launched() ? refuse(error) : explain(error);
    int good = prepare(&run);
    if (!good && !tool_is_launched())
        return EXIT_FAILURE;
    MPI_Init(&argc, &argv);
    MPI_Bcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (good) {
        bench_mpi_run_init(&run);
        run_all(&run);
        good = run.job.rank != 0 || conclude(&run);
        MPI_Bcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD);
        bench_mpi_run_fini(&run);
    }
    MPI_Finalize();
    if (bench_mpi_run_needs_device(&run.options))
        bench_mpi_device_close(&run.job.device);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
