/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel of collectives that reduce in long lines; see coll_run.h. */
#define SV_COLL_LINES_REDUCE 1
#include "kernels/coll_run.h"

SV_KERNEL_WIDE(sv_coll_ll128, sv_coll_arg_t, sv_coll_body<SV_COLL_LL128>)
