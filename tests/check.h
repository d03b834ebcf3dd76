/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A few macros for test programs. A failed check prints both values and the place, is counted, and the test goes on;
 * check_report() at the end of main gives the exit code. Safe from several threads.
 */
#ifndef SELVAGE_TESTS_CHECK_H
#define SELVAGE_TESTS_CHECK_H

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <selvage/status.h>

enum { CHECK_SKIP = 77 };

/* Weak, so that all files of a test program count together. */
__attribute__((weak)) _Atomic long check_count_, check_failed_;

static inline void check_result_(int ok, const char *file, int line, const char *text, const char *detail)
{
    atomic_fetch_add(&check_count_, 1);
    if (ok)
        return;
    atomic_fetch_add(&check_failed_, 1);
    fprintf(stderr, "%s:%d: check failed: %s%s\n", file, line, text, detail);
}

#define CHECK(cond) check_result_(!!(cond), __FILE__, __LINE__, #cond, "")

#define CHECK_EQ(a, b)                                                                                    \
    do {                                                                                                  \
        long long check_a_ = (long long)(a), check_b_ = (long long)(b);                                   \
        char check_text_[96];                                                                             \
        snprintf(check_text_, sizeof check_text_, " (%lld and %lld)", check_a_, check_b_);                \
        check_result_(check_a_ == check_b_, __FILE__, __LINE__, #a " == " #b, check_text_);               \
    } while (0)

#define CHECK_STR(a, b)                                                                                   \
    do {                                                                                                  \
        const char *check_a_ = (a), *check_b_ = (b);                                                      \
        char check_text_[512];                                                                            \
        snprintf(check_text_, sizeof check_text_, " (\"%.240s\" and \"%.240s\")", check_a_, check_b_);    \
        check_result_(strcmp(check_a_, check_b_) == 0, __FILE__, __LINE__, #a " equals " #b, check_text_); \
    } while (0)

#define CHECK_STATUS(expr, wanted)                                                                        \
    do {                                                                                                  \
        selvage_status_t check_s_ = (expr), check_w_ = (wanted);                                          \
        char check_text_[1400];                                                                           \
        snprintf(check_text_, sizeof check_text_, " (%s, wanted %s; detail: %s)", selvage_status_name(check_s_), \
                 selvage_status_name(check_w_), selvage_error_detail());                                  \
        check_result_(check_s_ == check_w_, __FILE__, __LINE__, #expr, check_text_);                      \
    } while (0)

static inline int check_report(const char *name)
{
    long failed = atomic_load(&check_failed_);
    printf("%s: %ld checks, %ld failed\n", name, atomic_load(&check_count_), failed);
    return failed ? 1 : 0;
}

#endif
