/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring of ranks that exchanges packets while SELVAGE_FAULT hurts them, and looks at every byte after every wait. Each
 * 8-byte element says which rank, packet, epoch and place it is of, so that damage, a swap, a replay and an old epoch
 * all show. Without --each there is one communicator with the faults of the environment; with it one communicator per
 * named kind, so that what was injected and what was detected can be compared kind by kind. The last two epochs are
 * left unhurt (epochs=E in SELVAGE_FAULT): doubled messages of the last hurt one surface there.
 *
 * With FAULT_DRIVER_LOG=FILE the log of rank R goes to FILE.R, whole lines in the order in which they were written: a
 * launcher that forwards thousands of lines of several ranks passes them on in blocks, which end anywhere in a line.
 *
 * Output: a line per kind and a line of totals, over all ranks, by rank 0. Exit status 0 if what --expect names came.
 */
#include <limits.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <selvage.h>

enum { SIZES_MAX = 8, PACKETS_MAX = 1024, CHUNK_BYTES = 1 << 20, CLEAN_EPOCHS = 2 };
enum { ELEMENT_BITS = 30, EPOCH_BITS = 14, PACKET_BITS = 10 };
enum { OVER_TAG = 77 };

typedef enum expectation { EXPECT_RETRY, EXPECT_WRONG, EXPECT_REPORT, EXPECT_ERROR } expectation_t;

typedef struct options {
    selvage_route_t route;
    int packets, epochs, sides, seed, pause_ms, registered, never_commit, never_wait;
    size_t sizes[SIZES_MAX];
    int nsizes;
    expectation_t expect;
    const char *each;
    double rate;
} options_t;

/* What all kinds and ranks add up to; an array for MPI. */
enum { INJECTED, BAD_DIGESTS, BAD_RECORDS, STALE, ASKED, RESENDS, NAMED, PACKETS, WRONG, ERRORS, COUNTS };

typedef struct run {
    const options_t *options;
    selvage_comm_t *comm;
    selvage_device_t *dev;
    selvage_exchange_t *ex;
    selvage_buffer_t *registered;
    void *stream;
    uint8_t *send, *recv, *host;     /* device, device, pinned: one chunk */
    int rank, size, npackets;
    size_t offset[PACKETS_MAX], bytes[PACKETS_MAX], total;
    double longest_wait_s;
    uint64_t count[COUNTS];
} run_t;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static _Noreturn void usage(void)
{
    fprintf(stderr, "usage: fault_driver [--route R] [--packets P] [--bytes B[,B...]] [--epochs E] [--sides 1|2]\n"
                    "    [--expect retry|wrong|report|error] [--each KIND,...] [--rate X] [--seed S] [--pause-ms M]\n"
                    "    [--registered 0|1] [--never-commit RANK] [--never-wait RANK]\n");
    exit(2);
}

static selvage_route_t parse_route(const char *text)
{
    for (int route = SELVAGE_ROUTE_DEFAULT; route <= SELVAGE_ROUTE_DIRECT; route++)
        if (strcmp(text, selvage_route_name((selvage_route_t)route)) == 0)
            return (selvage_route_t)route;
    usage();
}

static expectation_t parse_expectation(const char *text)
{
    static const char *const names[] = {"retry", "wrong", "report", "error"};
    for (int i = 0; i < 4; i++)
        if (strcmp(text, names[i]) == 0)
            return (expectation_t)i;
    usage();
}

static void parse_sizes(options_t *o, const char *text)
{
    char *end;
    for (o->nsizes = 0; o->nsizes < SIZES_MAX; text = end + 1) {
        o->sizes[o->nsizes++] = (size_t)strtoull(text, &end, 10);
        if (end == text || (*end && *end != ','))
            usage();
        if (!*end)
            return;
    }
    usage();
}

static void parse_option(options_t *o, const char *name, const char *value)
{
    const struct { const char *name; int *member; } numbers[] = {
        {"--packets", &o->packets}, {"--epochs", &o->epochs}, {"--sides", &o->sides}, {"--seed", &o->seed},
        {"--pause-ms", &o->pause_ms}, {"--registered", &o->registered}, {"--never-commit", &o->never_commit},
        {"--never-wait", &o->never_wait}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(name, numbers[i].name) == 0) {
            *numbers[i].member = atoi(value);
            return;
        }
    }
    if (strcmp(name, "--route") == 0)
        o->route = parse_route(value);
    else if (strcmp(name, "--bytes") == 0)
        parse_sizes(o, value);
    else if (strcmp(name, "--expect") == 0)
        o->expect = parse_expectation(value);
    else if (strcmp(name, "--each") == 0)
        o->each = value;
    else if (strcmp(name, "--rate") == 0)
        o->rate = atof(value);
    else
        usage();
}

static void parse_options(int argc, char **argv, options_t *o)
{
    *o = (options_t){.packets = 8, .epochs = 10, .sides = 2, .seed = 1, .sizes = {600}, .nsizes = 1, .rate = 0.5,
                     .never_commit = -1, .never_wait = -1};
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc)
            usage();
        parse_option(o, argv[i], argv[i + 1]);
    }
    if (o->packets < 1 || o->sides < 1 || o->sides > 2 || o->packets * o->sides > PACKETS_MAX ||
        o->epochs >= (1 << EPOCH_BITS) - CLEAN_EPOCHS)
        usage();
}

static void need(const run_t *run, const char *what, selvage_status_t status)
{
    if (status == SELVAGE_SUCCESS)
        return;
    fprintf(stderr, "fault_driver: rank %d: %s: %s: %s\n", run->rank, what, selvage_status_name(status),
            selvage_error_detail());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* --- the pattern -------------------------------------------------------------------------------------------------- */

static uint64_t stamp(int rank, int packet, uint64_t epoch)
{
    return ((uint64_t)rank << (PACKET_BITS + EPOCH_BITS) | (uint64_t)packet << EPOCH_BITS |
            (epoch & ((1u << EPOCH_BITS) - 1))) << ELEMENT_BITS;
}

/* Bytes [from, to) of a packet: stores them, or counts the elements of which some byte is wrong. */
static uint64_t walk_piece(uint8_t *at, size_t from, size_t to, uint64_t base, int compare)
{
    uint64_t wrong = 0;
    while (from < to) {
        uint64_t element = base | from / 8;
        size_t skip = from % 8, bytes = 8 - skip < to - from ? 8 - skip : to - from;
        if (compare)
            wrong += memcmp(at, (const uint8_t *)&element + skip, bytes) != 0;
        else
            memcpy(at, (const uint8_t *)&element + skip, bytes);
        at += bytes;
        from += bytes;
    }
    return wrong;
}

/* The ring: packets of side 0 go to the right and come from the left; a route of self stays here. */
static int neighbour(const run_t *run, int step)
{
    return run->options->route == SELVAGE_ROUTE_SELF ? run->rank : (run->rank + step + run->size) % run->size;
}

static int source_of(const run_t *run, int packet)
{
    return neighbour(run, packet < run->options->packets ? -1 : 1);
}

/* A chunk of the whole block, [from, to), lies in the host buffer. */
static uint64_t walk_chunk(const run_t *run, size_t from, size_t to, uint64_t epoch, int compare)
{
    uint64_t wrong = 0;
    for (int i = 0; i < run->npackets; i++) {
        size_t low = run->offset[i] > from ? run->offset[i] : from;
        size_t high = run->offset[i] + run->bytes[i] < to ? run->offset[i] + run->bytes[i] : to;
        int owner = compare ? source_of(run, i) : run->rank;
        if (low < high)
            wrong += walk_piece(run->host + (low - from), low - run->offset[i], high - run->offset[i],
                                stamp(owner, i, epoch), compare);
    }
    return wrong;
}

static void store_pattern(const run_t *run, uint64_t epoch)
{
    for (size_t from = 0; from < run->total; from += CHUNK_BYTES) {
        size_t bytes = run->total - from < CHUNK_BYTES ? run->total - from : CHUNK_BYTES;
        walk_chunk(run, from, from + bytes, epoch, 0);
        need(run, "copy", selvage_device_copy(run->dev, run->send + from, run->host, bytes,
                                              SELVAGE_COPY_HOST_TO_DEVICE, run->stream));
        if (from + bytes < run->total)
            need(run, "synchronize", selvage_stream_synchronize(run->dev, run->stream));
    }
    need(run, "fill", selvage_device_fill(run->dev, run->recv, 0xff, run->total, run->stream));
}

static uint64_t compare_pattern(const run_t *run, uint64_t epoch)
{
    uint64_t wrong = 0;
    for (size_t from = 0; from < run->total; from += CHUNK_BYTES) {
        size_t bytes = run->total - from < CHUNK_BYTES ? run->total - from : CHUNK_BYTES;
        need(run, "copy", selvage_device_copy(run->dev, run->host, run->recv + from, bytes,
                                              SELVAGE_COPY_DEVICE_TO_HOST, run->stream));
        need(run, "synchronize", selvage_stream_synchronize(run->dev, run->stream));
        wrong += walk_chunk(run, from, from + bytes, epoch, 1);
    }
    return wrong;
}

/* --- one communicator --------------------------------------------------------------------------------------------- */

/* Packets lie at odd places on purpose: every other one begins at an address that is no multiple of 8. */
static void lay_out(run_t *run)
{
    const options_t *o = run->options;
    run->npackets = o->packets * o->sides;
    for (int i = 0; i < run->npackets; i++) {
        run->offset[i] = run->total + (size_t)(i & 1);
        run->bytes[i] = o->sizes[i % o->packets % o->nsizes];
        run->total = (run->offset[i] + run->bytes[i] + 7) / 8 * 8;
    }
}

static void declare(run_t *run)
{
    const options_t *o = run->options;
    selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = o->route};
    need(run, "exchange_create", selvage_exchange_create(run->comm, &params, &run->ex));
    for (int i = 0; i < run->npackets; i++) {
        int side = i / o->packets, to = neighbour(run, side ? -1 : 1), from = source_of(run, i);
        need(run, "add_send", selvage_exchange_add_send(run->ex, run->send + run->offset[i], run->bytes[i], to,
                                                        100 + side, NULL));
        need(run, "add_recv", selvage_exchange_add_recv(run->ex, run->recv + run->offset[i], run->bytes[i], from,
                                                        100 + side, NULL));
    }
}

static void set_up(run_t *run, const options_t *o)
{
    *run = (run_t){.options = o};
    MPI_Comm_rank(MPI_COMM_WORLD, &run->rank);
    need(run, "device_open_local", selvage_device_open_local(NULL, &run->dev));
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = run->dev};
    need(run, "comm_create", selvage_comm_create(MPI_COMM_WORLD, &params, &run->comm));
    run->size = selvage_comm_size(run->comm);
    lay_out(run);
    need(run, "stream_create", selvage_stream_create(run->dev, &run->stream));
    need(run, "device_malloc", selvage_device_malloc(run->dev, run->total, (void **)&run->send));
    need(run, "device_malloc", selvage_device_malloc(run->dev, run->total, (void **)&run->recv));
    need(run, "host_malloc", selvage_device_host_malloc(run->dev, CHUNK_BYTES, (void **)&run->host));
    if (o->registered)
        need(run, "buffer_register", selvage_buffer_register(run->comm, run->recv, run->total, &run->registered));
    declare(run);
}

static void tear_down(run_t *run)
{
    selvage_exchange_destroy(run->ex);
    if (run->registered)
        need(run, "buffer_unregister", selvage_buffer_unregister(run->registered));
    selvage_device_host_free(run->dev, run->host);
    selvage_device_free(run->dev, run->recv);
    selvage_device_free(run->dev, run->send);
    selvage_stream_destroy(run->dev, run->stream);
    selvage_comm_destroy(run->comm);
    selvage_device_close(run->dev);
}

/* Says what a call returned; an error is for the expectation to judge. */
static int failed(run_t *run, const char *what, selvage_status_t status)
{
    if (status == SELVAGE_SUCCESS)
        return 0;
    run->count[ERRORS]++;
    printf("rank %d: %s of epoch %llu: %s: %s\n", run->rank, what, (unsigned long long)selvage_exchange_epoch(run->ex),
           selvage_status_name(status), selvage_error_detail());
    fflush(stdout);
    return 1;
}

/* A rank with --never-... is away until all others have given up, who say so. It looks at MPI, and calls no Selvage. */
static void await_others(const run_t *run)
{
    for (int rank = 0, there = 0, word; rank < run->size; rank++, there = 0) {
        while (rank != run->rank && !there) {
            usleep(2000);
            MPI_Iprobe(rank, OVER_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        }
        if (there)
            MPI_Recv(&word, 1, MPI_INT, rank, OVER_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void tell_who_is_away(const run_t *run)
{
    const int word = 1, away = run->options->never_commit >= 0 ? run->options->never_commit : run->options->never_wait;
    if (away >= 0 && away != run->rank)
        MPI_Send(&word, 1, MPI_INT, away, OVER_TAG, MPI_COMM_WORLD);
}

static int one_epoch(run_t *run, uint64_t epoch)
{
    store_pattern(run, epoch);
    if (failed(run, "start", selvage_exchange_start(run->ex, run->stream)))
        return 0;
    if (run->options->never_wait == run->rank && epoch == 1) /* what had come already may complete that one */
        await_others(run);
    double begin_s = now_s();
    selvage_status_t status = selvage_exchange_wait(run->ex, run->stream);
    double took_s = now_s() - begin_s;
    run->longest_wait_s = took_s > run->longest_wait_s ? took_s : run->longest_wait_s;
    if (failed(run, "wait", status))
        return 0;
    uint64_t wrong = compare_pattern(run, epoch);
    if (wrong && run->options->expect != EXPECT_WRONG)
        fprintf(stderr, "fault_driver: rank %d: %llu wrong elements in epoch %llu\n", run->rank,
                (unsigned long long)wrong, (unsigned long long)epoch);
    run->count[WRONG] += wrong;
    run->count[PACKETS] += (uint64_t)run->npackets;
    if (run->options->pause_ms)
        usleep((useconds_t)run->options->pause_ms * 1000);
    return 1;
}

static void take_counts(run_t *run)
{
    selvage_stats_t s = {SELVAGE_STATS_INIT};
    need(run, "comm_stats", selvage_comm_stats(run->comm, &s));
    uint64_t counts[NAMED + 1] = {s.faults_injected, s.bad_digests, s.bad_records,  s.stale_discarded,
                                  s.asked_again,     s.resends,     s.swapped_named};
    memcpy(run->count, counts, sizeof counts);
}

/* A rank that never commits comes back when the others have given up. */
static void run_epochs(run_t *run)
{
    if (run->options->never_commit == run->rank) {
        await_others(run);
        run->count[ERRORS]++;
        return;
    }
    if (failed(run, "commit", selvage_exchange_commit(run->ex)))
        return;
    for (uint64_t epoch = 1; epoch <= (uint64_t)(run->options->epochs + CLEAN_EPOCHS); epoch++) {
        if (!one_epoch(run, epoch))
            return;
        if (epoch == 1) {
            printf("rank %d pid %ld is exchanging\n", run->rank, (long)getpid());
            fflush(stdout);
        }
    }
}

/* --- judging ------------------------------------------------------------------------------------------------------ */

static uint64_t detected(const uint64_t *c)
{
    return c[BAD_DIGESTS] + c[BAD_RECORDS] + c[STALE] + c[ASKED];
}

static void print_counts(const char *label, const char *kind, const uint64_t *c)
{
    printf("%s: %s: injected %llu, detected %llu (bad digests %llu, bad records %llu, stale %llu, asked again %llu), "
           "resends %llu, named %llu, recovered %llu of %llu packets, silent wrong elements %llu, errors %llu\n",
           label, kind, (unsigned long long)c[INJECTED], (unsigned long long)detected(c),
           (unsigned long long)c[BAD_DIGESTS], (unsigned long long)c[BAD_RECORDS], (unsigned long long)c[STALE],
           (unsigned long long)c[ASKED], (unsigned long long)c[RESENDS], (unsigned long long)c[NAMED],
           (unsigned long long)(c[WRONG] || c[ERRORS] ? 0 : c[INJECTED]), (unsigned long long)c[PACKETS],
           (unsigned long long)c[WRONG], (unsigned long long)c[ERRORS]);
    fflush(stdout);
}

/*
 * Whether as much was detected as was injected. Damage shows as a bad or stale arrival, loss by asking, or by the
 * record of what comes after it before anybody asks; a doubled message shows as a stale one; a replay is asked for
 * again where it is slow. Late is not wrong, and a doubled store of the same bytes under the same word is no event.
 */
static int all_detected(const options_t *o, const char *kind, const uint64_t *c)
{
    uint64_t arrivals = c[BAD_DIGESTS] + c[BAD_RECORDS] + c[STALE];
    if (c[INJECTED] == 0)
        return 0;
    if (strcmp(kind, "delay") == 0 || (strcmp(kind, "duplicate") == 0 && o->route != SELVAGE_ROUTE_STAGED &&
                                         o->route != SELVAGE_ROUTE_DIRECT))
        return 1;
    if (strcmp(kind, "drop") == 0)
        return c[ASKED] + c[BAD_RECORDS] >= c[INJECTED] && c[RESENDS] >= c[INJECTED];
    if (strcmp(kind, "swap") == 0 && c[NAMED] == 0)
        return 0;
    if (strcmp(kind, "replay") == 0)
        arrivals += c[ASKED];
    return arrivals >= c[INJECTED];
}

static int as_expected(const options_t *o, const char *kind, const uint64_t *c, int size)
{
    switch (o->expect) {
    case EXPECT_WRONG: return c[WRONG] > 0 && c[ERRORS] == 0;
    case EXPECT_REPORT:
    case EXPECT_ERROR: return c[ERRORS] == (uint64_t)size && c[WRONG] == 0;
    case EXPECT_RETRY: break;
    }
    if (c[WRONG] || c[ERRORS])
        return 0;
    return !o->each || all_detected(o, kind, c);
}

/* One kind, or with kind "environment" what is set there. Adds to the totals; true if it went as expected. */
static int run_kind(const options_t *o, const char *kind, uint64_t *totals)
{
    run_t run;
    char text[160];
    uint64_t sum[COUNTS];
    if (o->each) {
        snprintf(text, sizeof text, "%s=%g,delay_ms=8,epochs=%d,seed=%d", kind, o->rate, o->epochs, o->seed);
        setenv("SELVAGE_FAULT", text, 1);
    }
    set_up(&run, o);
    run_epochs(&run);
    tell_who_is_away(&run);
    take_counts(&run);
    tear_down(&run);
    MPI_Allreduce(run.count, sum, COUNTS, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < COUNTS; i++)
        totals[i] += sum[i];
    printf("rank %d: longest wait %.3f s\n", run.rank, run.longest_wait_s);
    int good = as_expected(o, kind, sum, run.size);
    if (run.rank == 0)
        print_counts(selvage_route_name(o->route), kind, sum);
    if (run.rank == 0 && !good)
        printf("fault_driver: %s did not go as expected\n", kind);
    return good;
}

/* Sends the log of this rank to a file of its own, if there is a name for it. */
static void name_log(int rank)
{
    char path[PATH_MAX];
    const char *name = getenv("FAULT_DRIVER_LOG");
    if (!name)
        return;
    snprintf(path, sizeof path, "%s.%d", name, rank);
    if (!freopen(path, "a", stderr)) {
        printf("fault_driver: rank %d cannot write to %s\n", rank, path);
        exit(2);
    }
    setvbuf(stderr, NULL, _IONBF, 0);
}

int main(int argc, char **argv)
{
    options_t options;
    uint64_t totals[COUNTS] = {0};
    char kind[32];
    int good = 1, rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    name_log(rank);
    parse_options(argc, argv, &options);
    const char *list = options.each ? options.each : "environment";
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',') {
        snprintf(kind, sizeof kind, "%.*s", (int)strcspn(at, ","), at);
        good &= run_kind(&options, kind, totals);
    }
    if (rank == 0)
        print_counts("total", list, totals);
    MPI_Finalize();
    return good ? 0 : 1;
}
