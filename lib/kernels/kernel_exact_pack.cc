/* SPDX-License-Identifier: BSD-3-Clause */
/* Exact sums: elements as blocks, one for each rank; see coll_exact_steps.h. */
#include "kernels/coll_exact_steps.h"

SV_KERNEL(sv_exact_pack, sv_exact_arg_t, exact_pack_body)
