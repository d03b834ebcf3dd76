/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages beside exchanges: each rank sends to the next and receives from the one before it, in device memory, by
 * isend, irecv and waitall, and by an exchange of the same two packets. Messages are measured three times: with the
 * receive posted just before the send, with one that was posted before all ranks began, and with one that is posted
 * when its message is there. Then elements of 8 bytes with gaps as long, by a datatype, and by a copy for each of them.
 * The policy of checksums is SELVAGE_CHECKSUM for all.
 */
#include <stdio.h>

#include "tools/bench/bench_report.h"
#include "tools/bench/bench_tables.h"

enum { TAG = 1, BLOCK_BYTES = 8, BLOCKS_BYTES_MAX = 1 << 20, MESSAGE_ROWS = BENCH_SIZES_MAX, SAMPLES = 256 };

/* Times are medians of the slowest rank; 0: not measured. */
typedef struct message_row {
    size_t bytes;
    bool available; /* else it would need too much memory */
    double message_s, posted_s, unexpected_s, exchange_s, typed_s;
    double isend_s, irecv_s; /* of the host, in the calls */
    long bad;
} message_row_t;

/* The host's times in a call, of one measurement. */
typedef struct message_host {
    double seconds[SAMPLES];
    int count;
} message_host_t;

typedef struct message_run {
    bench_run_t *run;
    selvage_exchange_t *ex;
    MPI_Datatype type; /* of what is sent, and how many */
    size_t count;
    selvage_request_t *posted; /* a receive that the next repetition waits for */
    message_host_t isend, irecv;
    double blocks_s, blocks_typed_s; /* a copy for each block, and the datatype's message */
    size_t blocks_bytes;
    message_row_t rows[MESSAGE_ROWS];
    int row_count;
} message_run_t;

/* --- what is timed ------------------------------------------------------------------------------------------------ */

static void note(message_host_t *host, double began)
{
    host->seconds[host->count % SAMPLES] = tool_seconds() - began;
    host->count++;
}

static double median_of_host(const message_run_t *all, message_host_t *host)
{
    return tool_median_of_slowest(all->run->traffic.job, host->seconds, host->count < SAMPLES ? host->count : SAMPLES);
}

static void begin_to_receive(message_run_t *all, selvage_request_t **request)
{
    const tool_traffic_t *traffic = &all->run->traffic;
    const double began = tool_seconds();
    tool_try(traffic->job, "message_irecv",
             selvage_message_irecv(traffic->comm, traffic->device_recv, all->count, all->type, traffic->recv_peer[0],
                                   TAG, traffic->stream, request));
    note(&all->irecv, began);
}

static void begin_to_send(message_run_t *all, selvage_request_t **request)
{
    const tool_traffic_t *traffic = &all->run->traffic;
    const double began = tool_seconds();
    tool_try(traffic->job, "message_isend",
             selvage_message_isend(traffic->comm, traffic->device_send, all->count, all->type, traffic->send_peer[0],
                                   TAG, traffic->stream, request));
    note(&all->isend, began);
}

static void wait_for(const message_run_t *all, selvage_request_t **requests)
{
    tool_try(all->run->traffic.job, "message_waitall", selvage_message_waitall(2, requests, NULL));
}

static void send_and_receive(void *context)
{
    message_run_t *all = context;
    selvage_request_t *requests[2] = {NULL, NULL};
    begin_to_receive(all, &requests[0]);
    begin_to_send(all, &requests[1]);
    wait_for(all, requests);
}

/* Also posts the next receive, before the barrier of the next repetition. */
static void send_to_posted(void *context)
{
    message_run_t *all = context;
    selvage_request_t *requests[2] = {all->posted, NULL};
    begin_to_send(all, &requests[1]);
    wait_for(all, requests);
    begin_to_receive(all, &all->posted);
}

static void receive_unexpected(void *context)
{
    message_run_t *all = context;
    const tool_traffic_t *traffic = &all->run->traffic;
    selvage_request_t *requests[2] = {NULL, NULL};
    begin_to_send(all, &requests[1]);
    tool_try(traffic->job, "message_probe",
             selvage_message_probe(traffic->comm, traffic->recv_peer[0], TAG, NULL));
    begin_to_receive(all, &requests[0]);
    wait_for(all, requests);
}

static void start_and_wait(void *context)
{
    const message_run_t *all = context;
    const tool_traffic_t *traffic = &all->run->traffic;
    tool_try(traffic->job, "exchange_start", selvage_exchange_start(all->ex, traffic->stream));
    tool_try(traffic->job, "exchange_wait", selvage_exchange_wait(all->ex, traffic->stream));
}

/* Blocks with gaps, one after the other, by a copy for each. */
static void copy_blocks(void *context)
{
    const message_run_t *all = context;
    const tool_traffic_t *traffic = &all->run->traffic;
    for (size_t at = 0; at < all->blocks_bytes; at += BLOCK_BYTES)
        tool_try(traffic->job, "copy",
                 selvage_device_copy(traffic->device, traffic->device_recv + at, traffic->device_send + 2 * at,
                                     BLOCK_BYTES, SELVAGE_COPY_DEVICE_TO_DEVICE, traffic->stream));
    tool_try(traffic->job, "synchronize", selvage_stream_synchronize(traffic->device, traffic->stream));
}

/* --- a row -------------------------------------------------------------------------------------------------------- */

static double measure(message_run_t *all, bench_body_t body)
{
    return bench_run_measure(all->run, BENCH_WAIT, (bench_work_t){.enqueue = body, .context = all}).median_s;
}

static void measure_exchange(message_run_t *all, message_row_t *row)
{
    const selvage_exchange_params_t params = {SELVAGE_EXCHANGE_PARAMS_INIT};
    if (tool_traffic_commit(&all->run->traffic, &params, &all->ex) == SELVAGE_SUCCESS)
        row->exchange_s = measure(all, start_and_wait);
    selvage_exchange_destroy(all->ex);
    all->ex = NULL;
}

static double measure_vector(message_run_t *all, size_t bytes)
{
    if (bytes < BLOCK_BYTES || 2 * bytes > all->run->traffic.capacity)
        return 0;
    MPI_Type_vector((int)(bytes / BLOCK_BYTES), 1, 2, MPI_DOUBLE, &all->type);
    MPI_Type_commit(&all->type);
    all->count = 1;
    const double seconds = measure(all, send_and_receive);
    MPI_Type_free(&all->type);
    return seconds;
}

/* One way or the other, and the last receive that was posted is met, too. */
static void measure_ahead_and_behind(message_run_t *all, message_row_t *row)
{
    selvage_request_t *requests[2] = {NULL, NULL};
    begin_to_receive(all, &all->posted);
    row->posted_s = measure(all, send_to_posted);
    requests[0] = all->posted;
    begin_to_send(all, &requests[1]);
    wait_for(all, requests);
    row->unexpected_s = measure(all, receive_unexpected);
}

static void measure_messages(message_run_t *all, message_row_t *row)
{
    tool_traffic_t *traffic = &all->run->traffic;
    all->type = MPI_BYTE;
    all->count = row->bytes;
    all->isend.count = all->irecv.count = 0;
    row->message_s = measure(all, send_and_receive);
    row->isend_s = median_of_host(all, &all->isend);
    row->irecv_s = median_of_host(all, &all->irecv);
    measure_ahead_and_behind(all, row);
    tool_traffic_fill(traffic);
    send_and_receive(all);
    row->bad = tool_traffic_check(traffic);
    tool_reduce(traffic->job, traffic->job->comm, &row->bad, 1, MPI_LONG, MPI_SUM);
}

static void print_row(const bench_run_t *run, const message_row_t *row)
{
    char size[24], typed[24] = "n/a", exchange[80] = "       n/a        n/a        n/a";
    if (run->job.rank != 0)
        return;
    printf("%8s ", tool_size_text(size, sizeof size, row->bytes));
    if (!row->available) {
        printf("n/a: more memory than half of this host's\n");
        return;
    }
    if (row->typed_s > 0)
        snprintf(typed, sizeof typed, "%.1f", row->typed_s * 1e6);
    if (row->exchange_s > 0)
        snprintf(exchange, sizeof exchange, "%10.1f %+10.1f %8.0f %%", row->exchange_s * 1e6,
                 (row->message_s - row->exchange_s) * 1e6, 100 * row->exchange_s / row->message_s);
    printf("%10.1f %8.2f %s %9.1f %10.1f %7.1f %7.1f %9s%s\n", row->message_s * 1e6,
           1e-9 * (double)row->bytes / row->message_s, exchange, row->posted_s * 1e6, row->unexpected_s * 1e6,
           row->isend_s * 1e6, row->irecv_s * 1e6, typed, row->bad ? "   BAD" : "");
    fflush(stdout);
}

static void measure_size(message_run_t *all, size_t bytes)
{
    bench_run_t *run = all->run;
    message_row_t *row = &all->rows[all->row_count++];
    *row = (message_row_t){.bytes = bytes};
    bench_shape(&run->traffic, BENCH_SHIFT, bytes, false);
    row->available = bytes <= run->traffic.capacity;
    if (row->available) {
        measure_messages(all, row);
        measure_exchange(all, row);
        row->typed_s = measure_vector(all, bytes);
    }
    print_row(run, row);
}

/* The largest of the sizes that is not too large: copies take their time. */
static void measure_blocks(message_run_t *all)
{
    for (int i = 0; i < all->row_count; i++) {
        const message_row_t *row = &all->rows[i];
        if (row->typed_s > 0 && row->bytes <= BLOCKS_BYTES_MAX && row->bytes > all->blocks_bytes)
            all->blocks_bytes = row->bytes / BLOCK_BYTES * BLOCK_BYTES;
    }
    if (all->blocks_bytes == 0)
        return;
    all->blocks_typed_s = measure_vector(all, all->blocks_bytes);
    all->blocks_s = measure(all, copy_blocks);
    char size[24];
    if (all->run->job.rank == 0)
        printf("\n%s as a vector of %d-byte blocks: sent and received in %.1f us; packed by one copy for each block, "
               "and not sent, %.1f us: %.0f times as long\n", tool_size_text(size, sizeof size, all->blocks_bytes),
               BLOCK_BYTES, all->blocks_typed_s * 1e6, all->blocks_s * 1e6, all->blocks_s / all->blocks_typed_s);
}

/* --- reports ------------------------------------------------------------------------------------------------------ */

static void print_figure(FILE *file, const char *name, double seconds)
{
    if (seconds > 0)
        fprintf(file, ", \"%s\": %.6g", name, seconds);
    else
        fprintf(file, ", \"%s\": null", name);
}

static void print_json_row(FILE *file, const message_row_t *row)
{
    fprintf(file, "    {\"size\": %zu, \"available\": %s, \"bad_messages\": %ld", row->bytes,
            row->available ? "true" : "false", row->bad);
    print_figure(file, "message_s", row->message_s);
    print_figure(file, "posted_s", row->posted_s);
    print_figure(file, "unexpected_s", row->unexpected_s);
    print_figure(file, "exchange_s", row->exchange_s);
    print_figure(file, "typed_s", row->typed_s);
    print_figure(file, "isend_s", row->isend_s);
    print_figure(file, "irecv_s", row->irecv_s);
}

static bool write_json(const message_run_t *all)
{
    FILE *file = fopen(all->run->options.json, "w");
    if (!file)
        return false;
    bench_report_json_head(file, all->run);
    fprintf(file, "  \"rows\": [\n");
    for (int i = 0; i < all->row_count; i++) {
        print_json_row(file, &all->rows[i]);
        fprintf(file, "}%s\n", i + 1 < all->row_count ? "," : "");
    }
    fprintf(file, "  ],\n  \"blocks\": {\"size\": %zu", all->blocks_bytes);
    print_figure(file, "typed_s", all->blocks_typed_s);
    print_figure(file, "copies_s", all->blocks_s);
    fprintf(file, "}\n}\n");
    return bench_report_close(file);
}

static void print_head(const bench_run_t *run)
{
    bench_report_title(run);
    printf("a message to the next rank and one from the rank before, in device memory: the receive posted just\n"
           "before the send; the difference from an exchange of the same packets, and the share of its bandwidth; the\n"
           "receive posted before all began, or when its message was there; the host in the calls; and a vector of\n"
           "%d-byte blocks. Medians of the slowest rank, us\n\n", BLOCK_BYTES);
    printf("%8s %10s %8s %10s %10s %10s %9s %10s %7s %7s %9s\n", "size", "message", "GB/s", "exchange", "difference",
           "share", "posted", "unexpected", "isend", "irecv", "typed");
    fflush(stdout);
}

bool bench_message(bench_run_t *run)
{
    static message_run_t all;
    long bad = 0;
    all.run = run;
    if (run->job.rank == 0)
        print_head(run);
    for (int i = 0; i < run->options.size_count; i++) {
        measure_size(&all, run->options.sizes[i]);
        bad += all.rows[i].bad;
    }
    measure_blocks(&all);
    if (run->job.rank == 0)
        printf("\n%d messages compared with what was sent, %ld bad\n", all.row_count * run->job.size, bad);
    if (run->job.rank == 0 && run->options.json && !write_json(&all)) {
        fprintf(stderr, "selvage-bench: %s could not be written\n", run->options.json);
        return false;
    }
    return bad == 0;
}
