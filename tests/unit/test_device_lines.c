/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines and words of system scope between blocks, each on a thread of its own: no word of a line is ever torn, what is
 * after a release is there, a slot is not written before it was given back, and an exchange loses no value. The same
 * kernel compiles for GPUs (test_device_kernels.sh).
 */
#include <pthread.h>
#include <stdlib.h>

#include "fixtures/check.h"
#include "fixtures/line_kernel.h"

typedef struct block {
    const line_arg_t *arg;
    unsigned number, count;
    pthread_t thread;
} block_t;

static void *block_main(void *data)
{
    const block_t *block = data;
    test_lines_soft(block->arg, block->number, block->count);
    return NULL;
}

static void run(const line_arg_t *arg, unsigned count)
{
    block_t block[LINE_TAKERS];
    for (unsigned i = 0; i < count; i++) {
        block[i] = (block_t){.arg = arg, .number = i, .count = count};
        CHECK_EQ(pthread_create(&block[i].thread, NULL, block_main, &block[i]), 0);
    }
    for (unsigned i = 0; i < count; i++)
        pthread_join(block[i].thread, NULL);
}

static void test_lines(void)
{
    static _Alignas(128) uint64_t line[LINE_WORDS];
    static uint64_t plain[LINE_RING], taken, wrong;
    static uint32_t told, heard;
    const line_arg_t arg = {.line = line, .plain = plain, .taken = &taken, .told = &told, .heard = &heard,
                            .wrong = &wrong};
    run(&arg, 2);
    CHECK_EQ(wrong, 0);
    CHECK_EQ(taken, LINE_ROUNDS);
}

static void test_looks(void)
{
    static _Alignas(128) uint64_t line[2];
    static uint32_t done;
    static uint64_t torn, looks;
    const line_arg_t arg = {.line = line, .done = &done, .torn = &torn, .looks = &looks};
    run(&arg, 2);
    CHECK_EQ(torn, 0);
    CHECK(looks > 0);
}

/* Every token but the last comes back exactly once, and so does the zero that was there first. */
static void test_exchange(void)
{
    enum { TOKENS = LINE_TAKES * LINE_TAKERS };
    static uint64_t given_back[TOKENS + 1];
    uint32_t token = 0;
    const line_arg_t arg = {.token = &token, .given_back = given_back};
    run(&arg, LINE_TAKERS);
    CHECK(token >= 1 && token <= TOKENS);
    unsigned wrong = 0;
    for (uint32_t i = 0; i <= TOKENS; i++)
        wrong += given_back[i] != (i != token);
    CHECK_EQ(wrong, 0);
}

int main(void)
{
    test_lines();
    test_looks();
    test_exchange();
    return check_report("device_lines");
}
