/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors of the library's kernels: the name under which code objects hold them, and the body for soft. Constant,
 * so any thread may use them. Here too: how a spinning block of soft gives way, since device code has no host headers.
 */
#include <sched.h>
#include <time.h>

#include "base/base_clock.h"
#include "kernels/kernels.h"

const sv_kernel_t sv_kernel_digest = {"sv_digest", sv_digest_soft, false};
const sv_kernel_t sv_kernel_pack = {"sv_pack", sv_pack_soft, false};
const sv_kernel_t sv_kernel_unpack = {"sv_unpack", sv_unpack_soft, false};
const sv_kernel_t sv_kernel_sum = {"sv_sum", sv_sum_soft, false};
const sv_kernel_t sv_kernel_touch = {"sv_touch", sv_touch_soft, false};
const sv_kernel_t sv_kernel_signal = {"sv_signal", sv_signal_soft, false};
const sv_kernel_t sv_kernel_push = {"sv_push", sv_push_soft, true};
const sv_kernel_t sv_kernel_pull = {"sv_pull", sv_pull_soft, true};
const sv_kernel_t sv_kernel_gather = {"sv_gather", sv_gather_soft, true};
const sv_kernel_t sv_kernel_scatter = {"sv_scatter", sv_scatter_soft, true};
const sv_kernel_t sv_kernel_await = {"sv_await", sv_await_soft, false};
const sv_kernel_t sv_kernel_flip = {"sv_flip", sv_flip_soft, false};
const sv_kernel_t sv_kernel_delay = {"sv_delay", sv_delay_soft, false};

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

enum { RELAX_YIELDS = 64, RELAX_SLEEP_NS = 50000 };

uint64_t sv_kernel_clock_ns(void)
{
    return sv_clock_ns();
}

void sv_kernel_relax(unsigned *turns)
{
    if (*turns < RELAX_YIELDS) {
        *turns += 1;
        sched_yield();
        return;
    }
    /* Blocks outnumber cores on small machines: the one waited for needs the core more than this one. */
    nanosleep(&(struct timespec){.tv_nsec = RELAX_SLEEP_NS}, NULL);
}
