/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages beside exchanges: each rank sends to the next and receives from the one before it, in device memory, by
 * isend, irecv and waitall, and by an exchange of the same two packets; then elements of 8 bytes with gaps as long, by
 * a datatype. The policy of checksums is SELVAGE_CHECKSUM for both.
 */
#include <stdio.h>

#include "bench_report.h"
#include "bench_tables.h"

enum { TAG = 1, BLOCK_BYTES = 8, MESSAGE_ROWS = BENCH_SIZES_MAX };

typedef struct message_row {
    size_t bytes;
    bool available; /* else it would need too much memory */
    double message_s, exchange_s, typed_s; /* medians of the slowest rank; typed 0: not measured */
    long bad;
} message_row_t;

typedef struct message_run {
    bench_run_t *run;
    selvage_exchange_t *ex;
    MPI_Datatype type; /* of what is sent, and how many */
    size_t count;
    message_row_t rows[MESSAGE_ROWS];
    int row_count;
} message_run_t;

static void send_and_receive(void *context)
{
    const message_run_t *all = context;
    const tool_traffic_t *traffic = &all->run->traffic;
    selvage_request_t *requests[2] = {NULL, NULL};
    tool_try(traffic->job, "message_irecv",
             selvage_message_irecv(traffic->comm, traffic->device_recv, all->count, all->type, traffic->recv_peer[0],
                                   TAG, traffic->stream, &requests[0]));
    tool_try(traffic->job, "message_isend",
             selvage_message_isend(traffic->comm, traffic->device_send, all->count, all->type, traffic->send_peer[0],
                                   TAG, traffic->stream, &requests[1]));
    tool_try(traffic->job, "message_waitall", selvage_message_waitall(2, requests, NULL));
}

static void start_and_wait(void *context)
{
    const message_run_t *all = context;
    const tool_traffic_t *traffic = &all->run->traffic;
    tool_try(traffic->job, "exchange_start", selvage_exchange_start(all->ex, traffic->stream));
    tool_try(traffic->job, "exchange_wait", selvage_exchange_wait(all->ex, traffic->stream));
}

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

static void measure_typed(message_run_t *all, message_row_t *row)
{
    if (row->bytes < BLOCK_BYTES || 2 * row->bytes > all->run->traffic.capacity)
        return;
    MPI_Type_vector((int)(row->bytes / BLOCK_BYTES), 1, 2, MPI_DOUBLE, &all->type);
    MPI_Type_commit(&all->type);
    all->count = 1;
    row->typed_s = measure(all, send_and_receive);
    MPI_Type_free(&all->type);
}

static void measure_messages(message_run_t *all, message_row_t *row)
{
    tool_traffic_t *traffic = &all->run->traffic;
    all->type = MPI_BYTE;
    all->count = row->bytes;
    row->message_s = measure(all, send_and_receive);
    tool_traffic_fill(traffic);
    send_and_receive(all);
    row->bad = tool_traffic_check(traffic);
    tool_reduce(traffic->job, traffic->job->comm, &row->bad, 1, MPI_LONG, MPI_SUM);
}

static void print_row(const bench_run_t *run, const message_row_t *row)
{
    char size[24], typed[24] = "n/a", exchange[24] = "n/a", ratio[24] = "n/a";
    if (run->job.rank != 0)
        return;
    printf("%8s ", tool_size_text(size, sizeof size, row->bytes));
    if (!row->available) {
        printf("n/a: more memory than half of this host's\n");
        return;
    }
    if (row->typed_s > 0)
        snprintf(typed, sizeof typed, "%.1f", row->typed_s * 1e6);
    if (row->exchange_s > 0) {
        snprintf(exchange, sizeof exchange, "%.1f", row->exchange_s * 1e6);
        snprintf(ratio, sizeof ratio, "%.2f", row->exchange_s / row->message_s);
    }
    printf("%10.1f %8.2f %11s %10s %10s%s\n", row->message_s * 1e6, 1e-9 * (double)row->bytes / row->message_s,
           exchange, ratio, typed, row->bad ? "   BAD" : "");
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
        measure_typed(all, row);
    }
    print_row(run, row);
}

static void print_figure(FILE *file, const char *name, double seconds)
{
    if (seconds > 0)
        fprintf(file, ", \"%s\": %.6g", name, seconds);
    else
        fprintf(file, ", \"%s\": null", name);
}

static bool write_json(const message_run_t *all)
{
    FILE *file = fopen(all->run->options.json, "w");
    if (!file)
        return false;
    bench_report_json_head(file, all->run);
    fprintf(file, "  \"rows\": [\n");
    for (int i = 0; i < all->row_count; i++) {
        const message_row_t *row = &all->rows[i];
        fprintf(file, "    {\"size\": %zu, \"available\": %s, \"bad_messages\": %ld", row->bytes,
                row->available ? "true" : "false", row->bad);
        print_figure(file, "message_s", row->message_s);
        print_figure(file, "exchange_s", row->exchange_s);
        print_figure(file, "typed_s", row->typed_s);
        fprintf(file, "}%s\n", i + 1 < all->row_count ? "," : "");
    }
    fprintf(file, "  ]\n}\n");
    return bench_report_close(file);
}

static void print_head(const bench_run_t *run)
{
    bench_report_title(run);
    printf("a message to the next rank and one from the rank before, in device memory, beside an exchange of the same\n"
           "packets, and by a vector of %d-byte blocks; medians of the slowest rank\n\n%8s %10s %8s %11s %10s %10s\n",
           BLOCK_BYTES, "size", "message us", "GB/s", "exchange us", "ex/message", "typed us");
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
    if (run->job.rank == 0)
        printf("\n%d messages compared with what was sent, %ld bad\n", all.row_count * run->job.size, bad);
    if (run->job.rank == 0 && run->options.json && !write_json(&all)) {
        fprintf(stderr, "selvage-bench: %s could not be written\n", run->options.json);
        return false;
    }
    return bad == 0;
}
