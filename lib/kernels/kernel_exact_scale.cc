/* SPDX-License-Identifier: BSD-3-Clause */
/* Exact sums: how large each element is; see coll_exact_steps.h. */
#include "kernels/coll_exact_steps.h"

SV_KERNEL(sv_exact_scale, sv_exact_arg_t, exact_scale_body)
