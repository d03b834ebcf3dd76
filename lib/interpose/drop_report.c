/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What SELVAGE_REPORT=1 prints at MPI_Finalize: who gave device memory to whom, by which call and route, how much, and
 * how fast. Rows are counted by the senders, under a lock, and only if a report was asked for; it is collective.
 */
#include "interpose/drop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 4096, NAME_BYTES = 32, ROUTE_BYTES = 8, TO_ALL = -2 };

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

static int world_rank(MPI_Comm comm, int peer)
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

void sv_drop_count(const char *call, const char *route, MPI_Comm comm, int peer, MPI_Datatype type, int64_t count,
                   double seconds)
{
    MPI_Count bytes = 0;
    if (!sv_drop_settings()->report)
        return;
    PMPI_Type_size_x(type, &bytes);
    count_bytes(call, route, world_rank(comm, peer), bytes * count, seconds);
}

void sv_drop_count_all(const char *call, const char *route, int64_t bytes)
{
    if (sv_drop_settings()->report)
        count_bytes(call, route, TO_ALL, bytes, 0);
}

static void print_rows(const row_t *rows, int n)
{
    fprintf(stderr, "selvage-mpi: messages of device memory\n  %5s %5s  %-30s %-7s %12s %14s %9s\n", "from", "to",
            "call", "route", "messages", "bytes", "GB/s");
    for (int i = 0; i < n; i++) {
        char rate[32] = "-", to[16] = "all";
        if (rows[i].to != TO_ALL)
            snprintf(to, sizeof to, "%d", rows[i].to);
        if (rows[i].seconds > 0)
            snprintf(rate, sizeof rate, "%.3f", (double)rows[i].bytes / rows[i].seconds * 1e-9);
        fprintf(stderr, "  %5d %5s  %-30s %-7s %12lld %14lld %9s\n", rows[i].from, to, rows[i].call,
                rows[i].route, (long long)rows[i].messages, (long long)rows[i].bytes, rate);
    }
}

static void gather_rows(int size, int bytes)
{
    int *counts = calloc((size_t)size, sizeof *counts), *displs = calloc((size_t)size, sizeof *displs), total = 0;
    PMPI_Gather(&bytes, 1, MPI_INT, counts, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; counts && displs && i < size; i++) {
        displs[i] = total;
        total += counts[i];
    }
    row_t *all = malloc((size_t)total + sizeof *all);
    PMPI_Gatherv(table.rows, bytes, MPI_BYTE, all, counts, displs, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (all && sv_drop_rank(MPI_COMM_WORLD) == 0)
        print_rows(all, total / (int)sizeof *all);
    free(all);
    free(displs);
    free(counts);
}

void sv_drop_report(void)
{
    gather_rows(sv_drop_size(MPI_COMM_WORLD), table.n * (int)sizeof(row_t));
    free(table.rows);
    table.rows = NULL;
    table.n = 0;
}
