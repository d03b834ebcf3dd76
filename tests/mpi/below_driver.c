/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchanges, messages, collectives or grids under below_mpi.c: for each class, kind of fault, rank and message
 * of the class a pass with a communicator of its own, in which that message is hurt, until there is none to hurt. Every
 * byte received is compared, and so is memory before and after it. A pass is good if each rank has right data, or an
 * error whose text names a rank; a pass that hangs ends the job.
 *
 * Usage: below_driver exchange|messages|collectives|grids ROUTE CLASS[,...] KIND[,...]
 * [each|turns [STRIDE [SECONDS]]]:
 * every STRIDE-th message, by each kind or by one of them in turn; no new pass of a class after so long. Output: a line
 * per class and kind and a total, by rank 0, and one for each pass that was not good. Exit status 0 if all were.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for RTLD_DEFAULT */
#endif
#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixtures/below_mpi.h"
#include <selvage.h>

enum {
    GUARD_BYTES = 256,
    PIECES_MAX = 4,
    ROWS_MAX = 256,
    EPOCHS = 3,
    PASS_LIMIT_S = 45,
    NTH_MAX = 1000,
    ATTEMPTS = 3,
    TEXT_BYTES = 400
};
enum { GUARD = 0xa5, EMPTY = 0x5a };

/* What a pass came to on a rank; several are added up. */
enum { DETECTED, ERRORS, UNNAMED, SILENT, OVERWRITTEN, TIRED, OUTCOMES };

typedef struct below_row {
    char class[BELOW_NAME_BYTES], kind[BELOW_NAME_BYTES];
    long injected, detected, recovered, ended, bad;
} below_row_t;

typedef struct below_run {
    selvage_route_t route;
    int rank, size;
    selvage_device_t *dev;
    selvage_comm_t *comm;
    void *stream;
    uint8_t *send, *recv, *host; /* device, device, host */
    size_t room;
    int npieces;
    size_t at[PIECES_MAX], bytes[PIECES_MAX];
    long outcome[OUTCOMES];
    bool failed;
    uint64_t injected;
    char hit[BELOW_NAME_BYTES], text[TEXT_BYTES];
} below_run_t;

static struct {
    void (*arm)(const char *text);
    void (*phase)(const char *name);
    uint64_t (*hits)(char *class_out, size_t room);
} below;
static char doing[2 * TEXT_BYTES];

static void look_up(const char *name, void *function_out)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    if (!found) {
        fprintf(stderr, "below_driver: %s is not there: tests/fixtures/below_mpi must be preloaded\n", name);
        exit(2);
    }
    memcpy(function_out, &found, sizeof found);
}

static void tell_hanging(int signal)
{
    (void)signal;
    if (write(STDOUT_FILENO, doing, strlen(doing)) < 0)
        _exit(4);
    _exit(3);
}

static bool names_a_rank(const char *text)
{
    int rank;
    for (const char *at = strstr(text, "rank"); at; at = strstr(at + 1, "rank"))
        if (sscanf(at, "rank %d", &rank) == 1 || sscanf(at, "ranks %d", &rank) == 1)
            return true;
    return false;
}

/* Keeps the first error; true if the pass may go on. */
static bool is_fine(below_run_t *run, const char *what, selvage_status_t status)
{
    if (status == SELVAGE_SUCCESS)
        return !run->failed;
    if (!run->failed) {
        snprintf(run->text, sizeof run->text, "%s: %s: %s", what, selvage_status_name(status), selvage_error_detail());
        run->outcome[ERRORS] = 1;
        run->outcome[UNNAMED] = !names_a_rank(run->text);
    }
    run->failed = true;
    return false;
}

/* --- data --------------------------------------------------------------------------------------------------------- */

static uint8_t byte_of(int rank, int piece, int epoch, size_t at)
{
    return (uint8_t)(((unsigned)rank * 101 + (unsigned)piece * 31 + (unsigned)epoch * 57 + 7) * (at + 3) + at / 251);
}

static void lay_out(below_run_t *run, int npieces, const size_t *bytes)
{
    run->npieces = npieces;
    run->room = GUARD_BYTES;
    for (int i = 0; i < npieces; i++) {
        run->at[i] = run->room;
        run->bytes[i] = bytes[i];
        run->room = (run->room + bytes[i] + GUARD_BYTES + 7) / 8 * 8;
    }
}

static bool fill(below_run_t *run, int epoch)
{
    memset(run->host, GUARD, run->room);
    for (int i = 0; i < run->npieces; i++)
        for (size_t b = 0; b < run->bytes[i]; b++)
            run->host[run->at[i] + b] = byte_of(run->rank, i, epoch, b);
    if (!is_fine(
            run, "copy",
            selvage_device_copy(run->dev, run->send, run->host, run->room, SELVAGE_COPY_HOST_TO_DEVICE, run->stream)) ||
        !is_fine(run, "synchronize", selvage_stream_synchronize(run->dev, run->stream)))
        return false;
    for (int i = 0; i < run->npieces; i++)
        memset(run->host + run->at[i], EMPTY, run->bytes[i]);
    return is_fine(run, "copy",
                   selvage_device_copy(run->dev, run->recv, run->host, run->room, SELVAGE_COPY_HOST_TO_DEVICE,
                                       run->stream)) &&
           is_fine(run, "synchronize", selvage_stream_synchronize(run->dev, run->stream));
}

/* What a rank that had no error has received; what lies between, whatever it had. */
static void look_at(below_run_t *run, int epoch, int from)
{
    size_t next = 0;
    if (selvage_device_copy(run->dev, run->host, run->recv, run->room, SELVAGE_COPY_DEVICE_TO_HOST, run->stream) ||
        selvage_stream_synchronize(run->dev, run->stream))
        return;
    for (int i = 0; i <= run->npieces; i++) {
        const size_t end = i < run->npieces ? run->at[i] : run->room;
        for (; next < end; next++)
            run->outcome[OVERWRITTEN] += run->host[next] != GUARD;
        for (size_t b = 0; i < run->npieces && b < run->bytes[i]; b++, next++)
            run->outcome[SILENT] += !run->failed && run->host[next] != byte_of(from, i, epoch, b);
    }
}

static bool open_comm(below_run_t *run)
{
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = run->dev};
    below.phase("creation");
    return is_fine(run, "comm_create", selvage_comm_create(MPI_COMM_WORLD, &params, &run->comm));
}

static void close_comm(below_run_t *run)
{
    selvage_stats_t s = {SELVAGE_STATS_INIT};
    below.phase("destroy");
    if (run->comm && selvage_comm_stats(run->comm, &s) == SELVAGE_SUCCESS)
        run->outcome[DETECTED] += (long)(s.bad_digests + s.bad_records + s.stale_discarded + s.asked_again +
                                         s.control_damaged + s.messages_damaged);
    selvage_comm_destroy(run->comm);
    run->comm = NULL;
}

/* --- what is run -------------------------------------------------------------------------------------------------- */

static bool declare(below_run_t *run, selvage_exchange_t *ex, int to, int from)
{
    for (int i = 0; i < run->npieces; i++)
        if (!is_fine(run, "add_send",
                     selvage_exchange_add_send(ex, run->send + run->at[i], run->bytes[i], to, 10 + i, NULL)) ||
            !is_fine(run, "add_recv",
                     selvage_exchange_add_recv(ex, run->recv + run->at[i], run->bytes[i], from, 10 + i, NULL)))
            return false;
    below.phase("commit");
    return is_fine(run, "commit", selvage_exchange_commit(ex));
}

static void pass_exchange(below_run_t *run)
{
    selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = run->route};
    selvage_exchange_t *ex = NULL;
    const int to = (run->rank + 1) % run->size, from = (run->rank + run->size - 1) % run->size;
    if (!open_comm(run) || !is_fine(run, "exchange_create", selvage_exchange_create(run->comm, &params, &ex)) ||
        !declare(run, ex, to, from))
        goto out;
    below.phase("exchange");
    for (int epoch = 1; epoch <= EPOCHS && !run->failed; epoch++) {
        if (fill(run, epoch) && is_fine(run, "start", selvage_exchange_start(ex, run->stream)))
            (void)is_fine(run, "wait", selvage_exchange_wait(ex, run->stream));
        look_at(run, epoch, from);
    }
out:
    below.phase("destroy");
    selvage_exchange_destroy(ex);
    close_comm(run);
}

static void pass_messages(below_run_t *run)
{
    const int to = (run->rank + 1) % run->size, from = (run->rank + run->size - 1) % run->size;
    if (!open_comm(run))
        return;
    below.phase("messages");
    for (int epoch = 1; epoch <= EPOCHS && !run->failed; epoch++) {
        selvage_request_t *request[2 * PIECES_MAX] = {NULL};
        if (!fill(run, epoch))
            break;
        for (int i = 0; i < run->npieces && !run->failed; i++)
            (void)is_fine(run, "irecv",
                          selvage_message_irecv(run->comm, run->recv + run->at[i], run->bytes[i], MPI_BYTE, from, i,
                                                run->stream, &request[i]));
        for (int i = 0; i < run->npieces && !run->failed; i++)
            (void)is_fine(run, "isend",
                          selvage_message_isend(run->comm, run->send + run->at[i], run->bytes[i], MPI_BYTE, to, i,
                                                run->stream, &request[PIECES_MAX + i]));
        (void)is_fine(run, "waitall", selvage_message_waitall(2 * PIECES_MAX, request, NULL));
        look_at(run, epoch, from);
        for (int i = 0; i < 2 * PIECES_MAX; i++)
            (void)selvage_message_free(&request[i]);
    }
    close_comm(run);
}

/* Exact in any order. */
static void compare_sums(below_run_t *run, const double *sum, size_t count, int epoch)
{
    for (size_t i = 0; i < count && !run->failed; i++)
        run->outcome[SILENT] += sum[i] != (double)(run->size * (run->size - 1) / 2) + (double)run->size * epoch;
}

static bool complete_collective(below_run_t *run, selvage_coll_t *coll, const char *what, selvage_status_t status)
{
    return is_fine(run, what, status) &&
           is_fine(run, "synchronize", selvage_stream_synchronize(run->dev, run->stream)) &&
           is_fine(run, what, selvage_coll_error(coll));
}

static void collectives_epoch(below_run_t *run, selvage_coll_t *coll, int epoch)
{
    const size_t count = run->bytes[0] / sizeof(double), room = GUARD_BYTES + run->bytes[0];
    double *values = (double *)(void *)(run->host + GUARD_BYTES);
    for (size_t i = 0; i < count; i++)
        values[i] = run->rank + epoch;
    if (!is_fine(run, "copy",
                 selvage_device_copy(run->dev, run->send, run->host, room, SELVAGE_COPY_HOST_TO_DEVICE, run->stream)) ||
        !complete_collective(run, coll, "all_reduce",
                             selvage_coll_all_reduce(coll, run->send + GUARD_BYTES, run->recv + GUARD_BYTES, count,
                                                     SELVAGE_FLOAT64, SELVAGE_OP_SUM, run->stream)) ||
        !is_fine(run, "copy",
                 selvage_device_copy(run->dev, run->host, run->recv, room, SELVAGE_COPY_DEVICE_TO_HOST, run->stream)) ||
        !is_fine(run, "synchronize", selvage_stream_synchronize(run->dev, run->stream)))
        return;
    compare_sums(run, values, count, epoch);
    if (!fill(run, epoch))
        return;
    for (int i = 0; i < run->npieces && !run->failed; i++)
        (void)complete_collective(run, coll, "broadcast",
                                  selvage_coll_broadcast(coll, run->send + run->at[i], run->recv + run->at[i],
                                                         run->bytes[i], SELVAGE_UINT8, i % run->size, run->stream));
    /* Every piece comes from another root. */
    if (run->failed)
        return;
    if (selvage_device_copy(run->dev, run->host, run->recv, run->room, SELVAGE_COPY_DEVICE_TO_HOST, run->stream) ||
        selvage_stream_synchronize(run->dev, run->stream))
        return;
    for (int i = 0; i < run->npieces; i++) {
        for (size_t b = 0; b < run->bytes[i]; b++)
            run->outcome[SILENT] += run->host[run->at[i] + b] != byte_of(i % run->size, i, epoch, b);
        for (size_t b = 1; b <= GUARD_BYTES; b++)
            run->outcome[OVERWRITTEN] += run->host[run->at[i] - b] != GUARD;
    }
}

static void pass_collectives(below_run_t *run)
{
    selvage_coll_t *coll = NULL;
    if (!open_comm(run))
        return;
    below.phase("collectives' creation");
    if (is_fine(run, "coll_create", selvage_coll_create(run->comm, NULL, &coll))) {
        below.phase("collectives");
        for (int epoch = 1; epoch <= 2 && !run->failed; epoch++)
            collectives_epoch(run, coll, epoch);
    }
    below.phase("destroy");
    selvage_coll_destroy(coll);
    close_comm(run);
}

/* Each rank is a node of its own, so that every face is between nodes: a rank that heard otherwise has another grid. */
static void pass_grids(below_run_t *run)
{
    selvage_grid_params_t params = {SELVAGE_GRID_PARAMS_INIT, .ndims = 2, .global_extent = {16, 8}, .periodic = {1, 1},
                                    .reorder = 1};
    selvage_grid_info_t info = {SELVAGE_GRID_INFO_INIT};
    selvage_grid_t *grid = NULL;
    if (!open_comm(run))
        return;
    below.phase("grid's creation");
    if (is_fine(run, "grid_create", selvage_grid_create(run->comm, &params, &grid)) &&
        is_fine(run, "grid_describe", selvage_grid_describe(grid, &info)))
        run->outcome[SILENT] += info.surface_cells == 0 || info.surface_cells_between_nodes != info.surface_cells;
    below.phase("destroy");
    selvage_grid_destroy(grid);
    close_comm(run);
}

/* --- sweeping ----------------------------------------------------------------------------------------------------- */

typedef struct below_sweep {
    void (*pass)(below_run_t *run);
    below_row_t row[ROWS_MAX];
    int nrows, bad, passes;
    bool tired; /* the time for it is over */
    double end_s;
} below_sweep_t;

static below_row_t *row_of(below_sweep_t *sweep, const char *class, const char *kind)
{
    int i = 0;
    while (i < sweep->nrows && (strcmp(sweep->row[i].class, class) != 0 || strcmp(sweep->row[i].kind, kind) != 0))
        i++;
    if (i == ROWS_MAX)
        return &sweep->row[ROWS_MAX - 1];
    if (i == sweep->nrows) {
        sweep->nrows++;
        snprintf(sweep->row[i].class, sizeof sweep->row[i].class, "%s", class);
        snprintf(sweep->row[i].kind, sizeof sweep->row[i].kind, "%s", kind);
    }
    return &sweep->row[i];
}

static void do_pass(below_run_t *run, const below_sweep_t *sweep, const char *text)
{
    memset(run->outcome, 0, sizeof run->outcome);
    run->failed = false;
    run->text[0] = '\0';
    snprintf(doing, sizeof doing, "below_driver: rank %d HANGS: %s\n", run->rank, text);
    alarm(PASS_LIMIT_S);
    below.arm(text);
    sweep->pass(run);
    run->injected = below.hits(run->hit, sizeof run->hit);
    below.arm("");
    MPI_Barrier(MPI_COMM_WORLD);
    alarm(0);
}

static void judge(below_run_t *run, below_sweep_t *sweep, const char *kind, const char *text)
{
    long sum[OUTCOMES];
    run->outcome[TIRED] = MPI_Wtime() > sweep->end_s;
    MPI_Allreduce(run->outcome, sum, OUTCOMES, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    below_row_t *row = row_of(sweep, run->injected ? run->hit : "nothing", kind);
    const bool bad = sum[SILENT] || sum[OVERWRITTEN] || sum[UNNAMED] || (!run->injected && sum[ERRORS]);
    sweep->passes++;
    sweep->tired = sum[TIRED] != 0;
    sweep->bad += bad;
    row->injected += run->injected != 0;
    row->detected += run->injected && (sum[DETECTED] || sum[ERRORS]);
    row->recovered += run->injected && !sum[ERRORS] && !bad;
    row->ended += run->injected && sum[ERRORS] && !bad;
    row->bad += bad;
    if (bad && run->rank == 0)
        printf("below_driver: NOT GOOD: %s (%s): silent %ld, overwritten %ld, errors %ld, of those unnamed %ld\n", text,
               run->hit, sum[SILENT], sum[OVERWRITTEN], sum[ERRORS], sum[UNNAMED]);
    if (run->failed && (bad || getenv("BELOW_MPI_TELL")))
        printf("rank %d: %s: %s\n", run->rank, text, run->text);
    fflush(stdout);
}

/* Whether a rank's deadline has passed; alike on all ranks. */
static bool was_late(const below_run_t *run)
{
    int late = run->failed && strstr(run->text, "SELVAGE_ERR_TIMEOUT"), any;
    MPI_Allreduce(&late, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return any;
}

/* One message is hurt. False: there was none, or no time is left; alike on all ranks. A pass without a fault is to be
   good; where its deadline passed, a rank may have stood still on a crowded machine: then once more. */
static bool hurt_one(below_run_t *run, below_sweep_t *sweep, const char *class, const char *kind, int rank, long nth)
{
    char text[TEXT_BYTES];
    snprintf(text, sizeof text, "kind=%s,class=%s,nth=%ld,rank=%d,seed=%ld", kind, class, nth, rank, nth + 17);
    for (int attempt = 0; attempt == 0 || (attempt < ATTEMPTS && !run->injected && was_late(run)); attempt++) {
        do_pass(run, sweep, text);
        MPI_Bcast(&run->injected, 1, MPI_UINT64_T, rank, MPI_COMM_WORLD);
        MPI_Bcast(run->hit, sizeof run->hit, MPI_CHAR, rank, MPI_COMM_WORLD);
    }
    judge(run, sweep, kind, text);
    return run->injected != 0 && !sweep->tired;
}

static const char *next_kind(const char *at, char *kind)
{
    snprintf(kind, BELOW_NAME_BYTES, "%.*s", (int)strcspn(at, ","), at);
    at += strcspn(at, ",");
    return at + (*at == ',');
}

/* Each kind on each message, or where they take turns, one of them. */
static void sweep_class(below_run_t *run, below_sweep_t *sweep, const char *class, const char *kinds, bool turns,
                        long stride)
{
    char kind[BELOW_NAME_BYTES];
    const char *at = kinds;
    for (int rank = 0; turns && !sweep->tired && rank < run->size; rank++) {
        bool more = true;
        for (long nth = 1; nth < NTH_MAX && more; nth += stride) {
            at = next_kind(*at ? at : kinds, kind);
            more = hurt_one(run, sweep, class, kind, rank, nth);
        }
    }
    while (!turns && !sweep->tired && *at) {
        at = next_kind(at, kind);
        for (int rank = 0; rank < run->size && !sweep->tired; rank++)
            for (long nth = 1; nth < NTH_MAX && hurt_one(run, sweep, class, kind, rank, nth);)
                nth += stride;
    }
}

static void print_rows(const below_sweep_t *sweep, const char *label)
{
    below_row_t all = {.class = "total"};
    for (int i = 0; i <= sweep->nrows; i++) {
        const below_row_t *row = i < sweep->nrows ? &sweep->row[i] : &all;
        printf("%s: %s: %s: injected %ld, detected %ld, recovered %ld, ended with an error %ld, not good %ld\n", label,
               row->class, row->kind, row->injected, row->detected, row->recovered, row->ended, row->bad);
        all.injected += row->injected;
        all.detected += row->detected;
        all.recovered += row->recovered;
        all.ended += row->ended;
        all.bad += row->bad;
    }
}

static selvage_route_t parse_route_name(const char *text)
{
    for (int route = SELVAGE_ROUTE_DEFAULT; route <= SELVAGE_ROUTE_DIRECT; route++)
        if (strcmp(text, selvage_route_name((selvage_route_t)route)) == 0)
            return (selvage_route_t)route;
    return SELVAGE_ROUTE_DEFAULT;
}

static void open_run(below_run_t *run)
{
    static const size_t bytes[PIECES_MAX] = {2400, 601, 20000, 100};
    MPI_Comm_rank(MPI_COMM_WORLD, &run->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &run->size);
    lay_out(run, PIECES_MAX, bytes);
    run->host = malloc(run->room);
    if (!run->host || selvage_device_open_local(NULL, &run->dev) || selvage_stream_create(run->dev, &run->stream) ||
        selvage_device_malloc(run->dev, run->room, (void **)&run->send) ||
        selvage_device_malloc(run->dev, run->room, (void **)&run->recv))
        MPI_Abort(MPI_COMM_WORLD, 2);
}

static void close_run(below_run_t *run)
{
    selvage_device_free(run->dev, run->recv);
    selvage_device_free(run->dev, run->send);
    selvage_stream_destroy(run->dev, run->stream);
    selvage_device_close(run->dev);
    free(run->host);
}

int main(int argc, char **argv)
{
    static below_sweep_t sweep;
    below_run_t run = {.rank = 0};
    char class[BELOW_NAME_BYTES];
    if (argc < 5 || argc > 8) {
        fprintf(stderr, "usage: below_driver exchange|messages|collectives|grids ROUTE CLASS[,...] KIND[,...] "
                        "[each|turns [STRIDE [SECONDS]]]\n");
        return 2;
    }
    look_up("below_mpi_arm", &below.arm);
    look_up("below_mpi_phase", &below.phase);
    look_up("below_mpi_hits", &below.hits);
    signal(SIGALRM, tell_hanging);
    MPI_Init(&argc, &argv);
    open_run(&run);
    run.route = parse_route_name(argv[2]);
    sweep.pass = argv[1][0] == 'e'   ? pass_exchange
                 : argv[1][0] == 'm' ? pass_messages
                 : argv[1][0] == 'g' ? pass_grids
                                     : pass_collectives;
    for (const char *at = argv[3]; *at; at += strcspn(at, ","), at += *at == ',') {
        snprintf(class, sizeof class, "%.*s", (int)strcspn(at, ","), at);
        sweep.tired = false;
        sweep.end_s = MPI_Wtime() + (argc > 7 ? atof(argv[7]) : 1e6);
        sweep_class(&run, &sweep, class, argv[4], argc > 5 && strcmp(argv[5], "turns") == 0,
                    argc > 6 ? atol(argv[6]) : 1);
    }
    if (run.rank == 0) {
        snprintf(doing, sizeof doing, "%s %s", argv[1], argv[2]);
        print_rows(&sweep, doing);
    }
    close_run(&run);
    alarm(PASS_LIMIT_S);
    MPI_Finalize();
    return sweep.bad ? 1 : 0;
}
