/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Nth allocation, device call or wire call fails, for one N after another, on one rank or on all. Whatever N is,
 * the run ends: no hang, no crash, every error has a detail, and everything is freed, but for memory that was set
 * aside because another rank may still write it, which is said on the log.
 *
 * Each N runs in a process of its own, several at a time, because most of the time goes into waiting for deadlines.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixtures/check.h"
#include "fixtures/fixture_exchange.h"
#include "pipeline/pipe_exchange.h"

enum { PROCESSES = 16, RANKS = 2, PACKETS = 4, EPOCHS = 2, SAMPLES = 6, HANG_S = 60 };
#ifdef SV_SANITIZES_THREAD /* takes ten times as long */
enum { EVERY_ONE_UP_TO = 24 };
#else
enum { EVERY_ONE_UP_TO = 60 };
#endif
enum { LEFT_MAX = 64, ROOM = 20000, PIECES = 500, TAG_PIECES = 9 };
enum { EXIT_CLEAN = 0, EXIT_FAILED = 1, EXIT_SET_ASIDE = 3 };

static const size_t sizes[PACKETS] = {40, 0, 20000, 9000};

typedef struct site {
    const char *call, *rank, *settings;
    int ranks_per_node;
} site_t;

/* A success, or an error that says what went wrong. */
static bool is_fine(selvage_status_t status)
{
    CHECK(status <= SELVAGE_SUCCESS);
    CHECK(status == SELVAGE_SUCCESS || selvage_error_detail()[0] != '\0');
    return status == SELVAGE_SUCCESS;
}

typedef struct work {
    local_rank_t *self;
    selvage_exchange_t *ex;
    uint8_t *out, *in;
    selvage_buffer_t *buffer;
} work_t;

/* A packet in pieces: columns of `out` go to every other word of a place after the packets; those of rank 1 add. */
static bool declare_pieces(work_t *work, int peer)
{
    const sv_pack_shape_t columns = {.element_bytes = 8, .ndims = 2, .dim = {{PIECES / 10, 16}, {10, 1600}}};
    sv_layout_t *out = NULL, *in = NULL;
    int64_t offsets[PIECES];
    for (int i = 0; i < PIECES; i++)
        offsets[i] = 16 * i;
    bool good = is_fine(sv_layout_create(SV_LAYOUT_ALIGNED, &out)) &&
                is_fine(sv_layout_add_box(out, 1, &columns, SV_LAYOUT_STORE)) &&
                is_fine(sv_layout_create(SV_LAYOUT_ALIGNED, &in)) &&
                is_fine(sv_layout_add_list(in, 2 + (uint32_t)peer, 8, offsets, PIECES,
                                           peer == 1 ? SV_LAYOUT_ADD_INT64 : SV_LAYOUT_STORE));
    if (!good) {
        sv_layout_destroy(out);
        sv_layout_destroy(in);
        return false;
    }
    good = is_fine(sv_exchange_add_send_layout(work->ex, out, peer, TAG_PIECES, NULL));
    return is_fine(sv_exchange_add_recv_layout(work->ex, in, peer, TAG_PIECES, NULL)) && good;
}

static bool declare_bases(work_t *work)
{
    void *bases[1 + RANKS] = {work->out};
    for (int peer = 0; peer < work->self->size; peer++)
        bases[1 + peer] = work->in + (size_t)(work->self->size * PACKETS + peer) * ROOM;
    return is_fine(sv_exchange_rebind(work->ex, bases, 1 + (uint32_t)work->self->size));
}

static bool declare(work_t *work)
{
    bool good = is_fine(selvage_buffer_register(work->self->comm, work->in, sizes[2], &work->buffer));
    good = good && is_fine(selvage_exchange_create(work->self->comm, NULL, &work->ex));
    for (int peer = 0; peer < work->self->size; peer++)
        for (int i = 0; i < PACKETS; i++) {
            /* The first packets of rank 0 land in registered memory, the others after it. */
            uint8_t *in = work->in + (size_t)(peer * PACKETS + i) * ROOM;
            good = good && is_fine(selvage_exchange_add_recv(work->ex, in, sizes[i], peer, i, NULL));
            good = good && is_fine(selvage_exchange_add_send(work->ex, work->out, sizes[i], peer, i, NULL));
        }
    for (int peer = 0; peer < work->self->size && good; peer++)
        good = declare_pieces(work, peer);
    return good && declare_bases(work);
}

static bool right_pieces(const work_t *work)
{
    static _Thread_local uint8_t sent[ROOM];
    const uint8_t *in = work->in + (size_t)work->self->size * PACKETS * ROOM;
    bool good = true;
    local_ranks_fill(sent, ROOM, 1);
    for (int i = 0; i < PIECES; i++)
        good = good && memcmp(in + 16 * i, sent + 16 * (i % (PIECES / 10)) + 1600 * (i / (PIECES / 10)), 8) == 0;
    return good;
}

static bool right(const work_t *work)
{
    for (int at = 0; at < work->self->size * PACKETS; at++)
        if (local_ranks_wrong(work->in + (size_t)at * ROOM, sizes[at % PACKETS], 1 + (uint64_t)(at / PACKETS)) >= 0)
            return false;
    return right_pieces(work);
}

static void use(work_t *work)
{
    bool good = declare(work) && is_fine(selvage_exchange_commit(work->ex));
    for (int epoch = 0; epoch < EPOCHS && good; epoch++) {
        good = is_fine(selvage_exchange_start(work->ex, NULL)) && is_fine(selvage_exchange_wait(work->ex, NULL)) &&
               is_fine(selvage_stream_synchronize(work->self->dev, NULL)); /* pieces are brought to their place there */
        CHECK(!good || right(work));
    }
    selvage_exchange_destroy(work->ex);
    (void)is_fine(selvage_buffer_unregister(work->buffer));
    work->ex = NULL;
    work->buffer = NULL;
}

static void endure(local_rank_t *self)
{
    work_t work = {.self = self};
    size_t in_bytes = (size_t)self->size * (PACKETS + 1) * ROOM;
    void *in, *out;
    if (!self->comm) {
        CHECK(self->created_detail[0] != '\0');
        local_ranks_barrier(self);
        return;
    }
    CHECK_STATUS(selvage_device_malloc(self->dev, in_bytes, &in), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_device_malloc(self->dev, ROOM, &out), SELVAGE_SUCCESS);
    work.in = in;
    work.out = out;
    local_ranks_fill(work.out, ROOM, 1 + (uint64_t)self->rank);
    use(&work);
    use(&work);
    local_ranks_barrier(self); /* the user's own memory goes when nobody writes it any more */
    selvage_device_free(self->dev, in);
    selvage_device_free(self->dev, out);
}

static void set_site(const site_t *site, long number, const char *timeout)
{
    char list[256];
    snprintf(list, sizeof list, "FAULT=%s=%ld%s TIMEOUT_S=%s SEGMENT_BYTES=4096 SEGMENT_SLOTS=2 %s", site->call, number,
             site->rank, timeout, site->settings);
    local_ranks_env(list);
}

/* The child's life. */
static void endure_number(const site_t *site, long number)
{
    atomic_store(&check_failed_, 0); /* of the parent */
    set_site(site, number, "0.2");
    alarm(HANG_S);
    local_ranks_run(&(local_run_t){.size = RANKS, .ranks_per_node = site->ranks_per_node, .log_expected = true,
                                   .create_may_fail = true, .may_set_aside = true, .body = endure});
    bool set_aside = local_ranks_any_logged("set aside");
    CHECK(set_aside || local_ranks_left() == 0);
    CHECK(local_ranks_left() >= 0 && local_ranks_left() <= LEFT_MAX);
    if (atomic_load(&check_failed_) > 0)
        fprintf(stderr, "%s=%ld%s, %s: %lld allocations left\n", site->call, number, site->rank, site->settings,
                (long long)local_ranks_left());
    if (atomic_load(&check_failed_) > 0 || !set_aside)
        exit(atomic_load(&check_failed_) > 0 ? EXIT_FAILED : EXIT_CLEAN); /* leak checkers look now */
    _exit(EXIT_SET_ASIDE);
}

typedef struct crowd {
    const site_t *site;
    pid_t pid[PROCESSES];
    long number[PROCESSES];
    long runs, set_aside;
} crowd_t;

static void judge(crowd_t *crowd, int slot, int state)
{
    bool ended = WIFEXITED(state) && (WEXITSTATUS(state) == EXIT_CLEAN || WEXITSTATUS(state) == EXIT_SET_ASIDE);
    CHECK(ended);
    if (!ended)
        fprintf(stderr, "%s=%ld%s, %s: ended with %s %d\n", crowd->site->call, crowd->number[slot], crowd->site->rank,
                crowd->site->settings, WIFSIGNALED(state) ? "signal" : "exit code",
                WIFSIGNALED(state) ? WTERMSIG(state) : WEXITSTATUS(state));
    crowd->set_aside += WIFEXITED(state) && WEXITSTATUS(state) == EXIT_SET_ASIDE;
    crowd->runs++;
    crowd->pid[slot] = 0;
}

/* Waits for one child. False if there is none. */
static bool reap(crowd_t *crowd)
{
    int state;
    pid_t pid = wait(&state);
    for (int slot = 0; slot < PROCESSES && pid > 0; slot++)
        if (crowd->pid[slot] == pid)
            judge(crowd, slot, state);
    return pid > 0;
}

static void begin(crowd_t *crowd, long number)
{
    int slot = 0;
    while (slot < PROCESSES && crowd->pid[slot])
        if (++slot == PROCESSES) {
            reap(crowd);
            slot = 0;
        }
    fflush(NULL);
    crowd->number[slot] = number;
    crowd->pid[slot] = fork();
    if (crowd->pid[slot] == 0)
        endure_number(crowd->site, number);
    CHECK(crowd->pid[slot] > 0);
}

/* How many such calls a run makes, more or less: polls are calls too. */
static _Atomic long calls_made;
enum { FAR_AWAY = 1000000000 };

static void count_calls(local_rank_t *self)
{
    const site_t *site = self->arg;
    sv_fault_call_t call = site->call[0] == 'a'   ? SV_FAULT_CALL_ALLOC
                           : site->call[0] == 'd' ? SV_FAULT_CALL_DEVICE
                                                  : SV_FAULT_CALL_WIRE;
    endure(self);
    if (self->rank == (strcmp(site->rank, ",rank=1") == 0))
        calls_made = FAR_AWAY - (long)atomic_load(&self->comm->fault.call_countdown[call]);
}

static int run_count(const site_t *site)
{
    atomic_store(&check_failed_, 0); /* of the parent */
    set_site(site, FAR_AWAY, "60");
    local_ranks_run(&(local_run_t){.size = RANKS, .ranks_per_node = site->ranks_per_node, .body = count_calls,
                                   .arg = (void *)(uintptr_t)site});
    return atomic_load(&check_failed_) > 0;
}

/* In a child too, so that the parent never has threads when it forks. */
static long count_apart(const site_t *site)
{
    int ends[2], state = 0;
    long calls = 0;
    CHECK_EQ(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int failed = run_count(site);
        calls = calls_made;
        _exit(write(ends[1], &calls, sizeof calls) != sizeof calls || failed);
    }
    CHECK_EQ(waitpid(pid, &state, 0), pid);
    CHECK_EQ(state, 0);
    CHECK_EQ(read(ends[0], &calls, sizeof calls), (long)sizeof calls);
    close(ends[0]);
    close(ends[1]);
    return calls;
}

static void torture(const site_t *site, long every_up_to, long samples)
{
    crowd_t crowd = {.site = site};
    long calls = count_apart(site);
    CHECK(calls > 10);
    for (long number = 1; number <= calls && number <= every_up_to; number++)
        begin(&crowd, number);
    long step = calls > every_up_to ? (calls - every_up_to) / samples + 1 : 1;
    for (long number = every_up_to + step; number <= calls; number += step)
        begin(&crowd, number);
    while (reap(&crowd))
        continue;
    printf("%s%s, %s: %ld calls, %ld runs, memory set aside in %ld\n", site->call, site->rank, site->settings, calls,
           crowd.runs, crowd.set_aside);
}

int main(int argc, char **argv)
{
    static const site_t sites[] = {
        {"alloc", ",rank=0", "ROUTE=auto", 0},    {"device", ",rank=0", "ROUTE=auto", 0},
        {"wire", ",rank=0", "ROUTE=auto", 0},     {"alloc", ",rank=1", "ROUTE=shared", 0},
        {"device", ",rank=1", "ROUTE=shared", 0}, {"alloc", "", "ROUTE=staged", 1},
        {"device", "", "ROUTE=staged", 1},        {"wire", ",rank=1", "ROUTE=staged", 1},
        {"device", ",rank=0", "ROUTE=direct", 0}, {"wire", ",rank=1", "ROUTE=direct", 0},
        {"alloc", "", "ROUTE=direct", 1},
        {"wire", "", "ROUTE=auto PROGRESS=thread", 0}, {"device", ",rank=0", "ROUTE=staged SOFT_MODE=inline", 0},
    };
    long samples = argc > 1 ? atol(argv[1]) : check_part(SAMPLES);
    int every = check_part(EVERY_ONE_UP_TO);
    if (argc == 4) { /* samples ignored: one site, one number, in this process */
        endure_number(&sites[atol(argv[2])], atol(argv[3]));
        return 0;
    }
    for (unsigned i = 0; i < sizeof sites / sizeof sites[0]; i++)
        torture(&sites[i], i < 3 ? every : every / 6, samples);
    return check_report("test_exchange_torture");
}
