#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The drop-in with types that are made for each call: what they cost, and what they move.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
failed=0 cases=${BRIEF:+34}
export SELVAGE_DROPIN_SYNC=auto SELVAGE_DROPIN_SYNC_MS=50000 # one program forgets to wait
run() { # RANKS PROGRAM ARGUMENT...
    local ranks=$1 program=$2
    shift 2
    "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$top_builddir/tests/mpi/$program" "$@" ||
        { echo "FAIL: $program $* with ${SELVAGE_DROPIN_POOL_BYTES:-all the memory it wants}"; failed=1; }
}
for ranks in 2 4; do # of one Open MPI 4.1 makes a crash of MPI_Alltoallw
    run "$ranks" dropin_faces
done
SELVAGE_DROPIN_POOL_BYTES=0 run 2 dropin_faces
export SELVAGE_DROPIN_SYNC=none # so that waits can be counted
run 2 dropin_types 1 "${cases:-100}"
SELVAGE_DROPIN_POOL_BYTES=1048576 run 2 dropin_types 2 "${cases:-100}"
exit "$failed"
