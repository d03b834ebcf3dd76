/* SPDX-License-Identifier: BSD-3-Clause */
/* Combines the blocks of all ranks, element by element; see coll_fold.h and coll_fold_steps.h. */
#include "kernels/coll_fold_steps.h"

SV_KERNEL(sv_fold, sv_fold_arg_t, fold_body)
