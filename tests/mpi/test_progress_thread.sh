#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The progress thread: rank 0's wait completes although rank 1 does not call Selvage between start and a wait that comes
# much later. Inline, the same program must run into the deadline, or this shows nothing. A thread without the thread
# level that MPI needs for it is refused. While nothing is under way the thread takes next to nothing of a core.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
driver=$top_builddir/tests/mpi/progress_driver
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -x "$driver" ] || { echo "SKIP: $driver is not built"; exit 77; }
runs=0 failed=0
# shellcheck source=tests/fixtures/direct_here.sh
. "$top_srcdir/tests/fixtures/direct_here.sh"

fail() {
    echo "FAIL: $*"
    cat "$work/out" "$work/err" | grep -v '^ *-[0-9]' | cut -c 1-400 | sed 's/^/    /'
    failed=$((failed + 1))
}

# drive LEVEL ROUTE TEXT...: every TEXT is on standard output once.
drive() {
    local got level=$1 route=$2 text
    shift 2
    runs=$((runs + 1))
    bash "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$driver" "$level" "$route" >"$work/out" 2>"$work/err"
    got=$?
    if [ "$got" -eq 77 ]; then echo "SKIP: this MPI has no MPI_THREAD_MULTIPLE"; exit 77; fi
    [ "$got" -eq 0 ] || fail "status $got: $level $route"
    for text in "$@"; do
        [ "$(grep -cE -- "$text" "$work/out")" -eq 1 ] || fail "not once '$text': $level $route"
    done
}
quiet() { if grep -q '\] \(warn\|error\):' "$work/err"; then fail "the log is not empty: $1"; fi; }

for route in peer shared staged $(direct_here); do
    SELVAGE_PROGRESS=thread SELVAGE_TIMEOUT_S=30 drive multiple $route 'rank 0: wait: SELVAGE_SUCCESS$' \
        'rank 1: wait: SELVAGE_SUCCESS$' 'rank 0: 0 bytes wrong' 'rank 1: 0 bytes wrong'
    quiet "thread, $route"
done
for route in peer staged; do
    SELVAGE_TIMEOUT_S=5 drive multiple $route 'rank 0: wait: SELVAGE_ERR_TIMEOUT' 'rank 1: wait: SELVAGE_ERR_'
done
SELVAGE_PROGRESS=thread drive plain staged \
    'rank 0: comm_create: SELVAGE_ERR_UNSUPPORTED: SELVAGE_PROGRESS is thread, .*MPI_THREAD_MULTIPLE' \
    'rank 1: comm_create: SELVAGE_ERR_UNSUPPORTED: SELVAGE_PROGRESS is thread, .*MPI_THREAD_MULTIPLE'

# 0.1 % is what the thread is to take with nothing under way; the bound is for a machine that is busy.
runs=$((runs + 1))
SELVAGE_PROGRESS=thread bash "$top_srcdir/scripts/run-mpi" -n 1 -t 240 "$top_builddir/tests/mpi/progress_cost" idle 1 \
    >"$work/out" 2>"$work/err" || fail "progress_cost"
awk '$1 == "idle_percent" { good = $2 > 0 && $2 < 1 } END { exit !good }' "$work/out" ||
    fail "1 % of a core or more while nothing is under way"

echo "test_progress_thread: $runs runs, $failed failed"
[ "$failed" -eq 0 ]
