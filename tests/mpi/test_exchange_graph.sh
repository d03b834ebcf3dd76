#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Exchanges whose packets are declared by a distributed graph of MPI, on one rank and more, beside MPI's own collective.
set -eu
top_srcdir=${top_srcdir:-.}
program=${top_builddir:-.}/tests/mpi/exchange_graph
for ranks in 1 2 5; do
    bash "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$program"
done
SELVAGE_RANKS_PER_NODE=2 bash "$top_srcdir/scripts/run-mpi" -n 4 -t 240 "$program"
# A fault that never comes about, for the wrapper that it puts around MPI.
SELVAGE_FAULT=never=9 bash "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$program"
