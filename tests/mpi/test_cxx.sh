#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# selvage.hpp in a C++11 program: handles that own, errors that are thrown, and every class once, on 1 to 3 ranks.
# What the program asks for wrongly is logged, and is not shown.
set -u
top_srcdir=${top_srcdir:-.}
program=${top_builddir:-.}/tests/mpi/cxx_handles
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
for ranks in 1 2 3; do
    [ "$ranks" -lt 3 ] || [ -z "${BRIEF:-}" ] || break
    bash "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$program" >"$log" 2>&1
    status=$?
    if [ "$status" -ne 0 ] || ! grep -q '^rank 0: [0-9]* checks, 0 failed$' "$log"; then
        echo "on $ranks ranks: status $status"
        cat "$log"
        exit "$((status ? status : 1))"
    fi
    grep '^rank 0:' "$log"
done
