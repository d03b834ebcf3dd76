#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# As test_amdgpu_weak.sh, for long: 50000 schedules for each architecture, and every mutation with up to 100 seeds, with
# a line for each. tests/amdgpu/README.md says why some of them survive.
set -u
top_srcdir=${top_srcdir:-.}
export WEAK_SEEDS=${WEAK_SEEDS:-50000} WEAK_STRIDE=${WEAK_STRIDE:-1} WEAK_TRIES=${WEAK_TRIES:-100} WEAK_TABLE=1
exec bash "$top_srcdir/tests/amdgpu/test_amdgpu_weak.sh"
