/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel of one short call alone, in long lines; see coll_quick.h. */
#include "kernels/coll_quick.h"

SV_KERNEL_WIDE(sv_coll_quick_long, sv_coll_quick_arg_t, sv_coll_quick_body<sv_coll_long>)
