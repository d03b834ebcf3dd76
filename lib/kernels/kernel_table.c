/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors of the library's kernels: the name under which code objects hold them, and the body for soft. Constant,
 * so any thread may use them. Here too: how a spinning block of soft gives way, since device code has no host headers.
 */
#include <sched.h>
#include <time.h>

#include "base/base_clock.h"
#include "kernels/kernels.h"

const sv_kernel_t sv_kernel_digest = {"sv_digest", sv_digest_soft};
const sv_kernel_t sv_kernel_signal = {"sv_signal", sv_signal_soft};
const sv_kernel_t sv_kernel_push = {"sv_push", sv_push_soft};
const sv_kernel_t sv_kernel_pull = {"sv_pull", sv_pull_soft};
const sv_kernel_t sv_kernel_await = {"sv_await", sv_await_soft};
const sv_kernel_t sv_kernel_flip = {"sv_flip", sv_flip_soft};
const sv_kernel_t sv_kernel_delay = {"sv_delay", sv_delay_soft};

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
