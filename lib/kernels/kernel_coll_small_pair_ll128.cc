/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel of one short send and one receive alone, in long lines; see coll_small_pair.h. */
#include "kernels/coll_small_pair.h"

SV_KERNEL_WIDE(sv_coll_small_pair_ll128, sv_coll_small_pair_arg_t, sv_coll_small_pair_body<sv_coll_ll128>)
