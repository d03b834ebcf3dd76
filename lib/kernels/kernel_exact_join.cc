/* SPDX-License-Identifier: BSD-3-Clause */
/* Exact sums: the elements that sums of limbs are; see coll_exact_steps.h. */
#include "kernels/coll_exact_steps.h"

SV_KERNEL(sv_exact_join, sv_exact_arg_t, exact_join_body)
