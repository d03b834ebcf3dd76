#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The library's own host memory per rank, of communicators whose ranks are all on different (virtual) nodes: what a
# communicator of collectives keeps grows by at most 64 B with each rank, and so does what a call takes for a while, and
# what is there while one is made, or split. MPI's memory is not in these numbers: the last row is how the whole process
# grows. COLL_MEMORY_RANKS says how many ranks (16 32), in ascending order; a machine with more cores may take
# "64 128 256 512". Below 16 ranks messages grow, too, which are of bounded length from there.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
driver=${top_builddir:-.}/tests/mpi/coll_memory
[ -x "$driver" ] && [ -n "${MPIRUN:-}" ] || { echo "SKIP: $driver is not built, or there is no launcher"; exit 77; }
read -r -a counts <<<"${COLL_MEMORY_RANKS:-16 32}"
if [ -n "${TEST_GPUS:-}" ] && [ "$TEST_GPUS" -lt "${counts[-1]}" ]; then echo "SKIP: too few GPUs"; exit 77; fi
export SELVAGE_RANKS_PER_NODE=1 SELVAGE_DEVICE=${SELVAGE_DEVICE:-soft}
lines=
for ranks in "${counts[@]}"; do
    line=$(RUN_MPI_SHARED=yes bash "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 500 "$driver" 2>&1) ||
        { echo "FAIL: $ranks ranks: $line"; exit 1; }
    lines+=$(grep '^memory ' <<<"$line")$'\n'
done
printf '%s' "$lines"
awk 'BEGIN { split("communicator collectives making all_reduce all_gather all_to_all split", name)
             split("64 64 64 64 64 64 64", most) }
     NR > 1 { for (i = 1; i <= 7; i++) {
                  grows = ($(i + 2) - last[i]) / ($2 - ranks)
                  printf "%s, from %d to %d ranks: %.0f B for each\n", name[i], ranks, $2, grows
                  if (grows > most[i]) { printf "FAIL: at most %d wanted\n", most[i]; failed = 1 }
                  compared++ }
              grows = ($10 - all) / ($2 - ranks)
              printf "whole process, with MPI, from %d to %d ranks: %.0f B for each\n", ranks, $2, grows }
     { ranks = $2; all = $10; for (i = 1; i <= 7; i++) last[i] = $(i + 2) }
     END { exit failed || compared == 0 }' <<<"${lines%$'\n'}"
