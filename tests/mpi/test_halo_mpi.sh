#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Halos over MPI: every route, virtual nodes, the progress thread, numbers of ranks that do and do not divide the cells.
set -eu
top_srcdir=${top_srcdir:-.}
program=${top_builddir:-.}/tests/mpi/halo_mpi
halo() {
    bash "$top_srcdir/scripts/run-mpi" -n "$1" -t 240 "$program"
}
for ranks in 1 2 4 6; do halo "$ranks"; done
for route in shared staged; do SELVAGE_ROUTE=$route halo 3; done
SELVAGE_RANKS_PER_NODE=2 halo 4
SELVAGE_PROGRESS=thread halo 2
SELVAGE_SOFT_MODE=inline halo 2
# Several right-hand sides in one halo.
for ranks in 1 2 4; do bash "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "${program%/*}/halo_sides"; done
