/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel of one short call alone, in lines of 16 bytes; see coll_small.h. */
#include "kernels/coll_small.h"

SV_KERNEL_WIDE(sv_coll_small, sv_coll_small_arg_t, sv_coll_small_body<sv_coll_ll>)
