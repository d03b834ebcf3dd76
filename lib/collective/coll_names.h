/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What calls, algorithms and protocols of collectives are called, in the log, in tables and in tuning files, and which
 * of them go together. Constant; any thread.
 */
#ifndef SV_COLL_NAMES_H
#define SV_COLL_NAMES_H

#include <stdbool.h>

/* "all_reduce", "oneshot", "ll"; "none" for what is no SV_COLL_ value. */
const char *sv_coll_call_name(unsigned call);
const char *sv_coll_algo_name(unsigned algo);
const char *sv_coll_proto_name(unsigned proto);

/* The other way; 0 for an unknown name. */
unsigned sv_coll_call_named(const char *name);
unsigned sv_coll_algo_named(const char *name);
unsigned sv_coll_proto_named(const char *name);

/* There is such a way to do the call. */
bool sv_coll_exists(unsigned call, unsigned algo, unsigned proto);

#endif
