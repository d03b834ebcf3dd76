#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Random calls of MPI with memory of all kinds, each beside MPI's own on host memory. What fails names seed and step.
# RANDOM_SEEDS and RANDOM_STEPS: for more of them.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
. "$top_srcdir/tests/fixtures/unmodified.sh"
steps=${RANDOM_STEPS:-${BRIEF:+60}}

# random RANKS SEED [VARIABLE=VALUE...]: all that the ranks check is right
random() {
    local ranks=$1 seed=$2 right
    shift 2
    env "$@" MPIRUN="$dir/mpirun" "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 \
        "$top_builddir/tests/mpi/dropin_random" "$seed" "${steps:-120}" >"$dir/out" 2>&1
    right=$(grep -c '^dropin_random: [1-9][0-9]* checks, 0 failed$' "$dir/out")
    [ "$right" -eq "$ranks" ] ||
        { cat "$dir/out"; echo "FAIL: seed $seed on $ranks ranks, $*"; failed=1; }
}
# Short messages take the route, too. With one node for each two ranks there is none between the others.
# With one for each rank there is none, and long messages go in fragments.
for seed in ${RANDOM_SEEDS:-1 2}; do
    for mode in $modes $off; do
        random 3 "$seed" SELVAGE_DROPIN_FAST="$mode" SELVAGE_DROPIN_FAST_BYTES=1024
    done
    random 4 "$seed" SELVAGE_DROPIN_FAST=auto SELVAGE_DROPIN_FAST_BYTES=256 SELVAGE_RANKS_PER_NODE=2
    random 3 "$seed" SELVAGE_DROPIN_FAST=auto SELVAGE_RANKS_PER_NODE=1 SELVAGE_DROPIN_LONG_BYTES=256 \
        SELVAGE_DROPIN_FRAGMENT_BYTES=256
    random 2 "$seed" SELVAGE_DROPIN_FAST=auto SELVAGE_MESSAGE_BUFFER_BYTES=64K SELVAGE_DROPIN_POOL_BYTES=1M
done
# The program is right without the drop-in, where its device memory is memory of the host.
[ "$SELVAGE_DEVICE" != soft ] ||
    "$top_srcdir/scripts/run-mpi" -n 3 -t 240 "$top_builddir/tests/mpi/dropin_random" 1 60 >"$dir/out" 2>&1 ||
    { cat "$dir/out"; echo "FAIL: without the drop-in"; failed=1; }
exit "$failed"
