/* SPDX-License-Identifier: BSD-3-Clause */
/* Status names and texts, the detail of the last error: cut safely, per thread, made from itself. */
#include <pthread.h>
#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "base/base_thread.h"
#include "fixtures/check.h"

static int lines_logged;

static void count_line(void *arg, int level, const char *line)
{
    (void)arg, (void)level, (void)line;
    lines_logged++;
}

static void check_names(void)
{
    CHECK_STR(selvage_status_name(SELVAGE_SUCCESS), "SELVAGE_SUCCESS");
    CHECK_STR(selvage_status_name(SELVAGE_ERR_TIMEOUT), "SELVAGE_ERR_TIMEOUT");
    CHECK_STR(selvage_status_name((selvage_status_t)-999), "SELVAGE_UNKNOWN");
    CHECK_STR(selvage_status_string(SELVAGE_ERR_MPI), "an MPI call failed");
    CHECK(strlen(selvage_status_string((selvage_status_t)999)) > 0);
#define UNIQUE(name, number, text) CHECK_EQ(SELVAGE_##name, number);
    SELVAGE_STATUS_TABLE(UNIQUE)
#undef UNIQUE
}

/* What others say is a status. */
static void check_received(void)
{
    CHECK_EQ(sv_status_of(SELVAGE_ERR_PEER), SELVAGE_ERR_PEER);
    CHECK_EQ(sv_status_of(SELVAGE_IN_PROGRESS), SELVAGE_IN_PROGRESS);
    CHECK_EQ(sv_status_of(-999), SELVAGE_ERR_INTERNAL);
    CHECK_EQ(sv_status_of(INT64_C(1) << 32), SELVAGE_ERR_INTERNAL);
    CHECK_EQ(sv_status_of_error(SELVAGE_ERR_MPI), SELVAGE_ERR_MPI);
    CHECK_EQ(sv_status_of_error(SELVAGE_SUCCESS), SELVAGE_ERR_INTERNAL);
    CHECK_EQ(sv_status_of_error(SELVAGE_IN_PROGRESS), SELVAGE_ERR_INTERNAL);
    CHECK_EQ(sv_status_of_error(-17), SELVAGE_ERR_INTERNAL);
}

/* What a public call writes counts only if it fails. */
static void check_calls(void)
{
    sv_thread_begin_call();
    sv_error_quiet(SELVAGE_ERR_PEER, "first");
    sv_thread_end_call(true);
    const char *kept = selvage_error_detail();
    CHECK_STR(kept, "first");
    for (int i = 0; i < 3; i++) {
        sv_thread_begin_call();
        sv_error_quiet(SELVAGE_ERR_MPI, "got over");
        CHECK_STR(sv_thread_detail(), "got over");
        sv_thread_end_call(false);
        CHECK_STR(selvage_error_detail(), "first");
        CHECK_STR(kept, "first");
    }
    sv_error_quiet(SELVAGE_ERR_ARGUMENT, "refused before it began");
    sv_thread_begin_call();
    sv_thread_end_call(false);
    CHECK_STR(selvage_error_detail(), "refused before it began");
}

static void check_detail(void)
{
    CHECK_STR(selvage_error_detail(), "");
    CHECK_STATUS(sv_error(SELVAGE_ERR_ARGUMENT, "peer is %d; wanted 0..%d", -3, 7), SELVAGE_ERR_ARGUMENT);
    CHECK_STR(selvage_error_detail(), "peer is -3; wanted 0..7");
    CHECK_EQ(lines_logged, 1);
    sv_error_quiet(SELVAGE_ERR_PEER, "rank 2: %s", selvage_error_detail());
    CHECK_STR(selvage_error_detail(), "rank 2: peer is -3; wanted 0..7");
    CHECK_EQ(lines_logged, 1);
}

static void check_long_detail(void)
{
    char text[3 * SV_DETAIL_BYTES];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    sv_error_quiet(SELVAGE_ERR_INTERNAL, "%s", text);
    CHECK_EQ(strlen(selvage_error_detail()), SV_DETAIL_BYTES - 1);
    CHECK_STR(selvage_error_detail() + SV_DETAIL_BYTES - 4, "...");
    text[SV_DETAIL_BYTES - 1] = '\0';
    sv_error_quiet(SELVAGE_ERR_INTERNAL, "%s", text);
    CHECK_STR(selvage_error_detail(), text);
}

static selvage_status_t try_it(selvage_status_t status, int *reached)
{
    SV_TRY(status);
    *reached = 1;
    return SELVAGE_IN_PROGRESS;
}

static void check_try(void)
{
    int reached = 0;
    CHECK_STATUS(try_it(SELVAGE_ERR_STATE, &reached), SELVAGE_ERR_STATE);
    CHECK_EQ(reached, 0);
    CHECK_STATUS(try_it(SELVAGE_SUCCESS, &reached), SELVAGE_IN_PROGRESS);
    CHECK_EQ(reached, 1);
}

static void *other_thread(void *arg)
{
    (void)arg;
    CHECK_STR(selvage_error_detail(), "");
    sv_error_quiet(SELVAGE_ERR_STATE, "the other thread's");
    CHECK_STR(selvage_error_detail(), "the other thread's");
    CHECK_EQ(sv_thread_binding()->rank, -1);
    return NULL;
}

static void check_threads(void)
{
    pthread_t thread;
    sv_error_quiet(SELVAGE_ERR_STATE, "mine");
    CHECK_EQ(pthread_create(&thread, NULL, other_thread, NULL), 0);
    pthread_join(thread, NULL);
    CHECK_STR(selvage_error_detail(), "mine");
}

static void check_memory(void)
{
    int64_t before = sv_memory_live();
    unsigned char *ptr = NULL, *nothing = NULL, *kept = (unsigned char *)&before;
    CHECK_STATUS(sv_calloc(100, 3, &ptr), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_calloc(0, 8, &nothing), SELVAGE_SUCCESS);
    CHECK(nothing != NULL);
    CHECK_EQ((uintptr_t)ptr % 64, 0);
    CHECK_EQ(ptr[0] | ptr[150] | ptr[299], 0);
    CHECK_EQ(sv_memory_live(), before + 2);
    CHECK_STATUS(sv_calloc(SIZE_MAX / 2, 3, &kept), SELVAGE_ERR_MEMORY);
    CHECK_STATUS(sv_calloc(SIZE_MAX - 3, 1, &kept), SELVAGE_ERR_MEMORY);
    CHECK(kept == (unsigned char *)&before);
    sv_free(ptr);
    sv_free(nothing);
    sv_free(NULL);
    CHECK_EQ(sv_memory_live(), before);
}

int main(void)
{
    sv_thread_binding()->sink = count_line;
    check_names();
    check_received();
    check_detail();
    check_calls();
    check_long_detail();
    check_try();
    check_threads();
    check_memory();
    return check_report("status");
}
