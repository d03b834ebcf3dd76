/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel that brings the rest of a packet, its body for soft: sizes, places of the cut, numbers of blocks. What has
 * landed is not read from the source, the rest not from the target. Damage anywhere is found.
 */
#include <string.h>

#include "fixtures/check.h"
#include "kernels/kernels.h"

enum { BYTES_MOST = 5000, GAP = 16 };

static uint8_t truth[BYTES_MOST], source[BYTES_MOST + GAP], target[BYTES_MOST + 2 * GAP];

typedef struct rest_case {
    uint64_t bytes, landed;
    unsigned blocks, landed_blocks;
    unsigned from, to;       /* offsets of source and target */
} rest_case_t;

typedef struct rest_run {
    sv_verify_result_t result;
    uint64_t word, second;
    bool scratch_is_zero;
} rest_run_t;

/* damage: which byte is another one where it is to be read; bytes: none. */
static rest_run_t run_rest(const rest_case_t *of, uint64_t damage, const uint64_t *await)
{
    sv_record_t record = {.magic = SV_RECORD_MAGIC, .version = SV_RECORD_VERSION, .kind = SV_RECORD_PACKET, .epoch = 1,
                          .exchange = 7, .index = 3, .tag = 5, .destination = 1, .bytes = of->bytes, .salt = 5003};
    sv_digest_scratch_t scratch = {0};
    rest_run_t run = {.word = 0};
    uint64_t stop = 0;
    const uint64_t key = sv_digest_key(&record);
    const sv_rest_arg_t arg = {
        .pass = {.src = source + of->from, .dst = target + GAP + of->to, .bytes = of->bytes, .key = key,
                 .scratch = &scratch, .record = (uint8_t *)&record, .result = &run.result, .signal = &run.word,
                 .signal_value = 7, .second = &run.second, .second_value = 9, .await = await, .await_value = 5,
                 .away_value = 8, .stop = &stop, .mode = SV_DIGEST_VERIFY | (await ? (unsigned)SV_DIGEST_LATE : 0u),
                 .identity = record},
        .landed_bytes = of->landed,
        .landed_blocks = of->landed_blocks};
    record.digest = sv_digest_finish(key, sv_digest_sum(key, 0, truth, of->bytes));
    memset(source, 0xa5, sizeof source);
    memset(target, 0x5a, sizeof target);
    memcpy(target + GAP + of->to, truth, of->landed);
    memcpy(source + of->from + of->landed, truth + of->landed, of->bytes - of->landed);
    if (damage < of->bytes)
        (damage < of->landed ? target + GAP + of->to : source + of->from)[damage] ^= 0x10;
    for (unsigned block = of->blocks; block-- > 0;)
        sv_kernel_rest.soft(&arg, block, of->blocks);
    run.scratch_is_zero = scratch.sum == 0 && scratch.blocks_done == 0 && scratch.go == 0;
    return run;
}

static void check_rest(const rest_case_t *of)
{
    const uint64_t damaged[] = {of->bytes, 0, of->landed - 1, of->landed, of->bytes - 1, of->bytes / 2};
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        const bool good = damaged[i] == of->bytes;
        const rest_run_t run = run_rest(of, damaged[i], NULL);
        CHECK_EQ(run.result.verified, good);
        CHECK_EQ(run.result.record_ok, 1);
        CHECK_EQ(run.word, 7);
        CHECK_EQ(run.second, good ? 9 : 0);
        CHECK(run.scratch_is_zero);
        CHECK_EQ(memcmp(target + GAP + of->to, truth, of->bytes) == 0, good);
        for (unsigned b = 0; b < GAP; b++)
            CHECK(target[b + of->to] == 0x5a && target[GAP + of->to + of->bytes + b] == 0x5a);
    }
}

/* The record has not come when all is passed over: nothing is said of the bytes, and the next launch finds all as it
   was. */
static void check_gives_up(const rest_case_t *of)
{
    const uint64_t never = 0, there = 5;
    rest_run_t run = run_rest(of, of->bytes, &never);
    CHECK_EQ(run.word, 8);
    CHECK_EQ(run.second, 0);
    CHECK(run.scratch_is_zero);
    run = run_rest(of, of->bytes, &there);
    CHECK_EQ(run.word, 7);
    CHECK_EQ(run.second, 9);
    CHECK(run.result.verified);
}

int main(void)
{
    for (unsigned i = 0; i < BYTES_MOST; i++)
        truth[i] = (uint8_t)(i * 131 + i / 251);
    for (uint64_t bytes = 9; bytes <= BYTES_MOST - GAP; bytes = bytes * 3 + 5)
        for (uint64_t landed = 8; landed < bytes; landed += landed < 64 ? 8 : 1000)
            for (unsigned blocks = 2; blocks <= 5; blocks += 3)
                for (unsigned here = 1; here < blocks; here += blocks > 2 ? blocks - 2 : 1) {
                    const rest_case_t of = {.bytes = bytes, .landed = landed, .blocks = blocks, .landed_blocks = here,
                                            .from = (unsigned)(bytes + here) % 9, .to = (unsigned)landed / 8 % 3};
                    check_rest(&of);
                    check_gives_up(&of);
                }
    CHECK_STR(sv_kernel_rest.name, "sv_rest");
    return check_report("test_kernel_rest");
}
