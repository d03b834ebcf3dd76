/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of time stamps: making room, comparing clocks, and reading back. The device's clock is compared by a kernel
 * that answers the host many times, of which the quickest answer counts. Where a kernel must not wait for the host,
 * each question is a launch of its own.
 *
 * At the end a kernel may have released its last word and not yet taken its last stamp. So everything on the device is
 * waited for before lines are read or freed. If it is stuck, they are neither.
 */
#include "comm/comm_stamps.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_clock.h"
#include "base/base_clocks.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "kernels/kernels.h"

_Static_assert((int)SV_STAMPS == (int)SV_TRACE_STAMPS && (int)SV_STAMP_PACKED == (int)SV_TRACE_STAMP_PACKED &&
                   (int)SV_STAMP_STORED == (int)SV_TRACE_STAMP_STORED &&
                   (int)SV_STAMP_SIGNALLED == (int)SV_TRACE_STAMP_SIGNALLED &&
                   (int)SV_STAMP_SAW == (int)SV_TRACE_STAMP_SAW &&
                   (int)SV_STAMP_VERIFIED == (int)SV_TRACE_STAMP_VERIFIED &&
                   (int)SV_STAMP_LEFT == (int)SV_TRACE_STAMP_LEFT,
               "stamps have the same numbers in kernels and in traces");

enum { ROUNDS = 64, LAUNCHES = 4, CHUNK_LINES = 4096, ANSWER_S = 10 };

typedef struct noted {
    uint64_t first;          /* number of the line */
    uint32_t lines;
    sv_trace_blocks_t what;
} noted_t;

typedef struct clock_words {
    uint64_t ask, answer[3]; /* of sv_clock_arg_t */
} clock_words_t;

struct sv_stamps {
    void *stream;
    clock_words_t *words;    /* pinned */
    sv_stamp_line_t *chunk;  /* pinned, CHUNK_LINES */
    sv_stamp_line_t *lines;  /* in device memory */
    noted_t *noted;          /* at most one for each line */
    uint64_t capacity;
    _Atomic uint64_t taken, nnoted, lost;
    _Atomic uint32_t launches;
    uint64_t resolution_ns;
    sv_clock_sample_t first, last; /* of the device's clock */
};

/* --- the device's clock ------------------------------------------------------------------------------------------- */

/* Asks once, and waits for the answer. The clock runs from before the launch if the launch is the question. */
static selvage_status_t ask_clock(sv_stamps_t *stamps, uint64_t round, uint64_t asked_ns, sv_clock_sample_t *sample)
{
    clock_words_t *words = stamps->words;
    sv_backoff_t backoff = {.max_sleep_us = 0};
    uint64_t now_ns = asked_ns;
    __atomic_store_n(&words->ask, round, __ATOMIC_RELEASE); /* partner: the acquire of the kernel that answers */
    /* Partner: the release of that kernel. */
    while (__atomic_load_n(&words->answer[0], __ATOMIC_ACQUIRE) < round) {
        if (now_ns - asked_ns > (uint64_t)ANSWER_S * 1000000000)
            return sv_error(SELVAGE_ERR_DEVICE, "SELVAGE_TRACE_KERNELS: the device does not say what its clock says");
        sv_backoff(&backoff);
        now_ns = sv_clock_ns();
    }
    now_ns = sv_clock_ns();
    sv_clocks_compare(sample, asked_ns, __atomic_load_n(&words->answer[1], __ATOMIC_RELAXED), now_ns);
    return SELVAGE_SUCCESS;
}

static selvage_status_t ask_clock_often(selvage_comm_t *comm, unsigned rounds, sv_clock_sample_t *sample)
{
    sv_stamps_t *stamps = comm->stamps;
    const sv_clock_arg_t arg = {.ask = &stamps->words->ask, .answer = stamps->words->answer, .rounds = rounds,
                                .wait_ns = (uint64_t)ANSWER_S * 1000000000};
    memset(stamps->words, 0, sizeof *stamps->words);
    stamps->words->ask = rounds == 1; /* else the kernel is asked when it runs */
    const uint64_t launched_ns = sv_clock_ns();
    selvage_status_t status = SV_DEVICE_CALL(comm->dev, launch, &sv_kernel_clock, &arg, sizeof arg, 1, stamps->stream);
    for (unsigned round = 1; round <= rounds && status == SELVAGE_SUCCESS; round++)
        status = ask_clock(stamps, round, rounds == 1 ? launched_ns : sv_clock_ns(), sample);
    stamps->resolution_ns = __atomic_load_n(&stamps->words->answer[2], __ATOMIC_RELAXED);
    return status == SELVAGE_SUCCESS ? SV_DEVICE_CALL(comm->dev, stream_sync, stamps->stream) : status;
}

static selvage_status_t compare_device_clock(selvage_comm_t *comm, sv_clock_sample_t *sample)
{
    if (comm->dev->kernels_wait)
        return ask_clock_often(comm, ROUNDS, sample);
    for (unsigned i = 0; i < LAUNCHES; i++)
        SV_TRY(ask_clock_often(comm, 1, sample));
    return SELVAGE_SUCCESS;
}

/* --- making and freeing ------------------------------------------------------------------------------------------- */

static selvage_status_t make_lines(selvage_comm_t *comm)
{
    sv_stamps_t *stamps = comm->stamps;
    sv_device_t *dev = comm->dev;
    void *ptr;
    stamps->capacity = (uint64_t)comm->config.trace_events;
    SV_TRY(sv_pages_alloc(stamps->capacity * sizeof *stamps->noted, &stamps->noted));
    SV_TRY(SV_DEVICE_CALL(dev, stream_create, &stamps->stream));
    SV_TRY(SV_DEVICE_CALL(dev, host_malloc, sizeof *stamps->words, &ptr));
    stamps->words = ptr;
    SV_TRY(SV_DEVICE_CALL(dev, host_malloc, CHUNK_LINES * sizeof *stamps->chunk, &ptr));
    stamps->chunk = ptr;
    SV_TRY(SV_DEVICE_CALL(dev, malloc, stamps->capacity * sizeof *stamps->lines, &ptr));
    stamps->lines = ptr;
    SV_TRY(SV_DEVICE_CALL(dev, fill_async, stamps->lines, 0, stamps->capacity * sizeof *stamps->lines, stamps->stream));
    SV_TRY(SV_DEVICE_CALL(dev, stream_sync, stamps->stream));
    return compare_device_clock(comm, &stamps->first);
}

selvage_status_t sv_stamps_create(selvage_comm_t *comm)
{
    if (!comm->config.trace_kernels || !comm->config.trace[0] || comm->dev == sv_device_absent())
        return SELVAGE_SUCCESS;
    SV_TRY(sv_calloc(1, sizeof *comm->stamps, &comm->stamps));
    selvage_status_t status = make_lines(comm);
    if (status != SELVAGE_SUCCESS)
        sv_stamps_destroy(comm);
    return status;
}

void sv_stamps_destroy(selvage_comm_t *comm)
{
    sv_stamps_t *stamps = comm->stamps;
    sv_device_t *dev = comm->dev_under; /* frees whatever faults are injected */
    if (!stamps)
        return;
    const bool stuck = atomic_load_explicit(&comm->device_stuck, memory_order_relaxed) ||
                       (stamps->lines && dev->ops->device_sync(dev) != SELVAGE_SUCCESS);
    if (stuck)
        sv_log(SV_LOG_WARN, "timeline", "memory of time stamps is left, as kernels of the device have not ended");
    if (!stuck && stamps->stream)
        SV_DEVICE_CALL(dev, stream_destroy, stamps->stream);
    if (!stuck && stamps->lines)
        SV_DEVICE_CALL(dev, free, stamps->lines);
    if (!stuck && stamps->words)
        SV_DEVICE_CALL(dev, host_free, stamps->words);
    if (!stuck && stamps->chunk)
        SV_DEVICE_CALL(dev, host_free, stamps->chunk);
    sv_pages_free(stamps->noted, stamps->capacity * sizeof *stamps->noted);
    sv_free(stamps);
    comm->stamps = NULL;
}

/* --- taking ------------------------------------------------------------------------------------------------------- */

uint32_t sv_stamps_number_launch(sv_stamps_t *stamps)
{
    return atomic_fetch_add_explicit(&stamps->launches, 1, memory_order_relaxed) + 1;
}

sv_stamp_line_t *sv_stamps_take(sv_stamps_t *stamps, uint32_t lines)
{
    const uint64_t at = atomic_fetch_add_explicit(&stamps->taken, lines, memory_order_relaxed);
    if (at + lines <= stamps->capacity)
        return stamps->lines + at;
    atomic_fetch_add_explicit(&stamps->lost, lines, memory_order_relaxed);
    return NULL;
}

void sv_stamps_note(sv_stamps_t *stamps, const sv_stamp_line_t *first, uint32_t lines, const sv_trace_blocks_t *what)
{
    const uint64_t number = atomic_fetch_add_explicit(&stamps->nnoted, 1, memory_order_relaxed);
    stamps->noted[number] = (noted_t){.first = (uint64_t)(first - stamps->lines), .lines = lines, .what = *what};
}

/* --- reading back ------------------------------------------------------------------------------------------------- */

static selvage_status_t copy_lines_down(selvage_comm_t *comm, sv_stamp_line_t *lines, uint64_t count)
{
    const sv_stamps_t *stamps = comm->stamps;
    for (uint64_t done = 0; done < count; done += CHUNK_LINES) {
        const uint64_t now = count - done < CHUNK_LINES ? count - done : CHUNK_LINES;
        SV_TRY(SV_DEVICE_CALL(comm->dev, copy_async, stamps->chunk, stamps->lines + done, now * sizeof *lines,
                              SV_COPY_D2H, stamps->stream));
        SV_TRY(SV_DEVICE_CALL(comm->dev, stream_sync, stamps->stream));
        memcpy(lines + done, stamps->chunk, now * sizeof *lines);
    }
    return SELVAGE_SUCCESS;
}

static uint64_t host_time_of(const sv_stamps_t *stamps, uint64_t device_ns)
{
    const uint64_t about_ns = device_ns - (uint64_t)stamps->first.ahead_ns;
    return device_ns - (uint64_t)sv_clocks_ahead_ns(&stamps->first, &stamps->last, about_ns);
}

/* Adds what a block recorded to that of its group. What is older than its beginning is of an earlier replay. */
static void add_stamped_line(const sv_stamps_t *stamps, const sv_stamp_line_t *line, sv_trace_blocks_t *group)
{
    const uint64_t begin_ns = line->at_ns[SV_STAMP_BEGAN];
    uint64_t *at_ns = group->at_ns;
    const uint64_t host_ns = host_time_of(stamps, begin_ns);
    at_ns[SV_STAMP_BEGAN] = at_ns[SV_STAMP_BEGAN] && at_ns[SV_STAMP_BEGAN] < host_ns ? at_ns[SV_STAMP_BEGAN] : host_ns;
    group->last_began_ns = group->last_began_ns > host_ns ? group->last_began_ns : host_ns;
    for (unsigned s = SV_STAMP_BEGAN + 1; s < SV_STAMPS; s++) {
        if (!line->at_ns[s] || line->at_ns[s] < begin_ns)
            continue;
        const uint64_t later_ns = host_time_of(stamps, line->at_ns[s]);
        at_ns[s] = at_ns[s] > later_ns ? at_ns[s] : later_ns;
    }
    group->times = group->times > line->times ? group->times : (uint32_t)line->times;
}

/* The blocks of a packet or of a piece of work, by groups. Returns how many groups there are of them. */
static uint64_t group_lines(const sv_stamps_t *stamps, const noted_t *noted, const sv_stamp_line_t *lines,
                            sv_trace_blocks_t *groups, sv_trace_blocks_head_t *head)
{
    uint64_t ngroups = 0;
    for (uint32_t first = 0; first < noted->lines; first += SV_TRACE_GROUP_BLOCKS) {
        sv_trace_blocks_t *group = &groups[ngroups];
        const uint32_t end =
            noted->lines - first < SV_TRACE_GROUP_BLOCKS ? noted->lines : first + SV_TRACE_GROUP_BLOCKS;
        *group = noted->what;
        memset(group->at_ns, 0, sizeof group->at_ns);
        group->last_began_ns = 0;
        group->first = first;
        group->count = group->times = 0;
        for (uint32_t i = first; i < end; i++) {
            const sv_stamp_line_t *line = &lines[noted->first + i];
            if (line->times == 0) /* the launch failed, or the graph did not run */
                continue;
            head->overwritten += line->times - 1;
            if (line->at_ns[SV_STAMP_LEFT] < line->at_ns[SV_STAMP_BEGAN]) {
                head->unfinished++;
                continue;
            }
            add_stamped_line(stamps, line, group);
            group->count++;
        }
        ngroups += group->count > 0;
    }
    return ngroups;
}

static int compare_beginnings(const void *a, const void *b)
{
    const sv_trace_blocks_t *one = a, *other = b;
    return (one->at_ns[SV_STAMP_BEGAN] > other->at_ns[SV_STAMP_BEGAN]) -
           (one->at_ns[SV_STAMP_BEGAN] < other->at_ns[SV_STAMP_BEGAN]);
}

static uint64_t count_noted_lines(const sv_stamps_t *stamps, uint64_t nnoted)
{
    uint64_t end = 0;
    for (uint64_t i = 0; i < nnoted; i++)
        if (end < stamps->noted[i].first + stamps->noted[i].lines)
            end = stamps->noted[i].first + stamps->noted[i].lines;
    return end;
}

static uint64_t count_groups(const sv_stamps_t *stamps, uint64_t nnoted)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < nnoted; i++)
        count += (stamps->noted[i].lines + SV_TRACE_GROUP_BLOCKS - 1) / SV_TRACE_GROUP_BLOCKS;
    return count;
}

selvage_status_t sv_stamps_collect(selvage_comm_t *comm, sv_trace_blocks_t **blocks_out,
                                   sv_trace_blocks_head_t *head_out)
{
    sv_stamps_t *stamps = comm->stamps;
    const uint64_t nnoted = atomic_load_explicit(&stamps->nnoted, memory_order_relaxed);
    const uint64_t nlines = count_noted_lines(stamps, nnoted);
    sv_trace_blocks_head_t head = {.lost = atomic_load_explicit(&stamps->lost, memory_order_relaxed)};
    sv_stamp_line_t *lines = NULL;
    sv_trace_blocks_t *blocks = NULL;
    selvage_status_t status = SELVAGE_SUCCESS;
    if (atomic_load_explicit(&comm->device_stuck, memory_order_relaxed)) {
        head.unfinished = nlines;
        goto end;
    }
    SV_TRY_GOTO(status, comm->dev->ops->device_sync(comm->dev), end);
    SV_TRY_GOTO(status, compare_device_clock(comm, &stamps->last), end);
    SV_TRY_GOTO(status, sv_calloc(nlines, sizeof *lines, &lines), end);
    SV_TRY_GOTO(status, sv_calloc(count_groups(stamps, nnoted), sizeof *blocks, &blocks), end);
    SV_TRY_GOTO(status, copy_lines_down(comm, lines, nlines), end);
    for (uint64_t i = 0; i < nnoted; i++)
        head.count += group_lines(stamps, &stamps->noted[i], lines, blocks + head.count, &head);
    qsort(blocks, head.count, sizeof *blocks, compare_beginnings);
end:
    sv_free(lines);
    if (status != SELVAGE_SUCCESS) {
        sv_free(blocks);
        return status;
    }
    head.resolution_ns = stamps->resolution_ns;
    head.device_error_ns = stamps->first.error_ns > stamps->last.error_ns ? stamps->first.error_ns
                                                                           : stamps->last.error_ns;
    *head_out = head;
    *blocks_out = blocks;
    return SELVAGE_SUCCESS;
}
