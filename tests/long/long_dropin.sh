#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The drop-in with more than 2 GiB in one call of each kind (tests/mpi/dropin_large.c), and a receive posted for 5 GiB;
# staged, and with the fast route open. Needs 18 GiB of memory.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
driver=$top_builddir/tests/mpi/dropin_large
[ -x "$driver" ] || { echo "SKIP: $driver is not built"; exit 77; }
available_kib=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo)
if [ "${available_kib:-0}" -lt $((18 * 1024 * 1024)) ]; then
    echo "SKIP: less than 18 GiB of memory are free"
    exit 77
fi
failed=0
export SELVAGE_DROPIN_SYNC=auto SELVAGE_DROPIN_SYNC_MS=600000 SELVAGE_DROPIN_POOL_BYTES=256M
# A job for each kind, so that staging memory that is kept does not add up.
kinds="types nonblocking probed gathers alltoall window file reductions pack"
# large WHAT [VARIABLE=VALUE]
large() {
    local what=$1 kind
    shift
    for kind in $kinds; do
        env "$@" "$top_srcdir/scripts/run-mpi" -n 2 -t 1800 "$driver" many "$kind" ||
            { echo "FAIL: $what: $kind"; failed=1; }
    done
}
large staged
large "the route open" SELVAGE_JOB=test
exit "$failed"
