#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Collectives between processes: every call, type and operation, random cases, splits, by several algorithms and
# protocols, on 1 to 8 ranks; across virtual nodes, also by MPI's own collectives; exact sums by all of these.
# COLL_CASES and COLL_STRIDE make it longer. More ranks than TEST_GPUS, where that is set, would have to share a GPU,
# which collectives refuse: those are left out.
set -eu
top_srcdir=${top_srcdir:-.}
program=${top_builddir:-.}/tests/mpi/coll_mpi
cases=${COLL_CASES:-20} stride=${COLL_STRIDE:-11}
seed=0
# coll RANKS ORDER: the environment says the rest.
coll() {
    seed=$((seed + 1))
    if [ -n "${TEST_GPUS:-}" ] && [ "$1" -gt "$TEST_GPUS" ]; then echo "$1 ranks left out"; return; fi
    bash "$top_srcdir/scripts/run-mpi" -n "$1" -t 240 "$program" "$2" "$cases" "$seed" "$stride"
}
SELVAGE_RANKS_PER_NODE=2 coll 5 any
SELVAGE_RANKS_PER_NODE=2 SELVAGE_COLL_CHECKSUM=on coll 4 any
SELVAGE_RANKS_PER_NODE=2 SELVAGE_COLL_INTERNODE=mpi coll 5 any
SELVAGE_RANKS_PER_NODE=1 SELVAGE_COLL_INTERNODE=mpi SELVAGE_PROGRESS=thread coll 3 any
SELVAGE_SUM=exact coll 3 exact
SELVAGE_SUM=exact SELVAGE_RANKS_PER_NODE=2 SELVAGE_COLL_INTERNODE=mpi coll 5 exact
if [ "${BRIEF:-}" = yes ]; then # the first pass runs the rest
    for ranks in 1 3 8; do coll "$ranks" any; done
    SELVAGE_COLL_ALGO=direct SELVAGE_COLL_PUSH_MIN=1 coll 3 ranks
    exit 0
fi
for ranks in 1 2 3 5 8; do coll "$ranks" any; done
for algo in oneshot twoshot direct; do SELVAGE_COLL_ALGO=$algo coll 3 ranks; done
for ranks in 2 4; do SELVAGE_COLL_ALGO=direct SELVAGE_COLL_PUSH_MIN=1 coll "$ranks" ranks; done
for algo in ring pat; do SELVAGE_COLL_ALGO=$algo coll 5 any; done
for proto in ll ll128 simple; do SELVAGE_COLL_PROTO=$proto coll 2 any; done
SELVAGE_COLL_CHECKSUM=on coll 3 any
SELVAGE_COLL_CHANNELS_MIN=4 SELVAGE_COLL_ARENA_BYTES=2M coll 2 any
SELVAGE_RANKS_PER_NODE=1 coll 3 any
SELVAGE_RANKS_PER_NODE=2 SELVAGE_COLL_INTERNODE=mpi SELVAGE_COLL_CHECKSUM=off coll 4 any
SELVAGE_SUM=exact SELVAGE_RANKS_PER_NODE=2 coll 4 exact
SELVAGE_SUM=exact SELVAGE_RANKS_PER_NODE=1 SELVAGE_COLL_INTERNODE=mpi SELVAGE_PROGRESS=thread coll 3 exact
SELVAGE_SUM=exact SELVAGE_COLL_ALGO=direct coll 8 exact
SELVAGE_SUM=exact SELVAGE_COLL_ALGO=ring SELVAGE_COLL_PROTO=simple coll 4 exact
