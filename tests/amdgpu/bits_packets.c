/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels that do something with one packet, or none (bits.h): digests, boxes, runs, faces, words. Sizes lie around the
 * loops of lanes, and addresses have any alignment that a kernel allows.
 */
#include <string.h>

#include "amdgpu/bits.h"
#include "fixtures/check.h"
#include "kernels/coll_exact.h"
#include "kernels/coll_fold.h"
#include "kernels/pack_plan.h"

enum { LINE = 64, RUNS = 600, EDGE_SHIFT_MAX = 4 };
static const uint64_t LONG_NS = 5000000000u, SHORT_NS = 30000;
static const unsigned threads[] = {64, 64, 128, 192, 256, 50};

static unsigned draw_threads(void)
{
    return threads[bits_draw(sizeof threads / sizeof *threads)];
}

static unsigned draw_shift(void)
{
    static const unsigned shifts[] = {0, 0, 0, 8, 4, 1, 1, 2};
    return shifts[bits_draw(8)];
}

static uint64_t draw_bytes(unsigned nthreads)
{
    switch (bits_draw(5)) {
    case 0: return bits_draw(10);
    case 1: return bits_draw(600);
    case 2: return 512 * bits_draw(20);
    default: return 64 * nthreads + bits_draw(48 * (uint64_t)nthreads); /* several units of a lane at a time */
    }
}

static sv_record_t identity_of(uint64_t bytes)
{
    const uint32_t index = 4;
    return (sv_record_t){.magic = SV_RECORD_MAGIC, .version = SV_RECORD_VERSION, .kind = SV_RECORD_PACKET,
                         .epoch = index, .exchange = 7, .index = index, .tag = 9, .destination = 1, .bytes = bytes,
                         .salt = index + UINT64_C(9000)};
}

/* The record of what lies at src, with a defect or none. */
static void put_record(uint8_t *record, const sv_record_t *identity, const uint8_t *src)
{
    sv_record_t written = *identity;
    const uint64_t key = sv_digest_key(identity), defect = bits_draw(6);
    written.digest = sv_digest_finish(key, sv_digest_sum(key, 0, src, identity->bytes)) + (defect == 0);
    written.tag += defect == 1;
    memcpy(record, &written, sizeof written);
}

/* --- digests ------------------------------------------------------------------------------------------------------ */

/* Waits for a word that is there, or not: then the host ends it, or sooner the clock. */
static void make_wait(sv_digest_arg_t *arg)
{
    uint64_t *words = bits_take_zero(3 * sizeof *words);
    arg->await = words;
    arg->stop = words + 2;
    arg->await_before = 3;
    arg->await_value = 4;
    arg->await_ns = LONG_NS;
    arg->away_value = 21;
    arg->mode |= bits_draw(2) ? SV_DIGEST_ONLY : 0u;
    words[0] = 4;
    switch (bits_draw(4)) {
    case 0: words[0] = 5; break; /* another one's */
    case 1: words[0] = 3; break;
    default: return;
    }
    if (bits_draw(2))
        arg->await_ns = SHORT_NS;
    words[2] = arg->signal_value;
}

static void run_digest(void)
{
    const unsigned nthreads = draw_threads(), nblocks = bits_draw(2) ? 1 : 1 + (unsigned)bits_draw(4);
    const uint64_t bytes = draw_bytes(nthreads);
    const bool copies = bits_draw(2), verifies = bits_draw(2);
    uint64_t *words = bits_take_zero(4 * sizeof *words);
    sv_digest_arg_t arg = {.src = bits_take(bytes, draw_shift()), .bytes = bytes, .identity = identity_of(bytes),
                           .scratch = bits_take_zero(sizeof(sv_digest_scratch_t)),
                           .record = bits_take(SV_RECORD_BYTES, draw_shift()),
                           .result = bits_take_zero(sizeof(sv_verify_result_t)), .signal = words, .signal_value = 11,
                           .second = bits_draw(2) ? words + 1 : NULL, .second_value = 12};
    arg.key = sv_digest_key(&arg.identity);
    arg.dst = copies ? bits_take(bytes, draw_shift()) : NULL;
    arg.copy = bits_draw(2) ? bits_take(SV_RECORD_BYTES, draw_shift()) : NULL;
    arg.mode = (verifies ? SV_DIGEST_VERIFY : SV_DIGEST_PREPARE) | (bits_draw(4) ? 0u : SV_DIGEST_NONE) |
               (bits_draw(2) ? SV_DIGEST_NEAR : 0u) | (bits_draw(2) ? SV_DIGEST_PRESET : 0u) |
               (bits_draw(3) ? 0u : SV_DIGEST_AHEAD);
    put_record(arg.record, &arg.identity, arg.src);
    if (bits_draw(6) == 0)
        arg.mode = SV_DIGEST_ADD;
    else if (bits_draw(3) == 0)
        make_wait(&arg);
    if (arg.await && verifies && bits_draw(2))
        arg.mode |= SV_DIGEST_LATE;
    if (bits_draw(12) == 0 && !arg.await)
        arg.scratch = NULL;
    if (bits_draw(3) == 0 && !arg.await)
        arg.signal = NULL;
    bits_run(&sv_kernel_digest, &arg, nblocks, nthreads, nblocks);
}

static void run_digests(void)
{
    const unsigned nthreads = draw_threads();
    sv_digests_arg_t arg = {.njobs = 1 + (uint32_t)bits_draw(SV_DIGESTS_MAX), .exchange = 7};
    for (uint32_t i = 0; i < arg.njobs; i++) {
        sv_digest_job_t *job = &arg.job[i];
        const bool verifies = bits_draw(2);
        uint64_t *words = bits_take_zero(2 * sizeof *words);
        *job = (sv_digest_job_t){.bytes = draw_bytes(nthreads), .signal = bits_draw(3) ? words : NULL,
                                 .signal_value = 11, .second = bits_draw(2) ? words + 1 : NULL, .second_value = 12,
                                 .scratch = bits_take_zero(sizeof(sv_digest_scratch_t)),
                                 .record = bits_take(SV_RECORD_BYTES, draw_shift()),
                                 .result = bits_take_zero(sizeof(sv_verify_result_t))};
        const sv_record_t identity = identity_of(job->bytes);
        job->src = bits_take(job->bytes, draw_shift());
        job->dst = bits_draw(2) ? bits_take(job->bytes, draw_shift()) : NULL;
        job->copy = bits_draw(2) ? bits_take(SV_RECORD_BYTES, draw_shift()) : NULL;
        job->key = sv_digest_key(&identity);
        job->epoch = identity.epoch;
        job->tag = identity.tag;
        job->destination = identity.destination;
        job->mode = (uint16_t)((verifies ? SV_DIGEST_VERIFY : SV_DIGEST_PREPARE) | (bits_draw(4) ? 0 : SV_DIGEST_NONE) |
                               (bits_draw(2) ? SV_DIGEST_NEAR : 0) | (bits_draw(2) ? SV_DIGEST_PRESET : 0));
        job->mode |= bits_draw(4) ? 0 : SV_DIGEST_AHEAD;
        put_record(job->record, &identity, job->src);
        arg.first_block[i + 1] = arg.first_block[i] + 1 + (uint32_t)bits_draw(2);
    }
    bits_run(&sv_kernel_digests, &arg, arg.first_block[arg.njobs], nthreads, arg.first_block[arg.njobs]);
}

/* --- boxes, runs, faces ------------------------------------------------------------------------------------------- */

static uint64_t draw_shape(sv_pack_shape_t *shape)
{
    static const unsigned sizes[] = {1, 2, 3, 4, 8, 12, 16, 16, 24, 32};
    const bool narrow = bits_draw(2);
    uint64_t elements = 1;
    *shape = (sv_pack_shape_t){.element_bytes = sizes[bits_draw(10)], .ndims = 1 + (unsigned)bits_draw(SV_PACK_DIMS)};
    int64_t stride = (int64_t)shape->element_bytes;
    const uint64_t most = bits_draw(2) ? 12000 / shape->element_bytes : 200;
    for (unsigned d = 0; d < shape->ndims; d++) {
        stride *= 1 + (int64_t)(bits_draw(narrow ? 2 : 3) == 0);
        const uint64_t left = most / elements;
        const uint64_t few = narrow ? 3 : 12;
        const uint64_t count = d + 1 == shape->ndims ? left : 1 + bits_draw(left < few ? left : few);
        shape->dim[d] = (sv_pack_dim_t){.count = count ? count : 1, .stride_bytes = stride};
        elements *= shape->dim[d].count;
        stride *= (int64_t)shape->dim[d].count;
    }
    shape->base = bits_take((uint64_t)stride + LINE, draw_shift());
    return elements * shape->element_bytes;
}

static void run_pack(bool unpacks)
{
    const unsigned nthreads = draw_threads(), nblocks = 1 + (unsigned)bits_draw(3);
    sv_pack_shape_t shape;
    const uint64_t bytes = draw_shape(&shape), offset = bits_draw(3) ? 0 : bytes / 16 * 8;
    sv_pack_arg_t arg = {.scratch = bits_take_zero(sizeof(sv_digest_scratch_t)), .identity = identity_of(bytes),
                         .record = bits_take(SV_RECORD_BYTES, draw_shift()),
                         .result = bits_take_zero(sizeof(sv_verify_result_t)),
                         .signal = bits_draw(2) ? bits_take_zero(sizeof(uint64_t)) : NULL, .signal_value = 9};
    uint8_t *stream = bits_take(bytes, 0);
    CHECK_STATUS(sv_pack_plan(&shape, stream, offset, bytes - offset, &arg), SELVAGE_SUCCESS);
    if (arg.granule < 16) {
        arg.packed = bits_take(bytes, draw_shift());
        if (!unpacks && bits_draw(4) == 0)
            arg.packed = NULL;
    }
    if (unpacks && bits_draw(6) == 0)
        arg.box = NULL;
    arg.key = sv_digest_key(&arg.identity);
    const uint64_t end = bits_draw(8); /* mostly as the library has it */
    arg.mode = (end == 0 ? SV_DIGEST_ADD : (end == 1) != unpacks ? SV_DIGEST_VERIFY : SV_DIGEST_PREPARE) |
               (bits_draw(4) ? 0u : SV_DIGEST_NONE) | (bits_draw(2) ? SV_DIGEST_PRESET : 0u);
    put_record(arg.record, &arg.identity, stream);
    if (bits_draw(8) == 0)
        arg.scratch = NULL;
    bits_run(unpacks ? &sv_kernel_unpack : &sv_kernel_pack, &arg, nblocks, nthreads, nblocks);
}

/* Two groups, of which a part moves. */
static void run_runs(void)
{
    static const unsigned granules[] = {1, 2, 4, 8};
    const unsigned granule = granules[bits_draw(4)], nblocks = 1 + (unsigned)bits_draw(2);
    sv_runs_group_t *groups = (sv_runs_group_t *)(void *)bits_take_zero(2 * sizeof *groups);
    int64_t *offsets = bits_take_zero(2 * RUNS * sizeof *offsets), place = 0;
    uint32_t *begins = bits_take_zero((2 * RUNS + 2) * sizeof *begins), first = 0;
    const uint64_t longest = bits_draw(2) ? 6 : 40;
    uint64_t at = 0;
    for (unsigned g = 0; g < 2; g++) {
        groups[g] = (sv_runs_group_t){.at = at, .first = first, .count = 1 + (uint32_t)bits_draw(200)};
        for (uint32_t i = 0; i < groups[g].count; i++) {
            const uint32_t length = granule * (1 + (uint32_t)bits_draw(longest));
            offsets[first + i] = place;
            begins[first + g + i] = groups[g].bytes;
            groups[g].bytes += length;
            place += length + granule * (uint32_t)bits_draw(3);
        }
        first += groups[g].count;
        begins[first + g] = groups[g].bytes;
        at += groups[g].bytes;
    }
    sv_runs_arg_t arg = {.groups = groups, .offsets = offsets, .begins = begins, .end_group = 2, .granule = granule,
                         .base = bits_take((uint64_t)place + LINE, (granule % 8) * (unsigned)bits_draw(2)),
                         .packed = bits_take(at, draw_shift()), .scatters = (uint32_t)bits_draw(2), .end = at};
    if (bits_draw(2)) {
        arg.from = bits_draw(groups[0].bytes);
        arg.end = at - bits_draw(groups[1].bytes);
    }
    if (bits_draw(4) == 0) { /* less than a word */
        arg.end_group = 1;
        arg.end = arg.from + bits_draw(7) < groups[0].bytes ? arg.from + bits_draw(7) : groups[0].bytes;
    }
    bits_run(&sv_kernel_runs, &arg, nblocks, draw_threads(), nblocks);
}

/* Four sheets of their own, and two narrow faces beside each other, which is as good as a cube's. */
static void run_touch(void)
{
    const unsigned nblocks = 1 + (unsigned)bits_draw(3);
    sv_touch_arg_t arg = {.width = 1 + (uint32_t)bits_draw(SV_TOUCH_WIDTH_MAX),
                          .edge_shift = 2 + (uint32_t)bits_draw(EDGE_SHIFT_MAX), .unlikely = ~UINT64_C(0),
                          .sink = bits_take_zero(sizeof(uint64_t)), .mode = (uint32_t)bits_draw(8)};
    const int64_t edge = 1 << arg.edge_shift, sheet_bytes = 16 * edge * edge;
    arg.row_stride = 8 * (3 * SV_TOUCH_WIDTH_MAX);
    arg.plane_stride = arg.row_stride * edge;
    arg.nsheets = (uint32_t)bits_draw(5);
    for (unsigned n = 0; n < 2; n++) {
        arg.narrow[n].face = bits_take((size_t)(arg.plane_stride * edge), 0);
        arg.narrow[n].stream = bits_take((size_t)(8 * edge * edge * SV_TOUCH_WIDTH_MAX), 0);
    }
    for (unsigned s = 0; s < arg.nsheets; s++)
        arg.sheet[s] = (sv_touch_sheet_t){.at = {bits_take((size_t)sheet_bytes, 0), bits_take((size_t)sheet_bytes, 0)},
                                          .face_stride = 16 * edge, .stream_stride = 8 * edge};
    bits_run(&sv_kernel_touch, &arg, nblocks, draw_threads(), nblocks);
}

/* --- exact sums ------------------------------------------------------------------------------------------------- */

/* Now and then an element is an infinity, a NaN, a zero of either sign, or too small to be normal. */
static void mix_in_specials(uint8_t *elements, uint64_t count, unsigned each)
{
    const unsigned chance = 1 + (unsigned)bits_draw(200);
    for (uint64_t i = 0; i < count; i++) {
        const bool top = bits_draw(2), whole = bits_draw(2);
        uint8_t *last = elements + i * each + each - 1;
        if (bits_draw(chance) != 0)
            continue;
        last[0] = (uint8_t)(bits_draw(2) << 7 | (top ? 0x7f : 0));
        last[-1] = (uint8_t)(top ? (each == 8 ? 0xf0 : 0x80) : 0);
        memset(last - each + 1, whole ? 0 : 0x35, each - 2);
    }
}

/* A rank's part of a sum, and the sum of as many that are like it. */
static void run_exact(void)
{
    const bool wide = bits_draw(2);
    const unsigned each = wide ? 8 : 4, nthreads = draw_threads(), nblocks = 1 + (unsigned)bits_draw(3);
    sv_exact_arg_t arg = {.blocks = 1 + (uint32_t)bits_draw(4), .count = 1 + (uint32_t)bits_draw(300),
                          .type = wide ? SV_COLL_FLOAT64 : SV_COLL_FLOAT32, .ranks = 1 + (uint32_t)bits_draw(5),
                          .spare_bits = 3, .flags = bits_draw(3) ? 0 : SV_COLL_DIVIDE};
    arg.pitch = (arg.count + SV_EXACT_UNIT - 1) / SV_EXACT_UNIT * SV_EXACT_UNIT;
    arg.mine = (uint32_t)bits_draw(arg.blocks);
    arg.stride = arg.count;
    const uint64_t all = (uint64_t)arg.blocks * arg.pitch, most = all > 5 * arg.pitch ? all : UINT64_C(5) * arg.pitch;
    arg.end = bits_draw(2) ? UINT64_MAX : (uint64_t)arg.blocks * arg.count - bits_draw(arg.count);
    uint8_t *source = bits_take(all * each, (unsigned)bits_draw(3) * each);
    for (uint64_t i = 0; bits_draw(4) && i < all; i++)
        source[i * each + each - 1] = (uint8_t)bits_draw(256); /* any sign and exponent */
    arg.src = (uintptr_t)source;
    arg.dst = (uintptr_t)bits_take(all * each, (unsigned)bits_draw(3) * each);
    arg.packed = bits_take(most * each, 0);
    arg.received = bits_take(most * each, 0);
    if (bits_draw(2)) {
        mix_in_specials(source, all, each);
        mix_in_specials(arg.received, most, each);
    }
    arg.scale = bits_take(all, 0);
    arg.limb = (uint64_t *)(void *)bits_take(2 * all * sizeof *arg.limb, 0);
    uint8_t *scalar = bits_take(each, 0);
    if (bits_draw(2)) {
        arg.flags |= SV_COLL_PREMUL | (bits_draw(2) ? SV_COLL_SCALAR_AT : 0);
        arg.scalar = (uintptr_t)scalar;
        if (!(arg.flags & SV_COLL_SCALAR_AT)) {
            arg.scalar = 0;
            memcpy(&arg.scalar, scalar, each);
        }
    }
    const sv_kernel_t *const kernels[] = {&sv_kernel_exact_scale, &sv_kernel_exact_split, &sv_kernel_exact_join,
                                          &sv_kernel_exact_pack, &sv_kernel_exact_add, &sv_kernel_exact_unpack};
    for (unsigned k = 0; k < sizeof kernels / sizeof *kernels; k++)
        bits_run(kernels[k], &arg, nblocks, nthreads, nblocks);
}

/* --- other reductions --------------------------------------------------------------------------------------------- */

/* Some bytes are as they were made; others make zeros, equal elements, or infinities and NaNs. */
static void spread_values(uint8_t *bytes, size_t count)
{
    static const uint8_t kept[] = {0xff, 0x00, 0x01, 0x00, 0x10};
    for (size_t i = 0; i < count; i += 4) {
        const uint8_t mask = kept[bits_draw(5)], top = bits_draw(9) ? 0 : 0x7f;
        for (size_t e = i; e < i + 4 && e < count; e++)
            bytes[e] = (uint8_t)((bytes[e] & mask) | (e == i + 3 ? top : top == 0 ? 0 : 0xf0));
    }
}

/* Every type, with operations that it has and, as the host refuses those, some that it has not. */
static void run_fold(void)
{
    static const uint8_t align[SV_FOLD_TYPES] = {1, 1, 1, 4, 4, 8, 8, 1, 1, 4, 8, 1, 1, 2, 2, 4, 8, 4, 8, 8, 4, 4, 4,
                                                 8};
    static const uint8_t bytes[SV_FOLD_TYPES] = {1, 1, 1, 4, 4, 8, 8, 1, 1, 4, 8, 1, 1, 2, 2, 8, 16, 8, 16, 16, 8, 8,
                                                 8, 16};
    const unsigned nthreads = draw_threads(), nblocks = 1 + (unsigned)bits_draw(3);
    const unsigned type = 1 + (unsigned)bits_draw(SV_FOLD_TYPES - 1);
    sv_fold_arg_t arg = {.count = 1 + bits_draw(300), .parts = 1 + (uint32_t)bits_draw(3),
                         .blocks = 1 + (uint32_t)bits_draw(5), .divisor = bits_draw(3) ? 0 : 3, .type = (uint8_t)type};
    const uint64_t size = arg.count * bytes[type];
    const uint64_t pitch = bits_draw(2) ? (size + 15) / 16 * 16 : size + bits_draw(3) * align[type];
    const unsigned shift = bits_draw(2) ? 0 : (unsigned)bits_draw(3) * align[type];
    arg.op = (uint8_t)(type >= SV_FOLD_FLOAT32_INT32 ? SV_FOLD_MINLOC + bits_draw(2)
                       : type == SV_FOLD_INT16 || type == SV_FOLD_UINT16
                           ? (bits_draw(2) ? SV_COLL_SUM + bits_draw(4) : SV_FOLD_BAND + bits_draw(6))
                           : SV_FOLD_BAND + bits_draw(6));
    arg.block_stride = pitch;
    arg.src_stride = pitch * arg.blocks;
    arg.dst_stride = pitch;
    uint8_t *source = bits_take(arg.src_stride * arg.parts, shift);
    spread_values(source, arg.src_stride * arg.parts);
    arg.src = (uintptr_t)source;
    arg.dst = (uintptr_t)bits_take(pitch * arg.parts, bits_draw(2) ? shift : 0);
    bits_run(&sv_kernel_fold, &arg, nblocks, nthreads, nblocks);
}

/* --- words -------------------------------------------------------------------------------------------------------- */

static void run_sum(void)
{
    const unsigned nthreads = draw_threads(), nblocks = 1 + (unsigned)bits_draw(3);
    const sv_sum_arg_t arg = {.words = 2 * bits_draw(40 * (uint64_t)nthreads), .sum = bits_take_zero(sizeof(uint64_t)),
                              .src = (const uint64_t *)(void *)bits_take(16 * (40 * (uint64_t)nthreads), 0)};
    bits_run(&sv_kernel_sum, &arg, nblocks, nthreads, nblocks);
}

static void run_words(void)
{
    uint64_t *words = bits_take_zero(8 * sizeof *words);
    const sv_signal_arg_t signal = {.word = words, .value = 3, .second = bits_draw(2) ? words + 1 : NULL,
                                    .record = bits_draw(2) ? (const uint64_t *)(void *)bits_take(SV_RECORD_BYTES, 0)
                                                           : NULL,
                                    .record_to = (uint64_t *)(void *)bits_take(SV_RECORD_BYTES, 0)};
    bits_run(&sv_kernel_signal, &signal, 1, 64, 1);
    const sv_flip_arg_t flip = {.byte = bits_take(LINE, draw_shift()), .mask = 1 + bits_draw(255)};
    bits_run(&sv_kernel_flip, &flip, 1, 64, 1);
    const sv_delay_arg_t delay = {.ns = bits_draw(2) * SHORT_NS};
    bits_run(&sv_kernel_delay, &delay, 1, 64, 1);
    words[2] = bits_draw(2);
    words[3] = bits_draw(2);
    const sv_await_arg_t await = {.word = words + 2, .abort = words + 3, .late = bits_draw(2) ? words + 4 : NULL,
                                  .epoch = 1, .wait_ns = SHORT_NS};
    bits_run(&sv_kernel_await, &await, 1, 64, 1);
    words[5] = bits_draw(3);
    sv_clock_arg_t clock = {.ask = words + 5, .answer = bits_take_zero(3 * sizeof(uint64_t)), .rounds = 2,
                            .wait_ns = 5 * SHORT_NS};
    bits_ignore(clock.answer + 1, 2 * sizeof *clock.answer);
    bits_run(&sv_kernel_clock, &clock, 1, 64, 1);
}

void bits_packets(uint64_t first, uint64_t count)
{
    for (uint64_t seed = first; seed < first + count; seed++) {
        bits_reset(seed);
        run_digest();
        run_digest();
        bits_reset(seed + 1000000);
        run_digests();
        run_pack(false);
        run_pack(true);
        bits_reset(seed + 2000000);
        run_runs();
        run_touch();
        run_sum();
        run_exact();
        run_fold();
        run_fold();
        if (seed % 8 == 0)
            run_words();
    }
}
