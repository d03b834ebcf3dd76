/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timeline of calls with device memory. With SELVAGE_TRACE=FILE each call becomes a span from its beginning to its
 * end. The span of a request lasts until the program has been told. Copies and waits for the device are spans, too.
 * MPI_Finalize, which is collective, writes those of all ranks to FILE.calls. It is a Chrome trace with one process per
 * rank, as communicators write to FILE.
 *
 * Any thread adds records, under a lock. Up to SELVAGE_TRACE_EVENTS of a rank are kept in memory.
 */
#include "interpose/drop.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NAME_BYTES = 36, ROUTE_BYTES = 12, PATH_BYTES = 600, PIECE_RECORDS = 4096 /* of a message */ };

typedef struct record {
    int64_t begin_ns, end_ns, bytes;
    char name[NAME_BYTES], route[ROUTE_BYTES];
    int32_t peer, tag, has_peer, is_call;
} record_t;

static struct {
    pthread_mutex_t lock;
    record_t *records; /* NULL: off */
    int64_t count, capacity, dropped;
} trace = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int64_t trace_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now); /* the only one that nodes share */
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void sv_drop_trace_begin(void)
{
    const sv_drop_settings_t *settings = sv_drop_settings();
    if (!settings->trace[0])
        return;
    trace.capacity = settings->trace_events;
    trace.records = calloc((size_t)trace.capacity, sizeof *trace.records);
    if (!trace.records)
        sv_drop_fatal("no memory", "for the timeline");
}

int64_t sv_drop_trace_now(void)
{
    return trace.records ? trace_now_ns() : 0;
}

static void add_trace_record(const record_t *record)
{
    pthread_mutex_lock(&trace.lock);
    if (trace.count < trace.capacity)
        trace.records[trace.count++] = *record;
    else
        trace.dropped++;
    pthread_mutex_unlock(&trace.lock);
}

void sv_drop_trace_span(const char *name, int64_t begin_ns, int64_t bytes)
{
    if (!trace.records || begin_ns == 0)
        return;
    record_t record = {.begin_ns = begin_ns, .end_ns = trace_now_ns(), .bytes = bytes};
    snprintf(record.name, sizeof record.name, "%s", name);
    add_trace_record(&record);
}

/* A call that turned out to have no device memory is none of ours. */
void sv_drop_trace_call(sv_drop_call_t *call)
{
    int64_t begin_ns = call->begin_ns, bytes = call->bytes;
    call->begin_ns = 0;
    bool ours = call->fast || (call->nbuffers > 0 && !(call->nbuffers == 1 && call->buffer[0].unpacks));
    if (!trace.records || begin_ns == 0 || !ours)
        return;
    for (int i = 0; i < call->nbuffers && !call->fast; i++)
        bytes += (int64_t)call->buffer[i].bytes;
    record_t record = {.begin_ns = begin_ns,
                       .end_ns = trace_now_ns(),
                       .bytes = bytes,
                       .peer = call->peer,
                       .tag = call->tag,
                       .has_peer = call->has_peer,
                       .is_call = 1};
    snprintf(record.name, sizeof record.name, "%s", call->name);
    snprintf(record.route, sizeof record.route, "%s", call->fragmented ? "fragments" : call->fast ? "fast" : "staged");
    add_trace_record(&record);
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

static void write_trace_us(FILE *file, const char *key, int64_t ns)
{
    int64_t size = ns < 0 ? -ns : ns;
    fprintf(file, ",\"%s\":%s%" PRId64 ".%03d", key, ns < 0 ? "-" : "", size / 1000, (int)(size % 1000));
}

static void write_trace_head(FILE *file, const record_t *r, int rank, const char *phase)
{
    fprintf(file, ",\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"%s\",\"pid\":%d,\"tid\":%d", r->name,
            r->is_call ? "mpi" : "selvage-mpi", phase, rank, r->is_call ? 0 : 1);
}

static void write_rank_names(FILE *file, int rank)
{
    fprintf(file, "%s\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":\"rank %d\"}}",
            rank > 0 ? "," : "", rank, rank);
    fprintf(file, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":1,\"args\":{\"name\":\"device\"}}",
            rank);
}

/* Records of a rank, of which the first one has the number first. Calls with requests overlap: those are pairs of an
   id. */
static void write_records(FILE *file, const record_t *records, int64_t first, int64_t n, int rank, int64_t base_ns)
{
    for (const record_t *r = records; r < records + n; r++) {
        const int64_t id = first + (r - records);
        write_trace_head(file, r, rank, r->is_call ? "b" : "X");
        write_trace_us(file, "ts", r->begin_ns - base_ns);
        if (r->is_call) {
            fprintf(file, ",\"id\":\"%d.%" PRId64 "\",\"args\":{\"bytes\":%" PRId64 ",\"route\":\"%s\"", rank, id,
                    r->bytes, r->route);
            if (r->has_peer)
                fprintf(file, ",\"peer\":%" PRId32 ",\"tag\":%" PRId32, r->peer, r->tag);
            fprintf(file, "}}");
            write_trace_head(file, r, rank, "e");
            write_trace_us(file, "ts", r->end_ns - base_ns);
            fprintf(file, ",\"id\":\"%d.%" PRId64 "\"}", rank, id);
        } else {
            write_trace_us(file, "dur", r->end_ns - r->begin_ns);
            fprintf(file, ",\"args\":{\"bytes\":%" PRId64 "}}", r->bytes);
        }
    }
}

static int piece_of(int64_t left)
{
    return left < PIECE_RECORDS ? (int)left : PIECE_RECORDS;
}

/* Rank 0 takes the others' records one rank after the other and a piece at a time, also if there is no file. */
static void write_timeline(FILE *file, MPI_Comm comm, MPI_Datatype type, int64_t base_ns)
{
    record_t *piece = malloc(PIECE_RECORDS * sizeof *piece);
    if (!piece)
        sv_drop_fatal("no memory", "for the timeline");
    if (file) {
        fprintf(file, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        write_rank_names(file, 0);
        write_records(file, trace.records, 0, trace.count, 0, base_ns);
    }
    for (int rank = 1; rank < sv_drop_size(comm); rank++) {
        int64_t count = 0;
        PMPI_Recv(&count, 1, MPI_INT64_T, rank, 0, comm, MPI_STATUS_IGNORE);
        if (file)
            write_rank_names(file, rank);
        for (int64_t i = 0; i < count; i += PIECE_RECORDS) {
            const int n = piece_of(count - i);
            PMPI_Recv(piece, n, type, rank, 0, comm, MPI_STATUS_IGNORE);
            if (file)
                write_records(file, piece, i, n, rank, base_ns);
        }
    }
    if (file)
        fprintf(file, "\n]}\n");
    free(piece);
}

void sv_drop_trace_end(void)
{
    MPI_Comm comm;
    MPI_Datatype type;
    char path[PATH_BYTES];
    int64_t mine = INT64_MAX, base_ns = 0;
    if (!trace.records)
        return;
    if (trace.dropped > 0)
        sv_drop_warn("the timeline is full: %lld calls are not in it (SELVAGE_TRACE_EVENTS)", (long long)trace.dropped);
    PMPI_Comm_split(MPI_COMM_WORLD, 0, 0, &comm); /* a duplicate would call the program's attribute callbacks */
    PMPI_Type_contiguous((int)sizeof(record_t), MPI_BYTE, &type);
    PMPI_Type_commit(&type);
    for (int64_t i = 0; i < trace.count; i++)
        mine = trace.records[i].begin_ns < mine ? trace.records[i].begin_ns : mine;
    PMPI_Allreduce(&mine, &base_ns, 1, MPI_INT64_T, MPI_MIN, comm);
    if (sv_drop_rank(comm) == 0) {
        snprintf(path, sizeof path, "%s.calls", sv_drop_settings()->trace);
        /* The user's alone, and never what a link of somebody else points to. */
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
        write_timeline(file, comm, type, base_ns);
        if (!file || fclose(file) != 0)
            sv_drop_warn("the timeline %s cannot be written", path);
    } else {
        PMPI_Send(&trace.count, 1, MPI_INT64_T, 0, 0, comm);
        for (int64_t i = 0; i < trace.count; i += PIECE_RECORDS)
            PMPI_Send(&trace.records[i], piece_of(trace.count - i), type, 0, 0, comm);
    }
    PMPI_Type_free(&type);
    PMPI_Comm_free(&comm);
    free(trace.records);
    trace.records = NULL;
}
