#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# doc/memory.md is true: two processes walk its tables on the device that is there, and a page with one cell changed is
# noticed. Then the same processes under the two refusals of containers: the routes are the ones that the page names.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
program=$top_builddir/tests/mpi/memory_kinds
page=$top_srcdir/doc/memory.md
[ -x "$program" ] || { echo "SKIP: $program is not built"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

# The large packets by the copy engine, the small ones by kernels, whatever the device would choose.
walk() {
    SELVAGE_KERNEL_PEER_MAX_BYTES=16K SELVAGE_LOG=none \
        "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$program" "$1" 2>&1
}

walk "$page" || { echo "FAIL: the page does not say what is"; failed=1; }

# One cell of each table, on a kind that every device has.
sed 's/^| `beyond`\(.*\)| split | split | split |/| `beyond`\1| freed | freed | freed |/' "$page" >"$dir/memory.md"
sed 's/^| `device` | yes | slab | mapped |/| `device` | yes | slab | refused |/' "$page" >"$dir/kind.md"
for changed in "$dir/memory.md" "$dir/kind.md"; do
    cmp -s "$page" "$changed" && { echo "FAIL: nothing was changed in ${changed##*/}"; failed=1; }
    walk "$changed" >"$dir/out" && { echo "FAIL: a wrong ${changed##*/} was not noticed"; failed=1; }
done

# fallback WHAT ROUTE: with mappings of that kind failing, packets go by that route; one line for the pair.
fallback() {
    local lines
    SELVAGE_FAULT=$1=1+,rank=1 "$top_srcdir/scripts/run-mpi" -n 2 -t 240 "$top_builddir/tests/mpi/fault_driver" \
        --epochs 3 --expect retry >"$dir/out" 2>&1 || { cat "$dir/out"; echo "FAIL: $1 fails"; failed=1; }
    lines=$(grep -c "memory of rank 0 cannot be mapped (injected fault: .*): its packets go by route $2 " "$dir/out")
    echo "$1 refused: $(grep -o 'its packets go by route [a-z]*' "$dir/out" | sort -u)"
    [ "$lines" -eq 1 ] && [ "$(grep -c ' cannot be mapped ' "$dir/out")" -eq 1 ] ||
        { cat "$dir/out"; echo "FAIL: $1: not one line"; failed=1; }
}
fallback ipc shared
fallback map staged
exit "$failed"
