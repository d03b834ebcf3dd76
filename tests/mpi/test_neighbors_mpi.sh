#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Exchanges that neighbours commit without other ranks, over MPI: on one node, on several, by messages, and with memory
# that cannot be mapped.
set -eu
top_srcdir=${top_srcdir:-.}
program=${top_builddir:-.}/tests/mpi/neighbors_mpi
run() { bash "$top_srcdir/scripts/run-mpi" -n "$1" -t 240 "$program" "${@:2}"; }
run 6 mismatch
SELVAGE_RANKS_PER_NODE=2 run 6
SELVAGE_ROUTE=staged run 4
SELVAGE_ROUTE=direct run 3
SELVAGE_FAULT=map=2 run 4
