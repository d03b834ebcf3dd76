#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Instructions of an epoch of one packet each way, both ranks together, as valgrind counts them: the soft device inline,
# the local wire, one thread, so that every run counts alike. Compilers differ; a bound twice what one counted tells
# a path that became another.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
program=${top_builddir:-.}/tests/ranks/epoch_cost
[ -x "$program" ] || { echo "SKIP: $program is not built"; exit 77; }
[ -z "${SANITIZER:-}" ] || { echo "SKIP: sanitizers add instructions"; exit 77; }
command -v valgrind >/dev/null || { echo "SKIP: no valgrind"; exit 77; }
failed=0
instructions() { # ROUTE BYTES EPOCHS
    valgrind --tool=callgrind --toggle-collect=drive_epochs --callgrind-out-file=/dev/null "$program" "$@" 2>&1 |
        sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}
check() { # ROUTE BYTES BOUND
    local few many each
    few=$(instructions "$1" "$2" 50)
    many=$(instructions "$1" "$2" 100)
    each=$(((${many:-0} - ${few:-0}) / 50))
    echo "$1, $2 bytes: $each instructions an epoch (bound $3)"
    if [ "$each" -le 0 ] || [ "$each" -gt "$3" ]; then
        echo "FAIL: $1, $2 bytes"
        failed=1
    fi
}
check staged 64 35000
check staged 65536 1850000
check shared 64 25000
check shared 65536 1600000
check peer 64 25000
check peer 65536 1600000
exit "$failed"
