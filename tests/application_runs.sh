# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# For the test scripts of applications, which name theirs in $name before they read this: where it is, a folder for
# files, and how it is run. BRIEF: few variants are enough, because another pass runs them all.

set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}
top_builddir=${top_builddir:-.}
example=$top_builddir/examples/$name
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -x "$example" ] || { echo "SKIP: $example is not built"; exit 77; }
runs=0 failed=0

fail() {
    echo "FAIL: $*"
    sed 's/^/    /' "$work/out"
    failed=$((failed + 1))
}

# application RANKS WANTED_STATUS WANTED_TEXT ARGUMENT...: what it prints is in $work/out. No run has a warning on the
# log, and one that succeeds nothing at all.
application() {
    local ranks=$1 status=$2 text=$3 got
    shift 3
    runs=$((runs + 1))
    "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$example" "$@" >"$work/out" 2>&1
    got=$?
    if [ "$got" -ne "$status" ] || ! grep -q -- "$text" "$work/out" ||
        grep -q '^selvage\[[^]]*\] warn' "$work/out" ||
        { [ "$status" -eq 0 ] && grep -q '^selvage\[' "$work/out"; }; then
        fail "status $got on $ranks ranks, wanted $status and '$text': $*"
    fi
}

finish() {
    echo "test_$name: $runs runs, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}
