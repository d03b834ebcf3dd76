/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launches: one CPU thread per block.
 *
 * Block 0 runs on the stream's worker, every other block on a helper thread of the same stream. The launch that first
 * needs helpers starts them, in the caller, so that a failure is the launch's own status. Helpers are kept. A stream
 * executes one operation at a time, so its helpers are all free when a launch begins, and all blocks run at the same
 * time. A launch of one block touches none of this.
 */
#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "device/soft/soft_priv.h"

static bool helper_ready(const void *arg)
{
    const soft_helper_t *helper = arg;
    /* Partners: the releases in run_blocks() and soft_helpers_destroy(). */
    return atomic_load_explicit(&helper->go, memory_order_acquire) != helper->seen ||
           atomic_load_explicit(&helper->stop, memory_order_acquire);
}

static void *helper_main(void *arg)
{
    soft_helper_t *helper = arg;
    soft_stream_t *stream = helper->stream;
    soft_thread_begin();
    for (;;) {
        soft_park_wait(&helper->park, helper_ready, helper);
        if (atomic_load_explicit(&helper->go, memory_order_acquire) == helper->seen)
            return NULL;
        helper->seen++;
        const soft_op_t *op = helper->op;
        op->u.kernel.body(op->u.kernel.arg, helper->block, op->u.kernel.nblocks);
        /* Releases the block's writes to blocks_done(); acquires those of the blocks counted before. */
        if (atomic_fetch_sub_explicit(&stream->blocks_left, 1, memory_order_acq_rel) == 1)
            soft_park_post(&stream->finished);
    }
}

static bool blocks_done(const void *arg)
{
    /* Partner: the release in helper_main(). */
    return atomic_load_explicit(&((const soft_stream_t *)arg)->blocks_left, memory_order_acquire) == 0;
}

static void run_one(soft_stream_t *stream, const soft_op_t *op)
{
    (void)stream;
    op->u.kernel.body(op->u.kernel.arg, 0, 1);
}

static void run_blocks(soft_stream_t *stream, const soft_op_t *op)
{
    unsigned nblocks = op->u.kernel.nblocks;
    if (stream->inlined) {
        for (unsigned block = 0; block < nblocks; block++)
            op->u.kernel.body(op->u.kernel.arg, block, nblocks);
        return;
    }
    atomic_store_explicit(&stream->blocks_left, nblocks - 1, memory_order_relaxed);
    /* Somebody may append helpers meanwhile: the link of the last one needed here is not looked at. */
    soft_helper_t *helper = stream->helpers;
    for (unsigned block = 1; block < nblocks; block++) {
        helper->op = op;
        /* Partner: the acquire in helper_ready(). */
        atomic_fetch_add_explicit(&helper->go, 1, memory_order_release);
        soft_park_post(&helper->park);
        if (block + 1 < nblocks)
            helper = helper->next;
    }
    op->u.kernel.body(op->u.kernel.arg, 0, nblocks);
    soft_park_wait(&stream->finished, blocks_done, stream);
}

static selvage_status_t helper_append(soft_stream_t *stream, soft_helper_t **link)
{
    soft_helper_t *helper = NULL;
    SV_TRY(sv_calloc(1, sizeof *helper, &helper));
    helper->stream = stream;
    helper->block = stream->nhelpers + 1;
    selvage_status_t status = soft_thread_start(&helper->thread, helper_main, helper);
    if (status != SELVAGE_SUCCESS) {
        sv_free(helper);
        return status;
    }
    *link = helper;
    stream->nhelpers++;
    return SELVAGE_SUCCESS;
}

selvage_status_t soft_helpers_grow(soft_stream_t *stream, unsigned wanted)
{
    selvage_status_t status = SELVAGE_SUCCESS;
    pthread_mutex_lock(&stream->grow);
    soft_helper_t **link = &stream->helpers;
    while (*link)
        link = &(*link)->next;
    while (status == SELVAGE_SUCCESS && stream->nhelpers < wanted) {
        status = helper_append(stream, link);
        if (status == SELVAGE_SUCCESS)
            link = &(*link)->next;
    }
    pthread_mutex_unlock(&stream->grow);
    return status;
}

void soft_helpers_destroy(soft_stream_t *stream)
{
    while (stream->helpers) {
        soft_helper_t *helper = stream->helpers;
        stream->helpers = helper->next;
        /* Partner: the acquire in helper_ready(). */
        atomic_store_explicit(&helper->stop, 1, memory_order_release);
        soft_park_post(&helper->park);
        soft_thread_join(helper->thread);
        sv_free(helper);
    }
    stream->nhelpers = 0;
}

selvage_status_t soft_launch(sv_device_t *dev, const sv_kernel_t *kernel, const void *arg, size_t arg_bytes,
                             unsigned nblocks, void *handle)
{
    soft_stream_t *stream;
    SV_TRY(soft_stream_find(dev, handle, &stream));
    if (arg_bytes > SV_KERNEL_ARG_BYTES || nblocks == 0 || nblocks > SOFT_BLOCKS_MAX)
        return sv_error(SELVAGE_ERR_DEVICE, "soft: kernel %s cannot be launched with %zu bytes of arguments, %u blocks",
                        kernel->name, arg_bytes, nblocks);
    if (stream->capture)
        soft_graph_note_blocks(stream->capture, nblocks);
    else if (nblocks > 1 && !stream->inlined)
        SV_TRY(soft_helpers_grow(stream, nblocks - 1));
    soft_op_t *op = soft_op_begin(stream);
    op->run = nblocks == 1 ? run_one : run_blocks;
    op->brief = nblocks == 1 && kernel->is_brief && kernel->is_brief(arg);
    op->u.kernel.body = kernel->soft;
    op->u.kernel.nblocks = nblocks;
    if (arg_bytes)
        memcpy(op->u.kernel.arg, arg, arg_bytes);
    soft_op_publish(stream, op);
    return SELVAGE_SUCCESS;
}
