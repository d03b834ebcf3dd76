#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Grids over MPI: from Cartesian communicators, and reordered on virtual nodes, with the bytes that cross them.
set -eu
top_srcdir=${top_srcdir:-.}
program=${top_builddir:-.}/tests/mpi/grid_cart
for ranks in 1 4 6; do
    bash "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$program"
done
SELVAGE_RANKS_PER_NODE=4 bash "$top_srcdir/scripts/run-mpi" -n 8 -t 240 "$program"
# A fault that never comes about, for the wrapper that it puts around MPI.
SELVAGE_FAULT=never=9 bash "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$program"
