/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the applications have in common: MPI and Selvage set up, the check of every status, options, progress. None of
 * it is about halos.
 */
#ifndef EXAMPLE_MAIN_H
#define EXAMPLE_MAIN_H

#include <mpi.h>
#include <selvage.h>

/* Ends the job, saying what failed and why, if a call of Selvage's did not succeed. */
#define CHECK(call) example_check((call), #call)

typedef struct example {
    const char *name; /* of the program, for messages */
    int rank, ranks;
    selvage_device_t *device;
    selvage_comm_t *comm;
    void *stream;
} example_t;

void example_check(selvage_status_t status, const char *what);

/* Ends the job with a message: for what is wrong on one rank only, so that the others must not wait. */
void example_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* MPI_Init_thread; name, rank and ranks. */
void example_init(int *argc, char ***argv, const char *name, example_t *ex);

/* Opens this rank's device (of the kind named; NULL: SELVAGE_DEVICE's), a communicator of all ranks, and a stream. */
void example_open(example_t *ex, const char *device);
void example_close(example_t *ex);

/* One option "--name VALUE". Of NUMBERS 1 to 4 are read, as in 8x8x16 (0: not given); FLAG takes no value. */
typedef enum option_kind { OPTION_INT, OPTION_REAL, OPTION_TEXT, OPTION_NUMBERS, OPTION_FLAG } option_kind_t;

typedef struct option {
    const char *name;
    option_kind_t kind;
    void *value;      /* int, double, const char *, int[4], int */
    double low, high; /* what numbers are allowed */
} option_t;

/*
 * Reads the arguments; what is not named keeps its value. Returns 0; -1 if there is anything else, which rank 0 says,
 * followed by `usage`, or if there is --help, which only prints `usage` and sets *help_out (may be NULL).
 */
int example_parse(const example_t *ex, int argc, char **argv, const option_t *options, int noptions,
                  const char *usage, int *help_out);

/* A bar on rank 0's standard error, if that is a terminal; ends the line when done reaches total. */
void example_progress(const example_t *ex, long done, long total);

#endif
