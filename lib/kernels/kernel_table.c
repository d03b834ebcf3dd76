/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors of the library's kernels: the name under which code objects hold them, and the body for soft. Constant,
 * so any thread may use them. Here too: how a spinning block of soft gives way, since device code has no host headers.
 */
#include <limits.h>
#include <sched.h>
#include <time.h>

#include "base/base_clock.h"
#include "kernels/coll_args.h"
#include "kernels/kernels.h"

/* Which launches wait for nobody, so that soft may run them in the thread that makes them. */
static bool never_waits(const void *arg)
{
    (void)arg;
    return true;
}

static bool digest_is_brief(const void *arg)
{
    return ((const sv_digest_arg_t *)arg)->await == NULL;
}

static bool rest_is_brief(const void *arg)
{
    return ((const sv_rest_arg_t *)arg)->pass.await == NULL;
}

static bool batch_is_brief(const void *arg)
{
    return ((const sv_batch_arg_t *)arg)->wait_ns == 0;
}

const sv_kernel_t sv_kernel_digest = {.name = "sv_digest", .soft = sv_digest_soft, .is_brief = digest_is_brief};
const sv_kernel_t sv_kernel_digests = {.name = "sv_digests", .soft = sv_digests_soft, .is_brief = never_waits};
const sv_kernel_t sv_kernel_rest = {.name = "sv_rest", .soft = sv_rest_soft, .is_brief = rest_is_brief};
const sv_kernel_t sv_kernel_pack = {.name = "sv_pack", .soft = sv_pack_soft, .is_brief = never_waits};
const sv_kernel_t sv_kernel_unpack = {.name = "sv_unpack", .soft = sv_unpack_soft, .is_brief = never_waits};
const sv_kernel_t sv_kernel_runs = {.name = "sv_runs", .soft = sv_runs_soft, .is_brief = never_waits};
const sv_kernel_t sv_kernel_sum = {.name = "sv_sum", .soft = sv_sum_soft, .is_brief = never_waits};
const sv_kernel_t sv_kernel_touch = {.name = "sv_touch", .soft = sv_touch_soft, .is_brief = never_waits};
const sv_kernel_t sv_kernel_signal = {.name = "sv_signal", .soft = sv_signal_soft, .is_brief = never_waits};
const sv_kernel_t sv_kernel_push = {
    .name = "sv_push", .soft = sv_push_soft, .early_start = true, .is_brief = batch_is_brief};
const sv_kernel_t sv_kernel_pull = {
    .name = "sv_pull", .soft = sv_pull_soft, .early_start = true, .is_brief = batch_is_brief};
const sv_kernel_t sv_kernel_gather = {
    .name = "sv_gather", .soft = sv_gather_soft, .early_start = true, .is_brief = batch_is_brief};
const sv_kernel_t sv_kernel_scatter = {
    .name = "sv_scatter", .soft = sv_scatter_soft, .early_start = true, .is_brief = batch_is_brief};
const sv_kernel_t sv_kernel_run = {.name = "sv_run", .soft = sv_run_soft, .early_start = true};
const sv_kernel_t sv_kernel_run_pieces = {.name = "sv_run_pieces", .soft = sv_run_pieces_soft, .early_start = true};
const sv_kernel_t sv_kernel_replay = {.name = "sv_replay", .soft = sv_replay_soft, .early_start = true};
const sv_kernel_t sv_kernel_replay_pieces = {
    .name = "sv_replay_pieces", .soft = sv_replay_pieces_soft, .early_start = true};
const sv_kernel_t sv_kernel_await = {.name = "sv_await", .soft = sv_await_soft};
const sv_kernel_t sv_kernel_flip = {.name = "sv_flip", .soft = sv_flip_soft, .is_brief = never_waits};
const sv_kernel_t sv_kernel_fold = {.name = "sv_fold", .soft = sv_fold_soft, .is_brief = never_waits};
const sv_kernel_t sv_kernel_exact_scale = {
    .name = "sv_exact_scale", .soft = sv_exact_scale_soft, .is_brief = never_waits};
const sv_kernel_t sv_kernel_exact_split = {
    .name = "sv_exact_split", .soft = sv_exact_split_soft, .is_brief = never_waits};
const sv_kernel_t sv_kernel_exact_join = {
    .name = "sv_exact_join", .soft = sv_exact_join_soft, .is_brief = never_waits};
const sv_kernel_t sv_kernel_exact_pack = {
    .name = "sv_exact_pack", .soft = sv_exact_pack_soft, .is_brief = never_waits};
const sv_kernel_t sv_kernel_exact_add = {
    .name = "sv_exact_add", .soft = sv_exact_add_soft, .is_brief = never_waits};
const sv_kernel_t sv_kernel_exact_unpack = {
    .name = "sv_exact_unpack", .soft = sv_exact_unpack_soft, .is_brief = never_waits};
const sv_kernel_t sv_kernel_clock = {.name = "sv_clock", .soft = sv_clock_soft};
const sv_kernel_t sv_kernel_delay = {.name = "sv_delay", .soft = sv_delay_soft};
const sv_kernel_t sv_kernel_coll = {
    .name = "sv_coll", .soft = sv_coll_soft, .lanes = SV_COLL_LANES, .early_start = true};
const sv_kernel_t sv_kernel_coll_ll = {
    .name = "sv_coll_ll", .soft = sv_coll_ll_soft, .lanes = SV_COLL_LANES, .early_start = true};
const sv_kernel_t sv_kernel_coll_ll128 = {
    .name = "sv_coll_ll128", .soft = sv_coll_ll128_soft, .lanes = SV_COLL_LANES, .early_start = true};
const sv_kernel_t sv_kernel_coll_small = {
    .name = "sv_coll_small", .soft = sv_coll_small_soft, .lanes = SV_COLL_LANES, .early_start = true};
const sv_kernel_t sv_kernel_coll_small_ll128 = {
    .name = "sv_coll_small_ll128", .soft = sv_coll_small_ll128_soft, .lanes = SV_COLL_LANES, .early_start = true};
const sv_kernel_t sv_kernel_coll_small_pair = {
    .name = "sv_coll_small_pair", .soft = sv_coll_small_pair_soft, .lanes = SV_COLL_LANES, .early_start = true};
const sv_kernel_t sv_kernel_coll_small_pair_ll128 = {
    .name = "sv_coll_small_pair_ll128", .soft = sv_coll_small_pair_ll128_soft, .lanes = SV_COLL_LANES,
    .early_start = true};

/* A batch of four 16-byte units for each of 256 lanes: with less, blocks only cost their start and their arrival. */
enum { BLOCK_BYTES = 16384 };

unsigned sv_kernel_shares(const sv_device_t *dev, uint64_t bytes, uint64_t share_bytes)
{
    uint64_t wanted = bytes / share_bytes + (bytes % share_bytes > 0 || bytes == 0);
    return wanted < dev->launch_blocks ? (unsigned)wanted : dev->launch_blocks;
}

unsigned sv_kernel_blocks(const sv_device_t *dev, uint64_t bytes)
{
    return sv_kernel_shares(dev, bytes, BLOCK_BYTES);
}

enum { RELAX_YIELDS = 64, RELAX_SLEEP_NS = 50000, RELAX_SLEEPS = 16, RELAX_DOUBLINGS = 5 };

uint64_t sv_kernel_clock_ns(void)
{
    return sv_clock_ns();
}

void sv_kernel_backoff(unsigned *turns)
{
    const unsigned turn = *turns;
    if (turn < UINT_MAX)
        *turns = turn + 1;
    if (turn < RELAX_YIELDS) {
        sched_yield();
        return;
    }
    /* Blocks outnumber cores on small machines: the one waited for needs the core more than this one. And blocks that
       look all the time take a core when they wait for long, which they then do for a sixteenth longer. */
    const unsigned doublings = (turn - RELAX_YIELDS) / RELAX_SLEEPS;
    nanosleep(&(struct timespec){.tv_nsec = RELAX_SLEEP_NS << (doublings < RELAX_DOUBLINGS ? doublings
                                                                                           : RELAX_DOUBLINGS)}, NULL);
}
