#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# As test_amdgpu_weak.sh, for long: 100000 schedules of the push and the pull for each architecture, 10000 of each other
# set (5000 of collectives in slots or lines), and every mutation with up to 5000 seeds, with a line for each. Of
# collectives in slots or lines, of which a schedule takes 0.2 s, every 40th mutation is tried, with up to 200 seeds.
# Each part says how many schedules it has run. tests/amdgpu/README.md says why some mutations survive.
set -u
top_srcdir=${top_srcdir:-.}
export WEAK_TABLE=1
stride=${WEAK_STRIDE:-1} tries=${WEAK_TRIES:-5000}
others="gather run run_pieces replay replay_pieces digest digests coll_small"
slow="coll_ll coll"
few=${WEAK_SEEDS:-10000} many=${WEAK_SEEDS:-100000} failed=0
run_sets() { # SETS SCHEDULES STRIDE TRIES
    WEAK_SETS=$1 WEAK_MUTATED=$1 WEAK_SEEDS=$2 WEAK_STRIDE=$3 WEAK_TRIES=$4 \
        bash "$top_srcdir/tests/amdgpu/test_amdgpu_weak.sh"
}
run_sets push "$many" "$stride" "$tries"
status=$?
[ "$status" -ne 77 ] || exit 77
[ "$status" -eq 0 ] || failed=1
run_sets "$others" "$few" "$stride" "$tries" || failed=1
run_sets "$slow" "$few" $((40 * stride)) $((tries < 200 ? tries : 200)) || failed=1
exit "$failed"
