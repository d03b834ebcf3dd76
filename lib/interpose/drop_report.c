/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What SELVAGE_REPORT=1 prints at MPI_Finalize: who gave device memory to whom, by which call and route, how much, and
 * how fast. The senders count rows, only if a report was asked for. The library itself always counts what came by the
 * fast route. One line tells of damage even if no report was asked for.
 *
 * Any thread counts, under the table's lock, which owns the rows. The report is collective.
 */
#include "interpose/drop_pairs.h"
#include "interpose/drop_route.h"

#include <selvage/stats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 4096, NAME_BYTES = 32, ROUTE_BYTES = 12, TO_ALL = -2 };

typedef struct row {
    char call[NAME_BYTES], route[ROUTE_BYTES];
    int from, to; /* ranks of MPI_COMM_WORLD; to -1: one outside of it; TO_ALL: of a collective call */
    int64_t messages, bytes;
    double seconds; /* of calls that blocked */
} row_t;

static struct {
    pthread_mutex_t lock;
    row_t *rows;
    int n;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int reported_world_rank(MPI_Comm comm, int peer)
{
    MPI_Group theirs, world;
    int inter = 0, found = MPI_UNDEFINED;
    PMPI_Comm_test_inter(comm, &inter);
    if ((inter ? PMPI_Comm_remote_group(comm, &theirs) : PMPI_Comm_group(comm, &theirs)) != MPI_SUCCESS)
        return -1;
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_translate_ranks(theirs, 1, &peer, world, &found);
    PMPI_Group_free(&theirs);
    PMPI_Group_free(&world);
    return found == MPI_UNDEFINED ? -1 : found;
}

/* The row of a call and a peer; NULL if the table is full. */
static row_t *find_row(const char *call, const char *route, int to)
{
    for (int i = 0; i < table.n; i++)
        if (table.rows[i].to == to && strncmp(table.rows[i].call, call, NAME_BYTES - 1) == 0 &&
            strcmp(table.rows[i].route, route) == 0)
            return &table.rows[i];
    if (!table.rows)
        table.rows = calloc(ROWS_MAX, sizeof *table.rows);
    if (!table.rows || table.n == ROWS_MAX)
        return NULL;
    row_t *row = &table.rows[table.n++];
    snprintf(row->call, sizeof row->call, "%s", call);
    snprintf(row->route, sizeof row->route, "%s", route);
    row->from = sv_drop_rank(MPI_COMM_WORLD);
    row->to = to;
    return row;
}

static void count_bytes(const char *call, const char *route, int to, int64_t bytes, double seconds)
{
    pthread_mutex_lock(&table.lock);
    row_t *row = find_row(call, route, to);
    if (row) {
        row->messages++;
        row->bytes += bytes;
        row->seconds += seconds;
    }
    pthread_mutex_unlock(&table.lock);
}

/* Bytes of messages of this thread's collective calls, since it has asked. */
static _Thread_local struct {
    int64_t fast, staged;
} parts;

void sv_drop_count_parts(int64_t *fast_out, int64_t *staged_out)
{
    *fast_out = parts.fast;
    *staged_out = parts.staged;
    parts.fast = parts.staged = 0;
}

void sv_drop_count(const char *call, const char *route, MPI_Comm comm, int peer, MPI_Datatype type, int64_t count,
                   double seconds)
{
    MPI_Count bytes = 0;
    if (!sv_drop_settings()->report)
        return;
    PMPI_Type_size_x(type, &bytes);
    if (comm == sv_drop_route.own) { /* a message of a collective call, which is counted */
        *(strcmp(route, "fast") == 0 ? &parts.fast : &parts.staged) += bytes * count;
        return;
    }
    count_bytes(call, route, reported_world_rank(comm, peer), bytes * count, seconds);
}

void sv_drop_count_all(const char *call, const char *route, int64_t bytes)
{
    if (sv_drop_settings()->report)
        count_bytes(call, route, TO_ALL, bytes, 0);
}

/* Rows of one rank, below the head of the table if they are the first ones. */
static void print_rows(const row_t *rows, int n, int printed_before)
{
    if (n > 0 && printed_before == 0)
        fprintf(stderr, "selvage-mpi: messages of device memory\n  %5s %5s  %-30s %-9s %12s %14s %9s\n", "from", "to",
                "call", "route", "messages", "bytes", "GB/s");
    for (int i = 0; i < n; i++) {
        char rate[32] = "-", to[16] = "all";
        if (rows[i].to != TO_ALL)
            snprintf(to, sizeof to, "%d", rows[i].to);
        if (rows[i].seconds > 0)
            snprintf(rate, sizeof rate, "%.3f", (double)rows[i].bytes / rows[i].seconds * 1e-9);
        fprintf(stderr, "  %5d %5s  %-30s %-9s %12lld %14lld %9s\n", rows[i].from, to, rows[i].call,
                rows[i].route, (long long)rows[i].messages, (long long)rows[i].bytes, rate);
    }
}

static _Atomic long long copies_ever[2]; /* up, down */

void sv_drop_count_copy(bool down)
{
    atomic_fetch_add_explicit(&copies_ever[down], 1, memory_order_relaxed);
}

/* MPI counts rows, not bytes, and they come one rank at a time, so that an int holds their number. */
void sv_drop_report(void)
{
    enum { TAG = 1 };
    const int size = sv_drop_size(MPI_COMM_WORLD), n = table.n;
    const bool prints = sv_drop_rank(MPI_COMM_WORLD) == 0;
    int rows_of_all = n; /* on the rank that prints */
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Datatype row;
    PMPI_Comm_split(MPI_COMM_WORLD, 0, 0, &comm); /* not the program's messages, nor its attributes */
    PMPI_Type_contiguous((int)sizeof(row_t), MPI_BYTE, &row);
    PMPI_Type_commit(&row);
    if (!prints)
        PMPI_Send(table.rows, n, row, 0, TAG, comm);
    else
        print_rows(table.rows, n, 0);
    for (int i = 1; prints && i < size; i++) {
        int count = 0;
        MPI_Status status;
        PMPI_Probe(i, TAG, comm, &status);
        PMPI_Get_count(&status, row, &count);
        row_t *rows = malloc((size_t)count * sizeof *rows + 1);
        if (!rows)
            sv_drop_fatal("no memory", "for the report");
        PMPI_Recv(rows, count, row, i, TAG, comm, MPI_STATUS_IGNORE);
        print_rows(rows, count, rows_of_all);
        rows_of_all += count;
        free(rows);
    }
    if (prints && rows_of_all == 0)
        fprintf(stderr, "selvage-mpi: no call had device memory\n");
    /* Of how many of them the copies were waited for together. */
    enum { SENDS, BATCHES, UP, DOWN, KINDS };
    long long own[KINDS], all[KINDS];
    sv_drop_batch_count(&own[SENDS], &own[BATCHES]);
    own[UP] = atomic_load_explicit(&copies_ever[0], memory_order_relaxed);
    own[DOWN] = atomic_load_explicit(&copies_ever[1], memory_order_relaxed);
    PMPI_Reduce(own, all, KINDS, MPI_LONG_LONG, MPI_SUM, 0, comm);
    if (prints && all[SENDS] > 0)
        fprintf(stderr, "selvage-mpi: %lld of the staged sends were batched, in %lld batches\n", all[SENDS],
                all[BATCHES]);
    if (prints && all[UP] + all[DOWN] > 0)
        fprintf(stderr, "selvage-mpi: memory was copied %lld times from the device, %lld times to it\n", all[DOWN],
                all[UP]);
    PMPI_Type_free(&row);
    PMPI_Comm_free(&comm);
    free(table.rows);
    table.rows = NULL;
    table.n = 0;
}

/* --- what came by the fast route ---------------------------------------------------------------------------------- */

enum { RECEIVED, VERIFIED, DAMAGED, REPEATED, FAILED, BYTES, MENDED, COUNTS };
typedef struct packets {
    uint64_t n[COUNTS];
} packets_t;

static packets_t at_opening;

static packets_t packets_of(selvage_comm_t *world)
{
    selvage_stats_t stats = {SELVAGE_STATS_INIT};
    if (selvage_comm_stats(world, &stats) != SELVAGE_SUCCESS)
        sv_drop_warn("no counters of the fast route: %s", selvage_error_detail());
    return (packets_t){{[RECEIVED] = stats.messages_received, [VERIFIED] = stats.messages_verified,
                        [DAMAGED] = stats.messages_damaged, [REPEATED] = stats.messages_repeated,
                        [FAILED] = stats.messages_failed, [BYTES] = stats.message_bytes_received,
                        [MENDED] = stats.messages_mended}};
}

void sv_drop_report_packets_from(selvage_comm_t *world)
{
    at_opening = packets_of(world);
}

void sv_drop_report_packets(selvage_comm_t *world)
{
    const int size = sv_drop_size(MPI_COMM_WORLD);
    const bool is_first = sv_drop_rank(MPI_COMM_WORLD) == 0, prints = is_first && sv_drop_settings()->report;
    if (!world) {
        if (prints)
            sv_drop_warn("the fast route was never open: nothing went by it, and nothing was verified by Selvage");
        return;
    }
    /* Rank 0 gets what came to each rank since the route opened. */
    packets_t own = packets_of(world), sum = {0}, *all = is_first ? calloc((size_t)size, sizeof *all) : NULL;
    if (is_first && !all)
        sv_drop_fatal("no memory", "for the report");
    for (int k = 0; k < COUNTS; k++)
        own.n[k] -= at_opening.n[k];
    const uint64_t wireup = sv_drop_wireup_messages();
    own.n[RECEIVED] -= wireup;
    own.n[VERIFIED] -= sv_drop_settings()->checks ? wireup : 0;
    own.n[BYTES] -= wireup * SV_DROP_WIREUP_BYTES;
    PMPI_Gather(&own, COUNTS, MPI_UINT64_T, all, COUNTS, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (prints)
        fprintf(stderr, "selvage-mpi: messages of the fast route\n  %5s %12s %12s %9s %9s %9s %14s\n", "rank",
                "received", "verified", "damaged", "repeated", "failed", "bytes");
    for (int i = 0; is_first && i < size; i++) {
        if (prints)
            fprintf(stderr, "  %5d", i);
        for (int k = 0; k < COUNTS; k++) {
            sum.n[k] += all[i].n[k];
            if (prints && k <= BYTES)
                fprintf(stderr, " %*llu", k < DAMAGED ? 12 : k < BYTES ? 9 : 14, (unsigned long long)all[i].n[k]);
        }
        if (prints)
            fprintf(stderr, "\n");
    }
    free(all);
    /* One message may come damaged several times before it is mended or given up. */
    if (sum.n[DAMAGED] > 0)
        sv_drop_warn("%llu arrivals on the fast route were damaged: %llu messages were mended, %llu were not",
                     (unsigned long long)sum.n[DAMAGED], (unsigned long long)sum.n[MENDED],
                     (unsigned long long)sum.n[FAILED]);
}
