#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Packets of random datatypes and lists of elements by every route, beside MPI on host buffers: with the device's choice
# of what kernels copy, and with almost everything in segments through copy engines. Nothing may be on the log. Then
# what is refused.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

# route RANKS ROUTE SEED CASES [VARIABLE=VALUE...]
route() {
    local ranks=$1 route=$2 seed=$3 cases=$4
    shift 4
    env "$@" "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$top_builddir/tests/mpi/datatype_exchange" \
        "$route" "$seed" "$cases" >"$dir/out" 2>&1 && ! grep -q '^selvage\[' "$dir/out" ||
        { cat "$dir/out"; echo "FAIL: $route, $ranks ranks, seeds from $seed, $*"; failed=1; }
}
pieces=(SELVAGE_SEGMENT_BYTES=4K SELVAGE_KERNEL_COPY_MAX_BYTES=512 SELVAGE_KERNEL_PEER_MAX_BYTES=512)
route 1 self 100 10
route 1 self 200 10 "${pieces[@]}"
for name in peer shared staged; do
    route 2 "$name" 300 12
    route 3 "$name" 400 8
    route 2 "$name" 500 10 "${pieces[@]}"
done

SELVAGE_LOG=none "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$top_builddir/tests/mpi/datatype_refuse" ||
    { echo "FAIL: what is refused"; failed=1; }
[ "$failed" -ne 0 ] || echo "every route gave what MPI gives"
exit "$failed"
