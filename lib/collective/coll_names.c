/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of calls, algorithms and protocols, and the table of what goes together. */
#include "collective/coll_names.h"

#include <string.h>

#include "kernels/coll_args.h"

static const char *const calls[SV_COLL_CALLS] = {
    [SV_COLL_ALL_REDUCE] = "all_reduce", [SV_COLL_REDUCE_SCATTER] = "reduce_scatter",
    [SV_COLL_ALL_GATHER] = "all_gather", [SV_COLL_BROADCAST] = "broadcast",
    [SV_COLL_REDUCE] = "reduce",         [SV_COLL_ALL_TO_ALL] = "all_to_all",
    [SV_COLL_PAIR] = "pair",             [SV_COLL_BARRIER] = "barrier",
};
static const char *const algos[SV_COLL_ALGOS] = {
    [SV_COLL_ONESHOT] = "oneshot",       [SV_COLL_TWOSHOT] = "twoshot", [SV_COLL_DIRECT_ONE] = "direct_one",
    [SV_COLL_DIRECT_TWO] = "direct_two", [SV_COLL_RING] = "ring",       [SV_COLL_PAT] = "pat",
};
static const char *const protos[SV_COLL_PROTOS] = {
    [SV_COLL_LL] = "ll", [SV_COLL_LL128] = "ll128", [SV_COLL_SIMPLE] = "simple",
};

/* By call: the algorithms, as bits. */
#define BIT(algo) (1U << SV_COLL_##algo)
static const unsigned has[SV_COLL_CALLS] = {
    [SV_COLL_ALL_REDUCE] = BIT(ONESHOT) | BIT(TWOSHOT) | BIT(DIRECT_ONE) | BIT(DIRECT_TWO) | BIT(RING),
    [SV_COLL_REDUCE_SCATTER] = BIT(ONESHOT) | BIT(DIRECT_ONE) | BIT(RING) | BIT(PAT),
    [SV_COLL_ALL_GATHER] = BIT(ONESHOT) | BIT(DIRECT_ONE) | BIT(RING) | BIT(PAT),
    [SV_COLL_BROADCAST] = BIT(ONESHOT) | BIT(TWOSHOT) | BIT(DIRECT_ONE) | BIT(DIRECT_TWO) | BIT(RING),
    [SV_COLL_REDUCE] = BIT(ONESHOT) | BIT(TWOSHOT) | BIT(DIRECT_ONE) | BIT(DIRECT_TWO) | BIT(RING),
    [SV_COLL_ALL_TO_ALL] = BIT(ONESHOT) | BIT(DIRECT_ONE),
    [SV_COLL_PAIR] = BIT(ONESHOT),
    [SV_COLL_BARRIER] = BIT(ONESHOT),
};

static const char *name_of(const char *const *names, unsigned count, unsigned value)
{
    return value > 0 && value < count ? names[value] : "none";
}

static unsigned look_up_name(const char *const *names, unsigned count, const char *name)
{
    for (unsigned i = 1; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return 0;
}

const char *sv_coll_call_name(unsigned call)
{
    return name_of(calls, SV_COLL_CALLS, call);
}

const char *sv_coll_algo_name(unsigned algo)
{
    return name_of(algos, SV_COLL_ALGOS, algo);
}

const char *sv_coll_proto_name(unsigned proto)
{
    return name_of(protos, SV_COLL_PROTOS, proto);
}

unsigned sv_coll_call_named(const char *name)
{
    return look_up_name(calls, SV_COLL_CALLS, name);
}

unsigned sv_coll_algo_named(const char *name)
{
    return look_up_name(algos, SV_COLL_ALGOS, name);
}

unsigned sv_coll_proto_named(const char *name)
{
    return look_up_name(protos, SV_COLL_PROTOS, name);
}

bool sv_coll_exists(unsigned call, unsigned algo, unsigned proto)
{
    bool direct = algo == SV_COLL_DIRECT_ONE || algo == SV_COLL_DIRECT_TWO;
    if (call == 0 || call >= SV_COLL_CALLS || algo >= SV_COLL_ALGOS || proto == 0 || proto >= SV_COLL_PROTOS)
        return false;
    if ((direct && proto != SV_COLL_SIMPLE) || (call == SV_COLL_BARRIER && proto != SV_COLL_LL))
        return false;
    return has[call] >> algo & 1;
}
