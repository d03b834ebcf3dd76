/* SPDX-License-Identifier: BSD-3-Clause */
/* Exact sums: elements as limbs; see coll_exact_steps.h. */
#include "kernels/coll_exact_steps.h"

SV_KERNEL(sv_exact_split, sv_exact_arg_t, exact_split_body)
