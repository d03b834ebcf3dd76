/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel of collectives that reduce in slots and in users' memory; see coll_run.h. */
#include "kernels/coll_run.h"

SV_KERNEL_WIDE(sv_coll, sv_coll_arg_t, sv_coll_body<SV_COLL_SIMPLE>)
