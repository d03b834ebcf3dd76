/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives with threads as ranks, against the reference of coll_reference.h: every call, type and operation by every
 * algorithm and protocol on 1 to 8 ranks, and random ones: counts, addresses, windows, channels, slots that many steps
 * go through, counters that start just before they wrap. What adds in the order of ranks must have its bits, the others
 * their bound and, twice, the same bits.
 *
 * Usage: test_coll [-s STRIDE] [-n CASES] [seed...]: of the systematic cases each STRIDE-th, and so many random worlds;
 * seeds repeat random worlds and nothing else.
 */
#include <stdlib.h>
#include <unistd.h>

#include "fixtures/check.h"
#include "fixtures/coll_case.h"
#include "collective/coll_handle.h"
#include "fixtures/local_ranks.h"

enum { RANKS = 8, WORLD_CASES = 30, SMALL_BYTES = 1 << 16, LARGE_BYTES = 3 << 19, OLD_STEPS = 12 };

/* Where every access is looked at, fewer cases say as much. */
#if defined(SV_SANITIZES_THREAD)
enum { STRIDE = 211, CASES = 4, RANKS_STEP = 3 };
#elif defined(SV_SANITIZES_ADDRESS)
enum { STRIDE = 29, CASES = 25, RANKS_STEP = 2 };
#else
enum { STRIDE = 17, CASES = 50, RANKS_STEP = 1 };
#endif

typedef struct job {
    uint64_t seed;             /* of random cases; 0: the systematic ones */
    unsigned stride, first;    /* of the systematic ones */
    bool any_order;
    bool wrapping;             /* counters start near their ends */
    uint64_t steps, rounds;    /* where */
    unsigned ll_clean;         /* mask of steps for that */
} job_t;

typedef struct way {
    const char *algo, *proto;
    bool any_order;
} way_t;

/* Which algorithm is taken where the one asked for cannot be, the selection decides: it may add in any order. */
static const way_t ways[] = {
    {"oneshot", "ll", false}, {"oneshot", "ll128", false}, {"oneshot", "simple", false}, {"twoshot", "ll", false},
    {"twoshot", "ll128", false}, {"twoshot", "simple", false}, {"direct", "simple", false}, {"ring", "ll", true},
    {"ring", "ll128", true}, {"ring", "simple", true}, {"pat", "simple", true}, {"auto", "auto", true}};
enum { WAYS = sizeof ways / sizeof ways[0] };

/*
 * Lines of LL as they were left 2^32 steps before OLD_STEPS after this one: with the flags of those steps. They are to
 * be written again in between, with other flags.
 */
static void leave_old_lines(uint8_t *connection, const sv_coll_layout_t *at, uint64_t steps)
{
    for (uint64_t step = steps + OLD_STEPS; step < steps + OLD_STEPS + SV_COLL_STEPS; step++) {
        const uint64_t mark = (uint64_t)(uint32_t)(step + 1) << 32 | 0x0ddba11;
        uint8_t *slot = connection + at->ll_at + step % SV_COLL_STEPS * at->ll_bytes;
        for (uint32_t i = 0; i < at->ll_bytes; i += sizeof mark)
            memcpy(slot + i, &mark, sizeof mark);
    }
}

/* Every rank's counters and the words that its peers wrote for it, as after so many steps and rounds. */
static void start_late(selvage_coll_t *coll, const job_t *job)
{
    sv_coll_arena_t *arena = coll->arena;
    const sv_coll_layout_t *at = &arena->layout;
    const uint64_t steps = job->steps, rounds = job->rounds;
    for (unsigned c = 0; arena->memory && c < at->nchannels; c++)
        for (unsigned peer = 0; peer < arena->nranks; peer++) {
            if (peer == arena->me)
                continue;
            uint8_t *words = arena->memory + SV_COLL_ARENA_HEAD + c * at->channel_bytes + peer * at->conn_bytes;
            arena->priv->state[c * SV_COLL_RANKS + peer] =
                (sv_coll_state_t){.sent = steps, .taken = steps, .entries = rounds, .fins = rounds};
            memcpy(words + SV_COLL_TAIL_AT, &steps, sizeof steps);
            memcpy(words + SV_COLL_HEAD_AT, &steps, sizeof steps);
            memcpy(words + SV_COLL_FIN_AT, &rounds, sizeof rounds);
            leave_old_lines(words, at, steps);
        }
    if (arena->memory)
        coll->context.ll_clean = coll->dev_device->ll_clean = job->ll_clean;
}

/* What cannot be exact in another order is not asked of algorithms that have one. */
static void fit_to_call(coll_case_t *what, bool any_order)
{
    const coll_terms_t *terms = &what->terms;
    what->any_order = any_order;
    if (any_order && terms->values == COLL_SPECIAL && coll_type_is_float(terms->type) &&
        terms->op != SELVAGE_OP_MIN && terms->op != SELVAGE_OP_MAX && coll_call_reduces(what->call))
        what->terms.values = COLL_ORDERED;
}

/* A case; where the order is not that of ranks, once more: the bits must be those of the first time. */
static void run_case(coll_try_t *try, coll_case_t *what, void *stream, bool again)
{
    size_t bytes;
    if (!coll_try_run(try, what, stream) || !again || !what->any_order)
        return;
    const uint8_t *output = coll_try_output(try, &bytes);
    uint8_t *first = malloc(bytes + 1);
    memcpy(first, output, bytes);
    coll_try_run(try, what, stream);
    CHECK(memcmp(first, coll_try_output(try, &bytes), bytes) == 0);
    free(first);
}

static void run_systematic(coll_try_t *try, const job_t *job, int size, void *stream)
{
    coll_case_t what;
    for (unsigned i = job->first; coll_case_systematic(i, size, &what); i += job->stride) {
        fit_to_call(&what, job->any_order);
        run_case(try, &what, stream, false);
    }
}

/* One step on every connection by each of these, which uses one line; the others stay as they are. */
static void run_tiny(coll_try_t *try, int size, void *stream)
{
    coll_case_t what = {.call = COLL_ALL_TO_ALL, .count = 1,
                        .terms = {.type = SELVAGE_INT32, .op = SELVAGE_OP_SUM, .nranks = size}};
    for (int i = 0; i < OLD_STEPS + 2; i++)
        coll_try_run(try, &what, stream);
}

/* Old lines would be taken by who comes first. */
static void run_late(coll_try_t *try, const coll_case_t *what, int turn, void *stream)
{
    CHECK_STATUS(selvage_device_delay_us(try->dev, 400.0 * ((try->rank + turn) % what->terms.nranks), stream),
                 SELVAGE_SUCCESS);
    coll_try_run(try, what, stream);
}

static void run_random(coll_try_t *try, const job_t *job, int size, void *stream)
{
    uint64_t state = job->seed;
    if (job->wrapping)
        run_tiny(try, size, stream);
    for (int i = 0; i < WORLD_CASES; i++) {
        coll_case_t what = coll_case_random(&state, size, i % 10 ? SMALL_BYTES : LARGE_BYTES);
        fit_to_call(&what, job->any_order);
        if (job->wrapping)
            run_late(try, &what, i, stream);
        else
            run_case(try, &what, stream, coll_random(&state, 4) == 0);
    }
}

static void check_counts(selvage_coll_t *coll, int size)
{
    selvage_coll_stats_t stats = {SELVAGE_COLL_STATS_INIT};
    CHECK_STATUS(selvage_coll_stats(coll, &stats), SELVAGE_SUCCESS);
    CHECK_EQ(stats.started, stats.completed);
    CHECK(stats.calls > 0);
    CHECK(size == 1 ? stats.arena_bytes == 0 : stats.arena_bytes > 0 && stats.channels > 0);
}

/* The end of the counters was passed. */
static void check_wrapped(const selvage_coll_t *coll, const job_t *job)
{
    const sv_coll_arena_t *arena = coll->arena;
    const sv_coll_state_t *next = &arena->priv->state[(arena->me + 1) % arena->nranks];
    CHECK(next->sent - job->steps > 32 && next->entries - job->rounds > 16);
}

static void run_rank(local_rank_t *self)
{
    const job_t *job = self->arg;
    selvage_coll_t *coll = NULL;
    coll_try_t try;
    void *stream;
    /* Ranks need not agree on this one. */
    const selvage_coll_params_t params = {SELVAGE_COLL_PARAMS_INIT, .host_waits = (job->seed + self->rank) % 3 > 0};
    CHECK_STATUS(selvage_coll_create(self->comm, &params, &coll), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    if (coll && job->wrapping)
        start_late(coll, job);
    if (coll && job->seed % 3 == 1) /* ranks need not agree on this one */
        coll->comm->config.coll_quick = self->rank % 2;
    local_ranks_barrier(self);
    if (coll) {
        coll_try_open(&try, coll, self->dev, LARGE_BYTES, true);
        try.host_waits = params.host_waits;
        if (job->seed)
            run_random(&try, job, self->size, stream);
        else
            run_systematic(&try, job, self->size, stream);
        check_counts(coll, self->size);
        if (job->wrapping)
            check_wrapped(coll, job);
        coll_try_close(&try);
    }
    selvage_coll_destroy(coll);
    selvage_stream_destroy(self->dev, stream);
}

static void run_world(job_t *job, int ranks, const char *environment)
{
    long failed = atomic_load(&check_failed_);
    local_ranks_env(environment);
    local_ranks_run(&(local_run_t){.size = ranks, .body = run_rank, .arg = job});
    if (atomic_load(&check_failed_) != failed)
        fprintf(stderr, "%d ranks, %s, seed %llu, stride %u from %u\n", ranks, environment,
                (unsigned long long)job->seed, job->stride, job->first);
}

/* Every way on every number of ranks; where not all cases are run, each way begins with another one. */
static void test_systematic(unsigned stride)
{
    char environment[160];
    for (unsigned w = 0; w < WAYS; w++)
        for (int ranks = RANKS; ranks > 0; ranks -= RANKS_STEP) {
            job_t job = {.stride = stride, .first = ((unsigned)ranks * 5 + w * 3) % stride,
                         .any_order = ways[w].any_order};
            snprintf(environment, sizeof environment, "COLL_ALGO=%s COLL_PROTO=%s COLL_CHANNELS_MAX=2 COLL_PUSH_MIN=%s",
                     ways[w].algo, ways[w].proto, ranks % 4 > 1 ? "1" : "1T");
            run_world(&job, ranks, environment);
        }
}

static void run_seed(uint64_t seed)
{
    static const char *const more[] = {"", "", "COLL_ARENA_BYTES=2M", "COLL_ARENA_BYTES=1M", "COLL_CHECKSUM=on",
                                       "COLL_WORK_FIFO=always", "SOFT_MODE=auto", "COLL_QUICK=off"};
    char environment[200];
    uint64_t state = seed;
    const way_t *way = &ways[coll_random(&state, WAYS)];
    int ranks = 1 + (int)coll_random(&state, RANKS), channels = 1 << coll_random(&state, 4);
    job_t job = {.seed = seed, .any_order = way->any_order};
    snprintf(environment, sizeof environment,
             "COLL_ALGO=%s COLL_PROTO=%s COLL_CHANNELS_MIN=%d COLL_CHANNELS_MAX=%d COLL_PUSH_MIN=%s %s", way->algo,
             way->proto, channels, channels + (int)coll_random(&state, 8), coll_random(&state, 2) ? "1" : "1T",
             more[coll_random(&state, sizeof more / sizeof more[0])]);
    run_world(&job, ranks, environment);
}

/*
 * The flags of lines are the lower halves of counters, and come round again: a line must not be taken for one that was
 * written 2^32 steps ago, or never. Whole slots are written often enough here to see that.
 */
static void test_wrapping(void)
{
    static const uint64_t start[] = {UINT64_C(0xffffffe4), UINT64_C(0x7fffffe4), UINT64_C(0xffffffffe4)};
    static const char *const protocols[] = {"ll", "ll128", "simple"};
    char environment[160];
    for (unsigned s = 0; s < sizeof start / sizeof start[0]; s++)
        for (unsigned p = 0; p < 3; p++) {
            static const char *const algorithms[] = {"twoshot", "ring", "oneshot"};
            const bool ring = (s + p) % 3 == 1;
            job_t job = {.seed = 1000 + s * 3 + p, .any_order = ring, .wrapping = true, .steps = start[s],
                         .rounds = start[s] + 22, .ll_clean = SV_COLL_STEPS};
            snprintf(environment, sizeof environment,
                     "COLL_ALGO=%s COLL_PROTO=%s COLL_CHANNELS_MAX=1 COLL_ARENA_BYTES=256K", algorithms[(s + p) % 3],
                     protocols[p]);
            run_world(&job, 3, environment);
        }
}

int main(int argc, char **argv)
{
    unsigned stride = check_brief() ? 2 * STRIDE + 1 : STRIDE;
    int cases = check_part(CASES), letter;
    while ((letter = getopt(argc, argv, "s:n:")) != -1) {
        if (letter == 's')
            stride = (unsigned)strtoul(optarg, NULL, 0);
        else if (letter == 'n')
            cases = atoi(optarg);
        else
            return 2;
    }
    for (int i = optind; i < argc; i++)
        run_seed(strtoull(argv[i], NULL, 0));
    if (optind == argc) {
        printf("each %u-th systematic case, %d random worlds from seed 1\n", stride, cases);
        test_systematic(stride ? stride : 1);
        test_wrapping();
        for (int i = 1; i <= cases; i++)
            run_seed((uint64_t)i);
    }
    return check_report("test_coll");
}
