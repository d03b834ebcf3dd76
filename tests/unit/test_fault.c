/* SPDX-License-Identifier: BSD-3-Clause */
/* Fault points: the specification, the frequencies, what limits them, calls that fail, and clean refusals. */
#include <pthread.h>
#include <string.h>

#include "base/base_fault.h"
#include "base/base_memory.h"
#include "base/base_thread.h"
#include "fixtures/check.h"

enum { DRAWS = 40000, CALLS = 1000 };

static void drop_line(void *arg, int level, const char *line)
{
    (void)arg, (void)level, (void)line;
}

static void check_frequencies(void)
{
    sv_fault_t fault;
    long counts[SV_FAULT_KINDS] = {0};
    CHECK_STATUS(sv_fault_parse("flip=0.1,swap=0.2,delay=0.05,seed=7", 3, &fault), SELVAGE_SUCCESS);
    CHECK(fault.armed);
    for (uint32_t i = 0; i < DRAWS; i++)
        counts[sv_fault_packet(&fault, i, 0)]++;
    CHECK(counts[SV_FAULT_FLIP] > DRAWS / 10 * 9 / 10 && counts[SV_FAULT_FLIP] < DRAWS / 10 * 11 / 10);
    CHECK(counts[SV_FAULT_SWAP] > DRAWS / 5 * 9 / 10 && counts[SV_FAULT_SWAP] < DRAWS / 5 * 11 / 10);
    CHECK(counts[SV_FAULT_DELAY] > DRAWS / 20 * 8 / 10 && counts[SV_FAULT_DELAY] < DRAWS / 20 * 12 / 10);
    CHECK_EQ(counts[SV_FAULT_REPLAY] + counts[SV_FAULT_DROP] + counts[SV_FAULT_DUPLICATE], 0);
    CHECK_EQ(fault.injected[SV_FAULT_FLIP], counts[SV_FAULT_FLIP]);
    CHECK_EQ(fault.injected[SV_FAULT_SWAP], counts[SV_FAULT_SWAP]);
}

static void check_always(void)
{
    sv_fault_t fault;
    CHECK_STATUS(sv_fault_parse("drop=1,attempts=2", 0, &fault), SELVAGE_SUCCESS);
    CHECK_EQ(sv_fault_packet(&fault, 0, 0), SV_FAULT_DROP);
    CHECK_EQ(sv_fault_packet(&fault, 0, 1), SV_FAULT_DROP);
    CHECK_EQ(sv_fault_packet(&fault, 0, 2), SV_FAULT_NONE);
    CHECK_STATUS(sv_fault_parse("drop=1,attempts=255", 0, &fault), SELVAGE_SUCCESS);
    CHECK_EQ(sv_fault_packet(&fault, 0, 4000), SV_FAULT_DROP);
    CHECK_STATUS(sv_fault_parse("duplicate=1,only=4", 0, &fault), SELVAGE_SUCCESS);
    CHECK_EQ(sv_fault_packet(&fault, 3, 0), SV_FAULT_NONE);
    CHECK_EQ(sv_fault_packet(&fault, 4, 0), SV_FAULT_DUPLICATE);
    CHECK_EQ(sv_fault_packet(&fault, 4, 1), SV_FAULT_NONE);
    CHECK_EQ(fault.injected[SV_FAULT_DUPLICATE], 1);
    CHECK_STR(sv_fault_name(SV_FAULT_TRUNCATE), "truncate");
}

static void check_ranks_and_seeds(void)
{
    sv_fault_t none, named, other, again;
    CHECK_STATUS(sv_fault_parse("", 0, &none), SELVAGE_SUCCESS);
    CHECK(!none.armed);
    CHECK_EQ(sv_fault_packet(&none, 0, 0), SV_FAULT_NONE);
    CHECK_EQ(none.delay_ms, 20);
    CHECK_STATUS(sv_fault_parse("rank=2,flip=1,alloc=1,stop_ms=9,stop_epoch=3,never=4", 2, &named), SELVAGE_SUCCESS);
    CHECK(named.armed && named.call_armed[SV_FAULT_CALL_ALLOC]);
    CHECK_EQ(named.stop_ms, 9);
    CHECK_EQ(named.stop_epoch, 3);
    CHECK_EQ(named.never_epoch, 4);
    CHECK_STATUS(sv_fault_parse("rank=2,flip=1,alloc=1,stop_ms=9,stop_epoch=3,never=4", 1, &other), SELVAGE_SUCCESS);
    CHECK(!other.armed && !other.call_armed[SV_FAULT_CALL_ALLOC]);
    CHECK_EQ(other.stop_epoch + other.never_epoch, 0);
    sv_fault_parse("flip=0.5,seed=5", 1, &named);
    sv_fault_parse("flip=0.5,seed=5", 1, &again);
    sv_fault_parse("flip=0.5,seed=5", 2, &other);
    uint64_t a = sv_fault_random(&named, UINT64_MAX), b = sv_fault_random(&again, UINT64_MAX);
    CHECK(a == b);
    CHECK(a != sv_fault_random(&other, UINT64_MAX));
    for (int i = 0; i < CALLS; i++)
        CHECK(sv_fault_random(&named, 3) < 3);
}

static void check_refusals(void)
{
    static const char *const bad[] = {"flop=1",  "flip",   "flip=",   "flip=2",   "flip=-0.1", "flip=0.6,drop=0.6",
                                      "alloc=0", "alloc=+", "wire=x",  "only=-1",  "seed=1.5",  "flip=0.1,",
                                      ",",       "flip=1 ", "rank=1x", "delay_ms=5000000000",
                                      "an_unreasonably_long_name_that_nobody_would_ever_write_by_hand_0123456789=1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        sv_fault_t fault, before;
        memset(&fault, 0x33, sizeof fault);
        memcpy(&before, &fault, sizeof fault);
        CHECK_STATUS(sv_fault_parse(bad[i], 0, &fault), SELVAGE_ERR_CONFIG);
        CHECK(memcmp(&fault, &before, sizeof fault) == 0);
        CHECK(strncmp(selvage_error_detail(), "SELVAGE_FAULT: ", 15) == 0);
    }
    sv_fault_t fault;
    CHECK_STATUS(sv_fault_parse("flip=0.1,drop=0.2,swap=0.7", 0, &fault), SELVAGE_SUCCESS);
}

static void check_calls(void)
{
    sv_fault_t fault;
    void *ptr = NULL;
    CHECK(!sv_fault_call_fails(SV_FAULT_CALL_WIRE));
    CHECK_STATUS(sv_fault_parse("alloc=2,device=3+", 0, &fault), SELVAGE_SUCCESS);
    sv_thread_binding()->fault = &fault;
    CHECK_STATUS(sv_calloc(1, 1, &ptr), SELVAGE_SUCCESS);
    sv_free(ptr);
    ptr = &fault;
    CHECK_STATUS(sv_calloc(1, 1, &ptr), SELVAGE_ERR_MEMORY);
    CHECK(ptr == &fault);
    CHECK_STATUS(sv_calloc(1, 1, &ptr), SELVAGE_SUCCESS);
    sv_free(ptr);
    CHECK(!sv_fault_call_fails(SV_FAULT_CALL_DEVICE));
    CHECK(!sv_fault_call_fails(SV_FAULT_CALL_DEVICE));
    CHECK(sv_fault_call_fails(SV_FAULT_CALL_DEVICE));
    CHECK(sv_fault_call_fails(SV_FAULT_CALL_DEVICE));
    CHECK(!sv_fault_call_fails(SV_FAULT_CALL_WIRE));
    sv_thread_binding()->fault = NULL;
    CHECK_EQ(sv_memory_live(), 0);
}

static void *call_often(void *arg)
{
    sv_thread_binding()->fault = arg;
    intptr_t failed = 0;
    for (int i = 0; i < CALLS; i++)
        failed += sv_fault_call_fails(SV_FAULT_CALL_WIRE);
    return (void *)failed;
}

/* Exactly one of all calls of both threads fails. */
static void check_threads(void)
{
    sv_fault_t fault;
    pthread_t thread[2];
    void *failed[2];
    CHECK_STATUS(sv_fault_parse("wire=1500", 0, &fault), SELVAGE_SUCCESS);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, call_often, &fault), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], &failed[i]);
    CHECK_EQ((intptr_t)failed[0] + (intptr_t)failed[1], 1);
}

int main(void)
{
    sv_thread_binding()->sink = drop_line;
    check_frequencies();
    check_always();
    check_ranks_and_seeds();
    check_refusals();
    check_calls();
    check_threads();
    return check_report("fault");
}
