/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The number of this process among the ranks of its host, as the launcher says in the environment. By it ranks share
 * out the GPUs of a host before MPI can be asked.
 */
#ifndef SV_BASE_LOCAL_RANK_H
#define SV_BASE_LOCAL_RANK_H

#include "base/base_config.h"

/* From 0; -1 if no launcher says it. lookup NULL: secure_getenv. Local, any thread. */
int sv_local_rank(sv_config_lookup_t lookup, void *lookup_arg);

#endif
