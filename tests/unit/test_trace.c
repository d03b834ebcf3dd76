/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trace rings: the timeline fills and counts, the flight recorder keeps the last records and writes them on demand
 * and on SIGUSR1 while another thread goes on adding, and the JSON is well formed.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base_memory.h"
#include "base/base_thread.h"
#include "base/base_trace.h"
#include "fixtures/check.h"

static char directory[] = "/tmp/selvage-test-trace-XXXXXX";
static char text[1 << 22]; /* twenty writings of a full recorder fit */

static void path_in_directory(char *path, size_t bytes, const char *name)
{
    snprintf(path, bytes, "%s/%s", directory, name);
}

/* Reads a whole file into text and removes it; "" if it is not there. */
static void take_file(const char *name)
{
    char path[128];
    path_in_directory(path, sizeof path, name);
    text[0] = '\0';
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    if (!file)
        return;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    remove(path);
}

static int count_text(const char *needle)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, needle)); at++)
        count++;
    return count;
}

static sv_trace_record_t send_record(uint32_t packet)
{
    return (sv_trace_record_t){.begin_ns = UINT64_C(1000000000) + packet * UINT64_C(1000000), .end_ns = 0, .epoch = 7,
                               .value = 4096, .packet = packet, .peer = 2, .kind = SV_TRACE_SEND, .route = 4,
                               .exchange = 0xabc};
}

static void check_timeline(void)
{
    sv_trace_t *trace = NULL;
    CHECK_STATUS(sv_calloc(1, sizeof *trace, &trace), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_trace_init(trace, 3, 10, "", false), SELVAGE_SUCCESS);
    CHECK(trace->timeline_on);
    for (uint32_t i = 0; i < 14; i++) {
        sv_trace_record_t record = send_record(i);
        sv_trace_add(trace, &record);
    }
    CHECK_EQ(trace->timeline_count, 10);
    CHECK_EQ(trace->timeline_dropped, 4);
    CHECK_EQ(trace->timeline[9].packet, 9);
    CHECK_EQ(trace->flight_count, 14);
    sv_trace_fini(trace);
    sv_trace_fini(trace);
    sv_trace_fini(NULL);
    sv_free(trace);
    CHECK_EQ(sv_memory_live(), 0);
}

static void check_flight_text(sv_trace_t *trace)
{
    char path[128];
    path_in_directory(path, sizeof path, "flight");
    CHECK_STATUS(sv_trace_init(trace, 3, 0, path, false), SELVAGE_SUCCESS);
    for (uint32_t i = 0; i < SV_FLIGHT_RECORDS + 5; i++) {
        sv_trace_record_t record = send_record(i);
        sv_trace_add(trace, &record);
    }
    sv_trace_record_t last = {.begin_ns = UINT64_C(3000000000), .end_ns = UINT64_C(3000250000), .epoch = 8, .value = 2,
                              .packet = UINT32_MAX, .peer = -1, .kind = SV_TRACE_PHASE, .route = 0};
    sv_trace_add(trace, &last);
    sv_trace_flight_write(trace, "deadline");
    take_file("flight.3");
    CHECK(strncmp(text, "selvage flight recorder, rank 3, deadline: the last 1024 of 1030 records", 71) == 0);
    CHECK_EQ(count_text("\n"), SV_FLIGHT_RECORDS + 1);
    CHECK_EQ(count_text("packet 5 peer"), 0);
    CHECK_EQ(count_text("\n  -1.994250 rank 3 send packet 6 peer 2 epoch 7 bytes 4096 route staged "
                        "exchange 00000abc\n"), 1);
    CHECK_EQ(count_text("\n  -0.000000 rank 3 phase epoch 8 phase 2 route - exchange 00000000 took 0.000250\n"), 1);
    sv_trace_fini(trace);
}

/* What is written is the user's alone, and a link that somebody placed under the name is not followed. */
static void check_links(sv_trace_t *trace)
{
    char path[128], link[128], victim[128];
    struct stat st;
    FILE *file = NULL;
    path_in_directory(path, sizeof path, "links");
    path_in_directory(link, sizeof link, "links.5");
    path_in_directory(victim, sizeof victim, "victim");
    sv_thread_binding()->log_level = 0;
    CHECK_EQ(symlink(victim, link), 0);
    CHECK_STATUS(sv_trace_json_begin(link, &file), SELVAGE_ERR_SYSTEM);
    CHECK(!file);
    CHECK_STATUS(sv_trace_init(trace, 5, 0, path, false), SELVAGE_SUCCESS);
    sv_trace_flight_write(trace, "link"); /* goes to standard error */
    CHECK(stat(victim, &st) != 0);
    CHECK_EQ(unlink(link), 0);
    sv_trace_flight_write(trace, "file");
    CHECK(stat(link, &st) == 0 && (st.st_mode & 0777) == 0600);
    CHECK_EQ(unlink(link), 0);
    CHECK_STATUS(sv_trace_json_begin(link, &file), SELVAGE_SUCCESS);
    CHECK(file && fclose(file) == 0 && stat(link, &st) == 0 && (st.st_mode & 0777) == 0600);
    CHECK_EQ(unlink(link), 0);
    sv_trace_fini(trace);
}

static void check_paths(sv_trace_t *trace)
{
    char path[700];
    memset(path, 'p', sizeof path);
    path[sizeof path - 1] = '\0';
    sv_thread_binding()->log_level = 0;
    CHECK_STATUS(sv_trace_init(trace, 0, 0, path, true), SELVAGE_ERR_CONFIG);
    FILE *file = NULL;
    CHECK_STATUS(sv_trace_json_begin("/nonexistent/selvage.json", &file), SELVAGE_ERR_SYSTEM);
    CHECK(file == NULL);
    sv_trace_fini(trace);
}

static _Atomic int stop_adding;

static void *add_always(void *arg)
{
    for (uint32_t i = 0; !atomic_load(&stop_adding); i++) {
        sv_trace_record_t record = send_record(i % 1000);
        sv_trace_add(arg, &record);
        if (i % 64 == 0)
            usleep(50);
    }
    return NULL;
}

/* Two traces on the list, one of them written to all the while, and others that come and go. */
static void check_signal(sv_trace_t *trace)
{
    char path[128];
    pthread_t writer;
    path_in_directory(path, sizeof path, "signal");
    CHECK_STATUS(sv_trace_init(&trace[0], 0, 0, path, true), SELVAGE_SUCCESS);
    CHECK_STATUS(sv_trace_init(&trace[1], 1, 0, path, true), SELVAGE_SUCCESS);
    CHECK_EQ(pthread_create(&writer, NULL, add_always, &trace[0]), 0);
    for (int i = 0; i < 20; i++) {
        CHECK_STATUS(sv_trace_init(&trace[2], 2, 0, path, i % 2), SELVAGE_SUCCESS);
        raise(SIGUSR1);
        sv_trace_fini(&trace[2]);
    }
    atomic_store(&stop_adding, 1);
    pthread_join(writer, NULL);
    sv_trace_fini(&trace[0]);
    raise(SIGUSR1);
    sv_trace_fini(&trace[1]);
    raise(SIGUSR1);
    take_file("signal.0");
    CHECK_EQ(count_text("rank 0, SIGUSR1: "), 20);
    take_file("signal.1");
    CHECK_EQ(count_text("rank 1, SIGUSR1: the last 0 of 0 records"), 21);
    take_file("signal.2");
    CHECK_EQ(count_text("rank 2, SIGUSR1: "), 10);
}

static volatile sig_atomic_t own_signals;

static void own_handler(int number)
{
    (void)number;
    own_signals++;
}

static void check_own_handler(sv_trace_t *trace)
{
    signal(SIGUSR1, own_handler);
    CHECK_STATUS(sv_trace_init(trace, 0, 0, "", true), SELVAGE_SUCCESS);
    raise(SIGUSR1);
    CHECK_EQ(own_signals, 1);
    sv_trace_fini(trace);
}

/* Brackets match, strings close, and there are no empty elements: enough to catch a lost comma or quote. */
static int json_is_balanced(const char *json)
{
    int depth = 0;
    char before = ',';
    for (; *json; json++) {
        if (*json == '"') {
            if (strchr("\"}]", before) || !(json = strchr(json + 1, '"')))
                return 0;
        }
        if (*json == '{' && strchr("\"}]", before))
            return 0;
        if (strchr("}],", *json) && before == ',')
            return 0;
        depth += *json == '{' || *json == '[';
        depth -= *json == '}' || *json == ']';
        if (*json != '\n' && *json != ' ')
            before = *json;
    }
    return depth == 0;
}

static void check_json(void)
{
    char path[128];
    FILE *file = NULL;
    sv_trace_record_t records[3] = {send_record(5), send_record(6), send_record(UINT32_MAX)};
    records[1].end_ns = records[1].begin_ns + 1500;
    records[2] = (sv_trace_record_t){.begin_ns = 10, .end_ns = 20, .kind = SV_TRACE_PHASE, .value = 4, .peer = -1,
                                     .packet = UINT32_MAX};
    path_in_directory(path, sizeof path, "trace.json");
    CHECK_STATUS(sv_trace_json_begin(path, &file), SELVAGE_SUCCESS);
    if (!file)
        return;
    sv_trace_json_records(file, 0, 0, records, 2);
    sv_trace_json_records(file, 1, -15, records + 2, 1);
    sv_trace_json_records(file, 2, 0, NULL, 0);
    CHECK_STATUS(sv_trace_json_end(file, path), SELVAGE_SUCCESS);
    take_file("trace.json");
    CHECK(json_is_balanced(text));
    CHECK_EQ(count_text("\"name\":\"process_name\""), 3);
    static const char *const phases[] = {"prepare", "post", "send", "receive", "drain", "verify", "join"};
    for (int i = 0; i < 7; i++) {
        char lane[160];
        snprintf(lane, sizeof lane, "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%d,"
                                    "\"args\":{\"name\":\"%s\"}}", 1 + i, phases[i]);
        CHECK_EQ(count_text(lane), 1);
    }
    CHECK_EQ(count_text("{\"name\":\"send\",\"cat\":\"selvage\",\"ph\":\"i\",\"pid\":0,\"tid\":10,\"ts\":1005000.000,"
                        "\"s\":\"t\",\"args\":{\"packet\":5,\"peer\":2,\"epoch\":7,\"bytes\":4096,"
                        "\"route\":\"staged\",\"exchange\":2748}}"), 1);
    CHECK_EQ(count_text("\"ph\":\"X\",\"pid\":0,\"tid\":10,\"ts\":1006000.000,\"dur\":1.500,"), 1);
    CHECK_EQ(count_text("{\"name\":\"phase drain\",\"cat\":\"selvage\",\"ph\":\"X\",\"pid\":1,\"tid\":5,\"ts\":-0.005,"
                        "\"dur\":0.010,\"args\":{\"packet\":-1,\"peer\":-1,\"epoch\":0,\"phase\":4,"), 1);
}

int main(void)
{
    static sv_trace_t trace[3];
    if (!mkdtemp(directory))
        return CHECK_SKIP;
    check_timeline();
    check_flight_text(trace);
    check_links(trace);
    check_paths(trace);
    check_signal(trace);
    check_own_handler(trace);
    check_json();
    CHECK_EQ(rmdir(directory), 0);
    return check_report("trace");
}
