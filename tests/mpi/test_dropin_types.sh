#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The drop-in with types that are made for each call: what they cost, and what they move.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
failed=0
export SELVAGE_DROPIN_SYNC=none # the wait that the program may have forgotten is another test's
run() { # RANKS PROGRAM ARGUMENT...
    local ranks=$1 program=$2
    shift 2
    "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 60 "$top_builddir/tests/mpi/$program" "$@" ||
        { echo "FAIL: $program $* with ${SELVAGE_DROPIN_POOL_BYTES:-all the memory it wants}"; failed=1; }
}
run 2 dropin_types 1 100
SELVAGE_DROPIN_POOL_BYTES=1048576 run 2 dropin_types 2 100
exit "$failed"
