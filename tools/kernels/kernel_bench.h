/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of selvage-kernels share. */
#ifndef SELVAGE_TOOLS_KERNEL_BENCH_H
#define SELVAGE_TOOLS_KERNEL_BENCH_H

#include "kernels/kernels.h"

enum { SECTOR_BYTES = 32, BLOCKS_MAX = 16 };

typedef struct options {
    size_t bytes;                 /* of each of two buffers; 0: what suits the device */
    double seconds;               /* of a figure */
    int blocks[BLOCKS_MAX];
    int nblocks;
    bool help, version;
} options_t;

typedef struct bench {
    sv_device_t *dev;
    const options_t *options;
    void *stream;
    uint8_t *from, *to;           /* device memory */
    uint64_t *sum;
    sv_digest_scratch_t *scratch;
    uint8_t *chunk;               /* pinned */
    uint8_t *record;
    sv_verify_result_t *result;
    uint64_t bytes;
    unsigned blocks;
    unsigned turn;                /* counts launches */
    double sum_rate, copy_rate;   /* bytes moved in a nanosecond, of the two rivals */
    int wrong;
} bench_t;

/* What a line of the table measures: a launch, or a copy where kernel is NULL. */
typedef struct work {
    const char *name, *shape;
    const sv_kernel_t *kernel;
    const void *arg;
    size_t arg_bytes;
    unsigned turns;               /* arguments after one another that launches take in turn; 0 is 1 */
    unsigned blocks;              /* 0: what the command line says, or what the library would take */
    uint64_t payload;             /* bytes that a user would count */
    uint64_t moved;               /* bytes that memory reads and writes at least */
    double baseline;              /* rate to compare with; 0: none */
    double bound_ns;              /* time to compare with; 0: none */
} work_t;

/* Ends the program with what, and why, unless status is SUCCESS. */
void bench_must(selvage_status_t status, const char *what);
void bench_sync(bench_t *b);
/* Launches once. */
void bench_enqueue(bench_t *b, const work_t *work);
/* Time of a launch. */
double bench_ns(bench_t *b, const work_t *work);
/* Prints the line of something that takes so long; gives the rate of bytes moved. */
double bench_print(const work_t *work, double ns);
/* Both. */
double bench_line(bench_t *b, const work_t *work);
/* Notes a wrong result. */
void bench_expect(bench_t *b, int right, const char *what);
/* Who a packet of so many bytes is, in all measurements. */
sv_record_t bench_identity(uint64_t bytes);

/* All faces of a cube in one launch, beside a kernel that does no more than that takes (kernel_faces.c). */
void bench_faces(bench_t *b);

#endif
