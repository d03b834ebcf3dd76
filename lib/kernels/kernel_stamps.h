/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time stamps inside kernels. The first lane of a block speaks for it. A stamp is a read of the clock and a store that
 * nothing waits for; where none are wanted, it is a test of an argument of the launch. Stamps order nothing. The host
 * reads them when the kernels have ended.
 */
#ifndef SV_KERNEL_STAMPS_H
#define SV_KERNEL_STAMPS_H

#include "kernels/kernel_device.h"

/* Takes a stamp (SV_STAMP_) in that line. All lanes may call. */
SV_DEV_FN void sv_dev_stamp(sv_stamp_line_t *lines, unsigned line, unsigned stamp, unsigned tid)
{
    if (lines && tid == 0)
        sv_dev_store_word_system(&lines[line].at_ns[stamp], sv_dev_clock_ns());
}

/* The first stamp of a line. */
SV_DEV_FN void sv_dev_stamp_begin(sv_stamp_line_t *lines, unsigned line, unsigned tid)
{
    if (lines && tid == 0) {
        sv_dev_atomic_add_u64(&lines[line].times, 1);
        sv_dev_store_word_system(&lines[line].at_ns[SV_STAMP_BEGAN], sv_dev_clock_ns());
    }
}

#endif
