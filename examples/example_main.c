/* SPDX-License-Identifier: BSD-3-Clause */
#include "example_main.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BAR_COLUMNS = 40, NUMBERS_MAX = 4 };

static const char *program = "example";

void example_check(selvage_status_t status, const char *what)
{
    if (status != SELVAGE_SUCCESS)
        example_fail("%s: %s", what, selvage_status_name(status)); /* the library has said why */
}

void example_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

void example_init(int *argc, char ***argv, const char *name, example_t *ex)
{
    int provided;
    program = name;
    *ex = (example_t){.name = name};
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided); /* all of it only for SELVAGE_PROGRESS=thread */
    MPI_Comm_rank(MPI_COMM_WORLD, &ex->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ex->ranks);
}

void example_open(example_t *ex, const char *device)
{
    CHECK(selvage_device_open_local(device, &ex->device));
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = ex->device};
    CHECK(selvage_comm_create(MPI_COMM_WORLD, &params, &ex->comm));
    CHECK(selvage_stream_create(ex->device, &ex->stream));
}

void example_close(example_t *ex)
{
    selvage_stream_destroy(ex->device, ex->stream);
    selvage_comm_destroy(ex->comm);
    selvage_device_close(ex->device);
}

static int read_number(const option_t *option, const char *text, const char **end, double *number)
{
    char *stop;
    errno = 0;
    *number = option->kind == OPTION_REAL ? strtod(text, &stop) : (double)strtol(text, &stop, 10);
    *end = stop;
    return stop == text || errno != 0 || !(*number >= option->low && *number <= option->high) ? -1 : 0;
}

static int read_numbers(const option_t *option, const char *text)
{
    int *numbers = option->value, count = 0;
    double number;
    memset(numbers, 0, NUMBERS_MAX * sizeof *numbers);
    for (; count < NUMBERS_MAX && read_number(option, text, &text, &number) == 0; text++) {
        numbers[count++] = (int)number;
        if (*text == '\0')
            return 0;
        if (*text != 'x')
            return -1;
    }
    return -1;
}

/* Returns 0, or -1 if the value is none for this option. */
static int read_value(const option_t *option, const char *text)
{
    double number;
    if (option->kind == OPTION_TEXT) {
        *(const char **)option->value = text;
        return *text == '\0' ? -1 : 0;
    }
    if (option->kind == OPTION_NUMBERS)
        return read_numbers(option, text);
    if (read_number(option, text, &text, &number) != 0 || *text != '\0')
        return -1;
    if (option->kind == OPTION_REAL)
        *(double *)option->value = number;
    else
        *(int *)option->value = (int)number;
    return 0;
}

/* Takes one option and its value, if it has one. Returns how many arguments these are, or 0 with `why` written. */
static int take(char **argv, const option_t *options, int noptions, char *why, size_t why_bytes)
{
    for (int i = 0; i < noptions; i++) {
        if (strcmp(argv[0], options[i].name) != 0)
            continue;
        if (options[i].kind == OPTION_FLAG)
            return *(int *)options[i].value = 1;
        if (argv[1] != NULL && read_value(&options[i], argv[1]) == 0)
            return 2;
        snprintf(why, why_bytes, "%s cannot be %s", argv[0], argv[1] != NULL ? argv[1] : "empty");
        return 0;
    }
    snprintf(why, why_bytes, "no such option: %s", argv[0]);
    return 0;
}

int example_parse(const example_t *ex, int argc, char **argv, const option_t *options, int noptions,
                  const char *usage, int *help_out)
{
    char why[256];
    for (int i = 1, used; i < argc; i += used) {
        if (strcmp(argv[i], "--help") == 0) {
            if (ex->rank == 0)
                fputs(usage, stdout);
            if (help_out != NULL)
                *help_out = 1;
            return -1;
        }
        used = take(argv + i, options, noptions, why, sizeof why);
        if (used != 0)
            continue;
        if (ex->rank == 0)
            fprintf(stderr, "%s: %s\n%s", ex->name, why, usage);
        return -1;
    }
    return 0;
}

void example_progress(const example_t *ex, long done, long total)
{
    static int shown = -1;
    int columns = total > 0 ? (int)((double)done / (double)total * BAR_COLUMNS) : BAR_COLUMNS;
    if (ex->rank != 0 || columns == shown || !isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r%s [%.*s%*s] %3d %%%s", ex->name, columns, "########################################",
            BAR_COLUMNS - columns, "", columns * 100 / BAR_COLUMNS, done >= total ? "\n" : "");
    fflush(stderr);
    shown = done >= total ? -1 : columns;
}
