#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Machine code for AMD GPUs, executed for long: what test_amdgpu.sh and test_amdgpu_bodies.sh run, with every systematic
# case of the collectives and many random ones, and one table of what share of the code has run.
set -u
top_srcdir=${top_srcdir:-.}
top_builddir=${top_builddir:-.}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset BRIEF
export AMDGPU_COVERAGE=$work
export AMDGPU_CASES=${AMDGPU_CASES:-200} AMDGPU_STRIDE=${AMDGPU_STRIDE:-1} AMDGPU_BITS=${AMDGPU_BITS:-10000}
failed=0 skipped=0
for script in tests/mpi/test_amdgpu.sh tests/amdgpu/test_amdgpu_bodies.sh; do
    bash "$top_srcdir/$script"
    case $? in
    0) ;;
    77) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) ;;
    esac
done
[ "$failed" -eq 0 ] || exit 1
[ "$skipped" -lt 2 ] || exit 77
