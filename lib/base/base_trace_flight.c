/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The flight recorder as text. Everything here may run in a signal handler, so there is no printf, no allocation and no
 * lock. Numbers are formatted by hand into a buffer on the stack, which goes out with write(). The writer may be
 * filling the ring meanwhile: the oldest lines can be newer than they should be, and one of them torn.
 */
#include "base/base_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/base_file.h"
#include "base/base_trace_text.h"

enum { BUFFER_BYTES = 2048, LINE_BYTES_MAX = 512 };

typedef struct output {
    int fd;
    size_t used;
    char bytes[BUFFER_BYTES];
} output_t;

static void flush_output(output_t *out)
{
    size_t done = 0;
    while (done < out->used) {
        ssize_t written = write(out->fd, out->bytes + done, out->used - done);
        if (written == 0 || (written < 0 && errno != EINTR))
            break;
        done += written > 0 ? (size_t)written : 0;
    }
    out->used = 0;
}

/* Cuts what does not fit. Lines are far shorter than the space that put_record() leaves. */
static void put_text(output_t *out, const char *text)
{
    while (*text != '\0' && out->used < BUFFER_BYTES)
        out->bytes[out->used++] = *text++;
}

/* Decimal, with zeros in front up to width digits. */
static void put_number(output_t *out, uint64_t value, int width)
{
    char digits[24];
    int at = (int)sizeof digits;
    digits[--at] = '\0';
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
        width--;
    } while (value > 0 || width > 0);
    put_text(out, digits + at);
}

static void put_signed(output_t *out, int64_t value)
{
    if (value < 0)
        put_text(out, "-");
    put_number(out, value < 0 ? UINT64_C(0) - (uint64_t)value : (uint64_t)value, 1);
}

static void put_seconds(output_t *out, uint64_t ns)
{
    put_number(out, ns / 1000000000, 1);
    put_text(out, ".");
    put_number(out, ns / 1000 % 1000000, 6);
}

static void put_labelled(output_t *out, const char *label, uint64_t value)
{
    put_text(out, " ");
    put_text(out, label);
    put_text(out, " ");
    put_number(out, value, 1);
}

/* Member by member, the partner of store_shared() in base_trace.c. */
static sv_trace_record_t load_shared(const sv_trace_record_t *slot)
{
    sv_trace_record_t record;
    record.begin_ns = __atomic_load_n(&slot->begin_ns, __ATOMIC_RELAXED);
    record.end_ns = __atomic_load_n(&slot->end_ns, __ATOMIC_RELAXED);
    record.epoch = __atomic_load_n(&slot->epoch, __ATOMIC_RELAXED);
    record.value = __atomic_load_n(&slot->value, __ATOMIC_RELAXED);
    record.packet = __atomic_load_n(&slot->packet, __ATOMIC_RELAXED);
    record.peer = __atomic_load_n(&slot->peer, __ATOMIC_RELAXED);
    record.kind = __atomic_load_n(&slot->kind, __ATOMIC_RELAXED);
    record.route = __atomic_load_n(&slot->route, __ATOMIC_RELAXED);
    record.exchange = __atomic_load_n(&slot->exchange, __ATOMIC_RELAXED);
    return record;
}

/* When a record was made: at the end of a span. */
static uint64_t record_ns(const sv_trace_record_t *record)
{
    return record->end_ns ? record->end_ns : record->begin_ns;
}

/* Writes one record as a line. */
static void put_record(output_t *out, int rank, const sv_trace_record_t *record, uint64_t newest_ns)
{
    uint64_t ns = record_ns(record);
    put_text(out, ns > newest_ns ? "  +" : "  -");
    put_seconds(out, ns > newest_ns ? ns - newest_ns : newest_ns - ns);
    put_text(out, " rank ");
    put_signed(out, rank);
    put_text(out, " ");
    put_text(out, sv_trace_kind_text(record->kind));
    if (record->packet != UINT32_MAX)
        put_labelled(out, "packet", record->packet);
    if (record->peer >= 0)
        put_labelled(out, "peer", (uint64_t)record->peer);
    put_labelled(out, "epoch", record->epoch);
    put_labelled(out, sv_trace_value_text(record->kind), record->value);
    put_text(out, " route ");
    put_text(out, sv_trace_route_text(record->route));
    put_text(out, " exchange ");
    for (int shift = 28; shift >= 0; shift -= 4) {
        char digit[2] = {"0123456789abcdef"[record->exchange >> shift & 15], '\0'};
        put_text(out, digit);
    }
    if (record->end_ns > record->begin_ns) {
        put_text(out, " took ");
        put_seconds(out, record->end_ns - record->begin_ns);
    }
    put_text(out, "\n");
    if (out->used > BUFFER_BYTES - LINE_BYTES_MAX)
        flush_output(out);
}

void sv_trace_flight_write(const sv_trace_t *trace, const char *why)
{
    output_t out = {.fd = -1, .used = 0};
    if (trace->flight_path[0] != '\0')
        out.fd = sv_file_create(trace->flight_path, O_APPEND);
    bool opened = out.fd >= 0;
    if (!opened)
        out.fd = STDERR_FILENO;
    /* Acquire: the partner of the release in sv_trace_add(). Records below count are whole unless overtaken since. */
    uint64_t count = __atomic_load_n(&trace->flight_count, __ATOMIC_ACQUIRE);
    uint64_t from = count > SV_FLIGHT_RECORDS ? count - SV_FLIGHT_RECORDS : 0;
    uint64_t newest_ns = 0;
    if (count > 0) {
        sv_trace_record_t newest = load_shared(&trace->flight[(count - 1) % SV_FLIGHT_RECORDS]);
        newest_ns = record_ns(&newest);
    }
    put_text(&out, "selvage flight recorder, rank ");
    put_signed(&out, trace->rank);
    put_text(&out, ", ");
    for (int i = 0; why[i] != '\0' && i < 256; i++) {
        char character[2] = {why[i], '\0'};
        put_text(&out, character);
    }
    put_text(&out, ": the last ");
    put_number(&out, count - from, 1);
    put_text(&out, " of ");
    put_number(&out, count, 1);
    put_text(&out, " records, newest last, seconds before the newest\n");
    for (uint64_t i = from; i < count; i++) {
        sv_trace_record_t record = load_shared(&trace->flight[i % SV_FLIGHT_RECORDS]);
        put_record(&out, trace->rank, &record, newest_ns);
    }
    flush_output(&out);
    if (opened)
        close(out.fd);
}
