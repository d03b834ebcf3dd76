#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Graphs over MPI: halos and all-reduces replayed, and mixed with epochs that the host begins. GRAPH_EPOCHS of each
# (2000, with BRIEF 500), with as many mixed.
set -eu
top_srcdir=${top_srcdir:-.}
program=${top_builddir:-.}/tests/mpi/graph_mpi
epochs=${GRAPH_EPOCHS:-${BRIEF:+500}}
epochs=${epochs:-2000}
replay() {
    bash "$top_srcdir/scripts/run-mpi" -n "$1" -t "${GRAPH_LIMIT_S:-240}" "$program" "$epochs" "${2:-$epochs}"
}
# Ranks that share a GPU have no collectives. TEST_GPUS: how many there are, where tests run on them.
for ranks in 1 2 4; do
    [ "$ranks" -gt "${TEST_GPUS:-4}" ] || replay "$ranks"
done
[ "${TEST_GPUS:-2}" -lt 2 ] || SELVAGE_CHECKSUM=off replay 2
