/* SPDX-License-Identifier: BSD-3-Clause */
/* Exact sums: blocks as a vector; see coll_exact_steps.h. */
#include "kernels/coll_exact_steps.h"

SV_KERNEL(sv_exact_unpack, sv_exact_arg_t, exact_unpack_body)
