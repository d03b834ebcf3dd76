#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The drop-in with more than 2 GiB in one call of each kind (tests/dropin_large.c), and a receive posted for 5 GiB;
# staged, and with the fast route open. Needs 16 GiB of memory.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}
top_builddir=${top_builddir:-.}
driver=$top_builddir/tests/dropin_large
[ -x "$driver" ] || { echo "SKIP: $driver is not built"; exit 77; }
available_kib=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo)
if [ "${available_kib:-0}" -lt $((16 * 1024 * 1024)) ]; then
    echo "SKIP: less than 16 GiB of memory are free"
    exit 77
fi
failed=0
export SELVAGE_DROPIN_SYNC_MS=600000
"$top_srcdir/scripts/run-mpi" -n 2 -t 1800 "$driver" many || { echo "FAIL: staged"; failed=1; }
SELVAGE_JOB=test "$top_srcdir/scripts/run-mpi" -n 2 -t 1800 "$driver" many || { echo "FAIL: the route open"; failed=1; }
exit "$failed"
