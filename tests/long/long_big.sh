#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# One packet of 2 GiB and 5 bytes, more than an int counts and an MPI message holds, on the staged, the direct and the
# peer route (there through landing slots and straight into a registered buffer), every byte compared; and 2 to 5 GiB
# in one call of each other kind (tests/long/long_large), within a node and between two. Needs 18 GiB of memory.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
driver=$top_builddir/tests/mpi/fault_driver
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -x "$driver" ] || { echo "SKIP: $driver is not built"; exit 77; }
available_kib=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo)
if [ "${available_kib:-0}" -lt $((18 * 1024 * 1024)) ]; then
    echo "SKIP: less than 18 GiB of memory are free"
    exit 77
fi
failed=0

# big ARGUMENT...
big() {
    bash "$top_srcdir/scripts/run-mpi" -n 2 -t 600 "$driver" --packets 1 --sides 1 --bytes 2147483653 --epochs 0 "$@" \
        >"$work/out" 2>"$work/err"
    local got=$?
    if [ "$got" -ne 0 ] || [ -s "$work/err" ] || ! grep -q 'of 4 packets, silent wrong elements 0' "$work/out"; then
        echo "FAIL: status $got: $*"
        cat "$work/out" "$work/err"
        failed=1
    fi
    echo "$*: $(sed -n 's/^rank 0: //p' "$work/out")"
}

big --route staged
big --route direct
big --route peer
big --route peer --registered 1
for ranks_per_node in 2 1; do
    SELVAGE_RANKS_PER_NODE=$ranks_per_node bash "$top_srcdir/scripts/run-mpi" -n 2 -t 1200 \
        "$top_builddir/tests/long/long_large" || { echo "FAIL: long_large, $ranks_per_node ranks a node"; failed=1; }
done
exit $failed
