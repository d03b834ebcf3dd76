#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What is not done between start and landed, counted on two ranks: every route, small segments so that packets wrap
# round their slots, with and without the progress thread, with and without threads in the device.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
program=${top_builddir:-.}/tests/mpi/test_hotpath
[ -x "$program" ] || { echo "SKIP: $program is not built"; exit 77; }
export SELVAGE_SEGMENT_BYTES=64K SELVAGE_RETRY_TIMEOUT_MS=60000
failed=0
count() { # WHAT ARGUMENT...
    local what=$1 text status
    shift
    text=$("$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$program" "$@" 2>&1)
    status=$?
    echo "$what: $text"
    if [ "$status" -ne 0 ] || grep -q -i selvage <<<"$text"; then
        echo "FAIL: $what"
        failed=1
    fi
}
count "inline progress"
SELVAGE_PROGRESS=thread count "progress thread" threads
SELVAGE_SOFT_MODE=inline count "inline device"
SELVAGE_CHECKSUM=off count "no checksums"
exit "$failed"
