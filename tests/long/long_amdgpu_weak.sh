#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# As test_amdgpu_weak.sh, for long: 100000 schedules of the push and the pull for each architecture, 10000 of each other
# set (5000 of collectives in slots or lines), and every mutation with up to 5000 seeds, with a line for each.
# tests/amdgpu/README.md says why some survive.
set -u
top_srcdir=${top_srcdir:-.}
export WEAK_STRIDE=${WEAK_STRIDE:-1} WEAK_TRIES=${WEAK_TRIES:-5000} WEAK_TABLE=1
others="gather run run_pieces replay replay_pieces digest digests coll_small coll_ll coll"
few=${WEAK_SEEDS:-10000} many=${WEAK_SEEDS:-100000} failed=0
WEAK_SETS=push WEAK_SEEDS=$many bash "$top_srcdir/tests/amdgpu/test_amdgpu_weak.sh"
status=$?
[ "$status" -ne 77 ] || exit 77
[ "$status" -eq 0 ] || failed=1
WEAK_SETS=$others WEAK_MUTATED=$others WEAK_SEEDS=$few \
    bash "$top_srcdir/tests/amdgpu/test_amdgpu_weak.sh" || failed=1
exit "$failed"
