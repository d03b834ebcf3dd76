/* SPDX-License-Identifier: BSD-3-Clause */
/* See bench_mpi_rival.h. Its results are the lines of --records; what else it prints goes to standard error. */
#define _GNU_SOURCE

#include "tools/bench_mpi/bench_mpi_rival.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench_mpi/bench_mpi_report.h"

enum { COMMAND_BYTES = 8192, LINE_BYTES = 512 };

extern char **environ;

static bool is_launchers(const char *variable)
{
    static const char *const beginnings[] = {"OMPI_",  "PMIX_", "PMI_",      "PRTE_",        "ORTE_",      "HYDI_",
                                             "HYDRA_", "MPIR_", "MPI_LOCAL", "SELVAGE_JOB=", "LD_PRELOAD="};
    static const char leave[] = "OMPI_ALLOW_RUN_AS_ROOT"; /* the user's own */
    bool found = false;
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
        found |= strncmp(variable, beginnings[i], strlen(beginnings[i])) == 0;
    return found && strncmp(variable, leave, strlen(leave)) != 0;
}

/* In the child only. Entries move up when one is taken away. */
static void leave_job(void)
{
    for (int i = 0; environ[i];) {
        const size_t length = strcspn(environ[i], "=");
        char name[length + 1];
        memcpy(name, environ[i], length);
        name[length] = '\0';
        if (is_launchers(environ[i]))
            unsetenv(name);
        else
            i++;
    }
}

/* The options of this run, but for files and ways. */
static void options_text(const bench_mpi_options_t *options, char *text, size_t bytes)
{
    size_t length = (size_t)snprintf(
        text, bytes,
        "--records --ways device --min %zu --max %zu --factor %d --window %d --iterations %d --repetitions %d "
        "--seconds %.17g --memory %zu --benchmarks ",
        options->min, options->max, options->factor, options->window, options->iterations, options->repetitions,
        options->seconds, options->memory);
    const char *comma = "";
    for (int which = 0; which < BENCH_MPI_KINDS && length < bytes; which++) {
        if (!options->benchmarks[which])
            continue;
        length += (size_t)snprintf(text + length, bytes - length, "%s%s", comma, bench_mpi_kind_name(which));
        comma = ",";
    }
}

static bool command_text(const bench_mpi_options_t *options, char *text, size_t bytes)
{
    char program[4096], words[1024];
    options_text(options, words, sizeof words);
    const char *place = strstr(options->rival, "{}");
    if (place)
        return snprintf(text, bytes, "%.*s%s%s", (int)(place - options->rival), options->rival, words, place + 2) <
               (int)bytes;
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0)
        return false;
    program[length] = '\0';
    return snprintf(text, bytes, "%s '%s' %s", options->rival, program, words) < (int)bytes;
}

/* A pipe from `sh -c command`, which may not read what this job is told. */
static FILE *start(const char *command, pid_t *child_out)
{
    int ends[2];
    if (pipe(ends) != 0)
        return NULL;
    const pid_t child = fork();
    if (child == 0) {
        leave_job();
        if (dup2(ends[1], STDOUT_FILENO) >= 0 && freopen("/dev/null", "r", stdin)) {
            close(ends[0]);
            close(ends[1]);
            execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        }
        _exit(127);
    }
    close(ends[1]);
    *child_out = child;
    return child > 0 ? fdopen(ends[0], "r") : NULL;
}

static bool find_row(const bench_mpi_run_t *run, const char *name, size_t bytes, int *which_out, int *row_out)
{
    for (int which = 0; which < BENCH_MPI_KINDS; which++) {
        for (int row = 0; row < bench_mpi_row_count(run, which) && strcmp(bench_mpi_kind_name(which), name) == 0;
             row++) {
            *which_out = which;
            *row_out = row;
            if (bench_mpi_row_bytes(run, which, row) == bytes)
                return true;
        }
    }
    return false;
}

/* False: the line is no record of a figure. */
static bool take_record(bench_mpi_run_t *run, const char *line)
{
    char name[32], verdict[16] = "";
    size_t bytes;
    int which, row;
    bench_mpi_result_t result = {.state = BENCH_MPI_RIGHT};
    const char *record = strstr(line, BENCH_MPI_RECORD);
    if (!record)
        return false;
    record += strlen(BENCH_MPI_RECORD);
    const int found = sscanf(record, "%31[^,],%*[^,],%zu,%*[^,],%lf,%lf,%d,%15s", name, &bytes, &result.value,
                             &result.seconds, &result.iterations, verdict);
    if (found != 6 || !find_row(run, name, bytes, &which, &row))
        return false;
    if (strcmp(verdict, "right") != 0)
        result.state = BENCH_MPI_WRONG;
    run->results[which][row][BENCH_MPI_RIVAL] = result;
    return true;
}

bool bench_mpi_rival(bench_mpi_run_t *run)
{
    char command[COMMAND_BYTES], line[LINE_BYTES];
    int taken = 0, status = 0;
    pid_t child = -1;
    FILE *pipe = command_text(&run->options, command, sizeof command) ? start(command, &child) : NULL;
    if (!pipe) {
        fprintf(stderr, "selvage-bench-mpi: --rival: the command could not be started\n");
        return false;
    }
    while (fgets(line, sizeof line, pipe)) {
        if (take_record(run, line))
            taken++;
        else if (!strstr(line, BENCH_MPI_RECORD))
            fputs(line, stderr);
    }
    fclose(pipe);
    (void)waitpid(child, &status, 0);
    if (taken == 0)
        fprintf(stderr, "selvage-bench-mpi: --rival: no results, status %d: %s\n",
                WIFEXITED(status) ? WEXITSTATUS(status) : -1, command);
    return taken > 0;
}
