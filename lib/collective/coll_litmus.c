/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file tries whether long lines (LL128) can be used. They are right only where the hardware stores a line of 128
 * bytes whole, and in order, all the way to the other device; nothing but a trial tells. So the first communicator of
 * an arena gathers some data by long lines, with digests, before anybody else uses the arena. If a digest is wrong on
 * any rank, the protocol stays off on all. Afterwards the arena is as if nothing had been. On AMD the protocol stays
 * off without a trial: a lane's 16 bytes leave in two stores there, so that a line is never stored whole.
 *
 * It runs while the communicator is made, in the task that makes it, and owns the trial's buffers.
 */
#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "collective/coll_setup.h"

enum { ROUNDS = 16, ROUNDS_SOFT = 2, ELEMENTS = 1 << 15, ELEMENTS_SOFT = 1 << 11 };

/* Gathers by long lines, round after round, and waits for all. */
static selvage_status_t gather_by_lines(selvage_coll_t *coll, void *in, void *out, size_t bytes)
{
    sv_coll_arena_t *arena = coll->arena;
    const int rounds = coll->facts.soft ? ROUNDS_SOFT : ROUNDS;
    sv_coll_call_t call = {.call = SV_COLL_ALL_GATHER, .type = SELVAGE_UINT64, .root = -1, .send = in, .recv = out,
                           .count = bytes / sizeof(uint64_t), .stream = arena->stream};
    for (int i = 0; i < rounds; i++) {
        int value = 0x5a + 37 * i + (int)coll->dev.me;
        SV_TRY(SV_DEVICE_CALL(coll->comm->dev, fill_async, in, value & 0xff, bytes, arena->stream));
        SV_TRY(sv_coll_launch(coll, &call, 1));
    }
    return sv_coll_drain(arena, coll->comm->timeout_s);
}

/* A rank that cannot go on ends its kernels, and after them those of the others, which would wait for it. All of its
   launches are on this stream. */
static void notify_peers(sv_coll_arena_t *arena)
{
    sv_device_t *dev = arena->comm->dev;
    __atomic_store_n(&arena->pinned->host_stop, 1, __ATOMIC_RELEASE); /* partner: sv_coll_ended() */
    for (uint32_t r = 0; r < arena->nranks; r++) {
        sv_signal_arg_t tell = {.word = arena->base[r], /* partner: sv_coll_notice() */
                                .value = (uint64_t)SV_COLL_ABORTED << 32 | (uint64_t)arena->me << 8 | arena->me};
        if (r != arena->me)
            (void)SV_DEVICE_CALL(dev, launch, &sv_kernel_signal, &tell, sizeof tell, 1, arena->stream);
    }
    if (sv_coll_finish_copies(arena) == SELVAGE_SUCCESS)
        arena->completed = arena->launches;
}

/* What this rank has seen; of errors only that one which the trial is about. */
static selvage_status_t try_lines(selvage_coll_t *coll, bool *right_out)
{
    sv_coll_arena_t *arena = coll->arena;
    sv_device_t *dev = coll->comm->dev;
    const sv_coll_facts_t facts = coll->facts;
    const size_t bytes = (facts.soft ? ELEMENTS_SOFT : ELEMENTS) * sizeof(uint64_t);
    void *in = NULL, *out = NULL;
    sv_config_t *config; /* that of the communicator, but for what is tried */
    SV_TRY(sv_calloc(1, sizeof *config, &config));
    selvage_status_t status = SV_DEVICE_CALL(dev, malloc, bytes, &in);
    if (status == SELVAGE_SUCCESS)
        status = SV_DEVICE_CALL(dev, malloc, bytes * coll->dev.n, &out);
    if (status == SELVAGE_SUCCESS) {
        *config = coll->comm->config;
        config->coll_algo = SV_COLL_ONESHOT;
        config->coll_proto = SV_COLL_LL128;
        config->coll_checksum = 1;
        coll->facts.config = config;
        coll->facts.tuning = NULL;
        coll->facts.has_ll128 = true;
        status = gather_by_lines(coll, in, out, bytes);
        coll->facts = facts;
    }
    if (status != SELVAGE_SUCCESS)
        notify_peers(arena);
    if (arena->completed < arena->launches) { /* a kernel may still write there */
        sv_coll_arena_set_stuck(arena);
    } else {
        SV_DEVICE_CALL(dev, free, out);
        SV_DEVICE_CALL(dev, free, in);
    }
    sv_free(config);
    /* Partner: the release in sv_coll_record(). */
    uint32_t kind = __atomic_load_n(&arena->pinned->error.kind, __ATOMIC_ACQUIRE);
    *right_out = status == SELVAGE_SUCCESS && kind == SV_COLL_FINE;
    if (status == SELVAGE_SUCCESS && kind != SV_COLL_FINE && kind != SV_COLL_DAMAGED)
        status = sv_error(kind == SV_COLL_ABORTED ? SELVAGE_ERR_PEER : SELVAGE_ERR_TIMEOUT,
                          "selvage_coll_create: kernels of the ranks of this node did not hear each other");
    return status;
}

selvage_status_t sv_coll_try_ll128(selvage_coll_t *coll)
{
    sv_coll_arena_t *arena = coll->arena;
    double timeout_s = coll->comm->timeout_s;
    bool right = true;
    if (arena->tried)
        return SELVAGE_SUCCESS;
    selvage_status_t status = SELVAGE_SUCCESS;
    if (strcmp(coll->comm->dev->ops->name, "amd") == 0)
        right = false;
    else if (coll->dev.n > 1)
        status = try_lines(coll, &right);
    uint64_t all_right = right;
    SV_TRY(sv_gather_least(&coll->all, "selvage_coll_create: long lines", 0, status, &all_right, timeout_s));
    right = all_right != 0;
    if (coll->dev.n > 1)
        status = sv_coll_arena_clear(arena);
    SV_TRY(sv_gather_least(&coll->all, "selvage_coll_create: clean", 0, status, &all_right, timeout_s));
    sv_log(SV_LOG_INFO, "collective", "lines of 128 bytes are %s here", right ? "whole: LL128 is used"
                                                                              : "torn: LL128 is not used");
    arena->tried = true;
    arena->has_ll128 = coll->facts.has_ll128 = right;
    coll->sequence = 0;
    return SELVAGE_SUCCESS;
}
