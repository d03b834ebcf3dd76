/* SPDX-License-Identifier: BSD-3-Clause */
/* What test_device_lines.c and its kernel share. Plain C and C++. */
#ifndef SELVAGE_TESTS_LINE_KERNEL_H
#define SELVAGE_TESTS_LINE_KERNEL_H

#include <stdint.h>

#include "kernels/kernel_args.h"

enum {
    LINE_RING = 16, LINE_WORDS = 2 * LINE_RING, LINE_ROUNDS = 20000, LINE_STORES = 5000000, LINE_TAKES = 5000,
    LINE_TAKERS = 4
};

/* Block 0 sends, block 1 takes and answers; or block 0 stores without waiting and the others look on; or all exchange
   tokens. */
typedef struct line_arg {
    uint64_t *line;       /* LINE_RING lines of two words */
    uint64_t *plain;      /* LINE_RING words that are ordered by `told` and `heard` */
    uint64_t *taken;      /* rounds that block 1 has taken; NULL: nobody takes */
    uint32_t *told, *heard;
    uint32_t *done;       /* the storing is over */
    uint32_t *token;      /* where tokens are exchanged; NULL: lines are sent */
    uint64_t *given_back; /* how often each token was */
    uint64_t *torn;       /* words whose halves do not fit each other */
    uint64_t *wrong;      /* words with other contents than were sent, or plain ones that came too late */
    uint64_t *looks;      /* of the onlookers */
} line_arg_t;

#ifdef __cplusplus
extern "C" {
#endif
void test_lines_soft(const void *arg, unsigned block, unsigned nblocks);
#ifdef __cplusplus
}
#endif
#endif
