/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selvage-kernels: how fast the kernels move and sum memory, against a kernel that only reads it and against the
 * device's own copy, in one run. One process, one device, one thread; the host takes the time of many launches in a row
 * and the median of several such series. Unlike the other tools it sees inside the library, which it holds itself.
 *
 * Every kernel's result is checked as well: a wrong one is fast for the wrong reason.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <selvage/version.h>

#include "base/base_clock.h"
#include "base/base_config.h"
#include "tools/common/tool_options.h"
#include "tools/kernels/kernel_bench.h"
#include "kernels/pack_plan.h"

enum { SERIES = 9, CHUNK_BYTES = 1 << 20, ROW = 64 };

void bench_must(selvage_status_t status, const char *what)
{
    if (status == SELVAGE_SUCCESS)
        return;
    fprintf(stderr, "selvage-kernels: %s: %s\n", what, selvage_error_detail());
    exit(1);
}

void bench_sync(bench_t *b)
{
    bench_must(SV_DEVICE_CALL(b->dev, stream_sync, b->stream), "stream");
}

void bench_enqueue(bench_t *b, const work_t *work)
{
    unsigned blocks = work->blocks ? work->blocks : b->blocks ? b->blocks : sv_kernel_blocks(b->dev, work->payload);
    const uint8_t *arg = work->arg;
    if (work->turns)
        arg += b->turn++ % work->turns * work->arg_bytes;
    if (!work->kernel)
        bench_must(SV_DEVICE_CALL(b->dev, copy_async, b->to, b->from, work->payload, SV_COPY_D2D, b->stream), "copy");
    else
        bench_must(SV_DEVICE_CALL(b->dev, launch, work->kernel, arg, work->arg_bytes, blocks, b->stream),
                   "launch");
}

static double series_ns(bench_t *b, const work_t *work, unsigned launches)
{
    uint64_t begin = sv_clock_ns();
    for (unsigned i = 0; i < launches; i++)
        bench_enqueue(b, work);
    bench_sync(b);
    return (double)(sv_clock_ns() - begin) / launches;
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Series long enough that the wait at the end of each does not count; the median of them. */
double bench_ns(bench_t *b, const work_t *work)
{
    double ns[SERIES], once;
    (void)series_ns(b, work, 1);
    once = series_ns(b, work, 2);
    double launches = b->options->seconds * 1e9 / SERIES / (once > 1 ? once : 1);
    unsigned count = launches < 1 ? 1 : launches > 10000 ? 10000 : (unsigned)launches;
    for (unsigned i = 0; i < SERIES; i++)
        ns[i] = series_ns(b, work, count);
    qsort(ns, SERIES, sizeof *ns, ascending);
    return ns[SERIES / 2];
}

double bench_print(const work_t *work, double ns)
{
    double rate = (double)work->moved / ns;
    printf("%-18s %-38s %9.1f %11.2f %9.1f %9.1f", work->name, work->shape, (double)work->payload / (1 << 20),
           ns / 1000, (double)work->payload / ns, rate);
    if (work->baseline > 0)
        printf(" %6.1f %%", 100 * rate / work->baseline);
    if (work->bound_ns > 0)
        printf(" %6.1f %%", 100 * work->bound_ns / ns);
    printf("\n");
    fflush(stdout);
    return rate;
}

double bench_line(bench_t *b, const work_t *work)
{
    return bench_print(work, bench_ns(b, work));
}

void bench_expect(bench_t *b, int right, const char *what)
{
    if (right)
        return;
    printf("WRONG RESULT: %s\n", what);
    b->wrong++;
}

sv_record_t bench_identity(uint64_t bytes)
{
    return (sv_record_t){.magic = SV_RECORD_MAGIC, .version = SV_RECORD_VERSION, .kind = SV_RECORD_PACKET,
                         .epoch = 1, .exchange = 7, .index = 2, .tag = 5, .destination = 1, .bytes = bytes,
                         .salt = 2 + UINT64_C(5000)};
}

/* Every chunk of the source is the same, so that the host knows its sum. */
static void check_sum(bench_t *b)
{
    uint64_t found = 0, wanted = 0, word;
    sv_sum_arg_t arg = {.src = (const uint64_t *)(const void *)b->from, .words = b->bytes / 8, .sum = b->sum};
    work_t work = {.kernel = &sv_kernel_sum, .arg = &arg, .arg_bytes = sizeof arg, .payload = b->bytes};

    for (size_t i = 0; i < CHUNK_BYTES; i += 8) {
        memcpy(&word, b->chunk + i, 8);
        wanted += word;
    }
    bench_must(SV_DEVICE_CALL(b->dev, fill_async, b->sum, 0, 8, b->stream), "fill");
    bench_enqueue(b, &work);
    bench_must(SV_DEVICE_CALL(b->dev, copy_async, b->record, b->sum, 8, SV_COPY_D2H, b->stream), "copy");
    bench_sync(b);
    memcpy(&found, b->record, 8);
    bench_expect(b, found == wanted * (b->bytes / CHUNK_BYTES), "sum");
}

static double contiguous_line(bench_t *b, const char *name, const sv_kernel_t *kernel, const void *arg,
                              size_t arg_bytes, uint64_t passes, double baseline)
{
    return bench_line(b, &(work_t){.name = name,
                                   .shape = "contiguous",
                                   .kernel = kernel,
                                   .arg = arg,
                                   .arg_bytes = arg_bytes,
                                   .payload = b->bytes,
                                   .moved = passes * b->bytes,
                                   .baseline = baseline});
}

static void measure_baselines(bench_t *b)
{
    sv_sum_arg_t sum = {.src = (const uint64_t *)(const void *)b->from, .words = b->bytes / 8, .sum = b->sum};

    check_sum(b);
    b->sum_rate = contiguous_line(b, "read-only sum", &sv_kernel_sum, &sum, sizeof sum, 1, 0);
    b->copy_rate = contiguous_line(b, "device copy", NULL, NULL, 0, 2, 0);
}

static void measure_digest(bench_t *b)
{
    sv_digest_arg_t arg = {.src = b->from, .bytes = b->bytes, .scratch = b->scratch, .record = b->record,
                           .result = b->result, .mode = SV_DIGEST_PREPARE, .identity = bench_identity(b->bytes)};
    arg.key = sv_digest_key(&arg.identity);
    contiguous_line(b, "checksum", &sv_kernel_digest, &arg, sizeof arg, 1, b->sum_rate);
    arg.mode = SV_DIGEST_VERIFY;
    contiguous_line(b, "verify", &sv_kernel_digest, &arg, sizeof arg, 1, b->sum_rate);
    bench_expect(b, b->result->verified == 1, "checksum and verify");
    arg.mode = SV_DIGEST_PREPARE | SV_DIGEST_NONE;
    arg.dst = b->to;
    contiguous_line(b, "copy", &sv_kernel_digest, &arg, sizeof arg, 2, b->copy_rate);
    arg.mode = SV_DIGEST_PREPARE;
    contiguous_line(b, "copy and checksum", &sv_kernel_digest, &arg, sizeof arg, 2, b->copy_rate);
    arg.mode = SV_DIGEST_VERIFY;
    arg.src = b->to;
    arg.dst = NULL;
    bench_enqueue(b, &(work_t){.kernel = &sv_kernel_digest, .arg = &arg, .arg_bytes = sizeof arg, .payload = b->bytes});
    bench_sync(b);
    bench_expect(b, b->result->verified == 1, "copy and checksum");
}

/* Bytes of a box that memory moves at least: rows end where sectors end, not where the box does. */
static uint64_t touched_bytes(const sv_pack_arg_t *plan)
{
    uint64_t run = plan->run_units ? (uint64_t)plan->run_units * plan->granule : plan->granule;
    if (plan->levels == 0 && plan->run_units)
        return plan->bytes;
    return plan->bytes / run * ((run + SECTOR_BYTES - 1) / SECTOR_BYTES * SECTOR_BYTES);
}

static void measure_shape(bench_t *b, const char *name, const sv_pack_shape_t *shape)
{
    sv_pack_arg_t arg = {.scratch = b->scratch, .record = b->record, .result = b->result};
    char label[48];
    uint64_t bytes = 0;

    bench_must(sv_pack_bytes(shape, &bytes), name);
    bench_must(sv_pack_plan(shape, b->to, 0, bytes, &arg), name);
    arg.identity = bench_identity(bytes);
    arg.key = sv_digest_key(&arg.identity);
    snprintf(label, sizeof label, "%s, %u-byte elements", name, (unsigned)shape->element_bytes);
    work_t work = {.name = "pack, checksum",
                   .shape = label,
                   .kernel = &sv_kernel_pack,
                   .arg = &arg,
                   .arg_bytes = sizeof arg,
                   .payload = bytes,
                   .moved = bytes + touched_bytes(&arg),
                   .baseline = b->copy_rate};
    arg.mode = SV_DIGEST_PREPARE;
    bench_line(b, &work);
    work.name = "unpack, verify";
    work.kernel = &sv_kernel_unpack;
    arg.mode = SV_DIGEST_VERIFY;
    bench_line(b, &work);
    bench_expect(b, b->result->verified == 1, label);
    work.name = "unpack, unchecked";
    arg.mode = SV_DIGEST_VERIFY | SV_DIGEST_NONE;
    bench_line(b, &work);
}

/* Faces of a grid of rows of ROW elements, ROW rows in a plane, as many planes as there is memory for. */
static void measure_packing(bench_t *b, uint64_t element)
{
    const uint64_t planes = b->bytes / (element * ROW * ROW);
    const int64_t row = (int64_t)element * ROW, plane = row * ROW;
    const struct {
        const char *name;
        sv_pack_dim_t dim[3];
    } faces[] = {{"whole", {{ROW, (int64_t)element}, {ROW, row}, {planes, plane}}},
                 {"every other plane", {{ROW, (int64_t)element}, {ROW, row}, {planes / 2, 2 * plane}}},
                 {"8 rows", {{ROW, (int64_t)element}, {8, row}, {planes, plane}}},
                 {"1 row", {{ROW, (int64_t)element}, {1, row}, {planes, plane}}},
                 {"4 columns", {{4, (int64_t)element}, {ROW, row}, {planes, plane}}},
                 {"1 column", {{1, (int64_t)element}, {ROW, row}, {planes, plane}}}};

    for (size_t f = 0; f < sizeof faces / sizeof *faces; f++) {
        sv_pack_shape_t shape = {.base = b->from, .element_bytes = element, .ndims = 3};
        memcpy(shape.dim, faces[f].dim, sizeof faces[f].dim);
        measure_shape(b, faces[f].name, &shape);
    }
}

static void measure_all(bench_t *b)
{
    printf("%-18s %-38s %9s %11s %9s %9s %8s %8s\n", "kernel", "shape", "MiB", "us", "GB/s", "moved", "of rival",
           "of bound");
    measure_baselines(b);
    measure_digest(b);
    measure_packing(b, 8);
    measure_packing(b, 24);
    measure_packing(b, 4);
    bench_faces(b);
}

static void allocate(bench_t *b)
{
    sv_device_t *dev = b->dev;
    bench_must(SV_DEVICE_CALL(dev, stream_create, &b->stream), "stream");
    bench_must(SV_DEVICE_CALL(dev, malloc, b->bytes, (void **)&b->from), "memory");
    bench_must(SV_DEVICE_CALL(dev, malloc, b->bytes, (void **)&b->to), "memory");
    bench_must(SV_DEVICE_CALL(dev, malloc, 8, (void **)&b->sum), "memory");
    bench_must(SV_DEVICE_CALL(dev, malloc, sizeof *b->scratch, (void **)&b->scratch), "memory");
    bench_must(SV_DEVICE_CALL(dev, host_malloc, CHUNK_BYTES, (void **)&b->chunk), "pinned memory");
    bench_must(SV_DEVICE_CALL(dev, host_malloc, SV_RECORD_BYTES, (void **)&b->record), "pinned memory");
    bench_must(SV_DEVICE_CALL(dev, host_malloc, sizeof *b->result, (void **)&b->result), "pinned memory");
    bench_must(SV_DEVICE_CALL(dev, fill_async, b->scratch, 0, sizeof *b->scratch, b->stream), "fill");
    srand(2718);
    for (size_t i = 0; i < CHUNK_BYTES; i++)
        b->chunk[i] = (uint8_t)(rand() >> 7);
    for (uint64_t at = 0; at < b->bytes; at += CHUNK_BYTES)
        bench_must(SV_DEVICE_CALL(dev, copy_async, b->from + at, b->chunk, CHUNK_BYTES, SV_COPY_H2D, b->stream),
                   "copy");
    bench_sync(b);
}

static void release(bench_t *b)
{
    sv_device_t *dev = b->dev;
    SV_DEVICE_CALL(dev, stream_destroy, b->stream);
    SV_DEVICE_CALL(dev, free, b->from);
    SV_DEVICE_CALL(dev, free, b->to);
    SV_DEVICE_CALL(dev, free, b->sum);
    SV_DEVICE_CALL(dev, free, b->scratch);
    SV_DEVICE_CALL(dev, host_free, b->chunk);
    SV_DEVICE_CALL(dev, host_free, b->record);
    SV_DEVICE_CALL(dev, host_free, b->result);
    dev->ops->close(dev);
}

static void usage(FILE *stream)
{
    fputs("usage: selvage-kernels [options]\n"
          "Bandwidth of the kernels on the device of SELVAGE_DEVICE: GB/s of payload, GB/s that memory reads and\n"
          "writes (strided sides in sectors of 32 bytes), and its share of the rival's: the read-only sum for kernels\n"
          "that only read, the device's copy for the others. All faces of a cube, in cubes that take turns so that\n"
          "they are in no cache, are beside their bound as well: a kernel that touches the same bytes and does\n"
          "nothing else, in its fastest launch.\n\n"
          "  --memory B     of each of two buffers, a multiple of 1M (default 4G, on the software device 16M); cubes\n"
          "                 have memory of their own\n"
          "  --seconds S    time for each figure (default 0.2)\n"
          "  --blocks LIST  a table for each number of blocks, instead of the library's choice\n"
          "  --help --version\n",
          stream);
}

static bool parse(int argc, char **argv, options_t *options, char *error_text, size_t error_bytes)
{
    const tool_option_t table[] = {
        {"memory", TOOL_SIZE, .value = &options->bytes},
        {"bytes", TOOL_SIZE, .value = &options->bytes}, /* its former name */
        {"seconds", TOOL_NUMBER, .value = &options->seconds, .low = 0, .high = 60},
        {"blocks", TOOL_WHOLES, .value = options->blocks, .low = 1, .high = 65535, .count = &options->nblocks,
         .room = BLOCKS_MAX},
        {"help", TOOL_FLAG, .value = &options->help},
        {"version", TOOL_FLAG, .value = &options->version},
    };
    if (!tool_options_parse(argc, argv, table, sizeof table / sizeof *table, NULL, error_text, error_bytes))
        return false;
    if (options->bytes % CHUNK_BYTES != 0)
        snprintf(error_text, error_bytes, "--memory is no multiple of 1M");
    return error_text[0] == '\0';
}

static const char *environment(void *arg, const char *name)
{
    (void)arg;
    return getenv(name);
}

static int measure(bench_t *b)
{
    const options_t *options = b->options;
    sv_config_t config;
    bench_must(sv_config_load(environment, NULL, &config), "configuration");
    bench_must(sv_device_open(NULL, &config, &b->dev), "device");
    int soft = strcmp(b->dev->ops->name, "soft") == 0;
    b->bytes = options->bytes ? options->bytes : soft ? UINT64_C(16) << 20 : UINT64_C(4) << 30;
    printf("device %s %s, two buffers of %llu MiB\n", b->dev->ops->name, b->dev->model,
           (unsigned long long)b->bytes >> 20);
    allocate(b);
    for (int i = 0; i < options->nblocks || i == 0; i++) {
        b->blocks = (unsigned)options->blocks[i];
        printf("\n%u blocks\n", b->blocks ? b->blocks : sv_kernel_blocks(b->dev, b->bytes));
        measure_all(b);
    }
    release(b);
    return b->wrong ? 1 : 0;
}

int main(int argc, char **argv)
{
    options_t options = {.seconds = 0.2};
    bench_t b = {.options = &options};
    char error[160];
    if (!parse(argc, argv, &options, error, sizeof error)) {
        usage(stderr);
        fprintf(stderr, "\nselvage-kernels: %s\n", error);
        return 2;
    }
    if (!options.help && !options.version)
        return measure(&b);
    if (options.help)
        usage(stdout);
    else
        printf("selvage-kernels %s\n", selvage_version(NULL, NULL, NULL));
    return 0;
}
