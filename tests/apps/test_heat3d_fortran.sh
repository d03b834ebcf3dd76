#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The heat example in Fortran prints what the one in C prints, to the last digit and bit, on rank counts that divide the
# cube and that do not; and it refuses what makes no sense.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
example=$top_builddir/examples/heat3d_fortran reference=$top_builddir/examples/heat3d
for program in "$example" "$reference"; do
    [ -x "$program" ] || { echo "SKIP: $program is not built"; exit 77; }
done
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

# heat3d RANKS ARGUMENT...: both, with one output.
heat3d() {
    local ranks=$1 status
    shift
    "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$example" "$@" >"$dir/fortran" 2>"$dir/error"
    status=$?
    "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$reference" --device soft "$@" >"$dir/c" 2>>"$dir/error"
    if [ "$status" -eq 0 ] && grep -q ': right$' "$dir/fortran" && cmp -s "$dir/fortran" "$dir/c" &&
        ! grep -q 'selvage' "$dir/error"; then
        return
    fi
    echo "FAIL: status $status on $ranks ranks: $*"
    diff "$dir/fortran" "$dir/c"
    cat "$dir/error"
    failed=1
}

if [ "${BRIEF:-}" = yes ]; then
    heat3d 3 --n 6
    exit "$failed"
fi
for ranks in 1 2 3 4; do heat3d "$ranks" --n 8; done
heat3d 5 --n 6 --steps 3
for wrong in '--n 3' '--n' '--steps 0' '--steps x' '--cells 8'; do
    # shellcheck disable=SC2086  # two words
    "$top_srcdir/scripts/run-mpi" -n 1 -t 240 "$example" $wrong >"$dir/fortran" 2>&1
    status=$?
    [ "$status" -eq 2 ] && grep -q '^usage' "$dir/fortran" || { echo "FAIL: status $status: $wrong"; failed=1; }
done
exit "$failed"
