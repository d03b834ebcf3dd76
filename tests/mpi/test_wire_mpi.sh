#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The MPI wire alone, with a neighbour, with more ranks than neighbours, and with MPI initialised for threads.
set -eu
top_srcdir=${top_srcdir:-.}
program=${top_builddir:-.}/tests/mpi/test_wire_mpi
for ranks in 1 2 5; do
    bash "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$program"
done
bash "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$program" multiple
