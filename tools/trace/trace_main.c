/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selvage-trace: reads a timeline with time stamps of kernels, and says in one sentence which rank, link or part is
 * slow. Tables follow: where the time in epochs and collectives went, and what each rank did. No MPI and no device.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <selvage/version.h>

#include "tools/common/tool_options.h"
#include "tools/trace/trace_blame.h"

enum { EXIT_USAGE = 2, NAME_BYTES = 48 };

/* A cause that is above the median of its kind by less than this part of all time does not stand out. */
static const double stands_out = 0.2;

static const char *const cause_names[TRACE_CAUSES] = {"not begun", "no leave", "store", "signal", "link",
                                                      "move",      "verify",   "end",   "call"};

typedef struct trace_options {
    int top;
    bool help, version;
} trace_options_t;

static void usage(FILE *stream)
{
    fputs("usage: selvage-trace [options] FILE\n"
          "FILE is a timeline that was written with SELVAGE_TRACE=FILE and SELVAGE_TRACE_KERNELS=on.\n"
          "  --top N       rows of the table of causes (default 12)\n"
          "  --help --version\n",
          stream);
}

static double us(int64_t ns)
{
    return (double)ns / 1000;
}

static double percent(int64_t part, int64_t whole)
{
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

static void name_place(const trace_cause_t *cause, char *text)
{
    if (cause->kind == TRACE_LINK)
        snprintf(text, NAME_BYTES, "rank %d to rank %d", cause->rank, cause->peer);
    else
        snprintf(text, NAME_BYTES, "rank %d", cause->rank);
}

/* --- the sentence ------------------------------------------------------------------------------------------------- */

static void print_reason(const trace_cause_t *cause)
{
    switch (cause->kind) {
    case TRACE_BUSY:
        printf("Rank %d is slow: ranks wait for its kernels to begin", cause->rank);
        break;
    case TRACE_LEAVE:
        printf("Rank %d is slow: senders wait until it gives slots back", cause->rank);
        break;
    case TRACE_STORE:
        printf("Rank %d is slow in storing what it sends: ranks wait for that", cause->rank);
        break;
    case TRACE_SIGNAL:
        printf("Rank %d is slow in signalling what it has stored: ranks wait for that", cause->rank);
        break;
    case TRACE_LINK:
        printf("The link from rank %d to rank %d is slow: packets are on their way", cause->rank, cause->peer);
        break;
    case TRACE_MOVE:
        printf("Rank %d is slow in summing and storing what it receives", cause->rank);
        break;
    case TRACE_VERIFY:
        printf("Rank %d is slow in comparing digests", cause->rank);
        break;
    case TRACE_END:
        printf("Rank %d is slow in ending its kernels", cause->rank);
        break;
    default:
        printf("Rank %d is slow in collectives for which all had come", cause->rank);
    }
}

static void print_sentence(const trace_file_t *file, const trace_blame_t *blame)
{
    int64_t excess_ns;
    const trace_cause_t *worst = trace_blame_worst(blame, file->nranks, &excess_ns);
    if (worst && (double)excess_ns >= stands_out * (double)blame->total_ns) {
        print_reason(worst);
        printf(" for %.1f us, %.0f %% of all time in epochs and collectives, %.1f us at most (in epoch %" PRIu64
               " of %" PRIu32 ").\n", us(worst->ns), percent(worst->ns, blame->total_ns), us(worst->longest_ns),
               worst->epoch, worst->exchange);
        return;
    }
    int64_t of_kind[TRACE_CAUSES] = {0};
    int most = 0;
    for (size_t i = 0; i < blame->ncauses; i++)
        of_kind[blame->causes[i].kind] += blame->causes[i].ns;
    for (int kind = 1; kind < TRACE_CAUSES; kind++)
        most = of_kind[kind] > of_kind[most] ? kind : most;
    printf("No rank or link stands out: of all time in epochs and collectives, %.0f %% goes by with \"%s\".\n",
           percent(of_kind[most], blame->total_ns), cause_names[most]);
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

static void print_causes(const trace_blame_t *blame, int top)
{
    char place[NAME_BYTES];
    int64_t shown_ns = 0, all_ns = 0;
    printf("\n%-10s %-22s %12s %7s %9s %12s  %s\n", "part", "of", "us", "%", "times", "longest us", "in epoch");
    for (size_t i = 0; i < blame->ncauses; i++) {
        const trace_cause_t *cause = &blame->causes[i];
        all_ns += cause->ns;
        if (cause->ns == 0 || i >= (size_t)top)
            continue;
        shown_ns += cause->ns;
        name_place(cause, place);
        printf("%-10s %-22s %12.1f %7.1f %9" PRIu64 " %12.1f  %" PRIu64 " of %" PRIu32 "\n", cause_names[cause->kind],
               place, us(cause->ns), percent(cause->ns, blame->total_ns), cause->times, us(cause->longest_ns),
               cause->epoch, cause->exchange);
    }
    if (all_ns > shown_ns)
        printf("%-10s %-22s %12.1f %7.1f\n", "others", "", us(all_ns - shown_ns),
               percent(all_ns - shown_ns, blame->total_ns));
    printf("%-10s %-22s %12.1f %7.1f\n", "all", "", us(blame->total_ns), percent(all_ns, blame->total_ns));
}

static void print_ranks(const trace_file_t *file, const trace_blame_t *blame)
{
    double worst = 0;
    printf("\n%5s %8s %13s %12s %12s %12s %12s %13s\n", "rank", "spans", "wall us", "wait us", "move us", "verify us",
           "end us", "between us");
    for (int r = 0; r < file->nranks; r++) {
        const trace_share_t *share = &blame->shares[r];
        const int64_t wall_ns = share->last_ns - share->first_ns;
        const int64_t parts_ns =
            share->wait_ns + share->store_ns + share->verify_ns + share->end_ns + share->between_ns;
        const double apart = percent(parts_ns > wall_ns ? parts_ns - wall_ns : wall_ns - parts_ns, wall_ns);
        if (share->spans == 0)
            continue;
        worst = apart > worst ? apart : worst;
        printf("%5d %8" PRIu64 " %13.1f %12.1f %12.1f %12.1f %12.1f %13.1f\n", r, share->spans, us(wall_ns),
               us(share->wait_ns), us(share->store_ns), us(share->verify_ns), us(share->end_ns),
               us(share->between_ns));
    }
    printf("Parts add up to wall time within %.2f %%.\n", worst);
}

static void print_quality(const trace_file_t *file)
{
    trace_rank_t all = {0};
    for (int r = 0; r < file->nranks; r++) {
        const trace_rank_t *rank = &file->ranks[r];
        all.groups += rank->groups;
        all.lost += rank->lost;
        all.unfinished += rank->unfinished;
        all.overwritten += rank->overwritten;
        all.resolution_ns = rank->resolution_ns > all.resolution_ns ? rank->resolution_ns : all.resolution_ns;
        all.device_error_ns = rank->device_error_ns > all.device_error_ns ? rank->device_error_ns : all.device_error_ns;
        all.host_error_ns = rank->host_error_ns > all.host_error_ns ? rank->host_error_ns : all.host_error_ns;
    }
    printf("Clocks go in steps of %" PRIu64 " ns at most; device and host may be apart by %" PRIu64
           " ns, hosts by %" PRIu64 " ns.\n", all.resolution_ns, all.device_error_ns, all.host_error_ns);
    printf("%" PRIu64 " groups of blocks; of blocks, %" PRIu64 " were lost for want of room, %" PRIu64
           " did not end, %" PRIu64 " were overwritten by replays.\n",
           all.groups, all.lost, all.unfinished, all.overwritten);
}

/* --- the program -------------------------------------------------------------------------------------------------- */

static int print_file(const char *path, const trace_options_t *options)
{
    trace_file_t file = {0};
    trace_blame_t blame;
    char error[512];
    if (!trace_file_read(path, &file, error, sizeof error)) {
        fprintf(stderr, "selvage-trace: %s\n", error);
        return EXIT_FAILURE;
    }
    if (file.nends == 0) {
        fprintf(stderr, "selvage-trace: %s has no time stamps of kernels: it needs SELVAGE_TRACE_KERNELS=on, and "
                "packets or collectives that kernels move\n", path);
        trace_file_free(&file);
        return EXIT_FAILURE;
    }
    const bool good = trace_blame_find(&file, &blame);
    if (good) {
        print_sentence(&file, &blame);
        print_causes(&blame, options->top);
        print_ranks(&file, &blame);
        print_quality(&file);
        trace_blame_free(&blame);
    } else {
        fprintf(stderr, "selvage-trace: no memory\n");
    }
    trace_file_free(&file);
    return good && fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int explain(const char *text)
{
    usage(stderr);
    fprintf(stderr, "\nselvage-trace: %s\n", text);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    trace_options_t options = {.top = 12};
    const tool_option_t rows[] = {
        {.name = "top", .kind = TOOL_WHOLE, .value = &options.top, .low = 1, .high = 1000000},
        {.name = "help", .kind = TOOL_FLAG, .value = &options.help},
        {.name = "version", .kind = TOOL_FLAG, .value = &options.version}};
    char error[256];
    int first = argc;
    if (!tool_options_parse(argc, argv, rows, sizeof rows / sizeof rows[0], &first, error, sizeof error)) {
        return explain(error);
    }
    if (options.help) {
        usage(stdout);
        return EXIT_SUCCESS;
    }
    if (options.version) {
        printf("selvage-trace %s\n", selvage_version(NULL, NULL, NULL));
        return EXIT_SUCCESS;
    }
    if (first != argc - 1) {
        return explain("it takes one file");
    }
    return print_file(argv[first], &options);
}
