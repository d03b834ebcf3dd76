#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Collectives between nodes send exactly the messages and bytes that the model of their cost says: 2 to 64 ranks on
# nodes of 1, 2 and 4, fewer nodes than exchange pieces directly and more. The model is that of tests/long/coll_cost.py.
# COLL_COST_CPU=TIMES measures CPU time, too, in so many calls of each kind, and prints how far a fit is off.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
driver=${top_builddir:-.}/tests/mpi/coll_count
[ -x "$driver" ] && [ -n "${MPIRUN:-}" ] || { echo "SKIP: $driver is not built, or there is no launcher"; exit 77; }
command -v python3 >/dev/null || { echo "SKIP: no python3"; exit 77; }
if [ -n "${TEST_GPUS:-}" ]; then echo "SKIP: 64 ranks are for the software device"; exit 77; fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
for world in ${COLL_COST_WORLDS:-2:1 4:1 4:2 8:1 8:2 16:1 16:4 18:1 36:2 64:1 64:2 64:4}; do
    SELVAGE_RANKS_PER_NODE=${world#*:} RUN_MPI_SHARED=yes bash "$top_srcdir/scripts/run-mpi" -n "${world%:*}" -t 500 \
        "$driver" ${COLL_COST_CPU:+"CPU=$COLL_COST_CPU"} 8 1000 65536 1000000 >"$work/$world" 2>&1 ||
        { echo "FAIL: ranks, and ranks a node: $world"; tail -n 5 "$work/$world"; exit 1; }
done
[ -z "${COLL_COST_CPU:-}" ] || python3 "$top_srcdir/tests/long/coll_cost.py" cpu "$work"/*
python3 "$top_srcdir/tests/long/coll_cost.py" check "$work"/*
