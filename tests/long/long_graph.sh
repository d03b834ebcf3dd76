#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A million replays of a captured halo, and of an all-reduce after each, with every cell looked at on the device; then a
# hundred thousand mixed with epochs that the host begins. On two ranks; GRAPH_EPOCHS and GRAPH_MIXED say otherwise.
set -eu
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
program=${top_builddir:-.}/tests/mpi/graph_mpi
[ -x "$program" ] || { echo "SKIP: $program is not built"; exit 77; }
bash "$top_srcdir/scripts/run-mpi" -n 2 -t 3600 "$program" "${GRAPH_EPOCHS:-1000000}" "${GRAPH_MIXED:-100000}"
