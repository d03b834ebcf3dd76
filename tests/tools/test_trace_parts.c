/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How selvage-trace reads a timeline and whom it blames, on files that are made here: each kind of cause in turn is
 * what stands out, blame is passed on over ranks that wait themselves, groups of blocks are joined, and what is no
 * whole timeline is refused.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixtures/check.h"
#include "tools/trace/trace_blame.h"

static char path[64];
static FILE *out;

static void begin_file(void)
{
    out = fopen(path, "w");
    CHECK(out != NULL);
    fprintf(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"name\":\"process_sort_index\",\"pid\":0}");
}

static void end_file(void)
{
    fprintf(out, "\n]}\n");
    fclose(out);
}

typedef struct times {
    int began, packed, stored, signalled, saw, verified, left; /* us; 0: none */
} times_t;

static void put_stamp(const char *name, int at_us)
{
    if (at_us)
        fprintf(out, ",\"%s\":%d.000", name, at_us);
}

static void put(const char *name, int rank, int peer, int epoch, int launch, times_t t)
{
    fprintf(out, ",\n{\"name\":\"%s\",\"cat\":\"selvage-blocks\",\"ph\":\"X\",\"pid\":%d,\"tid\":100,\"ts\":%d.000,"
                 "\"dur\":1.000,\"args\":{\"packet\":0,\"peer\":%d,\"epoch\":%d,\"bytes\":8,\"route\":\"peer\","
                 "\"exchange\":5,\"launch\":%d,"
                 "\"first\":0,\"blocks\":1,\"times\":1,\"last_began\":1.000", name, rank, t.began, peer, epoch, launch);
    put_stamp("began", t.began);
    put_stamp("packed", t.packed);
    put_stamp("stored", t.stored);
    put_stamp("signalled", t.signalled);
    put_stamp("saw", t.saw);
    put_stamp("verified", t.verified);
    put_stamp("left", t.left);
    fprintf(out, "}}");
}

/* An epoch of two ranks: sends and receives at 1000 epoch, plus what is given of rank 1's send and rank 0's receive. */
static void put_epoch(int epoch, times_t send, times_t recv)
{
    const int at = 1000 * epoch;
    put("push", 0, 1, epoch, epoch, (times_t){at, 0, at + 2, at + 3, at + 1, 0, at + 4});
    put("pull", 1, 0, epoch, epoch, (times_t){at, 0, at + 6, at + 8, at + 4, at + 7, at + 9});
    put("gather", 1, 0, epoch, epoch, (times_t){at + send.began, at + send.packed, 0, at + send.signalled,
                                                at + send.saw, 0, at + send.left});
    put("scatter", 0, 1, epoch, epoch, (times_t){at + recv.began, 0, at + recv.stored, at + recv.signalled,
                                                 at + recv.saw, at + recv.verified, at + recv.left});
}

static void read_back(trace_file_t *file, trace_blame_t *blame)
{
    char error[200] = "";
    const bool good = trace_file_read(path, file, error, sizeof error);
    CHECK_STR(error, "");
    CHECK(good && trace_blame_find(file, blame));
}

static void check_worst(trace_cause_kind_t kind, int rank, int peer, int64_t longest_us, uint64_t epoch)
{
    trace_file_t file;
    trace_blame_t blame;
    int64_t excess_ns;
    read_back(&file, &blame);
    const trace_cause_t *worst = trace_blame_worst(&blame, file.nranks, &excess_ns);
    CHECK(worst != NULL);
    if (worst) {
        CHECK_EQ(worst->kind, kind);
        CHECK_EQ(worst->rank, rank);
        CHECK_EQ(worst->peer, peer);
        CHECK_EQ(worst->longest_ns, longest_us * 1000);
        CHECK_EQ(worst->epoch, epoch);
    }
    trace_file_free(&file);
    trace_blame_free(&blame);
}

static const times_t fast_send = {.began = 0, .packed = 2, .signalled = 3, .saw = 1, .left = 4};
static const times_t fast_recv = {.began = 0, .stored = 6, .signalled = 8, .saw = 4, .verified = 7, .left = 9};

/* Epoch 2 of three has something slow. */
static void check_slow(times_t send, times_t recv, trace_cause_kind_t kind, int rank, int peer, int64_t longest_us)
{
    begin_file();
    put_epoch(1, fast_send, fast_recv);
    put_epoch(2, send, recv);
    put_epoch(3, fast_send, fast_recv);
    end_file();
    check_worst(kind, rank, peer, longest_us, 2);
}

static void test_kinds(void)
{
    check_slow((times_t){.began = 0, .packed = 302, .signalled = 303, .saw = 1, .left = 304},
               (times_t){.began = 0, .stored = 306, .signalled = 308, .saw = 304, .verified = 307, .left = 309},
               TRACE_STORE, 1, -1, 301);
    check_slow((times_t){.began = 0, .packed = 302, .signalled = 303, .saw = 301, .left = 304},
               (times_t){.began = 0, .stored = 306, .signalled = 308, .saw = 304, .verified = 307, .left = 309},
               TRACE_LEAVE, 0, -1, 301);
    check_slow((times_t){.began = 0, .packed = 2, .signalled = 303, .saw = 1, .left = 304},
               (times_t){.began = 0, .stored = 306, .signalled = 308, .saw = 304, .verified = 307, .left = 309},
               TRACE_SIGNAL, 1, -1, 301);
    check_slow(fast_send,
               (times_t){.began = 0, .stored = 306, .signalled = 308, .saw = 304, .verified = 307, .left = 309},
               TRACE_LINK, 1, 0, 301);
    check_slow(fast_send,
               (times_t){.began = 0, .stored = 306, .signalled = 308, .saw = 4, .verified = 307, .left = 309},
               TRACE_MOVE, 0, -1, 302);
    check_slow(fast_send, (times_t){.began = 0, .stored = 6, .signalled = 308, .saw = 4, .verified = 307, .left = 309},
               TRACE_VERIFY, 0, -1, 301);
    check_slow(fast_send, (times_t){.began = 0, .stored = 6, .signalled = 308, .saw = 4, .verified = 7, .left = 309},
               TRACE_END, 0, -1, 302);
    /* The pull came late, though the packet was there; and the packet was seen by the host, which then launched. */
    check_slow(fast_send, (times_t){.began = 303, .stored = 306, .signalled = 308, .saw = 304, .verified = 307,
                                    .left = 309}, TRACE_BUSY, 0, -1, 300);
}

/* Rank 2 is late; rank 1 waits for it in epoch 1, and so comes late to epoch 2, in which rank 0 waits. */
static void test_passed_on(void)
{
    begin_file();
    put("push", 2, 1, 1, 1, (times_t){500, 0, 502, 503, 501, 0, 504});
    put("push", 1, 0, 1, 1, (times_t){100, 0, 102, 103, 101, 0, 104});
    put("pull", 1, 2, 1, 1, (times_t){100, 0, 506, 508, 504, 507, 509});
    put("push", 1, 0, 2, 2, (times_t){510, 0, 512, 513, 511, 0, 514});
    put("pull", 0, 1, 1, 1, (times_t){100, 0, 106, 108, 104, 107, 109});
    put("pull", 0, 1, 2, 2, (times_t){110, 0, 516, 518, 514, 517, 519});
    end_file();
    check_worst(TRACE_BUSY, 2, -1, 400, 1);
}

static void test_collectives(void)
{
    begin_file();
    for (int call = 1; call <= 2; call++)
        for (int rank = 0; rank < 3; rank++) {
            const int at = 1000 * call, late = rank == 2 && call == 2 ? 300 : 0, end = at + (call == 2 ? 310 : 10);
            put("all-reduce", rank, -1, call, call, (times_t){.began = at + late, .stored = end, .left = end});
        }
    /* A communicator that is made later begins again to count. */
    for (int rank = 0; rank < 3; rank++)
        put("all-reduce", rank, -1, 1, 9 + rank, (times_t){.began = 9000, .stored = 9010, .left = 9010});
    end_file();
    check_worst(TRACE_BUSY, 2, -1, 300, 2);
    trace_file_t file;
    trace_blame_t blame;
    read_back(&file, &blame);
    CHECK_EQ(file.nends, 9);
    for (int r = 0; r < 3; r++) {
        CHECK_EQ(blame.shares[r].spans, 3);
        CHECK_EQ(blame.shares[r].wait_ns, r == 2 ? 0 : 300000);
    }
    CHECK_EQ(blame.total_ns, (3 * 10 + 2 * 310 + 10 + 3 * 10) * 1000);
    trace_file_free(&file);
    trace_blame_free(&blame);
}

static void test_joined(void)
{
    trace_file_t file;
    trace_blame_t blame;
    begin_file();
    put("push", 0, 0, 1, 1, (times_t){100, 0, 102, 0, 101, 0, 103});
    put("push", 0, 0, 1, 1, (times_t){90, 0, 104, 105, 99, 0, 106});
    fprintf(out, ",\n{\"name\":\"selvage_kernels\",\"ph\":\"M\",\"pid\":0,\"tid\":0,\"args\":{\"groups\":2,\"lost\":3,"
                 "\"unfinished\":4,\"overwritten\":5,\"resolution_ns\":32,\"device_error_ns\":7,\"host_error_ns\":8}}");
    end_file();
    read_back(&file, &blame);
    CHECK_EQ(file.nends, 1);
    CHECK_EQ(file.ends[0].at_ns[TRACE_BEGAN], 90000);
    CHECK_EQ(file.ends[0].at_ns[TRACE_SAW], 101000);
    CHECK_EQ(file.ends[0].at_ns[TRACE_STORED], 104000);
    CHECK_EQ(file.ends[0].at_ns[TRACE_SIGNALLED], 105000);
    CHECK_EQ(file.ends[0].at_ns[TRACE_LEFT], 106000);
    CHECK(file.ranks[0].here && file.ranks[0].groups == 2 && file.ranks[0].lost == 3);
    CHECK(file.ranks[0].unfinished == 4 && file.ranks[0].overwritten == 5 && file.ranks[0].resolution_ns == 32);
    CHECK(file.ranks[0].device_error_ns == 7 && file.ranks[0].host_error_ns == 8);
    trace_file_free(&file);
    trace_blame_free(&blame);
}

static void check_refused(const char *text, const char *why)
{
    trace_file_t file;
    char error[200] = "";
    out = fopen(path, "w");
    fputs(text, out);
    fclose(out);
    CHECK(!trace_file_read(path, &file, error, sizeof error));
    CHECK(strstr(error, why) != NULL);
}

static void test_refused(void)
{
    const char *head = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
    char text[300];
    check_refused("", "no timeline");
    check_refused("hello\n]}\n", "no timeline");
    check_refused(head, "not written to its end");
    snprintf(text, sizeof text, "%s{\"name\":\"push\",\"cat\":\"selvage-blocks\",\"pid\":0}\n]}\n", head);
    check_refused(text, "not understood: line 2");
    snprintf(text, sizeof text, "%s{\"name\":\"selvage_kernels\",\"pid\":-1}\n]}\n", head);
    check_refused(text, "not understood: line 2");
    trace_file_t file;
    char error[200];
    CHECK(!trace_file_read("/nowhere/at/all", &file, error, sizeof error));
}

int main(void)
{
    snprintf(path, sizeof path, "/tmp/selvage_trace_XXXXXX");
    const int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    test_kinds();
    test_passed_on();
    test_collectives();
    test_joined();
    test_refused();
    unlink(path);
    return check_report("test_trace_parts");
}
