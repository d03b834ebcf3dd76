#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Graphs over MPI: halos and all-reduces replayed, and mixed with epochs that the host begins. GRAPH_EPOCHS of each
# (2000), with as many mixed.
set -eu
top_srcdir=${top_srcdir:-.}
program=${top_builddir:-.}/tests/mpi/graph_mpi
epochs=${GRAPH_EPOCHS:-2000}
replay() {
    bash "$top_srcdir/scripts/run-mpi" -n "$1" -t "${GRAPH_LIMIT_S:-240}" "$program" "$epochs" "${2:-$epochs}"
}
for ranks in 1 2 4; do replay "$ranks"; done
SELVAGE_CHECKSUM=off replay 2
