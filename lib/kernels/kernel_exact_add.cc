/* SPDX-License-Identifier: BSD-3-Clause */
/* Exact sums: the sum of the elements of all ranks; see coll_exact_steps.h. */
#include "kernels/coll_exact_steps.h"

SV_KERNEL(sv_exact_add, sv_exact_arg_t, exact_add_body)
